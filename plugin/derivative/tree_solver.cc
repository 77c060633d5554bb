#include "derivative/tree_solver.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

#include "core/simd.h"

namespace costate {

namespace {
constexpr int kVector = 4;  // entries: a row begins with a vector, so that none is written that is partly another's
constexpr int kSix = BlockedMatrix::kSpare;
using Group = TreeSubstitution::Group;
}  // namespace

TreeSolver::TreeSolver(const int* parent, int nv, const TreeWaist& waist)
    : nv_(nv), parent_(parent, parent + nv), diagonal_(nv), inverse_(nv + kSix, 0.0), waist_(waist) {
  Symbolic();
}

void TreeSolver::BeginCouplings() { pending_.clear(); }

void TreeSolver::Couple(const int* dofs, int count) {
  pending_.push_back(count);
  pending_.insert(pending_.end(), dofs, dofs + count);
}

void TreeSolver::EndCouplings() {
  if (symbolic_valid_ && pending_ == coupling_) return;
  coupling_ = pending_;  // all memory of the pattern's is used again: contacts come and go
  place_.clear();
  Symbolic();
}

void TreeSolver::Symbolic() {
  // rows of H: ancestors, and for each coupled set all other members in the row of its largest dof
  std::vector<std::vector<int>>& rows = pattern_;
  rows.resize(nv_);
  for (int i = 0; i < nv_; i++) {
    rows[i].clear();
    for (int k = parent_[i]; k >= 0; k = parent_[k]) rows[i].push_back(k);
  }
  for (std::size_t at = 0; at < coupling_.size(); at += coupling_[at] + 1) {
    const int* dofs = coupling_.data() + at + 1;
    const int count = coupling_[at];
    if (count < 2) continue;
    const int last = *std::max_element(dofs, dofs + count);
    for (int n = 0; n < count; n++) {
      if (dofs[n] != last) rows[last].push_back(dofs[n]);
    }
  }

  // fill: eliminating row k couples its columns, hence they all enter the row of the largest of them
  for (int k = nv_ - 1; k >= 0; k--) {
    std::vector<int>& row = rows[k];
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    if (row.size() > 1) rows[row.back()].insert(rows[row.back()].end(), row.begin(), row.end() - 1);
  }

  // compressed rows
  std::vector<TreeSubstitution::Row>& all = rows_;
  all.resize(nv_);
  row_start_.clear();
  row_end_.clear();
  column_.clear();
  nnz_ = 0;
  for (int i = 0; i < nv_; i++) {
    row_start_.push_back(static_cast<int>(column_.size()));
    all[i].row = i;
    all[i].column = rows[i];
    all[i].source.resize(rows[i].size());
    std::iota(all[i].source.begin(), all[i].source.end(), row_start_.back());
    column_.insert(column_.end(), rows[i].begin(), rows[i].end());
    nnz_ += static_cast<int>(rows[i].size());
    row_end_.push_back(static_cast<int>(column_.size()));
    column_.resize((column_.size() + kVector - 1) / kVector * kVector, -1);
  }
  FindCoupled();
  value_.assign(column_.size(), 0.0);
  plain_.Build(all);
  narrow_.Clear();
  if (waist_.root >= 0 && !CouplesBehindWaist()) BuildNarrow();
  symbolic_valid_ = true;
}

// nothing for sets in another order, whose first dof's row does not hold the others
void TreeSolver::FindCoupled() {
  coupled_.clear();
  coupled_start_.clear();
  for (std::size_t at = 0; at < coupling_.size(); at += coupling_[at] + 1) {
    const int *begin = coupling_.data() + at + 1, *end = begin + coupling_[at];
    coupled_start_.push_back(static_cast<int>(coupled_.size()));
    if (!std::is_sorted(begin, end, std::greater<int>())) continue;
    for (const int* k = begin; k != end; k++) {
      const auto row = column_.begin() + row_start_[*k], row_end = column_.begin() + row_end_[*k];
      for (const int* l = k + 1; l != end; l++)
        coupled_.push_back(static_cast<int>(std::lower_bound(row, row_end, *l) - column_.begin()));
    }
  }
}

bool TreeSolver::CouplesBehindWaist() const {
  for (std::size_t at = 0; at < coupling_.size(); at += coupling_[at] + 1) {
    const auto begin = coupling_.begin() + at + 1;
    if (coupling_[at] > 1 && std::any_of(begin, begin + coupling_[at], [&](int i) { return waist_.Contains(i); }))
      return true;
  }
  return false;
}

// (S5) as L of six more rows between the trunk and what is behind the waist: w_k = x_root+k + Σ_j C_kj x_j, which the
// rows behind read in place of the root and of the trunk. Their pivots are infinite.
void TreeSolver::BuildNarrow() {
  const int trunk = static_cast<int>(waist_.trunk.size()), first = static_cast<int>(value_.size());
  value_.resize(first + kSix * trunk + 2);
  const int zero = first + kSix * trunk, minus_one = zero + 1;
  value_[zero] = 0;
  value_[minus_one] = -1;
  std::vector<TreeSubstitution::Row>& all = narrow_rows_;
  all.resize(nv_ + kSix);
  std::copy_n(rows_.begin(), waist_.begin, all.begin());
  auto next = all.begin() + waist_.begin;
  const auto add = [&](int number) -> TreeSubstitution::Row& {
    TreeSubstitution::Row& row = *next++;
    row.row = number;
    row.column.clear();
    row.source.clear();
    return row;
  };
  for (int k = 0; k < kSix; k++) {
    // in two groups of three rows, which have the same columns
    TreeSubstitution::Row& row = add(nv_ + k);
    const int group = k / 3 * 3;
    for (int n = group; n < group + 3; n++) {
      row.column.push_back(waist_.root + n);
      row.source.push_back(n == k ? minus_one : zero);
    }
    for (int j = 0; j < trunk; j++) {
      row.column.push_back(waist_.trunk[j]);
      row.source.push_back(first + kSix * j + k);
    }
    // a zero for each row before: what makes one of them not zero makes all
    for (int n = 0; n < k; n++) {
      row.column.push_back(waist_.begin + n);
      row.source.push_back(zero);
    }
  }
  for (int i = waist_.begin; i < nv_; i++) {
    TreeSubstitution::Row& row = add(i);
    const bool behind = waist_.Contains(i);
    for (std::size_t n = 0; n < rows_[i].column.size(); n++) {
      const int j = rows_[i].column[n];
      if (behind && j >= waist_.root + kSix && j < waist_.begin) continue;  // of the trunk
      row.column.push_back(j >= waist_.begin ? j + kSix : behind ? j - waist_.root + waist_.begin : j);
      row.source.push_back(rows_[i].source[n]);
    }
  }
  narrow_.Build(all);
}

void TreeSolver::SetZero() {
  std::fill_n(value_.begin(), column_.size(), 0.0);
  std::fill(diagonal_.begin(), diagonal_.end(), 0.0);
}

bool TreeSolver::AddBelow(int i, int j, double x) {
  if (i < j) std::swap(i, j);
  const auto begin = column_.begin() + row_start_[i], end = column_.begin() + row_end_[i];
  const auto at = std::lower_bound(begin, end, j);
  if (at == end || *at != j) return false;
  value_[at - column_.begin()] += x;
  return true;
}

void TreeSolver::AddRows(const int* start, const int* count, const int* columns, const double* values) {
  if (place_.empty()) {
    for (int i = 0; i < nv_; i++) {
      const int* own = column_.data() + row_start_[i];
      for (int n = 0, at = 0; n < count[i] - 1; n++, at++) {
        while (own[at] != columns[start[i] + n]) at++;
        place_.push_back(row_start_[i] + at);
      }
    }
  }
  const int* place = place_.data();
  for (int i = 0; i < nv_; i++) {
    const double* from = values + start[i];
    const int size = count[i] - 1;
    if (size == row_size(i)) {
      double* to = row(i);
      for (int n = 0; n < size; n++) to[n] += from[n];
    } else {
      for (int n = 0; n < size; n++) value_[place[n]] += from[n];
    }
    place += size;
    diagonal_[i] += from[size];
  }
}

namespace {

// y −= Σ_g l_g x_g by whole vectors: what lies behind a row's n entries may be anything
template <int kGroup>
__attribute__((always_inline)) inline void SubtractGroup(int n, const double* l, double* const* x, double* y) {
  for (int c = 0; c < n; c += kVector) {
    Loose4 all = l[0] * *reinterpret_cast<const Loose4*>(x[0] + c);
    COSTATE_UNROLL for (int g = 1; g < kGroup; g++) all += l[g] * *reinterpret_cast<const Loose4*>(x[g] + c);
    *reinterpret_cast<Loose4*>(y + c) -= all;
  }
}

struct Elimination {
  const int *row_start, *row_end, *column;
  double *value, *diagonal, *inverse;
};

// (S1) the rows of a group, from the last: among each other, then all together from the columns they share
template <int kGroup>
__attribute__((always_inline)) inline bool EliminateGroup(const Elimination& e, int first) {
  const int base = e.row_end[first] - e.row_start[first];
  const int* columns = e.column + e.row_start[first];
  double *row[kGroup], inverse[kGroup];
  for (int g = 0; g < kGroup; g++) row[g] = e.value + e.row_start[first + g];
  for (int k = kGroup - 1; k >= 0; k--) {
    const double pivot = e.diagonal[first + k];
    if (!(pivot > 0)) return false;
    e.inverse[first + k] = inverse[k] = 1 / pivot;
    for (int i = k - 1; i >= 0; i--) {
      const double l = row[k][base + i] * inverse[k];
      e.diagonal[first + i] -= l * row[k][base + i];
      SubtractGroup<1>(base + i, &l, row + k, row[i]);
    }
  }
  for (int n = base - 1; n >= 0; n--) {
    const int i = columns[n], start = e.row_start[i];
    double l[kGroup];
    for (int g = 0; g < kGroup; g++) {
      l[g] = row[g][n] * inverse[g];
      e.diagonal[i] -= l[g] * row[g][n];
    }
    if (e.row_end[i] - start == n) {
      SubtractGroup<kGroup>(n, l, row, e.value + start);
    } else {
      for (int c = 0, at = start; c < n; c++, at++) {
        while (e.column[at] != columns[c]) at++;
        for (int g = 0; g < kGroup; g++) e.value[at] -= l[g] * row[g][c];
      }
    }
  }
  // only now, so that no vector is read of which one entry has just been written
  for (int g = 0; g < kGroup; g++) {
    for (int c = 0; c < base + g; c += kVector) *reinterpret_cast<Loose4*>(row[g] + c) *= inverse[g];
  }
  return true;
}

COSTATE_SIMD bool Eliminate(const Elimination& e, const Group* group, int groups) {
  for (int n = groups - 1; n >= 0; n--) {
    const int first = group[n].first, size = group[n].size;
    const bool positive = size == 1   ? EliminateGroup<1>(e, first)
                          : size == 2 ? EliminateGroup<2>(e, first)
                                      : EliminateGroup<3>(e, first);
    if (!positive) return false;
  }
  return true;
}

}  // namespace

bool TreeSolver::Factor(const double* cdof) {
  const Elimination e = {row_start_.data(), row_end_.data(),  column_.data(),
                         value_.data(),     diagonal_.data(), inverse_.data()};
  if (!Eliminate(e, plain_.groups().data(), static_cast<int>(plain_.groups().size()))) return false;
  read_ = false;
  narrowed_ = cdof && !narrow_.empty();
  if (!narrowed_) return true;
  double* C = value_.data() + column_.size();
  waist_.Express(cdof, C);
  for (std::size_t n = 0; n < kSix * waist_.trunk.size(); n++) C[n] = -C[n];
  return true;
}

// vectors do without
const TreeSubstitution& TreeSolver::ReadyBlocks() const {
  TreeSubstitution& blocks = narrowed_ ? narrow_ : plain_;
  if (!read_) blocks.Read(value_.data());
  read_ = true;
  return blocks;
}

void TreeSolver::Solve(BlockedMatrix* B, bool sparse) const {
  assert(B->rows() == nv_);
  for (int b = 0; b < B->blocks(); b++) SolveBlock(B->block(b), sparse, B->IsHalf(b));
}

bool TreeSolver::SolveBlock(double* block, bool sparse, bool half) const {
  const TreeSubstitution& blocks = ReadyBlocks();
  if (narrowed_) std::fill_n(block + nv_ * BlockedMatrix::kWidth, kSix * BlockedMatrix::kWidth, 0.0);
  return blocks.SolveBlock(inverse_.data(), block, sparse, half);
}

namespace {

struct RowFactors {
  const int *row_start, *row_end, *column;
  const double *value, *inverse;
};

// (S2) for one vector: a group's rows push into their ancestors …
template <int kGroup>
__attribute__((always_inline)) inline void PushVector(const RowFactors& f, int first, double* x) {
  const int begin = f.row_start[first], count = f.row_end[first] - begin;
  const double* value[kGroup];
  for (int g = kGroup - 1; g >= 0; g--) {
    value[g] = f.value + f.row_start[first + g];
    for (int i = 0; i < g; i++) x[first + i] -= value[g][count + i] * x[first + g];
  }
  for (int n = 0; n < count; n++) {
    double sum = 0;
    for (int g = 0; g < kGroup; g++) sum += value[g][n] * x[first + g];
    x[f.column[begin + n]] -= sum;
  }
}

// … and read them back
template <int kGroup>
__attribute__((always_inline)) inline void ReadVector(const RowFactors& f, int first, double* x) {
  const int begin = f.row_start[first], count = f.row_end[first] - begin;
  const double* value[kGroup];
  double sum[kGroup] = {0};
  for (int g = 0; g < kGroup; g++) value[g] = f.value + f.row_start[first + g];
  for (int n = 0; n < count; n++) {
    const double y = x[f.column[begin + n]];
    for (int g = 0; g < kGroup; g++) sum[g] += value[g][n] * y;
  }
  for (int g = 0; g < kGroup; g++) {
    for (int i = 0; i < g; i++) sum[g] += value[g][count + i] * x[first + i];
    x[first + g] = x[first + g] * f.inverse[first + g] - sum[g];
  }
}

COSTATE_SIMD void SubstituteVector(const RowFactors& f, const Group* group, int groups, double* x) {
  for (int n = groups - 1; n >= 0; n--) {
    switch (group[n].size) {
      case 1: PushVector<1>(f, group[n].first, x); break;
      case 2: PushVector<2>(f, group[n].first, x); break;
      default: PushVector<3>(f, group[n].first, x);
    }
  }
  for (int n = 0; n < groups; n++) {
    switch (group[n].size) {
      case 1: ReadVector<1>(f, group[n].first, x); break;
      case 2: ReadVector<2>(f, group[n].first, x); break;
      default: ReadVector<3>(f, group[n].first, x);
    }
  }
}

}  // namespace

void TreeSolver::Solve(double* x) const {
  const std::vector<Group>& groups = plain_.groups();
  SubstituteVector({row_start_.data(), row_end_.data(), column_.data(), value_.data(), inverse_.data()}, groups.data(),
                   static_cast<int>(groups.size()), x);
}

}  // namespace costate
