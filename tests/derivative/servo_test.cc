#include "derivative/servo.h"

#include <costate/certificate.h>
#include <costate/derivative_check.h>

#include <algorithm>
#include <string>
#include <vector>

#include "derivative/analytic.h"
#include "support/engine_test.h"
#include "support/find_switch.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using ServoTest = support::EngineTest;

std::string Model(const std::string& actuators) {
  return R"(
    <mujoco>
      <option timestep="0.004"/>
      <worldbody>
        <site name="fixed" euler="10 20 30"/>
        <body>
          <joint name="hinge" axis="0 1 0.2" damping="0.1"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
          <site name="a" pos="0.2 0 0" euler="30 0 10"/>
          <body pos="0.3 0 0"><joint name="ball" type="ball" damping="0.02"/><geom type="box" size="0.1 0.05 0.07" pos="0.1 0 0" contype="0"/>
            <site name="b" pos="0.1 0.02 0" euler="0 40 20"/>
            <body pos="0.2 0 0"><joint name="tip" axis="0 0 1"/><geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" contype="0"/>
              <site name="c" pos="0.1 0 0.03"/>
            </body>
          </body>
        </body>
      </worldbody>
      <tendon><spatial name="rope"><site site="fixed"/><site site="c"/></spatial></tendon>
      <actuator>)" +
         actuators + "</actuator></mujoco>";
}

// level 1 refuses nothing and agrees with the step; `integrators` tells which can be asked
void ExpectStep(const std::string& actuators, const std::vector<int>& integrators) {
  const ModelPtr model = LoadModelFromString(Model(actuators));
  mjModel* m = model.get();
  for (int integrator : integrators) {
    for (unsigned seed = 1; seed < 5; seed++) {
      SCOPED_TRACE(actuators + ", integrator " + std::to_string(integrator) + ", state " + std::to_string(seed));
      m->opt.integrator = integrator;
      const DataPtr point = MakeData(m);
      SetState(m, point.get(), support::RandomState(m, seed, {.position = 0.6, .velocity = 2}));
      const VectorXd u = support::RandomControl(m, seed + 7);
      mju_copy(point->ctrl, u.data(), static_cast<int>(m->nu));
      const DataPtr data = MakeData(m);
      mj_copyState(m, point.get(), data.get(), mjSTATE_INTEGRATION);
      AnalyticBackend backend(m, true);
      StepDerivative out;
      std::string missing;
      ASSERT_TRUE(backend.Linearize(m, data.get(), false, &out, &missing)) << missing;
      MatrixXd value(out.A.rows(), out.A.cols() + out.B.cols());
      value << out.A, out.B;
      const support::StepReference reference = support::MakeStepReference(m, point.get());
      const int nv = static_cast<int>(m->nv), rows[] = {nv, nv, static_cast<int>(m->na)};
      for (int block = 0, row = 0; block < 3; row += rows[block++]) {
        EXPECT_TRUE(support::AgreesWithReference(
            value.middleRows(row, rows[block]), reference.step.middleRows(row, rows[block]),
            reference.step_error.middleRows(row, rows[block]), support::kReference));
      }

      // products contract the same entries
      mj_copyState(m, point.get(), data.get(), mjSTATE_INTEGRATION);
      const VectorXd lambda = support::Random(seed).Vector(static_cast<int>(value.rows()));
      StepVjp pulled;
      ASSERT_TRUE(backend.Vjp(m, data.get(), lambda, false, &pulled, &missing)) << missing;
      VectorXd both(value.cols());
      both << pulled.x, pulled.u;
      EXPECT_TRUE(support::MatricesNearRelative(both, value.transpose() * lambda, support::kReference));
    }
  }
}

const std::vector<int> kAll = {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_IMPLICIT, mjINT_RK4};
const std::vector<int> kSingleStage = {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_IMPLICIT};

