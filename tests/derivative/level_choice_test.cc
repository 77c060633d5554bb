// Terms without closed form and models outside the theorem: which level is taken, that coverage names it, and that it
// is right.
#include <costate/certificate.h>
#include <costate/derivative_check.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "derivative/contact_geometry.h"
#include "derivative/crossed_boxes.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using LevelChoiceTest = support::EngineTest;

void ExpectAgrees(const mjModel* m, const mjData* d, const StepDerivative& value, double tolerance) {
  for (const BlockComparison& block :
       Compare(m, value, Reference(m, d, {.sensors = false}), {.tolerance = tolerance}).blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                              << block.worst.value << " " << block.worst.reference << " +- " << block.worst.error_bar;
  }
}

const TermCoverage* FindTerm(const StepDerivative& value, const std::string& term) {
  const auto found = std::find_if(value.coverage.terms.begin(), value.coverage.terms.end(),
                                  [&](const TermCoverage& t) { return t.term == term; });
  return found == value.coverage.terms.end() ? nullptr : &*found;
}

// a fluid's damping in the matrix of an implicit integrator
TEST_F(LevelChoiceTest, FluidsUnderImplicitIntegratorsAreAnalytic) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep="0.003" density="900" viscosity="0.4" wind="0.3 -0.7 0.2"/>
    <default><geom contype="0" fluidcoef="0.5 0.25 1.5 1.1 0.8"/></default><worldbody>
      <body pos="0 0 1"><freejoint/><geom type="ellipsoid" size="0.1 0.2 0.05" fluidshape="ellipsoid" euler="10 20 30"/>
        <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.04 0.1" euler="0 70 0"/></body></body></worldbody></mujoco>)");
  mjModel* m = model.get();
  for (int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    const DataPtr data = MakeData(m);
    SetState(m, data.get(), support::RandomState(m, 5, {.position = 0.8, .velocity = 3}));
    const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
    for (const TermCoverage& term : value.coverage.terms) EXPECT_EQ(term.level, Level::kAnalytic) << term.term;
    ExpectAgrees(m, data.get(), value, 1e-9);
  }
}

// feet that cling to what moves and to what stands still, with contacts within the gap, by actuators and by their geoms
TEST_F(LevelChoiceTest, AdhesionIsAnalytic) {
  for (const char* option : {"cone='elliptic'", "cone='pyramidal' integrator='implicitfast'",
                             "cone='elliptic' integrator='RK4' jacobian='sparse'"}) {
    for (const char* geom : {"", "adhesion='3'"}) {
      SCOPED_TRACE(std::string(option) + geom);
      const ModelPtr model = LoadModelFromString(std::string("<mujoco><option timestep='0.002' ") + option +
                                                 R"(/><default><geom gap="0.01" )" + geom + R"(/></default><worldbody>
          <geom type="sphere" size="0.3" pos="0.3 0 -0.1" contype="2" conaffinity="2"/>
          <body name="ball" pos="0 0 0.1"><joint axis="0 1 0"/><geom size="0.1" pos="0.02 0 0"/>
            <body pos="0.1 0 0.1"><joint axis="1 0 0"/><geom name="arm" size="0.05" pos="0 0.02 0.05"/></body></body>
          <body name="foot" pos="0.03 0.02 0.279"><freejoint/><geom type="capsule" size="0.08 0.1" euler="80 0 20"/></body>
          <body name="near" pos="0.3 0.05 0.299"><freejoint/><geom type="capsule" size="0.1 0.1" euler="80 0 20" contype="2" conaffinity="2"/></body></worldbody>
        <contact><exclude body1="foot" body2="near"/></contact>
        <actuator><adhesion body="foot" ctrlrange="0 1" gain="30"/>
          <general body="near" dyntype="filter" dynprm="0.1" gainprm="9" biastype="affine" biasprm="1 0 0"/></actuator></mujoco>)");
      const mjModel* m = model.get();
      const DataPtr data = MakeData(m);
      data->ctrl[0] = 0.6, data->ctrl[1] = 0.3;
      for (int i = 0; i < m->nv; i++) data->qvel[i] = 0.1 * std::sin(1.0 + i);
      for (int k = 0; k < 5; k++) mj_step(m, data.get());
      mj_forward(m, data.get());
      const auto in_gap = [](const mjContact& contact) { return contact.exclude == 1; };
      ASSERT_GE(data->ncon, 2);
      EXPECT_EQ(std::any_of(data->contact, data->contact + data->ncon, in_gap),
                *geom == 0);  // those of adhesive geoms have rows
      ASSERT_FALSE(std::all_of(data->contact, data->contact + data->ncon, in_gap));
      const StepDerivative value = Linearize(m, data.get(), {.level = Level::kAnalytic, .sensors = false});
      EXPECT_GT(value.B.col(0).norm(), 1e-3);
      ExpectAgrees(m, data.get(), value, 1e-8);

      Linearizer linearizer(m, {.level = Level::kAnalytic, .sensors = false});
      linearizer.SetContext(GetContext(m, data.get()));
      const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
      support::ExpectProducts(m, &linearizer, x, u, 1e-11);

      // qfrc_inverse has the adhesion of geoms
      InverseDerivative inverse;
      linearizer.LinearizeInverse(x, u, Eigen::Map<const VectorXd>(data->qacc, m->nv), &inverse);
      Linearizer differenced(m, {.level = Level::kResidual});
      differenced.SetContext(GetContext(m, data.get()));
      InverseDerivative by_differences;
      differenced.LinearizeInverse(x, u, Eigen::Map<const VectorXd>(data->qacc, m->nv), &by_differences);
      EXPECT_LT((inverse.q - by_differences.q).cwiseAbs().maxCoeff(), 1e-8 * inverse.q.cwiseAbs().maxCoeff());
    }
  }
}

