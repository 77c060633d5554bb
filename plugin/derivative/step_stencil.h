// A step evaluated about a point: the one place where an input is nudged. Level 3 and the reference are made of it.
#ifndef COSTATE_DERIVATIVE_STEP_STENCIL_H_
#define COSTATE_DERIVATIVE_STEP_STENCIL_H_

#include <costate/derivative.h>

#include <array>
#include <vector>

#include "derivative/servo.h"

namespace costate {

/// Where the nudges of one column go. One-sided ones stay inside a clamp at whose edge the point lies.
enum class Side {
  kCentered,
  kForward,
  kBackward,
  kNone,  ///< the input is strictly outside its clamp: the column is zero
};

/// Moves column `col` of `data` by eps, q ⊕ eps e_col, else a number: tangent (ndx), controls (nu), and behind them
/// applied forces, qfrc (nv) and xfrc (6 nbody). @param scratch  becomes (nv).
void MoveColumn(const mjModel* model, const Dims& dims, int col, double eps, VectorXd* scratch, mjData* data);

/// The points between the steps of an interval. Its motion is the engine's, whose solver may end before it has
/// converged: there the next step is linearized, (D3). A converged step ends beside them and is moved there; its nudges
/// go along.
class Midpoints {
 public:
  explicit Midpoints(const mjModel* model);

  /// Where `substeps` steps of `engine` get to from what `data` holds, which is left anywhere.
  void Capture(const mjModel* engine, mjData* data, int substeps);

  /// How far the converged steps from each of them end beside the next. `data` holds the same point, and is left
  /// anywhere.
  void Compare(const mjModel* converged, mjData* data);

  /// Moves `data` after converged step k, the first being 0, if another follows.
  void GoOn(const mjModel* model, int k, mjData* data) const;

  void Clear() { moves_.clear(); }

 private:
  int signature_, qpos_;                  // what is moved, and where in it qpos begins
  std::vector<VectorXd> points_, moves_;  // of each step but the last; turns are quaternions from the left
  mutable VectorXd end_, next_;
};

/// A shallow copy of a model with what differences need changed: no automatic reset, no sleep, solver converged, clamps
/// of controls and activations on one branch. The arrays of clamps are its own; everything else is the caller's.
class DifferenceModel {
 public:
  explicit DifferenceModel(const mjModel* model) { Refresh(model, false); }
  DifferenceModel(const DifferenceModel&) = delete;
  DifferenceModel& operator=(const DifferenceModel&) = delete;

  /// Copies `model` again. `converge`: solver on until its cost falls no more, warm start on.
  void Refresh(const mjModel* model, bool converge);

  /// Switches the sensors off where nothing else depends on them (delays keep state in them, plugins that also move
  /// may).
  void SkipSensors();

  /// Puts each activation limit on the branch that the step about `data` takes, so that no nudge crosses it: without
  /// limit where the unclamped next activation is within the limits (the interior slope at an edge), constant outside.
  /// A limit that takes several branches (over substeps, or over an actuator's entries) stays as it is.
  /// `data` holds the point and is left anywhere.
  void SelectActivationBranches(mjData* data, int substeps, const Midpoints* midpoints = nullptr);

  /// The same branches after a Refresh to a model with other numbers.
  void KeepActivationBranches();

  /// Clamp of a control by the engine: ctrlrange where limited, and [0, 1] inside muscles. ±infinity where there is
  /// none.
  void ControlRange(int control, double* lower, double* upper) const;

  /// (D6) PGS on until what a sweep changes is rounding of the forces that `data` has. Others stay as they are.
  void SearchToRounding(const mjData* data);

  const mjModel* get() const { return &local_; }

 private:
  enum Branch : int { kUnknown, kBelow, kWithin, kAbove, kMixed };
  void NoteBranch(int actuator, const mjtNum* act);

