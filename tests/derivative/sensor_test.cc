#include "derivative/sensor.h"

#include <costate/derivative_check.h>
#include <costate/model.h>
#include <costate/step.h>

#include <algorithm>
#include <cmath>

#include "derivative/analytic.h"
#include "support/engine_test.h"
#include "support/expect_reference.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

constexpr double kKinematic = 1e-9;        // of a sensor's largest entry: centred differences of smooth kinematics
constexpr double kForce = 2e-8;            // five points of constraint forces, stiff in q
constexpr double kStill = 1e-8;            // rounding of differences of what does not move
constexpr double kBalanced = 1e-4;         // forces of 1e4 that cancel
constexpr double kSensorReference = 1e-8;  // beyond three error bars; accelerations cancel in the smallest quotients

using SensorTest = support::EngineTest;

MatrixXd Both(const StepDerivative& d) {
  MatrixXd both(d.C.rows(), d.C.cols() + d.D.cols());
  both << d.C, d.D;
  return both;
}

struct Sensed {
  MatrixXd closed, differenced;  // C and D: in closed form; along the same da by differences
  std::string names;             // of the sensors without closed form
};

Sensed Sense(const mjModel* m, const mjData* point) {
  Sensed out;
  for (bool differenced : {false, true}) {
    AnalyticBackend backend(m, false, {.sensors = differenced});
    const DataPtr data = MakeData(m);
    mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
    StepDerivative d;
    std::string missing;
    EXPECT_TRUE(backend.Linearize(m, data.get(), true, &d, &missing)) << missing;
    EXPECT_EQ(d.status, StepStatus::kOk);
    (differenced ? out.differenced : out.closed) = Both(d);
    for (const TermCoverage& term : d.coverage.terms) {
      if (term.term != "sensors" || differenced) continue;
      out.names = term.reason;
      EXPECT_EQ(term.level, term.reason.empty() ? Level::kAnalytic : Level::kResidual);
    }
  }
  return out;
}

// (V4): covectors of the sensors together with one of the next state, alone, and of each sensor by itself, against the
// matrices
void ExpectPulled(const mjModel* m, const mjData* point) {
  const Dims dims(m);
  const VectorXd none, lambda = support::RandomTangent(m, 5);
  for (bool differenced : {false, true}) {
    SCOPED_TRACE(differenced ? "differenced" : "closed");
    AnalyticBackend backend(m, false, {.sensors = differenced});
    const DataPtr linearized = MakeData(m);
    StepDerivative d;
    StepVjp vjp;
    std::string missing;
    mj_copyState(m, point, linearized.get(), mjSTATE_INTEGRATION);
    ASSERT_TRUE(backend.Linearize(m, linearized.get(), true, &d, &missing)) << missing;
    VectorXd sigma = support::Random(8).Vector(dims.ns);
    for (int row = 0; row < dims.ns; row++) {
      // forces of contacts are thousands, angles are not
      sigma[row] /= std::max(1.0, d.C.row(row).cwiseAbs().maxCoeff());
    }
    // data that knows nothing of the point but its state, neither frames of cameras nor sensors
    const DataPtr data = MakeData(m);
    const auto expect = [&](ConstVectorRef next, const VectorXd& s) {
      mj_resetData(m, data.get());
      mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
      ASSERT_TRUE(backend.Vjp(m, data.get(), {next, s, false}, &vjp, &missing)) << missing;
      ASSERT_EQ(vjp.status, StepStatus::kOk);
      VectorXd x = d.C.transpose() * s, u = d.D.transpose() * s;
      VectorXd scale = Both(d).cwiseAbs().transpose() * s.cwiseAbs();
      EXPECT_LT((vjp.sensors - x).cwiseAbs().maxCoeff(),
                (differenced ? 1e-6 : 1e-10) * std::max(1e-3, scale.maxCoeff()));
      if (next.size() > 0) {
        x += d.A.transpose() * next;
        u += d.B.transpose() * next;
        scale.head(dims.ndx) += d.A.cwiseAbs().transpose() * next.cwiseAbs();
      }
      const double allowed = (differenced ? 1e-6 : 1e-10) * std::max(1e-3, scale.maxCoeff());
      EXPECT_LT((vjp.x - x).cwiseAbs().maxCoeff(), allowed);
      EXPECT_LE(dims.nu > 0 ? (vjp.u - u).cwiseAbs().maxCoeff() : 0, allowed);
    };
    expect(lambda, sigma);
    expect(none, sigma);
    for (int i = 0; i < m->nsensor && !differenced; i++) {
      const std::string name = ElementName(m, mjOBJ_SENSOR, i);
      if (name.find("balanced") != std::string::npos) continue;
      SCOPED_TRACE(name);
      VectorXd one = VectorXd::Zero(dims.ns);
      one.segment(m->sensor_adr[i], m->sensor_dim[i]) = sigma.segment(m->sensor_adr[i], m->sensor_dim[i]);
      expect(none, one);
    }
  }
}

