#include "optimizer/task_follow.h"

#include <costate/state.h>
#include <costate/step.h>

#include "core/driven.h"
#include "optimizer/control_search.h"

namespace costate {
namespace {

constexpr int kStepsOfAKnot = 2;    // a knot: the motors' forces are linear in u, contacts are not
constexpr double kOnPath = 1e-8;    // [sqrt(kg) m/s] what a velocity may be off
constexpr double kReturnKnots = 5;  // in which what a position is off is to go
constexpr double kLegShare = 0.5;   // of the way to v*: all of it within a knot makes feet chatter

class Follower {
 public:
  Follower(const Task& task, const Start& start, const Waypoints& waypoints, bool driven)
      : task_(task),
        model_(task.model.get()),
        dims_(model_),
        data_(MakeData(model_)),
        waypoints_(waypoints),
        x_(start.x),
        context_(start.context),
        x_next_(dims_.nx) {
    path_.push_back(start.x);
    for (Eigen::Index i = 0; i < waypoints.time.size(); ++i) {
      VectorXd x = VectorXd::Zero(dims_.nx);
      x.head(dims_.nq) = waypoints.qpos.col(i);
      path_.push_back(x);
    }
    if (driven) driven_ = DrivenDofs(model_);
  }

  Followed Run(const VectorXd& u_start, const std::function<bool(const VectorXd&)>& goes_on) {
    const double h = task_.knot_time();
    Followed followed{MatrixXd::Zero(dims_.nu, task_.N), x_};
    VectorXd u = WithinLimits(task_, u_start), r;
    const auto residual = [&](const VectorXd& v, VectorXd* w) { return Evaluate(v, w); };
    for (int t = 0; t < task_.N && followed.whole; ++t) {
      Aim(t * h, h);
      if (ok_ && Evaluate(u, &r)) SearchControl(task_, residual, kStepsOfAKnot, kOnPath, &u, &r);
      followed.U.col(t) = u;
      ok_ = ok_ && Advance(u);
      followed.whole = !goes_on || goes_on(x_);
    }
    followed.end = x_;
    return followed;
  }

 private:
  // position and velocity of the path
  void Path(double time, VectorXd* x, VectorXd* v) const {
    Eigen::Index i = 0;
    while (i < waypoints_.time.size() && waypoints_.time[i] < time) ++i;
    v->setZero(dims_.nv);
    if (i == waypoints_.time.size()) {
      *x = path_.back();
      return;
    }
    const double begin = i == 0 ? 0 : waypoints_.time[i - 1], length = waypoints_.time[i] - begin;
    const double tau = (time - begin) / length, tau2 = tau * tau;
    const VectorXd &from = path_[static_cast<std::size_t>(i)], &to = path_[static_cast<std::size_t>(i + 1)];
    VectorXd dx = Difference(model_, to, from);
    dx.tail(dims_.ndx - dims_.nv).setZero();
    *x = Retract(model_, from, tau2 * tau * (10 - 15 * tau + 6 * tau2) * dx);
    *v = 30 * tau2 * (1 - tau) * (1 - tau) / length * dx.head(dims_.nv);
  }

  // v* of the interval behind `time`, and the mass matrix there
  void Aim(double time, double h) {
    VectorXd x, v;
    Path(time, &x, &v);
    const VectorXd off = Difference(model_, x, x_).head(dims_.nv);
    Path(time + h, &x, &v);
    target_ = v + off / (kReturnKnots * h);
    if (!driven_.empty()) target_ += (1 - kLegShare) * (x_.segment(dims_.nq, dims_.nv) - target_);
    ok_ = ok_ && FactorMass(model_, data_.get(), x_, context_, &cholesky_);
  }

  bool Evaluate(const VectorXd& u, VectorXd* r) {
    if (!Play(u)) return false;
    *r = x_next_.segment(dims_.nq, dims_.nv) - target_;
    if (driven_.empty()) *r = cholesky_.matrixU() * *r;
    for (std::size_t j = 0; j < driven_.size(); ++j) {
      const auto at = static_cast<Eigen::Index>(j);
      (*r)[at] *= driven_[j] ? cholesky_.matrixLLT().row(at).head(at + 1).norm() : 0;  // sqrt(M_jj)
    }
    return true;
  }

  bool Advance(const VectorXd& u) {
    if (!Play(u)) return false;
    x_ = x_next_;
    context_ = GetContext(model_, data_.get());
    return true;
  }

  bool Play(const VectorXd& u) {
    SetContext(model_, data_.get(), context_);
    VectorXd none;
    return Step(model_, data_.get(), x_, u, task_.substeps, x_next_, none) == StepStatus::kOk;
  }

  const Task& task_;
  const mjModel* model_;
  Dims dims_;
  DataPtr data_;
  const Waypoints& waypoints_;
  std::vector<VectorXd> path_;  // states at rest
  std::vector<char> driven_;    // dofs that go there; empty: all
  VectorXd x_, context_, x_next_, target_;
  Eigen::LLT<MatrixXd> cholesky_;
  bool ok_ = true;
};

}  // namespace

Followed FollowControls(const Task& task, const Start& start, const Waypoints& waypoints, bool driven,
                        const std::function<bool(const VectorXd& x)>& goes_on) {
  return Follower(task, start, waypoints, driven).Run(HoldControl(task, start.x, start.context, start.u), goes_on);
}

}  // namespace costate
