#include "derivative/delayed.h"

#include <costate/certificate.h>
#include <costate/derivative_check.h>
#include <costate/parameter.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "support/engine_test.h"
#include "support/expect_products.h"
#include "support/expect_reference.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using DelayedTest = support::EngineTest;
using support::ExpectReference;

std::string Late(const char* options, const char* more = "") {
  return std::string("<mujoco><option timestep='0.002' ") + options + R"(/><worldbody>
      <geom type="plane" size="1 1 1"/>
      <body pos="0 0 0.3"><joint name="a" axis="0 1 0" damping="0.1"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 -0.28"/></body></body>
    </worldbody>
    <actuator>
      <motor name="now" joint="a" gear="2"/>
      <motor name="hold" joint="b" gear="3" delay="0.005" nsample="5" interp="zoh"/>
      <general name="line" joint="a" dyntype="filter" dynprm="0.02" gainprm="4" biastype="affine" biasprm="0 -2 -0.1" delay="0.005" nsample="6"
        interp="linear"/>)" +
         more + R"(
    </actuator>
    <sensor><jointpos joint="a"/><jointvel joint="b" delay="0.004" nsample="4"/><actuatorfrc actuator="hold"/></sensor></mujoco>)";
}

DataPtr Moved(const mjModel* m) {
  DataPtr data = MakeData(m);
  for (int k = 0; k < 30; k++) {
    for (int i = 0; i < m->nu; i++) data->ctrl[i] = 0.3 * std::sin(0.4 * k + i);
    mj_step(m, data.get());
  }
  return data;
}

TEST_F(DelayedTest, BothLevelsAgreeWithTheReference) {
  // a gain that depends on velocity: the matrix of implicit integrators has it with what comes from the history,
  // clamped
  const char* gain = R"(<general joint="b" gaintype="affine" gainprm="1 0 0.3" delay="0.004" nsample="4"/>
    <damper joint="a" kv="0.4" ctrlrange="0 0.1" delay="0.006" nsample="5" interp="linear"/>)";
  for (const char* options : {"", "integrator='implicitfast'", "integrator='implicit' noslip_iterations='2'"}) {
    const ModelPtr model = LoadModelFromString(Late(options, gain));
    const mjModel* m = model.get();
    const DataPtr data = Moved(m);
    ASSERT_GT(data->ncon, 0);
    const ReferenceDerivative reference = Reference(m, data.get());
    const DataPtr before = MakeData(m);
    for (Level level : {Level::kAnalytic, Level::kResidual}) {
      if (level == Level::kResidual && m->opt.noslip_iterations) continue;
      SCOPED_TRACE(std::string(options) + ToString(level));
      const StepDerivative value = Linearize(m, data.get(), {.level = level});
      EXPECT_EQ(value.coverage.Worst(), level);
      for (const BlockComparison& block : Compare(m, value, reference, {.tolerance = 1e-7}).blocks) {
        EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << " / " << block.worst.col_name << " "
                                  << block.worst.value << " " << block.worst.reference;
      }
      EXPECT_GT(value.B.col(0).norm(), 0);
      EXPECT_EQ(value.B.rightCols(4).norm(), 0);  // they act in a later step
      EXPECT_EQ(value.C.row(1).norm(), 0);
    }

    support::ExpectProducts(m, data.get(), {.sensors = false}, 1e-11);
  }
}

