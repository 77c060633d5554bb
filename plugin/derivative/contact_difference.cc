// Contacts without a closed form: differences of the engine's narrow phase along the motions that the joints allow.
#include <algorithm>
#include <cmath>
#include <limits>

#include "derivative/chain.h"
#include "derivative/contact_frame.h"
#include "derivative/contact_geometry.h"
#include "derivative/contact_shape.h"
#include "derivative/moving_geom.h"
#include "derivative/plant.h"

namespace costate {
namespace {

// Five points, h and 2h to both sides: at radii of a millimetre the truncation ~ (2h/radius)⁴ stays below 1e-8, and so
// does what the collider knows its points to, over h. Where those points are not all of one smooth piece, which
// quotients over h and 2h tell that differ by more than kBend of their size, two at a smaller step.
constexpr double kWideStep = 4e-6;
constexpr double kPoseStep = 1e-6;
constexpr double kBend = 1e-3;
constexpr double kMixed[] = {1, -0.7, 0.5, 0.8, -0.6, 0.9};  // some direction across all of them

// capacity of the buffer given to a narrow-phase function (the engine's own limit is mjMAXCONPAIR = 50)
constexpr int kMaxFound = 64;

constexpr double kSamePlace = 0.02;  // of a contact's size: how far a nudge may move it

constexpr double kFlicker = 1e-7;    // nudge by which contacts show whether they have places of their own …
constexpr double kFlickered = 2e-5;  // … and what moves them further than it can

constexpr double kKept = 3;  // nudges that a contact may go beyond its margin and still be found

constexpr double kIndependent = 1e-8;  // of a motion's size: what is left of it beyond the others
constexpr double kSameNormal = 1e-8;   // what the engine leaves of a face's normal …
constexpr double kPlaceNoise = 3e-15;  // … which it makes from points that it knows to this …
constexpr double kMostNoise = 1e-6;    // … but no more than this
constexpr double kNormalNoise = 1e-3;  // of a normal's rate: a normal that is not the face's is off by its whole size

bool IsSame(const mjPreContact& found, const mjContact& contact) {
  return found.dist == contact.dist && std::equal(found.pos, found.pos + 3, contact.pos);
}

// (G12) orthonormal twists (w; v) at `pivot` that span how the joints move one geom against the other
int RelativeTwists(const mjModel* m, const mjData* d, const int geom[2], const Vec3& pivot, Mat6* twists) {
  const int body[2] = {m->geom_bodyid[geom[0]], m->geom_bodyid[geom[1]]};
  int rank = 0;
  ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int dof, int side) {
    if (rank == 6) return;
    const Eigen::Map<const Vec6> S(d->cdof + 6 * dof);
    Vec6 rest = MotionAbout(S, pivot - Origin(m, d, body[side]));
    const double size = rest.norm();
    for (int pass = 0; pass < 2; pass++) {
      const auto basis = twists->leftCols(rank);
      rest -= (basis * (basis.transpose() * rest)).eval();
    }
    if (rest.norm() > kIndependent * size) twists->col(rank++) = rest.normalized();
  });
  if (rank == 6) twists->setIdentity();
  return rank;
}

// what the engine knows a normal to, which it makes from two points that are `dist` apart
double NormalRounding(const mjContact& contact) {
  return kPlaceNoise * (1 + Vec3Map(contact.pos).norm()) / std::max(std::abs(contact.dist), mjMINVAL);
}

// Where the normal is that of a face it turns with the face's geom: exactly, which differences tell from afar. (G12)
void TakeFaceNormal(const ConvexShape& first, const ConvexShape& second, const mjContact& contact, const Mat6& twists,
                    int rank, Mat36* dn) {
  const Vec3 n = Vec3Map(contact.frame);
  const double same = std::clamp(NormalRounding(contact), kSameNormal, kMostNoise);
  const auto basis = twists.leftCols(rank);
  double least = std::max(kNormalNoise, same / kPoseStep);
  Mat36 best = *dn;
  for (int side = 0; side < 2; side++) {
    if (!(side ? second.HasFace(-n, same) : first.HasFace(n, same))) continue;
    Mat36 turn = Mat36::Zero();
    if (side) turn.leftCols<3>() = -Skew(n);
    const double off = ((*dn - turn) * basis).cwiseAbs().maxCoeff();
    if (off >= least) continue;
    least = off;
    best = PLANT("contact geometry: face normal", turn * basis * basis.transpose());
  }
  *dn = best;
}

}  // namespace

