#include "derivative/contact_belt.h"

#include <algorithm>

#include "derivative/contact_patch.h"

namespace costate {
namespace {

constexpr double kSame = 1e-9;  // relative: rounding of the engine's own product

}  // namespace

bool HasBelt(const mjModel* model, const mjContact& contact) {
  if (!model->flg_surfacevel) return false;
  for (int geom : contact.geom) {
    if (geom >= 0 && !mju_isZero(model->geom_surfacevel + 6 * geom, 6)) return true;
  }
  return !mju_isZero(contact.surfacevel, 3);
}

bool MoveBelt(const mjModel* model, const mjData* data, const mjContact& contact, const ContactMotion& motion,
              BeltMotion* out) {
  const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos);
  Eigen::Matrix<double, 2, 3> tangents;
  tangents << Vec3Map(contact.frame + 3).transpose(), Vec3Map(contact.frame + 6).transpose();

  // the field of each surface: at the contact, and its rotation
  Vec3 U[2], W[2];
  for (int side = 0; side < 2; side++) {
    const int geom = contact.geom[side];
    U[side] = W[side] = Vec3::Zero();
    if (geom < 0) continue;  // a flex
    const Mat3 R = Mat3Map(data->geom_xmat + 9 * geom);
    W[side] = R * Vec3Map(model->geom_surfacevel + 6 * geom + 3);
    U[side] = R * Vec3Map(model->geom_surfacevel + 6 * geom) + W[side].cross(p - Vec3Map(data->geom_xpos + 3 * geom));
  }
  const Vec3 u = U[1] - U[0], w = W[1] - W[0];
  Vec3 velocity;
  velocity << tangents * u, n.dot(w);
  if ((velocity - Vec3Map(contact.surfacevel)).norm() > kSame * std::max(1.0, velocity.norm())) return false;

  // (C19) the point moves in both fields, each field turns and moves with its geom, the frame turns
  const auto move = [&](const ContactMatrix& G, bool first) {
    const auto dp = G.middleRows<3>(1), omega = G.bottomRows<3>();
    Mat36 du = Skew(w) * dp, dw = Mat36::Zero();
    for (int side = first ? 0 : 1; side < 2; side++) {
      const double sign = side ? 1 : -1;
      du.leftCols<3>() -= sign * Skew(U[side]);
      du.rightCols<3>() -= sign * Skew(W[side]);
      dw.leftCols<3>() -= sign * Skew(W[side]);
    }
    Eigen::Matrix<double, 3, 6> rate;
    rate << tangents * (du + Skew(u) * omega), n.transpose() * (dw + Skew(w) * omega);
    return rate;
  };
  out->by_geom2 = move(motion.by_geom2, false);
  out->by_both = move(motion.by_both, true);
  return true;
}

}  // namespace costate
