// The reverse sweep: binomial checkpoints of (x, moving context), one VJP a knot.
#include <costate/adjoint.h>

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/check_point.h"
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
    std::unique_ptr<Linearizer> products, jacobians;  // without and with sensors
    StepVjp vjp;
    StepDerivative full;
    KnotGradient slope;
    MatrixXd kept;  // columns (x; moving context)
    VectorXd x, x_next, point, moving, solved, s, no_control, lambda;
  };

  Impl(const mjModel* model_, ConstVectorRef context_, int substeps_, int threads)
      : model(model_), dims(model_), context(context_), substeps(substeps_), pool(threads) {
    CheckStart(model, context, substeps);
    CheckHandsOnNothing(model);
    moving_size = mj_stateSize(model, kMovingSignature);
    warm_start = mj_stateSize(model, kMovingSignature & (mjSTATE_WARMSTART - 1));
    const int integrator = model->opt.integrator;
    const bool implicit = integrator == mjINT_IMPLICIT || integrator == mjINT_IMPLICITFAST;
    warm_step = substeps == 1 && (integrator == mjINT_EULER || implicit);
    workers.resize(static_cast<std::size_t>(pool.threads()));
  }

  Linearizer* Get(Worker* w, const AdjointOptions& options, bool sensors) const {
    const Level level = options.level;
    if (w->level != level) {
      w->products.reset();
      w->jacobians.reset();
      w->level = level;
    }
    std::unique_ptr<Linearizer>& linearizer = sensors ? w->jacobians : w->products;
    if (!linearizer) {
      linearizer = std::make_unique<Linearizer>(
          model, LinearizeOptions{.level = level, .substeps = substeps, .sensors = sensors});
      linearizer->SetContext(context);
    }
    linearizer->SetParameters(options.parameters);
    return linearizer.get();
  }

  const mjModel* model;
  Dims dims;
  VectorXd context;
  int substeps, moving_size = 0;
  int warm_start = 0;      // where the moving context holds it
  bool warm_step = false;  // that of a knot is the solution of the step before
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
  void Keep(int slot);
  void Restart(int slot, int knot);
  bool AdvanceTo(int knot);
  bool Terminal();
  bool Slopes(int knot, ConstVectorRef x, ConstVectorRef u);
  bool Pull(int knot);
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
  int reached = 0;  // knots whose loss is counted
  bool terminal = false;
  std::uint64_t active = 0;
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
  const std::size_t one = sizeof(double) * static_cast<std::size_t>(a.dims.nx + a.moving_size);
  return static_cast<int>(std::clamp<std::size_t>(options.memory / one, 1, static_cast<std::size_t>(N)));
}

void Adjoint::Impl::Sweep::Keep(int slot) {
  auto column = w.kept.col(slot);
  column.head(a.dims.nx) = w.x;
  mj_getState(a.model, w.data.get(), column.data() + a.dims.nx, kMovingSignature);
  out->kept_bytes = std::max(out->kept_bytes, sizeof(double) * static_cast<std::size_t>(column.size() * (slot + 1)));
}

void Adjoint::Impl::Sweep::Restart(int slot, int knot) {
  if (at == knot) return;
  w.x = w.kept.col(slot).head(a.dims.nx);
  SetContext(a.model, w.data.get(), a.context);
  SetMovingContext(a.model, w.data.get(), w.kept.col(slot).tail(a.moving_size));
  at = knot;
}

