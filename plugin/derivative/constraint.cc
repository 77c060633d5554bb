#include "derivative/constraint.h"

#include <algorithm>
#include <cmath>

#include <costate/model.h>

#include "derivative/chain.h"
#include "derivative/chain_axes.h"
#include "derivative/contact_belt.h"
#include "derivative/contact_block.h"
#include "derivative/equilibrium.h"
#include "derivative/fluid.h"
#include "derivative/impedance.h"
#include "derivative/plant.h"
#include "derivative/spatial_lanes.h"

namespace costate {

ConstraintDerivative::ConstraintDerivative(const mjModel* model, const FlexForces* flexes)
    : flexes_(flexes),
      geometry_(model),
      contact_body_(model->nbody),
      body_(model->nbody),
      single_q_(model->nv),
      single_v_(model->nv),
      single_h_(model->nv) {}

std::string ConstraintDerivative::MoveContacts(const mjModel* model, mjData* data, const std::vector<char>& pulled) {
  motion_missing_.clear();
  geometry_.Compute(model, data, &motion_missing_, use_products_ && !all_contacts_, &pulled);
  moved_ = true;
  for (int c = 0; c < data->ncon; c++) {
    if (pulled[c] && !geometry_.has_motion(c))
      return motion_missing_.empty() ? ContactName(model, data->contact[c]) : motion_missing_;
  }
  return "";
}

// all that the last point left
void ConstraintDerivative::Clear() {
  bend_.clear();
  for (BodyConstraint& body : body_) {
    if (body.active) body = BodyConstraint();
  }
  any_body_ = any_contact_ = false;
  for (const ContactProduct& contact : contact_) {
    for (int b : contact.body) {
      BodyConstraint& body = contact_body_[b];
      if (!body.active) continue;
      body.HH.setZero();
      body.F.setZero();
      body.active = false;
    }
  }
  contact_.clear();
  elements_ = 0;
  pair_.clear();
  chain_.clear();
  chain_sign_.clear();
  row_.clear();
  for (const SingleRow& row : single_) single_q_[row.dof] = single_v_[row.dof] = single_h_[row.dof] = 0;
  single_.clear();
  row_dof_.clear();
  row_J_.clear();
  ball_.clear();
  product_.clear();
  equality_.Clear();
}

bool ConstraintDerivative::Linearize(const mjModel* model, mjData* data, const TreeDerivative& tree,
                                     std::string* missing, const TendonMoments* tendons) {
  tendons_ = tendons;
  Clear();
  remainder_.assign(data->nefc, 0);
  missing->clear();
  bool contacts = false;

  // D of every row then depends on the whole configuration
  const bool exact_diagonal = data->nefc > 0 && (model->opt.enableflags & mjENBL_DIAGEXACT);
  const bool leave_all = exact_diagonal || leave_all_;
  closed_equalities_ = !leave_all;
  if (exact_diagonal) *missing = "diagexact: the exact diagonal of the constraint inertia moves with q";
  if (leave_all_ && data->nefc) *missing = leave_all_;
  for (int row = 0; row < data->nefc; row++) {
    if (data->efc_type[row] >= mjCNSTR_CONTACT_FRICTIONLESS) {
      contacts = true;
    } else if (leave_all) {
      Leave(model, data, row, 1);
    } else if (data->efc_type[row] == mjCNSTR_EQUALITY && IsBodyEquality(model, data->efc_id[row])) {
      const int id = data->efc_id[row], count = model->eq_type[id] == mjEQ_WELD ? 6 : 3;
      const bool behind = HasJointBehindBall(model, EqualityBody(model, id, 0)) ||
                          HasJointBehindBall(model, EqualityBody(model, id, 1));
      if (behind) {
        Leave(model, data, row, count);
        closed_equalities_ = false;
        if (missing->empty())
          *missing = "a joint behind a ball joint of one body, at " + ElementName(model, mjOBJ_EQUALITY, id);
      } else {
        equality_.Add(model, data, row);
        KeepHessian(data, row, count);
      }
      row += count - 1;
    } else if (std::string why; !AddSingle(model, data, row) && !ScalarRow(model, data, row, &why)) {
      Leave(model, data, row, 1);
      if (missing->empty()) *missing = why;
    }
  }
  if (!equality_.empty()) {
    equality_.AddWrenches(model, data, &body_);
    any_body_ = true;
  }
  if (contacts && !leave_all) {
    if (!moved_) geometry_.Compute(model, data, missing, use_products_ && !all_contacts_);
    else if (missing->empty()) *missing = motion_missing_;
  }
  moved_ = false;
  closed_contact_.assign(data->ncon, 0);
  element_of_.assign(data->ncon, -1);
  for (int c = 0; c < data->ncon; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0 || (use_products_ && !all_contacts_ && !CarriesForce(data, contact))) continue;
    BeltMotion belt;
    const bool moves = !leave_all && geometry_.has_motion(c), has_belt = moves && HasBelt(model, contact);
    const bool foreign = has_belt && !MoveBelt(model, data, contact, geometry_.motion(c), &belt);
    if (foreign && missing->empty()) {
      *missing = "surface velocity of the " + ContactName(model, contact) + ", which is not its geoms'";
    }
    if (!moves && !leave_all && ElementContact::Is(model, contact) && AddElement(model, data, contact)) {
      KeepHessian(data, contact.efc_address, RowCount(data, contact));
    } else if (!moves || foreign) {
      Leave(model, data, contact.efc_address, RowCount(data, contact));
      if (missing->empty()) *missing = ContactName(model, contact);
    } else {
      closed_contact_[c] = true;
      const BeltMotion* moving = has_belt ? &belt : nullptr;
      use_products_ ? KeepContact(model, data, c, tree, moving) : Contact(model, data, c, tree, moving);
    }
  }
  for (int c = 0; c < static_cast<int>(pull_.size()); c++) {
    if (pull_[c] != 0) AddPull(model, data, c);
  }
  return missing->empty();
}

