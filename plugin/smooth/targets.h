// Which elements of a model a smoothing is for.
#ifndef COSTATE_SMOOTH_TARGETS_H_
#define COSTATE_SMOOTH_TARGETS_H_

#include <costate/smooth_contact.h>

#include <vector>

namespace costate {

/// Elements of the copy that may be changed.
struct SmoothElements {
  std::vector<int> geoms, pairs, flexes;    ///< whose contacts
  std::vector<int> joints, tendons;         ///< whose limits
  std::vector<int> dofs, friction_tendons;  ///< whose dry friction
  bool all_contacts = false;
  bool override = false;  ///< the options set all contacts
};

/// A copy of the model in which named contacts are explicit pairs, and what is named.
/// @throws as MakeSmoothModel.
ModelPtr ResolveTargets(const mjModel* model, const SmoothContact& options, SmoothElements* out);

}  // namespace costate

#endif  // COSTATE_SMOOTH_TARGETS_H_
