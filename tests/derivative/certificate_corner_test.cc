// Corners of the step in the state: where a switch is, and that the slopes of the step to both sides tell the same.
#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/convergence.h"
#include "support/engine_test.h"
#include "support/find_switch.h"

namespace costate {
namespace {

using CertificateCornerTest = support::EngineTest;
using support::Find;

// quotients of a converged step along one tangent column, to both sides
struct Quotients {
  VectorXd forward, backward;
  double jump() const { return (forward - backward).cwiseAbs().maxCoeff(); }
};

Quotients StepQuotients(const mjModel* model, const mjData* data, int column) {
  constexpr double kNudge = 1e-7;
  const ModelPtr converged = CopyModel(model);
  converged->opt.tolerance = LeastTolerance(model);
  converged->opt.iterations = 200;
  const mjModel* m = converged.get();
  const VectorXd x = GetState(m, data);
  const auto step = [&](double nudge) {
    const DataPtr at = MakeData(m);
    mj_copyState(m, data, at.get(), mjSTATE_INTEGRATION);
    VectorXd dx = VectorXd::Zero(Dims(m).ndx);
    if (column < dx.size()) dx[column] = nudge;
    else at->ctrl[column - dx.size()] += nudge;
    SetState(m, at.get(), Retract(m, x, dx));
    mj_step(m, at.get());
    return GetState(m, at.get());
  };
  const VectorXd here = step(0);
  return {Difference(m, step(kNudge), here) / kNudge, Difference(m, here, step(-kNudge)) / kNudge};
}

// A switch of that name, at the point or not; and so the label, and the slopes of the step to both sides along the
// column.
void ExpectCorner(const mjModel* model, const mjData* data, const std::string& name, const std::string& next,
                  double distance, int column) {
  const Certificate certificate = Certify(model, data);
  const Switch* found = Find(certificate, name, next);
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->distance, distance, 1e-12);
  const double jump = StepQuotients(model, data, column).jump();
  if (distance == 0) {
    EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
    EXPECT_GT(jump, 1e-3);
  } else {
    EXPECT_EQ(certificate.label, Smoothness::kSmooth);
    EXPECT_LT(jump, 1e-4);
  }
}

// (A3)
TEST_F(CertificateCornerTest, AMuscleSwitchesWhereItsControlIsItsActivation) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody><actuator>
    <muscle name="hard" joint="j" lengthrange="-1 1"/><muscle name="soft" joint="j" lengthrange="-1 1" tausmooth=".2"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 0.75;
  data->act[0] = 0.5;
  const Certificate moving = Certify(model.get(), data.get());
  const Switch* rise = Find(moving, "activation of hard", "rise or fall");
  ASSERT_NE(rise, nullptr);
  EXPECT_NEAR(rise->distance, 0.25, 1e-12);
  EXPECT_EQ(rise->state, "rises");
  EXPECT_EQ(Find(moving, "activation of soft", "rise or fall"), nullptr);
  const Switch* clamp = Find(moving, "ctrl[hard]", "clamp");
  ASSERT_NE(clamp, nullptr);
  EXPECT_NEAR(clamp->distance, 0.25, 1e-12);
  EXPECT_EQ(moving.one_sided, (std::vector<std::string>{"ctrl[soft]"}));

  data->ctrl[1] = 0.25;
  data->act[0] = 0.75;
  const Certificate still = Certify(model.get(), data.get());
  EXPECT_EQ(still.label, Smoothness::kModeCrossing);
  EXPECT_EQ(still.one_sided, (std::vector<std::string>{"activation of hard", "activation of soft"}));
}

// Its time constant goes with the activation within [0, 1], with smoothing and without: on an edge the slope is that
// inside.
// The discrete integrator leaves a tendon exactly at its rest length out of its metric: whatever leaves the length as
// it is does so to rounding, and the step jumps.
TEST_F(CertificateCornerTest, ATendonAtRestJumpsUnderTheDiscreteIntegrator) {
  for (const char* integrator : {"discrete", "implicitfast", "Euler"}) {
    SCOPED_TRACE(integrator);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><option timestep='0.005' integrator='") + integrator + R"('/>
      <worldbody><site name="a" pos=".3 .2 .5"/><body pos=".1 0 .2"><joint type="slide" axis="1 0 0"/><geom size=".05"/>
        <site name="b"/></body></worldbody>
      <tendon><spatial name="cord" stiffness="30"><site site="a"/><site site="b"/></spatial></tendon></mujoco>)");
    const DataPtr data = MakeData(model.get());
    data->qvel[0] = 0.4;
    for (const double q : {0.0, 1e-3}) {
      data->qpos[0] = q;
      mj_forward(model.get(), data.get());
      const bool rests = q == 0 && std::string(integrator) == "discrete";
      const Certificate certificate = Certify(model.get(), data.get());
      EXPECT_EQ(certificate.label, rests ? Smoothness::kModeCrossing : Smoothness::kSmooth) << q;
      EXPECT_EQ(Find(certificate, "spring of cord", "pulls") != nullptr, rests) << q;
      EXPECT_EQ(StepQuotients(model.get(), data.get(), 0).jump() > 1e-3, rests) << q;
    }
  }
}