// Every sensor in closed form against its differences and against the step; all but those called "still…" move.
void ExpectAgrees(const mjModel* m, const mjData* point, double tolerance, const char* names = "") {
  const Sensed sensed = Sense(m, point);
  EXPECT_EQ(sensed.names, names);
  ExpectPulled(m, point);
  const support::StepReference reference = support::MakeStepReference(m, point);
  for (int i = 0; i < m->nsensor; i++) {
    const std::string name = ElementName(m, mjOBJ_SENSOR, i);
    SCOPED_TRACE(name);
    const auto rows = [&](const MatrixXd& all) -> MatrixXd {
      return all.middleRows(m->sensor_adr[i], m->sensor_dim[i]);
    };
    const MatrixXd closed = rows(sensed.closed), differenced = rows(sensed.differenced);
    if (name.find("still") != std::string::npos) {
      EXPECT_EQ(closed.cwiseAbs().maxCoeff(), 0);
      EXPECT_LT(differenced.cwiseAbs().maxCoeff() + rows(reference.sensors).cwiseAbs().maxCoeff(), kStill);
      continue;
    }
    const double largest = closed.cwiseAbs().maxCoeff();
    if (name.find("balanced") != std::string::npos) {
      EXPECT_LT(largest + differenced.cwiseAbs().maxCoeff(), kBalanced);
      continue;
    }
    EXPECT_GT(largest, 1e-3) << "nothing is tested";
    if (largest == 0) continue;
    const double unit = std::max(1.0, 1 / largest);  // rounding is of numbers of size one
    EXPECT_TRUE(support::MatricesNearRelative(closed, differenced, tolerance * unit));
    EXPECT_TRUE(support::AgreesWithReference(closed, rows(reference.sensors), rows(reference.sensors_error),
                                             kSensorReference * unit));
  }
}

void ExpectAgreesAtRandomStates(const ModelPtr& model, double tolerance, const char* names = "") {
  for (unsigned seed = 1; seed < 4; seed++) {
    SCOPED_TRACE(seed);
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), seed));
    const VectorXd u = support::RandomControl(model.get(), seed);
    mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
    ExpectAgrees(model.get(), data.get(), tolerance, names);
  }
}

// three trees: a free trunk with a ball, a hinge and a slide below it; a cart; a post that rests
ModelPtr Scene(const std::string& sensors, const std::string& option = "", const std::string& more = "") {
  return LoadModelFromString("<mujoco>" + option + R"(
    <compiler autolimits="true"/>
    <default><geom contype="0" conaffinity="0" density="800"/></default>
    <worldbody>
      <body name="post" pos="0.4 -0.3 0.2" euler="20 10 5">
        <geom name="post" type="box" size="0.1 0.05 0.2"/><site name="mark" pos="0.1 0 0.2" euler="0 30 10"/>
        <camera name="watch" pos="0.2 -2 0.3" euler="80 10 0" resolution="640 480" fovy="50"/>
      </body>
      <body name="trunk" pos="0 0 0.5">
        <freejoint name="root"/>
        <geom name="trunk" type="box" size="0.3 0.2 0.1" pos="0.05 0 0.02" euler="10 0 0"/>
        <site name="imu" pos="0.1 0.05 0.1" euler="30 20 10"/>
        <camera name="eye" pos="-0.6 0.1 0.2" euler="40 -70 20" resolution="320 200" focalpixel="300 310" sensorsize="0.01 0.008"/>
        <body name="arm" pos="0.3 0.1 0">
          <joint name="shoulder" type="ball" stiffness="4" damping="0.1"/>
          <geom name="arm" type="capsule" size="0.05" fromto="0 0 0 0.3 0 0.1"/>
          <site name="wrist" pos="0.2 0 0.1" euler="0 0 40"/>
          <camera name="hand" pos="0.1 0 0.2" euler="10 20 30"/>
          <body name="fore" pos="0.3 0 0.1">
            <joint name="elbow" axis="0 1 0.3" stiffness="3" springref="20" range="-170 170"/>
            <joint name="reach" type="slide" axis="1 0 0.2" stiffness="50" damping="1"/>
            <geom name="fore" type="capsule" size="0.04" fromto="0 0 0 0.2 0.1 0"/>
            <site name="tip" pos="0.2 0.1 0" euler="50 0 20"/>
          </body>
        </body>
        <body name="tail" pos="-0.3 0 0">
          <joint name="tail" axis="0 0.2 1"/><geom name="tail" type="box" size="0.15 0.02 0.03" pos="-0.15 0 0"/>
          <geom name="knob" size="0.03" pos="0 0 0.1"/>
        </body>
      </body>
      <geom name="ground" type="plane" size="5 5 1" pos="0 0 -2" euler="8 5 0"/>
      <body name="cart" pos="1 0 0.3">
        <joint name="rail" type="slide" axis="1 0.2 0"/><joint name="pole" axis="0 1 0"/>
        <geom name="cart" type="box" size="0.1 0.1 0.2" pos="0 0 0.2"/><site name="top" pos="0 0.05 0.4" euler="10 0 90"/>
      </body>
    </worldbody>)" + more + "<sensor>" +
                             sensors + "</sensor></mujoco>");
}

