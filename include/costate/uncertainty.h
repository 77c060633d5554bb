// How well a recorded motion determines what was fitted to it: standard errors, and what it cannot tell apart.
#ifndef COSTATE_UNCERTAINTY_H_
#define COSTATE_UNCERTAINTY_H_

#include <string>
#include <vector>

#include <costate/task.h>

namespace costate {

/// A change of the inputs that the measurements do not see, or less than its own size.
struct UndeterminedDirection {
  VectorXd change;       ///< of each input, in its unit; the largest is one typical size
  double deviation = 0;  ///< standard error along it, in multiples of `change`; infinity: nothing measured moves
};

/// What a fit leaves open. Inputs are the task's entries of the start, then its parameters.
struct FitUncertainty {
  std::string why_not;  ///< where there is no estimate, the reason; else empty
  bool is_fit = false;  ///< numbers or a start were fitted to a motion, without controls: an estimate is expected
  int residuals = 0;    ///< n, numbers that were compared
  /// Of what is left, from one knot to the next: mean over the compared entries, each by its part of the loss. Near 0 it
  /// is noise, near 1 what the model does not do.
  double correlation = 0;
  VectorXd deviation;   ///< standard errors, in the unit of each; infinity: undetermined; NaN: held at a bound
  MatrixXd covariance;  ///< of the determined ones; zero in the rows and columns of others
  std::vector<UndeterminedDirection> undetermined;
};

/// The covariance of a least-squares fit about its minimum, from what it leaves:
///
///   cov = n/(n − p) H⁻¹ G H⁻¹,   H = Σ c w JᵀJ,   G = Σ c² w² σ² (1 + ρ)/(1 − ρ) JᵀJ
///
/// with J the derivative of each compared number by the inputs, through the whole motion; σ² and ρ the mean square of
/// its entry's residuals and their correlation from knot to knot (0 where it is negative or within two standard errors
/// of none). Typical sizes are those of a descent: a parameter's first value, else 1.
///
/// @param parameters  as of Descend, at the values that were found.  @param x0, U  the motion that was found.
/// @throws Error{kInvalidArgument} for other parameters than the task's; as Tangent::Push. Inputs that are controls or
/// all stand at bounds, norms other than quadratic, targets that are no motion, too few numbers and models without
/// tangents (delays) are a `why_not`.
/// Cost: N Linearize.  Source: plugin/optimizer/README.md, (8b); Newey & West 1987.
FitUncertainty EstimateUncertainty(const Task& task, const ParameterSet* parameters, ConstVectorRef x0,
                                   ConstMatrixRef U);

}  // namespace costate

#endif  // COSTATE_UNCERTAINTY_H_
