#include <costate/cost.h>
#include <costate/state.h>

#include <Eigen/Cholesky>

#include "core/check.h"
#include "core/difference_row.h"
#include "core/scratch.h"
#include "optimizer/cost_terms.h"

namespace costate {

double TotalCost(const Cost& cost, const Trajectory& trajectory, double dt, std::vector<double>* per_knot) {
  const int N = trajectory.N();
  if (per_knot) per_knot->resize(N + 1);
  double total = 0;
  for (int t = 0; t <= N; ++t) {
    const double l = cost.Value(ViewKnot(trajectory, t, dt));
    if (per_knot) (*per_knot)[t] = l;
    total += l;
  }
  return total;
}

void Cost::Gradient(const KnotView& knot, KnotGradient* out) const {
  if (NeedsSensors()) {
    throw Error(ErrorCode::kUnsupported,
                "this cost reads sensors and has no gradient by them: override Cost::Gradient");
  }
  const Scratch<CostExpansion> expansion;  // Expand may ask another cost for its gradient
  Expand(knot, MatrixXd(), MatrixXd(), &*expansion);
  out->x = expansion->lx;
  out->u = expansion->lu;
}

void Cost::GaussNewtonProduct(const mjModel* model, const KnotView& knot, const KnotGradient& d,
                              KnotGradient* out) const {
  if (NeedsSensors()) return Loss::GaussNewtonProduct(model, knot, d, out);
  const Scratch<CostExpansion> expansion;
  Expand(knot, MatrixXd(), MatrixXd(), &*expansion);
  out->x.noalias() = expansion->lxx * d.x;
  if (knot.t == knot.N) return;
  out->x.noalias() += expansion->lux.transpose() * d.u;
  out->u.noalias() = expansion->lux * d.x;
  out->u.noalias() += expansion->luu * d.u;
}

double ControlInterval(const Trajectory& trajectory) {
  const int N = trajectory.N();
  return N > 0 ? (trajectory.time[N] - trajectory.time[0]) / N : 0;
}

void ResizeExpansion(int ndx, int nu, bool last, CostExpansion* out) {
  const int nu_here = last ? 0 : nu;
  out->l = 0;
  out->lx.setZero(ndx);
  out->lu.setZero(nu_here);
  out->lxx.setZero(ndx, ndx);
  out->lux.setZero(nu_here, last ? 0 : ndx);
  out->luu.setZero(nu_here, nu_here);
}

// ---- quadratic cost -------------------------------------------------------------------------------------------------

namespace {

MatrixXd Symmetric(const mjModel* model, const char* name, const MatrixXd& matrix, const char* symbol, int size) {
  CheckSize(model, (std::string(name) + " (rows)").c_str(), matrix.rows(), symbol, size);
  CheckSize(model, (std::string(name) + " (columns)").c_str(), matrix.cols(), symbol, size);
  if (!matrix.allFinite()) {
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " holds a NaN or an infinite entry");
  }
  return 0.5 * (matrix + matrix.transpose());
}

}  // namespace

QuadraticCost::QuadraticCost(const mjModel* model, VectorXd x_goal, MatrixXd Q, MatrixXd R, MatrixXd Qf)
    : model_(model), x_goal_(std::move(x_goal)) {
  const Dims dims(model);
  CheckSize(model, "x_goal", x_goal_.size(), "nx", dims.nx);
  if (!x_goal_.allFinite()) throw Error(ErrorCode::kInvalidArgument, "x_goal holds a NaN or an infinite entry");
  Q_ = Symmetric(model, "Q", Q, "ndx", dims.ndx);
  R_ = Symmetric(model, "R", R, "nu", dims.nu);
  Qf_ = Symmetric(model, "Qf", Qf, "ndx", dims.ndx);
  for (const MatrixXd* matrix : {&Q_, &R_, &Qf_}) {
    positive_ = positive_ && (matrix->size() == 0 || matrix->ldlt().isPositive());
  }

  // where the tangent of qpos is not its plain difference
  for (int j = 0; j < model->njnt; ++j) {
    const int offset = model->jnt_type[j] == mjJNT_FREE ? 3 : 0;
    if (model->jnt_type[j] != mjJNT_FREE && model->jnt_type[j] != mjJNT_BALL) continue;
    quaternions_.push_back(
        {static_cast<int>(model->jnt_qposadr[j]) + offset, static_cast<int>(model->jnt_dofadr[j]) + offset});
  }
}

double QuadraticCost::Value(const KnotView& knot) const {
  static thread_local VectorXd dx, slope;
  dx.resize(Q_.rows());
  Difference(model_, knot.x, x_goal_, dx);
  const auto square = [](const MatrixXd& matrix, const auto& by) {
    slope.noalias() = matrix * by;
    return by.dot(slope);
  };
  if (knot.t == knot.N) return 0.5 * square(Qf_, dx);
  return knot.dt * 0.5 * (square(Q_, dx) + square(R_, knot.u));
}

void QuadraticCost::Expand(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const {
  const bool last = knot.t == knot.N;
  ResizeExpansion(static_cast<int>(Q_.rows()), static_cast<int>(R_.rows()), last, out);
  static thread_local VectorXd dx;
  dx.resize(Q_.rows());
  Difference(model_, knot.x, x_goal_, dx);

  // l = w ½ dxᵀQ dx + w ½ uᵀR u with w = dt, and w = 1 for the last knot
  const MatrixXd& Q = last ? Qf_ : Q_;
  const double w = last ? 1 : knot.dt;
  out->lx.noalias() = w * (Q * dx);
  out->l = 0.5 * dx.dot(out->lx);
  out->lxx = w * Q;
  if (!last) {
    out->lu.noalias() = w * (R_ * knot.u);
    out->l += 0.5 * knot.u.dot(out->lu);
    out->luu = w * R_;
  }

  // d(x ⊖ x_goal) = J dx with J = 1 but for 3×3 blocks of quaternions: lx = Jᵀ lx, lxx = Jᵀ lxx J
  for (const auto& [qpos, dof] : quaternions_) {
    const auto J = SubQuatJacobian(knot.x.data() + qpos, x_goal_.data() + qpos).a;
    out->lx.segment<3>(dof) = (J.transpose() * out->lx.segment<3>(dof)).eval();
    out->lxx.middleCols<3>(dof) = (out->lxx.middleCols<3>(dof) * J).eval();
    out->lxx.middleRows<3>(dof) = (J.transpose() * out->lxx.middleRows<3>(dof)).eval();
  }
}

std::vector<CostTermValue> QuadraticCost::Terms(const Trajectory& trajectory) const {
  const double dt = ControlInterval(trajectory);
  std::vector<CostTermValue> terms{{"state", 0}, {"control", 0}, {"terminal", 0}};
  for (int t = 0; t <= trajectory.N(); ++t) {
    const KnotView knot = ViewKnot(trajectory, t, dt);
    if (t == knot.N) {
      terms[2].value = Value(knot);
    } else {
      const double control = dt * 0.5 * knot.u.dot(R_ * knot.u);
      terms[0].value += Value(knot) - control;
      terms[1].value += control;
    }
  }
  return terms;
}

}  // namespace costate
