// The event model: segments of free flow and jumps, and the chain of their derivatives.
#include <costate/impact.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/check.h"
#include "core/engine_guard.h"
#include "derivative/check_point.h"
#include "smooth/impact_contact.h"
#include "smooth/impact_flow.h"
#include "smooth/impact_model.h"

namespace costate {
namespace {

constexpr int kRootIterations = 200;
constexpr int kHalvings = 60;  // down to rounding of the segment's length

// What stops an interval; caught where it began.
struct Refused {
  ImpactStatus status;
  std::string message;
};

}  // namespace

const char* ToString(ImpactStatus status) {
  switch (status) {
    case ImpactStatus::kOk: return "ok";
    case ImpactStatus::kInContact: return "in contact";
    case ImpactStatus::kGrazing: return "grazing";
    case ImpactStatus::kSimultaneous: return "simultaneous impacts";
    case ImpactStatus::kTooMany: return "too many impacts";
    case ImpactStatus::kInexact: return "inexact geometry";
    case ImpactStatus::kStepFailed: return "step failed";
  }
  return "unknown";
}

struct ImpactLinearizer::Impl {
  // where the event model is, and the derivative of that by the interval's (x, u)
  struct Chain {
    VectorXd x;
    double time = 0;       // within the interval
    MatrixXd X;            // of x at its own instant, ndx × (ndx + nu)
    Eigen::RowVectorXd T;  // of the instant
  };

  Impl(const mjModel* model, const ImpactOptions& options)
      : model(model),
        options(options),
        dims(model),
        flow(ModelBetweenImpacts(model, options), options.level),
        contacts(model, ImpactGeoms(model, options)) {}

  std::string Pair(const EventContact& contact) const {
    return "geoms '" + ElementName(model, mjOBJ_GEOM, contact.geom[0]) + "' and '" +
           ElementName(model, mjOBJ_GEOM, contact.geom[1]) + "'";
  }
  void Check(StepStatus status, double time) const {
    if (status == StepStatus::kOk) return;
    throw Refused{ImpactStatus::kStepFailed, fmt::format("after {:.3g} s: {}", time, costate::ToString(status))};
  }
  VectorXd Move(const Chain& at, ConstVectorRef u, double s) {
    VectorXd next;
    Check(flow.Move(at.x, u, at.time, s, &next), at.time);
    return next;
  }
  bool Leaves(const EventContact& contact) const {
    return std::any_of(leaving.begin(), leaving.end(),
                       [&](const EventContact& other) { return other.SamePair(contact); });
  }
  double Speed(const EventContact& contact, ConstVectorRef x) const { return contact.n * x.segment(dims.nq, dims.nv); }

  void Interval(ConstVectorRef x, ConstVectorRef u, bool derive, ImpactStep* out);
  void EngineStep(ConstVectorRef u, bool derive, Chain* at, ImpactStep* out);
  bool LookAtStart(const Chain& at, EventContact* hit);
  bool FindFirst(const Chain& at, ConstVectorRef u, double duration, ConstVectorRef end, double* tau,
                 EventContact* pair);
  double FindRoot(const Chain& at, ConstVectorRef u, double duration, const EventContact& pair);
  EventContact HitAt(ConstVectorRef x, double time, const EventContact& pair);
  void CheckAlone(const EventContact& hit, ConstVectorRef before, ConstVectorRef after, double time);
  VectorXd Push(ConstVectorRef u, double s, bool rate, Chain* at, ImpactStep* out);
  void PushImpact(ConstVectorRef u, double tau, const EventContact& hit, ConstVectorRef before, Chain* at,
                  ImpactStep* out);

