// costate.mpc: a robot goes where its task says, in a host that only steps. And the same by the C interface.
#include <costate/costate_c.h>
#include <costate/mpc.h>
#include <costate/record.h>
#include <costate/rollout.h>
#include <costate/state.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/engine_guard.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;

// a mass in the plane with a motor for each way, which goes to a marker that a hand moves
constexpr char kFollower[] = R"(<mujoco model="follower">
  <option timestep="0.005" gravity="0 0 0" integrator="INTEGRATOR"/>EXTENSION
  <worldbody>
    <body name="mass"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom size="0.1" mass="1"/><site name="mass"/></body>
    <body name="marker" mocap="true" pos="1 0.25 0"/>
  </worldbody>
  <actuator><motor name="along" joint="x" ctrlrange="-100 100"/><motor name="across" joint="y" ctrlrange="-100 100"/></actuator>
  <keyframe><key name="away" qpos="-1 2"/></keyframe>
</mujoco>)";

std::string Follower(const std::string& extension = "", const std::string& integrator = "Euler") {
  std::string text = kFollower;
  text.replace(text.find("INTEGRATOR"), 10, integrator);
  return text.replace(text.find("EXTENSION"), 9, extension);
}

std::string MpcInstance(const std::string& task, const std::string& config = "<config key='wait' value='on'/>") {
  return "<extension><plugin plugin='costate.mpc'><instance name='go'><config key='task' value='" + task + "'/>" +
         config + "</instance></plugin></extension>";
}

class MpcInAHost : public support::EngineTest {
 protected:
  std::string TaskFile(const std::string& target = "body:marker", const std::string& integrator = "Euler") {
    folder_.Write("follower.xml", Follower("", integrator));
    return folder_.Write("follow.task.xml",
                         "<task model='follower.xml' horizon='0.5' controlstep='4'><start key='away'/><mpc rate='20'/>"
                         "<cost site='mass' quantity='pos' target='" +
                             target +
                             "' weight='1' terminal='100'/>"
                             "<cost qvel='all' weight='0.1' terminal='1'/></task>");
  }
  ModelPtr Load(const std::string& config = "<config key='wait' value='on'/>") {
    return LoadModelFromString(Follower(MpcInstance(TaskFile(), config)));
  }
  static void Run(const mjModel* m, mjData* d, double seconds) {
    for (const double end = d->time + seconds - 1e-9; d->time < end;) mj_step(m, d);
  }
  static double Miss(const mjData* d) { return std::hypot(d->qpos[0] - d->mocap_pos[0], d->qpos[1] - d->mocap_pos[1]); }

  support::TemporaryFolder folder_;
  char error_[500] = "";
};

using MpcPluginTest = MpcInAHost;
using MpcOfC = MpcInAHost;

TEST_F(MpcPluginTest, GoesToAMarkerThatTheHostMoves) {
  const ModelPtr m = Load();
  const DataPtr d = MakeData(m.get());
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);
  d->mocap_pos[0] = -1;
  d->mocap_pos[1] = 1.5;
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);

  // a reset begins anew
  mj_resetData(m.get(), d.get());
  EXPECT_GT(Miss(d.get()), 1);
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);
}

// bit for bit what the controller does in a loop of the same steps, with stages of RK4, too
TEST_F(MpcPluginTest, DoesWhatAControllerDoes) {
  for (const std::string integrator : {"Euler", "RK4"}) {
    const std::string task = TaskFile("body:marker", integrator);
    const ModelPtr m = LoadModelFromString(Follower(MpcInstance(task), integrator));
    const DataPtr d = MakeData(m.get());
    MpcController mpc(LoadTask(task), {.threads = false});
    const ModelPtr plain = LoadModelFromString(Follower("", integrator));
    const DataPtr own = MakeData(plain.get());
    ASSERT_TRUE(mpc.Start(plain.get(), own.get()));
    MatrixXd X(4, 100), X_own(4, 100);
    for (int i = 0; i < 100; ++i) {
      mju_copy(own->ctrl, mpc.Control(own.get()).data(), 2);
      mj_step(plain.get(), own.get());
      mj_step(m.get(), d.get());
      X.col(i) = GetState(m.get(), d.get());
      X_own.col(i) = GetState(plain.get(), own.get());
    }
    EXPECT_TRUE(BitwiseEqual(X, X_own)) << integrator;
    EXPECT_GT(X(0, 99), 0.1);
  }
}

