// One knot's derivative applied to directions and covectors; matrices are formed only where sensors are meant.
#ifndef COSTATE_ROLLOUT_KNOT_PRODUCTS_H_
#define COSTATE_ROLLOUT_KNOT_PRODUCTS_H_

#include <costate/derivative.h>

#include <memory>

namespace costate {

/// Where a derivative is taken. The last knot has no control and sensors only.
struct KnotPoint {
  ConstVectorRef x, u, moving;
  bool last = false;
};

/// One a thread. Functions return false, with the reason in status(), when the step fails there.
class KnotProducts {
 public:
  KnotProducts(const mjModel* model, ConstVectorRef context, int substeps, Level level);

  /// next = A dx + B du and, when not null, s = C dx + D du; a column a direction. At the last knot only s = C dx.
  bool Push(const KnotPoint& at, ConstMatrixRef dx, ConstMatrixRef du, MatrixXd* next, MatrixXd* s);

  /// x = Aᵀλ + Cᵀσ, u = Bᵀλ + Dᵀσ. σ is empty or zero where the loss has no slopes by sensors; at the last knot only Cᵀσ.
  bool Pull(const KnotPoint& at, ConstVectorRef lambda, ConstVectorRef sigma, VectorXd* x, VectorXd* u);

  StepStatus status() const { return status_; }
  const Coverage& coverage() const { return coverage_; }  ///< of the worst knot since ForgetCoverage
  void ForgetCoverage() { coverage_ = {}; }

 private:
  Linearizer* Get(bool sensors, ConstVectorRef moving);
  bool Matrices(const KnotPoint& at);
  bool Take(StepStatus status, const Coverage& coverage);

  const mjModel* model_;
  Dims dims_;
  VectorXd context_;
  LinearizeOptions options_;
  std::unique_ptr<Linearizer> products_, jacobians_;
  StepVjp vjp_;
  StepJvp jvp_;
  StepDerivative full_;
  StepStatus status_ = StepStatus::kOk;
  Coverage coverage_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_KNOT_PRODUCTS_H_
