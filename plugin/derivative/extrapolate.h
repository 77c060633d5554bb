// A derivative from difference quotients at several step sizes, with an honest error bar.
#ifndef COSTATE_DERIVATIVE_EXTRAPOLATE_H_
#define COSTATE_DERIVATIVE_EXTRAPOLATE_H_

namespace costate {

struct Extrapolation {
  double value = 0;
  double error = 0;  ///< +infinity when there is only one quotient
};

/// Richardson extrapolation of quotients[k] = f' + c1 e + c2 e² + … + noise · 2^k, e = eps/2^k, k = 0 … n-1; centred
/// quotients of smooth functions have only even powers.
///
/// Of all extrapolations over two or more neighbouring sizes the one is taken that agrees best with the two it is made of.
/// The error bar is the largest of: that disagreement, the disagreement with the best one over other sizes, what noise
/// alone can do to it, and how far quotients of smaller sizes leave it.
/// @param noise  rounding and solver noise of quotients[0]; it doubles as the size halves.
Extrapolation Extrapolate(const double* quotients, int n, bool centered, double noise);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EXTRAPOLATE_H_
