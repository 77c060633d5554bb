// What the fingerprint of switches tells apart, one kind of it at a time: two points that differ in nothing else.
#include "derivative/switch_set.h"

#include <costate/model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/plastic.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using SwitchSetTest = support::EngineTest;

// mj_forward at a default state that is changed before
template <typename F>
SwitchSet SwitchesAt(const mjModel* model, F change) {
  const DataPtr data = MakeData(model);
  change(data.get());
  SwitchSet switches;
  switches.Clear();
  switches.Forward(model, data.get());
  return switches;
}

std::string Differing(const SwitchSet& a, const SwitchSet& b) {
  const char* name = a.DifferenceFrom(b);
  return name ? name : "";
}

// on the floor, pushed sideways, behind one sweep of the noslip pass
ModelPtr PushedBall(const std::string& option) {
  return LoadModelFromString("<mujoco><option noslip_iterations='1' " + option + R"(/><worldbody>
    <geom type="plane" size="1 1 1"/><body pos="0 0 .0999"><joint type="slide" axis="0 0 1"/>
      <joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="x"/></actuator></mujoco>)");
}

TEST_F(SwitchSetTest, BehindTheNoslipPassAContactThatSlipsIsNoContactThatSticks) {
  const ModelPtr model = PushedBall("cone='elliptic'");
  const auto at = [&](double push) { return SwitchesAt(model.get(), [=](mjData* d) { d->ctrl[0] = push; }); };
  EXPECT_EQ(Differing(at(8), at(9)), "");
  EXPECT_EQ(Differing(at(9), at(10)), "constraint states");
}

// the pass ends on the same bounds from either side of where an edge of the pyramid ceases to push in the minimum
TEST_F(SwitchSetTest, BehindTheNoslipPassTheMinimumItBeginsWithHasSwitches) {
  const ModelPtr model = PushedBall("");
  const auto at = [&](double push) { return SwitchesAt(model.get(), [=](mjData* d) { d->ctrl[0] = push; }); };
  EXPECT_EQ(Differing(at(5), at(5.2)), "");
  EXPECT_EQ(Differing(at(5), at(9)), "constraint states");
  EXPECT_EQ(Differing(at(9), at(10)), "");
}

TEST_F(SwitchSetTest, TheNumberOfNoslipSweepsIsASwitch) {
  // two joints that stay within their dry friction: the harder the push, the more sweeps until little improves
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option noslip_iterations="50" gravity="0 0 0"/><worldbody><body>
    <joint name="a" axis="0 1 0" frictionloss="1"/><geom type="capsule" size=".05" fromto="0 0 0 .3 0 0"/><body pos=".3 0 0">
    <joint axis="0 1 0" frictionloss="1"/><geom type="capsule" size=".05" fromto="0 0 0 .3 0 0"/></body></body></worldbody>
    <actuator><motor joint="a"/></actuator></mujoco>)");
  const auto at = [&](double push) { return SwitchesAt(model.get(), [=](mjData* d) { d->ctrl[0] = push; }); };
  EXPECT_EQ(Differing(at(0.5), at(0.5001)), "");
  EXPECT_EQ(Differing(at(0.2), at(0.5)), "constraint states");
}

TEST_F(SwitchSetTest, BehindTheNoslipPassDryFrictionAtItsBoundIsNotWithinIt) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option noslip_iterations="1"/><worldbody><body><joint name="x" type="slide" frictionloss="1"/>
      <geom size=".1" mass="1"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>)");
  const auto at = [&](double push) {
    return SwitchesAt(model.get(), [=](mjData* d) {
      d->ctrl[0] = push;
      d->qfrc_applied[0] = 9.81;
    });
  };
  EXPECT_EQ(Differing(at(0.5), at(0.6)), "");
  EXPECT_EQ(Differing(at(0.5), at(5)), "constraint states");
}

TEST_F(SwitchSetTest, ATendonThatTurnsAboutAnotherGeomTakesAnotherPath) {
  // both paths have as many points; which of the two pegs is among them hangs on which end is up
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody>
    <geom name="left" type="cylinder" size=".2 .1" pos="-.5 0 0" euler="90 0 0"/>
    <geom name="right" type="cylinder" size=".2 .1" pos=".5 0 0" euler="90 0 0"/>
    <body pos="-1 0 0"><joint type="slide" axis="0 0 1"/><geom size=".01" contype="0"/><site name="a"/></body><site name="b"/>
    <body pos="1 0 0"><joint type="slide" axis="0 0 1"/><geom size=".01" contype="0"/><site name="c"/></body></worldbody>
    <tendon><spatial><site site="a"/><geom geom="left"/><site site="b"/><geom geom="right"/><site site="c"/></spatial></tendon>
    </mujoco>)");
  const auto at = [&](double left, double right) {
    return SwitchesAt(model.get(), [=](mjData* d) {
      d->qpos[0] = left;
      d->qpos[1] = right;
    });
  };
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.1;
  data->qpos[1] = 1;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->ten_wrapnum[0], 5);
  EXPECT_EQ(Differing(at(0.1, 1), at(0.11, 1.1)), "");
  EXPECT_EQ(Differing(at(0.1, 1), at(1, 0.1)), "tendon paths");
}

