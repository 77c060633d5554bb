// Free final time: how long a motion should take, minimum time among it.
#ifndef COSTATE_FREE_TIME_H_
#define COSTATE_FREE_TIME_H_

#include <string>
#include <vector>

#include <costate/basin_hopping.h>
#include <costate/constraint.h>

namespace costate {

struct FreeTimeOptions {
  double shortest = 0, longest = 0;  ///< [s]
  double weight = 1;                 ///< cost of a second; alone with a small effort: minimum time
  double tolerance = 1e-3;           ///< of the time, relative
  int solves = 40;                   ///< times that are tried, at most
};

/// One length of time that was tried.
struct FreeTimeTrial {
  double time = 0;       ///< [s]
  double cost = 0;       ///< J + weight · time; infinite where the constraints were not kept or the motion diverged
  double violation = 0;  ///< relative
  SolveStatus status = SolveStatus::kIterationLimit;
  int iterations = 0;
};

struct FreeTimeResult {
  /// At the best time; iterations are those of all trials, initial_cost is U's at the problem's time step, or that of the
  /// motion that the search goes on from.
  SolveResult result;
  ModelPtr model;   ///< the problem's with the time step that belongs to it: what the result is a motion of
  double time = 0;  ///< [s]
  std::vector<FreeTimeTrial> trials;  ///< in the order in which they were made
  double state_time = 0;              ///< [s] of the last trial, which result.state is of
};

/// Where a search over times ended, for one that goes on.
struct FreeTimeState {
  double time = 0;  ///< [s] of the best motion
  MatrixXd U{};     ///< its controls; empty: there is none yet
  VectorXd x0{};    ///< where it starts (nx), where the start may move; empty: problem.x0
  std::vector<MatrixXd> multipliers{};
  std::vector<FreeTimeTrial> trials{};  ///< those made again are not solved again, but for an interrupted one
  double state_time = 0;                ///< [s] of the trial that was the last,
  SolveState state{};                   ///< and where its solver stood
};

/// Minimizes min_U J(U; T) + weight · T over shortest ≤ T ≤ longest, within problem.constraints.
///
/// The number of knots and of steps stays; the time step is T / (N substeps): motions of all lengths are equally fine,
/// and T is continuous. The function of T is searched by golden section; where no motion keeps the constraints it is
/// infinite, and the search turns to a time that is known to have one, else to longer ones. Each trial starts from the
/// controls, the free start and the multipliers of the nearest one that kept them; where all of those are longer and
/// this leads to none that keeps them, once more from the next nearest one, then from U. A trial at its limit of
/// iterations that nearly keeps them has more. With several minima over T one of them is found. result.message names
/// the time and the trials beside it.
/// @param hopping  with rounds: each trial goes on beyond the nearest minimum (SolveBasinHopping), and
///             options.iterations are those of one trial. With none, nor after_solve: where none of the first three
///             trials keeps the constraints, one of the horizon's length, else of the longest, has rounds as a task
///             without free time has them, and where that keeps them the search begins anew from there.
/// @param from  where an earlier search ended; U is then not used. Its trials count where its best motion still costs
/// what it did.
/// @throws as SolveConstrained; Error{kInvalidArgument} for a malformed option.
/// Cost: about log(tolerance shortest / (longest - shortest)) / log(0.62) solves.
/// Source: plugin/optimizer/README.md, "Free time".
FreeTimeResult SolveFreeTime(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options,
                             const ConstrainedOptions& constrained, const FreeTimeOptions& free,
                             const IterationCallback& callback = {}, const FreeTimeState* from = nullptr,
                             const BasinHoppingOptions& hopping = {}, const BasinHoppingCallback& round_callback = {});

}  // namespace costate

#endif  // COSTATE_FREE_TIME_H_
