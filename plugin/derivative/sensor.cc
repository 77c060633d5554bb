#include "derivative/sensor.h"

#include <costate/model.h>

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

// in the order of mjtSensor
const char* const kTypeNames[] = {"touch",
                                  "accelerometer",
                                  "velocimeter",
                                  "gyro",
                                  "force",
                                  "torque",
                                  "magnetometer",
                                  "rangefinder",
                                  "camprojection",
                                  "jointpos",
                                  "jointvel",
                                  "tendonpos",
                                  "tendonvel",
                                  "actuatorpos",
                                  "actuatorvel",
                                  "actuatorfrc",
                                  "jointactuatorfrc",
                                  "tendonactuatorfrc",
                                  "ballquat",
                                  "ballangvel",
                                  "jointlimitpos",
                                  "jointlimitvel",
                                  "jointlimitfrc",
                                  "tendonlimitpos",
                                  "tendonlimitvel",
                                  "tendonlimitfrc",
                                  "framepos",
                                  "framequat",
                                  "framexaxis",
                                  "frameyaxis",
                                  "framezaxis",
                                  "framelinvel",
                                  "frameangvel",
                                  "framelinacc",
                                  "frameangacc",
                                  "subtreecom",
                                  "subtreelinvel",
                                  "subtreeangmom",
                                  "insidesite",
                                  "distance",
                                  "normal",
                                  "fromto",
                                  "contact",
                                  "e_potential",
                                  "e_kinetic",
                                  "clock",
                                  "tactile",
                                  "plugin",
                                  "user"};
static_assert(std::size(kTypeNames) == mjSENS_USER + 1);

// tendons whose length, velocity or pull some sensor needs
std::vector<char> SensedTendons(const mjModel* m) {
  std::vector<char> sensed(m->ntendon, 0);
  for (int i = 0; i < m->nsensor; i++) {
    const int type = m->sensor_type[i], id = m->sensor_objid[i];
    const bool actuator = type == mjSENS_ACTUATORPOS || type == mjSENS_ACTUATORVEL || type == mjSENS_ACTUATORFRC ||
                          type == mjSENS_JOINTACTFRC || type == mjSENS_TENDONACTFRC;
    if (m->sensor_objtype[i] == mjOBJ_TENDON) sensed[id] = 1;
    if (type == mjSENS_FORCE || type == mjSENS_TORQUE) {
      const int body = m->site_bodyid[id];
      int end = body + 1;
      while (end < m->nbody && m->body_parentid[end] >= body) end++;
      for (int t = 0; t < m->ntendon; t++) {
        if (LeavesBodies(m, t, body, end)) sensed[t] = 1;
      }
    }
    for (int a = 0; a < m->nactuator && actuator; a++) {
      if (m->actuator_trntype[a] == mjTRN_TENDON) sensed[m->actuator_trnid[2 * a]] = 1;
    }
  }
  return sensed;
}

bool ReadsConstraintForces(int type) {
  switch (type) {
    case mjSENS_FORCE:
    case mjSENS_TORQUE:
    case mjSENS_TOUCH:
    case mjSENS_CONTACT:
    case mjSENS_JOINTLIMITFRC:
    case mjSENS_TENDONLIMITFRC: return true;
    default: return false;
  }
}

// axes' rates, composites or the fields of contacts, beyond what the engine's kinematics leave
bool NeedsTree(int type) {
  switch (type) {
    case mjSENS_CLOCK:
    case mjSENS_INSIDESITE:
    case mjSENS_JOINTPOS:
    case mjSENS_JOINTVEL:
    case mjSENS_BALLQUAT:
    case mjSENS_BALLANGVEL:
    case mjSENS_FRAMEPOS:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS:
    case mjSENS_MAGNETOMETER:
    case mjSENS_CAMPROJECTION:
    case mjSENS_SUBTREECOM:
    case mjSENS_E_POTENTIAL: return false;
    default: return true;
  }
}

// mj_camlight alone makes its frame
bool ReadsCamera(const mjModel* m, int i) {
  return m->sensor_type[i] == mjSENS_CAMPROJECTION || m->sensor_objtype[i] == mjOBJ_CAMERA ||
         m->sensor_reftype[i] == mjOBJ_CAMERA;
}

}  // namespace

