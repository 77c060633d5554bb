// Standard errors of a fit, and what its data cannot tell apart. README.md, "What the data say".
#include <costate/uncertainty.h>
#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"
#include "optimizer/cost_terms.h"
#include "optimizer/fit_bounds.h"
#include "optimizer/input_tangent.h"
#include "optimizer/task_inputs.h"
#include "optimizer/task_start.h"

namespace costate {
namespace {

// a change whose effects cancel to this share of what its parts do, squared: what rounding and differences leave
constexpr double kNoEffect = 1e-13;

constexpr double kLargestCorrelation = 0.99;  // beyond it the widened variance is a guess

double TypicalSize(const Task& task, std::size_t input) {
  const std::size_t starts = task.inputs.start.size();
  if (input < starts) return 1;
  const double value = std::abs(task.inputs.parameters[input - starts].value);
  return value > 0 ? value : 1;
}

// the inputs that no bound holds
std::vector<int> FreeInputs(const Task& task, const ParameterSet* parameters, const VectorXd& x0) {
  const int starts = static_cast<int>(task.inputs.start.size());
  const VectorXd dx = Difference(task.model.get(), x0, task.x0);
  VectorXd start_lower, start_upper;
  StartBounds(task.model.get(), task.x0, &start_lower, &start_upper);
  std::vector<int> free;
  for (int i = 0; i < starts; i++) {
    const int entry = task.inputs.start[static_cast<std::size_t>(i)];
    if (AtStartBound(dx[entry], start_lower[entry], start_upper[entry]) == 0) free.push_back(i);
  }
  for (int k = 0; k < static_cast<int>(task.inputs.parameters.size()); k++) {
    const TaskParameter& p = task.inputs.parameters[static_cast<std::size_t>(k)];
    const double value = parameters->Get()[k];
    const auto [lower, upper] = FitBounds(p, (*parameters)[k], value);
    if (value > lower && value < upper) free.push_back(starts + k);
  }
  return free;
}

// knots at which a term counts, with its weights there and their common factor
struct Knot {
  int t;
  double scale;
  const VectorXd* weight;
};
std::vector<Knot> KnotsOf(const ResidualCost& cost, int term, const Trajectory& motion, double dt) {
  std::vector<Knot> knots;
  for (int t = 0; t <= motion.N(); t++) {
    const VectorXd* weight = nullptr;
    const double scale = cost.Weights(term, ViewKnot(motion, t, dt), &weight);
    if (scale > 0) knots.push_back({t, scale, weight});
  }
  return knots;
}

// what is left of each row of a term
struct Remainder {
  VectorXd variance;  // mean square, widened where one residual follows from the one before
  int numbers = 0;
  double loss = 0, correlation = 0;  // their part of the loss; sum of that times the correlation of each row
};
Remainder WhatIsLeft(const ResidualCost& cost, int term, const std::vector<Knot>& knots, const Trajectory& motion,
                     double dt) {
  const int rows = cost.terms()[static_cast<std::size_t>(term)].size();
  Remainder left{VectorXd::Zero(rows), 0, 0, 0};
  VectorXd r, before = VectorXd::Zero(rows), product = VectorXd::Zero(rows), count = VectorXd::Zero(rows),
              loss = VectorXd::Zero(rows);
  for (const Knot& knot : knots) {
    cost.Residual(term, ViewKnot(motion, knot.t, dt), &r);
    for (int i = 0; i < rows; i++) {
      if ((*knot.weight)[i] == 0) r[i] = 0;
      count[i] += (*knot.weight)[i] > 0;
    }
    left.variance += r.cwiseAbs2();
    loss += knot.scale * knot.weight->cwiseProduct(r.cwiseAbs2());
    product += r.cwiseProduct(before);
    before = r;
  }
  for (int i = 0; i < rows; i++) {
    left.numbers += static_cast<int>(count[i]);
    if (left.variance[i] == 0) continue;
    const double rho = std::min(product[i] / left.variance[i], kLargestCorrelation);
    left.variance[i] /= count[i];
    left.loss += loss[i];
    left.correlation += loss[i] * rho;
    if (rho > 2 / std::sqrt(count[i])) left.variance[i] *= (1 + rho) / (1 - rho);
  }
  return left;
}

// a term by itself for H, with the weights of (8b) for G, and where it counts
struct FitTerm {
  ResidualCost h, g;
  std::vector<Knot> knots;
};

// all terms; what is left is counted in `out`
std::vector<FitTerm> FitTerms(const mjModel* model, const ResidualCost& cost, const Trajectory& motion, double dt,
                              FitUncertainty* out) {
  std::vector<FitTerm> terms;
  double loss = 0;
  for (int k = 0; k < static_cast<int>(cost.terms().size()); k++) {
    std::vector<Knot> knots = KnotsOf(cost, k, motion, dt);
    const Remainder left = WhatIsLeft(cost, k, knots, motion, dt);
    out->residuals += left.numbers;
    out->correlation += left.correlation;
    loss += left.loss;
    const ResidualTerm& term = cost.terms()[static_cast<std::size_t>(k)];
    ResidualTerm squared = term;
    squared.weight = term.weight.cwiseAbs2().cwiseProduct(left.variance);
    squared.terminal = term.terminal.cwiseAbs2().cwiseProduct(left.variance);
    terms.push_back(
        {ResidualCost(model, {term}, cost.scale()), ResidualCost(model, {squared}, cost.scale()), std::move(knots)});
  }
  if (loss > 0) out->correlation /= loss;
  return terms;
}

// += Σ scale Jᵀ W J over the knots of a piece; scale² where `squared`
void AddProducts(const mjModel* model, const ResidualCost& one, const std::vector<Knot>& knots,
                 const MotionPiece& piece, bool squared, MatrixXd* sum) {
  for (const Knot& knot : knots) {
    if (knot.t < piece.begin || knot.t >= piece.end) continue;
    AddGaussNewton(model, one, piece, knot.t, squared ? knot.scale : 1, sum);
  }
}

// H⁻¹ where it has one, of the matrix with unit diagonal, and the changes along which it has none
void Invert(const MatrixXd& H, MatrixXd* inverse, MatrixXd* without) {
  const Eigen::Index p = H.rows();
  VectorXd unit(p);
  for (Eigen::Index i = 0; i < p; i++) unit[i] = H(i, i) > 0 ? 1 / std::sqrt(H(i, i)) : 0;
  const MatrixXd R = unit.asDiagonal() * H * unit.asDiagonal();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(0.5 * (R + R.transpose()));
  inverse->setZero(p, p);
  without->resize(p, 0);
  for (Eigen::Index k = 0; k < p; k++) {
    const VectorXd v = eigen.eigenvectors().col(k);
    if (eigen.eigenvalues()[k] > kNoEffect) {
      const VectorXd change = unit.cwiseProduct(v);
      *inverse += change * change.transpose() / eigen.eigenvalues()[k];
    } else {
      without->conservativeResize(p, without->cols() + 1);
      for (Eigen::Index i = 0; i < p; i++) (*without)(i, without->cols() - 1) = unit[i] > 0 ? unit[i] * v[i] : v[i];
    }
  }
}

// a change of the free inputs as one of all, the largest one typical size; what is a thousandth of that is none
UndeterminedDirection Direction(const Task& task, const std::vector<int>& free, const VectorXd& change,
                                double deviation) {
  VectorXd all = VectorXd::Zero(static_cast<Eigen::Index>(task.inputs.start.size() + task.inputs.parameters.size()));
  double largest = 0;
  for (std::size_t i = 0; i < free.size(); i++) {
    const double size = TypicalSize(task, static_cast<std::size_t>(free[i]));
    const double share = change[static_cast<Eigen::Index>(i)] / size;
    if (std::abs(share) > std::abs(largest)) largest = share;
  }
  for (std::size_t i = 0; i < free.size(); i++) {
    const double size = TypicalSize(task, static_cast<std::size_t>(free[i]));
    const double share = change[static_cast<Eigen::Index>(i)] / size / largest;
    if (std::abs(share) > 1e-3) all[free[i]] = share * size;
  }
  return {all, deviation};
}

std::string WhyNot(const Task& task, const ResidualCost* cost) {
  if (!task.inputs.controls.empty()) return "controls are among what was changed";
  if (task.inputs.start.empty() && task.inputs.parameters.empty()) return "nothing was fitted";
  if (cost == nullptr) return "the cost is no sum of residuals";
  for (const ResidualTerm& term : cost->terms()) {
    if (term.norm.type != NormType::kQuadratic) return fmt::format("the norm of '{}' is not quadratic", term.name);
  }
  return cost->HasMovingTarget() ? "" : "no target is a motion";
}

// of all inputs, from those that are free
void SpreadToInputs(const std::vector<int>& free, const MatrixXd& covariance, Eigen::Index inputs,
                    FitUncertainty* out) {
  out->covariance.setZero(inputs, inputs);
  out->deviation.setConstant(inputs, kNan);
  for (Eigen::Index i = 0; i < covariance.rows(); i++) {
    const int at = free[static_cast<std::size_t>(i)];
    out->deviation[at] = std::sqrt(std::max(covariance(i, i), 0.0));
    for (Eigen::Index j = 0; j < covariance.cols(); j++)
      out->covariance(at, free[static_cast<std::size_t>(j)]) = covariance(i, j);
  }
}

// what nothing sees, then what is seen less than its own size
void NameUndetermined(const Task& task, const std::vector<int>& free, const MatrixXd& covariance,
                      const MatrixXd& without, FitUncertainty* out) {
  for (Eigen::Index k = 0; k < without.cols(); k++) {
    out->undetermined.push_back(Direction(task, free, without.col(k), kInf));
    const VectorXd& change = out->undetermined.back().change;
    for (Eigen::Index i = 0; i < change.size(); i++) {
      if (change[i] == 0) continue;
      out->deviation[i] = kInf;
      out->covariance.row(i).setZero();
      out->covariance.col(i).setZero();
    }
  }
  const Eigen::Index p = covariance.rows();
  VectorXd size(p);
  for (Eigen::Index i = 0; i < p; i++)
    size[i] = TypicalSize(task, static_cast<std::size_t>(free[static_cast<std::size_t>(i)]));
  const MatrixXd relative = size.cwiseInverse().asDiagonal() * covariance * size.cwiseInverse().asDiagonal();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(0.5 * (relative + relative.transpose()));
  for (Eigen::Index k = p - 1; k >= 0 && eigen.eigenvalues()[k] > 1; k--) {
    const VectorXd v = eigen.eigenvectors().col(k);
    const double largest = v.cwiseAbs().maxCoeff();
    out->undetermined.push_back(
        Direction(task, free, size.cwiseProduct(v), std::sqrt(eigen.eigenvalues()[k]) * largest));
  }
}

}  // namespace

FitUncertainty EstimateUncertainty(const Task& task, const ParameterSet* parameters, ConstVectorRef x0,
                                   ConstMatrixRef U) {
  CheckTaskParameters(task, parameters);
  const mjModel* model = parameters ? parameters->model() : task.model.get();
  const auto* cost = dynamic_cast<const ResidualCost*>(task.cost.get());
  FitUncertainty out;
  out.why_not = WhyNot(task, cost);
  out.is_fit = task.inputs.controls.empty() && cost && cost->HasMovingTarget();
  if (!out.why_not.empty()) return out;
  Simulator simulator(model, task.context, task.substeps, 1);
  Trajectory motion;
  if (!simulator.Rollout(x0, U, &motion).ok()) {
    out.why_not = "the motion fails";
    return out;
  }

  const std::vector<FitTerm> terms = FitTerms(model, *cost, motion, simulator.knot_time(), &out);
  const std::vector<int> free = FreeInputs(task, parameters, x0);
  const auto p = static_cast<Eigen::Index>(free.size());
  if (p == 0) {
    out.why_not = "all that was fitted stands at its bounds";
    return out;
  }
  if (out.residuals <= p) {
    out.why_not = fmt::format("{} numbers are compared, and {} are fitted", out.residuals, p);
    return out;
  }

  // cov = n/(n − p) H⁻¹ G H⁻¹
  const Dims dims(model);
  const int np = parameters ? parameters->size() : 0;
  MatrixXd H = MatrixXd::Zero(p, p), G = MatrixXd::Zero(p, p), inverse, without;
  const auto add = [&](const MotionPiece& piece) {
    for (const FitTerm& term : terms) {
      AddProducts(model, term.h, term.knots, piece, false, &H);
      AddProducts(model, term.g, term.knots, piece, true, &G);
    }
  };
  try {
    if (!AlongMotion(task, parameters, motion, InputDirections(task, free, dims.ndx, np), add)) {
      out.why_not = "the motion has no derivative at a knot";
      return out;
    }
  } catch (const Error& error) {
    // a fit by gradients alone may be of a model without tangents, and stays one
    if (error.code() != ErrorCode::kUnsupported) throw;
    out.why_not = error.what();
    return out;
  }
  Invert(H, &inverse, &without);
  const double n = out.residuals;
  const MatrixXd covariance = n / (n - static_cast<double>(p)) * inverse * G * inverse;

  SpreadToInputs(free, covariance, static_cast<Eigen::Index>(task.inputs.start.size()) + np, &out);
  NameUndetermined(task, free, covariance, without, &out);
  return out;
}

}  // namespace costate
