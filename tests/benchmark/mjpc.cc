// MuJoCo MPC's own tasks, from their home states, solved by iLQR on the same engine, as a task is by default (five
// solves race, rounds of kicked ones follow a stall), as one solve alone, and with basin hopping from the guess on:
// mean cost over its knots and time an iteration, in which several solves may be side by side; beside the peer's is
// that of one.
//   benchmark_mjpc TASKS [name …]
// TASKS: the folder of its task files with the models that its build makes from dm_control's and the Menagerie's
// (`cmake
// --build build --target copy_model_resources`, then build/mjpc/tasks). Nothing of it is kept here but what its
// residuals measure (tests/benchmark/mjpc/*.xml); norms, weights, horizon and timestep are read from its files.
//
// Its figures: MuJoCo MPC at ff572a2 (May 2025), its own sources on MuJoCo 4.0.1, iLQG with its defaults, planning
// again and again from the home state without moving, on two cores of a server like the ones these tables come from.
// Iterations are counted as there: "0" is after the first.
#include <costate/costate.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr std::array<int, 4> kIterations{0, 9, 19, 59};
constexpr double kRounding = 1e-9;

struct PeerTask {
  const char* name;
  const char* file;
  std::array<double, 4> cost;      // 0: none is known
  double rounding;                 // half of the last digit of the last cost
  double one_thread, two_threads;  // [ms] an iteration; 0: not measured
};

const std::vector<PeerTask> kTasks{
    {"cartpole", "cartpole/task.xml", {8.812, 7.626, 7.158, 6.7755}, 5e-5, 7.0, 6.5},
    {"acrobot", "acrobot/task.xml", {400, 323.9, 307.4, 307.38}, 5e-3, 0, 0},
    {"humanoid_stand", "humanoid/stand/task.xml", {0.7225, 0.27535, 0.27531, 0.27365}, 5e-6, 96, 58},
    {"humanoid_walk", "humanoid/walk/task.xml", {0.2071, 0.18565, 0.18538, 0.18535}, 5e-6, 95, 57},
    {"quadruped_flat", "quadruped/task_flat.xml", {0.2222, 0.0781, 0.0626, 0.0609}, 5e-5, 143, 73},
    {"quadruped_hill", "quadruped/task_hill.xml", {0.9943, 0.7729, 0.7729, 0.7729}, 5e-5, 0, 0},
    {"walker", "walker/task.xml", {}, 0, 0, 0},
    {"swimmer", "swimmer/task.xml", {}, 0, 0, 0},
    {"particle", "particle/task_timevarying.xml", {}, 0, 0, 0}};

costate::Task Import(const std::string& folder, const PeerTask& peer) {
  const std::filesystem::path here = std::filesystem::temp_directory_path() / "costate_benchmark_mjpc";
  std::filesystem::create_directories(here);
  const std::string source = std::filesystem::absolute(std::filesystem::path(folder) / peer.file);
  const std::string residuals = std::string(COSTATE_MODELS "/../tests/benchmark/mjpc/") + peer.name + ".xml";
  const std::string file = here / (std::string(peer.name) + ".task.xml");
  std::ofstream(file) << costate::ImportMjpcTask(source, residuals, here).text;
  costate::Task task = costate::LoadTask(file);
  costate::CheckMjpcImport(source, task);
  return task;
}

struct Outcome {
  double initial = 0, seconds_to_peer = -1;
  std::vector<double> cost, seconds;  // after and of each iteration
  double rollout = 0, derivative = 0, backward = 0;
  std::string status;
};

enum class Way { kDefault, kHopping, kAlone };  // with a race and rounds of kicks, from the guess on, without either

