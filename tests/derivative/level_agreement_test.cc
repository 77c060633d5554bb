#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "derivative/analytic.h"
#include "support/engine_test.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

constexpr double kAgreement = 1e-9;  // of a block's largest entry
constexpr double kEmpty = 1e-8;      // of a matrix' largest entry: a block that is zero but for rounding …
constexpr double kBorrowed = 1e-2;   // … is measured by so much of it

// the worst difference of two matrices, block by block, each relative to the block's largest entry
double WorstOfBlocks(const MatrixXd& X, const MatrixXd& Y, std::vector<int> rows, std::vector<int> columns) {
  const double largest = X.size() ? X.cwiseAbs().maxCoeff() : 0;
  double worst = 0;
  int row = 0;
  for (const int n : rows) {
    int column = 0;
    for (const int k : columns) {
      if (n > 0 && k > 0) {
        double scale = X.block(row, column, n, k).cwiseAbs().maxCoeff();
        if (scale < kEmpty * largest) scale = kBorrowed * largest;
        const double error = (X - Y).block(row, column, n, k).cwiseAbs().maxCoeff();
        if (error > 0) worst = std::max(worst, error / scale);
      }
      column += k;
    }
    row += n;
  }
  return worst;
}

std::vector<std::string> Models() {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const char* folder : {COSTATE_MODELS, COSTATE_TESTDATA}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".xml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void ExpectAgreement(const mjModel* model, const StepDerivative& one, const StepDerivative& two) {
  ASSERT_EQ(one.status, StepStatus::kOk);
  ASSERT_EQ(two.status, StepStatus::kOk);
  const int nv = static_cast<int>(model->nv), na = static_cast<int>(model->na), nu = static_cast<int>(model->nu);
  EXPECT_LT(WorstOfBlocks(one.A, two.A, {nv, nv, na}, {nv, nv, na}), kAgreement);
  EXPECT_LT(WorstOfBlocks(one.B, two.B, {nv, nv, na}, {nu}), kAgreement);
}

using LevelAgreementTest = support::EngineTest;

// Level 2 differences what level 1 has in closed form; both solve with H. Each model of this repository at its first
// key, in passive and in driven motion, under its own integrator and cone, under RK4, under the other cone and under the
// discrete integrator.
TEST_F(LevelAgreementTest, ClosedFormsAreTheDifferencesOfTheResidual) {
  int states = 0, contacts = 0;
  for (const std::string& file : Models()) {
    ModelPtr model;
    try {
      model = LoadModel(file);
    } catch (const Error&) {
      continue;  // a task, or a part of another file
    }
    if (model->nv == 0) continue;
    const int integrator = model->opt.integrator, cone = model->opt.cone;
    for (const int variant : {0, 1, 2, 3}) {
      model->opt.integrator = variant == 1   ? static_cast<int>(mjINT_RK4)
                              : variant == 3 ? static_cast<int>(mjINT_DISCRETE)
                                             : integrator;
      model->opt.cone = variant == 2 ? 1 - cone : cone;
      for (const int steps : {0, 40, 200}) {
        SCOPED_TRACE(file + ", variant " + std::to_string(variant) + ", steps " + std::to_string(steps));
        const DataPtr data = MakeData(model.get());
        if (model->nkey > 0) mj_resetDataKeyframe(model.get(), data.get(), 0);
        if (steps > 0) {
          const VectorXd u = 0.2 * support::RandomControl(model.get(), static_cast<unsigned>(steps));
          mju_copy(data->ctrl, u.data(), model->nu);
        }
        for (int k = 0; k < steps; k++) mj_step(model.get(), data.get());
        if (model->nflex > 0) {  // an elastic flex in its own shape stands on a kink: its edges are about to pull
          VectorXd apart(model->nv);
          for (Eigen::Index i = 0; i < apart.size(); i++) apart[i] = 1e-4 * std::sin(37.0 * static_cast<double>(i + 1));
          mj_integratePos(model.get(), data->qpos, apart.data(), 1);
        }
        if (!TakeWarnings().empty()) continue;  // the motion itself is none
        const StepDerivative one = Linearize(model.get(), data.get(), {.sensors = false});
        if (one.coverage.Worst() != Level::kAnalytic) continue;
        const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual, .sensors = false});
        // drag in the metric bends in every row, and level 2 knows it to 1e-10 of the largest acceleration, (J2)
        if (variant == 3 && model->opt.density > 0) EXPECT_LT(support::Apart(one.A, two.A), kAgreement);
        else ExpectAgreement(model.get(), one, two);
        states++;
        contacts += data->ncon;
      }
    }
  }
  EXPECT_GT(states, 150);
  EXPECT_GT(contacts, 40);
}

