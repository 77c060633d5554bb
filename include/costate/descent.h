// Gradient descent on whatever a task names: controls, start, physical parameters; parameters fitted to a motion.
#ifndef COSTATE_DESCENT_H_
#define COSTATE_DESCENT_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/adjoint.h>
#include <costate/task.h>

namespace costate {

enum class DescentMethod {
  kGradient,  ///< z ← z − rate · gradient
  kLbfgs,     ///< limited-memory BFGS
  kGaussNewton,  ///< Levenberg–Marquardt: (JᵀWJ + λ diag) d = −g; of starts, parameters, policies
  kAdam,  ///< Kingma & Ba 2015: steps of about `rate`, whatever the gradient's size; for losses that jump or are noisy
};

const char* ToString(DescentMethod method);  ///< "gd", "lbfgs", "gauss-newton", "adam"

struct DescentOptions {
  DescentMethod method = DescentMethod::kLbfgs;
  int iterations = 100;
  double rate = 0;  ///< of kGradient: fixed, no line search; 0: Armijo line search. Of kAdam: in typical sizes; 0: 0.03
  int memory = 10;  ///< pairs that L-BFGS keeps
  double tolerance = 1e-14;  ///< stop when the relative decrease of the loss stays below it three times running
  double floor = 1e-24;      ///< a loss no larger than that is rounding: stop, whatever its gradient says
  /// Slopes of a model with smoother contact along the true motions; losses are always the true model's. Not with
  /// parameters.
  SmoothContact smooth{};
  double gradient_tolerance = 1e-9;  ///< stop when max |projected gradient| has shrunk to this share of the first one
};

struct DescentResult {
  SolveStatus status = SolveStatus::kIterationLimit;
  std::string message;  ///< one sentence with the numbers that decided
  double loss = 0, initial_loss = 0;
  double gradient_norm = 0;  ///< max |projected gradient| at the end
  VectorXd x0, theta;        ///< the best start and parameters; `parameters` has the same values
  MatrixXd U;
  RolloutGradient gradient;                 ///< there
  std::vector<IterationRecord> iterations;  ///< the first is the guess
  MatrixXd history;                         ///< parameters (nθ), one iteration a column
};

/// Called after each iteration, first with the guess, and with the parameters; false stops with kInterrupted.
using DescentCallback = std::function<bool(const IterationRecord&, ConstVectorRef theta)>;

/// Minimizes a task's loss over task.inputs: controls within their ranges, the start within those of limited hinges,
/// slides and activations (beyond them no further than it begins), parameters within their bounds.
///
/// By kGaussNewton and where a target is a motion over time, a loss above options.floor is minimized once more from the
/// guess over the first eighth of the knots, a quarter, half and all of them, with as many iterations again, and the
/// lower loss counts: over a long motion a fit has many minima. Their records have the best loss of the whole motion.
///
/// @param parameters  what `task.inputs.parameters` names (MakeParameters), at the values to begin with; null when it
///                    names none. It ends with the best values.
/// @throws Error{kInvalidArgument} for an option out of range or when there is nothing to change; as MakeSmoothModel.
/// Error{kUnsupported}: kGaussNewton of controls, by smoothed slopes or of a model with delays.
/// Cost: an iteration is one gradient and a rollout for each step length that is tried; of kGaussNewton N Linearize
/// more. Source: plugin/optimizer/README.md, "First order".
DescentResult Descend(const Task& task, ParameterSet* parameters, const DescentOptions& options = {},
                      const DescentCallback& callback = {});

/// What Descend refuses, before it begins.
void CheckDescent(const Task& task, const ParameterSet* parameters, const DescentOptions& options);

}  // namespace costate

#endif  // COSTATE_DESCENT_H_
