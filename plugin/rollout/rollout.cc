// Rollouts and derivatives along them. Each knot is restartable from (x, moving context), which is why knots can be
// linearized in any order by any worker with the same bits.
#include <costate/rollout.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <string>

#include "core/actuator_range.h"
#include "core/check.h"
#include "core/engine_guard.h"
#include "core/sensor_stages.h"
#include "derivative/actuation.h"
#include "rollout/check_trajectory.h"
#include "rollout/thread_pool.h"

namespace costate {
namespace {

// does a control or a force stand at a bound or beyond?
bool IsSaturated(const mjModel* m, const mjData* d, int i) {
  for (int j = m->actuator_ctrladr[i]; j < m->actuator_ctrladr[i] + m->actuator_ctrlnum[i]; ++j) {
    if (IsAtLimit(d->ctrl[j], ControlRange(m, j))) return true;
  }
  return IsForceAtLimit(m, d, i);
}

// those that are switched off act with nothing, whatever their controls
int SaturatedActuators(const mjModel* m, const mjData* d) {
  if (IsActuationOff(m)) return 0;
  int count = 0;
  for (int i = 0; i < m->nactuator; ++i) count += !IsActuatorDisabled(m, i) && IsSaturated(m, d, i);
  return count;
}

KnotDiagnostics Judge(const mjModel* m, const mjData* d) {
  KnotDiagnostics result;
  result.energy_potential = d->energy[0];
  result.energy_kinetic = d->energy[1];
  result.contacts = d->ncon;
  for (int i = 0; i < d->ncon; ++i) result.penetration = std::max(result.penetration, -d->contact[i].dist);

  // equality: |pos|; limit: pos < 0 is beyond it
  for (int i = 0; i < d->nefc; ++i) {
    const double pos = d->efc_pos[i];
    double violation = 0;
    if (d->efc_type[i] == mjCNSTR_EQUALITY) violation = std::abs(pos);
    if (d->efc_type[i] == mjCNSTR_LIMIT_JOINT || d->efc_type[i] == mjCNSTR_LIMIT_TENDON) violation = -pos;
    result.constraint_violation = std::max(result.constraint_violation, violation);
  }

  // the slowest island decides
  for (int i = 0; i < std::clamp(d->nisland, 1, mjNISLAND); ++i) {
    result.solver_iterations = std::max(result.solver_iterations, d->solver_niter[i]);
  }
  result.saturated_actuators = SaturatedActuators(m, d);
  return result;
}

}  // namespace

struct Simulator::Impl {
  // one a thread; made when first used
  struct Worker {
    DataPtr data;
    std::unique_ptr<Linearizer> linearizer;
    LinearizeOptions options;
    StepDerivative derivative;
    VectorXd u, dx, s;
  };

  Impl(const mjModel* model_, ConstVectorRef context_, int substeps_, int threads)
      : model(model_), dims(model_), context(context_), substeps(substeps_), pool(threads) {
    CheckStart(model, context, substeps);
    moving_size = mj_stateSize(model, kMovingSignature);
    moving = PresentState(model, kMovingSignature);
    workers.resize(static_cast<std::size_t>(pool.threads()));
  }

  Worker& Get(int index) {
    CheckWorker(index, workers.size(), "simulator");
    Worker& worker = workers[static_cast<std::size_t>(index)];
    if (!worker.data) {
      worker.data = MakeData(model);
      worker.u.setZero(dims.nu);
      worker.dx.setZero(dims.ndx);
    }
    return worker;
  }

  // sleep and plugins keep memory outside of the context: only a reset makes the start the same each time
  void Restart(mjData* data) const {
    if ((model->opt.enableflags & mjENBL_SLEEP) || model->nplugin > 0) mj_resetData(model, data);
    // a step leaves some of these alone, whatever an earlier motion has left there
    if (reading.model || (model->opt.disableflags & mjDSBL_SENSOR))
      mju_zero(data->sensordata, static_cast<int>(model->nsensordata));
    costate::SetContext(model, data, context);
  }

