#include "derivative/contact_geometry.h"
#include "derivative/contact_shape.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/model.h>
#include "derivative/contact_rates.h"
#include "derivative/random_touch.h"

namespace costate {
namespace {

struct Pair {
  const char *first, *second;
};

// Every closed form is the derivative of the collider it stands for: centred differences of that
// collider agree wherever its contacts move smoothly.
TEST(ContactGeometry, ClosedFormsAgreeWithDifferencesOfTheCollider) {
  const char *sphere = "size='.1'", *capsule = "type='capsule' size='.06 .12'",
             *cylinder = "type='cylinder' size='.09 .12'", *box = "type='box' size='.08 .1 .12'",
             *ellipsoid = "type='ellipsoid' size='.1 .07 .12'", *mesh = "type='mesh' mesh='wedge'";
  const Pair pairs[] = {{kPlane, sphere}, {kPlane, capsule},  {kPlane, ellipsoid}, {kPlane, cylinder},
                        {kPlane, box},    {kPlane, mesh},     {sphere, sphere},    {sphere, capsule},
                        {sphere, box},    {sphere, cylinder}, {capsule, capsule}};
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(std::string(pair.first) + " and " + pair.second);
    ModelPtr model = LoadModelFromString(TwoGeoms(pair.first, pair.second));
    DataPtr data = MakeData(model.get());
    mjData* d = data.get();
    ContactGeometry closed(model.get()), differenced(model.get(), true);
    std::mt19937 rng(5);
    int compared = 0;
    for (int k = 0; k < 60; k++) {
      RandomTouch(model.get(), d, 0.004, &rng);
      std::string why, missing;
      ASSERT_TRUE(closed.Compute(model.get(), d, &missing)) << missing;
      if (!differenced.Compute(model.get(), d, &why)) continue;
      for (int c = 0; c < d->ncon; c++) {
        const ContactMatrix &G = closed.motion(c).by_geom2, &reference = differenced.motion(c).by_geom2;
        EXPECT_LE((G - reference).cwiseAbs().maxCoeff(), 1e-8 * (1 + reference.cwiseAbs().maxCoeff()))
            << "pose " << k << " contact " << c << "\n"
            << G << "\n\n"
            << reference;

        // (G3) all turn as one: the frame's rate is the common w, but for its turn about the normal
        const ContactMatrix& both = closed.motion(c).by_both;
        EXPECT_EQ(both, differenced.motion(c).by_both);
        const Mat3 across = Mat3::Identity() - Vec3Map(d->contact[c].frame) * Vec3Map(d->contact[c].frame).transpose();
        EXPECT_LE((across * (both.block<3, 3>(4, 0) - Mat3::Identity())).cwiseAbs().maxCoeff(), 1e-12);
        compared++;
      }
    }
    EXPECT_GE(compared, 50);
  }
}

// Balls of a millimetre, a metre from the origin: two points to a side of the contact would leave the sixth part of
// (1e-6 / 2e-3)² by truncation.
TEST(ContactGeometry, DifferencesOfSmallGeomsAreExactToo) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body pos="1 .3 -.5"><freejoint/><geom size=".001"/></body>
      <body pos="1.0008 .3012 -.4987"><freejoint/><geom size=".001"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 1);
  ContactGeometry closed(model.get()), differenced(model.get(), true);
  std::string missing;
  ASSERT_TRUE(closed.Compute(model.get(), data.get(), &missing)) << missing;
  ASSERT_TRUE(differenced.Compute(model.get(), data.get(), &missing)) << missing;
  const ContactMatrix &G = closed.motion(0).by_geom2, &other = differenced.motion(0).by_geom2;
  const double largest = G.cwiseAbs().maxCoeff();
  EXPECT_GT(largest, 400);
  EXPECT_LE((G - other).cwiseAbs().maxCoeff(), 1e-8 * largest) << G << "\n\n" << other;
}

