// A task without a task file: from one state to a keyframe, or to where parts of the robot shall be.
#include <costate/ilqr.h>
#include <costate/rollout.h>
#include <costate/state.h>
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <pugixml.hpp>

#include "core/driven.h"
#include "core/element.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "core/number.h"
#include "optimizer/hints.h"
#include "optimizer/position_servo.h"
#include "optimizer/task_follow.h"
#include "optimizer/task_goal.h"
#include "optimizer/task_guess.h"
#include "optimizer/task_path.h"
#include "optimizer/task_posture.h"
#include "optimizer/task_start.h"
#include "optimizer/task_target.h"
#include "optimizer/task_way.h"
#include "optimizer/task_write.h"
#include "optimizer/task_xml.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

// a knot is 10 ms, up to 20 ms where the motion would have more than this many
constexpr int kReachKnots = 200;
constexpr double kShortKnot = 0.01, kLongKnot = 0.02;  // [s]

// weights of errors measured in natural units; among those tried, these swing up pendulum, cart-pole (2, 3, 4 s) and
// acrobot and crouch hopper and humanoid: heavier ends leave the swing-ups in local minima
constexpr double kPostureRunning = 0.2, kPostureTerminal = 20;
constexpr double kVelocityRunning = 0.01, kVelocityTerminal = 20;
// factor on running weights of goals where the guess, or a short solve of what touches nothing, leads there: the robot is
// to arrive in the time that is asked for, not as soon as forces allow
constexpr double kLed = 0.01;
constexpr int kTrialIterations = 30;
constexpr double kLevels[] = {0, 0.25, 0.5, 0.75, 1};  // constant controls that are tried, in parts of their range …
constexpr int kFewControls = 4;                        // … where there are no more of them than this
constexpr double kEffort = 0.02;
constexpr double kEnough = 0.01;  // of what staying costs: a motion that is there is not polished any further
// as kThere, where that costs less, as what falls over is there for a moment; and of legs alone
constexpr double kLater[] = {0.6, 0.8, 0.95, 1}, kLegs[] = {0.6, 0.9};
constexpr double kNearKey = 0.5;  // natural units by which any coordinate may be off a keyframe's
// what a way round something keeps off it: in terms of the model's extent, of the room that its ends leave; what it costs
// where nothing is left of that, and of how many pairs of geoms
constexpr double kClear = 0.015, kOfRoom = 0.5, kTouching = 20;
constexpr double kHardlyRoom = 0.1;  // in terms of kClear: what is as near at an end is let touch
constexpr std::size_t kMostPairs = 6;
constexpr double kVelocityTime = 0.3;  // [s] a velocity is natural when it crosses the natural length in this time

int ChooseSubsteps(double time, double timestep) {
  const double knot = std::clamp(time / kReachKnots, kShortKnot, kLongKnot);
  return std::max(1, static_cast<int>(std::lround(knot / timestep)));
}

// half the range of each control, or the size of what holds the robot where there is no range
VectorXd NaturalControls(const Task& task, const std::vector<VectorXd>& held) {
  VectorXd sizes(task.u_lower.size());
  for (Eigen::Index i = 0; i < sizes.size(); ++i) {
    const double range = task.u_upper[i] - task.u_lower[i];
    sizes[i] = std::isfinite(range) ? std::max(0.5 * range, 1e-6) : 1.0;
    for (const VectorXd& u : held) sizes[i] = std::isfinite(range) ? sizes[i] : std::max(sizes[i], std::abs(u[i]));
  }
  return sizes;
}

// "it has home, crouch"
std::string KeysText(const mjModel* model) {
  const std::vector<std::string> keys = ElementNames(model, mjOBJ_KEY);
  return keys.empty() ? "it has none" : "it has " + JoinWords(keys);
}

void SetNaturalWeights(pugi::xml_node cost, const VectorXd& natural, double running, double terminal) {
  const VectorXd inverse = natural.cwiseAbs2().cwiseInverse();
  SetWeights(cost, "weight", running * inverse);
  if (terminal > 0) SetWeights(cost, "terminal", terminal * inverse);
}