Outcome Solve(const costate::Task& task, int threads, double peer_cost, Way way) {
  // with one thread the processor's time, which other programs on the machine do not lengthen
  const auto now_of = [threads] {
    if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  costate::IlqrOptions options = task.solver;
  options.iterations = kIterations.back() + 1;
  options.tolerance = 0;
  options.gradient_tolerance = 0;
  options.threads = threads;
  Outcome outcome;
  const double start = now_of();
  double last = start;
  const auto observe = [&](const costate::IterationRecord& record) {
    const double now = now_of();
    if (record.actual_change < -kRounding * record.cost || outcome.seconds.empty()) {
      outcome.seconds.push_back(now - last);
    }
    outcome.cost.push_back(outcome.cost.empty() ? record.cost
                                                : std::min(record.cost, outcome.cost.back()));  // of the best motion
    if (outcome.seconds_to_peer < 0 && record.cost <= peer_cost) {
      outcome.seconds_to_peer = now - start;
    }
    outcome.rollout += record.seconds_rollout;
    outcome.derivative += record.seconds_derivative;
    outcome.backward += record.seconds_backward;
    last = now;
    return true;
  };
  const costate::Problem problem = task.ToProblem();
  costate::BasinHoppingOptions kicks = task.hopping;
  if (way == Way::kHopping) kicks = {.rounds = options.iterations};
  const costate::SolveResult result =
      way == Way::kAlone ? costate::Solve(problem, task.ToGuess(), options, observe)
                         : costate::SolveBasinHopping(problem, task.ToGuess(), options, kicks, observe).result;
  if (!outcome.cost.empty() && result.cost < outcome.cost.back()) outcome.cost.push_back(result.cost);  // as it began
  outcome.initial = result.initial_cost;
  outcome.status = result.message;
  return outcome;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string Costs(const std::vector<double>& cost) {
  std::string text;
  for (const int i : kIterations) {
    const bool reached = i < static_cast<int>(cost.size());
    if (!cost.empty()) text += fmt::format("{:>9.5g}", reached ? cost[static_cast<std::size_t>(i)] : cost.back());
  }
  return text;
}

// how long it takes to the peer's last cost, one thread each
void PrintTime(const char* name, const Outcome& outcome, const PeerTask& peer) {
  if (outcome.seconds_to_peer < 0) return fmt::print("  {} is not reached\n", name);
  fmt::print("  {} after {:.0f} ms", name, 1e3 * outcome.seconds_to_peer);
  if (peer.one_thread > 0) {
    fmt::print(", it takes {:.0f} ms: {:.0f} times as long", 60 * peer.one_thread,
               60e-3 * peer.one_thread / outcome.seconds_to_peer);
  }
  fmt::print("\n");
}

void Print(const costate::Task& task, const PeerTask& peer) {
  const double goal = peer.cost[3] + peer.rounding;
  const Outcome one = Solve(task, 1, goal, Way::kDefault), two = Solve(task, 2, goal, Way::kDefault);
  const Outcome hop = Solve(task, 1, goal, Way::kHopping), hop2 = Solve(task, 2, goal, Way::kHopping);
  const Outcome alone = Solve(task, 1, goal, Way::kAlone), alone2 = Solve(task, 2, goal, Way::kAlone);
  const double n = std::max<double>(1, static_cast<double>(one.cost.size()));
  const double ms = 1e3 * Median(alone.seconds), ms2 = 1e3 * Median(alone2.seconds);
  fmt::print("{} ({} knots of {:g} s), of the guess {:.6g}; {}\n", peer.name, task.N + 1, task.model->opt.timestep,
             one.initial, one.status);
  fmt::print("  {:10}{} {:>8.3g} {:>8.3g}\n", "Costate", Costs(one.cost), 1e3 * Median(one.seconds),
             1e3 * Median(two.seconds));
  fmt::print("  {:10}{} {:>8.3g} {:>8.3g}\n", "alone", Costs(alone.cost), ms, ms2);
  fmt::print("  {:10}{} {:>8.3g} {:>8.3g}   mean {:.3g} and {:.3g}\n", "hopping", Costs(hop.cost),
             1e3 * Median(hop.seconds), 1e3 * Median(hop2.seconds), 1e3 * Mean(hop.seconds), 1e3 * Mean(hop2.seconds));
  if (peer.cost[0] > 0) {
    fmt::print("  {:10}", "MuJoCo MPC");
    for (const double cost : peer.cost) fmt::print("{:>9.5g}", cost);
    if (peer.one_thread > 0) {
      fmt::print(" {:>8.3g} {:>8.3g}   {:.1f} and {:.1f} times as long", peer.one_thread, peer.two_threads,
                 peer.one_thread / ms, peer.two_threads / ms2);
    }
    fmt::print("\n");
    PrintTime("its last cost", one, peer);
    PrintTime("its last cost, with hopping,", hop, peer);
    PrintTime("its last cost, one solve alone,", alone, peer);
  }
  fmt::print("  of an iteration: derivatives {:.3g} ms, backward pass {:.3g} ms, rollouts {:.3g} ms, by the clock\n",
             1e3 * one.derivative / n, 1e3 * one.backward / n, 1e3 * one.rollout / n);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: benchmark_mjpc TASKS [name …], where TASKS is MuJoCo MPC's build/mjpc/tasks\n");
    return 2;
  }
  fmt::print("mean cost after iteration 0, 9, 19, 59; median ms an iteration with 1 and 2 threads. MuJoCo {}\n\n",
             mj_versionString());
  int failures = 0;
  for (const PeerTask& peer : kTasks) {
    const bool chosen = argc == 2 || std::any_of(argv + 2, argv + argc,
                                                 [&](const char* name) { return std::string(name) == peer.name; });
    if (!chosen) continue;
    try {
      Print(Import(argv[1], peer), peer);
    } catch (const costate::Error& error) {
      fmt::print("{}: {}\n", peer.name, error.what());
      failures++;
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  return failures > 0 ? 1 : 0;
}