// (A7) every set of inputs, integral with and without saturation, rate limits within and beyond, several transmissions
TEST_F(ServoTest, PidAgreesWithTheStep) {
  ExpectStep("<pid joint='hinge' kp='20' kv='2'/>", kAll);
  ExpectStep("<pid joint='hinge' kp='20' kv='2' ki='30' input='pos vel ff' forcerange='-9 9'/>", kAll);
  ExpectStep("<pid joint='hinge' kp='20' kv='2' ki='30' imax='0.2' slewmax='1'/>", kSingleStage);
  ExpectStep("<pid tendon='rope' kp='20' kv='2' ki='30' slewmax='1000' input='pos'/>", kSingleStage);
  ExpectStep("<pid joint='ball' gear='1 0.2 0.3' kp='3' kv='0.2' ki='4' input='pos ff'/>", kAll);
  ExpectStep("<pid site='b' refsite='a' gear='0 0 0 1 0.2 0.3' kp='3' kv='0.2'/>", kAll);
}

// (A7) a setpoint of a rotation more than half a turn away is that of a turn less, whose force is within the range
TEST_F(ServoTest, PositionServosOfRotationsTakeTheNearestSetpoint) {
  ExpectStep("<position joint='ball' gear='.1 .02 .03' kp='30' kv='.02' forcerange='-11 11'/>", kAll);
  ExpectStep("<position site='b' refsite='a' gear='0 0 0 .1 .02 .03' kp='30' kv='.02' forcerange='-11 11'/>", kAll);
  ExpectStep("<intvelocity joint='ball' gear='.1 .02 .03' kp='30' forcerange='-11 11'/>", kAll);
}

// (A8)
TEST_F(ServoTest, MotorsAgreeWithTheStep) {
  const std::string motor = "<dcmotor joint='hinge' resistance='2' motorconst='0.3' ";
  ExpectStep(motor + "/>", kAll);
  ExpectStep(motor + "cogging='0.3 4 0.2' saturation='0.05 0 0'/>", kAll);
  ExpectStep(motor + "inductance='0 0.01'/>", kAll);
  ExpectStep(motor + "inductance='0 0.01' saturation='0 0 1'/>", kAll);
  ExpectStep(motor + "lugre='50 2 0.3 0.5 0.7'/>", kSingleStage);
  ExpectStep(motor + "lugre='50 2 0.3 0.5 0.7' saturation='0.01 0 0'/>", kSingleStage);
  ExpectStep(motor + "thermal='2 3 0 0.004 25 20'/>", kAll);
  // a resistance that the cold has made negative
  ExpectStep(motor + "inductance='0 0.01' thermal='2 3 0 0.1 45 5'/>", kSingleStage);
  ExpectStep(motor + "input='pos vel ff voltage' controller='3 2 0.4 0 0 0'/>", kAll);
  ExpectStep(motor +
                 "input='pos vel' controller='3 2 0.4 1 0.1 2' inductance='0 0.02' thermal='2 3 0 0.004 25 20' "
                 "lugre='50 2 0.3 0.5 0.7' cogging='0.3 4 0.2'/>",
             kSingleStage);
  ExpectStep(motor +
                 "input='pos vel' controller='3 2 0.4 1 0.1 2' inductance='0 0.02' thermal='2 3 0 0.004 25 20' "
                 "cogging='0.3 4 0.2'/>",
             kAll);
  ExpectStep("<dcmotor tendon='rope' resistance='2' motorconst='0.3' gear='3' inductance='0 0.01'/>", kAll);
  ExpectStep("<dcmotor joint='tip' resistance='2' motorconst='0.3' input='none' lugre='50 2 0.3 0.5 0.7'/>",
             kSingleStage);
}

