// What a motion costs near another one, against differences; the nearest motion within a constraint, against its closed
// form.
#include "optimizer/near_cost.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <string>
#include <vector>

#include <costate/costate.h>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using NearCostTest = support::EngineTest;

// a body in the air with two joints: the start has a quaternion
constexpr char kJointedBody[] =
    "<mujoco><worldbody><body pos='0 0 1'><freejoint/><geom size='.1' mass='1'/><body><joint name='a'/>"
    "<geom size='.05' pos='.2 0 0'/><body pos='.3 0 0'><joint name='b' axis='0 1 0'/><geom size='.05' pos='.1 0 0'/>"
    "</body></body></body></worldbody><actuator><motor joint='a'/><motor joint='b'/></actuator></mujoco>";

// 1 kg on a spring: a step of the engine is linear
constexpr char kSpring[] =
    "<mujoco><option timestep='0.02' gravity='0 0 0'/><worldbody><body><joint name='slide' type='slide' axis='1 0 0' "
    "stiffness='9'/><geom size='.1' mass='1'/></body></worldbody>"
    "<actuator><motor joint='slide' ctrlrange='-50 50'/></actuator></mujoco>";

// nothing but effort costs, and the end is at 0.1
constexpr char kAt[] =
    "<guess ctrl='0'/><cost name='effort' ctrl='all'/><constraint name='at' qpos='slide' equals='0.1' when='end'/>";

Task TaskOf(const std::string& model, const std::string& elements) {
  const support::TemporaryFolder folder;
  folder.Write("model.xml", model);
  return LoadTask(folder.Write("task.xml", "<task model='model.xml' horizon='0.4'>" + elements + "</task>"));
}

TEST_F(NearCostTest, SlopesAreThoseOfDifferences) {
  for (const std::string free : {"", " free='all'"}) {
    const Task task =
        TaskOf(kJointedBody, "<start" + free + "/><guess ctrl='0'/><cost name='turn' qvel='all' weight='3'/>");
    const Problem problem = task.ToProblem();
    const mjModel* m = task.model.get();
    const Dims dims(m);
    const VectorXd unit = (VectorXd(2) << 0.5, 2).finished();
    const MatrixXd U = MatrixXd::Random(2, task.N);
    VectorXd x0 = task.x0;
    x0 = Retract(m, x0, 0.3 * VectorXd::Random(dims.ndx));
    const VectorXd x = Retract(m, x0, 0.5 * VectorXd::Random(dims.ndx));
    for (const bool own : {false, true}) {
      const NearCost cost(problem, U, x0, unit, 0.7, own);
      for (const int t : {0, 3, task.N}) {
        const VectorXd u = VectorXd::Random(t < task.N ? 2 : 0), none;
        const auto value = [&](const VectorXd& dx, const VectorXd& du) {
          const VectorXd moved = Retract(m, x, dx);
          const VectorXd v = u + du;
          return cost.Value({.t = t, .N = task.N, .dt = 0.02, .x = moved, .u = v, .s = none});
        };
        const KnotView knot{.t = t, .N = task.N, .dt = 0.02, .x = x, .u = u, .s = none};
        CostExpansion expansion;
        cost.Expand(knot, MatrixXd(), MatrixXd(), &expansion);
        KnotGradient gradient{VectorXd::Zero(dims.ndx), VectorXd::Zero(u.size()), VectorXd()};
        cost.Gradient(knot, &gradient);
        EXPECT_EQ(expansion.l, cost.Value(knot));

        VectorXd lx(dims.ndx), lu(u.size());
        const double h = 1e-5;
        const VectorXd still = VectorXd::Zero(u.size()), stay = VectorXd::Zero(dims.ndx);
        for (int i = 0; i < lx.size(); ++i) {
          const VectorXd dx = h * VectorXd::Unit(dims.ndx, i);
          lx[i] = (value(dx, still) - value(-dx, still)) / (2 * h);
        }
        for (int i = 0; i < lu.size(); ++i) {
          const VectorXd du = h * VectorXd::Unit(u.size(), i);
          lu[i] = (value(stay, du) - value(stay, -du)) / (2 * h);
        }
        EXPECT_TRUE(MatricesNear(expansion.lx, lx, 1e-8)) << t << own;
        EXPECT_TRUE(MatricesNear(gradient.x, lx, 1e-8)) << t << own;
        EXPECT_EQ(lx.norm() > 1e-3, (own && t < task.N) || (t == 0 && !free.empty())) << t << own;
        EXPECT_EQ(expansion.lxx.norm() > 1e-3, (own && t < task.N) || (t == 0 && !free.empty())) << t << own;
        if (t == task.N) continue;
        const MatrixXd luu = 0.02 * 0.7 * unit.cwiseAbs2().cwiseInverse().asDiagonal().toDenseMatrix();
        EXPECT_TRUE(MatricesNear(expansion.luu, luu, 1e-15));  // the task's cost is of x alone
        EXPECT_TRUE(MatricesNear(expansion.lu, lu, 1e-8)) << t << own;
        EXPECT_TRUE(MatricesNear(gradient.u, lu, 1e-8)) << t << own;
        EXPECT_GT(lu.norm(), 1e-3);
      }
    }
  }
}

