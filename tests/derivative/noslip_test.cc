#include "derivative/noslip.h"

#include <costate/certificate.h>
#include <costate/derivative_check.h>
#include <costate/parameter.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "derivative/analytic.h"
#include "derivative/noslip_scene.h"
#include "derivative/tendon_scene.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using NoslipTest = support::EngineTest;

constexpr double kReference = 1e-8;  // of a matrix' largest entry, beyond three error bars: QCQPs end within 1e-10

// some steps on, with forces that make some contacts slide
DataPtr Pushed(const mjModel* m, int steps) {
  DataPtr data = MakeData(m);
  mjData* d = data.get();
  d->ctrl[0] = 0.7;
  for (int k = 6; k < 6 * m->nbody; k++) d->xfrc_applied[k] = 3 * std::sin(k);
  for (int k = 0; k < steps; k++) mj_step(m, d);
  return data;
}

StepDerivative LinearizeNoslip(const mjModel* m, const mjData* point, bool sensors = false,
                               const TermSwitch& differenced = {}) {
  AnalyticBackend backend(m, false, differenced);
  const DataPtr data = MakeData(m);
  mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
  StepDerivative out;
  std::string missing;
  EXPECT_TRUE(backend.Linearize(m, data.get(), sensors, &out, &missing)) << missing;
  return out;
}

// A … D block by block
void ExpectReferenceBlocks(const mjModel* m, mjData* data, const StepDerivative& value) {
  for (const BlockComparison& block : Compare(m, value, Reference(m, data), {.tolerance = kReference}).blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                              << block.worst.value << " " << block.worst.reference << " +- " << block.worst.error_bar;
  }
}

// ends at the minimum, not within the model's tolerance of it
mjModel Tight(const mjModel* m) {
  mjModel tight = *m;
  tight.opt.tolerance = 0;
  tight.opt.iterations = 200;
  return tight;
}

// gradients by applied forces against centred differences of loss(work), which finds `work` in the state of `data`
template <typename Loss>
void ExpectSlopesByForces(const mjModel* m, mjData* data, mjData* work, const StepVjp& vjp, Loss loss) {
  const auto slope = [&](mjtNum* force) {
    const double h = 1e-4, before = *force;
    double value[2];
    for (int side = 0; side < 2; side++) {
      *force = before + (side ? h : -h);
      mj_copyState(m, data, work, mjSTATE_INTEGRATION);
      value[side] = loss(work);
    }
    *force = before;
    return (value[1] - value[0]) / (2 * h);
  };
  const double largest = std::max(vjp.qfrc.lpNorm<Eigen::Infinity>(), vjp.xfrc.lpNorm<Eigen::Infinity>());
  EXPECT_GT(vjp.qfrc.lpNorm<Eigen::Infinity>(), 1e-3);
  for (int i = 0; i < m->nv; i++) EXPECT_NEAR(vjp.qfrc[i], slope(data->qfrc_applied + i), 1e-6 * largest) << i;
  for (int i = 6; i < 6 * m->nbody; i++) EXPECT_NEAR(vjp.xfrc[i], slope(data->xfrc_applied + i), 1e-6 * largest) << i;
}

// of a covector on the next state, and one on the sensors unless it is empty
void ExpectStepSlopesByForces(const mjModel* m, mjData* data, mjData* work, const StepVjp& vjp, const VectorXd& lambda,
                              const VectorXd& sigma) {
  const mjModel tight = Tight(m);
  mj_copyState(m, data, work, mjSTATE_INTEGRATION);
  mj_step(&tight, work);
  const VectorXd base = GetState(m, work);
  ExpectSlopesByForces(m, data, work, vjp, [&](mjData* d) {
    mj_step(&tight, d);
    return lambda.dot(Difference(m, GetState(m, d), base)) +
           sigma.dot(Eigen::Map<const VectorXd>(d->sensordata, sigma.size()));
  });
}

class NoslipCones : public support::EngineTest, public ::testing::WithParamInterface<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model = LoadModelFromString(Pushing(std::get<0>(GetParam()), std::get<1>(GetParam())));
    data = Pushed(model.get(), 30);
    ASSERT_GE(data->ncon, 4);
  }
  ModelPtr model;
  DataPtr data;
};

