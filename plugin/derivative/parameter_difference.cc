#include "derivative/parameter_difference.h"

#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "derivative/actuation.h"
#include "derivative/equilibrium.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

constexpr const char* kLeftPiece = "models near by have another set of contacts or of forces at limits";

constexpr double kRowRounding = 1e-12;  // of the largest terms that a row adds up, with what stiff contacts make of it
constexpr double kJump = 0.1;           // of what a row changes by: a side that would begin elsewhere …
constexpr double kClear = 1e3;          // … and how many times the rounding
constexpr double kCenteredNoise = 0.11, kForwardNoise = 0.66;  // of five points, by that of their fourth difference
constexpr double kValueNoise = 1e-15;                          // of a sensor's value: no nudge shows less
constexpr double kPoor = 1e-7;       // of the largest of a part: rounding that is worth wider nudges
constexpr double kBent = 1e-5;       // likewise: worth shorter ones …
constexpr double kMended = 0.1;      // … that leave no more than this
constexpr double kNear = 10;         // of that disagreement, beyond which wider nudges tell of another piece
constexpr double kWiden = 1.0 / 64;  // what wider nudges leave of rounding, but by chance
constexpr double kRowCorner = 1e-3;  // of what a row changes by: more is no rounding of a smooth function

// of the forces at dofs
double LargestForce(const mjModel* m, const mjData* d) {
  double largest = 0;
  for (const mjtNum* forces : {d->qfrc_bias, d->qfrc_passive, d->qfrc_actuator, d->qfrc_constraint, d->qfrc_applied}) {
    largest = std::max(largest, Largest(forces, static_cast<int>(m->nv)));
  }
  return largest;
}

// what sensors of each stage add up
double LargestTerm(const mjModel* m, const mjData* d, int stage) {
  const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
  if (stage == mjSTAGE_POS) return std::max(1.0, Largest(d->xipos, 3 * nbody));
  if (stage == mjSTAGE_VEL) return std::max(Largest(d->qvel, nv), Largest(d->cvel, 6 * nbody));
  double largest = std::max(LargestForce(m, d), Largest(d->qacc, nv));
  for (const mjtNum* terms : {d->cacc, d->cfrc_int, d->cfrc_ext})
    largest = std::max(largest, Largest(terms, 6 * nbody));
  return largest;
}

}  // namespace

bool ParameterDifference::LeftPiece(int k) const { return failed_[static_cast<std::size_t>(k)] == kLeftPiece; }

ParameterDifference::ParameterDifference(const ParameterSet& set) : stencils_(set), residual_(set.model()) {
  revision_ = set.revision();
  closed_.Refresh(&stencils_);
  Begin();
}

void ParameterDifference::Refresh(const ParameterSet& set) {
  if (revision_ == set.revision()) return;
  revision_ = set.revision();
  stencils_.Refresh(set);
  closed_.Refresh(&stencils_);
}

// friction loss that appears brings a row of its own: no difference at fixed rows sees it
void ParameterDifference::Begin() {
  ClearFailed();
  open_.assign(static_cast<std::size_t>(size()), nullptr);
  for (int k = 0; k < size(); k++) {
    if (stencils_.parameter(k).one_sided) failed_[static_cast<std::size_t>(k)] = "at 0 the model has no row for it";
  }
}

void ParameterDifference::ClearFailed() { failed_.assign(static_cast<std::size_t>(size()), ""); }

void ParameterDifference::FailAll(const std::string& reason) {
  failed_.assign(static_cast<std::size_t>(size()), reason);
}

// act' beyond its limits stays there, wherever they move
void ParameterDifference::HoldClamped(const mjModel* m, VectorXd* value) {
  for (int i = 0; i < m->nactuator; i++) {
    const int begin = m->actuator_actadr[i], end = begin + m->actuator_actnum[i];
    for (int j = begin; begin >= 0 && j < end; j++) {
      if (branch_[static_cast<std::size_t>(j)] == 0) continue;
      (*value)[2 * m->nv + j] = m->actuator_actrange[2 * i + (branch_[static_cast<std::size_t>(j)] > 0)];
    }
  }
}

