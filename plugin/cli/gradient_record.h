// A gradient, or a descent along it, as a saved run: the motion, what its loss is differentiated by, the check, the
// health.
#ifndef COSTATE_PLUGIN_CLI_GRADIENT_RECORD_H_
#define COSTATE_PLUGIN_CLI_GRADIENT_RECORD_H_

#include <costate/descent.h>
#include <costate/record.h>
#include <costate/uncertainty.h>

#include <string>
#include <vector>

#include "optimizer/loss_check.h"

namespace costate::cli {

/// What there is to save; pointers may be null where nothing is known.
struct GradientReport {
  const Task* task = nullptr;
  const ParameterSet* parameters = nullptr;            ///< at the values of the motion
  const RolloutGradient* gradient = nullptr;           ///< of the motion
  const std::vector<LossCheckEntry>* check = nullptr;  ///< of the guess
  const DescentResult* descent = nullptr;
  const FitUncertainty* uncertainty = nullptr;  ///< of a fit
  VectorXd x0;                                  ///< of the motion
  MatrixXd U;
  double seconds = 0;
};

/// [MiB] of the whole program so far.
double PeakMemory();

/// Simulates the motion once more, so that what is saved is what replays.
Record MakeGradientRecord(const GradientReport& report);

/// Writes the run, then draws its pictures: costate, growth; of a descent the parameters. Standard error has the
/// warnings, also why there are no pictures.
/// @return the folder where it is, as SaveRunSomewhere.
std::string WriteGradientRun(const std::string& chosen, const GradientReport& report, Record record, bool force,
                             bool plots);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_GRADIENT_RECORD_H_