// … and so is their number, whatever the tolerance at which they end
TEST_P(NoslipCones, SweepsAreTheEngines) {
  mjModel* m = model.get();
  for (int islands : {0, 1}) {
    for (double tolerance :
         {0.0, 1e-8, 3e-8, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0}) {
      SCOPED_TRACE(islands);
      SCOPED_TRACE(tolerance);
      m->opt.disableflags = islands ? 0 : mjDSBL_ISLAND;
      m->opt.noslip_tolerance = tolerance;
      LinearizeOptions options;
      options.sensors = false;
      Linearizer linearizer(m, options);
      linearizer.SetContext(GetContext(m, data.get()));
      AccelerationDerivative value;
      linearizer.LinearizeAcceleration(GetState(m, data.get()), Eigen::Map<const VectorXd>(data->ctrl, m->nu), &value);
      EXPECT_LE(value.coverage.Worst(), Level::kResidual);
      mjModel tight = Tight(m);
      mj_forward(&tight, data.get());
      const VectorXd engine = Eigen::Map<const VectorXd>(data->qacc, m->nv);
      EXPECT_LE((value.qacc - engine).lpNorm<Eigen::Infinity>(), 1e-9 * engine.lpNorm<Eigen::Infinity>());
      tight.opt.noslip_iterations = 0;
      mj_forward(&tight, data.get());
      const VectorXd minimum = Eigen::Map<const VectorXd>(data->qacc, m->nv);
      EXPECT_GE((minimum - engine).lpNorm<Eigen::Infinity>(), 1e-5 * engine.lpNorm<Eigen::Infinity>());
    }
  }
}

TEST_P(NoslipCones, StepAgreesWithTheReference) {
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    const StepDerivative value = LinearizeNoslip(m, data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    const support::StepReference reference = support::MakeStepReference(m, data.get());
    EXPECT_TRUE(support::AgreesWithReference(support::Both(value.A, value.B), reference.step, reference.step_error,
                                             kReference));
  }
}

// a box at rest: its sweeps have nothing to gain but rounding, and end by its sign; those of any state around it go on
TEST_F(NoslipTest, AtRestItSweepsAsAnyStateAround) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option noslip_iterations="5" noslip_tolerance="0"/><worldbody>
    <geom type="plane" size="1 1 .1"/><body pos="0 0 .02"><freejoint/><geom type="box" size=".02 .02 .02" mass=".1"/></body>
    </worldbody></mujoco>)");
  const mjModel tight = Tight(model.get());
  const DataPtr data = MakeData(&tight);
  for (int k = 0; k < 1000; k++) mj_step(&tight, data.get());
  ASSERT_LT(Eigen::Map<const VectorXd>(data->qvel, 6).norm(), 1e-9);
  const StepDerivative value = LinearizeNoslip(&tight, data.get());
  const support::StepReference reference = support::MakeStepReference(&tight, data.get());
  EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, kReference));
}

// (N9), (N10)
TEST_P(NoslipCones, AccelerationsAndForcesAreInClosedForm) {
  std::string text = Pushing(std::get<0>(GetParam()), std::get<1>(GetParam()));
  text.replace(text.find("</mujoco>"), 0, R"(<sensor><framelinacc objtype="body" objname="sledge"/>
    <frameangacc objtype="body" objname="arm"/><framelinacc objtype="xbody" objname="ball"/>
    <accelerometer site="tip"/><force site="tip"/><torque site="tip"/><torque site="shoulder"/>
    <contact geom1="floor" num="3" data="force torque dist pos"/><contact body1="ball" reduce="maxforce" data="force"/>
    <contact body1="sledge" reduce="netforce" data="force torque pos"/>
    <contact body1="ball" reduce="netforce" data="force"/></sensor>)");
  const std::string arm = "fromto=\"0 0 0 0.25 0 0.01\"/>";
  text.replace(text.find(arm) + arm.size(), 0, "<site name='tip' pos='.2 0 .05' euler='20 30 40'/>");
  text.replace(text.find("<joint name=\"a\""), 0, "<site name='shoulder' pos='0 .01 0'/>");
  text.replace(text.find("type=\"plane\""), 0, "name='floor' ");
  const ModelPtr sensing = LoadModelFromString(text);
  mjModel* m = sensing.get();
  const DataPtr point = Pushed(m, 30);
  ASSERT_GE(point->ncon, 4);
  const StepDerivative value = LinearizeNoslip(m, point.get(), true);
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  ExpectReferenceBlocks(m, point.get(), value);
}

