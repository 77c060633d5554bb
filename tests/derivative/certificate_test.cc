#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "support/engine_test.h"

namespace costate {
namespace {

using CertificateTest = support::EngineTest;

const Switch* Find(const Certificate& certificate, const std::string& name, const std::string& next) {
  for (const Switch& s : certificate.switches) {
    if (s.name == name && s.next == next) return &s;
  }
  return nullptr;
}

// quotients of a converged step along one tangent column, to both sides
struct Quotients {
  VectorXd forward, backward;
  double jump() const { return (forward - backward).cwiseAbs().maxCoeff(); }
};

Quotients StepQuotients(const mjModel* model, const mjData* data, int column) {
  constexpr double kNudge = 1e-7;
  const ModelPtr converged = CopyModel(model);
  converged->opt.tolerance = 0;
  converged->opt.iterations = 200;
  const mjModel* m = converged.get();
  const VectorXd x = GetState(m, data);
  const auto step = [&](double nudge) {
    const DataPtr at = MakeData(m);
    mj_copyState(m, data, at.get(), mjSTATE_INTEGRATION);
    VectorXd dx = VectorXd::Zero(Dims(m).ndx);
    dx[column] = nudge;
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

// a slide with a limit and a clamped motor, a ball over the floor
constexpr char kScene[] = R"(
<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0" range="-.5 .5" limited="true" frictionloss=".3"/>
    <geom size=".05" contype="0" conaffinity="0" mass="1"/></body>
  <body pos="0 1 .1"><joint name="z" type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body></worldbody>
  <actuator><motor name="push" joint="slide" ctrlrange="-1 1" ctrllimited="true" forcerange="-5 5" forcelimited="true"/></actuator>
</mujoco>)";

// every distance is that of the model's own numbers
TEST_F(CertificateTest, DistancesAreThoseToLimitClampAndFloor) {
  const ModelPtr model = LoadModelFromString(kScene);
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.4;
  data->qpos[1] = 0.003;
  data->ctrl[0] = 0.75;
  const Certificate certificate = Certify(model.get(), data.get());
  ASSERT_TRUE(certificate.valid);
  EXPECT_EQ(certificate.label, Smoothness::kSmooth);
  EXPECT_TRUE(certificate.one_sided.empty());
  const Switch* limit = Find(certificate, "limit of slide", "limit");
  ASSERT_NE(limit, nullptr);
  EXPECT_NEAR(limit->distance, 0.1, 1e-12);
  EXPECT_EQ(limit->unit, "m");
  EXPECT_FALSE(limit->active);
  const Switch* onset = Find(certificate, "contact of floor and ball", "onset");
  ASSERT_NE(onset, nullptr);
  EXPECT_NEAR(onset->distance, 0.003, 1e-12);
  const Switch* clamp = Find(certificate, "ctrl[push]", "clamp");
  ASSERT_NE(clamp, nullptr);
  EXPECT_NEAR(clamp->distance, 0.25, 1e-12);
  EXPECT_NEAR(Find(certificate, "force of push", "clamp")->distance, 4.25, 1e-12);
  EXPECT_NE(Find(certificate, "friction loss of slide", "stick or slip"), nullptr);
}

// what the iterative collider finds of curved surfaces is a staircase: such a contact that pushes is always beside a
// step
TEST_F(CertificateTest, AContactOfCurvedSurfacesIsOnAFacet) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="one" type="ellipsoid" size=".1 .07 .05"/>
    <body><joint axis="1 0 0" pos="0 .3 0"/><geom name="two" type="ellipsoid" size=".06 .1 .08" pos=".07 .04 -.1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const auto facet = [&](Smoothness label) {
    const Certificate certificate = Certify(model.get(), data.get());
    EXPECT_EQ(certificate.label, label);
    return Find(certificate, "contact of one and two", "another facet") != nullptr;
  };
  EXPECT_TRUE(facet(Smoothness::kModeCrossing));
  data->qvel[0] = 50;  // apart: it touches, and pushes nothing
  EXPECT_FALSE(facet(Smoothness::kSmooth));
  data->qvel[0] = 0;
  data->qpos[0] = 0.5;
  EXPECT_FALSE(facet(Smoothness::kSmooth));

