#include "derivative/integrator.h"

#include <algorithm>

#include "core/finite.h"
#include "core/joint.h"
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
    const int linear = JointLinearDofs(type);
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
    const int linear = JointLinearDofs(type);
    for (int k = adr; k < adr + linear; k++) single(k);
    if (type != mjJNT_BALL && type != mjJNT_FREE) continue;
    Eigen::Matrix<double, 3, 3, Eigen::RowMajor> Dq, Dv;
    mjd_quatIntegrate(v + adr + linear, h, Dq.data(), Dv.data(), nullptr);
    Dv *= PLANT("positions: product", h);
    rotation(adr + linear, Dq, Dv);
  }
}

// rows of a block, or sums of those of two, to columns: column_c[nv + i] = h row_i[c], column_c[i] = h² row_i[c], by
// squares of four; returns whether all are finite: 0 x is 0, unless x is infinite or no number
template <bool kSum>
__attribute__((always_inline)) inline bool ScatterSums(int nv, int count, double h, const double* row,
                                                       const double* more, double* const* column) {
  constexpr int kWidth = BlockedMatrix::kWidth, kAhead = 8;  // a cache line
  Double4 zero[4] = {};
  const auto four = [&](int i, int k, int c) __attribute__((always_inline)) {
    const int at = (i + k) * kWidth + c;
    Double4 r = *reinterpret_cast<const Double4*>(row + at);
    if (kSum) r += *reinterpret_cast<const Double4*>(more + at);
    zero[k] += 0 * r;
    return r;
  };
  // the first of four columns
  const auto some = [&](int i, int c, int columns) __attribute__((always_inline)) {
    const Double4 v = h * four(i, 0, c);
    for (int k = 0; k < columns; k++) {
      column[c + k][nv + i] = v[k];
      column[c + k][i] = h * v[k];
    }
  };
  // four columns at a time: so many pages the processor has at hand to write
  int c = 0;
  for (; c + 4 <= count; c += 4) {
    int i = 0;
    for (; i + 4 <= nv; i += 4) {
      const Double4 r0 = four(i, 0, c), r1 = four(i, 1, c), r2 = four(i, 2, c), r3 = four(i, 3, c);
      Double4 out[4];
      Transpose4(r0, r1, r2, r3, out);
      for (int k = 0; k < 4; k++) {
        // to write, what is not asked for ahead is waited for
        __builtin_prefetch(column[c + k] + (i & 4 ? nv : 0) + i + kAhead, 1);
        const Double4 v = h * out[k];
        *reinterpret_cast<Loose4*>(column[c + k] + nv + i) = v;
        *reinterpret_cast<Loose4*>(column[c + k] + i) = h * v;
      }
    }
    for (; i < nv; i++) some(i, c, 4);
  }
  for (int i = 0; i < nv && c < count; i++) some(i, c, count - c);
  const Double4 all = (zero[0] + zero[1]) + (zero[2] + zero[3]);
  return (all[0] + all[1]) + (all[2] + all[3]) == 0;
}

COSTATE_SIMD bool ScatterRows(int nv, int count, double h, const double* row, const double* more,
                              double* const* column) {
  return more ? ScatterSums<true>(nv, count, h, row, more, column)
              : ScatterSums<false>(nv, count, h, row, more, column);
}

// the position rows of a rotation: `by_velocity` times its velocity rows
COSTATE_SIMD void TurnRows(int nv, int count, int dof, const double* by_velocity, double* const* column) {
  for (int c = 0; c < count; c++) {
    const double *dv = column[c] + nv + dof, x = dv[0], y = dv[1], z = dv[2];
    double* dq = column[c] + dof;
    for (int i = 0; i < 3; i++)
      dq[i] = by_velocity[3 * i] * x + by_velocity[3 * i + 1] * y + by_velocity[3 * i + 2] * z;
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

bool AssembleStep(const mjModel* m, const mjtNum* v_next, const BlockedMatrix& da, StepDerivative* out) {
  StepAssembly assembly;
  assembly.Start(m, v_next, out);
  for (int block = 0; block < da.blocks(); block++) assembly.AddBlock(m, block, da.block(block), nullptr, out);
  return assembly.Finish(m, out);
}

void StepAssembly::Start(const mjModel* m, const mjtNum* v_next, StepDerivative* out) {
  const Eigen::Index ndx = 2 * m->nv + m->na;
  out->A.resize(ndx, ndx);
  out->B.resize(ndx, m->nu);
  finite_ = true;
  rotation_.clear();
  ForPositions(
      m, v_next, m->opt.timestep, [](int) {},
      [&](int dof, const auto& Dq, const auto& Dv) {
        Rotation& rotation = rotation_.emplace_back();
        rotation.dof = dof;
        rotation.by_position = PLANT("positions: rotation", Dq);
        rotation.by_velocity = PLANT("positions: rotation by velocity", Dv);
        finite_ = finite_ && rotation.by_position.allFinite() && rotation.by_velocity.allFinite();
      });
}

// v' = v + h ā,  q' = q ⊕ h v': a row of the block feeds one entry of each of its columns, apart from rotations
void StepAssembly::AddBlock(const mjModel* m, int block, const double* da, const double* more, StepDerivative* out) {
  constexpr int kWidth = BlockedMatrix::kWidth;
  const int nv = static_cast<int>(m->nv), nu = static_cast<int>(m->nu), ndx = 2 * nv + static_cast<int>(m->na);
  const int first = block * kWidth, count = std::min(kWidth, ndx + nu - first);
  double* column[kWidth] = {};
  for (int c = 0; c < count; c++) {
    const std::ptrdiff_t at = first + c;
    column[c] = at < ndx ? out->A.data() + at * ndx : out->B.data() + (at - ndx) * ndx;
  }
  const bool finite = ScatterRows(nv, count, PLANT("positions and velocities", m->opt.timestep), da, more, column);
  finite_ = finite_ && finite;
  // behind the rows above, with which their memory has come
  for (int c = 0; c < count && m->na > 0; c++) std::fill(column[c] + 2 * nv, column[c] + ndx, 0.0);
  for (const Rotation& rotation : rotation_) TurnRows(nv, count, rotation.dof, rotation.by_velocity.data(), column);
}

// what does not pass through ā
bool StepAssembly::Finish(const mjModel* m, StepDerivative* out) const {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  for (int i = 0; i < nv; i++) {
    out->A(nv + i, nv + i) += 1;
    out->A(i, nv + i) += h;
    out->A(i, i) += 1;
  }
  for (const Rotation& rotation : rotation_) {
    const int dof = rotation.dof;
    out->A.block<3, 3>(dof, nv + dof) += rotation.by_velocity - h * Eigen::Matrix3d::Identity();
    out->A.block<3, 3>(dof, dof) += rotation.by_position - Eigen::Matrix3d::Identity();
  }
  // products with the time step alone: below 1 they cannot overflow
  return finite_ && (h <= 1 || (IsFinite(out->A) && IsFinite(out->B)));
}

}  // namespace costate
