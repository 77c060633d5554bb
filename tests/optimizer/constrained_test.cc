#include <costate/constraint.h>
#include <costate/solve_task.h>

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <string>

#include "optimizer/augmented_cost.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/task_file.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNear;
using Constrained = support::EngineTest;

constexpr double kNone = std::numeric_limits<double>::infinity();

// point mass 1 at 0.5 m, damping 0.1, a motor that cannot lift it
constexpr char kReferencePendulum[] = R"(
<mujoco model="pendulum">
  <option timestep="0.06" gravity="0 0 -9.81" integrator="RK4"/>
  <compiler inertiafromgeom="false"/>
  <worldbody>
    <body><joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <inertial pos="0 0 -0.5" mass="1" diaginertia="1e-12 1e-12 1e-12"/></body>
  </worldbody>
  <actuator><motor joint="hinge" ctrlrange="-3 3"/></actuator>
</mujoco>)";

// cart of 1 kg, point mass of 0.2 kg at 0.5 m, no friction
constexpr char kReferenceCartpole[] = R"(
<mujoco model="cartpole">
  <option timestep="0.05" gravity="0 0 -9.81" integrator="RK4"/>
  <compiler inertiafromgeom="false"/>
  <worldbody>
    <body><joint name="rail" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <body><joint name="pole" type="hinge" axis="0 -1 0"/><inertial pos="0 0 -0.5" mass="0.2" diaginertia="1e-12 1e-12 1e-12"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="rail" ctrlrange="-3 3"/></actuator>
</mujoco>)";

// mass of 1 kg on a rail: q' = q + h v', v' = v + h u
constexpr char kDoubleIntegrator[] = R"(
<mujoco model="slider">
  <option timestep="0.05" gravity="0 0 0" integrator="Euler"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="slide"/></actuator>
</mujoco>)";

struct ConstrainedCase {
  ModelPtr model;
  std::unique_ptr<Cost> cost;
  ConstraintSet constraints;
  Problem problem;
  MatrixXd U;
};

ConstrainedCase MakeConstrainedCase(const char* xml, const VectorXd& x0, const VectorXd& goal, int N, double q,
                                    double r, double q_end) {
  ConstrainedCase c;
  c.model = LoadModelFromString(xml);
  const mjModel* m = c.model.get();
  const Dims dims(m);
  const MatrixXd I = MatrixXd::Identity(dims.ndx, dims.ndx);
  c.cost = std::make_unique<QuadraticCost>(m, goal, q * I, r * MatrixXd::Identity(dims.nu, dims.nu), q_end * I);
  const DataPtr data = MakeData(m);
  c.problem = {.model = m,
               .cost = c.cost.get(),
               .x0 = x0,
               .context = GetContext(m, data.get()),
               .N = N,
               .substeps = 1,
               .u_lower = {},
               .u_upper = {}};
  ControlLimits(m, &c.problem.u_lower, &c.problem.u_upper);
  c.U = MatrixXd::Zero(dims.nu, N);
  return c;
}

ConstrainedCase ReferencePendulum() {
  ConstrainedCase c =
      MakeConstrainedCase(kReferencePendulum, Eigen::Vector2d(0, 0), Eigen::Vector2d(M_PI, 0), 50, 1e-3, 1e-3, 1);
  c.constraints.Add(MakeGoalConstraint(c.model.get(), Eigen::Vector2d(M_PI, 0)));
  return c;
}

ConstrainedCase ReferenceCartpole() {
  const Eigen::Vector4d goal(0, M_PI, 0, 0);
  ConstrainedCase c = MakeConstrainedCase(kReferenceCartpole, VectorXd::Zero(4), goal, 100, 1e-2, 1e-1, 100);
  c.constraints.Add(MakeGoalConstraint(c.model.get(), goal));
  return c;
}