  const mjModel* model;
  ImpactOptions options;
  Dims dims;
  ImpactFlow flow;
  ImpactContacts contacts;
  StepDerivative segment;
  std::vector<EventContact> found, leaving;
};

// Contacts where a segment starts: pairs that just bounced leave; one that touches and approaches is an impact at once.
bool ImpactLinearizer::Impl::LookAtStart(const Chain& at, EventContact* hit) {
  contacts.Find(at.x, &found);
  leaving.clear();
  bool now = false;
  for (const EventContact& contact : found) {
    if (contact.distance > options.touch) continue;
    const double speed = Speed(contact, at.x);
    if (contact.distance < -options.touch || std::abs(speed) <= options.grazing) {
      throw Refused{ImpactStatus::kInContact,
                    fmt::format("{} are in contact {:.6g} s into the interval: distance {:.3g} m, normal speed {:.3g} "
                                "m/s; a contact that lasts has no event derivative",
                                Pair(contact), at.time, contact.distance, speed)};
    }
    if (speed > 0) {
      leaving.push_back(contact);
    } else if (contact.distance <= 0 && (!now || contact.distance < hit->distance)) {
      *hit = contact;
      now = true;
    }
  }
  return now;
}

// (E4) the root of the pair's distance in (0, duration]: inverse quadratic interpolation safeguarded by bisection
// (Chandrupatla 1997)
double ImpactLinearizer::Impl::FindRoot(const Chain& at, ConstVectorRef u, double duration, const EventContact& pair) {
  const auto distance = [&](double s) { return contacts.Distance(Move(at, u, s), pair); };
  double b = 0, a = duration;

  // a pair that leaves is at zero already: go back from the end to where it is apart
  if (Leaves(pair)) {
    int halvings = 0;
    for (b = duration / 2; distance(b) <= 0; b /= 2) {
      if (++halvings > kHalvings) {
        throw Refused{ImpactStatus::kInContact,
                      fmt::format("{} do not come apart {:.6g} s into the interval: the bounces have died down",
                                  Pair(pair), at.time)};
      }
      a = b;
    }
  }
  double fa = distance(a), fb = distance(b), t = 0.5;
  if (fa == 0) return a;
  for (int i = 0; i < kRootIterations; ++i) {
    const double next = a + t * (b - a), f = distance(next);
    double c = a, fc = fa;
    if ((f > 0) != (fa > 0)) c = b, fc = fb, b = a, fb = fa;
    a = next, fa = f;
    const double best = std::abs(fa) < std::abs(fb) ? a : b;
    const double limit = 2 * std::numeric_limits<double>::epsilon() * duration / std::abs(b - a);
    if (fa == 0 || limit > 0.5) return best;
    const double xi = (a - b) / (c - b), phi = (fa - fb) / (fc - fb);
    t = 0.5;
    if (phi * phi < xi && (1 - phi) * (1 - phi) < 1 - xi) {
      t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb);
    }
    t = std::clamp(t, limit, 1 - limit);
  }
  return std::abs(fa) < std::abs(fb) ? a : b;
}

// The earliest impact of the pairs that are inside each other at the end, or at the earliest impact so far.
bool ImpactLinearizer::Impl::FindFirst(const Chain& at, ConstVectorRef u, double duration, ConstVectorRef end,
                                       double* tau, EventContact* pair) {
  VectorXd x = end;
  bool any = false;
  *tau = duration;
  for (bool earlier = true; earlier;) {
    earlier = false;
    contacts.Find(x, &found);
    const std::vector<EventContact> inside = found;
    const double until = *tau;
    for (const EventContact& contact : inside) {
      if (any && contact.SamePair(*pair)) continue;
      if (contact.distance >= (Leaves(contact) || any ? -options.touch : 0)) continue;
      const double root = FindRoot(at, u, until, contact);
      if (any && root >= *tau) continue;
      *tau = root, *pair = contact, any = earlier = true;
    }
    if (earlier) x = Move(at, u, *tau);
  }
  return any;
}

// the pair's nearest contact where its distance is zero
EventContact ImpactLinearizer::Impl::HitAt(ConstVectorRef x, double time, const EventContact& pair) {
  contacts.Find(x, &found);
  std::optional<EventContact> hit;
  for (const EventContact& contact : found) {
    if (contact.SamePair(pair) && (!hit || contact.distance < hit->distance)) hit = contact;
  }
  if (!hit || std::abs(hit->distance) > options.touch) {
    throw Refused{ImpactStatus::kInexact,
                  fmt::format("the distance of {} jumps through zero {:.6g} s into the interval, to {:.3g} m",
                              Pair(pair), time, hit ? hit->distance : contacts.reach())};
  }
  return *hit;
}