// (M5)–(M7): all objects, in the world and in frames that are fixed, above, below or beside them
TEST_F(SensorTest, FramesAgreeInEveryReferenceFrame) {
  const char* objects[] = {"objtype='body' objname='arm'",    "objtype='xbody' objname='fore'",
                           "objtype='geom' objname='fore'",   "objtype='site' objname='tip'",
                           "objtype='camera' objname='hand'", "objtype='site' objname='mark'"};
  const char* references[] = {"",
                              "reftype='body' refname='trunk'",
                              "reftype='site' refname='tip'",
                              "reftype='geom' refname='tail'",
                              "reftype='xbody' refname='cart'",
                              "reftype='site' refname='mark'",
                              "reftype='camera' refname='eye'"};
  std::string sensors;
  for (const std::string object : objects) {
    for (const std::string reference : references) {
      const std::string same = object.substr(object.find("objname")),
                        other = reference.empty() ? "" : reference.substr(reference.find("refname"));
      if (!other.empty() && same.substr(7) == other.substr(7)) continue;
      for (const std::string type : {"framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel",
                                     "frameangvel", "framelinacc", "frameangacc"}) {
        if (type.find("acc") != std::string::npos && !reference.empty()) continue;
        const bool fore = object.find("fore") != std::string::npos || object.find("tip") != std::string::npos;
        const bool fixed = object.find("mark") != std::string::npos
                               ? reference.empty()
                               : fore && reference.find("tip") != std::string::npos;
        sensors += "<" + type + " name=\"" + (fixed ? "still " : "") + type + " " + object + " " + reference + "\" " +
                   object + " " + reference + "/>";
      }
    }
  }
  ExpectAgreesAtRandomStates(Scene(sensors), kKinematic);
}

// (M2), (M7)–(M13)
TEST_F(SensorTest, SitesSubtreesJointsAndEnergiesAgree) {
  const std::string sensors = R"(
    <velocimeter site="tip"/><gyro site="tip"/><accelerometer site="tip"/><magnetometer site="tip"/>
    <velocimeter site="imu"/><gyro site="imu"/><accelerometer site="imu"/><magnetometer site="wrist"/>
    <accelerometer name="still" site="mark"/>
    <camprojection site="tip" camera="eye"/><camprojection site="tip" camera="watch"/>
    <jointpos joint="elbow"/><jointvel joint="reach"/><ballquat joint="shoulder"/><ballangvel joint="shoulder"/>
    <subtreecom body="trunk"/><subtreecom body="arm"/><subtreecom body="world"/>
    <subtreelinvel body="trunk"/><subtreelinvel body="arm"/><subtreelinvel body="world"/>
    <subtreeangmom body="trunk"/><subtreeangmom body="arm"/><subtreeangmom body="world"/>
    <e_potential/>
    <clock name="still clock"/><insidesite name="still inside" objtype="site" objname="tip" site="imu"/>)";
  for (const char* option :
       {"", "<option integrator='RK4' gravity='1 2 -9'/>", "<option><flag gravity='disable'/></option>",
        "<option><flag spring='disable'/></option>"}) {
    SCOPED_TRACE(option);
    ExpectAgreesAtRandomStates(Scene(sensors, option), kKinematic);
  }
}

// (M13): the engine evaluates it with the positions, though it depends on velocities
TEST_F(SensorTest, KineticEnergyAgrees) { ExpectAgreesAtRandomStates(Scene("<e_kinetic/>"), kForce); }

// (M13): potentials of polynomial springs, of balls and of tendons inside and outside their dead band
TEST_F(SensorTest, SpringsOfEveryKindHaveTheirPotential) {
  const ModelPtr model = Scene("<e_potential/>", "", R"(
    <tendon>
      <fixed stiffness="30" springlength="0.01 0.02"><joint joint="elbow" coef="0.5"/><joint joint="reach" coef="-2"/></fixed>
      <fixed stiffness="70" springlength="-9 9"><joint joint="rail" coef="0.5"/></fixed>
      <spatial stiffness="20" springlength="0.1"><site site="tip"/><geom geom="knob"/><site site="top"/></spatial>
    </tendon>)");
  for (int j = 0; j < model->njnt; j++) {
    model->jnt_stiffnesspoly[mjNPOLY * j] = 4;
    model->jnt_stiffnesspoly[mjNPOLY * j + 1] = 2;
  }
  for (int t = 0; t < model->ntendon; t++) model->tendon_stiffnesspoly[mjNPOLY * t + 1] = 50;
  ExpectAgreesAtRandomStates(model, kKinematic);
}

// nobody fills them then, and what they hold is no function of the state
TEST_F(SensorTest, DisabledSensorsAreConstant) {
  const ModelPtr model =
      Scene("<framepos name='still' objtype='site' objname='tip'/>", "<option><flag sensor='disable'/></option>");
  ExpectAgreesAtRandomStates(model, kKinematic);
}