pugi::xml_node AddCost(pugi::xml_node task, const std::string& name, const std::string& vector,
                       const std::string& target, const std::string& entries = "all") {
  pugi::xml_node cost = task.append_child("cost");
  SetAttribute(cost, "name", name);
  SetAttribute(cost, vector.c_str(), entries);
  if (!target.empty()) SetAttribute(cost, "target", target);
  return cost;
}

void AddPartGoal(const mjModel* model, const PartGoal& goal, double running, pugi::xml_node task) {
  pugi::xml_node cost = task.append_child("cost");
  const bool joint = goal.type == mjOBJ_JOINT;
  SetAttribute(cost, "name", goal.CostName());
  const std::string word = joint ? JointWord(model, goal.id, false) : "";
  SetAttribute(cost, joint ? "qpos" : mju_type2Str(goal.type), word.empty() ? goal.name : word);
  if (!joint) SetAttribute(cost, "quantity", goal.quantity);
  if (static_cast<int>(goal.index.size()) < goal.size)
    SetAttribute(
        cost, "index",
        NumbersText(Eigen::Map<const Eigen::VectorXi>(goal.index.data(), static_cast<Eigen::Index>(goal.index.size()))
                        .cast<double>(),
                    1));
  SetAttribute(
      cost, "target",
      NumbersText(Eigen::Map<const VectorXd>(goal.values.data(), static_cast<Eigen::Index>(goal.values.size())), 12));
  VectorXd natural;
  if (joint) {
    natural = NaturalSizes(model).segment(model->jnt_dofadr[goal.id], JointDofs(model->jnt_type[goal.id]));
  } else {
    natural = VectorXd::Constant(1, goal.quantity == "pos" ? NaturalLength(model) : 1);
  }
  SetNaturalWeights(cost, natural, running, kPostureTerminal);
}

// "geom" or "body" and its name, as a task calls it; none where it has no name, or where its distance would take long: five
// of a UR5e's links, by their meshes, made an iteration 25 times as long
std::pair<const char*, std::string> NameOfGeom(const mjModel* model, int geom) {
  const auto is_quick = [&](int g) { return model->geom_type[g] != mjGEOM_MESH && model->geom_type[g] != mjGEOM_SDF; };
  if (const std::string name = GivenName(model, mjOBJ_GEOM, geom); !name.empty())
    return {"geom", is_quick(geom) ? name : ""};
  const int body = model->geom_bodyid[geom], first = model->body_geomadr[body];
  for (int g = first; g < first + model->body_geomnum[body]; ++g) {
    if (body == 0 || !is_quick(g)) return {"body", ""};
  }
  return {"body", GivenName(model, mjOBJ_BODY, body)};
}

// costs of what a way round something would else only just pass
void AddClearances(const mjModel* model, const std::vector<NearPair>& pairs, pugi::xml_node task) {
  std::vector<std::string> known;
  for (const NearPair& pair : pairs) {
    const auto [kind, name] = NameOfGeom(model, pair.moving);
    const auto [kind2, name2] = NameOfGeom(model, pair.standing);
    const double clear = kClear * model->stat.extent, lower = std::min(clear, kOfRoom * pair.room);
    if (known.size() == kMostPairs) return;
    if (lower < kHardlyRoom * clear || name.empty() || name2.empty() || (name + name2).find(' ') != std::string::npos)
      continue;
    const std::string title = name + " clear of " + name2;
    if (std::ranges::find(known, title) != known.end()) continue;
    known.push_back(title);
    pugi::xml_node constraint = task.append_child("constraint");
    SetAttribute(constraint, "name", title);
    SetAttribute(constraint, kind, name);
    SetAttribute(constraint, "quantity", "distance");
    SetAttribute(constraint, (std::string(kind2) + "2").c_str(), name2);
    SetAttribute(constraint, "lower", fmt::format("{:.3g}", lower));
    SetAttribute(constraint, "soft", fmt::format("{:.3g}", kTouching / (lower * lower)));
  }
}

