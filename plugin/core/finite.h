// Is every number finite? Eigen's allFinite, compiled for the oldest x86-64, costs more than writing the matrix did.
#ifndef COSTATE_CORE_FINITE_H_
#define COSTATE_CORE_FINITE_H_

#include <cstddef>

#include <costate/types.h>

namespace costate {

bool IsFinite(const double* x, std::ptrdiff_t n);
inline bool IsFinite(const MatrixXd& X) { return IsFinite(X.data(), X.size()); }
inline bool IsFinite(const VectorXd& x) { return IsFinite(x.data(), x.size()); }

}  // namespace costate

#endif  // COSTATE_CORE_FINITE_H_
