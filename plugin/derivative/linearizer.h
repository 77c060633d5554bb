// What Linearizer is made of; its functions live in linearize.cc (Jacobians) and product.cc (their products).
#ifndef COSTATE_DERIVATIVE_LINEARIZER_H_
#define COSTATE_DERIVATIVE_LINEARIZER_H_

#include <costate/derivative.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/dense_product.h"
#include "core/engine_guard.h"
#include "core/finite.h"
#include "core/state_layout.h"
#include "derivative/after_forward.h"
#include "derivative/backend.h"
#include "derivative/equilibrium.h"
#include "derivative/muscle.h"
#include "derivative/parameter_difference.h"
#include "derivative/step_difference.h"

namespace costate {

inline constexpr int kAnalytic = static_cast<int>(Level::kAnalytic), kResidual = static_cast<int>(Level::kResidual),
                     kStep = static_cast<int>(Level::kStep);

// apart from A and B: Backend::Linearize
inline bool AllFinite(const StepDerivative& d) {
  return IsFinite(d.C) && IsFinite(d.D) && IsFinite(d.P) && IsFinite(d.Ps);
}
inline bool AllFinite(const StepVjp& v) {
  return IsFinite(v.x) && IsFinite(v.u) && IsFinite(v.sensors) && IsFinite(v.qfrc) && IsFinite(v.xfrc) &&
         IsFinite(v.theta);
}
inline bool AllFinite(const StepJvp& v) { return IsFinite(v.dx); }
inline bool AllFinite(const AccelerationDerivative& d) {
  return IsFinite(d.qacc) && IsFinite(d.x) && IsFinite(d.u) && IsFinite(d.force);
}
inline bool AllFinite(const InverseDerivative& d) {
  return IsFinite(d.qfrc) && IsFinite(d.q) && IsFinite(d.v) && IsFinite(d.a);
}

struct Linearizer::Impl {
  Impl(const mjModel* model, const LinearizeOptions& options);
  void Load(ConstVectorRef x, ConstVectorRef u);
  void LoadFrom(const mjData* from);
  void RefreshModel();
  void LinearizeOnce(bool sensors, StepDerivative* out);
  void LinearizeInterval(bool sensors, StepDerivative* out);
  void VjpInterval(const StepCovectors& covectors, StepVjp* out);
  bool Pull(Backend* backend, const StepCovectors& covectors, StepVjp* out, std::string* missing);
  bool PullSensorsBySteps(Backend* backend, const StepCovectors& covectors, StepVjp* out, std::string* missing);
  bool PullForcesBySteps(Backend* backend, const StepCovectors& covectors, StepVjp* out, std::string* missing);
  void JvpInterval(ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out);
  void Advance();
  void FindResting();
  void ClearUnread(const Backend* backend, StepDerivative* out) const;
  bool AddSensors(Backend* backend, bool step, StepDerivative* out, std::string* missing);
  bool AddParameters(Backend* backend, bool step, bool sensors, StepDerivative* out, std::string* missing);
  bool PullParameters(Backend* backend, const StepCovectors& covectors, StepVjp* out, std::string* missing);
  void NoteParameters(Backend* backend, bool sensors, Coverage* coverage);
  void NoteHow(Backend* backend, bool sensors, Coverage* coverage);
  void RefreshParameters();

  // Out: StepDerivative, or one of its products
  template <typename Out, typename Calls>
  void Guarded(Out* out, const Calls& calls);
  template <typename Out, typename Fast, typename Whole>
  void AfterForward(mjData* from, Out* out, const Fast& fast, const Whole& whole);
  template <typename Out, typename Call>
  bool Covers(int level, Out* out, Call call);
  template <typename Out, typename Call>
  void FirstThatCovers(Out* out, Call call);