// (H4) The discrete integrator's metric has the tension of a flex' edge where it pulls alone: a corner where it is none,
// as at the rest pose, once the ends of the edge move apart.
class FlexTensionTest : public CertificateCornerTest {
 protected:
  static ModelPtr Flex(const std::string& integrator, bool solid) {
    const std::string shape = solid ? R"(dim="3" dof="full" count="2 2 2")" : R"(dim="2" count="3 2 1")";
    const std::string shell = solid ? "" : R"(thickness="5e-3" elastic2d="both")";
    return LoadModelFromString("<mujoco><option timestep='.005' integrator='" + integrator +
                               "'/><worldbody><flexcomp name='f' type='grid' " + shape +
                               R"( spacing=".1 .1 .1" radius=".01" mass=".2" pos="0 0 .5"><elasticity young="3e4"
      poisson=".2" damping=".01" )" +
                               shell + R"(/><contact selfcollide="none"/></flexcomp></worldbody></mujoco>)");
  }
  static void Stir(const mjModel* model, double q, double v, mjData* data) {
    mj_resetData(model, data);
    for (int i = 0; i < model->nv; i++) {
      data->qpos[i] += q * std::sin(1 + 2.3 * i);
      data->qvel[i] += v * std::cos(2 + 1.7 * i);
    }
    mj_forward(model, data);
  }
  static const Switch* Tension(const Certificate& certificate) {
    for (const Switch& s : certificate.switches) {
      if (s.name.starts_with("tension of f, edge ")) return &s;
    }
    return nullptr;
  }
  static double LargestJump(const mjModel* model, const mjData* data) {
    double largest = 0;
    for (int column = 0; column < model->nv; column++)
      largest = std::max(largest, StepQuotients(model, data, column).jump());
    return largest;
  }
};

TEST_F(FlexTensionTest, IsACornerAtTheRestPoseOfAFlexThatMoves) {
  for (const bool solid : {true, false}) {
    SCOPED_TRACE(solid);
    const ModelPtr model = Flex("discrete", solid);
    const DataPtr data = MakeData(model.get());
    Stir(model.get(), 0, 0.2, data.get());
    const Certificate moving = Certify(model.get(), data.get());
    EXPECT_EQ(moving.label, Smoothness::kModeCrossing);
    ASSERT_NE(Tension(moving), nullptr);
    EXPECT_EQ(Tension(moving)->distance, 0);
    EXPECT_EQ(Tension(moving)->unit, "m");
    EXPECT_EQ(Tension(moving)->state, "rests");
    EXPECT_GT(LargestJump(model.get(), data.get()), 0.1);
    const ReferenceDerivative reference = Reference(model.get(), data.get(), {.sizes = 4});
    const auto& rough = reference.nonsmooth_column;
    EXPECT_TRUE(std::all_of(rough.begin(), rough.begin() + model->nv, [](bool column) { return column; }));
    EXPECT_EQ(std::count(rough.begin() + model->nv, rough.end(), true), 0);
    EXPECT_STREQ(reference.switched[0].c_str(), "tensions of flexes");

    // its force alone has no corner
    const ModelPtr euler = Flex("Euler", solid);
    Stir(euler.get(), 0, 0.2, data.get());
    EXPECT_EQ(Certify(euler.get(), data.get()).label, Smoothness::kSmooth);
    EXPECT_LT(LargestJump(euler.get(), data.get()), 1e-2);
  }
}

TEST_F(FlexTensionTest, IsNoCornerOfAFlexThatFalls) {
  const ModelPtr model = Flex("discrete", true);
  const DataPtr data = MakeData(model.get());
  Stir(model.get(), 0, 0, data.get());
  const Certificate falling = Certify(model.get(), data.get());
  EXPECT_EQ(falling.label, Smoothness::kSmooth);
  EXPECT_EQ(Tension(falling), nullptr);
  EXPECT_LT(LargestJump(model.get(), data.get()), 1e-3);
}

TEST_F(FlexTensionTest, LeavesADeformedFlexSmooth) {
  constexpr double kWrong = 1e-7;  // of the largest entry, beside three error bars
  for (const bool solid : {true, false}) {
    SCOPED_TRACE(solid);
    const ModelPtr model = Flex("discrete", solid);
    const DataPtr data = MakeData(model.get());
    Stir(model.get(), 0.01, 0.2, data.get());
    const Certificate deformed = Certify(model.get(), data.get());
    EXPECT_EQ(deformed.label, Smoothness::kSmooth);
    ASSERT_NE(Tension(deformed), nullptr);
    EXPECT_GT(Tension(deformed)->distance, 1e-6);
    const StepDerivative value = Linearize(model.get(), data.get());
    const ReferenceDerivative reference = Reference(model.get(), data.get());
    const double scale = value.A.cwiseAbs().maxCoeff();
    int seen = 0;
    for (int column = 0; column < value.A.cols(); column++) {
      if (reference.nonsmooth_column[static_cast<std::size_t>(column)]) continue;
      seen++;
      const auto off = (value.A - reference.value.A).col(column).array().abs();
      EXPECT_LT((off - 3 * reference.A_error.col(column).array()).maxCoeff(), kWrong * scale) << column;
    }
    EXPECT_GT(seen, 3 * model->nv / 2);
  }
}

