// MPC of a robot that others move: what it promises to the loop that moves it.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using MpcControllerTest = support::EngineTest;

constexpr MpcControllerOptions kLockStep{.threads = false};

Task SwingUpTask() {
  Task task = LoadTask(COSTATE_MODELS "/cartpole/swing_up.xml");
  task.mpc.rate = 10;
  return task;
}

// a mass in the plane with a motor for each way, a marker that a hand moves, and a rope that can be let go
constexpr char kMarkedPlane[] = R"(
<mujoco model="plane"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="mass"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom size="0.1" mass="1"/><site name="mass"/></body>
    <body name="marker" mocap="true" pos="1 0.25 0"/>
  </worldbody>
  <equality><joint name="held" joint1="y" active="false"/></equality>
  <actuator><motor name="along" joint="x" ctrlrange="-100 100"/><motor name="across" joint="y" ctrlrange="-100 100"/>
  </actuator></mujoco>)";

Task MarkedTask(const std::string& elements, const std::string& attributes = "") {
  const support::TemporaryFolder folder;
  folder.Write("plane.xml", kMarkedPlane);
  return LoadTask(folder.Write("plane.task.xml", "<task model='plane.xml' horizon='0.5' " + attributes +
                                                     "><mpc rate='20'/>" + elements +
                                                     "<cost qvel='all' weight='0.1' terminal='1'/></task>"));
}

constexpr char kToThere[] = "<cost site='mass' quantity='pos' index='0 1' target='1 0.25' weight='1' terminal='100'/>";
constexpr char kToMarker[] = "<cost site='mass' quantity='pos' target='body:marker' weight='1' terminal='100'/>";

// a host's own loop
void HostLoop(MpcController* mpc, const mjModel* m, mjData* d, int steps) {
  for (int i = 0; i < steps; ++i) {
    mju_copy(d->ctrl, mpc->Control(d).data(), m->nu);
    mj_step(m, d);
  }
}

Eigen::Vector2d PlaceOf(const mjData* d) { return {d->qpos[0], d->qpos[1]}; }

// the same motion as that of RunMpc, bit for bit, in a loop of mj_step on the robot's own model
TEST_F(MpcControllerTest, MovesAHostsRobotAsRunMpcMovesItsOwn) {
  const MpcResult own = RunMpc(SwingUpTask(), {.duration = 3});
  const ModelPtr robot = LoadModel(COSTATE_MODELS "/cartpole/cartpole.xml");
  MpcController mpc(SwingUpTask(), kLockStep);
  const mjModel* m = robot.get();
  const DataPtr d = MakeData(m);
  SetState(m, d.get(), mpc.task().x0);
  ASSERT_TRUE(mpc.Start(m, d.get()));
  const int substeps = mpc.task().substeps;
  MatrixXd X(Dims(m).nx, own.trajectory.N() + 1);
  X.col(0) = mpc.task().x0;
  for (int t = 0; t < own.trajectory.N(); ++t) {
    HostLoop(&mpc, m, d.get(), substeps);
    X.col(t + 1) = GetState(m, d.get());
  }
  EXPECT_TRUE(BitwiseEqual(X, own.trajectory.X));
  const MpcReport report = mpc.Report();
  EXPECT_EQ(report.plans, own.plans);
  EXPECT_EQ(report.plans_taken, own.plans_taken);
  EXPECT_EQ(report.latency.size(), own.latency.size());
  EXPECT_EQ(report.fallback_steps, 0);
  EXPECT_TRUE(report.events.empty());
  EXPECT_EQ(report.first_plan, own.first_plan);
}

// asked at each step of an interval it says the same control
TEST_F(MpcControllerTest, HoldsAControlForAnInterval) {
  MpcController mpc(MarkedTask(kToThere, "controlstep='4'"), kLockStep);
  VectorXd x = VectorXd::Zero(4);
  x[0] = 0.99;
  ASSERT_TRUE(mpc.Start(x));
  const VectorXd first = mpc.Control(7, x);
  x[0] += 0.001;
  EXPECT_EQ(mpc.Control(7.03, x)[0], first[0]);
  EXPECT_NE(mpc.Control(7.04, x)[0], first[0]);
}

