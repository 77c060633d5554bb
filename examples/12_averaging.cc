// A ball at its first touch, where force sets in with a jump: the difference quotient of a step
// grows without end as the nudge shrinks, and the step's derivative does not see it. What a
// smoother onset and averaged derivatives make of it. With a file name as argument it also writes a
// table; examples/contact_answers/gradients.gp draws it.
//
// Prints:
//   d speed after a step / d height of a ball at touch [1/s]
//     nudge, sigma 1e-06 m: quotient -1.036e+05, with onset -11.52; average of order one -2.26, zero -8.912e+04
//     nudge, sigma 1e-05 m: quotient -1.036e+04, with onset -1.238; average of order one -2.44, zero -8914
//     nudge, sigma 1e-04 m: quotient -1039, with onset -0.9895; average of order one -4.24, zero -895.3
//     nudge, sigma 1e-03 m: quotient -111.8, with onset -8.772; average of order one -6.39, zero -96.09
//     nudge, sigma 1e-02 m: quotient -13.43, with onset -13.43; average of order one -2.79, zero -12
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

using costate::VectorXd;

int main(int argc, char** argv) {
  const costate::ModelPtr truth = costate::LoadModelFromString(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body><joint type='slide' axis='0 0 1'/>"
      "<geom size='.1' mass='1'/></body></worldbody></mujoco>");
  const costate::SmoothModel onset = costate::MakeSmoothModel(truth.get(), {.onset = 0.005});
  const costate::DataPtr data = costate::MakeData(truth.get());
  const VectorXd touch = Eigen::Vector2d(0.1, -1);  // height and speed
  VectorXd none, next(2);
  const auto speed = [&](const mjModel* model, double nudge) {
    costate::Step(model, data.get(), touch + Eigen::Vector2d(nudge, 0), none, 1, next, none);
    return next[1];
  };
  costate::Bundle bundle(truth.get(), costate::GetContext(truth.get(), data.get()));
  costate::BundleDerivative average;

  std::FILE* table = argc > 1 ? std::fopen(argv[1], "w") : nullptr;
  if (table) std::fprintf(table, "nudge,true,onset,one,zero,combined,deviation of one,of zero,of combined\n");
  std::printf("d speed after a step / d height of a ball at touch [1/s]\n");
  for (int i = 0; i <= 32; ++i) {
    const double nudge = std::pow(10, -6 + i / 8.0);
    const auto quotient = [&](const mjModel* model) {
      return (speed(model, nudge) - speed(model, -nudge)) / (2 * nudge);
    };
    bundle.Linearize(touch, none, {.pairs = 200, .state = Eigen::Vector2d(nudge, 0), .control = {}}, &average);
    const double by[] = {quotient(truth.get()), quotient(onset.model.get()), average.first.A(1, 0),
                         average.zeroth.A(1, 0), average.combined.A(1, 0)};
    const double deviation[] = {average.first.deviation, average.zeroth.deviation, average.combined.deviation};
    if (i % 8 == 0) {
      std::printf(
          "  nudge, sigma %.0e m: quotient %.4g, with onset %.4g; average of order one %.3g, zero "
          "%.4g\n",
          nudge, by[0], by[1], by[2], by[3]);
    }
    if (!table) continue;
    std::fprintf(table, "%g", nudge);
    for (double value : by) std::fprintf(table, ",%.9g", value);
    for (double value : deviation) std::fprintf(table, ",%.9g", value);
    std::fprintf(table, "\n");
  }
  if (table) std::fclose(table);
}
