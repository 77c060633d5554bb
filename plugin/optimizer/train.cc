// Weights of a policy by the gradient of the mean cost over many starts, each one adjoint of the closed loop.
#include <costate/ilqr.h>
#include <costate/policy.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "core/check.h"
#include "core/extremes.h"
#include "core/random.h"
#include "optimizer/loss_check.h"
#include "optimizer/minimize.h"
#include "optimizer/policy_curvature.h"

namespace costate {
namespace {

constexpr int kShortest = 10;             // knots of a stage, at least
constexpr double kStageTolerance = 1e-4;  // relative decrease of the mean cost that ends a stage before the last

// starts x0 ⊕ d, each from a number of its own: more of them begin with the same ones
MatrixXd DrawStarts(const Task& task, std::uint64_t seed, int count) {
  const PolicyOptions& options = task.policy;
  MatrixXd starts(task.x0.size(), count);
  std::mt19937_64 engine(seed);
  VectorXd d(options.spread.size());
  for (int i = 0; i < count; i++) {
    for (Eigen::Index k = 0; k < d.size(); k++) d[k] = options.spread[k] * (2 * Uniform(engine()) - 1);
    starts.col(i) = d.size() > 0 ? Retract(task.model.get(), task.x0, d) : task.x0;
  }
  return starts;
}

class MeanCost {
 public:
  MeanCost(const Task& task, NetworkPolicy* policy, const TrainOptions& options)
      : task_(task),
        policy_(policy),
        simulator_(task.model.get(), task.context, task.substeps, options.threads),
        adjoint_(task.model.get(), task.context, task.substeps, options.threads),
        N_(task.N),
        motions_(static_cast<std::size_t>(simulator_.threads())) {
    adjoint_options_.level = task.solver.derivative.level;
    adjoint_options_.feedback = policy;
    adjoint_options_.window = options.window;
    adjoint_options_.clip = options.clip;
  }

  void SetHorizon(int N) {
    N_ = N;
    curvature_.reset();
  }

  // one cost a start, infinite where the motion fails
  VectorXd Costs(const MatrixXd& starts) {
    VectorXd costs(starts.cols());
    simulator_.ParallelFor(static_cast<int>(starts.cols()), [&](int i, int worker) {
      Trajectory& motion = motions_[static_cast<std::size_t>(worker)];
      const bool good = simulator_.RolloutFeedback(starts.col(i), N_, *policy_, &motion, worker).ok();
      costs[i] = good ? TotalCost(*task_.cost, motion, simulator_.knot_time()) : kInf;
    });
    return costs;
  }

  double Value(const MatrixXd& starts, VectorXd* g) {
    const int count = static_cast<int>(starts.cols());
    if (!g) return Finite(Costs(starts).mean());
    gradients_.resize(policy_->weights(), count);
    std::vector<char> shortened(static_cast<std::size_t>(count));
    VectorXd costs = VectorXd::Constant(count, kInf);
    adjoint_.ParallelFor(count, [&](int i, int worker) {
      Trajectory& motion = motions_[static_cast<std::size_t>(worker)];
      if (!simulator_.RolloutFeedback(starts.col(i), N_, *policy_, &motion, worker).ok()) return;
      RolloutGradient gradient;
      adjoint_.Gradient(starts.col(i), motion.U, *task_.cost, adjoint_options_, &gradient, worker);
      if (!gradient.status.ok()) return;
      gradients_.col(i) = gradient.weights;
      shortened[static_cast<std::size_t>(i)] = !gradient.health.clipped.empty() || !gradient.health.dropped.empty();
      costs[i] = gradient.loss;
    });
    shortened_ = std::ranges::find(shortened, 1) != shortened.end();
    const double mean = Finite(costs.mean());
    *g = std::isnan(mean) ? VectorXd(VectorXd::Constant(policy_->weights(), mean))
                          : VectorXd(gradients_.rowwise().mean());
    return mean;
  }

