// A solve that was cut off goes on: about the iterations that were left, to the same optimum, and never on what does
// not fit.
#include <costate/resume.h>
#include <costate/solve_task.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::TemporaryFolder;
using ResumeTest = support::EngineTest;

// a run as `costate optimize` saves it, written and read again
Record SaveRun(const Task& task, const SolveResult& result, const FreeTimeResult* timed = nullptr) {
  const TemporaryFolder folder;
  Record record;
  record.command = "optimize";
  record.model = CopyModel(timed ? timed->model.get() : task.model.get());
  record.context = task.context;
  record.substeps = task.substeps;
  record.trajectory = result.trajectory;
  record.iterations = result.iterations;
  record.constraints = result.constraints;
  record.tables[kResumeFile] = ResumeText(task, result, timed);
  WriteRecord(folder.File("run"), record, {.plots = false});
  return ReadRecord(folder.File("run"));
}

SolveResult SolveUntil(const Task& task, int stop_after = 1000000) {
  return Solve(
      task.ToProblem(), task.ToGuess(), task.solver, [=](const IterationRecord& r) { return r.iteration < stop_after; },
      task.constrained);
}

struct ResumeCase {
  const char* file;
  SolverType type;
  bool second_order;
  double optimum;
  int more;  ///< iterations that going on may take beyond those that were left
};

// iterations together, cut at a third and at two thirds, and what a start from the controls alone would need
TEST_F(ResumeTest, TakesAboutTheIterationsThatWereLeft) {
  for (const ResumeCase& c : {ResumeCase{"pendulum/swing_up_to_rest.xml", SolverType::kIlqr, false, 0.018404627, 1},
                              ResumeCase{"pendulum/swing_up_to_rest.xml", SolverType::kFddp, true, 0.018404627, 8},
                              ResumeCase{"cartpole/swing_up_to_rest.xml", SolverType::kFddp, true, 1.486186733, 12}}) {
    const auto load = [&] {
      Task task = LoadTask(std::string(COSTATE_MODELS) + "/reference/" + c.file);
      task.solver.type = c.type;
      task.solver.second_order = c.second_order;
      task.solver.tolerance = 1e-6;
      task.solver.threads = 2;
      if (c.type == SolverType::kIlqr) {
        task.X_guess.resize(0, 0);
        task.U_guess.setZero();
      }
      return task;
    };
    const SolveResult whole = SolveUntil(load());
    ASSERT_EQ(whole.status, SolveStatus::kConverged) << whole.message;
    const int n = static_cast<int>(whole.iterations.size());
    for (const int cut : {n / 3, 2 * n / 3}) {
      const Task first = load();
      const SolveResult part = SolveUntil(first, cut);
      ASSERT_EQ(part.status, SolveStatus::kInterrupted);
      Task second = load();
      Resume(SaveRun(first, part), "run", &second);
      const SolveResult rest = SolveUntil(second);
      EXPECT_EQ(rest.status, SolveStatus::kConverged) << rest.message;
      EXPECT_LE(rest.violation, 1e-6);
      EXPECT_NEAR(rest.cost, c.optimum, 1e-6 * c.optimum + 2e-9) << c.file;
      EXPECT_LE(static_cast<int>(rest.iterations.size()), n - cut + c.more)
          << c.file << " " << ToString(c.type) << " cut at " << cut;
      RecordProperty(fmt::format("{} {} {} {}", c.file, ToString(c.type), n, cut),
                     static_cast<int>(rest.iterations.size()));
    }
  }
}

constexpr char kRail[] =
    "<mujoco model='rail'><option timestep='0.05' gravity='0 0 0'/><worldbody><body><joint name='slide' type='slide' "
    "axis='1 0 0'/>"
    "<geom size='.1' mass='1'/></body></worldbody><actuator><motor name='push' joint='slide' ctrlrange='-1 "
    "1'/></actuator></mujoco>";

Task RailTask(const std::string& elements, const std::string& model = kRail) {
  const TemporaryFolder folder;
  folder.Write("rail.xml", model);
  return LoadTask(folder.Write(
      "rail.task.xml",
      "<task model='rail.xml' horizon='1'><guess ctrl='0'/><cost name='effort' ctrl='all' weight='1e-3'/>" + elements +
          "</task>"));
}

constexpr char kThere[] =
    "<constraint name='there' qpos='all' equals='1' when='end'/><constraint name='at rest' qvel='all' equals='0' "
    "when='end'/>";

