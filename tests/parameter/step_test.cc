// P = ∂x'/∂θ and Ps = ∂s/∂θ of whole matrices against differences of converged steps at several sizes.
#include <costate/derivative.h>

#include <algorithm>
#include <cmath>

#include "parameter/differences.h"
#include "parameter/scenes.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using support::Differences;
using Reference = support::ParameterReference;

// each column on its own scale: |value − reference| ≤ tolerance × the column's largest entry + 3 bars
void ExpectColumns(const MatrixXd& value, const MatrixXd& reference, const MatrixXd& error, double tolerance,
                   const ParameterSet& set, const char* what) {
  ASSERT_EQ(value.rows(), reference.rows());
  ASSERT_EQ(value.cols(), reference.cols());
  for (int k = 0; k < value.cols() && value.rows() > 0; k++) {
    const double scale = reference.col(k).cwiseAbs().maxCoeff();
    for (int i = 0; i < value.rows(); i++) {
      EXPECT_LE(std::abs(value(i, k) - reference(i, k)), tolerance * scale + 3 * error(i, k) + 1e-13)
          << what << " row " << i << " by " << set[k].name << ": " << value(i, k) << ", reference " << reference(i, k)
          << " ± " << error(i, k) << ", column's largest " << scale;
    }
    // the reference must be able to judge: 1 % of the column is far above its error bars
    Eigen::Index row = 0;
    if (scale > 1e-12) {
      reference.col(k).cwiseAbs().maxCoeff(&row);
      EXPECT_LT(3 * error(row, k) + tolerance * scale, 1e-2 * scale) << what << " by " << set[k].name;
    }
  }
}

struct Case {
  int scene, integrator, cone;
  Level level;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << "scene " << c.scene << ", integrator " << c.integrator << ", cone " << c.cone << ", " << ToString(c.level);
}

class ParameterClamp : public support::EngineTest {};
class ParameterStep : public support::EngineTest, public ::testing::WithParamInterface<Case> {};

// at its state, without controls
StepDerivative DerivativeBy(const ParameterSet& set, const mjData* data) {
  Linearizer linearizer(set.model());
  linearizer.SetParameters(&set);
  StepDerivative out;
  linearizer.Linearize(GetState(set.model(), data), VectorXd(), &out);
  return out;
}

TEST_P(ParameterStep, AgreesWithDifferencesOfStepsOfTheChangedModel) {
  const Case c = GetParam();
  const support::ParameterScene scene = support::ParameterScenes()[c.scene];
  const ModelPtr model = LoadModelFromString(scene.xml);
  model->opt.integrator = c.integrator;
  model->opt.cone = c.cone;
  const ParameterSet set(model.get(), scene.parameters);
  const DataPtr point = support::ScenePoint(model.get(), scene.steps);
  Linearizer linearizer(set.model(), {.level = c.level});
  linearizer.SetContext(GetContext(model.get(), point.get()));
  linearizer.SetParameters(&set);
  const VectorXd x = GetState(model.get(), point.get()), u = Eigen::Map<VectorXd>(point->ctrl, model->nu);
  StepDerivative out;
  linearizer.Linearize(x, u, &out);
  ASSERT_EQ(out.status, StepStatus::kOk);
  const Reference reference = Differences(set, point.get(), 1);
  const double tolerance = c.level == Level::kStep ? 2e-5 : 2e-7;  // of steps: rounding over the nudge
  ExpectColumns(out.P, reference.P, reference.P_error, tolerance, set, "P");
  ExpectColumns(out.Ps, reference.Ps, reference.Ps_error, tolerance, set, "Ps");

  // nearly all of the scene's parameters move something
  int moving = 0;
  std::string idle;
  for (int k = 0; k < set.size(); k++) {
    const bool moves = out.P.col(k).cwiseAbs().maxCoeff() + out.Ps.col(k).norm() > 0;
    moving += moves;
    if (!moves) idle += " " + set[k].name;
  }
  EXPECT_GT(moving, 0.85 * set.size()) << idle;

  // λᵀ P without P: by closed forms where there are, against P's differences
  VectorXd lambda(out.P.rows());
  for (int i = 0; i < lambda.size(); i++) lambda[i] = std::sin(1.0 + 2.3 * i);
  StepVjp vjp;
  linearizer.Vjp(x, u, lambda, &vjp);
  const VectorXd expected = out.P.transpose() * lambda, sizes = out.P.cwiseAbs().transpose() * lambda.cwiseAbs();
  ASSERT_EQ(vjp.theta.size(), set.size());
  for (int k = 0; k < set.size(); k++) {
    EXPECT_NEAR(vjp.theta[k], expected[k], 1e-7 * sizes[k] + 1e-12 * sizes.maxCoeff()) << set[k].name;
  }
  EXPECT_TRUE(support::MatricesNearRelative(vjp.x, out.A.transpose() * lambda, 1e-9));

  // with covectors of the sensors, and those alone
  VectorXd sigma(out.C.rows());
  for (int i = 0; i < sigma.size(); i++)
    sigma[i] = std::cos(0.7 + 1.9 * i) / std::max(1.0, out.Ps.row(i).cwiseAbs().maxCoeff());
  StepVjp sensed, last;
  linearizer.Vjp(x, u, lambda, sigma, &sensed);
  linearizer.VjpSensors(x, sigma, &last);
  StepDerivative end;
  linearizer.LinearizeSensors(x, &end);
  for (int k = 0; k < set.size(); k++) {
    const double of_sensors = out.Ps.col(k).dot(sigma), size = out.Ps.col(k).cwiseAbs().dot(sigma.cwiseAbs());
    EXPECT_NEAR(sensed.theta[k], expected[k] + of_sensors, 1e-7 * (sizes[k] + size) + 1e-10 * (sizes.maxCoeff() + 1))
        << set[k].name;
    const double last_size = end.Ps.col(k).cwiseAbs().dot(sigma.cwiseAbs());
    EXPECT_NEAR(last.theta[k], end.Ps.col(k).dot(sigma), 1e-7 * last_size + 1e-10) << set[k].name;
  }

  // the third scene's parameters have closed forms, unless M' holds velocity products
  const bool closed = c.integrator == mjINT_EULER || c.integrator == mjINT_RK4 || c.integrator == mjINT_IMPLICITFAST;
  if (c.scene == 2 && c.level == Level::kBest && closed) {
    EXPECT_EQ(vjp.coverage.Worst(), Level::kAnalytic);
    EXPECT_EQ(vjp.coverage.terms.back().term, "parameters");

    // level 1 alone then has P too: one formula with the pull-back, and no difference in it
    Linearizer strict(set.model(), {.level = Level::kAnalytic, .sensors = false});
    strict.SetContext(GetContext(model.get(), point.get()));
    strict.SetParameters(&set);
    StepDerivative exact;
    strict.Linearize(x, u, &exact);
    ExpectColumns(exact.P, reference.P, reference.P_error, tolerance, set, "P at level 1");
    const VectorXd pulled = exact.P.transpose() * lambda,
                   exact_sizes = exact.P.cwiseAbs().transpose() * lambda.cwiseAbs();
    for (int k = 0; k < set.size(); k++) EXPECT_NEAR(vjp.theta[k], pulled[k], 1e-10 * exact_sizes[k]) << set[k].name;
  }
  if (c.scene != 2 && c.level == Level::kBest && c.integrator != mjINT_DISCRETE) {
    Linearizer strict(set.model(), {.level = Level::kAnalytic, .sensors = false});
    strict.SetContext(GetContext(model.get(), point.get()));
    strict.SetParameters(&set);
    EXPECT_THROW(strict.Vjp(x, u, lambda, &vjp), Error);
  }
}

