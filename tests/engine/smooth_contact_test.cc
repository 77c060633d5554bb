// costate.smooth_contact: the law as it is written, what it conserves, and where it is refused.
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "engine/plugin_config.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::BitwiseEqual;

std::string SmoothScene(const std::string& config, const std::string& bodies, const std::string& more = "") {
  return "<mujoco><option timestep='1e-4' gravity='0 0 0'/><extension><plugin "
         "plugin='costate.smooth_contact'><instance name='touch'>" +
         config + "</instance></plugin></extension><default><geom contype='0' conaffinity='0'/></default><worldbody>" +
         bodies + "</worldbody>" + more + "</mujoco>";
}

std::string BallOnFloor(const std::string& config = "") {
  return SmoothScene(Config("geom1", "floor") + Config("geom2", "ball") + config,
                     "<geom name='floor' type='plane' size='1 1 1'/>"
                     "<body pos='0 0 .1'><freejoint/><geom name='ball' size='.1' mass='2'/></body>");
}

class SmoothContactTest : public support::EngineTest {};

// softplus penetration, Hunt–Crossley push that ends softly, friction that saturates: computed here once more
TEST_F(SmoothContactTest, PushesAsWritten) {
  const ModelPtr m = LoadModelFromString(BallOnFloor(Config("stiffness", "3e4") + Config("exponent", "1.4") +
                                                     Config("dissipation", "0.7") + Config("friction", "0.6") +
                                                     Config("stiction", "0.05") + Config("smoothing", "0.002")));
  const DataPtr d = MakeData(m.get());
  for (const double height : {0.094, 0.1, 0.103}) {
    for (const double vz : {-0.8, 0.0, 0.5, 2.5}) {
      d->qpos[2] = height;
      mju_zero(d->qvel, 6);
      d->qvel[0] = 0.04;
      d->qvel[2] = vz;
      d->qvel[4] = 0.3;  // the point of contact is half way between the surfaces, below the center
      mj_forward(m.get(), d.get());
      const double gap = height - 0.1, arm = height - gap / 2;
      const double depth = 0.002 * std::log(1 + std::exp(-gap / 0.002)), z = 1 - 0.7 * vz;
      const double push = 3e4 * std::pow(depth, 1.4) * (z + std::sqrt(z * z + 0.01)) / (1 + std::sqrt(1.01));
      const double slip = 0.04 - 0.3 * arm;
      const double friction = -0.6 * push * slip / std::sqrt(slip * slip + 0.05 * 0.05);
      EXPECT_NEAR(d->qfrc_passive[2], push, 1e-9 * push) << height << " " << vz;
      EXPECT_NEAR(d->qfrc_passive[0], friction, 1e-9 * push);
      EXPECT_NEAR(d->qfrc_passive[4], -arm * friction, 1e-9 * push);
      EXPECT_NEAR(d->qfrc_passive[1], 0, 1e-12 * push);
    }
  }
}

// Touching changes nothing abruptly: quotients over the touch agree as their step shrinks. The engine's own contact
// grows as one over the step there.
TEST_F(SmoothContactTest, IsDifferentiableAtTheTouch) {
  const ModelPtr m = LoadModelFromString(BallOnFloor());
  const DataPtr d = MakeData(m.get());
  const auto force = [&](double gap) {
    d->qpos[2] = 0.1 + gap;
    mj_forward(m.get(), d.get());
    return d->qfrc_passive[2];
  };
  double last = (force(1e-4) - force(-1e-4)) / 2e-4, change = 1e300;
  for (const double h : {5e-5, 2.5e-5, 1.25e-5}) {
    const double quotient = (force(h) - force(-h)) / (2 * h);
    EXPECT_LT(std::abs(quotient - last), 0.3 * change) << h;
    change = std::abs(quotient - last);
    last = quotient;
  }
  EXPECT_NEAR((force(1e-6) - force(0)) / 1e-6, (force(0) - force(-1e-6)) / 1e-6, 1e-3 * std::abs(last));

  // before touch it is a number to follow, not zero
  d->qpos[2] = 0.103;
  EXPECT_LT(Linearize(m.get(), d.get()).A(8, 2), -1e-7);
}

