// The judge judged: error bars against closed forms, switches found, noise admitted.
#include <costate/derivative_check.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "derivative/extrapolate.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using ReferenceTest = support::EngineTest;

TEST(Extrapolate, IsExactForTheErrorSeriesThatItAssumes) {
  // centred: f' + a e² + b e⁴; one-sided: f' + a e + b e²
  for (bool centered : {false, true}) {
    double quotients[6];
    for (int k = 0; k < 6; ++k) {
      const double e = std::pow(2.0, -k * (centered ? 2 : 1));
      quotients[k] = 3 + 0.5 * e - 2 * e * e;
    }
    const Extrapolation result = Extrapolate(quotients, 6, centered, 0);
    EXPECT_NEAR(result.value, 3, 1e-13);
    EXPECT_LT(result.error, 1e-2);
  }
}

TEST(Extrapolate, TheBarCoversNoiseThatDoublesAsTheStepHalves) {
  // the error over the bar, for many draws of noise on a function with truncation: rarely above one, never above three
  support::Random random(1);
  int beyond = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    double quotients[6];
    for (int k = 0; k < 6; ++k) {
      const double e = std::pow(2.0, -k);
      quotients[k] = 7 + 1e-5 * e * e + 1e-7 * std::pow(e, 4) + 1e-9 * random.Uniform(-1, 1) / e;
    }
    const Extrapolation result = Extrapolate(quotients, 6, true, 1e-9);
    EXPECT_LT(std::abs(result.value - 7), 3 * result.error);
    EXPECT_LT(result.error, 1e-7) << "covering by being useless";
    beyond += std::abs(result.value - 7) > result.error;
  }
  EXPECT_LT(beyond, 50);
}

TEST(Extrapolate, AJumpGivesABarAsLargeAsTheValue) {
  // a jump of the function: the quotient grows as 1/e
  double quotients[6];
  for (int k = 0; k < 6; ++k) quotients[k] = std::pow(2.0, k);
  const Extrapolation result = Extrapolate(quotients, 6, true, 1e-12);
  EXPECT_GT(3 * result.error, std::abs(result.value));
}

TEST(Extrapolate, AJumpOfTheSecondDerivativeAtThePointIsExtrapolatedToo) {
  // f = |v| v at 0, as quadratic drag: centred quotients are e, the derivative is 0
  double quotients[6];
  for (int k = 0; k < 6; ++k) quotients[k] = std::pow(2.0, -k);
  EXPECT_NEAR(Extrapolate(quotients, 6, true, 0).value, 0, 1e-15);
}

// f = 3 x + J/2 max(0, x − δ)²: beyond δ centred quotients are a line that misses 3 by J δ/2
TEST(Extrapolate, ABendBesideThePointIsWithinItsBar) {
  for (double delta : {0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.02, 0.03}) {
    double quotients[6];
    for (int k = 0; k < 6; ++k) {
      const double e = std::pow(2.0, -k);
      quotients[k] = 3 + 0.25 * 40 * std::pow(std::max(0.0, e - delta), 2) / e;
    }
    const Extrapolation line = Extrapolate(quotients, 6, true, 1e-13);
    const double error = line.bends ? BendError(quotients, 6, line, 1e-13) : line.error;
    EXPECT_LE(std::abs(line.value - 3), 3 * error + 1e-12) << delta;
    if (delta < 1e-5) {
      EXPECT_LT(error, 1e-3) << "covering by being useless";
    }
  }
}

TEST(Extrapolate, AgreementAtLargeSizesThatSmallerOnesLeaveIsNotBelieved) {
  // a bend between the sizes: the large ones see beyond it
  const double bend[6] = {3.858247, 3.858247, 3.858247, 3.8, 3.65, 3.593};
  EXPECT_GT(Extrapolate(bend, 6, true, 1e-12).error, 0.2);
  // noise that was not measured
  const double chance[6] = {1e-11, 1e-11, 0, 4e-11, 0, -3e-11};
  const Extrapolation zero = Extrapolate(chance, 6, true, 0);
  EXPECT_GT(3 * zero.error, std::abs(zero.value));
}

TEST(Extrapolate, AnOutputThatNeverMovesIsZeroToItsDigitsAndOneQuotientSaysNothing) {
  const double zeros[4] = {};
  EXPECT_EQ(Extrapolate(zeros, 4, true, 1e-12).value, 0);
  EXPECT_EQ(Extrapolate(zeros, 4, true, 1e-12).error, 1e-12);
  const double one[1] = {5};
  EXPECT_EQ(Extrapolate(one, 1, true, 0).error, std::numeric_limits<double>::infinity());
}

