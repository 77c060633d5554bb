// A box lying on another, turned about the normal: edges of one are cut on the borders of the other's face.
#ifndef COSTATE_TESTS_DERIVATIVE_CROSSED_BOXES_H_
#define COSTATE_TESTS_DERIVATIVE_CROSSED_BOXES_H_

#include <cstdio>
#include <string>

#include "support/random_state.h"

namespace costate {

/// @param tilt  largest angle between the faces [degrees].
inline std::string CrossedBoxes(const char* cone, unsigned seed, double tilt) {
  support::Random random(seed);
  char xml[1200];
  const double yaw = random.Uniform(5, 85), x = random.Uniform(-.08, .08), y = random.Uniform(-.08, .08);
  const double a = random.Uniform(.1, .3), b = random.Uniform(.05, .15), c = random.Uniform(.1, .3),
               d = random.Uniform(.05, .15);
  std::snprintf(xml, sizeof xml,
                R"(<mujoco><option cone="%s" timestep="0.002"/><default><geom solimp=".8 .95 .01"/></default><worldbody>
      <geom type="box" size="%g %g .1" pos="0 0 .1"/>
      <body pos="%g %g .2494" euler="%g %g %g"><freejoint/><geom type="box" size="%g %g .05"/></body></worldbody></mujoco>)",
                cone, a, b, x, y, tilt * random.Uniform(-1, 1), tilt * random.Uniform(-1, 1), yaw, c, d);
  return xml;
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_CROSSED_BOXES_H_
