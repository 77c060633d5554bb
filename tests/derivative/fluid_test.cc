#include "derivative/fluid.h"

#include "derivative/analytic.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using FluidTest = support::EngineTest;

// a swimmer of both models: links of every shape, one with inertia box
constexpr char kSwimmer[] = R"(
  <mujoco>
    <option timestep="0.003" density="900" viscosity="0.4" wind="0.3 -0.7 0.2"/>
    <default><geom contype="0" fluidshape="ellipsoid" fluidcoef="0.5 0.25 1.5 1.1 0.8"/></default>
    <worldbody>
      <body pos="0 0 1">
        <freejoint/><geom type="ellipsoid" size="0.1 0.2 0.05" pos="0.05 0 0.02" euler="10 20 30"/>
        <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.04 0.1" euler="0 70 0"/>
          <geom type="cylinder" size="0.04 0.05" pos="0 0.1 0"/>
          <body pos="0.2 0 0"><joint axis="0 1 0.3"/><geom type="box" size="0.1 0.02 0.05" pos="0.1 0 0"/></body>
        </body>
        <body pos="-0.3 0 0"><joint axis="0 1 0"/><joint type="slide" axis="1 0 0"/>
          <geom type="box" size="0.1 0.07 0.03" fluidshape="none" pos="-0.05 0.02 0" euler="20 0 5"/>
          <body pos="-0.2 0 0"><joint axis="0 0 1"/><geom size="0.05" pos="-0.1 0 0"/></body>
        </body>
      </body>
    </worldbody>
  </mujoco>)";

StepDerivative LinearizeTerms(const mjModel* m, const mjData* point, const TermSwitch& differenced = {}) {
  const DataPtr data = MakeData(m);
  mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
  StepDerivative out;
  std::string missing;
  AnalyticBackend backend(m, false, differenced);
  EXPECT_TRUE(backend.Linearize(m, data.get(), false, &out, &missing)) << missing;
  return out;
}

// at a random state of this speed: against the step, and against the same term by differences; returns the state
DataPtr ExpectFluidStep(const mjModel* m, unsigned seed, double speed, const TermSwitch& differenced,
                        double tolerance) {
  DataPtr data = MakeData(m);
  SetState(m, data.get(), support::RandomState(m, seed, {.position = 0.8, .velocity = speed}));
  const StepDerivative value = LinearizeTerms(m, data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  const support::StepReference reference = support::MakeStepReference(m, data.get());
  EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));
  EXPECT_TRUE(support::MatricesNearRelative(LinearizeTerms(m, data.get(), differenced).A, value.A, tolerance));
  return data;
}

// (F1)–(F3), with wind, at speeds large and small
TEST_F(FluidTest, AgreesWithTheStep) {
  const ModelPtr model = LoadModelFromString(kSwimmer);
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICITFAST, mjINT_IMPLICIT}) {
    m->opt.integrator = integrator;
    for (double speed : {3.0, 0.02}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(speed));
      ExpectFluidStep(m, 5, speed, {.passive = true}, 2e-8);
    }
  }
}

// (F4)–(F6): free bodies that are a whole tree, alone and with a welded part, translations whose inertia is diagonal, a
// ball, and a small swimmer
constexpr char kTrees[] = R"(
  <mujoco>
    <option timestep="0.004" density="1000" viscosity="0.3" wind="0.3 -0.7 0.2"/>
    <default><geom contype="0" fluidcoef="0.5 0.25 1.5 1.1 0.8"/></default>
    <worldbody>
      <body><freejoint/><geom type="ellipsoid" size="0.1 0.2 0.05" pos="0.05 0 0.02" euler="10 20 30" fluidshape="ellipsoid"/></body>
      <body pos="1 0 0"><freejoint/><geom type="box" size="0.1 0.2 0.05" pos="0.05 0 0.02" euler="10 20 30"/>
        <body pos="0.3 0 0" euler="30 0 0"><geom type="ellipsoid" size="0.04 0.1 0.06" fluidshape="ellipsoid"/></body></body>
      <body pos="2 0 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
        <geom type="ellipsoid" size="0.1 0.2 0.05" euler="10 20 30" fluidshape="ellipsoid"/></body>
      <body pos="3 0 0"><joint type="ball"/><joint type="slide" axis="1 0.2 0" /><geom type="box" size="0.1 0.2 0.05" pos="0.1 0.03 0"/>
        <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.04 0.1" euler="0 70 0" fluidshape="ellipsoid"/></body></body>
      <body pos="4 0 0"><freejoint/><geom type="ellipsoid" size="0.02 0.04 0.01" fluidshape="ellipsoid"/>
        <body pos="0.04 0 0"><joint axis="0 1 0.2"/><geom type="ellipsoid" size="0.03 0.01 0.01" pos="0.03 0 0" fluidshape="ellipsoid"/></body></body>
    </worldbody>
  </mujoco>)";

TEST_F(FluidTest, ImplicitIntegratorsAgreeWithTheStepOnEveryKindOfTree) {
  const ModelPtr model = LoadModelFromString(kTrees);
  mjModel* m = model.get();
  for (int integrator : {mjINT_IMPLICITFAST, mjINT_IMPLICIT}) {
    m->opt.integrator = integrator;
    for (double speed : {2.0, 0.03}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(speed));
      const DataPtr data =
          ExpectFluidStep(m, 7, speed, {.integrator = true}, 1e-8);  // differences of a stiff light swimmer
      support::ExpectProducts(m, data.get(), {}, 1e-11);
    }
  }
}

