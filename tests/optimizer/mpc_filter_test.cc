// The control between plans, moved by as little as keeps forces, powers and what else it decides at once.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/mass.h"
#include "core/state_layout.h"
#include "optimizer/mpc_filter.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;

// two links in the plane, with motors or with servos that are as strong as 150 N m
Task ArmTask(const std::string& actuators, const std::string& limits, const std::string& options = "") {
  const support::TemporaryFolder folder;
  folder.Write("arm.xml",
               "<mujoco><option timestep='.002' integrator='implicitfast'/><default><geom contype='0' conaffinity='0'/>"
               "</default><worldbody><body pos='0 0 1'><joint name='shoulder' axis='0 1 0' armature='.1'/>"
               "<geom type='capsule' size='.05' fromto='0 0 0 .4 0 0' mass='8'/><body name='fore' pos='.4 0 0'>"
               "<joint name='elbow' axis='0 1 0' armature='.1'/><geom type='capsule' size='.04' fromto='0 0 0 .4 0 0' "
               "mass='4'/><site name='tip' pos='.4 0 0'/></body></body></worldbody><actuator>" +
                   actuators +
                   "</actuator><keyframe><key name='home' qpos='-.6 1.5' ctrl='-.6 1.5'/></keyframe></mujoco>");
  std::string ellipse = "time,x,y,z\n";
  for (int i = 0; i <= 150; ++i)
    ellipse += std::to_string(0.02 * i) + "," + std::to_string(0.5 + 0.2 * std::cos(0.1 * i)) + ",0," +
               std::to_string(1 + 0.2 * std::sin(0.1 * i)) + "\n";
  folder.Write("ellipse.csv", ellipse);
  return LoadTask(
      folder.Write("task.xml", "<task model='arm.xml' horizon='.5' controlstep='5'><start key='home'/>" + options +
                                   "<cost site='tip' quantity='pos' target='file:ellipse.csv' weight='100'/>"
                                   "<cost qvel='all' weight='1e-3'/>" +
                                   limits + "</task>"));
}

constexpr char kMotors[] =
    "<motor name='shoulder' joint='shoulder' ctrlrange='-200 200'/><motor name='elbow' joint='elbow' ctrlrange='-200 "
    "200'/>";
constexpr char kServos[] =
    "<position name='shoulder' joint='shoulder' kp='2000' kv='100' ctrlrange='-6 6' forcerange='-150 150'/>"
    "<position name='elbow' joint='elbow' kp='2000' kv='100' ctrlrange='-6 6' forcerange='-150 150'/>";
constexpr char kTorques[] = "<limit name='torque' actuator='all' quantity='force' lower='-60' upper='60'/>";

class MpcFilterTest : public support::EngineTest {
 protected:
  // the robot of a task in motion
  static MpcMeasurement At(const Task& task, double shoulder_speed, double elbow_speed) {
    const DataPtr data = MakeData(task.model.get());
    SetContext(task.model.get(), data.get(), task.context);
    MpcMeasurement measured{.time = 0.3, .x = task.x0, .moving = GetMovingContext(task.model.get(), data.get())};
    measured.x.tail(2) << shoulder_speed, elbow_speed;
    return measured;
  }
  static VectorXd Forces(const Task& task, const MpcMeasurement& measured, ConstVectorRef u) {
    const mjModel* m = task.model.get();
    const DataPtr data = MakeData(m);
    SetMeasured(task, measured, data.get());
    VectorXd none;
    Forward(m, data.get(), measured.x, u, none);
    return Eigen::Map<const VectorXd>(data->actuator_force, m->nu);
  }
};

// by hand: of all controls that keep the elbow's torque the one that leads nearest to the planned velocity, by the
// energy of the difference: the shoulder gives way, too
TEST_F(MpcFilterTest, MovesAControlByTheLeastEnergy) {
  const Task task = ArmTask(kMotors, "<limit name='torque' actuator='elbow' quantity='force' lower='-60' upper='60'/>");
  const mjModel* m = task.model.get();
  const MpcMeasurement measured = At(task, 0.5, -1);
  const VectorXd planned = Eigen::Vector2d(20, 90);
  VectorXd u = planned;
  MpcFilter(task).Keep(measured, &u);

  const DataPtr data = MakeData(m);
  SetMeasured(task, measured, data.get());
  Linearizer linearizer(m, {.substeps = task.substeps});
  linearizer.SetContext(GetContext(m, data.get()));
  StepDerivative derivative;
  linearizer.Linearize(measured.x, planned, &derivative);
  VectorXd next(m->nq + m->nv), none;
  Step(m, data.get(), measured.x, planned, task.substeps, next, none);
  const Eigen::Matrix2d Bv = derivative.B.middleRows(2, 2), H = Bv.transpose() * MassMatrix(m, data.get()) * Bv;
  const Eigen::Vector2d across = H.inverse().col(1);
  const VectorXd expected = planned - across * (30 / across[1]);
  EXPECT_NEAR(u[1], 60, 1e-4);
  EXPECT_TRUE(MatricesNear(u, expected, 0.05));
  EXPECT_GT(std::abs(u[0] - planned[0]), 5);
}