// (A8) cogging and friction come behind the limit: they alone may be more than the motor's own torque may
TEST_F(ServoTest, OnlyTheTorqueOfAMotorSaturates) {
  const ModelPtr model = LoadModelFromString(
      Model("<dcmotor joint='hinge' resistance='2' motorconst='0.3' cogging='5 1 1.5' saturation='0.4 0 0'/>"));
  mjModel* m = model.get();
  for (const int integrator : {mjINT_EULER, mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_DISCRETE}) {
    for (const double voltage : {1.0, 4.0}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(voltage));
      m->opt.integrator = integrator;
      const DataPtr data = MakeData(m);
      data->ctrl[0] = voltage;
      mj_forward(m, data.get());
      ASSERT_GT(data->actuator_force[0], 4);
      const bool saturated = 0.15 * voltage > 0.4;
      const Certificate certificate = Certify(m, data.get());
      const Switch* clamp = support::Find(certificate, "force of actuator 0", "clamp");
      ASSERT_NE(clamp, nullptr);
      EXPECT_EQ(clamp->active, saturated);
      if (!saturated) {
        EXPECT_NEAR(clamp->distance, 0.4 - 0.15 * voltage, 1e-12);
      }
      const ReferenceDerivative reference = Reference(m, data.get());
      for (const Level level : {Level::kBest, Level::kResidual}) {
        const StepDerivative value = Linearize(m, data.get(), {.level = level});
        EXPECT_EQ(value.B.norm() == 0, saturated) << ToString(level);
        EXPECT_TRUE(Compare(m, value, reference, {.tolerance = 1e-8}).agrees) << ToString(level);
      }
    }
  }
}

// (A8) a bristle that is bent bends on at a rate of |velocity|: where that turns act' has a corner, and so have the
// laws of motors and servos where a rate or a voltage comes to its limit
TEST_F(ServoTest, CornersOfTheLawsAreInTheCertificate) {
  struct {
    const char *actuator, *next;
    double velocity, control, act[2];
    bool corner;
  } cases[] = {
      {"<dcmotor joint='hinge' resistance='2' motorconst='.3' lugre='50 2 .3 .5 .7'/>",
       "reversal",
       2e-7,
       0,
       {1e-2},
       true},
      {"<dcmotor joint='hinge' resistance='2' motorconst='.3' lugre='50 2 .3 .5 .7'/>",
       "reversal",
       2e-7,
       0,
       {0},
       false},
      {"<dcmotor joint='hinge' resistance='2' motorconst='.3' lugre='50 2 .3 .5 .7'/>",
       "reversal",
       1e-3,
       0,
       {1e-2},
       false},
      {"<pid joint='hinge' kp='3' input='pos' slewmax='2'/>", "corners of servos", 0, 0.1 + 0.008 + 3e-7, {0.1}, true},
      {"<pid joint='hinge' kp='3' input='pos' slewmax='2'/>", "corners of servos", 0, 0.1 + 0.009, {0.1}, false},
      {"<dcmotor joint='hinge' resistance='2' motorconst='.5' input='ff' controller='0 0 0 0 0 4'/>",
       "corners of servos",
       0,
       1 - 1e-7,
       {},
       true},
      {"<dcmotor joint='hinge' resistance='2' motorconst='.5' input='ff' controller='0 0 0 0 0 4'/>",
       "corners of servos",
       0,
       0.9,
       {},
       false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.actuator);
    const ModelPtr model = LoadModelFromString(Model(c.actuator));
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qvel[0] = c.velocity;
    data->ctrl[0] = c.control;
    mju_copy(data->act, c.act, static_cast<int>(m->na));
    const Certificate certificate = Certify(m, data.get());
    EXPECT_EQ(certificate.label == Smoothness::kModeCrossing, c.corner) << c.control;
    bool found = false;
    for (const Switch& s : certificate.switches) found = found || (s.next == c.next && s.distance <= 1e-6);
    EXPECT_EQ(found, c.corner);
    if (c.corner) continue;
    const ReferenceDerivative reference = Reference(m, data.get());
    EXPECT_EQ(std::count(reference.nonsmooth_column.begin(), reference.nonsmooth_column.end(), true), 0);
    EXPECT_TRUE(Compare(m, Linearize(m, data.get()), reference, {.tolerance = 1e-8}).agrees);
  }
}

