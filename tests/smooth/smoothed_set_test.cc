// The derivative of an active set without edges: plugin/derivative/README.md, section W.
#include <costate/derivative.h>

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>

#include <cmath>
#include <string>

#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using SmoothedSetTest = support::EngineTest;

double LogisticShare(double x, double width) { return 1 / (1 + std::exp(x / width)); }

// a mass in its limit with a force u that nearly lifts it off: one row, all in closed form
TEST_F(SmoothedSetTest, OneLimitHasTheClosedForm) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body>
    <joint name="s" type="slide" limited="true" range="0 1"/><geom size="0.1" mass="3"/></body></worldbody>
    <actuator><motor joint="s"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = -4e-4;
  data->qvel[0] = 0.01;
  for (double u : {-2.0, 2.0, 40.0}) {
    data->ctrl[0] = u;
    mj_forward(model.get(), data.get());
    const double h = 0.002, m = 3, y = data->qacc[0] - data->efc_aref[0], D = data->efc_D[0], f = data->efc_force[0];
    const double *kbip = data->efc_KBIP, k = kbip[0], b = kbip[1], d = kbip[2], slope = kbip[3];
    for (double width : {0.1, 3.0, 100.0}) {
      const double weight = D * LogisticShare(y, width), H = m + weight;
      const double by_q = -(weight * k * (d + slope * data->efc_pos[0]) - f * slope / (d * (1 - d))) / H,
                   by_v = -weight * b / H;
      Linearizer linearizer(model.get(), {.smoothing = width});
      StepDerivative out;
      linearizer.Linearize(GetState(model.get(), data.get()), VectorXd::Constant(1, u), &out);
      EXPECT_NEAR(out.A(1, 0), h * by_q, 1e-9 * std::abs(h * by_q) + 1e-12) << u << " " << width;
      EXPECT_NEAR(out.A(1, 1), 1 + h * by_v, 1e-9) << u << " " << width;
      EXPECT_NEAR(out.B(1, 0), h / H, 1e-9 * h / m) << u << " " << width;
      bool told = false;
      for (const TermCoverage& term : out.coverage.terms)
        told |= term.term == "smoothing" && term.reason.find("smoothed") == 0;
      EXPECT_TRUE(told);
    }
  }
}

// free and limited: between the two the width interpolates, where the true derivative jumps
TEST_F(SmoothedSetTest, DerivativeGoesOverFromOneSideToTheOther) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body>
    <joint name="s" type="slide" frictionloss="1"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor joint="s"/></actuator></mujoco>)");
  Linearizer hard(model.get()), soft(model.get(), {.smoothing = 0.05});
  StepDerivative a, b;
  double last = 0, jump = 0, step = 0, before = -1;
  for (double u = 0.9; u < 1.4; u += 0.005) {
    hard.Linearize(VectorXd::Zero(2), VectorXd::Constant(1, u), &a);
    soft.Linearize(VectorXd::Zero(2), VectorXd::Constant(1, u), &b);
    if (before >= 0) {
      jump = std::max(jump, a.B(1, 0) - before);
      step = std::max(step, b.B(1, 0) - last);
      EXPECT_GE(b.B(1, 0), last);
    }
    before = a.B(1, 0);
    last = b.B(1, 0);
  }
  EXPECT_GT(jump, 0.5 * 0.002);
  EXPECT_LT(step, 0.2 * jump);
}

// a ball on the floor and a box falling on the ball
std::string Scene(const std::string& cone, int condim) {
  const std::string dim = " condim='" + std::to_string(condim) + "'/>";
  return "<mujoco><option timestep='0.002' integrator='implicitfast' cone='" + cone +
         "'/><worldbody><geom type='plane' size='1 1 1'" + dim +
         "<body pos='0 0 0.0995'><freejoint/><geom size='0.1' mass='1'" + dim +
         "</body><body pos='0 0 0.299'><freejoint/><geom type='box' size='0.1 0.1 0.1' mass='1'" + dim +
         "</body></worldbody></mujoco>";
}