INSTANTIATE_TEST_SUITE_P(ConesAndDimensions, NoslipCones,
                         ::testing::Combine(::testing::Values("pyramidal", "elliptic"), ::testing::Values(3, 4, 6)));

TEST_F(NoslipTest, ManyTermsAndTheirSensorsAgreeWithTheReference) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  mjModel* m = model.get();
  m->opt.noslip_iterations = 3;
  for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    for (int integrator : {mjINT_EULER, mjINT_IMPLICIT}) {
      SCOPED_TRACE(cone * 10 + integrator);
      m->opt.cone = cone;
      m->opt.integrator = integrator;
      const DataPtr data = MakeData(m);
      const VectorXd u = support::RandomControl(m, 3);
      mju_copy(data->ctrl, u.data(), static_cast<int>(m->nu));
      for (int k = 0; k < 60; k++) mj_step(m, data.get());
      ASSERT_GE(data->ncon, 3);
      const StepDerivative value = LinearizeNoslip(m, data.get(), true);
      ExpectReferenceBlocks(m, data.get(), value);
    }
  }
}

// a cutoff holds what the pass leaves, within it before or beyond
TEST_F(NoslipTest, CutoffsHoldValuesBehindThePass) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option noslip_iterations="5"/><worldbody><geom type="plane" size="1 1 .1" condim="3"/>
    <body name="b" pos="0 0 .0999"><freejoint/><geom type="box" size=".2 .1 .1" mass="2" condim="3"/></body></worldbody>
    <sensor><framelinacc objtype="body" objname="b"/></sensor></mujoco>)");
  mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qfrc_applied[0] = 3, data->qfrc_applied[1] = -2;
  for (int k = 0; k < 50; k++) mj_step(m, data.get());
  double x[2];
  for (const int iterations : {0, 5}) {
    m->opt.noslip_iterations = iterations;
    const DataPtr sensed = MakeData(m);
    mj_copyState(m, data.get(), sensed.get(), mjSTATE_INTEGRATION);
    mj_forward(m, sensed.get());
    x[iterations > 0] = std::abs(sensed->sensordata[0]);
  }
  ASSERT_GT(std::abs(x[0] - x[1]), 0.1 * std::max(x[0], x[1]));
  m->sensor_cutoff[0] = (x[0] + x[1]) / 2;
  const StepDerivative value = Linearize(m, data.get(), {.level = Level::kAnalytic});
  const ReferenceDerivative reference = Reference(m, data.get());
  EXPECT_EQ(value.C.row(0).isZero(0), x[1] > x[0]);
  EXPECT_TRUE(Compare(m, value, reference, {.tolerance = 1e-6}).agrees);
}

TEST_F(NoslipTest, FrictionOfSpatialTendonsAgreesWithTheReference) {
  const ModelPtr model = LoadModelFromString(
      TendonModel("frictionloss='0.3'", "<sensor><force site='f'/><torque site='c'/><force site='e'/></sensor>"));
  mjModel* m = model.get();
  m->opt.noslip_iterations = 5;
  for (unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(m);
    SetState(m, data.get(), support::RandomState(m, seed, {.position = 0.4, .velocity = 0.01, .inside_limits = false}));
    const StepDerivative value = LinearizeNoslip(m, data.get(), true);
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    ExpectReferenceBlocks(m, data.get(), value);
  }
}

