#include "derivative/step_stencil.h"

#include <costate/state.h>

#include <algorithm>
#include <cmath>

#include "core/convergence.h"
#include "core/extremes.h"
#include "core/plugins.h"
#include "core/state_layout.h"
#include "derivative/equilibrium.h"

namespace costate {
namespace {

constexpr double kTolerance = 1e-20;  // below one rounding of the cost: on until it falls no more (0 would never stop)
constexpr double kSweepTolerance = 1e-24;  // a sweep from the point's solution gains the square of a small nudge
constexpr int kIterations = 100, kSweeps = 10000;           // of Newton and CG; of PGS
constexpr double kReadRounding = 1e-14;                     // of a sample between others
constexpr double kSweepRounding = 100 * 1.1e-16 * 1.1e-16;  // (D6)

bool IsMuscle(const mjModel* model, int actuator) { return model->actuator_dyntype[actuator] == mjDYN_MUSCLE; }

// offset of one component in mjSTATE_INTEGRATION: components lie in the order of their bits
int Address(const mjModel* model, int component) {
  return component == 1 ? 0 : mj_stateSize(model, mjSTATE_INTEGRATION & (component - 1));
}

// Where mj_differentiatePos ends: it takes a turn below 1e-15 for none, or for one about x.
void RotationQuotient(const mjtNum* q1, const mjtNum* q0, double h, mjtNum* velocity) {
  mjtNum back[4], turn[4];
  mju_negQuat(back, q0);
  mju_mulQuat(turn, back, q1);
  const double sine = mju_norm3(turn + 1);
  double angle = 2 * std::atan2(sine, turn[0]);
  if (angle > mjPI) angle -= 2 * mjPI;
  mju_scl3(velocity, turn + 1, sine > 0 ? angle / (sine * h) : 0);
}

// calls f(address) for each quaternion of a state whose qpos begins at `qpos`
template <typename F>
void ForTurns(const mjModel* m, int qpos, F f) {
  for (int j = 0; j < m->njnt; ++j) {
    const int type = m->jnt_type[j];
    if (type == mjJNT_FREE || type == mjJNT_BALL) f(qpos + m->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0));
  }
}

}  // namespace

void MoveColumn(const mjModel* model, const Dims& dims, int col, double eps, VectorXd* scratch, mjData* data) {
  if (col < dims.nv) {
    *scratch = VectorXd::Unit(dims.nv, col);
    mj_integratePos(model, data->qpos, scratch->data(), eps);
  } else if (col < 2 * dims.nv) {
    data->qvel[col - dims.nv] += eps;
  } else if (col < dims.ndx) {
    data->act[col - 2 * dims.nv] += eps;
  } else if (col < dims.ndx + dims.nu) {
    data->ctrl[col - dims.ndx] += eps;
  } else {
    const int force = col - dims.ndx - dims.nu;
    (force < dims.nv ? data->qfrc_applied[force] : data->xfrc_applied[force - dims.nv]) += eps;
  }
}

Midpoints::Midpoints(const mjModel* model)
    : signature_(PresentState(model, (kStateSignature | kMovingSignature) & ~mjSTATE_WARMSTART)),
      qpos_(mj_stateSize(model, signature_ & (mjSTATE_QPOS - 1))) {}

void Midpoints::Capture(const mjModel* engine, mjData* data, int substeps) {
  mjModel model = *engine;
  model.opt.disableflags |= mjDSBL_AUTORESET;
  model.opt.enableflags &= ~mjENBL_SLEEP;
  moves_.clear();
  points_.resize(static_cast<std::size_t>(std::max(0, substeps - 1)));
  for (VectorXd& point : points_) {
    mj_step(&model, data);
    point.resize(mj_stateSize(&model, signature_));
    mj_getState(&model, data, point.data(), signature_);
  }
}

void Midpoints::Compare(const mjModel* m, mjData* data) {
  moves_.clear();
  for (std::size_t k = 0; k < points_.size(); ++k) {
    mj_step(m, data);
    VectorXd& move = moves_.emplace_back(points_[k].size());
    mj_getState(m, data, move.data(), signature_);
    const VectorXd end = move;
    move = points_[k] - end;
    ForTurns(m, qpos_, [&](int at) {
      mjtNum back[4];
      mju_negQuat(back, end.data() + at);
      mju_mulQuat(move.data() + at, points_[k].data() + at, back);
    });
    GoOn(m, static_cast<int>(k), data);
  }
}

