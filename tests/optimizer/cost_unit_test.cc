// Another scale of the cost changes no motion where the cost's unit is measured.
#include <costate/constraint.h>
#include <costate/fddp.h>
#include <costate/model.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "optimizer/cost_unit.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using CostUnitTest = support::EngineTest;

constexpr char kUnitPendulum[] = R"(
<mujoco model="pendulum">
  <option timestep="0.05" integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge" ctrllimited="true" ctrlrange="-6 6"/></actuator>
</mujoco>)";

// the swing-up of a pendulum whose cost is `scale` times as large
struct UnitSwing {
  explicit UnitSwing(double scale) : model(LoadModelFromString(kUnitPendulum)) {
    goal = VectorXd::Zero(2);
    goal[0] = 3.0;
    const MatrixXd Q = scale * 1e-2 * MatrixXd::Identity(2, 2), R = scale * 1e-2 * MatrixXd::Identity(1, 1);
    cost = std::make_unique<QuadraticCost>(model.get(), goal, Q, R, 1e3 * Q);
    problem.model = model.get();
    problem.cost = cost.get();
    problem.x0 = VectorXd::Zero(2);
    problem.context = GetContext(model.get(), MakeData(model.get()).get());
    problem.N = 30;
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  }
  ModelPtr model;
  VectorXd goal;
  std::unique_ptr<QuadraticCost> cost;
  Problem problem;
};

IlqrOptions UnitOptions(double unit) {
  IlqrOptions options;
  options.threads = 1;
  options.iterations = 25;
  options.cost_unit = unit;
  return options;
}

// the same iterates, costs in proportion
void ExpectSameIterates(const SolveResult& one, const SolveResult& scaled, double scale) {
  ASSERT_EQ(one.iterations.size(), scaled.iterations.size());
  ASSERT_GT(one.iterations.size(), 4u);
  EXPECT_LT(one.cost, 0.5 * one.initial_cost);
  for (std::size_t i = 0; i < one.iterations.size(); ++i) {
    const IterationRecord &a = one.iterations[i], &b = scaled.iterations[i];
    EXPECT_NEAR(b.cost / scale, a.cost, 1e-6 * std::abs(a.cost)) << i;
    EXPECT_EQ(a.step, b.step) << i;
    EXPECT_NEAR(a.regularization, b.regularization, 1e-6 * (1 + a.regularization)) << i;
  }
  EXPECT_LE((one.trajectory.U - scaled.trajectory.U).cwiseAbs().maxCoeff(), 1e-5);
}

const MatrixXd kUnitGuess = MatrixXd::Constant(1, 30, 0.1);

TEST_F(CostUnitTest, IlqrTakesTheSameStepsAtAnyScale) {
  const SolveResult one = SolveIlqr(UnitSwing(1).problem, kUnitGuess, UnitOptions(0));
  for (const double scale : {1e-4, 1e4})
    ExpectSameIterates(one, SolveIlqr(UnitSwing(scale).problem, kUnitGuess, UnitOptions(0)), scale);

  // which an absolute unit does not do
  const SolveResult absolute = SolveIlqr(UnitSwing(1e4).problem, kUnitGuess, UnitOptions(1));
  EXPECT_GT(std::abs(absolute.iterations.front().cost / 1e4 - one.iterations.front().cost),
            1e-3 * one.iterations.front().cost);
}

TEST_F(CostUnitTest, MultipleShootingTakesTheSameStepsAtAnyScale) {
  for (const bool exact : {false, true}) {
    IlqrOptions options = UnitOptions(0);
    options.second_order = exact;
    const MatrixXd none;
    const SolveResult one = SolveFddp(UnitSwing(1).problem, none, kUnitGuess, options);
    for (const double scale : {1e-4, 1e4})
      ExpectSameIterates(one, SolveFddp(UnitSwing(scale).problem, none, kUnitGuess, options), scale);
  }
}

TEST_F(CostUnitTest, ConstraintsAreKeptByTheSameStepsAtAnyScale) {
  const auto solve = [](double scale) {
    UnitSwing swing(scale);
    ConstraintSet constraints;
    ConstraintInfo info;
    info.name = "speed";
    info.lower = VectorXd::Constant(1, -5);
    info.upper = VectorXd::Constant(1, 5);
    constraints.Add(std::make_unique<StateConstraint>(swing.model.get(), info, VectorXd::Zero(2), std::vector<int>{1}));
    swing.problem.constraints = &constraints;
    return SolveConstrained(swing.problem, kUnitGuess, UnitOptions(0));
  };
  const SolveResult one = solve(1);
  for (const double scale : {1e-4, 1e4}) {
    const SolveResult scaled = solve(scale);
    ExpectSameIterates(one, scaled, scale);
    EXPECT_NEAR(scaled.constraints[0].penalty / scale, one.constraints[0].penalty, 1e-12 * one.constraints[0].penalty);
  }
}

