// Contacts that the plugin costate.smooth_contact pushes with: geometry, force law, and its
// derivative. Section Y of README.md.
#ifndef COSTATE_DERIVATIVE_COMPLIANT_CONTACT_H_
#define COSTATE_DERIVATIVE_COMPLIANT_CONTACT_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/plugin_attributes.h"
#include "derivative/columns.h"
#include "derivative/compliant_touch.h"
#include "derivative/spatial.h"

namespace costate {

inline constexpr char kSmoothContact[] = "costate.smooth_contact";
inline constexpr const char* kSmoothContactAttributes[] = {"geom1",       "geom2",    "stiffness", "exponent",
                                                           "dissipation", "friction", "stiction",  "smoothing"};

struct CompliantLaw {
  double stiffness = 1e5;    ///< k [N/m^exponent]
  double exponent = 1.5;     ///< e
  double dissipation = 0.5;  ///< c [s/m]
  double friction = 0.8;     ///< μ
  double stiction = 0.01;    ///< v_s [m/s]
  double smoothing = 1e-3;   ///< ε [m]
};

/// Two geoms: places of one against the surface of the other.
struct CompliantPair {
  int surface = -1, feature = -1;
  CompliantLaw law;
};

/// The pairs of one instance of the plugin. @throws Error{kInvalidArgument} that names the
/// attribute, the geoms and what is wrong: shapes without a closed form, geoms that cannot move
/// against each other, geoms that the engine collides as well.
std::vector<CompliantPair> ReadCompliantPairs(const mjModel* model, int instance);

/// Adds the generalized force of a pair at the state of `data` (positions and qvel current).
/// (Y1)–(Y4)
void AddCompliantForce(const mjModel* model, const mjData* data, const CompliantPair& pair, mjtNum* qfrc);

/// All pairs of a model.
class CompliantContacts {
 public:
  explicit CompliantContacts(const mjModel* model);

  /// Adds ∂(force) to the columns q and v of R. (Y5)–(Y7)
  void AddDerivative(const mjModel* model, const mjData* data, Columns* R) const;

 private:
  std::vector<CompliantPair> pairs_;
};

/// Are all plugins that push passively of this kind?
bool PassivePluginsAreCompliant(const mjModel* model);

// ---- for the files of this subject ----

/// Touch points further apart than this many law.smoothing push by nothing: e^−40 is lost in rounding.
inline constexpr double kReach = 40;

/// The law at one relative velocity: the force on the feature and what its derivative is made of.
/// (Y2), (Y3)
struct TouchForce {
  Vec3 force = Vec3::Zero(), slip = Vec3::Zero();  ///< slip: v_t / ρ
  Vec3 whole = Vec3::Zero();                       ///< force of a share of 1
  double push = 0, by_distance = 0, by_speed = 0;  ///< normal force and its slopes
  double rho = 1, friction = 0;
};
TouchForce ForceAt(const CompliantLaw& law, const TouchPoint& touch, const Vec3& velocity);

/// Velocity of the feature's material against the surface's at the common point.
Vec3 RelativeVelocity(const mjModel* model, const mjData* data, const TouchPoint& touch);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_COMPLIANT_CONTACT_H_