// (A8) an integral that rests on its limit, where the error pushes it: a nudge to either side ends there again
TEST_F(ServoTest, AnIntegralHeldAtItsLimitStaysThere) {
  const ModelPtr model = LoadModelFromString(
      Model("<dcmotor joint='hinge' resistance='2' motorconst='0.3' input='pos' controller='3 2 0.4 0 0.1'/>"));
  const DataPtr data = MakeData(model.get());
  for (const double sign : {-1, 1}) {
    data->ctrl[0] = 9 * sign;
    data->act[0] = 0.1 * sign;
    const StepDerivative value = Linearize(model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
    EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step.leftCols(value.A.cols()),
                                             reference.step_error.leftCols(value.A.cols()), support::kReference));
    EXPECT_EQ(value.A.bottomRightCorner(1, 1)(0, 0), 0);
    data->ctrl[0] = -9 * sign;
    EXPECT_EQ(Linearize(model.get(), data.get()).A.bottomRightCorner(1, 1)(0, 0), 1);
  }
}

// (A7), (A8) Within its limit an integral runs, on it it is held: the step jumps where stages of RK4 run on from
// within, and where act' is not clamped there. All levels are on the side of the point; act' of a motor comes back to
// the limit.
TEST_F(ServoTest, AnIntegralOnItsLimitMovesBeyondItAlone) {
  const std::string motor = "<dcmotor joint='hinge' resistance='2' motorconst='0.3' input='pos' controller='3 2 0.4 0 ";
  const struct {
    std::string actuator;
    double stays;
  } cases[] = {{motor + "0.1'/>", 0},
               {"<pid joint='hinge' kp='20' kv='2' ki='30' imax='0.1'/>", 1},
               {"<pid joint='hinge' kp='20' kv='2' ki='30' imax='0.1' slewmax='1000'/>", 1}};
  for (const auto& c : cases) {
    const ModelPtr model = LoadModelFromString(Model(c.actuator));
    mjModel* m = model.get();
    const int integral = static_cast<int>(m->na) - 1, column = 2 * static_cast<int>(m->nv) + integral;
    for (const int integrator : kSingleStage) {
      for (const double sign : {-1, 1}) {
        for (const double inside : {0.0, 1e-5}) {
          m->opt.integrator = integrator;
          if (integrator == mjINT_EULER && m->na == 1) m->opt.integrator = mjINT_RK4;
          SCOPED_TRACE(c.actuator + " " + std::to_string(m->opt.integrator) + " " + std::to_string(sign * inside));
          const DataPtr data = MakeData(m);
          data->ctrl[0] = 9 * sign;
          data->act[0] = 8.9 * sign;
          data->act[integral] = (0.1 - inside) * sign;
          const ReferenceDerivative reference = Reference(m, data.get());
          EXPECT_FALSE(reference.nonsmooth_column[column]);
          for (const Level level : {Level::kAnalytic, Level::kResidual}) {
            const StepDerivative value = Linearize(m, data.get(), {.level = level});
            const DerivativeComparison comparison = Compare(m, value, reference, {.tolerance = 1e-7});
            EXPECT_TRUE(comparison.agrees) << ToString(level);
            if (inside == 0) {
              EXPECT_NEAR(value.A(column, column), c.stays, 1e-9) << ToString(level);
            }
          }
          const Certificate certificate = Certify(m, data.get());
          const Switch* limit = support::Find(certificate, "integral of actuator 0", "limit");
          ASSERT_NE(limit, nullptr);
          EXPECT_NEAR(limit->distance, inside, 1e-15);
          EXPECT_EQ(limit->state, inside == 0 ? "held" : "runs");
          if (inside == 0) {
            EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
          }
        }
      }
    }
  }
}

