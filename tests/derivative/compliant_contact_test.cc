// Derivatives of the forces of costate.smooth_contact, section Y of README.md: every shape, between trees and within
// one.
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "derivative/yielding_scene.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNearRelative;

class CompliantContact : public support::EngineTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model_ = LoadModelFromString(GetParam());
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
TEST_P(CompliantContact, AgreesWithDifferencesUnderEveryIntegrator) {
  for (const int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    model_->opt.integrator = integrator;
    for (int seed = 0; seed < 3; ++seed) {
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

TEST_P(CompliantContact, ProductsAccelerationAndInverseHaveIt) {
  Randomize(7);
  Linearizer linearizer(model_.get(), {.level = Level::kAnalytic});
  linearizer.SetContext(GetContext(model_.get(), data_.get()));
  const VectorXd x = GetState(model_.get(), data_.get()), u = VectorXd::Zero(model_->nu);
  support::ExpectProducts(model_.get(), &linearizer, x, u, 1e-10);

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

// Every free body is pushed at some of these states, and so is the arm: the comparisons are not of zeros.
TEST_P(CompliantContact, PushesEveryTree) {
  VectorXd most = VectorXd::Zero(model_->njnt);
  double arm = 0;
  for (int seed = 0; seed < 4; ++seed) {
    Randomize(seed);
    mj_forward(model_.get(), data_.get());
    const Eigen::Map<const VectorXd> force(data_->qfrc_passive, model_->nv);
    for (int j = 0; j < model_->njnt; ++j) {
      if (model_->jnt_type[j] == mjJNT_FREE)
        most[j] = std::max(most[j], force.segment(model_->jnt_dofadr[j], 3).norm());
    }
    arm = std::max(arm, force.tail(6).norm());
  }
  for (int j = 0; j < model_->njnt; ++j) {
    if (model_->jnt_type[j] != mjJNT_FREE) continue;
    EXPECT_GT(most[j], 0.3) << "joint " << j;
  }
  EXPECT_GT(arm, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Scenes, CompliantContact, ::testing::Values(kYieldingHeap, kYieldingShapes),
                         [](const auto& info) { return info.index ? "Shapes" : "Heap"; });

}  // namespace
}  // namespace costate
