#include "optimizer/control_search.h"

#include <costate/step.h>

#include <algorithm>
#include <cmath>

#include "core/mass.h"

namespace costate {
namespace {

constexpr double kEps = 1e-6;      // difference in u, relative to the range of the control
constexpr double kDamping = 1e-8;  // of the least squares, relative to its largest curvature
constexpr int kHalvings = 10;

bool Differentiate(const Task& task, const ControlResidual& residual, const VectorXd& u, const VectorXd& r,
                   MatrixXd* J) {
  J->setZero(r.size(), u.size());
  VectorXd nudged;
  for (Eigen::Index i = 0; i < u.size(); ++i) {
    const double range = task.u_upper[i] - task.u_lower[i];
    if (range <= 0) continue;
    double h = kEps * (std::isfinite(range) ? range : 1 + std::abs(u[i]));
    if (u[i] + h > task.u_upper[i]) h = -h;
    if (!residual(u + h * VectorXd::Unit(u.size(), i), &nudged)) return false;
    J->col(i) = (nudged - r) / h;
  }
  return true;
}

// (JᵀJ + damping) du = -Jᵀr; controls that a limit holds back take no part
VectorXd GaussNewtonStep(const Task& task, const MatrixXd& J, const VectorXd& r, const VectorXd& u) {
  const VectorXd gradient = J.transpose() * r;
  MatrixXd H = J.transpose() * J;
  VectorXd right = -gradient;
  const double damping = std::max(kDamping * H.diagonal().maxCoeff(), mjMINVAL);
  for (Eigen::Index i = 0; i < u.size(); ++i) {
    if ((u[i] <= task.u_lower[i] && gradient[i] > 0) || (u[i] >= task.u_upper[i] && gradient[i] < 0)) {
      H.row(i).setZero();
      H.col(i).setZero();
      right[i] = 0;
    }
    H(i, i) += damping;
  }
  return H.ldlt().solve(right);
}

}  // namespace

bool SearchControl(const Task& task, const ControlResidual& residual, int iterations, double enough, VectorXd* u,
                   VectorXd* r) {
  MatrixXd J;
  VectorXd r_new;
  for (int iteration = 0; iteration < iterations && r->norm() > enough; ++iteration) {
    if (!Differentiate(task, residual, *u, *r, &J)) return false;
    const VectorXd du = GaussNewtonStep(task, J, *r, *u);

    // halve the step until r shrinks
    bool accepted = false;
    double alpha = 1;
    for (int halving = 0; halving < kHalvings && !accepted; ++halving, alpha *= 0.5) {
      const VectorXd u_new = WithinLimits(task, *u + alpha * du);
      accepted = residual(u_new, &r_new) && r_new.squaredNorm() < r->squaredNorm() * (1 - 1e-9);
      if (!accepted) continue;
      *u = u_new;
      *r = r_new;
    }
    if (!accepted) break;
  }
  return true;
}

bool FactorMass(const mjModel* model, mjData* data, const VectorXd& x, const VectorXd& context,
                Eigen::LLT<MatrixXd>* L) {
  SetContext(model, data, context);
  VectorXd none;
  if (Forward(model, data, x, VectorXd::Zero(model->nu), none) != StepStatus::kOk) return false;
  L->compute(MassMatrix(model, data));
  return true;
}

}  // namespace costate
