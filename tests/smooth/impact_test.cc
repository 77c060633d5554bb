// Derivatives through rigid impacts against closed forms, differences of the event model, and the engine's stiff
// contact.
#include <costate/impact.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <Eigen/Dense>

#include "smooth/event_differences.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using Eigen::Matrix2d;
using Eigen::Matrix3d;
using Eigen::Vector3d;
using support::MatricesNear;
using ImpactTest = costate::support::EngineTest;

constexpr double kGravity = 9.81, kRadius = 0.1;
constexpr double kRounding = 1e-9;  // of chains over some hundred steps with entries of about one

std::string Options(const std::string& integrator, double timestep, double gravity = kGravity) {
  return "<option integrator='" + integrator + "' timestep='" + std::to_string(timestep) + "' gravity='0 0 " +
         std::to_string(-gravity) + "'/>";
}

// a ball that moves along z above a floor; qpos is the height of its lowest point
ModelPtr Ball(const std::string& integrator, double timestep, const std::string& contact = "") {
  return LoadModelFromString("<mujoco>" + Options(integrator, timestep) +
                             "<worldbody><geom name='floor' type='plane' size='5 5 1' " + contact +
                             "/><body pos='0 0 .1'><joint name='z' type='slide' axis='0 0 1'/>"
                             "<geom name='ball' size='.1' " +
                             contact + "/></body></worldbody></mujoco>");
}

// a ball on a free joint above a floor that is inclined about y
ModelPtr Slope(double angle) {
  return LoadModelFromString("<mujoco><compiler angle='radian'/>" + Options("RK4", 0.02) +
                             "<worldbody><geom type='plane' size='5 5 1' euler='0 " + std::to_string(angle) +
                             " 0'/><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
}

// a rod with an arm, tumbling onto a tilted floor with one end
ModelPtr Tumbler(const std::string& integrator) {
  return LoadModelFromString("<mujoco><compiler angle='radian'/>" + Options(integrator, 0.01) + R"(
    <worldbody><geom type='plane' size='5 5 1' euler='.1 .2 0'/>
      <body><freejoint/><geom name='rod' type='capsule' size='.08' fromto='-.2 0 0 .2 .05 0'/>
        <body pos='.1 0 .02'><joint name='arm' axis='0 1 .3' damping='.02' stiffness='1'/>
          <geom type='capsule' size='.05' fromto='0 0 0 0 0 .2' contype='0' conaffinity='0'/></body></body>
    </worldbody><actuator><motor joint='arm'/><general joint='arm' gainprm='2' dyntype='filter' dynprm='.05'/></actuator></mujoco>)");
}

VectorXd State(std::initializer_list<double> values) {
  VectorXd x(static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), x.data());
  return x;
}

ImpactTrajectory Rollout(const mjModel* model, const VectorXd& x0, int N, const ImpactOptions& options) {
  const DataPtr data = MakeData(model);
  return ImpactRollout(model, GetContext(model, data.get()), x0, MatrixXd::Zero(model->nu, N), options);
}

struct Bounced {
  VectorXd state;
  Matrix2d by_start;
};

// height and speed of a point at T after k bounces, and their derivatives by the start: parabolas between t_j
Bounced BouncedClosedForm(double z, double v, double T, int k, double e) {
  // first touch at t = (v + w) / g with speed w; bounce j takes 2 eʲ w / g
  const double g = kGravity, w = std::sqrt(v * v + 2 * g * z);
  double flights = 0;
  for (int j = 1; j < k; ++j) flights += 2 * std::pow(e, j);
  const double ek = std::pow(e, k), t = k == 0 ? 0 : (v + w + flights * w) / g, dt = T - t;
  if (k == 0) return {State({z + v * T - g * T * T / 2, v - g * T}), (Matrix2d() << 1, T, 0, 1).finished()};
  Bounced result{State({ek * w * dt - g * dt * dt / 2, ek * w - g * dt}), {}};
  const double dw[2] = {g / w, v / w}, dv[2] = {0, 1};
  for (int i = 0; i < 2; ++i) {
    const double t_i = (dv[i] + (1 + flights) * dw[i]) / g;
    result.by_start(0, i) = ek * dw[i] * dt - (ek * w - g * dt) * t_i;
    result.by_start(1, i) = ek * dw[i] + g * t_i;
  }
  return result;
}

int Bounces(const ImpactTrajectory& trajectory) {
  int bounces = 0;
  for (const ImpactStep& step : trajectory.steps) bounces += static_cast<int>(step.impacts.size());
  return bounces;
}

