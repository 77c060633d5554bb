#include <costate/ilqr.h>
#include <costate/solve.h>
#include <costate/state.h>
#include <costate/task.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "core/extremes.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;
using Ilqr = support::EngineTest;

// two masses on a rail with a spring between them: x' is linear in (x, u)
constexpr char kSprings[] = R"(
<mujoco model="springs">
  <option timestep="0.02" gravity="0 0 0" integrator="Euler"/>
  <worldbody>
    <body><joint name="a" type="slide" axis="1 0 0" damping="0.2"/><geom size="0.1" mass="1"/></body>
    <body pos="0 1 0"><joint name="b" type="slide" axis="1 0 0" stiffness="3"/><geom size="0.1" mass="2"/></body>
  </worldbody>
  <tendon><fixed name="spring" stiffness="5"><joint joint="a" coef="1"/><joint joint="b" coef="-1"/></fixed></tendon>
  <actuator><motor joint="a"/><motor joint="b"/></actuator>
</mujoco>)";

// hangs at 0; the motor cannot lift it without swinging
constexpr char kPendulum[] = R"(
<mujoco model="pendulum">
  <option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="hinge" type="hinge" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/><site name="tip" pos="0 0 -0.5"/></body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge" ctrlrange="-1.5 1.5"/></actuator>
  <sensor><framepos name="tip" objtype="site" objname="tip"/></sensor>
</mujoco>)";

// a model, a quadratic cost and the problem that points to them
struct Case {
  ModelPtr model;
  std::unique_ptr<Cost> cost;
  Problem problem;
  MatrixXd U;
};

struct Weights {
  double q = 1, v = 0.1, r = 0.01, q_end = 100, v_end = 10;
};

Case MakeCase(ModelPtr model, DataPtr start, const VectorXd& x_goal, int N, int substeps, const Weights& weights = {}) {
  Case c;
  c.model = std::move(model);
  const mjModel* m = c.model.get();
  const Dims dims(m);
  VectorXd q(dims.ndx), q_end(dims.ndx);
  q << VectorXd::Constant(dims.nv, weights.q), VectorXd::Constant(dims.nv, weights.v), VectorXd::Zero(dims.na);
  q_end << VectorXd::Constant(dims.nv, weights.q_end), VectorXd::Constant(dims.nv, weights.v_end),
      VectorXd::Zero(dims.na);
  c.cost = std::make_unique<QuadraticCost>(m, x_goal, q.asDiagonal(), weights.r * MatrixXd::Identity(dims.nu, dims.nu),
                                           q_end.asDiagonal());
  c.problem = {.model = m,
               .cost = c.cost.get(),
               .x0 = GetState(m, start.get()),
               .context = GetContext(m, start.get()),
               .N = N,
               .substeps = substeps,
               .u_lower = {},
               .u_upper = {}};
  ControlLimits(m, &c.problem.u_lower, &c.problem.u_upper);
  c.U = Eigen::Map<const VectorXd>(start->ctrl, dims.nu).replicate(1, N);
  return c;
}

Case SpringCase() {
  ModelPtr model = LoadModelFromString(kSprings);
  DataPtr start = MakeData(model.get());
  start->qpos[0] = 1;
  start->qvel[1] = -2;
  return MakeCase(std::move(model), std::move(start), VectorXd::Zero(4), 60, 1);
}

Case PendulumCase() {
  ModelPtr model = LoadModelFromString(kPendulum);
  DataPtr start = MakeData(model.get());
  return MakeCase(std::move(model), std::move(start), Eigen::Vector2d(M_PI, 0), 100, 2);
}

