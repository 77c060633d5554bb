// Hard constraints on a motion: lower ≤ c(x_t, u_t, s_t) ≤ upper at chosen knots, kept by an augmented Lagrangian.
#ifndef COSTATE_CONSTRAINT_H_
#define COSTATE_CONSTRAINT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <costate/ilqr.h>

namespace costate {

/// What a constraint is called, where it holds, and its bounds.
struct ConstraintInfo {
  std::string name, unit;
  std::vector<std::string> components;  ///< one name an entry of c: "qpos[knee]"
  VectorXd lower, upper;                ///< one an entry; equal: an equality; ±infinity: no bound
  /// How far inside its bounds a solver aims, one an entry, where steps have another slope at them; empty: at them.
  VectorXd inset{};
  int first = 0, last = -1;  ///< knots first … last, both included; negative ones count from the end: -1 is N
  bool periodic = false;     ///< the end is tied to the task's start: plans, which begin elsewhere, refuse it
};

/// lower ≤ c(x, u, s) ≤ upper. Implementations are immutable while a solver runs and safe to call from many threads.
class Constraint {
 public:
  explicit Constraint(ConstraintInfo info) : info_(std::move(info)) {}
  virtual ~Constraint() = default;

  const ConstraintInfo& info() const { return info_; }
  int size() const { return static_cast<int>(info_.lower.size()); }
  /// True at the knots where it holds: by default info().first … info().last.
  virtual bool IsAt(int t, int N) const;

  /// c at one knot where it holds (size(), which the vector has before the call).
  virtual void Value(const KnotView& knot, VectorXd* c) const = 0;

  /// c(x ⊕ dx, u + du) = c + J dx + Ju du + o(‖dx‖ + ‖du‖), sensors by C and D as for Cost::Expand.
  /// @param J   to be sized, size() × n with n ≤ ndx: the columns that are left out are zero.
  /// @param Ju  to be sized, size() × nu; size() × 0 where c does not depend on u, and at the last knot.
  /// Other sizes and values that are not finite are errors of the solve, by this constraint's name and the knot.
  virtual void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const = 0;

  /// Rows with [V Vu]ᵀ [V Vu] = Σ_i g_i ∂²c_i/∂(x, u)² over those entries where that is convex, or over as many of them
  /// as are known: by default none. Newton's curvature of an augmented Lagrangian beside Gauss–Newton's.
  /// @param g  (size()).  @param V, Vu  to be sized, m × n and m × nu, as J and Ju; m × 0 where u does not count.
  virtual void Curvature(const KnotView& /*knot*/, ConstMatrixRef /*C*/, ConstMatrixRef /*D*/, ConstVectorRef /*g*/,
                         MatrixXd* V, MatrixXd* Vu) const {
    V->resize(0, 0);
    Vu->resize(0, 0);
  }

  /// True where c also reads the start x_0 of the motion (KnotView::start), at the last knot.
  virtual bool ReadsStart() const { return false; }

  /// ∂c by dx_0, where ReadsStart. @param J0  size() × ndx.
  virtual void StartJacobian(const KnotView& /*knot*/, MatrixXd* J0) const { J0->resize(0, 0); }

  /// out += (∂c)ᵀ g by the tangent of x, by u and by s. By default from Jacobian.
  /// @throws Error{kUnsupported} where it reads sensors and does not give its own.
  virtual void PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const;

  /// True when c reads s.
  virtual bool NeedsSensors() const = 0;

  /// Marks the entries of s that c reads, as Loss::MarkSensors does.
  virtual void MarkSensors(std::vector<char>* read) const {
    if (NeedsSensors()) read->assign(read->size(), 1);
  }

 private:
  ConstraintInfo info_;
};

/// The constraints of a problem.
class ConstraintSet {
 public:
  /// @throws Error{kInvalidArgument} for a second constraint of that name, bounds that exclude each other, a NaN, an
  ///         entry without any bound, or no entries; Error{kDimensionMismatch} when names and bounds are not as many.
  void Add(std::unique_ptr<Constraint> constraint);