void Midpoints::GoOn(const mjModel* m, int k, mjData* data) const {
  if (k >= static_cast<int>(moves_.size())) return;
  const VectorXd& move = moves_[static_cast<std::size_t>(k)];
  end_.resize(move.size());
  mj_getState(m, data, end_.data(), signature_);
  next_ = end_ + move;
  ForTurns(m, qpos_, [&](int at) { mju_mulQuat(next_.data() + at, move.data() + at, end_.data() + at); });
  mj_setState(m, data, next_.data(), signature_);
}

void DifferenceModel::Refresh(const mjModel* model, bool converge) {
  local_ = *model;

  // an automatic reset in mid-difference would give finite garbage; a tree that falls asleep is another system
  local_.opt.disableflags |= mjDSBL_AUTORESET;
  local_.opt.enableflags &= ~mjENBL_SLEEP;

  // the minimum of the (strictly convex) constraint problem is the same for all three solvers; Newton gets there
  if (converge) {
    if (NewtonMayReplace(model)) local_.opt.solver = mjSOL_NEWTON;
    const bool sweeps = local_.opt.solver == mjSOL_PGS;
    SearchUntil(sweeps ? kSweepTolerance : kTolerance, sweeps ? kSweeps : kIterations, &local_.opt);
    local_.opt.disableflags &= ~mjDSBL_WARMSTART;
  }

  // clamps in arrays of our own; controls: muscles clip to [0, 1] whatever their range, a disabled clamp is none
  const int nu = static_cast<int>(model->nu), nactuator = static_cast<int>(model->nactuator);
  ctrl_limited_ = Eigen::Map<const Flags>(model->actuator_ctrllimited, nu);
  ctrl_range_ = Eigen::Map<const VectorXd>(model->actuator_ctrlrange, 2 * nu);
  if (model->opt.disableflags & mjDSBL_CLAMPCTRL) ctrl_limited_.setConstant(false);
  for (int i = 0; i < nactuator; ++i) {
    if (!IsMuscle(model, i)) continue;
    for (int j = model->actuator_ctrladr[i]; j < model->actuator_ctrladr[i] + model->actuator_ctrlnum[i]; ++j) {
      const double lower = ctrl_limited_[j] ? ctrl_range_[2 * j] : 0,
                   upper = ctrl_limited_[j] ? ctrl_range_[2 * j + 1] : 1;
      ctrl_limited_[j] = true;
      ctrl_range_[2 * j] = std::max(lower, 0.0);
      ctrl_range_[2 * j + 1] = std::min(upper, 1.0);
    }
  }
  act_limited_ = Eigen::Map<const Flags>(model->actuator_actlimited, nactuator);
  act_range_ = Eigen::Map<const VectorXd>(model->actuator_actrange, 2 * nactuator);
  local_.actuator_ctrllimited = ctrl_limited_.data();
  local_.actuator_ctrlrange = ctrl_range_.data();
  local_.actuator_actlimited = act_limited_.data();
  local_.actuator_actrange = act_range_.data();
}

void DifferenceModel::SearchToRounding(const mjData* data) {
  if (local_.opt.solver != mjSOL_PGS) return;
  double sum = 0;
  for (int i = 0; i < data->nefc; ++i)
    sum += data->efc_force[i] * data->efc_force[i] * (data->efc_diagA[i] + data->efc_R[i]);
  const double scale = local_.stat.meaninertia * std::max<double>(1, static_cast<double>(local_.nv));
  if (sum > 0) local_.opt.tolerance = std::min(kSweepTolerance, kSweepRounding * sum / scale);
}

void DifferenceModel::SkipSensors() {
  if (!MayReadReports(&local_)) local_.opt.disableflags |= mjDSBL_SENSOR;
}