  void Resize(int N, Trajectory* out) const {
    out->X.resize(dims.nx, N + 1);
    out->U.resize(dims.nu, N);
    out->S.resize(dims.ns, N + 1);
    out->time.resize(N + 1);
    out->context.resize(moving_size, N + 1);
  }

  // what the next knot needs besides its state
  void Keep(const mjData* data, int t, Trajectory* out) const {
    mj_getState(model, data, out->context.col(t).data(), moving);
    out->time[t] = data->time;
  }

  void CheckControls(ConstVectorRef x0, ConstMatrixRef U) const {
    CheckSize(model, "x0", x0.size(), "nx", dims.nx);
    CheckSize(model, "a column of U", U.rows(), "nu", dims.nu);
    CheckFinite(model, "x0", x0, StateNames);
    if (U.allFinite()) return;
    for (int t = 0; t < U.cols(); ++t) {
      CheckFinite(model, "U", U.col(t), ControlNames, " at knot " + std::to_string(t));
    }
  }

  // columns after knot t repeat it, one control interval apart
  void RepeatFrom(int t, Trajectory* out) const {
    for (int i = t + 1; i <= out->N(); ++i) {
      out->X.col(i) = out->X.col(t);
      out->S.col(i) = out->S.col(t);
      out->context.col(i) = out->context.col(t);
      out->time[i] = out->time[i - 1] + substeps * model->opt.timestep;
    }
  }

  // controls that were computed, of a motion that fails at a knot: those after it repeat the last that a step took, or
  // are 0 where none did, and so is its own that is not finite
  static void RepeatControls(const RolloutStatus& status, Trajectory* out) {
    if (status.status == StepStatus::kOk || status.knot >= out->N()) return;
    const int t = status.knot;
    for (int i = out->U.col(t).allFinite() ? t + 1 : t; i < out->N(); ++i) {
      if (t > 0) {
        out->U.col(i) = out->U.col(t - 1);
      } else {
        out->U.col(i).setZero();
      }
    }
  }

  // the motion ends after N knots
  static void Cut(int N, Trajectory* out) {
    out->X.conservativeResize(Eigen::NoChange, N + 1);
    out->U.conservativeResize(Eigen::NoChange, N);
    out->S.conservativeResize(Eigen::NoChange, N + 1);
    out->time.conservativeResize(N + 1);
    out->context.conservativeResize(Eigen::NoChange, N + 1);
  }

  enum class Next { kGoOn, kLast, kGiveUp };

  // the loop of all rollouts: control(t) writes column t of out->U where it is not there yet; next(t) after t knots may
  // change column t of out->X
  template <typename Control, typename Decide>
  RolloutStatus Run(ConstVectorRef x0, int N, Worker& worker, Trajectory* out, Control control, Decide next) const {
    RefuseInCallback("a rollout of a Simulator");
    mjData* data = worker.data.get();
    EngineGuard guard(data);
    Restart(data);
    out->X.col(0) = x0;
    Keep(data, 0, out);
    for (int t = 0; t < N; ++t) {
      control(t);
      const StepStatus status =
          Step(Stepped(), data, out->X.col(t), out->U.col(t), substeps, out->X.col(t + 1), out->S.col(t));
      if (status != StepStatus::kOk) {
        RepeatFrom(t, out);
        return {status, t, guard.TakeWarnings()};
      }
      Keep(data, t + 1, out);
      const Next what = next(t + 1);
      if (what == Next::kGiveUp) return {StepStatus::kOk, t, guard.TakeWarnings(), true};
      if (what == Next::kLast) {
        N = t + 1;
        Cut(N, out);
      }
    }

    // sensors of the last state
    if (dims.ns == 0) return {StepStatus::kOk, -1, guard.TakeWarnings()};
    worker.u.setZero();
    const StepStatus status = Forward(Stepped(), data, out->X.col(N), worker.u, out->S.col(N));
    return {status, status == StepStatus::kOk ? -1 : N, guard.TakeWarnings()};
  }