// A knob turns far while its slide goes a little: the impedance of what couples them bends within a micrometre of the
// slide, and on both sides of that the force is straight. So it is about an impedance of little width.
TEST_F(LevelAgreementTest, NudgesAreAsShortAsTheirRowsAreQuick) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body><joint name="knob" axis="1 0 0" armature=".01"/><geom size=".1" mass=".1"/></body>
    <body pos="1 0 0"><joint name="slide" type="slide" axis="1 0 0" armature="1e4"/><geom size=".1" mass=".1"/></body>
  </worldbody><equality><joint joint1="knob" joint2="slide" polycoef="0 -2000 0 0 0"/></equality></mujoco>)");
  for (const double width : {1e-3, 1e-6}) {
    for (const double apart : {0.1, 0.4, 0.6}) {
      SCOPED_TRACE(std::to_string(apart) + " of " + std::to_string(width));
      model->eq_solimp[2] = width;
      model->eq_data[1] = width < 1e-3 ? -1 : -2000;
      const DataPtr data = MakeData(model.get());
      data->qpos[0] = apart * width;
      const StepDerivative one = Linearize(model.get(), data.get());
      EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
      ExpectAgreement(model.get(), one, Linearize(model.get(), data.get(), {.level = Level::kResidual}));
    }
  }
}

// A string of light beads: what Euler's damping makes of a is large beside how it turns with positions, and its
// rounding, too. Level 2 differences M alone, at the change a − ā. Polynomial damping stays with velocities.
TEST_F(LevelAgreementTest, EulersDampingIsDifferencedToRounding) {
  for (const char* damping : {".001", ".001 .002"}) {
    std::string beads, end;
    for (int i = 1; i <= 8; i++) {
      beads += "<body pos='.02 0 0'><joint type='" + std::string(i % 3 ? "ball" : "hinge") + "' damping='" + damping +
               "'/><geom size='.01' density='500'/>";
      end += "</body>";
    }
    const ModelPtr model = LoadModelFromString(
        "<mujoco><option><flag contact='disable'/></option><worldbody><body euler='45 45 45'><freejoint/>"
        "<geom size='.01' density='500'/>" +
        beads + end + "</body></worldbody></mujoco>");
    const DataPtr data = MakeData(model.get());
    const StepDerivative rest = Linearize(model.get(), data.get());
    const StepDerivative differenced = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.3 * std::sin(3 * i + 1);
    const StepDerivative one = Linearize(model.get(), data.get());
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    const int nv = static_cast<int>(model->nv);
    EXPECT_LT(WorstOfBlocks(rest.A, differenced.A, {nv, nv}, {nv, nv}), 1e-10);
    EXPECT_LT(WorstOfBlocks(one.A, two.A, {nv, nv}, {nv, nv}), 1e-10);
  }
}

// Sensors of kinematics and of accelerations: nudges are as long as their rounding asks for, and shorter where a ray
// leaves what it hits within these.
TEST_F(LevelAgreementTest, SensorsOfMotionAreDifferencedToRounding) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <geom type="box" size=".5 .5 .1" pos="0 0 -2"/>
    <body><freejoint/><geom size=".1"/><site name="a" pos=".1 .2 .3" euler="10 20 30"/>
      <body pos=".3 0 0"><joint axis="0 1 0" damping=".1"/><geom type="capsule" size=".05" fromto="0 0 0 .4 0 0"/>
        <site name="b" pos=".4 0 0" euler="0 180 0"/></body></body>
  </worldbody><sensor><gyro site="a"/><velocimeter site="b"/><accelerometer site="b"/>
    <framepos objtype="site" objname="b"/><framequat objtype="site" objname="b"/>
    <frameangacc objtype="site" objname="b"/><subtreeangmom body="world"/><rangefinder site="b"/></sensor></mujoco>)");
  for (const double edge : {1e-3, 3e-6}) {
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = 0.5 - edge - 0.7;  // a nudge of 4e-3 takes the ray off the box
    for (int i = 0; i < model->nv; i++) data->qvel[i] = std::sin(3 * i + 1);
    mj_forward(model.get(), data.get());
    ASSERT_GT(data->sensordata[model->sensor_adr[model->nsensor - 1]], 0);
    const StepDerivative one = Linearize(model.get(), data.get());
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    for (int i = 0; i < model->nsensor; i++) {
      SCOPED_TRACE("sensor " + std::to_string(i) + ", edge " + std::to_string(edge));
      const auto rows = [&](const MatrixXd& C) { return C.middleRows(model->sensor_adr[i], model->sensor_dim[i]); };
      const double tolerance = model->sensor_type[i] == mjSENS_RANGEFINDER ? kAgreement : 1e-10;
      EXPECT_LT((rows(one.C) - rows(two.C)).cwiseAbs().maxCoeff(), tolerance * rows(one.C).cwiseAbs().maxCoeff());
    }
  }
}

