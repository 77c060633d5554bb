// Level 2 as the dispatcher sees it.
#include "derivative/backend.h"

#include <costate/model.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/actuator_range.h"
#include "core/finite.h"
#include "derivative/actuation.h"
#include "derivative/chain.h"
#include "derivative/delayed.h"
#include "derivative/equilibrium.h"
#include "derivative/integrator.h"
#include "derivative/inverse_dynamics.h"
#include "derivative/metric.h"
#include "derivative/munthe_kaas.h"
#include "derivative/muscle.h"
#include "derivative/parameter_difference.h"
#include "derivative/passive.h"
#include "derivative/residual_difference.h"
#include "derivative/runge_kutta.h"
#include "derivative/sensor.h"

namespace costate {

namespace {

std::string Refusal(const mjModel* m) {
  if (m->opt.noslip_iterations > 0) return "noslip: the post-pass leaves the optimum, so the residual is not zero";
  return ResidualRefusal(m);
}

class ResidualBackend final : public Backend {
 public:
  explicit ResidualBackend(const mjModel* model) : difference_(model) {}

  bool Linearize(const mjModel* m, mjData* d, bool sensors, StepDerivative* out, std::string* missing) override {
    sensors_left_ = false;
    if (!Acceleration(m, d, out, missing)) return false;
    if (out->status != StepStatus::kOk) return true;
    if (sensors) Sensors(m, d, out);
    if (m->opt.integrator == mjINT_RK4) return RungeKutta(m, d, out, missing);

    // dā = N da + ∂ā/∂(x, u)
    difference_.IntegratorGain(m, &gain_);
    applied_.noalias() = gain_ * da_;
    applied_ += direct_.acceleration;
    v_next_ = gain_ * point_.a() * m->opt.timestep;
    for (int i = 0; i < m->nv; i++) v_next_[i] += d->qvel[i];
    blocked_.Resize(applied_.rows(), applied_.cols());
    for (int j = 0; j < applied_.cols(); j++) {
      for (int i = 0; i < applied_.rows(); i++) blocked_(i, j) = applied_(i, j);
    }
    const bool finite = AssembleStep(m, v_next_.data(), blocked_, out);
    const int ndx = static_cast<int>(out->A.rows());
    out->A.bottomRows(m->na) = direct_.activation.leftCols(ndx);
    out->B.bottomRows(m->na) = direct_.activation.rightCols(m->nu);
    return CoversIfFinite(finite && IsFinite(direct_.activation), missing);
  }

  const std::vector<char>* SensorsLeft() const override { return sensors_left_ ? &difference_.failed() : nullptr; }
  void SelectSensors(const std::vector<char>* wanted) override { wanted_sensors_ = wanted; }

  bool LinearizeSensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) override {
    sensors_left_ = false;
    if (!Acceleration(m, d, out, missing)) return false;
    if (out->status == StepStatus::kOk) Sensors(m, d, out);
    return true;
  }