// As far as every edge has to go, at least: no farther than they have gone in an even strain, and as far as that is large.
TEST_F(FlexTensionTest, IsAsFarAsEdgesHaveToChange) {
  constexpr double kLongest = 0.18, kStrain = 1.3;  // edge [m], length of what the strain makes of a unit vector
  Eigen::Matrix3d strain;
  strain << 1, .3, .2, .3, .5, .4, .2, .4, -.7;
  const ModelPtr model = Flex("discrete", true);
  const DataPtr data = MakeData(model.get());
  double first = 0;
  for (const double size : {1e-3, 1e-4, 1e-7}) {
    SCOPED_TRACE(size);
    Stir(model.get(), 0, 0.2, data.get());
    for (int v = 0; v < model->nflexvert; v++) {
      const int dof = model->body_dofadr[model->flex_vertbodyid[v]];
      Eigen::Map<Eigen::Vector3d>(data->qpos + dof) +=
          size * strain * Eigen::Map<const Eigen::Vector3d>(data->flexvert_xpos + 3 * v);
    }
    mj_forward(model.get(), data.get());
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* tension = Tension(certificate);
    ASSERT_NE(tension, nullptr);
    if (first == 0) first = tension->distance / size;
    EXPECT_LT(tension->distance, size * kStrain * kLongest);
    EXPECT_NEAR(tension->distance / size, first, 0.02 * first);
    EXPECT_EQ(certificate.label, tension->distance > 1e-6 ? Smoothness::kSmooth : Smoothness::kModeCrossing);
  }
}

// A noslip pass sweeps contacts as the engine lists them, and of a cylinder's side on a box rounding decides the order.
TEST_F(CertificateCornerTest, TheOrderOfContactsIsASwitchBehindNoslip) {
  int reordered = 0;
  double jump = 0;
  for (int pose = 0; pose < 40; pose++) {
    SCOPED_TRACE(pose);
    const ModelPtr model = LoadModelFromString(R"(<mujoco>
      <option timestep="0.002" cone="elliptic" noslip_iterations="1" noslip_tolerance="0"/><worldbody>
        <geom type="box" size=".1 .1 .1"/><body pos=".004 .021 .1588" quat="1 1 0 0"><freejoint/>
          <geom type="cylinder" size=".06 .08"/></body></worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    const Eigen::Vector3d turn(0.003 * std::sin(pose), 0.001 * std::cos(3 * pose), 0.002 * pose);
    mju_quatIntegrate(data->qpos + 3, turn.data(), 1);
    data->qvel[0] = 0.02;
    data->qvel[5] = 0.3;
    mj_forward(model.get(), data.get());
    if (data->ncon != 2) continue;

    // by the engine: does a nudge exchange the two?
    bool exchanged = false;
    for (int column = 0; column < 6; column++) {
      for (const double nudge : {1e-6, -1e-6}) {
        const DataPtr at = MakeData(model.get());
        mj_copyState(model.get(), data.get(), at.get(), mjSTATE_INTEGRATION);
        mj_integratePos(model.get(), at->qpos, VectorXd(VectorXd::Unit(6, column)).data(), nudge);
        mj_forward(model.get(), at.get());
        ASSERT_EQ(at->ncon, 2);
        exchanged = exchanged || mju_dist3(at->contact[0].pos, data->contact[1].pos) < 1e-3;
      }
    }
    const Certificate certificate = Certify(model.get(), data.get());
    const auto reorders = [](const Switch& s) { return s.next == "order of contacts behind noslip"; };
    const bool found = std::any_of(certificate.switches.begin(), certificate.switches.end(), reorders);
    const bool other = !found && certificate.label == Smoothness::kModeCrossing;
    EXPECT_TRUE(found == exchanged || other);
    reordered += found;
    for (int column = 0; found && column < 6; column++)
      jump = std::max(jump, StepQuotients(model.get(), data.get(), column).jump());
  }
  EXPECT_GT(reordered, 0);
  EXPECT_GT(jump, 10);
}

// A ball that touches the floor in the second stage of a step or only in the third, and in the last of either.
TEST_F(CertificateCornerTest, SwitchesOfAllStagesOfRungeKuttaAreSeen) {
  for (const char* joint : {"<joint type='slide' axis='0 0 1'/>", "<freejoint/>"}) {
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><option timestep="0.002" integrator="RK4"/>
      <worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 .1">)") +
                                               joint + "<geom size='.1'/></body></worldbody></mujoco>");
    const bool free = model->nv == 6;
    for (const double height : {-5e-7, 3e-7, 1e-4, -1e-4}) {
      SCOPED_TRACE(std::string(joint) + std::to_string(1e6 * height));
      const DataPtr data = MakeData(model.get());
      data->qvel[free ? 2 : 0] = -1.5;
      if (free) data->qvel[4] = 3;
      data->qpos[free ? 2 : 0] += 0.001 * 1.5 + height;
      mj_forward(model.get(), data.get());
      ASSERT_EQ(data->ncon, 0);
      const Certificate certificate = Certify(model.get(), data.get());
      const bool near = std::abs(height) < 1e-6;
      EXPECT_EQ(certificate.label, near ? Smoothness::kModeCrossing : Smoothness::kSmooth);
      if (near) {
        VectorXd next[2];
        for (const int side : {0, 1}) {
          const DataPtr at = MakeData(model.get());
          mj_copyState(model.get(), data.get(), at.get(), mjSTATE_INTEGRATION);
          at->qpos[free ? 2 : 0] += side ? 1e-6 : -1e-6;
          mj_step(model.get(), at.get());
          next[side] = Eigen::Map<VectorXd>(at->qvel, model->nv);
        }
        EXPECT_GT((next[1] - next[0]).norm(), 1e-3);  // it is a jump
      }
    }
  }
}