  // on a plane the contact is exact
  model->geom_type[0] = mjGEOM_PLANE;
  data->qpos[0] = 0;
  EXPECT_FALSE(facet(Smoothness::kSmooth));
}

// a cylinder on a box is clipped while it stands or lies nearly flat; on its rim its contact is searched, although its
// normal is that of the face
TEST_F(CertificateTest, ACylinderOnItsRimIsOnAFacet) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><geom name="one" type="box" size="1 1 .1" pos="0 0 -.1"/>
    <body><joint type="slide" axis="0 0 1"/><joint axis="1 0 0"/><geom name="two" type="cylinder" size=".1 .05" margin="0.01"/></body>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const auto facet = [&](double tilt, int contacts) {
    data->qpos[0] = .1 * std::sin(tilt) + .05 * std::cos(tilt) - 0.001;
    data->qpos[1] = tilt;
    mj_forward(model.get(), data.get());
    EXPECT_EQ(data->ncon, contacts);
    return Find(Certify(model.get(), data.get()), "contact of two and one", "another facet") != nullptr;
  };
  EXPECT_FALSE(facet(0.01, 4));
  EXPECT_FALSE(facet(mjPI / 2 - 0.01, 2));
  for (double tilt : {0.1, 0.3, 1.0, 1.4}) EXPECT_TRUE(facet(tilt, 1)) << tilt;
}

// A corner of a mesh right above the corner of a triangle: the normal is that of the face, of an edge or of neither, to
// which side it is moved, and as the angle is not a right one, no motion is the sum of others.
TEST_F(CertificateTest, AContactWhoseMotionsDoNotAddUpIsOnACorner) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset>
      <mesh name="prism" vertex="0 0 0 1 0 0 .5 1 0 0 0 -1 1 0 -1 .5 1 -1"/>
      <mesh name="tip" vertex="0 0 0 .3 .1 .4 -.3 .1 .4 0 -.3 .5"/></asset><worldbody>
    <geom name="one" type="mesh" mesh="prism" margin="0.01"/>
    <body><freejoint/><geom name="two" type="mesh" mesh="tip"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const auto corner = [&](double x, double y) {
    data->qpos[0] = x;
    data->qpos[1] = y;
    data->qpos[2] = 0.001;
    mj_forward(model.get(), data.get());
    EXPECT_EQ(data->ncon, 1);
    return Find(Certify(model.get(), data.get()), "contact of one and two", "another side of it") != nullptr;
  };
  EXPECT_TRUE(corner(0, 0));
  EXPECT_FALSE(corner(0.3, 0.2));
  EXPECT_FALSE(corner(-0.001, -0.001));
}

// on a switch the point is mode-crossing; the derivative at a clamp's edge is one-sided and named
TEST_F(CertificateTest, OnAClampItIsModeCrossingAndOneSided) {
  const ModelPtr model = LoadModelFromString(kScene);
  const DataPtr data = MakeData(model.get());
  data->qpos[1] = 1;
  data->ctrl[0] = 1;
  Certificate certificate = Certify(model.get(), data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  EXPECT_EQ(certificate.one_sided, std::vector<std::string>{"ctrl[push]"});

  // touching exactly
  data->ctrl[0] = 0;
  data->qpos[1] = 0;
  certificate = Certify(model.get(), data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);

  // within a larger reach
  data->qpos[1] = 0.003;
  EXPECT_EQ(Certify(model.get(), data.get(), {.reach = 0.01}).label, Smoothness::kModeCrossing);
}

// the distance to release and to slip: a row switches where y crosses it, seen by pushing up to just before and just
// after
TEST_F(CertificateTest, DistancesOfContactsAreWhereTheyRelease) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1" condim="1"/>
      <body pos="0 0 .099"><joint name="z" type="slide" axis="0 0 1"/><geom name="ball" size=".1" mass="2" condim="1"/></body>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const Certificate rest = Certify(model.get(), data.get());
  const Switch* release = Find(rest, "contact of floor and ball", "release");
  ASSERT_NE(release, nullptr);
  EXPECT_TRUE(release->active);
  EXPECT_EQ(release->state, "pushes");
  EXPECT_EQ(Find(rest, "contact of floor and ball", "onset")->unit, "m");
  EXPECT_NEAR(Find(rest, "contact of floor and ball", "onset")->distance, 1e-3, 1e-9);

  // y = a − aref; free of the floor a = f/m − g, so an upward force of m (aref + g) ends the contact's force
  const auto with_force = [&](double force) {
    data->qfrc_applied[0] = force;
    const Certificate certificate = Certify(model.get(), data.get());
    return Find(certificate, "contact of floor and ball", "release")->active;
  };
  mj_forward(model.get(), data.get());
  const double aref = data->efc_aref[0], edge = 2 * (aref + 9.81);
  EXPECT_TRUE(with_force(edge - 1e-3));
  EXPECT_FALSE(with_force(edge + 1e-3));
}

