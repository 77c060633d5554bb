// A task's constraints as plans keep them: windows of time seen from where a plan begins, ends at the end of each plan.
#ifndef COSTATE_OPTIMIZER_MPC_CONSTRAINTS_H_
#define COSTATE_OPTIMIZER_MPC_CONSTRAINTS_H_

#include <costate/task.h>

#include <vector>

namespace costate {

/// When a constraint of a task holds, whatever the knots.
struct ConstraintWindow {
  bool end = false;               ///< at the end of each plan alone
  bool open = false;              ///< from `begin` on through all plans
  bool moved_by_control = false;  ///< c depends on u: it holds at knots that have a control, else not at a given start
  double begin = 0, until = 0;    ///< [s] from the task's start, both included
};

/// The same constraint at the knots of a plan or of what the robot did.
class PlacedConstraint final : public Constraint {
 public:
  PlacedConstraint(const Constraint* constraint, ConstraintWindow window)
      : Constraint(constraint->info()), window(window), constraint_(constraint) {}

  /// From now on: knots first … last of a motion that begins `shift` seconds after the task.
  void Place(int first, int last, double shift) {
    first_ = first;
    last_ = last;
    shift_ = shift;
  }

  bool IsAt(int t, int /*N*/) const override { return first_ <= t && t <= last_; }
  void Value(const KnotView& knot, VectorXd* c) const override { constraint_->Value(knot.ShiftedBy(shift_), c); }
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override {
    constraint_->Jacobian(knot.ShiftedBy(shift_), C, D, J, Ju);
  }
  void PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const override {
    constraint_->PullBack(knot.ShiftedBy(shift_), g, out);
  }
  bool NeedsSensors() const override { return constraint_->NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { constraint_->MarkSensors(read); }

  const ConstraintWindow window;

 private:
  const Constraint* constraint_;
  int first_ = 0, last_ = -1;
  double shift_ = 0;
};

/// All constraints of a task, which must outlive it.
class MpcConstraints {
 public:
  explicit MpcConstraints(const Task& task);

  /// At the knots of a plan that begins `shift` seconds after the task.
  void PlacePlan(double shift, double knot_time, int N);

  /// At the interval of one control, which acts from `now` on: what it moves at once at knot 0, what reads the state
  /// alone at knot 1, the rest nowhere.
  void PlaceControl(double now, double control_time);

  /// From now on those that controls do not move hold nowhere.
  void DropStates();

  bool AnyMovedByControl() const;

  /// At those of what the robot did from the task's start on, N control intervals: ends of plans are not in it.
  void PlaceMotion(double knot_time, int N);

  const ConstraintSet& set() const { return set_; }
  int size() const { return set_.size(); }

  /// Of each constraint, whether its multipliers at the last knot belong to the end of plans, not to a time.
  const std::vector<bool>& stays_at_end() const { return stays_at_end_; }

 private:
  void DropIf(bool (*drops)(const PlacedConstraint&));

  ConstraintSet set_;
  std::vector<PlacedConstraint*> placed_;  // of set_
  std::vector<bool> stays_at_end_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_MPC_CONSTRAINTS_H_