void DifferenceModel::SelectActivationBranches(mjData* data, int substeps, const Midpoints* midpoints) {
  if (!act_limited_.any()) return;
  const int nactuator = static_cast<int>(local_.nactuator);
  was_limited_ = act_limited_;
  branch_.assign(nactuator, kUnknown);

  for (int k = 0; k < substeps; ++k) {
    // the unclamped next activations
    point_.resize(mj_stateSize(&local_, mjSTATE_INTEGRATION));
    mj_getState(&local_, data, point_.data(), mjSTATE_INTEGRATION);
    act_limited_.setConstant(false);
    mj_step(&local_, data);
    act_limited_ = was_limited_;
    for (int i = 0; i < nactuator; ++i) NoteBranch(i, data->act);

    // on to the next substep, clamped
    if (k + 1 == substeps) break;
    mj_setState(&local_, data, point_.data(), mjSTATE_INTEGRATION);
    mj_step(&local_, data);
    if (midpoints) midpoints->GoOn(&local_, k, data);
  }
  KeepActivationBranches();
}

void DifferenceModel::KeepActivationBranches() {
  if (!act_limited_.any()) return;
  for (int i = 0; i < static_cast<int>(local_.nactuator); ++i) {
    if (branch_[i] == kWithin) act_limited_[i] = false;
    if (branch_[i] == kBelow) act_range_[2 * i + 1] = act_range_[2 * i];
    if (branch_[i] == kAbove) act_range_[2 * i] = act_range_[2 * i + 1];
  }
}

void DifferenceModel::NoteBranch(int actuator, const mjtNum* act) {
  if (!was_limited_[actuator]) return;
  const int begin = local_.actuator_actadr[actuator], end = begin + local_.actuator_actnum[actuator];
  for (int a = begin; a < end; ++a) {
    const Branch branch = act[a] < act_range_[2 * actuator]       ? kBelow
                          : act[a] > act_range_[2 * actuator + 1] ? kAbove
                                                                  : kWithin;
    Branch& noted = branch_[actuator];
    noted = noted == kUnknown || noted == branch ? branch : kMixed;
  }
}

void DifferenceModel::ControlRange(int control, double* lower, double* upper) const {
  *lower = ctrl_limited_[control] ? ctrl_range_[2 * control] : -kInf;
  *upper = ctrl_limited_[control] ? ctrl_range_[2 * control + 1] : kInf;
}

StepStencil::StepStencil(const mjModel* model)
    : dims_(model), point_(mj_stateSize(model, mjSTATE_INTEGRATION)), nudge_(dims_.nv), midpoints_(model) {
  for (int i = 0; i < model->nactuator; ++i) {
    if (!IsMuscle(model, i)) continue;
    for (int k = 0; k < model->actuator_actnum[i]; ++k) muscle_act_.push_back(model->actuator_actadr[i] + k);
  }
  act_address_ = Address(model, mjSTATE_ACT);
  ctrl_address_ = Address(model, mjSTATE_CTRL);
  warmstart_address_ = Address(model, mjSTATE_WARMSTART);
}

void StepStencil::Capture(const mjModel* model, const mjData* data) {
  mj_getState(model, data, point_.data(), mjSTATE_INTEGRATION);
  reach_.assign(dims_.nu, {-kInf, kInf});
  delayed_.assign(dims_.nu, 0);
  for (int i = 0; i < model->nactuator; ++i)
    std::fill_n(delayed_.begin() + model->actuator_ctrladr[i], model->actuator_ctrlnum[i],
                model->actuator_delay[i] > 0);
  sides_.clear();
  midpoints_.Clear();
}

void StepStencil::CaptureConverged(DifferenceModel* model, mjData* data) {
  const mjModel* m = model->get();
  Capture(m, data);
  mj_forward(m, data);
  if (m->opt.solver == mjSOL_PGS) {
    model->SearchToRounding(data);
    mju_copy(data->qacc_warmstart, data->qacc, dims_.nv);
    mj_forward(m, data);
  }
  if (dims_.na > 0) ActivationSides(m, data, &sides_);
  point_.segment(warmstart_address_, dims_.nv) = Eigen::Map<const VectorXd>(data->qacc, dims_.nv);
}