constexpr const char* kActuators = R"(
    <tendon>
      <fixed name="pair"><joint joint="elbow" coef="0.5"/><joint joint="reach" coef="-2"/></fixed>
      <spatial name="rope"><site site="tip"/><geom geom="knob"/><site site="top"/></spatial>
    </tendon>
    <actuator>
      <position name="elbow" joint="elbow" kp="30" kv="2"/><motor name="rail" joint="rail" gear="3"/>
      <general name="filter" joint="reach" dyntype="filter" dynprm="0.1" gaintype="affine" gainprm="3 1 0.5" biastype="affine" biasprm="1 -2 -0.3"/>
      <general name="pair" tendon="pair" dyntype="integrator" gainprm="4" biastype="affine" biasprm="0 -3 -0.2"/>
      <motor name="thruster" site="imu" gear="1 2 3 0.1 0.2 0.3"/>
      <general name="clamped" joint="tail" gainprm="100" forcerange="-0.01 0.01"/>
      <general name="rope" tendon="rope" gear="2" gainprm="5" biastype="affine" biasprm="0 -3 -0.2"/>
      <general name="ball" joint="shoulder" gear="1 2 3" gainprm="5" biastype="affine" biasprm="0 -3 -0.2"/>
      <general name="refsite" site="tip" refsite="imu" gear="1 2 3 0.1 0.2 0.3" gainprm="5" biastype="affine" biasprm="0 -3 -0.2"/>
    </actuator>)";

// (M2), (M3)
TEST_F(SensorTest, TransmissionsAndActuatorForcesAgree) {
  ExpectAgreesAtRandomStates(Scene(R"(
    <actuatorpos actuator="elbow"/><actuatorvel actuator="elbow"/><actuatorfrc actuator="elbow"/>
    <actuatorpos actuator="filter"/><actuatorvel actuator="filter"/><actuatorfrc actuator="filter"/>
    <actuatorpos actuator="pair"/><actuatorvel actuator="pair"/><actuatorfrc actuator="pair"/>
    <actuatorpos name="still length" actuator="thruster"/><actuatorvel actuator="thruster"/><actuatorfrc actuator="thruster"/>
    <actuatorfrc name="still clamped" actuator="clamped"/>
    <jointactuatorfrc joint="elbow"/><jointactuatorfrc joint="reach"/><jointactuatorfrc joint="rail"/><jointactuatorfrc name="still joint" joint="tail"/>
    <actuatorpos actuator="rope"/><actuatorvel actuator="rope"/><actuatorfrc actuator="rope"/><tendonactuatorfrc tendon="rope"/>
    <actuatorpos actuator="ball"/><actuatorvel actuator="ball"/><actuatorfrc actuator="ball"/>
    <actuatorpos actuator="refsite"/><actuatorvel actuator="refsite"/><actuatorfrc actuator="refsite"/><tendonvel tendon="rope"/>
    <tendonpos tendon="pair"/><tendonvel tendon="pair"/><tendonactuatorfrc tendon="pair"/><tendonpos tendon="rope"/>)",
                                   "", kActuators),
                             kKinematic);
}

// without actuation the engine leaves forces and velocities at zero, lengths are there
TEST_F(SensorTest, ForcesOfActuatorsAreConstantWithoutActuation) {
  ExpectAgreesAtRandomStates(Scene(R"(
    <actuatorfrc name="still force" actuator="elbow"/><actuatorfrc name="still rope" actuator="rope"/><actuatorvel name="still velocity" actuator="rope"/>
    <jointactuatorfrc name="still joint" joint="elbow"/><tendonactuatorfrc name="still tendon" tendon="rope"/><actuatorpos actuator="rope"/>)",
                                   "<option><flag actuation='disable'/></option>", kActuators),
                             kKinematic);
}

// (M3) forces that share out a tendon's limit, one of them at its own range, beside a tendon within its limit and
// joints that both pull
TEST_F(SensorTest, SharesOfATendonsLimitAgree) {
  ExpectAgreesAtRandomStates(Scene(R"(
    <actuatorfrc actuator="strong"/><actuatorfrc actuator="weak"/><actuatorfrc name="still short" actuator="short"/>
    <tendonactuatorfrc tendon="rope"/><actuatorfrc actuator="free"/><tendonactuatorfrc tendon="pair"/>
    <jointactuatorfrc joint="elbow"/><jointactuatorfrc joint="reach"/>)",
                                   "", R"(
    <tendon>
      <fixed name="pair" actuatorfrcrange="-900 900"><joint joint="elbow" coef="0.5"/><joint joint="reach" coef="-2"/></fixed>
      <fixed name="rope" actuatorfrcrange="-1 2"><joint joint="elbow" coef="0.7"/><joint joint="tail" coef="-1"/></fixed>
    </tendon>
    <actuator>
      <position name="strong" tendon="rope" kp="900" kv="3" gear="2"/>
      <general name="weak" tendon="rope" gear="-1" gainprm="300" biastype="affine" biasprm="200 -9 -1"/>
      <general name="short" tendon="rope" gainprm="200" biastype="affine" biasprm="100" forcerange="-0.01 0.01"/>
      <position name="free" tendon="pair" kp="3"/>
    </actuator>)"),
                             kKinematic);
}

