// Applied forces and sensors in one pull-back, at every level, against whole steps: contacts, friction, wrenches,
// accelerations.
#include <costate/derivative.h>
#include <costate/derivative_check.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/random_state.h"

namespace costate {
namespace {

using SensorForceTest = support::EngineTest;

// a trunk on four feet with an arm whose wrist measures; a hinge that leans on its limit; an actuator with an
// activation
std::string SensorForceScene(const std::string& option) {
  return "<mujoco>" + option + R"(
    <worldbody>
      <geom type="plane" size="2 2 0.1"/>
      <body name="trunk" pos="0 0 0.195">
        <freejoint/><geom type="box" size="0.3 0.2 0.1" pos="0 0 0.05"/><site name="imu" pos="0.1 0.05 0.1" euler="30 20 10"/>
        <geom name="f1" size="0.05" pos="0.25 0.15 -0.15"/><geom name="f2" size="0.05" pos="-0.25 0.15 -0.15"/>
        <geom name="f3" size="0.05" pos="0 -0.2 -0.15"/>
        <site name="pad" type="box" size="0.4 0.3 0.1" pos="0 0 -0.15"/>
        <body name="arm" pos="0.3 0 0.1">
          <joint name="shoulder" axis="0 1 0" damping="0.5" range="-60 5" limited="true"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0.05"/><site name="wrist" pos="0.15 0 0.02" euler="0 0 40"/>
          <body name="hand" pos="0.3 0 0.05">
            <joint name="roll" type="ball" damping="0.1" stiffness="3"/><geom type="box" size="0.05 0.03 0.08" pos="0.02 0.01 0.05"/>
            <site name="grip" pos="0.02 0 0.05" euler="10 20 30"/>
          </body>
        </body>
      </body>
    </worldbody>
    <actuator><position name="lift" joint="shoulder" kp="20" timeconst="0.05"/><motor site="grip" gear="1 0.2 0.3 0.1 0 0"/></actuator>
    <sensor>
      <accelerometer site="imu"/><accelerometer site="grip"/><velocimeter site="grip"/><framepos objtype="site" objname="grip"/>
      <force site="wrist"/><torque site="wrist"/><force site="grip"/><torque site="grip"/><touch site="pad"/>
      <jointpos joint="shoulder"/><jointlimitfrc joint="shoulder"/><actuatorfrc actuator="lift"/>
      <subtreeangmom body="trunk"/><frameangacc objtype="body" objname="hand"/><jointactuatorfrc joint="shoulder"/>
    </sensor>
  </mujoco>)";
}

struct Pulled {
  StepVjp vjp, last;
};

Pulled PullBack(const mjModel* m, const mjData* point, Level level, int substeps) {
  Linearizer linearizer(m, {.level = level, .substeps = substeps, .sensors = false});
  linearizer.SetContext(GetContext(m, point));
  const VectorXd x = GetState(m, point), u = Eigen::Map<const VectorXd>(point->ctrl, m->nu);
  const VectorXd lambda = support::RandomTangent(m, 4);
  VectorXd sigma = support::Random(9).Vector(static_cast<int>(m->nsensordata));
  for (int i = 0; i < m->nsensor; i++) {
    const int type = m->sensor_type[i];
    if (type == mjSENS_FRAMEPOS || type == mjSENS_JOINTPOS) continue;
    sigma.segment(m->sensor_adr[i], m->sensor_dim[i]) *= 0.02;  // forces and accelerations are tens
  }
  Pulled out;
  linearizer.Vjp(x, u, lambda, sigma, &out.vjp, true);
  linearizer.VjpSensors(x, sigma, &out.last, true);
  EXPECT_EQ(out.vjp.status, StepStatus::kOk);
  EXPECT_EQ(out.last.status, StepStatus::kOk);
  EXPECT_EQ(out.vjp.coverage.Worst(), level);
  EXPECT_EQ(out.last.u.size(), 0);
  return out;
}

void ExpectNear(const VectorXd& value, const VectorXd& reference, double tolerance, const char* what) {
  ASSERT_EQ(value.size(), reference.size()) << what;
  const double scale = reference.cwiseAbs().maxCoeff();
  EXPECT_GT(scale, 1e-4) << what << ": nothing is tested";
  EXPECT_LT((value - reference).cwiseAbs().maxCoeff(), tolerance * scale) << what;
}

void ExpectLevelsAgree(const mjModel* m, const mjData* point, int substeps) {
  const Pulled best = PullBack(m, point, Level::kAnalytic, substeps);
  const Pulled middle = PullBack(m, point, Level::kResidual, substeps);
  const Pulled steps = PullBack(m, point, Level::kStep, substeps);
  const auto compare = [](const StepVjp& a, const StepVjp& b, double tolerance, const std::string& what) {
    SCOPED_TRACE(what);
    ExpectNear(a.x, b.x, tolerance, "x");
    ExpectNear(a.sensors, b.sensors, tolerance, "sensors");
    ExpectNear(a.qfrc, b.qfrc, tolerance, "qfrc");
    ExpectNear(a.xfrc, b.xfrc, tolerance, "xfrc");
    if (a.u.size() > 0) ExpectNear(a.u, b.u, tolerance, "u");
  };
  compare(best.vjp, middle.vjp, 1e-6, "step, level 2");
  compare(best.last, middle.last, 1e-6, "sensors, level 2");
  compare(best.vjp, steps.vjp, 1e-4, "step, level 3");
  compare(best.last, steps.last, 1e-4, "sensors, level 3");
}

constexpr const char* kIntegratorNames[] = {"Euler", "RK4", "implicit", "implicitfast"};

// some steps on, then under forces on every dof and body
DataPtr PushedPoint(const mjModel* m, int steps) {
  DataPtr data = MakeData(m);
  data->ctrl[0] = 0.4;
  data->ctrl[1] = 0.5;
  for (int k = 0; k < steps; k++) mj_step(m, data.get());
  for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.3 * std::sin(k);
  for (int k = 0; k < m->nv; k++) data->qfrc_applied[k] = 0.1 * std::cos(k);
  return data;
}

TEST_F(SensorForceTest, LevelsAgree) {
  for (const char* integrator : kIntegratorNames) {
    for (const char* cone : {"pyramidal", "elliptic"}) {
      for (int substeps : {1, 2}) {
        SCOPED_TRACE(std::string(integrator) + " " + cone + " " + std::to_string(substeps));
        const ModelPtr model = LoadModelFromString(
            SensorForceScene("<option integrator='" + std::string(integrator) + "' cone='" + cone + "'/>"));
        const DataPtr data = PushedPoint(model.get(), 60);
        ASSERT_GE(data->ncon, 2);
        ExpectLevelsAgree(model.get(), data.get(), substeps);
      }
    }
  }
}

// no row pushes: H is M, which the engine has factored, and the integrator's own solve is another
TEST_F(SensorForceTest, LevelsAgreeInFlight) {
  for (const char* integrator : kIntegratorNames) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString(SensorForceScene("<option integrator='" + std::string(integrator) + "'/>"));
    const mjModel* m = model.get();
    const DataPtr data = PushedPoint(m, 20);
    data->qpos[2] += 1;
    data->qpos[7] = -0.4;  // off its limit
    for (int k = 0; k < m->nv; k++) data->qvel[k] = 0.5 * std::sin(2.0 + k);
    mj_forward(m, data.get());
    ASSERT_EQ(data->nefc, 0);
    ExpectLevelsAgree(m, data.get(), 1);
  }
}

