// Level 3 against closed forms, against mjd_transitionFD where that is right, and where it is not.
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "derivative/step_difference.h"
#include "derivative/step_stencil.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using StepDifferenceTest = support::EngineTest;
using support::BitwiseEqual;
using support::MatricesNear;
using support::MatricesNearRelative;

// centred differences at 6e-6 leave truncation f'''·6e-12 and rounding 2e-16/6e-6
constexpr double kFdTolerance = 1e-9;

LinearizeOptions StepLevel() { return {.level = Level::kStep}; }

StepDerivative At(const mjModel* model, ConstVectorRef x, ConstVectorRef u,
                  const LinearizeOptions& options = StepLevel()) {
  Linearizer linearizer(model, options);
  StepDerivative result;
  linearizer.Linearize(x, u, &result);
  return result;
}

// mass 2 on a spring 30 with damper 4 along a slide, motor with gain 3, step 0.01
std::string Oscillator(const std::string& option) {
  return "<mujoco>" + option +
         R"(<worldbody><body name="body"><joint name="slide" type="slide" axis="1 0 0" stiffness="30"
    damping="4"/><geom size=".1" mass="2"/><site name="site"/></body></worldbody>
    <actuator><general name="force" joint="slide" gainprm="3"/></actuator>
    <sensor><jointpos joint="slide"/><jointvel joint="slide"/><actuatorfrc actuator="force"/>
      <accelerometer site="site"/><e_kinetic/></sensor></mujoco>)";
}
constexpr double kMass = 2, kSpring = 30, kDamper = 4, kGain = 3, kH = 0.01;

TEST_F(StepDifferenceTest, ALinearSystemHasItsClosedForm) {
  // symplectic Euler: v' = v + h a, q' = q + h v', a = (−k q − c v + g u) / m; the implicit damper divides by m + h c
  for (bool implicit : {false, true}) {
    const std::string flag = implicit ? "" : "<flag eulerdamp='disable' gravity='disable'/>";
    const ModelPtr model =
        LoadModelFromString(Oscillator("<option timestep='0.01' gravity='0 0 0'>" + flag + "</option>"));
    const double m = implicit ? kMass + kH * kDamper : kMass;
    MatrixXd dv(1, 3);
    dv << -kH * kSpring / m, 1 - kH * kDamper / m, kH * kGain / m;
    MatrixXd A(2, 2), B(2, 1);
    A << 1 + kH * dv(0), kH * dv(1), dv(0), dv(1);
    B << kH * dv(2), dv(2);

    const VectorXd x = Eigen::Vector2d(0.3, -0.7), u = VectorXd::Constant(1, 0.4);
    const StepDerivative d = At(model.get(), x, u);
    ASSERT_EQ(d.status, StepStatus::kOk);
    EXPECT_TRUE(MatricesNear(d.A, A, kFdTolerance));
    EXPECT_TRUE(MatricesNear(d.B, B, kFdTolerance));

    // sensors at (x, u): position, velocity, actuator force, acceleration, kinetic energy ½ m v²
    MatrixXd C = MatrixXd::Zero(7, 2), D = MatrixXd::Zero(7, 1);
    C.row(0) << 1, 0;
    C.row(1) << 0, 1;
    D(2, 0) = kGain;
    C.row(3) << -kSpring / kMass, -kDamper / kMass;
    D(3, 0) = kGain / kMass;
    C.row(6) << 0, kMass * x[1];
    EXPECT_TRUE(MatricesNear(d.C, C, kFdTolerance * kSpring, SensorNames(model.get())));
    EXPECT_TRUE(MatricesNear(d.D, D, kFdTolerance * kSpring, SensorNames(model.get())));
  }
}

TEST_F(StepDifferenceTest, RungeKuttaOfALinearSystemIsItsTaylorPolynomial) {
  // x' = (I + hF + … + (hF)⁴/24) x + h (I + … + (hF)³/24) G u; mjd_transitionFD refuses this integrator
  const ModelPtr model = LoadModelFromString(Oscillator("<option timestep='0.01' gravity='0 0 0' integrator='RK4'/>"));
  Eigen::Matrix2d F, sum = Eigen::Matrix2d::Zero(), term = Eigen::Matrix2d::Identity();
  F << 0, 1, -kSpring / kMass, -kDamper / kMass;
  for (int k = 1; k <= 4; ++k) {
    sum += kH * term / k;
    term = kH * F * term / k;
  }
  const MatrixXd A = Eigen::Matrix2d::Identity() + F * sum, B = sum * Eigen::Vector2d(0, kGain / kMass);
  const StepDerivative d = At(model.get(), Eigen::Vector2d(0.3, -0.7), VectorXd::Constant(1, 0.4));
  EXPECT_TRUE(MatricesNear(d.A, A, kFdTolerance));
  EXPECT_TRUE(MatricesNear(d.B, B, kFdTolerance));
}