// from one keyframe of a model in models/ to another
Case KeyCase(const std::string& name, const std::string& from, const std::string& to, double time, int substeps,
             const Weights& weights = {}) {
  ModelPtr model = LoadModel(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
  DataPtr start = MakeDataAtKey(model.get(), from), goal = MakeDataAtKey(model.get(), to);
  const VectorXd x_goal = GetState(model.get(), goal.get());
  const int N = static_cast<int>(std::lround(time / (substeps * model->opt.timestep)));
  return MakeCase(std::move(model), std::move(start), x_goal, N, substeps, weights);
}

// ½ w ‖s - target‖² at the end and ½ dt r u²: the terminal term reads the sensors alone
class TipCost final : public Cost {
 public:
  double Value(const KnotView& knot) const override {
    if (knot.t < knot.N) return knot.dt * 0.5 * kEffort * knot.u.squaredNorm();
    return 0.5 * kWeight * (knot.s - target).squaredNorm();
  }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef, CostExpansion* out) const override {
    out->l = Value(knot);
    out->lx.setZero(2);
    out->lxx.setZero(2, 2);
    out->lu.setZero(knot.u.size());
    out->lux.setZero(knot.u.size(), knot.u.size() > 0 ? 2 : 0);
    out->luu.setZero(knot.u.size(), knot.u.size());
    if (knot.t < knot.N) {
      out->lu = knot.dt * kEffort * knot.u;
      out->luu.setConstant(knot.dt * kEffort);
      return;
    }
    out->lx = kWeight * C.transpose() * (knot.s - target);
    out->lxx = kWeight * C.transpose() * C;
  }
  bool NeedsSensors() const override { return true; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }

  Eigen::Vector3d target{0.3, 0, 0.4};  // 0.5 from the hinge: within reach

 private:
  static constexpr double kWeight = 1e4, kEffort = 0.01;
};

// another cost that is not a number beyond an angle
class CliffCost final : public Cost {
 public:
  CliffCost(const Cost* inner, double edge) : inner_(inner), edge_(edge) {}
  double Value(const KnotView& knot) const override { return knot.x[0] > edge_ ? std::nan("") : inner_->Value(knot); }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override {
    inner_->Expand(knot, C, D, out);
  }
  bool NeedsSensors() const override { return inner_->NeedsSensors(); }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }

 private:
  const Cost* inner_;
  double edge_;
};

// ½ (u - 1)² at each knot, with a curvature that is told four times too large
class StiffCost final : public Cost {
 public:
  double Value(const KnotView& knot) const override {
    return knot.t < knot.N ? 0.5 * (knot.u.array() - 1).square().sum() : 0;
  }
  void Expand(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const override {
    const Eigen::Index nx = knot.x.size(), nu = knot.t < knot.N ? knot.u.size() : 0;
    out->l = Value(knot);
    out->lx.setZero(nx);
    out->lxx.setZero(nx, nx);
    out->lux.setZero(nu, nx);
    if (nu > 0) out->lu = (knot.u.array() - 1).matrix();
    out->luu = 4 * MatrixXd::Identity(nu, nu);
  }
  bool NeedsSensors() const override { return false; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }
};

// the quadratic model is the problem itself: its minimum is one full step away, and its promise is kept
TEST_F(Ilqr, SolvesLqrInOneIteration) {
  const Case c = SpringCase();
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  ASSERT_EQ(result.iterations.size(), 1u);
  const IterationRecord& only = result.iterations[0];
  EXPECT_EQ(only.step, 1);
  EXPECT_EQ(only.regularization, 0);
  EXPECT_NEAR(only.actual_change, only.expected_change, 1e-8 * result.initial_cost);  // rounding of differences: 1e-9
  EXPECT_LT(result.gradient_norm, 1e-7 * only.gradient_norm);
  EXPECT_TRUE(MatricesNear(result.policy.k, MatrixXd::Zero(2, 60), 1e-6));
}

TEST_F(Ilqr, SwingsAPendulumUpWithinItsControlLimits) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_NE(result.status, SolveStatus::kStalled) << result.message;
  EXPECT_NEAR(result.trajectory.X(0, 100), M_PI, 0.01);
  EXPECT_NEAR(result.trajectory.X(1, 100), 0, 0.05);
  EXPECT_LE(result.trajectory.U.maxCoeff(), 1.5);
  EXPECT_GE(result.trajectory.U.minCoeff(), -1.5);
  EXPECT_GT((result.trajectory.U.array().abs() == 1.5).count(), 5);  // the limits matter
}

