// (K20), (K21): rotations that are read the shorter way round end at half a turn, a crank's rod where it reaches no more, a rod's
// bends where it is straight.
#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/model.h>
#include <costate/state.h>

#include <cmath>
#include <string>

#include "support/engine_test.h"
#include "support/find_switch.h"

namespace costate {
namespace {

using CertificateTurnTest = support::EngineTest;
using support::Find;

constexpr double kNudge = 1e-7;

// how far the slopes of the step along a dof are apart, to both sides; of a step that jumps huge
double BendAlong(const mjModel* m, const mjData* data, int dof) {
  const VectorXd x = GetState(m, data);
  const auto step = [&](double nudge) {
    const DataPtr at = MakeData(m);
    mj_copyState(m, data, at.get(), mjSTATE_INTEGRATION);
    SetState(m, at.get(), Retract(m, x, nudge * VectorXd::Unit(Dims(m).ndx, dof)));
    mj_step(m, at.get());
    return GetState(m, at.get());
  };
  const VectorXd here = step(0), forward = Difference(m, step(kNudge), here), back = Difference(m, here, step(-kNudge));
  return (forward - back).cwiseAbs().maxCoeff() / kNudge;
}

void ExpectSwitch(const mjModel* m, const mjData* d, int dof, const std::string& name, const std::string& next,
                  double distance) {
  const Certificate certificate = Certify(m, d);
  const Switch* found = Find(certificate, name, next);
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->distance, distance, 1e-7);
  const bool here = distance < 1e-12;
  EXPECT_EQ(certificate.label, here ? Smoothness::kModeCrossing : Smoothness::kSmooth);
  const double bend = BendAlong(m, d, dof);
  if (here) {
    EXPECT_GT(bend, 1e-3);
  } else {
    EXPECT_LT(bend, 1e-4);
  }
}

// a ball turned about x, by half a turn and by a bit less
TEST_F(CertificateTurnTest, WhatTurnsBackTheShorterWayTurnsAtHalfATurn) {
  const struct {
    const char *joint, *actuator, *name;
  } kCases[] = {
      {"type='ball' stiffness='3'", "", "spring of j"},
      {"type='free' stiffness='3'", "", "spring of j"},
      {"type='ball' stiffness='0 3'", "", "spring of j"},
      {"type='ball'", "<position joint='j' gear='1 0 0' kp='3'/>", "length of actuator 0"},
      {"type='ball'", "<position site='s' refsite='w' gear='0 0 0 1 0 0' kp='3'/>", "length of actuator 0"},
      {"type='ball'", "<orientation joint='j' kp='3' input='expmap'/>", "error of actuator 0"},
  };
  for (const auto& scene : kCases) {
    SCOPED_TRACE(std::string(scene.joint) + " " + scene.actuator);
    const ModelPtr m = LoadModelFromString(
        std::string(
            "<mujoco><option timestep='.002' gravity='0 0 0'/><worldbody><site name='w'/><body><joint name='j' ") +
        scene.joint +
        "/><geom type='capsule' fromto='0 0 0 .3 .1 0' size='.03' contype='0' conaffinity='0'/><site name='s'/></body>"
        "</worldbody><actuator>" +
        scene.actuator + "</actuator></mujoco>");
    const DataPtr d = MakeData(m.get());
    const int rotation = m->jnt_type[0] == mjJNT_FREE ? 3 : 0;
    for (const double left : {0.0, 0.2}) {
      const double half = (mjPI - left) / 2;
      d->qpos[rotation] = left == 0 ? 0 : std::cos(half);
      d->qpos[rotation + 1] = left == 0 ? 1 : std::sin(half);
      for (int i = 0; i < m->nv; i++) d->qvel[i] = 0.1;
      ExpectSwitch(m.get(), d.get(), rotation, scene.name, "half a turn", left);
    }
  }

  // a motor's length is read by no one
  const ModelPtr motor = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='ball'/><geom size='.1'/></body></worldbody>"
      "<actuator><motor joint='j' gear='1 0 0'/></actuator></mujoco>");
  const DataPtr d = MakeData(motor.get());
  d->qpos[0] = 0;
  d->qpos[1] = 1;
  const Certificate certificate = Certify(motor.get(), d.get());
  EXPECT_EQ(Find(certificate, "length of actuator 0", "half a turn"), nullptr);
  EXPECT_EQ(certificate.label, Smoothness::kSmooth);
}