TEST_F(ReferenceTest, ItsErrorBarCoversTheErrorAgainstAClosedForm) {
  // pendulum: v' = v + h (−m g l sin q − c v + G u) / I, q' = q + h v', angle sensor q, kinetic energy ½ I v²
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01"><flag eulerdamp="disable"/></option>
    <worldbody><body><joint name="j" axis="0 1 0" damping="0.3"/><geom size=".1" pos="0 0 -.5" mass="1"/></body></worldbody>
    <actuator><motor joint="j" gear="2"/></actuator><sensor><jointpos joint="j"/><e_kinetic/></sensor></mujoco>)");
  const double h = 0.01, I = 0.25 + 0.4 * 0.01;
  const DataPtr data = MakeData(model.get());
  support::Random random(2);
  for (int draw = 0; draw < 50; ++draw) {
    const double q = random.Uniform(-10, 10), v = random.Uniform(-5, 5);
    SetState(model.get(), data.get(), Eigen::Vector2d(q, v));
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    MatrixXd A(2, 2), B(2, 1), C(2, 2);
    A.row(1) << -h * 9.81 * 0.5 * std::cos(q) / I, 1 - h * 0.3 / I;
    A.row(0) << 1 + h * A(1, 0), h * A(1, 1);
    B << h * h * 2 / I, h * 2 / I;
    C << 1, 0, 0, I * v;
    auto covered = [](const MatrixXd& exact, const MatrixXd& value, const MatrixXd& bar, double usable) {
      const double scale = exact.cwiseAbs().maxCoeff();
      EXPECT_TRUE((bar.array() <= usable * scale).all()) << bar;
      // the closed form itself is rounded
      EXPECT_TRUE(((exact - value).cwiseAbs().array() <= 3 * bar.array() + 4e-16 * scale).all())
          << exact - value << "\n\n"
          << bar;
    };
    covered(A, reference.value.A, reference.A_error, 1e-8);
    covered(B, reference.value.B, reference.B_error, 1e-8);
    covered(C, reference.value.C, reference.C_error, 1e-8);
    EXPECT_EQ(reference.value.D, MatrixXd::Zero(2, 1));
  }
}

// Roundings of q' over a nudge of 3.2e-5 are larger than all that this motor does to it.
TEST_F(ReferenceTest, JudgesAControlThatMovesLittle) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002"/>
    <worldbody><body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
    <actuator><motor joint="rail" gear="0.001" ctrlrange="-50 50"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  support::Random random(5);
  for (int draw = 0; draw < 20; ++draw) {
    SetState(model.get(), data.get(), Eigen::Vector2d(random.Uniform(-10, 10), random.Uniform(-5, 5)));
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    const Eigen::Vector2d exact = Eigen::Vector2d(0.002, 1) * 0.002 * 0.001 / 2,
                          off = (reference.value.B - exact).cwiseAbs();
    for (int row = 0; row < 2; ++row) {
      EXPECT_LT(reference.B_error(row, 0), 1e-4 * exact[row]);
      EXPECT_LE(off[row], 3 * reference.B_error(row, 0));
    }
  }
}

// A beam that turns about its own middle has no inverse weight there, so that the connect holds it all but rigidly: the
// solver ends before it moves for a nudge of the motor, and that nothing moves is known no better than that.
TEST_F(ReferenceTest, WhatTheSolverLeavesIsWithinTheBar) {
  for (const char* anchor : {"0.5 0 0", "0 0 0.3"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(
            R"(<mujoco><option timestep=".015"/><worldbody><geom type="plane" size="5 5 1" pos="0 0 -1" condim="1"/>
      <body name="anchor"/><body name="beam"><joint name="j" axis="0 1 0"/><geom type="box" size=".2" fromto="0 0 0 0 -2 0"
      contype="0" conaffinity="0"/></body><body pos="4 0 -.801"><freejoint/><geom size=".2"/></body></worldbody>
      <equality><connect body1="anchor" body2="beam" anchor=")") +
        anchor + R"("/></equality><actuator><motor joint="j" gear="500"/></actuator></mujoco>)");
    const DataPtr data = MakeData(model.get());
    for (const double gear : {50, 500, 3000}) {
      model->actuator_gear[0] = gear;
      const StepDerivative value = Linearize(model.get(), data.get());
      EXPECT_GT(value.B(model->nv, 0), 1e-15);
      EXPECT_LT(value.B(model->nv, 0), 1e-12);
      const ReferenceDerivative reference = Reference(model.get(), data.get());
      for (const double tolerance : {1e-4, 1e-6, 1e-8})
        EXPECT_TRUE(Compare(model.get(), value, reference, {.tolerance = tolerance}).agrees) << anchor << gear;
    }
  }
}

