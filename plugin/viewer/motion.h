// What is shown: a model with a recorded motion, or one that is simulated while it is watched.
#ifndef COSTATE_PLUGIN_VIEWER_MOTION_H_
#define COSTATE_PLUGIN_VIEWER_MOTION_H_

#include <string>
#include <vector>

#include <costate/record.h>
#include <costate/rollout.h>
#include <costate/task.h>

namespace costate::viewer {

/// Everything that a picture or a window needs to know. The model must outlive it.
struct ViewSource {
  std::string title;  ///< stands in the title bar: the file
  const mjModel* model = nullptr;
  VectorXd context;                          ///< by kContextSignature at knot 0
  int substeps = 1;                          ///< engine steps a knot
  Trajectory trajectory;                     ///< at least one state; a live source has exactly one: its start
  MatrixXd xfrc{};                           ///< 6 nbody × N: pushes on bodies; empty when there are none
  bool live = false;                         ///< simulate on from the last knot under u_live
  VectorXd u_live;                           ///< nu
  bool fed = false;                          ///< of a live source: states come from outside, by Player::Append
  VectorXd x_goal;                           ///< nx; empty when there is none: shown as a ghost
  std::vector<Eigen::Vector3d> goal_places;  ///< shown as dots
  std::vector<int> goal_bodies{};            ///< that shall be at these places, or whose parts; -1: not known
  VectorXd cost_per_knot;                    ///< N+1; empty when there is none
  VectorXd slope_per_knot{};  ///< N, of the cost: Record::gradient_norm_per_knot; empty when there is none

  double knot_time() const { return substeps * model->opt.timestep; }
};

/// A saved run; borrows the record's model.
ViewSource FromRecord(const Record& record, const std::string& title);

/// A task: its start under its guess of the controls, up to where that diverges; borrows the task's model.
ViewSource FromTask(const Task& task, const std::string& title);

/// A bare model from a keyframe (name or number; "": qpos0), simulated live under the keyframe's controls.
ViewSource FromModel(const mjModel* model, const std::string& key, const std::string& title);

/// A robot that is moved elsewhere, from the task's start on. @param model  the robot's.  @param goals  what is open of
/// them is where their parts begin.
ViewSource FromRobot(const mjModel* model, const Task& task, const std::vector<GoalPlace>& goals,
                     const std::string& title);

/// A live source simulated for `duration` seconds (or until it diverges), as a recorded one.
ViewSource Simulate(const ViewSource& live, double duration);

/// Puts a motion's state at any time into an mjData, exact to the engine's time step: between two knots it steps again
/// from the knot before, with that knot's control and moving context, as the recorded simulation did.
class Player {
 public:
  explicit Player(const ViewSource& source);  ///< borrows the source; at its start

  const ViewSource& source() const { return source_; }
  mjData* data() { return data_.get(); }
  double start() const { return Time(0); }
  double end() const { return Time(last_knot()); }  ///< of what exists so far
  double time() const { return time_; }
  int knot() const { return knot_; }  ///< at or before time()
  int last_knot() const { return knots_ - 1; }
  double Time(int knot) const { return motion_.time[knot]; }
  VectorXd State(int knot) const { return motion_.X.col(knot); }
  VectorXd Control(int knot) const;  ///< zero at the last knot of a recorded motion
  double knot_time() const { return source_.knot_time(); }

  void SetKnot(int knot);     ///< clamped to the motion
  void SetTime(double time);  ///< clamped to the motion; a live one is simulated on as far as needed

  /// The next knot of a source that is fed: what a robot that moves elsewhere does now.
  void Append(const mjData* robot);

  /// A sentence once a live simulation could not go on; "" before.
  const std::string& failure() const { return failure_; }

 private:
  void Show(int knot, int steps);
  void LoadKnot(int knot);
  bool Extend();
  void MakeRoom();
  void ForgetOldest();

  const ViewSource& source_;
  DataPtr data_;
  Trajectory motion_;  // a live motion has spare columns
  int knots_;
  int knot_ = -1, steps_ = 0;
  double time_ = 0;
  std::string failure_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_MOTION_H_
