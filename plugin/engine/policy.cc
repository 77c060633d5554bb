// costate.policy: plays a saved run, u = u_bar + K (x ⊖ x_bar) or by the law that it was trained for, by writing ctrl
// before the engine reads it. README.md.
#include <costate/error.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include "core/actuator_range.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "engine/held_control.h"
#include "engine/policy_run.h"
#include "engine/private_model.h"
#include "engine/python_callbacks.h"

namespace costate {
namespace {

constexpr const char* kPolicyAttributes[] = {"run", "offset", "end", "feedback", "start"};

class PolicyPlugin {
 public:
  PolicyPlugin(const mjModel* m, mjData* d, int instance);
  void Reset(const mjModel* m);
  void Compute(const mjModel* m, mjData* d, int capability);

 private:
  void PrepareLaw(const mjModel* m, const Attributes& attributes);

  // number of the control interval at a time, not yet cut to those of the run
  double IntervalAt(double time) const { return std::floor((time - offset_) / run_->knot_time + kIntervalSlack); }
  void Control(const mjModel* m, mjData* d);
  void Policy(const mjModel* m, const mjData* d, double interval, const mjtNum* before, mjtNum* u);
  void Law(const mjModel* m, const mjData* d, int t, const mjtNum* before, mjtNum* u);
  void Motors(const mjModel* m, mjData* d) const;

  std::shared_ptr<const PolicyRun> run_;
  mjData* data_;
  int instance_;
  double offset_;
  PolicyEnd end_;
  PolicyFeedback feedback_;
  bool start_;
  VectorXd dx_, start_context_;