TEST_F(Ilqr, SwingsACartPoleUpFromRest) {
  const Case c = KeyCase("cartpole", "hang", "upright", 2, 1);
  const SolveResult result = SolveIlqr(c.problem, c.U);
  const VectorXd error = result.trajectory.X.col(c.problem.N);
  EXPECT_LT(error.head(2).norm(), 0.03) << result.message;
}

TEST_F(Ilqr, FliesAQuadrotorToAnotherPlace) {
  const Case c = KeyCase("quadrotor", "hover", "goal", 2, 4);
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_LT((result.trajectory.X.col(c.problem.N).head(3) - Eigen::Vector3d(1.2, 0.5, 1.4)).norm(), 0.01);
}

// contacts open and close: no more is claimed than progress with finite numbers
TEST_F(Ilqr, ReducesTheCostOfMotionsWithContacts) {
  for (const auto& [name, substeps] : {std::pair("hopper", 2), std::pair("quadruped", 2), std::pair("humanoid", 3)}) {
    const Case c = KeyCase(name, "stand", "crouch", 0.3, substeps, {.q_end = 30, .v_end = 0.3});
    const SolveResult result = SolveIlqr(c.problem, c.U, {.iterations = 8});
    EXPECT_LT(result.cost, 0.5 * result.initial_cost) << name << ": " << result.message;
    EXPECT_TRUE(result.trajectory.X.allFinite() && result.policy.k.allFinite() && std::isfinite(result.cost)) << name;
  }
}

// a cost on sensors alone gets C from the derivative
TEST_F(Ilqr, BringsASensorToItsTarget) {
  Case c = PendulumCase();
  const TipCost cost;
  c.problem.cost = &cost;
  c.problem.u_lower.setConstant(-kInf);
  c.problem.u_upper.setConstant(kInf);
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_TRUE(MatricesNear(result.trajectory.S.col(100), cost.target, 1e-3));
}

TEST_F(Ilqr, DoesNotDependOnTheThreadCount) {
  for (const Case& c : {PendulumCase(), KeyCase("hopper", "stand", "crouch", 0.3, 2)}) {
    const SolveResult one = SolveIlqr(c.problem, c.U, {.iterations = 12, .threads = 1});
    for (const int threads : {2, 3}) {
      const SolveResult many = SolveIlqr(c.problem, c.U, {.iterations = 12, .threads = threads});
      EXPECT_EQ(many.message, one.message);
      EXPECT_TRUE(BitwiseEqual(many.trajectory.X, one.trajectory.X));
      EXPECT_TRUE(BitwiseEqual(many.trajectory.U, one.trajectory.U));
      EXPECT_TRUE(BitwiseEqual(many.policy.k, one.policy.k));
      EXPECT_TRUE(BitwiseEqual(many.policy.K[0], one.policy.K[0]));
      ASSERT_EQ(many.iterations.size(), one.iterations.size());
      for (std::size_t i = 0; i < one.iterations.size(); ++i) {
        const IterationRecord &a = many.iterations[i], &b = one.iterations[i];
        EXPECT_EQ(a.cost, b.cost);
        EXPECT_EQ(a.step, b.step);
        EXPECT_EQ(a.regularization, b.regularization);
        EXPECT_EQ(a.gradient_norm, b.gradient_norm);
        EXPECT_EQ(a.expected_change, b.expected_change);
      }
    }
  }
}

// a step is a quarter of the way: a whole one takes 7/16 of the cost where the model promises a quarter, four lead to
// the minimum, and eight would be as far beyond it. The first iteration, without regularization, only tells
// linear-quadratic problems
TEST_F(Ilqr, LengthensStepsThatGainMoreThanPromised) {
  Case c = SpringCase();
  const StiffCost cost;
  c.problem.cost = &cost;
  for (const int threads : {1, 2, 3}) {
    const SolveResult result = SolveIlqr(c.problem, c.U, {.threads = threads});
    ASSERT_EQ(result.iterations.size(), 2u);
    EXPECT_EQ(result.iterations[0].step, 1);
    EXPECT_EQ(result.iterations[1].step, 4);
    EXPECT_NEAR(result.iterations[1].actual_change, 4 * result.iterations[1].expected_change,
                1e-9 * result.initial_cost);
    EXPECT_NEAR(result.cost, 0, 1e-12);
  }
  const SolveResult plain = SolveIlqr(c.problem, c.U, {.threads = 1, .long_steps = false});
  for (const IterationRecord& record : plain.iterations) EXPECT_EQ(record.step, 1);
  EXPECT_GT(plain.iterations.size(), 10u);
}