// The distance along a normal that is free goes by that normal when the geoms are shifted, also where they are in
// contact by little more than a nudge.
TEST(ContactGeometry, DifferencesOfGeomsThatHardlyTouchAreExactToo) {
  const std::string stone = "<body><freejoint/><geom type='mesh' mesh='stone'/></body>";
  const ModelPtr model = LoadModelFromString(
      "<mujoco><asset><mesh name='stone' vertex='.1 0 0  -.12 .03 0  0 .13 .02  .01 -.11 0  0 .02 .1  .03 0 "
      "-.12'/></asset><worldbody>" +
      stone + stone + "</worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  mjData* d = data.get();
  ContactGeometry geometry(model.get());
  std::mt19937 rng(2);
  int compared = 0;
  for (int k = 0; k < 60; k++) {
    RandomTouch(model.get(), d, 0.004, &rng);
    const Vec3 apart = (-d->contact[0].dist - 1e-5) * Vec3Map(d->contact[0].frame);
    Eigen::Map<Vec3>(d->qpos + 7) += apart;
    mj_forward(model.get(), d);
    if (d->ncon != 1 || std::abs(d->contact[0].dist + 1e-5) > 1e-8) continue;  // other features touch first
    std::string missing;
    ASSERT_TRUE(geometry.Compute(model.get(), d, &missing)) << missing;
    const Vec3 n = Vec3Map(d->contact[0].frame), shift = geometry.motion(0).by_geom2.row(0).tail<3>();
    EXPECT_LE((shift - n).norm(), 1e-8) << "pose " << k;
    compared++;
  }
  EXPECT_GE(compared, 30);
}

// Flat parts that lie on each other: corners, cut edges and rolling sides, as the engine clips
// them.
TEST(ContactGeometry, ClippedContactsAgreeWithDifferencesOfTheCollider) {
  const char *cylinder = "type='cylinder' size='.09 .12'", *box = "type='box' size='.08 .1 .12'",
             *mesh = "type='mesh' mesh='wedge'";
  const struct {
    const char *first, *second;
    int clipped;
  } pairs[] = {{box, box, 150}, {cylinder, box, 30}, {cylinder, cylinder, 10}, {cylinder, mesh, 15}};
  for (const auto& pair : pairs) {
    SCOPED_TRACE(std::string(pair.first) + " and " + pair.second);
    ModelPtr model = LoadModelFromString(TwoGeoms(pair.first, pair.second));
    DataPtr data = MakeData(model.get());
    mjData* d = data.get();
    ContactGeometry closed(model.get()), differenced(model.get(), true);
    std::mt19937 rng(5);
    std::uniform_int_distribution<int> quarter(0, 3), axis(0, 2);
    int compared = 0;
    for (int k = 0; k < 100; k++) {
      RandomTouch(model.get(), d, 0.004, &rng, [&](mjtNum* q1, mjtNum* q2) {
        mju_copy4(q2, q1);
        for (int n = 0; n < 3; n++) {
          mjtNum turn[4], unit[3] = {0, 0, 0}, next[4];
          unit[axis(rng)] = 1;
          mju_axisAngle2Quat(turn, unit, mjPI / 2 * quarter(rng) + 0.01 * (n + 1));
          mju_mulQuat(next, q2, turn);
          mju_copy4(q2, next);
        }
      });
      std::string why, missing;
      closed.Compute(model.get(), d, &missing);
      if (!differenced.Compute(model.get(), d, &why)) continue;
      for (int c = 0; c < d->ncon && d->ncon > 1; c++) {
        if (!closed.has_motion(c)) continue;
        const ContactMatrix &G = closed.motion(c).by_geom2, &reference = differenced.motion(c).by_geom2;
        // the engine's normal is a difference of witnesses
        const double noise = 1e-15 / (1e-6 * std::abs(d->contact[c].dist));
        EXPECT_LE((G - reference).cwiseAbs().maxCoeff(), noise + 1e-8 * (1 + reference.cwiseAbs().maxCoeff()))
            << "pose " << k << " contact " << c << "\n"
            << G << "\n\n"
            << reference;
        compared += G != reference;
      }
    }
    EXPECT_GE(compared, pair.clipped);
  }
}

// A short capsule deep in a cylinder's rim: the engine lays its side where the two were deepest in each other, and not
// along the normal of the face.
TEST(ContactGeometry, ASideLaidOtherwiseThanAlongTheNormalIsDifferenced) {
  for (const double radius : {0.04874, 0.052, 0.06, 0.07}) {
    SCOPED_TRACE(radius);
    const ModelPtr model = LoadModelFromString(fmt::format(R"(<mujoco><option gravity="0 0 0"/><worldbody>
      <body pos="-.0063306980254660278 .05895415091162081 .38907888408187269"
            quat=".72739358265690868 -.31657780123243451 .35356802869856296 -.49564777893035744"><freejoint/>
        <geom type="capsule" size=".1059 .02"/></body>
      <body pos="-.0049202438947450466 -.13484585998903925 .39454689766362872"
            quat=".1875290518994375 .032769504947035788 .87546988295629014 .44419758922772645"><freejoint/>
        <geom type="cylinder" size="{} .1169"/></body></worldbody></mujoco>)",
                                                           radius));
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 2);
    ContactGeometry closed(model.get()), differenced(model.get(), true);
    std::string missing;
    ASSERT_TRUE(differenced.Compute(model.get(), data.get(), &missing)) << missing;
    for (const bool with_force : {false, true}) {  // matrices have all contacts, products those that act
      mju_zero(data->efc_force + data->contact[0].efc_address, 4);
      ASSERT_TRUE(closed.Compute(model.get(), data.get(), &missing, with_force)) << missing;
      for (int c = 0; c < 2; c++) {
        if (!closed.has_motion(c)) continue;
        const ContactMatrix &G = closed.motion(c).by_geom2, &reference = differenced.motion(c).by_geom2;
        EXPECT_LE((G - reference).cwiseAbs().maxCoeff(), 1e-7 * reference.cwiseAbs().maxCoeff())
            << "contact " << c << "\n"
            << G << "\n\n"
            << reference;
      }
    }
    EXPECT_TRUE(closed.has_motion(1));
  }
}

