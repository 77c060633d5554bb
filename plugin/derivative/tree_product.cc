// Products along a direction with everything that lives on the tree, by one pass up and one down: (R8) of README.md.
#include "derivative/plant.h"
#include "derivative/tree_derivative.h"

namespace costate {

COSTATE_SIMD void TreeDerivative::ForwardFields(const mjModel* m, const mjData* d, const TreeInput& input) {
  body_[0].v.setZero();
  body_[0].va.setZero();
  field_[0].v = Lanes6::Zero();
  field_[0].va = Lanes6::Zero();
  for (int b = 1; b < m->nbody; b++) {
    Field& field = field_[b];
    field.v = Lanes6::Load(d->cvel + 6 * b);
    Lanes6 va = field_[m->body_parentid[b]].va;
    for (int j = m->body_dofadr[b]; j < m->body_dofadr[b] + m->body_dofnum[b]; j++)
      va += input.a[j] * Lanes6::Load(d->cdof + 6 * j);
    field.va = va;
    field.v.Store(body_[b].v.data());
    va.Store(body_[b].va.data());
  }
}

void TreeDerivative::StartPush(const mjModel* m, const mjData* d, const TreeInput& input,
                               const BodyConstraint* constraint, const BodyConstraint* contact, const double* x,
                               bool with_e) {
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
    if (contact && contact[b].active) out.F -= contact[b].F;
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

namespace {

// squares below the least number do not count: what they are squares of would change no digit of M
COSTATE_LANES bool IsZero(const Mat6& HH) {
  Double4 sum = {};
  for (int c = 0; c < 36; c += 4) sum += LoadLanes(HH.data() + c) * LoadLanes(HH.data() + c);
  return sum[0] + sum[1] + sum[2] + sum[3] == 0;
}

// of numbers as they lie: to spread them out first would take longer than the product
COSTATE_LANES double Dot(const double* x, const double* y) {
  const Double4 first = LoadLanes(x) * LoadLanes(y);
  const LooseDouble2 last =
      *reinterpret_cast<const LooseDouble2*>(x + 4) * *reinterpret_cast<const LooseDouble2*>(y + 4);
  return (first[0] + first[2]) + last[0] + ((first[1] + first[3]) + last[1]);
}

COSTATE_LANES void AddMatrix(const Mat6& HH, bool first, Mat6* to) {
  for (int c = 0; c < 36; c += 6) {
    Lanes6 column = Lanes6::Load(HH.data() + c);
    if (!first) column += Lanes6::Load(to->data() + c);
    column.Store(to->data() + c);
  }
}

}  // namespace

COSTATE_SIMD void TreeDerivative::AddHessian(const mjModel* m, const mjData* d, const BodyConstraint* first,
                                             const BodyConstraint* second, TreeSolver* H) {
  const int nbody = static_cast<int>(m->nbody);
  hessian_.resize(nbody);
  for (BodyHessian& body : hessian_) body.active = false;
  const auto add = [this](int b, const Mat6& HH) __attribute__((always_inline)) {
    if (IsZero(HH)) return;  // constraints between bodies that both move leave wrenches alone
    AddMatrix(HH, !hessian_[b].active, &hessian_[b].HH);
    hessian_[b].active = true;
  };
  for (int b = 1; b < nbody; b++) {
    if (first && first[b].active) add(b, first[b].HH);
    if (second && second[b].active) add(b, second[b].HH);
  }
  for (int b = nbody - 1; b > 0; b--) {
    if (!hessian_[b].active) continue;
    for (int i = m->body_dofadr[b]; i < m->body_dofadr[b] + m->body_dofnum[b]; i++) {
      const Lanes6 S = Lanes6::Load(d->cdof + 6 * i), hh = Times(hessian_[b].HH, S);
      H->diagonal(i) += DotLanes(hh, S);
      double force[6];
      hh.Store(force);

      // ancestors come in descending order, as a row of H read from its end
      double* row = H->row(i);
      const int* columns = H->row_columns(i);
      int at = H->row_size(i);
      for (int k = m->dof_parentid[i]; k >= 0; k = m->dof_parentid[k]) {
        do at--;
        while (columns[at] != k);
        row[at] += Dot(force, d->cdof + 6 * k);
      }
    }
    if (m->body_parentid[b] != 0) add(m->body_parentid[b], hessian_[b].HH);
  }
}

}  // namespace costate