// RK4 makes parabolas exactly, so that only the event can be wrong.
TEST_F(ImpactTest, BouncingBallHasTheClosedFormBeforeAndAfterEachTouch) {
  const ModelPtr model = Ball("RK4", 0.01);
  for (const double e : {1.0, 0.7}) {
    ImpactOptions options;
    options.restitution = e;
    const int steps[] = {30, 70, e == 1 ? 150 : 130};  // touches at 0.505 s, and 0.909 e s later
    for (int k = 0; k <= 2; ++k) {
      const ImpactTrajectory motion = Rollout(model.get(), State({1, 0.5}), steps[k], options);
      ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
      ASSERT_EQ(Bounces(motion), k);
      const Bounced expected = BouncedClosedForm(1, 0.5, 0.01 * steps[k], k, e);
      EXPECT_TRUE(MatricesNear(motion.X.rightCols(1), expected.state, kRounding)) << "bounces " << k;
      EXPECT_TRUE(MatricesNear(motion.ByStart(), expected.by_start, kRounding)) << "bounces " << k;
    }
  }
}

// Both bounces inside one long step: the chain within a step is the one over steps.
TEST_F(ImpactTest, TwoImpactsInOneStep) {
  const double T = 0.7;  // touches at 0.175 s and 0.379 s later
  const ModelPtr model = Ball("RK4", T);
  ImpactOptions options;
  options.restitution = 0.5;
  const ImpactTrajectory motion = Rollout(model.get(), State({0.5, -2}), 1, options);
  ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
  ASSERT_EQ(Bounces(motion), 2);
  const Bounced expected = BouncedClosedForm(0.5, -2, T, 2, 0.5);
  EXPECT_TRUE(MatricesNear(motion.X.rightCols(1), expected.state, kRounding));
  EXPECT_TRUE(MatricesNear(motion.ByStart(), expected.by_start, kRounding));
  const Impact& first = motion.steps[0].impacts[0];
  const double w = std::sqrt(4 + 2 * kGravity * 0.5), mass = model->body_mass[1];
  EXPECT_NEAR(first.time, (w - 2) / kGravity, 1e-14);
  EXPECT_NEAR(first.approach, w, 1e-13);
  EXPECT_NEAR(first.separation, w / 2, 1e-13);
  EXPECT_NEAR(first.impulse, 1.5 * mass * w, 1e-12);
  EXPECT_NEAR(first.position[2], 0, 1e-14);
}

// Semi-implicit Euler: z' = z + s (v − g s), so (E6) can be written out; it tends to the closed form with the step.
TEST_F(ImpactTest, EulerHasItsOwnChainAndTendsToTheClosedForm) {
  const double h = 0.01, z = 0.03, v = -4, e = 0.8, g = kGravity;
  ImpactOptions options;
  options.restitution = e;
  const ImpactTrajectory one = Rollout(Ball("Euler", h).get(), State({z, v}), 1, options);
  ASSERT_TRUE(one.ok()) << one.steps.back().message;
  const double tau = (v + std::sqrt(v * v + 4 * g * z)) / (2 * g), s = h - tau, after = -e * (v - g * tau);
  const Matrix2d A1 = (Matrix2d() << 1, tau, 0, 1).finished(), A2 = (Matrix2d() << 1, s, 0, 1).finished(),
                 jump = (Matrix2d() << 1, 0, 0, -e).finished();
  const Eigen::Vector2d F1(v - 2 * g * tau, -g), F2(after - 2 * g * s, -g);
  const Eigen::RowVector2d dtau = -A1.row(0) / F1[0];
  const Matrix2d expected = A2 * jump * (A1 + F1 * dtau) - F2 * dtau;
  EXPECT_TRUE(MatricesNear(one.steps[0].A, expected, kRounding));

  double error[2];
  for (int i = 0; i < 2; ++i) {
    const int N = i ? 320 : 160;
    const ImpactTrajectory motion = Rollout(Ball("Euler", 0.8 / N).get(), State({1, 0.5}), N, options);
    ASSERT_EQ(Bounces(motion), 1);
    error[i] = (motion.ByStart() - BouncedClosedForm(1, 0.5, 0.8, 1, e).by_start).norm();
  }
  EXPECT_LT(error[1], 0.05);
  EXPECT_NEAR(error[0] / error[1], 2, 0.1);
}