  // of a law that sees sensors: what mj_forward shows, and its entries in the run's model and here
  std::unique_ptr<PrivateModel> model_;
  DataPtr look_;
  std::vector<int> seen_, seen_here_;
};

PolicyPlugin::PolicyPlugin(const mjModel* m, mjData* d, int instance) : data_(d), instance_(instance) {
  const Attributes attributes(m, instance);
  const std::string path = attributes.Required("run");
  offset_ = attributes.Number("offset", 0);
  end_ = static_cast<PolicyEnd>(attributes.Choice("end", {std::begin(kPolicyEndWords), std::end(kPolicyEndWords)},
                                                  static_cast<int>(PolicyEnd::kHold)));
  feedback_ = static_cast<PolicyFeedback>(
      attributes.Choice("feedback", {std::begin(kPolicyFeedbackWords), std::end(kPolicyFeedbackWords)},
                        static_cast<int>(PolicyFeedback::kOn)));
  start_ = attributes.Choice("start", {"off", "on"}, 0) == 1;
  try {
    run_ = PolicyRunOf(m, path);
  } catch (const std::exception& error) {
    attributes.Fail("run", error.what());
  }
  const bool compiling = IsBeingCompiled(m);
  const std::string mismatch = compiling ? run_->Mismatch(m) : run_->StructureMismatch(m);
  if (!mismatch.empty()) attributes.Fail("run", "'" + run_->folder + "' was made with another model: " + mismatch);
  if (feedback_ == PolicyFeedback::kOn && !run_->has_gains()) {
    attributes.Fail("feedback", "it is on, but run '" + run_->folder + "' has no gains (policy.csv): set it to off" +
                                    (run_->law ? " or, for the law that was trained, to law" : ""));
  }
  if (feedback_ == PolicyFeedback::kLaw) PrepareLaw(m, attributes);
  CheckWritesControls(m, attributes, instance);
  if (const std::string step = run_->Mismatch(m); !step.empty())
    WarnOnce(attributes.owner() + ": '" + run_->folder + "' was made with another model: " + step);

  dx_.setZero(2 * m->nv + m->na);
  const mjModel* r = run_->record.model.get();
  if (start_ && mj_stateSize(r, kStartContext) == mj_stateSize(m, kStartContext)) {
    start_context_.resize(mj_stateSize(m, kStartContext));
    mj_extractState(r, run_->record.context.data(), kContextSignature, start_context_.data(), kStartContext);
  }
}

void PolicyPlugin::Reset(const mjModel* m) {
  if (!start_) return;
  const double interval = std::fmin(std::fmax(IntervalAt(0), 0), run_->N);  // no number: the first
  mj_setState(m, data_, run_->record.trajectory.X.col(static_cast<int>(interval)).data(), kStateSignature);
  if (interval == 0 && start_context_.size() > 0) mj_setState(m, data_, start_context_.data(), kStartContext);
}

void PolicyPlugin::PrepareLaw(const mjModel* m, const Attributes& attributes) {
  if (!run_->law) {
    attributes.Fail("feedback", fmt::format("it is law, but run '{}' has no {}, which costate train writes",
                                            run_->folder, kLawFile));
  }
  std::string mismatch;
  seen_here_ = run_->LawSensors(m, &mismatch);
  if (!mismatch.empty()) attributes.Fail("run", mismatch);
  if (!run_->law->NeedsSensors()) return;
  if (!HeldControl::HasBefore(m, instance_)) {
    attributes.Fail("feedback",
                    fmt::format("the law sees sensors under the controls before, for which this binary model has {} "
                                "entries of plugin state, expected {}: save it again",
                                m->plugin_statenum[instance_], HeldControl::Size(m)));
  }
  seen_ = run_->law->SensorsSeen();
  model_ = std::make_unique<PrivateModel>(m, m->plugin[instance_]);
  look_ = MakeData(model_->get());
}

// @param before  controls of the interval before, under which sensors are seen; null where the law sees none
void PolicyPlugin::Law(const mjModel* m, const mjData* d, int t, const mjtNum* before, mjtNum* u) {
  std::string why;
  try {
    EngineGuard guard;
    const VectorXd x = GetState(m, d);
    VectorXd s;
    if (before) {
      RefusePythonCallbacks();
      model_->Refresh(m);
      EngineGuard stack(look_.get(), EngineGuard::Around::kEngine);
      mj_copyState(m, d, look_.get(), mjSTATE_INTEGRATION);
      mju_copy(look_->ctrl, before, static_cast<int>(m->nu));
      mj_forward(model_->get(), look_.get());
      s.setZero(run_->record.model->nsensordata);
      for (std::size_t i = 0; i < seen_.size(); i++) s[seen_[i]] = look_->sensordata[seen_here_[i]];
    }
    run_->law->Control({t, d->time - offset_, x, s}, Eigen::Map<VectorXd>(u, m->nu));
    guard.TakeWarnings();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (why.empty()) return;
  mju_fill(u, kNan, static_cast<int>(m->nu));  // the engine warns of it
  WarnOnce("costate.policy: the law gives no control: " + why);
}

void PolicyPlugin::Policy(const mjModel* m, const mjData* d, double interval, const mjtNum* before, mjtNum* u) {
  const int N = run_->N, nv = static_cast<int>(m->nv), nu = static_cast<int>(m->nu);
  if (interval >= N && end_ == PolicyEnd::kZero) {
    mju_zero(u, nu);
    return;
  }
  if (end_ == PolicyEnd::kLoop && interval >= 0) interval = std::fmod(interval, N);
  const int knot = static_cast<int>(std::fmin(std::fmax(interval, 0), N));  // a time that is no number: the first
  const int t = std::min(knot, N - 1);
  if (feedback_ == PolicyFeedback::kLaw) return Law(m, d, t, before, u);
  mju_copy(u, run_->record.trajectory.U.col(t).data(), nu);
  if (feedback_ == PolicyFeedback::kOff) return;

  // u += K (x ⊖ x_bar); behind the end about the last state
  const double* x = run_->record.trajectory.X.col(knot).data();
  mj_differentiatePos(m, dx_.data(), 1, x, d->qpos);
  mju_sub(dx_.data() + nv, d->qvel, x + m->nq, nv);
  mju_sub(dx_.data() + 2 * nv, d->act, x + m->nq + nv, static_cast<int>(m->na));
  const MatrixXd& K = run_->record.policy.K[static_cast<std::size_t>(t)];
  for (Eigen::Index j = 0; j < dx_.size(); ++j) mju_addToScl(u, K.col(j).data(), dx_[j], nu);
}

void PolicyPlugin::Control(const mjModel* m, mjData* d) {
  HeldControl control(m, d, instance_);
  if (control.BeginsStep()) {
    // made where the interval began, then held through its steps
    const double time = d->time, made = control.made_at(), interval = IntervalAt(time);
    const bool held = time > made && time - made < run_->knot_time && IntervalAt(made) == interval;
    if (!held) {
      Policy(m, d, interval, look_ ? control.KeepBefore() : nullptr, control.u());
      control.SetMade();
    }
  }
  control.Act();
}

// actuators that the instance backs push with their control
void PolicyPlugin::Motors(const mjModel* m, mjData* d) const {
  for (int i = 0; i < m->nactuator; ++i) {
    if (m->actuator_plugin[i] != instance_) continue;
    const int u = m->actuator_ctrladr[i];
    const mjtNum* range = ControlRange(m, u);
    d->actuator_force[m->actuator_outadr[i]] = range ? std::clamp(d->ctrl[u], range[0], range[1]) : d->ctrl[u];
  }
}

void PolicyPlugin::Compute(const mjModel* m, mjData* d, int capability) {
  if (capability == mjPLUGIN_PASSIVE) Control(m, d);
  if (capability == mjPLUGIN_ACTUATOR) Motors(m, d);
}

}  // namespace

void RegisterPolicy() {
  RegisterOnce(MakeControlPlugin<PolicyPlugin>(kPolicyName, kPolicyAttributes, mjPLUGIN_ACTUATOR));
}

}  // namespace costate
