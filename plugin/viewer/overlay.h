// Text, time line and plots over a picture, drawn by the engine's renderer into its current buffer.
#ifndef COSTATE_PLUGIN_VIEWER_OVERLAY_H_
#define COSTATE_PLUGIN_VIEWER_OVERLAY_H_

#include <memory>
#include <string>
#include <vector>

#include "viewer/switches.h"

namespace costate::viewer {

/// Names and values in two columns, one line each.
struct InfoLine {
  std::string name, value;
};

/// Time, knot, cost, contacts of the moment that the player shows. @param cost_so_far  by SumCost.
std::vector<InfoLine> Describe(Player& player, const VectorXd& cost_so_far);

/// Running sum of the cost of the knots; empty when there is none.
VectorXd SumCost(const ViewSource& source);

/// "0.412 s: foot touches floor, 2 more".
std::string SwitchText(const ModeSwitch& change, double time);

/// Two columns of text in a corner (mjtGridPos).
void DrawInfo(const std::vector<InfoLine>& lines, int corner, mjrRect viewport, const mjrContext* context);

/// A label in the lower left corner: the time stamp of a film's frame.
void DrawStamp(const std::string& text, mjrRect viewport, const mjrContext* context);

/// The bar along the bottom of a window: where it is, and where on it a moment lies.
struct TimeLine {
  mjrRect bar;  ///< in pixels of the frame buffer
  TimeLine(mjrRect viewport, const mjrContext* context);
  void Draw(const Player& player, const std::vector<ModeSwitch>& switches) const;  ///< contacts light, others orange
  bool Contains(double x, double y) const;                                         ///< with some room around it
  double Fraction(double x) const;                                                 ///< 0 … 1
};

/// Plots of cost, controls and their slopes over time, with the present moment marked.
class Plots {
 public:
  explicit Plots(const ViewSource& source);
  /// Fills the viewport with them.
  void Draw(const Player& player, mjrRect viewport, const mjrContext* context);

  /// A live motion has none: its controls are constant.
  bool empty() const { return figures_.empty(); }

 private:
  std::vector<std::unique_ptr<mjvFigure>> figures_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_OVERLAY_H_