// Capsules on a box: balls at the ends, at the nearest point of an edge or corner, and where the axis leaves the space
// above a face; what is none of these is differenced.
TEST(ContactGeometry, CapsulesOnABoxAgreeWithDifferencesOfTheCollider) {
  enum { kEnd, kNearest, kClipped, kKinds };
  int compared[kKinds] = {0}, left = 0;
  for (const char* box :
       {"type='box' size='.08 .1 .12'", "type='box' size='.3 .02 .05'", "type='box' size='.03 .03 .03'"}) {
    ModelPtr model = LoadModelFromString(TwoGeoms("type='capsule' size='.04 .15'", box));
    DataPtr data = MakeData(model.get());
    mjData* d = data.get();
    ContactGeometry closed(model.get()), differenced(model.get(), true);
    std::mt19937 rng(5);
    std::uniform_int_distribution<int> quarter(0, 3), axis(0, 2);
    std::normal_distribution<double> normal;
    for (int k = 0; k < 300; k++) {
      // lying, by a few degrees or any; deep enough for an axis inside the box, too
      const double tilt = k % 3 == 0 ? 1 : 0.1, depth = k % 5 == 0 ? 0.06 : 0.004;
      RandomTouch(model.get(), d, depth, &rng, [&](mjtNum* q1, mjtNum* q2) {
        mjtNum turn[4], unit[3] = {0, 0, 0}, rough[4],
                        tilted[3] = {tilt * normal(rng), tilt * normal(rng), tilt * normal(rng)};
        unit[axis(rng)] = 1;
        mju_axisAngle2Quat(turn, unit, mjPI / 2 * quarter(rng));
        mju_mulQuat(rough, q1, turn);
        mju_copy4(q2, rough);
        mju_quatIntegrate(q2, tilted, 1);
      });
      std::string why, missing;
      closed.Compute(model.get(), d, &missing);
      if (!differenced.Compute(model.get(), d, &why)) continue;
      for (int c = 0; c < d->ncon; c++) {
        ASSERT_TRUE(closed.has_motion(c)) << missing;
        const ContactMatrix &G = closed.motion(c).by_geom2, &reference = differenced.motion(c).by_geom2;
        if (G == reference) {
          left++;
          continue;
        }
        // where the axis comes close to the box its normal bends within the step of the differences
        const double bend = 1e-6 / (0.04 + d->contact[c].dist);
        EXPECT_LE((G - reference).cwiseAbs().maxCoeff(),
                  (1e-8 + 10 * bend * bend) * (1 + reference.cwiseAbs().maxCoeff()))
            << "pose " << k << " contact " << c << " of " << d->ncon << "\n"
            << G << "\n\n"
            << reference;
        const Vec3 n = Vec3Map(d->contact[c].frame);
        const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(d->geom_xmat), box_R(d->geom_xmat + 9);
        const Vec3 center = Vec3Map(d->contact[c].pos) - n * (0.04 + d->contact[c].dist / 2);
        const bool end = std::abs(R.col(2).dot(center - Vec3Map(d->geom_xpos))) > 0.15 - 1e-9;
        const bool face = (box_R.transpose() * n).cwiseAbs().maxCoeff() > 1 - 1e-12;
        compared[end ? kEnd : face ? kClipped : kNearest]++;
      }
    }
  }
  EXPECT_GE(compared[kEnd], 300);
  EXPECT_GE(compared[kNearest], 100);
  EXPECT_GE(compared[kClipped], 100);
  EXPECT_LE(left, 50);
}

// The top of a large box is a plane: curved surfaces move on it as in the plane's closed collider,
// upright ones too, whose normal the iterative collider may hit to the last digit.
TEST(ContactGeometry, CurvedSurfacesMoveOnABoxAsOnAPlane) {
  for (const char* geom : {"type='ellipsoid' size='.1 .07 .12'", "type='cylinder' size='.09 .12'"}) {
    for (const char* turn : {"0 0 0", "50 20 10", "70 -30 5", "25 0 60"}) {
      SCOPED_TRACE(std::string(geom) + " turned by " + turn);
      if (geom[6] == 'c' && turn[0] == '0') continue;  // flat on the box
      ContactMatrix by_curved[2];
      for (const bool box : {false, true}) {
        ModelPtr model = LoadModelFromString(
            std::string("<mujoco><worldbody>") +
            (box ? "<geom type='box' size='1 1 .1' pos='0 0 -.1'/>" : "<geom type='plane' size='1 1 .1'/>") +
            "<body pos='.01 .02 .3'><freejoint/><geom euler='" + turn + "' " + geom + "/></body></worldbody></mujoco>");
        DataPtr data = MakeData(model.get());
        mjData* d = data.get();
        for (double step : {1e-2, 1e-3, 1e-4}) {
          while (mj_forward(model.get(), d), d->ncon == 0) d->qpos[2] -= step;
          if (step > 1e-4) d->qpos[2] += step;
        }
        d->qpos[2] -= 2e-4;
        mj_forward(model.get(), d);
        ASSERT_EQ(d->ncon, 1);
        ContactGeometry geometry(model.get());
        std::string missing;
        ASSERT_TRUE(geometry.Compute(model.get(), d, &missing)) << missing;
        const ContactMotion& motion = geometry.motion(0);
        by_curved[box] = d->contact[0].geom[0] == 1 ? motion.by_geom1() : motion.by_geom2;  // it comes before the box
      }
      EXPECT_LE((by_curved[1] - by_curved[0]).cwiseAbs().maxCoeff(), 3e-4) << by_curved[1] << "\n\n" << by_curved[0];
    }
  }
}

