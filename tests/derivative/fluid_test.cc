#include "derivative/fluid.h"

#include "derivative/analytic.h"
#include "support/engine_test.h"
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

// (F1)–(F3), with wind, at speeds large and small
TEST_F(FluidTest, AgreesWithTheStep) {
  const ModelPtr model = LoadModelFromString(kSwimmer);
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICITFAST}) {
    m->opt.integrator = integrator;
    for (double speed : {3.0, 0.02}) {
      SCOPED_TRACE(speed + integrator);
      const DataPtr data = MakeData(m);
      SetState(m, data.get(), support::RandomState(m, 5, {.position = 0.8, .velocity = speed}));
      const StepDerivative value = LinearizeTerms(m, data.get());
      EXPECT_EQ(value.coverage.Worst(), integrator == mjINT_IMPLICITFAST ? Level::kResidual : Level::kAnalytic);
      const support::StepReference reference = support::MakeStepReference(m, data.get());
      EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step, reference.step_error, support::kReference));
      EXPECT_TRUE(support::MatricesNearRelative(LinearizeTerms(m, data.get(), {.passive = true}).A, value.A, 2e-8));
    }
  }
}

// small bodies move below the bounds that keep the engine from dividing by zero
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
