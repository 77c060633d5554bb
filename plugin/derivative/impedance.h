// How hard a row of constraint is, D = 1/R with R = (1 − d)/d · diagA, moves with its impedance d. (C8), (C11), (C15)
// of README.md.
#ifndef COSTATE_DERIVATIVE_IMPEDANCE_H_
#define COSTATE_DERIVATIVE_IMPEDANCE_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

namespace costate {

/// Does the engine hold R at its least, mjMINVAL? So it does where diagA is zero: a body that turns about its centre of
/// mass has no inverse weight against translation. R has no derivative there.
inline bool IsHardest(const mjData* d, int row) {
  constexpr double kRounding = 1e-12;
  double least = mjMINVAL;
  if (d->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL) {
    const double mu = d->contact[d->efc_id[row]].mu;
    least *= 2 * mu * mu;
  }
  return d->efc_R[row] <= least * (1 + kRounding);
}

/// (C8) of a force f in the row f g, how it changes with the distance as D does: dD = D g dφ. @param row  of a contact
/// its first.
inline double ImpedanceGain(const mjData* d, int row, double force = 1) {
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  return IsHardest(d, row) ? 0 : force * kbip[3] / (kbip[2] * (1 - kbip[2]));
}

/// Solimp of a row, and how many rows share its error; null for dry friction, whose error is none
inline const mjtNum* SolimpOf(const mjModel* m, const mjData* d, int row, int* rows) {
  const int id = d->efc_id[row];
  *rows = 1;
  switch (d->efc_type[row]) {
    case mjCNSTR_EQUALITY:
      *rows = m->eq_type[id] == mjEQ_CONNECT ? 3 : m->eq_type[id] == mjEQ_WELD ? 6 : 1;
      return m->eq_solimp + mjNIMP * id;
    case mjCNSTR_LIMIT_JOINT: return m->jnt_solimp + mjNIMP * id;
    case mjCNSTR_LIMIT_TENDON: return m->tendon_solimp_lim + mjNIMP * id;
    case mjCNSTR_CONTACT_ELLIPTIC: *rows = d->contact[id].dim; return d->contact[id].solimp;
    case mjCNSTR_CONTACT_PYRAMIDAL: *rows = 2 * (d->contact[id].dim - 1); return d->contact[id].solimp;
    case mjCNSTR_CONTACT_FRICTIONLESS: return d->contact[id].solimp;
    default: return nullptr;
  }
}

/// (K11) Where the impedance of a row, or of the rows that share it, has a corner: that of a straight line (power 1).
struct ImpedanceCorner {
  bool exists = false;
  bool full = false;  ///< beyond the width
  double room = 0;    ///< of the error of the row, to the nearer corner
  int rows = 1;       ///< that share it, from this one on
};
inline ImpedanceCorner ImpedanceCornerOf(const mjModel* m, const mjData* d, int row) {
  ImpedanceCorner corner;
  const mjtNum* solimp = SolimpOf(m, d, row, &corner.rows);
  if (solimp == nullptr || solimp[4] > 1 || solimp[2] <= mjMINVAL) return corner;
  const auto held = [](mjtNum impedance) { return std::clamp<mjtNum>(impedance, mjMINIMP, mjMAXIMP); };
  if (held(solimp[0]) == held(solimp[1])) return corner;
  corner.exists = true;
  const bool equality = d->efc_type[row] == mjCNSTR_EQUALITY;
  const double error =
      equality ? mju_norm(d->efc_pos + row, corner.rows) : std::abs(d->efc_pos[row] - d->efc_margin[row]);
  corner.full = error >= solimp[2];
  corner.room = std::abs(error - solimp[2]);
  if (equality) corner.room = std::min(corner.room, error);
  return corner;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_IMPEDANCE_H_
