#include <costate/certificate.h>
#include <costate/derivative_check.h>
#include <costate/tangent.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "derivative/backend.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/expect_reference.h"
#include "support/find_switch.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using ResidualDifferenceTest = support::EngineTest;

constexpr double kTolerance = 2e-8;  // of a matrix' largest entry: five-point differences of a residual stiff in q

// A, B, C, D of level 2 against extrapolated differences of the converged step
void ExpectAgrees(const mjModel* model, const mjData* point) {
  std::string missing;
  const std::unique_ptr<Backend> backend = MakeResidualBackend(model, {}, &missing);
  ASSERT_TRUE(backend) << missing;
  const DataPtr data = MakeData(model);
  mj_copyState(model, point, data.get(), mjSTATE_INTEGRATION);
  StepDerivative result;
  ASSERT_TRUE(backend->Linearize(model, data.get(), true, &result, &missing)) << missing;
  ASSERT_EQ(result.status, StepStatus::kOk);
  const support::StepReference reference = support::MakeStepReference(model, point);
  MatrixXd step(result.A.rows(), result.A.cols() + result.B.cols());
  MatrixXd sensors(result.C.rows(), result.C.cols() + result.D.cols());
  step << result.A, result.B;
  sensors << result.C, result.D;
  EXPECT_TRUE(support::AgreesWithReference(step, reference.step, reference.step_error, kTolerance));
  EXPECT_TRUE(support::AgreesWithReference(sensors, reference.sensors, reference.sensors_error, kTolerance));
  EXPECT_TRUE(step.allFinite() && sensors.allFinite());
}

// a callback's passive forces may follow controls and activations, which the engine's own do not
TEST_F(ResidualDifferenceTest, PassiveForcesOfACallbackReadAllInputs) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option timestep="0.004"/><worldbody><body><joint name="j"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
    <actuator><general joint="j" dyntype="filter" dynprm=".1" gainprm="0.2"/></actuator></mujoco>)");
  mjcb_passive = [](const mjModel*, mjData* d) {
    d->qfrc_passive[0] += std::sin(d->qpos[0]) * d->qvel[0] * d->ctrl[0] + d->act[0] * d->ctrl[0];
  };
  const DataPtr data = MakeData(model.get());
  for (const int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT}) {
    model->opt.integrator = integrator;
    data->qpos[0] = 0.4, data->qvel[0] = 0.7, data->act[0] = 0.3, data->ctrl[0] = 0.5;
    ExpectAgrees(model.get(), data.get());
    support::ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get()));
    support::ExpectProducts(model.get(), data.get(), {}, 1e-11);
  }
  mjcb_passive = nullptr;
}

// before their stage they find velocities, activations and controls of the step, which the engine's own sensors do not
// read there
TEST_F(ResidualDifferenceTest, SensorsOfUsersReadAllInputsAtEveryStage) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
    <actuator><general joint="j" dyntype="filter" dynprm=".1"/></actuator>
    <sensor><user dim="1" needstage="pos"/><user dim="1" needstage="vel"/></sensor></mujoco>)");
  mjcb_sensor = [](const mjModel*, mjData* d, int stage) {
    const double all = std::sin(d->qpos[0]) * d->qvel[0] + d->act[0] * d->ctrl[0];
    if (stage == mjSTAGE_POS) d->sensordata[0] = all;
    if (stage == mjSTAGE_VEL) d->sensordata[1] = 2 * all;
  };
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.4, data->qvel[0] = 0.7, data->act[0] = 0.3, data->ctrl[0] = 0.5;
  const StepDerivative value = Linearize(model.get(), data.get());
  for (int i = 0; i < 2; i++) {
    EXPECT_NEAR(value.C(i, 0), (i + 1) * std::cos(0.4) * 0.7, 1e-9);
    EXPECT_NEAR(value.C(i, 1), (i + 1) * std::sin(0.4), 1e-9);
    EXPECT_NEAR(value.C(i, 2), (i + 1) * 0.5, 1e-9);
    EXPECT_NEAR(value.D(i, 0), (i + 1) * 0.3, 1e-9);
  }
  support::ExpectProducts(model.get(), data.get(), {}, 1e-11);
  mjcb_sensor = nullptr;
}

class ManyTerms : public support::EngineTest, public ::testing::WithParamInterface<std::tuple<int, int>> {};

