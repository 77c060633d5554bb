#include "derivative/contact_geometry.h"

#include <algorithm>
#include <cmath>

#include <costate/model.h>

#include "core/simd.h"
#include "derivative/contact_capsule_box.h"
#include "derivative/contact_clipped.h"
#include "derivative/contact_frame.h"
#include "derivative/flex.h"
#include "derivative/plant.h"
#include "derivative/spatial_lanes.h"

namespace costate {
namespace {

COSTATE_LANES Double4 Lanes(double x, double y, double z) { return Double4{x, y, z, 0}; }
COSTATE_LANES Double4 Lanes(const Vec3& x) { return Lanes(x[0], x[1], x[2]); }

// (G6) on a plane the normal rests: dφ = n·r, dp = r − n dφ/2
COSTATE_LANES void OnPlane(const ContactFrame& f, const Patch& patch, const Vec3& point, ContactMatrix* G) {
  // rows of −[x − point]× − H [n]×
  const Double4 n = Lanes(f.n), arm = Lanes(patch.x - point);
  const Double4 unit[3] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
  Double4 by_rotation[3], dphi = {};
  for (int i = 0; i < 3; i++) {
    by_rotation[i] =
        PLANT("contact geometry: plane",
              CrossLanes(arm, unit[i]) + CrossLanes(n, Lanes(patch.H(i, 0), patch.H(i, 1), patch.H(i, 2))));
    dphi += f.n[i] * by_rotation[i];
  }
  double* row = G->data();
  Lanes6{dphi, n}.Store(row);
  for (int i = 0; i < 3; i++)
    Lanes6{by_rotation[i] - f.n[i] / 2 * dphi, unit[i] - f.n[i] / 2 * n}.Store(row + 6 + 6 * i);
  Double4 turn = {};
  if (f.from_collider && f.HasTangent()) {
    turn = PLANT("contact geometry: tangent on a plane", CrossLanes(Lanes(f.e), Lanes(f.t2)) / f.length);
  }
  for (int i = 0; i < 3; i++) Lanes6{f.n[i] * turn, Double4{}}.Store(row + 24 + 6 * i);
}

bool AreBoxes(const mjModel* model, const mjContact& contact) {
  return model->geom_type[contact.geom[0]] == mjGEOM_BOX && model->geom_type[contact.geom[1]] == mjGEOM_BOX;
}

// does a cylinder show the other geom a cap or its side? Else its rim touches in the one point that was searched,
// although the normal that is found may be that of the other's face
bool LiesFlat(const GeomPose& cylinder, const Vec3& n) {
  constexpr double kCap = 0.996, kSide = 0.0894;  // cosines with the axis, between which the engine does not clip
  const double cosine = std::abs(cylinder.axis().dot(n));
  return cosine > kCap || cosine < kSide;
}

// does the engine clip flat parts of this contact against each other? Then it has copied the normal of a face.
bool IsClipped(const mjModel* model, const mjData* data, const mjContact& contact, bool owner[2]) {
  owner[0] = owner[1] = false;
  const int type[2] = {model->geom_type[contact.geom[0]], model->geom_type[contact.geom[1]]};
  if (!AreBoxes(model, contact) && (model->opt.disableflags & (mjDSBL_NATIVECCD | mjDSBL_MULTICCD))) return false;
  if (type[0] == mjGEOM_CAPSULE && type[1] == mjGEOM_BOX) return false;  // has a collider of its own
  for (int t : type) {
    if (t != mjGEOM_CAPSULE && t != mjGEOM_CYLINDER && t != mjGEOM_BOX && t != mjGEOM_MESH) return false;
  }
  const Vec3 n = Vec3Map(contact.frame);
  for (int side = 0; side < 2; side++) {
    owner[side] = ConvexShape(model, data, contact.geom[side]).HasFace(side ? -n : n);
  }
  for (int side = 0; side < 2; side++) {
    const bool rolls = !owner[side] && type[side] == mjGEOM_CYLINDER;
    if (rolls && !LiesFlat(GeomPose(model, data, contact.geom[side]), n)) return false;
  }
  return owner[0] || owner[1];
}

bool IsRound(int type) { return type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER; }

// is the centre of a ball, or the segment of a capsule, within a mesh or height field? Outside, the collider takes it
// for a point or a line and is exact; within, it searches on the round surface.
bool IsBallWithin(const mjModel* model, const mjContact& contact) {
  const int type[2] = {model->geom_type[contact.geom[0]], model->geom_type[contact.geom[1]]};
  if (type[0] != mjGEOM_HFIELD && type[1] != mjGEOM_MESH) return false;
  const int ball = type[0] == mjGEOM_HFIELD;
  if (type[ball] != mjGEOM_SPHERE && type[ball] != mjGEOM_CAPSULE) return false;
  if (model->opt.disableflags & mjDSBL_NATIVECCD) return false;
  const double outside = contact.dist + model->geom_size[3 * contact.geom[ball]];
  return outside <= model->opt.ccd_tolerance + contact.includemargin / 2;  // the mesh is rounder by half of it
}

// does a contact have rows, or does an adhesion pull by its normal?
bool IsFelt(const mjModel* m, const mjContact& contact) {
  if (contact.efc_address >= 0) return true;
  if (contact.exclude != 1 || contact.geom[0] < 0 || contact.geom[1] < 0) return false;
  if (contact.adhesion != 0) return true;
  for (int i = 0; i < m->nactuator; i++) {
    const int body = m->actuator_trnid[2 * i];
    if (m->actuator_trntype[i] != mjTRN_BODY) continue;
    if (body == m->geom_bodyid[contact.geom[0]] || body == m->geom_bodyid[contact.geom[1]]) return true;
  }
  return false;
}

// (K13) of a point outside a geom, or within it: to the border between two features that are nearest to it
double RoomOf(const GeomPose& geom, const Vec3& point) {
  const Vec3 local = geom.R.transpose() * (point - geom.center);
  if (geom.type == mjGEOM_CAPSULE) return std::abs(std::abs(local.z()) - geom.size(1));
  if (geom.type != mjGEOM_CYLINDER && geom.type != mjGEOM_BOX) return mjMAXVAL;

  // how far the point is beyond the geom, along each of its extents
  double beyond[3] = {local.head<2>().norm() - geom.size(0), std::abs(local.z()) - geom.size(1)};
  int count = 2;
  if (geom.type == mjGEOM_BOX) {
    for (int i = 0; i < 3; i++) beyond[i] = std::abs(local(i)) - geom.size(i);
    count = 3;
  }
  std::sort(beyond, beyond + count);
  if (beyond[count - 1] < 0) return beyond[count - 1] - beyond[count - 2];  // the nearest face is the way out
  double room = mjMAXVAL;
  for (int i = 0; i < count; i++) room = std::min(room, std::abs(beyond[i]));
  return room;
}

// The edge of a box that x is on, if n stands on it. The engine has points off the boxes, too, where these are apart, and
// on other edges than the two that make n.
bool EdgeAcross(const GeomPose& box, const Vec3& x, const Vec3& n, Patch* out) {
  constexpr double kOn = 1e-9;  // of the box; sine
  const Vec3 beyond = (box.R.transpose() * (x - box.center)).cwiseAbs() - box.size;
  const double on = kOn * box.size.maxCoeff();
  int inside;
  if (beyond.minCoeff(&inside) > -on) return false;
  for (int i = 0; i < 3; i++) {
    if (i != inside && std::abs(beyond(i)) > on) return false;
  }
  *out = Patch::Line(x, box.R.col(inside), 0, Vec3::Zero());
  return std::abs(out->line.dot(n)) < kOn;
}

}  // namespace

int RowCount(const mjData* data, const mjContact& contact) {
  return data->efc_type[contact.efc_address] == mjCNSTR_CONTACT_PYRAMIDAL ? 2 * (contact.dim - 1) : contact.dim;
}

int ContactBody(const mjModel* model, const mjContact& contact, int side) {
  if (contact.geom[side] >= 0) return model->geom_bodyid[contact.geom[side]];
  const int flex = contact.flex[side], vertex = contact.vert[side];
  return vertex >= 0 && model->flex_interp[flex] == 0 ? model->flex_vertbodyid[model->flex_vertadr[flex] + vertex] : -1;
}

std::string ContactName(const mjModel* model, const mjContact& contact) {
  const auto name = [&](int side) {
    return contact.geom[side] >= 0 ? ElementName(model, mjOBJ_GEOM, contact.geom[side])
                                   : ElementName(model, mjOBJ_FLEX, contact.flex[side]);
  };
  return "contact of " + name(0) + " and " + name(1);
}

bool CarriesForce(const mjData* data, const mjContact& contact) {
  const int row = contact.efc_address;
  return std::any_of(data->efc_state + row, data->efc_state + row + RowCount(data, contact),
                     [](int state) { return state != mjCNSTRSTATE_SATISFIED; });
}

bool IsCurved(const mjModel* model, const mjContact& contact) {
  if (contact.geom[0] < 0 || contact.geom[1] < 0) return false;
  const int type1 = model->geom_type[contact.geom[0]], type2 = model->geom_type[contact.geom[1]];
  if (type1 == mjGEOM_PLANE || type2 == mjGEOM_SDF) return false;
  if (type1 == mjGEOM_SPHERE && type2 == mjGEOM_CYLINDER) return false;
  return IsRound(type1) || IsRound(type2) || IsBallWithin(model, contact);
}

bool IsStaircase(const mjModel* model, const mjData* data, const mjContact& contact) {
  bool owner[2];
  if (contact.geom[0] < 0 || contact.geom[1] < 0) {
    const int geom = std::max(contact.geom[0], contact.geom[1]);  // against a flex; between its parts: none
    return geom >= 0 && IsRound(model->geom_type[geom]);
  }
  if (!IsCurved(model, contact)) return false;
  return !IsClipped(model, data, contact, owner);
}

std::vector<int> FeltStaircases(const mjModel* model, const mjData* data) {
  std::vector<int> felt;
  for (int c = 0; c < data->ncon; c++) {
    if (IsFelt(model, data->contact[c]) && IsStaircase(model, data, data->contact[c])) felt.push_back(c);
  }
  return felt;
}

bool LaterStagesHaveStaircases(const mjModel* model, mjData* data) {
  using Map = Eigen::Map<Eigen::VectorXd>;
  Map q(data->qpos, model->nq), v(data->qvel, model->nv), act(data->act, model->na);
  const Eigen::VectorXd q0 = q, v0 = v, act0 = act;
  bool any = false;
  mj_forward(model, data);
  for (const double share : {0.5, 0.5, 1.0}) {
    // places to the first order: corrections of turns do not make contacts
    const double h = share * model->opt.timestep;
    const Eigen::VectorXd velocity = v;
    q = q0;
    mj_integratePos(model, data->qpos, velocity.data(), h);
    v = v0 + h * Map(data->qacc, model->nv);
    act = act0 + h * Map(data->act_dot, model->na);
    mj_forward(model, data);
    for (const int c : FeltStaircases(model, data)) {
      const mjContact& contact = data->contact[c];
      const double* force = data->efc_force + std::max(contact.efc_address, 0);
      any = any || contact.efc_address < 0 || contact.adhesion != 0 ||
            std::any_of(force, force + RowCount(data, contact), [](double f) { return f != 0; });
    }
    if (any) break;
  }
  q = q0, v = v0, act = act0;
  return any;
}

bool IsWithoutLever(const mjModel* model, const mjData* data, const mjContact& contact) {
  constexpr double kRounding = 1e-15;  // of a place in metres
  if (contact.efc_address < 0) return false;
  const double least = kRounding * (1 + Vec3Map(contact.pos).norm());
  const bool sparse = mj_isSparse(model);
  for (int row = contact.efc_address; row < contact.efc_address + RowCount(data, contact); row++) {
    const double* J = data->efc_J + (sparse ? data->efc_J_rowadr[row] : row * model->nv);
    const double* end = J + (sparse ? data->efc_J_rownnz[row] : model->nv);
    if (std::any_of(J, end, [least](double x) { return std::abs(x) > least; })) return false;
  }
  return true;
}

bool PushesInVain(const mjModel* model, const mjData* data, const mjContact& contact) {
  constexpr double kRounding = 1e-14;
  const int row = contact.efc_address;
  if (row < 0 || contact.dim != 1 || contact.geom[0] < 0 || contact.geom[1] < 0) return false;
  if (model->geom_type[contact.geom[0]] != mjGEOM_PLANE) return false;
  if (data->efc_diagA[row] <= mjMINVAL) return false;  // its force is without bound: a rounding of J would be felt
  const Vec3 n = Vec3Map(contact.frame);
  const int body1 = model->geom_bodyid[contact.geom[0]], body2 = model->geom_bodyid[contact.geom[1]];
  bool along = true;
  ForExclusiveDofs(model, LastDof(model, body1), LastDof(model, body2), [&](int dof, int) {
    const Vec3 turn = Vec3Map(data->cdof + 6 * dof), slide = Vec3Map(data->cdof + 6 * dof + 3);
    along = along && turn.cross(n).norm() <= kRounding && (!turn.isZero(0) || std::abs(slide.dot(n)) <= kRounding);
  });
  return along;
}

bool FindFacePair(const mjModel* model, const mjData* data, const mjContact& contact, FacePair* out) {
  constexpr double kAlong = 0.99, kOwn = 1e-10;  // cosine; sine of what rounding leaves
  Vec3 face[2];
  for (int side = 0; side < 2; side++) {
    const int geom = contact.geom[side];
    if (geom < 0 || model->geom_type[geom] != mjGEOM_BOX) return false;
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(data->geom_xmat + 9 * geom);
    const Vec3 n = Vec3Map(contact.frame);
    int axis;
    const double cosine = (R.transpose() * n).cwiseAbs().maxCoeff(&axis);
    if (cosine < kAlong) return false;
    face[side] = R.col(axis);
    out->owner[side] = face[side].cross(n).norm() < kOwn;
  }
  out->tilt = face[0].cross(face[1]).norm();
  return true;
}

bool FindClippedCorner(const mjModel* model, const mjData* data, const mjContact& contact, ClippedCorner* out) {
  constexpr double kAt = 1e-9;  // of the smaller geom: rounding
  bool owner[2];
  if (contact.geom[0] < 0 || contact.geom[1] < 0 || !IsClipped(model, data, contact, owner)) return false;
  out->borders.clear();
  out->room = mjMAXVAL;
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), half = n * contact.dist / 2;
  std::vector<double> room[2];
  const double tilt = first.FindBorders(n, p - half, &room[0]) + second.FindBorders(-n, p + half, &room[1]);
  if (room[0].empty() || room[1].empty()) return false;