TEST_F(SwitchSetTest, AContactInItsGapIsNoneThatPushes) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
    <body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom size=".1" gap=".02"/></body></worldbody></mujoco>)");
  const auto at = [&](double height) { return SwitchesAt(model.get(), [=](mjData* d) { d->qpos[0] = height; }); };
  EXPECT_EQ(Differing(at(0.015), at(0.016)), "");
  EXPECT_EQ(Differing(at(0.015), at(-0.005)), "contacts");
}

TEST_F(SwitchSetTest, AChoiceAmongContactsThatAreAlikeIsNeverTheSame) {
  // of the four corners of a level box any is the nearest; one that is turned has one
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body pos="0 0 .0999"><joint type="slide" axis="0 0 1"/><joint axis="1 0 0"/><joint axis="0 1 0"/>
      <geom type="box" size=".1 .1 .1"/></body></worldbody>
    <sensor><contact geom1="floor" reduce="mindist" data="dist"/></sensor></mujoco>)");
  const auto at = [&](double turn) {
    return SwitchesAt(model.get(), [=](mjData* d) { d->qpos[1] = d->qpos[2] = turn; });
  };
  EXPECT_TRUE(at(1e-4).SameChoice(at(2e-4), 0));
  EXPECT_FALSE(at(1e-4).SameChoice(at(-1e-4), 0));
  EXPECT_FALSE(at(0).SameChoice(at(0), 0));
}

TEST_F(SwitchSetTest, AStepThatMovesAPlasticSpringIsNoneThatLeavesIt) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><worldbody><body><joint type="slide" stiffness="1" springyield=".1"/>
    <geom size=".1"/></body></worldbody></mujoco>)");
  ASSERT_GT(model->nplastic, 0);
  const auto at = [&](double place) {
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = place;
    SwitchSet switches;
    switches.Clear();
    switches.Step(model.get(), data.get());
    return switches;
  };
  EXPECT_EQ(Differing(at(0.01), at(0.02)), "");
  EXPECT_EQ(Differing(at(0.01), at(0.3)), "plastic yielding");
}

// an open rod keeps the frames that its twist is measured from where others keep what has yielded
TEST_F(SwitchSetTest, FramesOfRodsDoNotYield) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="discrete"/><worldbody>
    <flexcomp name="rod" type="grid" count="4 1 1" spacing=".08 .08 .08" dim="1"><elasticity young="3e5" damping=".001"/>
    </flexcomp><body pos="0 0 1"><joint name="j" type="slide" stiffness="1" springyield=".1"/><geom size=".1"/></body>
    </worldbody></mujoco>)");
  ASSERT_EQ(model->nplastic, 21);
  const std::vector<char> yields = Yielding(model.get());
  EXPECT_EQ(std::count(yields.begin(), yields.end(), 1), 1);
  EXPECT_TRUE(yields[model->jnt_plasticadr[model->njnt - 1]]);
  const auto at = [&](double bend, double place) {
    const DataPtr data = MakeData(model.get());
    mj_step(model.get(), data.get());
    data->qpos[1] = bend;
    data->qpos[model->nq - 1] = place;
    SwitchSet switches;
    switches.Clear();
    switches.Step(model.get(), data.get());
    return switches;
  };
  EXPECT_EQ(Differing(at(0, 0.01), at(1e-3, 0.02)), "");
  EXPECT_EQ(Differing(at(0, 0.01), at(0, 0.3)), "plastic yielding");
}

// (H4) an edge of a flex that pulls is another one than one that pushes, where its ends move apart
TEST_F(SwitchSetTest, TensionsOfFlexesAreSwitchesUnderTheDiscreteIntegrator) {
  for (const std::string integrator : {"discrete", "Euler"}) {
    const ModelPtr model = LoadModelFromString("<mujoco><option gravity='0 0 0' integrator='" + integrator + R"('/>
      <worldbody><flexcomp name="f" type="grid" dim="2" count="2 2 1" spacing=".1 .1 .1" radius=".01" mass=".2">
        <elasticity young="1e4" poisson=".2" thickness="5e-3" elastic2d="stretch"/><contact selfcollide="none"/></flexcomp>
      </worldbody></mujoco>)");
    const auto at = [&](double longer, double velocity) {
      return SwitchesAt(model.get(), [&](mjData* d) {
        for (int i = 0; i < model->nv; i++) d->qvel[i] = velocity * i;
        d->qpos[0] -= longer;  // its corner
      });
    };
    const std::string expected = integrator == "discrete" ? "tensions of flexes" : "";
    EXPECT_EQ(Differing(at(1e-3, 0.1), at(2e-3, 0.1)), "");
    EXPECT_EQ(Differing(at(1e-3, 0.1), at(-1e-3, 0.1)), expected);
    EXPECT_EQ(Differing(at(1e-3, 0.1), at(0, 0)), "");
  }
}

}  // namespace
}  // namespace costate
