#include <costate/ilqr.h>
#include <costate/robustness.h>
#include <costate/state.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "optimizer/slide_problem.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using RobustnessTest = support::EngineTest;

constexpr double kStep = 0.05, kGust = 0.981;
constexpr int kKnots = 20;

std::string Mass(const std::string& axis, const std::string& option) {
  return R"(<mujoco><option timestep="0.05" )" + option + R"(/><worldbody>
    <body><joint name="x" type="slide" axis=")" +
         axis + R"("/><geom size="0.02" mass="2"/></body></worldbody>
    <actuator><motor joint="x" gear="2" ctrlrange="-3 3" ctrllimited="true"/></actuator></mujoco>)";
}

// a mass on a slide that shall be at 1 at the end
struct PushedSlide : SlideProblem {
  explicit PushedSlide(const std::string& xml) : SlideProblem(xml, 0, 1, kKnots) {}
  // a force over the mass in step t moves the end by h² (N − t) of it
  double Cost(const VectorXd& u, const VectorXd& push) const {
    double end = 0;
    for (int t = 0; t < kKnots; ++t) end += kStep * kStep * (kKnots - t) * (u[t] + push[t]);
    return 0.5 * kEnd * (end - 1) * (end - 1) + 0.5 * kStep * kEffort * u.squaredNorm();
  }
};

// 0.1 s of a tenth of the weight from the sixth of twenty steps on, and controls that come a step late: by hand
TEST_F(RobustnessTest, PushesAndDelaysAsItSays) {
  const PushedSlide slide(Mass("1 0 0", ""));
  VectorXd u(kKnots), none = VectorXd::Zero(kKnots), push = none, late(kKnots);
  for (int t = 0; t < kKnots; ++t) u[t] = 2.9 - 0.1 * t;
  push[6] = push[7] = kGust;
  late << u[0], u.head(kKnots - 1);
  const double cost = slide.Cost(u, none), guess = slide.Cost(none, none);
  ASSERT_GT(slide.Cost(u, push), slide.Cost(u, -push));  // it ends beyond 1

  const RobustnessCheck check = CheckRobustness(slide.problem, slide.Roll(u.transpose()), {}, guess);
  ASSERT_EQ(check.motions.size(), 2u);
  const DisturbedMotion &pushed = check.motions[0], &delayed = check.motions[1];
  EXPECT_EQ(pushed.name, "pushed to +x");
  EXPECT_NEAR(pushed.open_cost, slide.Cost(u, push), 1e-9);
  EXPECT_EQ(pushed.closed_cost, pushed.open_cost);
  EXPECT_NEAR(pushed.kept, 1 - (slide.Cost(u, push) - cost) / (guess - cost), 1e-9);
  EXPECT_EQ(pushed.open_kept, pushed.kept);
  EXPECT_EQ(delayed.name, "controls 50 ms late");
  EXPECT_NEAR(delayed.open_cost, slide.Cost(late, none), 1e-9);
  EXPECT_NEAR(delayed.open_kept, 1 - (slide.Cost(late, none) - cost) / (guess - cost), 1e-9);
  EXPECT_FALSE(check.of_cost);
  EXPECT_TRUE(CheckRobustness(slide.problem, slide.Roll(u.transpose()), {}, 1.01 * cost).of_cost);
}

