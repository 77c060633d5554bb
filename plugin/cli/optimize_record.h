// What costate optimize saves.
#ifndef COSTATE_PLUGIN_CLI_OPTIMIZE_RECORD_H_
#define COSTATE_PLUGIN_CLI_OPTIMIZE_RECORD_H_

#include <costate/continuation.h>
#include <costate/free_time.h>
#include <costate/record.h>
#include <costate/task.h>

#include <string>
#include <vector>

namespace costate::cli {

/// A solved task, and how it was asked for.
struct OptimizeReport {
  const Task& task;
  const SolveResult& result;
  const std::vector<ContinuationStage>& stages;  ///< of <smooth>; empty without
  const std::vector<BasinHoppingRound>& rounds;  ///< of <hopping>; empty without
  const FreeTimeResult* timed = nullptr;         ///< of <time>
  std::string resumed_from{};                    ///< a run
};

/// The record without trajectory, policy and model, which the caller moves in.
Record MakeOptimizeRecord(const OptimizeReport& report, Simulator* simulator);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_OPTIMIZE_RECORD_H_
