// The dispatcher: what a derivative is a function of, substeps, context, refusals, and what it leaves alone.
#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/rollout.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "derivative/allocations.h"
#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using LinearizeTest = support::EngineTest;
using support::BitwiseEqual;
using support::MatricesNearRelative;

// a limb on a floating box over a floor, an activation with limits, a sensor of every stage
std::string LimbScene(const std::string& option, const std::string& actuators = "") {
  return "<mujoco model='scene'>" + option + R"(<worldbody><geom type="plane" size="5 5 .1"/>
    <body name="root" pos="0 0 .0998"><freejoint/><geom type="box" size=".1 .15 .1"/>
      <body pos=".1 0 0"><joint name="knee" axis="0 1 0" range="-40 60" limited="true" damping=".1"/>
        <geom type="capsule" fromto="0 0 0 .2 0 .1" size=".03"/><site name="tip" pos=".2 0 .1"/></body></body></worldbody>
    <actuator><motor name="knee" joint="knee" ctrlrange="-2 2"/>
      <general joint="knee" dyntype="filter" dynprm=".05" actrange="-1 1" gainprm="2"/>)" +
         actuators + R"(</actuator>
    <sensor><framepos objtype="site" objname="tip"/><velocimeter site="tip"/><accelerometer site="tip"/></sensor></mujoco>)";
}

VectorXd DefaultState(const mjModel* model) { return GetState(model, MakeData(model).get()); }

::testing::AssertionResult SameDerivative(const StepDerivative& a, const StepDerivative& b) {
  for (auto member : {&StepDerivative::A, &StepDerivative::B, &StepDerivative::C, &StepDerivative::D}) {
    if (auto same = BitwiseEqual(a.*member, b.*member); !same) return same;
  }
  return ::testing::AssertionSuccess();
}

TEST_F(LinearizeTest, IsAFunctionOfStateControlAndContextBitForBit) {
  for (Level level : {Level::kBest, Level::kStep}) {
    for (const char* option : {"", "<option integrator='RK4'/>", "<option solver='CG' cone='elliptic'/>",
                               "<option><flag sleep='enable'/></option>"}) {
      const ModelPtr model = LoadModelFromString(LimbScene(option));
      const VectorXd x = DefaultState(model.get()), u = support::RandomControl(model.get(), 1);
      Linearizer used(model.get(), {.level = level}), fresh(model.get(), {.level = level});
      StepDerivative a, b, other;
      used.Linearize(x, u, &a);
      for (unsigned seed = 0; seed < 3; ++seed) {
        used.Linearize(support::RandomState(model.get(), seed), support::RandomControl(model.get(), seed), &other);
      }
      used.LinearizeSensors(x, &other);
      used.Linearize(x, u, &b);
      EXPECT_TRUE(SameDerivative(a, b)) << option;
      std::thread([&] { fresh.Linearize(x, u, &b); }).join();
      EXPECT_TRUE(SameDerivative(a, b)) << option;
    }
  }
}

TEST_F(LinearizeTest, LeavesTheCallersDataAndModelAsTheyWereBitForBit) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const std::vector<unsigned char> model_before = SerializeModel(model.get());
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < 10; ++i) mj_step(model.get(), data.get());
  data->qfrc_applied[0] = 0.3;

  // a step half done, with the stack in use
  mj_step1(model.get(), data.get());
  mj_markStack(data.get());
  mjtNum* scratch = static_cast<mjtNum*>(mj_stackAllocNum(data.get(), 10));
  std::memset(scratch, 7, 10 * sizeof(mjtNum));
  const mjData header = *data;
  const std::string buffer(static_cast<char*>(data->buffer), data->nbuffer);
  const std::string arena(static_cast<char*>(data->arena), data->narena);
  for (Level level : {Level::kBest, Level::kStep}) Linearize(model.get(), data.get(), {.level = level});
  EXPECT_EQ(std::memcmp(&header, data.get(), sizeof(mjData)), 0);
  EXPECT_EQ(buffer, std::string(static_cast<char*>(data->buffer), data->nbuffer));
  EXPECT_EQ(arena, std::string(static_cast<char*>(data->arena), data->narena));
  EXPECT_EQ(model_before, SerializeModel(model.get()));
  mj_freeStack(data.get());
}