// a row that a saturated joint keeps at its limit: no wrench tells it apart
TEST_F(LevelChoiceTest, AdhesionBesideASaturatedJointIsDifferencedInTheActuationAlone) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
      <body name="ball" pos="0 0 0.1"><joint name="a" axis="0 1 0" actuatorfrcrange="-1 1"/><geom size="0.1" pos="0.02 0 0"/></body>
      <body name="foot" pos="0.03 0.02 0.279"><freejoint/><geom type="capsule" size="0.08 0.1" euler="80 0 20"/></body></worldbody>
    <actuator><adhesion body="foot" ctrlrange="0 1" gain="30"/><motor joint="a" gear="5"/></actuator></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->ctrl[0] = 0.6, data->ctrl[1] = 1;
  for (int k = 0; k < 5; k++) mj_step(m, data.get());
  ASSERT_GT(data->ncon, 0);
  const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
  ASSERT_NE(FindTerm(value, "actuation"), nullptr);
  EXPECT_EQ(FindTerm(value, "actuation")->level, Level::kResidual);
  EXPECT_NE(FindTerm(value, "actuation")->reason.find("actuatorfrcrange"), std::string::npos);
  ExpectAgrees(m, data.get(), value, 1e-8);
}

TEST_F(LevelChoiceTest, TheExactDiagonalIsDifferencedInTheConstraintAlone) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    SCOPED_TRACE(cone);
    const ModelPtr model = LoadModelFromString(std::string("<mujoco><option timestep='0.002' cone='") + cone +
                                               R"('><flag diagexact="enable"/></option>
      <worldbody><geom type="plane" size="1 1 1" euler="3 2 0"/>
      <body pos="0 0 0.28"><joint axis="0 1 0" frictionloss="0.2"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0"><joint axis="0 1 0.3"/><geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 -0.26"/></body></body></worldbody></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    for (int k = 0; k < 60; k++) mj_step(m, data.get());
    ASSERT_GT(data->ncon, 0);
    const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
    ASSERT_NE(FindTerm(value, "constraint"), nullptr);
    EXPECT_EQ(FindTerm(value, "constraint")->level, Level::kResidual);
    EXPECT_NE(FindTerm(value, "constraint")->reason.find("diagexact"), std::string::npos);
    EXPECT_EQ(FindTerm(value, "rne")->level, Level::kAnalytic);
    ExpectAgrees(m, data.get(), value, 1e-8);
  }
}

