#include <costate/derivative_check.h>
#include <costate/smooth_contact.h>

#include <gtest/gtest.h>

#include <cmath>

#include "support/comma_locale.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using SmoothModelTest = support::EngineTest;

// one ball above a floor; impedance grows linearly, so that the slope at touch is not zero
constexpr char kBall[] = R"(<mujoco model="ball"><option timestep="0.002"/><worldbody>
  <geom name="floor" type="plane" size="1 1 1" condim="1" solimp="0.9 0.95 0.001 0.5 1"/>
  <body name="ball" pos="0 0 0.1"><freejoint/><geom name="ball" size="0.1" mass="2" condim="1" solimp="0.9 0.95 0.001 0.5 1"/></body>
  </worldbody></mujoco>)";

// a box on its four corners and two balls: one beside it, one above
constexpr char kScene[] =
    R"(<mujoco model="scene"><option timestep="0.002" cone="elliptic"/><default><geom friction="0.5"/></default>
  <worldbody>
  <geom name="floor" type="plane" size="1 1 1" solimp="0.8 0.9 0.002"/>
  <body name="box" pos="0 0 0.0995"><freejoint/><geom name="box" type="box" size="0.1 0.1 0.1" mass="1" solref="0.03 0.9"/></body>
  <body name="left" pos="0.5 0 0.0996"><freejoint/><geom name="left" size="0.1" mass="1" priority="1" condim="4"/></body>
  <body name="right" pos="-0.5 0 0.1"><joint name="slide" type="slide" axis="0 0 1" limited="true" range="-0.05 1" frictionloss="0.4"/>
    <joint name="side" type="slide" axis="1 0 0"/><geom name="right" size="0.1" mass="1" solmix="3" condim="6"/></body>
  </worldbody>
  <contact><pair name="box on left" geom1="box" geom2="left"/></contact>
  <keyframe><key name="start" qpos="0 0 0.0995 1 0 0 0  0.5 0 0.0996 1 0 0 0  0.0004 0"/></keyframe></mujoco>)";

double NextVelocity(const mjModel* model, mjData* data, double height, double speed) {
  mj_resetData(model, data);
  data->qpos[2] = height;
  data->qvel[2] = speed;
  mj_forward(model, data);
  return speed + model->opt.timestep * data->qacc[2];
}

// at touch the true step jumps, so that a quotient grows as 1/eps; with onset all that is left of
// it is the jump reported
TEST_F(SmoothModelTest, OnsetGivesQuotientsAtTouchDownALimit) {
  const ModelPtr model = LoadModelFromString(kBall);
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.onset = 0.005});
  const DataPtr data = MakeData(model.get());
  const double h = model->opt.timestep, speed = -0.1, eps[] = {1e-4, 1e-6, 1e-8};
  const auto quotient = [&](const mjModel* m, double e) {
    return (NextVelocity(m, data.get(), 0.1 + e, speed) - NextVelocity(m, data.get(), 0.1 - e, speed)) / (2 * e);
  };
  for (int k = 0; k < 2; k++) EXPECT_NEAR(quotient(model.get(), eps[k + 1]) / quotient(model.get(), eps[k]), 100, 3);
  EXPECT_LT(quotient(model.get(), 1e-4), -100);

  // a = (1 − d) g + d aref, aref = −b v: stop is what a hard constraint would add to the
  // acceleration
  ASSERT_EQ(smooth.changes.size(), 1u);
  const double b = 2 / (0.95 * 0.02), stop = -b * speed + 9.81, jump = h * smooth.changes[0].jump_after * stop;
  EXPECT_DOUBLE_EQ(smooth.changes[0].jump_before, 0.9);
  const double limit = -0.5 * h * (0.95 - 1e-4) / 0.005 * stop;
  for (double e : eps)
    EXPECT_NEAR(quotient(smooth.model.get(), e) + jump / (2 * e), limit, e == 1e-4 ? 0.15 : 0.002) << e;
}

