// costate check and costate info as their users run them.
#include <gtest/gtest.h>

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using Json = nlohmann::json;
using support::Process;
using support::ProcessResult;
using support::RunProcess;
using support::TemporaryFolder;

ProcessResult Check(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {COSTATE_PROGRAM, "check"});
  return RunProcess(arguments);
}

// a leg over a floor: limits, contacts, a sensor, keyframes
const char* kLeg = R"(<mujoco model="leg"><option timestep="0.005" integrator="implicitfast"/><worldbody>
  <geom name="floor" type="plane" size="5 5 .1"/><body pos="0 0 1"><joint name="height" type="slide" axis="0 0 1"/>
    <geom name="hull" size=".1" mass="2"/><body><joint name="hip" axis="0 1 0" damping="1"/>
      <geom name="thigh" type="capsule" fromto="0 0 0 .1 0 -.4" size=".04"/><body pos=".1 0 -.4"><joint name="knee" axis="0 1 0"
        range="-100 100" damping="1"/><geom name="shank" type="capsule" fromto="0 0 0 -.1 0 -.4" size=".03"/><site name="foot"
        pos="-.1 0 -.4"/></body></body></body></worldbody>
  <actuator><motor name="hip" joint="hip" ctrlrange="-5 5"/><motor name="knee" joint="knee" gear="2" forcerange="-100 100"/></actuator>
  <sensor><framepos name="foot" objtype="site" objname="foot"/><velocimeter name="speed" site="foot"/></sensor>
  <keyframe><key name="stand"/><key name="crouch" qpos="-.2 .8 -1.2"/></keyframe></mujoco>)";

// a ball over a floor, with a motor and a keyframe in the air
const char* kBall = R"(<mujoco model="ball"><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 .3">
  <joint name="x" type="slide"/><joint name="z" type="slide" axis="0 0 1"/><geom size=".1"/></body></worldbody>
  <actuator><motor name="push" joint="x"/></actuator><sensor><jointpos name="height" joint="z"/></sensor>
  <keyframe><key name="air" qpos="0 1"/><key name="floor" qpos="0 -.201"/></keyframe></mujoco>)";