TEST_F(LinearizeTest, TheContextEnters) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const VectorXd x = DefaultState(model.get()), u = VectorXd::Zero(2);
  const DataPtr data = MakeData(model.get());
  data->qfrc_applied[2] = 200;  // lifts the box off the floor: nothing holds it any more
  Linearizer linearizer(model.get(), {.level = Level::kStep});
  StepDerivative resting, lifted, direct = Linearize(model.get(), data.get(), {.level = Level::kStep});
  linearizer.Linearize(x, u, &resting);
  linearizer.SetContext(GetContext(model.get(), data.get()));
  linearizer.Linearize(x, u, &lifted);
  EXPECT_TRUE(SameDerivative(lifted, direct));
  EXPECT_FALSE(BitwiseEqual(lifted.A, resting.A));

  // the moving part alone leaves the applied force where it is
  linearizer.SetMovingContext(GetMovingContext(model.get(), MakeData(model.get()).get()));
  linearizer.Linearize(x, u, &direct);
  EXPECT_TRUE(SameDerivative(lifted, direct));
  EXPECT_ERROR(linearizer.SetContext(VectorXd::Zero(3)), ErrorCode::kDimensionMismatch, "context has 3 entries");
  EXPECT_ERROR(linearizer.SetMovingContext(VectorXd::Zero(1000)), ErrorCode::kDimensionMismatch, "1000");
}

// delays, plastic joint springs: state that a step advances and x does not hold
const char* kDelayed = R"(<general name="late" joint="knee" gainprm="3" delay="0.006" nsample="8"/>)";

void ExpectAgrees(const mjModel* model, const StepDerivative& value, const ReferenceDerivative& reference,
                  const std::string& where) {
  for (const BlockComparison& block : Compare(model, value, reference).blocks) {
    EXPECT_TRUE(block.agrees) << where << " " << block.name << " " << block.worst.row_name << "/"
                              << block.worst.col_name << " " << block.worst.value << " " << block.worst.reference;
  }
}

// a moment past the first touch, under random controls
DataPtr PastTheFirstTouch(const mjModel* model) {
  DataPtr data = MakeData(model);
  const VectorXd u = support::RandomControl(model, 2);
  mj_setState(model, data.get(), u.data(), mjSTATE_CTRL);
  for (int i = 0; i < 5; ++i) mj_step(model, data.get());
  return data;
}

TEST_F(LinearizeTest, SubstepsAreChainedOrDifferencedAtOnceAsTheModelNeeds) {
  for (const char* option : {"<option timestep='0.002'/>", "<option timestep='0.002' integrator='RK4'/>"}) {
    for (const char* actuators : {"", kDelayed}) {
      const ModelPtr model = LoadModelFromString(LimbScene(option, actuators));
      const DataPtr data = PastTheFirstTouch(model.get());
      const ReferenceDerivative reference = Reference(model.get(), data.get(), {.substeps = 4});
      for (Level level : {Level::kBest, Level::kStep}) {
        ExpectAgrees(model.get(), Linearize(model.get(), data.get(), {.level = level, .substeps = 4}), reference,
                     option + std::string(actuators) + ToString(level));
      }
      // the delayed control arrives within the interval: it would be missing from a chain
      if (model->nhistory > 0) {
        EXPECT_GT(std::abs(reference.value.B(13, 2)), 1e-3);
      }
    }
  }
}

