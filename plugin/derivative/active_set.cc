#include "derivative/active_set.h"

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

int OtherRows(const mjData* d) { return d->ne + d->nf + d->nl; }

double DistanceSquared(const double* a, const double* b) {
  double sum = 0;
  for (int k = 0; k < 3; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

}  // namespace

ActiveSet::Contact ActiveSet::MakeContact(const mjData* d, int i) {
  const mjContact& c = d->contact[i];
  Contact out;
  const int pair[8] = {c.geom[0], c.geom[1], c.flex[0], c.flex[1], c.elem[0], c.elem[1], c.vert[0], c.vert[1]};
  std::copy(pair, pair + 8, out.pair);
  out.dim = c.dim;
  out.row = c.efc_address;
  const bool pyramid = d->efc_type[c.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL;
  out.rows = pyramid ? 2 * (c.dim - 1) : c.dim;
  std::copy(c.pos, c.pos + 3, out.position);
  std::copy(c.frame, c.frame + 3, out.normal);
  return out;
}

void ActiveSet::Capture(const mjData* d) {
  other_rows_ = OtherRows(d);
  rows_.resize(d->nefc);
  for (int i = 0; i < d->nefc; i++) rows_[i] = {d->efc_type[i], d->efc_id[i], d->efc_state[i], d->efc_pos[i]};
  contacts_.clear();
  for (int i = 0; i < d->ncon; i++) {
    if (d->contact[i].efc_address >= 0) contacts_.push_back(MakeContact(d, i));
  }
}

bool ActiveSet::Match(const mjData* d) {
  match_.assign(d->nefc, -1);
  found_.assign(rows_.size(), 0);
  MatchOther(d);
  MatchContacts(d);

  // a row that carries no force may vanish
  for (std::size_t k = 0; k < rows_.size(); k++) {
    if (!found_[k] && rows_[k].state != mjCNSTRSTATE_SATISFIED) return false;
  }
  return true;
}

// rows of equalities, friction loss and limits: same type and element, nearest position when an element has several
void ActiveSet::MatchOther(const mjData* d) {
  const int other = OtherRows(d);
  for (int i = 0; i < other; i++) {
    const auto same = [&](int k) {
      return rows_[k].type == d->efc_type[i] && rows_[k].id == d->efc_id[i] && !found_[k];
    };
    const auto distance = [&](int k) { return std::abs(rows_[k].position - d->efc_pos[i]); };
    int best = -1;
    if (other == other_rows_ || i < d->ne + d->nf) {
      // the order within an element is fixed, so equal lists match row by row
      if (i < other_rows_ && same(i)) best = i;
    }
    for (int k = 0; best < 0 && k < other_rows_; k++) {
      if (!same(k)) continue;
      best = k;
      for (int l = k + 1; l < other_rows_; l++) {
        if (same(l) && distance(l) < distance(best)) best = l;
      }
    }
    if (best >= 0) {
      match_[i] = best;
      found_[best] = 1;
    }
  }
}

// contacts: same pair, nearest point and normal; both lists are in engine order, so the search starts where it ended
void ActiveSet::MatchContacts(const mjData* d) {
  constexpr double kNear = 1e-4;  // squared; a stencil moves points by far less
  const int n = static_cast<int>(contacts_.size());
  int start = 0;
  for (int i = 0; i < d->ncon; i++) {
    if (d->contact[i].efc_address < 0) continue;
    const Contact c = MakeContact(d, i);
    int best = -1;
    double best_distance = kNear;
    bool in_pair = false;
    for (int k = 0; k < n; k++) {
      const int index = (start + k) % n;
      const Contact& other = contacts_[index];
      const bool same = std::equal(c.pair, c.pair + 8, other.pair);
      if (in_pair && !same && index > start) break;
      in_pair = in_pair || (same && index > start);
      if (!same || c.rows != other.rows || found_[other.row]) continue;
      const double distance = DistanceSquared(c.position, other.position) + DistanceSquared(c.normal, other.normal);
      if (distance < best_distance) {
        best = index;
        best_distance = distance;
      }
    }
    if (best < 0) continue;
    for (int k = 0; k < c.rows; k++) {
      match_[c.row + k] = contacts_[best].row + k;
      found_[contacts_[best].row + k] = 1;
    }
    // step back to the first contact of the pair: its others may come in another order
    start = best;
    while (start > 0 && std::equal(c.pair, c.pair + 8, contacts_[start - 1].pair)) start--;
  }
}

void ActiveSet::Force(const mjData* d, const double* y, double* force, const std::vector<char>* only) const {
  for (int i = 0; i < d->nefc; i++) {
    const bool acts = match_[i] >= 0 && (!only || (*only)[match_[i]]);
    const int state = acts ? rows_[match_[i]].state : mjCNSTRSTATE_SATISFIED;
    switch (state) {
      case mjCNSTRSTATE_QUADRATIC: force[i] = -d->efc_D[i] * y[i]; break;
      case mjCNSTRSTATE_LINEARNEG: force[i] = d->efc_frictionloss[i]; break;
      case mjCNSTRSTATE_LINEARPOS: force[i] = -d->efc_frictionloss[i]; break;
      case mjCNSTRSTATE_CONE: {
        // middle zone of the elliptic cone: U_j = friction_j y_j, T = |U|,
        // f0 = -D0 (y0 - T) / (1 + mu²), f_j = -f0 U_j friction_j / T
        const mjContact& con = d->contact[d->efc_id[i]];
        double U[6], T = 0;
        for (int j = 1; j < con.dim; j++) {
          U[j] = y[i + j] * con.friction[j - 1];
          T += U[j] * U[j];
        }
        T = std::max(std::sqrt(T), mjMINVAL);
        force[i] = -d->efc_D[i] * (y[i] - T) / (1 + con.mu * con.mu);
        for (int j = 1; j < con.dim; j++) force[i + j] = -force[i] / T * U[j] * con.friction[j - 1];
        i += con.dim - 1;
        break;
      }
      default: force[i] = 0;
    }
  }
}

}  // namespace costate
