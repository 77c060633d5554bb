// Gradients through contact whose answer is known: the linear spring's bounce, two spheres,
// Coulomb's block, a throw at a target in a wall.
#include <costate/adjoint.h>
#include <costate/smooth_contact.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using KnownAnswersTest = support::EngineTest;

// one entry of the last state, of models without rotations
class LastEntry final : public Loss {
 public:
  explicit LastEntry(int entry) : entry_(entry) {}
  double Value(const KnotView& k) const override { return k.t == k.N ? k.x[entry_] : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x[entry_] = 1;
  }
  bool NeedsSensors() const override { return false; }

 private:
  int entry_;
};

RolloutGradient SlopesOfLast(const mjModel* model, const VectorXd& x0, const MatrixXd& U, int entry,
                             const ParameterSet* parameters = nullptr, int substeps = 1) {
  const DataPtr data = MakeData(model);
  Adjoint adjoint(model, GetContext(model, data.get()), substeps);
  RolloutGradient out;
  adjoint.Gradient(x0, U, LastEntry(entry), {.parameters = parameters}, &out);
  EXPECT_TRUE(out.status.ok());
  return out;
}

// ---- ball
// -----------------------------------------------------------------------------------------------------------
constexpr double kImpedance = 0.9999;

// an undamped linear spring: within touch z'' = −(1 − d) g − K z, from and to z = 0
ModelPtr SpringBall(double stiffness, double timestep, double gravity) {
  ModelPtr model = LoadModelFromString(
      "<mujoco><option integrator='Euler'/><worldbody><geom type='plane' size='1 1 1'/><body "
      "pos='0 0 .1'>"
      "<joint type='slide' axis='0 0 1'/><geom name='ball' size='.1' priority='1' solref='-" +
      std::to_string(stiffness) + " 0' solimp='.9999 .9999 .001'/></body></worldbody></mujoco>");
  model->opt.timestep = timestep;
  model->opt.gravity[2] = -gravity;
  return model;
}

using Complex = std::complex<double>;

// its height at T; complex numbers for derivatives without cancellation
Complex SpringHeight(Complex z, Complex v, Complex K, double g, double T) {
  const Complex w = std::sqrt(v * v + 2 * g * z), t1 = g > 0 ? (v + w) / g : -z / v, omega = std::sqrt(K),
                c = (1 - kImpedance) * g / K, lasts = (M_PI + 2.0 * std::atan(c * omega / w)) / omega;
  if (T < t1.real()) return z + v * T - 0.5 * g * T * T;
  const Complex s = T - t1, away = s - lasts;
  if (away.real() < 0) return -c + c * std::cos(omega * s) - w / omega * std::sin(omega * s);
  return w * away - 0.5 * g * away * away;
}

VectorXd SpringSlopes(double z, double v, double K, double g, double T) {
  const double h = 1e-30;
  return Eigen::Vector3d(SpringHeight({z, h}, v, K, g, T).imag() / h, SpringHeight(z, {v, h}, K, g, T).imag() / h,
                         SpringHeight(z, v, {K, h}, g, T).imag() / h);
}

// d height(T) / d (start height, start velocity, stiffness), by the adjoint
VectorXd AdjointSlopes(const mjModel* model, double z, double v, double T) {
  const ParameterSet stiffness(model, {"geom:ball/solref[0]"});
  const int N = static_cast<int>(std::lround(T / model->opt.timestep));
  const RolloutGradient g = SlopesOfLast(stiffness.model(), Eigen::Vector2d(z, v), MatrixXd(0, N), 0, &stiffness);
  return Eigen::Vector3d(g.x0[0], g.x0[1], -g.theta[0]);  // solref is −K
}

// worst of the three, each against its own size on the way
double Relative(const VectorXd& value, const VectorXd& expected) {
  return (value - expected).cwiseQuotient(Eigen::Vector3d(0.3, 0.05, 1e-4)).lpNorm<Eigen::Infinity>();
}

// No weight, no jump at onset: the adjoint of the engine's own steps tends to the closed form as
// they shrink.
TEST_F(KnownAnswersTest, SpringBounceWithoutWeight) {
  const double K = 400, z = 0.02, v = -1;  // touch at 20 ms, gone at 177 ms
  for (const double T : {0.01, 0.06, 0.15, 0.25}) {
    SCOPED_TRACE(T);
    const VectorXd expected = SpringSlopes(z, v, K, 0, T);
    double error[2];
    for (int i = 0; i < 2; ++i) {
      const double h = i ? 2.5e-5 : 1e-4;
      error[i] = Relative(AdjointSlopes(SpringBall(K, h, 0).get(), z, v, T), expected);
    }
    EXPECT_LT(error[1], 0.01);
    if (error[0] > 1e-6) {
      EXPECT_LT(error[1], 0.6 * error[0]);
    }
  }
}

