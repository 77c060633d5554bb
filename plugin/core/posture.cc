#include "core/posture.h"

#include <algorithm>

#include "core/engine_guard.h"

namespace costate {

void UpdatePosture(const mjModel* model, mjData* data, PostureStage stage) {
  const EngineGuard guard(data, EngineGuard::Around::kEngine);
  if (stage == PostureStage::kWhole) return mj_fwdPosition(model, data);
  mj_kinematics(model, data);
  mj_comPos(model, data);
  if (stage == PostureStage::kFrames) return;
  mj_flex(model, data);
  mj_collision(model, data);
}

void SetPosture(const mjModel* model, mjData* data, ConstVectorRef q, PostureStage stage) {
  std::copy_n(q.data(), model->nq, data->qpos);
  UpdatePosture(model, data, stage);
}

void NormalizeQuaternions(const mjModel* model, VectorRef q) { mj_normalizeQuat(model, q.data()); }

VectorXd PostureDifference(const mjModel* model, ConstVectorRef q1, ConstVectorRef q0) {
  VectorXd dq(model->nv);
  mj_differentiatePos(model, dq.data(), 1, q0.data(), q1.data());
  return dq;
}

void PointJacobian(const mjModel* model, const mjData* data, const double point[3], int body, JacobianRows* J,
                   JacobianRows* turn) {
  J->resize(3, model->nv);
  if (turn) turn->resize(3, model->nv);
  mj_jac(model, data, J->data(), turn ? turn->data() : nullptr, point, body);
}

void GeomJacobian(const mjModel* model, const mjData* data, int geom, JacobianRows* J) {
  J->resize(3, model->nv);
  mj_jacGeom(model, data, J->data(), nullptr, geom);
}

double GeomDistance(const mjModel* model, mjData* data, int geom1, int geom2, double far, double* from_to) {
  const EngineGuard guard(data, EngineGuard::Around::kEngine);
  return mj_geomDistance(model, data, geom1, geom2, far, from_to);
}

}  // namespace costate
