// x' = f(x, u): a function, the engine's own, and failures as a status.
#include <costate/step.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using StepTest = support::EngineTest;
using support::BitwiseEqual;

// two boxes and a two-link arm on a floor: contacts, limits, an activation, a sensor of every stage
std::string Scene(const std::string& option) {
  return "<mujoco model='scene'>" + option + R"(<worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".5 0 .3"><freejoint/><geom type="capsule" size=".05 .1"/></body>
    <body name="arm" pos="1 0 1"><joint name="shoulder" axis="0 1 0" range="-1 1" limited="true" damping=".1"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/><body pos=".5 0 0"><joint name="elbow" axis="0 1 0"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/><site name="tip" pos=".5 0 0"/></body></body></worldbody>
    <actuator><motor joint="shoulder" gear="10"/><general joint="elbow" dyntype="filter" dynprm=".05"/></actuator>
    <sensor><framepos objtype="site" objname="tip"/><framelinvel objtype="site" objname="tip"/>
      <accelerometer site="tip"/><jointactuatorfrc joint="elbow"/><clock/></sensor></mujoco>)";
}

TEST_F(StepTest, IsTheEnginesOwnStepBitForBit) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast", "discrete"}) {
    const ModelPtr model = LoadModelFromString(Scene("<option integrator='" + std::string(integrator) + "'/>"));
    const DataPtr ours = MakeData(model.get()), engine = MakeData(model.get());
    const VectorXd u = support::RandomControl(model.get(), 1);
    VectorXd x = support::RandomState(model.get(), 2), x_next(x.size()), sensors(model->nsensordata);
    SetState(model.get(), engine.get(), x);
    mj_setState(model.get(), engine.get(), u.data(), mjSTATE_CTRL);
    for (int t = 0; t < 20; ++t) {
      ASSERT_EQ(Step(model.get(), ours.get(), x, u, 3, x_next, sensors), StepStatus::kOk);
      for (int i = 0; i < 3; ++i) {
        mj_step(model.get(), engine.get());
        if (i == 0) {
          const VectorXd expected = Eigen::Map<const VectorXd>(engine->sensordata, model->nsensordata);
          EXPECT_TRUE(BitwiseEqual(sensors, expected, SensorNames(model.get()))) << integrator;
        }
      }
      ASSERT_TRUE(BitwiseEqual(x_next, GetState(model.get(), engine.get()), StateNames(model.get()))) << integrator;
      x = x_next;
    }
    EXPECT_EQ(ours->time, engine->time);
  }
}

int measured = 0;

// sensors of one substep are all that is asked for; those of the others only where a control law may read them
TEST_F(StepTest, MeasuresOnceUnlessItsOwnMotionMayReadIt) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint type="slide"/><geom size=".1"/></body></worldbody>
    <sensor><user dim="1" needstage="pos"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const VectorXd x = VectorXd::Zero(2), u;
  VectorXd x_next(2), sensors(1);
  const auto count = [&](int substeps) {
    measured = 0;
    EXPECT_EQ(Step(model.get(), data.get(), x, u, substeps, x_next, sensors), StepStatus::kOk);
    return measured;
  };
  mjcb_sensor = [](const mjModel*, mjData*, int) { ++measured; };
  const int one = count(1), four = count(4);
  mjcb_control = [](const mjModel*, mjData*) {};
  const int read = count(4);
  mjcb_sensor = nullptr;
  mjcb_control = nullptr;
  EXPECT_GE(one, 1);
  EXPECT_EQ(four, one);
  EXPECT_EQ(read, 4 * one);
}

