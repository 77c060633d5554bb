// Derivatives and diagnostics along a trajectory: the same bits at any thread count, in any order, asked for twice.
#include <costate/rollout.h>

#include <gtest/gtest.h>

#include <cmath>

#include "rollout/models.h"

namespace costate {
namespace {

using LinearizeAlong = support::EngineTest;
using Diagnose = support::EngineTest;

::testing::AssertionResult Same(const std::vector<StepDerivative>& a, const std::vector<StepDerivative>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " knots";
  for (std::size_t t = 0; t < a.size(); ++t) {
    const MatrixXd* left[] = {&a[t].A, &a[t].B, &a[t].C, &a[t].D};
    const MatrixXd* right[] = {&b[t].A, &b[t].B, &b[t].C, &b[t].D};
    for (int i = 0; i < 4; ++i) {
      const ::testing::AssertionResult equal = BitwiseEqual(*left[i], *right[i]);
      if (!equal)
        return ::testing::AssertionFailure() << "knot " << t << ", "
                                             << "ABCD"[i] << ": " << equal.message();
    }
  }
  return ::testing::AssertionSuccess();
}

// models whose derivative the engine can be asked for at any knot; a sleeping tree's state is not part of the context
std::vector<NamedModel> AwakeModels() {
  std::vector<NamedModel> models = RolloutModels();
  std::erase_if(models, [](const NamedModel& named) { return named.name == "sleep"; });
  return models;
}

// a derivative that takes minutes can be left between its knots
TEST_F(LinearizeAlong, EndsWhereItIsStopped) {
  const NamedModel named = AwakeModels().front();
  ModelPtr model = LoadModelFromString(named.xml);
  DataPtr start = StartData(model.get());
  for (const int every : {1, 3}) {
    Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
    simulator.SetDerivativeEvery(every);
    Trajectory trajectory;
    ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), WavyControls(model.get(), 25), &trajectory).ok());
    int asked = 0, used = 0;
    const auto use = [&](int, int, StepDerivative*) { ++used; };
    EXPECT_TRUE(simulator.LinearizeEach(trajectory, {}, use));
    EXPECT_EQ(used, 26);
    used = 0;
    simulator.SetStop([&] { return ++asked > 5; });
    EXPECT_FALSE(simulator.LinearizeEach(trajectory, {}, use));
    EXPECT_EQ(asked, 6);
    EXPECT_EQ(used, every == 1 ? 5 : 0);
    simulator.SetStop({});
    used = 0;
    EXPECT_TRUE(simulator.LinearizeEach(trajectory, {}, use));
    EXPECT_EQ(used, 26);
  }
}

// Which worker takes which knot changes from run to run; what it computes does not.
TEST_F(LinearizeAlong, DoesNotDependOnTheThreadCount) {
  for (const NamedModel& named : AwakeModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const VectorXd context = GetContext(model.get(), start.get());
    Simulator one(model.get(), context, 2, 1);
    Trajectory trajectory;
    ASSERT_TRUE(one.Rollout(GetState(model.get(), start.get()), WavyControls(model.get(), 25), &trajectory).ok());
    for (bool centered : {false, true}) {
      LinearizeOptions options;
      options.centered = centered;
      std::vector<StepDerivative> expected, derivatives;
      one.Linearize(trajectory, options, &expected);
      ASSERT_EQ(expected.size(), 26u);
      for (int threads : {2, 3}) {
        Simulator simulator(model.get(), context, 2, threads);
        for (int repeat = 0; repeat < 3; ++repeat) {
          simulator.Linearize(trajectory, options, &derivatives);
          EXPECT_TRUE(Same(expected, derivatives)) << threads << " threads";
        }
      }
    }
  }
}

// One derivative a worker serves all knots, even when its matrices are taken away by swap.
TEST_F(LinearizeAlong, EachHandsOutTheSameDerivativesOneByOne) {
  for (const NamedModel& named : AwakeModels()) {
    SCOPED_TRACE(named.name);
    WavyMotion motion(named.xml, 15, 2);
    auto& [model, start, simulator, dims, trajectory] = motion;
    std::vector<StepDerivative> expected, taken(16);
    simulator.Linearize(trajectory, {}, &expected);
    for (int repeat = 0; repeat < 2; ++repeat) {
      simulator.LinearizeEach(trajectory, {}, [&](int t, int, StepDerivative* derivative) {
        std::swap(taken[static_cast<std::size_t>(t)], *derivative);
      });
      EXPECT_TRUE(Same(expected, taken));
    }
  }
}

// A knot in the middle is what a caller gets who sets up that instant alone.
TEST_F(LinearizeAlong, EachKnotIsLinearizeAtThatInstant) {
  for (const NamedModel& named : AwakeModels()) {
    SCOPED_TRACE(named.name);
    WavyMotion motion(named.xml, 20, 2);
    auto& [model, start, simulator, dims, trajectory] = motion;
    std::vector<StepDerivative> along;
    simulator.Linearize(trajectory, {}, &along);

    DataPtr data(mj_copyData(nullptr, model.get(), start.get()));
    for (int t = 0; t < trajectory.N(); ++t) {
      SetState(model.get(), data.get(), trajectory.X.col(t));
      SetMovingContext(model.get(), data.get(), trajectory.context.col(t));
      Eigen::Map<VectorXd>(data->ctrl, model->nu) = trajectory.U.col(t);
      const StepDerivative alone = Linearize(model.get(), data.get());
      ASSERT_TRUE(Same({alone}, {along[static_cast<std::size_t>(t)]})) << "knot " << t;
    }
  }
}

