// Policies: their slopes against differences, gradients through closed loops, the linear law of which theory knows the
// optimum.
#include <costate/policy.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "optimizer/policy_curvature.h"
#include "rollout/square_loss.h"
#include "support/engine_test.h"
#include "support/random_state.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::LoadZooTask;
using support::Random;

const char kCost[] =
    "<start key=\"pose\"/><guess ctrl=\"0.2 0.5 -0.3\"/><cost qvel=\"all\"/><cost name=\"tip\" site=\"tip\" "
    "quantity=\"pos\"/>";

// a policy that sees all that a policy can see, at random weights
struct SeeingAll {
  Task task = LoadZooTask(
      std::string(kCost) +
      "<policy hidden=\"5 4\" about=\"key:home\" starts=\"3\"><observe qpos=\"all\" scale=\"0.7\"/><observe "
      "qvel=\"all\"/>"
      "<observe act=\"all\"/><observe qpos=\"shoulder\" angle=\"true\" scale=\"2\"/><observe clock=\"0.03\"/>"
      "<observe sensor=\"gyro sensor[tip_pos].2\" scale=\"0.4\"/>"
      "<spread qpos=\"all\" by=\"0.1\"/><spread qvel=\"neck\" by=\"0.2\"/></policy>");
  NetworkPolicy policy = MakePolicy(task);

  SeeingAll() {
    Random random(3);
    policy.Set(0.5 * random.Vector(policy.weights()));
  }
};

// the transposed Jacobians, one control after the other, against centred differences of the law
void ExpectSlopesOfDifferences(const mjModel* m, NetworkPolicy policy, int t, double time, const VectorXd& x) {
  const int nu = static_cast<int>(m->nu), ndx = Dims(m).ndx, ns = Dims(m).ns, n = policy.weights();
  const VectorXd s = Random(static_cast<unsigned>(t)).Vector(ns);
  MatrixXd by_x = MatrixXd::Zero(ndx, nu), by_s = MatrixXd::Zero(ns, nu), by_w = MatrixXd::Zero(n, nu);
  for (int i = 0; i < nu; i++) {
    FeedbackGradient slopes{by_x.col(i), by_s.col(i), by_w.col(i)};
    policy.PullBack({t, time, x, s}, VectorXd::Unit(nu, i), &slopes);
  }
  constexpr double kStep = 1e-6;
  VectorXd plus(nu), minus(nu);
  for (int k = 0; k < ndx; k++) {
    policy.Control({t, time, Retract(m, x, kStep * VectorXd::Unit(ndx, k)), s}, plus);
    policy.Control({t, time, Retract(m, x, -kStep * VectorXd::Unit(ndx, k)), s}, minus);
    const VectorXd slope = (plus - minus) / (2 * kStep);
    EXPECT_NEAR((by_x.row(k).transpose() - slope).cwiseAbs().maxCoeff(), 0, 2e-9 * (1 + slope.norm())) << "state " << k;
  }
  for (int k = 0; k < ns; k++) {
    policy.Control({t, time, x, s + kStep * VectorXd::Unit(ns, k)}, plus);
    policy.Control({t, time, x, s - kStep * VectorXd::Unit(ns, k)}, minus);
    const VectorXd slope = (plus - minus) / (2 * kStep);
    EXPECT_NEAR((by_s.row(k).transpose() - slope).cwiseAbs().maxCoeff(), 0, 2e-9 * (1 + slope.norm()))
        << "sensor " << k;
  }
  const VectorXd w = policy.Get();
  for (int k = 0; k < n; k++) {
    policy.Set(w + kStep * VectorXd::Unit(n, k));
    policy.Control({t, time, x, s}, plus);
    policy.Set(w - kStep * VectorXd::Unit(n, k));
    policy.Control({t, time, x, s}, minus);
    const VectorXd slope = (plus - minus) / (2 * kStep);
    EXPECT_NEAR((by_w.row(k).transpose() - slope).cwiseAbs().maxCoeff(), 0, 2e-9 * (1 + slope.norm()))
        << "weight " << k;
  }
}

TEST(Policy, HasTheSlopesOfDifferences) {
  const SeeingAll all;
  const mjModel* m = all.task.model.get();
  Random random(5);
  for (int t : {0, 7}) {
    const VectorXd x = Retract(m, all.task.x0, random.Vector(Dims(m).ndx, 0.8));
    ExpectSlopesOfDifferences(m, all.policy, t, 0.01 * t, x);
  }

  // bounds on one side alone, on the one side and on the other
  PolicyOptions linear{.x_ref = all.task.x0};
  const VectorXd lower = Eigen::Vector3d(-INFINITY, 0.6, -INFINITY), upper = Eigen::Vector3d(INFINITY, INFINITY, 5);
  NetworkPolicy policy(m, linear, all.task.U_guess, lower, upper);
  policy.Set(random.Vector(policy.weights(), 0.2));
  for (int i = 0; i < 4; i++)
    ExpectSlopesOfDifferences(m, policy, 0, 0, Retract(m, all.task.x0, random.Vector(Dims(m).ndx, 0.5)));
}