bool ConstraintDerivative::AddElement(const mjModel* model, const mjData* data, const mjContact& contact) {
  if (HasBelt(model, contact)) return false;
  if (!axes_of_elements_) axes_of_elements_ = std::make_unique<AxisGroups>(model);
  if (static_cast<int>(element_.size()) == elements_) element_.emplace_back();
  if (!element_[elements_].Fill(model, data, contact, *axes_of_elements_)) return false;
  element_of_[&contact - data->contact] = elements_++;
  return true;
}

// (C21)
void ConstraintDerivative::AddPull(const mjModel* model, const mjData* data, int c) {
  if (use_products_) {
    contact_.emplace_back();
    contact_.back().FillPull(model, data, c, pull_[c]);
    return KeepWrench(model);
  }
  ContactBlock block;
  block.FillPull(model, data, data->contact[c], pull_[c]);
  AddBlock(model, block, geometry_.motion(c), nullptr);
}

// rows whose derivative is somebody else's
void ConstraintDerivative::Leave(const mjModel*, const mjData* data, int row, int count) {
  for (int i = row; i < row + count; i++) remainder_[i] = data->efc_state[i] != mjCNSTRSTATE_SATISFIED;
  KeepHessian(data, row, count);
}

// rows whose part of H is made from the engine's J
void ConstraintDerivative::KeepHessian(const mjData* data, int row, int count) {
  for (int i = row; i < row + count; i++) {
    const int state = data->efc_state[i];
    if (state == mjCNSTRSTATE_QUADRATIC) product_.push_back({i, i, data->efc_D[i]});
    for (int j = row; j < row + count && state == mjCNSTRSTATE_CONE; j++) {
      product_.push_back({i, j, data->contact[data->efc_id[i]].H[(i - row) * count + j - row]});
    }
  }
}

void ConstraintDerivative::AddFluidForces(const mjModel* model, const mjData* data) {
  if (AddFluid(model, data, &body_)) any_body_ = true;
}

