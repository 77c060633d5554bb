// Where a solve stands at a saddle: directions of negative curvature, and steps along them. README.md, "Saddles".
#ifndef COSTATE_OPTIMIZER_SADDLE_H_
#define COSTATE_OPTIMIZER_SADDLE_H_

#include <costate/ilqr.h>

#include <vector>

#include "optimizer/expander.h"
#include "optimizer/step_search.h"

namespace costate {

class Saddle {
 public:
  /// All must outlive it.
  Saddle(const Problem& problem, Simulator* simulator, const IlqrOptions& options);

  /// Looks for a direction along which the cost curves down about a motion.
  /// @param lq  the quadratic model there, of derivatives to first order.  @param unit  of regularizations.
  /// @return    the least curvature that was found, where that of the model is 1; 0 where none is negative.
  /// Cost: three to ten times a rollout, its derivatives and a Riccati recursion.
  double Find(const Trajectory& motion, const LqProblem& lq, double unit);

  /// The lowest motion along the direction that Find has found, both ways; alpha is the largest change of a control, in
  /// half ranges.
  /// @param taken  receives it where it is lower; otherwise untouched.
  AcceptedStep Leave(const Trajectory& motion, double cost, Trajectory* taken);

 private:
  void Hold(const Trajectory& motion, const LqProblem& lq);
  bool SolveModel(const VectorXd& right, VectorXd* out);
  bool Multiply(const Trajectory& motion, const VectorXd& direction, VectorXd* out);
  void Direct();
  double LargestChange(const VectorXd& direction) const;

  const Problem& problem_;
  Simulator* simulator_;
  const IlqrOptions& options_;
  Expander expander_;
  VectorXd half_;  // of each control's range

  // about the motion
  VectorXd gradient_;  // of the cost by all controls, knot by knot
  LqProblem model_, nudged_;
  double mu_ = 0;
  RiccatiResult riccati_;
  Trajectory motion_;
  double curvature_ = 0;
  VectorXd direction_;  // of that curvature, one by the model's …
  Policy policy_;       // … and along it
  std::vector<Trajectory> motions_;
  std::vector<double> costs_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SADDLE_H_
