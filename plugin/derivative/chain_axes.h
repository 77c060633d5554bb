// The axes of a chain's dofs by components, the numbers of all dofs side by side.
#ifndef COSTATE_DERIVATIVE_CHAIN_AXES_H_
#define COSTATE_DERIVATIVE_CHAIN_AXES_H_

#include <vector>

#include "derivative/spatial_lanes.h"

namespace costate {

/// One vector's products with all axes are made together.
class ChainAxes {
 public:
  /// Six numbers of a spatial vector.
  struct Components {
    double x[6];
  };
  static COSTATE_LANES Components Of(const Lanes6& x) { return {x.a[0], x.a[1], x.a[2], x.l[0], x.l[1], x.l[2]}; }

  /// @param memory  grown where it is too small; holds the axes and behind them rows of products, one number a dof.
  ///        What lies behind the last dof of a row, up to three numbers, is anything.
  COSTATE_LANES ChainAxes(int count, int products, std::vector<double>* memory) : stride_((count + 3) / 4 * 4) {
    const std::size_t size = static_cast<std::size_t>(6 + products) * stride_;
    if (memory->size() < size) memory->resize(size);
    axes_ = memory->data();
  }

  COSTATE_LANES void Set(int n, const Lanes6& S) {
    for (int k = 0; k < 3; k++) {
      axes_[k * stride_ + n] = S.a[k];
      axes_[(3 + k) * stride_ + n] = S.l[k];
    }
  }
  /// The row of products that has this number.
  COSTATE_LANES double* products(int row) const { return axes_ + (6 + row) * stride_; }

  /// out(n) = S(n) · x for each dof n ≥ from, and for up to three before.
  COSTATE_LANES void Multiply(const Components& c, int from, double* out) const {
    for (int n = from / 4 * 4; n < stride_; n += 4) {
      Double4 sum = {};
      for (int k = 0; k < 6; k++) sum += c.x[k] * LoadLanes(axes_ + k * stride_ + n);
      *reinterpret_cast<LooseDouble4*>(out + n) = sum;
    }
  }
  /// out = HH S for all dofs: six rows, one for each component.  @param HH  symmetric.
  COSTATE_LANES void Multiply(const Mat6& HH, double* out) const {
    for (int k = 0; k < 6; k++) {
      Components column;
      for (int c = 0; c < 6; c++) column.x[c] = HH(c, k);
      Multiply(column, 0, out + k * stride_);
    }
  }
  /// The vector of dof n among six such rows.
  COSTATE_LANES Components Gather(const double* rows, int n) const {
    Components all;
    for (int k = 0; k < 6; k++) all.x[k] = rows[k * stride_ + n];
    return all;
  }

 private:
  int stride_;
  double* axes_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CHAIN_AXES_H_
