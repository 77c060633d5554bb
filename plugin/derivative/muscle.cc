#include "derivative/muscle.h"

#include <costate/model.h>

#include <algorithm>
#include <cmath>

#include "core/actuator_range.h"
#include "derivative/actuation.h"
#include "derivative/munthe_kaas.h"
#include "derivative/plant.h"

namespace costate {

namespace {

// a muscle's force-length-velocity surface in normalized length and velocity
struct Muscle {
  double peak, unit_length, unit_velocity, L, V;
  const mjtNum* prm;

  Muscle(const mjModel* m, const mjData* d, int i, const mjtNum* parameters) : prm(parameters) {
    const int out = m->actuator_outadr[i];
    const mjtNum* range = m->actuator_lengthrange + 2 * out;
    peak = prm[2] < 0 ? prm[3] / std::max(mjMINVAL, m->actuator_acc0[out]) : prm[2];
    const double L0 = (range[1] - range[0]) / std::max(mjMINVAL, prm[1] - prm[0]);
    unit_length = std::max(mjMINVAL, L0);
    unit_velocity = std::max(mjMINVAL, L0 * prm[6]);
    L = prm[0] + (d->actuator_length[out] - range[0]) / unit_length;
    V = d->actuator_velocity[out] / unit_velocity;
  }

  // active force-length: four half parabolas through 0 at lmin, 1 at 1, 0 at lmax
  void Length(double* value, double* slope, double* turn) const {
    const double lmin = prm[4], lmax = prm[5], a = 0.5 * (lmin + 1), b = 0.5 * (1 + lmax);
    *value = *slope = *turn = 0;
    if (L < lmin || L > lmax) return;
    const auto bump = [&](double x, double width, double sign, bool inverted) {
      const double w = std::max(mjMINVAL, width);
      *value = inverted ? 1 - 0.5 * (x / w) * (x / w) : 0.5 * (x / w) * (x / w);
      *slope = PLANT("muscle: length", (inverted ? -1 : 1) * sign * x / (w * w));
      *turn = PLANT("muscle: turn of length", (inverted ? -1 : 1) / (w * w));
    };
    if (L <= a) bump(L - lmin, a - lmin, 1, false);
    else if (L <= 1) bump(1 - L, 1 - a, -1, true);
    else if (L <= b) bump(L - 1, b - 1, 1, true);
    else bump(lmax - L, lmax - b, -1, false);
  }

  void Velocity(double* value, double* slope, double* bend) const {
    const double fvmax = prm[8], y = fvmax - 1, w = std::max(mjMINVAL, y);
    *bend = 0;
    if (V <= -1) *value = *slope = 0;
    else if (V <= 0) *value = (V + 1) * (V + 1), *slope = PLANT("muscle: shortening", 2 * (V + 1)), *bend = 2;
    else if (V <= y)
      *value = fvmax - (y - V) * (y - V) / w, *slope = PLANT("muscle: lengthening", 2 * (y - V) / w),
      *bend = PLANT("muscle: bend of lengthening", -2 / w);
    else *value = fvmax, *slope = 0;
  }

  // to the nearest end of a piece of it, in the actuator's velocity
  double BendRoom() const {
    const double y = std::max(0.0, prm[8] - 1);
    return unit_velocity * std::min({std::abs(V + 1), std::abs(V), std::abs(V - y)});
  }

  // to the nearest end of a piece of its forces by length, in the actuator's length
  double TurnRoom() const {
    const double lmin = prm[4], lmax = prm[5];
    const auto to = [&](double end) { return std::abs(L - end); };
    return unit_length * std::min({to(lmin), to(0.5 * (lmin + 1)), to(1), to(0.5 * (1 + lmax)), to(lmax)});
  }

