// The Gauss–Newton matrix of a task's cost by the weights of a law that plays it. README.md, eq. (18d).
#ifndef COSTATE_OPTIMIZER_POLICY_CURVATURE_H_
#define COSTATE_OPTIMIZER_POLICY_CURVATURE_H_

#include <costate/policy.h>
#include <costate/task.h>

#include "optimizer/expander.h"

namespace costate {

/// @throws Error{kUnsupported} where a law's step is not that of (18d): it sees sensors, or the model has delays.
void CheckPolicyCurvature(const NetworkPolicy& policy);

/// Of one horizon; everything is borrowed.
class PolicyCurvature {
 public:
  PolicyCurvature(const Task& task, const NetworkPolicy& policy, int N, Simulator* simulator);

  /// += factor JᵀWJ of a motion under the law. False where a step has no derivative.
  bool Add(const Trajectory& motion, double factor, MatrixXd* sum);

 private:
  const NetworkPolicy& policy_;
  Problem problem_;
  Expander expander_;
  LqProblem lq_;
  MatrixXd moved_, moves_, weighed_, law_x_, law_w_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_POLICY_CURVATURE_H_
