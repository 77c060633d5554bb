// Task files for people who have none yet: what their text has in common.
#ifndef COSTATE_OPTIMIZER_TASK_WRITE_H_
#define COSTATE_OPTIMIZER_TASK_WRITE_H_

#include <costate/task.h>
#include <costate/types.h>

#include <mujoco/mujoco.h>

#include <pugixml.hpp>
#include <string>
#include <vector>

namespace costate {

/// Numbers between blanks, each to so many digits.
std::string NumbersText(ConstVectorRef values, int digits);

void SetAttribute(pugi::xml_node node, const char* attribute, const std::string& text);

/// `weights` as one number where all are the same.
void SetWeights(pugi::xml_node cost, const char* attribute, const VectorXd& weights);

/// How a task file names a joint: "joint 0" of several entries without a name, an index where its name is none there;
/// "" where neither does.
std::string JointWord(const mjModel* model, int joint, bool velocity);

/// A file as it is named in a task file of `folder`: relative to it; absolute when there is none.
std::string NamedFrom(const std::string& folder, const std::string& path);

/// <task name model horizon>, with a comment that lists what the robot has and `further` lines.
pugi::xml_node AddTaskRoot(const mjModel* model, const std::string& name, const std::string& model_path, double horizon,
                           int substeps, const std::string& further, pugi::xml_document* document);

/// "     joint:  hip, knee": joints, bodies, sites and geoms that have a name, a kind a line.
std::string WhatThereIs(const mjModel* model);

std::string TaskText(const pugi::xml_document& document);

/// A text of ours, in no file: its messages say that its lines are those of the task written for this robot.
Task ParseWrittenTask(const std::string& text, const std::string& model_path);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_WRITE_H_
