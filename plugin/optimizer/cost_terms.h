// What the costs share, and the sum of weighted norms of residuals that a task file describes.
#ifndef COSTATE_OPTIMIZER_COST_TERMS_H_
#define COSTATE_OPTIMIZER_COST_TERMS_H_

#include <costate/cost.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/extremes.h"
#include "optimizer/norm.h"
#include "optimizer/residual_map.h"

namespace costate {

/// Mean time between knots [s].
double ControlInterval(const Trajectory& trajectory);

/// Sets all sizes for a knot (no lu, lux, luu at the last one) and all entries to zero.
void ResizeExpansion(int ndx, int nu, bool last, CostExpansion* out);

/// Where a measured number stands.
enum class Input { kSensor, kState, kControl };

/// A number measured: `value` indexes s, x or u; `column` indexes dx or du (unused for a sensor).
struct Scalar {
  Input input = Input::kSensor;
  int value = 0, column = 0;
};

/// One addend of one component of a residual: r[row] += coef · scalar.
struct LinearEntry {
  Scalar scalar;
  int row = 0;
  double coef = 1;
};

/// A rotation: its residual is the rotation vector from target to measured, r = log(q_target⁻¹ q), in three rows.
struct RotationEntry {
  Scalar scalar;                       ///< the first of four entries of s or x; column: the first of three
  int other = -1;                      ///< target: another quaternion in s at this address …
  int slot = -1;                       ///< … or four numbers in the target from this slot
  std::array<int, 3> row{-1, -1, -1};  ///< -1: component left out
};

/// What a residual is compared with: slots × times, linear in between (rotations: at constant angular velocity),
/// constant before the first time and after the last; one column means constant.
struct Target {
  MatrixXd values;
  VectorXd time;  ///< [s] from the start of the task
};

/// One term: Σ_i w_i ρ(r_i), or w ρ(‖r‖), with r = what is measured − target, or a function of what is measured.
struct ResidualTerm {
  std::string name;
  std::string measured, target_text, unit;  ///< in words, for people
  std::vector<std::string> row_names{};     ///< of r, for people, too; none of a term that no file has
  std::vector<LinearEntry> linear;
  std::vector<RotationEntry> rotations;
  std::vector<int> row_slot;  ///< for each row its slot in the target, -1: rows of rotations, element targets
  Target target;
  std::shared_ptr<const ResidualMap> map{};  ///< null: r = z = measured − target; else r = g(z)
  Norm norm;
  VectorXd weight, terminal;  ///< one a row; equal entries when the norm is not separable; terminal is zero when
                              ///< controls are measured, which the last knot has not
  double begin = 0;           ///< [s] the running weight counts in begin ≤ t dt < end
  double end = kInf;

  int measured_size() const { return static_cast<int>(row_slot.size()); }
  int size() const { return map ? map->size() : measured_size(); }
  bool reads_control() const;
};

/// How the sum over knots is weighted: running terms by dt, by 1/N or by 1, terminal terms by 1; or both by 1/(N + 1).
enum class CostScale { kDt, kMean, kSum, kKnots };

/// A number that no other living one has: by it each thread finds the memory that it evaluates a term with, again and
/// again.
class ScratchNumber {
 public:
  ScratchNumber();
  ScratchNumber(const ScratchNumber&) : ScratchNumber() {}
  ScratchNumber& operator=(const ScratchNumber&) { return *this; }
  ~ScratchNumber();

  std::size_t value() const { return value_; }

 private:
  std::size_t value_;
};

/// J = Σ_t scale Σ_terms weight · norm(residual(x_t, u_t, s_t)) + Σ_terms terminal · norm(residual(x_N, s_N)).
///
/// Gauss–Newton: lxx = Σ w Jᵀ ρ''(r) J with J the residual's exact Jacobian, and the curvature of expressions where it
/// is convex (6a), so that lxx ⪰ 0.
class ResidualCost final : public Cost {
 public:
  /// @param model  gives sizes, names of sensors and their stage; not kept.
  ResidualCost(const mjModel* model, std::vector<ResidualTerm> terms, CostScale scale);

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;
  void Gradient(const KnotView& knot, KnotGradient* out) const override;
  void GaussNewtonProduct(const mjModel* model, const KnotView& knot, const KnotGradient& direction,
                          KnotGradient* out) const override;
  bool NeedsSensors() const override { return needs_sensors_; }
  void MarkSensors(std::vector<char>* read) const override;
  double LowerBound(int t) const override { return positive_ ? 0 : Cost::LowerBound(t); }
  std::vector<CostTermValue> Terms(const Trajectory& trajectory) const override;
  std::vector<std::string> TermsWithoutSlope(const KnotView& knot) const override;