// rows of sensors in closed form or differenced, and pulled back, against steps
void ExpectSensors(const mjModel* m, mjData* d, Level level) {
  constexpr double kClosed = 1e-7, kDifferenced = 1e-6, kRounding = 1e-10;  // of a block's largest entry
  const StepDerivative best = Linearize(m, d, {.sensors = true});
  for (const TermCoverage& term : best.coverage.terms) {
    if (term.term == "sensors") {
      EXPECT_EQ(term.level, level) << term.reason;
    }
  }
  const DerivativeComparison comparison =
      Compare(m, best, Reference(m, d), {.tolerance = level == Level::kAnalytic ? kClosed : kDifferenced});
  for (const BlockComparison& block : comparison.blocks) {
    EXPECT_EQ(block.wrong, 0) << block.name << ": " << block.worst.row_name << " by " << block.worst.col_name << " is "
                              << block.worst.value << ", not " << block.worst.reference;
  }

  // contracted as they come; differences of one sensor have other nudges than those of the pull-back
  if (level != Level::kAnalytic) return;
  const VectorXd sigma = support::Random(3).Vector(static_cast<int>(m->nsensordata));
  const VectorXd u = Eigen::Map<const VectorXd>(d->ctrl, m->nu);
  Linearizer linearizer(m, {.sensors = false});
  linearizer.SetContext(GetContext(m, d));
  StepVjp vjp;
  linearizer.Vjp(GetState(m, d), u, VectorXd::Zero(best.A.rows()), sigma, &vjp, true);
  const double largest = best.C.cwiseAbs().maxCoeff();
  EXPECT_LT((vjp.x - best.C.transpose() * sigma).cwiseAbs().maxCoeff(), kRounding * largest);
  if (m->nu > 0) {
    EXPECT_LT((vjp.u - best.D.transpose() * sigma).cwiseAbs().maxCoeff(), kRounding * largest);
  }
}