// README.md, (I3): only a step that is short, or gains little where it is not long, raises the regularization
TEST_F(Ilqr, RegularizationFollowsTheStepWhereItIsTold) {
  const Case c = PendulumCase();
  for (const double factor : {2.0, 4.0}) {
    const IlqrOptions options{.iterations = 40,
                              .tolerance = 0,
                              .regularization_factor = factor,
                              .regularization_rule = RegularizationRule::kStep,
                              .regularization_sweep = false};
    const SolveResult result = SolveIlqr(c.problem, c.U, options);
    int lower = 0, higher = 0;
    for (std::size_t i = 1; i < result.iterations.size(); ++i) {
      const IterationRecord &before = result.iterations[i - 1], &now = result.iterations[i];
      if (before.step > 0 && before.step < 0.13) {
        EXPECT_GE(now.regularization, factor * before.regularization) << i;
        higher++;
      }
      if (before.step <= 0.3 || before.regularization == 0) continue;
      EXPECT_LE(now.regularization, std::max(before.regularization / factor, options.regularization_min)) << i;
      EXPECT_GE(now.regularization, options.regularization_min);
      lower++;
    }
    EXPECT_GE(lower, 5);
    EXPECT_GE(higher, 1);
    EXPECT_LT(result.cost, 0.1 * result.initial_cost);
  }
}

// the search over regularizations tries a hundredfold, too, but none that an iteration could not have begun with
TEST_F(Ilqr, NoStepTakesMoreThanTheLargestRegularization) {
  const Case c = PendulumCase();
  for (const double largest : {1e-3, 1e-2, 0.1}) {
    const SolveResult result = SolveIlqr(
        c.problem, c.U, {.iterations = 40, .regularization_init = 0.1 * largest, .regularization_max = largest});
    for (const IterationRecord& record : result.iterations) {
      EXPECT_LE(record.regularization, largest) << record.iteration;
      EXPECT_LE(record.regularization_by_step, largest) << record.iteration;
    }
    EXPECT_LT(result.cost, 0.1 * result.initial_cost);
  }
}

// an iteration takes the second rule's step where it costs less, and where it is the shorter one gains half as much
// again
TEST_F(Ilqr, TakesTheBetterStepOfBothRules) {
  const Case c = PendulumCase();
  IlqrOptions options{.iterations = 1, .tolerance = 0, .regularization_sweep = false, .long_steps = false};
  const auto solve = [&](RegularizationRule rule, double regularization, double by_step) {
    options.regularization_rule = rule;
    options.regularization_init = regularization;
    options.regularization_by_step_init = by_step;
    return SolveIlqr(c.problem, c.U, options);
  };
  int promised = 0, stepped = 0, too_short = 0;
  for (const double mu : {1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0}) {
    for (const double by_step : {1e-4, 3e-3, 3e-2, 0.3, 3.0, 30.0}) {
      const SolveResult promise = solve(RegularizationRule::kPromise, mu, -1),
                        step = solve(RegularizationRule::kStep, by_step, -1),
                        both = solve(RegularizationRule::kBoth, mu, by_step);
      ASSERT_EQ(both.iterations.size(), 1u);
      EXPECT_EQ(both.iterations[0].regularization,
                promise.iterations[0].regularization);  // from which a later solve may go on
      EXPECT_EQ(both.iterations[0].regularization_by_step, step.iterations[0].regularization);

      const IterationRecord &first = promise.iterations[0], &second = step.iterations[0];
      const bool shorter = second.step < first.step, better = step.cost < promise.cost;
      const bool takes = better && (!shorter || second.actual_change < 1.5 * first.actual_change);
      EXPECT_TRUE(BitwiseEqual(both.trajectory.U, (takes ? step : promise).trajectory.U)) << mu << " and " << by_step;
      takes ? ++stepped : better ? ++too_short : ++promised;
    }
  }
  EXPECT_GE(promised, 1);
  EXPECT_GE(stepped, 1);
  EXPECT_GE(too_short, 1);
}