  // JᵀWJ of the mean by the weights; false where a motion or its derivative fails
  bool GaussNewton(const MatrixXd& starts, MatrixXd* H) {
    if (!curvature_) curvature_ = std::make_unique<PolicyCurvature>(task_, *policy_, N_, &simulator_);
    H->setZero(policy_->weights(), policy_->weights());
    Trajectory& motion = motions_[0];
    for (const auto& start : starts.colwise()) {
      if (!simulator_.RolloutFeedback(start, N_, *policy_, &motion).ok()) return false;
      if (!curvature_->Add(motion, 1.0 / static_cast<double>(starts.cols()), H)) return false;
    }
    return true;
  }

  // did a window or clip leave something out of the last gradient?
  bool shortened() const { return shortened_; }

  RolloutStatus Motion(Trajectory* out) { return simulator_.RolloutFeedback(task_.x0, task_.N, *policy_, out); }

 private:
  static double Finite(double value) { return std::isfinite(value) ? value : kNan; }

  const Task& task_;
  NetworkPolicy* policy_;
  Simulator simulator_;
  Adjoint adjoint_;
  AdjointOptions adjoint_options_;
  int N_;
  std::vector<Trajectory> motions_;
  std::unique_ptr<PolicyCurvature> curvature_;  // where Gauss–Newton steps are taken
  MatrixXd gradients_;
  bool shortened_ = false;
};

// of equals the first; empty ones are none
void TakeBest(const std::vector<VectorXd>& candidates, MeanCost* cost, NetworkPolicy* policy, const MatrixXd& starts) {
  const VectorXd* best = nullptr;
  double least = kInf;
  for (const VectorXd& w : candidates) {
    if (w.size() == 0) continue;
    policy->Set(w);
    const double mean = cost->Costs(starts).mean();
    if (best && !(mean < least)) continue;
    best = &w;
    least = std::isnan(mean) ? kInf : mean;
  }
  policy->Set(*best);
}

TrainCheck CompareSlopes(MeanCost* cost, NetworkPolicy* policy, const MatrixXd& starts) {
  TrainCheck check;
  const VectorXd w = policy->Get();
  VectorXd g;
  if (std::isnan(cost->Value(starts, &g)) || g.isZero(0)) return check;
  check.shortened = cost->shortened();
  if (check.shortened) return check;
  check.adjoint = g.norm();
  const VectorXd direction = g / check.adjoint;
  LossCheckEntry entry{.name = "weights", .adjoint = check.adjoint};
  const auto along = [&](double h) {
    policy->Set(w + h * direction);
    return cost->Value(starts, nullptr);
  };
  BestDifference(along, 1, check.adjoint, {}, &entry);
  check.difference = entry.difference;
  check.error_bar = entry.error_bar;
  policy->Set(w);
  return check;
}

// du/dz of (18) at the reference's first control
double SlopeAtReference(const Task& task, int control) {
  const double lower = task.u_lower[control], upper = task.u_upper[control];
  if (!std::isfinite(lower) || !std::isfinite(upper)) return 1;
  const double half = 0.5 * (upper - lower);
  if (half == 0) return 0;
  const double s = (task.U_guess(control, 0) - lower - half) / half;
  return half * (1 - s * s);
}

// Linear laws whose slope is a gain of the linear-quadratic problem about the reference: W = K_t by (18b), of the first
// knot and of later ones, where costs that count at the end alone weigh more. None where the policy has no such law, or
// the reference no gain.
std::vector<VectorXd> GainWeights(const Task& task, const NetworkPolicy& policy) {
  const int nu = static_cast<int>(task.U_guess.rows()), ndx = Dims(task.model.get()).ndx;
  std::vector<Observation> seen = task.policy.observations;
  if (seen.empty()) {
    for (int i = 0; i < ndx; i++) seen.push_back({.index = i});
  }
  const int n = static_cast<int>(seen.size());
  const bool linear = task.policy.hidden.empty() && policy.observations() == n && policy.weights() == nu * (n + 1);
  const mjModel* m = task.model.get();
  const bool late =
      std::any_of(m->actuator_delay, m->actuator_delay + m->nactuator, [](mjtNum delay) { return delay > 0; });
  if (!linear || late || !policy.Get().isZero(0)) return {};
  IlqrOptions options = task.solver;
  options.type = SolverType::kIlqr;
  options.second_order = false;
  options.iterations = 0;
  const SolveResult at_reference = SolveIlqr(task.ToProblem(), task.U_guess, options);
  if (at_reference.policy.K.empty()) return {};
  const Trajectory& reference = at_reference.trajectory;
  const VectorXd seen_at_end =
      policy.Observe({task.N, reference.time[task.N], reference.X.col(task.N), reference.S.col(task.N)});
  std::vector<VectorXd> gains;
  for (const double share : {0.0, 0.5, 0.75, 0.875, 0.95}) {
    const MatrixXd& K = at_reference.policy.K[static_cast<std::size_t>(share * task.N)];
    VectorXd w = VectorXd::Zero(policy.weights());
    for (int j = 0; j < n; j++) {
      const Observation& o = seen[static_cast<std::size_t>(j)];
      if (o.kind != Observation::Kind::kTangent || o.index >= ndx) continue;
      for (int i = 0; i < nu; i++) {
        const double slope = SlopeAtReference(task, i) * o.scale;
        if (slope != 0) w[i + nu * j] = K(i, o.index) / slope;
      }
    }
    if (!w.allFinite()) continue;
    gains.push_back(w);

    // the same about where the reference motion ends, (18c)
    const VectorXd z = Eigen::Map<const MatrixXd>(w.data(), nu, n) * seen_at_end;
    if (z.isZero(0)) continue;
    w.tail(nu) = -z;
    gains.push_back(std::move(w));
  }
  return gains;
}

}  // namespace

void CheckTrain(const Task& task, const TrainOptions& options) {
  if (task.constraints.size() > 0) {
    throw Error(ErrorCode::kUnsupported, "a policy keeps no constraints, and the task has '" +
                                             task.constraints[0].info().name + "': give it soft=\"weight\"");
  }
  if (task.free_time.longest > 0)
    throw Error(ErrorCode::kUnsupported, "a policy is trained over a given time: the task has <time>");
  if (task.continuation.smooth.any() || options.descent.smooth.any()) {
    throw Error(ErrorCode::kUnsupported,
                "a policy is trained on the true model: the task asks for smoother contact (<smooth>)");
  }
  if (!task.free_start.entries.empty()) {
    throw Error(ErrorCode::kUnsupported,
                "a policy is trained from given starts: the task's start is free (<start free=\"…\">)");
  }
  if (task.spline.knots > 0) throw Error(ErrorCode::kUnsupported, "a policy gives the controls: the task has <spline>");
  if (options.stages < 1 || options.stages > 30) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("stages is {}, expected 1 to 30", options.stages));
  }
  if (task.policy.starts < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("policy: starts is {}, expected at least 1", task.policy.starts));
  }
}

