// Products with A and B against the matrices themselves, on every kind of term; applied forces against differenced
// steps.
#include <costate/derivative.h>
#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "derivative/analytic.h"
#include "derivative/joint_scene.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using ProductTest = support::EngineTest;

constexpr double kOrderOfSums = 1e-12;  // of the largest sum of absolute values in the product

void ExpectProducts(const mjModel* model, const mjData* data, const LinearizeOptions& options = {.sensors = false},
                    double tolerance = kOrderOfSums) {
  support::ExpectProducts(model, data, options, tolerance, support::ProductScale::kSums);
}

DataPtr Driven(const mjModel* model, int steps, unsigned seed = 3) {
  DataPtr data = MakeData(model);
  if (model->nkey > 0) mj_resetDataKeyframe(model, data.get(), 0);
  const VectorXd u = support::RandomControl(model, seed);
  mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
  for (int k = 0; k < steps; k++) mj_step(model, data.get());
  return data;
}

class EveryIntegrator : public support::EngineTest, public ::testing::WithParamInterface<std::tuple<int, int, int>> {};

TEST_P(EveryIntegrator, ProductsAreThoseOfTheMatrices) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  model->opt.integrator = std::get<0>(GetParam());
  model->opt.cone = std::get<1>(GetParam());
  model->opt.jacobian = std::get<2>(GetParam());
  DataPtr data = Driven(model.get(), 60);
  ASSERT_GE(data->ncon, 3);
  for (int k = 6; k < 6 * model->nbody; k++) data->xfrc_applied[k] = 0.3 * std::sin(k);
  ExpectProducts(model.get(), data.get());
  ExpectProducts(model.get(), data.get(), {.substeps = 3, .sensors = false}, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(IntegratorsConesJacobians, EveryIntegrator,
                         ::testing::Combine(::testing::Values(mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                                              mjINT_IMPLICITFAST),
                                            ::testing::Values(mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC),
                                            ::testing::Values(mjJAC_DENSE, mjJAC_SPARSE)));

// the models of this repository, at rest, in motion and at random
TEST_F(ProductTest, AgreeOnTheModelsOfThisRepository) {
  for (const char* name : {"acrobot", "arm", "cartpole", "hopper", "humanoid", "quadrotor", "quadruped"}) {
    SCOPED_TRACE(name);
    const ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + name + "/" + name + ".xml");
    for (int steps : {0, 100}) ExpectProducts(model.get(), Driven(model.get(), steps).get());
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 5));
    ExpectProducts(model.get(), data.get());
  }
}

// connect and weld on bodies and sites, ball limits, spinning free bodies
TEST_F(ProductTest, AgreeOnEqualities) {
  for (const char* equality :
       {"<connect body1='b' body2='c' anchor='0.1 0.2 0'/>", "<weld body1='c' body2='e' torquescale='0.3'/>",
        "<weld site1='s1' site2='s2'/>", "<weld body1='c'/>", "<weld body1='a' body2='b'/>"}) {
    for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
      SCOPED_TRACE(std::string(equality) + std::to_string(integrator));
      const ModelPtr model = LoadModelFromString(EqualityScene(equality));
      model->opt.integrator = integrator;
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(),
               support::RandomState(model.get(), 11, {.position = 0.4, .velocity = 2, .inside_limits = false}));
      ExpectProducts(model.get(), data.get());
    }
  }
}

// polynomial dampers and springs of every joint, a fixed tendon, and implicitfast's standalone free body
TEST_F(ProductTest, AgreeOnSpringsAndDampers) {
  const ModelPtr model = LoadModelFromString(SpringScene(
      R"(<body pos="3 0 1"><joint type="free" damping="0.3"/><geom type="box" size="0.1 0.2 0.4" pos="0.1 0.05 0"/></body>)",
      R"(<tendon>
        <fixed stiffness="30" damping="0.5"><joint joint="hinge" coef="0.6"/><joint joint="slide" coef="-0.9"/></fixed>
      </tendon>)"));
  mjModel* m = model.get();
  MakePolynomial(m);
  for (int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_RK4}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    const DataPtr data = MakeData(m);
    SetState(m, data.get(), support::RandomState(m, 4, {.velocity = 4}));
    for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.3 * k - 3;
    ExpectProducts(m, data.get());
  }
}