void ConstraintDerivative::AddFollower(const mjModel* model, const mjData* data, int body, const Vec3& point,
                                       const Vec6& wrench) {
  if (LastDof(model, body) < 0) return;
  const Vec6 W = WrenchAbout(wrench, Origin(model, data, body) - point);
  BodyConstraint& out = body_[body];
  for (int c = 0; c < 6; c++) out.K.col(c) += PLANT("thruster", CrossForce(Vec6::Unit(c), W));
  out.F += W;
  out.active = any_body_ = true;
}

void ConstraintDerivative::Contact(const mjModel* model, const mjData* data, int c, const TreeDerivative& tree,
                                   const BeltMotion* belt) {
  const mjContact& contact = data->contact[c];
  ContactBlock block;
  if (!block.Fill(model, data, tree, contact, false)) return;
  any_contact_ = true;
  AddBlock(model, block, geometry_.motion(c), belt);
}

void ConstraintDerivative::AddBlock(const mjModel* model, const ContactBlock& block, const ContactMotion& motion,
                                    const BeltMotion* belt) {
  const int body1 = block.body[0], body2 = block.body[1];

  // the wrench by the twist of geom 2 and by that of both, about the origin
  const auto by_geom2 = [&] { return block.ByTwist(motion.by_geom2, belt ? &belt->by_geom2 : nullptr); };
  const auto by_both = [&] { return block.ByTwist(motion.by_both, belt ? &belt->by_both : nullptr); };

  if (!block.moves[0] || !block.moves[1]) {
    // one body against the static world; on body 1 force and motion change sign together
    const bool second = block.moves[1];
    BodyConstraint& body = body_[second ? body2 : body1];
    body.K += by_geom2();
    if (!second) body.K -= by_both();
    body.HH += PLANT("contact: static partner, acceleration", block.F_by_a);
    body.Kv += PLANT("contact: static partner, velocity", block.F_by_v);
    body.F += PLANT("contact: static partner, wrench", second ? block.F : Vec6(-block.F));
    body.active = any_body_ = true;
    return;
  }

  Pair* pair = FindPair(model, body1, body2);
  const Mat6 K2 = by_geom2(), both = by_both();
  pair->K1 += both - K2;
  pair->K2 += K2;
  pair->Krig += both;
  pair->HH += PLANT("contact: pair, acceleration", block.F_by_a);
  pair->Kv += PLANT("contact: pair, velocity", block.F_by_v);
  body_[body2].F += PLANT("contact: pair, wrench", block.F);
  body_[body1].F -= WrenchAbout(block.F, -block.shift1);
  body_[body1].active = body_[body2].active = any_body_ = true;
}

ConstraintDerivative::Pair* ConstraintDerivative::FindPair(const mjModel* model, int body1, int body2) {
  for (Pair& pair : pair_) {
    if (pair.body1 == body1 && pair.body2 == body2) return &pair;
  }
  Pair& pair = pair_.emplace_back();
  pair.body1 = body1;
  pair.body2 = body2;
  for (Mat6* part : {&pair.K1, &pair.K2, &pair.Krig, &pair.HH, &pair.Kv}) part->setZero();
  pair.chain_start = static_cast<int>(chain_.size());

  pair.common = ForExclusiveDofs(model, LastDof(model, body1), LastDof(model, body2), [&](int dof, int side) {
    chain_.push_back(dof);
    chain_sign_.push_back(side ? 1 : -1);
  });
  pair.chain_count = static_cast<int>(chain_.size()) - pair.chain_start;
  return &pair;
}

// (C11) ∂r/∂q = JᵀJ (D κ − f g), ∂r/∂v = JᵀJ D b, H = JᵀJ D; friction rows have no position
ConstraintDerivative::RowFactors ConstraintDerivative::FactorsOf(const mjModel* model, const mjData* data, int row,
                                                                 bool quadratic) {
  const int type = data->efc_type[row];
  const RowLaw law = RowLawOf(model, data, row);
  const double D = quadratic ? data->efc_D[row] : 0;
  RowFactors out = {0, PLANT("row: velocity", D * law.damping), D, data->efc_force[row], law.damping};
  if (type != mjCNSTR_FRICTION_DOF && type != mjCNSTR_FRICTION_TENDON) {
    const double kappa = PLANT("row: stiffness", law.stiffness);
    out.q = D * kappa - PLANT("row: impedance", ImpedanceGain(model, data, row, out.force));
  }
  return out;
}

