#include "derivative/analytic.h"

#include <costate/certificate.h>
#include <costate/derivative_check.h>

#include <cmath>
#include <numeric>
#include <regex>

#include "derivative/joint_scene.h"
#include "derivative/tendon_scene.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using AnalyticTest = support::EngineTest;

constexpr double kLevels = 2e-8;  // level 2 is a five-point difference of a residual stiff in q

StepDerivative LinearizeWith(Backend* backend, const mjModel* model, const mjData* point, bool sensors = false) {
  const DataPtr data = MakeData(model);
  mj_copyState(model, point, data.get(), mjSTATE_INTEGRATION);
  StepDerivative out;
  std::string missing;
  EXPECT_TRUE(backend->Linearize(model, data.get(), sensors, &out, &missing)) << missing;
  EXPECT_EQ(out.status, StepStatus::kOk);
  return out;
}

// A and B, strictly by closed forms
void ExpectClosedForms(const mjModel* model, const mjData* data) {
  AnalyticBackend backend(model, true);
  const StepDerivative value = LinearizeWith(&backend, model, data);
  const support::StepReference reference = support::MakeStepReference(model, data);
  EXPECT_TRUE(support::AgreesWithReference(support::Both(value.A, value.B), reference.step, reference.step_error,
                                           support::kReference));
}

class Integrators : public support::EngineTest, public ::testing::WithParamInterface<std::tuple<int, int>> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.integrator = std::get<0>(GetParam());
    model->opt.cone = std::get<1>(GetParam());
    data = support::DrivenData(model.get(), 60);
    ASSERT_GE(data->ncon, 3);
  }
  ModelPtr model;
  DataPtr data;
};

TEST_P(Integrators, AgreeWithTheStepInContact) {
  AnalyticBackend backend(model.get(), false);
  const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
  const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
  EXPECT_TRUE(support::AgreesWithReference(support::Both(value.A, value.B), reference.step, reference.step_error,
                                           support::kReference));
}

// each term in closed form and by differences: the other terms stay as they are
TEST_P(Integrators, EachTermAgreesWithItsDifferences) {
  AnalyticBackend closed(model.get(), false);
  const StepDerivative expected = LinearizeWith(&closed, model.get(), data.get());
  const TermSwitch switches[] = {
      {.rne = true}, {.passive = true}, {.actuation = true}, {.constraint = true}, {.integrator = true}};
  for (const TermSwitch& differenced : switches) {
    SCOPED_TRACE(&differenced - switches);
    AnalyticBackend backend(model.get(), false, differenced);
    const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
    EXPECT_TRUE(support::MatricesNearRelative(value.A, expected.A, kLevels));
    EXPECT_TRUE(support::MatricesNearRelative(value.B, expected.B, kLevels));
  }
}

// a switch that switches nothing would agree to the last bit
TEST_P(Integrators, ASwitchedTermIsDifferencedAndSaysSo) {
  AnalyticBackend closed(model.get(), false);
  const StepDerivative expected = LinearizeWith(&closed, model.get(), data.get());
  const std::pair<const char*, TermSwitch> switches[] = {{"rne", {.rne = true}},
                                                         {"passive", {.passive = true}},
                                                         {"actuation", {.actuation = true}},
                                                         {"constraint", {.constraint = true}}};
  for (const auto& [name, differenced] : switches) {
    SCOPED_TRACE(name);
    AnalyticBackend backend(model.get(), false, differenced);
    const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
    EXPECT_FALSE(support::BitwiseEqual(value.A, expected.A));
    for (const TermCoverage& term : value.coverage.terms) {
      EXPECT_EQ(term.level, term.term == name ? Level::kResidual : Level::kAnalytic) << term.term;
    }
    AnalyticBackend strict(model.get(), true, differenced);
    const DataPtr work = MakeData(model.get());
    mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION);
    StepDerivative out;
    std::string missing;
    EXPECT_FALSE(strict.Linearize(model.get(), work.get(), false, &out, &missing));
    EXPECT_NE(missing.find(name), std::string::npos) << missing;
  }
}

INSTANTIATE_TEST_SUITE_P(IntegratorsAndCones, Integrators,
                         ::testing::Combine(::testing::Values(mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                                              mjINT_IMPLICITFAST),
                                            ::testing::Values(mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC)));

