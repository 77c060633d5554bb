// Gradients through many steps in a framework's own operation, from C or ctypes: costate_rollout_forward simulates, the
// framework differentiates its loss by the states, costate_rollout_backward takes that back to controls, start and
// numbers of the model. Here the framework is a line of arithmetic, and descends on a mass that moves as was measured.
// The functions are described in include/costate/costate_c.h.
//
// Prints:
//   the pendulum weighs 1.100 kg, the measured one 1.650 kg
//   after 9 steps it weighs 1.650 kg and goes where that one goes: yes
#include <costate/costate_c.h>
#include <mujoco/mujoco.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kSteps = 100;
char error[500];

int Fail() { return std::fprintf(stderr, "%s\n", error), 1; }

}  // namespace

int main() {
  mjModel* m = mj_loadXML(COSTATE_MODELS "/pendulum/pendulum.xml", nullptr, error, sizeof error);
  if (!m) return Fail();
  mjData* d = mj_makeData(m);
  const char* parameter = "body:rod/scale";
  costate_rollout* rollout = costate_make_rollout(m, d, 1, &parameter, 1, error, sizeof error);
  if (!rollout) return Fail();

  // what another pendulum did under these controls
  const mjtNum x0[2] = {0.5, 0}, mass = mj_getTotalmass(m), heavier = 1.5;
  const std::vector<mjtNum> U(kSteps, 0.5);
  std::vector<mjtNum> measured(2 * (kSteps + 1)), X(measured.size()), X_bar(measured.size());
  if (costate_rollout_set_parameters(rollout, &heavier, error, sizeof error) ||
      costate_rollout_forward(rollout, x0, U.data(), kSteps, measured.data(), nullptr, error, sizeof error)) {
    return Fail();
  }
  std::printf("the pendulum weighs %.3f kg, the measured one %.3f kg\n", mass, mass * heavier);

  // forward, L = ½ |X − measured|², backward; secant steps on its slope by the factor on the mass
  mjtNum theta = 1, theta_bar = 0, last = 0, slope = 0, L = 1;
  int steps = 0;
  for (; steps < 20 && L > 1e-12; steps++) {
    if (costate_rollout_set_parameters(rollout, &theta, error, sizeof error) ||
        costate_rollout_forward(rollout, x0, U.data(), kSteps, X.data(), nullptr, error, sizeof error)) {
      return Fail();
    }
    L = 0;
    for (std::size_t i = 0; i < X.size(); i++) {
      X_bar[i] = X[i] - measured[i];
      L += 0.5 * X_bar[i] * X_bar[i];
    }
    if (costate_rollout_backward(rollout, X_bar.data(), nullptr, nullptr, nullptr, &theta_bar, error, sizeof error)) {
      return Fail();
    }
    const mjtNum next = steps == 0 ? theta + 0.1 : theta - theta_bar * (theta - last) / (theta_bar - slope);
    last = theta;
    slope = theta_bar;
    theta = next;
  }
  std::printf("after %d steps it weighs %.3f kg and goes where that one goes: %s\n", steps, mass * theta,
              L <= 1e-12 ? "yes" : "no");
  costate_delete_rollout(rollout);
  mj_deleteData(d);
  mj_deleteModel(m);
}
