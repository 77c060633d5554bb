// Strategies of smoothing side by side: the same tasks from the same start with the same number of
// iterations. Bias is of the gradient of the guess's loss by controls, along the true motion; scatter, the standard deviation of
// one such gradient under noise on the controls over the mean gradient; cost,
// success and time are of the whole optimization.
#include <costate/costate.h>
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace costate {
namespace {

constexpr int kBudget = 120;  // iterations of all stages together

struct Case {
  const char *name, *task, *start;
  bool no_guess;  // controls of 0
  // what a person would call success, from the last state
  std::function<bool(const Task&, const Trajectory&)> success;
};

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
  return std::abs(Qpos(task, motion, "root_x") - 0.6) < 0.1 &&
         std::abs(Qpos(task, motion, "root_pitch")) < 0.3;
}

struct Bias {
  double relative = 0, cosine = 0, scatter = 0;
};

// of the gradients of guesses with noise on their controls, 5 % of each range: standard deviation of one, over their mean
double Scatter(const Task& task, const AdjointOptions& options) {
  constexpr int kPairs = 8;
  Bundle bundle(task.model.get(), task.context, task.substeps, 1);
  BundleOptions noise;
  noise.pairs = kPairs;
  noise.control = 0.05 * (task.u_upper - task.u_lower);
  BundleGradient out;
  bundle.Gradient(task.x0, task.U_guess, *task.cost, noise, options, &out);
  const double norm = std::sqrt(out.first.U.squaredNorm() + out.first.x0.squaredNorm());
  return norm > 0 ? out.first.deviation * std::sqrt(2.0 * kPairs) / norm : 0;
}

Bias GuessBias(const Task& task, const SmoothContact& smooth) {
  Adjoint adjoint(task.model.get(), task.context, task.substeps);
  RolloutGradient truth, smoothed;
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, {}, &truth);
  const SmoothModel model = MakeSmoothModel(task.model.get(), smooth);
  AdjointOptions options;
  options.derivative_model = model.model.get();
  options.smoothing = model.smoothing;
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, options, &smoothed);
  const double product = truth.U.norm() * smoothed.U.norm();
  const double scale = truth.U.norm() > 0
                           ? truth.U.norm()
                           : smoothed.U.norm();  // where the true gradient is 0 the bias is 1
  return {scale > 0 ? (smoothed.U - truth.U).norm() / scale : 0,
          product > 0 ? truth.U.cwiseProduct(smoothed.U).sum() / product : 0, Scatter(task, options)};
}

void RunCase(const Case& c) {
  const std::string folder = COSTATE_MODELS;
  Task task = LoadTask(folder + c.task);
  if (*c.start) {
    const DataPtr data = MakeDataAtKey(task.model.get(), c.start);
    task.x0 = GetState(task.model.get(), data.get());
  }
  if (c.no_guess) task.U_guess.setZero();
  IlqrOptions options = task.solver;
  options.iterations = kBudget;
  options.threads = 1;
  fmt::print("\n{} ({} knots, start {})\n", c.name, task.N, *c.start ? c.start : "of the task");
  fmt::print("  {:<34} {:>9} {:>7} {:>8} {:>12} {:>12} {:>6} {:>8}  {}\n", "strategy", "bias", "cosine", "scatter",
             "cost smooth", "cost true", "iter.", "s", "success");
  const auto report = [&](const std::string& name, const Bias* bias, double smooth_cost,
                          const SolveResult& result, double seconds) {
    const std::string text = bias ? fmt::format("{:9.2e} {:7.3f} {:8.2f}", bias->relative, bias->cosine, bias->scatter)
                                  : fmt::format("{:>9} {:>7} {:8.2f}", "-", "-", Scatter(task, {}));
    fmt::print("  {:<34} {} {:12.5g} {:12.5g} {:6d} {:8.2f}  {}\n", name, text, smooth_cost,
               result.cost, result.iterations.size(), seconds,
               c.success(task, result.trajectory) ? "yes" : "no");
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
      continuation.stage_iterations = kBudget / 6;
      const Bias bias = GuessBias(task, continuation.smooth);
      begin = Clock::now();
      const ContinuationResult found =
          SolveContinuation(task.ToProblem(), task.U_guess, options, continuation);
      double smooth_cost = NAN;
      for (const ContinuationStage& stage : found.stages)
        smooth_cost = stage.factor > 0 ? stage.cost : smooth_cost;
      report(std::string(strategy) + (backward_only ? ", derivatives alone" : ""), &bias,
             smooth_cost, found.result, seconds_since(begin));
    }
  }
}

}  // namespace
}  // namespace costate

int main() {
  using namespace costate;
  fmt::print(
      "{} iterations each, smooth stages at most two thirds of them; bias and cosine against the "
      "true gradient of the guess\n",
      kBudget);
  RunCase({"push a box to a target", "/box_push/push.xml", "apart", true, Pushed});
  RunCase({"toss into a bin", "/toss/bin.xml", "", false, InBin});
  RunCase({"hopper jump", "/hopper/hop.xml", "", false, Hopped});
}
