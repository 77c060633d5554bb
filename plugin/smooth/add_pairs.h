// A compiled model with more explicit contact pairs: mjModel has no room for them, so that it is written and read anew.
#ifndef COSTATE_SMOOTH_ADD_PAIRS_H_
#define COSTATE_SMOOTH_ADD_PAIRS_H_

#include <costate/model.h>

#include <vector>

namespace costate {

/// One contact pair with the parameters that the engine would mix from its two geoms.
struct ContactPair {
  int geom1 = -1, geom2 = -1;
  int dim = 3;
  double solref[mjNREF] = {}, solimp[mjNIMP] = {}, friction[5] = {};
  double margin = 0, gap = 0, adhesion = 0;
};

/// Parameters of the contacts of two geoms as the engine mixes them by priority, solmix and maximum. (S1)
ContactPair MixPair(const mjModel* model, int geom1, int geom2);

/// `model` and `pairs` without names, sorted in among its own; everything else is byte for byte the same.
/// @throws Error{kUnsupported} when the engine lays a model out otherwise than this release does.
ModelPtr AddPairs(const mjModel* model, const std::vector<ContactPair>& pairs);

}  // namespace costate

#endif  // COSTATE_SMOOTH_ADD_PAIRS_H_
