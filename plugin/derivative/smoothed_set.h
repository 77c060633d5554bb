// An active set without edges: each row acts by a share between 0 and 1. Section W of README.md.
#ifndef COSTATE_DERIVATIVE_SMOOTHED_SET_H_
#define COSTATE_DERIVATIVE_SMOOTHED_SET_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

namespace costate {

/// Why levels 2 and 3 have no smoothed derivative.
inline constexpr char kSmoothedAtLevel1[] = "a smoothed active set is there at the analytic level alone";

/// What a coverage says of it.
std::string SmoothingText(double width);

/// Puts smoothed second derivatives of the constraint cost into efc_D and the cone Hessians of
/// `data`, and efc_state of what then acts to the states that use them; forces stay. (W1)–(W3)
/// @param width  [m/s^2, rad/s^2] of a switch.  @param y  scratch.
/// @pre `data` is at the solution: states and forces at J a − aref. Only a mj_forward makes it
/// whole again.
void SmoothActiveSet(const mjModel* model, mjData* data, double width, std::vector<double>* y);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SMOOTHED_SET_H_
