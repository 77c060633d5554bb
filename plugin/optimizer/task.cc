#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "core/engine_guard.h"
#include "core/joint.h"
#include "core/model.h"
#include "derivative/level_words.h"
#include "optimizer/made_servo.h"
#include "optimizer/task_constraint.h"
#include "optimizer/task_inputs.h"
#include "optimizer/task_measure.h"
#include "optimizer/task_mpc.h"
#include "optimizer/task_option.h"
#include "optimizer/task_policy.h"
#include "optimizer/task_start.h"
#include "optimizer/task_states.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"
#include "optimizer/task_write.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

const std::vector<std::string> kElements{"start",    "guess",   "cost",    "limit",  "constraint", "periodic",
                                         "smooth",   "hopping", "time",    "solver", "mpc",        "policy",
                                         "gradient", "spline",  "measure", "let",    "option"};
constexpr int kConstrainedIterations = 500;  // multipliers take longer to tell that there is no way
constexpr int kHoppingRounds = 8;            // where <hopping> does not say
constexpr double kWindowTolerance = 1e-6;    // of a knot: a time this near to a knot means it

// the elements of a task file by kind, each kind checked for how often it may stand
struct Elements {
  std::map<std::string, XmlElement> single;
  std::vector<XmlElement> costs, definitions;
  std::vector<XmlElement> constraints;  // <constraint>, <limit> and <periodic>
  const XmlElement* Find(const std::string& tag) const {
    const auto found = single.find(tag);
    return found == single.end() ? nullptr : &found->second;
  }
};

// <limit actuator="all"/>: the ranges of controls, which always hold
bool IsControlRange(const XmlElement& element) {
  if (!element.Has("actuator") || element.Has("quantity") || element.Has("lower") || element.Has("upper")) return false;
  if (*element.Text("actuator") != "all") {
    element.Fail(
        "the ranges of all controls always hold: write actuator=\"all\", or a quantity (force, power, velocity, "
        "length) with bounds");
  }
  element.Allow({"actuator"});
  return true;
}

void CheckGuess(const XmlElement& element) {
  element.Allow({"key", "ctrl", "file", "hold", "follow", "qpos", "at", "driven", "states"});
  element.Flag("driven", false);
  int given = 0;
  for (const char* attribute : {"key", "ctrl", "file", "hold", "follow"}) given += element.Has(attribute) ? 1 : 0;
  if (given > 1 || (given == 0 && !element.Has("states"))) element.Fail("give one of key, ctrl, file, hold and follow");
  if (element.Text("hold").value_or("") == "false") element.Fail("hold=\"false\" says not what to start from");
  const bool follows = element.Text("follow").value_or("") == "true";
  if (element.Has("qpos") && element.Text("hold").value_or("") != "true" && !follows)
    element.Fail("qpos stands beside hold=\"true\", what holds these positions at the end, or follow=\"true\"");
  if (follows && !element.Has("qpos")) element.Fail("follow=\"true\" has no qpos: the positions to go to");
  if (element.Has("at") && !element.Has("qpos")) element.Fail("at stands beside qpos");
  if (element.Has("driven") && !element.Has("follow")) element.Fail("driven stands beside follow");
}

// the time itself is a cost, where there is something to be reached in it
void CheckWithoutCost(const XmlElement& root, const Elements& elements) {
  const XmlElement* time = elements.Find("time");
  if (!time) root.Fail("there is no <cost>: nothing to minimize; <cost ctrl=\"all\"/> is the effort");
  if (time->Number("weight").value_or(1) <= 0)
    root.Fail("there is no <cost>, and the weight of <time> is 0: nothing to minimize");
  if (elements.constraints.empty())
    time->Fail("there is neither a <cost> nor a <constraint>: nothing to be reached in that time");
}

