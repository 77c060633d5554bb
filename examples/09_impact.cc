// A ball dropped and bounced twice, two spheres head-on: derivatives through the instant of an impact, the closed form,
// and the product of the engine's own step derivatives through a stiff elastic contact. See plugin/smooth/README.md.
// With a file name as argument it also writes them along the motion; examples/contact_answers/plot.gp draws that.
//
// Prints:
//   d height / d (start height, start velocity), elastic bounces
//     t 0.30 s   closed form   1.0000  0.3000   event   1.0000  0.3000   engine, k = 1e5   1.0000  0.3000
//     t 0.70 s   closed form  -0.1433 -0.2671   event  -0.1433 -0.2671   engine, k = 1e5  -1.6388 -1.0129
//     t 1.50 s   closed form  -2.2442 -0.4829   event  -2.2442 -0.4829   engine, k = 1e5   3.4952  2.5489
//   two equal spheres, final velocities by initial ones: (0 1; 1 0)
//   a ball that lies on the floor: in contact
#include <costate/costate.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using costate::MatrixXd;
using costate::VectorXd;

costate::ModelPtr Ball(double timestep) {
  const std::string contact = " solref='-1e5 0' solimp='.9999 .9999 .001'/>";
  return costate::LoadModelFromString(
      "<mujoco><option integrator='RK4' gravity='0 0 -9.81' timestep='" + std::to_string(timestep) +
      "'/><worldbody><geom name='floor' type='plane' size='1 1 1'" + contact +
      "<body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'" + contact +
      "</body></worldbody></mujoco>");
}

// by start height z and velocity v at T, after the bounces so far: bounce j takes 2 w / g, w the speed of touch
Eigen::RowVector2d ClosedForm(double z, double v, double T) {
  const double g = 9.81, w = std::sqrt(v * v + 2 * g * z), first = (v + w) / g;
  if (T < first) return {1, T};
  const double bounces = std::floor((T - first) * g / (2 * w)), dt = T - first - bounces * 2 * w / g;
  const auto by = [&](double dw, double dv) { return dw * dt - (w - g * dt) * (dv + dw + bounces * 2 * dw) / g; };
  return {by(g / w, 0), by(v / w, 1)};
}

// products of the engine's step derivatives, kept every `every` steps
std::vector<MatrixXd> Engine(const VectorXd& x0, int N, int every) {
  const costate::ModelPtr model = Ball(0.01 / every);
  const costate::DataPtr data = costate::MakeData(model.get());
  costate::Linearizer linearizer(model.get(), {.sensors = false});
  costate::StepDerivative step;
  VectorXd x = x0, next(2), none;
  MatrixXd J = MatrixXd::Identity(2, 2);
  std::vector<MatrixXd> kept{J};
  for (int t = 1; t <= N * every; ++t) {
    linearizer.Linearize(x, none, &step);
    J = step.A * J;
    costate::Step(model.get(), data.get(), x, none, 1, next, none);
    x = next;
    if (t % every == 0) kept.push_back(J);
  }
  return kept;
}

int main(int argc, char** argv) {
  const costate::ModelPtr ball = Ball(0.01);
  const VectorXd context = costate::GetContext(ball.get(), costate::MakeData(ball.get()).get());
  const VectorXd x0 = Eigen::Vector2d(1, 0.5);
  const int N = 160;
  const costate::ImpactTrajectory motion = costate::ImpactRollout(ball.get(), context, x0, MatrixXd::Zero(0, N));
  const std::vector<MatrixXd> engine = Engine(x0, N, 100);
  std::FILE* file = argc > 1 ? std::fopen(argv[1], "w") : nullptr;
  if (file) std::fprintf(file, "time,height,closed z,closed v,event z,event v,engine z,engine v\n");
  std::printf("d height / d (start height, start velocity), elastic bounces\n");
  MatrixXd J = MatrixXd::Identity(2, 2);
  for (int t = 0; t <= N; ++t) {
    if (t > 0) J = motion.steps[t - 1].A * J;
    const Eigen::RowVector2d exact = ClosedForm(1, 0.5, 0.01 * t);
    if (t == 30 || t == 70 || t == 150) {
      std::printf("  t %.2f s   closed form  %7.4f %7.4f   event  %7.4f %7.4f   engine, k = 1e5  %7.4f %7.4f\n",
                  0.01 * t, exact[0], exact[1], J(0, 0), J(0, 1), engine[t](0, 0), engine[t](0, 1));
    }
    if (file) {
      std::fprintf(file, "%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", 0.01 * t, motion.X(0, t), exact[0], exact[1],
                   J(0, 0), J(0, 1), engine[t](0, 0), engine[t](0, 1));
    }
  }
  if (file) std::fclose(file);

  const costate::ModelPtr pair = costate::LoadModelFromString(
      "<mujoco><option gravity='0 0 0'/><worldbody><body><joint type='slide' axis='1 0 0'/><geom size='.1'/></body>"
      "<body pos='.4 0 0'><joint type='slide' axis='1 0 0'/><geom size='.1'/></body></worldbody></mujoco>");
  const VectorXd at_start = costate::GetContext(pair.get(), costate::MakeData(pair.get()).get());
  const MatrixXd by =
      costate::ImpactRollout(pair.get(), at_start, Eigen::Vector4d(0, 0, 2, -1), MatrixXd::Zero(0, 50)).ByStart();
  std::printf("two equal spheres, final velocities by initial ones: (%.4g %.4g; %.4g %.4g)\n", by(2, 2) + 0.0, by(2, 3),
              by(3, 2), by(3, 3) + 0.0);

  costate::ImpactStep step;
  costate::ImpactLinearizer(ball.get()).Linearize(Eigen::Vector2d(0, 0), VectorXd(), &step);
  std::printf("a ball that lies on the floor: %s\n", costate::ToString(step.status));
}
