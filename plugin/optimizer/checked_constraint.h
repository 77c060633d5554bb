// What a constraint says at a knot, checked: it may be a user's own, and its sizes are used without a look.
#ifndef COSTATE_OPTIMIZER_CHECKED_CONSTRAINT_H_
#define COSTATE_OPTIMIZER_CHECKED_CONSTRAINT_H_

#include <costate/constraint.h>
#include <fmt/format.h>

namespace costate {

/// "constraint 'reach' at knot 7: its Jacobian by x".
[[noreturn]] inline void RefuseConstraint(const Constraint& constraint, const KnotView& knot, ErrorCode code,
                                          const std::string& what) {
  throw Error(code, fmt::format("constraint '{}' at knot {}: {}", constraint.info().name, knot.t, what));
}

/// c, which has its size before the call. @throws Error{kDimensionMismatch} where it has another one afterwards.
inline void ConstraintValue(const Constraint& constraint, const KnotView& knot, VectorXd* c) {
  c->resize(constraint.size());
  constraint.Value(knot, c);
  if (c->size() == constraint.size()) return;
  RefuseConstraint(constraint, knot, ErrorCode::kDimensionMismatch,
                   fmt::format("its value has {} entries, it has bounds for {}", c->size(), constraint.size()));
}

/// J and Ju. @throws Error{kDimensionMismatch} for another size; Error{kInvalidArgument} for what is not finite.
inline void ConstraintJacobian(const Constraint& constraint, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D,
                               Eigen::Index ndx, MatrixXd* J, MatrixXd* Ju) {
  constraint.Jacobian(knot, C, D, J, Ju);
  const auto check = [&](const char* by, const MatrixXd& slopes, bool cols, const std::string& expected) {
    if (slopes.rows() != constraint.size() || !cols)
      RefuseConstraint(constraint, knot, ErrorCode::kDimensionMismatch,
                       fmt::format("its Jacobian by {} is {} x {}, expected {} x {}", by, slopes.rows(), slopes.cols(),
                                   constraint.size(), expected));
    if (!slopes.allFinite())
      RefuseConstraint(constraint, knot, ErrorCode::kInvalidArgument,
                       fmt::format("its Jacobian by {} is not finite", by));
  };
  check("x", *J, J->cols() <= ndx, fmt::format("{}", ndx));
  if (Ju->cols() > 0)
    check("u", *Ju, knot.t == knot.N || Ju->cols() == knot.u.size(), fmt::format("{}", knot.u.size()));
}

/// V and Vu of its curvature, none or both. @throws as ConstraintJacobian.
inline void ConstraintCurvature(const Constraint& constraint, const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D,
                                ConstVectorRef g, Eigen::Index ndx, MatrixXd* V, MatrixXd* Vu) {
  constraint.Curvature(knot, C, D, g, V, Vu);
  const auto check = [&](const char* by, const MatrixXd& rows, bool cols, Eigen::Index expected) {
    if (rows.rows() != V->rows() || !cols)
      RefuseConstraint(constraint, knot, ErrorCode::kDimensionMismatch,
                       fmt::format("its curvature by {} is {} x {}, expected {} x {}", by, rows.rows(), rows.cols(),
                                   V->rows(), expected));
    if (!rows.allFinite())
      RefuseConstraint(constraint, knot, ErrorCode::kInvalidArgument,
                       fmt::format("its curvature by {} is not finite", by));
  };
  if (V->rows() == 0) return;
  check("x", *V, V->cols() <= ndx, ndx);
  if (Vu->cols() > 0) check("u", *Vu, knot.t == knot.N || Vu->cols() == knot.u.size(), knot.u.size());
}

/// J0, where it reads the start. @throws as ConstraintJacobian.
inline void ConstraintStartJacobian(const Constraint& constraint, const KnotView& knot, Eigen::Index ndx,
                                    MatrixXd* J0) {
  constraint.StartJacobian(knot, J0);
  if (J0->rows() != constraint.size() || J0->cols() != ndx)
    RefuseConstraint(constraint, knot, ErrorCode::kDimensionMismatch,
                     fmt::format("its Jacobian by the start is {} x {}, expected {} x {}", J0->rows(), J0->cols(),
                                 constraint.size(), ndx));
  if (!J0->allFinite())
    RefuseConstraint(constraint, knot, ErrorCode::kInvalidArgument, "its Jacobian by the start is not finite");
}

/// out += (∂c)ᵀ g. @throws Error{kDimensionMismatch} where a slope has another size afterwards.
inline void PullBackConstraint(const Constraint& constraint, const KnotView& knot, ConstVectorRef g,
                               KnotGradient* out) {
  const Eigen::Index x = out->x.size(), u = out->u.size(), s = out->s.size();
  constraint.PullBack(knot, g, out);
  if (out->x.size() == x && out->u.size() == u && out->s.size() == s) return;
  RefuseConstraint(constraint, knot, ErrorCode::kDimensionMismatch,
                   fmt::format("its pull-back has slopes of {}, {}, {} entries by x, u, s, it was given {}, {}, {}",
                               out->x.size(), out->u.size(), out->s.size(), x, u, s));
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CHECKED_CONSTRAINT_H_