// from where the robot is, not where the task has it; and not from where its clock stands
TEST_F(MpcControllerTest, StartsWhereTheRobotIs) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  const DataPtr d = MakeData(mpc.task().model.get());
  const mjModel* m = mpc.task().model.get();
  d->qpos[0] = 3;
  d->qpos[1] = -2;
  d->time = 1234.5;
  ASSERT_TRUE(mpc.Start(m, d.get()));
  EXPECT_LT(mpc.Control(d.get())[0], -1);
  EXPECT_GT(mpc.Control(d.get())[1], 1);
  HostLoop(&mpc, m, d.get(), 300);
  EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(1, 0.25)).norm(), 0.02);

  // again from elsewhere
  d->qpos[0] = -1;
  d->time = 0;
  EXPECT_ERROR(mpc.Control(d.get()), ErrorCode::kInvalidArgument, "the robot's time went back from 1237.49 to 0 s");
  ASSERT_TRUE(mpc.Start(m, d.get()));
  EXPECT_EQ(mpc.Report().plans, 0);
  HostLoop(&mpc, m, d.get(), 300);
  EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(1, 0.25)).norm(), 0.02);
}

TEST_F(MpcControllerTest, FollowsMocapBodiesAndGoalsThatMove) {
  {
    MpcController mpc(MarkedTask(kToMarker), kLockStep);
    const mjModel* m = mpc.task().model.get();
    const DataPtr d = MakeData(m);
    d->mocap_pos[0] = -1;
    ASSERT_TRUE(mpc.Start(m, d.get()));
    HostLoop(&mpc, m, d.get(), 250);
    EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(-1, 0.25)).norm(), 0.02);
    d->mocap_pos[0] = 2;
    d->mocap_pos[1] = 1;
    HostLoop(&mpc, m, d.get(), 250);
    EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(2, 1)).norm(), 0.02);
  }
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  ASSERT_EQ(mpc.goals().size(), 1);
  EXPECT_EQ(mpc.goals().Name(0), "site mass");
  const mjModel* m = mpc.task().model.get();
  const DataPtr d = MakeData(m);
  ASSERT_TRUE(mpc.Start(m, d.get()));
  mpc.goals().Move(0, {-0.5, 0.75, 0});
  HostLoop(&mpc, m, d.get(), 250);
  EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(-0.5, 0.75)).norm(), 0.02);
}

// an equality that the host has switched on holds in plans, too: no force is spent against it
TEST_F(MpcControllerTest, KnowsWhichEqualitiesAreOn) {
  for (const bool held : {false, true}) {
    MpcController mpc(MarkedTask(kToThere + std::string("<cost ctrl='all' weight='0.01'/>")), kLockStep);
    const mjModel* m = mpc.task().model.get();
    const DataPtr d = MakeData(m);
    d->eq_active[0] = held;
    ASSERT_TRUE(mpc.Start(m, d.get()));
    const double across = mpc.Control(d.get())[1];
    if (held) {
      EXPECT_LT(across, 0.1);
    } else {
      EXPECT_GT(across, 1);
    }
  }
}

// a loop that asks by states at times of its own, some of which are left out
TEST_F(MpcControllerTest, MovesARobotThatIsNoData) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  VectorXd x = VectorXd::Zero(4);
  x[0] = 0.5;
  ASSERT_TRUE(mpc.Start(x));
  double time = -3;
  for (int i = 0; i < 250; ++i) {
    const double h = i % 3 == 0 ? 0.017 : 0.004;  // 1 kg under the motors
    const VectorXd u = mpc.Control(time, x);
    x.tail(2) += h * u;
    x.head(2) += h * x.tail(2);
    time += h;
  }
  EXPECT_LT((x.head(2) - Eigen::Vector2d(1, 0.25)).norm(), 0.02);
}

TEST_F(MpcControllerTest, PlansBesideTheRobotInRealTime) {
  MpcController mpc(MarkedTask(kToThere));
  const mjModel* m = mpc.task().model.get();
  const DataPtr d = MakeData(m);
  ASSERT_TRUE(mpc.Start(m, d.get()));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i <= 100; ++i) {
    HostLoop(&mpc, m, d.get(), 1);
    std::this_thread::sleep_until(start + std::chrono::milliseconds(10 * i));
  }
  const MpcReport report = mpc.Report();
  EXPECT_GT(report.plans, 0);
  EXPECT_GT(report.plans_taken, 1);
  EXPECT_EQ(report.latency.size(), static_cast<std::size_t>(report.plans));
  EXPECT_LT(PlaceOf(d.get()).x() - 1, 0.2);
  ASSERT_TRUE(mpc.Start(m, d.get()));  // with a thread at work
  HostLoop(&mpc, m, d.get(), 1);
}

