// A task without a task file: from one keyframe to another.
#include <costate/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimizer/task_inputs.h"
#include "optimizer/task_start.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"

namespace costate {
namespace {

// a knot is 10 ms, up to 20 ms where the motion would have more than this many
constexpr int kKnots = 200;
constexpr double kShortKnot = 0.01, kLongKnot = 0.02;  // [s]

// weights of errors measured in natural units; among those tried, these swing up pendulum, cart-pole (2, 3, 4 s) and
// acrobot and crouch hopper and humanoid: heavier ends leave the swing-ups in local minima
constexpr double kPostureRunning = 0.2, kPostureTerminal = 20;
constexpr double kVelocityRunning = 0.01, kVelocityTerminal = 20;
constexpr double kEffort = 0.02;
constexpr int kHoppingRounds = 4;      // where a solve stalls, as about contacts
constexpr double kVelocityTime = 0.3;  // [s] a velocity is natural when it crosses the natural length in this time

int ChooseSubsteps(double time, double timestep) {
  const double knot = std::clamp(time / kKnots, kShortKnot, kLongKnot);
  return std::max(1, static_cast<int>(std::lround(knot / timestep)));
}

// the natural size of a change of each dof: half its range, a radian, or a quarter of the model's extent
VectorXd NaturalSizes(const mjModel* model) {
  const double length = std::clamp(0.25 * model->stat.extent, 0.05, 0.5);
  VectorXd sizes(model->nv);
  for (int j = 0; j < model->njnt; ++j) {
    const int dof = model->jnt_dofadr[j], type = model->jnt_type[j];
    const double range = model->jnt_range[2 * j + 1] - model->jnt_range[2 * j];
    if (type == mjJNT_FREE) {
      sizes.segment<3>(dof).setConstant(length);
      sizes.segment<3>(dof + 3).setOnes();
    } else if (type == mjJNT_BALL) {
      sizes.segment<3>(dof).setOnes();
    } else if (type == mjJNT_SLIDE) {
      sizes[dof] = model->jnt_limited[j] ? std::max(0.5 * range, 1e-3) : length;
    } else {
      sizes[dof] = model->jnt_limited[j] ? std::clamp(0.5 * range, 0.1, 1.0) : 1.0;
    }
  }
  return sizes;
}

// half the range of each control, or the size of what holds the robot where there is no range
VectorXd NaturalControls(const Task& task, const VectorXd& u_start, const VectorXd& u_goal) {
  VectorXd sizes(task.u_lower.size());
  for (Eigen::Index i = 0; i < sizes.size(); ++i) {
    const double range = task.u_upper[i] - task.u_lower[i];
    sizes[i] =
        std::isfinite(range) ? std::max(0.5 * range, 1e-6) : std::max({1.0, std::abs(u_start[i]), std::abs(u_goal[i])});
  }
  return sizes;
}

ResidualTerm MakeVectorTerm(const mjModel* model, const std::string& name, const std::string& vector,
                            const MatrixXd& target, const VectorXd& time, const std::string& target_text) {
  ResidualTerm term;
  term.name = name;
  term.measured = vector + " all";
  term.target_text = target_text;
  std::vector<std::string> slots;
  AddComponents(VectorComponents(model, vector), 1, target.size() > 0 ? &slots : nullptr, &term);
  term.target = {target, time};
  return term;
}

}  // namespace

Task MakeReachKeyTask(const std::string& model_path, const ReachKeyOptions& options) {
  Task task;
  task.model_file = model_path;
  task.model = LoadModel(model_path, &task.warnings);
  const mjModel* model = task.model.get();
  task.user_sensors = static_cast<int>(model->nsensordata);
  CheckModel(task);
  if (!(options.time > 0) || !std::isfinite(options.time)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("time is {:g} s, expected a number above 0", options.time));
  }
  if (options.substeps < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("substeps is {}, expected at least 0", options.substeps));
  }
  SetHorizon(options.time, options.substeps > 0 ? options.substeps : ChooseSubsteps(options.time, model->opt.timestep),
             &task);

  // start and goal, each with the controls that its keyframe has or else those that hold it
  const Start start = MakeStart(model, options.start);
  const KeyKnot goal = KnotAtKey(model, options.goal);
  task.name = "reach " + options.goal;
  task.x0 = start.x;
  task.context = start.context;
  task.x_goal = goal.x;
  const VectorXd u_start = start.u.isZero(0) ? HoldControl(task, start.x, start.context, start.u) : start.u;
  const VectorXd u_goal = goal.u.isZero(0) ? HoldControl(task, goal.x, goal.context, goal.u) : goal.u;
  task.U_guess.resize(model->nu, task.N);
  for (int t = 0; t < task.N; ++t) {
    const double s = task.N > 1 ? static_cast<double>(t) / (task.N - 1) : 0;
    task.U_guess.col(t) = ((1 - s) * u_start + s * u_goal).cwiseMax(task.u_lower).cwiseMin(task.u_upper);
  }

  // posture, rest and effort, each in natural units
  const Dims dims(model);
  const VectorXd size = NaturalSizes(model);
  const VectorXd posture = size.cwiseAbs2().cwiseInverse();
  const VectorXd velocity = kVelocityTime * kVelocityTime * posture;
  const std::string key = "key:" + options.goal;
  std::vector<ResidualTerm> terms;
  terms.push_back(MakeVectorTerm(model, "posture", "qpos", goal.x.head(dims.nq), VectorXd::Zero(1), key));
  terms.back().unit = "m and rad";
  terms.back().weight = kPostureRunning * posture;
  terms.back().terminal = kPostureTerminal * posture;
  terms.push_back(MakeVectorTerm(model, "velocity", "qvel", goal.x.segment(dims.nq, dims.nv), VectorXd::Zero(1), key));
  terms.back().unit = "m/s and rad/s";
  terms.back().weight = kVelocityRunning * velocity;
  terms.back().terminal = kVelocityTerminal * velocity;
  MatrixXd u_hold(dims.nu, 2);
  u_hold << u_start, u_goal;
  terms.push_back(MakeVectorTerm(model, "effort", "ctrl", u_hold, Eigen::Vector2d(0, options.time), "guess"));
  terms.back().weight = kEffort * NaturalControls(task, u_start, u_goal).cwiseAbs2().cwiseInverse();
  terms.back().terminal = VectorXd::Zero(dims.nu);
  task.cost = std::make_unique<ResidualCost>(model, std::move(terms), CostScale::kDt);
  ReadInputs(nullptr, &task);
  task.hopping.rounds = kHoppingRounds;
  task.hopping.after_stall = true;
  return task;
}

}  // namespace costate
