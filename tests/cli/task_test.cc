// `costate task` as its user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "support/process.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::ProcessResult;
using support::TemporaryFolder;
using support::ZooTask;

class TaskCommand : public ::testing::Test {
 protected:
  ProcessResult Run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command{COSTATE_PROGRAM, "task"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return support::RunProcess(command);
  }
  TemporaryFolder folder_;
};

TEST_F(TaskCommand, PrintsTheTaskAsUnderstood) {
  const std::string file = folder_.Write(
      "zoo.task.xml", ZooTask("<cost name='reach' site='tip' quantity='pos' target='mocap:hand' weight='5'/>"));
  const ProcessResult result = Run({file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* text : {"zoo.task.xml", "50 control intervals", "reach", "site:tip.pos", "mocap:hand", "total"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
}

// A robot without a task file gets one, and the file is as good as --goal.
TEST_F(TaskCommand, WritesAFirstTaskOfARobot) {
  const std::string arm = folder_.Write("arm.xml", R"(<mujoco model="arm"><worldbody><body name="upper">
      <joint name="swing" axis="0 1 0" damping=".5"/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".03"/>
      <site name="tip" pos=".4 0 0"/></body></worldbody>
      <actuator><motor joint="swing" gear="40"/></actuator></mujoco>)");
  const std::string file = folder_.File("up.task.xml");
  const ProcessResult written = Run({arm, "--goal", "site:tip=_,_,0.3", "--time", "0.5", "-o", file});
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_NE(written.out.find("costate optimize " + file), std::string::npos);
  EXPECT_EQ(Run({file, "--check"}).exit_code, 0);
  EXPECT_EQ(Run({arm, "--goal", "site:tip=_,_,0.3", "-o", file}).exit_code, 2);  // nothing is overwritten

  // plans that are made anew put off what counts at their end alone
  const std::string now = folder_.File("now.task.xml");
  const ProcessResult at_once = Run({arm, "--goal", "site:tip=_,_,0.3", "--time", "0.5", "--at-once", "-o", now});
  EXPECT_EQ(at_once.exit_code, 0) << at_once.err;
  EXPECT_NE(at_once.out.find("costate mpc " + now), std::string::npos) << at_once.out;
  EXPECT_NE(support::ReadFile(file).find("weight=\"0.151229\" terminal=\"1512.29\""), std::string::npos);
  EXPECT_NE(support::ReadFile(now).find("weight=\"15.1229\" terminal=\"1512.29\""), std::string::npos);
  const ProcessResult shown = Run({arm, "--goal", "joint:swing=1"});
  EXPECT_NE(shown.out.find("qpos=\"swing\""), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("site:   tip"), std::string::npos) << shown.out;
  EXPECT_EQ(Run({file, "--goal", "joint:swing=1"}).exit_code, 2);
  const ProcessResult none = Run({arm});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("a keyframe (it has none)"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("joint:  swing"), std::string::npos) << none.err;
}

// The same to be fitted to a motion; `costate gradient` takes the robot itself as well, and follows.
TEST_F(TaskCommand, WritesAFirstTaskOfAFit) {
  const char* arm = R"(<mujoco model="arm"><worldbody><body name="upper"><joint name="swing" axis="0 1 0" damping=".5"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03"/></body></worldbody></mujoco>)";
  const std::string model = folder_.Write("arm.xml", arm);
  std::string other(arm);
  other.replace(other.find("damping=\".5"), 11, "damping=\".8");
  const std::string film = folder_.File("film");
  EXPECT_EQ(support::RunProcess({COSTATE_PROGRAM, "rollout", folder_.Write("other.xml", other), "--time", "0.5",
                                 "--out", film, "--no-plots"})
                .exit_code,
            0);
  const std::vector<std::string> fit{model, "--fit", film, "--parameter", "joint:swing/damping"};
  const auto with = [&](std::vector<std::string> more, bool task) {
    more.insert(more.begin(), fit.begin(), fit.end());
    if (task) return Run(more);
    more.insert(more.begin(), {COSTATE_PROGRAM, "gradient"});
    return support::RunProcess(more);
  };
  const ProcessResult fitted = with({"--no-save"}, false);
  EXPECT_EQ(fitted.exit_code, 0) << fitted.err;
  const std::string label = "\n  joint:swing/damping ";
  const std::size_t result = fitted.out.find(label);
  ASSERT_NE(result, std::string::npos) << fitted.out;
  EXPECT_NEAR(std::stod(fitted.out.substr(result + label.size())), 0.8, 1e-6) << fitted.out;

  const std::string file = folder_.File("fit.task.xml");
  const ProcessResult written = with({"-o", file}, true);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_NE(written.out.find("costate gradient " + file + " --descend gauss-newton"), std::string::npos) << written.out;
  EXPECT_EQ(Run({file, "--check"}).exit_code, 0);
  EXPECT_EQ(with({"-o", file}, true).exit_code, 2);  // nothing is overwritten
  EXPECT_EQ(with({"--goal", "joint:swing=1"}, true).exit_code, 2);
  EXPECT_EQ(Run({model, "--goal", "joint:swing=1", "--parameter", "joint:swing/damping"}).exit_code, 2);
  EXPECT_EQ(Run({file, "--fit", film}).exit_code, 2);
  EXPECT_EQ(support::RunProcess({COSTATE_PROGRAM, "gradient", file, "--fit", film}).exit_code, 2);
  EXPECT_EQ(support::RunProcess({COSTATE_PROGRAM, "gradient", file, "--start", "0"}).exit_code, 2);
}

TEST_F(TaskCommand, ChecksWithOneLine) {
  const std::string file =
      folder_.Write("zoo.task.xml", ZooTask("<cost ctrl='all'/>", "horizon='0.1' controlstep='3'"));
  const ProcessResult result = Run({file, "--check"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  EXPECT_NE(result.err.find("costate: warning: horizon 0.1 s is no whole number"), std::string::npos) << result.err;
}

TEST_F(TaskCommand, RefusesBadInputInOneSentence) {
  const std::string file = folder_.Write("zoo.task.xml", ZooTask("<cost name='tip' site='tib' quantity='pos'/>"));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{file}, {file, "--check"}}) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "costate: error: " + file + ":2: <cost name='tip'>: no site 'tib', did you mean 'tip'?\n");
  }
  const ProcessResult missing = Run({folder_.File("none.xml")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("none.xml' does not exist"), std::string::npos) << missing.err;
  EXPECT_EQ(Run({}).exit_code, 2);
}

// what a task file or a fit has no use for is refused, as by optimize, mpc and train
TEST_F(TaskCommand, TakesNoOptionSilently) {
  const std::string file = folder_.Write("zoo.task.xml", ZooTask("<cost ctrl='all'/>"));
  EXPECT_TRUE(RefusedWith(Run({file, "--time", "5", "--substeps", "3"}),
                          "zoo.task.xml is a task file: --time and --substeps belong to a robot"));
  EXPECT_TRUE(RefusedWith(Run({file, "--time", "5", "--check"}), "--time belongs to a robot"));
  EXPECT_TRUE(RefusedWith(Run({file, "--start", "home", "--fit", "a.csv", "--parameter", "option/density"}),
                          "--start, --fit and --parameter belong to a robot"));
  const std::string robot = folder_.Write("robot.xml", kPendulum);
  EXPECT_TRUE(RefusedWith(Run({robot, "--fit", "a.csv", "--parameter", "joint:hinge/damping", "--time", "5"}),
                          "--time belongs to --goal: a fit lasts as long as its motion"));
  EXPECT_TRUE(RefusedWith(Run({robot, "--fit", "a.csv", "--parameter", "joint:hinge/damping", "--at-once"}),
                          "--at-once belongs to --goal"));
  EXPECT_TRUE(RefusedWith(Run({robot, "--substeps", "3", "--check"}), "is a robot: --check reads a task file"));
  EXPECT_TRUE(RefusedWith(Run({"mjpc.xml", "--import", "--time", "5", "--start", "home"}),
                          "--start and --time belong to a robot, not to --import"));
  EXPECT_TRUE(RefusedWith(Run({"mjpc.xml", "--import", "--check"}), "--check reads a task file, --import writes one"));
}

TEST_F(TaskCommand, ImportsATaskOfMujocoMpc) {
  const std::string source = folder_.Write(
      "mjpc.xml",
      "<mujoco><sensor><user name='Place' dim='1' user='0 2 0 1'/></sensor><worldbody><body><joint "
      "name='j' type='slide'/><joint name='k' type='slide' axis='1 0 0'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j'/></actuator></mujoco>");
  const std::string residuals =
      folder_.Write("residuals.xml", "<residuals><residual name='Place' qpos='j'/></residuals>");
  const ProcessResult asked = Run({source, "--import", "-o", folder_.File("out.xml")});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_NE(asked.err.find("mjpc.xml:1: 'Place', 1 number, norm quadratic, weight 2"), std::string::npos) << asked.err;
  EXPECT_NE(asked.err.find("<residual name=\"Place\" value=\"\"/>"), std::string::npos) << asked.err;

  const std::vector<std::string> command{source, "--import", "--residuals", residuals, "-o", folder_.File("out.xml")};
  const ProcessResult result = Run(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("50 control intervals of 0.01 s"), std::string::npos) << result.out;
  EXPECT_EQ(Run({folder_.File("out.xml"), "--check"}).exit_code, 0);
  EXPECT_EQ(Run(command).exit_code, 2) << "an existing file stays";
  EXPECT_EQ(Run({source, "--import"}).exit_code, 2);

  // what is said to be measured has another size: no file is left
  const std::string two = folder_.Write("two.xml", "<residuals><residual name='Place' qpos='all'/></residuals>");
  EXPECT_TRUE(RefusedWith(Run({source, "--import", "--residuals", two, "-o", folder_.File("wrong.xml")}),
                          "<user name='Place'>: dim is 1, "));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("wrong.xml")));
  const std::string both =
      folder_.Write("both.xml", "<residuals><residual name='Place' qpos='j' qvel='j'/></residuals>");
  EXPECT_TRUE(RefusedWith(Run({source, "--import", "--residuals", both, "-o", folder_.File("wrong.xml")}),
                          "of the task written for " + folder_.File("wrong.xml") + ": <cost name='Place'>: "));
  EXPECT_EQ(Run({folder_.File("out.xml"), "--residuals", residuals}).exit_code, 2);
}

}  // namespace

