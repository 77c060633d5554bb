// One iteration of iLQR: where its time goes, at each level of derivatives and with one and two threads.
//   benchmark_iteration [iterations] [TASK or TASK@KNOTSxSECONDS; by default five of ours, then those below]
// Ratios are of the same run: mj_step along the task's own motion is the unit. TASK@24x0.015 is the same task over 24
// knots of one step of 15 ms: the sizes at which MuJoCo MPC plans, whose iLQG (differences of steps, one thread) took
// 7 ms on its cart-pole of 101 knots, 96 ms on its humanoid of 24, 143 ms on its quadruped of 36, measured on one core
// of a server like the ones these tables come from.
#include <costate/costate.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double PeakMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// seconds of one mj_step along the guess, the fastest of a few rollouts
double StepSeconds(const costate::Task& task) {
  costate::Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  costate::Trajectory trajectory;
  double best = 1e9;
  for (int repeat = 0; repeat < 5; repeat++) {
    const Clock::time_point start = Clock::now();
    simulator.Rollout(task.x0, task.U_guess, &trajectory);
    best = std::min(best, Seconds(start) / (task.N * task.substeps));
  }
  return best;
}

struct Timing {
  double rollout = 0, derivative = 0, backward = 0;  // median seconds an iteration
  int iterations = 0;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Timing Measure(const costate::Task& task, costate::Level level, int threads, int iterations) {
  costate::IlqrOptions options = task.solver;
  options.iterations = iterations;
  options.tolerance = 0;
  options.gradient_tolerance = 0;
  options.threads = threads;
  options.derivative.level = level;
  options.derivative.converge = false;  // steps as they are differenced elsewhere
  const costate::SolveResult result = costate::SolveIlqr(task.ToProblem(), task.U_guess, options);
  std::vector<double> rollout, derivative, backward;
  for (const costate::IterationRecord& record : result.iterations) {
    rollout.push_back(record.seconds_rollout);
    backward.push_back(record.seconds_backward);

    // an iteration after a rejected step keeps its derivatives
    if (record.seconds_derivative > 0) derivative.push_back(record.seconds_derivative);
  }
  return {Median(rollout), Median(derivative), Median(backward), static_cast<int>(result.iterations.size())};
}

// TASK or TASK@KNOTSxSECONDS
costate::Task Load(const std::string& argument) {
  const std::size_t at = argument.rfind('@');
  costate::Task task = costate::LoadTask(argument.substr(0, at));
  if (at == std::string::npos) return task;
  int knots = 0;
  double seconds = 0;
  if (std::sscanf(argument.c_str() + at, "@%dx%lf", &knots, &seconds) != 2 || knots < 1 || knots > task.N ||
      !(seconds > 0)) {
    throw costate::Error(costate::ErrorCode::kInvalidArgument,
                         argument + ": expected @KNOTSxSECONDS with at most " + std::to_string(task.N) + " knots");
  }
  task.model->opt.timestep = seconds;
  task.substeps = 1;
  task.N = knots;
  task.U_guess = task.U_guess.leftCols(knots).eval();
  return task;
}

void Row(const std::string& file, int iterations) {
  const costate::Task task = Load(file);
  const double step = StepSeconds(task);
  const std::string name = file.substr(file.find_last_of('/', file.find_last_of('/') - 1) + 1);
  fmt::print("{}: {} knots of {} steps, mj_step {:.1f} us\n", name, task.N, task.substeps, 1e6 * step);
  double one_thread = 0;
  for (const auto& [level, threads] : {std::pair{costate::Level::kBest, 1}, std::pair{costate::Level::kBest, 2},
                                       std::pair{costate::Level::kStep, 1}, std::pair{costate::Level::kStep, 2}}) {
    const Timing t = Measure(task, level, threads, iterations);
    const double total = t.rollout + t.derivative + t.backward, steps = task.N * task.substeps * step;
    if (threads == 1) one_thread = total;
    fmt::print(
        "  {:9} {} thread{} {:9.2f} ms = {:7.2f} rollouts | {:8.2f} {:8.2f} {:8.2f} ms | {:7.2f} mj_step a knot's "
        "derivative{}\n",
        level == costate::Level::kBest ? "best" : "step", threads, threads == 1 ? " " : "s", 1e3 * total, total / steps,
        1e3 * t.rollout, 1e3 * t.derivative, 1e3 * t.backward, t.derivative * threads / (task.N * step),
        threads == 1 ? "" : fmt::format(" | {:.2f} x one thread", one_thread / total));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 20;
  std::vector<std::string> files(argv + std::min(argc, 2), argv + argc);
  if (files.empty()) {
    for (const char* name : {"cartpole/swing_up", "arm/reach", "hopper/hop", "quadruped/jump", "humanoid/stand_up"}) {
      files.push_back(std::string(COSTATE_MODELS "/") + name + ".xml");
    }
    for (const char* name :
         {"cartpole/swing_up.xml@101x0.01", "humanoid/stand_up.xml@24x0.015", "quadruped/jump.xml@36x0.01"}) {
      files.push_back(std::string(COSTATE_MODELS "/") + name);
    }
  }
  try {
    fmt::print("level, threads: an iteration = rollouts of the line search | derivatives | backward pass (medians)\n");
    for (const std::string& file : files) Row(file, iterations);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  fmt::print("peak memory {:.0f} MB\n", PeakMegabytes());
}
