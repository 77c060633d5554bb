#include "derivative/coriolis.h"

namespace costate {

CoriolisDamping::CoriolisDamping(const mjModel* model) : tree_(model), zero_(Eigen::VectorXd::Zero(model->nv)) {}

void CoriolisDamping::Pass(const mjModel* m, const mjData* d, const double* v) {
  const int nv = static_cast<int>(m->nv);
  TreeInput input;
  input.a = zero_.data();
  input.v = v;
  input.gravity = false;
  minus_.Resize(nv, 2 * nv);
  minus_.SetZero();
  tree_.Forward(m, d, input);
  tree_.Finish(m, d, input, nullptr, &minus_, nullptr, nullptr);
}

void CoriolisDamping::Compute(const mjModel* m, const mjData* d, Eigen::MatrixXd* out) {
  const int nv = static_cast<int>(m->nv);
  Pass(m, d, d->qvel);
  out->resize(nv, nv);
  for (int j = 0; j < nv; j++) {
    for (int i = 0; i < nv; i++) (*out)(i, j) = -m->opt.timestep * minus_(i, nv + j);
  }
}

// (I7) c is quadratic in v: h ∂c/∂v ā = ½ (c(v + hā) − c(v − hā))
void CoriolisDamping::AddColumns(const mjModel* m, const mjData* d, const Eigen::VectorXd& applied, Columns* E) {
  const int nv = static_cast<int>(m->nv);
  for (double sign : {1.0, -1.0}) {
    v_ = Eigen::Map<const Eigen::VectorXd>(d->qvel, nv) + sign * m->opt.timestep * applied;
    Pass(m, d, v_.data());
    for (int j = 0; j < 2 * nv; j++) {
      for (int i = 0; i < nv; i++) {
        const double x = minus_(i, j);
        if (x != 0) (*E)(i, j) += 0.5 * sign * x;
      }
    }
  }
}

}  // namespace costate
