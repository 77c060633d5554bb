// costate.linearization: what the sensor shows is the derivative, and showing it disturbs nothing.
#include <costate/certificate.h>
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "engine/plugin_config.h"
#include "engine/private_model.h"
#include "engine/switch_distance.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::MatricesNearRelative;

// a leg on the ground with a limit, an activation, a free body above the ground
constexpr char kLeg[] = R"(<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <extension><plugin plugin="costate.linearization">INSTANCES</plugin></extension>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .5"><joint name="rail" type="slide" axis="0 0 1" damping="1"/><geom size=".05"/>
      <body><joint name="hip" axis="0 1 0" range="-1 .4" limited="true" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 0 0 -.25"/>
        <body pos="0 0 -.25"><joint name="knee" axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 0 0 -.22"/></body></body></body>
    <body pos="1 0 .3"><freejoint/><geom type="box" size=".1 .08 .05"/></body>
  </worldbody>
  <actuator><position joint="hip" kp="20"/><general joint="knee" dyntype="filter" dynprm=".05" gainprm="4"/></actuator>
  <sensor>SENSORS</sensor>
</mujoco>)";

std::string Leg(const std::string& sensors = "", const std::string& instances = "") {
  std::string text = kLeg;
  text.replace(text.find("INSTANCES"), 9, instances);
  return text.replace(text.find("SENSORS"), 7, sensors);
}

std::string Sensor(const std::string& output, const std::string& more = "") {
  return "<plugin name='s' plugin='costate.linearization'><config key='output' value='" + output + "'/>" + more +
         "</plugin>";
}

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class LinearizationPluginTest : public support::EngineTest {
 protected:
  // after so many steps, sensors as mj_forward leaves them
  DataPtr After(const mjModel* m, int steps) {
    DataPtr d = MakeData(m);
    d->ctrl[0] = 0.3;
    d->ctrl[1] = -0.5;
    for (int i = 0; i < steps; ++i) mj_step(m, d.get());
    mj_forward(m, d.get());
    return d;
  }
  VectorXd Values(const mjModel* m, const mjData* d) {
    const int s = mj_name2id(m, mjOBJ_SENSOR, "s");
    return Eigen::Map<const VectorXd>(d->sensordata + m->sensor_adr[s], m->sensor_dim[s]);
  }
  const ModelPtr plain_ = LoadModelFromString(Leg());
};

// In flight and in contact, of the level that is asked for; blocks are cut out of it.
TEST_F(LinearizationPluginTest, ShowsTheDerivative) {
  for (const char* level : {"best", "analytic", "residual", "step"}) {
    const ModelPtr m = LoadModelFromString(Leg(Sensor("A B level A.vq B.a A.av", Config("level", level))));
    for (const int steps : {5, 200}) {
      const DataPtr d = After(m.get(), steps);
      LinearizeOptions options;
      options.level = std::string(level) == "residual" ? Level::kResidual
                      : std::string(level) == "step"   ? Level::kStep
                                                       : Level::kAnalytic;
      options.sensors = false;
      DataPtr at = MakeData(plain_.get());
      SetState(plain_.get(), at.get(), GetState(m.get(), d.get()));
      mju_copy(at->ctrl, d->ctrl, 2);
      mju_copy(at->qacc_warmstart, d->qacc_warmstart, static_cast<int>(m->nv));
      at->time = d->time;
      const StepDerivative expected = Linearize(plain_.get(), at.get(), options);
      const VectorXd values = Values(m.get(), d.get());
      const int n = static_cast<int>(2 * m->nv + m->na), nv = static_cast<int>(m->nv);
      const double* next = values.data();
      const auto take = [&](int rows, int cols) {
        const RowMajor block = Eigen::Map<const RowMajor>(next, rows, cols);
        next += rows * cols;
        return MatrixXd(block);
      };
      EXPECT_TRUE(BitwiseEqual(take(n, n), expected.A)) << level << steps;
      EXPECT_TRUE(BitwiseEqual(take(n, 2), expected.B));
      EXPECT_EQ(take(1, 1)(0, 0), static_cast<double>(options.level));
      EXPECT_TRUE(BitwiseEqual(take(nv, nv), MatrixXd(expected.A.block(nv, 0, nv, nv))));
      EXPECT_TRUE(BitwiseEqual(take(1, 2), MatrixXd(expected.B.bottomRows(1))));
      EXPECT_TRUE(BitwiseEqual(take(1, nv), MatrixXd(expected.A.block(2 * nv, nv, 1, nv))));
      EXPECT_EQ(next, values.data() + values.size());
    }
  }
}