  // boxes are clipped along the contact's normal; of others the engine takes the point along either face's
  const double off = AreBoxes(model, contact) ? 0 : 1.5 * tilt * std::abs(contact.dist);
  const double at = kAt * std::min(first.radius(), second.radius()) + off;
  int count = 0;
  for (const std::vector<double>& side : room) {
    for (double r : side) {
      if (std::abs(r) <= at) out->borders.push_back(count);
      else out->room = std::min(out->room, std::abs(r));
      count++;
    }
  }
  if (out->borders.size() > 2) out->room = 0;
  return out->borders.size() >= 2;
}

double FeatureRoom(const mjModel* model, const mjData* data, const mjContact& contact) {
  constexpr double kAlong = 1e-9;  // sine between axes that are parallel; of a capsule's half: what is its end
  if (contact.geom[0] < 0 || contact.geom[1] < 0) return mjMAXVAL;
  if (EndTogether(model, data, contact)) return 0;
  const GeomPose first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), half = n * contact.dist / 2, p = Vec3Map(contact.pos);
  if (first.type == mjGEOM_SPHERE) return RoomOf(second, first.center);
  if (first.type != mjGEOM_CAPSULE) return mjMAXVAL;

  // the point of the capsule's segment; of a box, what is between the ends is held by its borders themselves
  const Vec3 center = p - half - first.size(0) * n;
  if (second.type == mjGEOM_BOX) {
    const bool ends = std::abs(first.axis().dot(center - first.center)) > first.size(1) * (1 - kAlong);
    return ends ? RoomOf(second, center) : mjMAXVAL;
  }
  if (second.type != mjGEOM_CAPSULE || first.axis().cross(second.axis()).norm() < kAlong) return mjMAXVAL;
  return std::min(RoomOf(first, p + half + second.size(0) * n), RoomOf(second, center));
}