  void CheckPush(ConstMatrixRef xfrc, int N) const {
    CheckSize(model, "a column of xfrc", xfrc.rows(), "6 nbody", 6 * static_cast<int>(model->nbody));
    CheckSize(model, "xfrc's columns", xfrc.cols(), "N", N);
    if (!xfrc.allFinite()) throw Error(ErrorCode::kInvalidArgument, "xfrc: a force is not finite");
  }
  static void Push(ConstMatrixRef xfrc, int t, mjData* data) {
    mju_copy(data->xfrc_applied, xfrc.col(t).data(), static_cast<int>(xfrc.rows()));
  }

  void CheckPolicy(const Policy& policy, int N) const;
  VectorXd StartOf(const Trajectory& reference, const Policy& policy, double alpha) const;
  RolloutStatus RunPolicy(ConstVectorRef x0, const Trajectory& reference, ConstMatrixRef gaps, const Policy& policy,
                          double alpha, ConstMatrixRef lower, ConstMatrixRef upper, Trajectory* out, int worker,
                          const RolloutCallback& callback);

  // with this worker's linearizer, made anew when the options change
  void LinearizeKnot(const Trajectory& trajectory, const LinearizeOptions& options, int t, Worker& worker,
                     StepDerivative* out) const {
    const int N = trajectory.N();
    LinearizeOptions wanted = options;
    wanted.substeps = substeps;
    if (!worker.linearizer || !(worker.options == wanted)) {
      worker.linearizer = std::make_unique<Linearizer>(derivative_model ? derivative_model : model, wanted);
      worker.linearizer->SetContext(context);
      worker.linearizer->SelectSensors(read_sensors);
      worker.options = wanted;
    }

    // at the last knot there is no control
    if (t == N && !wanted.sensors) {
      *out = StepDerivative();
      return;
    }
    worker.linearizer->SetMovingContext(trajectory.context.col(t));
    if (t < N) {
      worker.linearizer->Linearize(trajectory.X.col(t), trajectory.U.col(t), out);
    } else {
      worker.linearizer->LinearizeSensors(trajectory.X.col(N), out);
    }
  }

  // the model, or one that computes no sensors but those that were selected
  const mjModel* Stepped() const { return reading.model ? reading.model.get() : model; }

