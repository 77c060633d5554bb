#include "derivative/adhesion.h"

#include <costate/model.h>

#include "core/plugins.h"
#include "derivative/actuation.h"

namespace costate {

namespace {

// collided, at most within the gap
bool Touches(const mjContact& contact) { return contact.exclude <= 1; }

bool IsContactOf(const mjModel* m, const mjContact& contact, int body) {
  if (!Touches(contact) || contact.geom[0] < 0 || contact.geom[1] < 0) return false;
  return m->geom_bodyid[contact.geom[0]] == body || m->geom_bodyid[contact.geom[1]] == body;
}

bool ActsOnContacts(const mjModel* m, int i) {
  return m->actuator_trntype[i] == mjTRN_BODY && !(m->opt.disableflags & mjDSBL_ACTUATION);
}

}  // namespace

bool HasAdhesiveActuator(const mjModel* m) {
  for (int i = 0; i < m->nactuator; i++) {
    if (ActsOnContacts(m, i)) return true;
  }
  return false;
}

bool HasAdhesion(const mjModel* m) { return m->flg_adhesion || HasAdhesiveActuator(m); }

void FindAdhesive(const mjModel* m, const mjData* d, std::vector<char>* pulled) {
  pulled->assign(d->ncon, 0);
  for (int c = 0; c < d->ncon; c++) {
    const mjContact& contact = d->contact[c];
    (*pulled)[c] = Touches(contact) && contact.adhesion != 0;
    for (int i = 0; i < m->nactuator && !(*pulled)[c]; i++) {
      (*pulled)[c] = ActsOnContacts(m, i) && IsContactOf(m, contact, m->actuator_trnid[2 * i]);
    }
  }
}

void AddGeomPulls(const mjModel* m, const mjData* d, std::vector<double>* pull) {
  if (!HasPassiveForces(m)) return;
  for (int c = 0; c < d->ncon; c++) {
    if (Touches(d->contact[c])) (*pull)[c] += d->contact[c].adhesion;
  }
}

void AddActuatorPulls(const mjModel* m, const mjData* d, std::vector<double>* pull) {
  for (int i = 0; i < m->nactuator; i++) {
    if (!ActsOnContacts(m, i)) continue;
    const int body = m->actuator_trnid[2 * i];
    int count = 0;
    for (int c = 0; c < d->ncon; c++) count += IsContactOf(m, d->contact[c], body);
    for (int c = 0; c < d->ncon; c++) {
      if (IsContactOf(m, d->contact[c], body)) (*pull)[c] += d->actuator_force[m->actuator_outadr[i]] / count;
    }
  }
}

}  // namespace costate
