#include "derivative/delayed.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "derivative/compliant_contact.h"

namespace costate {

namespace {

bool IsDelayed(const mjModel* m, int actuator) { return m->actuator_delay[actuator] != 0; }

// those that come with the engine, but for actuators', which read their own control, and contacts of ours
bool LeavesControls(const mjpPlugin* plugin) {
  const std::string_view name = plugin ? plugin->name : "";
  return name.starts_with("mujoco.") || name == kSmoothContact;
}

// What may read data->ctrl, the controls of the present, which the engine gives to its own actuators alone late: "" for
// nothing.
const char* ReaderOfControls(const mjModel* m) {
  if (mjcb_control || mjcb_passive || mjcb_contactfilter || mjcb_act_dyn || mjcb_act_gain || mjcb_act_bias ||
      mjcb_sensor)
    return "a callback";
  for (int i = 0; i < m->nactuator; i++) {
    if (IsDelayed(m, i) && m->actuator_plugin[i] >= 0) return "an actuator's plugin";
  }
  for (int i = 0; i < m->nplugin; i++) {
    if (!LeavesControls(mjp_getPluginAtSlot(m->plugin[i]))) return "a plugin";
  }
  return "";
}

}  // namespace

std::string DelayMissing(const mjModel* m) {
  if (m->nhistory == 0) return "";
  bool delayed = false;
  for (int i = 0; i < m->nactuator; i++) delayed = delayed || IsDelayed(m, i);
  if (!delayed) return "";
  if (m->opt.integrator == mjINT_RK4) return "delays: each stage of RK4 reads the history at another time";
  const std::string reader = ReaderOfControls(m);
  return reader.empty() ? "" : "delays: " + reader + " may read controls before they are late";
}

std::string DelayRefusal(const mjModel* m) {
  if (m->nhistory == 0) return "";
  for (int i = 0; i < m->nactuator; i++) {
    const bool within = IsDelayed(m, i) && m->actuator_delay[i] < m->opt.timestep;
    if (within && m->opt.integrator == mjINT_RK4) return "delays: under RK4, one shorter than the step";
  }
  return "";
}

bool HasPast(const mjModel* m, int sensor) {
  return m->sensor_history[2 * sensor] > 0 && (m->sensor_delay[sensor] != 0 || m->sensor_interval[2 * sensor] > 0);
}

DelayedBackend::DelayedBackend(const mjModel* m, std::unique_ptr<Backend> backend, bool may_read)
    : backend_(std::move(backend)),
      may_read_(may_read),
      local_(*m),
      actuator_delay_(m->nactuator + 1, 0),
      sensor_delay_(m->nsensor + 1, 0),
      sensor_interval_(2 * m->nsensor + 1, 0),
      silent_(m->nsensor, 0) {}

// Which sensors have a value of the past: delayed ones, and those within their interval, whose value follows the
// history.
void DelayedBackend::FindSilent(const mjModel* m, mjData* d) {
  bool some_keep = false;
  for (int i = 0; i < m->nsensor; i++) {
    silent_[i] = HasPast(m, i);
    some_keep = some_keep || (silent_[i] && m->sensor_delay[i] == 0);
  }
  if (!some_keep) return;
  mj_forward(m, d);
  sensors_ = Eigen::Map<const VectorXd>(d->sensordata, m->nsensordata);
  Eigen::Map<VectorXd> history(d->history, m->nhistory);
  history_ = history;
  for (int i = 0; i < m->nsensor; i++) {
    const int n = m->sensor_history[2 * i];
    if (silent_[i]) history.segment(m->sensor_historyadr[i] + 2 + n, n * m->sensor_dim[i]).array() += 1;
  }
  mj_forward(m, d);
  history = history_;
  for (int i = 0; i < m->nsensor; i++) {
    const int adr = m->sensor_adr[i], n = m->sensor_dim[i];
    const auto moved = Eigen::Map<const VectorXd>(d->sensordata + adr, n);
    if (m->sensor_delay[i] == 0) silent_[i] = silent_[i] && moved != sensors_.segment(adr, n);
  }
}

// the model without delays; data->ctrl becomes what the actuators get
bool DelayedBackend::Enter(const mjModel* m, mjData* d, bool sensors, std::string* missing) {
  *missing = DelayMissing(m);
  reads_ = !missing->empty() && may_read_ && DelayRefusal(m).empty();
  if (reads_) missing->clear();
  if (!missing->empty()) return false;
  if (sensors) FindSilent(m, d);
  for (int i = 0; i < m->nactuator; i++) {
    if (!IsDelayed(m, i) || reads_) continue;
    // of all its inputs
    mjtNum* ctrl = d->ctrl + m->actuator_ctrladr[i];
    const mjtNum* stored = mj_readCtrl(m, d, i, d->time, ctrl, m->actuator_history[2 * i + 1]);
    if (stored) std::copy_n(stored, m->actuator_ctrlnum[i], ctrl);
  }
  local_ = *m;
  if (!reads_) local_.actuator_delay = actuator_delay_.data();
  local_.sensor_delay = sensor_delay_.data();
  local_.sensor_interval = sensor_interval_.data();
  return true;
}

namespace {

// f(control) for each that acts later
template <typename F>
void ForDelayed(const mjModel* m, F f) {
  for (int i = 0; i < m->nactuator; i++) {
    for (int j = 0; j < m->actuator_ctrlnum[i] && IsDelayed(m, i); j++) f(m->actuator_ctrladr[i] + j);
  }
}

}  // namespace

// their values are in the history, too
void DelayedBackend::ClearSensors(const mjModel* m, StepDerivative* out) const {
  for (int i = 0; i < m->nsensor; i++) {
    if (!silent_[i]) continue;
    if (out->C.size()) out->C.middleRows(m->sensor_adr[i], m->sensor_dim[i]).setZero();
    if (out->D.size()) out->D.middleRows(m->sensor_adr[i], m->sensor_dim[i]).setZero();
  }
}

bool DelayedBackend::Linearize(const mjModel* m, mjData* d, bool sensors, StepDerivative* out, std::string* missing) {
  if (!Enter(m, d, sensors, missing) || !backend_->Linearize(&local_, d, sensors, out, missing)) return false;
  if (out->status != StepStatus::kOk) return true;
  if (!reads_) {
    ForDelayed(m, [&](int u) {
      out->B.col(u).setZero();
      if (out->D.size()) out->D.col(u).setZero();
    });
  }
  ClearSensors(m, out);
  return true;
}

bool DelayedBackend::LinearizeSensors(const mjModel* m, mjData* d, StepDerivative* out, std::string* missing) {
  if (!Enter(m, d, true, missing) || !backend_->LinearizeSensors(&local_, d, out, missing)) return false;
  if (out->status == StepStatus::kOk) ClearSensors(m, out);
  return true;
}

bool DelayedBackend::Vjp(const mjModel* m, mjData* d, const StepCovectors& covectors, StepVjp* out,
                         std::string* missing) {
  if (!Enter(m, d, covectors.sensors.size() > 0, missing)) return false;
  sensors_ = covectors.sensors;
  for (int i = 0; i < m->nsensor && sensors_.size() > 0; i++) {
    if (silent_[i]) sensors_.segment(m->sensor_adr[i], m->sensor_dim[i]).setZero();
  }
  entered_.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
  mj_getState(m, d, entered_.data(), mjSTATE_INTEGRATION);
  if (!backend_->Vjp(&local_, d, {covectors.next, sensors_, covectors.forces}, out, missing)) return false;
  if (out->status != StepStatus::kOk || reads_) return true;
  out->delayed.setZero(m->nu);
  ForDelayed(m, [&](int u) { std::swap(out->delayed[u], out->u[u]); });
  return true;
}

// at what the actuators get, of the sensors that Vjp asked for; the models that are differenced read the history
// themselves
bool DelayedBackend::PullParameters(const mjModel* m, mjData* d, const VectorXd&, const StepCovectors& covectors,
                                    ParameterDifference* theta, VectorXd* pulled, std::string* missing) {
  *missing = DelayMissing(m);
  const StepCovectors pulls = {covectors.next, sensors_, covectors.forces};
  return missing->empty() && backend_->PullParameters(&local_, d, entered_, pulls, theta, pulled, missing);
}

bool DelayedBackend::Jvp(const mjModel* m, mjData* d, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
                         std::string* missing) {
  if (!Enter(m, d, false, missing)) return false;
  du_ = du;
  if (!reads_) ForDelayed(m, [&](int u) { du_.row(u).setZero(); });
  return backend_->Jvp(&local_, d, dx, du_, out, missing);
}

// as PullParameters
bool DelayedBackend::Parameters(const mjModel* m, mjData* d, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                                std::string* missing) {
  *missing = DelayMissing(m);
  if (!missing->empty() || !Enter(m, d, Ps != nullptr, missing) ||
      !backend_->Parameters(&local_, d, theta, P, Ps, missing))
    return false;
  for (int i = 0; i < m->nsensor && Ps; i++) {
    if (silent_[i]) Ps->middleRows(m->sensor_adr[i], m->sensor_dim[i]).setZero();
  }
  return true;
}

bool DelayedBackend::LinearizeAcceleration(const mjModel* m, mjData* d, AccelerationDerivative* out,
                                           std::string* missing) {
  if (!Enter(m, d, false, missing) || !backend_->LinearizeAcceleration(&local_, d, out, missing)) return false;
  if (out->status == StepStatus::kOk && !reads_) ForDelayed(m, [&](int u) { out->u.col(u).setZero(); });
  return true;
}

bool DelayedBackend::LinearizeInverse(const mjModel* m, mjData* d, ConstVectorRef qacc, InverseDerivative* out,
                                      std::string* missing) {
  return Enter(m, d, false, missing) && backend_->LinearizeInverse(&local_, d, qacc, out, missing);
}

}  // namespace costate