// u = ū + K (x ⊖ x̄) of the state a step ago, within the bounds, against the engine's own steps
TEST_F(RobustnessTest, PlaysTheFeedbackOfTheStateOfThen) {
  const PushedSlide slide(Mass("1 0 0", ""));
  const SolveResult solved = SolveIlqr(slide.problem, MatrixXd::Zero(1, kKnots));
  Policy policy = solved.policy;
  for (MatrixXd& K : policy.K) K << -300, -30;  // the bounds are met
  const Trajectory& motion = solved.trajectory;
  bool clamped = false;
  const auto play = [&](int delay, const MatrixXd& xfrc) {
    const DataPtr data = MakeData(slide.model.get());
    Trajectory played = motion;
    VectorXd due(kKnots);
    for (int t = 0; t < kKnots; ++t) {
      played.X.col(t) = GetState(slide.model.get(), data.get());
      const double free = motion.U(0, t) + (policy.K[t] * (played.X.col(t) - motion.X.col(t)))[0];
      due[t] = std::clamp(free, -3.0, 3.0);
      clamped = clamped || due[t] != free;
      data->ctrl[0] = played.U(0, t) = due[std::max(0, t - delay)];
      if (xfrc.size() > 0) mju_copy(data->xfrc_applied, xfrc.col(t).data(), static_cast<int>(xfrc.rows()));
      mj_step(slide.model.get(), data.get());
    }
    played.X.col(kKnots) = GetState(slide.model.get(), data.get());
    return TotalCost(*slide.cost, played, kStep);
  };

  const RobustnessCheck check = CheckRobustness(slide.problem, motion, policy, solved.initial_cost);
  const MatrixXd& xfrc = check.motions[0].xfrc;
  ASSERT_EQ(xfrc.cols(), kKnots);
  EXPECT_NEAR(std::abs(xfrc(6, 6)), 2 * kGust, 1e-12);  // of 2 kg
  EXPECT_NEAR(check.motions[0].closed_cost, play(0, xfrc), 1e-12);
  EXPECT_NEAR(check.motions[1].closed_cost, play(1, MatrixXd()), 1e-9);
  EXPECT_TRUE(clamped);
  EXPECT_LT(check.motions[0].closed_cost, 0.5 * check.motions[0].open_cost);
  EXPECT_GT(check.motions[0].kept, check.motions[0].open_kept);

  // as on several threads
  const RobustnessCheck threads = CheckRobustness(slide.problem, motion, policy, solved.initial_cost, 2);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(threads.motions[i].closed_cost, check.motions[i].closed_cost);
}

// nothing is pushed along gravity; where there is none, every way
TEST_F(RobustnessTest, LeansGravityOver) {
  const auto pushed = [](const std::string& axis, const std::string& option) {
    const PushedSlide slide(Mass(axis, option));
    const RobustnessCheck check =
        CheckRobustness(slide.problem, slide.Roll(MatrixXd::Constant(1, kKnots, 1)), {}, PushedSlide::kEnd / 2);
    return check.motions[0].open_cost - slide.Cost(VectorXd::Ones(kKnots), VectorXd::Zero(kKnots));
  };
  EXPECT_NEAR(pushed("0 0 1", R"(gravity="0 0 -1e-9")"), 0, 1e-6);
  EXPECT_GT(pushed("0 0 1", R"(gravity="0 0 0")"), 0.01);
  EXPECT_GT(pushed("0 0 1", R"(gravity="-1e-9 0 0")"), 0.01);
  EXPECT_NEAR(pushed("1 0 0", R"(gravity="-1e-9 0 0")"), 0, 1e-6);
}

TEST_F(RobustnessTest, RefusesAMotionOfAnotherLength) {
  const PushedSlide slide(Mass("1 0 0", ""));
  EXPECT_ERROR(CheckRobustness(slide.problem, slide.Roll(MatrixXd::Zero(1, 7)), {}, 1), ErrorCode::kDimensionMismatch,
               "7 controls");
}

TEST_F(RobustnessTest, RefusesGainsOfAnotherSize) {
  const PushedSlide slide(Mass("1 0 0", ""));
  const int N = slide.problem.N;
  const Trajectory motion = slide.Roll(MatrixXd::Zero(1, N));
  Policy few, wide;
  few.K.assign(3, MatrixXd::Zero(1, 2));
  EXPECT_ERROR(CheckRobustness(slide.problem, motion, few, 1), ErrorCode::kDimensionMismatch, "3 gains K");
  wide.K.assign(static_cast<std::size_t>(N), MatrixXd::Zero(1, 5));
  EXPECT_ERROR(CheckRobustness(slide.problem, motion, wide, 1), ErrorCode::kDimensionMismatch, "K of knot 0 is 1 x 5",
               "1 x 2");
  Problem free = slide.problem;
  free.cost = nullptr;
  EXPECT_ERROR(CheckRobustness(free, motion, {}, 1), ErrorCode::kInvalidArgument, "cost");
}

}  // namespace
}  // namespace costate
