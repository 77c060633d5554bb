// Products with the Jacobians of one control interval, and the derivatives of dynamics without a step: arguments,
// substeps and the choice of level.
#include <utility>

#include "core/check.h"
#include "derivative/check_point.h"
#include "derivative/linearizer.h"

namespace costate {

std::string SensorsReason(const Coverage& coverage) {
  for (const TermCoverage& term : coverage.terms) {
    if (term.term == "sensors") return "sensors: " + term.reason;
  }
  return "sensors";
}

namespace {

// σ of some sensors, an entry a sensor, without that of the others
VectorXd Part(const mjModel* m, ConstVectorRef sigma, const std::vector<char>& some) {
  VectorXd part = sigma;
  for (int i = 0; i < m->nsensor; ++i) {
    if (!some[i]) part.segment(m->sensor_adr[i], m->sensor_dim[i]).setZero();
  }
  return part;
}

}  // namespace

bool Backend::Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
                  std::string* missing) {
  if (covectors.forces) {
    *missing = "the pull-back to applied forces";
    return false;
  }
  const bool sensors = covectors.sensors.size() > 0;
  if (!(covectors.step() ? Linearize(model, data, sensors, &matrices_, missing)
                         : LinearizeSensors(model, data, &matrices_, missing))) {
    return false;
  }
  out->status = matrices_.status;
  std::swap(out->coverage, matrices_.coverage);
  if (out->status != StepStatus::kOk) return true;
  if (sensors && SensorsLeft() && !Part(model, covectors.sensors, *SensorsLeft()).isZero(0)) {
    *missing = SensorsReason(out->coverage);
    return false;
  }
  out->x.setZero(2 * model->nv + model->na);
  out->u.setZero(model->nu);
  if (covectors.step()) {
    out->x.noalias() += matrices_.A.transpose() * covectors.next;
    out->u.noalias() += matrices_.B.transpose() * covectors.next;
  }
  out->sensors.resize(0);
  out->delayed.resize(0);
  if (sensors) {
    out->sensors.noalias() = matrices_.C.transpose() * covectors.sensors;
    out->x += out->sensors;
    // at the last knot, too: delayed controls act there
    if (matrices_.D.size() > 0) out->u.noalias() += matrices_.D.transpose() * covectors.sensors;
  }
  out->qfrc.resize(0);
  out->xfrc.resize(0);
  return true;
}

bool Backend::PullParameters(const mjModel* model, mjData* data, const VectorXd& point, const StepCovectors& covectors,
                             ParameterDifference* theta, VectorXd* pulled, std::string* missing) {
  const bool sensors = covectors.sensors.size() > 0;
  mj_setState(model, data, point.data(), mjSTATE_INTEGRATION);
  if (!Parameters(model, data, theta, covectors.step() ? &P_ : nullptr, sensors ? &Ps_ : nullptr, missing))
    return false;
  pulled->setZero(theta->size());
  if (covectors.step()) pulled->noalias() += P_.transpose() * covectors.next;
  if (sensors) pulled->noalias() += Ps_.transpose() * covectors.sensors;
  return true;
}

bool Backend::Jvp(const mjModel* model, mjData* data, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
                  std::string* missing) {
  if (!Linearize(model, data, false, &matrices_, missing)) return false;
  out->status = matrices_.status;
  std::swap(out->coverage, matrices_.coverage);
  if (out->status != StepStatus::kOk) return true;
  out->dx.noalias() = matrices_.A * dx;
  out->dx.noalias() += matrices_.B * du;
  return true;
}

bool Linearizer::Impl::Pull(Backend* backend, const StepCovectors& covectors, StepVjp* out, std::string* missing) {
  return backend->Vjp(&local, data.get(), covectors, out, missing) && PullParameters(backend, covectors, out, missing);
}

