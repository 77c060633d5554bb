// The strategies. What they do to a constraint row is in README.md, (S3)–(S8).
#include <costate/smooth_contact.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/check.h"
#include "smooth/targets.h"

namespace costate {
namespace {

constexpr double kLeastRatio = 1e-9, kMostRatio = 1e9;  // of friction's impedance to the normal's

// one place where a constraint's parameters stand; null: it has none of that kind
struct Place {
  mjtNum *solref = nullptr, *solimp = nullptr, *margin = nullptr;
  double margin_share = 1;  // margins of two geoms add up
};

double Clamped(double impedance) { return std::clamp(impedance, mjMINIMP, mjMAXIMP); }

// impedance at onset, as the engine takes it
double Jump(const mjtNum* solimp) {
  const bool flat = Clamped(solimp[0]) == Clamped(solimp[1]) || solimp[2] <= mjMINVAL;
  return flat ? 0.5 * (Clamped(solimp[0]) + Clamped(solimp[1])) : Clamped(solimp[0]);
}

// b of aref = −b v − k d r
double Damping(const mjModel* m, const mjtNum* solref, const mjtNum* solimp) {
  const double width = Clamped(solimp[1]);
  if (solref[1] <= 0) return -solref[1] / width;
  const bool safe = !(m->opt.disableflags & mjDSBL_REFSAFE);
  return 2 / (width * std::max(mjMINVAL, safe ? std::max(solref[0], 2 * m->opt.timestep) : solref[0]));
}

class Smoother {
 public:
  Smoother(mjModel* model, const SmoothContact& options, const SmoothElements& elements)
      : m_(model), o_(options), e_(elements) {}

  void Run(std::vector<SmoothChange>* changes) {
    changes_ = changes;
    Collect();
    Begin();
    if (o_.softness > 0) Soften();
    if (o_.friction > 0) Friction();
    if (o_.solver > 0) {
      Add("solver", "m/s^2", o_.solver, 0,
          fmt::format("nothing moves otherwise: in derivatives alone each row acts by a share that "
                      "grows from 0 to 1 over "
                      "about {:g} m/s^2 about its switch",
                      o_.solver));
    }
  }

 private:
  SmoothChange& Add(const char* strategy, const char* unit, double strength, int elements, std::string motion) {
    changes_->push_back({strategy, unit, strength, elements, std::move(motion), 0, 0});
    return changes_->back();
  }

  // all that pushes from one side
  void Collect() {
    for (int g : e_.geoms)
      contact_.push_back({m_->geom_solref + mjNREF * g, m_->geom_solimp + mjNIMP * g, m_->geom_margin + g, 0.5});
    for (int k : e_.pairs)
      contact_.push_back({m_->pair_solref + mjNREF * k, m_->pair_solimp + mjNIMP * k, m_->pair_margin + k});
    for (int f : e_.flexes)
      contact_.push_back({m_->flex_solref + mjNREF * f, m_->flex_solimp + mjNIMP * f, m_->flex_margin + f, 0.5});
    if (e_.override) contact_ = {{m_->opt.o_solref, m_->opt.o_solimp, &m_->opt.o_margin}};
    for (int j : e_.joints)
      limit_.push_back({m_->jnt_solref + mjNREF * j, m_->jnt_solimp + mjNIMP * j, m_->jnt_margin + j});
    for (int t : e_.tendons) {
      limit_.push_back({m_->tendon_solref_lim + mjNREF * t, m_->tendon_solimp_lim + mjNIMP * t, m_->tendon_margin + t});
    }
  }

  // (S3), (S4): where forces begin and how they grow
  void Begin() {
    if (!(o_.onset > 0) && !(o_.distance > 0)) return;
    double before = 0;
    int grown = 0, moved = 0;
    const auto begin = [&](const Place& p, double distance) {
      if (!(o_.onset > 0) && !(distance > 0)) return;
      before = std::max(before, Jump(p.solimp));
      const double width = o_.onset > 0 ? o_.onset : std::max(0.0, p.solimp[2]);
      p.solimp[0] = 0;
      p.solimp[2] = width + distance;
      *p.margin += p.margin_share * distance;
      grown++;
      moved += distance > 0;
    };
    for (const Place& p : contact_) begin(p, o_.distance);
    for (const Place& p : limit_) begin(p, o_.targets.all() ? 0 : o_.distance);
    if (o_.distance > 0) RaiseBodyMargins(m_);
    if (o_.onset > 0) {
      SmoothChange& change = Add("onset", "m", o_.onset, grown,
                                 fmt::format("contacts and limits give way at first: bodies rest "
                                             "up to {:g} m (rad) deeper, and impacts begin softly",
                                             o_.onset));
      change.jump_before = before;
      change.jump_after = mjMINIMP;
    }
    if (o_.distance > 0) {
      SmoothChange& change = Add("distance", "m", o_.distance, moved,
                                 fmt::format("contacts push from {:g} m before touch, from nothing "
                                             "to their full impedance: bodies float and roll "
                                             "over edges at up to that distance",
                                             o_.distance));
      change.jump_before = before;
      change.jump_after = mjMINIMP;
    }
  }