// in r itself, before M⁻¹ magnifies the noise of differences
TEST_F(AnalyticTest, RneAgreesWithItsDifferences) {
  const ModelPtr model = LoadModelFromString(TendonModel(""));
  mjModel* m = model.get();
  for (int t = 0; t < 3; t++) m->tendon_armature[t] = 0.2 + 0.1 * t;
  const int nv = static_cast<int>(m->nv);
  for (unsigned seed = 1; seed < 6; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(m);
    const VectorXd x = support::RandomState(m, seed, {.velocity = 2}), a = support::Random(seed).Vector(nv, 2);
    InverseDerivative expected, value;
    for (InverseDerivative* out : {&expected, &value}) {
      AnalyticBackend backend(m, false, {.rne = out == &value});
      SetState(m, data.get(), x);
      std::string missing;
      ASSERT_TRUE(backend.LinearizeInverse(m, data.get(), a, out, &missing)) << missing;
    }
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    EXPECT_FALSE(support::BitwiseEqual(value.q, expected.q));
    EXPECT_TRUE(support::MatricesNearRelative(value.q, expected.q, 1e-9));
    EXPECT_TRUE(support::MatricesNearRelative(value.v, expected.v, 1e-9));
  }
}

// applied forces belong to it
TEST_F(AnalyticTest, RneAgreesWithItsDifferencesInTheStep) {
  const ModelPtr model = LoadModelFromString(SpringScene("", ""));
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_IMPLICIT, mjINT_RK4}) {
    m->opt.integrator = integrator;
    const DataPtr data = MakeData(m);
    SetState(m, data.get(), support::RandomState(m, 1, {.velocity = 3}));
    for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.3 * k - 3;
    AnalyticBackend closed(m, false), differenced(m, false, {.rne = true});
    EXPECT_TRUE(support::MatricesNearRelative(LinearizeWith(&differenced, m, data.get()).A,
                                              LinearizeWith(&closed, m, data.get()).A, 1e-9));
  }
}

// joints of every kind with polynomial springs and dampers, no contacts: random states
// (I3) where no constraint acts M da is −∂r itself; sensors need da, which then is solved for first
TEST_F(AnalyticTest, OneSolveGivesWhatTwoGiveWhereNoConstraintActs) {
  constexpr double kRounding = 1e-11;
  for (int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.integrator = integrator;
    model->opt.disableflags |= mjDSBL_CONSTRAINT;
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 5));
    const VectorXd u = support::RandomControl(model.get(), 5);
    mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
    AnalyticBackend backend(model.get(), false);
    const StepDerivative once = LinearizeWith(&backend, model.get(), data.get());
    const StepDerivative twice = LinearizeWith(&backend, model.get(), data.get(), true);
    EXPECT_TRUE(support::MatricesNearRelative(once.A, twice.A, kRounding));
    EXPECT_TRUE(support::MatricesNearRelative(once.B, twice.B, kRounding));
  }
}

TEST_F(AnalyticTest, SpringsAndDampersAgreeWithTheStepAtRandomStates) {
  const ModelPtr model = LoadModelFromString(SpringScene("", R"(
      <tendon>
        <fixed name="dead" stiffness="30" damping="0.5" springlength="-0.01 0.01">
          <joint joint="hinge" coef="0.6"/>
          <joint joint="slide" coef="-0.9"/>
        </fixed>
      </tendon>)"));
  mjModel* m = model.get();
  m->jnt_stiffness[0] = 5;
  MakePolynomial(m);
  m->tendon_stiffnesspoly[1] = 50;
  for (int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_RK4}) {
    m->opt.integrator = integrator;
    for (unsigned seed = 1; seed < 4; seed++) {
      SCOPED_TRACE(integrator * 10 + seed);
      const DataPtr data = MakeData(m);
      SetState(m, data.get(), support::RandomState(m, seed));
      for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.3 * k - 3;
      AnalyticBackend backend(m, false);
      const StepDerivative value = LinearizeWith(&backend, m, data.get());
      const support::StepReference reference = support::MakeStepReference(m, data.get());
      EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));
    }
  }
}

// implicitfast solves standalone free bodies apart, with their gyroscopic derivative; welded children make them
// ordinary
TEST_F(AnalyticTest, SpinningFreeBodiesAgreeWithImplicitfast) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option timestep="0.01" integrator="implicitfast"/>
      <worldbody>
        <geom type="plane" size="5 5 1"/>
        <body pos="0 0 0.4"><freejoint/><geom type="box" size="0.1 0.2 0.4" pos="0.1 0.05 0"/></body>
        <body pos="2 0 3"><joint type="free" damping="0.2"/><geom type="box" size="0.1 0.2 0.3" pos="0.2 0 0.1"/></body>
        <body pos="4 0 3"><freejoint/><geom type="box" size="0.1 0.2 0.3"/><body pos="0.3 0 0"><geom size="0.1"/></body></body>
      </worldbody>
    </mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int k = 0; k < 40; k++) mj_step(model.get(), data.get());
  ASSERT_GT(data->ncon, 0);
  for (int i = 0; i < 18; i++) data->qvel[i] += std::sin(3.0 * i + 1) * (i < 6 ? 0.1 : 6);
  AnalyticBackend backend(model.get(), true);
  const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
  EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));
}

