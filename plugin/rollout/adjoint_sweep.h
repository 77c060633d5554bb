// One gradient on one thread: forwards between checkpoints, backwards knot by knot.
#ifndef COSTATE_ROLLOUT_ADJOINT_SWEEP_H_
#define COSTATE_ROLLOUT_ADJOINT_SWEEP_H_

#include <costate/adjoint.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace costate {

/// What all sweeps of an Adjoint share.
struct AdjointSetting {
  /// @throws Error{kDimensionMismatch, kInvalidArgument, kUnsupported}.
  AdjointSetting(const mjModel* model, ConstVectorRef context, int substeps);

  const mjModel* model;
  Dims dims;
  VectorXd context;
  int substeps;
  int moving_size;  ///< of a moving context
  int warm_start;   ///< where the moving context holds it
  bool delays;      ///< substeps are gone through one by one: controls act later
  bool warm_step;   ///< the warm start of a knot is the solution of the step before
};

/// What a thread keeps from one gradient to the next, made when first used.
struct AdjointWorker {
  DataPtr data;
  Level level = Level::kBest;
  const mjModel* derivative_model = nullptr;
  double smoothing = 0;
  std::unique_ptr<Linearizer> products;
  StepVjp vjp;
  StepDerivative full;
  KnotGradient slope;
  VectorXd none;
  MatrixXd kept;                       // columns (x; moving context; s where the loss reads it)
  std::vector<char> sensed;            // is s of a column there?
  MatrixXd substep_x, substep_moving;  // columns, with delays alone
  MatrixXd samples;
  VectorXd between;
  VectorXd x, x_next, point, moving, solved, s, no_control, lambda, seen, sigma;
};

struct AdjointSweep {
  AdjointSweep(const AdjointSetting& setting, AdjointWorker* worker, ConstMatrixRef controls, const Loss& loss_,
               const AdjointOptions& options_, RolloutGradient* result)
      : a(setting),
        w(*worker),
        U(controls),
        loss(loss_),
        options(options_),
        out(result),
        N(static_cast<int>(controls.cols())) {}

  void Run(ConstVectorRef x0);

  // the motion and what is kept of it: adjoint_sweep.cc
  int Slots() const;
  int Sensors() const { return loss.NeedsSensors() ? a.dims.ns : 0; }
  void Keep(int slot);
  void KeepSensors();
  bool FindSensors(int slot);
  void Restart(int slot, int knot);
  bool AdvanceTo(int knot);
  bool Fail(StepStatus status, int knot);

  // the way back: adjoint_pull.cc
  Linearizer* Products();
  bool Terminal();
  void CheckSlope(const char* by, const KnotView& knot, const VectorXd& slope, Eigen::Index size,
                  std::vector<std::string> (*names)(const mjModel*)) const;
  bool Slopes(int knot, ConstVectorRef x, ConstVectorRef u, bool sensed);
  bool Pull(int knot, int slot);
  bool PullFeedback(int knot, double time, ConstVectorRef moving);
  bool PullSubsteps(int knot, const VectorXd& moving, ConstVectorRef sigma);
  bool PullStep(int knot, ConstVectorRef x, ConstVectorRef sigma);
  void AddInputSlopes(int knot);
  void AddSensorSlopes(int knot, ConstVectorRef moving);
  void PullHistory(int knot, int substep, ConstVectorRef moving);
  void LookCloser(int knot, const VectorXd& moving);
  void Limit(int knot);

  KnotView View(int t, double time, ConstVectorRef x, ConstVectorRef u) const {
    return {.t = t,
            .N = N,
            .time = time,
            .dt = a.substeps * a.model->opt.timestep,
            .x = x,
            .u = u,
            .s = w.s,
            .start = first};
  }

  const AdjointSetting& a;
  AdjointWorker& w;
  ConstMatrixRef U;
  const Loss& loss;
  const AdjointOptions& options;
  RolloutGradient* out;
  const int N;
  const double* first = nullptr;  // x_0
  int at = 0;                     // the knot that data stands at, with w.x
  int slot = -1;                  // what is kept of this very knot; −1: nothing
  int reached = 0;                // knots whose loss is counted
  bool terminal = false;
  std::uint64_t active = 0;
  double start = 0;  // time of knot 0
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_ADJOINT_SWEEP_H_
