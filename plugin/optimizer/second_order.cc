#include "optimizer/second_order.h"

#include "rollout/check_trajectory.h"
#include "rollout/direction.h"
#include "rollout/step_curvature.h"

namespace costate {

SecondOrder::SecondOrder(const Problem& problem, const mjModel* model, Level level, int workers)
    : problem_(problem),
      model_(model),
      dims_(model),
      level_(level),
      sensors_(problem.cost->NeedsSensors()),
      products_(static_cast<std::size_t>(workers)) {
  CheckHandsOnNothing(model);
}

StepStatus SecondOrder::Hessian(const Trajectory& trajectory, int t, double dt, ConstVectorRef lambda, ConstMatrixRef C,
                                ConstMatrixRef D, int worker, MatrixXd* H) {
  std::unique_ptr<KnotProducts>& products = products_[static_cast<std::size_t>(worker)];
  if (!products)
    products = std::make_unique<KnotProducts>(model_, problem_.context, problem_.substeps, level_, nullptr);
  const bool last = t == trajectory.N();
  const Eigen::Index ndx = dims_.ndx, nu = last ? 0 : dims_.nu, n = ndx + nu, ns = sensors_ ? dims_.ns : 0;
  const KnotView view = ViewKnot(trajectory, t, dt);
  KnotGradient slope{VectorXd::Zero(ndx), VectorXd::Zero(nu), VectorXd::Zero(ns)};
  problem_.cost->Gradient(view, &slope);

  // (Aᵀλ + Cᵀσ; Bᵀλ + Dᵀσ), whose change along a direction is the curvature of step and sensors
  const VectorXd none = VectorXd::Zero(ndx);
  const VectorXd costate = last ? none : VectorXd(lambda);
  products->ForgetCoverage();
  KnotCovector back;
  if (!products->Pull(PointAt(trajectory, t), costate, slope.s, &back)) return products->status();
  VectorXd pulled(n), no_theta;
  pulled << back.x, back.u;
  const bool differenced = products->differenced(false);

  H->resize(n, n);
  VectorXd bent(n);
  for (Eigen::Index j = 0; j < n; ++j) {
    KnotGradient direction{VectorXd::Zero(ndx), VectorXd::Zero(nu), VectorXd::Zero(ns)};
    (j < ndx ? direction.x[j] : direction.u[j - ndx]) = 1;
    if (ns > 0) direction.s = j < ndx ? VectorXd(C.col(j)) : VectorXd(D.col(j - ndx));
    KnotGradient of_loss{VectorXd::Zero(ndx), VectorXd::Zero(nu), VectorXd::Zero(ns)};
    problem_.cost->HessianProduct(model_, view, direction, &of_loss);
    if (ns > 0) {
      of_loss.x.noalias() += C.transpose() * of_loss.s;
      if (!last) of_loss.u.noalias() += D.transpose() * of_loss.s;
    }
    const StepBend bend{.model = model_,
                        .at = PointAt(trajectory, t),
                        .lambda = costate,
                        .sigma = slope.s,
                        .dx = direction.x,
                        .du = direction.u,
                        .pulled = pulled,
                        .differenced = differenced,
                        .theta = no_theta,
                        .theta_differenced = false};
    BendSides sides;
    if (!Bend(bend, products.get(), bent, no_theta, &sides)) return products->status();
    H->col(j) << of_loss.x, of_loss.u;
    H->col(j) += bent;
  }

  // in exponential coordinates: what is antisymmetric is the bracket of the directions
  *H = (0.5 * (*H + H->transpose())).eval();
  return StepStatus::kOk;
}

}  // namespace costate
