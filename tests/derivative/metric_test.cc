#include <costate/derivative.h>
#include <costate/model.h>
#include <costate/parameter.h>
#include <costate/state.h>

#include <algorithm>
#include <string>
#include <vector>

#include "derivative/articulated_solver.h"
#include "derivative/closed_forms.h"
#include "derivative/metric_scene.h"
#include "support/engine_test.h"
#include "support/random_state.h"

namespace costate {
namespace {

using support::Apart;
using MetricTest = support::EngineTest;

constexpr support::RandomStateOptions kApart{.position = 0.12, .velocity = 1, .inside_limits = false};

// (I9), (I10), (C23): springs, dampers and servos of joints and along tendons, and every kind of row that the metric
// scales, under both cones, with impedances that bend and with springs that a step does not resolve
TEST_F(MetricTest, ClosedFormsAreTheDifferencesOfTheResidual) {
  int rows = 0, contacts = 0;
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const int condim : {1, 3, 4, 6}) {
      for (const double timestep : {0.004, 0.03}) {
        for (unsigned seed = 1; seed <= 3; seed++) {
          SCOPED_TRACE(std::string(cone) + " " + std::to_string(condim) + ", step " + std::to_string(timestep) +
                       ", seed " + std::to_string(seed));
          const ModelPtr model = LoadModelFromString(MetricScene(cone, condim));
          model->opt.timestep = timestep;
          support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
        }
      }
    }
  }
  EXPECT_GT(rows, 48 * 10);
  EXPECT_GT(contacts, 30);
}

// (I9) of muscles and of gains that are affine: what they add to the metric, and so to the rows' D, moves with length,
// velocity, activation and control, and not at all where it would be below zero
TEST_F(MetricTest, MusclesAndMovingGainsAreClosed) {
  int rows = 0, contacts = 0;
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const double timestep : {0.004, 0.03}) {
      for (unsigned seed = 1; seed <= 6; seed++) {
        SCOPED_TRACE(std::string(cone) + ", step " + std::to_string(timestep) + ", seed " + std::to_string(seed));
        const ModelPtr model = LoadModelFromString(GainScene(cone, 3));
        model->opt.timestep = timestep;
        support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
      }
    }
  }
  EXPECT_GT(rows, 24 * 10);
  EXPECT_GT(contacts, 15);
}

// where inputs are zero what they add to the metric begins: of muscles' within [0, 1], of a motor's on both sides
TEST_F(MetricTest, MovingGainsBeginAtZero) {
  for (unsigned seed = 1; seed <= 4; seed++) {
    SCOPED_TRACE(seed);
    const ModelPtr model = LoadModelFromString(GainScene("elliptic", 3));
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    SetState(m, data.get(), support::RandomState(m, seed, kApart));
    mju_zero(data->act, static_cast<int>(m->na));
    mj_forward(m, data.get());
    EXPECT_GT(data->nefc, 5);
    const StepDerivative closed = Linearize(m, data.get(), {.level = Level::kAnalytic, .sensors = false});
    const StepDerivative differenced = Linearize(m, data.get(), {.level = Level::kResidual, .sensors = false});
    EXPECT_LT(support::Apart(closed.A, differenced.A), 1e-9);
    EXPECT_LT(support::Apart(closed.B, differenced.B), 1e-9);
  }
}

// (F4) of drag alone, in M's pattern: boxes and ellipsoids on chains, on free bodies and on those whose block of M is
// diagonal, in wind. It makes rows harder, too, and these follow velocities then.
TEST_F(MetricTest, DragIsClosed) {
  for (const bool ellipsoids : {false, true}) {
    int rows = 0, contacts = 0;
    for (const std::string& scene : {MetricScene("pyramidal", 3), FlightScene("elliptic"), LoopScene()}) {
      for (unsigned seed = 1; seed <= 3; seed++) {
        SCOPED_TRACE(std::to_string(seed) + (ellipsoids ? ", ellipsoids: " : ", boxes: ") + scene);
        const ModelPtr model = LoadModelFromString(InFluid(scene, ellipsoids));
        support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
      }
    }
    EXPECT_GT(rows, 0);
  }
}

// Of a joint at its actuatorfrcrange the engine leaves the joint's own actuators out of M̂, but not those of tendons.
TEST_F(MetricTest, JointsAtTheirForceLimitAreClosed) {
  int rows = 0, contacts = 0, at_limit = 0, coupled = 0;
  for (unsigned seed = 1; seed <= 3; seed++) {
    SCOPED_TRACE(seed);
    std::string scene = MetricScene("elliptic", 3);
    for (const std::string joint : {"<joint name='b'", "<joint name='a'", "<joint name='c'"})
      scene.replace(scene.find(joint), joint.size(), joint + " actuatorfrcrange='-.02 .02'");
    const ModelPtr model = LoadModelFromString(scene);
    support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed, kApart));
    mju_copy(data->ctrl, support::RandomControl(model.get(), seed).data(), static_cast<int>(model->nu));
    mj_forward(model.get(), data.get());
    for (int dof = 0; dof < model->nv; dof++) {
      at_limit += std::abs(data->qfrc_actuator[dof]) == .02;
      coupled += std::abs(data->qfrc_actuator[dof]) == .02 && data->efm_sdiag[dof] > 0;
    }
  }
  EXPECT_GT(rows, 0);
  EXPECT_GT(at_limit, 5);
  EXPECT_GT(coupled, 2);
}