// behind the first iterations the second rule is left where it is while each takes less than 1e-4 off the cost
TEST_F(Ilqr, CreepsByOneRule) {
  const Case c = KeyCase("hopper", "stand", "crouch", 0.3, 2, {.q_end = 30, .v_end = 0.3});
  const SolveResult result = SolveIlqr(c.problem, c.U, {.iterations = 60, .tolerance = 0, .gradient_tolerance = 0});
  int creeping = 0, others = 0;
  for (std::size_t i = 1; i + 1 < result.iterations.size(); ++i) {
    const IterationRecord &before = result.iterations[i - 1], &at = result.iterations[i];
    const double gain = -before.actual_change / std::abs(before.cost);
    const bool left = i >= 20 && gain > 0 && gain <= 1e-4, moves = at.step > 0;
    const double next = result.iterations[i + 1].regularization_by_step;
    if (left) EXPECT_EQ(next, at.regularization_by_step) << at.iteration;
    creeping += left;
    others += !left && moves && next != at.regularization_by_step;
  }
  EXPECT_GE(creeping, 5);
  EXPECT_GE(others, 5);
}

// only steps that reduce the cost are accepted, and the records add up
TEST_F(Ilqr, CostFallsMonotonicallyAndTheRecordsAddUp) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, c.U);
  double cost = result.initial_cost;
  for (const IterationRecord& record : result.iterations) {
    EXPECT_LE(record.actual_change, 0);
    EXPECT_LE(record.expected_change, 0);
    EXPECT_NEAR(record.cost, cost + record.actual_change, 1e-12 * cost);
    EXPECT_EQ(record.step == 0, record.actual_change == 0);
    cost = record.cost;
  }
  EXPECT_EQ(result.cost, cost);
}

// the returned motion is a rollout of the returned controls, to the last bit, and its cost is the returned one
TEST_F(Ilqr, ReturnsWhatARolloutOfItsControlsGives) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, c.U, {.iterations = 20});
  Simulator simulator(c.model.get(), c.problem.context, c.problem.substeps, 1);
  Trajectory again;
  ASSERT_TRUE(simulator.Rollout(c.problem.x0, result.trajectory.U, &again).ok());
  EXPECT_TRUE(BitwiseEqual(again.X, result.trajectory.X));
  EXPECT_EQ(TotalCost(*c.cost, again, simulator.knot_time()), result.cost);

  // with its sensors, which the cost does not read
  EXPECT_GT(again.S.row(2).cwiseAbs().minCoeff(), 0);
  EXPECT_TRUE(BitwiseEqual(again.S, result.trajectory.S));
}

// about the optimum, feedback does better than the same controls from a start that is a little off
TEST_F(Ilqr, PolicyHoldsTheMotionAgainstADisturbance) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, c.U);
  Simulator simulator(c.model.get(), c.problem.context, c.problem.substeps, 1);
  Trajectory moved = result.trajectory, open, closed;
  moved.X.col(0)[0] += 0.05;
  ASSERT_TRUE(simulator.Rollout(moved.X.col(0), result.trajectory.U, &open).ok());

  // feedback on x - x_bar: the reference's start is moved, hence the offset enters the first control by hand
  Policy policy = result.policy;
  policy.k.setZero();
  policy.k.col(0) += policy.K[0].col(0) * 0.05;
  ASSERT_TRUE(simulator.RolloutPolicy(moved, policy, 1, c.problem.u_lower, c.problem.u_upper, &closed).ok());
  EXPECT_LT(TotalCost(*c.cost, closed, simulator.knot_time()), 0.5 * TotalCost(*c.cost, open, simulator.knot_time()));
}

TEST_F(Ilqr, WarmStartAtItsOwnSolutionEndsAtOnce) {
  const Case c = SpringCase();
  const SolveResult first = SolveIlqr(c.problem, c.U), second = SolveIlqr(c.problem, first.trajectory.U);
  EXPECT_EQ(second.status, SolveStatus::kConverged);
  EXPECT_LE(second.iterations.size(), 1u);
  EXPECT_NEAR(second.cost, first.cost, 1e-9 * first.cost);
}

