// The saved run: a folder that ordinary tools open and that replays bit for bit without the original files.
#ifndef COSTATE_RECORD_H_
#define COSTATE_RECORD_H_

#include <map>
#include <string>
#include <vector>

#include <costate/solver.h>

namespace costate {

/// Everything a run's folder holds. Fields mirror record.json; plugin/rollout/README.md describes the format.
struct Record {
  std::string command;       ///< "optimize", "rollout" …
  std::string task_file, model_file;
  std::string task_text;     ///< the task file as it was, "" when there was none
  ModelPtr model;            ///< as compiled
  VectorXd context;          ///< by kContextSignature at knot 0
  VectorXd x_goal;           ///< empty when there is none
  int substeps = 1;
  unsigned seed = 0;
  Trajectory trajectory;
  Policy policy;             ///< empty when there is none
  VectorXd cost_per_knot;    ///< N+1; empty when there is no cost
  VectorXd gradient_norm_per_knot;  ///< N: max |Qu| over free controls; empty when there is none
  std::vector<KnotDiagnostics> diagnostics;
  std::vector<CostTermValue> cost_terms;
  std::vector<IterationRecord> iterations;
  std::string status, message;         ///< solver status in words
  std::vector<std::string> failures;   ///< R28 labels with their cause: "control: actuator 'hip' saturated at 31 of 100 knots"
  std::map<std::string, std::string> settings;  ///< solver settings, smoothing, tolerances, derivative level, thread count …
  std::vector<std::string> warnings;
};

struct WriteRecordOptions {
  bool force = false;  ///< replace an existing run; otherwise Error{kFile}
  bool plots = true;   ///< PNG plots through gnuplot when it is installed; its absence is a warning in the record
};

/// Writes the run atomically: into a temporary sibling folder, synced, then renamed. Never leaves half a run that loads.
/// @throws Error{kFile} that names the folder and the system's reason (read-only, disk full, exists).
void WriteRecord(const std::string& folder, Record& record, const WriteRecordOptions& options = {});

/// @throws Error{kFile} when damaged (which file, what is wrong), or newer than this program reads.
Record ReadRecord(const std::string& folder);

/// Re-simulates a record from its own model, start, context and controls.
struct ReplayResult {
  bool identical = false;   ///< every state of every knot equal bit for bit
  int first_difference = -1;  ///< knot
  double largest_difference = 0;
  Trajectory trajectory;
};
ReplayResult Replay(const Record& record);

}  // namespace costate

#endif  // COSTATE_RECORD_H_