// What falls reads 9.81 − 9.81, and so little of how that changes that the rounding of either shows: level 2 takes
// readings at fixed acceleration and adds their gain times da. Steps of the gain cross no cutoff.
TEST_F(LevelAgreementTest, AccelerometersInFreeFallAreDifferencedToRounding) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0 0 -9.81"/><worldbody>
    <body euler="10 20 30"><freejoint/><geom type="box" size=".3 .1 .1"/><site name="a" pos=".1 .02 .03"/>
      <body pos=".3 0 0"><joint name="hip" axis="1 0 0" damping="1" armature=".01" frictionloss=".1"/>
        <geom type="capsule" size=".03" fromto="0 0 0 0 .1 -.2"/>
        <body pos="0 .1 -.2"><joint axis="0 1 0" damping=".5" armature=".01" frictionloss=".2"/>
          <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2"/><site name="b" pos="0 0 -.2"/></body></body></body>
    </worldbody><actuator><motor joint="hip"/></actuator>
    <sensor><accelerometer site="a"/><accelerometer site="b" cutoff="1e-3"/><accelerometer site="b" cutoff="1e-9"/>
    </sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int k = 0; k < 200; k++) mj_step(model.get(), data.get());
  data->ctrl[0] = 1e-6;
  mj_forward(model.get(), data.get());
  ASSERT_LT(Eigen::Map<const Vec3>(data->sensordata).norm(), 1e-4);
  const StepDerivative one = Linearize(model.get(), data.get());
  const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
  EXPECT_GT(one.D.topRows(6).cwiseAbs().maxCoeff(), 1e-3);
  EXPECT_LT((one.C - two.C).leftCols(model->nv).cwiseAbs().maxCoeff(), 1e-11);
  EXPECT_LT((one.C - two.C).cwiseAbs().maxCoeff(), 1e-9 * one.C.cwiseAbs().maxCoeff());
  EXPECT_LT((one.D - two.D).cwiseAbs().maxCoeff(), 1e-9 * one.D.cwiseAbs().maxCoeff());
}

// A cart clamped between rails feels nothing of where it is along them, but the stiffness of its contacts magnifies the
// rounding of their places: level 2 takes longer nudges where it finds nothing else in its quotients.
TEST_F(LevelAgreementTest, ContactsAreDifferencedBeyondTheirRounding) {
  for (const char* mass : {"100", ".01"}) {
    SCOPED_TRACE(mass);
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><worldbody>
      <geom type="capsule" pos="0 .07 1" zaxis="1 0 0" size=".02 2"/>
      <geom type="capsule" pos="0 -.07 1" zaxis="1 0 0" size=".02 2"/>
      <body pos="0 0 1"><joint type="slide" axis="1 0 0" damping="5e-4"/><geom type="box" size=".2 .15 .1" mass="1"/>
        <body><joint axis="0 1 0" damping="2e-6"/>
          <geom type="capsule" fromto="0 0 0 0 0 1" size=".045" mass=")") +
                                               mass + R"("/></body></body>
      </worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = 0.5;
    data->qfrc_applied[0] = 5;
    for (int k = 0; k < 25; k++) mj_step(model.get(), data.get());
    ASSERT_GT(data->ncon, 2);
    const StepDerivative one = Linearize(model.get(), data.get());
    EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    EXPECT_LT(WorstOfBlocks(one.A, two.A, {2, 2}, {2, 2}), 1e-12);
  }
}

