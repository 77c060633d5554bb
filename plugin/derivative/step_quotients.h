// Difference quotients of converged steps at halving sizes, and which of them lie on the smooth piece of the point,
// (J1).
#ifndef COSTATE_DERIVATIVE_STEP_QUOTIENTS_H_
#define COSTATE_DERIVATIVE_STEP_QUOTIENTS_H_

#include <vector>

#include "derivative/extrapolate.h"
#include "derivative/step_stencil.h"
#include "derivative/switch_set.h"
#include "parameter/stencils.h"

namespace costate {

/// The quotients of one column at a time, from large nudges to small ones. Rows are those of the next state's tangent
/// (ndx), then the sensors (ns) or accelerations (nv). The reference and the last resort of level 3 are made of them.
class StepQuotients {
 public:
  enum class Beside { kNothing, kSensors, kAcceleration };

  /// @param substeps  engine steps in the interval; 0: what is beside the state alone, by mj_forward
  /// @param sizes     of nudges, of which up to kExtraSizes more are taken
  StepQuotients(const mjModel* model, int substeps, Beside beside, int sizes);

  /// The model's values as they are now, and the point (mjSTATE_INTEGRATION) that `data` holds: its solution, its
  /// clamps, its switches. All steps are made in `data`.
  void Begin(const mjModel* model, mjData* data);

  /// The noise of each row by `samples` pairs of neighbours at the point and as many beside it.
  void MeasureNoise(int samples);

  struct Column {
    Side side = Side::kNone;         ///< kNone: strictly outside a clamp, all rows are zero
    double eps = 0;                  ///< the largest nudge
    bool corner = false;             ///< the point lies on an edge, to one side of which the nudges go …
    bool row = false;                ///< … and where a row of constraint ends
    int first = 0, end = 0;          ///< sizes eps / 2^k that are of use: first ≤ k < end
    const char* switched = nullptr;  ///< what kind of switch made larger ones useless
    bool wide = false;               ///< beyond the usual ones, (D7)
    bool smooth() const { return side == Side::kNone || end - first >= 2; }
  };

  /// Quotients from nudges of `eps_max` down, and from wider ones of an input that moves little, (D7).
  /// @param col  as in MoveColumn. @param sure  fraction of the largest number of each part of the rows (q', v', act',
  /// each sensor): once all are as sure as that, smaller nudges are left out; 0: never
  Column Differences(int col, double eps_max, double sure);

  /// All rows of the column of parameter k, by models moved along it, (D5). @pre Begin had the model of `stencils`.
  /// @return why some row has no derivative: too few sizes, slopes of both sides that differ; null: all have
  const char* Along(ParameterStencils* stencils, int k, VectorXd* out);

  /// One row of the column, extrapolated, with its error bar; that is infinite where too few sizes are of use: of a
  /// sensor also where it reads other contacts. @param corner  count a jump of the slope at the point, a bend beside
  /// it, and what the solver leaves, (J3)
  Extrapolation Row(const Column& column, int row, bool corner) const;

  /// The same row where a number has to be had: the quotient of the size that is nearest to `eps` where too few are of
  /// use.
  double Value(const Column& column, int row, double eps) const;

  const DifferenceModel& model() const { return local_; }
  const StepStencil& stencil() const { return stencil_; }
  const SwitchSet& base() const { return base_; }
  const VectorXd& beside() const { return sensors_; }  ///< the values at the point
  int rows() const { return dims_.ndx + ns_; }

 private:
  struct Table {
    MatrixXd quotients;       // (ndx + ns) × sizes
    MatrixXd bends;           // likewise: the quotient forwards less that backwards, of centred ones
    MatrixXd left;            // nv × sizes: of each dof's acceleration, what the solver has not found
    std::vector<int> chosen;  // of each sensor's number: the first size up to which it reads the contacts of the point
  };

  Column Differences(ParameterStencils* stencils, int k, ParameterStencils::Reach reach);
  Table& table(const Column& column) { return tables_[column.wide]; }
  const Table& table(const Column& column) const { return tables_[column.wide]; }
  int FirstOf(const Column& column, int row) const;
  double WideEps(const Column& column, int col, double effect) const;
  template <typename Place>
  bool Widen(const Place& place, const Column& usual, double sure);
  bool Agrees(const Column& usual, double sure) const;
  Extrapolation RowOf(const Column& column, int row, bool corner) const;
  Extrapolation Extrapolated(const Column& column, int row, double noise) const;
  void Fill(const Column& column, double nudge, VectorXd* values, VectorXd* errors) const;
  const char* WhyOpen(const Column& column) const;
  void Interval(VectorXd* next, VectorXd* sensors, SwitchSet* active);
  bool BothSides(const VectorXd& center, const VectorXd& direction, const SwitchSet& set);
  void AddNoise(const VectorXd& next, const VectorXd& sensors);
  VectorXd SmoothDirections();
  template <typename Place>
  int Quotient(const Place& place, const Column& column, int k);
  template <typename Place>
  void Ladder(const Place& place, double sure, Column* column);
  void Clear();
  bool Bends(int k, double eps) const;
  bool IsSure(const Column& column, double sure) const;
  double Corner(const MatrixXd& bends, int row, int first, int count, double noise) const;
  void NoteChoices(int k, Table* table);
  void NoteLeft(int k, MatrixXd* left);
  double Left(const Column& column, int row) const;

  int substeps_, sizes_;
  Beside beside_;
  DifferenceModel local_;
  StepStencil stencil_;
  const Dims& dims_;
  mjData* data_ = nullptr;
  int ns_;
  VectorXd next_, sensors_, noise_;  // at the point; noise of (dx', s). Sensors: whatever is beside the state
  VectorXd here_, here_sensors_;     // at the point, what nudges are compared with
  VectorXd plus_, minus_, plus_sensors_, minus_sensors_;
  SwitchSet base_, stencil_set_, piece_;
  const char* switched_ = nullptr;
  Table tables_[2];  // of the usual nudges, and of wider ones
  Column wide_;
  VectorXd half_;
  VectorXd residual_, stiffness_;
  VectorXd errors_, wider_, wider_errors_;
  std::vector<int> parts_;  // numbers of rows that have one scale
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_STEP_QUOTIENTS_H_
