// Gradients of rollouts against closed forms, the dense recursion and differences of the loss; memory, batches.
#include <costate/adjoint.h>
#include <costate/curvature.h>
#include <costate/tangent.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "derivative/delayed.h"
#include "rollout/models.h"
#include "rollout/simulated_knots.h"
#include "rollout/square_loss.h"
#include "support/engine_test.h"

namespace costate {
namespace {

const std::string kModels = COSTATE_MODELS;

class TerminalX final : public Loss {
 public:
  explicit TerminalX(double target) : target_(target) {}
  double Value(const KnotView& k) const override { return k.t == k.N ? 0.5 * std::pow(k.x[0] - target_, 2) : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x[0] = k.x[0] - target_;
  }
  bool NeedsSensors() const override { return false; }

 private:
  double target_;
};

struct Motion {
  ModelPtr model;
  VectorXd context, x0;
  MatrixXd U;

  Motion(const std::string& file, const char* key, int N, double amplitude) : model(LoadModel(file)) {
    Start(key ? MakeDataAtKey(model.get(), key) : MakeData(model.get()), N, amplitude);
  }
  Motion(ModelPtr loaded, int N, double amplitude) : model(std::move(loaded)) {
    Start(MakeData(model.get()), N, amplitude);
  }

  void Start(const DataPtr& data, int N, double amplitude) {
    context = GetContext(model.get(), data.get());
    x0 = GetState(model.get(), data.get());
    U = ControlsAbout(model.get(), data.get(), N, amplitude);
  }
  double LossOf(const Loss& loss, int substeps, ConstVectorRef start, ConstMatrixRef controls) const {
    Simulator simulator(model.get(), context, substeps, 1);
    Trajectory trajectory;
    EXPECT_TRUE(simulator.Rollout(start, controls, &trajectory).ok());
    double sum = 0;
    for (int t = 0; t <= trajectory.N(); t++) sum += loss.Value(ViewKnot(trajectory, t, simulator.knot_time()));
    return sum;
  }
};

TEST(Adjoint, ProjectileIsThatOfItsClosedForm) {
  // loss ½ (x_T − 6)², start velocity (2.5, 1): x_T = 7.5, loss 1.125, gradient (4.5, 0); ∂x_T/∂u_t = dt² (N − t)
  constexpr int kSteps = 300;
  Motion m(kModels + "/projectile/projectile.xml", "throw", kSteps, 0);
  m.U.setZero();
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  adjoint.Gradient(m.x0, m.U, TerminalX(6), {}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_NEAR(g.loss, 1.125, 1e-11);
  EXPECT_NEAR(g.x0[0], 1.5, 1e-11);
  EXPECT_NEAR(g.x0[2], 4.5, 1e-10);
  EXPECT_NEAR(g.x0[3], 0, 1e-10);
  for (int t : {0, 100, 299}) EXPECT_NEAR(g.U(0, t), 1.5 * 1e-4 * (kSteps - t), 1e-10) << t;
  EXPECT_NEAR(g.U.row(1).cwiseAbs().maxCoeff(), 0, 1e-10);
  EXPECT_EQ(g.coverage.Worst(), Level::kAnalytic);
  EXPECT_EQ(g.health.verdict, GradientHealth::Verdict::kHealthy) << g.health.text;
}

// λ_t = Aᵀλ + lx + Cᵀls with matrices
void ExpectDenseRecursion(const Motion& m, const Loss& loss, int substeps) {
  Simulator simulator(m.model.get(), m.context, substeps, 1);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(m.x0, m.U, &trajectory).ok());
  std::vector<StepDerivative> steps;
  simulator.Linearize(trajectory, {.sensors = loss.NeedsSensors()}, &steps);
  const int N = trajectory.N(), ndx = simulator.dims().ndx;
  MatrixXd dU(m.model->nu, N);
  VectorXd lambda;
  for (int t = N; t >= 0; t--) {
    KnotGradient slope{VectorXd::Zero(ndx), VectorXd::Zero(t < N ? m.model->nu : 0),
                       VectorXd::Zero(loss.NeedsSensors() ? m.model->nsensordata : 0)};
    loss.Gradient(ViewKnot(trajectory, t, simulator.knot_time()), &slope);
    const StepDerivative& d = steps[static_cast<std::size_t>(t)];
    VectorXd next = slope.x;
    if (loss.NeedsSensors()) next += d.C.transpose() * slope.s;
    if (t < N) {
      next += d.A.transpose() * lambda;
      dU.col(t) = d.B.transpose() * lambda + slope.u;
      if (loss.NeedsSensors()) dU.col(t) += d.D.transpose() * slope.s;
    }
    lambda = next;
  }
  Adjoint adjoint(m.model.get(), m.context, substeps);
  RolloutGradient g;
  adjoint.Gradient(m.x0, m.U, loss, {}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_NEAR(g.loss, m.LossOf(loss, substeps, m.x0, m.U), 1e-12 * std::abs(g.loss));
  EXPECT_EQ(g.xN, trajectory.X.col(N));
  EXPECT_LT((g.U - dU).cwiseAbs().maxCoeff(), 1e-9 * dU.cwiseAbs().maxCoeff());
  EXPECT_LT((g.x0 - lambda).cwiseAbs().maxCoeff(), 1e-9 * lambda.cwiseAbs().maxCoeff());
}

TEST(Adjoint, AgreesWithTheDenseRecursionInContact) {
  const Motion m(kModels + "/quadruped/quadruped.xml", "stand", 12, 0.02);
  ExpectDenseRecursion(m, SquareLoss(m.model.get(), 0), 2);
  ExpectDenseRecursion(m, SquareLoss(m.model.get(), 0.3), 2);
}

TEST(Adjoint, AgreesWithTheDenseRecursionWithActivations) {
  const Motion m(kModels + "/quadrotor/quadrotor.xml", "hover", 20, 0.1);
  ExpectDenseRecursion(m, SquareLoss(m.model.get(), 0.3), 1);
}

TEST(Adjoint, AgreesWithDifferencesOfTheLoss) {
  const Motion m(kModels + "/arm/arm.xml", nullptr, 40, 2);
  const SquareLoss loss(m.model.get(), 0.5);
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  adjoint.Gradient(m.x0, m.U, loss, {}, &g);
  ASSERT_TRUE(g.status.ok());
  const double h = 1e-5;
  for (int t : {0, 17, 39}) {
    for (int i : {0, 3, 6}) {
      MatrixXd plus = m.U, minus = m.U;
      plus(i, t) += h;
      minus(i, t) -= h;
      const double difference = (m.LossOf(loss, 1, m.x0, plus) - m.LossOf(loss, 1, m.x0, minus)) / (2 * h);
      EXPECT_NEAR(g.U(i, t), difference, 1e-6 * g.U.cwiseAbs().maxCoeff()) << i << " at " << t;
    }
  }
  for (int i = 0; i < g.x0.size(); i++) {
    const VectorXd dx = h * VectorXd::Unit(g.x0.size(), i);
    const double difference = (m.LossOf(loss, 1, Retract(m.model.get(), m.x0, dx), m.U) -
                               m.LossOf(loss, 1, Retract(m.model.get(), m.x0, -dx), m.U)) /
                              (2 * h);
    EXPECT_NEAR(g.x0[i], difference, 1e-6 * g.x0.cwiseAbs().maxCoeff()) << i;
  }
}

// how far the end is from the start, which every knot knows
class WayFromStart final : public Loss {
 public:
  double Value(const KnotView& k) const override { return k.t == k.N ? 0.5 * std::pow(k.x[0] - k.start[0], 2) : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x[0] = k.x[0] - k.start[0];
  }
  bool NeedsSensors() const override { return false; }
};

TEST(Adjoint, KnotsKnowTheStartOfTheirMotion) {
  const Motion m(kModels + "/arm/arm.xml", nullptr, 20, 2);
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  adjoint.Gradient(m.x0, m.U, WayFromStart(), {}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_EQ(g.loss, m.LossOf(WayFromStart(), 1, m.x0, m.U));
  EXPECT_GT(g.loss, 0);
  EXPECT_GT(g.U.cwiseAbs().maxCoeff(), 0);
}

TEST(Adjoint, AppliedForcesAreInputsToo) {
  // a force held over all intervals: the sum of the gradients of each
  Motion m(kModels + "/quadruped/quadruped.xml", "stand", 10, 0.02);
  const SquareLoss loss(m.model.get(), 0);
  RolloutGradient g;
  Adjoint(m.model.get(), m.context, 2).Gradient(m.x0, m.U, loss, {.forces = true}, &g);
  ASSERT_TRUE(g.status.ok());
  const DataPtr data = MakeDataAtKey(m.model.get(), "stand");
  const double h = 1e-4;
  for (int dof : {2, 4, 8}) {
    double side[2];
    for (int s = 0; s < 2; s++) {
      data->qfrc_applied[dof] = s ? -h : h;
      m.context = GetContext(m.model.get(), data.get());
      side[s] = m.LossOf(loss, 2, m.x0, m.U);
      data->qfrc_applied[dof] = 0;
    }
    const double sum = g.qfrc.row(dof).sum();
    EXPECT_NEAR(sum, (side[0] - side[1]) / (2 * h), 1e-5 * g.qfrc.rowwise().sum().cwiseAbs().maxCoeff()) << dof;
  }
}

// a trunk that drops on its feet; sensors of forces and accelerations
const char kSensingWalker[] = R"(<mujoco><option integrator="implicitfast"/>
  <worldbody><geom type="plane" size="2 2 0.1"/>
    <body name="trunk" pos="0 0 0.205"><freejoint/><geom type="box" size="0.3 0.2 0.1" pos="0 0 0.05"/>
      <geom size="0.05" pos="0.25 0.15 -0.15"/><geom size="0.05" pos="-0.25 0.15 -0.15"/><geom size="0.05" pos="0 -0.2 -0.15"/>
      <site name="imu" pos="0.1 0.05 0.1" euler="30 20 10"/><site name="pad" type="box" size="0.4 0.3 0.1" pos="0 0 -0.15"/>
      <body name="arm" pos="0.3 0 0.1"><joint name="shoulder" axis="0 1 0" damping="0.5"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0.05"/><site name="wrist" pos="0.15 0 0.02" euler="0 0 40"/></body>
    </body></worldbody>
  <actuator><position joint="shoulder" kp="20" timeconst="0.05"/></actuator>
  <sensor><accelerometer site="imu"/><force site="wrist"/><torque site="wrist"/><touch site="pad"/><framepos objtype="site" objname="wrist"/></sensor>
</mujoco>)";

TEST(Adjoint, ForcesAndSensorsInOneSweepAgreeWithDifferencesOfTheLoss) {
  Motion m{LoadModelFromString(kSensingWalker), 30, 0.2};
  m.model->opt.tolerance = 0;  // differences of the loss are of converged steps
  for (int substeps : {1, 2}) {
    SCOPED_TRACE(substeps);
    const SquareLoss loss(m.model.get(), 2e-3);
    RolloutGradient g;
    Adjoint(m.model.get(), m.context, substeps).Gradient(m.x0, m.U, loss, {.forces = true}, &g);
    ASSERT_TRUE(g.status.ok());
    EXPECT_EQ(g.coverage.Worst(), Level::kAnalytic);
    ASSERT_EQ(g.qfrc.cols(), 31);
    const double h = 1e-5;
    const auto slope = [&](const std::function<void(double, Motion*)>& move) {
      double side[2];
      for (int s = 0; s < 2; s++) {
        Motion moved{LoadModelFromString(kSensingWalker), 30, 0.2};
        moved.model->opt.tolerance = 0;
        move(s ? -h : h, &moved);
        side[s] = moved.LossOf(loss, substeps, moved.x0, moved.U);
      }
      return (side[0] - side[1]) / (2 * h);
    };
    for (int t : {0, 15, 29}) {
      EXPECT_NEAR(g.U(0, t), slope([&](double e, Motion* n) { n->U(0, t) += e; }), 1e-6 * g.U.cwiseAbs().maxCoeff())
          << t;
    }
    const VectorXd qfrc = g.qfrc.rowwise().sum(), xfrc = g.xfrc.rowwise().sum();
    const auto apply = [&](double e, int q, int x, Motion* n) {
      const DataPtr data = MakeData(n->model.get());
      if (q >= 0) data->qfrc_applied[q] = e;
      if (x >= 0) data->xfrc_applied[x] = e;
      n->context = GetContext(n->model.get(), data.get());
    };
    for (int i = 0; i < m.model->nv; i++) {
      EXPECT_NEAR(qfrc[i], slope([&](double e, Motion* n) { apply(e, i, -1, n); }), 1e-6 * qfrc.cwiseAbs().maxCoeff())
          << i;
    }
    for (int i = 6; i < 6 * m.model->nbody; i++) {
      EXPECT_NEAR(xfrc[i], slope([&](double e, Motion* n) { apply(e, -1, i, n); }), 1e-6 * xfrc.cwiseAbs().maxCoeff())
          << i;
    }
  }
}

TEST(Adjoint, MemoryChangesNothingButTheWork) {
  const int N = 57;
  const Motion m(kModels + "/hopper/hopper.xml", "stand", N, 0.05);
  const SquareLoss loss(m.model.get(), 0.1);
  Adjoint adjoint(m.model.get(), m.context, 2);
  RolloutGradient all, few;
  adjoint.Gradient(m.x0, m.U, loss, {}, &all);
  ASSERT_TRUE(all.status.ok());
  EXPECT_EQ(all.recomputed, 0);
  const std::size_t one = all.kept_bytes / N;
  for (int kept : {1, 2, 3, 8, 56}) {
    adjoint.Gradient(m.x0, m.U, loss, {.memory = kept * one}, &few);
    EXPECT_EQ(few.loss, all.loss) << kept;
    EXPECT_EQ(few.U, all.U) << kept;
    EXPECT_EQ(few.x0, all.x0) << kept;
    EXPECT_LE(few.kept_bytes, kept * one);
    EXPECT_EQ(few.recomputed, SimulatedKnots(N, kept) - (N - 1)) << kept;
  }
}

TEST(Adjoint, BatchesDoNotDependOnThreads) {
  // other workers, in another order, after other motions, kept or checkpointed: the same bits
  const Motion m(kModels + "/hopper/hopper.xml", "stand", 30, 0.05);
  const SquareLoss loss(m.model.get(), 0.1);
  constexpr int kThreads[] = {1, 2, 5};
  std::vector<RolloutGradient> results[3];
  for (int k = 0; k < 3; k++) {
    Adjoint adjoint(m.model.get(), m.context, 1, kThreads[k]);
    ASSERT_EQ(adjoint.threads(), kThreads[k]);
    results[k].resize(12);
    adjoint.ParallelFor(12, [&](int i, int worker) {
      const AdjointOptions options = {.memory = i % 3 == 0 ? 2000u : 0u};
      adjoint.Gradient(m.x0, (1 + 0.1 * i) * m.U, loss, options, &results[k][static_cast<std::size_t>(i)], worker);
    });
  }
  for (std::size_t i = 0; i < 12; i++) {
    const RolloutGradient& one = results[0][i];
    ASSERT_TRUE(one.status.ok()) << i;
    EXPECT_NE(one.loss, results[0][(i + 1) % 12].loss);
    for (int k : {1, 2}) {
      const RolloutGradient& many = results[k][i];
      EXPECT_EQ(one.loss, many.loss) << i;
      EXPECT_EQ(one.U, many.U) << i;
      EXPECT_EQ(one.x0, many.x0) << i;
      EXPECT_EQ(one.health.costate, many.health.costate) << i;
      EXPECT_EQ(one.health.switches, many.health.switches) << i;
    }
  }
}

TEST(Adjoint, NamesWhatIsWrong) {
  Motion m(kModels + "/arm/arm.xml", nullptr, 5, 0);
  const SquareLoss loss(m.model.get(), 0);
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  EXPECT_THROW(adjoint.Gradient(m.x0.head(3), m.U, loss, {}, &g), Error);
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U.topRows(2), loss, {}, &g), Error);
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U.leftCols(0), loss, {}, &g), Error);
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U, loss, {.window = -1}, &g), Error);
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U, loss, {}, &g, 7), Error);
  m.U(0, 2) = NAN;
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U, loss, {}, &g), Error);
}

