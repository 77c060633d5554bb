#include "optimizer/bounds_ahead.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

constexpr int kMostRecursions = 40;  // of Newton; a handful is usual
constexpr int kBisections = 40;      // of the interval that the minimum along a step is in
constexpr double kNoMore = 1e-10;    // of the promise: the next step gains no more

VectorXd ValueAt(const KnotBounds& bounds, ConstVectorRef dx, ConstVectorRef du) {
  VectorXd z = bounds.J * dx.head(bounds.J.cols());
  if (bounds.Ju.cols() > 0 && du.size() > 0) z.noalias() += bounds.Ju * du;
  return z;
}

// z beyond its bounds, by sign
double Beyond(const KnotBounds& bounds, Eigen::Index k, double z) {
  return z - std::clamp(z, bounds.lower[k], bounds.upper[k]);
}

VectorXd Control(const MatrixXd& du, std::size_t t) {
  const auto column = static_cast<Eigen::Index>(t);
  return column < du.cols() ? VectorXd(du.col(column)) : VectorXd();
}

}  // namespace

// which bounds is d beyond? true: others than were known
bool BoundsAhead::FindSides(const Motion& d) {
  bool changed = false;
  for (std::size_t t = 0; t < knots_.size(); ++t) {
    const VectorXd du = Control(d.du, t);
    for (KnotBounds& bounds : knots_[t].bounds) {
      if (!bounds.any) continue;
      const VectorXd z = bounds.z + ValueAt(bounds, d.dx.col(static_cast<Eigen::Index>(t)), du);
      for (Eigen::Index k = 0; k < z.size(); ++k) {
        const double y = Beyond(bounds, k, z[k]);
        const char side = static_cast<char>((y > 0) - (y < 0));
        changed |= side != bounds.side[static_cast<std::size_t>(k)];
        bounds.side[static_cast<std::size_t>(k)] = side;
      }
    }
  }
  return changed;
}

// lq_: the cost and equalities with what the sides add
void BoundsAhead::Assemble(const LqProblem& model) {
  lq_.knots.resize(model.knots.size());
  lq_.unit = model.unit;
  lq_.start = model.start;
  for (std::size_t t = 0; t < knots_.size(); ++t) {
    const CostExpansion& base = knots_[t].base;
    const bool last = t + 1 == knots_.size();
    VectorXd& lx = last ? lq_.lx : lq_.knots[t].lx;
    MatrixXd& lxx = last ? lq_.lxx : lq_.knots[t].lxx;
    lx = base.lx;
    lxx = base.lxx;
    if (!last) {
      LqKnot& knot = lq_.knots[t];
      knot.A = model.knots[t].A;
      knot.B = model.knots[t].B;
      knot.integrated = model.knots[t].integrated;
      knot.lu = base.lu;
      knot.lux = base.lux;
      knot.luu = base.luu;
      knot.du_lower = model.knots[t].du_lower;
      knot.du_upper = model.knots[t].du_upper;
    }
    for (const KnotBounds& bounds : knots_[t].bounds) {
      for (Eigen::Index k = 0; bounds.any && k < bounds.z.size(); ++k) {
        const char side = bounds.side[static_cast<std::size_t>(k)];
        if (side == 0) continue;
        const double y = bounds.z[k] - (side > 0 ? bounds.upper[k] : bounds.lower[k]), rho = bounds.rho;
        const VectorXd j = bounds.J.row(k).transpose();
        const Eigen::Index n = j.size();
        lx.head(n) += rho * y * j;
        lxx.topLeftCorner(n, n) += rho * j * j.transpose();
        if (last || bounds.Ju.cols() == 0) continue;
        LqKnot& knot = lq_.knots[t];
        const VectorXd ju = bounds.Ju.row(k).transpose();
        knot.lu += rho * y * ju;
        knot.lux.leftCols(n) += rho * ju * j.transpose();
        knot.luu += rho * ju * ju.transpose();
      }
    }
  }
}

// the policy's whole step in the linear model
void BoundsAhead::Follow(const LqProblem& model, const RiccatiResult& riccati, Motion* d) const {
  d->dx.setZero(model.lx.size(), static_cast<Eigen::Index>(knots_.size()));
  if (riccati.dx0.size() > 0) d->dx.col(0) = riccati.dx0;
  d->du.resize(riccati.k.rows(), riccati.k.cols());
  for (Eigen::Index t = 0; t < d->du.cols(); ++t) {
    const LqKnot& knot = model.knots[static_cast<std::size_t>(t)];
    d->du.col(t) = riccati.k.col(t) + riccati.K[static_cast<std::size_t>(t)] * d->dx.col(t);
    d->dx.col(t + 1) = knot.A * d->dx.col(t) + knot.B * d->du.col(t);
  }
}