// x_N = A^N x_0 + G u: the nearest controls that end at rest at 0.1 are U + Gᵀ (G Gᵀ)⁻¹ (x − x_N(U))
TEST_F(NearCostTest, WayBackIsTheShortestOne) {
  const Task task = TaskOf(kSpring, std::string(kAt) + "<constraint name='rest' qvel='slide' equals='0' when='end'/>");
  const Problem problem = task.ToProblem();
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  SolveResult from;
  const MatrixXd U = MatrixXd::Random(1, task.N);
  ASSERT_TRUE(simulator.Rollout(task.x0, U, &from.trajectory).ok());
  from.violation = 1;  // of the least there is

  MatrixXd G(2, task.N);
  for (int t = 0; t < task.N; ++t) {
    MatrixXd pushed = U;
    pushed(0, t) += 1;
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, pushed, &motion).ok());
    G.col(t) = motion.X.col(task.N) - from.trajectory.X.col(task.N);
  }
  const VectorXd missed = Eigen::Vector2d(0.1, 0) - from.trajectory.X.col(task.N);
  const VectorXd way = G.transpose() * (G * G.transpose()).ldlt().solve(missed);

  const NearSolve near{.from = &from, .unit = VectorXd::Constant(1, 50), .kicks = {MatrixXd::Zero(1, task.N)}};
  int calls = 0;
  const SolveResult result = SolveNear(problem, near, task.solver, task.constrained, [&](const IterationRecord&) {
    calls++;
    return true;
  });
  EXPECT_LE(result.violation, task.constrained.tolerance) << result.message;
  EXPECT_TRUE(MatricesNear(result.trajectory.U - U, way.transpose(), 1e-4 * way.lpNorm<Eigen::Infinity>()));
  EXPECT_EQ(result.cost, TotalCost(*problem.cost, result.trajectory, simulator.knot_time()));
  EXPECT_EQ(calls, static_cast<int>(result.iterations.size()));
  EXPECT_EQ(result.iterations.back().cost, result.cost);
  EXPECT_TRUE(result.multipliers.empty());
  EXPECT_EQ(result.gradient_norm_per_knot.size(), 0);
  EXPECT_EQ(result.state.U, result.trajectory.U);
}

// from one that keeps the constraint a step leads to a cheaper one, the farther the less it weighs to be near
TEST_F(NearCostTest, StepsLeadToCheaperMotionsWithinTheConstraints) {
  const Task task = TaskOf(kSpring, kAt);
  const Problem problem = task.ToProblem();
  SolveResult from;
  {
    Problem wasteful = problem;
    const QuadraticCost rest(task.model.get(), task.x0, MatrixXd::Identity(2, 2), MatrixXd::Identity(1, 1) * 1e-6,
                             MatrixXd::Zero(2, 2));
    wasteful.cost = &rest;
    from = Solve(wasteful, task.ToGuess(), task.solver, {}, task.constrained);
  }
  from.cost = TotalCost(*problem.cost, from.trajectory, 0.02);
  ASSERT_LE(from.violation, task.constrained.tolerance);
  const double least = Solve(problem, task.ToGuess(), task.solver, {}, task.constrained).cost;
  ASSERT_LT(least, 0.5 * from.cost);

  double last = from.cost;
  for (const double weight : {1e2, 1e0, 1e-2, 1e-4}) {
    const NearSolve near{.from = &from,
                         .unit = VectorXd::Constant(1, 50),
                         .kicks = {MatrixXd::Zero(1, task.N)},
                         .weight = weight * 2500 / from.cost};
    const SolveResult result = SolveNear(problem, near, task.solver, task.constrained, {});
    EXPECT_LE(result.violation, task.constrained.tolerance) << result.message;
    EXPECT_LT(result.cost, last) << weight;
    last = result.cost;
  }
  EXPECT_NEAR(last, least, 1e-2 * least);
}

// options.iterations bounds all of its solves, and the callback ends them
TEST_F(NearCostTest, EndsWhenItIsTold) {
  const Task task = TaskOf(kSpring, kAt);
  const Problem problem = task.ToProblem();
  SolveResult from;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  ASSERT_TRUE(simulator.Rollout(task.x0, MatrixXd::Random(1, task.N), &from.trajectory).ok());
  from.violation = 1;
  const NearSolve near{.from = &from, .unit = VectorXd::Constant(1, 50), .kicks = {MatrixXd::Zero(1, task.N)}};
  int calls = 0;
  SolveNear(problem, near, task.solver, task.constrained, [&](const IterationRecord&) { return ++calls < 1; });
  EXPECT_EQ(calls, 1);
  IlqrOptions options = task.solver;
  options.iterations = 1;
  EXPECT_EQ(SolveNear(problem, near, options, task.constrained, {}).iterations.size(), 1u);
}

}  // namespace
}  // namespace costate