Elements SortElements(const XmlElement& root) {
  Elements elements;
  for (const XmlElement& element : root.Children()) {
    const std::string tag = element.tag();
    if (std::find(kElements.begin(), kElements.end(), tag) == kElements.end()) {
      element.Fail("there is no such element in a <task>" + Suggestion(tag, kElements));
    }
    if (tag == "constraint" || tag == "periodic" || (tag == "limit" && !IsControlRange(element))) {
      elements.constraints.push_back(element);
    } else if (tag == "limit") {
      continue;
    } else if (tag == "cost") {
      elements.costs.push_back(element);
    } else if (tag == "measure" || tag == "let") {
      elements.definitions.push_back(element);
    } else if (!elements.single.emplace(tag, element).second) {
      element.Fail("a second <" + tag + ">; there can be one");
    }
    if (tag != "cost" && tag != "constraint" && tag != "gradient" && tag != "policy" && !element.Children().empty()) {
      element.Children()[0].Fail("there are no elements inside <" + tag + ">");
    }
  }
  if (elements.costs.empty()) CheckWithoutCost(root, elements);
  if (const XmlElement* start = elements.Find("start"))
    start->Allow({"key", "file", "qpos", "qvel", "act", "free", "lower", "upper"});
  if (const XmlElement* guess = elements.Find("guess")) CheckGuess(*guess);
  return elements;
}

IlqrOptions ReadSolver(const XmlElement* element, ConstrainedOptions* constrained) {
  IlqrOptions options;
  if (!element) return options;
  element->Allow({"type", "iterations", "tolerance", "violation", "derivative", "threads", "second_order",
                  "derivative_every", "cost_unit", "leave_saddles", "start", "samples", "rounds", "elites", "nodetime",
                  "exploration", "seed"});
  constrained->tolerance = element->PositiveNumber("violation").value_or(constrained->tolerance);
  options.type = element->Word("type", {"ilqr", "fddp"}).value_or(0) == 1 ? SolverType::kFddp : SolverType::kIlqr;
  options.second_order = element->Flag("second_order", false);
  if (options.second_order && options.type != SolverType::kFddp) {
    element->Fail("second_order is for type=\"fddp\", the type is " + std::string(ToString(options.type)));
  }
  options.derivative_every = element->WholeNumber("derivative_every", 1).value_or(1);
  if (options.second_order && options.derivative_every > 1) {
    element->Fail(
        fmt::format("second_order takes the curvature at each knot, derivative_every is {}", options.derivative_every));
  }
  options.iterations = element->WholeNumber("iterations", 1).value_or(options.iterations);
  options.threads = element->WholeNumber("threads", 0).value_or(options.threads);
  options.tolerance = element->Number("tolerance").value_or(options.tolerance);
  if (options.tolerance < 0) element->Fail(fmt::format("tolerance is {:g}, expected at least 0", options.tolerance));
  options.cost_unit = element->Number("cost_unit").value_or(options.cost_unit);
  if (options.cost_unit < 0)
    element->Fail(
        fmt::format("cost_unit is {:g}, expected above 0, or 0: measured along the guess", options.cost_unit));
  options.leave_saddles = element->Flag("leave_saddles", true);
  options.derivative.level = kLevelWords[element->Word("derivative", LevelWords()).value_or(0)].level;
  return options;
}

// start="sampling", "periodic" or "servos": how the guess is bettered before there are derivatives
SamplingOptions ReadSampling(const XmlElement* element, double time, double knot_time) {
  SamplingOptions options{.iterations = 0};
  if (!element) return options;
  if (!element->Has("start")) {
    for (const char* attribute : {"samples", "rounds", "elites", "nodetime", "exploration", "seed"}) {
      if (element->Has(attribute))
        element->Fail(std::string(attribute) + " belongs to start=\"sampling\", \"periodic\" or \"servos\"");
    }
    return options;
  }
  const int word = *element->Word("start", {"sampling", "periodic", "servos"});
  options.periodic = word > 0;
  options.servos = word == 2;
  if (options.periodic && element->Has("nodetime")) element->Fail("nodetime belongs to start=\"sampling\"");
  const FrequencyRange frequencies = PeriodicRange(time, knot_time);
  if (options.periodic && frequencies.low >= frequencies.high) {
    element->Fail(fmt::format("start=\"{}\" needs two periods in the motion, of {:g} s at least, and that is {:g} s",
                              options.servos ? "servos" : "periodic", 1 / frequencies.high, time));
  }
  SamplingOptions usual;
  if (options.periodic) usual.exploration = 0.2;
  options.iterations = element->WholeNumber("rounds", 1).value_or(usual.iterations);
  options.samples = element->WholeNumber("samples", 2).value_or(usual.samples);
  options.elites = element->WholeNumber("elites", 1).value_or(std::min(usual.elites, options.samples));
  if (options.elites > options.samples) {
    element->Fail(fmt::format("elites is {}, more than the {} samples", options.elites, options.samples));
  }
  options.node_time = element->PositiveNumber("nodetime").value_or(usual.node_time);
  options.exploration = element->PositiveNumber("exploration").value_or(usual.exploration);
  options.seed = static_cast<std::uint64_t>(element->WholeNumber("seed", 0).value_or(static_cast<int>(usual.seed)));
  return options;
}

