// Smooth contact is a model, not a mode: a user's model in, a model with smoother contact out.
#ifndef COSTATE_SMOOTH_CONTACT_H_
#define COSTATE_SMOOTH_CONTACT_H_

#include <string>
#include <vector>

#include <costate/model.h>

namespace costate {

/// What is made smoother; nothing named: all contacts and all limits (with `friction` also all dry friction of joints
/// and tendons).
struct SmoothTargets {
  struct GeomPair {
    std::string geom1{}, geom2{};
  };
  std::vector<std::string> geoms{};    ///< every contact of these geoms
  std::vector<GeomPair> pairs{};       ///< contacts between these two
  std::vector<std::string> joints{};   ///< limits and dry friction of these
  std::vector<std::string> tendons{};  ///< likewise
  bool all() const { return geoms.empty() && pairs.empty() && joints.empty() && tendons.empty(); }
};

/// Strategies, mild to strong. Each has one strength, 0: off; they combine.
struct SmoothContact {
  /// Impedance rises from nothing at touch to its full value at this depth [m; rad at limits of hinges]; the engine
  /// keeps 1e-4.
  double onset = 0;
  /// Time constant of penetration at least this long [s], at the same damping ratio. Below 2 timesteps the engine's
  /// refsafe makes it 2 timesteps.
  double softness = 0;
  /// Contact forces begin this far before touch [m], from nothing. Limits take part where they are named [m or rad].
  double distance = 0;
  /// Slope of friction acceleration over slip velocity [1/s]: a contact with effective mass m brakes slow slip by m ·
  /// friction newtons for each m/s. Larger is closer to Coulomb; the model's own is about 1e3 … 1e4.
  double friction = 0;
  /// Width of the switch of a constraint row [m/s^2 or rad/s^2], in derivatives alone: LinearizeOptions::smoothing.
  double solver = 0;
  SmoothTargets targets{};
  bool any() const { return onset > 0 || softness > 0 || distance > 0 || friction > 0 || solver > 0; }
};

/// What one strategy changed, and what that does to the motion.
struct SmoothChange {
  std::string strategy, unit;  ///< "onset", "m"
  double strength = 0;
  int elements = 0;    ///< geoms, pairs, joints, tendons … that were changed
  std::string motion;  ///< a sentence: what changes in the forward motion
  /// How much of its stopping acceleration (reference less free) a row applies at once when it begins to act, the worst
  /// of what was changed: solimp[0] before; 1e-4, which the engine holds, after onset or distance.
  double jump_before = 0, jump_after = 0;
};

struct SmoothModel {
  ModelPtr model;                     ///< same sizes of x, u and s as the user's
  double smoothing = 0;               ///< SmoothContact::solver, for LinearizeOptions::smoothing
  std::string label;                  ///< "smoothed: onset 0.005 m, distance 0.02 m"
  std::vector<SmoothChange> changes;  ///< one a strategy
};

/// Makes a model with smoother contact; `model` is not modified. What is not named stays bit for bit as it was:
/// contacts of named geoms become explicit pairs with the parameters that the engine would have mixed, then those are
/// changed.
///
/// @throws Error{kInvalidArgument} for an unknown name (with the nearest one), a strength that is negative or not
///         finite, and for names that cannot be had: friction of named contacts in a model with pyramidal cones (the
///         elliptic one has a friction of its own), contacts of a model whose option flag "override" sets all of them.
/// Cost: a copy of the model; with named geoms one entry for each geom that can touch them.
/// Source: plugin/smooth/README.md.
SmoothModel MakeSmoothModel(const mjModel* model, const SmoothContact& options);

/// The same at another strength: 1 as it is, 0 the true model. Lengths and times scale, the slope of friction is
/// divided.
SmoothContact ScaleSmooth(const SmoothContact& options, double factor);

/// "onset 0.005 m, distance 0.02 m"; "none".
std::string ToString(const SmoothContact& options);

/// Reads "none", "onset", "distance:0.02", "onset:0.001,friction:5" or "auto" (onset and distance, sized by the model's
/// bodies).
/// @throws Error{kInvalidArgument} that names the word: one that is none, no strength, or given twice.
SmoothContact ParseSmooth(const mjModel* model, const std::string& text);

/// Reads "geom:foot,pair:foot/floor,joint:knee,tendon:cord".
/// @throws Error{kInvalidArgument} that names the word.
SmoothTargets ParseSmoothTargets(const std::string& text);

}  // namespace costate

#endif  // COSTATE_SMOOTH_CONTACT_H_