// gravity compensation that counts as actuator force is clamped with it
TEST_F(AnalyticTest, GravityCompensationByActuatorsIsClampedWithThem) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody>
        <body gravcomp="0.7"><joint name="joint0" axis="0 1 0" actuatorgravcomp="true" actuatorfrcrange="-1 1" damping="0.1"/>
          <geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0.1" contype="0"/>
          <body pos="0.4 0 0" gravcomp="1"><joint axis="0 1 0" actuatorgravcomp="true"/>
            <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
            <body pos="0.3 0 0" gravcomp="0.5"><joint type="ball"/><geom type="capsule" size="0.05" fromto="0 0 0 0.2 0.1 0" contype="0"/></body>
          </body>
        </body>
        <body gravcomp="1"><joint type="ball"/><geom size="0.1" contype="0"/>
          <body pos="0 0.3 0" gravcomp="0.6"><joint type="slide" axis="0 1 1" actuatorgravcomp="true" actuatorfrcrange="-1 1"/>
            <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
          </body>
        </body>
      </worldbody>
      <actuator><motor joint="joint0"/></actuator>
    </mujoco>)");
  for (double range : {1.0, 1000.0}) {
    SCOPED_TRACE(range);
    for (int j = 0; j < model->njnt; j++)
      model->jnt_actfrcrange[2 * j] = -range, model->jnt_actfrcrange[2 * j + 1] = range;
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 4));
    data->ctrl[0] = 0.5;
    ExpectClosedForms(model.get(), data.get());
  }
}

// without an actuator, or with all of them disabled, the engine skips the stage that would add gravity compensation
TEST_F(AnalyticTest, GravityCompensationByActuatorsIsLostWithoutThem) {
  const std::string text = R"(
    <mujoco>
      <worldbody>
        <body gravcomp="0.7"><joint type="ball" actuatorgravcomp="true"/><geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0.1" contype="0"/>
          <body pos="0.4 0 0" gravcomp="1"><joint name="knee" axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/></body>
        </body>
        <body gravcomp="0.5" pos="0 1 0"><freejoint name="base"/><geom size="0.1" pos="0.1 0.2 0.3" contype="0"/>
          <body pos="0 0.3 0" gravcomp="0.6"><joint type="slide" axis="0 1 1" actuatorgravcomp="true"/>
            <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
          </body>
        </body>
      </worldbody>
      <actuator>ACTUATOR</actuator>
    </mujoco>)";
  for (const std::string actuator : {"", "<motor joint='knee'/>"}) {
    for (const bool disabled : {false, true}) {
      SCOPED_TRACE(actuator + (disabled ? " disabled" : ""));
      const ModelPtr model = LoadModelFromString(std::regex_replace(text, std::regex("ACTUATOR"), actuator));
      if (disabled) model->opt.disableflags |= mjDSBL_ACTUATION;
      model->jnt_actgravcomp[2] = 1;  // of the free joint, for which MJCF has no word
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), 4));
      ExpectClosedForms(model.get(), data.get());
    }
  }
}

// The engine's mj_jacDot turns the axes of a ball joint with all of its body's velocity: behind another joint of the
// same body J̇ v is not the derivative of J v, and connects, welds and the armature of tendons have no closed form.
TEST_F(AnalyticTest, JointsBehindABallJointOfOneBodyAreDifferenced) {
  const std::string text = R"(
    <mujoco>
      <worldbody>
        <site name="wall" pos="0.3 0.2 0"/>
        <body name="arm"><joint type="ball"/><joint type="slide" axis="1 0.2 0"/>
          <geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0.1" contype="0"/>
          <body pos="0.4 0 0"><joint axis="0 1 0.3"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/><site name="tip" pos="0.3 0 0.1"/></body>
        </body>
      </worldbody>
      MORE
    </mujoco>)";
  for (const std::string more :
       {"<equality><connect body1='arm' anchor='0.4 0 0'/></equality>", "<equality><weld body1='arm'/></equality>",
        "<tendon><spatial armature='0.3'><site site='wall'/><site site='tip'/></spatial></tendon>"}) {
    SCOPED_TRACE(more);
    const ModelPtr model = LoadModelFromString(std::regex_replace(text, std::regex("MORE"), more));
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 3));
    const StepDerivative value = Linearize(model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
    EXPECT_TRUE(support::AgreesWithReference(support::Both(value.A, value.B), reference.step, reference.step_error,
                                             support::kReference));
  }
}