// a term that only a later stage or substep has stands in the coverage, beside those that an earlier one had
TEST_F(LevelChoiceTest, CoverageIsThatOfAllStagesAndSubsteps) {
  for (const char* integrator : {"RK4", "Euler"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model = LoadModelFromString(std::string("<mujoco><option timestep='0.01' integrator='") +
                                               integrator + R"('><flag diagexact="enable"/></option>
      <worldbody><geom type="plane" size="1 1 1"/>
      <body pos="0 0 0.12"><freejoint/><geom type="sphere" size="0.1" solimp="0 0.9 0.1" margin="0"/></body></worldbody></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qvel[2] = -5;
    mj_forward(m, data.get());
    ASSERT_EQ(data->ncon, 0);
    const bool rk4 = m->opt.integrator == mjINT_RK4;
    Linearizer linearizer(m, {.substeps = rk4 ? 1 : 2, .sensors = false});
    const VectorXd x = GetState(m, data.get()), u, lambda = VectorXd::Ones(12);
    StepDerivative value;
    linearizer.Linearize(x, u, &value);
    StepVjp back;
    linearizer.Vjp(x, u, lambda, &back);
    StepJvp forward;
    linearizer.Jvp(x, u, MatrixXd::Ones(12, 1), MatrixXd::Zero(0, 1), &forward);
    for (const Coverage* coverage : {&value.coverage, &back.coverage, &forward.coverage}) {
      const auto has = [&](const char* term, Level level) {
        return std::any_of(coverage->terms.begin(), coverage->terms.end(),
                           [&](const TermCoverage& t) { return t.term == term && t.level == level; });
      };
      EXPECT_TRUE(has("constraint", Level::kResidual));
      EXPECT_TRUE(has("rne", Level::kAnalytic));
    }
  }
}

// springs, servos, drag, tendons across branches and a spinning free body in the metric, with and without contact
TEST_F(LevelChoiceTest, TheDiscreteIntegratorIsDifferencedAtFixedAcceleration) {
  for (const char* option : {"cone='pyramidal'", "cone='elliptic' solver='CG'"}) {
    const ModelPtr model = LoadModelFromString(
        std::string("<mujoco><option timestep='0.01' integrator='discrete' density='1.2' viscosity='0.02' ") + option +
        R"(/><worldbody><geom type="plane" size="3 3 1"/>
        <body pos="0 0 0.117"><freejoint/><geom type="box" size="0.1 0.05 0.12"/></body>
        <body pos="0 2 3"><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>
        <body pos="1 0 0.4"><joint name="a" axis="0 1 0" stiffness="5" damping="1" range="-3 3" limited="true" frictionloss="0.1"/>
          <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
          <body pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0.2 0 -0.355" size="0.05"/><site name="tip" pos="0.2 0 -0.3"/></body>
          <body pos="0.1 0 0"><joint name="c" type="ball" stiffness="3"/><geom type="box" size="0.02 0.03 0.1" pos="0 0 0.1" fluidshape="ellipsoid"/><site name="top" pos="0 0.02 0.2"/></body></body>
        </worldbody>
        <tendon><fixed name="t" stiffness="10" damping="0.5" springlength="0.1"><joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/></fixed>
          <spatial name="s" stiffness="40" damping="2" springlength="0.3"><site site="tip"/><site site="top"/></spatial></tendon>
        <actuator><position name="servo" joint="b" kp="200" kv="5"/><muscle joint="a" lengthrange="-1 1" force="20"/>
          <general joint="a" dyntype="filterexact" dynprm="0.1" gaintype="affine" gainprm="3 0 -0.5" actearly="true"/></actuator>
        <sensor><accelerometer site="tip"/><force site="tip"/><actuatorfrc actuator="servo"/><framelinvel objtype="site" objname="top"/><touch site="tip"/></sensor>
        </mujoco>)");
    const mjModel* m = model.get();
    for (const auto& [steps, level] : {std::pair{0, Level::kResidual}, std::pair{1, Level::kResidual},
                                       std::pair{20, Level::kResidual}, std::pair{20, Level::kAnalytic}}) {
      SCOPED_TRACE(std::string(option) + " after " + std::to_string(steps));
      const DataPtr data = MakeData(m);
      SetState(m, data.get(), support::RandomState(m, 2, {.position = 0.005, .velocity = 0.3}));
      data->qvel[9] = 7, data->qvel[10] = 5;
      for (int i = 0; i < m->nu; i++) data->ctrl[i] = 0.3;
      data->qfrc_applied[12] = 0.4;
      for (int k = 0; k < steps; k++) mj_step(m, data.get());
      const StepDerivative value = Linearize(m, data.get(), {.level = level});
      EXPECT_EQ(value.coverage.Worst(), level) << value.coverage.terms[0].reason;
      const ReferenceDerivative reference = Reference(m, data.get());
      for (const BlockComparison& block : Compare(m, value, reference, {.tolerance = 1e-7}).blocks) {
        EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                                  << block.worst.value << " " << block.worst.reference << " +- "
                                  << block.worst.error_bar;
      }

      // a pull-back to applied forces is a column of a step with that force moved
      Linearizer linearizer(m, {.level = level, .sensors = false});
      linearizer.SetContext(GetContext(m, data.get()));
      const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
      const VectorXd lambda = support::Random(3).Vector(static_cast<int>(value.A.rows()));
      StepVjp vjp;
      linearizer.Vjp(x, u, lambda, &vjp, true);
      EXPECT_LT((vjp.x - value.A.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-8 * vjp.x.cwiseAbs().maxCoeff());
      mjModel tight = *m;
      tight.opt.tolerance = 1e-20;
      for (int dof : {9, 12, 13}) {
        VectorXd next[2];
        for (int side : {0, 1}) {
          const DataPtr moved = MakeData(m);
          mj_copyState(m, data.get(), moved.get(), mjSTATE_INTEGRATION);
          moved->qfrc_applied[dof] += side ? 1e-5 : -1e-5;
          mj_step(&tight, moved.get());
          next[side] = GetState(m, moved.get());
        }
        const double difference = lambda.dot(Difference(m, next[1], next[0])) / 2e-5;
        EXPECT_NEAR(vjp.qfrc[dof], difference, 1e-6 * vjp.qfrc.cwiseAbs().maxCoeff()) << dof;
      }
    }
  }
}

// the engine tests for a displacement of exactly zero: the step jumps there, with the same slope on both sides
TEST_F(LevelChoiceTest, ATendonExactlyAtRestIsDifferencedWholeUnderTheDiscreteIntegrator) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01" integrator="discrete"/><worldbody>
      <body><joint name="a" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body>
      <body><joint name="b" axis="0 1 0" armature="0.1"/><geom size="0.1" pos="0.3 0 0" contype="0"/></body></worldbody>
    <tendon><fixed name="even" stiffness="50"><joint joint="a" coef="1"/><joint joint="b" coef="-1"/></fixed></tendon></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qvel[0] = 1;
  const StepDerivative rest = Linearize(m, data.get(), {.sensors = false});
  EXPECT_EQ(rest.coverage.Worst(), Level::kStep);
  EXPECT_NE(rest.coverage.terms[0].reason.find("even is exactly at its spring's rest length"), std::string::npos)
      << rest.coverage.terms[0].reason;
  data->qpos[0] = 1e-4;
  const StepDerivative beside = Linearize(m, data.get(), {.sensors = false});
  EXPECT_EQ(beside.coverage.Worst(), Level::kAnalytic);
  EXPECT_LT((rest.A.leftCols(2) - beside.A.leftCols(2)).cwiseAbs().maxCoeff(), 1e-3 * beside.A.cwiseAbs().maxCoeff());
  ExpectAgrees(m, data.get(), beside, 1e-7);
}

// plastic springs rest at their state, which the end of a step moves: within one step it is context
TEST_F(LevelChoiceTest, PlasticSpringsAreAnalyticAboutTheirState) {
  for (const char* option : {"", "integrator='implicitfast'", "integrator='RK4'", "integrator='discrete'"}) {
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option timestep='0.005' ") + option + R"(/><worldbody>
        <body pos="0 0 1"><joint name="a" axis="0 1 0" stiffness="5 3 2" springyield="5"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
          <body pos="0.3 0 0"><joint name="b" type="ball" stiffness="3" springyield="8" damping="0.1"/><geom type="capsule" fromto="0 0 0 0.2 0 -0.35" size="0.05"/></body></body>
        <body pos="0 1 1"><joint name="s" type="slide" axis="0 0 1" stiffness="30"/><geom size="0.1"/><site name="s1" pos="0.02 0 0"/></body>
        <site name="s0" pos="0 1 2"/></worldbody>
        <tendon><spatial name="t" stiffness="10" springyield="0.02" springlength="0.2 0.9"><site site="s0"/><site site="s1"/></spatial></tendon>
        <actuator><motor joint="a"/></actuator></mujoco>)");
    const mjModel* m = model.get();
    ASSERT_EQ(m->nplastic, 7);
    for (int steps : {0, 30}) {
      SCOPED_TRACE(std::string(option) + " after " + std::to_string(steps));
      const DataPtr data = MakeData(m);
      SetState(m, data.get(), support::RandomState(m, 2, {.position = 0.3, .velocity = 2}));
      data->ctrl[0] = 0.3;
      const VectorXd fresh = Eigen::Map<VectorXd>(data->plastic, m->nplastic);
      for (int k = 0; k < steps; k++) mj_step(m, data.get());
      EXPECT_EQ((Eigen::Map<VectorXd>(data->plastic, m->nplastic) - fresh).cwiseAbs().minCoeff() > 0, steps > 0);
      const bool discrete = m->opt.integrator == mjINT_DISCRETE;
      for (Level level : {Level::kBest, Level::kResidual}) {
        const StepDerivative value = Linearize(m, data.get(), {.level = level, .sensors = false});
        EXPECT_EQ(value.coverage.Worst(), discrete || level == Level::kResidual ? Level::kResidual : Level::kAnalytic);
        ExpectAgrees(m, data.get(), value, 1e-7);
      }
    }

    // over substeps it carries derivatives: differenced at once
    const DataPtr data = MakeData(m);
    const StepDerivative value = Linearize(m, data.get(), {.substeps = 2, .sensors = false});
    EXPECT_EQ(value.coverage.Worst(), Level::kStep);
    EXPECT_NE(value.coverage.terms[0].reason.find("plastic"), std::string::npos) << value.coverage.terms[0].reason;
  }
}

// Two balls under a lever, both just in touch: a user's sensor of their forces has no neighbour with both. Its rows come
// from whole steps, in a pull-back as in the matrices, and nothing else does.
TEST_F(LevelChoiceTest, APullBackTakesWholeStepsForTheSensorsThatNeedThem) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"/><worldbody>
      <geom type="plane" size="1 1 1"/>
      <body pos="0 0 .1249999999"><joint name="z" type="slide" axis="0 0 1"/><joint name="y" axis="0 1 0"/>
        <geom size=".125" pos=".3 0 0"/><geom size=".125" pos="-.3 0 0"/></body></worldbody>
    <actuator><motor joint="y"/></actuator>
    <sensor><user dim="1" needstage="acc"/><jointvel joint="y"/></sensor></mujoco>)");
  const mjModel* m = model.get();
  mjcb_sensor = [](const mjModel*, mjData* d, int stage) {
    if (stage == mjSTAGE_ACC) d->sensordata[0] = d->qfrc_constraint[0];
  };
  const DataPtr data = MakeData(m);
  const StepDerivative value = Linearize(m, data.get());
  ASSERT_NE(FindTerm(value, "sensors"), nullptr);
  EXPECT_EQ(FindTerm(value, "sensors")->level, Level::kStep);
  EXPECT_EQ(FindTerm(value, "constraint")->level, Level::kAnalytic);

  Linearizer linearizer(m);
  linearizer.SetContext(GetContext(m, data.get()));
  const VectorXd x = GetState(m, data.get()), u = VectorXd::Zero(1);
  support::Random random(3);
  const VectorXd lambda = random.Vector(4), sigma = random.Vector(2);
  for (const bool forces : {false, true}) {
    StepVjp vjp;
    linearizer.Vjp(x, u, lambda, sigma, &vjp, forces);
    const VectorXd by_x = value.A.transpose() * lambda + value.C.transpose() * sigma,
                   by_u = value.B.transpose() * lambda + value.D.transpose() * sigma;
    EXPECT_TRUE(support::MatricesNearRelative(vjp.x, by_x, 1e-11));
    EXPECT_TRUE(support::MatricesNearRelative(vjp.u, by_u, 1e-11));
    EXPECT_NEAR(vjp.sensors.dot(VectorXd::Ones(4)), (value.C.transpose() * sigma).sum(), 1e-6);
    ASSERT_FALSE(vjp.coverage.terms.empty());
    EXPECT_EQ(vjp.coverage.terms[0].level, Level::kAnalytic);
    EXPECT_EQ(vjp.coverage.Worst(), Level::kStep);
    EXPECT_EQ(vjp.qfrc.size(), forces ? m->nv : 0);
    if (forces) {
      EXPECT_NEAR(vjp.qfrc[1], by_u[0], 1e-6 * std::abs(by_u[0]));  // as the motor of the lever
    }
  }
  mjcb_sensor = nullptr;
}