// where it is not quadratic, a constant force along a constant J
bool ConstraintDerivative::AddSingle(const mjModel* model, const mjData* data, int row) {
  const int dof = OnlyDof(model, data, row);
  if (dof < 0) return false;
  if (data->efc_state[row] != mjCNSTRSTATE_QUADRATIC) return true;
  const RowFactors factors = FactorsOf(model, data, row, true);
  single_.push_back({row, dof, factors.q, factors.v, factors.D});
  single_q_[dof] += factors.q;
  single_v_[dof] += factors.v;
  single_h_[dof] += PLANT("row: hessian", factors.D);
  return true;
}

bool ConstraintDerivative::ScalarRow(const mjModel* model, const mjData* data, int row, std::string* missing) {
  const int type = data->efc_type[row], id = data->efc_id[row];
  auto refuse = [&](int object, const char* what) {
    *missing = std::string(what) + " of " + ElementName(model, object, id);
    return false;
  };
  const bool quadratic = data->efc_state[row] == mjCNSTRSTATE_QUADRATIC;
  int curved_dof = -1;
  double curved_dJ = 0;

  // rows whose Jacobian is constant, linear in one joint or made of tendons' moments have a closed form here
  row_bend_.clear();
  if (type == mjCNSTR_EQUALITY) {
    const mjtNum* poly = model->eq_data + mjNEQDATA * id;
    const int object2 = model->eq_obj2id[id];
    if (model->eq_type[id] == mjEQ_JOINT) {
      if (object2 >= 0) {
        const int address = model->jnt_qposadr[object2];
        const double x = data->qpos[address] - model->qpos0[address];
        curved_dof = model->jnt_dofadr[object2];
        curved_dJ = PLANT("equality: joint", -(2 * poly[2] + 6 * poly[3] * x + 12 * poly[4] * x * x));
      }
    } else if (model->eq_type[id] == mjEQ_TENDON) {
      if (!TendonRow(model, data, row, missing)) return false;
    } else if (model->eq_type[id] == mjEQ_FLEX) {
      if (!EdgeRow(model, data, row)) return refuse(mjOBJ_EQUALITY, "edges");
    } else {
      return refuse(mjOBJ_EQUALITY, model->eq_type[id] == mjEQ_CONNECT ? "connect"
                                    : model->eq_type[id] == mjEQ_WELD  ? "weld"
                                                                       : "equality");
    }
  } else if (type == mjCNSTR_FRICTION_TENDON || type == mjCNSTR_LIMIT_TENDON) {
    if (!TendonRow(model, data, row, missing)) return false;
  }

  // beyond its loss, friction is a constant force: along a constant J it has no derivative
  if (!quadratic && (data->efc_state[row] == mjCNSTRSTATE_SATISFIED || row_bend_.empty())) return true;
  if (type == mjCNSTR_LIMIT_JOINT && model->jnt_type[id] == mjJNT_BALL)
    ball_.push_back(MakeBallLimit(model, data, row));

  for (Bend& bend : row_bend_) {
    bend.row = static_cast<int>(row_.size());
    bend_.push_back(bend);
  }
  Row& out = row_.emplace_back();
  out.efc = row;
  out.curved_dof = curved_dof;
  out.curved_dJ = curved_dJ;

  // entries of J
  out.start = static_cast<int>(row_dof_.size());
  ForJacobianRow(model, data, row, [this](int dof, double J) {
    if (J == 0) return;
    row_dof_.push_back(dof);
    row_J_.push_back(J);
  });
  out.count = static_cast<int>(row_dof_.size()) - out.start;

  static_cast<RowFactors&>(out) = FactorsOf(model, data, row, quadratic);
  if (out.curved_dof >= 0)
    out.rate = PLANT("equality: joint, rate", data->qacc[out.curved_dof] + out.damping * data->qvel[out.curved_dof]);
  return true;
}

