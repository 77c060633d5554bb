#include "derivative/extrapolate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/extremes.h"

namespace costate {
namespace {

constexpr int kMaxOrder = 3;  // more orders than that follow the noise

constexpr double kClearlyBetter = 0.1;  // odd powers are there, and not just by chance in one table of two

constexpr double kNoise = 10;  // of the noise: what smaller sizes may leave a value by

double Size(double x) { return std::abs(x); }
double Size(const VectorXd& x) {
  const double sum = x.lpNorm<1>();  // NaN where an entry is one; a maximum that passes NaN on goes entry by entry
  return std::isnan(sum) || x.size() == 0 ? sum : x.lpNorm<Eigen::Infinity>();
}

template <typename Value>
struct Candidate {
  Value value{};
  double error = kInf;
};

// How much further from `value` some quotient of a smaller size is than all up to size k: they tend to the derivative,
// so a value that they leave was made where the function is another one, or of noise that agreed by chance.
template <typename Value, typename Quotients>
double Departure(const Quotients& quotients, int n, int k, const Value& value, double noise) {
  double near = 0, far = 0;
  for (int i = 0; i < n; ++i) {
    const double distance = Size(quotients(i) - value);
    if (i <= k) {
      near = std::max(near, distance);
    } else {
      far = std::max(far, distance - kNoise * noise * std::ldexp(1.0, i));
    }
  }
  return far > near ? far : 0;
}

// one table; the error series has the powers p, 2p, 3p …
template <typename Value, typename Quotients>
Candidate<Value> Richardson(const Quotients& quotients, int n, int power, double noise) {
  // T[j] = (2^(p j) T[j-1](k) − T[j-1](k-1)) / (2^(p j) − 1), and how far it lies from the two that it is made of
  Candidate<Value> best, second;
  Value previous[kMaxOrder + 1] = {}, row[kMaxOrder + 1] = {};
  for (int k = 0; k < n; ++k) {
    row[0] = quotients(k);
    Candidate<Value> at_size;  // the best that ends at size k
    for (int j = 1; j <= std::min(k, kMaxOrder); ++j) {
      const double factor = std::ldexp(1.0, power * j);
      row[j] = (factor * row[j - 1] - previous[j - 1]) / (factor - 1);
      double error = std::max(Size(row[j] - row[j - 1]), Size(row[j] - previous[j - 1]));
      error = std::max(error, 2 * noise * std::ldexp(1.0, k));
      if (error < at_size.error) at_size = {row[j], error};
    }
    at_size.error = std::max(at_size.error, Departure(quotients, n, k, at_size.value, noise));
    if (at_size.error < best.error) {
      second = best;
      best = at_size;
    } else if (at_size.error < second.error) {
      second = at_size;
    }
    std::copy(row, row + kMaxOrder + 1, previous);
  }
  if (!std::isfinite(second.error)) return {best.value, best.error};
  return {best.value, std::max(best.error, Size(best.value - second.value))};
}

template <typename Value, typename Quotients>
double BendErrorOf(const Quotients& quotients, int n, const Value& line, double error, double noise) {
  const Value last = quotients(n - 1), small = 2 * last - quotients(n - 2);
  const double off = Size(Value(small - line)) - kNoise * noise * std::ldexp(1.0, n - 1);
  const double shown = std::max(error, off);
  return std::max(shown, 2 * std::sqrt(Size(Value(last - line)) * shown));
}

}  // namespace

Extrapolation Extrapolate(const double* quotients, int n, bool centered, double noise) {
  if (n < 2) return {n == 1 ? quotients[0] : 0, kInf};

  // an output that no nudge moves by a single bit does not depend on the input, as far as its digits tell
  if (std::all_of(quotients, quotients + n, [](double quotient) { return quotient == 0; })) return {0, noise};

  // even powers for smooth functions; all powers for one-sided quotients, and for those whose second derivative jumps
  // at the point, such as quadratic drag at rest
  const auto quotient = [quotients](int k) { return quotients[k]; };
  const Candidate<double> all = Richardson<double>(quotient, n, 1, noise);
  if (!centered) return {all.value, all.error};
  const Candidate<double> even = Richardson<double>(quotient, n, 2, noise);
  return all.error < kClearlyBetter * even.error ? Extrapolation{all.value, all.error, true}
                                                 : Extrapolation{even.value, even.error};
}

double BendError(const double* quotients, int n, const Extrapolation& line, double noise) {
  return BendErrorOf([quotients](int k) { return quotients[k]; }, n, line.value, line.error, noise);
}

CommonExtrapolation Extrapolate(const Eigen::Ref<const MatrixXd>& quotients, bool centered, double noise) {
  const auto quotient = [&quotients](int k) { return quotients.col(k); };
  const int n = static_cast<int>(quotients.cols());
  Candidate<VectorXd> all = Richardson<VectorXd>(quotient, n, 1, noise);
  if (!centered) return {std::move(all.value), all.error, false};
  Candidate<VectorXd> even = Richardson<VectorXd>(quotient, n, 2, noise);
  const double rounding = kNoise * noise * std::ldexp(1.0, n - 1);
  const bool odd = all.error < kClearlyBetter * even.error && even.error > rounding;

  // sizes beyond a bend beside the point agree on a value of their own, which those within it do not
  const double apart = Size(all.value - even.value);
  if (odd && apart <= kNoise * even.error + rounding) {
    const double error = BendErrorOf(quotient, n, all.value, all.error, noise);
    return {std::move(all.value), error, true};
  }
  return {std::move(even.value), even.error, odd};
}

void FivePoints(const VectorXd* f, double h, Eigen::Ref<VectorXd> out, int stride) {
  out = (8 * (f[stride] - f[-stride]) - (f[2 * stride] - f[-2 * stride])) / (12 * h);
}

}  // namespace costate
