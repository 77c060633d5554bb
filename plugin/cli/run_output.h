// Where a command saves its run, settled before the work is done.
#ifndef COSTATE_PLUGIN_CLI_RUN_OUTPUT_H_
#define COSTATE_PLUGIN_CLI_RUN_OUTPUT_H_

#include <costate/record.h>
#include <costate/task.h>

#include <string>
#include <vector>

namespace costate::cli {

/// The first runs/NAME-1, -2 … that does not exist, NAME from the task.
std::string FreeFolder(const Task& task);

/// Nothing is worse than an hour of work that cannot be saved: tries the folder before.
/// The folders above it are made. @throws Error{kFile}.
void CheckRunFolder(const std::string& folder, bool force);

/// Before work is done for a file: as CheckWritable, and refuses, --force or not, to replace what the command reads or a
/// file of a run. @throws Error{kFile}.
void CheckOutputFile(const std::string& path, bool force, const std::vector<std::string>& inputs);

/// Writes the run and says on standard error what that warns of, as of pictures that are missing.
void SaveRun(const std::string& folder, Record* record, bool force, bool plots);

/// The same for what took long to find: where the folder cannot be written any more, the run goes to one for temporary
/// files. @return the folder where it is.
std::string SaveRunSomewhere(const std::string& folder, Record* record, bool force, bool plots);

/// A record that knows its command and its task: files, start, goal, substeps, warnings. Model and motion are left to
/// the command.
Record TaskRecord(const Task& task, const std::string& command);

/// The task's costs of a motion, a knot and a term: cost_per_knot, cost_terms, metric.
void TakeCosts(const Task& task, const Trajectory& motion, double knot_time, Record* record);

/// A constraint as a motion keeps it: into the record, as a failure too where it is violated beyond the tolerance.
void RecordConstraint(const ConstraintReport& report, double tolerance, Record* record);

/// "VIOLATED      there: violated by 1 m at 1 s (qpos[slide]): -1, allowed 0 to 0". @param time  of its knot, since the
/// start.  @param more  behind that.
void PrintConstraint(const ConstraintReport& report, double tolerance, double time, const std::string& more = "");

/// "violated by 0.2 m at 1 s (sensor[tip.pos].0)", within the tolerance "to 1e-07 m …".
std::string ViolationWords(const ConstraintReport& report, double tolerance, double time);

inline constexpr char kConstraintFailure[] = "constraint: ";  ///< how such a failure begins

/// A path as a word of a command line: in quotes where a shell would take it apart.
std::string ShellWord(const std::string& path);

/// "stalled: no step …", but the message alone where it begins with the word.
std::string StatusText(const std::string& status, const std::string& message);

/// "goal hand missed by 0.01 m", a line each.
void PrintMissedGoals(const Task& task, const Trajectory& trajectory);

/// What the exit code says of a solve that ended so: kExitOk when it converged, or ended early with a lower cost or, in
/// a task with constraints, with all of them kept.
int SolveExitCode(const Task& task, SolveStatus status, bool gained, double violation);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_RUN_OUTPUT_H_