// (M14) the pulls of spatial tendons reach a sensor from outside, along straight pieces, around geoms and over pulleys;
// those of a tendon that stays within the part cancel
TEST_F(SensorForceTest, FollowsSpatialTendons) {
  constexpr char kScene[] = R"(<mujoco><worldbody><site name="hook" pos="0 0 1"/><site name="side" pos="0.2 0 0.6"/>
      <body name="upper" pos="0.3 0 0"><joint axis="0 1 0" damping="0.2"/><geom size="0.08" pos="0.1 0 0" contype="0" conaffinity="0"/><site name="p" pos="0.1 0.05 0.1"/>
        <site name="sensed" pos="0.02 0 0" euler="10 20 30"/>
        <geom name="drum" type="cylinder" size="0.06 0.2" pos="0.12 0 0.18" euler="80 5 0" contype="0" conaffinity="0"/><site name="inner" pos="0.13 0 0.17"/>
        <body name="lower" pos="0.25 0 0"><joint type="ball" damping="0.1"/><geom size="0.06" pos="0.1 0 0" contype="0" conaffinity="0"/><site name="q" pos="0.12 0 0.05"/>
          <geom name="round" type="ellipsoid" size="0.05 0.06 0.08" pos="0.1 0.02 -0.05"/></body></body>
      <geom name="post" type="ellipsoid" size="0.1 0.2 0.1" pos="0.55 0 %POST%"/>
    </worldbody><tendon>%TENDON%</tendon>%OTHER%<sensor><force site="sensed"/><torque site="sensed"/></sensor></mujoco>)";
  const std::string straight = "><site site='hook'/><site site='q'/></spatial>", far = "-5";
  const auto motor = [](const std::string& kind) { return "<actuator>" + kind + "</actuator>"; };
  const struct {
    std::string tendon, other, post;
    Level level;
  } cases[] = {
      {"<spatial name='t' stiffness='40' springlength='0.3' damping='0.5'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40 3 50' damping='0.5 0.2 0.3'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40'><site site='hook'/><geom geom='drum'/><site site='q'/></spatial>", "", far,
       Level::kAnalytic},
      {"<spatial name='t' damping='4'><site site='hook'/><geom geom='drum' sidesite='inner'/><site "
       "site='q'/></spatial>",
       "", far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40'><site site='side'/><site site='p'/><pulley divisor='2'/><site "
       "site='hook'/><site site='q'/></spatial>",
       "", far, Level::kAnalytic},
      {"<spatial name='t'><site site='hook'/><site site='p'/></spatial>", motor("<motor tendon='t' gear='3'/>"), far,
       Level::kAnalytic},
      {"<spatial name='t'" + straight, motor("<position tendon='t' kp='30' kv='2' timeconst='0.1' gear='-2'/>"), far,
       Level::kAnalytic},
      {"<spatial name='t'" + straight, motor("<muscle tendon='t' lengthrange='0.2 1.5' force='9'/>"), far,
       Level::kAnalytic},
      {"<spatial name='t' limited='true' range='0 0.9'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' limited='true' range='1.2 3'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' frictionloss='0.3'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' frictionloss='90'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40' armature='0.2'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' armature='0.1'><site site='side'/><site site='p'/><pulley divisor='2'/><site "
       "site='hook'/><site site='q'/></spatial>",
       motor("<position tendon='t' kp='30' armature='0.3' gear='2'/>"), far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40'" + straight, "<equality><tendon tendon1='t'/></equality>", far,
       Level::kAnalytic},
      {"<spatial name='t' stiffness='40'" + straight +
           "<spatial name='s'><site site='side'/><site site='p'/></spatial>",
       "<equality><tendon tendon1='t' tendon2='s' polycoef='0.1 0.8 0.6 -0.5 0.7'/></equality>", far, Level::kAnalytic},
      {"<spatial name='t' actuatorfrclimited='true' actuatorfrcrange='-1 1'" + straight,
       motor("<position tendon='t' kp='30'/><position tendon='t' kp='20' kv='2' gear='2'/>"), far, Level::kAnalytic},
      {"<spatial name='t'" + straight, "", far, Level::kAnalytic},
      {"<spatial name='t' stiffness='40' springlength='0.1'><site site='p'/><site site='q'/></spatial>", "", far,
       Level::kAnalytic},

      // beside a contact that the engine searches: its columns of velocities and controls
      {"<spatial name='t' stiffness='40' damping='0.5'" + straight, motor("<motor tendon='t'/>"), "-0.08",
       Level::kAnalytic}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.tendon + c.other);
    std::string text = kScene;
    text.replace(text.find("%TENDON%"), 8, c.tendon);
    text.replace(text.find("%OTHER%"), 7, c.other);
    text.replace(text.find("%POST%"), 6, c.post);
    const ModelPtr model = LoadModelFromString(text);
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qpos[0] = 0.3;
    mju_copy4(data->qpos + 1, Eigen::Vector4d(0.95, 0.1, -0.25, 0.15).normalized().eval().data());
    for (int k = 0; k < m->nv; k++) data->qvel[k] = 0.7 - 0.4 * k;
    for (int k = 0; k < m->nu; k++) data->ctrl[k] = 0.8;
    for (int k = 0; k < m->na; k++) data->act[k] = 0.4;
    mj_forward(m, data.get());
    EXPECT_EQ(data->ncon, c.post == far ? 0 : 1);
    ExpectSensors(m, data.get(), c.level);
  }
}

