// A start that may move: periodic orbits of linear oscillators, whose start is known in closed form.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <string>

#include "optimizer/constraint_terms.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using support::TemporaryFolder;
using FreeStartTest = support::EngineTest;

// by each solver
class FreeStartBy : public support::EngineTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Solver, FreeStartBy, ::testing::Values("ilqr", "fddp"),
                         [](const auto& param) { return std::string(param.param); });

// 1 kg on a spring of 9 N/m with damping 0.4: a step of the engine is exactly linear
constexpr char kOscillator[] =
    "<mujoco model='oscillator'><option timestep='0.02' gravity='0 0 0' integrator='Euler'><flag "
    "eulerdamp='disable'/></option>"
    "<worldbody><body><joint name='slide' type='slide' axis='1 0 0' stiffness='9' damping='.4'/><geom size='.1' "
    "mass='1'/></body></worldbody>"
    "<actuator><motor name='push' joint='slide'/></actuator></mujoco>";

Task OscillatorTask(const std::string& solver, const std::string& start, const std::string& elements,
                    const std::string& model = kOscillator) {
  const TemporaryFolder folder;
  folder.Write("oscillator.xml", model);
  return LoadTask(folder.Write("cycle.task.xml", "<task model='oscillator.xml' horizon='1'>" + start +
                                                     "<guess ctrl='0'/><measure name='u' ctrl='push'/><measure "
                                                     "name='q' qpos='slide'/>" +
                                                     elements + "<solver type='" + solver +
                                                     "' tolerance='1e-12'/></task>"));
}

// x' = A x + B u, by one engine step a column
void LinearStep(const mjModel* m, Eigen::Matrix2d* A, Eigen::Vector2d* B) {
  const DataPtr data = MakeData(m);
  Simulator simulator(m, GetContext(m, data.get()), 1, 1);
  const auto step = [&](const Eigen::Vector2d& x, double u) -> Eigen::Vector2d {
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(x, MatrixXd::Constant(1, 1, u), &motion).ok());
    return motion.X.col(1);
  };
  *A << step({1, 0}, 0), step({0, 1}, 0);
  *B = step({0, 0}, 1);
}

SolveResult SolveFreely(const Task& task) {
  return Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
}