// <spline>: fewer numbers than controls
SplineOptions ReadSpline(const XmlElement* element, int N) {
  SplineOptions options;
  if (!element) return options;
  element->Allow({"knots", "order"});
  if (!element->Has("knots")) element->Fail("knots is missing: how many there are over the motion");
  options.knots = *element->WholeNumber("knots", 1);
  if (options.knots > N)
    element->Fail(fmt::format("knots is {}, more than the {} control intervals", options.knots, N));
  constexpr SplineOrder kOrders[] = {SplineOrder::kZero, SplineOrder::kLinear, SplineOrder::kCubic};
  options.order = kOrders[element->Word("order", {"zero", "linear", "cubic"}).value_or(2)];
  return options;
}

// the search begins at the horizon, where <time> lets it
void WarnOfHorizon(double horizon, Task* task) {
  const FreeTimeOptions& time = task->free_time;
  if (time.longest == 0 || (horizon >= time.shortest && horizon <= time.longest)) return;
  task->warnings.push_back(
      fmt::format("the horizon is {:g} s, beyond <time>'s {:g} … {:g} s: the first length tried is {:g} s", horizon,
                  time.shortest, time.longest, std::clamp(horizon, time.shortest, time.longest)));
}

// <time>: windows and references in seconds have no meaning while the length of the motion is open
FreeTimeOptions ReadTime(const XmlElement* element, const Elements& elements) {
  FreeTimeOptions options;
  if (!element) return options;
  element->Allow({"shortest", "longest", "weight", "tolerance"});
  for (const char* attribute : {"shortest", "longest"}) {
    if (!element->Has(attribute)) element->Fail(fmt::format("{} is missing: seconds", attribute));
  }
  options.shortest = *element->PositiveNumber("shortest");
  options.longest = *element->PositiveNumber("longest");
  if (options.longest <= options.shortest) {
    element->Fail(fmt::format("longest is {:g}, not above shortest {:g}", options.longest, options.shortest));
  }
  options.weight = element->Number("weight").value_or(options.weight);
  if (options.weight < 0) element->Fail(fmt::format("weight is {:g}, expected at least 0", options.weight));
  options.tolerance = element->PositiveNumber("tolerance").value_or(options.tolerance);
  if (options.tolerance >= 1) element->Fail(fmt::format("tolerance is {:g}, expected less than 1", options.tolerance));
  std::vector<XmlElement> timed = elements.costs;
  timed.insert(timed.end(), elements.constraints.begin(), elements.constraints.end());
  for (const XmlElement& other : timed) {
    if (other.Has("when") && *other.Text("when") != "end") {
      other.Fail("<time> leaves the length of the motion open: when can only be \"end\"", ErrorCode::kUnsupported);
    }
    for (const char* attribute : {"target", "equals"}) {
      const std::string text = other.Text(attribute).value_or("");
      if (!text.starts_with("file:") && (!text.starts_with("key:") || text.find('@') == text.npos)) continue;
      other.Fail(
          fmt::format("<time> leaves the length of the motion open: {} cannot be a reference over time", attribute),
          ErrorCode::kUnsupported);
    }
  }
  return options;
}