  mjModel local_;
  using Flags = Eigen::Array<mjtBool, Eigen::Dynamic, 1>;
  Flags ctrl_limited_, act_limited_, was_limited_;
  VectorXd ctrl_range_, act_range_;
  std::vector<Branch> branch_;
  VectorXd point_;
};

/// Evaluates f with one column nudged, numbered as in MoveColumn, about a captured point, over one or more engine
/// steps.
class StepStencil {
 public:
  explicit StepStencil(const mjModel* model);

  /// Takes the point (mjSTATE_INTEGRATION) that `data` holds.
  void Capture(const mjModel* model, const mjData* data);

  /// As Capture, and puts the converged acceleration at the point in the place of the warm start. Integrals that are
  /// held at their limits are nudged beyond from now on.
  void CaptureConverged(DifferenceModel* model, mjData* data);

  /// Of an interval of several steps, how far each delayed control may go until what a step reads of it comes to an edge
  /// of its clamp, (D1). `data` is left anywhere. @pre Capture
  void CaptureReads(const DifferenceModel& model, int substeps, mjData* data);

  /// As CaptureConverged for an interval of several steps, which goes through the points of `engine`, the model as it
  /// is; and CaptureReads.
  void CaptureInterval(const mjModel* engine, int substeps, DifferenceModel* model, mjData* data);

  /// Puts the point into `data`; `col` < 0: as it is; else nudged by eps along column `col`.
  void Restore(const mjModel* model, mjData* data, int col, double eps) const;

  /// Puts the point into `data`, positions and velocities nudged by eps times `direction` (2 nv).
  void RestoreAlong(const mjModel* model, mjData* data, ConstVectorRef direction, double eps) const;

  /// Restores and steps: next x (nx) and, when not empty, the sensors (ns) of the first substep.
  void Step(const mjModel* model, mjData* data, int col, double eps, int substeps, VectorRef next,
            VectorRef sensors) const;

  /// Restores and evaluates the sensors (ns) by mj_forward.
  void Forward(const mjModel* model, mjData* data, int col, double eps, VectorRef sensors) const;

  /// Side and size of the nudges of a column: inward at the edge of a clamp, smaller where the range is narrow.
  Side ColumnSide(const DifferenceModel& model, int col, bool centered, double* eps) const;

  /// What a control or an activation is measured by: half of its range, where it has none its value, at least 1. 1 of
  /// all else.
  double Worth(const DifferenceModel& model, int col) const;

  /// Does the captured point lie on an edge of the range of a control or of a muscle's activation?
  bool OnEdge(const DifferenceModel& model, int col) const;

  const Dims& dims() const { return dims_; }
  const Midpoints& midpoints() const { return midpoints_; }

 private:
  bool Range(const DifferenceModel& model, int col, double* value, double* lower, double* upper) const;
  void NoteReads(const DifferenceModel& model, int actuator, double start, double time, mjData* data);

  Dims dims_;
  VectorXd point_;          // mjSTATE_INTEGRATION
  mutable VectorXd nudge_;  // nv
  Midpoints midpoints_;
  std::vector<ActivationSide> sides_;         // empty: not known
  std::vector<std::array<double, 2>> reach_;  // of controls, by their delays: none of the others
  std::vector<char> delayed_;                 // controls
  std::vector<int> muscle_act_;  // activation entries of muscles: clipped to [0, 1] inside the engine's dynamics
  int act_address_ = 0, ctrl_address_ = 0, warmstart_address_ = 0;  // in point_
};

/// (x1 ⊖ x0) / h into a column of A and B. All of size nx or ndx.
void StateQuotient(const mjModel* model, const Dims& dims, ConstVectorRef x1, ConstVectorRef x0, double h,
                   VectorRef column);

/// Likewise, with turns to the last digit of their quaternions: the engine's end at 1e-15.
void FineStateQuotient(const mjModel* model, const Dims& dims, ConstVectorRef x1, ConstVectorRef x0, double h,
                       VectorRef column);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_STEP_STENCIL_H_
