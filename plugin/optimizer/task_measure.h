// <measure> and <let>: names for <cost value="…"> and <cost callback="…" reads="…">.
#ifndef COSTATE_OPTIMIZER_TASK_MEASURE_H_
#define COSTATE_OPTIMIZER_TASK_MEASURE_H_

#include <string>
#include <vector>

#include "optimizer/task_term.h"

namespace costate {

/// A <measure>: something measured, under a name.
struct MeasureDraft {
  std::string name;
  PieceDraft piece;
};

/// A <let>: an expression of earlier names, under a name.
struct LetDraft {
  std::string name, text;
  XmlElement element;
};

/// All names that a task file defines, in the order of the file.
struct Definitions {
  std::vector<MeasureDraft> measures;
  std::vector<LetDraft> lets;
  std::vector<std::string> names;  ///< of both, in order
};

/// Reads all <measure> and <let> elements and adds the sensors that they need. @throws Error{kParse}.
Definitions ReadDefinitions(const std::vector<XmlElement>& elements, SensorAdder* sensors);

/// value="…" or callback="…" of a <cost>: what it needs of the definitions, checked as far as that goes without the
/// model.
void ReadFunction(const XmlElement& element, const Definitions& definitions, CostDraft* draft);

/// Makes the draft's rows and its function against the compiled model. @param model  outlives the term.
void MakeFunction(const CostDraft& draft, const mjModel* model, ResidualTerm* term);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_MEASURE_H_
