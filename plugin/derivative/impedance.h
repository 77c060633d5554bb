// How hard a row of constraint is, D = 1/R with R = (1 − d)/d · diagA, moves with its impedance d. (C8), (C11), (C15)
// of README.md.
#ifndef COSTATE_DERIVATIVE_IMPEDANCE_H_
#define COSTATE_DERIVATIVE_IMPEDANCE_H_

#include <mujoco/mujoco.h>

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

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_IMPEDANCE_H_
