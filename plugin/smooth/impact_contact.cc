#include "smooth/impact_contact.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "derivative/extrapolate.h"
#include "derivative/onset.h"

namespace costate {
namespace {

constexpr double kReach = 0.01;  // [m]: contacts are found from here on

// nudges of q in the reset: of the size of small geoms' curvature, so that extrapolation has room on both sides
constexpr double kLargestNudge = 1e-3;
constexpr int kNudges = 7;
constexpr double kDistanceRounding = 1e-15;  // [m]

ModelPtr WithReach(const mjModel* model) {
  ModelPtr copy = CopyModel(model);
  for (int i = 0; i < copy->ngeom; ++i) copy->geom_gap[i] += kReach / 2;
  for (int i = 0; i < copy->npair; ++i) copy->pair_gap[i] += kReach;
  RaiseBodyMargins(copy.get());
  copy->opt.enableflags &= ~mjENBL_SLEEP;
  return copy;
}

}  // namespace

ImpactContacts::ImpactContacts(const mjModel* model, const std::vector<bool>& of)
    : model_(WithReach(model)), data_(MakeData(model_.get())), dims_(model), of_(of) {}

double ImpactContacts::reach() const { return kReach; }

void ImpactContacts::SetContext(ConstVectorRef context) { costate::SetContext(model_.get(), data_.get(), context); }

void ImpactContacts::Positions(ConstVectorRef x) {
  SetState(model_.get(), data_.get(), x);
  mj_fwdKinematics(model_.get(), data_.get());
}

// The pairs of the iterative collider, exact to ccd_tolerance only, and that least at touch: the exact contact next to
// the engine's, or next to the one that the pair had last.
void ImpactContacts::MakeExact(double distance, EventContact* contact) {
  const int type0 = model_->geom_type[contact->geom[0]], type1 = model_->geom_type[contact->geom[1]];
  const bool smooth = type0 != mjGEOM_HFIELD && type0 != mjGEOM_SDF && type1 != mjGEOM_SDF;
  if (!smooth || mjCOLLISIONFUNC[type0][type1] != mjCOLLISIONFUNC[mjGEOM_ELLIPSOID][mjGEOM_ELLIPSOID]) return;
  const auto tracked = std::find_if(tracked_.begin(), tracked_.end(),
                                    [&](const EventContact& other) { return other.SamePair(*contact); });
  const ConvexShape first(model_.get(), data_.get(), contact->geom[0]),
      second(model_.get(), data_.get(), contact->geom[1]);
  ConvexContact exact;
  struct Guess {
    const EventContact* contact;
    double distance;
  };
  // where the engine clips flat parts its distance can be off: then the supports alone judge, which are global at touch
  constexpr double kUnknown = kNan;
  for (const Guess& guess : {Guess{contact, distance}, Guess{contact, kUnknown},
                             Guess{tracked == tracked_.end() ? nullptr : &*tracked, kUnknown}}) {
    if (!guess.contact) break;
    if (!convex_.Solve(first, second, Vec3Map(guess.contact->normal), Vec3Map(guess.contact->position), guess.distance,
                       model_->opt.ccd_tolerance, &exact) ||
        exact.parallel) {
      continue;
    }
    contact->distance += exact.distance - distance;
    const Vec3 middle = (exact.first.x + exact.second.x) / 2;
    std::copy(middle.data(), middle.data() + 3, contact->position);
    std::copy(exact.normal.data(), exact.normal.data() + 3, contact->normal);
    if (tracked == tracked_.end()) {
      tracked_.push_back(*contact);
    } else {
      *tracked = *contact;
    }
    return;
  }
}

void ImpactContacts::Look(ConstVectorRef x, std::vector<EventContact>* out) {
  EngineGuard guard(data_.get());
  Positions(x);
  mj_collision(model_.get(), data_.get());
  out->clear();
  for (int c = 0; c < data_->ncon; ++c) {
    const mjContact& contact = data_->contact[c];
    if (contact.geom[0] < 0 || contact.geom[1] < 0 || !(of_[contact.geom[0]] || of_[contact.geom[1]])) continue;
    EventContact& event = out->emplace_back();
    std::copy(contact.geom, contact.geom + 2, event.geom);
    std::copy(contact.pos, contact.pos + 3, event.position);
    std::copy(contact.frame, contact.frame + 3, event.normal);
    event.distance = contact.dist - contact.includemargin;
    MakeExact(contact.dist, &event);
  }
}

void ImpactContacts::Find(ConstVectorRef x, std::vector<EventContact>* out) {
  using Jacobian = Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::RowMajor>;
  Look(x, out);

  // n = normalᵀ (J₂ − J₁) at the contact point, which is on the line of both nearest points
  Jacobian first(3, dims_.nv), second(3, dims_.nv);
  for (EventContact& event : *out) {
    mj_jac(model_.get(), data_.get(), first.data(), nullptr, event.position, model_->geom_bodyid[event.geom[0]]);
    mj_jac(model_.get(), data_.get(), second.data(), nullptr, event.position, model_->geom_bodyid[event.geom[1]]);
    event.n = Eigen::Map<const Eigen::RowVector3d>(event.normal) * (second - first);
  }
  std::erase_if(*out, [](const EventContact& event) { return event.n.cwiseAbs().maxCoeff() == 0; });
}

double ImpactContacts::Distance(ConstVectorRef x, const EventContact& pair) {
  Look(x, &found_);
  double distance = kReach;
  for (const EventContact& contact : found_) {
    if (contact.SamePair(pair)) distance = std::min(distance, contact.distance);
  }
  return distance;
}

// the contact of the same pair at x whose point is nearest; how far that is
double ImpactContacts::Nearest(ConstVectorRef x, const EventContact& contact, EventContact* out) {
  Find(x, &found_);
  double nearest = kInf;
  for (const EventContact& other : found_) {
    if (!other.SamePair(contact)) continue;
    const double distance = (Vec3Map(other.position) - Vec3Map(contact.position)).norm();
    if (distance < nearest) nearest = distance, *out = other;
  }
  return nearest;
}

VectorXd ImpactContacts::Reset(ConstVectorRef x, const EventContact& contact, double restitution, double* impulse) {
  EngineGuard guard(data_.get());
  Positions(x);
  mj_makeM(model_.get(), data_.get());
  mj_factorM(model_.get(), data_.get());

  // v⁺ = v − (1 + e) M⁻¹ nᵀ (n v) / (n M⁻¹ nᵀ)
  const VectorXd n = contact.n.transpose();
  VectorXd response(dims_.nv);
  mj_solveM(model_.get(), data_.get(), response.data(), n.data(), 1);
  const auto v = x.segment(dims_.nq, dims_.nv);
  const double lambda = -(1 + restitution) * n.dot(v) / n.dot(response);
  if (impulse) *impulse = lambda;
  return v + lambda * response;
}

MatrixXd ImpactContacts::ResetDerivative(ConstVectorRef x, const EventContact& contact, double restitution,
                                         double* error) {
  const int nv = dims_.nv;
  MatrixXd D = MatrixXd::Identity(dims_.ndx, dims_.ndx);

  // by v: I − (1 + e) M⁻¹ nᵀ n / (n M⁻¹ nᵀ)
  Reset(x, contact, restitution, nullptr);
  const VectorXd n = contact.n.transpose();
  VectorXd response(nv);
  mj_solveM(model_.get(), data_.get(), response.data(), n.data(), 1);
  D.block(nv, nv, nv, nv) -= (1 + restitution) / n.dot(response) * response * n.transpose();

  // by q: differences of the whole jump with the contact that each configuration has
  *error = 0;
  double slope_error = 0;
  const double rounding = 4 * std::numeric_limits<double>::epsilon() * x.segment(dims_.nq, nv).cwiseAbs().maxCoeff();
  VectorXd nudge(dims_.ndx), side[2];
  MatrixXd quotients(kNudges, nv + 1);  // last: of the distance, which is n where n can be trusted
  for (int col = 0; col < nv; ++col) {
    for (int k = 0; k < kNudges; ++k) {
      const double eps = std::ldexp(kLargestNudge, -k);
      for (int sign = 0; sign < 2; ++sign) {
        nudge.setZero();
        nudge[col] = sign ? -eps : eps;
        const VectorXd moved = Retract(model_.get(), x, nudge);
        EventContact there;
        if (!std::isfinite(Nearest(moved, contact, &there))) {
          *error = kInf;
          return D;
        }
        side[sign].resize(nv + 1);
        side[sign] << Reset(moved, there, restitution, nullptr), there.distance;
      }
      quotients.row(k) = (side[0] - side[1]).transpose() / (2 * eps);
    }
    for (int row = 0; row < nv; ++row) {
      const Extrapolation value = Extrapolate(quotients.col(row).data(), kNudges, true, rounding / kLargestNudge);
      D(nv + row, col) = value.value;
      *error = std::max(*error, value.error);
    }
    const Extrapolation slope = Extrapolate(quotients.col(nv).data(), kNudges, true, kDistanceRounding / kLargestNudge);
    slope_error = std::max({slope_error, slope.error, std::abs(slope.value - n[col])});
  }
  *error /= std::max(1.0, D.block(nv, 0, nv, nv).cwiseAbs().maxCoeff());
  *error = std::max(*error, slope_error / n.cwiseAbs().maxCoeff());
  return D;
}

}  // namespace costate