TEST_F(MpcFilterTest, LeavesWhatKeepsAllAndWhatNothingKeeps) {
  const Task task = ArmTask(kMotors, kTorques);
  const VectorXd kept = Eigen::Vector2d(60, -20);
  VectorXd u = kept;
  MpcFilter(task).Keep(At(task, 1, 1), &u);
  EXPECT_TRUE(support::BitwiseEqual(u, kept));

  const Task beyond = ArmTask(kMotors, "<limit name='torque' actuator='elbow' quantity='force' lower='250'/>");
  MpcFilter(beyond).Keep(At(beyond, 1, 1), &u);
  EXPECT_TRUE(support::BitwiseEqual(u, kept));

  Task without = ArmTask(kMotors, kTorques);
  without.mpc.feedback = false;
  u << 90, 0;
  MpcFilter(without).Keep(At(without, 1, 1), &u);
  EXPECT_EQ(u[0], 90);
}

// a servo far beyond its force range has no slope there
TEST_F(MpcFilterTest, BringsBackAServoThatIsAtItsForceRange) {
  const Task task = ArmTask(kServos, kTorques);
  const MpcMeasurement measured = At(task, 0, 0);
  VectorXd u = task.x0.head(2) + Eigen::Vector2d(0.2, -0.3);
  ASSERT_TRUE(MatricesNear(Forces(task, measured, u), Eigen::Vector2d(150, -150), 0));
  MpcFilter(task).Keep(measured, &u);
  EXPECT_TRUE(MatricesNear(Forces(task, measured, u), Eigen::Vector2d(60, -60), 1e-3));
}

// power is a force at the speed that is there
TEST_F(MpcFilterTest, KeepsPowers) {
  const Task task = ArmTask(kMotors, "<limit name='power' actuator='all' quantity='power' upper='40'/>");
  const MpcMeasurement measured = At(task, 2, -0.5);
  VectorXd u = Eigen::Vector2d(50, -120);
  MpcFilter(task).Keep(measured, &u);
  EXPECT_LE(2 * u[0], 40 + 1e-3);
  EXPECT_LE(-0.5 * u[1], 40 + 1e-3);
  EXPECT_GT(std::max(2 * u[0], -0.5 * u[1]), 40 - 1e-3);
}

// less torque at the shoulder would let the elbow, which is planned to be at its speed, go beyond it
TEST_F(MpcFilterTest, DrivesNoJointBeyondItsSpeedInTurn) {
  const std::string speed = "<limit name='speed' joint='elbow' quantity='velocity' lower='-1.5' upper='1.5'/>";
  const std::string torque = "<limit name='torque' actuator='shoulder' quantity='force' lower='-60' upper='60'/>";
  const Task task = ArmTask(kMotors, torque + speed), free = ArmTask(kMotors, torque);
  const MpcMeasurement measured = At(task, 0, 1.4);
  const auto next_speed = [&](ConstVectorRef u) {
    const DataPtr data = MakeData(task.model.get());
    SetMeasured(task, measured, data.get());
    VectorXd next(4), none;
    Step(task.model.get(), data.get(), measured.x, u, task.substeps, next, none);
    return next[3];
  };
  VectorXd planned = Eigen::Vector2d(140, 0);
  const double slope = next_speed(Eigen::Vector2d(140, 1)) - next_speed(planned);
  planned[1] = (1.499 - next_speed(planned)) / slope;
  VectorXd u = planned, u_free = planned;
  MpcFilter(task).Keep(measured, &u);
  MpcFilter(free).Keep(measured, &u_free);
  EXPECT_NEAR(next_speed(planned), 1.499, 1e-3);
  EXPECT_NEAR(u_free[0], 60, 1e-3);
  EXPECT_GT(next_speed(u_free), 1.503);  // else the test says nothing
  EXPECT_NEAR(u[0], 60, 1e-3);
  EXPECT_LE(next_speed(u), 1.5 + 1e-6);
  EXPECT_GT(next_speed(u), 1.495);
}

// plans of 25 Hz that come late, and a push that they do not know of
TEST_F(MpcFilterTest, KeepsForcesAndPowersBetweenPlans) {
  Task task = ArmTask(kServos,
                      "<cost ctrl='all' target='key:home' weight='1e-3'/>"
                      "<limit name='torque' actuator='all' quantity='force' lower='-70' upper='70'/>"
                      "<limit name='power' actuator='all' quantity='power' upper='40'/>",
                      "<guess key='home'/><mpc rate='25' delay='.03'/>");
  MpcSimulation simulation{.duration = 1.5};
  const int fore = mj_name2id(task.model.get(), mjOBJ_BODY, "fore");
  simulation.pushes.push_back({.body = fore, .force = {60, 0, 40}, .begin = 0.5, .end = 0.6});
  const MpcResult result = RunMpc(task, simulation);
  ASSERT_TRUE(result.status.ok());
  for (const MpcConstraintReport& report : result.constraints) {
    EXPECT_LT(report.motion.relative, 1e-5) << report.plan.name;
  }
}

}  // namespace
}  // namespace costate