  // passive force: half quadratic beyond the optimum, then linear
  void Passive(double* value, double* slope, double* turn) const {
    const double b = 0.5 * (1 + prm[5]), w = std::max(mjMINVAL, b - 1), scale = -peak * prm[7];
    *turn = 0;
    if (L <= 1) *value = *slope = 0;
    else if (L <= b)
      *value = scale * 0.5 * (L - 1) * (L - 1) / (w * w), *slope = PLANT("muscle: passive", scale * (L - 1) / (w * w)),
      *turn = PLANT("muscle: turn of the passive force", scale / (w * w * unit_length * unit_length));
    else *value = scale * (0.5 + (L - b) / w), *slope = PLANT("muscle: passive line", scale / w);
    *slope /= unit_length;
  }
};

// act_dot of a muscle: (ctrl − act) / tau(ctrl − act, act), with the excess on the side given where it is zero
void MuscleRate(double ctrl, double act, double side, const mjtNum* prm, double* by_ctrl, double* by_act) {
  const double excess = std::clamp(ctrl, 0.0, 1.0) - act;
  const double s = 0.5 + 1.5 * std::clamp(act, 0.0, 1.0), s_slope = act >= 0 && act <= 1 ? 1.5 : 0;
  const double rise = prm[0] * s, fall = prm[1] / s, width = prm[2];

  // tau and its slopes by the excess and by s
  double weight = excess > 0 || (excess == 0 && side > 0) ? 1 : 0, weight_slope = 0;
  if (width >= mjMINVAL) {
    const double x = excess / width + 0.5;
    weight = x <= 0 ? 0 : x >= 1 ? 1 : x * x * x * (3 * x * (2 * x - 5) + 10);
    weight_slope = x <= 0 || x >= 1 ? 0 : 30 * x * x * (x - 1) * (x - 1) / width;
  }
  const double tau = std::max(mjMINVAL, fall + (rise - fall) * weight);
  const double tau_excess = PLANT("muscle: smoothed time constant", (rise - fall) * weight_slope);
  const double tau_s = weight * prm[0] - (1 - weight) * prm[1] / (s * s);
  const double rate = excess / tau, by_excess = (1 - rate * tau_excess) / tau;
  *by_ctrl = PLANT("muscle: rate by excitation", ctrl >= 0 && ctrl <= 1 ? by_excess : 0);
  *by_act = PLANT("muscle: rate by activation", -by_excess - rate * tau_s * s_slope / tau);
}

// the sides to which an excitation or activation may be nudged within [0, 1], and the share of each in their mean
struct Sides {
  int first, last;
  double share;
  explicit Sides(double value) : first(value <= 0 ? 1 : -1), last(value >= 1 ? -1 : 1), share(first < last ? 0.5 : 1) {}
};

// weighted sums of columns by control and by activation: mean of the sides to which the point may be nudged
struct MuscleChain {
  const mjtNum* prm;
  double h, ctrl, act;
  double excess[4], stage_act[4];
  double rate[2][4] = {}, move[2][4] = {};  // of act_dot and of the stage's activation, by control and by activation

  MuscleChain(double timestep, double control, double activation, const mjtNum* parameters)
      : prm(parameters), h(timestep), ctrl(control), act(activation) {
    double before = 0;
    for (int k = 0; k < 4; k++) {
      stage_act[k] = act + kStageWeight[k] * h * before;
      excess[k] = std::clamp(ctrl, 0.0, 1.0) - stage_act[k];
      if (OnKink(k)) stage_act[k] = std::clamp(ctrl, 0.0, 1.0);
      before = mju_muscleDynamics(ctrl, stage_act[k], prm);
    }
  }

  static constexpr double kEqual = 1e-13;  // rounding
  bool OnKink(int stage) const { return std::abs(excess[stage]) <= kEqual; }
  bool AnyKink() const { return OnKink(0) || OnKink(1) || OnKink(2) || OnKink(3); }