// A pendulum: point mass m at distance l, hinge damper c, motor; explicit Euler in the velocity.
const char* kPendulum = R"(<mujoco><option timestep="0.01"><flag eulerdamp="disable"/></option><worldbody><body>
  <joint name="hinge" axis="0 1 0" damping="0.1"/><geom size=".001" pos="0 0 -.5" mass="1"/></body></worldbody>
  <actuator><motor joint="hinge"/></actuator></mujoco>)";

// exact ∂v'/∂q of kPendulum at angle q
double PendulumVelocityByAngle(const mjModel* model, double q) {
  const double inertia = model->body_inertia[3 + 1] + 0.25;  // about the hinge
  return -0.01 * 9.81 * 0.5 * std::cos(q) / inertia;
}

TEST_F(StepDifferenceTest, CentredDifferencesConvergeAtSecondOrderAndForwardOnesAtFirst) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const VectorXd x = Eigen::Vector2d(0.8, 0.3), u = VectorXd::Zero(1);
  for (bool centered : {false, true}) {
    auto error = [&](double eps) {
      const StepDerivative d = At(model.get(), x, u, {.level = Level::kStep, .centered = centered, .eps = eps});
      return std::abs(d.A(1, 0) - PendulumVelocityByAngle(model.get(), 0.8));
    };
    // three decades are not to be had above the rounding of a forward quotient; two are
    const double order = std::log10(error(1e-1) / error(1e-3)) / 2;
    EXPECT_NEAR(order, centered ? 2 : 1, 0.05);
  }
}

TEST_F(StepDifferenceTest, TheDerivativeOfASensorByAControlHasItsSign) {
  // older engines returned D with the wrong sign from centred differences
  const ModelPtr model = LoadModelFromString(Oscillator("<option timestep='0.01'/>"));
  for (bool centered : {false, true}) {
    const StepDerivative d =
        At(model.get(), Eigen::Vector2d(0, 0), VectorXd::Zero(1), {.level = Level::kStep, .centered = centered});
    EXPECT_NEAR(d.D(2, 0), kGain, 1e-6);
  }
}

// every kind of joint, an activation, tendon, sensors; contact with a floor
std::string Creature(const std::string& option) {
  return "<mujoco>" + option + R"(<worldbody><geom type="plane" size="5 5 .1"/>
    <body name="root" pos="0 0 .12"><freejoint name="root"/><geom type="box" size=".1 .15 .1"/>
      <body pos=".1 0 0"><joint name="ball" type="ball" damping=".05"/><geom type="capsule" fromto="0 0 0 .2 0 .1" size=".03"/>
        <body pos=".2 0 .1"><joint name="hinge" axis="0 1 0" range="-40 60" limited="true" frictionloss=".02"/>
          <geom type="capsule" fromto="0 0 0 .2 0 0" size=".03"/><site name="tip" pos=".2 0 0"/></body></body>
      <body pos="-.1 0 0"><joint name="slide" type="slide" axis="0 0 1" stiffness="50"/><geom size=".04"/></body></body>
    </worldbody>
    <tendon><fixed name="tendon"><joint joint="hinge" coef="1"/><joint joint="slide" coef="2"/></fixed></tendon>
    <actuator><motor joint="hinge" gear="2" ctrlrange="-1 1"/><position joint="slide" kp="20" kv="1"/>
      <general tendon="tendon" dyntype="filterexact" dynprm=".1" gainprm="3"/>
      <general joint="hinge" dyntype="integrator" actrange="-1 1" biastype="affine" gainprm="5" biasprm="0 -5 -.1"/></actuator>
    <sensor><framepos objtype="site" objname="tip"/><frameangvel objtype="site" objname="tip"/><accelerometer site="tip"/>
      <actuatorfrc actuator="servo"/><subtreeangmom body="root"/></sensor></mujoco>)";
}

std::string NamedCreature(const std::string& option) {
  std::string xml = Creature(option);
  xml.replace(xml.find("<position joint"), 15, "<position name=\"servo\" joint");
  return xml;
}

