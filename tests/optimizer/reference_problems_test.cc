// Problems whose optimum is known from elsewhere: models/reference/, tolerances as stated there.
#include <gtest/gtest.h>
#include <Eigen/Cholesky>

#include <cmath>
#include <string>

#include <costate/costate.h>

namespace costate {
namespace {

const std::string kReference = std::string(COSTATE_MODELS) + "/reference/";

struct ReferenceRun {
  Task task;
  SolveResult result;
};

ReferenceRun SolveReference(const std::string& file) {
  ReferenceRun run{LoadTask(kReference + file), {}};
  EXPECT_TRUE(run.task.warnings.empty()) << run.task.warnings[0];
  run.result = Solve(run.task.ToProblem(), run.task.ToGuess(), run.task.solver);

  // whatever is said about cost is about a motion
  Simulator simulator(run.task.model.get(), run.task.context, run.task.substeps, 1);
  Trajectory motion;
  EXPECT_TRUE(simulator.Rollout(run.task.x0, run.result.trajectory.U, &motion).ok());
  EXPECT_EQ(motion.X, run.result.trajectory.X);
  EXPECT_EQ(TotalCost(*run.task.cost, motion, simulator.knot_time()), run.result.cost);
  return run;
}

// first iteration whose iterate is a motion within `share` of the optimum, or a large number
int IterationsTo(const SolveResult& result, double optimum, double share) {
  for (const IterationRecord& record : result.iterations) {
    if (record.gap == 0 && record.cost <= optimum + share * std::abs(optimum)) return record.iteration;
  }
  return 1000000;
}

// optima by an interior-point solver on the transcribed problem; what lies below one by more than its last digit would
// be another problem
TEST(ReferenceProblem, PendulumReachesTheOptimumWithin30Iterations) {
  const ReferenceRun run = SolveReference("pendulum/swing_up.xml");
  EXPECT_LE(IterationsTo(run.result, 0.018404605, 1e-4), 30);
  EXPECT_NEAR(run.result.cost, 0.018404605, 1e-4 * 0.018404605);
  EXPECT_EQ(run.result.status, SolveStatus::kConverged) << run.result.message;
  EXPECT_LE(run.result.trajectory.U.cwiseAbs().maxCoeff(), 3);
}

TEST(ReferenceProblem, CartPoleReachesTheOptimumWithin30Iterations) {
  const ReferenceRun run = SolveReference("cartpole/swing_up.xml");
  EXPECT_LE(IterationsTo(run.result, 1.484706230, 1e-4), 30);
  EXPECT_NEAR(run.result.cost, 1.484706230, 1e-4 * 1.484706230);
  EXPECT_EQ(run.result.status, SolveStatus::kConverged) << run.result.message;
  EXPECT_LE(run.result.trajectory.U.cwiseAbs().maxCoeff(), 3);
}

// the goal as an equality: optima by the same interior-point solver
struct RestProblem {
  const char* file;
  double optimum;
};

TEST(ReferenceProblem, SwingUpsEndAtRestWhereThatIsAConstraint) {
  for (const RestProblem& p :
       {RestProblem{"pendulum/swing_up_to_rest.xml", 0.018404627}, {"cartpole/swing_up_to_rest.xml", 1.486186733}}) {
    const Task task = LoadTask(kReference + p.file);
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
    EXPECT_EQ(result.status, SolveStatus::kConverged) << p.file << ": " << result.message;
    EXPECT_NEAR(result.cost, p.optimum, 1e-4 * p.optimum) << p.file;
    EXPECT_LE(result.violation, 1e-6) << p.file;
    EXPECT_LE(result.iterations.size(), 30u) << p.file;
    EXPECT_LE(result.trajectory.U.cwiseAbs().maxCoeff(), 3) << p.file;

    // of the motion itself
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, result.trajectory.U, &motion).ok());
    EXPECT_EQ(TotalCost(*task.cost, motion, simulator.knot_time()), result.cost) << p.file;
    const VectorXd goal = GetState(task.model.get(), MakeDataAtKey(task.model.get(), "upright").get());
    EXPECT_LE(Difference(task.model.get(), goal, motion.X.col(task.N)).cwiseAbs().maxCoeff(), 1e-6) << p.file;
  }
}