// the derivative of a smoothed model is that of its step: against differences with error bars, in
// contact
TEST_F(SmoothModelTest, DerivativesAreThoseOfTheSmoothedStep) {
  const ModelPtr model = LoadModelFromString(kScene);
  const SmoothContact cases[] = {{.onset = 0.004},
                                 {.softness = 0.1},
                                 {.distance = 0.01},
                                 {.friction = 20},
                                 {.onset = 0.002, .softness = 0.05, .distance = 0.003, .friction = 5},
                                 {.onset = 0.003,
                                  .distance = 0.004,
                                  .friction = 30,
                                  .targets = {.geoms = {"right"}, .pairs = {{"floor", "box"}}}}};
  for (const SmoothContact& options : cases) {
    const SmoothModel smooth = MakeSmoothModel(model.get(), options);
    SCOPED_TRACE(smooth.label);
    const DataPtr data = MakeDataAtKey(smooth.model.get(), "start");
    data->qvel[0] = 0.05;
    data->qvel[8] = -0.1;
    data->qvel[13] = 0.4;
    data->qpos[1] = 0.003;
    for (int k = 0; k < 3; k++) mj_step(smooth.model.get(), data.get());
    const ReferenceDerivative reference = Reference(smooth.model.get(), data.get());
    const DerivativeComparison compared =
        Compare(smooth.model.get(), Linearize(smooth.model.get(), data.get()), reference);
    EXPECT_TRUE(compared.agrees);
    int judged = 0;
    for (const BlockComparison& block : compared.blocks) judged += block.judged;
    EXPECT_GT(judged, 200);
  }
}

// naming geoms makes pairs with the parameters that the engine mixes: without a strategy the motion
// is the same, bit for bit
TEST_F(SmoothModelTest, NamingAloneChangesNothing) {
  const ModelPtr model = LoadModelFromString(kScene);
  for (const char* geom : {"box", "left", "right", "floor"}) {
    SCOPED_TRACE(geom);
    const SmoothModel named = MakeSmoothModel(model.get(), {.targets = {.geoms = {geom}}});
    EXPECT_GT(named.model->npair, model->npair);
    const DataPtr a = MakeDataAtKey(model.get(), "start"), b = MakeDataAtKey(named.model.get(), "start");
    a->qvel[0] = b->qvel[0] = 1;
    a->qvel[14] = b->qvel[14] = -1;
    for (int k = 0; k < 200; k++) {
      mj_step(model.get(), a.get());
      mj_step(named.model.get(), b.get());
    }
    EXPECT_EQ(a->ncon, b->ncon);
    EXPECT_TRUE(BitwiseEqual(GetState(model.get(), a.get()), GetState(named.model.get(), b.get())));
  }
}