// the motion is the engine's: where its solver ends early the next substep begins there, also where the interval is
// differenced at once, and for the reference
TEST_F(LinearizeTest, SubstepsGoThroughThePointsOfAnEngineThatEndsEarly) {
  for (const char* actuators : {"", kDelayed}) {
    const ModelPtr model =
        LoadModelFromString(LimbScene("<option timestep='0.002' solver='PGS' iterations='3'/>", actuators));
    const DataPtr data = PastTheFirstTouch(model.get());
    const ReferenceDerivative reference = Reference(model.get(), data.get(), {.substeps = 3});
    for (Level level : {Level::kBest, Level::kStep}) {
      ExpectAgrees(model.get(), Linearize(model.get(), data.get(), {.level = level, .substeps = 3}), reference,
                   actuators + std::string(ToString(level)));
    }

    // an engine that converges gets elsewhere, and the derivative with it
    const ModelPtr converging = CopyModel(model.get());
    converging->opt.iterations = 20000;
    converging->opt.tolerance = 0;
    const StepDerivative early = Linearize(model.get(), data.get(), {.substeps = 3}),
                         late = Linearize(converging.get(), data.get(), {.substeps = 3});
    EXPECT_GT((early.A - late.A).norm(), 1e-4 * late.A.norm());

    // an interval of three steps is three intervals of one
    if (model->nhistory > 0) continue;
    MatrixXd A = MatrixXd::Identity(early.A.rows(), early.A.cols());
    for (int k = 0; k < 3; ++k) {
      A = Linearize(model.get(), data.get()).A * A;
      mj_step(model.get(), data.get());
    }
    EXPECT_TRUE(MatricesNearRelative(early.A, A, 1e-12));
  }
}

TEST_F(LinearizeTest, SensorsAreThoseOfTheFirstSubstep) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const VectorXd x = support::RandomState(model.get(), 3), u = support::RandomControl(model.get(), 4);
  StepDerivative one, four;
  Linearizer(model.get(), {.level = Level::kStep, .substeps = 1}).Linearize(x, u, &one);
  Linearizer(model.get(), {.level = Level::kStep, .substeps = 4}).Linearize(x, u, &four);
  EXPECT_TRUE(BitwiseEqual(one.C, four.C));
  EXPECT_TRUE(BitwiseEqual(one.D, four.D));
}

TEST_F(LinearizeTest, TheLastKnotHasSensorsWithoutControl) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const VectorXd x = support::RandomState(model.get(), 5);
  for (Level level : {Level::kBest, Level::kStep}) {
    Linearizer linearizer(model.get(), {.level = level});
    StepDerivative last, knot;
    linearizer.LinearizeSensors(x, &last);
    linearizer.Linearize(x, VectorXd::Zero(2), &knot);
    EXPECT_TRUE(MatricesNearRelative(last.C, knot.C, 1e-8, SensorNames(model.get())));
    EXPECT_EQ(last.A.size() + last.B.size() + last.D.size(), 0);
  }
}

TEST_F(LinearizeTest, WithoutSensorsCAndDAreEmptyAndAAndBTheSame) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const VectorXd x = DefaultState(model.get()), u = support::RandomControl(model.get(), 6);
  StepDerivative with, without;
  Linearizer(model.get(), {.level = Level::kStep}).Linearize(x, u, &with);
  Linearizer(model.get(), {.level = Level::kStep, .sensors = false}).Linearize(x, u, &without);
  EXPECT_EQ(without.C.size() + without.D.size(), 0);
  EXPECT_TRUE(BitwiseEqual(with.A, without.A));
  EXPECT_TRUE(BitwiseEqual(with.B, without.B));
}