// each of its inputs comes from the history
TEST_F(DelayedTest, ActuatorsOfSeveralInputsAreLateInAll) {
  const ModelPtr model = LoadModelFromString(
      Late("", R"(<pid joint="b" kp="3" kv="0.2" input="pos vel ff" delay="0.005" nsample="6" interp="linear"/>
        <dcmotor joint="a" motorconst="0.05" resistance="2" inductance="0 .01" input="pos vel" controller="5 1 0.3" delay="0.004"
          nsample="4" interp="zoh"/>)"));
  const mjModel* m = model.get();
  ASSERT_EQ(m->nu, 8);
  const DataPtr data = Moved(m);
  const StepDerivative value = Linearize(m, data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  ExpectReference(m, data.get(), value);
  EXPECT_EQ(value.B.rightCols(7).norm(), 0);
}

// a sensor within its interval has the value of a step before, and the slopes are those of the step in which it is
// taken
TEST_F(DelayedTest, SensorsWithinTheirIntervalAreConstant) {
  std::string text = Late("");
  text.insert(text.find("</sensor>"),
              R"(<framelinacc objtype="body" objname="fore" interval="0.005" nsample="2"/>
                 <jointvel joint="a" interval="0.006 -0.002" nsample="3"/><subtreecom body="fore" interval="0.005" delay="0.004" nsample="4"/>)");
  text.insert(text.find("<body pos=\"0.3 0 0\"") + 6, "name='fore' ");
  const ModelPtr model = LoadModelFromString(text);
  const mjModel* m = model.get();
  const DataPtr data = Moved(m);
  int taken[2] = {0, 0};
  for (int k = 0; k < 6; k++) {
    SCOPED_TRACE(k);
    const StepDerivative value = Linearize(m, data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
    ExpectReference(m, data.get(), value);
    taken[0] += value.C.middleRows(3, 3).norm() > 0;
    taken[1] += value.C.row(6).norm() > 0;
    EXPECT_EQ(value.C.bottomRows(3).norm(), 0);

    Linearizer linearizer(m);
    linearizer.SetContext(GetContext(m, data.get()));
    const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
    const VectorXd sigma = support::Random(5).Vector(static_cast<int>(m->nsensordata));
    StepVjp vjp;
    linearizer.Vjp(x, u, VectorXd::Zero(value.A.rows()), sigma, &vjp);
    EXPECT_TRUE(support::MatricesNearRelative(vjp.x, value.C.transpose() * sigma, 1e-11));
    mj_step(m, data.get());
  }
  for (int count : taken) {
    EXPECT_GT(count, 0);
    EXPECT_LT(count, 6);
  }
}

// the engine gives the controls of the past to its own actuators: a callback or a plugin finds those of the present
TEST_F(DelayedTest, WhatReadsControlsByItselfReadsThoseOfThePresent) {
  const std::string user = "<general joint='b' dyntype='user' biastype='user' delay='0.005' nsample='5'/>";
  std::string text = Late("", user.c_str());
  text.insert(text.find("</sensor>"), "<user dim='1' needstage='vel'/>");
  const ModelPtr model = LoadModelFromString(text);
  const mjModel* m = model.get();
  const auto each = [&](const char* what, auto callback, auto* slot) {
    SCOPED_TRACE(what);
    const DataPtr data = Moved(m);
    *slot = callback;
    const StepDerivative value = Linearize(m, data.get());
    ExpectReference(m, data.get(), value);
    EXPECT_GT(value.B.rightCols(3).norm() + value.D.rightCols(3).norm(), 1e-4);
    support::ExpectProducts(m, data.get(), {}, 1e-11);
    std::string missing;
    EXPECT_FALSE(MakeAnalyticBackend(m, {}, &missing));
    EXPECT_NE(missing.find("a callback may read controls"), std::string::npos) << missing;
    *slot = nullptr;
  };
  each(
      "passive", +[](const mjModel*, mjData* d) { d->qfrc_passive[0] += 1.5 * d->ctrl[1]; }, &mjcb_passive);
  each(
      "bias", +[](const mjModel*, const mjData* d, int) { return 2 * d->ctrl[3]; }, &mjcb_act_bias);
  each(
      "dynamics", +[](const mjModel*, const mjData* d, int) { return 3 * d->ctrl[3]; }, &mjcb_act_dyn);
  each(
      "sensor",
      +[](const mjModel* m, mjData* d, int stage) {
        if (stage == mjSTAGE_VEL) d->sensordata[m->nsensordata - 1] = 2 * d->ctrl[2] * d->ctrl[2];
      },
      &mjcb_sensor);
}

// at what the actuators get, as pull-backs have them
TEST_F(DelayedTest, ParametersActAtWhatTheActuatorsGet) {
  std::string text = Late("");
  text.insert(text.find("</sensor>"), "<framelinacc objtype='body' objname='fore'/>");
  text.insert(text.find("<body pos=\"0.3 0 0\"") + 6, "name='fore' ");
  const ModelPtr model = LoadModelFromString(text);
  ParameterSet parameters(
      model.get(), {"body:fore/mass", "joint:a/damping", "actuator:hold/gainprm[0]", "actuator:line/biasprm[1]"});
  const mjModel* m = parameters.model();
  const DataPtr data = Moved(m);
  const VectorXd x = GetState(m, data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, m->nu);
  StepDerivative matrices, steps;
  for (const Level level : {Level::kBest, Level::kStep}) {
    Linearizer linearizer(m, {.level = level});
    linearizer.SetParameters(&parameters);
    linearizer.SetContext(GetContext(m, data.get()));
    linearizer.Linearize(x, u, level == Level::kBest ? &matrices : &steps);
  }
  EXPECT_EQ(matrices.coverage.Worst(), Level::kResidual);
  for (int k = 0; k < matrices.P.cols(); k++) EXPECT_GT(matrices.P.col(k).norm(), 0) << k;
  EXPECT_TRUE(support::MatricesNearRelative(matrices.P, steps.P, 1e-6));
  EXPECT_TRUE(support::MatricesNearRelative(matrices.Ps, steps.Ps, 1e-6));
  EXPECT_EQ(matrices.Ps.row(1).norm(), 0);  // a late sensor

  Linearizer linearizer(m);
  linearizer.SetParameters(&parameters);
  linearizer.SetContext(GetContext(m, data.get()));
  support::Random random(5);
  const VectorXd lambda = random.Vector(static_cast<int>(matrices.A.rows())),
                 sigma = random.Vector(static_cast<int>(m->nsensordata));
  StepVjp vjp;
  linearizer.Vjp(x, u, lambda, sigma, &vjp);
  EXPECT_TRUE(support::MatricesNearRelative(vjp.theta,
                                            matrices.P.transpose() * lambda + matrices.Ps.transpose() * sigma, 1e-8));
}

// what a stage reads when is the engine's affair: level 2 lets it read the history
TEST_F(DelayedTest, Level2EvaluatesTheModelWithItsDelays) {
  const ModelPtr model = LoadModelFromString(
      Late("integrator='RK4'", "<general joint='b' gaintype='affine' gainprm='1 0 0.3' delay='0.004' nsample='4'/>"));
  const mjModel* m = model.get();
  std::string missing;
  EXPECT_FALSE(MakeAnalyticBackend(m, {}, &missing));
  EXPECT_NE(missing.find("each stage of RK4"), std::string::npos) << missing;
  const DataPtr data = Moved(m);
  const StepDerivative value = Linearize(m, data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
  ExpectReference(m, data.get(), value);
  EXPECT_EQ(value.C.row(1).norm(), 0);
  support::ExpectProducts(m, data.get(), {}, 1e-11);

  // a stage within the step would read what this very step stores
  const ModelPtr early = LoadModelFromString(Late("integrator='RK4'", "<motor joint='b' delay='0.001' nsample='4'/>"));
  const StepDerivative differenced = Linearize(early.get(), Moved(early.get()).get());
  EXPECT_EQ(differenced.coverage.Worst(), Level::kStep);
  EXPECT_NE(differenced.coverage.terms[0].reason.find("shorter than the step"), std::string::npos)
      << differenced.coverage.terms[0].reason;
}

// a slide whose activation adds up what comes from the history: its last sample, and how the interval goes on from there
struct LateRate {
  const mjModel* m;
  int substeps;
  std::vector<double> past;  // controls of the steps before

  DataPtr Now() const {
    DataPtr data = MakeData(m);
    for (const double u : past) {
      data->ctrl[0] = u;
      mj_step(m, data.get());
    }
    return data;
  }
  double After(double u) const {
    const DataPtr data = Now();
    data->ctrl[0] = u;
    for (int k = 0; k < substeps; k++) mj_step(m, data.get());
    return data->act[0];
  }
};

// (D1) the engine clamps what it has read: a control beyond its range acts where older samples bring that back inside
TEST_F(DelayedTest, ControlsBeyondTheirRangeActWhereWhatIsReadOfThemIsInside) {
  int acting = 0, idle = 0;
  for (const char* kind : {"<general dyntype='integrator' ctrlrange='0 1' ", "<muscle lengthrange='-1 1' force='1' "}) {
    for (const char* interp : {"zoh", "linear", "cubic"}) {
      for (const auto& [samples, delay] : {std::pair{1, 0.004}, {2, 0.0066374}, {3, 0.0066374}, {4, 0.0106374}}) {
        for (const char* integrator : {"Euler", "RK4"}) {
          const std::string text = std::string("<mujoco><option timestep='0.004' integrator='") + integrator +
                                   R"('/><worldbody><body><joint name="j" type="slide" axis="1 0 0"/><geom size=".1"/>
            </body></worldbody><actuator>)" +
                                   kind + "joint='j' nsample='" + std::to_string(samples) + "' interp='" + interp +
                                   "' delay='" + std::to_string(delay) + "'/></actuator></mujoco>";
          const ModelPtr model = LoadModelFromString(text);
          const mjModel* m = model.get();
          for (const int substeps : {1, 2, 3}) {
            for (const double u : {-0.2, 0.4, 1.3}) {
              const LateRate rate{m, substeps, {.3, .35, .3, .4, .6}};
              SCOPED_TRACE(text + " " + std::to_string(substeps) + " " + std::to_string(u));
              const DataPtr data = rate.Now();
              data->ctrl[0] = u;
              const double h = 1e-5, difference = (rate.After(u + h) - rate.After(u - h)) / (2 * h);
              const double tolerance = 1e-8;  // activations are of order 0.01
              EXPECT_NEAR(Linearize(m, data.get(), {.substeps = substeps}).B(2, 0), difference, tolerance);
              EXPECT_NEAR(Linearize(m, data.get(), {.level = Level::kStep, .substeps = substeps}).B(2, 0), difference,
                          tolerance);
              const ReferenceDerivative reference = Reference(m, data.get(), {.substeps = substeps});
              EXPECT_NEAR(reference.value.B(2, 0), difference, tolerance);
              (u != 0.4 && difference != 0 ? acting : idle)++;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(acting, 20);
  EXPECT_GT(idle, 20);
}

// (D1) exactly on an edge what is read has the slope inside, a hair beyond it none
TEST_F(DelayedTest, OnTheEdgeOfItsRangeWhatIsReadHasTheSlopeInside) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.004"/><worldbody><body>
    <joint name="j" type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody><actuator>
    <general joint="j" dyntype="integrator" nsample="3" ctrlrange="0 1" interp="linear" delay="0.006"/></actuator></mujoco>)");
  const mjModel* m = model.get();
  const auto slope = [m](double before, double u, Level level) {
    const DataPtr data = LateRate{m, 2, {0.5, 0.5, before}}.Now();
    data->ctrl[0] = u;
    const double value = Linearize(m, data.get(), {.level = level, .substeps = 2}).B(2, 0);
    const ReferenceDerivative reference = Reference(m, data.get(), {.substeps = 2});
    EXPECT_NEAR(reference.value.B(2, 0), value, 1e-9) << before << " " << u;
    return value;
  };
  for (const Level level : {Level::kBest, Level::kStep}) {
    const double inside = slope(0.5, 0.5, level);
    EXPECT_NEAR(inside, 0.004 / 2, 1e-9);  // half of the sample, for one step
    EXPECT_NEAR(slope(1, 1, level), inside, 1e-9);
    EXPECT_NEAR(slope(0.5, 1.5, level), inside, 1e-9);  // read: 1
    EXPECT_NEAR(slope(0.5, -0.5, level), inside, 1e-9);
    EXPECT_NEAR(slope(0.5, 1.5 - 1e-7, level), inside, 1e-9);
    EXPECT_NEAR(slope(0.5, 1.5 + 1e-7, level), 0, 1e-9);
    EXPECT_EQ(slope(1, 1.1, level), 0);
  }
}

// within one step what the history gives is context, and so is its clamp
TEST_F(DelayedTest, TheCertificateHasNoClampOfAControlThatActsLater) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.004"/><worldbody><body>
    <joint name="j" type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody><actuator>
    <muscle name="m" joint="j" lengthrange="-1 1" force="1" nsample="3" ctrllimited="true" ctrlrange="0 1" delay="0.008"/>
    </actuator></mujoco>)");
  const DataPtr data = LateRate{model.get(), 1, {0.4, 0.4, 0.4, 0.4}}.Now();
  data->ctrl[0] = 1;
  const Certificate certificate = Certify(model.get(), data.get());
  EXPECT_EQ(certificate.label, Smoothness::kSmooth);
  for (const Switch& s : certificate.switches) {
    EXPECT_EQ(s.name.find("ctrl"), std::string::npos) << s.name;
    if (s.next != "rise or fall") continue;
    EXPECT_NEAR(s.distance, 0.4 - data->act[0], 1e-12);
  }
}

}  // namespace
}  // namespace costate
