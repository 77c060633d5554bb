#include "viewer/switches.h"

#include <algorithm>
#include <iterator>

#include "core/actuator_range.h"
#include "core/element.h"
#include "core/lap.h"
#include "core/name.h"

namespace costate::viewer {
namespace {

// a geom, or -1 - flex
int Object(const mjContact& c, int side) { return c.geom[side] >= 0 ? c.geom[side] : -1 - c.flex[side]; }

std::string ObjectName(const mjModel* m, int object) {
  return object >= 0 ? ElementName(m, mjOBJ_GEOM, object) : ElementName(m, mjOBJ_FLEX, -1 - object);
}

}  // namespace

SwitchFinder::SwitchFinder(const ViewSource& source)
    : player_(source), end_(source.live || player_.last_knot() == 0 ? 0 : player_.last_knot() + 1) {}

// sorted, each once
std::vector<SwitchFinder::Active> SwitchFinder::Look() {
  const mjModel* m = player_.source().model;
  mjData* d = player_.data();
  std::vector<Active> active;
  for (int i = 0; i < d->ncon; ++i) {
    mjtNum force[6];
    mj_contactForce(m, d, i, force);
    if (force[0] > 0) active.push_back({Kind::kTouch, Object(d->contact[i], 0), Object(d->contact[i], 1)});
  }
  for (int i = 0; i < d->nefc; ++i) {
    if (d->efc_state[i] == mjCNSTRSTATE_SATISFIED) continue;
    if (d->efc_type[i] == mjCNSTR_LIMIT_JOINT) active.push_back({Kind::kJointLimit, d->efc_id[i], 0});
    if (d->efc_type[i] == mjCNSTR_LIMIT_TENDON) active.push_back({Kind::kTendonLimit, d->efc_id[i], 0});
  }
  if (player_.knot() < player_.last_knot()) {
    const VectorXd u = player_.Control(player_.knot());
    for (int i = 0; i < u.size(); ++i) {
      if (IsAtLimit(u[i], ControlRange(m, i))) active.push_back({Kind::kControl, i, 0});
    }
  } else {  // there is no control
    std::copy_if(before_.begin(), before_.end(), std::back_inserter(active),
                 [](const Active& a) { return a.kind == Kind::kControl; });
  }
  std::sort(active.begin(), active.end());
  active.erase(std::unique(active.begin(), active.end()), active.end());
  return active;
}

std::string SwitchFinder::Text(const Active& active, bool begins) const {
  const mjModel* m = player_.source().model;
  if (active.kind == Kind::kTouch)
    return ObjectName(m, active.a) + (begins ? " touches " : " leaves ") + ObjectName(m, active.b);
  const std::string limited = active.kind == Kind::kJointLimit    ? ElementName(m, mjOBJ_JOINT, active.a)
                              : active.kind == Kind::kTendonLimit ? ElementName(m, mjOBJ_TENDON, active.a)
                                                                  : ControlNames(m)[static_cast<std::size_t>(active.a)];
  return (begins ? "limit of " : "free of limit of ") + limited;
}

bool SwitchFinder::Advance(double seconds) {
  if (next_ >= end_) return false;
  const Clock::time_point begin = Clock::now();
  do {
    player_.SetKnot(next_);
    std::vector<Active> now = Look(), begun, ended;
    if (next_ > 0) {
      std::set_difference(now.begin(), now.end(), before_.begin(), before_.end(), std::back_inserter(begun));
      std::set_difference(before_.begin(), before_.end(), now.begin(), now.end(), std::back_inserter(ended));
      ModeSwitch change{.knot = next_};
      for (const bool begins : {true, false}) {
        for (const Active& active : begins ? begun : ended) {
          change.contact = change.contact || active.kind == Kind::kTouch;
          change.what.push_back(Text(active, begins));
        }
      }
      if (!change.what.empty()) found_.push_back(std::move(change));
    }
    before_ = std::move(now);
  } while (++next_ < end_ && SecondsSince(begin) < seconds);
  return true;
}

const ModeSwitch* SwitchFinder::Last(int knot) const { return Before(knot + 1); }

const ModeSwitch* SwitchFinder::Before(int knot) const {
  const auto at =
      std::partition_point(found_.begin(), found_.end(), [&](const ModeSwitch& s) { return s.knot < knot; });
  return at == found_.begin() ? nullptr : &*std::prev(at);
}

const ModeSwitch* SwitchFinder::After(int knot) const {
  const auto at =
      std::partition_point(found_.begin(), found_.end(), [&](const ModeSwitch& s) { return s.knot <= knot; });
  return at == found_.end() ? nullptr : &*at;
}

}  // namespace costate::viewer
