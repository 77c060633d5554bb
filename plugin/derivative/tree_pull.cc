#include "derivative/tree_pull.h"

#include <algorithm>

#include "core/joint.h"
#include "derivative/plant.h"
#include "derivative/spatial_lanes.h"

namespace costate {

namespace {

// z = x ×* f, of numbers or of lanes
template <typename T>
__attribute__((always_inline)) inline void Cross(const T* x, const T* f, T* z) {
  z[0] = x[1] * f[2] - x[2] * f[1] + x[4] * f[5] - x[5] * f[4];
  z[1] = x[2] * f[0] - x[0] * f[2] + x[5] * f[3] - x[3] * f[5];
  z[2] = x[0] * f[1] - x[1] * f[0] + x[3] * f[4] - x[4] * f[3];
  z[3] = x[1] * f[5] - x[2] * f[4];
  z[4] = x[2] * f[3] - x[0] * f[5];
  z[5] = x[0] * f[4] - x[1] * f[3];
}

// z = I x, of numbers or of lanes; I as the engine's cinert
template <typename T>
__attribute__((always_inline)) inline void Multiply(const double* I, const T* x, T* z) {
  const double *h = I + 6, m = I[9];
  z[0] = I[0] * x[0] + I[3] * x[1] + I[4] * x[2] + h[1] * x[5] - h[2] * x[4];
  z[1] = I[3] * x[0] + I[1] * x[1] + I[5] * x[2] + h[2] * x[3] - h[0] * x[5];
  z[2] = I[4] * x[0] + I[5] * x[1] + I[2] * x[2] + h[0] * x[4] - h[1] * x[3];
  z[3] = m * x[3] - (h[1] * x[2] - h[2] * x[1]);
  z[4] = m * x[4] - (h[2] * x[0] - h[0] * x[2]);
  z[5] = m * x[5] - (h[0] * x[1] - h[1] * x[0]);
}

// fields after a dof
template <bool kSecond>
COSTATE_LANES void Advance(const PullPass& pass, int j, PullFields* fields) {
  const double a = pass.a[j], v = pass.qvel[j];
  const Double4 along = {a, pass.y[j], a, v}, turning = {v, 0, 0, 0};
  for (int k = 0; k < 6; k++) fields->first[k] += pass.S[6 * j + k] * along + pass.S_dot[6 * j + k] * turning;
  if (!kSecond) return;
  const Double4 along_second = {pass.e[j], pass.z[j], 0, 0};
  for (int k = 0; k < 6; k++) fields->second[k] += pass.S[6 * j + k] * along_second;
}

template <bool kSecond>
COSTATE_LANES void Copy(const PullFields& from, PullFields* to) {
  for (int k = 0; k < 6; k++) {
    to->first[k] = from.first[k];
    if (kSecond) to->second[k] = from.second[k];
  }
}

// (R2) Bᵀ W = 2 (u × (α × h) + K (ω × α) + p × l), K = ½ tr J 1 − J, of V = (ω; u), W = (α; l), p = lin(I V)
COSTATE_LANES Double4 CoriolisTransposed(const InertiaLanes& I, double half, const Lanes6& V, Double4 p,
                                         const Lanes6& W) {
  const Double4 turn = CrossLanes(V.a, W.a);
  return 2 * (CrossLanes(V.l, CrossLanes(W.a, I.h)) + half * turn - I.J * turn + CrossLanes(p, W.l));
}

template <bool kSecond>
COSTATE_LANES void UpBodiesOf(const PullPass& pass) {
  const double of_e = PLANT("pull: mass times e", -1.0);
  for (int b = 1; b < pass.nbody; b++) {
    PullBody& out = pass.body[b];
    const PullChain own = pass.chain[b];
    if (own.parent < 0) continue;
    const PullBody& parent = pass.body[own.parent];
    PullFields fields;
    Copy<kSecond>(parent.fields, &fields);
    Lanes6 W = parent.motion;
    for (int j = own.begin; j < own.end;) {
      if (j > own.begin) Copy<kSecond>(fields, pass.before + j);
      for (const int end = pass.group_end[j]; j < end; j++) {
        Advance<kSecond>(pass, j, &fields);
        W += pass.y[j] * Lanes6::Load(pass.S + 6 * j);
      }
    }
    Copy<kSecond>(fields, &out.fields);
    out.motion = W;

    // what the body's own forces contribute: I a + v ×* I v and I W, Bᵀ W
    const double *cinert = pass.inertia + 10 * b, half = 0.5 * (cinert[0] + cinert[1] + cinert[2]);
    const InertiaLanes I(cinert);
    const Lanes6 V = Lanes6::Load(pass.velocity + 6 * b), momentum = I * V;
    const Lanes6 bias = PLANT("pull: bias", CrossForce(V, momentum));
    const Lanes6 coriolis = {PLANT("pull: coriolis", CoriolisTransposed(I, half, V, momentum.l, W)), Double4{}};
    Double4 field[6], force[6], covector[6], more[6];
    Transpose(bias, Lanes6::Zero(), Lanes6::Zero(), Lanes6::Zero(), more);
    Transpose(Lanes6::Zero(), -coriolis, Lanes6::Zero(), Lanes6::Zero(), covector);
    for (int k = 0; k < 6; k++) {  // a, W, Σ S e and Wᵉ
      field[k] = fields.first[k];
      if (kSecond) field[k] = __builtin_shufflevector(field[k], fields.second[k], 0, 1, 4, 5);
    }
    Multiply(cinert, field, force);
    for (int k = 0; k < 6; k++) {
      if (kSecond) force[k] *= Double4{1, 1, of_e, of_e};
      out.force[k] = PLANT("pull: inertia", force[k]) + more[k];
      out.covector[k] = covector[k];
    }
  }
}

COSTATE_SIMD void UpBodies(const PullPass& pass) { pass.z ? UpBodiesOf<true>(pass) : UpBodiesOf<false>(pass); }

// (R7) of dofs begin … end at one place, with the cross products moved from their axes to the sums over the subtree.
// Each sum stays in its lane: moving it would take longer than a product
template <bool kSecond>
COSTATE_LANES void PullGroup(const PullPass& pass, const PullBody& body, const PullFields& before, int begin, int end,
                             double* out) {
  // a, W, Vᵃ and v meet G = I W, F, A and G; Σ S e and Wᵉ those of M e
  Double4 field[6], dual[6], by_axis[6], by_rate[6];
  for (int k = 0; k < 6; k++) {
    field[k] = before.first[k];
    dual[k] = __builtin_shufflevector(body.force[k], body.covector[k], 1, 0, 6, 1);
  }
  Cross(field, dual, by_axis);
  if (kSecond) {
    Double4 second[6], second_dual[6], by_second[6];
    for (int k = 0; k < 6; k++) {
      second[k] = before.second[k];
      second_dual[k] = __builtin_shufflevector(body.force[k], body.force[k], 3, 2, 1, 0);
    }
    Cross(second, second_dual, by_second);
    for (int k = 0; k < 6; k++) by_axis[k] += by_second[k];
  }

  // along the axes three terms of q; along their rates G of v, −B, nothing and v × G of q
  for (int k = 0; k < 6; k++) {
    const Double4 rate = __builtin_shufflevector(body.covector[k], by_axis[k], 0, 1, 2, 7);
    by_rate[k] = __builtin_shufflevector(rate, dual[k], 4, 1, 2, 3);
  }
  for (int n = begin; n < end; n++) {
    const double *S = pass.S + 6 * n, *S_dot = pass.S_dot + 6 * n;
    Double4 axis = {}, rate = {}, own = {};
    for (int k = 0; k < 6; k++) {
      axis += S[k] * by_axis[k];
      own += S[k] * body.covector[k];
      rate += S_dot[k] * by_rate[k];
    }
    const Double4 sum = __builtin_shufflevector(axis, rate, 0, 1, 2, 7);
    out[n] += PLANT("pull: q", (sum[0] + sum[2]) + (sum[1] + sum[3]) + (rate[1] + own[0]));
    out[pass.nv + n] += PLANT("pull: v", own[1] - 2 * rate[0]);
  }
  if (end - begin == 1) return;
  Double4 group[6] = {}, turn[6];
  for (int n = begin; n < end; n++) {
    for (int k = 0; k < 6; k++) group[k] += pass.S[6 * n + k] * Double4{pass.qvel[n], 0, 0, 0};
  }
  Cross(group, dual, turn);  // Σ_group S v × G
  for (int n = begin; n < end; n++) {
    Double4 by_group = {};
    for (int k = 0; k < 6; k++) by_group += pass.S[6 * n + k] * turn[k];
    out[pass.nv + n] += PLANT("pull: v within a group", by_group[0]);
  }
}

template <bool kSecond>
COSTATE_LANES void DownBodiesOf(const PullPass& pass, double* out) {
  for (int b = pass.nbody - 1; b > 0; b--) {
    const PullBody& body = pass.body[b];
    const PullChain own = pass.chain[b];
    if (own.parent < 0) continue;
    PullBody& parent = pass.body[own.parent];
    for (int j = own.begin, end; j < own.end; j = end) {
      end = pass.group_end[j];
      PullGroup<kSecond>(pass, body, j == own.begin ? parent.fields : pass.before[j], j, end, out);
    }

    if (own.parent == 0) continue;
    for (int k = 0; k < 6; k++) {
      parent.force[k] += body.force[k];
      parent.covector[k] += body.covector[k];
    }
  }
}

COSTATE_SIMD void DownBodies(const PullPass& pass, double* out) {
  pass.z ? DownBodiesOf<true>(pass, out) : DownBodiesOf<false>(pass, out);
}

}  // namespace

TreePull::TreePull(const mjModel* m) : group_end_(m->nv), body_(m->nbody), before_(m->nv) {
  for (int b = 0; b < m->nbody; b++) {
    const int begin = m->body_dofnum[b] ? m->body_dofadr[b] : 0;
    // what rests is as the world is, and left out
    const bool rests = m->body_weldid[b] == 0;
    const int parent = m->body_weldid[m->body_parentid[b]] == 0 ? 0 : m->body_parentid[b];
    chain_.push_back({rests ? -1 : parent, begin, begin + m->body_dofnum[b]});
    body_[b].motion = Lanes6::Zero();
  }
  for (int i = 0; i < m->nv; i++) group_end_[i] = GroupEnd(m, i);
}

void TreePull::Start(const mjModel* m, const mjData* d, const TreeInput& input, const TreeDerivative& tree,
                     const BodyConstraint* constraint, const BodyConstraint* contact, const double* y,
                     const double* z) {
  tree_ = &tree;
  body_[0].fields = PullFields();
  body_[0].motion = Lanes6::Zero();
  for (int k = 0; k < 3 && input.gravity && !(m->opt.disableflags & mjDSBL_GRAVITY); k++) {
    body_[0].fields.first[3 + k] = Double4{-m->opt.gravity[k]};
  }
  pass_ = {chain_.data(),
           group_end_.data(),
           body_.data(),
           before_.data(),
           static_cast<int>(m->nbody),
           static_cast<int>(m->nv),
           d->cdof,
           d->cdof_dot,
           d->cvel,
           d->cinert,
           d->qvel,
           input.a,
           y,
           input.e,
           z};
  UpBodies(pass_);
  for (int b = 1; b < m->nbody; b++) {
    if (chain_[b].parent < 0) continue;
    if (input.load) AddLoad(m, d, input.load + 6 * b, b);
    if (constraint && constraint[b].active) AddConstraint(constraint[b], b);
    if (contact && contact[b].active) AddContact(contact[b].F, b);
  }
}

namespace {

COSTATE_LANES void SubtractForce(const Lanes6& F, PullBody* body) {
  Double4 force[6];
  Transpose(F, Lanes6::Zero(), Lanes6::Zero(), Lanes6::Zero(), force);
  for (int k = 0; k < 6; k++) body->force[k] -= force[k];
}

COSTATE_LANES void AddCovector(const Lanes6& q, const Lanes6& v, const Lanes6& a, PullBody* body) {
  Double4 covector[6];
  Transpose(q, -v, a, Lanes6::Zero(), covector);
  for (int k = 0; k < 6; k++) body->covector[k] += covector[k];
}

}  // namespace

// (R5)
COSTATE_SIMD void TreePull::AddLoad(const mjModel* m, const mjData* d, const double* load, int b) {
  const Double4 T = {load[0], load[1], load[2], 0}, G = {load[3], load[4], load[5], 0};
  const double *xipos = d->xipos + 3 * b, *com = d->subtree_com + 3 * m->body_rootid[b];
  const Double4 r = {xipos[0] - com[0], xipos[1] - com[1], xipos[2] - com[2], 0};
  PullBody& body = body_[b];
  const Double4 w = body.motion.a, u = body.motion.l;
  const Double4 turned =
      PLANT("pull: load", r * DotLanes(G, w) - DotLanes(G, r) * w - CrossLanes(T, w) - CrossLanes(G, u));
  AddCovector({turned, Double4{}}, Lanes6::Zero(), Lanes6::Zero(), &body);
  SubtractForce({T + CrossLanes(r, G), G}, &body);
}

// Pᵀ = Kᵀ − [Vᵃ ×*] HH − [Vᵛ ×*] Kvᵀ
COSTATE_SIMD void TreePull::AddConstraint(const BodyConstraint& con, int b) {
  const Lanes6 &W = body_[b].motion, F = Lanes6::Load(con.F.data());
  const Mat6 Kt = con.K.transpose(), Kvt = con.Kv.transpose();
  AddCovectors(b, PLANT("pull: constraint by q", Times(Kt, W)) + PLANT("pull: turning wrench", CrossForce(W, F)),
               Times(con.HH, W), Times(Kvt, W));
  SubtractForce(F, &body_[b]);
}

COSTATE_SIMD void TreePull::AddContact(const Vec6& wrench, int b) {
  const Lanes6 F = Lanes6::Load(wrench.data());
  const Lanes6 turned = PLANT("pull: turning contact", CrossForce(body_[b].motion, F));
  AddCovector(turned, Lanes6::Zero(), Lanes6::Zero(), &body_[b]);
  SubtractForce(F, &body_[b]);
}

COSTATE_SIMD void TreePull::AddCovectors(int b, const Lanes6& motion, const Lanes6& a, const Lanes6& v) {
  const TreeDerivative::Field& field = tree_->field(b);
  AddCovector(motion - CrossForce(field.va, a) - CrossForce(field.v, v), v, a, &body_[b]);
}

void TreePull::Finish(double* out) { DownBodies(pass_, out); }

}  // namespace costate