TEST_F(StepDifferenceTest, AgreesWithTheReferenceForEveryIntegratorAndState) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast", "discrete"}) {
    const std::string option =
        std::string("<option timestep='0.004' integrator='") + integrator + "' cone='elliptic'/>";
    const ModelPtr model = LoadModelFromString(NamedCreature(option));
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    for (int state = 0; state < 4; ++state) {
      // at rest in the air, random in the air, at a joint limit, in contact
      mj_resetData(m, data.get());
      if (state == 1) SetState(m, data.get(), support::RandomState(m, 3));
      data->qpos[2] = 1;
      if (state == 2) data->qpos[m->jnt_qposadr[2]] = 1.2;
      if (state == 3) data->qpos[2] = 0.0996;
      const VectorXd u = support::RandomControl(m, 4);
      mj_setState(m, data.get(), u.data(), mjSTATE_CTRL);

      const StepDerivative value = Linearize(m, data.get(), StepLevel());
      ASSERT_EQ(value.status, StepStatus::kOk) << integrator << " " << state;
      const ReferenceDerivative reference = Reference(m, data.get());
      EXPECT_EQ(data->nefc, 0) << "the caller's data is only read";

      // contact is stiff: its third derivative times eps² is what is left
      const DerivativeComparison comparison = Compare(m, value, reference, {.tolerance = state == 3 ? 1e-4 : 1e-6});
      for (const BlockComparison& block : comparison.blocks) {
        EXPECT_TRUE(block.agrees) << integrator << " state " << state << " " << block.name << ": "
                                  << block.worst.row_name << " / " << block.worst.col_name << " " << block.worst.value
                                  << " reference " << block.worst.reference << " error " << block.worst.error;
        EXPECT_GT(block.judged, 0.9 * block.rows * block.cols) << integrator << " " << state << " " << block.name;
      }
    }
  }
}

TEST_F(StepDifferenceTest, NudgesEqualTransitionFdWhereThatIsRight) {
  // a model that the engine's function covers, and the same with a kinetic energy sensor, which sends it to our nudges
  const std::string with = NamedCreature("<option timestep='0.004'/>");
  std::string without = with;
  std::string energy = with;
  energy.replace(energy.find("</sensor>"), 9, "<e_kinetic/></sensor>");
  const ModelPtr plain = LoadModelFromString(without), nudged = LoadModelFromString(energy);
  ASSERT_EQ(WhyNotTransitionFd(plain.get(), true), nullptr);
  ASSERT_NE(WhyNotTransitionFd(nudged.get(), true), nullptr);
  const VectorXd x = support::RandomState(plain.get(), 5), u = support::RandomControl(plain.get(), 6);
  for (bool centered : {false, true}) {
    const LinearizeOptions options{.level = Level::kStep, .centered = centered};
    const StepDerivative a = At(plain.get(), x, u, options), b = At(nudged.get(), x, u, options);
    EXPECT_TRUE(MatricesNearRelative(b.A, a.A, 1e-12));
    EXPECT_TRUE(MatricesNearRelative(b.B, a.B, 1e-12));
    EXPECT_TRUE(MatricesNearRelative(b.C.topRows(a.C.rows()), a.C, 1e-12));
    EXPECT_TRUE(MatricesNearRelative(b.D.topRows(a.D.rows()), a.D, 1e-12));
  }
}

TEST_F(StepDifferenceTest, KineticEnergyIsDifferentiatedThoughTransitionFdKeepsItFixed) {
  const ModelPtr model = LoadModelFromString(Oscillator("<option timestep='0.01'/>"));
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.5;
  std::vector<mjtNum> C(7 * 2);
  mjd_transitionFD(model.get(), data.get(), 1e-6, 1, nullptr, nullptr, C.data(), nullptr);
  EXPECT_EQ(C[6 * 2 + 1], 0) << "the engine is right now: mjd_transitionFD may serve models with this sensor";
  EXPECT_NEAR(Linearize(model.get(), data.get(), StepLevel()).C(6, 1), kMass * 0.5, 1e-8);
}

TEST_F(StepDifferenceTest, SpeculativeContactsMoveWithTheVelocityThoughTransitionFdKeepsThem) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.005"><flag speculative="enable"/></option>
    <worldbody><geom type="box" size="1 1 .01"/><body pos="0 0 .1"><freejoint/><geom size=".02"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[2] = -35;
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_TRUE(Compare(model.get(), Linearize(model.get(), data.get(), StepLevel()), reference).agrees);

  StepDerivative engine = reference.value;
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> A(12, 12);
  mjd_transitionFD(model.get(), data.get(), 1e-6, 1, A.data(), nullptr, nullptr, nullptr);
  engine.A = A;
  EXPECT_FALSE(Compare(model.get(), engine, reference).agrees) << "the engine is right now";
}

TEST_F(StepDifferenceTest, PlasticStateIsRightThoughTransitionFdWritesPastItsBuffers) {
  // The spring force of a step is −k (q − plastic); the step then moves `plastic` so that |q − plastic| ≤ yield. Within
  // one step nothing yields; in the second one the force no longer depends on q when it did.
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
    <joint type="slide" stiffness="100" springyield="0.1"/><geom size=".1" mass="2"/></body></worldbody></mujoco>)");
  ASSERT_GT(model->nplastic, 0);
  const double h = 0.01, a = -h * 100 / 2;  // dv'/dq of one step
  for (bool yields : {false, true}) {
    const VectorXd x = Eigen::Vector2d(yields ? 0.5 : 0.05, 0);
    const StepDerivative one = At(model.get(), x, VectorXd());
    EXPECT_NEAR(one.A(1, 0), a, 1e-8);
    EXPECT_NEAR(one.A(0, 0), 1 + h * a, 1e-8);

    const StepDerivative two = At(model.get(), x, VectorXd(), {.level = Level::kStep, .substeps = 2});
    EXPECT_NEAR(two.A(1, 0), yields ? a : a + a * (1 + h * a), 1e-8) << (yields ? "yielding" : "elastic");
  }
}

