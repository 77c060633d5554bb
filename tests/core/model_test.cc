// Loading models from good and bad files, bytes and text; data and keyframes.
#include <costate/model.h>
#include <costate/state.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/model.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using ModelTest = support::EngineTest;

constexpr char kArm[] = R"(<mujoco model="arm"><worldbody><body>
    <joint name="hinge" axis="0 1 0"/><geom size=".1" pos="0 0 -1"/></body></worldbody>
    <actuator><motor name="motor" joint="hinge"/></actuator>
    <keyframe><key name="up" qpos="3" qvel="1" ctrl="2" time="5"/><key qpos="1"/></keyframe></mujoco>)";

constexpr char kUrdf[] = R"(<robot name="r"><link name="base"/>
    <link name="arm"><inertial><origin xyz="0 0 1"/><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="elbow" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="10" velocity="1"/></joint></robot>)";

TEST_F(ModelTest, LoadsMjcfUrdfAndBinary) {
  support::TemporaryFolder folder;
  const ModelPtr arm = LoadModel(folder.Write("arm.xml", kArm));
  EXPECT_EQ(ModelName(arm.get()), "arm");

  const ModelPtr robot = LoadModel(folder.Write("robot.urdf", kUrdf));
  EXPECT_EQ(ModelName(robot.get()), "r");
  EXPECT_EQ(StateNames(robot.get()), (std::vector<std::string>{"qpos[elbow]", "qvel[elbow]"}));
  EXPECT_EQ(robot->jnt_range[1], 1);

  mj_saveModel(arm.get(), folder.File("arm.mjb").c_str(), nullptr, 0);
  const ModelPtr binary = LoadModel(folder.File("arm.mjb"));
  EXPECT_EQ(SerializeModel(binary.get()), SerializeModel(arm.get()));

  // in letters of either case
  std::filesystem::rename(folder.File("arm.mjb"), folder.File("ARM.MJB"));
  EXPECT_EQ(SerializeModel(LoadModel(folder.File("ARM.MJB")).get()), SerializeModel(arm.get()));
  EXPECT_TRUE(IsCompiledModel("a/b.Mjb"));
  EXPECT_FALSE(IsCompiledModel("a.mjb/b.xml"));
}

TEST_F(ModelTest, FindsAssetsAndIncludesBesideTheFile) {
  // the engine resolves them relative to the file, not to the working folder
  support::TemporaryFolder folder;
  folder.Write("parts/leg.xml", "<mujocoinclude><geom name='leg' size='1'/></mujocoinclude>");
  const std::string path = folder.Write(
      "robot.xml", "<mujoco><worldbody><body><freejoint/><include file='parts/leg.xml'/></body></worldbody></mujoco>");
  EXPECT_EQ(LoadModel(path)->ngeom, 1);
}

TEST_F(ModelTest, FilesThatCannotBeReadAreFileErrors) {
  support::TemporaryFolder folder;
  EXPECT_ERROR(LoadModel(folder.File("none.xml")), ErrorCode::kFile, "none.xml' does not exist");
  EXPECT_ERROR(LoadModel(folder.File("none/none.xml")), ErrorCode::kFile, "does not exist");
  EXPECT_ERROR(LoadModel(folder.path()), ErrorCode::kFile, "is a folder");
  EXPECT_ERROR(LoadModel("/dev/zero"), ErrorCode::kFile, "not a regular file");
  EXPECT_ERROR(LoadModel(folder.Write("file", "") + "/arm.xml"), ErrorCode::kFile, "does not exist");
  EXPECT_ERROR(LoadModel(folder.File(std::string(300, 'a'))), ErrorCode::kFile, "cannot be read", "too long");
  EXPECT_ERROR(LoadModel(""), ErrorCode::kFile, "does not exist");
}

TEST_F(ModelTest, FilesThatAreNotUnderstoodCarryTheCompilersText) {
  support::TemporaryFolder folder;
  const auto load = [&](const char* content) { return LoadModel(folder.Write("bad.xml", content)); };
  EXPECT_ERROR(load(""), ErrorCode::kParse, "bad.xml", "empty");
  EXPECT_ERROR(load("no xml at all"), ErrorCode::kParse, "bad.xml");
  EXPECT_ERROR(load("<mujoco><worldbody>\n<body></worldbody></mujoco>"), ErrorCode::kParse, "bad.xml", "2");
  EXPECT_ERROR(load("<mujoco>\n<wrldbody/></mujoco>"), ErrorCode::kParse, "bad.xml", "wrldbody", "line 2");
  EXPECT_ERROR(load("<mujoco><asset><mesh file='no.stl'/></asset></mujoco>"), ErrorCode::kParse, "bad.xml", "no.stl");
  EXPECT_ERROR(load("<mujoco><actuator>\n<motor joint='hip'/></actuator></mujoco>"), ErrorCode::kParse, "bad.xml",
               "hip");
  EXPECT_ERROR(load("<mujoco><include file='no.xml'/></mujoco>"), ErrorCode::kParse, "bad.xml", "no.xml");
  EXPECT_ERROR(load("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>"), ErrorCode::kParse, "bad.xml",
               "mass");
  EXPECT_ERROR(LoadModelFromString("<mujoco"), ErrorCode::kParse, "XML text");
}