// The task that is written for a robot is in no file: its lines are not the robot's.
TEST(CliTask, SaysWhoseLineIsWrongInATaskWrittenForARobot) {
  support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum);
  const std::string film = folder.Write("film.csv", "time,qpos[hinge]\n0,0\n0.1,nan\n0.2,0.1\n");
  const support::ProcessResult result =
      Costate({"gradient", model, "--fit", film, "--parameter", "joint:hinge/damping"});
  EXPECT_TRUE(RefusedWith(result, " of the task written for " + model + ": <cost name='positions'>: "));
  EXPECT_TRUE(RefusedWith(result, "film.csv:3: the cell in column 2 is empty or nan"));
  EXPECT_EQ(result.err.find(model + ":1"), std::string::npos) << result.err;
}

// The task in a run is a task file of its own: its paths do not hang on the folder it came from.
TEST(CliTask, OfARunIsATaskFileThere) {
  support::TemporaryFolder folder;
  folder.Write("robots/pendulum & co.xml", kPendulum);
  folder.Write("tasks/u.csv", "0.5\n0.25\n");
  folder.Write("tasks/q.csv", "time,hinge\n0,0.5\n1,1\n");
  const std::string text =
      "<!-- mine --><task\n  model = '../robots/pendulum &amp; co.xml' horizon='0.2'>\n<guess file='u.csv'/>"
      "<cost name='model=x' qpos='all' target=\"file:q.csv\"/><cost ctrl='all'/></task>";
  folder.Write("tasks/p.task.xml", text);
  support::ProcessOptions there;
  there.folder = folder.File("tasks");
  const support::ProcessResult made = Costate({"optimize", "p.task.xml", "--out", folder.File("run")}, there);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string copy = support::ReadFile(folder.File("run/task.xml"));
  EXPECT_TRUE(Has(copy, "<!-- mine --><task\n  model = '" + folder.File("robots/pendulum &amp; co.xml") + "' "));
  EXPECT_TRUE(Has(copy, "name='model=x' qpos='all' target=\"file:" + folder.File("tasks/q.csv") + "\""));
  const support::ProcessResult again = Costate({"task", folder.File("run/task.xml"), "--check"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(RefusedWith(Costate({"optimize", folder.File("run")}),
                          "is a saved run, its task is '" + folder.File("run/task.xml") + "'"));
}

// Minimum time needs no other cost: 1 kg over 1 m by 1 N takes 2 s, half of them forwards and half back.
TEST(CliTask, OfTimeAloneIsMinimumTime) {
  support::TemporaryFolder folder;
  folder.Write("cart.xml",
               "<mujoco><option timestep='.02'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/>"
               "<geom size='.1' mass='1'/></body></worldbody><actuator><motor joint='x' ctrlrange='-1 1'/></actuator>"
               "</mujoco>");
  const std::string task = folder.Write("fast.task.xml",
                                        "<task model='cart.xml' horizon='3'><time shortest='0.5' longest='5'/>"
                                        "<constraint qpos='x' equals='1' when='end'/>"
                                        "<constraint qvel='x' equals='0' when='end'/></task>");
  EXPECT_EQ(Costate({"task", task}).exit_code, 0);
  const support::ProcessResult result = Costate({"optimize", task, "--no-save"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::size_t at = result.out.find("\ntime: ");
  ASSERT_NE(at, std::string::npos) << result.out;
  EXPECT_NEAR(std::stod(result.out.substr(at + 7)), 2, 0.02) << result.out;

  const std::string longer = folder.Write("longer.task.xml",
                                          "<task model='cart.xml' horizon='9'><time shortest='0.5' longest='5'/>"
                                          "<constraint qpos='x' equals='1' when='end'/></task>");
  EXPECT_TRUE(Has(Costate({"task", longer}).err,
                  "the horizon is 9 s, beyond <time>'s 0.5 … 5 s: the first length "
                  "tried is 5 s"));
}

TEST(CliTask, CheckSaysWhatIsAskedFor) {
  support::TemporaryFolder folder;
  folder.Write("pendulum.xml", kPendulum);
  const std::string task = folder.Write("all.task.xml",
                                        "<task model='pendulum.xml' horizon='0.5'><start free='all'/><cost "
                                        "ctrl='all'/><periodic qpos='all'/><spline knots='5' order='linear'/>"
                                        "<solver type='fddp' derivative_every='3'/></task>");
  const support::ProcessResult checked = Costate({"task", task, "--check"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_TRUE(
      Has(checked.out,
          "fddp, derivatives at every 3 knots, 2 entries of the start free, 1 constraint, a linear spline of 5 knots"));
  const support::ProcessResult described = Costate({"task", task});
  EXPECT_TRUE(Has(described.out, "free      2 of 2 tangent entries of the start"));
  EXPECT_TRUE(Has(described.out, "derivatives at every 3 knots, interpolated in between"));
  EXPECT_TRUE(Has(described.out, "spline    5 knots, linear"));
}

// what no solve can begin with is said, with its place: the square root of what falls below zero on the way; a constraint
TEST(CliTask, CheckSaysWhereTheGuessHasNoCost) {
  support::TemporaryFolder folder;
  folder.Write("pendulum.xml", kPendulum);
  const auto task = [&](const std::string& rest) {
    return folder.Write("task.xml",
                        "<task model='pendulum.xml' horizon='0.5'><start qvel='1'/><measure name='q' qpos='0'/>"
                        "<cost ctrl='all'/>" +
                            rest + "</task>");
  };
  EXPECT_EQ(Costate({"task", task("<cost name='root' value='sqrt(1 + q)'/>"), "--check"}).exit_code, 0);
  for (const auto& [value, knot] : {std::pair{"sqrt(-q)", 1}, std::pair{"1 / max(0, -q)", 0}}) {
    SCOPED_TRACE(value);
    const std::string file = task("<cost name='root' value='" + std::string(value) + "'/>");
    const support::ProcessResult checked = Costate({"task", file, "--check"});
    const std::string said = "the guess has no cost: its cost of 'root' is not finite at knot " + std::to_string(knot);
    EXPECT_EQ(checked.exit_code, 1) << checked.out;
    EXPECT_TRUE(Has(checked.err, said)) << checked.err;
    EXPECT_TRUE(Has(Costate({"task", file}).out, "T" + said.substr(1)));
  }
  const std::string constrained = task("<constraint name='c' value='sqrt(-q)' upper='1' when='end'/>");
  const support::ProcessResult checked = Costate({"task", constrained, "--check"});
  EXPECT_EQ(checked.exit_code, 1) << checked.out;
  EXPECT_TRUE(Has(checked.err, "the guess has no cost: its constraint 'c' is not finite at knot ")) << checked.err;

  // sampled controls need no guess that has one
  const std::string sampled = task("<cost name='root' value='sqrt(-q)'/><solver start='sampling'/>");
  EXPECT_EQ(Costate({"task", sampled, "--check"}).exit_code, 0);
}

}  // namespace costate
