#include "derivative/runge_kutta.h"

#include <cmath>

#include "derivative/integrator.h"
#include "derivative/munthe_kaas.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using Vector3 = Eigen::Vector3d;

// k = J_r⁻¹(u) v and dk = J_r⁻¹ dv + (∂J_r⁻¹/∂u · du) v; on entry dk is dk of the stage before, du = step dk
void Rate(const mjModel* m, double step, const VectorXd& u, const VectorXd& v, const MatrixXd& dx, VectorXd* k,
          MatrixXd* dk) {
  const int nv = static_cast<int>(m->nv);
  *k = v;
  ForRotations(m, [&](int adr) {
    const Vector3 u3 = u.segment<3>(adr), v3 = v.segment<3>(adr);
    const InverseJacobian inverse(u3);
    k->segment<3>(adr) = inverse.Apply(u3, v3);
    for (int c = 0; c < dx.cols(); c++) {
      const Vector3 du = step * dk->block<3, 1>(adr, c), dv = dx.block<3, 1>(nv + adr, c);
      dk->block<3, 1>(adr, c) = PLANT("rk4: rate by velocity", inverse.Apply(u3, dv)) +
                                PLANT("rk4: rate by position", inverse.Variation(u3, v3, du));
    }
  });
  for (int j = 0; j < m->njnt; j++) {
    const int adr = m->jnt_dofadr[j], type = m->jnt_type[j];
    const int linear = type == mjJNT_BALL ? 0 : type == mjJNT_FREE ? 3 : 1;
    dk->middleRows(adr, linear) = dx.middleRows(nv + adr, linear);
  }
}

}  // namespace

std::string RungeKuttaRefusal(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_dyntype[i] == mjDYN_DCMOTOR) return "dcmotor activations under RK4";
    if (m->actuator_gaintype[i] == mjGAIN_SO3 && m->actuator_dyntype[i] != mjDYN_NONE) return "SO3 activations under RK4";
  }
  return "";
}

bool RungeKuttaStep(const mjModel* m, mjData* d, const StageFunction& stage, RungeKuttaWork* work, StepDerivative* out) {
  RungeKuttaWork& s = *work;
  const int nv = m->nv, na = m->na, nq = m->nq, ndx = 2 * nv + na;
  const int columns = static_cast<int>(s.first.da.cols()), inputs = columns - ndx;
  const double h = m->opt.timestep, time = d->time;
  s.q0 = Eigen::Map<VectorXd>(d->qpos, nq);
  s.v0 = Eigen::Map<VectorXd>(d->qvel, nv);
  s.w0 = Eigen::Map<VectorXd>(d->act, na);

  // the point: dx = (dq, dv, dw, ·), u = 0
  const StageDerivative* point = &s.first;
  s.dx.setIdentity(ndx, columns);
  s.k = s.v0;
  s.dk = s.dx.middleRows(nv, nv);
  s.da = point->da;
  s.dw = point->dact_dot;
  s.sum_k = kSum[0] * s.v0;
  s.sum_w = kSum[0] * point->act_dot;
  s.sum_dk = kSum[0] * s.dk;
  s.sum_da = kSum[0] * s.da;
  s.sum_dw = kSum[0] * s.dw;

  for (int i = 1; i < 4; i++) {
    const double step = kStageWeight[i] * h;

    // u = step k, q = q0 ⊕ u, v = v0 + step a, w = w0 + step act_dot
    s.u = step * s.k;
    s.v = s.v0 + step * point->a;
    s.w = s.w0 + step * point->act_dot;
    PositionRows(m, s.k.data(), step, s.dk, s.dx.topRows(nv));
    s.dx.middleRows(nv, nv) = PLANT("rk4: stage velocity", step * s.da);
    s.dx.bottomRows(na) = PLANT("rk4: stage activation", step * s.dw);
    for (int j = nv; j < ndx; j++) s.dx(j, j) += 1;
    mju_copy(d->qpos, s.q0.data(), nq);
    mj_integratePos(m, d->qpos, s.u.data(), 1);
    mju_copy(d->qvel, s.v.data(), nv);
    mju_copy(d->act, s.w.data(), na);
    d->time = time + step;
    if (!stage(d, &s.stage)) return false;
    point = &s.stage;

    // chain: da = a_x dx + a_u du
    const auto chain = [&](const MatrixXd& J, MatrixXd* result) {
      s.J = J.leftCols(ndx);
      SetProduct(s.J, s.dx, result, &s.packed);
      result->rightCols(inputs) += J.rightCols(inputs);
    };
    chain(point->da, &s.da);
    if (na > 0) chain(point->dact_dot, &s.dw);
    Rate(m, step, s.u, s.v, s.dx, &s.k, &s.dk);
    s.sum_k += kSum[i] * s.k;
    s.sum_w += kSum[i] * point->act_dot;
    s.sum_dk += kSum[i] * s.dk;
    s.sum_da += kSum[i] * s.da;
    s.sum_dw += kSum[i] * s.dw;
  }

  // q' = q0 ⊕ h Σ b k, v' = v0 + h Σ b a, act' by the engine's last update
  s.all.resize(ndx, columns);
  PositionRows(m, s.sum_k.data(), h, s.sum_dk, s.all.topRows(nv));
  s.all.middleRows(nv, nv) = h * s.sum_da;
  for (int j = nv; j < 2 * nv; j++) s.all(j, j) += 1;
  for (int i = 0; i < m->nactuator; i++) {
    const int adr = m->actuator_actadr[i];
    for (int j = adr; adr >= 0 && j < adr + m->actuator_actnum[i]; j++) {
      double rate = h;
      if (m->actuator_dyntype[i] == mjDYN_FILTEREXACT) {
        const double tau = mju_max(mjMINVAL, m->actuator_dynprm[i * mjNDYN]);
        rate = tau * (1 - std::exp(-h / tau));
      }
      const double next = s.w0[j] + rate * s.sum_w[j];
      const mjtNum* range = m->actuator_actrange + 2 * i;
      const bool clamped = m->actuator_actlimited[i] && (next < range[0] || next > range[1]);
      if (clamped) {
        s.all.row(2 * nv + j).setZero();
      } else {
        s.all.row(2 * nv + j) = PLANT("rk4: activation", rate * s.sum_dw.row(j));
        s.all(2 * nv + j, 2 * nv + j) += 1;
      }
    }
  }
  out->A = s.all.leftCols(ndx);
  out->B = s.all.rightCols(inputs);
  return true;
}

}  // namespace costate