// springs that have yielded: the later stages of RK4 rest where the first does
TEST_F(ProductTest, AgreeOnSpringsThatHaveYielded) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="wall" pos="0 0 1"/>
      <body><joint axis="0 1 0" stiffness="3 1 4" springyield="2"/><geom size="0.1" pos="0.2 0 0" contype="0"/><site name="tip" pos="0.2 0 0.1"/>
        <body pos="0.4 0 0"><joint type="ball" stiffness="0.3" springyield="2"/><geom size="0.1" pos="0.1 0.02 0" contype="0"/></body></body>
    </worldbody><tendon><spatial stiffness="9" springyield="0.01"><site site="wall"/><site site="tip"/></spatial></tendon></mujoco>)");
  for (int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_RK4}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    const DataPtr data = Driven(model.get(), 200), start = MakeData(model.get());
    for (int k = 0; k < model->nplastic; k++) ASSERT_NE(data->plastic[k], start->plastic[k]);
    ExpectProducts(model.get(), data.get());
  }
}

// rotor inertia of joints and actuators, alone and several on a joint; of tendons, which couple branches
TEST_F(ProductTest, AgreeOnArmature) {
  const std::string scene = R"(
    <mujoco>
      <worldbody>
        <body><freejoint/><geom type="box" size="0.1 0.2 0.1"/>
          <body pos="0.2 0 0"><joint name="a" axis="0 1 0" armature="0.3" damping="0.1"/><geom size="0.1" pos="0.1 0 0" contype="0"/></body>
          <body pos="-0.2 0 0"><joint name="b" type="ball"/><geom size="0.1" pos="0.1 0 0" contype="0"/>
            <body pos="0 0 0.2"><joint name="c" axis="1 0 0"/><joint name="d" type="slide"/><geom size="0.1" contype="0"/></body>
          </body>
        </body>
      </worldbody>
      <tendon><fixed name="t" %><joint joint="a" coef="0.6"/><joint joint="c" coef="-0.9"/></fixed></tendon>
      <actuator>
        <motor joint="a" gear="3" armature="0.05" damping="0.2"/><motor joint="c" gear="2" armature="0.1"/><motor joint="c" gear="5" armature="0.02"/>
        <motor tendon="t" gear="2"/>
      </actuator>
    </mujoco>)";
  for (const char* tendon : {"", "armature='0.1'", "damping='0.2'", "armature='0.2' damping='0.3'"}) {
    for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
      SCOPED_TRACE(std::string(tendon) + std::to_string(integrator));
      std::string xml = scene;
      xml.replace(xml.find('%'), 1, tendon);
      const ModelPtr model = LoadModelFromString(xml);
      model->opt.integrator = integrator;
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), 8, {.velocity = 3}));
      ExpectProducts(model.get(), data.get());
    }
  }
}

// surfaces that move, of the static and of a moving body, and self-contacts of one tree and of two
TEST_F(ProductTest, AgreeOnContactsOfMovingBodiesAndSurfaces) {
  for (const char* condim : {"1", "3", "4", "6"}) {
    for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
      SCOPED_TRACE(std::string(condim) + (cone == mjCONE_PYRAMIDAL ? " pyramidal" : " elliptic"));
      std::string xml = R"(
        <mujoco>
          <default><geom condim="%"/></default>
          <worldbody>
            <geom type="plane" size="5 5 1" surfacevel="0.3 0.1 0 0 0 0.2"/>
            <body pos="0 0 0.29"><freejoint/><geom type="box" size="0.3 0.3 0.1" surfacevel="0.1 0 0 0 0 0.4"/>
              <body pos="0.1 0 -0.19"><joint axis="0 1 0"/><geom size="0.1"/></body>
              <body pos="-0.1 0 -0.19"><joint axis="1 0 0"/><geom size="0.1"/>
                <body pos="0 0.19 0"><joint type="ball"/><geom size="0.1"/></body>
              </body>
            </body>
            <body pos="0.05 0.1 0.485"><freejoint/><geom size="0.1"/></body>
          </worldbody>
        </mujoco>)";
      xml.replace(xml.find('%'), 1, condim);
      const ModelPtr model = LoadModelFromString(xml);
      model->opt.cone = cone;
      const DataPtr data = Driven(model.get(), 5);
      ASSERT_GE(data->ncon, 3);
      ExpectProducts(model.get(), data.get());
    }
  }
}

