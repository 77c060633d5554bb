#include "derivative/tree_pull.h"

#include <algorithm>

#include "derivative/plant.h"
#include "derivative/spatial_lanes.h"

namespace costate {

namespace {

using Map6 = Eigen::Map<Vec6>;

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

// the loops over bodies, compiled for several instruction sets
struct Pass {
  const PullChain* chain;
  const int* group_end;
  PullBody* body;
  int nbody, nv;
  const double *S, *S_dot, *velocity, *inertia, *qvel;  // as the engine's
  const double *a, *y, *e, *z;                          // e, z: both or neither
};

// fields after a dof
__attribute__((always_inline)) inline void Advance(const Pass& pass, int j, Double4* field) {
  const Double4 along = {pass.a[j], pass.y[j], pass.z ? pass.e[j] : 0, pass.z ? pass.z[j] : 0}, rate = Double4{pass.qvel[j]};
  for (int k = 0; k < 6; k++) field[k] += pass.S[6 * j + k] * along + pass.S_dot[6 * j + k] * rate;
}

COSTATE_SIMD void UpBodies(const Pass& pass) {
  for (int b = 1; b < pass.nbody; b++) {
    PullBody& out = pass.body[b];
    const PullChain own = pass.chain[b];
    Double4 field[6], force[6];
    for (int k = 0; k < 6; k++) field[k] = pass.body[own.parent].field[k];
    for (int j = own.begin; j < own.end; j++) Advance(pass, j, field);

    // what the body's own forces contribute: I a + v ×* I v and I W
    const double *I = pass.inertia + 10 * b, *V = pass.velocity + 6 * b;
    double momentum[6], bias[6], W[6];
    Multiply(I, field, force);
    Multiply(I, V, momentum);
    Cross(V, momentum, bias);
    for (int k = 0; k < 6; k++) {
      out.field[k] = field[k];
      out.force[k] = PLANT("pull: inertia", force[k]);
      out.bias[k] = PLANT("pull: bias", bias[k]);
      W[k] = field[k][1];
    }

    // Bᵀ W, (R2): 2 ((u·h) α − h (u·α) + K (ω × α) + p × l), K = ½ tr J 1 − J, W = (α; l)
    const double *h = I + 6, *u = V + 3, *p = momentum + 3, half = 0.5 * (I[0] + I[1] + I[2]);
    const double uh = u[0] * h[0] + u[1] * h[1] + u[2] * h[2], ua = u[0] * W[0] + u[1] * W[1] + u[2] * W[2];
    double t[3];
    for (int k = 0; k < 3; k++) t[k] = V[(k + 1) % 3] * W[(k + 2) % 3] - V[(k + 2) % 3] * W[(k + 1) % 3];
    const double J[3] = {I[0] * t[0] + I[3] * t[1] + I[4] * t[2], I[3] * t[0] + I[1] * t[1] + I[5] * t[2],
                         I[4] * t[0] + I[5] * t[1] + I[2] * t[2]};
    for (int k = 0; k < 3; k++) {
      const int l = (k + 1) % 3, n = (k + 2) % 3;
      out.coriolis[k] =
          PLANT("pull: coriolis", 2 * (uh * W[k] - h[k] * ua + half * t[k] - J[k] + p[l] * W[3 + n] - p[n] * W[3 + l]));
    }
    out.loaded = out.constraint = false;
  }
}

// (R7), with the cross products moved from the axes to the sums, once for a group
COSTATE_SIMD void DownBodies(const Pass& pass, const TreeDerivative& tree, double* out) {
  for (int b = pass.nbody - 1; b > 0; b--) {
    const PullBody& body = pass.body[b];
    const PullChain own = pass.chain[b];
    const PullBody& parent = pass.body[own.parent];
    if (own.end > own.begin) {
      // F and I W, of M e likewise, meet the fields W and a: lanes change places
      Double4 sum[6], field[6];
      double V[6], Va[6] = {0}, G[6], push[6], rotation[3];
      for (int k = 0; k < 6; k++) {
        const Double4 force = body.force[k] + Double4{body.bias[k]};
        sum[k] = Double4{force[1], force[0], force[3], force[2]};
        G[k] = force[1];
        field[k] = parent.field[k];
        V[k] = pass.velocity[6 * own.parent + k];
        push[k] = 0;
      }
      for (int k = 0; k < 3; k++) push[k] = body.coriolis[k], rotation[k] = body.loaded ? body.load[k] : 0;
      if (body.constraint) {
        for (int k = 0; k < 6; k++) push[k] += body.v[k], Va[k] = tree.acceleration_field(own.parent)[k];
      }

      for (int j = own.begin; j < own.end;) {
        const int end = pass.group_end[j];
        Double4 cross[6];
        Cross(field, sum, cross);
        double rate[6], turning[6], axes[6], spin[6] = {0};
        Cross(V, G, rate);
        for (int k = 0; k < 6; k++) rate[k] = push[k] - rate[k];
        for (int k = 0; k < 3; k++) turning[k] = rotation[k], turning[3 + k] = 0;
        if (body.constraint) {
          Cross(Va, body.a, axes);
          for (int k = 0; k < 6; k++) turning[k] += body.q[k] + axes[k];
        }
        if (end - j > 1) {
          double group[6] = {0};
          for (int n = j; n < end; n++) {
            for (int k = 0; k < 6; k++) group[k] += pass.S[6 * n + k] * pass.qvel[n];
          }
          Cross(group, G, spin);
        }
        for (int n = j; n < end; n++) {
          const double *S = pass.S + 6 * n, *S_dot = pass.S_dot + 6 * n;
          Double4 dot = S[0] * cross[0];
          for (int k = 1; k < 6; k++) dot += S[k] * cross[k];
          double q = 0, v = 0;
          for (int k = 0; k < 6; k++) {
            q += S[k] * turning[k] - S_dot[k] * rate[k];
            v += S[k] * (push[k] - spin[k]) + 2 * S_dot[k] * G[k];
          }
          out[n] += PLANT("pull: q", dot[0] + dot[1] + q) - PLANT("pull: mass times e", dot[2] + dot[3]);
          out[pass.nv + n] -= PLANT("pull: v", v);
        }
        if (end == own.end) break;
        for (int n = j; n < end; n++) {
          Advance(pass, n, field);
          for (int k = 0; k < 6; k++) {
            V[k] += pass.S[6 * n + k] * pass.qvel[n];
            Va[k] += pass.S[6 * n + k] * pass.a[n];
          }
        }
        j = end;
      }
    }

    if (own.parent == 0) continue;
    PullBody& to = pass.body[own.parent];
    for (int k = 0; k < 6; k++) {
      to.force[k] += body.force[k];
      to.bias[k] += body.bias[k];
    }
    for (int k = 0; k < 3; k++) to.coriolis[k] += body.coriolis[k];
    if (body.loaded) {
      for (int k = 0; k < 3; k++) to.load[k] = body.load[k] + (to.loaded ? to.load[k] : 0);
      to.loaded = true;
    }
    if (body.constraint) {
      for (int k = 0; k < 6; k++) {
        to.q[k] = body.q[k] + (to.constraint ? to.q[k] : 0);
        to.a[k] = body.a[k] + (to.constraint ? to.a[k] : 0);
        to.v[k] = body.v[k] + (to.constraint ? to.v[k] : 0);
      }
      to.constraint = true;
    }
  }
}

Pass MakePass(const mjModel* m, const mjData* d, const TreeInput& input, const double* y, const double* z,
              const std::vector<PullChain>& chain, const std::vector<int>& group_end, std::vector<PullBody>* body) {
  return {chain.data(), group_end.data(), body->data(), static_cast<int>(m->nbody), static_cast<int>(m->nv), d->cdof,
          d->cdof_dot,  d->cvel,          d->cinert,    d->qvel,                    input.a,                 y,
          input.e,      z};
}

}  // namespace

TreePull::TreePull(const mjModel* m) : group_end_(m->nv), body_(m->nbody) {
  for (int b = 0; b < m->nbody; b++) {
    const int begin = m->body_dofnum[b] ? m->body_dofadr[b] : 0;
    chain_.push_back({m->body_parentid[b], begin, begin + m->body_dofnum[b]});
  }
  for (int j = 0; j < m->njnt; j++) {
    const int at = m->jnt_dofadr[j], type = m->jnt_type[j];
    const int singles = type == mjJNT_FREE ? 3 : type == mjJNT_BALL ? 0 : 1;
    for (int n = 0; n < singles; n++) group_end_[at + n] = at + n + 1;
    for (int n = 0; n < 3 && singles != 1; n++) group_end_[at + singles + n] = at + singles + 3;
  }
}

void TreePull::Start(const mjModel* m, const mjData* d, const TreeInput& input, const TreeDerivative& tree,
                     const BodyConstraint* constraint, const BodyConstraint* contact, const double* y, const double* z) {
  tree_ = &tree;
  velocity_ = d->cvel;
  std::fill_n(body_[0].field, 6, Double4{});
  for (int k = 0; k < 3 && input.gravity && !(m->opt.disableflags & mjDSBL_GRAVITY); k++) {
    body_[0].field[3 + k] = Double4{-m->opt.gravity[k]};
  }
  UpBodies(MakePass(m, d, input, y, z, chain_, group_end_, &body_));
  for (int b = 1; b < m->nbody; b++) {
    if (input.load) AddLoad(m, d, input.load + 6 * b, b);
    if (constraint && constraint[b].active) AddConstraint(constraint[b], b);
    if (contact && contact[b].active) {
      AddCovectors(b, PLANT("pull: turning contact", CrossForce(motion(b), contact[b].F)), Vec6::Zero(), Vec6::Zero());
      Map6(body_[b].bias) -= contact[b].F;
    }
  }
}

// (R5)
void TreePull::AddLoad(const mjModel* m, const mjData* d, const double* load, int b) {
  const Vec3 T = Vec3Map(load), G = Vec3Map(load + 3);
  if (T.isZero(0) && G.isZero(0)) return;
  PullBody& body = body_[b];
  const Vec6 W = motion(b);
  const Vec3 w = W.head<3>(), u = W.tail<3>();
  const Vec3 r = Vec3Map(d->xipos + 3 * b) - Vec3Map(d->subtree_com + 3 * m->body_rootid[b]);
  Eigen::Map<Vec3>(body.load) = PLANT("pull: load", r * G.dot(w) - G.dot(r) * w - T.cross(w) - G.cross(u));
  Map6 bias(body.bias);
  bias.head<3>() -= T + r.cross(G);
  bias.tail<3>() -= G;
  body.loaded = true;
}

// Pᵀ = Kᵀ − [Vᵃ ×*] HH − [Vᵛ ×*] Kvᵀ
void TreePull::AddConstraint(const BodyConstraint& con, int b) {
  const Vec6 W = motion(b), a = con.HH * W, v = con.Kv.transpose() * W;
  AddCovectors(b, PLANT("pull: constraint by q", con.K.transpose() * W) + PLANT("pull: turning wrench", CrossForce(W, con.F)),
               a, v);
  Map6(body_[b].bias) -= con.F;
}

Vec6 TreePull::motion(int b) const {
  Vec6 W;
  for (int k = 0; k < 6; k++) W[k] = body_[b].field[k][1];
  return W;
}

COSTATE_SIMD void TreePull::AddCovectors(int b, const Vec6& motion, const Vec6& a, const Vec6& v) {
  PullBody& body = body_[b];
  Lanes6 by_a = Lanes6::Load(a.data()), by_v = Lanes6::Load(v.data());
  Lanes6 q = Lanes6::Load(motion.data()) - CrossForce(Lanes6::Load(tree_->acceleration_field(b).data()), by_a) -
             CrossForce(Lanes6::Load(velocity_ + 6 * b), by_v);
  if (body.constraint) {
    q += Lanes6::Load(body.q);
    by_a += Lanes6::Load(body.a);
    by_v += Lanes6::Load(body.v);
  }
  q.Store(body.q);
  by_a.Store(body.a);
  by_v.Store(body.v);
  body.constraint = true;
}

void TreePull::Finish(const mjModel* m, const mjData* d, const TreeInput& input, const double* y, const double* z,
                      double* out) {
  DownBodies(MakePass(m, d, input, y, z, chain_, group_end_, &body_), *tree_, out);
}

}  // namespace costate
