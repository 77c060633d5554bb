#include "rollout/rotation.h"

#include <Eigen/Geometry>

namespace costate {

void AddHalfBracket(const mjModel* model, double scale, ConstVectorRef g, ConstVectorRef d, VectorXd* out) {
  for (int j = 0; j < model->njnt; j++) {
    const int type = model->jnt_type[j];
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;
    const int at = model->jnt_dofadr[j] + (type == mjJNT_FREE ? 3 : 0);
    const Eigen::Vector3d a = g.segment<3>(at), b = d.segment<3>(at);
    out->segment<3>(at) += 0.5 * scale * a.cross(b);
  }
}

}  // namespace costate
