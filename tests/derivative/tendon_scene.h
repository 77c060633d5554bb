// Tendons over limbs with joints of every kind, and what acts through them: for the tests of moments and for plants.
#ifndef COSTATE_TESTS_DERIVATIVE_TENDON_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_TENDON_SCENE_H_

#include <string>

namespace costate {

// two limbs on a free base, joints of every kind; a sphere and a cylinder to wrap around, side sites outside and inside
inline constexpr char kBodies[] = R"(
  <worldbody>
    <site name="ceiling" pos="0.1 0.2 1.2"/>
    <body name="base" pos="0 0 0.5">
      <freejoint name="root"/><geom type="box" size="0.1 0.1 0.05" contype="0" mass="2"/>
      <site name="a" pos="0 -0.3 0.05" euler="10 20 30"/><site name="b" pos="0.05 -0.25 0.12"/><site name="g" pos="-0.12 -0.3 0.1"/>
      <body name="ball" pos="0.1 0 0">
        <joint name="ball" type="ball" damping="0.01"/>
        <geom name="sphere" size="0.08" contype="0" mass="0.5"/>
        <site name="side" pos="0 0 0.2"/><site name="in" pos="0 0 0.03"/>
        <body name="arm" pos="0 0.15 0">
          <joint name="hinge" axis="1 0.2 0"/><joint name="slide" type="slide" axis="0 1 0.2"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0 0.3 0" contype="0"/>
          <site name="c" pos="0 0.2 0.03" euler="40 0 50"/><site name="e" pos="0.02 0.1 0"/>
        </body>
      </body>
      <body name="leg" pos="-0.1 0 0">
        <joint name="knee" axis="0 1 0.1"/>
        <geom name="cylinder" type="cylinder" size="0.05 0.2" euler="5 8 0" contype="0" mass="0.4"/>
        <site name="rod" pos="0 0 0.15"/><site name="hollow" pos="0.01 0.01 0.02"/>
        <body name="foot" pos="0 0.2 0"><joint name="toe" axis="1 0 0"/><geom size="0.04" contype="0"/>
          <site name="f" pos="0.01 0.05 0.03" euler="0 30 0"/>
        </body>
      </body>
    </body>
  </worldbody>)";

inline constexpr const char* kPaths[] = {
    "<site site='a'/><site site='c'/>",
    "<site site='ceiling'/><site site='a'/><site site='e'/><site site='f'/>",
    "<site site='ceiling'/><site site='a'/><pulley divisor='2'/><site site='a'/><site site='c'/><pulley divisor='3'/>"
    "<site site='c'/><site site='f'/>",
    "<site site='a'/><geom geom='sphere'/><site site='c'/>",
    "<site site='a'/><geom geom='sphere' sidesite='side'/><site site='c'/><site site='f'/>",
    "<site site='b'/><geom geom='sphere' sidesite='in'/><site site='c'/>",
    "<site site='g'/><geom geom='cylinder'/><site site='f'/>",
    "<site site='a'/><geom geom='cylinder' sidesite='rod'/><site site='f'/><site site='c'/>",
    "<site site='b'/><geom geom='cylinder' sidesite='hollow'/><site site='f'/>",
    "<pulley divisor='2'/><site site='a'/><geom geom='cylinder' sidesite='hollow'/><site site='f'/><pulley "
    "divisor='1'/>"
    "<site site='b'/><geom geom='sphere'/><site site='e'/>",
};

inline std::string TendonModel(const std::string& attributes, const std::string& rest = "",
                               const std::string& option = "") {
  std::string xml = "<mujoco><option timestep='0.003'>" + option + "</option>" + kBodies + "<tendon>";
  int k = 0;
  for (const char* path : kPaths) {
    xml += "<spatial name='t" + std::to_string(k++) + "' " + attributes + ">" + path + "</spatial>";
  }
  return xml + "</tendon>" + rest + "</mujoco>";
}

inline constexpr char kTendonActuators[] = R"(
    <actuator>
      <muscle tendon="t3" lengthrange="0.2 0.8" force="40"/>
      <muscle tendon="t4" lengthrange="0.2 1.2" force="-1" tausmooth="0.3"/>
      <position tendon="t5" kp="30" kv="2" gear="3"/>
      <position tendon="t6" kp="30" kv="2" forcerange="-0.1 0.1"/>
      <general tendon="t7" gaintype="affine" gainprm="3 2 -1" biastype="affine" biasprm="1 -2 -0.5" dyntype="filter" dynprm="0.1"/>
      <general tendon="t8" gaintype="affine" gainprm="3 2 -1" ctrllimited="true" ctrlrange="-0.2 0.2"/>
      <damper tendon="t2" kv="3" ctrlrange="0 1"/>
    </actuator>)";

inline constexpr char kTransmissions[] = R"(
    <actuator>
      <position joint="ball" gear="1 -2 3" kp="1" kv="0.1"/>
      <position jointinparent="ball" gear="1 -2 3" kp="1" kv="0.1"/>
      <damper jointinparent="root" gear="1 -2 3 0.1 0.2 -0.4" kv="0.3" ctrlrange="0 1"/>
      <motor site="c" gear="1 2 3 0.1 0.2 0.3"/>
      <general site="c" gear="1 2 3 0.1 0.2 0.3" biastype="affine" biasprm="0.5 0 -0.1"/>
      <position site="c" refsite="f" gear="1 2 3 0.1 0.2 0.3" kp="2" kv="0.1"/>
      <general site="a" refsite="c" gear="1 0 2 0.3 2 0" gaintype="affine" gainprm="1 0.2 0.3"/>
      <position cranksite="c" slidersite="f" cranklength="1" gear="2" kp="3" kv="0.2"/>
      <position joint="knee" kp="5" kv="0.4"/>
      <position tendon="t7" kp="5" kv="0.4"/>
    </actuator>)";

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_TENDON_SCENE_H_