// A body's place along its slide joints is what the joints move: P by it is A by them, and the place of what it lies on
// is as much with the other sign. Contacts of ellipsoids are a staircase of the collider, and differences of its steps
// would be anything.
TEST_F(ParameterClamp, PlacesMoveContactsOfCurvedSurfacesAsJointsDo) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <geom name="stone" type="ellipsoid" size=".3 .25 .1"/>
    <body name="b" pos=".02 .03 .178"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
      <geom type="ellipsoid" size=".1 .12 .08" euler="10 20 0"/></body>
    </worldbody></mujoco>)");
  const ParameterSet set(model.get(), {"body:b/pos", "geom:stone/pos"});
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  const StepDerivative out = DerivativeBy(set, data.get());
  const MatrixXd joints = out.A.block(3, 0, 3, 3);
  EXPECT_GT(joints.cwiseAbs().maxCoeff(), 1);
  EXPECT_TRUE(support::MatricesNearRelative(out.P.block(3, 0, 3, 3), joints, 1e-8));
  EXPECT_TRUE(support::MatricesNearRelative(out.P.block(3, 3, 3, 3), -joints, 1e-8));
}

// The axes of equal moments are free, and a fluid's box has them: another mass, or centre, leaves them where they are
TEST_F(ParameterClamp, EqualMomentsKeepTheirAxesInAFluid) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option density="300" viscosity=".1"/><worldbody>
    <body name="rod" euler="20 50 -30"><freejoint/><geom type="capsule" size=".03 .1" pos=".02 .01 .03" euler="40 10 60"/></body>
    <body name="ball" pos="1 0 0"><freejoint/><geom size=".05" pos=".01 .02 .01" euler="10 70 20"/></body>
    </worldbody></mujoco>)");
  std::vector<std::string> names;
  for (const char* body : {"rod", "ball"}) {
    for (int index : {0, 7, 8, 9})
      names.push_back("body:" + std::string(body) + "/inertia[" + std::to_string(index) + "]");
  }
  const ParameterSet set(model.get(), names);
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(), support::RandomState(model.get(), 6, {.velocity = 2}));
  const StepDerivative out = DerivativeBy(set, data.get());
  const Reference reference = Differences(set, data.get(), 1);
  ExpectColumns(out.P, reference.P, reference.P_error, 2e-7, set, "P");
  ParameterSet moved(set);
  for (const double step : {-1e-3, 1e-5}) {
    moved.Set(set.Get().array() + step);
    for (int i = 4; i < 4 * model->nbody; i++) EXPECT_NEAR(moved.model()->body_iquat[i], model->body_iquat[i], 1e-12);
  }
}

// … but parted they jump, and the box's drag with them: the coverage says which numbers have no derivative. It says
// nothing of moments that differ, of ellipsoids, whose drag has the geom's axes, nor without a fluid.
TEST_F(ParameterClamp, MomentsThatPartInAFluidAreSaidToHaveNoDerivative) {
  const std::string bodies = R"(<worldbody>
    <body name="rod"><freejoint/><geom type="capsule" size=".03 .1" pos=".1 0 0"/></body>
    <body name="box" pos="1 0 0"><freejoint/><geom type="box" size=".05 .06 .07" pos=".1 0 0"/></body>
    <body name="fish" pos="2 0 0"><freejoint/><geom type="capsule" size=".03 .1" pos=".1 0 0" fluidshape="ellipsoid"/></body>
    </worldbody></mujoco>)";
  std::vector<std::string> names;
  for (const char* body : {"rod", "box", "fish"}) names.push_back("body:" + std::string(body) + "/inertia");
  for (const Level level : {Level::kBest, Level::kResidual}) {
    for (const bool fluid : {true, false}) {
      const ModelPtr model = LoadModelFromString((fluid ? "<mujoco><option density='300'/>" : "<mujoco>") + bodies);
      const ParameterSet set(model.get(), names);
      Linearizer linearizer(set.model(), {.level = level});
      linearizer.SetParameters(&set);
      const DataPtr data = MakeData(model.get());
      StepDerivative out;
      linearizer.Linearize(GetState(model.get(), data.get()), VectorXd(), &out);
      std::string without;
      for (const TermCoverage& term : out.coverage.terms) {
        if (term.reason.rfind("no derivative: equal principal moments", 0) == 0) without += term.term + " ";
      }
      std::string expected;
      for (int i = 1; i <= 6 && fluid; i++) expected += "parameter body:rod/inertia[" + std::to_string(i) + "] ";
      EXPECT_EQ(without, expected);
    }
  }
}

