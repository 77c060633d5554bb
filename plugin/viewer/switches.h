// The knots of a recorded motion at which its step takes another branch.
#ifndef COSTATE_PLUGIN_VIEWER_SWITCHES_H_
#define COSTATE_PLUGIN_VIEWER_SWITCHES_H_

#include <compare>
#include <string>
#include <vector>

#include "viewer/motion.h"

namespace costate::viewer {

/// What differs at a knot from the one before.
struct ModeSwitch {
  int knot = 0;
  bool contact = false;  ///< something begins or ceases to touch; else limits and clamps alone
  std::vector<std::string>
      what{};  ///< "foot touches floor", "foot leaves floor", "limit of knee", "free of limit of knee"
};

/// Looks for contacts that begin or cease to carry a force, limits of joints and tendons that begin or cease to push, and
/// controls that come to or leave a bound of their range. Sticking and sliding are not told apart. A little at a time: a
/// window stays alive meanwhile.
class SwitchFinder {
 public:
  explicit SwitchFinder(const ViewSource& source);  ///< borrows; a live source has none

  /// Looks at further knots, for about so many seconds. True when there was something left to look at.
  bool Advance(double seconds);

  const std::vector<ModeSwitch>& found() const { return found_; }  ///< by knot

  const ModeSwitch* Last(int knot) const;    ///< at that knot or before; null: none so far
  const ModeSwitch* Before(int knot) const;  ///< strictly
  const ModeSwitch* After(int knot) const;

 private:
  enum class Kind { kTouch, kJointLimit, kTendonLimit, kControl };
  struct Active {
    Kind kind;
    int a, b;
    auto operator<=>(const Active&) const = default;
  };
  std::vector<Active> Look();
  std::string Text(const Active& active, bool begins) const;

  Player player_;
  int next_ = 0, end_;  // knots
  std::vector<Active> before_;
  std::vector<ModeSwitch> found_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_SWITCHES_H_