  // applied forces are inputs that enter r alone
  bool Vjp(const mjModel* m, mjData* d, const StepCovectors& covectors, StepVjp* out, std::string* missing) override {
    state_.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
    mj_getState(m, d, state_.data(), mjSTATE_INTEGRATION);
    if (!Backend::Vjp(m, d, {covectors.next, covectors.sensors, false}, out, missing)) return false;
    if (!covectors.forces || out->status != StepStatus::kOk) return true;
    const int nv = static_cast<int>(m->nv), nxfrc = 6 * static_cast<int>(m->nbody);
    VectorXd back = VectorXd::Zero(nv + nxfrc), y;
    out->xfrc.setZero(nxfrc);
    mj_setState(m, d, state_.data(), mjSTATE_INTEGRATION);
    if (!point_.Solve(m, d, &out->status, missing)) return out->status != StepStatus::kOk;
    const MatrixXd applied = AppliedForces(m, d);
    if (covectors.sensors.size() > 0 && !(m->opt.disableflags & mjDSBL_SENSOR)) {
      if (!difference_.SensorsByAcceleration(m, d, point_.a(), &sensors_, missing)) return false;
      y = point_.SolveTransposedH(sensors_.transpose() * covectors.sensors);
      back.noalias() += applied.transpose() * y;
      for (int i = 0; i < m->nsensor; i++) {
        y = covectors.sensors.segment(m->sensor_adr[i], m->sensor_dim[i]);
        for (int k = 0; k < y.size(); k++) {
          if (HeldByCutoff(m, d->sensordata, i, m->sensor_adr[i] + k)) y[k] = 0;
        }
        PullAppliedWrenches(m, d, i, y.data(), out->xfrc.data());
      }
    }
    if (covectors.step() && m->opt.integrator == mjINT_RK4) {
      MatrixXd F;
      if (!InputStages(
              m, d,
              [&](mjData* at, MatrixXd* da, MatrixXd* rate) {
                *da = point_.SolveH(AppliedForces(m, at));
                rate->setZero(m->na, da->cols());
              },
              &F, missing)) {
        return false;
      }
      back.noalias() += F.transpose() * covectors.next;
    } else if (covectors.step()) {
      // μ = h (λ_v + h Dvᵀ λ_q), then y = H⁻¹ Nᵀ μ
      VectorXd position = VectorXd::Zero(nv), mu = covectors.next.segment(nv, nv);
      PullPositions(m, v_next_.data(), m->opt.timestep, covectors.next.data(), position.data(), mu.data());
      y = point_.SolveTransposedH(m->opt.timestep * (gain_.transpose() * mu));
      back.noalias() += applied.transpose() * y;
    }
    out->qfrc = back.head(nv);
    out->xfrc += back.tail(nxfrc);
    return true;
  }

  bool Parameters(const mjModel* m, mjData* d, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                  std::string* missing) override {
    const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na);
    StepStatus status = StepStatus::kOk;
    *missing = ResidualRefusal(m);
    if (!missing->empty() || !point_.Solve(m, d, &status, missing)) return false;
    ParameterDifference::Columns columns;
    theta->Compute(m, d, point_.a(), &columns);
    MatrixXd da = -point_.SolveH(columns.residual);
    if (Ps) theta->Sensors(m, d, point_.a(), da, Solve(nv), Ps);
    if (!P) return true;
    if (m->opt.integrator == mjINT_RK4) return ParameterStages(m, d, theta, P, missing);

    // dā = N da + ∂ā/∂θ
    difference_.Capture(m, d);
    difference_.IntegratorGain(m, &gain_);
    v_next_ = gain_ * point_.a() * m->opt.timestep + Eigen::Map<const VectorXd>(d->qvel, nv);
    da = gain_ * da + columns.acceleration;
    P->resize(2 * nv + na, theta->size());
    P->middleRows(nv, nv) = m->opt.timestep * da;
    const VectorXd zero = VectorXd::Zero(nv);
    for (int k = 0; k < theta->size(); k++) {
      const VectorXd dv = P->col(k).segment(nv, nv);
      PushPositions(m, v_next_.data(), m->opt.timestep, zero.data(), dv.data(), P->col(k).data());
    }
    P->bottomRows(na) = columns.activation;
    return true;
  }

  bool LinearizeAcceleration(const mjModel* m, mjData* d, AccelerationDerivative* out, std::string* missing) override {
    if (!Acceleration(m, d, &report_, missing)) return false;
    out->status = report_.status;
    std::swap(out->coverage, report_.coverage);
    if (out->status != StepStatus::kOk) return true;
    out->qacc = point_.a();
    out->x = da_.leftCols(2 * m->nv + m->na);
    out->u = da_.rightCols(m->nu);
    out->force = point_.SolveH(MatrixXd::Identity(m->nv, m->nv));
    return true;
  }

