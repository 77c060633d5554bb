// costate.policy: a saved run plays in a host that only steps.
#include <costate/derivative.h>
#include <costate/record.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "engine/model_difference.h"
#include "engine/playback.h"
#include "engine/plugin_config.h"
#include "rollout/record_format.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNearRelative;

// rotations, an activation, a clamped motor and a contact
constexpr char kScene[] = R"(<mujoco model="flyer">
  <option timestep="0.004" integrator="INTEGRATOR"/>EXTENSION
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body name="hull" pos="0 0 .5"><freejoint name="root"/><geom size=".1 .15 .2" type="box"/>
      <body name="arm" pos=".2 0 0"><joint name="shoulder" type="ball" damping=".1" armature=".05"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
        <body pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".2" armature=".05"/><geom size=".04"/></body></body></body>
  </worldbody>
  <actuator>
    <general name="servo" joint="elbow" dyntype="filter" dynprm=".05" gainprm="3" biastype="affine" biasprm="0 -3 -.1"/>
    <motor name="motor" joint="elbow" ctrlrange="-.5 .5" ctrllimited="true"/>
    <motor name="lift" joint="root" gear="0 0 1 0 .02 0"/>
  </actuator>
</mujoco>)";

std::string Scene(const std::string& integrator, const std::string& extension = "") {
  std::string text = kScene;
  text.replace(text.find("INTEGRATOR"), 10, integrator);
  return text.replace(text.find("EXTENSION"), 9, extension);
}

std::string Instance(const std::string& run, const std::string& config = "", const std::string& more = "") {
  return "<extension><plugin plugin='costate.policy'><instance name='play'><config key='run' value='" + run + "'/>" +
         config + "</instance>" + more + "</plugin></extension>";
}

class PolicyPluginTest : public support::EngineTest {
 protected:
  // a motion with gains as large as those of an optimization
  void Make(const std::string& integrator = "implicitfast", int substeps = 3) {
    run_ = Record();
    run_.command = "optimize";
    run_.model = LoadModelFromString(Scene(integrator));
    run_.model_file = folder_.Write("flyer.xml", Scene(integrator));
    run_.substeps = substeps;
    const DataPtr data = MakeData(run_.model.get());
    data->qvel[3] = 0.3;
    data->act[0] = 0.2;
    run_.context = GetContext(run_.model.get(), data.get());
    MatrixXd U(3, kKnots);
    for (int t = 0; t < kKnots; ++t) U.col(t) << std::sin(0.4 * t), 0.8 * std::cos(0.3 * t), 60 + 5 * std::sin(t);
    Simulator simulator(run_.model.get(), run_.context, substeps, 1);
    ASSERT_TRUE(simulator.Rollout(GetState(run_.model.get(), data.get()), U, &run_.trajectory).ok());
    run_.policy.k = MatrixXd::Zero(3, kKnots);
    for (int t = 0; t < kKnots; ++t) {
      const Eigen::Index ndx = simulator.dims().ndx;
      run_.policy.K.push_back((VectorXd::LinSpaced(3 * ndx, 0, 9 + t).array().sin() * 0.4).matrix().reshaped(3, ndx));
    }
    WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});
  }

  ModelPtr Load(const std::string& config, const std::string& integrator = "implicitfast") {
    return LoadModelFromString(Scene(integrator, Instance(folder_.File("run"), config)));
  }

  // states at knots while a host does nothing but step
  MatrixXd Play(const mjModel* m, mjData* d, int knots = kKnots) {
    MatrixXd X(m->nq + m->nv + m->na, knots + 1);
    for (int t = 0; t <= knots; ++t) {
      X.col(t) = GetState(m, d);
      for (int k = 0; k < run_.substeps && t < knots; ++k) mj_step(m, d);
    }
    return X;
  }

  // the same by hand: u = u_bar + K (x ⊖ x_bar), held over the interval, on the plain model
  MatrixXd ByHand(const VectorXd& x0, int knots, bool feedback) {
    const mjModel* m = run_.model.get();
    const DataPtr d = MakeData(m);
    SetContext(m, d.get(), run_.context);
    SetState(m, d.get(), x0);
    MatrixXd X(x0.size(), knots + 1);
    for (int t = 0; t <= knots; ++t) {
      X.col(t) = GetState(m, d.get());
      const int at = std::min(t, kKnots), gain = std::min(t, kKnots - 1);
      VectorXd u = run_.trajectory.U.col(gain);
      if (feedback) u += run_.policy.K[gain] * Difference(m, X.col(t), run_.trajectory.X.col(at));
      mju_copy(d->ctrl, u.data(), 3);
      for (int k = 0; k < run_.substeps && t < knots; ++k) mj_step(m, d.get());
    }
    return X;
  }

  static constexpr int kKnots = 25;
  support::TemporaryFolder folder_;
  Record run_;
};