// A cone's force bends as near as its contact is slow: nudges beyond the tip agree on the mean of both slopes. Alone
// and beside a heavy contact.
TEST_F(LevelAgreementTest, ALightContactIsDifferencedWithinItsCone) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option cone="elliptic" gravity="0 0 -1e-3"/><worldbody>
    <geom type="plane" size="5 5 1"/>
    <body pos="0 0 .1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/><geom size=".1"/></body>
    <body pos="1 0 .099"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/><geom size=".1" mass="100"/></body></worldbody></mujoco>)");
  for (const double speed : {1e-3, 1e-4, 1e-5, 1e-6, -1e-4, -1e-5, -1e-6, -1e-7, -1e-8}) {
    SCOPED_TRACE(speed);
    const DataPtr data = MakeData(model.get());
    data->qpos[2] = -1e-3 * std::abs(speed);
    data->qvel[0] = speed;
    data->qvel[1] = -0.2 * speed;
    data->qvel[3] = 1;
    if (speed < 0) data->qpos[5] = 1;  // alone
    const StepDerivative one = Linearize(model.get(), data.get());
    EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
    ExpectAgreement(model.get(), one, Linearize(model.get(), data.get(), {.level = Level::kResidual}));
  }
}

// Forces turn corners that no row of a constraint shows. A point may lie nearer to one than any nudge that its smooth
// surroundings ask for, on either side, and be smooth by the certificate.
TEST_F(LevelAgreementTest, NudgesPassNoCorner) {
  const auto slide = [](const std::string& joint, const std::string& rest) {
    return "<mujoco><option gravity='0 0 0'/><worldbody><body><joint name='j' type='slide' axis='1 0 0' " + joint +
           "/><geom size='.1' mass='1' contype='0'/></body></worldbody>" + rest + "</mujoco>";
  };
  struct Case {
    const char* name;
    std::string model;
    double qpos, qvel, ctrl;  // at the corner
    char moved;               // q, v or u
    double distance;
  };
  const std::string servo = "<actuator><position joint='j' kp='100' kv='10' forcerange='-10 10'/></actuator>",
                    clamped = "<actuator><position joint='j' kp='100' kv='10'/></actuator>",
                    motor = "<actuator><motor joint='j' gear='100' forcerange='-.1 .1'/></actuator>",
                    range = "<actuator><motor joint='j' ctrllimited='true' ctrlrange='-1 1'/></actuator>",
                    tendon =
                        "<tendon><fixed stiffness='1000' springlength='-.1 .1'><joint joint='j' coef='1'/>"
                        "</fixed></tendon>",
                    wrapped = R"(<mujoco><option gravity="0 0 0"/><worldbody><site name="a" pos="-1 0 .1"/>
      <geom name="w" type="cylinder" size=".1 1" euler="90 0 0" contype="0" conaffinity="0"/>
      <body pos="1 0 .1"><joint name="j" type="slide" axis="0 0 1"/><geom size=".05" mass="1" contype="0"/>
        <site name="b"/></body></worldbody><tendon><spatial stiffness="100" springlength=".5"><site site="a"/>
        <geom geom="w"/><site site="b"/></spatial></tendon></mujoco>)";
  const Case cases[] = {{"force limit by position", slide("", servo), -0.1, 0, 0, 'q', 4e-6},
                        {"force limit by velocity", slide("", servo), 0, -1, 0, 'v', 4e-5},
                        {"force limit by control", slide("", motor), 0, 0, 0.1, 'u', 4e-6},
                        {"force limit of a joint", slide("actuatorfrcrange='-10 10'", clamped), -0.1, 0, 0, 'q', 4e-6},
                        {"rest length of a tendon", slide("stiffness='1'", tendon), 0.1, 0, 0, 'q', 4e-6},
                        {"end of the controls", slide("", range), 0, 0, 1, 'u', 4e-6},
                        {"reversal of drag", slide("damping='.1 100'", ""), 0, 0, 0, 'v', 4e-6},
                        {"onset of a wrap", wrapped, 0, 0, 0, 'q', 4e-6}};
  for (const Case& c : cases) {
    const ModelPtr model = LoadModelFromString(c.model);
    for (const double side : {-1.0, 1.0}) {
      SCOPED_TRACE(std::string(c.name) + ", side " + std::to_string(side));
      const DataPtr data = MakeData(model.get());
      data->qpos[0] = c.qpos;
      data->qvel[0] = c.qvel;
      if (model->nu > 0) data->ctrl[0] = c.ctrl;
      mjtNum* moved = c.moved == 'q' ? data->qpos : c.moved == 'v' ? data->qvel : data->ctrl;
      moved[0] += side * c.distance;
      EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kSmooth);
      const StepDerivative one = Linearize(model.get(), data.get());
      EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
      ExpectAgreement(model.get(), one, Linearize(model.get(), data.get(), {.level = Level::kResidual}));
    }
  }
}

