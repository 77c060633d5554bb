// Tasks of MuJoCo MPC: small ones in its format, written here.
#include <costate/mjpc.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optimizer/cost_terms.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::TemporaryFolder;

constexpr char kBody[] = R"(
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body name="cart" pos="0 0 .5">
      <joint name="slide" type="slide" axis="1 0 0"/><geom name="box" size=".1" mass="1" solimp=".9 .95 .001"/>
      <body name="pole"><joint name="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".02"/><site name="tip" pos="0 0 .5"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" ctrlrange="-1 1"/></actuator>
)";

// lines 1 to 12 are what is imported
std::string Source(const std::string& sensors, const std::string& custom =
                                                   "<numeric name='agent_horizon' data='0.35'/>"
                                                   "<numeric name='agent_timestep' data='0.015'/>") {
  return "<mujoco model='tiny'>\n<option timestep='0.002'/>\n<custom>" + custom + "</custom>\n<sensor>\n" + sensors +
         "\n</sensor>\n<keyframe><key name='home' qpos='0.5 0.1'/></keyframe>" + kBody + "</mujoco>\n";
}

constexpr char kSensors[] =
    "<user name='Upright' dim='1' user='6 10 0 100 0.01'/>\n"
    "<user name='Center &amp; speed' dim='2' user='7 0.5 0 10 0.1 4'/>\n"
    "<user name='Effort' dim='1' user='3 0.1 0 1 0.3'/>\n"
    "<user name='Unused' dim='3' user='0 0 0 1'/>";
constexpr char kMeanings[] =
    "<residuals>\n<measure name='angle' qpos='hinge'/>\n<measure name='x' qpos='slide'/><measure name='v' "
    "qvel='slide'/>\n"
    "<residual name='Upright' value='cos(angle) - 1'/>\n<residual name='Center &amp; speed' value='[x - Goal_x, v]'/>\n"
    "<residual name='Effort' ctrl='all'/>\n</residuals>\n";
constexpr char kCustom[] =
    "<numeric name='agent_horizon' data='0.35'/><numeric name='agent_timestep' data='0.015'/>"
    "<numeric name='residual_Goal x' data='0.3 -1 1'/><numeric name='residual_Other' data='1'/><numeric "
    "name='agent_planner' data='2'/>"
    "<numeric name='agent_integrator' data='3'/><numeric name='task_risk' data='1'/><text name='task_transition' "
    "data='A|B'/>";

