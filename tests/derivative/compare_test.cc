// The comparison in words: a planted error is found and named; noise and switches are neither pass nor fail.
#include <costate/derivative_check.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "derivative/check_states.h"
#include "support/engine_test.h"

namespace costate {
namespace {

class CompareTest : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model_ = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="hip" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".05"/><body pos=".4 0 0"><joint name="knee" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".05"/></body></body></worldbody>
      <actuator><motor name="hip" joint="hip"/><motor name="knee" joint="knee" gear="3"/></actuator>
      <sensor><jointpos name="encoder" joint="knee"/><actuatorfrc name="torque" actuator="knee"/></sensor></mujoco>)");
    data_ = MakeData(model_.get());
    data_->qpos[1] = 0.7;
    data_->qvel[0] = -1;
    reference_ = Reference(model_.get(), data_.get());
    value_ = reference_.value;
  }
  const BlockComparison* Block(const DerivativeComparison& comparison, const std::string& name) {
    for (const BlockComparison& block : comparison.blocks) {
      if (block.name == name) return &block;
    }
    ADD_FAILURE() << "no block " << name;
    return nullptr;
  }

  ModelPtr model_;
  DataPtr data_;
  ReferenceDerivative reference_;
  StepDerivative value_;
};

TEST_F(CompareTest, ADerivativeAgreesWithItselfInEveryBlock) {
  const DerivativeComparison comparison = Compare(model_.get(), value_, reference_);
  EXPECT_TRUE(comparison.agrees);
  std::vector<std::string> names;
  for (const BlockComparison& block : comparison.blocks) {
    names.push_back(block.name);
    EXPECT_EQ(block.judged, block.rows * block.cols) << block.name;
    EXPECT_EQ(block.worst.error, 0) << block.name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"A qpos'/qpos", "A qpos'/qvel", "A qvel'/qpos", "A qvel'/qvel", "B qpos'/ctrl",
                                      "B qvel'/ctrl", "C sensor/qpos", "C sensor/qvel", "D sensor/ctrl"}));
}

TEST_F(CompareTest, APlantedErrorIsFoundAndNamedWithBothValues) {
  const double right = value_.B(3, 0);
  value_.B(3, 0) *= 1.01;
  const DerivativeComparison comparison = Compare(model_.get(), value_, reference_);
  EXPECT_FALSE(comparison.agrees);
  for (const BlockComparison& block : comparison.blocks)
    EXPECT_EQ(block.agrees, block.name != "B qvel'/ctrl") << block.name;
  const BlockComparison* block = Block(comparison, "B qvel'/ctrl");
  EXPECT_EQ(block->wrong, 1);
  EXPECT_EQ(block->worst.row_name, "qvel[knee]'");
  EXPECT_EQ(block->worst.col_name, "ctrl[hip]");
  EXPECT_EQ(block->worst.row, 3);
  EXPECT_EQ(block->worst.col, 0);
  EXPECT_EQ(block->worst.value, 1.01 * right);
  EXPECT_EQ(block->worst.reference, right);
  EXPECT_NEAR(block->worst.error, 0.01 * std::abs(right) / block->scale, 1e-9);
}

TEST_F(CompareTest, EachSensorHasItsOwnScale) {
  // 1e-3 of an angle beside a torque that would hide it if both were measured by the larger one
  value_.C(0, 1) += 1e-3;
  reference_.value.C(1, 1) = value_.C(1, 1) = 1e4;
  EXPECT_FALSE(Compare(model_.get(), value_, reference_).agrees);
}

TEST_F(CompareTest, ABlockThatIsZeroIsMeasuredOnItsMatrix) {
  // the encoder does not see velocities: rounding there is no error, a hundredth of its slope is
  ASSERT_EQ(reference_.value.C.row(0).tail(2), Eigen::RowVector2d::Zero());
  value_.C(0, 3) = 1e-8;
  EXPECT_TRUE(Compare(model_.get(), value_, reference_).agrees);
  value_.C(0, 3) = 1e-2;
  EXPECT_FALSE(Compare(model_.get(), value_, reference_).agrees);
}

TEST_F(CompareTest, WrongBeyondTheNoiseIsWrongAndWithinItUnjudged) {
  reference_.A_error(0, 1) = 0.2;
  value_.A(0, 1) += 0.5;
  EXPECT_TRUE(Compare(model_.get(), value_, reference_).agrees);
  EXPECT_EQ(Block(Compare(model_.get(), value_, reference_), "A qpos'/qpos")->noisy, 1);
  value_.A(0, 1) += 2;
  EXPECT_FALSE(Compare(model_.get(), value_, reference_).agrees);
}

