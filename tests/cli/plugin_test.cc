// Models with engine plugins, as processes: the engine's own libraries are found, others given, and nothing that is
// missing ends in a crash.
#include <costate/model.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/program.h"

namespace costate {
namespace {

using support::TemporaryFolder;

constexpr char kRegulated[] = R"(<mujoco model="regulated"><extension><plugin plugin="mujoco.pid"><instance name="p">
  <config key="kp" value="40"/><config key="ki" value="20"/><config key="kd" value="4"/></instance></plugin></extension>
  <worldbody><body><joint name="j" axis="0 1 0" damping=".1"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.5"/></body></worldbody>
  <actuator><plugin joint="j" plugin="mujoco.pid" instance="p" actdim="1"/></actuator>
  <keyframe><key name="bent" qpos=".3" ctrl=".5"/></keyframe></mujoco>)";

// the bytes of that model, with its plugin at another number
std::string Compiled(int slot_moved) {
  const ModelPtr model = LoadModelFromString(kRegulated);
  model->plugin[0] += slot_moved;
  const std::vector<unsigned char> bytes = SerializeModel(model.get());
  return {bytes.begin(), bytes.end()};
}

TEST(CliPlugin, TheEnginesOwnAreThereWhenAModelAsks) {
  TemporaryFolder folder;
  const std::string model = folder.Write("regulated.xml", kRegulated), run = folder.File("run");
  const support::ProcessResult check = Costate({"check", model, "--key", "bent"});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_TRUE(Has(check.out, "residual difference: actuation (plugin of actuator 0)"));
  ASSERT_EQ(Costate({"rollout", model, "--key", "bent", "--time", "0.2", "--out", run, "--no-plots"}).exit_code, 0);
  const support::ProcessResult replay = Costate({"replay", run});
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
}

// A compiled model holds its plugins as numbers of the process that compiled it.
TEST(CliPlugin, ACompiledModelIsNotTrusted) {
  TemporaryFolder folder;
  for (int moved : {0, -1, 1000}) {
    EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.Write("regulated.mjb", Compiled(moved))}), "give its MJCF file"))
        << moved;
  }
}

TEST(CliPlugin, WhatIsMissingIsNamed) {
  TemporaryFolder folder;
  const std::string unknown =
      folder.Write("unknown.xml", "<mujoco><extension><plugin plugin='no.such'/></extension><worldbody/></mujoco>");
  EXPECT_TRUE(RefusedWith(Costate({"info", unknown}), "no.such"));
  EXPECT_TRUE(RefusedWith(Costate({"info", unknown}), "costate --plugin FILE"));
  const std::string model = folder.Write("p.xml", kPendulum);
  EXPECT_TRUE(RefusedWith(Costate({"info", model, "--plugin", folder.File("gone.so")}), "does not exist"));
  EXPECT_TRUE(RefusedWith(Costate({"info", model, "--plugin", model}), "cannot be loaded"));
  EXPECT_EQ(Costate({"info", model, "--plugin", COSTATE_LIBRARY}).exit_code, 0);
}

}  // namespace
}  // namespace costate
