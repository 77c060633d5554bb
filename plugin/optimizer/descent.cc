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
  return cost && cost->HasMovingTarget();
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

// a descent; of a fit to a recorded motion by way of a start that is held, and of shorter motions
class Descent {
 public:
  Descent(const Task& task, ParameterSet* parameters, const DescentOptions& options, const DescentCallback& callback)
      : task_(task),
        options_(options),
        callback_(callback),
        loss_(task, parameters, options.smooth),
        np_(loss_.theta().size()),
        guess_(loss_.Z()),
        recording_(options.method == DescentMethod::kGaussNewton && FollowsRecording(task)) {
    loss_.Bounds(&lower_, &upper_, &scale_);
  }

  DescentResult Run();

 private:
  bool Record(IterationRecord at, const VectorXd& z, double least);
  MinimizeResult MinimizeFrom(const VectorXd& z, int most, const MinimizeCallback& go_on);
  void FollowWhole(const VectorXd& z, int most);
  void FollowByHeldStart();
  void FollowByShorter();
  void TakeBest();

  int Recorded() const { return static_cast<int>(result_.iterations.size()); }

  const Task& task_;
  const DescentOptions& options_;
  const DescentCallback& callback_;
  TaskLoss loss_;
  const Eigen::Index np_;
  VectorXd lower_, upper_, scale_;
  const VectorXd guess_;
  const bool recording_;  // what is compared is a recorded motion
  std::vector<VectorXd> history_;
  bool interrupted_ = false;
  int before_ = 0;  // iterations of the whole motion alone; the others have as many again
  MinimizeResult found_;
  DescentResult result_;
};

bool Descent::Record(IterationRecord at, const VectorXd& z, double least) {
  at.iteration = Recorded();
  at.cost = std::min(at.cost, least);
  result_.iterations.push_back(at);
  history_.push_back(z.tail(np_));
  interrupted_ = interrupted_ || (callback_ && !callback_(at, history_.back()));
  return !interrupted_;
}

MinimizeResult Descent::MinimizeFrom(const VectorXd& z, int most, const MinimizeCallback& go_on) {
  DescentOptions left = options_;
  left.iterations -= std::max(0, Recorded() - 1 - before_);
  left.iterations = std::min(left.iterations, most);
  return Minimize([&](const VectorXd& at, VectorXd* g) { return loss_(at, g); }, z, lower_, upper_, scale_, left, go_on,
                  [&](MatrixXd* H) { return loss_.GaussNewton(H); });
}

void Descent::FollowWhole(const VectorXd& z, int most) {
  const double initial = found_.initial_value;
  const bool again = !result_.iterations.empty();
  found_ = MinimizeFrom(z, most, [&](const IterationRecord& at, const VectorXd& there) {
    return again && at.iteration == 0 ? !interrupted_ : Record(at, there, kInf);
  });
  if (again) found_.initial_value = initial;
  before_ = Recorded() - 1;
}

// a recorded start is near the true one, and about contacts a free one goes astray: first all else
void Descent::FollowByHeldStart() {
  const VectorXd free_lower = lower_, free_upper = upper_;
  lower_.head(static_cast<Eigen::Index>(task_.inputs.start.size())).setZero();
  upper_.head(static_cast<Eigen::Index>(task_.inputs.start.size())).setZero();
  FollowWhole(guess_, std::min(options_.iterations / 2, kMostShorter));
  lower_ = free_lower;
  upper_ = free_upper;
  if (found_.status != SolveStatus::kDiverged && found_.value > options_.floor && !interrupted_)
    FollowWhole(found_.z, options_.iterations - before_);
}

// over a long motion a fit has many minima, over its beginning few
void Descent::FollowByShorter() {
  const auto over = [&] { return interrupted_ || Recorded() > before_ + options_.iterations; };
  VectorXd z = guess_;
  for (int part = kShortest; part >= 1 && !over(); part /= 2) {
    if (task_.N / part < kFewestKnots) continue;
    loss_.Shorten(task_.N / part);
    const MinimizeResult led = MinimizeFrom(z, part > 1 ? kMostShorter : options_.iterations,
                                            [&](const IterationRecord& at, const VectorXd& there) {
                                              if (at.iteration == 0) return !interrupted_;
                                              if (part == 1) return Record(at, there, found_.value);
                                              IterationRecord shorter{.cost = found_.value};
                                              shorter.beside = "best so far; over the first part of the motion alone:";
                                              return Record(shorter, there, found_.value);
                                            });
    if (led.status == SolveStatus::kDiverged) break;
    z = led.z;
    if (part > 1 || !(led.value < kBetter * found_.value)) continue;
    const double initial = found_.initial_value, alone = found_.value;
    found_ = led;
    found_.initial_value = initial;
    found_.message +=
        fmt::format(", behind others by way of shorter motions; the whole one alone led to {:.6g} in {} iterations",
                    alone, before_);
  }
  loss_.Shorten(task_.N);
  if (interrupted_) found_.status = SolveStatus::kInterrupted;
}

// the best once more: what was tried last need not be it
void Descent::TakeBest() {
  result_.status = found_.status;
  result_.message = found_.message;
  result_.initial_loss = found_.initial_value;
  result_.gradient_norm = found_.gradient_norm;
  VectorXd g;
  result_.loss = loss_(found_.z, &g);
  result_.x0 = loss_.x0();
  result_.U = loss_.U();
  result_.theta = loss_.theta();
  result_.gradient = loss_.gradient();
  result_.history.resize(np_, static_cast<Eigen::Index>(history_.size()));
  for (std::size_t k = 0; k < history_.size(); k++) result_.history.col(static_cast<Eigen::Index>(k)) = history_[k];
}

DescentResult Descent::Run() {
  if (recording_ && np_ > 0 && !task_.inputs.start.empty() && task_.inputs.start.front() < task_.model->nv) {
    FollowByHeldStart();
  } else {
    FollowWhole(guess_, options_.iterations);
  }
  if (recording_ && found_.value > options_.floor) FollowByShorter();
  TakeBest();
  return std::move(result_);
}

}  // namespace

void CheckDescent(const Task& task, const ParameterSet* parameters, const DescentOptions& options) {
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
}

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
  CheckDescent(task, parameters, options);
  return Descent(task, parameters, options, callback).Run();
}

}  // namespace costate