  int size() const { return static_cast<int>(constraints_.size()); }
  const Constraint& operator[](int i) const { return *constraints_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::unique_ptr<Constraint>> constraints_;
};

/// c = entries of x ⊖ x_reference: a goal state (equality at the end), joint ranges and speeds, one period of a cyclic
/// motion. The model must outlive it.
class StateConstraint final : public Constraint {
 public:
  /// @param entries  of the tangent (qpos tangent, qvel, act), as many as info has bounds; info.components and
  ///                 info.unit are filled in when they are empty.
  /// @throws Error{kDimensionMismatch}; Error{kInvalidArgument} for an entry that does not exist.
  StateConstraint(const mjModel* model, ConstraintInfo info, VectorXd x_reference, std::vector<int> entries);
  void Value(const KnotView& knot, VectorXd* c) const override;
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override;
  bool NeedsSensors() const override { return false; }

 private:
  const mjModel* model_;
  VectorXd x_reference_;
  std::vector<int> entries_;
  int columns_ = 0;
};

/// x_N ⊖ x_goal = 0 (ndx): an equality on all of the state at the last knot.
/// @throws Error{kDimensionMismatch} where x_goal has another size than nx.
std::unique_ptr<Constraint> MakeGoalConstraint(const mjModel* model, ConstVectorRef x_goal,
                                               const std::string& name = "goal");

/// How well each constraint is kept along a motion, in the order of the set; multipliers and penalties are left at 0.
std::vector<ConstraintReport> CheckConstraints(const ConstraintSet& constraints, const Trajectory& trajectory,
                                               double dt);

/// The largest of their relative violations, 0 without any: what a tolerance is compared with.
double LargestRelative(const std::vector<ConstraintReport>& reports);

struct ConstrainedOptions {
  double tolerance = 1e-6;    ///< of each violation, times 1 or the size of the bound, whichever is larger
  int outer_iterations = 60;  ///< updates of the multipliers, at most
  double penalty_init = 0;    ///< of each constraint; 0: such that the guess's violation costs as much as the guess
  double penalty_max = 1e8;   ///< in units of the cost (IlqrOptions::cost_unit)
  double penalty_factor = 10;
  std::vector<MatrixXd> multipliers{};  ///< to start from (SolveResult::multipliers of a run before); empty: zero
  VectorXd penalties{};                 ///< to start from, one a constraint; empty: penalty_init
  VectorXd residuals{};                 ///< SolveState::residuals of the solve that goes on; empty: a new one
  VectorXd tokens{};                    ///< the same of SolveState::tokens
  /// By Solve with iLQR: the weight of forces, w of (I6) in plugin/optimizer/README.md, that it begins with
  /// (SolveResult::force_weight of a run before). 0: only where the constraints are missed with forces at their limits
  /// up to three times as many iterations again lead around these by such a cost. Below 0: never.
  double force_weight = 0;
  bool keep_guess = true;  ///< a guess that keeps the constraints and costs less than what is found is the result; …
  bool trust_guess = false;  ///< … with this one that costs more, too, rather than a motion that misses them
};

/// A solver without constraints, as SolveIlqr.
using InnerSolver =
    std::function<SolveResult(const Problem&, ConstMatrixRef, const IlqrOptions&, const IterationCallback&)>;

/// Minimizes problem.cost subject to problem.constraints: a sequence of problems without constraints, each of them
///
///   minimize  J + Σ (½ rho ‖y‖² - ‖lambda‖² / (2 rho)),   y = z - clamp(z, lower, upper),   z = c + lambda / rho
///
/// solved by `inner` from the controls of the one before, after which lambda = rho y. A penalty rho grows only where
/// the violation of its constraint has not fallen to a quarter. Where violations are within their tolerance the last
/// problem is solved to the inner solver's own tolerances. options.iterations bounds the iterations of all of them
/// together.
///
/// Of all motions the result is the one of least cost within the tolerance, else the one of least violation.
/// result.cost and the records' costs are those of problem.cost; expected and actual changes are those of the function
/// above. Bit for bit the same at any thread count. Without constraints it is `inner`.
/// @throws as the inner solver; Error for a malformed option.
/// Cost: that of the inner solver's iterations, and two linearizations an update of the multipliers.
/// Source: plugin/optimizer/README.md, "Constraints"; Rockafellar 1974; Howell, Jackson & Manchester 2019.
SolveResult SolveConstrained(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options = {},
                             const ConstrainedOptions& constrained = {}, const IterationCallback& callback = {},
                             const InnerSolver& inner = {});

}  // namespace costate

#endif  // COSTATE_CONSTRAINT_H_
