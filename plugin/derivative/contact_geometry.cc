#include "derivative/contact_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <costate/model.h>

#include "derivative/contact_capsule_box.h"
#include "derivative/contact_clipped.h"
#include "derivative/plant.h"

namespace costate {
namespace {

// truncation ~ h²/curvature² meets rounding ~ 1e-16/h: exact to 1e-9 for every pair of polytopes
// and closed colliders
constexpr double kPoseStep = 1e-6;

// capacity of the buffer given to a narrow-phase function (the engine's own limit is mjMAXCONPAIR =
// 50)
constexpr int kMaxFound = 64;

// contact frame and how its first tangent was made: from the collider's vector or from a world axis
struct Frame {
  Vec3 n, t1, t2;
  Vec3 e;         // the vector that was made orthogonal to n
  double length;  // |e − n (n·e)|
  bool from_collider;
};

// a collider's vector this close to the normal leaves the tangent without direction: any motion
// within the derivative's own resolution turns it by a radian, so the tangents are held
constexpr double kParallel = 1e-6;

Frame MakeFrame(const mjtNum* axes, const Vec3& tangent) {
  Frame frame;
  frame.n = Vec3Map(axes);
  frame.t1 = Vec3Map(axes + 3);
  frame.t2 = Vec3Map(axes + 6);
  frame.from_collider = tangent.squaredNorm() >= 0.25;
  frame.e = frame.from_collider           ? tangent
            : std::abs(frame.n.y()) < 0.5 ? Vec3(0, 1, 0)
                                          : Vec3(0, 0, 1);
  frame.length = (frame.e - frame.n * frame.n.dot(frame.e)).norm();
  return frame;
}

// (G2) Ω = n × dn + n (dt1·t2)
Mat36 FrameRate(const Frame& f, const Mat36& dn, const Mat36& de) {
  Mat36 rate = PLANT("contact geometry: frame", Skew(f.n) * dn);
  if (f.length > kParallel)
    rate += PLANT("contact geometry: tangent",
                  f.n * ((f.t2.transpose() * de - f.n.dot(f.e) * (f.t2.transpose() * dn)) / f.length));
  return rate;
}

ContactMatrix Assemble(const Frame& f, const ContactRate& rate, const Mat36& de) {
  ContactMatrix G;
  G << rate.dphi, rate.dp, FrameRate(f, rate.dn, de);
  return G;
}

// how the collider's tangent turns with geom 2; a world axis does not
Mat36 TangentRate(const Frame& f) {
  Mat36 de = Mat36::Zero();
  if (f.from_collider) de.leftCols<3>() = -Skew(f.e);
  return de;
}

// (G3) both geoms move as one: Ω = w but for the turn about n, which a tangent made from a world
// axis does not follow
ContactMatrix Rigid(const Frame& f) {
  ContactMatrix G = ContactMatrix::Zero();
  G.block<3, 3>(1, 3).setIdentity();
  G.block<3, 3>(4, 0).setIdentity();
  if (f.from_collider && f.length > kParallel) return G;
  Vec3 spin = -f.n;
  if (f.length > kParallel) spin += PLANT("contact geometry: common turn", f.n.dot(f.e) / f.length * f.t1);
  G.block<3, 3>(4, 0) += f.n * spin.transpose();
  return G;
}

// (G6) on a plane the normal rests: dφ = n·r, dp = r − n dφ/2
ContactMatrix OnPlane(const Frame& f, const Patch& patch, const Vec3& point) {
  const Mat3 by_rotation = PLANT("contact geometry: plane", -Skew(patch.x - point) - patch.H * Skew(f.n));
  const Eigen::RowVector3d dphi = f.n.transpose() * by_rotation;
  ContactMatrix G = ContactMatrix::Zero();
  G.block<1, 3>(0, 0) = dphi;
  G.block<1, 3>(0, 3) = f.n.transpose();
  G.block<3, 3>(1, 0) = by_rotation - f.n / 2 * dphi;
  G.block<3, 3>(1, 3) = Mat3::Identity() - f.n / 2 * f.n.transpose();
  if (f.from_collider && f.length > kParallel) {
    G.block<3, 3>(4, 0) =
        PLANT("contact geometry: tangent on a plane", f.n / f.length * f.e.cross(f.t2).transpose());
  }
  return G;
}

// pairs of the iterative collider in which a surface is curved: a staircase below its tolerance
bool IsCurved(const mjModel* model, const mjContact& contact) {
  const int type1 = model->geom_type[contact.geom[0]], type2 = model->geom_type[contact.geom[1]];
  const auto curved = [](int type) { return type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER; };
  if (type1 == mjGEOM_PLANE || type2 == mjGEOM_SDF) return false;
  if (type1 == mjGEOM_SPHERE && type2 == mjGEOM_CYLINDER) return false;
  return curved(type1) || curved(type2);
}

bool IsSame(const mjPreContact& found, const mjContact& contact) {
  return found.dist == contact.dist && std::equal(found.pos, found.pos + 3, contact.pos);
}

// does the engine clip flat parts of this contact against each other? Then it has copied the normal of a face.
bool IsClipped(const mjModel* model, const mjData* data, const mjContact& contact, bool owner[2]) {
  owner[0] = owner[1] = false;
  if (model->opt.disableflags & (mjDSBL_NATIVECCD | mjDSBL_MULTICCD)) return false;
  for (int geom : contact.geom) {
    const int type = model->geom_type[geom];
    if (type != mjGEOM_CAPSULE && type != mjGEOM_CYLINDER && type != mjGEOM_BOX && type != mjGEOM_MESH) return false;
  }
  const Vec3 n = Vec3Map(contact.frame);
  for (int side = 0; side < 2; side++) {
    owner[side] = ConvexShape(model, data, contact.geom[side]).HasFace(side ? -n : n);
  }
  return owner[0] || owner[1];
}

}  // namespace

bool CarriesForce(const mjData* data, const mjContact& contact) {
  const int row = contact.efc_address;
  const int rows = data->efc_type[row] == mjCNSTR_CONTACT_PYRAMIDAL ? 2 * (contact.dim - 1) : contact.dim;
  return std::any_of(data->efc_state + row, data->efc_state + row + rows,
                     [](int state) { return state != mjCNSTRSTATE_SATISFIED; });
}

bool IsStaircase(const mjModel* model, const mjData* data, const mjContact& contact) {
  bool owner[2];
  if (contact.geom[0] < 0 || contact.geom[1] < 0 || !IsCurved(model, contact)) return false;
  return !IsClipped(model, data, contact, owner);
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

ContactGeometry::ContactGeometry(const mjModel*, bool differences) : differences_(differences) {
  found_.resize(kMaxFound);
}

bool ContactGeometry::Compute(const mjModel* model, mjData* data, std::string* missing, bool with_force) {
  const int ncon = data->ncon;
  if (static_cast<int>(motion_.size()) < ncon) {
    motion_.resize(ncon);
    done_.resize(ncon);
  }
  std::fill_n(done_.begin(), ncon, 0);
  for (int c = 0; c < ncon; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0 || done_[c] || (with_force && !CarriesForce(data, contact))) continue;
    std::string why;
    const bool flex = contact.geom[0] < 0 || contact.geom[1] < 0;
    if (!flex && !differences_ && (ClosedForm(model, data, c) || CapsuleBox(model, data, c) || Boxes(model, data, c))) {
      done_[c] = 1;
    } else if (flex ||
               !(!differences_ && IsCurved(model, contact) ? Convex(model, data, c, &why)
                                                           : Difference(model, data, c, &why))) {
      done_[c] = 2;
      if (missing->empty()) *missing = flex ? "contact of a flex" : why;
    }
  }
  return std::find(done_.begin(), done_.begin() + ncon, 2) == done_.begin() + ncon;
}

bool ContactGeometry::ClosedForm(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  PatchPair pair;
  if (!ClosedPatches(model, data, contact, &pair)) return false;
  const Frame frame = MakeFrame(contact.frame, pair.tangent);
  const Vec3 point = Vec3Map(contact.pos);
  if (pair.first.flat == 2 && pair.second.flat == 0) {
    motion_[c].by_geom2 = OnPlane(frame, pair.second, point);
  } else {
    ContactRate rate;
    if (!MovePatches(pair.first, pair.second, frame.n, contact.dist, point, &rate)) return false;
    motion_[c].by_geom2 = Assemble(frame, rate, TangentRate(frame));
  }
  motion_[c].by_both = Rigid(frame);
  return true;
}

int ContactGeometry::Collide(const mjModel* model, mjData* data, int g1, int g2, double margin) {
  const mjfCollision function = mjCOLLISIONFUNC[model->geom_type[g1]][model->geom_type[g2]];
  return function ? function(model, data, found_.data(), g1, g2, margin) : 0;
}

// the detection distance of a pair is not stored with its contacts: the one that reproduces them
// bit for bit
bool ContactGeometry::FindMargin(const mjModel* model, mjData* data, int first, double* margin) {
  const mjContact& contact = data->contact[first];
  const int g1 = contact.geom[0], g2 = contact.geom[1];
  const double m1 = model->geom_margin[g1], m2 = model->geom_margin[g2];
  const double p1 = model->geom_gap[g1], p2 = model->geom_gap[g2];
  const double base = contact.includemargin;
  double candidates[8] = {
      base + std::max(p1, p2), base + p1 + p2,      base, std::max(m1, m2) + std::max(p1, p2),
      m1 + m2 + p1 + p2,       model->opt.o_margin, base, base};
  int count = 6;
  for (int p = 0; p < model->npair && count < 8; p++) {
    const bool same = (model->pair_geom1[p] == g1 && model->pair_geom2[p] == g2) ||
                      (model->pair_geom1[p] == g2 && model->pair_geom2[p] == g1);
    if (same) candidates[count++] = model->pair_margin[p] + model->pair_gap[p];
  }
  for (int n = 0; n < count; n++) {
    const int found = Collide(model, data, g1, g2, candidates[n]);
    for (int k = 0; k < found; k++) {
      if (IsSame(found_[k], contact)) {
        *margin = candidates[n];
        return true;
      }
    }
  }
  return false;
}

bool ContactGeometry::Refuse(const mjModel* model, const mjContact& contact, const char* why,
                             std::string* missing) {
  *missing = "contact of " + ElementName(model, mjOBJ_GEOM, contact.geom[0]) + " and " +
             ElementName(model, mjOBJ_GEOM, contact.geom[1]) + ": " + why;
  return false;
}

// (G7), (G8) where a surface is curved the engine's contact is a staircase, and the exact one next
// to it is taken; but flat parts that lie on each other it clips exactly
bool ContactGeometry::Convex(const mjModel* model, mjData* data, int c, std::string* missing) {
  const mjContact& contact = data->contact[c];
  if (model->opt.disableflags & mjDSBL_NATIVECCD) {
    return Refuse(model, contact, "libccd's contact of a curved surface is not the nearest one",
                  missing);
  }
  if (model->geom_type[contact.geom[0]] == mjGEOM_HFIELD) {
    return Refuse(model, contact, "a curved surface on a height field, exact to ccd_tolerance only",
                  missing);
  }
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos);
  ContactRate rate;
  bool owner[2];
  if (IsClipped(model, data, contact, owner)) {
    // where both have the contact's normal, or corners meet, differences tell whose it is
    bool ambiguous = owner[0] && owner[1];
    const bool closed = ClippedRate(first, second, contact, owner[1], &rate, &ambiguous);
    if (closed && !ambiguous) {
      Store(c, contact, rate);
      return true;
    }
    if (Difference(model, data, c, missing)) return true;
    if (closed) Store(c, contact, rate);
    return closed;
  }
  ConvexContact exact;
  if (!convex_.Solve(first, second, n, p, contact.dist, model->opt.ccd_tolerance, &exact) ||
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

// boxes: faces are clipped, edges cross; where both have the contact's normal rounding decides
// whose it is
bool ContactGeometry::Boxes(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  if (model->geom_type[contact.geom[0]] != mjGEOM_BOX ||
      model->geom_type[contact.geom[1]] != mjGEOM_BOX)
    return false;
  const ConvexShape first(model, data, contact.geom[0]), second(model, data, contact.geom[1]);
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos), half = n * contact.dist / 2;
  const bool face1 = first.HasFace(n), face2 = second.HasFace(-n);
  ContactRate rate;
  bool ambiguous = face1 && face2;
  if (face1 || face2) {
    if (ambiguous || !ClippedRate(first, second, contact, face2, &rate, &ambiguous) || ambiguous) return false;
  } else {
    const Patch edge1 = BoxPatch(first.pose, p - half), edge2 = BoxPatch(second.pose, p + half);
    if (edge1.flat != 1 || edge2.flat != 1 || !MovePatches(edge1, edge2, n, contact.dist, p, &rate))
      return false;
  }
  Store(c, contact, rate);
  return true;
}

void ContactGeometry::Store(int c, const mjContact& contact, const ContactRate& rate) {
  const Frame frame = MakeFrame(contact.frame, Vec3::Zero());
  motion_[c].by_geom2 = Assemble(frame, rate, Mat36::Zero());
  motion_[c].by_both = Rigid(frame);
  done_[c] = 1;
}

bool ContactGeometry::Difference(const mjModel* model, mjData* data, int first,
                                 std::string* missing) {
  const int g1 = data->contact[first].geom[0], g2 = data->contact[first].geom[1];
  const auto refuse = [&](const char* why) {
    return Refuse(model, data->contact[first], why, missing);
  };
  double margin;
  if (!FindMargin(model, data, first, &margin))
    return refuse("its narrow phase could not be repeated");

  // all contacts of this pair, and the collider's tangent of each
  int contacts[kMaxFound], count = 0;
  Frame frames[kMaxFound];
  const int found = Collide(model, data, g1, g2, margin);
  for (int c = first; c < data->ncon && count < kMaxFound; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0 || contact.geom[0] != g1 || contact.geom[1] != g2) continue;
    int match = -1;
    for (int k = 0; k < found && match < 0; k++) {
      if (IsSame(found_[k], contact)) match = k;
    }
    if (match < 0) return refuse("its narrow phase could not be repeated");
    frames[count] = MakeFrame(contact.frame, Vec3Map(found_[match].tangent));
    contacts[count++] = c;
  }

