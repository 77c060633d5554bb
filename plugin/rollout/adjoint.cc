// The reverse sweep: binomial checkpoints of (x, moving context), one VJP a knot.
#include <costate/adjoint.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/check_point.h"
#include "derivative/delayed.h"
#include "rollout/check_trajectory.h"
#include "rollout/checkpoint.h"
#include "rollout/gradient_health.h"
#include "rollout/knot_health.h"
#include "rollout/thread_pool.h"

namespace costate {

struct Adjoint::Impl {
  struct Sweep;

  // one a thread; made when first used
  struct Worker {
    DataPtr data;
    Level level = Level::kBest;
    const mjModel* derivative_model = nullptr;
    double smoothing = 0;
    std::unique_ptr<Linearizer> products;
    StepVjp vjp;
    StepDerivative full;
    KnotGradient slope;
    VectorXd none;
    MatrixXd kept;  // columns (x; moving context; s where the loss reads it)
    std::vector<char> sensed;  // is s of a column there?
    MatrixXd substep_x, substep_moving;  // columns, with delays alone
    VectorXd samples;
    VectorXd x, x_next, point, moving, solved, s, no_control, lambda;
  };

  Impl(const mjModel* model_, ConstVectorRef context_, int substeps_, int threads)
      : model(model_), dims(model_), context(context_), substeps(substeps_), pool(threads) {
    CheckStart(model, context, substeps);
    CheckHandsOnNothing(model, false);
    delays = model->nhistory > 0;
    const std::string missing = DelayMissing(model);
    if (!missing.empty()) {
      throw Error(ErrorCode::kUnsupported, "model '" + ModelName(model) + "' has no gradient through rollouts: " + missing);
    }
    moving_size = mj_stateSize(model, kMovingSignature);
    warm_start = mj_stateSize(model, kMovingSignature & (mjSTATE_WARMSTART - 1));
    const int integrator = model->opt.integrator;
    const bool implicit = integrator == mjINT_IMPLICIT || integrator == mjINT_IMPLICITFAST;
    warm_step = substeps == 1 && !delays && (integrator == mjINT_EULER || implicit);
    workers.resize(static_cast<std::size_t>(pool.threads()));
  }

  Linearizer* Get(Worker* w, const AdjointOptions& options) const {
    const Level level = options.level;
    const bool same = w->level == level && w->derivative_model == options.derivative_model && w->smoothing == options.smoothing;
    if (!same || !w->products) {
      w->products = std::make_unique<Linearizer>(
          options.derivative_model ? options.derivative_model : model,
          LinearizeOptions{.level = level, .substeps = delays ? 1 : substeps, .sensors = false, .smoothing = options.smoothing});
      w->products->SetContext(context);
      w->level = level;
      w->derivative_model = options.derivative_model;
      w->smoothing = options.smoothing;
    }
    w->products->SetParameters(options.parameters);
    return w->products.get();
  }

