#include "optimizer/mpc_plant.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "core/element.h"
#include "core/option_words.h"
#include "core/state_layout.h"
#include "optimizer/task_write.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

constexpr double kWhole = 1e-6;  // of a step of the plant: a control interval may be off by this

const mjModel* PlantModel(const Task& task, const MpcSimulation& simulation) {
  return simulation.plant ? simulation.plant : task.model.get();
}

// the planned robot and the one that moves, which is refused for what plans could not move
struct Robots {
  const mjModel *planned, *plant;
  const char* whose = "the simulated robot";

  [[noreturn]] void Refuse(const std::string& its, const std::string& its_plan) const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("MPC: {} '{}' has {}, the planned one '{}' has {}", whose,
                                                         ModelName(plant), its, ModelName(planned), its_plan));
  }
  void CheckNames(const char* kind, std::vector<std::string> (*names)(const mjModel*)) const {
    const std::vector<std::string> ours = names(planned), its = names(plant);
    if (its.size() != ours.size()) Refuse(fmt::format("{} {}", its.size(), kind), fmt::format("{}", ours.size()));
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (its[i] != ours[i]) Refuse(fmt::format("{} in place {} of its {}", its[i], i, kind), ours[i]);
    }
  }
  void CheckSizes() const {
    CheckNames("states", StateNames);
    CheckNames("controls", ControlNames);
    for (int j = 0; j < planned->njnt; ++j) {
      if (plant->jnt_type[j] == planned->jnt_type[j]) continue;
      Refuse(fmt::format("a {} joint {}", kJointWords[plant->jnt_type[j]], ElementName(plant, mjOBJ_JOINT, j)),
             fmt::format("a {} joint", kJointWords[planned->jnt_type[j]]));
    }
  }
};

}  // namespace

ModelPtr LoadPlant(const Task& task, const std::string& model_file) {
  if (task.text.empty())
    throw Error(ErrorCode::kInvalidArgument,
                "the task has no text: what its sensors are for another robot is not known");
  const XmlFile file(TextAnywhere(task), task.file.empty() ? task.model_file : task.file);
  const std::string path = std::filesystem::absolute(model_file).string();
  const ModelPtr model = LoadModel(path);
  Robots{task.model.get(), model.get()}.CheckSizes();  // else what the task says of its own would be refused
  return ParseWrittenTask(file.Edited({{file.Root("task"), "model", path}}), model_file).model;
}

namespace {

// where neither body has a name, by number
int MocapOf(const mjModel* robot, const std::string& name, int k) {
  if (!name.empty()) {
    const int body = NamedId(robot, mjOBJ_BODY, name);
    return body < 0 ? -1 : robot->body_mocapid[body];
  }
  for (int b = 1; b < robot->nbody; ++b) {
    if (robot->body_mocapid[b] == k) return GivenName(robot, mjOBJ_BODY, b).empty() ? k : -1;
  }
  return -1;
}

std::vector<int> MatchMocap(const Robots& robots) {
  const mjModel *model = robots.planned, *robot = robots.plant;
  std::vector<int> ids(static_cast<std::size_t>(model->nmocap), -1);
  for (int b = 1; b < model->nbody; ++b) {
    const int k = model->body_mocapid[b];
    if (k < 0) continue;
    const std::string name = GivenName(model, mjOBJ_BODY, b);
    const int its = MocapOf(robot, name, k);
    if (its < 0 || (name.empty() && robot->nmocap != model->nmocap)) {
      robots.Refuse(
          name.empty() ? fmt::format("none for mocap body {}, which has no name", k) : "no mocap body " + name, "one");
    }
    ids[static_cast<std::size_t>(k)] = its;
  }
  return ids;
}

}  // namespace

std::vector<int> MatchRobot(const Task& task, const mjModel* robot, const char* whose) {
  const Robots robots{task.model.get(), robot, whose};
  robots.CheckSizes();
  robots.CheckNames("equalities", [](const mjModel* m) { return ElementNames(m, mjOBJ_EQUALITY); });
  const std::pair<int, const char*> parts[] = {{mjSTATE_HISTORY, "of delays"},
                                               {mjSTATE_PLASTIC, "of plastic deformation"}};
  for (const auto& [element, what] : parts) {
    const int its = StatePartSize(robot, element), planned = StatePartSize(robots.planned, element);
    if (its != planned) robots.Refuse(fmt::format("{} numbers {}", its, what), fmt::format("{}", planned));
  }
  return MatchMocap(robots);
}