// A ball whose state at a knot is the touch itself: the impact belongs to the next step, and the product does not see
// where.
TEST_F(ImpactTest, ImpactAtAKnot) {
  const ModelPtr model = Ball("RK4", 0.05);
  const ImpactTrajectory motion = Rollout(model.get(), State({0, -2}), 1, {});
  ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
  ASSERT_EQ(Bounces(motion), 1);
  EXPECT_EQ(motion.steps[0].impacts[0].time, 0);
  EXPECT_TRUE(MatricesNear(motion.ByStart(), BouncedClosedForm(0, -2, 0.05, 1, 1).by_start, kRounding));
}

struct Masses {
  double m1, m2, e;
};

// Textbook: v1' = ((m1 − e m2) v1 + (1 + e) m2 v2) / (m1 + m2). Equal and elastic: (0 1; 1 0).
TEST_F(ImpactTest, TwoSpheresHeadOn) {
  for (const Masses& c : {Masses{1, 1, 1}, Masses{1, 3, 1}, Masses{2, 0.5, 0.6}}) {
    const std::string geom = "<geom size='.1' mass='";
    const ModelPtr model = LoadModelFromString(
        "<mujoco>" + Options("Euler", 0.01, 0) + "<worldbody><body><freejoint/>" + geom + std::to_string(c.m1) +
        "'/></body><body pos='1 0 0'><freejoint/>" + geom + std::to_string(c.m2) + "'/></body></worldbody></mujoco>");
    VectorXd x = GetState(model.get(), MakeData(model.get()).get());
    const double v1 = 2, v2 = -1, M = c.m1 + c.m2;
    x[model->nq] = v1;
    x[model->nq + 6] = v2;
    ImpactOptions options;
    options.restitution = c.e;
    const ImpactTrajectory motion = Rollout(model.get(), x, 40, options);
    ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
    ASSERT_EQ(Bounces(motion), 1);

    // velocities along x by velocities along x, the whole 2 × 2
    const MatrixXd J = motion.ByStart();
    Matrix2d swap, by_velocity, by_position, expected;
    swap << c.m1 - c.e * c.m2, (1 + c.e) * c.m2, (1 + c.e) * c.m1, c.m2 - c.e * c.m1;
    swap /= M;
    const int velocity[2] = {12, 18}, position[2] = {0, 6};
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        by_velocity(i, j) = J(velocity[i], velocity[j]);
        by_position(i, j) = J(position[i], position[j]);
      }
    }
    if (c.m1 == c.m2) swap = (Matrix2d() << 0, 1, 1, 0).finished();
    EXPECT_TRUE(MatricesNear(by_velocity, swap, 1e-12)) << c.m1 << " " << c.m2 << " " << c.e;

    // x' = x + v τ + v' (T − τ), τ = (x2 − x1 − 0.2) / (v1 − v2)
    const Eigen::Vector2d v(v1, v2), after = swap * v, dtau(-1 / (v1 - v2), 1 / (v1 - v2));
    expected = Matrix2d::Identity() + (v - after) * dtau.transpose();
    EXPECT_TRUE(MatricesNear(by_position, expected, 1e-11));
  }
}

// (E7): Φ₂ Ξ Φ₁ with Φ of free fall; the tangential part of the velocity goes through, the position part does not
// the midphase passes over pairs of geoms by how far their bodies reach
TEST_F(ImpactTest, BodiesOfManyGeomsBounceAsTheirSpheresDo) {
  MatrixXd alone;
  for (const std::string more :
       {"", "<geom size='.05' pos='.4 0 0' mass='0'/><geom size='.05' pos='.6 0 0' mass='0'/>"}) {
    const std::string geoms = "<freejoint/><geom size='.1' mass='1'/>" + more + "</body>";
    const ModelPtr model =
        LoadModelFromString("<mujoco>" + Options("Euler", 0.01, 0) + "<worldbody><body pos='0 0 1'>" + geoms +
                            "<body pos='.001 0 1.205'>" + geoms + "</worldbody></mujoco>");
    VectorXd x = GetState(model.get(), MakeData(model.get()).get());
    x[model->nq + 2] = 1;
    const ImpactTrajectory motion = Rollout(model.get(), x, 1, {});
    ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
    ASSERT_EQ(Bounces(motion), 1);
    if (more.empty()) alone = motion.ByStart();
    else EXPECT_TRUE(MatricesNear(motion.ByStart(), alone, 1e-11));
  }
}

