// Differences of the event model itself: the judge of its derivative where there is no closed form.
#ifndef COSTATE_TESTS_SMOOTH_EVENT_DIFFERENCES_H_
#define COSTATE_TESTS_SMOOTH_EVENT_DIFFERENCES_H_

#include <costate/impact.h>
#include <gtest/gtest.h>

namespace costate {

/// x_next of the event model moved along each column of [A B], centred; two sizes extrapolated: error of the fourth
/// power.
inline MatrixXd EventDifferences(const mjModel* model, ConstVectorRef x, ConstVectorRef u, const ImpactOptions& options,
                                 double eps, bool extrapolate) {
  const Dims dims(model);
  ImpactLinearizer linearizer(model, options);
  MatrixXd result(dims.ndx, dims.ndx + dims.nu);
  ImpactStep center, side[2];
  linearizer.Step(x, u, &center);
  for (int col = 0; col < dims.ndx + dims.nu; ++col) {
    for (int half = 0; half <= (extrapolate ? 1 : 0); ++half) {
      const double size = half ? eps / 2 : eps;
      for (int s = 0; s < 2; ++s) {
        VectorXd dx = VectorXd::Zero(dims.ndx), moved_u = u;
        if (col < dims.ndx) dx[col] = s ? -size : size;
        if (col >= dims.ndx) moved_u[col - dims.ndx] += s ? -size : size;
        linearizer.Step(Retract(model, x, dx), moved_u, &side[s]);
        EXPECT_EQ(side[s].impacts.size(), center.impacts.size()) << side[s].message;
      }
      const VectorXd quotient =
          (Difference(model, side[0].x_next, center.x_next) - Difference(model, side[1].x_next, center.x_next)) /
          (2 * size);
      if (half) {
        result.col(col) = (4 * quotient - result.col(col)) / 3;
      } else {
        result.col(col) = quotient;
      }
    }
  }
  return result;
}

}  // namespace costate

#endif  // COSTATE_TESTS_SMOOTH_EVENT_DIFFERENCES_H_
