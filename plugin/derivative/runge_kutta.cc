#include "derivative/runge_kutta.h"

#include <algorithm>

#include "derivative/actuation.h"
#include "derivative/integrator.h"
#include "derivative/munthe_kaas.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using Vector3 = Eigen::Vector3d;

// sum += weight x, of numbers next to each other
template <typename T>
void AddTo(double weight, const T& x, T* sum) {
  const double* from = x.data();
  double* to = sum->data();
  for (Eigen::Index n = 0; n < x.size(); n++) to[n] += weight * from[n];
}

bool HasRotations(const mjModel* m) {
  return std::any_of(m->jnt_type, m->jnt_type + m->njnt,
                     [](int type) { return type == mjJNT_BALL || type == mjJNT_FREE; });
}

// Rows of (q, v, w) that these rates lead to from the point in a time `step`: q0 ⊕ step k, (v0, w0) + step rate.
// drate: nx numbers a column.
void MoveRows(const mjModel* m, bool turns, double step, const VectorXd& k, const MatrixXd& dk, const double* drate,
              MatrixXd* rows) {
  const Eigen::Index nv = dk.rows(), ndx = rows->rows(), nx = ndx - nv;
  const double* by_k = dk.data();
  double* dx = rows->data();
  for (Eigen::Index c = 0; c < dk.cols(); c++, by_k += nv, drate += nx, dx += ndx) {
    for (Eigen::Index r = 0; r < nv; r++) {
      dx[r] = step * by_k[r];
      dx[nv + r] = PLANT("rk4: stage velocity", step * drate[r]);
    }
    for (Eigen::Index r = nv; r < nx; r++) dx[nv + r] = PLANT("rk4: stage activation", step * drate[r]);
  }
  dx = rows->data();
  for (Eigen::Index j = 0; j < ndx; j++) dx[j * (ndx + 1)] += 1;
  if (turns) PositionRows(m, k.data(), step, dk, rows->topRows(nv));
}

// k = J_r⁻¹(u) v and dk = J_r⁻¹ dv + (∂J_r⁻¹/∂u · du) v; du = step dk of the stage before
void Rate(const mjModel* m, bool turns, double step, RungeKuttaWork* work) {
  const int nv = static_cast<int>(m->nv);
  RungeKuttaWork& s = *work;
  s.k = s.x.head(nv);
  if (turns) s.next_dk.resize(nv, s.dx.cols());
  double* dk = (turns ? s.next_dk : s.dk).data();
  const double* dv = s.dx.data() + nv;
  for (Eigen::Index c = 0; c < s.dx.cols(); c++, dk += nv, dv += s.dx.rows()) {
    for (int r = 0; r < nv; r++) dk[r] = dv[r];
  }
  if (!turns) return;
  ForRotations(m, [&](int adr) {
    const Vector3 u = s.u.segment<3>(adr), v = s.x.segment<3>(adr);
    const StageRotation rotation(u);
    s.k.segment<3>(adr) = rotation.Apply(v);
    for (int c = 0; c < s.dx.cols(); c++) {
      const Vector3 du = step * s.dk.block<3, 1>(adr, c), dv = s.dx.block<3, 1>(nv + adr, c);
      s.next_dk.block<3, 1>(adr, c) = PLANT("rk4: rate by velocity", rotation.Apply(dv)) +
                                      PLANT("rk4: rate by position", rotation.Variation(v, du));
    }
  });
  s.dk.swap(s.next_dk);
}

}  // namespace

std::string RungeKuttaRefusal(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    // the engine moves it by the velocity of the last stage alone
    if (m->actuator_dyntype[i] == mjDYN_DCMOTOR && SlotsOf(m, i).bristle >= 0) return "dcmotor bristle under RK4";
    if (m->actuator_gaintype[i] == mjGAIN_SO3 && m->actuator_dyntype[i] != mjDYN_NONE)
      return "SO3 activations under RK4";
  }
  return "";
}