TEST_F(LinearizationPluginTest, SumsItUp) {
  const ModelPtr m =
      LoadModelFromString(Leg(Sensor("spectral_radius largest_singular_value condition switch_distance")));
  for (const int steps : {5, 60, 200}) {
    const DataPtr d = After(m.get(), steps);
    const VectorXd values = Values(m.get(), d.get());
    const StepDerivative step = Linearize(m.get(), d.get(), {.sensors = false});
    EXPECT_EQ(step.coverage.Worst(), Level::kAnalytic) << "the sensor itself costs no level";
    EXPECT_NEAR(values[0], step.A.eigenvalues().cwiseAbs().maxCoeff(), 1e-9);
    EXPECT_NEAR(values[1], Eigen::JacobiSVD<MatrixXd>(step.A).singularValues()[0], 1e-9 * values[1]);

    // of H, whose inverse is ∂qacc/∂force
    Linearizer linearizer(m.get(), {.sensors = false});
    linearizer.SetContext(GetContext(m.get(), d.get()));
    AccelerationDerivative acceleration;
    linearizer.LinearizeAcceleration(GetState(m.get(), d.get()), Eigen::Map<VectorXd>(d->ctrl, 2), &acceleration);
    const VectorXd sigma = Eigen::JacobiSVD<MatrixXd>(acceleration.force).singularValues();
    EXPECT_NEAR(values[2], sigma[0] / sigma[sigma.size() - 1], 1e-7 * values[2]);

    // as the certificate has it
    double nearest = 0.02;
    for (const Switch& s : Certify(m.get(), d.get()).switches) {
      if (s.unit == "m" || s.unit == "rad") nearest = std::min(nearest, s.distance);
    }
    EXPECT_NEAR(values[3], nearest, 1e-9);
  }
}

// contacts begin at the margin of their pair, of both geoms or of the override, however large
TEST_F(LinearizationPluginTest, DistancesAreToTheMarginThatIsInForce) {
  const auto distance = [](const char* option, const char* geom, const char* pair, double gap) {
    const ModelPtr m = LoadModelFromString(std::string("<mujoco>") + option + R"(<worldbody>
      <geom name="floor" type="plane" size="1 1 1" margin="0.001"/>
      <body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/><geom name="ball" size="0.1" )" +
                                           geom + "/></body></worldbody><contact>" + pair + "</contact></mujoco>");
    const DataPtr d = MakeData(m.get());
    d->qpos[0] = gap;
    mj_fwdPosition(m.get(), d.get());
    return SwitchDistance(m.get(), d.get(), 0.02);
  };
  const char* pair = "<pair geom1='floor' geom2='ball' margin='0.01'/>";
  EXPECT_NEAR(distance("", "", "", 0.015), 0.014, 1e-12);
  EXPECT_NEAR(distance("", "", pair, 0.015), 0.005, 1e-12);
  EXPECT_NEAR(distance("", "", pair, 0.007), 0.003, 1e-12);
  EXPECT_NEAR(distance("", "margin='0.05'", "", 0.06), 0.009, 1e-12);
  EXPECT_NEAR(distance("<option o_margin='0.012'><flag override='enable'/></option>", "", pair, 0.015), 0.003, 1e-12);
  EXPECT_EQ(distance("", "", "", 0.5), 0.02);
}

