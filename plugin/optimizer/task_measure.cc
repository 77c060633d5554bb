#include "optimizer/task_measure.h"

#include <costate/residual.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "optimizer/expression.h"

namespace costate {
namespace {

// a name of one's own for an element
std::string ReadDefinedName(const XmlElement& element, const std::vector<std::string>& taken) {
  const std::string name = element.Text("name").value_or("");
  if (!IsExpressionName(name)) {
    element.Fail(fmt::format("name is '{}', expected letters, digits and '_', and no function's name", name));
  }
  if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    element.Fail("a second definition of the name '" + name + "'");
  }
  return name;
}

// the names that a text stands for, and those that their own texts stand for
void CollectNames(const std::string& text, const Definitions& definitions, std::set<std::string>* used) {
  std::vector<std::string> texts{text};
  while (!texts.empty()) {
    const std::vector<std::string> words = ExpressionWords(texts.back());
    texts.pop_back();
    for (const std::string& word : words) {
      if (!used->insert(word).second) continue;
      for (const LetDraft& let : definitions.lets) {
        if (let.name == word) texts.push_back(let.text);
      }
    }
  }
}

void ForbidBeside(const XmlElement& element, const char* attribute) {
  std::vector<std::string> others{"target", "index", "quantity"};
  for (const std::string& name : SourceAttributes()) others.push_back(name);
  for (const std::string& other : others) {
    if (element.Has(other.c_str())) {
      element.Fail(other == "target"
                       ? fmt::format("there is no target beside {}: subtract it in the expression", attribute)
                       : fmt::format("{} belongs to a <measure>, not beside {}", other, attribute));
    }
  }
  if (!element.Children().empty())
    element.Children()[0].Fail(fmt::format("there are no elements beside {}", attribute));
}

}  // namespace

Definitions ReadDefinitions(const std::vector<XmlElement>& elements, SensorAdder* sensors) {
  Definitions definitions;
  for (const XmlElement& element : elements) {
    const std::string name = ReadDefinedName(element, definitions.names);
    if (!element.Children().empty()) element.Children()[0].Fail("there are no elements inside <" + element.tag() + ">");
    if (element.tag() == "let") {
      element.Allow({"name", "value"});
      const std::optional<std::string> value = element.Text("value");
      if (!value) element.Fail("value is missing: an expression");
      definitions.lets.push_back({name, *value, element});
    } else {
      definitions.measures.push_back({name, ReadMeasure(element, sensors)});
    }
    definitions.names.push_back(name);
  }
  return definitions;
}

void ReadFunction(const XmlElement& element, const Definitions& definitions, CostDraft* draft) {
  const char* attribute = element.Has("callback") ? "callback" : "value";
  if (element.Has("callback") && element.Has("value")) element.Fail("give callback or value, not both");
  ForbidBeside(element, attribute);
  draft->function = *element.Text(attribute);
  draft->is_callback = element.Has("callback");
  std::set<std::string> used;
  if (draft->is_callback) {
    const std::vector<std::string> reads = SplitBlanks(element.Text("reads").value_or(""));
    for (const std::string& name : reads) {
      const auto known = std::find_if(definitions.measures.begin(), definitions.measures.end(),
                                      [&](const MeasureDraft& measure) { return measure.name == name; });
      if (known == definitions.measures.end()) {
        element.Fail(fmt::format("reads: there is no <measure> '{}'{}", name, Suggestion(name, definitions.names)));
      }
      draft->pieces.push_back(known->piece);
      draft->names.push_back({name, 0, 0});
    }
    return;
  }

  if (element.Has("reads")) element.Fail("reads belongs to callback; an expression names what it reads");
  CollectNames(draft->function, definitions, &used);
  for (const std::string& name : definitions.names) {
    if (!used.contains(name)) continue;
    for (const MeasureDraft& measure : definitions.measures) {
      if (measure.name == name) draft->pieces.push_back(measure.piece);
    }
    const auto let = std::find_if(definitions.lets.begin(), definitions.lets.end(),
                                  [&](const LetDraft& l) { return l.name == name; });
    draft->names.push_back({name, 0, 0, let == definitions.lets.end() ? "" : let->text});
  }
}

void MakeFunction(const CostDraft& draft, const mjModel* model, ResidualTerm* term) {
  // rows of z: the measures one after the other
  std::vector<ExpressionName> names = draft.names;
  std::size_t k = 0;
  for (const PieceDraft& piece : draft.pieces) {
    while (!names[k].text.empty()) k++;
    const std::vector<Component> components = PieceComponents(piece, model);
    for (const Component& component : components) {
      const bool read = std::any_of(term->rotations.begin(), term->rotations.end(), [&](const RotationEntry& entry) {
        return component.part >= 0 && entry.scalar.input == component.scalar.input &&
               entry.scalar.value == component.scalar.value && entry.row[static_cast<std::size_t>(component.part)] >= 0;
      });
      if (read) draft.element.Fail(fmt::format("the orientation that '{}' measures is read twice", names[k].name));
      if (component.part >= 0 && piece.coef != 1) piece.element.Fail("an orientation cannot be scaled");
    }
    names[k].first = term->measured_size();
    names[k].size = static_cast<int>(components.size());
    AddComponents(components, piece.coef, nullptr, term);
    k++;
  }

  term->measured = draft.is_callback ? "callback " + draft.function : draft.function;
  if (draft.is_callback) {
    term->map = FindResidual(draft.function, model);
    if (!term->map) {
      const std::vector<std::string> known = ResidualNames();
      draft.element.Fail(
          fmt::format("no residual is registered under '{}'{}; a program does that by RegisterResidual or "
                      "costate_register_residual before it loads the task",
                      draft.function, Suggestion(draft.function, known)),
          ErrorCode::kUnsupported);
    }
    return;
  }
  try {
    term->map = std::make_shared<Expression>(draft.function, names);
  } catch (const Error& error) {
    draft.element.Fail(std::string("value: ") + error.what());
  }
}

}  // namespace costate