// full thrust, then full brake: 2 s. Times that were tried are not tried again
TEST_F(ResumeTest, GoesOnWithTheTimesThatWereTried) {
  const std::string elements = std::string(kThere) + "<time shortest='0.4' longest='4'/>";
  const auto solve = [](const Task& task, int stop_after, const FreeTimeState* from) {
    return SolveFreeTime(
        task.ToProblem(), task.U_guess, task.solver, task.constrained, task.free_time,
        [=](const IterationRecord& r) { return r.iteration < stop_after; }, from);
  };
  const FreeTimeResult whole = solve(RailTask(elements), 1000000, nullptr);
  EXPECT_NEAR(whole.time, 2, 3e-3);
  const int n = static_cast<int>(whole.result.iterations.size());
  for (const int cut : {n / 3, 2 * n / 3}) {
    const Task first = RailTask(elements);
    const FreeTimeResult part = solve(first, cut, nullptr);
    ASSERT_EQ(part.result.status, SolveStatus::kInterrupted);
    Task second = RailTask(elements);
    Resume(SaveRun(first, part.result, &part), "run", &second);
    const FreeTimeResult rest = solve(second, 1000000, &second.time_state);
    EXPECT_NEAR(rest.time, whole.time, 2e-3) << rest.result.message;
    EXPECT_LE(rest.result.violation, 1e-6);
    EXPECT_EQ(rest.trials.size(), whole.trials.size());
    EXPECT_LE(static_cast<int>(rest.result.iterations.size()), n - cut + 12);
    RecordProperty(fmt::format("rail {} {}", n, cut), static_cast<int>(rest.result.iterations.size()));
  }
}

// what a search gains that goes on is told in terms of where the first one ended, not of another length
TEST_F(ResumeTest, GainsCountFromTheBestOfTheTimesThatWereTried) {
  const auto load = [] {
    return RailTask(
        "<cost name='there' qpos='all' target='1' terminal='100'/><cost name='at rest' qvel='all' "
        "terminal='10'/><time shortest='0.5' longest='4' weight='0.01' tolerance='0.05'/>");
  };
  const Task first = load();
  const TaskSolution found = SolveTask(first);
  ASSERT_NE(found.timed.time, first.N * first.substeps * first.model->opt.timestep);
  Task second = load();
  Resume(SaveRun(first, found.result, &found.timed), "run", &second);
  second.time_state.trials[0].status = SolveStatus::kIterationLimit;  // this length is solved again
  const TaskSolution again = SolveTask(second);
  EXPECT_NEAR(again.timed.time, found.timed.time, 1e-9);
  EXPECT_NEAR(again.result.initial_cost, found.result.cost, 1e-3 * found.result.cost);
}

// the start moves to the bound nearest to the goal at every time, by either solver: 2 sqrt(3/4) s
TEST_F(ResumeTest, GoesOnWithTimesAndAFreeStart) {
  const auto load = [](const std::string& solver) {
    return RailTask(std::string("<start free='qpos' lower='-.5' upper='.25'/>") + kThere +
                    "<time shortest='0.4' longest='4'/><solver type='" + solver + "'/>");
  };
  const auto solve = [](const Task& task, int stop_after) {
    int n = 0;
    return SolveTask(task, {.iteration = [&](const IterationRecord&) { return ++n < stop_after; }});
  };
  const double best = 2 * std::sqrt(0.75);
  for (const char* solver : {"ilqr", "fddp"}) {
    const Task first = load(solver);
    const TaskSolution whole = solve(first, 1000000);
    EXPECT_NEAR(whole.timed.time, best, 3e-3 * best) << solver;
    const int n = static_cast<int>(whole.result.iterations.size());
    const TaskSolution part = solve(first, n / 2);
    ASSERT_EQ(part.result.status, SolveStatus::kInterrupted);
    for (const char* other : {"ilqr", "fddp"}) {
      Task second = load(other);
      Resume(SaveRun(first, part.result, &part.timed), "run", &second);
      EXPECT_EQ(second.time_state.x0, part.result.trajectory.X.col(0)) << solver;
      EXPECT_NE(second.time_state.x0, second.x0);
      const TaskSolution rest = solve(second, 1000000);
      EXPECT_NEAR(rest.timed.time, best, 3e-3 * best) << solver << " to " << other << ": " << rest.result.message;
      EXPECT_NEAR(rest.result.trajectory.X(0, 0), 0.25, 1e-6);
      EXPECT_LE(rest.result.violation, 1e-6);
      EXPECT_EQ(rest.timed.trials.size(), whole.timed.trials.size());
      if (other == std::string(solver)) {
        EXPECT_LE(static_cast<int>(rest.result.iterations.size()), 2 * n / 3);
      }
    }
  }
}