TEST_F(StepDifferenceTest, AControlAtItsRangesEdgeHasTheInteriorSlopeAndOutsideZero) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>
    <actuator><motor joint="j" ctrlrange="-1 1"/><motor joint="j" ctrlrange="2 2.000001"/></actuator></mujoco>)");
  auto slope = [&](double u0, double u1) {
    return At(model.get(), VectorXd::Zero(2), Eigen::Vector2d(u0, u1)).B.row(1).eval();
  };
  const Eigen::RowVectorXd inside = slope(0, 2.0000005);
  EXPECT_GT(inside[0], 0);
  EXPECT_NEAR(inside[1], inside[0], 1e-5 * inside[0]) << "a range narrower than the nudge";
  for (double edge : {-1.0, 1.0}) EXPECT_NEAR(slope(edge, 2)[0], inside[0], 1e-8 * inside[0]);
  EXPECT_NEAR(slope(0, 2)[1], inside[0], 1e-5 * inside[0]);
  EXPECT_EQ(slope(1.01, 2)[0], 0);
  EXPECT_EQ(slope(-1.01, 1.9)[1], 0);

  // a disabled clamp clamps nothing
  const ModelPtr free = CopyModel(model.get());
  free->opt.disableflags |= mjDSBL_CLAMPCTRL;
  EXPECT_NEAR(At(free.get(), VectorXd::Zero(2), Eigen::Vector2d(5, 2)).B(1, 0), inside[0], 1e-8 * inside[0]);
}

TEST_F(StepDifferenceTest, AnActivationAtItsLimitHasTheInteriorSlopeAndBeyondIsClamped) {
  // act' = clip(act + h u): centred differences at the limit would give one half
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01"/><worldbody><body><joint name="j"/>
    <geom size=".1"/></body></worldbody><actuator><general joint="j" dyntype="integrator" actrange="-1 1"/></actuator>
    </mujoco>)");
  struct Case {
    double act, u, by_act, by_u;
  };
  for (const Case& c : {Case{0.5, 0.2, 1, 0.01}, Case{1, 0, 1, 0.01}, Case{-1, 0, 1, 0.01}, Case{1, -1, 1, 0.01},
                        Case{1, 1e-6, 0, 0}, Case{1, 1, 0, 0}, Case{-1, -1, 0, 0}, Case{1.5, 0, 0, 0}}) {
    for (bool centered : {true, false}) {
      const StepDerivative d = At(model.get(), Eigen::Vector3d(0, 0, c.act), VectorXd::Constant(1, c.u),
                                  {.level = Level::kStep, .centered = centered});
      EXPECT_NEAR(d.A(2, 2), c.by_act, 1e-9) << "act " << c.act << ", u " << c.u;
      EXPECT_NEAR(d.B(2, 0), c.by_u, 1e-9) << "act " << c.act << ", u " << c.u;
    }
  }
}

TEST_F(StepDifferenceTest, AMuscleAtRestHasTheSlopesOfItsInterior) {
  // excitation and activation are clipped to [0, 1] inside the muscle's dynamics; at rest both sit on the corner
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"/><worldbody><body><joint name="j"/>
    <geom size=".1"/></body></worldbody><actuator><muscle joint="j" lengthrange="-1 1" timeconst=".01 .04"/></actuator></mujoco>)");
  const StepDerivative d = At(model.get(), VectorXd::Zero(3), VectorXd::Zero(1));
  // act' = act + h (u − act) / tau, tau = .01 · 0.5 while activating, .04 / 0.5 while deactivating
  EXPECT_NEAR(d.B(2, 0), 0.002 / (0.01 * 0.5), 1e-6);
  EXPECT_NEAR(d.A(2, 2), 1 - 0.002 / (0.04 / 0.5), 1e-4);
}

TEST_F(StepDifferenceTest, ConvergesTheSolverSoThatAPoorToleranceDoesNoHarm) {
  const ModelPtr model =
      LoadModelFromString(NamedCreature("<option timestep='0.004' tolerance='1e-3' iterations='2'/>"));
  for (const char* solver : {"Newton", "CG", "PGS"}) {
    model->opt.solver = std::string(solver) == "Newton" ? mjSOL_NEWTON
                        : std::string(solver) == "CG"   ? mjSOL_CG
                                                        : mjSOL_PGS;
    const DataPtr data = MakeData(model.get());
    data->qpos[2] = 0.0996;
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    EXPECT_TRUE(Compare(model.get(), Linearize(model.get(), data.get(), StepLevel()), reference).agrees) << solver;
    const StepDerivative raw = Linearize(model.get(), data.get(), {.level = Level::kStep, .converge = false});
    // Newton is there after two iterations at this point; the others are not
    EXPECT_EQ(Compare(model.get(), raw, reference).agrees, std::string(solver) == "Newton") << solver;
  }
}