// ½ x·x whose slope is spoiled at a knot
class SpoiltLoss final : public Loss {
 public:
  explicit SpoiltLoss(std::function<void(int, KnotGradient*)> spoil) : spoil_(std::move(spoil)) {}
  double Value(const KnotView& k) const override { return 0.5 * k.x.squaredNorm(); }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x = k.x;
    spoil_(k.t, out);
  }
  bool NeedsSensors() const override { return false; }

 private:
  std::function<void(int, KnotGradient*)> spoil_;
};

// by a control it went into the gradient as a NaN, by a state it was told as one of the costate
TEST(Adjoint, SlopesOfALossThatAreNoNumbersAreNamed) {
  Motion m(kModels + "/arm/arm.xml", nullptr, 5, 0);
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  const auto gradient = [&](const std::function<void(int, KnotGradient*)>& spoil) {
    adjoint.Gradient(m.x0, m.U, SpoiltLoss(spoil), {}, &g);
  };
  EXPECT_ERROR(gradient([](int t, KnotGradient* out) { out->x[1] = t == 5 ? NAN : 0; }), ErrorCode::kInvalidArgument,
               "the loss's slope by qpos[", "at knot 5 is nan");
  EXPECT_ERROR(gradient([](int t, KnotGradient* out) {
                 if (t == 3) out->u[0] = -INFINITY;
               }),
               ErrorCode::kInvalidArgument, "the loss's slope by ctrl[", "at knot 3 is -inf");
  EXPECT_ERROR(gradient([](int t, KnotGradient* out) {
                 if (t == 2) out->u.resize(1);
               }),
               ErrorCode::kDimensionMismatch, "by u at knot 2 has 1 entries");
}

