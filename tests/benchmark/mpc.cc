// MPC in lock-step: cost of the closed loop, plans a second and their latency, and how much of it is work of the
// processor.
//   benchmark_mpc [seconds] [TASK@KNOTS, by default some of ours]
// One iteration a plan, one plan a control interval. TASK@36 plans over 36 knots, the task's own horizon without it.
// Latencies (p50, p99, max) are those of the wall clock, which beside other programs tells of them too: the last column
// is processor time of this program alone, the robot's own steps included.
#include <costate/costate.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Row(const std::string& argument, double seconds) {
  const std::size_t at = argument.rfind('@');
  const std::string file = argument.substr(0, at);
  const std::string name = file.substr(file.find_last_of('/', file.find_last_of('/') - 1) + 1);
  for (const int threads : {1, 2}) {
    costate::Task task = costate::LoadTask(file);
    const double knot_time = task.knot_time();
    if (at != std::string::npos) {
      const int knots = std::atoi(argument.c_str() + at + 1);
      if (knots < 1)
        throw costate::Error(costate::ErrorCode::kInvalidArgument, argument + ": TASK@KNOTS takes at least one knot");
      task.mpc.horizon = knots * knot_time;
    }
    task.solver.threads = threads;
    task.solver.iterations = 20;
    costate::RunMpc(task, {.duration = 2 * knot_time});  // memory is warm
    double begin = 0;
    int steps = 0;
    const costate::MpcResult result = costate::RunMpc(task, {.duration = seconds}, [&](int done) {
      if (done == 1) begin = ProcessorSeconds();  // the first plan is behind
      steps = done;
      return true;
    });
    const double work = (ProcessorSeconds() - begin) / std::max(1, steps - 1);
    double planning = 0;
    for (const double latency : result.latency) planning += latency;
    const double horizon = task.mpc.horizon > 0 ? task.mpc.horizon : task.N * knot_time;
    fmt::print("{:<26} {:5.0f} {:3} | {:11.6g} | {:7.1f} | {:7.2f} {:7.2f} {:7.2f} | {:7.2f}\n", name,
               horizon / knot_time, threads, result.cost_per_step, planning > 0 ? result.plans / planning : 0,
               1e3 * result.Latency(0.5), 1e3 * result.Latency(0.99), 1e3 * result.Latency(1), 1e3 * work);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  std::vector<std::string> files(argv + std::min(argc, 2), argv + argc);
  if (files.empty()) {
    for (const char* name : {"pendulum/swing_up.xml", "cartpole/swing_up.xml", "cartpole/short_rail.xml",
                             "hopper/hop.xml@50", "quadruped/stand_up.xml@36", "humanoid/stand_up.xml@24"}) {
      files.push_back(std::string(COSTATE_MODELS "/") + name);
    }
  }
  try {
    fmt::print(
        "task                       knots thr | cost a step | plans/s |  p50 ms     p99     max | processor ms a "
        "plan\n");
    for (const std::string& file : files) Row(file, seconds);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