// (S1) with everything that is mixed: margins and gaps, formats of solref, solmix, priority, adhesion
TEST_F(SmoothModelTest, NamedContactsAreMixedAsTheEngineMixesThem) {
  const std::pair<const char*, const char*> pairs[] = {
      {"margin='.01' gap='.002' friction='.7 .01 .001' solmix='2'", "margin='.02' gap='.003' friction='.3 .02 .002'"},
      {"solref='-3000 -50' solimp='.8 .9 .002'", "solref='-5000 -20' solmix='3' condim='6'"},
      {"solref='-3000 -50'", "solref='.03 .7'"},
      {"priority='2' friction='.7 .01 .001' solref='.05 .5' adhesion='2'",
       "priority='1' friction='.9 .02 .002' adhesion='3' condim='4'"},
      {"adhesion='2' solmix='0'", "adhesion='3' solimp='.5 .6 .01'"},
      {"solmix='0'", "solmix='0' solref='.04 1'"}};
  for (const auto& [first, second] : pairs) {
    SCOPED_TRACE(std::string(first) + " | " + second);
    const ModelPtr model = LoadModelFromString(
        std::string("<mujoco><worldbody><geom name='a' type='plane' size='1 1 1' ") + first +
        "/><body pos='0 0 .099'><freejoint/><geom name='b' size='.1' " + second + "/></body></worldbody></mujoco>");
    const SmoothModel named = MakeSmoothModel(model.get(), {.targets = {.pairs = {{"a", "b"}}}});
    const DataPtr engine = MakeData(model.get()), pair = MakeData(named.model.get());
    mj_forward(model.get(), engine.get());
    mj_forward(named.model.get(), pair.get());
    ASSERT_EQ(engine->ncon, 1);
    ASSERT_EQ(pair->ncon, 1);
    const mjContact &a = engine->contact[0], &b = pair->contact[0];
    EXPECT_EQ(a.dim, b.dim);
    EXPECT_EQ(a.includemargin, b.includemargin);
    for (int i = 0; i < 5; i++) EXPECT_EQ(a.friction[i], b.friction[i]) << i;
    for (int i = 0; i < mjNREF; i++) EXPECT_EQ(a.solref[i], b.solref[i]) << i;
    for (int i = 0; i < mjNIMP; i++) EXPECT_EQ(a.solimp[i], b.solimp[i]) << i;
    for (int i = 0; i < 6; i++) EXPECT_EQ(engine->qacc[i], pair->qacc[i]) << i;

    // torn off, against what adhesion there is
    engine->xfrc_applied[8] = pair->xfrc_applied[8] = 200;
    mj_forward(model.get(), engine.get());
    mj_forward(named.model.get(), pair.get());
    for (int i = 0; i < 6; i++) EXPECT_EQ(engine->qacc[i], pair->qacc[i]) << i;

    // and where they begin
    for (double height : {.1001, .1051, .1249, .1251, .1299, .1301, .13499, .13501}) {
      engine->qpos[2] = pair->qpos[2] = height;
      mj_forward(model.get(), engine.get());
      mj_forward(named.model.get(), pair.get());
      EXPECT_EQ(engine->ncon, pair->ncon) << height;
      EXPECT_EQ(engine->nefc, pair->nefc) << height;
      EXPECT_EQ(engine->qacc[2], pair->qacc[2]) << height;
    }
  }
}

TEST_F(SmoothModelTest, WhatIsNotNamedStaysBitForBit) {
  const ModelPtr model = LoadModelFromString(kScene);
  const SmoothModel smooth =
      MakeSmoothModel(model.get(), {.onset = 0.01, .softness = 0.2, .distance = 0.05, .targets = {.geoms = {"left"}}});
  EXPECT_EQ(mj_name2id(smooth.model.get(), mjOBJ_KEY, "start"), 0);
  const int pair = mj_name2id(smooth.model.get(), mjOBJ_PAIR, "box on left");
  ASSERT_GE(pair, 0);
  EXPECT_EQ(smooth.model->geom_bodyid[smooth.model->pair_geom2[pair]], mj_name2id(model.get(), mjOBJ_BODY, "left"));
  EXPECT_EQ(smooth.model->pair_solimp[mjNIMP * pair], 0);

  // the left ball far up, nothing named acts: the rest moves as before
  const DataPtr a = MakeDataAtKey(model.get(), "start"), b = MakeDataAtKey(smooth.model.get(), "start");
  for (mjData* data : {a.get(), b.get()}) {
    data->qpos[9] = 3;
    data->qvel[0] = 0.7;
    data->qvel[13] = 0.2;
  }
  for (int k = 0; k < 100; k++) {
    mj_step(model.get(), a.get());
    mj_step(smooth.model.get(), b.get());
  }
  EXPECT_GT(a->ncon, 3);
  EXPECT_TRUE(BitwiseEqual(GetState(model.get(), a.get()), GetState(smooth.model.get(), b.get())));

  // and the user's model is as it was
  const ModelPtr again = LoadModelFromString(kScene);
  EXPECT_EQ(SerializeModel(again.get()), SerializeModel(model.get()));
}

TEST_F(SmoothModelTest, NoStrategyIsACopy) {
  const ModelPtr model = LoadModelFromString(kScene);
  EXPECT_EQ(SerializeModel(MakeSmoothModel(model.get(), {}).model.get()), SerializeModel(model.get()));
  EXPECT_EQ(SerializeModel(MakeSmoothModel(model.get(), ScaleSmooth({.onset = 1, .friction = 3}, 0)).model.get()),
            SerializeModel(model.get()));
}