TEST_P(ManyTerms, AgreesWithTheStepInContact) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  model->opt.integrator = std::get<0>(GetParam());
  model->opt.cone = std::get<1>(GetParam());
  const DataPtr data = support::DrivenData(model.get(), 60);
  ASSERT_GE(data->ncon, 3);
  ASSERT_GT(data->nl, 0);
  ASSERT_GT(data->ne, 0);
  ExpectAgrees(model.get(), data.get());
}

INSTANTIATE_TEST_SUITE_P(IntegratorsAndCones, ManyTerms,
                         ::testing::Combine(::testing::Values(mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                                              mjINT_IMPLICITFAST, mjINT_DISCRETE),
                                            ::testing::Values(mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC)));

// one foot is half a micrometre deep and carries force: a nudge upwards lifts it, so that all must be differenced
// downwards
TEST_F(ResidualDifferenceTest, OneSidedDifferencesAreAsExact) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><freejoint/><geom size=".1" solimp=".5 .95 .0004"/>
    <geom size=".1" pos=".5 .1 .0002995"/><geom size=".1" pos="0 .5 .0001"/></body>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[2] = 0.1 - 0.0003;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 3);
  ExpectAgrees(model.get(), data.get());
}

// the engine leaves an actuator at a limit out of the metric and of the implicit integrators' matrix: nudges that reach
// a limit to both sides agree with each other
TEST_F(ResidualDifferenceTest, NudgesToForceLimitsAreLeftOut) {
  const struct {
    std::string limit, elements;
    double ctrl, act;
  } cases[] = {
      {"", "<actuator><position joint='j' kp='4500' kv='450' forcerange='-.5 .5'/></actuator>", 0, 0},
      {"", "<actuator><position joint='j' kp='4500' kv='450' forcerange='-.3 .5'/></actuator>", 1e-4, 0},
      {"actuatorfrcrange='-.5 .5'", "<actuator><position joint='j' kp='4500' kv='450'/></actuator>", 0, 0},
      {"", R"(<tendon><fixed name="t" actuatorfrcrange="-.5 .5"><joint joint="j" coef="1"/></fixed></tendon>
        <actuator><position tendon="t" kp="4500" kv="450"/></actuator>)",
       0, 0},
      {"", R"(<actuator><general joint="j" dyntype="filterexact" dynprm=".1" gaintype="affine" gainprm="4500 0 -450"
        biastype="affine" biasprm="0 -4500 -450" forcerange="-.5 .5"/></actuator>)",
       0, 1e-5},
      {"", R"(<actuator><muscle joint="j" lengthrange="-1 1" force="5000" forcerange="-10.01 -9.99"/></actuator>)", .01,
       .002},
  };
  for (const auto& c : cases) {
    for (const char* integrator : {"Euler", "implicitfast", "discrete"}) {
      SCOPED_TRACE(c.limit + c.elements + integrator);
      const ModelPtr model = LoadModelFromString(
          "<mujoco><option timestep='.002' integrator='" + std::string(integrator) +
          "'/><worldbody><body><joint name='j' axis='0 1 0' armature='.1' damping='1' " + c.limit +
          "/><geom type='capsule' size='.05' fromto='0 0 0 .5 0 0'/></body></worldbody>" + c.elements + "</mujoco>");
      const DataPtr data = MakeData(model.get());
      data->ctrl[0] = c.ctrl;
      if (model->na > 0) data->act[0] = c.act;
      ExpectAgrees(model.get(), data.get());
    }
  }
}

// one component beside zero is at no limit, whatever the range's lower end
TEST_F(ResidualDifferenceTest, TorquesOfOrientationActuatorsAreLimitedInNorm) {
  for (const char* integrator : {"implicitfast", "discrete"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString("<mujoco><option timestep='.002' gravity='0 0 0' integrator='" + std::string(integrator) +
                            R"('/><worldbody><body><joint name="j" type="ball" armature=".1" damping="1"/>
        <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/></body></worldbody>
        <actuator><orientation joint="j" kp="4500" kv="450" forcerange="0 .15"/></actuator></mujoco>)");
    const DataPtr data = MakeData(model.get());
    const double target[] = {1e-5, 2e-5, 1e-13};
    std::copy(target, target + 3, data->ctrl);
    ExpectAgrees(model.get(), data.get());
    const std::vector<bool> nonsmooth = Reference(model.get(), data.get()).nonsmooth_column;
    EXPECT_EQ(std::count(nonsmooth.begin(), nonsmooth.end(), true), 0);
  }
}

// sensors of forces that balance read what the actuators do
TEST_F(ResidualDifferenceTest, SensorsOfForcesAreDifferencedWithinForceLimits) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".01"/><worldbody>
    <body><joint name="a" axis="0 1 0" damping="1" armature="1"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
      <body pos=".3 0 0"><joint name="b" axis="0 1 0" range="-60 60" damping="1" armature="1"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/></body></body></worldbody>
    <actuator><position joint="a" kp="100" forcerange="-.3 .5"/></actuator>
    <sensor><jointlimitfrc joint="b"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[1] = 1.05;
  data->ctrl[0] = .002;
  ExpectAgrees(model.get(), data.get());
}