// Another contact point at the same instant that the impulse does not leave alone. Points of equal gradient are one
// event.
void ImpactLinearizer::Impl::CheckAlone(const EventContact& hit, ConstVectorRef before, ConstVectorRef after,
                                        double time) {
  const double same = 1e-9 * hit.n.cwiseAbs().maxCoeff();
  for (const EventContact& other : found) {
    if (other.distance > options.touch || (other.n - hit.n).cwiseAbs().maxCoeff() <= same) continue;
    const double speed_before = Speed(other, before), speed_after = Speed(other, after);
    if (std::min(speed_before, speed_after) > options.grazing) continue;
    throw Refused{
        ImpactStatus::kSimultaneous,
        fmt::format("when {} hit, {:.6g} s into the interval, {} touch too, at another point or along another "
                    "normal: distance {:.3g} m, normal speed {:.3g} m/s before and {:.3g} m/s after",
                    Pair(hit), time, Pair(other), other.distance, speed_before, speed_after)};
  }
}

// X ← A X + (0 B), and ∂φ/∂s when asked for
VectorXd ImpactLinearizer::Impl::Push(ConstVectorRef u, double s, bool rate, Chain* at, ImpactStep* out) {
  VectorXd F;
  double error = 0;
  Check(flow.Linearize(at->x, u, at->time, s, &segment, rate ? &F : nullptr, &error), at->time);
  if (!(error <= options.exactness)) {
    throw Refused{
        ImpactStatus::kInexact,
        fmt::format("how the step changes with its duration of {:.3g} s is known to {:.2g} only, {:.6g} s into the "
                    "interval: something switches there",
                    s, error, at->time)};
  }
  at->X = segment.A * at->X;
  at->X.rightCols(dims.nu) += segment.B;
  if (!segment.coverage.terms.empty() &&
      (out->coverage.terms.empty() || segment.coverage.Worst() > out->coverage.Worst())) {
    out->coverage = segment.coverage;
  }
  return F;
}

// (E6) through the event and the jump
void ImpactLinearizer::Impl::PushImpact(ConstVectorRef u, double tau, const EventContact& hit, ConstVectorRef before,
                                        Chain* at, ImpactStep* out) {
  const VectorXd F = Push(u, tau, true, at, out);
  const double rate = hit.n * F.head(dims.nv);
  if (!(-rate > options.grazing)) {
    throw Refused{ImpactStatus::kGrazing,
                  fmt::format("the distance of {} changes by {:.3g} m/s where it is zero, {:.6g} s into the interval",
                              Pair(hit), rate, at->time + tau)};
  }
  const Eigen::RowVectorXd ds = -(hit.n * at->X.topRows(dims.nv)) / rate;
  double error;
  const MatrixXd jump = contacts.ResetDerivative(before, hit, options.restitution, &error);
  if (!(error <= options.exactness)) {
    throw Refused{
        ImpactStatus::kInexact,
        fmt::format("how distance and impulse of {} change with positions is known to {:.2g} only, {:.6g} s into "
                    "the interval",
                    Pair(hit), error, at->time + tau)};
  }
  at->X = jump * (at->X + F * ds);
  at->T += ds;
}