TEST_F(MpcPluginTest, StartsWhereItsTaskDoesWhereAsked) {
  const ModelPtr m = Load("<config key='wait' value='on'/><config key='start' value='on'/>");
  const DataPtr d = MakeData(m.get());
  EXPECT_EQ(d->qpos[0], -1);
  EXPECT_EQ(d->qpos[1], 2);
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);
  mj_resetData(m.get(), d.get());
  EXPECT_EQ(d->qpos[0], -1);
}

// what a viewer does with copies and with times gone by makes no plans within an interval, and moves nothing
TEST_F(MpcPluginTest, CopiesAndTimesGoneByHoldTheirControl) {
  const ModelPtr m = Load();
  const DataPtr d = MakeData(m.get());
  Run(m.get(), d.get(), 0.2);
  std::vector<mjtNum> past(mj_stateSize(m.get(), mjSTATE_INTEGRATION));
  mj_getState(m.get(), d.get(), past.data(), mjSTATE_INTEGRATION);
  const double u = d->ctrl[0];
  mj_step(m.get(), d.get());
  const double x = d->qpos[0];

  const DataPtr copy = MakeData(m.get());
  mj_setState(m.get(), copy.get(), past.data(), mjSTATE_INTEGRATION);
  mj_forward(m.get(), copy.get());
  Run(m.get(), d.get(), 0.3);
  mj_setState(m.get(), d.get(), past.data(), mjSTATE_INTEGRATION);
  mj_forward(m.get(), d.get());
  for (const DataPtr* of : {&copy, &d}) {
    mjData* again = of->get();
    EXPECT_EQ(again->plugin_state[3], u);
    mj_step(m.get(), again);
    EXPECT_NEAR(again->qpos[0], x, 1e-3);
    Run(m.get(), again, 2);  // plans of its own from there
    EXPECT_LT(Miss(again), 0.02);
  }
}

TEST_F(MpcPluginTest, PlansBesideTheHostAndGoesWithItsData) {
  const ModelPtr m = Load("");
  for (int k = 0; k < 3; ++k) {
    const DataPtr d = MakeData(m.get());
    Run(m.get(), d.get(), 0.3);
    EXPECT_NE(d->ctrl[0], 0);
  }
}

// the task is found from where the host works by then
TEST_F(MpcPluginTest, KnowsItsTaskWhereverTheHostIsByThen) {
  TaskFile();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const ModelPtr m = LoadModelFromString(Follower(MpcInstance("follow.task.xml")));
  std::filesystem::current_path(before);
  const DataPtr d = MakeData(m.get());
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);
}

// where an interval is one step of the host a copy behind a step stands at the next interval's beginning
TEST_F(MpcPluginTest, ACopyMakesNoPlanWhereAStepIsAnInterval) {
  std::string task = support::ReadFile(TaskFile());
  task.replace(task.find("controlstep='4'"), 15, "controlstep='1'");
  const ModelPtr m = LoadModelFromString(Follower(MpcInstance(folder_.Write("each.task.xml", task))));
  const DataPtr d = MakeData(m.get()), copy = MakeData(m.get());
  Run(m.get(), d.get(), 0.1);
  std::vector<mjtNum> now(mj_stateSize(m.get(), mjSTATE_INTEGRATION));
  mj_getState(m.get(), d.get(), now.data(), mjSTATE_INTEGRATION);
  mj_setState(m.get(), copy.get(), now.data(), mjSTATE_INTEGRATION);
  mj_forward(m.get(), copy.get());
  EXPECT_EQ(copy->ctrl[0], d->ctrl[0]);
  Run(m.get(), copy.get(), 2);
  EXPECT_LT(Miss(copy.get()), 0.02);
}

