// costate mpc: a robot that plans while it moves.
#include <costate/mpc.h>
#include <costate/record.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include "cli/commands.h"
#include "cli/model_facts.h"
#include "cli/mpc_window.h"
#include "cli/robot_options.h"
#include "cli/run_output.h"
#include "cli/terminal.h"
#include "core/element.h"
#include "core/lap.h"
#include "core/number.h"
#include "engine/mpc_host.h"
#include "optimizer/task_mpc.h"
#include "rollout/csv.h"

namespace costate::cli {
namespace {

constexpr char kMpcFooter[] = R"(
TASK is a task file; <mpc rate= horizon= timestep= delay= budget= iterations= fallback= compensate= feedback= estimate=/> in it says how
plans are made, and needs none of them. Options of the same names take their place. A robot with --goal, as of costate optimize,
needs no task file: it goes there and stays, by plans of --horizon seconds (then 1 unless said).

The first plan is made before the robot moves, as costate optimize would (<solver>, <smooth>, <hopping>, a guess of states), with
a line each two seconds where it takes long: --hops 0 leaves its rounds of kicks out. Those that follow are iLQR's. Plans keep <constraint> and <limit>: when="end" at the end of each plan, windows up to the end of the task
through all plans. <periodic>, a free start and <time> are refused.

In lock-step (the default) the robot waits for each plan, which then acts after --delay seconds of its time: the same bits
every time. With --view a window shows the robot, which moves in real time: drag the green dots that a
task aims at, and it goes there. With --real-time the planner works beside the robot, which moves in real time; a plan that is not there when its
first control is due is late, and the fall-back policy acts: `plan` goes on with the last plan and its feedback, `hold` holds
the last control, `damp` takes energy out.

The rarer plans are, the more iterations each may have, unless --iterations says it: one a knot between two of them, 20 at most,
and no more once it has converged.

--budget is time by the wall clock. A plan makes one iteration whatever that takes, and further ones while they fit: how many plans
took longer, and by how much, is told.

--push BODY FX FY FZ T0 T1 pushes a body [N] from T0 to T1 [s] (again for more); --noise P V adds white noise to what is
measured [m or rad, and per s]. The planner knows of neither.

Printed are the running cost of what the robot did, a step; plans a second and how long they took; everything that went wrong;
how far each constraint was violated, by the robot and in the worst of its plans, by name, worst first; knot by knot in
violations.csv. Such a run is no failure: what pushes and noise take off cannot be kept.
--plant MODEL simulates that robot in place of the task's, by whose model plans are made: heavier, with other friction, contacts
or time step. Its states, controls and sensors have the same names; the task's <option> holds for it, too.
--estimate SECONDS: plans learn, over that time, of a constant force that their model knows nothing of, as of a heavier tool, which
would otherwise sag; how large it is at the end is told.

--export FILE.xml runs nothing: it writes the robot with the plugin costate.mpc, which plans by the task while any host moves it, simulate or
Python (plugin/engine/README.md), and with green balls that can be dragged there. What options would say stands in the task's <mpc>.

The motion is saved in --out, by default runs/NAME-1, -2 … below the current folder, and replays bit for bit, pushes included.

Exit code: 0 done; 1 the robot could not be simulated to the end, or the first plan failed as costate optimize would: it diverged,
misses constraints or gains nothing on the guess (the robot moves by it all the same, unless it diverged); 2 bad input; 130
interrupted.)";

constexpr int kMostEventsPrinted = 10;
constexpr int kStepsPerUpdate = 20;          // of the progress bar
constexpr std::chrono::seconds kSilence(2);  // while the first plan is made

constexpr double kDuration = 5, kWatched = 300;  // [s] unless said; in a window

constexpr double kReachHorizon = 1;  // [s] of a plan of a robot with --goal

struct MpcArguments {
  std::string input, out, fallback, plant, exported;
  ReachArguments reach;
  std::optional<double> time, rate, horizon, timestep, delay, budget, latency, estimate;
  std::optional<int> iterations, threads, hops;
  std::vector<std::string> pushes;
  std::vector<double> noise;
  unsigned seed = 1;
  bool real_time = false, view = false, no_compensation = false, no_feedback = false, force = false, no_plots = false,
       no_save = false;
};

// six words a push
std::vector<MpcPush> ReadPushes(const std::vector<std::string>& words, const mjModel* m) {
  if (words.size() % 6 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--push takes BODY FX FY FZ T0 T1, {} values are no multiple of six", words.size()));
  }
  std::vector<MpcPush> pushes;
  for (std::size_t i = 0; i < words.size(); i += 6) {
    MpcPush push;
    push.body = FindNamed(m, mjOBJ_BODY, "body", words[i], "--push: ");
    if (push.body == 0) throw Error(ErrorCode::kInvalidArgument, "--push: the world does not move");
    double* numbers[] = {&push.force[0], &push.force[1], &push.force[2], &push.begin, &push.end};
    for (std::size_t k = 0; k < 5; k++) {
      const std::string& word = words[i + 1 + k];
      if (!ParseNumber(word, numbers[k])) {
        throw Error(ErrorCode::kInvalidArgument, fmt::format("--push {}: '{}' is not a number", words[i], word));
      }
    }
    pushes.push_back(push);
  }
  return pushes;
}

// what fails inside of it is told as of the task in which it takes the model's place
ModelPtr LoadPlantFile(const Task& task, const std::string& file) {
  if (file.empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw Error(ErrorCode::kFile, "--plant: " + file + " does not exist");
  return LoadPlant(task, file);
}

Task LoadMpcTask(const MpcArguments& a) {
  ReachArguments reach = a.reach;
  reach.at_once = true;
  if (!IsTaskFile(a.input)) reach.time = a.horizon.value_or(kReachHorizon);
  Task task = LoadTaskOrReach(a.input, reach);
  MpcOptions& mpc = task.mpc;
  if (a.rate) mpc.rate = *a.rate;
  if (a.horizon) mpc.horizon = *a.horizon;
  if (a.timestep) mpc.timestep = *a.timestep;
  if (a.delay) mpc.delay = *a.delay;
  if (a.budget) mpc.budget = *a.budget;
  if (a.iterations) mpc.iterations = *a.iterations;
  if (a.threads) task.solver.threads = *a.threads;
  TakeHops(a.hops, &task);
  for (const MpcFallback fallback : kMpcFallbacks) {
    if (a.fallback == ToString(fallback)) mpc.fallback = fallback;
  }
  if (a.no_compensation) mpc.compensate = false;
  if (a.no_feedback) mpc.feedback = false;
  if (a.estimate) mpc.estimate = *a.estimate;
  return task;
}

// as costate optimize has it: without constraints kept, or without any gain on the guess
bool FirstPlanFailed(const Task& task, const MpcResult& result) {
  return SolveExitCode(task, result.first_status, result.first_gained, result.first_violation) == kExitNo;
}

// where the robot begins far from what its costs ask for and at the end still is, or has lost what it had; else empty
std::string EndsBadly(const Task& task, const MpcResult& result, double control_time) {
  constexpr int kParts = 10;    // the last of which is the end
  constexpr double kFar = 0.1;  // of the largest cost on the way
  constexpr double kHardlyLess = 0.9;
  constexpr double kOften = 0.2;              // of the plans
  constexpr double kLost = 10, kAsBad = 0.5;  // times the best part; of the worst
  const Eigen::Index N = result.trajectory.N();
  if (N < kParts || result.interrupted) return "";
  const double first = result.cost_per_knot[0], end = result.cost_per_knot.segment(N - N / kParts, N / kParts).mean();
  VectorXd parts(kParts);
  for (int k = 0; k < kParts; k++) parts[k] = result.cost_per_knot.segment(k * (N / kParts), N / kParts).mean();
  Eigen::Index best = 0;
  if (end > kLost * parts.minCoeff(&best) && end > kAsBad * parts.maxCoeff()) {
    return fmt::format(
        "the robot's running cost at the end is {:.4g} a step, {:.2g} times as much as about {:.3g} s: "
        "it has lost what it had, as a robot that falls or one that began better than it can stay",
        end, end / parts[best], (static_cast<double>(best) + 0.5) * static_cast<double>(N / kParts) * control_time);
  }
  if (!(first > kFar * result.cost_per_knot.head(N).maxCoeff()) || !(end > kHardlyLess * first)) return "";
  const double horizon = task.mpc.horizon > 0 ? task.mpc.horizon : task.N * control_time;
  if (static_cast<double>(N) * control_time < horizon) return "";  // the first plan has not come to its end
  const std::string less =
      fmt::format("the robot's running cost at the end is {:.4g} a step, beside {:.4g} at its start: ", end, first);
  for (const MpcConstraintReport& c : result.constraints) {
    if (c.plans_violated < kOften * result.plans_taken) continue;
    return less + fmt::format(
                      "plans missed constraint '{}' by up to {:.3g} {}, in {} of {}; longer ones than {:.4g} s "
                      "(--horizon) or more iterations of each (--iterations) may keep it",
                      c.plan.name, c.plan.violation, c.plan.unit, c.plans_violated, result.plans_taken, horizon);
  }
  return less + fmt::format(
                    "what it is to do may take longer than plans of {:.4g} s (--horizon), or the robot is "
                    "another than they think",
                    horizon);
}

std::string FailedFirstPlan(const MpcResult& result) {
  return fmt::format("FAILED, {}: {}", ToString(result.first_status), result.first_plan);
}

// violations by name, worst of the robot's first
void PrintMpcConstraints(const Task& task, const MpcResult& result, double control_time) {
  const double tolerance = task.constrained.tolerance;
  const auto worst = [&](const ConstraintReport& c, double time, int often, int of, const char* what) {
    const std::string words = ViolationWords(c, tolerance, time);
    return c.violation == 0          ? std::string("kept")
           : c.relative <= tolerance ? "kept " + words
                                     : words + fmt::format(", in {} of {}{}", often, of, what);
  };
  for (const MpcConstraintReport& c : result.constraints) {
    const bool held = c.motion.knot >= 0;
    const bool kept = held ? c.motion.relative <= tolerance : c.plan.relative <= tolerance;
    fmt::print("  {:<13} {}", kept ? "kept" : "VIOLATED", c.plan.name);
    if (held && c.motion.violation > 0) {
      fmt::print(": {}",
                 worst(c.motion, c.motion.knot * control_time, c.violated, result.trajectory.N(), " intervals"));
    }
    if (c.plan.knot >= 0) {
      fmt::print("; in plans {}\n", worst(c.plan, c.plan_time, c.plans_violated, result.plans_taken, ""));
    } else {
      fmt::print("; in no plan's time\n");
    }
  }
}

void PrintUnknownForce(const mjModel* m, const VectorXd& force) {
  if (force.size() == 0) return;
  Eigen::Index at = 0;
  force.cwiseAbs().maxCoeff(&at);
  const int joint = m->dof_jntid[at];
  const int type = m->jnt_type[joint];
  const bool linear = type == mjJNT_SLIDE || (type == mjJNT_FREE && at - m->jnt_dofadr[joint] < 3);
  fmt::print("  estimate      an unknown force of {:.3g} {} along {} at the end, the largest\n", force[at],
             linear ? "N" : "N m", TangentNames(m)[static_cast<std::size_t>(m->nv + at)]);
}

void PrintMpc(const Task& task, const MpcResult& result, const Record& record, double control_time, bool saved) {
  const int N = result.trajectory.N();
  if (N > 0) {
    fmt::print("  cost          {:.6g} a step of {:.4g} ms, {:.6g} in all\n", result.cost_per_step, 1e3 * control_time,
               result.cost_per_knot.sum());
    PrintMissedGoals(task, result.trajectory);
  }
  double planning = 0;
  for (const double seconds : result.latency) planning += seconds;
  fmt::print("  first plan    {}\n", FirstPlanFailed(task, result) ? FailedFirstPlan(result) : result.first_plan);
  if (result.plans > 0) {
    fmt::print("  plans         {} in {}; {:.4g} a second while planning\n", result.plans,
               FormatDuration(result.seconds), planning > 0 ? result.plans / planning : 0);
    fmt::print("  latency       {:.3g} ms median, {:.3g} ms p99, {:.3g} ms at most\n", 1e3 * result.Latency(0.5),
               1e3 * result.Latency(0.99), 1e3 * result.Latency(1));
  }
  PrintMpcConstraints(task, result, control_time);
  fmt::print("  fall-back     in {} of {} control intervals\n", result.fallback_steps, N);
  PrintUnknownForce(task.model.get(), result.unknown_force);
  if (result.plans_over_budget > 0) {
    fmt::print("  over budget   {} of {} plans, by up to {:.3g} ms: one iteration is made whatever it takes{}\n",
               result.plans_over_budget, result.plans, 1e3 * (result.Latency(1) - task.mpc.budget),
               saved ? "; each stands in the run's events.csv" : "");
  }
  int events = 0;
  for (const MpcEvent& event : result.events) {
    if (event.kind == MpcEventKind::kOverBudget || ++events > kMostEventsPrinted) continue;
    fmt::print("  {:<13} at {:.4g} s: {}\n", ToString(event.kind), event.time, event.reason);
  }
  if (events > kMostEventsPrinted) {
    fmt::print("  …             {} more such events{}\n", events - kMostEventsPrinted,
               saved ? "; all stand in the run's events.csv" : "");
  }
  for (const std::string& failure : record.failures) {
    const bool listed = failure.starts_with(kConstraintFailure) || failure.starts_with("first plan: ");
    if (!listed) fmt::print("  note          {}\n", failure);  // the others stand above
  }
}

std::string EventsTable(const MpcResult& result) {
  std::string text = "time (s),event,reason\n";
  for (const MpcEvent& event : result.events) {
    text += fmt::format("{:.17g},{},{}\n", event.time, ToString(event.kind), QuotedCell(event.reason));
  }
  return text;
}

std::string LatencyTable(const MpcResult& result) {
  std::string text = "plan,latency (s)\n";
  for (std::size_t i = 0; i < result.latency.size(); i++) text += fmt::format("{},{:.9g}\n", i + 1, result.latency[i]);
  return text;
}

// of each constraint the largest violation at each knot of the robot's motion, relative to its bound where that is
// larger than 1
std::string ViolationsTable(const MpcResult& result) {
  std::string text = "time (s)";
  for (const MpcConstraintReport& c : result.constraints) {
    text += "," + QuotedCell(c.plan.name);
  }
  for (int t = 0; t <= result.trajectory.N(); t++) {
    text += fmt::format("\n{:.17g}", result.trajectory.time[t]);
    for (const MpcConstraintReport& c : result.constraints) text += fmt::format(",{:.9g}", c.violation_per_knot[t]);
  }
  return text + "\n";
}

// into the record: the robot's violations, those beyond the tolerance as failures
void RecordConstraints(const Task& task, const MpcResult& result, Record* record) {
  if (result.constraints.empty()) return;
  for (const MpcConstraintReport& c : result.constraints) {
    if (c.motion.knot >= 0) RecordConstraint(c.motion, task.constrained.tolerance, record);
  }
  record->tables["violations.csv"] = ViolationsTable(result);
  record->settings["violation"] = ExactText(task.constrained.tolerance);
}

std::map<std::string, std::string> MpcSettings(const Task& task, const MpcSimulation& s, const MpcResult& result) {
  const MpcOptions& o = task.mpc;
  return {{"mode", s.threads ? "threads" : "lock-step"},
          {"rate", ExactText(o.rate)},
          {"horizon", ExactText(o.horizon)},
          {"timestep", ExactText(o.timestep)},
          {"delay", ExactText(o.delay)},
          {"budget", ExactText(o.budget)},
          {"latency", ExactText(s.latency)},
          {"iterations", fmt::format("{}", result.plan_iterations)},
          {"hops", fmt::format("{}", task.hopping.rounds)},
          {"derivative_every", fmt::format("{}", task.solver.derivative_every)},
          {"fallback", ToString(o.fallback)},
          {"compensate", o.compensate ? "true" : "false"},
          {"feedback", o.feedback ? "true" : "false"},
          {"estimate", ExactText(o.estimate)},
          {"noise_position", ExactText(s.noise_position)},
          {"noise_velocity", ExactText(s.noise_velocity)},
          {"pushes", fmt::format("{}", s.pushes.size())},
          {"plans_over_budget", fmt::format("{}", result.plans_over_budget)},
          {"plans", fmt::format("{}", result.plans)},
          {"cost_per_step", ExactText(result.cost_per_step)}};
}

// what may be done about it
std::string LongPlanning(const Task& task) {
  return fmt::format("  {}Ctrl-C ends before the robot moves",
                     task.hopping.rounds > 0 ? "--hops 0 leaves rounds of kicks out; " : "");
}

// one line for the first plan, a further one now and then while it takes long, then a bar of the robot's time
MpcResult RunWithProgress(const Task& task, const MpcSimulation& simulation, double control_time, MpcWindow* window) {
  Progress planning(task.solver.iterations);
  std::optional<Progress> moving;
  planning.Line("planning the first motion …");
  Clock::time_point told = Clock::now();
  bool long_told = false;
  const MpcCallback step = [&](int steps) {
    if (steps > 0 && !moving) {
      planning.Clear();
      moving.emplace(static_cast<int>(simulation.duration / control_time));
    }
    if (steps > 0 && steps % kStepsPerUpdate == 0) moving->Update(steps, fmt::format("{:.2f} s", steps * control_time));
    return !Interrupted() && (!window || window->IsOpen());
  };
  const IterationCallback iteration = [&](const IterationRecord& record) {
    const std::string text = fmt::format("cost {:.6g}", record.cost);
    if (Clock::now() - told > kSilence) {
      if (!long_told) planning.Line(LongPlanning(task));
      long_told = true;
      planning.Line(fmt::format("  iteration {}, {}", record.iteration, text));
      told = Clock::now();
    }
    planning.Update(record.iteration, text);
    return true;
  };
  return RunMpc(task, simulation, step, iteration);
}

// without the motion, which is moved into it behind what is printed
Record MakeMpcRecord(const MpcArguments& arguments, const Task& task, const MpcSimulation& simulation,
                     const MpcResult& result) {
  const mjModel* m = simulation.plant ? simulation.plant : task.model.get();
  const double control_time = task.knot_time();
  Record record = TaskRecord(task, "mpc");
  record.seed = simulation.seed;
  record.cost_per_knot = result.cost_per_knot;
  record.metric = "running cost of the task at each control interval of the closed loop";
  record.settings = MpcSettings(task, simulation, result);
  record.tables = {{"events.csv", EventsTable(result)}, {"latency.csv", LatencyTable(result)}};
  record.substeps = result.substeps;
  record.context = result.context;
  if (simulation.plant) {
    record.settings["planned_model"] = task.model_file;
    record.model_file = std::filesystem::absolute(arguments.plant).lexically_normal().string();
  }
  if (task.mpc.budget > 0) record.latency_budget = task.mpc.budget;
  if (result.plans > 0) record.latency_used = result.Latency(1);
  Simulator simulator(m, record.context, record.substeps, task.solver.threads);
  record.diagnostics = simulator.Diagnose(result.trajectory);
  record.failures = LabelFailures(m, result.trajectory, {}, record.diagnostics);
  if (FirstPlanFailed(task, result)) record.failures.push_back("first plan: " + FailedFirstPlan(result));
  const bool moved = simulation.goals && simulation.goals->moved();  // costs do not know where to
  if (moved) record.settings["goals"] = "moved while the robot was watched; costs are of where they were";
  if (const std::string bad = moved ? "" : EndsBadly(task, result, control_time); !bad.empty())
    record.failures.push_back(bad);
  RecordConstraints(task, result, &record);
  record.status = !result.status.ok() ? "diverged" : result.interrupted ? "interrupted" : "ok";
  if (!result.status.ok()) {
    record.message = fmt::format("the robot cannot be simulated beyond {:.4g} s: {}", result.status.knot * control_time,
                                 ToString(result.status.status));
    record.failures.insert(record.failures.begin(), record.message);
  }
  return record;
}

int ExportMpc(const MpcArguments& a) {
  if (!IsTaskFile(a.input))
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("--export: a host reads a task file, which costate task {} --goal … --at-once -o FILE writes",
                    a.input));
  const Task task = LoadTask(a.input);
  PrintWarnings(task.warnings);
  const std::vector<std::string> goals = WriteMpcHost(task, a.exported, a.force);
  fmt::print("wrote {}: {} plans while it moves, in any host that has loaded libcostate.so\n", a.exported,
             ModelName(task.model.get()));
  for (const std::string& goal : goals) fmt::print("  a green ball, '{}', moves that goal: drag it\n", goal);
  return kExitOk;
}

int RunMpcCommand(const MpcArguments& arguments) {
  if (!arguments.exported.empty()) return ExportMpc(arguments);
  Task task = LoadMpcTask(arguments);
  PrintWarnings(task.warnings);
  if (const std::string deep = DeepStart(task); !deep.empty()) PrintWarnings({deep});
  if (const std::string falls = FallsFreely(task.model.get()); !falls.empty()) PrintWarnings({falls});
  const std::string folder = arguments.no_save ? "" : arguments.out.empty() ? FreeFolder(task) : arguments.out;
  if (!folder.empty()) CheckRunFolder(folder, arguments.force);
  const ModelPtr plant = LoadPlantFile(task, arguments.plant);
  const mjModel* m = plant ? plant.get() : task.model.get();
  MpcSimulation simulation;
  simulation.plant = plant.get();
  simulation.duration = arguments.time.value_or(arguments.view ? kWatched : kDuration);
  simulation.threads = arguments.real_time || arguments.view;
  simulation.latency = arguments.latency.value_or(-1);
  simulation.pushes = ReadPushes(arguments.pushes, m);
  simulation.noise_position = !arguments.noise.empty() ? arguments.noise[0] : 0;
  simulation.noise_velocity = arguments.noise.size() > 1 ? arguments.noise[1] : 0;
  simulation.seed = arguments.seed;
  CheckMpc(task, simulation);
  const double control_time = task.knot_time();
  if (plant) fmt::print("planned by {}; the robot is {}\n", task.model_file, arguments.plant);
  fmt::print("{}: {}, {}; {:.4g} s in control intervals of {:.4g} ms, {}\n\n", ModelName(m), SizesText(m),
             IntegratorName(m), simulation.duration, 1e3 * control_time,
             simulation.threads ? "in real time" : "in lock-step");
  if (task.solver.derivative_every > 1) {
    fmt::print("derivatives at every {} knots, interpolated in between\n\n", task.solver.derivative_every);
  }

  CatchInterrupts();
  MpcGoals goals(task);
  std::optional<MpcWindow> window;
  if (arguments.view) {
    window.emplace(task, m, &goals);
    simulation.goals = &goals;
    simulation.watch = [&](const mjData* robot) { window->Show(robot); };
  }
  MpcResult result = RunWithProgress(task, simulation, control_time, window ? &*window : nullptr);
  if (window) result.interrupted = Interrupted();  // whoever closes it has seen enough
  window.reset();
  if (result.first_status == SolveStatus::kDiverged) {
    fmt::print("{}: {}\nThe robot did not move, and nothing was saved.\n", ToString(result.first_status),
               result.first_plan);
    return kExitNo;
  }

  const bool planless = FirstPlanFailed(task, result), failed = !result.status.ok();
  Record record = MakeMpcRecord(arguments, task, simulation, result);
  PrintMpc(task, result, record, control_time, !arguments.no_save);
  if (!arguments.no_save && result.trajectory.N() > 0) {
    record.trajectory = std::move(result.trajectory);
    record.xfrc = std::move(result.xfrc);
    record.model = CopyModel(m);
    const std::string saved = SaveRunSomewhere(folder, &record, arguments.force, !arguments.no_plots);
    fmt::print("  saved in      {}\n\n  costate view {}\n", saved, ShellWord(saved));
  } else if (!arguments.no_save) {
    fmt::print("  nothing saved: the robot has not moved\n");
  }
  return failed || (planless && !result.interrupted) ? kExitNo : result.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void AddMpcCommand(CLI::App& app, int* exit_code) {
  auto a = std::make_shared<MpcArguments>();
  CLI::App* command = app.add_subcommand("mpc", "Plan again and again while a simulated robot moves");
  command->add_option("TASK|MODEL", a->input, "task file, or a robot with --goal")->required();
  AddGoalOptions(command, &a->reach);
  command->add_option("--time", a->time, "seconds (default 5; with --view 300, or until the window is closed)")
      ->check(Positive());
  command->add_flag("--real-time", a->real_time, "planner and robot side by side, in real time");
  command->add_flag("--view", a->view, "the same in a window, where green dots, the goals, can be dragged");
  command->add_option("--threads,--planner-threads", a->threads, "of the planner; 0: all cores")
      ->check(CLI::Range(0, 512));
  command->add_option("--rate", a->rate, "plans a second, at most")->check(Positive());
  command->add_option("--horizon", a->horizon, "seconds of a plan")->check(Positive());
  command->add_option("--timestep", a->timestep, "seconds of the engine's step inside plans")->check(Positive());
  command->add_option("--delay", a->delay, "seconds from a measurement to its plan's first control")
      ->check(NonNegative());
  command->add_option("--budget", a->budget, "seconds for a plan")->check(Positive());
  command->add_option("--iterations", a->iterations, "of a plan, at most (default one a knot between plans, 1 to 20)")
      ->check(CLI::Range(1, 1000000));
  AddHopsOption(command, &a->hops);
  command->add_option("--fallback", a->fallback, "when a plan is late: plan, hold or damp")
      ->check(CLI::IsMember(MpcFallbackWords()));
  command->add_option("--latency", a->latency, "in lock-step: plans pretend to take so many seconds")
      ->check(NonNegative());
  command->add_flag("--no-compensation", a->no_compensation,
                    "plan from the measured state, not from where the robot will be");
  command->add_flag("--no-feedback", a->no_feedback, "between plans play their controls alone");
  command
      ->add_option("--estimate", a->estimate, "seconds in which plans learn of a force that the model knows nothing of")
      ->check(Positive());
  command->add_option("--plant", a->plant, "the simulated robot, where it is another than the task's")->check(Given());
  command->add_option("--push", a->pushes, "BODY FX FY FZ T0 T1")->expected(6, 600);
  command->add_option("--noise", a->noise, "standard deviation of measured positions [and velocities]")
      ->expected(1, 2)
      ->check(NonNegative());
  command->add_option("--seed", a->seed, "of the noise (default 1)");
  command->add_option("--out", a->out, "folder of the saved run")->check(Given());
  command->add_flag("--force", a->force, "replace the run that is there");
  command->add_flag("--no-plots", a->no_plots, "draw no pictures");
  command->add_flag("--no-save", a->no_save, "save nothing")->excludes("--out");
  CLI::Option* exported =
      command->add_option("--export", a->exported, "write an MJCF file that plans by itself in any MuJoCo host")
          ->check(Given());
  for (CLI::Option* option : command->get_options()) {
    const std::string name = option->get_name();
    if (option != exported && name.starts_with("--") && name != "--help" && name != "--force")
      exported->excludes(option);
  }
  command->footer(kMpcFooter);
  command->callback([a, exit_code] { *exit_code = RunMpcCommand(*a); });
}

}  // namespace costate::cli
