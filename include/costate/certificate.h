// What a derivative holds for: the switches of a step near a point, and how far each is from switching.
#ifndef COSTATE_CERTIFICATE_H_
#define COSTATE_CERTIFICATE_H_

#include <string>
#include <vector>

#include <costate/types.h>
#include <mujoco/mujoco.h>

namespace costate {

/// One place where the step's formula changes: a contact, a limit, dry friction, a clamp.
struct Switch {
  std::string name;     ///< "contact of foot and floor", "limit of joint knee", "ctrl[hip]"
  std::string state;    ///< which side: "slides", "sticks", "apart", "pushes", "below", "inside", "clamped"
  std::string next;     ///< what the nearest switch is: "onset", "release", "stick or slip", "limit", "clamp"
  double distance = 0;  ///< to it, at least 0; 0: the point lies on it
  std::string unit;     ///< of the distance: "m", "rad", "m/s^2", "N", "of ctrl", …
  bool active = false;  ///< part of the active set: it carries a force, or clamps
};

enum class Smoothness {
  kSmooth,        ///< no switch within reach: the derivative is two-sided there
  kModeCrossing,  ///< some switch is within reach: the derivative is that of the side of the point
  kSmoothed,      ///< the derivative is that of another, smoother model, or of an active set without edges
};
const char* ToString(Smoothness label);  ///< "smooth", "mode-crossing", "smoothed"

/// The engine's own acceleration where its solver ends before it has converged. A derivative holds for the converged
/// one.
struct SolverGap {
  double size = 0;   ///< largest |engine − converged| over the largest |converged|, or over 1 where that is less
  std::string name;  ///< where it is largest: "qvel[knee]"; "" without a gap
  double engine = 0, converged = 0;  ///< qacc there, noslip apart [m/s^2, rad/s^2]
  /// Of their slopes along a nudge of positions and one of velocities: largest |engine − converged| over the largest
  /// |converged|. May be a thousand times the size: iterations turn with their start. 0 for sizes below 1e-9.
  double slope = 0;
};

struct Certificate {
  Smoothness label = Smoothness::kSmooth;
  std::vector<Switch> switches;  ///< the nearest of each unit first
  std::vector<std::string>
      one_sided;         ///< inputs and activations on the edge of a clamp: the slope inside; muscles with ctrl = act:
                         ///< (A3) in plugin/derivative/README.md
  SolverGap solver_gap;  ///< by iterations and tolerance of the model, from the warm start of `data`
  bool valid = true;     ///< false: the step fails at this point, nothing else is filled
};

struct CertifyOptions {
  double reach = 1e-6;      ///< a switch at most this far away, in its own unit, makes the point mode-crossing
  double proximity = 0.02;  ///< [m] geoms that are at most this far from their contact's onset are listed
};

/// Looks at the switches about the state, control and context of `data`: contacts (onset and release, stick or slip),
/// joint and tendon limits, friction loss, force limits of actuators, joints and tendons, cutoffs of sensors, ctrlrange
/// and actrange, rise or fall of muscles, reversal of quadratic dampers, of drag in fluids and of muscles where the
/// integrator is implicit in them, corners of impedances, borders of features that touch, contacts that jump, contacts
/// that a sensor chooses, nearest points that a search ends near, tendons that begin or cease to wrap, slack ranges of
/// their springs, edges of flexes that come to push or pull under the discrete integrator (of each flex the nearest),
/// forces and activations of 1e12 and more, whose rounding hides all else. Distances of rows that push
/// are those of the acceleration at which their force ends; everything else is a distance of the state. Where none of
/// them is within reach, each coordinate, velocity, activation and control is nudged by it, and a step that takes
/// another branch is listed too ("of a nudge"): plastic yield, rows of light bodies whose acceleration a nudge changes
/// by much, contacts that appear beside others, nearest points of parallel geoms and rays at edges. Strictly beyond a
/// clamp the derivative is zero; exactly on it, as Linearizer::Linearize, it is the slope inside.
///
/// @post   `data` is only read.  Cost: mj_forward, and to convergence, one collision pass, up to 12 collisions of each
///         pair that pushes and those of the pairs that the derivative differences; then 2 (ndx + nu) converged steps,
///         unless a switch is within reach or reach is 0; 16 of mj_forward where the solver ends early. Allocates.
/// @throws as Linearizer::Linearize for a state or control that is not finite; Error{kInvalidArgument} for options that
///         are negative or no numbers, and where a callback of the engine asks in a step that Costate simulates.
Certificate Certify(const mjModel* model, const mjData* data, const CertifyOptions& options = {});

}  // namespace costate

#endif  // COSTATE_CERTIFICATE_H_
