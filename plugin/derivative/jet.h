// Forward mode for formulas with many branches: a number with its slopes by a few variables.
#ifndef COSTATE_DERIVATIVE_JET_H_
#define COSTATE_DERIVATIVE_JET_H_

#include <Eigen/Core>
#include <cmath>

namespace costate {

template <int n>
struct Jet {
  double x = 0;
  Eigen::Matrix<double, n, 1> d = Eigen::Matrix<double, n, 1>::Zero();

  Jet(double value = 0) : x(value) {}  // NOLINT: constants mix freely
  Jet(double value, int column, double slope = 1) : x(value) { d[column] = slope; }

  /// f(a) with f = value and f' = slope there.
  friend Jet Apply(double value, double slope, const Jet& a) {
    Jet out(value);
    out.d = slope * a.d;
    return out;
  }
  friend Jet operator+(const Jet& a, const Jet& b) {
    Jet out(a.x + b.x);
    out.d = a.d + b.d;
    return out;
  }
  friend Jet operator-(const Jet& a) { return Apply(-a.x, -1, a); }
  friend Jet operator-(const Jet& a, const Jet& b) { return a + -b; }
  friend Jet operator*(const Jet& a, const Jet& b) {
    Jet out(a.x * b.x);
    out.d = a.x * b.d + b.x * a.d;
    return out;
  }
  friend Jet operator/(const Jet& a, const Jet& b) { return a * Apply(1 / b.x, -1 / (b.x * b.x), b); }
  friend Jet Abs(const Jet& a) { return Apply(std::abs(a.x), a.x > 0 ? 1 : a.x < 0 ? -1 : 0, a); }
  friend Jet Exp(const Jet& a) { return Apply(std::exp(a.x), std::exp(a.x), a); }
  /// 0 with slope 0 at 0.
  friend Jet Root(const Jet& a) { return a.x > 0 ? Apply(std::sqrt(a.x), 0.5 / std::sqrt(a.x), a) : Jet(); }
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_JET_H_
