// Products of the RK4 step at level 1: its four stages stay prepared, so that they can be gone through backwards. (V3)
// of README.md.
#include <algorithm>
#include <vector>

#include "derivative/analytic.h"
#include "derivative/integrator.h"
#include "derivative/munthe_kaas.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using Vector3 = Eigen::Vector3d;

// calls f(activation, s, free) with act' = act + s act_dot, and whether it is within its limits
template <typename F>
void ForActivations(const mjModel* m, const mjData* first, const std::vector<ActivationSide>& sides,
                    const double* sum_rate, F f) {
  for (int i = 0; i < m->nactuator; i++) {
    const int adr = m->actuator_actadr[i];
    for (int j = adr; adr >= 0 && j < adr + m->actuator_actnum[i]; j++) {
      const ActivationStep update = ActivationStepOf(m, i, j - adr);
      f(j, update.step, update.Moves(first->act[j] + update.step * sum_rate[j], sides[j].held));
    }
  }
}

}  // namespace

bool AnalyticBackend::PrepareStages(const mjModel* m, const mjData* d, Products products, StepStatus* status,
                                    Coverage* coverage, std::string* missing) {
  *missing = RungeKuttaRefusal(m);
  if (!missing->empty()) return false;
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
  if (!stages_) {
    stages_ = std::make_unique<Stages>();
    for (int i = 0; i < 3; i++) {
      stages_->backend[i] = std::make_unique<AnalyticBackend>(m, strict_, switch_, smoothing_);
      stages_->backend[i]->later_stage_ = true;
      stages_->data[i] = MakeData(m);
    }
  }
  Stages& s = *stages_;
  if (na > 0) ActivationSides(m, d, &s.sides);
  s.v[0] = s.k[0] = Eigen::Map<const VectorXd>(d->qvel, nv);
  s.sum_k = kSum[0] * s.k[0];
  s.sum_w = kSum[0] * Eigen::Map<const VectorXd>(d->act_dot, na);

  const mjData* before = d;
  for (int i = 1; i < 4; i++) {
    // u = step k, q = q0 ⊕ u, v = v0 + step a, w = w0 + step act_dot
    const double step = kStageWeight[i] * m->opt.timestep;
    mjData* at = s.data[i - 1].get();
    mj_copyState(m, d, at, state_ & ~(mjSTATE_TIME | mjSTATE_QPOS | mjSTATE_QVEL | mjSTATE_ACT | mjSTATE_WARMSTART));
    mju_copy(at->qacc_warmstart, before->qacc_warmstart, nv);
    mju_copy(at->qpos, d->qpos, static_cast<int>(m->nq));
    mju_copy(at->qvel, d->qvel, nv);
    mju_copy(at->act, d->act, na);
    s.u[i] = step * s.k[i - 1];
    mj_integratePos(m, at->qpos, s.u[i].data(), 1);
    mju_addToScl(at->qvel, stage(i - 1)->point_.a().data(), step, nv);
    mju_addToScl(at->act, before->act_dot, step, na);
    at->time = d->time + step;
    s.v[i] = Eigen::Map<const VectorXd>(at->qvel, nv);
    stage(i)->FollowPoint(m, *this);
    stage(i)->actuation_.EnterStage(actuation_, i);
    if (!stage(i)->PreparePoint(m, at, products, status, nullptr, missing) || *status != StepStatus::kOk)
      return false;
    coverage->Add(stage(i)->report_.coverage);

    s.k[i] = s.v[i];
    ForRotations(m, [&](int r) {
      const Vector3 u = s.u[i].segment<3>(r);
      s.k[i].segment<3>(r) = StageRotation(u).Apply(s.v[i].segment<3>(r));
    });
    s.sum_k += kSum[i] * s.k[i];
    s.sum_w += kSum[i] * Eigen::Map<const VectorXd>(at->act_dot, na);
    before = at;
  }
  return true;
}

// what the model says of a stage, whose point `first` is at
void AnalyticBackend::FollowPoint(const mjModel* m, const AnalyticBackend& first) {
  actuators_missing_ = actuation_.Missing(m);
  closed_passive_ = first.closed_passive_;
  closed_actuation_ = first.closed_actuation_;
  closed_integrator_ = first.closed_integrator_;
  second_solve_ = first.second_solve_;
  differenced_ = first.differenced_;
}

