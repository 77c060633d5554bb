// A rollout's gradient and its health as a table, one row a knot, and as pictures.
#ifndef COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_
#define COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_

#include <costate/adjoint.h>

#include <string>

namespace costate::cli {

/// CSV: knot, time, gradient by each control, |λ|, growth, whether contacts or limits switched there, whether the costate was
/// clipped or dropped there; spectral radius, label and switch where they were asked for. @param dt  a control interval [s].
std::string GradientTable(const mjModel* model, double dt, const RolloutGradient& gradient);

/// Before the work: throws Error{kFile} if the folder cannot be made or what is in it may not be replaced.
void CheckGradientFolder(const std::string& folder, bool force);

/// Writes gradient.csv, costate.png, growth.png and the script that draws them. @return "" or why there is no picture.
std::string WriteGradientFolder(const std::string& folder, const std::string& table, const RolloutGradient& gradient, bool force);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_GRADIENT_TABLE_H_
