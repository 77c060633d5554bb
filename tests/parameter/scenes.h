// Small models in which every family of parameters acts.
#ifndef COSTATE_TESTS_PARAMETER_SCENES_H_
#define COSTATE_TESTS_PARAMETER_SCENES_H_

#include <costate/state.h>

#include <cmath>

#include <string>
#include <vector>

namespace costate::support {

struct ParameterScene {
  const char* name;
  std::string xml;
  std::vector<std::string> parameters;
  int steps = 60;  // before the point
};

inline const char* kContactScene = R"(
<mujoco model="contact">
  <option timestep="0.004" gravity="0.3 -0.2 -9.7"/>
  <default><geom solimp="0.8 0.95 0.01" friction="0.7 0.02 0.01"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.5 0.01 0.005"/>
    <body name="base" pos="0 0 0.345" simple="false">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size="0.3 0.2 0.06" density="700"/>
      <body name="leg1" pos="0.25 0.2 0">
        <joint name="hip1" axis="0 1 0" damping="0.4" stiffness="3" springref="0.1" range="-30 0.5" limited="true"/>
        <geom name="leg1" type="capsule" size="0.04" fromto="0 0 0 0.02 0 -0.3" condim="4"/>
        <body name="foot1" pos="0.02 0 -0.3">
          <joint name="ankle1" type="ball" damping="0.05" stiffness="0.7"/>
          <geom name="foot1" type="sphere" size="0.05" condim="6"/>
        </body>
      </body>
      <body name="leg2" pos="-0.2 0.18 0">
        <joint name="hip2" axis="0.2 1 0" armature="0.02" frictionloss="0.3"/>
        <geom name="leg2" type="capsule" size="0.05" fromto="0 0 0 -0.05 0 -0.3" solref="0.03 0.8"/>
      </body>
      <body name="leg3" pos="0 -0.25 0">
        <joint name="swing3" axis="1 0 0" damping="0.2"/>
        <joint name="slide3" type="slide" axis="0 0.1 1" stiffness="400" damping="9"/>
        <geom name="leg3" type="cylinder" size="0.03 0.15" pos="0 0 -0.13" condim="1"/>
      </body>
    </body>
    <body name="load" pos="0.02 0.01 0.485"><freejoint/><geom name="load" type="sphere" size="0.085"/></body>
  </worldbody>
  <contact><pair name="load" geom1="load" geom2="trunk" friction="0.5 0.5 0.01 0.001 0.001" condim="4"/></contact>
  <actuator><position name="hip1" joint="hip1" kp="30" kv="1"/><motor name="hip2" joint="hip2" gear="12"/></actuator>
  <sensor><framepos objtype="body" objname="foot1"/><accelerometer site="none"/></sensor>
</mujoco>)";

