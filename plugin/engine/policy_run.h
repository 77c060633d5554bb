// What costate.policy needs of a saved run, read once and shared by all data that play it.
#ifndef COSTATE_ENGINE_POLICY_RUN_H_
#define COSTATE_ENGINE_POLICY_RUN_H_

#include <costate/policy.h>
#include <costate/record.h>

#include <memory>
#include <optional>
#include <string>

namespace costate {

inline constexpr char kPolicyName[] = "costate.policy";

inline constexpr char kLawFile[] = "policy.json";  ///< of a run of costate train

/// What closes the loop: nothing, gains, or the law that was trained; and the words of its attribute `feedback`.
enum class PolicyFeedback { kOff, kOn, kLaw };
inline constexpr const char* kPolicyFeedbackWords[] = {"off", "on", "law"};

/// Controls behind the end of a run, and the words of its attribute `end`.
enum class PolicyEnd { kHold, kLoop, kZero };
inline constexpr const char* kPolicyEndWords[] = {"hold", "loop", "zero"};

/// "" when two models have the same state and controls, else the first difference with both values: a run's, and the
/// one here.
std::string StructureMismatch(const mjModel* run, const mjModel* here);

struct PolicyRun {
  std::string folder;
  Record record;         ///< model, trajectory, policy, context
  double knot_time = 0;  ///< [s]
  int N = 0;

  std::optional<NetworkPolicy> law;  ///< where the run has one: of record.model

  bool has_gains() const { return !record.policy.K.empty(); }

  /// "" when a model has the same state and controls, else the first difference with both values.
  std::string Mismatch(const mjModel* model) const;

  /// The same but for the time step.
  std::string StructureMismatch(const mjModel* model) const {
    return costate::StructureMismatch(record.model.get(), model);
  }

  /// Where a model has what the law sees of sensordata, entry by entry of law->SensorsSeen(): other sensors may be there.
  /// @param mismatch  the first that it has not, with both values, else "".
  std::vector<int> LawSensors(const mjModel* model, std::string* mismatch) const;
};

/// The run in a folder, or of its record.json; read again only when a file of it has changed since.
/// @throws as ReadRecord; Error{kInvalidArgument} when the run has no control.
std::shared_ptr<const PolicyRun> ReadPolicyRun(const std::string& path);

/// The run that a model's attribute names: read when the model is compiled, with the host's working folder of then, and
/// kept for data that are made later, wherever the host works by then and whatever became of the folder. What is
/// written there anew is played, as long as it fits the model. The last 16 are kept.
/// @throws as ReadPolicyRun, where nothing is kept.
std::shared_ptr<const PolicyRun> PolicyRunOf(const mjModel* model, const std::string& path);

}  // namespace costate

#endif  // COSTATE_ENGINE_POLICY_RUN_H_
