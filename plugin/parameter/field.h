// The table of parameters: every field that has one, its array in mjModel, units, bounds, and how differences move it.
#ifndef COSTATE_PARAMETER_FIELD_H_
#define COSTATE_PARAMETER_FIELD_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

namespace costate {

/// Which numbers of an element a field writes, and how.
enum class Writer {
  kPlain,        ///< the floats themselves
  kAxis,         ///< the floats, then normalized
  kRotation,     ///< a quaternion, turned by a rotation vector
  kLogCholesky,  ///< mass, ipos, inertia, iquat of a body
  kScale,        ///< mass and inertia of a body
  kPosition,     ///< kp of a servo: gain and bias
  kVelocity,     ///< kv of a servo
  kMuscle,       ///< peak force of a muscle: gain and bias
};

/// How far differences move a number.
enum class Nudge {
  kSoft,       ///< 1e-4 of its size: enters polynomially or as a quotient, nothing near bends
  kGeometric,  ///< 1.5e-6: moves contacts, whose force bends within fractions of a millimetre
};

struct Field {
  const char* kind;           ///< "joint"
  const char* name;           ///< "damping"
  const char* array;          ///< in mjModel: "dof_damping"; "" for options
  const char* unit;           ///< of a slide or of anything that is no joint
  const char* unit_of_angle;  ///< of a hinge, ball or free joint; null: the same
  double lower, upper;
  Nudge nudge;
  double size;  ///< typical magnitude, where the value itself is smaller
  int (*count)(const mjModel*, int id);
  mjtNum* (*at)(const mjModel*, int id);  ///< address of the first number
  Writer writer = Writer::kPlain;
};

/// All fields, kind by kind.
const std::vector<Field>& Fields();

/// mjtObj of a kind; −1 for "option". @return false for an unknown kind.
bool ObjectOfKind(const std::string& kind, int* object);
std::vector<std::string> Kinds();

/// Does the engine read this field in its position stage (kinematics, contacts, M, rows), or only later?
bool EntersPosition(const Field& field);

/// Is an array of mjModel read, or made, by mj_setConst?
bool IsDerivedFrom(const std::string& array);
bool IsDerived(const std::string& array);

/// Does this number, by being above 0, give its actuator a state?
bool SwitchesState(const mjModel* model, const Field& field, int id, int index);

/// Is it a muscle's peak force, in its gain or in its bias, given as such? Below 0 it means that scale makes one.
bool IsPeakForce(const mjModel* model, const Field& field, int id, int index);

/// Why the engine does not take a change of this number, as compiled; "" when it does.
std::string WhyFixed(const mjModel* model, const Field& field, int id, int index);

/// What a change leaves as it is; "" when there is nothing to say.
std::string Note(const mjModel* model, const Field& field, int id);

/// Does a change of this number part equal principal moments, whose axes then jump (README.md, section 2)?
bool TurnsFreeAxes(const mjModel* model, const Field& field, int id, int index);

/// The number's unit.
std::string Unit(const mjModel* model, const Field& field, int id, int index);

}  // namespace costate

#endif  // COSTATE_PARAMETER_FIELD_H_
