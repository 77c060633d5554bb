#include "optimizer/box_qp.h"

#include <Eigen/Cholesky>

#include <cmath>

#include "core/dense_product.h"

namespace costate {
namespace {

constexpr int kIterations = 20;  // of projected steps, each one factorization at most; a handful is usual
constexpr int kSetChanges = 20;  // a variable, of the active set behind them
constexpr double kArmijo = 0.1;  // fraction of the linear decrease that a projected step must reach; Tassa et al. 2014
constexpr double kMinStep = 1e-6;            // shorter ones along the projected path lead nowhere
constexpr double kGradientRounding = 1e-15;  // of the terms of a gradient

// squared distance to the face's minimum in the norm of H, relative to the terms of the objective; without it, rounding
// would clamp and release a variable whose multiplier is zero for ever
constexpr double kDecrement = 1e-24;

// a pivot below this part of its diagonal entry is rounding
constexpr double kPivot = 1e-14;

double Objective(ConstMatrixRef H, ConstVectorRef g, const VectorXd& x, VectorXd* Hx) {
  Hx->noalias() = H * x;
  return x.dot(0.5 * *Hx + g);
}

// factor of H with the rows and columns of clamped variables replaced by those of the identity
bool FactorFree(ConstMatrixRef H, const std::vector<char>& clamped, MatrixXd* L) {
  *L = H;
  for (Eigen::Index i = 0; i < H.rows(); ++i) {
    if (!clamped[i]) continue;
    L->row(i).setZero();
    L->col(i).setZero();
    (*L)(i, i) = 1;
  }
  return FactorInPlace(L);
}

// at a bound and pushed outward
void FindClamped(const VectorXd& gradient, ConstVectorRef x, ConstVectorRef lower, ConstVectorRef upper,
                 std::vector<char>* clamped) {
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    (*clamped)[i] =
        (x[i] <= lower[i] && gradient[i] > 0) || (x[i] >= upper[i] && gradient[i] < 0) || lower[i] == upper[i];
  }
}

// x ← clamp(x + step·direction) for the first step of 1, ½, ¼ … that decreases enough; false where none does
bool ProjectedSearch(ConstMatrixRef H, ConstVectorRef g, ConstVectorRef lower, ConstVectorRef upper, double slope,
                     VectorRef x, VectorXd* Hx, BoxQpScratch* s) {
  s->trial = x;
  const double start = Objective(H, g, s->trial, Hx);
  for (double step = 1; step > kMinStep; step /= 2) {
    s->trial = (x + step * s->direction).cwiseMax(lower).cwiseMin(upper);
    if (Objective(H, g, s->trial, Hx) - start <= kArmijo * step * slope) {
      x = s->trial;
      return true;
    }
  }
  return false;
}

// gradient = g + H x, 0 where it is rounding alone
void FindGradient(ConstMatrixRef H, ConstVectorRef g, ConstVectorRef x, VectorXd* gradient) {
  gradient->noalias() = H * x;
  *gradient += g;
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double size = std::abs(g[i]) + H.row(i).cwiseAbs().dot(x.cwiseAbs().transpose());
    if (std::abs((*gradient)[i]) <= kGradientRounding * size) (*gradient)[i] = 0;
  }
}

// x += step·direction with the longest step up to 1 inside the box; the variable that stops it is clamped. true: a step
// of 1
bool StepToBound(ConstVectorRef lower, ConstVectorRef upper, VectorRef x, BoxQpScratch* s) {
  double step = 1;
  Eigen::Index stop = -1;
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double d = s->direction[i], room = d < 0 ? lower[i] - x[i] : upper[i] - x[i];
    if (s->clamped[i] || std::abs(step * d) <= std::abs(room)) continue;
    step = room / d;
    stop = i;
  }
  x = (x + step * s->direction).cwiseMax(lower).cwiseMin(upper);
  if (stop < 0) return true;
  x[stop] = s->direction[stop] < 0 ? lower[stop] : upper[stop];
  s->clamped[stop] = 1;
  return false;
}