// optima with the goal as an equality, found by an interior-point solver
TEST_F(Constrained, SwingsThePendulumUpAtTheKnownOptimum) {
  ConstrainedCase c = ReferencePendulum();
  c.problem.constraints = &c.constraints;
  const SolveResult result = SolveConstrained(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_NEAR(result.cost, 0.018404627, 1e-4 * 0.018404627);
  EXPECT_LE(result.violation, 1e-6);
  EXPECT_LE((result.trajectory.X.col(50) - Eigen::Vector2d(M_PI, 0)).cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_NE(result.message.find("of constraint 'goal' (q"), std::string::npos) << result.message;
  ASSERT_FALSE(result.iterations.empty());
  EXPECT_GT(result.iterations.front().violation, 1e-3);
  EXPECT_LE(result.iterations.back().violation, 1e-6);
}

TEST_F(Constrained, SwingsTheCartPoleUpAtTheKnownOptimum) {
  ConstrainedCase c = ReferenceCartpole();
  c.problem.constraints = &c.constraints;
  const SolveResult result = SolveConstrained(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_NEAR(result.cost, 1.486186733, 1e-4 * 1.486186733);
  EXPECT_LE(result.violation, 1e-6);
}

// ---- closed forms ---------------------------------------------------------------------------------------------------

// x_t = x0-part + S_t U of the double integrator, semi-implicit Euler: v_t = h Σ u, q_t = h Σ v
struct Response {
  MatrixXd q, v;  // (N+1) × N
};
Response SliderResponse(int N, double h) {
  Response r{MatrixXd::Zero(N + 1, N), MatrixXd::Zero(N + 1, N)};
  for (int t = 1; t <= N; ++t) {
    r.v.row(t) = r.v.row(t - 1);
    r.v(t, t - 1) += h;
    r.q.row(t) = r.q.row(t - 1) + h * r.v.row(t);
  }
  return r;
}

// minimize ½ h r ‖U‖² subject to q_N = 1, v_N = 0: the KKT system is linear
TEST_F(Constrained, SolvesLqrWithATerminalEqualityAsItsKktSystem) {
  const int N = 20;
  const double h = 0.05, r = 0.3;
  ConstrainedCase c =
      MakeConstrainedCase(kDoubleIntegrator, Eigen::Vector2d::Zero(), Eigen::Vector2d::Zero(), N, 0, r, 0);
  c.constraints.Add(MakeGoalConstraint(c.model.get(), Eigen::Vector2d(1, 0)));
  c.problem.constraints = &c.constraints;
  const SolveResult result = SolveConstrained(c.problem, c.U);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;

  const Response s = SliderResponse(N, h);
  MatrixXd G(2, N);
  G << s.q.row(N), s.v.row(N);
  const MatrixXd S = G * G.transpose() / (h * r);
  const Eigen::Vector2d lambda = -S.ldlt().solve(Eigen::Vector2d(1, 0));
  const VectorXd U = -G.transpose() * lambda / (h * r);
  EXPECT_TRUE(MatricesNear(result.trajectory.U.transpose(), U, 1e-5 * U.cwiseAbs().maxCoeff()));
  EXPECT_TRUE(MatricesNear(result.multipliers[0].col(N), lambda, 1e-5 * lambda.norm()));
  EXPECT_NEAR(result.cost, 0.5 * h * r * U.squaredNorm(), 1e-5 * result.cost);
  EXPECT_LE(result.iterations.size(), 12u);
}

// a convex problem: the KKT conditions hold at its optimum and nowhere else
TEST_F(Constrained, KeepsASpeedLimitWithMultipliersThatProveTheOptimum) {
  const int N = 20;
  const double h = 0.05, r = 0.3, limit = 1.3;
  ConstrainedCase c =
      MakeConstrainedCase(kDoubleIntegrator, Eigen::Vector2d::Zero(), Eigen::Vector2d::Zero(), N, 0, r, 0);
  const mjModel* m = c.model.get();
  c.constraints.Add(MakeGoalConstraint(m, Eigen::Vector2d(1, 0)));
  ConstraintInfo speed{.name = "speed",
                       .unit = {},
                       .components = {},
                       .lower = VectorXd::Constant(1, -kNone),
                       .upper = VectorXd::Constant(1, limit),
                       .first = 1,
                       .last = -1};
  c.constraints.Add(std::make_unique<StateConstraint>(m, speed, Eigen::Vector2d::Zero(), std::vector<int>{1}));
  c.problem.constraints = &c.constraints;
  const SolveResult result = SolveConstrained(c.problem, c.U, {.gradient_tolerance = 1e-10});
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;

  const Response s = SliderResponse(N, h);
  const VectorXd U = result.trajectory.U.transpose(), v = s.v * U;
  const MatrixXd& goal = result.multipliers[0];
  const VectorXd lambda = result.multipliers[1].transpose();
  const VectorXd gradient =
      h * r * U + s.q.row(N).transpose() * goal(0, N) + s.v.row(N).transpose() * goal(1, N) + s.v.transpose() * lambda;
  EXPECT_LE(gradient.cwiseAbs().maxCoeff(), 1e-9);
  EXPECT_LE(v.maxCoeff(), limit + 1e-5);
  EXPECT_GE(lambda.minCoeff(), 0);
  EXPECT_GT(lambda.maxCoeff(), 1e-3);                                        // the limit matters …
  EXPECT_LE((lambda.array() * (v.array() - limit)).abs().maxCoeff(), 1e-5);  // … only where it is touched
  for (const ConstraintReport& report : result.constraints) {
    if (report.name != "speed") continue;
    EXPECT_EQ(report.unit, "m/s");
    EXPECT_NEAR(report.multiplier, lambda.maxCoeff(), 1e-12);
    EXPECT_EQ(report.active, (lambda.array() != 0).count());
  }
}

// full thrust reaches ½ u T² and no further: what is left over is the violation
TEST_F(Constrained, NamesWhatCannotBeKeptAndReturnsTheLeastViolation) {
  const int N = 20;
  ConstrainedCase c =
      MakeConstrainedCase(kDoubleIntegrator, Eigen::Vector2d::Zero(), Eigen::Vector2d::Zero(), N, 0, 1e-3, 0);
  const mjModel* m = c.model.get();
  c.problem.u_lower.setConstant(-1);
  c.problem.u_upper.setConstant(1);
  ConstraintInfo there{.name = "be there",
                       .unit = {},
                       .components = {},
                       .lower = VectorXd::Constant(1, 2),
                       .upper = VectorXd::Constant(1, 3),
                       .first = -1,
                       .last = -1};
  c.constraints.Add(std::make_unique<StateConstraint>(m, there, Eigen::Vector2d::Zero(), std::vector<int>{0}));
  c.problem.constraints = &c.constraints;
  const SolveResult result = SolveConstrained(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kInfeasible) << result.message;
  const double most = (SliderResponse(N, 0.05).q * VectorXd::Ones(N))[N];
  EXPECT_NEAR(result.constraints[0].violation, 2 - most, 1e-10);
  EXPECT_NEAR(result.constraints[0].relative, (2 - most) / 3, 1e-10);
  for (const char* part : {"infeasible", "'be there' (qpos[slide])", "knot 20", "allowed 2 to 3", " m at"}) {
    EXPECT_NE(result.message.find(part), std::string::npos) << part << " is not in: " << result.message;
  }
}

// a puck and a post half way: start, guess and cost are symmetric, and the search ends against the post; the best
// motion on the way is past it between two knots and keeps all constraints
TEST_F(Constrained, IsNotInfeasibleWhereAMotionKeepsAll) {
  const support::TemporaryFolder folder;
  folder.Write("puck.xml",
               "<mujoco><option timestep='0.02' gravity='0 0 0'/><worldbody><body>"
               "<joint name='x' type='slide' axis='1 0 0' damping='0.3'/>"
               "<joint name='y' type='slide' axis='0 1 0' damping='0.3'/>"
               "<geom size='0.1' mass='1' contype='0' conaffinity='0'/></body></worldbody>"
               "<actuator><motor name='x' joint='x'/><motor name='y' joint='y'/></actuator></mujoco>");
  const Task task =
      LoadTask(folder.Write("post.xml",
                            "<task model='puck.xml' horizon='1.5'><measure name='p' qpos='all'/><cost name='effort' "
                            "ctrl='all' weight='0.01'/>"
                            "<constraint name='there' qpos='x' equals='2' when='end'/><constraint name='level' "
                            "qpos='y' equals='0' when='end'/>"
                            "<constraint name='rest' qvel='all' equals='0' when='end'/>"
                            "<constraint name='clear' value='[(p[0] - 1)^2 + p[1]^2]' lower='0.09'/></task>"));
  const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  EXPECT_LE(result.violation, task.constrained.tolerance) << result.message;
  EXPECT_EQ(result.status, SolveStatus::kStalled) << result.message;
  EXPECT_GT(result.cost, 10) << "on one line";

  // kicks, which are not symmetric, lead around it
  const SolveResult around = SolveTask(task).result;
  EXPECT_LE(around.violation, task.constrained.tolerance) << around.message;
  EXPECT_LT(around.cost, 0.1) << around.message;
}

// A distance is as good a constraint as its components (6a): Gauss–Newton alone, which knows of one direction, took 129 and
// 268 iterations, the first to a motion that cost 1 % more.
TEST_F(Constrained, OfDistancesIsSolvedLikeThatOfTheirComponents) {
  const support::TemporaryFolder folder;
  folder.Write("mass.xml", R"(<mujoco><option gravity="0 0 0" timestep=".01"/><worldbody><body name="b"><joint name="x"
    type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><joint name="z" type="slide" axis="0 0 1"/>
    <geom size=".05" mass="1"/><site name="p"/></body></worldbody><actuator><motor joint="x"/><motor joint="y"/><motor
    joint="z"/></actuator></mujoco>)");
  const auto load = [&](const std::string& constraints) {
    return LoadTask(
        folder.Write("t.xml",
                     "<task model='mass.xml' horizon='1'><measure name='p' site='p' quantity='pos'/><measure "
                     "name='v' qvel='all'/><cost ctrl='all' weight='0.01'/>" +
                         constraints + "</task>"));
  };
  const auto solve = [](const Task& task) {
    return Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  };
  const Task components = load(
      "<constraint name='there' value='p - [0.3, 0.2, 0.5]' equals='0' when='end'/>"
      "<constraint name='rest' value='v' equals='0' when='end'/>");
  const Task distances = load(
      "<constraint name='there' value='norm(p - [0.3, 0.2, 0.5])' equals='0' when='end'/>"
      "<constraint name='rest' value='norm(v)' equals='0' when='end'/>");
  const SolveResult by_components = solve(components), by_distances = solve(distances);
  EXPECT_LE(by_distances.violation, 1e-6) << by_distances.message;
  EXPECT_NEAR(by_distances.cost, by_components.cost, 1e-5 * by_components.cost);
  EXPECT_LE(by_distances.iterations.size(), 40u);
  const SolveResult near =
      solve(load("<constraint name='there' value='norm(p - [0.3, 0.2, 0.5])' upper='0.02' when='end'/>"
                 "<constraint name='rest' value='norm(v)' upper='0.05' when='end'/>"));
  EXPECT_EQ(near.status, SolveStatus::kConverged) << near.message;
  EXPECT_LE(near.iterations.size(), 30u);

  // without multipliers both are half the same sum of squares
  const VectorXd x = VectorXd::LinSpaced(6, 0.1, 0.7), none;
  const Eigen::Vector3d s = x.head(3);
  MatrixXd C = MatrixXd::Zero(3, 6);
  C.leftCols(3).setIdentity();
  CostExpansion expansions[2];
  for (const Task* task : {&components, &distances}) {
    AugmentedCost augmented(task->model.get(), *task->cost, task->constraints, task->N);
    augmented.rho.setConstant(2, 3.0);
    augmented.Expand({.t = task->N, .N = task->N, .time = 0, .dt = 0.01, .x = x, .u = none, .s = s}, C, MatrixXd(),
                     &expansions[task == &distances]);
  }
  EXPECT_TRUE(support::MatricesNear(expansions[1].lxx, expansions[0].lxx, 1e-13));
}

// the first steps of multipliers lead away from a guess that is the optimum: it is what is returned
TEST_F(Constrained, ReturnsAGuessThatNothingBetters) {
  const Task task = LoadTask(std::string(COSTATE_MODELS) + "/cartpole/short_rail.xml");
  const Problem problem = task.ToProblem();
  const SolveResult best = SolveConstrained(problem, task.U_guess, task.solver, task.constrained);
  ASSERT_EQ(best.status, SolveStatus::kConverged) << best.message;
  ConstrainedOptions loose = task.constrained;
  loose.penalty_init = 1e-3;  // without multipliers: the cost draws it over the bounds
  IlqrOptions few = task.solver;
  for (const int iterations : {3, 200}) {
    few.iterations = iterations;
    const SolveResult again = SolveConstrained(problem, best.trajectory.U, few, loose);
    EXPECT_LE(again.violation <= loose.tolerance ? again.cost : 0, best.cost * (1 + 1e-12)) << again.message;
    EXPECT_TRUE(again.trajectory.X.allFinite());
    EXPECT_EQ(again.multipliers.size(), 2u);
    EXPECT_EQ(again.policy.K.size(), static_cast<std::size_t>(task.N));
  }

  // one that costs nothing, where all else does
  const Task still = support::LoadZooTask("<cost ctrl='all'/><constraint qpos='extend' upper='0.05'/>");
  IlqrOptions one = still.solver;
  one.iterations = 1;
  const SolveResult stays = SolveConstrained(still.ToProblem(), MatrixXd::Zero(3, still.N), one, still.constrained);
  EXPECT_EQ(stays.cost, 0) << stays.message;
}

// what counts in a step is decided by where it leads: a servo whose control moves its force from one bound to the other
// within 4 mm knows of neither where it is
TEST_F(Constrained, AStepKeepsToBoundsThatAreNotReachedYet) {
  const support::TemporaryFolder folder;
  folder.Write("servo.xml", R"(<mujoco><option timestep="0.005" integrator="implicitfast" gravity="0 0 0"/><worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="4"/>
      <body pos="0 0 .2"><joint name="y" type="slide" axis="0 1 0"/><geom size=".05" mass="2"/></body></body></worldbody>
    <actuator><position joint="x" kp="4500" kv="450" ctrlrange="-3 3"/>
      <position joint="y" kp="4500" kv="450" ctrlrange="-3 3"/></actuator></mujoco>)");

  // from rest 59 iterations ended 0.36 m off without, from a start that may move 50
  for (const std::string start : {"", "<start free='qvel' lower='-0.1' upper='0.1'/>", "<start free='qvel'/>"}) {
    SCOPED_TRACE(start);
    const Task task = LoadTask(
        folder.Write("task.xml", "<task model='servo.xml' horizon='1' controlstep='2'>" + start +
                                     "<cost ctrl='all' weight='0.1'/><cost qvel='all' weight='0.01'/>"
                                     "<constraint qpos='all' equals='0.4 -.3' when='end'/>"
                                     "<constraint qvel='all' equals='0' when='end'/>"
                                     "<limit actuator='all' quantity='force' lower='-20' upper='20'/></task>"));
    const SolveResult found = SolveConstrained(task.ToProblem(), task.U_guess, task.solver, task.constrained);
    EXPECT_EQ(found.status, SolveStatus::kConverged) << found.message;
    EXPECT_LE(found.violation, task.constrained.tolerance);
    EXPECT_LE(found.iterations.size(), 30u);
    ASSERT_EQ(found.constraints.size(), 3u);
    EXPECT_TRUE(std::any_of(found.constraints.begin(), found.constraints.end(), [](const ConstraintReport& c) {
      return c.name == "actuator force" && c.active > 3;
    })) << "the limit is not in the way";
  }
}

// a recorded motion that keeps the constraints is what is returned where a few iterations lead beyond them
TEST_F(Constrained, AMotionForAGuessIsTrustedWhereNothingKeepsTheConstraints) {
  const Task task = LoadTask(std::string(COSTATE_MODELS) + "/posts/reach.xml");
  const Problem problem = task.ToProblem();
  const SolveResult kept = SolveConstrained(problem, task.U_guess, task.solver, task.constrained);
  ASSERT_LE(kept.violation, task.constrained.tolerance) << kept.message;
  ConstrainedOptions loose = task.constrained;
  loose.penalty_init = 1e-3;  // without multipliers: the cost draws it over the bounds
  IlqrOptions few = task.solver;
  few.iterations = 2;
  const SolveResult missed = SolveConstrained(problem, kept.trajectory.U, few, loose);
  ASSERT_GT(missed.violation, loose.tolerance);
  loose.trust_guess = true;
  const SolveResult trusted = SolveConstrained(problem, kept.trajectory.U, few, loose);
  EXPECT_EQ(trusted.trajectory.U, kept.trajectory.U);
  EXPECT_EQ(trusted.status, SolveStatus::kIterationLimit);
  EXPECT_EQ(trusted.message.find("no better motion found than where this solve began"), 0u) << trusted.message;

  // as that of a file is
  const support::TemporaryFolder folder;
  const std::string file = folder.Write("u.csv", "time,ctrl[shoulder],ctrl[extend],ctrl[pull]\n0,0,0,0\n");
  EXPECT_TRUE(support::LoadZooTask("<cost ctrl='all'/><guess file='" + file + "'/>").constrained.trust_guess);
  EXPECT_FALSE(task.constrained.trust_guess);
}

// a solve that goes on from multipliers and returns where it began: its report is of the multipliers that it returns
TEST_F(Constrained, ReportsTheMultipliersOfAGuessThatNothingBetters) {
  const Task task = support::LoadZooTask("<cost ctrl='all'/><constraint qpos='extend' upper='0.05'/>");
  ConstrainedOptions on = task.constrained;
  on.multipliers = {MatrixXd::Zero(1, task.N + 1)};
  on.multipliers[0].rightCols(2) << 1, 3;  // leads away from controls that cost nothing
  on.penalty_init = 2;
  IlqrOptions one = task.solver;
  one.iterations = 1;
  const SolveResult stays = SolveConstrained(task.ToProblem(), MatrixXd::Zero(3, task.N), one, on);
  ASSERT_NE(stays.message.find("no better motion found than where this solve began"), std::string::npos)
      << stays.message;
  ASSERT_EQ(stays.multipliers, on.multipliers);
  ASSERT_EQ(stays.constraints.size(), 1u);
  EXPECT_EQ(stays.constraints[0].multiplier, 3);
  EXPECT_EQ(stays.constraints[0].active, 2);
  EXPECT_EQ(stays.constraints[0].penalty, 2);
}

TEST_F(Constrained, IsBitwiseTheSameAtAnyThreadCount) {
  ConstrainedCase c = ReferencePendulum();
  c.problem.constraints = &c.constraints;
  IlqrOptions one{.iterations = 25}, three{.iterations = 25};
  one.threads = 1;
  three.threads = 3;
  const SolveResult a = SolveConstrained(c.problem, c.U, one), b = SolveConstrained(c.problem, c.U, three);
  EXPECT_TRUE(BitwiseEqual(a.trajectory.U, b.trajectory.U));
  EXPECT_TRUE(BitwiseEqual(a.multipliers[0], b.multipliers[0]));
  EXPECT_EQ(a.status, SolveStatus::kIterationLimit);
  EXPECT_EQ(a.iterations.size(), 25u);
  EXPECT_EQ(a.iterations.back().iteration, 25);
}

// multipliers and penalties of a solution are where a second solve begins
TEST_F(Constrained, ResumesFromMultipliers) {
  ConstrainedCase c = ReferencePendulum();
  c.problem.constraints = &c.constraints;
  const SolveResult first = SolveConstrained(c.problem, c.U);
  ConstrainedOptions resume;
  resume.multipliers = first.multipliers;
  resume.penalties = VectorXd::Constant(1, first.constraints[0].penalty);
  const SolveResult again = SolveConstrained(c.problem, first.trajectory.U, {}, resume);
  EXPECT_EQ(again.status, SolveStatus::kConverged) << again.message;
  EXPECT_LE(again.iterations.size(), 8u);
  EXPECT_LE(again.cost, first.cost * (1 + 1e-6));
}

// what the guess nearly keeps has no penalty that the cost could not move against
TEST_F(Constrained, IsNotMisledByAGuessThatNearlyKeepsABound) {
  ConstrainedCase c =
      MakeConstrainedCase(kDoubleIntegrator, Eigen::Vector2d::Zero(), Eigen::Vector2d(1, 0), 20, 1, 0.1, 10);
  c.U.setConstant(0.5);
  const double speed = (SliderResponse(20, 0.05).v * c.U.transpose())(20, 0);
  ConstraintInfo info{.name = "speed",
                      .unit = {},
                      .components = {},
                      .lower = VectorXd::Constant(1, -kNone),
                      .upper = VectorXd::Constant(1, speed - 1e-4),
                      .first = 1,
                      .last = -1};
  c.constraints.Add(
      std::make_unique<StateConstraint>(c.model.get(), info, Eigen::Vector2d::Zero(), std::vector<int>{1}));
  c.problem.constraints = &c.constraints;
  const SolveResult first = SolveConstrained(c.problem, c.U, {}, {}, [](const IterationRecord&) { return false; });
  EXPECT_GT(first.constraints[0].penalty, first.initial_cost);
  EXPECT_LE(first.constraints[0].penalty, 100.001 * first.initial_cost);
  const SolveResult result = SolveConstrained(c.problem, c.U);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_LE(result.iterations.size(), 60u);  // with the penalty that ½ ρ (1e-4)² = J makes, 200 are not enough
}

TEST_F(Constrained, StopsWhenAsked) {
  ConstrainedCase c = ReferencePendulum();
  c.problem.constraints = &c.constraints;
  const SolveResult result =
      SolveConstrained(c.problem, c.U, {}, {}, [](const IterationRecord& r) { return r.iteration < 7; });
  EXPECT_EQ(result.status, SolveStatus::kInterrupted) << result.message;
  EXPECT_EQ(result.iterations.size(), 7u);
  EXPECT_EQ(result.trajectory.N(), 50);
}

// Solvers aim inside by the inset; what lies between that and the bound is settled, what pulls back from there is not.
TEST_F(Constrained, InsetsAreAimedAtAndForgiven) {
  ConstraintInfo info;
  info.lower = Eigen::Vector2d(-1, -1);
  info.upper = Eigen::Vector2d(4, 4);
  info.inset = Eigen::Vector2d(0.1, 0);
  EXPECT_DOUBLE_EQ(Aim(info, 0, -3), -0.9);
  EXPECT_DOUBLE_EQ(Aim(info, 0, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(Aim(info, 0, 7), 3.9);
  EXPECT_DOUBLE_EQ(Aim(info, 1, -3), -1);
  EXPECT_DOUBLE_EQ(Aim(info, 1, 7), 4);

  // y = z − Aim(z), with the shift of its multiplier; in terms of the largest bound
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, 0.08, 0), 0);
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, -0.08, 0), 0);
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, 0.3, 0), 0.2 / 4);
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, -0.3, -0.02), 0.18 / 4);
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, 0.02, 0.1), 0.08 / 4);
  EXPECT_DOUBLE_EQ(Unsettled(info, 0, 0, -0.08), 0.08 / 4);
  EXPECT_DOUBLE_EQ(Unsettled(info, 1, 0.08, 0), 0.08 / 4);
}