// With weight the force sets in with a jump that no step's derivative sees. The onset strategy
// makes it a slope, and its derivatives tend to those of the true motion as the width shrinks, with
// many steps within it.
TEST_F(KnownAnswersTest, OnsetFindsTheSpringBounceWithWeight) {
  const double K = 400, z = 0.05, v = -1, g = 9.81;  // touch at 41 ms, gone at 198 ms
  const double h = 1e-5;
  const ModelPtr truth = SpringBall(K, h, g);
  for (const double T : {0.03, 0.07, 0.15, 0.25}) {
    SCOPED_TRACE(T);
    const VectorXd expected = SpringSlopes(z, v, K, g, T);
    double error[2];
    for (int i = 0; i < 2; ++i) {
      const SmoothModel smooth = MakeSmoothModel(truth.get(), {.onset = i ? 5e-4 : 2e-3});
      error[i] = Relative(AdjointSlopes(smooth.model.get(), z, v, T), expected);
    }
    EXPECT_LT(error[1], 0.005);
    if (error[0] > 1e-3) {
      EXPECT_LT(error[1], 0.4 * error[0]);
    }
    const double blind = Relative(AdjointSlopes(truth.get(), z, v, T), expected);
    if (T > 0.04) {
      EXPECT_GT(blind, 0.5) << "the true model's steps see the jump now";
    } else {
      EXPECT_LT(blind, 1e-9);
    }
  }
}

// ---- two spheres
// ----------------------------------------------------------------------------------------------------
// head-on, equal, on the engine's undamped contact: they swap velocities
TEST_F(KnownAnswersTest, TwoSpheresSwapVelocitiesInTheEnginesOwnSteps) {
  const double h = 2e-5, K = 1e3;
  const ModelPtr model = LoadModelFromString(
      "<mujoco><option gravity='0 0 0' integrator='Euler'/><default><geom size='.1' mass='1' "
      "solref='-1000 0' "
      "solimp='.9999 .9999 .001'/></default><worldbody><body><joint type='slide' axis='1 0 "
      "0'/><geom/></body>"
      "<body pos='.22 0 0'><joint type='slide' axis='1 0 0'/><geom/></body></worldbody></mujoco>");
  model->opt.timestep = h;
  const int N = static_cast<int>(std::lround((0.02 + M_PI / std::sqrt(K)) / h));
  Eigen::Matrix2d J;
  for (int i = 0; i < 2; ++i) {
    J.row(i) = SlopesOfLast(model.get(), Eigen::Vector4d(0, 0, 2, -1), MatrixXd(0, N), 2 + i).x0.tail(2).transpose();
  }
  EXPECT_TRUE(support::MatricesNear(J, (Eigen::Matrix2d() << 0, 1, 1, 0).finished(), 1e-3));
}

// ---- block
// ----------------------------------------------------------------------------------------------------------
constexpr double kMass = 2, kWeight = 9.81;

ModelPtr CoulombBlock(const std::string& cone, const std::string& contact) {
  return LoadModelFromString("<mujoco><option timestep='0.0005' cone='" + cone + "'/><default><geom friction='.5' " +
                             contact + R"(/></default>
  <worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.05">
  <joint name="x" type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
  <geom name="block" priority="1" type="box" size="0.1 0.1 0.05" mass="2"/></body></worldbody>
  <actuator><motor joint="x"/></actuator></mujoco>)");
}

struct CoulombSlopes {
  double force = 0, friction = 0,
         speed = 0;              // d x(T) / d (constant force, friction, start velocity)
  double inertia = 0, drag = 0;  // of friction within its cone: it is −inertia · a − drag · v
};

// pushed by `force` from rest, or on the way at `speed`, for N steps
CoulombSlopes PushBlock(const mjModel* given, double force, double speed, int N) {
  const ParameterSet friction(given, {"geom:block/friction[0]"});
  const mjModel* model = friction.model();
  const DataPtr data = MakeData(model);
  while (data->time < 3) mj_step(model, data.get());
  CoulombSlopes out;
  mj_forward(model, data.get());
  const std::vector<mjtNum> J = [&] {
    std::vector<mjtNum> dense(static_cast<std::size_t>(data->nefc * model->nv));
    if (mj_isSparse(model)) {
      mju_sparse2dense(dense.data(), data->efc_J, data->nefc, model->nv, data->efc_J_rownnz, data->efc_J_rowadr,
                       data->efc_J_colind);
    } else {
      dense.assign(data->efc_J, data->efc_J + data->nefc * model->nv);
    }
    return dense;
  }();
  for (int i = 0; i < data->nefc; ++i) {
    const double along = J[static_cast<std::size_t>(i * model->nv)], D = data->efc_D[i] * along * along;
    out.inertia += D;
    out.drag += D * data->efc_KBIP[4 * i + 1];
  }
  VectorXd x0 = GetState(model, data.get());
  x0[0] = 0;
  x0[2] = speed;
  const RolloutGradient g = SlopesOfLast(model, x0, MatrixXd::Constant(1, N, force), 0, &friction);
  out.force = g.U.sum();
  out.speed = g.x0[2];
  out.friction = g.theta[0];
  return out;
}