// multipliers and barrier that go on from solve to solve do not hang on the threads
TEST(ReferenceProblem, SwingUpToRestIsTheSameBitForBitAtAnyThreadCount) {
  Task task = LoadTask(kReference + "pendulum/swing_up_to_rest.xml");
  task.solver.threads = 1;
  const SolveResult one = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  task.solver.threads = 3;
  const SolveResult three = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  EXPECT_EQ(one.trajectory.U, three.trajectory.U);
  EXPECT_EQ(one.iterations.size(), three.iterations.size());
  ASSERT_EQ(one.multipliers.size(), 2u);
  EXPECT_EQ(one.multipliers[0], three.multipliers[0]);
}

// another solver's optimum on its own model of the arm, from the torques that hold the start, in 23 iterations
TEST(ReferenceProblem, ArmReachesItsPoseInNoMoreIterationsThanAnotherSolver) {
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    Task task = LoadTask(kReference + "kinova/reach.xml");
    task.solver.type = type;
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_LE(IterationsTo(result, 3.698422749, 1e-4), 23) << ToString(type);
    EXPECT_LE(result.iterations.size(), 23u) << ToString(type);
    EXPECT_NEAR(result.cost, 3.698422749, 1e-4 * 3.698422749) << ToString(type) << ": " << result.message;
  }
}

// from the controls alone both solvers find the same optima, later
TEST(ReferenceProblem, OptimaAreFoundFromControlsAloneToo) {
  for (const auto& [file, optimum] :
       {std::pair{"pendulum/swing_up.xml", 0.018404605}, std::pair{"cartpole/swing_up.xml", 1.484706230}}) {
    Task task = LoadTask(kReference + file);
    task.X_guess.resize(0, 0);
    task.U_guess.setConstant(0.01);
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_NEAR(result.cost, optimum, 1e-4 * optimum) << file << ": " << result.message;
  }
}

// the cost is quadratic in U: its minimum by linear algebra from rollouts
TEST(ReferenceProblem, ChainHasItsOptimumAfterOneIterationOfEitherSolver) {
  Task task = LoadTask(kReference + "chain/rest.xml");
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  const Eigen::Index nu = task.U_guess.rows(), n = nu * task.N, nx = task.x0.size();
  const auto states = [&](const VectorXd& x0, const MatrixXd& U) -> VectorXd {
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(x0, U, &motion).ok());
    return Eigen::Map<VectorXd>(motion.X.data(), motion.X.size());
  };
  const VectorXd free = states(task.x0, MatrixXd::Zero(nu, task.N));
  MatrixXd G(free.size(), n);
  for (Eigen::Index i = 0; i < n; ++i) {
    MatrixXd U = MatrixXd::Zero(nu, task.N);
    U(i) = 1;
    G.col(i) = states(VectorXd::Zero(nx), U);
  }
  VectorXd q(free.size());
  for (int t = 0; t <= task.N; ++t) {
    q.segment(t * nx, 4).setConstant(t < task.N ? 0.02 * 1 : 50);
    q.segment(t * nx + 4, 4).setConstant(t < task.N ? 0.02 * 0.1 : 5);
  }
  const MatrixXd H = G.transpose() * q.asDiagonal() * G + 0.02 * 0.02 * MatrixXd::Identity(n, n);
  const VectorXd U = -H.llt().solve(G.transpose() * q.asDiagonal() * free), X = free + G * U;
  const double optimum = 0.5 * X.dot(q.asDiagonal() * X) + 0.5 * 0.02 * 0.02 * U.squaredNorm();
  for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
    task.solver.type = type;
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver);
    EXPECT_EQ(result.status, SolveStatus::kConverged);
    ASSERT_EQ(result.iterations.size(), 1u) << ToString(type);
    EXPECT_NEAR(result.cost, optimum, 1e-9 * optimum) << ToString(type);
  }
}

// the optimum of the kinematic unicycle, which this one is but for a mass of 1e-9
TEST(ReferenceProblem, UnicycleParksAsTheKinematicOneDoes) {
  const ReferenceRun run = SolveReference("unicycle/park.xml");
  EXPECT_LE(IterationsTo(run.result, 249.560897930822, 1e-6), 10);
  EXPECT_NEAR(run.result.cost, 249.560897930822, 1e-6 * 249.56);
}

// another solver's 0.0205875 on the same sum
TEST(ReferenceProblem, DoublePendulumIsBetterThanStated) {
  const ReferenceRun run = SolveReference("double_pendulum/swing_up.xml");
  EXPECT_LE(IterationsTo(run.result, 0.0205875, 0), 30);
  EXPECT_LT(run.result.cost, 0.0205875);
}

}  // namespace
}  // namespace costate