// Two polytopes hardly in touch: the engine makes the normal from two points a micrometre apart, so that differences of
// it are noise, and yet it turns with the face.
TEST(ContactGeometry, NormalsOfFacesTurnWithTheFaceExactly) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset>
      <mesh name="rock" vertex="-.1 -.08 -.1  .12 -.09 -.1  .1 .1 -.08  -.1 .09 -.12  -.05 -.06 .1  .07 .01 .12  -.03 .08 .09"/></asset><worldbody>
      <body><freejoint/><geom type="mesh" mesh="rock"/></body><body><freejoint/><geom type="mesh" mesh="rock"/></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  mjData* d = data.get();
  ContactGeometry geometry(m);
  std::mt19937 rng(7);
  int faces[2] = {0, 0};
  for (int k = 0; k < 60; k++) {
    RandomTouch(m, d, 2e-6, &rng);
    std::string missing;
    if (!geometry.Compute(m, d, &missing)) continue;
    for (int c = 0; c < d->ncon; c++) {
      const Vec3 n = Vec3Map(d->contact[c].frame);
      const bool face1 = ConvexShape(m, d, d->contact[c].geom[0]).HasFace(n, 1e-8);
      const bool face2 = ConvexShape(m, d, d->contact[c].geom[1]).HasFace(-n, 1e-8);
      if (face1 == face2) continue;
      faces[face2]++;
      const ContactMatrix& G = geometry.motion(c).by_geom2;
      const Mat3 across = Mat3::Identity() - n * n.transpose();
      EXPECT_EQ((G.block<3, 3>(4, 3)), Mat3::Zero());
      EXPECT_LE((across * G.block<3, 3>(4, 0) - (face2 ? across : Mat3(Mat3::Zero()))).cwiseAbs().maxCoeff(), 1e-12);
    }
  }
  EXPECT_GE(faces[0], 5);
  EXPECT_GE(faces[1], 5);
}

// A cart along a rail that runs through it, and a lid on a hinge: other motions, which the joints do not allow, would
// change the set of contact points.
TEST(ContactGeometry, OnlyMotionsThatTheJointsAllowAreDifferenced) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option gravity="0 0 0"/><worldbody>
      <geom type="capsule" fromto="-1 0.07 1 1 0.07 1" size="0.02"/>
      <body pos="0 0 1"><joint type="slide" axis="1 0 0"/><geom type="box" size="0.2 0.15 0.1"/>
        <body pos="0 0 0.13"><joint axis="0 1 0"/><geom type="box" size="0.02 0.1 0.03" mass="0.1"/></body></body></worldbody></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  mjData* d = data.get();
  d->qpos[0] = 0.05;
  mj_forward(m, d);
  ASSERT_GT(d->ncon, 0);
  ContactGeometry geometry(m);
  std::string missing;
  EXPECT_TRUE(geometry.Compute(m, d, &missing)) << missing;
  Eigen::Matrix<double, 6, 1> along;
  along << 0, 0, 0, 1, 0, 0;
  for (int c = 0; c < d->ncon; c++) {
    const double dist = d->contact[c].dist;
    const Vec3 p = Vec3Map(d->contact[c].pos);
    const Eigen::Matrix<double, 7, 1> rate = geometry.motion(c).by_geom2 * along;
    constexpr double kShift = 1e-4;
    d->qpos[0] += kShift;
    mj_forward(m, d);
    EXPECT_NEAR(rate(0), (d->contact[c].dist - dist) / kShift, 1e-8) << c;
    EXPECT_LE((rate.segment<3>(1) - (Vec3Map(d->contact[c].pos) - p) / kShift).norm(), 1e-8) << c;
    d->qpos[0] -= kShift;
    mj_forward(m, d);
  }
}