// Sliding: m a = F − μ m g, so x = v T + (F/m − μ g) T²/2. Within the cone friction is −inertia · a
// − drag · v: what sticks creeps, by a known amount, and does not feel μ. True cones, and smoothed
// ones, where creep is what was asked for. The engine's slip lifts a block by b μ v / k, so that
// where it slides the ground is stiff and hardly damped.
TEST_F(KnownAnswersTest, BlockSticksAndSlipsByCoulombsLaw) {
  for (const char* cone : {"elliptic", "pyramidal"}) {
    const ModelPtr ground = CoulombBlock(cone, "solimp='.9 .9 .001'"),
                   stiff = CoulombBlock(cone, "solimp='.5 .5 .001' solref='-1e5 -20'");
    const double h = ground->opt.timestep;
    const int N = 200;
    const double T = N * h, half = 0.5 * T * (T + h);  // Σ of semi-implicit steps
    for (const double slope : {0.0, 100.0, 10.0}) {
      const SmoothModel slipping = MakeSmoothModel(stiff.get(), {.friction = slope});
      SCOPED_TRACE(cone + std::string(", ") + slipping.label);
      const CoulombSlopes slips = PushBlock(slipping.model.get(), 20, 1, N);
      EXPECT_NEAR(slips.force, half / kMass, 0.005 * half / kMass);
      EXPECT_NEAR(slips.friction, -kWeight * half, 0.005 * kWeight * half);
      EXPECT_NEAR(slips.speed, T, 0.005 * T);

      const SmoothModel sticking = MakeSmoothModel(ground.get(), {.friction = slope});
      const CoulombSlopes sticks = PushBlock(sticking.model.get(), 4, 0, N);
      double x = 0, v = 0;  // by a force of 1 N
      for (int t = 0; t < N; ++t) {
        v += h * (1 - sticks.drag * v) / (kMass + sticks.inertia);
        x += h * v;
      }
      EXPECT_NEAR(sticks.force, x, 1e-12 * x);
      EXPECT_NEAR(sticks.friction, 0, 0.005 * kWeight * half);
      EXPECT_LT(sticks.force, (slope == 0 ? 0.01 : 1) * slips.force);
    }
  }
}

// ---- a target in a wall
// A panel in a wall gives way to a ball; the loss is how deep it shall be pushed in, and so depends on contact alone.
// What flies over the wall, or bounces off it below the panel, has no gradient at all: exactly 0. The slopes of a model
// whose contact of ball and panel begins at a distance, along the true motion, lead to a hit from either side.
TEST_F(KnownAnswersTest, DistanceLeadsAThrowOverAWallToItsTarget) {
  const ModelPtr truth = LoadModelFromString(R"(<mujoco><option timestep=".005"/><worldbody>
    <geom name="wall" type="box" size=".05 1 .4" pos="1.05 0 .4"/>
    <body pos="0 0 1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
      <geom name="ball" size=".05" mass=".5"/></body>
    <body pos="1.05 0 1"><joint type="slide" axis="1 0 0" damping="1"/>
      <geom name="panel" type="box" size=".05 .3 .18" mass=".5"/></body></worldbody></mujoco>)");
  class Pushed final : public Loss {
   public:
    double Value(const KnotView& k) const override { return k.t == k.N ? 0.5 * std::pow(k.x[2] - 0.3, 2) : 0; }
    void Gradient(const KnotView& k, KnotGradient* out) const override {
      if (k.t == k.N) out->x[2] = k.x[2] - 0.3;
    }
    bool NeedsSensors() const override { return false; }
  };
  SmoothContact reach{.distance = 0.5};
  reach.targets.pairs = {{"ball", "panel"}};
  const SmoothModel far = MakeSmoothModel(truth.get(), reach);
  const DataPtr data = MakeData(truth.get());
  Adjoint adjoint(truth.get(), GetContext(truth.get(), data.get()));
  const MatrixXd none(0, 100);
  for (const auto& [start, way] : {std::pair{4.0, 1}, std::pair{3.5, 1}, std::pair{2.6, 1}, std::pair{0.05, -1}}) {
    SCOPED_TRACE(start);
    RolloutGradient plain, smooth;
    double up = start;
    const auto thrown = [&] {
      VectorXd x0 = VectorXd::Zero(6);
      x0[3] = 4;
      x0[4] = up;
      adjoint.Gradient(x0, none, Pushed(), {}, &plain);
      adjoint.Gradient(x0, none, Pushed(), {.derivative_model = far.model.get()}, &smooth);
    };
    thrown();
    EXPECT_EQ(plain.xN[2], 0) << "the panel was touched";
    for (int i : {0, 1, 3, 4}) EXPECT_EQ(plain.x0[i], 0) << i;  // of the ball; the panel's own start has its slope
    EXPECT_EQ(plain.loss, smooth.loss);
    EXPECT_GT(way * smooth.x0[4], 0.05);
    for (int step = 0; step < 60 && plain.loss > 0.03; step++) {
      up -= std::copysign(0.05, smooth.x0[4]);
      thrown();
    }
    EXPECT_LT(plain.loss, 0.03);  // 0.045 where it is missed
    EXPECT_NE(plain.x0[4], 0);
  }
}

}  // namespace
}  // namespace costate
