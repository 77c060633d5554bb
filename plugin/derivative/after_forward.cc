#include "derivative/after_forward.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/driven.h"
#include "core/joint.h"
#include "core/simd.h"

namespace costate {

namespace {

constexpr double kSummed = 1e-9;  // of the numbers in a sum: rounding leaves less

struct Span {
  const double* begin;
  std::ptrdiff_t size;
};

// what is looked at in one pass, since calls would take as long as the numbers do
struct Numbers {
  Span good[7];  // is none of them what the engine would call bad,
  const double *sum, *passive, *bias, *applied, *actuator;
  std::ptrdiff_t nv;  // does the sum have the engine's bits,
  Span zero;          // and are these zero?
};
enum { kGoodNumbers = 1, kSameSum = 2, kZeros = 4 };

// the last lanes overlap those before: what is looked at twice counts once
template <int kLanes, typename ByLanes, typename One>
__attribute__((always_inline)) inline void ForNumbers(std::ptrdiff_t n, ByLanes by_lanes, One one) {
  std::ptrdiff_t i = 0;
  if (n >= kLanes) {
    for (; i + kLanes < n; i += kLanes) by_lanes(i);
    by_lanes(n - kLanes);
  } else {
    for (; i < n; i++) one(i);
  }
}

template <int kRegister>
__attribute__((always_inline)) inline int LookAtOf(const Numbers& of) {
  constexpr int kLanes = std::min(kRegister, 4);  // most spans are short
  using Loose = typename Lanes<kLanes>::Loose;
  using Bits = typename Lanes<kLanes>::Bits;
  const Bits most = Bits{} + std::bit_cast<long long>(static_cast<double>(mjMAXVAL));
  Bits excess = {}, difference = {}, any = {};  // the first is negative where a number is too large, or none
  bool good = true, same = true, none = true;
  for (const Span& span : of.good) {
    ForNumbers<kLanes>(
        span.size,
        [&](std::ptrdiff_t i) __attribute__((always_inline)) {
          excess |= most - (*reinterpret_cast<const Bits*>(span.begin + i) & kNumberBits);
        },
        [&](std::ptrdiff_t i) { good &= std::abs(span.begin[i]) <= mjMAXVAL; });
  }
  ForNumbers<kLanes>(
      of.nv,
      [&](std::ptrdiff_t i) __attribute__((always_inline)) {
        Loose sum = *reinterpret_cast<const Loose*>(of.passive + i) - *reinterpret_cast<const Loose*>(of.bias + i);
        sum += *reinterpret_cast<const Loose*>(of.applied + i);
        sum += *reinterpret_cast<const Loose*>(of.actuator + i);
        sum -= *reinterpret_cast<const Loose*>(of.sum + i);
        difference |= reinterpret_cast<Bits>(sum);
      },
      [&](std::ptrdiff_t i) { same &= of.passive[i] - of.bias[i] + of.applied[i] + of.actuator[i] == of.sum[i]; });
  ForNumbers<kLanes>(
      of.zero.size,
      [&](std::ptrdiff_t i)
          __attribute__((always_inline)) { any |= *reinterpret_cast<const Bits*>(of.zero.begin + i); },
      [&](std::ptrdiff_t i) { none &= of.zero.begin[i] == 0; });
  for (int k = 0; k < kLanes; k++) {
    good &= excess[k] >= 0;
    same &= (difference[k] & kNumberBits) == 0;
    none &= (any[k] & kNumberBits) == 0;
  }
  return (good ? kGoodNumbers : 0) | (same ? kSameSum : 0) | (none ? kZeros : 0);
}

COSTATE_SIMD_LANES(int, LookAt, (const Numbers& of), LookAtOf, (of))

bool AreEqual(const double* x, const double* y, std::ptrdiff_t n) { return std::equal(x, x + n, y); }

bool IsNear(double value, double expected, double size) { return std::abs(value - expected) <= kSummed * size; }

// rows as the options make them
bool HasRowsOfOptions(const mjModel* m, const mjData* d) {
  if (d->nefc == 0) return AreEqual(d->qacc, d->qacc_smooth, m->nv);
  const int off = m->opt.disableflags;
  if ((off & mjDSBL_CONSTRAINT) || ((off & mjDSBL_CONTACT) && d->ncon > 0)) return false;
  if (((off & mjDSBL_EQUALITY) && d->ne > 0) || ((off & mjDSBL_FRICTIONLOSS) && d->nf > 0)) return false;
  if (mj_isSparse(m)) {
    const int last = d->nefc - 1;
    if (d->efc_J_rowadr[last] + d->efc_J_rownnz[last] != d->nJ) return false;
  } else if (d->nJ != d->nefc * m->nv) {
    return false;
  }
  const int other = m->opt.cone == mjCONE_ELLIPTIC ? mjCNSTR_CONTACT_PYRAMIDAL : mjCNSTR_CONTACT_ELLIPTIC;
  return d->efc_type[d->nefc - 1] != other;
}

// Steps end with the acceleration as the next warm start; where all is at rest what they leave is that of the same
// point.
bool MayBeAfterStep(const mjModel* m, const mjData* d) {
  return AreEqual(d->qacc, d->qacc_warmstart, m->nv) && (m->na > 0 || !mju_isZero(d->qvel, static_cast<int>(m->nv)));
}

// forces sum up, with those on bodies as they are now
bool HasAppliedForces(const mjModel* m, mjData* d, std::vector<double>* work) {
  const int nv = static_cast<int>(m->nv);
  work->assign(nv, 0);
  for (int b = 0; b < m->nbody; b++) {
    const mjtNum* xfrc = d->xfrc_applied + 6 * b;
    if (!std::all_of(xfrc, xfrc + 6, [](double x) { return std::abs(x) <= mjMAXVAL; })) return false;
    if (b > 0 && !mju_isZero(xfrc, 6)) mj_applyFT(m, d, xfrc, xfrc + 3, d->xipos + 3 * b, b, work->data());
  }
  for (int i = 0; i < nv; i++) {
    const double passive = d->qfrc_passive[i], bias = d->qfrc_bias[i], applied = d->qfrc_applied[i],
                 actuator = d->qfrc_actuator[i], push = (*work)[i];
    const double size = std::abs(passive) + std::abs(bias) + std::abs(applied) + std::abs(actuator) + std::abs(push);
    if (!IsNear(d->qfrc_smooth[i], passive - bias + applied + actuator + push, size)) return false;
  }
  return true;
}

// those of qfrc_applied are in their sum
bool HasGoodNumbersAndForces(const mjModel* m, mjData* d, std::vector<double>* work) {
  const int seen = LookAt({{{d->qpos, m->nq},
                            {d->qvel, m->nv},
                            {d->qacc, m->nv},
                            {d->act, m->na},
                            {d->ctrl, m->nu},
                            {d->mocap_pos, 3 * m->nmocap},
                            {d->mocap_quat, 4 * m->nmocap}},
                           d->qfrc_smooth,
                           d->qfrc_passive,
                           d->qfrc_bias,
                           d->qfrc_applied,
                           d->qfrc_actuator,
                           m->nv,
                           {d->xfrc_applied, 6 * m->nbody}});
  if (!(seen & kGoodNumbers)) return false;
  return ((seen & kSameSum) && (seen & kZeros)) || HasAppliedForces(m, d, work);
}

// does the body of this dof move against its parent as its dofs do?
bool HasVelocity(const mjModel* m, const mjData* d, int dof) {
  const int b = m->dof_bodyid[dof], begin = m->body_dofadr[b];
  const mjtNum *parent = d->cvel + 6 * m->body_parentid[b], *cvel = d->cvel + 6 * b;
  double rest[6], size = 0;
  for (int k = 0; k < 6; k++) rest[k] = cvel[k] - parent[k], size += std::abs(parent[k]);
  for (int j = begin; j < begin + m->body_dofnum[b]; j++) {
    const mjtNum* cdof = d->cdof + 6 * j;
    for (int k = 0; k < 6; k++) rest[k] -= cdof[k] * d->qvel[j], size += std::abs(cdof[k] * d->qvel[j]);
  }
  return std::all_of(rest, rest + 6, [&](double x) { return std::abs(x) <= kSummed * size; });
}

bool HasVelocities(const mjModel* m, const mjData* d) {
  for (int t = 0; t < m->ntree; t++) {
    const int first = m->tree_dofadr[t], last = first + m->tree_dofnum[t] - 1;
    if (!HasVelocity(m, d, first)) return false;
    if (m->dof_bodyid[first] != m->dof_bodyid[last] && !HasVelocity(m, d, last)) return false;
  }
  return true;
}

// of joints that actuators drive
bool HasLengths(const mjModel* m, const mjData* d) {
  for (int i = 0; i < m->nactuator; i++) {
    const int joint = m->actuator_trnid[2 * i];
    if (!ActsOnJoint(m, i) || !IsScalarJoint(m->jnt_type[joint])) continue;
    const int out = m->actuator_outadr[i];
    const double gear = m->actuator_gear[6 * out], length = d->qpos[m->jnt_qposadr[joint]] * gear,
                 velocity = d->qvel[m->jnt_dofadr[joint]] * gear;
    if (!IsNear(d->actuator_length[out], length, std::abs(length))) return false;
    if (!IsNear(d->actuator_velocity[out], velocity, std::abs(velocity))) return false;
  }
  return true;
}

bool HasPositions(const mjModel* m, const mjData* d) {
  for (int t = 0; t < m->ntree; t++) {
    const int j = m->dof_jntid[m->tree_dofadr[t]];  // where free joints are
    if (m->jnt_type[j] != mjJNT_FREE) continue;
    const mjtNum *q = d->qpos + m->jnt_qposadr[j], *quat = d->xquat + 4 * m->jnt_bodyid[j];
    if (!AreEqual(q, d->xpos + 3 * m->jnt_bodyid[j], 3)) return false;
    const double norm = mju_dot(q + 3, quat, 4);  // the engine's has been made 1
    for (int k = 0; k < 4; k++) {
      if (!IsNear(q[3 + k], norm * quat[k], norm)) return false;
    }
  }
  for (int b = 1; b < m->nbody && m->nmocap > 0; b++) {
    const int mocap = m->body_mocapid[b];
    if (mocap >= 0 && !AreEqual(d->mocap_pos + 3 * mocap, d->xpos + 3 * b, 3)) return false;
  }
  return true;
}

// calls f(contact, numbers of its cone's Hessian) for those that may have one
template <typename F>
void ForCones(const mjData* d, F f) {
  if (d->nefc == 0 || d->efc_type[d->nefc - 1] != mjCNSTR_CONTACT_ELLIPTIC) return;
  for (int i = 0; i < d->ncon; i++) f(d->contact[i], d->contact[i].dim * d->contact[i].dim);
}

}  // namespace

bool IsAfterForward(const mjModel* m, mjData* d, std::vector<double>* work) {
  if (m->opt.enableflags & mjENBL_SLEEP) return false;  // of a tree that sleeps nothing is up to date
  if (d->warning[mjWARN_CONTACTFULL].number > 0 || d->warning[mjWARN_CNSTRFULL].number > 0) return false;
  return HasRowsOfOptions(m, d) && !MayBeAfterStep(m, d) && HasGoodNumbersAndForces(m, d, work) && HasPositions(m, d) &&
         HasLengths(m, d) && HasVelocities(m, d);
}

void ForwardResults::SaveStates(const mjData* d) {
  states_.assign(d->efc_state, d->efc_state + d->nefc);
  has_numbers_ = false;
}

void ForwardResults::SaveNumbers(const mjData* d, int nv) {
  if (std::exchange(has_numbers_, true)) return;
  nv_ = nv;
  int cones = 0;
  ForCones(d, [&](const mjContact&, int size) { cones += size; });
  numbers_.resize(2 * nv + d->nefc + cones);
  double* to = std::copy_n(d->qacc, nv, numbers_.data());
  to = std::copy_n(d->qfrc_constraint, nv, to);
  to = std::copy_n(d->efc_force, d->nefc, to);
  ForCones(d, [&](const mjContact& contact, int size) { to = std::copy_n(contact.H, size, to); });
}

void ForwardResults::Restore(mjData* d) const {
  std::copy(states_.begin(), states_.end(), d->efc_state);
  if (!has_numbers_) return;
  const double* from = numbers_.data();
  const auto put_back = [&](double* to, std::size_t n) {
    std::copy_n(from, n, to);
    from += n;
  };
  put_back(d->qacc, nv_);
  put_back(d->qfrc_constraint, nv_);
  put_back(d->efc_force, states_.size());
  ForCones(d, [&](mjContact& contact, int size) { put_back(contact.H, size); });
}

}  // namespace costate
