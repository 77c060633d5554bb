#include "derivative/tree_derivative.h"

#include "derivative/plant.h"

namespace costate {

TreeDerivative::TreeDerivative(const mjModel* model) {
  const int nv = static_cast<int>(model->nv), nbody = static_cast<int>(model->nbody);
  body_.resize(nbody);
  dof_.resize(nv);
  left_.resize(nv);
  right_.resize(nv);
  group_.resize(nv);
  group_end_.resize(nv);
  for (int j = 0; j < model->njnt; j++) {
    const int at = model->jnt_dofadr[j], type = model->jnt_type[j];
    const int singles = type == mjJNT_FREE ? 3 : type == mjJNT_BALL ? 0 : 1;
    for (int n = 0; n < singles; n++) group_[at + n] = at + n, group_end_[at + n] = at + n + 1;
    if (type == mjJNT_FREE || type == mjJNT_BALL) {
      for (int n = 0; n < 3; n++) group_[at + singles + n] = at + singles, group_end_[at + singles + n] = at + singles + 3;
    }
  }
}

void TreeDerivative::Forward(const mjModel* model, const mjData* data, const TreeInput& input) {
  Body& world = body_[0];
  world.v.setZero();
  world.va.setZero();
  world.ae.setZero();
  world.a.setZero();
  if (input.gravity && !(model->opt.disableflags & mjDSBL_GRAVITY)) {
    world.a.tail<3>() = -Vec3Map(model->opt.gravity);
  }

  for (int b = 1; b < model->nbody; b++) {
    const Body& parent = body_[model->body_parentid[b]];
    Body& body = body_[b];
    body.v = parent.v;
    body.a = parent.a;
    body.va = parent.va;
    body.ae = parent.ae;

    // (R1) ψ̇ = v × S, ψ̈ = a × S + v × ψ̇, σ = 2ψ̇ + (Σ_group S v) × S, with v, a just before the group
    const int begin = model->body_dofadr[b], end = begin + model->body_dofnum[b];
    for (int j = begin; j < end;) {
      const int group_end = group_end_[j];
      Vec6 dv = Vec6::Zero(), da = Vec6::Zero(), dva = Vec6::Zero(), dae = Vec6::Zero();
      for (int k = j; k < group_end; k++) {
        const Vec6 S = Vec6Map(data->cdof + 6 * k);
        Dof& dof = dof_[k];
        const double qd = !input.velocity ? 0 : input.v ? input.v[k] : data->qvel[k];
        dof.psid = PLANT("rne: axis rate", CrossMotion(body.v, S));
        dof.psidd = PLANT("rne: axis acceleration", CrossMotion(body.a, S) + CrossMotion(body.v, dof.psid));
        dof.aS = PLANT("constraint: axis field", CrossMotion(S, body.va));
        dv += S * qd;
        da += dof.psid * qd + S * input.a[k];
        dva += S * input.a[k];
        if (input.e) {
          dof.psie = PLANT("mass times e: axis field", CrossMotion(body.ae, S));
          dae += S * input.e[k];
        }
      }
      for (int k = j; k < group_end; k++) {
        dof_[k].sigma = PLANT("rne: axis rate twice", 2 * dof_[k].psid);
        if (group_end - j > 1)
          dof_[k].sigma += PLANT("rne: group velocity", CrossMotion(dv, Vec6Map(data->cdof + 6 * k)));
      }
      body.v += dv;
      body.a += da;
      body.va += dva;
      body.ae += dae;
      j = group_end;
    }

    // f = I a + v ×* I v, and (R2) the Coriolis operator: P = u hᵀ + [ω]×(½ tr J 1 − J), p = lin(I v)
    body.I = Inertia::From(data->cinert + 10 * b);
    const Vec6 momentum = body.I * body.v;
    body.F = PLANT("rne: force", body.I * body.a + CrossForce(body.v, momentum));
    const Mat3 J = body.I.Rotational();
    body.B.P = PLANT("rne: coriolis operator", body.v.tail<3>() * Vec3Map(body.I.h).transpose() +
                                                   Skew(body.v.head<3>()) * (0.5 * J.trace() * Mat3::Identity() - J));
    body.B.p = PLANT("rne: momentum", momentum.tail<3>());
    if (input.e) body.Fe = body.I * body.ae;

    // (R5) world-fixed load G at r with torque T: E α = (−(tr Q 1 − Q) α + T × α ; G × α), Q = G rᵀ
    if (input.load) {
      const Vec3 r = Vec3Map(data->xipos + 3 * b) - Vec3Map(data->subtree_com + 3 * model->body_rootid[b]);
      body.T = PLANT("load: torque", Vec3Map(input.load + 6 * b));
      body.G = Vec3Map(input.load + 6 * b + 3);
      body.Q = PLANT("load: force along arm", body.G * r.transpose());
      body.F.head<3>() -= body.T + r.cross(body.G);
      body.F.tail<3>() -= body.G;
    }
  }
}

void TreeDerivative::Backward(const mjModel* model, const TreeInput& input, const BodyConstraint* constraint) {
  // (R6) P = K + HH [Vᵃ ×] + Kv [Vᵛ ×]
  for (int b = 1; b < model->nbody; b++) {
    Body& body = body_[b];
    body.con.active = constraint && constraint[b].active;
    if (!body.con.active) continue;
    body.con = constraint[b];
    body.con.K += PLANT("constraint: motion of the fields",
                        body.con.HH * CrossMotionMatrix(body.va) + body.con.Kv * CrossMotionMatrix(body.v));
  }

  for (int b = static_cast<int>(model->nbody) - 1; b > 0; b--) {
    const int p = model->body_parentid[b];
    if (p == 0) continue;
    const Body& body = body_[b];
    Body& parent = body_[p];
    parent.I.Add(body.I);
    parent.B.Add(body.B);
    parent.F += body.F;
    if (input.e) parent.Fe += body.Fe;
    if (input.load) {
      parent.Q += body.Q;
      parent.G += body.G;
      parent.T += body.T;
    }
    if (body.con.active) {
      if (parent.con.active) {
        parent.con.K += body.con.K;
        parent.con.HH += body.con.HH;
        parent.con.Kv += body.con.Kv;
        parent.con.F += body.con.F;
      } else {
        parent.con = body.con;
      }
    }
  }
}

// the vectors whose dot products are the entries: (R3), (R4), (R6)
void TreeDerivative::Products(const mjModel* model, const mjData* data, const TreeInput& input) {
  for (int i = 0; i < model->nv; i++) {
    const Body& body = body_[model->dof_bodyid[i]];
    const Dof& dof = dof_[i];
    const Vec6 S = Vec6Map(data->cdof + 6 * i);

    // RNE: z = I S, w = Bᵀ S, y = I ψ̈ + B ψ̇ + S ×* F, y' = I σ + B S
    const Vec6 z = PLANT("rne: z", body.I * S);
    Vec6 w = Vec6::Zero();
    w.head<3>() = PLANT("rne: w", body.B.Transposed(S));
    Vec6 y = PLANT("rne: y by q", body.I * dof.psidd + body.B * dof.psid + CrossForce(S, body.F));
    Vec6 y2 = PLANT("rne: y by v", body.I * dof.sigma + body.B * S);
    Vec6 pr = Vec6::Zero(), hh = Vec6::Zero();

    // loads: y −= E S, and Eᵀ S against the rotation of the column
    if (input.load) {
      const Vec3 alpha = S.head<3>(), l = S.tail<3>();
      const double trace = body.Q.trace();
      y.head<3>() -= PLANT("load: columns", body.Q * alpha - trace * alpha + body.T.cross(alpha));
      y.tail<3>() -= body.G.cross(alpha);
      pr.head<3>() +=
          PLANT("load: rows", body.Q.transpose() * alpha - trace * alpha - body.T.cross(alpha) - body.G.cross(l));
    }

    // constraints against the static world
    if (body.con.active) {
      const BodyConstraint& con = body.con;
      hh = con.HH * S;
      y -= PLANT("constraint: columns", con.K * S + con.HH * dof.aS - con.Kv * dof.psid);
      y2 += PLANT("constraint: velocity columns", con.Kv * S);
      w += PLANT("constraint: velocity rows", con.Kv.transpose() * S);
      pr += PLANT("constraint: rows", con.K.transpose() * S + CrossForce(S, con.F));
    }

    Vec6 ye = Vec6::Zero();
    if (input.e) ye = PLANT("mass times e: columns", body.I * dof.psie + CrossForce(S, body.Fe));
    for (int c = 0; c < 6; c++) {
      left_[i].A[c] = Double4{dof.psidd[c], dof.sigma[c], S[c], S[c]};
      left_[i].B[c] = Double4{dof.psid[c], S[c], dof.aS[c], S[c]};
      left_[i].C[c] = Double4{input.e ? dof.psie[c] : 0, S[c], S[c], 0};
      right_[i].A[c] = Double4{z[c], z[c], y[c], y2[c]};
      right_[i].B[c] = Double4{w[c], w[c], hh[c], pr[c]};
      right_[i].C[c] = Double4{z[c], ye[c], hh[c], 0};
    }
  }
}

namespace {

struct PairLoop {
  int nv;
  const int *parent, *group, *group_end;
  const TreeLanes *left, *right;
  BlockedMatrix *R, *E;
  TreeSolver* H;
};

// entry (i, k) from the left lanes of k and the right lanes of i; entry (k, i) too when k is before i's group
__attribute__((always_inline)) inline void Pair(const PairLoop& loop, int i, int k, bool upper, double* h) {
  const TreeLanes &L = loop.left[k], &R = loop.right[i];
  Double4 a = L.A[0] * R.A[0], b = L.B[0] * R.B[0];
  for (int n = 1; n < 6; n++) {
    a += L.A[n] * R.A[n];
    b += L.B[n] * R.B[n];
  }
  BlockedMatrix& out = *loop.R;
  out(i, k) -= a[0] + b[0] - b[2] - b[3];
  out(i, loop.nv + k) -= a[1] + b[1];
  if (upper) {
    out(k, i) -= a[2];
    out(k, loop.nv + i) -= a[3];
  }
  if (!loop.E && !h) return;
  Double4 c = L.C[0] * R.C[0];
  for (int n = 1; n < 6; n++) c += L.C[n] * R.C[n];
  if (loop.E) {
    (*loop.E)(i, k) += c[0];
    if (upper) (*loop.E)(k, i) += c[1];
  }
  if (h) *h += c[2];
}

COSTATE_SIMD void Pairs(const PairLoop& loop) {
  for (int i = 0; i < loop.nv; i++) {
    // address of H(i, k): ancestors come in descending order, as a row of H read from its end
    double* row = loop.H ? loop.H->row(i) : nullptr;
    const int* columns = loop.H ? loop.H->row_columns(i) : nullptr;
    int at = loop.H ? loop.H->row_size(i) : 0;
    auto address = [&](int k) -> double* {
      if (!loop.H) return nullptr;
      if (k == i) return &loop.H->diagonal(i);
      do at--;
      while (columns[at] != k);
      return row + at;
    };

    // within the group the descendant formula holds in both orders
    for (int k = loop.group_end[i] - 1; k >= loop.group[i]; k--) Pair(loop, i, k, false, k > i ? nullptr : address(k));
    for (int k = loop.parent[loop.group[i]]; k >= 0; k = loop.parent[k]) Pair(loop, i, k, true, address(k));
  }
}

}  // namespace

void TreeDerivative::Finish(const mjModel* model, const mjData* data, const TreeInput& input,
                            const BodyConstraint* constraint, BlockedMatrix* R, BlockedMatrix* E, TreeSolver* H) {
  Backward(model, input, constraint);
  Products(model, data, input);
  Pairs({static_cast<int>(model->nv), model->dof_parentid, group_.data(), group_end_.data(), left_.data(), right_.data(), R,
         input.e ? E : nullptr, constraint ? H : nullptr});
}

}  // namespace costate