TEST_F(Ilqr, StopsWhenTheCallbackSaysSoAndKeepsTheBest) {
  const Case c = PendulumCase();
  int calls = 0;
  const SolveResult result = SolveIlqr(c.problem, c.U, {}, [&](const IterationRecord& record) {
    EXPECT_EQ(record.iteration, calls + 1);
    return ++calls < 4;
  });
  EXPECT_EQ(result.status, SolveStatus::kInterrupted);
  EXPECT_EQ(calls, 4);
  ASSERT_EQ(result.iterations.size(), 4u);
  EXPECT_EQ(result.cost, result.iterations.back().cost);
  EXPECT_LT(result.cost, result.initial_cost);
  double gains = 0;  // one clamped control has no gain
  for (const MatrixXd& K : result.policy.K) gains += K.norm();
  EXPECT_GT(gains, 0);
}

TEST_F(Ilqr, WithoutIterationsReturnsTheGuessWithItsPolicy) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, c.U, {.iterations = 0});
  EXPECT_EQ(result.status, SolveStatus::kIterationLimit);
  EXPECT_EQ(result.cost, result.initial_cost);
  EXPECT_TRUE(BitwiseEqual(result.trajectory.U, c.U));
  EXPECT_GT(result.gradient_norm, 0);
  EXPECT_EQ(result.gradient_norm_per_knot.size(), 100);
  EXPECT_EQ(result.gradient_norm_per_knot.maxCoeff(), result.gradient_norm);
}

TEST_F(Ilqr, ClampsTheGuessToTheLimits) {
  const Case c = PendulumCase();
  const SolveResult result = SolveIlqr(c.problem, MatrixXd::Constant(1, 100, 9), {.iterations = 0});
  EXPECT_TRUE(BitwiseEqual(result.trajectory.U, MatrixXd::Constant(1, 100, 1.5)));
}

// 1e14 N on 1 kg is beyond what the engine accepts; 1/64 of it still is, none at all is not
TEST_F(Ilqr, ScalesAGuessThatDiverges) {
  const Case c = SpringCase();
  const SolveResult result = SolveIlqr(c.problem, MatrixXd::Constant(2, 60, 1e14));
  TakeWarnings();
  EXPECT_EQ(result.guess_scale, 0);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
}

TEST_F(Ilqr, ReportsAStartThatCannotBeSimulated) {
  Case c = SpringCase();
  c.problem.x0[2] = 1e12;
  const SolveResult result = SolveIlqr(c.problem, c.U);
  TakeWarnings();
  EXPECT_EQ(result.status, SolveStatus::kDiverged);
  EXPECT_NE(result.message.find("knot 0 of 60"), std::string::npos) << result.message;
  EXPECT_EQ(result.trajectory.N(), 60);
  EXPECT_EQ(result.policy.K.size(), 60u);
  EXPECT_TRUE(result.iterations.empty());
}

TEST_F(Ilqr, ReportsACostThatIsNotFiniteFromTheStart) {
  Case c = SpringCase();
  const CliffCost nowhere(c.cost.get(), -1);
  c.problem.cost = &nowhere;
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kDiverged);
  EXPECT_NE(result.message.find("cost is not finite"), std::string::npos) << result.message;
}

// the search rejects steps over the cliff; what is left is finite and better
TEST_F(Ilqr, NeverStepsWhereTheCostIsNotANumber) {
  Case c = PendulumCase();
  const CliffCost cliff(c.cost.get(), 2);
  c.problem.cost = &cliff;
  const SolveResult result = SolveIlqr(c.problem, c.U);
  EXPECT_TRUE(std::isfinite(result.cost));
  EXPECT_LT(result.cost, result.initial_cost);
  EXPECT_LE(result.trajectory.X.row(0).maxCoeff(), 2);
}

TEST_F(Ilqr, LeavesTheModelAsItWas) {
  const Case c = PendulumCase();
  const std::vector<unsigned char> before = SerializeModel(c.model.get());
  SolveIlqr(c.problem, c.U, {.iterations = 3});
  EXPECT_EQ(SerializeModel(c.model.get()), before);
}

