// Multiple shooting: linearize about states that need not be a motion, solve the linear-quadratic problem with gaps,
// search along its policy. README.md, "Multiple shooting".
#ifndef COSTATE_OPTIMIZER_FDDP_H_
#define COSTATE_OPTIMIZER_FDDP_H_

#include <costate/fddp.h>

#include <memory>
#include <string>
#include <vector>

#include "core/extremes.h"
#include "optimizer/control_barrier.h"
#include "optimizer/filter.h"
#include "optimizer/line_search.h"
#include "optimizer/second_order.h"

namespace costate {

// states with controls, what is missing between them, and what they cost
struct FddpIterate {
  Trajectory trajectory;
  MatrixXd gaps;
  double cost = kInf;
  double Gaps() const { return gaps.cwiseAbs().sum(); }
};

/// @throws Error as SolveFddp.
void CheckFddp(const Problem& problem, ConstMatrixRef X, ConstMatrixRef U, const IlqrOptions& options);

class Fddp {
 public:
  Fddp(const Problem& problem, const IlqrOptions& options);
  /// @param state  of a solve that goes on, or null: costates and barrier.
  SolveResult Run(ConstMatrixRef X, ConstMatrixRef U, const IterationCallback& callback,
                  const SolveState* state = nullptr);

  /// Goes on from where the last solve ended, its multipliers and barrier with it, after the cost has changed a little.
  SolveResult Resume(int iterations, double tolerance, const IterationCallback& callback);

 private:
  static constexpr double kFirstShift = 1e-4, kShiftGrowth = 8;  // of the Hessian where it is indefinite
  static constexpr double kPolishRatio =
      0.3;  // of their promise: what steps without barrier keep, else the barrier is back
  static constexpr int kStalledIterations = 8;  // that gain less than a tolerance together

  enum class Mode {
    kPlain,  // no bound matters
    kBarrier,
    kPolish,  // bounds by the box-constrained recursion, from a barrier's solution; back to it when a step disappoints
  };
  struct Direction {
    bool ok = false;
    double slope = 0, curvature = 0;  // of the objective along the full step
    double Expected(double alpha) const { return alpha * slope + 0.5 * alpha * alpha * curvature; }
  };

  bool Start(ConstMatrixRef X, ConstMatrixRef U);
  bool Follow(ConstMatrixRef X, ConstMatrixRef U);
  void Loop(const IterationCallback& callback);
  bool Linearize(IterationRecord* record);
  int LinearizeKnots();
  void AddCurvature();
  void KeepBase();
  void Shape(double shift);
  void SetBounds();
  bool FindDirection(IterationRecord* record);
  void Push();
  bool LeavesBounds() const;
  bool StartBarrier();
  void AdaptBarrier();
  bool ShrinkBarrier();
  void Judge(Mode mode, double mu, double objective);
  bool Creeps();
  bool Converged(const IterationRecord& record);
  double Search(int steps);
  bool TryPolish(IterationRecord* record);
  void Accept(double alpha);
  void Remember();
  void TakeState(const SolveState& state);
  SolveState State() const;
  void Finish();
  SolveResult Solve(const IterationCallback& callback);
  void End(SolveStatus status, std::string message);
  std::string GapText(const MatrixXd& gaps) const;
  double Objective(const Trajectory& trajectory, double cost) const {
    return mode_ == Mode::kBarrier && std::isfinite(cost) ? cost + barrier_.Value(trajectory.U) : cost;
  }

  Problem problem_;
  IlqrOptions options_;
  Simulator simulator_;
  ControlBarrier barrier_;
  Filter filter_;
  std::unique_ptr<SecondOrder> second_order_;
  int N_;
  bool bounded_ = false;
  double unit_ = 1;  // of the cost; 0: not measured yet

  Mode mode_ = Mode::kPlain;
  FddpIterate now_, saved_, best_;
  ControlBarrier saved_barrier_;
  bool linearized_ = false;

  LqProblem lq_;
  RiccatiResult riccati_;
  std::vector<CostExpansion> expansions_;  // one a worker
  std::vector<StepStatus> failed_;
  std::vector<MatrixXd> C_, D_, hessians_;  // for second-order terms
  MatrixXd lambda_, next_lambda_;  // multipliers of the last step's problem (ndx × (N+1)); zero before the first
  MatrixXd lxx_diagonal_, luu_diagonal_, lu_;  // before barrier and shift
  VectorXd control_weights_;                   // of a shift: LqProblem::unit⁻²

  Direction direction_;
  MatrixXd dx_, du_;
  double shift_ = 0, last_shift_ = 0, floor_ = 0;  // in units of the cost
  double alpha_ = 0, expected_ = kInf;             // of the last step
  int slow_ = 0;                                   // iterations that together …
  double gained_ = 0;                              // … took no more than this off the objective
  Policy policy_;
  MatrixXd lower_, upper_;
  std::vector<Trajectory> candidates_;  // one a thread
  std::vector<double> costs_;
  Trajectory next_;
  double next_cost_ = 0;
  SolveResult result_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FDDP_H_
