#include "rollout/record_format.h"

#include <fmt/format.h>

#include "core/state_layout.h"
#include "rollout/run_folder.h"
#include "rollout/sha256.h"
#include "rollout/units.h"

namespace costate {
namespace {

using Names = std::vector<std::string>;

void Append(const Names& more, Names* names) { names->insert(names->end(), more.begin(), more.end()); }

const char* StateBitName(int bit) {
  switch (bit) {
    case mjSTATE_TIME: return "time";
    case mjSTATE_HISTORY: return "history";
    case mjSTATE_WARMSTART: return "qacc_warmstart";
    case mjSTATE_CTRL: return "ctrl";
    case mjSTATE_QFRC_APPLIED: return "qfrc_applied";
    case mjSTATE_XFRC_APPLIED: return "xfrc_applied";
    case mjSTATE_EQ_ACTIVE: return "eq_active";
    case mjSTATE_MOCAP_POS: return "mocap_pos";
    case mjSTATE_MOCAP_QUAT: return "mocap_quat";
    case mjSTATE_USERDATA: return "userdata";
    case mjSTATE_PLUGIN: return "plugin";
    case mjSTATE_PLASTIC: return "plastic";
    default: return "state";
  }
}

}  // namespace

bool IsOwnFile(const std::string& name) {
  for (const char* own : {kRecordFile, kModelFile, kTaskFile, kTrajectoryFile, kStartContextFile, kKnotContextFile,
                          kPushesFile, kPolicyFile, kIterationsFile, kPlotFile}) {
    if (name == own) return true;
  }
  return false;
}

Names TrajectoryHeader(const mjModel* model, const Contents& contents) {
  Names names = {"time (s)"};
  Append(WithUnits(StateNames(model), StateUnits(model)), &names);
  Append(WithUnits(ControlNames(model), ControlUnits(model)), &names);
  Append(WithUnits(SensorNames(model), SensorUnits(model)), &names);
  if (contents.cost) names.push_back("cost");
  if (contents.gradient_norm) names.push_back("gradient_norm");
  if (contents.diagnostics) {
    Append({"energy_potential (J)", "energy_kinetic (J)", "penetration (m)", "constraint_violation (m or rad)",
            "contacts", "solver_iterations", "saturated_actuators"},
           &names);
  }
  return names;
}

Names ContextHeader(const mjModel* model, int signature) {
  Names names;
  ForEachStatePart(model, signature, [&](int bit, int size) {
    for (int k = 0; k < size; ++k) {
      names.push_back(bit == mjSTATE_TIME ? "time (s)" : fmt::format("{}[{}]", StateBitName(bit), k));
    }
  });
  return names;
}

Names PushesHeader(const mjModel* model, const std::vector<int>& bodies) {
  Names names = {"knot"};
  for (int body : bodies) {
    for (const char* component :
         {"force x (N)", "force y (N)", "force z (N)", "torque x (N m)", "torque y (N m)", "torque z (N m)"}) {
      names.push_back(fmt::format("{} {}", ElementName(model, mjOBJ_BODY, body), component));
    }
  }
  return names;
}

Names PolicyHeader(const mjModel* model) {
  const Names controls = ControlNames(model), tangents = TangentNames(model);
  Names names = {"knot"};
  for (const std::string& control : controls) names.push_back("k " + control);
  for (const std::string& control : controls) {
    for (const std::string& tangent : tangents) names.push_back("K " + control + " / " + tangent);
  }
  return names;
}

Names IterationsHeader(const Contents& contents) {
  Names names = {"iteration", "cost",           "expected_change", "actual_change",  "gradient_norm",
                 "step",      "regularization", "rollout (s)",     "derivative (s)", "backward (s)"};
  if (contents.second) Append({"regularization_by_step", "curvature"}, &names);
  if (contents.violation) names.push_back("violation");
  if (contents.gap) Append({"gap", "gap_knot"}, &names);
  return names;
}

std::string ToText(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string AsWritten(const std::string& name) { return Json::parse(ToText(name, -1)); }

std::string Checksum(const Json& json) {
  Json rest = json;
  rest.erase("checksum");
  return Sha256Of(ToText(rest, -1));
}

}  // namespace costate