TEST_F(ImpactTest, ObliqueBounceOnASlopeHasTheSaltationMatrix) {
  const double angle = 0.4, e = 0.9, T = 0.3;
  const ModelPtr model = Slope(angle);
  const Vector3d n(std::sin(angle), 0, std::cos(angle)), gravity(0, 0, -kGravity), v(1.5, 0.7, -1);
  const Vector3d p = 0.4 * n + Vector3d(0.1, -0.2, 0);
  VectorXd x = GetState(model.get(), MakeData(model.get()).get());
  x.head(3) = p;
  x.segment(7, 3) = v;
  ImpactOptions options;
  options.restitution = e;
  const ImpactTrajectory motion = Rollout(model.get(), x, 15, options);
  ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
  ASSERT_EQ(Bounces(motion), 1);

  // n·(p + v t + g t²/2) = radius
  const double a = n.dot(gravity) / 2, b = n.dot(v), c = n.dot(p) - kRadius;
  const double t = (-b - std::sqrt(b * b - 4 * a * c)) / (2 * a);
  const Vector3d before = v + gravity * t, after = before - (1 + e) * n.dot(before) * n;
  using Matrix6d = Eigen::Matrix<double, 6, 6>;
  using Vector6d = Eigen::Matrix<double, 6, 1>;
  const auto fall = [](double s) {
    Matrix6d result = Matrix6d::Identity();
    result.topRightCorner(3, 3) = s * Matrix3d::Identity();
    return result;
  };
  Matrix6d jump = Matrix6d::Identity();
  jump.bottomRightCorner(3, 3) -= (1 + e) * n * n.transpose();
  Vector6d F_before, F_after, G;
  F_before << before, gravity;
  F_after << after, gravity;
  G << n, Vector3d::Zero();
  const Matrix6d saltation = jump + (F_after - jump * F_before) * G.transpose() / G.dot(F_before);
  const Matrix6d expected = fall(T - t) * saltation * fall(t);

  const MatrixXd J = motion.ByStart();
  Matrix6d value;
  value << J.block(0, 0, 3, 3), J.block(0, 6, 3, 3), J.block(6, 0, 3, 3), J.block(6, 6, 3, 3);
  EXPECT_TRUE(MatricesNear(value, expected, kRounding));
  const Vector3d tangent = n.cross(Vector3d::UnitY());
  EXPECT_NEAR((tangent.transpose() * value.bottomRightCorner(3, 3) * tangent).value(), 1, kRounding);
}

// Rotation, an off-centre hit, another joint that the impulse moves, activations and controls: the whole A and B.
TEST_F(ImpactTest, TumblingRodAgreesWithDifferencesOfTheEventModel) {
  for (const char* integrator : {"Euler", "implicitfast", "implicit", "RK4"}) {
    const ModelPtr model = Tumbler(integrator);
    const Dims dims(model.get());
    VectorXd x(dims.nx);
    x << 0.1, -0.2, 0.4, 0.8, 0.3, -0.4, 0.33, 0.5, /**/ 0.7, -0.3, -3, 1, -2, 0.5, 0.7, /**/ 0.3;
    mju_normalize4(x.data() + 3);
    ImpactOptions options;
    options.restitution = 0.8;
    options.substeps = 8;
    const VectorXd u = State({0.3, -0.5});
    ImpactLinearizer linearizer(model.get(), options);
    ImpactStep step, alone;
    linearizer.Linearize(x, u, &step);
    ASSERT_EQ(step.status, ImpactStatus::kOk) << step.message;
    ASSERT_GE(step.impacts.size(), 1u);
    linearizer.Step(x, u, &alone);
    EXPECT_TRUE(support::BitwiseEqual(alone.x_next, step.x_next));

    MatrixXd value(dims.ndx, dims.ndx + dims.nu);
    value << step.A, step.B;
    const double scale = value.cwiseAbs().maxCoeff();
    double error[2];
    const double sizes[2] = {1e-4, 5e-5};
    for (int i = 0; i < 2; ++i)
      error[i] = (value - EventDifferences(model.get(), x, u, options, sizes[i], false)).norm();
    EXPECT_NEAR(error[0] / error[1], 4, 0.1) << integrator << ": " << error[0] << ", " << error[1];
    EXPECT_TRUE(MatricesNear(value, EventDifferences(model.get(), x, u, options, 1e-4, true), 1e-8 * scale,
                             TangentNames(model.get())))
        << integrator << ", impacts " << step.impacts.size();
  }
}