// goals of parts that a mocap body carries where no actuator moves them
void WarnOfMocap(const mjModel* model, const std::vector<PartGoal>& parts, std::vector<std::string>* warnings) {
  const std::vector<char> driven = DrivenDofs(model);
  for (const PartGoal& part : parts) {
    int dof = part.LastDof(model);
    const int tree = model->dof_treeid[dof];
    while (dof >= 0 && !driven[static_cast<std::size_t>(dof)]) dof = model->dof_parentid[dof];
    const MocapHold hold = dof >= 0 ? MocapHold() : FindMocapHold(model, tree);
    if (hold.any()) return warnings->push_back(fmt::format("goal of {}: {}", part.CostName(), hold.Text(model)));
  }
}

// goals that the posture of the guess leaves where they are, away from where they shall be
void WarnOfLeft(const mjModel* model, const Start& start, const std::vector<PartGoal>& left, const VectorXd& sizes,
                std::vector<std::string>* warnings) {
  for (const PartGoal& goal : left) {
    if (MissOfGoals(model, start, {goal}, sizes, NaturalLength(model)) < kArrived) continue;
    warnings->push_back(fmt::format(
        "goal of {}: no joint that an actuator moves leads there; the guess goes to a posture at the others",
        goal.CostName()));
  }
}

// goals that no posture is near to
void WarnOfReach(const mjModel* model, const Start& start, const std::vector<PartGoal>& parts, const VectorXd& sizes,
                 std::vector<std::string>* warnings) {
  constexpr double kOff = 0.1;  // in natural units: less may be the search's
  const double length = NaturalLength(model);
  const std::vector<double> misses = NearestMisses(model, start, parts, sizes, length);
  for (std::size_t i = 0; i < misses.size(); ++i) {
    const PartGoal& part = parts[i];
    const bool place = part.quantity == "pos";
    const bool slides = part.type == mjOBJ_JOINT && model->jnt_type[part.id] == mjJNT_SLIDE;
    if (!(misses[i] > kOff * (place ? length : 1))) continue;
    warnings->push_back(fmt::format("goal of {}: the nearest posture found is {:.2g} {} off; is it out of reach?",
                                    part.CostName(), misses[i], place || slides ? "m" : "rad"));
  }
}

// postures at the goals, and no way to any of them
void WarnOfNoWay(std::size_t postures, double time, std::vector<std::string>* warnings) {
  if (postures == 0) return;
  warnings->push_back(fmt::format(
      "the motors can follow no way that was found to {} in {:g} s; the guess holds the start",
      postures == 1 ? "the posture at the goals" : fmt::format("one of {} postures at the goals", postures), time));
}

// no motion is at rest at a keyframe that is inside of something
void WarnOfDeepKey(const mjModel* model, const Start& start, const std::string& key, const KeyKnot& goal,
                   std::vector<std::string>* warnings) {
  if (const DeepContact deep = FindDeepContact(model, start.context, goal.x, goal.u); deep.parts)
    warnings->push_back(fmt::format("at keyframe '{}', the goal, {}: no motion stays there", key, deep.text));
}

[[noreturn]] void FailWithoutGoal(const mjModel* model, const std::string& path) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} is a model, not a task: say what to reach, a keyframe ({}) or where a part shall be "
                          "(joint:NAME=VALUE, site:NAME=X,Y,Z); it has\n{}",
                          path, KeysText(model), WhatThereIs(model)));
}

// a keyframe among others in a list: by its number where its name would end there
std::string InList(const mjModel* model, const std::string& key) {
  if (key.find_first_of(" \t@") == std::string::npos) return key;
  return fmt::format("{}", ElementId(model, mjOBJ_KEY, key));
}

