// Names of the entries of x, dx, u and s.
#include <costate/model.h>
#include <gtest/gtest.h>

#include <set>

#include "core/element.h"
#include "core/name.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using NameTest = support::EngineTest;
using Names = std::vector<std::string>;

TEST_F(NameTest, EveryJointTypeNamesItsCoordinates) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><freejoint name="root"/><geom size="1"/>
      <body><joint name="hip" type="ball"/><geom size="1"/><body><joint name="knee"/><geom size="1"/>
      <body><joint type="slide"/><geom size="1"/></body></body></body></body></worldbody></mujoco>)");
  EXPECT_EQ(
      StateNames(model.get()),
      (Names{"qpos[root].x",  "qpos[root].y",  "qpos[root].z",  "qpos[root].qw", "qpos[root].qx", "qpos[root].qy",
             "qpos[root].qz", "qpos[hip].qw",  "qpos[hip].qx",  "qpos[hip].qy",  "qpos[hip].qz",  "qpos[knee]",
             "qpos[joint 3]", "qvel[root].vx", "qvel[root].vy", "qvel[root].vz", "qvel[root].wx", "qvel[root].wy",
             "qvel[root].wz", "qvel[hip].wx",  "qvel[hip].wy",  "qvel[hip].wz",  "qvel[knee]",    "qvel[joint 3]"}));
  EXPECT_EQ(TangentNames(model.get()),
            (Names{"qpos[root].x",  "qpos[root].y",  "qpos[root].z",  "qpos[root].rx", "qpos[root].ry", "qpos[root].rz",
                   "qpos[hip].rx",  "qpos[hip].ry",  "qpos[hip].rz",  "qpos[knee]",    "qpos[joint 3]", "qvel[root].vx",
                   "qvel[root].vy", "qvel[root].vz", "qvel[root].wx", "qvel[root].wy", "qvel[root].wz", "qvel[hip].wx",
                   "qvel[hip].wy",  "qvel[hip].wz",  "qvel[knee]",    "qvel[joint 3]"}));
}

// actuators without, with one and with several activations and controls; unnamed ones
constexpr char kActuators[] = R"(<mujoco><worldbody><body><joint name="a"/><geom size="1"/>
      <body><joint name="b" type="ball"/><geom size="1"/><site name="tip"/></body></body></worldbody>
    <actuator><motor name="plain" joint="a"/><general joint="a" dyntype="integrator"/>
      <orientation name="turn" joint="b" kp="10"/>
      <muscle name="pull" joint="a" lengthrange="0 1"/><motor joint="a"/></actuator></mujoco>)";

TEST_F(NameTest, ControlsAndActivationsFollowTheirActuators) {
  const ModelPtr model = LoadModelFromString(kActuators);
  ASSERT_EQ(model->nactuator, 5);
  EXPECT_EQ(ControlNames(model.get()), (Names{"ctrl[plain]", "ctrl[actuator 1]", "ctrl[turn].rx", "ctrl[turn].ry",
                                              "ctrl[turn].rz", "ctrl[pull]", "ctrl[actuator 4]"}));
  const Names state = StateNames(model.get());
  EXPECT_EQ(Names(state.end() - 2, state.end()), (Names{"act[actuator 1]", "act[pull]"}));
}

TEST_F(NameTest, SeveralActivationsOfOneActuatorAreNumbered) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a"/><geom size="1"/></body>
      </worldbody><actuator><dcmotor name="motor" joint="a" motorconst="1" resistance="1" inductance="0.01"
        cogging="0.1 3" thermal="1 1 0.004 0.1 25 25" lugre="1 0.1 0.1 0.1 0.1"/></actuator></mujoco>)");
  ASSERT_GT(model->actuator_actnum[0], 1);
  const Names state = StateNames(model.get());
  ASSERT_EQ(static_cast<int>(state.size()), model->nq + model->nv + model->na);
  for (int k = 0; k < model->actuator_actnum[0]; ++k) {
    EXPECT_EQ(state[model->nq + model->nv + k], "act[motor]." + std::to_string(k));
  }
}

TEST_F(NameTest, SensorsWithSeveralEntriesAreNumbered) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a"/><geom size="1"/>
      <site name="s"/></body></worldbody><sensor><jointpos joint="a"/><gyro name="gyro" site="s"/>
      <framequat name="pose" objtype="site" objname="s"/></sensor></mujoco>)");
  EXPECT_EQ(SensorNames(model.get()), (Names{"sensor[sensor 0]", "sensor[gyro].0", "sensor[gyro].1", "sensor[gyro].2",
                                             "sensor[pose].0", "sensor[pose].1", "sensor[pose].2", "sensor[pose].3"}));
}

TEST_F(NameTest, NamesAreAsManyAsEntriesAndAllDifferent) {
  const ModelPtr model = LoadModelFromString(kActuators);
  const auto all_different = [](const Names& names) {
    return std::set<std::string>(names.begin(), names.end()).size() == names.size();
  };
  const Dims dims(model.get());
  EXPECT_EQ(static_cast<int>(StateNames(model.get()).size()), dims.nx);
  EXPECT_EQ(static_cast<int>(TangentNames(model.get()).size()), dims.ndx);
  EXPECT_EQ(static_cast<int>(ControlNames(model.get()).size()), dims.nu);
  EXPECT_TRUE(all_different(StateNames(model.get())));
  EXPECT_TRUE(all_different(TangentNames(model.get())));
  EXPECT_TRUE(all_different(ControlNames(model.get())));
}

