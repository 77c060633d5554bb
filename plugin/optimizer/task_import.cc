// MuJoCo MPC's task XML as a task file.
#include <costate/mjpc.h>
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "optimizer/cost_terms.h"
#include "optimizer/expression.h"
#include "optimizer/task_option.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

constexpr double kMjpcHorizon = 0.5, kMjpcTimestep = 0.01;  // its defaults [s]
constexpr int kMjpcLongest = 512;                           // knots it plans at most
constexpr int kUserNumbers = 4;                             // norm, weight, lower, upper; then the norm's parameters

// its norms by number; "" are none of ours
const std::vector<std::string> kMjpcNorms{"quadratic", "l22",        "l2",          "cosh",   "",
                                          "power",     "smooth_abs", "smooth_abs2", "rectify"};

struct MjpcResidual {
  XmlElement element;
  std::string name, norm;
  std::vector<double> parameters;
  double weight = 0;
  int dim = 0;
};

struct MjpcTask {
  std::vector<std::unique_ptr<XmlFile>> files;
  std::vector<MjpcResidual> residuals;
  std::vector<XmlElement> numerics, texts;
  bool has_home = false;
};

MjpcResidual ReadUserSensor(const XmlElement& element) {
  MjpcResidual residual{element, element.Text("name").value_or(""), "", {}, 0, 0};
  if (residual.name.empty()) element.Fail("a residual needs a name");
  residual.dim = element.WholeNumber("dim", 1).value_or(0);
  if (residual.dim == 0) element.Fail("dim is missing: how many numbers the residual has");
  const VectorXd user = element.Numbers("user").value_or(VectorXd());
  if (user.size() < kUserNumbers) {
    element.Fail(fmt::format("user has {}, expected norm, weight, lower, upper and the norm's parameters",
                             Count(user.size(), "number")));
  }
  if (user[0] == -1) {
    element.Fail(
        "norm -1 takes the residual itself as the cost; here every norm is convex: write the residual as a norm of "
        "something",
        ErrorCode::kUnsupported);
  }
  const bool whole = user[0] == std::floor(user[0]) && user[0] >= 0 && user[0] < static_cast<double>(kMjpcNorms.size());
  if (!whole || kMjpcNorms[static_cast<std::size_t>(user[0])].empty()) {
    element.Fail(fmt::format("norm is {:g}, MuJoCo MPC's are -1 to 3 and 5 to 8", user[0]));
  }
  residual.norm = kMjpcNorms[static_cast<std::size_t>(user[0])];
  residual.weight = user[1];
  if (residual.weight < 0) element.Fail(fmt::format("weight is {:g}; a weight is never negative", residual.weight));
  const auto type = std::find(NormNames().begin(), NormNames().end(), residual.norm) - NormNames().begin();
  const int count = NormParameterCount(static_cast<NormType>(type));
  if (user.size() < kUserNumbers + count) {
    element.Fail(fmt::format("user has {}, norm {:g} ({}) needs {}: {}", Count(user.size(), "number"), user[0],
                             residual.norm, kUserNumbers + count, NormParameterText(static_cast<NormType>(type))));
  }
  residual.parameters.assign(user.begin() + kUserNumbers, user.begin() + kUserNumbers + count);
  return residual;
}

void ReadMjpcFile(const std::string& path, const std::string& folder, bool is_main, MjpcTask* task);

void ReadMjpcSection(const XmlElement& section, const std::string& folder, MjpcTask* task) {
  const std::string tag = section.tag();
  if (tag == "include") {
    const std::string name = section.Text("file").value_or("");
    const std::string file = (std::filesystem::path(folder) / name).lexically_normal().string();
    if (!std::filesystem::exists(file)) {
      section.Fail(
          fmt::format(
              "there is no file '{}'; MuJoCo MPC's build makes its models from dm_control's and the Menagerie's", file),
          ErrorCode::kFile);
    }
    ReadMjpcFile(file, folder, false, task);
  }
  const bool read = tag == "sensor" || tag == "custom" || tag == "keyframe";
  for (const XmlElement& element : section.Children()) {
    if (read && element.tag() == "include") {
      element.Fail("an <include> inside <" + tag + "> is not followed; at the top level it is",
                   ErrorCode::kUnsupported);
    }
    if (tag == "sensor" && element.tag() == "user") task->residuals.push_back(ReadUserSensor(element));
    if (tag == "custom" && element.tag() == "numeric") task->numerics.push_back(element);
    if (tag == "custom" && element.tag() == "text") task->texts.push_back(element);
    if (tag == "keyframe" && element.tag() == "key" && element.Text("name").value_or("") == "home")
      task->has_home = true;
  }
}