TEST_F(MpcControllerTest, SaysWhatItCannotDo) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  const mjModel* m = mpc.task().model.get();
  const DataPtr d = MakeData(m);
  EXPECT_ERROR(mpc.Control(0, VectorXd::Zero(4)), ErrorCode::kInvalidArgument, "call Start first");
  EXPECT_ERROR(mpc.Control(d.get()), ErrorCode::kInvalidArgument, "not started with a model");
  EXPECT_ERROR(mpc.Start(VectorXd::Zero(3)), ErrorCode::kDimensionMismatch, "x has 3 entries");
  EXPECT_ERROR(mpc.Start(nullptr, d.get()), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(mpc.Start(m, nullptr), ErrorCode::kInvalidArgument, "NULL");
  VectorXd x = VectorXd::Zero(4);
  x[1] = std::nan("");
  EXPECT_ERROR(mpc.Start(x), ErrorCode::kInvalidArgument, "the state to start from is not finite: qpos[y] is nan");

  const ModelPtr other = LoadModel(COSTATE_MODELS "/cartpole/cartpole.xml");
  const DataPtr its = MakeData(other.get());
  EXPECT_ERROR(mpc.Start(other.get(), its.get()), ErrorCode::kInvalidArgument,
               "the controlled robot 'cartpole' has qpos[");

  ASSERT_TRUE(mpc.Start(m, d.get()));
  EXPECT_ERROR(mpc.Control(0, VectorXd::Zero(4)), ErrorCode::kInvalidArgument, "was started with data");
  EXPECT_ERROR(mpc.Control(its.get()), ErrorCode::kInvalidArgument, "");
  EXPECT_ERROR(mpc.Control(nullptr), ErrorCode::kInvalidArgument, "NULL");
  d->time = INFINITY;
  EXPECT_ERROR(mpc.Control(d.get()), ErrorCode::kInvalidArgument, "the robot's time is inf s");
  d->time = 0;
  EXPECT_TRUE(mpc.Control(d.get()).allFinite());

  EXPECT_ERROR(MpcController(MarkedTask("<time shortest='1' longest='2'/>")), ErrorCode::kUnsupported, "<time>");
  EXPECT_ERROR(MpcController(Task{}), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(MpcController(MarkedTask(kToThere), {.threads = false, .latency = std::nan("")}),
               ErrorCode::kInvalidArgument, "latency is nan");
}

// a sensor that failed for a while: the last good plan goes on, and it is told
TEST_F(MpcControllerTest, AStateThatIsNotFiniteIsAnEvent) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  const mjModel* m = mpc.task().model.get();
  const DataPtr d = MakeData(m);
  ASSERT_TRUE(mpc.Start(m, d.get()));
  HostLoop(&mpc, m, d.get(), 3);
  const VectorXd x = GetState(m, d.get());
  for (int i = 0; i < 5; ++i) {
    d->qpos[0] = std::nan("");
    EXPECT_TRUE(mpc.Control(d.get()).allFinite());
    d->time += m->opt.timestep;
  }
  SetState(m, d.get(), x);
  const MpcReport report = mpc.Report();
  ASSERT_FALSE(report.events.empty());
  HostLoop(&mpc, m, d.get(), 250);
  EXPECT_LT((PlaceOf(d.get()) - Eigen::Vector2d(1, 0.25)).norm(), 0.02);
}