// velocities of contacts have no closed form and are differenced: not when only the tip is read
TEST_F(LinearizeTest, SensorsThatNobodyReadsAreLeftOut) {
  for (const char* option : {"", "<option integrator='RK4'/>", "<option noslip_iterations='3'/>"}) {
    std::string text = LimbScene(option);
    text.replace(text.find("<velocimeter"), 0, "<contact body1='root' data='linvel'/>");
    const ModelPtr model = LoadModelFromString(text);
    const mjModel* m = model.get();
    const VectorXd x = DefaultState(m), u = support::RandomControl(m, 6);
    std::vector<char> read(m->nsensordata, 0);
    read[1] = 1;  // one entry of the tip's place: the sensor is read
    for (Level level : {Level::kBest, Level::kResidual, Level::kStep}) {
      if (level == Level::kResidual && m->opt.noslip_iterations > 0) continue;
      Linearizer linearizer(m, {.level = level});
      StepDerivative all, all_last, some, some_last;
      linearizer.Linearize(x, u, &all);
      linearizer.LinearizeSensors(x, &all_last);
      linearizer.SelectSensors(read);
      linearizer.Linearize(x, u, &some);
      linearizer.LinearizeSensors(x, &some_last);
      EXPECT_TRUE(BitwiseEqual(some.A, all.A) && BitwiseEqual(some.B, all.B)) << option;
      for (auto [value, expected] : {std::pair(&some.C, &all.C), {&some.D, &all.D}, {&some_last.C, &all_last.C}}) {
        ASSERT_EQ(value->rows(), m->nsensordata);
        EXPECT_GT(expected->bottomRows(9).cwiseAbs().maxCoeff(), 0);
        EXPECT_TRUE(BitwiseEqual(value->topRows(3), expected->topRows(3))) << option << " " << ToString(level);
        EXPECT_TRUE(BitwiseEqual(value->bottomRows(9), MatrixXd::Zero(9, value->cols()))) << option;
      }
      if (level == Level::kBest) {
        EXPECT_EQ(all.coverage.Worst(), Level::kResidual);
        EXPECT_EQ(some.coverage.Worst(), Level::kAnalytic);
      }
      linearizer.SelectSensors({});
      linearizer.Linearize(x, u, &some);
      EXPECT_TRUE(SameDerivative(some, all));
      EXPECT_ERROR(linearizer.SelectSensors({1}), ErrorCode::kDimensionMismatch, "1", "12");
    }
  }
}

TEST_F(LinearizeTest, RefusesWhatIsNotFiniteByName) {
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  Linearizer linearizer(model.get());
  StepDerivative out;
  const VectorXd x = DefaultState(model.get()), u = VectorXd::Zero(2);
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    VectorXd x_bad = x, u_bad = u;
    x_bad[8] = bad;
    u_bad[0] = bad;
    // the engine would step as if the control were zero, and B would come out 0
    EXPECT_ERROR(linearizer.Linearize(x_bad, u, &out), ErrorCode::kInvalidArgument, "x is not finite", "qvel[");
    EXPECT_ERROR(linearizer.Linearize(x, u_bad, &out), ErrorCode::kInvalidArgument, "u is not finite: ctrl[knee]");
    EXPECT_ERROR(linearizer.LinearizeSensors(x_bad, &out), ErrorCode::kInvalidArgument, "x is not finite");
  }
  EXPECT_ERROR(linearizer.Linearize(x, VectorXd::Zero(3), &out), ErrorCode::kDimensionMismatch, "u has 3 entries",
               "nu = 2");
  EXPECT_ERROR(linearizer.Linearize(VectorXd(), u, &out), ErrorCode::kDimensionMismatch, "x has 0 entries");
  EXPECT_ERROR(Linearizer(model.get(), {.substeps = 0}), ErrorCode::kInvalidArgument, "substeps is 0");
  EXPECT_ERROR(Linearizer(model.get(), {.eps = -1}), ErrorCode::kInvalidArgument, "eps");
  EXPECT_ERROR(Linearizer(model.get(), {.eps = std::nan("")}), ErrorCode::kInvalidArgument, "eps");
}

// one slide: the derivative is made of the time step alone, and no dynamics fail first
TEST_F(LinearizeTest, OptionsThatDoNotStepAreRefusedAtEveryLevel) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j'/></actuator></mujoco>");
  const DataPtr data = MakeData(model.get());
  const VectorXd x = DefaultState(model.get()), u = VectorXd::Zero(1);
  const auto refused = [&](auto* option, auto value, const char* text) {
    for (const Level level : {Level::kBest, Level::kAnalytic, Level::kResidual, Level::kStep}) {
      const auto code = ErrorCode::kInvalidArgument;
      Linearizer made_before(model.get(), {.level = level});
      const auto good = std::exchange(*option, value);
      StepDerivative out;
      StepVjp vjp;
      AccelerationDerivative acceleration;
      EXPECT_ERROR(Linearizer(model.get(), {.level = level}), code, text);
      EXPECT_ERROR(made_before.Linearize(x, u, &out), code, text);
      EXPECT_ERROR(made_before.LinearizeSensors(x, &out), code, text);
      EXPECT_ERROR(made_before.LinearizeAcceleration(x, u, &acceleration), code, text);
      EXPECT_ERROR(made_before.Vjp(x, u, x, &vjp), code, text);
      EXPECT_ERROR(Certify(model.get(), data.get()), code, text);
      EXPECT_ERROR(Reference(model.get(), data.get()), code, text);
      EXPECT_ERROR(Simulator(model.get(), GetContext(model.get(), data.get()), 1, 1), code, text);
      *option = good;
      made_before.Linearize(x, u, &out);
      EXPECT_EQ(out.status, StepStatus::kOk);
    }
  };
  refused(&model->opt.timestep, std::nan(""), "opt.timestep is nan");
  refused(&model->opt.timestep, 0.0, "opt.timestep is 0 s");
  refused(&model->opt.timestep, -0.01, "opt.timestep is -0.01 s");
  refused(&model->opt.integrator, 77, "opt.integrator is 77");
  refused(&model->opt.cone, 77, "opt.cone is 77");
  refused(&model->opt.solver, 77, "opt.solver is 77");
}