// A true error of 1e-7 of a block is no rounding, wherever it is.
TEST_F(ReferenceTest, AnErrorOf1e7IsCaught) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body pos="0 0 .0999"><freejoint/><geom size=".1" mass="1"/><body pos=".1 0 .1"><joint name="j" axis="0 1 0" damping=".1"/>
    <geom type="capsule" size=".03" fromto="0 0 0 .2 0 0" contype="0"/></body></body></worldbody>
    <actuator><motor joint="j"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  const StepDerivative value = Linearize(model.get(), data.get());
  const auto agrees = [&](const StepDerivative& x) {
    return Compare(model.get(), x, reference, {.tolerance = 1e-8}).agrees;
  };
  ASSERT_TRUE(agrees(value));
  const int nv = static_cast<int>(model->nv);
  for (const int row : {nv, 0}) {
    Eigen::Index i, j;
    StepDerivative wrong = value;
    MatrixXd block = value.A.block(row, nv, nv, nv);
    block.cwiseAbs().maxCoeff(&i, &j);
    wrong.A(row + i, nv + j) *= 1 + 1e-7;
    EXPECT_FALSE(agrees(wrong)) << row;
  }
}

// the midpoint of an impedance, where its second derivative jumps, nearer to the point than any nudge: alone, and with
// its mirror image, where slopes forwards and backwards are alike; level 1 is on the point's own side
TEST_F(ReferenceTest, AMidpointBesideThePointIsWithinTheBar) {
  for (const char* body : {"<body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><geom size='.1'/></body>",
                           "<body pos='0 0 .1'><joint type='slide' axis='0 0 1'/><joint axis='0 1 0'/>"
                           "<geom size='.1' pos='.3 0 0'/><geom size='.1' pos='-.3 0 0'/></body>"}) {
    const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom type='plane' size='5 5 .1'/>" +
                                               std::string(body) + "</worldbody></mujoco>");
    const int nv = static_cast<int>(model->nv);
    const DataPtr data = MakeData(model.get());
    for (double beside : {1e-10, 1e-9, 3e-9, -3e-9, 1e-8, -3e-8}) {
      data->qpos[0] = -0.0005 + beside;
      const StepDerivative value = Linearize(model.get(), data.get());
      const ReferenceDerivative reference = Reference(model.get(), data.get());
      for (int i = 0; i < nv; ++i) {
        EXPECT_LE(std::abs(value.A(nv + i, i) - reference.value.A(nv + i, i)),
                  std::max(3 * reference.A_error(nv + i, i), 1e-8 * std::abs(value.A(nv + i, i))))
            << beside << ", dof " << i << " of " << nv;
      }
    }
  }
}

// a ball above a floor
ModelPtr Ball(const std::string& solimp = "") {
  return LoadModelFromString("<mujoco><worldbody><geom type='plane' size='5 5 .1' " + solimp +
                             "/><body pos='0 0 1'><joint name='z' type='slide' axis='0 0 1'/><geom size='.1' " +
                             solimp + "/></body></worldbody></mujoco>");
}

TEST_F(ReferenceTest, ContactOnsetIsNotSmoothAndSaysWhy) {
  const ModelPtr model = Ball();
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = -0.9;  // touching: one nudge finds contact, the other does not
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_EQ(reference.nonsmooth_column, (std::vector<bool>{true, false}));
  EXPECT_EQ(reference.switched[0], "contacts");
  EXPECT_EQ(reference.switched[1], "");
  EXPECT_TRUE(std::isinf(reference.A_error(1, 0)));
}

TEST_F(ReferenceTest, StepSizesThatReachASwitchAreDropped) {
  // 4e-6 above the floor: nudges of 3.2e-5 … 4e-6 touch, the smaller ones do not; in the air dv'/dq = 0
  const ModelPtr model = Ball();
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = -0.9 + 3.9e-6;
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_FALSE(reference.nonsmooth_column[0]);
  EXPECT_EQ(reference.switched[0], "contacts");
  EXPECT_EQ(reference.value.A(1, 0), 0);
  EXPECT_LT(reference.A_error(0, 0), 1e-8);
  EXPECT_NEAR(reference.value.A(0, 0), 1, 3 * reference.A_error(0, 0));
}