// as the width vanishes it is the true derivative: sticking, sliding and apart, both cones; and
// products agree with matrices
TEST_F(SmoothedSetTest, NarrowWidthIsTheTrueDerivative) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (int condim : {1, 3, 4, 6}) {
      for (double speed : {0.0, 0.3}) {
        SCOPED_TRACE(std::string(cone) + " " + std::to_string(condim) + " " + std::to_string(speed));
        const ModelPtr model = LoadModelFromString(Scene(cone, condim));
        const DataPtr data = MakeData(model.get());
        for (int k = 0; k < 20; k++) mj_step(model.get(), data.get());
        data->qvel[0] = speed;
        data->qvel[5] = speed;
        data->qvel[6] = -0.2;
        const VectorXd x = GetState(model.get(), data.get());
        Linearizer hard(model.get(), {.level = Level::kAnalytic});
        StepDerivative a, b;
        hard.Linearize(x, VectorXd(), &a);
        Linearizer narrow(model.get(), {.smoothing = 1e-7}), wide(model.get(), {.smoothing = 2});
        narrow.Linearize(x, VectorXd(), &b);
        EXPECT_TRUE(support::MatricesNearRelative(b.A, a.A, 1e-11));
        wide.Linearize(x, VectorXd(), &b);
        ASSERT_TRUE(b.A.allFinite());
        EXPECT_GT((b.A - a.A).cwiseAbs().maxCoeff(), 1e-6);

        support::ExpectProducts(model.get(), &wide, x, VectorXd(), 1e-10);

        // H stays symmetric and positive
        AccelerationDerivative acceleration;
        wide.LinearizeAcceleration(x, VectorXd(), &acceleration);
        EXPECT_TRUE(support::MatricesNearRelative(acceleration.force, acceleration.force.transpose(), 1e-13));
        EXPECT_GT(Eigen::SelfAdjointEigenSolver<MatrixXd>(acceleration.force).eigenvalues().minCoeff(), 0);
      }
    }
  }
}

// dry friction beyond its loss is a constant force along a tendon that turns: it stays, however narrow the width
TEST_F(SmoothedSetTest, NarrowWidthKeepsDryFrictionThatSlides) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="a"/><body pos="0.1 0.2 0.3"><freejoint/>
    <geom size="0.1" mass="1"/><site name="b" pos="0.05 0 0.02"/></body></worldbody>
    <tendon><spatial frictionloss="0.5"><site site="a"/><site site="b"/></spatial></tendon></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[2] = 1;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->nefc, 1);
  ASSERT_NE(data->efc_state[0], mjCNSTRSTATE_QUADRATIC);
  const StepDerivative hard = Linearize(model.get(), data.get()),
                       narrow = Linearize(model.get(), data.get(), {.smoothing = 1e-7});
  EXPECT_GT(hard.A.bottomLeftCorner(6, 6).cwiseAbs().maxCoeff(), 1e-3);
  EXPECT_TRUE(support::MatricesNearRelative(narrow.A, hard.A, 1e-12));
}

// products of every integrator, each stage of RK4 among them, are those of the smoothed matrices
TEST_F(SmoothedSetTest, ProductsOfEveryIntegratorAgreeWithMatrices) {
  for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT}) {
    for (const char* cone : {"pyramidal", "elliptic"}) {
      SCOPED_TRACE(std::to_string(integrator) + cone);
      const ModelPtr model = LoadModelFromString(Scene(cone, 3));
      model->opt.integrator = integrator;
      const DataPtr data = MakeData(model.get());
      for (int k = 0; k < 20; k++) mj_step(model.get(), data.get());
      data->qvel[3] = 0.3;
      const VectorXd x = GetState(model.get(), data.get()), lambda = VectorXd::LinSpaced(24, -1, 2);
      Linearizer hard(model.get(), {.level = Level::kAnalytic}), soft(model.get(), {.smoothing = 2});
      StepDerivative a, b;
      hard.Linearize(x, VectorXd(), &a);
      soft.Linearize(x, VectorXd(), &b);
      EXPECT_GT(((b.A - a.A).transpose() * lambda).norm(), 1e-3 * (b.A.transpose() * lambda).norm());
      support::ExpectProducts(model.get(), &soft, x, VectorXd(), 1e-10);
    }
  }
}

TEST_F(SmoothedSetTest, OtherLevelsRefuseByName) {
  const ModelPtr model = LoadModelFromString(Scene("elliptic", 3));
  const DataPtr data = MakeData(model.get());
  for (Level level : {Level::kResidual, Level::kStep}) {
    EXPECT_ERROR(Linearize(model.get(), data.get(), {.level = level, .smoothing = 1}), ErrorCode::kUnsupported,
                 "smoothed active set");
  }
  Linearizer linearizer(model.get(), {.smoothing = 1});
  InverseDerivative inverse;
  EXPECT_ERROR(linearizer.LinearizeInverse(GetState(model.get(), data.get()), VectorXd(), VectorXd::Zero(12), &inverse),
               ErrorCode::kUnsupported, "smoothing: inverse dynamics");
  model->opt.noslip_iterations = 3;
  EXPECT_ERROR(Linearize(model.get(), data.get(), {.smoothing = 1}), ErrorCode::kUnsupported, "noslip");
  EXPECT_ERROR(Linearize(model.get(), data.get(), {.smoothing = -1}), ErrorCode::kInvalidArgument, "smoothing is -1");
}

}  // namespace
}  // namespace costate