// Nearest points of parallel geoms, the direction between concentric ones, the end of a ray at an edge: any nudge, or
// any rounding, moves them by more than it is long.
TEST_F(CertificateCornerTest, PlacesThatLeapAreSwitches) {
  struct Case {
    const char *geoms, *sensor;
    double tilt;
    bool leaps;
  };
  const char* capsules = "type='capsule' size='.03 .2'";
  const char* boxes = "type='box' size='.1 .2 .05'";
  const char* balls = "size='.1'";
  const std::string nearest = "geom1='one' geom2='two' cutoff='1'/>", ray = "site='eye'/>";
  for (const Case& c :
       {Case{capsules, "fromto", 0, true}, Case{capsules, "fromto", 0.2, false}, Case{capsules, "distance", 0.2, false},
        Case{boxes, "fromto", 0, true}, Case{boxes, "fromto", 0.2, false}, Case{balls, "normal", 0, false},
        Case{balls, "normal", -1, true}, Case{boxes, "rangefinder", 0, false}, Case{boxes, "rangefinder", -2, true}}) {
    SCOPED_TRACE(std::string(c.geoms) + c.sensor + std::to_string(c.tilt));
    const bool sees = c.sensor[0] == 'r', concentric = c.tilt == -1;
    const ModelPtr model = LoadModelFromString(
        std::string(R"(<mujoco><worldbody><geom name="one" contype="0" )") + c.geoms + "/><site name='eye' pos='" +
        (c.tilt == -2 ? ".1" : ".03") + " .02 1' quat='0 1 0 0'/><body pos='0 0 " +
        (concentric ? "0"
         : sees     ? "-.5"
                    : ".3") +
        "'><freejoint/><geom name='two' contype='0' " + c.geoms + "/></body></worldbody><sensor><" + c.sensor +
        " name='it' " + (sees ? ray : nearest) + "</sensor></mujoco>");
    const DataPtr data = MakeData(model.get());
    if (sees) data->qpos[2] = 0.4;
    const Eigen::Vector3d turn(std::max(c.tilt, 0.0), 0.7 * std::max(c.tilt, 0.0), 0);
    mju_quatIntegrate(data->qpos + 3, turn.data(), 1);
    mj_forward(model.get(), data.get());
    const Certificate certificate = Certify(model.get(), data.get());
    const bool found = Find(certificate, "place of it", "another place") != nullptr;
    const Switch* search = Find(certificate, "nearest points of it", "another end");
    EXPECT_EQ(found || search != nullptr, c.leaps);
    EXPECT_EQ(certificate.label, c.leaps ? Smoothness::kModeCrossing : Smoothness::kSmooth);
  }
}

TEST_F(CertificateCornerTest, AMuscleAtRestOrFullIsOneSidedInItsActivation) {
  for (const char* smoothing : {"0", ".2"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody><actuator>
      <muscle name="m" joint="j" lengthrange="-1 1" tausmooth=")") +
        smoothing + R"("/></actuator></mujoco>)");
    for (const double act : {0.0, 0.01, 0.99, 1.0}) {
      SCOPED_TRACE(std::string(smoothing) + " at " + std::to_string(act));
      const DataPtr data = MakeData(model.get());
      data->ctrl[0] = 0.5;
      data->act[0] = act;
      ExpectCorner(model.get(), data.get(), "activation of m", "clamp", std::min(act, 1 - act), 2);
      const bool edge = act == 0 || act == 1;
      EXPECT_EQ(Certify(model.get(), data.get()).one_sided,
                edge ? std::vector<std::string>{"activation of m"} : std::vector<std::string>{});
      const Quotients slopes = StepQuotients(model.get(), data.get(), 2);
      EXPECT_NEAR(Linearize(model.get(), data.get()).A(2, 2), act < 0.5 ? slopes.forward[2] : slopes.backward[2], 1e-5);
    }
  }
}

