// The knots at which a step takes another branch.
#include "viewer/switches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/engine_test.h"

namespace costate::viewer {
namespace {

using SwitchesTest = support::EngineTest;

constexpr int kKnots = 100, kFull = 30, kLess = 60;

// a ball falls and stays; a cart is driven against the end of its rail, by a control that reaches its bound and leaves it
constexpr char kFall[] = R"(
<mujoco><option timestep="0.005"/><worldbody>
  <geom name="floor" type="plane" size="2 2 .1"/>
  <body pos="0 0 .22"><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body>
  <body pos="0 1 1"><joint name="rail" type="slide" axis="1 0 0" range="-1 .1" limited="true"/><geom size=".1"/></body>
</worldbody><actuator><motor name="push" joint="rail" gear="40" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>)";

ViewSource Fall(const mjModel* model) {
  ViewSource source = FromModel(model, "", "fall");
  source.live = false;
  source.substeps = 1;
  MatrixXd U = MatrixXd::Constant(1, kKnots, 0.5);
  U.middleCols(kFull, kLess - kFull).setConstant(1);
  Simulator simulator(model, source.context, 1, 1);
  const VectorXd x0 = source.trajectory.X.col(0);
  EXPECT_TRUE(simulator.Rollout(x0, U, &source.trajectory).ok());
  return source;
}

TEST_F(SwitchesTest, AreFoundWhereContactsLimitsAndClampsBegin) {
  const ModelPtr model = LoadModelFromString(kFall);
  const ViewSource source = Fall(model.get());
  const auto first = [&](auto holds) {
    int t = 0;
    while (t <= kKnots && !holds(source.trajectory.X.col(t))) ++t;
    return t;
  };
  const int touch = first([](const auto&x) { return x[0] < -0.12; }),
            end = first([](const auto&x) { return x[1] > 0.1; });
  ASSERT_LT(std::max(touch, end), kKnots);

  SwitchFinder finder(source);
  EXPECT_TRUE(finder.found().empty());
  int calls = 0;
  while (finder.Advance(1e-9)) ++calls;  // a knot at a time
  EXPECT_EQ(calls, kKnots + 1);
  const auto at = [&](const std::string& what) {
    for (const ModeSwitch& change : finder.found()) {
      if (std::find(change.what.begin(), change.what.end(), what) != change.what.end()) return change;
    }
    return ModeSwitch{.knot = -1};
  };
  EXPECT_EQ(at("floor touches ball").knot, touch);
  EXPECT_TRUE(at("floor touches ball").contact);
  EXPECT_EQ(at("limit of rail").knot, end);
  EXPECT_FALSE(at("limit of rail").contact);
  EXPECT_EQ(at("limit of ctrl[push]").knot, kFull);
  EXPECT_EQ(at("free of limit of ctrl[push]").knot, kLess);  // and not at the last knot, which has no control

  // there and back
  const ModeSwitch* change = finder.After(-1);
  int count = 0, knot = -1;
  for (; change; change = finder.After(knot)) {
    EXPECT_GT(change->knot, knot);
    knot = change->knot;
    EXPECT_EQ(finder.Last(knot), change);
    ++count;
  }
  EXPECT_EQ(count, static_cast<int>(finder.found().size()));
  EXPECT_EQ(finder.Before(finder.found()[0].knot), nullptr);
  EXPECT_EQ(finder.Before(finder.found()[1].knot), &finder.found()[0]);
}

TEST_F(SwitchesTest, OfALiveSimulationAreNotLookedFor) {
  const ModelPtr model = LoadModelFromString(kFall);
  const ViewSource live = FromModel(model.get(), "", "fall");
  EXPECT_FALSE(SwitchFinder(live).Advance(1));
}

}  // namespace
}  // namespace costate::viewer