void SensorRows::Resize(int nv, int columns) {
  nv_ = nv;
  columns_ = columns;
  width_ = (columns + BlockedMatrix::kWidth - 1) / BlockedMatrix::kWidth * BlockedMatrix::kWidth;
  value_.resize(static_cast<std::size_t>(kMost) * width_);
  factor_.resize(static_cast<std::size_t>(kMost) * nv);
}

void SensorRows::Begin(int count) {
  count_ = count;
  std::fill_n(value_.begin(), static_cast<std::size_t>(count) * width_, 0.0);
  std::fill_n(factor_.begin(), static_cast<std::size_t>(count) * nv_, 0.0);
}

void SensorRows::MultiplyOut(const BlockedMatrix& da) {
  constexpr int kWidth = BlockedMatrix::kWidth;
  for (int dof = 0; dof < nv_; dof++) {
    for (int k = 0; k < count_; k++) {
      const double factor = by_a(k, dof);
      if (factor == 0) continue;
      for (int b = 0; b < da.blocks(); b++) {
        const double* from = da.block(b) + dof * kWidth;
        double* to = value_.data() + k * width_ + b * kWidth;
        for (int c = 0; c < kWidth; c++) to[c] += factor * from[c];
      }
    }
  }
  std::fill_n(factor_.begin(), static_cast<std::size_t>(count_) * nv_, 0.0);
}

void SensorRows::Contract(const double* weight, double* direct, double* acceleration) const {
  for (int k = 0; k < count_; k++) {
    if (weight[k] == 0) continue;
    const double* row = value_.data() + k * width_;
    for (int c = 0; c < columns_; c++) direct[c] += weight[k] * row[c];
  }
  for (int dof = 0; dof < nv_; dof++) {
    for (int k = 0; k < count_; k++) acceleration[dof] += weight[k] * factor_[dof * count_ + k];
  }
}

void SensorRows::Store(const BlockedMatrix& da, int first, StepDerivative* out) {
  MultiplyOut(da);
  Store(first, out);
}

void SensorRows::Store(int first, StepDerivative* out) const {
  const int ndx = static_cast<int>(out->C.cols());
  for (int k = 0; k < count_; k++) {
    for (int c = 0; c < ndx; c++) out->C(first + k, c) = at(k, c);
    for (int c = ndx; c < columns_; c++) out->D(first + k, c - ndx) = at(k, c);
  }
}

SensorDerivative::SensorDerivative(const mjModel* m)
    : nv_(static_cast<int>(m->nv)),
      ndx_(static_cast<int>(2 * m->nv + m->na)),
      subtree_end_(m->nbody),
      differenced_(m->nsensor, 0),
      tendons_(m, SensedTendons(m)),
      builder_(m),
      momentum_(m->nbody),
      external_(m->nbody) {
  const int nbody = static_cast<int>(m->nbody);
  for (int b = 0; b < nbody; b++) subtree_end_[b] = b + 1;
  for (int b = nbody - 1; b > 0; b--) {
    int& end = subtree_end_[m->body_parentid[b]];
    end = std::max(end, subtree_end_[b]);
  }
  of_dim_.resize(1 + (m->nsensor > 0 ? *std::max_element(m->sensor_dim, m->sensor_dim + m->nsensor) : 0));
  rows_.Resize(nv_, ndx_ + static_cast<int>(m->nu));
  wrench_.Resize(nv_, ndx_ + static_cast<int>(m->nu));
}

void SensorDerivative::Begin(const SensorPoint& point) {
  at_ = point;
  std::fill(differenced_.begin(), differenced_.end(), 0);
  any_differenced_ = has_momentum_ = has_forces_ = has_tendons_ = false;
  wrench_body_ = -1;
  block_.clear();
}

