// The shapes that all trajectory optimizers share: problem, iteration record, status, result.
#ifndef COSTATE_SOLVER_H_
#define COSTATE_SOLVER_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/cost.h>

namespace costate {

/// minimize Σ_t l_t(x_t, u_t, s_t) over U, subject to x_{t+1} = f(x_t, u_t), x_0 given, u_lower ≤ u_t ≤ u_upper.
struct Problem {
  const mjModel* model = nullptr;
  const Cost* cost = nullptr;
  VectorXd x0;                ///< nx
  VectorXd context;           ///< by kContextSignature
  int N = 0;                  ///< horizon in controls
  int substeps = 1;           ///< engine steps a control
  VectorXd u_lower, u_upper;  ///< nu; ±infinity where an actuator has no limit
};

/// Control limits of the model: ctrlrange where limited, ±infinity elsewhere.
void ControlLimits(const mjModel* model, VectorXd* lower, VectorXd* upper);

/// One line of the log, one point of every plot.
struct IterationRecord {
  int iteration = 0;
  double cost = 0;             ///< after this iteration
  double expected_change = 0;  ///< predicted by the quadratic model for the accepted step (else the full one), ≤ 0
  double actual_change = 0;
  double gradient_norm = 0;    ///< max |Qu| over controls that may still move downhill, before the step
  double step = 0;             ///< accepted alpha; 0 when none was
  double regularization = 0;
  double seconds_rollout = 0, seconds_derivative = 0, seconds_backward = 0;
};

enum class SolveStatus {
  kConverged,       ///< relative cost change or gradient below its tolerance
  kIterationLimit,
  kStalled,         ///< regularization at its maximum, no step reduces the cost; or a derivative failed
  kDiverged,        ///< the initial rollout fails; nothing could be done
  kInterrupted,     ///< the callback asked to stop
};
const char* ToString(SolveStatus status);

struct SolveResult {
  SolveStatus status = SolveStatus::kIterationLimit;
  std::string message;      ///< one sentence with the numbers that decided
  double cost = 0;
  double initial_cost = 0;
  double guess_scale = 1;   ///< below 1 when the control guess diverged and was scaled by it
  double gradient_norm = 0;         ///< max |Qu| over controls that may still move downhill, about that trajectory
  VectorXd gradient_norm_per_knot;  ///< the same knot by knot (N); empty when there is no quadratic model
  Trajectory trajectory;    ///< the best iterate, always
  Policy policy;            ///< about that trajectory; zero when there is no quadratic model
  std::vector<IterationRecord> iterations;
};

/// Called after each iteration; false stops the solver with kInterrupted and the best iterate so far.
using IterationCallback = std::function<bool(const IterationRecord&)>;

}  // namespace costate

#endif  // COSTATE_SOLVER_H_