// the force is what it costs nothing to be; then the only start whose motion comes back is x_0 = (1 - A^N)⁻¹ Σ
// A^(N-1-t) B u_t
TEST_P(FreeStartBy, FindsThePeriodicOrbitOfADrivenOscillator) {
  const Task task =
      OscillatorTask(GetParam(), "<start qpos='0.3' qvel='-1' free='all'/>",
                     "<cost name='drive' value='u - 5*cos(2*pi*time)'/><periodic qpos='all' qvel='all'/>");
  const SolveResult result = SolveFreely(task);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;
  Eigen::Matrix2d A, power = Eigen::Matrix2d::Identity();
  Eigen::Vector2d B, sum = Eigen::Vector2d::Zero();
  LinearStep(task.model.get(), &A, &B);
  for (int t = 0; t < task.N; ++t) sum = A * sum + B * 5 * std::cos(2 * std::numbers::pi * t * 0.02);
  for (int t = 0; t < task.N; ++t) power = power * A;
  const Eigen::Vector2d start = (Eigen::Matrix2d::Identity() - power).inverse() * sum;
  EXPECT_TRUE(MatricesNear(result.trajectory.X.col(0), start, 2e-6));
  EXPECT_LE((result.trajectory.X.col(50) - result.trajectory.X.col(0)).cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_LE(result.cost, 1e-20);

  // x = Re(5 e^{iwt} / (9 - w² + 0.4 i w)) as the step goes to zero
  const double w = 2 * std::numbers::pi;
  const std::complex<double> amplitude = 5.0 / std::complex<double>(9 - w * w, 0.4 * w);
  EXPECT_NEAR(result.trajectory.X(0, 0), amplitude.real(), 0.02 * std::abs(amplitude));
}

// cost on states and controls, end tied to start: the minimum solves one linear system in (x_0 … x_N, u, multipliers)
TEST_P(FreeStartBy, SolvesThePeriodicLinearQuadraticProblem) {
  const Task task = OscillatorTask(GetParam(), "<start free='all'/>",
                                   "<cost name='track' value='q - sin(2*pi*time)' weight='20'/>"
                                   "<cost name='effort' ctrl='push' weight='0.01'/><periodic qpos='all' qvel='all'/>");
  const SolveResult result = SolveFreely(task);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;
  Eigen::Matrix2d A;
  Eigen::Vector2d B;
  LinearStep(task.model.get(), &A, &B);
  const int N = task.N, nz = 2 * (N + 1) + N, nc = 2 * (N + 1);
  MatrixXd K = MatrixXd::Zero(nz + nc, nz + nc);
  VectorXd rhs = VectorXd::Zero(nz + nc);
  for (int t = 0; t < N; ++t) {
    K(2 * t, 2 * t) = 0.02 * 20;
    rhs[2 * t] = 0.02 * 20 * std::sin(2 * std::numbers::pi * t * 0.02);
    K(2 * (N + 1) + t, 2 * (N + 1) + t) = 0.02 * 0.01;
    K.block<2, 2>(nz + 2 * t, 2 * t) = A;
    K.block<2, 2>(nz + 2 * t, 2 * (t + 1)) = -Eigen::Matrix2d::Identity();
    K.block<2, 1>(nz + 2 * t, 2 * (N + 1) + t) = B;
  }
  K.block<2, 2>(nz + 2 * N, 0) = -Eigen::Matrix2d::Identity();
  K.block<2, 2>(nz + 2 * N, 2 * N) = Eigen::Matrix2d::Identity();
  K.topRightCorner(nz, nc) = K.bottomLeftCorner(nc, nz).transpose();
  const VectorXd z = K.fullPivLu().solve(rhs);
  EXPECT_TRUE(MatricesNear(result.trajectory.X.col(0), z.head(2), 1e-5));
  EXPECT_TRUE(MatricesNear(result.trajectory.U, z.segment(2 * (N + 1), N).transpose(), 1e-3));
}

// with controls at their bounds: the conditions of a minimum of the convex problem, by hand, with the multipliers that
// are reported
TEST_P(FreeStartBy, SatisfiesTheConditionsOfABoundedMinimum) {
  std::string bounded = kOscillator;
  const std::string motor = "joint='slide'/>";
  bounded.replace(bounded.find(motor), motor.size(), "joint='slide' ctrlrange='-3 3' ctrllimited='true'/>");
  const Task task = OscillatorTask(
      GetParam(), "<start qpos='0.3' qvel='-1' free='all'/>",
      "<cost name='track' value='q - sin(2*pi*time)' weight='20'/><cost name='effort' ctrl='push' weight='1e-3'/>"
      "<periodic qpos='all' qvel='all'/>",
      bounded);
  const SolveResult result = SolveFreely(task);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;
  Eigen::Matrix2d A;
  Eigen::Vector2d B;
  LinearStep(task.model.get(), &A, &B);
  const int N = task.N;
  const Eigen::Vector2d lambda(result.multipliers[0](0, N), result.multipliers[1](0, N));
  Eigen::Vector2d p = lambda;
  int held = 0;
  for (int t = N - 1; t >= 0; --t) {
    const double u = result.trajectory.U(0, t), slope = 0.02 * 1e-3 * u + B.dot(p);
    if (std::abs(u) < 2.999) {
      EXPECT_NEAR(slope, 0, 1e-4) << t;
    } else {
      EXPECT_LT(slope * u, 1e-6) << t;  // it would go further
      ++held;
    }
    p = (A.transpose() * p).eval();
    p[0] += 0.02 * 20 * (result.trajectory.X(0, t) - std::sin(2 * std::numbers::pi * t * 0.02));
  }
  EXPECT_GT(held, N / 2);
  EXPECT_GT(lambda.norm(), 1);
  EXPECT_NEAR(p[0] - lambda[0], 0, 1e-3);  // of 2.6
  EXPECT_NEAR(p[1] - lambda[1], 0, 1e-3);
}

// without anything that ties the end, the best start is where the value's slope is zero; bounds hold it where they are
TEST_P(FreeStartBy, KeepsEntriesThatAreNotFreeAndBounds) {
  const std::string costs =
      "<cost name='there' qpos='all' target='1' weight='10'/><cost name='slow' qvel='all' weight='1'/><cost "
      "name='effort' ctrl='push' weight='1'/>";
  const SolveResult free =
      SolveFreely(OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='slide'/>", costs));
  ASSERT_EQ(free.status, SolveStatus::kConverged) << free.message;
  const SolveResult speed =
      SolveFreely(OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='qvel'/>", costs));
  EXPECT_EQ(speed.trajectory.X(0, 0), 0.2);
  EXPECT_GT(speed.trajectory.X(1, 0), 0.6);
  EXPECT_LT(free.cost, speed.cost);
  const SolveResult bounded = SolveFreely(
      OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='qvel' lower='0.4' upper='0.6'/>", costs));
  EXPECT_NEAR(bounded.trajectory.X(1, 0), 0.6, 1e-12);
  EXPECT_EQ(bounded.status, SolveStatus::kConverged) << bounded.message;

  // the slope by the start is zero where it is free, by the adjoint
  const Task task = OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='qvel'/>", costs);
  Adjoint adjoint(task.model.get(), task.context, task.substeps);
  RolloutGradient gradient;
  adjoint.Gradient(speed.trajectory.X.col(0), speed.trajectory.U, *task.cost, {}, &gradient);
  EXPECT_LE(std::abs(gradient.x0[1]), 1e-12);
  EXPECT_GT(std::abs(gradient.x0[0]), 1e-2);
}

// ½ |R z - r|² in z = (x_0, u): the whole step of the first iteration is its minimum
TEST_F(FreeStartTest, IlqrSolvesALinearQuadraticProblemInOneIteration) {
  const Task task = OscillatorTask("ilqr", "<start qpos='0.2' qvel='0.5' free='all'/>",
                                   "<cost name='there' qpos='all' target='1' weight='10'/><cost name='slow' qvel='all' "
                                   "weight='1'/><cost name='effort' ctrl='push' weight='1'/>");
  const SolveResult result = SolveFreely(task);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;
  Eigen::Matrix2d A;
  Eigen::Vector2d B;
  LinearStep(task.model.get(), &A, &B);
  const int N = task.N, n = 2 + N;
  MatrixXd R = MatrixXd::Zero(3 * N, n), x = MatrixXd::Zero(2, n);
  VectorXd r = VectorXd::Zero(3 * N);
  x.leftCols(2).setIdentity();
  for (int t = 0; t < N; ++t) {
    R.row(3 * t) = std::sqrt(0.02 * 10) * x.row(0);
    r[3 * t] = std::sqrt(0.02 * 10);
    R.row(3 * t + 1) = std::sqrt(0.02) * x.row(1);
    R(3 * t + 2, 2 + t) = std::sqrt(0.02);
    x = (A * x).eval();
    x.col(2 + t) += B;
  }
  const VectorXd z = R.colPivHouseholderQr().solve(r);
  const double best = 0.5 * (R * z - r).squaredNorm();
  EXPECT_NEAR(result.iterations[0].cost, best, 1e-12 * best);
  EXPECT_NEAR(result.iterations[0].expected_change, result.iterations[0].actual_change, 1e-9 * best);
  EXPECT_LE(result.iterations.size(), 2u);
  EXPECT_TRUE(MatricesNear(result.trajectory.X.col(0), z.head(2), 1e-9));
  EXPECT_TRUE(MatricesNear(result.trajectory.U, z.tail(N).transpose(), 1e-9));
  EXPECT_LE(result.policy.dx0.cwiseAbs().maxCoeff(), 1e-9);  // what would be left of the way
}

// two solvers of different make find the same motions
void ExpectSameByBoth(const Task& by_ilqr, const Task& by_fddp, double start_error) {
  const SolveResult ilqr = SolveFreely(by_ilqr), fddp = SolveFreely(by_fddp);
  EXPECT_EQ(ilqr.status, SolveStatus::kConverged) << ilqr.message;
  EXPECT_EQ(fddp.status, SolveStatus::kConverged) << fddp.message;
  EXPECT_NEAR(ilqr.cost, fddp.cost, 1e-6 * fddp.cost);
  EXPECT_LE(ilqr.violation, by_ilqr.constrained.tolerance);
  const VectorXd apart = Difference(by_ilqr.model.get(), ilqr.trajectory.X.col(0), fddp.trajectory.X.col(0));
  EXPECT_LE(apart.cwiseAbs().maxCoeff(), start_error);
  const VectorXd moved = Difference(by_ilqr.model.get(), ilqr.trajectory.X.col(0), by_ilqr.x0);
  EXPECT_GT(moved.cwiseAbs().maxCoeff(), 0.1);
}

TEST_F(FreeStartTest, BothSolversFindTheSameNonlinearCycle) {
  const auto task = [](const char* solver) {
    return OscillatorTask(solver, "<start free='all'/>",
                          "<cost name='wave' value='q + q^3 - sin(2*pi*time)' weight='20'/><cost name='effort' "
                          "value='u' weight='0.1'/><periodic qpos='all' qvel='all'/>");
  };
  ExpectSameByBoth(task("ilqr"), task("fddp"), 1e-4);
}

// The price of a tie is that of the optimum, whatever penalties there were on the way. Inner solves of multiple
// shooting that ended at their own tolerance, 1e-6, let multipliers swing about it, the wider the larger the penalty
TEST_F(FreeStartTest, BothSolversFindTheSamePrices) {
  const auto solve = [](const char* solver, double tolerance) {
    Task task = OscillatorTask(solver, "<start free='all'/>",
                               "<cost name='wave' value='q + q^3 - sin(2*pi*time)' weight='20'/><cost name='effort' "
                               "value='u' weight='0.1'/><periodic qpos='all' qvel='all'/>");
    task.solver.tolerance = tolerance;
    return SolveFreely(task);
  };
  const SolveResult exact = solve("ilqr", 1e-12), found = solve("fddp", 1e-6);
  ASSERT_EQ(exact.status, SolveStatus::kConverged) << exact.message;
  ASSERT_EQ(found.status, SolveStatus::kConverged) << found.message;
  for (std::size_t i = 0; i < exact.multipliers.size(); ++i) {
    const double price = exact.multipliers[i].rightCols(1).value();
    EXPECT_GT(std::abs(price), 0.01);
    EXPECT_NEAR(found.multipliers[i].rightCols(1).value(), price, 0.01 * std::abs(price)) << i;
  }
}

TEST_F(FreeStartTest, BothSolversMoveTheSameRotation) {
  const TemporaryFolder folder;
  folder.Write("ball.xml",
               "<mujoco model='ball'><option timestep='0.02'/><worldbody><body><joint name='ball' type='ball' "
               "damping='.2'/><geom size='.05 .1 .2' type='box' pos='.1 0 .2' mass='1'/></body></worldbody><actuator>"
               "<motor name='x' joint='ball' gear='1 0 0'/><motor name='y' joint='ball' gear='0 1 0'/>"
               "<motor name='z' joint='ball' gear='0 0 1'/></actuator></mujoco>");
  const auto task = [&](const std::string& solver) {
    return LoadTask(folder.Write(
        "turn.task.xml",
        "<task model='ball.xml' horizon='0.6'><start qpos='0.9 0.1 0.4 0' free='all'/><guess ctrl='0'/><cost "
        "name='there' "
        "qpos='all' target='0.6 0 0.2 0.7' weight='3' terminal='5'/><cost name='slow' qvel='all' weight='0.3'/><cost "
        "name='effort' ctrl='all' weight='0.1'/><solver tolerance='1e-10' type='" +
            solver + "'/></task>"));
  };
  ExpectSameByBoth(task("ilqr"), task("fddp"), 1e-4);
}

// a place in the middle that takes more speed than the start may have
TEST_P(FreeStartBy, KeepsConstraintsFromAStartAtItsBound) {
  const std::string elements =
      "<cost name='effort' ctrl='push' weight='1'/><cost name='slow' qvel='all' weight='0.01'/><constraint name='gate' "
      "qpos='slide' equals='0.8' when='0.5'/><constraint name='wall' qpos='slide' upper='0.85'/>";
  const auto solve = [&](const std::string& start) { return SolveFreely(OscillatorTask(GetParam(), start, elements)); };
  const SolveResult given = solve("<start/>"), free = solve("<start free='qvel'/>"),
                    bounded = solve("<start free='qvel' upper='1.5'/>");
  for (const SolveResult* result : {&given, &free, &bounded}) {
    ASSERT_EQ(result->status, SolveStatus::kConverged) << result->message;
    EXPECT_LE(result->violation, 1e-6);
    EXPECT_EQ(result->trajectory.X(0, 0), 0);
    EXPECT_NEAR(result->trajectory.X(0, 25), 0.8, 1e-6);
  }
  EXPECT_GT(free.trajectory.X(1, 0), 2);
  EXPECT_NEAR(bounded.trajectory.X(1, 0), 1.5, 1e-12);
  EXPECT_LT(free.cost, 0.5 * bounded.cost);
  EXPECT_LT(bounded.cost, 0.8 * given.cost);
}

// what a start may do is bounded from the start on, what it may not from the first knot that controls move
TEST_P(FreeStartBy, IsKeptWithinConstraints) {
  const std::string costs =
      "<cost name='there' qpos='all' target='1' weight='10'/><cost name='slow' qvel='all' weight='1'/><cost "
      "name='effort' ctrl='push' weight='1'/>";
  const auto load = [&](const std::string& start, const std::string& constraint) {
    return OscillatorTask(GetParam(), start, costs + constraint);
  };
  const std::string slow = "<constraint name='speed' qvel='all' upper='0.3'/>";
  const Task task = load("<start qpos='0.2' free='qvel'/>", slow);
  EXPECT_EQ(task.constraints[0].info().first, 0);
  const SolveResult kept = SolveFreely(task), free = SolveFreely(load("<start qpos='0.2' free='qvel'/>", ""));
  EXPECT_GT(free.trajectory.X(1, 0), 0.6);
  EXPECT_EQ(kept.status, SolveStatus::kConverged) << kept.message;
  EXPECT_NEAR(kept.trajectory.X(1, 0), 0.3, 2e-6);
  EXPECT_GT(kept.multipliers[0](0, 0), 0.01);  // it is the start that would be faster

  const SolveResult begun = SolveFreely(
      load("<start qpos='0.2' free='all'/>", "<constraint name='begin' qpos='all' equals='-0.1' when='0'/>"));
  EXPECT_EQ(begun.status, SolveStatus::kConverged) << begun.message;
  EXPECT_NEAR(begun.trajectory.X(0, 0), -0.1, 1e-6);

  const Task given = load("<start qpos='0.2' free='qvel'/>", "<constraint name='side' qpos='all' lower='0.3'/>");
  EXPECT_EQ(given.constraints[0].info().first, 1);
  EXPECT_EQ(given.warnings.size(), 1u);
  EXPECT_ERROR(load("<start qpos='0.2' free='qvel'/>", "<constraint qpos='all' equals='-0.1' when='0'/>"),
               ErrorCode::kParse, "no knot lies in when=\"0\"");
}

// from where a free place is nothing depends: it stays, and the solve ends
TEST_P(FreeStartBy, LeavesAPlaceThatNothingMinds) {
  std::string rail = kOscillator;
  rail.replace(rail.find("stiffness='9'"), 13, "");
  const Task task = OscillatorTask(GetParam(), "<start qpos='0.3' free='all'/>",
                                   "<measure name='v' qvel='slide'/><cost name='wave' value='v + v^3 - cos(2*pi*time)' "
                                   "weight='20'/><cost name='effort' ctrl='push' weight='0.1'/><periodic qvel='all'/>",
                                   rail);
  const SolveResult result = SolveFreely(task);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_NEAR(result.trajectory.X(0, 0), 0.3, 1e-6);
  EXPECT_GT(std::abs(result.trajectory.X(1, 0)), 0.05);
}

// as any task, with rounds of kicked controls after a stall or when they are asked for
TEST_P(FreeStartBy, GoesOnFromKickedControls) {
  Task task = OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='all'/>",
                             "<cost name='there' qpos='all' target='1' weight='10'/><cost name='slow' qvel='all' "
                             "weight='1'/><cost name='effort' ctrl='push' weight='1'/>");
  const SolveResult plain = SolveFreely(task);
  const TaskSolution asked = SolveTask(task);
  EXPECT_EQ(asked.result.cost, plain.cost) << asked.result.message;
  task.hopping.rounds = 2;
  task.hopping.after_solve = false;
  const TaskSolution hopped = SolveTask(task);
  EXPECT_GE(hopped.rounds.size(), 3u);
  EXPECT_NEAR(hopped.result.cost, plain.cost, 1e-9 * plain.cost);
  EXPECT_TRUE(MatricesNear(hopped.result.trajectory.X.col(0), plain.trajectory.X.col(0), 1e-12));
}

// a kick is about the best motion's controls, and these belong to its start
TEST_P(FreeStartBy, KicksBeginAtTheBestStart) {
  Task task = OscillatorTask(GetParam(), "<start qpos='2' qvel='-3' free='all'/>",
                             "<cost name='wave' value='q + q^3 - sin(2*pi*time)' weight='20'/><cost name='effort' "
                             "value='u' weight='0.1'/>");
  task.hopping = {.rounds = 1, .iterations = 1, .size = 1e-9, .after_solve = false};
  const TaskSolution hopped = SolveTask(task);
  ASSERT_GE(hopped.rounds.size(), 2u);
  EXPECT_LE(hopped.rounds[1].cost, (1 + 1e-3) * hopped.rounds[0].cost);
}

// each stage from the start that the one before has found: without contacts all stages are the same problem
TEST_P(FreeStartBy, GoesOnFromStageToStage) {
  const auto task = [&](const std::string& smooth) {
    return OscillatorTask(GetParam(), "<start qpos='0.2' qvel='0.5' free='all'/>",
                          "<cost name='there' qpos='all' target='1' weight='10'/><cost name='slow' qvel='all' "
                          "weight='1'/><cost name='effort' ctrl='push' weight='1'/>" +
                              smooth);
  };
  const SolveResult plain = SolveFreely(task(""));
  const TaskSolution led = SolveTask(task("<smooth strategy='softness:0.1' stages='2'/>"));
  ASSERT_EQ(led.stages.size(), 4u);
  for (int k : {2, 3}) EXPECT_LE(led.stages[static_cast<std::size_t>(k)].iterations, 1);
  for (const ContinuationStage& stage : led.stages) EXPECT_NEAR(stage.true_cost, plain.cost, 1e-9 * plain.cost);
  EXPECT_TRUE(MatricesNear(led.result.trajectory.X.col(0), plain.trajectory.X.col(0), 1e-6));
}

constexpr char kTurning[] =
    "<mujoco model='turning'><worldbody><body><freejoint name='root'/><geom size='0.1' mass='1'/><body pos='0 0 "
    "0.2'><joint name='ball' type='ball'/>"
    "<geom size='0.05 0.1' type='capsule' pos='0.1 0 0'/></body></body></worldbody></mujoco>";

TEST_F(FreeStartTest, PeriodicConstraintHasTheSlopesOfItsDifferences) {
  const ModelPtr model = LoadModelFromString(kTurning);
  const mjModel* m = model.get();
  const Dims dims(m);
  srand(5);
  const VectorXd zero = GetState(m, MakeData(m).get());
  const VectorXd end = Retract(m, zero, 0.6 * VectorXd::Random(dims.ndx)),
                 start = Retract(m, zero, 0.6 * VectorXd::Random(dims.ndx));
  std::vector<int> entries;
  ConstraintInfo info{.name = "cycle", .unit = {}, .components = {}, .lower = {}, .upper = {}};
  for (int i = 1; i < dims.ndx; ++i) {  // one is left out
    entries.push_back(i);
    info.components.push_back(TangentNames(m)[static_cast<std::size_t>(i)]);
  }
  info.lower = info.upper = VectorXd::Zero(dims.ndx - 1);
  const PeriodicConstraint constraint(m, info, entries);
  const VectorXd none;
  const auto value = [&](const VectorXd& x, const VectorXd& x0) {
    VectorXd c;
    constraint.Value({.t = 5, .N = 5, .time = 0, .dt = 0.1, .x = x, .u = none, .s = none, .start = x0.data()}, &c);
    return c;
  };
  MatrixXd J, Ju, J0;
  const KnotView knot{.t = 5, .N = 5, .time = 0, .dt = 0.1, .x = end, .u = none, .s = none, .start = start.data()};
  constraint.Jacobian(knot, MatrixXd(), MatrixXd(), &J, &Ju);
  constraint.StartJacobian(knot, &J0);
  const double h = 1e-6;
  MatrixXd by_end(dims.ndx - 1, dims.ndx), by_start(dims.ndx - 1, dims.ndx);
  for (int i = 0; i < dims.ndx; ++i) {
    const VectorXd d = h * VectorXd::Unit(dims.ndx, i);
    by_end.col(i) = (value(Retract(m, end, d), start) - value(Retract(m, end, -d), start)) / (2 * h);
    by_start.col(i) = (value(end, Retract(m, start, d)) - value(end, Retract(m, start, -d))) / (2 * h);
  }
  EXPECT_TRUE(MatricesNear(J, by_end, 1e-8));
  EXPECT_TRUE(MatricesNear(J0, by_start, 1e-8));
}

TEST_F(FreeStartTest, RefusesWhatCannotMove) {
  const TemporaryFolder folder;
  folder.Write("oscillator.xml", kOscillator);
  const auto load = [&](const std::string& start, const std::string& solver) {
    return LoadTask(folder.Write("cycle.task.xml", "<task model='oscillator.xml' horizon='1'>\n" + start +
                                                       "<guess ctrl='0'/><cost ctrl='all'/>" + solver + "</task>"));
  };
  const std::string fddp = "<solver type='fddp'/>";
  EXPECT_ERROR(load("<start free='slid'/>", fddp), ErrorCode::kParse, "no 'slid'", "qpos[slide] and qvel[slide]");
  EXPECT_ERROR(load("<start lower='1'/>", fddp), ErrorCode::kParse, "lower bounds what free");
  EXPECT_ERROR(load("<start qvel='2' free='qvel' upper='1.5'/>", fddp), ErrorCode::kParse,
               "upper is 1.5 for qvel[slide], the start has 2");
  EXPECT_ERROR(load("<start free='all' lower='-1 -1 -1'/>", fddp), ErrorCode::kParse,
               "lower has 3 numbers, free names 2 entries");
  EXPECT_ERROR(load("<start free='all'/><periodic qpos='all' soft='3'/>", fddp), ErrorCode::kUnsupported,
               "soft is not supported");
  const Task task = load("<start free='all'/>", "");
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    const auto solve = [&](const FreeStart& start) {
      Problem problem = task.ToProblem();
      problem.free_start = start;
      Solve(problem, {{}, task.U_guess}, {.type = type, .iterations = 0});
    };
    const VectorXd one = VectorXd::Ones(1);
    EXPECT_ERROR(solve({{1}, -one, VectorXd()}), ErrorCode::kDimensionMismatch, "1 entries, 1 lower and 0 upper");
    EXPECT_ERROR(solve({{2}, -one, one}), ErrorCode::kInvalidArgument, "names entry 2 of 2");
    EXPECT_ERROR(solve({{1}, one, 2 * one}), ErrorCode::kInvalidArgument, "leave out x0: qvel[slide]");
    EXPECT_ERROR(solve({{1}, -one, one, one}), ErrorCode::kDimensionMismatch,
                 "the guess of the free start has 1 entry");
  }
}

}  // namespace
}  // namespace costate