// the task as it was when the model was compiled, whatever became of its file and whoever has one of that name
TEST_F(MpcPluginTest, KeepsTheTaskThatItWasCompiledWith) {
  const std::filesystem::path before = std::filesystem::current_path();
  TaskFile();
  std::filesystem::current_path(folder_.path());
  const ModelPtr m = LoadModelFromString(Follower(MpcInstance("follow.task.xml")));
  const auto renamed = [](std::string text) { return text.replace(text.find("\"along\""), 7, "\"length\""); };
  const support::TemporaryFolder other;
  other.Write("follower.xml", renamed(Follower()));
  other.Write("follow.task.xml", support::ReadFile(folder_.File("follow.task.xml")));
  std::filesystem::current_path(other.path());
  const ModelPtr second = LoadModelFromString(renamed(Follower(MpcInstance("follow.task.xml"))));
  std::filesystem::current_path(before);
  std::filesystem::remove(folder_.File("follow.task.xml"));
  const DataPtr d = MakeData(m.get());
  Run(m.get(), d.get(), 2);
  EXPECT_LT(Miss(d.get()), 0.02);
}

// what cannot be made any more is a warning, and the host goes on without
TEST_F(MpcPluginTest, DataWithoutATaskAreAWarning) {
  const std::string task = TaskFile();
  const ModelPtr m = LoadModelFromString(Follower(MpcInstance(task)));
  std::filesystem::remove(folder_.File("follower.xml"));
  EngineGuard guard;
  const DataPtr d = MakeData(m.get());
  const std::vector<std::string> warnings = guard.TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("costate.mpc 'go': task: "), std::string::npos) << warnings[0];
  Run(m.get(), d.get(), 0.1);
  EXPECT_EQ(d->ctrl[0], 0);
  mj_resetData(m.get(), d.get());
}

// a ball that was dragged before a reset is where the first plan goes
TEST_F(MpcPluginTest, TheFirstPlanGoesWhereTheBallIs) {
  const std::string task = TaskFile("1 0.25 0");
  std::string text = Follower(MpcInstance(task));
  text.replace(text.find("<body name=\"marker\""), 0, "<body name='goal of site mass' mocap='true' pos='-2 1 0'/>");
  const ModelPtr m = LoadModelFromString(text);
  const DataPtr d = MakeData(m.get());
  mj_step(m.get(), d.get());
  EXPECT_LT(d->ctrl[0], -1);
  Run(m.get(), d.get(), 2);
  EXPECT_LT(std::hypot(d->qpos[0] + 2, d->qpos[1] - 1), 0.02);
}

