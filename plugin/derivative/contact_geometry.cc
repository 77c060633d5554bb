#include "derivative/contact_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <costate/model.h>

namespace costate {
namespace {

// truncation ~ h²/curvature² meets rounding ~ 1e-16/h: exact to 1e-9 for every pair of polytopes and closed colliders
constexpr double kPoseStep = 1e-6;

// capacity of the buffer given to a narrow-phase function (the engine's own limit is mjMAXCONPAIR = 50)
constexpr int kMaxFound = 64;

// contact frame and how its first tangent was made: from the collider's vector or from a world axis
struct Frame {
  Vec3 n, t1, t2;
  Vec3 e;         // the vector that was made orthogonal to n
  double length;  // |e − n (n·e)|
  bool from_collider;
};

Frame MakeFrame(const mjContact& contact, const Vec3& tangent) {
  Frame frame;
  frame.n = Vec3Map(contact.frame);
  frame.t1 = Vec3Map(contact.frame + 3);
  frame.t2 = Vec3Map(contact.frame + 6);
  frame.from_collider = tangent.squaredNorm() >= 0.25;
  frame.e = frame.from_collider ? tangent : std::abs(frame.n.y()) < 0.5 ? Vec3(0, 1, 0) : Vec3(0, 0, 1);
  frame.length = (frame.e - frame.n * frame.n.dot(frame.e)).norm();
  return frame;
}

// (G2) Ω = n × dn + n (dt1·t2)
Vec3 FrameRate(const Frame& f, const Vec3& dn, const Vec3& de) {
  const Vec3 moved = de - dn * f.n.dot(f.e) - f.n * (dn.dot(f.e) + f.n.dot(de));
  return f.n.cross(dn) + f.n * (moved.dot(f.t2) / f.length);
}

// (G3) both geoms move as one: dφ = 0, dp = v, the normal turns, the tangent turns only if the collider gave it
ContactMatrix Rigid(const Frame& f) {
  ContactMatrix G = ContactMatrix::Zero();
  G.block<3, 3>(1, 3).setIdentity();
  for (int c = 0; c < 3; c++) {
    const Vec3 w = Vec3::Unit(c);
    const Vec3 de = f.from_collider ? Vec3(w.cross(f.e)) : Vec3(Vec3::Zero());
    G.block<3, 1>(4, c) = FrameRate(f, w.cross(f.n), de);
  }
  return G;
}

// pairs of the iterative convex collider in which a surface is curved: a staircase below its tolerance (README.md, section G)
bool IsCurvedPair(int type1, int type2) {
  const auto curved = [](int type) { return type == mjGEOM_ELLIPSOID || type == mjGEOM_CYLINDER; };
  if (type1 == mjGEOM_PLANE || type2 == mjGEOM_SDF) return false;
  if (type1 == mjGEOM_SPHERE && type2 == mjGEOM_CYLINDER) return false;  // has a collider of its own
  return curved(type1) || curved(type2);
}

}  // namespace

ContactGeometry::ContactGeometry(const mjModel*) { found_.resize(kMaxFound); }

bool ContactGeometry::Compute(const mjModel* model, mjData* data, std::string* missing) {
  const int ncon = data->ncon;
  if (static_cast<int>(motion_.size()) < ncon) {
    motion_.resize(ncon);
    done_.resize(ncon);
  }
  std::fill_n(done_.begin(), ncon, 0);
  for (int c = 0; c < ncon; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0 || done_[c]) continue;
    std::string why = "contact of a flex";
    const bool flex = contact.geom[0] < 0 || contact.geom[1] < 0;
    if (!flex && ClosedForm(model, data, c)) {
      done_[c] = 1;
    } else if (flex || !Difference(model, data, c, &why)) {
      done_[c] = 2;
      if (missing->empty()) *missing = why;
    }
  }
  return std::find(done_.begin(), done_.begin() + ncon, 2) == done_.begin() + ncon;
}

bool ContactGeometry::ClosedForm(const mjModel* model, const mjData* data, int c) {
  const mjContact& contact = data->contact[c];
  const int g1 = contact.geom[0], g2 = contact.geom[1];
  const int type1 = model->geom_type[g1], type2 = model->geom_type[g2];
  const bool plane = type1 == mjGEOM_PLANE && (type2 == mjGEOM_SPHERE || type2 == mjGEOM_CAPSULE || type2 == mjGEOM_BOX ||
                                               type2 == mjGEOM_MESH);
  const bool spheres = type1 == mjGEOM_SPHERE && type2 == mjGEOM_SPHERE;
  if (!plane && !spheres) return false;

  // the material point of geom 2 that carries the contact: centre of the (end) sphere, or the vertex
  const double phi = contact.dist;
  const bool round = type2 == mjGEOM_SPHERE || type2 == mjGEOM_CAPSULE;
  const double radius2 = round ? model->geom_size[3 * g2] : 0;
  Vec3 axis = Vec3::Zero();
  if (plane && type2 == mjGEOM_CAPSULE) {
    for (int r = 0; r < 3; r++) axis(r) = data->geom_xmat[9 * g2 + 3 * r + 2];
  }
  const Frame frame = MakeFrame(contact, axis);
  const Vec3 arm = frame.n * (radius2 + phi / 2);

  // (G4) plane: dφ = n·dx, dp = dx − n dφ/2, dn = 0;  (G5) spheres: dn = (I − n nᵀ) dx / L, dp = dn (r1 + φ/2) + n dφ/2
  ContactMotion& motion = motion_[c];
  const double radius1 = spheres ? model->geom_size[3 * g1] : 0, L = radius1 + radius2 + phi;
  for (int column = 0; column < 6; column++) {
    const Vec3 unit = Vec3::Unit(column % 3);
    const Vec3 dx = column < 3 ? Vec3(unit.cross(arm)) : unit;
    const double dphi = frame.n.dot(dx);
    Vec3 dp, rate;
    if (plane) {
      dp = dx - frame.n * dphi / 2;
      rate = FrameRate(frame, Vec3::Zero(), column < 3 ? Vec3(unit.cross(axis)) : Vec3(Vec3::Zero()));
    } else {
      const Vec3 dn = (dx - frame.n * dphi) / L;
      dp = dn * (radius1 + phi / 2) + frame.n * dphi / 2;
      rate = FrameRate(frame, dn, Vec3::Zero());
    }
    motion.by_geom2.col(column) << dphi, dp, rate;
  }
  motion.by_both = Rigid(frame);
  return true;
}