// M of a long chain has a condition number of n⁴: the two solvers agree to its rounding
TEST_F(ProductTest, AgreeOnALongChain) {
  std::string xml = "<mujoco><option timestep='0.001'/><worldbody>";
  const int n = 60;
  for (int i = 0; i < n; i++) {
    xml +=
        std::string("<body pos='0.1 0 0'><joint axis='") + (i % 2 ? "1" : "0") +
        " 1 0' damping='0.01'/><geom type='capsule' size='0.02' fromto='0 0 0 0.1 0 0' contype='0' conaffinity='0'/>";
  }
  for (int i = 0; i < n; i++) xml += "</body>";
  const ModelPtr model = LoadModelFromString(xml + "</worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(), support::RandomState(model.get(), 8, {.position = 0.2}));
  ExpectProducts(model.get(), data.get(), {.sensors = false}, 1e-16 * n * n * n * n);
}

// terms that are differenced, one at a time, enter through their columns
TEST_F(ProductTest, AgreeWhereATermIsDifferenced) {
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.integrator = integrator;
    const DataPtr data = Driven(model.get(), 60);
    const TermSwitch switches[] = {
        {.rne = true}, {.passive = true}, {.actuation = true}, {.constraint = true}, {.integrator = true}};
    for (const TermSwitch& differenced : switches) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(&differenced - switches));
      AnalyticBackend backend(model.get(), false, differenced);
      const DataPtr work = MakeData(model.get());
      const auto at_point = [&] { mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION); };
      StepDerivative matrices;
      std::string missing;
      at_point();
      ASSERT_TRUE(backend.Linearize(model.get(), work.get(), false, &matrices, &missing)) << missing;
      const VectorXd lambda = support::RandomTangent(model.get(), 2);
      StepVjp vjp;
      at_point();
      ASSERT_TRUE(backend.Vjp(model.get(), work.get(), lambda, false, &vjp, &missing)) << missing;
      // the differences are made twice: equal but for what a warm start leaves
      EXPECT_TRUE(support::MatricesNearRelative(vjp.x, matrices.A.transpose() * lambda, 1e-9));
      EXPECT_TRUE(support::MatricesNearRelative(vjp.u, matrices.B.transpose() * lambda, 1e-9));
      MatrixXd dx = support::RandomTangent(model.get(), 3), du = support::Random(4).Vector(static_cast<int>(model->nu));
      StepJvp jvp;
      at_point();
      ASSERT_TRUE(backend.Jvp(model.get(), work.get(), dx, du, &jvp, &missing)) << missing;
      EXPECT_TRUE(support::MatricesNearRelative(jvp.dx, matrices.A * dx + matrices.B * du, 1e-9));
    }
  }
}