// (A3)
TEST_F(CertificateTest, AMuscleSwitchesWhereItsControlIsItsActivation) {
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
  EXPECT_EQ(moving.one_sided, (std::vector<std::string>{"ctrl[soft]", "activation of soft"}));

  data->ctrl[1] = 0.25;
  data->act[0] = 0.75;
  const Certificate still = Certify(model.get(), data.get());
  EXPECT_EQ(still.label, Smoothness::kModeCrossing);
  EXPECT_EQ(still.one_sided, (std::vector<std::string>{"activation of hard", "activation of soft"}));
}

// Its time constant goes with the activation within [0, 1], with smoothing and without: on an edge the slope is that
// inside.
TEST_F(CertificateTest, AMuscleAtRestOrFullIsOneSidedInItsActivation) {
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

// a range of the activation that ends with the muscle's own names it once
TEST_F(CertificateTest, AnActivationOnTwoEdgesIsNamedOnce) {
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
TEST_F(CertificateTest, AMuscleBendsWhereItsForceByVelocityDoes) {
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
TEST_F(CertificateTest, AStraightImpedanceHasCorners) {
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

// Geoms begin to feel each other at their margin: their own, that of their pair or that of the flag, nearer or farther
// than what is looked for.
TEST_F(CertificateTest, TheOnsetIsWhereTheMarginIs) {
  struct Case {
    const char *option, *floor, *pair;
    double margin;
  };
  for (const Case& c : {Case{"", "", "", 0}, Case{"", R"(margin=".0625")", "", 0.0625},
                        Case{"", R"(margin=".0625")",
                             R"(<contact><pair geom1="ball" geom2="floor" margin=".03125"/></contact>)", 0.03125},
                        Case{R"(<option o_margin=".125"><flag override="enable"/></option>)", "", "", 0.125}}) {
    SCOPED_TRACE(c.margin);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco>") + c.option +
                            R"(<worldbody><geom name="floor" type="plane" size="1 1 .1" )" + c.floor + R"(/>
      <body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body></worldbody>)" +
                            c.pair + "</mujoco>");
    const DataPtr data = MakeData(model.get());
    const auto rows = [&](double height) {
      data->qpos[0] = height;
      mj_forward(model.get(), data.get());
      return data->nefc;
    };
    EXPECT_GT(rows(c.margin - 1e-9), 0);
    EXPECT_EQ(rows(c.margin + 1e-9), 0);
    for (const double above : {0.0, 0.01, 0.019}) {
      data->qpos[0] = c.margin + above;
      const Certificate certificate = Certify(model.get(), data.get());
      const auto onset = std::find_if(certificate.switches.begin(), certificate.switches.end(),
                                      [](const Switch& s) { return s.next == "onset"; });
      ASSERT_NE(onset, certificate.switches.end());
      EXPECT_NEAR(onset->distance, above, 1e-12);
      EXPECT_EQ(certificate.label, above == 0 ? Smoothness::kModeCrossing : Smoothness::kSmooth);
    }
    data->qpos[0] = c.margin + 0.021;
    for (const Switch& s : Certify(model.get(), data.get()).switches) EXPECT_NE(s.next, "onset");
  }
}

// within the margins of both ends of its range a joint has two limits: while one is reached the other is as far as it
// is
TEST_F(CertificateTest, TheOtherSideOfALimitIsListedToo) {
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

// A sensor of the strongest contact reads another one where two are as strong: the distance is what their forces differ
// by, and only its own numbers are not judged there.
TEST_F(CertificateTest, ASensorSwitchesWhereTwoContactsAreAlike) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1" condim="1"/>
    <body pos="0 0 .099"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="2" condim="1"/></body>
    <body pos="1 0 .099"><joint type="slide" axis="0 0 1"/><geom size=".1" mass="2" condim="1"/></body></worldbody>
    <sensor><contact name="most" geom2="floor" reduce="maxforce" data="force"/></sensor></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  data->qpos[1] = -1e-5;
  Certificate certificate = Certify(m, data.get());
  EXPECT_EQ(certificate.label, Smoothness::kSmooth);
  mj_forward(m, data.get());
  const Switch* choice = Find(certificate, "choice of most", "another contact");
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->unit, "N");
  EXPECT_NEAR(choice->distance, data->efc_force[1] - data->efc_force[0], 1e-9);
  EXPECT_GT(choice->distance, 1e-3);
  EXPECT_TRUE(Reference(m, data.get()).C_error.allFinite());

  data->qpos[1] = 0;
  certificate = Certify(m, data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  EXPECT_EQ(Find(certificate, "choice of most", "another contact")->distance, 0);
  const ReferenceDerivative reference = Reference(m, data.get());
  EXPECT_EQ(std::count(reference.nonsmooth_column.begin(), reference.nonsmooth_column.end(), true), 0);
  EXPECT_TRUE(reference.A_error.allFinite());
  EXPECT_FALSE(std::isfinite(reference.C_error(0, 0)));
  EXPECT_TRUE(Compare(m, Linearize(m, data.get()), reference).agrees);
}

// a sheet over the floor, and touching it exactly
TEST_F(CertificateTest, AFlexTouchesLikeAGeom) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
    <flexcomp name="sheet" type="grid" dim="2" count="2 2 1" spacing=".25 .25 .25" pos="0 0 .0625" radius=".03125"><edge equality="true"/></flexcomp>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const Certificate above = Certify(model.get(), data.get(), {.proximity = 0.1});
  EXPECT_EQ(above.label, Smoothness::kSmooth);
  const Switch* onset = Find(above, "contact of floor and sheet", "onset");
  ASSERT_NE(onset, nullptr);
  EXPECT_NEAR(onset->distance, 0.03125, 1e-9);
  for (int i = 2; i < model->nq; i += 3) data->qpos[i] = -0.03125;
  const Certificate touching = Certify(model.get(), data.get());
  EXPECT_EQ(touching.label, Smoothness::kModeCrossing);
  for (int i = 2; i < model->nq; i += 3) data->qpos[i] = -0.0322265625;
  const Certificate pressed = Certify(model.get(), data.get());
  onset = Find(pressed, "contact of floor and sheet", "onset");
  ASSERT_NE(onset, nullptr);
  EXPECT_NEAR(onset->distance, 0.0009765625, 1e-9);
  EXPECT_TRUE(onset->active);
}

// A box deep in a height field: the engine's search ends at another of its prisms with every nudge, so that the place
// of the contact jumps
TEST_F(CertificateTest, AContactThatJumpsIsOnASwitch) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset>
      <hfield name="hill" nrow="3" ncol="3" size="1 1 .1 .1" elevation="0 1 0  1 0 1  0 1 0"/></asset><worldbody>
    <geom name="hill" type="hfield" hfield="hill"/>
    <body pos="0 0 .1"><joint name="ball" type="ball"/><geom name="box" type="box" size=".12 .05 .09" pos=".01 .02 .01"/></body></worldbody></mujoco>)");
  for (const int k : {1, 4, 7}) {
    SCOPED_TRACE(k);
    const DataPtr data = MakeData(model.get());
    const mjtNum turn[3] = {std::sin(1.7 * k + 1), std::sin(2.3 * k + 2), std::sin(3.1 * k)};
    mj_integratePos(model.get(), data->qpos, turn, 1);
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* place = Find(certificate, "contact of hill and box", "another place");
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(place->distance, 0);
    EXPECT_TRUE(place->active);
    EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  }
}

