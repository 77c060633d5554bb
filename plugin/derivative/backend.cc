#include "derivative/backend.h"

namespace costate {

std::unique_ptr<Backend> MakeAnalyticBackend(const mjModel*, const LinearizeOptions&, std::string* missing) {
  *missing = "rne: this version has no analytic derivatives";
  return nullptr;
}

std::unique_ptr<Backend> MakeResidualBackend(const mjModel*, const LinearizeOptions&, std::string* missing) {
  *missing = "rne: this version has no residual differences";
  return nullptr;
}

}  // namespace costate
