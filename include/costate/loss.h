// A scalar over a trajectory: what adjoints differentiate and solvers minimize.
#ifndef COSTATE_LOSS_H_
#define COSTATE_LOSS_H_

#include <costate/rollout.h>

#include <string>
#include <utility>
#include <vector>

namespace costate {

/// One knot as a loss sees it. `u` is empty at the last knot (t == N).
struct KnotView {
  int t = 0, N = 0;
  double time = 0;  ///< [s]
  double dt = 0;    ///< length of the control interval [s]
  ConstVectorRef x, u, s;
  double shift = 0;               ///< [s] from the task's start to knot 0: a plan begins later than its task
  const double* start = nullptr;  ///< x_0 of the same motion (nx), for what ties its end to its start

  /// [s] since the task's start, by which targets that move are found.
  double TaskTime() const { return shift + t * dt; }

  /// The same knot of a motion that begins `seconds` after the task; borrows from what this one does.
  KnotView ShiftedBy(double seconds) const {
    KnotView moved = *this;
    moved.shift = seconds;
    return moved;
  }
};

/// Knot t of a trajectory; borrows from it. @param dt  the control interval [s].
KnotView ViewKnot(const Trajectory& trajectory, int t, double dt);

/// Slopes of one knot's loss by the tangent of x (ndx), by u (nu, none at t == N) and by the sensors s (ns).
struct KnotGradient {
  VectorXd x, u, s;
};

/// L = Σ_t l(x_t, u_t, s_t). Implementations are immutable while they are used and safe to call from many threads.
class Loss {
 public:
  virtual ~Loss() = default;

  /// l at one knot, already multiplied by whatever the sum convention asks for (dt, 1/N …).
  virtual double Value(const KnotView& knot) const = 0;

  /// Its slopes; all vectors have their sizes and are zero before the call.
  virtual void Gradient(const KnotView& knot, KnotGradient* out) const = 0;

  /// Names of its terms that have no finite slope at a knot, for messages; by default none is known.
  virtual std::vector<std::string> TermsWithoutSlope(const KnotView&) const { return {}; }

  /// The second derivative of l(x ⊕ dx, u + du, s + ds) at zero times a direction, by which Curvature::Hessian
  /// multiplies. Symmetric.
  ///
  /// By default centred differences of Gradient: relative error about 1e-9, nothing where Gradient is linear and x has
  /// no rotations.
  /// @param direction  sized as a gradient.  @param out  all vectors have their sizes and are zero before the call.
  virtual void HessianProduct(const mjModel* model, const KnotView& knot, const KnotGradient& direction,
                              KnotGradient* out) const;

  /// What Curvature::GaussNewton multiplies by. By default HessianProduct; a loss of residuals r gives rather (∂r)ᵀ ρ''
  /// ∂r, which is never indefinite. Arguments as there.
  virtual void GaussNewtonProduct(const mjModel* model, const KnotView& knot, const KnotGradient& direction,
                                  KnotGradient* out) const;

  /// True when l reads s: otherwise sensors and their derivatives are skipped.
  virtual bool NeedsSensors() const = 0;

  /// Marks the entries of s that l reads: derivatives of other sensors are not computed, nor these themselves in most
  /// rollouts of iLQR. By default all where NeedsSensors.  @param read  (ns), to be added to.
  virtual void MarkSensors(std::vector<char>* read) const {
    if (NeedsSensors()) read->assign(read->size(), 1);
  }
};

/// A loss known by its slopes alone, as a framework that differentiates the rest of the way hands them back:
///
///   L = Σ_t x̄_t·(x_t ⊖ x_t⁰) + ū_t·u_t + s̄_t·s_t,   of which Value says 0
///
/// With it Adjoint::Gradient is the backward pass of Simulator::Rollout.
class KnownSlopes final : public Loss {
 public:
  /// @param x  by the tangent (ndx × (N+1)).  @param u  nu × N.  @param s  ns × (N+1). Each may be empty: zero.
  KnownSlopes(MatrixXd x, MatrixXd u, MatrixXd s) : x_(std::move(x)), u_(std::move(u)), s_(std::move(s)) {}
  double Value(const KnotView&) const override { return 0; }
  void Gradient(const KnotView& knot, KnotGradient* out) const override;  ///< throws Error{kDimensionMismatch}
  void HessianProduct(const mjModel*, const KnotView&, const KnotGradient&, KnotGradient*) const override {}
  bool NeedsSensors() const override { return s_.size() > 0; }

 private:
  MatrixXd x_, u_, s_;
};

}  // namespace costate

#endif  // COSTATE_LOSS_H_
