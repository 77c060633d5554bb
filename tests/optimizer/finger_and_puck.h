// A finger on a rail before a puck that it does not touch: no control moves the puck to first order.
#ifndef COSTATE_TESTS_OPTIMIZER_FINGER_AND_PUCK_H_
#define COSTATE_TESTS_OPTIMIZER_FINGER_AND_PUCK_H_

namespace costate {

inline constexpr char kFingerAndPuck[] = R"(<mujoco model="push"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body><joint name="finger" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/></body>
    <body pos="0.15 0 0"><joint name="puck" type="slide" axis="1 0 0" damping="1"/><geom size="0.05" mass="1"/></body></worldbody>
  <actuator><motor joint="finger" ctrlrange="-20 20"/></actuator></mujoco>)";

}  // namespace costate

#endif  // COSTATE_TESTS_OPTIMIZER_FINGER_AND_PUCK_H_
