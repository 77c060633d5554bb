#include "derivative/runge_kutta.h"

#include <cmath>

#include "derivative/integrator.h"
#include "derivative/munthe_kaas.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using Vector3 = Eigen::Vector3d;

// k = J_r⁻¹(u) v and dk = J_r⁻¹ dv + (∂J_r⁻¹/∂u · du) v
void Rate(const mjModel* m, const VectorXd& u, const MatrixXd& du, const VectorXd& v, const MatrixXd& dv, VectorXd* k,
          MatrixXd* dk) {
  *k = v;
  *dk = dv;
  ForRotations(m, [&](int adr) {
    const Vector3 u3 = u.segment<3>(adr), v3 = v.segment<3>(adr);
    const InverseJacobian inverse(u3);
    k->segment<3>(adr) = inverse.Apply(u3, v3);
    for (int c = 0; c < dv.cols(); c++) {
      dk->block<3, 1>(adr, c) = PLANT("rk4: rate by velocity", inverse.Apply(u3, dv.block<3, 1>(adr, c))) +
                                PLANT("rk4: rate by position", inverse.Variation(u3, v3, du.block<3, 1>(adr, c)));
    }
  });
}

}  // namespace

std::string RungeKuttaRefusal(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    if (m->actuator_dyntype[i] == mjDYN_DCMOTOR) return "dcmotor activations under RK4";
    if (m->actuator_gaintype[i] == mjGAIN_SO3 && m->actuator_dyntype[i] != mjDYN_NONE) return "SO3 activations under RK4";
  }
  return "";
}

bool RungeKuttaStep(const mjModel* m, mjData* d, const StageDerivative& first, const StageFunction& stage,
                    StepDerivative* out) {
  const int nv = m->nv, na = m->na, nq = m->nq, ndx = 2 * nv + na;
  const int columns = static_cast<int>(first.da.cols()), inputs = columns - ndx;
  const double h = m->opt.timestep, time = d->time;
  const VectorXd q0 = Eigen::Map<VectorXd>(d->qpos, nq), v0 = Eigen::Map<VectorXd>(d->qvel, nv),
                 w0 = Eigen::Map<VectorXd>(d->act, na);

  // the point: dx = (dq, dv, dw, ·), u = 0
  MatrixXd dv = MatrixXd::Zero(nv, columns), dw = MatrixXd::Zero(na, columns), dq = MatrixXd::Zero(nv, columns);
  dq.leftCols(nv).setIdentity();
  dv.middleCols(nv, nv).setIdentity();
  dw.middleCols(2 * nv, na).setIdentity();
  const MatrixXd dv0 = dv, dw0 = dw;
  VectorXd k = v0, sum_k = kSum[0] * v0, sum_a = kSum[0] * first.a, sum_w = kSum[0] * first.act_dot;
  MatrixXd dk = dv, da = first.da, dact_dot = first.dact_dot;
  MatrixXd sum_dk = kSum[0] * dk, sum_da = kSum[0] * da, sum_dw = kSum[0] * dact_dot;

  StageDerivative point = first;
  for (int i = 1; i < 4; i++) {
    const double step = kStageWeight[i] * h;

    // u = step k, q = q0 ⊕ u, v = v0 + step a, w = w0 + step act_dot
    const VectorXd u = step * k, v = v0 + step * point.a, w = w0 + step * point.act_dot;
    const MatrixXd du = step * dk;
    PositionRows(m, k.data(), step, dk, dq);
    dv = dv0 + PLANT("rk4: stage velocity", step * da);
    dw = dw0 + PLANT("rk4: stage activation", step * dact_dot);
    mju_copy(d->qpos, q0.data(), nq);
    mj_integratePos(m, d->qpos, u.data(), 1);
    mju_copy(d->qvel, v.data(), nv);
    mju_copy(d->act, w.data(), na);
    d->time = time + step;
    if (!stage(d, &point)) return false;

    // chain: da = a_q dq + a_v dv + a_w dw + a_u du
    const auto chain = [&](const MatrixXd& J, MatrixXd* result) {
      MatrixXd y = J.leftCols(nv) * dq + J.middleCols(nv, nv) * dv + J.middleCols(2 * nv, na) * dw;
      y.rightCols(inputs) += J.rightCols(inputs);
      *result = std::move(y);
    };
    chain(point.da, &da);
    chain(point.dact_dot, &dact_dot);
    Rate(m, u, du, v, dv, &k, &dk);
    sum_k += kSum[i] * k;
    sum_a += kSum[i] * point.a;
    sum_w += kSum[i] * point.act_dot;
    sum_dk += kSum[i] * dk;
    sum_da += kSum[i] * da;
    sum_dw += kSum[i] * dact_dot;
  }

  // q' = q0 ⊕ h Σ b k, v' = v0 + h Σ b a, act' by the engine's last update
  MatrixXd all(ndx, columns);
  PositionRows(m, sum_k.data(), h, sum_dk, all.topRows(nv));
  all.middleRows(nv, nv) = dv0 + h * sum_da;
  for (int i = 0; i < m->nactuator; i++) {
    const int adr = m->actuator_actadr[i];
    for (int j = adr; adr >= 0 && j < adr + m->actuator_actnum[i]; j++) {
      double rate = h;
      if (m->actuator_dyntype[i] == mjDYN_FILTEREXACT) {
        const double tau = mju_max(mjMINVAL, m->actuator_dynprm[i * mjNDYN]);
        rate = tau * (1 - std::exp(-h / tau));
      }
      const double next = w0[j] + rate * sum_w[j];
      const mjtNum* range = m->actuator_actrange + 2 * i;
      const bool clamped = m->actuator_actlimited[i] && (next < range[0] || next > range[1]);
      if (clamped) {
        all.row(2 * nv + j).setZero();
      } else {
        all.row(2 * nv + j) = dw0.row(j) + PLANT("rk4: activation", rate * sum_dw.row(j));
      }
    }
  }
  out->A = all.leftCols(ndx);
  out->B = all.rightCols(inputs);
  return true;
}

}  // namespace costate