TEST_F(Constrained, RefusesWhatIsMalformed) {
  ConstrainedCase c = ReferencePendulum();
  const mjModel* m = c.model.get();
  c.problem.constraints = &c.constraints;
  EXPECT_ERROR(SolveIlqr(c.problem, c.U), ErrorCode::kInvalidArgument, "'goal'", "SolveConstrained does");
  EXPECT_ERROR(SolveConstrained(c.problem, c.U, {}, {.tolerance = 0}), ErrorCode::kInvalidArgument, "tolerance is 0");
  EXPECT_ERROR(SolveConstrained(c.problem, c.U, {.seconds = 5}), ErrorCode::kInvalidArgument, "seconds is 5",
               "iLQR alone");
  ConstrainedOptions wrong;
  wrong.multipliers = {MatrixXd::Zero(2, 3)};
  EXPECT_ERROR(SolveConstrained(c.problem, c.U, {}, wrong), ErrorCode::kDimensionMismatch, "'goal'", "2 × 3", "2 × 51");
  const auto add = [&](double lower, double upper, const std::string& name, int entry, VectorXd inset = {}) {
    ConstraintInfo info{.name = name,
                        .unit = {},
                        .components = {},
                        .lower = VectorXd::Constant(1, lower),
                        .upper = VectorXd::Constant(1, upper),
                        .inset = std::move(inset)};
    c.constraints.Add(std::make_unique<StateConstraint>(m, info, Eigen::Vector2d::Zero(), std::vector<int>{entry}));
  };
  EXPECT_ERROR(add(2, 1, "a", 0), ErrorCode::kInvalidArgument, "'a'", "qpos[hinge]", "lower 2, upper 1");
  EXPECT_ERROR(add(-kNone, kNone, "a", 0), ErrorCode::kInvalidArgument, "no finite bound");
  EXPECT_ERROR(add(0, 1, "goal", 0), ErrorCode::kInvalidArgument, "a second constraint 'goal'");
  EXPECT_ERROR(add(0, 1, "a", 2), ErrorCode::kInvalidArgument, "no entry 2");
  EXPECT_ERROR(add(0, 1, "a", 0, VectorXd::Constant(1, 0.6)), ErrorCode::kInvalidArgument, "'a'", "inset of 0.6",
               "qpos[hinge]: 0 to 1");
  EXPECT_ERROR(add(0, 1, "a", 0, VectorXd::Constant(1, -0.1)), ErrorCode::kInvalidArgument, "inset of -0.1");
  EXPECT_ERROR(add(0, 1, "a", 0, VectorXd::Zero(2)), ErrorCode::kDimensionMismatch, "1 components and 2 insets");
}

