// A gradient as a table, one knot a row, and its pictures.
#ifndef COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_
#define COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_

#include <costate/adjoint.h>

#include <string>
#include <vector>

#include "rollout/plot.h"

namespace costate::cli {

/// CSV: knot, time, gradient by each control, |λ|, growth, whether contacts or limits switched there, whether the
/// costate was clipped or dropped there; spectral radius, label and switch where they were asked for. @param dt  a
/// control interval [s].
std::string GradientTable(const mjModel* model, double dt, const RolloutGradient& gradient);

/// The costate and its growth over time, drawn from the table in `file`.
std::vector<Plot> GradientPlots(const std::string& file, const RolloutGradient& gradient);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_