// (C18) a row made of tendons: J = Σ scale J_tendon
TendonShare EqualityShare(const mjModel* model, const mjData* data, int equality, int side) {
  if (side == 0) return {};
  const mjtNum* poly = model->eq_data + mjNEQDATA * equality;
  const int tendon = model->eq_obj2id[equality];
  const double x = data->ten_length[tendon] - model->tendon_length0[tendon];
  return {-(poly[1] + 2 * poly[2] * x + 3 * poly[3] * x * x + 4 * poly[4] * x * x * x),
          -(2 * poly[2] + 6 * poly[3] * x + 12 * poly[4] * x * x)};
}

bool ConstraintDerivative::TendonRow(const mjModel* model, const mjData* data, int row, std::string* missing) {
  const int type = data->efc_type[row], id = data->efc_id[row];
  int tendon[2] = {id, -1};
  TendonShare share[2];
  if (type == mjCNSTR_EQUALITY) {
    tendon[0] = model->eq_obj1id[id];
    tendon[1] = model->eq_obj2id[id];
    if (tendon[1] >= 0) share[1] = EqualityShare(model, data, id, 1);
  } else if (type == mjCNSTR_LIMIT_TENDON) {
    // the row is the distance to a side; where both are as near, the lower one comes first
    const mjtNum* range = model->tendon_range + 2 * id;
    const double length = data->ten_length[id], below = length - range[0], above = range[1] - length;
    const bool second = row > 0 && data->efc_type[row - 1] == type && data->efc_id[row - 1] == id;
    share[0].scale = !second && std::abs(data->efc_pos[row] - below) <= std::abs(data->efc_pos[row] - above) ? 1 : -1;
  }
  for (int k = 0; k < 2 && tendon[k] >= 0; k++) {
    const bool fixed = IsFixedTendon(model, tendon[k]);
    if (fixed && share[k].slope == 0) continue;
    if (!tendons_) {
      *missing = "row of " + ElementName(model, mjOBJ_TENDON, tendon[k]);
      return false;
    }
    row_bend_.push_back({0, &(*tendons_)[tendon[k]], share[k].scale, share[k].slope});
  }
  return true;
}

// rows of an equality are those of the flex's edges in their order, but for edges that nothing moves
bool ConstraintDerivative::EdgeRow(const mjModel* model, const mjData* data, int row) {
  const int flex = model->eq_obj1id[data->efc_id[row]];
  if (!flexes_ || !HasEdges(model, flex)) return false;
  const bool first =
      row == 0 || data->efc_type[row - 1] != mjCNSTR_EQUALITY || data->efc_id[row - 1] != data->efc_id[row];
  int& edge = last_edge_;
  edge = first ? model->flex_edgeadr[flex] : edge + 1;
  for (const int end = model->flex_edgeadr[flex] + model->flex_edgenum[flex]; edge < end; edge++) {
    const Moment& moment = flexes_->edge(edge);
    if (moment.J.isZero(0)) continue;  // no row
    if (data->efc_pos[row] != data->flexedge_length[edge] - model->flexedge_length0[edge]) return false;
    row_bend_.push_back({0, &moment, 1, 0});
    return true;
  }
  return false;
}

// (C18) −∂f by the moment's dofs, beyond J (D κ − f g): y along a moment that turns, lengths that are no integral of it
Eigen::Map<Eigen::VectorXd> ConstraintDerivative::BendSlope(const mjData* data, const Bend& bend) const {
  const Row& row = row_[bend.row];
  const Moment& moment = *bend.moment;
  bend_slope_.resize(moment.size());
  Eigen::Map<Eigen::VectorXd> slope(bend_slope_.data(), moment.size());
  slope = row.q * bend.scale * (moment.length - moment.J);
  double along = 0;
  for (int i = 0; i < moment.size(); i++) {
    const double rate = data->qacc[moment.dof[i]] + row.damping * data->qvel[moment.dof[i]];  // a + b v
    along += moment.J[i] * rate;
    slope += PLANT("tendon row: bend", row.D * bend.scale * rate) * moment.G.row(i).transpose();
  }
  if (bend.scale_slope != 0) slope += PLANT("tendon row: slope", row.D * bend.scale_slope * along) * moment.length;
  return slope;
}

