// A task's loss as a function of one vector z = (controls, start, parameters), handed to Minimize.
#include <costate/descent.h>
#include <fmt/format.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/extremes.h"
#include "derivative/munthe_kaas.h"
#include "optimizer/control_limits.h"
#include "optimizer/cost_terms.h"
#include "optimizer/fit_bounds.h"
#include "optimizer/input_tangent.h"
#include "optimizer/minimize.h"
#include "optimizer/task_inputs.h"
#include "optimizer/task_start.h"

namespace costate {
namespace {

// of a fit from shorter motions on: their shortest part, how many knots it has at least, iterations of each, as of
// those with the start held, and what is worth it
constexpr int kShortest = 8, kFewestKnots = 8, kMostShorter = 30;
constexpr double kBetter = 1 - 1e-6;

// L(x0 ⊕ dx) has the slope Jᵀ g by dx when it has g at the point x0 ⊕ dx
void PullBackStart(const mjModel* model, const VectorXd& dx, VectorXd* g) {
  ForRotations(model, [&](int at) {
    const Eigen::Vector3d turned = dx.segment<3>(at), slope = g->segment<3>(at);
    g->segment<3>(at) = RightJacobian(turned).ApplyTransposed(turned, slope);
  });
}

class TaskLoss {
 public:
  TaskLoss(const Task& task, ParameterSet* parameters, const SmoothContact& smooth)
      : task_(task),
        parameters_(parameters),
        model_(parameters ? parameters->model() : task.model.get()),
        simulator_(model_, task.context, task.substeps, 1),
        adjoint_(model_, task.context, task.substeps),
        U_(task.U_guess),
        S_(task.spline.knots > 0 ? SplineBasis(task.spline, task.N) : MatrixXd()),
        dx_(VectorXd::Zero(Dims(model_).ndx)),
        theta_(parameters ? parameters->Get() : VectorXd()) {
    options_.parameters = parameters;
    options_.level = task.solver.derivative.level;
    if (S_.size() > 0) knots_ = WithinLimits(task, FitSpline(S_, task.U_guess));
    if (!smooth.any()) return;
    smooth_ = MakeSmoothModel(model_, smooth);
    options_.derivative_model = smooth_.model.get();
    options_.smoothing = smooth_.smoothing;
  }

  int size() const { return Controls() + Starts() + Parameters(); }
  void Bounds(VectorXd* lower, VectorXd* upper, VectorXd* scale) const;
  VectorXd Z() const;

  /// The loss is that of the first N knots from here on; not with splines.
  void Shorten(int N) { U_ = task_.U_guess.leftCols(N); }

  // NaN where the motion fails
  double operator()(const VectorXd& z, VectorXd* g);

  // JᵀWJ by start and parameters where the last gradient was taken
  bool GaussNewton(MatrixXd* H);

  const RolloutGradient& gradient() const { return gradient_; }
  VectorXd x0() const { return dx_.isZero(0) ? task_.x0 : Retract(model_, task_.x0, dx_); }
  const MatrixXd& U() const { return U_; }
  const VectorXd& theta() const { return theta_; }

 private:
  int Columns() const { return S_.size() > 0 ? static_cast<int>(S_.rows()) : task_.N; }  // of controls in z
  int Controls() const { return static_cast<int>(task_.inputs.controls.size()) * Columns(); }
  int Starts() const { return static_cast<int>(task_.inputs.start.size()); }
  int Parameters() const { return static_cast<int>(theta_.size()); }
  void Take(const VectorXd& z);
  MatrixXd ByKnots() const;

