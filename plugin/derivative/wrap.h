// How a tendon's path around a sphere or cylinder bends as its end points move in the geom's frame. Equations
// (T4)–(T7).
#ifndef COSTATE_DERIVATIVE_WRAP_H_
#define COSTATE_DERIVATIVE_WRAP_H_

#include "derivative/spatial.h"

namespace costate {

/// A wrap in the frame of its geom, as the engine found it.
struct Wrap {
  bool cylinder = false;  ///< else a sphere
  bool inside = false;    ///< the side site is inside: the path touches the surface from within, at one point
  double radius = 0;
  Vec3 end[2];    ///< end points of the path
  Vec3 touch[2];  ///< where it meets the surface
};

struct WrapDerivative {
  Vec3 force[2];  ///< unit vectors from the surface to the ends: ∂length/∂end
  Mat6 H;         ///< ∂force/∂end
  Vec6 slack;     ///< ∂length − force: the engine's search for the inside point ends before the path is shortest
};

/// @return false where the path is not differentiable: both ends on one line with a sphere's centre.
bool Differentiate(const Wrap& wrap, WrapDerivative* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_WRAP_H_