TEST(Policy, PlaysTheReferenceAtFirst) {
  const Task task = LoadZooTask(std::string(kCost) + "<policy hidden=\"8\"/>");
  const NetworkPolicy policy = MakePolicy(task);
  VectorXd u(3);
  policy.Control(
      {2, 0, Retract(task.model.get(), task.x0, VectorXd::Constant(Dims(task.model.get()).ndx, 0.1)), VectorXd()}, u);
  EXPECT_NEAR((u - task.U_guess.col(2)).norm(), 0, 1e-14);
}

// the gradient by weights and start of a closed loop, by differences of the loss
void ExpectGradientOfClosedLoop(const Task& task, const Feedback& law, NetworkPolicy* policy, const Loss& loss,
                                int substeps, std::size_t memory) {
  const mjModel* m = task.model.get();
  constexpr int kKnots = 12;
  Simulator simulator(m, task.context, substeps, 1);
  const auto value = [&](const VectorXd& x0) {
    Trajectory motion;
    EXPECT_TRUE(simulator.RolloutFeedback(x0, kKnots, law, &motion).ok());
    double sum = 0;
    for (int t = 0; t <= kKnots; t++) sum += loss.Value(ViewKnot(motion, t, simulator.knot_time()));
    return sum;
  };
  Trajectory motion;
  ASSERT_TRUE(simulator.RolloutFeedback(task.x0, kKnots, law, &motion).ok());
  Adjoint adjoint(m, task.context, substeps);
  RolloutGradient g;
  adjoint.Gradient(task.x0, motion.U, loss, {.memory = memory, .feedback = &law}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_EQ(g.xN, motion.X.col(kKnots));  // the motion of its controls, bit for bit
  constexpr double kStep = 1e-5;
  VectorXd by_x(g.x0.size()), by_w(policy->weights());
  for (Eigen::Index k = 0; k < by_x.size(); k++) {
    const VectorXd d = kStep * VectorXd::Unit(by_x.size(), k);
    by_x[k] = (value(Retract(m, task.x0, d)) - value(Retract(m, task.x0, -d))) / (2 * kStep);
  }
  EXPECT_NEAR((g.x0 - by_x).cwiseAbs().maxCoeff(), 0, 1e-6 * by_x.cwiseAbs().maxCoeff());
  const VectorXd w = policy->Get();
  for (Eigen::Index k = 0; k < by_w.size(); k++) {
    double values[2];
    for (int side : {0, 1}) {
      policy->Set(w + (side ? kStep : -kStep) * VectorXd::Unit(w.size(), k));
      values[side] = value(task.x0);
    }
    by_w[k] = (values[1] - values[0]) / (2 * kStep);
  }
  policy->Set(w);
  EXPECT_NEAR((g.weights - by_w).cwiseAbs().maxCoeff(), 0, 1e-6 * by_w.cwiseAbs().maxCoeff());
}

TEST(Policy, GradientsOfClosedLoopsAreThoseOfDifferences) {
  SeeingAll all;
  for (double sensors : {0.0, 0.1}) {
    const SquareLoss loss(all.task.model.get(), sensors);
    ExpectGradientOfClosedLoop(all.task, all.policy, &all.policy, loss, 1, 0);
    ExpectGradientOfClosedLoop(all.task, all.policy, &all.policy, loss, 3, 600);  // states for three knots
  }
}

// A control acts later than it is given; the state that it was given for is that of its own knot.
TEST(Policy, GradientsOfClosedLoopsFollowDelays) {
  Task task;
  task.model = LoadModelFromString(
      R"(<mujoco><option timestep="0.004"/><worldbody><body><joint name="j" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/></body></worldbody>
    <actuator><motor joint="j" gear="2" delay="0.01" nsample="5" interp="linear"/></actuator></mujoco>)");
  const DataPtr data = MakeData(task.model.get());
  task.context = GetContext(task.model.get(), data.get());
  task.x0 = Eigen::Vector2d(0.4, -1);
  NetworkPolicy policy(task.model.get(), {.x_ref = VectorXd::Zero(2), .hidden = {3}}, MatrixXd::Constant(1, 1, 0.1),
                       VectorXd::Constant(1, -1), VectorXd::Constant(1, 1));
  Random random(2);
  policy.Set(random.Vector(policy.weights()));
  for (int substeps : {1, 2})
    ExpectGradientOfClosedLoop(task, policy, &policy, SquareLoss(task.model.get(), 0), substeps, 0);
}

// Sensors are seen under the control before: what reads accelerations and forces moves with it, so each control acts on
// the next.
TEST(Policy, GradientsOfClosedLoopsGoThroughSensors) {
  const support::TemporaryFolder folder;
  folder.Write("arm.xml",
               R"(<mujoco><option timestep="0.004"/><worldbody><body><joint name="a" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/><body pos="0.3 0 0"><joint name="b" type="ball" damping="0.05"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0.1 0"/><site name="tip" pos="0.2 0.1 0"/></body></body></worldbody>
    <actuator><motor name="a" joint="a" gear="2" ctrlrange="-1 1"/></actuator>
    <sensor><accelerometer name="tip" site="tip"/><gyro name="rate" site="tip"/><actuatorfrc name="force" actuator="a"/>
    <framequat name="attitude" objtype="site" objname="tip"/></sensor></mujoco>)");
  const Task task = LoadTask(
      folder.Write("arm.task.xml",
                   "<task model='arm.xml' horizon='0.1'><guess ctrl='0.3'/><cost qvel='all'/><policy "
                   "hidden='3'><observe sensor='tip' scale='0.1'/>"
                   "<observe sensor='rate'/><observe sensor='force'/><observe sensor='attitude'/></policy></task>"));
  NetworkPolicy policy = MakePolicy(task);
  EXPECT_EQ(policy.observations(), 11);
  Random random(4);
  policy.Set(random.Vector(policy.weights()));
  for (double sensors : {0.0, 0.01}) {
    const SquareLoss loss(task.model.get(), sensors);
    ExpectGradientOfClosedLoop(task, policy, &policy, loss, 1, 0);
    ExpectGradientOfClosedLoop(task, policy, &policy, loss, 3, 600);
  }

  // what it saw is what mj_forward shows before a control is changed
  Trajectory motion;
  Simulator simulator(task.model.get(), task.context, 2, 1);
  ASSERT_TRUE(simulator.RolloutFeedback(task.x0, 6, policy, &motion).ok());
  const DataPtr data = MakeData(task.model.get());
  SetState(task.model.get(), data.get(), task.x0);
  VectorXd u(1);
  for (int t = 0; t < 6; t++) {
    mj_forward(task.model.get(), data.get());
    const Eigen::Map<const VectorXd> s(data->sensordata, task.model->nsensordata);
    policy.Control({t, data->time, GetState(task.model.get(), data.get()), s}, u);
    EXPECT_NEAR(u[0], motion.U(0, t), 1e-9) << t;
    data->ctrl[0] = u[0];
    for (int k = 0; k < 2; k++) mj_step(task.model.get(), data.get());
  }
}

// Sensors that are not followed back are refused by name.
TEST(Policy, RefusesDelayedSensors) {
  const support::TemporaryFolder folder;
  folder.Write(
      "late.xml",
      R"(<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body></worldbody>
    <actuator><motor joint="j"/></actuator><sensor><jointvel name="late" joint="j" delay="0.004" nsample="4"/></sensor></mujoco>)");
  const Task task = LoadTask(folder.Write(
      "late.task.xml",
      "<task model='late.xml' horizon='0.02'><cost qvel='all'/><policy><observe sensor='late'/></policy></task>"));
  NetworkPolicy policy = MakePolicy(task);
  policy.Set(VectorXd::Ones(policy.weights()));
  try {
    TrainPolicy(task, &policy);
    FAIL() << "nothing is refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the feedback reads sensor late, which is delayed"), std::string::npos)
        << error.what();
  }
}

