// The simulator: rollouts are the engine's own, restartable at every knot, and do not depend on the thread count.
#include <costate/rollout.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/extremes.h"
#include "rollout/models.h"

namespace costate {
namespace {

using Rollout = support::EngineTest;
using RolloutPolicy = support::EngineTest;
using ParallelFor = support::EngineTest;
using SimulatorOptions = support::EngineTest;

// bounds that bind nothing
VectorXd NoBound(const Dims& dims, double sign) { return VectorXd::Constant(dims.nu, sign * kInf); }

// The first claim of the module: what comes out is mj_step, bit for bit.
TEST_F(Rollout, IsTheEnginesOwnSimulationBitForBit) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const MatrixXd U = WavyControls(model.get(), 40);
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 2, 1);
    Trajectory trajectory;
    ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), U, &trajectory).ok());

    DataPtr data(mj_copyData(nullptr, model.get(), start.get()));
    for (int t = 0; t < trajectory.N(); ++t) {
      ASSERT_TRUE(BitwiseEqual(trajectory.X.col(t), GetState(model.get(), data.get()))) << "knot " << t;
      ASSERT_EQ(trajectory.time[t], data->time);
      Eigen::Map<VectorXd>(data->ctrl, model->nu) = U.col(t);
      mj_step(model.get(), data.get());
      const VectorXd sensors = Eigen::Map<VectorXd>(data->sensordata, model->nsensordata);
      ASSERT_TRUE(BitwiseEqual(trajectory.S.col(t), sensors)) << "knot " << t;
      mj_step(model.get(), data.get());
    }
    ASSERT_TRUE(BitwiseEqual(trajectory.X.col(40), GetState(model.get(), data.get())));
  }
}

// given controls as a law
struct Played final : Feedback {
  MatrixXd U;
  explicit Played(const MatrixXd& controls) : U(controls) {}
  int weights() const override { return 0; }
  void Control(const FeedbackInput& in, VectorRef u) const override { u = U.col(in.t); }
  void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}
};

// as a host pushes: by xfrc_applied, set anew before each control interval
TEST_F(Rollout, PushesAsTheEngineDoes) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const VectorXd x0 = GetState(model.get(), start.get());
    const MatrixXd U = WavyControls(model.get(), 20), xfrc = 0.1 * MatrixXd::Random(6 * model->nbody, 20);
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 2, 1);
    Trajectory pushed, free;
    ASSERT_TRUE(simulator.RolloutPushed(x0, U, xfrc, &pushed).ok());
    ASSERT_TRUE(simulator.Rollout(x0, U, &free).ok());

    DataPtr data(mj_copyData(nullptr, model.get(), start.get()));
    for (int t = 0; t < 20; ++t) {
      Eigen::Map<VectorXd>(data->ctrl, model->nu) = U.col(t);
      Eigen::Map<VectorXd>(data->xfrc_applied, xfrc.rows()) = xfrc.col(t);
      for (int k = 0; k < 2; ++k) mj_step(model.get(), data.get());
    }
    EXPECT_TRUE(BitwiseEqual(pushed.X.col(20), GetState(model.get(), data.get())));
    EXPECT_FALSE(BitwiseEqual(pushed.X.col(20), free.X.col(20)));

    // and under a law
    Trajectory led;
    ASSERT_TRUE(simulator.RolloutFeedback(x0, 20, Played(U), &led, 0, xfrc).ok());
    EXPECT_TRUE(BitwiseEqual(led, pushed));
    EXPECT_ERROR(simulator.RolloutFeedback(x0, 20, Played(U), &led, 0, xfrc.leftCols(3)), ErrorCode::kDimensionMismatch,
                 "xfrc");

    // the next rollout knows nothing of it
    Trajectory again;
    ASSERT_TRUE(simulator.Rollout(x0, U, &again).ok());
    EXPECT_TRUE(BitwiseEqual(again, free));
    EXPECT_ERROR(simulator.RolloutPushed(x0, U, xfrc.topRows(3), &again), ErrorCode::kDimensionMismatch, "xfrc");
    EXPECT_ERROR(simulator.RolloutPushed(x0, U, xfrc.leftCols(3), &again), ErrorCode::kDimensionMismatch, "xfrc");
  }
}