const char kLate[] = R"(<mujoco><option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body pos="0 0 0.3"><joint name="a" axis="0 1 0" damping="0.1"/><geom name="link" type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
      <body name="fore" pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 -0.28"/></body></body>
  </worldbody>
  <actuator>
    <motor name="now" joint="a" gear="2"/>
    <motor name="hold" joint="b" gear="3" delay="0.005" nsample="5" interp="zoh"/>
    <motor name="exact" joint="b" gear="1" delay="0.004" nsample="4" interp="linear" ctrlrange="-1 1"/>
    <motor name="curve" joint="a" gear="2" delay="0.007" nsample="7" interp="cubic"/>
    <general name="line" joint="a" dyntype="filter" dynprm="0.02" gainprm="4" biastype="affine" biasprm="0 -2 -0.1" delay="0.005"
      nsample="6" interp="linear"/>
  </actuator>
  <sensor><jointvel joint="b" delay="0.004" nsample="4"/><framelinacc objtype="body" objname="fore"/></sensor></mujoco>)";

// the late sensor is left out
class LateLoss final : public Loss {
 public:
  double Value(const KnotView& k) const override {
    return 0.5 * k.x.squaredNorm() + 1e-3 * k.s.tail(3).squaredNorm() + (k.t < k.N ? 0.05 * k.u.squaredNorm() : 0);
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x = k.x;
    out->s.tail(3) = 2e-3 * k.s.tail(3);
    if (k.t < k.N) out->u = 0.1 * k.u;
  }
  bool NeedsSensors() const override { return true; }
};

