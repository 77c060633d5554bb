// Is every number finite, or is every one zero? Eigen's allFinite, compiled for the oldest x86-64, costs more than
// writing the matrix did.
#ifndef COSTATE_CORE_FINITE_H_
#define COSTATE_CORE_FINITE_H_

#include <cstddef>

#include <costate/types.h>

namespace costate {

bool IsFinite(const double* x, std::ptrdiff_t n);
inline bool IsFinite(const MatrixXd& X) { return IsFinite(X.data(), X.size()); }
inline bool IsFinite(const VectorXd& x) { return IsFinite(x.data(), x.size()); }

bool AreAllZero(const double* x, std::ptrdiff_t n);
/// A negative zero is one. The call would take longer than a few numbers do.
inline bool AreZero(const double* x, std::ptrdiff_t n) {
  if (n >= 8) return AreAllZero(x, n);
  std::ptrdiff_t i = 0;
  while (i < n && x[i] == 0) i++;
  return i == n;
}

}  // namespace costate

#endif  // COSTATE_CORE_FINITE_H_
