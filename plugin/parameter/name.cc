// Names of parameters to fields and elements; lists and hints.
#include <charconv>

#include "core/check.h"
#include "core/did_you_mean.h"
#include "core/element.h"
#include "parameter/parameter_set.h"

namespace costate {
namespace {

constexpr std::size_t kMostFields = 32;  // of kinds and fields nobody knows the names by heart: all are listed

bool ToNumber(const std::string& text, int* number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return code == std::errc() && end == text.data() + text.size();
}

[[noreturn]] void Fail(const std::string& message) { throw Error(ErrorCode::kInvalidArgument, message); }

std::vector<std::string> FieldNames(const std::string& kind) {
  std::vector<std::string> names;
  for (const Field& field : Fields()) {
    if (kind == field.kind) names.emplace_back(field.name);
  }
  return names;
}

}  // namespace

ParameterName SplitName(const std::string& name) {
  // names of elements may hold '/' and ':': the kind ends at the first colon, the field begins after the last slash
  const std::size_t slash = name.rfind('/'), colon = name.find(':');
  ParameterName parts;
  if (slash == std::string::npos || slash + 1 == name.size()) {
    Fail("'" + name +
         "' is not a parameter: the form is kind:element/field[index], as joint:hip/damping or option/gravity[2]");
  }
  const bool has_element = colon != std::string::npos && colon < slash;
  parts.kind = name.substr(0, has_element ? colon : slash);
  if (has_element) parts.element = name.substr(colon + 1, slash - colon - 1);
  parts.field = name.substr(slash + 1);
  const std::size_t bracket = parts.field.find('[');
  if (bracket == std::string::npos) return parts;
  const std::string index = parts.field.substr(bracket + 1);
  if (index.size() < 2 || index.back() != ']' || !ToNumber(index.substr(0, index.size() - 1), &parts.index) ||
      parts.index < 0) {
    Fail("'" + name + "': the index is not a number from 0 in brackets");
  }
  parts.field.resize(bracket);
  return parts;
}

int FindElement(const mjModel* m, const std::string& kind, const std::string& element, const std::string& name) {
  int object = 0;
  if (!ObjectOfKind(kind, &object))
    Fail("'" + name + "': there are no parameters of a '" + kind + "'" + Suggestion(kind, Kinds(), kMostFields));
  if (object < 0) {
    if (element.empty()) return 0;
    Fail("'" + name + "': option has no elements, the form is option/field");
  }
  return FindNamedOrNumbered(m, object, kind.c_str(), element, "'" + name + "': ");
}

const Field* FindField(const mjModel* m, const std::string& kind, int id, const std::string& field,
                       const std::string& name) {
  for (const Field& known : Fields()) {
    if (kind != known.kind || field != known.name) continue;
    if (known.count(m, id) > 0) return &known;
    Fail("'" + name + "': an element of this type has no " + field);
  }
  if (kind == "option" && field == "timestep") Fail("'" + name + "': the time step is no parameter of the motion");
  const char* article = std::string("aeo").find(kind[0]) == std::string::npos ? "a " : "an ";
  Fail("'" + name + "': " + article + kind + " has no parameter '" + field + "'" +
       Suggestion(field, FieldNames(kind), kMostFields));
}

std::string FullName(const mjModel* m, const Field& field, int id, int index) {
  int object = -1;
  ObjectOfKind(field.kind, &object);
  std::string name = field.kind;
  if (object >= 0) {
    const char* element = mj_id2name(m, object, id);
    name += ":" + (element && element[0] ? std::string(element) : std::to_string(id));
  }
  name += "/" + std::string(field.name);
  return field.count(m, id) == 1 ? name : name + "[" + std::to_string(index) + "]";
}

std::vector<Parameter> ListParameters(const mjModel* m, const std::string& element) {
  NotNull(m);
  const std::size_t colon = element.find(':');
  const std::string kind = element.substr(0, colon);
  int object = 0, begin = 0, end = 1;
  if (!ObjectOfKind(kind, &object))
    Fail("there are no parameters of a '" + kind + "'" + Suggestion(kind, Kinds(), kMostFields));
  if (object >= 0) end = ElementCount(m, object);
  if (colon != std::string::npos) {
    begin = FindElement(m, kind, element.substr(colon + 1), element);
    end = begin + 1;
  }
  std::vector<Parameter> list;
  for (int id = begin; id < end; id++) {
    for (const Field& field : Fields()) {
      if (kind != field.kind) continue;
      VectorXd values;
      try {
        values = ReadField(m, field, id);
      } catch (const Error&) {
        continue;  // not of this form: kp of a motor, the logarithm of a rod's inertia
      }
      for (int i = 0; i < values.size(); i++) {
        if (WhyFixed(m, field, id, i).empty()) list.push_back(Describe(m, field, id, i, values));
      }
    }
  }
  return list;
}

}  // namespace costate