// λ·(A dx + B du + F df) pulled back: the state's part is Aᵀλ, that of forces is what a change of the forces does
TEST_F(NoslipTest, PullsBackToAppliedForces) {
  const ModelPtr model = LoadModelFromString(Pushing("elliptic", 4));
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST}) {
    m->opt.integrator = integrator;
    const DataPtr data = Pushed(m, 30), work = MakeData(m);
    const Dims dims(m);
    const StepDerivative value = LinearizeNoslip(m, data.get());
    const VectorXd lambda = support::Random(4).Vector(dims.ndx);
    AnalyticBackend backend(m, true);
    StepVjp vjp;
    std::string missing;
    mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION);
    ASSERT_TRUE(backend.Vjp(m, work.get(), lambda, true, &vjp, &missing)) << missing;
    EXPECT_TRUE(support::MatricesNearRelative(vjp.x, value.A.transpose() * lambda, 1e-12));
    EXPECT_TRUE(support::MatricesNearRelative(vjp.u, value.B.transpose() * lambda, 1e-12));

    ExpectStepSlopesByForces(m, data.get(), work.get(), vjp, lambda, VectorXd());
  }
}

// Forces in the joints of a light leg are small differences of stiff ones: where they are differenced, how much they
// lose by rounding is measured, and nudges are long enough for it
TEST_F(NoslipTest, ForcesInALightLegAreDifferencedAboveTheirNoise) {
  for (const std::string cone : {"pyramidal", "elliptic"}) {
    const ModelPtr model = LoadModelFromString(
        "<mujoco><option timestep='0.004' noslip_iterations='3' impratio='10' cone='" + cone + R"('/><worldbody>
      <geom type="plane" size="3 3 1"/>
      <body pos="0 0 .345"><freejoint/><geom type="box" size=".12 .1 .05" mass="20"/>
        <body pos=".1 0 -.05"><joint axis="0 1 0" frictionloss=".4"/><site name="hip"/><geom type="capsule" size=".02" fromto="0 0 0 .02 0 -.15" mass=".3"/>
          <site name="knee" pos=".02 0 -.15"/><body pos=".02 0 -.15"><joint axis="0 1 .1" frictionloss=".2" damping=".1"/>
            <geom type="capsule" size=".02" fromto="0 0 0 -.02 .01 -.12" mass=".1"/></body></body>
        <body pos="-.1 .05 -.05"><joint axis="0 1 0" damping="1"/><geom type="capsule" size=".02" fromto="0 0 0 .01 0 -.26" mass=".3"/></body>
        <body pos="-.1 -.05 -.05"><joint axis="0 1 0" damping="1"/><geom type="capsule" size=".02" fromto="0 0 0 .01 0 -.26" mass=".3"/></body>
      </body></worldbody><sensor><force site="knee"/><torque site="hip"/></sensor></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    for (int i = 0; i < m->nv; i++) data->qvel[i] = 0.3 * std::sin(2.0 * i + 1);
    for (const int steps : {10, 5, 10, 10}) {
      for (int k = 0; k < steps; k++) mj_step(m, data.get());
      ASSERT_GT(data->ncon, 0);
      const ReferenceDerivative reference = Reference(m, data.get());
      for (int i = 0; i < 2 * m->nsensor; i++) {
        const StepDerivative value = LinearizeNoslip(m, data.get(), true, {.sensors = i % 2 == 0});
        const int row = 3 * (i / 2);
        const MatrixXd found = value.C.middleRows(row, 3), expected = reference.value.C.middleRows(row, 3);
        const MatrixXd bars = reference.C_error.middleRows(row, 3);
        EXPECT_LE(((found - expected).cwiseAbs() - 3 * bars).maxCoeff(), 1e-9 * expected.cwiseAbs().maxCoeff())
            << cone << " " << i;
      }
    }
  }
}

// Nothing holds a free body: what its joint carries is zero at every state, the sum of all else that acts on it (7a).
TEST_F(NoslipTest, TheJointOfAFreeBodyCarriesNothing) {
  constexpr double kRounding = 1e-7;  // readings that are 1e-14 N off zero, differenced over 1e-7 and more
  for (const char* cone : {"pyramidal", "elliptic"}) {
    std::string scene = Pushing(cone, 4);
    const auto insert = [&](const std::string& behind, const char* what) {
      scene.insert(scene.find(behind) + behind.size(), what);
    };
    insert("size=\"0.3 0.2 0.1\"/>", "<site name='load' pos='.1 .2 .05'/>");
    insert("</actuator>", "<sensor><force site='load'/><torque site='load'/></sensor>");
    const ModelPtr model = LoadModelFromString(scene);
    for (const int steps : {20, 60, 200}) {
      SCOPED_TRACE(std::string(cone) + ", " + std::to_string(steps) + " steps");
      const DataPtr data = MakeData(model.get());
      data->ctrl[0] = 1;
      for (int k = 0; k < steps; k++) mj_step(model.get(), data.get());
      for (bool differenced : {false, true}) {
        const StepDerivative value = LinearizeNoslip(model.get(), data.get(), true, {.sensors = differenced});
        EXPECT_EQ(value.coverage.Worst(), differenced ? Level::kResidual : Level::kAnalytic);
        EXPECT_LT(value.C.cwiseAbs().maxCoeff(), kRounding);
      }
    }
  }
}

// sensors that the pass leaves to the minimum, with applied forces; one of friction is refused by name, and left to
// steps
TEST_F(NoslipTest, PullsBackSensorsToAppliedForces) {
  std::string scene = Pushing("elliptic", 4);
  const std::string box = R"(<geom type="box" size="0.3 0.2 0.1"/>)", end = "</mujoco>";
  scene.replace(scene.find(box), box.size(), box + R"(<site name="all" type="box" size="0.4 0.3 0.2"/>)");
  scene.replace(scene.find(end), end.size(), R"(<sensor><touch site="all"/><framelinvel objtype="site" objname="all"/>
    <accelerometer site="all"/></sensor></mujoco>)");
  const ModelPtr model = LoadModelFromString(scene);
  mjModel* m = model.get();
  const DataPtr data = Pushed(m, 30), work = MakeData(m);
  AnalyticBackend backend(m, false);
  StepVjp vjp;
  std::string missing;
  VectorXd none, sigma = VectorXd::Ones(m->nsensordata);
  mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION);
  EXPECT_FALSE(backend.Vjp(m, work.get(), {none, sigma, true}, &vjp, &missing));
  EXPECT_NE(missing.find("accelerometer"), std::string::npos) << missing;

  // then the forces alone are differenced, and under RK4
  for (int integrator : {mjINT_EULER, mjINT_RK4}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    const StepDerivative value = Linearize(m, data.get());
    const VectorXd lambda = support::Random(4).Vector(static_cast<int>(value.A.rows()));
    const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
    Linearizer linearizer(m);
    linearizer.SetContext(GetContext(m, data.get()));
    linearizer.Vjp(x, u, lambda, sigma, &vjp, true);
    EXPECT_EQ(vjp.coverage.terms.back().term, "applied forces");
    EXPECT_EQ(vjp.coverage.terms.back().level, Level::kStep);
    EXPECT_TRUE(
        support::MatricesNearRelative(vjp.x, value.A.transpose() * lambda + value.C.transpose() * sigma, 1e-11));
    EXPECT_TRUE(
        support::MatricesNearRelative(vjp.u, value.B.transpose() * lambda + value.D.transpose() * sigma, 1e-11));
    ExpectStepSlopesByForces(m, data.get(), work.get(), vjp, lambda, sigma);
  }
  m->opt.integrator = mjINT_EULER;

  sigma.tail(3).setZero();
  mj_copyState(m, data.get(), work.get(), mjSTATE_INTEGRATION);
  ASSERT_TRUE(backend.Vjp(m, work.get(), {none, sigma, true}, &vjp, &missing)) << missing;
  const mjModel tight = Tight(m);
  ExpectSlopesByForces(m, data.get(), work.get(), vjp, [&](mjData* d) {
    mj_forward(&tight, d);
    return sigma.dot(Eigen::Map<const VectorXd>(d->sensordata, m->nsensordata));
  });
}