// (C19) forces of contacts whose surfaces move, straight and turning, on the world, on a body and on both
TEST_F(SensorForceTest, FollowsMovingSurfaces) {
  constexpr char kScene[] = R"(<mujoco><option cone="%CONE%"/><worldbody>
      <geom name="floor" type="plane" size="2 2 0.1" euler="2 3 0" surfacevel="0.3 0.1 0 0.2 0 0.5"/>
      <body name="box" pos="0 0 0.11"><freejoint/><geom type="box" size="0.1 0.15 0.1" condim="%DIM%" surfacevel="0.2 0.3 0.1 0.4 0 2"/>
        <site name="in" pos="0.02 0.03 0.01" euler="10 20 30"/><site name="zone" type="box" size="0.2 0.2 0.2"/>
        <body name="arm" pos="0 0 0.16"><joint axis="0 1 0" damping="0.3"/><geom size="0.03" pos="0 0 0.05"/>
          <site name="wrist" pos="0 0 0.02"/></body></body>
      <body name="ball" pos="0.05 0.21 0.1" gravcomp="0.5"><freejoint/><geom size="0.1" condim="%DIM%" surfacevel="0.5 0.1 0 1 2 3"/></body>
    </worldbody>
    <sensor><force site="in"/><torque site="in"/><force site="wrist"/><touch site="zone"/>
      <contact body1="ball" data="force torque pos" num="2"/><contact body1="box" reduce="netforce" data="force torque pos"/></sensor></mujoco>)";
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* dim : {"1", "3", "4", "6"}) {
      SCOPED_TRACE(std::string(cone) + " condim " + dim);
      std::string text = kScene;
      text.replace(text.find("%CONE%"), 6, cone);
      for (std::size_t at; (at = text.find("%DIM%")) != std::string::npos;) text.replace(at, 5, dim);
      const ModelPtr model = LoadModelFromString(text);
      const DataPtr data = MakeData(model.get());
      for (int k = 0; k < 25; k++) mj_step(model.get(), data.get());
      mj_forward(model.get(), data.get());
      ASSERT_GE(data->ncon, 3);
      ExpectSensors(model.get(), data.get(), Level::kAnalytic);
    }
  }
}