ContinuationOptions ReadSmoothing(const XmlElement* element, const mjModel* model) {
  ContinuationOptions options;
  if (!element) return options;
  element->Allow({"strategy", "only", "stages", "shrink", "iterations", "smooths"});
  try {
    options.smooth = ParseSmooth(model, element->Text("strategy").value_or("auto"));
    if (const auto only = element->Text("only")) options.smooth.targets = ParseSmoothTargets(*only);
    MakeSmoothModel(model, options.smooth);  // names are known
  } catch (const Error& error) {
    element->Fail(error.what(), error.code());
  }
  options.stages = element->WholeNumber("stages", 1).value_or(options.stages);
  options.stage_iterations = element->WholeNumber("iterations", 1).value_or(options.stage_iterations);
  options.shrink = element->PositiveNumber("shrink").value_or(options.shrink);
  if (options.shrink >= 1) element->Fail(fmt::format("shrink is {:g}, expected less than 1", options.shrink));
  options.backward_only = element->Word("smooths", {"motions", "derivatives"}).value_or(0) == 1;
  return options;
}

// <hopping>: beyond the nearest minimum
BasinHoppingOptions ReadHopping(const XmlElement* element) {
  if (!element) return Task().hopping;
  BasinHoppingOptions options;
  element->Allow({"rounds", "width", "iterations", "size", "seed", "from", "race", "touch", "detour", "shooting",
                  "mirror", "lean", "smooth", "forces", "back", "enough"});
  options.rounds = element->WholeNumber("rounds", 0).value_or(kHoppingRounds);
  options.width = element->WholeNumber("width", 1).value_or(options.width);
  options.iterations = element->WholeNumber("iterations", 1).value_or(options.iterations);
  options.size = element->PositiveNumber("size").value_or(options.size);
  options.seed = static_cast<std::uint64_t>(element->WholeNumber("seed", 0).value_or(static_cast<int>(options.seed)));
  const int from = element->Word("from", {"solve", "stall", "guess"}).value_or(0);
  options.after_solve = from < 2;
  options.when_stuck = from == 1;
  options.race = element->WholeNumber("race", 0).value_or(options.race);
  options.touch = element->Flag("touch", true);
  options.detour = element->Flag("detour", true);
  options.shooting = element->Flag("shooting", true);
  options.mirror = element->Flag("mirror", true);
  options.lean = element->Flag("lean", true);
  options.smooth = element->Flag("smooth", true);
  options.forces = element->Flag("forces", true);
  options.back = element->Flag("back", true);
  options.enough = element->Number("enough").value_or(options.enough);
  if (!(options.enough >= 0 && options.enough < 1))
    element->Fail(fmt::format("enough is {:g}, expected 0 or more and less than 1", options.enough));
  if (element->Has("race") && !options.after_solve)
    element->Fail("race is not of from=\"guess\": rounds from the guess begin with solves side by side anyway");
  return options;
}

// every <cost>, with the sensors that it needs added to the model
std::vector<ResidualTerm> ReadModelAndCosts(const XmlElement& root, const Elements& elements, const std::string& folder,
                                            std::vector<ConstraintDraft>* constraints, Task* task) {
  // the spec, or a compiled model to which nothing can be added
  SpecPtr spec;
  const bool compiled = IsCompiledModel(task->model_file);
  try {
    if (compiled) {
      task->model = LoadModel(task->model_file, &task->warnings);
    } else {
      spec = LoadSpec(task->model_file, &task->warnings);
    }
  } catch (const Error& error) {
    root.Fail(error.what(), error.code());
  }

  // costs add sensors, then the model is compiled
  SensorAdder sensors(spec.get(), task->model_file);
  const Definitions definitions = ReadDefinitions(elements.definitions, &sensors);
  std::vector<CostDraft> drafts;
  for (const XmlElement& element : elements.costs) drafts.push_back(ReadCost(element, definitions, &sensors));
  for (const XmlElement& element : elements.constraints)
    constraints->push_back(ReadConstraint(element, definitions, &sensors));
  try {
    if (spec) task->model = CompileModel(spec.get(), task->model_file, &task->warnings);
    CheckModel(*task, elements.Find("gradient") != nullptr);
  } catch (const Error& error) {
    root.Fail(error.what(), error.code());
  }
  if (const XmlElement* option = elements.Find("option")) ApplyOption(*option, task);
  const mjModel* model = task->model.get();
  const int user = static_cast<int>(model->nsensor) - sensors.added();
  task->user_sensors = sensors.added() > 0 ? model->sensor_adr[user] : static_cast<int>(model->nsensordata);

  // costs are resolved against the compiled model
  std::vector<ResidualTerm> terms;
  std::set<std::string> names;
  for (const CostDraft& draft : drafts) {
    terms.push_back(MakeTerm(draft, model, folder, &task->x_goal));
    if (!names.insert(terms.back().name).second) {
      draft.element.Fail("a second cost with the name '" + terms.back().name + "'");
    }
    const VectorXd at_target = VectorXd::Zero(terms.back().size());
    if (!terms.back().target_text.empty())
      CheckReach(draft.element, model, terms.back(), at_target, at_target, false, &task->warnings);
  }
  return terms;
}