// solimp="0 …" makes contact onset smooth: its first number is at its bound, and below the engine's least, where it
// does nothing.
TEST_F(ParameterClamp, AZeroImpedanceHasDerivativeZero) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body pos="0 0 .0995"><freejoint/><geom name="ball" size=".1" solimp="0 .95 .001" priority="1"/></body></worldbody></mujoco>)");
  const ParameterSet set(model.get(), {"geom:ball/solimp[0]", "geom:ball/solimp[1]"});
  const DataPtr data = MakeData(model.get());
  const StepDerivative out = DerivativeBy(set, data.get());
  EXPECT_EQ(out.P.col(0).norm(), 0);
  EXPECT_GT(out.P.col(1).norm(), 1e-3);
}

// The default time constant is two steps of 10 ms: the engine takes no shorter one. There, and where impedances are
// clamped, a number acts on one side alone, and that side's slope is the derivative; beyond the clamp it does nothing.
TEST_F(ParameterClamp, HasTheSlopeOfTheSideWhereTheNumberActs) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".01"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1" solimp=".9 .9999 .01 .5 1"/>
    <body pos="0 0 .097"><freejoint/><geom name="ball" size=".1" solimp=".9 .9999 .01 .5 1"/></body>
    <body pos="1 0 1"><joint name="short" axis="0 1 0" range="0 1" limited="true" solreflimit=".015 1"/><geom size=".1" pos=".2 0 0"/></body>
    </worldbody></mujoco>)");
  const ParameterSet set(
      model.get(), {"geom:ball/solref[0]", "geom:ball/solimp[1]", "geom:ball/solimp[4]", "joint:short/solreflimit[0]"});
  EXPECT_EQ(set[0].clamp_lower, 0.02);
  EXPECT_EQ(set[1].clamp_upper, 0.9999);
  EXPECT_EQ(set[2].clamp_lower, 1);
  const DataPtr data = MakeData(model.get());
  data->qpos[7] = -0.05;
  const StepDerivative out = DerivativeBy(set, data.get());
  ASSERT_EQ(out.status, StepStatus::kOk);

  const auto velocity = [&](int k, double offset, int dof) {
    ParameterSet moved(set);
    moved.Set(set.Get() + offset * VectorXd::Unit(set.size(), k));
    const DataPtr d = MakeData(moved.model());
    mju_copy(d->qpos, data->qpos, model->nq);
    mjModel m = *moved.model();
    m.opt.tolerance = 0;
    mj_step(&m, d.get());
    return d->qvel[dof];
  };
  const int inside[] = {1, -1, 1};
  for (int k = 0; k < 3; k++) {
    SCOPED_TRACE(set[k].name);
    const double h = inside[k] * set[k].nudge, at = velocity(k, 0, 2);
    const double slope = (-25 * at + 48 * velocity(k, h, 2) - 36 * velocity(k, 2 * h, 2) + 16 * velocity(k, 3 * h, 2) -
                          3 * velocity(k, 4 * h, 2)) /
                         (12 * h);
    EXPECT_EQ(velocity(k, -h, 2), at);
    EXPECT_GT(std::abs(slope), 1e-3);
    EXPECT_NEAR(out.P(model->nv + 2, k), slope, 1e-6 * std::abs(slope));
  }
  EXPECT_EQ(out.P.col(3).norm(), 0);
  EXPECT_LT(data->qpos[7], 0);
}

// A nudge of a damping is as large as M over the time step asks for, and takes sensors beyond their cutoffs: those that
// the point itself holds have no slope, the others that of the sensor without one, in columns and in pull-backs.
TEST_F(ParameterClamp, CutoffsWithinANudgeLeaveTheSlope) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="RK4"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1" solref=".006 .8"/>
    <body pos="0 0 .3"><joint name="a" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/><site name="s" pos=".3 0 0"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .01 0 -.271" condim="1"/></body></body>
    </worldbody><sensor><frameangacc objtype="site" objname="s"/><force site="s"/></sensor></mujoco>)");
  const ParameterSet set(model.get(), {"joint:a/damping", "joint:b/damping", "geom:floor/solref[0]"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 9;
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->nefc, 0);
  ASSERT_GT(data->efc_force[0], 0);
  const double angular = std::abs(data->sensordata[1]), force = std::abs(data->sensordata[5]);
  const auto derivatives = [&](const ParameterSet& of, MatrixXd* pulled) {
    Linearizer linearizer(of.model());
    linearizer.SetParameters(&of);
    StepDerivative out;
    const VectorXd x = GetState(model.get(), data.get()), zero = VectorXd::Zero(4);
    linearizer.Linearize(x, VectorXd(), &out);
    StepVjp vjp;
    pulled->resize(6, 3);
    for (int i = 0; i < 6; i++) {
      linearizer.Vjp(x, VectorXd(), zero, VectorXd::Unit(6, i), &vjp);
      pulled->row(i) = vjp.theta;
    }
    return out.Ps;
  };
  MatrixXd pulled, expected_pulled;
  const MatrixXd expected = derivatives(set, &expected_pulled);
  EXPECT_TRUE(support::MatricesNearRelative(expected_pulled, expected, 1e-8));
  for (const bool held : {false, true}) {
    model->sensor_cutoff[0] = angular * (held ? 0.999999 : 1.000001);
    model->sensor_cutoff[1] = force * (held ? 0.999999 : 1.000001);
    const ParameterSet limited(model.get(), set.Names());
    const MatrixXd value = derivatives(limited, &pulled);
    MatrixXd free = expected;
    if (held) free.row(1).setZero(), free.row(5).setZero();
    EXPECT_GT(free.row(3).norm(), 1e-3);
    EXPECT_TRUE(support::MatricesNearRelative(value, free, 1e-6)) << value << "\n" << free;
    EXPECT_TRUE(support::MatricesNearRelative(pulled, free, 1e-6)) << pulled << "\n" << free;
  }
}

