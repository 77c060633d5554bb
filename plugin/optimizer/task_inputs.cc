#include "optimizer/task_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/name.h"

namespace costate {
namespace {

// "qvel[x]" is meant by "qvel[x]", "qvel" and "x"
bool Means(const std::string& word, const std::string& name) {
  return word == name || word == name.substr(0, name.find('[')) || word == Inside(name);
}

// words between blanks; those in brackets belong to a name: "qvel[left knee]", as those of a name that there is
std::vector<std::string> SplitEntries(const std::string& text, const std::vector<std::string>& names) {
  std::vector<std::string> known, words;
  for (const std::string& name : names) known.push_back(Inside(name));
  std::string joined;
  for (const std::string& word : SplitNames(text, known)) {
    joined += (joined.empty() ? "" : " ") + word;
    if (std::count(joined.begin(), joined.end(), '[') > std::count(joined.begin(), joined.end(), ']')) continue;
    words.push_back(joined);
    joined.clear();
  }
  if (!joined.empty()) words.push_back(joined);
  return words;
}

// one number for all entries, or one an entry
VectorXd OnePerEntry(const XmlElement& element, const char* attribute, const VectorXd& without) {
  const std::optional<VectorXd> numbers = element.Numbers(attribute);
  if (!numbers) return without;
  if (numbers->size() == 1) return VectorXd::Constant(without.size(), (*numbers)[0]);
  if (numbers->size() != without.size()) {
    element.Fail(
        fmt::format("{} has {}, expected 1 or {}", attribute, Count(numbers->size(), "number"), without.size()));
  }
  return *numbers;
}

void ReadParameter(const XmlElement& element, Task* task) {
  if (element.tag() != "parameter") {
    element.Fail("there is no such element in a <gradient>" + Suggestion(element.tag(), {"parameter"}));
  }
  element.Allow({"name", "value", "lower", "upper"});
  if (!element.Children().empty()) element.Children()[0].Fail("there are no elements inside <parameter>");
  const std::optional<std::string> name = element.Text("name");
  if (!name)
    element.Fail("name is missing: which number, as in joint:knee/damping, body:arm/mass or option/gravity[2]");

  // the model's values and bounds, then what stands here
  const std::size_t first = task->inputs.parameters.size();
  try {
    AddParameter(*name, task);
  } catch (const Error& error) {
    element.Fail(error.what(), error.code());
  }
  const Eigen::Index n = static_cast<Eigen::Index>(task->inputs.parameters.size() - first);
  VectorXd value(n), lower(n), upper(n);
  for (Eigen::Index i = 0; i < n; i++) {
    const TaskParameter& p = task->inputs.parameters[first + static_cast<std::size_t>(i)];
    value[i] = p.value;
    lower[i] = p.lower;
    upper[i] = p.upper;
  }
  value = OnePerEntry(element, "value", value);
  const VectorXd low = OnePerEntry(element, "lower", lower), high = OnePerEntry(element, "upper", upper);
  for (Eigen::Index i = 0; i < n; i++) {
    TaskParameter& p = task->inputs.parameters[first + static_cast<std::size_t>(i)];
    if (low[i] < lower[i])
      element.Fail(fmt::format("lower is {:g}, {} can be {:g} at least", low[i], p.name, lower[i]));
    if (high[i] > upper[i])
      element.Fail(fmt::format("upper is {:g}, {} can be {:g} at most", high[i], p.name, upper[i]));
    if (!(low[i] <= value[i] && value[i] <= high[i])) {
      element.Fail(fmt::format("{} is {:g}, not between {:g} and {:g}", p.name, value[i], low[i], high[i]));
    }
    p.value = value[i];
    p.lower = low[i];
    p.upper = high[i];
  }
}

}  // namespace

std::vector<int> SelectEntries(const XmlElement& element, const char* attribute,
                               const std::vector<std::string>& names) {
  const std::string text = element.Text(attribute).value_or("all");
  std::vector<int> chosen;
  if (text == "none" || text == "false") return chosen;
  if (text == "all" || text == "true") {
    chosen.resize(names.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  const std::vector<std::string> words = SplitEntries(text, names);
  for (const std::string& word : words) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return Means(word, name); })) continue;
    element.Fail(
        fmt::format("{}: there is no '{}', expected all, none, or names{}", attribute, word, Suggestion(word, names)));
  }
  for (std::size_t i = 0; i < names.size(); i++) {
    if (std::any_of(words.begin(), words.end(), [&](const auto& word) { return Means(word, names[i]); })) {
      chosen.push_back(static_cast<int>(i));
    }
  }
  return chosen;
}

void AddParameter(const std::string& name, Task* task) {
  std::vector<std::string> names;
  for (const TaskParameter& parameter : task->inputs.parameters) names.push_back(parameter.name);
  const std::size_t before = names.size();
  names.push_back(name);
  const ParameterSet set(task->model.get(), names);
  for (int i = static_cast<int>(before); i < set.size(); i++) {
    task->inputs.parameters.push_back({set[i].name, set[i].value, set[i].lower, set[i].upper});
  }
}

std::unique_ptr<ParameterSet> MakeParameters(const Task& task) {
  const std::vector<TaskParameter>& parameters = task.inputs.parameters;
  if (parameters.empty()) return nullptr;
  std::vector<std::string> names;
  VectorXd values(static_cast<Eigen::Index>(parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); i++) {
    names.push_back(parameters[i].name);
    values[static_cast<Eigen::Index>(i)] = parameters[i].value;
  }
  auto set = std::make_unique<ParameterSet>(task.model.get(), names);
  set->Set(values);
  return set;
}

void ReadInputs(const XmlElement* element, Task* task) {
  const mjModel* model = task->model.get();
  const Dims dims(model);
  task->inputs.controls.resize(static_cast<std::size_t>(dims.nu));
  task->inputs.start.resize(static_cast<std::size_t>(dims.ndx));
  std::iota(task->inputs.controls.begin(), task->inputs.controls.end(), 0);
  std::iota(task->inputs.start.begin(), task->inputs.start.end(), 0);
  if (!element) return;
  element->Allow({"controls", "start"});
  task->inputs.controls = SelectEntries(*element, "controls", ControlNames(model));
  task->inputs.start = SelectEntries(*element, "start", TangentNames(model));
  for (const XmlElement& child : element->Children()) ReadParameter(child, task);
  const TaskInputs& inputs = task->inputs;
  if (inputs.controls.empty() && inputs.start.empty() && inputs.parameters.empty()) {
    element->Fail("names nothing to differentiate by: controls, start, or a <parameter>");
  }
}

void CheckTaskParameters(const Task& task, const ParameterSet* parameters) {
  std::vector<std::string> names;
  for (const TaskParameter& parameter : task.inputs.parameters) names.push_back(parameter.name);
  if ((parameters ? parameters->Names() : std::vector<std::string>()) != names) {
    throw Error(ErrorCode::kInvalidArgument, "the parameters are not those of the task's inputs");
  }
  const auto check = [](const char* what, const std::vector<int>& entries, int size) {
    for (std::size_t i = 0; i < entries.size(); i++) {
      if (entries[i] >= (i == 0 ? 0 : entries[i - 1] + 1) && entries[i] < size) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the task's inputs: entry {} of {} is {}, expected rising ones from 0 to {}", i, what,
                              entries[i], size - 1));
    }
  };
  check("the controls", task.inputs.controls, static_cast<int>(task.model->nu));
  check("the start", task.inputs.start, Dims(task.model.get()).ndx);
}

}  // namespace costate
