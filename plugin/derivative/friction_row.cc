#include "derivative/friction_row.h"

#include <costate/model.h>

#include "core/joint.h"
#include "derivative/chain.h"
#include "derivative/contact_block.h"
#include "derivative/contact_jacobian.h"
#include "derivative/equilibrium.h"
#include "derivative/plant.h"

namespace costate {

namespace {

bool IsContact(int type) { return type == mjCNSTR_CONTACT_PYRAMIDAL || type == mjCNSTR_CONTACT_ELLIPTIC; }

}  // namespace

FrictionRows::FrictionRows(const mjModel* model)
    : nv_(static_cast<int>(model->nv)), velocity_(model->nbody), axes_(model) {}

void FrictionRows::AddRow(int efc, int contact) {
  index_[efc] = size();
  row_.emplace_back();
  row_.back().efc = efc;
  row_.back().contact = contact;
}

void FrictionRows::Find(const mjModel* m, const mjData* d, const double* a) {
  row_.clear();
  chain_.clear();
  index_.assign(d->nefc, -1);
  for (int i = d->ne; i < d->ne + d->nf; i++) AddRow(i, -1);

  // contacts that carry no force keep carrying none
  std::vector<int> normals;
  for (int i = d->ne + d->nf; i < d->nefc; i++) {
    if (!IsContact(d->efc_type[i])) continue;
    const int c = d->efc_id[i], dim = d->contact[c].dim;
    if (d->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC) {
      if (d->efc_force[i] >= mjMINVAL) {
        normals.push_back(i);
        for (int k = 1; k < dim; k++) AddRow(i + k, c);
      }
      i += dim - 1;
    } else {
      for (int k = i; k < i + 2 * (dim - 1); k += 2) {
        if (d->efc_force[k] + d->efc_force[k + 1] <= 0) continue;
        AddRow(k, c);
        AddRow(k + 1, c);
      }
      i += 2 * (dim - 1) - 1;
    }
  }
  moving_ = size();
  for (int i : normals) AddRow(i, d->efc_id[i]);

  RowMatrix J = RowMatrix::Zero(moving_, nv_);
  y_.resize(moving_);
  for (int i = 0; i < moving_; i++) {
    y_[i] = -d->efc_aref[efc(i)];
    ForJacobianRow(m, d, efc(i), [&](int dof, double value) {
      J(i, dof) = value;
      y_[i] += value * a[dof];
    });
  }
  C_.resize(moving_, nv_);
  if (moving_) mj_solveM(m, const_cast<mjData*>(d), C_.data(), J.data(), moving_);
  A_.noalias() = J * C_.transpose();
}

bool FrictionRows::Linearize(const mjModel* m, const mjData* d, const double* a, const ConstraintDerivative& constraint,
                             const TendonMoments* tendons, std::string* missing) {
  chain_.clear();
  for (int i = 0; i < size(); i++) {
    Row& row = row_[i];
    if (row.chain >= 0) continue;
    const int type = d->efc_type[row.efc], id = d->efc_id[row.efc], chain = static_cast<int>(chain_.size());
    if (row.contact >= 0) {
      const ContactMotion* motion = constraint.contact_motion(id);
      if (!motion || HasBelt(m, d->contact[id])) {
        *missing = ContactName(m, d->contact[id]);
        return false;
      }
      chain_.emplace_back();
      for (Row& other : row_) {
        if (other.contact == id) other.chain = chain;
      }
      Contact(m, d, id, *motion);
    } else if (type == mjCNSTR_FRICTION_TENDON) {
      if (!tendons) {
        *missing = "friction loss of " + ElementName(m, mjOBJ_TENDON, id);
        return false;
      }
      const Moment& moment = (*tendons)[id];
      chain_.push_back({moment.dof, moment.dof});
      row.J = moment.J;
      row.turn = moment.G;
      row.direct.setZero(moment.size());
      row.chain = chain;
    } else {
      chain_.push_back({{id}, {}});
      row.J = Eigen::VectorXd::Ones(1);
      row.turn.resize(1, 0);
      row.direct.resize(0);
      row.chain = chain;
    }
  }

  // (C7), (C18) y at fixed a, along a J that turns
  for (Row& row : row_) {
    row.damping = d->efc_KBIP[4 * row.efc + 1];
    const Chain& chain = chain_[row.chain];
    for (std::size_t n = 0; n < chain.dof.size(); n++) {
      const double rate = a[chain.dof[n]] + row.damping * d->qvel[chain.dof[n]];
      row.direct += PLANT("noslip: rows turn", rate * row.turn.row(n).transpose());
    }
  }

  // (N6)
  field_.resize(moving_ + 1);
  for (int i = 0; i < moving_; i++) MakeField(m, d, C_.row(i).data(), &field_[i]);
  dA_.assign(static_cast<std::size_t>(moving_) * moving_ * nv_, 0);
  for (int i = 0; i < moving_; i++) {
    for (int j = 0; j <= i; j++) {
      double* out = dA_.data() + (static_cast<std::size_t>(i) * moving_ + j) * nv_;
      for (int k = 0; k < nv_; k++) out[k] = MassRate(m, k, field_[i], field_[j]);
      Turn(row_[i], C_.row(j).data(), out);
      Turn(row_[j], C_.row(i).data(), out);
      if (i != j) std::copy(out, out + nv_, dA_.data() + (static_cast<std::size_t>(j) * moving_ + i) * nv_);
    }
  }
  return true;
}

// (N5) the rows of contact c
void FrictionRows::Contact(const mjModel* m, const mjData* d, int c, const ContactMotion& motion) {
  Chain* chain = &chain_.back();
  const mjContact& contact = d->contact[c];
  ContactJacobian rows(m, d, axes_, contact, motion, contact.dim);
  chain->dof = rows.dof;
  chain->turner = rows.turner;
  const RowMatrix& J = rows.J;
  const std::vector<RowMatrix>& turn = rows.turn;

  // rows of efc
  const ContactStiffness stiffness(m, d, contact);
  const int first = contact.efc_address;
  for (Row& row : row_) {
    if (row.contact != c) continue;
    const int k = row.efc - first;
    row.gain = stiffness.gain;
    row.reach = rows.moved.row(0).transpose();
    if (d->efc_type[first] == mjCNSTR_CONTACT_PYRAMIDAL) {
      const int tangent = k / 2 + 1;
      const double mu = k % 2 ? -contact.friction[tangent - 1] : contact.friction[tangent - 1];
      row.J = J.row(0) + mu * J.row(tangent);
      row.turn = turn[0] + mu * turn[tangent];
    } else {
      row.J = J.row(k);
      row.turn = turn[k];
    }
    const bool normal = d->efc_type[first] == mjCNSTR_CONTACT_PYRAMIDAL || k == 0;
    row.direct = (normal ? stiffness.kappa[0] : 0) * row.reach;
  }
}

// out += (∂J/∂q) C
void FrictionRows::Turn(const Row& row, const double* C, double* out) const {
  const Chain& chain = chain_[row.chain];
  const std::size_t turners = chain.turner.size();
  for (std::size_t n = 0; n < chain.dof.size(); n++) {
    const double x = C[chain.dof[n]];
    const double* turn = row.turn.data() + n * turners;
    for (std::size_t k = 0; k < turners; k++) out[chain.turner[k]] += x * turn[k];
  }
}

void FrictionRows::MakeField(const mjModel* m, const mjData* d, const double* C, Field* field) {
  field->turned.resize(nv_);
  field->momentum.resize(m->nbody);
  velocity_[0].setZero();
  for (int b = 1; b < m->nbody; b++) {
    Vec6 V = velocity_[m->body_parentid[b]], before = V;
    const int begin = m->body_dofadr[b], end = begin + m->body_dofnum[b];
    for (int j = begin; j < end; j++) {
      const Vec6 S = Vec6Map(d->cdof + 6 * j);
      if (axes_.group[j] == j) before = V;
      field->turned[j] = CrossMotion(S, before);
      V += C[j] * S;
    }
    velocity_[b] = V;
    field->momentum[b] = Inertia::From(d->cinert + 10 * b) * V;
  }
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    if (m->body_parentid[b] > 0) field->momentum[m->body_parentid[b]] += field->momentum[b];
  }
}