  void Columns() {
    for (const int column : {0, 1}) {
      const Sides sides(column == 0 ? ctrl : act);
      for (int sign = sides.first; sign <= sides.last; sign += 2) {
        const double dctrl = column == 0 ? sign : 0;
        double drate = 0;
        for (int k = 0; k < 4; k++) {
          const double dact = (column == 1 ? sign : 0) + kStageWeight[k] * h * drate;
          double by_ctrl, by_act;
          MuscleRate(ctrl, stage_act[k], dctrl - dact, prm, &by_ctrl, &by_act);
          drate = by_ctrl * dctrl + by_act * dact;
          rate[column][k] += sides.share * sign * drate;
          move[column][k] += sides.share * sign * dact;
        }
      }
    }
  }
};

}  // namespace

ForceGain MuscleGain(const mjModel* m, const mjData* d, int i) {
  const Muscle muscle(m, d, i, m->actuator_gainprm + mjNGAIN * i);
  const double length = muscle.unit_length, velocity = muscle.unit_velocity;
  double FL, dFL, ddFL, FV, dFV, ddFV;
  muscle.Length(&FL, &dFL, &ddFL);
  muscle.Velocity(&FV, &dFV, &ddFV);
  ForceGain gain{-muscle.peak * FL * FV};
  gain.by_length = PLANT("muscle: gain by length", -muscle.peak * dFL * FV / length);
  gain.by_velocity = PLANT("muscle: gain by velocity", -muscle.peak * FL * dFV / velocity);
  gain.bend_length = PLANT("muscle: bend by length", -muscle.peak * dFL * dFV / (length * velocity));
  gain.bend_velocity = PLANT("muscle: bend by velocity", -muscle.peak * FL * ddFV / (velocity * velocity));
  gain.turn_length = PLANT("muscle: turn by length", -muscle.peak * ddFL * FV / (length * length));
  return gain;
}

void MusclePassive(const mjModel* m, const mjData* d, int i, double* force, double* by_length, double* turn_length) {
  Muscle(m, d, i, m->actuator_biasprm + mjNBIAS * i).Passive(force, by_length, turn_length);
}

void MuscleRate(double ctrl, double act, const mjtNum* prm, double* by_ctrl, double* by_act) {
  double ctrl_slope[2], act_slope[2];
  for (int k = 0; k < 2; k++) MuscleRate(ctrl, act, k == 0 ? -1 : 1, prm, &ctrl_slope[k], &act_slope[k]);
  *by_ctrl = ctrl <= 0 ? ctrl_slope[1] : ctrl >= 1 ? ctrl_slope[0] : 0.5 * (ctrl_slope[0] + ctrl_slope[1]);
  *by_act = act <= 0 ? act_slope[0] : act >= 1 ? act_slope[1] : 0.5 * (act_slope[0] + act_slope[1]);
}

double MuscleBendRoom(const mjModel* m, const mjData* d, int i) {
  if (m->actuator_gaintype[i] != mjGAIN_MUSCLE) return mjMAXVAL;
  const Muscle muscle(m, d, i, m->actuator_gainprm + mjNGAIN * i);
  double FL, slope, turn;
  muscle.Length(&FL, &slope, &turn);
  return FL == 0 && slope == 0 ? mjMAXVAL : muscle.BendRoom();
}

double MuscleTurnRoom(const mjModel* m, const mjData* d, int i) {
  double room = mjMAXVAL;
  const auto look = [&](const mjtNum* prm) { room = std::min(room, Muscle(m, d, i, prm).TurnRoom()); };
  if (m->actuator_gaintype[i] == mjGAIN_MUSCLE) look(m->actuator_gainprm + mjNGAIN * i);
  if (m->actuator_biastype[i] == mjBIAS_MUSCLE) look(m->actuator_biasprm + mjNBIAS * i);
  return room;
}

MuscleStages StagesOfMuscle(const mjModel* m, int i, double ctrl, double act) {
  constexpr double kStill =
      1e-6;  // of a nudge of the activation: where a stage does not move with it, its slope says nothing
  const mjtNum* prm = m->actuator_dynprm + mjNDYN * i;
  MuscleChain chain(m->opt.timestep, ctrl, act, prm);
  MuscleStages stages;
  stages.excess = mjMAXVAL;
  const bool hard = prm[2] < mjMINVAL && chain.AnyKink();
  if (hard) chain.Columns();
  for (int k = 0; k < 4; k++) {
    stages.excess = std::min(stages.excess, std::abs(chain.excess[k]));
    double *by_ctrl = stages.rate_ctrl + k, *by_act = stages.rate_act + k;
    MuscleRate(ctrl, chain.stage_act[k], prm, by_ctrl, by_act);
    if (!hard || !chain.OnKink(k)) continue;

    // d act_dot = by_act dact + by_ctrl dctrl in both columns
    if (std::abs(chain.move[1][k]) > kStill) *by_act = chain.rate[1][k] / chain.move[1][k];
    *by_ctrl = chain.rate[0][k] - *by_act * chain.move[0][k];
  }
  return stages;
}

namespace {

// does its act_dot kink where control and activation are equal?
bool SwitchesHard(const mjModel* m, int i) {
  return m->actuator_dyntype[i] == mjDYN_MUSCLE && m->actuator_dynprm[mjNDYN * i + 2] < mjMINVAL &&
         !IsActuatorDisabled(m, i);
}

// What nudges of the control (column 0) or of the activation (1) do to the activation behind each step, to all sides to
// which they may go: numbers two apart.
void FollowNudges(const mjtNum* prm, double value, double step, int column, int steps, double* mean) {
  const Sides sides(value);
  for (int k = 0; k < steps; k++) mean[2 * k] = 0;
  for (int sign = sides.first; sign <= sides.last; sign += 2) {
    const double dctrl = column == 0 ? sign : 0;
    double dact = column == 1 ? sign : 0;
    for (int k = 0; k < steps; k++) {
      double by_ctrl, by_act;
      MuscleRate(value, value, dctrl - dact, prm, &by_ctrl, &by_act);
      dact += PLANT("interval: muscle at rest", step * (by_ctrl * dctrl + by_act * dact));
      mean[2 * k] += sides.share * sign * dact;
    }
  }
}

}  // namespace

bool KinkedMuscles::Set(const mjModel* m, const mjData* d, int stage, Eigen::MatrixXd* rate, std::string* missing) {
  constexpr double kEqual = 1e-13;  // of an activation: rounding
  if (stage == 0) kinks_.clear();
  for (int i = 0; i < m->nactuator && !IsActuationOff(m); i++) {
    const int act = m->actuator_actadr[i], u = m->actuator_ctrladr[i];
    if (!SwitchesHard(m, i)) continue;
    if (m->actuator_delay[i] > 0 || m->actuator_actearly[i]) {
      if (std::abs(d->act_dot[act]) * m->opt.timestep > kEqual) continue;
      *missing = ElementName(m, mjOBJ_ACTUATOR, i) + " turns from rising to falling in a stage of RK4";
      return false;
    }
    if (stage > 0) continue;
    const double ctrl = ClampedControl(m, d, i);
    Kink kink{act, u, StagesOfMuscle(m, i, ctrl, d->act[act])};
    if (kink.stages.excess > kEqual) continue;
    if (ctrl != d->ctrl[u]) std::fill_n(kink.stages.rate_ctrl, 4, 0.0);
    kinks_.push_back(kink);
  }
  const auto w = 2 * m->nv, ndx = w + m->na;
  for (const Kink& kink : kinks_) {
    (*rate)(kink.act, w + kink.act) = kink.stages.rate_act[stage];
    (*rate)(kink.act, ndx + kink.ctrl) = kink.stages.rate_ctrl[stage];
  }
  return true;
}

void RestingMuscles::Find(const mjModel* m, const mjData* d, int steps) {
  kinks_.clear();
  shift_.clear();
  if (m->opt.integrator == mjINT_RK4) return;
  for (int i = 0; i < m->nactuator && !IsActuationOff(m); i++) {
    if (!SwitchesHard(m, i) || m->actuator_actearly[i]) continue;
    const int adr = m->actuator_actadr[i], u = m->actuator_ctrladr[i];
    const double ctrl = ClampedControl(m, d, i), act = d->act[adr];
    const ActivationStep update = ActivationStepOf(m, i, 0);
    if (std::clamp(ctrl, 0.0, 1.0) != act || !update.Inside(act)) continue;
    kinks_.push_back({2 * static_cast<int>(m->nv) + adr, u, {0, 0}, shift_.size()});
    shift_.resize(shift_.size() + 2 * static_cast<std::size_t>(steps), 0);
    double* shift = shift_.data() + kinks_.back().first;
    const mjtNum* prm = m->actuator_dynprm + mjNDYN * i;
    if (ctrl == act && ctrl == d->ctrl[u]) FollowNudges(prm, act, update.step, 0, steps, shift);
    FollowNudges(prm, act, update.step, 1, steps, shift + 1);

    // what the chain of single steps makes of them: act' = a act + b ctrl
    const double b = shift[0], a = shift[1];
    double before[2] = {b, a};
    shift[0] = shift[1] = 0;
    for (int k = 1; k < steps; k++) {
      for (const int column : {0, 1}) {
        const double chained = a * before[column] + (column == 0 ? b : 0);
        before[column] = shift[2 * k + column];
        shift[2 * k + column] -= chained;
      }
    }
  }
}

void RestingMuscles::Add(int step, Eigen::MatrixXd* A, Eigen::MatrixXd* B) const {
  for (const Kink& kink : kinks_) {
    const double* shift = shift_.data() + kink.first + 2 * step;
    (*B)(kink.act, kink.ctrl) += shift[0];
    (*A)(kink.act, kink.act) += shift[1];
  }
}

void RestingMuscles::Pull(int step, const Eigen::Ref<const Eigen::VectorXd>& lambda) {
  for (Kink& kink : kinks_) {
    const double* shift = shift_.data() + kink.first + 2 * step;
    for (const int column : {0, 1}) kink.pulled[column] += shift[column] * lambda[kink.act];
  }
}

void RestingMuscles::AddPulled(Eigen::VectorXd* x, Eigen::VectorXd* u) const {
  for (const Kink& kink : kinks_) {
    (*u)[kink.ctrl] += kink.pulled[0];
    (*x)[kink.act] += kink.pulled[1];
  }
}

void RestingMuscles::Push(int step, const Eigen::Ref<const Eigen::MatrixXd>& dx,
                          const Eigen::Ref<const Eigen::MatrixXd>& du, Eigen::MatrixXd* next) const {
  for (const Kink& kink : kinks_) {
    const double* shift = shift_.data() + kink.first + 2 * step;
    next->row(kink.act) += shift[0] * du.row(kink.ctrl) + shift[1] * dx.row(kink.act);
  }
}

}  // namespace costate