// The engine takes frames for one that are within 1e-6 of each other, of quaternions in each of their numbers: a geom,
// site or inertia that lies on another frame would seem not to move.
TEST_F(ParameterClamp, WhatLiesOnItsBodysFrameIsMoved) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body name="b" pos="0 0 .15" quat=".9 .3 .2 .1"><freejoint/>
      <geom name="box" type="box" size=".1 .15 .2" quat=".13 .43 .56 -.7"/><site name="s" quat=".13 .43 .56 -.7"/></body>
    </worldbody><sensor><framequat objtype="site" objname="s"/></sensor></mujoco>)");
  ASSERT_NE(model->geom_sameframe[1], mjSAMEFRAME_NONE);
  const ParameterSet set(model.get(), {"geom:box/rotation", "site:s/rotation", "geom:box/pos"});
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->ncon, 0);
  for (const Level level : {Level::kBest, Level::kStep}) {
    Linearizer linearizer(set.model(), {.level = level});
    linearizer.SetParameters(&set);
    StepDerivative out;
    linearizer.Linearize(GetState(model.get(), data.get()), VectorXd(), &out);
    ParameterSet moved(set);
    for (int k = 0; k < set.size(); k++) {
      SCOPED_TRACE(set[k].name);
      const auto at = [&](double offset) {
        moved.Set(set.Get() + offset * VectorXd::Unit(set.size(), k));
        const DataPtr d = MakeData(moved.model());
        mjModel m = *moved.model();
        m.opt.tolerance = 0;
        mj_step(&m, d.get());
        VectorXd all(10);
        all << Eigen::Map<VectorXd>(d->qvel, 6), Eigen::Map<VectorXd>(d->sensordata, 4);
        return all;
      };
      constexpr double h = 8e-6;
      const VectorXd slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      VectorXd value(10);
      value << out.P.col(k).segment(6, 6), out.Ps.col(k);
      EXPECT_GT(slope.norm(), 1e-2);
      EXPECT_LT((value - slope).norm(), 1e-5 * slope.norm()) << value.transpose() << "\n" << slope.transpose();
    }
  }
}

// What delayed actuators get comes from the history, for pull-backs to parameters too; a sensor of the past has no
// slope.
TEST_F(ParameterClamp, PullBacksOfDelayedModelsAreTheirColumns) {
  for (const char* integrator : {"Euler", "discrete"}) {
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option integrator='") + integrator + R"('/><worldbody>
      <body pos="0 0 .3"><joint name="a" axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
        <body name="b" pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 -.28"/></body></body>
      </worldbody><actuator><motor name="late" joint="b" gear="3" delay=".006" nsample="5"/></actuator>
      <sensor><framelinacc objtype="body" objname="b"/><framelinacc objtype="body" objname="b" delay=".004" nsample="4"/></sensor></mujoco>)");
    const ParameterSet set(model.get(), {"body:b/mass", "body:b/pos[0]", "actuator:late/gear[0]", "joint:a/damping"});
    const DataPtr data = MakeData(model.get());
    for (int k = 0; k < 30; k++) {
      data->ctrl[0] = 2 * std::sin(0.4 * k);
      mj_step(model.get(), data.get());
    }
    data->ctrl[0] = -3;
    Linearizer linearizer(set.model());
    linearizer.SetContext(GetContext(model.get(), data.get()));
    linearizer.SetParameters(&set);
    const VectorXd x = GetState(model.get(), data.get()), u = Eigen::Map<VectorXd>(data->ctrl, 1);
    StepDerivative out;
    linearizer.Linearize(x, u, &out);
    EXPECT_EQ(out.Ps.bottomRows(3).norm(), 0);
    const Reference reference = Differences(set, data.get(), 1);
    StepVjp vjp;
    const VectorXd none = VectorXd::Zero(4), lambda = support::Random(3).Vector(4),
                   sigma = support::Random(4).Vector(6);
    linearizer.Vjp(x, u, lambda, sigma, &vjp);
    EXPECT_NE(vjp.coverage.Worst(), Level::kStep);
    EXPECT_TRUE(support::MatricesNearRelative(
        vjp.theta, reference.P.transpose() * lambda + reference.Ps.transpose() * sigma, 1e-6))
        << integrator << vjp.theta.transpose();
    linearizer.Vjp(x, u, none, VectorXd::Unit(6, 4), &vjp);
    EXPECT_EQ(vjp.theta.norm(), 0);
  }
}