TEST_F(ModelTest, ErrorsAreOneLine) {
  try {
    LoadModelFromString("<mujoco><worldbody>\n<bdy/></worldbody></mujoco>");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST_F(ModelTest, CompilerWarningsAreReturned) {
  support::TemporaryFolder folder;
  const std::string path =
      folder.Write("nan.xml", R"(<mujoco><worldbody><body><joint/><geom size="1"/></body></worldbody>
      <keyframe><key qpos="nan"/></keyframe></mujoco>)");
  std::vector<std::string> warnings{"one before"};
  LoadModel(path, &warnings);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[1].find("NaN"), std::string::npos) << warnings[1];
}

TEST_F(ModelTest, SpecsCanBeEditedBeforeCompiling) {
  support::TemporaryFolder folder;
  const SpecPtr spec = LoadSpec(folder.Write("arm.xml", kArm));
  mjsSensor* sensor = mjs_addSensor(spec.get());
  sensor->type = mjSENS_JOINTPOS;
  sensor->objtype = mjOBJ_JOINT;
  mjs_setString(sensor->objname, "hinge");
  EXPECT_EQ(CompileModel(spec.get(), "arm.xml")->nsensor, 1);

  mjs_setString(sensor->objname, "knee");
  EXPECT_ERROR(CompileModel(spec.get(), "arm.xml"), ErrorCode::kParse, "arm.xml", "knee");
  EXPECT_ERROR(LoadSpec(folder.Write("arm.mjb", "")), ErrorCode::kUnsupported, "compiled model");
}

TEST_F(ModelTest, BytesOfAModelGiveTheSameModelBack) {
  const ModelPtr model = LoadModelFromString(kArm);
  const std::vector<unsigned char> bytes = SerializeModel(model.get());
  EXPECT_EQ(SerializeModel(DeserializeModel(bytes).get()), bytes);
  EXPECT_EQ(SerializeModel(CopyModel(model.get()).get()), bytes);
}

TEST_F(ModelTest, DamagedBytesAreFileErrors) {
  const std::vector<unsigned char> bytes = SerializeModel(LoadModelFromString(kArm).get());
  for (std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{19}, std::size_t{500}, bytes.size() - 1}) {
    EXPECT_ERROR(DeserializeModel({bytes.begin(), bytes.begin() + size}), ErrorCode::kFile, "damaged");
  }
  std::vector<unsigned char> longer = bytes, other = bytes;
  longer.push_back(0);
  EXPECT_ERROR(DeserializeModel(longer), ErrorCode::kFile, "damaged");
  other[0] ^= 1;
  EXPECT_ERROR(DeserializeModel(other), ErrorCode::kFile, "not a compiled MuJoCo model");

  support::TemporaryFolder folder;
  EXPECT_ERROR(LoadModel(folder.Write("text.MJB", "this is no model whatever its name")), ErrorCode::kFile, "text.MJB",
               "not a compiled");
}

TEST_F(ModelTest, BytesOfAnotherEngineAreUnsupportedAndSayWhose) {
  std::vector<unsigned char> bytes = SerializeModel(LoadModelFromString(kArm).get());
  const auto with_version = [&bytes](int version) {
    std::memcpy(bytes.data() + 12, &version, sizeof(version));
    return bytes;
  };
  EXPECT_ERROR(DeserializeModel(with_version(337)), ErrorCode::kUnsupported, "3.3.7", "4.0.1");
  EXPECT_ERROR(DeserializeModel(with_version(3010002)), ErrorCode::kUnsupported, "3.10.2");
  EXPECT_ERROR(DeserializeModel(with_version(4000000)), ErrorCode::kUnsupported, "4.0.0");
}