// each factor is a number, h² / m and the product of two steps are none
TEST_F(LinearizeTest, ProductsThatOverflowAreNoDerivative) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide' damping='1'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j'/></actuator></mujoco>");
  const VectorXd x = DefaultState(model.get()), u = VectorXd::Zero(1);
  const auto fails = [&](const LinearizeOptions& options) {
    StepDerivative out;
    try {
      Linearizer(model.get(), options).Linearize(x, u, &out);
    } catch (const Error& error) {
      return std::string(error.what()).find("not finite") != std::string::npos;
    }
    return out.status != StepStatus::kOk;
  };
  model->opt.timestep = 1e200;
  model->dof_damping[0] = 0;
  for (const Level level : {Level::kBest, Level::kAnalytic, Level::kResidual}) EXPECT_TRUE(fails({.level = level}));
  model->opt.timestep = 1e-3;
  model->dof_damping[0] = -1e205;
  model->opt.disableflags |= mjDSBL_EULERDAMP;
  StepDerivative out;
  Linearizer(model.get(), {.level = Level::kAnalytic}).Linearize(x, u, &out);
  EXPECT_EQ(out.status, StepStatus::kOk);
  EXPECT_GT(std::abs(out.A(1, 1)), 1e200);
  EXPECT_TRUE(fails({.level = Level::kAnalytic, .substeps = 2}));
  TakeWarnings();
}

TEST_F(LinearizeTest, AStepThatFailsIsAStatusAndNotTheDerivativeOfAResetSystem) {
  // with automatic reset on, the default, the engine would reset its data in the middle of the differences
  const ModelPtr model = LoadModelFromString(LimbScene(""));
  const VectorXd x = DefaultState(model.get());
  for (Level level : {Level::kBest, Level::kStep}) {
    Linearizer linearizer(model.get(), {.level = level});
    StepDerivative out;
    VectorXd x_bad = x, u_bad = VectorXd::Zero(2);
    x_bad[8] = 1e11;
    linearizer.Linearize(x_bad, VectorXd::Zero(2), &out);
    EXPECT_EQ(out.status, StepStatus::kBadState);
    linearizer.LinearizeSensors(x_bad, &out);
    EXPECT_EQ(out.status, StepStatus::kBadState);
    u_bad[1] = 1e11;
    linearizer.Linearize(x, u_bad, &out);
    EXPECT_EQ(out.status, StepStatus::kBadControl);

    // an acceleration too large: only the step finds out
    const DataPtr pushed = MakeData(model.get());
    pushed->qfrc_applied[0] = 1e14;
    linearizer.SetContext(GetContext(model.get(), pushed.get()));
    linearizer.Linearize(x, VectorXd::Zero(2), &out);
    EXPECT_EQ(out.status, StepStatus::kBadState);

    // and the next point is as good as ever
    linearizer.SetContext(GetContext(model.get(), MakeData(model.get()).get()));
    linearizer.Linearize(x, VectorXd::Zero(2), &out);
    EXPECT_EQ(out.status, StepStatus::kOk);
  }
  TakeWarnings();
}

