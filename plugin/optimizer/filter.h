// Which steps are taken while gaps and cost compete. README.md, "Multiple shooting", eq. (12).
#ifndef COSTATE_OPTIMIZER_FILTER_H_
#define COSTATE_OPTIMIZER_FILTER_H_

#include <algorithm>
#include <cmath>
#include <vector>

namespace costate {

/// Filter of Wächter & Biegler (2006, sec. 2.3) over the sum of gaps θ and the objective φ.
class Filter {
 public:
  explicit Filter(double ratio) : ratio_(ratio) {}

  struct Point {
    double gaps = 0, objective = 0;
  };

  /// @param slope  of φ along the full step.  @param alpha  of the trial.
  bool Accepts(const Point& from, const Point& to, double slope, double alpha) const {
    if (!std::isfinite(to.objective)) return false;
    for (const Point& p : points_) {
      if (to.gaps >= (1 - kMargin) * p.gaps && to.objective >= p.objective - kMargin * p.gaps) return false;
    }
    if (IsForObjective(from, slope, alpha))
      return to.objective <= from.objective + ratio_ * alpha * std::min(slope, 0.0);
    return to.gaps <= (1 - kMargin) * from.gaps || to.objective <= from.objective - kMargin * from.gaps;
  }

  /// After an accepted step: a step for the gaps' sake shall not be undone.
  void Add(const Point& from, double slope, double alpha) {
    if (!IsForObjective(from, slope, alpha)) points_.push_back(from);
  }
  void Clear() { points_.clear(); }

 private:
  static constexpr double kMargin = 1e-5;
  static constexpr double kSlopePower = 2.3, kGapPower = 1.1;  // ibid. eq. (19)

  static bool IsForObjective(const Point& from, double slope, double alpha) {
    return from.gaps == 0 || (slope < 0 && alpha * std::pow(-slope, kSlopePower) > std::pow(from.gaps, kGapPower));
  }

  double ratio_;
  std::vector<Point> points_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_FILTER_H_
