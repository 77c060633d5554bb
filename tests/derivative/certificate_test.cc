#include <costate/certificate.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "support/engine_test.h"
#include "support/find_switch.h"

namespace costate {
namespace {

using CertificateTest = support::EngineTest;
using support::Find;

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

// a NaN is no reach that nothing is within
TEST_F(CertificateTest, RefusesDistancesThatAreNone) {
  const ModelPtr model = LoadModelFromString(kScene);
  const DataPtr data = MakeData(model.get());
  data->ctrl[0] = 1;
  EXPECT_EQ(Certify(model.get(), data.get(), {.reach = 0}).label, Smoothness::kModeCrossing);
  for (const double none : {std::nan(""), -1.0}) {
    EXPECT_ERROR(Certify(model.get(), data.get(), {.reach = none}), ErrorCode::kInvalidArgument, "reach is ");
    EXPECT_ERROR(Certify(model.get(), data.get(), {.proximity = none}), ErrorCode::kInvalidArgument, "proximity is ");
  }
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

// under RK4 contacts of later stages are part of the step
TEST_F(CertificateTest, AContactOfCurvedSurfacesInALaterStageIsOnAFacet) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep=".004"/><worldbody><geom type="ellipsoid" size=".1 .07 .05"/>
    <body pos=".02 .01 .1305"><freejoint/><geom type="ellipsoid" size=".06 .1 .08"/></body></worldbody></mujoco>)");
  for (const int integrator : {mjINT_EULER, mjINT_RK4}) {
    for (const double speed : {-1.5, 0.1}) {
      SCOPED_TRACE(std::to_string(integrator) + " " + std::to_string(speed));
      model->opt.integrator = integrator;
      const DataPtr data = MakeData(model.get());
      data->qvel[2] = speed;
      mj_forward(model.get(), data.get());
      ASSERT_EQ(data->ncon, 0);
      const bool later = integrator == mjINT_RK4 && speed < 0;
      const Certificate certificate = Certify(model.get(), data.get());
      EXPECT_EQ(Find(certificate, "contacts of later stages", "another facet") != nullptr, later);
      EXPECT_EQ(certificate.label == Smoothness::kModeCrossing, later);
    }
  }
}

// (C21) an adhesion pulls along the normal of a contact that does not push, too, and of one within its gap
TEST_F(CertificateTest, AnAdhesionAlongACurvedContactIsOnAFacet) {
  const auto model = [](const std::string& geom, const std::string& more) {
    return LoadModelFromString(R"(<mujoco><worldbody><geom name="one" type="ellipsoid" size=".1 .07 .05"/>
    <body name="b"><joint name="j" axis="1 0 0" pos="0 .3 0"/><geom name="two" type="ellipsoid" size=".06 .1 .08" )" +
                               geom + "/></body></worldbody>" + more + "</mujoco>");
  };
  const auto facet = [](const mjModel* m, double speed, double control) {
    const DataPtr data = MakeData(m);
    data->qvel[0] = speed;
    if (m->nu) data->ctrl[0] = control;
    const Certificate certificate = Certify(m, data.get());
    const bool found = Find(certificate, "contact of one and two", "another facet") != nullptr;
    EXPECT_EQ(found, certificate.label == Smoothness::kModeCrossing);
    return found;
  };
  const char *deep = "pos='.07 .04 -.1'", *adhesion = "<actuator><adhesion body='b' ctrlrange='0 1'/></actuator>";
  EXPECT_TRUE(facet(model(deep, adhesion).get(), 50, 0.5));
  EXPECT_FALSE(facet(model(deep, "").get(), 50, 0));
  EXPECT_TRUE(facet(model("adhesion='.3' pos='.07 .04 -.1'", "").get(), 50, 0));
  // a sensor may read its normal
  EXPECT_TRUE(facet(model(deep, "<sensor><contact geom1='two' data='normal'/></sensor>").get(), 50, 0));
  EXPECT_FALSE(facet(model(deep, "<sensor><jointpos joint='j'/></sensor>").get(), 50, 0));
  const char* near = "pos='.07 .04 -.13' gap='.02' ";
  EXPECT_TRUE(facet(model(near, adhesion).get(), 0, 0.5));
  EXPECT_TRUE(facet(model(std::string("adhesion='.3' ") + near, "").get(), 0, 0));
  EXPECT_FALSE(facet(model(near, "").get(), 0, 0));
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
  EXPECT_FALSE(corner(-0.001, -0.0012));
  EXPECT_TRUE(corner(-0.001, -0.001));  // an edge of the tip is square to the normal: the vertex on one side alone
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

// a rope over a post: a square one is met exactly, a round one by a search that ends on facets
TEST_F(CertificateTest, AFlexOnARoundGeomIsOnAFacet) {
  for (const char* post : {"type='cylinder' size='.1 .3' euler='90 0 0'", "type='box' size='.1 .3 .1'"}) {
    SCOPED_TRACE(post);
    const ModelPtr model = LoadModelFromString("<mujoco><worldbody><geom name='post' " + std::string(post) + R"(/>
      <flexcomp name="rope" type="grid" dim="1" count="5 1 1" spacing=".06 .1 .1" pos=".01 .02 .109" radius=".01">
        <edge equality="true"/></flexcomp></worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    for (int k = 0; k < 20; k++) mj_step(model.get(), data.get());
    mj_forward(model.get(), data.get());
    ASSERT_GT(data->ncon, 0);
    const bool round = post[6] == 'c';
    const Certificate certificate = Certify(model.get(), data.get());
    EXPECT_EQ(Find(certificate, "contact of post and rope", "another facet") != nullptr, round);
    const ReferenceDerivative reference = Reference(model.get(), data.get(), {.sensors = false});
    const auto marked =
        std::count(reference.switched.begin(), reference.switched.end(), "facets of the collider of curved surfaces");
    EXPECT_EQ(marked > 0, round);
    EXPECT_LT(marked, model->nv);
  }
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
        const double middle = std::abs(y + 0.05) * std::cos(std::atan(0.05));
        const bool turns = !*side && here == 4 && middle < 0.125;
        const Switch* wrap = Find(certificate, "path of t at pin",
                                  turns       ? "another side"
                                  : here == 4 ? "straight"
                                              : "wraps");
        ASSERT_NE(wrap, nullptr);
        EXPECT_EQ(wrap->state, here == 4 ? "wraps" : "straight");
        if (turns) {
          EXPECT_NEAR(wrap->distance, middle, 1e-12);
          continue;
        }

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

// near the middle of what it wraps the path is about to go around by the other side: its length has a corner there
TEST_F(CertificateTest, ATendonThroughTheMiddleIsAboutToTurnToTheOtherSide) {
  for (const char* type : {"sphere", "cylinder"}) {
    const ModelPtr model = LoadModelFromString(std::string(R"(<mujoco><worldbody><geom name="pin" type=")") + type +
                                               R"(" size=".25 1" contype="0" conaffinity="0"/>
      <body><joint type="slide" axis="0 1 0"/><geom size=".0625" contype="0" conaffinity="0"/><site name="a" pos="-1 0 0"/>
      <site name="b" pos="1 0 0"/></body></worldbody>
      <tendon><spatial name="t" stiffness="10"><site site="a"/><geom geom="pin"/><site site="b"/></spatial></tendon></mujoco>)");
    const DataPtr data = MakeData(model.get());
    for (const double y : {-0.1, -1e-7, 1e-8, 0.12, 0.2}) {
      SCOPED_TRACE(std::string(type) + " at " + std::to_string(y));
      data->qpos[0] = y;
      const Certificate certificate = Certify(model.get(), data.get());
      const bool nearer = std::abs(y) < 0.125;
      const Switch* wrap = Find(certificate, "path of t at pin", nearer ? "another side" : "straight");
      ASSERT_NE(wrap, nullptr);
      EXPECT_NEAR(wrap->distance, nearer ? std::abs(y) : 0.25 - std::abs(y), 1e-12);
      EXPECT_EQ(certificate.label == Smoothness::kSmooth, std::abs(y) > 1e-3);
    }
    // exactly there: a corner, whatever slope is returned
    data->qpos[0] = 0;
    EXPECT_NE(Certify(model.get(), data.get()).label, Smoothness::kSmooth);
  }
}

// sensors that tell on which side of a border something is, or read contacts within a site: at the border they jump
TEST_F(CertificateTest, SensorsAtTheBorderOfASiteAreAboutToJump) {
  for (const bool near : {true, false}) {
    const std::string at = near ? ".09999999" : ".099";
    const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
      <body name="b" pos="0 0 .0499"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
        <geom name="g" size=".05"/><site name="sole" type="box" size=".1 .1 .1" pos=")" +
                                               at + R"( 0 -.05"/></body>
      <body pos="0 3 1"><joint type="slide" axis="0 1 0"/><geom size=".1"/><site name="other" pos=")" +
                                               at + R"( 0 0"/></body>
      <site name="zone" type="box" size=".1 .1 .1" pos=")" +
                                               at + R"( 0 0"/></worldbody>
      <sensor><contact name="contacts" site="zone" data="found force"/><touch name="touch" site="sole"/>
        <insidesite name="inside" site="zone" objtype="geom" objname="g"/></sensor></mujoco>)");
    const DataPtr data = MakeData(model.get());
    const Certificate certificate = Certify(model.get(), data.get());
    for (const char* sensor : {"contacts", "inside"}) {
      EXPECT_EQ(Find(certificate, "place of " + std::string(sensor), "another place") != nullptr, near) << sensor;
    }
    // the touch sensor moves with its body, and so does the ball's contact: nothing moves it across
    EXPECT_EQ(Find(certificate, "place of touch", "another place"), nullptr);
  }
}

// contacts of a flex elsewhere do not matter to a sensor that chooses among others
TEST_F(CertificateTest, ATieBetweenContactsIsOneBesideAFlexToo) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="2 2 .1"/>
    <body name="box" pos=".6 0 .049"><freejoint/><geom name="box" type="box" size=".06 .05 .05"/></body>
    <flexcomp name="f" type="grid" count="3 1 1" spacing=".1 .1 .1" radius=".02" dim="1" mass=".5" pos="0 0 .0198">
      <edge damping=".1"/></flexcomp></worldbody>
    <sensor><contact name="strongest" geom1="box" data="found force" reduce="maxforce"/></sensor></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int k = 0; k < 500; k++) mj_step(model.get(), data.get());
  mj_forward(model.get(), data.get());
  ASSERT_GT(data->ncon, 4) << "the rope lies on the floor, too";
  const Certificate certificate = Certify(model.get(), data.get());
  const Switch* choice = Find(certificate, "choice of strongest", "another contact");
  ASSERT_NE(choice, nullptr);
  EXPECT_LT(choice->distance, 1e-6);
  EXPECT_NE(certificate.label, Smoothness::kSmooth);
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

// along a free joint friction holds forces in three directions and torques about three
TEST_F(CertificateTest, FrictionLossOfAFreeJointIsInTheUnitsOfItsDofs) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="j" type="free" frictionloss=".3"/>
    <geom size=".1" mass="1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  int linear = 0, angular = 0;
  for (const Switch& s : Certify(model.get(), data.get()).switches) {
    if (s.name != "friction loss of j") continue;
    linear += s.unit == "m/s^2";
    angular += s.unit == "rad/s^2";
  }
  EXPECT_EQ(linear, 3);
  EXPECT_EQ(angular, 3);
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
    EXPECT_NEAR(force->distance, held ? 0.5 : 0.25, 1e-9);  // the engine grants 1e-10 to rounding
    if (held) continue;
    EXPECT_EQ(value->distance, 0.125);
  }
}

