#include <costate/error.h>
#include <costate/lqr.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/dense_product.h"
#include "core/finite.h"
#include "optimizer/box_qp.h"
#include "optimizer/lq_sizes.h"
#include "optimizer/step_rows.h"

namespace costate {
namespace {

[[noreturn]] void OfAnotherSize(const std::string& name, const std::string& size, const std::string& expected) {
  throw Error(ErrorCode::kDimensionMismatch,
              fmt::format("linear-quadratic problem: {} is {}, expected {}", name, size, expected));
}

// at a knot, or not at one: knot < 0
void CheckMatrix(const char* name, int knot, const MatrixXd& M, Eigen::Index rows, Eigen::Index cols) {
  if (M.rows() == rows && M.cols() == cols) return;
  OfAnotherSize(knot < 0 ? name : fmt::format("{} of knot {}", name, knot), fmt::format("{} × {}", M.rows(), M.cols()),
                fmt::format("{} × {}", rows, cols));
}
void CheckVector(const char* name, int knot, const VectorXd& v, Eigen::Index size) {
  if (v.size() == size) return;
  OfAnotherSize(knot < 0 ? name : fmt::format("{} of knot {}", name, knot), fmt::format("of size {}", v.size()),
                fmt::format("{}", size));
}

void CheckStart(const LqStart& start, Eigen::Index ndx) {
  const Eigen::Index free = static_cast<Eigen::Index>(start.entries.size());
  if (free == 0) return;
  CheckVector("lower of the start", -1, start.lower, free);
  CheckVector("upper of the start", -1, start.upper, free);
  for (std::size_t i = 0; i < start.entries.size(); ++i) {
    const int entry = start.entries[i];
    if (entry >= 0 && entry < ndx && (i == 0 || entry > start.entries[i - 1])) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("linear-quadratic problem: entry {} of the start is {}, expected rising ones from 0 to {}",
                            i, entry, ndx - 1));
  }
  if (start.l0.size() == 0) return;
  CheckVector("l0 of the start", -1, start.l0, ndx);
  CheckMatrix("l0x of the start", -1, start.l0x, ndx, ndx);
  CheckMatrix("l00 of the start", -1, start.l00, ndx, ndx);
}

}  // namespace

// all of the sizes of the first knot's B
void CheckSizes(const LqProblem& problem) {
  if (problem.knots.empty()) throw Error(ErrorCode::kInvalidArgument, "linear-quadratic problem: it has no knots");
  const Eigen::Index ndx = problem.knots[0].B.rows(), nu = problem.knots[0].B.cols();
  for (std::size_t i = 0; i < problem.knots.size(); ++i) {
    const LqKnot& knot = problem.knots[i];
    const int t = static_cast<int>(i);
    CheckMatrix("A", t, knot.A, ndx, ndx);
    CheckMatrix("B", t, knot.B, ndx, nu);
    CheckVector("lx", t, knot.lx, ndx);
    CheckVector("lu", t, knot.lu, nu);
    CheckMatrix("lxx", t, knot.lxx, ndx, ndx);
    CheckMatrix("lux", t, knot.lux, nu, ndx);
    CheckMatrix("luu", t, knot.luu, nu, nu);
    if (knot.gap.size() > 0) CheckVector("gap", t, knot.gap, ndx);
    if (2 * knot.integrated.size() > ndx) CheckVector("integrated", t, knot.integrated, ndx / 2);
    const bool bounded = knot.du_lower.size() > 0 || knot.du_upper.size() > 0;
    if (bounded) CheckVector("du_lower", t, knot.du_lower, nu);
    if (bounded) CheckVector("du_upper", t, knot.du_upper, nu);
    const bool moving = knot.lower_slope.size() > 0 || knot.upper_slope.size() > 0;
    if (moving) CheckMatrix("lower_slope", t, knot.lower_slope, nu, ndx);
    if (moving) CheckMatrix("upper_slope", t, knot.upper_slope, nu, ndx);
    if (moving) CheckVector("du_lower", t, knot.du_lower, nu);
  }
  CheckVector("lx of the end", -1, problem.lx, ndx);
  CheckMatrix("lxx of the end", -1, problem.lxx, ndx, ndx);
  CheckStart(problem.start, ndx);
  if (problem.unit.size() > 0) CheckVector("unit", -1, problem.unit, nu);
}

namespace {

// a NaN among bounds would be taken for none; knot < 0: of the start
void RefuseCrossedBounds(int knot, const VectorXd& lower, const VectorXd& upper) {
  for (Eigen::Index i = 0; i < lower.size(); ++i) {
    if (lower[i] <= upper[i]) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("linear-quadratic problem: bounds {} of {} are {:g} and {:g}, expected lower ≤ upper", i,
                            knot < 0 ? "the start" : fmt::format("du of knot {}", knot), lower[i], upper[i]));
  }
}