// states with gaps go on with their gaps
TEST_F(ResumeTest, KeepsStatesThatAreNoMotionYet) {
  const auto load = [] {
    Task task = LoadTask(std::string(COSTATE_MODELS) + "/reference/cartpole/swing_up.xml");
    task.solver.type = SolverType::kFddp;
    return task;
  };
  const Task first = load();
  Task cut = load();
  cut.solver.iterations = 0;
  const SolveResult part = SolveUntil(cut);
  ASSERT_GT(part.state.X.cols(), 0);
  Task second = load();
  second.X_guess.resize(0, 0);
  Resume(SaveRun(cut, part), "run", &second);
  EXPECT_EQ(second.X_guess, part.state.X);
  const SolveResult rest = SolveUntil(second, 3), whole = SolveUntil(first, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rest.iterations[i].cost, whole.iterations[i].cost);

  Task third = load();
  third.solver.type = SolverType::kIlqr;
  third.solver.second_order = false;
  third.X_guess.resize(0, 0);
  Resume(SaveRun(cut, part), "run", &third);
  EXPECT_EQ(third.X_guess.cols(), 0);
  ASSERT_FALSE(third.warnings.empty());
  EXPECT_NE(third.warnings.back().find("ilqr has no use for"), std::string::npos);
}

// a start that has moved goes on from where it is
TEST_F(ResumeTest, KeepsAStartThatHasMoved) {
  std::string spring = kRail;
  spring.replace(spring.find("axis='1 0 0'"), 12, "axis='1 0 0' stiffness='9' damping='.3'");
  const auto load = [&](const std::string& solver) {
    return RailTask(
        "<start free='all'/><measure name='q' qpos='slide'/><cost name='wave' value='q + q^3 - sin(2*pi*time)' "
        "weight='20'/><periodic qpos='all' qvel='all'/><solver type='" +
            solver + "'/>",
        spring);
  };
  for (const char* solver : {"ilqr", "fddp"}) {
    const Task first = load(solver);
    const SolveResult whole = SolveUntil(first);
    ASSERT_EQ(whole.status, SolveStatus::kConverged) << whole.message;
    const int n = static_cast<int>(whole.iterations.size()), cut = n / 2;
    ASSERT_GT(cut, 1);
    const SolveResult part = SolveUntil(first, cut);
    for (const char* other : {"ilqr", "fddp"}) {
      Task second = load(other);
      Resume(SaveRun(first, part), "run", &second);
      EXPECT_EQ(second.free_start.guess, part.state.x0);
      EXPECT_NE(second.free_start.guess, second.x0);
      EXPECT_TRUE(second.warnings.empty()) << second.warnings[0];
      const SolveResult rest = SolveUntil(second);
      EXPECT_EQ(rest.status, SolveStatus::kConverged) << rest.message;
      const int most = other == std::string(solver) ? n - cut + 3 : n;
      EXPECT_LE(static_cast<int>(rest.iterations.size()), most) << solver << " to " << other;
      EXPECT_NEAR(rest.cost, whole.cost, 1e-5 * whole.cost);
    }

    // what may not move any more is at another place
    Task given = load(solver);
    given.free_start = {.entries = {1}, .lower = -VectorXd::Ones(1), .upper = VectorXd::Ones(1)};
    Resume(SaveRun(first, part), "run", &given);
    ASSERT_EQ(given.warnings.size(), 1u);
    EXPECT_NE(given.warnings[0].find("resumed from another start: qpos[slide] was"), std::string::npos);
  }
}