void ReadMjpcFile(const std::string& path, const std::string& folder, bool is_main, MjpcTask* task) {
  constexpr std::size_t kMostFiles = 100;  // an include of itself has no end
  if (task->files.size() > kMostFiles) throw Error(ErrorCode::kParse, path + ": <include>s without end");
  task->files.push_back(std::make_unique<XmlFile>(path));
  const XmlElement root = task->files.back()->Root();
  if (root.tag() != "mujoco" && (is_main || root.tag() != "mujocoinclude")) {
    root.Fail("the root element of a task of MuJoCo MPC is <mujoco>");
  }
  for (const XmlElement& section : root.Children()) ReadMjpcSection(section, folder, task);
}

MjpcTask ReadMjpc(const std::string& path) {
  MjpcTask task;
  ReadMjpcFile(path, std::filesystem::path(path).parent_path().string(), true, &task);
  if (task.residuals.empty()) {
    throw Error(ErrorCode::kParse,
                path + ": there is no <user> in <sensor>: it is no task of MuJoCo MPC, whose residuals they are");
  }
  std::set<std::string> names;
  for (const MjpcResidual& residual : task.residuals) {
    if (!names.insert(residual.name).second) residual.element.Fail("a second residual with this name");
  }
  return task;
}

// ---- the file of residuals
// -------------------------------------------------------------------------------------------

struct ResidualFile {
  std::unique_ptr<XmlFile> file;
  std::vector<XmlElement> definitions, residuals;
  std::string text;  ///< of all attributes, for finding names
};

ResidualFile ReadResidualFile(const std::string& path, const MjpcTask& task) {
  ResidualFile result;
  if (path.empty()) return result;
  result.file = std::make_unique<XmlFile>(path);
  const XmlElement root = result.file->Root("residuals");
  root.Allow({});
  std::vector<std::string> known;
  for (const MjpcResidual& residual : task.residuals) known.push_back(residual.name);
  std::set<std::string> seen;
  for (const XmlElement& element : root.Children()) {
    if (element.tag() == "measure" || element.tag() == "let") {
      result.definitions.push_back(element);
    } else if (element.tag() == "residual") {
      const std::string name = element.Text("name").value_or("");
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        element.Fail(fmt::format("the task has no residual '{}'{}", name, Suggestion(name, known)));
      }
      if (!seen.insert(name).second) element.Fail("a second <residual> with this name");
      for (const char* attribute : {"norm", "param", "weight", "terminal", "when"}) {
        if (element.Has(attribute)) element.Fail(fmt::format("{} stands in the task of MuJoCo MPC", attribute));
      }
      result.residuals.push_back(element);
    } else {
      element.Fail("there is no such element in <residuals>" +
                   Suggestion(element.tag(), {"measure", "let", "residual"}));
    }
  }
  for (const auto* elements : {&result.definitions, &result.residuals}) {
    for (const XmlElement& element : *elements) result.text += element.Text("value").value_or("") + " ";
  }
  return result;
}

// true when what an element measures depends on ctrl, directly or by names
bool ReadsControl(const XmlElement& element, const ResidualFile& residuals) {
  const auto direct = [](const XmlElement& e) {
    return e.Has("ctrl") || (e.Has("actuator") && e.Text("quantity").value_or("") == "force");
  };
  if (direct(element)) return true;
  for (const XmlElement& child : element.Children()) {
    if (direct(child)) return true;
  }
  std::vector<std::string> words = ExpressionWords(element.Text("value").value_or(""));
  for (const std::string& word : SplitBlanks(element.Text("reads").value_or(""))) words.push_back(word);
  for (const XmlElement& definition : residuals.definitions) {
    const std::string name = definition.Text("name").value_or("");
    if (definition.Text("name") == element.Text("name") && definition.tag() == element.tag())
      break;  // only earlier ones
    if (std::find(words.begin(), words.end(), name) != words.end() && ReadsControl(definition, residuals)) return true;
  }
  return false;
}

// ---- the task file
// ---------------------------------------------------------------------------------------------------

// attributes and children as they stand
std::string CopyAttributes(const XmlElement& element) {
  std::string text;
  for (const auto& [name, value] : element.Attributes()) {
    if (name != "name") text += fmt::format(" {}=\"{}\"", name, XmlEscaped(value));
  }
  return text;
}