// (A7), (A8) forces of controllers and motors, at a joint, along a tendon and as the tension of one that leaves the
// part
TEST_F(SensorForceTest, FollowsServos) {
  constexpr char kScene[] = R"(<mujoco><worldbody><site name="hook" pos="0.1 0 1"/>
      <body name="upper"><joint name="hinge" axis="0 1 0" damping="0.2"/><geom size="0.05" pos="0.2 0 0"/><site name="sensed" pos="0.02 0 0" euler="10 20 30"/>
        <body pos="0.3 0 0"><joint type="ball" damping="0.1"/><geom size="0.06" pos="0.1 0 0"/><site name="q" pos="0.12 0 0.05"/></body></body>
    </worldbody><tendon><spatial name="rope"><site site="hook"/><site site="q"/></spatial></tendon>
    <actuator>%SERVO%</actuator>
    <sensor><force site="sensed"/><torque site="sensed"/><actuatorfrc actuator="servo"/><jointactuatorfrc joint="hinge"/>
      <tendonactuatorfrc tendon="rope"/></sensor></mujoco>)";
  for (const char* path : {"joint='hinge'", "tendon='rope'"}) {
    for (const char* servo :
         {"pid name='servo' kp='20' kv='2' ki='30' imax='0.2' input='pos vel ff' gear='2'",
          "pid name='servo' kp='20' kv='2' forcerange='-1 1'",
          "dcmotor name='servo' resistance='2' motorconst='0.3' inductance='0 0.01' cogging='0.3 4 0.2' gear='3'",
          "dcmotor name='servo' resistance='2' motorconst='0.3' lugre='50 2 0.3 0.5 0.7' thermal='2 3 0 0.004 25 "
          "20'"}) {
      SCOPED_TRACE(std::string(path) + " " + servo);
      std::string text = kScene;
      text.replace(text.find("%SERVO%"), 7, "<" + std::string(servo) + " " + path + "/>");
      const ModelPtr model = LoadModelFromString(text);
      const mjModel* m = model.get();
      const DataPtr data = MakeData(m);
      data->qpos[0] = 0.3;
      for (int k = 0; k < m->nv; k++) data->qvel[k] = 0.7 - 0.4 * k;
      for (int k = 0; k < m->nu; k++) data->ctrl[k] = 0.8;
      for (int k = 0; k < m->na; k++) data->act[k] = 0.4;
      mj_forward(m, data.get());
      ExpectSensors(m, data.get(), Level::kAnalytic);
    }
  }
}

// What no motion can relieve pulls with the least R, here with 1e11 N, and the closed form would lose the torque in
// their lever.
TEST_F(SensorForceTest, ForcesThatNoMotionRelievesAreDifferencedInWholeSteps) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option><flag contact="disable"/></option><worldbody>
      <body><joint axis="0 1 0"/><geom type="ellipsoid" size="0.1 0.06 0.04"/><site name="eye" pos="0.042 -0.075 -0.015"/></body>
      <site name="hook"/></worldbody>
    <equality><connect site1="eye" site2="hook"/></equality><sensor><torque site="eye"/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qpos[0] = 0.3;
  data->qvel[0] = 0.5;
  mj_forward(m, data.get());
  EXPECT_GT(mju_norm(data->efc_force, data->nefc), 1e10);
  const StepDerivative value = Linearize(m, data.get());
  for (const BlockComparison& block : Compare(m, value, Reference(m, data.get()), {.tolerance = 1e-5}).blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                              << block.worst.value << " " << block.worst.reference;
  }
}

// A world's sensor sums the wrenches of trees that each have an origin of their own, and nothing is applied to the
// world itself.
TEST_F(SensorForceTest, WorldsSensorsFollowAppliedForces) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><site name="ground" pos="0.3 -0.2 0.1" euler="20 0 30"/>
      <body pos="0.5 0 1"><joint axis="0 1 0" damping="0.2"/><geom size="0.1" pos="0.2 0 0"/></body>
      <body pos="-0.6 0.4 0.5"><joint axis="1 0 0" damping="0.1"/><geom type="box" size="0.1 0.05 0.2" pos="0 0.1 0.1"/></body>
    </worldbody><sensor><torque site="ground"/><force site="ground"/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qvel[0] = 0.7;
  const VectorXd x = GetState(m, data.get()), sigma = support::Random(3).Vector(static_cast<int>(m->nsensordata));
  for (Level level : {Level::kBest, Level::kResidual, Level::kStep}) {
    SCOPED_TRACE(static_cast<int>(level));
    Linearizer linearizer(m, {.level = level, .sensors = false});
    linearizer.SetContext(GetContext(m, data.get()));
    StepVjp vjp;
    linearizer.VjpSensors(x, sigma, &vjp, true);
    VectorXd expected(6 * m->nbody);
    for (int k = 0; k < expected.size(); k++) {
      double sum[2];
      for (int side = 0; side < 2; side++) {
        data->xfrc_applied[k] = side ? 1 : -1;
        mj_forward(m, data.get());
        sum[side] = sigma.dot(Eigen::Map<const VectorXd>(data->sensordata, m->nsensordata));
      }
      data->xfrc_applied[k] = 0;
      expected[k] = (sum[1] - sum[0]) / 2;
    }
    ExpectNear(vjp.xfrc, expected, 1e-6, "xfrc");
  }
}

}  // namespace
}  // namespace costate