TEST_F(PolicyPluginTest, PlaysTheRunBitForBitWithEveryIntegrator) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast", "discrete"}) {
    SCOPED_TRACE(integrator);
    Make(integrator);
    for (const char* feedback : {"on", "off"}) {
      const ModelPtr m = Load(Config("start", "on") + Config("feedback", feedback), integrator);
      const DataPtr d = MakeData(m.get());
      EXPECT_TRUE(BitwiseEqual(Play(m.get(), d.get()), run_.trajectory.X));

      // and again: a reset is a new start
      mj_resetData(m.get(), d.get());
      EXPECT_TRUE(BitwiseEqual(Play(m.get(), d.get()), run_.trajectory.X));
    }
  }
}

// From elsewhere the controls are those of the policy, knot by knot; every integrator's stages hold them.
TEST_F(PolicyPluginTest, FeedbackIsThePolicyHeldOverTheInterval) {
  for (const char* integrator : {"implicitfast", "RK4"}) {
    for (const int substeps : {1, 3}) {
      Make(integrator, substeps);
      for (const bool feedback : {true, false}) {
        const ModelPtr m = Load(Config("feedback", feedback ? "on" : "off"), integrator);
        const DataPtr d = MakeData(m.get());
        VectorXd dx = VectorXd::LinSpaced(2 * m->nv + m->na, -0.02, 0.03);
        const VectorXd x0 = Retract(m.get(), run_.trajectory.X.col(0), dx);
        SetState(m.get(), d.get(), x0);
        const MatrixXd expected = ByHand(x0, kKnots + 5, feedback);
        EXPECT_TRUE(MatricesNearRelative(Play(m.get(), d.get(), kKnots + 5), expected, 1e-10))
            << integrator << substeps;
        EXPECT_FALSE(MatricesNearRelative(expected.leftCols(kKnots + 1), run_.trajectory.X, 1e-3));
      }
    }
  }
}

// A host that evaluates twice, or moves the state after it has evaluated, gets the controls of the last state.
TEST_F(PolicyPluginTest, ALaterLookAtTheSameTimeCountsAnew) {
  Make();
  const ModelPtr m = Load("");
  const DataPtr d = MakeData(m.get());
  mj_forward(m.get(), d.get());
  const VectorXd x0 = Retract(m.get(), run_.trajectory.X.col(0), VectorXd::Constant(2 * m->nv + m->na, 0.01));
  SetState(m.get(), d.get(), x0);
  mj_forward(m.get(), d.get());
  EXPECT_TRUE(MatricesNearRelative(Play(m.get(), d.get()), ByHand(x0, kKnots, true), 1e-10));
}

TEST_F(PolicyPluginTest, OffsetLoopAndZero) {
  Make();
  const double knot_time = 3 * 0.004;
  const auto control_at = [&](const std::string& config, double time) {
    const ModelPtr m = Load(Config("feedback", "off") + config);
    const DataPtr d = MakeData(m.get());
    d->time = time;
    mj_forward(m.get(), d.get());
    return VectorXd(Eigen::Map<VectorXd>(d->ctrl, 3));
  };
  const MatrixXd& U = run_.trajectory.U;
  EXPECT_TRUE(BitwiseEqual(control_at("", 7.5 * knot_time), U.col(7)));
  EXPECT_TRUE(BitwiseEqual(control_at("", 100), U.col(kKnots - 1)));
  EXPECT_TRUE(BitwiseEqual(control_at("", -1), U.col(0)));
  EXPECT_TRUE(BitwiseEqual(control_at(Config("offset", "0.024"), 7.5 * knot_time), U.col(5)));
  EXPECT_TRUE(BitwiseEqual(control_at(Config("offset", "-0.024"), 7.5 * knot_time), U.col(9)));
  EXPECT_TRUE(BitwiseEqual(control_at(Config("end", "loop"), (3 * kKnots + 4.5) * knot_time), U.col(4)));
  EXPECT_TRUE(BitwiseEqual(control_at(Config("end", "loop"), -1), U.col(0)));
  EXPECT_TRUE(control_at(Config("end", "zero"), 100).isZero(0));
  EXPECT_TRUE(BitwiseEqual(control_at(Config("end", "zero"), (kKnots - 0.5) * knot_time), U.col(kKnots - 1)));
}

