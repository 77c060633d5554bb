// What models/ and its tasks promise: closed forms where there are any, goals reached, costs reduced, everything
// finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <costate/costate.h>

namespace costate {
namespace {

const std::string kModels = COSTATE_MODELS;

// a task file solved once, by iLQR, or with all the rounds that `costate optimize` makes
enum class Rounds { kNone, kAll };
struct Solved {
  Task task;
  SolveResult result;

  explicit Solved(const std::string& file, Rounds rounds = Rounds::kNone) : task(LoadTask(kModels + "/" + file)) {
    EXPECT_TRUE(task.warnings.empty()) << task.warnings[0];
    result = rounds == Rounds::kAll ? SolveTask(task).result : SolveIlqr(task.ToProblem(), task.U_guess, task.solver);
    EXPECT_TRUE(result.trajectory.X.allFinite());
    EXPECT_TRUE(result.trajectory.U.allFinite());
    for (int t = 0; t < task.N; ++t) {
      EXPECT_TRUE((result.trajectory.U.col(t).array() >= task.u_lower.array()).all()) << "knot " << t;
      EXPECT_TRUE((result.trajectory.U.col(t).array() <= task.u_upper.array()).all()) << "knot " << t;
    }
  }
  const mjModel* model() const { return task.model.get(); }
  VectorXd EndState() const { return result.trajectory.X.col(task.N); }

  // data at the last state, kinematics up to date
  DataPtr EndData() const {
    DataPtr data = MakeData(model());
    SetState(model(), data.get(), EndState());
    mj_forward(model(), data.get());
    return data;
  }
};

// ---- projectile: everything by hand ---------------------------------------------------------------------------------

class Projectile : public testing::Test {
 protected:
  static constexpr int kSteps = 300;
  static constexpr double kDt = 0.01, kGravity = 9.81, kTarget = 6;
  ModelPtr model_ = LoadModel(kModels + "/projectile/projectile.xml");
  DataPtr data_ = MakeDataAtKey(model_.get(), "throw");
  Simulator simulator_{model_.get(), GetContext(model_.get(), data_.get()), 1, 1};
  VectorXd x0_ = GetState(model_.get(), data_.get());  // x, z, vx, vz
  Trajectory trajectory_;

  double Landing(const VectorXd& x0) {
    EXPECT_TRUE(simulator_.Rollout(x0, MatrixXd::Zero(2, kSteps), &trajectory_).ok());
    return trajectory_.X(0, kSteps);
  }
  static double Loss(double x) { return 0.5 * (x - kTarget) * (x - kTarget); }