void ConstraintDerivative::AddRowTurning(const mjModel* model, const mjData* data, const AxisGroups& axes, int efc,
                                         const Eigen::VectorXd& x, Eigen::VectorXd* slope) const {
  if (data->efc_type[efc] == mjCNSTR_EQUALITY && IsBodyEquality(model, data->efc_id[efc]))
    return equality_.AddTurning(model, data, axes, efc, x, slope);
  for (const Row& row : row_) {
    if (row.efc == efc && row.curved_dof >= 0)
      (*slope)[row.curved_dof] += PLANT("joint row: turning", row.curved_dJ * x[row.curved_dof]);
  }
  for (const BallLimit& ball : ball_) {
    if (ball.efc != efc) continue;
    slope->segment<3>(ball.dof[0]) -= PLANT("ball limit: turning", ball.G.transpose() * x.segment<3>(ball.dof[0]));
  }
  for (const Bend& bend : bend_) {
    if (row_[bend.row].efc != efc) continue;
    const Moment& moment = *bend.moment;
    const Eigen::VectorXd turn =
        PLANT("tendon row: turning",
              bend.scale * moment.Turn(x.data()) + bend.scale_slope * moment.Along(x.data()) * moment.length);
    for (int j = 0; j < moment.size(); j++) (*slope)[moment.dof[j]] += turn[j];
  }
}

// (C18) and the force along it
void ConstraintDerivative::AddBends(const mjData* data, Columns* R) const {
  for (const Bend& bend : bend_) {
    const Row& row = row_[bend.row];
    const Moment& moment = *bend.moment;
    AddTurning(moment, PLANT("tendon row: turning force", row.force * bend.scale), nullptr, R);
    const auto by_q = BendSlope(data, bend);
    for (int n = row.start; n < row.start + row.count; n++) {
      for (int j = 0; j < moment.size(); j++) (*R)(row_dof_[n], moment.dof[j]) -= row_J_[n] * by_q[j];
    }
    if (bend.scale_slope == 0) continue;
    for (int i = 0; i < moment.size(); i++) {
      const double force = PLANT("tendon row: force slope", row.force * bend.scale_slope * moment.J[i]);
      for (int j = 0; j < moment.size(); j++) (*R)(moment.dof[i], moment.dof[j]) += force * moment.length[j];
    }
  }
}

// (C17) G = [ (θ/2) cot(θ/2) (1 − a aᵀ) + (θ/2) [a]× ] / θ
Mat3 ConstraintDerivative::BallAxisSlope(const mjModel* model, const mjData* data, int joint, Vec3* axis) {
  mjtNum quat[4];
  mju_copy4(quat, data->qpos + model->jnt_qposadr[joint]);
  mju_normalize4(quat);
  Vec3 turn;
  mju_quat2Vel(turn.data(), quat, 1);
  const double angle = std::max(mjMINVAL, turn.norm()), half = angle / 2;
  *axis = turn / angle;
  return PLANT("ball limit: axis",
               (half / std::tan(half) * (Mat3::Identity() - *axis * axis->transpose()) + half * Skew(*axis)) / angle);
}

ConstraintDerivative::BallLimit ConstraintDerivative::MakeBallLimit(const mjModel* model, const mjData* data,
                                                                    int row) const {
  const int joint = data->efc_id[row], dof = model->jnt_dofadr[joint];
  BallLimit ball;
  for (int k = 0; k < 3; k++) ball.dof[k] = dof + k;
  ball.efc = row;
  ball.force = data->efc_force[row];
  ball.D = data->efc_D[row];
  ball.rate = PLANT("ball limit: rate",
                    Vec3Map(data->qacc + dof) + RowLawOf(model, data, row).damping * Vec3Map(data->qvel + dof));
  ball.G = BallAxisSlope(model, data, joint, &ball.axis);
  return ball;
}

