// A residual that no task file can say, in C++: the feet's heights follow the phase of a gait. The task file names it,
// <cost callback="gait" reads="FL RL FR RR" …/>, and says norm and weight; what it computes stands here, with its
// Jacobian. The same works from C: costate_register_residual. Described in include/costate/residual.h.
//
// Prints:
//   its Jacobian fits its values: yes
//   the cost of the gait falls: yes
//   a foot leaves the ground: yes
#include <costate/costate.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace {

constexpr double kCadence = 4, kAmplitude = 0.03, kDuty = 0.5,
                 kRadius = 0.02;                         // Hz, m, part of a cycle on the ground, m
constexpr std::array<double, 4> kPhase{0, 0.5, 0.5, 0};  // FL RL FR RR: diagonal pairs

// how high a foot shall be: half a cosine in its swing, 0 on the ground
double StepHeight(double time, double phase) {
  const double angle = std::remainder(2 * std::numbers::pi * (kCadence * time - phase), 2 * std::numbers::pi);
  const double swing = 0.5 * angle / (1 - kDuty);
  return std::abs(swing) < std::numbers::pi / 2 ? kAmplitude * std::cos(swing) : 0;
}

costate::ResidualCallback Gait() {
  costate::ResidualCallback gait;
  gait.size = 4;
  gait.value = [](const costate::ResidualInput& in, Eigen::Ref<costate::VectorXd> r) {
    for (int foot = 0; foot < 4; foot++) r[foot] = in.measured[foot] - kRadius - StepHeight(in.time, kPhase[foot]);
  };
  gait.jacobian = [](const costate::ResidualInput&, costate::ResidualJacobian* J) { J->measured.setIdentity(); };
  return gait;
}

double CostOfGait(const costate::Task& task, const costate::Trajectory& motion) {
  return task.cost->Terms(motion)[0].value;
}

}  // namespace

int main() {
  costate::RegisterResidual("gait", Gait());
  const costate::Task task = costate::LoadTask(COSTATE_MODELS "/../examples/trot.xml");

  // before a solver trusts it
  const costate::SlopeCheck check = costate::CheckSlopes(task.ToProblem(), task.U_guess);
  std::printf("its Jacobian fits its values: %s\n", check.agrees() ? "yes" : check.Text().c_str());

  costate::IlqrOptions options = task.solver;
  options.iterations = 40;
  const costate::SolveResult result = costate::SolveIlqr(task.ToProblem(), task.U_guess, options);
  costate::Simulator simulator(task.model.get(), task.context, task.substeps);
  costate::Trajectory standing;
  simulator.Rollout(task.x0, task.U_guess, &standing);
  const costate::MatrixXd& S = result.trajectory.S;
  const int foot = task.model->sensor_adr[mj_name2id(task.model.get(), mjOBJ_SENSOR, "FL")] + 2;
  std::printf("the cost of the gait falls: %s\n",
              CostOfGait(task, result.trajectory) < 0.7 * CostOfGait(task, standing) ? "yes" : "no");
  std::printf("a foot leaves the ground: %s\n", S.row(foot).maxCoeff() > kRadius + 0.01 ? "yes" : "no");
}