// sum_ from the widest stencil whose points are all on the smooth piece of center_: five points, or three on one side
bool ParameterDifference::Difference(int k, const Evaluate& evaluate) {
  for (const Reach reach : {ParameterStencils::kUsual, ParameterStencils::kFine}) {
    const std::vector<ParameterStencils::Point>& points = stencils_.Points(k, reach);
    const int n = static_cast<int>(points.size());
    bool good[5] = {}, all = true;
    for (int i = 0; i < n; i++) all = (good[i] = evaluate(i, reach, &values_[i])) && all;
    if (all) {
      SumAll(points);
      const Bend bend = n == 4 ? LookForCorners() : Bend();
      if (!bend.corner) {
        if (reach == ParameterStencils::kUsual) Widen(k, evaluate);
        return true;
      }

      // nearer it may be smooth; where it is not, the wider nudges, and of a jump the side that begins at the point
      if (reach == ParameterStencils::kFine) {
        SayOpen(k, bend.jump[0] || bend.jump[1] ? "a jump" : "a corner");
        sum_ = wide_;
        return true;
      }
      const double h = points[2].offset;
      if (bend.jump[0] && !bend.jump[1]) SumOneSide(h, 2, 3, &sum_);
      if (bend.jump[1] && !bend.jump[0]) SumOneSide(-h, 1, 0, &sum_);
      wide_ = sum_;
      continue;
    }

    const int sides[2][2] = {{2, 3}, {1, 0}}, forward[2] = {1, 2};
    for (const int* side : {n == 4 ? sides[0] : forward, n == 4 ? sides[1] : forward}) {
      if (!good[side[0]] || !good[side[1]]) continue;
      SumOneSide(points[static_cast<std::size_t>(side[0])].offset, side[0], side[1], &sum_);
      return true;
    }
  }
  return false;
}

// sum_ of all points, how far the inner three are from it, and what its rounding is by a fourth difference: the one
// holds third derivatives too, the other a center that is not on the way
void ParameterDifference::SumAll(const std::vector<ParameterStencils::Point>& points) {
  const auto weigh = [&](VectorXd* sum, const double* weights) {
    sum->setZero(center_.size());
    for (std::size_t i = 0; i < points.size(); i++) *sum += weights[i] * (values_[i] - center_);
  };
  const bool centered = points.size() == 4;
  double weights[5] = {};
  for (std::size_t i = 0; i < points.size(); i++) weights[i] = points[i].weight;
  weigh(&sum_, weights);
  const double h = points[centered ? 2 : 1].offset;
  known_ = sensors_ ? kValueNoise / std::abs(h) : 0;
  if (centered) inner_ = (values_[2] - values_[1]) / (2 * h);
  else SumOneSide(h, 1, 2, &inner_);
  inner_ -= sum_;
  const double four[] = {1, -4, -4, 1}, five[] = {1, -4, 6, -4, 1};
  weigh(&fourth_, centered ? four : five);
  fourth_ *= (centered ? kCenteredNoise : kForwardNoise) / h;
}

// wide_, inner_ and fourth_ of other nudges; false: they leave the smooth piece
bool ParameterDifference::SumAt(int k, Reach reach, const Evaluate& evaluate) {
  const std::vector<ParameterStencils::Point>& points = stencils_.Points(k, reach);
  for (std::size_t i = 0; i < points.size(); i++) {
    if (!evaluate(static_cast<int>(i), reach, &values_[i])) return false;
  }
  wide_.swap(sum_);
  SumAll(points);
  wide_.swap(sum_);
  apart_ = wide_ - sum_;
  return true;
}

// (Q9) parts of sum_ that rounding may have made are taken from wider nudges, where five points and three agree better;
// those that bend within the nudge from nearer ones, where rounding would have been more
void ParameterDifference::Widen(int k, const Evaluate& evaluate) {
  // the least of two estimates may be small by chance, as roundings of a few numbers cancel
  const auto error = [this](const Part& part) {
    const double fourth = SizeOf(part, fourth_), inner = SizeOf(part, inner_);
    if (fourth + inner == 0) return 0.0;
    return std::max(std::min(fourth, inner), known_ * SizeOf(part, center_));
  };
  const auto take = [&](Part* part, const VectorXd& from) {
    if (&from != &sum_) sum_.segment(part->begin, part->size) = from.segment(part->begin, part->size);
    part->error = error(*part);
    part->poor = part->error > kPoor * SizeOf(*part, sum_);
  };
  const auto poor = [](const Part& part) { return part.poor; };
  const auto bends = [this](const Part& part) { return part.error > kBent * SizeOf(part, sum_); };
  for (Part& part : parts_) take(&part, sum_);
  if (std::any_of(parts_.begin(), parts_.end(), bends) && SumAt(k, ParameterStencils::kFine, evaluate)) {
    for (Part& part : parts_) {
      if (!bends(part) || !(error(part) < kMended * part.error)) continue;
      take(&part, wide_);
      part.poor = false;
    }
  }
  for (Part& part : parts_) part.rounding = part.error;
  for (const Reach reach : {ParameterStencils::kWide, ParameterStencils::kWidest}) {
    if (std::none_of(parts_.begin(), parts_.end(), poor) || !SumAt(k, reach, evaluate)) break;
    for (Part& part : parts_) {
      if (!part.poor) continue;
      const auto is_good = [&](const Part& other) {  // in all that these rows count for
        if (other.begin != part.begin || other.size == 0) return true;
        const double small = kPoor * SizeOf(other, sum_);
        return SizeOf(other, inner_) <= std::max(other.error, small) &&
               SizeOf(other, apart_) <= kNear * std::max({other.error, other.rounding, small});
      };
      if (SizeOf(part, inner_) < part.error && std::all_of(parts_.begin(), parts_.end(), is_good)) {
        take(&part, wide_);
      } else if (error(part) > part.error) {  // no rounding, which would have become less
        part.poor = false;
      }
      part.rounding *= kWiden;
    }
  }
}