std::string WithoutDerivative(const Coverage& coverage) {
  std::string without;
  for (const TermCoverage& term : coverage.terms) {
    if (term.reason.rfind("no derivative: ", 0) == 0) without += term.term + ": " + term.reason.substr(15) + "; ";
  }
  return without;
}

// A ball 1.9 um deep and dry joints that have almost come to rest: nudges of 1.5e-6 in place and 1e-5 N m in friction
// loss lift the one off the floor and make the others stick. Whole steps are then differenced nearer to the point.
TEST_F(ParameterClamp, WholeStepsStayOnThePieceOfThePoint) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option noslip_iterations="3" cone="elliptic"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1" pos="0 0 .3"/>
    <body name="ball" pos="0 0 .3999981"><freejoint/><geom name="ball" size=".1" friction="1.2"/><site name="s"/></body>
    <body pos="1 0 .8"><joint name="light" axis="0 1 0"/><geom size=".01" pos=".02 0 0" mass=".02"/>
      <body pos=".04 0 0"><joint name="end" axis="0 1 0"/><geom size=".01" pos=".03 0 0" mass=".02"/></body></body>
    </worldbody><sensor><touch site="s"/><velocimeter site="s"/></sensor></mujoco>)");
  const ParameterSet set(
      model.get(), {"geom:ball/size[0]", "geom:floor/pos[2]", "joint:light/frictionloss", "joint:end/frictionloss"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = .3;
  data->qvel[6] = -9.81 / .03 * model->opt.timestep * 0.7 + .002;
  data->qvel[7] = .004;
  const Reference near = Differences(set, data.get(), 1, 0.25);
  const StepDerivative out = DerivativeBy(set, data.get());
  ASSERT_EQ(out.coverage.Worst(), Level::kStep);
  ExpectColumns(out.P, near.P, near.P_error, 1e-5, set, "P");
  ExpectColumns(out.Ps, near.Ps, near.Ps_error, 1e-5, set, "Ps");
  EXPECT_EQ(WithoutDerivative(out.coverage), "");
}

// On a switch no nudge is small enough: a ball whose distance is exactly 0, two geoms with the same friction, of which
// the larger counts. Columns and pull-backs say so, of these numbers and of no others.
TEST_F(ParameterClamp, WholeStepsSayWhichNumbersLieOnASwitch) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option noslip_iterations="3" cone="elliptic"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body pos="0 0 .125"><joint type="slide" axis="0 0 1"/><geom name="rests" size=".125"/></body>
    <body name="box" pos="1 0 .099"><freejoint/><geom name="slides" type="box" size=".1 .1 .1"/></body>
    </worldbody></mujoco>)");
  const ParameterSet set(model.get(),
                         {"geom:rests/size[0]", "geom:slides/friction[0]", "body:box/mass", "option/gravity[2]"});
  const DataPtr data = MakeData(model.get());
  data->qvel[1] = .3;
  Linearizer linearizer(set.model());
  linearizer.SetParameters(&set);
  const VectorXd x = GetState(model.get(), data.get());
  const std::string expected = "parameter geom:rests/size[0]: contacts; parameter geom:slides/friction[0]: a corner; ";
  StepDerivative out;
  StepVjp vjp;
  for (int twice = 0; twice < 2; twice++) {
    linearizer.Linearize(x, VectorXd(), &out);
    EXPECT_EQ(WithoutDerivative(out.coverage), expected);
    linearizer.Vjp(x, VectorXd(), VectorXd::Ones(14), VectorXd(), &vjp);
    EXPECT_EQ(WithoutDerivative(vjp.coverage), expected);
  }
}

// Of two geoms the larger friction counts: of equal ones it has a corner, of such that are nearer to each other than a
// nudge none. A motor's limit of voltage that is off at 0 is a jump, gravity compensation starts there. The others have
// derivatives, and nothing is said of them.
TEST_F(ParameterClamp, CornersAndJumpsAreSaid) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option cone="elliptic"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="a" pos="0 0 .099"><freejoint/><geom name="a" type="box" size=".1 .1 .1" pos=".01 0 0" friction="1"/></body>
    <body name="b" pos="1 0 .099"><freejoint/><geom name="b" type="box" size=".1 .1 .1" friction="1.00003"/></body>
    <body name="c" pos="2 0 .5"><joint name="c" axis="0 1 0"/><geom size=".05" pos=".2 0 0"/><site name="s"/></body>
    </worldbody><actuator><dcmotor name="m" joint="c" resistance=".5" motorconst=".2" input="vel" controller="0 0 .01"/></actuator>
    <sensor><torque site="s"/></sensor></mujoco>)");
  const ParameterSet set(model.get(), {"geom:a/friction[0]", "geom:b/friction[0]", "actuator:m/gainprm[7]",
                                       "actuator:m/gainprm[6]", "body:c/gravcomp", "body:a/mass", "geom:a/pos[0]"});
  ASSERT_EQ(set[2].value, 0);
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 20;
  data->qvel[0] = data->qvel[6] = .3;
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->ncon, 7);
  const Reference near = Differences(set, data.get(), 1, 0.25);
  const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Constant(1, 20);
  const std::string expected =
      "parameter geom:a/friction[0]: a corner; parameter actuator:m/gainprm[7]: a jump; parameter body:c/gravcomp: a "
      "corner; ";
  for (const Level level : {Level::kBest, Level::kResidual}) {
    Linearizer linearizer(set.model(), {.level = level});
    linearizer.SetParameters(&set);
    StepDerivative out;
    linearizer.Linearize(x, u, &out);
    EXPECT_NE(out.coverage.Worst(), Level::kStep);
    EXPECT_EQ(WithoutDerivative(out.coverage), expected);
    StepVjp vjp;
    linearizer.Vjp(x, u, VectorXd::Ones(26), VectorXd::Ones(3), &vjp);
    EXPECT_EQ(WithoutDerivative(vjp.coverage), expected);
    for (const int k : {1, 3, 5, 6}) {
      const double scale = near.P.col(k).norm();
      EXPECT_GT(scale, 1e-6);
      EXPECT_LT((out.P.col(k) - near.P.col(k)).norm(), 1e-6 * scale) << set[k].name;
      EXPECT_LT((out.Ps.col(k) - near.Ps.col(k)).norm(), 1e-6 * std::max(scale, near.Ps.col(k).norm())) << set[k].name;
    }
    EXPECT_EQ(out.P.col(2).norm() + out.Ps.col(2).norm(), 0);  // below 0 it stays off
  }
}

