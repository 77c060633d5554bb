// The saved run: a folder that ordinary tools open and that replays bit for bit without the original files.
#ifndef COSTATE_RECORD_H_
#define COSTATE_RECORD_H_

#include <limits>
#include <map>
#include <string>
#include <vector>

#include <costate/report.h>
#include <costate/rollout.h>

namespace costate {

/// Everything a run's folder holds. Fields mirror record.json; plugin/rollout/README.md describes the format.
struct Record {
  std::string command;  ///< "optimize", "rollout" …
  std::string task_file, model_file;
  std::string task_text;  ///< the task file, its paths absolute; "" when there was none
  ModelPtr model;         ///< as compiled
  VectorXd context;       ///< by kContextSignature at knot 0
  VectorXd x_goal;        ///< empty when there is none
  std::vector<GoalPlace> goal_places;
  int substeps = 1;
  unsigned seed = 0;
  Trajectory trajectory;
  MatrixXd xfrc{};                  ///< 6 nbody × N: pushes on bodies, as of RolloutPushed; empty when there are none
  Policy policy;                    ///< empty when there is none
  VectorXd cost_per_knot;           ///< N+1; empty when there is no cost
  VectorXd gradient_norm_per_knot;  ///< N: max |Qu| over free controls; empty when there is none
  std::vector<KnotDiagnostics> diagnostics;
  std::vector<CostTermValue> cost_terms;
  std::vector<ConstraintReport> constraints;  ///< worst first; empty when there are none
  std::string metric;  ///< what the cost means, in one sentence: the sum convention, what is summed
  std::vector<IterationRecord> iterations;
  std::string status, message;        ///< solver status in words
  std::vector<std::string> failures;  ///< each with its cause: "control: actuator 'hip' saturated at 31 of 100 knots"
  std::map<std::string, std::string>
      settings;  ///< solver settings, smoothing, tolerances, derivative level, thread count …
  std::vector<std::string> warnings;
  std::map<std::string, std::string> tables;                         ///< further files by name: "inputs.csv"
  double latency_budget = std::numeric_limits<double>::quiet_NaN();  ///< [s] of a plan; NaN: without any
  double latency_used = std::numeric_limits<double>::quiet_NaN();    ///< [s] of the plan that took longest; NaN: none

  // filled by WriteRecord and ReadRecord
  std::string created;       ///< when it was written, UTC: "2025-03-01T12:00:00Z"
  std::string model_sha256;  ///< of model.mjb

  double knot_time() const { return substeps * model->opt.timestep; }  ///< [s]
};

struct WriteRecordOptions {
  bool force = false;  ///< replace an existing run (never a folder that is not a run); otherwise Error{kFile}
  bool plots = true;   ///< PNG plots through gnuplot when it is installed; its absence is a warning in the record
};

/// Writes the run atomically: into a temporary sibling folder, synced, then renamed. Never leaves half a run that
/// loads, and an old run is there under its name until the new one takes it.
/// @param record  warnings, created and model_sha256 are updated.
/// @throws Error{kFile} that names the folder and the system's reason (read-only, disk full, exists);
///         Error{kDimensionMismatch} when the record's parts do not fit its model.
void WriteRecord(const std::string& folder, Record& record, const WriteRecordOptions& options = {});

/// @throws Error{kFile} when damaged (which file, what is wrong), or newer than this program reads; Error{kUnsupported}
///         when it was made with another MuJoCo.
Record ReadRecord(const std::string& folder);

struct ReplayResult {
  bool identical = false;             ///< every state, sensor, time and context of every knot equal bit for bit
  int first_difference = -1;          ///< knot
  std::string first_name;             ///< the first entry that differs there: "qpos[knee]"
  double recorded = 0, replayed = 0;  ///< that entry's two values
  double largest_difference = 0;      ///< over all knots and entries of X
  RolloutStatus status;
  Trajectory trajectory;
};
/// Re-simulates a record from its own model, start, context, controls and pushes.
/// @throws Error{kInvalidArgument} without a model; Error{kDimensionMismatch} when the record's parts do not fit it.
ReplayResult Replay(const Record& record);

/// Failure labels of a rollout: divergence, controls at their limits, an exhausted constraint solver, deep
/// penetration; each with the numbers. Empty when there is nothing to complain about.
std::vector<std::string> LabelFailures(const mjModel* model, const Trajectory& trajectory, const RolloutStatus& status,
                                       const std::vector<KnotDiagnostics>& diagnostics);

}  // namespace costate

#endif  // COSTATE_RECORD_H_