// A copy, a restored state and a thread of its own all go on as the original does, in the middle of an interval too.
// a host may set any time, and steps on whatever it is
TEST_F(PolicyPluginTest, ATimeThatIsNoNumberIsThatOfTheFirstKnot) {
  Make();
  for (const char* end : {"hold", "loop", "zero"}) {
    const ModelPtr m = Load(Config("feedback", "off") + Config("end", end));
    const DataPtr d = MakeData(m.get());
    d->time = NAN;
    mj_step(m.get(), d.get());
    EXPECT_EQ(Eigen::Map<const VectorXd>(d->ctrl, 3), run_.trajectory.U.col(0)) << end;
  }
}

TEST_F(PolicyPluginTest, CopiesRestoredStatesAndThreadsGoOnAlike) {
  for (const char* integrator : {"implicitfast", "RK4"}) {
    Make(integrator);
    const ModelPtr m = Load("", integrator);
    DataPtr d = MakeData(m.get());
    d->qvel[0] = 0.1;
    for (int i = 0; i < 20; ++i) mj_step(m.get(), d.get());  // 20 = 6 intervals and two thirds
    const DataPtr copy(mj_copyData(nullptr, m.get(), d.get())), over = MakeData(m.get()), restored = MakeData(m.get());
    mj_copyData(over.get(), m.get(), d.get());
    VectorXd state(mj_stateSize(m.get(), mjSTATE_INTEGRATION));
    mj_getState(m.get(), d.get(), state.data(), mjSTATE_INTEGRATION);
    for (int i = 0; i < 7; ++i) mj_step(m.get(), restored.get());
    mj_setState(m.get(), restored.get(), state.data(), mjSTATE_INTEGRATION);
    const auto go_on = [&](mjData* data) {
      for (int i = 0; i < 30; ++i) mj_step(m.get(), data);
    };
    go_on(d.get());
    const VectorXd expected = GetState(m.get(), d.get());
    d.reset();  // the copies live on without it
    std::vector<std::thread> threads;
    for (mjData* data : {copy.get(), over.get(), restored.get()}) threads.emplace_back(go_on, data);
    for (std::thread& thread : threads) thread.join();
    for (const mjData* data : {copy.get(), over.get(), restored.get()}) {
      EXPECT_TRUE(BitwiseEqual(GetState(m.get(), data), expected));
    }
  }
}

// An actuator that the instance backs is a motor that pushes with its control.
TEST_F(PolicyPluginTest, DrivesActuatorsOfItsOwn) {
  Make();
  std::string text = Scene("implicitfast", Instance(folder_.File("run"), Config("start", "on")));
  const std::string motor = "<motor name=\"motor\" joint=\"elbow\"";
  text.replace(text.find(motor), motor.size(), "<plugin instance=\"play\" name=\"motor\" joint=\"elbow\"");
  const ModelPtr m = LoadModelFromString(text);
  const DataPtr d = MakeData(m.get());
  EXPECT_TRUE(MatricesNearRelative(Play(m.get(), d.get()), run_.trajectory.X, 1e-12));
}

// Behind an actuator of several controls the range of a motor is that of its control, not of the actuator's number.
TEST_F(PolicyPluginTest, ClampsMotorsBehindSeveralControls) {
  const auto text = [&](const std::string& extension, const std::string& motor) {
    return "<mujoco>" + extension +
           R"(<worldbody><body><joint name="x" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
      <actuator><pid joint="x" kp="1" kv="1" input="pos vel" ctrllimited="true" ctrlrange="-1 1" velrange="-2 2"/><)" +
           motor + R"( joint="x" ctrllimited="true" ctrlrange="-40 40"/></actuator></mujoco>)";
  };
  run_ = Record();
  run_.model = LoadModelFromString(text("", "motor"));
  const DataPtr data = MakeData(run_.model.get());
  run_.context = GetContext(run_.model.get(), data.get());
  ASSERT_EQ(run_.model->nu, 3);
  run_.substeps = 2;
  Simulator simulator(run_.model.get(), run_.context, run_.substeps, 1);
  MatrixXd U = MatrixXd::Zero(3, kKnots);
  U.row(2).setConstant(30);
  U(2, 0) = 60;
  ASSERT_TRUE(simulator.Rollout(GetState(run_.model.get(), data.get()), U, &run_.trajectory).ok());
  WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});
  const ModelPtr m = LoadModelFromString(text(
      Instance(folder_.File("run"), Config("start", "on") + Config("feedback", "off")), "plugin instance=\"play\""));
  const DataPtr d = MakeData(m.get());
  EXPECT_TRUE(MatricesNearRelative(Play(m.get(), d.get()), run_.trajectory.X, 1e-12));
}

