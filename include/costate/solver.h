// The shapes that all trajectory optimizers share: problem, status, result.
#ifndef COSTATE_SOLVER_H_
#define COSTATE_SOLVER_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/cost.h>

namespace costate {

class ConstraintSet;  // costate/constraint.h

/// A start that may move: x_0 = x0 ⊕ d with d free within bounds in some entries, else 0.
struct FreeStart {
  std::vector<int> entries{};  ///< of the tangent, rising; empty: x_0 is given
  VectorXd lower{},
      upper{};       ///< bounds of d at those entries; ±infinity where there is none, and in every entry of a rotation
  VectorXd guess{};  ///< x_0 to begin with (nx), what of it is free and within bounds; empty: x0
};

/// minimize Σ_t l_t(x_t, u_t, s_t) over U, subject to x_{t+1} = f(x_t, u_t), x_0 given, u_lower ≤ u_t ≤ u_upper;
/// over U and x_0 where the start is free.
struct Problem {
  const mjModel* model = nullptr;
  const Cost* cost = nullptr;
  VectorXd x0;                                 ///< nx
  VectorXd context;                            ///< by kContextSignature
  int N = 0;                                   ///< horizon in controls
  int substeps = 1;                            ///< engine steps a control
  VectorXd u_lower, u_upper;                   ///< nu; ±infinity where an actuator has no limit
  FreeStart free_start{};                      ///< none unless it names entries
  const ConstraintSet* constraints = nullptr;  ///< kept by SolveConstrained; solvers without constraints refuse them

  double knot_time() const { return substeps * model->opt.timestep; }  ///< that a control holds [s]
};

/// Control limits of the model: ctrlrange where limited, ±infinity elsewhere.
void ControlLimits(const mjModel* model, VectorXd* lower, VectorXd* upper);

enum class SolveStatus {
  kConverged,  ///< relative cost change or gradient below its tolerance
  kIterationLimit,
  kStalled,      ///< regularization at its maximum, no step reduces the cost; or a derivative failed
  kDiverged,     ///< the initial rollout fails; nothing could be done
  kInterrupted,  ///< the callback or IlqrOptions::stop asked to stop
  kInfeasible,   ///< no motion was found that keeps the constraints; the least violation is returned
  kTimeLimit,    ///< the solver's time was up
};
const char* ToString(SolveStatus status);

/// Where a solver stood when it ended, which need not be the best motion: what a later solve goes on from.
struct SolveState {
  MatrixXd U{};                         ///< controls of the last iterate
  MatrixXd X{};                         ///< its states where they had gaps (fddp); empty: the motion under U
  VectorXd x0{};                        ///< its start where that may move; empty: it may not
  MatrixXd costates{};                  ///< multipliers of the steps (ndx × (N+1)), of fddp
  double barrier = 0;                   ///< weight of fddp's barrier; 0: none was needed
  double regularization = -1;           ///< of the last iteration; negative: there was none
  double regularization_by_step = -1;   ///< the second one of iLQR by both rules; negative: there was none
  std::vector<MatrixXd> multipliers{};  ///< of the constraints, those that the iterate was sought with
  VectorXd penalties{};                 ///< one a constraint
  VectorXd residuals{};                 ///< of each constraint at the last update of the multipliers; empty before it
  VectorXd
      tokens{};  ///< of each constraint whose penalty is a token yet: the cost's own curvature across it; 0 of others
};

struct SolveResult {
  SolveStatus status = SolveStatus::kIterationLimit;
  std::string message;  ///< one sentence with the numbers that decided
  double cost = 0;
  double initial_cost = 0;
  double guess_scale = 1;           ///< below 1 when the control guess diverged and was scaled by it
  double gradient_norm = 0;         ///< max |Qu| over controls that may still move downhill, about that trajectory;
                                    ///< 0 where the next is empty
  VectorXd gradient_norm_per_knot;  ///< the same knot by knot (N); empty where it is not known: no quadratic model, or
                                    ///< a motion back within constraints (BasinHoppingOptions::back)
  Trajectory trajectory;            ///< the best iterate, always
  Policy policy;                    ///< about that trajectory; zero when there is no quadratic model
  std::vector<IterationRecord> iterations;
  double violation = 0;                       ///< of the worst constraint, relative; 0 without any
  std::vector<ConstraintReport> constraints;  ///< worst first
  std::vector<MatrixXd> multipliers;          ///< of each constraint of the problem in its order, components × (N+1);
                                              ///< none of a motion back within constraints
  double force_weight = 0;  ///< w of (I6) in plugin/optimizer/README.md, at which the constraints were kept; 0: without
  SolveState state;         ///< from which Solve goes on (Guess::state)
};

/// Called after each iteration; false stops the solver with kInterrupted and the best iterate so far. So it does what is
/// made of several solves: no other follows, and it is not called again.
using IterationCallback = std::function<bool(const IterationRecord&)>;

}  // namespace costate

#endif  // COSTATE_SOLVER_H_
