#include "optimizer/step_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dense_product.h"
#include "core/simd.h"

namespace costate {
namespace {

// in which a row may differ from what its velocity's gives
constexpr double kRoundings = 8 * std::numeric_limits<double>::epsilon();

__attribute__((always_inline)) inline bool IsSame(double a, double b) {
  return std::abs(a - b) <= kRoundings * std::abs(b);
}

// weight ← 0 in rows that are not h times the row nv below; `one`: of those of A, on whose diagonal there is 1 more
COSTATE_SIMD void Compare(int nv, int n, int cols, bool one, double h, const double* M, double* weight) {
  for (int c = 0; c < cols; c++, M += n) {
    const bool diagonal = one && c < nv;
    const double before = diagonal ? weight[c] : 0;
    for (int i = 0; i < nv; i++) weight[i] = IsSame(M[i], h * M[nv + i]) ? weight[i] : 0;
    if (diagonal) weight[c] = IsSame(M[c], 1 + h * M[nv + c]) ? before : 0;
  }
}

// columns of `to` ← `own` rows of M, then those from row nv on with weight times the first nv added
COSTATE_SIMD void Fold(int nv, int n, int cols, int own, const int* row, const double* weight, const double* M,
                       double* to) {
  for (int c = 0; c < cols; c++, M += n) {
    for (int k = 0; k < own; k++) *to++ = M[row[k]];
    for (int i = 0; i < nv; i++) to[i] = M[nv + i] + weight[i] * M[i];
    for (int i = nv; i < n - nv; i++) to[i] = M[nv + i];
    to += n - nv;
  }
}

COSTATE_SIMD void AddTimes(int n, double factor, const double* x, double* to) {
  for (int i = 0; i < n; i++) to[i] += factor * x[i];
}

// lower triangle of `to` += M in rows and columns of integrated positions
COSTATE_SIMD void AddLower(int nv, int n, const double* weight, const double* M, double* to) {
  for (int c = 0; c < nv; c++, M += n, to += n) {
    if (weight[c] == 0) continue;
    for (int i = c; i < nv; i++) to[i] += weight[i] != 0 ? M[i] : 0;
  }
}

// the rows that stay: those of positions that are not integrated, then all others
void Keep(const MatrixXd& of, int nv, const std::vector<int>& own, MatrixXd* out) {
  const Eigen::Index rest = of.rows() - nv;
  out->resize(static_cast<Eigen::Index>(own.size()) + rest, of.cols());
  double* to = out->data();
  for (Eigen::Index c = 0; c < of.cols(); ++c) {
    const double* from = of.data() + c * of.rows();
    for (const int i : own) *to++ = from[i];
    to = std::copy_n(from + nv, rest, to);
  }
}

}  // namespace

void FindIntegratedRows(int nv, double h, LqKnot* knot) {
  const int n = static_cast<int>(knot->A.rows());
  if (nv == 0 || h == 0) return knot->integrated.resize(0);
  knot->integrated.setConstant(nv, h);
  Compare(nv, n, n, true, h, knot->A.data(), knot->integrated.data());
  Compare(nv, n, static_cast<int>(knot->B.cols()), false, h, knot->B.data(), knot->integrated.data());
}

StepRows::StepRows(const LqKnot& knot, StepRowsScratch* s)
    : knot_(knot), s_(s), nv_((knot.integrated.array() == 0).all() ? 0 : static_cast<int>(knot.integrated.size())) {
  if (nv_ == 0) return;
  s->own.clear();
  for (int i = 0; i < nv_; ++i) {
    if (knot.integrated[i] == 0) s->own.push_back(i);
  }
  Keep(knot.A, nv_, s->own, &s->A);
  Keep(knot.B, nv_, s->own, &s->B);
}

const VectorXd& StepRows::Fold(const VectorXd& x) {
  if (nv_ == 0) return x;
  s_->Lx.resize(s_->A.rows());
  for (Eigen::Index k = 0; k < own(); ++k) s_->Lx[k] = x[s_->own[static_cast<std::size_t>(k)]];
  s_->Lx.tail(x.size() - nv_) = x.tail(x.size() - nv_);
  s_->Lx.segment(own(), nv_) += knot_.integrated.cwiseProduct(x.head(nv_));
  return s_->Lx;
}

const MatrixXd& StepRows::FoldRows(const MatrixXd& V) {
  if (nv_ == 0) return V;
  s_->LV.resize(s_->A.rows(), V.cols());
  costate::Fold(nv_, static_cast<int>(V.rows()), static_cast<int>(V.cols()), static_cast<int>(own()), s_->own.data(),
                knot_.integrated.data(), V.data(), s_->LV.data());
  return s_->LV;
}

const MatrixXd& StepRows::FoldColumns(const MatrixXd& LV) {
  if (nv_ == 0) return LV;
  const Eigen::Index rows = LV.rows(), rest = LV.cols() - nv_;
  MatrixXd& G = s_->LVL;
  G.resize(rows, rows);
  for (Eigen::Index k = 0; k < own(); ++k) G.col(k) = LV.col(s_->own[static_cast<std::size_t>(k)]);
  std::copy_n(LV.data() + nv_ * rows, rest * rows, G.data() + own() * rows);
  for (Eigen::Index i = 0; i < nv_; ++i) {
    if (knot_.integrated[i] == 0) continue;
    AddTimes(static_cast<int>(rows), knot_.integrated[i], LV.data() + i * rows, G.data() + (own() + i) * rows);
  }
  return G;
}

void StepRows::AddPositions(const VectorXd& x, VectorXd* out) const {
  for (Eigen::Index i = 0; i < nv_; ++i) {
    if (knot_.integrated[i] != 0) (*out)[i] += x[i];
  }
}

void StepRows::SetPositions(const MatrixXd& LV, MatrixXd* out) const {
  out->setZero(LV.rows(), knot_.A.cols());
  for (Eigen::Index i = 0; i < nv_; ++i) {
    if (knot_.integrated[i] != 0) std::copy_n(LV.data() + i * LV.rows(), LV.rows(), out->data() + i * LV.rows());
  }
}

void StepRows::AddPositionsLower(const MatrixXd& V, const MatrixXd& LVE, std::vector<double>* packed,
                                 MatrixXd* out) const {
  if (nv_ == 0) return;
  auto positions = out->topLeftCorner(nv_, nv_);
  PackLeftTransposed(LVE.leftCols(nv_), packed).AddProductLower(s_->A.leftCols(nv_), positions);
  AddLower(nv_, static_cast<int>(V.rows()), knot_.integrated.data(), V.data(), out->data());
}

}  // namespace costate