// (x, moving context) is all that a step reads besides u and what no step changes.
TEST_F(Rollout, EveryKnotRestartsBitForBit) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const VectorXd context = GetContext(model.get(), start.get());
    Simulator simulator(model.get(), context, 1, 1);
    Trajectory trajectory;
    ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), WavyControls(model.get(), 60), &trajectory).ok());

    // backwards, so that nothing is left over from the knot before
    DataPtr data = MakeData(model.get());
    VectorXd x_next(simulator.dims().nx), s(simulator.dims().ns);
    for (int t = trajectory.N() - 1; t >= 0; --t) {
      SetContext(model.get(), data.get(), context);
      SetMovingContext(model.get(), data.get(), trajectory.context.col(t));
      Step(model.get(), data.get(), trajectory.X.col(t), trajectory.U.col(t), 1, x_next, s);
      ASSERT_TRUE(BitwiseEqual(trajectory.X.col(t + 1), x_next)) << "knot " << t;
      ASSERT_TRUE(BitwiseEqual(trajectory.S.col(t), s)) << "knot " << t;
    }
  }
}

TEST_F(Rollout, RepeatsBitForBitOnTheSameSimulatorAndOnEveryWorker) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const VectorXd x0 = GetState(model.get(), start.get());
    const MatrixXd U = WavyControls(model.get(), 50);
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 3);
    Trajectory first;
    ASSERT_TRUE(simulator.Rollout(x0, U, &first).ok());

    // 12 at once, on whatever worker
    std::vector<Trajectory> others(12);
    simulator.ParallelFor(
        12, [&](int i, int worker) { simulator.Rollout(x0, U, &others[static_cast<std::size_t>(i)], worker); });
    for (const Trajectory& other : others) EXPECT_TRUE(BitwiseEqual(first, other));
  }
}

TEST_F(Rollout, WithoutAHorizonHasOneStateAndItsSensors) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = StartData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd(model->nu, 0), &trajectory).ok());
  EXPECT_EQ(trajectory.N(), 0);
  EXPECT_EQ(trajectory.X.cols(), 1);
  EXPECT_EQ(trajectory.S.cols(), 1);
  EXPECT_EQ(simulator.Diagnose(trajectory).size(), 1u);
}

// the same motion, with what is read as it is and the rest left out; where controls are late, all are computed
TEST_F(Rollout, LeavesSensorsOutThatNobodyReads) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    if (model->nsensor < 2) continue;
    DataPtr start = StartData(model.get());
    const VectorXd x0 = GetState(model.get(), start.get());
    const MatrixXd U = WavyControls(model.get(), 20);
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 2, 1);
    Trajectory all, some;
    ASSERT_TRUE(simulator.Rollout(x0, U, &all).ok());
    EXPECT_FALSE(simulator.SkipUnselectedSensors(true));  // none is selected: all are
    std::vector<char> read(model->nsensordata, 0);
    read[1] = 1;  // one entry: its sensor is read
    simulator.SelectSensors(read);
    const bool late = model->nhistory > 0;
    EXPECT_EQ(simulator.SkipUnselectedSensors(true), !late);
    ASSERT_TRUE(simulator.Rollout(x0, U, &some).ok());
    EXPECT_TRUE(BitwiseEqual(some.X, all.X));
    const int first = model->sensor_dim[0];
    EXPECT_TRUE(BitwiseEqual(some.S.topRows(first), all.S.topRows(first)));
    EXPECT_GT(all.S.bottomRows(all.S.rows() - first).cwiseAbs().maxCoeff(), 0);
    EXPECT_EQ(some.S.bottomRows(all.S.rows() - first).isZero(0), !late);
    EXPECT_FALSE(simulator.SkipUnselectedSensors(false));
    ASSERT_TRUE(simulator.Rollout(x0, U, &some).ok());
    EXPECT_TRUE(BitwiseEqual(some.S, all.S));
  }
}

// A free fall has no controls and a model may have no joints: neither is an error.
TEST_F(Rollout, TakesModelsWithoutActuatorsAndWithoutJoints) {
  for (const char* xml : {"<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>",
                          "<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>"}) {
    ModelPtr model = LoadModelFromString(xml);
    DataPtr start = MakeData(model.get());
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 2);
    Trajectory trajectory;
    ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd(0, 10), &trajectory).ok());
    EXPECT_EQ(trajectory.X.cols(), 11);
    EXPECT_NEAR(trajectory.time[10], 10 * model->opt.timestep, 1e-12);
    EXPECT_EQ(simulator.Diagnose(trajectory).size(), 11u);
  }
}