// One tendon is a little beside a pin that large nudges of its joint reach: what a longer path leaves in the engine's
// arrays is no switch of the other joint. Nor is a direction of unit length at its sensor's cutoff, which bounds the
// distance.
TEST_F(ReferenceTest, WhatAnotherColumnLeavesIsNoSwitch) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><geom name="pin" type="cylinder" size=".25 1" contype="0" conaffinity="0"/>
    <geom name="post" size=".0625" pos=".6 0 1" contype="0" conaffinity="0"/><body><joint type="slide" axis="0 1 0"/><geom size=".0625" contype="0" conaffinity="0"/><site name="a" pos="-1 .25 0"/><site name="b" pos="1 .25 0"/></body>
    <body pos="0 0 1"><joint axis="0 0 1"/><geom name="arm" size=".0625" pos=".1 0 0" contype="0" conaffinity="0"/></body></worldbody>
    <tendon><spatial stiffness="10"><site site="a"/><geom geom="pin"/><site site="b"/></spatial></tendon>
    <sensor><normal geom1="arm" geom2="post" cutoff="1"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 5e-6;
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_EQ(reference.switched[0], "tendon paths");
  for (int col = 1; col < 4; col++) EXPECT_EQ(reference.switched[col], "") << col;
  for (int col = 0; col < 4; col++) EXPECT_FALSE(reference.nonsmooth_column[col]) << col;
}

TEST_F(ReferenceTest, GoesBelowABendThatIsNarrowerThanItsSizes) {
  // the impedance of a position that is 174 times the joint's bends within 6 micrometres
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body><joint name="a" axis="0 1 0"/><geom size=".1" pos="0 0 -.1"/></body>
    <body><joint name="b" type="slide"/><geom size=".1"/></body></worldbody>
    <equality><joint joint1="a" joint2="b" polycoef="0 174 0 0 0"/></equality></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 4e-4;
  data->qvel[1] = 0.1;
  const StepDerivative value = Linearize(model.get(), data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  const auto error = (value.A - reference.value.A).cwiseAbs().array();
  EXPECT_TRUE((error <= 3 * reference.A_error.array() + 1e-10).all()) << error << "\n\n" << reference.A_error;
  EXPECT_LT(reference.A_error.maxCoeff(), 1e-4 * value.A.cwiseAbs().maxCoeff());
}

TEST_F(ReferenceTest, AClampsEdgeDoesNotHideASwitchOfConstraints) {
  // a motor at the edge of its range holds the joint against its limit with next to no force: less of it, and it lets
  // go
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
    <body><joint name="j" axis="0 1 0" range="-1 0" limited="true"/><geom size=".1" pos="0 0 -.5" mass="1"/></body></worldbody>
    <actuator><motor joint="j" ctrlrange="0 1" gear="3"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 1e-11;
  data->ctrl[0] = 1;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->nefc, 1);
  data->qfrc_applied[0] = -3 - 1e-9;
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_TRUE(reference.nonsmooth_column[2]) << reference.value.B << " +- " << reference.B_error;
  EXPECT_EQ(reference.switched[2], "constraint states");
  data->qfrc_applied[0] = 0;
  EXPECT_FALSE(Reference(model.get(), data.get()).nonsmooth_column[2]);
}

TEST_F(ReferenceTest, ACylinderThatHardlyLeansIsJudgedByNudgesSmallerThanItsLean) {
  // which point of the rim is lowest turns with the lean: nudges that are larger see the other side
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><joint axis="1 0 0"/><joint axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
    <geom type="cylinder" size=".1 .1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 4e-6;
  data->qpos[2] = -1e-4;
  const ReferenceDerivative leaning = Reference(model.get(), data.get());
  EXPECT_EQ(leaning.switched[0], "a cylinder that stands upright");
  EXPECT_EQ(leaning.switched[2], "");
  EXPECT_FALSE(leaning.nonsmooth_column[0]);
  const StepDerivative value = Linearize(model.get(), data.get());
  EXPECT_EQ(value.coverage.Worst(), Level::kAnalytic);
  const auto error = (value.A - leaning.value.A).cwiseAbs().array();
  EXPECT_TRUE((error <= 3 * leaning.A_error.array() + 1e-9).all()) << error << "\n\n" << leaning.A_error;

  // upright there is no lowest point, and a motion along the axis does not make one
  data->qpos[0] = 0;
  const ReferenceDerivative upright = Reference(model.get(), data.get());
  EXPECT_EQ(upright.nonsmooth_column, (std::vector<bool>{true, true, false, false, false, false}));
}

