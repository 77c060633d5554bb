// What a gradient's health says, against rates that are known or measured in another way.
#include <costate/adjoint.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/spectral_radius.h"
#include "rollout/knot_health.h"

namespace costate {
namespace {

constexpr double kTimestep = 0.005;

class FirstPosition final : public Loss {
 public:
  double Value(const KnotView& k) const override { return k.t == k.N ? 0.5 * k.x[0] * k.x[0] : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x[0] = k.x[0];
  }
  bool NeedsSensors() const override { return false; }
};

struct Chain {
  ModelPtr model;
  VectorXd context, x0;

  // rods of 1 kg and half a metre, let go from (start, start − 1, …)
  Chain(int links, double damping, double start = 2.5) {
    std::string body;
    for (int i = 0; i < links; i++) {
      body += "<body pos='0 0 " + std::string(i ? "-.5" : "0") + "'><joint axis='0 1 0' damping='" +
              std::to_string(damping) + "'/><geom type='capsule' size='.02' fromto='0 0 0 0 0 -.5' mass='1'/>";
    }
    for (int i = 0; i < links; i++) body += "</body>";
    model = LoadModelFromString("<mujoco><option timestep='0.005'><flag contact='disable'/></option><worldbody>" +
                                body + "</worldbody></mujoco>");
    const DataPtr data = MakeData(model.get());
    for (int i = 0; i < links; i++) data->qpos[i] = start - i;
    context = GetContext(model.get(), data.get());
    x0 = GetState(model.get(), data.get());
  }

  RolloutGradient Swing(double seconds, const AdjointOptions& options = {}) const {
    RolloutGradient g;
    Adjoint(model.get(), context)
        .Gradient(x0, MatrixXd(0, std::lround(seconds / kTimestep)), FirstPosition(), options, &g);
    EXPECT_TRUE(g.status.ok());
    return g;
  }
};

TEST(GradientHealth, ADoublePendulumExplodes) {
  const Chain chain(2, 0);
  const RolloutGradient g = chain.Swing(20);
  EXPECT_EQ(g.health.verdict, GradientHealth::Verdict::kExploding) << g.health.text;
  EXPECT_GT(g.health.rate, 0.5);
  EXPECT_GT(g.health.from, 0);
  EXPECT_LT(g.health.from, 4000);
  EXPECT_GT(g.x0.norm(), 1e4 * g.health.costate[4000]);

  // the rate is the Lyapunov exponent of these 20 s, here by matrices forward in time
  Simulator simulator(chain.model.get(), chain.context, 1, 1);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(chain.x0, MatrixXd(0, 4000), &trajectory).ok());
  std::vector<StepDerivative> steps;
  simulator.Linearize(trajectory, {.sensors = false}, &steps);
  VectorXd direction = VectorXd::Ones(4).normalized();
  double log_growth = 0;
  for (int t = 0; t < 4000; t++) {
    direction = steps[static_cast<std::size_t>(t)].A * direction;
    log_growth += std::log(direction.norm());
    direction.normalize();
  }
  EXPECT_NEAR(g.health.rate, log_growth / 20, 0.1 * log_growth / 20);
}

TEST(GradientHealth, AHeavilyDampedChainVanishes) {
  const Chain chain(3, 5);
  const RolloutGradient g = chain.Swing(120, {.spectral_radius = true});
  EXPECT_EQ(g.health.verdict, GradientHealth::Verdict::kVanishing) << g.health.text;
  EXPECT_LT(g.x0.norm(), 1e-4 * g.health.costate[24000]);

  // hanging still, what survives is the slowest mode: the rate is ln(spectral radius) a step
  const double rest = std::log(g.health.spectral_radius[23999]) / kTimestep;
  EXPECT_LT(rest, 0);
  EXPECT_NEAR(std::log(g.health.growth.segment(10000, 1000).prod()) / (1000 * kTimestep), rest, 1e-6);
  EXPECT_NEAR(g.health.rate, rest, 0.1 * -rest);  // the ends are faster
}

TEST(GradientHealth, ADampedPendulumFadesAtItsClosedFormRate) {
  // I θ'' = −c θ' − m g l θ at rest: slow rate (√(c² − 4 I k) − c) / 2I; the integrator is of first order
  const Chain chain(1, 2, 0.0);
  const RolloutGradient g = chain.Swing(20, {.spectral_radius = true});
  const DataPtr data = MakeData(chain.model.get());
  mj_forward(chain.model.get(), data.get());
  const double I = data->M[0], c = 2, k = 9.81 * 0.25;
  const double slow = (std::sqrt(c * c - 4 * I * k) - c) / (2 * I);
  EXPECT_NEAR(std::log(g.health.spectral_radius[0]) / kTimestep, slow, 0.01 * -slow);
  EXPECT_EQ(g.x0.norm(), 0);  // it hangs at the goal: there is nothing to carry, and nothing is not vanishing
  EXPECT_EQ(g.health.rate, 0) << g.health.text;
}

TEST(GradientHealth, SpectralRadiusIsThatOfTheMatrix) {
  MatrixXd A = MatrixXd::Zero(3, 3);
  A.topLeftCorner(2, 2) << 0.6, -0.8 * 1.1, 0.8 * 1.1, 0.6;  // 0.6 ± 0.88i
  A(2, 2) = -1.01;
  A(0, 2) = 50;
  Eigen::EigenSolver<MatrixXd> solver;
  EXPECT_NEAR(SpectralRadius(A, &solver), std::hypot(0.6, 0.88), 1e-12);
  EXPECT_TRUE(std::isnan(SpectralRadius(MatrixXd::Constant(2, 2, NAN), &solver)));
  EXPECT_EQ(SpectralRadius(MatrixXd(0, 0), &solver), 0);

  // two positions and velocities, of which the second turns over
  MatrixXd B = MatrixXd::Identity(4, 4);
  B(3, 3) = -1.5;
  int dof = -1;
  EXPECT_NEAR(Overshoot(B, 2, &dof), -1.5, 1e-12);
  EXPECT_EQ(dof, 1);
  B(3, 3) = -0.9;
  EXPECT_EQ(Overshoot(B, 2, &dof), 0);
}

// from the default state, without controls
RolloutGradient CertifiedGradient(const mjModel* model, int knots) {
  const DataPtr data = MakeData(model);
  RolloutGradient g;
  Adjoint(model, GetContext(model, data.get()))
      .Gradient(GetState(model, data.get()), MatrixXd(0, knots), FirstPosition(), {.certify = true, .reach = 1e-3}, &g);
  return g;
}

TEST(GradientHealth, CountsSwitchesAndLabelsThem) {
  // a ball falls from 5 cm, touches, leaves again: one onset, one release on the way
  const ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='0.001'/><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 .15'>"
      "<joint type='slide' axis='0 0 1'/><geom size='.1' solref='-3000 -1'/></body></worldbody></mujoco>");
  const RolloutGradient g = CertifiedGradient(model.get(), 180);
  ASSERT_TRUE(g.status.ok());
  ASSERT_EQ(g.health.switches.size(), 2u);
  EXPECT_NEAR(g.health.switches[0] * 0.001, std::sqrt(2 * 0.05 / 9.81), 0.002);
  EXPECT_NE(g.health.text.find("crossed 2 switches of contacts or limits"), std::string::npos) << g.health.text;