// outside the theorem: whole steps, with the reason
TEST_F(LevelChoiceTest, SpeculativeContactsAreDifferencedWhole) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep="0.002"><flag speculative="enable"/></option><worldbody>
        <body><joint name="a" axis="0 1 0" damping="0.2" stiffness="20"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0"><joint axis="1 0 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0 0.3 0"/></body></body></worldbody>
        <actuator><motor joint="a"/></actuator></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  SetState(m, data.get(), support::RandomState(m, 2, {.position = 0.05, .velocity = 0.5}));
  data->ctrl[0] = 0.3;
  const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
  ASSERT_EQ(value.coverage.terms.size(), 1u);
  EXPECT_EQ(value.coverage.Worst(), Level::kStep);
  EXPECT_NE(value.coverage.terms[0].reason.find("speculative"), std::string::npos) << value.coverage.terms[0].reason;
  ExpectAgrees(m, data.get(), value, 1e-7);
}

// boxes on boxes, turned about the normal and tilted a little: edges cut by faces, corners, all in closed form
TEST_F(LevelChoiceTest, CrossedBoxesAgreeWithTheReference) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (unsigned seed = 1; seed <= 6; seed++) {
      SCOPED_TRACE(std::string(cone) + std::to_string(seed));
      const ModelPtr model = LoadModelFromString(CrossedBoxes(cone, seed, 1));
      const mjModel* m = model.get();
      const DataPtr data = MakeData(m);
      mj_forward(m, data.get());
      ASSERT_GT(data->ncon, 0);
      const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
      EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
      ExpectAgrees(m, data.get(), value, 1e-8);
      const Certificate certificate = Certify(m, data.get());
      EXPECT_EQ(certificate.label, Smoothness::kSmooth);
    }
  }
}

