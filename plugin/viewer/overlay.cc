#include "viewer/overlay.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/name.h"

namespace costate::viewer {
namespace {

constexpr int kMaxLines = 8;  // controls in one plot; more cannot be told apart
constexpr int kMaxPoints = mjMAXLINEPNT - 1;

// the renderer's font has ASCII only
std::string Ascii(std::string text) {
  for (char& c : text) {
    if (c < 32 || c > 126) c = '?';
  }
  return text;
}

void SetText(char* target, std::size_t size, const std::string& text) {
  std::snprintf(target, size, "%s", Ascii(text).c_str());
}

// one line of a figure from values over time, thinned to what a figure holds; `stepwise` for controls, held over a knot
void SetLine(mjvFigure* figure, int line, const std::string& name, const VectorXd& time, const VectorXd& values,
             bool stepwise) {
  const int n = static_cast<int>(values.size());
  const int per_value = stepwise ? 2 : 1;
  const int stride = (n * per_value + kMaxPoints - 1) / kMaxPoints;
  int points = 0;
  auto add = [&](double t, double value) {
    figure->linedata[line][2 * points] = static_cast<float>(t);
    figure->linedata[line][2 * points + 1] = static_cast<float>(value);
    ++points;
  };
  for (int i = 0; i < n && points + per_value <= mjMAXLINEPNT; i += stride) {
    add(time[i], values[i]);
    if (stepwise) add(time[std::min<Eigen::Index>(i + stride, time.size() - 1)], values[i]);
  }
  figure->linepnt[line] = points;
  SetText(figure->linename[line], sizeof(figure->linename[line]), name);
}

// the plane of a figure: all of the time, and every value with a little room
std::unique_ptr<mjvFigure> MakeFigure(const std::string& title, const VectorXd& time, ConstMatrixRef values) {
  auto figure = std::make_unique<mjvFigure>();
  mjv_defaultFigure(figure.get());
  SetText(figure->title, sizeof(figure->title), title);
  SetText(figure->xlabel, sizeof(figure->xlabel), "time [s]");
  SetText(figure->xformat, sizeof(figure->xformat), "%.2g");
  SetText(figure->yformat, sizeof(figure->yformat), "%.3g");
  SetText(figure->minwidth, sizeof(figure->minwidth), "-0.000");
  figure->flg_ticklabel[0] = figure->flg_ticklabel[1] = 1;
  figure->flg_extend = 1;
  figure->flg_selection = 1;
  figure->range[0][0] = static_cast<float>(time[0]);
  figure->range[0][1] = static_cast<float>(time[time.size() - 1]);
  const double low = values.minCoeff(), high = values.maxCoeff(),
               room = std::max(0.05 * (high - low), 1e-4 * std::abs(high) + 1e-5);
  figure->range[1][0] = static_cast<float>(low - room);
  figure->range[1][1] = static_cast<float>(high + room);
  figure->figurergba[3] = 1;
  figure->gridsize[0] = figure->gridsize[1] = 5;
  figure->linewidth = 2;
  return figure;
}

}  // namespace

VectorXd SumCost(const ViewSource& source) {
  VectorXd sum = source.cost_per_knot;
  for (Eigen::Index t = 1; t < sum.size(); ++t) sum[t] += sum[t - 1];
  return sum;
}

std::vector<InfoLine> Describe(Player& player, const VectorXd& cost_so_far) {
  const ViewSource& source = player.source();
  std::vector<InfoLine> lines;
  if (source.live || player.last_knot() == 0) {
    lines.push_back({"time", fmt::format("{:.3f} s", player.time())});
  } else {
    lines.push_back({"time", fmt::format("{:.3f} / {:.3f} s", player.time(), player.end())});
    lines.push_back({"knot", fmt::format("{} / {}", player.knot(), player.last_knot())});
  }
  if (cost_so_far.size() > player.knot()) {
    lines.push_back({"cost of knot", fmt::format("{:.4g}", source.cost_per_knot[player.knot()])});
    lines.push_back({"cost so far",
                     fmt::format("{:.5g} of {:.5g}", cost_so_far[player.knot()], cost_so_far[cost_so_far.size() - 1])});
  }
  const mjData* data = player.data();
  if (data->ncon > 0) {
    double depth = 0;
    for (int i = 0; i < data->ncon; ++i) depth = std::max<double>(depth, -data->contact[i].dist);
    lines.push_back({"contacts", fmt::format("{}, deepest {:.2f} mm", data->ncon, 1e3 * depth)});
  }
  if (!player.failure().empty()) lines.push_back({"simulation", player.failure()});
  return lines;
}

std::string SwitchText(const ModeSwitch& change, double time) {
  constexpr std::size_t kShown = 2;
  std::string text = fmt::format("{:.3f} s: ", time);
  const std::size_t shown = std::min(kShown, change.what.size());
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + change.what[i];
  if (shown < change.what.size()) text += fmt::format(", {} more", change.what.size() - shown);
  return text;
}

void DrawInfo(const std::vector<InfoLine>& lines, int corner, mjrRect viewport, const mjrContext* context) {
  std::string names, values;
  for (const InfoLine& line : lines) {
    names += (names.empty() ? "" : "\n") + Ascii(line.name);
    values += (values.empty() ? "" : "\n") + Ascii(line.value);
  }
  mjr_overlay(mjFONT_NORMAL, corner, viewport, names.c_str(), values.c_str(), context);
}

void DrawStamp(const std::string& text, mjrRect viewport, const mjrContext* context) {
  mjr_overlay(mjFONT_NORMAL, mjGRID_BOTTOMLEFT, viewport, Ascii(text).c_str(), nullptr, context);
}

TimeLine::TimeLine(mjrRect viewport, const mjrContext* context) {
  const int height = std::max(6, context->charHeight / 2), margin = 2 * height;
  bar = {viewport.left + margin, viewport.bottom + height, std::max(1, viewport.width - 2 * margin), height};
}

void TimeLine::Draw(const Player& player, const std::vector<ModeSwitch>& switches) const {
  // a dark strip, its filled part, and a handle
  const int edge = std::max(1, bar.height / 6);
  mjr_rectangle({bar.left - edge, bar.bottom - edge, bar.width + 2 * edge, bar.height + 2 * edge}, 0, 0, 0, 0.55f);
  const double length = player.end() - player.start();
  const double fraction = length > 0 ? (player.time() - player.start()) / length : 0;
  const int filled = static_cast<int>(fraction * bar.width);
  mjr_rectangle({bar.left, bar.bottom, filled, bar.height}, 0.25f, 0.60f, 0.95f, 0.9f);
  for (const ModeSwitch& change : switches) {
    const double at = length > 0 ? (player.Time(change.knot) - player.start()) / length : 0;
    const int mark = std::max(1, bar.height / 6);
    mjr_rectangle(
        {bar.left + static_cast<int>(at * (bar.width - mark)), bar.bottom - edge, mark, bar.height + 2 * edge}, 1,
        change.contact ? 1.0f : 0.6f, change.contact ? 0.85f : 0.1f, 0.9f);
  }
  const int handle = bar.height;
  mjr_rectangle({bar.left + std::clamp(filled - handle / 2, 0, std::max(0, bar.width - handle)),
                 bar.bottom - handle / 3, handle, bar.height + 2 * (handle / 3)},
                1, 1, 1, 0.95f);
}

bool TimeLine::Contains(double x, double y) const {
  return x >= bar.left - bar.height && x <= bar.left + bar.width + bar.height && y >= bar.bottom - bar.height &&
         y <= bar.bottom + 2 * bar.height;
}

double TimeLine::Fraction(double x) const { return std::clamp((x - bar.left) / bar.width, 0.0, 1.0); }

Plots::Plots(const ViewSource& source) {
  const Trajectory& motion = source.trajectory;
  if (source.live || motion.N() < 1) return;
  if (source.cost_per_knot.size() == motion.time.size()) {
    // the terminal cost has another scale
    const Eigen::Index N = motion.N();
    auto figure = MakeFigure(fmt::format("cost of each knot (terminal: {:.4g})", source.cost_per_knot[N]), motion.time,
                             source.cost_per_knot.head(N));
    SetLine(figure.get(), 0, "cost", motion.time, source.cost_per_knot.head(N), false);
    figure->flg_legend = 0;
    figures_.push_back(std::move(figure));
  }
  if (motion.U.rows() > 0) {
    const int lines = std::min<int>(kMaxLines, static_cast<int>(motion.U.rows()));
    const std::string some = motion.U.rows() > lines ? fmt::format(" (first {} of {})", lines, motion.U.rows()) : "";
    auto figure = MakeFigure("controls" + some, motion.time, motion.U.topRows(lines));
    for (int i = 0; i < lines; ++i) {
      SetLine(figure.get(), i, Inside(ControlNames(source.model)[i]), motion.time, motion.U.row(i).transpose(), true);
    }
    figure->flg_legend = 1;
    figures_.push_back(std::move(figure));
  }
  if (source.slope_per_knot.size() == motion.N()) {
    const VectorXd& slopes = source.slope_per_knot;
    auto figure = MakeFigure("largest slope of the cost by a control", motion.time, slopes);
    SetLine(figure.get(), 0, "slope", motion.time, slopes, true);
    figure->flg_legend = 0;
    figures_.push_back(std::move(figure));
  }
}

void Plots::Draw(const Player& player, mjrRect viewport, const mjrContext* context) {
  if (figures_.empty()) return;
  mjr_rectangle(viewport, figures_[0]->figurergba[0], figures_[0]->figurergba[1], figures_[0]->figurergba[2], 1);
  const int height = viewport.height / static_cast<int>(figures_.size());
  int top = viewport.bottom + viewport.height;
  for (auto& figure : figures_) {
    figure->selection = static_cast<float>(player.time());
    top -= height;
    mjr_figure({viewport.left, top, viewport.width, height}, figure.get(), context);
  }
}

}  // namespace costate::viewer
