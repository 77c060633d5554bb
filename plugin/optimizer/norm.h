// Norms of residuals by word, with MuJoCo MPC's formulas; plugin/optimizer/README.md has the table.
#ifndef COSTATE_OPTIMIZER_NORM_H_
#define COSTATE_OPTIMIZER_NORM_H_

#include <costate/types.h>

#include <string>
#include <vector>

namespace costate {

enum class NormType { kQuadratic, kL2, kL22, kCosh, kPower, kSmoothAbs, kSmoothAbs2, kRectify, kHuber, kHinge };

/// A norm and its parameters. Every norm is convex in r, hence its curvature is never negative.
struct Norm {
  NormType type = NormType::kQuadratic;
  double p = 0, q = 0;

  /// False for l2 and l22, which depend on ‖r‖ and not on the components one by one.
  bool IsSeparable() const { return type != NormType::kL2 && type != NormType::kL22; }
};

/// ρ(r), ρ'(r) and the curvature used for Gauss–Newton: ρ''(r) ≥ 0; for huber beyond p the majorizer p/|r|.
struct NormValue {
  double value = 0, gradient = 0, curvature = 0;
};

/// A separable norm of one component.
NormValue Evaluate(const Norm& norm, double r);
/// Its value alone, to the last bit: half the time and less.
double Value(const Norm& norm, double r);

/// ρ(‖r‖) of a whole residual: gradient = slope r, Hessian = slope 1 + outer r rᵀ ⪰ 0.
struct VectorNormValue {
  double value = 0, slope = 0, outer = 0;
};
VectorNormValue EvaluateVector(const Norm& norm, ConstVectorRef r);
double ValueOfVector(const Norm& norm, ConstVectorRef r);

/// Words as they stand in a task file, in the order of NormType.
const std::vector<std::string>& NormNames();

/// How many parameters a norm takes, and "p > 0 (half width)"-like text about their range.
int NormParameterCount(NormType type);
const char* NormParameterText(NormType type);

/// True when p and q lie in the range that NormParameterText states.
bool HasValidParameters(const Norm& norm);

/// "quadratic", "smooth_abs 0.1".
std::string ToString(const Norm& norm);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_NORM_H_