// an actuator without input is at the end of its range: it pulls by what is inside, as within a control's range; beyond
// its limit its force does not move
TEST_F(ResidualDifferenceTest, AForceExactlyAtItsLimitMovesInward) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0 0 0"/><worldbody><body>
    <joint name="j" axis="0 1 0" armature=".1"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/></body></worldbody>
    <actuator><motor joint="j" gear="2" ctrlrange="0 1" forcerange="0 1"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  std::string missing;
  const std::unique_ptr<Backend> backend = MakeResidualBackend(model.get(), {}, &missing);
  ASSERT_TRUE(backend) << missing;
  StepDerivative inside, at, beyond;
  data->ctrl[0] = .5;
  ASSERT_TRUE(backend->Linearize(model.get(), data.get(), true, &inside, &missing)) << missing;
  data->ctrl[0] = 0;
  ASSERT_TRUE(backend->Linearize(model.get(), data.get(), true, &at, &missing)) << missing;
  EXPECT_GT(inside.B(1, 0), 0);
  EXPECT_NEAR(at.B(1, 0), inside.B(1, 0), 1e-9 * inside.B(1, 0));
  model->actuator_forcerange[0] = 1e-6;
  ASSERT_TRUE(backend->Linearize(model.get(), data.get(), true, &beyond, &missing)) << missing;
  EXPECT_EQ(beyond.B(1, 0), 0);
}

// dual and conjugate-gradient solvers minimise the same cost, and the derivative is that of its minimum
TEST_F(ResidualDifferenceTest, DoesNotDependOnTheSolver) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  const DataPtr data = support::DrivenData(model.get(), 60);
  StepDerivative results[3];
  for (int solver : {mjSOL_PGS, mjSOL_CG, mjSOL_NEWTON}) {
    model->opt.solver = solver;
    std::string missing;
    const DataPtr work = MakeData(model.get());
    mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION);
    ASSERT_TRUE(MakeResidualBackend(model.get(), {}, &missing)
                    ->Linearize(model.get(), work.get(), false, &results[solver], &missing));
  }
  const double scale = results[0].A.cwiseAbs().maxCoeff();
  EXPECT_LT((results[mjSOL_PGS].A - results[mjSOL_NEWTON].A).cwiseAbs().maxCoeff(), 1e-8 * scale);
  EXPECT_LT((results[mjSOL_CG].A - results[mjSOL_NEWTON].A).cwiseAbs().maxCoeff(), 1e-8 * scale);
}

// at the edge of ctrlrange the slope towards the inside, strictly outside none; the same for activations
TEST_F(ResidualDifferenceTest, ClampsHaveTheInteriorSlopeAtTheEdge) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody>
        <body><joint name="x" type="slide"/><geom size="0.1" mass="1" contype="0"/></body>
      </worldbody>
      <actuator>
        <motor joint="x" ctrlrange="-1 1" ctrllimited="true"/>
        <general joint="x" dyntype="integrator" actrange="-1 1" actlimited="true"/>
      </actuator>
    </mujoco>)");
  const double h = model->opt.timestep;
  const auto linearize = [&](double motor, double rate, double act) {
    std::string missing;
    const DataPtr data = MakeData(model.get());
    data->ctrl[0] = motor;
    data->ctrl[1] = rate;
    data->act[0] = act;
    StepDerivative out;
    EXPECT_TRUE(
        MakeResidualBackend(model.get(), {}, &missing)->Linearize(model.get(), data.get(), false, &out, &missing));
    return out;
  };
  EXPECT_NEAR(linearize(1, 0, 0).B(1, 0), h, 1e-12);
  EXPECT_NEAR(linearize(-1, 0, 0).B(1, 0), h, 1e-12);
  EXPECT_NEAR(linearize(1.1, 0, 0).B(1, 0), 0, 1e-12);

  // act' = 1 exactly: ∂act'/∂act = 1, ∂act'/∂ctrl = h; pushed beyond, both vanish
  EXPECT_NEAR(linearize(0, 0, 1).A(2, 2), 1, 1e-9);
  EXPECT_NEAR(linearize(0, 0, 1).B(2, 1), h, 1e-9);
  EXPECT_EQ(linearize(0, 1, 1).A(2, 2), 0);
  EXPECT_EQ(linearize(0, 1, 1).B(2, 1), 0);
}

