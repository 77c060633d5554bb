#include "derivative/integrator.h"

namespace costate {

void PositionRows(const mjModel* m, const mjtNum* v, double h, const Eigen::Ref<const Eigen::MatrixXd>& dv,
                  Eigen::Ref<Eigen::MatrixXd> out) {
  using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  out = h * dv;
  for (int j = 0; j < m->njnt; j++) {
    const int adr = m->jnt_dofadr[j], type = m->jnt_type[j];
    const int linear = type == mjJNT_BALL ? 0 : type == mjJNT_FREE ? 3 : 1;
    for (int k = adr; k < adr + linear; k++) out(k, k) += 1;
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;

    // the engine differentiates by the scaled velocity h v
    const int rot = adr + linear;
    Matrix3 Dq, Dv;
    mjd_quatIntegrate(v + rot, h, Dq.data(), Dv.data(), nullptr);
    out.middleRows(rot, 3) = h * Dv * dv.middleRows(rot, 3);
    out.block(rot, rot, 3, 3) += Dq;
  }
}

void AssembleStep(const mjModel* m, const mjtNum* v_next, const Eigen::MatrixXd& da, const Eigen::MatrixXd& activation,
                  StepDerivative* out) {
  const int nv = m->nv, na = m->na, nu = m->nu, ndx = 2 * nv + na;
  const double h = m->opt.timestep;
  Eigen::MatrixXd all(ndx, ndx + nu);

  // v' = v + h ā,  q' = q ⊕ h v',  act'
  all.middleRows(nv, nv) = h * da;
  for (int i = 0; i < nv; i++) all(nv + i, nv + i) += 1;
  PositionRows(m, v_next, h, all.middleRows(nv, nv), all.topRows(nv));
  all.bottomRows(na) = activation;
  out->A = all.leftCols(ndx);
  out->B = all.rightCols(nu);
}

}  // namespace costate
