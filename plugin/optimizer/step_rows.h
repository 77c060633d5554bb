// Rows of a step that are integrated: where q' = q + h v', the row of a position is that of its velocity, times h, and
// one. README.md, (I7).
#ifndef COSTATE_OPTIMIZER_STEP_ROWS_H_
#define COSTATE_OPTIMIZER_STEP_ROWS_H_

#include <costate/lqr.h>

namespace costate {

/// LqKnot::integrated of A and B: h in each row i < nv of [A B] that is e_i + h times row nv + i to rounding, else 0.
void FindIntegratedRows(int nv, double h, LqKnot* knot);

/// A knot's [A B] without those rows:
///
///   [A B] = [E 0] + L [Â B̂]
class StepRows {
 public:
  /// @param s  memory of what is found; used until this is found for another knot.
  StepRows(const LqKnot& knot, StepRowsScratch* s);

  const MatrixXd& A() const { return nv_ > 0 ? s_->A : knot_.A; }  ///< Â, r × ndx; A where no row is integrated
  const MatrixXd& B() const { return nv_ > 0 ? s_->B : knot_.B; }  ///< B̂

  const VectorXd& Fold(const VectorXd& x);          ///< Lᵀx
  const MatrixXd& FoldRows(const MatrixXd& V);      ///< F = LᵀV
  const MatrixXd& FoldColumns(const MatrixXd& LV);  ///< G = LᵀV L of FoldRows's

  void AddPositions(const VectorXd& x, VectorXd* out) const;   ///< out += Eᵀx
  void SetPositions(const MatrixXd& LV, MatrixXd* out) const;  ///< out = LᵀV E
  /// The lower triangle of out += Eᵀ V E + (LᵀV E)ᵀÂ, which is wholly among the columns of positions; the upper one is
  /// undefined there. @param LVE  SetPositions's.
  void AddPositionsLower(const MatrixXd& V, const MatrixXd& LVE, std::vector<double>* packed, MatrixXd* out) const;

 private:
  Eigen::Index own() const { return static_cast<Eigen::Index>(s_->own.size()); }

  const LqKnot& knot_;
  StepRowsScratch* s_;
  int nv_ = 0;  // 0: no row is integrated
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_STEP_ROWS_H_