// v' = v + h g w / (m − h g_v w) with w = act', clamped, and g = 3 − v/2
TEST_F(ResidualDifferenceTest, ImplicitDampingHasTheClampedInput) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option integrator="implicit"/>
      <worldbody>
        <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1" contype="0"/></body>
      </worldbody>
      <actuator>
        <general joint="x" dyntype="filter" dynprm="0.1" gaintype="affine" gainprm="3 0 -0.5" actearly="true"
                 actlimited="true" actrange="-1 1"/>
      </actuator>
    </mujoco>)");
  const double h = model->opt.timestep, v = 0.4, ctrl = 0.3;
  for (const double act : {0.5, 1.2}) {
    std::string missing;
    const DataPtr data = MakeData(model.get());
    data->qvel[0] = v;
    data->ctrl[0] = ctrl;
    data->act[0] = act;
    StepDerivative out;
    ASSERT_TRUE(
        MakeResidualBackend(model.get(), {}, &missing)->Linearize(model.get(), data.get(), false, &out, &missing));
    const double next = act + h * (ctrl - act) / 0.1, inside = next < 1, mass = 1 + 0.5 * h * std::min(next, 1.0);
    const double slope = inside * h * (3 - 0.5 * v) / (mass * mass);
    EXPECT_NEAR(out.A(1, 2), slope * (1 - h / 0.1), 1e-11) << act;
    EXPECT_NEAR(out.B(1, 0), slope * h / 0.1, 1e-11) << act;
  }
}

// the drag |v| v of a body at rest has no slope; its quotients over h have one of the size of h
TEST_F(ResidualDifferenceTest, AtRestInAFluidThereIsNoDrag) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep="0.002" density="3000" gravity="0 0 0"/><worldbody>
      <body><joint type="slide" axis="1 0 0"/><geom type="box" size="0.1 0.3 0.2" density="20"/>
        <body pos="0.1 0 0"><joint axis="0 1 0"/><geom type="ellipsoid" size="0.2 0.1 0.05" pos="0.2 0 0" density="20" fluidshape="ellipsoid"/></body></body>
      </worldbody></mujoco>)");
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_DISCRETE}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    const StepDerivative value = Linearize(model.get(), MakeData(model.get()).get(), {.level = Level::kResidual});
    MatrixXd expected = MatrixXd::Identity(4, 4);
    expected.topRightCorner(2, 2) *= 0;
    expected.topRightCorner(2, 2).diagonal().setConstant(0.002);
    EXPECT_LT((value.A - expected).cwiseAbs().maxCoeff(), 1e-9);
  }
}

// (A3) control and activation closer to each other than the nudges: the time constant of the point's side, not the mean
TEST_F(ResidualDifferenceTest, AMuscleNearItsKinkHasTheSlopesOfItsSide) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
    <actuator><muscle joint="a" lengthrange="-1 1" timeconst="0.02 0.05"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double act : {0.0, 2e-6, 0.4, 1 - 2e-6, 1.0}) {
    for (const double excess : {-1e-7, 1e-7, 1e-5}) {
      data->act[0] = act;
      data->ctrl[0] = act + excess;
      if (data->ctrl[0] < 0 || data->ctrl[0] > 1) continue;
      StepDerivative closed, differenced;
      for (const bool analytic : {true, false}) {
        LinearizeOptions options;
        options.level = analytic ? Level::kAnalytic : Level::kResidual;
        (analytic ? closed : differenced) = Linearize(model.get(), data.get(), options);
      }
      const double h = model->opt.timestep, s = 0.5 + 1.5 * act, tau = excess > 0 ? 0.02 * s : 0.05 / s;
      EXPECT_NEAR(differenced.B(2, 0), h / tau, 1e-7) << act << " " << excess;
      EXPECT_NEAR(differenced.A(2, 2), 1 - h / tau, 1e-5) << act << " " << excess;  // but for tau's own slope
      EXPECT_LT((differenced.A - closed.A).cwiseAbs().maxCoeff(), 1e-7) << act << " " << excess;
      EXPECT_LT((differenced.B - closed.B).cwiseAbs().maxCoeff(), 1e-7) << act << " " << excess;
    }
  }
}