constexpr char kHeap[] = R"(
  <body pos="0 0 0"><freejoint/><geom name="box" type="box" size=".1 .12 .1" mass="1"/></body>
  <body pos=".17 .05 .02" euler="10 20 30"><freejoint/><geom name="ball" size=".075" mass=".5"/></body>
  <body pos=".2 -.06 .03"><freejoint/><geom name="small" size=".04" mass=".2"/></body>
  <body pos=".31 .05 .02" euler="80 10 20"><freejoint/><geom name="capsule" type="capsule" size=".07 .1" mass=".4"/></body>)";

// Equal and opposite at one point: whatever the shapes, a common translation and a common rotation feel no force.
TEST_F(SmoothContactTest, ConservesMomentum) {
  const ModelPtr m =
      LoadModelFromString(SmoothScene(Config("geom1", "ball small") + Config("geom2", "box capsule"), kHeap));
  const DataPtr d = MakeData(m.get());
  d->qvel[0] = 1;
  d->qvel[7] = -0.6;
  d->qvel[10] = 2;
  for (int i = 0; i < 300; ++i) {
    mj_step(m.get(), d.get());
    mj_forward(m.get(), d.get());
    double size = 0, largest = 0;
    for (int axis = 0; axis < 3; ++axis) {
      double force = 0, torque = 0;
      for (int b = 1; b <= 4; ++b) {
        const mjtNum *f = d->qfrc_passive + 6 * (b - 1), *x = d->xpos + 3 * b, *R = d->xmat + 9 * b;
        mjtNum e[3] = {0, 0, 0}, turn[3], local[3];
        e[axis] = 1;
        mju_cross(turn, e, x);
        mju_mulMatTVec3(local, R, e);
        force += f[axis];
        torque += mju_dot3(f, turn) + mju_dot3(f + 3, local);
        size = std::max(size, mju_norm(f, 6));
      }
      largest = std::max({largest, std::abs(force), std::abs(torque)});
    }
    ASSERT_LT(largest, 1e-12 * std::max(size, 1.0)) << "step " << i;
    if (i == 50) {
      EXPECT_GT(size, 1);
    }
  }
}

// Without dissipation and friction a bounce gives back what it took; with them energy only falls.
TEST_F(SmoothContactTest, DissipatesOnly) {
  const auto energies = [](const ModelPtr& m) {
    m->opt.enableflags |= mjENBL_ENERGY;
    m->opt.integrator = mjINT_RK4;
    const DataPtr d = MakeData(m.get());
    d->qpos[2] = 0.15;
    d->qvel[2] = -1;
    d->qvel[0] = 0.5;
    d->qvel[4] = 3;
    std::vector<double> energy;
    for (int i = 0; i < 1500; ++i) {
      mj_step(m.get(), d.get());
      energy.push_back(d->energy[1]);
    }
    return energy;
  };
  const std::vector<double> elastic =
      energies(LoadModelFromString(BallOnFloor(Config("dissipation", "0") + Config("friction", "0"))));
  EXPECT_LT(*std::min_element(elastic.begin(), elastic.end()), 0.8 * elastic.front()) << "it does bounce";
  EXPECT_NEAR(elastic.back(), elastic.front(), 1e-6 * elastic.front());
  const std::vector<double> loss = energies(LoadModelFromString(BallOnFloor(Config("friction", "0"))));
  EXPECT_LT(loss.back(), 0.9 * loss.front());
  const std::vector<double> rough =
      energies(LoadModelFromString(BallOnFloor(Config("dissipation", "0") + Config("stiction", "0.3"))));
  EXPECT_LT(rough.back(), 0.999 * rough.front());

  // at any state: what velocity adds to the force takes power away
  const ModelPtr m =
      LoadModelFromString(SmoothScene(Config("geom1", "ball small") + Config("geom2", "box capsule"), kHeap));
  const DataPtr d = MakeData(m.get());
  srand(3);
  for (int i = 0; i < 200; ++i) {
    mj_resetData(m.get(), d.get());
    VectorXd dx = VectorXd::Zero(48);
    dx.head(24) = 0.03 * VectorXd::Random(24);
    SetState(m.get(), d.get(), Retract(m.get(), GetState(m.get(), d.get()), dx));
    mj_forward(m.get(), d.get());
    const VectorXd still = Eigen::Map<VectorXd>(d->qfrc_passive, 24), v = 2 * VectorXd::Random(24);
    mju_copy(d->qvel, v.data(), 24);
    mj_forward(m.get(), d.get());
    EXPECT_LE(v.dot(Eigen::Map<VectorXd>(d->qfrc_passive, 24) - still), 1e-12);
  }
}