// Without excess the time constant does not matter, so a smoothed muscle at rest has no corner by its activation; by a
// control between 0 and 1 alone it is excited, whatever ctrlrange is.
TEST_F(CertificateCornerTest, AMuscleAtRestHasNoCornerButItsControls) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><body><joint name="j" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><muscle name="m" joint="j" lengthrange="-1 1" tausmooth="0.2" ctrllimited="true" ctrlrange="-1 2"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double ctrl : {-0.25, 0.0, 0.125, 1.0, 1.5}) {
    SCOPED_TRACE(ctrl);
    data->ctrl[0] = ctrl;
    data->act[0] = 0.5;
    ExpectCorner(model.get(), data.get(), "ctrl[m]", "clamp", std::min(std::abs(ctrl), std::abs(1 - ctrl)), 3);
    data->act[0] = std::clamp(ctrl, 0.0, 1.0);
    const Certificate rest = Certify(model.get(), data.get());
    const bool edge = ctrl == 0 || ctrl == 1;
    EXPECT_EQ(rest.label, edge ? Smoothness::kModeCrossing : Smoothness::kSmooth);
    EXPECT_EQ(rest.one_sided, edge ? std::vector<std::string>{"ctrl[m]"} : std::vector<std::string>{});
    EXPECT_LT(StepQuotients(model.get(), data.get(), 2).jump(), 1e-4);
  }
}

// a range of the activation that ends with the muscle's own names it once
TEST_F(CertificateCornerTest, AnActivationOnTwoEdgesIsNamedOnce) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody><actuator><general name="m" joint="j"
      dyntype="muscle" dynprm=".01 .04" gaintype="muscle" biastype="muscle" gainprm=".75 1.05 9 200 .5 1.6 1.5 1.3 1.2"
      biasprm=".75 1.05 9 200 .5 1.6 1.5 1.3 1.2" lengthrange="-1 1" actlimited="true" actrange="0 1" ctrllimited="true"
      ctrlrange="0 1"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  EXPECT_EQ(Certify(model.get(), data.get()).one_sided, (std::vector<std::string>{"ctrl[m]", "activation of m"}));
}

// The force by velocity is of pieces whose slopes meet at corners: -1, 0 and fvmax - 1, times 1.5 here. Integrators
// that have its slope in their matrix feel them.
TEST_F(CertificateCornerTest, AMuscleBendsWhereItsForceByVelocityDoes) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option timestep=".01" gravity="3 0 0"/><worldbody><body><joint name="j" type="slide"
      axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody><actuator>
    <muscle name="m" joint="j" lengthrange="-.15 .15" force="50" vmax="1.5" fvmax="1.2"/></actuator></mujoco>)");
  for (const int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_EULER}) {
    model->opt.integrator = integrator;
    for (const double corner : {-1.5, 0.0, 0.3}) {
      for (const double off : {-0.02, 0.0, 0.02}) {
        SCOPED_TRACE(std::to_string(integrator) + ": " + std::to_string(corner) + " and " + std::to_string(off));
        const DataPtr data = MakeData(model.get());
        data->qvel[0] = corner + off;
        data->act[0] = 0.5;
        data->ctrl[0] = 0.75;
        if (integrator != mjINT_EULER) {
          ExpectCorner(model.get(), data.get(), "velocity of m", "another piece", std::abs(off), 1);
        } else {
          const Certificate certificate = Certify(model.get(), data.get());
          EXPECT_EQ(certificate.label, Smoothness::kSmooth);
          EXPECT_EQ(Find(certificate, "velocity of m", "another piece"), nullptr);
          EXPECT_LT(StepQuotients(model.get(), data.get(), 1).jump(), 1e-4);
        }
      }
    }
  }
}

