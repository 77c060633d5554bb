// The backward recursion: time a knot, with and without bounds, against mj_step along the same motion.
//   benchmark_backward [task files; by default five of ours]
#include <costate/costate.h>
#include <fmt/core.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmark/fastest.h"

namespace {

constexpr double kMeasure = 0.3;  // [s] of measuring each number …
constexpr int kRepeats = 10;      // … in so many parts, of which the fastest counts

double Seconds(const std::function<void()>& call) { return costate::FastestCall(call, kMeasure, kRepeats); }

// of a knot, as costate/lqr.h counts them
double Operations(int ndx, int nu) { return 4.0 * ndx * ndx * ndx + 6.0 * ndx * ndx * nu; }

void Row(const std::string& file) {
  const costate::Task task = costate::LoadTask(file);
  costate::Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  costate::Trajectory motion;
  simulator.Rollout(task.x0, task.U_guess, &motion);
  const double step = Seconds([&] { simulator.Rollout(task.x0, task.U_guess, &motion); }) / (task.N * task.substeps);

  // the linear-quadratic problem about the guess
  const costate::Problem problem = task.ToProblem();
  costate::LqProblem lq;
  lq.knots.resize(task.N);
  costate::CostExpansion expansion;
  simulator.LinearizeEach(motion, {}, [&](int t, int, costate::StepDerivative* d) {
    problem.cost->Expand(costate::ViewKnot(motion, t, simulator.knot_time()), d->C, d->D, &expansion);
    if (t == task.N) {
      lq.lx = expansion.lx;
      lq.lxx = expansion.lxx;
    } else {
      lq.knots[t] = {d->A, d->B, {}, expansion.lx, expansion.lu, expansion.lxx, expansion.lux, expansion.luu, {}, {}};
    }
  });
  const int ndx = static_cast<int>(lq.lx.size()), nu = static_cast<int>(task.U_guess.rows());
  const costate::RiccatiOptions options = {.regularization = 1e-3, .values = false};
  costate::RiccatiResult result;
  const double free = Seconds([&] { SolveRiccati(lq, options, &result); }) / task.N;
  const bool solved = result.ok;
  for (int t = 0; t < task.N; t++) {
    lq.knots[t].du_lower = problem.u_lower - motion.U.col(t);
    lq.knots[t].du_upper = problem.u_upper - motion.U.col(t);
  }
  const double bounded = Seconds([&] { SolveRiccati(lq, options, &result); }) / task.N;
  const std::string name = file.substr(file.find_last_of('/', file.find_last_of('/') - 1) + 1);
  fmt::print("{:<24} {:>4} {:>4} {:>5} {:>9.2f} {:>9.2f} {:>8.2f} {:>8.1f} {:>9.2f} {:>8.2f}{}\n", name, ndx, nu,
             task.N, 1e6 * step, 1e6 * free, free / step, 1e-9 * Operations(ndx, nu) / free, 1e6 * bounded,
             bounded / step, solved && result.ok ? "" : "  (stopped: not positive definite)");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) {
    for (const char* name : {"cartpole/swing_up", "arm/reach", "hopper/hop", "quadruped/jump", "humanoid/stand_up"}) {
      files.push_back(std::string(COSTATE_MODELS "/") + name + ".xml");
    }
  }
  fmt::print("microseconds; a knot of the backward recursion without and with bounds on the control\n");
  fmt::print("{:<24} {:>4} {:>4} {:>5} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8}\n", "task", "ndx", "nu", "knots", "mj_step",
             "knot", "/ step", "Gflop/s", "bounded", "/ step");
  try {
    for (const std::string& file : files) Row(file);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