TEST_F(NameTest, EmptyModelHasNoNames) {
  const ModelPtr model = LoadModelFromString("<mujoco/>");
  EXPECT_TRUE(StateNames(model.get()).empty());
  EXPECT_TRUE(TangentNames(model.get()).empty());
  EXPECT_TRUE(ControlNames(model.get()).empty());
  EXPECT_TRUE(SensorNames(model.get()).empty());
}

TEST_F(NameTest, ElementsAreNamedByTypeAndNumberWhenTheyHaveNoName) {
  const ModelPtr model = LoadModelFromString(kActuators);
  EXPECT_EQ(ElementName(model.get(), mjOBJ_SITE, 0), "tip");
  EXPECT_EQ(ElementName(model.get(), mjOBJ_GEOM, 1), "geom 1");
  EXPECT_EQ(ElementName(model.get(), mjOBJ_BODY, 99), "body 99");
}

TEST_F(NameTest, ElementsAreFoundByTheNamesThatErrorsList) {
  const ModelPtr model = LoadModelFromString(kActuators);
  EXPECT_EQ(FindNamed(model.get(), mjOBJ_SITE, "site", "tip"), 0);
  EXPECT_EQ(FindNamed(model.get(), mjOBJ_GEOM, "geom", "geom 1"), 1);
  EXPECT_EQ(FindNamedOrNumbered(model.get(), mjOBJ_GEOM, "geom", "1"), 1);
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(FindNamed(model.get(), mjOBJ_SITE, "site", "tib", "task: "), code, "task: model '",
               "has no site 'tib', did you mean 'tip'?");
  EXPECT_ERROR(FindNamed(model.get(), mjOBJ_SITE, "site", "1"), code, "has no site '1' (there is tip");
  EXPECT_ERROR(FindNamed(model.get(), mjOBJ_CAMERA, "camera", "top"), code, "has no camera 'top' (it has none)");
  EXPECT_ERROR(FindNamedOrNumbered(model.get(), mjOBJ_SITE, "site", "99"), code, "there is no site 99", "has 1");
  EXPECT_ERROR(FindNamedOrNumbered(model.get(), mjOBJ_SITE, "site", "", "task: "), code, "task: model '", "no site ''");
}

// what was called so by number is none of them, nor is the world
TEST_F(NameTest, GivenNamesAreThoseOfTheUserAlone) {
  const ModelPtr model = LoadModelFromString(kActuators);
  EXPECT_EQ(GivenNames(model.get(), mjOBJ_ACTUATOR), (Names{"plain", "turn", "pull"}));
  EXPECT_EQ(GivenNames(model.get(), mjOBJ_BODY), Names{});
  EXPECT_EQ(GivenName(model.get(), mjOBJ_ACTUATOR, 1), "");
  EXPECT_EQ(NamedId(model.get(), mjOBJ_ACTUATOR, "turn"), 2);
  EXPECT_EQ(NamedId(model.get(), mjOBJ_ACTUATOR, "actuator 1"), -1);
  EXPECT_EQ(NamedId(model.get(), mjOBJ_ACTUATOR, ""), -1);
}

TEST_F(NameTest, SensorsAreFoundWhereTheirNumbersBegin) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco model="arm"><worldbody><body><joint name="a"/><geom size="1"/>
      <site name="tip"/></body></worldbody><sensor><framepos name="place" objtype="site" objname="tip"/>
      <jointpos name="angle" joint="a"/></sensor></mujoco>)");
  EXPECT_EQ(SensorAddress(model.get(), "place"), 0);
  EXPECT_EQ(SensorAddress(model.get(), "angle"), 3);
  EXPECT_ERROR(SensorAddress(model.get(), "angel"), ErrorCode::kInvalidArgument,
               "model 'arm' has no sensor 'angel', did you mean 'angle'?");
}

TEST_F(NameTest, WhatIsInsideBracketsMayHaveBrackets) {
  EXPECT_EQ(Inside("qpos[root].x"), "root");
  EXPECT_EQ(Inside("ctrl[a]b[c]"), "a]b[c");
  EXPECT_EQ(Inside("ctrl"), "ctrl");
  EXPECT_EQ(Inside("]["), "][");
}

TEST_F(NameTest, NearestNameForgivesTyposAndWhatIsLeftOut) {
  const Names sites{"tip", "base", "left_foot", "right_foot"};
  EXPECT_EQ(NearestName("tib", sites), "tip");
  EXPECT_EQ(NearestName("TIP", sites), "tip");
  EXPECT_EQ(NearestName("left_fot", sites), "left_foot");
  EXPECT_EQ(NearestName("rihgt_foot", sites), "right_foot");
  EXPECT_EQ(NearestName("elbow", sites), "");
  EXPECT_EQ(NearestName("left_knee", {"left_hip_joint", "left_knee_joint_upper", "left_knee_joint"}),
            "left_knee_joint");
  EXPECT_EQ(NearestName("left_knee", {"robot/left_hip", "robot/left_knee"}), "robot/left_knee");
  EXPECT_EQ(NearestName("knee", {"left_knee_joint"}), "");
  EXPECT_EQ(NearestName("", sites), "");
  EXPECT_EQ(NearestName("tip", {}), "");
}

TEST_F(NameTest, NoModelIsAnError) {
  EXPECT_ERROR(ModelName(nullptr), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(ElementName(nullptr, mjOBJ_BODY, 0), ErrorCode::kInvalidArgument, "the model is NULL");
  for (const auto names : {StateNames, TangentNames, ControlNames, SensorNames})
    EXPECT_ERROR(names(nullptr), ErrorCode::kInvalidArgument, "the model is NULL");
}

}  // namespace
}  // namespace costate