// all else of a level that has no pull-back to applied forces; these from whole steps
bool Linearizer::Impl::PullForcesBySteps(Backend* backend, const StepCovectors& covectors, StepVjp* out,
                                         std::string* missing) {
  Backend* steps = levels[kStep].get();
  if (!steps || backend == steps) return false;
  const std::string reason = *missing;
  missing->clear();
  mj_setState(&local, data.get(), point.data(), state);
  if (!Pull(backend, {covectors.next, covectors.sensors, false}, out, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  mj_setState(&local, data.get(), point.data(), state);
  if (!steps->Vjp(&local, data.get(), covectors, &step_vjp, missing)) return false;
  out->status = step_vjp.status;
  out->qfrc.swap(step_vjp.qfrc);
  out->xfrc.swap(step_vjp.xfrc);
  out->coverage.terms.push_back({"applied forces", Level::kStep, reason});
  return true;
}

// σ of sensors that a level leaves goes through whole steps, all else through the level itself
bool Linearizer::Impl::PullSensorsBySteps(Backend* backend, const StepCovectors& covectors, StepVjp* out,
                                          std::string* missing) {
  Backend* steps = levels[kStep].get();
  if (!steps || backend == steps || covectors.sensors.size() == 0 || !backend->SensorsLeft()) return false;
  if (theta || model->nhistory > 0) return false;  // whose parts are not those of a sum
  const VectorXd left = Part(model, covectors.sensors, *backend->SensorsLeft());
  const std::string reason = std::exchange(*missing, "");
  mj_setState(&local, data.get(), point.data(), state);
  if (!Pull(backend, {covectors.next, covectors.sensors - left, covectors.forces}, out, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  const VectorXd zero = VectorXd::Zero(covectors.next.size());
  mj_setState(&local, data.get(), point.data(), state);
  if (!steps->Vjp(&local, data.get(), {zero, left, covectors.forces}, &step_vjp, missing)) return false;
  out->status = step_vjp.status;
  if (out->status != StepStatus::kOk) return true;
  out->sensors += step_vjp.sensors;
  out->x += step_vjp.x;
  out->u += step_vjp.u;
  out->qfrc += step_vjp.qfrc;
  out->xfrc += step_vjp.xfrc;
  Coverage by_steps;
  by_steps.terms.push_back({"sensors", Level::kStep, reason});
  out->coverage.Add(by_steps);
  return true;
}

// sensors are those of the first substep
void Linearizer::Impl::VjpInterval(const StepCovectors& covectors, StepVjp* out) {
  const int count = whole_interval || !covectors.step() ? 1 : options.substeps;
  if (count > 1) FindResting();
  points.resize(count);
  for (int k = 0; k < count; ++k) {
    points[k] = point;
    if (k + 1 < count) Advance();
  }

  // λ ← A_kᵀ λ from the last substep to the first; controls and forces act in all of them
  const VectorXd none;
  lambda = covectors.next;
  for (int k = count - 1; k >= 0; --k) {
    point = points[k];
    if (count > 1) resting.Pull(k, lambda);
    const bool last = k == count - 1;
    StepVjp* to = last ? out : &substep_vjp;
    const StepCovectors back = {lambda, k == 0 ? covectors.sensors : ConstVectorRef(none), covectors.forces};
    FirstThatCovers(to, [&](Backend* backend, std::string* missing) {
      return Pull(backend, back, to, missing) || PullSensorsBySteps(backend, back, to, missing) ||
             (back.forces && PullForcesBySteps(backend, back, to, missing));
    });
    if (to->status != StepStatus::kOk) {
      out->status = to->status;
      return;
    }
    lambda = to->x;
    if (last) continue;
    out->sensors = to->sensors;
    out->delayed = to->delayed;
    out->u += to->u;
    out->qfrc += to->qfrc;
    out->xfrc += to->xfrc;
    out->theta += to->theta;
    out->coverage.Add(to->coverage);
  }
  out->x = lambda;
  if (count > 1) resting.AddPulled(&out->x, &out->u);
  if (count > 1 && !AllFinite(*out)) out->status = StepStatus::kBadState;  // each step's is, their sum is not
}

void Linearizer::Impl::JvpInterval(ConstMatrixRef direction, ConstMatrixRef du, StepJvp* out) {
  Coverage all;
  const int count = whole_interval ? 1 : options.substeps;
  if (count > 1) FindResting();
  dx = direction;
  for (int k = 0; k < count; ++k) {
    if (k > 0) Advance();
    FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
      return backend->Jvp(&local, data.get(), dx, du, out, missing);
    });
    if (out->status != StepStatus::kOk) return;
    if (count > 1) resting.Push(k, direction, du, &out->dx);
    dx = out->dx;
    if (k == 0) std::swap(all, out->coverage);
    else all.Add(out->coverage);
  }
  std::swap(all, out->coverage);
}

void Linearizer::Vjp(ConstVectorRef x, ConstVectorRef u, ConstVectorRef lambda, StepVjp* out, bool forces) {
  const VectorXd none;
  Vjp(x, u, lambda, none, out, forces);
}

void Linearizer::Vjp(ConstVectorRef x, ConstVectorRef u, ConstVectorRef lambda, ConstVectorRef sigma, StepVjp* out,
                     bool forces) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  CheckSize(s.model, "lambda", lambda.size(), "ndx", s.dims.ndx);
  if (sigma.size() > 0) CheckSize(s.model, "sigma", sigma.size(), "nsensordata", s.dims.ns);
  if (!lambda.allFinite()) throw Error(ErrorCode::kInvalidArgument, "lambda is not finite");
  if (!sigma.allFinite()) throw Error(ErrorCode::kInvalidArgument, "sigma is not finite");
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.VjpInterval({lambda, sigma, forces}, out);
  });
}

