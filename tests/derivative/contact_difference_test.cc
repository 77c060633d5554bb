#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include <costate/model.h>

#include "derivative/contact_rates.h"
#include "derivative/random_touch.h"

namespace costate {
namespace {

// A ball beside the edge of a brick, as a mesh and as a box: the one is differenced, the other has a closed form. The
// edge is among the five points, and those are of two pieces, whichever of them it parts from the others, and by however
// little. The normal's rate jumps by 20 there.
TEST(ContactDifference, ABendAmongTheNudgesIsNotTakenForCurvature) {
  constexpr double kStep = 4e-6, kTolerance = 1e-8;
  std::vector<double> beside;
  for (double at = 0.3; at < 2.3; at += 0.05) beside.push_back(at * kStep);
  for (double past = 1e-12; past < 1e-7; past *= 2) {
    beside.push_back(kStep - past);
    beside.push_back(2 * kStep - past);
  }
  const auto make = [](const std::string& brick) {
    return LoadModelFromString(R"(<mujoco><asset><mesh name="brick" vertex="-.25 -.25 -.125 .25 -.25 -.125
          -.25 .25 -.125 .25 .25 -.125 -.25 -.25 .125 .25 -.25 .125 -.25 .25 .125 .25 .25 .125"/></asset>
        <worldbody><body euler="20 30 40"><geom )" +
                               brick + R"(/><body pos=".25 .03 .175"><joint type="slide" axis="1 0 0"/>
          <joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/><geom size=".053"/></body></body>
        </worldbody></mujoco>)");
  };
  const ModelPtr mesh = make("type='mesh' mesh='brick'"), box = make("type='box' size='.25 .25 .125'");
  const DataPtr differenced = MakeData(mesh.get()), closed = MakeData(box.get());
  for (const double side : {-1, 1}) {
    for (const double at : beside) {
      SCOPED_TRACE(fmt::format("{} beside the edge", side * at));
      differenced->qpos[0] = closed->qpos[0] = side * at;
      mj_forward(mesh.get(), differenced.get());
      mj_forward(box.get(), closed.get());
      ASSERT_EQ(differenced->ncon, 1);
      ASSERT_EQ(closed->ncon, 1);
      ContactGeometry by_differences(mesh.get()), by_form(box.get());
      std::string missing;
      ASSERT_TRUE(by_differences.Compute(mesh.get(), differenced.get(), &missing)) << missing;
      ASSERT_TRUE(by_form.Compute(box.get(), closed.get(), &missing)) << missing;
      EXPECT_FALSE(by_differences.bends(0));
      for (int dof = 0; dof < 3; dof++) {
        const ContactNumbers found = PredictedRate(mesh.get(), differenced.get(), by_differences.motion(0), 0, dof),
                             exact = PredictedRate(box.get(), closed.get(), by_form.motion(0), 0, dof);
        EXPECT_LE((found - exact).cwiseAbs().maxCoeff(), kTolerance * std::max(1.0, exact.cwiseAbs().maxCoeff()))
            << "dof " << dof << "\n"
            << found.transpose() << "\n"
            << exact.transpose();
      }
    }
  }
}

// Anyhow on a height field, with either collider: contacts move as its own at nudged poses, extrapolated from two sizes
// where these agree. Bends are among the nudges of some, and normals that libccd tilts by a thousandth turn nearly, not
// exactly, with a face.
TEST(ContactDifference, ContactsOnAHeightFieldMoveAsTheEnginesOwn) {
  constexpr double kStep = 1e-6, kBends = 1e-6, kTolerance = 8e-6;
  std::mt19937 random(8);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::normal_distribution<double> normal;
  int compared = 0;
  for (int pose = 0; pose < 1200; pose++) {
    const char *collider = pose % 3 ? "disable" : "enable", *shape = pose % 2 ? "box" : "capsule";
    const double x = .2 * uniform(random), y = .2 * uniform(random), z = .06 + .12 * uniform(random);
    const double q0 = normal(random), q1 = normal(random), q2 = normal(random), q3 = normal(random);
    const ModelPtr model = LoadModelFromString(fmt::format(
        R"(<mujoco><option><flag nativeccd="{}" multiccd="enable"/></option><asset><hfield name="hills" nrow="5" ncol="5"
        size=".4 .4 .1 .1" elevation="0 1 2 3 2  1 2 3 1 0  2 1 0 2 3  3 2 1 1 1  0 0 2 3 1"/></asset><worldbody>
        <geom type="hfield" hfield="hills" pos="0 0 -.1"/><body pos="{} {} {}" quat="{} {} {} {}"><freejoint/>
        <geom type="{}" size=".04 .08 .11" margin=".02"/></body></worldbody></mujoco>)",
        collider, x, y, z, q0, q1, q2, q3, shape));
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    if (data->ncon == 0) continue;
    ContactGeometry geometry(model.get());
    std::string missing;
    geometry.Compute(model.get(), data.get(), &missing);
    for (int dof = 0; dof < 6; dof++) {
      const auto near = EnginesRates(model.get(), data.get(), dof, kStep),
                 far = EnginesRates(model.get(), data.get(), dof, 2 * kStep);
      for (std::size_t c = 0; c < near.size() && near.size() == far.size(); c++) {
        const int k = static_cast<int>(c);
        const double scale = std::max(1.0, near[c].cwiseAbs().maxCoeff());
        if (!geometry.has_motion(k) || geometry.bends(k) || std::abs(data->contact[k].dist) < 1e-3) continue;
        if ((near[c] - far[c]).cwiseAbs().maxCoeff() > kBends * scale) continue;
        const ContactNumbers predicted = PredictedRate(model.get(), data.get(), geometry.motion(k), k, dof),
                             found = (4 * near[c] - far[c]) / 3;
        EXPECT_LE((predicted - found).cwiseAbs().maxCoeff(), kTolerance * scale)
            << collider << " " << shape << " pose " << pose << " contact " << c << " dof " << dof << "\n"
            << predicted.transpose() << "\n"
            << found.transpose();
        compared++;
      }
    }
  }
  EXPECT_GT(compared, 10000);
}

// Margins and gaps whose sum depends on the order in which they are added: the narrow phase repeats bit for bit all the
// same.
TEST(ContactDifference, AnyMarginAndGapAreFoundAgain) {
  for (const double margin : {.013, .02, .07}) {
    for (const double gap : {0., .003, .01}) {
      const std::string own = fmt::format("margin='{}' gap='{}'", margin, gap);
      const ModelPtr model = LoadModelFromString(TwoGeoms("size='.1' " + own, "type='mesh' mesh='wedge' " + own));
      const DataPtr data = MakeData(model.get());
      std::mt19937 random(4);
      for (int pose = 0; pose < 20; pose++) {
        RandomTouch(model.get(), data.get(), 1e-3 + 2 * gap + .1 * margin * pose, &random);
        std::string missing;
        ContactGeometry geometry(model.get());
        EXPECT_TRUE(geometry.Compute(model.get(), data.get(), &missing)) << own << ": " << missing;
      }
    }
  }
}

}  // namespace
}  // namespace costate
