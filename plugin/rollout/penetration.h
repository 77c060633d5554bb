// How deep a contact may go and still be one.
#ifndef COSTATE_ROLLOUT_PENETRATION_H_
#define COSTATE_ROLLOUT_PENETRATION_H_

#include <mujoco/mujoco.h>

#include <costate/types.h>

namespace costate {

/// Is a contact that penetrates by so much [m] none any more? Beyond a tenth of the mean body size.
inline bool IsDeep(const mjModel* model, double penetration) {
  constexpr double kDeepShare = 0.1;
  return penetration > kDeepShare * model->stat.meansize;
}

/// How deep the deepest contact of each state is [m], 0 without any. @param X  states, one a column.
VectorXd Penetrations(const mjModel* model, ConstVectorRef context, ConstMatrixRef X);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_PENETRATION_H_