// What the host computes is the host's, bit for bit, whatever the sensor does beside it.
TEST_F(LinearizationPluginTest, LeavesTheMotionAlone) {
  const ModelPtr m =
      LoadModelFromString(Leg(Sensor("spectral_radius condition switch_distance A", Config("period", "0.01"))));
  const DataPtr d = MakeData(m.get()), bare = MakeData(plain_.get());
  for (int i = 0; i < 300; ++i) {
    mj_step(m.get(), d.get());
    mj_step(plain_.get(), bare.get());
    ASSERT_TRUE(BitwiseEqual(GetState(m.get(), d.get()), GetState(plain_.get(), bare.get())));
  }
  EXPECT_EQ(std::memcmp(d->qacc, bare->qacc, sizeof(double) * static_cast<std::size_t>(m->nv)), 0);
}

// Held between looks; a copy and a restored state hold the same, a reset forgets.
TEST_F(LinearizationPluginTest, HoldsValuesOverThePeriod) {
  const ModelPtr m = LoadModelFromString(Leg(Sensor("A.vq level", Config("period", "0.01"))));
  const ModelPtr always = LoadModelFromString(Leg(Sensor("A.vq level")));
  EXPECT_EQ(always->npluginstate, 0);
  const DataPtr d = MakeData(m.get()), each = MakeData(always.get());
  VectorXd held;
  int changes = 0;
  for (int i = 0; i < 60; ++i) {
    mj_step(m.get(), d.get());
    mj_step(always.get(), each.get());
    const VectorXd now = Values(m.get(), d.get());
    EXPECT_EQ(static_cast<bool>(BitwiseEqual(now, Values(always.get(), each.get()))), i % 5 == 0) << i;
    changes += i > 0 && !BitwiseEqual(now, held);
    held = now;
  }
  EXPECT_EQ(changes, 11);

  const DataPtr copy(mj_copyData(nullptr, m.get(), d.get())), restored = MakeData(m.get());
  VectorXd state(mj_stateSize(m.get(), mjSTATE_INTEGRATION));
  mj_getState(m.get(), d.get(), state.data(), mjSTATE_INTEGRATION);
  mj_setState(m.get(), restored.get(), state.data(), mjSTATE_INTEGRATION);
  for (int i = 0; i < 13; ++i) {
    for (mjData* data : {d.get(), copy.get(), restored.get()}) mj_step(m.get(), data);
    EXPECT_TRUE(BitwiseEqual(Values(m.get(), copy.get()), Values(m.get(), d.get())));
    EXPECT_TRUE(BitwiseEqual(Values(m.get(), restored.get()), Values(m.get(), d.get())));
  }
  mj_resetData(m.get(), d.get());
  mj_resetData(always.get(), each.get());
  mj_step(m.get(), d.get());
  mj_step(always.get(), each.get());
  EXPECT_TRUE(BitwiseEqual(Values(m.get(), d.get()), Values(always.get(), each.get())));

  // state of a plugin that only senses stands in nobody's way
  EXPECT_GT(m->npluginstate, 0);
  EXPECT_EQ(Linearize(m.get(), d.get(), {.sensors = false}).coverage.Worst(), Level::kAnalytic);
}

// A host that changes values or options while it runs.
TEST_F(LinearizationPluginTest, SeesTheModelAsItIs) {
  const ModelPtr m = LoadModelFromString(Leg(Sensor("A")));
  const auto expect_current = [&] {
    const DataPtr d = After(m.get(), 30);
    const StepDerivative step = Linearize(m.get(), d.get(), {.sensors = false});
    const VectorXd values = Values(m.get(), d.get());
    EXPECT_TRUE(
        MatricesNearRelative(Eigen::Map<const RowMajor>(values.data(), step.A.rows(), step.A.cols()), step.A, 1e-12));
    return MatrixXd(step.A);
  };
  const DataPtr living = After(m.get(), 3);
  const MatrixXd first = expect_current();
  m->body_mass[1] *= 3;
  m->opt.gravity[2] = -3;
  expect_current();
  m->opt.integrator = mjINT_RK4;
  m->opt.timestep = 0.001;
  EXPECT_FALSE(MatricesNearRelative(expect_current(), first, 1e-3));

  // in data that was made before the change, too
  mj_forward(m.get(), living.get());
  const StepDerivative step = Linearize(m.get(), living.get(), {.sensors = false});
  const VectorXd values = Values(m.get(), living.get());
  EXPECT_TRUE(
      MatricesNearRelative(Eigen::Map<const RowMajor>(values.data(), step.A.rows(), step.A.cols()), step.A, 1e-12));
}

