// Models that are hard to photograph, and what a picture shows.
#ifndef COSTATE_TESTS_VIEWER_SCENES_H_
#define COSTATE_TESTS_VIEWER_SCENES_H_

#include <algorithm>
#include <string>
#include <vector>

#include "viewer/offscreen.h"

namespace costate::viewer {

// a box that hops over a floor at 8 m/s, with contacts from the start
inline constexpr char kCar[] = R"(
<mujoco model="car">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 .1" rgba=".3 .4 .3 1"/>
    <camera name="above" pos="0 0 6"/>
    <camera name="side" pos="0 -5 1" xyaxes="1 0 0 0 0 1"/>
    <body name="car" pos="0 0 .11">
      <freejoint/>
      <geom name="body" type="box" size=".3 .15 .1" rgba=".8 .5 .2 1"/>
    </body>
  </worldbody>
  <keyframe><key name="go" qpos="0 0 .11 1 0 0 0" qvel="8 1 3 0 2 1"/></keyframe>
</mujoco>)";

inline constexpr char kPendulum[] = R"(
<mujoco model="pendulum">
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" axis="0 1 0"/>
      <geom name="rod" type="capsule" fromto="0 0 0 .4 0 -.3" size=".03" rgba=".8 .2 .2 1"/>
    </body>
  </worldbody>
  <actuator><motor name="torque" joint="hinge"/></actuator>
</mujoco>)";

// where the robot is in a picture
struct Coverage {
  int pixels = 0;
  int left = 1 << 30, right = -1, top = 1 << 30, bottom = -1;
};

inline Coverage RobotCoverage(const mjModel* model, const std::vector<int>& geoms, int width) {
  Coverage coverage;
  for (std::size_t i = 0; i < geoms.size(); ++i) {
    if (geoms[i] < 0 || model->body_weldid[model->geom_bodyid[geoms[i]]] == 0) continue;
    const int x = static_cast<int>(i) % width, y = static_cast<int>(i) / width;
    ++coverage.pixels;
    coverage.left = std::min(coverage.left, x);
    coverage.right = std::max(coverage.right, x);
    coverage.top = std::min(coverage.top, y);
    coverage.bottom = std::max(coverage.bottom, y);
  }
  return coverage;
}

// pixels that differ by more than what rounding does
inline int DifferentPixels(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 1 << 30;
  int n = 0;
  for (std::size_t i = 0; i < a.rgb.size(); i += 3) {
    int difference = 0;
    for (int k = 0; k < 3; ++k) difference = std::max(difference, std::abs(a.rgb[i + k] - b.rgb[i + k]));
    n += difference > 8;
  }
  return n;
}

}  // namespace costate::viewer

#endif  // COSTATE_TESTS_VIEWER_SCENES_H_
