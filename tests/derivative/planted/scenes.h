// Models and states at which every formula of the derivative counts: each plant must show at one of them.
#ifndef COSTATE_TESTS_PLANTED_SCENES_H_
#define COSTATE_TESTS_PLANTED_SCENES_H_

#include <costate/model.h>

#include <functional>
#include <string>
#include <vector>

#include "derivative/tendon_scene.h"

namespace costate::planted {

inline constexpr double kPlant = 1.01;

/// Is a plant in what P and pull-backs by parameters alone are made of?
inline bool OfParameters(const std::string& plant) { return plant.starts_with("parameters: "); }

/// Or in what several steps under one control are made of?
inline bool OfIntervals(const std::string& plant) { return plant.starts_with("interval: "); }

struct Scene {
  std::string name, xml;
  unsigned seed = 1;  ///< of the state, the controls and the velocities
  int steps = 0;      ///< simulated before; 0: from a random state, or where `placed` from the model's own
  double position = 0.4, velocity = 2;  ///< size of the random state
  bool placed = false;
  std::function<void(mjModel*)> change = nullptr;
};

inline constexpr char kSprings[] = R"(
<mujoco><option timestep="0.003"/><worldbody>
  <body><freejoint name="root"/><geom type="box" size="0.3 0.2 0.1" pos="0.1 0 0.05"/>
    <body pos="0.3 0 0"><joint name="ball" type="ball" stiffness="20" damping="0.3"/>
      <geom type="capsule" size="0.05 0.2" pos="0 0.1 0.2" contype="0"/>
      <body pos="0 0 0.4"><joint name="hinge" axis="0 1 0.2" stiffness="6" springref="20" damping="0.4"/>
        <joint name="slide" type="slide" axis="1 0 0.5" stiffness="90" damping="3"/>
        <geom type="box" size="0.05 0.1 0.1" contype="0"/></body></body></body>
  </worldbody>
  <tendon><fixed name="t" stiffness="30" damping="0.5" springlength="-0.01 0.01">
    <joint joint="hinge" coef="0.6"/><joint joint="slide" coef="-0.9"/></fixed></tendon></mujoco>)";

inline void PolynomialSprings(mjModel* m) {
  m->jnt_stiffness[0] = 5;
  for (int j = 0; j < m->njnt; j++) m->jnt_stiffnesspoly[mjNPOLY * j] = 4, m->jnt_stiffnesspoly[mjNPOLY * j + 1] = 2;
  for (int i = 0; i < m->nv; i++) m->dof_dampingpoly[mjNPOLY * i] = 0.2, m->dof_dampingpoly[mjNPOLY * i + 1] = 0.1;
  m->tendon_stiffnesspoly[1] = 50;
  m->tendon_dampingpoly[0] = 1;
}

inline constexpr char kThrusters[] = R"(
<mujoco><worldbody>
  <body gravcomp="0.3"><freejoint/><geom type="box" size="0.2 0.1 0.05"/><site name="base" pos="0.2 0.1 0" euler="10 20 30"/>
    <body pos="0.3 0 0"><joint name="arm" axis="0 1 0.2"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" contype="0"/><site name="tip" pos="0.2 0 0" euler="40 0 50"/>
    </body></body></worldbody>
  <actuator>
    <motor site="base" gear="1 2 3 0.1 0.2 0.3"/>
    <general site="tip" gear="0 0 1 0.3 0 0.05" dyntype="filter" dynprm="0.1" gainprm="4" biastype="affine" biasprm="0.5 1 0"/>
  </actuator></mujoco>)";

inline constexpr char kMuscles[] = R"(
<mujoco><worldbody><body><joint name="a" axis="0 1 0" damping="0.05"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0"/>
  <body pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0"/></body>
  </body></worldbody>
  <tendon><fixed name="t"><joint joint="a" coef="0.3"/><joint joint="b" coef="0.5"/></fixed></tendon>
  <actuator><muscle joint="a" lengthrange="-1 1" force="30" gear="1"/>
    <muscle tendon="t" lengthrange="-0.7 0.9" force="-1" scale="300" tausmooth="0.4"/>
    <muscle joint="b" lengthrange="-1 1" range="0.3 1.8" force="20"/></actuator></mujoco>)";

inline constexpr char kFree[] = R"(
<mujoco><option timestep="0.01" integrator="implicitfast"/><worldbody>
  <body pos="0 0 3"><freejoint/><geom type="box" size="0.1 0.2 0.4" pos="0.1 0.05 0"/></body>
  <body pos="2 0 3"><joint type="free" damping="0.2"/><geom type="box" size="0.1 0.2 0.3" pos="0.2 0 0.1"/></body>
  <body pos="4 0 3"><freejoint/><geom type="box" size="0.1 0.2 0.3"/><body pos="0.3 0 0"><geom size="0.1"/></body></body>
  </worldbody></mujoco>)";