  const Task& task_;
  ParameterSet* parameters_;
  const mjModel* model_;
  Simulator simulator_;
  Adjoint adjoint_;
  AdjointOptions options_;
  SmoothModel smooth_;
  Trajectory motion_;
  RolloutGradient gradient_;
  MatrixXd U_, S_, knots_;  // controls; with a spline its basis, and its knots (nu × knots)
  VectorXd dx_, theta_;
};

void TaskLoss::Bounds(VectorXd* lower, VectorXd* upper, VectorXd* scale) const {
  *lower = VectorXd::Constant(size(), -kInf);
  *upper = VectorXd::Constant(size(), kInf);
  *scale = VectorXd::Ones(size());
  int at = 0;
  for (int t = 0; t < Columns(); t++) {
    for (int i : task_.inputs.controls) {
      (*lower)[at] = task_.u_lower[i];
      (*upper)[at] = task_.u_upper[i];
      const double half = 0.5 * (task_.u_upper[i] - task_.u_lower[i]);
      (*scale)[at++] = std::isfinite(half) && half > 0 ? half : 1;
    }
  }
  VectorXd start_lower, start_upper;
  StartBounds(model_, task_.x0, &start_lower, &start_upper);
  for (int i : task_.inputs.start) {
    (*lower)[at] = start_lower[i];
    (*upper)[at++] = start_upper[i];
  }
  for (int k = 0; k < Parameters(); k++) {
    const TaskParameter& parameter = task_.inputs.parameters[static_cast<std::size_t>(k)];
    std::tie((*lower)[at], (*upper)[at]) = FitBounds(parameter, (*parameters_)[k], theta_[k]);
    (*scale)[at++] = parameter.value != 0 ? std::abs(parameter.value) : 1;
  }
}

VectorXd TaskLoss::Z() const {
  VectorXd z(size());
  int at = 0;
  const MatrixXd& controls = S_.size() > 0 ? knots_ : U_;
  for (int t = 0; t < Columns(); t++) {
    for (int i : task_.inputs.controls) z[at++] = controls(i, t);
  }
  for (int i : task_.inputs.start) z[at++] = dx_[i];
  z.tail(Parameters()) = theta_;
  return z;
}

void TaskLoss::Take(const VectorXd& z) {
  int at = 0;
  MatrixXd& controls = S_.size() > 0 ? knots_ : U_;
  for (int t = 0; t < Columns(); t++) {
    for (int i : task_.inputs.controls) controls(i, t) = z[at++];
  }

  // U = clamp(C S); controls that are not named stay as they are
  for (int i : task_.inputs.controls) {
    if (S_.size() > 0) U_.row(i) = (knots_.row(i) * S_).cwiseMax(task_.u_lower[i]).cwiseMin(task_.u_upper[i]);
  }
  for (int i : task_.inputs.start) dx_[i] = z[at++];
  theta_ = z.tail(Parameters());
  if (parameters_) parameters_->Set(theta_);
}

// the gradient by U times Sᵀ; where a control is held at its bound its spline has no slope
MatrixXd TaskLoss::ByKnots() const {
  const MatrixXd free = knots_ * S_;
  MatrixXd g = gradient_.U;
  for (Eigen::Index t = 0; t < g.cols(); t++) {
    for (Eigen::Index i = 0; i < g.rows(); i++) {
      if (free(i, t) < task_.u_lower[i] || free(i, t) > task_.u_upper[i]) g(i, t) = 0;
    }
  }
  return g * S_.transpose();
}

double TaskLoss::operator()(const VectorXd& z, VectorXd* g) {
  if (g) *g = VectorXd::Constant(size(), kNan);
  try {
    Take(z);
  } catch (const Error& error) {
    // a model that cannot exist is a step too far
    if (error.code() == ErrorCode::kEngine) return kNan;
    throw;
  }
  if (!g) {
    if (!simulator_.Rollout(x0(), U_, &motion_).ok()) return kNan;
    return TotalCost(*task_.cost, motion_, simulator_.knot_time());
  }
  adjoint_.Gradient(x0(), U_, *task_.cost, options_, &gradient_);
  if (!gradient_.status.ok()) return kNan;
  int at = 0;
  const MatrixXd controls = S_.size() > 0 ? ByKnots() : gradient_.U;
  for (int t = 0; t < Columns(); t++) {
    for (int i : task_.inputs.controls) (*g)[at++] = controls(i, t);
  }
  VectorXd start = gradient_.x0;
  PullBackStart(model_, dx_, &start);
  for (int i : task_.inputs.start) (*g)[at++] = start[i];
  if (Parameters() > 0) g->tail(Parameters()) = gradient_.theta;
  return gradient_.loss;
}

bool TaskLoss::GaussNewton(MatrixXd* H) {
  if (!simulator_.Rollout(x0(), U_, &motion_).ok()) return false;
  std::vector<int> inputs(static_cast<std::size_t>(Starts() + Parameters()));
  std::iota(inputs.begin(), inputs.end(), 0);
  std::vector<RolloutDirection> directions = InputDirections(task_, inputs, static_cast<int>(dx_.size()), Parameters());
  for (RolloutDirection& d : directions) {  // of x0 ⊕ dx by dx
    ForRotations(model_, [&](int at) {
      const Eigen::Vector3d turned = dx_.segment<3>(at), moved = d.x0.segment<3>(at);
      d.x0.segment<3>(at) = RightJacobian(turned).Apply(turned, moved);
    });
  }
  H->setZero(size(), size());
  return AlongMotion(task_, parameters_, motion_, std::move(directions), [&](const MotionPiece& piece) {
    for (int t = piece.begin; t < piece.end; t++) AddGaussNewton(model_, *task_.cost, piece, t, 1, H);
  });
}

bool FollowsRecording(const Task& task) {
  const auto* cost = dynamic_cast<const ResidualCost*>(task.cost.get());
  return cost && std::ranges::any_of(cost->terms(), [](const ResidualTerm& t) { return t.target.time.size() > 1; });
}

void CheckInputs(const Task& task, const ParameterSet* parameters) {
  CheckTaskParameters(task, parameters);
  if (task.constraints.size() > 0) {
    throw Error(ErrorCode::kUnsupported, "a descent keeps no constraints, and the task has '" +
                                             task.constraints[0].info().name +
                                             "': give it soft=\"weight\", or use an optimizer that keeps them");
  }
  if (task.inputs.parameters.empty() && task.inputs.controls.empty() && task.inputs.start.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the task names nothing to change: no controls, no start, no parameters");
  }
}

}  // namespace

const char* ToString(DescentMethod method) {
  switch (method) {
    case DescentMethod::kGradient: return "gd";
    case DescentMethod::kLbfgs: return "lbfgs";
    case DescentMethod::kGaussNewton: return "gauss-newton";
    case DescentMethod::kAdam: return "adam";
  }
  return "unknown";
}

DescentResult Descend(const Task& task, ParameterSet* parameters, const DescentOptions& options,
                      const DescentCallback& callback) {
  CheckInputs(task, parameters);
  if (options.smooth.any() && parameters && parameters->size() > 0) {
    throw Error(ErrorCode::kInvalidArgument, "descent: slopes by '" + parameters->Names().front() +
                                                 "' are of the model that it changes, not of a smoothed one");
  }
  if (options.method == DescentMethod::kGaussNewton && (!task.inputs.controls.empty() || options.smooth.any())) {
    throw Error(ErrorCode::kUnsupported,
                task.inputs.controls.empty()
                    ? "Gauss-Newton steps have no smoothed slopes: L-BFGS has"
                    : "Gauss-Newton steps are for starts and parameters, and controls are among what is changed");
  }
  if (options.method == DescentMethod::kGaussNewton && task.model->nhistory > 0) {
    throw Error(ErrorCode::kUnsupported, "Gauss-Newton steps need tangents, which do not follow delays, and model '" +
                                             ModelName(task.model.get()) +
                                             "' has them: L-BFGS needs gradients alone (--descend lbfgs)");
  }
  TaskLoss loss(task, parameters, options.smooth);
  VectorXd lower, upper, scale;
  loss.Bounds(&lower, &upper, &scale);
  const Eigen::Index np = loss.theta().size();
  std::vector<VectorXd> history;
  DescentResult result;
  bool interrupted = false;
  const auto record = [&](IterationRecord at, const VectorXd& z, double least) {
    at.iteration = static_cast<int>(result.iterations.size());
    at.cost = std::min(at.cost, least);
    result.iterations.push_back(at);
    history.push_back(z.tail(np));
    interrupted = interrupted || (callback && !callback(at, history.back()));
    return !interrupted;
  };
  int before = 0;  // iterations of the whole motion alone; the others have as many again
  const auto minimize = [&](const VectorXd& z, int most, const MinimizeCallback& go_on) {
    DescentOptions left = options;
    left.iterations -= std::max(0, static_cast<int>(result.iterations.size()) - 1 - before);
    left.iterations = std::min(left.iterations, most);
    return Minimize([&](const VectorXd& at, VectorXd* g) { return loss(at, g); }, z, lower, upper, scale, left, go_on,
                    [&](MatrixXd* H) { return loss.GaussNewton(H); });
  };
  const VectorXd guess = loss.Z();
  const bool recording = options.method == DescentMethod::kGaussNewton && FollowsRecording(task);
  MinimizeResult found;
  const auto whole = [&](const VectorXd& z, int most) {
    const double initial = found.initial_value;
    const bool again = !result.iterations.empty();
    found = minimize(z, most, [&](const IterationRecord& at, const VectorXd& there) {
      return again && at.iteration == 0 ? !interrupted : record(at, there, kInf);
    });
    if (again) found.initial_value = initial;
    before = static_cast<int>(result.iterations.size()) - 1;
  };

  // a recorded start is near the true one, and about contacts a free one goes astray: first all else
  if (recording && np > 0 && !task.inputs.start.empty() && task.inputs.start.front() < task.model->nv) {
    const VectorXd free_lower = lower, free_upper = upper;
    lower.head(static_cast<Eigen::Index>(task.inputs.start.size())).setZero();
    upper.head(static_cast<Eigen::Index>(task.inputs.start.size())).setZero();
    whole(guess, std::min(options.iterations / 2, kMostShorter));
    lower = free_lower;
    upper = free_upper;
    if (found.status != SolveStatus::kDiverged && found.value > options.floor && !interrupted)
      whole(found.z, options.iterations - before);
  } else {
    whole(guess, options.iterations);
  }

  // over a long motion a fit has many minima, over its beginning few
  if (recording && found.value > options.floor) {
    const auto over = [&] {
      return interrupted || static_cast<int>(result.iterations.size()) > before + options.iterations;
    };
    VectorXd z = guess;
    for (int part = kShortest; part >= 1 && !over(); part /= 2) {
      if (task.N / part < kFewestKnots) continue;
      loss.Shorten(task.N / part);
      const MinimizeResult led = minimize(
          z, part > 1 ? kMostShorter : options.iterations, [&](const IterationRecord& at, const VectorXd& there) {
            if (at.iteration == 0) return !interrupted;
            return record(part > 1 ? IterationRecord{.cost = found.value} : at, there, found.value);
          });
      if (led.status == SolveStatus::kDiverged) break;
      z = led.z;
      if (part > 1 || !(led.value < kBetter * found.value)) continue;
      const double initial = found.initial_value, alone = found.value;
      found = led;
      found.initial_value = initial;
      found.message +=
          fmt::format("; by way of shorter motions, the whole one alone led to {:.6g} in {} iterations", alone, before);
    }
    loss.Shorten(task.N);
    if (interrupted) found.status = SolveStatus::kInterrupted;
  }
  result.status = found.status;
  result.message = found.message;
  result.initial_loss = found.initial_value;
  result.gradient_norm = found.gradient_norm;

  // the best once more: what was tried last need not be it
  VectorXd g;
  result.loss = loss(found.z, &g);
  result.x0 = loss.x0();
  result.U = loss.U();
  result.theta = loss.theta();
  result.gradient = loss.gradient();
  result.history.resize(np, static_cast<Eigen::Index>(history.size()));
  for (std::size_t k = 0; k < history.size(); k++) result.history.col(static_cast<Eigen::Index>(k)) = history[k];
  return result;
}

}  // namespace costate
