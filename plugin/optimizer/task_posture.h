// Postures at which parts of a robot are where they shall be, by joints that actuators drive.
#ifndef COSTATE_OPTIMIZER_TASK_POSTURE_H_
#define COSTATE_OPTIMIZER_TASK_POSTURE_H_

#include <costate/model.h>
#include <costate/types.h>

#include <string>
#include <vector>

#include "optimizer/foothold.h"
#include "optimizer/task_start.h"

namespace costate {

/// A quarter of the model's extent within 0.05 to 0.5 m: of places.
double NaturalLength(const mjModel* model);

/// Of a change of each dof (nv): half its range up to a radian, a radian, or that length.
VectorXd NaturalSizes(const mjModel* model);

/// Where one part shall be: "joint:knee=1.2", "site:hand=0.4,_,0.5", "body:torso:zaxis=0,0,1".
struct PartGoal {
  mjtObj type = mjOBJ_UNKNOWN;
  int id = 0;
  std::string name, quantity;  ///< quantity: of joints none
  std::vector<int> index;      ///< components that are not left open
  std::vector<double> values;  ///< of these
  int size = 0;

  std::string CostName() const;
  int Body(const mjModel* model) const;     ///< that it is, or is part of
  int LastDof(const mjModel* model) const;  ///< that moves it: the others are its parents; -1: none
};

/// Whose joints, hinges and slides, go to a posture.
enum class PostureJoints {
  kServos,    ///< those that position servos pull
  kActuated,  ///< those that any actuator moves directly, as all joints between them and the world
  kStanding,  ///< those that any actuator moves directly, and free joints above them, which go without turning
};

/// Each once.
std::vector<int> JointsThatGo(const mjModel* model, PostureJoints joints);

/// Do these joints move a part, or, of a goal of a joint, does a fixed tendon that an actuator pulls or another joint
/// that it is tied to?
bool MoveTo(const mjModel* model, const PartGoal& goal, PostureJoints joints);

/// Where robots stand, soon after the start, but on bodies that a goal moves.
std::vector<Foothold> FindFeet(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals);

/// Where these joints would have to go so that all goals are reached, the others staying where x has them, but for
/// those that a goal names and a tendon or a tie drives, which are put there:
///
///   r(q) = 0,   dq = -Jᵀ (J Jᵀ + λ)⁻¹ r   over joints that are not held by their range
///
/// in natural units, from x and from random postures; of those found some that are free of contacts that x has not, the
/// nearest to x first, or, where all touch, the nearest one.
/// @param start  its x, and its context where it has one.
/// @param sizes  natural ones of each dof (nv).  @param length  natural one of places [m].
/// @param feet   points that are to stay.
/// @return   qpos (nq) of each; none where none was found, where none of these joints moves the parts, or for goals of
///           ball and free joints.
std::vector<VectorXd> ReachPostures(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals,
                                    ConstVectorRef sizes, double length, PostureJoints joints = PostureJoints::kServos,
                                    std::vector<Foothold> feet = {});

/// How far each goal [m, rad] is off in the nearest posture that this search finds, of joints that actuators move
/// directly. Empty where others move a part, too, as of a robot that walks.
std::vector<double> NearestMisses(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals,
                                  ConstVectorRef sizes, double length);

/// The largest |r| at a state.
double MissOfGoals(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals, ConstVectorRef sizes,
                   double length);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_POSTURE_H_