// a ball held 5 mm above the floor: no force in truth, some from a distance of 1 cm, and it grows
// as the ball comes nearer
TEST_F(SmoothModelTest, DistancePushesBeforeTouch) {
  const ModelPtr model = LoadModelFromString(kBall);
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.distance = 0.01});
  const DataPtr data = MakeData(model.get());
  const auto force = [&](const mjModel* m, double gap) {
    return NextVelocity(m, data.get(), 0.1 + gap, 0) + m->opt.timestep * 9.81;
  };
  EXPECT_EQ(force(model.get(), 0.005), 0);
  EXPECT_EQ(force(smooth.model.get(), 0.0101), 0);
  double last = 0;
  for (double gap : {0.0099, 0.008, 0.006, 0.004, 0.002, 0.0}) {
    EXPECT_GT(force(smooth.model.get(), gap), last) << gap;
    last = force(smooth.model.get(), gap);
  }
  EXPECT_LT(force(smooth.model.get(), 0.00999), 0.002 * force(smooth.model.get(), 0));
}

// a ball at rest is one row: a = (1 − d) g + d aref, aref = −k d r, with the impedance d that (S3) and (S4) say at each
// depth
TEST_F(SmoothModelTest, ImpedanceIsAsWrittenAtEachDepth) {
  const ModelPtr model = LoadModelFromString(kBall);  // impedance grows linearly up to 0.95
  const double k = 1 / (0.95 * 0.95 * 0.02 * 0.02);
  for (const SmoothContact& options : {SmoothContact{.onset = 0.005}, SmoothContact{.distance = 0.01},
                                       SmoothContact{.onset = 0.002, .distance = 0.004}}) {
    const SmoothModel smooth = MakeSmoothModel(model.get(), options);
    SCOPED_TRACE(smooth.label);
    const double begin = options.distance, width = begin + (options.onset > 0 ? options.onset : 0.001);
    const DataPtr data = MakeData(smooth.model.get());
    for (double part : {0.1, 0.5, 0.9, 1.3}) {
      const double r = -part * width, d = 1e-4 + std::min(part, 1.0) * (0.95 - 1e-4);
      data->qpos[2] = 0.1 + begin + r;
      mj_forward(smooth.model.get(), data.get());
      const double expected = -(1 - d) * 9.81 - d * k * d * r;
      EXPECT_NEAR(data->qacc[2], expected, 1e-6 * std::abs(expected) + 1e-9) << part;
    }
  }
}

// bodies with several geoms are found through the margin of the body, up to the last part of the distance
TEST_F(SmoothModelTest, DistanceReachesBodiesOfManyGeoms) {
  std::string geoms;
  for (int i = 0; i < 8; i++) geoms += "<geom size='0.02' pos='" + std::to_string(0.1 * i) + " 0 0' mass='0.1'/>";
  const ModelPtr model =
      LoadModelFromString("<mujoco><worldbody><body>" + geoms + "<freejoint/></body><body pos='0 0 0.05'>" + geoms +
                          "<freejoint/></body></worldbody></mujoco>");
  const SmoothModel smooth = MakeSmoothModel(model.get(), {.distance = 0.01005});
  const DataPtr data = MakeData(smooth.model.get());
  mj_forward(smooth.model.get(), data.get());
  EXPECT_EQ(data->ncon, 8);
}

