// Impacts of all shapes on all shapes: distances, gradients and jumps are smooth to rounding, also where the engine's
// are not.
#include <costate/impact.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "smooth/event_differences.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using support::MatricesNear;

// a free body tumbles onto a fixed one
ModelPtr Scene(const std::string& falling, const std::string& floor) {
  return LoadModelFromString(R"(<mujoco><option timestep='.01' integrator='RK4'/><asset>
    <mesh name='small' vertex='0 0 0 .2 0 0 0 .2 0 0 0 .2 .15 .15 .1'/>
    <mesh name='large' vertex='1 1 -.5 1 -1 -.5 -1 1 -.5 -1 -1 -.5 1 1 .5 1 -1 .5 -1 1 .5 -1 -1 .4'/>
    <hfield name='field' nrow='3' ncol='3' size='2 2 .2 .1' elevation='0 1 0 1 2 1 0 1 1'/></asset>
    <worldbody><geom name='floor' )" +
                             floor + R"( euler='5 3 0'/>
      <body pos='.1 .05 2.5'><freejoint/><geom name='falling' )" +
                             falling + "/></body></worldbody></mujoco>");
}

// the state two steps before the first impact
VectorXd ShortlyBefore(const mjModel* model) {
  VectorXd x = GetState(model, MakeData(model).get()), before = x;
  x.segment(3, 4) << 0.8, 0.3, -0.4, 0.33;
  mju_normalize4(x.data() + 3);
  x.segment(7, 6) << 0.2, -0.3, -4, 1, -0.7, 0.5;
  ImpactLinearizer linearizer(model);
  ImpactStep step;
  for (int t = 0; t < 100; ++t) {
    linearizer.Step(x, VectorXd(), &step);
    if (step.status != ImpactStatus::kOk || !step.impacts.empty()) return before;
    before = x;
    x = step.x_next;
  }
  ADD_FAILURE() << "no impact";
  return before;
}

const char* kFalling[] = {
    "type='sphere' size='.1'",        "type='capsule' size='.05 .15'", "type='ellipsoid' size='.1 .15 .08'",
    "type='cylinder' size='.08 .12'", "type='box' size='.1 .12 .07'",  "type='mesh' mesh='small'"};
const char* kFloor[] = {"type='plane' size='5 5 1'",   "type='sphere' size='1'",
                        "type='capsule' size='.5 .7'", "type='ellipsoid' size='1 1.2 .8'",
                        "type='cylinder' size='1 .5'", "type='box' size='1 1 .5'",
                        "type='mesh' mesh='large'"};

class ImpactShapesTest : public support::EngineTest,
                         public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(ImpactShapesTest, AgreeWithDifferencesOfTheEventModel) {
  const ModelPtr model = Scene(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const VectorXd x = ShortlyBefore(model.get());
  ImpactOptions options;
  options.substeps = 4;
  options.restitution = 0.7;
  ImpactLinearizer linearizer(model.get(), options);
  ImpactStep step, again;
  linearizer.Linearize(x, VectorXd(), &step);
  ASSERT_EQ(step.status, ImpactStatus::kOk) << step.message;
  ASSERT_GE(step.impacts.size(), 1u);

  // a mesh's contact point on a plane is the engine's own: off the corner by some 1e-9 m
  const bool coarse = model->geom_type[0] == mjGEOM_PLANE && model->geom_type[1] == mjGEOM_MESH;
  const double tolerance = (coarse ? 3e-7 : 3e-8) * step.A.cwiseAbs().maxCoeff();
  EXPECT_TRUE(MatricesNear(step.A, EventDifferences(model.get(), x, VectorXd(), options, 2e-5, true), tolerance,
                           TangentNames(model.get())));

  // nothing is left over from call to call
  linearizer.Step(x, VectorXd(), &again);
  EXPECT_TRUE(support::BitwiseEqual(again.x_next, step.x_next));
}

INSTANTIATE_TEST_SUITE_P(All, ImpactShapesTest,
                         ::testing::Combine(::testing::ValuesIn(kFalling), ::testing::ValuesIn(kFloor)));

// What stays exact to the collider's tolerance only is refused with the size of the error, not returned.
TEST(ImpactShapes, ACurvedSurfaceOnAHeightFieldIsRefused) {
  const ModelPtr model = Scene(kFalling[2], "type='hfield' hfield='field'");
  ImpactOptions options;
  options.substeps = 4;
  ImpactLinearizer linearizer(model.get(), options);
  ImpactStep step;
  linearizer.Linearize(ShortlyBefore(model.get()), VectorXd(), &step);
  EXPECT_EQ(step.status, ImpactStatus::kInexact) << step.message;
  EXPECT_NE(step.message.find("geoms 'floor' and 'falling'"), std::string::npos) << step.message;
  EXPECT_EQ(step.A.size(), 0);
}

}  // namespace
}  // namespace costate