// (A3) stages of RK4 on the kink: what the stages before make of a nudge decides on which side, as level 1 has it.
// Where the control is one of the past it is another one at each stage: whole steps.
TEST_F(ResidualDifferenceTest, AMuscleOnItsKinkHasTheSlopesOfAllStagesOfRungeKutta) {
  for (const char* late : {"", "delay='.01' nsample='8'"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(R"(<mujoco><option timestep=".005" integrator="RK4"/><worldbody><body><joint name="a" damping=".1"/>
      <geom size=".1" pos=".3 0 0"/></body></worldbody><actuator><muscle joint="a" lengthrange="-1 1" force="30" )") +
        "timeconst='.02 .05'/><motor joint='a' " + late + "/></actuator></mujoco>");
    const DataPtr data = MakeData(model.get());
    for (const double act : {0.0, 0.3, 1.0}) {
      SCOPED_TRACE(late + std::to_string(act));
      data->act[0] = data->ctrl[0] = act;
      const StepDerivative value = Linearize(model.get(), data.get(), {.level = Level::kResidual});
      const StepDerivative step = Linearize(model.get(), data.get(), {.level = Level::kStep});
      EXPECT_LT((value.A - step.A).cwiseAbs().maxCoeff(), 1e-5);
      EXPECT_LT((value.B - step.B).cwiseAbs().maxCoeff(), 1e-5);
      if (*late != 0) continue;
      const StepDerivative closed = Linearize(model.get(), data.get(), {.level = Level::kAnalytic});
      EXPECT_LT((value.A - closed.A).cwiseAbs().maxCoeff(), 1e-8);
      EXPECT_LT((value.B - closed.B).cwiseAbs().maxCoeff(), 1e-8);
    }
  }
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option timestep=".005" integrator="RK4"/><worldbody><body><joint name="a" damping=".1"/>
    <geom size=".1" pos=".3 0 0"/></body></worldbody><actuator><muscle joint="a" lengthrange="-1 1" delay=".01"
    nsample="8"/></actuator></mujoco>)");
  const StepDerivative rest = Linearize(model.get(), MakeData(model.get()).get());
  EXPECT_EQ(rest.coverage.Worst(), Level::kStep);
  EXPECT_NE(rest.coverage.terms[0].reason.find("turns from rising to falling in a stage of RK4"), std::string::npos)
      << rest.coverage.terms[0].reason;
}

// what is sure of a row is told by its own size: a spring of 1e10 beside it says nothing of a corner half a millimetre
// away
TEST_F(ResidualDifferenceTest, AHugeRowExcusesNoErrorOfAnother) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete"/><worldbody>
    <body><joint name="stiff" type="slide" axis="1 0 0" stiffness="1e10"/><geom size=".1" contype="0"/></body>
    <body pos="1 0 0"><joint name="soft" type="slide" axis="1 0 0"/><geom size=".1" contype="0"/></body></worldbody>
    <tendon><fixed stiffness="10" springlength="-1 0.0014"><joint joint="soft" coef="1"/></fixed></tendon></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const double h = model->opt.timestep, k = 10, mass = model->body_mass[2];
  for (const double place : {0.00145, 0.0015, 0.0018, 0.0022}) {
    data->qpos[1] = place;
    const StepDerivative value = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    EXPECT_NEAR(value.A(3, 1), -h * k / (mass + h * h * k), 1e-7 * h * k / mass) << place;
  }
}

// … nor do the forces that a fluid has on the twist of a rod under this integrator, of 1e6 and more
TEST_F(ResidualDifferenceTest, TheFluidOnARodsTwistExcusesNoErrorOfItsBends) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete" density="67.7"/><worldbody>
    <flexcomp name="rod" type="grid" count="4 1 1" spacing=".08 .08 .08" dim="1"><elasticity young="3e5" damping=".001"/>
    </flexcomp></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  for (int i = 0; i < m->nv; i++) data->qvel[i] = 0.1 * std::sin(3.1 * i + 1.3 * i * i + 0.7);
  mj_step(m, data.get());
  mj_forward(m, data.get());
  ASSERT_GT(Eigen::Map<const VectorXd>(data->qfrc_fluid, m->nv).cwiseAbs().maxCoeff(), 1e5);
  const StepDerivative value = Linearize(m, data.get());
  ASSERT_EQ(value.coverage.Worst(), Level::kResidual);
  const ReferenceDerivative reference = Reference(m, data.get());
  const std::vector<std::string> names = TangentNames(m);
  const int nv = m->nv;
  int bends = 0;
  const double largest = reference.value.A.block(nv, 0, nv, nv).cwiseAbs().maxCoeff();
  for (int i = nv; i < 2 * nv; i++) {
    if (names[i].find("twist") != std::string::npos) continue;
    bends++;
    for (int j = 0; j < nv; j++)
      EXPECT_NEAR(value.A(i, j), reference.value.A(i, j), 1e-6 * largest + 3 * reference.A_error(i, j))
          << names[i] << " " << names[j];
  }
  EXPECT_EQ(bends, 12);
}