TEST_F(MpcPluginTest, RefusesWhatItCannotFollowByName) {
  const auto error = [&](const std::string& extension, std::string model = kFollower) {
    model.replace(model.find("EXTENSION"), 9, extension).replace(model.find("INTEGRATOR"), 10, "Euler");
    try {
      LoadModelFromString(model);
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure() << text;
  };
  const std::string task = TaskFile();
  EXPECT_TRUE(contains(error(MpcInstance(task)), "accepted"));
  EXPECT_TRUE(contains(error("<extension><plugin plugin='costate.mpc'><instance name='go'/></plugin></extension>"),
                       "costate.mpc 'go'"));
  EXPECT_TRUE(contains(error(MpcInstance("none.xml")), "none.xml"));
  EXPECT_TRUE(contains(error(MpcInstance(task, "<config key='wait' value='maybe'/>")), "maybe"));
  EXPECT_TRUE(contains(error(MpcInstance(task, "<config key='limit' value='-1'/>")), "limit"));
  std::string other = kFollower;
  other.replace(other.find("name=\"along\""), 12, "name=\"length\"");
  EXPECT_TRUE(contains(error(MpcInstance(task), other),
                       "this robot 'follower' has ctrl[length] in place 0 of its controls, the planned one"));
  // the robot of the task names the task
  folder_.Write("follower.xml", Follower(MpcInstance(task)));
  EXPECT_TRUE(contains(error(MpcInstance(task)), "its model has this plugin itself"));
  TaskFile();
  Record run;
  run.command = "rollout";
  run.model = LoadModelFromString(Follower());
  run.context = GetContext(run.model.get(), MakeData(run.model.get()).get());
  Simulator simulator(run.model.get(), run.context, 1, 1);
  ASSERT_TRUE(simulator.Rollout(VectorXd::Zero(4), MatrixXd::Zero(2, 3), &run.trajectory).ok());
  WriteRecord(folder_.File("run"), run, {.force = true, .plots = false});
  const std::string policy = "<plugin plugin='costate.policy'><instance name='play'><config key='run' value='" +
                             folder_.File("run") + "'/><config key='feedback' value='off'/></instance></plugin>";
  std::string both = MpcInstance(task);
  both.insert(both.find("<plugin"), policy);
  EXPECT_TRUE(contains(error(both), "the model has a costate.policy, too: both would set all controls"));
  std::string deaf = kFollower;
  deaf.replace(deaf.find("EXTENSION"), 9, "<option><flag spring='disable' damper='disable'/></option>EXTENSION");
  EXPECT_TRUE(contains(error(MpcInstance(task), deaf), "disables spring and damper"));
}

// ---- the C interface ------------------------------------------------------------------------------------------------

TEST_F(MpcOfC, MovesAHostsRobot) {
  costate_mpc* mpc = costate_make_mpc(TaskFile().c_str(), 0, error_, sizeof error_);
  ASSERT_NE(mpc, nullptr) << error_;
  EXPECT_NEAR(costate_mpc_interval(mpc), 0.02, 1e-12);
  EXPECT_EQ(costate_mpc_model(mpc)->nu, 2);
  const ModelPtr m = LoadModelFromString(Follower());
  const DataPtr d = MakeData(m.get());
  int calls = 0;
  const auto progress = [](void* user, int, mjtNum, mjtNum) { return ++*static_cast<int*>(user), 0; };
  ASSERT_EQ(costate_mpc_start(mpc, m.get(), d.get(), progress, &calls, error_, sizeof error_), 0) << error_;
  EXPECT_GT(calls, 0);
  EXPECT_NE(std::string(error_), "");  // how it ended
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(costate_mpc_control(mpc, d.get(), d->ctrl, error_, sizeof error_), 0) << error_;
    mj_step(m.get(), d.get());
  }
  EXPECT_LT(Miss(d.get()), 0.02);
  costate_mpc_report report;
  costate_mpc_get_report(mpc, &report, error_, sizeof error_);
  EXPECT_GT(report.plans, 30);
  EXPECT_EQ(report.plans_taken, report.plans + 1);
  EXPECT_EQ(report.events, 0);
  EXPECT_GT(report.latency_median, 0);
  EXPECT_GE(report.latency_max, report.latency_median);
  EXPECT_STREQ(error_, "");
  EXPECT_EQ(costate_mpc_ngoal(mpc), 0);  // a body that moves is no number
  costate_delete_mpc(mpc);
}