TEST_F(PolicyPluginTest, RefusesWhatItCannotPlayByName) {
  Make();
  const std::string run = folder_.File("run");
  const auto expect = [&](const std::string& error, std::initializer_list<std::string> texts) {
    for (const std::string& text : texts)
      EXPECT_NE(error.find(text), std::string::npos) << text << " is not in: " << error;
  };
  expect(LoadErrorOf(Scene("Euler", Instance(run, Config("end", "stop")))),
         {"costate.policy 'play': attribute end: it is 'stop', expected hold, loop, zero"});
  expect(LoadErrorOf(Scene("Euler", Instance(run, Config("offset", "soon")))),
         {"attribute offset: 'soon' is not a finite number"});
  expect(LoadErrorOf(Scene("Euler", Instance(run, Config("feedback", "yes")))),
         {"attribute feedback: it is 'yes', expected off, on, law"});
  expect(LoadErrorOf(Scene("Euler", Instance(run, Config("speed", "2")))), {"speed"});
  expect(LoadErrorOf(Scene("Euler", Instance(run + "s"))), {"attribute run", "there is no such folder"});
  expect(LoadErrorOf(
             Scene("Euler", "<extension><plugin plugin='costate.policy'><instance name='play'/></plugin></extension>")),
         {"attribute run: it is not given"});
  expect(LoadErrorOf(Scene("Euler",
                           Instance(run, "", "<instance name='b'><config key='run' value='" + run + "'/></instance>"))),
         {"'b': it is the second of its kind"});

  // another model
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = Scene("implicitfast", Instance(run));
    return LoadErrorOf(text.replace(text.find(from), from.size(), to));
  };
  expect(changed("timestep=\"0.004\"", "timestep=\"0.005\""),
         {run, "timestep is 0.004 s in the run's model, 0.005 s here"});
  expect(changed("<joint name=\"shoulder\"", "<joint name=\"hip\""),
         {"another model: ", "qpos[shoulder]", "qpos[hip]"});
  expect(changed("name=\"lift\"", "name=\"raise\""),
         {run, "control 2 is ctrl[lift] in the run's model, ctrl[raise] here"});
  expect(changed("name=\"elbow\"", "name=\"elbow\" type=\"slide\""),
         {"joint elbow is a hinge joint in the run's model, a slide joint here"});
  expect(changed("dyntype=\"filter\"", ""), {"na is 1 in the run's model, 0 here"});

  // a damaged run, one without gains
  run_.policy = {};
  WriteRecord(run, run_, {.force = true, .plots = false});
  expect(LoadErrorOf(Scene("implicitfast", Instance(run))), {"attribute feedback", "has no gains"});
  EXPECT_EQ(LoadErrorOf(Scene("implicitfast", Instance(run, Config("feedback", "off")))), "");
  std::ofstream(run + "/trajectory.csv", std::ios::app) << "x";
  expect(LoadErrorOf(Scene("implicitfast", Instance(run, Config("feedback", "off")))), {"trajectory.csv"});
}

// a knot of no length would be found at no number
TEST_F(PolicyPluginTest, RefusesARunWithoutLength) {
  Make();
  const std::string run = folder_.File("run"), file = run + "/record.json";
  Json record = Json::parse(support::ReadFile(file));
  record["horizon"]["substeps"] = 0;
  record["checksum"] = Checksum(record);
  std::ofstream(file) << ToText(record, 1);
  EXPECT_NE(LoadErrorOf(Scene("implicitfast", Instance(run, Config("start", "on")))).find("horizon.substeps is 0"),
            std::string::npos);
}