// where a search ends near the nearest points jumps, as the contacts of such geoms do; boxes' points are exact
TEST_F(CertificateTest, NearestPointsThatASearchEndsNearAreOnASwitch) {
  for (const char* type : {"ellipsoid", "box"}) {
    SCOPED_TRACE(type);
    const std::string geom = std::string("<geom contype='0' size='.1 .06 .08' type='") + type + "' name='";
    const ModelPtr model = LoadModelFromString(
        "<mujoco><worldbody>" + geom + "a' euler='10 20 30'/><body pos='.5 .1 .2'><joint type='ball'/>" + geom +
        "b' euler='40 0 20'/></body></worldbody><sensor><distance geom1='a' geom2='b' cutoff='1'/></sensor></mujoco>");
    const Certificate certificate = Certify(model.get(), MakeData(model.get()).get());
    const bool searched = std::string(type) == "ellipsoid";
    EXPECT_EQ(certificate.label, searched ? Smoothness::kModeCrossing : Smoothness::kSmooth);
    EXPECT_EQ(std::any_of(certificate.switches.begin(), certificate.switches.end(),
                          [](const Switch& s) { return s.next == "another end"; }),
              searched);
  }
}

// (K12) a rounding of 2e12 is 2e-4
TEST_F(CertificateTest, NumbersThatAreAllRoundingAreNotCalledSmooth) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="rail" type="slide"/>
    <geom size=".1"/></body></worldbody><actuator><general joint="rail" dyntype="integrator" gainprm="1e-12"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kSmooth);
  data->act[0] = 2e12;
  const Certificate certificate = Certify(model.get(), data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  ASSERT_FALSE(certificate.switches.empty());
  EXPECT_EQ(certificate.switches[0].next, "its rounding");
}