// all joints about where a keyframe has them
bool IsNearKey(const mjModel* model, const VectorXd& x, const KeyKnot& goal, const VectorXd& sizes, double near) {
  const VectorXd off = Difference(model, x, goal.x).head(model->nv).cwiseQuotient(sizes);
  return off.allFinite() && off.cwiseAbs().maxCoeff() < near;
}

// the way to a keyframe, and to stay about there, of motors; servos are led by what holds it
std::optional<Waypoints> FindWayToKey(const Task& task, const Start& start, const KeyKnot& goal, const VectorXd& sizes,
                                      double time, const Arrives& arrives) {
  const mjModel* model = task.model.get();
  if (model->na > 0 || static_cast<int>(PositionServos(model).size()) == model->nu) return {};
  return FindWay(task, start, {goal.x.head(model->nq)}, sizes, {time}, arrives);
}

// the model, and the horizon in control intervals
Task ReachTask(const std::string& model_path, const ReachOptions& options) {
  Task task;
  task.model_file = model_path;
  task.model = LoadModel(model_path);
  const mjModel* model = task.model.get();
  CheckModel(task);
  if (!(options.time > 0) || !std::isfinite(options.time)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("time is {:g} s, expected a number above 0", options.time));
  }
  if (options.substeps < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("substeps is {}, expected at least 0", options.substeps));
  }
  if (options.goals.empty()) FailWithoutGoal(model, model_path);
  SetHorizon(options.time, options.substeps > 0 ? options.substeps : ChooseSubsteps(options.time, model->opt.timestep),
             &task);
  return task;
}

// what is reached, from where
struct Reach {
  const Task& task;
  std::string start_key, key;
  std::vector<PartGoal> parts;
  VectorXd size;  // natural ones
  Start start;
  KeyKnot goal;
  bool keys_hold;              // the keyframes have controls
  std::vector<VectorXd> held;  // what holds start and goal
};

Reach MakeReach(const Task& task, const ReachOptions& options) {
  const mjModel* model = task.model.get();
  auto [key, parts] = ReadGoals(model, options.goals);
  const std::string start_key = KeyName(options.start);
  Reach reach{task, start_key, key, std::move(parts), NaturalSizes(model), MakeStart(model, start_key), {}, false, {}};
  if (!key.empty()) reach.goal = KnotAtKey(model, key);
  for (const PartGoal& part : reach.parts) {
    if (!key.empty()) CheckAgrees(model, part, key, reach.goal.x);
  }
  const Start& start = reach.start;
  const KeyKnot& goal = reach.goal;
  reach.keys_hold = !start_key.empty() && !key.empty() && !start.u.isZero(0) && !goal.u.isZero(0);
  reach.held.push_back(reach.keys_hold ? start.u : HoldControl(task, start.x, start.context, start.u));
  if (!key.empty()) reach.held.push_back(reach.keys_hold ? goal.u : HoldControl(task, goal.x, goal.context, goal.u));
  return reach;
}