// exactly flat, the contact is no smooth function of the tilt: neither the judge nor the certificate says that it is
TEST_F(LevelChoiceTest, FlatBoxesAreACornerByRotationAlone) {
  const ModelPtr model = LoadModelFromString(CrossedBoxes("elliptic", 3, 0));
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  const Certificate certificate = Certify(m, data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  const auto found = std::find_if(certificate.switches.begin(), certificate.switches.end(),
                                  [](const Switch& s) { return s.state == "face on face"; });
  ASSERT_NE(found, certificate.switches.end());
  EXPECT_LE(found->distance, 1e-12);
  const ReferenceDerivative reference = Reference(m, data.get(), {.sensors = false});
  for (int column = 0; column < 12; column++) {
    const bool turns = column == 3 || column == 4;
    EXPECT_EQ(reference.nonsmooth_column[column], turns) << column << " " << reference.switched[column];
  }
  const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
  EXPECT_TRUE(value.A.allFinite());
  ExpectAgrees(m, data.get(), value, 1e-8);
}

// a box or brick that leans on a wider one, their sides flush but for `shift`
ModelPtr Leaning(const std::string& geom, double shift) {
  return LoadModelFromString(
      R"(<mujoco><asset><mesh name="brick" vertex="-.125 -.125 -.0625 .125 -.125 -.0625 -.125 .125 -.0625
      .125 .125 -.0625 -.125 -.125 .0625 .125 -.125 .0625 -.125 .125 .0625 .125 .125 .0625"/></asset>
    <default><geom solimp=".8 .95 .01"/></default><worldbody><geom type="box" size=".3 .125 .1" pos="0 0 .1"/><body pos=".02 )" +
      std::to_string(shift) + R"( .262" euler="0 1 0"><freejoint/>)" + geom + "</body></worldbody></mujoco>");
}

// how far the nearest border is that would make another corner
double Border(const Certificate& certificate) {
  double least = mjMAXVAL;
  for (const Switch& s : certificate.switches) {
    if (s.next == "another border") least = std::min(least, s.distance);
  }
  return least;
}

void ExpectCornerWhereFlush(const mjModel* m, const mjData* data, double shift, double accuracy) {
  const Certificate certificate = Certify(m, data);
  EXPECT_EQ(certificate.label, shift == 0 ? Smoothness::kModeCrossing : Smoothness::kSmooth);
  EXPECT_NEAR(Border(certificate), shift, accuracy);
}

// Where an edge of one meets an edge of the other either may be the border of what they share: no smooth function of a
// shift across it, nor of the turns that shift it. A little beside it all is smooth, and the certificate knows how far
// that is. (G13)
TEST_F(LevelChoiceTest, BoxesWhoseEdgesMeetAreACorner) {
  for (const double shift : {0.0, 0.003}) {
    SCOPED_TRACE(shift);
    const ModelPtr model = Leaning("<geom type='box' size='.125 .125 .0625'/>", shift);
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    ExpectCornerWhereFlush(m, data.get(), shift, 1e-9);
    const ReferenceDerivative reference = Reference(m, data.get(), {.sensors = false});
    for (int column = 0; column < 12; column++) {
      const bool across = column == 1 || column == 3 || column == 5;
      EXPECT_EQ(reference.nonsmooth_column[column], across && shift == 0)
          << column << " " << reference.switched[column];
    }
    ExpectAgrees(m, data.get(), Linearize(m, data.get(), {.sensors = false}), 1e-8);
  }
}

TEST_F(LevelChoiceTest, AMeshWhoseEdgesMeetABoxIsACornerToo) {
  for (const double shift : {0.0, 0.003}) {
    SCOPED_TRACE(shift);
    const ModelPtr model = Leaning("<geom type='mesh' mesh='brick'/>", shift);
    const DataPtr data = MakeData(model.get());
    ExpectCornerWhereFlush(model.get(), data.get(), shift, 1e-6);
    if (shift > 0) ExpectAgrees(model.get(), data.get(), Linearize(model.get(), data.get(), {.sensors = false}), 1e-8);
  }
}

// A ball about its own hinge, its contact at its centre: whatever the contact's force, which has no bound, it moves
// nothing.
TEST_F(LevelChoiceTest, AContactWithoutLeverIsDifferencedAlone) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="box" size="1 1 1"/>
    <body pos="-.9 .3 0"><joint/><geom size=".1"/></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qpos[0] = 0.4;
  data->qvel[0] = 0.3;
  mj_forward(m, data.get());
  ASSERT_GT(data->nefc, 0);
  const StepDerivative value = Linearize(m, data.get(), {.sensors = false});
  const TermCoverage* constraint = FindTerm(value, "constraint");
  ASSERT_NE(constraint, nullptr);
  EXPECT_NE(constraint->reason.find("Jacobian is zero"), std::string::npos) << constraint->reason;
  EXPECT_LE((value.A - (MatrixXd(2, 2) << 1, m->opt.timestep, 0, 1).finished()).cwiseAbs().maxCoeff(), 1e-12)
      << value.A;
  const Certificate certificate = Certify(m, data.get());
  EXPECT_TRUE(std::any_of(certificate.switches.begin(), certificate.switches.end(),
                          [](const Switch& s) { return s.state == "without lever"; }));
}

