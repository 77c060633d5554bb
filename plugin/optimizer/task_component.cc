// Which entries of x, u and s there are to be measured.
#include <algorithm>
#include <filesystem>

#include "core/joint.h"
#include "optimizer/task_term.h"
#include "rollout/units.h"

namespace costate {
namespace {

std::vector<Component> PositionComponents(const mjModel* model) {
  const std::vector<std::string> state = StateNames(model), tangent = TangentNames(model), units = StateUnits(model);
  std::vector<Component> components;
  for (int j = 0; j < model->njnt; ++j) {
    const int scalars = JointLinearDofs(model->jnt_type[j]);
    int value = model->jnt_qposadr[j], column = model->jnt_dofadr[j];
    for (int i = 0; i < scalars; ++i, ++value, ++column) {
      components.push_back({{Input::kState, value, column}, -1, tangent[column], units[value], {state[value]}});
    }
    if (IsScalarJoint(model->jnt_type[j])) continue;
    const std::vector<std::string> slots(state.begin() + value, state.begin() + value + 4);
    for (int k = 0; k < 3; ++k) {
      components.push_back({{Input::kState, value, column}, k, tangent[column + k], "rad", slots});
    }
  }
  return components;
}

}  // namespace

std::vector<Component> VectorComponents(const mjModel* model, const std::string& vector) {
  if (vector == "qpos") return PositionComponents(model);
  const Dims dims(model);
  const bool control = vector == "ctrl";
  const std::vector<std::string> names = control ? ControlNames(model) : StateNames(model);
  const std::vector<std::string> units = control ? ControlUnits(model) : StateUnits(model);

  // where the vector stands in x and dx, or in u
  const int value = control ? 0 : vector == "qvel" ? dims.nq : dims.nq + dims.nv;
  const int column = control ? 0 : vector == "qvel" ? dims.nv : 2 * dims.nv;
  const int size = control ? dims.nu : vector == "qvel" ? dims.nv : dims.na;
  std::vector<Component> components;
  for (int i = 0; i < size; ++i) {
    const Scalar scalar{control ? Input::kControl : Input::kState, value + i, column + i};
    const std::string& name = names[static_cast<std::size_t>(value + i)];
    components.push_back({scalar, -1, name, units[static_cast<std::size_t>(value + i)], {name}});
  }
  return components;
}

void AddComponents(const std::vector<Component>& components, double coef, std::vector<std::string>* slots,
                   ResidualTerm* term) {
  // the next slots of the target
  auto take = [slots](const std::vector<std::string>& names) {
    if (!slots) return -1;
    const int first = static_cast<int>(slots->size());
    slots->insert(slots->end(), names.begin(), names.end());
    return first;
  };
  for (const Component& component : components) {
    const int row = term->size();
    if (component.part < 0) {
      term->linear.push_back({component.scalar, row, coef});
      term->row_slot.push_back(take(component.slots));
      continue;
    }

    // a rotation is one entry of three rows, whichever of them are wanted
    auto known = std::find_if(term->rotations.begin(), term->rotations.end(), [&](const RotationEntry& rotation) {
      return rotation.scalar.input == component.scalar.input && rotation.scalar.value == component.scalar.value;
    });
    if (known == term->rotations.end()) {
      RotationEntry rotation;
      rotation.scalar = component.scalar;
      rotation.slot = take(component.slots);
      known = term->rotations.insert(term->rotations.end(), rotation);
    }
    known->row[static_cast<std::size_t>(component.part)] = row;
    term->row_slot.push_back(-1);
  }
}

std::string Resolve(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

}  // namespace costate