void SensorDerivative::Compute(const SensorPoint& point, const std::vector<char>* wanted, StepDerivative* out,
                               bool none) {
  Begin(point);
  out_ = out;
  pull_ = nullptr;
  const mjModel* m = point.m;
  out->C.setZero(m->nsensordata, ndx_);
  out->D.setZero(m->nsensordata, m->nu);
  if (m->opt.disableflags & mjDSBL_SENSOR) return;
  for (int i = 0; i < m->nsensor; i++) {
    if (wanted && !(*wanted)[i]) continue;
    row_ = m->sensor_adr[i];
    if (!none && Sensor(i)) {
      Cutoff(i);
    } else {
      differenced_[i] = any_differenced_ = true;
      out->C.middleRows(m->sensor_adr[i], m->sensor_dim[i]).setZero();
      out->D.middleRows(m->sensor_adr[i], m->sensor_dim[i]).setZero();
    }
  }
}

void SensorDerivative::Select(const mjModel* m, const double* covector) {
  reads_axes_ = reads_contacts_ = reads_values_ = false;
  selected_.assign(m->nsensor, 0);
  if (m->opt.disableflags & mjDSBL_SENSOR) return;
  for (int i = 0; i < m->nsensor; i++) {
    const double* begin = covector + m->sensor_adr[i];
    if (std::all_of(begin, begin + m->sensor_dim[i], [](double x) { return x == 0; })) continue;
    selected_[i] = 1;
    reads_axes_ = reads_axes_ || NeedsTree(m->sensor_type[i]);
    reads_contacts_ = reads_contacts_ || m->sensor_type[i] == mjSENS_CONTACT;
    reads_values_ = reads_values_ || m->sensor_cutoff[i] > 0 || ReadsCamera(m, i);
  }
}

void SensorDerivative::Pull(const SensorPoint& point, const double* covector, const Pulled& out, bool none) {
  const mjModel* m = point.m;
  Select(m, covector);
  Begin(point);
  pull_ = &out;
  out_ = &scratch_;
  row_ = 0;
  Eigen::Map<VectorXd> direct(out.direct, ndx_);
  for (int i = 0; i < m->nsensor; i++) {
    if (!selected_[i]) continue;
    const int first = m->sensor_adr[i], dim = m->sensor_dim[i];
    weight_.assign(covector + first, covector + first + dim);
    for (int k = 0; k < dim; k++) {
      if (HeldByCutoff(m, point.d->sensordata, i, first + k)) weight_[k] = 0;
    }
    const Eigen::Map<const VectorXd> weight(weight_.data(), dim);
    if (weight.isZero(0)) continue;
    scratch_.C.swap(of_dim_[dim]);
    scratch_.C.setZero(dim, ndx_);
    const bool closed = !none && Sensor(i);
    if (closed) direct.noalias() += scratch_.C.transpose() * weight;
    scratch_.C.swap(of_dim_[dim]);
    if (closed) continue;
    differenced_[i] = any_differenced_ = true;
    if (out.xfrc) PullAppliedWrenches(m, point.d, i, weight_.data(), out.xfrc);
  }
  pull_ = nullptr;
}

// what is in rows_, of the sensor's numbers from `first` on
void SensorDerivative::Emit(int first) {
  if (pull_) rows_.Contract(weight_.data() + first, pull_->direct, pull_->acceleration);
  else rows_.Store(*at_.da, first, out_);
}

// false: no closed form
bool SensorDerivative::Sensor(int i) {
  const BlockedMatrix* da = at_.da;
  if (at_.hides_forces && ReadsConstraintForces(at_.m->sensor_type[i])) return false;
  if (at_.minimum) {
    // normal forces and limits stay those of the minimum
    const int type = at_.m->sensor_type[i];
    if ((ReadsWrench(type) || ReadsAcceleration(type)) && !at_.after) return false;
    if (type == mjSENS_CONTACT && !at_.pass) return false;
    if (!ReadsAcceleration(type) && !ReadsWrench(type)) at_.da = at_.minimum;
  }
  const bool closed = ClosedForm(i);
  at_.da = da;
  return closed;
}