void ImpactLinearizer::Impl::EngineStep(ConstVectorRef u, bool derive, Chain* at, ImpactStep* out) {
  const double h = flow.timestep();
  const int before_this_step = static_cast<int>(out->impacts.size());
  double gone = 0;
  at->T.setZero(at->X.cols());
  while (true) {
    // an impact at once, or the earliest of the rest of the step
    EventContact pair;
    double tau = 0;
    const bool now = LookAtStart(*at, &pair);
    VectorXd end;
    if (!now) end = Move(*at, u, h - gone);
    if (!now && (gone >= h || !FindFirst(*at, u, h - gone, end, &tau, &pair))) {
      const bool moved = static_cast<int>(out->impacts.size()) > before_this_step;
      if (derive) {
        const VectorXd F = Push(u, h - gone, moved, at, out);
        if (moved) at->X -= F * at->T;
      }
      at->x = end;
      at->time += h - gone;
      return;
    }

    const VectorXd before = Move(*at, u, tau);
    const EventContact hit = HitAt(before, at->time + tau, pair);
    const double approach = -Speed(hit, before);
    if (!(approach > options.grazing)) {
      throw Refused{ImpactStatus::kGrazing,
                    fmt::format("{} touch with an approach speed of {:.3g} m/s only, {:.6g} s into the interval{}",
                                Pair(hit), approach, at->time + tau,
                                Leaves(hit) ? ", back from a bounce in the same step: shorter steps may tell" : "")};
    }
    if (static_cast<int>(out->impacts.size()) - before_this_step == options.max_impacts) {
      throw Refused{ImpactStatus::kTooMany,
                    fmt::format("more than {} impacts in one engine step, the last of {} at {:.3g} m/s",
                                options.max_impacts, Pair(hit), approach)};
    }
    Impact impact;
    VectorXd after = before;
    after.segment(dims.nq, dims.nv) = contacts.Reset(before, hit, options.restitution, &impact.impulse);
    CheckAlone(hit, before, after, at->time + tau);
    if (derive) PushImpact(u, tau, hit, before, at, out);

    at->x = after;
    at->time += tau;
    gone += tau;
    impact.time = at->time;
    std::copy(hit.geom, hit.geom + 2, impact.geom);
    std::copy(hit.position, hit.position + 3, impact.position);
    impact.approach = approach;
    impact.separation = Speed(hit, after);
    out->impacts.push_back(impact);
  }
}

void ImpactLinearizer::Impl::Interval(ConstVectorRef x, ConstVectorRef u, bool derive, ImpactStep* out) {
  CheckPoint(model, dims, x, u);
  EngineGuard guard(flow.data());
  *out = ImpactStep();
  contacts.Forget();
  Chain at;
  at.x = x;
  if (derive) at.X.setIdentity(dims.ndx, dims.ndx + dims.nu);
  try {
    for (int k = 0; k < options.substeps; ++k) {
      at.time = k * flow.timestep();
      EngineStep(u, derive, &at, out);
    }
  } catch (const Refused& refused) {
    out->status = refused.status;
    out->message = refused.message;
    return;
  }
  out->x_next = at.x;
  if (!derive) return;
  out->A = at.X.leftCols(dims.ndx);
  out->B = at.X.rightCols(dims.nu);
  if (out->impacts.empty()) return;
  out->coverage.terms.push_back(
      {"impact", Level::kResidual,
       fmt::format("event-aware: {} rigid impacts without friction, restitution {:g}, in place of the "
                   "engine's contact; the jump differenced by positions",
                   out->impacts.size(), options.restitution)});
}

ImpactLinearizer::ImpactLinearizer(const mjModel* model, const ImpactOptions& options) {
  EngineGuard guard;
  CheckImpactOptions(options);
  CheckImpactModel(model);
  impl_ = std::make_unique<Impl>(model, options);
}
ImpactLinearizer::~ImpactLinearizer() = default;
ImpactLinearizer::ImpactLinearizer(ImpactLinearizer&&) noexcept = default;
ImpactLinearizer& ImpactLinearizer::operator=(ImpactLinearizer&&) noexcept = default;

void ImpactLinearizer::SetContext(ConstVectorRef context) {
  CheckSize(impl_->model, "context", context.size(), "context size", mj_stateSize(impl_->model, kContextSignature));
  CheckFiniteContext(impl_->model, context);
  impl_->contacts.SetContext(context);
  impl_->flow.SetContext(context);
}

void ImpactLinearizer::Step(ConstVectorRef x, ConstVectorRef u, ImpactStep* out) { impl_->Interval(x, u, false, out); }

void ImpactLinearizer::Linearize(ConstVectorRef x, ConstVectorRef u, ImpactStep* out) {
  impl_->Interval(x, u, true, out);
}

}  // namespace costate