TEST_F(ModelTest, NoDamageOfTheBytesEndsTheProcess) {
  // the engine trusts the sizes that it reads: without a check in front it fills gigabytes
  const std::vector<unsigned char> bytes = SerializeModel(LoadModelFromString(kArm).get());
  support::Random random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<unsigned char> damaged = bytes;
    const std::size_t reach = i % 2 == 0 ? damaged.size() : 900;
    for (int k = 0; k < 3; ++k) {
      damaged[static_cast<std::size_t>(random.Uniform(0, static_cast<double>(reach)))] =
          static_cast<unsigned char>(random.Uniform(0, 256));
    }
    try {
      DeserializeModel(damaged);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(ModelTest, DataStartsAtTheDefaultState) {
  const ModelPtr model = LoadModelFromString(kArm);
  EXPECT_EQ(GetState(model.get(), MakeData(model.get()).get()), VectorXd::Zero(2));
}

TEST_F(ModelTest, KeyframesAreFoundByNameAndByNumber) {
  const ModelPtr model = LoadModelFromString(kArm);
  for (const char* key : {"up", "0"}) {
    const DataPtr data = MakeDataAtKey(model.get(), key);
    EXPECT_EQ(data->qpos[0], 3);
    EXPECT_EQ(data->qvel[0], 1);
    EXPECT_EQ(data->ctrl[0], 2);
    EXPECT_EQ(data->time, 5);
  }
  EXPECT_EQ(MakeDataAtKey(model.get(), "1")->qpos[0], 1);
  EXPECT_EQ(MakeDataAtKey(model.get(), "key 1")->qpos[0], 1) << "as lists call it, which have no name for it";
}

TEST_F(ModelTest, UnknownKeyframesNameTheNearest) {
  const ModelPtr model = LoadModelFromString(kArm);
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(MakeDataAtKey(model.get(), "upp"), code, "model 'arm' has no keyframe 'upp', did you mean 'up'?");
  EXPECT_ERROR(MakeDataAtKey(model.get(), "crouching"), code, "(there is up and key 1)");
  EXPECT_ERROR(MakeDataAtKey(model.get(), "2"), code, "no keyframe 2", "has 2");
  EXPECT_ERROR(MakeDataAtKey(model.get(), "-1"), code, "no keyframe '-1'");
  EXPECT_ERROR(MakeDataAtKey(model.get(), ""), code, "no keyframe ''");
  EXPECT_ERROR(MakeDataAtKey(LoadModelFromString("<mujoco/>").get(), "home"), code, "no keyframe 'home' (it has none)");
}

TEST_F(ModelTest, KeyframesWithNumbersThatAreNoneAreRefused) {
  ModelPtr model = LoadModelFromString(kArm);
  model->key_qvel[0] = NAN;
  EXPECT_ERROR(MakeDataAtKey(model.get(), "up"), ErrorCode::kInvalidArgument, "keyframe 'up'", "qvel[hinge] is nan");
  model->key_qvel[0] = 1e300;
  EXPECT_ERROR(MakeDataAtKey(model.get(), "up"), ErrorCode::kInvalidArgument, "qvel[hinge] is 1e+300");
  model->key_qvel[0] = 0;
  model->key_ctrl[0] = -INFINITY;
  EXPECT_ERROR(MakeDataAtKey(model.get(), "0"), ErrorCode::kInvalidArgument, "ctrl[motor] is -inf");
}

TEST_F(ModelTest, DataThatCannotBeAllocatedIsAnEngineError) {
  ModelPtr model = LoadModelFromString(kArm);
  model->narena = mjtSize{1} << 60;
  EXPECT_ERROR(MakeData(model.get()), ErrorCode::kEngine, "allocate");
}

// what mj_loadXML and mj_makeData return when they fail
TEST_F(ModelTest, NullIsRefusedByName) {
  const ModelPtr model = LoadModelFromString(kArm);
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(Dims(nullptr), code, "the model is NULL");
  EXPECT_ERROR(MakeData(nullptr), code, "the model is NULL");
  EXPECT_ERROR(MakeDataAtKey(nullptr, "up"), code, "the model is NULL");
  EXPECT_ERROR(CopyModel(nullptr), code, "the model is NULL");
  EXPECT_ERROR(SerializeModel(nullptr), code, "the model is NULL");
  EXPECT_ERROR(CompileModel(nullptr, "robot"), code, "the spec is NULL");
  EXPECT_ERROR(GetState(model.get(), nullptr), code, "the data is NULL");
  EXPECT_ERROR(GetState(nullptr, nullptr), code, "the model is NULL");
}

}  // namespace
}  // namespace costate
