// Bodies that the plugin costate.smooth_contact pushes.
#ifndef COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_

namespace costate {

/// floor, free box, ball and capsule; an arm on a moving cart whose tip touches its own base, with a ball joint on the way
inline constexpr char kYieldingHeap[] = R"(<mujoco>
  <option timestep="0.001"/>
  <extension>
    <plugin plugin="costate.smooth_contact">
      <instance name="ground">
        <config key="geom1" value="floor"/><config key="geom2" value="box ball capsule tip"/>
        <config key="stiffness" value="2e4"/><config key="friction" value="0.7"/><config key="stiction" value="0.3"/>
      </instance>
      <instance name="push">
        <config key="geom1" value="ball tip"/><config key="geom2" value="box capsule"/>
        <config key="stiffness" value="3e3"/><config key="exponent" value="1"/><config key="smoothing" value="0.02"/>
        <config key="dissipation" value="0.2"/>
      </instance>
      <instance name="self">
        <config key="geom1" value="tip"/><config key="geom2" value="base post ball"/><config key="stiffness" value="2e3"/>
        <config key="smoothing" value="0.03"/><config key="stiction" value="0.2"/>
      </instance>
    </plugin>
  </extension>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 .1" euler="2 3 0"/>
    <body pos="0 0 .098"><freejoint/><geom name="box" type="box" size=".1 .12 .1" mass="1"/></body>
    <body pos=".171 0 .1" euler="10 20 30"><freejoint/><geom name="ball" size=".075" mass=".5"/></body>
    <body pos="-.13 0 .05" euler="80 10 20"><freejoint/><geom name="capsule" type="capsule" size=".05 .1" mass=".4"/></body>
    <body name="cart" pos="0.2 0 .5"><joint type="slide" axis="1 0 0"/><joint name="turn" axis="0 0 1" pos=".1 0 0"/>
      <geom name="base" type="box" size=".05 .03 .02" mass="1"/><geom name="post" type="capsule" size=".02" fromto=".1 0 0 .1 0 -.2" mass=".3"/>
      <body pos="0 .05 -.05"><joint type="ball" damping=".01"/><geom type="capsule" size=".02" fromto="0 0 0 .05 0 -.1"/>
        <body pos=".05 0 -.1"><joint axis="0 1 0" damping=".01"/><geom name="tip" size=".04" pos="-.02 .01 .03"/></body></body></body>
  </worldbody>
  <actuator><motor joint="turn" gear="1"/></actuator>
</mujoco>)";

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_