bool Adjoint::Impl::Sweep::AdvanceTo(int knot) {
  for (; at < knot; ++at) {
    const double time = w.data->time;
    const StepStatus status = Step(a.model, w.data.get(), w.x, U.col(at), a.substeps, w.x_next, w.s);
    if (status != StepStatus::kOk) return Fail(status, at);
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
  if (!Slopes(N, w.x, VectorXd())) return false;
  w.lambda = w.slope.x;
  if (!w.slope.s.isZero(0)) {
    Linearizer* linearizer = a.Get(&w, options, true);
    linearizer->SetMovingContext(w.moving);
    linearizer->LinearizeSensors(w.x, &w.full);
    if (w.full.status != StepStatus::kOk) return Fail(w.full.status, N);
    w.lambda.noalias() += w.full.C.transpose() * w.slope.s;
    if (options.parameters) out->theta.noalias() += w.full.Ps.transpose() * w.slope.s;
  }
  Limit(N);
  return true;
}

// w.slope of one knot, and at the last one its loss
bool Adjoint::Impl::Sweep::Slopes(int t, ConstVectorRef x, ConstVectorRef u) {
  const bool sensors = loss.NeedsSensors(), last = t == N;
  if (sensors) {
    if (last) w.no_control.setZero(a.dims.nu);
    const StepStatus status = Forward(a.model, w.data.get(), x, last ? ConstVectorRef(w.no_control) : u, w.s);
    if (status != StepStatus::kOk) return Fail(status, t);
  }
  w.slope.x.setZero(a.dims.ndx);
  w.slope.u.setZero(u.size());
  w.slope.s.setZero(w.s.size());
  const KnotView view = View(t, w.data->time, x, u);
  if (last) out->loss += loss.Value(view);
  loss.Gradient(view, &w.slope);
  return true;
}

// what options ask about the step at w.point; w.full.A is overwritten
void Adjoint::Impl::Sweep::LookCloser(int t, const VectorXd& moving) {
  if (options.spectral_radius) {
    Linearizer* linearizer = a.Get(&w, options, false);
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
  }
}

// λ_t and the gradient by u_t from λ_{t+1}; data stands at knot t
bool Adjoint::Impl::Sweep::Pull(int t) {
  w.point = w.x;
  VectorXd moving = GetMovingContext(a.model, w.data.get());
  if (!terminal) {
    if (!AdvanceTo(t + 1) || !Terminal()) return false;
    SetContext(a.model, w.data.get(), a.context);
    SetMovingContext(a.model, w.data.get(), moving);
  }
  at = -1;
  if (!Slopes(t, w.point, U.col(t))) return false;

  // A and B are formed where sensors carry slopes: C and D come along
  const double before = w.lambda.norm();
  const bool jacobians = !w.slope.s.isZero(0);
  Linearizer* linearizer = a.Get(&w, options, jacobians);
  if (a.warm_step) {
    // this step's solution is known: the solver starts there
    w.solved = moving;
    w.solved.segment(a.warm_start, a.dims.nv) = w.moving.segment(a.warm_start, a.dims.nv);
    linearizer->SetMovingContext(w.solved);
  } else {
    linearizer->SetMovingContext(moving);
  }
  if (jacobians) {
    if (options.forces) {
      throw Error(ErrorCode::kUnsupported, "gradients by applied forces are not there for a loss that reads sensors");
    }
    linearizer->Linearize(w.point, U.col(t), &w.full);
    if (w.full.status != StepStatus::kOk) return Fail(w.full.status, t);
    w.vjp.x.noalias() = w.full.A.transpose() * w.lambda;
    w.vjp.u.noalias() = w.full.B.transpose() * w.lambda;
    if (options.parameters) {
      out->theta.noalias() += w.full.P.transpose() * w.lambda;
      out->theta.noalias() += w.full.Ps.transpose() * w.slope.s;
    }
  } else {
    linearizer->Vjp(w.point, U.col(t), w.lambda, &w.vjp, options.forces);
    if (w.vjp.status != StepStatus::kOk) return Fail(w.vjp.status, t);
    if (options.parameters) out->theta += w.vjp.theta;
  }
  const Coverage& coverage = jacobians ? w.full.coverage : w.vjp.coverage;
  if (t == N - 1 || coverage.Worst() > out->coverage.Worst()) out->coverage = coverage;
  out->health.growth[t] = before > 0 ? w.vjp.x.norm() / before : 1;

  w.lambda = w.vjp.x + w.slope.x;
  out->U.col(t) = w.vjp.u + w.slope.u;
  if (jacobians) {
    w.lambda.noalias() += w.full.C.transpose() * w.slope.s;
    out->U.col(t).noalias() += w.full.D.transpose() * w.slope.s;
  }
  if (options.forces) {
    out->qfrc.col(t) = w.vjp.qfrc;
    out->xfrc.col(t) = w.vjp.xfrc;
  }
  Limit(t);
  LookCloser(t, moving);
  w.moving.swap(moving);
  return true;
}

void Adjoint::Impl::Sweep::Run(ConstVectorRef x0) {
  *out = RolloutGradient();
  out->U.setZero(a.dims.nu, N);
  out->qfrc.setZero(options.forces ? a.dims.nv : 0, N);
  out->xfrc.setZero(options.forces ? 6 * a.model->nbody : 0, N);
  out->theta.setZero(options.parameters ? options.parameters->size() : 0);
  out->health.costate.setZero(N + 1);
  out->health.growth.setOnes(N);
  out->health.spectral_radius.setZero(options.spectral_radius ? N : 0);
  out->health.labels.resize(static_cast<std::size_t>(options.certify ? N : 0));
  out->health.crossing.resize(out->health.labels.size());
  w.kept.resize(a.dims.nx + a.moving_size, Slots());  // all of it is used
  w.x = x0;
  w.x_next.resize(a.dims.nx);
  w.s.setZero(loss.NeedsSensors() ? a.dims.ns : 0);

  EngineGuard guard(w.data.get());
  if ((a.model->opt.enableflags & mjENBL_SLEEP) || a.model->nplugin > 0) mj_resetData(a.model, w.data.get());
  SetContext(a.model, w.data.get(), a.context);
  const int slots = Slots();
  std::vector<int> kept = {0};
  Keep(0);
  bool good = true;
  for (int end = N; good && !kept.empty();) {
    const int begin = kept.back(), slot = static_cast<int>(kept.size()) - 1, room = slots - slot;
    Restart(slot, begin);
    if (end - begin == 1) {
      good = Pull(begin);
      kept.pop_back();
      end = begin;
    } else if (room == 1) {
      good = AdvanceTo(end - 1) && Pull(end - 1);
      end--;
    } else {
      kept.push_back(begin + NextCheckpoint(end - begin, room));
      good = AdvanceTo(kept.back());
      if (good) Keep(slot + 1);
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
  CheckWorker(worker, a.workers.size(), "adjoint");
  Impl::Worker& w = a.workers[static_cast<std::size_t>(worker)];
  if (!w.data) w.data = MakeData(a.model);
  Impl::Sweep(&a, &w, U, loss, options, out).Run(x0);
}

}  // namespace costate
