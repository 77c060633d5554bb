// costate.policy with feedback="law": a trained policy acts in a host that only steps.
#include <costate/policy.h>
#include <costate/record.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/plugin_config.h"
#include "engine/policy_run.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::BitwiseEqual;

// a pole on a cart, which feels its own acceleration
const std::string kCart = R"(<mujoco model="cart">
  <option timestep="0.005" integrator="INTEGRATOR"/>EXTENSION
  <worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0" damping=".1"/><geom size=".1" mass="1"/>
    <body name="pole"><joint name="hinge" axis="0 1 0" damping=".01"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 .5" mass=".2"/>
      <site name="imu" pos="0 0 .4"/></body></body></worldbody>
  <actuator><motor joint="x" ctrlrange="-3 3"/></actuator>
  <sensor><accelerometer name="feels" site="imu"/></sensor>
</mujoco>)";

constexpr int kKnots = 40, kSubsteps = 3;

class PolicyLaw : public support::EngineTest {
 protected:
  // a run of a law without meaning, whose reference is a wave
  void Make(const std::string& integrator, bool sees_sensors) {
    integrator_ = integrator;
    run_ = Record();
    run_.command = "train";
    run_.model = LoadModelFromString(Scene());
    run_.substeps = kSubsteps;
    const mjModel* m = run_.model.get();
    const DataPtr data = MakeData(m);
    run_.context = GetContext(m, data.get());
    PolicyOptions options{.x_ref = VectorXd::Zero(4), .hidden = {3}, .knot_time = kSubsteps * m->opt.timestep};
    for (int i = 0; i < 4; ++i) options.observations.push_back({.index = i});
    for (int i = 0; i < 3 && sees_sensors; ++i)
      options.observations.push_back({.kind = Observation::Kind::kSensor, .index = i, .scale = 0.1});
    options.observations.push_back({.kind = Observation::Kind::kClock, .period = 0.4});
    const MatrixXd U = (VectorXd::LinSpaced(kKnots, 0, 9).array().sin() * 1.5).matrix().transpose();
    law_ = std::make_unique<NetworkPolicy>(m, options, U, VectorXd::Constant(1, -3), VectorXd::Constant(1, 3));
    law_->Set((VectorXd::LinSpaced(law_->weights(), 1, 40).array().sin()).matrix());
    run_.trajectory = Motion(VectorXd::Unit(4, 1) * 0.2);
    run_.tables[kLawFile] = law_->ToJson();
    WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});
  }

  std::string Scene(const std::string& config = "") const {
    std::string text = scene_;
    text.replace(text.find("INTEGRATOR"), 10, integrator_);
    const std::string extension = config.empty() ? ""
                                                 : "<extension><plugin plugin='costate.policy'><instance name='play'>" +
                                                       Config("run", folder_.File("run")) + config +
                                                       "</instance></plugin></extension>";
    return text.replace(text.find("EXTENSION"), 9, extension);
  }

  // of the closed loop
  Trajectory Motion(const VectorXd& x0) const {
    Simulator simulator(run_.model.get(), run_.context, kSubsteps, 1);
    Trajectory motion;
    EXPECT_TRUE(simulator.RolloutFeedback(x0, kKnots, *law_, &motion).ok());
    return motion;
  }

  // states at knots while a host does nothing but step
  // @param look  and looks at each before
  MatrixXd Play(const mjModel* m, mjData* d, bool look) const {
    MatrixXd X(4, kKnots + 1);
    for (int t = 0; t <= kKnots; ++t) {
      X.col(t) = GetState(m, d);
      for (int k = 0; k < kSubsteps && t < kKnots; ++k) {
        if (look) mj_forward(m, d);
        mj_step(m, d);
      }
    }
    return X;
  }

  support::TemporaryFolder folder_;
  std::string scene_ = kCart, integrator_ = "Euler";
  Record run_;
  std::unique_ptr<NetworkPolicy> law_;
};

