// Controls from a CSV: any order of columns, other columns ignored, and every mistake named by file and line.
#include <costate/record.h>

#include <gtest/gtest.h>

#include "rollout/models.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

class ReadControlsTest : public support::EngineTest {
 protected:
  ModelPtr model_ = LoadModelFromString(
      "<mujoco model='pair'><worldbody><body><joint name='a' type='slide'/><joint name='b' type='slide' axis='1 0 0'/>"
      "<geom size='.1'/></body></worldbody><actuator><motor name='left' joint='a'/><motor name='right, far' joint='b'/>"
      "</actuator></mujoco>");
  support::TemporaryFolder folder_;

  MatrixXd Read(const std::string& text) { return ReadControls(model_.get(), folder_.Write("u.csv", text)); }
};

TEST_F(ReadControlsTest, FindsColumnsByNameInAnyOrder) {
  const MatrixXd expected = (MatrixXd(2, 3) << 1, 2, 3, -0.5, 0.1, 1e-9).finished();
  EXPECT_TRUE(BitwiseEqual(Read("left,\"right, far\"\n1,-0.5\n2,0.1\n3,1e-9\n"), expected));
  EXPECT_TRUE(BitwiseEqual(Read("time,\"ctrl[right, far] (N)\",note,ctrl[left]\r\n0,-.5,x,+1\r\n1,.1,y,2\r\n2,1e-9,z,3"),
                           expected));
  EXPECT_TRUE(BitwiseEqual(Read("\xEF\xBB\xBF" "1,-0.5\n 2 , 0.1\n\n3,1e-9\n\n"), expected));
}

TEST_F(ReadControlsTest, TakesTheTrajectoryOfARun) {
  Record record;
  record.model = CopyModel(model_.get());
  DataPtr data = MakeData(model_.get());
  record.context = GetContext(model_.get(), data.get());
  Simulator simulator(model_.get(), record.context, 1, 1);
  const MatrixXd U = WavyControls(model_.get(), 20) / 3;
  ASSERT_TRUE(simulator.Rollout(VectorXd::Zero(4), U, &record.trajectory).ok());
  WriteRecord(folder_.File("run"), record, {.force = false, .plots = false});
  EXPECT_TRUE(BitwiseEqual(ReadControls(model_.get(), folder_.File("run/trajectory.csv")), U));
}

TEST_F(ReadControlsTest, NamesWhatIsWrongAndWhere) {
  EXPECT_ERROR(ReadControls(model_.get(), folder_.File("none.csv")), ErrorCode::kFile, "none.csv' is missing");
  EXPECT_ERROR(Read(""), ErrorCode::kParse, "no row of controls");
  EXPECT_ERROR(Read("left,\"right, fat\"\n1,2\n"), ErrorCode::kParse, "u.csv:1", "ctrl[right, far]", "did you mean 'right, fat'?");
  EXPECT_ERROR(Read("1,2,3\n"), ErrorCode::kParse, "u.csv:1: 3 columns", "nu = 2");
  EXPECT_ERROR(Read("1,2\n3,x\n"), ErrorCode::kParse, "u.csv:2: ctrl[right, far] is 'x'");
  EXPECT_ERROR(Read("1,2\n3,nan\n"), ErrorCode::kParse, "u.csv:2", "'nan'");
  EXPECT_ERROR(Read("1,2\n3\n"), ErrorCode::kParse, "u.csv:2: ctrl[right, far] is ''");
  EXPECT_ERROR(Read("1,2\n,\n3,4\n"), ErrorCode::kParse, "u.csv:3: a row without controls");
}

}  // namespace
}  // namespace costate