// A ball on a height field under libccd: at a stage of RK4 its depth in one prism jumps by 0.2 mm within a micrometre, the
// length of a nudge. That is no corner, whose mean rate a contact could take.
TEST_F(LevelAgreementTest, AJumpWithinANudgeIsNoCorner) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
      <option timestep=".002" integrator="RK4"><flag nativeccd="disable"/></option>
      <asset><hfield name="h" nrow="5" ncol="6" size="1 1 .1 .1" elevation="0.679 0.191 0.753 0.863 0.763 0.344  0.605
        0.798 0.121 0.161 0.00409 0.203  0.983 0.462 0.698 0.838 0.853 0.346  0.255 0.272 0.451 0.155 0.846 0.0805  0.376
        0.417 0.0883 0.556 0.0869 0.243"/></asset>
      <worldbody><geom type="hfield" hfield="h" pos="0 0 -.11016"/>
        <body><freejoint/><geom size=".06" pos=".09 .07 -.13"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  VectorXd x(13);
  x << 0.1345000524241759, -0.10058816401399916, 0.071842622087938138, 0.95971956130971159, -0.17933214563323416,
      0.073745335609480211, 0.20332233192131249, 0.024190062428554149, 0.01621012781586588, 0.075215792683158589,
      -0.12118419316695533, 0.1345542824566045, -0.0099639113493612767;
  SetState(model.get(), data.get(), x);
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 4);
  ExpectAgreement(model.get(), Linearize(model.get(), data.get()),
                  Linearize(model.get(), data.get(), {.level = Level::kResidual}));
}

// Contacts of curved surfaces that the engine searches are a staircase below its tolerance, and four of the corners
// that it gives the cap of a cylinder are chosen by rounding: level 2 moves them as level 1 does, (10). Ellipsoids on
// each other and on a box, cylinders across each other, one of them a roller, a cylinder that stands, under gravity
// that is not upright.
TEST_F(LevelAgreementTest, ContactsThatNoDifferenceSeesThroughMoveAlike) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0.4 0.3 -9.81"/><worldbody>
    <geom name="table" type="box" size="2 2 .1" pos="0 0 -.1"/>
    <body pos="0 0 .099"><joint type="slide" axis="1 0 0" damping=".1"/><joint axis="0 1 0" stiffness="5"/><geom type="ellipsoid" size=".2 .15 .1"/></body>
    <body pos=".02 .01 .29"><freejoint/><geom type="ellipsoid" size=".12 .14 .1"/></body>
    <body pos="1 0 .099" euler="90 0 10"><joint type="slide" axis="1 0 0" damping=".1"/><geom type="cylinder" size=".1 .2" surfacevel="0 0 0 0 0 .5"/></body>
    <body pos="1 .01 .297" euler="5 87 0"><freejoint/><geom type="cylinder" size=".1 .2"/></body>
    <body pos="-1 0 .0995"><freejoint/><geom type="cylinder" size=".15 .1"/></body>
  </worldbody></mujoco>)");
  for (const int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
      for (const int steps : {1, 30, 60}) {
        SCOPED_TRACE(std::to_string(integrator) + ", cone " + std::to_string(cone) + ", steps " +
                     std::to_string(steps));
        model->opt.integrator = integrator;
        model->opt.cone = cone;
        const DataPtr data = MakeData(model.get());
        for (int k = 0; k < steps; k++) mj_step(model.get(), data.get());
        mj_forward(model.get(), data.get());
        EXPECT_GE(data->ncon, 4);
        const StepDerivative one = Linearize(model.get(), data.get(), {.sensors = false});
        EXPECT_EQ(one.coverage.Worst(), Level::kAnalytic);
        const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual, .sensors = false});
        ExpectAgreement(model.get(), one, two);

        // so does level 1 where its rows are differenced
        const DataPtr work = MakeData(model.get());
        mj_copyState(model.get(), data.get(), work.get(), mjSTATE_INTEGRATION);
        AnalyticBackend backend(model.get(), false, {.constraint = true});
        StepDerivative switched;
        std::string missing;
        ASSERT_TRUE(backend.Linearize(model.get(), work.get(), false, &switched, &missing)) << missing;
        ExpectAgreement(model.get(), one, switched);
      }
    }
  }
}