// What else acts between impacts: a limit and a loop that push, dry friction, and damping that bends a limb's motion
// within less than a step (0.1 N m s over 3e-5 kg m²).
TEST_F(ImpactTest, ConstraintsAndDampingActBetweenImpacts) {
  for (const char* integrator : {"Euler", "implicitfast", "RK4"}) {
    const bool stiff = std::string(integrator) != "RK4";
    const ModelPtr model = LoadModelFromString("<mujoco><compiler angle='radian'/>" + Options(integrator, 0.004) + R"(
      <worldbody><geom type='plane' size='5 5 1' euler='.1 .05 0'/>
        <body><freejoint/><geom type='capsule' size='.05' fromto='-.2 0 0 .2 .03 0'/>
          <body pos='.2 0 0'><joint name='a' axis='0 1 0' range='-.5 .5' limited='true'/>
            <geom type='capsule' size='.04' fromto='0 0 0 .2 0 0' contype='0' conaffinity='0'/>
            <body pos='.2 0 0'><joint name='b' axis='0 0 1' frictionloss='.02' damping=')" +
                                               std::string(stiff ? ".1" : ".001") + R"('/>
              <geom type='sphere' size='.01' mass='.02' pos='.03 0 0' contype='0' conaffinity='0'/></body></body>
          <body pos='-.2 0 0'><joint name='c' axis='0 1 0'/>
            <geom type='capsule' size='.04' fromto='0 0 0 -.2 0 0' contype='0' conaffinity='0'/></body></body>
      </worldbody><equality><joint joint1='a' joint2='c' polycoef='0 1 0 0 0'/></equality>
      <actuator><position joint='b' kp='1'/></actuator></mujoco>)");
    const Dims dims(model.get());
    VectorXd x(dims.nx);
    x << 0, 0, 0.064, 0.99, 0.05, 0.02, 0.1, 0.52, 0.1, 0.515, /**/ 0.2, 0.1, -3, 0.3, -0.4, 0.5, 0.2, 3, 0.1;
    mju_normalize4(x.data() + 3);
    ImpactOptions options;
    options.restitution = 0.9;
    options.substeps = 4;
    ImpactLinearizer linearizer(model.get(), options);
    ImpactStep step;
    const VectorXd u = State({0.3});
    linearizer.Linearize(x, u, &step);
    ASSERT_EQ(step.status, ImpactStatus::kOk) << step.message;
    ASSERT_GE(step.impacts.size(), 1u) << integrator;
    MatrixXd value(dims.ndx, dims.ndx + dims.nu);
    value << step.A, step.B;
    EXPECT_TRUE(MatricesNear(value, EventDifferences(model.get(), x, u, options, 4e-6, true),
                             2e-8 * value.cwiseAbs().maxCoeff(), TangentNames(model.get())))
        << integrator;
  }
}

// Without an impact the event model is the engine's step.
TEST_F(ImpactTest, FreeFlightIsTheEnginesStep) {
  const ModelPtr model = Tumbler("implicitfast");
  VectorXd x = GetState(model.get(), MakeData(model.get()).get());
  x[2] = 1;
  const VectorXd u = State({0.1, 0.2});
  ImpactLinearizer linearizer(model.get());
  ImpactStep step;
  linearizer.Linearize(x, u, &step);
  StepDerivative expected;
  Linearizer(model.get(), {.sensors = false}).Linearize(x, u, &expected);
  EXPECT_TRUE(support::BitwiseEqual(step.A, expected.A));
  EXPECT_TRUE(support::BitwiseEqual(step.B, expected.B));
  VectorXd next(x.size()), no_sensors;
  Step(model.get(), MakeData(model.get()).get(), x, u, 1, next, no_sensors);
  EXPECT_TRUE(support::BitwiseEqual(step.x_next, next));
  EXPECT_TRUE(step.impacts.empty());
}

// Force begins at the margin; the floor of this ball is 0.02 m higher.
TEST_F(ImpactTest, GeomsBounceAtTheirMargin) {
  const ModelPtr model = Ball("RK4", 0.01, "margin='0.01'");
  const ImpactTrajectory motion = Rollout(model.get(), State({1.02, 0.5}), 70, {});
  ASSERT_EQ(Bounces(motion), 1);
  EXPECT_TRUE(MatricesNear(motion.ByStart(), BouncedClosedForm(1, 0.5, 0.7, 1, 1).by_start, kRounding));
}

