// <cost> elements: read before the model is compiled (they add sensors to its spec), resolved against it afterwards.
#ifndef COSTATE_OPTIMIZER_TASK_TERM_H_
#define COSTATE_OPTIMIZER_TASK_TERM_H_

#include <functional>
#include <string>
#include <vector>

#include "optimizer/cost_terms.h"
#include "optimizer/expression.h"
#include "optimizer/task_sensor.h"
#include "optimizer/task_xml.h"

namespace costate {

/// A number that can be measured, with its names: one scalar, or one of the three components of a rotation.
struct Component {
  Scalar scalar;
  int part = -1;  ///< -1: a scalar; 0 … 2: component of a rotation
  std::string name, unit;
  std::vector<std::string> slots;  ///< names of its columns in a CSV file: one, or the four of the quaternion
};

/// What one <cost>, <term> or <measure> measures.
struct PieceDraft {
  XmlElement element;
  std::string sensor;  ///< name of a sensor of the compiled model, or "" for …
  std::string vector;  ///< … "qpos", "qvel", "act" or "ctrl"
  double coef = 1;
  std::string orientation{};          ///< of a pose: the sensor of its quaternion, beside the one of its position
  std::vector<std::string> others{};  ///< of several elements: the sensors of those behind the first
};

/// One <cost>, checked as far as that goes without the compiled model.
struct CostDraft {
  XmlElement element;
  std::string name;
  std::vector<PieceDraft> pieces;
  std::string target_sensor{};  ///< of target="site:…", else ""
  std::string function{};       ///< of value="…" or callback="…", else ""
  bool is_callback = false;
  std::vector<ExpressionName> names{};  ///< that the function reads: those without text are the pieces, in order
  std::string target = "target";        ///< the attribute that says against what it is measured
  std::function<bool(const std::string&)> exclude{};  ///< components left out, by name; empty: none
};

struct Definitions;

/// Reads a <cost> and adds the sensors that it needs.
CostDraft ReadCost(const XmlElement& element, const Definitions& definitions, SensorAdder* sensors);

/// Reads what a <measure> measures and adds the sensor that it needs.
PieceDraft ReadMeasure(const XmlElement& element, SensorAdder* sensors);

/// Attributes that say what is measured: sensor, qpos, qvel, act, ctrl, and those of elements.
std::vector<std::string> SourceAttributes();

/// The components that a piece measures, in order.
std::vector<Component> PieceComponents(const PieceDraft& piece, const mjModel* model);

/// ReadCost for other elements. @param further  attributes beside those of the measure, name and target.
/// @param target  the attribute that says against what it is measured.
CostDraft ReadResidual(const XmlElement& element, const std::vector<std::string>& further, const std::string& target,
                       const Definitions& definitions, SensorAdder* sensors);

/// What a draft measures: name, rows and unit of a term, without norm, weights, window and target.
/// @param slots  names of the numbers of its target, if it has one.  @param components  names of the rows, if wanted.
ResidualTerm MakeMeasure(const CostDraft& draft, const mjModel* model, std::vector<std::string>* slots,
                         std::vector<std::string>* components = nullptr);

/// Resolves a draft. @param folder  relative to which target="file:…" is found.
/// @param x_goal  receives the state of the keyframe that the term asks for in all of qpos at the end, if it does.
ResidualTerm MakeTerm(const CostDraft& draft, const mjModel* model, const std::string& folder, VectorXd* x_goal);

/// quantity="pose": its map is made once the target is known.
bool IsPose(const CostDraft& draft);

/// All entries of "qpos" (in the tangent space), "qvel", "act" or "ctrl".
std::vector<Component> VectorComponents(const mjModel* model, const std::string& vector);

/// Appends a row a component to a term: r_i = coef · component_i (- target).
/// @param slots  names of the target's numbers, appended as they are needed; null: no target, or one that is measured.
void AddComponents(const std::vector<Component>& components, double coef, std::vector<std::string>* slots,
                   ResidualTerm* term);

/// A path relative to a folder; absolute paths stay.
std::string Resolve(const std::string& folder, const std::string& path);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_TERM_H_