class Import : public ::testing::Test {
 protected:
  std::string Write(const std::string& sensors, const std::string& custom = kCustom) {
    return folder_.Write("mjpc.xml", Source(sensors, custom));
  }
  MjpcImport Of(const std::string& source, const std::string& meanings) {
    const std::string residuals = meanings.empty() ? "" : folder_.Write("residuals.xml", meanings);
    return ImportMjpcTask(source, residuals, folder_.path());
  }
  void Refuses(const std::string& source, const std::string& meanings, const std::string& text) {
    try {
      Of(source, meanings);
      ADD_FAILURE() << "is imported";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
  TemporaryFolder folder_;
};

// the mean over all 24 knots of its norms, the last control counted at the last knot, too: by hand along a motion
TEST_F(Import, HasTheMeanCostOfTheOther) {
  const std::string source = Write(kSensors);
  const MjpcImport import = Of(source, kMeanings);
  ASSERT_TRUE(import.missing.empty());
  const std::string file = folder_.Write("tiny.task.xml", import.text);
  const Task task = LoadTask(file);
  CheckMjpcImport(source, task);
  EXPECT_EQ(task.N, 23);  // 0.35 / 0.015 + 1 rounded down: 24 knots
  EXPECT_TRUE(task.warnings.empty());
  EXPECT_EQ(task.model->opt.timestep, 0.015);
  EXPECT_EQ(task.model->opt.integrator, mjINT_IMPLICITFAST);
  for (int i = 0; i < task.model->ngeom; i++) EXPECT_EQ(task.model->geom_solimp[mjNIMP * i], 0) << i;
  EXPECT_EQ(task.x0[0], 0.5);
  EXPECT_TRUE(task.U_guess.isZero(0));

  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory motion;
  const MatrixXd U = 0.8 * MatrixXd::Random(1, task.N);
  ASSERT_TRUE(simulator.Rollout(task.x0, U, &motion).ok());
  double sum = 0;
  for (int t = 0; t < 24; t++) {
    const double x = motion.X(0, t) - 0.3, angle = motion.X(1, t), v = motion.X(2, t), u = U(0, std::min(t, 22));
    const double up = std::cos(angle) - 1, p4 = std::pow(0.1, 4);
    sum += 10 * (std::sqrt(up * up + 1e-4) - 0.01) +
           0.5 * (std::pow(x * x * x * x + p4, 0.25) + std::pow(v * v * v * v + p4, 0.25) - 0.2) +
           0.1 * 0.09 * (std::cosh(u / 0.3) - 1);
  }
  EXPECT_NEAR(TotalCost(*task.cost, motion, simulator.knot_time()), sum / 24, 1e-12);
}

TEST_F(Import, SaysWhatItLeavesOut) {
  std::string notes;
  for (const std::string& note : Of(Write(kSensors), kMeanings).notes) notes += note + "\n";
  for (const char* text : {"task_risk is not taken over", "no residual reads the parameters Other", "agent_planner",
                           "'Unused' has weight 0", "modes are switched by C++ code (A|B)"}) {
    EXPECT_NE(notes.find(text), std::string::npos) << text << "\n" << notes;
  }
}

TEST_F(Import, AsksForWhatAResidualMeasures) {
  const std::string source = Write(kSensors);
  const MjpcImport import = Of(source, "<residuals><residual name='Effort' ctrl='all'/></residuals>");
  ASSERT_EQ(import.missing.size(), 2u);
  EXPECT_EQ(import.missing[0], source + ":5: 'Upright', 1 number, norm smooth_abs, weight 10");
  EXPECT_EQ(import.missing[1], source + ":6: 'Center & speed', 2 numbers, norm smooth_abs2, weight 0.5");
  EXPECT_TRUE(import.text.empty());
  EXPECT_NE(import.form.find("<residual name=\"Center &amp; speed\" value=\"\"/>"), std::string::npos) << import.form;
}

TEST_F(Import, ReadsIncludesAndSaysWhichIsMissing) {
  folder_.Write("sensors.xml", std::string("<mujoco><sensor>") + kSensors + "</sensor></mujoco>");
  const std::string source =
      folder_.Write("mjpc.xml", std::string("<mujoco>\n<include file='sensors.xml'/>") + kBody + "</mujoco>");
  const MjpcImport import = Of(source, "");
  EXPECT_EQ(import.missing.size(), 3u);
  Refuses(folder_.Write("mjpc.xml", "<mujoco>\n<include file='robot_modified.xml'/></mujoco>"), "",
          "mjpc.xml:2: <include>: there is no file '");
  Refuses(folder_.Write("mjpc.xml", "<mujoco><include file='mjpc.xml'/></mujoco>"), "", "<include>s without end");
}

TEST_F(Import, RefusesWhatItDoesNotUnderstand) {
  const auto user = [&](const std::string& attributes) { return Write("<user name='A' " + attributes + "/>"); };
  Refuses(user("dim='1' user='4 1 0 1'"), "",
          "mjpc.xml:5: <user name='A'>: norm is 4, MuJoCo MPC's are -1 to 3 and 5 to 8");
  Refuses(user("dim='1' user='-1 1 0 1'"), "", "norm -1 takes the residual itself as the cost");
  Refuses(user("dim='1' user='7 1 0 1 0.1'"), "", "user has 5 numbers, norm 7 (smooth_abs2) needs 6");
  Refuses(user("dim='1' user='0 1'"), "", "user has 2 numbers, expected norm, weight, lower, upper");
  Refuses(user("dim='1' user='0 -1 0 1'"), "", "weight is -1");
  Refuses(user("user='0 1 0 1'"), "", "dim is missing");
  Refuses(Write("<user name='A' dim='1' user='0 1 0 1'/><user name='A' dim='1' user='0 1 0 1'/>"), "",
          "a second residual with this name");
  Refuses(Write("<jointpos joint='hinge'/>"), "", "it is no task of MuJoCo MPC");
  Refuses(Write(kSensors, "<numeric name='agent_timestep' data='0'/>"), "", "timestep is 0 s");
  Refuses(Write(kSensors, "<numeric name='agent_horizon' data='0.001'/>"), "", "is shorter than a timestep");
  Refuses(Write(kSensors, "<numeric name='agent_integrator' data='7'/>"), kMeanings, "integrator is 7");
  Refuses(Write(kSensors), "<residuals>\n<residual name='Uprigt' qpos='all'/></residuals>",
          "residuals.xml:2: <residual name='Uprigt'>: the task has no residual 'Uprigt', did you mean 'Upright'?");
  Refuses(Write(kSensors), "<residuals><residual name='Effort' ctrl='all' weight='2'/></residuals>",
          "weight stands in the task of MuJoCo MPC");
  Refuses(Write(kSensors), "<residuals><cost ctrl='all'/></residuals>", "no such element in <residuals>");
  Refuses(Write(kSensors), "<task/>", "the root element is <residuals>");
  Refuses(Write("<include file='more.xml'/>"), "",
          "mjpc.xml:5: <include>: an <include> inside <sensor> is not followed");
}

// a residual of another size is somebody's mistake: both sizes are named
TEST_F(Import, ComparesSizes) {
  const std::string source = Write("<user name='Upright' dim='2' user='0 10 0 100'/>");
  const MjpcImport import = Of(source, "<residuals><residual name='Upright' qpos='hinge'/></residuals>");
  const std::string file = folder_.Write("tiny.task.xml", import.text);
  try {
    CheckMjpcImport(source, LoadTask(file));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what())
            .find(
                "mjpc.xml:5: <user name='Upright'>: dim is 2, what it is said to measure, qpos hinge, has 1 component"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace costate
