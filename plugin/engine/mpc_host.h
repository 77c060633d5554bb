// A task's robot as a model that plans while it moves, in any MuJoCo host.
#ifndef COSTATE_ENGINE_MPC_HOST_H_
#define COSTATE_ENGINE_MPC_HOST_H_

#include <costate/mpc.h>

#include <string>
#include <vector>

namespace costate {

inline constexpr char kMpcName[] = "costate.mpc";

/// The mocap body of a host that moves one of a task's goals: "goal of site tip".
std::string GoalBody(const MpcGoals& goals, int i);

/// Writes task.model as one MJCF file with a costate.mpc instance that starts where the task does, and a mocap body, a
/// green ball, for each goal that is a place. Its numbers and options are the task's. The task file stays where it is,
/// by absolute path, as do assets.
/// @return the names of those bodies.
/// @throws Error{kFile}, Error{kUnsupported} as WritePlayback; Error{kInvalidArgument} for a task that is no file, or
///         that MPC refuses.
std::vector<std::string> WriteMpcHost(const Task& task, const std::string& file, bool force);

}  // namespace costate

#endif  // COSTATE_ENGINE_MPC_HOST_H_
