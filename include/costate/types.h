// Eigen aliases used by every public signature. Storage is column-major; trajectories hold one knot a column.
#ifndef COSTATE_TYPES_H_
#define COSTATE_TYPES_H_

#include <Eigen/Core>

namespace costate {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using ConstVectorRef = Eigen::Ref<const VectorXd>;
using ConstMatrixRef = Eigen::Ref<const MatrixXd>;
using VectorRef = Eigen::Ref<VectorXd>;
using MatrixRef = Eigen::Ref<MatrixXd>;

}  // namespace costate

#endif  // COSTATE_TYPES_H_
