// Contacts without a closed form: differences of the engine's narrow phase along the motions that the joints allow.
#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "derivative/chain.h"
#include "derivative/contact_frame.h"
#include "derivative/contact_geometry.h"
#include "derivative/contact_shape.h"
#include "derivative/moving_geom.h"
#include "derivative/plant.h"

namespace costate {
namespace {

// Five points, h and 2h to both sides: at radii of a millimetre the truncation ~ (2h/radius)⁴ stays below 1e-8, and so
// does what the collider knows its points to, over h. Where those points are not all of one smooth piece, which turns
// over h and 2h tell that are not in proportion, five nearer to the point; where none are, two at a smaller step.
constexpr double kSteps[] = {4e-6, 1e-6, 2.5e-7};
constexpr double kWideStep = kSteps[0];
constexpr double kPoseStep = 1e-6;
constexpr double kBend = 1e-3;     // of a quotient's size: those over h and 2h that differ by this are no use
constexpr double kUneven = 1e-7;   // likewise, of turns out of proportion: a rate errs by half of it or less …
constexpr double kCorner = 1e-5;   // … and where it is this at each step, a bend is at the contact itself
constexpr double kTurnEven = 3;    // roundings of a normal that such turns may show
constexpr double kAtPoint = 0.03;  // of such turns: what quotients differ by if the bend is nearer than all steps
constexpr double kBetter = 0.5;    // what a smaller step must bring their unevenness to
constexpr double kContrary = 0.7;  // of quotients' difference: what is left of it at half the step only at a bend
constexpr double kCurved =
    1e-7;  // of a quotient's size: where those of distance or point differ by this, three sizes …
constexpr double kLinear = 0.1;      // … half as much at half the step: the curvature jumps there, and they go with h
constexpr double kCloseBend = 1e-2;  // of two points alone, which curvature bends, too
constexpr double kJumpTurn = 1.5;    // by how much their turn may grow at half the step before it is that of a jump
constexpr double kTurnNoise = 10;    // roundings of a normal that its second differences may show
constexpr double kMixed[] = {1, -0.7, 0.5, 0.8, -0.6, 0.9};  // some direction across all of them

// capacity of the buffer given to a narrow-phase function (the engine's own limit is mjMAXCONPAIR = 50)
constexpr int kMaxFound = 64;

constexpr double kSamePlace = 0.02;  // of a contact's size: how far a nudge may move it
constexpr double kNearby = 4;     // of a nudge's length: what each contact may move that has its place in the order …
constexpr double kInPlace = 0.1;  // … beyond that it is another one's, if one is nearer than this part of its way

constexpr double kFlicker = 1e-7;    // nudge by which contacts show whether they have places of their own …
constexpr double kFlickered = 2e-5;  // … and what moves them further than it can

constexpr double kKept = 3;  // nudges that a contact may go beyond its margin and still be found

constexpr double kTurnsAlong = 1e-6;  // what a normal's rate may differ from both geoms' turn

constexpr double kIndependent = 1e-8;  // of a motion's size: what is left of it beyond the others
constexpr double kOwnMotion = 1e-3;    // … what a joint must add to those before it to be one of its own
constexpr double kSameNormal = 1e-8;   // what the engine leaves of a face's normal …
constexpr double kPlaceNoise = 3e-15;  // … which it makes from points that it knows to this …
constexpr double kMostNoise = 1e-6;    // … but no more than this
constexpr double kNormalNoise = 1e-8;  // of a normal's rate: one that is not the face's, only near it, is off by more

bool IsSame(const mjPreContact& found, const mjContact& contact) {
  return found.dist == contact.dist && std::equal(found.pos, found.pos + 3, contact.pos);
}

// (G12) unit twists (w; v) at `pivot` by which the joints move one geom against the other
ContactGeometry::Twists JointTwists(const mjModel* m, const mjData* d, const int geom[2], const Vec3& pivot) {
  const int body[2] = {m->geom_bodyid[geom[0]], m->geom_bodyid[geom[1]]};
  ContactGeometry::Twists twists(6, m->nv);
  int count = 0;
  ForExclusiveDofs(m, LastDof(m, body[0]), LastDof(m, body[1]), [&](int dof, int side) {
    const Vec6 twist = MotionAbout(Eigen::Map<const Vec6>(d->cdof + 6 * dof), pivot - Origin(m, d, body[side]));
    if (twist.norm() > 0) twists.col(count++) = twist.normalized();
  });
  return twists.leftCols(count);
}

// (G12) orthonormal twists that span those
int Span(const ContactGeometry::Twists& joints, Mat6* twists) {
  int rank = 0;
  for (int k = 0; k < joints.cols() && rank < 6; k++) {
    Vec6 rest = joints.col(k);
    for (int pass = 0; pass < 2; pass++) {
      const auto basis = twists->leftCols(rank);
      rest -= (basis * (basis.transpose() * rest)).eval();
    }
    if (rest.norm() > kIndependent) twists->col(rank++) = rest.normalized();
  }
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
  double least = std::max(kNormalNoise, NormalRounding(contact) / kWideStep);
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

using Numbers = Eigen::Matrix<double, 10, 1>;  // distance, point, normal, tangent

Numbers NumbersOf(const mjPreContact& found) {
  Numbers numbers;
  numbers << found.dist, Vec3Map(found.pos), Vec3Map(found.normal), Vec3Map(found.tangent);
  return numbers;
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
  const double summed = (m1 + p1) + (m2 + p2);  // which rounds otherwise than margins and gaps apart
  const double larger = std::max(m1, m2) + std::max(p1, p2), own = model->opt.o_margin;
  double candidates[9] = {base + std::max(p1, p2), base + p1 + p2, base, larger, m1 + m2 + p1 + p2, own, summed};
  int count = 7;
  for (int p = 0; p < model->npair && count < 9; p++) {
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

// The contacts of one pair that have rows, and how they move when its geoms are nudged.
class ContactGeometry::Follower {
 public:
  Follower(ContactGeometry* geometry, const mjModel* model, mjData* data, int first, double margin)
      : geometry_(*geometry),
        model_(model),
        data_(data),
        g1_(data->contact[first].geom[0]),
        g2_(data->contact[first].geom[1]),
        geom1_(data, g1_),
        geom2_(data, g2_),
        pivot_(Vec3Map(data->contact[first].pos)),
        size_(1e-3 + std::abs(data->contact[first].dist)),
        margin_(margin) {}

  // the contacts from the first on, each with its own of what the collider finds; false when one is not among it
  bool Match(int first);

  // The rates of all by exp(h twist) of geom 2, or of both. False when one jumps.
  bool Follow(const Vec6& twist, bool both) {
    // of a larger margin only where nothing else finds the contact again: the engine makes its geoms rounder by it
    both_ = both;
    return Nearer(twist, margin_) || TwoPoints(twist, margin_) || Nearer(twist, Reached(kWideStep)) ||
           TwoPoints(twist, Reached(kPoseStep));
  }
  // the same at the smaller step alone
  bool FollowClosely(const Vec6& twist) {
    both_ = false;
    return TwoPoints(twist, margin_) || TwoPoints(twist, Reached(kPoseStep));
  }

  // has the last motion another rate forwards than backwards?
  bool bends(int k) const { return bends_[k]; }

  // is the rate of the last motion off by more than its differences err?
  bool IsOff(int k, const Numbers& off) const {
    const double most = kBend * std::max(1.0, (rate_[k] - off).head<7>().cwiseAbs().maxCoeff()),
                 noise = NormalRounding(data_->contact[contacts_[k]]) / kPoseStep;
    return off.head<4>().cwiseAbs().maxCoeff() > most || off.segment<3>(4).cwiseAbs().maxCoeff() > most + noise;
  }

  int count() const { return count_; }
  int found() const { return found_; }
  const Vec3& pivot() const { return pivot_; }
  int contact(int k) const { return contacts_[k]; }
  const ContactFrame& frame(int k) const { return frames_[k]; }
  const Numbers& rate(int k) const { return rate_[k]; }

 private:
  // A contact at its margin (faces that just meet) is followed to where it is none: its derivative is that of its own
  // side.
  double Reached(double h) const { return room_ < kKept * h * reach_ ? margin_ + kKept * h * reach_ : margin_; }
  bool TwoPoints(const Vec6& twist, double within);
  // Five points at smaller and smaller steps, of each contact those that are most even; false where they jump at each.
  bool Nearer(const Vec6& twist, double within);
  bool FivePoints(const Vec6& twist, double h, double within);
  // Half as far, a corner at the point turns by as much, one beyond that by nothing, a jump by twice: false there.
  bool TellCornerFromJump(const Vec6& twist, double within);
  bool Move(const Vec6& twist, double h, double within, Numbers* numbers);
  // Does contact k go at another rate forwards than backwards, their difference `turn`?
  bool IsCorner(int k, const Numbers& turn, double bend, double h) const;

  ContactGeometry& geometry_;
  const mjModel* model_;
  mjData* data_;
  const int g1_, g2_;
  MovingGeom geom1_, geom2_;
  const Vec3 pivot_;
  const double size_, margin_;
  double reach_ = 1, room_ = mjMAXVAL;
  bool both_ = false;
  int found_ = 0, count_ = 0;
  int contacts_[kMaxFound], place_[kMaxFound];
  ContactFrame frames_[kMaxFound];
  bool bends_[kMaxFound];
  Numbers at_[kMaxFound], side_[2][kMaxFound], far_[kMaxFound], turn_[kMaxFound], rate_[kMaxFound];
  double uneven_[kMaxFound];  // by how much turns of five points are out of proportion, of the rate's size …
  bool at_point_[kMaxFound];  // … and is the bend so near that it is among them at smaller steps, too?
};

bool ContactGeometry::Follower::Match(int first) {
  bool taken[kMaxFound] = {};  // several may be in one place: prisms of a height field that meet below a ball
  found_ = geometry_.Collide(model_, data_, g1_, g2_, margin_);
  for (int c = first; c < data_->ncon && count_ < kMaxFound; c++) {
    const mjContact& contact = data_->contact[c];
    if (!geometry_.IsWanted(data_, c, false) || contact.geom[0] != g1_ || contact.geom[1] != g2_) continue;
    int match = 0;
    while (match < found_ && (taken[match] || !IsSame(geometry_.found_[match], contact))) match++;
    if (match == found_) return false;
    taken[match] = true;
    frames_[count_] = ContactFrame(contact.frame, Vec3Map(geometry_.found_[match].tangent));
    at_[count_] = NumbersOf(geometry_.found_[match]);
    place_[count_] = match;
    contacts_[count_++] = c;
    reach_ = std::max(reach_, (Vec3Map(contact.pos) - pivot_).norm());
    room_ = std::min(room_, margin_ - contact.dist);
  }
  return true;
}

bool ContactGeometry::Follower::Move(const Vec6& twist, double h, double within, Numbers* numbers) {
  if (both_) geom1_.Move(pivot_, twist, h);
  geom2_.Move(pivot_, twist, h);
  const int now = geometry_.Collide(model_, data_, g1_, g2_, within);
  geom1_.Restore();
  geom2_.Restore();
  for (int k = 0; k < count_; k++) {
    const mjContact& contact = data_->contact[contacts_[k]];
    double nearest = kInf;
    const auto take = [&](const mjPreContact& other) {
      const double distance =
          (Vec3Map(other.pos) - Vec3Map(contact.pos)).norm() + size_ * (Vec3Map(other.normal) - frames_[k].n).norm();
      if (!(distance < nearest)) return;
      nearest = distance;
      numbers[k] = NumbersOf(other);
    };

    // (G16) as many as at the point come in the same order, which tells corners apart nearer than the nudge; but
    // those of a mesh may change places
    if (now == found_) take(geometry_.found_[place_[k]]);
    const double in_order = nearest;
    const Numbers ordered = numbers[k];
    if (in_order < kNearby * std::abs(h) * (1 + reach_)) continue;
    for (int n = 0; n < now; n++) take(geometry_.found_[n]);
    if (in_order < kSamePlace * size_ && nearest > kInPlace * in_order) numbers[k] = ordered;
    if (!(nearest < kSamePlace * size_)) return false;
  }
  return true;
}

bool ContactGeometry::Follower::IsCorner(int k, const Numbers& turn, double bend, double h) const {
  const double most = bend * std::max(1.0, rate_[k].cwiseAbs().maxCoeff()),
               noise = kTurnNoise * NormalRounding(data_->contact[contacts_[k]]) / h;
  return turn.head<4>().cwiseAbs().maxCoeff() > most || turn.segment<3>(4).cwiseAbs().maxCoeff() > most + noise;
}

bool ContactGeometry::Follower::TwoPoints(const Vec6& twist, double within) {
  constexpr double h = kPoseStep;
  if (!Move(twist, h, within, side_[0]) || !Move(twist, -h, within, side_[1])) return false;
  for (int k = 0; k < count_; k++) {
    rate_[k] = (side_[0][k] - side_[1][k]) / (2 * h);
    turn_[k] = (side_[0][k] + side_[1][k] - 2 * at_[k]) / h;
    bends_[k] = within == margin_ && IsCorner(k, turn_[k], kCloseBend, h);
  }
  return std::none_of(bends_, bends_ + count_, [](bool bend) { return bend; }) || TellCornerFromJump(twist, within);
}

bool ContactGeometry::Follower::TellCornerFromJump(const Vec6& twist, double within) {
  constexpr double h = kPoseStep / 2;
  if (!Move(twist, h, within, side_[0]) || !Move(twist, -h, within, side_[1])) return false;
  for (int k = 0; k < count_; k++) {
    if (!bends_[k]) continue;
    const Numbers turn = (side_[0][k] + side_[1][k] - 2 * at_[k]) / h,
                  grown = turn.cwiseAbs() - kJumpTurn * turn_[k].cwiseAbs();
    if (IsCorner(k, grown.cwiseMax(0), kCloseBend, h)) return false;
    if (IsCorner(k, turn, kCloseBend, h)) continue;
    rate_[k] = (side_[0][k] - side_[1][k]) / (2 * h);
    bends_[k] = false;
  }
  return true;
}

bool ContactGeometry::Follower::Nearer(const Vec6& twist, double within) {
  Numbers rate[kMaxFound];
  double least[kMaxFound];
  std::fill_n(least, count_, kInf);
  for (const double h : kSteps) {
    if (!FivePoints(twist, h, within)) continue;
    bool seen = false;
    for (int k = 0; k < count_; k++) {
      seen = seen || (std::min(least[k], uneven_[k]) > kUneven && !at_point_[k]);
      if (!(uneven_[k] < kBetter * least[k])) continue;
      rate[k] = rate_[k];
      least[k] = uneven_[k];
    }
    if (!seen) break;
  }
  if (!std::all_of(least, least + count_, [](double uneven) { return uneven < kInf; })) return false;
  for (int k = 0; k < count_; k++) {
    rate_[k] = rate[k];
    bends_[k] = within == margin_ && least[k] > kCorner;
  }
  return true;
}

bool ContactGeometry::Follower::FivePoints(const Vec6& twist, double h, double within) {
  if (!Move(twist, 2 * h, within, side_[0]) || !Move(twist, -2 * h, within, side_[1])) return false;
  for (int k = 0; k < count_; k++) {
    far_[k] = (side_[0][k] - side_[1][k]) / (4 * h);
    turn_[k] = (side_[0][k] + side_[1][k] - 2 * at_[k]) / (2 * h);
  }
  if (!Move(twist, h, within, side_[0]) || !Move(twist, -h, within, side_[1])) return false;
  bool curved = false;
  for (int k = 0; k < count_; k++) {
    rate_[k] = (side_[0][k] - side_[1][k]) / (2 * h);
    const Numbers off = (rate_[k] - far_[k]).cwiseAbs();
    const double scale = std::max(1.0, rate_[k].cwiseAbs().maxCoeff());
    curved = curved || off.head<4>().maxCoeff() > kCurved * scale;

    // the rate forwards less that backwards, at no step
    const Numbers turn = 2 * (side_[0][k] + side_[1][k] - 2 * at_[k]) / h - turn_[k];
    const double noise = kTurnEven * NormalRounding(data_->contact[contacts_[k]]) / h;
    uneven_[k] =
        std::max(turn.head<4>().cwiseAbs().maxCoeff(), turn.segment<3>(4).cwiseAbs().maxCoeff() - noise) / scale;
    at_point_[k] = off.maxCoeff() < kAtPoint * turn.cwiseAbs().maxCoeff();
    if (!(off.maxCoeff() <= kBend * scale)) uneven_[k] = kInf;
  }

  // where the curvature jumps about the point, quotients err by h and not by h²: a third size tells
  const bool third = curved && Move(twist, h / 2, within, side_[0]) && Move(twist, -h / 2, within, side_[1]);
  for (int k = 0; k < count_; k++) {
    const Numbers wide = rate_[k];
    rate_[k] = (4 * wide - far_[k]) / 3;
    if (!third) continue;
    const Numbers half = (side_[0][k] - side_[1][k]) / h;
    const auto jumps = ((half - wide).array() / (wide - far_[k]).array() - 0.5).abs() < kLinear;
    rate_[k] = jumps.select((8 * half - 6 * wide + far_[k]) / 3, rate_[k]);

    // as much at half the step: a bend that the turns do not show, two thirds of the step away
    const double scale = std::max(1.0, wide.cwiseAbs().maxCoeff());
    for (int i = 0; i < 4; i++) {
      const double off = std::abs(wide[i] - far_[k][i]);
      const bool contrary = off > kCurved * scale && std::abs(half[i] - wide[i]) > kContrary * off;
      if (contrary) uneven_[k] = std::max(uneven_[k], off / scale);
    }
  }
  return true;
}

bool ContactGeometry::Difference(const mjModel* model, mjData* data, int first, std::string* missing) {
  const int* geom = data->contact[first].geom;
  const auto refuse = [&](const char* why) { return Refuse(model, data->contact[first], why, missing); };
  double margin;
  if (!FindMargin(model, data, first, &margin)) return refuse("its narrow phase could not be repeated");
  Follower pair(this, model, data, first, margin);
  if (!pair.Match(first)) return refuse("its narrow phase could not be repeated");
  const int count = pair.count();
  const Vec3& pivot = pair.pivot();

  // motions of geom 2
  Mat6 twists;
  const Twists joints = JointTwists(model, data, geom, pivot);
  const int rank = Span(joints, &twists);
  Rates rates[kMaxFound];
  std::fill_n(rates, count, Rates::Zero());
  bool bends[kMaxFound] = {};
  for (int column = 0; column < rank; column++) {
    const Vec6 twist = twists.col(column);
    if (!pair.Follow(twist, false)) {
      for (int k = 0; k < count; k++) done_[pair.contact(k)] = kJumps;
      return refuse("its contact points jump under a motion that its joints allow");
    }
    for (int k = 0; k < count; k++) {
      bends[k] = bends[k] || pair.bends(k);
      rates[k] += pair.rate(k) * twist.transpose();
    }
  }

  // one motion more, of all at once: at a corner of the map it is not their sum
  Vec6 all = Vec6::Zero();
  for (int column = 0; column < rank; column++) all += kMixed[column] * twists.col(column);
  const bool told = rank > 1 && pair.FollowClosely(all);
  for (int k = 0; k < count && told; k++) {
    bends[k] = bends[k] || pair.IsOff(k, pair.rate(k) - rates[k] * all);
  }

  if (std::any_of(bends, bends + count, [](bool bend) { return bend; }) && !FollowJoints(&pair, joints, bends, rates)) {
    for (int k = 0; k < count; k++) done_[pair.contact(k)] = kJumps;
    return refuse("more joints than motions move it about a corner, each otherwise");
  }

  // from twists at the pivot to twists at each contact point: v_pivot = v − w × (p − pivot)
  const ConvexShape shape1(model, data, geom[0]), shape2(model, data, geom[1]);
  for (int k = 0; k < count; k++) {
    ContactRate by_pivot{PLANT("contact geometry: pose differences, distance", rates[k].row(0)),
                         rates[k].middleRows<3>(1), rates[k].middleRows<3>(4)};
    const Mat36 tangent = pair.frame(k).from_collider ? Mat36(rates[k].bottomRows<3>()) : Mat36::Zero();
    const int c = pair.contact(k);
    TakeFaceNormal(shape1, shape2, data->contact[c], twists, rank, &by_pivot.dn);
    ContactMotion& motion = motion_[c];
    const Vec3 r = Vec3Map(data->contact[c].pos) - pivot;
    motion.by_geom2 = Assemble(pair.frame(k), by_pivot, tangent);
    motion.by_geom2.leftCols<3>() +=
        PLANT("contact geometry: pose differences", (motion.by_geom2.rightCols<3>() * Skew(r)).eval());
    CommonMotion(pair.frame(k), &motion.by_both);
    done_[c] = bends[k] ? kBends : kMoves;
  }
  if (pair.found() > 1 && model->opt.disableflags & mjDSBL_NATIVECCD) TurnTogether(data, &pair);
  return true;
}

// (G12) About a corner the rate by a sum of motions is not the sum of their rates: what a column takes is that by its
// own joint. Where joints are more than the motions that they span, all must agree.
bool ContactGeometry::FollowJoints(Follower* pair, const Twists& joints, const bool bends[], Rates rates[]) {
  Mat6 basis;
  int rank = 0;
  for (int k = 0; k < pair->count(); k++) {
    if (bends[k]) rates[k].setZero();
  }
  for (int joint = 0; joint < joints.cols(); joint++) {
    const Vec6 twist = joints.col(joint);
    Vec6 rest = twist;
    for (int pass = 0; pass < 2; pass++) {
      const auto known = basis.leftCols(rank);
      rest -= (known * (known.transpose() * rest)).eval();
    }
    const double size = rest.norm();
    if (!pair->Follow(twist, false)) return false;
    for (int k = 0; k < pair->count(); k++) {
      if (!bends[k]) continue;
      const Numbers off = pair->rate(k) - rates[k] * twist;
      if (size > kOwnMotion) {
        rates[k] += off / size * (rest / size).transpose();
      } else if (pair->IsOff(k, off)) {
        return false;
      }
    }
    if (size > kOwnMotion) basis.col(rank++) = rest / size;
  }
  return true;
}

// (G14) what libccd finds beside its first contact does not turn with both geoms as they are
void ContactGeometry::TurnTogether(const mjData* data, Follower* pair) {
  const int count = pair->count();
  ContactRate common[kMaxFound];
  Mat36 tangent[kMaxFound];
  bool differs[kMaxFound] = {};
  for (int k = 0; k < count; k++) {
    common[k].dphi.setZero();
    common[k].dp << Mat3::Zero(), Mat3::Identity();
    common[k].dn.setZero();
    tangent[k].setZero();
  }
  for (int axis = 0; axis < 3; axis++) {
    const Vec3 w = Vec3::Unit(axis);
    Vec6 twist;
    twist << w, Vec3::Zero();
    if (!pair->Follow(twist, true)) return;
    for (int k = 0; k < count; k++) {
      const Numbers& rate = pair->rate(k);
      const Vec3 n = pair->frame(k).n, r = Vec3Map(data->contact[pair->contact(k)].pos) - pair->pivot();
      common[k].dphi[axis] = rate[0];
      common[k].dp.col(axis) = rate.segment<3>(1) - w.cross(r);
      common[k].dn.col(axis) = rate.segment<3>(4);
      if (pair->frame(k).from_collider) tangent[k].col(axis) = rate.tail<3>();
      differs[k] = differs[k] || (common[k].dn.col(axis) - w.cross(n)).norm() > kTurnsAlong;
    }
  }
  for (int k = 0; k < count; k++) {
    if (differs[k]) motion_[pair->contact(k)].by_both = Assemble(pair->frame(k), common[k], tangent[k]);
  }
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
  const int rank = Span(JointTwists(model, data, data->contact[c].geom, pivot), &twists);
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