// costs whose window holds at no knot with a control
void WarnOfWindows(const std::vector<XmlElement>& costs, const std::vector<ResidualTerm>& terms, Task* task) {
  const double dt = task->knot_time();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const double first = std::max(0.0, std::ceil(terms[i].begin / dt - kWindowTolerance));
    if (first < task->N && first < terms[i].end / dt - kWindowTolerance) continue;
    const std::string when = costs[i].Text("when").value_or("");
    task->warnings.push_back(costs[i].Says(
        first < task->N
            ? fmt::format("when=\"{}\" lies between two knots, which are {:g} s apart: its weight counts nowhere", when,
                          dt)
            : fmt::format("when=\"{}\" begins behind the last control, the motion ends at {:g} s: its weight counts "
                          "in `costate mpc` alone, whose plans go on",
                          when, task->N * dt)));
  }
}

void WarnOfNoWeight(const std::vector<ResidualTerm>& terms, Task* task) {
  const auto counts = [](const ResidualTerm& term) { return !term.weight.isZero(0) || !term.terminal.isZero(0); };
  if (terms.empty() || std::any_of(terms.begin(), terms.end(), counts)) return;
  task->warnings.push_back("no cost has a weight other than 0: all motions are worth the same");
}

// a start beyond what joints allow is pushed back by their limits
void WarnOfJointsBeyond(Task* task) {
  constexpr double kBeyond = 0.01;  // of the range: less may be a rounded keyframe
  const mjModel* m = task->model.get();
  for (int i = 0; i < m->njnt && !(m->opt.disableflags & mjDSBL_LIMIT); ++i) {
    const mjtNum *range = m->jnt_range + 2 * i, q = task->x0[m->jnt_qposadr[i]];
    if (!m->jnt_limited[i] || !IsScalarJoint(m->jnt_type[i])) continue;
    const double room = kBeyond * (range[1] - range[0]);
    if (q >= range[0] - room && q <= range[1] + room) continue;
    task->warnings.push_back(
        fmt::format("the start has {} at {:g}, beyond its range {:g} to {:g}: the limit pushes it back",
                    ElementName(m, mjOBJ_JOINT, i), q, range[0], range[1]));
  }
}

// target="guess", now that there is one
void AimAtGuess(const std::vector<XmlElement>& costs, const Task& task, std::vector<ResidualTerm>* terms) {
  const VectorXd s = VectorXd::Zero(task.model->nsensordata);
  const bool constant = (task.U_guess.colwise() - task.U_guess.col(0)).isZero(0);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    ResidualTerm& term = (*terms)[i];
    if (term.target_text != kGuessTarget) continue;
    if (task.free_time.longest > 0 && !constant) {
      costs[i].Fail("<time> leaves the length of the motion open: target cannot be a guess that changes over time",
                    ErrorCode::kUnsupported);
    }
    const Eigen::Index n = constant ? 1 : task.N;
    term.target.values.resize(term.measured_size(), n);
    for (Eigen::Index t = 0; t < n; ++t)
      term.target.values.col(t) = MeasuredSlots(term, task.x0, task.U_guess.col(t), s, term.measured_size());
    term.target.time = VectorXd::LinSpaced(n, 0, static_cast<double>(n - 1)) * task.substeps * task.model->opt.timestep;
  }
}

