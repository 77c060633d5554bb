// A loss that reads all a loss can: velocities, controls, sensors.
#ifndef COSTATE_TESTS_ROLLOUT_SQUARE_LOSS_H_
#define COSTATE_TESTS_ROLLOUT_SQUARE_LOSS_H_

#include <costate/loss.h>

namespace costate {

// Σ_t ½ |v|² + 0.05 |u|² + w (½ |s|² + Σ s)
class SquareLoss final : public Loss {
 public:
  SquareLoss(const mjModel* model, double sensors)
      : dims_(model), nq_(static_cast<int>(model->nq)), sensors_(sensors) {}

  double Value(const KnotView& k) const override {
    const auto v = k.x.segment(nq_, dims_.nv);
    double l = 0.5 * v.squaredNorm() + (k.t == k.N ? 0 : 0.05 * k.u.squaredNorm());
    if (sensors_ != 0) l += sensors_ * (0.5 * k.s.squaredNorm() + k.s.sum());
    return l;
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x.segment(dims_.nv, dims_.nv) = k.x.segment(nq_, dims_.nv);
    if (k.t < k.N) out->u = 0.1 * k.u;
    if (sensors_ != 0) out->s = sensors_ * (k.s.array() + 1).matrix();
  }
  bool NeedsSensors() const override { return sensors_ != 0; }

 private:
  Dims dims_;
  int nq_;
  double sensors_;
};

}  // namespace costate

#endif  // COSTATE_TESTS_ROLLOUT_SQUARE_LOSS_H_
