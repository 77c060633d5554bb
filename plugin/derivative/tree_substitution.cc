#include "derivative/tree_substitution.h"

#include <algorithm>
#include <cstdint>

#include "core/simd.h"

namespace costate {

namespace {
constexpr int kWidth = BlockedMatrix::kWidth;
constexpr double kSparse = 0.75;  // of the entries of L: fewer are pushed, which costs more each
}  // namespace

void BlockedMatrix::Resize(int rows, int cols) {
  rows_ = rows;
  cols_ = cols;
  const std::size_t size = blocks() * Stride(rows) + 8;
  if (storage_.size() < size) storage_.resize(size);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  data_ = storage_.data() + ((64 - address % 64) % 64) / sizeof(double);
}

void BlockedMatrix::SetZero() {
  for (int b = 0; b < blocks(); b++) std::fill_n(block(b), rows_ * kWidth, 0.0);
}

void TreeSubstitution::Build(const std::vector<Row>& rows) {
  const int count = static_cast<int>(rows.size());
  for (std::vector<std::vector<int>>* all : {&below_, &from_}) {
    all->resize(count);
    for (std::vector<int>& of_row : *all) of_row.clear();
  }
  place_.resize(count);
  for (int n = 0; n < count; n++) {
    for (int k : rows[n].column) below_[k].push_back(n);
    place_[rows[n].row] = n;
  }
  row_start_.assign(1, 0);
  col_start_.assign(1, 0);
  for (std::vector<int>* all : {&column_, &source_, &col_row_, &col_source_}) all->clear();
  for (int i = 0; i < count; i++) {
    const Row& row = rows[place_[i]];
    for (int k : row.column) column_.push_back(rows[k].row * kWidth);
    source_.insert(source_.end(), row.source.begin(), row.source.end());
    row_start_.push_back(static_cast<int>(column_.size()));
  }
  for (int n = 0; n < count; n++) {
    for (std::size_t k = 0; k < rows[n].column.size(); k++) from_[rows[n].column[k]].push_back(rows[n].source[k]);
  }
  for (int i = 0; i < count; i++) {
    for (int n : below_[place_[i]]) col_row_.push_back(rows[n].row * kWidth);
    col_source_.insert(col_source_.end(), from_[place_[i]].begin(), from_[place_[i]].end());
    col_start_.push_back(static_cast<int>(col_row_.size()));
  }
  // rows whose entries follow each other are read where they are
  value_start_.assign(count, 0);
  in_place_ = true;
  for (int i = 0; i < count; i++) {
    for (int n = row_start_[i]; n < row_start_[i + 1]; n++)
      in_place_ = in_place_ && source_[n] == source_[row_start_[i]] + n - row_start_[i];
    if (row_start_[i] < row_start_[i + 1]) value_start_[i] = source_[row_start_[i]];
  }
  if (!in_place_) value_start_ = row_start_;
  own_value_.resize(in_place_ ? 0 : source_.size());
  col_value_.resize(col_source_.size());
  FindGroups(rows);
}

void TreeSubstitution::FindGroups(const std::vector<Row>& rows) {
  const int count = static_cast<int>(rows.size());
  const auto alike = [&](int n) {
    const std::vector<int>&own = rows[n].column, &next = rows[n + 1].column;
    return rows[n + 1].row == rows[n].row + 1 && next.size() == own.size() + 1 && next.back() == n &&
           std::equal(own.begin(), own.end(), next.begin()) && below_[n].size() == below_[n + 1].size() + 1 &&
           std::equal(below_[n].begin() + 1, below_[n].end(), below_[n + 1].begin());
  };
  group_.clear();
  group_of_.resize(count);
  for (int n = 0; n < count; n++) {
    const bool joins = n > 0 && group_.back().size < kMaxGroup && alike(n - 1);
    if (joins) group_.back().size++;
    else group_.push_back({rows[n].row, 1});
    group_of_[n] = static_cast<int>(group_.size()) - 1;
  }

  // a group that is not zero makes those of its columns not zero, of which each is an ancestor of the next
  group_parent_.assign(group_.size(), -1);
  active_.resize(group_.size());
  for (int n = 0; n < count; n++) {
    const bool first = rows[n].row == group_[group_of_[n]].first;
    if (first && !rows[n].column.empty()) group_parent_[group_of_[n]] = group_of_[rows[n].column.back()];
  }
}

void TreeSubstitution::Read(const double* value) {
  value_ = in_place_ ? value : own_value_.data();
  for (std::size_t n = 0; n < own_value_.size(); n++) own_value_[n] = value[source_[n]];
  for (std::size_t n = 0; n < col_value_.size(); n++) col_value_[n] = value[col_source_[n]];
}

namespace {

using Factors = TreeSubstitution::Factors;
using Group = TreeSubstitution::Group;

// x_g −= Σ_n value_g[n] · row at index[n] of the first kLanes kParts columns of the block, for the kGroup rows of a
// group: each row that is read serves all, part by part, so that twelve sums of four, three values and one part are all
// that sixteen registers are to hold
template <int kGroup, int kLanes, int kParts>
__attribute__((always_inline)) inline void SubtractRows(int count, const int* index, const double* const* value,
                                                        const double* block,
                                                        typename Lanes<kLanes>::Vector (*x)[kParts]) {
  using Vector = typename Lanes<kLanes>::Vector;
  for (int n = 0; n < count; n++) {
    const Vector* y = reinterpret_cast<const Vector*>(block + index[n]);
    double l[kGroup];
    COSTATE_UNROLL for (int g = 0; g < kGroup; g++) l[g] = value[g][n];
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) {
      Vector part = y[c];
      KeepInRegister(part);
      COSTATE_UNROLL for (int g = 0; g < kGroup; g++) x[g][c] -= l[g] * part;
    }
  }
}

// y_i = b_i − Σ_{k > i} L(k,i) y_k for the rows first … first + kGroup − 1
template <int kGroup, int kLanes, int kParts>
__attribute__((always_inline)) inline void FromLeaves(const Factors& f, int first, double* block) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kStride = kWidth / kLanes;
  Vector* rows = reinterpret_cast<Vector*>(block + first * kWidth);
  Vector x[kGroup][kParts];
  const double* value[kGroup];
  COSTATE_UNROLL for (int g = 0; g < kGroup; g++) {
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c];
    value[g] = f.col_value + f.col_start[first + g] + kGroup - 1 - g;  // behind the group's own rows
  }
  const int last = first + kGroup - 1, begin = f.col_start[last];
  SubtractRows<kGroup, kLanes, kParts>(f.col_start[last + 1] - begin, f.col_row + begin, value, block, x);
  COSTATE_UNROLL for (int g = kGroup - 2; g >= 0; g--) {
    COSTATE_UNROLL for (int k = g + 1; k < kGroup; k++) {
      const double l = f.col_value[f.col_start[first + g] + k - g - 1];
      COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] -= l * x[k][c];
    }
  }
  COSTATE_UNROLL for (int g = 0; g < kGroup; g++) {
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
  }
}

