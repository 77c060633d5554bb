#include "derivative/tree_derivative.h"

#include "core/joint.h"
#include "derivative/plant.h"

namespace costate {

TreeDerivative::TreeDerivative(const mjModel* model) {
  const int nv = static_cast<int>(model->nv), nbody = static_cast<int>(model->nbody);
  body_.resize(nbody);
  dof_.resize(nv);
  left_.resize(nv);
  right_.resize(nv);
  field_.resize(nbody);
  for (int j = 0; j < 2 * nv; j++)
    place_.push_back(
        static_cast<int>(j / BlockedMatrix::kWidth * BlockedMatrix::Stride(nv) + j % BlockedMatrix::kWidth));
  group_.resize(nv);
  group_end_.resize(nv);
  for (int i = 0; i < nv; i++) group_[i] = GroupBegin(model, i), group_end_[i] = GroupEnd(model, i);
}

// the pass from the root up
struct TreeDerivative::Path {
  int nbody;
  const int *parent, *dofadr, *dofnum, *group_end;
  const double *cdof, *cinert, *v, *a, *e;
  Body* body;
  Dof* dof;
  Field* field;
};

COSTATE_SIMD void TreeDerivative::Walk(const Path& path) {
  path.field[0] = {Lanes6::Zero(), Lanes6::Load(path.body[0].a.data()), Lanes6::Zero(), Lanes6::Zero()};
  for (int b = 1; b < path.nbody; b++) {
    Body& body = path.body[b];
    const Field& parent = path.field[path.parent[b]];
    Lanes6 v = parent.v, a = parent.a, va = parent.va, ae = parent.ae;

    // (R1) ψ̇ = v × S, ψ̈ = a × S + v × ψ̇, σ = 2ψ̇ + (Σ_group S v) × S, with v, a just before the group
    const int begin = path.dofadr[b], end = begin + path.dofnum[b];
    for (int j = begin; j < end;) {
      const int group_end = path.group_end[j];
      Lanes6 dv = Lanes6::Zero(), da = Lanes6::Zero(), dva = Lanes6::Zero(), dae = Lanes6::Zero();
      for (int k = j; k < group_end; k++) {
        const Lanes6 S = Lanes6::Load(path.cdof + 6 * k);
        Dof& dof = path.dof[k];
        const double qd = path.v ? path.v[k] : 0;
        const Lanes6 psid = PLANT("rne: axis rate", CrossMotion(v, S));
        const Lanes6 psidd = PLANT("rne: axis acceleration", CrossMotion(a, S) + CrossMotion(v, psid));
        const Lanes6 aS = PLANT("constraint: axis field", CrossMotion(S, va));
        psid.Store(dof.psid.data());
        psidd.Store(dof.psidd.data());
        aS.Store(dof.aS.data());
        if (group_end - j == 1) PLANT("rne: axis rate twice", 2 * psid).Store(dof.sigma.data());
        const Lanes6 Sa = path.a[k] * S;
        dv += qd * S;
        da += qd * psid + Sa;
        dva += Sa;
        if (path.e) {
          const Lanes6 psie = PLANT("mass times e: axis field", CrossMotion(ae, S));
          psie.Store(dof.psie.data());
          dae += path.e[k] * S;
        }
      }
      for (int k = j; k < group_end && group_end - j > 1; k++) {
        const Lanes6 twice = PLANT("rne: axis rate twice", 2 * Lanes6::Load(path.dof[k].psid.data()));
        const Lanes6 group = PLANT("rne: group velocity", CrossMotion(dv, Lanes6::Load(path.cdof + 6 * k)));
        (twice + group).Store(path.dof[k].sigma.data());
      }
      v += dv;
      a += da;
      va += dva;
      ae += dae;
      j = group_end;
    }
    path.field[b] = {v, a, va, ae};
    v.Store(body.v.data());
    a.Store(body.a.data());
    va.Store(body.va.data());
    ae.Store(body.ae.data());

    // f = I a + v ×* I v, and (R2) the Coriolis operator: P = u hᵀ + [ω]×(½ tr J 1 − J), p = lin(I v)
    body.I = Inertia::From(path.cinert + 10 * b);
    const InertiaLanes I(path.cinert + 10 * b);
    const Lanes6 momentum = I * v;
    const Lanes6 F = PLANT("rne: force", I * a + CrossForce(v, momentum));
    F.Store(body.F.data());
    const double half = 0.5 * (body.I.j[0] + body.I.j[1] + body.I.j[2]);
    const Double4 columns[3] = {Double4{half, 0, 0, 0} - I.J.x, Double4{0, half, 0, 0} - I.J.y,
                                Double4{0, 0, half, 0} - I.J.z};
    double* P = body.B.P.data();
    for (int c = 0; c < 3; c++) {
      const Double4 column = PLANT("rne: coriolis operator", v.l * body.I.h[c] + CrossLanes(v.a, columns[c]));
      for (int n = 0; n < 3; n++) P[3 * c + n] = column[n];
    }
    const Double4 p = PLANT("rne: momentum", momentum.l);
    for (int n = 0; n < 3; n++) body.B.p[n] = p[n];
    if (path.e) (I * ae).Store(body.Fe.data());
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
  const double* v = !input.velocity ? nullptr : input.v ? input.v : data->qvel;
  Walk({static_cast<int>(model->nbody), model->body_parentid, model->body_dofadr, model->body_dofnum, group_end_.data(),
        data->cdof, data->cinert, v, input.a, input.e, body_.data(), dof_.data(), field_.data()});

  // (R5) world-fixed load G at r with torque T: E α = (−(tr Q 1 − Q) α + T × α ; G × α), Q = G rᵀ
  for (int b = 1; b < model->nbody && input.load; b++) {
    Body& body = body_[b];
    const Vec3 r = Vec3Map(data->xipos + 3 * b) - Vec3Map(data->subtree_com + 3 * model->body_rootid[b]);
    body.T = PLANT("load: torque", Vec3Map(input.load + 6 * b));
    body.G = Vec3Map(input.load + 6 * b + 3);
    body.Q = PLANT("load: force along arm", body.G * r.transpose());
    body.F.head<3>() -= body.T + r.cross(body.G);
    body.F.tail<3>() -= body.G;
  }
}

namespace {

COSTATE_LANES void AddNumbers(int n, const double* from, double* to) {
  int k = 0;
  for (; k + 4 <= n; k += 4)
    *reinterpret_cast<LooseDouble4*>(to + k) += *reinterpret_cast<const LooseDouble4*>(from + k);
  for (; k < n; k += 2) *reinterpret_cast<LooseDouble2*>(to + k) += *reinterpret_cast<const LooseDouble2*>(from + k);
}

// K += M [V ×], by columns: that of [V ×] is V × e_c
COSTATE_LANES void AddTurned(const Mat6& M, const Lanes6& V, Mat6* K) {
  const auto column = [&](int c) __attribute__((always_inline)) { return Lanes6::Load(M.data() + 6 * c); };
  for (int c = 0; c < 3; c++) {
    const int n = (c + 1) % 3, l = (c + 2) % 3;
    const Lanes6 rotation = V.a[l] * column(n) - V.a[n] * column(l) + V.l[l] * column(3 + n) - V.l[n] * column(3 + l);
    const Lanes6 translation = V.a[l] * column(3 + n) - V.a[n] * column(3 + l);
    double* to = K->data() + 6 * c;
    (Lanes6::Load(to) + PLANT("constraint: motion of the fields", rotation)).Store(to);
    (Lanes6::Load(to + 18) + PLANT("constraint: motion of the fields", translation)).Store(to + 18);
  }
}

}  // namespace

COSTATE_SIMD void TreeDerivative::Backward(const mjModel* model, const TreeInput& input,
                                           const BodyConstraint* constraint) {
  // (R6) P = K + HH [Vᵃ ×] + Kv [Vᵛ ×]
  for (int b = 1; b < model->nbody; b++) {
    Body& body = body_[b];
    body.con.active = constraint && constraint[b].active;
    if (!body.con.active) continue;
    body.con = constraint[b];
    AddTurned(body.con.HH, field_[b].va, &body.con.K);
    AddTurned(body.con.Kv, field_[b].v, &body.con.K);
  }

  for (int b = static_cast<int>(model->nbody) - 1; b > 0; b--) {
    const int p = model->body_parentid[b];
    if (p == 0) continue;
    const Body& body = body_[b];
    Body& parent = body_[p];
    parent.I.Add(body.I);
    parent.B.Add(body.B);
    AddNumbers(6, body.F.data(), parent.F.data());
    if (input.e) AddNumbers(6, body.Fe.data(), parent.Fe.data());
    if (input.load) {
      parent.Q += body.Q;
      parent.G += body.G;
      parent.T += body.T;
    }
    if (body.con.active) {
      if (parent.con.active) {
        AddNumbers(36, body.con.K.data(), parent.con.K.data());
        AddNumbers(36, body.con.HH.data(), parent.con.HH.data());
        AddNumbers(36, body.con.Kv.data(), parent.con.Kv.data());
        AddNumbers(6, body.con.F.data(), parent.con.F.data());
      } else {
        parent.con = body.con;
      }
    }
  }
}

void TreeDerivative::SumInertias(const mjModel* model) {
  for (int b = static_cast<int>(model->nbody) - 1; b > 0; b--) {
    const int p = model->body_parentid[b];
    if (p == 0) continue;
    body_[p].I.Add(body_[b].I);
    body_[p].B.Add(body_[b].B);
  }
}

struct TreeDerivative::Bodies {
  int nbody;
  const int *dofadr, *dofnum;
  const double* cdof;
  bool e, load;
  const Body* body;
  const Dof* dof;
  TreeLanes *left, *right;
};

// the vectors whose dot products are the entries: (R3), (R4), (R6)
COSTATE_SIMD void TreeDerivative::Multiply(const Bodies& all) {
  for (int b = 1; b < all.nbody; b++) {
    if (all.dofnum[b] == 0) continue;
    const Body& body = all.body[b];
    const InertiaLanes I(body.I);
    const RotationLanes B(2, body.B.P.data(), body.B.p.data());
    const Lanes6 F = Lanes6::Load(body.F.data()), Fe = all.e ? Lanes6::Load(body.Fe.data()) : Lanes6::Zero();
    const bool constrained = body.con.active;
    Mat6 Kt, Kvt;
    if (constrained) Kt = body.con.K.transpose();
    if (constrained) Kvt = body.con.Kv.transpose();

    for (int i = all.dofadr[b]; i < all.dofadr[b] + all.dofnum[b]; i++) {
      const Dof& dof = all.dof[i];
      const Lanes6 S = Lanes6::Load(all.cdof + 6 * i), psid = Lanes6::Load(dof.psid.data()),
                   psidd = Lanes6::Load(dof.psidd.data()), sigma = Lanes6::Load(dof.sigma.data()),
                   aS = Lanes6::Load(dof.aS.data());

      // RNE: z = I S, w = Bᵀ S, y = I ψ̈ + B ψ̇ + S ×* F, y' = I σ + B S
      const Lanes6 z = PLANT("rne: z", I * S);
      Lanes6 w = Lanes6::Zero();
      w.a = PLANT("rne: w", B.Transposed(S));
      Lanes6 y = PLANT("rne: y by q", I * psidd + B * psid + CrossForce(S, F));
      Lanes6 y2 = PLANT("rne: y by v", I * sigma + B * S);
      Lanes6 pr = Lanes6::Zero(), hh = Lanes6::Zero();

      // loads: y −= E S, and Eᵀ S against the rotation of the column
      if (all.load) {
        const RotationLanes E(-1, body.Q.data(), body.G.data());
        const Double4 T = LoadLanes(body.T.data()), turned = CrossLanes(T, S.a);
        y.a -= PLANT("load: columns", E.map * S.a + turned);
        y.l -= CrossLanes(S.a, E.p);
        pr.a += PLANT("load: rows", E.transposed * S.a - turned + CrossLanes(E.p, S.l));
      }

      // constraints against the static world
      if (constrained) {
        hh = Times(body.con.HH, S);
        y -= PLANT("constraint: columns", Times(body.con.K, S) + Times(body.con.HH, aS) - Times(body.con.Kv, psid));
        y2 += PLANT("constraint: velocity columns", Times(body.con.Kv, S));
        w += PLANT("constraint: velocity rows", Times(Kvt, S));
        pr += PLANT("constraint: rows", Times(Kt, S) + CrossForce(S, Lanes6::Load(body.con.F.data())));
      }

      Lanes6 ye = Lanes6::Zero(), psie = Lanes6::Zero();
      if (all.e) {
        psie = Lanes6::Load(dof.psie.data());
        ye = PLANT("mass times e: columns", I * psie + CrossForce(S, Fe));
      }
      TreeLanes &left = all.left[i], &right = all.right[i];
      Transpose(psidd, sigma, S, S, left.A);
      Transpose(z, z, y, y2, right.A);
      Transpose(psid, S, psie, S, left.B);
      Transpose(w, w, z, ye, right.B);
      Transpose(aS, S, S, S, left.C);
      right.more = constrained || all.load;
      if (right.more) Transpose(hh, pr, hh, Lanes6::Zero(), right.C);
    }
  }
}

namespace {

struct PairLoop {
  int nv;
  const int *parent, *group, *group_end, *place_q, *place_v;
  const TreeLanes *left, *right;
  double *R, *E;
  TreeSolver* H;
};

// entry (i, k) from the left lanes of k and the right lanes of i; entry (k, i) too when k is before i's group
template <bool kMore>
__attribute__((always_inline)) inline void Pair(const PairLoop& loop, const TreeLanes& R, int i, int k, bool upper,
                                                double* h) {
  constexpr int kWidth = BlockedMatrix::kWidth;
  const TreeLanes& L = loop.left[k];
  Double4 a = L.A[0] * R.A[0], b = L.B[0] * R.B[0];
  for (int n = 1; n < 6; n++) {
    a += L.A[n] * R.A[n];
    b += L.B[n] * R.B[n];
  }
  double by_q = a[0] + b[0];
  if (kMore) {
    Double4 c = L.C[0] * R.C[0];
    for (int n = 1; n < 6; n++) c += L.C[n] * R.C[n];
    by_q -= c[0] + c[1];
    if (h) *h += c[2];
  }
  loop.R[loop.place_q[k] + i * kWidth] -= by_q;
  loop.R[loop.place_v[k] + i * kWidth] -= a[1] + b[1];
  if (upper) {
    loop.R[loop.place_q[i] + k * kWidth] -= a[2];
    loop.R[loop.place_v[i] + k * kWidth] -= a[3];
  }
  if (!loop.E) return;
  loop.E[loop.place_q[k] + i * kWidth] += b[2];
  if (upper) loop.E[loop.place_q[i] + k * kWidth] += b[3];
}

template <bool kMore>
__attribute__((always_inline)) inline void PairsOf(const PairLoop& loop, int i) {
  // a copy: what is stored to the matrices cannot change it, so that it stays in registers
  TreeLanes R;
  for (int n = 0; n < 6; n++) {
    R.A[n] = loop.right[i].A[n];
    R.B[n] = loop.right[i].B[n];
    if (kMore) R.C[n] = loop.right[i].C[n];
  }

  // address of H(i, k): ancestors come in descending order, as a row of H read from its end
  const bool hessian = kMore && loop.H;
  double* row = hessian ? loop.H->row(i) : nullptr;
  const int* columns = hessian ? loop.H->row_columns(i) : nullptr;
  int at = hessian ? loop.H->row_size(i) : 0;
  auto address = [&](int k) __attribute__((always_inline))->double* {
    if (!hessian) return nullptr;
    if (k == i) return &loop.H->diagonal(i);
    do at--;
    while (columns[at] != k);
    return row + at;
  };

  // within the group the descendant formula holds in both orders
  for (int k = loop.group_end[i] - 1; k >= loop.group[i]; k--) {
    Pair<kMore>(loop, R, i, k, false, k > i ? nullptr : address(k));
  }
  for (int k = loop.parent[loop.group[i]]; k >= 0; k = loop.parent[k]) Pair<kMore>(loop, R, i, k, true, address(k));
}

COSTATE_SIMD void Pairs(const PairLoop& loop) {
  for (int i = 0; i < loop.nv; i++) loop.right[i].more ? PairsOf<true>(loop, i) : PairsOf<false>(loop, i);
}

}  // namespace

void TreeDerivative::Finish(const mjModel* model, const mjData* data, const TreeInput& input,
                            const BodyConstraint* constraint, BlockedMatrix* R, BlockedMatrix* E, TreeSolver* H) {
  Backward(model, input, constraint);
  Multiply({static_cast<int>(model->nbody), model->body_dofadr, model->body_dofnum, data->cdof, input.e != nullptr,
            input.load != nullptr, body_.data(), dof_.data(), left_.data(), right_.data()});
  Pairs({static_cast<int>(model->nv), model->dof_parentid, group_.data(), group_end_.data(), place_.data(),
         place_.data() + model->nv, left_.data(), right_.data(), R->block(0), input.e ? E->block(0) : nullptr,
         constraint ? H : nullptr});
}

}  // namespace costate
