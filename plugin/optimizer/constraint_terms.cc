#include "optimizer/constraint_terms.h"

#include <algorithm>

#include "core/difference_row.h"

namespace costate {

ResidualConstraint::ResidualConstraint(const mjModel* model, ConstraintInfo info, ResidualTerm term)
    : Constraint(std::move(info)), residual_(model, {std::move(term)}, CostScale::kSum) {}

PowerConstraint::PowerConstraint(ConstraintInfo info, std::vector<int> force, std::vector<int> velocity)
    : Constraint(std::move(info)), force_(std::move(force)), velocity_(std::move(velocity)) {}

void PowerConstraint::MarkSensors(std::vector<char>* read) const {
  for (const std::vector<int>* entries : {&force_, &velocity_}) {
    for (const int entry : *entries) (*read)[entry] = 1;
  }
}

void PowerConstraint::Value(const KnotView& knot, VectorXd* c) const {
  c->resize(size());
  for (std::size_t i = 0; i < force_.size(); ++i) {
    (*c)[static_cast<Eigen::Index>(i)] = knot.s[force_[i]] * knot.s[velocity_[i]];
  }
}

void PowerConstraint::Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J,
                               MatrixXd* Ju) const {
  // d(f v) = v df + f dv
  const bool control = knot.t < knot.N;
  J->resize(size(), C.cols());
  Ju->resize(size(), control ? D.cols() : 0);
  for (std::size_t k = 0; k < force_.size(); ++k) {
    const Eigen::Index i = static_cast<Eigen::Index>(k);
    const int a = force_[k], b = velocity_[k];
    J->row(i) = knot.s[b] * C.row(a) + knot.s[a] * C.row(b);
    if (control) Ju->row(i) = knot.s[b] * D.row(a) + knot.s[a] * D.row(b);
  }
}

void PowerConstraint::PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const {
  for (std::size_t k = 0; k < force_.size(); ++k) {
    const Eigen::Index i = static_cast<Eigen::Index>(k);
    out->s[force_[k]] += g[i] * knot.s[velocity_[k]];
    out->s[velocity_[k]] += g[i] * knot.s[force_[k]];
  }
}

BallAngleConstraint::BallAngleConstraint(ConstraintInfo info, std::vector<Ball> balls)
    : Constraint(std::move(info)), balls_(std::move(balls)) {
  for (const Ball& ball : balls_) columns_ = std::max(columns_, ball.dof + 3);
}

void BallAngleConstraint::Value(const KnotView& knot, VectorXd* c) const {
  c->resize(size());
  for (std::size_t i = 0; i < balls_.size(); ++i) {
    double rotation[3];
    mju_quat2Vel(rotation, knot.x.data() + balls_[i].qpos, 1);
    (*c)[static_cast<Eigen::Index>(i)] = mju_norm3(rotation);
  }
}

void BallAngleConstraint::Jacobian(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, MatrixXd* J,
                                   MatrixXd* Ju) const {
  // d angle = axis · ω: a small turn about another axis does not change the angle; at angle 0 there is no axis
  J->setZero(size(), columns_);
  Ju->resize(size(), 0);
  for (std::size_t i = 0; i < balls_.size(); ++i) {
    double rotation[3];
    mju_quat2Vel(rotation, knot.x.data() + balls_[i].qpos, 1);
    if (mju_normalize3(rotation) < mjMINVAL) continue;
    for (int k = 0; k < 3; ++k) (*J)(static_cast<Eigen::Index>(i), balls_[i].dof + k) = rotation[k];
  }
}

PeriodicConstraint::PeriodicConstraint(const mjModel* model, ConstraintInfo info, std::vector<int> entries)
    : Constraint(std::move(info)), model_(model), entries_(std::move(entries)) {}

void PeriodicConstraint::Value(const KnotView& knot, VectorXd* c) const {
  const Dims dims(model_);
  const VectorXd dx = Difference(model_, knot.x, Eigen::Map<const VectorXd>(knot.start, dims.nx));
  c->resize(size());
  for (int i = 0; i < size(); ++i) (*c)[i] = dx[entries_[static_cast<std::size_t>(i)]];
}

void PeriodicConstraint::Slopes(const KnotView& knot, bool of_start, MatrixXd* J) const {
  J->setZero(size(), Dims(model_).ndx);
  for (int i = 0; i < size(); ++i) {
    const DifferenceRow row =
        RowOfDifference(model_, knot.x.data(), knot.start, entries_[static_cast<std::size_t>(i)], of_start);
    J->row(i).segment(row.first, row.size) = row.value.head(row.size).transpose();
  }
}

void PeriodicConstraint::Jacobian(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, MatrixXd* J,
                                  MatrixXd* Ju) const {
  Slopes(knot, false, J);
  Ju->resize(size(), 0);
}

void PeriodicConstraint::StartJacobian(const KnotView& knot, MatrixXd* J0) const { Slopes(knot, true, J0); }

}  // namespace costate
