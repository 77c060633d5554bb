#include "derivative/hardest_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "derivative/equilibrium.h"
#include "derivative/impedance.h"

namespace costate {

namespace {

// of D J M⁻¹ Jᵀ: what the row yields by is then 1e-9 of the motion, what H loses 1e-7
constexpr double kHardest = 1e9;
constexpr double kMet = 1e-11;  // of J a and aref: rounding leaves less

// (C25) the same of normals next to without friction: 1e-8 and 1e-8. How far such a contact may yield then, of J a and
// aref: H has lost 1e-5
constexpr double kFirm = 1e8, kYields = 1e-6;

// R of a pyramid's edges is 2 mu² times that of others: next to nothing where there is next to no friction
constexpr double kLittleFriction = 1e-4;

bool HasLittleFriction(const mjData* d, int row) {
  return d->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL && d->contact[d->efc_id[row]].mu < kLittleFriction;
}

bool Acts(const mjData* d, int row) {
  return d->efc_state[row] == mjCNSTRSTATE_QUADRATIC || d->efc_state[row] == mjCNSTRSTATE_CONE;
}

// rows of one element, from `row` on
int Together(const mjData* d, int row) {
  int end = row + 1;
  while (end < d->nefc && d->efc_type[end] == d->efc_type[row] && d->efc_id[end] == d->efc_id[row]) end++;
  return end - row;
}

double DofInertia(const mjModel* m, const mjData* d, int dof) { return d->M[m->M_rowadr[dof] + m->M_rownnz[dof] - 1]; }

// Σ J²/M_jj, near J M⁻¹ Jᵀ
double Lightness(const mjModel* m, const mjData* d, int row) {
  double sum = 0;
  ForJacobianRow(m, d, row, [&](int j, double J) { sum += J * J / DofInertia(m, d, j); });
  return sum;
}

// Calls f(first, end) for the rows of an element that has some at the least R. Friction of a contact is as hard as its
// normal is.
template <typename F>
void ForHardest(const mjData* d, const std::vector<char>& left, F f) {
  for (int row = 0, end = 0; row < d->nefc; row = end) {
    end = row + Together(d, row);
    bool hardest = false, is_left = false;
    for (int i = row; i < end; i++) {
      hardest = hardest || (Acts(d, i) && IsHardest(d, i));
      is_left = is_left || left[i];
    }
    if (hardest && !is_left) f(row, end);
  }
}

// does the acceleration keep what the row asks for?
bool IsMet(const mjModel* m, const mjData* d, int row) {
  double size = std::abs(d->efc_aref[row]);
  ForJacobianRow(m, d, row, [&](int j, double J) { size += std::abs(J * d->qacc[j]); });
  return std::abs(d->efc_force[row]) <= kMet * d->efc_D[row] * size;
}

bool Softens(const mjData* d, int first, int row) {
  return IsHardest(d, d->efc_type[first] == mjCNSTR_CONTACT_ELLIPTIC ? first : row);
}

// Gram-Schmidt of the columns of a matrix, which is spent, the longest of what is left first: f(its square, of that of
// the first), until that is false; 0 where nothing is left, for which f is
template <typename F>
void Orthogonalize(int rows, int cols, double* J, F f) {
  double longest = 0;
  for (int done = 0; done < cols; done++) {
    int pivot = done;
    double most = 0;
    for (int j = done; j < cols; j++) {
      const double square = mju_dot(J + j * rows, J + j * rows, rows);
      if (square > most) most = square, pivot = j;
    }
    longest = std::max(longest, most);
    if (!f(longest == 0 ? 0 : most / longest)) return;
    double* unit = J + done * rows;
    std::swap_ranges(unit, unit + rows, J + pivot * rows);
    for (int j = done + 1; j < cols; j++) {
      double* column = J + j * rows;
      mju_addToScl(column, unit, -mju_dot(unit, column, rows) / most, rows);
    }
  }
}

int Rank(int rows, int cols, double* J) {
  constexpr double kFree = 1e-6;  // of the longest column
  int rank = 0;
  Orthogonalize(rows, cols, J, [&](double part) {
    rank += part > kFree * kFree;
    return part > kFree * kFree;
  });
  return rank;
}

// Is there a motion of the dofs in such rows that they do not feel? Where there is none H loses nothing.
bool LeaveSomeFree(const mjModel* m, const mjData* d, const std::vector<char>& left, std::vector<double>* work) {
  const int nv = static_cast<int>(m->nv);
  const auto for_rows = [&](auto f) {
    ForHardest(d, left, [&](int first, int end) {
      for (int i = first; i < end; i++) {
        if (Softens(d, first, i) && Acts(d, i)) f(i);
      }
    });
  };
  int rows = 0;
  for_rows([&](int) { rows++; });
  work->assign(static_cast<std::size_t>(rows) * nv, 0);
  double* J = work->data();
  int row = 0;
  for_rows([&](int i) {
    ForJacobianRow(m, d, i, [&](int j, double value) { J[j * rows + row] = value / std::sqrt(DofInertia(m, d, j)); });
    row++;
  });

  // columns of dofs that some row feels; fewer rows leave some of them free
  int cols = 0;
  for (int j = 0; j < nv; j++) {
    if (mju_isZero(J + j * rows, rows)) continue;
    if (cols < j) std::copy_n(J + j * rows, rows, J + cols * rows);
    cols++;
  }
  return rows < cols || Rank(rows, cols, J) < cols;
}

// (C25) f(first, end, hardness) of edges that are nearly all normal
template <typename F>
void ForHardEdges(const mjData* d, const std::vector<char>& left, F f) {
  for (int row = 0, end = 0; row < d->nefc; row = end) {
    end = row + Together(d, row);
    if (!HasLittleFriction(d, row) || left[row] || IsHardest(d, row)) continue;
    const double mu = d->contact[d->efc_id[row]].mu;
    double D = 0;
    for (int i = row; i < end; i++) D += Acts(d, i) ? d->efc_D[i] : 0;
    const double hardness = D * d->efc_diagA[row] / (2 * mu * mu);
    if (hardness > kFirm) f(row, end, hardness);
  }
}

// Softer by `share`, does such a contact still keep what it asks for? Not where another pushes against it, and how both
// give way is a question of their D.
bool StaysMet(const mjModel* m, const mjData* d, int first, int end, double share) {
  double force = 0, D = 0, size = std::abs(d->efc_aref[first]);
  for (int i = first; i < end; i++) {
    if (!Acts(d, i)) continue;
    force += d->efc_force[i];
    D += d->efc_D[i];
  }
  ForJacobianRow(m, d, first, [&](int j, double J) { size += std::abs(J * d->qacc[j]); });
  return std::abs(force) <= kYields * share * D * size;
}

// What normals hold of the dofs. Nearly dependent: there is a motion that they all but leave free, as of a leg that is
// nearly straight, and how far that yields is a question of their D.
enum class Normals { kIndependent, kDependent, kNearlyDependent };
Normals Dependence(const mjModel* m, const mjData* d, const std::vector<char>& left, std::vector<double>* work) {
  constexpr double kHeld = 1e-4, kFree = 1e-19;  // squares, of what a normal holds of a motion
  const int nv = static_cast<int>(m->nv);
  int normals = 0;
  ForHardEdges(d, left, [&](int, int, double) { normals++; });
  work->assign(static_cast<std::size_t>(normals) * nv, 0);
  double* column = work->data();
  ForHardEdges(d, left, [&](int first, int, double) {
    for (int i = first; i < first + 2; i++)
      ForJacobianRow(m, d, i, [&](int j, double J) { column[j] += J / std::sqrt(DofInertia(m, d, j)); });
    mju_normalize(column, nv);
    column += nv;
  });
  Normals found = Normals::kIndependent;
  Orthogonalize(nv, normals, work->data(), [&](double part) {
    if (part <= kHeld) found = part < kFree ? Normals::kDependent : Normals::kNearlyDependent;
    return part > kHeld;
  });
  return found;
}

// (C25) @param hides_forces  whether single forces are no longer the engine's.  @return whether there are any
bool SoftenEdges(const mjModel* m, mjData* d, const std::vector<char>& left, std::vector<double>* work,
                 bool* hides_forces) {
  double least = std::numeric_limits<double>::infinity();
  ForHardEdges(d, left, [&](int, int, double hardness) { least = std::min(least, hardness); });
  if (std::isinf(least)) return false;
  const Normals normals = Dependence(m, d, left, work);

  // of contacts that share what they hold one share leaves them the ratio of their D, and so what each has of it
  const bool together = normals == Normals::kDependent;
  const auto share = [&](double hardness) { return kFirm / (together ? least : hardness); };
  bool firm = normals != Normals::kNearlyDependent;
  ForHardEdges(d, left, [&](int first, int end, double hardness) {
    firm = firm && StaysMet(m, d, first, end, share(hardness));
  });
  if (!firm) return false;
  ForHardEdges(d, left, [&](int first, int end, double hardness) {
    for (int i = first; i < end; i++) d->efc_D[i] *= share(hardness);
    d->contact[d->efc_id[first]].H[0] = d->efc_D[first] * d->efc_R[first];  // NormalShare, which cones alone have else
  });
  *hides_forces = together;
  return true;
}

}  // namespace

bool HasLeastR(const mjData* d) {
  constexpr double kAny = 1e3 * mjMINVAL;  // edges of pyramids have the least R times 2 mu²
  for (int i = 0; i < d->nefc; i++) {
    if (d->efc_R[i] < kAny && IsHardest(d, i)) return true;
  }
  return false;
}

bool MayHaveHardest(const mjData* d) {
  for (int c = 0; c < d->ncon; c++) {
    const int row = d->contact[c].efc_address;
    if (row >= 0 && HasLittleFriction(d, row)) return true;
  }
  return HasLeastR(d);
}

double NormalShare(const mjData* d, int row) {
  const double share = d->efc_D[row] * d->efc_R[row];
  return share < 0.5 && HasLittleFriction(d, row) && d->contact[d->efc_id[row]].H[0] == share ? share : 1;
}

bool SoftenHardest(const mjModel* m, mjData* d, const std::vector<char>& left, bool with_edges,
                   std::vector<double>* work, bool* met) {
  *met = true;
  if (!MayHaveHardest(d)) return false;
  bool hides_forces = false;
  const bool edges = with_edges && SoftenEdges(m, d, left, work, &hides_forces);

  // the hardest of each element and of all
  double hardest = 0;
  const auto hardness = [&](int first, int end) {
    double most = 0;
    for (int i = first; i < end; i++) {
      if (Softens(d, first, i)) most = std::max(most, d->efc_D[i] * Lightness(m, d, i));
    }
    return most;
  };
  ForHardest(d, left, [&](int first, int end) {
    hardest = std::max(hardest, hardness(first, end));
    for (int i = first; i < end; i++) *met = *met && (!Softens(d, first, i) || !Acts(d, i) || IsMet(m, d, i));
  });
  if (hardest <= kHardest || !LeaveSomeFree(m, d, left, work)) {
    *met = *met && !hides_forces;
    return edges;
  }

  // rows that pull at each other keep the ratio of their D, which decides what they agree on
  ForHardest(d, left, [&](int first, int end) {
    const double share = std::min(1.0, kHardest / (*met ? hardness(first, end) : hardest));
    for (int i = first; i < end; i++) {
      if (!Softens(d, first, i)) continue;
      d->efc_D[i] *= share;
      if (Acts(d, i)) d->efc_force[i] *= share;
    }
    if (d->efc_state[first] == mjCNSTRSTATE_CONE) {
      mjtNum* H = d->contact[d->efc_id[first]].H;
      mju_scl(H, H, share, (end - first) * (end - first));
    }
  });
  mj_mulJacTVec(m, d, d->qfrc_constraint, d->efc_force);
  *met = *met && !hides_forces;
  return true;
}

bool HasSoftened(const mjData* d) {
  for (int i = 0; i < d->nefc; i++) {
    if (IsHardest(d, i) ? d->efc_D[i] * d->efc_R[i] < 0.5 : NormalShare(d, i) < 1) return true;
  }
  return false;
}

void BalanceHardest(const mjModel* m, mjData* d, const std::vector<char>& left, const double* step) {
  ForHardest(d, left, [&](int first, int end) {
    const int count = end - first;
    const bool cone = d->efc_state[first] == mjCNSTRSTATE_CONE;
    const mjtNum* H = cone ? d->contact[d->efc_id[first]].H : nullptr;
    for (int i = first; i < end; i++) {
      double y = 0;
      ForJacobianRow(m, d, i, [&](int j, double J) { y += J * step[j]; });
      if (cone) {
        for (int k = 0; k < count; k++) d->efc_force[first + k] += H[k * count + i - first] * y;
      } else if (Softens(d, first, i) && Acts(d, i)) {
        d->efc_force[i] += d->efc_D[i] * y;
      }
    }
  });
}

}  // namespace costate