bool ContactGeometry::IsWanted(const mjData* data, int c, bool with_force) const {
  const mjContact& contact = data->contact[c];
  if (also_ && (*also_)[c]) return true;
  return contact.efc_address >= 0 && (!with_force || CarriesForce(data, contact));
}

int ContactGeometry::FirstOpen(const mjData* data, int c) const {
  const int* geom = data->contact[c].geom;
  int first = c;
  for (int other = c - 1; other >= 0 && std::equal(geom, geom + 2, data->contact[other].geom); other--) {
    if (done_[other] == kOpen && IsWanted(data, other, false)) first = other;
  }
  return first;
}

void ContactGeometry::Open(int ncon) {
  if (static_cast<int>(motion_.size()) < ncon) {
    motion_.resize(ncon);
    done_.resize(ncon);
  }
  std::fill_n(done_.begin(), ncon, kOpen);
}

bool ContactGeometry::ComputeJumping(const mjModel* model, mjData* data) {
  also_ = nullptr;
  Open(data->ncon);
  std::string missing;
  const std::vector<int> staircases = FeltStaircases(model, data);
  bool any = false, flickers = false;
  for (int c = 0, pair = -1; c < data->ncon; c++) {
    const mjContact& contact = data->contact[c];
    if (!IsCurved(model, contact) || IsWithoutLever(model, data, contact)) continue;
    if (std::find(staircases.begin(), staircases.end(), c) == staircases.end()) {
      if (!IsWanted(data, c, true)) continue;
      if (pair < 0 || !std::equal(contact.geom, contact.geom + 2, data->contact[pair].geom)) {
        flickers = Flickers(model, data, c);
        pair = c;
      }
      if (!flickers) continue;
    }
    if (!has_motion(c)) Convex(model, data, c, &missing);
    any = any || has_motion(c);
  }
  return any;
}

