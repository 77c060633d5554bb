// The loss of the gradients that are timed, here and in mjx_gradient.py and mjx_batch.py.
#ifndef COSTATE_TESTS_BENCHMARK_EFFORT_H_
#define COSTATE_TESTS_BENCHMARK_EFFORT_H_

#include <costate/loss.h>

#include <cmath>

namespace costate {

/// ½ |v|² at the end and 0.05 |u|² on the way; with weight w also ½ w |s|² at each knot
class Effort final : public Loss {
 public:
  explicit Effort(const mjModel* model, double sensors = 0)
      : nq_(static_cast<int>(model->nq)), nv_(static_cast<int>(model->nv)), sensors_(sensors) {}
  double Value(const KnotView& k) const override {
    const double sensed = sensors_ == 0 ? 0 : 0.5 * sensors_ * k.s.squaredNorm();
    return sensed + (k.t == k.N ? 0.5 * k.x.segment(nq_, nv_).squaredNorm() : 0.05 * k.u.squaredNorm());
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) {
      out->x.segment(nv_, nv_) = k.x.segment(nq_, nv_);
    } else {
      out->u = 0.1 * k.u;
    }
    if (sensors_ != 0) out->s = sensors_ * k.s;
  }
  bool NeedsSensors() const override { return sensors_ != 0; }

 private:
  int nq_, nv_;
  double sensors_;
};

/// ctrl_i + 0.05 sin(0.1 t + i)
inline MatrixXd WavedControls(const VectorXd& control, int N) {
  MatrixXd U = control.replicate(1, N);
  for (int t = 0; t < N; t++) {
    for (int i = 0; i < U.rows(); i++) U(i, t) += 0.05 * std::sin(0.1 * t + i);
  }
  return U;
}

}  // namespace costate

#endif  // COSTATE_TESTS_BENCHMARK_EFFORT_H_