TEST(Check, ComparesTheGivenStateAFreeMotionAndAContact) {
  TemporaryFolder folder;
  const ProcessResult result = Check({folder.Write("leg.xml", kLeg)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* text :
       {"given: default state, no contact", "free motion:", "contacts disabled", "contact: ", "in contact",
        "A qvel'/qpos", "B qvel'/ctrl", "C sensor/qvel", "D sensor/ctrl", "d qvel[", "\nagrees\n"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
  EXPECT_EQ(result.err, "");
}

// both go through the points that the engine's own steps get to
TEST(Check, SubstepsOfAnEngineThatEndsEarlyAgree) {
  TemporaryFolder folder;
  const std::string model = folder.Write("stack.xml", R"(<mujoco><option timestep="0.005" solver="PGS" iterations="5"/>
    <worldbody><geom type="plane" size="3 3 .1"/><body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
      <body pos="0 0 .297"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>)");
  const ProcessResult result = Check({model, "--substeps", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(Check, JsonHoldsEveryBlockOfEveryState) {
  TemporaryFolder folder;
  const ProcessResult result =
      Check({folder.Write("leg.xml", kLeg), "--json", "--level", "step", "--tolerance", "1e-3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["model"], "leg");
  EXPECT_EQ(json["sizes"]["nv"], 3);
  EXPECT_EQ(json["tolerance"], 1e-3);
  EXPECT_EQ(json["agrees"], true);
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["states"].size(), 3u);
  std::set<std::string> states;
  for (const Json& state : json["states"]) {
    states.insert(state["name"]);
    EXPECT_EQ(state["coverage"][0]["term"], "step");
    EXPECT_EQ(state["coverage"][0]["level"], "step difference");
    EXPECT_TRUE(state["failure"].is_null());
    ASSERT_EQ(state["blocks"].size(), 9u);
    for (const Json& block : state["blocks"]) {
      EXPECT_EQ(block["judged"].get<int>() + block["noisy"].get<int>() + block["nonsmooth"].get<int>(),
                block["rows"].get<int>() * block["cols"].get<int>());
      EXPECT_TRUE(block["worst"]["row_name"].is_string()) << block;
      EXPECT_LE(block["worst"]["error"].get<double>(), 1e-3 + 3 * block["worst"]["error_bar"].get<double>());
    }
  }
  EXPECT_EQ(states, (std::set<std::string>{"given", "free motion", "contact"}));
  EXPECT_GT(json["states"][2]["contacts"].get<int>(), 0);
  EXPECT_EQ(json["states"][1]["contacts"], 0);
}

// "states/blocks/worst/row": names in a text or in JSON, by way of what they stand in
std::set<std::string> PathsOfText(const std::string& text) {
  std::set<std::string> paths;
  std::vector<std::string> within = {""};
  std::string last, word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty()) paths.insert(last = within.back() + word);
    if (c == '[' || c == '{') within.push_back(word.empty() ? within.back() : last + "/");
    if (c == ']' || c == '}') within.pop_back();
    word.clear();
  }
  return paths;
}
void AddPathsOfJson(const Json& json, const std::string& within, std::set<std::string>* paths) {
  if (json.is_array()) {
    for (const Json& entry : json) AddPathsOfJson(entry, within, paths);
  }
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    paths->insert(within + name);
    AddPathsOfJson(value, within + name + "/", paths);
  }
}

TEST(Check, ItsHelpListsEachMemberOfTheJson) {
  TemporaryFolder folder;
  const std::string state = folder.Write("touch.txt", "0 -0.2004 0.1 0");
  const ProcessResult result = Check({folder.Write("ball.xml", kBall), "--state", state, "--json", "--terms",
                                      "--tolerance", "1e-6", "--smooth", "onset:0.01"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  std::set<std::string> written;
  AddPathsOfJson(Json::parse(result.out), "", &written);
  const std::string help = Check({"--help"}).out;
  const std::size_t begin = help.find("JSON (--json):"), end = help.find("error and error_bar", begin);
  ASSERT_NE(end, std::string::npos) << help;
  const std::size_t list = help.find('{', begin);
  std::erase_if(written, [](const std::string& path) {  // as in blocks
    return path.starts_with("states/levels/worst/") || path.starts_with("states/terms/worst/");
  });
  EXPECT_EQ(written, PathsOfText(help.substr(list, end - list)));
}

TEST(Check, AWrongDerivativeIsExitCodeOneAndNamed) {
  // forward differences with a nudge of a hundredth
  TemporaryFolder folder;
  const ProcessResult result = Check({folder.Write("leg.xml", kLeg), "--level", "step", "--forward", "--eps", "0.01"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_NE(result.out.find("WRONG: d q"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nDISAGREES\n"), std::string::npos);
}

TEST(Check, ComparesAllLevelsAndNamesTheActiveSet) {
  TemporaryFolder folder;
  const std::string state = folder.Write("touch.txt", "0 -0.2004 0.1 0");
  const ProcessResult result =
      Check({folder.Write("ball.xml", kBall), "--state", state, "--json", "--terms", "--tolerance", "1e-6"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json given = Json::parse(result.out)["states"][0];
  ASSERT_EQ(given["levels"].size(), 3u);
  for (const Json& level : given["levels"]) {
    EXPECT_TRUE(level["refused"].is_null() || level["level"] == "analytic") << level;
    if (!level["refused"].is_null()) continue;
    EXPECT_GT(level["judged"], 0) << level;
    // whole steps over 1e-6 know what the control moves q by, 5e-7, to 1e-5 of it
    if (level["level"] == "step difference") {
      EXPECT_LT(level["worst"]["error"], 1e-4) << level;
    } else {
      EXPECT_EQ(level["wrong"], 0) << level;
    }
  }
  std::set<std::string> terms;
  for (const Json& term : given["terms"]) {
    terms.insert(term["term"]);
    EXPECT_EQ(term["agrees"], true) << term;
  }
  EXPECT_EQ(terms, (std::set<std::string>{"actuation", "all", "constraint", "integrator", "passive", "rne", "sensors",
                                          "solve"}));
  EXPECT_EQ(given["certificate"]["label"], "smooth");
  bool pushes = false;
  for (const Json& s : given["certificate"]["switches"])
    pushes = pushes || (s["active"] == true && s["next"] == "onset");
  EXPECT_TRUE(pushes) << given["certificate"];
}

TEST(Check, SweepsStepSizesIntoAFolder) {
  TemporaryFolder folder;
  const std::string model = folder.Write("ball.xml", kBall);
  const ProcessResult result = Check({model, "--key", "air", "--eps-sweep", folder.File("sweep")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ProcessResult again = Check({model, "--key", "air", "--eps-sweep", folder.File("sweep")});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  std::ifstream table(folder.File("sweep/given/sweep.csv"));
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "eps,forward,centered,analytic,residual");
  int rows = 0;
  while (std::getline(table, line)) ++rows;
  EXPECT_EQ(rows, 19);
  if (std::system("command -v gnuplot > /dev/null") == 0) {
    EXPECT_TRUE(std::ifstream(folder.File("sweep/given/sweep.png")).good()) << result.err;
  }
}

TEST(Check, StartsFromAKeyframeAFileOrLater) {
  TemporaryFolder folder;
  const std::string model = folder.Write("ball.xml", kBall);
  ProcessResult result = Check({model, "--key", "air"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("given: keyframe 'air', no contact"), std::string::npos) << result.out;

  // touching already: the given state is the contact
  result = Check({model, "--key", "1"});
  EXPECT_NE(result.out.find("given: keyframe '1', in contact"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("\ncontact:"), std::string::npos);

  result = Check({model, "--steps", "5"});
  EXPECT_NE(result.out.find("given: default state, 5 steps later"), std::string::npos) << result.out;

  const std::string state = folder.Write("state.txt", "# qpos qvel ctrl\n0.1, 0.5\n0 -1\n0.3\n");
  result = Check({model, "--state", state});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("state file"), std::string::npos) << result.out;
}

TEST(Check, ContactOnsetIsSaidToBeNotSmooth) {
  TemporaryFolder folder;
  const std::string state = folder.Write("touch.txt", "0 -0.2 0 0");
  const ProcessResult result = Check({folder.Write("ball.xml", kBall), "--state", state});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("not smooth in qpos[z]: contacts switch under every nudge"), std::string::npos)
      << result.out;
}

TEST(Check, AModelThatCannotTouchSaysSo) {
  TemporaryFolder folder;
  const ProcessResult result =
      Check({folder.Write("p.xml", "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("note: this model cannot have contacts"), std::string::npos) << result.out;
}

// the engine refuses to put what a tendon equality ties to sleep, and its own steps fail: derivatives are of what is awake
TEST(Check, AModelThatTheEngineCannotPutToSleepIsJudgedAwake) {
  TemporaryFolder folder;
  const ProcessResult result = Check({folder.Write(
      "tied.xml",
      "<mujoco><option><flag sleep='enable'/></option><worldbody><body><joint name='a' axis='0 1 0'/>"
      "<geom size='.1'/></body><body pos='1 0 0'><joint name='b' axis='0 1 0'/><geom size='.1'/></body>"
      "</worldbody><tendon><fixed name='t'><joint joint='a' coef='1'/></fixed><fixed name='s'><joint "
      "joint='b' coef='1'/></fixed></tendon><equality><tendon tendon1='t' tendon2='s'/></equality></mujoco>")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

// where there is no derivative there is no line of what it is made of
TEST(Check, AStepThatFailsIsSaidWithoutAnEmptyLine) {
  TemporaryFolder folder;
  const ProcessResult result =
      Check({folder.Write("s.xml",
                          "<mujoco><worldbody><body><joint type='slide' axis='1 0 0'/><joint type='slide' "
                          "axis='0 1 0'/><joint name='c' type='slide' axis='1 1 0'/><geom size='.1'/></body>"
                          "</worldbody><actuator><motor joint='c'/></actuator></mujoco>")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.out.find("the step fails here"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("  \n"), std::string::npos) << result.out;
}

// A rod that its actuator pushes the faster it turns: soon after the ball has touched the floor its motion is none, and
// the state is that where the ball first touches.
TEST(Check, AMotionThatDivergesIsLeftWhereItFirstTouches) {
  TemporaryFolder folder;
  const std::string model = folder.Write("d.xml", R"(<mujoco><option timestep="0.002"/><worldbody>
    <geom type="plane" size="5 5 .1"/><body pos="0 0 .101"><joint type="slide" axis="0 0 1"/><geom size=".1"/></body>
    <body pos="2 0 1"><joint name="j" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" contype="0"/></body></worldbody>
    <actuator><general joint="j" biastype="affine" biasprm="0 0 3" gainprm="1"/></actuator></mujoco>)");
  const ProcessResult result = Check({model});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("contact: 0.014 s after the given state, in contact"), std::string::npos) << result.out;
}

TEST(Check, BadInputIsExitCodeTwoWithASentence) {
  TemporaryFolder folder;
  const std::string model = folder.Write("ball.xml", kBall);
  struct Case {
    std::vector<std::string> arguments;
    const char* text;
  };
  for (const Case& c :
       {Case{{"missing.xml"}, "missing.xml"},
        Case{{folder.Write("broken.xml", "<mujoco><worldbody></mujoco>")}, "broken.xml"},
        Case{{folder.Write("mesh.xml", "<mujoco><asset><mesh name='m' file='none.obj'/></asset></mujoco>")},
             "none.obj"},
        Case{{model, "--key", "flor"}, "floor"}, Case{{model, "--key", "7"}, "7"},
        Case{{model, "--state", folder.File("none.txt")}, "none.txt"},
        Case{{model, "--state", folder.path().string()}, "is a folder, not a file"},
        Case{{model, "--state", folder.Write("short.txt", "1 2 3")}, "has 3 numbers"},
        Case{{model, "--state", folder.Write("word.txt", "1 2\n3 four")}, ":2: 'four' is not a number"},
        Case{{model, "--state", folder.Write("nan.txt", "0 0 nan 0")}, "qvel[x]"},
        Case{{model, "--steps", "-1"}, "--steps"}, Case{{model, "--tolerance", "0"}, "--tolerance"},
        Case{{model, "--eps-sweep", folder.Write("file", "") + "/sweep"},
             "file/sweep/given' cannot be created: Not a directory"},
        Case{{model, "--level", "best-of-all"}, "--level"}, Case{{model, "--substeps", "0"}, "--substeps"},
        Case{{}, "MODEL"}}) {
    const ProcessResult result = Check(c.arguments);
    EXPECT_EQ(result.exit_code, 2) << c.text << "\n" << result.out;
    EXPECT_NE(result.err.find("costate: error: "), std::string::npos) << c.text << "\n" << result.err;
    EXPECT_NE(result.err.find(c.text), std::string::npos) << c.text << "\n" << result.err;
  }
}

TEST(Check, AModelWithoutFreedomOrControlIsNoError) {
  TemporaryFolder folder;
  for (const char* body : {"<geom size='1'/>", "<body><joint/><geom size='1'/></body>"}) {
    const std::string model =
        folder.Write("m.xml", "<mujoco><worldbody>" + std::string(body) + "</worldbody></mujoco>");
    const ProcessResult result = Check({model});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }

  // what has no entries does not agree: there is nothing to compare, and no row names an entry
  const ProcessResult empty =
      Check({folder.Write("e.xml", "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"), "--terms"});
  EXPECT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_NE(empty.out.find("\nnothing to compare: A, B, C and D are empty\n"), std::string::npos) << empty.out;
  EXPECT_EQ(empty.out.find("agrees"), std::string::npos) << empty.out;
  EXPECT_EQ(empty.out.find("d  / d"), std::string::npos) << empty.out;
}

TEST(Check, AStepThatFailsIsNoDisagreement) {
  TemporaryFolder folder;
  const ProcessResult result = Check({folder.Write("nan.xml", R"(<mujoco><option gravity="0 0 nan"/><worldbody>
    <body><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody></mujoco>)")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.out.find("the step fails here: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nnothing could be judged\n"), std::string::npos) << result.out;
}

TEST(Check, AStateWhereNothingCouldBeJudgedIsNamed) {
  // a ball at the centre of a cylinder: which way is out hangs on rounding, whatever moves
  TemporaryFolder folder;
  const ProcessResult result = Check({folder.Write("inside.xml", R"(<mujoco><worldbody>
    <body><joint type="slide" axis="1 0 0"/><geom size=".1"/></body>
    <body><joint type="slide" axis="1 0 0"/><geom type="cylinder" size=".2 .3"/></body></worldbody></mujoco>)")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("note: nothing could be judged at: given\n"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("d  / d"), std::string::npos) << result.out;
}

TEST(Check, CtrlCKeepsWhatWasCompared) {
  // eighty balls on a floor: seconds of reference
  TemporaryFolder folder;
  std::string xml = "<mujoco><worldbody><geom type='plane' size='5 5 .1'/>";
  for (int i = 0; i < 80; ++i) {
    xml += "<body pos='" + std::to_string(0.19 * (i % 5)) + " " + std::to_string(0.19 * (i / 5)) +
           " .099'><freejoint/><geom size='.1'/></body>";
  }
  Process process({COSTATE_PROGRAM, "check", folder.Write("heap.xml", xml + "</worldbody></mujoco>"), "--no-sensors"});
  ASSERT_TRUE(process.WaitForText("tolerance"));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_NE(result.out.find("A qvel'/qpos"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("interrupted"), std::string::npos) << result.out;

  // nor does it begin what takes as long again
  EXPECT_EQ(result.out.find("step difference  "), std::string::npos) << result.out;
}

// Each long stage says on a terminal what it is, and in a pipe nothing: script(1) is the terminal.
TEST(Check, SaysOnATerminalWhatItIsAt) {
  TemporaryFolder folder;
  const std::string model = folder.Write("leg.xml", kLeg), command = std::string(COSTATE_PROGRAM) + " check " + model;
  support::ProcessOptions terminal;
  terminal.environment["TERM"] = "xterm";
  const ProcessResult shown = RunProcess({"script", "-qec", command, "/dev/null"}, terminal);
  EXPECT_EQ(shown.exit_code, 0) << shown.out;
  for (const char* text : {"simulating until something touches", "given: switches", "given: derivative",
                           "free motion: residual difference", "contact: step difference"}) {
    EXPECT_NE(shown.out.find(text), std::string::npos) << text << "\n" << shown.out;
  }
  EXPECT_EQ(RunProcess({COSTATE_PROGRAM, "check", model}).err, "");
}

ProcessResult Info(const std::string& model) { return RunProcess({COSTATE_PROGRAM, "info", model}); }

// a servo whose damping the implicit integrators drop where its force is at its limit
TEST(Info, SaysThatStepsJumpAtTheForceRangesOfDampedServos) {
  TemporaryFolder folder;
  const auto info = [&](const std::string& option, const std::string& servo) {
    return Info(folder.Write("servo.xml",
                             "<mujoco><option integrator='" + option +
                                 "'/><worldbody><body><joint name='j' type='slide'/><geom size='.1' mass='1'/></body>"
                                 "</worldbody><actuator><position name='lift' joint='j' kp='100' " +
                                 servo + "/></actuator></mujoco>"))
        .out;
  };
  const std::string says = "the step jumps where a force reaches its forcerange: implicitfast has";
  EXPECT_TRUE(Has(info("implicitfast", "kv='50' forcerange='-10 10'"), says));
  EXPECT_TRUE(Has(info("implicitfast", "kv='50' forcerange='-10 10'"), "1 of 1 actuators (lift)"));
  EXPECT_FALSE(Has(info("Euler", "kv='50' forcerange='-10 10'"), "the step jumps where a force"));
  EXPECT_FALSE(Has(info("implicitfast", "forcerange='-10 10'"), "the step jumps where a force"));
  EXPECT_FALSE(Has(info("implicitfast", "kv='50'"), "the step jumps where a force"));
}

TEST(Info, SaysSizesActuatorsLevelsAndWhatIsNotSmooth) {
  TemporaryFolder folder;
  const ProcessResult result = Info(folder.Write("leg.xml", kLeg));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* text :
       {"model 'leg'", "nq 3, nv 3, na 0, nu 2", "implicitfast", "contacts possible", "range (m or rad)", "ctrl[knee]",
        "[-100, 100]", "keyframes   2: stand, crouch", "derivatives", "contact onset jumps", "solimp[0] is up to 0.9",
        "remedy: solimp=\"0 0.95 0.001\"", "joint limits jump"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
}

TEST(Info, NamesEachObstacleOfAModelThatHasThemAll) {
  TemporaryFolder folder;
  const std::string model =
      folder.Write("all.xml", R"(<mujoco><option noslip_iterations="3"><flag sleep="enable"/></option>
    <worldbody><body><joint name="dry" frictionloss="1" actuatorfrclimited="true" actuatorfrcrange="-1 1" springyield=".1"
      stiffness="10"/><geom type="box" size=".1 .1 .1"/><site name="s"/></body><site name="w" pos="0 0 1"/></worldbody>
    <tendon><spatial name="rope" springlength="0.1 0.5" stiffness="3" frictionloss=".1" limited="true" range="0 2">
      <site site="s"/><site site="w"/></spatial></tendon>
    <actuator><muscle name="muscle" tendon="rope" lengthrange=".1 2"/><motor name="late" joint="dry" ctrlrange="-1 1"
      forcerange="-1 1" delay="0.01" nsample="4"/><general name="filtered" joint="dry" dyntype="filter" actrange="-1 1"/></actuator>
    </mujoco>)");
  const ProcessResult result = Info(model);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* text :
       {"noslip_iterations is 3", "sleep:", "frictionloss on 1 of 1 joints (dry)", "frictionloss on 1 of 1 tendons",
        "actuatorfrcrange on 1 of 1 joints", "forcerange on 1 of 3 actuators (late)", "actrange on", "muscles bend",
        "tausmooth", "plastic", "delays", "dead band", "no contacts possible"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find("contact onset"), std::string::npos);
}

TEST(Info, ASmoothModelHasNoObstacleAndABadOneNoInfo) {
  TemporaryFolder folder;
  const ProcessResult smooth = Info(
      folder.Write("smooth.xml", "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"));
  EXPECT_EQ(smooth.exit_code, 0);
  EXPECT_NE(smooth.out.find("nothing known that jumps"), std::string::npos) << smooth.out;
  EXPECT_NE(smooth.out.find("none: there is nothing to control"), std::string::npos) << smooth.out;
  EXPECT_EQ(Info("missing.xml").exit_code, 2);
}

}  // namespace
}  // namespace costate