// A body that turns about its centre of mass has no inverse weight against translation: the engine holds R of its rows
// at the least that it takes, and D does not move with the impedance, (C8). Two equalities that pull at each other
// leave forces in such rows, and a wheel with a bump is pressed on the floor.
TEST_F(LevelAgreementTest, TheHardestRowsDoNotMoveWithTheirImpedance) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco>
    <default><equality solimp=".5 .95 .5"/><geom solimp=".5 .95 .01"/></default><worldbody>
    <body pos="0 0 .1"><joint name="a" axis="0 1 0" armature=".03"/><geom type="box" size=".08 .07 .06"/>
      <site name="s" pos="-.05 0 .01"/><site name="t" pos=".02 0 .02"/></body>
    <site name="w" pos="-.03 .01 .25"/><site name="z" pos=".04 0 .13" euler="0 20 0"/>
    <geom type="plane" size="3 3 .1"/>
    <body pos="1 0 .1"><joint axis=".2 1 .1" stiffness="40" springref="40" armature=".02"/><geom type="box" size=".05 .05 .05"/>
      <geom size=".02" pos=".03 .02 -.0805" mass="0"/></body>
    </worldbody><equality><connect site1="s" site2="w"/><weld site1="t" site2="z"/></equality></mujoco>)");
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    model->opt.cone = cone;
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 1);
    EXPECT_EQ(*std::min_element(data->efc_R, data->efc_R + data->ne), mjMINVAL);
    const StepDerivative one = Linearize(model.get(), data.get(), {.sensors = false});
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual, .sensors = false});
    ASSERT_EQ(one.coverage.Worst(), Level::kAnalytic);
    ExpectAgreement(model.get(), one, two);

    // pulled back through contacts, too
    const VectorXd lambda = VectorXd::LinSpaced(one.A.rows(), -1, 1);
    Linearizer linearizer(model.get());
    StepVjp vjp;
    linearizer.Vjp(GetState(model.get(), data.get()), VectorXd(), lambda, &vjp);
    EXPECT_LT((vjp.x - two.A.transpose() * lambda).norm(),
              kAgreement * (two.A.cwiseAbs().transpose() * lambda.cwiseAbs()).norm());
  }
}

// Such rows leave a ball joint free to turn about its arm, where H would have none of M's digits, (C22). Moving, what
// they ask for along the arm cannot be had: faster, its force of 1e15 times what is missing leaves the engine's own
// acceleration few digits.
TEST_F(LevelAgreementTest, TheHardestRowsLeaveWhatIsFreeItsDigits) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body name="b"><joint type="ball" damping="0.1"/><geom type="ellipsoid" size=".11 .04 .07"/><site name="s"/>
      <body pos="0 0 .2"><joint axis="1 2 0" stiffness="1"/><geom type="capsule" size=".02 .1" euler="30 40 0" mass=".1"/></body>
    </body></worldbody><equality><connect body1="b" anchor="-.01 -.07 .03"/></equality>
    <sensor><gyro site="s"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double speed : {0.0, 1e-3}) {
    for (int j = 0; j < model->nv; j++) data->qvel[j] = speed * (1 - 0.3 * j);
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->efc_R[0], mjMINVAL);
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    const StepDerivative step = Linearize(model.get(), data.get());
    ASSERT_EQ(step.coverage.Worst(), Level::kAnalytic);
    EXPECT_TRUE(support::AgreesWithReference(step.A, reference.value.A, reference.A_error, 1e-7)) << speed;
    const VectorXd lambda = VectorXd::LinSpaced(step.A.rows(), -1, 2);
    Linearizer linearizer(model.get());
    StepVjp vjp;
    linearizer.Vjp(GetState(model.get(), data.get()), VectorXd(), lambda, &vjp);
    EXPECT_LT((vjp.x - step.A.transpose() * lambda).norm(),
              1e-7 * (step.A.cwiseAbs().transpose() * lambda.cwiseAbs()).norm());
  }
}