// Quadratic damping at rest: M' = M + h (b + 2 c |v|) has two slopes there, and so has v' = v + h M a / M', h = 0.01.
// Their mean is that of v alone; an integrator that is explicit in it has no corner.
TEST_F(CertificateTest, AQuadraticDamperMayTurnAtRest) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
    <body><joint name="slide" type="slide" damping="2 30"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="slide"/></actuator></mujoco>)");
  for (const bool implicit : {true, false}) {
    if (!implicit) model->opt.disableflags |= mjDSBL_EULERDAMP;
    for (const double velocity : {0.0, 1e-3}) {
      SCOPED_TRACE(velocity);
      const DataPtr data = MakeData(model.get());
      data->ctrl[0] = 5;
      data->qvel[0] = velocity;
      const Certificate certificate = Certify(model.get(), data.get());
      const Switch* reversal = Find(certificate, "damping of slide", "reversal");
      EXPECT_EQ(reversal != nullptr, implicit);
      if (!implicit) continue;
      EXPECT_EQ(reversal->distance, velocity);
      EXPECT_EQ(certificate.label, velocity == 0 ? Smoothness::kModeCrossing : Smoothness::kSmooth);
      if (velocity != 0) continue;
      const double h = 0.01, damped = 1 + h * 2;
      EXPECT_NEAR(Linearize(model.get(), data.get()).A(1, 1), 1 - h * 2 / damped, 1e-12);
    }
  }
}

