#include "engine/mpc_host.h"

#include <costate/state.h>
#include <costate/step.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <pugixml.hpp>

#include "core/new_file.h"
#include "engine/hosted_model.h"
#include "optimizer/goal_slots.h"
#include "optimizer/mpc_driver.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

constexpr double kGoalSize = 0.3;  // radius of a ball, of the mean size of bodies

// where a goal is open, the part as it stands at the start
Eigen::Vector3d WholePlace(const GoalPlace& goal, const VectorXd& sensors) {
  Eigen::Vector3d place;
  for (int k = 0; k < 3; ++k) place[k] = std::isnan(goal.place[k]) ? sensors[goal.sensor + k] : goal.place[k];
  return place;
}

void AddGoal(const std::string& name, const Eigen::Vector3d& place, double size, pugi::xml_node world) {
  pugi::xml_node body = world.append_child("body");
  body.append_attribute("name") = name.c_str();
  body.append_attribute("mocap") = "true";
  body.append_attribute("pos") = fmt::format("{:.9g} {:.9g} {:.9g}", place[0], place[1], place[2]).c_str();
  pugi::xml_node geom = body.append_child("geom");
  geom.append_attribute("type") = "sphere";
  geom.append_attribute("size") = fmt::format("{:.3g}", size).c_str();
  geom.append_attribute("rgba") = "0.1 0.8 0.2 0.6";
  for (const char* collides : {"contype", "conaffinity"}) geom.append_attribute(collides) = "0";
  geom.append_attribute("group") = "0";
}

// keyframes that place mocap bodies place the new ones, too
void PlaceGoalsInKeys(const std::vector<Eigen::Vector3d>& places, pugi::xml_node keyframes) {
  for (pugi::xml_node key : keyframes.children("key")) {
    for (const Eigen::Vector3d& place : places) {
      if (pugi::xml_attribute mpos = key.attribute("mpos"))
        mpos = fmt::format("{} {:.9g} {:.9g} {:.9g}", mpos.value(), place[0], place[1], place[2]).c_str();
      if (pugi::xml_attribute mquat = key.attribute("mquat")) mquat = fmt::format("{} 1 0 0 0", mquat.value()).c_str();
    }
  }
}

}  // namespace

std::string GoalBody(const MpcGoals& goals, int i) { return "goal of " + goals.Name(i); }

std::vector<std::string> WriteMpcHost(const Task& task, const std::string& file, bool force) {
  if (task.file.empty())
    throw Error(
        ErrorCode::kInvalidArgument,
        "a robot with goals of the command line is no file that plans could be made of: costate task writes one");
  CheckMpcTask(task);
  const HostedModel hosted{task.model.get(), task.context, task.model_file, fmt::format("task '{}'", task.file)};
  CheckHostedFile(hosted, file);
  if (std::error_code ignored; fs::equivalent(file, task.file, ignored))
    throw Error(ErrorCode::kFile, fmt::format("'{}' is the task file itself", file));
  CheckWritable(file, force);
  pugi::xml_document document;
  WriteHostedModel(hosted, &document);

  const MpcGoals goals(task);
  const std::vector<GoalPlace> open = MovablePlaces(task);
  const DataPtr data = MakeData(task.model.get());
  SetContext(task.model.get(), data.get(), task.context);
  const Dims dims(task.model.get());
  VectorXd sensors(dims.ns), u = VectorXd::Zero(dims.nu);
  Forward(task.model.get(), data.get(), task.x0, u, sensors);
  pugi::xml_node root = document.child("mujoco");
  std::vector<std::string> names;
  std::vector<Eigen::Vector3d> places;
  for (int i = 0; i < goals.size(); ++i) {
    names.push_back(GoalBody(goals, i));
    if (mj_name2id(task.model.get(), mjOBJ_BODY, names.back().c_str()) >= 0)
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the model has a body '{}' itself, which is what the goal's would be called", names.back()));
    places.push_back(WholePlace(open[static_cast<std::size_t>(i)], sensors));
    AddGoal(names.back(), places.back(), kGoalSize * task.model->stat.meansize, root.child("worldbody"));
  }
  PlaceGoalsInKeys(places, root.child("keyframe"));
  AddInstance(kMpcName, "plans", {{"task", fs::absolute(task.file).lexically_normal().string()}, {"start", "on"}},
              &document);
  const std::string text = DocumentText(document);
  LoadModelFromString(text);
  WriteNewFile(file, text, force);
  return names;
}

}  // namespace costate