TEST_F(Ilqr, RefusesAMalformedProblem) {
  const Case good = PendulumCase();
  const auto solve = [&](const Problem& problem, const MatrixXd& U) {
    return SolveIlqr(problem, U, {.iterations = 1});
  };
  Problem bad = good.problem;
  bad.N = 0;
  EXPECT_ERROR(solve(bad, MatrixXd(1, 0)), ErrorCode::kInvalidArgument, "horizon", "N = 0");
  EXPECT_ERROR(solve(good.problem, MatrixXd::Zero(2, 100)), ErrorCode::kDimensionMismatch, "2", "nu = 1");
  EXPECT_ERROR(solve(good.problem, MatrixXd::Zero(1, 99)), ErrorCode::kDimensionMismatch, "99", "N = 100");
  EXPECT_ERROR(solve(good.problem, MatrixXd::Constant(1, 100, std::nan(""))), ErrorCode::kInvalidArgument, "guess",
               "ctrl[motor]", "nan");
  bad = good.problem;
  bad.x0[1] = kInf;
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "x0", "qvel[hinge]", "inf");
  bad = good.problem;
  bad.x0.resize(3);
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kDimensionMismatch, "x0", "3", "nx = 2");
  bad = good.problem;
  bad.u_lower[0] = 2;
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "ctrl[motor]", "lower 2", "upper 1.5");
  bad = good.problem;
  bad.u_lower[0] = std::nan("");
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "ctrl[motor]");
  bad = good.problem;
  bad.substeps = 0;
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "substeps");
  bad = good.problem;
  bad.cost = nullptr;
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "no cost");
  bad = good.problem;
  bad.model = nullptr;
  EXPECT_ERROR(solve(bad, good.U), ErrorCode::kInvalidArgument, "no model");
}

TEST_F(Ilqr, RefusesAModelThatHasNothingToOptimize) {
  const auto solve = [](const std::string& xml) {
    ModelPtr model = LoadModelFromString(xml);
    DataPtr data = MakeData(model.get());
    const Dims dims(model.get());
    const QuadraticCost cost(model.get(), GetState(model.get(), data.get()), MatrixXd::Zero(dims.ndx, dims.ndx),
                             MatrixXd::Zero(dims.nu, dims.nu), MatrixXd::Zero(dims.ndx, dims.ndx));
    Problem problem{.model = model.get(),
                    .cost = &cost,
                    .x0 = GetState(model.get(), data.get()),
                    .context = GetContext(model.get(), data.get()),
                    .N = 5,
                    .substeps = 1,
                    .u_lower = {},
                    .u_upper = {}};
    ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);
    return SolveIlqr(problem, MatrixXd::Zero(dims.nu, 5));
  };
  EXPECT_ERROR(solve("<mujoco model='ball'><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"),
               ErrorCode::kInvalidArgument, "ball", "no actuators", "nu = 0");
  EXPECT_ERROR(solve("<mujoco model='rock'><worldbody><geom size='.1'/></worldbody></mujoco>"),
               ErrorCode::kInvalidArgument, "rock", "nv = 0");
}

// its B would be zero, and the plan would leave the control as it was
TEST_F(Ilqr, RefusesDelayedActuatorsByName) {
  std::string late = kPendulum;
  late.replace(late.find("<motor "), 7, "<motor delay='0.02' nsample='4' ");
  ModelPtr model = LoadModelFromString(late);
  DataPtr start = MakeData(model.get());
  const Case c = MakeCase(std::move(model), std::move(start), Eigen::Vector2d(M_PI, 0), 10, 1);
  EXPECT_ERROR(SolveIlqr(c.problem, c.U), ErrorCode::kUnsupported, "'motor'", "0.02");
}