// models made for speed cut the line search to a few points: Newton's method may then stall short of the minimum
TEST_F(StepDifferenceTest, ConvergesTheSolverThoughItsLineSearchIsCutShort) {
  const auto leg = [](const char* side) {
    return std::string("<body pos='0 ") + side + R"( 0'><joint axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.1" size=".02" contype="0"/>
      <body pos="0 0 -.1"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.1" size=".015" contype="0"/>
        <body pos="0 0 -.1"><joint axis="0 1 0"/><geom type="box" size=".05 .02 .005" pos="0 0 -.01"/></body></body></body>)";
  };
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".002"/>
    <default><joint frictionloss=".1" armature=".03" damping=".5"/><geom conaffinity="0"/></default><worldbody>
    <geom type="plane" size="5 5 .1" conaffinity="1"/><body pos="0 0 .2141"><freejoint/>
      <geom type="box" size=".05 .05 .05" pos="0 0 .05"/>)" +
                                             leg(".05") + leg("-.05") + "</body></worldbody></mujoco>");
  const ModelPtr cut = CopyModel(model.get());
  cut->opt.iterations = 1;
  cut->opt.ls_iterations = 3;
  const DataPtr data = MakeData(model.get());
  const auto expect_same = [&](const MatrixXd& value, const MatrixXd& whole, const std::string& what) {
    EXPECT_LE((value - whole).lpNorm<Eigen::Infinity>(), 1e-6 * whole.lpNorm<Eigen::Infinity>()) << what;
  };
  for (unsigned seed = 0; seed < 8; ++seed) {
    Eigen::Map<VectorXd>(data->qvel, model->nv) = support::Random(seed).Vector(static_cast<int>(model->nv), 0.1);
    ASSERT_EQ((mj_forward(model.get(), data.get()), data->ncon), 8);
    const std::string name = "velocities " + std::to_string(seed);
    for (const Level level : {Level::kAnalytic, Level::kResidual, Level::kStep}) {
      const LinearizeOptions options{.level = level};
      expect_same(Linearize(cut.get(), data.get(), options).A, Linearize(model.get(), data.get(), options).A,
                  name + ", " + ToString(level));
    }
    expect_same(Reference(cut.get(), data.get()).value.A, Reference(model.get(), data.get()).value.A,
                name + ", reference");
  }
}

TEST_F(StepDifferenceTest, ASmallArenaUsesNudgesAndAFullOneIsAStatus) {
  // scratch for mjd_transitionFD does not fit beside contacts; the result is the same
  std::string xml = NamedCreature("<size memory='40K'/><option timestep='0.004'/>");
  const ModelPtr small = LoadModelFromString(xml),
                 large = LoadModelFromString(NamedCreature("<option timestep='0.004'/>"));
  ASSERT_NE(WhyNotTransitionFd(small.get(), true), nullptr);
  const VectorXd x = support::RandomState(small.get(), 7), u = support::RandomControl(small.get(), 8);
  const StepDerivative a = At(small.get(), x, u), b = At(large.get(), x, u);
  ASSERT_EQ(a.status, StepStatus::kOk);
  EXPECT_TRUE(MatricesNearRelative(a.A, b.A, 1e-12));

  // no room for the contacts of a pile: a derivative of a system without them would be worthless
  std::string pile = "<mujoco><size memory='20K'/><worldbody><geom type='plane' size='5 5 .1'/>";
  for (int i = 0; i < 12; ++i) {
    pile += "<body pos='" + std::to_string(i) + " 0 .099'><freejoint/><geom type='box' size='.1 .1 .1'/></body>";
  }
  const ModelPtr full = LoadModelFromString(pile + "</worldbody></mujoco>");
  EXPECT_EQ(At(full.get(), GetState(full.get(), MakeData(full.get()).get()), VectorXd()).status,
            StepStatus::kArenaFull);
  TakeWarnings();
}