// A box lies on the floor in the engine's contact while a ball bounces beside it.
TEST_F(ImpactTest, OtherContactsStayTheEngines) {
  const ModelPtr model = LoadModelFromString("<mujoco>" + Options("Euler", 0.002) + R"(
    <worldbody><geom name='floor' type='plane' size='5 5 1'/>
      <body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'/></body>
      <body pos='2 0 .0999'><freejoint/><geom name='box' type='box' size='.1 .1 .1'/></body></worldbody></mujoco>)");
  VectorXd x = GetState(model.get(), MakeData(model.get()).get());
  x[0] = 0.003;
  x[model->nq] = -3;
  ImpactOptions options;
  ImpactStep step;
  ImpactLinearizer all(model.get(), options);
  all.Linearize(x, VectorXd(), &step);
  EXPECT_EQ(step.status, ImpactStatus::kInContact);
  EXPECT_EQ(step.A.size() + step.B.size() + step.x_next.size(), 0);
  EXPECT_NE(step.message.find("'floor' and 'box'"), std::string::npos) << step.message;
  options.geoms = {"ball"};
  ImpactLinearizer ball(model.get(), options);
  ball.Linearize(x, VectorXd(), &step);
  ASSERT_EQ(step.status, ImpactStatus::kOk) << step.message;
  ASSERT_EQ(step.impacts.size(), 1u);
  EXPECT_GT(step.x_next[model->nq], 2.5);

  // the box by itself: two engine steps, up to the touch and on
  const ModelPtr part = CopyModel(model.get());
  const DataPtr data = MakeData(part.get());
  MatrixXd expected = MatrixXd::Identity(14, 14);
  VectorXd next(x.size()), no_sensors;
  x[0] = 1;  // the ball away
  for (const double duration : {step.impacts[0].time, 0.002 - step.impacts[0].time}) {
    part->opt.timestep = duration;
    StepDerivative engine;
    Linearizer(part.get(), {.sensors = false}).Linearize(x, VectorXd(), &engine);
    expected = engine.A * expected;
    Step(part.get(), data.get(), x, VectorXd(), 1, next, no_sensors);
    x = next;
  }
  const auto of_box = [](const MatrixXd& A) {
    MatrixXd block(12, 12);
    block << A.block(1, 1, 6, 6), A.block(1, 8, 6, 6), A.block(8, 1, 6, 6), A.block(8, 8, 6, 6);
    return block;
  };
  EXPECT_GT((expected.block(8, 1, 6, 6).cwiseAbs().maxCoeff()), 1);  // stiffness of the box' contact
  EXPECT_TRUE(MatricesNear(of_box(step.A), of_box(expected), 1e-7));
}

// An elastic contact of the engine: undamped, as stiff as solref says.
ModelPtr StiffBall(double stiffness, double timestep, double gravity) {
  const std::string contact = "solref='-" + std::to_string(stiffness) + " 0' solimp='.9999 .9999 .001'";
  ModelPtr model = Ball("Euler", 1, contact);
  model->opt.timestep = timestep;
  model->opt.gravity[2] = -gravity;
  return model;
}

VectorXd EngineMotion(const mjModel* model, mjData* data, VectorXd x, int N) {
  VectorXd next(x.size()), no_sensors;
  EXPECT_EQ(Step(model, data, x, VectorXd(), N, next, no_sensors), StepStatus::kOk);
  return next;
}

// Without gravity the engine's bounce on a spring k takes π / √k, and the event none: ∂z(T)/∂v0 is −(T − π/√k) against
// −T. Products of the engine's step derivatives know the phase at which they leave the floor to h √k, hence ∂v(T)/∂z0
// to k h.
TEST_F(ImpactTest, StiffElasticContactOfTheEngineTendsToTheEvent) {
  for (const double k : {3e2, 3e3, 3e4}) {
    const double kh = 0.01, h = kh / k, delay = M_PI / std::sqrt(k);
    const int N = static_cast<int>(std::lround((0.02 + delay) / h));
    const double T = N * h;
    const ModelPtr model = StiffBall(k, h, 0), rigid = StiffBall(k, T, 0);
    const MatrixXd event = Rollout(rigid.get(), State({0.02, -4}), 1, {}).ByStart();
    EXPECT_TRUE(MatricesNear(event, (Matrix2d() << -1, -T, 0, -1).finished(), kRounding));
    const DataPtr data = MakeData(model.get());
    Linearizer linearizer(model.get(), {.sensors = false});
    VectorXd x = State({0.02, -4});
    MatrixXd J = Matrix2d::Identity();
    StepDerivative step;
    for (int t = 0; t < N; ++t) {
      linearizer.Linearize(x, VectorXd(), &step);
      J = step.A * J;
      x = EngineMotion(model.get(), data.get(), x, 1);
    }
    EXPECT_NEAR(J(0, 0), event(0, 0), kh) << k;
    EXPECT_NEAR(J(1, 1), event(1, 1), kh) << k;
    EXPECT_NEAR(J(1, 0), event(1, 0), 2 * kh) << k;
    EXPECT_NEAR(J(0, 1) - event(0, 1), delay, kh * delay) << k;
    RecordProperty("distance_at_" + std::to_string(std::lround(k)), std::to_string((J - event).cwiseAbs().maxCoeff()));
  }
}