NetworkPolicy MakePolicy(const Task& task) {
  NotNull(task.model.get());
  PolicyOptions options = task.policy;
  if (options.x_ref.size() == 0) options.x_ref = task.x_goal.size() > 0 ? task.x_goal : task.x0;
  options.knot_time = task.knot_time();
  const DataPtr data = MakeData(task.model.get());
  SetContext(task.model.get(), data.get(), task.context);
  options.begin = data->time;
  return NetworkPolicy(task.model.get(), options, task.U_guess, task.u_lower, task.u_upper);
}

TrainResult TrainPolicy(const Task& task, NetworkPolicy* policy, const TrainOptions& options,
                        const TrainCallback& callback) {
  if (!policy) throw Error(ErrorCode::kInvalidArgument, "the policy is null");
  CheckTrain(task, options);
  if (options.descent.method == DescentMethod::kGaussNewton) CheckPolicyCurvature(*policy);
  const bool spread = task.policy.spread.size() > 0 && !task.policy.spread.isZero(0);
  TrainResult result;
  result.starts = DrawStarts(task, task.policy.seed, spread ? task.policy.starts : 1);
  const MatrixXd unseen = DrawStarts(task, task.policy.seed + 1, static_cast<int>(result.starts.cols()));
  MeanCost cost(task, policy, options);
  result.initial_unseen = cost.Costs(unseen).mean();
  result.initial_loss = cost.Costs(result.starts).mean();
  const VectorXd first = policy->Get();
  const std::vector<VectorXd> gains = GainWeights(task, *policy);
  const int n = policy->weights();
  const VectorXd bound = VectorXd::Constant(n, kInf);

  int done = 0;
  const auto descend = [&](int N, const DescentOptions& descent) {
    const int before = done;
    MinimizeResult found = Minimize(
        [&](const VectorXd& w, VectorXd* g) {
          policy->Set(w);
          return cost.Value(result.starts, g);
        },
        policy->Get(), -bound, bound, VectorXd::Ones(n), descent,
        [&](const IterationRecord& record, const VectorXd&) {
          IterationRecord numbered = record;
          numbered.iteration += before;
          done = numbered.iteration;
          result.iterations.push_back(numbered);
          return !callback || callback(numbered, N);
        },
        [&](MatrixXd* H) { return cost.GaussNewton(result.starts, H); });
    policy->Set(found.z);
    return found;
  };
  const auto keep = [&](int N, const char* from, const MinimizeResult& found) {
    policy->Set(found.z);
    result.status = found.status;
    result.message = fmt::format("over {} knots{}: {}", N, from, found.message);
    result.gradient_norm = found.gradient_norm;
  };

  for (int stage = 0; stage < options.stages; stage++) {
    const bool last = stage + 1 == options.stages;
    const int N = task.N >> (options.stages - 1 - stage);
    if (!last && N < kShortest) continue;
    cost.SetHorizon(N);
    if (done == 0) result.check = CompareSlopes(&cost, policy, result.starts);
    DescentOptions descent = options.descent;
    if (!last) {
      descent.iterations = options.descent.iterations / options.stages;
      descent.tolerance = kStageTolerance;
      const MinimizeResult found = descend(N, descent);
      keep(N, "", found);
      if (found.status == SolveStatus::kInterrupted) break;
      continue;
    }

    // from the best weights that there are
    const VectorXd staged = policy->Get();
    std::vector<VectorXd> others{first};
    others.insert(others.end(), gains.begin(), gains.end());
    TakeBest(others, &cost, policy, result.starts);
    const VectorXd other = policy->Get();
    TakeBest({staged, other}, &cost, policy, result.starts);
    const bool from_stages = policy->Get() != other;
    descent.iterations -= done;
    const MinimizeResult found = descend(N, descent);
    keep(N, "", found);
    descent.iterations = options.descent.iterations - done;
    if (!from_stages || found.status == SolveStatus::kInterrupted || descent.iterations <= 0) break;

    // short horizons may lead into a corner, as where all controls are at their limits and no slope is left
    policy->Set(other);
    const MinimizeResult again = descend(N, descent);
    if (again.value < found.value) {
      keep(N, " without the shorter ones", again);
    } else {
      policy->Set(found.z);
    }
  }
  cost.SetHorizon(task.N);
  result.costs = cost.Costs(result.starts);
  result.loss = result.costs.mean();
  if (result.loss > result.initial_loss) {  // an interrupted stage
    policy->Set(first);
    result.costs = cost.Costs(result.starts);
    result.loss = result.costs.mean();
  }
  result.unseen_costs = cost.Costs(unseen);
  result.unseen = result.unseen_costs.mean();
  result.motion_status = cost.Motion(&result.motion);
  return result;
}

}  // namespace costate