void ExpectFollowsControls(const std::string& text, int substeps) {
  SCOPED_TRACE(substeps);
  constexpr int kSteps = 20;
  const Motion m{LoadModelFromString(text), kSteps, 0.6};
  const LateLoss loss;
  RolloutGradient g, few;
  Adjoint adjoint(m.model.get(), m.context, substeps);
  adjoint.Gradient(m.x0, m.U, loss, {}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_EQ(g.coverage.Worst(), Level::kAnalytic);
  const double h = 1e-5;
  for (int t = 0; t < kSteps; t++) {
    for (int i = 0; i < m.model->nu; i++) {
      MatrixXd plus = m.U, minus = m.U;
      plus(i, t) += h;
      minus(i, t) -= h;
      const double difference =
          (m.LossOf(loss, substeps, m.x0, plus) - m.LossOf(loss, substeps, m.x0, minus)) / (2 * h);
      EXPECT_NEAR(g.U(i, t), difference, 1e-7 * g.U.cwiseAbs().maxCoeff()) << i << " at " << t;
    }
  }
  adjoint.Gradient(m.x0, m.U, loss, {.memory = 3000}, &few);
  EXPECT_EQ(few.U, g.U);
  EXPECT_GT(few.recomputed, 0);
  EXPECT_THROW(adjoint.Gradient(m.x0, m.U, SquareLoss(m.model.get(), 1), {}, &few), Error);
}

TEST(Adjoint, FollowsDelayedControls) {
  for (int substeps : {1, 2, 3}) ExpectFollowsControls(kLate, substeps);
}

TEST(Adjoint, FollowsDelayedControlsOfActuatorsWithSeveral) {
  std::string text = kLate;
  text.replace(text.find("implicitfast"), 12, "Euler");
  text.insert(text.find("</actuator>"),
              "<pid joint='b' kp='3' kv='0.2' input='pos vel' delay='0.005' nsample='6' interp='cubic'/>");
  for (int substeps : {1, 2}) ExpectFollowsControls(text, substeps);
}

// the matrix of an implicit integrator has what comes from the history, too
TEST(Adjoint, FollowsDelayedControlsIntoAnImplicitMatrix) {
  std::string text = kLate;
  text.insert(text.find("</actuator>"),
              "<general joint='a' gaintype='affine' gainprm='0.5 0 -0.3' delay='0.006' nsample='6' interp='linear'/>");
  for (int substeps : {1, 2}) ExpectFollowsControls(text, substeps);
}

// behind a noslip pass, where products go through the matrices, sensors at the last knot still see what was late
TEST(Adjoint, FollowsDelayedControlsToTheLastSensors) {
  std::string text = kLate;
  text.insert(text.find("integrator"), "noslip_iterations='2' ");
  text.replace(text.find("<framelinacc objtype=\"body\" objname=\"fore\"/>"), 44,
               "<actuatorfrc actuator='hold'/><actuatorfrc actuator='curve'/><actuatorfrc actuator='line'/>");
  ExpectFollowsControls(text, 1);
}

TEST(Adjoint, DelaysThemselvesAreParameters) {
  const ModelPtr model = LoadModelFromString(kLate);
  ParameterSet set(model.get(),
                   {"actuator:line/delay", "actuator:curve/delay", "body:fore/mass", "actuator:line/gainprm[0]"});
  Motion m{LoadModelFromString(kLate), 20, 0.6};
  const LateLoss loss;
  RolloutGradient g;
  Adjoint(set.model(), m.context, 2).Gradient(m.x0, m.U, loss, {.parameters = &set}, &g);
  ASSERT_TRUE(g.status.ok());
  const VectorXd values = set.Get();
  for (int k = 0; k < set.size(); k++) {
    const double h = 1e-5 * values[k];
    double side[2];
    for (int s = 0; s < 2; s++) {
      set.Set(values + (s ? -h : h) * VectorXd::Unit(set.size(), k));
      Simulator simulator(set.model(), m.context, 2, 1);
      Trajectory trajectory;
      ASSERT_TRUE(simulator.Rollout(m.x0, m.U, &trajectory).ok());
      side[s] = 0;
      for (int t = 0; t <= trajectory.N(); t++) side[s] += loss.Value(ViewKnot(trajectory, t, simulator.knot_time()));
    }
    set.Set(values);
    const double difference = (side[0] - side[1]) / (2 * h);
    EXPECT_GT(std::abs(difference), 1e-6) << set[k].name;
    EXPECT_NEAR(g.theta[k], difference, 1e-5 * std::abs(difference)) << set[k].name;
  }
}

// a sensor of our own plugin that keeps its value for a while: it shows earlier states
TEST(Adjoint, RefusesLossesOfSensorsWithAStateOfTheirOwn) {
  const auto model = [](const std::string& config) {
    return LoadModelFromString(
        R"(<mujoco><extension><plugin plugin="costate.linearization"/></extension><worldbody><body>
      <joint name="j" axis="0 1 0"/><geom size=".05" pos="0 0 -.3"/></body></worldbody><actuator><motor joint="j"/></actuator>
      <sensor><plugin name="shown" plugin="costate.linearization"><config key="output" value="A.vq"/>)" +
        config + "</plugin></sensor></mujoco>");
  };
  RolloutGradient g;
  for (const double weight : {0.0, 1.0}) {
    Motion kept(model("<config key=\"period\" value=\"0.01\"/>"), 8, 0.3), fresh(model(""), 8, 0.3);
    Adjoint adjoint(kept.model.get(), kept.context), plain(fresh.model.get(), fresh.context);
    plain.Gradient(fresh.x0, fresh.U, SquareLoss(fresh.model.get(), weight), {}, &g);
    const SquareLoss loss(kept.model.get(), weight);
    if (weight == 0) {
      adjoint.Gradient(kept.x0, kept.U, loss, {}, &g);
    } else {
      EXPECT_ERROR(adjoint.Gradient(kept.x0, kept.U, loss, {}, &g), ErrorCode::kUnsupported, "sensor shown");
      Trajectory trajectory;
      Simulator(kept.model.get(), kept.context, 1, 1).Rollout(kept.x0, kept.U, &trajectory);
      Curvature curvature(kept.model.get(), kept.context);
      EXPECT_ERROR(curvature.SetPoint(trajectory, loss), ErrorCode::kUnsupported, "the loss reads sensor shown");
      Tangent tangent(kept.model.get(), kept.context);
      RolloutTangent out;
      EXPECT_ERROR(tangent.Push(trajectory, {}, {.sensors = true}, &out), ErrorCode::kUnsupported, "sensor shown");
      tangent.Push(trajectory, {}, {}, &out);
    }
  }
}