std::string Element(const std::string& tag, const std::string& attributes, const XmlElement& body) {
  const std::vector<XmlElement> children = body.Children();
  if (children.empty()) return fmt::format("  <{}{}/>\n", tag, attributes);
  std::string text = fmt::format("  <{}{}>\n", tag, attributes);
  for (const XmlElement& child : children) {
    std::string own;
    for (const auto& [name, value] : child.Attributes()) own += fmt::format(" {}=\"{}\"", name, XmlEscaped(value));
    text += fmt::format("    <{}{}/>\n", child.tag(), own);
  }
  return text + fmt::format("  </{}>\n", tag);
}

// "residual_select_Gait switch" is known as select_Gait_switch
std::string ParameterName(const std::string& numeric) {
  std::string name = numeric.substr(std::string("residual_").size());
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

const XmlElement* FindNumeric(const MjpcTask& task, const std::string& name) {
  for (const XmlElement& numeric : task.numerics) {
    if (numeric.Text("name").value_or("") == name) return &numeric;
  }
  return nullptr;
}

double NumericOr(const MjpcTask& task, const std::string& name, double otherwise) {
  const XmlElement* numeric = FindNumeric(task, name);
  if (!numeric) return otherwise;
  const std::optional<VectorXd> data = numeric->Numbers("data");
  if (!data) numeric->Fail("data is missing");
  return (*data)[0];
}

struct Plan {
  int knots = 0;
  double timestep = 0;
};

Plan ReadPlan(const MjpcTask& task) {
  const double horizon = NumericOr(task, "agent_horizon", kMjpcHorizon),
               timestep = NumericOr(task, "agent_timestep", kMjpcTimestep);
  if (!(timestep > 0))
    FindNumeric(task, "agent_timestep")->Fail(fmt::format("the planner's timestep is {:g} s", timestep));
  const Plan plan{static_cast<int>(std::min(horizon / timestep + 1, double{kMjpcLongest})),
                  timestep};  // rounded down, as there
  if (plan.knots < 2) {
    const XmlElement* numeric = FindNumeric(task, "agent_horizon");
    const std::string message =
        fmt::format("the horizon, {:g} s, is shorter than a timestep, {:g} s", horizon, timestep);
    numeric ? numeric->Fail(message) : task.numerics.front().Fail(message);
  }
  return plan;
}

std::string OptionElement(const MjpcTask& task, const Plan& plan) {
  std::string text = fmt::format("  <option timestep=\"{:.10g}\"", plan.timestep);
  if (const XmlElement* numeric = FindNumeric(task, "agent_integrator")) {
    const double number = NumericOr(task, "agent_integrator", 0);
    if (number < 0 || number > 3 || number != std::floor(number))
      numeric->Fail(fmt::format("integrator is {:g}, expected 0 to 3", number));
    text += fmt::format(" integrator=\"{}\"", TaskIntegrators()[static_cast<std::size_t>(number)]);
  }
  if (NumericOr(task, "agent_differentiable", 1) != 0) text += " solimp0=\"0\"";
  return text + "/>\n";
}

std::string CostElements(const MjpcResidual& residual, const XmlElement& meaning, bool reads_control, double last) {
  std::string norm = fmt::format(" norm=\"{}\"", residual.norm);
  for (std::size_t i = 0; i < residual.parameters.size(); i++) {
    norm += fmt::format("{}{:.10g}{}", i == 0 ? " param=\"" : " ", residual.parameters[i],
                        i + 1 == residual.parameters.size() ? "\"" : "");
  }
  const std::string name = XmlEscaped(residual.name), measured = CopyAttributes(meaning);
  const std::string weight = fmt::format(" weight=\"{:.10g}\"", residual.weight);
  if (!reads_control) {
    return Element(
        "cost", fmt::format(" name=\"{}\"{}{}{} terminal=\"{:.10g}\"", name, measured, norm, weight, residual.weight),
        meaning);
  }
  // at its last knot MuJoCo MPC holds the last control: that knot's cost of control counts twice
  return Element("cost", fmt::format(" name=\"{}\"{}{}{}", name, measured, norm, weight), meaning) +
         Element("cost",
                 fmt::format(" name=\"{}, last knot\"{}{}{} when=\"{:.10g} end\"", name, measured, norm, weight, last),
                 meaning);
}

std::vector<std::string> Notes(const MjpcTask& task, const ResidualFile& residuals) {
  std::vector<std::string> notes, left, parameters;
  const std::vector<std::string> words = ExpressionWords(residuals.text);
  for (const XmlElement& numeric : task.numerics) {
    const std::string name = numeric.Text("name").value_or("");
    if (name == "agent_horizon" || name == "agent_timestep" || name == "agent_integrator" ||
        name == "agent_differentiable")
      continue;
    if (name == "task_risk") {
      if (NumericOr(task, name, 0) != 0) {
        notes.push_back(
            "task_risk is not taken over: the cost here is the mean itself, not (exp(risk cost) - 1) / risk");
      }
    } else if (name.starts_with("residual_")) {
      if (std::find(words.begin(), words.end(), ParameterName(name)) == words.end())
        parameters.push_back(ParameterName(name));
    } else {
      left.push_back(name);
    }
  }
  if (!parameters.empty()) notes.push_back("no residual reads the parameters " + JoinWords(parameters));
  if (!left.empty())
    notes.push_back("settings of its planners, estimators and display are left out: " + JoinWords(left));
  for (const XmlElement& text : task.texts) {
    const std::string name = text.Text("name").value_or("");
    if (name == "task_transition")
      notes.push_back("task_transition is left out: its modes are switched by C++ code (" +
                      text.Text("data").value_or("") + ")");
  }
  return notes;
}

}  // namespace