// Numbers that are 0 say nothing of their size: 1e-5 N/m, 1e-7 Pa s move a sensor beside a tonne's weight by less than
// its rounding. Both levels take wider nudges then; forces are linear in all of these, so the reference may too.
TEST_F(ParameterClamp, NudgesAreWideEnoughToBeFelt) {
  for (const bool noslip : {false, true}) {
    const ModelPtr model = LoadModelFromString(std::string("<mujoco><option cone='elliptic' noslip_iterations='") +
                                               (noslip ? "3" : "0") + R"('/><worldbody>
      <geom type="plane" size="5 5 1" solref=".005 1"/>
      <body pos="0 0 .2995"><freejoint/><geom type="box" size=".5 .5 .3" mass="1000"/>
        <body pos=".2 0 .31"><geom type="box" size=".1 .1 .1" mass="5000"/><site name="s"/>
          <body pos="0 0 .2"><joint name="a" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass=".5"/>
            <body pos=".3 0 0"><joint name="b" axis="0 1 .1"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" mass=".2"/></body>
          </body></body></body>
      </worldbody><tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-.7"/></fixed></tendon>
      <sensor><force site="s"/><torque site="s"/></sensor></mujoco>)");
    const ParameterSet set(model.get(), {"tendon:t/stiffness", "tendon:t/damping", "tendon:t/dampingpoly[0]",
                                         "joint:b/stiffnesspoly[0]", "joint:a/stiffness", "option/viscosity"});
    const DataPtr data = MakeData(model.get());
    data->qpos[7] = .2, data->qpos[8] = -.3;
    data->qvel[6] = .7, data->qvel[7] = -1.3;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 4);
    const Reference wide = Differences(set, data.get(), 1, 16 * 1024);
    const StepDerivative out = DerivativeBy(set, data.get());
    EXPECT_EQ(out.coverage.Worst() == Level::kStep, noslip);
    EXPECT_EQ(WithoutDerivative(out.coverage), "");
    ExpectColumns(out.P, wide.P, wide.P_error, 1e-6, set, "P");
    ExpectColumns(out.Ps, wide.Ps, wide.Ps_error, 1e-6, set, "Ps");
  }
}

// Equal moments of inertia leave their axes free: whichever number parts them, the axes jump, and so do sensors of the
// inertial frame. These numbers are said to have no derivative, at each level, and no others.
TEST_F(ParameterClamp, AxesOfEqualMomentsAreSaidToJump) {
  for (const char* noslip : {"0", "3"}) {
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option noslip_iterations='") + noslip + R"('/><worldbody>
      <body name="rod" quat=".7 .3 .1 .2"><freejoint/><geom type="capsule" size=".03 .1" pos=".1 0 0" quat=".5 .2 .6 .1"/></body>
      <body name="ball" pos="1 0 0" quat=".3 .2 .8 .1"><freejoint/><geom size=".1" pos="0 .1 0" quat=".1 .2 .6 .1"/></body>
      <body name="box" pos="2 0 0" quat=".3 .2 .8 .1"><freejoint/><geom type="box" size=".1 .12 .15" quat=".3 .2 .1 .1"/></body>
      </worldbody><sensor><framequat objtype="body" objname="rod"/><framequat objtype="body" objname="ball"/>
      <framequat objtype="body" objname="box"/></sensor></mujoco>)");
    const ParameterSet set(model.get(), {"body:rod/inertia", "body:ball/inertia", "body:box/inertia"});
    const DataPtr data = MakeData(model.get());
    data->qvel[3] = 1;
    const auto sensors = [&](int k, double offset) {
      ParameterSet moved(set);
      moved.Set(set.Get() + offset * VectorXd::Unit(set.size(), k));
      const DataPtr d = MakeData(moved.model());
      mj_forward(moved.model(), d.get());
      return VectorXd(Eigen::Map<VectorXd>(d->sensordata, 12));
    };
    std::string expected;
    std::vector<int> smooth;
    for (int k = 0; k < set.size(); k++) {
      const double jump =
          std::max((sensors(k, 1e-7) - sensors(k, 0)).norm(), (sensors(k, -1e-7) - sensors(k, 0)).norm());
      if (jump > 1e-2) expected += "parameter " + set[k].name + " ";
      else smooth.push_back(k);
    }
    EXPECT_GE(std::count(expected.begin(), expected.end(), ' '), 8);
    const StepDerivative out = DerivativeBy(set, data.get());
    std::string said;
    for (const TermCoverage& term : out.coverage.terms) {
      if (term.reason.rfind("no derivative: ", 0) == 0) said += term.term + " ";
    }
    EXPECT_EQ(said, expected) << noslip << WithoutDerivative(out.coverage);
    const Reference reference = Differences(set, data.get(), 1);
    for (const int k : smooth) {
      EXPECT_LT((out.Ps.col(k) - reference.Ps.col(k)).norm(), 1e-6 * (1 + reference.Ps.col(k).norm())) << set[k].name;
      EXPECT_LT((out.P.col(k) - reference.P.col(k)).norm(), 1e-6 * (1 + reference.P.col(k).norm())) << set[k].name;
    }
  }
}