TEST_F(ReferenceTest, ACornerThatNoSwitchTellsIsInTheBar) {
  // a ray hits the ridge of a roof: 1 : 1 up on one side and down on the other, the mean of which no nudge contradicts
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="box" size=".2 .2 .2" euler="0 45 0"/>
    <body pos="0 0 1"><joint type="slide" axis="1 0 0"/><geom size=".01" pos="0 0 .1"/><site name="ray" zaxis="0 0 -1"/></body>
    </worldbody><sensor><rangefinder site="ray"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  EXPECT_GT(Reference(model.get(), data.get()).C_error(0, 0), 0.9);
  for (double q : {-0.05, 0.05}) {
    data->qpos[0] = q;
    const ReferenceDerivative beside = Reference(model.get(), data.get());
    EXPECT_NEAR(beside.value.C(0, 0), q > 0 ? 1 : -1, 1e-9);
    EXPECT_LT(beside.C_error(0, 0), 1e-9);
  }
}

TEST_F(ReferenceTest, CommonTurnsThatMoveAContactOfCurvedSurfacesAreNotJudged) {
  // searches along axes of the world end elsewhere when both geoms turn; between ellipsoids there is none
  struct Pair {
    const char *axis, *first, *second;
    int flag;
    bool moves;
  };
  constexpr char kRound[] = "type='ellipsoid' size='.1 .07 .05'",
                 kOther[] = "type='ellipsoid' size='.06 .1 .08' pos='.07 .04 -.1'";
  for (const Pair& pair :
       {Pair{"0 1 0", kRound, kOther, 0, false}, Pair{"0 1 0", kRound, kOther, mjDSBL_NATIVECCD, false},
        Pair{".85 .86 -.59", "type='capsule' size='.05 .1' euler='-5.28 -21.21 0'",
             "type='ellipsoid' size='.06 .1 .08' pos='.1 .1 -.03' euler='69.87 -41.08 0'", 0, true},
        Pair{"-.2 -.23 -.32", "type='cylinder' size='.05 .1' euler='3.37 -25.27 0'",
             "type='mesh' mesh='tetrahedron' pos='-.09 .09 .09' euler='-65.07 -74.03 0'", mjDSBL_NATIVECCD, true}}) {
    SCOPED_TRACE(std::string(pair.first) + ", " + pair.second);
    const ModelPtr model =
        LoadModelFromString(std::string(R"(<mujoco><asset><mesh name="tetrahedron"
      vertex="-.06 -.05 -.04 .09 -.04 -.05 -.01 .1 -.03 .01 .01 .09"/></asset><worldbody><body><joint axis=")") +
                            pair.axis + "\"/><geom " + pair.first + "/><body><joint axis='1 0 0' pos='0 .3 0'/><geom " +
                            pair.second + "/></body></body></worldbody></mujoco>");
    model->opt.disableflags |= mjDSBL_FILTERPARENT | pair.flag;
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 1);
    EXPECT_EQ(Reference(model.get(), data.get()).nonsmooth_column, (std::vector<bool>{pair.moves, true, false, false}));
  }
}

TEST_F(ReferenceTest, WithLaterPositionsNothingThatMovesCurvedSurfacesIsJudged) {
  // stages of RK4 and later substeps stand elsewhere: velocities and forces move their contacts too
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="ellipsoid" size=".1 .07 .05"/>
    <body><joint name="j" axis="1 0 0" pos="0 .3 0"/><geom type="ellipsoid" size=".06 .1 .08" pos=".07 .04 -.1"/></body></worldbody>
    <actuator><motor joint="j"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  const std::vector<bool> position = {true, false, false}, all = {true, true, true};
  EXPECT_EQ(Reference(model.get(), data.get()).nonsmooth_column, position);
  EXPECT_EQ(Reference(model.get(), data.get(), {.substeps = 2}).nonsmooth_column, all);
  model->opt.integrator = mjINT_RK4;
  EXPECT_EQ(Reference(model.get(), data.get()).nonsmooth_column, all);
  data->qpos[0] = 0.5;
  EXPECT_EQ(Reference(model.get(), data.get()).nonsmooth_column, std::vector<bool>(3, false));
}