// the same the other way round: these rows, done, are subtracted from all that wait for them
template <int kGroup, int kLanes, int kParts>
__attribute__((always_inline)) inline void PushFromLeaves(const Factors& f, int first, double* block) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kStride = kWidth / kLanes;
  Vector* rows = reinterpret_cast<Vector*>(block + first * kWidth);
  Vector x[kGroup][kParts];
  const double* value[kGroup];
  const int begin = f.row_start[first], count = f.row_start[first + 1] - begin;
  COSTATE_UNROLL for (int g = kGroup - 1; g >= 0; g--) {
    value[g] = f.value + f.value_start[first + g];
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c];
    COSTATE_UNROLL for (int k = g + 1; k < kGroup; k++) {
      COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] -= value[k][count + g] * x[k][c];
    }
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
  }
  for (int n = 0; n < count; n++) {
    Vector* y = reinterpret_cast<Vector*>(block + f.column[begin + n]);
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) {
      Vector sum = y[c];
      COSTATE_UNROLL for (int g = 0; g < kGroup; g++) sum -= value[g][n] * x[g][c];
      y[c] = sum;
    }
  }
}

// x_i = y_i / D_i − Σ_{j < i} L(i,j) x_j for the same rows
template <int kGroup, int kLanes, int kParts>
__attribute__((always_inline)) inline void FromRoots(const Factors& f, int first, double* block) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kStride = kWidth / kLanes;
  Vector* rows = reinterpret_cast<Vector*>(block + first * kWidth);
  Vector x[kGroup][kParts];
  const double* value[kGroup];
  COSTATE_UNROLL for (int g = 0; g < kGroup; g++) {
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c] * f.inverse[first + g];
    value[g] = f.value + f.value_start[first + g];
  }
  const int begin = f.row_start[first], count = f.row_start[first + 1] - begin;
  SubtractRows<kGroup, kLanes, kParts>(count, f.column + begin, value, block, x);
  COSTATE_UNROLL for (int g = 1; g < kGroup; g++) {
    COSTATE_UNROLL for (int k = 0; k < g; k++) {
      const double l = value[g][count + k];
      COSTATE_UNROLL for (int c = 0; c < kParts; c++) x[g][c] -= l * x[k][c];
    }
  }
  COSTATE_UNROLL for (int g = 0; g < kGroup; g++) {
    COSTATE_UNROLL for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
  }
}