  // qfrc_inverse is r without actuators and applied forces
  bool LinearizeInverse(const mjModel* m, mjData* d, ConstVectorRef qacc, InverseDerivative* out,
                        std::string* missing) override {
    *missing = InverseRefusal(m);
    if (!missing->empty()) return false;
    out->coverage.terms = {{"residual", Level::kResidual, ""}};
    out->status = RunInverse(m, d, qacc);
    if (out->status != StepStatus::kOk) return true;
    out->qfrc = Eigen::Map<const VectorXd>(d->qfrc_inverse, m->nv);
    point_.Residual(m, d);
    point_.Assemble(m, d);
    DifferencedTerms terms;
    terms.actuation = terms.integrator = false;
    if (!difference_.Compute(m, d, point_.a(), terms, &direct_, missing)) return false;
    out->q = direct_.residual.leftCols(m->nv);
    out->v = direct_.residual.middleCols(m->nv, m->nv);
    out->a = point_.HessianMatrix();
    return true;
  }

 private:
  // da = −H⁻¹ ∂r/∂(x, u)
  bool Acceleration(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
    *missing = Refusal(m);
    if (!missing->empty()) return false;
    *out = StepDerivative();
    out->coverage.terms = {{"residual", Level::kResidual, ""}};
    if (!point_.Solve(m, d, &out->status, missing)) return out->status != StepStatus::kOk;
    *missing = RestingTendon(m, d);
    if (!missing->empty()) *missing = "integrator discrete: " + *missing;
    if (!missing->empty() || !difference_.Compute(m, d, point_.a(), {}, &direct_, missing)) return false;
    if (difference_.has_jumping()) {
      out->coverage.terms.push_back({"contacts that jump", Level::kAnalytic,
                                     "as level 1 moves them: no difference sees through the collider's steps"});
    }
    da_ = -point_.SolveH(direct_.residual);
    return true;
  }

  bool RungeKutta(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
    *missing = RungeKuttaRefusal(m);
    if (!missing->empty() || !kinks_.Set(m, d, 0, &direct_.activation_rate, missing)) return false;
    if (kinks_.any()) {
      out->coverage.terms.push_back(
          {"muscles on their kink", Level::kAnalytic, "differences about one stage do not know the stages before"});
    }
    int i = 0;
    const auto stage = [&](mjData*, StageDerivative* s) {
      s->rate.resize(m->nv + m->na);
      s->rate << point_.a(), Eigen::Map<const VectorXd>(d->act_dot, m->na);
      s->slope.resize(m->nv + m->na, da_.cols());
      s->slope << da_, direct_.activation_rate;
      return true;
    };
    stage(d, &runge_kutta_.first);
    StepDerivative stage_out;
    const bool done = RungeKuttaStep(
        m, d,
        [&](mjData*, StageDerivative* s) {
          return Acceleration(m, d, &stage_out, missing) && stage_out.status == StepStatus::kOk &&
                 kinks_.Set(m, d, ++i, &direct_.activation_rate, missing) && stage(d, s);
        },
        &runge_kutta_, out);
    if (done) return CoversIfFinite(IsFinite(out->A) && IsFinite(out->B), missing);
    out->status = stage_out.status;
    return out->status != StepStatus::kOk;
  }

  // nv × (nv + 6 nbody): what qfrc_applied and xfrc_applied are on the dofs
  static MatrixXd AppliedForces(const mjModel* m, const mjData* d) {
    const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
    MatrixXd F = MatrixXd::Zero(nv, nv + 6 * nbody);
    F.leftCols(nv).setIdentity();
    for (int b = 1; b < nbody; b++) {
      const Vec3 r = Vec3Map(d->xipos + 3 * b) - Origin(m, d, b);
      for (int dof = LastDof(m, b); dof >= 0; dof = m->dof_parentid[dof]) {
        const Vec6 S = Vec6Map(d->cdof + 6 * dof);
        F.block<1, 3>(dof, nv + 6 * b) = MotionAt(S, r).transpose();
        F.block<1, 3>(dof, nv + 6 * b + 3) = S.head<3>().transpose();
      }
    }
    return F;
  }