  const std::vector<ResidualTerm>& terms() const { return terms_; }

  /// Gives a number of a term's target another last value; a target in motion moves as a whole.
  void MoveTarget(int term, int slot, double value) {
    MatrixXd& values = terms_[static_cast<std::size_t>(term)].target.values;
    values.row(slot).array() += value - values(slot, values.cols() - 1);
  }

  CostScale scale() const { return scale_; }

  /// Is any target a motion?
  bool HasMovingTarget() const;

  /// r of one term at a knot (size), whether or not its weight is zero there.
  void Residual(int term, const KnotView& knot, VectorXd* r) const;

  /// The weights of one term at a knot; returns their common factor in (1), 0 where the term does not count.
  double Weights(int term, const KnotView& knot, const VectorXd** weight) const {
    return Weights(terms_[static_cast<std::size_t>(term)], knot, weight);
  }

  /// Its Jacobians (4), (5): J has the leading columns of dx on which r can depend, Ju none where r does not depend on
  /// u and at the last knot.
  void Jacobian(int term, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const;

  /// Rows of (6a) for Σ g_i r_i, as Constraint::Curvature; none of terms without an expression.
  void Curvature(int term, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, ConstVectorRef g, MatrixXd* V,
                 MatrixXd* Vu) const;

  /// out += (∂r)ᵀ g by x, u and s.
  void PullBack(int term, const KnotView& knot, ConstVectorRef g, KnotGradient* out) const;

  /// True when u moves r at the same knot: r reads ctrl, accelerations or forces.
  bool DependsOnControl(int term) const { return plans_[static_cast<std::size_t>(term)].control; }

  /// True when any of these entries of dx may move r at the same knot.
  bool DependsOn(int term, const std::vector<int>& entries) const;

 private:
  // how the Jacobian of a term is best formed
  struct Plan {
    bool local = false;     // each row depends on x or u directly and alone: no dense Jacobian
    int state_columns = 0;  // leading columns of dx that can be nonzero
    bool control = false;   // depends on u
  };
  Plan MakePlan(const mjModel* model, const ResidualTerm& term) const;
  double Weights(const ResidualTerm& term, const KnotView& knot, const VectorXd** weight) const;
  double TermValue(int term, const KnotView& knot) const;
  // visit(term, the thread's memory with r in it, weight, its factor) of each term that counts at the knot
  template <typename F>
  void ForEachWeighted(const KnotView& knot, F&& visit) const;
  void ExpandLocal(const ResidualTerm& term, const KnotView& knot, const VectorXd& r, const VectorXd& weight,
                   double scale, CostExpansion* out) const;
  void ExpandDense(const ResidualTerm& term, const Plan& plan, const KnotView& knot, const VectorXd& weight,
                   double scale, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const;

  Dims dims_;
  std::vector<ResidualTerm> terms_;
  std::vector<Plan> plans_;
  std::vector<ScratchNumber> scratch_;  // one a term, because terms have different sizes
  CostScale scale_;
  bool needs_sensors_ = false;
  bool positive_ = true;  // no weight is negative
};

/// The measured numbers in the target's layout (slots), at a state, control and sensors: what `target="key:…"` stores.
VectorXd MeasuredSlots(const ResidualTerm& term, ConstVectorRef x, ConstVectorRef u, ConstVectorRef s, int slots);

/// The target at a time [s] from the start (slots).
void TargetAt(const ResidualTerm& term, double time, VectorXd* slots);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_COST_TERMS_H_