// thrusters on a moving arm and on its free base: the wrench turns with its body
TEST_F(AnalyticTest, ThrustersAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody>
        <body>
          <freejoint/><geom type="box" size="0.2 0.1 0.05"/><site name="base" pos="0.2 0.1 0" euler="10 20 30"/>
          <body pos="0.3 0 0"><joint axis="0 1 0.2"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" contype="0"/>
            <site name="tip" pos="0.2 0 0" euler="40 0 50"/>
          </body>
        </body>
      </worldbody>
      <actuator>
        <motor site="base" gear="1 2 3 0.1 0.2 0.3"/>
        <general site="tip" gear="0 0 1 0.3 0 0.05" dyntype="filter" dynprm="0.1" gainprm="4" biastype="affine" biasprm="0.5 1 0"/>
      </actuator>
    </mujoco>)");
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    model->opt.integrator = integrator;
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 8));
    data->ctrl[0] = 0.7;
    data->ctrl[1] = -0.4;
    ExpectClosedForms(model.get(), data.get());
  }
}

// a group that is switched off, whose act_dot the engine makes all the same, and no actuation at all
TEST_F(AnalyticTest, ActivationsOfDisabledActuatorsStay) {
  for (const char* options :
       {"integrator='RK4' actuatorgroupdisable='1'>", "integrator='Euler' actuatorgroupdisable='1'>",
        "integrator='RK4'><flag actuation='disable'/>"}) {
    SCOPED_TRACE(options);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option timestep='0.01' ") + options + R"(</option><worldbody>
        <body><joint name="a" axis="0 1 0" damping="0.1"/><geom size="0.1" pos="0.2 0 0"/></body></worldbody>
      <actuator>
        <muscle name="arm" joint="a" group="1" lengthrange="-1 1" force="3"/>
        <general joint="a" group="1" dyntype="filter" dynprm="0.1" gainprm="2" actlimited="true" actrange="0.3 1"/>
        <general joint="a" group="1" dyntype="filterexact" dynprm="0.1" gainprm="2"/>
        <pid joint="a" group="1" kp="2" kv="0.1" ki="3"/>
        <general joint="a" dyntype="filter" dynprm="0.1" gainprm="2"/>
      </actuator><sensor><actuatorvel actuator="arm"/></sensor></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qvel[0] = 0.4;
    for (int i = 0; i < m->nu; i++) data->ctrl[i] = 0.7;
    for (int i = 0; i < m->na; i++) data->act[i] = 0.2;  // one is below its range
    const StepDerivative value = Linearize(m, data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    for (const BlockComparison& block : Compare(m, value, Reference(m, data.get()), {.tolerance = 1e-8}).blocks) {
      EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                                << block.worst.value << " " << block.worst.reference;
    }
    EXPECT_EQ(value.B.topRows(value.B.rows() - 1).leftCols(m->nu - 1).norm(), 0);
  }
}

// muscles: both curves, both activation time constants, with and without smoothing
TEST_F(AnalyticTest, MusclesAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option timestep="0.002"/>
      <worldbody>
        <body>
          <joint name="a" axis="0 1 0" damping="0.05"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0"/>
          <body pos="0.3 0 0">
            <joint name="b" axis="0 1 0"/>
            <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0"/>
          </body>
        </body>
      </worldbody>
      <tendon><fixed name="t"><joint joint="a" coef="0.3"/><joint joint="b" coef="0.5"/></fixed></tendon>
      <actuator>
        <muscle joint="a" lengthrange="-1 1" force="30" gear="1"/>
        <muscle tendon="t" lengthrange="-0.7 0.9" force="-1" scale="300" tausmooth="0.4"/>
      </actuator>
    </mujoco>)");
  for (unsigned seed = 0; seed < 12; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed + 1, {.position = 1.2, .velocity = 8}));
    const VectorXd u = support::RandomControl(model.get(), seed + 50);
    mju_copy(data->ctrl, u.data(), 2);
    ExpectClosedForms(model.get(), data.get());
  }
}