TEST_F(LinearizeTest, CallsAfterTheFirstAllocateNothing) {
  for (const char* option : {"", "<option integrator='RK4'/>"}) {
    const ModelPtr model = LoadModelFromString(LimbScene(option));
    const VectorXd x1 = DefaultState(model.get()), x2 = support::RandomState(model.get(), 7);
    const VectorXd u1 = VectorXd::Zero(2), u2 = Eigen::Vector2d(2, -1);
    for (int substeps : {1, 3}) {
      Linearizer linearizer(model.get(), {.level = Level::kStep, .substeps = substeps});
      StepDerivative out, last;
      linearizer.Linearize(x1, u1, &out);
      linearizer.LinearizeSensors(x1, &last);
      const long before = Allocations();
      linearizer.Linearize(x2, u2, &out);
      linearizer.Linearize(x1, u1, &out);
      linearizer.LinearizeSensors(x2, &last);
      EXPECT_EQ(Allocations() - before, 0) << option << " substeps " << substeps;
    }
  }
}

TEST_F(LinearizeTest, SaysWhichLevelItCameFromAndWhyNotABetterOne) {
  const ModelPtr model = LoadModelFromString(LimbScene("<option integrator='RK4'/>", kDelayed));
  const StepDerivative step = Linearize(model.get(), MakeData(model.get()).get(), {.level = Level::kStep});
  ASSERT_EQ(step.coverage.terms.size(), 1u);
  EXPECT_EQ(step.coverage.terms[0].term, "step");
  EXPECT_EQ(step.coverage.Worst(), Level::kStep);
  EXPECT_NE(step.coverage.terms[0].reason.find("mjd_transitionFD refuses"), std::string::npos);

  // the history of a delay is no part of x: over substeps no chain of single steps is right
  Linearizer best(model.get(), {.substeps = 2});
  StepDerivative out;
  best.Linearize(DefaultState(model.get()), VectorXd::Zero(3), &out);
  EXPECT_EQ(out.coverage.Worst(), Level::kStep);
  EXPECT_NE(out.coverage.terms[0].reason.find("delays"), std::string::npos) << out.coverage.terms[0].reason;
  Linearizer residual(model.get(), {.level = Level::kResidual, .substeps = 2});
  EXPECT_ERROR(residual.Linearize(DefaultState(model.get()), VectorXd::Zero(3), &out), ErrorCode::kUnsupported,
               "delays");
}

// what pulls at a tendon may come and go with the model's values, at one Linearizer
TEST_F(LinearizeTest, TakesTheModelAsItIsNow) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="hook" pos=".3 0 1"/>
    <body><joint axis="0 1 0"/><joint axis="1 0 .2"/><geom size=".1" pos=".2 0 .1"/><site name="eye" pos=".3 .1 0"/></body></worldbody>
    <tendon><spatial name="rope"><site site="eye"/><site site="hook"/></spatial></tendon></mujoco>)");
  const VectorXd x = support::RandomState(model.get(), 3);
  Linearizer linearizer(model.get());
  StepDerivative step;
  linearizer.Linearize(x, VectorXd(), &step);
  const MatrixXd alone = step.A;
  for (mjtNum* value : {model->tendon_stiffness, model->tendon_damping, model->tendon_armature,
                        model->tendon_frictionloss, model->tendon_stiffnesspoly, model->tendon_dampingpoly}) {
    value[0] = 0.7;
    linearizer.Linearize(x, VectorXd(), &step);
    EXPECT_GT((step.A - alone).norm(), 1e-5);
    StepDerivative fresh;
    Linearizer(model.get()).Linearize(x, VectorXd(), &fresh);
    EXPECT_TRUE(MatricesNearRelative(step.A, fresh.A, 1e-12));
    value[0] = 0;
    linearizer.Linearize(x, VectorXd(), &step);
    EXPECT_TRUE(MatricesNearRelative(step.A, alone, 1e-12));
  }
}

TEST_F(LinearizeTest, RefusesAModelWhoseStepCannotBeRepeated) {
  const ModelPtr model =
      LoadModelFromString("<mujoco><option integrator='discrete'><flag ipc='enable'/></option></mujoco>");
  EXPECT_ERROR(Linearizer(model.get()), ErrorCode::kUnsupported, "ipc");
  EXPECT_ERROR(Reference(model.get(), MakeData(model.get()).get()), ErrorCode::kUnsupported, "ipc");
}

