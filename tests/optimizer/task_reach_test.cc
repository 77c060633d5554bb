// Tasks from two keyframes.
#include <costate/task.h>
#include <gtest/gtest.h>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using ReachKey = support::EngineTest;
constexpr char kZoo[] = COSTATE_TESTDATA "/task_zoo.xml";

TEST_F(ReachKey, GoesFromKeyframeToKeyframe) {
  const Task task = MakeReachKeyTask(kZoo, {.start = "home", .goal = "pose", .time = 0.6});
  EXPECT_EQ(task.N, 60);
  EXPECT_EQ(task.substeps, 5);
  EXPECT_TRUE(task.hopping.after_stall);
  EXPECT_EQ(task.hopping.rounds, 4);
  EXPECT_EQ(task.x0[2], 1);
  EXPECT_NEAR(task.x_goal.segment<4>(3).norm(), 1, 1e-15);
  EXPECT_EQ(task.x_goal[24], 0.4);

  // controls go straight from one keyframe's to the other's
  EXPECT_TRUE(MatricesNear(task.U_guess.col(0), Eigen::Vector3d(0.1, 0.2, -0.3), 0));
  EXPECT_TRUE(MatricesNear(task.U_guess.col(59), Eigen::Vector3d(0.5, -1, 0.7), 1e-15));

  // nothing is paid at the goal but running effort, and the far start costs
  Trajectory trajectory;
  trajectory.X = task.x_goal.replicate(1, 61);
  trajectory.U = task.U_guess;
  trajectory.S = MatrixXd::Zero(task.model->nsensordata, 61);
  trajectory.time = VectorXd::LinSpaced(61, 0, 0.6);
  const std::vector<CostTermValue> terms = task.cost->Terms(trajectory);
  ASSERT_EQ(terms.size(), 3u);
  EXPECT_LT(terms[0].value + terms[1].value, 1e-20);
  trajectory.X = task.x0.replicate(1, 61);
  EXPECT_GT(task.cost->Terms(trajectory)[0].value, 1);
}

TEST_F(ReachKey, NumbersAndTheDefaultStateWorkToo) {
  const Task task = MakeReachKeyTask(kZoo, {.start = "", .goal = "1", .time = 4, .substeps = 0});
  EXPECT_EQ(task.N, 200);  // 20 ms a knot
  EXPECT_EQ(task.substeps, 10);
  EXPECT_TRUE(MatricesNear(task.x0, GetState(task.model.get(), MakeData(task.model.get()).get()), 0));
  EXPECT_EQ(MakeReachKeyTask(kZoo, {.goal = "pose", .time = 0.1, .substeps = 2}).N, 25);
}

TEST_F(ReachKey, RefusesWhatIsNotThere) {
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.start = "hom", .goal = "pose"}), ErrorCode::kInvalidArgument,
               "did you mean 'home'?");
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.goal = "nothing like it"}), ErrorCode::kInvalidArgument, "it has home, pose");
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.goal = "7"}), ErrorCode::kInvalidArgument, "no keyframe 7");
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.goal = "pose", .time = 0}), ErrorCode::kInvalidArgument, "time is 0 s");
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.goal = "pose", .time = NAN}), ErrorCode::kInvalidArgument, "time is nan");
  EXPECT_ERROR(MakeReachKeyTask(kZoo, {.goal = "pose", .substeps = -1}), ErrorCode::kInvalidArgument, "substeps is -1");
  const support::TemporaryFolder folder;
  const std::string passive = folder.Write(
      "p.xml", "<mujoco model='p'><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  EXPECT_ERROR(MakeReachKeyTask(passive, {.goal = "0"}), ErrorCode::kInvalidArgument, "no actuators (nu = 0)");
}

}  // namespace
}  // namespace costate
