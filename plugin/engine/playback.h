// A saved run as a model that plays itself in any MuJoCo host.
#ifndef COSTATE_ENGINE_PLAYBACK_H_
#define COSTATE_ENGINE_PLAYBACK_H_

#include <string>

#include "engine/policy_run.h"

namespace costate {

struct PlaybackOptions {
  std::string end = kPolicyEndWords[0];  ///< one of kPolicyEndWords
  bool feedback = true;                  ///< by the law that the run has trained, or its gains, where it has them
  bool force = false;                    ///< replace a file that is there
};

/// How the written file plays, against the run.
struct PlaybackResult {
  PolicyFeedback feedback = PolicyFeedback::kOff;
  bool identical = false;         ///< every state of every knot, bit for bit
  double largest_difference = 0;  ///< over all knots and entries of the state
  std::string cause;              ///< of a difference, in words
};

/// Writes the run's model as one MJCF file with a costate.policy instance that starts at the run's start, then loads
/// that file and plays it. Its numbers and options are those of the run's compiled model, whatever task, fit or
/// smoothing made of the source, with all their digits. Assets stay where they are,
/// by absolute path, and so does the run.
/// @throws Error{kFile} when the MJCF that the run was made from is gone, the file cannot be written, or is there and
///         not to be replaced;
///         Error{kUnsupported} when it was made from a compiled model, the model has changed since, or MJCF cannot say
///         what the run's model has otherwise: the message names the first number, with both values.
PlaybackResult WritePlayback(const std::string& run, const std::string& file, const PlaybackOptions& options = {});

}  // namespace costate

#endif  // COSTATE_ENGINE_PLAYBACK_H_
