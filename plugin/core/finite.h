// Is every number finite, or is every one zero? Eigen's allFinite, compiled for the oldest x86-64, costs more than
// writing the matrix did.
#ifndef COSTATE_CORE_FINITE_H_
#define COSTATE_CORE_FINITE_H_

#include <cstddef>

#include <costate/types.h>

namespace costate {

bool AreAllFinite(const double* x, std::ptrdiff_t n);
/// The call would take longer than a few numbers do.
inline bool IsFinite(const double* x, std::ptrdiff_t n) {
  if (n >= 8) return AreAllFinite(x, n);
  double zero = 0;
  for (std::ptrdiff_t i = 0; i < n; i++) zero += 0 * x[i];
  return zero == 0;
}
inline bool IsFinite(const MatrixXd& X) { return IsFinite(X.data(), X.size()); }
inline bool IsFinite(const VectorXd& x) { return IsFinite(x.data(), x.size()); }

bool AreAllZero(const double* x, std::ptrdiff_t n);
/// A negative zero is one.
inline bool AreZero(const double* x, std::ptrdiff_t n) {
  if (n >= 8) return AreAllZero(x, n);
  std::ptrdiff_t i = 0;
  while (i < n && x[i] == 0) i++;
  return i == n;
}

}  // namespace costate

#endif  // COSTATE_CORE_FINITE_H_