// An upright can on a table: where one of its contacts carries nothing and jumps in a nudge, those beside it that do
// have closed forms all the same.
TEST_F(ProductTest, AgreeWhereAContactThatCarriesNoneJumps) {
  int tried = 0;
  for (const std::string cone : {"elliptic", "pyramidal"}) {
    for (const std::string table : {R"(type="box" size=".4 .4 .02")", R"(type="mesh" mesh="t")"}) {
      const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002" cone=")" + cone + R"("/><asset>
          <mesh name="t" vertex="-.4 -.4 -.02 .4 -.4 -.02 -.4 .4 -.02 .4 .4 -.02 -.4 -.4 .02 .4 -.4 .02 -.4 .4 .02 .4 .4 .02"/>
        </asset><worldbody><geom )" + table + R"( pos="0 0 .4"/><body pos=".1 .05 .4795"><freejoint/>
          <geom type="cylinder" size=".033 .06" mass=".3"/></body></worldbody></mujoco>)");
      const mjModel* m = model.get();
      const DataPtr data = MakeData(m);
      for (int k = 0; k < 12; k++) {
        mj_resetData(m, data.get());
        data->qvel[0] = .05, data->qvel[3] = .4 * std::cos(k), data->qvel[4] = .4 * std::sin(k);
        mj_forward(m, data.get());
        int loaded = 0;
        for (int c = 0; c < data->ncon; c++) {
          double force[6];
          mj_contactForce(m, data.get(), c, force);
          loaded += force[0] > 0;
        }
        if (loaded == 0 || loaded == data->ncon) continue;
        SCOPED_TRACE(cone + ", " + table + ", " + std::to_string(k));
        ExpectProducts(m, data.get());
        tried++;
      }
    }
  }
  EXPECT_GE(tried, 12);
}

// what is differenced starts at a pair's first contact, though products need only those that carry a force
TEST_F(ProductTest, AgreeWhereThePairsFirstContactCarriesNone) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"/><asset>
      <hfield name="hill" nrow="5" ncol="5" size="1 1 .3 .1"
        elevation="0 1 2 1 0  1 0 2 0 1  2 0 1 0 1  1 2 0 2 1  0 1 2 1 0"/></asset>
    <worldbody><geom type="hfield" hfield="hill"/><body pos=".1 .05 .4"><freejoint/>
      <geom type="box" size=".4 .3 .05" margin=".1" solref=".02 .2"/></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qvel[3] = 1.5, data->qvel[4] = -2;
  int tried = 0;
  for (int k = 0; k < 120; k++) {
    mj_step(m, data.get());
    mj_forward(m, data.get());
    double first[6] = {}, all = 0;
    for (int c = data->ncon - 1; c >= 0; c--) {
      mj_contactForce(m, data.get(), c, first);
      all += first[0];
    }
    if (first[0] > 0 || all == 0 || k % 3 > 0) continue;
    ExpectProducts(m, data.get());
    tried++;
  }
  EXPECT_GE(tried, 4);
}

// What one call leaves in a linearizer is not to be felt by another: later stages of RK4 run without cameras and
// lights, and the data of the differences, made by whichever call needs it first, is for the first stage, too.
TEST_F(ProductTest, CallsLeaveNothingBehindForOthers) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option integrator="RK4"><flag diagexact="enable"/></option><worldbody><camera/><camera/><light/><light/>
    <body><joint range="-36 3.7"/><geom size=".06" pos=".1 0 0"/><camera/><body pos=".2 0 0"><joint/><geom size=".05" pos=".1 0 0"/></body></body>
    </worldbody></mujoco>)");
  mjModel* m = model.get();
  const Dims dims(m);
  Linearizer reused(m);
  const DataPtr data = MakeData(m);
  data->qvel[0] = 4;
  int differenced = 0;
  for (int step = 0; step < 25; step++) {
    SCOPED_TRACE(step);
    const VectorXd x = GetState(m, data.get()), u, context = GetContext(m, data.get());
    const VectorXd lambda = VectorXd::LinSpaced(dims.ndx, 1, 2);
    const MatrixXd dx = lambda, du(0, 1);
    reused.SetContext(context);
    Linearizer fresh[3] = {Linearizer(m), Linearizer(m), Linearizer(m)};
    for (Linearizer& linearizer : fresh) linearizer.SetContext(context);
    StepDerivative a, b;
    StepJvp push_a, push_b;
    StepVjp pull_a, pull_b;
    reused.Jvp(x, u, dx, du, &push_a);
    fresh[0].Jvp(x, u, dx, du, &push_b);
    reused.Vjp(x, u, lambda, &pull_a);
    fresh[1].Vjp(x, u, lambda, &pull_b);
    reused.Linearize(x, u, &a);
    fresh[2].Linearize(x, u, &b);
    EXPECT_TRUE(support::MatricesNearRelative(push_a.dx, push_b.dx, 1e-12));
    EXPECT_TRUE(support::MatricesNearRelative(pull_a.x, pull_b.x, 1e-12));
    EXPECT_TRUE(support::MatricesNearRelative(a.A, b.A, 1e-12));
    EXPECT_TRUE(support::MatricesNearRelative(pull_a.x, a.A.transpose() * lambda, 1e-9));
    differenced += a.coverage.Worst() == Level::kResidual;
    mj_step(m, data.get());
  }
  EXPECT_GT(differenced, 3);
  EXPECT_LT(differenced, 25);
}