TEST_F(ReferenceTest, AnAdhesionByContactsOfCurvedSurfacesIsNotJudged) {
  // the pads do not touch, but lie within their gap, and the collider's facets turn the normal that is pulled along
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body name="pad"><joint axis="0 1 0"/><joint type="slide" axis="1 0 0"/>
    <geom type="ellipsoid" size=".1 .07 .05" gap=".05"/></body>
    <geom type="ellipsoid" size=".06 .1 .08" pos=".07 .04 -.125" gap=".05"/></worldbody>
    <actuator><adhesion body="pad" ctrlrange="0 1" gain="10"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 0.5;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  ASSERT_EQ(data->nefc, 0);
  const std::vector<bool> adhering = Reference(model.get(), data.get()).nonsmooth_column;
  EXPECT_EQ(adhering, (std::vector<bool>{true, true, false, false, false}));
  model->actuator_trntype[0] = mjTRN_JOINT;
  model->actuator_trnid[0] = 0;
  EXPECT_FALSE(Reference(model.get(), data.get()).nonsmooth_column[0]);
}

TEST_F(ReferenceTest, MeasuresNoiseBesideACorner) {
  // floating at rest, one joint exactly at its limit: what falls freely does not turn, whatever its position
  std::string bodies, ends;
  for (int i = 0; i < 12; i++) {
    bodies += "<body pos='.1 .02 0'><joint axis='" + std::to_string(i % 3) + " 1 0'" + (i == 3 ? " range='0 1'" : "") +
              "/><geom type='capsule' size='.03' fromto='0 0 0 .1 .02 0' contype='0'/>";
    ends += "</body>";
  }
  const ModelPtr model =
      LoadModelFromString("<mujoco><compiler angle='radian'/><worldbody><body><freejoint/><geom size='.1'/>" + bodies +
                          ends + "</body></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  const int nv = static_cast<int>(model->nv);
  int judged = 0;
  for (int col = 0; col < nv; col++) {
    if (reference.nonsmooth_column[col]) continue;
    for (int row = 0; row < nv; row++, judged++) {
      EXPECT_LE(std::abs(reference.value.A(nv + row, col)), 3 * reference.A_error(nv + row, col) + 1e-13)
          << row << ' ' << col;
    }
  }
  EXPECT_EQ(judged, nv * (nv - 1));
}

TEST_F(ReferenceTest, FindsEachKindOfSwitch) {
  struct Case {
    const char* what;
    const char* elements;
    double q, v, act, u;
    int col;  // of [dq dv (dact) du]
  };
  const char* kMotor = R"(<motor joint="j" ctrlrange="-5 5" forcelimited="true" forcerange="-1 1"/>)";
  const char* kJoint = R"(<position joint="j" kp="4"/>)";
  const char* kTendon = R"(<motor tendon="t"/></actuator><tendon><fixed name="t" actuatorfrclimited="true"
    actuatorfrcrange="-1 1"><joint joint="j" coef="1"/></fixed></tendon><actuator>)";
  const char* kSlack =
      R"(</actuator><tendon><fixed stiffness="9" springlength="-.2 .1"><joint joint="j" coef="1"/></fixed>
    </tendon><actuator>)";
  const char* kCutoff = R"(</actuator><sensor><jointpos joint="j" cutoff=".5"/></sensor><actuator>)";
  for (const Case& c :
       {Case{"force limits", kMotor, 0.1, 0, 0, 1, 2}, Case{"force limits", kJoint, 0.1, 0, 0, 0.6, 2},
        Case{"constraints", "", 1, 0, 0, 0, 0}, Case{"force limits", kTendon, 0.1, 0, 0, 1, 2},
        Case{"tendon paths", kSlack, 0.1, 0, 0, 0, 0}, Case{"sensor cutoffs", kCutoff, 0.5, 0, 0, 0, 0}}) {
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><worldbody><body><joint name="j" axis="0 1 0"
      range="-2 1" limited="true" actuatorfrclimited="true" actuatorfrcrange="-2 2"/><geom size=".1" pos=".3 0 0"/></body>
      </worldbody><compiler angle="radian"/><actuator>)") +
                                               c.elements + "</actuator></mujoco>");
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = c.q;
    data->qvel[0] = c.v;
    if (model->nu > 0) data->ctrl[0] = c.u;
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    ASSERT_LT(c.col, static_cast<int>(reference.switched.size()));
    EXPECT_TRUE(reference.nonsmooth_column[c.col]) << c.what << c.elements;
    EXPECT_EQ(reference.switched[c.col], c.what) << c.elements;
  }

  // dry friction that is just overcome
  const ModelPtr sliding =
      LoadModelFromString(R"(<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="j" type="slide"
    frictionloss="1"/><geom size=".1"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>)");
  const DataPtr data = MakeData(sliding.get());
  std::string found;
  double lower = 0, upper = 100;
  for (int i = 0; i < 60; ++i) {
    // bisection for the control at which the constraint force reaches the friction loss
    data->ctrl[0] = (lower + upper) / 2;
    mj_forward(sliding.get(), data.get());
    (std::abs(data->qfrc_constraint[0]) < 1 ? lower : upper) = data->ctrl[0];
  }
  data->ctrl[0] = upper;
  mju_zero(data->qacc_warmstart, 1);
  const ReferenceDerivative reference = Reference(sliding.get(), data.get());
  EXPECT_TRUE(reference.nonsmooth_column[2]);
  EXPECT_EQ(reference.switched[2], "constraint states");
}