TEST_F(Rollout, NamesTheEntryThatIsNotANumber) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = StartData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  const VectorXd x0 = GetState(model.get(), start.get());
  Trajectory trajectory;
  MatrixXd U = WavyControls(model.get(), 10);
  U(0, 7) = std::nan("");
  EXPECT_ERROR(simulator.Rollout(x0, U, &trajectory), ErrorCode::kInvalidArgument, "ctrl[motor] at knot 7 is nan");
  VectorXd x = x0;
  x[1] = kInf;
  U(0, 7) = 0;
  EXPECT_ERROR(simulator.Rollout(x, U, &trajectory), ErrorCode::kInvalidArgument, "qpos[elbow] is inf", "two links");
  EXPECT_ERROR(simulator.Rollout(x0.head(2), U, &trajectory), ErrorCode::kDimensionMismatch, "x0 has 2 entries");
  EXPECT_ERROR(simulator.Rollout(x0, MatrixXd(3, 4), &trajectory), ErrorCode::kDimensionMismatch, "nu = 1");
}

// Divergence is a status, and what comes after it repeats the last good knot.
TEST_F(Rollout, StopsWhereTheSimulationFails) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j' gear='1e9'/></actuator></mujoco>");
  DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  MatrixXd U = MatrixXd::Zero(1, 20);
  U(0, 5) = 1e9;
  Trajectory trajectory;
  const RolloutStatus status = simulator.Rollout(GetState(model.get(), start.get()), U, &trajectory);
  EXPECT_EQ(status.status, StepStatus::kBadState);
  EXPECT_EQ(status.knot, 5);
  ASSERT_EQ(status.warnings.size(), 1u);
  EXPECT_NE(status.warnings[0].find("QACC at DOF 0"), std::string::npos) << status.warnings[0];
  EXPECT_TRUE(trajectory.X.allFinite());
  for (int t = 6; t <= 20; ++t) EXPECT_TRUE(BitwiseEqual(trajectory.X.col(t), trajectory.X.col(5)));
  EXPECT_GT(trajectory.time[20], trajectory.time[19]);
  EXPECT_EQ(trajectory.U, U);  // given, and so known to the end

  // states that are given do not change that
  MatrixXd gaps;
  EXPECT_EQ(simulator.Follow(MatrixXd::Zero(2, 21), U, &trajectory, &gaps).knot, 5);
  EXPECT_EQ(trajectory.U, U);

  // the simulator is as good as new afterwards
  EXPECT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd::Zero(1, 20), &trajectory).ok());
}

// What there is after an interruption is the whole motion's beginning, sensors and context included.
TEST_F(Rollout, EndsWhereTheCallbackSaysSo) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
    const VectorXd x0 = GetState(model.get(), start.get());
    const MatrixXd U = WavyControls(model.get(), 30);
    Trajectory whole, cut, expected;
    int calls = 0;
    ASSERT_TRUE(simulator.Rollout(x0, U, &whole, 0, [&](int knots) { return ++calls == knots; }).ok());
    EXPECT_EQ(calls, 30);
    EXPECT_EQ(whole.N(), 30);
    ASSERT_TRUE(simulator.Rollout(x0, U, &cut, 0, [](int knots) { return knots < 12; }).ok());
    ASSERT_TRUE(simulator.Rollout(x0, U.leftCols(12), &expected).ok());
    EXPECT_TRUE(BitwiseEqual(cut, expected));
  }
}

TEST_F(RolloutPolicy, WithZeroGainsIsTheReferenceBitForBit) {
  for (const NamedModel& named : RolloutModels()) {
    SCOPED_TRACE(named.name);
    WavyMotion motion(named.xml, 30);
    auto& [model, start, simulator, dims, reference] = motion;
    Trajectory out;

    // any gain will do: along the reference x ⊖ x_bar is exactly zero, and alpha = 0 takes k away
    Policy policy{MatrixXd::Ones(dims.nu, 30), std::vector<MatrixXd>(30, MatrixXd::Constant(dims.nu, dims.ndx, 3.0))};
    ASSERT_TRUE(simulator.RolloutPolicy(reference, policy, 0, NoBound(dims, -1), NoBound(dims, 1), &out).ok());
    EXPECT_TRUE(BitwiseEqual(reference, out));
  }
}