// −a·∂M/∂q b
double FrictionRows::MassRate(const mjModel* m, int dof, const Field& a, const Field& b) const {
  const int body = m->dof_bodyid[dof];
  return PLANT("noslip: inertia turns", a.turned[dof].dot(b.momentum[body]) + b.turned[dof].dot(a.momentum[body]));
}

void FrictionRows::Slopes(const mjData* d, const RowMatrix& da, bool direct, RowMatrix* dy, RowMatrix* df) const {
  dy->setZero(size(), da.cols());
  df->setZero(size(), da.cols());
  RowMatrix reach = RowMatrix::Zero(size(), direct ? nv_ : 0);
  for (int i = 0; i < size(); i++) {
    const Row& row = row_[i];
    const Chain& chain = chain_[row.chain];
    for (std::size_t n = 0; n < chain.dof.size(); n++) {
      dy->row(i) += row.J[n] * da.row(chain.dof[n]);
      if (direct) (*dy)(i, nv_ + chain.dof[n]) += PLANT("noslip: damping", row.damping * row.J[n]);
    }
    for (std::size_t k = 0; k < chain.turner.size() && direct; k++) {
      (*dy)(i, chain.turner[k]) += row.direct[k];
      if (row.contact >= 0) reach(i, chain.turner[k]) += row.reach[k];
    }
  }

  // (C8), (C11)
  for (int i = 0; i < size(); i++) {
    const Row& row = row_[i];
    const int state = d->efc_state[row.efc];
    if (state == mjCNSTRSTATE_QUADRATIC) {
      df->row(i) = PLANT("noslip: force before", -d->efc_D[row.efc] * dy->row(i));
    } else if (state == mjCNSTRSTATE_CONE) {
      const mjContact& contact = d->contact[row.contact];
      for (int k = 0; k < contact.dim; k++) {
        df->row(i) -=
            PLANT("noslip: force before, sliding", contact.H[(row.efc - contact.efc_address) * contact.dim + k] *
                                                       dy->row(index_[contact.efc_address + k]));
      }
    }
    if (row.contact >= 0 && state != mjCNSTRSTATE_SATISFIED) {
      df->row(i).head(reach.cols()) +=
          PLANT("noslip: force before, impedance", d->efc_force[row.efc] * row.gain * reach.row(i));
    }
  }
}