TEST_F(LinearizeTest, NoModelAndNoLevelAreErrors) {
  EXPECT_ERROR(Certify(nullptr, nullptr), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(Reference(nullptr, nullptr), ErrorCode::kInvalidArgument, "the model is NULL");
  const ModelPtr model = LoadModelFromString("<mujoco/>");
  for (const int level : {-1, 4, 9}) {
    EXPECT_ERROR(Linearizer(model.get(), {.level = static_cast<Level>(level)}), ErrorCode::kInvalidArgument,
                 "level is ", ", it is kBest (0)");
  }
}

// (I6) the engine reads a stage's rotation off its orientation: beyond half a turn it is that of the way back
TEST_F(LinearizeTest, StagesOfRungeKuttaTurnByMoreThanHalfATurn) {
  constexpr double kTolerance = 1e-7, kRounding = 1e-11;  // of a block's largest entry; of products beside matrices
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="RK4" timestep="0.005"/><worldbody>
      <body><joint type="ball" damping="0.02"/><geom type="ellipsoid" size=".1 .12 .15" pos="0 .05 0" contype="0"/>
        <body pos="0 .1 .2"><joint axis="1 0 .3"/><geom size=".05" pos=".1 0 0" contype="0"/></body></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  for (double speed : {400.0, 900.0, 1500.0}) {
    SCOPED_TRACE(speed);
    const DataPtr data = MakeData(m);
    for (int k = 0; k < 3; k++) data->qvel[k] = speed * (0.8 - 0.5 * k);
    const StepDerivative step = Linearize(m, data.get());
    EXPECT_EQ(step.coverage.Worst(), Level::kAnalytic);
    const DerivativeComparison comparison = Compare(m, step, Reference(m, data.get()), {.tolerance = kTolerance});
    for (const BlockComparison& block : comparison.blocks)
      EXPECT_EQ(block.wrong, 0) << block.name << " " << block.worst.row_name;

    support::ExpectProducts(m, data.get(), {.sensors = false}, kRounding);
  }
}

// the engine would step as if they were another number, or fail without a word about them
TEST_F(LinearizeTest, ForcesAndMocapPosesThatAreNoNumbersAreNamed) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body name='post'><geom size='.1'/></body><body name='target' mocap='true'/>"
      "<body name='arm' pos='0 0 2'><joint name='elbow'/><geom size='.1' pos='.2 0 0'/></body></worldbody></mujoco>");
  const DataPtr good = MakeData(model.get());
  const auto refused = [&](mjtNum* (*entry)(mjData*), const char* text) {
    const DataPtr data = MakeData(model.get());
    *entry(data.get()) = std::numeric_limits<double>::quiet_NaN();
    EXPECT_ERROR(Linearize(model.get(), data.get()), ErrorCode::kInvalidArgument, text);
    EXPECT_ERROR(Certify(model.get(), data.get()), ErrorCode::kInvalidArgument, text);
    EXPECT_ERROR(Reference(model.get(), data.get()), ErrorCode::kInvalidArgument, text);
    EXPECT_ERROR(Simulator(model.get(), GetContext(model.get(), data.get()), 1, 1), ErrorCode::kInvalidArgument, text);
    Simulator simulator(model.get(), GetContext(model.get(), good.get()), 1, 1);
    EXPECT_ERROR(simulator.SetContext(GetContext(model.get(), data.get())), ErrorCode::kInvalidArgument, text);
  };
  refused([](mjData* d) { return d->qfrc_applied; }, "qfrc_applied is not finite: entry 0, of joint elbow, is nan");
  refused([](mjData* d) { return d->xfrc_applied + 6 * 3 + 2; }, "xfrc_applied is not finite: entry 20, of body arm");
  refused([](mjData* d) { return d->mocap_pos + 1; }, "mocap_pos is not finite: entry 1, of body target");
  refused([](mjData* d) { return d->mocap_quat + 3; }, "mocap_quat is not finite: entry 3, of body target");

  // what no step reads may be anything
  const ModelPtr with_user = LoadModelFromString(
      "<mujoco><size nuserdata='2'/><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>");
  const DataPtr data = MakeData(with_user.get());
  data->userdata[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Linearize(with_user.get(), data.get()).status, StepStatus::kOk);
}

