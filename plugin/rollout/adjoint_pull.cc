// One VJP a knot, or with delays one an engine step, whose late controls go to the knots that gave them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "core/finite.h"
#include "core/spectral_radius.h"
#include "rollout/adjoint_sweep.h"
#include "rollout/check_trajectory.h"
#include "rollout/gradient_health.h"
#include "rollout/knot_health.h"

namespace costate {
namespace {

// the worst step's, with what any step says of parameters that lie on a switch
void Cover(const Coverage& step, Coverage* all) {
  const bool worse = all->terms.empty() || step.Worst() > all->Worst();
  if (!worse && std::none_of(step.terms.begin(), step.terms.end(), std::mem_fn(&TermCoverage::IsOpen))) return;
  Coverage before;
  if (worse) {
    before.terms.swap(all->terms);
    *all = step;
  }
  for (const TermCoverage& term : (worse ? before : step).terms) {
    if (!term.IsOpen()) continue;
    const auto same = [&](const TermCoverage& t) { return t.term == term.term; };
    const auto at = std::find_if(all->terms.begin(), all->terms.end(), same);
    if (at == all->terms.end()) all->terms.push_back(term);
    else if (!at->IsOpen()) at->reason = term.reason;
  }
}

}  // namespace

Linearizer* AdjointSweep::Products() {
  const bool same =
      w.level == options.level && w.derivative_model == options.derivative_model && w.smoothing == options.smoothing;
  if (!same || !w.products) {
    w.products = std::make_unique<Linearizer>(options.derivative_model ? options.derivative_model : a.model,
                                              LinearizeOptions{.level = options.level,
                                                               .substeps = a.delays ? 1 : a.substeps,
                                                               .sensors = false,
                                                               .smoothing = options.smoothing});
    w.products->SetContext(a.context);
    w.level = options.level;
    w.derivative_model = options.derivative_model;
    w.smoothing = options.smoothing;
  }
  w.products->SetParameters(options.parameters);
  return w.products.get();
}

// truncation and clipping, on record
void AdjointSweep::Limit(int t) {
  const double norm = w.lambda.norm();
  out->health.costate[t] = norm;
  if (options.clip > 0 && norm > options.clip) {
    w.lambda *= options.clip / norm;
    out->health.clipped.push_back(t);
  }
  if (options.window > 0 && t < N && t > 0 && (N - t) % options.window == 0) {
    w.lambda.setZero();
    out->health.dropped.push_back(t);
  }
}

// one vector of a loss's slopes: as long as it was given, and finite
void AdjointSweep::CheckSlope(const char* by, const KnotView& knot, const VectorXd& slope, Eigen::Index size,
                              std::vector<std::string> (*names)(const mjModel*)) const {
  if (slope.size() != size) {
    throw Error(ErrorCode::kDimensionMismatch, "the loss's slope by " + std::string(by) + " at knot " +
                                                   std::to_string(knot.t) + " has " + std::to_string(slope.size()) +
                                                   " entries, it was given with " + std::to_string(size));
  }
  if (IsFinite(slope)) return;
  Eigen::Index i = 0;
  while (std::isfinite(slope[i])) i++;
  std::string of;
  for (const std::string& term : loss.TermsWithoutSlope(knot)) of += (of.empty() ? ", by its term '" : "', '") + term;
  throw Error(ErrorCode::kInvalidArgument, "the loss's slope by " + names(a.model)[static_cast<std::size_t>(i)] +
                                               " at knot " + std::to_string(knot.t) + " is " +
                                               std::to_string(slope[i]) + of + (of.empty() ? "" : "'"));
}

// w.slope of one knot, and at the last one its loss
bool AdjointSweep::Slopes(int t, ConstVectorRef x, ConstVectorRef u, bool sensed) {
  const bool last = t == N;
  const double time = w.data->time;
  if (loss.NeedsSensors() && !sensed) {
    if (last) w.no_control.setZero(a.dims.nu);
    const StepStatus status = Forward(a.model, w.data.get(), x, last ? ConstVectorRef(w.no_control) : u, w.s);
    if (status != StepStatus::kOk) return Fail(status, t);
  }
  w.slope.x.setZero(a.dims.ndx);
  w.slope.u.setZero(u.size());
  w.slope.s.setZero(w.s.size());
  const KnotView view = View(t, time, x, u);
  if (last) out->loss += loss.Value(view);
  loss.Gradient(view, &w.slope);
  CheckSlope("x", view, w.slope.x, a.dims.ndx, &TangentNames);
  CheckSlope("u", view, w.slope.u, u.size(), &ControlNames);
  CheckSlope("s", view, w.slope.s, w.s.size(), &SensorNames);
  if (loss.NeedsSensors()) RefusePastSensors(a.model, "the loss", [&](int i) { return w.slope.s[i] != 0; });
  return true;
}

// slopes by parameters and by forces at a knot
void AdjointSweep::AddInputSlopes(int t) {
  if (options.parameters) out->theta += w.vjp.theta;
  if (options.forces) {
    out->qfrc.col(t) += w.vjp.qfrc;
    out->xfrc.col(t) += w.vjp.xfrc;
  }
}

// besides state and control, what sensors at a knot were moved by
void AdjointSweep::AddSensorSlopes(int t, ConstVectorRef moving) {
  AddInputSlopes(t);
  if (w.vjp.delayed.size() > 0) PullHistory(t, 0, moving);
}

// λ_N = ∂l_N/∂x + C_Nᵀ ∂l_N/∂s; data stands at knot N
bool AdjointSweep::Terminal() {
  terminal = true;
  out->xN = w.x;
  w.moving = GetMovingContext(a.model, w.data.get());
  if (!Slopes(N, w.x, VectorXd(), false)) return false;
  w.lambda = w.slope.x;
  if (!w.slope.s.isZero(0)) {
    Linearizer* linearizer = Products();
    linearizer->SetMovingContext(w.moving);
    linearizer->VjpSensors(w.x, w.slope.s, &w.vjp, options.forces);
    if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, N);
    out->coverage = w.vjp.coverage;
    w.lambda += w.vjp.x;
    AddSensorSlopes(N, w.moving);
  }
  Limit(N);
  return true;
}

