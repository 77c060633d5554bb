// ∂L/∂θ through rollouts against differences of the whole loss, and against closed forms.
#include <costate/adjoint.h>

#include <cmath>

#include "derivative/extrapolate.h"
#include "parameter/scenes.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using ParameterRollout = support::EngineTest;

// Σ_t ½ |v|² + ½ |s|² + Σ s, at the last knot ten times
class WholeLoss final : public Loss {
 public:
  WholeLoss(const mjModel* model, bool sensors) : dims_(model), sensors_(sensors) {}
  double Value(const KnotView& k) const override {
    const double w = k.t == k.N ? 10 : 1, l = 0.5 * k.x.segment(dims_.nq, dims_.nv).squaredNorm();
    return w * (sensors_ ? l + 0.5 * k.s.squaredNorm() + k.s.sum() : l);
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    const double w = k.t == k.N ? 10 : 1;
    out->x.segment(dims_.nv, dims_.nv) = w * k.x.segment(dims_.nq, dims_.nv);
    if (sensors_) out->s = w * (k.s.array() + 1).matrix();
  }
  bool NeedsSensors() const override { return sensors_; }

 private:
  Dims dims_;
  bool sensors_;
};

double LossOf(const mjModel* model, ConstVectorRef context, int substeps, ConstVectorRef x0, ConstMatrixRef U,
              const Loss& loss) {
  Simulator simulator(model, context, substeps, 1);
  Trajectory trajectory;
  EXPECT_TRUE(simulator.Rollout(x0, U, &trajectory).ok());
  double sum = 0;
  for (int t = 0; t <= trajectory.N(); t++) sum += loss.Value(ViewKnot(trajectory, t, simulator.knot_time()));
  return sum;
}

void ExpectGradient(int index, int integrator, bool sensors, int substeps, std::size_t memory) {
  const support::ParameterScene scene = support::ParameterScenes()[static_cast<std::size_t>(index)];
  const ModelPtr model = LoadModelFromString(scene.xml);
  model->opt.integrator = integrator;
  model->opt.tolerance = 1e-20;  // differences of losses see what the solver leaves
  model->opt.iterations = 100;
  ParameterSet set(model.get(), scene.parameters);
  const DataPtr point = support::ScenePoint(model.get(), scene.steps);
  const VectorXd x0 = GetState(model.get(), point.get()), context = GetContext(model.get(), point.get());
  MatrixXd U(model->nu, 12);
  for (int t = 0; t < U.cols(); t++) {
    for (int i = 0; i < U.rows(); i++) U(i, t) = 0.4 * std::sin(0.5 * t + i);
  }
  const WholeLoss loss(model.get(), sensors);
  Adjoint adjoint(set.model(), context, substeps);
  RolloutGradient g;
  adjoint.Gradient(x0, U, loss, {.parameters = &set, .memory = memory}, &g);
  ASSERT_TRUE(g.status.ok());
  ASSERT_EQ(g.theta.size(), set.size());
  EXPECT_EQ(g.recomputed > 0, memory > 0);

  const VectorXd values = set.Get();
  int judged = 0;
  for (int k = 0; k < set.size(); k++) {
    constexpr int kSizes = 5;
    double quotients[kSizes];
    const bool forward = values[k] - 16 * set[k].nudge < set[k].lower;
    for (int i = 0; i < kSizes; i++) {
      const double h = 16 * set[k].nudge / (1 << i);
      double f[2];
      for (int side : {0, 1}) {
        VectorXd at = values;
        at[k] += side ? h : forward ? 0 : -h;
        set.Set(at);
        f[side] = LossOf(set.model(), context, substeps, x0, U, loss);
      }
      quotients[i] = (f[1] - f[0]) / (forward ? h : 2 * h);
    }
    set.Set(values);
    const Extrapolation e = Extrapolate(quotients, kSizes, !forward, 1e-15 * g.loss / (16 * set[k].nudge));
    EXPECT_NEAR(g.theta[k], e.value, 2e-6 * std::abs(e.value) + 5 * e.error + 1e-11 * g.loss) << set[k].name;
    judged += e.value != 0 && 5 * e.error < 1e-3 * std::abs(e.value);
  }
  EXPECT_GT(judged, 0.8 * set.size());
}

TEST_F(ParameterRollout, AgreesWithDifferencesOfTheLossInContact) {
  ExpectGradient(0, mjINT_EULER, false, 1, 0);
  ExpectGradient(0, mjINT_IMPLICITFAST, true, 2, 0);
}
TEST_F(ParameterRollout, AgreesWithDifferencesOfTheLossOfTendonsActuatorsAndFluid) {
  ExpectGradient(1, mjINT_EULER, true, 1, 0);
  ExpectGradient(1, mjINT_IMPLICIT, false, 2, 0);
  ExpectGradient(1, mjINT_RK4, true, 1, 0);
}
TEST_F(ParameterRollout, DoesNotDependOnMemory) { ExpectGradient(1, mjINT_IMPLICITFAST, true, 1, 1); }

