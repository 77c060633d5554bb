// Balances the cart-pole with linear feedback: linearize at the upright state, solve the Riccati recursion, simulate
// with u = K (x - x_goal). Next: 04_optimize.cc; the recursion is described in include/costate/lqr.h.
//
// Prints:
//   gains: 9.3 74.3 11.4 17.5
//   time 0 s: cart  0.300 m, pole  0.350 rad
//   time 1 s: cart  0.754 m, pole -0.070 rad
//   time 2 s: cart  0.175 m, pole  0.041 rad
//   time 3 s: cart -0.001 m, pole  0.016 rad
//   time 4 s: cart -0.012 m, pole  0.002 rad
#include <costate/costate.h>

#include <cstdio>

int main() {
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/cartpole/cartpole.xml");
  const costate::DataPtr upright = costate::MakeDataAtKey(model.get(), "upright");
  const costate::StepDerivative step = costate::Linearize(model.get(), upright.get());
  const costate::VectorXd x_goal = costate::GetState(model.get(), upright.get());

  // 500 equal knots: long enough for the first gain to be the stationary one
  costate::LqKnot knot;
  knot.A = step.A;
  knot.B = step.B;
  knot.lx = costate::VectorXd::Zero(4);
  knot.lu = costate::VectorXd::Zero(1);
  knot.lxx = costate::VectorXd{{1, 10, 0.1, 0.1}}.asDiagonal();  // cart, pole, their speeds
  knot.lux = costate::MatrixXd::Zero(1, 4);
  knot.luu = costate::MatrixXd::Identity(1, 1) * 0.01;
  const costate::LqProblem problem{std::vector<costate::LqKnot>(500, knot), knot.lx, knot.lxx};
  costate::RiccatiResult riccati;
  costate::SolveRiccati(problem, {}, &riccati);
  const costate::MatrixXd K = riccati.K[0];
  std::printf("gains: %.1f %.1f %.1f %.1f\n", K(0, 0), K(0, 1), K(0, 2), K(0, 3));

  // from a tilt of 20 degrees, on the full model
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "tilted");
  costate::VectorXd x = costate::GetState(model.get(), data.get()), no_sensors;
  for (int t = 0; t <= 400; ++t) {
    if (t % 100 == 0) std::printf("time %.0f s: cart %6.3f m, pole %6.3f rad\n", t * model->opt.timestep, x[0], x[1]);
    const costate::VectorXd u = K * costate::Difference(model.get(), x, x_goal);
    costate::Step(model.get(), data.get(), x, u, 1, x, no_sensors);
  }
}