// to a keyframe: first what suits most robots, then what else may lead there, as a keyframe's controls need not hold it
WayToGoals AddWaysToKey(const Reach& reach, double whole, pugi::xml_node guesses) {
  WayToGoals to;
  const Task& task = reach.task;
  const mjModel* model = task.model.get();
  const std::string key = InList(model, reach.key);
  const auto there_at = [&](double time, int digits) { return fmt::format("{}@{:.{}g}", key, time, digits); };
  const std::string end = there_at((task.N - 1) * task.substeps * model->opt.timestep, 12);
  if (task.N == 1) {
    AddGuess(guesses, "key", reach.key);
    return to;
  }
  const double time = kThere * whole;
  const Arrives arrives = [&](const VectorXd& x) { return IsNearKey(model, x, reach.goal, reach.size, kNearKey); };
  bool straight = true;
  if (!reach.keys_hold && arrives(reach.start.x)) {
    AddGuess(guesses, "hold", "true");
  } else if (const auto way = reach.keys_hold
                                  ? std::nullopt
                                  : FindWayToKey(task, reach.start, reach.goal, reach.size, time, arrives)) {
    if (way->time.size() == 1) {
      AddGuess(guesses, "follow", there_at(time, 6));
    } else {
      SetPostures("follow", *way, guesses.append_child("guess"));
      to.round = way->qpos;
      straight = false;
    }
  } else if (const MatrixXd round =
                 WayTo(model, reach.start, reach.goal.x.head(model->nq), reach.size, PostureJoints::kServos);
             round.cols() > 1) {
    SetWayOfServos(task, reach.start, round, reach.size, time, arrives, guesses.append_child("guess"));
    to.round = round;
    straight = false;
  }
  if (reach.keys_hold) AddGuess(guesses, "key", InList(model, reach.start_key) + "@0 " + end);
  AddGuess(guesses, "hold", end);
  AddGuess(guesses, "hold", "true");
  for (const double part : kLater) {  // at rest at a knot, where controls change
    const double there = std::max(1.0, std::floor(part * task.N + 1e-9)) * task.substeps * model->opt.timestep;
    if (straight && model->na == 0) AddGuess(guesses, "follow", there_at(there, 6));
  }
  // legs go there and carry the trunk, which no actuator moves
  if (!straight || model->na > 0 || !HasUndrivenDofs(model)) return to;
  for (const double part : kLegs) {
    const pugi::xml_node guess = guesses.append_child("guess");
    SetAttribute(guess, "follow", there_at(part * whole, 6));
    SetAttribute(guess, "driven", "true");
  }
  return to;
}

// what lies about and has no goal need not be at rest
void LeaveOutLoose(const mjModel* model, const std::vector<PartGoal>& parts, VectorXd* speed) {
  const std::vector<char> loose = LooseDofs(model);
  for (int j = 0; j < model->nv; ++j) {
    const auto has_goal = [&](const PartGoal& part) {
      return model->dof_treeid[part.LastDof(model)] == model->dof_treeid[j];
    };
    if (loose[static_cast<std::size_t>(j)] && std::ranges::none_of(parts, has_goal)) (*speed)[j] = kInf;
  }
}

// a keyframe's posture; what lies about has costs of its own, so that one that no control reaches is seen
void AddPostures(const mjModel* model, const VectorXd& size, const std::string& target, double running,
                 pugi::xml_node root) {
  const std::vector<char> loose = LooseDofs(model);
  std::vector<int> apart;
  VectorXd rest = size;
  for (int j = 0; j < model->njnt; ++j) {
    const int dof = model->jnt_dofadr[j], count = JointDofs(model->jnt_type[j]);
    if (!loose[static_cast<std::size_t>(dof)] || GivenName(model, mjOBJ_JOINT, j).empty()) continue;
    apart.push_back(j);
    rest.segment(dof, count).setConstant(kInf);
  }
  if (std::ssize(apart) == model->njnt) rest = size;
  SetNaturalWeights(AddCost(root, "posture", "qpos", target), rest, running, kPostureTerminal);
  if (std::ssize(apart) == model->njnt) return;
  for (const int j : apart) {
    const std::string name = ElementName(model, mjOBJ_JOINT, j);
    SetNaturalWeights(AddCost(root, "place of " + name, "qpos", target, name),
                      size.segment(model->jnt_dofadr[j], JointDofs(model->jnt_type[j])), running, kPostureTerminal);
  }
}

// where the motion leads that a task begins with
struct Led {
  bool key = false;
  std::vector<PartGoal> parts;
};

// as without this element, but that a motion that is there is enough
void AddHopping(const BasinHoppingOptions& usual, pugi::xml_node root) {
  pugi::xml_node hopping = root.append_child("hopping");
  SetAttribute(hopping, "rounds", fmt::format("{}", usual.rounds));
  SetAttribute(hopping, "from", "stall");
  SetAttribute(hopping, "enough", fmt::format("{:g}", kEnough));
}