// a plugin's state that goes on each time its sensor is evaluated is that of the engine's own steps
TEST_F(StepTest, EvaluatesSensorsThatKeepAStateInEverySubstep) {
  mjpPlugin counter;
  mjp_defaultPlugin(&counter);
  counter.name = "test.counter";
  counter.capabilityflags = mjPLUGIN_SENSOR;
  counter.needstage = mjSTAGE_POS;
  counter.nstate = [](const mjModel*, int) { return 1; };
  counter.nsensordata = [](const mjModel*, int, int) { return 1; };
  counter.init = [](const mjModel*, mjData*, int) { return 0; };
  counter.reset = [](const mjModel*, mjtNum* state, void*, int) { state[0] = 0; };
  counter.compute = [](const mjModel*, mjData* d, int, int) { d->plugin_state[0] += 1; };
  mjp_registerPlugin(&counter);
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><extension><plugin plugin="test.counter"><instance name="c"/></plugin></extension>
    <worldbody><body><joint type="slide"/><geom size=".1"/></body></worldbody>
    <sensor><plugin plugin="test.counter" instance="c"/></sensor></mujoco>)");
  const DataPtr ours = MakeData(model.get()), engine = MakeData(model.get());
  VectorXd x_next(2), sensors(1);
  ASSERT_EQ(Step(model.get(), ours.get(), VectorXd::Zero(2), VectorXd(), 4, x_next, sensors), StepStatus::kOk);
  for (int k = 0; k < 4; ++k) mj_step(model.get(), engine.get());
  EXPECT_EQ(ours->plugin_state[0], engine->plugin_state[0]);
  EXPECT_GE(engine->plugin_state[0], 4);
}

TEST_F(StepTest, IsAFunctionOfStateControlAndContext) {
  // whatever the data did in between: other states, contacts, a failed step
  for (const char* option :
       {"", "<option solver='CG' cone='elliptic'/>", "<option solver='PGS' integrator='RK4'/>",
        "<option integrator='discrete'/>", "<option><flag multiccd='enable' sleep='enable'/></option>"}) {
    const ModelPtr model = LoadModelFromString(Scene(option));
    const DataPtr data = MakeData(model.get());
    const VectorXd context = GetContext(model.get(), data.get()), u = support::RandomControl(model.get(), 1);
    const VectorXd x = support::RandomState(model.get(), 2);
    VectorXd first(x.size()), second(x.size()), s1(model->nsensordata), s2(model->nsensordata), none;
    ASSERT_EQ(Step(model.get(), data.get(), x, u, 5, first, s1), StepStatus::kOk);
    const VectorXd after = GetContext(model.get(), data.get());
    for (unsigned seed = 3; seed < 8; ++seed) {
      Step(model.get(), data.get(), support::RandomState(model.get(), seed), -u, 50, none, none);
    }
    const VectorXd bad = VectorXd::Constant(x.size(), NAN);
    EXPECT_EQ(Step(model.get(), data.get(), bad, u, 1, none, none), StepStatus::kBadState);
    TakeWarnings();
    SetContext(model.get(), data.get(), context);
    ASSERT_EQ(Step(model.get(), data.get(), x, u, 5, second, s2), StepStatus::kOk);
    EXPECT_TRUE(BitwiseEqual(second, first, StateNames(model.get()))) << option;
    EXPECT_TRUE(BitwiseEqual(s2, s1, SensorNames(model.get()))) << option;
    EXPECT_TRUE(BitwiseEqual(GetContext(model.get(), data.get()), after)) << option;
  }
}

TEST_F(StepTest, SleepHasNoMemory) {
  // the engine's sleeping bodies stay frozen by history; here a state at rest is stepped like any other
  const ModelPtr model = LoadModelFromString(Scene("<option><flag sleep='enable'/></option>"));
  const ModelPtr awake = LoadModelFromString(Scene(""));
  const DataPtr asleep = MakeData(model.get()), fresh = MakeData(awake.get());
  for (int i = 0; i < 3000; ++i) mj_step(model.get(), asleep.get());
  ASSERT_LT(asleep->nv_awake, model->nv) << "nothing fell asleep";
  const VectorXd x = GetState(model.get(), asleep.get()), u = VectorXd::Zero(2);
  SetContext(awake.get(), fresh.get(), GetContext(model.get(), asleep.get()));
  VectorXd from_asleep(x.size()), from_fresh(x.size()), none;
  EXPECT_EQ(Step(model.get(), asleep.get(), x, u, 4, from_asleep, none), StepStatus::kOk);
  EXPECT_EQ(Step(awake.get(), fresh.get(), x, u, 4, from_fresh, none), StepStatus::kOk);
  EXPECT_TRUE(BitwiseEqual(from_asleep, from_fresh, StateNames(model.get())));
  EXPECT_NE(model->opt.enableflags & mjENBL_SLEEP, 0) << "the caller's model was changed";
}

