// Strategies of smoothing side by side: the same tasks from the same start with the same number of iterations. Bias is
// of the gradient of the guess's loss by controls, along the true motion; scatter, the standard deviation of one such
// gradient under noise on the controls over the mean gradient; cost, success and time are of the whole optimization.
//   benchmark_smoothing [push | toss | hop]
#include <costate/costate.h>
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "benchmark/derived_ilqr.h"

namespace costate {
namespace {

constexpr int kBudget = 120;  // iterations of all stages together
constexpr int kPairs = 8;     // of samples

struct Case {
  const char *name, *title, *task;
  const char* struck;                // a geom whose contacts are impacts to the event model
  std::function<void(Task*)> begin;  // the start and guess, where they are not the task's own
  // what a person would call success, from the last state
  std::function<bool(const Task&, const Trajectory&)> success;
};

// the finger 1 cm in front of the box, no force
void BeginApart(Task* task) {
  const mjModel* m = task->model.get();
  task->x0[m->jnt_qposadr[mj_name2id(m, mjOBJ_JOINT, "finger_x")]] = -0.005;
  task->U_guess.setZero();
}

double Qpos(const Task& task, const Trajectory& motion, const char* joint) {
  const int id = mj_name2id(task.model.get(), mjOBJ_JOINT, joint);
  return motion.X(task.model->jnt_qposadr[id], motion.N());
}

bool Pushed(const Task& task, const Trajectory& motion) {
  return std::hypot(Qpos(task, motion, "box_x") - 0.3, Qpos(task, motion, "box_y") - 0.1) < 0.01;
}

bool InBin(const Task& task, const Trajectory& motion) {
  const double x = -0.45 + Qpos(task, motion, "ball_x"), z = 0.4449 + Qpos(task, motion, "ball_z");
  return std::abs(x - 1) < 0.07 && z < 0.15;
}

bool Hopped(const Task& task, const Trajectory& motion) {
  return std::abs(Qpos(task, motion, "root_x") - 0.6) < 0.1 && std::abs(Qpos(task, motion, "root_pitch")) < 0.3;
}

// ---- ways to differentiate ----

// of the true steps
DerivativeSource Engine(Simulator* simulator, const Task& task) {
  return [simulator, sensors = task.cost->NeedsSensors()](const Trajectory& motion, std::vector<StepDerivative>* out) {
    simulator->Linearize(motion, {.sensors = sensors, .centered = false, .converge = false}, out);
  };
}

// of their average, A and B alone: noise of 2 mm (mrad), 2 cm/s (rad/s) and 5 % of each control's range
DerivativeSource Averaged(const DerivativeSource& engine, Bundle* bundle, const Task& task, bool combined) {
  return [=, &task](const Trajectory& motion, std::vector<StepDerivative>* out) {
    engine(motion, out);
    const Dims dims(task.model.get());
    BundleOptions noise;
    noise.pairs = kPairs;
    noise.state = VectorXd::Constant(dims.ndx, 0.002);
    noise.state.segment(dims.nv, dims.nv).setConstant(0.02);
    noise.control = 0.05 * (task.u_upper - task.u_lower);
    BundleDerivative average;
    for (int t = 0; t < motion.N(); t++) {
      bundle->Linearize(motion.X.col(t), motion.U.col(t), noise, &average);
      (*out)[t].A = combined ? average.combined.A : average.first.A;
      (*out)[t].B = combined ? average.combined.B : average.first.B;
    }
  };
}

// aware of the instant of touch where one happens in an interval, of the true steps elsewhere
struct EventCounts {
  int impacts = 0, refused = 0, knots = 0;
};
DerivativeSource Events(const DerivativeSource& engine, ImpactLinearizer* impacts, const Task& task,
                        EventCounts* counts) {
  return [=, &task](const Trajectory& motion, std::vector<StepDerivative>* out) {
    engine(motion, out);
    ImpactStep step;
    VectorXd context = task.context;
    for (int t = 0; t < motion.N(); t++) {
      impacts->SetContext(context);
      impacts->Linearize(motion.X.col(t), motion.U.col(t), &step);
      counts->knots++;
      counts->refused += step.status != ImpactStatus::kOk;
      if (step.status != ImpactStatus::kOk || step.impacts.empty()) continue;
      counts->impacts++;
      (*out)[t].A = step.A;
      (*out)[t].B = step.B;
    }
  };
}

// ---- judged by their gradient of the guess ----

struct Bias {
  double relative = 0, cosine = 0, scatter = 0;
};

// against the true gradient; where that is 0 the bias is 1
Bias Compared(const MatrixXd& value, const MatrixXd& truth, double scatter) {
  const double product = truth.norm() * value.norm(), scale = truth.norm() > 0 ? truth.norm() : value.norm();
  return {scale > 0 ? (value - truth).norm() / scale : 0, product > 0 ? truth.cwiseProduct(value).sum() / product : 0,
          scatter};
}

// of the gradients of guesses with noise on their controls, 5 % of each range: standard deviation of one, over their
// mean
double Scatter(const Task& task, const AdjointOptions& options) {
  Bundle bundle(task.model.get(), task.context, task.substeps, 1);
  BundleOptions noise;
  noise.pairs = kPairs;
  noise.control = 0.05 * (task.u_upper - task.u_lower);
  BundleGradient out;
  bundle.Gradient(task.x0, task.U_guess, *task.cost, noise, options, &out);
  const double norm = std::sqrt(out.first.U.squaredNorm() + out.first.x0.squaredNorm());
  return norm > 0 ? out.first.deviation * std::sqrt(2.0 * kPairs) / norm : 0;
}

// the same of a source, whatever it is
double Scatter(const Task& task, const DerivativeSource& source) {
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<MatrixXd> samples;
  MatrixXd mean = MatrixXd::Zero(task.U_guess.rows(), task.N);
  std::vector<StepDerivative> along;
  for (int k = 0; k < 2 * kPairs; k++) {
    MatrixXd U = task.U_guess;
    for (int i = 0; i < U.rows(); i++) {
      for (int t = 0; t < U.cols(); t++) U(i, t) += 0.05 * (task.u_upper - task.u_lower)[i] * normal(random);
    }
    Trajectory motion;
    simulator.Rollout(task.x0, U, &motion);
    source(motion, &along);
    samples.push_back(ChainGradient(task, motion, along));
    mean += samples.back() / (2 * kPairs);
  }
  double variance = 0;
  for (const MatrixXd& sample : samples) variance += (sample - mean).squaredNorm() / (2 * kPairs - 1);
  return mean.norm() > 0 ? std::sqrt(variance) / mean.norm() : 0;
}

MatrixXd TrueGradient(const Task& task) {
  Adjoint adjoint(task.model.get(), task.context, task.substeps);
  RolloutGradient truth;
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, {}, &truth);
  return truth.U;
}

Bias GuessBias(const Task& task, const SmoothContact& smooth) {
  Adjoint adjoint(task.model.get(), task.context, task.substeps);
  RolloutGradient smoothed;
  const SmoothModel model = MakeSmoothModel(task.model.get(), smooth);
  AdjointOptions options;
  options.derivative_model = model.model.get();
  options.smoothing = model.smoothing;
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, options, &smoothed);
  return Compared(smoothed.U, TrueGradient(task), Scatter(task, options));
}