// options of the model may change from call to call, the integrator among them
TEST_F(ProductTest, AnIntegratorThatChangesIsSeen) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  mjModel* m = model.get();
  const DataPtr data = Driven(m, 20);
  const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
  Linearizer reused(m, {.sensors = false});
  reused.SetContext(GetContext(m, data.get()));
  for (int integrator : {mjINT_EULER, mjINT_DISCRETE, mjINT_IMPLICITFAST, mjINT_DISCRETE}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    Linearizer fresh(m, {.sensors = false});
    fresh.SetContext(GetContext(m, data.get()));
    StepDerivative a, b;
    reused.Linearize(x, u, &a);
    fresh.Linearize(x, u, &b);
    EXPECT_EQ(a.coverage.Worst(), b.coverage.Worst());
    EXPECT_TRUE(support::MatricesNearRelative(a.A, b.A, 1e-9));
    EXPECT_TRUE(support::MatricesNearRelative(a.B, b.B, 1e-9));
  }
}

// what is not computed hangs on nothing, applied forces among it
TEST_F(ProductTest, DisabledSensorsPullNothingBack) {
  for (const char* integrator : {"Euler", "implicitfast", "RK4", "discrete"}) {
    const ModelPtr model =
        LoadModelFromString(fmt::format(R"(<mujoco><option integrator="{}"><flag sensor="disable"/></option><worldbody>
          <geom type="plane" size="1 1 1"/><body pos="0 0 .15"><freejoint/><geom type="capsule" size=".1 .1"/><site name="s"/></body>
          <body pos="1 0 1"><joint name="h" axis="0 1 0"/><geom type="capsule" size=".1 .1" pos=".1 0 0"/><site name="t"/></body>
          </worldbody><actuator><motor joint="h"/></actuator>
          <sensor><force site="t"/><accelerometer site="s"/><jointpos joint="h"/></sensor></mujoco>)",
                                        integrator));
    const Dims dims(model.get());
    const DataPtr data = support::DrivenData(model.get(), 3);
    for (const Level level : {Level::kBest, Level::kAnalytic, Level::kResidual, Level::kStep}) {
      if (level == Level::kAnalytic && model->opt.integrator == mjINT_DISCRETE) continue;
      SCOPED_TRACE(fmt::format("{} {}", integrator, ToString(level)));
      Linearizer linearizer(model.get(), {.level = level});
      StepVjp pulled;
      linearizer.Vjp(GetState(model.get(), data.get()), VectorXd::Zero(dims.nu), VectorXd::Zero(dims.ndx),
                     VectorXd::Ones(dims.ns), &pulled, true);
      for (const VectorXd* back : {&pulled.x, &pulled.u, &pulled.qfrc, &pulled.xfrc})
        EXPECT_EQ(back->cwiseAbs().maxCoeff(), 0);
    }
  }
}

// at the other levels the products are made of the matrices
TEST_F(ProductTest, EveryLevelHasThem) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  const DataPtr data = Driven(model.get(), 60);
  for (Level level : {Level::kResidual, Level::kStep}) {
    ExpectProducts(model.get(), data.get(), {.level = level, .substeps = 2, .sensors = false}, 1e-9);
  }
}

}  // namespace
}  // namespace costate