TEST_F(ReferenceTest, AClampsEdgeIsOneSidedAsInLinearize) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep="0.01"/><worldbody><body><joint name="j" axis="0 1 0"/>
    <geom size=".1" pos=".3 0 0"/></body></worldbody><actuator><muscle joint="j" lengthrange="-1 1"/>
    <general joint="j" dyntype="integrator" actrange="-1 1" ctrlrange="0 1"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->act[1] = 1;  // ctrl 0, both at an edge
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  const DerivativeComparison comparison =
      Compare(model.get(), Linearize(model.get(), data.get(), {.level = Level::kStep}), reference);
  for (const BlockComparison& block : comparison.blocks) {
    EXPECT_TRUE(block.agrees) << block.name << " " << block.worst.row_name << "/" << block.worst.col_name << " "
                              << block.worst.value << " reference " << block.worst.reference;
  }
  EXPECT_TRUE(comparison.nonsmooth_columns.empty()) << comparison.nonsmooth_columns[0];
  EXPECT_NEAR(reference.value.B(3, 1), 0.01, 1e-10);
}

// (A3), (J1) nearer to an edge of its range than the largest nudge a control is nudged to one side only: that says
// nothing where the muscle's kink lies between the point and all nudges, and the slope at the point where small nudges
// stay before it
TEST_F(ReferenceTest, AMusclesKinkNearTheEdgeOfItsControlIsSeen) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>
    <actuator><muscle joint="j" lengthrange="-1 1" timeconst="0.02 0.05"/></actuator></mujoco>)");
  const auto at = [&](double ctrl, double act) {
    const DataPtr data = MakeData(model.get());
    data->ctrl[0] = ctrl;
    data->act[0] = act;
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    if (!reference.nonsmooth_column[3]) {
      const StepDerivative ours = Linearize(model.get(), data.get());
      EXPECT_NEAR(reference.value.B(2, 0), ours.B(2, 0), 1e-7 * ours.B(2, 0)) << ctrl << " " << act;
    }
    return reference.switched[3] + (reference.nonsmooth_column[3] ? ", not judged" : "");
  };
  EXPECT_EQ(at(1 - 2e-5, 1 - 2e-5), "muscles, not judged");
  EXPECT_EQ(at(2e-5, 2e-5), "muscles, not judged");
  EXPECT_EQ(at(1, 1 - 1e-9), "muscles, not judged");
  EXPECT_EQ(at(0, 1e-9), "muscles, not judged");
  EXPECT_EQ(at(1, 1 - 6e-6), "muscles");
  EXPECT_EQ(at(1 - 2e-5, 1 - 3e-5), "muscles");
  EXPECT_EQ(at(1 - 2e-5, 1 - 1e-5), "");
  EXPECT_EQ(at(1 - 2e-5, 0.5), "");
  EXPECT_EQ(at(0, 0), "");
  EXPECT_EQ(at(1, 1), "");
}

TEST_F(ReferenceTest, StopsWhenAskedAndSaysWhatItDidNotReach) {
  const ModelPtr model = Ball();
  const DataPtr data = MakeData(model.get());
  int calls = 0;
  ReferenceOptions options;
  options.progress = [&](int done, int total) {
    EXPECT_EQ(done, ++calls);
    EXPECT_EQ(total, 2);
    return false;
  };
  const ReferenceDerivative reference = Reference(model.get(), data.get(), options);
  EXPECT_FALSE(reference.complete);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(std::isfinite(reference.A_error(0, 0)));
  EXPECT_TRUE(std::isinf(reference.A_error(0, 1)));
}