// (C23), (I10): J̇v of connects and welds is at the end of the step, too, and each of their rows has a scale of its own
TEST_F(MetricTest, LoopsAreClosed) {
  int rows = 0, contacts = 0;
  for (const char* flags : {"", "spring='disable' damper='disable' actuation='disable'"}) {
    for (unsigned seed = 1; seed <= 4; seed++) {
      SCOPED_TRACE(std::string(flags) + " seed " + std::to_string(seed));
      const ModelPtr model = LoadModelFromString(LoopScene(flags));
      support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
    }
  }
  EXPECT_EQ(rows, 8 * 27);
}

// Without springs and dampers M̂ is M, and rows alone are the step's own.
TEST_F(MetricTest, RowsAreTheStepsWithoutAnythingInTheMetric) {
  int rows = 0, contacts = 0;
  for (unsigned seed = 1; seed <= 3; seed++) {
    SCOPED_TRACE(seed);
    const ModelPtr model = LoadModelFromString(MetricScene("pyramidal", 3));
    model->opt.disableflags |= mjDSBL_SPRING | mjDSBL_DAMPER | mjDSBL_ACTUATION;
    support::ExpectClosed(model.get(), seed, kApart, &rows, &contacts);
  }
  EXPECT_GT(rows, 0);
}

// The caller may change the integrator of a model that a Linearizer has.
TEST_F(MetricTest, FollowsTheModelsIntegrator) {
  const ModelPtr model = LoadModelFromString(MetricScene("pyramidal", 3));
  const VectorXd x = support::RandomState(model.get(), 1, kApart), u = support::RandomControl(model.get(), 1);
  Linearizer living(model.get());
  for (const int integrator : {mjINT_EULER, mjINT_DISCRETE, mjINT_IMPLICITFAST, mjINT_DISCRETE}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    StepDerivative one, two;
    living.Linearize(x, u, &one);
    Linearizer(model.get()).Linearize(x, u, &two);
    EXPECT_EQ(one.A, two.A);
    EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), x);
    mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
    mj_forward(model.get(), data.get());
    living.LinearizeAfterForward(data.get(), &two);
    EXPECT_LT(Apart(two.A, one.A), 1e-9);
  }
}

// … and then ask for its inverse dynamics alone
TEST_F(MetricTest, LeavesNothingForInverseDynamicsOfAnotherIntegrator) {
  const ModelPtr model = LoadModelFromString(MetricScene("pyramidal", 3));
  const VectorXd x = support::RandomState(model.get(), 1, kApart), u = support::RandomControl(model.get(), 1),
                 qacc = VectorXd::LinSpaced(model->nv, -1, 1);
  Linearizer living(model.get());
  StepDerivative step;
  living.Linearize(x, u, &step);
  for (const int integrator : {mjINT_EULER, mjINT_DISCRETE}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    InverseDerivative one, two;
    living.LinearizeInverse(x, u, qacc, &one);
    Linearizer(model.get()).LinearizeInverse(x, u, qacc, &two);
    EXPECT_EQ(one.q, two.q);
    EXPECT_EQ(one.a, two.a);
    EXPECT_EQ(one.coverage.Worst(), integrator == mjINT_EULER ? Level::kAnalytic : Level::kResidual);
  }
}

// Damping, stiffness, armature and mass are in M̂ and, through it, in every row.
TEST_F(MetricTest, ParametersOfTheMetricAreThoseOfWholeSteps) {
  const ModelPtr model = LoadModelFromString(InFluid(MetricScene("pyramidal", 3), true));
  const ParameterSet set(model.get(), {"joint:a/damping", "joint:a/stiffness", "joint:b/armature",
                                       "joint:a/frictionloss", "joint:x/stiffness", "tendon:spatial/stiffness"});
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(), support::RandomState(model.get(), 2, kApart));
  const VectorXd x = GetState(model.get(), data.get()), u = support::RandomControl(model.get(), 2);
  StepDerivative best, whole;
  Linearizer one(set.model()), three(set.model(), {.level = Level::kStep});
  one.SetParameters(&set);
  three.SetParameters(&set);
  one.Linearize(x, u, &best);
  three.Linearize(x, u, &whole);
  ASSERT_EQ(best.P.cols(), set.size());
  for (int k = 0; k < best.P.cols(); k++)
    EXPECT_LT(Apart(best.P.col(k), whole.P.col(k)), 1e-6) << set.Names()[static_cast<std::size_t>(k)];
  const VectorXd lambda = support::Random(3).Vector(static_cast<int>(x.size() ? best.A.rows() : 0));
  StepVjp vjp;
  one.Vjp(x, u, lambda, &vjp);
  EXPECT_LT(Apart(vjp.theta, best.P.transpose() * lambda), 1e-9);
}