// @param guess  none: left out.  @param near  what it is to keep off.
std::string ReachText(const Reach& reach, const std::string& model_path, double horizon, pugi::xml_node guess,
                      const Led& led, const std::vector<NearPair>& near, bool effort) {
  const Task& task = reach.task;
  std::string name = reach.key.empty() ? "reach" : "reach " + reach.key;
  for (const PartGoal& part : reach.parts) name += " " + part.name;
  pugi::xml_document document;
  pugi::xml_node root = AddTaskRoot(task.model.get(), name, model_path, horizon, task.substeps, "", &document);
  if (!reach.start_key.empty()) SetAttribute(root.append_child("start"), "key", reach.start_key);
  if (guess) root.append_copy(guess);

  // posture, places, rest and effort, each in natural units
  const std::string target = reach.key.empty() ? "" : "key:" + reach.key;
  if (!reach.key.empty())
    AddPostures(task.model.get(), reach.size, target, led.key ? kLed * kPostureRunning : kPostureRunning, root);
  for (const PartGoal& part : reach.parts) {
    const bool to_it =
        std::ranges::any_of(led.parts, [&](const PartGoal& other) { return other.CostName() == part.CostName(); });
    AddPartGoal(task.model.get(), part, to_it ? kLed * kPostureRunning : kPostureRunning, root);
  }
  VectorXd speed = reach.size / kVelocityTime;
  if (reach.key.empty()) LeaveOutLoose(task.model.get(), reach.parts, &speed);
  SetNaturalWeights(AddCost(root, "velocity", "qvel", target), speed, kVelocityRunning, kVelocityTerminal);
  if (effort)
    SetNaturalWeights(AddCost(root, "effort", "ctrl", "guess"), NaturalControls(task, reach.held), kEffort, 0);
  AddClearances(task.model.get(), near, root);
  AddHopping(task.hopping, root);
  return TaskText(document);
}

bool IsThere(const Reach& reach, const VectorXd& x) {
  const mjModel* model = reach.task.model.get();
  return (reach.key.empty() || IsNearKey(model, x, reach.goal, reach.size, kArrived)) &&
         (reach.parts.empty() || ArriveAt(model, x, reach.start, reach.parts, reach.size));
}

// Does a short solve arrive that pays little for the way, and touches nothing? Such solves are quick.
bool ArrivesSolved(const Reach& reach, const Task& trial) try {
  const mjModel* model = trial.model.get();
  if (trial.N == 0) return false;
  const Problem problem = trial.ToProblem();
  Trajectory motion;
  Simulator simulator(model, trial.context, trial.substeps, 1);
  if (!simulator.Rollout(trial.x0, trial.U_guess, &motion).ok() || !TouchesNothing(problem, motion)) return false;
  IlqrOptions options = trial.solver;
  options.iterations = kTrialIterations;
  const SolveResult solved = SolveIlqr(problem, trial.U_guess, options);
  return solved.trajectory.X.cols() > 0 && TouchesNothing(problem, solved.trajectory) &&
         IsThere(reach, solved.trajectory.X.rightCols(1));
} catch (const Error&) {  // told when the task is solved
  return false;
}

// constant controls, one actuator after the other: what rests may have no slope, behind dry friction or short of a contact
void TryConstants(const Reach& reach, GuessSearch* search, pugi::xml_node guesses) {
  const VectorXd &lower = reach.task.u_lower, &upper = reach.task.u_upper;
  if (lower.size() == 0 || lower.size() > kFewControls || !lower.allFinite() || !upper.allFinite()) return;
  VectorXd u = reach.held.front();
  for (Eigen::Index i = 0; i < u.size(); ++i) {
    double kept = u[i];
    for (const double level : kLevels) {
      u[i] = lower[i] + level * (upper[i] - lower[i]);
      const pugi::xml_node guess = guesses.append_child("guess");
      SetAttribute(guess, "ctrl", NumbersText(u, 6));
      search->Try(guess);
      if (search->best().guess == guess) kept = u[i];
    }
    u[i] = kept;
  }
}

}  // namespace

