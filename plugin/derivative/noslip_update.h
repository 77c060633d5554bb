// One update of the noslip pass: the friction forces of one row, one pair of pyramid edges or one elliptic contact set
// to their minimum at fixed normal force, with the slopes of that map. (N2)–(N4) of README.md.
#ifndef COSTATE_DERIVATIVE_NOSLIP_UPDATE_H_
#define COSTATE_DERIVATIVE_NOSLIP_UPDATE_H_

#include <Eigen/Core>

namespace costate {

/// New forces f' by the rows' y, the forces f before, the normal force and the rows' block of A = J M⁻¹ Jᵀ.
struct NoslipUpdate {
  static constexpr int kMost = 5;
  int dim = 0;
  double force[kMost];
  double improvement = 0;  ///< of the engine's cost
  double room = 0;         ///< how far the free minimum is from the bound, on either side, in units of force
  bool bounded = false;    ///< the bound holds
  double by_y[kMost][kMost], by_f[kMost][kMost], by_normal[kMost];
  double by_A[kMost][kMost * kMost];  ///< entries of A taken as independent; column dim·i + j

  void Clear(int rows);
};

/// Dry friction: f' = clip(f − y / A, ±loss). (N2)
void UpdateInterval(double A, double y, double f, double loss, NoslipUpdate* out);

/// Opposite edges of a pyramid, their sum held. A, y and f hold both. (N3)
void UpdateEdges(const double* A, const double* y, const double* f, NoslipUpdate* out);

/// Friction of an elliptic contact within its ellipsoid: rows 2, 3 or 5. (N4)
void UpdateEllipsoid(int rows, const double* A, const double* y, const double* f, double normal, const double* friction,
                     NoslipUpdate* out);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_NOSLIP_UPDATE_H_
