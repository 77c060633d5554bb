// How deep a contact may go and still be one.
#ifndef COSTATE_ROLLOUT_PENETRATION_H_
#define COSTATE_ROLLOUT_PENETRATION_H_

#include <mujoco/mujoco.h>

namespace costate {

/// Is a contact that penetrates by so much [m] none any more? Beyond a tenth of the mean body size.
inline bool IsDeep(const mjModel* model, double penetration) {
  constexpr double kDeepShare = 0.1;
  return penetration > kDeepShare * model->stat.meansize;
}

}  // namespace costate

#endif  // COSTATE_ROLLOUT_PENETRATION_H_