TEST_F(StepTest, ThreadsWithTheirOwnDataAgreeBitForBit) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const VectorXd x = support::RandomState(model.get(), 2), u = support::RandomControl(model.get(), 1);
  std::vector<VectorXd> results(4, VectorXd(x.size()));
  std::vector<std::thread> threads;
  for (VectorXd& result : results) {
    threads.emplace_back([&] {
      const DataPtr data = MakeData(model.get());
      VectorXd none;
      EXPECT_EQ(Step(model.get(), data.get(), x, u, 100, result, none), StepStatus::kOk);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const VectorXd& result : results) EXPECT_TRUE(BitwiseEqual(result, results[0]));
}

TEST_F(StepTest, ForwardGivesTheSensorsOfAStep) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  const VectorXd context = GetContext(model.get(), data.get());
  const VectorXd x = support::RandomState(model.get(), 2), u = support::RandomControl(model.get(), 1);
  VectorXd stepped(model->nsensordata), forward(model->nsensordata), none;
  ASSERT_EQ(Step(model.get(), data.get(), x, u, 1, none, stepped), StepStatus::kOk);
  SetContext(model.get(), data.get(), context);
  ASSERT_EQ(Forward(model.get(), data.get(), x, u, forward), StepStatus::kOk);
  EXPECT_TRUE(BitwiseEqual(forward, stepped, SensorNames(model.get())));
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), data.get()), x));
}

TEST_F(StepTest, BadStatesAreAStatusEveryTime) {
  // the engine resets itself silently and restarts its counters: the second failure must be seen like the first
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  const VectorXd x = support::RandomState(model.get(), 2), u = VectorXd::Zero(2);
  VectorXd none;
  for (double value : {std::nan(""), HUGE_VAL, 2e10}) {
    for (int entry : {0, 4, static_cast<int>(model->nq) + 1}) {
      VectorXd bad = x;
      bad[entry] = value;
      EXPECT_EQ(Step(model.get(), data.get(), bad, u, 1, none, none), StepStatus::kBadState) << entry << " " << value;
      EXPECT_EQ(Forward(model.get(), data.get(), bad, u, none), StepStatus::kBadState) << entry << " " << value;
    }
  }
  EXPECT_EQ(Step(model.get(), data.get(), x, u, 1, none, none), StepStatus::kOk);
  EXPECT_FALSE(TakeWarnings().empty());
}

TEST_F(StepTest, BadActivationIsABadState) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  VectorXd x = support::RandomState(model.get(), 2), none;
  x[x.size() - 1] = NAN;
  EXPECT_EQ(Step(model.get(), data.get(), x, VectorXd::Zero(2), 1, none, none), StepStatus::kBadState);
  TakeWarnings();
}

TEST_F(StepTest, DivergenceInsideTheIntervalIsAStatus) {
  // an unstable spring: bad after some substeps, whichever of them notices
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="1" gravity="0 0 0"/><worldbody><body>
      <joint type="slide" stiffness="1e6"/><geom size=".1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  VectorXd x(2), x_next(2), none;
  x << 1, 0;
  for (int substeps : {1, 2, 3, 10}) {
    const StepStatus status = Step(model.get(), data.get(), x, none, substeps, x_next, none);
    const bool small = x_next.cwiseAbs().maxCoeff() <= mjMAXVAL;
    EXPECT_EQ(status, substeps == 1 && small ? StepStatus::kOk : StepStatus::kBadState) << substeps;
  }
  TakeWarnings();
}

TEST_F(StepTest, BadControlsAreAStatus) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  const VectorXd x = support::RandomState(model.get(), 2);
  VectorXd u(2), none;
  for (double value : {std::nan(""), 1e11}) {
    u << 0, value;
    EXPECT_EQ(Step(model.get(), data.get(), x, u, 2, none, none), StepStatus::kBadControl);
    EXPECT_EQ(Forward(model.get(), data.get(), x, u, none), StepStatus::kBadControl);
  }
  EXPECT_FALSE(TakeWarnings().empty());
}

// forty boxes in a row at a height above a floor
ModelPtr Boxes(const std::string& memory, const char* height) {
  std::string boxes;
  for (int i = 0; i < 40; ++i) {
    boxes += "<body pos='" + std::to_string(i * 0.3) + " 0 " + height +
             "'><freejoint/><geom type='box' size='.1 .1 .1'/></body>";
  }
  return LoadModelFromString("<mujoco><size memory='" + memory + "'/><worldbody><geom type='plane' size='9 9 1'/>" +
                             boxes + "</worldbody></mujoco>");
}

