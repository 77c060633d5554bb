#include "derivative/tree_solver.h"

#include <algorithm>
#include <cassert>

#include "core/simd.h"

namespace costate {

namespace {
constexpr double kSparse = 0.75;  // of the entries of L: fewer are pushed, which costs more each
constexpr int kPadding = 4;       // entries behind the last row, which a masked vector reads and leaves as they are
constexpr int kMaxGroup = 3;      // rows of 16 columns that fit into sixteen vector registers
}  // namespace

void BlockedMatrix::Resize(int rows, int cols) {
  rows_ = rows;
  cols_ = cols;
  const std::size_t size = static_cast<std::size_t>(blocks()) * rows * kWidth + 8;
  if (storage_.size() < size) storage_.resize(size);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  data_ = storage_.data() + ((64 - address % 64) % 64) / sizeof(double);
}

void BlockedMatrix::SetZero() { std::fill_n(data_, static_cast<std::size_t>(blocks()) * rows_ * kWidth, 0.0); }

TreeSolver::TreeSolver(const int* parent, int nv) : nv_(nv), parent_(parent, parent + nv) {
  diagonal_.resize(nv);
  inverse_.resize(nv);
  Symbolic();
}

void TreeSolver::BeginCouplings() { pending_.clear(); }

void TreeSolver::Couple(const int* dofs, int count) {
  pending_.push_back(count);
  pending_.insert(pending_.end(), dofs, dofs + count);
}

void TreeSolver::EndCouplings() {
  if (symbolic_valid_ && pending_ == coupling_) return;
  coupling_ = pending_;
  place_.clear();
  Symbolic();
}

void TreeSolver::Symbolic() {
  // rows of H: ancestors, and for each coupled set all other members in the row of its largest dof
  std::vector<std::vector<int>> rows(nv_);
  for (int i = 0; i < nv_; i++) {
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

  // compressed rows, then the same by columns
  row_start_.assign(1, 0);
  column_.clear();
  for (const std::vector<int>& row : rows) {
    column_.insert(column_.end(), row.begin(), row.end());
    row_start_.push_back(static_cast<int>(column_.size()));
  }
  value_.assign(column_.size() + kPadding, 0.0);
  col_value_.resize(column_.size());
  col_start_.assign(nv_ + 1, 0);
  for (int j : column_) col_start_[j + 1]++;
  for (int j = 0; j < nv_; j++) col_start_[j + 1] += col_start_[j];
  col_row_.resize(column_.size());
  col_source_.resize(column_.size());
  std::vector<int> next(col_start_.begin(), col_start_.end() - 1);
  for (int i = 0; i < nv_; i++) {
    for (int at = row_start_[i]; at < row_start_[i + 1]; at++) {
      const int to = next[column_[at]]++;
      col_row_[to] = i;
      col_source_[to] = at;
    }
  }
  FindGroups();
  symbolic_valid_ = true;
}

// consecutive rows i, i + 1, … of L with the same columns apart from each other, and the same rows below them
void TreeSolver::FindGroups() {
  const auto alike = [this](int i) {
    const int *row = row_columns(i), *next = row_columns(i + 1), size = row_size(i);
    const int *col = col_row_.data() + col_start_[i], *col_next = col_row_.data() + col_start_[i + 1];
    const int col_size = col_start_[i + 1] - col_start_[i];
    return row_size(i + 1) == size + 1 && next[size] == i && std::equal(row, row + size, next) &&
           col_start_[i + 2] - col_start_[i + 1] == col_size - 1 && std::equal(col + 1, col + col_size, col_next);
  };
  group_.assign(1, 0);
  for (int i = 0; i < nv_; i++) {
    if (i + 1 == nv_ || i + 1 - group_.back() == kMaxGroup || !alike(i)) group_.push_back(i + 1);
  }

  // a group that is not zero makes those of its columns not zero, of which each is an ancestor of the next
  const int groups = static_cast<int>(group_.size()) - 1;
  group_parent_.assign(groups, -1);
  active_.resize(groups);
  for (int n = 0; n < groups; n++) {
    const int row = group_[n];
    if (row_size(row) == 0) continue;
    const int last = row_columns(row)[row_size(row) - 1];
    group_parent_[n] = static_cast<int>(std::upper_bound(group_.begin(), group_.end(), last) - group_.begin()) - 1;
  }
}

void TreeSolver::SetZero() {
  std::fill(value_.begin(), value_.end(), 0.0);
  std::fill(diagonal_.begin(), diagonal_.end(), 0.0);
}

bool TreeSolver::AddBelow(int i, int j, double x) {
  if (i < j) std::swap(i, j);
  const auto begin = column_.begin() + row_start_[i], end = column_.begin() + row_start_[i + 1];
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

typedef double Loose4 __attribute__((vector_size(32), aligned(8), may_alias));

// y −= scale Σ_g l_g x_g, four entries
template <int kGroup>
__attribute__((always_inline)) inline void SubtractFour(const double* l, double* const* x, int c, Double4 scale,
                                                        double* y) {
  Double4 all = l[0] * *reinterpret_cast<const Loose4*>(x[0] + c);
  for (int g = 1; g < kGroup; g++) all += l[g] * *reinterpret_cast<const Loose4*>(x[g] + c);
  *reinterpret_cast<Loose4*>(y + c) -= scale * all;
}

// y −= Σ_g l_g x_g: whole vectors, the last one masked, so that no loop is of the length that is left over
template <int kGroup>
__attribute__((always_inline)) inline void SubtractGroup(int n, const double* l, double* const* x, double* y) {
  static constexpr double kMask[7] = {1, 1, 1, 0, 0, 0, 0};
  int c = 0;
  for (; c + 4 <= n; c += 4) SubtractFour<kGroup>(l, x, c, Double4{1, 1, 1, 1}, y);
  if (c < n) SubtractFour<kGroup>(l, x, c, *reinterpret_cast<const Loose4*>(kMask + 3 - (n - c)), y);
}

struct Elimination {
  const int *row_start, *column;
  double *value, *diagonal, *inverse;
};

// (S1) the rows of a group, from the last: among each other, then all together from the columns they share
template <int kGroup>
__attribute__((always_inline)) inline bool EliminateGroup(const Elimination& e, int first) {
  const int base = e.row_start[first + 1] - e.row_start[first];
  const int* columns = e.column + e.row_start[first];
  double* row[kGroup];
  for (int g = 0; g < kGroup; g++) row[g] = e.value + e.row_start[first + g];
  for (int k = kGroup - 1; k >= 0; k--) {
    const double pivot = e.diagonal[first + k];
    if (!(pivot > 0)) return false;
    e.inverse[first + k] = 1 / pivot;
    for (int i = k - 1; i >= 0; i--) {
      const double l = row[k][base + i] * e.inverse[first + k];
      e.diagonal[first + i] -= l * row[k][base + i];
      SubtractGroup<1>(base + i, &l, row + k, row[i]);
      row[k][base + i] = l;
    }
  }
  for (int n = base - 1; n >= 0; n--) {
    const int i = columns[n], start = e.row_start[i];
    double l[kGroup];
    for (int g = 0; g < kGroup; g++) {
      l[g] = row[g][n] * e.inverse[first + g];
      e.diagonal[i] -= l[g] * row[g][n];
    }
    if (e.row_start[i + 1] - start == n) {
      SubtractGroup<kGroup>(n, l, row, e.value + start);
    } else {
      for (int c = 0, at = start; c < n; c++, at++) {
        while (e.column[at] != columns[c]) at++;
        for (int g = 0; g < kGroup; g++) e.value[at] -= l[g] * row[g][c];
      }
    }
    for (int g = 0; g < kGroup; g++) row[g][n] = l[g];
  }
  return true;
}

COSTATE_SIMD bool Eliminate(const Elimination& e, const int* group, int groups) {
  for (int n = groups - 1; n >= 0; n--) {
    const int count = group[n + 1] - group[n];
    const bool positive = count == 1   ? EliminateGroup<1>(e, group[n])
                          : count == 2 ? EliminateGroup<2>(e, group[n])
                                       : EliminateGroup<3>(e, group[n]);
    if (!positive) return false;
  }
  return true;
}

}  // namespace

bool TreeSolver::Factor() {
  const Elimination e = {row_start_.data(), column_.data(), value_.data(), diagonal_.data(), inverse_.data()};
  if (!Eliminate(e, group_.data(), static_cast<int>(group_.size()) - 1)) return false;
  for (std::size_t n = 0; n < col_value_.size(); n++) col_value_[n] = value_[col_source_[n]];
  return true;
}

double TreeSolver::PivotRatio() const {
  if (nv_ == 0) return 1;
  const auto [low, high] = std::minmax_element(diagonal_.begin(), diagonal_.end());
  return *high / *low;
}

namespace {

constexpr int kWidth = BlockedMatrix::kWidth;

using Factors = TreeSolver::Factors;

// x_g −= Σ_n value_g[n] · row index[n] of the first kLanes kParts columns of the block, for the kGroup rows of a group:
// each row that is read serves all
template <int kGroup, int kLanes, int kParts>
__attribute__((always_inline)) inline void SubtractRows(int count, const int* index, const double* const* value,
                                                        const double* block,
                                                        typename Lanes<kLanes>::Vector (*x)[kParts]) {
  using Vector = typename Lanes<kLanes>::Vector;
  for (int n = 0; n < count; n++) {
    const Vector* y = reinterpret_cast<const Vector*>(block + index[n] * kWidth);
    for (int g = 0; g < kGroup; g++) {
      const double l = value[g][n];
      for (int c = 0; c < kParts; c++) x[g][c] -= l * y[c];
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
  for (int g = 0; g < kGroup; g++) {
    for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c];
    value[g] = f.col_value + f.col_start[first + g] + kGroup - 1 - g;  // behind the group's own rows
  }
  const int last = first + kGroup - 1, begin = f.col_start[last];
  SubtractRows<kGroup, kLanes, kParts>(f.col_start[last + 1] - begin, f.col_row + begin, value, block, x);
  for (int g = kGroup - 2; g >= 0; g--) {
    for (int k = g + 1; k < kGroup; k++) {
      const double l = f.col_value[f.col_start[first + g] + k - g - 1];
      for (int c = 0; c < kParts; c++) x[g][c] -= l * x[k][c];
    }
  }
  for (int g = 0; g < kGroup; g++) {
    for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
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
  for (int g = kGroup - 1; g >= 0; g--) {
    value[g] = f.value + f.row_start[first + g];
    for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c];
    for (int k = g + 1; k < kGroup; k++) {
      for (int c = 0; c < kParts; c++) x[g][c] -= value[k][count + g] * x[k][c];
    }
    for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
  }
  for (int n = 0; n < count; n++) {
    Vector* y = reinterpret_cast<Vector*>(block + f.column[begin + n] * kWidth);
    for (int c = 0; c < kParts; c++) {
      Vector sum = y[c];
      for (int g = 0; g < kGroup; g++) sum -= value[g][n] * x[g][c];
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
  for (int g = 0; g < kGroup; g++) {
    for (int c = 0; c < kParts; c++) x[g][c] = rows[g * kStride + c] * f.inverse[first + g];
    value[g] = f.value + f.row_start[first + g];
  }
  const int begin = f.row_start[first], count = f.row_start[first + 1] - begin;
  SubtractRows<kGroup, kLanes, kParts>(count, f.column + begin, value, block, x);
  for (int g = 1; g < kGroup; g++) {
    for (int k = 0; k < g; k++) {
      const double l = value[g][count + k];
      for (int c = 0; c < kParts; c++) x[g][c] -= l * x[k][c];
    }
  }
  for (int g = 0; g < kGroup; g++) {
    for (int c = 0; c < kParts; c++) rows[g * kStride + c] = x[g][c];
  }
}

// which groups are not zero after the elimination; returns the part of L that they make
COSTATE_SIMD double FindActive(const Factors& f, const int* group, const int* group_parent, int groups,
                               const double* block, char* active) {
  typedef long long Bits4 __attribute__((vector_size(32), aligned(32), may_alias));
  for (int n = 0; n < groups; n++) {
    active[n] = 0;
    for (int i = group[n]; i < group[n + 1] && !active[n]; i++) {
      const Bits4* x = reinterpret_cast<const Bits4*>(block + i * kWidth);
      const Bits4 any = (x[0] | x[1]) | (x[2] | x[3]);
      active[n] = (any[0] | any[1] | any[2] | any[3]) != 0;
    }
  }
  int entries = 0;
  for (int n = groups - 1; n >= 0; n--) {
    if (!active[n]) continue;
    if (group_parent[n] >= 0) active[group_parent[n]] = 1;
    entries += f.row_start[group[n + 1]] - f.row_start[group[n]];
  }
  return static_cast<double>(entries) / f.row_start[group[groups]];
}

template <int kLanes, int kParts>
__attribute__((always_inline)) inline void SubstituteParts(const Factors& f, const int* group, const char* active,
                                                           int groups, double* block) {
  for (int n = groups - 1; n >= 0; n--) {
    if (active) {
      if (!active[n]) continue;
      switch (group[n + 1] - group[n]) {
        case 1: PushFromLeaves<1, kLanes, kParts>(f, group[n], block); break;
        case 2: PushFromLeaves<2, kLanes, kParts>(f, group[n], block); break;
        default: PushFromLeaves<3, kLanes, kParts>(f, group[n], block);
      }
      continue;
    }
    switch (group[n + 1] - group[n]) {
      case 1: FromLeaves<1, kLanes, kParts>(f, group[n], block); break;
      case 2: FromLeaves<2, kLanes, kParts>(f, group[n], block); break;
      default: FromLeaves<3, kLanes, kParts>(f, group[n], block);
    }
  }
  for (int n = 0; n < groups; n++) {
    switch (group[n + 1] - group[n]) {
      case 1: FromRoots<1, kLanes, kParts>(f, group[n], block); break;
      case 2: FromRoots<2, kLanes, kParts>(f, group[n], block); break;
      default: FromRoots<3, kLanes, kParts>(f, group[n], block);
    }
  }
}

template <int kLanes>
__attribute__((always_inline)) inline void SubstituteOf(const Factors& f, const int* group, const char* active,
                                                        int groups, bool half, double* block) {
  half ? SubstituteParts<kLanes, kWidth / kLanes / 2>(f, group, active, groups, block)
       : SubstituteParts<kLanes, kWidth / kLanes>(f, group, active, groups, block);
}

COSTATE_SIMD_LANES(void, Substitute,
                   (const Factors& f, const int* group, const char* active, int groups, bool half, double* block),
                   SubstituteOf, (f, group, active, groups, half, block))

}  // namespace

void TreeSolver::Solve(BlockedMatrix* B, bool sparse) const {
  assert(B->rows() == nv_);
  for (int b = 0; b < B->blocks(); b++) SolveBlock(B->block(b), sparse, B->IsHalf(b));
}

TreeSolver::Factors TreeSolver::MakeFactors() const {
  return {row_start_.data(), column_.data(),    col_start_.data(), col_row_.data(),
          value_.data(),     col_value_.data(), inverse_.data()};
}

bool TreeSolver::SolveBlock(double* block, bool sparse, bool half) const {
  const Factors factors = MakeFactors();
  const int groups = static_cast<int>(group_.size()) - 1;
  if (groups == 0) return false;
  const double share =
      sparse ? FindActive(factors, group_.data(), group_parent_.data(), groups, block, active_.data()) : 1;
  if (share == 0 && std::find(active_.begin(), active_.end(), 1) == active_.end()) return false;
  Substitute(factors, group_.data(), share < kSparse ? active_.data() : nullptr, groups, half, block);
  return true;
}

namespace {

// (S2) for one vector: a group's rows push into their ancestors …
template <int kGroup>
__attribute__((always_inline)) inline void PushVector(const Factors& f, int first, double* x) {
  const int begin = f.row_start[first], count = f.row_start[first + 1] - begin;
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
__attribute__((always_inline)) inline void ReadVector(const Factors& f, int first, double* x) {
  const int begin = f.row_start[first], count = f.row_start[first + 1] - begin;
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

COSTATE_SIMD void SubstituteVector(const Factors& f, const int* group, int groups, double* x) {
  for (int n = groups - 1; n >= 0; n--) {
    switch (group[n + 1] - group[n]) {
      case 1: PushVector<1>(f, group[n], x); break;
      case 2: PushVector<2>(f, group[n], x); break;
      default: PushVector<3>(f, group[n], x);
    }
  }
  for (int n = 0; n < groups; n++) {
    switch (group[n + 1] - group[n]) {
      case 1: ReadVector<1>(f, group[n], x); break;
      case 2: ReadVector<2>(f, group[n], x); break;
      default: ReadVector<3>(f, group[n], x);
    }
  }
}

}  // namespace

void TreeSolver::Solve(double* x) const {
  SubstituteVector(MakeFactors(), group_.data(), static_cast<int>(group_.size()) - 1, x);
}

}  // namespace costate
