// Level 3 of everything but A, B, C, D: applied forces, accelerations, inverse dynamics.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/extremes.h"
#include "core/warnings.h"
#include "derivative/step_difference.h"

namespace costate {
namespace {

// Inverse dynamics has no solver, hence no noise but rounding; it is stiff in q where contacts are. Five points.
constexpr double kInversePositionEps = 1e-6;
constexpr double kInverseEps = 1e-5;  // of max(1, |value|)
// each a tenth of the one before, until no row switches between the five points, nor an impedance bends: two of them
// and all five agree to so much of the column's largest
constexpr int kInverseSizes = 4;
constexpr double kInverseAgrees = 1e-7;
constexpr double kSwitches = 1e300;

using VectorMap = Eigen::Map<VectorXd>;
using ConstVectorMap = Eigen::Map<const VectorXd>;

// (D4) an applied force by what it changes a velocity in one step: as much as the nudge of that is
double ForceNudge(const mjModel* m, const mjData* d, int force) {
  double mass = 0;
  if (force < m->nv) {
    mass = d->M[m->M_rowadr[force] + m->M_rownnz[force] - 1];
  } else {
    const int body = static_cast<int>(force - m->nv) / 6;
    const mjtNum* inertia = m->body_inertia + 3 * body;
    mass = (force - m->nv) % 6 < 3 ? m->body_mass[body] : *std::max_element(inertia, inertia + 3);
  }
  return kLargestEps / m->opt.timestep * (mass > 0 ? mass : 1);
}

constexpr double kSmallest = 1.0 / 32;  // of the largest nudge, where no two are of use

}  // namespace

// forces enter the step as a control does: nudged and held over the interval
bool StepDifference::Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
                         std::string* missing) {
  if (covectors.forces && extrapolate_) stencil_.Capture(model, data);  // A and B begin there, and leave it
  if (!Backend::Vjp(model, data, {covectors.next, covectors.sensors, false}, out, missing)) return false;
  if (!covectors.forces || out->status != StepStatus::kOk) return true;
  const Dims& dims = stencil_.dims();
  const int nxfrc = 6 * static_cast<int>(model->nbody);
  out->qfrc.resize(dims.nv);
  out->xfrc.setZero(nxfrc);
  if (extrapolate_) {
    ExtrapolateForces(model, data, covectors, out);
    return true;
  }
  quotient_.resize(dims.ndx);
  ClearWarnings(data);
  const bool sensors = covectors.sensors.size() > 0;
  const auto nudged = [&](mjtNum* mjData::*field, int i, double eps, int side) {
    stencil_.Restore(model_.get(), data, -1, 0);
    (data->*field)[i] += eps;
    for (int k = 0; k < substeps_ && covectors.step(); ++k) {
      mj_step(model_.get(), data);
      if (k == 0 && sensors) sensors_[side] = ConstVectorMap(data->sensordata, dims.ns);
      stencil_.midpoints().GoOn(model_.get(), k, data);
    }
    if (!covectors.step()) {
      mj_forward(model_.get(), data);
      sensors_[side] = ConstVectorMap(data->sensordata, dims.ns);
    }
    mj_getState(model_.get(), data, next_[side].data(), kStateSignature);
  };
  const auto pull = [&](mjtNum* mjData::*field, int i) {
    nudged(field, i, eps_, 1);
    nudged(field, i, -eps_, 2);
    double sum = 0;
    if (covectors.step()) {
      StateQuotient(model_.get(), dims, next_[1], next_[2], 2 * eps_, quotient_);
      sum = covectors.next.dot(quotient_);
    }
    if (sensors) sum += covectors.sensors.dot(sensors_[1] - sensors_[2]) / (2 * eps_);
    return sum;
  };
  for (int i = 0; i < dims.nv; ++i) out->qfrc[i] = pull(&mjData::qfrc_applied, i);
  for (int i = 6; i < nxfrc; ++i) out->xfrc[i] = pull(&mjData::xfrc_applied, i);
  out->status = StatusOfWarnings(data);
  return true;
}

// (D4) columns of forces behind those of controls
void StepDifference::ExtrapolateForces(const mjModel* model, mjData* data, const StepCovectors& covectors,
                                       StepVjp* out) {
  const Dims& dims = stencil_.dims();
  const bool sensors = covectors.sensors.size() > 0, step = covectors.step();
  stencil_.Restore(model, data, -1, 0);
  StepQuotients* quotients = BeginQuotients(model, data, step ? substeps_ : 0, sensors);
  const auto pull = [&](int force) {
    const double eps = ForceNudge(model, data, force);
    const StepQuotients::Column column = quotients->Differences(dims.ndx + dims.nu + force, eps, kSurePart);
    double sum = 0;
    for (int row = 0; row < covectors.next.size(); ++row)
      sum += covectors.next[row] * quotients->Value(column, row, kSmallest * eps);
    for (int row = 0; row < covectors.sensors.size(); ++row) {
      const double sigma = covectors.sensors[row];
      if (sigma != 0) sum += sigma * quotients->Value(column, dims.ndx + row, kSmallest * eps);
    }
    return sum;
  };
  for (int i = 0; i < dims.nv; ++i) out->qfrc[i] = pull(i);
  for (int body = 1; body < model->nbody; ++body) {
    if (model->body_weldid[body] == 0) continue;
    for (int i = 6 * body; i < 6 * body + 6; ++i) out->xfrc[i] = pull(dims.nv + i);
  }
  out->status = StatusOfWarnings(data);
}

