// Sensors against the reference: energies, distances that a search finds, forces by way of adhesion.
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>
#include <costate/state.h>
#include <costate/step.h>

#include "support/engine_test.h"
#include "support/expect_reference.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using SensorReferenceTest = support::EngineTest;
using support::ExpectReference;

// an actuator's armature makes the inertia of its tendon move
TEST_F(SensorReferenceTest, KineticEnergyHoldsTheArmatureOfActuatorsOnTendons) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="hook" pos="0.3 0 1"/>
    <body><freejoint/><geom size="0.1"/><site name="eye" pos="0.1 0.05 0"/></body></worldbody>
    <tendon><spatial name="rope"><site site="eye"/><site site="hook"/></spatial></tendon>
    <actuator><motor tendon="rope" armature="0.3" gear="2"/></actuator><sensor><e_kinetic/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.3 + 0.4 * i;
  EXPECT_GT(Linearize(model.get(), data.get()).C.leftCols(3).norm(), 0.1);
  ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get()));
}

// with the energies on, the engine's sensor takes the kinetic energy that the last stage of the step before has left
TEST_F(SensorReferenceTest, KineticEnergyIsThatOfTheStateInDifferencesOfSteps) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option integrator="RK4" timestep="0.01"><flag energy="enable"/></option>
    <worldbody><body><joint damping="0.3"/><geom size="0.1" pos="0.2 0 0"/></body></worldbody><sensor><e_kinetic/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qvel[0] = 1.3;
  const StepDerivative value = Linearize(m, data.get(), {.level = Level::kStep});
  EXPECT_NEAR(value.C(0, 0), 0, 1e-8);
  VectorXd x(2), x_next(2), s(1);
  for (double v : {0.5, 2.0}) {
    x << 0.3, v;
    ASSERT_EQ(Step(m, data.get(), x, VectorXd(), 1, x_next, s), StepStatus::kOk);
    EXPECT_NEAR(s[0], value.C(0, 1) * v * v / (2 * 1.3), 1e-8 * s[0]);  // m v²/2, its slope is m v
  }
}

// (M1): how far a geom, all of a body or a site juts out of another site is a distance
TEST_F(SensorReferenceTest, EnclosureIsADistance) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <site name="zone" type="box" size=".3 .3 .3" euler="10 20 30"/>
    <body name="b"><freejoint/><geom name="g" type="box" size=".05 .06 .07" pos=".01 0 0"/>
      <geom type="capsule" size=".02 .1" pos=".1 0 .05"/><site name="s" type="sphere" size=".02" pos="0 .1 0"/></body></worldbody>
    <sensor><insidesite site="zone" objtype="geom" objname="g" enclosed="true"/>
      <insidesite site="zone" objtype="body" objname="b" enclosed="true"/>
      <insidesite site="zone" objtype="site" objname="s" enclosed="true"/></sensor></mujoco>)");
  for (unsigned seed = 1; seed < 4; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.position = 0.3}));
    const StepDerivative value = Linearize(model.get(), data.get());
    for (int row = 0; row < 3; row++) EXPECT_NEAR(value.C.row(row).head(3).norm(), 1, 1e-6) << row;
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    ExpectReference(model.get(), data.get(), value);
  }
}

// (M19): those at which the engine's search of curved surfaces ends are not theirs, but as smooth: they are differenced
TEST_F(SensorReferenceTest, NearestPointsOfASearchAreThoseOfTheEngine) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body pos="0 0 .3"><joint type="ball"/><geom name="egg" type="ellipsoid" size=".1 .06 .08" pos=".02 .01 .03"/>
      <geom name="barrel" type="cylinder" size=".05 .1" pos="0 .4 0"/></body>
    <body pos=".4 .1 .2" euler="20 40 10"><freejoint/><geom name="lens" type="ellipsoid" size=".05 .12 .09"/>
      <geom name="crate" type="box" size=".1 .06 .08" pos=".3 .1 .2" euler="10 20 30"/></body></worldbody>
    <sensor><fromto geom1="egg" geom2="lens" cutoff="2"/><normal geom1="crate" geom2="egg" cutoff="2"/>
      <distance geom1="lens" geom2="barrel" cutoff="2"/><distance geom1="barrel" geom2="crate" cutoff="2"/>
      <distance name="of one body" geom1="egg" geom2="barrel" cutoff="2"/></sensor></mujoco>)");
  for (unsigned seed = 1; seed < 5; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.position = 0.15}));
    const StepDerivative value = Linearize(model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    ExpectReference(model.get(), data.get(), value);
  }
}

// (7a): along da alone forces of stiff rows at a nudge have the rounding of J a, which D magnifies, and what balances
// has not
TEST_F(SensorReferenceTest, DifferencedForcesAreThoseThatBalance) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
    <asset><mesh name="tet" vertex="-.06 -.05 -.04 .09 -.04 -.05 -.01 .1 -.03 .01 .01 .09"/>
      <mesh name="wedge" vertex="-.06 -.05 -.04 .09 -.04 -.05 .09 .06 -.05 -.06 .05 -.04 -.05 -.05 .06 -.04 .06 .05"/></asset>
    <worldbody><geom type="box" size="2 2 .2" pos="0 0 -.2"/><site name="ground"/>
    <body euler="-38 23 60" gravcomp="0.80"><freejoint/><geom type="mesh" mesh="tet"/>
      <body pos="0.158 0.089 -0.055" euler="-7 46 -6">
        <geom type="mesh" mesh="wedge" pos="0.049 -0.021 0.009" margin="0.0132"/></body></body></worldbody>
    <sensor><torque site="ground"/><force site="ground"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int tested = 0; tested < 3; tested++) {
    for (int k = 0; k < 100; k++) mj_step(model.get(), data.get());
    ASSERT_GT(data->ncon, 0);
    const StepDerivative value = Linearize(model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    ExpectReference(model.get(), data.get(), value);

    // pulled back, too: torques, of which the weight makes some
    Linearizer linearizer(model.get());
    linearizer.SetContext(GetContext(model.get(), data.get()));
    const VectorXd sigma = VectorXd::Unit(6, tested % 2);
    StepVjp vjp;
    linearizer.VjpSensors(GetState(model.get(), data.get()), sigma, &vjp);
    EXPECT_TRUE(support::MatricesNearRelative(vjp.x.head(model->nv),
                                              value.C.row(tested % 2).head(model->nv).transpose(), 1e-7));
  }
}