// Side by side and as long as each other, a capsule and a capsule or a box touch where both end. Along the axis one of
// both contacts goes with the one, the other with the other, whichever way: the step has a slope there.
TEST(ContactGeometry, ParallelCapsulesThatEndTogetherAreNotBalls) {
  for (const char* other : {"type='capsule' size='.05 .1'", "type='box' size='.05 .05 .1'"}) {
    SCOPED_TRACE(other);
    const ModelPtr model =
        LoadModelFromString(std::string("<mujoco><worldbody><geom condim='1' ") + other + R"( pos="0 .095 1"/>
      <body pos="0 0 1"><joint type="slide" axis="0 .6 .8"/><joint axis="1 0 0"/>
        <geom type="capsule" size=".05 .1" condim="1"/></body></worldbody></mujoco>)");
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    mj_forward(m, data.get());
    ASSERT_EQ(data->ncon, 2);
    const StepDerivative value = Linearize(m, data.get());
    EXPECT_EQ(value.coverage.Worst(), Level::kResidual);
    const ReferenceDerivative reference = Reference(m, data.get());
    ASSERT_FALSE(reference.nonsmooth_column[0]);
    const double largest = reference.value.A.col(0).cwiseAbs().maxCoeff();
    for (int row = 0; row < 4; row++) {
      EXPECT_LT(reference.A_error(row, 0), 1e-6 * largest);
      EXPECT_NEAR(value.A(row, 0), reference.value.A(row, 0), 1e-7 * largest + 3 * reference.A_error(row, 0)) << row;
    }
  }
}

// (G11) Balls about the centre of the joint between them: the distance rests, point and normal turn with the axes'
// cross product; along parallel axes nothing turns, and what pulls the centres apart has a tip.
TEST(ContactGeometry, ConcentricBallsTurnWithTheirAxes) {
  const auto chain = [](const std::string& euler, const std::string& second, const std::string& first = "0 0 0") {
    return LoadModelFromString(R"(<mujoco><worldbody><body pos="0 0 1" euler=")" + first +
                               R"("><geom type="capsule" fromto="0 0 0 .2 0 0" size=".04"/>
      <body pos=".2 0 0" euler=")" +
                               euler + R"("><joint type="ball"/><geom )" + second +
                               "/></body></body></worldbody></mujoco>");
  };
  const char *capsule = "type='capsule' fromto='0 0 0 .15 0 0' size='.02'", *sphere = "size='.03' euler='50 20 0'";
  for (const char* second : {capsule, sphere}) {
    const ModelPtr model = chain("0 20 50", second);
    const mjModel* m = model.get();
    const DataPtr data = MakeData(m);
    mjData* d = data.get();
    mj_forward(m, d);
    ASSERT_EQ(d->ncon, 1);
    ASSERT_NEAR(d->contact[0].dist, -m->geom_size[0] - m->geom_size[3], 1e-15);
    ContactGeometry geometry(m);
    std::string missing;
    ASSERT_TRUE(geometry.Compute(m, d, &missing)) << missing;
    const auto motion = geometry.motion(0);
    const bool swapped = d->contact[0].geom[0] == 1;
    const Vec3 n = Vec3Map(d->contact[0].frame), p = Vec3Map(d->contact[0].pos), center = Vec3Map(d->xpos + 6);
    for (int axis = 0; axis < 3; axis++) {
      const Vec3 w = Vec3Map(d->cdof + 6 * axis);
      Eigen::Matrix<double, 6, 1> twist;
      twist << w, w.cross(p - center);
      const Eigen::Matrix<double, 7, 1> rate = (swapped ? motion.by_geom1() : motion.by_geom2) * twist;
      Vec3 dn[2], dp[2];
      constexpr double kTurn = 1e-5;
      for (int side = 0; side < 2; side++) {
        const DataPtr moved = MakeData(m);
        const double turn[3] = {axis == 0 ? 1.0 : 0, axis == 1 ? 1.0 : 0, axis == 2 ? 1.0 : 0};
        mj_integratePos(m, moved->qpos, turn, side ? -kTurn : kTurn);
        mj_forward(m, moved.get());
        ASSERT_EQ(moved->ncon, 1);
        dn[side] = Vec3Map(moved->contact[0].frame);
        dp[side] = Vec3Map(moved->contact[0].pos);
      }
      EXPECT_EQ(rate(0), 0);
      EXPECT_LE((rate.segment<3>(1) - (dp[0] - dp[1]) / (2 * kTurn)).norm(), 1e-8);
      EXPECT_LE((Vec3(rate.tail<3>()).cross(n) - (dn[0] - dn[1]) / (2 * kTurn)).norm(), 1e-7);
    }
  }

  for (const char* second : {capsule, "type='sphere' size='.03' euler='0 90 0'"}) {
    for (const char* first : {"0 0 0", "0 0 90"}) {  // the engine's normal, x, along the axes and across them
      const ModelPtr straight = chain("0 0 0", second, first);
      const DataPtr data = MakeData(straight.get());
      mj_forward(straight.get(), data.get());
      ASSERT_GT(data->ncon, 0);
      ContactGeometry geometry(straight.get());
      std::string missing;
      ASSERT_TRUE(geometry.Compute(straight.get(), data.get(), &missing)) << missing;
      for (int c = 0; c < data->ncon; c++) {
        EXPECT_LE((geometry.motion(c).by_geom2.topRows<4>()).cwiseAbs().maxCoeff(), 1e-15);
      }
    }
  }
}