TEST_F(SmoothModelTest, SoftnessKeepsTheRatioOfDamping) {
  const std::string head = "<mujoco><worldbody><geom name='a' type='plane' size='1 1 1' solref='";
  const std::string tail = "'/><body><freejoint/><geom size='1'/></body></worldbody></mujoco>";
  const ModelPtr standard = LoadModelFromString(head + "0.02 0.7" + tail),
                 direct = LoadModelFromString(head + "-10000 -100" + tail);
  const SmoothModel a = MakeSmoothModel(standard.get(), {.softness = 0.1}),
                    b = MakeSmoothModel(direct.get(), {.softness = 0.1});
  EXPECT_DOUBLE_EQ(a.model->geom_solref[0], 0.1);
  EXPECT_DOUBLE_EQ(a.model->geom_solref[1], 0.7);
  EXPECT_NEAR(2 / -b.model->geom_solref[1], 0.1, 1e-15);  // b = 2 / time constant
  EXPECT_NEAR(-b.model->geom_solref[1] / std::sqrt(-b.model->geom_solref[0]), 100 / std::sqrt(10000), 1e-12);
  const ModelPtr undamped = LoadModelFromString(head + "-10000 0" + tail);  // its time is 1/√k
  const SmoothModel c = MakeSmoothModel(undamped.get(), {.softness = 0.1});
  EXPECT_NEAR(c.model->geom_solref[0], -1 / (0.1 * 0.1), 1e-9);
  EXPECT_EQ(c.model->geom_solref[1], 0);
  const SmoothModel same = MakeSmoothModel(standard.get(), {.softness = 0.001});
  EXPECT_DOUBLE_EQ(same.model->geom_solref[0], 0.02);
  EXPECT_NE(same.changes[0].motion.find("two timesteps"), std::string::npos);
}

TEST_F(SmoothModelTest, ErrorsNameWhatIsWrong) {
  const ModelPtr model = LoadModelFromString(kScene);
  const auto make = [&](const SmoothContact& options) { MakeSmoothModel(model.get(), options); };
  EXPECT_ERROR(make({.onset = 1, .targets = {.geoms = {"bxo"}}}), ErrorCode::kInvalidArgument, "no geom 'bxo'", "'box'",
               "'scene'");
  EXPECT_ERROR(make({.onset = 1, .targets = {.joints = {"slid"}}}), ErrorCode::kInvalidArgument, "no joint 'slid'",
               "'slide'");
  EXPECT_ERROR(make({.onset = -1}), ErrorCode::kInvalidArgument, "onset is -1");
  EXPECT_ERROR(make({.distance = NAN}), ErrorCode::kInvalidArgument, "distance is nan");
  EXPECT_ERROR(make({.onset = 1, .targets = {.pairs = {{"box", "box"}}}}), ErrorCode::kInvalidArgument, "never touch");
  EXPECT_ERROR(MakeSmoothModel(nullptr, {.onset = 1}), ErrorCode::kInvalidArgument, "the model is NULL");
  EXPECT_ERROR(ParseSmooth(nullptr, "auto"), ErrorCode::kInvalidArgument, "the model is NULL");
  model->opt.cone = mjCONE_PYRAMIDAL;
  EXPECT_ERROR(make({.friction = 1, .targets = {.geoms = {"box"}}}), ErrorCode::kInvalidArgument, "elliptic");
  EXPECT_ERROR(ParseSmooth(model.get(), "onset,soft"), ErrorCode::kInvalidArgument, "'soft'", "softness");
  EXPECT_ERROR(ParseSmooth(model.get(), "onset:x"), ErrorCode::kInvalidArgument, "'x' is no strength");
  EXPECT_ERROR(ParseSmooth(model.get(), "onset:1,friction,onset:2"), ErrorCode::kInvalidArgument, "'onset:2'",
               "onset is given twice");
  EXPECT_ERROR(ParseSmooth(model.get(), "friction,friction"), ErrorCode::kInvalidArgument, "friction is given twice");
  EXPECT_ERROR(ParseSmooth(model.get(), "distance:1,auto"), ErrorCode::kInvalidArgument, "distance is given twice");
  EXPECT_ERROR(ParseSmoothTargets("geo:box"), ErrorCode::kInvalidArgument, "'geo:box'");
  EXPECT_EQ(ToString(ParseSmooth(model.get(), "onset:0.01,friction:5")), "onset 0.01 m, friction 5 1/s");
  EXPECT_EQ(ParseSmoothTargets("pair:a/b,joint:c").pairs[0].geom2, "b");
}

TEST_F(SmoothModelTest, StrengthsAreReadAlikeInEveryLocale) {
  const support::CommaLocale locale;
  const ModelPtr model = LoadModelFromString(kBall);
  EXPECT_EQ(ToString(ParseSmooth(model.get(), "onset:0.01,friction:.5")), "onset 0.01 m, friction 0.5 1/s");
}

}  // namespace
}  // namespace costate