// A straight impedance has a corner at its width, and of an equality also without error; one of power 2 has none.
TEST_F(CertificateCornerTest, AStraightImpedanceHasCorners) {
  struct Case {
    const char *bodies, *rest, *name;
    std::vector<std::pair<double, double>> points;  // coordinate, distance from a corner
  };
  const char* hinge = R"(<body name="b"><joint name="j" axis="0 1 0" limited="false" range="-1 .25"/>
      <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass="1" contype="0" conaffinity="0"/></body>)";
  std::string limited = hinge;
  limited.replace(limited.find("false"), 5, "true\" solimplimit=\"SOLIMP");
  const char* ball = R"(<geom name="floor" type="plane" size="1 1 .1" solimp="SOLIMP"/><body pos="0 0 .1">
      <joint name="z" type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0"/>
      <geom name="ball" size=".1" mass="1" solimp="SOLIMP"/></body>)";
  const Case cases[] = {
      {limited.c_str(), "", "limit of j", {{0.3125, 0}, {0.30, 0.0125}, {0.32, 0.0075}}},
      {hinge,
       R"(<joint joint1="j" solimp="SOLIMP"/>)",
       "equality of equality 0",
       {{0, 0}, {0.0625, 0}, {0.01, 0.01}, {-0.06, 0.0025}, {0.07, 0.0075}}},
      {hinge,
       R"(<connect body1="b" anchor=".5 0 0" solimp="SOLIMP"/>)",
       "equality of equality 0",
       {{0, 0}, {2 * std::asin(0.0625), 0}, {2 * std::asin(0.01), 0.01}}},
      {ball, "", "contact of floor and ball", {{-0.0625, 0}, {-0.06, 0.0025}, {-0.065, 0.0025}}},
  };
  for (const Case& c : cases) {
    for (const char* power : {"1", "2"}) {
      std::string xml = std::string("<mujoco><compiler angle=\"radian\"/><worldbody>") + c.bodies +
                        "</worldbody><equality>" + c.rest + "</equality></mujoco>";
      const std::string mark = "SOLIMP";
      for (size_t at; (at = xml.find(mark)) != std::string::npos;)
        xml.replace(at, mark.size(), std::string(".5 .9 .0625 .5 ") + power);
      const ModelPtr model = LoadModelFromString(xml);
      for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
        model->opt.cone = cone;
        for (const double slide : {-1.0, 1.0}) {  // to each side another edge of a pyramid pushes
          for (const auto& [q, distance] : c.points) {
            SCOPED_TRACE(std::string(c.name) + " at " + std::to_string(q) + ", power " + power + ", cone " +
                         std::to_string(cone) + ", slides " + std::to_string(slide));
            const DataPtr data = MakeData(model.get());
            data->qpos[0] = q;
            if (model->nv > 1) data->qvel[1] = slide;
            const std::string name = std::string("impedance of ") + c.name;
            if (*power == '1') {
              ExpectCorner(model.get(), data.get(), name, "corner", distance, 0);
            } else {
              const Certificate certificate = Certify(model.get(), data.get());
              EXPECT_EQ(Find(certificate, name, "corner"), nullptr);
              EXPECT_EQ(certificate.label, Smoothness::kSmooth);
            }
          }
        }
      }
    }
  }
}

// a straight impedance of a tendon's limit, a weld and a contact without friction; of one with a margin from there
TEST_F(CertificateCornerTest, EveryRowWithAStraightImpedanceHasItsCorner) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0 0 0"/><worldbody>
    <geom name="floor" type="plane" size="1 1 1" condim="1" solimp=".5 .9 .0625 .5 1" margin=".125"/>
    <body><joint name="j" type="slide" axis="1 0 0"/><geom size=".1" contype="0" conaffinity="0"/></body>
    <body name="w"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" contype="0" conaffinity="0"/></body>
    <body pos="0 0 .1"><joint name="z" type="slide" axis="0 0 1"/><geom name="ball" size=".1" condim="1" solimp=".5 .9 .0625 .5 1"/></body>
    </worldbody><tendon><fixed name="t" limited="true" range="-1 .25" solimplimit=".5 .9 .0625 .5 1"><joint joint="j" coef="1"/></fixed></tendon>
    <equality><weld name="fix" body1="w" solimp=".5 .9 .0625 .5 1"/></equality></mujoco>)");
  const DataPtr data = MakeData(model.get());
  struct Case {
    const char* name;
    int joint;
    double q, distance;
    bool full;
  };
  for (const Case& c :
       {Case{"limit of t", 0, 0.3, 0.0125, false}, Case{"limit of t", 0, 0.375, 0.0625, true},
        Case{"equality of fix", 1, 0.01, 0.01, false}, Case{"equality of fix", 1, 0.05, 0.0125, false},
        Case{"equality of fix", 1, 0.125, 0.0625, true}, Case{"contact of floor and ball", 2, 0.0725, 0.01, false},
        Case{"contact of floor and ball", 2, 0.05, 0.0125, true}}) {
    SCOPED_TRACE(std::string(c.name) + " " + std::to_string(c.q));
    mju_zero(data->qpos, 3);
    data->qpos[2] = 1;
    data->qpos[c.joint] = c.q;
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* corner = Find(certificate, std::string("impedance of ") + c.name, "corner");
    ASSERT_NE(corner, nullptr);
    EXPECT_NEAR(corner->distance, c.distance, 1e-12);
    EXPECT_EQ(corner->state, c.full ? "full" : "rises");
  }
}

