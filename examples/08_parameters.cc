// Were we on the Moon? A film of a falling ball, its gradient by gravity, and gravity from a descent along it.
// Parameters are numbers of the model by name (include/costate/parameter.h); the descent is described in
// include/costate/descent.h.
//
// Prints:
//   guess: 9.81 m/s², loss 11.6964, d loss / d gravity -2.8563
//   option/gravity[2] = -1.620000 m/s² after 2 iterations, loss 0.0000
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

int main() {
  // the task names the film, and the number of the model that is not believed: <parameter name="option/gravity[2]"/>
  const costate::Task task = costate::LoadTask(COSTATE_MODELS "/../examples/known_answers/moon/task.xml");
  const std::unique_ptr<costate::ParameterSet> parameters = costate::MakeParameters(task);

  // one gradient; simulate and differentiate with the set's own model: it follows the parameters
  costate::Adjoint adjoint(parameters->model(), task.context, task.substeps);
  costate::RolloutGradient gradient;
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, {.parameters = parameters.get()}, &gradient);
  std::printf("guess: %.2f m/s², loss %.4f, d loss / d gravity %.4f\n", -parameters->Get()[0], gradient.loss,
              gradient.theta[0]);

  // L-BFGS within the parameter's bounds
  const costate::DescentResult result = costate::Descend(task, parameters.get());
  std::printf("%s = %.6f %s after %d iterations, loss %.4f\n", (*parameters)[0].name.c_str(), result.theta[0],
              (*parameters)[0].unit.c_str(), result.iterations.back().iteration, result.loss);
}
