#include <costate/derivative.h>
#include <costate/smooth_contact.h>

#include <gtest/gtest.h>

#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using SmoothFrictionTest = support::EngineTest;

// a block of 2 kg on a floor with friction 0.5, pushed along x; impedance is the same at every
// depth
std::string Block(const char* option) {
  return std::string("<mujoco><option timestep='0.002' integrator='implicitfast' ") + option + R"(/>
  <default><geom solimp="0.9 0.9 0.001" friction="0.5"/></default>
  <worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body name="block" pos="0 0 0.05"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <geom name="block" type="box" size="0.1 0.1 0.05" mass="2"/></body>
  <body name="cart" pos="0 2 0"><joint name="rail" type="slide" axis="1 0 0" frictionloss="3"/><geom size="0.1" mass="2" contype="0" conaffinity="0"/></body>
  </worldbody><actuator><motor name="push" joint="x"/><motor name="pull" joint="rail"/></actuator></mujoco>)";
}

struct Pushed {
  DataPtr data;
  double slip = 0, by_control = 0, by_velocity = 0;
};

// under a constant force until it creeps or slides steadily
Pushed Push(const mjModel* model, double force, int actuator = 0, int dof = 0, double seconds = 2) {
  Pushed out{MakeData(model)};
  out.data->ctrl[actuator] = force;
  while (out.data->time < seconds) mj_step(model, out.data.get());
  mj_forward(model, out.data.get());
  out.slip = out.data->qvel[dof];
  const StepDerivative step = Linearize(model, out.data.get());
  out.by_control = step.B(model->nv + dof, actuator);
  out.by_velocity = step.A(model->nv + dof, model->nv + dof);
  return out;
}

// sum of D b over the rows along x [N s/m], that over the sum of D diag(A): the slope a row has for
// its own mass
void Slopes(const mjModel* model, const mjData* data, double* total, double* per_mass) {
  *total = 0;
  for (int c = 0; c < data->ncon; c++) {
    for (int k = 1; k < 3; k++) {
      const int row = data->contact[c].efc_address + k;
      if (std::abs(data->contact[c].frame[3 * k]) < 0.5) continue;
      *total += data->efc_D[row] * data->efc_KBIP[4 * row + 1];
      *per_mass = data->efc_D[row] * data->efc_KBIP[4 * row + 1] * data->efc_diagA[data->contact[c].efc_address];
    }
  }
  (void)model;
}

// Coulomb: below μ m g = 9.81 N nothing moves, above all of the surplus accelerates. With a slope
// the block creeps at F / slope, while it sticks, and slides as before
TEST_F(SmoothFrictionTest, SlopeIsTheKnob) {
  const ModelPtr model = LoadModelFromString(Block("cone='elliptic'"));
  const double h = model->opt.timestep, m = 2;
  const Pushed truth = Push(model.get(), 4), sliding = Push(model.get(), 20);
  EXPECT_LT(truth.slip, 0.01);
  EXPECT_LT(truth.by_control, 0.1 * h / m);
  EXPECT_NEAR(sliding.by_control, h / m, 0.01 * h / m);
  double last = truth.by_control;
  for (double slope : {100.0, 10.0, 1.0}) {
    const SmoothModel smooth = MakeSmoothModel(model.get(), {.friction = slope});
    SCOPED_TRACE(smooth.label);
    const Pushed sticks = Push(smooth.model.get(), 4, 0, 0, slope < 5 ? 20 : 5);
    double total = 0, per_mass = 0;
    Slopes(smooth.model.get(), sticks.data.get(), &total, &per_mass);
    EXPECT_NEAR(per_mass, slope, 1e-9 * slope);
    EXPECT_NEAR(sticks.slip, 4 / total, 1e-8 * 4 / total);
    EXPECT_GT(sticks.by_control, last);
    EXPECT_LT(sticks.by_control, 1.001 * h / m);
    last = sticks.by_control;
  }
  EXPECT_NEAR(last, h / m, 0.1 * h / m);
}

// whatever the format of solref, and with refsafe where it bites: the stiffness of the direct one has no part in it
TEST_F(SmoothFrictionTest, SlopeIsTheKnobInEveryFormat) {
  for (const char* solref : {"-5000 -120", "0.03 0.6", "0.001 1"}) {
    SCOPED_TRACE(solref);
    std::string xml = Block("cone='pyramidal'");
    xml.insert(xml.find("<geom solimp") + 6, std::string("solref='") + solref + "' ");
    const SmoothModel smooth = MakeSmoothModel(LoadModelFromString(xml).get(), {.friction = 30});
    const Pushed sticks = Push(smooth.model.get(), 4, 0, 0, 5);
    double total = 0, per_mass = 0;
    Slopes(smooth.model.get(), sticks.data.get(), &total, &per_mass);
    EXPECT_NEAR(per_mass, 30, 1e-7);
    EXPECT_NEAR(sticks.slip, 4 / total, 1e-8 * 4 / total);
  }
}

