// Sensors of level 2, (7) of README.md.
#include "derivative/residual_difference.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "derivative/adhesion.h"
#include "derivative/equilibrium.h"
#include "derivative/extrapolate.h"
#include "derivative/noslip.h"
#include "derivative/sensor.h"

namespace costate {

// r(a) into balance_, with the forces of constraints that the probe has
void ResidualDifference::Unbalanced(const mjModel* m, const VectorXd& a) {
  mjData* p = probe_.get();
  balance_.resize(dims_.nv);
  AppliedForce(m);
  if (IsDiscrete(m)) balance_ = discrete_;
  else mj_mulM(m, p, balance_.data(), a.data());
  for (int i = 0; i < dims_.nv; i++) {
    if (!IsDiscrete(m)) balance_[i] += p->qfrc_bias[i] - p->qfrc_passive[i];
    balance_[i] -= force_[i] + p->qfrc_actuator[i] + p->qfrc_constraint[i];
  }
}

// (7a) a ← a − H⁻¹ r(a), and the forces of constraints there. @pre ConstraintForce at a
void ResidualDifference::Balance(const mjModel* m, VectorXd* a) {
  mjData* p = probe_.get();
  Unbalanced(m, *a);
  forces_->solve(balance_.data());
  *a -= balance_;
  if (p->nefc == 0) return;

  // y goes by J da: made of J a once more it would have another rounding, which D magnifies
  step_y_.resize(p->nefc);
  mj_mulJacVec(m, p, step_y_.data(), balance_.data());
  y_ -= step_y_;
  active_.Force(p, y_.data(), p->efc_force, terms_.rows);
  mj_mulJacTVec(m, p, p->qfrc_constraint, p->efc_force);
}

// ConstraintForce for sensors: those that balance, and behind the noslip pass what it adds
bool ResidualDifference::SensedForce(const mjModel* m, const VectorXd& a) {
  if (!forces_) return ConstraintForce(m, a);
  VectorXd minimum = *forces_->a;
  if (column_ >= 0) minimum += offset_ * forces_->da->col(column_);
  if (!ConstraintForce(m, minimum)) return false;
  Balance(m, &minimum);
  mjData* p = probe_.get();
  if (!forces_->pass) {
    mju_copy(p->qacc, minimum.data(), dims_.nv);
    return true;
  }
  const NoslipPass& pass = *forces_->pass;
  for (int i = 0; i < p->nefc; i++) {
    const int captured = active_.captured(i), row = captured < 0 ? -1 : pass.rows().find(captured);
    if (row < 0 || row >= pass.rows().moving()) continue;
    p->efc_force[i] += pass.delta()[row];
    if (column_ >= 0) p->efc_force[i] += offset_ * pass.delta_slopes()(row, column_);
  }
  mj_mulJacTVec(m, p, p->qfrc_constraint, p->efc_force);

  // what the pass adds moves the dofs by M alone
  Unbalanced(m, a);
  mj_factorM(m, p);
  mj_solveM(m, p, p->qacc, balance_.data(), 1);
  for (int i = 0; i < dims_.nv; i++) p->qacc[i] = a[i] - p->qacc[i];
  return true;
}

ResidualDifference::SensorNeeds ResidualDifference::Needs(const mjModel* m, const int* stages, int begin, int end) {
  SensorNeeds needs;
  for (int i = begin; i < end; i++) {
    const int type = m->sensor_type[i];
    if (stages[i] == mjSTAGE_NONE) continue;
    needs.velocity = needs.velocity || stages[i] >= mjSTAGE_VEL;
    needs.acceleration = needs.acceleration || stages[i] >= mjSTAGE_ACC;
    switch (type) {
      case mjSENS_TOUCH:
      case mjSENS_FORCE:
      case mjSENS_TORQUE:
      case mjSENS_CONTACT:
      case mjSENS_TACTILE: needs.constraint = true; break;
      case mjSENS_PLUGIN:
      case mjSENS_USER:
        needs.constraint = true;
        needs.inputs = needs.inputs || stages[i] < mjSTAGE_ACC;
        break;
      case mjSENS_E_KINETIC: needs.constraint = needs.velocity = needs.kinetic = true; break;  // of the position stage
      case mjSENS_ACTUATORPOS:
      case mjSENS_ACTUATORVEL:
      case mjSENS_ACTUATORFRC:
      case mjSENS_JOINTACTFRC:
        needs.constraint = needs.constraint || HasAdhesiveActuator(m);
        break;  // its arm is made of contacts
      default: needs.constraint = needs.constraint || (type >= mjSENS_JOINTLIMITPOS && type <= mjSENS_TENDONLIMITFRC);
    }
  }
  return needs;
}

// value = sensordata at the probe's state and acceleration a, evaluated as far as the sensors read
bool ResidualDifference::EvaluateSensors(const mjModel* m, Stage stage, const VectorXd& a, VectorXd* value) {
  mjData* p = probe_.get();
  if (needs_.inputs) stage = kPosition;
  if (stage <= kPosition) {
    if (needs_.constraint) {
      ForwardPosition(m);
    } else {
      p->flg_energypos = 0;
      mj_fwdKinematics(m, p);
      mj_transmission(m, p);
    }
    mj_sensorPos(m, p);
  }
  if (stage <= kVelocity && needs_.velocity) {
    if (needs_.kinetic) {
      p->flg_energyvel = 0;
      mj_sensorPos(m, p);
    }
    mj_fwdVelocity(m, p);
    mj_sensorVel(m, p);
  }
  if (needs_.acceleration) {
    mj_fwdActuation(m, p);
    if (needs_.constraint && (forces_ || IsDiscrete(m)) && !ForceLimits(m)) return false;
    mju_copy(p->qacc, a.data(), dims_.nv);
    if (needs_.constraint && IsDiscrete(m)) {
      discrete_.resize(dims_.nv);
      DiscreteForce(m, p, a.data(), discrete_.data());
    }
    if (needs_.constraint && !SensedForce(m, a)) return false;
    p->flg_rnepost = 0;
    mj_sensorAcc(m, p);
  }
  *value = Eigen::Map<const VectorXd>(p->sensordata, dims_.ns);
  return true;
}

// no value is held; a distance is looked for no farther than its cutoff
void ResidualDifference::LiftCutoffs(mjModel* m) {
  cutoffs_.assign(m->sensor_cutoff, m->sensor_cutoff + m->nsensor);
  for (int i = 0; i < m->nsensor; i++) {
    if (HasCutoff(m, i) && m->sensor_type[i] != mjSENS_GEOMDIST) cutoffs_[i] = 0;
  }
  m->sensor_cutoff = cutoffs_.data();
}

bool ResidualDifference::EvaluateSensors(const mjModel* m, const VectorXd& a, const std::function<void(double*)>& solve,
                                         VectorXd* value) {
  const ForceChange balanced = {&a, nullptr, solve};
  forces_ = solve ? &balanced : nullptr;
  column_ = -1;
  terms_ = {};
  needs_ = Needs(m, m->sensor_needstage, 0, m->nsensor);
  mjModel free = *m;
  LiftCutoffs(&free);
  Restore(m);
  const bool done = EvaluateSensors(&free, kPosition, a, value);
  forces_ = nullptr;
  return done;
}

// the engine skips a sensor of no stage
mjModel ResidualDifference::OnlySensors(const mjModel* m, const std::vector<char>* wanted) {
  sensor_stages_.assign(m->sensor_needstage, m->sensor_needstage + m->nsensor);
  for (int i = 0; i < m->nsensor && wanted; i++) {
    if (!(*wanted)[i]) sensor_stages_[i] = mjSTAGE_NONE;
  }
  mjModel local = *m;
  local.sensor_needstage = sensor_stages_.data();
  terms_ = {};
  needs_ = Needs(m, sensor_stages_.data(), 0, m->nsensor);
  return local;
}

TermCoverage ResidualDifference::LeftToSteps(const mjModel* m, std::string* reason) const {
  return {"sensors", Level::kStep, NamesOfSensors(m, failed_) + ": " + std::exchange(*reason, "")};
}

bool ResidualDifference::SensorsByAcceleration(const mjModel* model, const mjData* d, const VectorXd& a, MatrixXd* out,
                                               std::string* reason, const std::vector<char>* wanted) {
  constexpr double kForceStep = 1e-4;  // of max(1, |a|): linear, but for friction within its cone; all else by any step
  constexpr double kShorter = 1.0 / 16;  // of stiff rows it may turn a force round, which touch sensors leave out …
  constexpr int kMostShorter = 5;
  constexpr double kStraight = 1e-4, kRounding = 1e-13;  // … as inner and outer points tell, by this much of a sensor
  forces_ = nullptr;
  mjModel local = OnlySensors(model, wanted);
  out->setZero(dims_.ns, dims_.nv);
  if (!needs_.acceleration) return true;
  const bool linear = !needs_.constraint;
  LiftCutoffs(&local);
  const mjModel* m = &local;
  Capture(m, d);
  Restore(m);
  column_ = -1;
  VectorXd moved = a;
  const auto at = [&](int k, int i, double h) {
    moved[i] = a[i] + k * h;
    return EvaluateSensors(m, kActuation, moved, &values_[k + 4]);
  };
  bool good = EvaluateSensors(m, kPosition, a, &values_[4]);
  const VectorXd* f = values_ + 4;
  const auto straight = [&] {
    for (int i = 0; i < m->nsensor; i++) {
      const int begin = m->sensor_adr[i], size = m->sensor_dim[i];
      if (size == 0) continue;
      const auto part = [&](int k) { return f[k].segment(begin, size); };
      const double apart = (part(1) - part(-1) - (part(2) - part(-2)) / 2).cwiseAbs().maxCoeff(),
                   most = (part(2) - part(-2)).cwiseAbs().maxCoeff();
      if (apart > kStraight * most + kRounding * part(0).cwiseAbs().maxCoeff()) return false;
    }
    return true;
  };
  for (int i = 0; i < dims_.nv && good; i++) {
    double h = std::max(1.0, std::abs(a[i])) * (linear ? 1 : kForceStep);
    good = at(-1, i, h) && at(1, i, h);
    if (linear) {
      out->col(i) = (f[1] - f[-1]) / (2 * h);
    } else {
      good = good && at(-2, i, h) && at(2, i, h);
      for (int k = 0; k < kMostShorter && good && !straight(); k++) {
        h *= kShorter;
        good = at(-1, i, h) && at(1, i, h) && at(-2, i, h) && at(2, i, h);
      }
      FivePoints(f, h, out->col(i));
    }
    moved[i] = a[i];
  }
  if (!good) *reason = "the active set of the point itself is not reproducible";

  // values without a cutoff tell what it holds
  for (int i = 0; i < model->nsensor; i++) {
    const int begin = model->sensor_adr[i];
    for (int row = begin; row < begin + model->sensor_dim[i]; row++) {
      if (HeldByCutoff(model, values_[4].data(), i, row)) out->row(row).setZero();
    }
  }
  return good;
}

// of kinematics alone, and those that forces of constraints reach, whose stencil is another one
bool ResidualDifference::Sensors(const mjModel* model, const mjData* d, const VectorXd& a, const MatrixXd& da,
                                 MatrixXd* out, std::string* reason, const std::vector<char>* wanted,
                                 const ForceChange* forces) {
  MatrixXd part, by_acceleration;
  out->setZero(dims_.ns, dims_.ndx + dims_.nu);
  bool done = true;
  for (const bool constraint : {false, true}) {
    std::vector<char> group(model->nsensor, 0);
    for (int i = 0; i < model->nsensor; i++) {
      group[i] = (!wanted || (*wanted)[i]) && ReadsForces(model, i) == constraint;
    }
    if (std::find(group.begin(), group.end(), 1) == group.end()) continue;
    // of kinematics they are linear in a: moved along da a reading that cancels would get the rounding of a
    cancelled_.setZero(dims_.ns);
    if (!constraint) {
      if (!SensorsByAcceleration(model, d, a, &by_acceleration, reason, &group)) return false;
      if (needs_.acceleration) out->noalias() += by_acceleration * da;
      cancelled_ = by_acceleration.cwiseAbs() * a.cwiseAbs();
    }
    forces_ = forces;
    const mjModel local = OnlySensors(model, &group);
    const mjModel* m = &local;
    smooth_ = !constraint;
    stiff_ = sensed_ = constraint;
    parts_.assign(dims_.ns, 1);
    if (constraint) parts_.assign(m->sensor_dim, m->sensor_dim + m->nsensor);  // each in units of its own
    const bool all = needs_.acceleration || needs_.inputs;
    last_column_ = all ? dims_.ndx + dims_.nu : needs_.velocity ? 2 * dims_.nv : dims_.nv;
    Capture(m, d);
    if (constraint) CaptureJumping(m, d);
    VectorXd moved;
    const auto evaluate = [&](Stage stage, VectorXd* value) {
      moved = a;
      if (constraint && column_ >= 0) moved += offset_ * da.col(column_);
      return EvaluateSensors(m, stage, moved, value);
    };
    if (Differences(m, evaluate, dims_.ns, &part, reason)) {
      *out += part;
      continue;
    }
    if (softened_) *reason = "forces of rows that the engine holds at its least R";
    failed_ = group;
    done = false;
  }
  return done;
}

}  // namespace costate
