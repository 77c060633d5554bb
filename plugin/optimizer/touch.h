// Towards a body that a cost is about and that nothing touches yet. README.md, "Towards contact".
#ifndef COSTATE_OPTIMIZER_TOUCH_H_
#define COSTATE_OPTIMIZER_TOUCH_H_

#include <costate/cost.h>
#include <costate/solve.h>

#include <vector>

#include "derivative/spatial.h"
#include "optimizer/added_cost.h"

namespace costate {

/// A hand and what it shall touch.
struct Touch {
  std::vector<int> hand;  ///< geoms, one of each last link
  int object = -1;        ///< geom
  double cost = 0;        ///< of the terms that no control changes
};

/// How a hand is led.
struct TouchWeights {
  Vec3 place{0, 0, 0};  ///< of the mean of the hand's geoms, from the object's centre [m], world axes
  double reach = 0;     ///< κ_r of (B3)
  double squeeze = 0;   ///< κ_s
};

/// The problem's own cost and (B3) of README.md.
class TouchCost final : public AddedCost {
 public:
  /// What must outlive it: the problem.  @param motion  along which (B3) is in terms of touch.cost.
  TouchCost(const Problem& problem, const Touch& touch, const TouchWeights& weights, const Trajectory& motion);

  double Value(const KnotView& knot) const override;
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override;

 private:
  struct Distance {
    double value = 0;
    Vec3 point[2]{Vec3::Zero(), Vec3::Zero()}, normal{0, 0, 0};
  };
  Vec3 Reach(const mjData* d) const;
  Distance Measure(mjData* d, int geom) const;

  const Problem& problem_;
  mutable DataPool pool_;
  Touch touch_;
  Vec3 place_;
  double size_;                     // of the object [m]
  double reach_ = 0, squeeze_ = 0;  // w_r [1/(m² s)], w_s [1/(m s)]
};

/// One way there: places that the hand is led to one after the other, then it closes.
struct TouchPlan {
  Touch touch;
  std::vector<Vec3> places;    ///< as TouchWeights::place; at the last one it closes
  double squeeze = 0;          ///< while it closes: κ_s
  double keep = 0;             ///< … and that part of κ_r
  std::vector<int> passing{};  ///< geoms that pass through all things while the hand is led to its places
};

/// Ways to the first of the bodies that untouched terms of the motion's cost hang on (untouched.h): none where it has
/// actuators of its own, or no link that actuators move may touch it.
std::vector<TouchPlan> PlanTouches(const Problem& problem, const Trajectory& motion);

/// By the plan, and from there on by the problem's own cost. @param motion  where it begins.
/// @param options  options.iterations bounds the iterations in all.
SolveResult SolveTouching(const Problem& problem, const TouchPlan& plan, const Trajectory& motion,
                          const IlqrOptions& options, const ConstrainedOptions& constrained,
                          const IterationCallback& callback);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TOUCH_H_