ContactGeometry::ContactGeometry(const mjModel*, bool differences) : differences_(differences) {
  found_.resize(kMaxFound);
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
  double candidates[8] = {base + std::max(p1, p2), base + p1 + p2,      base, std::max(m1, m2) + std::max(p1, p2),
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

bool ContactGeometry::Difference(const mjModel* model, mjData* data, int first, std::string* missing) {
  const int* geom = data->contact[first].geom;
  const int g1 = geom[0], g2 = geom[1];
  const auto refuse = [&](const char* why) { return Refuse(model, data->contact[first], why, missing); };
  double margin;
  if (!FindMargin(model, data, first, &margin)) return refuse("its narrow phase could not be repeated");

  // all contacts of this pair, and the collider's tangent of each
  int contacts[kMaxFound], place[kMaxFound], count = 0;
  ContactFrame frames[kMaxFound];
  const int found = Collide(model, data, g1, g2, margin);
  for (int c = first; c < data->ncon && count < kMaxFound; c++) {
    const mjContact& contact = data->contact[c];
    if (!IsWanted(data, c, false) || contact.geom[0] != g1 || contact.geom[1] != g2) continue;
    int match = -1;
    for (int k = 0; k < found && match < 0; k++) {
      if (IsSame(found_[k], contact)) match = k;
    }
    if (match < 0) return refuse("its narrow phase could not be repeated");
    frames[count] = ContactFrame(contact.frame, Vec3Map(found_[match].tangent));
    place[count] = match;
    contacts[count++] = c;
  }

  const Vec3 pivot = Vec3Map(data->contact[first].pos);
  Mat6 twists;
  const int rank = RelativeTwists(model, data, geom, pivot, &twists);
  const double size = 1e-3 + std::abs(data->contact[first].dist);

  // a contact at its margin (faces that just meet) is followed to where it is none: its derivative is that of its own
  // side
  double reach = 1, room = mjMAXVAL;
  for (int k = 0; k < count; k++) {
    const mjContact& contact = data->contact[contacts[k]];
    reach = std::max(reach, (Vec3Map(contact.pos) - pivot).norm());
    room = std::min(room, margin - contact.dist);
  }
  const auto reached = [&](double h) { return room < kKept * h * reach ? margin + kKept * h * reach : margin; };
  ContactRate by_pivot[kMaxFound];
  Mat36 tangent_rate[kMaxFound];
  for (int k = 0; k < count; k++) {
    by_pivot[k].dphi.setZero();
    by_pivot[k].dp.setZero();
    by_pivot[k].dn.setZero();
    tangent_rate[k].setZero();
  }
  MovingGeom moving(data, g2);

  // (distance, point, normal, tangent) of the contacts when geom 2 has moved by exp(h twist); false when one jumps
  using Numbers = Eigen::Matrix<double, 10, 1>;
  const auto moved = [&](const Vec6& twist, double h, double within, Numbers* numbers) {
    moving.Move(pivot, twist, h);
    const int now = Collide(model, data, g1, g2, within);
    moving.Restore();
    for (int k = 0; k < count; k++) {
      const mjContact& contact = data->contact[contacts[k]];
      double nearest = std::numeric_limits<double>::infinity();
      const auto take = [&](const mjPreContact& other) {
        const double distance =
            (Vec3Map(other.pos) - Vec3Map(contact.pos)).norm() + size * (Vec3Map(other.normal) - frames[k].n).norm();
        if (!(distance < nearest)) return;
        nearest = distance;
        numbers[k] << other.dist, Vec3Map(other.pos), Vec3Map(other.normal), Vec3Map(other.tangent);
      };

      // as many as at the point come in the same order, which tells corners apart that are nearer than the nudge
      if (now == found) take(found_[place[k]]);
      if (nearest < kSamePlace * size) continue;
      for (int n = 0; n < now; n++) take(found_[n]);
      if (!(nearest < kSamePlace * size)) return false;
    }
    return true;
  };
  Numbers side[4][kMaxFound], rate[kMaxFound];  // at h, −h, 2h, −2h
  const auto two_points = [&](const Vec6& twist, double h, double within) {
    if (!moved(twist, h, within, side[0]) || !moved(twist, -h, within, side[1])) return false;
    for (int k = 0; k < count; k++) rate[k] = (side[0][k] - side[1][k]) / (2 * h);
    return true;
  };
  for (int column = 0; column < rank; column++) {
    const Vec6 twist = twists.col(column);
    const auto five_points = [&](double h, double within) {
      if (!moved(twist, h, within, side[0]) || !moved(twist, -h, within, side[1]) ||
          !moved(twist, 2 * h, within, side[2]) || !moved(twist, -2 * h, within, side[3])) {
        return false;
      }
      for (int k = 0; k < count; k++) {
        const Numbers near = (side[0][k] - side[1][k]) / (2 * h), far = (side[2][k] - side[3][k]) / (4 * h);
        rate[k] = (4 * near - far) / 3;
        if (!((near - far).cwiseAbs().maxCoeff() <= kBend * std::max(1.0, near.cwiseAbs().maxCoeff()))) return false;
      }
      return true;
    };
    // of a larger margin only where nothing else finds the contact again: the engine makes its geoms rounder by it
    if (!five_points(kWideStep, margin) && !two_points(twist, kPoseStep, margin) &&
        !five_points(kWideStep, reached(kWideStep)) && !two_points(twist, kPoseStep, reached(kPoseStep))) {
      for (int k = 0; k < count; k++) done_[contacts[k]] = kJumps;
      return refuse("its contact points jump under a motion that its joints allow");
    }
    for (int k = 0; k < count; k++) {
      by_pivot[k].dphi += PLANT("contact geometry: pose differences, distance", rate[k][0]) * twist.transpose();
      by_pivot[k].dp += rate[k].segment<3>(1) * twist.transpose();
      by_pivot[k].dn += rate[k].segment<3>(4) * twist.transpose();
      if (frames[k].from_collider) tangent_rate[k] += rate[k].tail<3>() * twist.transpose();
    }
  }

  // one motion more, of all at once: at a corner of the map it is not their sum
  Vec6 all = Vec6::Zero();
  for (int column = 0; column < rank; column++) all += kMixed[column] * twists.col(column);
  const bool told = rank > 1 && (two_points(all, kPoseStep, margin) || two_points(all, kPoseStep, reached(kPoseStep)));
  bool bends[kMaxFound] = {};
  for (int k = 0; k < count && told; k++) {
    Eigen::Matrix<double, 7, 1> sum;
    sum << by_pivot[k].dphi * all, by_pivot[k].dp * all, by_pivot[k].dn * all;
    const mjContact& contact = data->contact[contacts[k]];
    const Eigen::Matrix<double, 7, 1> off = (rate[k].head<7>() - sum).cwiseAbs();
    const double most = kBend * std::max(1.0, sum.cwiseAbs().maxCoeff());
    bends[k] = off.head<4>().maxCoeff() > most || off.tail<3>().maxCoeff() > most + NormalRounding(contact) / kPoseStep;
  }

  // from twists at the pivot to twists at each contact point: v_pivot = v − w × (p − pivot)
  const ConvexShape shape1(model, data, g1), shape2(model, data, g2);
  for (int k = 0; k < count; k++) {
    TakeFaceNormal(shape1, shape2, data->contact[contacts[k]], twists, rank, &by_pivot[k].dn);
    ContactMotion& motion = motion_[contacts[k]];
    const Vec3 r = Vec3Map(data->contact[contacts[k]].pos) - pivot;
    motion.by_geom2 = Assemble(frames[k], by_pivot[k], tangent_rate[k]);
    motion.by_geom2.leftCols<3>() +=
        PLANT("contact geometry: pose differences", (motion.by_geom2.rightCols<3>() * Skew(r)).eval());
    CommonMotion(frames[k], &motion.by_both);
    done_[contacts[k]] = bends[k] ? kBends : kMoves;
  }
  return true;
}

bool ContactGeometry::Flickers(const mjModel* model, mjData* data, int c) {
  const int g1 = data->contact[c].geom[0], g2 = data->contact[c].geom[1];
  double margin;
  if (g1 < 0 || g2 < 0 || !FindMargin(model, data, c, &margin)) return false;
  const Vec3 pivot = Vec3Map(data->contact[c].pos);
  const auto lost = [&](const mjContact& contact, int now) {
    if (contact.geom[0] != g1 || contact.geom[1] != g2 || contact.efc_address < 0 || !CarriesForce(data, contact))
      return false;
    if (contact.dist > margin - kFlickered) return false;  // about to end, not to jump
    return std::none_of(found_.begin(), found_.begin() + now, [&](const mjPreContact& other) {
      return (Vec3Map(other.pos) - Vec3Map(contact.pos)).norm() < kFlickered;
    });
  };
  Mat6 twists;
  const int rank = RelativeTwists(model, data, data->contact[c].geom, pivot, &twists);
  MovingGeom moving(data, g2);
  for (int nudge = 0; nudge < 2 * rank; nudge++) {
    moving.Move(pivot, twists.col(nudge / 2), nudge % 2 ? kFlicker : -kFlicker);
    const int now = Collide(model, data, g1, g2, margin);
    moving.Restore();
    if (std::any_of(data->contact, data->contact + data->ncon,
                    [&](const mjContact& contact) { return lost(contact, now); }))
      return true;
  }
  return false;
}

}  // namespace costate