// So has drag in a fluid, of a box and of an ellipsoid, where the integrator's matrix has it. Directions in which
// nothing moves are not listed.
TEST_F(CertificateTest, DragInAFluidTurnsAtRest) {
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

// through the middle of a sphere a tendon may go around it on any side
TEST_F(CertificateTest, ATendonThroughTheMiddleOfASphereMayTurn) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><geom name="ball" size=".25" contype="0" conaffinity="0"/>
    <site name="a" pos="-1 0 0"/><body pos="1 0 0"><joint type="slide" axis="0 1 0"/><geom size=".0625" contype="0" conaffinity="0"/><site name="b"/></body>
    </worldbody><tendon><spatial name="t" stiffness="10" springlength="1"><site site="a"/><geom geom="ball"/><site site="b"/></spatial></tendon></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const Certificate straight = Certify(model.get(), data.get());
  EXPECT_EQ(straight.label, Smoothness::kModeCrossing);
  EXPECT_TRUE(std::any_of(straight.switches.begin(), straight.switches.end(),
                          [](const Switch& s) { return s.next == "another side"; }));
  data->qpos[0] = 0.01;
  EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kSmooth);
}

// An upright cylinder on a box: the engine keeps four of the corners of its cap, and rounding decides which of many
// alike. On a plane any of its rim is the lowest. A box' corners have places of their own.
TEST_F(CertificateTest, ACylinderOnABoxStandsOnCornersThatRoundingChooses) {
  for (const auto& [floor, shape, jumps] :
       {std::tuple("box\" size=\"1 1 .1", "cylinder", true), std::tuple("plane\" size=\"1 1 .1", "cylinder", true),
        std::tuple("box\" size=\"1 1 .1", "box", false)}) {
    SCOPED_TRACE(std::string(floor) + " under " + shape);
    const ModelPtr model = LoadModelFromString(
        std::string(R"(<mujoco><worldbody><geom name="floor" pos=".05 .02 -.1" type=")") + floor + R"("/>
      <body pos=".013 .017 .0799" euler="0 0 20"><freejoint/><geom name="puck" type=")" +
        shape + R"(" size=".06 .08 .08"/></body></worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    if (std::string(floor).find("plane") == 0) model->geom_pos[2] = data->qpos[2] - 0.0799;
    for (int k = 0; k < 200; k++) mj_step(model.get(), data.get());
    ASSERT_GT(data->ncon, 2);
    const Switch* place = nullptr;
    const Certificate certificate = Certify(model.get(), data.get());
    for (const Switch& s : certificate.switches) {
      if (s.next == "another place") place = &s;
    }
    ASSERT_EQ(place != nullptr, jumps);
    if (!jumps) continue;
    EXPECT_EQ(place->distance, 0);
    EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  }
}

// A ball that hardly touches: nudges end the contact, they do not move it
TEST_F(CertificateTest, AContactThatBeginsDoesNotJump) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
    <body pos="0 0 .1"><joint name="z" type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = -1e-8;
  const Certificate certificate = Certify(model.get(), data.get());
  EXPECT_NE(Find(certificate, "contact of floor and ball", "onset"), nullptr);
  EXPECT_EQ(Find(certificate, "contact of floor and ball", "another place"), nullptr);
}

// The line from site to site moves by exactly the distance, and the engine's path is another one: outside, from within
// and around a side site, of a sphere and a cylinder across
TEST_F(CertificateTest, ATendonIsAsFarFromWrappingAsItsPathSays) {
  for (const char* type : {"sphere", "cylinder"}) {
    for (const char* side : {"", "above", "within"}) {
      const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><worldbody><geom name="pin" type=")") + type +
                                                 R"(" size=".25 1" contype="0" conaffinity="0"/>
        <site name="above" pos=".05 .5 0"/><site name="within" pos=".02 .03 .01"/><body><joint type="slide" axis="0 1 0"/>
        <geom size=".0625" contype="0" conaffinity="0"/><site name="a" pos="-1 0 0"/><site name="b" pos="1 .1 0"/></body></worldbody>
        <tendon><spatial name="t" stiffness="10"><site site="a"/><geom geom="pin")" +
                                                 (*side ? " sidesite=\"" + std::string(side) + "\"" : "") +
                                                 R"(/><site site="b"/></spatial></tendon></mujoco>)");
      const DataPtr data = MakeData(model.get());
      for (const double y : {-0.45, -0.1, 0.1, 0.45}) {
        SCOPED_TRACE(std::string(type) + " " + side + " at " + std::to_string(y));
        const auto points = [&](double q) {
          data->qpos[0] = q;
          mj_kinematics(model.get(), data.get());
          mj_tendon(model.get(), data.get());
          return data->ten_wrapnum[0];
        };
        const int here = points(y);
        const Certificate certificate = Certify(model.get(), data.get());
        const Switch* wrap = Find(certificate, "path of t at pin", here == 4 ? "straight" : "wraps");
        ASSERT_NE(wrap, nullptr);
        EXPECT_EQ(wrap->state, here == 4 ? "wraps" : "straight");

        // the line leans by 1 : 20; where the path changes along the slide
        double way = mjMAXVAL;
        for (const int sign : {-1, 1}) {
          double near = 0, far = 0;
          while (far < 1.5 && points(y + sign * far) == here) near = far, far += 0.01;
          if (far >= 1.5) continue;
          for (int k = 0; k < 50; k++) (points(y + sign * (near + far) / 2) == here ? near : far) = (near + far) / 2;
          way = std::min(way, near);
        }
        const double lean = std::cos(std::atan(0.05));
        if (*side == 'a' && y < 0) {
          // not along the slide: to the edge of the circle on the line through the centre across the direction of the
          // site
          const Eigen::Vector2d nearest = (y + 0.05) * lean * Eigen::Vector2d(-0.05, 1).normalized(),
                                up = Eigen::Vector2d(0.05, 0.5).normalized();
          const Eigen::Vector2d along(up[1], -up[0]), edge = along * (nearest.dot(along) > 0 ? 0.25 : -0.25);
          EXPECT_NEAR(wrap->distance, (edge - nearest).norm(), 1e-12);
          EXPECT_LE(wrap->distance, way);
        } else {
          EXPECT_NEAR(wrap->distance, way * lean, 1e-12);
        }
      }
    }
  }
}