TEST_F(LinearizeAlong, GivesSensorDerivativesOnlyWhenAskedAndAtTheLastKnotOnlyC) {
  WavyMotion motion(RolloutModels()[0].xml, 6, 2);
  auto& [model, start, simulator, dims, trajectory] = motion;
  std::vector<StepDerivative> derivatives;
  simulator.Linearize(trajectory, {.sensors = true}, &derivatives);
  EXPECT_EQ(derivatives[0].C.rows(), dims.ns);
  EXPECT_EQ(derivatives[0].D.cols(), dims.nu);
  EXPECT_EQ(derivatives[6].C.rows(), dims.ns);
  EXPECT_EQ(derivatives[6].C.cols(), dims.ndx);
  EXPECT_EQ(derivatives[6].A.size() + derivatives[6].B.size() + derivatives[6].D.size(), 0);

  // the same memory without sensors: nothing of before is left
  simulator.Linearize(trajectory, {.sensors = false}, &derivatives);
  EXPECT_EQ(derivatives[0].C.size() + derivatives[0].D.size(), 0);
  EXPECT_EQ(derivatives[6].A.size() + derivatives[6].C.size(), 0);
  EXPECT_EQ(derivatives[0].A.rows(), dims.ndx);
}

// A x + B u propagates a small change of the start through the whole motion.
TEST_F(LinearizeAlong, PropagatesASmallChangeOfTheStart) {
  ModelPtr model = LoadModelFromString(RolloutModels()[0].xml);
  DataPtr start = StartData(model.get());
  const VectorXd x0 = GetState(model.get(), start.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 3, 2);
  const MatrixXd U = WavyControls(model.get(), 30);
  Trajectory trajectory, moved;
  ASSERT_TRUE(simulator.Rollout(x0, U, &trajectory).ok());
  std::vector<StepDerivative> derivatives;
  simulator.Linearize(trajectory, {}, &derivatives);

  constexpr double kChange = 1e-6;  // its square stays below the tolerance
  VectorXd dx = VectorXd::Constant(simulator.dims().ndx, kChange);
  ASSERT_TRUE(simulator.Rollout(Retract(model.get(), x0, dx), U, &moved).ok());
  for (int t = 0; t < 30; ++t) dx = derivatives[static_cast<std::size_t>(t)].A * dx;
  EXPECT_TRUE(support::MatricesNear(Difference(model.get(), moved.X.col(30), trajectory.X.col(30)), dx, 1e-9));
}

TEST_F(LinearizeAlong, RefusesATrajectoryOfAnotherModel) {
  WavyMotion motion(RolloutModels()[0].xml, 6, 2);
  auto& [model, start, simulator, dims, trajectory] = motion;
  trajectory.X.conservativeResize(3, 7);
  std::vector<StepDerivative> derivatives;
  EXPECT_ERROR(simulator.Linearize(trajectory, {}, &derivatives), ErrorCode::kDimensionMismatch, "X is 3 x 7",
               "expected 4 x 7");
  EXPECT_ERROR(simulator.Diagnose(trajectory), ErrorCode::kDimensionMismatch, "X is 3 x 7");
}

// ½ m v² + m g h, though the model does not ask the engine for energies.
TEST_F(Diagnose, MeasuresTheEnergyOfAFallingMass) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='.001' integrator='RK4'/><worldbody><body pos='0 0 3'><joint type='slide' axis='0 0 "
      "1'/>"
      "<geom size='.1' mass='2'/></body></worldbody></mujoco>");
  DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 2);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), MatrixXd(0, 500), &trajectory).ok());
  const std::vector<KnotDiagnostics> diagnostics = simulator.Diagnose(trajectory);
  for (int t = 0; t <= 500; t += 50) {
    const KnotDiagnostics& knot = diagnostics[static_cast<std::size_t>(t)];
    const double h = 3 + trajectory.X(0, t), v = trajectory.X(1, t);
    EXPECT_NEAR(knot.energy_kinetic, 0.5 * 2 * v * v, 1e-12);
    EXPECT_NEAR(knot.energy_potential, 2 * 9.81 * h, 1e-12);
    EXPECT_NEAR(knot.energy_kinetic + knot.energy_potential, 2 * 9.81 * 3, 1e-9);  // RK4 is exact for a parabola
  }
  EXPECT_FALSE(model->opt.enableflags & mjENBL_ENERGY) << "the caller's model was changed";
}