// the arm of an adhesion are the normals of its contacts, which collisions make anew beside the point
TEST_F(SensorReferenceTest, JointsFeelAnAdhesionWhereItsContactsAre) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1" euler="5 3 0"/>
    <body pos="0 0 .3" euler="20 0 10"><joint name="arm" axis="0 1 .2" pos="-.3 0 0"/><joint name="reach" type="slide" axis="1 0 .3"/>
      <geom type="capsule" size=".05" fromto="-.3 0 0 .1 0 0" contype="0"/>
      <body name="hand" pos=".1 0 -.2"><joint type="ball" damping=".1"/><geom size=".09"/></body></body></worldbody>
    <actuator><adhesion body="hand" ctrlrange="0 1" gain="30"/></actuator>
    <sensor><jointactuatorfrc joint="arm"/><jointactuatorfrc joint="reach"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 0.7;
  for (int k = 0; k < 200; k++) mj_step(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  const StepDerivative value = Linearize(model.get(), data.get());
  EXPECT_GT(value.C.cwiseAbs().maxCoeff(), 1);
  ExpectReference(model.get(), data.get(), value);
}

// a force that depends on the velocity of such an arm
TEST_F(SensorReferenceTest, AnAdhesionThatDependsOnVelocityIsFeltWhereItsContactsAre) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1" euler="5 3 0"/>
    <body name="hand" pos="0 0 .088"><freejoint/><geom size=".09"/></body></worldbody>
    <actuator><general name="cling" body="hand" gainprm="3" biastype="affine" biasprm="1 0 -0.7"/></actuator>
    <sensor><actuatorfrc actuator="cling"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.2 + 0.1 * i;
  data->ctrl[0] = 0.7;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  EXPECT_GT(Linearize(model.get(), data.get()).C.cwiseAbs().maxCoeff(), 0.1);
  ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get()));
}

// (M19): libccd's search ends at another point every few hundredths of a millimetre, and the distance jumps there
TEST_F(SensorReferenceTest, DistancesOfASearchThatJumpsNearbyAreThoseBetweenJumps) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option><flag nativeccd="disable"/></option><worldbody>
    <body pos="0 0 .3"><joint type="ball"/><geom name="egg" type="ellipsoid" size=".07 .105 .093" pos=".02 .01 .03"/></body>
    <body pos=".25 .1 .2" euler="20 40 10"><freejoint/><geom name="rod" type="capsule" size=".046 .119"/></body></worldbody>
    <sensor><distance geom1="egg" geom2="rod" cutoff="1"/></sensor></mujoco>)");
  for (unsigned seed = 1; seed < 20; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.position = 0.15}));
    const StepDerivative value = Linearize(model.get(), data.get(), {.level = Level::kAnalytic});
    ExpectReference(model.get(), data.get(), value);
  }
}

// (C21) the engine's force of a contact is less by its adhesion: pressed, pulled with a row that carries something, and
// pulled within the gap where it carries nothing
TEST_F(SensorReferenceTest, ForcesOfContactsAreLessByTheirAdhesion) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const double height : {-0.003, 0.001, 0.02}) {
      const ModelPtr model = LoadModelFromString(std::string("<mujoco><option cone='") + cone + R"('/><worldbody>
        <geom type="plane" size="1 1 1" euler="5 3 0" gap=".05" adhesion="2"/>
        <body><joint type="slide" axis="0 0 1"/><joint axis="1 .3 .2"/><joint axis="0 1 .1"/><geom size=".1" contype="0"/><site name="wrist" pos=".1 .2 0"/>
          <body name="hand" pos=".2 .1 -.1"><joint axis="0 .2 1"/><geom type="capsule" size=".05 .1" euler="70 10 0" pos=".1 0 0" adhesion="3"/></body></body></worldbody>
        <sensor><force site="wrist"/><torque site="wrist"/><contact body1="hand" data="force torque pos" reduce="netforce"/>
          <contact body1="hand" data="force dist pos normal" num="2"/></sensor></mujoco>)");
      const DataPtr data = MakeData(model.get());
      data->qpos[1] = 0.1;
      mj_forward(model.get(), data.get());
      mjtNum fromto[6];
      data->qpos[0] += height - mj_geomDistance(model.get(), data.get(), 0, 2, 9, fromto) * 0.99;
      for (int k = 0; k < 4; k++) data->qvel[k] = 0.1 * (k - 2);
      mj_forward(model.get(), data.get());
      ASSERT_GT(data->ncon, 0);
      SCOPED_TRACE(cone + (", " + std::to_string(height)));
      const StepDerivative value = Linearize(model.get(), data.get());
      EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
      EXPECT_GT(value.C.cwiseAbs().maxCoeff(), 1);
      ExpectReference(model.get(), data.get(), value);
    }
  }
}

}  // namespace
}  // namespace costate
