// Bodies on joints of every kind, for Jacobians and products alike.
#ifndef COSTATE_TESTS_DERIVATIVE_JOINT_SCENE_H_
#define COSTATE_TESTS_DERIVATIVE_JOINT_SCENE_H_

#include <mujoco/mujoco.h>

#include <string>

namespace costate {

/// A free body that carries a ball, a hinge and a slide with springs and dampers; `rest` stands behind the world's
/// bodies.
inline std::string SpringScene(const std::string& bodies, const std::string& rest) {
  return R"(
    <mujoco>
      <option timestep="0.003"/>
      <worldbody>
        <body>
          <freejoint name="root"/>
          <geom type="box" size="0.3 0.2 0.1" pos="0.1 0 0.05"/>
          <body pos="0.3 0 0">
            <joint name="ball" type="ball" stiffness="20" damping="0.3"/>
            <geom type="capsule" size="0.05 0.2" pos="0 0.1 0.2" contype="0"/>
            <body pos="0 0 0.4">
              <joint name="hinge" axis="0 1 0.2" stiffness="6" springref="20" damping="0.4"/>
              <joint name="slide" type="slide" axis="1 0 0.5" stiffness="90" damping="3"/>
              <geom type="box" size="0.05 0.1 0.1" contype="0"/>
            </body>
          </body>
        </body>)" +
         bodies + "</worldbody>" + rest + "</mujoco>";
}

/// Springs and dampers of all joints become polynomials.
inline void MakePolynomial(mjModel* m) {
  for (int j = 0; j < m->njnt; j++) m->jnt_stiffnesspoly[mjNPOLY * j] = 4, m->jnt_stiffnesspoly[mjNPOLY * j + 1] = 2;
  for (int i = 0; i < m->nv; i++) m->dof_dampingpoly[mjNPOLY * i] = 0.2, m->dof_dampingpoly[mjNPOLY * i + 1] = 0.1;
}

/// Two free bodies a, c, one with a ball joint b at its limit, and e on two hinges, with one equality.
inline std::string EqualityScene(const std::string& equality) {
  return R"(
    <mujoco>
      <worldbody>
        <body name="a" pos="0 0 0.14"><freejoint/><geom type="box" size="0.15 0.1 0.2"/>
          <body name="b" pos="0.3 0 0"><joint type="ball" range="0 15" limited="true"/><geom size="0.1" pos="0.1 0 0"/>
            <site name="s1" pos="0.1 0 0.1" euler="10 20 30"/>
          </body>
        </body>
        <body name="c" pos="0 0.5 0.14"><joint type="free" damping="0.2"/><geom type="box" size="0.15 0.1 0.3"/>
          <site name="s2" pos="-0.1 0.1 0" euler="50 0 30"/>
        </body>
        <body name="e" pos="1 0.5 0.14"><joint axis="0 1 0"/><joint axis="1 0 0"/><geom type="box" size="0.15 0.1 0.3"/></body>
      </worldbody>
      <equality>)" +
         equality + "</equality></mujoco>";
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_JOINT_SCENE_H_
