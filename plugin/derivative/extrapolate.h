// A derivative from difference quotients at several step sizes, with an honest error bar.
#ifndef COSTATE_DERIVATIVE_EXTRAPOLATE_H_
#define COSTATE_DERIVATIVE_EXTRAPOLATE_H_

namespace costate {

struct Extrapolation {
  double value = 0;
  double error = 0;  ///< +infinity when there is only one quotient
};

/// Richardson extrapolation of quotients[k] = f' + c1 (eps/2^k)^p + c2 (eps/2^k)^2p + … + noise · 2^k, k = 0 … n-1.
///
/// Of all extrapolations over two or more neighbouring sizes the one is taken that agrees best with the two it is made of.
/// The error bar is the largest of: that disagreement, the disagreement with the best one over other sizes, and what noise
/// alone can do to it. Quotients that are all exactly zero give an exact zero.
/// @param power  p: 2 for centred quotients, 1 for one-sided ones.
/// @param noise  rounding and solver noise of quotients[0]; it doubles as the size halves.
Extrapolation Extrapolate(const double* quotients, int n, int power, double noise);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EXTRAPOLATE_H_
