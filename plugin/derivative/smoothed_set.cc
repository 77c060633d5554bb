#include "derivative/smoothed_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

constexpr double kNoShare = 1e-12;  // a row that acts by less is left out

// 1 where x is far below 0, 0 far above
double ShareBelow(double x, double width) { return 1 / (1 + std::exp(std::clamp(x / width, -700.0, 700.0))); }

// far beyond its loss dry friction stays what it is, a constant force along a row that may turn
void ScaleRow(mjData* d, int row, double share) {
  if (share > kNoShare) d->efc_state[row] = mjCNSTRSTATE_QUADRATIC;
  d->efc_D[row] *= share;
}

// (W3) H = p [(1 − q) H_cone + q D]
void SmoothCone(mjData* d, mjContact* c, const double* y, double width) {
  const int row = c->efc_address, dim = c->dim;
  double U[6] = {}, T = 0;
  for (int j = 1; j < dim; j++) {
    U[j] = c->friction[j - 1] * y[j];
    T += U[j] * U[j];
  }
  T = std::sqrt(T);
  const double mu = c->mu, slope = c->friction[0];
  const double p = ShareBelow(y[0] - T, width);
  const double q = ShareBelow((T + mu * mu * y[0]) / slope, width);
  if (p <= kNoShare) return;

  // middle zone: ½ Dm g², g = mu (y₀ − T), with T rounded off at its apex
  const double apex = slope * width, Ts = std::sqrt(T * T + apex * apex);
  const double Dm = d->efc_D[row] / (mu * mu * (1 + mu * mu)), g = std::min(0.0, mu * (y[0] - Ts));
  double slope_of_g[6] = {mu};
  for (int j = 1; j < dim; j++) slope_of_g[j] = -mu * U[j] * c->friction[j - 1] / Ts;
  for (int i = 0; i < dim; i++) {
    for (int j = 0; j < dim; j++) {
      double cone = slope_of_g[i] * slope_of_g[j];
      if (i > 0 && j > 0) {
        const double turn = (i == j ? 1 : 0) - U[i] * U[j] / (Ts * Ts);
        cone -= g * mu * c->friction[i - 1] * c->friction[j - 1] * turn / Ts;
      }
      const double inner = i == j ? d->efc_D[row + i] : 0;
      c->H[i * dim + j] = p * ((1 - q) * Dm * cone + q * inner);
    }
  }
  for (int i = 0; i < dim; i++) d->efc_state[row + i] = mjCNSTRSTATE_CONE;
}

}  // namespace

std::string SmoothingText(double width) {
  return fmt::format("smoothed: constraint rows switch over {:g} m/s^2, not the derivative of the step", width);
}

void SmoothActiveSet(const mjModel* m, mjData* d, double width, std::vector<double>* scratch) {
  if (d->nefc == 0) return;
  scratch->resize(static_cast<std::size_t>(d->nefc));
  double* y = scratch->data();
  mj_mulJacVec(m, d, y, d->qacc);
  mju_subFrom(y, d->efc_aref, d->nefc);
  for (int row = d->ne; row < d->nefc; row++) {
    switch (d->efc_type[row]) {
      case mjCNSTR_FRICTION_DOF:
      case mjCNSTR_FRICTION_TENDON:
        // (W2) within its loss
        ScaleRow(d, row, ShareBelow(std::abs(y[row]) - d->efc_R[row] * d->efc_frictionloss[row], width));
        break;
      case mjCNSTR_CONTACT_ELLIPTIC: {
        mjContact* contact = d->contact + d->efc_id[row];
        SmoothCone(d, contact, y + row, width);
        row += contact->dim - 1;
        break;
      }
      default:
        // (W1) limits, normals and edges of pyramids
        ScaleRow(d, row, ShareBelow(y[row], width));
    }
  }
}

}  // namespace costate