// Boxes whose faces just meet: a nudge apart ends the contact, and yet it moves as one that is a micrometre deep.
TEST(ContactGeometry, AContactAtItsMarginMovesAsOneThatPushes) {
  const auto boxes = [](const char* height) {
    return LoadModelFromString(
        std::string(R"(<mujoco><worldbody><geom type="box" size=".125 .25 .125"/><body pos="0 0.0625 )") + height +
        R"("><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/><geom type="box" size=".0625 .0625 .125"/></body></worldbody></mujoco>)");
  };
  const ModelPtr meeting = boxes("0.24999999999999997"), deep = boxes("0.249999");
  const DataPtr data[] = {MakeData(meeting.get()), MakeData(deep.get())};
  ContactGeometry geometry[] = {ContactGeometry(meeting.get()), ContactGeometry(deep.get())};
  for (int k = 0; k < 2; k++) {
    const mjModel* m = k == 0 ? meeting.get() : deep.get();
    mj_forward(m, data[k].get());
    ASSERT_EQ(data[k]->ncon, 4);
    std::string missing;
    ASSERT_TRUE(geometry[k].Compute(m, data[k].get(), &missing)) << missing;
  }
  ASSERT_GE(data[0]->contact[0].efc_address, 0);
  EXPECT_NEAR(data[0]->contact[0].dist, 0, 1e-16);
  for (int c = 0; c < 4; c++) {
    const ContactMatrix &G = geometry[0].motion(c).by_geom2, &inside = geometry[1].motion(c).by_geom2;
    EXPECT_LE((G - inside).cwiseAbs().maxCoeff(), 1e-4) << c << "\n" << G << "\n\n" << inside;
    EXPECT_NEAR(G(0, 5), 1, 1e-6);
  }
}

// A corner that is cut off by a third of a micrometre leaves two contacts that are nearer to each other than any nudge:
// both slide with the mesh, along the border that cuts them.
TEST(ContactGeometry, CornersNearerThanANudgeAreToldApart) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset><mesh name="brick" vertex="-.05 -.05 -.05 .05 -.05 -.05
        -.05 .05 -.05 .05 .05 -.05 -.05 -.05 .05 .05 -.05 .05 -.05 .05 .05 .05 .05 .05"/></asset>
      <worldbody><geom type="box" size="1 .015 .1"/><body pos="0 0.053300970189 .1495" euler="0 0 30">
        <joint type="slide" axis="0.866025403784438646 -0.5 0"/><geom type="mesh" mesh="brick"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 4);
  double nearest = 1;
  for (int c = 1; c < 4; c++)
    nearest = std::min(nearest, (Vec3Map(data->contact[c].pos) - Vec3Map(data->contact[0].pos)).norm());
  ASSERT_LT(nearest, 1e-6);
  ContactGeometry geometry(model.get());
  std::string missing;
  ASSERT_TRUE(geometry.Compute(model.get(), data.get(), &missing)) << missing;
  for (int c = 0; c < 4; c++) {
    EXPECT_LE((geometry.motion(c).by_geom2.block<3, 1>(1, 3) - Vec3::UnitX()).norm(), 1e-8) << c;
  }
}

// Cylinders in the same place: the differences of the first contact's pair end in a jump, its closed form does not.
// Each of the others has the same, and none is left out unsaid.
TEST(ContactGeometry, ContactsBesideOneThatJumpsAreTriedForThemselves) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom type="cylinder" size=".25 .1"/></body>
    <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom type="cylinder" size=".25 .1"/></body>
    </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 4);
  ContactGeometry geometry(model.get());
  std::string missing;
  EXPECT_EQ(geometry.Compute(model.get(), data.get(), &missing), missing.empty()) << missing;
  for (int c = 0; c < 4; c++) EXPECT_EQ(geometry.has_motion(c), missing.empty()) << c << " " << missing;
}

// Six prisms meet where lines of the grid cross. A ball above touches all of them in one point, and each contact moves
// by its own prism: those behind the ball tilt, those before it do not.
TEST(ContactGeometry, ContactsInOnePlaceAreToldApart) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset><hfield name="flat" nrow="5" ncol="5" size=".5 .5 .1 .1"
        elevation="0 0 0 0 0  0 0 0 0 0  0 0 0 0 0  0 0 0 0 0  0 0 0 0 1"/></asset>
      <worldbody><geom type="hfield" hfield="flat"/><body pos="0 0 .0995"><joint type="slide" axis="1 0 0"/>
        <joint type="slide" axis="0 0 1"/><geom size=".1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 6);
  for (int c = 1; c < 6; c++) ASSERT_EQ(ContactNumbersOf(data->contact[c]), ContactNumbersOf(data->contact[0]));
  ExpectEnginesMotions(model.get(), data.get(), 1e-6, 1e-4);  // what a nudge turns the normal by: 1e-6 / 0.1
}