// Other plugins live on in the private model, with their elements found by name.
TEST_F(LinearizationPluginTest, LeavesOutNobodyElse) {
  std::string text = Leg(Sensor("A level") + "<plugin name='t' plugin='costate.linearization'/>");
  text.replace(
      text.find("<extension>"), 11,
      "<extension><plugin plugin='costate.smooth_contact'><instance name='touch'><config key='geom1' value='ground'/>"
      "<config key='geom2' value='box'/></instance></plugin>");
  text.replace(text.find("<geom type=\"plane\""), 18, "<geom name='ground' contype='2' conaffinity='2' type=\"plane\"");
  text.replace(text.find("<geom type=\"box\""), 16, "<geom name='box' type=\"box\" pos='0 0 -.25'");
  const ModelPtr m = LoadModelFromString(text);
  ASSERT_EQ(m->nplugin, 3);
  const int slot = m->plugin[m->sensor_plugin[0]];
  const PrivateModel view(m.get(), slot);
  ASSERT_EQ(view.get()->nplugin, 1);
  EXPECT_NE(view.get()->plugin[0], slot);
  for (const int type : {mjOBJ_BODY, mjOBJ_JOINT, mjOBJ_GEOM, mjOBJ_ACTUATOR, mjOBJ_SENSOR, mjOBJ_KEY}) {
    for (int i = 0; i < 8; ++i) {
      const char* name = mj_id2name(m.get(), type, i);
      if (name) {
        EXPECT_EQ(mj_name2id(view.get(), type, name), i) << type << name;
      }
    }
  }
  EXPECT_STREQ(mj_id2name(view.get(), mjOBJ_PLUGIN, 0), "touch");
  EXPECT_STREQ(mj_getPluginConfig(view.get(), 0, "geom2"), "box");

  // it pushes there as here
  const DataPtr d = After(m.get(), 5);
  ASSERT_GT(std::abs(d->qfrc_passive[5]), 1);
  const StepDerivative step = Linearize(m.get(), d.get(), {.sensors = false});
  const VectorXd values = Values(m.get(), d.get());
  EXPECT_TRUE(
      MatricesNearRelative(Eigen::Map<const RowMajor>(values.data(), step.A.rows(), step.A.cols()), step.A, 1e-12));
  EXPECT_EQ(values[values.size() - 1], 1);
}