// With gravity the engine's force sets in with a jump (the weight), which derivatives of its steps do not see; the
// motion itself does: its differences over more than a step's travel tend to the event.
TEST_F(ImpactTest, StiffElasticMotionOfTheEngineTendsToTheEvent) {
  const double h = 1e-5, T = 0.8, eps = 2e-3;
  const Bounced event = BouncedClosedForm(1, 0.5, T, 1, 1);
  double error[3];
  const double stiffness[3] = {1e4, 4e4, 16e4};
  for (int i = 0; i < 3; ++i) {
    const ModelPtr model = StiffBall(stiffness[i], h, kGravity);
    const DataPtr data = MakeData(model.get());
    Matrix2d J;
    for (int col = 0; col < 2; ++col) {
      VectorXd plus = State({1, 0.5}), minus = plus;
      plus[col] += eps;
      minus[col] -= eps;
      const int N = static_cast<int>(std::lround(T / h));
      J.col(col) = (EngineMotion(model.get(), data.get(), plus, N) - EngineMotion(model.get(), data.get(), minus, N)) /
                   (2 * eps);
    }
    error[i] = (J - event.by_start).norm() / event.by_start.norm();
    RecordProperty("relative_distance_at_" + std::to_string(std::lround(stiffness[i])), std::to_string(error[i]));
  }
  EXPECT_LT(error[2], 0.02);
  EXPECT_NEAR(error[0] / error[1], 2, 0.3) << error[0] << " " << error[1] << " " << error[2];
  EXPECT_NEAR(error[1] / error[2], 2, 0.3) << error[0] << " " << error[1] << " " << error[2];
}

TEST_F(ImpactTest, PullBackIsTheTransposeOfByStart) {
  const ModelPtr model = Tumbler("RK4");
  VectorXd x = GetState(model.get(), MakeData(model.get()).get());
  x[2] = 0.4;
  x[model->nq + 2] = -3;
  x[model->nq + 4] = 2;
  const ImpactTrajectory motion = Rollout(model.get(), x, 12, {});
  ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
  ASSERT_GE(Bounces(motion), 1);
  const VectorXd lambda = VectorXd::LinSpaced(Dims(model.get()).ndx, -1, 1);
  MatrixXd by_control;
  const VectorXd pulled = motion.PullBack(lambda, &by_control);
  EXPECT_TRUE(MatricesNear(pulled, motion.ByStart().transpose() * lambda, 1e-12 * pulled.norm()));
  const VectorXd last = motion.steps.back().B.transpose() * lambda;
  EXPECT_TRUE(MatricesNear(by_control.col(11), last, 1e-15));
}

void ExpectRefused(const mjModel* model, const VectorXd& x, ImpactStatus status, const std::string& text,
                   const ImpactOptions& options = {}) {
  ImpactLinearizer linearizer(model, options);
  ImpactStep step;
  linearizer.Linearize(x, VectorXd::Zero(model->nu), &step);
  EXPECT_EQ(step.status, status) << ToString(step.status) << ": " << step.message;
  EXPECT_NE(step.message.find(text), std::string::npos) << step.message;
  EXPECT_EQ(step.A.size() + step.B.size() + step.x_next.size(), 0);
}

TEST_F(ImpactTest, WhatHasNoEventDerivativeIsRefusedWithItsNumbers) {
  const ModelPtr ball = Ball("RK4", 0.1);

  // resting, inside the floor, and thrown up to where it hardly touches a ceiling
  ExpectRefused(ball.get(), State({0, 0}), ImpactStatus::kInContact, "geoms 'floor' and 'ball'");
  ExpectRefused(ball.get(), State({-1e-3, 1}), ImpactStatus::kInContact, "distance -0.001 m");
  const double speed = std::sqrt(2 * kGravity * 0.0401), reach = 0.0401 - 1e-10;
  const ModelPtr ceiling = LoadModelFromString("<mujoco>" + Options("RK4", speed / kGravity) + R"(
    <worldbody><geom name='ceiling' type='plane' size='5 5 1' pos='0 0 1' zaxis='0 0 -1'/>
      <body><joint type='slide' axis='0 0 1'/><geom name='ball' size='.1'/></body></worldbody></mujoco>)");
  ExpectRefused(ceiling.get(), State({0.9 - reach, speed}), ImpactStatus::kGrazing, "approach speed of 4.4");

  // bounces that die down; more than allowed
  ImpactOptions halving;
  halving.restitution = 0.5;
  ExpectRefused(Ball("RK4", 1).get(), State({0.5, -2}), ImpactStatus::kInContact, "in contact 0.932", halving);
  ImpactOptions few;
  few.restitution = 0.5;
  few.max_impacts = 2;
  ExpectRefused(Ball("RK4", 2).get(), State({0.5, -2}), ImpactStatus::kTooMany, "more than 2 impacts", few);

  // a box that lands on an edge
  const ModelPtr box = LoadModelFromString("<mujoco>" + Options("RK4", 0.01) + R"(
    <worldbody><geom type='plane' size='5 5 1'/><body><freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>)");
  VectorXd x = GetState(box.get(), MakeData(box.get()).get());
  x[2] = 0.11;
  x[9] = -3;
  ExpectRefused(box.get(), x, ImpactStatus::kSimultaneous, "touch too");
}