bool ContactGeometry::Compute(const mjModel* model, mjData* data, std::string* missing, bool with_force,
                              const std::vector<char>* also) {
  also_ = also;
  const int ncon = data->ncon;
  Open(ncon);
  for (int c = 0; c < ncon; c++) {
    const mjContact& contact = data->contact[c];
    // one that jumps beside another may have a closed form of its own, whether it is wanted or not
    if (has_motion(c) || (done_[c] != kJumps && !IsWanted(data, c, with_force))) continue;
    std::string why;
    if (contact.geom[0] < 0 || contact.geom[1] < 0) {
      if (!differences_ && VertexOnPlane(model, data, c)) done_[c] = kMoves;
    } else if (IsWithoutLever(model, data, contact) && !PushesInVain(model, data, contact)) {
      Refuse(model, contact, "its Jacobian is zero", &why);
    } else if (EndTogether(model, data, contact)) {
      Refuse(model, contact, "both end there, and whose end it is hangs on the motion", &why);
    } else if (!differences_ && (ClosedForm(model, data, c) || CapsuleBox(model, data, c) || Boxes(model, data, c))) {
      done_[c] = kMoves;
    } else if (!differences_ && IsCurved(model, contact)) {
      Convex(model, data, c, &why);
    } else {
      Difference(model, data, with_force ? FirstOpen(data, c) : c, &why);
    }
    if (has_motion(c)) continue;
    if (done_[c] == kOpen) done_[c] = kRefused;
    if (missing->empty()) *missing = why;
  }

  // (G16) contacts of a pair may change places in a nudge where one of them jumps: rows are told apart by the pair
  for (int c = 0; c < ncon; c++) {
    if (done_[c] != kJumps) continue;
    const int* geom = data->contact[c].geom;
    for (int other = 0; other < ncon; other++) {
      if (has_motion(other) && std::equal(geom, geom + 2, data->contact[other].geom)) done_[other] = kRefused;
    }
  }
  return std::none_of(done_.begin(), done_.begin() + ncon,
                      [](Outcome outcome) { return outcome == kRefused || outcome == kJumps; });
}

