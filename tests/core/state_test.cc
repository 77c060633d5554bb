// The state, its tangent, and the context.
#include <costate/state.h>
#include <costate/step.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/joint.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;
using StateTest = support::EngineTest;

// every joint type, an activation, two controls, a mocap body, a weld that can be switched, user data, a sensor
constexpr char kMixed[] = R"(<mujoco model="mixed"><size nuserdata="2"/><worldbody>
    <body name="mocap" mocap="true" pos="1 0 0"/>
    <body pos="0 0 2"><freejoint name="free"/><geom size=".1"/>
      <body pos=".3 0 0"><joint name="ball" type="ball" range="0 1.2" limited="true"/><geom size=".1" pos=".1 0 0"/>
        <body pos=".3 0 0"><joint name="slide" type="slide" range="-.2 .4" limited="true"/><geom size=".1"/>
          <body pos=".3 0 0"><joint name="hinge" axis="0 1 0" damping=".1"/><geom size=".1" pos=".1 0 0"/></body>
        </body></body></body></worldbody>
    <equality><weld name="hold" body1="mocap" body2="world" active="false"/></equality>
    <actuator><general name="lag" joint="hinge" dyntype="filter" dynprm=".1"/><motor name="motor" joint="slide"/></actuator>
    <sensor><jointpos joint="hinge"/></sensor></mujoco>)";

TEST_F(StateTest, StateIsPositionVelocityActivationInThisOrder) {
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  const Dims dims(model.get());
  EXPECT_EQ(dims.nq, 13);
  EXPECT_EQ(dims.nv, 11);
  EXPECT_EQ(dims.na, 1);
  EXPECT_EQ(dims.nu, 2);
  EXPECT_EQ(dims.nx, 25);
  EXPECT_EQ(dims.ndx, 23);
  EXPECT_EQ(dims.ns, 1);
  for (int i = 0; i < dims.nv; ++i) data->qvel[i] = 100 + i;
  data->act[0] = 7;
  const VectorXd x = GetState(model.get(), data.get());
  ASSERT_EQ(x.size(), dims.nx);
  EXPECT_EQ(x[0], data->qpos[0]);
  EXPECT_EQ(x[dims.nq], 100);
  EXPECT_EQ(x[dims.nx - 1], 7);
}

TEST_F(StateTest, SetStateWritesWhatGetStateReads) {
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  const VectorXd x = support::RandomState(model.get(), 1);
  const VectorXd context = GetContext(model.get(), data.get());
  SetState(model.get(), data.get(), x);
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), data.get()), x, StateNames(model.get())));
  EXPECT_TRUE(BitwiseEqual(GetContext(model.get(), data.get()), context));
}

TEST_F(StateTest, StateAndContextTogetherAreEverythingThatIntegrates) {
  const ModelPtr model = LoadModelFromString(kMixed);
  EXPECT_EQ(kStateSignature | kContextSignature, mjSTATE_INTEGRATION);
  EXPECT_EQ(kStateSignature & kContextSignature, 0);
  EXPECT_EQ(kMovingSignature & ~kContextSignature, 0);
}

TEST_F(StateTest, DifferenceUndoesRetractForEveryJointType) {
  // |rotation| < π, where the shortest difference is the tangent itself
  const ModelPtr model = LoadModelFromString(kMixed);
  const std::vector<std::string> names = TangentNames(model.get());
  for (unsigned seed = 0; seed < 50; ++seed) {
    const VectorXd x = support::RandomState(model.get(), seed);
    const VectorXd dx = support::RandomTangent(model.get(), seed + 1000, 1.5);
    EXPECT_TRUE(MatricesNear(Difference(model.get(), Retract(model.get(), x, dx), x), dx, 1e-14, names)) << seed;
  }
}

TEST_F(StateTest, RetractUndoesDifferenceForEveryJointType) {
  const ModelPtr model = LoadModelFromString(kMixed);
  for (unsigned seed = 0; seed < 50; ++seed) {
    const VectorXd x0 = support::RandomState(model.get(), seed), x1 = support::RandomState(model.get(), seed + 100);
    const VectorXd back = Retract(model.get(), x0, Difference(model.get(), x1, x0));
    EXPECT_TRUE(MatricesNear(back, x1, 1e-14, StateNames(model.get()))) << seed;
  }
}