// A contact that bends within a tenth of a millimetre: one size of nudges leaves 1e-6 of it.
TEST_F(StepDifferenceTest, AsTheLastResortItExtrapolates) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"><flag speculative="enable"/></option>
    <default><geom solimp="0.5 0.95 0.0003"/></default><worldbody><geom type="plane" size="1 1 .1"/>
      <body pos="0 0 0.09993"><freejoint/><geom size="0.1"/></body></worldbody>
    <sensor><framelinacc objtype="body" objname="world"/><e_potential/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  mj_forward(m, data.get());
  ASSERT_EQ(data->ncon, 1);
  const StepDerivative best = Linearize(m, data.get()), plain = Linearize(m, data.get(), StepLevel());
  ASSERT_EQ(best.coverage.Worst(), Level::kStep);
  const ReferenceDerivative reference = Reference(m, data.get());
  const auto off = [&](const StepDerivative& value) {
    return (value.A - reference.value.A).cwiseAbs().maxCoeff() / reference.value.A.cwiseAbs().maxCoeff();
  };
  EXPECT_LT(off(best), 1e-8);
  EXPECT_GT(off(plain), 3e-7);
  EXPECT_LT((best.C - reference.value.C).cwiseAbs().maxCoeff(), 1e-8);

  // sensors alone, likewise
  Linearizer linearizer(m);
  StepDerivative alone;
  linearizer.LinearizeSensors(GetState(m, data.get()), &alone);
  EXPECT_TRUE(MatricesNear(alone.C, best.C, 1e-8));
}

// The branch of a limited activation is found by a step; products begin at the point all the same.
TEST_F(StepDifferenceTest, AsTheLastResortPullBacksToForcesBeginAtThePoint) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.005"><flag speculative="enable"/></option>
    <worldbody><body><joint name="arm" stiffness="9 3 2"/><geom name="tip" pos=".3 0 0" size=".1"/></body></worldbody>
    <actuator><intvelocity joint="arm" kp="40" actrange="-2 2"/></actuator><sensor><jointvel joint="arm"/><framelinacc objtype="geom" objname="tip"/></sensor>
    </mujoco>)");
  const mjModel* m = model.get();
  Linearizer linearizer(m);
  const VectorXd x = Eigen::Vector3d(0.4, 3, 0.2), u = VectorXd::Constant(1, 7), lambda = Eigen::Vector3d(1, -0.3, 2),
                 sigma = Eigen::Vector4d(0.2, 0.1, -0.4, 0.3);
  StepDerivative matrices;
  linearizer.Linearize(x, u, &matrices);
  ASSERT_EQ(matrices.coverage.Worst(), Level::kStep);
  for (const bool forces : {false, true}) {
    StepVjp vjp;
    linearizer.Vjp(x, u, lambda, sigma, &vjp, forces);
    const VectorXd by_x = matrices.A.transpose() * lambda + matrices.C.transpose() * sigma,
                   by_u = matrices.B.transpose() * lambda + matrices.D.transpose() * sigma;
    EXPECT_TRUE(MatricesNearRelative(vjp.x, by_x, 1e-9)) << forces;
    EXPECT_TRUE(MatricesNearRelative(vjp.u, by_u, 1e-9)) << forces;
  }
}

