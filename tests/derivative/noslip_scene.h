// Rows that a noslip pass moves: contacts and dry friction, some sticking and some sliding.
#ifndef COSTATE_TESTS_DERIVATIVE_NOSLIP_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_NOSLIP_SCENE_H_

#include <string>

namespace costate {

// a sledge on a plane, a ball rolling on it, an arm with dry joints pushing both
inline std::string Pushing(const char* cone, int condim) {
  return R"(<mujoco><option timestep="0.004" cone=")" + std::string(cone) +
         R"(" noslip_iterations="4" noslip_tolerance="0"/>
    <default><geom solimp="0.8 0.95 0.01" friction="0.5 0.05 0.02" condim=")" +
         std::to_string(condim) + R"("/></default>
    <worldbody>
      <geom type="plane" size="3 3 1" euler="3 -2 10"/>
      <body name="sledge" pos="0 0 0.11"><freejoint/><geom type="box" size="0.3 0.2 0.1"/></body>
      <body name="ball" pos="0.05 0.02 0.3"><freejoint/><geom size="0.1"/></body>
      <body name="arm" pos="-0.6 0 0.3"><joint name="a" axis="0 1 0.1" frictionloss="4" damping="0.1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0"><joint name="b" type="ball" frictionloss="0.3" damping="0.02"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.25 0 0.01"/></body></body>
      <body pos="0 1 0.5"><joint name="c" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" contype="0" conaffinity="0"/>
        <body pos="0.2 0 0"><joint name="d" axis="0 1 0" frictionloss="0.2"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" contype="0" conaffinity="0"/></body></body>
    </worldbody>
    <tendon><fixed frictionloss="0.4"><joint joint="c" coef="1"/><joint joint="d" coef="-0.7"/></fixed></tendon>
    <actuator><motor joint="a" gear="4"/></actuator></mujoco>)";
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_NOSLIP_SCENE_H_
