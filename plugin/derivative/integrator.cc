#include "derivative/integrator.h"

#include <algorithm>

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

namespace {

// calls single(dof) and rotation(first dof, Dq, h Dv)
template <typename Single, typename Rotation>
void ForPositions(const mjModel* m, const mjtNum* v, double h, Single single, Rotation rotation) {
  for (int j = 0; j < m->njnt; j++) {
    const int adr = m->jnt_dofadr[j], type = m->jnt_type[j];
    const int linear = type == mjJNT_BALL ? 0 : type == mjJNT_FREE ? 3 : 1;
    for (int k = adr; k < adr + linear; k++) single(k);
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;
    Eigen::Matrix<double, 3, 3, Eigen::RowMajor> Dq, Dv;
    mjd_quatIntegrate(v + adr + linear, h, Dq.data(), Dv.data(), nullptr);
    Dv *= h;
    rotation(adr + linear, Dq, Dv);
  }
}

}  // namespace

void PullPositions(const mjModel* m, const mjtNum* v, double h, const double* lambda, double* q, double* v_next) {
  using Map = Eigen::Map<Eigen::Vector3d>;
  using ConstMap = Eigen::Map<const Eigen::Vector3d>;
  ForPositions(
      m, v, h, [&](int i) { q[i] += lambda[i], v_next[i] += h * lambda[i]; },
      [&](int i, const auto& Dq, const auto& Dv) {
        Map(q + i) += Dq.transpose() * ConstMap(lambda + i);
        Map(v_next + i) += Dv.transpose() * ConstMap(lambda + i);
      });
}

void PushPositions(const mjModel* m, const mjtNum* v, double h, const double* dq, const double* dv, double* out) {
  using ConstMap = Eigen::Map<const Eigen::Vector3d>;
  ForPositions(
      m, v, h, [&](int i) { out[i] = dq[i] + h * dv[i]; },
      [&](int i, const auto& Dq, const auto& Dv) {
        Eigen::Map<Eigen::Vector3d>(out + i) = Dq * ConstMap(dq + i) + Dv * ConstMap(dv + i);
      });
}

void AssembleStep(const mjModel* m, const mjtNum* v_next, const BlockedMatrix& da, StepDerivative* out) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), nu = static_cast<int>(m->nu), ndx = 2 * nv + na;
  const double h = m->opt.timestep;
  out->A.resize(ndx, ndx);
  out->B.resize(ndx, nu);
  constexpr int kWidth = BlockedMatrix::kWidth;
  for (int block = 0; block < da.blocks(); block++) {
    // v' = v + h ā,  q' = q + h v' apart from rotations: a row of the block feeds one entry of each of its columns
    const int first = block * kWidth, count = std::min(kWidth, ndx + nu - first);
    double* column[kWidth];
    for (int c = 0; c < count; c++) {
      const std::ptrdiff_t at = first + c;
      column[c] = at < ndx ? out->A.data() + at * ndx : out->B.data() + (at - ndx) * ndx;
      std::fill(column[c] + 2 * nv, column[c] + ndx, 0.0);
    }
    const double* row = da.block(block);
    for (int i = 0; i < nv; i++, row += kWidth) {
      for (int c = 0; c < count; c++) {
        const double v = h * row[c];
        column[c][nv + i] = v;
        column[c][i] = h * v;
      }
    }
  }
  for (int i = 0; i < nv; i++) {
    out->A(nv + i, nv + i) += 1;
    out->A(i, nv + i) += h;
    out->A(i, i) += 1;
  }

  // rotations: q' = q ⊕ h v'
  using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  for (int j = 0; j < m->njnt; j++) {
    const int type = m->jnt_type[j];
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;
    const int rot = m->jnt_dofadr[j] + (type == mjJNT_FREE ? 3 : 0);
    Matrix3 Dq, Dv;
    mjd_quatIntegrate(v_next + rot, h, Dq.data(), Dv.data(), nullptr);
    for (int c = 0; c < ndx + nu; c++) {
      auto column = c < ndx ? out->A.col(c) : out->B.col(c - ndx);
      column.segment<3>(rot) = h * (Dv * column.segment<3>(nv + rot));
    }
    out->A.block<3, 3>(rot, rot) += Dq;
  }
}

}  // namespace costate