void CheckBounds(const LqProblem& problem) {
  for (std::size_t t = 0; t < problem.knots.size(); ++t)
    RefuseCrossedBounds(static_cast<int>(t), problem.knots[t].du_lower, problem.knots[t].du_upper);
  RefuseCrossedBounds(-1, problem.start.lower, problem.start.upper);
}

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

// as fast as memory is: Eigen copies as the oldest x86-64 does
void Copy(const MatrixXd& from, MatrixXd* to) {
  to->resize(from.rows(), from.cols());
  std::copy_n(from.data(), from.size(), to->data());
}

// Q expansion at one knot from V of the next
void ActionValue(const LqKnot& knot, const VectorXd& unit, const VectorXd& Vx_next, const MatrixXd& Vxx_next,
                 const RiccatiOptions& options, RiccatiScratch* s, double* expected_gap) {
  // Vx at the linear model's own next state, which a gap displaces: Vx ← Vx + Vxx gap
  s->Vx = Vx_next;
  if (knot.gap.size() > 0) {
    s->Vx.noalias() += Vxx_next * knot.gap;
    *expected_gap += 0.5 * knot.gap.dot(Vx_next + s->Vx);
  }

  // Qx = lx + Aᵀ Vx,  Qu = lu + Bᵀ Vx,  where [A B] = [E 0] + L [Â B̂] (README.md, (I7))
  StepRows rows(knot, &s->rows);
  const MatrixXd &A = rows.A(), &B = rows.B();
  const VectorXd& LVx = rows.Fold(s->Vx);
  s->Qx = knot.lx;
  rows.AddPositions(s->Vx, &s->Qx);
  s->Qx.noalias() += A.transpose() * LVx;
  s->Qu = knot.lu;
  s->Qu.noalias() += B.transpose() * LVx;

  // Qxx = lxx + Aᵀ Vxx A, its lower triangle,  Qux = lux + Bᵀ Vxx A,  Quu = luu + Bᵀ Vxx B;  VA and VB are Lᵀ Vxx A and
  // Lᵀ Vxx B
  const MatrixXd &LV = rows.FoldRows(Vxx_next), &LVL = rows.FoldColumns(LV);
  rows.SetPositions(LV, &s->VA);
  Copy(knot.lxx, &s->Qxx);
  rows.AddPositionsLower(Vxx_next, s->VA, &s->packed, &s->Qxx);
  s->VB.setZero(LV.rows(), B.cols());
  const LeftFactor left = PackLeft(LVL, &s->packed);
  left.AddProduct(A, s->VA);
  left.AddProduct(B, s->VB);
  PackLeftTransposed(A, &s->packed).AddProductLower(s->VA, s->Qxx);
  Copy(knot.lux, &s->Qux);
  Copy(knot.luu, &s->Quu);
  const LeftFactor Bt = PackLeftTransposed(B, &s->packed);
  Bt.AddProduct(s->VA, s->Qux);
  Bt.AddProductLower(s->VB, s->Quu);
  MirrorLower(&s->Quu);

  // Quu_mu = Quu + mu diag(unit)⁻² + mu_state BᵀB,  Qux_mu = Qux + mu_state BᵀA
  Copy(s->Quu, &s->Quu_mu);
  if (unit.size() > 0) {
    s->Quu_mu.diagonal().array() += options.regularization / unit.array().square();
  } else {
    s->Quu_mu.diagonal().array() += options.regularization;
  }
  Copy(s->Qux, &s->M);
  if (options.regularization_state > 0) {
    s->Quu_mu.noalias() += options.regularization_state * knot.B.transpose() * knot.B;
    MirrorLower(&s->Quu_mu);
    s->M.noalias() += options.regularization_state * knot.B.transpose() * knot.A;
  }
}

// K of bounds that move: S in the rows of clamped controls, -Quu_mu,ff⁻¹ (Qux_mu,f + Quu_mu,fc S_c) in the others
void MovingGains(const LqKnot& knot, const VectorRef& k, RiccatiScratch* s, MatrixXd* K) {
  s->S.setZero(k.size(), knot.A.cols());
  for (Eigen::Index i = 0; i < k.size(); ++i) {
    if (s->qp.clamped[i]) s->S.row(i) = k[i] >= knot.du_upper[i] ? knot.upper_slope.row(i) : knot.lower_slope.row(i);
  }
  *K = -s->M;
  K->noalias() -= s->Quu_mu * s->S;
  SolveFree(&s->qp, *K);
  *K += s->S;
}

