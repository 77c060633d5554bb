// The true motion, a smoother model's slopes.
#include <costate/adjoint.h>
#include <costate/ilqr.h>
#include <costate/smooth_contact.h>

#include <gtest/gtest.h>

#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using BackwardSmoothingTest = support::EngineTest;

// a ball thrown at a block that it flies over; the block glides on a rail
constexpr char kThrow[] =
    R"(<mujoco model="throw"><option timestep="0.005" gravity="0 0 -9.81"/><worldbody>
  <body name="ball" pos="0 0 1"><joint name="bx" type="slide" axis="1 0 0"/><joint name="bz" type="slide" axis="0 0 1"/>
    <geom name="ball" size="0.05" mass="0.5"/></body>
  <body name="target" pos="1 0 1"><joint name="target" type="slide" axis="1 0 0" damping="0.1"/>
    <geom name="target" type="capsule" size="0.05" fromto="0 0 -0.2 0 0 0" mass="0.5"/></body></worldbody></mujoco>)";
constexpr int kSteps = 100;

VectorXd Start(double vx, double vz) {
  VectorXd x = VectorXd::Zero(6);
  x[3] = vx;
  x[4] = vz;
  return x;
}

// ½ (where the target ends − 0.3 m)²
class TargetLoss final : public Loss {
 public:
  double Value(const KnotView& k) const override { return k.t == k.N ? 0.5 * (k.x[2] - 0.3) * (k.x[2] - 0.3) : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x[2] = k.x[2] - 0.3;
  }
  bool NeedsSensors() const override { return false; }
};

RolloutGradient GradientOf(const mjModel* model, const VectorXd& x0, const AdjointOptions& options) {
  const DataPtr data = MakeData(model);
  Adjoint adjoint(model, GetContext(model, data.get()));
  RolloutGradient out;
  adjoint.Gradient(x0, MatrixXd(0, kSteps), TargetLoss(), options, &out);
  return out;
}

// the ball flies 0.2 m above the target: without touch the true gradient is exactly zero; forces
// from a distance have one, and steps along it, each on the true motion, lead the ball to the
// target
TEST_F(BackwardSmoothingTest, DistanceLeadsAMissedThrowToItsTarget) {
  const ModelPtr model = LoadModelFromString(kThrow);
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.distance = 0.5});
  VectorXd x0 = Start(3, 2.6);  // of the ball: x, z
  const RolloutGradient truth = GradientOf(model.get(), x0, {});
  EXPECT_TRUE(truth.x0.segment(0, 2).isZero(0) && truth.x0.segment(3, 2).isZero(0));
  EXPECT_DOUBLE_EQ(truth.loss, 0.045);

  AdjointOptions options;
  options.derivative_model = smooth.model.get();
  options.certify = true;
  double loss = truth.loss;
  int steps = 0;
  for (; steps < 40 && loss == truth.loss; steps++) {
    const RolloutGradient g = GradientOf(model.get(), x0, options);
    EXPECT_EQ(g.loss, loss);  // of the true motion
    EXPECT_EQ(g.health.labels[10], Smoothness::kSmoothed);
    ASSERT_GT(g.x0.segment(3, 2).norm(), 0);
    x0.segment(3, 2) -= 0.05 * g.x0.segment(3, 2).normalized();
    loss = GradientOf(model.get(), x0, {}).loss;
  }
  EXPECT_LT(loss, 0.9 * truth.loss) << steps << " steps, velocity " << x0.segment(3, 2).transpose();
}

// Aᵀ λ of the smooth model at the states of the true one
TEST_F(BackwardSmoothingTest, AdjointAndLinearizeTakeTheOtherModelAtTheTrueStates) {
  const ModelPtr model = LoadModelFromString(kThrow);
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.onset = 0.02, .distance = 0.3, .solver = 0.5});
  const DataPtr data = MakeData(model.get());
  const VectorXd context = GetContext(model.get(), data.get()), x0 = Start(3, 1.7);
  Simulator simulator(model.get(), context, 1, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(x0, MatrixXd(0, kSteps), &motion).ok());
  simulator.SetDerivativeModel(smooth.model.get());
  std::vector<StepDerivative> along;
  simulator.Linearize(motion, {.smoothing = smooth.smoothing}, &along);
  Linearizer linearizer(smooth.model.get(), {.smoothing = smooth.smoothing});
  VectorXd lambda = VectorXd::Zero(6);
  lambda[2] = motion.X(2, kSteps) - 0.3;
  for (int t = kSteps - 1; t >= 0; t--) {
    StepDerivative step;
    linearizer.SetMovingContext(motion.context.col(t));
    linearizer.Linearize(motion.X.col(t), VectorXd(), &step);
    EXPECT_TRUE(support::BitwiseEqual(along[t].A, step.A)) << t;
    lambda = step.A.transpose() * lambda;
  }
  const RolloutGradient g =
      GradientOf(model.get(), x0, {.derivative_model = smooth.model.get(), .smoothing = smooth.smoothing});
  EXPECT_TRUE(support::MatricesNearRelative(g.x0, lambda, 1e-9));
  EXPECT_TRUE(support::BitwiseEqual(g.xN, motion.X.col(kSteps)));

  // back to its own
  simulator.SetDerivativeModel(nullptr);
  simulator.Linearize(motion, {}, &along);
  StepDerivative own;
  Linearizer(model.get()).Linearize(motion.X.col(0), VectorXd(), &own);
  EXPECT_TRUE(support::BitwiseEqual(along[0].A, own.A));
}

TEST_F(BackwardSmoothingTest, OtherSizesAreRefused) {
  const ModelPtr model = LoadModelFromString(kThrow);
  const ModelPtr other =
      LoadModelFromString("<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), data.get()));
  EXPECT_ERROR(simulator.SetDerivativeModel(other.get()), ErrorCode::kDimensionMismatch, "nq = 7", "'throw' has 3");
  EXPECT_ERROR(GradientOf(model.get(), Start(1, 1), {.derivative_model = other.get()}), ErrorCode::kDimensionMismatch,
               "nq = 7");
}

}  // namespace
}  // namespace costate