// The closed loop's own derivative: controls follow the state, and nothing else moves them. Never that of free
// controls.
TEST_F(PolicyPluginTest, IsDifferencedAsAClosedLoop) {
  Make("implicitfast", 1);
  const ModelPtr m = Load(Config("start", "on"));
  const DataPtr d = MakeData(m.get());
  const StepDerivative closed = Linearize(m.get(), d.get());
  const DataPtr free = MakeData(run_.model.get());
  SetContext(run_.model.get(), free.get(), run_.context);
  SetState(run_.model.get(), free.get(), run_.trajectory.X.col(0));
  mju_copy(free->ctrl, run_.trajectory.U.col(0).data(), 3);
  const StepDerivative open = Linearize(run_.model.get(), free.get());
  EXPECT_EQ(closed.coverage.Worst(), Level::kStep);
  EXPECT_TRUE(MatricesNearRelative(closed.A, open.A + open.B * run_.policy.K[0], 1e-5));
  EXPECT_FALSE(MatricesNearRelative(closed.A, open.A, 1e-2));
  EXPECT_TRUE(closed.B.isZero(0));
  EXPECT_ERROR(Linearize(m.get(), d.get(), {.level = Level::kAnalytic}), ErrorCode::kUnsupported, "plugin");
}

TEST_F(PolicyPluginTest, IsExportedAsAModelThatPlaysByItself) {
  Make();
  const std::string file = folder_.File("play.xml");
  const PlaybackResult result = WritePlayback(folder_.File("run"), file);
  EXPECT_EQ(result.feedback, PolicyFeedback::kOn);
  EXPECT_LT(result.largest_difference, 1e-12);
  const ModelPtr m = LoadModel(file);
  const DataPtr d = MakeData(m.get());
  EXPECT_TRUE(MatricesNearRelative(Play(m.get(), d.get()), run_.trajectory.X, 1e-12));
  EXPECT_ERROR(WritePlayback(folder_.File("run"), folder_.File("flyer.xml")), ErrorCode::kFile,
               "is the model that run '");
  EXPECT_ERROR(WritePlayback(folder_.File("run"), folder_.File("none/play.xml")), ErrorCode::kFile,
               "cannot be written");
  std::string renamed = Scene("implicitfast");
  renamed.replace(renamed.find("shoulder"), 8, "hip");
  folder_.Write("flyer.xml", renamed);
  EXPECT_ERROR(WritePlayback(folder_.File("run"), file, {.force = true}), ErrorCode::kUnsupported, "has changed since",
               "qpos[hip]");
  EXPECT_ERROR(WritePlayback(folder_.File("run"), file), ErrorCode::kFile, "play.xml", "--force");
  EXPECT_TRUE(std::filesystem::exists(file));
  std::filesystem::remove(folder_.File("flyer.xml"));
  EXPECT_ERROR(WritePlayback(folder_.File("run"), file), ErrorCode::kFile, "flyer.xml", "not there");
}

// What a task, a fit or a smoothing made of the compiled model is in the file, though the source has it otherwise.
TEST_F(PolicyPluginTest, IsExportedWithTheModelOfTheRunNotOfItsSource) {
  Make();
  mjModel* m = run_.model.get();
  m->opt.timestep = 0.0025368792376798096;
  m->opt.integrator = mjINT_RK4;
  m->opt.gravity[0] = 1.0 / 3;
  m->opt.disableflags |= mjDSBL_MIDPHASE;
  for (int i = 0; i < m->njnt; ++i) m->jnt_solimp[mjNIMP * i] = 0;
  for (int i = 0; i < m->ngeom; ++i) m->geom_solimp[mjNIMP * i] = 0;
  const int arm = mj_name2id(m, mjOBJ_BODY, "arm");
  m->body_mass[arm] *= 1.25;
  for (int k = 0; k < 3; ++k) m->body_inertia[3 * arm + k] *= 1.25;
  m->dof_damping[m->nv - 1] = 0.7;
  m->actuator_gainprm[0] = 4;
  mj_setConst(m, MakeData(m).get());
  Simulator simulator(m, run_.context, run_.substeps, 1);
  const VectorXd x0 = run_.trajectory.X.col(0);
  const MatrixXd U = run_.trajectory.U;
  ASSERT_TRUE(simulator.Rollout(x0, U, &run_.trajectory).ok());
  WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});

  const std::string file = folder_.File("play.xml");
  const PlaybackResult result = WritePlayback(folder_.File("run"), file, {.feedback = false});
  EXPECT_TRUE(result.identical) << result.largest_difference << ": " << result.cause;
  const ModelPtr written = LoadModel(file);
  EXPECT_EQ(written->opt.timestep, m->opt.timestep);
  EXPECT_EQ(written->opt.integrator, m->opt.integrator);
  EXPECT_EQ(written->opt.gravity[0], m->opt.gravity[0]);
  EXPECT_EQ(written->opt.disableflags, m->opt.disableflags);
  EXPECT_EQ(written->geom_solimp[mjNIMP], 0);
  EXPECT_EQ(written->dof_damping[m->nv - 1], 0.7);
  EXPECT_EQ(written->body_mass[arm], m->body_mass[arm]);
}

