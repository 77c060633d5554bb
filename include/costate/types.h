// Eigen aliases used by every public signature. Storage is column-major; trajectories hold one knot a column.
#ifndef COSTATE_TYPES_H_
#define COSTATE_TYPES_H_

#if __cplusplus < 202002L
#error "Costate's headers are C++20: compile with -std=c++20"
#endif

#include <Eigen/Core>

namespace costate {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using ConstVectorRef = Eigen::Ref<const VectorXd>;
using ConstMatrixRef = Eigen::Ref<const MatrixXd>;
using VectorRef = Eigen::Ref<VectorXd>;
using MatrixRef = Eigen::Ref<MatrixXd>;

}  // namespace costate

// Matrices cross the library's boundary: it allocates them by malloc, aligned to 16 bytes, whatever vectors a program
// is compiled for, and what one of both allocates the other may free.
#if EIGEN_MAX_ALIGN_BYTES != 16 || EIGEN_MAX_STATIC_ALIGN_BYTES != 16 || !EIGEN_MALLOC_ALREADY_ALIGNED
#error \
    "Costate needs -DEIGEN_MAX_ALIGN_BYTES=16 -DEIGEN_MALLOC_ALREADY_ALIGNED=1 for all of a program, as costate::costate of CMake has them: Eigen is set up with another alignment"
#endif

#endif  // COSTATE_TYPES_H_
