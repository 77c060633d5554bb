// Derivatives of the forces of costate.smooth_contact, section Y of README.md: every shape, between trees and within one.
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNearRelative;

// floor, free box, ball and capsule; an arm on a moving cart whose tip touches its own base, with a ball joint on the way
constexpr char kHeap[] = R"(<mujoco>
  <option timestep="0.001"/>
  <extension>
    <plugin plugin="costate.smooth_contact">
      <instance name="ground">
        <config key="geom1" value="floor"/><config key="geom2" value="box ball capsule tip"/>
        <config key="stiffness" value="2e4"/><config key="friction" value="0.7"/><config key="stiction" value="0.3"/>
      </instance>
      <instance name="push">
        <config key="geom1" value="ball tip"/><config key="geom2" value="box capsule"/>
        <config key="stiffness" value="3e3"/><config key="exponent" value="1"/><config key="smoothing" value="0.02"/>
        <config key="dissipation" value="0.2"/>
      </instance>
      <instance name="self">
        <config key="geom1" value="tip"/><config key="geom2" value="base post ball"/><config key="stiffness" value="2e3"/>
        <config key="smoothing" value="0.03"/><config key="stiction" value="0.2"/>
      </instance>
    </plugin>
  </extension>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 .1" euler="2 3 0"/>
    <body pos="0 0 .098"><freejoint/><geom name="box" type="box" size=".1 .12 .1" mass="1"/></body>
    <body pos=".171 0 .1" euler="10 20 30"><freejoint/><geom name="ball" size=".075" mass=".5"/></body>
    <body pos="-.13 0 .05" euler="80 10 20"><freejoint/><geom name="capsule" type="capsule" size=".05 .1" mass=".4"/></body>
    <body name="cart" pos="0.2 0 .5"><joint type="slide" axis="1 0 0"/><joint axis="0 0 1" pos=".1 0 0"/>
      <geom name="base" type="box" size=".05 .03 .02" mass="1"/><geom name="post" type="capsule" size=".02" fromto=".1 0 0 .1 0 -.2" mass=".3"/>
      <body pos="0 .05 -.05"><joint type="ball" damping=".01"/><geom type="capsule" size=".02" fromto="0 0 0 .05 0 -.1"/>
        <body pos=".05 0 -.1"><joint axis="0 1 0" damping=".01"/><geom name="tip" size=".04" pos="-.02 .01 .03"/></body></body></body>
  </worldbody>
  <actuator><motor joint="JOINT" gear="1"/></actuator>
</mujoco>)";

class CompliantContact : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    std::string text = kHeap;
    text.replace(text.find("joint=\"JOINT\""), 13, "joint=\"turn\"");
    text.replace(text.find("<joint axis=\"0 0 1\""), 6, "<joint name=\"turn\" ");
    model_ = LoadModelFromString(text);
    data_ = MakeData(model_.get());
  }

  // displaced within reach of the forces, moving fast: what turns with the bodies counts
  void Randomize(int seed) {
    srand(static_cast<unsigned>(seed + 1));
    mj_resetData(model_.get(), data_.get());
    VectorXd dx = VectorXd::Random(2 * model_->nv);
    dx.head(model_->nv) *= 0.03;
    dx.tail(model_->nv) *= 3;
    SetState(model_.get(), data_.get(), Retract(model_.get(), GetState(model_.get(), data_.get()), dx));
  }

  ModelPtr model_;
  DataPtr data_;
};

// Against the residual's differences, which know nothing of the formulas: a term that were wrong by 1e-6 would show.
TEST_F(CompliantContact, AgreesWithDifferencesUnderEveryIntegrator) {
  for (const int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    model_->opt.integrator = integrator;
    for (int seed = 0; seed < 4; ++seed) {
      Randomize(seed);
      const StepDerivative analytic = Linearize(model_.get(), data_.get(), {.level = Level::kAnalytic});
      const StepDerivative residual = Linearize(model_.get(), data_.get(), {.level = Level::kResidual});
      EXPECT_TRUE(MatricesNearRelative(analytic.A, residual.A, 1e-9)) << integrator << " seed " << seed;
      EXPECT_TRUE(MatricesNearRelative(analytic.B, residual.B, 1e-9));
      EXPECT_EQ(analytic.coverage.Worst(), Level::kAnalytic);
    }
  }
  model_->opt.integrator = mjINT_RK4;
  Randomize(5);
  const StepDerivative analytic = Linearize(model_.get(), data_.get(), {.level = Level::kAnalytic});
  const StepDerivative step = Linearize(model_.get(), data_.get(), {.level = Level::kStep});
  EXPECT_TRUE(MatricesNearRelative(analytic.A, step.A, 1e-7));
}

TEST_F(CompliantContact, ProductsAccelerationAndInverseHaveIt) {
  Randomize(7);
  const int nv = static_cast<int>(model_->nv);
  Linearizer linearizer(model_.get(), {.level = Level::kAnalytic});
  linearizer.SetContext(GetContext(model_.get(), data_.get()));
  const VectorXd x = GetState(model_.get(), data_.get()), u = VectorXd::Zero(1), lambda = VectorXd::Random(2 * nv);
  StepDerivative step;
  linearizer.Linearize(x, u, &step);
  StepVjp vjp;
  linearizer.Vjp(x, u, lambda, &vjp);
  EXPECT_TRUE(MatricesNearRelative(vjp.x, step.A.transpose() * lambda, 1e-10));
  StepJvp jvp;
  linearizer.Jvp(x, u, lambda, u, &jvp);
  EXPECT_TRUE(MatricesNearRelative(jvp.dx, step.A * lambda, 1e-10));

  AccelerationDerivative analytic, reference;
  linearizer.LinearizeAcceleration(x, u, &analytic);
  Linearizer step_level(model_.get(), {.level = Level::kStep});
  step_level.SetContext(GetContext(model_.get(), data_.get()));
  step_level.LinearizeAcceleration(x, u, &reference);
  EXPECT_TRUE(MatricesNearRelative(analytic.x, reference.x, 1e-7));
  InverseDerivative inverse, inverse_reference;
  linearizer.LinearizeInverse(x, u, analytic.qacc, &inverse);
  step_level.LinearizeInverse(x, u, analytic.qacc, &inverse_reference);
  EXPECT_TRUE(MatricesNearRelative(inverse.q, inverse_reference.q, 1e-7));
  EXPECT_TRUE(MatricesNearRelative(inverse.v, inverse_reference.v, 1e-7));
}

// All four trees are pushed at these states: the comparisons are not of zeros.
TEST_F(CompliantContact, PushesEveryTree) {
  for (int seed = 0; seed < 4; ++seed) {
    Randomize(seed);
    mj_forward(model_.get(), data_.get());
    const Eigen::Map<const VectorXd> force(data_->qfrc_passive, model_->nv);
    for (const int tree : {0, 6, 12}) EXPECT_GT(force.segment(tree, 3).norm(), 0.3) << tree << " seed " << seed;
    EXPECT_GT(force.tail(6).norm(), 0.1);
  }
}

}  // namespace
}  // namespace costate