Bias GuessBias(const Task& task, const DerivativeSource& source) {
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  simulator.Rollout(task.x0, task.U_guess, &motion);
  std::vector<StepDerivative> along;
  source(motion, &along);
  return Compared(ChainGradient(task, motion, along), TrueGradient(task), Scatter(task, source));
}

void RunCase(const Case& c) {
  const std::string folder = COSTATE_MODELS;
  Task task = LoadTask(folder + c.task);
  if (c.begin) c.begin(&task);
  IlqrOptions options = task.solver;
  options.iterations = kBudget;
  options.threads = 1;
  fmt::print("\n{} ({} knots)\n", c.title, task.N);
  fmt::print("  {:<34} {:>9} {:>7} {:>8} {:>12} {:>12} {:>6} {:>8}  {}\n", "strategy", "bias", "cosine", "scatter",
             "cost smooth", "cost true", "iter.", "s", "success");
  const auto report = [&](const std::string& name, const Bias* bias, double smooth_cost, const SolveResult& result,
                          double seconds) {
    const std::string text = bias ? fmt::format("{:9.2e} {:7.3f} {:8.2f}", bias->relative, bias->cosine, bias->scatter)
                                  : fmt::format("{:>9} {:>7} {:8.2f}", "-", "-", Scatter(task, AdjointOptions()));
    fmt::print("  {:<34} {} {:12.5g} {:12.5g} {:6d} {:8.2f}  {}\n", name, text, smooth_cost, result.cost,
               result.iterations.size(), seconds, c.success(task, result.trajectory) ? "yes" : "no");
    std::fflush(stdout);
  };
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Clock::time_point begin = Clock::now();
  const SolveResult plain = SolveIlqr(task.ToProblem(), task.U_guess, options);
  report("none", nullptr, NAN, plain, seconds_since(begin));
  for (const char* strategy :
       {"onset", "softness", "distance", "distance:0.1", "friction", "solver", "auto", "onset,friction"}) {
    for (bool backward_only : {false, true}) {
      ContinuationOptions continuation;
      continuation.smooth = ParseSmooth(task.model.get(), strategy);
      continuation.backward_only = backward_only;
      continuation.budget = kBudget;
      continuation.plain_first = false;
      continuation.stage_iterations = kBudget / 6;
      const Bias bias = GuessBias(task, continuation.smooth);
      begin = Clock::now();
      const ContinuationResult found = SolveContinuation(task.ToProblem(), task.U_guess, options, continuation);
      double smooth_cost = NAN;
      for (const ContinuationStage& stage : found.stages) smooth_cost = stage.factor > 0 ? stage.cost : smooth_cost;
      report(std::string(strategy) + (backward_only ? ", derivatives alone" : ""), &bias, smooth_cost, found.result,
             seconds_since(begin));
    }
  }

  // what no model has: in a plain iLQR, beside the true derivative in it
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Bundle bundle(task.model.get(), task.context, task.substeps, 1);
  ImpactLinearizer impacts(task.model.get(), {.restitution = 0.1, .substeps = task.substeps, .geoms = {c.struck}});
  EventCounts counts;
  const DerivativeSource engine = Engine(&simulator, task);
  const std::pair<const char*, DerivativeSource> sources[] = {
      {"none, plain iLQR", engine},
      {"average of order one, plain iLQR", Averaged(engine, &bundle, task, false)},
      {"average, combined, plain iLQR", Averaged(engine, &bundle, task, true)},
      {"time of impact, plain iLQR", Events(engine, &impacts, task, &counts)}};
  for (const auto& [name, source] : sources) {
    const Bias bias = GuessBias(task, source);
    counts = {};
    begin = Clock::now();
    const SolveResult found = SolveDerived(task, kBudget, source);
    report(name, &bias, NAN, found, seconds_since(begin));
  }
  fmt::print(
      "  of {} intervals that were asked for their impacts of '{}' {} had one, {} were refused (contacts that last)\n",
      counts.knots, c.struck, counts.impacts, counts.refused);
}

}  // namespace
}  // namespace costate

int main(int argc, char** argv) {
  using namespace costate;
  fmt::print(
      "{} iterations each, smooth stages at most two thirds of them; bias and cosine against the true gradient of the "
      "guess\n",
      kBudget);
  const Case cases[] = {
      {"push", "push a box to a target, from 1 cm apart", "/box_push/push.xml", "finger", BeginApart, Pushed},
      {"toss", "toss into a bin", "/toss/bin.xml", "ball", {}, InBin},
      {"hop", "hopper jump", "/hopper/hop.xml", "foot", {}, Hopped}};
  for (const Case& c : cases) {
    if (argc < 2 || std::string(argv[1]) == c.name) RunCase(c);
  }
}
