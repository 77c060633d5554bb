// How hard a row of constraint is, D = 1/R with R = (1 − d)/d · diagA, moves with its impedance d. (C8), (C11), (C15)
// of README.md.
#ifndef COSTATE_DERIVATIVE_IMPEDANCE_H_
#define COSTATE_DERIVATIVE_IMPEDANCE_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "derivative/equilibrium.h"

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

/// (C23) s = 1 + h b + h² k d: by so much the acceleration of a row's spring and damper at the end of the step is less.
inline double EndOfStep(const mjModel* m, const mjData* d, int row) {
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  const double h = m->opt.timestep;
  return 1 + h * (kbip[1] + h * kbip[0] * kbip[2]);
}

/// (C23) Has a row of a limit or contact the stiffest spring that a step resolves, k = 1/(d h²), b ~ 1/√d, in place of
/// its own?
inline bool IsResolved(const mjModel* m, const mjData* d, int row) {
  constexpr double kRounding = 1e-9;
  if (!IsDiscrete(m) || (m->opt.disableflags & mjDSBL_REFSAFE) || d->efc_type[row] < mjCNSTR_LIMIT_JOINT) return false;
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  const double h = m->opt.timestep;
  return std::abs(kbip[0] * kbip[2] * h * h - 1) < kRounding;
}

/// −∂aref/∂d of a row, d its impedance: (C7), (C23).
inline double AccelerationByImpedance(const mjModel* m, const mjData* d, int row) {
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  const double k = kbip[0], error = d->efc_pos[row] - d->efc_margin[row];
  if (!IsDiscrete(m)) return k * error;
  const double h = m->opt.timestep, s = EndOfStep(m, d, row), way = d->efc_vel[row] + h * d->efc_aref[row];
  return IsResolved(m, d, row) ? -kbip[1] / (2 * kbip[2] * s) * way : k / s * (error + h * way);
}

/// (C8) of a force f in the row f g, how it changes with the distance as D does: dD = D g dφ. @param row  of a contact
/// its first.
inline double ImpedanceGain(const mjModel* m, const mjData* d, int row, double force = 1) {
  if (IsHardest(d, row)) return 0;
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  const double gain = force * kbip[3] / (kbip[2] * (1 - kbip[2]));
  if (!IsDiscrete(m)) return gain;
  const double h = m->opt.timestep, rate = IsResolved(m, d, row) ? -h * kbip[1] / (2 * kbip[2]) : h * h * kbip[0];
  return gain + force * kbip[3] * rate / EndOfStep(m, d, row);
}

/// How y = J a − aref of a row grows with its velocity and its error: (C7), under the discrete integrator (C23).
struct RowLaw {
  double damping, stiffness;
};
inline RowLaw RowLawOf(const mjModel* m, const mjData* d, int row) {
  const mjtNum* kbip = d->efc_KBIP + 4 * row;
  const double k = kbip[0], b = kbip[1], impedance = kbip[2], slope = kbip[3];
  if (!IsDiscrete(m)) return {b, k * (impedance + slope * (d->efc_pos[row] - d->efc_margin[row]))};
  const double s = EndOfStep(m, d, row);
  return {(b + m->opt.timestep * k * impedance) / s, k * impedance / s + slope * AccelerationByImpedance(m, d, row)};
}

/// (C23) y by the distance of the tangent (or axis) k ≥ 1 of a contact's basis: the edges n ± μ t of a pyramid go other
/// ways in a step. Zero for ellipses and under other integrators.
inline double TangentStiffness(const mjModel* m, const mjData* d, const mjContact& contact, int k) {
  const int first = contact.efc_address;
  const double slope = d->efc_KBIP[4 * first + 3], mu = contact.friction[k - 1];
  if (!IsDiscrete(m) || d->efc_type[first] != mjCNSTR_CONTACT_PYRAMIDAL || slope == 0 || mu == 0) return 0;
  const int edge = first + 2 * (k - 1);
  return slope * (AccelerationByImpedance(m, d, edge) - AccelerationByImpedance(m, d, edge + 1)) / (2 * mu);
}
/// The same of the normal, whose row of a pyramid is the mean of two edges: (C7).
inline double NormalStiffness(const mjModel* m, const mjData* d, const mjContact& contact) {
  const int first = contact.efc_address;
  const double stiffness = RowLawOf(m, d, first).stiffness;
  if (!IsDiscrete(m) || d->efc_type[first] != mjCNSTR_CONTACT_PYRAMIDAL) return stiffness;
  return (stiffness + RowLawOf(m, d, first + 1).stiffness) / 2;
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

/// Error of a row, or of the rows that share it, this one the first.
inline double RowError(const mjData* d, int row, int rows) {
  if (d->efc_type[row] == mjCNSTR_EQUALITY) return mju_norm(d->efc_pos + row, rows);
  return std::abs(d->efc_pos[row] - d->efc_margin[row]);
}

/// Within how far a change of its error takes a row's impedance around a bend: its width, or what is left to it from
/// beyond; a huge number where it has none.
inline double ImpedanceReach(const mjData* d, int row, int rows, const mjtNum* solimp) {
  if (!solimp || solimp[0] == solimp[1] || solimp[2] <= mjMINVAL) return mjMAXVAL;
  return std::max(solimp[2], RowError(d, row, rows) - solimp[2]);
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
  const double error = RowError(d, row, corner.rows);
  corner.full = error >= solimp[2];
  corner.room = std::abs(error - solimp[2]);
  if (d->efc_type[row] == mjCNSTR_EQUALITY) corner.room = std::min(corner.room, error);
  return corner;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_IMPEDANCE_H_