// strict: the first term without closed form is named; otherwise it is differenced and the coverage says so
TEST_F(AnalyticTest, NamesTheTermThatHasNoClosedForm) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody><geom type="plane" size="5 5 .1"/><body name="foot" pos="0 0 .099"><freejoint/><geom size="0.1"/></body></worldbody>
      <actuator><general name="grip" body="foot" gainprm="10" biastype="affine" biasprm="0 0 -3"/></actuator>
    </mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 0.5;
  data->qvel[0] = 0.1;
  StepDerivative out;
  std::string missing;
  const DataPtr work = MakeData(model.get());
  mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION);
  EXPECT_FALSE(AnalyticBackend(model.get(), true).Linearize(model.get(), work.get(), false, &out, &missing));
  EXPECT_EQ(missing, "actuation: moving moment arm of grip");

  AnalyticBackend mixed(model.get(), false);
  out = LinearizeWith(&mixed, model.get(), data.get());
  EXPECT_EQ(out.coverage.Worst(), Level::kResidual);
  EXPECT_EQ(out.coverage.terms[0].level, Level::kAnalytic);
  const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
  EXPECT_TRUE(support::AgreesWithReference(support::Both(out.A, out.B), reference.step, reference.step_error, kLevels));
}

// connect and weld, by bodies and by sites, one or two moving sides; a ball limit; all spinning
TEST_F(AnalyticTest, ConnectsWeldsAndBallLimitsAgreeWithTheStep) {
  for (const char* equality : {"<connect body1='b' body2='c' anchor='0.1 0.2 0'/>",
                               "<connect body1='e' anchor='0.1 0.2 0'/>", "<connect site1='s1' site2='s2'/>",
                               "<weld body1='a' body2='c'/>", "<weld body1='c' body2='e' torquescale='0.3'/>",
                               "<weld site1='s1' site2='s2'/>", "<weld body1='c'/>", "<weld body1='a' body2='b'/>"}) {
    SCOPED_TRACE(equality);
    const ModelPtr model = LoadModelFromString(EqualityScene(equality));
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(),
             support::RandomState(model.get(), 11, {.position = 0.4, .velocity = 2, .inside_limits = false}));
    AnalyticBackend backend(model.get(), true);
    const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
    const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
    EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));
  }
}

// rows without closed form (libccd's contact of an ellipsoid) go to differences alone, the contacts beside them stay
// closed
TEST_F(AnalyticTest, RowsWithoutClosedFormAreDifferencedNotDropped) {
  for (const bool native : {false, true}) {
    const ModelPtr model = LoadModelFromString(std::string(R"(
      <mujoco>
        <option><flag nativeccd=")") + (native ? "enable" : "disable") +
                                               R"("/></option>
        <worldbody>
          <geom type="box" size="2 2 .1"/>
          <body pos="0 0 0.24"><freejoint/><geom size="0.15"/></body>
          <body pos="1 0 0.26" euler="15 10 5"><freejoint/><geom type="ellipsoid" size=".2 .3 .15"/></body>
        </worldbody>
      </mujoco>)");
    const DataPtr data = support::DrivenData(model.get(), 5);
    for (int i = 0; i < model->nv; i++) data->qvel[i] += 0.05 * std::sin(3.0 * i + 1);
    ASSERT_GE(data->ncon, 2);
    AnalyticBackend backend(model.get(), false);
    const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), native ? Level::kAnalytic : Level::kResidual);
    const support::StepReference reference = support::MakeStepReference(model.get(), data.get());

    // the native collider's contact is 1e-6 off the surfaces that level 1 is the derivative of
    EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, native ? 1e-5 : kLevels));
  }
}

// a servo whose joint is saturated no longer damps M − hD
TEST_F(AnalyticTest, ClampedJointsAgreeWithImplicitfast) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option integrator="implicitfast"/>
      <worldbody>
        <body><joint name="j" axis="0 1 0" actuatorfrcrange="-10 10"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.3"/></body>
      </worldbody>
      <actuator><position joint="j" kp="50" kv="4"/></actuator>
    </mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.5;
  data->qvel[0] = 0.2;
  for (double ctrl : {-1.0, 0.4}) {
    SCOPED_TRACE(ctrl);
    data->ctrl[0] = ctrl;
    ExpectClosedForms(model.get(), data.get());
  }
}

