// Products with everything that lives on the tree, by one pass up and one down: (R7), (R8) of README.md.
#include "derivative/plant.h"
#include "derivative/tree_derivative.h"

namespace costate {

void TreeDerivative::StartPull(const mjModel* m, const mjData* d, const TreeInput& input, const BodyConstraint* constraint,
                               const double* y, const double* z) {
  const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
  pull_.resize(nbody);
  before_.resize(nv);
  before_e_.resize(nv);
  pull_[0].W.setZero();
  pull_[0].We.setZero();

  for (int b = 1; b < nbody; b++) {
    const Body& body = body_[b];
    PullBody& out_body = pull_[b];
    out_body.W = pull_[m->body_parentid[b]].W;
    if (z) out_body.We = pull_[m->body_parentid[b]].We;
    const int begin = m->body_dofadr[b], end = begin + m->body_dofnum[b];
    for (int j = begin; j < end; j++) {
      before_[j] = j > group_[j] ? before_[j - 1] : out_body.W;
      if (z) before_e_[j] = j > group_[j] ? before_e_[j - 1] : out_body.We;
      const Vec6Map S(d->cdof + 6 * j);
      out_body.W += S * y[j];
      if (z) out_body.We += S * z[j];
    }

    // what the body's own forces contribute
    const Vec6& W = out_body.W;
    out_body.F = body.F;
    out_body.G = PLANT("pull: inertia", body.I * W);
    out_body.B = PLANT("pull: coriolis", body.B.Transposed(W));
    if (z) {
      out_body.Fe = body.Fe;
      out_body.Ge = PLANT("pull: mass times e", body.I * out_body.We);
    }
    if (input.load) {
      const Vec3 w = W.head<3>(), u = W.tail<3>();
      out_body.E = PLANT("pull: load", body.Q.transpose() * w - body.Q.trace() * w - body.T.cross(w) - body.G.cross(u));
    }
    out_body.constraint = constraint && constraint[b].active;
    if (out_body.constraint) {
      // Pᵀ = Kᵀ − [Vᵃ ×*] HH − [Vᵛ ×*] Kvᵀ
      const BodyConstraint& con = constraint[b];
      out_body.a.noalias() = con.HH * W;
      out_body.v.noalias() = con.Kv.transpose() * W;
      out_body.q.noalias() = PLANT("pull: constraint by q", con.K.transpose() * W);
      out_body.q += PLANT("pull: turning wrench", CrossForce(W, con.F)) - CrossForce(body.va, out_body.a) -
                    CrossForce(body.v, out_body.v);
      out_body.F -= con.F;
    }
  }
}

void TreeDerivative::AddCovectors(int b, const Vec6& motion, const Vec6& a, const Vec6& v) {
  PullBody& body = pull_[b];
  body.q += motion - CrossForce(body_[b].va, a) - CrossForce(body_[b].v, v);
  body.a += a;
  body.v += v;
}

void TreeDerivative::FinishPull(const mjModel* m, const mjData* d, const TreeInput& input, const double* z, double* out) {
  const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
  for (int b = nbody - 1; b > 0; b--) {
    const PullBody& body = pull_[b];
    const int begin = m->body_dofadr[b], end = begin + m->body_dofnum[b], p = m->body_parentid[b];

    // (R7)
    for (int j = begin; j < end; j++) {
      const Vec6 S = Vec6Map(d->cdof + 6 * j);
      const Dof& dof = dof_[j];
      double q = PLANT("pull: q",
                       body.F.dot(CrossMotion(before_[j], S)) + dof.psidd.dot(body.G) + dof.psid.head<3>().dot(body.B));
      double v = PLANT("pull: v", dof.sigma.dot(body.G) + S.head<3>().dot(body.B));
      if (input.load) q -= S.head<3>().dot(body.E);
      if (body.constraint) {
        q += dof.psid.dot(body.v) - S.dot(body.q) - dof.aS.dot(body.a);
        v += S.dot(body.v);
      }
      if (z) out[j] += body.Fe.dot(CrossMotion(before_e_[j], S)) + dof.psie.dot(body.Ge);
      out[j] -= q;
      out[nv + j] -= v;
    }

    if (p == 0) continue;
    PullBody& parent = pull_[p];
    parent.F += body.F;
    parent.G += body.G;
    parent.B += body.B;
    if (z) {
      parent.Fe += body.Fe;
      parent.Ge += body.Ge;
    }
    if (input.load) parent.E += body.E;
    if (!body.constraint) continue;
    if (parent.constraint) {
      parent.q += body.q;
      parent.a += body.a;
      parent.v += body.v;
    } else {
      parent.q = body.q;
      parent.a = body.a;
      parent.v = body.v;
      parent.constraint = true;
    }
  }
}

void TreeDerivative::StartPush(const mjModel* m, const mjData* d, const TreeInput& input, const BodyConstraint* constraint,
                               const double* x, bool with_e) {
  const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
  push_.resize(nbody);
  for (Vec6* field : {&push_[0].s, &push_[0].psidd, &push_[0].psid, &push_[0].aS, &push_[0].psie}) field->setZero();

  for (int b = 1; b < nbody; b++) {
    const Body& body = body_[b];
    PushBody& out = push_[b];
    out = push_[m->body_parentid[b]];
    for (int j = m->body_dofadr[b]; j < m->body_dofadr[b] + m->body_dofnum[b]; j++) {
      const Vec6Map S(d->cdof + 6 * j);
      const Dof& dof = dof_[j];
      const double dq = x[j], dv = x[nv + j];
      out.s += S * dq;
      out.psidd += PLANT("push: axis accelerations", dof.psidd * dq + dof.sigma * dv);
      out.psid += PLANT("push: axis rates", dof.psid * dq + S * dv);
      out.aS += PLANT("push: axis fields", dof.aS * dq);
      if (with_e) out.psie += dof.psie * dq;
    }

    // (R8) dF = s ×* F + I Ψ̈ + B Ψ̇ − E s − dF_constraint
    out.F = body.F;
    out.dF = PLANT("push: force", CrossForce(out.s, body.F) + body.I * out.psidd + body.B * out.psid);
    if (with_e) {
      out.Fe = body.Fe;
      out.dFe = PLANT("push: force of M e", CrossForce(out.s, body.Fe) + body.I * out.psie);
    }
    if (input.load) {
      const Vec3 alpha = out.s.head<3>();
      out.dF.head<3>() -= PLANT("push: load", body.Q * alpha - body.Q.trace() * alpha + body.T.cross(alpha));
      out.dF.tail<3>() -= body.G.cross(alpha);
    }
    if (constraint && constraint[b].active) {
      const BodyConstraint& con = constraint[b];
      out.F -= con.F;
      out.dF -= PLANT("push: constraint", con.K * out.s + con.HH * (CrossMotion(body.va, out.s) + out.aS) +
                                              con.Kv * (CrossMotion(body.v, out.s) - out.psid));
    }
  }
}

void TreeDerivative::FinishPush(const mjModel* m, const mjData* d, const double* x, double* r, double* e) {
  const int nbody = static_cast<int>(m->nbody);
  for (int b = nbody - 1; b > 0; b--) {
    const PushBody& body = push_[b];
    const int p = m->body_parentid[b];
    const int begin = m->body_dofadr[b];
    const int fixed = m->body_dofnum[b] == 6 && m->jnt_type[m->body_jntadr[b]] == mjJNT_FREE ? 3 : 0;
    Vec6 s = p == 0 ? Vec6(Vec6::Zero()) : push_[p].s;
    for (int j = begin; j < begin + m->body_dofnum[b];) {
      // axes turn with everything up to their own group; those of free translations do not turn
      const int end = group_end_[j];
      for (int k = j; k < end; k++) s += Vec6Map(d->cdof + 6 * k) * x[k];
      for (; j < end; j++) {
        const Vec6 S = Vec6Map(d->cdof + 6 * j);
        const Vec6 dS = j - begin < fixed ? Vec6(Vec6::Zero()) : CrossMotion(s, S);
        r[j] -= S.dot(body.dF) + PLANT("push: turning axes", dS.dot(body.F));
        if (e) e[j] += S.dot(body.dFe) + dS.dot(body.Fe);
      }
    }
    if (p == 0) continue;
    PushBody& parent = push_[p];
    parent.F += body.F;
    parent.dF += body.dF;
    if (!e) continue;
    parent.Fe += body.Fe;
    parent.dFe += body.dFe;
  }
}

void TreeDerivative::AddHessian(const mjModel* m, const mjData* d, const BodyConstraint* first,
                                const BodyConstraint* second, TreeSolver* H) {
  const int nbody = static_cast<int>(m->nbody);
  hessian_.resize(nbody);
  for (BodyHessian& body : hessian_) body.active = false;
  const auto add = [&](int b, const Mat6& HH) {
    if (hessian_[b].active) hessian_[b].HH += HH;
    else hessian_[b] = {HH, true};
  };
  for (int b = 1; b < nbody; b++) {
    if (first && first[b].active) add(b, first[b].HH);
    if (second && second[b].active) add(b, second[b].HH);
  }
  for (int b = nbody - 1; b > 0; b--) {
    if (!hessian_[b].active) continue;
    for (int i = m->body_dofadr[b]; i < m->body_dofadr[b] + m->body_dofnum[b]; i++) {
      const Vec6 hh = hessian_[b].HH * Vec6Map(d->cdof + 6 * i);
      H->diagonal(i) += hh.dot(Vec6Map(d->cdof + 6 * i));

      // ancestors come in descending order, as a row of H read from its end
      double* row = H->row(i);
      const int* columns = H->row_columns(i);
      int at = H->row_size(i);
      for (int k = m->dof_parentid[i]; k >= 0; k = m->dof_parentid[k]) {
        do at--;
        while (columns[at] != k);
        row[at] += hh.dot(Vec6Map(d->cdof + 6 * k));
      }
    }
    if (m->body_parentid[b] != 0) add(m->body_parentid[b], hessian_[b].HH);
  }
}

}  // namespace costate