  const mjModel* model;
  struct {
    std::unique_ptr<mjModel> model;  // a shallow copy, or none, …
    std::vector<int> stages;         // … with these sensor_needstage
  } reading;
  const mjModel* derivative_model = nullptr;
  std::vector<char> read_sensors;  // entries of s; empty: all
  Dims dims;
  VectorXd context;
  int substeps;
  int moving_size = 0, moving = 0;  // of kMovingSignature: numbers; elements that the model has
  ThreadPool pool;
  std::vector<Worker> workers;
  StepDerivative last;  // of the last knot, which has other sizes
  int every = 1;
  std::vector<StepDerivative> keys;  // where every > 1
  std::function<bool()> stop;
  std::atomic<bool> stopped = false;
  bool IsStopped() {
    if (!stopped && stop && stop()) stopped = true;
    return stopped;
  }
  void LinearizeSome(const Trajectory& trajectory, const LinearizeOptions& options,
                     const std::function<void(int, int, StepDerivative*)>& use);
};

Simulator::Simulator(const mjModel* model, ConstVectorRef context, int substeps, int threads)
    : impl_(std::make_unique<Impl>(model, context, substeps, threads)) {}

Simulator::~Simulator() = default;

void Simulator::SetDerivativeModel(const mjModel* model) {
  if (model) CheckSameSizes(impl_->model, model);
  if (impl_->derivative_model == model) return;
  impl_->derivative_model = model;
  for (Impl::Worker& worker : impl_->workers) worker.linearizer.reset();
}

void Simulator::SelectSensors(const std::vector<char>& read) {
  if (!read.empty()) CheckSize(impl_->model, "marks of sensors", static_cast<int>(read.size()), "ns", impl_->dims.ns);
  impl_->read_sensors = read;
  if (impl_->reading.model) SkipUnselectedSensors(true);
  for (Impl::Worker& worker : impl_->workers) {
    if (worker.linearizer) worker.linearizer->SelectSensors(read);
  }
}

bool Simulator::SkipUnselectedSensors(bool skip) {
  impl_->reading.model.reset();
  impl_->reading.stages = skip ? StagesOfRead(impl_->model, impl_->read_sensors) : std::vector<int>();
  if (impl_->reading.stages.empty()) return false;
  impl_->reading.model = std::make_unique<mjModel>(*impl_->model);
  impl_->reading.model->sensor_needstage = impl_->reading.stages.data();
  return true;
}

void Simulator::SetDerivativeEvery(int every) {
  if (every < 1)
    throw Error(ErrorCode::kInvalidArgument,
                "derivatives at every " + std::to_string(every) + " knots: 1 or more is needed");
  impl_->every = every;
}

void Simulator::SetContext(ConstVectorRef context) {
  CheckSize(impl_->model, "context", context.size(), "context size", impl_->context.size());
  CheckFiniteContext(impl_->model, context);
  impl_->context = context;
  for (Impl::Worker& worker : impl_->workers) {
    if (worker.linearizer) worker.linearizer->SetContext(context);
  }
}

const mjModel* Simulator::model() const { return impl_->model; }

const Dims& Simulator::dims() const { return impl_->dims; }

int Simulator::substeps() const { return impl_->substeps; }

int Simulator::threads() const { return impl_->pool.threads(); }

double Simulator::knot_time() const { return impl_->substeps * impl_->model->opt.timestep; }

void Simulator::ParallelFor(int n, const std::function<void(int, int)>& job) { impl_->pool.ParallelFor(n, job); }

RolloutStatus Simulator::Rollout(ConstVectorRef x0, ConstMatrixRef U, Trajectory* out, int worker,
                                 const RolloutCallback& callback) {
  impl_->CheckControls(x0, U);
  const int N = static_cast<int>(U.cols());
  Impl::Worker& mine = impl_->Get(worker);
  impl_->Resize(N, out);
  out->U = U;
  return impl_->Run(
      x0, N, mine, out, [](int) {},
      [&](int t) { return !callback || callback(t) ? Impl::Next::kGoOn : Impl::Next::kLast; });
}

RolloutStatus Simulator::RolloutPushed(ConstVectorRef x0, ConstMatrixRef U, ConstMatrixRef xfrc, Trajectory* out,
                                       int worker) {
  impl_->CheckControls(x0, U);
  const int N = static_cast<int>(U.cols());
  impl_->CheckPush(xfrc, N);
  Impl::Worker& mine = impl_->Get(worker);
  impl_->Resize(N, out);
  out->U = U;
  return impl_->Run(
      x0, N, mine, out, [&](int t) { Impl::Push(xfrc, t, mine.data.get()); }, [](int) { return Impl::Next::kGoOn; });
}

RolloutStatus Simulator::RolloutFeedback(ConstVectorRef x0, int N, const Feedback& law, Trajectory* out, int worker,
                                         ConstMatrixRef xfrc) {
  CheckSize(impl_->model, "x0", x0.size(), "nx", impl_->dims.nx);
  CheckFinite(impl_->model, "x0", x0, StateNames);
  if (N < 0)
    throw Error(ErrorCode::kInvalidArgument,
                "N is " + std::to_string(N) + ", a rollout cannot have fewer than 0 knots");
  if (xfrc.size() > 0) impl_->CheckPush(xfrc, N);
  impl_->Resize(N, out);
  Impl::Worker& mine = impl_->Get(worker);
  mine.s.resize(law.NeedsSensors() ? impl_->dims.ns : 0);
  const auto control = [&](int t) {
    if (mine.s.size() > 0) {
      // a look that leaves no trace; where it fails the step does, too
      if (t == 0) mine.u.setZero();
      Forward(impl_->model, mine.data.get(), out->X.col(t), t == 0 ? ConstVectorRef(mine.u) : out->U.col(t - 1),
              mine.s);
      SetMovingContext(impl_->model, mine.data.get(), out->context.col(t));
    }
    law.Control({t, out->time[t], out->X.col(t), mine.s}, out->U.col(t));
    if (xfrc.size() > 0) Impl::Push(xfrc, t, mine.data.get());
  };
  RolloutStatus status = impl_->Run(x0, N, mine, out, control, [](int) { return Impl::Next::kGoOn; });
  Impl::RepeatControls(status, out);
  return status;
}

RolloutStatus Simulator::Follow(ConstMatrixRef X, ConstMatrixRef U, Trajectory* out, MatrixXd* gaps, int worker) {
  const mjModel* model = impl_->model;
  const Dims& dims = impl_->dims;
  const int N = static_cast<int>(U.cols());
  CheckSize(model, "a column of X", X.rows(), "nx", dims.nx);
  CheckSize(model, "X's columns", X.cols(), "N + 1", N + 1);
  CheckSize(model, "a column of U", U.rows(), "nu", dims.nu);
  for (int t = 0; t <= N; ++t) {
    const std::string where = " at knot " + std::to_string(t);
    if (!X.col(t).allFinite()) CheckFinite(model, "X", X.col(t), StateNames, where);
    if (t < N && !U.col(t).allFinite()) CheckFinite(model, "U", U.col(t), ControlNames, where);
  }
  impl_->Resize(N, out);
  out->U = U;
  gaps->setZero(dims.ndx, N);
  return impl_->Run(
      X.col(0), N, impl_->Get(worker), out, [](int) {},
      [&](int t) {
        Difference(model, out->X.col(t), X.col(t), gaps->col(t - 1));
        out->X.col(t) = X.col(t);
        return Impl::Next::kGoOn;
      });
}

RolloutStatus Simulator::RolloutPolicy(const Trajectory& reference, const Policy& policy, double alpha,
                                       ConstVectorRef lower, ConstVectorRef upper, Trajectory* out, int worker,
                                       const RolloutCallback& callback) {
  CheckTrajectory(impl_->model, reference);
  if (policy.dx0.size() == 0)
    return RolloutPolicy(reference.X.col(0), reference, policy, alpha, lower, upper, out, worker, callback);
  return RolloutPolicy(impl_->StartOf(reference, policy, alpha), reference, policy, alpha, lower, upper, out, worker,
                       callback);
}

RolloutStatus Simulator::RolloutPolicy(ConstVectorRef x0, const Trajectory& reference, const Policy& policy,
                                       double alpha, ConstVectorRef lower, ConstVectorRef upper, Trajectory* out,
                                       int worker, const RolloutCallback& callback) {
  CheckSize(impl_->model, "lower", lower.size(), "nu", impl_->dims.nu);
  CheckSize(impl_->model, "upper", upper.size(), "nu", impl_->dims.nu);
  return impl_->RunPolicy(x0, reference, MatrixXd(), policy, alpha, lower, upper, out, worker, callback);
}

RolloutStatus Simulator::RolloutGaps(const Trajectory& reference, ConstMatrixRef gaps, const Policy& policy,
                                     double alpha, ConstMatrixRef lower, ConstMatrixRef upper, Trajectory* out,
                                     int worker) {
  const int N = reference.N();
  for (const ConstMatrixRef* bounds : {&lower, &upper}) {
    CheckSize(impl_->model, "a column of the bounds", bounds->rows(), "nu", impl_->dims.nu);
    CheckSize(impl_->model, "the bounds' columns", bounds->cols(), "N", N);
  }
  CheckSize(impl_->model, "a gap", gaps.rows(), "ndx", impl_->dims.ndx);
  CheckSize(impl_->model, "the gaps' columns", gaps.cols(), "N", N);
  CheckTrajectory(impl_->model, reference);
  const VectorXd x0 = impl_->StartOf(reference, policy, alpha);
  return impl_->RunPolicy(x0, reference, gaps, policy, alpha, lower, upper, out, worker, {});
}

// x_bar_0 ⊕ alpha dx0; where that is no step, x_bar_0 to the last bit
VectorXd Simulator::Impl::StartOf(const Trajectory& reference, const Policy& policy, double alpha) const {
  if (policy.dx0.size() > 0) CheckSize(model, "policy: dx0", policy.dx0.size(), "ndx", dims.ndx);
  const VectorXd dx0 = alpha * policy.dx0;
  return dx0.isZero(0) ? VectorXd(reference.X.col(0)) : Retract(model, reference.X.col(0), dx0);
}

void Simulator::Impl::CheckPolicy(const Policy& policy, int N) const {
  const auto text = [](Eigen::Index rows, Eigen::Index cols) {
    return std::to_string(rows) + " x " + std::to_string(cols);
  };
  if (policy.k.rows() != dims.nu || policy.k.cols() != N || static_cast<int>(policy.K.size()) != N) {
    throw Error(ErrorCode::kDimensionMismatch,
                "policy: k is " + text(policy.k.rows(), policy.k.cols()) + " with " + std::to_string(policy.K.size()) +
                    " gains K, the reference has nu = " + std::to_string(dims.nu) + " and N = " + std::to_string(N));
  }
  for (int t = 0; t < N; ++t) {
    const MatrixXd& K = policy.K[static_cast<std::size_t>(t)];
    if (K.rows() == dims.nu && K.cols() == dims.ndx) continue;
    throw Error(ErrorCode::kDimensionMismatch, "policy: K of knot " + std::to_string(t) + " is " +
                                                   text(K.rows(), K.cols()) + ", model '" + ModelName(model) +
                                                   "' has nu x ndx = " + text(dims.nu, dims.ndx));
  }
}

// gaps: none, or one a knot; bounds: one column, or one a knot
RolloutStatus Simulator::Impl::RunPolicy(ConstVectorRef x0, const Trajectory& reference, ConstMatrixRef gaps,
                                         const Policy& policy, double alpha, ConstMatrixRef lower, ConstMatrixRef upper,
                                         Trajectory* out, int worker, const RolloutCallback& callback) {
  const int N = reference.N();
  CheckTrajectory(model, reference);
  CheckPolicy(policy, N);
  if (out == &reference) throw Error(ErrorCode::kInvalidArgument, "the rollout cannot overwrite its own reference");
  CheckSize(model, "x0", x0.size(), "nx", dims.nx);
  CheckFinite(model, "x0", x0, StateNames);

  Worker& mine = Get(worker);
  Resize(N, out);
  auto control = [&](int t) {
    // u = clamp(u_bar + alpha k + K (x ⊖ x_bar))
    Difference(model, out->X.col(t), reference.X.col(t), mine.dx);
    auto u = out->U.col(t);
    u = reference.U.col(t) + alpha * policy.k.col(t);
    u.noalias() += policy.K[static_cast<std::size_t>(t)] * mine.dx;
    const int at = lower.cols() > 1 ? t : 0;
    for (int i = 0; i < u.size(); ++i) u[i] = std::min(std::max(u[i], lower(i, at)), upper(i, at));  // a NaN stays
  };
  auto leave_gap = [&](int t) {
    if (gaps.cols() > 0 && alpha != 1 && !gaps.col(t - 1).isZero(0)) {
      mine.dx = -(1 - alpha) * gaps.col(t - 1);
      out->X.col(t) = Retract(model, out->X.col(t), mine.dx);
    }
    return !callback || callback(t) ? Next::kGoOn : Next::kGiveUp;
  };
  RolloutStatus status = Run(x0, N, mine, out, control, leave_gap);
  RepeatControls(status, out);
  return status;
}

void Simulator::Linearize(const Trajectory& trajectory, const LinearizeOptions& options,
                          std::vector<StepDerivative>* out) {
  CheckTrajectory(impl_->model, trajectory);
  out->resize(static_cast<std::size_t>(trajectory.N()) + 1);
  ParallelFor(trajectory.N() + 1, [&](int t, int index) {
    impl_->LinearizeKnot(trajectory, options, t, impl_->Get(index), &(*out)[static_cast<std::size_t>(t)]);
  });
}

void Simulator::SetStop(const std::function<bool()>& stop) { impl_->stop = stop; }

bool Simulator::LinearizeEach(const Trajectory& trajectory, const LinearizeOptions& options,
                              const std::function<void(int, int, StepDerivative*)>& use) {
  CheckTrajectory(impl_->model, trajectory);
  impl_->stopped = false;
  if (impl_->every > 1 && trajectory.N() > 0) {
    impl_->LinearizeSome(trajectory, options, use);
    return !impl_->stopped;
  }
  const auto job = [&](int t, int index) {
    if (impl_->IsStopped()) return;
    Impl::Worker& worker = impl_->Get(index);
    StepDerivative* derivative = t < trajectory.N() ? &worker.derivative : &impl_->last;
    impl_->LinearizeKnot(trajectory, options, t, worker, derivative);
    use(t, index, derivative);
  };
  ParallelFor(trajectory.N() + 1, std::ref(job));  // by reference: nothing is allocated
  return !impl_->stopped;
}

// knots 0, every, 2 every … N-1 and N; those between by interpolation
void Simulator::Impl::LinearizeSome(const Trajectory& trajectory, const LinearizeOptions& options,
                                    const std::function<void(int, int, StepDerivative*)>& use) {
  const int N = trajectory.N(), whole = (N - 1 + every - 1) / every;  // intervals between keys
  const auto knot = [&](int key) { return key <= whole ? std::min(key * every, N - 1) : N; };
  keys.resize(static_cast<std::size_t>(whole) + 1);
  pool.ParallelFor(whole + 2, [&](int key, int index) {
    if (IsStopped()) return;
    LinearizeKnot(trajectory, options, knot(key), Get(index),
                  key <= whole ? &keys[static_cast<std::size_t>(key)] : &last);
  });
  if (stopped) return;
  pool.ParallelFor(N + 1, [&](int t, int index) {
    if (t == N) return use(t, index, &last);
    const int key = std::min(t / every, std::max(0, whole - 1));
    const StepDerivative& a = keys[static_cast<std::size_t>(key)];
    const StepDerivative& b = keys[static_cast<std::size_t>(std::min(key + 1, whole))];
    const double s = knot(key) == t ? 0 : static_cast<double>(t - knot(key)) / (knot(key + 1) - knot(key));
    StepDerivative& derivative = Get(index).derivative;
    derivative.coverage = (s < 0.5 ? a : b).coverage;
    derivative.status = s < 1 && a.status != StepStatus::kOk ? a.status : s > 0 ? b.status : StepStatus::kOk;
    if (derivative.status == StepStatus::kOk) {
      for (MatrixXd StepDerivative::*matrix :
           {&StepDerivative::A, &StepDerivative::B, &StepDerivative::C, &StepDerivative::D}) {
        if (s == 0 || s == 1) {
          derivative.*matrix = (s == 0 ? a : b).*matrix;
        } else {
          derivative.*matrix = (1 - s) * a.*matrix + s * b.*matrix;
        }
      }
    }
    use(t, index, &derivative);
  });
}

std::vector<KnotDiagnostics> Simulator::Diagnose(const Trajectory& trajectory) {
  const int N = trajectory.N();
  CheckTrajectory(impl_->model, trajectory);

  // the same model with energies switched on: a shallow copy, the caller's stays as it is
  mjModel model = *impl_->model;
  model.opt.enableflags |= mjENBL_ENERGY;
  std::vector<KnotDiagnostics> result(static_cast<std::size_t>(N) + 1);
  ParallelFor(N + 1, [&](int t, int index) {
    Impl::Worker& worker = impl_->Get(index);
    mjData* data = worker.data.get();
    EngineGuard guard(data);
    impl_->Restart(data);
    SetMovingContext(&model, data, trajectory.context.col(t));
    if (t < N) {
      worker.u = trajectory.U.col(t);
    } else {
      worker.u.setZero();
    }
    VectorXd no_sensors;
    Forward(&model, data, trajectory.X.col(t), worker.u, no_sensors);
    KnotDiagnostics& knot = result[static_cast<std::size_t>(t)];
    knot = Judge(&model, data);
    if (t == N) knot.saturated_actuators = 0;  // u = 0 there is nobody's choice
  });
  return result;
}

}  // namespace costate