// what stands in <task> itself, beside what the task has of it
struct TaskHead {
  double horizon;  // [s]
  int substeps;
  CostScale scale;
};

TaskHead ReadHead(const XmlFile& file, const XmlElement& root, const std::string& folder, Task* task) {
  task->file = file.path();
  task->text = file.text();
  const std::string stem = std::filesystem::path(file.path()).filename().string();
  task->name = root.Text("name").value_or(stem.substr(0, stem.find('.')));
  const std::optional<std::string> model_file = root.Text("model");
  if (!model_file) root.Fail("model is missing: the file of the robot, relative to this one");
  task->model_file = Resolve(folder, *model_file);
  const std::optional<double> horizon = root.PositiveNumber("horizon");
  if (!horizon) root.Fail("horizon is missing: the length of the motion in seconds");
  constexpr CostScale kScales[] = {CostScale::kDt, CostScale::kMean, CostScale::kSum, CostScale::kKnots};
  return {*horizon, root.WholeNumber("controlstep", 1).value_or(1),
          kScales[root.Word("scale", {"dt", "mean", "sum", "knots"}).value_or(0)]};
}

// constraints, and those that are soft as costs
void AddConstraints(const std::vector<ConstraintDraft>& drafts, const std::string& folder, Task* task,
                    std::vector<ResidualTerm>* terms) {
  for (const ConstraintDraft& draft : drafts) {
    const std::size_t before = terms->size();
    MakeConstraints(draft, folder, task, terms);
    for (std::size_t i = before; i < terms->size(); ++i) {
      const ResidualTerm& added = (*terms)[i];
      const auto same = [&](const ResidualTerm& term) { return &term != &added && term.name == added.name; };
      if (std::any_of(terms->begin(), terms->end(), same))
        draft.element.Fail("a second cost with the name '" + added.name + "'");
    }
  }
}

// states to start from are for multiple shooting alone
void CheckStates(const Elements& elements, const Task& task) {
  if (task.X_guess.size() == 0) return;
  const XmlElement& guess = *elements.Find("guess");
  if (task.solver.type != SolverType::kFddp) {
    guess.Fail("states are for <solver type=\"fddp\"/>, the type is " + std::string(ToString(task.solver.type)));
  }
  if (task.sampling.iterations > 0)
    guess.Fail("states do not go with a sampled start of <solver>, which starts from controls alone");
  for (const char* other : {"time", "smooth"}) {
    if (!elements.Find(other)) continue;
    guess.Fail(fmt::format("states do not go with <{}>, which starts from controls alone", other),
               ErrorCode::kUnsupported);
  }
}

