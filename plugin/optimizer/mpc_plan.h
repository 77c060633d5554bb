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
  std::vector<MatrixXd>
      multipliers{};  ///< of each constraint, components × (N+1): those that the next plan starts with
  std::vector<ConstraintReport> constraints{};  ///< how well they are kept, in the task's order

  double end() const { return begin + motion.N() * knot_time; }

  /// Is there a knot for this time?
  bool HasControl(double time) const;

  /// Eq. (M1) of README.md at a time in begin … end. False, and u as it was, when it has no control for that time or
  /// one that is not finite.
  bool Control(const Problem& problem, bool feedback, double time, ConstVectorRef x, VectorXd* u) const;

  /// Eq. (M2): the same plan seen from another time on, its end held; `out` has N knots of this plan's length.
  void Shift(const mjModel* model, double time, int N, Trajectory* out, std::vector<MatrixXd>* K_out) const;

  /// Eq. (M5): its multipliers at the knots of a plan of N knots that begins at another time.
  /// @param stays_at_end  of each constraint, whether the last column belongs to the end of plans, not to its time.
  void ShiftMultipliers(double time, int N, const std::vector<bool>& stays_at_end, std::vector<MatrixXd>* out) const;
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
