#include "viewer/motion.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include <costate/step.h>

#include "core/engine_guard.h"
#include "core/state_layout.h"

namespace costate::viewer {
namespace {

constexpr double kKnotTime = 0.01;               // [s] about one knot a frame of a fast screen
constexpr std::size_t kHistoryBytes = 64 << 20;  // of a live simulation: minutes for a humanoid

// knots that a live simulation keeps
int Capacity(const ViewSource& source) {
  const std::size_t knot = sizeof(double) * (source.trajectory.X.rows() + source.trajectory.context.rows() + 1);
  return static_cast<int>(std::clamp<std::size_t>(kHistoryBytes / knot, 100, 1000000));
}

// a motion that diverges: columns after the failure repeat the last good state
void Shorten(int N, ViewSource* source) {
  Trajectory& motion = source->trajectory;
  motion.X.conservativeResize(Eigen::NoChange, N + 1);
  motion.U.conservativeResize(Eigen::NoChange, N);
  motion.S.conservativeResize(Eigen::NoChange, N + 1);
  motion.context.conservativeResize(Eigen::NoChange, N + 1);
  motion.time.conservativeResize(N + 1);
  source->title += fmt::format(" (diverges at {:.3f} s)", motion.time[N]);
}

// what is open is where the motion ends
std::vector<Eigen::Vector3d> Places(const std::vector<GoalPlace>& goals, const Trajectory& motion) {
  std::vector<Eigen::Vector3d> places;
  for (const GoalPlace& goal : goals) {
    const Eigen::Map<const Eigen::Vector3d> place(goal.place);
    const Eigen::Vector3d end = motion.S.col(motion.S.cols() - 1).segment<3>(goal.sensor);
    places.push_back(place.array().isNaN().select(end, place));
  }
  return places;
}

// the body that a sensor of places measures, by the sensor's address
int SensedBody(const mjModel* model, int address) {
  for (int i = 0; i < model->nsensor; ++i) {
    if (model->sensor_adr[i] != address) continue;
    const int id = model->sensor_objid[i];
    switch (model->sensor_objtype[i]) {
      case mjOBJ_BODY:
      case mjOBJ_XBODY: return id;
      case mjOBJ_SITE: return model->site_bodyid[id];
      case mjOBJ_GEOM: return model->geom_bodyid[id];
      case mjOBJ_CAMERA: return model->cam_bodyid[id];
      default: return -1;
    }
  }
  return -1;
}

void SetGoals(const std::vector<GoalPlace>& goals, const Trajectory& motion, ViewSource* source) {
  source->goal_places = Places(goals, motion);
  for (const GoalPlace& goal : goals) source->goal_bodies.push_back(SensedBody(source->model, goal.sensor));
}

}  // namespace

ViewSource FromRecord(const Record& record, const std::string& title) {
  ViewSource source;
  source.title = title;
  source.model = record.model.get();
  source.context = record.context;
  source.substeps = record.substeps;
  source.trajectory = record.trajectory;
  source.xfrc = record.xfrc;
  source.x_goal = record.x_goal;
  SetGoals(record.goal_places, record.trajectory, &source);
  source.cost_per_knot = record.cost_per_knot;
  source.slope_per_knot = record.gradient_norm_per_knot;
  return source;
}

ViewSource FromTask(const Task& task, const std::string& title) {
  ViewSource source;
  source.title = title;
  source.model = task.model.get();
  source.context = task.context;
  source.substeps = task.substeps;
  source.x_goal = task.x_goal;
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory& guess = source.trajectory;
  const RolloutStatus status = simulator.Rollout(task.x0, task.U_guess, &guess);

  if (!status.ok()) {
    Shorten(std::max(status.knot, 0), &source);
    SetGoals(GoalPlaces(task), guess, &source);
    return source;
  }
  SetGoals(GoalPlaces(task), guess, &source);
  std::vector<double> per_knot;
  if (task.cost) TotalCost(*task.cost, guess, simulator.knot_time(), &per_knot);
  source.cost_per_knot = Eigen::Map<VectorXd>(per_knot.data(), static_cast<Eigen::Index>(per_knot.size()));
  return source;
}

ViewSource FromModel(const mjModel* model, const std::string& key, const std::string& title) {
  const DataPtr data = key.empty() ? MakeData(model) : MakeDataAtKey(model, key);
  ViewSource source;
  source.title = title;
  source.model = model;
  source.context = GetContext(model, data.get());
  source.substeps = std::max(1, static_cast<int>(std::lround(kKnotTime / model->opt.timestep)));
  source.trajectory.X = GetState(model, data.get());
  source.trajectory.U.resize(model->nu, 0);
  source.trajectory.context = GetMovingContext(model, data.get());
  source.trajectory.time = VectorXd::Constant(1, data->time);
  source.live = true;
  source.u_live = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  return source;
}

ViewSource FromRobot(const mjModel* model, const Task& task, const std::vector<GoalPlace>& goals,
                     const std::string& title) {
  ViewSource source;
  source.title = title;
  source.model = model;
  const DataPtr data = MakeData(model);
  SetFittingContext(task.model.get(), task.context, model, data.get());
  SetState(model, data.get(), task.x0);
  source.context = GetContext(model, data.get());
  const double interval = task.knot_time();
  source.substeps = std::max(1, static_cast<int>(std::lround(interval / model->opt.timestep)));
  source.trajectory.X = task.x0;
  source.trajectory.U.resize(model->nu, 0);
  source.trajectory.context = GetMovingContext(model, data.get());
  source.trajectory.time = VectorXd::Constant(1, data->time);
  source.live = source.fed = true;
  source.u_live = VectorXd::Zero(model->nu);
  source.x_goal = task.x_goal;
  Trajectory start;
  start.S = MatrixXd::Zero(model->nsensordata, 1);
  VectorXd sensors(model->nsensordata);
  if (Forward(model, data.get(), task.x0, source.u_live, sensors) == StepStatus::kOk) start.S.col(0) = sensors;
  SetGoals(goals, start, &source);
  return source;
}

ViewSource Simulate(const ViewSource& live, double duration) {
  Simulator simulator(live.model, live.context, live.substeps, 1);
  const int N = std::max(0, static_cast<int>(std::ceil(duration / simulator.knot_time() - 1e-9)));
  ViewSource source = live;
  source.live = false;
  const RolloutStatus status =
      simulator.Rollout(live.trajectory.X.col(0), live.u_live.replicate(1, N), &source.trajectory);
  if (!status.ok()) Shorten(std::max(status.knot, 0), &source);
  return source;
}

Player::Player(const ViewSource& source)
    : source_(source),
      data_(MakeData(source.model)),
      motion_(source.trajectory),
      knots_(static_cast<int>(source.trajectory.X.cols())) {
  if (knots_ < 1) throw Error(ErrorCode::kInvalidArgument, source.title + " has no state to show");
  SetContext(source.model, data_.get(), source.context);
  SetKnot(0);
}

VectorXd Player::Control(int knot) const {
  if (source_.fed && knots_ > 1) return motion_.U.col(std::min(knot, knots_ - 2));
  if (source_.live) return source_.u_live;
  if (knot < motion_.U.cols()) return motion_.U.col(knot);
  return VectorXd::Zero(source_.model->nu);
}

void Player::SetKnot(int knot) { Show(std::clamp(knot, 0, last_knot()), 0); }

void Player::SetTime(double time) {
  while (source_.live && !source_.fed && failure_.empty() && time > end() && Extend()) {
  }

  // the knot at or before, then whole engine steps; a hair of rounding is not a step
  const double timestep = source_.model->opt.timestep, hair = 1e-6 * timestep;
  const double* first = motion_.time.data();
  const double* after = std::upper_bound(first, first + knots_, time + hair);
  const int knot = std::max(0, static_cast<int>(after - first) - 1);
  const int steps = static_cast<int>(std::floor((time + hair - Time(knot)) / timestep));
  Show(knot, knot == last_knot() ? 0 : std::clamp(steps, 0, source_.substeps - 1));
}

void Player::LoadKnot(int knot) {
  if (motion_.context.cols() > knot) {
    SetMovingContext(source_.model, data_.get(), motion_.context.col(knot));
  } else {
    data_->time = Time(knot);
  }
  if (source_.xfrc.size() == 0) return;
  const int last = static_cast<int>(source_.xfrc.cols()) - 1;
  mju_copy(data_->xfrc_applied, source_.xfrc.col(std::min(knot, last)).data(), static_cast<int>(source_.xfrc.rows()));
}

void Player::Show(int knot, int steps) {
  if (knot == knot_ && steps == steps_) return;
  const mjModel* model = source_.model;
  const VectorXd u = Control(knot);
  VectorXd x = State(knot), none;
  LoadKnot(knot);
  if (steps > 0) {
    Step(model, data_.get(), x, u, steps, none, none);
    x = GetState(model, data_.get());
  }
  Forward(model, data_.get(), x, u, none);
  knot_ = knot;
  steps_ = steps;
  time_ = Time(knot) + steps * model->opt.timestep;
}

void Player::MakeRoom() {
  if (knots_ >= Capacity(source_)) ForgetOldest();

  // room for as many knots again
  if (knots_ == motion_.X.cols()) {
    const int columns = std::min(2 * knots_ + 100, Capacity(source_));
    motion_.X.conservativeResize(Eigen::NoChange, columns);
    motion_.context.conservativeResize(Eigen::NoChange, columns);
    motion_.time.conservativeResize(columns);
    if (source_.fed) motion_.U.conservativeResize(source_.model->nu, columns);
  }
}

void Player::Append(const mjData* robot) {
  MakeRoom();
  motion_.U.col(last_knot()) = Eigen::Map<const VectorXd>(robot->ctrl, source_.model->nu);
  motion_.X.col(knots_) = GetState(source_.model, robot);
  motion_.context.col(knots_) = GetMovingContext(source_.model, robot);
  motion_.time[knots_] = robot->time;
  ++knots_;
}

bool Player::Extend() {
  const mjModel* model = source_.model;
  MakeRoom();

  // one interval from the last knot
  LoadKnot(last_knot());
  VectorXd x_next(motion_.X.rows()), none;
  const StepStatus status =
      Step(model, data_.get(), State(last_knot()), source_.u_live, source_.substeps, x_next, none);
  knot_ = -1;
  if (status == StepStatus::kBadState || status == StepStatus::kBadControl) {
    failure_ = fmt::format("stopped at {:.3f} s: {}", end(), ToString(status));
    return false;
  }
  motion_.X.col(knots_) = x_next;
  motion_.context.col(knots_) = GetMovingContext(model, data_.get());
  motion_.time[knots_] = data_->time;
  ++knots_;
  return true;
}

// the older half of a long simulation makes room
void Player::ForgetOldest() {
  const int drop = knots_ / 2, keep = knots_ - drop;
  motion_.X.leftCols(keep) = motion_.X.middleCols(drop, keep).eval();
  motion_.context.leftCols(keep) = motion_.context.middleCols(drop, keep).eval();
  motion_.time.head(keep) = motion_.time.segment(drop, keep).eval();
  if (source_.fed) motion_.U.leftCols(keep) = motion_.U.middleCols(drop, keep).eval();
  knots_ = keep;
  knot_ = -1;
}

}  // namespace costate::viewer
