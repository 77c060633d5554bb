#include <costate/lqr.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/dense_product.h"
#include "optimizer/box_qp.h"

namespace costate {
namespace {

void Resize(const LqProblem& problem, bool values, RiccatiResult* out) {
  const int N = static_cast<int>(problem.knots.size());
  const Eigen::Index ndx = problem.knots[0].B.rows(), nu = problem.knots[0].B.cols();
  out->k.resize(nu, N);
  out->K.resize(N);
  for (MatrixXd& K : out->K) K.resize(nu, ndx);
  out->Vx.resize(values ? N + 1 : 0);
  for (VectorXd& Vx : out->Vx) Vx.resize(ndx);
  out->Vxx.resize(values ? N + 1 : 0);
  for (MatrixXd& Vxx : out->Vxx) Vxx.resize(ndx, ndx);
  out->gradient_norm_per_knot.setZero(N);
  out->curvature.setZero(nu, N);
}

// upper triangle ← lower: what rounding left different is made equal
void MirrorLower(MatrixXd* S) {
  for (Eigen::Index j = 1; j < S->cols(); ++j) S->col(j).head(j) = S->row(j).head(j).transpose();
}

// Q expansion at one knot from V of the next
void ActionValue(const LqKnot& knot, const VectorXd& Vx_next, const MatrixXd& Vxx_next, const RiccatiOptions& options,
                 RiccatiScratch* s, double* expected_gap) {
  // Vx at the linear model's own next state, which a gap displaces: Vx ← Vx + Vxx gap
  s->Vx = Vx_next;
  if (knot.gap.size() > 0) {
    s->Vx.noalias() += Vxx_next * knot.gap;
    *expected_gap += 0.5 * knot.gap.dot(Vx_next + s->Vx);
  }

  // Qx = lx + Aᵀ Vx,  Qu = lu + Bᵀ Vx
  s->Qx = knot.lx;
  s->Qx.noalias() += knot.A.transpose() * s->Vx;
  s->Qu = knot.lu;
  s->Qu.noalias() += knot.B.transpose() * s->Vx;

  // Qxx = lxx + Aᵀ Vxx A,  Qux = lux + Bᵀ Vxx A,  Quu = luu + Bᵀ Vxx B
  SetProduct(Vxx_next, knot.A, &s->VA, &s->packed);
  SetProduct(Vxx_next, knot.B, &s->VB, &s->packed);
  s->Qxx = knot.lxx;
  AddTransposedProductLower(knot.A, s->VA, &s->Qxx, &s->packed);
  MirrorLower(&s->Qxx);
  s->Qux = knot.lux;
  AddTransposedProduct(knot.B, s->VA, &s->Qux, &s->packed);
  s->Quu = knot.luu;
  AddTransposedProductLower(knot.B, s->VB, &s->Quu, &s->packed);
  MirrorLower(&s->Quu);

  // Quu_mu = Quu + mu I + mu_state BᵀB,  Qux_mu = Qux + mu_state BᵀA
  s->Quu_mu = s->Quu;
  s->Quu_mu.diagonal().array() += options.regularization;
  s->M = s->Qux;
  if (options.regularization_state > 0) {
    s->Quu_mu.noalias() += options.regularization_state * knot.B.transpose() * knot.B;
    MirrorLower(&s->Quu_mu);
    s->M.noalias() += options.regularization_state * knot.B.transpose() * knot.A;
  }
}

// k = argmin ½ kᵀQuu_mu k + Quᵀk within bounds,  K = -Quu_mu,ff⁻¹ Qux_mu,f;  `guess` starts the bounded search
bool Gains(const LqKnot& knot, const VectorXd& guess, RiccatiScratch* s, VectorRef k, MatrixXd* K) {
  if (knot.du_lower.size() > 0) {
    k = guess;
    if (!s->Quu_mu.allFinite() || !s->Qu.allFinite()) return false;
    if (SolveBoxQp(s->Quu_mu, s->Qu, knot.du_lower, knot.du_upper, k, &s->qp) == BoxQpStatus::kIndefinite) return false;
  } else {
    s->qp.L = s->Quu_mu;
    s->qp.clamped.assign(k.size(), 0);
    if (!FactorInPlace(&s->qp.L)) return false;
    k = -s->Qu;
    SolveFree(s->qp, k);
  }
  *K = -s->M;
  SolveFree(s->qp, *K);
  return k.allFinite() && K->allFinite();
}

// Vx = Qx + Kᵀ(Quu k + Qu) + Quxᵀk,  Vxx = Qxx + KᵀQuu K + KᵀQux + QuxᵀK
void StateValue(const VectorXd& k, const MatrixXd& K, RiccatiScratch* s, VectorXd* Vx, MatrixXd* Vxx) {
  s->Quu_k.noalias() = s->Quu * k;
  s->Quu_k += s->Qu;
  *Vx = s->Qx;
  Vx->noalias() += K.transpose() * s->Quu_k;
  Vx->noalias() += s->Qux.transpose() * k;

  // the last three terms are W + Wᵀ with W = Kᵀ(½ Quu K + Qux): symmetric to the last bit in this order
  s->M = s->Qux;
  s->Quu_mu = 0.5 * s->Quu;
  AddProduct(s->Quu_mu, K, &s->M, &s->packed);
  s->VA.setZero();
  AddTransposedProduct(K, s->M, &s->VA, &s->packed);
  *Vxx = s->VA;
  *Vxx += s->VA.transpose();
  *Vxx += s->Qxx;
}

// max |Qu| over the controls that may move downhill: at a bound, only inward counts
double GradientNorm(const LqKnot& knot, const VectorXd& Qu) {
  double norm = 0;
  for (Eigen::Index i = 0; i < Qu.size(); ++i) {
    const bool lower = knot.du_lower.size() > 0 && knot.du_lower[i] >= 0 && Qu[i] > 0;
    const bool upper = knot.du_upper.size() > 0 && knot.du_upper[i] <= 0 && Qu[i] < 0;
    if (!lower && !upper) norm = std::max(norm, std::abs(Qu[i]));
  }
  return norm;
}

}  // namespace

void SolveRiccati(const LqProblem& problem, const RiccatiOptions& options, RiccatiResult* out) {
  assert(!problem.knots.empty());
  Resize(problem, options.values, out);
  RiccatiScratch& s = out->scratch;
  const int N = static_cast<int>(problem.knots.size());
  out->ok = false;
  out->failed_knot = -1;
  out->expected_linear = out->expected_quadratic = out->expected_gap = out->gradient_norm = 0;

  // from the end to the start
  const auto Vx = [&](int t) { return options.values ? &out->Vx[t] : &s.Vx_pair[t % 2]; };
  const auto Vxx = [&](int t) { return options.values ? &out->Vxx[t] : &s.Vxx_pair[t % 2]; };
  *Vx(N) = problem.lx;
  *Vxx(N) = problem.lxx;
  s.guess.setZero(out->k.rows());
  for (int t = N - 1; t >= 0; --t) {
    const LqKnot& knot = problem.knots[t];
    ActionValue(knot, *Vx(t + 1), *Vxx(t + 1), options, &s, &out->expected_gap);
    out->curvature.col(t) = s.Quu.diagonal();
    if (!Gains(knot, s.guess, &s, out->k.col(t), &out->K[t])) {
      out->failed_knot = t;
      return;
    }
    s.guess = out->k.col(t);
    StateValue(s.guess, out->K[t], &s, Vx(t), Vxx(t));

    // what the model promises, and how far from a minimum this knot is
    out->expected_linear += s.guess.dot(s.Qu);
    s.Quu_k.noalias() = s.Quu * s.guess;
    out->expected_quadratic += s.guess.dot(s.Quu_k);
    out->gradient_norm_per_knot[t] = GradientNorm(knot, s.Qu);
    out->gradient_norm = std::max(out->gradient_norm, out->gradient_norm_per_knot[t]);
  }
  out->ok = true;
}

}  // namespace costate
