// Iterative LQR with control bounds (box-DDP, Gauss–Newton).
#ifndef COSTATE_ILQR_H_
#define COSTATE_ILQR_H_

#include <functional>
#include <limits>
#include <memory>

#include <costate/lqr.h>
#include <costate/solver.h>

namespace costate {

/// Which solver Solve (solve.h) calls.
enum class SolverType {
  kIlqr,  ///< SolveIlqr
  kFddp,  ///< SolveFddp
};
const char* ToString(SolverType type);  ///< as in a task file: "ilqr", "fddp"

/// By what regularization adapts from one iteration of iLQR to the next.
enum class RegularizationRule {
  kPromise,  ///< by the share of the model's promise that a step kept
  kStep,     ///< by the length of the step: any above 0.3 lowers it, any below 0.13 raises it
  kBoth,     ///< two of them, one by each: an iteration takes the better step of both (in Resolve kPromise alone)
};

struct IlqrOptions {
  SolverType type = SolverType::kIlqr;
  int iterations = 200;
  double tolerance = 1e-6;  ///< stop when the relative cost decrease stays below it
  /// Larger than tolerance: decreases below it end the solve, too, where the model promises much more (kStalled): it
  /// creeps, as along a kink. For a solve that others go on from. Of multiple shooting, where the larger of both counts:
  /// eight iterations that together take no more than that off the cost.
  double stall_tolerance = 0;
  double gradient_tolerance =
      1e-7;  ///< stop when max |Qu| over free controls is below it, relative to cost_unit + |cost|
  /// What regularization, barrier, least and largest penalties and the gradient's tolerance are counted in. 0: measured
  /// along the guess, a hundred times the geometric mean of Quu's diagonal over knots and controls; another scale of
  /// the cost then changes nothing.
  double cost_unit = 1;
  double regularization_init =
      1;  ///< mu in Quu + mu cost_unit I; not used while the problem shows itself linear-quadratic
  double regularization_min = 1e-8;  ///< below it: none at all
  double regularization_max = 1e10;
  double regularization_factor = 4;  ///< grows by it, then by its square …, on failure; shrinks likewise on success
  RegularizationRule regularization_rule = RegularizationRule::kBoth;
  double regularization_by_step_init = -1;  ///< kBoth: of the second one; negative: regularization_init
  int line_search_steps = 10;               ///< alpha = 1, 1/2, 1/4 …
  double line_search_ratio = 1e-4;          ///< accepted when actual / expected change exceeds it (Armijo)
  int threads = 0;                          ///< 0: all cores
  bool second_order = false;                ///< fddp: the exact Hessian instead of its Gauss–Newton part
  double barrier_init = 0.1;  ///< fddp: weight of the logarithmic barrier before bounds, in units of the cost
  /// How A, B, C, D are had; sensors and substeps are set by the problem. Level 3, where it is used, takes forward
  /// differences, of converged steps: at a model's own tolerance the noise of its solver over the nudge, grown from knot
  /// to knot, may leave no descent direction at all.
  LinearizeOptions derivative{.centered = false};
  /// Derivatives at every so many knots and at the last two, A, B, C and D between them interpolated; 1: at each knot.
  /// An approximation, which the message of the result then says; costs, motions and final gains are exact.
  int derivative_every = 1;
  /// Derivatives of this model along the motions of the problem's (MakeSmoothModel; same state, control, sensors and
  /// context); null: the problem's own. Costs and motions are always the problem's.
  const mjModel* derivative_model = nullptr;
  /// Time for a whole solve [s]: when it is up, or an iteration like the fastest so far would not fit any more, the
  /// best iterate is returned (kTimeLimit). How far that is depends on the machine. iLQR alone keeps it; the others
  /// refuse it.
  double seconds = std::numeric_limits<double>::infinity();
  /// Gains and gradient about the motion that is returned; false: those with which it was found, one derivative
  /// cheaper, where nothing was left to gain those about it.
  bool final_policy = true;
  bool regularization_sweep = true;  ///< search over regularizations where steps are short
  bool long_steps = true;            ///< search beyond the whole step where it gains much
  /// Where a solve would converge, go on along a direction in which the cost curves down; where it would stall, with
  /// forces held at their limits. iLQR alone, without a time limit, with derivatives of the problem's own model.
  bool leave_saddles = true;
  /// Asked between steps and the derivatives of knots, from all threads, of multiple shooting before each iteration: true
  /// ends it as a callback's false does, with the gains that it has. For an iteration that takes long. Once is enough:
  /// what is made of several solves, side by side or one after the other, ends with all of them, and the callback is not
  /// called again.
  std::function<bool()> stop{};
};

/// Minimizes problem.cost by iLQR from the control guess U (nu × N; clamped to the limits).
///
/// Each iteration: derivatives along the trajectory (parallel over knots; kept after a search in vain), Riccati
/// recursion with box constraints, line search over alpha, as many at once as there are threads; where only short steps
/// are found, a search over regularizations too. The best iterate is returned whatever the status, bit for bit the same
/// at any thread count. A guess that cannot be simulated is tried at 1/4, 1/16, 1/64 and 0 of its size.
/// @throws Error for a malformed problem or option; Error{kUnsupported} for a model with a delayed actuator, by its
///         name; never for numerical failure.
/// Cost: an iteration is N derivatives, one backward pass of about N (4 ndx³ + 6 ndx² nu) flops and N·substeps steps
///       for each alpha that is tried. Memory: about N (4 ndx² + 4 ndx nu) numbers.
/// Source: plugin/optimizer/README.md, "iLQR"; Tassa, Mansard & Todorov 2014.
SolveResult SolveIlqr(const Problem& problem, ConstMatrixRef U, const IlqrOptions& options = {},
                      const IterationCallback& callback = {});

/// The same for one problem after another that differ in their start alone, as in a control loop: all memory is kept,
/// and from the second solve on an iteration allocates nothing (one matrix where the cost reads sensors).
///
/// Not thread-safe; it runs its own workers. model, cost and derivative_model must outlive it.
class IlqrSolver {
 public:
  /// @throws as SolveIlqr.
  explicit IlqrSolver(const Problem& problem, const IlqrOptions& options = {});
  ~IlqrSolver();
  IlqrSolver(IlqrSolver&&) noexcept;
  IlqrSolver& operator=(IlqrSolver&&) noexcept;