// both models of a fluid, on free and jointed trees
inline constexpr char kFluid[] = R"(
<mujoco><option timestep="0.004" density="1000" viscosity="0.5" wind="0.3 -0.7 0.2"/>
  <default><geom contype="0" fluidcoef="0.5 0.25 1.5 1.1 0.8"/></default><worldbody>
  <body><freejoint/><geom type="ellipsoid" size="0.1 0.2 0.05" pos="0.05 0 0.02" euler="10 20 30" fluidshape="ellipsoid"/></body>
  <body pos="2 0 0"><freejoint/><geom type="box" size="0.1 0.2 0.05" euler="10 20 30"/>
    <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.04 0.1" euler="0 70 0" fluidshape="ellipsoid"/>
      <body pos="0.2 0 0"><joint axis="0 1 0.3"/><geom type="box" size="0.1 0.02 0.05" pos="0.1 0 0"/></body></body></body>
  </worldbody></mujoco>)";

inline constexpr char kEquality[] = R"(
<mujoco><worldbody>
  <body name="a" pos="0 0 0.14"><freejoint/><geom type="box" size="0.15 0.1 0.2" contype="0"/>
    <body name="b" pos="0.3 0 0"><joint type="ball" range="0 15" limited="true"/><geom size="0.1" pos="0.1 0 0" contype="0"/>
      <site name="s1" pos="0.1 0 0.1" euler="10 20 30"/></body></body>
  <body name="c" pos="0 0.5 0.14"><freejoint/><geom type="box" size="0.15 0.1 0.3" contype="0"/>
    <site name="s2" pos="-0.1 0.1 0" euler="50 0 30"/></body>
  <body name="e" pos="1 0.5 0.14"><joint axis="0 1 0"/><joint axis="1 0 0"/><geom type="box" size="0.15 0.1 0.3" contype="0"/></body>
  </worldbody><equality>%</equality></mujoco>)";

inline constexpr char kRows[] = R"(
<mujoco><worldbody>
  <body pos="0 0 1"><joint name="a" axis="0 1 0" range="-5 5" limited="true" frictionloss=".1" solimplimit=".5 .95 .5"/><geom type="capsule" size=".05 .2" contype="0"/>
    <body pos=".2 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size=".05 .2" contype="0"/></body>
    <body pos="-.2 0 0"><joint name="c" axis="1 0 0" frictionloss="200"/><geom type="capsule" size=".05 .2" contype="0"/></body></body>
  </worldbody>
  <tendon><fixed name="t" limited="true" range="-.01 .01" frictionloss=".05"><joint joint="b" coef="1"/><joint joint="c" coef="-.5"/></fixed>
    <fixed name="s"><joint joint="a" coef="1"/><joint joint="b" coef=".3"/></fixed></tendon>
  <equality><joint joint1="b" joint2="a" polycoef="0 .5 .7 -.2 .1" solimp=".5 .95 2"/>
    <tendon tendon1="s" polycoef="0.05 0 0 0 0" solimp=".5 .95 2"/></equality></mujoco>)";

// a free geom that touches one that stands still
struct Pair {
  const char *still, *moving;
  double x, y, z;
  const char* euler;
};
inline constexpr const char *kPlane = "type='plane' size='1 1 .1' euler='4 -3 20'",
                            *kLevel = "type='plane' size='1 1 .1'", *kSphere = "size='.08'",
                            *kCapsule = "type='capsule' size='.06 .12'", *kBox = "type='box' size='.08 .1 .12'";