bool ConstraintDerivative::FindForce(const mjModel* model, const mjData* data, int efc, ScalarForce* out) const {
  *out = ScalarForce();
  const auto take = [out](const auto& row, int count, const int* dof, const double* J) {
    out->count = count;
    out->dof = dof;
    out->J = J;
    out->q = row.q;
    out->v = row.v;
    out->a = row.D;
  };
  for (const Row& row : row_) {
    if (row.efc == efc) take(row, row.count, row_dof_.data() + row.start, row_J_.data() + row.start);
  }
  for (const SingleRow& row : single_) {
    if (row.efc != efc) continue;
    take(row, 1, &row.dof, data->efc_J + (mj_isSparse(model) ? data->efc_J_rowadr[efc] : efc * model->nv + row.dof));
  }
  const auto turn = [&](const int* dof, const Eigen::VectorXd& by_q) {
    out->turning.insert(out->turning.end(), dof, dof + by_q.size());
    out->turn.insert(out->turn.end(), by_q.data(), by_q.data() + by_q.size());
  };
  for (const BallLimit& ball : ball_) {
    if (ball.efc == efc) turn(ball.dof, ball.D * (ball.G.transpose() * ball.rate));
  }
  for (const Bend& bend : bend_) {
    if (row_[bend.row].efc == efc) turn(bend.moment->dof.data(), -BendSlope(data, bend));
  }
  return !remainder_[efc];
}

void ConstraintDerivative::DeclareCouplings(const mjModel* model, const mjData* data, TreeSolver* H,
                                            const std::vector<std::vector<int>>* more) const {
  H->BeginCouplings();
  std::vector<int>& dofs = coupled_;
  for (const Product& product : product_) {
    if (product.row != product.col) continue;
    dofs.clear();
    ForJacobianRow(model, data, product.row, [&](int dof, double) { dofs.push_back(dof); });
    H->Couple(dofs.data(), static_cast<int>(dofs.size()));
  }
  first_pair_ = 0;
  for (const Product& product : product_) first_pair_ += product.row == product.col;
  for (const Pair& pair : pair_) H->Couple(chain_.data() + pair.chain_start, pair.chain_count);
  for (const Row& row : row_) {
    if (row.count > 1) H->Couple(row_dof_.data() + row.start, row.count);
  }
  for (int k = 0; more && k < static_cast<int>(more->size()); k++)
    H->Couple((*more)[k].data(), static_cast<int>((*more)[k].size()));
  H->EndCouplings();
}

void ConstraintDerivative::AddPairsAndRows(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                                           Columns* R, TreeSolver* H) const {
  const int nv = static_cast<int>(model->nv);

  for (int k = 0; R && k < elements_; k++) element_[k].Add(nv, R);
  for (const Product& product : product_) {
    if (!H) break;
    ForJacobianRow(model, data, product.row, [&](int i, double Ji) {
      ForJacobianRow(model, data, product.col, [&](int j, double Jj) {
        if (j <= i && Ji * Jj != 0) H->Add(i, j, product.factor * Ji * Jj);
      });
    });
  }

  // (C11), (C13)
  for (int i = 0; i < nv && !single_.empty() && H; i++) H->diagonal(i) += single_h_[i];
  if (R && !single_.empty()) {
    R->SubtractDiagonal(0, single_q_.data(), nv);
    R->SubtractDiagonal(nv, single_v_.data(), nv);
  }
  for (const Row& row : row_) {
    const int* dof = row_dof_.data() + row.start;
    const double* J = row_J_.data() + row.start;
    const auto add = [&](int i, int j, double JJ) __attribute__((always_inline)) {
      if (H && j <= i) H->Add(i, j, PLANT("row: hessian", JJ * row.D));
      if (!R) return;
      (*R)(i, j) -= JJ * row.q;
      (*R)(i, nv + j) -= JJ * row.v;
    };
    for (int a = 0; a < row.count; a++) {
      for (int b = 0; b < row.count; b++) add(dof[a], dof[b], J[a] * J[b]);
      if (R && row.curved_dof >= 0) (*R)(dof[a], row.curved_dof) -= J[a] * row.D * row.curved_dJ * row.rate;
    }
    if (R && row.curved_dof >= 0)
      (*R)(row.curved_dof, row.curved_dof) += PLANT("equality: joint, force", row.curved_dJ * row.force);
  }

  if (R) AddBends(data, R);
  if (R) equality_.AddColumns(model, data, tree, R);

  // (C17) Jᵀ turns at fixed f, and J turns in y
  for (const BallLimit& ball : ball_) {
    if (!R) break;
    const Mat3 block = -ball.force * ball.G - ball.axis * (ball.D * ball.rate.transpose() * ball.G);
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) (*R)(ball.dof[i], ball.dof[j]) += block(i, j);
    }
  }

  // (C9), (C10) bodies that both move: rows are dofs that move one of them, columns those and the common ones
  for (const Pair& pair : pair_) {
    if (H) AddPairHessian(model, data, pair, H->coupled(first_pair_ + static_cast<int>(&pair - pair_.data())), H);
    if (R && contact_.empty()) AddPair(model, data, tree, pair, R);
  }
}