TEST_F(ReferenceTest, AFewColumnsAreOfAllKinds) {
  std::string joints, motors;
  for (int i = 0; i < 9; i++) {
    joints +=
        "<body pos='" + std::to_string(i) + " 0 0'><joint name='j" + std::to_string(i) + "'/><geom size='.1'/></body>";
    motors += "<general dyntype='filter' dynprm='1' joint='j" + std::to_string(i) + "'/>";
  }
  const ModelPtr model = LoadModelFromString("<mujoco><option gravity='0 0 0'/><worldbody>" + joints +
                                             "</worldbody><actuator>" + motors + "</actuator></mujoco>");
  const DataPtr data = MakeData(model.get());
  ReferenceOptions options;
  options.progress = [](int done, int) { return done < 8; };
  const ReferenceDerivative reference = Reference(model.get(), data.get(), options);
  EXPECT_FALSE(reference.complete);
  const auto known = [](const MatrixXd& error) { return (error.row(0).array() < 1).count(); };
  const long counts[] = {known(reference.A_error.leftCols(9)), known(reference.A_error.middleCols(9, 9)),
                         known(reference.A_error.rightCols(9)), known(reference.B_error)};
  for (long count : counts) EXPECT_GE(count, 1);
  EXPECT_EQ(counts[0] + counts[1] + counts[2] + counts[3], 8);
}

// torque −k θ axis of a limit with range zero: along the axis of the point, and of each nudge
TEST_F(ReferenceTest, TheLimitOfABallAtAngleZeroIsACorner) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="ball" type="ball" range="0 0" limited="true"/>
      <geom size=".1" pos=".2 .1 0"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[1] = 0.1;
  for (double angle : {1e-18, 0.01}) {
    data->qpos[0] = 1;
    data->qpos[1] = angle / 2;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->nefc, 1);
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    for (int i = 0; i < 3; i++) EXPECT_EQ(reference.nonsmooth_column[i], angle < 1e-6) << i;
    if (angle < 1e-6) {
      EXPECT_EQ(reference.switched[1], "limit of a ball joint at angle zero");
    }
    EXPECT_FALSE(reference.nonsmooth_column[4]);
  }
}

// a sphere that slides on the plane at distance 0: RK4's later stages find the contact or not, as rounding has it
TEST_F(ReferenceTest, AContactExactlyAtItsMarginIsACornerOfLaterStages) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option integrator="RK4"/><worldbody><geom type="plane" size="9 9 .1"/>
      <body pos="0 0 .5"><joint type="slide" axis="1 0 0"/><geom size=".5"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.3;
  const ReferenceDerivative reference = Reference(model.get(), data.get());
  EXPECT_TRUE(reference.nonsmooth_column[0]);
  EXPECT_EQ(reference.switched[1], "a contact exactly at its margin");
  model->opt.integrator = mjINT_EULER;
  EXPECT_FALSE(Reference(model.get(), data.get()).nonsmooth_column[0]);
}

// CG ends far from the minimum of stiff rods, and alike at every nudge: Newton's is taken
TEST_F(ReferenceTest, AFlexOfTheDiscreteIntegratorHasTheMinimumOfBothSolvers) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".005" integrator="discrete" solver="CG"/>
    <worldbody><geom type="plane" size="3 3 .1"/>
      <flexcomp name="soft" type="grid" count="2 2 2" spacing=".06 .06 .06" pos="0 0 .035" radius=".01" mass=".3" dim="3">
        <contact selfcollide="none"/><elasticity young="3e3" poisson=".3" damping=".001"/></flexcomp></worldbody></mujoco>)");
  mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  for (int k = 0; k < 40; k++) mj_step(m, data.get());
  mj_forward(m, data.get());
  ASSERT_GE(data->ncon, 4);
  const ReferenceDerivative cg = Reference(m, data.get());
  m->opt.solver = mjSOL_NEWTON;
  EXPECT_TRUE(support::MatricesNearRelative(cg.value.A, Reference(m, data.get()).value.A, 1e-9));
}

TEST_F(ReferenceTest, AStepThatFailsIsAStatusAndBadInputAnError) {
  const ModelPtr model = Ball();
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 1e11;
  EXPECT_EQ(Reference(model.get(), data.get()).value.status, StepStatus::kBadState);
  TakeWarnings();
  data->qvel[0] = std::nan("");
  EXPECT_ERROR(Reference(model.get(), data.get()), ErrorCode::kInvalidArgument, "qvel[z]");
  data->qvel[0] = 0;
  EXPECT_ERROR(Reference(model.get(), data.get(), {.sizes = 1}), ErrorCode::kInvalidArgument, "sizes");
}

}  // namespace
}  // namespace costate