// the same for named contacts alone, by their own damping
TEST_F(SmoothFrictionTest, NamedContactsHaveASlopeOfTheirOwn) {
  const ModelPtr model = LoadModelFromString(Block("cone='elliptic'"));
  const SmoothModel smooth =
      MakeSmoothModel(model.get(), {.friction = 100, .targets = {.pairs = {{"block", "floor"}}}});
  EXPECT_EQ(smooth.model->opt.impratio, model->opt.impratio);
  const Pushed sticks = Push(smooth.model.get(), 4);
  double total = 0, per_mass = 0;
  Slopes(smooth.model.get(), sticks.data.get(), &total, &per_mass);
  EXPECT_NEAR(per_mass, 100, 1e-7);
  EXPECT_NEAR(sticks.slip, 4 / total, 1e-8 * 4 / total);
}

// named contacts end their slip within a timestep at the most: b = 1/h, and the note tells the slope that is left
TEST_F(SmoothFrictionTest, NamedContactsStopNoFasterThanAStep) {
  const ModelPtr model = LoadModelFromString(Block("cone='elliptic'"));
  const SmoothModel smooth =
      MakeSmoothModel(model.get(), {.friction = 1e9, .targets = {.pairs = {{"block", "floor"}}}});
  const mjtNum* ref = smooth.model->pair_solreffriction;
  EXPECT_DOUBLE_EQ(-ref[1] / 0.9, 1 / model->opt.timestep);
  EXPECT_NE(smooth.changes[0].motion.find("at most 4500 1/s"), std::string::npos) << smooth.changes[0].motion;
}

// dry friction of a joint: below its 3 N it creeps at F / (slope · m)
TEST_F(SmoothFrictionTest, DryFrictionOfJointsHasTheSlopeToo) {
  const ModelPtr model = LoadModelFromString(Block(""));
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.friction = 50, .targets = {.joints = {"rail"}}});
  EXPECT_LT(Push(model.get(), 1, 1, 2).slip, 0.002);
  EXPECT_NEAR(Push(smooth.model.get(), 1, 1, 2).slip, 1.0 / (50 * 2), 1e-4);
  EXPECT_EQ(smooth.model->opt.cone, model->opt.cone);
}

TEST_F(SmoothFrictionTest, ExtremeSlopesAreFinite) {
  for (const char* option : {"cone='elliptic'", "cone='pyramidal'"}) {
    const ModelPtr model = LoadModelFromString(Block(option));
    for (double slope : {1e-12, 1e-3, 1e6, 1e12}) {
      for (double force : {0.0, 4.0, 20.0}) {
        const SmoothModel smooth = MakeSmoothModel(model.get(), {.friction = slope});
        const Pushed pushed = Push(smooth.model.get(), force, 0, 0, 0.1);
        EXPECT_TRUE(std::isfinite(pushed.by_control) && std::isfinite(pushed.by_velocity))
            << smooth.label << " " << force;
        EXPECT_LE(std::abs(pushed.by_control), 1.001 * model->opt.timestep / 2) << smooth.label << " " << force;
      }
    }
  }
}

// a square box on its four corners: redundant contacts; turning the scene by 90° changes nothing
TEST_F(SmoothFrictionTest, BoxOnFourCornersIsFiniteAndSymmetric) {
  for (const std::string cone : {"elliptic", "pyramidal"}) {
    const ModelPtr model = LoadModelFromString("<mujoco><option timestep='0.002' cone='" + cone + R"('/><worldbody>
    <geom type="plane" size="1 1 1"/><body pos="0 0 0.0995"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
    </worldbody></mujoco>)");
    const SmoothContact cases[] = {{},
                                   {.onset = 0.005},
                                   {.softness = 0.1},
                                   {.distance = 0.01},
                                   {.friction = 10},
                                   {.solver = 1},
                                   {.onset = 0.005, .softness = 0.05, .distance = 0.01, .friction = 10, .solver = 1}};
    for (const SmoothContact& options : cases) {
      const SmoothModel smooth = MakeSmoothModel(model.get(), options);
      SCOPED_TRACE(cone + " " + smooth.label);
      const DataPtr data = MakeData(smooth.model.get());
      Linearizer linearizer(smooth.model.get(), {.smoothing = smooth.smoothing});
      AccelerationDerivative d;
      mj_forward(smooth.model.get(), data.get());
      EXPECT_EQ(data->ncon, 4);
      linearizer.LinearizeAcceleration(GetState(model.get(), data.get()), VectorXd(), &d);
      ASSERT_TRUE(d.force.allFinite() && d.x.allFinite());
      EXPECT_TRUE(support::MatricesNearRelative(d.force, d.force.transpose(), 1e-12));

      // x → y, y → −x, for forces and torques
      MatrixXd turn = MatrixXd::Zero(6, 6);
      for (int k = 0; k < 6; k += 3) {
        turn(k + 1, k) = 1;
        turn(k, k + 1) = -1;
        turn(k + 2, k + 2) = 1;
      }
      MatrixXd both = MatrixXd::Zero(12, 12);
      both.topLeftCorner(6, 6) = both.bottomRightCorner(6, 6) = turn;
      EXPECT_TRUE(support::MatricesNearRelative(turn * d.force * turn.transpose(), d.force, 1e-9));
      EXPECT_TRUE(support::MatricesNearRelative(turn * d.x * both.transpose(), d.x, 1e-7));
    }
  }
}

}  // namespace
}  // namespace costate