// (A3) at rest a muscle's control can only rise, by the activation time, its activation only fall back, by the
// deactivation time; where both are equal inside [0, 1] a centred difference has the mean
TEST_F(AnalyticTest, MusclesWhoseControlIsTheirActivationHaveTheSlopesThatAreThere) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody><body><joint name="a"/><geom size="0.1"/></body></worldbody>
      <actuator><muscle joint="a" lengthrange="-1 1" timeconst="0.02 0.05" ctrllimited="true" ctrlrange="0 1"/></actuator>
    </mujoco>)");
  const double h = model->opt.timestep;
  for (double level : {0.0, 0.4, 1.0}) {
    SCOPED_TRACE(level);
    const DataPtr data = MakeData(model.get());
    data->ctrl[0] = data->act[0] = level;
    const auto act_after = [&](double ctrl, double act) {
      const DataPtr probe = MakeData(model.get());
      probe->ctrl[0] = ctrl;
      probe->act[0] = act;
      mj_step(model.get(), probe.get());
      return probe->act[0];
    };
    const double e = 1e-7, base = act_after(level, level);
    double ctrl_side[2], act_side[2];  // down, up
    for (int k = 0; k < 2; k++) {
      const double move = k == 0 ? -e : e;
      ctrl_side[k] = (act_after(level + move, level) - base) / move;
      act_side[k] = (act_after(level, level + move) - base) / move;
    }
    AnalyticBackend backend(model.get(), true);
    const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
    const double by_ctrl = level == 0 ? ctrl_side[1] : level == 1 ? ctrl_side[0] : 0.5 * (ctrl_side[0] + ctrl_side[1]);
    const double by_act = level == 0 ? act_side[1] : level == 1 ? act_side[0] : 0.5 * (act_side[0] + act_side[1]);
    EXPECT_NEAR(value.B(2, 0), by_ctrl, 1e-5 * h / 0.02);
    EXPECT_NEAR(value.A(2, 2), by_act, 1e-5 * h / 0.02);
  }
}

// the mean of the slopes to both sides of a muscle's control or activation, or that of the side which [0, 1] leaves: at two
// sizes, extrapolated
VectorXd MuscleColumn(double value, double nudge, const std::function<VectorXd(double)>& after) {
  const VectorXd here = after(0);
  VectorXd mean = VectorXd::Zero(here.size());
  int sides = 0;
  for (const int sign : {-1, 1}) {
    if ((value == 0 && sign < 0) || (value == 1 && sign > 0)) continue;
    const auto slope = [&](double e) -> VectorXd { return (after(sign * e) - here) / (sign * e); };
    mean += 2 * slope(nudge / 2) - slope(nudge);
    sides++;
  }
  return mean / sides;
}