// what options ask about the step at w.point; w.full.A is overwritten
void AdjointSweep::LookCloser(int t, const VectorXd& moving) {
  if (options.spectral_radius) {
    Linearizer* linearizer = Products();
    linearizer->SetMovingContext(moving);
    linearizer->Linearize(w.point, U.col(t), &w.full);
    Eigen::EigenSolver<MatrixXd> solver;
    out->health.spectral_radius[t] = SpectralRadius(w.full.A, &solver);
  }
  if (options.certify) {
    SetContext(a.model, w.data.get(), a.context);
    SetMovingContext(a.model, w.data.get(), moving);
    SetState(a.model, w.data.get(), w.point);
    mju_copy(w.data->ctrl, U.col(t).data(), a.dims.nu);
    LabelKnot(a.model, w.data.get(), options.reach, t, &out->health);
    if (options.derivative_model || options.smoothing > 0)
      out->health.labels[static_cast<std::size_t>(t)] = Smoothness::kSmoothed;
  }
}

// one call of the linearizer, whose context is set: w.vjp, and what acts in it
bool AdjointSweep::PullStep(int t, ConstVectorRef x, ConstVectorRef sigma) {
  Products()->Vjp(x, U.col(t), w.lambda, sigma, &w.vjp, options.forces);
  if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, t);
  Cover(w.vjp.coverage, &out->coverage);
  out->U.col(t) += w.vjp.u;
  AddInputSlopes(t);
  return true;
}

