// Two models of one structure, number by number: what of their physics differs, and taking it over.
#ifndef COSTATE_ENGINE_MODEL_DIFFERENCE_H_
#define COSTATE_ENGINE_MODEL_DIFFERENCE_H_

#include <mujoco/mujoco.h>

#include <set>
#include <string>

namespace costate {

/// The first size of the physics that differs, with both values; "" when none does.
std::string SizeDifference(const mjModel* run, const mjModel* here);

/// Arrays of the physics that differ, of those that neither mj_setConst nor the compiler makes from others; sensors,
/// keyframes and looks are none of the physics. Sizes must agree.
std::set<std::string> DifferentArrays(const mjModel* run, const mjModel* here, double tolerance);

/// The first size, option or number that differs, with both values: "dof_damping of qvel[knee] is 0.2 in the run's
/// model, 0.1 here"; "" when none does.
/// @param tolerance  of a number, relative to the largest of its row; sizes, options and integers: none.
/// @param arrays     only these; null: all of the physics but bounding volumes.
/// @param more_plugins  `here` may have further plugin instances, behind those of the run.
std::string ModelDifference(const mjModel* run, const mjModel* here, double tolerance,
                            const std::set<std::string>* arrays = nullptr, bool more_plugins = false);

/// The floating-point numbers of these arrays. Sizes must agree.
void TakeNumbers(const mjModel* run, const std::set<std::string>& arrays, mjModel* here);

}  // namespace costate

#endif  // COSTATE_ENGINE_MODEL_DIFFERENCE_H_
