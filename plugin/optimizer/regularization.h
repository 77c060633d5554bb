// How much regularization an iteration takes, from what the one before it achieved.
#ifndef COSTATE_OPTIMIZER_REGULARIZATION_H_
#define COSTATE_OPTIMIZER_REGULARIZATION_H_

#include <costate/ilqr.h>

#include <algorithm>
#include <cmath>

namespace costate {

/// mu of Levenberg and Marquardt.
class Regularization {
 public:
  explicit Regularization(const IlqrOptions& options)
      : rule_(options.regularization_rule),
        factor_(options.regularization_factor),
        min_(options.regularization_min),
        max_(options.regularization_max),
        value_(options.regularization_init) {}

  double value() const { return value_; }

  void Set(double value) {
    value_ = value;
    change_ = 1;
  }

  /// After a failure: ever larger jumps (Tassa, Erez & Todorov 2012, sec. II-F); false when it is at its maximum
  /// already.
  bool Grow() {
    if (value_ >= max_) return false;
    change_ = std::max(factor_, change_ * factor_);
    value_ = std::min(max_, std::max(min_, value_ * change_));
    return true;
  }

  /// After a step alpha that kept `fraction` of what the model promised of a whole one.
  ///
  /// kPromise: more than half shrinks it, ever faster and below the minimum to none at all; less lets it grow, at most
  /// twofold: 1 - (2 fraction - 1)³ (Nielsen 1999). kStep: README.md, (I3).
  void Adapt(double fraction, double alpha) {
    if (rule_ == RegularizationRule::kStep) return AdaptByStep(fraction / alpha, alpha);
    if (fraction > 0.5) {
      change_ = std::min(1 / factor_, change_ / factor_);
      value_ = value_ * change_ >= min_ ? value_ * change_ : 0;
    } else {
      change_ = 1;
      value_ = std::min(max_, std::max(min_, value_ * (1 - std::pow(2 * fraction - 1, 3))));
    }
  }

 private:
  void AdaptByStep(double fraction, double alpha) {
    if (alpha > kLongStep) {
      change_ = std::min(1 / factor_, change_ / factor_);
      value_ = std::max(min_, value_ * change_);
    } else if (fraction < 0.1 || alpha < kLittleStep) {
      Grow();
    }
  }

  static constexpr double kLongStep = 0.3, kLittleStep = 0.13;  // an eighth is short, a quarter neither

  RegularizationRule rule_;
  double factor_, min_, max_, value_;
  double change_ = 1;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_REGULARIZATION_H_