// Geoms begin to feel each other at their margin: their own, that of their pair or that of the flag, nearer or farther
// than what is looked for.
TEST_F(CertificateCornerTest, TheOnsetIsWhereTheMarginIs) {
  struct Case {
    const char *option, *floor, *ball, *pair;
    double margin;
  };
  const char* kMargin = R"(margin=".0625")";
  for (const Case& c :
       {Case{"", "", "", "", 0}, Case{"", kMargin, "", "", 0.0625}, Case{"", kMargin, kMargin, "", 0.125},
        Case{"", kMargin, "", R"(<contact><pair geom1="ball" geom2="floor" margin=".03125"/></contact>)", 0.03125},
        Case{"", kMargin, "", R"(<contact><pair geom1="floor" geom2="ball" margin=".03125"/></contact>)", 0.03125},
        Case{R"(<option o_margin=".125"><flag override="enable"/></option>)", "", "", "", 0.125}}) {
    SCOPED_TRACE(c.margin);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco>") + c.option +
                            R"(<worldbody><geom name="floor" type="plane" size="1 1 .1" )" + c.floor + R"(/>
      <body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1" )" +
                            c.ball + "/></body></worldbody>" + c.pair + "</mujoco>");
    const DataPtr data = MakeData(model.get());
    const auto rows = [&](double height) {
      data->qpos[0] = height;
      mj_forward(model.get(), data.get());
      return data->nefc;
    };
    EXPECT_GT(rows(c.margin - 1e-9), 0);
    EXPECT_EQ(rows(c.margin + 1e-9), 0);
    for (const double above : {-0.01, 0.0, 0.01, 0.019}) {
      data->qpos[0] = c.margin + above;
      const Certificate certificate = Certify(model.get(), data.get());
      const auto next = [&](const char* name) {
        return std::find_if(certificate.switches.begin(), certificate.switches.end(),
                            [&](const Switch& s) { return s.next == name; });
      };
      const auto onset = next("onset");
      ASSERT_NE(onset, certificate.switches.end());
      EXPECT_NEAR(onset->distance, std::abs(above), 1e-12);
      // a pyramid that pushes has edges that may end
      EXPECT_EQ(next("stick or slip") != certificate.switches.end(), above < 0);
      EXPECT_EQ(certificate.label, above == 0 ? Smoothness::kModeCrossing : Smoothness::kSmooth);
    }
    data->qpos[0] = c.margin + 0.021;
    for (const Switch& s : Certify(model.get(), data.get()).switches) EXPECT_NE(s.next, "onset");
  }
}

// within the margins of both ends of its range a joint has two limits: while one is reached the other is as far as it
// is
TEST_F(CertificateCornerTest, TheOtherSideOfALimitIsListedToo) {
  for (const bool tendon : {false, true}) {
    SCOPED_TRACE(tendon);
    const std::string limit = R"(limited="true" range="0 .1" margin=".06")";
    const ModelPtr model =
        LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j" type="slide" )" + (tendon ? "" : limit) +
                            R"(/><geom size=".1"/></body></worldbody><tendon><fixed name="j" )" +
                            (tendon ? limit : "") + R"(><joint joint="j" coef="1"/></fixed></tendon></mujoco>)");
    const DataPtr data = MakeData(model.get());
    const auto rows = [&](double q) {
      data->qpos[0] = q;
      mj_forward(model.get(), data.get());
      return data->nefc;
    };
    EXPECT_EQ(rows(0.04 - 1e-9), 1);
    EXPECT_EQ(rows(0.04 + 1e-9), 2);
    data->qpos[0] = 0.039;
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* side = Find(certificate, "limit of j", "limit");  // the nearest
    ASSERT_NE(side, nullptr);
    EXPECT_EQ(side->state, "inside");
    EXPECT_NEAR(side->distance, 0.001, 1e-12);
    data->qpos[0] = 0.04;
    EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kModeCrossing);
    data->qpos[0] = 0.05;  // both
    for (const Switch& s : Certify(model.get(), data.get()).switches) EXPECT_NE(s.state, "inside");
  }

  // the turn of a ball joint has one limit
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><body><joint name="j" type="ball" limited="true" range="0 30"/><geom size=".1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const mjtNum turn[3] = {0, 0, 0.6};
  mj_integratePos(model.get(), data->qpos, turn, 1);
  const Certificate certificate = Certify(model.get(), data.get());
  EXPECT_NE(Find(certificate, "limit of j", "release"), nullptr);
  for (const Switch& s : certificate.switches) EXPECT_NE(s.state, "inside");
}