// the matrix of implicit integrators takes the control as the force does, clamped: beyond its range it does nothing
TEST_F(ServoTest, ControlsBeyondTheirRangeAreClampedInTheMatrixToo) {
  const ModelPtr model = LoadModelFromString(
      Model("<damper joint='hinge' kv='3' ctrlrange='0 1'/><general tendon='rope' gaintype='affine' gainprm='4 1 -2' "
            "ctrllimited='true' ctrlrange='-0.5 0.5'/>"));
  mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  SetState(m, data.get(), support::RandomState(m, 3, {.position = 0.6, .velocity = 2}));
  for (int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    m->opt.integrator = integrator;
    for (const double beyond : {-0.9, 1.7}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(beyond));
      data->ctrl[0] = data->ctrl[1] = beyond;
      const StepDerivative value = Linearize(m, data.get(), {.level = Level::kAnalytic});
      const support::StepReference reference = support::MakeStepReference(m, data.get());
      const Eigen::Index ndx = value.A.cols();
      EXPECT_TRUE(support::AgreesWithReference(value.A, reference.step.leftCols(ndx),
                                               reference.step_error.leftCols(ndx), support::kReference));
      EXPECT_EQ(value.B.norm(), 0);
      EXPECT_EQ(reference.step.rightCols(2).norm(), 0);
    }
  }
}

// a crank behind an actuator of three outputs
TEST_F(ServoTest, SliderCranksKnowTheirRodBehindSeveralOutputs) {
  ExpectStep(
      "<orientation joint='ball' kp='3' kv='0.2'/><general cranksite='c' slidersite='fixed' cranklength='0.9' "
      "gainprm='3' "
      "biastype='affine' biasprm='1 -4 -0.3'/>",
      kAll);
}

// (A9) its torque is limited in norm. A clamped one is as long as its limit, but for a rounding that decides whether
// the matrix of implicit integrators has it; level 2 says so where no neighbour is on the same side.
TEST_F(ServoTest, OrientationIsAsFarFromItsLimitAsTheNormOfItsTorque) {
  const ModelPtr model = LoadModelFromString(Model("<orientation joint='ball' kp='3' kv='0.2' forcerange='0 0.5'/>"));
  mjModel* m = model.get();
  for (const int integrator : kAll) {
    for (const double turn : {0.02, 0.3}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(turn));
      m->opt.integrator = integrator;
      const DataPtr data = MakeData(m);
      data->ctrl[0] = turn;
      const Certificate certificate = Certify(m, data.get());
      const Switch* clamp = support::Find(certificate, "torque of actuator 0", "clamp");
      ASSERT_NE(clamp, nullptr);
      EXPECT_NEAR(clamp->distance, std::abs(3 * turn - 0.5), 1e-12);
      EXPECT_EQ(clamp->active, turn == 0.3);
      EXPECT_EQ(support::Find(certificate, "force of actuator 0", "clamp"), nullptr);
      const bool matrix = integrator == mjINT_IMPLICIT || integrator == mjINT_IMPLICITFAST;
      EXPECT_EQ(support::Find(certificate, "torque of actuator 0", "its rounding") != nullptr, clamp->active && matrix);
      try {
        EXPECT_TRUE(Linearize(m, data.get(), {.level = Level::kResidual}).A.allFinite());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
        EXPECT_TRUE(clamp->active && matrix) << error.what();
      }
    }
  }
}

// (A9) both charts, balls and sites, with activations that turn beyond π, clamped in norm
TEST_F(ServoTest, OrientationAgreesWithTheStep) {
  ExpectStep("<orientation joint='ball' kp='3' kv='0.2'/>", kAll);
  ExpectStep("<orientation joint='ball' kp='3' kv='0.2' input='quat'/>", kAll);
  // clamped: whether implicit integrators count its damping hangs on the rounding of the clamped norm
  ExpectStep("<orientation joint='ball' kp='3' kv='0.2' forcerange='0 0.5'/>", {mjINT_EULER, mjINT_RK4});
  ExpectStep("<orientation site='b' refsite='a' kp='3' kv='0.2'/>", kAll);
  ExpectStep("<orientation site='c' refsite='fixed' kp='3' kv='0.2'/>", kAll);
  const std::string stored =
      "<general joint='ball' gaintype='so3' biastype='so3' gainprm='3' biasprm='0 -3 -0.2' dyntype='integrator' ";
  ExpectStep(stored + "/>", kSingleStage);
  ExpectStep(stored + "actearly='true' actlimited='true' actrange='-0.5 0.5'/>", kSingleStage);
}

}  // namespace
}  // namespace costate
