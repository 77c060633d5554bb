// The motion there, and there again: binomial checkpoints of (x, moving context).
#include <algorithm>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "derivative/delayed.h"
#include "rollout/adjoint_sweep.h"
#include "rollout/check_trajectory.h"
#include "rollout/checkpoint.h"
#include "rollout/gradient_health.h"

namespace costate {
namespace {

// which constraints act and how (within, at its bound, slipping), as a number: equal for equal sets. By their forces:
// where no row acts the engine may leave efc_state unwritten.
std::uint64_t ActiveSet(const mjModel* m, const mjData* d) {
  std::uint64_t hash = 1469598103934665603u;
  const auto add = [&](int value) { hash = (hash ^ static_cast<std::uint32_t>(value)) * 1099511628211u; };
  for (int i = 0; i < d->nefc; i++) {
    if (d->efc_force[i] == 0) continue;
    const int id = d->efc_id[i];
    const bool contact = d->efc_type[i] >= mjCNSTR_CONTACT_FRICTIONLESS;
    add(d->efc_type[i]);
    add(d->efc_state[i]);
    add(contact ? d->contact[id].geom[0] * m->ngeom + d->contact[id].geom[1] : id);
  }
  return hash;
}

}  // namespace

AdjointSetting::AdjointSetting(const mjModel* model_, ConstVectorRef context_, int substeps_)
    : model(model_), dims(model_), context(context_), substeps(substeps_) {
  CheckStart(model, context, substeps);
  CheckHandsOnNothing(model, false);
  delays = model->nhistory > 0;
  const std::string missing = DelayMissing(model);
  if (!missing.empty()) {
    throw Error(ErrorCode::kUnsupported,
                "model '" + ModelName(model) + "' has no gradient through rollouts: " + missing);
  }
  moving_size = mj_stateSize(model, kMovingSignature);
  warm_start = mj_stateSize(model, kMovingSignature & (mjSTATE_WARMSTART - 1));
  const int integrator = model->opt.integrator;
  const bool implicit = integrator == mjINT_IMPLICIT || integrator == mjINT_IMPLICITFAST;
  warm_step = substeps == 1 && !delays && (integrator == mjINT_EULER || implicit);
}

bool AdjointSweep::Fail(StepStatus status, int knot) {
  out->status.status = status;
  out->status.knot = knot;
  out->loss = kInf;
  return false;
}

// how many states there is room for
int AdjointSweep::Slots() const {
  if (options.memory == 0) return N;
  const std::size_t one = sizeof(double) * static_cast<std::size_t>(a.dims.nx + a.moving_size + Sensors());
  return static_cast<int>(std::clamp<std::size_t>(options.memory / one, 1, static_cast<std::size_t>(N)));
}

void AdjointSweep::Keep(int to) {
  auto column = w.kept.col(to);
  column.head(a.dims.nx) = w.x;
  mj_getState(a.model, w.data.get(), column.data() + a.dims.nx, kMovingSignature);
  w.sensed[static_cast<std::size_t>(to)] = 0;
  slot = to;
  out->kept_bytes = std::max(out->kept_bytes, sizeof(double) * static_cast<std::size_t>(column.size() * (to + 1)));
}

// the step that leaves a knot has its sensors
void AdjointSweep::KeepSensors() {
  if (slot < 0) return;
  w.kept.col(slot).tail(Sensors()) = w.s;
  w.sensed[static_cast<std::size_t>(slot)] = 1;
}

bool AdjointSweep::FindSensors(int from) {
  if (from < 0 || !w.sensed[static_cast<std::size_t>(from)]) return false;
  w.s = w.kept.col(from).tail(Sensors());
  return true;
}

void AdjointSweep::Restart(int from, int knot) {
  slot = from;
  if (at == knot) return;
  w.x = w.kept.col(from).head(a.dims.nx);
  SetContext(a.model, w.data.get(), a.context);
  SetMovingContext(a.model, w.data.get(), w.kept.col(from).segment(a.dims.nx, a.moving_size));
  at = knot;
}

bool AdjointSweep::AdvanceTo(int knot) {
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

void AdjointSweep::Run(ConstVectorRef x0) {
  *out = RolloutGradient();
  out->U.setZero(a.dims.nu, N);
  const int columns = loss.NeedsSensors() ? N + 1 : N;
  out->qfrc.setZero(options.forces ? a.dims.nv : 0, columns);
  out->xfrc.setZero(options.forces ? 6 * a.model->nbody : 0, columns);
  out->theta.setZero(options.parameters ? options.parameters->size() : 0);
  out->weights.setZero(options.feedback ? options.feedback->weights() : 0);
  out->health.costate.setZero(N + 1);
  out->health.growth.setOnes(N);
  out->health.spectral_radius.setZero(options.spectral_radius ? N : 0);
  out->health.labels.resize(static_cast<std::size_t>(options.certify ? N : 0));
  out->health.crossing.resize(out->health.labels.size());
  w.kept.resize(a.dims.nx + a.moving_size + Sensors(), Slots());  // all of it is used
  w.sensed.assign(static_cast<std::size_t>(Slots()), 0);
  w.x = x0;
  first = x0.data();
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

}  // namespace costate