TEST_F(MpcOfC, MovesARobotThatIsNoDataToAGoalThatMoves) {
  costate_mpc* mpc = costate_make_mpc(TaskFile("1 0.25 0").c_str(), 0, error_, sizeof error_);
  ASSERT_NE(mpc, nullptr) << error_;
  ASSERT_EQ(costate_mpc_ngoal(mpc), 1);
  EXPECT_STREQ(costate_mpc_goal(mpc, 0), "site mass");
  EXPECT_EQ(costate_mpc_goal(mpc, 1), nullptr);
  EXPECT_EQ(costate_mpc_goal(mpc, -1), nullptr);
  const mjtNum there[3] = {-0.5, 0.75, 0};
  EXPECT_EQ(costate_mpc_move_goal(mpc, 1, there, error_, sizeof error_), 1);
  EXPECT_STREQ(error_, "MPC: goal 1 of a task that has 1");
  mjtNum x[4] = {0, 0, 0, 0}, u[2];
  EXPECT_EQ(costate_mpc_control_at(mpc, 0, x, u, error_, sizeof error_), 1);
  EXPECT_STREQ(error_, "MPC: there is no plan to follow, call Start first");
  ASSERT_EQ(costate_mpc_start_at(mpc, x, nullptr, nullptr, error_, sizeof error_), 0) << error_;
  ASSERT_EQ(costate_mpc_move_goal(mpc, 0, there, error_, sizeof error_), 0) << error_;
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(costate_mpc_control_at(mpc, 100 + 0.02 * i, x, u, error_, sizeof error_), 0) << error_;
    for (int k = 0; k < 2; ++k) x[2 + k] += 0.02 * u[k], x[k] += 0.02 * x[2 + k];
  }
  EXPECT_LT(std::hypot(x[0] + 0.5, x[1] - 0.75), 0.02);
  x[0] = NAN;
  EXPECT_EQ(costate_mpc_control_at(mpc, 200, x, u, error_, sizeof error_), 0) << error_;
  EXPECT_TRUE(std::isfinite(u[0]) && std::isfinite(u[1]));
  costate_mpc_report report;
  costate_mpc_get_report(mpc, &report, error_, sizeof error_);
  EXPECT_GT(report.events, 0);
  EXPECT_NE(std::string(error_).find(" at 100 s: "), std::string::npos) << error_;
  costate_delete_mpc(mpc);
}

TEST_F(MpcOfC, ErrorsAreSentences) {
  EXPECT_EQ(costate_make_mpc(nullptr, 0, error_, sizeof error_), nullptr);
  EXPECT_STREQ(error_, "file is NULL");
  EXPECT_EQ(costate_make_mpc("none.xml", 0, error_, sizeof error_), nullptr);
  EXPECT_NE(std::string(error_).find("none.xml"), std::string::npos);
  EXPECT_EQ(costate_mpc_start(nullptr, nullptr, nullptr, nullptr, nullptr, error_, sizeof error_), 1);
  EXPECT_STREQ(error_, "mpc is NULL");
  EXPECT_EQ(costate_mpc_control(nullptr, nullptr, nullptr, error_, sizeof error_), 1);
  EXPECT_EQ(costate_mpc_interval(nullptr), 0);
  EXPECT_EQ(costate_mpc_model(nullptr), nullptr);
  EXPECT_EQ(costate_mpc_ngoal(nullptr), 0);
  costate_mpc_report report;
  costate_mpc_get_report(nullptr, &report, error_, sizeof error_);
  EXPECT_EQ(report.plans, 0);
  EXPECT_STREQ(error_, "mpc is NULL");
  costate_delete_mpc(nullptr);

  costate_mpc* mpc = costate_make_mpc(TaskFile().c_str(), 0, error_, sizeof error_);
  ASSERT_NE(mpc, nullptr) << error_;
  const ModelPtr other = LoadModel(COSTATE_MODELS "/cartpole/cartpole.xml");
  const DataPtr its = MakeData(other.get());
  EXPECT_EQ(costate_mpc_start(mpc, other.get(), its.get(), nullptr, nullptr, error_, sizeof error_), 1);
  EXPECT_NE(std::string(error_).find("the controlled robot 'cartpole'"), std::string::npos) << error_;
  EXPECT_EQ(costate_mpc_start(mpc, other.get(), nullptr, nullptr, nullptr, error_, sizeof error_), 1);
  EXPECT_STREQ(error_, "d is NULL");
  costate_delete_mpc(mpc);
}

}  // namespace
}  // namespace costate