COSTATE_SIMD void ConstraintDerivative::AddPair(const mjModel* model, const mjData* data, const TreeDerivative& tree,
                                                const Pair& pair, Columns* R) const {
  const int nv = static_cast<int>(model->nv), count = pair.chain_count;
  const int* chain = chain_.data() + pair.chain_start;
  const signed char* sign = chain_sign_.data() + pair.chain_start;
  const auto origin = [&](int body) __attribute__((always_inline)) {
    return LoadLanes(data->subtree_com + 3 * model->body_rootid[body]);
  };
  const Double4 shift1 = origin(pair.body2) - origin(pair.body1);
  const TreeDerivative::Field &first = tree.field(pair.body1), &second = tree.field(pair.body2);
  const Lanes6 Va[2] = {MotionAbout(first.va, shift1), second.va}, Vv[2] = {MotionAbout(first.v, shift1), second.v};

  // axes as the relative motion sees them, by components
  const auto axis = [&](int n) __attribute__((always_inline)) {
    const Lanes6 S = Lanes6::Load(data->cdof + 6 * chain[n]);
    return sign[n] < 0 ? -MotionAbout(S, shift1) : S;
  };
  ChainAxes axes(count, 2, &axes_);
  for (int n = 0; n < count; n++) axes.Set(n, axis(n));
  double* products[2] = {axes.products(0), axes.products(1)};

  for (int n = 0; n < count; n++) {
    const int m = chain[n], side = sign[n] > 0;
    const Lanes6 relative = axis(n), S = side ? relative : -relative;
    const Double4 shift = side ? Double4{} : shift1;
    const double s = sign[n];
    const Lanes6 field = MotionAbout(Lanes6::Load(tree.axis_field(m).data()), shift),
                 rate = MotionAbout(Lanes6::Load(tree.axis_rate(m).data()), shift);
    const Lanes6 dUa = s * (CrossMotion(S, Va[side]) - field), dUv = s * (CrossMotion(S, Vv[side]) + rate);
    const Lanes6 dFq = PLANT("contact: pair, fields by q",
                             Times(side ? pair.K2 : pair.K1, S) - Times(pair.HH, dUa) - Times(pair.Kv, dUv));
    axes.Multiply(ChainAxes::Of(dFq), 0, products[0]);
    axes.Multiply(ChainAxes::Of(-Times(pair.Kv, relative)), 0, products[1]);
    for (int k = 0; k < count; k++) {
      (*R)(chain[k], m) += products[0][k];
      (*R)(chain[k], nv + m) += products[1][k];
    }
  }
  for (int m = pair.common; m >= 0; m = model->dof_parentid[m]) {
    const Lanes6 S = Lanes6::Load(data->cdof + 6 * m);
    const Lanes6 dFq =
        PLANT("contact: pair, common fields", Times(pair.Krig, S) - Times(pair.HH, CrossMotion(S, Va[1] - Va[0])) -
                                                  Times(pair.Kv, CrossMotion(S, Vv[1] - Vv[0])));
    axes.Multiply(ChainAxes::Of(dFq), 0, products[0]);
    for (int k = 0; k < count; k++) (*R)(chain[k], m) += products[0][k];
  }
}

}  // namespace costate