// what a task reads shows the state of an earlier knot; what it does not read may
TEST_F(Ilqr, RefusesCostsOfSensorsOfThePastByName) {
  const support::TemporaryFolder folder;
  folder.Write(
      "late.xml",
      "<mujoco><worldbody><body><joint name='j' axis='0 1 0'/><geom size='.05' pos='0 0 -.3'/></body></worldbody>"
      "<actuator><motor joint='j'/></actuator><sensor><jointpos name='late' joint='j' nsample='3' "
      "delay='0.004'/><jointpos name='now' joint='j'/></sensor></mujoco>");
  for (const std::string type : {"ilqr", "fddp"}) {
    const auto solve = [&](const std::string& sensor) {
      const Task task = LoadTask(folder.Write(
          "late.task.xml", "<task model='late.xml' horizon='0.02'><cost sensor='" + sensor +
                               "' target='1'/><cost ctrl='all'/><solver type='" + type + "' iterations='1'/></task>"));
      return Solve(task.ToProblem(), task.ToGuess(), task.solver);
    };
    EXPECT_ERROR(solve("late"), ErrorCode::kUnsupported, "the cost reads sensor late");
    EXPECT_EQ(solve("now").iterations.size(), 1u);
  }
}

TEST_F(Ilqr, RefusesOptionsOutOfTheirRange) {
  const Case c = SpringCase();
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, {.iterations = -1}), ErrorCode::kInvalidArgument, "iterations", "-1");
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, {.tolerance = std::nan("")}), ErrorCode::kInvalidArgument, "tolerance", "nan");
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, {.regularization_factor = 1}), ErrorCode::kInvalidArgument, "factor", "1");
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, {.line_search_steps = 0}), ErrorCode::kInvalidArgument, "line_search_steps");
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, {.threads = -2}), ErrorCode::kInvalidArgument, "threads", "-2");
  IlqrOptions none;
  none.type = static_cast<SolverType>(7);
  EXPECT_ERROR(Solve(c.problem, {.U = c.U}, none), ErrorCode::kInvalidArgument, "type is 7");
  none = {.regularization_rule = static_cast<RegularizationRule>(7)};
  EXPECT_ERROR(SolveIlqr(c.problem, c.U, none), ErrorCode::kInvalidArgument, "regularization_rule is 7");
}

TEST_F(Ilqr, TakesControlLimitsFromTheModel) {
  ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j" type="hinge"/><geom size=".1"/></body>
      </worldbody><actuator><motor joint="j" ctrlrange="-2 3"/><motor joint="j"/></actuator></mujoco>)");
  VectorXd lower, upper;
  ControlLimits(model.get(), &lower, &upper);
  EXPECT_TRUE(BitwiseEqual(lower, Eigen::Vector2d(-2, -kInf)));
  EXPECT_TRUE(BitwiseEqual(upper, Eigen::Vector2d(3, kInf)));

  // with clamping switched off the engine honours no range
  model->opt.disableflags |= mjDSBL_CLAMPCTRL;
  ControlLimits(model.get(), &lower, &upper);
  EXPECT_TRUE(BitwiseEqual(lower, Eigen::Vector2d(-kInf, -kInf)));
}

// where steps are differenced, those of a solver that the model ends early would be noise over nudges of 1e-6
TEST_F(Ilqr, DifferencesConvergedSteps) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option solver="CG" iterations="4" tolerance="1e-4" timestep=".01"/>
    <worldbody><geom type="plane" size="2 2 .1"/><body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".02 0 .297"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos="0 .03 .494"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int k = 0; k < 20; ++k) mj_step(model.get(), data.get());
  ASSERT_EQ(data->ncon, 12);
  const auto A = [&](LinearizeOptions options, Level level) {
    options.level = level;
    Linearizer linearizer(model.get(), options);
    StepDerivative derivative;
    linearizer.Linearize(GetState(model.get(), data.get()), VectorXd(0), &derivative);
    return derivative.A;
  };
  const LinearizeOptions own = IlqrOptions().derivative;
  LinearizeOptions early = own;
  early.converge = false;
  const MatrixXd closed = A(own, Level::kAnalytic);
  const double largest = closed.cwiseAbs().maxCoeff();
  EXPECT_LT((A(own, Level::kStep) - closed).cwiseAbs().maxCoeff(), 0.01 * largest);
  EXPECT_GT((A(early, Level::kStep) - closed).cwiseAbs().maxCoeff(), largest) << "this test shows nothing";
}

}  // namespace
}  // namespace costate