std::string WriteReachTask(const std::string& model_path, const ReachOptions& options, const std::string& folder,
                           std::vector<std::string>* warnings) {
  const Task task = ReachTask(model_path, options);
  const mjModel* model = task.model.get();
  const Reach reach = MakeReach(task, options);
  // a control interval that was chosen here divides the motion by being rounded, which is no one's mistake
  const double horizon = options.substeps > 0 ? options.time : task.N * task.substeps * model->opt.timestep;

  pugi::xml_document ways;
  pugi::xml_node guesses = ways.append_child("guesses");
  WayToGoals to;
  if (!reach.key.empty()) {
    to = AddWaysToKey(reach, options.time, guesses);
  } else if (task.N > 1) {
    to = AddWaysToPosture(task, reach.start, reach.parts, reach.size, options.time, guesses);
  }

  std::vector<NearPair> near;
  if (to.round.cols() > 0)
    near = PairsOnTheWay(model, reach.start, to.round, reach.size, 2 * kClear * model->stat.extent);

  const auto text = [&](const std::string& model_named, pugi::xml_node from, const Led& where, bool effort = true) {
    return ReachText(reach, model_named, horizon, from, where, near, effort);
  };
  const auto parse = [&](pugi::xml_node from, const Led& where, bool effort) {
    return ParseWrittenTask(text(NamedFrom("", model_path), from, where, effort), model_path);
  };

  // the one to begin with, by what its motion costs; a goal counts little on the way where it leads there
  pugi::xml_node guess = guesses.first_child();
  Led led;
  bool there = reach.key.empty() && guess;
  if (guess.next_sibling() || (!guess && task.N > 1)) {
    const bool none_leads = !guess;
    if (none_leads) AddGuess(guesses, "hold", "true");
    pugi::xml_node none = ways.append_child("guess");
    SetAttribute(none, "ctrl", "0");
    GuessSearch search(parse(none, {}, false), reach.start.u);
    for (const pugi::xml_node other : guesses) search.Try(other);
    if (none_leads) TryConstants(reach, &search, guesses);
    guess = search.best().guess;
    const VectorXd& end = search.best().end;
    const bool plays = end.size() > 0;
    there = there && plays && ArriveAt(model, end, reach.start, to.parts, reach.size);
    led.key = !reach.key.empty() && plays && IsThere(reach, end);
    if (none_leads && guess == guesses.first_child()) guess = {};
  }
  if (there) led.parts = to.parts;
  const Led all{!reach.key.empty(), reach.parts};
  const bool solved =
      !there && !led.key && task.N > 1 && !options.at_once && ArrivesSolved(reach, parse(guess, all, true));
  if (solved || led.key) led = all;
  if (options.at_once) led = {};
  if (reach.key.empty() && task.N > 1 && warnings && !solved) {
    there ? WarnOfLeft(model, reach.start, to.left, reach.size, warnings)
          : WarnOfReach(model, reach.start, reach.parts, reach.size, warnings);
    if (!there) WarnOfNoWay(to.postures, options.time, warnings);
  }
  if (warnings) WarnOfMocap(model, reach.parts, warnings);
  if (warnings && !reach.key.empty()) WarnOfDeepKey(model, reach.start, reach.key, reach.goal, warnings);
  return text(NamedFrom(folder, model_path), guess, led);
}

Task MakeReachTask(const std::string& model_path, const ReachOptions& options) {
  std::vector<std::string> warnings;
  Task task = ParseWrittenTask(WriteReachTask(model_path, options, "", &warnings), model_path);
  task.warnings.insert(task.warnings.end(), warnings.begin(), warnings.end());
  if (options.start.empty() && task.model->nkey > 0) {
    task.warnings.push_back("the motion starts at the model's default state, at no keyframe (" +
                            KeysText(task.model.get()) + ")");
  }
  return task;
}

}  // namespace costate