// (A3) under RK4: where the second stage lands on control = activation, or all do, A and B are the mean of what nudges
// to both sides do, or the side that [0, 1] leaves
TEST_F(AnalyticTest, MusclesOnTheirKinkInAnyStageOfRungeKuttaAreTheMeanOfBothSides) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><option timestep="0.01" integrator="RK4"/>
      <worldbody><body><joint name="a" damping="0.1"/><geom size="0.1"/></body></worldbody>
      <actuator><muscle joint="a" lengthrange="-1 1" force="30"/></actuator>
    </mujoco>)");
  constexpr double kStep = 1e-6, kTolerance = 1e-8;  // of a column; slopes from one side at two sizes, extrapolated:
                                                     // rounding of velocities over kStep
  Linearizer linearizer(model.get());
  for (const auto& [ctrl, act] : {std::pair(0.0, 0.0), std::pair(0.4, 0.4), std::pair(1.0, 1.0), std::pair(0.75, 0.0),
                                  std::pair(0.0, 0.5), std::pair(0.7, 0.2)}) {
    SCOPED_TRACE(std::to_string(ctrl) + " " + std::to_string(act));
    VectorXd x = VectorXd::Zero(3), u = VectorXd::Constant(1, ctrl);
    x << 0.3, 0.2, act;
    const auto after = [&](double dctrl, double dact) {
      const DataPtr probe = MakeData(model.get());
      probe->qpos[0] = x[0];
      probe->qvel[0] = x[1];
      probe->ctrl[0] = ctrl + dctrl;
      probe->act[0] = act + dact;
      mj_step(model.get(), probe.get());
      return GetState(model.get(), probe.get());
    };
    const auto column = [&](double value, bool control) {
      return MuscleColumn(value, kStep, [&](double nudge) { return after(control ? nudge : 0, control ? 0 : nudge); });
    };
    StepDerivative value;
    linearizer.Linearize(x, u, &value);
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    const auto expect_near = [&](const VectorXd& found, const VectorXd& expected) {
      EXPECT_LE((found - expected).cwiseAbs().maxCoeff(), kTolerance * std::max(1.0, expected.cwiseAbs().maxCoeff()))
          << found << "\n\n"
          << expected;
    };
    expect_near(value.B.col(0), column(ctrl, true));
    expect_near(value.A.col(2), column(act, false));

    // products go the same way
    const VectorXd lambda = Eigen::Vector3d(0.3, -0.7, 0.9);
    StepVjp pulled;
    linearizer.Vjp(x, u, lambda, &pulled);
    EXPECT_LE((pulled.x - value.A.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-14);
    EXPECT_LE((pulled.u - value.B.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-14);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), x);
    data->ctrl[0] = ctrl;
    EXPECT_EQ(Certify(model.get(), data.get()).label, ctrl == 0.7 ? Smoothness::kSmooth : Smoothness::kModeCrossing);

    // … and differences of the actuators alone
    AnalyticBackend mixture(model.get(), false, {.actuation = true});
    const StepDerivative mixed = LinearizeWith(&mixture, model.get(), data.get());
    EXPECT_EQ(mixed.coverage.Worst(), Level::kResidual);
    EXPECT_TRUE(support::MatricesNearRelative(mixed.A, value.A, kLevels));
    EXPECT_TRUE(support::MatricesNearRelative(mixed.B, value.B, kLevels));
    data->qpos[0] = x[0], data->qvel[0] = x[1], data->act[0] = act;
    StepVjp same;
    std::string missing;
    ASSERT_TRUE(mixture.Vjp(model.get(), data.get(), {lambda, VectorXd()}, &same, &missing)) << missing;
    EXPECT_LE((same.x - mixed.A.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-12);
    EXPECT_LE((same.u - mixed.B.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-12);
  }
}

// (A3) over several steps under one control: a nudge of the control keeps its muscle on that side, as the activation only
// follows; the chain of single steps, each from rest, would be off by half of it
TEST_F(AnalyticTest, MusclesOnTheirKinkStayOnTheSideOfANudgeForSeveralSteps) {
  constexpr int kSteps = 4;
  constexpr double kNudge = 1e-6, kTolerance = 1e-7;  // of a column
  for (const char* integrator : {"Euler", "implicitfast", "discrete"}) {
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><option integrator=")") + integrator + R"("/>
      <worldbody><body><joint name="a" damping="0.1"/><geom size="0.1"/></body></worldbody>
      <actuator><muscle joint="a" lengthrange="-1 1" force="30"/><muscle joint="a" lengthrange="-1 1" force="-20"/></actuator>
    </mujoco>)");
    for (const double at : {0.0, 0.4, 1.0}) {
      SCOPED_TRACE(integrator + std::to_string(at));
      VectorXd x(4), u(2);
      x << 0.3, 0.2, at, 0.5;
      u << at, 0.2;
      const auto after = [&](double dctrl, double dact) {
        const DataPtr probe = MakeData(model.get());
        SetState(model.get(), probe.get(), x);
        probe->act[0] += dact;
        probe->ctrl[0] = u[0] + dctrl;
        probe->ctrl[1] = u[1];
        for (int k = 0; k < kSteps; k++) mj_step(model.get(), probe.get());
        return GetState(model.get(), probe.get());
      };
      const auto column = [&](bool control) {
        return MuscleColumn(at, kNudge, [&](double nudge) { return after(control ? nudge : 0, control ? 0 : nudge); });
      };
      for (const Level level : {Level::kAnalytic, Level::kResidual}) {
        Linearizer linearizer(model.get(), {.level = level, .substeps = kSteps});
        StepDerivative value;
        linearizer.Linearize(x, u, &value);
        EXPECT_LE((value.B.col(0) - column(true)).cwiseAbs().maxCoeff(), kTolerance) << value.B << "\n" << column(true);
        EXPECT_LE((value.A.col(2) - column(false)).cwiseAbs().maxCoeff(), kTolerance) << value.A << "\n"
                                                                                      << column(false);
        const VectorXd lambda = Eigen::Vector4d(0.3, -0.7, 0.9, 0.2), dx = Eigen::Vector4d(1, -2, 0.5, 0.7),
                       du = Eigen::Vector2d(-0.4, 0.6);
        StepVjp pulled;
        linearizer.Vjp(x, u, lambda, &pulled);
        EXPECT_LE((pulled.x - value.A.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-11);
        EXPECT_LE((pulled.u - value.B.transpose() * lambda).cwiseAbs().maxCoeff(), 1e-11);
        StepJvp pushed;
        linearizer.Jvp(x, u, dx, du, &pushed);
        EXPECT_LE((pushed.dx - value.A * dx - value.B * du).cwiseAbs().maxCoeff(), 1e-11);
      }
    }
  }
}