  // geom 2 turns about and moves with the first contact point; pose restored bit for bit
  const Vec3 pivot = Vec3Map(data->contact[first].pos);
  mjtNum *xpos = data->geom_xpos + 3 * g2, *xmat = data->geom_xmat + 9 * g2,
         *xquat = data->geom_xquat + 4 * g2;
  mjtNum pos0[3], mat0[9], quat0[4];
  mju_copy3(pos0, xpos);
  mju_copy(mat0, xmat, 9);
  mju_copy4(quat0, xquat);
  const double size = 1e-3 + std::abs(data->contact[first].dist);
  ContactRate by_pivot[kMaxFound];
  Mat36 tangent_rate[kMaxFound];
  bool matched = true;
  for (int column = 0; column < 6 && matched; column++) {
    mjPreContact side[2][kMaxFound];
    for (int s = 0; s < 2 && matched; s++) {
      const double h = s ? -kPoseStep : kPoseStep;
      mju_copy3(xpos, pos0);
      if (column < 3) {
        mjtNum axis[3] = {0, 0, 0}, turn[4], arm[3], moved[3];
        axis[column] = 1;
        mju_axisAngle2Quat(turn, axis, h);
        for (int n = 0; n < 3; n++) arm[n] = pos0[n] - pivot(n);
        mju_rotVecQuat(moved, arm, turn);
        for (int n = 0; n < 3; n++) xpos[n] = pivot(n) + moved[n];
        mju_mulQuat(xquat, turn, quat0);
        mjtNum rotation[9];
        mju_quat2Mat(rotation, turn);
        mju_mulMatMat(xmat, rotation, mat0, 3, 3, 3);
      } else {
        xpos[column - 3] += h;
      }
      const int now = Collide(model, data, g1, g2, margin);
      mju_copy(xmat, mat0, 9);
      mju_copy4(xquat, quat0);

      // nearest contact of the perturbed pair
      for (int k = 0; k < count && matched; k++) {
        const mjContact& contact = data->contact[contacts[k]];
        double nearest = std::numeric_limits<double>::infinity();
        for (int n = 0; n < now; n++) {
          const double distance = (Vec3Map(found_[n].pos) - Vec3Map(contact.pos)).norm() +
                                  size * (Vec3Map(found_[n].normal) - frames[k].n).norm();
          if (distance < nearest) nearest = distance, side[s][k] = found_[n];
        }
        matched = nearest < 0.02 * size;
      }
    }
    for (int k = 0; k < count && matched; k++) {
      auto rate = [&](const mjtNum* plus, const mjtNum* minus) {
        return Vec3((Vec3Map(plus) - Vec3Map(minus)) / (2 * kPoseStep));
      };
      const mjPreContact &plus = side[0][k], &minus = side[1][k];
      const Vec3 de =
          frames[k].from_collider ? rate(plus.tangent, minus.tangent) : Vec3(Vec3::Zero());
      by_pivot[k].dphi(column) =
          PLANT("contact geometry: pose differences, distance", (plus.dist - minus.dist) / (2 * kPoseStep));
      by_pivot[k].dp.col(column) = rate(plus.pos, minus.pos);
      by_pivot[k].dn.col(column) = rate(plus.normal, minus.normal);
      tangent_rate[k].col(column) = de;
    }
  }
  mju_copy3(xpos, pos0);
  if (!matched) return refuse("its contact points change under any motion");

  // from twists at the pivot to twists at each contact point: v_pivot = v − w × (p − pivot)
  for (int k = 0; k < count; k++) {
    ContactMotion& motion = motion_[contacts[k]];
    const Vec3 r = Vec3Map(data->contact[contacts[k]].pos) - pivot;
    motion.by_geom2 = Assemble(frames[k], by_pivot[k], tangent_rate[k]);
    motion.by_geom2.leftCols<3>() +=
        PLANT("contact geometry: pose differences", (motion.by_geom2.rightCols<3>() * Skew(r)).eval());
    motion.by_both = Rigid(frames[k]);
    done_[contacts[k]] = 1;
  }
  return true;
}

}  // namespace costate