bool SensorDerivative::ClosedForm(int i) {
  switch (at_.m->sensor_type[i]) {
    case mjSENS_CLOCK: return true;
    case mjSENS_INSIDESITE: return at_.m->sensor_intprm[i * mjNSENS] == 0;  // piecewise constant; enclosed: a distance
    case mjSENS_JOINTPOS:
    case mjSENS_JOINTVEL:
    case mjSENS_BALLQUAT:
    case mjSENS_BALLANGVEL:
    case mjSENS_TENDONPOS:
    case mjSENS_TENDONVEL: return Scalar(i);
    case mjSENS_ACTUATORPOS: return ActuatorPosition(i);
    case mjSENS_ACTUATORVEL: return ActuatorVelocity(i);
    case mjSENS_ACTUATORFRC: return ActuatorForce(i);
    case mjSENS_JOINTACTFRC: return JointForce(i);
    case mjSENS_TENDONACTFRC: return TendonForce(i);
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_JOINTLIMITFRC:
    case mjSENS_TENDONLIMITPOS:
    case mjSENS_TENDONLIMITVEL:
    case mjSENS_TENDONLIMITFRC: return Limit(i);
    case mjSENS_FRAMEPOS:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS: return FramePosition(i);
    case mjSENS_VELOCIMETER:
    case mjSENS_GYRO:
    case mjSENS_FRAMELINVEL:
    case mjSENS_FRAMEANGVEL: return FrameVelocity(i);
    case mjSENS_ACCELEROMETER:
    case mjSENS_FRAMELINACC:
    case mjSENS_FRAMEANGACC: return FrameAcceleration(i);
    case mjSENS_MAGNETOMETER: return Magnetometer(i);
    case mjSENS_CAMPROJECTION: return CameraProjection(i);
    case mjSENS_SUBTREECOM:
    case mjSENS_SUBTREELINVEL:
    case mjSENS_SUBTREEANGMOM: return Subtree(i);
    case mjSENS_E_POTENTIAL: return PotentialEnergy();
    case mjSENS_E_KINETIC: return KineticEnergy();
    case mjSENS_FORCE:
    case mjSENS_TORQUE: return ForceTorque(i);
    case mjSENS_TOUCH: return Touch(i);
    case mjSENS_CONTACT: return Contact(i);
    case mjSENS_RANGEFINDER: return Rangefinder(i);
    case mjSENS_GEOMDIST: return GeomDistance(i);
    case mjSENS_GEOMNORMAL:
    case mjSENS_GEOMFROMTO: return GeomNearest(i);
    case mjSENS_USER: return mjcb_sensor == nullptr;  // nobody fills it
    default: return false;
  }
}

bool ReadsAcceleration(int type) {
  return type == mjSENS_ACCELEROMETER || type == mjSENS_FRAMELINACC || type == mjSENS_FRAMEANGACC;
}

bool ReadsWrench(int type) { return type == mjSENS_FORCE || type == mjSENS_TORQUE; }

bool HasCutoff(const mjModel* m, int i) {
  const int type = m->sensor_type[i], datatype = m->sensor_datatype[i];
  return m->sensor_cutoff[i] > 0 && type != mjSENS_CONTACT && type != mjSENS_GEOMFROMTO &&
         (datatype == mjDATATYPE_REAL || datatype == mjDATATYPE_POSITIVE);
}

// a value held by the cutoff does not move
bool HeldByCutoff(const mjModel* m, const mjtNum* sensordata, int i, int row) {
  if (!HasCutoff(m, i)) return false;
  const double value = sensordata[row];
  return (m->sensor_datatype[i] == mjDATATYPE_REAL ? std::abs(value) : value) >= m->sensor_cutoff[i];
}

void SensorDerivative::Cutoff(int i) {
  for (int row = row_; row < row_ + at_.m->sensor_dim[i]; row++) {
    if (!HeldByCutoff(at_.m, at_.d->sensordata, i, row)) continue;
    out_->C.row(row).setZero();
    out_->D.row(row).setZero();
  }
}

std::string NamesOfSensors(const mjModel* m, const std::vector<char>& which) {
  constexpr int kMost = 4;
  std::string names;
  int count = 0;
  for (int i = 0; i < m->nsensor; i++) {
    if (!which[i] || count++ >= kMost) continue;
    names += (names.empty() ? "" : ", ") + std::string(kTypeNames[m->sensor_type[i]]) + " of " +
             ElementName(m, mjOBJ_SENSOR, i);
  }
  if (count > kMost) names += " and " + std::to_string(count - kMost) + " more";
  return names;
}

}  // namespace costate
