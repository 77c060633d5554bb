#include "derivative/backend.h"

namespace costate {

std::unique_ptr<Backend> MakeAnalyticBackend(const mjModel*, const LinearizeOptions&, std::string* missing) {
  *missing = "rne: this version has no analytic derivatives";
  return nullptr;
}

}  // namespace costate