TEST_F(RolloutPolicy, AddsFeedforwardAndFeedbackWithinTheBounds) {
  WavyMotion motion(RolloutModels()[0].xml, 30);
  auto& [model, start, simulator, dims, reference] = motion;
  Trajectory out;
  Policy policy{MatrixXd::Constant(dims.nu, 30, 0.3),
                std::vector<MatrixXd>(30, MatrixXd::Constant(dims.nu, dims.ndx, -0.2))};
  const VectorXd lower = VectorXd::Constant(dims.nu, -0.5), upper = VectorXd::Constant(dims.nu, 0.5);
  ASSERT_TRUE(simulator.RolloutPolicy(reference, policy, 0.5, lower, upper, &out).ok());
  for (int t = 0; t < 30; ++t) {
    // u = clamp(u_bar + alpha k + K (x ⊖ x_bar)), restated
    const VectorXd dx = Difference(model.get(), out.X.col(t), reference.X.col(t));
    const VectorXd u = reference.U.col(t) + 0.5 * policy.k.col(t) + policy.K[0] * dx;
    EXPECT_LT((out.U.col(t) - u.cwiseMax(lower).cwiseMin(upper)).cwiseAbs().maxCoeff(), 1e-15);
  }
  EXPECT_LE(out.U.maxCoeff(), 0.5);
  EXPECT_GE(out.U.minCoeff(), -0.5);
}

TEST_F(RolloutPolicy, IsGivenUpWhereTheCallbackSaysSo) {
  WavyMotion motion(RolloutModels()[0].xml, 30);
  auto& [model, start, simulator, dims, reference] = motion;
  const Policy policy{MatrixXd::Zero(dims.nu, 30), std::vector<MatrixXd>(30, MatrixXd::Zero(dims.nu, dims.ndx))};
  Trajectory out;
  int last = 0;
  const RolloutStatus status = simulator.RolloutPolicy(reference, policy, 1, NoBound(dims, -1), NoBound(dims, 1), &out,
                                                       0, [&](int t) { return (last = t) < 12; });
  EXPECT_EQ(last, 12);
  EXPECT_TRUE(status.given_up);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.status, StepStatus::kOk);
  EXPECT_EQ(status.knot, 11);
  EXPECT_TRUE(BitwiseEqual(MatrixXd(out.X.leftCols(13)), MatrixXd(reference.X.leftCols(13))));
  EXPECT_EQ(out.N(), 30);
}

// A gain that is not a number must not hide behind the clamp.
TEST_F(RolloutPolicy, ReportsAGainThatIsNotANumber) {
  WavyMotion motion(RolloutModels()[0].xml, 10);
  auto& [model, start, simulator, dims, reference] = motion;
  Trajectory out;
  Policy policy{MatrixXd::Zero(dims.nu, 10), std::vector<MatrixXd>(10, MatrixXd::Zero(dims.nu, dims.ndx))};
  policy.k(0, 4) = std::nan("");
  const RolloutStatus status = simulator.RolloutPolicy(reference, policy, 1, VectorXd::Constant(dims.nu, -1),
                                                       VectorXd::Constant(dims.nu, 1), &out);
  EXPECT_EQ(status.status, StepStatus::kBadControl);
  EXPECT_EQ(status.knot, 4);
  ASSERT_EQ(status.warnings.size(), 1u);
  EXPECT_NE(status.warnings[0].find("CTRL"), std::string::npos) << status.warnings[0];
  for (int t = 4; t < 10; ++t) EXPECT_EQ(out.U.col(t), out.U.col(3)) << t;
}

// u = 1 up to a knot, there another number, and what must not be asked for after it
struct Breaking final : Feedback {
  int knot;
  double last;
  Breaking(int t, double u) : knot(t), last(u) {}
  int weights() const override { return 0; }
  void Control(const FeedbackInput& in, VectorRef u) const override {
    EXPECT_LE(in.t, knot);
    u.setConstant(in.t < knot ? 1 : last);
  }
  void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}
};

// All controls are numbers, whatever memory they were put into: what failed, where that is one, and then the last good.
TEST_F(Rollout, OfALawThatFailsHasControlsToTheEnd) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j'/></actuator></mujoco>");
  const DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  Trajectory out;
  const auto controls_of = [&](int knot, double u) {
    out.U.setConstant(1, 5, kInf);
    EXPECT_EQ(simulator.RolloutFeedback(VectorXd::Zero(2), 5, Breaking(knot, u), &out).knot, knot);
    return VectorXd(out.U.row(0));
  };
  EXPECT_EQ(controls_of(2, std::nan("")), VectorXd::Ones(5));
  EXPECT_EQ(controls_of(0, std::nan("")), VectorXd::Zero(5));
  EXPECT_EQ(controls_of(3, 1e12), (VectorXd(5) << 1, 1, 1, 1e12, 1).finished());
}

