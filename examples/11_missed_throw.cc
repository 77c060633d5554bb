// A ball is thrown past what it should hit. Without touch the true gradient is exactly zero; the
// slopes of a model whose contact forces begin at a distance, taken along the true motion, lead to
// a hit. With a file name as argument it also writes the gradients by upward speed;
// examples/contact_answers/gradients.gp draws them.
//
// Prints:
//   2.60 m/s upwards: loss 0.0450, slope 0, with distance 0.5 m 1.436
//   1.95 m/s after 13 steps: a hit, loss 0.0024
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

using costate::MatrixXd;
using costate::VectorXd;

// half the squared distance of the target from where it shall go
class Target final : public costate::Loss {
 public:
  double Value(const costate::KnotView& k) const override {
    return k.t < k.N ? 0 : 0.5 * std::pow(k.x[2] - 0.3, 2);
  }
  void Gradient(const costate::KnotView& k, costate::KnotGradient* out) const override {
    if (k.t == k.N) out->x[2] = k.x[2] - 0.3;
  }
  bool NeedsSensors() const override { return false; }
};

int main(int argc, char** argv) {
  const costate::ModelPtr truth = costate::LoadModelFromString(
      "<mujoco><option timestep='.005'/><worldbody><body pos='0 0 1'><joint type='slide' axis='1 0 "
      "0'/>"
      "<joint type='slide' axis='0 0 1'/><geom size='.05' mass='.5'/></body><body pos='1 0 1'>"
      "<joint type='slide' axis='1 0 0' damping='.1'/><geom type='capsule' size='.05' fromto='0 0 "
      "-.2 0 0 0' mass='.5'/>"
      "</body></worldbody></mujoco>");
  const costate::SmoothModel far = costate::MakeSmoothModel(truth.get(), {.distance = 0.5});
  const VectorXd context = costate::GetContext(truth.get(), costate::MakeData(truth.get()).get());
  costate::Adjoint adjoint(truth.get(), context);
  costate::RolloutGradient g, smooth;
  const auto thrown = [&](double up) {  // at 3 m/s forwards
    VectorXd x0 = VectorXd::Zero(6);
    x0[3] = 3;
    x0[4] = up;
    adjoint.Gradient(x0, MatrixXd(0, 100), Target(), {}, &g);
    adjoint.Gradient(x0, MatrixXd(0, 100), Target(), {.derivative_model = far.model.get()},
                     &smooth);
  };
  if (std::FILE* table = argc > 1 ? std::fopen(argv[1], "w") : nullptr) {
    std::fprintf(table, "upward speed,loss,true slope,slope with distance\n");
    for (double up = 0; up <= 3.5; up += 0.02) {
      thrown(up);
      std::fprintf(table, "%g,%.9g,%.9g,%.9g\n", up, g.loss, g.x0[4], smooth.x0[4]);
    }
    std::fclose(table);
  }
  double up = 2.6;
  thrown(up);
  std::printf("%.2f m/s upwards: loss %.4f, slope %g, with distance 0.5 m %.3f\n", up, g.loss,
              g.x0[4], smooth.x0[4]);
  int steps = 0;
  for (; steps < 40 && g.loss > 0.04; ++steps) {
    up -= std::copysign(0.05, smooth.x0[4]);
    thrown(up);
  }
  std::printf("%.2f m/s after %d steps: a hit, loss %.4f\n", up, steps, g.loss);
}
