#include "derivative/integrator.h"

#include <algorithm>

#include "core/simd.h"

#include "derivative/plant.h"

namespace costate {

void PositionRows(const mjModel* m, const mjtNum* v, double h, const Eigen::Ref<const Eigen::MatrixXd>& dv,
                  Eigen::Ref<Eigen::MatrixXd> out) {
  using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  for (Eigen::Index c = 0; c < dv.cols(); c++) {
    const double* from = dv.data() + c * dv.outerStride();
    double* to = out.data() + c * out.outerStride();
    for (Eigen::Index r = 0; r < dv.rows(); r++) to[r] = h * from[r];
  }
  for (int j = 0; j < m->njnt; j++) {
    const int adr = m->jnt_dofadr[j], type = m->jnt_type[j];
    const int linear = type == mjJNT_BALL ? 0 : type == mjJNT_FREE ? 3 : 1;
    for (int k = adr; k < adr + linear; k++) out(k, k) += 1;
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;

    // the engine differentiates by the scaled velocity h v
    const int rot = adr + linear;
    Matrix3 Dq, Dv;
    mjd_quatIntegrate(v + rot, h, Dq.data(), Dv.data(), nullptr);
    for (int c = 0; c < dv.cols(); c++) {
      out.block<3, 1>(rot, c) = PLANT("rk4: rotation by velocity", h * (Dv * dv.block<3, 1>(rot, c)));
    }
    out.block(rot, rot, 3, 3) += PLANT("rk4: rotation by position", Dq);
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
    Dv *= PLANT("positions: product", h);
    rotation(adr + linear, Dq, Dv);
  }
}

// rows of a block to columns: column_c[nv + i] = h row_i[c], column_c[i] = h² row_i[c], by squares of four
COSTATE_SIMD void ScatterRows(int nv, int count, double h, const double* row, double* const* column) {
  constexpr int kWidth = BlockedMatrix::kWidth;
  typedef double Loose4 __attribute__((vector_size(32), aligned(8)));
  int i = 0;
  for (; i + 4 <= nv; i += 4, row += 4 * kWidth) {
    for (int c = 0; c + 4 <= count; c += 4) {
      const Double4* r = reinterpret_cast<const Double4*>(row + c);
      const Double4 r0 = r[0], r1 = r[kWidth / 4], r2 = r[2 * (kWidth / 4)], r3 = r[3 * (kWidth / 4)];
      const Double4 a = __builtin_shufflevector(r0, r1, 0, 4, 2, 6), b = __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
      const Double4 d = __builtin_shufflevector(r2, r3, 0, 4, 2, 6), e = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
      const Double4 out[4] = {__builtin_shufflevector(a, d, 0, 1, 4, 5), __builtin_shufflevector(b, e, 0, 1, 4, 5),
                              __builtin_shufflevector(a, d, 2, 3, 6, 7), __builtin_shufflevector(b, e, 2, 3, 6, 7)};
      for (int k = 0; k < 4; k++) {
        const Double4 v = h * out[k];
        *reinterpret_cast<Loose4*>(column[c + k] + nv + i) = v;
        *reinterpret_cast<Loose4*>(column[c + k] + i) = h * v;
      }
    }
    for (int c = count / 4 * 4; c < count; c++) {
      for (int k = 0; k < 4; k++) {
        column[c][nv + i + k] = h * row[k * kWidth + c];
        column[c][i + k] = h * h * row[k * kWidth + c];
      }
    }
  }
  for (; i < nv; i++, row += kWidth) {
    for (int c = 0; c < count; c++) {
      column[c][nv + i] = h * row[c];
      column[c][i] = h * h * row[c];
    }
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
  StartStep(m, out);
  for (int block = 0; block < da.blocks(); block++) AssembleBlock(m, block, da.block(block), out);
  FinishStep(m, v_next, out);
}

void StartStep(const mjModel* m, StepDerivative* out) {
  const Eigen::Index ndx = 2 * m->nv + m->na;
  out->A.resize(ndx, ndx);
  out->B.resize(ndx, m->nu);
}

// v' = v + h ā,  q' = q + h v' apart from rotations: a row of the block feeds one entry of each of its columns
void AssembleBlock(const mjModel* m, int block, const double* da, StepDerivative* out) {
  constexpr int kWidth = BlockedMatrix::kWidth;
  const int nv = static_cast<int>(m->nv), nu = static_cast<int>(m->nu), ndx = 2 * nv + static_cast<int>(m->na);
  const int first = block * kWidth, count = std::min(kWidth, ndx + nu - first);
  double* column[kWidth];
  for (int c = 0; c < count; c++) {
    const std::ptrdiff_t at = first + c;
    column[c] = at < ndx ? out->A.data() + at * ndx : out->B.data() + (at - ndx) * ndx;
    if (m->na > 0) std::fill(column[c] + 2 * nv, column[c] + ndx, 0.0);
  }
  ScatterRows(nv, count, PLANT("positions and velocities", m->opt.timestep), da, column);
}

void FinishStep(const mjModel* m, const mjtNum* v_next, StepDerivative* out) {
  const int nv = static_cast<int>(m->nv), nu = static_cast<int>(m->nu), ndx = 2 * nv + static_cast<int>(m->na);
  const double h = m->opt.timestep;
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
      column.segment<3>(rot) = PLANT("positions: rotation by velocity", h * (Dv * column.segment<3>(nv + rot)));
    }
    out->A.block<3, 3>(rot, rot) += PLANT("positions: rotation", Dq);
  }
}

}  // namespace costate