// a sledge pushed just not, and just, beyond its friction: the certificate sees the pass' own switch
TEST_F(NoslipTest, CertificateSeesTheBoundOfThePass) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option cone="elliptic" noslip_iterations="20"/><worldbody>
      <geom type="plane" size="1 1 1"/><body pos="0 0 0.0999"><freejoint/><geom size="0.1" friction="0.5" mass="1"/></body>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const auto& [velocity, state] : {std::pair{1e-6, "sticks"}, std::pair{1.0, "slides"}}) {
    data->qvel[0] = velocity;
    const Certificate certificate = Certify(model.get(), data.get());
    const auto found = std::find_if(certificate.switches.begin(), certificate.switches.end(),
                                    [](const Switch& s) { return s.name.find("behind noslip") != std::string::npos; });
    ASSERT_NE(found, certificate.switches.end());
    EXPECT_EQ(found->state, state);
    EXPECT_EQ(found->unit, "N, Nm");
    EXPECT_GT(found->distance, 0);
  }
}

TEST_F(NoslipTest, ParametersGoByWholeSteps) {
  const ModelPtr model = LoadModelFromString(Pushing("elliptic", 3));
  const ParameterSet parameters(model.get(), {"joint:a/damping"});
  const mjModel* m = parameters.model();
  const DataPtr data = Pushed(m, 30);
  Linearizer linearizer(m, {.sensors = false});
  linearizer.SetContext(GetContext(m, data.get()));
  linearizer.SetParameters(&parameters);
  StepDerivative value;
  linearizer.Linearize(GetState(m, data.get()), Eigen::Map<const VectorXd>(data->ctrl, m->nu), &value);
  EXPECT_EQ(value.coverage.Worst(), Level::kStep);
  EXPECT_NE(value.coverage.terms[0].reason.find("noslip"), std::string::npos) << value.coverage.terms[0].reason;
  ASSERT_EQ(value.P.cols(), 1);
  EXPECT_GT(value.P.norm(), 0);
}