void StepStencil::CaptureInterval(const mjModel* engine, int substeps, DifferenceModel* model, mjData* data) {
  if (substeps < 2) return CaptureConverged(model, data);
  Capture(model->get(), data);
  midpoints_.Capture(engine, data, substeps);
  Restore(engine, data, -1, 0);
  CaptureConverged(model, data);
  Restore(model->get(), data, -1, 0);
  midpoints_.Compare(model->get(), data);
  CaptureReads(*model, substeps, data);
}

void StepStencil::CaptureReads(const DifferenceModel& model, int substeps, mjData* data) {
  const mjModel* m = model.get();
  bool limited = false;
  for (int u = 0; u < dims_.nu; ++u) {
    double lower = -kInf, upper = kInf;
    model.ControlRange(u, &lower, &upper);
    limited = limited || (delayed_[u] && (lower > -kInf || upper < kInf));
  }
  if (!limited || substeps < 2) return;
  Restore(m, data, -1, 0);
  const double start = data->time, h = m->opt.timestep;
  for (int k = 1; k < substeps; ++k) {  // the first step reads before it stores
    mj_step(m, data);
    midpoints_.GoOn(m, k - 1, data);
    for (int i = 0; i < m->nactuator; ++i) {
      if (m->actuator_delay[i] == 0) continue;
      NoteReads(model, i, start, data->time, data);
      for (int stage = 1; stage < 3 && m->opt.integrator == mjINT_RK4; ++stage)
        NoteReads(model, i, start, data->time + stage * h / 2, data);
    }
  }
}

// (D1) what an actuator gets at a time is linear in the samples of its history, of which those since the start are the
// controls: their share brings it to an edge
void StepStencil::NoteReads(const DifferenceModel& model, int i, double start, double time, mjData* data) {
  const mjModel* m = model.get();
  const int n = m->actuator_history[2 * i], inputs = m->actuator_ctrlnum[i], interp = m->actuator_history[2 * i + 1];
  if (n == 0 || inputs == 0) return;
  const mjtNum* times = data->history + m->actuator_historyadr[i] + 2;
  Eigen::Map<MatrixXd> samples(data->history + m->actuator_historyadr[i] + 2 + n, inputs, n);
  VectorXd given(inputs), share(inputs);
  const auto read = [&](VectorXd* out) {
    const mjtNum* exact = mj_readCtrl(m, data, i, time, out->data(), interp);
    if (exact) *out = Eigen::Map<const VectorXd>(exact, inputs);
  };
  read(&given);
  const MatrixXd kept = samples;
  for (int k = 0; k < n; ++k) samples.col(k).setConstant(times[k] > start - m->opt.timestep / 2);
  read(&share);
  samples = kept;
  for (int input = 0; input < inputs; ++input) {
    const int u = m->actuator_ctrladr[i] + input;
    const double value = point_[ctrl_address_ + u], w = share[input];
    if (w == 0) continue;
    double edges[2];
    model.ControlRange(u, edges, edges + 1);
    for (int side = 0; side < 2; ++side) {
      const double edge = edges[side], way = (edge - given[input]) / w;
      if (!std::isfinite(way)) continue;
      // exactly there: within, as of a control
      const bool there = std::abs(edge - given[input]) <= kReadRounding * std::max(1.0, std::abs(edge));
      const bool up = there ? (w > 0) == (side == 1) : way > 0;
      double& limit = reach_[u][up];
      const double at = there ? value : value + way;
      limit = up ? std::min(limit, at) : std::max(limit, at);
    }
  }
}

void StepStencil::Restore(const mjModel* model, mjData* data, int col, double eps) const {
  mj_setState(model, data, point_.data(), mjSTATE_INTEGRATION);
  data->flg_energyvel = 0;  // else sensors of kinetic energy read that of another state
  if (col >= 0) MoveColumn(model, dims_, col, eps, &nudge_, data);
}

void StepStencil::RestoreAlong(const mjModel* model, mjData* data, ConstVectorRef direction, double eps) const {
  Restore(model, data, -1, 0);
  mj_integratePos(model, data->qpos, direction.data(), eps);
  Eigen::Map<VectorXd>(data->qvel, dims_.nv) += eps * direction.tail(dims_.nv);
}