// PGS starts at the solution of the point: a model moved so little that the first sweep gains next to nothing is no
// reason to stop there. A reference of PGS to its end.
TEST_F(ParameterClamp, SweepsFollowSmallNudges) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option integrator="discrete" solver="PGS" viscosity="5e-4" density="50"/>
    <worldbody><body name="b" pos="0 0 .5"><joint name="j" axis=".14 -.5 .86" armature=".006" frictionloss=".06"/>
      <geom type="cylinder" size=".05 .05" pos="-.045 0 0" density="2000"/></body></worldbody>
    <equality><connect body1="b" anchor=".04 -.06 -.05"/></equality></mujoco>)");
  const ParameterSet set(model.get(), {"option/viscosity", "option/density", "joint:j/armature"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = .045;
  data->qpos[0] = -1e-4;
  const StepDerivative out = DerivativeBy(set, data.get());
  ASSERT_EQ(out.coverage.Worst(), Level::kStep);
  EXPECT_EQ(WithoutDerivative(out.coverage), "");
  ParameterSet moved(set);
  for (int k = 0; k < set.size(); k++) {
    const auto velocity = [&](double offset) {
      moved.Set(set.Get() + offset * VectorXd::Unit(set.size(), k));
      mjModel m = *moved.model();
      m.opt.tolerance = 0;
      m.opt.iterations = 20000;
      const DataPtr d = MakeData(moved.model());
      d->qpos[0] = data->qpos[0];
      d->qvel[0] = data->qvel[0];
      mj_step(&m, d.get());
      return d->qvel[0];
    };
    const double h = 16 * set[k].nudge, slope = (velocity(h) - velocity(-h)) / (2 * h);
    EXPECT_NEAR(out.P(1, k), slope, 1e-3 * std::abs(slope)) << set[k].name;
  }
}

// A carriage of 10 g under a load of 100 kg that slides on it: the joint's own entry of M, of which a nudge of its
// damping is 1e-4, is the load's, what the damping slows down is the carriage.
TEST_F(ParameterClamp, NudgesThatBendAreMadeShorter) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body><joint name="carriage" type="slide" axis="1 0 0"/><geom size=".01" mass=".01"/>
      <body pos="0 0 .1"><joint name="load" type="slide" axis="1 0 0" damping=".1"/><geom size=".1" mass="100"/></body></body>
    </worldbody></mujoco>)");
  const ParameterSet set(model.get(), {"joint:carriage/damping", "joint:load/damping"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = .7;
  data->qvel[1] = -.4;
  const Reference near = Differences(set, data.get(), 1, 1e-2);
  for (const Level level : {Level::kBest, Level::kResidual}) {
    Linearizer linearizer(set.model(), {.level = level});
    linearizer.SetParameters(&set);
    StepDerivative out;
    linearizer.Linearize(GetState(model.get(), data.get()), VectorXd(), &out);
    ExpectColumns(out.P, near.P, near.P_error, 1e-6, set, "P");
  }
}

// A tendon exactly at rest has no stiffness in the metric of the discrete integrator, but beside it: what neighbours by
// the state differ by is no noise of numbers of the model, whose column is as sure as anywhere.
TEST_F(ParameterClamp, ATendonAtRestIsNoNoise) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete" timestep=".004"/><worldbody>
    <body pos="0 0 .5"><joint name="j" axis="0 1 0" damping=".03"/><geom name="g" type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
      <body name="b" pos=".3 0 0"><joint name="k" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 .1"/></body></body>
    </worldbody><tendon><fixed stiffness="26"><joint joint="j" coef="-.6"/></fixed></tendon>
    <sensor><jointpos joint="j"/><framelinacc objtype="body" objname="b"/></sensor></mujoco>)");
  const ParameterSet set(model.get(), {"joint:k/armature", "joint:j/armature", "body:b/mass", "joint:j/damping"});
  const DataPtr data = MakeData(model.get());
  data->qpos[1] = .3;
  data->qvel[0] = .6;
  data->qvel[1] = -4;
  const Reference reference = Differences(set, data.get(), 1, 4);
  const StepDerivative out = DerivativeBy(set, data.get());
  ASSERT_EQ(out.coverage.Worst(), Level::kStep);
  ExpectColumns(out.P, reference.P, reference.P_error, 1e-6, set, "P");
  ExpectColumns(out.Ps, reference.Ps, reference.Ps_error, 1e-6, set, "Ps");
}