// a trunk on legs, with a load on it and an arm on the load: contacts with the floor, within a tree and between trees
ModelPtr Standing(const std::string& sensors, int cone, const std::string& more = "") {
  ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <option timestep="0.004" gravity="0.3 -0.2 -9.7"/>
      <compiler autolimits="true"/>
      <default><geom density="700" solimp="0.8 0.95 0.01" friction="0.7 0.02 0.01"/></default>
      <worldbody>
        <geom name="floor" type="plane" size="5 5 1"/>
        <body name="base" pos="0 0 0.345">
          <freejoint name="root"/>
          <geom name="trunk" type="box" size="0.3 0.2 0.06"/>
          <site name="imu" pos="0.05 0.02 0.03" euler="10 20 30"/>
          <body name="leg1" pos="0.25 0.2 0">
            <joint name="hip1" axis="0 1 0" damping="0.4" stiffness="3" range="-5 2"/>
            <geom name="leg1" type="capsule" size="0.04" fromto="0 0 0 0.02 0 -0.3" condim="4"/>
            <site name="knee" pos="0.01 0.02 -0.1" euler="20 10 0"/>
            <body name="foot1" pos="0.02 0 -0.3">
              <joint name="ankle1" type="ball" damping="0.05" stiffness="0.7" range="0 4"/>
              <geom name="foot1" type="sphere" size="0.05" condim="6"/>
              <site name="toe" size="0.08" euler="30 0 10"/><site name="away" pos="0 0 0.5" size="0.01"/>
            </body>
          </body>
          <body name="leg2" pos="-0.2 0.18 0">
            <joint name="hip2" axis="0.2 1 0" armature="0.02" frictionloss="0.3"/>
            <geom name="leg2" type="capsule" size="0.05" fromto="0 0 0 -0.05 0 -0.3"/>
            <site name="shin" pos="0 0 -0.2" size="0.2"/>
          </body>
          <body name="leg3" pos="0 -0.25 0">
            <joint name="swing3" axis="1 0 0" damping="0.2"/>
            <joint name="slide3" type="slide" axis="0 0.1 1" stiffness="400" damping="9" range="-0.1 0.1"/>
            <geom name="leg3" type="cylinder" size="0.03 0.15" pos="0 0 -0.13" condim="1"/>
          </body>
        </body>
        <body name="load" pos="0.02 0.01 0.485">
          <freejoint/>
          <geom name="load" type="sphere" size="0.085"/>
          <site name="lid" size="0.1" euler="0 20 0"/>
        </body>
        <body name="arm" pos="0.7 0.1 0.8">
          <joint name="shoulder" axis="0 1 0.3" damping="0.3" range="-1 170"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
          <body name="fore" pos="0.3 0 0">
            <joint name="elbow" axis="0 1 0" frictionloss="0.05"/>
            <geom name="fore" type="capsule" size="0.03" fromto="0 0 0 0.25 0 0.02"/>
            <site name="end" pos="0.1 0 0" euler="10 20 0"/>
          </body>
        </body>
      </worldbody>
      <tendon>
        <fixed name="pair" range="-0.02 0.05"><joint joint="shoulder" coef="0.7"/><joint joint="elbow" coef="-0.4"/></fixed>
      </tendon>
      <actuator><motor joint="hip1" gear="12"/><motor joint="elbow"/><motor joint="swing3"/></actuator>)" +
                                       more + "<sensor>" + sensors + "</sensor></mujoco>");
  model->opt.cone = cone;
  return model;
}

DataPtr After(const mjModel* m, int steps) {
  DataPtr data = MakeData(m);
  const VectorXd u = support::RandomControl(m, 3);
  mju_copy(data->ctrl, u.data(), static_cast<int>(m->nu));
  for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.02 * k - 1;
  for (int k = 0; k < steps; k++) mj_step(m, data.get());
  mj_forward(m, data.get());
  return data;
}

class Cones : public support::EngineTest, public ::testing::WithParamInterface<int> {};

// (M14), (M15) and accelerations, which feel the contacts through da
TEST_P(Cones, ForcesTouchAndAccelerationsAgreeInContact) {
  const ModelPtr model = Standing(R"(
    <accelerometer site="imu"/><framelinacc objtype="geom" objname="foot1"/><frameangacc objtype="body" objname="leg2"/>
    <force name="balanced 1" site="imu"/><torque name="balanced 2" site="imu"/><force site="knee"/><torque site="knee"/><force site="toe"/><torque site="toe"/>
    <force name="balanced 3" site="lid"/><torque name="balanced 4" site="lid"/><force site="end"/><torque site="end"/>
    <touch site="toe"/><touch site="shin"/><touch site="lid"/><touch name="still" site="away"/>)",
                                  GetParam());
  for (int steps : {20, 60}) {
    SCOPED_TRACE(steps);
    const DataPtr data = After(model.get(), steps);
    ASSERT_GE(data->ncon, 3);
    ExpectAgrees(model.get(), data.get(), kForce);
  }
}