void Linearizer::VjpAfterForward(mjData* data, ConstVectorRef lambda, StepVjp* out) {
  Impl& s = *impl_;
  CheckSize(s.model, "lambda", lambda.size(), "ndx", s.dims.ndx);
  if (!IsFinite(lambda.data(), lambda.size())) throw Error(ErrorCode::kInvalidArgument, "lambda is not finite");
  const VectorXd none;
  s.AfterForward(
      data, out, [&](Backend* backend) { return backend->VjpAfterForward(s.model, data, lambda, out); },
      [&] {
        s.VjpInterval({lambda, none}, out);
      });
}

void Linearizer::VjpSensors(ConstVectorRef x, ConstVectorRef sigma, StepVjp* out, bool forces) {
  Impl& s = *impl_;
  CheckSize(s.model, "x", x.size(), "nx", s.dims.nx);
  CheckSize(s.model, "sigma", sigma.size(), "nsensordata", s.dims.ns);
  CheckFiniteState(s.model, x);
  if (!sigma.allFinite()) throw Error(ErrorCode::kInvalidArgument, "sigma is not finite");
  const VectorXd none;
  s.Guarded(out, [&] {
    s.Load(x, s.no_control);
    s.VjpInterval({none, sigma, forces}, out);
  });
  out->u.resize(0);
}

void Linearizer::Jvp(ConstVectorRef x, ConstVectorRef u, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  CheckSize(s.model, "dx", dx.rows(), "ndx", s.dims.ndx);
  CheckSize(s.model, "du", du.rows(), "nu", s.dims.nu);
  CheckSize(s.model, "du's columns", du.cols(), "dx's columns", static_cast<int>(dx.cols()));
  if (!dx.allFinite() || !du.allFinite()) throw Error(ErrorCode::kInvalidArgument, "dx or du is not finite");
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.JvpInterval(dx, du, out);
  });
}

void Linearizer::LinearizeAcceleration(ConstVectorRef x, ConstVectorRef u, AccelerationDerivative* out) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
      return backend->LinearizeAcceleration(&s.local, s.data.get(), out, missing);
    });
  });
}

void Linearizer::LinearizeInverse(ConstVectorRef x, ConstVectorRef u, ConstVectorRef qacc, InverseDerivative* out) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  CheckSize(s.model, "qacc", qacc.size(), "nv", s.dims.nv);
  if (!qacc.allFinite()) throw Error(ErrorCode::kInvalidArgument, "qacc is not finite");
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
      return backend->LinearizeInverse(&s.local, s.data.get(), qacc, out, missing);
    });
  });
}

}  // namespace costate