void FrictionRows::AddTurning(const mjModel* m, const mjData* d, const double* delta, RowMatrix* out) {
  // Σ δ ∂J/∂q, then M⁻¹ of it row by row; e = C δ
  RowMatrix turned = RowMatrix::Zero(nv_, nv_);  // (k, n)
  Eigen::VectorXd e = C_.transpose() * Eigen::Map<const Eigen::VectorXd>(delta, moving_);
  for (int i = 0; i < moving_; i++) {
    const Chain& chain = chain_[row_[i].chain];
    for (std::size_t n = 0; n < chain.dof.size(); n++) {
      for (std::size_t k = 0; k < chain.turner.size(); k++) {
        turned(chain.turner[k], chain.dof[n]) += PLANT("noslip: push turns", delta[i] * row_[i].turn(n, k));
      }
    }
  }
  RowMatrix solved(nv_, nv_);
  mj_solveM(m, const_cast<mjData*>(d), solved.data(), turned.data(), nv_);
  Field &of_e = field_[moving_], unit;
  MakeField(m, d, e.data(), &of_e);
  RowMatrix inverse(nv_, nv_), identity = RowMatrix::Identity(nv_, nv_);
  mj_solveM(m, const_cast<mjData*>(d), inverse.data(), identity.data(), nv_);
  for (int n = 0; n < nv_; n++) {
    MakeField(m, d, inverse.row(n).data(), &unit);
    for (int k = 0; k < nv_; k++)
      (*out)(n, k) += solved(k, n) + PLANT("noslip: acceleration turns", MassRate(m, k, unit, of_e));
  }
}

}  // namespace costate