// A puck that joints hold upon the floor, its slides and its hinge in every order of a pusher: its contact has no lever
// wherever it goes, and is one like others, seen by the sensor of its force. Where a joint may lift an edge, it is not.
TEST_F(LevelChoiceTest, AContactThatPushesInVainIsAnalytic) {
  struct {
    const char* joints;
    bool in_vain;
  } const cases[] = {{"<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/>", true},
                     {"<joint axis='0 0 1' pos='.3 0 0'/><joint type='slide' axis='0 1 0'/>", true},
                     {"<joint type='slide' axis='1 1 0'/><joint axis='0 0 -1'/>", true},
                     {"<joint type='slide' axis='1 0 .1'/><joint type='slide' axis='0 1 0'/>", false},
                     {"<joint type='slide' axis='1 0 0'/><joint axis='0 1 0'/>", false},
                     {"<joint type='slide' axis='1 0 0'/><joint axis='0 .1 1'/>", false}};
  for (const auto& [joints, in_vain] : cases) {
    SCOPED_TRACE(joints);
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><option><flag gravity="disable"/></option>
      <worldbody><geom type="plane" size="1 1 .1" condim="1"/><body pos="0 0 .0499">)") +
                                               joints + R"(<geom type="cylinder" size=".1 .05" condim="1"/>
        <site name="s" pos=".1 0 0"/></body></worldbody><sensor><torque site="s"/><force site="s"/></sensor></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qvel[0] = 0.2;
    data->qvel[1] = -0.3;
    mj_forward(m, data.get());
    ASSERT_GE(data->ncon, 3);
    for (int c = 0; c < data->ncon; c++) EXPECT_EQ(PushesInVain(m, data.get(), data->contact[c]), in_vain);
    if (!in_vain) continue;
    const StepDerivative value = Linearize(m, data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    for (const BlockComparison& block : Compare(m, value, Reference(m, data.get()), {.tolerance = 1e-8}).blocks) {
      EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.value << " " << block.worst.reference;
    }
    for (const Switch& s : Certify(m, data.get()).switches) EXPECT_NE(s.state, "without lever");
  }
}