// ---- derivatives ----------------------------------------------------------------------------------------------------

constexpr char kTumbler[] = R"(
<mujoco model="tumbler">
  <worldbody>
    <body><freejoint name="root"/><geom size="0.1" mass="1"/>
      <body pos="0 0 0.2"><joint name="ball" type="ball"/><geom size="0.05 0.1" type="capsule" pos="0.1 0 0"/>
        <body pos="0 0 0.2"><joint name="hinge" type="hinge"/><geom size="0.05 0.1" type="capsule" pos="0.1 0 0"/></body>
      </body></body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>)";

// slope and curvature of the augmented Lagrangian about a point with both sides of its bounds active
TEST_F(Constrained, StateConstraintHasTheSlopeOfItsDifferences) {
  const ModelPtr model = LoadModelFromString(kTumbler);
  const mjModel* m = model.get();
  const Dims dims(m);
  srand(3);
  const VectorXd zero = GetState(m, MakeData(m).get());
  const VectorXd x = Retract(m, zero, 0.7 * VectorXd::Random(dims.ndx)),
                 goal = Retract(m, zero, 0.7 * VectorXd::Random(dims.ndx));
  const std::unique_ptr<Constraint> constraint = MakeGoalConstraint(m, goal);
  EXPECT_EQ(constraint->info().components, TangentNames(m));
  const VectorXd none;
  MatrixXd J, Ju;
  const auto knot_at = [&](const VectorXd& at) {
    return KnotView{.t = 5, .N = 5, .time = 0, .dt = 0.1, .x = at, .u = none, .s = none};
  };
  constraint->Jacobian(knot_at(x), MatrixXd(), MatrixXd(), &J, &Ju);
  for (const double h : {1e-5, 1e-6}) {
    MatrixXd differences(dims.ndx, dims.ndx);
    for (int i = 0; i < dims.ndx; ++i) {
      VectorXd plus, minus;
      const VectorXd above = Retract(m, x, h * VectorXd::Unit(dims.ndx, i)),
                     below = Retract(m, x, -h * VectorXd::Unit(dims.ndx, i));
      constraint->Value(knot_at(above), &plus);
      constraint->Value(knot_at(below), &minus);
      differences.col(i) = (plus - minus) / (2 * h);
    }
    EXPECT_TRUE(MatricesNear(J, differences, 1e-8, TangentNames(m), TangentNames(m)));
  }
}