TEST_F(StepTest, TooLittleMemoryIsAStatusWhereverItIsNoticed) {
  // the engine drops contacts (77 of 160 at 60K), drops constraints (at 150K), or raises an error (contacts just
  // touching, 60K … 140K), depending on where the memory ends
  VectorXd none;
  for (const char* height : {".09", ".1"}) {
    for (const char* memory : {"45K", "60K", "100K", "120K", "140K"}) {
      const ModelPtr model = Boxes(memory, height);
      const DataPtr data = MakeData(model.get());
      const VectorXd x = GetState(model.get(), data.get());
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(Step(model.get(), data.get(), x, none, 1, none, none), StepStatus::kArenaFull) << memory;
        EXPECT_EQ(Forward(model.get(), data.get(), x, none, none), StepStatus::kArenaFull) << memory;
      }

      // the same data goes on with a state that fits
      VectorXd high = x;
      for (int k = 2; k < model->nq; k += 7) high[k] = 5;
      EXPECT_EQ(Step(model.get(), data.get(), high, none, 1, none, none), StepStatus::kOk) << memory;
      EXPECT_EQ(data->pstack, 0u);
      TakeWarnings();
    }
    const ModelPtr ample = Boxes("10M", height);
    const DataPtr data = MakeData(ample.get());
    EXPECT_EQ(Step(ample.get(), data.get(), GetState(ample.get(), data.get()), none, 1, none, none), StepStatus::kOk);
  }
}

TEST_F(StepTest, WarningCountersOfTheCallerGoOnCounting) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  data->warning[mjWARN_BADCTRL].number = 7;
  VectorXd u(2), none;
  u << NAN, 0;
  Step(model.get(), data.get(), GetState(model.get(), data.get()), u, 1, none, none);
  EXPECT_EQ(data->warning[mjWARN_BADCTRL].number, 8);
  TakeWarnings();
}

TEST_F(StepTest, ModelsWithoutDegreesOfFreedomOrActuatorsStep) {
  VectorXd none;
  const ModelPtr empty = LoadModelFromString("<mujoco><sensor><clock/></sensor></mujoco>");
  const DataPtr data = MakeData(empty.get());
  VectorXd sensors(1);
  EXPECT_EQ(Step(empty.get(), data.get(), none, none, 3, none, sensors), StepStatus::kOk);
  EXPECT_EQ(sensors[0], 0);
  EXPECT_NEAR(data->time, 3 * empty->opt.timestep, 1e-15);
  EXPECT_EQ(Forward(empty.get(), data.get(), none, none, sensors), StepStatus::kOk);
  EXPECT_NEAR(sensors[0], 3 * empty->opt.timestep, 1e-15);

  const ModelPtr free =
      LoadModelFromString("<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>");
  const DataPtr free_data = MakeData(free.get());
  VectorXd x = GetState(free.get(), free_data.get());
  EXPECT_EQ(Step(free.get(), free_data.get(), x, none, 1, x, none), StepStatus::kOk);
  EXPECT_LT(x[2], 0) << "x_next may be x itself";
}

TEST_F(StepTest, WrongSizesAreNamed) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Zero(2), three = VectorXd::Zero(3);
  VectorXd none, wrong(3);
  const auto code = ErrorCode::kDimensionMismatch;
  EXPECT_ERROR(Step(model.get(), data.get(), three, u, 1, none, none), code,
               "x has 3 entries, model 'scene' has nx = ");
  EXPECT_ERROR(Step(model.get(), data.get(), x, three, 1, none, none), code, "u has 3 entries", "nu = 2");
  EXPECT_ERROR(Step(model.get(), data.get(), x, u, 1, wrong, none), code, "x_next has 3 entries");
  EXPECT_ERROR(Step(model.get(), data.get(), x, u, 1, none, wrong), code, "sensors has 3 entries", "11");
  EXPECT_ERROR(Forward(model.get(), data.get(), x, three, none), code, "u has 3 entries");
  EXPECT_ERROR(Step(model.get(), data.get(), x, u, 0, none, none), ErrorCode::kInvalidArgument, "substeps is 0");
}