  // (S5)
  void Soften() {
    int count = 0;
    const auto soften = [&](const Place& p) {
      mjtNum* ref = p.solref;
      if (ref[0] > 0) {
        if (ref[0] >= o_.softness) return;
        ref[0] = o_.softness;
      } else {
        // direct format, −stiffness and −damping: the same ratio of damping at a longer time
        const double own = ref[1] < 0 ? 2 / -ref[1] : ref[0] < 0 ? 1 / std::sqrt(-ref[0]) : o_.softness;
        if (own >= o_.softness) return;
        const double ratio = own / o_.softness;
        ref[0] *= ratio * ratio;
        ref[1] *= ratio;
      }
      count++;
    };
    for (const Place& p : contact_) soften(p);
    for (const Place& p : limit_) soften(p);
    const double safe = m_->opt.disableflags & mjDSBL_REFSAFE ? 0 : 2 * m_->opt.timestep;
    std::string clamp;
    if (o_.softness < safe) clamp = fmt::format("; the engine raises it to {:g} s, two timesteps", safe);
    Add("softness", "s", o_.softness, count,
        fmt::format("penetration decays over {:g} s: bodies sink in further, by the square of that "
                    "time, and bounce longer{}",
                    std::max(o_.softness, safe), clamp));
  }

  // (S6), (S7)
  void Friction() {
    int count = 0;
    std::string note;
    if (e_.all_contacts) count += FrictionOfAll(&note);
    else count += FrictionOfPairs(&note);
    for (int dof : e_.dofs) count += DryFriction(m_->dof_solref + mjNREF * dof, m_->dof_solimp + mjNIMP * dof);
    for (int t : e_.friction_tendons) {
      count += DryFriction(m_->tendon_solref_fri + mjNREF * t, m_->tendon_solimp_fri + mjNIMP * t);
    }
    Add("friction", "1/s", o_.friction, count,
        fmt::format("what stuck creeps: friction holds with {:g} N for each kg and m/s of slip "
                    "until it slides{}",
                    o_.friction, note));
  }

  // slope of the model's own friction: impedance ratio · d / (1 − d) · b
  double OwnSlope(const Place& p) const {
    const double d = Clamped(p.solimp[1]);
    return d / (1 - d) * Damping(m_, p.solref, p.solimp);
  }

  int FrictionOfAll(std::string* note) {
    double steepest = 0;
    for (const Place& p : contact_) steepest = std::max(steepest, OwnSlope(p));
    if (!(steepest > 0)) return 0;
    m_->opt.impratio = std::clamp(o_.friction / steepest, kLeastRatio, kMostRatio);
    if (m_->opt.cone != mjCONE_ELLIPTIC) {
      m_->opt.cone = mjCONE_ELLIPTIC;
      *note = "; cones are elliptic instead of pyramids";
    }
    return static_cast<int>(contact_.size());
  }

  int FrictionOfPairs(std::string* note) {
    for (int k : e_.pairs) {
      const Place p{m_->pair_solref + mjNREF * k, m_->pair_solimp + mjNIMP * k};
      const double d = Clamped(p.solimp[1]), most = 1 / m_->opt.timestep;
      double b = o_.friction * (1 - d) / (d * std::max(mjMINVAL, m_->opt.impratio));
      if (b > most) {
        b = most;
        *note =
            fmt::format("; at most {:g} 1/s, where slip ends within a timestep", most * d / (1 - d) * m_->opt.impratio);
      }
      mjtNum* ref = m_->pair_solreffriction + mjNREF * k;
      ref[0] = -1;
      ref[1] = -b * d;
    }
    return static_cast<int>(e_.pairs.size());
  }

  // impedance d with d / (1 − d) · b = slope; b stays
  int DryFriction(const mjtNum* solref, mjtNum* solimp) const {
    const double b = Damping(m_, solref, solimp), d = o_.friction / (o_.friction + b);
    solimp[0] = std::clamp(d, mjMINIMP, mjMAXIMP);
    // positions of these rows are 0: only the first counts, unless there is no width
    solimp[2] = std::max<double>(solimp[2], 1e-6);
    return 1;
  }

  mjModel* m_;
  const SmoothContact& o_;
  const SmoothElements& e_;
  std::vector<SmoothChange>* changes_ = nullptr;
  std::vector<Place> contact_, limit_;
};

void CheckStrengths(const SmoothContact& o) {
  const auto check = [](double value, const char* name) {
    if (value >= 0 && std::isfinite(value)) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("smoothing: {} is {:g}, expected a number that is not negative", name, value));
  };
  check(o.onset, "onset");
  check(o.softness, "softness");
  check(o.distance, "distance");
  check(o.friction, "friction");
  check(o.solver, "solver");
}

}  // namespace

SmoothModel MakeSmoothModel(const mjModel* model, const SmoothContact& options) {
  NotNull(model);
  CheckStrengths(options);
  SmoothModel out;
  SmoothElements elements;
  out.model = ResolveTargets(model, options, &elements);
  Smoother(out.model.get(), options, elements).Run(&out.changes);
  out.smoothing = options.solver;
  out.label = options.any() ? "smoothed: " + ToString(options) : "";
  return out;
}

}  // namespace costate