// a motion back within constraints has no multipliers: what goes on from it begins without
TEST_F(ResumeTest, GoesOnFromAMotionBackWithinConstraints) {
  Task first = LoadTask(std::string(COSTATE_MODELS) + "/hopper/cycle.xml");
  first.solver.iterations = 10;
  first.hopping.rounds = 1;
  first.hopping.after_solve = false;
  const SolveResult part = SolveTask(first).result;
  ASSERT_NE(part.message.find("back within the constraints"), std::string::npos) << part.message;
  ASSERT_TRUE(part.state.multipliers.empty());
  Task second = LoadTask(std::string(COSTATE_MODELS) + "/hopper/cycle.xml");
  Resume(SaveRun(first, part), "run", &second);
  EXPECT_EQ(second.state.U, part.state.U);
  EXPECT_EQ(second.free_start.guess, part.state.x0);
  EXPECT_TRUE(second.state.multipliers.empty());
  EXPECT_TRUE(second.warnings.empty()) << second.warnings[0];
  second.solver.iterations = 3;
  const SolveResult rest = SolveUntil(second);
  ASSERT_LE(part.violation, second.constrained.tolerance) << part.message;
  EXPECT_LE(rest.cost, part.cost * (1 + 1e-9)) << rest.message;
}

// JSON is UTF-8; names that are not are written with what replaces such bytes, and found by that
TEST_F(ResumeTest, GoesOnWithNamesThatAreNotUtf8) {
  std::string rail = kRail;
  for (std::size_t at = 0; (at = rail.find("'slide'", at)) != std::string::npos; ++at) {
    if (rail.compare(at - 5, 5, "type=") != 0) rail.replace(at, 7, "'sl\xeft'");
  }
  const std::string there = "<constraint name='l\xe0' qpos='sl\xeft' equals='1' when='end'/>";
  const Task first = RailTask(there, rail);
  Task second = RailTask(there, rail);
  const SolveResult part = SolveUntil(first, 2);
  Resume(SaveRun(first, part), "run", &second);
  EXPECT_EQ(second.state.U, part.state.U);
  Task other = RailTask("<constraint name='la' qpos='sl\xeft' equals='1' when='end'/>", rail);
  EXPECT_ERROR(Resume(SaveRun(first, part), "run", &other), ErrorCode::kInvalidArgument,
               "constraint 'la' of the task is none of the run's");
}

// JSON has no such number: it is null, and read as what it says, no number
TEST_F(ResumeTest, NumbersThatAreNotFiniteAreNoDamage) {
  const Task first = RailTask(kThere);
  SolveResult part = SolveUntil(first, 2);
  part.state.multipliers[0](0, 1) = part.state.penalties[0] = part.state.regularization =
      std::numeric_limits<double>::infinity();
  Task second = RailTask(kThere);
  Resume(SaveRun(first, part), "run", &second);
  EXPECT_TRUE(std::isnan(second.state.multipliers[0](0, 1)));
  EXPECT_TRUE(std::isnan(second.state.penalties[0]));
  EXPECT_TRUE(std::isnan(second.state.regularization));
  EXPECT_EQ(second.state.multipliers[0](0, 0), part.state.multipliers[0](0, 0));
  EXPECT_EQ(second.state.U, part.state.U);
}

TEST_F(ResumeTest, RefusesAStatusThatIsNone) {
  const std::string elements = std::string(kThere) + "<time shortest='0.4' longest='4'/>";
  const Task first = RailTask(elements);
  FreeTimeResult part = SolveFreeTime(
      first.ToProblem(), first.U_guess, first.solver, first.constrained, first.free_time,
      [](const IterationRecord& r) { return r.iteration < 2; }, nullptr);
  part.trials.push_back({1, std::numeric_limits<double>::infinity(), 0, SolveStatus::kStalled, 3});
  Task second = RailTask(elements);
  Resume(SaveRun(first, part.result, &part), "run", &second);
  EXPECT_TRUE(std::isinf(second.time_state.trials.back().cost));
  EXPECT_EQ(second.time_state.trials.back().status, SolveStatus::kStalled);
  part.trials.back().status = static_cast<SolveStatus>(9);
  EXPECT_ERROR(Resume(SaveRun(first, part.result, &part), "run", &second), ErrorCode::kFile,
               "run 'run': resume.json is damaged: times.trials[", "].status is 9, expected a whole number from 0 to");
}