// an actuator that pushes along with its velocity: M − h D has no square root, the engine divides by its least pivot
TEST_F(CertificateTest, AMatrixThatTheEngineCannotDivideByIsNotCalledSmooth) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".02" integrator="implicitfast"/><worldbody>
    <body><joint name="x" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><general joint="x" biastype="affine" biasprm="0 0 49"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.5;
  EXPECT_EQ(Certify(model.get(), data.get()).label, Smoothness::kSmooth) << "1 - 0.02 · 49 is positive";
  model->actuator_biasprm[2] = 51;
  const Certificate certificate = Certify(model.get(), data.get());
  EXPECT_EQ(certificate.label, Smoothness::kModeCrossing);
  const Switch* inertia = Find(certificate, "inertia", "its rounding");
  ASSERT_NE(inertia, nullptr);
  EXPECT_EQ(inertia->state, "singular");
}

// of a ball on a floor: where a push begins to move it, and where a pull takes it off while it slides, its cone is near
TEST_F(CertificateTest, AnEllipticContactSwitchesOnItsCone) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option cone="elliptic"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body pos="0 0 .0999"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <geom name="ball" size=".1" mass="1" friction=".7 .1 .1"/></body></worldbody>
    <actuator><motor joint="x"/><motor joint="z"/></actuator></mujoco>)");
  struct Case {
    const char* next;
    double speed;     // sideways
    int control;      // that is moved …
    double from, to;  // … from a side of the switch to the other
  };
  for (const Case& c : {Case{"stick or slip", 0, 0, 0, 20}, Case{"release", 0.5, 1, 0, 200}}) {
    SCOPED_TRACE(c.next);
    const auto at = [&](double ctrl) {
      const DataPtr data = MakeData(model.get());
      data->qvel[0] = c.speed;
      data->ctrl[c.control] = ctrl;
      const Certificate certificate = Certify(model.get(), data.get());
      for (const Switch& s : certificate.switches) {
        if (s.name == "contact of floor and ball" && s.unit == "m/s^2") return s;
      }
      return Switch();
    };
    const Switch begin = at(c.from), other = at(c.to);
    ASSERT_NE(begin.state, other.state);
    EXPECT_GT(begin.distance, 0.1);
    EXPECT_GT(other.distance, 0.1);
    double near = c.from, far = c.to;
    for (int k = 0; k < 45; k++) {
      const double middle = (near + far) / 2;
      (at(middle).state == begin.state ? near : far) = middle;
    }
    EXPECT_LT(at(near).distance, 1e-6);
    EXPECT_EQ(at(near).next, c.next);
  }
}

