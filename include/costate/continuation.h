// Optimization from smooth to true: a sequence of ever less smoothed models, the last of them the user's own.
#ifndef COSTATE_CONTINUATION_H_
#define COSTATE_CONTINUATION_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/constraint.h>
#include <costate/smooth_contact.h>

namespace costate {

struct ContinuationOptions {
  SmoothContact smooth;       ///< at the first stage
  double shrink = 0.25;       ///< strength from one stage to the next
  int stages = 4;             ///< smooth ones, at most
  int stage_iterations = 50;  ///< of each smooth stage, at most
  int budget = 0;  ///< iterations of all stages together, smooth ones at most two thirds of it; 0: no such bound
  /// Before all smooth stages the true model from the guess: the result is no worse than without smoothing.
  bool plain_first = true;
  /// Motions are the true model's throughout, and only derivatives are smoothed.
  bool backward_only = false;
  ConstrainedOptions constrained{};  ///< of each stage, where the problem has constraints
};

/// One solve on the way.
struct ContinuationStage {
  double factor = 0;      ///< of ContinuationOptions::smooth; 0: the true model
  std::string smoothing;  ///< "onset 0.005 m"; "none"
  SolveStatus status = SolveStatus::kIterationLimit;
  int iterations = 0;
  double cost = 0;  ///< of its motion, on the model that it optimized
  /// on the true model, of its controls or under its policy, whichever is better; infinite where both diverge
  double true_cost = 0;
};

struct ContinuationResult {
  /// on the true model; initial_cost is that of the guess there, iterations are those of all stages
  SolveResult result;
  std::vector<ContinuationStage> stages;  ///< in order; the last ones are on the true model
  std::string message;                    ///< one sentence: both costs, and why the smooth stages ended
};

/// Called when a stage begins. @param stage  number from 0.
using StageCallback = std::function<void(int stage, const ContinuationStage&)>;

/// Minimizes problem.cost by iLQR through smoothed models, within problem.constraints if there are any: each stage
/// starts from the controls (multipliers, and start where that is free) of the one before, or from what its policy
/// makes of them on the next model where that is better. A stage ends as its solver ends or after stage_iterations;
/// the smooth ones end early once no contact or limit along the true motion of the controls is nearer to its onset than
/// the smoothing reaches (Certify), where it changes nothing any more. Where no control changes what the plain solve
/// leaves of the cost, a box that is not touched, smooth.distance is doubled for the first stage until contacts reach
/// it, with so many more stages. The true model then has options.iterations; the result is no worse than any stage's
/// controls there, the plain solve or the guess: within the constraints' tolerance by cost, else by violation.
///
/// @throws as SolveIlqr and MakeSmoothModel.  Source: plugin/smooth/README.md, "Continuation".
ContinuationResult SolveContinuation(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                                     const ContinuationOptions& continuation, const IterationCallback& callback = {},
                                     const StageCallback& stage_callback = {});

}  // namespace costate

#endif  // COSTATE_CONTINUATION_H_