// implicitfast keeps the diagonal alone where M of a simple body has no more
TEST_F(FluidTest, ImplicitIntegratorsAgreeWithTheStepOnSimpleBodies) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
    <option timestep="0.004" density="1000" viscosity="0.3" wind="0.3 -0.7 0.2"/>
    <default><geom contype="0" fluidcoef="0.5 0.25 1.5 1.1 0.8"/></default>
    <worldbody>
      <body><joint type="ball"/><geom type="box" size="0.1 0.2 0.05"/></body>
      <body pos="1 0 0"><joint type="ball"/><geom type="ellipsoid" size="0.1 0.2 0.05" fluidshape="ellipsoid"/></body>
      <body pos="2 0 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
        <geom type="ellipsoid" size="0.1 0.2 0.05" fluidshape="ellipsoid"/></body>
    </worldbody></mujoco>)");
  mjModel* m = model.get();
  for (int dof = 0; dof < m->nv; dof++) ASSERT_EQ(m->M_rownnz[dof], 1);
  for (int integrator : {mjINT_IMPLICITFAST, mjINT_IMPLICIT}) {
    SCOPED_TRACE(integrator);
    m->opt.integrator = integrator;
    ExpectFluidStep(m, 7, 2, {.integrator = true}, 1e-8);
  }
}

// of a body of millimetres too, at any speed
TEST_F(FluidTest, SlopesOfASmallEllipsoidAgreeWithDifferences) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option density="1.2" viscosity="1.8e-5"/>
      <worldbody><body><freejoint/>
        <geom type="ellipsoid" size="0.002 0.01 0.0005" mass="1e-6" fluidshape="ellipsoid" fluidcoef="0.5 0.25 1.5 1.1 0.8"/>
      </body></worldbody>
    </mujoco>)");
  support::Random random(3);
  for (double speed : {5.0, 0.3, 1e-3}) {
    for (int k = 0; k < 5; k++) {
      const Vec6 v = random.Vector(6, speed);
      const Mat6 slope = EllipsoidFluidForce(model.get(), 0, v).slope;
      Mat6 expected;
      const double h = 1e-4 * speed;
      for (int c = 0; c < 6; c++) {
        const auto f = [&](double x) { return EllipsoidFluidForce(model.get(), 0, v + x * Vec6::Unit(c)).wrench; };
        expected.col(c) = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
      }
      EXPECT_TRUE(support::MatricesNearRelative(slope, expected, 1e-9));
    }
  }
}

// the engine's forces have no lower bounds: projected areas of small and slow bodies are as those of large ones
TEST_F(FluidTest, ForcesOnSmallEllipsoidsAreTheEngines) {
  for (double size : {0.3, 0.02, 0.002, 0.0003}) {
    const std::string s = std::to_string(size), l = std::to_string(2 * size);
    const ModelPtr model = LoadModelFromString(
        "<mujoco><option density='900' viscosity='0.01'/><worldbody><body><freejoint/><geom type='ellipsoid' size='" +
        s + " " + s + " " + l +
        "' fluidshape='ellipsoid' fluidcoef='0.5 0.25 1.5 1.1 0.8'/></body></worldbody></mujoco>");
    for (double speed : {2.0, 0.03, 1e-4}) {
      const DataPtr data = MakeData(model.get());
      Vec6 local;
      local << 0.3 * speed, -0.5 * speed, 0.7 * speed, 0.2 * speed, 0.9 * speed, -0.4 * speed;
      mju_copy3(data->qvel, local.data() + 3);
      mju_copy3(data->qvel + 3, local.data());
      mj_forward(model.get(), data.get());
      ASSERT_NEAR(data->geom_xmat[0], 1, 1e-15);
      const Vec6 wrench = EllipsoidFluidForce(model.get(), 0, local).wrench;
      Vec6 engine;
      engine << Vec3Map(data->qfrc_passive + 3), Vec3Map(data->qfrc_passive);
      EXPECT_LE((wrench - engine).head<3>().norm(), 1e-12 * engine.head<3>().norm()) << size << ' ' << speed;
      EXPECT_LE((wrench - engine).tail<3>().norm(), 1e-12 * engine.tail<3>().norm()) << size << ' ' << speed;
    }
  }
}

// |v| v has no slope at rest: only viscosity is left. Differences of any finite size find more
TEST_F(FluidTest, AtRestOnlyViscosityIsLeft) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option density="1000" viscosity="0.5"/>
      <worldbody>
        <body><joint type="slide" axis="1 0 0"/><geom type="ellipsoid" size="0.1 0.2 0.3" fluidshape="ellipsoid"/></body>
        <body pos="0 2 0"><joint type="slide" axis="1 0 0"/><geom type="box" size="0.1 0.2 0.3"/></body>
      </worldbody>
    </mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  const StepDerivative value = LinearizeTerms(m, data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  const double diameter[2] = {2.0 / 3.0 * 0.6, (0.2 + 0.4 + 0.6) / 3};
  for (int i = 0; i < 2; i++) {
    const double slope = -3 * mjPI * diameter[i] * m->opt.viscosity / m->body_mass[1 + i];
    EXPECT_NEAR(value.A(2 + i, 2 + i), 1 + m->opt.timestep * slope, 1e-14);
  }
}

}  // namespace
}  // namespace costate