// With the infinite horizon's cost to go at its end, the motion's best law is the stationary gain of the Riccati
// equation whatever the start, and the cost is ½ x0ᵀ P x0. A law that sees position and velocity by sensors finds the
// same one.
TEST(Policy, FindsTheGainOfTheRiccatiEquation) {
  support::TemporaryFolder folder;
  const std::string model = R"(<mujoco><option timestep="0.05" gravity="0 0 0"/><worldbody><body>
    <joint name="j" type="slide" axis="1 0 0" stiffness="2" damping="0.3"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor name="m" joint="j" gear="3"/></actuator>
    <sensor><jointvel name="v" joint="j"/><jointpos name="q" joint="j"/></sensor></mujoco>)";
  folder.Write("slide.xml", model);
  const ModelPtr m = LoadModelFromString(model);
  Linearizer linearizer(m.get());
  StepDerivative step;
  linearizer.Linearize(VectorXd::Zero(2), VectorXd::Zero(1), &step);
  Eigen::Matrix2d Q = Eigen::Vector2d(1, 0.1).asDiagonal(), P = Q;
  const double R = 0.5;
  Eigen::RowVector2d K;
  for (int i = 0; i < 3000; i++) {
    const Eigen::RowVector2d Qux = step.B.transpose() * P * step.A;
    K = -Qux / (R + (step.B.transpose() * P * step.B)(0, 0));
    P = Q + step.A.transpose() * P * step.A + Qux.transpose() * K;
    P = (0.5 * (P + P.transpose())).eval();
  }
  const Eigen::Matrix2d L = P.llt().matrixL();
  const auto number = [](double value) { return nlohmann::json(value).dump(); };
  const std::string task_text =
      "<task model=\"slide.xml\" horizon=\"1\" scale=\"sum\"><guess ctrl=\"0\"/><measure name=\"q\" "
      "qpos=\"j\"/><measure name=\"v\" qvel=\"j\"/>"
      "<cost name=\"q\" qpos=\"j\" weight=\"1\" terminal=\"0\"/><cost name=\"v\" qvel=\"j\" weight=\"0.1\" "
      "terminal=\"0\"/>"
      "<cost name=\"u\" ctrl=\"m\" weight=\"0.5\"/>"
      "<cost name=\"to go\" value=\"[" +
      number(L(0, 0)) + " * q + " + number(L(1, 0)) + " * v, " + number(L(1, 1)) +
      " * v]\" weight=\"0\" terminal=\"1\"/>"
      "<policy starts=\"5\"><spread qpos=\"j\" by=\"1\"/><spread qvel=\"j\" by=\"1\"/>";
  for (const char* seen : {"", "<observe sensor=\"q\"/><observe sensor=\"v\"/>"}) {
    const Task task = LoadTask(folder.Write("slide.task.xml", task_text + seen + "</policy></task>"));
    NetworkPolicy policy = MakePolicy(task);
    TrainOptions options;
    options.stages = 1;
    const TrainResult result = TrainPolicy(task, &policy, options);
    ASSERT_EQ(policy.weights(), 3);
    EXPECT_NEAR(policy.Get()[0], K[0], 1e-5) << result.message;
    EXPECT_NEAR(policy.Get()[1], K[1], 1e-5);
    EXPECT_NEAR(policy.Get()[2], 0, 1e-5);
    double expected = 0;
    for (int i = 0; i < 5; i++) expected += 0.1 * result.starts.col(i).dot(P * result.starts.col(i));
    EXPECT_NEAR(result.loss, expected, 1e-9 * expected);
    EXPECT_NEAR(result.check.adjoint, result.check.difference, 1e-6 * result.check.adjoint);
    EXPECT_FALSE(result.check.shortened);
    // what a window leaves is no gradient that differences could agree with
    policy.Set(VectorXd::Zero(3));
    options.window = 2;
    EXPECT_TRUE(TrainPolicy(task, &policy, options).check.shortened);
  }
}