// without actuation the engine leaves activations where they are, beyond their limits too
TEST_F(ResidualDifferenceTest, ActivationsBeyondTheirLimitStayWithoutActuation) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option><flag actuation="disable"/></option><worldbody><body>
    <joint name="j" damping=".1"/><geom size=".1" pos=".2 0 0" contype="0"/></body></worldbody>
    <actuator><intvelocity joint="j" kp="10" actrange="-.3 .3"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double act : {0.2, 0.8}) {
    data->act[0] = act;
    for (const Level level : {Level::kAnalytic, Level::kResidual, Level::kStep}) {
      EXPECT_NEAR(Linearize(model.get(), data.get(), {.level = level}).A(2, 2), 1, 1e-9) << ToString(level) << act;
    }
  }
}

// the matrix of the integrator has slopes of an actuator's force up to its limit, and v' jumps there: the derivative
// goes on beyond it, as the point does
TEST_F(ResidualDifferenceTest, WhereTheStepJumpsAForceAtItsLimitStaysThere) {
  for (const char* integrator : {"implicitfast", "discrete"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model = LoadModelFromString("<mujoco><option timestep='.01' integrator='" + std::string(integrator) +
                                               R"('/><worldbody><body><joint name="j" axis="0 1 0" damping=".1"/>
      <geom size=".1" pos=".2 0 0" mass="1" contype="0"/></body></worldbody>
      <actuator><position joint="j" kp="10" kv="2" forcerange="-10 10"/></actuator></mujoco>)");
    const DataPtr data = MakeData(model.get());
    data->ctrl[0] = 1.5;
    const StepDerivative beyond = Linearize(model.get(), data.get());
    data->ctrl[0] = 1;
    for (const Level level : {Level::kBest, Level::kResidual}) {
      const StepDerivative at = Linearize(model.get(), data.get(), {.level = level});
      EXPECT_LT((at.A - beyond.A).cwiseAbs().maxCoeff(), 1e-9) << ToString(level);
      EXPECT_EQ(at.B.norm(), 0) << ToString(level);
    }
    EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kModeCrossing);
  }
}

// A damper of |v| v bends at rest, and in a metric that has |v| the step does: nudges longer than the way there keep to
// the side of the point.
TEST_F(ResidualDifferenceTest, ADamperNearRestIsDifferencedOnItsSide) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".01" integrator="discrete"/><worldbody><body>
    <joint type="ball" damping="2 30"/><geom type="box" size=".1 .2 .05" pos=".1 .05 0" mass="1" contype="0"/>
    <body pos=".2 0 0"><joint name="h" axis="0 1 0" damping="1 20 3"/><geom size=".1" pos=".1 0 0" mass="1" contype="0"/>
    </body></body></worldbody><actuator><motor joint="h"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 3;
  for (const double v : {2e-7, -3e-6, 5e-5, -1e-4}) {
    SCOPED_TRACE(v);
    for (int i = 0; i < 4; i++) data->qvel[i] = (i % 2 == 0 ? 1 : -0.7) * v;
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    EXPECT_TRUE(Compare(model.get(), Linearize(model.get(), data.get()), reference, {.tolerance = 1e-8}).agrees);
    EXPECT_NEAR(support::Find(Certify(model.get(), data.get()), "damping of h", "reversal")->distance,
                0.7 * std::abs(v), 1e-18);
  }
}