// (V4) a stiff row's force turns round a ten thousandth of the acceleration away, and a touch sensor leaves it out
// there
TEST_F(ParameterClamp, PullBacksOfTouchFromStiffRowsAreThoseOfColumns) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
    <option timestep=".002" integrator="implicitfast" impratio="100"><flag diagexact="enable"/></option>
    <worldbody>
      <geom name="floor" type="plane" size="1 1 .1" condim="4" friction=".05 .01 .02" solimp=".5 .9 .002 .1 5"/>
      <body pos="0 0 .05"><freejoint/><geom name="pill" type="capsule" size=".05 .03" condim="4" friction=".05 .01 .01"
        solimp=".9 .905 .002 .14 3" density="600"/><site name="s" type="sphere" size=".2"/></body>
    </worldbody><sensor><touch site="s"/></sensor></mujoco>)");
  const ParameterSet set(model.get(), {"geom:floor/solmix", "body:1/mass", "option/gravity[2]"});
  const DataPtr data = MakeData(model.get());
  mju_copy(data->qpos + 3, std::array{0.7, 0.1, 0.6, 0.2}.data(), 4);
  mju_normalize4(data->qpos + 3);
  data->qpos[2] = -.5;
  for (int i = 0; i < 6; ++i) data->qvel[i] = std::array{1., -.1, -.1, -3., -3., 1.}[static_cast<std::size_t>(i)];
  const StepDerivative columns = DerivativeBy(set, data.get());
  Linearizer linearizer(set.model());
  linearizer.SetParameters(&set);
  StepVjp vjp;
  linearizer.Vjp(GetState(model.get(), data.get()), VectorXd(), VectorXd::Zero(12), VectorXd::Ones(1), &vjp, true);
  const double weight_by_gravity = model->body_mass[1];
  EXPECT_NEAR(vjp.qfrc[2] * weight_by_gravity, columns.Ps(0, 2), 1e-6 * std::abs(columns.Ps(0, 2)));
  for (int k = 0; k < set.size(); k++) {
    EXPECT_NE(columns.Ps(0, k), 0);
    EXPECT_NEAR(vjp.theta[k], columns.Ps(0, k), 1e-6 * std::abs(columns.Ps(0, k))) << set[k].name;
  }
}

// (Q9) a force that two stiff equalities make, 3e4 N, has few digits for what a place changes of it within 2.5e-6 m;
// what a pull-back reads has all of them
TEST_F(ParameterClamp, PlacesHaveWiderNudgesForSensorsOfGreatForces) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
    <option timestep=".005" integrator="implicitfast" cone="elliptic" impratio=".5"/><worldbody>
    <geom name="floor" type="box" size="2 2 .1" pos="0 0 -.1" euler="-.1 -.01 2.2" condim="6" solref="-300 -10" solimp=".5 .9 .05 .3 2"/>
    <body pos="0 -.05 .158" euler="6.5 -.4 16"><joint name="lift" type="slide" axis="-.4 -.1 .05" armature=".06"/>
      <geom pos="-.064 .063 -.073" size=".095" density="300"/><site name="low" pos="-.05 -.11 .11"/></body>
    <body pos="-.6 0 .6"><joint axis="0 1 .2"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" contype="0"/>
      <site name="s" pos=".15 0 .1"/><body pos=".3 0 0"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0"
        size=".03" contype="0"/><site name="high" pos=".2 .02 .08"/></body></body></worldbody>
    <equality><connect site1="low" site2="high" solref=".01 1.2" solimp=".3 .95 .02 .6 3"/>
      <joint joint1="lift" polycoef="-.011 0 0 0 0"/></equality><sensor><force site="s"/></sensor></mujoco>)");
  const ParameterSet set(model.get(), {"geom:floor/pos[0]", "geom:floor/pos[1]", "geom:floor/rotation[0]"});
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < 3; ++i) data->qpos[i] = std::array{.025076, .265375, .92407}[static_cast<std::size_t>(i)];
  const StepDerivative columns = DerivativeBy(set, data.get());
  Linearizer linearizer(set.model());
  linearizer.SetParameters(&set);
  const VectorXd largest = columns.Ps.cwiseAbs().colwise().maxCoeff();
  for (int row = 0; row < 3; ++row) {
    StepVjp vjp;
    linearizer.VjpSensors(GetState(model.get(), data.get()), VectorXd::Unit(3, row), &vjp);
    for (int k = 0; k < set.size(); ++k) {
      EXPECT_GT(largest[k], 0.1);
      EXPECT_NEAR(columns.Ps(row, k), vjp.theta[k], 1e-7 * largest[k]) << row << " " << set[k].name;
    }
  }
}

// (Q9) a hinge that a connect holds: its axis changes next to nothing, the rows' forces have the rounding
TEST_F(ParameterClamp, PlacesHaveWiderNudgesForColumnsThatRoundingHides) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".002"/><worldbody>
    <body name="a" pos="0 0 1"><freejoint/><geom size=".06" mass=".9"/>
      <body name="b" pos=".09 .04 .13" euler="20 -40 70"><joint name="held" axis=".8 -.3 .9" pos=".02 .02 -.02"/>
        <geom size=".05" pos="-.03 .01 -.02" mass=".3"/></body></body></worldbody>
    <equality><connect body1="b" body2="a" anchor=".06 -.07 -.03"/></equality></mujoco>)");
  const ParameterSet set(model.get(), {"joint:held/axis[0]", "joint:held/pos[0]"});
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < 6; i++) data->qvel[i] = .4 * std::sin(2 + 3 * i);
  for (int i = 0; i < 8; i++) mj_step(model.get(), data.get());
  const Reference wide = Differences(set, data.get(), 1, 200);
  ExpectColumns(DerivativeBy(set, data.get()).P, wide.P, wide.P_error, 2e-6, set, "P");
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int scene : {0, 1, 2}) {
    for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
      cases.push_back({scene, integrator, mjCONE_PYRAMIDAL, Level::kBest});
    }
    cases.push_back({scene, mjINT_EULER, mjCONE_ELLIPTIC, Level::kBest});
    cases.push_back({scene, mjINT_IMPLICITFAST, mjCONE_ELLIPTIC, Level::kResidual});
    cases.push_back({scene, mjINT_RK4, mjCONE_ELLIPTIC, Level::kResidual});
    cases.push_back({scene, mjINT_EULER, mjCONE_ELLIPTIC, Level::kStep});
    cases.push_back({scene, mjINT_DISCRETE, mjCONE_ELLIPTIC, Level::kBest});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(ScenesIntegratorsConesLevels, ParameterStep, ::testing::ValuesIn(Cases()));

}  // namespace
}  // namespace costate