// the engine would end the process at an integrator that is none, and step without a word by a time that is none
// MuJoCo 4.0.1 writes past the end of the Jacobian of such a contact
TEST_F(StepTest, PassiveContactsThatTheEngineCrashesAtAreRefused) {
  const auto scene = [](const std::string& geom, const std::string& contact, const std::string& dof = "trilinear") {
    return "<mujoco model='scene'><option integrator='discrete'/><worldbody><geom name='floor' " + geom +
           "/><flexcomp name='jelly' pos='0 0 .15' type='grid' count='3 3 3' spacing='.1 .1 .1' dim='3' radius='.01' "
           "mass='1' dof='" +
           dof + "'><edge equality='true'/><contact selfcollide='none' " + contact +
           "/></flexcomp><body pos='1 0 1'><freejoint/><geom size='.1' condim='6'/></body></worldbody></mujoco>";
  };
  const std::string plane = "type='plane' size='1 1 .1'", box = "type='box' size='1 1 .1'";
  const auto refused = [](const std::string& text, const char* contact) {
    EXPECT_ERROR(LoadModelFromString(text), ErrorCode::kUnsupported, "'jelly'", "'floor'", contact, "condim=\"1\"",
                 "'scene'");
  };
  refused(scene(plane, "passive='true' condim='6'"), "condim 6");
  refused(scene(plane + " condim='4'", "passive='true'"), "condim 4");
  refused(scene(box, "passive='true' condim='4'", "full"), "condim 4");
  for (const std::string& text : {scene(plane, "passive='true' condim='6'", "full"), scene(box, "condim='6'"),
                                  scene(plane + " condim='6'", "passive='true' priority='1'"),
                                  scene(plane, "passive='true' condim='6' contype='2' conaffinity='4'")}) {
    const ModelPtr model = LoadModelFromString(text);
    const DataPtr data = MakeData(model.get());
    for (int k = 0; k < 200; k++) mj_step(model.get(), data.get());
    EXPECT_GT(data->time, 0.1);
  }
}

TEST_F(StepTest, OptionsThatDoNotStepAreRefusedByName) {
  const ModelPtr model = LoadModelFromString(Scene(""));
  const DataPtr data = MakeData(model.get());
  const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Zero(2);
  VectorXd none;
  const auto refused = [&](auto* option, auto value, const char* text) {
    const auto good = std::exchange(*option, value);
    EXPECT_ERROR(Step(model.get(), data.get(), x, u, 1, none, none), ErrorCode::kInvalidArgument, text, "'scene'");
    EXPECT_ERROR(Forward(model.get(), data.get(), x, u, none), ErrorCode::kInvalidArgument, text);
    *option = good;
  };
  mjOption& o = model->opt;
  refused(&o.timestep, 0.0, "opt.timestep is 0 s");
  refused(&o.timestep, -0.01, "opt.timestep is -0.01 s, expected a finite number above 0");
  refused(&o.timestep, std::nan(""), "opt.timestep is nan");
  refused(&o.timestep, std::numeric_limits<double>::infinity(), "opt.timestep is inf");
  refused(&o.integrator, 77, "opt.integrator is 77, expected 0 … 4");
  refused(&o.cone, -1, "opt.cone is -1, expected 0 … 1");
  refused(&o.solver, 3, "opt.solver is 3, expected 0 … 2");
  refused(&o.jacobian, 3, "opt.jacobian is 3, expected 0 … 2");
  EXPECT_EQ(Step(model.get(), data.get(), x, u, 1, none, none), StepStatus::kOk);

  // nor are such models loaded
  EXPECT_ERROR(LoadModelFromString("<mujoco><option timestep='-0.01'/></mujoco>"), ErrorCode::kInvalidArgument,
               "XML text: opt.timestep is -0.01 s");
  o.timestep = 0;
  EXPECT_ERROR(DeserializeModel(SerializeModel(model.get())), ErrorCode::kInvalidArgument, "opt.timestep is 0 s");
}

// writing a state into its buffers would leave them
TEST_F(StepTest, DataOfAnotherModelIsRefused) {
  const ModelPtr model = LoadModelFromString(Scene("")), small = LoadModelFromString("<mujoco model='small'/>");
  const DataPtr data = MakeData(model.get()), other = MakeData(small.get());
  const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Zero(2);
  VectorXd none;
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(Step(model.get(), other.get(), x, u, 1, none, none), code, "made for another model");
  EXPECT_ERROR(Forward(model.get(), other.get(), x, u, none), code, "made for another model");
  EXPECT_ERROR(SetState(model.get(), other.get(), x), code, "made for another model");
  EXPECT_ERROR(Step(model.get(), nullptr, x, u, 1, none, none), code, "the data is NULL");
}

}  // namespace
}  // namespace costate