// A block on a slope of 0.3: friction 0.5 holds it but for the creep that the stiction velocity allows; friction 0.1
// does not.
TEST_F(SmoothContactTest, HoldsAndSlidesAsCoulomb) {
  const auto speed = [](const char* friction) {
    const ModelPtr m = LoadModelFromString(
        SmoothScene(Config("geom1", "floor") + Config("geom2", "box") + Config("friction", friction) +
                        Config("stiction", "0.001") + Config("dissipation", "30"),
                    "<geom name='floor' type='plane' size='1 1 1'/><body pos='0 0 .1'><freejoint/><geom name='box' "
                    "type='box' size='.1 .1 .1' mass='1'/></body>"));
    m->opt.gravity[0] = 3;
    m->opt.gravity[2] = -10;
    const DataPtr d = MakeData(m.get());
    for (int i = 0; i < 10000; ++i) mj_step(m.get(), d.get());
    return d->qvel[0];
  };
  EXPECT_NEAR(speed("0.5"), 0.001 * 0.6 / std::sqrt(1 - 0.36), 1e-5);  // slip / √(slip² + v_s²) = 0.3 / 0.5
  EXPECT_NEAR(speed("0.1"), 3 - 0.1 * 10, 0.02);
}

TEST_F(SmoothContactTest, CopiesAndThreadsGoOnAlike) {
  const ModelPtr m =
      LoadModelFromString(SmoothScene(Config("geom1", "ball small") + Config("geom2", "box capsule"), kHeap));
  EXPECT_EQ(m->npluginstate, 0);
  DataPtr d = MakeData(m.get());
  d->qvel[0] = 1;
  for (int i = 0; i < 50; ++i) mj_step(m.get(), d.get());
  std::vector<DataPtr> copies;
  for (int i = 0; i < 4; ++i) copies.emplace_back(mj_copyData(nullptr, m.get(), d.get()));
  const auto go_on = [&](mjData* data) {
    for (int i = 0; i < 200; ++i) mj_step(m.get(), data);
  };
  go_on(d.get());
  const VectorXd expected = GetState(m.get(), d.get());
  d.reset();
  std::vector<std::thread> threads;
  for (const DataPtr& copy : copies) threads.emplace_back(go_on, copy.get());
  for (std::thread& thread : threads) thread.join();
  for (const DataPtr& copy : copies) EXPECT_TRUE(BitwiseEqual(GetState(m.get(), copy.get()), expected));
}