// a law whose own slopes are none: told by which and where, whatever they are by
TEST(Adjoint, ASlopeOfALawThatIsNoNumberIsTold) {
  struct Spring final : Feedback {
    int weights() const override { return 2; }
    bool NeedsSensors() const override { return true; }
    void Control(const FeedbackInput& in, VectorRef u) const override { u[0] = 0.5 * in.x[0]; }
    void PullBack(const FeedbackInput& in, ConstVectorRef g_u, FeedbackGradient* out) const override {
      out->x[0] += 0.5 * g_u[0];
      if (in.t == 3) (part == 0 ? out->x[1] : part == 1 ? out->s[0] : out->w[1]) = NAN;
    }
    int part = 3;
  };
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><body><joint name="hinge" axis="0 1 0"/><geom size=".05" pos="0 0 -.3"/></body></worldbody>
    <actuator><motor joint="hinge"/></actuator><sensor><jointpos name="angle" joint="hinge"/></sensor></mujoco>)");
  const VectorXd x0 = Eigen::Vector2d(0.4, 0), context = GetContext(model.get(), MakeData(model.get()).get());
  Adjoint adjoint(model.get(), context);
  RolloutGradient g;
  Spring law;
  Trajectory motion;
  ASSERT_TRUE(Simulator(model.get(), context, 1, 1).RolloutFeedback(x0, 5, law, &motion).ok());
  const char* parts[] = {"qvel[hinge]", "sensor[angle]", "its weight 1"};
  for (law.part = 0; law.part < 3; law.part++) {
    EXPECT_ERROR(adjoint.Gradient(x0, motion.U, KnownSlopes(MatrixXd::Ones(2, 6), {}, {}), {.feedback = &law}, &g),
                 ErrorCode::kInvalidArgument, "the feedback's slope by", parts[law.part], "at knot 3 is nan");
  }
}

