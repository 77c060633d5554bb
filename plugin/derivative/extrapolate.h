// A derivative from difference quotients at several step sizes, with an honest error bar.
#ifndef COSTATE_DERIVATIVE_EXTRAPOLATE_H_
#define COSTATE_DERIVATIVE_EXTRAPOLATE_H_

#include <costate/types.h>

namespace costate {

struct Extrapolation {
  double value = 0;
  double error = 0;    ///< +infinity when there is only one quotient
  bool bends = false;  ///< centred quotients, and yet a line: the second derivative jumps at the point, or beside it
};

/// Richardson extrapolation of quotients[k] = f' + c1 e + c2 e² + … + noise · 2^k, e = eps/2^k, k = 0 … n-1; centred
/// quotients of smooth functions have only even powers.
///
/// Of all extrapolations over two or more neighbouring sizes the one is taken that agrees best with the two it is made
/// of. The error bar is the largest of: that disagreement, the disagreement with the best one over other sizes, what
/// noise alone can do to it, and how far quotients of smaller sizes leave it.
/// @param noise  rounding and solver noise of quotients[0]; it doubles as the size halves.
Extrapolation Extrapolate(const double* quotients, int n, bool centered, double noise);

/// Error bar of an extrapolation that bends, wherever beside the point: D(e) = f' + J/4 (e − 2δ + δ²/e) for a second
/// derivative that jumps by J at a distance of δ. The line of sizes beyond δ misses f' by J δ/2; all that they show of
/// it is J δ²/4e, or that the smallest two go along another line.
double BendError(const double* quotients, int n, const Extrapolation& line, double noise);

struct CommonExtrapolation {
  VectorXd value;      ///< meaningless where the error is +infinity
  double error = 0;    ///< of the entry with the largest
  bool bends = false;  ///< the second derivative jumps at the point, or so near that only smaller sizes could tell
};

/// The same of vectors whose entries err together, by one choice for all. @param quotients  one a column.
CommonExtrapolation Extrapolate(const Eigen::Ref<const MatrixXd>& quotients, bool centered, double noise);

/// (f₋₂ − 8 f₋₁ + 8 f₁ − f₂) / 12h of values at f[k stride] about f[0], h apart.
void FivePoints(const VectorXd* f, double h, Eigen::Ref<VectorXd> out, int stride = 1);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EXTRAPOLATE_H_
