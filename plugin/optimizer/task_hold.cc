// The control that keeps a state where it is.
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

#include <costate/derivative.h>
#include <costate/feedback.h>
#include <costate/rollout.h>

#include "core/driven.h"
#include "core/extremes.h"
#include "optimizer/control_noise.h"
#include "optimizer/control_search.h"
#include "optimizer/position_servo.h"
#include "optimizer/task_follow.h"
#include "optimizer/task_start.h"

namespace costate {
namespace {

constexpr int kNewtonSteps = 20;
constexpr double kUnrestGone = 0.5;  // part of the unrest that must go; else nothing holds the state
constexpr double kHeld = 1e-10;      // [sqrt(kg) m/s] what a step may change in a state that is held
constexpr double kLetsGo = 0.05;     // of a control's range: another force, not the same one better balanced
constexpr double kStayTime = 1;  // [s] that the given control must keep the state for, if the horizon is no shorter,
constexpr double kStays = 2e-3;  // … to so much of the model's extent

constexpr double kBandwidth = 10;      // [rad/s] of what comes back by feedback
constexpr double kGainFound = 1e-6;    // relative change of a cost to go that has converged
constexpr double kWeakest = 1e-9;      // R of controls that hardly move anything, in terms of the largest
constexpr double kHeldBetter = 0.25;   // of how far the constant control lets it fall
constexpr double kDrivenBetter = 0.5;  // … and of what feedback lets it: that is the smoother one
constexpr double kSettled = 0.1;       // [s]
constexpr double kLanded = 0.06;       // [s] from a hair above the floor: by kSettled weak servos sag
constexpr int kHoldAttempts = 3, kLandedAttempts = 5;

constexpr double kSlowerBandwidths[] = {1, 0.5, 0.25};  // of what brings a start that leans to rest: its limits bind
constexpr int kRestSteps = 30;
constexpr double kRestDamping = 1e-12, kRestFound = 1e-8,
                 kLeastShare = 1e-3;  // … of what the start's step changes, of a step

// what ‖Lᵀ (q_t ⊖ q)‖ of a motion that stays is below: the mass moved through a share of the extent
double StaysWithin(const mjModel* m) { return kStays * m->stat.extent * std::sqrt(m->body_subtreemass[0]); }

// r(u) = (Lᵀ qvel', act' - act) of one engine step from rest, with M = L Lᵀ: ‖Lᵀ v‖² = vᵀ M v
class Unrest {
 public:
  Unrest(const Task& task, const VectorXd& x, const VectorXd& context)
      : task_(task),
        model_(task.model.get()),
        dims_(model_),
        data_(MakeData(model_)),
        x_(x),
        context_(context),
        x_next_(dims_.nx) {
    x_.segment(dims_.nq, dims_.nv).setZero();
    ok_ = FactorMass(model_, data_.get(), x_, context_, &cholesky_);
  }

  /// False when the engine cannot step.
  bool Evaluate(const VectorXd& u, VectorXd* r) {
    SetContext(model_, data_.get(), context_);
    VectorXd none;
    if (!ok_ || Step(model_, data_.get(), x_, u, 1, x_next_, none) != StepStatus::kOk) return false;
    r->resize(dims_.nv + dims_.na);
    r->head(dims_.nv) = cholesky_.matrixU() * x_next_.segment(dims_.nq, dims_.nv);
    r->tail(dims_.na) = x_next_.tail(dims_.na) - x_.tail(dims_.na);
    return true;
  }

  /// Does a constant control keep the positions?
  bool Stays(const VectorXd& u) {
    const int steps = std::min(task_.N * task_.substeps, static_cast<int>(kStayTime / model_->opt.timestep));
    const double most = StaysWithin(model_);
    SetContext(model_, data_.get(), context_);
    VectorXd x = x_, none;
    for (int t = 0; t < steps; ++t) {
      if (!ok_ || Step(model_, data_.get(), x, u, 1, x_next_, none) != StepStatus::kOk) return false;
      x = x_next_;
      if (!((cholesky_.matrixU() * Difference(model_, x, x_).head(dims_.nv)).norm() < most)) return false;
    }
    return true;
  }