  // ∂x'/∂ of inputs beside u: source(data, columns of da, of act_dot) at each stage
  template <typename Source>
  bool InputStages(const mjModel* m, mjData* d, const Source& source, MatrixXd* columns, std::string* missing,
                   VectorXd* sum_rate = nullptr) {
    *missing = RungeKuttaRefusal(m);
    if (!missing->empty()) return false;
    int i = 0;
    StepDerivative report, all;
    MatrixXd da, rate;
    const auto stage = [&](mjData* at, StageDerivative* s) {
      if (!Acceleration(m, at, &report, missing) || report.status != StepStatus::kOk) return false;
      if (!kinks_.Set(m, at, i, &direct_.activation_rate, missing)) return false;
      source(at, &da, &rate);
      s->rate.resize(m->nv + m->na);
      s->rate << point_.a(), Eigen::Map<const VectorXd>(at->act_dot, m->na);
      s->slope.resize(m->nv + m->na, da_.cols() + da.cols());
      s->slope.topRows(m->nv) << da_, da;
      s->slope.bottomRows(m->na) << direct_.activation_rate, rate;
      if (sum_rate) *sum_rate += kSum[i] * s->rate.tail(m->na);
      i++;
      return true;
    };
    if (!stage(d, &runge_kutta_.first) || !RungeKuttaStep(m, d, stage, &runge_kutta_, &all)) return false;
    *columns = all.B.rightCols(da.cols());
    return true;
  }

  bool ParameterStages(const mjModel* m, mjData* d, ParameterDifference* theta, MatrixXd* P, std::string* missing) {
    VectorXd sum_w = VectorXd::Zero(m->na);
    const VectorXd act = Eigen::Map<const VectorXd>(d->act, m->na);
    ParameterDifference::Columns columns;
    const auto source = [&](mjData* at, MatrixXd* da, MatrixXd* rate) {
      theta->Compute(m, at, point_.a(), &columns);
      *da = -point_.SolveH(columns.residual);
      *rate = columns.activation_rate;
    };
    if (!InputStages(m, d, source, P, missing, &sum_w)) return false;
    MatrixXd update;
    theta->ActivationUpdate(m, act.data(), sum_w.data(), &update);
    P->bottomRows(m->na) += update;
    return true;
  }

  // H⁻¹ x in place
  std::function<void(double*)> Solve(int nv) const {
    return [this, nv](double* x) {
      Eigen::Map<VectorXd> column(x, nv);
      column = point_.SolveH(column).eval();
    };
  }

  void Sensors(const mjModel* m, mjData* d, StepDerivative* out) {
    std::string why;
    const ForceChange forces = {&point_.a(), &da_, Solve(static_cast<int>(m->nv))};
    sensors_left_ = !difference_.Sensors(m, d, point_.a(), da_, &sensors_, &why, wanted_sensors_, &forces);
    if (sensors_left_) out->coverage.terms.push_back(difference_.LeftToSteps(m, &why));
    const int ndx = 2 * m->nv + m->na;
    out->C = sensors_.leftCols(ndx);
    out->D = sensors_.rightCols(m->nu);
  }

  Equilibrium point_;
  ResidualDifference difference_;
  DirectDerivative direct_;
  MatrixXd gain_, da_, applied_, sensors_;
  VectorXd v_next_, state_;
  bool sensors_left_ = false;
  const std::vector<char>* wanted_sensors_ = nullptr;  // null: all
  StepDerivative report_;
  BlockedMatrix blocked_;
  RungeKuttaWork runge_kutta_;
  KinkedMuscles kinks_;
};

}  // namespace

std::unique_ptr<Backend> MakeResidualBackend(const mjModel* model, const LinearizeOptions&, std::string* missing) {
  *missing = Refusal(model);
  if (missing->empty()) *missing = DelayRefusal(model);
  if (!missing->empty()) return nullptr;
  auto backend = std::make_unique<ResidualBackend>(model);
  if (model->nhistory == 0) return backend;
  return std::make_unique<DelayedBackend>(model, std::move(backend), true);
}

}  // namespace costate
