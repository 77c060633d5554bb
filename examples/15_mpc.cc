// Plans inside a loop of one's own: the robot is moved here, by mj_step or by whatever moves yours, and asked about once
// a control interval; the goal moves on the way. This is what `costate mpc` does with a robot of its own. The functions
// are described in include/costate/mpc.h; from C and ctypes they are costate_make_mpc, costate_mpc_start and
// costate_mpc_control.
//
// Prints:
//   where the goal was: within 2 cm
//   where it is now:    within 2 cm
//   plans followed: yes
#include <costate/costate.h>

#include <cstdio>
#include <utility>

namespace {

// [m] from the arm's tip to a place
double Miss(const mjModel* m, const mjData* d, const Eigen::Vector3d& place) {
  return mju_dist3(d->site_xpos + 3 * mj_name2id(m, mjOBJ_SITE, "tip"), place.data());
}

void Say(const char* where, double miss) {
  if (miss < 0.02) {
    std::printf("%s within 2 cm\n", where);
  } else {
    std::printf("%s %.1f mm off\n", where, 1e3 * miss);
  }
}

}  // namespace

int main() {
  // plans are made in Control: the same motion every time. Without that option a thread makes them while a robot moves
  // in real time, and Control returns at once
  costate::Task task = costate::LoadTask(COSTATE_MODELS "/arm/reach.xml");
  task.mpc.horizon = 0.3;
  costate::MpcController mpc(std::move(task), {.threads = false});

  // your own model and data, of the same joints and controls; sensors and all that stands about may differ
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/arm/arm.xml");
  mjModel* m = model.get();
  const costate::DataPtr data = costate::MakeData(m);
  mjData* d = data.get();
  costate::SetState(m, d, mpc.task().x0);
  if (!mpc.Start(m, d)) return std::fprintf(stderr, "%s\n", mpc.Report().first_plan.c_str()), 1;

  const Eigen::Vector3d before = mpc.goals().Place(0), after = before + Eigen::Vector3d(-0.1, 0, 0.15);
  for (int go = 0; go < 2; ++go) {
    if (go == 1) mpc.goals().Move(0, after);
    for (const double end = d->time + 2; d->time < end;) {
      mju_copy(d->ctrl, mpc.Control(d).data(), static_cast<int>(m->nu));
      mj_step(m, d);
    }
    mj_forward(m, d);
    Say(go == 0 ? "where the goal was:" : "where it is now:   ", Miss(m, d, go == 0 ? before : after));
  }
  const costate::MpcReport report = mpc.Report();
  std::printf("plans followed: %s\n", report.plans > 0 && report.plans_taken == report.plans + 1 ? "yes" : "no");
}