// Two poles on a cart fall within tenths of a second: horizons that grow end where the longer ones have no slope that
// means anything. The gain of the linear-quadratic problem is a law to begin with.
TEST(Policy, BeginsFromTheGainWhereItStabilizes) {
  const support::TemporaryFolder folder;
  folder.Write("poles.xml", R"(<mujoco><option timestep="0.01" integrator="RK4"/><worldbody><body>
    <joint name="cart" type="slide" axis="1 0 0"/><geom size="0.1" mass="10" contype="0"/><body>
    <joint name="lower" axis="0 1 0"/><geom type="capsule" size="0.045" fromto="0 0 0 0 0 0.6" contype="0"/><body pos="0 0 0.6">
    <joint name="upper" axis="0 1 0"/><geom type="capsule" size="0.045" fromto="0 0 0 0 0 0.6" contype="0"/></body></body></body></worldbody>
    <actuator><motor joint="cart" gear="500" ctrlrange="-1 1"/></actuator></mujoco>)");
  const auto train = [&](const std::string& policy_text) {
    const Task task = LoadTask(folder.Write(
        "poles.task.xml",
        "<task model='poles.xml' horizon='2' controlstep='2'><guess ctrl='0'/><cost ctrl='all' weight='0.01'/>"
        "<cost qpos='all' weight='1' terminal='20'/><cost qvel='all' weight='0.01' terminal='1'/>" +
            policy_text + "<spread qpos='lower upper' by='0.1'/></policy></task>"));
    NetworkPolicy policy = MakePolicy(task);
    TrainOptions options;
    options.descent.iterations = 40;
    return TrainPolicy(task, &policy, options);
  };
  const TrainResult result = train("<policy starts='8'>");
  EXPECT_GT(result.initial_loss, 100) << "they fall";
  EXPECT_LT(result.loss, 0.05) << result.message;
  EXPECT_LT(result.unseen, 0.1);

  // in other units (18b) has other weights
  EXPECT_LT(train("<policy starts='8'><observe qpos='all' scale='2'/><observe qvel='all' scale='0.1'/>").loss, 0.05);
}