  // lambda_t = Aᵀ lambda_{t+1}, from lambda_T = (x_T - 6, 0, 0, 0)
  VectorXd Gradient(const VectorXd& x0) {
    VectorXd lambda = VectorXd::Unit(4, 0) * (Landing(x0) - kTarget);
    std::vector<StepDerivative> steps;
    simulator_.Linearize(trajectory_, {.sensors = false}, &steps);
    for (int t = kSteps - 1; t >= 0; --t) lambda = (steps[static_cast<std::size_t>(t)].A.transpose() * lambda).eval();
    return lambda;
  }
};

TEST_F(Projectile, FliesAsSymplecticEulerDoesByHand) {
  // x_T = vx T;  z_T = vz T - g dt² N (N + 1) / 2;  the rest is rounding of 300 additions
  Landing(x0_);
  EXPECT_NEAR(trajectory_.X(0, kSteps), 7.5, 1e-12);
  EXPECT_NEAR(trajectory_.X(1, kSteps), 3.0 - kGravity * kDt * kDt * kSteps * (kSteps + 1) / 2, 1e-10);
  EXPECT_NEAR(trajectory_.X(3, kSteps), 1.0 - kGravity * kDt * kSteps, 1e-11);
  EXPECT_NEAR(Loss(trajectory_.X(0, kSteps)), 1.125, 1e-11);
}

TEST_F(Projectile, GradientIsThatOfTheClosedFormAndOfCentredDifferences) {
  // dloss/dv0 = ((x_T - 6) T, 0); differences of the linear x_T in a quadratic loss have no truncation error
  const VectorXd gradient = Gradient(x0_);
  EXPECT_NEAR(gradient[2], 4.5, 1e-8);
  EXPECT_NEAR(gradient[3], 0, 1e-8);
  for (int i : {2, 3}) {
    const VectorXd nudge = 1e-6 * VectorXd::Unit(4, i);
    const double difference = (Loss(Landing(x0_ + nudge)) - Loss(Landing(x0_ - nudge))) / 2e-6;
    EXPECT_NEAR(gradient[i], difference, 1e-7) << "start velocity " << i;
  }
}

TEST_F(Projectile, DescentContractsTheErrorByThePredictedFactor) {
  // vx ← vx - 0.05 (x_T - 6) T:  x_T - 6 shrinks by 1 - 0.05 T² = 0.55 a step; vx → 2
  VectorXd x0 = x0_;
  double error = Landing(x0) - kTarget;
  for (int step = 0; step < 25; ++step) {
    x0.tail(2) -= 0.05 * Gradient(x0).tail(2);
    const double next = Landing(x0) - kTarget;
    if (step < 10) {
      EXPECT_NEAR(next / error, 0.55, 1e-6) << "step " << step;
    }
    error = next;
  }
  EXPECT_NEAR(x0[2], 2.0, 1e-6);
  EXPECT_NEAR(x0[3], 1.0, 1e-6);
}

TEST_F(Projectile, TaskIsSolvedInOneIterationToItsClosedForm) {
  // linear dynamics, quadratic cost: one Riccati sweep is exact. With c_t = dt² (N - t) the effect of u_t on x_T,
  // minimizing ½ e² + ½ w dt Σ u² gives e = 1.5 / (1 + Σ c² / (w dt)) and u_t = -c_t e / (w dt). The solver
  // notices that and takes its first step without regularization.
  const Solved solved("projectile/land.xml");
  EXPECT_EQ(solved.result.status, SolveStatus::kConverged);
  ASSERT_FALSE(solved.result.iterations.empty());
  const double weight = 0.1;
  double sum = 0;
  for (int t = 0; t < kSteps; ++t) sum += std::pow(kDt * kDt * (kSteps - t), 2);
  const double miss = 1.5 / (1 + sum / (weight * kDt));
  const double optimum = 0.5 * 1.5 * miss;
  EXPECT_NEAR(solved.result.iterations[0].cost, optimum, 1e-6 * 1.125);
  EXPECT_NEAR(solved.EndState()[0] - kTarget, miss, 1e-5);
  EXPECT_NEAR(solved.result.trajectory.U(0, 0), -kDt * kDt * kSteps * miss / (weight * kDt), 1e-4);
  EXPECT_NEAR(solved.result.trajectory.U.row(1).cwiseAbs().maxCoeff(), 0, 1e-8);
}

// ---- swing-ups ------------------------------------------------------------------------------------------------------

// at the end nothing is asked but the goal, weighted far above the effort: it must be met to within rounding on a
// picture

TEST(ReferenceTask, PendulumSwingsUp) {
  const Solved solved("pendulum/swing_up.xml");
  EXPECT_NEAR(solved.EndState()[0], M_PI, 0.01);
  EXPECT_NEAR(solved.EndState()[1], 0, 0.05);
}

TEST(ReferenceTask, CartPoleSwingsUpAndStopsInTheMiddle) {
  const Solved solved("cartpole/swing_up.xml");
  EXPECT_NEAR(solved.EndState()[0], 0, 0.01);
  EXPECT_NEAR(solved.EndState()[1], 0, 0.01);
  EXPECT_LT(solved.EndState().tail(2).cwiseAbs().maxCoeff(), 0.05);
}

TEST(ReferenceTask, AcrobotSwingsUpWithItsElbowAlone) {
  const Solved solved("acrobot/swing_up.xml");
  EXPECT_NEAR(solved.EndState()[0], M_PI, 0.02);
  EXPECT_NEAR(solved.EndState()[1], 0, 0.02);
  EXPECT_LT(solved.EndState().tail(2).cwiseAbs().maxCoeff(), 0.1);
}

// ---- goals in space -------------------------------------------------------------------------------------------------

double Distance(const mjModel* model, const mjData* data, const char* site1, const char* site2) {
  return mju_dist3(data->site_xpos + 3 * mj_name2id(model, mjOBJ_SITE, site1),
                   data->site_xpos + 3 * mj_name2id(model, mjOBJ_SITE, site2));
}

TEST(ReferenceTask, ArmReachesItsTargetWithinAMillimetre) {
  const Solved solved("arm/reach.xml");
  EXPECT_LT(Distance(solved.model(), solved.EndData().get(), "tip", "goal"), 0.001);
  EXPECT_LT(solved.EndState().tail(7).cwiseAbs().maxCoeff(), 0.1);
}

TEST(ReferenceTask, QuadrotorArrivesAndHovers) {
  const Solved solved("quadrotor/fly.xml");
  EXPECT_LT(Distance(solved.model(), solved.EndData().get(), "centre", "goal"), 0.01);
  EXPECT_LT(solved.EndState().segment(7, 6).cwiseAbs().maxCoeff(), 0.05);
}

// the parts of the drone and of the gate do not collide: that it fits through is the motion's own doing
TEST(ReferenceTask, QuadrotorBanksThroughTheGateInTheWind) {
  const Solved solved("gate/through.xml");
  const mjModel* m = solved.model();
  EXPECT_LT(Distance(m, solved.EndData().get(), "centre", "goal"), 0.01);
  const DataPtr data = MakeData(m);
  const int drone = mj_name2id(m, mjOBJ_BODY, "drone"), gate = mj_name2id(m, mjOBJ_BODY, "gate");
  double clearance = 1;
  for (int t = 0; t <= solved.task.N; ++t) {
    SetState(m, data.get(), solved.result.trajectory.X.col(t));
    mj_kinematics(m, data.get());
    for (int a = 0; a < m->ngeom; ++a) {
      for (int b = 0; b < m->ngeom && m->geom_bodyid[a] == drone; ++b) {
        if (m->geom_bodyid[b] == gate)
          clearance = std::min(clearance, mj_geomDistance(m, data.get(), a, b, 1, nullptr));
      }
    }
  }
  EXPECT_GT(clearance, 0.01);
}

TEST(ReferenceTask, ArmPullsTheDoorOpen) {
  const Solved solved("door/open.xml");
  EXPECT_NEAR(solved.EndState()[0], M_PI / 3, 0.02);
  EXPECT_LT(solved.EndState().tail(4).cwiseAbs().maxCoeff(), 0.05);
}

TEST(ReferenceTask, PaddleSendsTheBallThroughTheRing) {
  // all of the control's effect on the ball passes through one bounce
  const Solved solved("bouncing_ball/volley.xml");
  EXPECT_LT(Distance(solved.model(), solved.EndData().get(), "ball", "goal"), 0.01);
}

TEST(ReferenceTask, FingerDeliversTheBox) {
  const Solved solved("box_push/push.xml");
  const VectorXd x = solved.EndState();
  EXPECT_LT(std::hypot(x[0] - 0.3, x[1] - 0.1), 0.01);
  EXPECT_NEAR(x[2], M_PI / 4, 0.05);
}

// ---- legs: nobody knows the optimum; the cost falls, and the feature that makes the motion is there -----------------

TEST(ReferenceTask, HopperLeavesTheFloorAndLandsNearTheMark) {
  const Solved solved("hopper/hop.xml");
  EXPECT_LT(solved.result.cost, 0.25 * solved.result.initial_cost);
  const double start = solved.task.x0[0];
  EXPECT_NEAR(solved.EndState()[0] - start, 0.6, 0.1);
}

TEST(ReferenceTask, HopperFindsACycle) {
  // solves of the cost end near standing still, about 0.22; a cycle is in the air and comes back to where it began, but
  // for x
  const Task task = LoadTask(kModels + "/hopper/cycle.xml");
  const SolveResult result = SolveTask(task).result;
  const MatrixXd& X = result.trajectory.X;
  EXPECT_LT(result.cost, 0.15) << result.message;
  EXPECT_LT((X.col(task.N) - X.col(0)).tail(X.rows() - 1).lpNorm<Eigen::Infinity>(), 1e-6);
  EXPECT_NEAR(X(0, task.N) - X(0, 0), 0.4, 0.1);
  DataPtr data = MakeData(task.model.get());
  SetState(task.model.get(), data.get(), X.col(task.N / 2));
  mj_forward(task.model.get(), data.get());
  EXPECT_EQ(data->ncon, 0) << "halfway it flies";
}

TEST(ReferenceTask, QuadrupedStandsUp) {
  const Solved solved("quadruped/stand_up.xml");
  EXPECT_LT(solved.result.cost, 0.6 * solved.result.initial_cost);
  EXPECT_NEAR(solved.EndState()[2], 0.286, 0.01);
}

TEST(ReferenceTask, QuadrupedJumps) {
  // standing the trunk is at 0.286 m, and with straight legs its feet hang 0.448 m below it
  const Solved solved("quadruped/jump.xml");
  EXPECT_LT(solved.result.cost, 0.25 * solved.result.initial_cost);
  EXPECT_GT(solved.result.trajectory.X.row(2).maxCoeff(), 0.42);
}

// heights of the four feet's centres along the motion: rows FL, FR, RL, RR
MatrixXd FootHeights(const mjModel* m, const MatrixXd& X) {
  DataPtr data = MakeData(m);
  MatrixXd heights(4, X.cols());
  for (int t = 0; t < X.cols(); ++t) {
    SetState(m, data.get(), X.col(t));
    mj_kinematics(m, data.get());
    const char* feet[] = {"FL", "FR", "RL", "RR"};
    for (int i = 0; i < 4; ++i) heights(i, t) = data->site_xpos[3 * mj_name2id(m, mjOBJ_SITE, feet[i]) + 2];
  }
  return heights;
}

double Correlation(const VectorXd& x, const VectorXd& y) {
  const VectorXd a = x.array() - x.mean(), b = y.array() - y.mean();
  return a.dot(b) / (a.norm() * b.norm());
}

// From standing, no contact prescribed: 0.25 m/s for two seconds, every foot lifted.
TEST(ReferenceTask, QuadrupedWalks) {
  const Solved solved("quadruped/walk.xml", Rounds::kAll);
  EXPECT_NEAR(solved.EndState()[0], 0.5, 0.05);
  EXPECT_GT(solved.result.trajectory.X.row(2).minCoeff(), 0.24);
  EXPECT_GT(FootHeights(solved.model(), solved.result.trajectory.X).rowwise().maxCoeff().minCoeff(), 0.022 + 0.03);
}

// Likewise 0.5 m/s; diagonal feet together, the others in turn.
TEST(ReferenceTask, QuadrupedTrots) {
  const Solved solved("quadruped/trot.xml", Rounds::kAll);
  EXPECT_NEAR(solved.EndState()[0], 1, 0.1);
  EXPECT_GT(solved.result.trajectory.X.row(2).minCoeff(), 0.24);
  const MatrixXd heights = FootHeights(solved.model(), solved.result.trajectory.X);
  EXPECT_GT(heights.rowwise().maxCoeff().minCoeff(), 0.022 + 0.04);
  EXPECT_GT(Correlation(heights.row(0), heights.row(3)), 0.5);
  EXPECT_GT(Correlation(heights.row(1), heights.row(2)), 0.5);
  EXPECT_LT(Correlation(heights.row(0), heights.row(1)), 0);
  EXPECT_LT(Correlation(heights.row(2), heights.row(3)), 0);
}

TEST(ReferenceTask, HumanoidStandsUp) {
  const Solved solved("humanoid/stand_up.xml");
  EXPECT_LT(solved.result.cost, 0.6 * solved.result.initial_cost);
  EXPECT_NEAR(solved.EndState()[2], 0.942, 0.03);
}

TEST(ReferenceTask, HumanoidReachesDownWithoutFalling) {
  const Solved solved("humanoid/reach.xml");
  EXPECT_LT(solved.result.cost, 0.4 * solved.result.initial_cost);
  EXPECT_LT(Distance(solved.model(), solved.EndData().get(), "right_hand", "ball"), 0.1);
  EXPECT_GT(solved.EndState()[2], 0.5);
}

// by way of a smooth onset the ball lands in the bin, on the true model
TEST(ReferenceTask, TossReachesTheBinBySmoothing) {
  Task task = LoadTask(kModels + "/toss/bin.xml");
  ContinuationOptions options = task.continuation;
  EXPECT_GT(options.smooth.onset, 0);
  options.stage_iterations = 20;
  options.budget = 120;
  const ContinuationResult found = SolveContinuation(task.ToProblem(), task.U_guess, task.solver, options);
  const VectorXd end = found.result.trajectory.X.col(task.N);
  EXPECT_NEAR(-0.45 + end[1], 1, 0.07) << found.message;
  EXPECT_LT(0.4449 + end[2], 0.15);
}

TEST(ReferenceTask, QuadrupedJumpsOnToTheStep) {
  const Solved solved("step/jump_up.xml");
  const VectorXd end = solved.EndState(), feet = FootHeights(solved.model(), end);
  EXPECT_NEAR(end[2], 0.3861, 0.05);
  EXPECT_GT(feet.minCoeff(), 0.11);  // of 22 mm radius, on a step of 100 mm, none beside it
  EXPECT_LT(feet.maxCoeff(), 0.15);
}

// lying straight is a saddle: bends to either side carry it as far
TEST(ReferenceTask, EelSwims) {
  const Solved solved("eel/swim.xml");
  EXPECT_LT(solved.result.cost, 0.012);
  EXPECT_LT(Distance(solved.model(), solved.EndData().get(), "nose", "goal"), 0.005);
}

// from fingers that go down and close: when to lift, and how hard to press, is found along the contacts of soft pads
TEST(ReferenceTask, SoftGripperLiftsABall) {
  Task task = LoadTask(kModels + "/gripper/lift.xml");
  MatrixXd guess = MatrixXd::Zero(3, task.N);
  guess.row(0).setConstant(-0.08);
  guess.bottomRightCorner(2, task.N - 12).setConstant(0.05);
  task.solver.iterations = 15;
  const SolveResult found = SolveIlqr(task.ToProblem(), guess, task.solver);
  const DataPtr data = MakeData(task.model.get());
  SetState(task.model.get(), data.get(), found.trajectory.X.col(task.N));
  mj_forward(task.model.get(), data.get());
  EXPECT_LT(found.cost, 0.3 * found.initial_cost);
  EXPECT_LT(Distance(task.model.get(), data.get(), "ball", "goal"), 0.03);
}

// ---- models ---------------------------------------------------------------------------------------------------------

std::vector<std::string> ModelFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.is_directory() && entry.path().filename() != "reference") files.push_back(entry.path().filename());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ModelFile : public testing::TestWithParam<std::string> {
 protected:
  const std::string folder_ = kModels + "/" + GetParam() + "/";
};

TEST_P(ModelFile, CompilesWithoutWarningsWithRangesCamerasAndATask) {
  std::vector<std::string> warnings;
  const ModelPtr model = LoadModel(folder_ + GetParam() + ".xml", &warnings);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  EXPECT_GT(model->ncam, 0);
  EXPECT_GT(model->nkey, 0);
  for (int i = 0; i < model->nu; ++i)
    EXPECT_TRUE(model->actuator_ctrllimited[i]) << ElementName(model.get(), mjOBJ_ACTUATOR, i);

  int tasks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".xml" || entry.path().filename() == GetParam() + ".xml") continue;
    const Task task = LoadTask(entry.path());
    EXPECT_TRUE(task.warnings.empty()) << task.warnings[0];
    ++tasks;
  }
  EXPECT_GE(tasks, 1);
}

