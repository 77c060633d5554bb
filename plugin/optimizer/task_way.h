// Guesses that lead a robot to postures: as its servos are set, or its motors follow a way there.
#ifndef COSTATE_OPTIMIZER_TASK_WAY_H_
#define COSTATE_OPTIMIZER_TASK_WAY_H_

#include <costate/task.h>

#include <functional>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "optimizer/task_follow.h"
#include "optimizer/task_path.h"
#include "optimizer/task_posture.h"
#include "optimizer/task_start.h"

namespace costate {

inline constexpr double kThere = 0.6;  // part of the motion after which a guess is at a posture that reaches the goals
inline constexpr double kArrived = 0.1;  // natural units by which a followed way may miss the goals

/// Does this state have what is to be reached?
using Arrives = std::function<bool(const VectorXd& x)>;

/// A guess with this attribute, which no other is: the one that there is, else a new one.
pugi::xml_node AddGuess(pugi::xml_node guesses, const char* attribute, const std::string& text);

/// The guess sets `attribute` and goes along the way.
void SetPostures(const char* attribute, const Waypoints& way, pugi::xml_node guess);

/// To a posture (nq × n): straight or, where something is in the way, round it if a way round is found.
MatrixXd WayTo(const mjModel* model, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
               PostureJoints joints);

/// Of servos: a straight way by what holds its end; one with corners, which they would cut, by what follows it if that
/// gets there.
void SetWayOfServos(const Task& task, const Start& start, const MatrixXd& qpos, const VectorXd& sizes, double time,
                    const Arrives& arrives, pugi::xml_node guess);

bool ArriveAt(const mjModel* model, const VectorXd& end, const Start& start, const std::vector<PartGoal>& parts,
              const VectorXd& sizes);

/// What motors can follow to a posture, as fast as they can of these times: straight, or else round what is in the way;
/// or else to another posture.
std::optional<Waypoints> FindWay(const Task& task, const Start& start, const std::vector<VectorXd>& postures,
                                 const VectorXd& sizes, const std::vector<double>& times, const Arrives& arrives);

struct WayToGoals {
  MatrixXd round;               // postures on a way round something (nq × n); else none
  std::vector<PartGoal> parts;  // that it leads to
  std::vector<PartGoal> left;   // that the joints that go there do not move
  std::size_t postures = 0;     // of motors, at the goals
};

/// Guesses that lead to postures at the goals, the best first: of joints that servos pull; of those that motors drive; of
/// a robot that stands with its feet where they are.
WayToGoals AddWaysToPosture(const Task& task, const Start& start, const std::vector<PartGoal>& goals,
                            const VectorXd& sizes, double time, pugi::xml_node guesses);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_WAY_H_