// the parser's own conversions read 2.7 as 2 and true as 1, and their complaints name no member
TEST_F(ResumeTest, NamesEachMemberThatIsNone) {
  const Task first = RailTask(kThere);
  Record run = SaveRun(first, SolveUntil(first, 2));
  const std::string text = run.tables[kResumeFile];
  const nlohmann::json whole = nlohmann::json::parse(text);
  const auto refused = [&](const char* pointer, const nlohmann::json& value, const char* what) {
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    run.tables[kResumeFile] = changed.dump();
    Task task = RailTask(kThere);
    EXPECT_ERROR(Resume(run, "run", &task), ErrorCode::kFile, "run 'run': resume.json is damaged: ", what);
  };
  refused("/schema", 1.5, "schema is 1.5, expected a whole number");
  refused("/schema", 7, "it has schema 7, this program reads up to 1");
  refused("/state/barrier", true, "state.barrier is true, expected a number");
  refused("/state/U", 3, "state.U is 3, expected a list");
  refused("/state/U/4", {1, 2, 3, 4}, "state.U[4] is [1,2,3,4], expected 1 numbers, it has 4");
  refused("/state/U/4/0", "x", "state.U[4][0] is \"x\", expected a number");
  refused("/state/constraints/0/name", 5, "state.constraints[0].name is 5, expected a text");
  refused("/state/constraints/1/penalty", "x", "state.constraints[1].penalty is \"x\", expected a number");
  refused("/state/constraints/1/multipliers", nlohmann::json::array({nlohmann::json::array({0})}),
          "expected those of 21 knots, they are of 1");
}

TEST_F(ResumeTest, RefusesWhatDoesNotFit) {
  const Task first = RailTask(kThere);
  const Record run = SaveRun(first, SolveUntil(first, 2));
  const auto refuse = [&](const std::string& elements, const std::string& model = kRail) {
    Task task = RailTask(elements, model);
    Resume(run, "runs/rail-1", &task);
  };
  const std::string there = "<constraint name='there' qpos='all' equals='1' when='end'/>";
  EXPECT_ERROR(refuse(there), ErrorCode::kInvalidArgument, "the run 'runs/rail-1' cannot be resumed",
               "constraint 'at rest' of the run is not in the task");
  EXPECT_ERROR(refuse(std::string(kThere) + "<limit joint='all' lower='-1' upper='2'/>"), ErrorCode::kInvalidArgument,
               "constraint 'joint ranges' of the task is none of the run's ('there', 'at rest')");
  EXPECT_ERROR(refuse(there + "<constraint name='at rest' lower='0'><term qvel='all'/><term qpos='all'/></constraint>"),
               ErrorCode::kInvalidArgument, "component 0 of constraint 'at rest' is qvel[slide] in the run");
  EXPECT_ERROR(refuse(there + "<constraint name='at rest' value='[1, 2]' upper='3'/>"), ErrorCode::kInvalidArgument,
               "constraint 'at rest' has 1 components in the run, 2 in the task");
  EXPECT_ERROR(refuse(std::string(kThere) + "<option timestep='0.025'/>"), ErrorCode::kInvalidArgument,
               "the run has 20 control intervals, the task has 40");
  EXPECT_ERROR(refuse(std::string(kThere) + "<time shortest='0.5' longest='3'/>"), ErrorCode::kInvalidArgument,
               "the length of the motion is given in the run, free in the task");
  std::string renamed = kRail;
  renamed.replace(renamed.find("'slide' type"), 7, "'track'");
  renamed.replace(renamed.find("joint='slide'"), 13, "joint='track'");
  EXPECT_ERROR(refuse(kThere, renamed), ErrorCode::kInvalidArgument,
               "entry 0 of the state is 'qpos[slide]' in the run, 'qpos[track]' in the task");
  Record none = SaveRun(first, SolveUntil(first, 2));
  none.tables.clear();
  Task task = RailTask(kThere);
  EXPECT_ERROR(Resume(none, "old", &task), ErrorCode::kFile, "the run 'old' has no resume.json",
               "<guess file=\"old\"/>");
  none.tables[kResumeFile] = "{\"format\": \"costate resume\", \"schema\": 1}";
  EXPECT_ERROR(Resume(none, "old", &task), ErrorCode::kFile, "run 'old': resume.json is damaged", "state");
  none.tables[kResumeFile] = "{\"format\"";
  EXPECT_ERROR(Resume(none, "old", &task), ErrorCode::kFile, "run 'old': resume.json is cut off or is not JSON");
  none.tables[kResumeFile] = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_ERROR(Resume(none, "old", &task), ErrorCode::kFile, "run 'old': resume.json is damaged: it is nested");
}

}  // namespace
}  // namespace costate
