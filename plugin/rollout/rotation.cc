#include "rollout/rotation.h"

#include "derivative/munthe_kaas.h"

namespace costate {

void AddHalfBracket(const mjModel* model, double scale, ConstVectorRef g, ConstVectorRef d, VectorXd* out) {
  ForRotations(model, [&](int at) {
    const Eigen::Vector3d a = g.segment<3>(at), b = d.segment<3>(at);
    out->segment<3>(at) += 0.5 * scale * a.cross(b);
  });
}

}  // namespace costate
