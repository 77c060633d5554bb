// Which models and options impacts can be had for, and the model between impacts.
#ifndef COSTATE_SMOOTH_IMPACT_MODEL_H_
#define COSTATE_SMOOTH_IMPACT_MODEL_H_

#include <costate/impact.h>

#include <vector>

namespace costate {

/// @throws Error{kInvalidArgument}.
void CheckImpactOptions(const ImpactOptions& options);

/// @throws Error{kUnsupported} for what a step does that the event model does not.
void CheckImpactModel(const mjModel* model);

/// Of each geom: are its contacts impacts? @throws Error{kInvalidArgument} for an unknown name.
std::vector<bool> ImpactGeoms(const mjModel* model, const ImpactOptions& options);

/// A copy without these contacts, converged to rounding. @throws Error{kUnsupported} when they are explicit pairs.
ModelPtr ModelBetweenImpacts(const mjModel* model, const ImpactOptions& options);

}  // namespace costate

#endif  // COSTATE_SMOOTH_IMPACT_MODEL_H_