  // at 1 m/s a millimetre is one knot
  ASSERT_EQ(g.health.labels.size(), 180u);
  for (int t = 0; t < 180; t++) {
    const std::size_t at = static_cast<std::size_t>(t);
    const bool crossing = g.health.labels[at] == Smoothness::kModeCrossing;
    EXPECT_EQ(crossing, !g.health.crossing[at].empty());
    const int first = g.health.switches[0];
    if (t < first - 2) {
      EXPECT_FALSE(crossing) << t;
    }
    if (t == first - 1) {
      EXPECT_TRUE(crossing) << t;
      EXPECT_NE(g.health.crossing[at].find("onset of contact"), std::string::npos) << g.health.crossing[at];
    }
  }
  EXPECT_NE(g.health.text.find("on a switch, first knot"), std::string::npos) << g.health.text;
}

TEST(GradientHealth, NamesALimitOnce) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint name='lift' type='slide' axis='0 0 1' range='-.0002 1'/><geom size='.1'/></body>"
      "</worldbody></mujoco>");
  const RolloutGradient g = CertifiedGradient(model.get(), 2);
  ASSERT_EQ(g.health.labels[0], Smoothness::kModeCrossing);
  EXPECT_EQ(g.health.crossing[0], "limit of lift");
}

TEST(GradientHealth, SlipToStickIsASwitch) {
  // a ball that cannot turn slides on a floor, hops a little as elliptic cones make it, and sticks: the engine's own
  // row states
  const ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='0.001' cone='elliptic'/><worldbody><geom type='plane' size='1 1 1' friction='.4'/>"
      "<body pos='0 0 .1'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><geom size='.1' "
      "friction='.4'/>"
      "</body></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < 2000; i++) mj_step(model.get(), data.get());  // to rest in the contact
  data->qvel[0] = 0.5;
  const VectorXd context = GetContext(model.get(), data.get()), x0 = GetState(model.get(), data.get());
  std::vector<int> expected, before, now;
  for (int t = 0; t < 300; t++) {
    mj_step(model.get(), data.get());
    now.assign(data->efc_state, data->efc_state + data->nefc);
    if (t > 0 && now != before) expected.push_back(t);
    if (t > 0 && now != before && t > 100) {
      EXPECT_EQ(before[0], mjCNSTRSTATE_CONE);
      EXPECT_EQ(now[0], mjCNSTRSTATE_QUADRATIC);
    }
    before = now;
  }
  RolloutGradient g;
  Adjoint(model.get(), context).Gradient(x0, MatrixXd(0, 300), FirstPosition(), {}, &g);
  ASSERT_TRUE(g.status.ok());
  EXPECT_EQ(g.health.switches, expected);
  EXPECT_NEAR(g.health.switches.back() * 0.001, 0.5 / (0.4 * 9.81), 0.02);  // v / μ g
}

TEST(GradientHealth, RecordsClippingAndTruncation) {
  const Chain chain(2, 0);
  const RolloutGradient whole = chain.Swing(5);
  const double limit = 0.5 * whole.x0.norm();
  const RolloutGradient clipped = chain.Swing(5, {.clip = limit});
  EXPECT_FALSE(clipped.health.clipped.empty());
  EXPECT_LE(clipped.x0.norm(), limit * (1 + 1e-12));
  EXPECT_NE(clipped.health.text.find("clipped"), std::string::npos);
  const RolloutGradient cut = chain.Swing(5, {.window = 300});
  EXPECT_EQ(cut.health.dropped, (std::vector<int>{700, 400, 100}));
  EXPECT_EQ(cut.x0.norm(), 0);
}

}  // namespace
}  // namespace costate
