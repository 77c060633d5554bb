#include "optimizer/pose.h"

#include <costate/task.h>
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/task_file.h"

namespace costate {
namespace {

using Eigen::Vector3d;
using support::MatricesNear;

struct RigidPose {
  Vector3d p;
  double q[4];
};

// exp of a constant twist (linear v, angular w, both in the moving frame) by many small steps of the rotation's
// midpoint
RigidPose Flow(const double q[4], const Vector3d& p, const Vector3d& v, const Vector3d& w) {
  constexpr int kSteps = 20000;
  RigidPose pose{p, {q[0], q[1], q[2], q[3]}};
  for (int i = 0; i < kSteps; ++i) {
    mju_quatIntegrate(pose.q, w.data(), 0.5 / kSteps);
    Vector3d way;
    mju_rotVecQuat(way.data(), v.data(), pose.q);
    pose.p += way / kSteps;
    mju_quatIntegrate(pose.q, w.data(), 0.5 / kSteps);
  }
  return pose;
}

// a frame that moves with the constant twist r for one second arrives where the logarithm is r
TEST(Pose, LogarithmIsTheTwistThatLeadsThere) {
  const double q[4] = {0.5, -0.5, 0.5, 0.5};
  const Vector3d p(0.3, -1, 2), v(0.7, 0.2, -0.4);
  for (const double angle : {0.0, 0.05, 0.3, 2.9}) {
    const Vector3d w = angle * Vector3d(2, -1, 2) / 3;
    const RigidPose pose = Flow(q, p, v, w);
    Vector3d phi;
    mju_subQuat(phi.data(), pose.q, q);
    EXPECT_TRUE(MatricesNear(phi, w, 1e-9)) << angle;
    EXPECT_TRUE(MatricesNear(PoseLog(q, pose.p - p, phi).value, v, 1e-7)) << angle;
  }
}

TEST(Pose, DerivativesAreThoseOfDifferencesAtEveryAngle) {
  const double q[4] = {0.1, 0.7, -0.5, 0.5};
  const Vector3d offset(0.4, -0.7, 1.1), axis = Vector3d(1, 2, -2) / 3;
  for (const double angle : {0.0, 1e-4, 0.0999, 0.1001, 1.0, 3.0}) {
    const Vector3d phi = angle * axis;
    const PoseLog log(q, offset, phi);
    Eigen::Matrix3d by_position, by_rotation;
    for (int i = 0; i < 3; ++i) {
      const Vector3d h = 1e-5 * Vector3d::Unit(i);
      by_position.col(i) = (PoseLog(q, offset + h, phi).value - PoseLog(q, offset - h, phi).value) / 2e-5;
      by_rotation.col(i) = (PoseLog(q, offset, phi + h).value - PoseLog(q, offset, phi - h).value) / 2e-5;
    }
    EXPECT_TRUE(MatricesNear(log.by_position, by_position, 1e-9)) << angle;
    EXPECT_TRUE(MatricesNear(log.by_rotation, by_rotation, 1e-8)) << angle;
  }
}

using PoseTask = support::EngineTest;

TEST_F(PoseTask, RefusesWhatAPoseIsNot) {
  const auto load = [](const std::string& attributes) {
    return support::LoadZooTask("<cost body='arm' quantity='pose' " + attributes + "/>");
  };
  EXPECT_ERROR(load("index='0 1'"), ErrorCode::kParse, "a pose is measured as a whole");
  EXPECT_ERROR(load("target='0 0 1'"), ErrorCode::kParse, "target has 3 numbers, expected 7");
}

// the same state at the same time costs the same at the end of a task and in a plan that begins there
TEST_F(PoseTask, ATargetThatTurnsIsFoundByTheTasksTime) {
  const support::TemporaryFolder folder;
  folder.Write("turn.csv", "time,x,y,z,w,i,j,k\n0,1,2,3,1,0,0,0\n0.1,1,2,3,0,0,0,1\n");
  const Task task = LoadTask(folder.Write(
      "zoo.task.xml", support::ZooTask("<cost body='arm' quantity='pose' target='file:turn.csv'/>", "horizon='0.1'")));
  const VectorXd s = VectorXd::LinSpaced(Dims(task.model.get()).ns, -1, 1);
  const VectorXd u = VectorXd::Zero(task.model->nu);
  const KnotView plan{.t = 0, .N = task.N, .dt = 0.1 / task.N, .x = task.x0, .u = u, .s = s};
  const KnotView before{.t = task.N - 1, .N = task.N, .dt = 0.1 / task.N, .x = task.x0, .u = u, .s = s};
  EXPECT_GT(std::abs(task.cost->Value(plan) / task.cost->Value(before) - 1), 0.01);
  EXPECT_NEAR(task.cost->Value(plan.ShiftedBy(before.TaskTime())), task.cost->Value(before), 1e-12);
}

}  // namespace
}  // namespace costate