// with delays: each engine step of the interval by itself
bool AdjointSweep::PullSubsteps(int t, const VectorXd& moving, ConstVectorRef sigma) {
  w.substep_x.resize(a.dims.nx, a.substeps);
  w.substep_moving.resize(a.moving_size, a.substeps);
  w.x = w.point;
  SetContext(a.model, w.data.get(), a.context);
  SetMovingContext(a.model, w.data.get(), moving);
  VectorXd unread(w.s.size());
  for (int k = 0; k < a.substeps; ++k) {
    w.substep_x.col(k) = w.x;
    w.substep_moving.col(k) = GetMovingContext(a.model, w.data.get());
    if (k + 1 == a.substeps) break;
    const StepStatus status = Step(a.model, w.data.get(), w.x, U.col(t), 1, w.x_next, unread);
    if (status != StepStatus::kOk) return Fail(status, t);
    w.x.swap(w.x_next);
  }
  for (int k = a.substeps - 1; k >= 0; --k) {
    Products()->SetMovingContext(w.substep_moving.col(k));
    if (!PullStep(t, w.substep_x.col(k), k == 0 ? sigma : ConstVectorRef(w.none))) return false;
    if (w.vjp.delayed.size() == 0 && a.dims.nu > 0) {
      const auto& terms = w.vjp.coverage.terms;
      throw Error(ErrorCode::kUnsupported, "delays: what acts late is not known where whole steps are differenced (" +
                                               (terms.empty() ? std::string() : terms[0].reason) + ")");
    }
    PullHistory(t, k, w.substep_moving.col(k));
    if (k > 0) w.lambda = w.vjp.x;
  }
  return true;
}

// what an actuator gets is linear in the samples of its history, of which those since the start are controls of earlier
// steps
void AdjointSweep::PullHistory(int t, int substep, ConstVectorRef moving) {
  const mjModel* m = a.model;
  mjData* d = w.data.get();
  SetMovingContext(m, d, moving);
  const std::int64_t now = static_cast<std::int64_t>(t) * a.substeps + substep;
  for (int i = 0; i < m->nactuator; i++) {
    const int u = m->actuator_ctrladr[i], inputs = m->actuator_ctrlnum[i], n = m->actuator_history[2 * i];
    if (m->actuator_delay[i] == 0 || n == 0 || w.vjp.delayed.segment(u, inputs).isZero(0)) continue;
    const mjtNum* times = d->history + m->actuator_historyadr[i] + 2;
    Eigen::Map<MatrixXd> values(d->history + m->actuator_historyadr[i] + 2 + n, inputs, n);
    w.samples = values;
    w.between.resize(inputs);
    for (int k = 0; k < n; k++) {
      const std::int64_t step = std::llround((times[k] - start) / m->opt.timestep);
      if (step < 0 || step >= now) continue;
      values.setZero();
      values.col(k).setOnes();
      const mjtNum* exact = mj_readCtrl(m, d, i, d->time, w.between.data(), m->actuator_history[2 * i + 1]);
      const double share = exact ? *exact : w.between[0];  // the same for all inputs
      out->U.col(step / a.substeps).segment(u, inputs) += share * w.vjp.delayed.segment(u, inputs);
    }
    values = w.samples;
  }
}

namespace {

// what a law adds to a gradient that is finite without it
void RefuseLawSlope(ConstVectorRef slopes, int t, const std::function<std::string(Eigen::Index)>& name) {
  if (IsFinite(slopes.data(), slopes.size())) return;
  Eigen::Index i = 0;
  while (std::isfinite(slopes[i])) i++;
  throw Error(ErrorCode::kInvalidArgument, "the feedback's slope by " + name(i) + " at knot " + std::to_string(t) +
                                               " is " + std::to_string(slopes[i]));
}

}  // namespace