// One instance behind two sensors and another instance beside it; every thread has data of its own.
TEST_F(LinearizationPluginTest, ServesSeveralSensorsAndThreads) {
  const std::string sensors = "<plugin name='a' instance='one'/><plugin name='b' instance='one'/>" + Sensor("level");
  const ModelPtr m =
      LoadModelFromString(Leg(sensors, "<instance name='one'>" + Config("output", "A.vv B.v") + "</instance>"));
  const int size = m->sensor_dim[0];
  ASSERT_EQ(size, static_cast<int>(m->nv * m->nv + 2 * m->nv));
  std::vector<VectorXd> results(4);
  std::vector<std::thread> threads;
  for (VectorXd& result : results) {
    threads.emplace_back([&] {
      const DataPtr d(mj_makeData(m.get()));
      for (int i = 0; i < 150; ++i) mj_step(m.get(), d.get());
      result = Eigen::Map<VectorXd>(d->sensordata, m->nsensordata);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const VectorXd& result : results) {
    EXPECT_TRUE(BitwiseEqual(result, results[0]));
    EXPECT_TRUE(BitwiseEqual(VectorXd(result.head(size)), VectorXd(result.segment(size, size))));
    EXPECT_EQ(result[2 * size], 1);
    EXPECT_FALSE(result.head(size).isZero(0));
  }
}

TEST_F(LinearizationPluginTest, AStepThatFailsShowsLevelZero) {
  const ModelPtr m = LoadModelFromString(Leg(Sensor("level spectral_radius")));
  const DataPtr d = MakeData(m.get());
  m->opt.disableflags |= mjDSBL_AUTORESET;
  d->qvel[0] = 1e11;
  mj_forward(m.get(), d.get());
  EXPECT_TRUE(Values(m.get(), d.get()).isZero(0));
  d->qvel[0] = 0;
  mj_forward(m.get(), d.get());
  EXPECT_EQ(Values(m.get(), d.get())[0], 1);

  // what failed has left nothing behind
  const ModelPtr other = LoadModelFromString(Leg(Sensor("level spectral_radius")));
  const DataPtr fresh = MakeData(other.get());
  mj_forward(other.get(), fresh.get());
  EXPECT_TRUE(BitwiseEqual(Values(m.get(), d.get()), Values(other.get(), fresh.get())));
}

// the host's process goes on, with data made then, too
TEST_F(LinearizationPluginTest, OptionsThatDoNotStepShowLevelZero) {
  for (const char* output : {"level spectral_radius", "condition", "switch_distance"}) {
    const ModelPtr m = LoadModelFromString(Leg(Sensor(output)));
    const DataPtr d = MakeData(m.get());
    mj_forward(m.get(), d.get());
    const VectorXd good = Values(m.get(), d.get());
    EXPECT_FALSE(good.isZero(0)) << output;
    m->opt.timestep = -m->opt.timestep;
    mj_forward(m.get(), d.get());
    EXPECT_TRUE(Values(m.get(), d.get()).isZero(0)) << output;
    const DataPtr later = MakeData(m.get());
    mj_forward(m.get(), later.get());
    EXPECT_TRUE(Values(m.get(), later.get()).isZero(0)) << output;
    m->opt.timestep = -m->opt.timestep;
    for (mjData* data : {d.get(), later.get()}) {
      mj_forward(m.get(), data);
      EXPECT_TRUE(support::MatricesNearRelative(Values(m.get(), data), good, 1e-9)) << output;
    }
  }
}

// nothing can move: A and H are empty, and nothing is asked of their eigenvalues
TEST_F(LinearizationPluginTest, SumsUpAModelWithoutDegreesOfFreedom) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><extension><plugin plugin='costate.linearization'/></extension><worldbody><geom size='1'/></worldbody>"
      "<sensor>" +
      Sensor("spectral_radius largest_singular_value condition switch_distance") + "</sensor></mujoco>");
  const DataPtr d = MakeData(m.get());
  mj_step(m.get(), d.get());
  mj_forward(m.get(), d.get());
  EXPECT_EQ(Values(m.get(), d.get()).head(3), Eigen::Vector3d(0, 0, 1));
}

TEST_F(LinearizationPluginTest, RefusesByName) {
  const auto expect = [&](const std::string& xml, const std::string& text) {
    const std::string error = LoadErrorOf(xml);
    EXPECT_NE(error.find(text), std::string::npos) << text << " is not in: " << error;
  };
  expect(Leg(Sensor("A.qx")), "attribute output: there is no 'A.qx', expected level, spectral_radius");
  expect(Leg(Sensor("radius")), "attribute output: there is no 'radius'");
  expect(Leg(Sensor("A", Config("period", "-1"))), "attribute period: it is -1, expected at least 0");
  expect(Leg(Sensor("A", Config("reach", "0"))), "attribute reach: it is 0, expected a number above 0");
  expect(Leg(Sensor("A", Config("level", "1"))),
         "attribute level: it is '1', expected best, analytic, residual, step, auto");
  expect(Leg(Sensor("A", Config("every", "2"))), "every");

  // a level that this model does not have
  std::string discrete = Leg(Sensor("A", Config("level", "analytic")));
  discrete.replace(discrete.find("implicitfast\""), 13, "discrete\"");
  discrete.replace(discrete.find("damping=\""), 9, "damping=\"1 1 ");
  expect(discrete, "attribute level: ");
  expect(discrete, "damping that grows with velocity");
}

}  // namespace
}  // namespace costate