  /// Is a control another one than `given`, by more than a share of its range?
  bool LetsGo(const VectorXd& u, const VectorXd& given) const {
    for (int i = 0; i < dims_.nu; ++i) {
      const double range = task_.u_upper[i] - task_.u_lower[i];
      if (std::abs(u[i] - given[i]) > kLetsGo * (std::isfinite(range) ? range : 1 + std::abs(given[i]))) return true;
    }
    return false;
  }

 private:
  const Task& task_;
  const mjModel* model_;
  Dims dims_;
  DataPtr data_;
  VectorXd x_, context_, x_next_;
  Eigen::LLT<MatrixXd> cholesky_;
  bool ok_ = false;
};

// K of (H1) over so many steps or more, by doubling (Chu, Fan & Lin 2005): H_k is the cost to go of 2ᵏ of them; empty
// where it has none
MatrixXd HoldingGain(const StepDerivative& step, const MatrixXd& M, double knot_time, int steps,
                     double bandwidth = kBandwidth) {
  const Eigen::Index nv = M.rows(), ndx = step.A.rows();
  MatrixXd Q = MatrixXd::Zero(ndx, ndx);
  Q.topLeftCorner(nv, nv) = bandwidth * bandwidth * M;
  Q.block(nv, nv, nv, nv) = M;
  VectorXd R = (step.B.transpose() * Q * step.B).diagonal() / std::pow(knot_time * bandwidth, 2);
  if (!(R.maxCoeff() > 0)) return {};
  R = R.cwiseMax(kWeakest * R.maxCoeff());
  MatrixXd A = step.A, G = step.B * R.cwiseInverse().asDiagonal() * step.B.transpose(), H = Q;
  for (double length = 1; length < steps; length *= 2) {
    const Eigen::PartialPivLU<MatrixXd> W(MatrixXd::Identity(ndx, ndx) + G * H);
    const MatrixXd V = W.solve(A), more = A.transpose() * H * V;
    G += A * W.solve(G) * A.transpose();
    H += 0.5 * (more + more.transpose());
    A *= V;
    if (!H.allFinite() || !G.allFinite()) return {};
    if (more.norm() <= kGainFound * H.norm()) break;
  }
  MatrixXd S = step.B.transpose() * H * step.B;
  S.diagonal() += R;
  return -S.llt().solve(step.B.transpose() * H * step.A);
}

// u = clamp(u_0 + K (x ⊖ x_0))
class HoldingLaw : public Feedback {
 public:
  HoldingLaw(const Task& task, const VectorXd& x, const VectorXd& u, const MatrixXd& K)
      : task_(task), x_(x), u_(u), K_(K) {}
  int weights() const override { return 0; }
  void Control(const FeedbackInput& in, VectorRef u) const override {
    u = WithinLimits(task_, u_ + K_ * Difference(task_.model.get(), in.x, x_));
  }
  void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}