// (M14): connects and welds to the world, to another tree and within one, by bodies and sites
TEST_P(Cones, ForcesBesideEqualitiesAgree) {
  for (const char* equality :
       {"<connect body1='leg1' body2='load' anchor='0.1 0.2 0'/>", "<connect body1='fore' anchor='0.1 0.2 0'/>",
        "<connect site1='knee' site2='end'/>", "<weld body1='load' body2='fore'/>",
        "<weld body1='leg1' body2='fore' torquescale='0.3'/>", "<weld site1='end' site2='shin'/>",
        "<weld body1='foot1'/>", "<weld body1='leg1' body2='leg2'/>"}) {
    SCOPED_TRACE(equality);
    const ModelPtr model = Standing(R"(
      <force site="knee"/><torque site="knee"/><force site="toe"/><force site="shin"/><torque site="shin"/>
      <force site="end"/><torque site="end"/>)",
                                    GetParam(), "<equality>" + std::string(equality) + "</equality>");
    model->opt.timestep = 0.001;
    const DataPtr data = After(model.get(), 20);
    ASSERT_GT(data->ne, 0);
    ExpectAgrees(model.get(), data.get(), 5 * kForce);  // equalities are stiffer still
  }
}

// (M4): limits of a hinge, a ball, a fixed and a spatial tendon; one that is not there
TEST_P(Cones, LimitsAgree) {
  const std::string scene = R"(
    <mujoco>
      <compiler autolimits="true"/>
      <worldbody>
        <body name="a"><joint name="hinge" axis="0 1 0" range="-3 3"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
          <body name="b" pos="0.3 0 0"><joint name="ball" type="ball" range="0 4"/><geom type="box" size="0.1 0.05 0.02" pos="0.1 0 0"/>
            <body name="c" pos="0.2 0 0"><joint name="slide" type="slide" axis="1 0 0" range="-2 2"/><geom size="0.05"/><site name="end" pos="0.1 0.2 0"/></body>
          </body>
        </body>
        <site name="nail" pos="0.1 0.1 0.5"/>
      </worldbody>
      <tendon>%</tendon>
      <sensor>
        <jointlimitpos joint="hinge"/><jointlimitvel joint="hinge"/><jointlimitfrc joint="hinge"/>
        <jointlimitpos joint="ball"/><jointlimitvel joint="ball"/><jointlimitfrc joint="ball"/>
        <tendonlimitpos tendon="line"/><tendonlimitvel tendon="line"/><tendonlimitfrc tendon="line"/>
        <jointlimitpos name="still 1" joint="slide"/><jointlimitvel name="still 2" joint="slide"/><jointlimitfrc name="still 3" joint="slide"/>
      </sensor>
    </mujoco>)";
  for (const char* tendon : {"<fixed name='line' range='-0.01 0.01'><joint joint='hinge' coef='0.7'/><joint "
                             "joint='slide' coef='-0.4'/></fixed>",
                             "<spatial name='line' range='0 0.3'><site site='nail'/><site site='end'/></spatial>"}) {
    SCOPED_TRACE(tendon);
    std::string xml = scene;
    xml.replace(xml.find('%'), 1, tendon);
    const ModelPtr model = LoadModelFromString(xml);
    model->opt.cone = GetParam();
    for (unsigned seed = 1; seed < 4; seed++) {
      SCOPED_TRACE(seed);
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.velocity = 0.3}));
      const double sign = seed == 2 ? -1 : 1, angle = 0.1 + 0.05 * seed;
      const mjtNum axis[3] = {0.48, 0.6, 0.64};
      data->qpos[0] = 0.1 * sign;
      data->qpos[5] = 0.3 * sign;
      mju_axisAngle2Quat(data->qpos + 1, axis, angle);
      mj_forward(model.get(), data.get());
      ASSERT_EQ(data->nl, 3);
      ExpectAgrees(model.get(), data.get(), kForce);
    }
  }
}

// (M18): every reduction; the same pair from both sides
TEST_P(Cones, ContactSensorsAgree) {
  const std::string all = "data='force torque dist pos normal tangent'";
  std::string sensors;
  for (const char* reduce : {"none", "mindist", "maxforce"}) {
    for (const char* pair :
         {"geom1='foot1' geom2='floor'", "geom1='floor' geom2='foot1'", "subtree1='base' geom2='load'",
          "body1='load' num='3'", "subtree1='base' num='5'", "site='toe' num='2'"}) {
      sensors += std::string("<contact reduce='") + reduce + "' " + pair + " " + all + "/>";
    }
  }
  for (const char* pair : {"geom1='foot1' geom2='floor'", "subtree1='base'", "subtree2='base'", "body1='load'"}) {
    for (const char* data : {"found force torque pos", "force"}) {
      sensors += std::string("<contact reduce='netforce' ") + pair + " data='" + data + "'/>";
    }
  }
  const ModelPtr model = Standing(sensors, GetParam());
  ExpectAgrees(model.get(), After(model.get(), 60).get(), kForce);
}

INSTANTIATE_TEST_SUITE_P(Both, Cones, ::testing::Values(mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC));

// (M16), (M17): rays and distances between trees, within one, and beyond the cutoff
TEST_F(SensorTest, DistancesAndRaysAgree) {
  ExpectAgreesAtRandomStates(Scene(R"(
    <distance geom1="fore" geom2="cart" cutoff="5"/><distance geom1="tail" geom2="arm" cutoff="3"/>
    <distance body1="arm" body2="tail" cutoff="5"/><distance geom1="post" geom2="fore" cutoff="5"/>
    <distance name="still far" geom1="tail" geom2="cart" cutoff="0.01"/>)"),
                             kForce);
}

