// Rows that are too hard for H, at the engine's least R or without friction, softer in derivatives so that H keeps its
// digits. (C22), (C25) of README.md.
#ifndef COSTATE_DERIVATIVE_HARDEST_ROWS_H_
#define COSTATE_DERIVATIVE_HARDEST_ROWS_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// Are there rows that the engine holds at its least R?
bool HasLeastR(const mjData* data);

/// … or others that may be too hard? For nearly every model the answer, at little cost: false if SoftenHardest would find
/// none.
bool MayHaveHardest(const mjData* data);

/// Of a contact's edges that SoftenHardest has made softer, as there is next to no friction: the share of D that is left
/// to its normal, while tangents keep theirs; else 1. @param row  the contact's first.
double NormalShare(const mjData* data, int row);

/// (C25) H of a contact in its basis, of which the normal is to keep a share.
template <typename Matrix>
void SoftenNormal(double share, Matrix* H) {
  const auto normal = H->col(0).eval();
  *H -= (1 - share) / normal[0] * normal * normal.transpose();
}

/// Makes efc_D of rows that act and are harder than (C22) smaller, with it their forces and the cone Hessians of such
/// contacts; and with `with_edges` that of contacts next to without friction, (C25), whose forces stay. Rows that are
/// `left` to differences keep theirs.
/// @pre `data` is at the solution.  @post  if true, only a mj_forward makes it whole again.
/// @param work  memory that the caller keeps between calls.
/// @param met  false if one of them cannot keep what it asks for: its force goes as D and is no longer the engine's.
/// @return false if there is none.
bool SoftenHardest(const mjModel* model, mjData* data, const std::vector<char>& left, bool with_edges,
                   std::vector<double>* work, bool* met);

/// Has `data` rows that SoftenHardest has made softer?
bool HasSoftened(const mjData* data);

/// Adds to the forces of these rows what balances: D J step. @param step  (nv) H⁻¹ r of the softer rows.
void BalanceHardest(const mjModel* model, mjData* data, const std::vector<char>& left, const double* step);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_HARDEST_ROWS_H_