// along the pin's axis its line is one point across
TEST_F(CertificateTest, ATendonAlongItsPinIsAsFarAsItsSites) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><geom name="pin" type="cylinder" size=".25 1" contype="0" conaffinity="0"/>
    <site name="a" pos="1 0 -.5"/><body><joint type="slide" axis="0 0 1"/><geom size=".0625" contype="0" conaffinity="0"/><site name="b" pos="1 0 .5"/></body></worldbody>
    <tendon><spatial name="t" stiffness="10"><site site="a"/><geom geom="pin"/><site site="b"/></spatial></tendon></mujoco>)");
  const DataPtr data = MakeData(model.get());
  const Certificate certificate = Certify(model.get(), data.get());
  const Switch* wrap = Find(certificate, "path of t at pin", "wraps");
  ASSERT_NE(wrap, nullptr);
  EXPECT_NEAR(wrap->distance, 0.75, 1e-12);
}

TEST_F(CertificateTest, ASlackTendonBeginsToPullAtItsRange) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j" type="slide"/><geom size=".1"/></body></worldbody>
    <tendon><fixed name="t" stiffness="10" springlength="-.25 .5"><joint joint="j" coef="1"/></fixed></tendon></mujoco>)");
  for (const double q : {-0.375, -0.125, 0.0, 0.375, 0.625}) {
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = q;
    const Certificate certificate = Certify(model.get(), data.get());
    const bool slack = q > -0.25 && q < 0.5;
    const Switch* end = Find(certificate, "spring of t", slack ? "pulls" : "slack");
    ASSERT_NE(end, nullptr);
    EXPECT_NEAR(end->distance, std::min(std::abs(q + 0.25), std::abs(q - 0.5)), 1e-15);
  }
}

