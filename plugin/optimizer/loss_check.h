// Entries of a loss's gradient against centred differences of the whole rollout.
#ifndef COSTATE_OPTIMIZER_LOSS_CHECK_H_
#define COSTATE_OPTIMIZER_LOSS_CHECK_H_

#include <costate/adjoint.h>
#include <costate/task.h>

#include <functional>
#include <string>
#include <vector>

#include "core/extremes.h"

namespace costate {

inline constexpr char kNoGradientToCheck[] = "none: what was clipped or truncated is not the gradient";

struct LossCheckEntry {
  enum class Verdict { kAgrees, kWrong, kRough };
  std::string name;  ///< "ctrl[hip] at knot 12", "qvel[knee] of the start", "joint:knee/damping"
  double adjoint = 0, difference = 0;
  double error_bar = 0;  ///< disagreement with the next larger and the next smaller step
  double relative = 0;   ///< |adjoint − difference| over the largest entry of its block
  Verdict verdict = Verdict::kAgrees;
};

/// Is a slope that is `off` by so much as good as three error bars of the difference, or 1e-6 of the largest entry,
/// say?
bool IsWithinError(double off, double error_bar, double largest);

/// How far an input may go from where it is.
struct SlopeRoom {
  double below = kInf, above = below;
};

/// The slope of loss(h) at h = 0 by centred differences over six steps, 1e-2 to 1e-7 times scale: the one with which
/// those over the next larger and the next smaller step agree best. Fills all but name and adjoint, which it judges.
/// @param largest  entry of its block.
void BestDifference(const std::function<double(double)>& loss, double scale, double largest, const SlopeRoom& room,
                    LossCheckEntry* entry);

/// Of task.inputs `count` controls and `count` tangents of the start, the largest half and others spread evenly, and
/// all parameters. An entry is wrong when it is off by more than 1e-6 of its block's largest entry and three error
/// bars, and rough (not judged) when its error bar exceeds 1e-3 of that. Parameters are compared in units of their
/// values. Cost: twelve rollouts an entry.
/// @param parameters  at the values of the gradient; null when it has none.
std::vector<LossCheckEntry> CheckLossGradient(const Task& task, const ParameterSet* parameters,
                                              const RolloutGradient& gradient, int count);
const char* ToString(LossCheckEntry::Verdict verdict);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_LOSS_CHECK_H_