void AnalyticBackend::PullStages(const mjModel* m, const mjData* d, ConstVectorRef lambda, StepVjp* out) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  const double h = m->opt.timestep;
  Stages& s = *stages_;

  // q' = q0 ⊕ h Σ b k, v' = v0 + h Σ b a, act' = act + s Σ b act_dot
  s.rate.setZero(nv);
  PullPositions(m, s.sum_k.data(), h, lambda.data(), pulled_.data(), s.rate.data());
  pulled_.segment(nv, nv) += lambda.segment(nv, nv);
  s.act.setZero(na);
  ForActivations(m, d, s.sides, s.sum_w.data(), [&](int j, double step, bool free) {
    if (!free) return;
    pulled_[2 * nv + j] += lambda[2 * nv + j];
    s.act[j] = step * lambda[2 * nv + j];
  });
  for (int i = 0; i < 4; i++) {
    s.dk[i] = kSum[i] * s.rate;
    s.da[i] = kSum[i] * h * lambda.segment(nv, nv);
    s.dw[i] = kSum[i] * s.act;
  }

  for (int i = 3; i >= 0; i--) {
    // a and act_dot of the stage
    AnalyticBackend& at = *stage(i);
    const mjData* data = i == 0 ? d : s.data[i - 1].get();
    at.y_ = s.da[i];
    s.pulled.setZero(ndx + m->nu);
    at.PullAcceleration(m, data, at.y_.data(), nullptr, s.pulled.data());
    at.PullActivation(m, nullptr, s.dw[i].data(), s.pulled.data());
    at.PullForces(m, data, at.y_, out);
    if (i == 0) {
      pulled_ += s.pulled;
      pulled_.segment(nv, nv) += s.dk[0];
      break;
    }

    // k = J_r⁻¹(u) v
    const double step = kStageWeight[i] * h;
    s.dv = s.dk[i];
    s.du.setZero(nv);
    ForRotations(m, [&](int r) {
      const Vector3 u = s.u[i].segment<3>(r), k = s.dk[i].segment<3>(r);
      const StageRotation rotation(u);
      s.dv.segment<3>(r) = PLANT("pull: rk4 rate by velocity", rotation.ApplyTransposed(k));
      s.du.segment<3>(r) = PLANT("pull: rk4 rate by position", rotation.VariationTransposed(s.v[i].segment<3>(r), k));
    });
    s.dv += s.pulled.segment(nv, nv);

    // u = step k, q = q0 ⊕ u, v = v0 + step a, w = w0 + step act_dot, of the stage before
    pulled_.tail(na + m->nu) += s.pulled.tail(na + m->nu);
    pulled_.segment(nv, nv) += s.dv;
    s.da[i - 1] += PLANT("pull: rk4 velocity", step * s.dv);
    s.dw[i - 1] += PLANT("pull: rk4 activation", step * s.pulled.segment(2 * nv, na));
    s.dk[i - 1] += step * s.du;
    PullPositions(m, s.k[i - 1].data(), step, s.pulled.data(), pulled_.data(), s.dk[i - 1].data());
  }
}

void AnalyticBackend::PushStages(const mjModel* m, const mjData* d, const double* dx, double* next,
                                 const StageSource* source) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), ndx = 2 * nv + na;
  const double h = m->opt.timestep;
  Stages& s = *stages_;
  const Eigen::Map<const VectorXd> first(dx, ndx + m->nu);
  s.pulled = first;
  s.rate.setZero(nv);
  s.act.setZero(na);
  for (int i = 0; i < 4; i++) {
    s.dk[i] = s.pulled.segment(nv, nv);
    if (i > 0) {
      const double step = kStageWeight[i] * h;
      PushPositions(m, s.k[i - 1].data(), step, dx, s.dk[i - 1].data(), s.pulled.data());
      s.pulled.segment(nv, nv) = first.segment(nv, nv) + PLANT("push: rk4 velocity", step * s.da[i - 1]);
      s.pulled.segment(2 * nv, na) = first.segment(2 * nv, na) + step * s.dw[i - 1];
      s.dk[i] = s.pulled.segment(nv, nv);
      ForRotations(m, [&](int r) {
        const Vector3 u = s.u[i].segment<3>(r), du = step * s.dk[i - 1].segment<3>(r);
        const StageRotation rotation(u);
        s.dk[i].segment<3>(r) = rotation.Apply(s.pulled.segment<3>(nv + r)) +
                                PLANT("push: rk4 rate", rotation.Variation(s.v[i].segment<3>(r), du));
      });
    }
    s.da[i].resize(nv);
    s.dw[i].resize(na);
    AnalyticBackend& at = *stage(i);
    at.PushAcceleration(m, i == 0 ? d : s.data[i - 1].get(), s.pulled.data(), s.da[i].data(), nullptr);
    at.PushActivation(m, s.pulled.data(), nullptr, s.dw[i].data());
    if (source) {
      s.da[i] += Eigen::Map<const VectorXd>(source[i].acceleration, nv);
      s.dw[i] += Eigen::Map<const VectorXd>(source[i].activation_rate, na);
    }
    s.rate += kSum[i] * s.dk[i];
    s.act += kSum[i] * s.dw[i];
  }

  Eigen::Map<VectorXd> out(next, ndx);
  PushPositions(m, s.sum_k.data(), h, dx, s.rate.data(), next);
  out.segment(nv, nv) = first.segment(nv, nv);
  for (int i = 0; i < 4; i++) out.segment(nv, nv) += kSum[i] * h * s.da[i];
  out.tail(na).setZero();
  ForActivations(m, d, s.sides, s.sum_w.data(), [&](int j, double step, bool free) {
    if (free) out[2 * nv + j] = first[2 * nv + j] + step * s.act[j];
  });
}

}  // namespace costate
