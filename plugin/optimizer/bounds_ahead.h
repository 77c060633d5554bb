// Bounds of constraints that a step passes or leaves, in its quadratic model: README.md, eq. (C3a).
#ifndef COSTATE_OPTIMIZER_BOUNDS_AHEAD_H_
#define COSTATE_OPTIMIZER_BOUNDS_AHEAD_H_

#include <costate/lqr.h>

#include <vector>

#include "optimizer/augmented_cost.h"

namespace costate {

/// The augmented Lagrangian about a motion as a piecewise quadratic one: where a step leads decides what counts in it,
/// not where the motion is.
class BoundsAhead {
 public:
  void Resize(int N) { knots_.resize(static_cast<std::size_t>(N) + 1); }

  /// Of a knot, to be filled in.
  AugmentedKnot* at(int t) { return &knots_[static_cast<std::size_t>(t)]; }

  /// The minimum of (C3a) by Newton's steps with exact searches along them, each one recursion.
  /// @param model    about the motion: A, B and the bounds of du are taken from it.
  /// @param mu       regularization of du in the model's units.
  /// @param riccati  receives its policy and promise.
  /// @return         false where the terminal cost reads a start that may move, nothing is found, or the model's own step
  ///                 passes and leaves none.
  bool Solve(const LqProblem& model, double mu, RiccatiResult* riccati);

 private:
  struct Motion {
    MatrixXd dx, du;
  };

  bool FindSides(const Motion& d);
  void Assemble(const LqProblem& model);
  void Follow(const LqProblem& model, const RiccatiResult& riccati, Motion* d) const;
  double Linear(const Motion& d) const;
  double Quadratic(const LqProblem& model, double mu, const Motion& d, const Motion& e) const;
  void Measure(const Motion& d, const Motion& e);
  double Slope(double step) const;

  std::vector<AugmentedKnot> knots_;
  LqProblem lq_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_BOUNDS_AHEAD_H_