// slope of the cost and equalities at the motion
double BoundsAhead::Linear(const Motion& d) const {
  double sum = 0;
  for (std::size_t t = 0; t < knots_.size(); ++t) {
    const auto column = static_cast<Eigen::Index>(t);
    sum += knots_[t].base.lx.dot(d.dx.col(column));
    if (column < d.du.cols()) sum += knots_[t].base.lu.dot(d.du.col(column));
  }
  return sum;
}

// dᵀ (their Hessian, regularized) e
double BoundsAhead::Quadratic(const LqProblem& model, double mu, const Motion& d, const Motion& e) const {
  double sum = 0;
  for (const int entry : model.start.entries) sum += mu * d.dx(entry, 0) * e.dx(entry, 0);
  for (std::size_t t = 0; t < knots_.size(); ++t) {
    const CostExpansion& base = knots_[t].base;
    const auto column = static_cast<Eigen::Index>(t);
    const auto dx = d.dx.col(column), ex = e.dx.col(column);
    sum += dx.dot(base.lxx * ex);
    if (column >= d.du.cols()) continue;
    const auto du = d.du.col(column), eu = e.du.col(column);
    sum += du.dot(base.luu * eu) + du.dot(base.lux * ex) + eu.dot(base.lux * dx);
    sum += mu * (model.unit.size() > 0 ? du.cwiseQuotient(model.unit).dot(eu.cwiseQuotient(model.unit)) : du.dot(eu));
  }
  return sum;
}

// z at d and what e adds to it
void BoundsAhead::Measure(const Motion& d, const Motion& e) {
  for (std::size_t t = 0; t < knots_.size(); ++t) {
    const auto column = static_cast<Eigen::Index>(t);
    const VectorXd du = Control(d.du, t), eu = Control(e.du, t);
    for (KnotBounds& bounds : knots_[t].bounds) {
      if (!bounds.any) continue;
      bounds.at = bounds.z + ValueAt(bounds, d.dx.col(column), du);
      bounds.along = ValueAt(bounds, e.dx.col(column), eu);
    }
  }
}

// what the bounds add to the slope along e at d + step e, as they were measured
double BoundsAhead::Slope(double step) const {
  double sum = 0;
  for (const AugmentedKnot& knot : knots_) {
    for (const KnotBounds& bounds : knot.bounds) {
      if (!bounds.any) continue;
      for (Eigen::Index k = 0; k < bounds.at.size(); ++k)
        sum += bounds.rho * Beyond(bounds, k, bounds.at[k] + step * bounds.along[k]) * bounds.along[k];
    }
  }
  return sum;
}

bool BoundsAhead::Solve(const LqProblem& model, double mu, RiccatiResult* riccati) {
  if (model.start.l0.size() > 0) return false;
  const RiccatiOptions options{.regularization = mu, .values = false};
  Motion d, next, e;
  d.dx.setZero(model.lx.size(), static_cast<Eigen::Index>(knots_.size()));
  d.du.setZero(model.knots[0].B.cols(), static_cast<Eigen::Index>(model.knots.size()));
  const Motion none = d;
  FindSides(d);
  double promise = 0;
  for (int i = 0; i < kMostRecursions; ++i) {
    Assemble(model);
    SolveRiccati(lq_, options, riccati);
    if (!riccati->ok) return false;
    Follow(model, *riccati, &next);
    e.dx = next.dx - d.dx;
    e.du = next.du - d.du;

    // the minimum along e, between slopes of either sign
    const double slope = Linear(e) + Quadratic(model, mu, d, e), curvature = Quadratic(model, mu, e, e);
    Measure(d, e);
    const auto slope_at = [&](double step) { return slope + step * curvature + Slope(step); };
    double least = 0, most = 1;
    if (!(slope_at(0) < 0)) break;
    if (slope_at(1) > 0) {
      for (int k = 0; k < kBisections; ++k) {
        const double middle = 0.5 * (least + most);
        (slope_at(middle) > 0 ? most : least) = middle;
      }
    } else {
      least = 1;
    }
    const double gain = -0.5 * least * slope_at(0);
    d.dx += least * e.dx;
    d.du += least * e.du;
    promise += gain;
    const bool changed = FindSides(d);
    if (!changed && least == 1 && i == 0) return false;
    if ((!changed && least == 1) || gain <= kNoMore * promise) break;
  }

  // a policy that leads to d
  if (riccati->dx0.size() > 0) riccati->dx0 = d.dx.col(0);
  for (Eigen::Index t = 0; t < d.du.cols(); ++t)
    riccati->k.col(t) = d.du.col(t) - riccati->K[static_cast<std::size_t>(t)] * d.dx.col(t);
  Measure(none, d);
  const double slope = Linear(d) + Slope(0);
  riccati->expected_linear = slope;
  riccati->expected_quadratic = -slope;  // the value at the minimum of a parabola is half its slope there and back
  return slope < 0 && d.du.allFinite();
}

}  // namespace costate