// over substeps or stages: no step's word that a column is no derivative is lost
TEST_F(LinearizeTest, CoverageOfSeveralStepsIsThatOfTheWorst) {
  const TermCoverage fine{"mass", Level::kAnalytic, ""}, differenced{"mass", Level::kResidual, "no closed form"},
      open{"mass", Level::kAnalytic, "no derivative: on a switch"}, other{"rne", Level::kAnalytic, ""};
  const auto sum = [](const TermCoverage& first, const TermCoverage& second) {
    Coverage all{{first}};
    all.Add({{second}});
    return all.terms;
  };
  for (const auto& [a, b] : {std::pair(fine, differenced), std::pair(differenced, fine)}) {
    ASSERT_EQ(sum(a, b).size(), 1u);
    EXPECT_EQ(sum(a, b)[0].level, Level::kResidual);
    EXPECT_EQ(sum(a, b)[0].reason, "no closed form");
  }
  for (const auto& [a, b] : {std::pair(open, differenced), std::pair(differenced, open)}) {
    EXPECT_EQ(sum(a, b)[0].level, Level::kResidual);
    EXPECT_TRUE(sum(a, b)[0].IsOpen()) << sum(a, b)[0].reason;
  }
  EXPECT_TRUE(sum(fine, open)[0].IsOpen());
  EXPECT_TRUE(sum(open, fine)[0].IsOpen());
  EXPECT_FALSE(sum(fine, differenced)[0].IsOpen());
  EXPECT_EQ(sum(fine, other).size(), 2u);
}

// what a caller's derivative has of another call is written over, from longer and shorter lists and other levels
TEST_F(LinearizeTest, CoverageIsThatOfTheLastCall) {
  std::vector<std::pair<ModelPtr, LinearizeOptions>> calls;
  const auto add = [&](const std::string& option, const char* actuators, const LinearizeOptions& options) {
    calls.emplace_back(LoadModelFromString(LimbScene(option, actuators)), options);
  };
  add("", "", {});
  add("", "", {.sensors = false});
  add("", "", {.sensors = false, .smoothing = 0.01});
  add("<option integrator='RK4'/>", "", {});
  add("<option integrator='discrete'/>", "", {.sensors = false});
  add("", "", {.level = Level::kResidual});
  add("<option density='1000' wind='0 0 1'/>", "<adhesion name='grip' body='root' gain='5' ctrlrange='0 1'/>", {});
  add("", "", {.level = Level::kStep});
  StepDerivative reused;
  for (std::size_t n = 0; n < calls.size(); n++) {
    for (const std::size_t k : {n, std::size_t{0}, n, calls.size() - 1 - n}) {
      const mjModel* m = calls[k].first.get();
      Linearizer linearizer(m, calls[k].second);
      StepDerivative fresh;
      linearizer.Linearize(DefaultState(m), support::RandomControl(m, 6), &fresh);
      linearizer.Linearize(DefaultState(m), support::RandomControl(m, 6), &reused);
      ASSERT_EQ(reused.coverage.terms.size(), fresh.coverage.terms.size()) << n << " " << k;
      ASSERT_GT(fresh.coverage.terms.size(), 0u);
      for (std::size_t i = 0; i < fresh.coverage.terms.size(); i++) {
        const TermCoverage &was = fresh.coverage.terms[i], &is = reused.coverage.terms[i];
        EXPECT_EQ(is.term, was.term);
        EXPECT_EQ(is.level, was.level);
        EXPECT_EQ(is.reason, was.reason);
      }
    }
  }
}

TEST_F(LinearizeTest, AModelWithoutStateOrControlHasEmptyMatrices) {
  const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>");
  for (Level level : {Level::kBest, Level::kStep}) {
    const StepDerivative d = Linearize(model.get(), MakeData(model.get()).get(), {.level = level});
    EXPECT_EQ(d.status, StepStatus::kOk);
    EXPECT_EQ(d.A.size() + d.B.size() + d.C.size() + d.D.size(), 0);
  }
}

}  // namespace
}  // namespace costate
