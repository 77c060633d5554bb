// What the writer and the reader of a saved run agree on; README.md describes the files for their users.
#ifndef COSTATE_ROLLOUT_RECORD_FORMAT_H_
#define COSTATE_ROLLOUT_RECORD_FORMAT_H_

#include <costate/record.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace costate {

using Json = nlohmann::ordered_json;

inline constexpr char kFormat[] = "costate run";
/// Raised when an older program can no longer read what is written. 2: pushes of some bodies; runs without are 1.
inline constexpr int kSchema = 2;

inline constexpr char kModelFile[] = "model.mjb";
inline constexpr char kTaskFile[] = "task.xml";
inline constexpr char kTrajectoryFile[] = "trajectory.csv";
inline constexpr char kStartContextFile[] = "start_context.csv";
inline constexpr char kKnotContextFile[] = "knot_context.csv";
inline constexpr char kPushesFile[] = "pushes.csv";
inline constexpr char kPolicyFile[] = "policy.csv";
inline constexpr char kIterationsFile[] = "iterations.csv";
inline constexpr char kPlotFile[] = "plots.gnuplot";

/// One of those that every run may have: no further table may be called so.
bool IsOwnFile(const std::string& name);

/// Which optional parts a run has.
struct Contents {
  bool task = false, cost = false, gradient_norm = false, diagnostics = false, policy = false, iterations = false;
  bool violation = false;     ///< iterations have one
  bool gap = false;           ///< iterations have one, and its knot
  bool pushes = false;        ///< bodies are pushed
  std::vector<int> pushed{};  ///< which, in order
  bool second = false;        ///< iterations have a second regularization, and the curvature of a saddle that they left
};

/// Which parts a run has; all of them fit its model and its trajectory. @throws Error{kInvalidArgument,
/// kDimensionMismatch} of one that does not.
Contents CheckRecord(const Record& record);

/// Header rows.
std::vector<std::string> TrajectoryHeader(const mjModel* model, const Contents& contents);
std::vector<std::string> ContextHeader(const mjModel* model, int signature);
std::vector<std::string> PushesHeader(const mjModel* model, const std::vector<int>& bodies);
std::vector<std::string> PolicyHeader(const mjModel* model);
std::vector<std::string> IterationsHeader(const Contents& contents);

/// SHA-256 of the compact text of all members but "checksum".
std::string Checksum(const Json& json);

/// Indented text; bytes that are not UTF-8 are replaced.
std::string ToText(const Json& json, int indent);

/// A name as ToText writes it and a parser reads it again: what a file's names are compared with.
std::string AsWritten(const std::string& name);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_RECORD_FORMAT_H_