 private:
  const Task& task_;
  const VectorXd& x_;
  const VectorXd& u_;
  const MatrixXd& K_;
};

// ‖q_1 ⊖ q_2‖_M
double Distance(const mjModel* m, const VectorXd& x1, const VectorXd& x2, const Eigen::LLT<MatrixXd>& mass) {
  return (mass.matrixU() * Difference(m, x1, x2).head(m->nv)).norm();
}

// how far a motion gets from a state, ‖Lᵀ (q_t ⊖ q)‖ at most; infinite where it could not be simulated
double Farthest(const mjModel* m, const Trajectory& motion, const RolloutStatus& status, const VectorXd& x,
                const Eigen::LLT<MatrixXd>& mass) {
  if (!status.ok()) return kInf;
  double most = 0;
  for (int t = 0; t <= motion.N(); ++t) most = std::max(most, Distance(m, motion.X.col(t), x, mass));
  return most;
}

// what (H1) has at the end of a motion for a state at rest; infinite where it could not be simulated
double Unsettled(const mjModel* m, const Trajectory& motion, const RolloutStatus& status, const VectorXd& x,
                 const Eigen::LLT<MatrixXd>& mass) {
  if (!status.ok()) return kInf;
  const VectorXd off = Difference(m, motion.X.col(motion.N()), x);
  return std::hypot(kBandwidth * (mass.matrixU() * off.head(m->nv)).norm(),
                    (mass.matrixU() * off.segment(m->nv, m->nv)).norm());
}

// Where the robot would stay, near a start that no control keeps: min ‖Lᵀ qvel'‖ of one step from rest over q and u, by
// Gauss–Newton steps that are least in ‖dq‖_M and shares of the controls' ranges; false where nothing nearby stays.
bool FindRest(const Task& task, const Start& start, const Eigen::LLT<MatrixXd>& mass, VectorXd* x, VectorXd* u) {
  const mjModel* m = task.model.get();
  const Dims dims(m);
  Linearizer linearizer(m, {.sensors = false});
  linearizer.SetContext(start.context);
  const VectorXd unit = HalfRanges(task);
  VectorXd r, r_new;
  if (!Unrest(task, *x, start.context).Evaluate(*u, &r)) return false;
  const double before = r.norm();
  for (int k = 0; k < kRestSteps && r.norm() > kRestFound * before; ++k) {
    StepDerivative step;
    linearizer.Linearize(*x, *u, &step);
    if (step.status != StepStatus::kOk) return false;
    const auto L = mass.matrixL();
    MatrixXd J(dims.nv, dims.nv + dims.nu);  // of Lᵀ qvel' by Lᵀ dq and du in units
    J.leftCols(dims.nv) = L.solve(step.A.block(dims.nv, 0, dims.nv, dims.nv).transpose()).transpose();
    J.rightCols(dims.nu) = step.B.middleRows(dims.nv, dims.nv) * unit.asDiagonal();
    J = mass.matrixU() * J;
    MatrixXd JJ = J * J.transpose();
    JJ.diagonal().array() += kRestDamping * JJ.trace();
    const VectorXd z = -J.transpose() * JJ.llt().solve(r.head(dims.nv));
    VectorXd dx = VectorXd::Zero(dims.ndx);
    dx.head(dims.nv) = mass.matrixU().solve(z.head(dims.nv));
    bool better = false;
    for (double share = 1; share > kLeastShare && !better; share /= 2) {
      const VectorXd x_new = Retract(m, *x, share * dx);
      const VectorXd u_new = WithinLimits(task, *u + share * unit.cwiseProduct(z.tail(dims.nu)));
      better = Unrest(task, x_new, start.context).Evaluate(u_new, &r_new) && r_new.norm() < r.norm();
      if (!better) continue;
      *x = x_new;
      *u = u_new;
      r = r_new;
    }
    if (!better) break;
  }
  return r.norm() <= kRestFound * before;
}

}  // namespace

