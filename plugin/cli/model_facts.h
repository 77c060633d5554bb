// What commands say about a model before any number is computed.
#ifndef COSTATE_PLUGIN_CLI_MODEL_FACTS_H_
#define COSTATE_PLUGIN_CLI_MODEL_FACTS_H_

#include <costate/task.h>

#include <string>

namespace costate::cli {

std::string IntegratorName(const mjModel* model);  ///< "Euler", "RK4" …
std::string SolverName(const mjModel* model);      ///< "Newton, pyramidal cone, tolerance 1e-08, 100 iterations"
std::string SizesText(const mjModel* model);       ///< "nq 7, nv 6, na 0, nu 2, ns 12"

/// "at the start 'foot' penetrates 'world' by 0.057 m …", of the deepest contact, where that is none any more; else "".
std::string DeepStart(const Task& task);

/// "nothing of the world can touch 'trunk': it falls freely …", of a robot with a free joint and actuators that push it
/// only against itself, as a robot's file without its scene is; else "".
std::string FallsFreely(const mjModel* model);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_MODEL_FACTS_H_