void StepDifference::ExtrapolateAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out) {
  const Dims& dims = stencil_.dims();
  StepQuotients* quotients = BeginQuotients(model, data, 0, StepQuotients::Beside::kAcceleration, &acceleration_);
  out->qacc = quotients->beside();
  const auto fill = [&](int col, double eps, MatrixXd* matrix, int c) {
    const StepQuotients::Column column = quotients->Differences(col, eps, kSurePart);
    for (int i = 0; i < dims.nv; ++i) (*matrix)(i, c) = quotients->Value(column, dims.ndx + i, kSmallest * eps);
  };
  for (int i = 0; i < dims.ndx; ++i) fill(i, kLargestEps, &out->x, i);
  for (int i = 0; i < dims.nu; ++i) fill(dims.ndx + i, kLargestEps, &out->u, i);
  for (int i = 0; i < dims.nv; ++i) fill(dims.ndx + dims.nu + i, ForceNudge(model, data, i), &out->force, i);
}

bool StepDifference::LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out,
                                           std::string*) {
  const Dims& dims = stencil_.dims();
  out->x.resize(dims.nv, dims.ndx);
  out->u.resize(dims.nv, dims.nu);
  out->force.resize(dims.nv, dims.nv);
  if (extrapolate_) ExtrapolateAcceleration(model, data, out);
  else DifferenceAcceleration(model, data, out);
  out->status = StatusOfWarnings(data);
  if (out->status == StepStatus::kOk && !(out->x.allFinite() && out->u.allFinite()))
    out->status = StepStatus::kBadState;
  return true;
}

void StepDifference::DifferenceAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out) {
  const Dims& dims = stencil_.dims();
  Capture(model, data);
  model_.SkipSensors();
  stencil_.Restore(model_.get(), data, -1, 0);
  model_.SelectActivationBranches(data, 1);

  const auto at = [&](int col, int force, double eps, VectorXd* qacc) {
    stencil_.Restore(model_.get(), data, col, eps);
    if (force >= 0) data->qfrc_applied[force] += eps;
    mj_forward(model_.get(), data);
    *qacc = VectorMap(data->qacc, dims.nv);
  };
  at(-1, -1, 0, &next_[0]);
  out->qacc = next_[0];
  for (int col = 0; col < dims.ndx + dims.nu; ++col) {
    auto column = col < dims.ndx ? out->x.col(col) : out->u.col(col - dims.ndx);
    double eps = eps_;
    const Side side = stencil_.ColumnSide(model_, col, options_.centered, &eps);
    column.setZero();
    if (side == Side::kNone) continue;
    int plus = 0, minus = 0;
    if (side != Side::kBackward) at(col, -1, eps, &next_[plus = 1]);
    if (side != Side::kForward) at(col, -1, -eps, &next_[minus = 2]);
    column = (next_[plus] - next_[minus]) / (side == Side::kCentered ? 2 * eps : eps);
  }
  for (int i = 0; i < dims.nv; ++i) {
    at(-1, i, eps_, &next_[1]);
    at(-1, i, -eps_, &next_[2]);
    out->force.col(i) = (next_[1] - next_[2]) / (2 * eps_);
  }
  for (VectorXd& next : next_) next.resize(dims.nx);
}

bool StepDifference::LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                                      std::string* missing) {
  if ((model->opt.enableflags & mjENBL_INVDISCRETE) && model->opt.integrator == mjINT_RK4) {
    *missing = "inverse discrete: RK4 has no inverse";
    return false;
  }
  const int nv = stencil_.dims().nv;
  for (MatrixXd* matrix : {&out->q, &out->v, &out->a}) matrix->resize(nv, nv);
  ClearWarnings(data);
  model_.Refresh(model, false);
  stencil_.Capture(model_.get(), data);
  const auto at = [&](int block, int i, double eps) {
    stencil_.Restore(model_.get(), data, block < 2 ? block * nv + i : -1, eps);
    VectorMap(data->qacc, nv) = qacc;
    if (block == 2) data->qacc[i] += eps;
    mj_fwdPosition(model_.get(), data);
    mj_fwdVelocity(model_.get(), data);
    mj_fwdActuation(model_.get(), data);
    mj_inverse(model_.get(), data);
    return ConstVectorMap(data->qfrc_inverse, nv);
  };
  out->qfrc = at(-1, 0, 0);
  const std::vector<int> states(data->efc_state, data->efc_state + data->nefc);
  const auto same = [&] {
    return std::equal(states.begin(), states.end(), data->efc_state, data->efc_state + data->nefc);
  };
  for (int block = 0; block < 3; ++block) {
    MatrixXd& matrix = block == 0 ? out->q : block == 1 ? out->v : out->a;
    for (int i = 0; i < nv; ++i) {
      const double value = block == 0 ? 0 : block == 1 ? data->qvel[i] : qacc[i];
      const double longest = block == 0 ? kInversePositionEps : kInverseEps * std::max(1.0, std::abs(value));
      double least = kInf;
      for (int k = 0; k < kInverseSizes && least > kInverseAgrees; ++k) {
        const double h = longest * std::pow(0.1, k);
        bool here = true;
        VectorXd two = VectorXd::Zero(nv), five = two;
        for (const int j : {1, -1, 2, -2}) {
          const VectorXd force = at(block, i, j * h);
          here = here && same();
          if (std::abs(j) == 1) two += j / (2 * h) * force;
          five += (std::abs(j) == 1 ? 8 * j : -j / 2) / (12 * h) * force;
        }
        const double scale = five.cwiseAbs().maxCoeff();
        const double apart = here ? (scale > 0 ? (five - two).cwiseAbs().maxCoeff() / scale : 0) : kSwitches;
        if (k > 0 && !(apart < least)) continue;
        least = apart;
        matrix.col(i) = five;  // the first, where the point itself is on a switch
      }
    }
  }
  out->status = StatusOfWarnings(data);
  return true;
}

}  // namespace costate