  const mjModel* model;
  Dims dims;
  VectorXd context;
  int substeps, moving_size = 0;
  int warm_start = 0;      // where the moving context holds it
  bool warm_step = false;  // that of a knot is the solution of the step before
  bool delays = false;     // substeps are gone through one by one: controls act later
  ThreadPool pool;
  std::vector<Worker> workers;
};

namespace {

void CheckOptions(const AdjointOptions& o) {
  if (o.window < 0) throw Error(ErrorCode::kInvalidArgument, "window is " + std::to_string(o.window) + ", it cannot be negative");
  if (!(o.clip >= 0)) throw Error(ErrorCode::kInvalidArgument, "clip is " + std::to_string(o.clip) + ", it cannot be negative");
  if (!(o.reach >= 0)) throw Error(ErrorCode::kInvalidArgument, "reach is " + std::to_string(o.reach) + ", it cannot be negative");
}

// which constraints act and how (within, at its bound, slipping), as a number: equal for equal sets
std::uint64_t ActiveSet(const mjModel* m, const mjData* d) {
  std::uint64_t hash = 1469598103934665603u;
  const auto add = [&](int value) { hash = (hash ^ static_cast<std::uint32_t>(value)) * 1099511628211u; };
  for (int i = 0; i < d->nefc; i++) {
    if (d->efc_state[i] == mjCNSTRSTATE_SATISFIED) continue;
    const int id = d->efc_id[i];
    const bool contact = d->efc_type[i] >= mjCNSTR_CONTACT_FRICTIONLESS;
    add(d->efc_type[i]);
    add(d->efc_state[i]);
    add(contact ? d->contact[id].geom[0] * m->ngeom + d->contact[id].geom[1] : id);
  }
  return hash;
}

}  // namespace

// one gradient on one worker
struct Adjoint::Impl::Sweep {
  Sweep(Impl* adjoint, Worker* worker, ConstMatrixRef controls, const Loss& l, const AdjointOptions& o,
        RolloutGradient* result)
      : a(*adjoint), w(*worker), U(controls), loss(l), options(o), out(result), N(static_cast<int>(controls.cols())) {}

  void Run(ConstVectorRef x0);
  int Slots() const;
  int Sensors() const { return loss.NeedsSensors() ? a.dims.ns : 0; }
  void Keep(int slot);
  void KeepSensors();
  bool FindSensors(int slot);
  void Restart(int slot, int knot);
  bool AdvanceTo(int knot);
  bool Terminal();
  bool Slopes(int knot, ConstVectorRef x, ConstVectorRef u, bool sensed);
  bool Pull(int knot, int slot);
  bool PullSubsteps(int knot, const VectorXd& moving, ConstVectorRef sigma);
  bool PullStep(int knot, ConstVectorRef x, ConstVectorRef sigma);
  void PullHistory(int knot, int substep, ConstVectorRef moving);
  void LookCloser(int knot, const VectorXd& moving);
  void Limit(int knot);
  bool Fail(StepStatus status, int knot);

  KnotView View(int t, double time, ConstVectorRef x, ConstVectorRef u) const {
    return {.t = t, .N = N, .time = time, .dt = a.substeps * a.model->opt.timestep, .x = x, .u = u, .s = w.s};
  }