// those of quaternions turn them
TEST_F(StateTest, EachTangentEntryThatTurnsNothingAddsToOneOfTheState) {
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  const VectorXd x = GetState(model.get(), data.get());
  int turn = 0;
  for (int i = 0; i < Dims(model.get()).ndx; ++i) {
    VectorXd moved = x, dx = VectorXd::Zero(Dims(model.get()).ndx);
    dx[i] = 0.25;
    const int at = StateEntry(model.get(), i);
    if (at < 0) {
      ++turn;
      continue;
    }
    moved[at] += dx[i];
    EXPECT_TRUE(BitwiseEqual(Retract(model.get(), x, dx), moved)) << TangentNames(model.get())[i];
  }
  EXPECT_EQ(turn, 6);
}

TEST_F(StateTest, DifferenceTakesTheShorterRotation) {
  // q and −q are one rotation
  const ModelPtr model = LoadModelFromString(kMixed);
  const VectorXd x0 = support::RandomState(model.get(), 3);
  VectorXd x1 = x0;
  x1.segment(3, 4) *= -1;
  x1.segment(7, 4) *= -1;
  EXPECT_TRUE(MatricesNear(Difference(model.get(), x1, x0), VectorXd::Zero(23), 1e-14));
}

TEST_F(StateTest, AngularTangentIsTheEnginesAngularVelocity) {
  // x ⊕ h (qvel, 0, 0) is where the engine's integration of qvel over h arrives
  const ModelPtr model = LoadModelFromString(kMixed);
  const Dims dims(model.get());
  const VectorXd x = support::RandomState(model.get(), 4);
  VectorXd dx = VectorXd::Zero(dims.ndx);
  dx.head(dims.nv) = 0.25 * x.segment(dims.nq, dims.nv);
  VectorXd q = x.head(dims.nq);
  mj_integratePos(model.get(), q.data(), x.data() + dims.nq, 0.25);
  EXPECT_TRUE(MatricesNear(Retract(model.get(), x, dx).head(dims.nq), q, 1e-15));
}

TEST_F(StateTest, RandomStatesAreInsideLimitsWithUnitQuaternions) {
  const ModelPtr model = LoadModelFromString(kMixed);
  for (unsigned seed = 0; seed < 50; ++seed) {
    const VectorXd x = support::RandomState(model.get(), seed);
    EXPECT_NEAR(x.segment(3, 4).norm(), 1, 1e-14);
    EXPECT_NEAR(x.segment(7, 4).norm(), 1, 1e-14);
    EXPECT_LT(2 * std::acos(std::abs(x[7])), 1.2);
    EXPECT_GT(x[11], -0.2);
    EXPECT_LT(x[11], 0.4);
  }
}

TEST_F(StateTest, ContextHoldsAllThatAStepReadsBesidesStateAndControl) {
  // everything changed and put back: the step is the same, bit for bit; one part left out: it is not
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  data->mocap_pos[0] = 3;
  data->userdata[1] = 5;
  data->qfrc_applied[9] = 2;
  data->xfrc_applied[12] = 1;
  data->eq_active[0] = 1;
  data->time = 4;
  const VectorXd x = support::RandomState(model.get(), 5), u = support::RandomControl(model.get(), 6);
  const VectorXd context = GetContext(model.get(), data.get());
  VectorXd first(x.size()), second(x.size()), sensors;
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 3, first, sensors), StepStatus::kOk);
  const VectorXd after = GetContext(model.get(), data.get());

  mj_resetData(model.get(), data.get());
  SetContext(model.get(), data.get(), context);
  EXPECT_TRUE(BitwiseEqual(GetContext(model.get(), data.get()), context));
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 3, second, sensors), StepStatus::kOk);
  EXPECT_TRUE(BitwiseEqual(second, first, StateNames(model.get())));
  EXPECT_TRUE(BitwiseEqual(GetContext(model.get(), data.get()), after));

  mj_resetData(model.get(), data.get());
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 3, second, sensors), StepStatus::kOk);
  EXPECT_FALSE(BitwiseEqual(second, first));
}