// One dof: four corners at once, but they are one event, because their distances have the same gradient.
TEST_F(ImpactTest, CornersThatMoveAlikeAreOneImpact) {
  const ModelPtr model = LoadModelFromString("<mujoco>" + Options("RK4", 0.01) + R"(
    <worldbody><geom type='plane' size='5 5 1'/>
      <body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>)");
  const ImpactTrajectory motion = Rollout(model.get(), State({1, 0.5}), 70, {});
  ASSERT_TRUE(motion.ok()) << motion.steps.back().message;
  EXPECT_TRUE(MatricesNear(motion.ByStart(), BouncedClosedForm(1, 0.5, 0.7, 1, 1).by_start, kRounding));
}

TEST_F(ImpactTest, ModelsAndOptionsThatItDoesNotTakeAreNamed) {
  const ModelPtr ball = Ball("RK4", 0.1);
  const auto with = [&](auto change) {
    ImpactOptions options;
    change(&options);
    ImpactLinearizer linearizer(ball.get(), options);
  };
  EXPECT_ERROR(with([](ImpactOptions* o) { o->restitution = 0; }), ErrorCode::kInvalidArgument, "restitution is 0");
  EXPECT_ERROR(with([](ImpactOptions* o) { o->restitution = 1.1; }), ErrorCode::kInvalidArgument, "restitution is 1.1");
  EXPECT_ERROR(with([](ImpactOptions* o) { o->substeps = 0; }), ErrorCode::kInvalidArgument, "substeps is 0");
  EXPECT_ERROR(with([](ImpactOptions* o) { o->geoms = {"bal"}; }), ErrorCode::kInvalidArgument, "did you mean 'ball'");
  EXPECT_ERROR(ImpactLinearizer(Ball("RK4", 0.1, "adhesion='1'").get()), ErrorCode::kUnsupported, "adhesion");
  const ModelPtr pair = LoadModelFromString(R"(<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1'/>
    <body><freejoint/><geom name='ball' size='.1'/></body></worldbody>
    <contact><pair name='bounce' geom1='floor' geom2='ball'/></contact></mujoco>)");
  ImpactOptions named;
  named.geoms = {"ball"};
  EXPECT_ERROR(ImpactLinearizer(pair.get(), named), ErrorCode::kUnsupported, "'bounce' is an explicit pair");
  EXPECT_ERROR(Rollout(ball.get(), State({1, 0, 0}), 1, {}), ErrorCode::kDimensionMismatch, "x0");
  const DataPtr pushed = MakeData(ball.get());
  pushed->qfrc_applied[0] = std::numeric_limits<double>::quiet_NaN();
  const MatrixXd none(0, 2);
  const auto pushes = [&](const VectorXd& context) { return ImpactRollout(ball.get(), context, State({1, 0}), none); };
  EXPECT_ERROR(pushes(GetContext(ball.get(), pushed.get())), ErrorCode::kInvalidArgument, "qfrc_applied is not finite");
  EXPECT_ERROR(pushes(VectorXd()), ErrorCode::kDimensionMismatch, "context");
  ImpactTrajectory stopped = Rollout(ball.get(), State({0, 0}), 3, {});
  EXPECT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.steps.size(), 1u);
  EXPECT_ERROR(stopped.ByStart(), ErrorCode::kInvalidArgument, "in contact");
}

TEST_F(ImpactTest, NoModelIsAnError) {
  EXPECT_ERROR(ImpactLinearizer(nullptr), ErrorCode::kInvalidArgument, "the model is NULL");
}

}  // namespace
}  // namespace costate