// the same minimum by an active set that one variable at a time enters or leaves. Projected steps do not reach it where
// curvatures are far apart: directions of little curvature lead through many bounds at once.
BoxQpStatus SolveByActiveSet(ConstMatrixRef H, ConstVectorRef g, ConstVectorRef lower, ConstVectorRef upper,
                             VectorRef x, BoxQpScratch* s) {
  FindGradient(H, g, x, &s->gradient);
  FindClamped(s->gradient, x, lower, upper, &s->clamped);
  for (Eigen::Index change = 0; change < kSetChanges * (x.size() + 1); ++change) {
    if (!FactorFree(H, s->clamped, &s->L)) return BoxQpStatus::kIndefinite;
    s->direction = -s->gradient;
    SolveFree(s, s->direction);
    const bool whole = StepToBound(lower, upper, x, s);
    FindGradient(H, g, x, &s->gradient);
    if (!whole) continue;

    // the one that gains most by leaving its bound
    Eigen::Index leaves = -1;
    double most = 0;
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      const bool inward = (x[i] <= lower[i] && s->gradient[i] < 0) || (x[i] >= upper[i] && s->gradient[i] > 0);
      const double gain = s->gradient[i] * s->gradient[i] / H(i, i);
      if (!s->clamped[i] || !inward || lower[i] == upper[i] || !(gain > most)) continue;
      leaves = i;
      most = gain;
    }
    if (leaves < 0) return BoxQpStatus::kSolved;
    s->clamped[leaves] = 0;
  }
  return FactorFree(H, s->clamped, &s->L) ? BoxQpStatus::kIterationLimit : BoxQpStatus::kIndefinite;
}

}  // namespace

bool FactorInPlace(MatrixXd* S) {
  // own diagonal first: the factor overwrites it
  for (Eigen::Index i = 0; i < S->rows(); ++i) {
    if (!((*S)(i, i) > 0) || !std::isfinite((*S)(i, i))) return false;
  }

  // pivots relative to the diagonal entry, so that the units of the variables do not matter; Σ_j L_ij² = S_ii
  if (Eigen::LLT<Eigen::Ref<MatrixXd>> llt(*S); llt.info() != Eigen::Success) return false;
  for (Eigen::Index i = 0; i < S->rows(); ++i) {
    const double pivot = (*S)(i, i) * (*S)(i, i);
    const double diagonal = S->row(i).head(i + 1).squaredNorm();
    if (!(pivot > kPivot * diagonal) || !std::isfinite(diagonal)) return false;
  }
  return true;
}

BoxQpStatus SolveBoxQp(ConstMatrixRef H, ConstVectorRef g, ConstVectorRef lower, ConstVectorRef upper, VectorRef x,
                       BoxQpScratch* s) {
  const Eigen::Index n = H.rows();
  s->clamped.assign(n, 0);
  s->clamped_before.assign(n, 2);
  x = x.cwiseMax(lower).cwiseMin(upper);
  bool exact = false;  // the last step was the full Newton step of the free variables

  for (int iteration = 0; iteration < kIterations; ++iteration) {
    // gradient = g + H x
    s->gradient.noalias() = H * x;
    s->gradient += g;
    FindClamped(s->gradient, x, lower, upper, &s->clamped);

    // the minimum over the right face
    const bool same = s->clamped == s->clamped_before;
    if (same && exact) return BoxQpStatus::kSolved;
    if (!same && !FactorFree(H, s->clamped, &s->L)) return BoxQpStatus::kIndefinite;
    s->clamped_before = s->clamped;

    // direction = -H_ff⁻¹ gradient_f
    s->direction = -s->gradient;
    SolveFree(s, s->direction);
    const double slope = s->gradient.dot(s->direction);
    const double scale = std::abs(x.dot(g)) + x.dot(s->gradient - g);
    if (-slope <= kDecrement * scale) return BoxQpStatus::kSolved;

    // the full step when it stays inside, else a search along its projection
    s->trial = x + s->direction;
    exact = (s->trial.array() >= lower.array()).all() && (s->trial.array() <= upper.array()).all();
    if (exact) {
      x = s->trial;
    } else if (!ProjectedSearch(H, g, lower, upper, slope, x, &s->gradient, s)) {
      break;
    }
  }
  return SolveByActiveSet(H, g, lower, upper, x, s);
}

void SolveFree(BoxQpScratch* scratch, MatrixRef Y) {
  for (Eigen::Index i = 0; i < Y.rows(); ++i) {
    if (scratch->clamped[i]) Y.row(i).setZero();
  }
  const MatrixXd& L = scratch->L;
  if (Y.rows() == 1) {  // Eigen's own two products, without its blocks
    const double inverse = 1 / L(0, 0);
    for (int i = 0; i < 2; ++i) Y *= inverse;
  } else if (Y.cols() == 1) {
    L.triangularView<Eigen::Lower>().solveInPlace(Y);
    L.triangularView<Eigen::Lower>().transpose().solveInPlace(Y);
  } else {
    SolveFactored(L, Y, &scratch->packed);
  }
}

}  // namespace costate