double ParameterDifference::SizeOf(const Part& part, const VectorXd& rows) const {
  if (part.size == 0) return 0;
  const auto sizes = rows.segment(part.begin, part.size).cwiseAbs();
  return part.weighed ? sizes.cwiseProduct(weights_).maxCoeff() : sizes.maxCoeff();
}

// (4 f₁ − f₂ − 3 f₀) / 2h with f₁, f₂ at h and 2h of one side
void ParameterDifference::SumOneSide(double h, int near, int far, VectorXd* sum) const {
  *sum = (4 * (values_[near] - center_) - (values_[far] - center_)) / (2 * h);
}

// (Q8) over twice the nudge second differences of smooth functions grow fourfold, first ones twofold
ParameterDifference::Bend ParameterDifference::LookForCorners() const {
  Bend bend;
  for (Eigen::Index i = 0; i < center_.size(); i++) {
    double v[4], most = 0;
    for (int p = 0; p < 4; p++) most = std::max(most, std::abs(v[p] = values_[p][i] - center_[i]));
    const double allowed = kRowCorner * most + rounding_[i];
    const double even = 4 * (v[1] + v[2]) - (v[0] + v[3]), odd = 2 * (v[2] - v[1]) - (v[3] - v[0]);
    if (!(std::max(std::abs(even), std::abs(odd)) > allowed)) continue;
    bend.corner = true;
    const double gap = kJump * most + kClear * rounding_[i];
    bend.jump[0] = bend.jump[0] || std::abs(2 * v[1] - v[0]) > gap;
    bend.jump[1] = bend.jump[1] || std::abs(2 * v[2] - v[3]) > gap;
  }
  return bend;
}

void ParameterDifference::Compute(const mjModel* m, const mjData* d, const VectorXd& a, Columns* out,
                                  const std::vector<char>* skip) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
  for (MatrixXd* matrix : {&out->residual, &out->acceleration}) matrix->setZero(nv, size());
  for (MatrixXd* matrix : {&out->activation, &out->activation_rate}) matrix->setZero(na, size());
  if (skip && std::find(skip->begin(), skip->end(), 0) == skip->end()) return;
  sensors_ = false;
  residual_.Capture(m, d);
  residual_.CaptureJumping(m, d);
  reproducible_ = residual_.Evaluate(stencils_.Center(), a, &center_);
  rounding_ = kRowRounding * center_.cwiseAbs();
  rounding_.head(nv).setConstant(kRowRounding * LargestForce(m, d));
  rounding_.segment(nv, nv).setConstant(kRowRounding * Largest(d->qacc, nv));
  parts_ = {{0, nv, true}, {0, nv}, {nv, nv}, {2 * nv, na}, {2 * nv + na, na}};
  weights_ = Eigen::Map<const VectorXd>(m->dof_M0, nv).cwiseMax(mjMINVAL).cwiseInverse();
  branch_.assign(static_cast<std::size_t>(na), 0);
  for (int i = 0; i < m->nactuator && reproducible_; i++) {
    const mjtNum* range = m->actuator_actrange + 2 * i;
    const int begin = m->actuator_actadr[i], end = begin + m->actuator_actnum[i];
    for (int j = begin; begin >= 0 && m->actuator_actlimited[i] && j < end; j++) {
      const double next = center_[2 * nv + j];
      branch_[static_cast<std::size_t>(j)] = next < range[0] ? -1 : next > range[1] ? 1 : 0;
    }
  }
  HoldClamped(m, &center_);

  // first what enters the position stage, under mjINT_DISCRETE springs too; the others then share that of the point
  bool moved = false;
  for (const bool position : {true, false}) {
    if (!position && moved) {
      residual_.Evaluate(stencils_.Center(), a, &center_);
      HoldClamped(m, &center_);
    }
    for (int k = 0; k < size(); k++) {
      std::string& failed = failed_[static_cast<std::size_t>(k)];
      if ((IsDiscrete(m) || EntersPosition(stencils_.field(k))) != position) continue;
      if (!failed.empty() || (skip && (*skip)[static_cast<std::size_t>(k)])) continue;
      if (!reproducible_) failed = "the active set of the point itself is not reproducible";
      const auto at = [&](int point, Reach reach, VectorXd* value) {
        const mjModel* model = stencils_.Model(k, point, reach);
        moved = moved || position;
        if (!residual_.Evaluate(model, a, value, position)) return false;
        HoldClamped(model, value);
        return true;
      };
      if (failed.empty() && !Difference(k, at)) failed = kLeftPiece;
      if (!failed.empty()) continue;
      out->residual.col(k) = sum_.head(nv);
      out->acceleration.col(k) = sum_.segment(nv, nv);
      out->activation.col(k) = sum_.segment(2 * nv, na);
      out->activation_rate.col(k) = sum_.tail(na);
    }
  }
}