COSTATE_SIMD bool ContactGeometry::ClosedForm(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  PatchPair pair;
  ContactRate by_second, by_both;
  if (ConcentricRates(model, data, contact, &by_second, &by_both)) {
    const ContactFrame frame(contact.frame, Vec3::Zero());
    motion_[c].by_geom2 = Assemble(frame, by_second, Mat36::Zero());
    motion_[c].by_both = Assemble(frame, by_both, Mat36::Zero());
    return true;
  }
  if (!ClosedPatches(model, data, contact, &pair)) return false;
  const ContactFrame frame(contact.frame, pair.tangent);
  const Vec3 point = Vec3Map(contact.pos);
  if (pair.first.flat == 2 && pair.second.flat == 0) {
    OnPlane(frame, pair.second, point, &motion_[c].by_geom2);
  } else {
    ContactRate rate;
    if (!MovePatches(pair.first, pair.second, frame.n, contact.dist, point, &rate)) return false;
    motion_[c].by_geom2 = Assemble(frame, rate, TangentRate(frame));
  }
  CommonMotion(frame, &motion_[c].by_both);
  return true;
}

// the vertices of a flex are balls
bool ContactGeometry::VertexOnPlane(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  if (contact.geom[0] < 0 || model->geom_type[contact.geom[0]] != mjGEOM_PLANE) return false;
  if (ContactBody(model, contact, 1) < 0 || IsWithoutLever(model, data, contact)) return false;
  const int flex = contact.flex[1], vertex = model->flex_vertadr[flex] + contact.vert[1];
  if (HasTwist(model, flex)) return false;
  const ContactFrame frame(contact.frame, Vec3::Zero());
  const Patch ball = Patch::Ball(Vec3Map(data->flexvert_xpos + 3 * vertex), model->flex_radius[flex], -frame.n);
  OnPlane(frame, ball, Vec3Map(contact.pos), &motion_[c].by_geom2);
  CommonMotion(frame, &motion_[c].by_both);
  return true;
}