// what u_t does goes back to what the law was given: the state, and sensors at it under u_{t−1}
bool AdjointSweep::PullFeedback(int t, double time, ConstVectorRef moving) {
  w.no_control.setZero(a.dims.nu);
  const ConstVectorRef before = t > 0 ? ConstVectorRef(U.col(t - 1)) : ConstVectorRef(w.no_control);
  w.seen.setZero(options.feedback->NeedsSensors() ? a.dims.ns : 0);
  if (w.seen.size() > 0) {
    SetContext(a.model, w.data.get(), a.context);
    SetMovingContext(a.model, w.data.get(), moving);
    const StepStatus status = Forward(a.model, w.data.get(), w.point, before, w.seen);
    if (status != StepStatus::kOk) return Fail(status, t);
  }
  w.sigma.setZero(w.seen.size());
  const bool finite = IsFinite(w.lambda) && IsFinite(out->U.col(t).data(), a.dims.nu);
  FeedbackGradient slopes{w.lambda, w.sigma, out->weights};
  options.feedback->PullBack({t, time, w.point, w.seen}, out->U.col(t), &slopes);
  if (finite) {
    const auto named = [&](std::vector<std::string> (*names)(const mjModel*)) {
      return [&, names](Eigen::Index i) { return names(a.model)[static_cast<std::size_t>(i)]; };
    };
    RefuseLawSlope(w.lambda, t, named(&TangentNames));
    RefuseLawSlope(w.sigma, t, named(&SensorNames));
    RefuseLawSlope(out->weights, t, [](Eigen::Index i) { return "its weight " + std::to_string(i); });
  }
  if (w.sigma.isZero(0)) return true;

  RefusePastSensors(a.model, "the feedback", [&](int i) { return w.sigma[i] != 0; });
  Products()->SetMovingContext(moving);
  Products()->Vjp(w.point, before, VectorXd::Zero(a.dims.ndx), w.sigma, &w.vjp, options.forces);
  if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, t);
  w.lambda += w.vjp.x;
  if (t > 0) out->U.col(t - 1) += w.vjp.u;
  AddSensorSlopes(t, moving);
  return true;
}

// λ_t and the gradient by u_t from λ_{t+1}; data stands at knot t, of which `from` is kept
bool AdjointSweep::Pull(int t, int from) {
  w.point = w.x;
  VectorXd moving = GetMovingContext(a.model, w.data.get());
  const double time = w.data->time;
  if (!terminal) {
    if (!AdvanceTo(t + 1) || !Terminal()) return false;
    SetContext(a.model, w.data.get(), a.context);
    SetMovingContext(a.model, w.data.get(), moving);
  }
  at = -1;
  if (!Slopes(t, w.point, U.col(t), FindSensors(from))) return false;

  const double before = w.lambda.norm();
  const bool sensors = !w.slope.s.isZero(0);
  Linearizer* linearizer = Products();
  if (a.warm_step) {
    // this step's solution is known: the solver starts there
    w.solved = moving;
    w.solved.segment(a.warm_start, a.dims.nv) = w.moving.segment(a.warm_start, a.dims.nv);
    linearizer->SetMovingContext(w.solved);
  } else {
    linearizer->SetMovingContext(moving);
  }
  const ConstVectorRef sigma = sensors ? ConstVectorRef(w.slope.s) : ConstVectorRef(w.none);
  if (!(a.delays ? PullSubsteps(t, moving, sigma) : PullStep(t, w.point, sigma))) return false;

  // the step's own factor, whatever the loss adds
  const double after = w.vjp.sensors.size() > 0 ? (w.vjp.x - w.vjp.sensors).norm() : w.vjp.x.norm();
  out->health.growth[t] = before > 0 ? after / before : 1;
  w.lambda = w.vjp.x + w.slope.x;
  out->U.col(t) += w.slope.u;
  // delayed controls act in later steps alone: all that u_t does is in its gradient by now
  if (options.feedback && !PullFeedback(t, time, moving)) return false;
  Limit(t);
  LookCloser(t, moving);
  w.moving.swap(moving);
  return true;
}

}  // namespace costate