void ParameterDifference::Sensors(const mjModel* m, const mjData* d, const VectorXd& a, const MatrixXd& da,
                                  const std::function<void(double*)>& solve, MatrixXd* out) {
  out->setZero(m->nsensordata, size());
  if (m->nsensordata == 0) return;
  sensors_ = true;
  residual_.Capture(m, d);
  residual_.CaptureJumping(m, d);
  residual_.EvaluateSensors(stencils_.Center(), a, solve, &center_);
  rounding_ = kRowRounding * center_.cwiseAbs();
  parts_.resize(static_cast<std::size_t>(m->nsensor));
  for (int i = 0; i < m->nsensor; i++) {
    parts_[static_cast<std::size_t>(i)] = {m->sensor_adr[i], m->sensor_dim[i]};
    const double terms = LargestTerm(m, d, m->sensor_needstage[i]);
    for (int row = m->sensor_adr[i]; row < m->sensor_adr[i] + m->sensor_dim[i]; row++) {
      if (HeldByCutoff(m, center_.data(), i, row)) rounding_[row] = kInf;
      else rounding_[row] += kRowRounding * terms;
    }
  }
  for (int k = 0; k < size(); k++) {
    std::string& failed = failed_[static_cast<std::size_t>(k)];
    if (!failed.empty()) continue;
    const auto at = [&](int point, Reach reach, VectorXd* value) {
      moved_ = a + stencils_.Points(k, reach)[static_cast<std::size_t>(point)].offset * da.col(k);
      return residual_.EvaluateSensors(stencils_.Model(k, point, reach), moved_, solve, value);
    };
    if (Difference(k, at)) out->col(k) = sum_;
    else failed = kLeftPiece;
  }
  for (int i = 0; i < m->nsensor; i++) {
    for (int row = m->sensor_adr[i]; row < m->sensor_adr[i] + m->sensor_dim[i]; row++) {
      if (HeldByCutoff(m, center_.data(), i, row)) out->row(row).setZero();
    }
  }
}

void ParameterDifference::ActivationUpdate(const mjModel* m, const mjtNum* act, const double* sum_rate, MatrixXd* out) {
  out->setZero(m->na, size());
  if (m->na == 0) return;
  for (int i = 0; i < m->nactuator; i++) {
    const int begin = m->actuator_actadr[i], end = begin + m->actuator_actnum[i];
    for (int j = begin; begin >= 0 && j < end; j++) {
      // on the branch of the clamp that the point is on
      const ActivationStep update = ActivationStepOf(m, i, j - begin);
      const double free = act[j] + update.step * sum_rate[j];
      const auto next = [&](const ActivationStep& u) {
        return free < update.lower ? u.lower : free > update.upper ? u.upper : act[j] + u.step * sum_rate[j];
      };
      const double center = next(update);
      for (int k = 0; k < size(); k++) {
        const auto& points = stencils_.Points(k);
        for (std::size_t p = 0; p < points.size(); p++) {
          const mjModel* moved = stencils_.Model(k, static_cast<int>(p));
          (*out)(j, k) += points[p].weight * (next(ActivationStepOf(moved, i, j - begin)) - center);
        }
      }
    }
  }
}

}  // namespace costate