// A quarter of a second is too short for a slow mass to arrive: what pays there drives the motors to their limits for
// good, and from then on there is no slope. The whole horizon, begun anew, has one.
TEST(Policy, LeavesTheCornerIntoWhichShortHorizonsLead) {
  const support::TemporaryFolder folder;
  folder.Write("mass.xml", R"(<mujoco><option timestep="0.02"><flag contact="disable"/></option><default>
    <joint type="slide" limited="true" range="-.29 .29" damping="1"/><motor gear=".1" ctrlrange="-1 1"/></default><worldbody>
    <body name="mass"><joint name="x" axis="1 0 0"/><joint name="y" axis="0 1 0"/><geom size=".01" mass=".3"/></body>
    </worldbody><actuator><motor joint="x"/><motor joint="y"/></actuator></mujoco>)");
  const Task task = LoadTask(folder.Write(
      "mass.task.xml",
      "<task model='mass.xml' horizon='2'><cost body='mass' quantity='pos' index='0 1' target='0.15 -0.1' weight='1' "
      "terminal='10'/><cost qvel='all' terminal='1'/><cost ctrl='all' weight='0.001'/><policy starts='8'><spread "
      "qpos='all' by='0.1'/></policy></task>"));
  const auto train = [&](int stages) {
    NetworkPolicy policy = MakePolicy(task);
    TrainOptions options;
    options.descent.iterations = 200;
    options.stages = stages;
    return TrainPolicy(task, &policy, options);
  };
  const TrainResult staged = train(4);
  EXPECT_LT(staged.loss, 1.01 * train(1).loss) << staged.message;
  EXPECT_NE(staged.message.find("without the shorter ones"), std::string::npos) << staged.message;
}

// A place of the hand names no posture: the law sees the state from the start, and its gain must hold where the
// reference motion ends, (18c). Without that the last stage began at 0.77 and ended at 0.18.
TEST(Policy, BeginsFromTheGainAboutTheReferencesEnd) {
  const support::TemporaryFolder folder;
  const std::string robot = folder.Write("arm.xml", R"(<mujoco><option timestep="0.01"/><worldbody><body pos="0 0 1">
    <joint name="a" axis="0 1 0" armature=".01"/><geom type="capsule" size=".03" fromto="0 0 0 .4 0 0" contype="0"/><body pos=".4 0 0">
    <joint name="b" axis="0 1 0" armature=".01"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" contype="0"/>
    <site name="tip" pos=".3 0 0"/></body></body></worldbody>
    <actuator><motor joint="a" ctrlrange="-60 60"/><motor joint="b" ctrlrange="-30 30"/></actuator></mujoco>)");
  Task task = MakeReachTask(robot, {.goals = {"site:tip=.3,_,1.4"}, .time = 1.5});
  task.policy.spread = VectorXd::Constant(4, 0.1);
  task.policy.starts = 8;
  NetworkPolicy policy = MakePolicy(task);
  TrainOptions options;
  options.descent.iterations = 40;
  int N = 0;
  double began = 0;
  const TrainResult result = TrainPolicy(task, &policy, options, [&](const IterationRecord& record, int horizon) {
    if (horizon == task.N && N != task.N) began = record.cost;
    N = horizon;
    return true;
  });
  EXPECT_GT(result.initial_loss, 100);
  EXPECT_LT(began, 0.1);
  EXPECT_LT(result.loss, 0.06) << result.message;
}

TEST(Policy, TrainingIsBitwiseTheSameAtAnyThreadCount) {
  TrainResult results[2];
  VectorXd weights[2];
  for (int i : {0, 1}) {
    SeeingAll all;
    TrainOptions options{.stages = 2, .threads = 1 + 2 * i};
    options.descent.iterations = 6;
    int called = 0, growing = 0;
    results[i] = TrainPolicy(all.task, &all.policy, options, [&](const IterationRecord&, int N) {
      called++;
      growing += N < all.task.N;
      return true;
    });
    EXPECT_EQ(called, static_cast<int>(results[i].iterations.size()));
    EXPECT_GT(growing, 0);
    EXPECT_LT(growing, called);
    weights[i] = all.policy.Get();
  }
  EXPECT_LT(results[0].loss, results[0].initial_loss);
  EXPECT_EQ(results[0].loss, results[1].loss);
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(results[0].starts, results[1].starts);
  EXPECT_EQ(results[0].unseen, results[1].unseen);
}