bool RungeKuttaStep(const mjModel* m, mjData* d, const StageFunction& stage, RungeKuttaWork* work,
                    StepDerivative* out) {
  RungeKuttaWork& s = *work;
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), nq = static_cast<int>(m->nq), nx = nv + na,
            ndx = nv + nx;
  const int columns = static_cast<int>(s.first.slope.cols()), inputs = columns - ndx;
  const double h = m->opt.timestep, time = d->time;
  if (na > 0) ActivationSides(m, d, &s.sides);
  s.q0 = Eigen::Map<VectorXd>(d->qpos, nq);
  s.x0.resize(nx);
  mju_copy(s.x0.data(), d->qvel, nv);
  mju_copy(s.x0.data() + nv, d->act, na);

  // the point: u = 0, dk = dv
  const bool turns = HasRotations(m);
  const StageDerivative* point = &s.first;
  const double* drate = point->slope.data();
  s.dx.resize(ndx, columns);
  s.k = s.x0.head(nv);
  s.dk.setZero(nv, columns);
  for (int j = 0; j < nv; j++) s.dk(j, nv + j) = 1;
  s.drate.resize(nx, columns);
  s.sum_k = kSum[0] * s.k;
  s.sum_rate = kSum[0] * point->rate;
  s.sum_dk = kSum[0] * s.dk;
  s.sum_drate = kSum[0] * point->slope;

  for (int i = 1; i < 4; i++) {
    const double step = kStageWeight[i] * h;

    // u = step k, q = q0 ⊕ u, (v, w) = (v0, w0) + step (a, act_dot)
    s.u = step * s.k;
    s.x = s.x0 + step * point->rate;
    MoveRows(m, turns, step, s.k, s.dk, drate, &s.dx);
    mju_copy(d->qpos, s.q0.data(), nq);
    mj_integratePos(m, d->qpos, s.u.data(), 1);
    mju_copy(d->qvel, s.x.data(), nv);
    mju_copy(d->act, s.x.data() + nv, na);
    d->time = time + step;
    if (!stage(d, &s.stage)) return false;
    point = &s.stage;

    // chain: da = a_x dx + a_u du
    std::fill_n(s.drate.data(), nx * ndx, 0.0);
    std::copy_n(point->slope.data() + nx * ndx, nx * inputs, s.drate.data() + nx * ndx);
    AddProduct(point->slope.leftCols(ndx), s.dx, &s.drate, &s.packed);
    drate = s.drate.data();
    Rate(m, turns, step, &s);
    AddTo(kSum[i], s.k, &s.sum_k);
    AddTo(kSum[i], point->rate, &s.sum_rate);
    AddTo(kSum[i], s.dk, &s.sum_dk);
    AddTo(kSum[i], s.drate, &s.sum_drate);
  }

  // q' = q0 ⊕ h Σ b k, v' = v0 + h Σ b a, act' by the engine's last update
  s.all.resize(ndx, columns);
  MoveRows(m, turns, h, s.sum_k, s.sum_dk, s.sum_drate.data(), &s.all);
  for (int i = 0; i < m->nactuator; i++) {
    const int adr = m->actuator_actadr[i];
    for (int j = adr; adr >= 0 && j < adr + m->actuator_actnum[i]; j++) {
      const ActivationStep update = ActivationStepOf(m, i, j - adr);
      if (update.Moves(s.x0[nv + j] + update.step * s.sum_rate[nv + j], s.sides[j].held)) {
        s.all.row(2 * nv + j) = PLANT("rk4: activation", update.step * s.sum_drate.row(nv + j));
        s.all(2 * nv + j, 2 * nv + j) += 1;
      } else {
        s.all.row(2 * nv + j).setZero();
      }
    }
  }
  out->A.resize(ndx, ndx);
  out->B.resize(ndx, inputs);
  std::copy_n(s.all.data(), ndx * ndx, out->A.data());
  std::copy_n(s.all.data() + ndx * ndx, ndx * inputs, out->B.data());
  return true;
}

}  // namespace costate