// a mass on a spring, symplectic Euler: the recursion differentiated by hand
TEST_F(ParameterRollout, SpringConstantIsThatOfTheRecursion) {
  const double m = 2, k = 30, h = 0.01;
  const ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='mass'><joint name='spring' type='slide' "
      "stiffness='30'/><geom size='0.1' mass='2'/></body></worldbody></mujoco>");
  const ParameterSet set(model.get(), {"joint:spring/stiffness", "body:mass/mass"});
  class Last final : public Loss {
   public:
    double Value(const KnotView& knot) const override { return knot.t == knot.N ? knot.x[0] : 0; }
    void Gradient(const KnotView& knot, KnotGradient* out) const override { out->x[0] = knot.t == knot.N; }
    bool NeedsSensors() const override { return false; }
  };
  const DataPtr data = MakeData(model.get());
  Adjoint adjoint(set.model(), GetContext(model.get(), data.get()));
  RolloutGradient g;
  adjoint.Gradient(Eigen::Vector2d(0.5, 0), MatrixXd(0, 200), Last(), {.parameters = &set}, &g);
  double q = 0.5, v = 0, qk = 0, vk = 0, qm = 0, vm = 0;
  for (int t = 0; t < 200; t++) {
    vk += h * (-q / m - k / m * qk);
    vm += h * (k * q / (m * m) - k / m * qm);
    v += h * (-k / m * q);
    q += h * v;
    qk += h * vk;
    qm += h * vm;
  }
  EXPECT_NEAR(g.loss, q, 1e-12);
  EXPECT_NEAR(g.theta[0], qk, 1e-10 * std::abs(qk));
  EXPECT_NEAR(g.theta[1], qm, 1e-10 * std::abs(qm));
}

// the values of the set may change between gradients: gravity from a fall, by Newton steps on the loss
TEST_F(ParameterRollout, FollowsTheValuesOfTheSet) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='0.01' gravity='0 0 -9.81'/><worldbody><body><joint type='slide' axis='0 0 1'/>"
      "<geom size='0.1'/></body></worldbody></mujoco>");
  ParameterSet set(model.get(), {"option/gravity[2]"});
  class Fall final : public Loss {
   public:
    double Value(const KnotView& knot) const override {
      return knot.t == knot.N ? 0.5 * std::pow(knot.x[0] + 1.62 * 0.5 * 0.01 * 0.01 * 100 * 101, 2) : 0;
    }
    void Gradient(const KnotView& knot, KnotGradient* out) const override {
      if (knot.t == knot.N) out->x[0] = knot.x[0] + 1.62 * 0.5 * 0.01 * 0.01 * 100 * 101;
    }
    bool NeedsSensors() const override { return false; }
  };
  const DataPtr data = MakeData(model.get());
  Adjoint adjoint(set.model(), GetContext(model.get(), data.get()));
  RolloutGradient g;
  for (int i = 0; i < 2; i++) {
    adjoint.Gradient(Eigen::Vector2d(0, 0), MatrixXd(0, 100), Fall(), {.parameters = &set}, &g);
    const double slope = 0.5 * 0.01 * 0.01 * 100 * 101;  // ∂x_N/∂g
    EXPECT_NEAR(g.theta[0], slope * (set.Get()[0] + 1.62) * slope, 1e-10);
    set.Set(set.Get() - g.theta / (slope * slope));
  }
  EXPECT_NEAR(set.Get()[0], -1.62, 1e-9);
}

TEST_F(ParameterRollout, WantsTheModelOfTheSet) {
  const ModelPtr model = LoadModelFromString(support::ParameterScenes()[0].xml);
  const ParameterSet set(model.get(), {"option/gravity[2]"});
  Linearizer linearizer(model.get());
  EXPECT_ERROR(linearizer.SetParameters(&set), ErrorCode::kInvalidArgument, "parameters.model()");
}

// A box that lands on the way and slides on a floor of the same friction: of that number some knots' gradients have two
// sides, and the whole gradient's coverage says so.
TEST_F(ParameterRollout, CoverageNamesWhatLiesOnASwitchAtAnyKnot) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body pos="0 0 .1005"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body></worldbody></mujoco>)");
  const ParameterSet set(model.get(), {"geom:box/friction[0]", "option/gravity[2]"});
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = .5;
  const WholeLoss loss(model.get(), false);
  Adjoint adjoint(set.model(), GetContext(model.get(), data.get()));
  const auto said = [&](int steps) {
    RolloutGradient g;
    adjoint.Gradient(GetState(model.get(), data.get()), MatrixXd(0, steps), loss, {.parameters = &set}, &g);
    EXPECT_TRUE(g.status.ok());
    std::string without;
    for (const TermCoverage& term : g.coverage.terms) {
      if (term.reason.rfind("no derivative", 0) == 0) without += term.term + ": " + term.reason;
    }
    return without;
  };
  EXPECT_EQ(said(3), "");
  EXPECT_EQ(said(20), "parameter geom:box/friction[0]: no derivative: a corner");
}

// friction loss at 0 has no row: that column alone comes from whole steps, and the coverage says so
TEST_F(ParameterRollout, CoverageNamesWhatIsDifferencedInWholeSteps) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='j' type='slide' axis='1 0 0'/><geom size='0.1' "
      "mass='2'/></body></worldbody></mujoco>");
  const ParameterSet set(model.get(), {"joint:j/frictionloss", "joint:j/damping"});
  Linearizer linearizer(set.model(), {.sensors = false});
  linearizer.SetParameters(&set);
  StepDerivative out;
  linearizer.Linearize(Eigen::Vector2d(0, 1), VectorXd(), &out);
  EXPECT_NEAR(out.P(1, 0), -model->opt.timestep / 2, 1e-9);  // slides: the force is the loss
  EXPECT_NEAR(out.P(1, 1), -model->opt.timestep / 2, 1e-9);
  StepVjp vjp;
  linearizer.Vjp(Eigen::Vector2d(0, 1), VectorXd(), Eigen::Vector2d(0, 1), &vjp);
  EXPECT_NEAR(vjp.theta[0], out.P(1, 0), 1e-12);
  EXPECT_NEAR(vjp.theta[1], out.P(1, 1), 1e-12);
  EXPECT_EQ(vjp.coverage.Worst(), Level::kStep);
  const TermCoverage& last = vjp.coverage.terms.back();
  EXPECT_EQ(last.term, "parameter joint:j/frictionloss");
  EXPECT_EQ(last.level, Level::kStep);
}

}  // namespace
}  // namespace costate