// (M19): nearest points that no search has found: of spheres, capsules, boxes and a plane, one geom above the other,
// beside it and resting, in both orders
TEST_F(SensorTest, NearestPointsAgree) {
  std::string sensors;
  for (const char* pair : {"geom1='fore' geom2='cart'", "geom1='cart' geom2='fore'", "geom1='knob' geom2='post'",
                           "geom1='fore' geom2='knob'", "geom1='tail' geom2='cart'", "geom1='ground' geom2='fore'",
                           "geom1='trunk' geom2='ground'", "body1='arm' body2='cart'", "geom1='knob' geom2='arm'"}) {
    for (const std::string type : {"distance", "normal", "fromto"}) {
      const bool still = type == "normal" && std::string(pair).find("ground") != std::string::npos;
      sensors += "<" + type + (still ? " name='still " + std::to_string(sensors.size()) + "'" : "") + " cutoff='9' " +
                 pair + "/>";
    }
  }
  ExpectAgreesAtRandomStates(Scene(sensors), kForce);
}

// (M19): what a search ends near turns with both geoms where nothing moves one against the other, here about z
TEST_F(SensorTest, NearestPointsOfOneRigidBodyTurnWithIt) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option ccd_tolerance="1e-3"/><worldbody><body><joint axis="0 0 1"/>
      <geom name="egg" type="ellipsoid" size=".1 .06 .08" pos=".02 .01 .3" euler="10 20 30"/>
      <body pos=".1 .2 0" euler="30 0 20"><geom name="barrel" type="cylinder" size=".05 .1" pos="0 .4 0"/>
        <geom name="inside" type="ellipsoid" size=".05 .02 .03" pos="0 .4 .02"/></body></body></worldbody>
    <sensor><distance geom1="egg" geom2="barrel" cutoff="2"/><fromto geom1="egg" geom2="barrel" cutoff="2"/>
      <normal geom1="egg" geom2="barrel" cutoff="2"/><fromto geom1="barrel" geom2="inside" cutoff="2"/>
      <normal geom1="barrel" geom2="inside" cutoff="2"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double angle : {0.0, 0.7, 2.1}) {
    data->qpos[0] = angle;
    mj_forward(model.get(), data.get());
    const StepDerivative value = Linearize(model.get(), data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    EXPECT_EQ(value.C(0, 0), 0);
    EXPECT_TRUE(std::isinf(Reference(model.get(), data.get()).C_error(0, 0)));  // the engine's own is noise
    for (int row = 1; row < 19; row += 3) {
      const mjtNum* p = data->sensordata + row;
      EXPECT_TRUE(support::MatricesNear(value.C.col(0).segment(row, 3), Eigen::Vector3d(-p[1], p[0], 0), 1e-12)) << row;
    }
  }
}

// Balls about one centre have no direction of their own: the engine's rests in the world.
TEST_F(SensorTest, ADirectionThatRestsDoesNotTurnWithItsBody) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint axis="0 1 1"/>
      <geom name="yolk" type="ellipsoid" size=".02 .03 .02"/><geom name="egg" size=".1"/></body></worldbody>
    <sensor><normal geom1="yolk" geom2="egg" cutoff="2"/><fromto geom1="yolk" geom2="egg" cutoff="2"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double angle : {0.2, 0.9}) {
    data->qpos[0] = angle;
    support::ExpectReference(model.get(), data.get(), Linearize(model.get(), data.get()));
  }
}

// Where two capsules cross at a small angle ψ, c apart, the nearest points run along them: x = −c / tan ψ, which bends
// within ψ.
TEST_F(SensorTest, NearestPointsOfNearlyParallelGeomsRunFast) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><geom name="below" type="capsule" size=".05" fromto="-1 0 0 1 0 0"/>
    <body pos="0 .0001 .3"><joint axis="0 0 1"/><geom name="above" type="capsule" size=".05" fromto="-1 0 0 1 0 0"/></body></worldbody>
    <sensor><fromto geom1="below" geom2="above" cutoff="1"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 2e-3;
  const MatrixXd C = Linearize(model.get(), data.get()).C;
  const double slope = 1e-4 / std::pow(std::sin(2e-3), 2);
  EXPECT_NEAR(C(0, 0), slope, 1e-8 * slope);
  EXPECT_NEAR(C(3, 0), slope, 1e-8 * slope);
}