TEST_F(SmoothContactTest, RefusesByName) {
  const auto expect = [](const std::string& xml, std::initializer_list<const char*> texts) {
    const std::string error = LoadErrorOf(xml);
    for (const char* text : texts) EXPECT_NE(error.find(text), std::string::npos) << text << " is not in: " << error;
  };
  expect(BallOnFloor(Config("stiffness", "0")),
         {"costate.smooth_contact 'touch': attribute stiffness: it is 0, expected a number above 0"});
  expect(BallOnFloor(Config("exponent", "0.5")), {"attribute exponent: it is 0.5, expected at least 1"});
  expect(BallOnFloor(Config("friction", "-1")), {"attribute friction"});
  expect(BallOnFloor(Config("smoothing", "nan")), {"attribute smoothing: 'nan' is not a finite number"});
  expect(BallOnFloor(Config("damping", "1")), {"damping"});
  expect(SmoothScene(Config("geom1", "ball"), kHeap), {"attribute geom2: it is not given"});
  expect(SmoothScene(Config("geom1", "bal") + Config("geom2", "box"), kHeap),
         {"attribute geom1: there is no geom 'bal', did you mean 'ball'?"});
  expect(SmoothScene(Config("geom1", "box") + Config("geom2", "tin"),
                     std::string(kHeap) + "<body><freejoint/><geom name='tin' type='cylinder' size='.1 .1'/></body>"),
         {"geoms 'box' and 'tin' have no closed form"});
  expect(SmoothScene(Config("geom1", "ball") + Config("geom2", "ball"), kHeap), {"cannot move against each other"});
  expect(SmoothScene(Config("geom1", "ball") + Config("geom2", "box box"), kHeap),
         {"attribute geom2: geom 'box' is named twice"});

  // the engine must not collide them as well
  std::string both = BallOnFloor();
  both.replace(both.find("contype='0' conaffinity='0'"), 27, "");
  expect(both, {"geoms 'floor' and 'ball' are collided by the engine as well", "exclude"});
  std::string excluded = both;
  excluded.replace(excluded.find("<body pos"), 9, "<body name='b' pos")
      .replace(excluded.find("</worldbody>"), 12, "</worldbody><contact><exclude body1='world' body2='b'/></contact>");
  EXPECT_EQ(LoadErrorOf(excluded), "");
  std::string pair = BallOnFloor();
  pair.replace(pair.find("</worldbody>"), 12, "</worldbody><contact><pair geom1='ball' geom2='floor'/></contact>");
  expect(pair, {"are collided by the engine as well"});
}

// the compiler tries models without sleep, and sees no option that a host changes: an init that fails then would end the
// host
TEST_F(SmoothContactTest, WhatTheCompilerDoesNotSeeIsAWarning) {
  std::string sleeping = BallOnFloor();
  sleeping.replace(sleeping.find("'touch'"), 7, "'bed'")
      .replace(sleeping.find("<extension>"), 11, "<option><flag sleep='enable'/></option><extension>");
  const ModelPtr m = LoadModelFromString(sleeping);
  EXPECT_TRUE(TakeWarnings().empty());
  const DataPtr d = MakeData(m.get()), again = MakeData(m.get());
  std::vector<std::string> warnings = TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("costate.smooth_contact 'bed': the model enables sleep"), std::string::npos)
      << warnings[0];
  mj_forward(m.get(), d.get());
  EXPECT_GT(d->qfrc_passive[2], 0);

  // geoms that the engine's contacts hold, too, since
  m->geom_contype[0] = m->geom_conaffinity[0] = m->geom_contype[1] = m->geom_conaffinity[1] = 1;
  m->opt.enableflags &= ~mjENBL_SLEEP;
  const DataPtr edited = MakeData(m.get());
  warnings = TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("costate.smooth_contact 'bed': "), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("; there is no force between them"), std::string::npos) << warnings[0];
  m->geom_contype[0] = m->geom_conaffinity[0] = m->geom_contype[1] = m->geom_conaffinity[1] = 0;

  m->opt.disableflags |= mjDSBL_SPRING | mjDSBL_DAMPER;
  const DataPtr idle = MakeData(m.get());
  warnings = TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("disables spring and damper"), std::string::npos) << warnings[0];
  mj_forward(m.get(), idle.get());
  EXPECT_EQ(idle->qfrc_passive[2], 0);
  m->opt.disableflags = 0;
  mj_forward(m.get(), idle.get());
  EXPECT_GT(idle->qfrc_passive[2], 0);

  // in the file the compiler does see it
  std::string off = BallOnFloor();
  off.replace(off.find("<extension>"), 11, "<option><flag spring='disable' damper='disable'/></option><extension>");
  EXPECT_NE(LoadErrorOf(off).find("disables spring and damper"), std::string::npos);
}

}  // namespace
}  // namespace costate