// a pole that is swung up by a cart between stops: bang-bang controls, along which penalties crawl
Task CartOnRail(const std::string& horizon, const std::string& rail, const std::string& more) {
  const support::TemporaryFolder folder;
  folder.Write("cart.xml", R"(<mujoco><option timestep="0.01" integrator="RK4"/>
    <default><geom contype="0" conaffinity="0"/></default><worldbody><body pos="0 0 1">
    <joint name="slider" type="slide" axis="1 0 0" damping="5e-4"/><geom type="box" size="0.2 0.15 0.1" mass="1"/>
    <body><joint name="hinge" axis="0 1 0" damping="2e-6"/>
      <geom type="capsule" fromto="0 0 0 0 0 1" size="0.045" mass=".1"/></body></body></worldbody>
    <actuator><motor joint="slider" gear="10" ctrlrange="-1 1"/></actuator></mujoco>)");
  return LoadTask(folder.Write(
      "task.xml", "<task model='cart.xml' horizon='" + horizon +
                      "' controlstep='3'><start qpos='0 3.14159'/><cost qpos='all' weight='0.1' terminal='100'/>"
                      "<cost qvel='all' weight='0' terminal='10'/><cost ctrl='all' weight='0.001'/>"
                      "<limit joint='slider' lower='-" +
                      rail + "' upper='" + rail + "'/>" + more + "</task>"));
}