// every kind of row of joints and contacts, with warm starts near and far: the engine's solver is not asked, and the
// minimum is that to which its own is polished
TEST_F(AnalyticTest, FindsTheMinimumFromAnyWarmStart) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><option timestep="0.005"/>
      <worldbody>
        <geom type="plane" size="5 5 0.1" condim="6" friction="0.8 0.02 0.01"/>
        <body pos="0 0 0.14"><freejoint/>
          <geom type="box" size="0.1 0.1 0.1" condim="3"/>
          <body pos="0.2 0 0"><joint name="hinge" axis="0 1 0" limited="true" range="-5 5" frictionloss="0.1"/>
            <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" condim="4"/></body>
          <body pos="-0.2 0 0"><joint type="ball" limited="true" range="0 10" damping="0.01"/>
            <geom type="capsule" fromto="0 0 0 -0.3 0 0.02" size="0.03"/></body></body>
        <body pos="0.01 0.02 0.35"><freejoint/><geom type="box" size="0.08 0.08 0.08" condim="3"/></body>
        <body pos="0 1 0.5"><joint name="first" axis="0 1 0" frictionloss="0.05"/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" condim="1"/>
          <body pos="0.2 0 0"><joint name="second" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03"/></body></body>
      </worldbody>
      <tendon><fixed name="sum" limited="true" range="-0.5 0.2"><joint joint="first" coef="1"/><joint joint="hinge" coef="-1"/></fixed></tendon>
      <equality><joint joint1="first" joint2="second" polycoef="0 0.5 0.2 0 0"/></equality>
    </mujoco>)");
  mjModel* m = model.get();
  const int nv = static_cast<int>(m->nv);
  for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    m->opt.cone = cone;
    const DataPtr data = MakeData(m);
    for (int k = 0; k < 100; k++) {
      mj_step(m, data.get());
      if (k % 10 != 9) continue;
      const DataPtr polished = MakeData(m);
      mj_copyState(m, data.get(), polished.get(), mjSTATE_INTEGRATION);
      Equilibrium point;
      StepStatus status;
      std::string missing;
      ASSERT_TRUE(point.Solve(m, polished.get(), &status, &missing)) << missing;
      ASSERT_GT(polished->nefc, 0);

      AnalyticBackend backend(m, true);
      AccelerationDerivative found;
      for (double far : {0.0, 1.0, 1e3}) {
        const DataPtr work = MakeData(m);
        mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION);
        const VectorXd push = far * support::Random(k).Vector(nv);
        mju_addTo(work->qacc_warmstart, push.data(), nv);
        ASSERT_TRUE(backend.LinearizeAcceleration(m, work.get(), &found, &missing)) << missing;
        EXPECT_EQ(std::accumulate(work->solver_niter, work->solver_niter + mjNISLAND, 0), 0) << "the engine's solver";
        EXPECT_LT((found.qacc - point.a()).lpNorm<Eigen::Infinity>(),
                  1e-10 * (1 + point.a().lpNorm<Eigen::Infinity>()));
      }
    }
  }
}

// H then has no entry off its diagonal, and contacts must still reach it
TEST_F(AnalyticTest, TreesOfOneDofAgreeInContact) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody>
        <geom type="plane" size="5 5 1" euler="10 0 0"/>
        <body pos="0 0 0.09"><joint type="slide" axis="0 0.2 1"/><geom size="0.1"/></body>
        <body pos="1 0 0.095"><joint type="slide" axis="0 0 1" damping="30"/><geom size="0.1"/></body>
      </worldbody>
    </mujoco>)");
  const DataPtr data = support::DrivenData(model.get(), 10);
  ASSERT_EQ(data->ncon, 2);
  AnalyticBackend backend(model.get(), true);
  const StepDerivative value = LinearizeWith(&backend, model.get(), data.get());
  const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
  EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));

  // nor does one that no search has left
  model->opt.tolerance = 0;
  mj_forward(model.get(), data.get());
  Linearizer linearizer(model.get(), {.level = Level::kAnalytic});
  StepDerivative after;
  linearizer.LinearizeAfterForward(data.get(), &after);
  EXPECT_TRUE(support::AgreesWithReference(after.A, reference.step, reference.step_error, support::kReference));
}

}  // namespace
}  // namespace costate