MjpcImport ImportMjpcTask(const std::string& path, const std::string& residual_path, const std::string& folder) {
  const MjpcTask task = ReadMjpc(path);
  const Plan plan = ReadPlan(task);
  const ResidualFile residuals = ReadResidualFile(residual_path, task);
  MjpcImport result;
  result.notes = Notes(task, residuals);
  const double last =
      std::max(0.0, plan.knots - 2 - 0.5) * plan.timestep;  // the window that holds the last control alone

  // costs, and what is missing
  std::string costs;
  result.form = "<residuals>\n";
  for (const MjpcResidual& residual : task.residuals) {
    const auto meaning = std::find_if(residuals.residuals.begin(), residuals.residuals.end(),
                                      [&](const XmlElement& e) { return e.Text("name") == residual.name; });
    if (meaning != residuals.residuals.end()) {
      costs += CostElements(residual, *meaning, ReadsControl(*meaning, residuals), last);
    } else if (residual.weight == 0) {
      result.notes.push_back(
          fmt::format("'{}' has weight 0 and is left out: nothing says what it measures", residual.name));
    } else {
      result.missing.push_back(fmt::format("{}: '{}', {}, norm {}, weight {:g}", residual.element.Place(),
                                           residual.name, Count(residual.dim, "number"), residual.norm,
                                           residual.weight));
      result.form += fmt::format("  <residual name=\"{}\" value=\"\"/>\n", XmlEscaped(residual.name));
    }
  }
  result.form += "</residuals>\n";
  if (!result.missing.empty()) return result;
  result.form.clear();

  const std::string model = std::filesystem::relative(std::filesystem::absolute(path),
                                                      std::filesystem::absolute(folder.empty() ? "." : folder))
                                .string();
  result.text =
      fmt::format("<!-- MuJoCo MPC's task {}: the mean cost over {} knots, the last included, as it plans -->\n",
                  std::filesystem::path(path).filename().string(), plan.knots);
  result.text += fmt::format("<task model=\"{}\" horizon=\"{:.10g}\" controlstep=\"1\" scale=\"knots\">\n",
                             XmlEscaped(model), (plan.knots - 1) * plan.timestep);
  result.text += OptionElement(task, plan);
  result.text += task.has_home ? "  <start key=\"home\"/>\n  <guess key=\"home\"/>\n" : "  <guess ctrl=\"0\"/>\n";
  const std::vector<std::string> words = ExpressionWords(residuals.text);
  for (const XmlElement& numeric : task.numerics) {
    const std::string name = numeric.Text("name").value_or("");
    if (!name.starts_with("residual_") || std::find(words.begin(), words.end(), ParameterName(name)) == words.end())
      continue;
    result.text +=
        fmt::format("  <let name=\"{}\" value=\"{:.10g}\"/>\n", ParameterName(name), NumericOr(task, name, 0));
  }
  for (const XmlElement& definition : residuals.definitions) {
    result.text += Element(
        definition.tag(),
        fmt::format(" name=\"{}\"{}", definition.Text("name").value_or(""), CopyAttributes(definition)), definition);
  }
  result.text += costs + "</task>\n";
  return result;
}

void CheckMjpcImport(const std::string& path, const Task& task) {
  const MjpcTask mjpc = ReadMjpc(path);
  const auto& cost = dynamic_cast<const ResidualCost&>(*task.cost);
  for (const MjpcResidual& residual : mjpc.residuals) {
    for (const ResidualTerm& term : cost.terms()) {
      if (term.name != residual.name || term.size() == residual.dim) continue;
      residual.element.Fail(fmt::format("dim is {}, what it is said to measure, {}, has {}", residual.dim,
                                        term.measured, Count(term.size(), "component")));
    }
  }
}

}  // namespace costate