// each from the model's own numbers
TEST_F(CertificateTest, LimitsClampsAndDampersAreAsFarAsTheirNumbersSay) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><compiler angle="radian"/><option integrator="implicitfast" gravity="0 0 0"/><worldbody>
    <body><joint name="j" type="slide" range="-1 .5" limited="true" margin=".125" actuatorfrcrange="-1 1"/><geom size=".1" contype="0"/></body>
    <body><joint name="b" type="ball" range="0 1" limited="true" margin=".125"/><geom size=".1" pos=".1 0 0" contype="0"/></body>
    </worldbody><tendon><fixed name="t" damping=".5 2"><joint joint="j" coef="1"/></fixed></tendon>
    <actuator><motor name="m" joint="j" forcelimited="true" forcerange="-.75 .75"/>
      <general name="g" joint="j" dyntype="integrator" gainprm="0" actlimited="true" actrange="-1 1"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.4375;
  mju_axisAngle2Quat(data->qpos + 1, std::array<double, 3>{0, 1, 0}.data(), 0.5);
  data->qvel[0] = 0.25;
  data->ctrl[0] = 0.25;
  data->act[0] = 0.25;
  const auto distance = [&](const char* name, const char* next) {
    const Certificate certificate = Certify(model.get(), data.get());
    const Switch* found = Find(certificate, name, next);
    return found ? found->distance : -1;
  };
  EXPECT_NEAR(distance("limit of j", "limit"), 0.0625, 1e-12);  // within the margin
  EXPECT_NEAR(distance("limit of b", "limit"), 0.375, 1e-12);
  EXPECT_NEAR(distance("actuator force of j", "clamp"), 0.75, 1e-12);
  EXPECT_NEAR(distance("force of m", "clamp"), 0.5, 1e-12);
  EXPECT_NEAR(distance("activation of g", "clamp"), 0.75, 1e-12);
  EXPECT_NEAR(distance("damping of t", "reversal"), 0.25, 1e-12);
  // beyond its limit a force is as far from it as it would be past it
  data->ctrl[0] = -0.875;
  EXPECT_NEAR(distance("force of m", "clamp"), 0.125, 1e-12);
  EXPECT_NEAR(distance("actuator force of j", "clamp"), 0.25, 1e-12) << "of what the motor's own limit leaves";
  model->actuator_gainprm[mjNGAIN] = 3;  // beside the motor: 3 · 0.25
  data->ctrl[0] = 0.875;
  EXPECT_NEAR(distance("actuator force of j", "clamp"), 0.5, 1e-12);
  const Certificate saturated = Certify(model.get(), data.get());
  const Switch* force = Find(saturated, "force of m", "clamp");
  ASSERT_NE(force, nullptr);
  EXPECT_TRUE(force->active);
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
  EXPECT_NEAR(gap.converged, converged[at], 1e-12 * converged.cwiseAbs().maxCoeff());
  EXPECT_NEAR(gap.size, largest / std::max(1.0, converged.cwiseAbs().maxCoeff()), 1e-12);

  model->opt.iterations = 20000;
  EXPECT_LT(Certify(model.get(), data.get()).solver_gap.size, 1e-7);
}

