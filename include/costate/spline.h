// Controls as splines: few numbers for a whole motion, linear in them.
#ifndef COSTATE_SPLINE_H_
#define COSTATE_SPLINE_H_

#include <costate/types.h>

namespace costate {

enum class SplineOrder {
  kZero,    ///< held from knot to knot
  kLinear,  ///< straight from knot to knot
  kCubic,   ///< Catmull–Rom, through the knots with a continuous slope
};
const char* ToString(SplineOrder order);  ///< as in a task file: "zero", "linear", "cubic"

struct SplineOptions {
  int knots = 0;  ///< evenly spread over the controls, the first at the first, the last at the last (kZero: equal
                  ///< shares); 0: none
  SplineOrder order = SplineOrder::kCubic;
};

/// S with U = C S: what each knot's value gives at each control interval.
///
/// Each column sums to 1. With kZero and kLinear no entry is negative, so controls stay where their knots are; kCubic
/// may go beyond between knots.
/// @return knots × N.
/// @throws Error{kInvalidArgument} for no knots, more than N, or no control interval.
/// Source: plugin/optimizer/README.md, eq. (8a).
MatrixXd SplineBasis(const SplineOptions& options, int N);

/// The knots C (nu × knots) whose spline C S is nearest to U (nu × N) in least squares; S (knots × N) is SplineBasis's.
/// @throws Error{kDimensionMismatch} where S and U have another N.
MatrixXd FitSpline(ConstMatrixRef S, ConstMatrixRef U);

}  // namespace costate

#endif  // COSTATE_SPLINE_H_