// a cart-pole that swings up within 0.8 m of rail: iLQR crawls along controls at their limits, and its iterations end;
// multiple shooting from the guess follows, on top of them
TEST_F(Constrained, WhereIterationsEndShootingFollows) {
  const Task task = CartOnRail("3", "0.8", "<solver iterations='200'/>");
  const SolveResult alone = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  ASSERT_EQ(alone.status, SolveStatus::kIterationLimit) << alone.message;
  const SolveResult found = SolveTask(task).result;
  EXPECT_LE(found.violation, task.constrained.tolerance) << found.message;
  EXPECT_LT(found.cost, 0.534);
  EXPECT_NE(found.message.find("by multiple shooting, after the task's solver had "), std::string::npos)
      << found.message;
  EXPECT_EQ(found.initial_cost, alone.initial_cost);
  ASSERT_GT(found.iterations.size(), alone.iterations.size());
  for (std::size_t i = 0; i < found.iterations.size(); ++i)
    EXPECT_EQ(found.iterations[i].iteration, static_cast<int>(i) + 1);
}

TEST_F(Constrained, WhatIsAllButKeptIsShotAt) {
  const SolveResult found =
      SolveTask(CartOnRail("2.5", "0.75", "<constraint qvel='all' equals='0' when='end'/>")).result;
  EXPECT_EQ(found.status, SolveStatus::kConverged) << found.message;
  EXPECT_LE(found.violation, 1e-6);
  EXPECT_LT(found.cost, 0.54);
  EXPECT_NE(found.message.find("by multiple shooting, after the task's solver had missed"), std::string::npos)
      << found.message;
}

}  // namespace
}  // namespace costate