int ContactGeometry::Collide(const mjModel* model, mjData* data, int g1, int g2, double margin) {
  const mjfCollision function = mjCOLLISIONFUNC[model->geom_type[g1]][model->geom_type[g2]];
  return function ? function(model, data, found_.data(), g1, g2, margin) : 0;
}

// the detection distance of a pair is not stored with its contacts: the one that reproduces them bit for bit
bool ContactGeometry::FindMargin(const mjModel* model, mjData* data, int first, double* margin) {
  const mjContact& contact = data->contact[first];
  const int g1 = contact.geom[0], g2 = contact.geom[1];
  const double m1 = model->geom_margin[g1], m2 = model->geom_margin[g2];
  const double p1 = model->geom_gap[g1], p2 = model->geom_gap[g2];
  const double base = contact.includemargin;
  double candidates[8] = {base + std::max(p1, p2), base + p1 + p2, base, std::max(m1, m2) + std::max(p1, p2),
                          m1 + m2 + p1 + p2, model->opt.o_margin, base, base};
  int count = 6;
  for (int p = 0; p < model->npair && count < 8; p++) {
    const bool same = (model->pair_geom1[p] == g1 && model->pair_geom2[p] == g2) ||
                      (model->pair_geom1[p] == g2 && model->pair_geom2[p] == g1);
    if (same) candidates[count++] = model->pair_margin[p] + model->pair_gap[p];
  }
  for (int n = 0; n < count; n++) {
    const int found = Collide(model, data, g1, g2, candidates[n]);
    for (int k = 0; k < found; k++) {
      if (found_[k].dist == contact.dist && std::equal(found_[k].pos, found_[k].pos + 3, contact.pos)) {
        *margin = candidates[n];
        return true;
      }
    }
  }
  return false;
}

bool ContactGeometry::Difference(const mjModel* model, mjData* data, int first, std::string* missing) {
  const int g1 = data->contact[first].geom[0], g2 = data->contact[first].geom[1];
  auto refuse = [&](const char* why) {
    *missing = "contact of " + ElementName(model, mjOBJ_GEOM, g1) + " and " + ElementName(model, mjOBJ_GEOM, g2) + ": " + why;
    return false;
  };
  if (IsCurvedPair(model->geom_type[g1], model->geom_type[g2])) {
    return refuse("the collider of curved surfaces is only as exact as ccd_tolerance, its differences are noise");
  }
  double margin;
  if (!FindMargin(model, data, first, &margin)) return refuse("its narrow phase could not be repeated");

  // all contacts of this pair, and the collider's tangent of each
  int contacts[kMaxFound], count = 0;
  Frame frames[kMaxFound];
  const int found = Collide(model, data, g1, g2, margin);
  for (int c = first; c < data->ncon && count < kMaxFound; c++) {
    const mjContact& contact = data->contact[c];
    if (contact.efc_address < 0 || contact.geom[0] != g1 || contact.geom[1] != g2) continue;
    int match = -1;
    for (int k = 0; k < found && match < 0; k++) {
      if (found_[k].dist == contact.dist && std::equal(found_[k].pos, found_[k].pos + 3, contact.pos)) match = k;
    }
    if (match < 0) return refuse("its narrow phase could not be repeated");
    frames[count] = MakeFrame(contact, Vec3Map(found_[match].tangent));
    contacts[count++] = c;
  }

  // geom 2 turns about and moves with the first contact point; pose restored bit for bit
  const Vec3 pivot = Vec3Map(data->contact[first].pos);
  mjtNum *xpos = data->geom_xpos + 3 * g2, *xmat = data->geom_xmat + 9 * g2, *xquat = data->geom_xquat + 4 * g2;
  mjtNum pos0[3], mat0[9], quat0[4];
  mju_copy3(pos0, xpos);
  mju_copy(mat0, xmat, 9);
  mju_copy4(quat0, xquat);
  const double size = 1e-3 + std::abs(data->contact[first].dist);
  ContactMatrix by_pivot[kMaxFound];
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
      const Vec3 de = frames[k].from_collider ? rate(plus.tangent, minus.tangent) : Vec3(Vec3::Zero());
      by_pivot[k].col(column) << (plus.dist - minus.dist) / (2 * kPoseStep), rate(plus.pos, minus.pos),
          FrameRate(frames[k], rate(plus.normal, minus.normal), de);
    }
  }
  mju_copy3(xpos, pos0);
  if (!matched) return refuse("its contact points change under any motion");

  // from twists at the pivot to twists at each contact point: v_pivot = v − w × (p − pivot)
  for (int k = 0; k < count; k++) {
    ContactMotion& motion = motion_[contacts[k]];
    const Vec3 r = Vec3Map(data->contact[contacts[k]].pos) - pivot;
    motion.by_geom2 = by_pivot[k];
    motion.by_geom2.leftCols<3>() += by_pivot[k].rightCols<3>() * Skew(r);
    motion.by_both = Rigid(frames[k]);
    done_[contacts[k]] = 1;
  }
  return true;
}

}  // namespace costate
