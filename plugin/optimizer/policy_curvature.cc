#include "optimizer/policy_curvature.h"

namespace costate {
namespace {

Problem OfHorizon(const Task& task, int N) {
  Problem problem = task.ToProblem();
  problem.N = N;
  return problem;
}

}  // namespace

void CheckPolicyCurvature(const NetworkPolicy& policy) {
  const bool late = policy.model()->nhistory > 0;
  if (!late && !policy.NeedsSensors()) return;
  throw Error(ErrorCode::kUnsupported,
              (late ? "Gauss-Newton steps do not follow delays, and model '" + ModelName(policy.model()) + "' has them"
                    : std::string("Gauss-Newton steps are of laws that see the state, and this one sees sensors")) +
                  ": L-BFGS needs gradients alone");
}

PolicyCurvature::PolicyCurvature(const Task& task, const NetworkPolicy& policy, int N, Simulator* simulator)
    : policy_(policy), problem_(OfHorizon(task, N)), expander_(problem_, simulator, task.solver.derivative) {}

bool PolicyCurvature::Add(const Trajectory& motion, double factor, MatrixXd* sum) {
  if (expander_.Expand(motion, &lq_) >= 0) return false;
  const Eigen::Index ndx = lq_.lx.size(), nu = motion.U.rows(), nw = policy_.weights();
  moved_.setZero(ndx + nu, nw);  // δx, then δu, by each weight
  law_x_.resize(ndx, nu);
  law_w_.resize(nw, nu);
  VectorXd unit(nu), no_sensors;
  MatrixXd W(ndx + nu, ndx + nu);
  auto dx = moved_.topRows(ndx), du = moved_.bottomRows(nu);
  for (int t = 0; t < motion.N(); t++) {
    law_x_.setZero();
    law_w_.setZero();
    for (Eigen::Index i = 0; i < nu; i++) {
      unit = VectorXd::Unit(nu, i);
      FeedbackGradient row{law_x_.col(i), no_sensors, law_w_.col(i)};
      policy_.PullBack({t, motion.time[t], motion.X.col(t), no_sensors}, unit, &row);
    }
    du = law_w_.transpose();
    du.noalias() += law_x_.transpose() * dx;

    const LqKnot& knot = lq_.knots[static_cast<std::size_t>(t)];
    W << knot.lxx, knot.lux.transpose(), knot.lux, knot.luu;
    weighed_.noalias() = W * moved_;
    sum->noalias() += factor * moved_.transpose() * weighed_;
    moves_.noalias() = knot.A * dx;
    moves_.noalias() += knot.B * du;
    dx = moves_;
  }
  weighed_.noalias() = lq_.lxx * dx;
  sum->noalias() += factor * dx.transpose() * weighed_;
  return sum->allFinite();
}

}  // namespace costate