bool ContactGeometry::Refuse(const mjModel* model, const mjContact& contact, const char* why, std::string* missing) {
  *missing = ContactName(model, contact) + ": " + why;
  return false;
}

// (G7), (G8) where a surface is curved the engine's contact is a staircase, and the exact one next
// to it is taken; but flat parts that lie on each other it clips exactly
bool ContactGeometry::Convex(const mjModel* model, mjData* data, int c, std::string* missing) {
  const mjContact& contact = data->contact[c];
  bool owner[2];
  const bool searched =
      model->opt.disableflags & mjDSBL_NATIVECCD || model->geom_type[contact.geom[0]] == mjGEOM_HFIELD;
  if (searched || !IsClipped(model, data, contact, owner)) return Exact(model, data, c, missing);

  // where both have the contact's normal, or corners meet, differences tell whose it is
  ContactRate rate;
  bool ambiguous = owner[0] && owner[1];
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const bool closed = ClippedRate(first, second, contact, owner[1], &rate, &ambiguous);
  if ((!closed || ambiguous) && Difference(model, data, c, missing)) return true;
  if (closed) Store(c, contact, rate);
  return closed;
}

// (G7) the exact contact next to the engine's
bool ContactGeometry::Exact(const mjModel* model, const mjData* data, int c, std::string* missing) {
  const mjContact& contact = data->contact[c];
  if (model->opt.disableflags & mjDSBL_NATIVECCD) {
    return Refuse(model, contact, "libccd's contact of a curved surface is not the nearest one", missing);
  }
  if (model->geom_type[contact.geom[0]] == mjGEOM_HFIELD) {
    return Refuse(model, contact, "a curved surface on a height field, exact to ccd_tolerance only", missing);
  }
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 p = Vec3Map(contact.pos);
  ContactRate rate;
  ConvexContact exact;
  if (!convex_.Solve(first, second, Vec3Map(contact.frame), p, contact.dist, model->opt.ccd_tolerance, &exact) ||
      !MovePatches(exact.first, exact.second, exact.normal, exact.distance, p, &rate)) {
    return Refuse(model, contact, "the engine's contact is not one of the exact surfaces", missing);
  }
  Store(c, contact, rate);
  return true;
}

bool ContactGeometry::CapsuleBox(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  const GeomPose first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  if (first.type != mjGEOM_CAPSULE || second.type != mjGEOM_BOX) return false;
  ContactRate rate;
  if (!CapsuleBoxRate(first, second, contact, &rate)) return false;
  Store(c, contact, rate);
  return true;
}

// boxes: faces are clipped, edges cross (G9); where both have the contact's normal rounding decides
// whose it is
bool ContactGeometry::Boxes(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  if (!AreBoxes(model, contact)) return false;
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), half = n * contact.dist / 2;
  const bool face1 = first.HasFace(n), face2 = second.HasFace(-n);
  ContactRate rate;
  bool ambiguous = face1 && face2;
  if (face1 || face2) {
    if (ambiguous || !ClippedRate(first, second, contact, face2, &rate, &ambiguous) || ambiguous) return false;
  } else {
    Patch edge1, edge2;
    if (!EdgeAcross(first.pose, p - half, n, &edge1) || !EdgeAcross(second.pose, p + half, n, &edge2)) return false;
    if (!MovePatches(edge1, edge2, n, contact.dist, p, &rate)) return false;
  }
  Store(c, contact, rate);
  return true;
}

void ContactGeometry::Store(int c, const mjContact& contact, const ContactRate& rate) {
  const ContactFrame frame(contact.frame, Vec3::Zero());
  motion_[c].by_geom2 = Assemble(frame, rate, Mat36::Zero());
  CommonMotion(frame, &motion_[c].by_both);
  done_[c] = kMoves;
}

}  // namespace costate