// k = argmin ½ kᵀQuu_mu k + Quᵀk within bounds,  K = -Quu_mu,ff⁻¹ Qux_mu,f;  `guess` starts the bounded search
bool Gains(const LqKnot& knot, const VectorXd& guess, RiccatiScratch* s, VectorRef k, MatrixXd* K) {
  if (knot.du_lower.size() > 0) {
    k = guess;
    if (!IsFinite(s->Quu_mu) || !IsFinite(s->Qu)) return false;
    if (SolveBoxQp(s->Quu_mu, s->Qu, knot.du_lower, knot.du_upper, k, &s->qp) == BoxQpStatus::kIndefinite) return false;
  } else {
    s->qp.L = s->Quu_mu;
    s->qp.clamped.assign(k.size(), 0);
    if (!FactorInPlace(&s->qp.L)) return false;
    k = -s->Qu;
    SolveFree(&s->qp, k);
  }
  if (knot.lower_slope.size() == 0) {
    *K = -s->M;
    SolveFree(&s->qp, *K);
  } else {
    MovingGains(knot, k, s, K);
  }
  return IsFinite(k.data(), k.size()) && IsFinite(*K);
}

// Vx = Qx + Kᵀ(Quu k + Qu) + Quxᵀk,  Vxx = Qxx + KᵀQuu K + KᵀQux + QuxᵀK
void StateValue(const VectorXd& k, const MatrixXd& K, RiccatiScratch* s, VectorXd* Vx, MatrixXd* Vxx) {
  s->Quu_k.noalias() = s->Quu * k;
  s->Quu_k += s->Qu;
  *Vx = s->Qx;
  Vx->noalias() += K.transpose() * s->Quu_k;
  Vx->noalias() += s->Qux.transpose() * k;

  // the last three terms are KᵀM + MᵀK with M = ½ Quu K + Qux
  Copy(s->Qux, &s->M);
  s->Quu_mu = 0.5 * s->Quu;
  AddProduct(s->Quu_mu, K, &s->M, &s->packed);
  PackLeftTransposed(K, &s->packed).AddProductLower(s->M, s->Qxx);
  PackLeftTransposed(s->M, &s->packed).AddProductLower(K, s->Qxx);
  Vxx->swap(s->Qxx);
  MirrorLower(Vxx);
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

// ---- a start that may move: README.md, (16a) and (16d) --------------------------------------------------------------

// a start's Hessian that is singular to rounding, such as that of a place that nothing minds, is helped by this part of
// its largest curvature
constexpr double kNoCurvature = 1e-9;

// of the free entries: V_N = … + dx_0ᵀ l0 + dx_0ᵀ l0x dx + ½ dx_0ᵀ l00 dx_0
void BeginStartValue(const LqProblem& problem, RiccatiScratch* s) {
  const std::vector<int>& entries = problem.start.entries;
  s->V0x.resize(problem.knots.size() + 1);
  s->K0.resize(problem.knots.size());
  s->V0 = problem.start.l0(entries);
  s->V0x.back() = problem.start.l0x(entries, Eigen::all);
  s->V00 = problem.start.l00(entries, entries);
}

// the same a knot earlier; Qu, Qux, Quu and the factor of Quu_mu are this knot's
void StartValue(const LqKnot& knot, const VectorXd& k, const MatrixXd& K, std::size_t t, RiccatiScratch* s) {
  // Q0 = V0 + V0x gap,  Q0x = V0x A,  Q0u = V0x B,  K0 = -Quu_mu,ff⁻¹ Q0uᵀ_f
  if (knot.gap.size() > 0) s->V0.noalias() += s->V0x[t + 1] * knot.gap;
  s->Q0u.noalias() = s->V0x[t + 1] * knot.B;
  MatrixXd &K0 = s->K0[t], &V0x = s->V0x[t];
  K0 = -s->Q0u.transpose();
  SolveFree(&s->qp, K0);

  // V0 = Q0 + K0ᵀ(Quu k + Qu) + Q0u k,  V0x = Q0x + K0ᵀ(Quu K + Qux) + Q0u K,  V00 = V00 + K0ᵀQuu K0 + K0ᵀQ0uᵀ + Q0u K0
  s->Quu_k = s->Qu;
  s->Quu_k.noalias() += s->Quu * k;
  s->V0.noalias() += K0.transpose() * s->Quu_k;
  s->V0.noalias() += s->Q0u * k;
  s->M = s->Qux;
  s->M.noalias() += s->Quu * K;
  V0x.noalias() = s->V0x[t + 1] * knot.A;
  V0x.noalias() += K0.transpose() * s->M;
  V0x.noalias() += s->Q0u * K;
  s->M.noalias() = 0.5 * s->Quu * K0;
  s->M += s->Q0u.transpose();
  s->H.noalias() = K0.transpose() * s->M;
  s->V00 += s->H;
  s->V00 += s->H.transpose();
}

// largest slope by an entry of the start that may still move downhill
double StartSlope(const LqStart& start, const VectorXd& slope) {
  double largest = 0;
  for (Eigen::Index i = 0; i < slope.size(); ++i) {
    const bool held = (start.lower[i] >= 0 && slope[i] > 0) || (start.upper[i] <= 0 && slope[i] < 0);
    if (!held) largest = std::max(largest, std::abs(slope[i]));
  }
  return largest;
}

// theta = argmin ½ thetaᵀ(H + mu I) theta + gᵀtheta within bounds, H and g those of the value at knot 0; false where H
// is indefinite
bool FindStart(const LqStart& start, double mu, const VectorXd& g, RiccatiScratch* s) {
  if (!s->H.allFinite() || !g.allFinite()) return false;
  MatrixXd shifted = s->H;
  shifted.diagonal().array() += mu;
  for (const double help : {0.0, kNoCurvature * shifted.diagonal().cwiseAbs().maxCoeff()}) {
    shifted.diagonal().array() += help;
    s->theta.setZero(g.size());
    if (SolveBoxQp(shifted, g, start.lower, start.upper, s->theta, &s->qp) != BoxQpStatus::kIndefinite)
      return s->theta.allFinite();
  }
  return false;
}

// dx0, and what it adds to k, values and promise
bool MoveStart(const LqStart& start, const RiccatiOptions& options, const VectorXd& Vx, const MatrixXd& Vxx, bool tied,
               RiccatiResult* out) {
  RiccatiScratch& s = out->scratch;
  VectorXd g = Vx(start.entries);
  s.H = Vxx(start.entries, start.entries);
  if (tied) {
    const MatrixXd V0x = s.V0x[0](Eigen::all, start.entries);
    g += s.V0;
    s.H += V0x + V0x.transpose() + s.V00;
  }
  if (!FindStart(start, options.regularization + options.regularization_state, g, &s)) return false;
  out->dx0.setZero(Vx.size());
  out->dx0(start.entries) = s.theta;
  out->expected_linear += s.theta.dot(g);
  out->expected_quadratic += s.theta.dot(s.H * s.theta);
  out->gradient_norm = std::max(out->gradient_norm, StartSlope(start, g));
  if (!tied) return true;
  for (std::size_t t = 0; t < s.K0.size(); ++t) out->k.col(static_cast<Eigen::Index>(t)).noalias() += s.K0[t] * s.theta;
  for (std::size_t t = 0; t < out->Vx.size(); ++t) out->Vx[t].noalias() += s.V0x[t].transpose() * s.theta;
  return true;
}

}  // namespace