// So has drag in a fluid, of a box and of an ellipsoid, where the integrator's matrix has it. Directions in which
// nothing moves are not listed.
TEST_F(CertificateCornerTest, DragInAFluidTurnsAtRest) {
  for (const char* shape : {"none", "ellipsoid"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(
            R"(<mujoco><option timestep=".01" gravity="5 0 0" density="1000" wind=".25 0 0"/><worldbody><body name="part">
      <joint name="slide" type="slide" axis="1 0 0"/><geom name="part" type="box" size=".1 .2 .05" mass="1" fluidshape=")") +
        shape + R"("/></body></worldbody></mujoco>)");
    for (const int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_EULER, mjINT_RK4}) {
      model->opt.integrator = integrator;
      const bool felt = integrator == mjINT_IMPLICIT || integrator == mjINT_IMPLICITFAST;
      for (const double speed : {0.0, 0.01}) {
        SCOPED_TRACE(std::string(shape) + ", integrator " + std::to_string(integrator) + ", " + std::to_string(speed));
        const DataPtr data = MakeData(model.get());
        data->qvel[0] = 0.25 + speed;  // the wind's and more
        if (felt) {
          ExpectCorner(model.get(), data.get(), "fluid of part", "reversal", speed, 1);
        } else {
          EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kSmooth);
          EXPECT_LT(StepQuotients(model.get(), data.get(), 1).jump(), 1e-4);
        }
        const Certificate certificate = Certify(model.get(), data.get());
        EXPECT_EQ(std::count_if(certificate.switches.begin(), certificate.switches.end(),
                                [](const Switch& s) { return s.next == "reversal"; }),
                  felt);
      }
    }
  }
}

// (K13) A ball, or a capsule's end, that slides over the border of a box' face, the end of a capsule's side, a
// cylinder's rim: its normal turns beyond it alone.
TEST_F(CertificateCornerTest, APlaceWhereAnotherFeatureTakesOverIsACorner) {
  const char *ball = "size='.1'", *upright = "type='capsule' size='.05 .05'",
             *across = "type='capsule' size='.05 .2' euler='90 0 0'";
  struct Scene {
    const char *first, *second;
    double height;  // of the second, a millimetre deep
  };
  const Scene scenes[] = {{"type='box' size='.1 .2 .05'", ball, 0.149},
                          {"type='capsule' size='.1 .1' euler='0 90 0'", ball, 0.199},
                          {"type='cylinder' size='.1 .05'", ball, 0.149},
                          {"type='box' size='.1 .2 .05'", upright, 0.149},
                          {"type='capsule' size='.05 .1' euler='0 90 0'", across, 0.099}};
  for (const Scene& scene : scenes) {
    for (double inside : {0.0, 0.003}) {
      SCOPED_TRACE(std::string(scene.first) + " and " + scene.second + ", inside by " + std::to_string(inside));
      const ModelPtr model = LoadModelFromString(std::string("<mujoco><worldbody><geom name='one' ") + scene.first +
                                                 "/><body><joint type='slide' axis='1 0 0'/>" +
                                                 "<joint type='slide' axis='0 0 1'/><geom name='two' " + scene.second +
                                                 "/></body></worldbody></mujoco>");
      const DataPtr data = MakeData(model.get());
      data->qpos[0] = 0.1 - inside;
      data->qpos[1] = scene.height;
      mj_forward(model.get(), data.get());
      ASSERT_EQ(data->ncon, 1);
      const bool swapped = data->contact[0].geom[0] == 1;
      ExpectCorner(model.get(), data.get(), swapped ? "contact of two and one" : "contact of one and two",
                   "another feature", inside, 0);
    }
  }
}

// (K13), (G8) Capsules of one length, side by side: where a turn brings their ends, and how the normal turns, is
// another on either side.
TEST_F(CertificateCornerTest, CapsulesThatEndTogetherAreOnACorner) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <geom name="one" type="capsule" size=".05 .1" euler="90 0 0"/><body pos="0 0 .099" euler="90 0 0">
      <joint axis="1 2 3" pos=".1 .05 .02"/><geom name="two" type="capsule" size=".05 .1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 2);
  ExpectCorner(model.get(), data.get(), "contact of one and two", "another feature", 0, 0);
}

// (K14) A capsule that stands on a plane and slides across the edges of its pyramid: they turn to where it tilts. A
// cone does not feel them, nor do edges that push all.
TEST_F(CertificateCornerTest, ACapsuleThatStandsTiltsToOtherTangents) {
  const auto standing = [](const char* cone, const char* joint) {
    return LoadModelFromString(std::string("<mujoco><option cone='") + cone +
                               "'/><worldbody><geom name='floor' type='plane' size='1 1 .1'/><body pos='0 0 .199'>" +
                               joint + "<geom name='post' type='capsule' size='.1 .1'/></body></worldbody></mujoco>");
  };
  const char *falls = "<joint axis='1 .4 .2' pos='.05 .2 .1'/>", *stands = "<freejoint/>";
  const ModelPtr pyramid = standing("pyramidal", falls);
  ExpectCorner(pyramid.get(), MakeData(pyramid.get()).get(), "contact of floor and post", "another tangent", 0, 0);
  for (const ModelPtr& model : {standing("elliptic", falls), standing("pyramidal", stands)}) {
    const Certificate certificate = Certify(model.get(), MakeData(model.get()).get());
    EXPECT_EQ(Find(certificate, "contact of floor and post", "another tangent"), nullptr);
  }
}

}  // namespace
}  // namespace costate
