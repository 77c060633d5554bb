#include "derivative/parameter_closed.h"

#include <cstring>

#include "core/joint.h"
#include "derivative/fluid.h"
#include "derivative/impedance.h"
#include "derivative/passive.h"
#include "derivative/plant.h"

namespace costate {
namespace {

using Vector10 = ClosedParameters::Vector10;

// (Q5) X·I Y as a linear form in (m, m c, Ī) about a point p with axes R
Vector10 Regressor(const Vec6& X, const Vec6& Y, const Mat3& R, const Vec3& p) {
  const Vec3 xa = R.transpose() * X.head<3>(), xv = R.transpose() * (X.tail<3>() + X.head<3>().cross(p));
  const Vec3 ya = R.transpose() * Y.head<3>(), yv = R.transpose() * (Y.tail<3>() + Y.head<3>().cross(p));
  Vector10 form;
  form[0] = PLANT("parameters: mass", xv.dot(yv));
  form.segment<3>(1) =
      PLANT("parameters: first moment", yv.cross(xa)) + PLANT("parameters: first moment, other side", xv.cross(ya));
  form.segment<3>(4) = PLANT("parameters: moments of inertia", xa.cwiseProduct(ya));
  form[7] = PLANT("parameters: product of inertia 01", xa[0] * ya[1] + xa[1] * ya[0]);
  form[8] = PLANT("parameters: product of inertia 02", xa[0] * ya[2] + xa[2] * ya[0]);
  form[9] = PLANT("parameters: product of inertia 12", xa[1] * ya[2] + xa[2] * ya[1]);
  return form;
}

void SetInertia(const Mat3& I, Vector10* out) {
  out->tail<6>() << I(0, 0), I(1, 1), I(2, 2), I(0, 1), I(0, 2), I(1, 2);
}

bool Is(const Field& field, const char* kind, const char* name) {
  return std::strcmp(field.kind, kind) == 0 && std::strcmp(field.name, name) == 0;
}

// inverse weights in one row: bodies (translation, rotation), dofs, tendons
double Weight(const mjModel* m, int i) {
  const int bodies = 2 * static_cast<int>(m->nbody), dofs = static_cast<int>(m->nv);
  if (i < bodies) return m->body_invweight0[i];
  return i < bodies + dofs ? m->dof_invweight0[i - bodies] : m->tendon_invweight0[i - bodies - dofs];
}
int Weights(const mjModel* m) { return static_cast<int>(2 * m->nbody + m->nv + m->ntendon); }

// ∂(m, m c, Ī)/∂θ of one body by one of its parameters
Vector10 InertiaSlope(const mjModel* m, const ParameterStencils& stencils, int k) {
  const Field& field = stencils.field(k);
  const int b = stencils.element(k), index = stencils.index(k);
  const double mass = m->body_mass[b];
  const Vec3 c = Vec3Map(m->body_ipos + 3 * b);
  mjtNum axes[9];
  mju_quat2Mat(axes, m->body_iquat + 4 * b);
  const Mat3 R = Mat3Map(axes), one = Mat3::Identity();
  Vector10 slope = Vector10::Zero();
  if (field.writer == Writer::kLogCholesky) {
    return PLANT("parameters: log-Cholesky", LogCholeskyJacobian(stencils.block(k)).col(index));
  }
  if (field.writer == Writer::kScale) {
    slope[0] = PLANT("parameters: mass by scale", mass);
    slope.segment<3>(1) = PLANT("parameters: first moment by scale", mass * c);
    const Mat3 about_com = R * Vec3Map(m->body_inertia + 3 * b).asDiagonal() * R.transpose();
    SetInertia(PLANT("parameters: inertia by scale", about_com) +
                   PLANT("parameters: Steiner's part by scale", mass * (c.squaredNorm() * one - c * c.transpose())),
               &slope);
    return slope / stencils.block(k)[0];
  }
  if (Is(field, "body", "mass")) {
    slope[0] = PLANT("parameters: mass by mass", 1);
    slope.segment<3>(1) = PLANT("parameters: first moment by mass", c);
    SetInertia(PLANT("parameters: inertia by mass", c.squaredNorm() * one - c * c.transpose()), &slope);
  } else if (Is(field, "body", "ipos")) {
    const Vec3 e = Vec3::Unit(index);
    slope.segment<3>(1) = PLANT("parameters: first moment by ipos", mass * e);
    SetInertia(
        PLANT("parameters: inertia by ipos", mass * (2 * c[index] * one - e * c.transpose() - c * e.transpose())),
        &slope);
  } else {
    SetInertia(PLANT("parameters: inertia by diaginertia", R.col(index) * R.col(index).transpose()), &slope);
  }
  return slope;
}

}  // namespace

void ClosedParameters::Classify(const mjModel* m, ParameterStencils* stencils, int k, Entry* entry) const {
  const Field& field = stencils->field(k);
  const int id = stencils->element(k), index = stencils->index(k);
  const bool joint = std::strcmp(field.kind, "joint") == 0;
  const bool scalar = joint && IsScalarJoint(m->jnt_type[id]);
  const auto set = [entry](Kind kind, int at) {
    entry->kind = kind;
    entry->id = at;
  };
  if (Is(field, "option", "gravity")) set(kGravity, index);
  if (Is(field, "joint", "damping") && m->jnt_type[id] != mjJNT_FREE) set(kDamping, m->jnt_dofadr[id] + index);
  if (Is(field, "joint", "stiffness") && scalar) set(kStiffness, id);
  if (Is(field, "joint", "springref") && mju_isZero(m->jnt_stiffnesspoly + mjNPOLY * id, mjNPOLY)) set(kSpringRef, id);
  if (Is(field, "joint", "armature")) set(kArmature, m->jnt_dofadr[id] + index);
  if (Is(field, "joint", "frictionloss")) set(kFrictionLoss, m->jnt_dofadr[id] + index);
  const bool inertial = field.writer == Writer::kLogCholesky || field.writer == Writer::kScale ||
                        Is(field, "body", "mass") || Is(field, "body", "ipos") || Is(field, "body", "diaginertia");
  if (inertial) {
    set(kInertial, id);
    entry->moves_com = Is(field, "body", "ipos") || (field.writer == Writer::kLogCholesky && index >= 7);
    entry->inertia = InertiaSlope(m, *stencils, k);
  }

  // inverse weights of the stencil's models
  if (entry->kind != kInertial && entry->kind != kArmature) return;
  VectorXd slope = VectorXd::Zero(Weights(m));
  const auto& points = stencils->Points(k);
  for (std::size_t i = 0; i < points.size(); i++) {
    const mjModel* moved = stencils->Model(k, static_cast<int>(i));
    for (int w = 0; w < slope.size(); w++) {
      slope[w] += PLANT("parameters: inverse weight", points[i].weight * Weight(moved, w));
    }
  }
  for (int w = 0; w < slope.size(); w++) {
    if (slope[w] != 0) entry->weights.emplace_back(w, slope[w]);
  }
}

void ClosedParameters::Refresh(ParameterStencils* stencils) {
  entries_.assign(static_cast<std::size_t>(stencils->size()), {});
  any_weights_ = any_bodies_ = automatic_muscles_ = false;
  for (int k = 0; k < stencils->size(); k++) {
    Entry& entry = entries_[static_cast<std::size_t>(k)];
    const mjModel* m = stencils->Center();
    for (int i = 0; i < m->nactuator; i++) {
      const bool muscle = m->actuator_gaintype[i] == mjGAIN_MUSCLE;
      automatic_muscles_ = automatic_muscles_ || (muscle && m->actuator_gainprm[mjNGAIN * i + 2] < 0);
    }
    if (stencils->parameter(k).one_sided) continue;
    const mjModel values = *m;  // shallow: classified by what does not depend on the stencil's point
    Classify(&values, stencils, k, &entry);
    any_weights_ = any_weights_ || !entry.weights.empty();
    any_bodies_ = any_bodies_ || entry.kind == kGravity || entry.kind == kInertial;
  }
  stencils->Center();
}

// does anything else in this model read what the parameter writes?
bool ClosedParameters::Covers(const Entry& entry, const Point& p) const {
  const mjModel* m = p.model;
  const int integrator = m->opt.integrator;
  const auto disabled = [&](int bit) { return (m->opt.disableflags & bit) != 0; };
  const bool explicit_velocity = integrator == mjINT_RK4 || (integrator == mjINT_EULER && disabled(mjDSBL_EULERDAMP));
  const bool medium = HasFluid(m);
  switch (entry.kind) {
    case kNone: return false;
    case kGravity: return !disabled(mjDSBL_GRAVITY) && !m->flg_gravcomp;
    case kDamping: return p.closed_integrator && !disabled(mjDSBL_DAMPER) && (p.z || explicit_velocity);
    case kStiffness:  // of M̂, too
      if (integrator == mjINT_DISCRETE) return false;
      [[fallthrough]];
    case kSpringRef: return !disabled(mjDSBL_SPRING);
    case kFrictionLoss: return !disabled(mjDSBL_FRICTIONLOSS | mjDSBL_CONSTRAINT);
    case kArmature:
    case kInertial: break;
  }

  // M and, by inverse weights, every row; not where inertia is read otherwise
  bool covers = p.closed_integrator && integrator != mjINT_IMPLICIT && integrator != mjINT_DISCRETE && !medium &&
                !m->flg_gravcomp && !automatic_muscles_ && m->nflex == 0 && !(m->opt.enableflags & mjENBL_DIAGEXACT);
  if (integrator == mjINT_IMPLICITFAST) {
    // a standalone free body's M' holds velocity products
    const int tree = entry.kind == kArmature ? m->dof_treeid[entry.id] : m->body_treeid[entry.id];
    covers = covers &&
             !(tree >= 0 && m->tree_dofnum[tree] == 6 && m->jnt_type[m->dof_jntid[m->tree_dofadr[tree]]] == mjJNT_FREE);
  }
  return covers && !(entry.moves_com && !mju_isZero(p.data->xfrc_applied + 6 * entry.id, 6));
}

void ClosedParameters::Select(const Point& point) {
  closed_.assign(entries_.size(), 0);
  for (std::size_t k = 0; k < entries_.size(); k++) closed_[k] = Covers(entries_[k], point);
}

// (Q6) D of a row, of a whole contact, goes as 1/(sum of inverse weights): df = (−f + H e₀ R δ) d ln(sum), and −yᵀ dr =
// (J y)·df
void ClosedParameters::PullWeights(const Point& p) {
  const mjModel* m = p.model;
  const mjData* d = p.data;
  weights_.setZero(Weights(m));
  if (d->nefc == 0) return;
  Jy_.resize(d->nefc);
  mj_mulJacVec(m, d, Jy_.data(), p.y);
  const int dof0 = 2 * static_cast<int>(m->nbody), tendon0 = dof0 + static_cast<int>(m->nv);
  bool hardest = false;
  const auto add = [&](double force, int first, int second) {
    if (hardest) return;
    const double sum = Weight(m, first) + (second >= 0 ? Weight(m, second) : 0);
    weights_[first] -= force / sum;
    if (second >= 0) weights_[second] -= force / sum;
  };
  int equality = -1, row = 0;
  for (int i = 0; i < d->nefc; i++) {
    const int id = d->efc_id[i], state = d->efc_state[i];
    row = d->efc_type[i] == mjCNSTR_EQUALITY && id == equality ? row + 1 : 0;
    equality = d->efc_type[i] == mjCNSTR_EQUALITY ? id : -1;
    if (state != mjCNSTRSTATE_QUADRATIC && state != mjCNSTRSTATE_CONE) continue;
    hardest = IsHardest(d, i);
    const double force = Jy_[i] * d->efc_force[i];
    switch (d->efc_type[i]) {
      case mjCNSTR_EQUALITY: {
        int a = m->eq_obj1id[id], b = m->eq_obj2id[id];
        const int type = m->eq_type[id];
        if (type == mjEQ_CONNECT || type == mjEQ_WELD) {
          if (m->eq_objtype[id] == mjOBJ_SITE) a = m->site_bodyid[a], b = m->site_bodyid[b];
          const int rotation = type == mjEQ_WELD && row > 2;
          add(PLANT("parameters: weight, connect and weld", force), 2 * a + rotation, 2 * b + rotation);
        } else if (type == mjEQ_JOINT) {
          add(PLANT("parameters: weight, coupled joints", force), dof0 + m->jnt_dofadr[a],
              b >= 0 ? dof0 + m->jnt_dofadr[b] : -1);
        } else {
          add(PLANT("parameters: weight, coupled tendons", force), tendon0 + a, b >= 0 ? tendon0 + b : -1);
        }
        break;
      }
      case mjCNSTR_FRICTION_DOF: add(PLANT("parameters: weight, friction of a dof", force), dof0 + id, -1); break;
      case mjCNSTR_LIMIT_JOINT: add(PLANT("parameters: weight, limit", force), dof0 + m->jnt_dofadr[id], -1); break;
      case mjCNSTR_FRICTION_TENDON:
      case mjCNSTR_LIMIT_TENDON: add(PLANT("parameters: weight, row of a tendon", force), tendon0 + id, -1); break;
      default: {
        // an elliptic contact's rows have one state, on its first row; adhesion δ: aref += R δ, shared by a pyramid's
        // edges
        const mjContact& contact = d->contact[id];
        double all = force;
        if (d->efc_type[i] == mjCNSTR_CONTACT_ELLIPTIC) {
          const double shift = d->efc_R[i] * contact.adhesion;
          for (int k = 0; k < contact.dim; k++) {
            const double H = state == mjCNSTRSTATE_CONE ? contact.H[k * contact.dim] : k == 0 ? d->efc_D[i] : 0;
            if (k > 0) all += PLANT("parameters: weight, friction of a contact", Jy_[i + k] * d->efc_force[i + k]);
            all -= PLANT("parameters: weight, adhesion", Jy_[i + k] * H * shift);
          }
          i += contact.dim - 1;
        } else {
          const bool pyramid = d->efc_type[i] == mjCNSTR_CONTACT_PYRAMIDAL;
          all -= PLANT("parameters: weight, adhesion at an edge",
                       Jy_[i] * contact.adhesion / (pyramid ? 2 * (contact.dim - 1) : 1));
        }
        add(PLANT("parameters: weight, contact", all), 2 * m->geom_bodyid[contact.geom[0]],
            2 * m->geom_bodyid[contact.geom[1]]);
      }
    }
  }
}

// motions of all bodies from the root up: Σ S y, Σ S z, the acceleration of RNE, Σ S (a − ā)
void ClosedParameters::MoveBodies(const Point& p) {
  const mjModel* m = p.model;
  const mjData* d = p.data;
  bodies_.resize(static_cast<std::size_t>(m->nbody));
  bodies_[0] = {Vec6::Zero(), Vec6::Zero(), Vec6::Zero(), Vec6::Zero()};
  if (!(m->opt.disableflags & mjDSBL_GRAVITY)) {
    bodies_[0].A.tail<3>() = PLANT("parameters: gravity of bodies", -Vec3Map(m->opt.gravity));
  }
  for (int b = 1; b < m->nbody; b++) {
    BodyMotion& body = bodies_[static_cast<std::size_t>(b)];
    body = bodies_[static_cast<std::size_t>(m->body_parentid[b])];
    for (int j = m->body_dofadr[b], end = j + m->body_dofnum[b]; j < end; j++) {
      const Vec6 S = Vec6Map(d->cdof + 6 * j);
      body.W += PLANT("parameters: motion along y", S * p.y[j]);
      body.A += PLANT("parameters: acceleration", S * p.a[j]) +
                PLANT("parameters: velocity products", Vec6Map(d->cdof_dot + 6 * j) * d->qvel[j]);
      if (!p.z) continue;
      body.We += PLANT("parameters: motion along z", S * p.z[j]);
      body.Ae += PLANT("parameters: acceleration not applied", S * (p.a[j] - p.applied[j]));
    }
  }
}

void ClosedParameters::Pull(const Point& p, VectorXd* theta) {
  const mjModel* m = p.model;
  const mjData* d = p.data;
  if (any_weights_) PullWeights(p);
  if (any_bodies_) MoveBodies(p);
  for (std::size_t k = 0; k < entries_.size(); k++) {
    if (!closed_[k]) continue;
    const Entry& entry = entries_[k];
    const int id = entry.id;
    double value = 0;
    switch (entry.kind) {
      case kGravity:
        // r = … − Σ m g·(W at the centre of mass)
        for (int b = 1; b < m->nbody; b++) {
          const Vec6& W = bodies_[static_cast<std::size_t>(b)].W;
          const Vec3 r = Vec3Map(d->xipos + 3 * b) - Vec3Map(d->subtree_com + 3 * m->body_rootid[b]);
          value += m->body_mass[b] * (PLANT("parameters: gravity", W.tail<3>()) +
                                      PLANT("parameters: gravity's moment", W.head<3>().cross(r)))[id];
        }
        break;
      case kDamping:
        // r = … + d v, E = … − h d ā
        value = PLANT("parameters: damping", -p.y[id] * d->qvel[id]);
        if (p.z) value -= PLANT("parameters: damping in the integrator", m->opt.timestep * p.z[id] * p.applied[id]);
        break;
      case kStiffness: {
        const double x = d->qpos[m->jnt_qposadr[id]] - *SpringReference(m, d, id);
        value = PLANT("parameters: stiffness", -p.y[m->jnt_dofadr[id]] * x);
        break;
      }
      case kSpringRef:
        // a plastic spring rests at its state
        if (m->jnt_plasticadr[id] >= 0) break;
        value = PLANT("parameters: springref", p.y[m->jnt_dofadr[id]] * m->jnt_stiffness[id]);
        break;
      case kArmature:
        value = PLANT("parameters: armature", -p.y[id] * p.a[id]);
        if (p.z) value += PLANT("parameters: armature in the integrator", p.z[id] * (p.a[id] - p.applied[id]));
        break;
      case kFrictionLoss:
        for (int i = d->ne; i < d->ne + d->nf; i++) {
          if (d->efc_type[i] != mjCNSTR_FRICTION_DOF || d->efc_id[i] != id) continue;
          const int sign = (d->efc_state[i] == mjCNSTRSTATE_LINEARNEG) - (d->efc_state[i] == mjCNSTRSTATE_LINEARPOS);
          value = PLANT("parameters: friction loss", sign * p.y[id]);
        }
        break;
      case kInertial: {
        // r = … + W·(I A + V ×* I V), E = … + Wᵉ·I Aᵉ
        const BodyMotion& body = bodies_[static_cast<std::size_t>(id)];
        const Vec6 V = Vec6Map(d->cvel + 6 * id);
        const Mat3 R = Mat3Map(d->xmat + 9 * id);
        const Vec3 at = Vec3Map(d->xpos + 3 * id) - Vec3Map(d->subtree_com + 3 * m->body_rootid[id]);
        Vector10 form = PLANT("parameters: inertia by velocities", Regressor(CrossMotion(V, body.W), V, R, at)) -
                        PLANT("parameters: inertia by accelerations", Regressor(body.W, body.A, R, at));
        if (p.z) form += PLANT("parameters: inertia in the integrator", Regressor(body.We, body.Ae, R, at));
        value = form.dot(entry.inertia);
        break;
      }
      case kNone: break;
    }
    for (const auto& [w, slope] : entry.weights) value += weights_[w] * slope;
    (*theta)[static_cast<Eigen::Index>(k)] += value;
  }
}

}  // namespace costate