// what a residual throws is the call's: the plan that it ended is no event of another one's reason
TEST_F(MpcControllerTest, AResidualThatThrowsEndsOnePlan) {
  static bool fails;
  fails = false;
  ResidualCallback residual;
  residual.size = 1;
  residual.reads_state = true;
  residual.value = [](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    if (fails) throw std::runtime_error("the camera is blind");
    r[0] = in.x[0] - 1;
  };
  RegisterResidual("seen", residual);
  MpcController mpc(MarkedTask("<cost callback='seen' weight='1' terminal='100'/>"), kLockStep);
  const mjModel* m = mpc.task().model.get();
  const DataPtr d = MakeData(m);
  ASSERT_TRUE(mpc.Start(m, d.get()));
  int thrown = 0;
  for (int i = 0; i < 40; ++i) {
    fails = i >= 10 && i < 20;
    try {
      mju_copy(d->ctrl, mpc.Control(d.get()).data(), m->nu);
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the camera is blind");
      ++thrown;
    }
    mj_step(m, d.get());
  }
  EXPECT_EQ(thrown, 2);  // plans are made each 0.05 s
  const MpcReport report = mpc.Report();
  EXPECT_TRUE(report.events.empty()) << report.events.front().reason;
  EXPECT_GE(report.plans, 4);
}

// a weight that nobody told of is learned at the host's own steps, which do not divide the interval
TEST_F(MpcControllerTest, LearnsAForceAtTheTimesThatTheHostHas) {
  for (const double step : {0.01, 0.0073, 0.013}) {
    Task task = MarkedTask(kToThere, "controlstep='2'");
    task.mpc.estimate = 0.3;
    MpcController mpc(std::move(task), kLockStep);
    const ModelPtr robot = CopyModel(mpc.task().model.get());
    robot->opt.timestep = step;
    const DataPtr d = MakeData(robot.get());
    d->qfrc_applied[0] = 3;
    ASSERT_TRUE(mpc.Start(robot.get(), d.get()));
    while (d->time < 3) HostLoop(&mpc, robot.get(), d.get(), 1);
    EXPECT_NEAR(mpc.Report().unknown_force[0], 3, 0.3) << step;
  }
}

// a clock that has run for a month
TEST_F(MpcControllerTest, PlansHoweverLongItRuns) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  const VectorXd x = VectorXd::Zero(4);
  ASSERT_TRUE(mpc.Start(x));
  mpc.Control(0, x);
  for (int i = 0; i < 20; ++i) mpc.Control(3e7 + 0.05 * i, x);
  EXPECT_GE(mpc.Report().plans, 19);
}

TEST_F(MpcControllerTest, TheFirstPlanGoesWhereTheGoalIsByThen) {
  MpcController mpc(MarkedTask(kToThere), kLockStep);
  mpc.goals().Move(0, {-2, 0.25, 0});
  const VectorXd x = VectorXd::Zero(4);
  ASSERT_TRUE(mpc.Start(x));
  EXPECT_LT(mpc.Control(0, x)[0], -1);
}

// what looks alike by its names is not the same robot
TEST_F(MpcControllerTest, TellsRobotsApart) {
  const auto controlled = [](const std::string& from, const std::string& to) {
    std::string text = kMarkedPlane;
    text.replace(text.find(from), from.size(), to);
    return LoadModelFromString(text);
  };
  MpcController mpc(MarkedTask(kToMarker), kLockStep);
  const auto start = [&](const ModelPtr& robot) {
    const DataPtr d = MakeData(robot.get());
    mpc.Start(robot.get(), d.get());
  };
  constexpr ErrorCode kBad = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(start(controlled("name=\"y\" type=\"slide\"", "name=\"y\" type=\"hinge\"")), kBad,
               "has a hinge joint y, the planned one 'plane' has a slide joint");
  EXPECT_ERROR(start(controlled("name=\"held\"", "name=\"kept\"")), kBad, "kept in place 0 of its equalities");
  EXPECT_ERROR(start(controlled("name=\"marker\" mocap=\"true\"", "name=\"marker\"")), kBad, "no mocap body marker");
  start(controlled("<body name=\"marker\"", "<body name=\"first\" mocap=\"true\"/><body name=\"marker\""));

  // one that was refused leaves nothing of the one before
  const ModelPtr good = controlled("plane", "plane");
  const DataPtr d = MakeData(good.get());
  ASSERT_TRUE(mpc.Start(good.get(), d.get()));
  d->qpos[0] = std::nan("");
  EXPECT_ERROR(mpc.Start(good.get(), d.get()), kBad, "is not finite");
  d->qpos[0] = 0;
  EXPECT_TRUE(mpc.Control(d.get()).allFinite());  // refused before anything was touched
}

}  // namespace
}  // namespace costate
