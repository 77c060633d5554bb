// Where a model's step is not differentiable, known before any number is computed, and what helps.
#ifndef COSTATE_PLUGIN_CLI_SMOOTHNESS_H_
#define COSTATE_PLUGIN_CLI_SMOOTHNESS_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

namespace costate::cli {

/// One way in which a step can jump, bend or go flat.
struct NonSmoothness {
  std::string what;    ///< "contact onset jumps: solimp[0] is 0.9 on 12 of 13 geoms (floor, torso, …)"
  std::string remedy;  ///< 'solimp="0 0.95 0.001" makes the onset smooth'; "" when there is none
};

std::vector<NonSmoothness> FindNonSmooth(const mjModel* model);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_SMOOTHNESS_H_
