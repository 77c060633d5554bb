// What was meant, most likely, by a name that is none.
#ifndef COSTATE_CORE_DID_YOU_MEAN_H_
#define COSTATE_CORE_DID_YOU_MEAN_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// ", did you mean 'tip'?", or "" where no candidate is near.
inline std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : ", did you mean '" + nearest + "'?";
}

}  // namespace costate

#endif  // COSTATE_CORE_DID_YOU_MEAN_H_
