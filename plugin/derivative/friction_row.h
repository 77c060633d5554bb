// The rows that the noslip pass works on, and the normal forces that it holds: J, how J turns, y and f by (x, u).
// (N5)–(N7) of README.md.
#ifndef COSTATE_DERIVATIVE_FRICTION_ROW_H_
#define COSTATE_DERIVATIVE_FRICTION_ROW_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <string>
#include <vector>

#include "derivative/constraint.h"
#include "derivative/contact_jacobian.h"
#include "derivative/spatial.h"
#include "derivative/spatial_tendon.h"

namespace costate {

/// Rows that move come first, normal rows of elliptic contacts follow.
class FrictionRows {
 public:
  explicit FrictionRows(const mjModel* model);

  /// Which rows there are, their J, C = M⁻¹ Jᵀ and A = J C. @pre efc_* hold forces and states at acceleration a.
  void Find(const mjModel* model, const mjData* data, const double* a);

  int moving() const { return moving_; }
  int size() const { return static_cast<int>(row_.size()); }
  int efc(int i) const { return row_[i].efc; }
  int find(int efc) const { return index_[efc]; }  ///< of a row of efc; −1: neither moves nor matters
  double A(int i, int j) const { return A_(i, j); }
  double y(int i) const { return y_[i]; }
  const RowMatrix& C() const { return C_; }  ///< a row for each moving row

  /// How all of it changes. @return false with the first row without closed form in `missing`.
  bool Linearize(const mjModel* model, const mjData* data, const double* a, const ConstraintDerivative& constraint,
                 const TendonMoments* tendons, std::string* missing);

  /// dy and df of all rows along the columns of da (nv × columns). @param direct  the first 2 nv columns move q and v.
  void Slopes(const mjData* data, const RowMatrix& da, bool direct, RowMatrix* dy, RowMatrix* df) const;

  /// ∂A(i, j)/∂q (nv).
  const double* dA(int i, int j) const { return dA_.data() + (static_cast<std::size_t>(i) * moving_ + j) * nv_; }

  /// out (nv × columns) += ∂(C δ)/∂q at fixed δ (moving).
  void AddTurning(const mjModel* model, const mjData* data, const double* delta, RowMatrix* out);

 private:
  // dofs that J has entries for, and those that turn it
  struct Chain {
    std::vector<int> dof, turner;
  };
  struct Row {
    int efc = 0, chain = -1, contact = -1;
    Eigen::VectorXd J;
    RowMatrix turn;                // ∂J_n/∂q_k, dofs × turners
    Eigen::VectorXd direct;        // ∂y/∂q at fixed a beyond the turning, by turners
    Eigen::VectorXd reach;         // ∂φ/∂q of the contact, by turners
    double damping = 0, gain = 0;  // f changes by f · gain dφ with the impedance
  };
  // a motion Σ S C and its momentum, as the derivative of M needs them: (N6)
  struct Field {
    std::vector<Vec6> turned;    // by dof: S × V just before its group
    std::vector<Vec6> momentum;  // by body: Σ I V over the subtree
  };
  void AddRow(int efc, int contact);
  void MakeField(const mjModel* model, const mjData* data, const double* C, Field* field);
  double MassRate(const mjModel* model, int dof, const Field& a, const Field& b) const;
  void Contact(const mjModel* model, const mjData* data, int c, const ContactMotion& motion);
  void Turn(const Row& row, const double* C, double* out) const;

  int nv_ = 0, moving_ = 0;
  std::vector<Row> row_;
  std::vector<Chain> chain_;
  std::vector<int> index_;
  RowMatrix C_, A_;
  Eigen::VectorXd y_;
  std::vector<double> dA_;
  std::vector<Field> field_;
  std::vector<Vec6> velocity_;  // of bodies, while a field is made
  AxisGroups axes_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FRICTION_ROW_H_