TEST_F(Diagnose, MeasuresPenetrationViolationIterationsAndSaturation) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><geom type='plane' size='2 2 .1'/>"
      "<body pos='0 0 .09'><joint type='slide' axis='0 0 1'/><geom size='.1'/></body>"
      "<body pos='1 0 1'><joint name='j' type='hinge' axis='0 1 0' range='-30 30'/><geom size='.05' pos='.1 0 "
      "0'/></body>"
      "<body name='a' pos='2 0 1'><joint type='slide' axis='1 0 0'/><geom size='.05'/></body></worldbody>"
      "<equality><joint joint1='j' polycoef='.5 0 0 0 0'/></equality>"
      "<actuator><motor joint='j' ctrlrange='-1 1'/><motor joint='j' forcerange='-2 2'/><motor joint='j'/></actuator>"
      "</mujoco>");
  DataPtr start = MakeData(model.get());
  start->qpos[1] = 0.7;  // 30 degrees are 0.5236 rad
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  MatrixXd U(3, 2);
  U << 1, 0.5,  //
      3, 1.9,   //
      9, 9;
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), U, &trajectory).ok());
  const std::vector<KnotDiagnostics> diagnostics = simulator.Diagnose(trajectory);
  EXPECT_NEAR(diagnostics[0].penetration, 0.01, 1e-12);
  EXPECT_EQ(diagnostics[0].contacts, 1);
  EXPECT_NEAR(diagnostics[0].constraint_violation, 0.2, 1e-12);  // the equality's |0.7 − 0.5| exceeds the limit's 0.176
  EXPECT_GT(diagnostics[0].solver_iterations, 0);
  EXPECT_EQ(diagnostics[0].saturated_actuators, 2);
  EXPECT_EQ(diagnostics[1].saturated_actuators, 0);
  EXPECT_EQ(diagnostics[2].saturated_actuators, 0);
}

TEST_F(Diagnose, CountsNoActuatorThatIsSwitchedOff) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody><actuator>"
      "<motor joint='j' ctrlrange='-1 1'/><motor joint='j' ctrlrange='-1 1' group='1'/>"
      "<motor joint='j' forcerange='0 2' group='1'/></actuator></mujoco>");
  const DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  Trajectory trajectory;
  const VectorXd u = Eigen::Vector3d(1, 1, 3);
  ASSERT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), u, &trajectory).ok());
  EXPECT_EQ(simulator.Diagnose(trajectory)[0].saturated_actuators, 3);
  model->opt.disableactuator = 1 << 1;
  EXPECT_EQ(simulator.Diagnose(trajectory)[0].saturated_actuators, 1)
      << "what is off has no force, here its lower bound";
  model->opt.disableflags |= mjDSBL_ACTUATION;
  EXPECT_EQ(simulator.Diagnose(trajectory)[0].saturated_actuators, 0);
}

// forcerange bounds the norm of an so3 actuator's torque, whose components may be 0 and below
TEST_F(Diagnose, LimitsTheTorqueOfAnOrientationInNorm) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='ball' type='ball'/><geom size='.1'/></body></worldbody>"
      "<actuator><orientation joint='ball' kp='3' forcerange='0 0.5'/></actuator></mujoco>");
  const DataPtr start = MakeData(model.get());
  Simulator simulator(model.get(), GetContext(model.get(), start.get()), 1, 1);
  const auto saturated = [&](const Eigen::Vector3d& target) {
    Trajectory trajectory;
    const VectorXd u = target;
    EXPECT_TRUE(simulator.Rollout(GetState(model.get(), start.get()), u, &trajectory).ok());
    return simulator.Diagnose(trajectory)[0].saturated_actuators;
  };
  EXPECT_EQ(saturated({0.1, 0, -0.1}), 0);    // 3 |u| = 0.42
  EXPECT_EQ(saturated({0.15, 0, -0.15}), 1);  // 0.64, each component 0.45
}

// the same numbers on any worker, and a rollout afterwards is not disturbed
TEST_F(Diagnose, DoesNotDependOnTheThreadCountAndDisturbsNothing) {
  for (const NamedModel& named : AwakeModels()) {
    SCOPED_TRACE(named.name);
    ModelPtr model = LoadModelFromString(named.xml);
    DataPtr start = StartData(model.get());
    const VectorXd x0 = GetState(model.get(), start.get());
    const MatrixXd U = WavyControls(model.get(), 40);
    Simulator one(model.get(), GetContext(model.get(), start.get()), 1, 1);
    Simulator three(model.get(), GetContext(model.get(), start.get()), 1, 3);
    Trajectory before, after;
    ASSERT_TRUE(one.Rollout(x0, U, &before).ok());
    const std::vector<KnotDiagnostics> a = one.Diagnose(before), b = three.Diagnose(before);
    for (std::size_t t = 0; t < a.size(); ++t) {
      EXPECT_EQ(a[t].energy_kinetic, b[t].energy_kinetic);
      EXPECT_EQ(a[t].energy_potential, b[t].energy_potential);
      EXPECT_EQ(a[t].penetration, b[t].penetration);
      EXPECT_EQ(a[t].constraint_violation, b[t].constraint_violation);
      EXPECT_EQ(a[t].solver_iterations, b[t].solver_iterations);
    }
    ASSERT_TRUE(one.Rollout(x0, U, &after).ok());
    EXPECT_TRUE(BitwiseEqual(before, after));
  }
}

}  // namespace
}  // namespace costate
