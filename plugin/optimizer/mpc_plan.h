// A plan as it is followed: a motion over time with its feedback.
#ifndef COSTATE_OPTIMIZER_MPC_PLAN_H_
#define COSTATE_OPTIMIZER_MPC_PLAN_H_

#include <costate/solver.h>

#include <deque>
#include <memory>

namespace costate {

struct MpcPlan {
  double begin = 0;      ///< [s] when its first control acts
  double knot_time = 0;  ///< [s]
  Trajectory motion;
  std::vector<MatrixXd> K;
  double cost = 0;

  double end() const { return begin + motion.N() * knot_time; }

  /// Eq. (M1) of README.md at a time in begin … end. False when it has no control for that time.
  bool Control(const Problem& problem, bool feedback, double time, ConstVectorRef x, VectorXd* u) const;

  /// Eq. (M2): the same plan seen from another time on, its end held; `out` has N knots of this plan's length.
  void Shift(const mjModel* model, double time, int N, Trajectory* out, std::vector<MatrixXd>* K_out) const;
};

using MpcPlanPtr = std::shared_ptr<const MpcPlan>;

/// The last plans: one that acts, and those that have not begun.
class MpcPlanBook {
 public:
  void Add(MpcPlanPtr plan);

  /// The newest that has begun.
  const MpcPlan& At(double time) const;

 private:
  std::deque<MpcPlanPtr> plans_;  // newest first
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_PLAN_H_
