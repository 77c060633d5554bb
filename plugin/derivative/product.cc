// Products with the Jacobians of one control interval, and the derivatives of dynamics without a step: arguments, substeps
// and the choice of level.
#include <utility>

#include "core/check.h"
#include "derivative/check_point.h"
#include "derivative/linearizer.h"

namespace costate {

bool Backend::Vjp(const mjModel* model, mjData* data, ConstVectorRef lambda, bool forces, StepVjp* out,
                  std::string* missing) {
  if (forces) {
    *missing = "the pull-back to applied forces";
    return false;
  }
  if (!Linearize(model, data, false, &matrices_, missing)) return false;
  out->status = matrices_.status;
  std::swap(out->coverage, matrices_.coverage);
  if (out->status != StepStatus::kOk) return true;
  out->x.noalias() = matrices_.A.transpose() * lambda;
  out->u.noalias() = matrices_.B.transpose() * lambda;
  out->qfrc.resize(0);
  out->xfrc.resize(0);
  return true;
}

bool Backend::PullParameters(const mjModel* model, mjData* data, const VectorXd& point, ConstVectorRef lambda,
                             ParameterDifference* theta, VectorXd* pulled, std::string* missing) {
  mj_setState(model, data, point.data(), mjSTATE_INTEGRATION);
  if (!Parameters(model, data, theta, &P_, nullptr, missing)) return false;
  pulled->noalias() = P_.transpose() * lambda;
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

void Linearizer::Impl::VjpInterval(ConstVectorRef next, bool forces, StepVjp* out) {
  const int count = whole_interval ? 1 : options.substeps;
  points.resize(count);
  for (int k = 0; k < count; ++k) {
    points[k] = point;
    if (k + 1 < count) Advance();
  }

  // λ ← A_kᵀ λ from the last substep to the first; controls and forces act in all of them
  lambda = next;
  for (int k = count - 1; k >= 0; --k) {
    point = points[k];
    const bool last = k == count - 1;
    StepVjp* to = last ? out : &substep_vjp;
    FirstThatCovers(to, [&](Backend* backend, std::string* missing) {
      return backend->Vjp(&local, data.get(), lambda, forces, to, missing) && PullParameters(backend, lambda, to, missing);
    });
    if (to->status != StepStatus::kOk) {
      out->status = to->status;
      return;
    }
    lambda = to->x;
    if (last) continue;
    out->u += to->u;
    out->qfrc += to->qfrc;
    out->xfrc += to->xfrc;
    out->theta += to->theta;
    if (to->coverage.Worst() > out->coverage.Worst()) out->coverage = to->coverage;
  }
  out->x = lambda;
}

void Linearizer::Impl::JvpInterval(ConstMatrixRef direction, ConstMatrixRef du, StepJvp* out) {
  Coverage worst;
  dx = direction;
  for (int k = 0; k < (whole_interval ? 1 : options.substeps); ++k) {
    if (k > 0) Advance();
    FirstThatCovers(out, [&](Backend* backend, std::string* missing) {
      return backend->Jvp(&local, data.get(), dx, du, out, missing);
    });
    if (out->status != StepStatus::kOk) return;
    dx = out->dx;
    if (k == 0 || out->coverage.Worst() > worst.Worst()) std::swap(worst, out->coverage);
  }
  std::swap(worst, out->coverage);
}

void Linearizer::Vjp(ConstVectorRef x, ConstVectorRef u, ConstVectorRef lambda, StepVjp* out, bool forces) {
  Impl& s = *impl_;
  CheckPoint(s.model, s.dims, x, u);
  CheckSize(s.model, "lambda", lambda.size(), "ndx", s.dims.ndx);
  if (!lambda.allFinite()) throw Error(ErrorCode::kInvalidArgument, "lambda is not finite");
  s.Guarded(out, [&] {
    s.Load(x, u);
    s.VjpInterval(lambda, forces, out);
  });
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
