// First-order minimization of a smooth function between bounds: gradient descent and L-BFGS. README.md, "First order".
#ifndef COSTATE_OPTIMIZER_MINIMIZE_H_
#define COSTATE_OPTIMIZER_MINIMIZE_H_

#include <costate/descent.h>

#include <functional>

namespace costate {

/// f(z), and its gradient when `g` is not null. NaN where it has no value: a step there is not taken.
using SmoothFunction = std::function<double(const VectorXd& z, VectorXd* g)>;

/// An approximation of f's second derivative at the last point at which its gradient was asked, positive semidefinite;
/// false where there is none.
using CurvatureFunction = std::function<bool(MatrixXd* H)>;

struct MinimizeResult {
  SolveStatus status = SolveStatus::kIterationLimit;
  std::string message;
  VectorXd z, gradient;  ///< the best point met
  double value = 0, initial_value = 0;
  double gradient_norm = 0;  ///< max |projected gradient| there
};

/// Called with the state before the first (iteration 0) and after each step, and the point; false stops.
using MinimizeCallback = std::function<bool(const IterationRecord&, const VectorXd& z)>;

/// Minimizes f over lower ≤ z ≤ upper from z, clamped. Every point at which f is asked is finite and within the
/// bounds.
/// @param scale  typical sizes: L-BFGS works on z / scale; gradient descent takes z as it is.
/// @param curvature  of kGaussNewton, else unused.
MinimizeResult Minimize(const SmoothFunction& f, VectorXd z, ConstVectorRef lower, ConstVectorRef upper,
                        ConstVectorRef scale, const DescentOptions& options, const MinimizeCallback& callback = {},
                        const CurvatureFunction& curvature = {});

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MINIMIZE_H_
