// Simulates a throw and carries the gradient of where it lands back to the start: the adjoint, by hand. The answers are
// known: x_T = 2.5 * 3 = 7.5 m, the loss ½ (x_T - 6)² is 1.125, its gradient with respect to the start velocity is
// (x_T - 6) T = 4.5. Next: 03_lqr.cc; the functions are described in include/costate/rollout.h.
//
// Prints:
//   lands at x = 7.500 m, loss 1.1250
//   gradient with respect to the start velocity: 4.5000 0.0000
//   descent 1: vx 2.2750, lands at 6.8250 m
//   descent 2: vx 2.1512, lands at 6.4537 m
//   descent 3: vx 2.0832, lands at 6.2496 m
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

int main() {
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/projectile/projectile.xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "throw");
  costate::Simulator simulator(model.get(), costate::GetContext(model.get(), data.get()));
  costate::VectorXd x0 = costate::GetState(model.get(), data.get());  // x, z, vx, vz
  const costate::MatrixXd U = costate::MatrixXd::Zero(model->nu, 300);

  costate::Trajectory trajectory;
  for (int descent = 0; descent <= 3; ++descent) {
    simulator.Rollout(x0, U, &trajectory);
    const double x_end = trajectory.X(0, 300);
    if (descent > 0) std::printf("descent %d: vx %.4f, lands at %.4f m\n", descent, x0[2], x_end);

    // lambda_T = dloss/dx_T, then backwards: lambda_t = Aᵀ lambda_{t+1}
    std::vector<costate::StepDerivative> steps;
    simulator.Linearize(trajectory, {.sensors = false}, &steps);
    costate::VectorXd lambda = costate::VectorXd::Unit(4, 0) * (x_end - 6);
    for (int t = 299; t >= 0; --t) lambda = steps[t].A.transpose() * lambda;

    if (descent == 0) {
      std::printf("lands at x = %.3f m, loss %.4f\n", x_end, 0.5 * (x_end - 6) * (x_end - 6));
      std::printf("gradient with respect to the start velocity: %.4f %.4f\n", lambda[2], std::abs(lambda[3]));
    }
    x0.tail(2) -= 0.05 * lambda.tail(2);
  }
}