// A prism of six sides on a box, one side flush with one of the box but for a third of a nudge: what they share ends at
// the one or at the other, and rates do not add up. Each joint has that of its own motion; where joints are more than
// the motions that they span, none is right for all.
TEST(ContactGeometry, AboutACornerEachJointHasItsOwnRate) {
  const auto make = [](const std::string& more) {
    return LoadModelFromString(R"(<mujoco><option><flag multiccd="enable"/></option><asset><mesh name="hex" vertex="
          .125 0 -.125  .0625 .125 -.125  -.0625 .125 -.125  -.125 0 -.125  -.0625 -.125 -.125  .0625 -.125 -.125
          .125 0 .125  .0625 .125 .125  -.0625 .125 .125  -.125 0 .125  -.0625 -.125 .125  .0625 -.125 .125"/></asset>
      <worldbody><geom type="box" size=".0625 .125 .25" pos=".07 0 0"/>
        <body pos="0 3e-7 .3749"><joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0"/>
          <joint type="slide" axis="1 1 0"/>)" +
                               more + R"(<geom type="mesh" mesh="hex"/></body></worldbody></mujoco>)");
  };
  const ModelPtr model = make(""), redundant = make("<joint type='slide' axis='0 1 0'/>");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_GE(data->ncon, 4);
  ExpectEnginesMotions(model.get(), data.get(), 1e-6, 1e-8);

  const DataPtr other = MakeData(redundant.get());
  mj_forward(redundant.get(), other.get());
  std::string missing;
  EXPECT_FALSE(ContactGeometry(redundant.get()).Compute(redundant.get(), other.get(), &missing));
  EXPECT_NE(missing.find("corner"), std::string::npos) << missing;
}

// The centre of a ball, or a capsule's segment, within a mesh: the collider searches on the round surface and its
// normal is one of a staircase. The exact contact has the normal of the face, which rests.
TEST(ContactGeometry, BallsDeepInAMeshHaveItsFacesNormal) {
  for (const char* geom : {"size='.02'", "type='capsule' size='.02 .05' euler='30 20 0'"}) {
    for (const double depth : {.01, .03}) {
      SCOPED_TRACE(std::string(geom) + " " + std::to_string(depth));
      const ModelPtr model = LoadModelFromString(R"(<mujoco><asset><mesh name="brick" vertex="-.2 -.2 -.1 .2 -.2 -.1
            -.2 .2 -.1 .2 .2 -.1 -.2 -.2 .1 .2 -.2 .1 -.2 .2 .1 .2 .2 .1"/></asset>
          <worldbody><geom type="mesh" mesh="brick"/><body pos=".03 .04 .12"><freejoint/><geom )" +
                                                 std::string(geom) + "/></body></worldbody></mujoco>");
      const DataPtr data = MakeData(model.get());
      mj_forward(model.get(), data.get());
      const double reach = data->ncon > 0 ? -data->contact[0].dist : 0;
      data->qpos[2] -= depth - reach;
      mj_forward(model.get(), data.get());
      ASSERT_EQ(data->ncon, 1);
      ASSERT_NEAR(data->contact[0].dist, -depth, 1e-5);
      EXPECT_EQ(IsStaircase(model.get(), data.get(), data->contact[0]), depth > .02);
      ContactGeometry geometry(model.get());
      std::string missing;
      ASSERT_TRUE(geometry.Compute(model.get(), data.get(), &missing)) << missing;
      const ContactMatrix& rates = geometry.motion(0).by_geom1();    // the mesh is the second
      EXPECT_LE(rates.bottomRows<3>().cwiseAbs().maxCoeff(), 1e-5);  // of the engine's normal, off by its square
      EXPECT_NEAR(std::abs(rates(0, 5)), 1, 1e-5);
    }
  }
}

// libccd finds further contacts of a pair by tilting both geoms by a thousandth about axes that it makes from those of
// the world. Such a contact has the normal of the resting mesh, tilted: it does not turn with the box, which moves.
TEST(ContactGeometry, WhatLibccdFindsByTiltingDoesNotTurnWithBothGeoms) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option><flag nativeccd="disable"/></option>
      <asset><mesh name="hex" vertex=".1 0 -.1  .05 .0866 -.1  -.05 .0866 -.1  -.1 0 -.1  -.05 -.0866 -.1  .05 -.0866 -.1
        .1 0 .1  .05 .0866 .1  -.05 .0866 .1  -.1 0 .1  -.05 -.0866 .1  .05 -.0866 .1"/></asset>
      <worldbody><body euler="90 0 0"><geom type="mesh" mesh="hex"/></body>
        <body pos="0 0 .1906685" euler="0 45 0"><joint axis="0 0 1" pos=".1 0 0"/><geom type="box" size=".1 .1 .05"/></body>
      </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 3.7e-4;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 2);
  ExpectEnginesMotions(model.get(), data.get(), 1e-6, 1e-7);
}