TEST_F(StateTest, DelaysAndPlasticityAreContextToo) {
  // what a delayed actuator, a delayed sensor and a plastic joint remember is not in x
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
      <geom size=".1" pos=".3 0 0"/><body pos=".5 0 0"><joint name="b" axis="0 1 0" stiffness="5" springyield=".05"/>
      <geom size=".1" pos=".3 0 0"/></body></body></worldbody>
    <actuator><motor name="m" joint="a" delay=".006" nsample="3"/></actuator>
    <sensor><jointpos joint="a" delay=".004" nsample="2"/></sensor></mujoco>)");
  ASSERT_GT(model->nhistory, 0);
  ASSERT_GT(model->nplastic, 0);
  const DataPtr data = MakeData(model.get());
  VectorXd x = support::RandomState(model.get(), 1), none;
  const VectorXd fresh = GetContext(model.get(), data.get());

  // a few intervals of different controls fill the buffers and let the joint yield
  for (unsigned t = 0; t < 8; ++t) {
    const VectorXd u = support::RandomControl(model.get(), t);
    ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, x, none), StepStatus::kOk);
  }
  const VectorXd u = VectorXd::Ones(1), context = GetContext(model.get(), data.get());
  const VectorXd moving = GetMovingContext(model.get(), data.get());
  VectorXd first(x.size()), second(x.size()), s1(1), s2(1);
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, first, s1), StepStatus::kOk);

  mj_resetData(model.get(), data.get());
  SetContext(model.get(), data.get(), context);
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, second, s2), StepStatus::kOk);
  EXPECT_TRUE(BitwiseEqual(second, first));
  EXPECT_TRUE(BitwiseEqual(s2, s1));

  // the moving part alone restarts a knot
  mj_resetData(model.get(), data.get());
  SetMovingContext(model.get(), data.get(), moving);
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, second, s2), StepStatus::kOk);
  EXPECT_TRUE(BitwiseEqual(second, first));

  // without it the motion is another
  SetContext(model.get(), data.get(), fresh);
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, second, s2), StepStatus::kOk);
  EXPECT_FALSE(BitwiseEqual(second, first));
  EXPECT_FALSE(BitwiseEqual(s2, s1));
}

TEST_F(StateTest, MovingContextIsAllOfTheContextThatAStepChanges) {
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  const VectorXd x = support::RandomState(model.get(), 7), u = support::RandomControl(model.get(), 8);
  SetState(model.get(), data.get(), x);
  mj_setState(model.get(), data.get(), u.data(), mjSTATE_CTRL);
  const VectorXd before = GetContext(model.get(), data.get());
  mj_step(model.get(), data.get());
  const VectorXd moving = GetMovingContext(model.get(), data.get()), after = GetContext(model.get(), data.get());
  SetContext(model.get(), data.get(), before);
  SetMovingContext(model.get(), data.get(), moving);
  EXPECT_TRUE(BitwiseEqual(GetContext(model.get(), data.get()), after));
}

TEST_F(StateTest, WrongSizesAreNamed) {
  const ModelPtr model = LoadModelFromString(kMixed);
  const DataPtr data = MakeData(model.get());
  const VectorXd x = VectorXd::Zero(25), dx = VectorXd::Zero(23), short_x = VectorXd::Zero(1);
  const auto code = ErrorCode::kDimensionMismatch;
  EXPECT_ERROR(SetState(model.get(), data.get(), short_x), code, "x has 1 entry, model 'mixed' has nx = 25");
  EXPECT_ERROR(SetContext(model.get(), data.get(), x), code, "context has 25 entries");
  EXPECT_ERROR(SetMovingContext(model.get(), data.get(), x), code, "moving context has 25 entries");
  EXPECT_ERROR(Retract(model.get(), dx, dx), code, "x has 23 entries");
  EXPECT_ERROR(Retract(model.get(), x, x), code, "dx has 25 entries", "ndx = 23");
  EXPECT_ERROR(Difference(model.get(), dx, x), code, "x1 has 23 entries");
  EXPECT_ERROR(Difference(model.get(), x, dx), code, "x0 has 23 entries");
  VectorXd wrong(3);
  EXPECT_ERROR(Difference(model.get(), x, x, wrong), code, "dx has 3 entries");
}

TEST_F(StateTest, ModelWithoutDegreesOfFreedomHasAnEmptyState) {
  const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  const VectorXd x = GetState(model.get(), data.get());
  EXPECT_EQ(x.size(), 0);
  SetState(model.get(), data.get(), x);
  EXPECT_EQ(Retract(model.get(), x, x).size(), 0);
  EXPECT_EQ(Difference(model.get(), x, x).size(), 0);
}

}  // namespace
}  // namespace costate