// every shape that a ray can hit, resting, of another tree and of its own
TEST_F(SensorTest, RaysAgree) {
  const std::string scene = R"(
    <mujoco>
      <worldbody>
        <body name="ship"><freejoint/>
          <geom size="0.1"/>
          <site name="down" pos="0 0 -0.2" euler="175 8 0"/><site name="ahead" pos="0.2 0 0.1" euler="0 85 6"/>
          <site name="up" pos="0 0 0.2" euler="10 25 0"/>
          <body name="mast" pos="0 0 0.6"><joint axis="1 0.2 0"/><geom type="cylinder" size="0.6 0.02"/></body>
        </body>
        <body name="target" pos="1 0 0.1" euler="10 20 30"><joint axis="0.2 1 0"/><joint type="slide" axis="1 0 0.3"/><geom type="%" size="0.35 0.3 0.4"/></body>
        <geom type="plane" size="5 5 1" pos="0 0 -1" euler="5 0 0"/>
      </worldbody>
      <sensor>
        <rangefinder site="down"/><rangefinder site="ahead" data="dist dir origin point depth"/><rangefinder site="up"/>
        <rangefinder name="still cut" site="down" cutoff="0.1"/>
      </sensor>
    </mujoco>)";
  for (const char* shape : {"box", "ellipsoid", "sphere", "capsule", "cylinder"}) {
    SCOPED_TRACE(shape);
    std::string xml = scene;
    xml.replace(xml.find('%'), 1, shape);
    const ModelPtr model = LoadModelFromString(xml);
    for (unsigned seed = 1; seed < 4; seed++) {
      SCOPED_TRACE(seed);
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.position = 0.15}));
      ExpectAgrees(model.get(), data.get(), kForce);
    }
  }
}

// The engine keeps the kinetic energy until something asks for that of the point: one linearizer at two points in turn.
TEST_F(SensorTest, CutoffsOfKineticEnergyAreThoseOfThePoint) {
  for (const char* noslip : {"0", "2"}) {
    for (const Level level : {Level::kAnalytic, Level::kResidual, Level::kStep}) {
      if (level == Level::kResidual && noslip[0] != '0') continue;
      SCOPED_TRACE(std::string(noslip) + ToString(level));
      const ModelPtr model =
          LoadModelFromString(std::string("<mujoco><option cone='elliptic' noslip_iterations='") + noslip + R"('>
        <flag energy="enable"/></option><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .0995"><freejoint/>
          <geom name="ball" size=".1" mass="2"/></body></worldbody>
        <sensor><e_kinetic cutoff="1"/><framelinacc objtype="geom" objname="ball" cutoff="50"/></sensor></mujoco>)");
      Linearizer linearizer(model.get(), {.level = level});
      VectorXd x = GetState(model.get(), MakeData(model.get()).get());
      for (const double speed : {0.4, 1.3, 0.5, 2.0}) {
        x[model->nq] = speed;
        StepDerivative value;
        linearizer.Linearize(x, VectorXd(), &value);
        const bool held = speed * speed > 1;
        EXPECT_NEAR(value.C(0, 6), held ? 0 : 2 * speed, 1e-6) << speed;
      }
    }
  }
}

// a value beyond its cutoff does not move, on either side for real and on one for positive types
TEST_F(SensorTest, CutoffsHoldOnlyWhatIsBeyondThem) {
  const ModelPtr model = Standing(R"(
    <touch name="free" site="toe" cutoff="1e6"/><touch name="still" site="toe" cutoff="1"/>
    <accelerometer name="mixed" site="imu" cutoff="1e9"/><framepos name="frame" objtype="site" objname="imu" cutoff="0.1"/>)",
                                  mjCONE_ELLIPTIC);
  const DataPtr data = After(model.get(), 60);
  std::vector<double> sizes;
  for (int k = 0; k < 3; k++) sizes.push_back(std::abs(data->sensordata[2 + k]));
  std::sort(sizes.begin(), sizes.end());
  model->sensor_cutoff[2] = (sizes[1] + sizes[2]) / 2;
  ExpectAgrees(model.get(), data.get(), kForce);
  EXPECT_EQ((Sense(model.get(), data.get()).closed.middleRows(2, 3).rowwise().norm().array() == 0).count(), 1);
}

// what has no closed form is named, differenced alone, and refused by strict level 1; the others stay closed
TEST_F(SensorTest, OnlySensorsWithoutClosedFormAreDifferenced) {
  const ModelPtr model = Scene(R"(<framepos name="tip" objtype="site" objname="tip"/><tendonvel tendon="rope"/>
    <normal name="gap" geom1="trunk" geom2="cart" cutoff="5"/><fromto name="span" geom1="trunk" geom2="cart" cutoff="5"/><gyro name="gyro" site="imu"/>)",
                               "<option><flag nativeccd='disable'/></option>", kActuators);
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(), support::RandomState(model.get(), 2));
  const Sensed sensed = Sense(model.get(), data.get());
  EXPECT_EQ(sensed.names, "normal of gap, fromto of span");
  const support::StepReference reference = support::MakeStepReference(model.get(), data.get());
  EXPECT_TRUE(
      support::AgreesWithReference(sensed.closed, reference.sensors, reference.sensors_error, kSensorReference));

  AnalyticBackend strict(model.get(), true);
  const DataPtr work = MakeData(model.get());
  mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION);
  StepDerivative out;
  std::string missing;
  EXPECT_FALSE(strict.Linearize(model.get(), work.get(), true, &out, &missing));
  EXPECT_EQ(missing, "sensors: normal of gap, fromto of span");
}

}  // namespace
}  // namespace costate