  const mjModel* model;
  LinearizeOptions options;
  Dims dims;
  mjModel local;  // the caller's, refreshed at each call, with automatic reset and sleep off
  DataPtr data;
  int state;                // all elements of mjSTATE_INTEGRATION that the model has
  VectorXd context, point;  // kContextSignature; mjSTATE_INTEGRATION at the current substep
  StateCopy moving_to_context, context_to_point, x_to_point, u_to_point;
  std::unique_ptr<Backend> levels[4];  // by Level; null: not requested or not covered
  bool whole_interval = false;         // substeps are differenced at once
  std::string missing[4], reason;      // why not a better level
  StepDerivative substep, whole_step;
  RestingMuscles resting;  // of an interval of several steps
  MatrixXd A, B;
  PackedMatrix packed;
  VectorXd no_control;
  std::vector<char> wanted_sensors;   // an entry a sensor; empty: all
  std::vector<int> stages_of_wanted;  // the local model's sensor_needstage; empty: the caller's
  const ParameterSet* parameters = nullptr;
  std::unique_ptr<ParameterDifference> theta;   // its differences
  std::unique_ptr<StepDifference> whole_steps;  // for columns that fail at fixed acceleration
  std::vector<TermCoverage> open_parameters;    // of level 3: those whose columns are no derivatives
  MatrixXd P, Ps;
  std::vector<VectorXd> points;  // of all substeps, to go back through
  StepVjp substep_vjp, step_vjp;
  VectorXd lambda;
  MatrixXd dx;
  VectorXd given_x, given_context;  // of a caller's data
  std::vector<double> work;
};

// one level; false, with the reason in missing[level], when it does not cover the point
template <typename Out, typename Call>
bool Linearizer::Impl::Covers(int level, Out* out, Call call) {
  if (!levels[level]) return false;
  mj_setState(&local, data.get(), point.data(), state);
  missing[level].clear();
  if (!call(levels[level].get(), &missing[level])) return false;
  return out->status != StepStatus::kOk || CoversIfFinite(AllFinite(*out), &missing[level]);
}

template <typename Out, typename Call>
void Linearizer::Impl::FirstThatCovers(Out* out, Call call) {
  reason.clear();
  auto add_reason = [this](const char* head, const char* text) {
    if (!reason.empty()) reason += "; ";
    reason += head;
    reason += text;
  };
  for (int level : {kAnalytic, kResidual}) {
    if (Covers(level, out, call)) {
      auto& terms = out->coverage.terms;
      if (!reason.empty() && !terms.empty() && terms[0].reason.empty()) terms[0].reason = reason;
      return;
    }
    if (!missing[level].empty())
      add_reason(level == kAnalytic ? "analytic: " : "residual difference: ", missing[level].c_str());
  }
  open_parameters.clear();
  if (!Covers(kStep, out, call)) {
    if (!missing[kStep].empty()) add_reason("step difference: ", missing[kStep].c_str());
    throw Error(ErrorCode::kUnsupported, "model '" + ModelName(model) + "' has no derivative at level '" +
                                             ToString(options.level) + "': " + reason);
  }
  if (const char* why = WhyNotTransitionFd(model, options.sensors)) add_reason("", why);
  out->coverage.terms.resize(1);
  out->coverage.terms[0].term = "step";
  out->coverage.terms[0].level = Level::kStep;
  out->coverage.terms[0].reason = reason;
  out->coverage.terms.insert(out->coverage.terms.end(), open_parameters.begin(), open_parameters.end());
}

// a full arena is a warning, unless the stack is what does not fit: that the engine calls an error, here the same
// status
template <typename Out, typename Calls>
void Linearizer::Impl::Guarded(Out* out, const Calls& calls) {
  EngineGuard guard(data.get(), EngineGuard::Around::kEngine);
  try {
    calls();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEngine || std::strstr(error.what(), "stack overflow") == nullptr) throw;
    out->status = StepStatus::kArenaFull;
  }
}

// fast(level 1) on the caller's own data where that is what mj_forward left, else whole() about its point, on ours
template <typename Out, typename Fast, typename Whole>
void Linearizer::Impl::AfterForward(mjData* from, Out* out, const Fast& fast, const Whole& whole) {
  CheckData(model, from);
  Backend* backend = levels[kAnalytic].get();
  if (backend && options.substeps == 1 && !theta) {
    EngineGuard guard(from, EngineGuard::Around::kEngine);
    try {
      if (IsAfterForward(model, from, &work) && fast(backend) && AllFinite(*out)) return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kEngine) throw;  // a caller's stack may be too full for it
    }
  }
  Guarded(out, [&] {
    LoadFrom(from);
    whole();
  });
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_LINEARIZER_H_