TEST_P(ModelFile, StartsEveryKeyframeInItsRangesWithoutDeepContact) {
  const ModelPtr model = LoadModel(folder_ + GetParam() + ".xml");
  for (int k = 0; k < model->nkey; ++k) {
    const std::string key = ElementName(model.get(), mjOBJ_KEY, k);
    const DataPtr data = MakeDataAtKey(model.get(), key);
    mj_forward(model.get(), data.get());
    for (int c = 0; c < data->ncon; ++c) EXPECT_GT(data->contact[c].dist, -0.003) << key;
    for (int i = 0; i < model->nu; ++i) {
      EXPECT_GE(data->ctrl[i], model->actuator_ctrlrange[2 * i]) << key;
      EXPECT_LE(data->ctrl[i], model->actuator_ctrlrange[2 * i + 1]) << key;
    }
    for (int j = 0; j < model->njnt; ++j) {
      if (!model->jnt_limited[j]) continue;
      EXPECT_GE(data->qpos[model->jnt_qposadr[j]], model->jnt_range[2 * j]) << key;
      EXPECT_LE(data->qpos[model->jnt_qposadr[j]], model->jnt_range[2 * j + 1]) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelFile, testing::ValuesIn(ModelFiles()), [](const auto& info) { return info.param; });

// legs: the keyframes are equilibria, held by their own ctrl for ten seconds
class StandingModel : public testing::TestWithParam<const char*> {};

TEST_P(StandingModel, StandsStillInEveryKeyframe) {
  const ModelPtr model = LoadModel(kModels + "/" + GetParam() + "/" + GetParam() + ".xml");
  for (int k = 0; k < model->nkey; ++k) {
    const std::string key = ElementName(model.get(), mjOBJ_KEY, k);
    const DataPtr data = MakeDataAtKey(model.get(), key);
    const VectorXd x0 = GetState(model.get(), data.get());
    while (data->time < 10) mj_step(model.get(), data.get());
    const VectorXd dx = Difference(model.get(), GetState(model.get(), data.get()), x0);
    EXPECT_LT(dx.head(model->nv).cwiseAbs().maxCoeff(), 0.01) << key;
    EXPECT_LT(dx.tail(model->nv).cwiseAbs().maxCoeff(), 0.005) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Legs, StandingModel, testing::Values("hopper", "quadruped", "humanoid"),
                         [](const auto& info) { return info.param; });

// Derivatives of sensors that a cost or a constraint does not mark are not computed: it must not read them.
TEST_P(ModelFile, TasksReadNoSensorThatTheyDoNotMark) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".xml" || entry.path().filename() == GetParam() + ".xml") continue;
    const Task task = LoadTask(entry.path());
    const mjModel* m = task.model.get();
    const int ns = static_cast<int>(m->nsensordata);
    const VectorXd x = task.ToProblem().x0, s = VectorXd::Constant(ns, 0.3);
    const MatrixXd C = MatrixXd::Random(ns, 2 * m->nv + m->na);
    const auto marked = [ns](const auto& reader, MatrixXd J) {
      std::vector<char> read(static_cast<std::size_t>(ns), 0);
      reader.MarkSensors(&read);
      for (int i = 0; i < ns; i++) {
        if (!read[static_cast<std::size_t>(i)]) J.row(i).setConstant(NAN);
      }
      return J;
    };
    for (const int t : {0, task.N / 2, task.N}) {
      const VectorXd u = VectorXd::Constant(t < task.N ? m->nu : 0, 0.1);
      const MatrixXd D = MatrixXd::Random(ns, u.size());
      const KnotView knot{.t = t, .N = task.N, .time = 0.01 * t, .dt = 0.01, .x = x, .u = u, .s = s};
      CostExpansion all, some;
      task.cost->Expand(knot, C, D, &all);
      task.cost->Expand(knot, marked(*task.cost, C), marked(*task.cost, D), &some);
      EXPECT_EQ(some.lx, all.lx) << entry.path() << " knot " << t;
      EXPECT_EQ(some.lxx, all.lxx) << entry.path() << " knot " << t;
      EXPECT_EQ(some.luu, all.luu) << entry.path() << " knot " << t;
      for (int i = 0; i < task.constraints.size(); i++) {
        const Constraint& constraint = task.constraints[i];
        if (!constraint.IsAt(t, task.N) || constraint.ReadsStart()) continue;
        MatrixXd J, Ju, J_some, Ju_some;
        constraint.Jacobian(knot, C, D, &J, &Ju);
        constraint.Jacobian(knot, marked(constraint, C), marked(constraint, D), &J_some, &Ju_some);
        EXPECT_EQ(J_some, J) << entry.path() << " " << constraint.info().name;
        EXPECT_EQ(Ju_some, Ju) << entry.path() << " " << constraint.info().name;
      }
    }
  }
}

}  // namespace
}  // namespace costate
