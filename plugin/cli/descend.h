// costate gradient --descend: along the gradient, one line an iteration, and the run saved.
#ifndef COSTATE_PLUGIN_CLI_DESCEND_H_
#define COSTATE_PLUGIN_CLI_DESCEND_H_

#include <costate/descent.h>

#include <string>
#include <vector>

#include "optimizer/loss_check.h"

namespace costate::cli {

struct DescendArguments {
  DescentOptions options;
  std::string folder;  ///< "": nothing is saved
  bool force = false, plots = true, quiet = false;
};

/// Of a name that ToString gives. @throws Error{kInvalidArgument} for any other.
DescentMethod MethodOf(const std::string& name);

/// Descends from the task's guess, prints and saves. @param check  of the gradient at the guess.
int RunDescend(const Task& task, ParameterSet* parameters, const std::vector<LossCheckEntry>& check,
               const DescendArguments& arguments);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_DESCEND_H_