inline constexpr Pair kPairs[] = {
    {kPlane, "size='.1'", 0, 0, .098, "0 0 0"},
    {kPlane, kCapsule, 0, 0, .115, "60 20 0"},
    {"type='plane' size='1 1 .1' surfacevel='.3 .1 0 .2 0 .5'", kCapsule, .1, .2, .115, "60 20 0"},
    {kPlane, "type='ellipsoid' size='.1 .07 .12'", 0, 0, .084, "40 30 0"},
    {kPlane, "type='cylinder' size='.09 .12'", 0, 0, .145, "30 20 10"},
    {kPlane, kBox, 0, 0, .158, "20 30 10"},
    {kLevel, "type='mesh' mesh='wedge'", 0, 0, .045, "10 10 0"},
    {"size='.1'", kSphere, .03, .02, .172, "0 0 0"},
    {"type='capsule' size='.06 .12' euler='90 20 0'", kSphere, .01, .02, .135, "0 0 0"},
    {"type='capsule' size='.06 .12' euler='70 20 0'", kCapsule, .01, .02, .115, "20 80 0"},
    {"type='capsule' size='.06 .12' euler='90 0 0'", kCapsule, .02, 0, .225, "30 10 0"},
    {kBox, kSphere, .02, .03, .198, "0 0 0"},
    {"type='box' size='.08 .1 .12' euler='45 0 0'", "size='.06'", .02, 0, .213, "0 0 0"},
    {"type='box' size='.1 .1 .1' euler='40 35 0'", "size='.06'", .006, -.004, .222, "0 0 0"},
    {"type='cylinder' size='.09 .12' euler='90 0 0'", "size='.06'", .01, .02, .147, "0 0 0"},
    {"type='cylinder' size='.09 .12' euler='0 40 0'", "size='.06'", .01, .02, .201, "0 0 0"},
    {"type='box' size='.15 .15 .1' euler='3 2 0'", "type='box' size='.1 .05 .1'", .02, .03, .198, "2 4 30"},
    {"type='box' size='.15 .15 .1' euler='3 2 0'", "type='cylinder' size='.09 .1'", .1, .03, .197, "2 3 30"},
    {"type='box' size='.15 .15 .1' euler='3 2 0'", "type='cylinder' size='.09 .15'", .1, .03, .187, "91 3 30"},
    {"type='box' size='.15 .15 .1'", "type='cylinder' size='.09 .1'", .01, .03, .187, "90 0 0"},
    {"type='box' size='.15 .15 .1' euler='3 2 0'", "type='box' size='.3 .05 .1'", .02, .03, .198, "2 1 30"},
    {"type='box' size='.15 .15 .1'", "type='capsule' size='.05 .12'", .02, .1, .16, "90.3 0 20"},
    {"type='box' size='.1 .1 .1' euler='45 0 0'", "type='capsule' size='.05 .12'", .02, 0, .2, "85 0 40"},
    {kBox, "type='mesh' mesh='wedge'", .02, .01, .165, "10 10 0"},
    {"type='box' size='.1 .1 .1' euler='40 35 0'", "type='mesh' mesh='wedge'", -.05, -.06, .163, "2 3 0"},
};

inline std::string Touching(const Pair& pair, const std::string& cone, int condim) {
  const std::string geom =
      " condim='" + std::to_string(condim) + "' friction='.8 .05 .02' density='500' solimp='.6 .95 .02'/>";
  const auto text = [](double x) { return std::to_string(x) + " "; };
  return "<mujoco><option cone='" + cone +
         "' impratio='2'/><asset><mesh name='wedge' vertex='0 0 0  .2 0 0  0 .25 0  .05 .05 .2  "
         ".15 .1 .1'/></asset><worldbody><geom " +
         pair.still + geom + "<body pos='" + text(pair.x) + text(pair.y) + text(pair.z) + "' euler='" + pair.euler +
         "'><freejoint/><geom " + pair.moving + geom + "</body></worldbody></mujoco>";
}

// (G11) a chain whose capsules end in one centre
inline constexpr char kChain[] = R"(
<mujoco><worldbody><geom type="capsule" fromto="0 0 1 .2 0 1" size=".04" condim="4" friction=".8 .05 .02"/>
  <body pos=".2 0 1" euler="0 20 50"><joint type="ball"/><geom type="capsule" fromto="0 0 0 .15 0 0" size=".02" condim="4" friction=".8 .05 .02"/></body>
  </worldbody></mujoco>)";

inline constexpr char kTendonLimits[] = R"(
    <actuator>
      <position tendon="t3" kp="9" kv="2" gear="3"/><motor tendon="t3" gear="2"/><motor tendon="t3" gear="1" forcerange="-0.1 0.1"/>
      <position tendon="t5" kp="1" kv="0.1"/><motor tendon="t5" gear="0.1"/>
      <position tendon="t7" kp="90" kv="2"/>
    </actuator>)";

inline constexpr char kTendonRows[] = R"(
    <equality>
      <tendon tendon1="t0" polycoef="0.01 0 0 0 0"/>
      <tendon tendon1="t5" tendon2="t3" polycoef="0.01 0.5 0.7 -0.2 0.1"/>
    </equality>)";

}  // namespace costate::planted

#endif  // COSTATE_TESTS_PLANTED_SCENES_H_