// J_Tᵀ W J_T with Jacobians of whole motions by differences of the weights, W the cost's own
TEST(Policy, GaussNewtonMatricesAreThoseOfDifferences) {
  Task task = LoadZooTask(std::string(kCost) +
                          "<cost name=\"u\" ctrl=\"all\" weight=\"0.1\"/><policy hidden=\"3\"><observe qpos=\"all\"/>"
                          "<observe qvel=\"all\" scale=\"0.3\"/><observe clock=\"0.05\"/></policy>");
  NetworkPolicy policy = MakePolicy(task);
  policy.Set(0.4 * Random(11).Vector(policy.weights()));
  const mjModel* m = task.model.get();
  Simulator simulator(m, task.context, task.substeps, 1);
  const auto play = [&](const VectorXd& w) {
    policy.Set(w);
    Trajectory motion;
    EXPECT_TRUE(simulator.RolloutFeedback(task.x0, task.N, policy, &motion).ok());
    return motion;
  };
  const VectorXd w = policy.Get();
  const Trajectory motion = play(w);
  PolicyCurvature curvature(task, policy, task.N, &simulator);
  MatrixXd H = MatrixXd::Zero(w.size(), w.size());
  ASSERT_TRUE(curvature.Add(motion, 1, &H));

  constexpr double kStep = 1e-6;
  const Dims dims(m);
  std::vector<KnotGradient> moved(static_cast<std::size_t>((task.N + 1) * w.size()));
  for (int k = 0; k < w.size(); k++) {
    const Trajectory plus = play(w + kStep * VectorXd::Unit(w.size(), k)),
                     minus = play(w - kStep * VectorXd::Unit(w.size(), k));
    for (int t = 0; t <= task.N; t++) {
      KnotGradient& d = moved[static_cast<std::size_t>(t * w.size() + k)];
      d.x = (Difference(m, plus.X.col(t), motion.X.col(t)) - Difference(m, minus.X.col(t), motion.X.col(t))) /
            (2 * kStep);
      d.u = t < task.N ? VectorXd((plus.U.col(t) - minus.U.col(t)) / (2 * kStep)) : VectorXd::Zero(dims.nu);
      d.s = (plus.S.col(t) - minus.S.col(t)) / (2 * kStep);
    }
  }
  MatrixXd expected = MatrixXd::Zero(w.size(), w.size());
  for (int t = 0; t <= task.N; t++) {
    for (int k = 0; k < w.size(); k++) {
      KnotGradient product{VectorXd::Zero(dims.ndx), VectorXd::Zero(dims.nu), VectorXd::Zero(dims.ns)};
      const KnotGradient* d = &moved[static_cast<std::size_t>(t * w.size())];
      task.cost->GaussNewtonProduct(m, ViewKnot(motion, t, simulator.knot_time()), d[k], &product);
      for (int j = 0; j < w.size(); j++)
        expected(j, k) += d[j].x.dot(product.x) + d[j].u.dot(product.u) + d[j].s.dot(product.s);
    }
  }
  EXPECT_LT((H - expected).cwiseAbs().maxCoeff(), 1e-6 * expected.cwiseAbs().maxCoeff());
}

// A mass under a drag that its model does not have: from positions alone, by a network of its velocity that pulls it
// (R24). By Gauss–Newton steps sooner than by L-BFGS.
TEST(Policy, LearnsAForceBesideTheModel) {
  const support::TemporaryFolder folder;
  folder.Write("slide.xml", R"(<mujoco><option timestep="0.01"/><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor name="unknown" joint="x"/></actuator><keyframe><key name="fast" qvel="4"/></keyframe></mujoco>)");
  constexpr double kDrag = 0.5, kStep = 0.01;
  std::string motion = "time (s),qpos[x] (m)\n";
  double x = 0, v = 4;
  for (int t = 0; t <= 100; t++) {
    motion += fmt::format("{},{}\n", kStep * t, x);
    v -= kStep * kDrag * v * v;
    x += kStep * v;
  }
  folder.Write("motion.csv", motion);
  const Task task = LoadTask(folder.Write("force.task.xml", R"(<task model="slide.xml" horizon="1"><start key="fast"/>
    <cost qpos="x" target="file:motion.csv" weight="1e4"/>
    <policy hidden="4"><observe qvel="x" scale="0.3"/></policy></task>)"));
  const auto train = [&](DescentMethod method, NetworkPolicy* policy) {
    TrainOptions options{.stages = 1};
    options.descent.method = method;
    options.descent.iterations = 60;
    return TrainPolicy(task, policy, options).loss;
  };
  NetworkPolicy newton = MakePolicy(task), lbfgs = MakePolicy(task);
  EXPECT_LT(train(DescentMethod::kGaussNewton, &newton), 0.3 * train(DescentMethod::kLbfgs, &lbfgs));
  for (v = 1.5; v < 4; v += 0.5) {  // from 4 to 1.4
    VectorXd force(1);
    newton.Control({0, 0, Eigen::Vector2d(0, v), VectorXd()}, force);
    EXPECT_NEAR(force[0], -kDrag * v * v, 0.02 * kDrag * v * v) << v;
  }
}

TEST(Policy, StartsDifferByTheSpreadAlone) {
  SeeingAll all;
  TrainOptions options;
  options.descent.iterations = 0;
  const TrainResult result = TrainPolicy(all.task, &all.policy, options);
  ASSERT_EQ(result.starts.cols(), 3);
  const mjModel* m = all.task.model.get();
  for (int i = 0; i < 3; i++) {
    const VectorXd d = Difference(m, result.starts.col(i), all.task.x0);
    for (int k = 0; k < d.size(); k++) {
      EXPECT_LE(std::abs(d[k]), all.task.policy.spread[k] * 1.0001 + 1e-12) << k;
      if (all.task.policy.spread[k] > 0) {
        EXPECT_GT(std::abs(d[k]), 1e-6) << k;
      }
    }
  }
}

// JSON is UTF-8; names that are not are written with what replaces such bytes, and found by that
TEST(Policy, OfNamesThatAreNotUtf8IsReadAgain) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='kn\xe9'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor name='m\xf6t' joint='kn\xe9'/></actuator></mujoco>");
  const VectorXd bound = VectorXd::Ones(1);
  NetworkPolicy policy(model.get(), {.x_ref = VectorXd::Zero(2), .knot_time = 0.01}, MatrixXd::Zero(1, 3), -bound,
                       bound);
  policy.Set(VectorXd::LinSpaced(policy.weights(), 0.1, 0.5));
  const support::TemporaryFolder folder;
  const std::string json = policy.ToJson();
  EXPECT_NE(json.find("kn\xef\xbf\xbd"), std::string::npos) << json;
  EXPECT_EQ(LoadPolicy(model.get(), folder.Write("policy.json", json)).Get(), policy.Get());

  const ModelPtr other = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='ank'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor name='m\xf6t' joint='ank'/></actuator></mujoco>");
  EXPECT_ERROR(LoadPolicy(other.get(), folder.File("policy.json")), ErrorCode::kFile, "in model", "it is qpos[ank]");
}