  Impl& a;
  Worker& w;
  ConstMatrixRef U;
  const Loss& loss;
  const AdjointOptions& options;
  RolloutGradient* out;
  const int N;
  int at = 0;       // the knot that data stands at, with w.x
  int slot = -1;    // what is kept of this very knot; −1: nothing
  int reached = 0;  // knots whose loss is counted
  bool terminal = false;
  std::uint64_t active = 0;
  double start = 0;  // time of knot 0
};

bool Adjoint::Impl::Sweep::Fail(StepStatus status, int knot) {
  out->status.status = status;
  out->status.knot = knot;
  out->loss = std::numeric_limits<double>::infinity();
  return false;
}

// how many states there is room for
int Adjoint::Impl::Sweep::Slots() const {
  if (options.memory == 0) return N;
  const std::size_t one = sizeof(double) * static_cast<std::size_t>(a.dims.nx + a.moving_size + Sensors());
  return static_cast<int>(std::clamp<std::size_t>(options.memory / one, 1, static_cast<std::size_t>(N)));
}

void Adjoint::Impl::Sweep::Keep(int to) {
  auto column = w.kept.col(to);
  column.head(a.dims.nx) = w.x;
  mj_getState(a.model, w.data.get(), column.data() + a.dims.nx, kMovingSignature);
  w.sensed[static_cast<std::size_t>(to)] = 0;
  slot = to;
  out->kept_bytes = std::max(out->kept_bytes, sizeof(double) * static_cast<std::size_t>(column.size() * (to + 1)));
}

// the step that leaves a knot has its sensors
void Adjoint::Impl::Sweep::KeepSensors() {
  if (slot < 0) return;
  w.kept.col(slot).tail(Sensors()) = w.s;
  w.sensed[static_cast<std::size_t>(slot)] = 1;
}

bool Adjoint::Impl::Sweep::FindSensors(int from) {
  if (from < 0 || !w.sensed[static_cast<std::size_t>(from)]) return false;
  w.s = w.kept.col(from).tail(Sensors());
  return true;
}

void Adjoint::Impl::Sweep::Restart(int from, int knot) {
  slot = from;
  if (at == knot) return;
  w.x = w.kept.col(from).head(a.dims.nx);
  SetContext(a.model, w.data.get(), a.context);
  SetMovingContext(a.model, w.data.get(), w.kept.col(from).segment(a.dims.nx, a.moving_size));
  at = knot;
}

bool Adjoint::Impl::Sweep::AdvanceTo(int knot) {
  for (; at < knot; ++at) {
    const double time = w.data->time;
    const StepStatus status = Step(a.model, w.data.get(), w.x, U.col(at), a.substeps, w.x_next, w.s);
    if (status != StepStatus::kOk) return Fail(status, at);
    KeepSensors();
    slot = -1;
    if (at < reached) {
      out->recomputed++;
    } else {
      out->loss += loss.Value(View(at, time, w.x, U.col(at)));
      const std::uint64_t set = ActiveSet(a.model, w.data.get());
      if (at > 0 && set != active) out->health.switches.push_back(at);
      active = set;
      reached = at + 1;
    }
    w.x.swap(w.x_next);
  }
  return true;
}

// truncation and clipping, on record
void Adjoint::Impl::Sweep::Limit(int t) {
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

// λ_N = ∂l_N/∂x + C_Nᵀ ∂l_N/∂s; data stands at knot N
bool Adjoint::Impl::Sweep::Terminal() {
  terminal = true;
  out->xN = w.x;
  w.moving = GetMovingContext(a.model, w.data.get());
  if (!Slopes(N, w.x, VectorXd(), false)) return false;
  w.lambda = w.slope.x;
  if (!w.slope.s.isZero(0)) {
    Linearizer* linearizer = a.Get(&w, options);
    linearizer->SetMovingContext(w.moving);
    linearizer->VjpSensors(w.x, w.slope.s, &w.vjp, options.forces);
    if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, N);
    out->coverage = w.vjp.coverage;
    w.lambda += w.vjp.x;
    if (options.parameters) out->theta += w.vjp.theta;
    if (options.forces) {
      out->qfrc.col(N) = w.vjp.qfrc;
      out->xfrc.col(N) = w.vjp.xfrc;
    }
    if (w.vjp.delayed.size() > 0) PullHistory(N, 0, w.moving);
  }
  Limit(N);
  return true;
}

// w.slope of one knot, and at the last one its loss
bool Adjoint::Impl::Sweep::Slopes(int t, ConstVectorRef x, ConstVectorRef u, bool sensed) {
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
  for (int i = 0; a.delays && loss.NeedsSensors() && i < a.model->nsensor; i++) {
    if (a.model->sensor_history[2 * i] == 0 || a.model->sensor_delay[i] == 0) continue;
    if (w.slope.s.segment(a.model->sensor_adr[i], a.model->sensor_dim[i]).isZero(0)) continue;
    throw Error(ErrorCode::kUnsupported, "the loss reads sensor " + ElementName(a.model, mjOBJ_SENSOR, i) +
                                             ", which is delayed: its values on their way are not followed back");
  }
  return true;
}

// what options ask about the step at w.point; w.full.A is overwritten
void Adjoint::Impl::Sweep::LookCloser(int t, const VectorXd& moving) {
  if (options.spectral_radius) {
    Linearizer* linearizer = a.Get(&w, options);
    linearizer->SetMovingContext(moving);
    linearizer->Linearize(w.point, U.col(t), &w.full);
    out->health.spectral_radius[t] = SpectralRadius(w.full.A);
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
bool Adjoint::Impl::Sweep::PullStep(int t, ConstVectorRef x, ConstVectorRef sigma) {
  a.Get(&w, options)->Vjp(x, U.col(t), w.lambda, sigma, &w.vjp, options.forces);
  if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, t);
  if (out->coverage.terms.empty() || w.vjp.coverage.Worst() > out->coverage.Worst()) out->coverage = w.vjp.coverage;
  out->U.col(t) += w.vjp.u;
  if (options.parameters) out->theta += w.vjp.theta;
  if (options.forces) {
    out->qfrc.col(t) += w.vjp.qfrc;
    out->xfrc.col(t) += w.vjp.xfrc;
  }
  return true;
}

// with delays: each engine step of the interval by itself
bool Adjoint::Impl::Sweep::PullSubsteps(int t, const VectorXd& moving, ConstVectorRef sigma) {
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
    a.Get(&w, options)->SetMovingContext(w.substep_moving.col(k));
    if (!PullStep(t, w.substep_x.col(k), k == 0 ? sigma : ConstVectorRef(w.none))) return false;
    if (w.vjp.delayed.size() == 0) {
      const auto& terms = w.vjp.coverage.terms;
      throw Error(ErrorCode::kUnsupported, "delays: what acts late is not known where whole steps are differenced (" +
                                               (terms.empty() ? std::string() : terms[0].reason) + ")");
    }
    PullHistory(t, k, w.substep_moving.col(k));
    if (k > 0) w.lambda = w.vjp.x;
  }
  return true;
}

// what an actuator gets is linear in the samples of its history, of which those since the start are controls of earlier steps
void Adjoint::Impl::Sweep::PullHistory(int t, int substep, ConstVectorRef moving) {
  const mjModel* m = a.model;
  mjData* d = w.data.get();
  SetMovingContext(m, d, moving);
  const std::int64_t now = static_cast<std::int64_t>(t) * a.substeps + substep;
  for (int i = 0; i < m->nactuator; i++) {
    const int u = m->actuator_ctrladr[i], n = m->actuator_history[2 * i];
    if (m->actuator_delay[i] == 0 || n == 0 || w.vjp.delayed[u] == 0) continue;
    const mjtNum* times = d->history + m->actuator_historyadr[i] + 2;
    Eigen::Map<VectorXd> values(d->history + m->actuator_historyadr[i] + 2 + n, n);
    w.samples = values;
    for (int k = 0; k < n; k++) {
      const std::int64_t step = std::llround((times[k] - start) / m->opt.timestep);
      if (step < 0 || step >= now) continue;
      values.setZero();
      values[k] = 1;
      mjtNum between;
      const mjtNum* exact = mj_readCtrl(m, d, i, d->time, &between, m->actuator_history[2 * i + 1]);
      out->U(u, step / a.substeps) += w.vjp.delayed[u] * (exact ? *exact : between);
    }
    values = w.samples;
  }
}

// λ_t and the gradient by u_t from λ_{t+1}; data stands at knot t, of which `from` is kept
bool Adjoint::Impl::Sweep::Pull(int t, int from) {
  w.point = w.x;
  VectorXd moving = GetMovingContext(a.model, w.data.get());
  if (!terminal) {
    if (!AdvanceTo(t + 1) || !Terminal()) return false;
    SetContext(a.model, w.data.get(), a.context);
    SetMovingContext(a.model, w.data.get(), moving);
  }
  at = -1;
  if (!Slopes(t, w.point, U.col(t), FindSensors(from))) return false;

  const double before = w.lambda.norm();
  const bool sensors = !w.slope.s.isZero(0);
  Linearizer* linearizer = a.Get(&w, options);
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
  Limit(t);
  LookCloser(t, moving);
  w.moving.swap(moving);
  return true;
}

void Adjoint::Impl::Sweep::Run(ConstVectorRef x0) {
  *out = RolloutGradient();
  out->U.setZero(a.dims.nu, N);
  const int columns = loss.NeedsSensors() ? N + 1 : N;
  out->qfrc.setZero(options.forces ? a.dims.nv : 0, columns);
  out->xfrc.setZero(options.forces ? 6 * a.model->nbody : 0, columns);
  out->theta.setZero(options.parameters ? options.parameters->size() : 0);
  out->health.costate.setZero(N + 1);
  out->health.growth.setOnes(N);
  out->health.spectral_radius.setZero(options.spectral_radius ? N : 0);
  out->health.labels.resize(static_cast<std::size_t>(options.certify ? N : 0));
  out->health.crossing.resize(out->health.labels.size());
  w.kept.resize(a.dims.nx + a.moving_size + Sensors(), Slots());  // all of it is used
  w.sensed.assign(static_cast<std::size_t>(Slots()), 0);
  w.x = x0;
  w.x_next.resize(a.dims.nx);
  w.s.setZero(loss.NeedsSensors() ? a.dims.ns : 0);

  EngineGuard guard(w.data.get());
  if ((a.model->opt.enableflags & mjENBL_SLEEP) || a.model->nplugin > 0) mj_resetData(a.model, w.data.get());
  SetContext(a.model, w.data.get(), a.context);
  start = w.data->time;
  const int slots = Slots();
  std::vector<int> kept = {0};
  Keep(0);
  bool good = true;
  for (int end = N; good && !kept.empty();) {
    const int begin = kept.back(), top = static_cast<int>(kept.size()) - 1, room = slots - top;
    Restart(top, begin);
    if (end - begin == 1) {
      good = Pull(begin, top);
      kept.pop_back();
      end = begin;
    } else if (room == 1) {
      good = AdvanceTo(end - 1) && Pull(end - 1, -1);
      end--;
    } else {
      kept.push_back(begin + NextCheckpoint(end - begin, room));
      good = AdvanceTo(kept.back());
      if (good) Keep(top + 1);
    }
  }
  out->status.warnings = guard.TakeWarnings();
  if (!good) return;
  out->x0 = w.lambda;
  JudgeGradient(a.substeps * a.model->opt.timestep, &out->health);
}

Adjoint::Adjoint(const mjModel* model, ConstVectorRef context, int substeps, int threads)
    : impl_(std::make_unique<Impl>(model, context, substeps, threads)) {}
Adjoint::~Adjoint() = default;

int Adjoint::threads() const { return impl_->pool.threads(); }

void Adjoint::ParallelFor(int n, const std::function<void(int, int)>& job) { impl_->pool.ParallelFor(n, job); }

void Adjoint::Gradient(ConstVectorRef x0, ConstMatrixRef U, const Loss& loss, const AdjointOptions& options,
                       RolloutGradient* out, int worker) {
  Impl& a = *impl_;
  CheckSize(a.model, "x0", x0.size(), "nx", a.dims.nx);
  CheckSize(a.model, "a column of U", U.rows(), "nu", a.dims.nu);
  CheckFiniteState(a.model, x0);
  for (Eigen::Index t = 0; t < U.cols(); ++t) CheckFiniteControl(a.model, U.col(t));
  if (U.cols() < 1) throw Error(ErrorCode::kInvalidArgument, "U has no columns: there is no interval to go back through");
  CheckOptions(options);
  if (options.spectral_radius && a.delays) {
    throw Error(ErrorCode::kUnsupported, "the spectral radius of a step with delays, whose history is no part of A");
  }
  if (options.derivative_model) {
    CheckSameSizes(a.model, options.derivative_model);
    if (options.parameters) {
      throw Error(ErrorCode::kUnsupported, "gradients by parameters are not there with another model's derivatives");
    }
  }
  CheckWorker(worker, a.workers.size(), "adjoint");
  Impl::Worker& w = a.workers[static_cast<std::size_t>(worker)];
  if (!w.data) w.data = MakeData(a.model);
  Impl::Sweep(&a, &w, U, loss, options, out).Run(x0);
}

}  // namespace costate