MatrixXd HoldByFeedback(const Task& task, const Start& start, const VectorXd& u) try {
  const mjModel* m = task.model.get();
  const Dims dims(m);
  MatrixXd U = u.replicate(1, task.N);
  if (dims.nu == 0 || !start.x.segment(dims.nq, dims.nv).isZero(0) || Unrest(task, start.x, start.context).Stays(u))
    return U;
  const DataPtr data = MakeData(m);
  Eigen::LLT<MatrixXd> mass;
  if (!FactorMass(m, data.get(), start.x, start.context, &mass)) return U;
  Simulator simulator(m, start.context, task.substeps, 1);
  Trajectory motion, best;
  const double falls = Farthest(m, motion, simulator.Rollout(start.x, U, &motion), start.x, mass);
  const int settled = std::min(task.N, static_cast<int>(std::ceil(kSettled / simulator.knot_time())));
  const VectorXd landed = motion.X.col(std::min(settled, static_cast<int>(std::ceil(kLanded / simulator.knot_time()))));

  // by gains about a state, then about where that has come to rest a moment later: on its feet, not above the floor
  Linearizer linearizer(m, {.substeps = task.substeps});
  linearizer.SetContext(start.context);
  double least = kHeldBetter * falls;
  const auto hold = [&](VectorXd at, int attempts, bool about_start) {
    VectorXd held = u;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      at.segment(dims.nq, dims.nv).setZero();
      if (attempt > 0 || !about_start) held = HoldControl(task, at, start.context, held);
      StepDerivative step;
      linearizer.Linearize(at, held, &step);
      if (step.status != StepStatus::kOk) return;
      const MatrixXd K = HoldingGain(step, mass.reconstructedMatrix(), simulator.knot_time(), task.N);
      if (K.size() == 0) return;
      const HoldingLaw law(task, about_start ? start.x : at, held, K);
      const RolloutStatus status = simulator.RolloutFeedback(start.x, task.N, law, &motion);
      const double far = Farthest(m, motion, status, start.x, mass);
      if (far < least) {
        least = far;
        best = motion;
      }
      if (far < StaysWithin(m) || !(far < falls)) return;
      at = motion.X.col(settled);
    }
  };
  hold(start.x, kHoldAttempts, true);
  // gains of free flight move nothing: to where the robot stands, about where the constant control lands
  if (std::isfinite(falls) && !(least < StaysWithin(m))) hold(landed, kLandedAttempts, false);
  // else by the joints alone that actuators move: legs that carry a trunk
  if (m->na == 0 && !(least < StaysWithin(m)) && HasUndrivenDofs(m)) {
    const Waypoints here{VectorXd::Constant(1, simulator.knot_time()), start.x.head(dims.nq)};
    const double enough = (best.N() > 0 ? kDrivenBetter : 1) * least;
    const auto near = [&](const VectorXd& x) { return Distance(m, x, start.x, mass) < enough; };
    const Followed stands = FollowControls(task, start, here, true, near);
    if (stands.whole && simulator.Rollout(start.x, stands.U, &motion).ok()) best = motion;
  }
  // a start that leans: about where it would stand
  if (VectorXd at = start.x, held = u; best.N() == 0 && FindRest(task, start, mass, &at, &held)) {
    StepDerivative step;
    linearizer.Linearize(at, held, &step);
    if (step.status != StepStatus::kOk) return U;
    least = kHeldBetter * Unsettled(m, motion, simulator.Rollout(start.x, U, &motion), at, mass);
    for (const double slower : kSlowerBandwidths) {
      const MatrixXd K =
          HoldingGain(step, mass.reconstructedMatrix(), simulator.knot_time(), task.N, slower * kBandwidth);
      if (K.size() == 0) continue;
      const RolloutStatus status = simulator.RolloutFeedback(start.x, task.N, HoldingLaw(task, at, held, K), &motion);
      const double off = Unsettled(m, motion, status, at, mass);
      if (!(off < least)) continue;
      least = off;
      best = motion;
    }
  }
  return best.N() > 0 ? best.U : U;
} catch (const Error& error) {  // a model without derivatives falls
  if (error.code() != ErrorCode::kUnsupported) throw;
  return u.replicate(1, task.N);
}

VectorXd HoldControl(const Task& task, const VectorXd& x, const VectorXd& context, const VectorXd& u_start) {
  VectorXd u_first = WithinLimits(task, u_start);
  Unrest unrest(task, x, context);
  VectorXd u = u_first, r, r_new;
  if (!unrest.Evaluate(u, &r)) return u_first;

  // a servo far from where it shall be may be at its limit of force, where nothing tells which way to go
  VectorXd relaxed = u_first;
  for (const PositionServo& servo : PositionServos(task.model.get()))
    relaxed[servo.control] = servo.ControlAt(x[task.model->jnt_qposadr[servo.joint]]);
  relaxed = WithinLimits(task, relaxed);
  if (unrest.Evaluate(relaxed, &r_new) && r_new.squaredNorm() < r.squaredNorm()) {
    u = u_first = relaxed;
    r = r_new;
  }
  const double before = r.squaredNorm();

  const auto residual = [&](const VectorXd& v, VectorXd* w) { return unrest.Evaluate(v, w); };
  if (!SearchControl(task, residual, kNewtonSteps, kHeld, &u, &r)) return u_first;
  if (!(r.squaredNorm() < kUnrestGone * before)) u = u_first;

  // a grip presses into what it holds: what is at rest within one step has let go of it
  const VectorXd given = WithinLimits(task, u_start);
  return !given.isZero(0) && unrest.LetsGo(u, given) && unrest.Stays(given) ? given : u;
}

}  // namespace costate
