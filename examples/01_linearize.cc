// Loads a model and prints how one step depends on the state and the control. Next: 02_gradient.cc; the functions are
// described in include/costate/derivative.h.
//
// Prints:
//   A =
//      0.998 0.009992
//     -0.198   0.9992
//   B =
//   0.0003844
//     0.03844
//   after mj_forward the same: yes
#include <costate/costate.h>

#include <iostream>

int main() {
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/pendulum/pendulum.xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "hang");
  const costate::StepDerivative step = costate::Linearize(model.get(), data.get());
  const Eigen::IOFormat digits(4);
  std::cout << "A =\n" << step.A.format(digits) << "\nB =\n" << step.B.format(digits) << "\n";

  // in a loop that calls mj_forward anyway: its numbers are not computed again, nor is memory taken
  costate::Linearizer linearizer(model.get());
  costate::StepDerivative after;
  mj_forward(model.get(), data.get());
  linearizer.LinearizeAfterForward(data.get(), &after);
  std::cout << "after mj_forward the same: " << (after.A.isApprox(step.A, 1e-9) ? "yes" : "no") << "\n";
}