// Level 1 of the same model without a flag that nothing here depends on is the exact one.
TEST_F(StepDifferenceTest, AsTheLastResortAccelerationsAndForcesAreExtrapolated) {
  for (const char* integrator : {"Euler", "implicit", "RK4"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option timestep='0.004' integrator='") + integrator +
                            R"('><flag speculative="enable"/></option>
      <default><geom solimp="0.5 0.95 0.0003"/></default><worldbody><geom type="plane" size="1 1 .1"/>
        <body pos="0 0 0.09993"><freejoint/><geom size="0.1"/><body pos="0 0.02 .2"><joint name="elbow" axis="1 .3 0" damping=".2"/>
          <geom type="capsule" size=".02 .1" pos=".05 0 .1" mass="0.003"/><site name="tip" pos="0 0 .2"/></body></body>
      </worldbody><actuator><position joint="elbow" kp="3"/></actuator><sensor><accelerometer site="tip"/></sensor></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    data->qvel[4] = 0.7;
    data->qvel[6] = 3;
    mj_forward(m, data.get());
    ASSERT_EQ(data->ncon, 1);
    const VectorXd x = GetState(m, data.get()), u = VectorXd::Constant(1, 0.2);
    VectorXd lambda(14), sigma(3);
    for (int i = 0; i < 14; i++) lambda[i] = std::sin(1 + i);
    sigma << 0.3, -0.2, 0.1;
    AccelerationDerivative acceleration[2];
    StepVjp vjp[2], last[2];
    for (const int exact : {0, 1}) {
      if (exact) model->opt.enableflags &= ~mjENBL_SPECULATIVE;
      Linearizer linearizer(m);
      linearizer.LinearizeAcceleration(x, u, &acceleration[exact]);
      linearizer.Vjp(x, u, lambda, sigma, &vjp[exact], true);
      linearizer.VjpSensors(x, sigma, &last[exact], true);
      const Level level = exact ? Level::kAnalytic : Level::kStep;
      ASSERT_EQ(acceleration[exact].coverage.Worst(), level);
      ASSERT_EQ(vjp[exact].coverage.Worst(), level);
    }
    EXPECT_TRUE(MatricesNearRelative(acceleration[0].qacc, acceleration[1].qacc, 1e-11));
    EXPECT_TRUE(MatricesNearRelative(acceleration[0].x, acceleration[1].x, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(acceleration[0].u, acceleration[1].u, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(acceleration[0].force, acceleration[1].force, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(vjp[0].qfrc, vjp[1].qfrc, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(vjp[0].xfrc, vjp[1].xfrc, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(last[0].qfrc, last[1].qfrc, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(last[0].xfrc, last[1].xfrc, 1e-8));
  }
}

// PGS falls by a part of what is left: its cost falls by less than 1e-20 long before it ends. Where no tendon or
// actuator is in the metric of the discrete integrator its minimum is Newton's.
TEST_F(StepDifferenceTest, PgsEndsWhereItsStepsAreRounding) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.004" integrator="discrete" solver="PGS"/>
    <worldbody><geom type="plane" size="1 1 .1"/>
      <body pos="0 0 .0995"><freejoint/><geom type="box" size=".1 .12 .1" mass="3"/>
        <body pos="0 .25 0"><joint axis="1 0 0" damping=".4" stiffness="20"/><geom type="box" size=".02 .1 .05"/></body></body>
      <body pos=".02 0 .2985"><freejoint/><geom type="box" size=".15 .1 .1" mass="5"/></body></worldbody></mujoco>)");
  mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  for (int i = 0; i < 40; i++) mj_step(m, data.get());
  mj_forward(m, data.get());
  ASSERT_GT(data->ncon, 6);
  const VectorXd x = GetState(m, data.get());
  AccelerationDerivative pgs, newton;
  Linearizer(m).LinearizeAcceleration(x, VectorXd(), &pgs);
  m->opt.solver = mjSOL_NEWTON;
  Linearizer(m).LinearizeAcceleration(x, VectorXd(), &newton);
  ASSERT_EQ(pgs.coverage.Worst(), Level::kStep);
  ASSERT_EQ(newton.coverage.Worst(), Level::kAnalytic);
  EXPECT_TRUE(MatricesNearRelative(pgs.qacc, newton.qacc, 1e-9));
  EXPECT_TRUE(MatricesNearRelative(pgs.x, newton.x, 1e-6));
  EXPECT_TRUE(MatricesNearRelative(pgs.force, newton.force, 1e-6));
}

// Exactly as deep as the impedance bends: deeper it is constant, so that the second derivative jumps and centred
// quotients err by their size, not by its square.
TEST_F(StepDifferenceTest, AsTheLastResortItSeesWhereTheSecondDerivativeJumps) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"><flag speculative="enable"/></option>
    <default><geom solimp="0.5 0.95 0.0009765625"/></default><worldbody><geom type="plane" size="1 1 .1"/>
      <body pos="0 0 0.1240234375"><joint type="slide" axis="0 0 1"/><geom size="0.125"/></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  mj_forward(m, data.get());
  ASSERT_EQ(data->ncon, 1);
  ASSERT_EQ(data->contact[0].dist, -0.0009765625);
  const StepDerivative best = Linearize(m, data.get()), plain = Linearize(m, data.get(), StepLevel());
  ASSERT_EQ(best.coverage.Worst(), Level::kStep);
  const ReferenceDerivative reference = Reference(m, data.get());
  const double scale = reference.value.A.cwiseAbs().maxCoeff();
  EXPECT_LT((best.A - reference.value.A).cwiseAbs().maxCoeff(), 1e-7 * scale);
  EXPECT_GT((plain.A - reference.value.A).cwiseAbs().maxCoeff(), 1e-5 * scale);
}

// Linear: q' = q + h (v + h g u / m). A rounding of q over a nudge of 1e-6 is 1.5e-5 of what the motor does.
TEST_F(StepDifferenceTest, AsTheLastResortItTakesNudgesAboveRounding) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"><flag speculative="enable"/></option>
    <worldbody><body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
    <actuator><motor joint="rail" gear="3"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  constexpr double kExact = 0.002 * 0.002 * 3 / 2;
  for (const double q : {2.7, 3.1, 3.9}) {
    data->qpos[0] = q;
    const StepDerivative best = Linearize(model.get(), data.get());
    ASSERT_EQ(best.coverage.Worst(), Level::kStep);
    EXPECT_NEAR(best.B(0, 0), kExact, 4e-6 * kExact);
  }
}

// Roundings of q' over 3.2e-5 are 1e-2 of what these actuators do. Level 1 of the same model without a flag that nothing
// here depends on is the exact one.
TEST_F(StepDifferenceTest, AsTheLastResortControlsThatMoveLittleAreNudgedFurther) {
  for (const char* integrator : {"Euler", "implicitfast", "RK4"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option timestep='0.002' integrator='") + integrator +
                            R"('><flag speculative="enable"/></option><worldbody>
      <body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="20"/>
        <body><joint name="arm" axis="0 1 0" damping="0.1"/><geom name="tip" size="0.1" pos="0 0 -0.5" mass="10"/>
          <site name="tip" pos="0 0 -0.5"/></body></body></worldbody>
      <actuator><motor joint="rail" gear="0.01"/><damper joint="arm" kv="0.003" ctrlrange="0 2"/>
        <muscle joint="arm" lengthrange="-4 4" force="0.05" ctrlrange="0 1"/>
        <position joint="arm" kp="0.02" ctrlrange="-1 1"/></actuator>
      <sensor><accelerometer site="tip"/><jointactuatorfrc joint="arm"/></sensor></mujoco>)");
    const VectorXd x = (VectorXd(5) << 3.1, 0.7, 0.4, -1.3, 0.4).finished(), u = Eigen::Vector4d(0.3, 1, 0.6, -0.2);
    StepDerivative step[2];
    AccelerationDerivative acceleration[2];
    for (const int exact : {0, 1}) {
      if (exact) model->opt.enableflags &= ~mjENBL_SPECULATIVE;
      Linearizer linearizer(model.get());
      linearizer.Linearize(x, u, &step[exact]);
      linearizer.LinearizeAcceleration(x, u, &acceleration[exact]);
      ASSERT_EQ(step[exact].coverage.Worst(), exact ? Level::kAnalytic : Level::kStep);
    }
    for (int c = 0; c < 4; ++c) {
      SCOPED_TRACE(c);
      EXPECT_TRUE(MatricesNearRelative(step[0].B.col(c).head(2), step[1].B.col(c).head(2), 3e-4));
      EXPECT_TRUE(MatricesNearRelative(step[0].B.col(c).segment(2, 2), step[1].B.col(c).segment(2, 2), 3e-7));
      EXPECT_TRUE(MatricesNearRelative(step[0].D.col(c), step[1].D.col(c), 3e-8));
      EXPECT_TRUE(MatricesNearRelative(acceleration[0].u.col(c), acceleration[1].u.col(c), 3e-8));
    }
  }
}

// A jump that no switch tells, a thousandth of the control away: further nudges agree on another slope.
TEST_F(StepDifferenceTest, AsTheLastResortFurtherNudgesAreTakenForThePieceOfThePointAlone) {
  constexpr double kWeak = 1e-3;
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"/><worldbody>
      <body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
    <actuator><general joint="rail" gaintype="user"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mjcb_act_gain = [](const mjModel*, const mjData* d, int) { return std::abs(d->ctrl[0]) > 1e-3 ? 2 * kWeak : kWeak; };
  StepDifference difference(model.get(), {}, 1);
  StepDerivative best;
  std::string missing;
  difference.Linearize(model.get(), data.get(), false, &best, &missing);
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  mjcb_act_gain = nullptr;
  const Eigen::Vector2d exact = Eigen::Vector2d(0.002, 1) * 0.002 * kWeak / 2;
  EXPECT_TRUE(MatricesNearRelative(best.B, exact, 1e-9));
  EXPECT_TRUE(MatricesNearRelative(reference.value.B, exact, 1e-9));
}

// Turns are read off quaternions to their last digit, whatever their size.
TEST_F(StepDifferenceTest, QuotientsOfTurnsKnowTheSmallestOnes) {
  const ModelPtr model =
      LoadModelFromString("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  const Dims dims(model.get());
  VectorXd from = GetState(model.get(), MakeData(model.get()).get()), to = from;
  to.segment(4, 3) << 1e-16, 2e-16, -3e-16;
  VectorXd column(dims.ndx);
  FineStateQuotient(model.get(), dims, to, from, 1e-6, column);
  EXPECT_TRUE(MatricesNear(column.segment(3, 3), Eigen::Vector3d(2e-10, 4e-10, -6e-10), 1e-22));
}

// A ball that has just touched the floor: nudges beyond its depth lift it off. Level 1 knows the slope of the contact.
TEST_F(StepDifferenceTest, AsTheLastResortItLeavesOutNudgesThatSwitch) {
  for (const double depth : {2e-7, 1.5e-6, 6e-6, 2e-5}) {
    SCOPED_TRACE(depth);
    const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"><flag speculative="enable"/></option>
      <worldbody><geom type="plane" size="1 1 .1"/>
        <body pos="0 0 0.1"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    data->qpos[2] -= depth;
    data->qvel[2] = -0.3;
    const StepDerivative best = Linearize(model.get(), data.get());
    ASSERT_EQ(best.coverage.Worst(), Level::kStep);
    model->opt.enableflags &= ~mjENBL_SPECULATIVE;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 1);
    const StepDerivative exact = Linearize(model.get(), data.get(), {.level = Level::kAnalytic});
    EXPECT_TRUE(MatricesNear(best.A, exact.A, 1e-8 * exact.A.cwiseAbs().maxCoeff()));
  }
}

}  // namespace
}  // namespace costate