// which groups are not zero after the elimination; returns the part of L that they make
COSTATE_SIMD double FindActive(const Factors& f, const Group* group, const int* group_parent, int groups,
                               const double* block, int all, char* active) {
  typedef long long Bits4 __attribute__((vector_size(32), aligned(32), may_alias));
  for (int n = 0; n < groups; n++) {
    active[n] = 0;
    for (int i = group[n].first; i < group[n].first + group[n].size && !active[n]; i++) {
      const Bits4* x = reinterpret_cast<const Bits4*>(block + i * kWidth);
      active[n] = x[0][0] != 0;  // most often that is enough
      if (active[n]) break;
      const Bits4 any = (x[0] | x[1]) | (x[2] | x[3]);
      active[n] = (any[0] | any[1] | any[2] | any[3]) != 0;
    }
  }
  int entries = 0;
  for (int n = groups - 1; n >= 0; n--) {
    if (!active[n]) continue;
    if (group_parent[n] >= 0) active[group_parent[n]] = 1;
    entries += f.row_start[group[n].first + group[n].size] - f.row_start[group[n].first];
  }
  return static_cast<double>(entries) / all;
}

template <int kLanes, int kParts>
__attribute__((always_inline)) inline void SubstituteParts(const Factors& f, const Group* group, const char* active,
                                                           int groups, double* block) {
  for (int n = groups - 1; n >= 0; n--) {
    if (active) {
      if (!active[n]) continue;
      switch (group[n].size) {
        case 1: PushFromLeaves<1, kLanes, kParts>(f, group[n].first, block); break;
        case 2: PushFromLeaves<2, kLanes, kParts>(f, group[n].first, block); break;
        default: PushFromLeaves<3, kLanes, kParts>(f, group[n].first, block);
      }
      continue;
    }
    switch (group[n].size) {
      case 1: FromLeaves<1, kLanes, kParts>(f, group[n].first, block); break;
      case 2: FromLeaves<2, kLanes, kParts>(f, group[n].first, block); break;
      default: FromLeaves<3, kLanes, kParts>(f, group[n].first, block);
    }
  }
  for (int n = 0; n < groups; n++) {
    switch (group[n].size) {
      case 1: FromRoots<1, kLanes, kParts>(f, group[n].first, block); break;
      case 2: FromRoots<2, kLanes, kParts>(f, group[n].first, block); break;
      default: FromRoots<3, kLanes, kParts>(f, group[n].first, block);
    }
  }
}

template <int kLanes>
__attribute__((always_inline)) inline void SubstituteOf(const Factors& f, const Group* group, const char* active,
                                                        int groups, bool half, double* block) {
  half ? SubstituteParts<kLanes, kWidth / kLanes / 2>(f, group, active, groups, block)
       : SubstituteParts<kLanes, kWidth / kLanes>(f, group, active, groups, block);
}

COSTATE_SIMD_LANES(void, Substitute,
                   (const Factors& f, const Group* group, const char* active, int groups, bool half, double* block),
                   SubstituteOf, (f, group, active, groups, half, block))

}  // namespace

bool TreeSubstitution::SolveBlock(const double* inverse, double* block, bool sparse, bool half) const {
  const Factors factors = {row_start_.data(), column_.data(), value_start_.data(), col_start_.data(),
                           col_row_.data(),   value_,         col_value_.data(),   inverse};
  const int groups = static_cast<int>(group_.size());
  if (groups == 0) return false;
  const double share =
      sparse ? FindActive(factors, group_.data(), group_parent_.data(), groups, block, nnz(), active_.data()) : 1;
  if (share == 0 && std::find(active_.begin(), active_.end(), 1) == active_.end()) return false;
  Substitute(factors, group_.data(), share < kSparse ? active_.data() : nullptr, groups, half, block);
  return true;
}

}  // namespace costate