// A ball on a lid, pressed on along the hinge that turns it about its own centre: rows of the greatest D that no motion
// feels. The joints behind them keep all their digits.
TEST_F(LevelAgreementTest, TheHardestContactWithoutALeverLeavesMItsDigits) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
      <geom type="cylinder" size=".08 .055"/>
      <body pos="0 0 .07"><joint name="pan" axis="0 0 1"/><geom size=".06" density="700"/>
        <body pos="0 0 .1"><joint axis="0 1 0"/><geom type="capsule" fromto=".1 0 .3 .3 0 .3" size=".02"/></body></body>
    </worldbody><actuator><position joint="pan" kp="600"/></actuator></mujoco>)");
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    model->opt.cone = cone;
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 1);
    ASSERT_GT(data->efc_D[0], 1e14);
    ASSERT_GT(data->efc_force[0], 0);
    const StepDerivative step = Linearize(model.get(), data.get());

    // without gravity's moment about the hinge nothing but its own inertia is at its actuator: h kp/M
    double M[4];
    mju_zero(M, 4);
    mj_fullM(model.get(), data.get(), M);
    EXPECT_NEAR(step.B(2, 0), model->opt.timestep * 600 / M[0], 1e-12 * step.B(2, 0));
    const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual});
    EXPECT_LT((step.A - two.A).cwiseAbs().maxCoeff(), 1e-9 * two.A.cwiseAbs().maxCoeff());
  }
}

// Such a connect makes a hinge of a ball joint, whose derivative has a closed form that noise does not touch. It
// carries the weight of the link. Undamped: in a step of Euler dampers come after the constraints.
TEST_F(LevelAgreementTest, TheHardestRowsMakeAHingeOfABallJoint) {
  const auto scene = [](const std::string& joint, const std::string& more) {
    return LoadModelFromString("<mujoco><worldbody><body name='b'>" + joint + R"(
      <geom type="ellipsoid" size=".11 .04 .07"/><body pos=".1 .05 .2"><joint axis="1 2 0" stiffness="1"/>
      <geom type="capsule" size=".02 .1" euler="30 40 0" mass=".1"/></body></body></worldbody>)" +
                               more + "</mujoco>");
  };
  const Eigen::Vector3d axis = Eigen::Vector3d(-.01, -.07, .03).normalized();
  const ModelPtr hinge = scene("<joint axis='-.01 -.07 .03'/>", "");
  const ModelPtr ball =
      scene("<joint type='ball'/>", "<equality><connect body1='b' anchor='-.01 -.07 .03'/></equality>");
  const DataPtr free = MakeData(hinge.get()), held = MakeData(ball.get());
  mj_forward(ball.get(), held.get());
  ASSERT_EQ(held->efc_R[0], mjMINVAL);
  ASSERT_GT(mju_norm(held->efc_force, 3), 0.1);
  const StepDerivative one = Linearize(hinge.get(), free.get()), other = Linearize(ball.get(), held.get());
  ASSERT_EQ(other.coverage.Worst(), Level::kAnalytic);
  MatrixXd lift = MatrixXd::Zero(8, 4);  // (angle, link, rates) to the tangent of the ball joint's model
  lift.block<3, 1>(0, 0) = lift.block<3, 1>(4, 2) = axis;
  lift(3, 1) = lift(7, 3) = 1;
  const MatrixXd A = other.A * lift;
  EXPECT_LT((A - lift * one.A).cwiseAbs().maxCoeff(), 1e-7 * one.A.cwiseAbs().maxCoeff()) << A - lift * one.A;
}

// A muscle's slope where control and activation are equal is that of one side, also behind an actuator of several
// inputs.
TEST_F(LevelAgreementTest, MusclesBehindActuatorsOfSeveralInputsStayOnTheirSide) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="w"/><body><joint name="j" axis="0 1 0"/>
    <geom size=".1" pos="0 0 -.3"/><site name="s" pos="0 0 -.2"/></body></worldbody>
    <actuator><orientation site="s" refsite="w" kp="7" kv=".5"/>
      <muscle joint="j" ctrlrange="-.2 1" ctrllimited="true" lengthrange="-.3 .3" force="15"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const int u = model->actuator_ctrladr[1];
  ASSERT_GT(u, 1);
  const StepDerivative one = Linearize(model.get(), data.get(), {.sensors = false});
  const StepDerivative two = Linearize(model.get(), data.get(), {.level = Level::kResidual, .sensors = false});
  ASSERT_EQ(one.coverage.Worst(), Level::kAnalytic);
  ExpectAgreement(model.get(), one, two);
  // upwards: h / (0.01 (0.5 + 1.5 act))
  EXPECT_NEAR(two.B(2, u), model->opt.timestep / 0.005, 1e-9);
}

}  // namespace
}  // namespace costate