inline std::vector<ParameterScene> ParameterScenes() {
  std::string contact = kContactScene;
  contact.replace(contact.find("<accelerometer site=\"none\"/>"), std::string("<accelerometer site=\"none\"/>").size(),
                  "<actuatorfrc actuator=\"hip1\"/><subtreelinvel body=\"base\"/>");
  return {
      {"contact", contact, {"body:base/mass",
                            "body:leg1/scale",
                            "body:leg3/inertia",
                            "body:foot1/inertia[0]",
                            "body:leg2/ipos[2]",
                            "body:load/diaginertia[0]",
                            "joint:hip1/damping",
                            "joint:ankle1/damping[1]",
                            "joint:hip1/stiffness",
                            "joint:hip1/springref",
                            "joint:ankle1/stiffness",
                            "joint:hip2/armature",
                            "joint:hip2/frictionloss",
                            "joint:hip1/range[1]",
                            "joint:hip1/solreflimit[0]",
                            "joint:hip2/solimpfriction[0]",
                            "joint:hip2/axis[0]",
                            "geom:foot1/size[0]",
                            "geom:leg2/size[0]",
                            "geom:leg2/size[1]",
                            "geom:leg2/pos[2]",
                            "geom:leg2/rotation[1]",
                            "geom:foot1/friction[0]",
                            "geom:leg2/friction[0]",
                            "geom:floor/solref[0]",
                            "geom:floor/solref[1]",
                            "geom:floor/solimp[0]",
                            "geom:floor/solimp[2]",
                            "geom:leg2/solmix",
                            "geom:floor/pos[2]",
                            "pair:load/friction[0]",
                            "pair:load/solref[0]",
                            "body:leg1/pos[2]",
                            "body:foot1/pos[2]",
                            "body:leg1/rotation[1]",
                            "option/gravity[2]",
                            "option/gravity[0]",
                            "option/impratio",
                            "actuator:hip1/kp",
                            "actuator:hip1/kv",
                            "actuator:hip2/gear[0]"}},
      {"arm",
       R"(
<mujoco model="arm">
  <option timestep="0.005" gravity="0 0 -9.81" density="3" viscosity="0.02" wind="0.5 0.2 0.1"/>
  <worldbody>
    <site name="anchor" pos="0.3 0.1 0.5"/>
    <geom name="drum" type="cylinder" size="0.05 0.2" pos="0.25 0 0.05" zaxis="0 1 0" contype="0" conaffinity="0"/>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0.3" damping="0.3" ref="0.1" stiffness="1"/>
      <geom name="upper" type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" fluidshape="ellipsoid"/>
      <site name="mid" pos="0.2 0.02 0.04"/>
      <body name="fore" pos="0.3 0 0">
        <joint name="elbow" axis="0 1 0" frictionloss="0.05" damping="0.02"/>
        <geom name="fore" type="box" size="0.13 0.03 0.02" pos="0.12 0.01 0" euler="10 20 5" contype="0"/>
        <site name="tip" pos="0.25 0 0.02"/>
        <body name="mimic" pos="0.25 0 0.02">
          <joint name="wrist" axis="1 0 0" damping="0.01"/>
          <geom type="box" size="0.05 0.03 0.02" contype="0"/>
          <body name="tool" pos="0.1 0 0"><joint name="twist" type="ball"/><geom type="box" size="0.08 0.04 0.06" pos="0.05 0.01 0" contype="0"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="pair" stiffness="5" damping="0.3" frictionloss="0.1" springlength="0.1 0.12">
      <joint joint="shoulder" coef="0.7"/><joint joint="elbow" coef="-0.4"/>
    </fixed>
    <spatial name="cord" stiffness="20" damping="0.5" springlength="0.2" range="0 0.8" limited="true">
      <site site="anchor"/><geom geom="drum"/><site site="mid"/><site site="tip"/>
    </spatial>
  </tendon>
  <equality>
    <joint name="couple" joint1="wrist" joint2="elbow" polycoef="0.1 0.5 0.2 0 0"/>
    <connect name="pin" body1="tool" anchor="0.1 0 0" body2="upper" active="false"/>
  </equality>
  <actuator>
    <position name="servo" joint="shoulder" kp="30" kv="1"/>
    <general name="exact" joint="shoulder" dyntype="filterexact" dynprm="0.05" gainprm="8" biastype="affine" biasprm="0 -2 -0.3"/>
    <general name="filter" tendon="pair" dyntype="filter" dynprm="0.1" gaintype="affine" gainprm="3 1 0.5" gear="1.5"/>
    <general name="integrate" joint="elbow" dyntype="integrator" gainprm="2" actrange="-0.02 0.02" actlimited="true"/>
    <muscle name="muscle" tendon="cord" force="20" lengthrange="0.1 0.6"/>
    <velocity name="drive" joint="wrist" kv="0.2"/>
    <motor name="weak" joint="elbow" forcerange="-0.02 0.02"/>
  </actuator>
  <sensor>
    <framepos objtype="site" objname="tip"/><tendonpos tendon="cord"/><actuatorfrc actuator="filter"/>
    <accelerometer site="tip"/><jointpos joint="elbow"/>
  </sensor>
</mujoco>)",
       {"body:upper/mass",
        "body:fore/inertia",
        "body:tool/scale",
        "joint:shoulder/damping",
        "joint:shoulder/stiffness",
        "joint:shoulder/ref",
        "joint:elbow/frictionloss",
        "joint:elbow/armature",
        "joint:elbow/pos[0]",
        "joint:elbow/axis[2]",
        "joint:twist/damping[0]",
        "geom:upper/size[0]",
        "geom:upper/fluid[1]",
        "geom:drum/size[0]",
        "geom:drum/pos[2]",
        "site:mid/pos[2]",
        "site:anchor/pos[0]",
        "tendon:pair/stiffness",
        "tendon:pair/damping",
        "tendon:pair/springlength",
        "tendon:pair/coef[0]",
        "tendon:pair/frictionloss",
        "tendon:cord/stiffness",
        "tendon:cord/damping",
        "tendon:cord/springlength",
        "tendon:cord/range[1]",
        "tendon:cord/solreflimit[0]",
        "equality:couple/data[1]",
        "equality:couple/solref[0]",
        "equality:couple/solimp[0]",
        "body:fore/pos[0]",
        "body:mimic/rotation[2]",
        "option/gravity[2]",
        "option/density",
        "option/viscosity",
        "option/wind",
        "actuator:servo/kp",
        "actuator:servo/kv",
        "actuator:exact/timeconst",
        "actuator:exact/gainprm[0]",
        "actuator:exact/biasprm[1]",
        "actuator:filter/timeconst",
        "actuator:filter/gear[0]",
        "actuator:filter/gainprm[1]",
        "actuator:integrate/actrange[1]",
        "actuator:muscle/lengthrange[1]",
        "actuator:muscle/timeconst[0]",
        "actuator:muscle/gainprm[2]",
        "actuator:weak/forcerange[1]",
        "actuator:drive/kv",
        "actuator:servo/armature",
        "actuator:servo/damping"}},
      {"closed",
       R"(
<mujoco model="closed">
  <option timestep="0.003" gravity="0.5 -0.3 -9.7"/>
  <default><geom friction="0.8 0.02 0.01"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.5 0.01 0.005"/>
    <body name="trunk" pos="0 0 0.33" simple="false">
      <freejoint/>
      <geom name="trunk" type="box" size="0.2 0.12 0.08"/>
      <body name="thigh" pos="0.15 0.1 -0.05">
        <joint name="hip" axis="0.2 1 0" damping="0.5" stiffness="4" springref="10" armature="0.02" range="-30 0.5" limited="true"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.02 0.01 -0.15"/>
        <geom type="box" size="0.02 0.03 0.01" pos="0.02 0 -0.05" euler="20 10 0"/>
        <body name="shank" pos="0.02 0.01 -0.15">
          <joint name="ankle" type="ball" damping="0.05" frictionloss="0.01"/>
          <geom name="foot" type="sphere" size="0.05" pos="0.01 0 -0.06" condim="6" adhesion="60"/>
          <geom type="box" size="0.02 0.01 0.03" euler="0 30 10"/>
        </body>
      </body>
      <body name="tail" pos="-0.2 0 0">
        <joint name="tail" axis="0 0 1" frictionloss="0.02" armature="0.01"/>
        <joint name="reach" type="slide" axis="1 0.1 0" stiffness="60" damping="3" frictionloss="0.5"/>
        <geom type="box" size="0.1 0.02 0.03" pos="-0.1 0.01 0"/>
      </body>
    </body>
    <body name="left" pos="0.6 0 0.5">
      <joint name="left" axis="0 1 0" damping="0.1"/><geom type="box" size="0.02 0.03 0.1" pos="0 0.01 -0.1"/>
      <body name="welded" pos="0.1 0 -0.2"><joint type="ball"/><geom type="box" size="0.03 0.04 0.05" pos="0.02 0 0"/></body>
    </body>
    <body name="right" pos="0.9 0 0.5">
      <joint name="right" axis="0 1 0"/><geom type="box" size="0.03 0.02 0.1" pos="0 0.01 -0.1"/>
      <body name="pinned" pos="-0.1 0 -0.2"><joint type="ball"/><geom type="box" size="0.05 0.04 0.03" pos="-0.02 0.01 0"/></body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="sum" frictionloss="0.05" range="-1 0.0005" limited="true"><joint joint="left" coef="1"/><joint joint="right" coef="0.5"/></fixed>
    <fixed name="one"><joint joint="tail" coef="1"/></fixed><fixed name="two"><joint joint="reach" coef="1"/></fixed>
  </tendon>
  <equality>
    <weld body1="left" body2="welded"/>
    <connect body1="right" body2="pinned" anchor="-0.1 0 -0.2"/>
    <tendon tendon1="one" tendon2="two" polycoef="0 2 0 0 0"/>
    <joint joint1="left" joint2="right" polycoef="0 1.1 0 0 0"/>
  </equality>
  <actuator><motor joint="hip" gear="3"/><motor joint="left"/><position joint="right" kp="5"/></actuator>
</mujoco>)",
       {"option/gravity",           "body:trunk/mass",         "body:thigh/inertia",       "body:shank/scale",
        "body:tail/ipos",           "body:tail/diaginertia",   "body:left/inertia[0]",     "body:left/inertia[9]",
        "body:welded/mass",         "body:pinned/scale",       "body:right/inertia[5]",    "joint:hip/damping",
        "joint:hip/stiffness",      "joint:hip/springref",     "joint:hip/armature",       "joint:ankle/damping",
        "joint:ankle/frictionloss", "joint:tail/frictionloss", "joint:tail/armature",      "joint:reach/stiffness",
        "joint:reach/springref",    "joint:reach/damping",     "joint:reach/frictionloss", "joint:left/damping",
        "joint:right/armature"}},
  };
}

/// A state reached under controls of both signs.
inline DataPtr ScenePoint(const mjModel* model, int steps) {
  DataPtr data = MakeData(model);
  for (int k = 0; k < steps; k++) {
    for (int i = 0; i < model->nu; i++) data->ctrl[i] = 0.3 * std::sin(1 + i + 0.02 * k);
    mj_step(model, data.get());
  }
  return data;
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_PARAMETER_SCENES_H_