TEST_F(NoslipTest, RefusesByName) {
  const ModelPtr model = LoadModelFromString(Pushing("elliptic", 3));
  model->opt.enableflags |= mjENBL_DIAGEXACT;
  std::string missing;
  EXPECT_FALSE(MakeAnalyticBackend(model.get(), {}, &missing));
  EXPECT_NE(missing.find("noslip: diagexact"), std::string::npos) << missing;
}

// slopes of one update against differences of its value
void ExpectSlopes(int n, double normal, bool bounded, double scale) {
  support::Random random(7 * n + bounded);
  const auto update = [n](const VectorXd& x) {
    NoslipUpdate out;
    const double *A = x.data(), *y = A + n * n, *f = y + n;
    const double friction[5] = {0.6, 0.5, 0.1, 0.05, 0.07};
    if (n == 1) UpdateInterval(*A, *y, *f, 1, &out);
    else if (f[n] < 0) UpdateEdges(A, y, f, &out);
    else UpdateEllipsoid(n, A, y, f, f[n], friction, &out);
    return out;
  };
  VectorXd x(n * n + 2 * n + 1);
  const MatrixXd factor =
      MatrixXd::Identity(n, n) + 0.3 * Eigen::Map<const MatrixXd>(random.Vector(n * n).data(), n, n);
  Eigen::Map<MatrixXd>(x.data(), n, n) = factor * factor.transpose();
  x.segment(n * n, n) = scale * random.Vector(n);
  x.segment(n * n + n, n) = 0.05 * random.Vector(n).cwiseAbs() + VectorXd::Constant(n, 0.01);
  x[n * n + 2 * n] = normal;
  const NoslipUpdate at = update(x);
  EXPECT_EQ(at.bounded, bounded) << n;
  for (int c = 0; c < x.size(); c++) {
    if (c == n * n + 2 * n && normal < 0) continue;
    const double h = 1e-6;
    VectorXd up = x, down = x;
    up[c] += h;
    down[c] -= h;
    const NoslipUpdate plus = update(up), minus = update(down);
    for (int i = 0; i < n; i++) {
      const double slope = c < n * n           ? at.by_A[i][c]
                           : c < n * n + n     ? at.by_y[i][c - n * n]
                           : c < n * n + 2 * n ? at.by_f[i][c - n * n - n]
                                               : at.by_normal[i];
      EXPECT_NEAR(slope, (plus.force[i] - minus.force[i]) / (2 * h), 1e-6) << n << " row " << i << " column " << c;
    }
  }
}

TEST_F(NoslipTest, UpdatesHaveTheSlopesOfTheirDifferences) {
  for (bool bounded : {false, true}) {
    const double scale = bounded ? 8 : 0.01;
    ExpectSlopes(1, 0, bounded, scale);
    ExpectSlopes(2, -1, bounded, scale);
    for (int n : {2, 3, 5}) ExpectSlopes(n, 0.7, bounded, scale);
  }
}

}  // namespace
}  // namespace costate