// a quotient of v' has the rounding of all of a: the matrix that an implicit integrator makes of a flex's dampers takes
// longer nudges than its forces and contacts
TEST_F(ResidualDifferenceTest, DampersOfAFlexAreDifferencedAwayFromRounding) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="2 2 .1"/>
    <body name="h" pos="0 0 .2"><joint name="hj" axis="0 1 0" damping=".1"/><geom size=".03" contype="0" conaffinity="0"/>
      <flexcomp name="f" type="grid" count="3 3 1" spacing=".1 .1 .1" radius=".02" dim="2" mass="1.4" pos="0 0 .4" euler="12 9 10">
        <edge damping="0.1"/><contact selfcollide="none" condim="3" margin=".01"/><pin id="0"/></flexcomp></body></worldbody>
    <actuator><motor joint="hj" gear="2"/></actuator></mujoco>)");
  for (const int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 4, {.position = 0.02, .velocity = 3}));
    data->ctrl[0] = 0.7;
    const StepDerivative value = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    support::ExpectReference(model.get(), data.get(), value);
  }
}

// beside a flex forces are nudged at one length and the integrator at another: v' comes with one of both
TEST_F(ResidualDifferenceTest, BesideAFlexTheIntegratorIsDifferencedOnce) {
  const std::string pid =
      "<extension><plugin plugin='mujoco.pid'><instance name='pid'><config key='kp' value='4'/><config key='ki' "
      "value='1'/>"
      "<config key='kd' value='.2'/></instance></plugin></extension>";
  for (const bool plugin : {false, true}) {
    const std::string actuator = plugin ? "<plugin joint='s' plugin='mujoco.pid' instance='pid' actdim='1'/>"
                                        : "<general joint='s' dyntype='filterexact'/>";
    const ModelPtr model = LoadModelFromString("<mujoco>" + (plugin ? pid : "") + R"(<worldbody>
      <body><joint name="s" type="slide" damping="1 2 1"/><geom size=".11"/>
        <body pos=".3 0 0"><joint axis="0 1 0" damping=".45 .4 .2"/><inertial pos="0 0 -.02" mass=".36" diaginertia=".02 .025 .03"/>
        </body></body><flexcomp name="f" type="grid" count="3 3 1" pos="2 0 2"/></worldbody><actuator>)" +
                                               actuator + "</actuator></mujoco>");
    for (const int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
      model->opt.integrator = integrator;
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), 5, {.position = 0.02, .velocity = 4}));
      for (const Level level : {Level::kBest, Level::kResidual}) {
        SCOPED_TRACE(fmt::format("{} {} {}", plugin, integrator, ToString(level)));
        support::ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get(), {.level = level}));
      }
    }
  }
}

// dofs that move one body in the same way share its inertia: H has no inverse, and half of one is no derivative
TEST_F(ResidualDifferenceTest, RefusesAnInertiaWithoutInverse) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a" type="slide" axis="1 0 0"/>
    <joint type="slide" axis="0 1 0"/><joint type="slide" axis="1 1 0"/><geom size=".1" mass="1" contype="0"/></body></worldbody>
    <actuator><motor joint="a"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  std::string missing;
  const std::unique_ptr<Backend> backend = MakeResidualBackend(model.get(), {}, &missing);
  const DataPtr at = MakeData(model.get());
  StepDerivative out;
  EXPECT_FALSE(backend->Linearize(model.get(), at.get(), true, &out, &missing));
  EXPECT_FALSE(TakeWarnings().empty());
  EXPECT_EQ(missing, "H is not positive definite");
  EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kModeCrossing);
}

// where a muscle is at its optimal length, two parabolas of other curvature meet: beyond it all nudges lie on a line
// that misses the slope, of one dof as of two
TEST_F(ResidualDifferenceTest, ABendNearerThanAllNudgesButTheSmallestIsSeen) {
  for (const char* more : {"", "<body pos='0 1 0'><joint type='slide'/><geom size='.1' contype='0'/></body>"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(R"(<mujoco><option timestep=".01"/><worldbody><body><joint name="j" axis="0 1 0" damping=".1"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .3 0 0" contype="0"/></body>)") +
        more +
        R"(</worldbody><actuator><muscle joint="j" range=".75 1.05" lengthrange="-.5 .5" force="30"/></actuator></mujoco>)");
    const DataPtr data = MakeData(model.get());
    data->act[0] = .8;
    data->ctrl[0] = .3;
    data->qvel[0] = .4;
    for (const double beside : {1e-5, 2e-6, -2e-6, 1e-6, -1e-6}) {
      data->qpos[0] = .25 / .3 - .5 + beside;
      const StepDerivative closed = Linearize(model.get(), data.get(), {.level = Level::kAnalytic});
      const StepDerivative value = Linearize(model.get(), data.get(), {.level = Level::kResidual});
      EXPECT_LT((value.A - closed.A).cwiseAbs().maxCoeff(), 1e-8) << more << beside;
    }
  }
}