TEST_F(CertificateTurnTest, ARodThatReachesNoMoreIsASwitch) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><worldbody><site name='slider' zaxis='1 0 0'/><body><joint type='slide' axis='0 0 1'/>"
      "<geom size='.05' contype='0' conaffinity='0'/><site name='crank'/></body></worldbody>"
      "<actuator><motor cranksite='crank' slidersite='slider' cranklength='.3'/></actuator></mujoco>");
  const DataPtr d = MakeData(m.get());
  d->ctrl[0] = 1;
  for (const double height : {0.3, 0.25, 0.5}) {
    SCOPED_TRACE(height);
    d->qpos[0] = height;
    ExpectSwitch(m.get(), d.get(), 0, "length of actuator 0", "reach", std::abs(0.3 - height));
  }
}

// (K21) A cable that swings, straight and bent
TEST_F(CertificateTurnTest, ARodThatIsStraightIsOnASwitch) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><option timestep='.002' gravity='0 0 0'/><worldbody><flexcomp name='rod' type='grid' dim='1' "
      "count='4 1 1' spacing='.07 .07 .07' pos='0 0 1' radius='.01' mass='.5'><elasticity young='3e4' poisson='.3' "
      "damping='.05'/><contact selfcollide='none'/></flexcomp></worldbody></mujoco>");
  const DataPtr d = MakeData(m.get());
  for (int i = 0; i < m->nv; i++) d->qvel[i] = std::sin(1.0 + i);
  for (const double bend : {0.0, 0.01}) {
    d->qpos[2] = bend;  // of the first vertex, up: all others are on a line
    const Certificate certificate = Certify(m.get(), d.get());
    const Switch* found = Find(certificate, "bend of rod", "straight");
    ASSERT_NE(found, nullptr);
    EXPECT_NEAR(found->distance, 0, 1e-12) << "between the last two";
    EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  }
  d->qpos[3 * 3 + 1] = 0.02;
  const Switch* found = nullptr;
  const Certificate certificate = Certify(m.get(), d.get());
  found = Find(certificate, "bend of rod", "straight");
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->distance, std::atan2(0.01, 0.07), 1e-9);
  EXPECT_EQ(certificate.label, Smoothness::kSmooth);

  // straight again: at rest, or without damping, it is on none
  d->qpos[3 * 3 + 1] = d->qpos[2] = 0;
  EXPECT_EQ(Certify(m.get(), d.get()).label, Smoothness::kModeCrossing);
  m->flex_damping[0] = 0;
  EXPECT_EQ(Find(Certify(m.get(), d.get()), "bend of rod", "straight"), nullptr);
  m->flex_damping[0] = 0.05;
  mju_zero(d->qvel, static_cast<int>(m->nv));
  EXPECT_EQ(Find(Certify(m.get(), d.get()), "bend of rod", "straight"), nullptr);
}

// (K20) What does not read how far a ball has turned has no half turn: dampers, and limits that end past it
TEST_F(CertificateTurnTest, WhatReadsNoTurnHasNoHalfTurn) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='ball' limited='true' range='0 190'/><geom size='.1' "
      "pos='0 0 .1'/></body></worldbody><actuator><velocity joint='j' kv='2' gear='1 2 3'/><damper joint='j' kv='2' "
      "ctrlrange='0 1' gear='1 2 3'/></actuator></mujoco>");
  const DataPtr d = MakeData(m.get());
  d->qpos[0] = 0;
  d->qpos[1] = 1;
  d->ctrl[1] = 0.5;
  for (int i = 0; i < 3; i++) d->qvel[i] = 0.1 * i;
  for (const Switch& s : Certify(m.get(), d.get()).switches) EXPECT_NE(s.next, "half a turn") << s.name;
}

}  // namespace
}  // namespace costate
