// Derivatives by parameters are those of the model with the current values, whatever the model as given has.
#include <costate/adjoint.h>
#include <costate/derivative.h>
#include <costate/state.h>

#include <limits>

#include "parameter/differences.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using CurrentValue = support::EngineTest;

constexpr char kDampedModel[] =
    R"(<mujoco><option timestep=".004" density="200" viscosity=".3" cone="elliptic"/><worldbody>
  <geom name="floor" type="plane" size="3 3 .1" condim="6" friction=".4 .02 .003"/>
  <body name="ball" pos="0 0 .0995"><freejoint/><geom name="ball" size=".1" condim="6" friction=".6 .03 .002"/></body>
  <body pos="1 0 1"><joint name="slide" type="slide" axis="1 0 0" damping=".4" stiffness="3" springref=".1" armature=".02"
        frictionloss=".3"/><geom type="box" size=".1 .08 .06"/>
    <body pos="0 0 -.1"><joint name="hinge" axis="0 1 0" damping=".1" stiffness=".5" armature=".01" frictionloss=".05"/>
      <geom type="capsule" size=".02" fromto="0 0 0 .1 .02 -.3"/></body></body></worldbody>
  <tendon><fixed name="sum" stiffness="2" damping=".3" frictionloss=".2" springlength=".05"><joint joint="slide" coef="1"/>
      <joint joint="hinge" coef=".4"/></fixed></tendon>
  <actuator><position name="servo" joint="hinge" kp="4" kv=".2"/><velocity name="drive" joint="slide" kv=".7"/></actuator></mujoco>)";

DataPtr MovingData(const mjModel* model) {
  DataPtr data = MakeData(model);
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.3 + 0.1 * i;
  data->qvel[2] = -0.01;
  data->qpos[7] = 0.2;
  data->qpos[8] = -0.4;
  data->ctrl[0] = 0.3;
  data->ctrl[1] = -0.2;
  return data;
}

StepDerivative StepBy(const ParameterSet& set, const mjData* data) {
  Linearizer linearizer(set.model());
  linearizer.SetParameters(&set);
  StepDerivative out;
  linearizer.Linearize(GetState(set.model(), data), Eigen::Map<const VectorXd>(data->ctrl, set.model()->nu), &out);
  return out;
}

// A body that slides has the force of the friction loss against it: v' = v − h f/m, also where a set has come to f = 0
// from another value; and a set that has left 0 says nothing more of a bound.
TEST_F(CurrentValue, FrictionLossThatHasComeToZeroHasItsSlope) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide' axis='1 0 0' frictionloss='.1'/><geom size='.1' "
      "mass='2'/></body></worldbody></mujoco>");
  ParameterSet set(model.get(), {"joint:j/frictionloss"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 1;
  const double slope = -model->opt.timestep / 2;
  for (const double value : {0.1, 0.0, 0.2, 0.0}) {
    set.Set(VectorXd::Constant(1, value));
    EXPECT_EQ(set[0].one_sided, value == 0);
    EXPECT_EQ(set[0].value, 0.1);  // as given
    EXPECT_NEAR(StepBy(set, data.get()).P(1, 0), slope, 1e-9) << value;
    StepVjp vjp;
    Linearizer linearizer(set.model());
    linearizer.SetParameters(&set);
    linearizer.Vjp(GetState(set.model(), data.get()), VectorXd(), Eigen::Vector2d(0, 1), &vjp);
    EXPECT_NEAR(vjp.theta[0], slope, 1e-9) << value;
  }
}

// The column of a number that a set has brought to its lower bound is that of a set of the model that has it there, and
// that of steps of changed models: no row, damper, spring, servo or medium is missing because it is 0 here, or was not.
TEST_F(CurrentValue, ColumnsDoNotDependOnTheModelAsGiven) {
  const ModelPtr model = LoadModelFromString(kDampedModel);
  const std::vector<std::string> names = {
      "joint:slide/damping",   "joint:slide/stiffness", "joint:slide/armature",    "joint:slide/frictionloss",
      "joint:hinge/damping",   "joint:hinge/stiffness", "joint:hinge/armature",    "joint:hinge/frictionloss",
      "tendon:sum/damping",    "tendon:sum/stiffness",  "tendon:sum/frictionloss", "actuator:servo/kp",
      "actuator:servo/kv",     "actuator:drive/kv",     "geom:floor/friction[0]",  "geom:ball/friction[0]",
      "geom:ball/friction[1]", "geom:ball/friction[2]", "geom:ball/solmix",        "option/density",
      "option/viscosity"};
  const DataPtr data = MovingData(model.get());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    ParameterSet set(model.get(), {name});
    set.Set(VectorXd::Constant(1, set[0].lower));
    const ModelPtr there = CopyModel(set.model());
    const StepDerivative come = StepBy(set, data.get());
    ASSERT_EQ(come.status, StepStatus::kOk);
    const support::ParameterReference reference = support::Differences(set, data.get(), 1);
    const double largest = reference.P.cwiseAbs().maxCoeff();
    EXPECT_LT(((come.P - reference.P).cwiseAbs() - reference.P_error).maxCoeff(), 1e-6 * largest + 1e-12);
    if (name == "actuator:servo/kp" || name == "actuator:drive/kv")
      continue;  // at 0 it is no servo: only a set that has come
    const ParameterSet given(there.get(), {name});
    EXPECT_LE((come.P - StepBy(given, data.get()).P).cwiseAbs().maxCoeff(), 1e-9 * largest);
    EXPECT_EQ(set[0].nudge, given[0].nudge);
  }
}

// Nudges are of the size that a number has now, clamps those of the side that it is on.
TEST_F(CurrentValue, NudgesAndClampsFollowTheValue) {
  const ModelPtr model = LoadModelFromString(kDampedModel);
  ParameterSet set(model.get(), {"joint:slide/stiffness", "geom:ball/solref[0]", "geom:ball/friction[0]"});
  EXPECT_EQ(set[1].clamp_lower, 0.008);
  EXPECT_EQ(set[2].clamp_lower, mjMINMU);
  set.Set(Eigen::Vector3d(5e4, -300, 0));
  EXPECT_NEAR(set[0].nudge, 5, 1e-12);
  EXPECT_EQ(set[1].clamp_lower, -std::numeric_limits<double>::infinity());
  set.Set(Eigen::Vector3d(3, 0.03, 0.5));
  EXPECT_NEAR(set[0].nudge, 3e-4, 1e-15);
  EXPECT_EQ(set[1].clamp_lower, 0.008);
}

}  // namespace
}  // namespace costate