TEST_F(RolloutPolicy, RefusesAPolicyOfAnotherShape) {
  WavyMotion motion(RolloutModels()[0].xml, 10);
  auto& [model, start, simulator, dims, reference] = motion;
  Trajectory out;
  Policy policy{MatrixXd::Zero(dims.nu, 9), {}};
  EXPECT_THROW(simulator.RolloutPolicy(reference, policy, 1, NoBound(dims, -1), NoBound(dims, 1), &out), Error);
  policy = {MatrixXd::Zero(dims.nu, 10), std::vector<MatrixXd>(10, MatrixXd::Zero(dims.nu, dims.ndx))};
  EXPECT_THROW(simulator.RolloutPolicy(reference, policy, 1, NoBound(dims, -1), NoBound(dims, 1), &reference), Error);
}

TEST_F(RolloutPolicy, RefusesAGainOfAnotherShapeByItsKnot) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/cartpole/cartpole.xml");
  const DataPtr data = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), data.get()), 1, 1);
  Trajectory reference, out;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), data.get()), MatrixXd::Zero(1, 6), &reference).ok());
  const VectorXd bound = VectorXd::Constant(1, 1);
  for (const auto& [rows, cols] : {std::pair{1, 3}, {1, 5}, {2, 4}, {0, 0}}) {
    Policy policy{MatrixXd::Zero(1, 6), std::vector<MatrixXd>(6, MatrixXd::Zero(1, 4))};
    policy.K[5].setOnes(rows, cols);
    EXPECT_ERROR(simulator.RolloutPolicy(reference, policy, 1, -bound, bound, &out), ErrorCode::kDimensionMismatch,
                 "policy: K of knot 5 is", "nu x ndx = 1 x 4");
    EXPECT_ERROR(simulator.RolloutGaps(reference, MatrixXd::Zero(4, 6), policy, 1, -bound.replicate(1, 6),
                                       bound.replicate(1, 6), &out),
                 ErrorCode::kDimensionMismatch, "policy: K of knot 5 is");
  }
}

TEST_F(ParallelFor, RunsEachJobOnceAndRethrowsTheFirstFailure) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = MakeData(model.get());
  for (int threads : {1, 2, 3, 8}) {
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<std::atomic<int>> count(100);
      simulator.ParallelFor(100, [&](int i, int worker) {
        ASSERT_LT(worker, threads);
        ++count[static_cast<std::size_t>(i)];
        simulator.ParallelFor(2, [&](int, int inner) { EXPECT_EQ(inner, worker); });
      });
      for (const std::atomic<int>& c : count) ASSERT_EQ(c, 1);

      // jobs 31, 32, 33 … fail; 31 is reported whoever came first
      std::string what;
      try {
        simulator.ParallelFor(100, [&](int i, int) {
          if (i > 30) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        what = error.what();
      }
      ASSERT_EQ(what, "31");
    }
  }
}

// Loops of few short jobs, in which workers wake up in time, too late or not at all; whoever has begun is waited for.
TEST_F(ParallelFor, ShortLoopsEndWhenTheirJobsHaveEnded) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = MakeData(model.get());
  for (int threads : {2, 3, 8}) {
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, threads);
    for (int loop = 0; loop < 2000; ++loop) {
      const int n = loop % 7;
      std::vector<int> count(static_cast<std::size_t>(n), 0);
      simulator.ParallelFor(n, [&](int i, int) {
        if (loop % 200 == i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++count[static_cast<std::size_t>(i)];
      });
      ASSERT_EQ(count, std::vector<int>(static_cast<std::size_t>(n), 1)) << loop << " of " << threads << " threads";
    }
  }
}

TEST_F(SimulatorOptions, AreRefusedWhenOutOfRange) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = MakeData(model.get());
  const VectorXd context = GetContext(model.get(), start.get());
  EXPECT_THROW(Simulator(model.get(), context, 0, 1), Error);
  EXPECT_THROW(Simulator(model.get(), context, 1, -1), Error);
  EXPECT_THROW(Simulator(model.get(), context, 1, 100000), Error);
  EXPECT_THROW(Simulator(model.get(), context.head(1), 1, 1), Error);
  Trajectory trajectory;
  Simulator simulator(model.get(), context, 1, 2);
  EXPECT_THROW(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd::Zero(model->nu, 1), &trajectory, 2),
               Error);
}

}  // namespace
}  // namespace costate
