// Bodies that the plugin costate.smooth_contact pushes.
#ifndef COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_

namespace costate {

/// floor, free box, ball and capsule; an arm on a moving cart whose tip touches its own base, with a ball joint on the
/// way
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

/// cylinders, ellipsoid and stone on a floor; boxes on each other; capsules that cross, one that ends on another, and
/// an arm whose parts lie across an edge and at a corner of its own base
inline constexpr char kYieldingShapes[] = R"(<mujoco>
  <option timestep="0.001"/>
  <extension>
    <plugin plugin="costate.smooth_contact">
      <instance name="ground">
        <config key="geom1" value="floor"/><config key="geom2" value="roll drum egg stone"/>
        <config key="stiffness" value="2e3"/><config key="friction" value="0.7"/><config key="stiction" value="0.3"/>
        <config key="smoothing" value="0.02"/>
      </instance>
      <instance name="stack">
        <config key="geom1" value="box"/><config key="geom2" value="lid"/>
        <config key="stiffness" value="1e3"/><config key="smoothing" value="0.02"/><config key="stiction" value="0.2"/>
      </instance>
      <instance name="bars">
        <config key="geom1" value="bar"/><config key="geom2" value="rod stick"/>
        <config key="stiffness" value="1e3"/><config key="smoothing" value="0.03"/><config key="stiction" value="0.2"/>
      </instance>
      <instance name="self">
        <config key="geom1" value="leg arm"/><config key="geom2" value="step"/>
        <config key="stiffness" value="1e3"/><config key="smoothing" value="0.03"/><config key="stiction" value="0.2"/>
      </instance>
    </plugin>
  </extension>
  <asset><mesh name="stone" vertex="0 0 .1  .1 .02 -.04  -.06 .08 -.05  -.03 -.09 -.06  .05 .05 .05"/></asset>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 3 .1" euler="2 3 0"/>
    <body pos="-.4 0 .08" euler="85 10 0"><freejoint/><geom name="roll" type="cylinder" size=".1 .12" mass="1"/></body>
    <body pos="-.8 0 .16" euler="5 3 0"><freejoint/><geom name="drum" type="cylinder" size=".1 .12" mass="1"/></body>
    <body pos="-1.2 0 .12" euler="20 30 40"><freejoint/><geom name="egg" type="ellipsoid" size=".1 .07 .05" mass=".6"/></body>
    <body pos="-1.6 0 .16" euler="10 20 30"><freejoint/><geom name="stone" type="mesh" mesh="stone" mass=".6"/></body>
    <body pos="1 0 .1"><freejoint/><geom name="box" type="box" size=".1 .12 .1" mass="1"/></body>
    <body pos="1.02 .03 .28" euler="5 3 20"><freejoint/><geom name="lid" type="box" size=".08 .1 .09" mass=".7"/></body>
    <body pos="2 0 .5" euler="0 90 0"><freejoint/><geom name="bar" type="capsule" size=".03 .2" mass="1"/></body>
    <body pos="2.05 0 .56" euler="80 10 0"><freejoint/><geom name="rod" type="capsule" size=".03 .15" mass=".5"/></body>
    <body pos="1.9 0 .66" euler="10 10 0"><freejoint/><geom name="stick" type="capsule" size=".03 .1" mass=".4"/></body>
    <body pos="3 0 .2"><joint type="slide" axis="1 0 0"/><joint axis="0 0 1"/>
      <geom name="step" type="box" size=".1 .2 .1" mass="1"/>
      <body pos=".125 0 .125" euler="0 0 20"><joint type="ball" damping=".01"/>
        <geom name="leg" type="capsule" size=".03" fromto="-.1 .02 .1 .1 -.03 -.1" mass=".5"/>
        <body pos="0 .19 0"><joint axis="0 1 0" damping=".01"/>
          <geom name="arm" type="capsule" size=".03" fromto="-.1 .07 .055 .1 -.02 -.035" mass=".3"/></body></body></body>
  </worldbody>
</mujoco>)";

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_YIELDING_SCENE_H_
