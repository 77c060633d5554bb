#include "optimizer/task_way.h"

#include <algorithm>
#include <utility>

#include "optimizer/position_servo.h"
#include "optimizer/task_write.h"

namespace costate {
namespace {

constexpr int kPlanned = 3;  // postures beside the nearest to which ways round are looked for

// clear ways to other postures than the nearest until one serves: straight ones first, for they cost next to nothing
bool TryOtherWays(const mjModel* model, const Start& start, const std::vector<VectorXd>& postures, ConstVectorRef sizes,
                  PostureJoints joints, const std::function<bool(const MatrixXd& way)>& serves) {
  std::vector<VectorXd> walled;
  for (std::size_t i = 1; i < postures.size(); ++i) {
    if (IsInTheWay(model, start, postures[i], sizes)) {
      walled.push_back(postures[i]);
    } else if (serves(postures[i])) {
      return true;
    }
  }
  if (walled.size() > kPlanned) walled.resize(kPlanned);
  return std::ranges::any_of(walled, [&](const VectorXd& posture) {
    const MatrixXd way = PlanPath(model, start, posture, sizes, joints);
    return way.cols() > 0 && serves(way);
  });
}

// of servos, to a posture at the goals: where none is clear straight to the nearest
MatrixXd WayToOneOf(const mjModel* model, const Start& start, const std::vector<VectorXd>& postures,
                    ConstVectorRef sizes) {
  MatrixXd way = WayTo(model, start, postures[0], sizes, PostureJoints::kServos);
  if (way.cols() > 1 || postures.size() == 1 || !IsInTheWay(model, start, postures[0], sizes)) return way;
  TryOtherWays(model, start, postures, sizes, PostureJoints::kServos, [&](const MatrixXd& other) {
    way = other;
    return true;
  });
  return way;
}

// of a robot that stands, whose feet stay where they are: as its motors or servos lead it, if that gets there
WayToGoals AddWayOfStanding(const Task& task, const Start& start, const std::vector<PartGoal>& goals,
                            const VectorXd& sizes, double time, WayToGoals to, pugi::xml_node guesses) {
  const mjModel* model = task.model.get();
  std::vector<Foothold> feet = FindFeet(model, start, goals);
  const bool stands = !feet.empty() && std::ranges::all_of(goals, [&](const PartGoal& goal) {
    return MoveTo(model, goal, PostureJoints::kStanding);
  });
  if (!stands) return to;
  const std::vector<VectorXd> postures =
      ReachPostures(model, start, goals, sizes, NaturalLength(model), PostureJoints::kStanding, std::move(feet));
  if (postures.empty()) return to;
  const Arrives arrives = [&](const VectorXd& end) { return ArriveAt(model, end, start, goals, sizes); };
  pugi::xml_node guess;
  if (static_cast<int>(PositionServos(model).size()) == model->nu) {
    guess = guesses.append_child("guess");
    SetWayOfServos(task, start, postures[0], sizes, kThere * time, arrives, guess);
  } else if (const auto way = model->na > 0
                                  ? std::nullopt
                                  : FindWay(task, start, {postures[0]}, sizes, {kThere * time, time}, arrives)) {
    guess = guesses.append_child("guess");
    SetPostures("follow", *way, guess);
  }
  if (!guess) return to;
  AddGuess(guesses, "hold", "true");
  to.parts = goals;
  to.left.clear();
  return to;
}

}  // namespace

pugi::xml_node AddGuess(pugi::xml_node guesses, const char* attribute, const std::string& text) {
  for (const pugi::xml_node guess : guesses) {
    if (text == guess.attribute(attribute).value() && !guess.attribute("qpos")) return guess;
  }
  const pugi::xml_node guess = guesses.append_child("guess");
  SetAttribute(guess, attribute, text);
  return guess;
}

void SetPostures(const char* attribute, const Waypoints& way, pugi::xml_node guess) {
  SetAttribute(guess, attribute, "true");
  SetAttribute(guess, "qpos", NumbersText(way.qpos.reshaped(), 12));  // what stands may fall a little beside it
  SetAttribute(guess, "at", NumbersText(way.time, 9));
}

MatrixXd WayTo(const mjModel* model, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
               PostureJoints joints) {
  if (IsInTheWay(model, start, goal, sizes)) {
    MatrixXd way = PlanPath(model, start, goal, sizes, joints);
    if (way.cols() > 0) return way;
  }
  return goal;
}

void SetWayOfServos(const Task& task, const Start& start, const MatrixXd& qpos, const VectorXd& sizes, double time,
                    const Arrives& arrives, pugi::xml_node guess) {
  const Waypoints way{time * SharesOfPath(task.model.get(), start.x, qpos, sizes), qpos};
  const bool follows = qpos.cols() > 1 && task.model->na == 0 && arrives(FollowControls(task, start, way).end);
  SetPostures(follows ? "follow" : "hold", way, guess);
}

bool ArriveAt(const mjModel* model, const VectorXd& end, const Start& start, const std::vector<PartGoal>& parts,
              const VectorXd& sizes) {
  return MissOfGoals(model, {end, {}, start.context}, parts, sizes, NaturalLength(model)) < kArrived;
}

std::optional<Waypoints> FindWay(const Task& task, const Start& start, const std::vector<VectorXd>& postures,
                                 const VectorXd& sizes, const std::vector<double>& times, const Arrives& arrives) {
  const mjModel* model = task.model.get();
  const auto follow = [&](const MatrixXd& qpos) -> std::optional<Waypoints> {
    const VectorXd shares = SharesOfPath(model, start.x, qpos, sizes);
    for (const double time : times) {
      Waypoints way{time * shares, qpos};
      if (arrives(FollowControls(task, start, way).end)) return way;
    }
    return {};
  };
  std::optional<Waypoints> way = follow(postures[0]);
  if (way) return way;
  const MatrixXd round = WayTo(model, start, postures[0], sizes, PostureJoints::kActuated);
  if (round.cols() > 1 && (way = follow(round))) return way;
  TryOtherWays(model, start, postures, sizes, PostureJoints::kActuated, [&](const MatrixXd& qpos) {
    way = follow(qpos);
    return way.has_value();
  });
  return way;
}

WayToGoals AddWaysToPosture(const Task& task, const Start& start, const std::vector<PartGoal>& goals,
                            const VectorXd& sizes, double time, pugi::xml_node guesses) {
  const mjModel* model = task.model.get();
  WayToGoals to;
  const auto find = [&](PostureJoints joints) -> std::vector<VectorXd> {
    to.parts.clear();
    to.left.clear();
    for (const PartGoal& goal : goals) (MoveTo(model, goal, joints) ? to.parts : to.left).push_back(goal);
    if (to.parts.empty()) return {};
    return ReachPostures(model, start, to.parts, sizes, NaturalLength(model), joints);
  };
  const Arrives arrives = [&](const VectorXd& end) { return ArriveAt(model, end, start, to.parts, sizes); };
  const std::vector<VectorXd> held = find(PostureJoints::kServos);
  if (!held.empty()) {
    const MatrixXd way = WayToOneOf(model, start, held, sizes);
    if (way.cols() > 1) to.round = way;
    SetWayOfServos(task, start, way, sizes, kThere * time, arrives, guesses.append_child("guess"));
    AddGuess(guesses, "hold", "true");
    return to;
  }
  std::vector<VectorXd> followed;
  if (model->na == 0) followed = find(PostureJoints::kActuated);
  to.postures = followed.size();
  if (followed.empty()) return AddWayOfStanding(task, start, goals, sizes, time, to, guesses);
  if (const auto way = FindWay(task, start, followed, sizes, {kThere * time, time}, arrives)) {
    SetPostures("follow", *way, guesses.append_child("guess"));
    if (way->qpos.cols() > 1) to.round = way->qpos;
  }
  return to;
}

}  // namespace costate