// (I12): gyroscopic forces make blocks of bodies in flight unsymmetric, with a welded part, damping and armature, a
// thruster; not of those that lie on the floor or that a spring, a damper or a flex of M̂ reaches
TEST_F(MetricTest, SpinOfFreeBodiesInFlightIsClosed) {
  int rows = 0, contacts = 0;
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (unsigned seed = 1; seed <= 4; seed++) {
      SCOPED_TRACE(std::string(cone) + ", seed " + std::to_string(seed));
      const ModelPtr model = LoadModelFromString(FlightScene(cone));
      support::ExpectClosed(model.get(), seed, {.position = 0.02, .velocity = 3, .inside_limits = false}, &rows,
                            &contacts);
    }
  }
  EXPECT_GE(contacts, 8 * 3);
}

// Products factor a long chain by articulated bodies; the body that spins beside it is corrected all the same.
TEST_F(MetricTest, SpinBesideAChainOfArticulatedBodiesIsClosed) {
  std::string chain, ends;
  for (int i = 0; i < 30; i++) {
    chain += std::string("<body pos='0 0 .1'><joint axis='") + (i % 2 ? "1 0 .2" : "0 1 .3") +
             "' damping='.1' stiffness='2'/><geom type='capsule' size='.02 .03' mass='.1'/>";
    ends += "</body>";
  }
  const ModelPtr model =
      LoadModelFromString("<mujoco><option integrator='discrete' timestep='.004'/><worldbody>" + chain + ends +
                          "<body pos='1 0 1'><freejoint/><geom type='box' size='.1 .2 .05' pos='.02 .03 "
                          ".01'/></body></worldbody></mujoco>");
  ASSERT_TRUE(ArticulatedSolver::Pays(model.get()));
  int rows = 0, contacts = 0;
  for (unsigned seed = 1; seed <= 2; seed++) {
    SCOPED_TRACE(seed);
    support::ExpectClosed(model.get(), seed, {.position = 0.2, .velocity = 2, .inside_limits = false}, &rows,
                          &contacts);
  }
}

// What moves the accelerations of a spinning body moves its sensors, and the derivatives of continuous time.
TEST_F(MetricTest, AccelerationOfASpinningBodyIsClosed) {
  const ModelPtr model = LoadModelFromString(FlightScene("pyramidal"));
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(),
           support::RandomState(model.get(), 1, {.position = 0.02, .velocity = 3, .inside_limits = false}));
  const VectorXd x = GetState(model.get(), data.get()), u = support::RandomControl(model.get(), 1);
  Linearizer one(model.get()), two(model.get(), {.level = Level::kResidual});
  StepDerivative step, differenced;
  one.Linearize(x, u, &step);
  two.Linearize(x, u, &differenced);
  EXPECT_LT(Apart(step.C, differenced.C), 1e-8);
  AccelerationDerivative closed, by_differences;
  one.LinearizeAcceleration(x, u, &closed);
  two.LinearizeAcceleration(x, u, &by_differences);
  EXPECT_EQ(closed.coverage.Worst(), Level::kAnalytic);
  EXPECT_LT(Apart(closed.x, by_differences.x), 1e-8);
  EXPECT_LT(Apart(closed.force, by_differences.force), 1e-8);
  const MatrixXd tumbling = closed.force.topLeftCorner(6, 6);
  EXPECT_GT(Apart(tumbling, tumbling.transpose()), 1e-3);
}

// Forces of rows follow M̂'s diagonal, and so does what reads them.
TEST_F(MetricTest, SensorsOfForcesFollowTheMetric) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete" timestep=".004"/><worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .3"><joint axis="0 1 0" damping=".4" stiffness="3"/><geom type="capsule" fromto="0 0 0 .2 0 -.05" size=".02" contype="0"/>
      <body pos=".2 0 -.05"><joint axis="0 1 0" damping=".2"/><geom size=".06" pos=".05 0 -.192"/><site name="s" pos=".05 0 -.192" size=".07"/></body></body>
    </worldbody><sensor><touch site="s"/><force site="s"/><accelerometer site="s"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.3;
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->sensordata[0], 0);
  const StepDerivative step = Linearize(model.get(), data.get()),
                       differenced = Linearize(model.get(), data.get(), {.level = Level::kResidual}),
                       whole = Linearize(model.get(), data.get(), {.level = Level::kStep});
  EXPECT_LT(Apart(step.C, differenced.C), 1e-8);
  EXPECT_LT(Apart(step.C, whole.C), 1e-6);
}

}  // namespace
}  // namespace costate