// what stands there, and where: the parser's own conversions read 2.7 as 2 and true as 1
TEST(Policy, NamesEachMemberOfItsFileThatIsNone) {
  const support::TemporaryFolder folder;
  const SeeingAll all;
  const nlohmann::json whole = nlohmann::json::parse(all.policy.ToJson());
  const auto refused = [&](const char* pointer, const nlohmann::json& value, const char* text) {
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    EXPECT_ERROR(LoadPolicy(all.task.model.get(), folder.Write("policy.json", changed.dump())), ErrorCode::kFile,
                 "policy.json: ", text);
  };
  refused("/observations/0/scale", nullptr, "observations[0].scale is null, expected a number");
  refused("/observations/0/scale", true, "observations[0].scale is true, expected a number");
  refused("/observations/0/difference", 3, "observations[0].difference is 3, expected a text");
  refused("/state", "all", "state is \"all\", expected a list");
  refused("/state/1", 2, "state[1] is 2, expected a text");
  refused("/x_ref/2", "0", "x_ref[2] is \"0\", expected a number");
  refused("/begin", 1e300, "begin is 1e+300 s");
  refused("/knot_time", {0.01}, "knot_time is [0.01], expected a number");
  refused("/layers", 3, "layers is 3, expected a list");
  refused("/layers/1/W/0/2", nullptr, "layers[1].W[0][2] is null, expected a number");
  refused("/layers/0/b", nullptr, "layers[0].b is null, expected a list");
  refused("/controls/0/lower", true, "controls[0].lower is true, expected a number");
  refused("/controls/0/lower", 1e9, "has bounds 1e+09 and ");
  refused("/controls/0/reference/0", nullptr, "controls[0].reference[0] is null, expected a number");
  refused("/controls/0", 7, "controls[0] is 7, expected members by name");
  refused("/activation", nullptr, "activation is null, expected \"tanh\"");

  // deeper than whatever prints it has room for on its stack
  std::string deep = all.policy.ToJson();
  deep.replace(deep.find("\"tanh\""), 6, std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_ERROR(LoadPolicy(all.task.model.get(), folder.Write("policy.json", deep)), ErrorCode::kFile,
               "policy.json: it is no policy: it is damaged: it is nested more than 64 deep");
}

TEST(Policy, HasNoGaussNewtonStepsThroughSensorsAndDelays) {
  const support::TemporaryFolder folder;
  folder.Write("late.xml",
               R"(<mujoco><worldbody><body><joint name="x" type="slide"/><geom size="0.1"/></body></worldbody>
    <actuator><motor joint="x" delay="0.01" nsample="6"/></actuator></mujoco>)");
  Task late = LoadTask(folder.Write("late.task.xml", "<task model='late.xml' horizon='0.1'><cost qvel='all'/></task>"));
  Task seeing = LoadZooTask(std::string(kCost) + "<policy><observe sensor=\"gyro\"/></policy>");
  TrainOptions options;
  options.descent.method = DescentMethod::kGaussNewton;
  NetworkPolicy of_late = MakePolicy(late), of_seeing = MakePolicy(seeing);
  EXPECT_ERROR(TrainPolicy(late, &of_late, options), ErrorCode::kUnsupported, "do not follow delays");
  EXPECT_ERROR(TrainPolicy(seeing, &of_seeing, options), ErrorCode::kUnsupported, "this one sees sensors");
}

TEST(Policy, RefusesInputsOfAnotherSize) {
  const Task task = LoadZooTask(std::string(kCost) + "<policy><observe sensor=\"gyro\"/></policy>");
  const NetworkPolicy law = MakePolicy(task);
  ASSERT_TRUE(law.NeedsSensors());
  VectorXd u(task.model->nu);
  const VectorXd s = VectorXd::Zero(task.model->nsensordata), none(0);
  EXPECT_ERROR(law.Control({0, 0, task.x0, none}, u), ErrorCode::kDimensionMismatch, "sees sensors", "has 0 entries");
  EXPECT_ERROR(law.Control({0, 0, none, s}, u), ErrorCode::kDimensionMismatch, "x has 0 entries");
  EXPECT_ERROR(law.Control({-1, 0, task.x0, s}, u), ErrorCode::kInvalidArgument, "the knot is -1");
  EXPECT_ERROR(TrainPolicy(task, nullptr), ErrorCode::kInvalidArgument, "the policy is null");
}

TEST(Policy, RefusesWhatItCannotDo) {
  const auto complaint = [](const std::string& elements) {
    try {
      Task task = LoadZooTask(std::string(kCost) + elements);
      NetworkPolicy policy = MakePolicy(task);
      TrainPolicy(task, &policy);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::pair<const char*, const char*> cases[] = {
      {"<policy hidden=\"8 0.5\"/>", "hidden: 0.5 is no size of a layer"},
      {"<policy about=\"key:nowhere\"/>", "nowhere"},
      {"<policy about=\"home\"/>", "expected key:NAME"},
      {"<policy starts=\"0\"/>", "starts"},
      {"<policy><observe/></policy>", "give qpos, qvel, act, sensor or clock"},
      {"<policy><observe qpos=\"all\" qvel=\"all\"/></policy>", "qpos and qvel: give one of"},
      {"<policy><observe qpos=\"elbow\"/></policy>", "there is no 'elbow'"},
      {"<policy><observe qpos=\"neck\" angle=\"true\"/></policy>", "is no hinge"},
      {"<policy><observe qvel=\"all\" angle=\"true\"/></policy>", "angle belongs to qpos"},
      {"<policy><observe clock=\"-1\"/></policy>", "clock"},
      {"<policy><observe sensor=\"gyros\"/></policy>", "there is no 'gyros'"},
      {"<policy><observe act=\"all\" scale=\"0\"/></policy>", "scale is 0"},
      {"<policy><spread qpos=\"all\"/></policy>", "by is missing"},
      {"<policy><see qpos=\"all\"/></policy>", "there is no such element in a <policy>"},
      {"<policy/><constraint qvel=\"all\" upper=\"1\"/>", "keeps no constraints"},
      {"<policy/><spline knots=\"4\"/>", "the task has <spline>"},
      {"<policy/><smooth/>", "on the true model"}};
  for (const auto& [elements, text] : cases)
    EXPECT_NE(complaint(elements).find(text), std::string::npos) << elements << ": " << complaint(elements);

  const support::TemporaryFolder folder;
  SeeingAll all;
  for (const char* time : {"0.0", "-0.01", "1e999"}) {
    std::string json = all.policy.ToJson();
    const std::size_t at = json.find("\"knot_time\": ") + 13;
    json.replace(at, json.find_first_of(",\n", at) - at, time);
    EXPECT_ERROR(LoadPolicy(all.task.model.get(), folder.Write("policy.json", json)), ErrorCode::kFile,
                 "policy.json: ");
  }
  std::string json = all.policy.ToJson();
  json.replace(json.find("\"tanh\""), 6, "\"relu\"");
  EXPECT_ERROR(LoadPolicy(all.task.model.get(), folder.Write("policy.json", json)), ErrorCode::kFile,
               "policy.json: activation is \"relu\", expected \"tanh\"");
  EXPECT_THROW(all.policy.Set(VectorXd::Zero(2)), Error);
  const VectorXd x_ref = VectorXd::Zero(Dims(all.task.model.get()).nx), u = VectorXd::Zero(all.task.model->nu);
  EXPECT_ERROR(NetworkPolicy(all.task.model.get(), {.x_ref = x_ref, .knot_time = 0.01}, u, u.array() + 1, u),
               ErrorCode::kInvalidArgument, "has bounds 1 and 0");
  EXPECT_THROW(all.policy.Set(VectorXd::Constant(all.policy.weights(), NAN)), Error);
  EXPECT_THROW(TrainPolicy(all.task, &all.policy, {.stages = 0}), Error);
}

}  // namespace
}  // namespace costate