// where cones bend, what few iterations leave goes with the square of the way from their start, and so turns with it
TEST_F(CertificateTest, AccelerationsThatAreNearlyRightMayHaveOtherSlopes) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option timestep="0.005" cone="elliptic" impratio=".5"/><worldbody>
    <geom type="plane" size="5 5 .1"/><body pos="0 0 .095"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/><joint type="ball"/><geom type="capsule" size=".1 .2" euler="0 90 0" condim="4"/>
      <body pos=".3 0 .1"><joint axis="0 1 .3" damping=".1"/><geom size=".12" density="300"/></body></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.5 * std::sin(1 + i);
  for (int k = 0; k < 4; k++) mj_step(model.get(), data.get());
  const SolverGap early = Certify(model.get(), data.get()).solver_gap;
  EXPECT_LT(early.size, 1e-5);
  EXPECT_GT(early.slope, 1e-4);

  // slopes of the engine's own acceleration by one position, with its own tolerance and with none
  const int nv = static_cast<int>(model->nv);
  const auto slope = [&](double tolerance) {
    const ModelPtr copy = CopyModel(model.get());
    copy->opt.tolerance = tolerance;
    VectorXd out = VectorXd::Zero(nv);
    for (double eps : {1e-6, -1e-6}) {
      const DataPtr at = MakeData(copy.get());
      mj_copyState(copy.get(), data.get(), at.get(), mjSTATE_INTEGRATION);
      at->qpos[2] += eps;
      mj_forward(copy.get(), at.get());
      out += Eigen::Map<VectorXd>(at->qacc, nv) / (2 * eps);
    }
    return out;
  };
  const VectorXd converged = slope(0);
  const double off = (slope(model->opt.tolerance) - converged).cwiseAbs().maxCoeff() / converged.cwiseAbs().maxCoeff();
  EXPECT_GT(off, 0.1 * early.slope);
  EXPECT_LT(off, 10 * early.slope);

  model->opt.tolerance = 0;
  EXPECT_EQ(Certify(model.get(), data.get()).solver_gap.slope, 0);
}

}  // namespace
}  // namespace costate