void StepStencil::Step(const mjModel* model, mjData* data, int col, double eps, int substeps, VectorRef next,
                       VectorRef sensors) const {
  Restore(model, data, col, eps);
  for (int k = 0; k < substeps; ++k) {
    mj_step(model, data);
    if (k == 0 && sensors.size() > 0) sensors = Eigen::Map<const VectorXd>(data->sensordata, dims_.ns);
    midpoints_.GoOn(model, k, data);
  }
  mj_getState(model, data, next.data(), kStateSignature);
}

void StepStencil::Forward(const mjModel* model, mjData* data, int col, double eps, VectorRef sensors) const {
  Restore(model, data, col, eps);
  mj_forward(model, data);
  sensors = Eigen::Map<const VectorXd>(data->sensordata, dims_.ns);
}

// false where nothing clips the column
bool StepStencil::Range(const DifferenceModel& model, int col, double* value, double* lower, double* upper) const {
  if (col >= dims_.ndx + dims_.nu) return false;
  if (col >= dims_.ndx) {
    const int u = col - dims_.ndx;
    *value = point_[ctrl_address_ + u];
    model.ControlRange(u, lower, upper);
    if (delayed_[u]) {
      *lower = reach_[u][0];
      *upper = reach_[u][1];
    }
    return true;
  }
  const int act = col - 2 * dims_.nv;
  if (act < 0) return false;
  *value = point_[act_address_ + act];
  if (!sides_.empty() && sides_[act].held) {
    *lower = sides_[act].range[0];
    *upper = sides_[act].range[1];
    return true;
  }
  if (std::find(muscle_act_.begin(), muscle_act_.end(), act) == muscle_act_.end()) return false;
  *lower = 0;
  *upper = 1;
  return *value >= 0 && *value <= 1;
}

double StepStencil::Worth(const DifferenceModel& model, int col) const {
  if (col < 2 * dims_.nv || col >= dims_.ndx + dims_.nu) return 1;
  double value = 0, lower = -kInf, upper = kInf;
  Range(model, col, &value, &lower, &upper);
  if (col >= dims_.ndx) model.ControlRange(col - dims_.ndx, &lower, &upper);
  const double half = (upper - lower) / 2;
  return std::isfinite(half) ? half : std::max(1.0, std::abs(value));
}

bool StepStencil::OnEdge(const DifferenceModel& model, int col) const {
  double value = 0, lower = 0, upper = 0;
  return Range(model, col, &value, &lower, &upper) && (value == lower || value == upper);
}

Side StepStencil::ColumnSide(const DifferenceModel& model, int col, bool centered, double* eps) const {
  const Side free_side = centered ? Side::kCentered : Side::kForward;
  double value = 0, lower = -kInf, upper = kInf;
  if (!Range(model, col, &value, &lower, &upper)) return free_side;
  if (value < lower || value > upper) return Side::kNone;

  // a range narrower than the nudge
  if (upper - lower < 2 * *eps) *eps = (upper - lower) / 2;
  if (*eps == 0) return Side::kNone;
  const bool forward = value + *eps <= upper, backward = value - *eps >= lower;
  if (forward && backward) return free_side;
  return forward ? Side::kForward : Side::kBackward;
}

void StateQuotient(const mjModel* model, const Dims& dims, ConstVectorRef x1, ConstVectorRef x0, double h,
                   VectorRef column) {
  mj_differentiatePos(model, column.data(), h, x0.data(), x1.data());
  const int n = dims.nv + dims.na;
  column.tail(n) = (x1.tail(n) - x0.tail(n)) / h;
}

void FineStateQuotient(const mjModel* model, const Dims& dims, ConstVectorRef x1, ConstVectorRef x0, double h,
                       VectorRef column) {
  StateQuotient(model, dims, x1, x0, h, column);
  for (int j = 0; j < model->njnt; ++j) {
    const int type = model->jnt_type[j], lead = type == mjJNT_FREE ? 3 : 0, q = model->jnt_qposadr[j] + lead;
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    RotationQuotient(x1.data() + q, x0.data() + q, h, column.data() + model->jnt_dofadr[j] + lead);
  }
}

}  // namespace costate