// no control is on its way where there is none; a sensor that is late is read by nobody
TEST(Adjoint, DelayedSensorsAloneDelayNoControl) {
  Motion m(LoadModelFromString(
               R"(<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".05" pos="0 0 -.3"/></body>
    </worldbody><sensor><jointpos joint="j" nsample="3" delay="0.004"/></sensor></mujoco>)"),
           8, 0);
  m.x0[0] = 0.4;
  const SquareLoss loss(m.model.get(), 0);
  Adjoint adjoint(m.model.get(), m.context);
  RolloutGradient g;
  adjoint.Gradient(m.x0, m.U, loss, {}, &g);
  for (int i = 0; i < 2; i++) {
    constexpr double kStep = 1e-5;
    VectorXd side[2] = {m.x0, m.x0};
    side[0][i] += kStep;
    side[1][i] -= kStep;
    EXPECT_NEAR(g.x0[i], (m.LossOf(loss, 1, side[0], m.U) - m.LossOf(loss, 1, side[1], m.U)) / (2 * kStep), 1e-8);
  }
}

// near a floor that nothing pushes at, without warm start: the engine writes no states of rows then
TEST(Adjoint, SwitchesAreThoseOfTheMotion) {
  Motion m(LoadModelFromString(R"(<mujoco><option timestep="0.004"><flag warmstart="disable"/></option><worldbody>
    <geom type="plane" size="1 1 .1" condim="6"/><body pos="0 0 .0995"><freejoint/><geom size=".1"/></body>
    <body pos="1 0 .103"><freejoint/><geom size=".1"/></body><body pos="2 0 .106"><freejoint/><geom size=".1"/></body></worldbody></mujoco>)"),
           8, 0);
  const SquareLoss loss(m.model.get(), 0);
  Adjoint adjoint(m.model.get(), m.context);
  std::vector<int> first;
  for (int k = 0; k < 4; k++) {
    RolloutGradient g;
    adjoint.Gradient(m.x0, m.U, loss, {.memory = k == 3 ? std::size_t{1} << 12 : std::size_t{0}}, &g);
    if (k == 0) first = g.health.switches;
    EXPECT_EQ(g.health.switches, first) << k;
  }
}

// plastic deformation: what goes from step to step beside x would be missing in the gradient
TEST(Adjoint, RefusesModelsThatHandOnMoreThanTheirState) {
  int refused = 0;
  for (const NamedModel& named : RolloutModels()) {
    const ModelPtr model = LoadModelFromString(named.xml);
    const DataPtr data = MakeData(model.get());
    try {
      Adjoint adjoint(model.get(), GetContext(model.get(), data.get()));
      EXPECT_EQ(model->nplastic, 0) << named.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      EXPECT_TRUE(model->nplastic > 0 || !DelayMissing(model.get()).empty()) << named.name;
      refused++;
    }
  }
  EXPECT_GE(refused, 1);
}

// what a rod hands on is no plasticity
TEST(Adjoint, RefusesRodsByTheNameOfTheirFrames) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete"/><worldbody>
    <flexcomp name="rod" type="grid" count="4 1 1" spacing=".08 .08 .08" dim="1"><elasticity young="3e5" damping=".001"/>
    </flexcomp></worldbody></mujoco>)");
  try {
    Adjoint adjoint(model.get(), GetContext(model.get(), MakeData(model.get()).get()));
    FAIL() << "its frames have no derivative";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("reference frames of rods"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace costate