void SolveRiccati(const LqProblem& problem, const RiccatiOptions& options, RiccatiResult* out) {
  CheckSizes(problem);
  CheckBounds(problem);
  Resize(problem, options.values, out);
  RiccatiScratch& s = out->scratch;
  const int N = static_cast<int>(problem.knots.size());
  out->ok = false;
  out->failed_knot = -1;
  out->expected_linear = out->expected_quadratic = out->expected_gap = out->gradient_norm = 0;
  const bool tied = !problem.start.entries.empty() && problem.start.l0.size() > 0;
  if (tied) BeginStartValue(problem, &s);

  // from the end to the start
  const auto Vx = [&](int t) { return options.values ? &out->Vx[t] : &s.Vx_pair[t % 2]; };
  const auto Vxx = [&](int t) { return options.values ? &out->Vxx[t] : &s.Vxx_pair[t % 2]; };
  *Vx(N) = problem.lx;
  *Vxx(N) = problem.lxx;
  s.guess.setZero(out->k.rows());
  for (int t = N - 1; t >= 0; --t) {
    const LqKnot& knot = problem.knots[t];
    ActionValue(knot, problem.unit, *Vx(t + 1), *Vxx(t + 1), options, &s, &out->expected_gap);
    out->curvature.col(t) = s.Quu.diagonal();
    if (!Gains(knot, s.guess, &s, out->k.col(t), &out->K[t])) {
      out->failed_knot = t;
      return;
    }
    s.guess = out->k.col(t);
    StateValue(s.guess, out->K[t], &s, Vx(t), Vxx(t));
    if (tied) StartValue(knot, s.guess, out->K[t], static_cast<std::size_t>(t), &s);

    // what the model promises, and how far from a minimum this knot is
    out->expected_linear += s.guess.dot(s.Qu);
    s.Quu_k.noalias() = s.Quu * s.guess;
    out->expected_quadratic += s.guess.dot(s.Quu_k);
    out->gradient_norm_per_knot[t] = GradientNorm(knot, s.Qu);
    out->gradient_norm = std::max(out->gradient_norm, out->gradient_norm_per_knot[t]);
  }
  out->ok = true;
  out->dx0.resize(0);
  if (problem.start.entries.empty() || MoveStart(problem.start, options, *Vx(0), *Vxx(0), tied, out)) return;
  out->ok = false;
  out->failed_knot = 0;
}

}  // namespace costate