TEST_F(PolicyLaw, ActsAsInTheClosedLoopBitForBit) {
  for (const char* integrator : {"Euler", "RK4", "implicitfast"}) {
    for (const bool sees_sensors : {false, true}) {
      SCOPED_TRACE(std::string(integrator) + (sees_sensors ? ", sees sensors" : ""));
      Make(integrator, sees_sensors);
      EXPECT_EQ(law_->NeedsSensors(), sees_sensors);
      const ModelPtr m = LoadModelFromString(Scene(Config("feedback", "law") + Config("start", "on")));
      const DataPtr d = MakeData(m.get());
      for (const bool look : {false, true}) {
        EXPECT_TRUE(BitwiseEqual(Play(m.get(), d.get(), look), run_.trajectory.X)) << look;
        mj_resetData(m.get(), d.get());
      }

      // it answers what was not in the run, and a copy goes on alike
      const VectorXd other = (VectorXd(4) << 0.1, -0.3, 0.2, 0.4).finished();
      const MatrixXd expected = Motion(other).X;
      EXPECT_GT((expected - run_.trajectory.X).rightCols(1).norm(), 1e-2);
      SetState(m.get(), d.get(), other);
      const int half = kKnots / 2;
      for (int k = 0; k < half * kSubsteps + 1; ++k) mj_step(m.get(), d.get());  // within an interval
      const DataPtr copy(mj_copyData(nullptr, m.get(), d.get()));
      for (mjData* data : {d.get(), copy.get()}) {
        for (int k = 1; k < (kKnots - half) * kSubsteps; ++k) mj_step(m.get(), data);
        EXPECT_TRUE(BitwiseEqual(GetState(m.get(), data), expected.rightCols(1)));
      }
    }
  }
}

TEST_F(PolicyLaw, FindsItsSensorsAmongOthers) {
  Make("Euler", true);
  std::string scene = Scene(Config("feedback", "law") + Config("start", "on"));
  scene.replace(scene.find("<sensor>"), 8, "<sensor><jointpos joint='x'/>");
  const ModelPtr m = LoadModelFromString(scene);
  const DataPtr d = MakeData(m.get());
  EXPECT_TRUE(BitwiseEqual(Play(m.get(), d.get(), false), run_.trajectory.X));
}

TEST_F(PolicyLaw, OfARunWrittenAnewIsPlayedWhereItFits) {
  Make("Euler", true);
  const ModelPtr m = LoadModelFromString(Scene(Config("feedback", "law") + Config("start", "on")));
  const MatrixXd first = run_.trajectory.X;

  // a law that sees another sensor, in the same folder: data made then are of the run that fits
  scene_.replace(scene_.find("\"feels\""), 7, "'felt'");
  Make("Euler", true);
  const DataPtr d = MakeData(m.get());
  EXPECT_TRUE(BitwiseEqual(Play(m.get(), d.get(), false), first));
}

TEST_F(PolicyLaw, IsNoneInBinaryModelsWithoutRoomForTheControlsBefore) {
  Make("Euler", true);
  const ModelPtr law = LoadModelFromString(Scene(Config("feedback", "law")));
  const ModelPtr off = LoadModelFromString(Scene(Config("feedback", "off") + Config("start", "on")));
  law->plugin_statenum[0]--;
  off->plugin_statenum[0]--;
  EXPECT_THROW(MakeData(law.get()), Error);
  EXPECT_NE(TakeWarnings().at(0).find("4 entries of plugin state, expected 5"), std::string::npos);
  const DataPtr d = MakeData(off.get());
  EXPECT_TRUE(Play(off.get(), d.get(), false).allFinite());
}

TEST_F(PolicyLaw, SaysWhatIsMissing) {
  Make("Euler", true);
  const auto expect = [&](const std::string& error, const std::string& text) {
    EXPECT_NE(error.find(text), std::string::npos) << text << " is not in: " << error;
  };
  expect(LoadErrorOf(Scene(Config("feedback", "on"))),
         "has no gains (policy.csv): set it to off or, for the law that was trained, to law");
  expect(LoadErrorOf(Scene(Config("feedback", "law") + Config("end", "stop"))), "attribute end");

  std::string scene = Scene(Config("feedback", "law"));
  const auto at = scene.find("<accelerometer");
  expect(LoadErrorOf(scene.substr(0, at) + "<velocimeter" + scene.substr(at + 14)),
         "the law sees sensor[feels].0, which is type 1 of");
  scene.replace(scene.find("\"feels\""), 7, "'felt'");
  expect(LoadErrorOf(scene),
         "the law sees sensor[feels].0, entry 0 of sensordata in the run's model, which is not among the 3 here");

  std::ofstream(folder_.File("run") + "/policy.json") << "{}";
  expect(LoadErrorOf(Scene(Config("feedback", "law"))), "policy.json");
  run_.tables.clear();
  WriteRecord(folder_.File("run"), run_, {.force = true, .plots = false});
  expect(LoadErrorOf(Scene(Config("feedback", "law"))), "has no policy.json, which costate train writes");
}

}  // namespace
}  // namespace costate