TEST_F(CostUnitTest, IsAHundredTimesTheGeometricMeanOfTheControlsCurvature) {
  LqProblem lq;
  lq.knots.resize(1);
  LqKnot& knot = lq.knots[0];
  knot.A = knot.lxx = MatrixXd::Identity(1, 1);
  knot.B = MatrixXd{{2, 0}};
  knot.lx = VectorXd::Zero(1);
  knot.lu = VectorXd::Zero(2);
  knot.lux = MatrixXd::Zero(2, 1);
  knot.luu = MatrixXd{{1, 0}, {0, 4}};
  lq.lx = VectorXd::Zero(1);
  lq.lxx = MatrixXd{{2.0}};
  EXPECT_NEAR(CostUnit(lq), 100 * std::sqrt((1 + 2 * 4) * 4.0), 1e-9);
}

TEST_F(CostUnitTest, RefusesWhatIsNone) {
  for (const double unit : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_ERROR(SolveIlqr(UnitSwing(1).problem, kUnitGuess, UnitOptions(unit)), ErrorCode::kInvalidArgument,
                 "cost_unit");
}

// a cart pushed by so many newtons a unit of control, its pendulum turned by a weak motor in radians' stead
struct MixedUnits {
  explicit MixedUnits(double newtons) {
    model = LoadModelFromString(
        "<mujoco><option timestep='0.05' integrator='implicitfast'/><worldbody><body><joint name='rail' type='slide' "
        "axis='1 0 0'/><geom size='.1' mass='300'/><body><joint name='hinge' axis='0 1 0' damping='0.1'/><geom "
        "type='capsule' size='0.02' fromto='0 0 0 0 0 -0.5' mass='1'/></body></body></worldbody><actuator><motor "
        "joint='rail' gear='" +
        std::to_string(newtons) + "' ctrlrange='" + std::to_string(-2000 / newtons) + " " +
        std::to_string(2000 / newtons) + "'/><motor joint='hinge' ctrlrange='-1 1'/></actuator></mujoco>");
    VectorXd goal = VectorXd::Zero(4);
    goal[0] = 1;
    goal[1] = 3;
    const MatrixXd Q = 1e-2 * MatrixXd::Identity(4, 4);
    MatrixXd R = 1e-2 * MatrixXd::Identity(2, 2);
    R(0, 0) *= newtons * newtons / 4e6;
    cost = std::make_unique<QuadraticCost>(model.get(), goal, Q, R, 1e3 * Q);
    problem.model = model.get();
    problem.cost = cost.get();
    problem.x0 = VectorXd::Zero(4);
    problem.context = GetContext(model.get(), MakeData(model.get()).get());
    problem.N = 30;
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
  }
  ModelPtr model;
  std::unique_ptr<QuadraticCost> cost;
  Problem problem;
};

// newtons or centinewtons beside a control of another unit: the same iterates
TEST_F(CostUnitTest, ControlsOfDifferentUnitsAreCountedInTheirRanges) {
  const MixedUnits newtons(1), few(0.01);
  for (const bool shoots : {false, true}) {
    const auto solve = [&](const MixedUnits& c) {
      const IlqrOptions options = UnitOptions(1);
      const MatrixXd U = MatrixXd::Zero(2, 30), X = c.problem.x0.replicate(1, 31);
      return shoots ? SolveFddp(c.problem, X, U, options) : SolveIlqr(c.problem, U, options);
    };
    const SolveResult one = solve(newtons), other = solve(few);
    EXPECT_EQ(one.iterations.size(), other.iterations.size());
    EXPECT_LT(one.cost, 0.2 * one.initial_cost);
    for (std::size_t i = 0; i < std::min(one.iterations.size(), other.iterations.size()); ++i)
      EXPECT_NEAR(one.iterations[i].cost, other.iterations[i].cost, 1e-6 * one.iterations[i].cost) << i << shoots;
  }
  const auto unit = [](const MixedUnits& c) {
    return CostUnit(c.problem, SolveIlqr(c.problem, MatrixXd::Zero(2, 30), {.iterations = 0}).trajectory, {});
  };
  EXPECT_NEAR(unit(newtons) / unit(few), 1, 1e-9);
}

}  // namespace
}  // namespace costate
