// The inertia M of a posture, as a matrix and by its products.
#ifndef COSTATE_CORE_MASS_H_
#define COSTATE_CORE_MASS_H_

#include <costate/types.h>
#include <mujoco/mujoco.h>

namespace costate {

/// M (nv × nv) of data whose posture is worked out as a whole.
inline MatrixXd MassMatrix(const mjModel* model, const mjData* data) {
  MatrixXd M(model->nv, model->nv);
  mj_fullM(model, data, M.data());
  return M;
}

/// M v, (nv) both, without the matrix.
inline VectorXd MassProduct(const mjModel* model, const mjData* data, ConstVectorRef v) {
  VectorXd product(model->nv);
  mj_mulM(model, data, product.data(), v.data());
  return product;
}

}  // namespace costate

#endif  // COSTATE_CORE_MASS_H_