// A ball that just touches the floor under a ball that falls on to it: any nudge of its height ends one of two contacts
// that push. A sensor that has to be differenced has no neighbour there; A, B and the other sensors need none.
TEST_F(LevelChoiceTest, ASensorWithoutNeighboursIsLeftToWholeStepsAlone) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
    <body name="ball" pos="0 0 .125"><joint name="z" type="slide" axis="0 0 1"/><geom size=".125"/></body>
    <body pos="0 0 .375"><joint name="up" type="slide" axis="0 0 1"/><geom size=".125"/></body></worldbody>
    <actuator><adhesion body="ball" ctrlrange="0 1" gain="2"/><motor joint="z"/></actuator>
    <sensor><jointpos joint="z"/><jointactuatorfrc name="lift" joint="z"/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qpos[0] = -0x1p-44;
  data->qpos[1] = -0x1p-43;
  data->qvel[1] = -1;
  data->ctrl[0] = 0.5;
  mj_forward(m, data.get());
  ASSERT_EQ(data->nefc, 8);
  for (int i = 0; i < data->nefc; i++) ASSERT_GT(data->efc_force[i], 0);
  const StepDerivative value = Linearize(m, data.get()), without = Linearize(m, data.get(), {.sensors = false});
  EXPECT_EQ(without.coverage.Worst(), Level::kAnalytic);
  EXPECT_EQ(value.A, without.A);
  EXPECT_EQ(value.B, without.B);
  const TermCoverage* sensors = FindTerm(value, "sensors");
  ASSERT_NE(sensors, nullptr);
  EXPECT_EQ(sensors->level, Level::kStep);
  EXPECT_EQ(sensors->reason.find("jointactuatorfrc of lift: "), 0u) << sensors->reason;
  const StepDerivative steps = Linearize(m, data.get(), {.level = Level::kStep});
  EXPECT_EQ(value.C.row(0), (MatrixXd(1, 4) << 1, 0, 0, 0).finished());
  EXPECT_LE((value.D.row(1) - steps.D.row(1)).cwiseAbs().maxCoeff(), 1e-7);
  EXPECT_TRUE(value.C.allFinite());

  // asked for alone, level 2 refuses
  EXPECT_THROW(Linearize(m, data.get(), {.level = Level::kResidual}), Error);
}

}  // namespace
}  // namespace costate