void CheckPlant(const Task& task, const MpcSimulation& simulation) {
  const mjModel *model = task.model.get(), *plant = simulation.plant;
  if (!plant) return;
  const Robots robots{model, plant};
  robots.CheckSizes();
  robots.CheckNames("sensors", SensorNames);
  const int planned = MovingContextSize(model), its = MovingContextSize(plant);
  if (its != planned)
    robots.Refuse(fmt::format("{} numbers that a step hands on beside the state (delays, plugins, plasticity)", its),
                  fmt::format("{}", planned));
  const double steps = task.knot_time() / plant->opt.timestep;
  if (std::round(steps) < 1 || std::abs(steps - std::round(steps)) > kWhole)
    robots.Refuse(fmt::format("a time step of {:g} s", plant->opt.timestep),
                  fmt::format("a control interval of {:g} s, no multiple of it", task.knot_time()));
}

MpcPlant::MpcPlant(const Task& task, const MpcSimulation& simulation, int steps)
    : model_(PlantModel(task, simulation)),
      simulation_(simulation),
      substeps_(static_cast<int>(std::lround(task.knot_time() / model_->opt.timestep))),
      control_time_(task.knot_time()),
      data_(MakeData(model_)),
      random_(std::mt19937_64(simulation.seed)) {
  const Dims dims(model_);
  motion_.X.resize(dims.nx, steps + 1);
  motion_.U.resize(dims.nu, steps);
  motion_.S.resize(dims.ns, steps + 1);
  motion_.time.resize(steps + 1);
  motion_.context.resize(MovingContextSize(model_), steps + 1);
  SetFittingContext(task.model.get(), task.context, model_, data_.get());
  context_ = GetContext(model_, data_.get());
  if (!simulation.pushes.empty())
    xfrc_ = Eigen::Map<const VectorXd>(data_->xfrc_applied, 6 * model_->nbody).replicate(1, steps);
  motion_.X.col(0) = task.x0;
  Keep();
}

void MpcPlant::Keep() {
  motion_.context.col(t_) = GetMovingContext(model_, data_.get());
  motion_.time[t_] = data_->time;
}

MpcMeasurement MpcPlant::Measure() {
  MpcMeasurement measured{.time = time(), .x = motion_.X.col(t_), .moving = motion_.context.col(t_)};
  if (simulation_.noise_position > 0 || simulation_.noise_velocity > 0) {
    const Dims dims(model_);
    VectorXd noise = VectorXd::Zero(dims.ndx);
    for (int i = 0; i < dims.nv; ++i) noise[i] = simulation_.noise_position * random_.Next();
    for (int i = dims.nv; i < 2 * dims.nv; ++i) noise[i] = simulation_.noise_velocity * random_.Next();
    measured.x = Retract(model_, measured.x, noise);
  }
  return measured;
}

// the sum of all pushes at this time, beside what acts anyway
void MpcPlant::Push() {
  if (simulation_.pushes.empty()) return;
  const double now = time() + 1e-9;
  auto xfrc = xfrc_.col(t_);
  for (const MpcPush& push : simulation_.pushes) {
    if (now >= push.begin && now < push.end) mju_addTo3(xfrc.data() + 6 * push.body, push.force);
  }
  mju_copy(data_->xfrc_applied, xfrc.data(), static_cast<int>(xfrc.size()));
}

bool MpcPlant::Step(ConstVectorRef u) {
  Push();
  motion_.U.col(t_) = u;
  const StepStatus status =
      costate::Step(model_, data_.get(), motion_.X.col(t_), u, substeps_, motion_.X.col(t_ + 1), motion_.S.col(t_));
  if (status != StepStatus::kOk) {
    status_ = {status, t_, {}};
    return false;
  }
  ++t_;
  Keep();
  return true;
}

void MpcPlant::Finish(MpcResult* result) {
  VectorXd none = VectorXd::Zero(motion_.U.rows());
  Forward(model_, data_.get(), motion_.X.col(t_), none, motion_.S.col(t_));
  Trajectory& trajectory = result->trajectory;
  trajectory.X = motion_.X.leftCols(t_ + 1);
  trajectory.U = motion_.U.leftCols(t_);
  trajectory.S = motion_.S.leftCols(t_ + 1);
  trajectory.time = motion_.time.head(t_ + 1);
  trajectory.context = motion_.context.leftCols(t_ + 1);
  result->xfrc = xfrc_.leftCols(xfrc_.size() > 0 ? t_ : 0);
  result->status = status_;
  result->context = context_;
  result->substeps = substeps_;
}

}  // namespace costate
