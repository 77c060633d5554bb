// A ball is thrown at a target in a wall, a panel that gives way, and flies over both: it touches nothing, and the true
// gradient is exactly zero. The slopes of a model whose contact between ball and panel begins at a distance, taken
// along the true motion, lead to the target. With a file name as argument it also writes the gradients by upward speed;
// examples/contact_answers/gradients.gp draws them.
//
// Prints:
//   3.50 m/s upwards: over the wall, loss 0.0450, slope 0, with distance 0.5 m 0.439
//   2.15 m/s after 27 steps: the target is hit, loss 0.0016
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

using costate::MatrixXd;
using costate::VectorXd;

// half the squared distance of how deep the panel is pushed in from how deep it shall be
class Pushed final : public costate::Loss {
 public:
  double Value(const costate::KnotView& k) const override { return k.t < k.N ? 0 : 0.5 * std::pow(k.x[2] - 0.3, 2); }
  void Gradient(const costate::KnotView& k, costate::KnotGradient* out) const override {
    if (k.t == k.N) out->x[2] = k.x[2] - 0.3;
  }
  bool NeedsSensors() const override { return false; }
};

int main(int argc, char** argv) {
  const costate::ModelPtr truth = costate::LoadModelFromString(R"(<mujoco>
    <option timestep=".005"/>
    <worldbody>
      <geom name="below" type="box" size=".05 1 .4" pos="1.05 0 .4"/>
      <body name="ball" pos="0 0 1">
        <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><geom name="ball" size=".05" mass=".5"/>
      </body>
      <body name="panel" pos="1.05 0 1">
        <joint type="slide" axis="1 0 0" damping="1"/><geom name="panel" type="box" size=".05 .3 .18" mass=".5"/>
      </body>
    </worldbody>
  </mujoco>)");
  costate::SmoothContact reach{.distance = 0.5};
  reach.targets.pairs = {{"ball", "panel"}};
  const costate::SmoothModel far = costate::MakeSmoothModel(truth.get(), reach);
  const VectorXd context = costate::GetContext(truth.get(), costate::MakeData(truth.get()).get());
  costate::Adjoint adjoint(truth.get(), context);
  costate::RolloutGradient g, smooth;
  const auto thrown = [&](double up) {  // at 4 m/s forwards, for half a second
    VectorXd x0 = VectorXd::Zero(6);
    x0[3] = 4;
    x0[4] = up;
    adjoint.Gradient(x0, MatrixXd(0, 100), Pushed(), {}, &g);
    adjoint.Gradient(x0, MatrixXd(0, 100), Pushed(), {.derivative_model = far.model.get()}, &smooth);
  };
  if (std::FILE* table = argc > 1 ? std::fopen(argv[1], "w") : nullptr) {
    std::fprintf(table, "upward speed,loss,true slope,slope with distance\n");
    for (double up = 0; up <= 4.5; up += 0.02) {
      thrown(up);
      std::fprintf(table, "%g,%.9g,%.9g,%.9g\n", up, g.loss, g.x0[4], smooth.x0[4]);
    }
    std::fclose(table);
  }
  double up = 3.5;
  thrown(up);
  std::printf("%.2f m/s upwards: over the wall, loss %.4f, slope %g, with distance 0.5 m %.3f\n", up, g.loss, g.x0[4],
              smooth.x0[4]);
  int steps = 0;
  for (; steps < 80 && g.loss > 0.01; ++steps) {
    up -= std::copysign(0.05, smooth.x0[4]);
    thrown(up);
  }
  std::printf("%.2f m/s after %d steps: the target is hit, loss %.4f\n", up, steps, g.loss);
}
