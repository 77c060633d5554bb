// One knot's derivative applied to directions and covectors; matrices are formed only where sensors are meant.
#ifndef COSTATE_ROLLOUT_KNOT_PRODUCTS_H_
#define COSTATE_ROLLOUT_KNOT_PRODUCTS_H_

#include <costate/derivative.h>

#include <memory>
#include <vector>

namespace costate {

/// Where a derivative is taken. The last knot has no control and sensors only.
struct KnotPoint {
  ConstVectorRef x, u, moving;
  bool last = false;
};

/// What is pushed, a column a direction. `theta` has no rows without parameters.
struct KnotDirections {
  ConstMatrixRef x, u, theta;
};

/// What comes back.
struct KnotCovector {
  VectorXd x, u, theta;
};

/// One a thread. Functions return false, with the reason in status(), when the step fails there.
class KnotProducts {
 public:
  /// @param parameters  null, or those of theta.
  KnotProducts(const mjModel* model, ConstVectorRef context, int substeps, Level level, const ParameterSet* parameters);

  /// next = A dx + B du + P dθ and, when not null, s = C dx + D du + Ps dθ. At the last knot only s, without du.
  bool Push(const KnotPoint& at, const KnotDirections& d, MatrixXd* next, MatrixXd* s);

  /// x = Aᵀλ + Cᵀσ, u = Bᵀλ + Dᵀσ, θ = Pᵀλ + Psᵀσ. σ is empty or zero where the loss has no slopes by sensors; at the
  /// last knot only the parts of σ.
  bool Pull(const KnotPoint& at, ConstVectorRef lambda, ConstVectorRef sigma, KnotCovector* out);

  StepStatus status() const { return status_; }
  const Coverage& coverage() const { return coverage_; }  ///< of the worst knot since ForgetCoverage
  void ForgetCoverage() {
    coverage_ = {};
    differenced_[0] = differenced_[1] = false;
  }
  /// Since then, was any term of the dynamics differenced, or any parameter?
  bool differenced(bool parameters) const { return differenced_[parameters]; }
  /// Had the last derivative a parameter without one, a corner of the step at its value? By number.
  const std::vector<char>& open() const { return open_; }

 private:
  Linearizer* Get(bool sensors, ConstVectorRef moving);
  bool Matrices(const KnotPoint& at, bool sensors);
  bool Take(StepStatus status, const Coverage& coverage);

  const mjModel* model_;
  Dims dims_;
  VectorXd context_;
  LinearizeOptions options_;
  const ParameterSet* parameters_;
  std::unique_ptr<Linearizer> products_, jacobians_;
  StepVjp vjp_;
  StepJvp jvp_;
  StepDerivative full_;
  StepStatus status_ = StepStatus::kOk;
  Coverage coverage_;
  bool differenced_[2] = {false, false};  // dynamics, parameters
  std::vector<char> open_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_KNOT_PRODUCTS_H_