// A ball that rests on the ridge of a height field under libccd: its distance to each prism bends within micrometres of
// the point, towards one side alone.
TEST(ContactGeometry, CurvatureMayJumpAtThePoint) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".005" integrator="RK4">
        <flag nativeccd="disable"/></option>
      <asset><hfield name="ridge" nrow="5" ncol="5" size=".5 .5 .1 .1"
        elevation="0 0 0 0 0  0 0 0 0 0  1 1 1 1 1  0 0 0 0 0  0 0 0 0 0"/></asset>
      <worldbody><geom type="hfield" hfield="ridge"/><body pos=".125 0 .199" euler="45 0 0"><freejoint/>
        <geom size=".1" friction=".8"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int k = 0; k < 200; k++) mj_step(model.get(), data.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 2);
  ExpectEnginesMotions(model.get(), data.get(), 1e-8, 1e-4);
}

// The collider clips a mesh's face from whichever edge it comes by: both contacts are there at every nudge, 0.2 mm
// apart, but change places in the list.
TEST(ContactGeometry, ContactsThatChangePlacesInTheListAreTakenByWhereTheyAre) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset><mesh name="m" vertex="0.0226 0.011 0.00245
        0.0503 0.00641 -0.000243  0.0503 0.00644 -0.000868  0.0517 0.00467 -0.00132  0.00889 0.0564 -0.000402
        0.00776 0.0574 -0.000402"/></asset>
      <worldbody><body quat="0 1 0 1"><body pos="0 -.0435 -.001542" quat="0.999048 0.0436194 0 0">
          <geom type="box" size=".0098 .01375 .027" pos="0 0 .0434"/></body></body>
        <body euler="0 0 .1"><freejoint/><inertial pos="0 0 0" mass=".01" diaginertia="1e-5 1e-5 1e-5"/>
          <geom type="mesh" mesh="m" condim="1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ncon, 2);
  const StepDerivative closed = Linearize(model.get(), data.get(), {.level = Level::kAnalytic}),
                       differenced = Linearize(model.get(), data.get(), {.level = Level::kResidual});
  EXPECT_LE((closed.A - differenced.A).cwiseAbs().maxCoeff(), 1e-9 * differenced.A.cwiseAbs().maxCoeff());
}

// A cylinder in a mesh: where one contact of theirs jumps, others may have taken its place in the list, and rows are
// differenced by their places. Then none of the pair keeps a motion of its own.
TEST(ContactGeometry, APairOfWhichOneContactJumpsIsLeftAsAWhole) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><asset><mesh name="stone" vertex="
        0.0989 0 -0.00159 0.0962 0.0258 -0.00138 0.0851 0.0491 -0.00039 0.0719 0.0719 0.0012 0.0505 0.0875
        -0.00111 0.0259 0.0967 -0.00089 0 0.0987 -0.00158 -0.0256 0.0955 0.00171 -0.0507 0.0877 0.00123
        -0.0716 0.0716 -0.00123 -0.0859 0.0496 0.00051 -0.0975 0.0261 0.00142 -0.1015 0 -0.00165 -0.097
        -0.026 0.00069 -0.0866 -0.05 -0.00129 -0.0706 -0.0706 -0.00164 -0.0509 -0.0881 0.00146 -0.0259
        -0.0968 -0.0008 -0 -0.1016 0.00029 0.0263 -0.0981 0.00139 0.05 -0.0866 -0.00034 0.071 -0.071
        -0.00028 0.0854 -0.0493 -0.00078 0.0978 -0.0262 -0.00183 0 0 -0.1"/></asset>
      <worldbody><geom type="mesh" mesh="stone"/><body pos="0 0 .09"><freejoint/><geom type="cylinder" size=".03 .1"/></body>
      </worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  ContactGeometry geometry(model.get());
  int jumping = 0;
  for (int pose = 0; pose < 2000; pose++) {
    for (int i = 0; i < 7; i++)
      data->qpos[i] = (i == 3 ? 1 : i == 2 ? .095 : 0) + (i == 2 ? .004 : i < 2 ? .1 : 0.03) * uniform(random);
    mju_normalize4(data->qpos + 3);
    mj_forward(model.get(), data.get());
    std::string missing;
    geometry.Compute(model.get(), data.get(), &missing);
    bool jumps = false, moves = false;
    for (int c = 0; c < data->ncon; c++) {
      jumps = jumps || geometry.jumps(c);
      moves = moves || geometry.has_motion(c);
    }
    jumping += jumps && data->ncon > 1;
    EXPECT_FALSE(jumps && moves) << pose << " " << missing;
  }
  EXPECT_GT(jumping, 0);
}

}  // namespace
}  // namespace costate
