// Level 2 as the dispatcher sees it.
#include "derivative/backend.h"
#include "derivative/equilibrium.h"
#include "derivative/integrator.h"
#include "derivative/inverse_dynamics.h"
#include "derivative/residual_difference.h"
#include "derivative/runge_kutta.h"

namespace costate {

namespace {

class ResidualBackend final : public Backend {
 public:
  explicit ResidualBackend(const mjModel* model) : difference_(model) {}

  bool Linearize(const mjModel* m, mjData* d, bool sensors, StepDerivative* out, std::string* missing) override {
    if (!Acceleration(m, d, out, missing)) return false;
    if (out->status != StepStatus::kOk) return true;
    if (sensors && !Sensors(m, d, out, missing)) return false;
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
    AssembleStep(m, v_next_.data(), blocked_, out);
    const int ndx = static_cast<int>(out->A.rows());
    out->A.bottomRows(m->na) = direct_.activation.leftCols(ndx);
    out->B.bottomRows(m->na) = direct_.activation.rightCols(m->nu);
    return true;
  }

  bool LinearizeSensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) override {
    return Acceleration(m, d, out, missing) && (out->status != StepStatus::kOk || Sensors(m, d, out, missing));
  }

  bool LinearizeAcceleration(const mjModel* m, mjData* d, AccelerationDerivative* out, std::string* missing) override {
    if (!Acceleration(m, d, &report_, missing)) return false;
    out->status = report_.status;
    std::swap(out->coverage, report_.coverage);
    if (out->status != StepStatus::kOk) return true;
    out->qacc = point_.a();
    out->x = da_.leftCols(2 * m->nv + m->na);
    out->u = da_.rightCols(m->nu);
    out->force.setIdentity(m->nv, m->nv);
    point_.H().solveInPlace(out->force);
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
    point_.Residual(m, d);
    point_.Assemble(m, d);
    DifferencedTerms terms;
    terms.actuation = terms.integrator = false;
    if (!difference_.Compute(m, d, point_.a(), terms, &direct_, missing)) return false;
    out->qfrc = Eigen::Map<const VectorXd>(d->qfrc_inverse, m->nv);
    out->q = direct_.residual.leftCols(m->nv);
    out->v = direct_.residual.middleCols(m->nv, m->nv);
    out->a = point_.HessianMatrix();
    return true;
  }

 private:
  // da = −H⁻¹ ∂r/∂(x, u)
  bool Acceleration(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
    *missing = ResidualRefusal(m);
    if (!missing->empty()) return false;
    *out = StepDerivative();
    out->coverage.terms = {{"residual", Level::kResidual, ""}};
    if (!point_.Solve(m, d, &out->status, missing)) return out->status != StepStatus::kOk;
    if (!difference_.Compute(m, d, point_.a(), {}, &direct_, missing)) return false;
    da_ = -point_.H().solve(direct_.residual);
    return true;
  }

  bool RungeKutta(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
    *missing = RungeKuttaRefusal(m);
    if (!missing->empty()) return false;
    const auto stage = [&](mjData*, StageDerivative* s) {
      s->a = point_.a();
      s->act_dot = Eigen::Map<const VectorXd>(d->act_dot, m->na);
      s->da = da_;
      s->dact_dot = direct_.activation_rate;
      return true;
    };
    StageDerivative first;
    stage(d, &first);
    StepDerivative stage_out;
    const bool done = RungeKuttaStep(
        m, d, first,
        [&](mjData*, StageDerivative* s) {
          return Acceleration(m, d, &stage_out, missing) && stage_out.status == StepStatus::kOk && stage(d, s);
        },
        out);
    if (!done) out->status = stage_out.status;
    return done || out->status != StepStatus::kOk;
  }

  bool Sensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
    if (!difference_.Sensors(m, d, point_.a(), da_, &sensors_, missing)) return false;
    const int ndx = 2 * m->nv + m->na;
    out->C = sensors_.leftCols(ndx);
    out->D = sensors_.rightCols(m->nu);
    return true;
  }

  Equilibrium point_;
  ResidualDifference difference_;
  DirectDerivative direct_;
  MatrixXd gain_, da_, applied_, sensors_;
  VectorXd v_next_;
  StepDerivative report_;
  BlockedMatrix blocked_;
};

}  // namespace

std::unique_ptr<Backend> MakeResidualBackend(const mjModel* model, const LinearizeOptions&, std::string* missing) {
  *missing = ResidualRefusal(model);
  if (!missing->empty()) return nullptr;
  return std::make_unique<ResidualBackend>(model);
}

}  // namespace costate