Task ReadTask(const XmlFile& file) {
  for (const char* tag : {"mujoco", "robot"}) {
    if (file.Root().tag() == tag)
      file.Root().Fail(
          "this is a model, not a task: `costate task MODEL --goal GOAL -o FILE`, or --fit MOTION, writes one to begin "
          "with");
  }
  const XmlElement root = file.Root("task");
  const std::string folder = std::filesystem::path(file.path()).parent_path().string();
  root.Allow({"name", "model", "horizon", "controlstep", "scale"});
  const Elements elements = SortElements(root);
  Task task;
  const TaskHead head = ReadHead(file, root, folder, &task);
  const XmlElement* solver = elements.Find("solver");
  task.solver = ReadSolver(solver, &task.constrained);
  task.hopping = ReadHopping(elements.Find("hopping"));
  task.mpc = ReadMpc(elements.Find("mpc"));

  std::vector<ConstraintDraft> constraints;
  std::vector<ResidualTerm> terms = ReadModelAndCosts(root, elements, folder, &constraints, &task);
  try {
    SetHorizon(head.horizon, head.substeps, &task);
  } catch (const Error& error) {
    root.Fail(error.what(), error.code());
  }
  WarnOfWindows(elements.costs, terms, &task);
  WarnOfNoWeight(terms, &task);
  task.continuation = ReadSmoothing(elements.Find("smooth"), task.model.get());
  const Start start = ReadStart(elements.Find("start"), folder, task.model.get());
  task.x0 = start.x;
  task.context = start.context;
  WarnOfJointsBeyond(&task);
  task.free_start = ReadFreeStart(elements.Find("start"), task.model.get(), task.x0);
  task.spline = ReadSpline(elements.Find("spline"), task.N);
  const double knot_time = task.knot_time();
  task.sampling = ReadSampling(solver, task.N * knot_time, knot_time);
  if (task.sampling.iterations > 0 && !task.sampling.periodic && task.spline.knots > 0) {
    if (solver->Has("nodetime")) solver->Fail("nodetime and <spline> both say where the knots are: leave one out");
    task.sampling.spline = task.spline;
  }
  task.U_guess = ReadGuess(elements.Find("guess"), start, folder, &task);
  if (task.sampling.servos && MakeServos(task.ToProblem()).empty()) {
    solver->Fail(
        "start=\"servos\" needs motors, whose force is in proportion to their control, on hinges or on slides with a "
        "range; the model has none");
  }
  task.free_time = ReadTime(elements.Find("time"), elements);
  AimAtGuess(elements.costs, task, &terms);
  WarnOfHorizon(head.horizon, &task);
  if (task.free_time.longest > 0 && !elements.Find("hopping")) task.hopping = {};  // not at each length unasked
  AddConstraints(constraints, folder, &task, &terms);
  if (task.constraints.size() > 0 && task.free_time.longest == 0 && !(solver && solver->Has("iterations")))
    task.solver.iterations = kConstrainedIterations;
  task.cost = std::make_unique<ResidualCost>(task.model.get(), std::move(terms), head.scale);
  WarnOfStart(&task);
  WarnOfIdleGeoms(&task);
  if (task.sampling.iterations > 0 && task.constraints.size() > 0) {
    task.warnings.push_back(
        "a sampled start betters the guess by the cost alone; the constraints are kept from there on");
  }
  task.X_guess = ReadStates(elements.Find("guess"), folder, task);
  CheckStates(elements, task);
  ReadInputs(elements.Find("gradient"), &task);
  task.policy = ReadPolicy(elements.Find("policy"), task);
  return task;
}

}  // namespace

SamplingOptions Task::ToSampling() const {
  SamplingOptions options = sampling;
  options.threads = solver.threads;
  return options;
}

Problem Task::ToProblem() const {
  Problem problem;
  problem.model = model.get();
  problem.cost = cost.get();
  problem.x0 = x0;
  problem.context = context;
  problem.N = N;
  problem.substeps = substeps;
  problem.u_lower = u_lower;
  problem.u_upper = u_upper;
  problem.free_start = free_start;
  problem.constraints = constraints.size() > 0 ? &constraints : nullptr;
  return problem;
}

Task LoadTask(const std::string& path) {
  RefuseInCallback("LoadTask");  // the compiler tries a step
  return ReadTask(XmlFile(path));
}

Task ParseTask(const std::string& text, const std::string& path) {
  RefuseInCallback("ParseTask");
  return ReadTask(XmlFile(text, path));
}

Task ParseWrittenTask(const std::string& text, const std::string& model_path) {
  Task task = ReadTask(XmlFile(text, model_path, model_path));
  task.file.clear();
  return task;
}

std::string TextAnywhere(const Task& task) {
  if (task.file.empty() || task.text.empty()) return task.text;
  const XmlFile file(task.text, task.file);
  const XmlElement root = file.Root("task");
  const std::string folder = std::filesystem::absolute(task.file).parent_path().string();
  std::vector<std::pair<XmlElement, std::string>> paths{{root, "model"}};
  for (const XmlElement& element : root.Children()) {
    for (const char* attribute : {"file", "states", "target", "equals"})
      if (element.Has(attribute)) paths.emplace_back(element, attribute);
  }
  std::vector<AttributeEdit> edits;
  for (const auto& [element, attribute] : paths) {
    const std::string text = element.Text(attribute.c_str()).value_or("");
    const bool bare = attribute == "model" || attribute == "file";
    const std::string head = bare ? "" : "file:";
    if (!text.starts_with(head) || std::filesystem::path(text.substr(head.size())).is_absolute()) continue;
    edits.push_back({element, attribute, head + Resolve(folder, text.substr(head.size()))});
  }
  return file.Edited(edits);
}

}  // namespace costate
