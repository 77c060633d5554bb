// Swings the pendulum up with a cost written in C++: the height of the bob, the speed at the end and the effort.
// Next: 05_task.cc, where the cost stands in a file; the interface is described in include/costate/cost.h.
//
// Prints:
//   converged: cost 103.013 -> 1.652
//   ends 0.000 rad from upright at 0.000 rad/s
//   largest torque 2.00 of 2 N m
#include <costate/costate.h>

#include <cmath>
#include <cstdio>

namespace {

// l = dt (½ r² + ½ 0.02 u²) with r = sqrt(2) cos(angle / 2), so that ½ r² = (1 + cos angle) / 2 is the missing height
class SwingUp final : public costate::Cost {
 public:
  double Value(const costate::KnotView& knot) const override {
    const bool end = knot.t == knot.N;
    const double r = std::cos(knot.x[0] / 2), speed = knot.x[1];
    return end ? 100 * r * r + 5 * speed * speed : knot.dt * (r * r + 0.01 * knot.u[0] * knot.u[0]);
  }

  // gradient and curvature by hand; lxx drops the second derivative of r (Gauss–Newton), hence is never negative
  void Expand(const costate::KnotView& knot, costate::ConstMatrixRef, costate::ConstMatrixRef,
              costate::CostExpansion* out) const override {
    const bool end = knot.t == knot.N;
    const double r = std::cos(knot.x[0] / 2), dr = -0.5 * std::sin(knot.x[0] / 2);
    const double height = end ? 100 : knot.dt, speed = end ? 5 : 0;
    out->l = Value(knot);
    out->lx = costate::VectorXd{{2 * height * r * dr, 2 * speed * knot.x[1]}};
    out->lxx = costate::VectorXd{{2 * height * dr * dr, 2 * speed}}.asDiagonal();
    out->lu = end ? costate::VectorXd() : costate::VectorXd(0.02 * knot.dt * knot.u);
    out->luu = costate::MatrixXd::Constant(knot.u.size(), knot.u.size(), 0.02 * knot.dt);
    out->lux = costate::MatrixXd::Zero(knot.u.size(), 2);
  }

  bool NeedsSensors() const override { return false; }

  std::vector<costate::CostTermValue> Terms(const costate::Trajectory& trajectory) const override {
    return {{"swing up", costate::TotalCost(*this, trajectory, trajectory.time[1] - trajectory.time[0])}};
  }
};

}  // namespace

int main() {
  const costate::ModelPtr model = costate::LoadModel(COSTATE_MODELS "/pendulum/pendulum.xml");
  const costate::DataPtr data = costate::MakeDataAtKey(model.get(), "hang");
  const SwingUp cost;

  costate::Problem problem;
  problem.model = model.get();
  problem.cost = &cost;
  problem.x0 = costate::GetState(model.get(), data.get());
  problem.context = costate::GetContext(model.get(), data.get());
  problem.N = 150;
  problem.substeps = 2;  // a control is held for two steps of 10 ms
  costate::ControlLimits(model.get(), &problem.u_lower, &problem.u_upper);

  // hanging still is a stationary point: a small push to start with
  const costate::MatrixXd U = costate::MatrixXd::Constant(1, 150, 0.1);
  const costate::SolveResult result = costate::SolveIlqr(problem, U);
  std::printf("%s: cost %.3f -> %.3f\n", ToString(result.status), result.initial_cost, result.cost);
  const costate::VectorXd x = result.trajectory.X.col(150);
  std::printf("ends %.3f rad from upright at %.3f rad/s\n", std::abs(std::remainder(x[0] - M_PI, 2 * M_PI)),
              std::abs(x[1]));
  std::printf("largest torque %.2f of 2 N m\n", result.trajectory.U.cwiseAbs().maxCoeff());
}
