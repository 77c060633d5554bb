// Physical parameters: floats of mjModel by name, with units and bounds; a copy of the model in which they are changed.
#ifndef COSTATE_PARAMETER_H_
#define COSTATE_PARAMETER_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <costate/model.h>

namespace costate {

/// One number of a model. Names are `kind:element/field[index]`, fields named as in MJCF:
///   "joint:hip/damping"  "geom:foot/friction[0]"  "body:link2/pos[2]"  "actuator:knee/gainprm[0]"  "option/gravity[2]"
/// An element without name is named by its number ("geom:3/size[0]").
struct Parameter {
  std::string name;             ///< with its index, unless the field has a single entry
  std::string unit;             ///< "kg", "N m/rad" …; "1" for plain numbers
  double value = 0;             ///< in the model as given
  double lower = 0, upper = 0;  ///< values outside are not physical and are refused; ±infinity where there is none
  /// The engine takes values outside as these (solref's time constant, solimp, friction of contacts); exactly there the
  /// derivative is that of inside.
  double clamp_lower = -std::numeric_limits<double>::infinity(), clamp_upper = std::numeric_limits<double>::infinity();
  double nudge = 0;        ///< differences move it by this much: small against the length over which the step bends
  bool one_sided = false;  ///< now at a bound where the step has a corner: friction loss 0, from where a row appears
  bool derived = false;    ///< constants that the engine derives (mj_setConst) are made anew when it changes
  std::string note;        ///< what a change leaves as it is, or why it has no effect; "" otherwise
};

/// Some numbers of a model, and the model with their current values. The caller's model is never modified.
///
/// Besides the fields of mjModel there are, for each body:
///   inertia[0 … 9]   mass, centre of mass and inertia by the log-Cholesky factor of the pseudo-inertia: every value is
///                    physical. See LogCholesky.
///   scale            factor on mass and inertia, 1 as given: another density of the same shape
///   rotation[0 … 2]  turn of the body against its parent [rad], about its own axes, 0 as given
/// and for actuators kp and kv (position and velocity servos: gain and bias together), force (a muscle's peak, likewise)
/// and timeconst (dynprm[0]).
///
/// Masses that the compiler took from geoms are numbers of the body: mjModel keeps no density. Another geom size
/// changes contact, fluid and tendon wrapping, not the mass; give "scale" or "inertia" of the body as well if it
/// should. What the compiler alone derives keeps its value: dampratio, springdamper, spring lengths, keyframes,
/// statistics.
///
/// Friction of two geoms that touch: the larger acts. Where both are equal, as by default, that by either one has a
/// corner: more of it acts, less does not. Derivatives are half the slope by more. With contacts between geoms that are
/// given as <pair>, or with another friction or priority of one of both, there is no corner.
///
/// Source: plugin/parameter/README.md.
class ParameterSet {
 public:
  /// @param names  as above; without "[index]" all entries of the field.
  /// @throws Error{kInvalidArgument} for an unknown element, field or index (the message names near ones), a number
  ///         named twice, or two that write the same number (inertia and mass of one body); Error{kUnsupported} for one
  ///         that the engine derives by itself or fixes when it compiles.
  ParameterSet(const mjModel* model, const std::vector<std::string>& names);
  ~ParameterSet();
  ParameterSet(const ParameterSet& other);  ///< deep: its own model
  ParameterSet& operator=(const ParameterSet& other);
  ParameterSet(ParameterSet&&) noexcept;  ///< what points at the other one throws Error{kInvalidArgument} from then on
  ParameterSet& operator=(ParameterSet&&) noexcept;

  int size() const;
  const Parameter& operator[](int i) const;  ///< clamps, nudge and one_sided as of the current values
  std::vector<std::string> Names() const;

  /// The model with the current values. The pointer is the same after each Set: linearizers, rollouts and adjoints made
  /// with it follow.
  const mjModel* model() const;

  VectorXd Get() const;

  /// Writes all values and what the engine derives from them: subtree masses, inverse weights, bounding volumes, tendon
  /// lengths, anchors … Numbers that do not depend on them stay, also those that a caller had set by hand against the
  /// engine (`kept`). Set(Get()) changes no bit.
  ///
  /// @throws Error{kDimensionMismatch}; Error{kInvalidArgument} for NaN or a value out of bounds, with the name;
  ///         Error{kEngine} when the engine finds the model impossible. The values before are then kept.
  /// Cost: a copy of the arrays concerned; with a `derived` parameter one mj_setConst.
  /// Not thread-safe: nothing may simulate with model() meanwhile.
  void Set(ConstVectorRef values);

  /// The nearest values within the bounds.
  VectorXd Clamp(ConstVectorRef values) const;

  /// Counts successful Sets.
  std::uint64_t revision() const;

  /// Derived arrays of the given model that were not the engine's own ("body_invweight0"): left as they are.
  const std::vector<std::string>& kept() const;

 private:
  friend class ParameterStencils;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All parameters of one element ("joint:hip", "option"), or of all of a kind ("joint"), for lists and help.
/// @throws Error{kInvalidArgument} as ParameterSet.
std::vector<Parameter> ListParameters(const mjModel* model, const std::string& element);

/// Mass, centre of mass and inertia of one rigid body.
struct RigidInertia {
  double mass = 0;
  Eigen::Vector3d com = Eigen::Vector3d::Zero();          ///< in the body's frame [m]
  Eigen::Matrix3d inertia = Eigen::Matrix3d::Identity();  ///< about com, axes of the body's frame [kg m²]
};
using LogCholeskyVector = Eigen::Matrix<double, 10, 1>;

/// θ = (α, d1, d2, d3, s12, s13, s23, t1, t2, t3), any real numbers, ↔ a body that can exist:
///
///   [Σ  m c; m cᵀ  m] = U Uᵀ,   U = e^α [e^d1 s12 s13 t1; 0 e^d2 s23 t2; 0 0 e^d3 t3; 0 0 0 1],
///   Σ = ½ tr(I) 1 − I about the body's origin:  m = e^2α, c = t.
///
/// @throws Error{kInvalidArgument} when the inertia is not that of a body with extent in all directions (thin rods,
///         plates and points have no logarithm). Source: Rucker & Wensing 2022; plugin/parameter/README.md, eq. (3).
LogCholeskyVector LogCholesky(const RigidInertia& body);
RigidInertia FromLogCholesky(const LogCholeskyVector& theta);

/// ∂(m, m c, I_xx, I_yy, I_zz, I_xy, I_xz, I_yz)/∂θ, I about the body's origin: the numbers that dynamics is linear in.
Eigen::Matrix<double, 10, 10> LogCholeskyJacobian(const LogCholeskyVector& theta);

/// ∂(body_mass, body_ipos, body_inertia, turn of the principal axes [rad, in the body's frame])/∂θ.
/// Where two principal moments are equal their axes have no derivative and that turn is 0; all else still has one.
/// @param iquat  the axes: body_iquat of the model that θ describes.
Eigen::Matrix<double, 10, 10> LogCholeskyJacobian(const LogCholeskyVector& theta, const double iquat[4]);

}  // namespace costate

#endif  // COSTATE_PARAMETER_H_