TEST_F(CompareTest, AColumnThatSwitchesIsNamedAndNotJudged) {
  reference_.nonsmooth_column[1] = true;
  reference_.switched[1] = "contacts";
  value_.A.col(1).setConstant(1e3);
  const DerivativeComparison comparison = Compare(model_.get(), value_, reference_);
  EXPECT_TRUE(comparison.agrees);
  EXPECT_EQ(comparison.nonsmooth_columns, std::vector<std::string>{"qpos[knee]: contacts"});
  EXPECT_EQ(Block(comparison, "A qvel'/qpos")->nonsmooth, 2);
}

TEST_F(CompareTest, NotANumberIsWrong) {
  value_.A(1, 2) = std::numeric_limits<double>::quiet_NaN();
  const DerivativeComparison comparison = Compare(model_.get(), value_, reference_);
  EXPECT_FALSE(comparison.agrees);
  EXPECT_EQ(Block(comparison, "A qpos'/qvel")->worst.row_name, "qpos[knee]'");
}

TEST_F(CompareTest, RefusesWhatCannotBeCompared) {
  StepDerivative failed = value_;
  failed.status = StepStatus::kArenaFull;
  EXPECT_ERROR(Compare(model_.get(), failed, reference_), ErrorCode::kInvalidArgument, "the derivative is not valid");
  value_.B.resize(3, 3);
  EXPECT_ERROR(Compare(model_.get(), value_, reference_), ErrorCode::kDimensionMismatch,
               "B is 3×3, its reference is 4×2");
  value_.B.resize(4, 2);
  const ModelPtr other =
      LoadModelFromString("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  EXPECT_ERROR(Compare(other.get(), value_, reference_), ErrorCode::kDimensionMismatch, "A has 4 entries", "ndx = 12");
  EXPECT_ERROR(Compare(nullptr, value_, reference_), ErrorCode::kInvalidArgument, "NULL");
  reference_.A_error.resize(0, 0);
  EXPECT_ERROR(Compare(model_.get(), value_, reference_), ErrorCode::kDimensionMismatch,
               "the error bar of A is 0×0, its reference is 4×4");
}

TEST_F(CompareTest, WithoutSensorsOnOneSideTheyAreLeftOut) {
  value_.C.resize(0, 0);
  value_.D.resize(0, 0);
  EXPECT_EQ(Compare(model_.get(), value_, reference_).blocks.size(), 6u);
}

// steps in front of a check may be many: they end when they are told to
TEST_F(CompareTest, StepsToAStateCanBeInterrupted) {
  CheckStateOptions options;
  options.steps = 1000000000;
  int asked = 0;
  options.go_on = [&](int step) { return asked++ == step && step < 20; };
  std::vector<std::string> notes;
  EXPECT_TRUE(MakeCheckStates(model_.get(), options, &notes).empty());
  EXPECT_EQ(asked, 21);
}

// a soft body too stiff for its integrator, whose contacts have no frames any more once it has blown up: no state in
// contact, and the others are there
TEST_F(CompareTest, ASearchForContactThatTheEngineEndsLeavesTheOtherStates) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.02" integrator="RK4"/><worldbody>
      <geom type="plane" size="2 2 .1"/>
      <flexcomp name="soft" type="grid" count="3 3 3" spacing=".1 .1 .1" pos="0 0 1" dim="3" radius=".01" mass=".1">
        <elasticity young="1e6" poisson=".2"/><contact selfcollide="auto"/></flexcomp></worldbody></mujoco>)");
  std::vector<std::string> notes;
  EXPECT_GE(MakeCheckStates(model.get(), {}, &notes).size(), 2u);
}

// the engine refuses controls beyond its own bound
TEST_F(CompareTest, RandomControlsAreWithinTheEnginesBound) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="x"/><geom size=".1"/></body></worldbody>
      <actuator><motor joint="x" ctrlrange="-1e12 1e12"/></actuator></mujoco>)");
  std::vector<std::string> notes;
  for (const CheckState& state : MakeCheckStates(model.get(), {}, &notes)) {
    EXPECT_LT(std::abs(state.data->ctrl[0]), mjMAXVAL) << state.name;
  }
}

}  // namespace
}  // namespace costate
