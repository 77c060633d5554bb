#include "optimizer/task_write.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "core/did_you_mean.h"
#include "core/element.h"
#include "core/joint.h"
#include "core/number.h"
#include "optimizer/task_xml.h"

namespace costate {

std::string NumbersText(ConstVectorRef values, int digits) {
  std::string text;
  for (Eigen::Index i = 0; i < values.size(); ++i)
    text += fmt::format("{}{:.{}g}", i == 0 ? "" : " ", values[i], digits);
  return text;
}

void SetAttribute(pugi::xml_node node, const char* attribute, const std::string& text) {
  node.append_attribute(attribute) = text.c_str();
}

void SetWeights(pugi::xml_node cost, const char* attribute, const VectorXd& weights) {
  const bool same = weights.size() == 0 || (weights.array() == weights[0]).all();
  SetAttribute(cost, attribute, NumbersText(same ? VectorXd(weights.head(1)) : weights, 6));
}

std::string JointWord(const mjModel* model, int joint, bool velocity) {
  double number;
  const std::string text = GivenName(model, mjOBJ_JOINT, joint);
  const bool usable =
      !text.empty() && text.find_first_of(" \t") == std::string::npos && text != "all" && !ParseNumber(text, &number);
  const bool scalar = IsScalarJoint(model->jnt_type[joint]);
  if (!scalar && text.empty()) return ElementName(model, mjOBJ_JOINT, joint);
  if (usable || (!scalar && model->njnt > 1)) return usable ? text : "";
  return scalar ? fmt::format("{}", velocity ? model->jnt_dofadr[joint] : model->jnt_qposadr[joint]) : "all";
}

std::string NamedFrom(const std::string& folder, const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path near = folder.empty() ? absolute : std::filesystem::relative(absolute, folder, error);
  return (error || near.empty() ? absolute : near).string();
}

pugi::xml_node AddTaskRoot(const mjModel* model, const std::string& name, const std::string& model_path, double horizon,
                           int substeps, const std::string& further, pugi::xml_document* document) {
  pugi::xml_node root = document->append_child("task");
  SetAttribute(root, "name", name);
  SetAttribute(root, "model", model_path);
  SetAttribute(root, "horizon", fmt::format("{:.12g}", horizon));
  if (substeps > 1) SetAttribute(root, "controlstep", fmt::format("{}", substeps));
  root.append_child(pugi::node_comment)
      .set_value(fmt::format(" what this robot has:\n{}{}  ", WhatThereIs(model), further).c_str());
  return root;
}

std::string WhatThereIs(const mjModel* model) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (mjtObj type : {mjOBJ_JOINT, mjOBJ_BODY, mjOBJ_SITE, mjOBJ_GEOM}) {
    const std::vector<std::string> names = GivenNames(model, type);
    if (names.empty()) continue;
    text += fmt::format("     {:<8}{}\n", std::string(mju_type2Str(type)) + ":", FirstWords(names, kMost, ""));
  }
  return text;
}

std::string TaskText(const pugi::xml_document& document) {
  std::ostringstream text;
  document.save(text, "  ", pugi::format_indent | pugi::format_no_declaration);
  return text.str();
}

}  // namespace costate