// Dry friction of a light slide: it slips where the motor's force is loss / d, d = 0.9 at rest. A nudge of the control
// is enough although the acceleration, of which its distance is, is far from there.
TEST_F(CertificateTest, ALightBodySlipsUnderANudge) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="j" type="slide" frictionloss=".3"/>
    <geom size=".01" mass="1e-5"/></body></worldbody><actuator><motor name="push" joint="j"/></actuator></mujoco>)");
  for (const double room : {4e-8, 1e-5}) {
    SCOPED_TRACE(room);
    const DataPtr data = MakeData(model.get());
    data->ctrl[0] = 0.3 / 0.9 - room;
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* slip = Find(certificate, "friction loss of j", "stick or slip");
    ASSERT_NE(slip, nullptr);
    EXPECT_NEAR(slip->distance, room / 1e-4, 1e-5);
    const bool near = room < CertifyOptions().reach;
    const Switch* nudge = Find(certificate, "ctrl[push]", "constraint states");
    ASSERT_EQ(nudge != nullptr, near);
    EXPECT_EQ(certificate.label, near ? Smoothness::kModeCrossing : Smoothness::kSmooth);
    EXPECT_EQ(Reference(model.get(), data.get()).nonsmooth_column[2], near);
    EXPECT_TRUE(!near || nudge->unit == "of a nudge");
    EXPECT_EQ(Find(Certify(model.get(), data.get(), {.reach = 0}), "ctrl[push]", "constraint states"), nullptr);
  }
}

// what two motors pull at a tendon together is held at its limit; a sensor holds its cutoff
TEST_F(CertificateTest, TendonsForcesAndSensorsValuesAreFarFromWhereTheyAreHeld) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint name="j" type="slide"/><geom size=".1"/></body></worldbody>
    <tendon><fixed name="t" actuatorfrclimited="true" actuatorfrcrange="-1 1"><joint joint="j" coef="1"/></fixed></tendon>
    <actuator><motor name="a" tendon="t"/><motor name="b" tendon="t"/></actuator>
    <sensor><jointpos name="place" joint="j" cutoff=".5"/></sensor></mujoco>)");
  for (const bool held : {false, true}) {
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = held ? -0.75 : -0.375;
    data->ctrl[0] = 0.5;
    data->ctrl[1] = held ? 1 : 0.25;
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch *force = Find(certificate, "actuator force of t", "clamp"),
                 *value = Find(certificate, "value of place", "cutoff");
    ASSERT_NE(force, nullptr);
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(force->active, held);
    EXPECT_EQ(value->active, held);
    if (held) continue;
    EXPECT_NEAR(force->distance, 0.25, 1e-11);
    EXPECT_EQ(value->distance, 0.125);
  }
}

// where the model lets its solver end early, its own acceleration is told beside the one the derivative holds for
TEST_F(CertificateTest, ASolverThatEndsEarlyIsNotWhereTheDerivativeIs) {
  const ModelPtr model = LoadModelFromString(R"(
<mujoco><option solver="PGS" iterations="2" tolerance="0" noslip_iterations="3"/>
  <worldbody><geom type="plane" size="1 1 .1"/>
    <body name="box" pos="0 0 .099" euler="3 4 0"><freejoint name="box"/><geom type="box" size=".2 .1 .1"/></body></worldbody>
</mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.3;
  const auto acceleration = [&](int iterations) {
    const ModelPtr copy = CopyModel(model.get());
    copy->opt.iterations = iterations;
    copy->opt.noslip_iterations = 0;
    const DataPtr at = MakeData(copy.get());
    mju_copy(at->qvel, data->qvel, 6);
    mj_forward(copy.get(), at.get());
    return VectorXd(Eigen::Map<const VectorXd>(at->qacc, 6));
  };
  const VectorXd engine = acceleration(2), converged = acceleration(20000);
  Eigen::Index at = 0;
  const double largest = (engine - converged).cwiseAbs().maxCoeff(&at);
  ASSERT_GT(largest, 1e-3);
  const SolverGap gap = Certify(model.get(), data.get()).solver_gap;
  EXPECT_EQ(gap.name, TangentNames(model.get())[6 + at]);
  EXPECT_EQ(gap.engine, engine[at]);
  EXPECT_NEAR(gap.converged, converged[at], 1e-7 * converged.cwiseAbs().maxCoeff());
  EXPECT_NEAR(gap.size, largest / std::max(1.0, converged.cwiseAbs().maxCoeff()), 1e-6);

  model->opt.iterations = 20000;
  EXPECT_LT(Certify(model.get(), data.get()).solver_gap.size, 1e-7);
}

}  // namespace
}  // namespace costate