// The instance that plays a run stands behind what the run's own model has of plugins, which must be the same.
TEST_F(PolicyPluginTest, IsNoDifferenceOfTheModelThatItPlays) {
  Make();
  const ModelPtr played = Load(Config("start", "on")), other = Load(Config("start", "off"));
  EXPECT_EQ(ModelDifference(run_.model.get(), played.get(), 0, nullptr, true), "");
  EXPECT_NE(ModelDifference(run_.model.get(), played.get(), 0).find("the size of plugin_"), std::string::npos);
  EXPECT_NE(ModelDifference(played.get(), run_.model.get(), 0, nullptr, true).find("the size of plugin_"),
            std::string::npos);
  EXPECT_NE(ModelDifference(played.get(), other.get(), 0, nullptr, true).find("plugin_attr"), std::string::npos);
}

// A model that MJCF cannot be made to say is no file: the first number is named, with both values.
TEST_F(PolicyPluginTest, IsNotExportedAsAnotherModel) {
  Make();
  const std::string run = folder_.File("run"), file = folder_.File("play.xml");
  mjModel* m = run_.model.get();
  m->geom_contype[1] = 2;
  WriteRecord(run, run_, {.force = true, .plots = false});
  EXPECT_ERROR(WritePlayback(run, file), ErrorCode::kUnsupported, "geom_contype of geom 1 is 2 in the run's model",
               "1 here");
  m->geom_contype[1] = 1;
  m->body_invweight0[2] *= 2;  // the compiler makes its own
  WriteRecord(run, run_, {.force = true, .plots = false});
  EXPECT_ERROR(WritePlayback(run, file), ErrorCode::kUnsupported, "body_invweight0[0] of hull is ");
  EXPECT_FALSE(std::filesystem::exists(file));
}

// mj_makeData calls init, and a host ends where that fails: the run was read when the model was compiled
TEST_F(PolicyPluginTest, DataMadeLaterPlayTheRunWhereverTheHostIsByThen) {
  Make();
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const ModelPtr m = LoadModelFromString(Scene("implicitfast", Instance("run", Config("start", "on"))));
  std::filesystem::current_path(here);
  const DataPtr d = MakeData(m.get());
  const MatrixXd X = Play(m.get(), d.get());
  EXPECT_TRUE(BitwiseEqual(X, run_.trajectory.X));

  // moved away; a copy of the model, and of the data
  std::filesystem::rename(folder_.path() / "run", folder_.path() / "elsewhere");
  const ModelPtr copy = CopyModel(m.get());
  const DataPtr late = MakeData(copy.get());
  EXPECT_TRUE(BitwiseEqual(Play(copy.get(), late.get()), X));
  std::vector<std::thread> threads;
  std::vector<MatrixXd> motions(4);
  for (MatrixXd& motion : motions) {
    threads.emplace_back([&] {
      const EngineGuard guard;
      const DataPtr own = MakeData(m.get());
      motion = Play(m.get(), own.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MatrixXd& motion : motions) EXPECT_TRUE(BitwiseEqual(motion, X));
  EXPECT_NE(LoadErrorOf(Scene("implicitfast", Instance(folder_.File("run")))).find("there is no such folder"),
            std::string::npos);

  // a damaged run is none; one that is written anew is played
  std::filesystem::rename(folder_.path() / "elsewhere", folder_.path() / "run");
  std::ofstream(folder_.File("run") + "/trajectory.csv", std::ios::app) << "x";
  EXPECT_TRUE(BitwiseEqual(Play(m.get(), MakeData(m.get()).get()), X));
  run_.trajectory.X.row(0).array() += 0.25;
  WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});
  EXPECT_EQ(MakeData(m.get())->qpos[0], run_.trajectory.X(0, 0));
}

// of what a host changes in a compiled model a warning is told, once
TEST_F(PolicyPluginTest, OptionsThatAHostChangesAreAWarning) {
  Make();
  const ModelPtr m = Load("");
  m->opt.timestep = 0.002;
  m->opt.disableflags |= mjDSBL_SPRING | mjDSBL_DAMPER;
  for (int i = 0; i < 2; ++i) mj_step(m.get(), MakeData(m.get()).get());
  const std::vector<std::string> warnings = TakeWarnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("disables spring and damper"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("timestep is 0.004 s in the run's model, 0.002 s here"), std::string::npos) << warnings[1];
}

}  // namespace
}  // namespace costate
