// Where geoms are to be on the way. README.md, "Ways round".
#ifndef COSTATE_OPTIMIZER_VIA_COST_H_
#define COSTATE_OPTIMIZER_VIA_COST_H_

#include <map>

#include "derivative/spatial.h"
#include "optimizer/added_cost.h"

namespace costate {

/// Where a geom is to be at a knot.
struct Via {
  int geom = -1;
  Vec3 place{0, 0, 0};  ///< of its centre [m]
  double weight = 0;    ///< w of (B4) [1/(m² s)]
};
using Vias = std::multimap<int, Via>;  ///< by knot

/// The problem's own cost and (B4) of README.md.
class ViaCost final : public AddedCost {
 public:
  /// What must outlive it: both.
  ViaCost(const Problem& problem, const Vias& vias)
      : AddedCost(*problem.cost), model_(problem.model), pool_(problem), vias_(vias) {}

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;

 private:
  const mjModel* model_;
  mutable DataPool pool_;
  const Vias& vias_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_VIA_COST_H_