// rows of the probe in the other storage are none that can be read
TEST_F(ResidualDifferenceTest, FollowsAChangeOfStorage) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option jacobian="dense"/><worldbody><body><joint name="a" damping=".1"/><geom size=".1" pos=".3 0 0"/>
      <body pos=".5 0 0"><joint name="b" frictionloss=".1"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody>
      <equality><joint joint1="a" joint2="b"/></equality></mujoco>)");
  const VectorXd x = VectorXd::LinSpaced(4, .1, .4), u(0);
  Linearizer linearizer(model.get(), {.level = Level::kResidual});
  StepDerivative derivative, expected;
  linearizer.Linearize(x, u, &derivative);
  for (const int storage : {mjJAC_SPARSE, mjJAC_DENSE}) {
    model->opt.jacobian = storage;
    StepVjp pulled;
    linearizer.Vjp(x, u, VectorXd::Ones(4), &pulled);
    linearizer.Linearize(x, u, &derivative);
    Linearizer(model.get(), {.level = Level::kResidual}).Linearize(x, u, &expected);
    EXPECT_LT((derivative.A - expected.A).cwiseAbs().maxCoeff(), 1e-12);
  }
}

// an impedance without width, or one that ends far before, bends nowhere near: nudges need not be smaller for it
TEST_F(ResidualDifferenceTest, AnImpedanceThatIsConstantShortensNoNudge) {
  for (const char* width : {"0", "1e-12", "1e-6"}) {
    SCOPED_TRACE(width);
    const std::string solimp = std::string("solimp='.9 .95 ") + width + "'";
    const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom type='plane' size='1 1 .1' " + solimp +
                                               "/><body pos='0 0 .099'><freejoint/><geom size='.1' " + solimp +
                                               "/></body></worldbody></mujoco>");
    const DataPtr data = MakeData(model.get());
    for (int i = 0; i < model->nv; i++) data->qvel[i] = .1 * std::sin(1.0 + i);
    const StepDerivative one = Linearize(model.get(), data.get(), {.level = Level::kAnalytic});
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    EXPECT_LT((two.A - one.A).cwiseAbs().maxCoeff(), 1e-9 * one.A.cwiseAbs().maxCoeff());
  }
}

// inertial forces have no part in what is stiff: in free motion both levels are the same to rounding
TEST_F(ResidualDifferenceTest, InertiaIsDifferencedToRounding) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/humanoid/humanoid.xml");
  model->opt.disableflags |= mjDSBL_CONTACT;
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = std::sin(1.0 + i);
  data->qpos[2] += 1;
  LinearizeOptions residual, analytic;
  residual.level = Level::kResidual;
  analytic.level = Level::kAnalytic;
  const StepDerivative two = Linearize(model.get(), data.get(), residual),
                       one = Linearize(model.get(), data.get(), analytic);
  EXPECT_LT((two.A - one.A).cwiseAbs().maxCoeff(), 1e-9 * one.A.cwiseAbs().maxCoeff());
  EXPECT_LT((two.B - one.B).cwiseAbs().maxCoeff(), 1e-9 * one.B.cwiseAbs().maxCoeff());
}

// what the implicit function theorem does not cover is refused with its name
TEST_F(ResidualDifferenceTest, RefusesWhatTheTheoremDoesNotCover) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  std::string missing;
  model->opt.noslip_iterations = 3;
  EXPECT_FALSE(MakeResidualBackend(model.get(), {}, &missing));
  EXPECT_NE(missing.find("noslip"), std::string::npos) << missing;
  model->opt.noslip_iterations = 0;
  model->opt.enableflags |= mjENBL_SPECULATIVE;
  EXPECT_FALSE(MakeResidualBackend(model.get(), {}, &missing));
  EXPECT_NE(missing.find("speculative"), std::string::npos) << missing;
}

TEST_F(ResidualDifferenceTest, ModelWithoutDofsHasEmptyMatrices) {
  const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  std::string missing;
  StepDerivative out;
  ASSERT_TRUE(MakeResidualBackend(model.get(), {}, &missing)->Linearize(model.get(), data.get(), true, &out, &missing));
  EXPECT_EQ(out.A.size() + out.B.size() + out.C.size() + out.D.size(), 0);
}

}  // namespace
}  // namespace costate