  const Problem& problem() const;

  /// Where the next solves start. @throws Error{kDimensionMismatch}; Error{kInvalidArgument} for a number that is not
  /// finite.
  void SetStart(ConstVectorRef x0, ConstVectorRef context);

  /// Bounds of the next solves. @throws as SolveIlqr.
  void SetLimits(int iterations, double seconds);

  /// How linear-quadratic problems are solved from now on, by default by SolveRiccati. What `solve` changes in
  /// problem().cost, such as multipliers, counts from then on. Without regularization_sweep and long_steps.
  using LqSolver = std::function<void(LqProblem* lq, double regularization, RiccatiResult* out)>;
  void SetLqSolver(LqSolver solve);

  /// From the controls U; the same as SolveIlqr, whatever was solved before. @return owned by this, until the next
  /// solve.
  const SolveResult& Solve(ConstMatrixRef U, const IterationCallback& callback = {});

  /// From a motion and its feedback, such as the last solution moved in time: the first rollout is that of
  /// u = u_bar + K (x ⊖ x_bar) from x0, or of u_bar alone where that has the lower cost. Regularization goes on
  /// from where the last solve left it. Its first iteration is made whatever the time: without one nothing would be
  /// gained on that motion.
  /// @param reference  not this solver's own result, which it writes over: a copy of it.
  /// @throws Error{kDimensionMismatch} for another N, or a matrix of another size; Error{kInvalidArgument} for a number
  ///         that is not finite, and for the solver's own result.
  const SolveResult& Resolve(const Trajectory& reference, const std::vector<MatrixXd>& K,
                             const IterationCallback& callback = {});

  /// The last result, moved out: the next solve allocates it anew.
  SolveResult TakeResult();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate

#endif  // COSTATE_ILQR_H_
