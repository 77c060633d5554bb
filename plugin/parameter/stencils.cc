#include "parameter/stencils.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "parameter/parameter_set.h"

namespace costate {
namespace {

// the rest of the last word of an array may be another array's: that is restored with it
std::uint64_t Word(const mjModel* m, std::size_t offset) {
  std::uint64_t word;
  std::memcpy(&word, Bytes(m) + offset, sizeof(word));
  return word;
}

constexpr double kNudges[] = {1, 1.0 / 30, 64, 4096};
constexpr double kFirstRung[] = {16, 0.5, 512, 4096};  // of ladders; 1e4 nudges are the number's size
constexpr int kOffsets = 5;
constexpr double kCentered[kOffsets] = {1, -8, 0, 8, -1};      // at −2 … 2, over 12 h
constexpr double kForward[kOffsets] = {-25, 48, -36, 16, -3};  // at 0 … 4, over 12 h

// The engine takes frames within 1e-6 of each other for one, and a stencil's points would not move: none of those that
// the parameter places
void PartFrames(const Field& field, int id, mjModel* m) {
  const std::string array = field.array;
  if (array == "geom_pos" || array == "geom_quat") m->geom_sameframe[id] = mjSAMEFRAME_NONE;
  if (array == "site_pos" || array == "site_quat") m->site_sameframe[id] = mjSAMEFRAME_NONE;
  if (array != "body_ipos" && field.writer != Writer::kLogCholesky) return;
  m->body_sameframe[id] = mjSAMEFRAME_NONE;
  for (int i = 0; i < m->ngeom; i++) {
    if (m->geom_bodyid[i] == id) m->geom_sameframe[i] = mjSAMEFRAME_NONE;
  }
  for (int i = 0; i < m->nsite; i++) {
    if (m->site_bodyid[i] == id) m->site_sameframe[i] = mjSAMEFRAME_NONE;
  }
}

// bounds and clamps on the value's side, on an edge inside
std::pair<double, double> SmoothRange(const Parameter& p, double value) {
  if (value < p.clamp_lower) return {p.lower, std::min(p.upper, p.clamp_lower)};
  if (value > p.clamp_upper) return {std::max(p.lower, p.clamp_upper), p.upper};
  return {std::max(p.lower, p.clamp_lower), std::min(p.upper, p.clamp_upper)};
}

}  // namespace

ParameterStencils::ParameterStencils(const ParameterSet& set) : set_(set) { Refresh(set); }

const Field& ParameterStencils::field(int k) const { return *set_.impl_->blocks[set_.impl_->at[k].first].field; }
int ParameterStencils::element(int k) const { return set_.impl_->blocks[set_.impl_->at[k].first].id; }
int ParameterStencils::index(int k) const { return set_.impl_->at[k].second; }
const VectorXd& ParameterStencils::block(int k) const { return set_.impl_->blocks[set_.impl_->at[k].first].value; }

void ParameterStencils::Refresh(const ParameterSet& set) {
  if (made_ && revision_ == set.revision()) return;
  Undo();
  const VectorXd values = set.Get();
  for (std::vector<Stencil>& stencils : stencils_) stencils.assign(static_cast<std::size_t>(set_.size()), {});
  for (int k = 0; k < set_.size(); k++) {
    set_.Set(values);
    stencils_[0][static_cast<std::size_t>(k)] = Make(k, set_[k].nudge, &set_, set.model());
  }
  set_.Set(values);
  for (auto& rungs : rungs_) {
    rungs.clear();
    rungs.resize(static_cast<std::size_t>(set_.size()));
  }
  revision_ = set.revision();
  made_ = true;
}

// `moved` holds the values about which; it is left elsewhere
ParameterStencils::Stencil ParameterStencils::Make(int k, double nudge, ParameterSet* moved,
                                                   const mjModel* base) const {
  const Parameter& p = set_[k];
  VectorXd at = moved->Get();
  const double value = at[k];
  const auto [lower, upper] = SmoothRange(p, value);
  const double h = std::min(nudge, (upper - lower) / 8);  // there is room to one side at least
  const double side = value + 4 * h <= upper ? 1 : -1;
  const bool centered = value - 2 * h >= lower && value + 2 * h <= upper;
  Stencil stencil;
  for (int i = 0; i < kOffsets; i++) {
    const double weight = centered ? kCentered[i] : side * kForward[i], offset = centered ? (i - 2) * h : side * i * h;
    if (weight == 0) continue;
    stencil.points.push_back({weight / (12 * h), offset});
    stencil.changes.push_back(MakeChange(k, value + offset, &at, moved, base));
  }
  return stencil;
}

ParameterStencils::Change ParameterStencils::MakeChange(int k, double value, VectorXd* at, ParameterSet* moved,
                                                        const mjModel* base) const {
  (*at)[k] = value;
  moved->Set(*at);
  PartFrames(field(k), element(k), moved->impl_->model.get());
  return Difference(moved->model(), base);
}

ParameterStencils::Ladder ParameterStencils::LadderOf(int k, Reach reach) const {
  const double value = block(k)[index(k)], nudge = set_[k].nudge;
  const auto [lower, upper] = SmoothRange(set_[k], value);
  const double below = value - lower, above = upper - value, first = kFirstRung[reach] * nudge;
  if (std::min(below, above) >= first / kFirstRung[kUsual]) return {std::min({first, below, above}), 0};
  return {std::min(first, std::max(below, above)), above >= below ? 1 : -1};
}

const mjModel* ParameterStencils::Rung(int k, Reach reach, int size, int side) {
  std::vector<std::unique_ptr<Change>>& rungs = rungs_[reach][static_cast<std::size_t>(k)];
  const std::size_t at = side == 0 ? 0 : static_cast<std::size_t>(2 * size + (side > 0 ? 1 : 2));
  if (rungs.size() <= at) rungs.resize(at + 1);
  if (!rungs[at]) {
    Undo();
    if (!mover_) mover_ = std::make_unique<ParameterSet>(set_);
    VectorXd values = set_.Get();
    const double value = values[k] + side * std::ldexp(LadderOf(k, reach).longest, -size);
    rungs[at] = std::make_unique<Change>(MakeChange(k, value, &values, mover_.get(), set_.model()));
  }
  return Apply(*rungs[at]);
}

const ParameterStencils::Stencil& ParameterStencils::Get(int k, Reach reach) {
  Stencil& stencil = stencils_[reach][static_cast<std::size_t>(k)];
  if (stencil.points.empty()) {
    Undo();
    if (!mover_) mover_ = std::make_unique<ParameterSet>(set_);
    mover_->Set(set_.Get());
    stencil = Make(k, kNudges[reach] * set_[k].nudge, mover_.get(), set_.model());
  }
  return stencil;
}

const std::vector<ParameterStencils::Point>& ParameterStencils::Points(int k, Reach reach) {
  return Get(k, reach).points;
}

ParameterStencils::Change ParameterStencils::Difference(const mjModel* moved, const mjModel* base) const {
  Change change;
  change.scalars = *moved;
  for (const ModelArray& array : set_.impl_->arrays) {
    for (std::size_t i = 0; i < array.bytes; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = Word(moved, array.offset + i);
      if (word != Word(base, array.offset + i)) change.words.emplace_back(array.offset + i, word);
    }
  }
  return change;
}

void ParameterStencils::Undo() {
  char* bytes = Bytes(set_.model());
  for (auto it = undo_.rbegin(); it != undo_.rend(); ++it)
    std::memcpy(bytes + it->first, &it->second, sizeof(it->second));
  undo_.clear();
}

const mjModel* ParameterStencils::Shallow(const mjModel& scalars) {
  // arrays of the set's own model, options and flags of the change
  shallow_ = *set_.model();
  shallow_.opt = scalars.opt;
  shallow_.ngravcomp = scalars.ngravcomp;
  shallow_.flg_gravcomp = scalars.flg_gravcomp;
  shallow_.flg_surfacevel = scalars.flg_surfacevel;
  shallow_.flg_adhesion = scalars.flg_adhesion;
  shallow_.opt.disableflags |= mjDSBL_AUTORESET;
  shallow_.opt.enableflags &= ~mjENBL_SLEEP;
  return &shallow_;
}

const mjModel* ParameterStencils::Center() {
  Undo();
  return Shallow(*set_.model());
}

const mjModel* ParameterStencils::Model(int k, int point, Reach reach) {
  return Apply(Get(k, reach).changes[static_cast<std::size_t>(point)]);
}

const mjModel* ParameterStencils::Apply(const Change& change) {
  Undo();
  char* bytes = Bytes(set_.model());
  for (const auto& [offset, word] : change.words) {
    undo_.emplace_back(offset, Word(set_.model(), offset));
    std::memcpy(bytes + offset, &word, sizeof(word));
  }
  return Shallow(change.scalars);
}

}  // namespace costate
