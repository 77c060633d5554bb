// How a column of level 2 is differenced: nudges on the point's side of clamps and switches, extrapolated.
#include "derivative/residual_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/actuator_range.h"
#include "core/extremes.h"
#include "derivative/actuation.h"
#include "derivative/extrapolate.h"
#include "derivative/passive.h"
#include "derivative/step_stencil.h"

namespace costate {

namespace {

// nudges, each half the one before: as many as make the extrapolation sure, of `least` to `most`, and up to `last`
// while fewer than that have the active set of the point, or the function may turn a corner within all of them
struct Ladder {
  double first;
  int least, most, last;
};
constexpr Ladder kSoft = {4e-3, 3, 10, 20};  // of max(1, |value|)
// of positions that contacts feel: the impedance bends within a millimetre
constexpr Ladder kStiff = {1.28e-4, 3, 11, 17};
constexpr Ladder kStiffInput = {1e-2, 3, 12, 22};  // of what moves y alone: cones bend
constexpr Ladder kSensed = {1.28e-4, 3, 8, 15};    // of positions that sensors of forces feel
constexpr Ladder kBends = {3.2e-5, 3, 6, 13};      // of kinematics that may turn a corner
constexpr int kMostNudges = kStiffInput.last;      // of all of these
constexpr int kRoundingSamples = 4;
constexpr double kRoundingNudge = 1e-11;  // squared, times the curvature of the stiffest contact, it is below rounding
constexpr int kOneSided = 4;              // least sizes to one side: an order more would be lost
constexpr double kSure = 1e-10;           // of the largest entry, or …
constexpr double kRounding = 16;          // … roundings of the first quotient: smaller nudges do not help
constexpr int kLonger = 5;                // nudges beyond the longest, each twice the one before, where rounding rules
constexpr double kRoundingGrows = 0.5;    // by how much at least quotients of half the size then differ more
constexpr double kUnsure = 1e3;           // of what is sure: there may be a corner within all nudges so far …
constexpr double kCorner = 0.1;           // … and of the error, what nudges that do not reach it leave at most
constexpr double kExcused = 0.1;          // of its distance to the value of all rows, the error that a row has alone
constexpr double kStays = 30;  // of what is sure: an error so small that one nudge more leaves as it was is rounding

// Of kinematics, by seven points of which the nearest are half of this away: wide ones, whose rounding is below 1e-12,
// and near ones, that may stay on one side of a corner.
constexpr double kSmoothSteps[] = {4e-3, 6e-6}, kSmoothInputStep = 0.1;
// what the values of the inner and of the outer five of them may differ by, of a row: beyond it a row has corners, or
// distances that are short beside the step
constexpr double kSmoothBend = 1e-9;

// the engine turns an interpolated flex with its nodes from where it was turned before, and not at all within 1e-7
constexpr int kMostInterpolated = 8;
bool AnyInterpolated(const mjModel* m) {
  return std::any_of(m->flex_interp, m->flex_interp + m->nflex, [](int interp) { return interp != 0; });
}

// is a limited value inside its range, and how far may it move
struct Room {
  bool down = true, up = true;
};
Room RoomIn(bool limited, const mjtNum* range, double value, double reach) {
  if (!limited || value < range[0] || value > range[1]) return {};
  return {value - reach >= range[0], value + reach <= range[1]};
}
Room Both(Room x, Room y) { return {x.down && y.down, x.up && y.up}; }

// (A3) a muscle's control or activation: within [0, 1], and on the point's side of where the two are equal
Room MuscleRoom(const mjModel* m, const mjData* d, int actuator, bool moves_ctrl, double reach) {
  if (m->actuator_dyntype[actuator] != mjDYN_MUSCLE) return {};
  constexpr mjtNum kUnit[] = {0, 1};
  const double act = d->act[m->actuator_actadr[actuator]];
  const double ctrl = ClampedControl(m, d, actuator);
  const Room clip = RoomIn(true, kUnit, moves_ctrl ? ctrl : act, reach);
  const double excess = mju_clip(ctrl, 0, 1) - act;
  if (m->actuator_dynprm[mjNDYN * actuator + 2] >= mjMINVAL || excess == 0 || std::abs(excess) > reach) return clip;
  return Both(clip, {moves_ctrl == (excess < 0), moves_ctrl == (excess > 0)});
}

// (P1) a damper of |v| bends at rest: nudges of what moves go on as it does
Room ReversalRoom(const mjModel* m, int dof, double velocity, double reach) {
  if (velocity == 0 || std::abs(velocity) > reach || mju_isZero(DofDamping(m, dof).poly, mjNPOLY)) return {};
  const bool back = velocity < 0;
  return {back, !back};
}

// how far a column of (q, v, w, u) may move on the point's side of its clamps
Room RoomOf(const mjModel* m, const mjData* d, const std::vector<ActivationSide>& sides, const Dims& dims, int column,
            double reach) {
  if (column >= dims.ndx) {
    const int u = column - dims.ndx, i = ActuatorOfControl(m, u);
    if (m->actuator_delay[i] > 0) return {};  // it acts in a later step
    const mjtNum* range = ControlRange(m, u);
    return Both(RoomIn(range != nullptr, range, d->ctrl[u], reach), MuscleRoom(m, d, i, true, reach));
  }
  if (column >= dims.nv && column < 2 * dims.nv)
    return ReversalRoom(m, column - dims.nv, d->qvel[column - dims.nv], reach);
  const int act = column - 2 * dims.nv, i = act >= 0 ? ActuatorOfAct(m, act) : -1;
  if (i < 0) return {};
  const Room held = RoomIn(true, sides[act].range, d->act[act], reach);
  if (sides[act].held) return held;
  return Both(Both(RoomIn(m->actuator_actlimited[i], m->actuator_actrange + 2 * i, d->act[act], reach), held),
              MuscleRoom(m, d, i, false, reach));
}

}  // namespace

ResidualDifference::Stage ResidualDifference::StageOf(int column) const {
  if (column < dims_.nv) return kPosition;
  return column < 2 * dims_.nv ? kVelocity : kActuation;
}

// the probe's state, control and context become those of the point
void ResidualDifference::Restore(const mjModel* m) { mj_setState(m, probe_.get(), state_.data(), mjSTATE_INTEGRATION); }

void ResidualDifference::Move(const mjModel* m, int column, double offset) {
  Restore(m);
  if (offset != 0) MoveColumn(m, dims_, column, offset, &direction_, probe_.get());
}

// One column by nudges h, h/2, h/4 … whose points all have the captured active set, extrapolated (J2): to both sides of
// the point or, where too few of them have one, to one side.
bool ResidualDifference::Column(const mjModel* m, const Evaluation& evaluate, int column, const VectorXd& center,
                                Eigen::Ref<VectorXd> out) {
  const Stage stage = StageOf(column);
  double scale = 1;
  if (column >= dims_.ndx) {
    scale = std::max(1.0, std::abs(probe_->ctrl[column - dims_.ndx]));
  } else if (column >= 2 * dims_.nv) {
    scale = std::max(1.0, std::abs(probe_->act[column - 2 * dims_.nv]));
  } else if (column >= dims_.nv) {
    scale = std::max(1.0, std::abs(probe_->qvel[column - dims_.nv]));
  } else if (stiff_) {
    scale = 1 / std::max(1.0, lever_[column]);
  }
  const auto at = [&](int k, double step) {
    Move(m, column, k * step);
    column_ = column;
    offset_ = k * step;
    return evaluate(stage, &values_[k + 4]);
  };
  // kinematics, as far as they turn no corner
  rough_.assign(smooth_ ? center.size() : 0, 1);
  for (double wide : kSmoothSteps) {
    if (!smooth_) break;
    if (stage != kPosition && wide == kSmoothSteps[0]) wide = kSmoothInputStep;
    Restore(m);
    const Room room = RoomOf(m, probe_.get(), sides_, dims_, column, 2 * wide * scale);
    if (!room.down || !room.up) continue;
    for (int k : {-4, -2, -1, 1, 2, 4}) at(k, wide * scale / 2);
    if (TakeSmooth(wide * scale / 2, out)) return true;
  }
  return Climb(m, at, column, center, scale, out);
}

// Rows of a column from seven points, `step` apart near the point: those of which the inner five say what the outer
// five do. @return have all rows of the column a value now?
bool ResidualDifference::TakeSmooth(double step, Eigen::Ref<VectorXd> out) {
  const VectorXd* f = values_ + 4;
  VectorXd inner(out.size()), outer(out.size());
  FivePoints(f, step, inner);
  FivePoints(f, 2 * step, outer, 2);
  bool all = true;
  for (Eigen::Index i = 0; i < out.size(); i++) {
    if (!rough_[i]) continue;
    const double size = std::max(std::abs(f[4][i]), std::abs(f[-4][i]));
    const double rounding = kRounding * std::max(std::numeric_limits<double>::epsilon() * size, noise_[i]) / step;
    rough_[i] = !(std::abs(inner[i] - outer[i]) <= kSmoothBend * std::abs(inner[i]) + rounding);
    // the error of five points is of the fourth order
    if (!rough_[i]) out[i] = (16 * inner[i] - outer[i]) / 15;
    all = all && !rough_[i];
  }
  return all;
}

// The same by a ladder of nudges.
bool ResidualDifference::Climb(const mjModel* m, const std::function<bool(int, double)>& at, int column,
                               const VectorXd& center, double scale, Eigen::Ref<VectorXd> out) {
  const Stage stage = StageOf(column);
  const Ladder& stiff = stage != kPosition ? kStiffInput : sensed_ ? kSensed : kStiff;
  Ladder ladder = smooth_ ? kBends : stiff_ ? stiff : kSoft;
  if (stiff_ && AnyInterpolated(m)) ladder.most = ladder.last = std::min(ladder.most, kMostInterpolated);
  for (const bool clamped : {true, false}) {  // a range narrower than every nudge is none
    for (Quotients& side : quotients_) side.count = 0;
    largest_ = center.cwiseAbs();
    double error = kInf;
    first_ = ladder.first * scale;
    const auto nudge = [&](int k) {
      const double h = std::ldexp(first_, -k);
      Restore(m);
      const Room room = clamped ? RoomOf(m, probe_.get(), sides_, dims_, column, h) : Room();
      const bool down = room.down && at(-1, h), up = room.up && at(1, h);
      const VectorXd &below = values_[3], &above = values_[5];
      quotients_[kBoth].Add(down && up, h, above, below, 2 * h);
      quotients_[kUp].Add(up, h, above, center, h);
      quotients_[kDown].Add(down, h, center, below, h);
      if (down) largest_ = largest_.cwiseMax(below.cwiseAbs());
      if (up) largest_ = largest_.cwiseMax(above.cwiseAbs());
    };
    const auto settle = [&](int count) {
      if (smooth_ || sensed_) return true;
      FindExcused(out);
      for (int k = count; TakeExcused(k >= ladder.most, out) && k < ladder.last; k++) nudge(k);
      return true;
    };
    for (int k = 0; k < ladder.last; k++) {
      nudge(k);
      // beyond `most` a corner that was passed shows at once, in kinematics to all digits; all else is noise
      double bound = kInf;
      if (k >= ladder.most) bound = smooth_ ? std::min(kCorner * error, kUnsure) : kCorner * error;
      bool enough = false;
      double now = bound;
      for (const int side : {kBoth, kUp, kDown}) {
        const int count = quotients_[side].count;
        if (count < 2) continue;
        now = std::min(now, ExtrapolateSide(side, now, out));
        enough = enough || count >= (side == kBoth ? ladder.least : kOneSided);
        if (side == kBoth && enough && quotients_[kBoth].first == first_) break;
      }
      if (!(now < bound)) continue;
      const bool sure = now <= 1 || (now <= kStays && now == error);
      error = now;
      if (k + 1 == ladder.least && stiff_ && stage == kPosition && RoundingRules(ladder.least)) {
        Ascend(at, out);
        return settle(k + 1);
      }
      if (enough && ((sure && !bends_) || (k + 1 >= ladder.most && error < kUnsure))) return settle(k + 1);
    }
    if (std::isfinite(error)) return settle(ladder.last);
  }
  return false;
}

// Are the quotients of both sides that there are, `count` from the longest nudge on, apart by rounding alone?
bool ResidualDifference::RoundingRules(int count) const {
  const Quotients& q = quotients_[kBoth];
  if (q.count != count || q.first != first_) return false;
  bool rules = false;
  Eigen::Index begin = 0;
  for (const int rows : parts_) {
    if (rows == 0) continue;
    const auto apart = [&](int k) {
      return (q.table.col(k) - q.table.col(k - 1)).segment(begin, rows).cwiseAbs().maxCoeff();
    };
    const double last = apart(count - 1);
    const double rounding = std::max(Rounding(q, begin, rows), shown_.segment(begin, rows).maxCoeff());
    if (std::ldexp(last * q.first, 1 - count) > kRounding * rounding) return false;
    rules = rules || last > kRoundingGrows * apart(count - 2);
    begin += rows;
  }
  return rules;
}

// of rows that err together: a rounding of the value, and what one of positions makes of it
double ResidualDifference::Rounding(const Quotients& q, Eigen::Index begin, int rows) const {
  const double size =
      largest_.segment(begin, rows).maxCoeff() + q.table.block(begin, 0, rows, q.count).cwiseAbs().maxCoeff();
  return std::max(std::numeric_limits<double>::epsilon() * size, noise_.segment(begin, rows).maxCoeff());
}

// One row by a choice of sizes of its own: of both sides or, where they lack the longest nudges, of the side that is
// surest.
ResidualDifference::RowValue ResidualDifference::Alone(Eigen::Index row) const {
  RowValue best;
  for (const int side : {kBoth, kUp, kDown}) {
    const Quotients& q = quotients_[side];
    if (q.count < 2) continue;
    double quotients[kMostNudges];
    for (int k = 0; k < q.count; k++) quotients[k] = q.table(row, k);
    const double largest = largest_[row] + q.table.row(row).head(q.count).cwiseAbs().maxCoeff();
    const double rounding = std::max({std::numeric_limits<double>::epsilon() * largest, noise_[row], shown_[row]});
    Extrapolation entry = Extrapolate(quotients, q.count, side == kBoth, rounding / q.first);
    if (entry.bends) entry.error = BendError(quotients, q.count, entry, rounding / q.first);
    if (entry.error < best.error) {
      const double size = std::max(row_sizes_[row], std::abs(entry.value));
      best = {entry.value, entry.error, kSure * size + kRounding * rounding / std::min(q.first, first_)};
    }
    if (side == kBoth && q.first >= first_) break;
  }
  return best;
}

// Rows whose errors the largest row of their part excuses: alone they are far from sure, or surely elsewhere.
void ResidualDifference::FindExcused(const Eigen::Ref<VectorXd>& out) {
  excused_.clear();
  for (Eigen::Index row = 0; row < out.size(); row++) {
    const RowValue alone = Alone(row);
    if (std::max(alone.error, std::abs(alone.value - out[row])) > kUnsure * alone.sure)
      excused_.push_back({row, out[row], kInf});
  }
}

// Those that are now surer alone than near what all rows chose. @return are there any that nudges may still tell of?
bool ResidualDifference::TakeExcused(bool late, Eigen::Ref<VectorXd> out) {
  bool more = false;
  for (ExcusedRow& excused : excused_) {
    const RowValue alone = Alone(excused.row);
    if (alone.error < std::min(kExcused * std::abs(alone.value - excused.common), excused.error)) {
      out[excused.row] = alone.value;
      excused.error = alone.error;
    }
    more = more || alone.error > (late ? kUnsure : 1) * alone.sure;
  }
  row_sizes_ = row_sizes_.cwiseMax(out.cwiseAbs());
  return more;
}

// Longer nudges, while both sides have the active set of the point: what they make of the column, where that errs less.
void ResidualDifference::Ascend(const std::function<bool(int, double)>& at, Eigen::Ref<VectorXd> out) {
  Quotients& both = quotients_[kBoth];
  noise_.swap(shown_);  // what is apart by rounding is judged by all of it
  double error = ExtrapolateSide(kBoth, kInf, out);
  for (int k = 0; k < kLonger; k++) {
    const double h = 2 * both.first;
    if (!at(-1, h) || !at(1, h)) break;
    const VectorXd &below = values_[3], &above = values_[5];
    largest_ = largest_.cwiseMax(below.cwiseAbs()).cwiseMax(above.cwiseAbs());
    both.Prepend(h, above, below);
    error = std::min(error, ExtrapolateSide(kBoth, error, out));
  }
  noise_.swap(shown_);
}

void ResidualDifference::Quotients::Prepend(double h, const VectorXd& above, const VectorXd& below) {
  for (int k = count++; k > 0; k--) table.col(k) = table.col(k - 1);
  table.col(0) = (above - below) / (2 * h);
  first = h;
}

void ResidualDifference::Quotients::Add(bool good, double h, const VectorXd& above, const VectorXd& below,
                                        double distance) {
  if (!good) {
    count = 0;
    return;
  }
  if (count == 0) first = h;
  if (table.rows() != above.size() || table.cols() != kMostNudges) table.resize(above.size(), kMostNudges);
  table.col(count++) = (above - below) / distance;
}

// The quotients of one side, extrapolated (J2), into `out` if their worst error is below `most`; it is in units of what
// is sure. Rows of one kind have one choice of sizes: what is left of forces of constraints is then one, too, as stiff
// as H.
double ResidualDifference::ExtrapolateSide(int side, double most, Eigen::Ref<VectorXd> out) {
  const Quotients& q = quotients_[side];
  candidate_.setZero(out.size());
  bends_ = false;
  double error = 0;
  Eigen::Index begin = 0;
  for (std::size_t part = 0; part < parts_.size(); part++) {
    const int rows = parts_[part];
    if (rows == 0) continue;
    const auto table = q.table.block(begin, 0, rows, q.count);
    const double rounding = Rounding(q, begin, rows);
    const double noise = rounding / q.first;
    const CommonExtrapolation entries = Extrapolate(table, side == kBoth, noise);
    if (std::isfinite(entries.error)) candidate_.segment(begin, rows) = entries.value;
    bends_ = bends_ || entries.bends;
    sizes_[part] = std::max(sizes_[part], candidate_.segment(begin, rows).cwiseAbs().maxCoeff());
    if (entries.error > 0)
      error =
          std::max(error, entries.error / (kSure * sizes_[part] + kRounding * rounding / std::min(q.first, first_)));
    begin += rows;
  }
  if (error < most) out = candidate_;
  return error;
}

// What is left of f(c ⊕ δ) + f(c ⊖ δ) − 2 f(c) when δ is too small for any curvature: of forces of constraints more
// than a rounding of the value, since they are differences of what is stiff.
void ResidualDifference::MeasureNoise(const mjModel* m, const Evaluation& evaluate, const VectorXd& center) {
  shown_.setZero(center.size());
  VectorXd &below = values_[3], &above = values_[5];
  for (int sample = 0; sample < kRoundingSamples; sample++) {
    const auto at = [&](double nudge, VectorXd* value) {
      Restore(m);
      direction_.resize(dims_.nv);
      for (int i = 0; i < dims_.nv; i++) direction_[i] = std::sin(1.7 * i + 2.3 * sample + 1);
      mj_integratePos(m, probe_->qpos, direction_.data(), nudge);
      return evaluate(kPosition, value);
    };
    if (at(-kRoundingNudge, &below) && at(kRoundingNudge, &above))
      shown_ = shown_.cwiseMax((above + below - 2 * center).cwiseAbs() / 2);
  }
  // rows of r are weighed together: the least sure would excuse all. A sum of accelerations that cancel has the
  // rounding of each, which may be the same at every short nudge.
  if (smooth_ || sensed_) noise_ = shown_;
  else noise_.setZero(center.size());
  if (smooth_) noise_ = noise_.cwiseMax(std::numeric_limits<double>::epsilon() * cancelled_);
}

bool ResidualDifference::Differences(const mjModel* m, const Evaluation& evaluate, int rows, MatrixXd* out,
                                     std::string* reason) {
  const int columns = dims_.ndx + dims_.nu;
  out->resize(rows, columns);
  VectorXd center;
  out->rightCols(columns - last_column_).setZero();
  for (int column = 0; column < last_column_; column++) {
    // the stages before the one that this column moves are those of the point
    if (column == 0 || StageOf(column) != StageOf(column - 1)) {
      sizes_.assign(parts_.size(), 0);
      row_sizes_.setZero(rows);
      group_ = StageOf(column);
      Move(m, column, 0);
      column_ = -1;
      if (!evaluate(kPosition, &center)) {
        *reason = "the active set of the point itself is not reproducible";
        return false;
      }
      if (column == 0) MeasureNoise(m, evaluate, center);
    }
    Restore(m);
    if (!Column(m, evaluate, column, center, out->col(column))) {
      const bool control = column >= dims_.ndx;
      const std::string name = control ? ControlNames(m)[column - dims_.ndx] : TangentNames(m)[column];
      *reason = "every neighbour along " + name + " has another set of contacts or of forces at limits";
      return false;
    }
  }
  return true;
}

}  // namespace costate
