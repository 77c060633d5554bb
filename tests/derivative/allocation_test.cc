// After the first call a derivative allocates nothing: counted in malloc itself.
#include <costate/derivative.h>

#include <gtest/gtest.h>

#include <string>

#include "derivative/allocations.h"
#include "support/count_allocations.h"

namespace costate {

long Allocations() { return support::allocations; }

namespace {

// of the third call
template <typename Call>
long AllocationsOf(const Call& call) {
  call();
  call();
  const long before = support::allocations;
  call();
  return support::allocations - before;
}

// at the state of `data`
void ExpectNone(const mjModel* model, const mjData* data, bool sensors) {
  SCOPED_TRACE("integrator " + std::to_string(model->opt.integrator) + (sensors ? ", sensors" : ""));
  const VectorXd x = GetState(model, data), u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  Linearizer linearizer(model, {.level = Level::kAnalytic, .sensors = sensors});
  linearizer.SetContext(GetContext(model, data));
  StepDerivative derivative;
  EXPECT_EQ(AllocationsOf([&] { linearizer.Linearize(x, u, &derivative); }), 0);
  ASSERT_EQ(derivative.status, StepStatus::kOk);
  StepVjp vjp;
  const VectorXd lambda = VectorXd::Ones(2 * model->nv + model->na);
  EXPECT_EQ(AllocationsOf([&] { linearizer.Vjp(x, u, lambda, &vjp, true); }), 0);
}

// legs in contact, limits, friction loss, activations, sensors of all stages
class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, IsOverAfterTheFirstCall) {
  const ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + GetParam());
  const DataPtr data = MakeData(model.get());
  if (model->nkey > 0) mj_resetDataKeyframe(model.get(), data.get(), 0);
  for (int i = 0; i < 200; i++) mj_step(model.get(), data.get());
  for (const bool sensors : {false, true}) ExpectNone(model.get(), data.get(), sensors);
  model->opt.integrator = mjINT_RK4;
  ExpectNone(model.get(), data.get(), false);
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest,
                         ::testing::Values("arm/arm.xml", "hopper/hopper.xml", "pendulum/pendulum.xml",
                                           "quadruped/quadruped.xml", "humanoid/humanoid.xml", "box_push/box_push.xml",
                                           "bouncing_ball/bouncing_ball.xml"));

// (C22) rows at the engine's least R that leave something free, among others, and that leave nothing
TEST(Allocation, IsNoneForTheHardestRowsEither) {
  for (const char* elbow : {"", "<body pos='0 0 .2'><joint axis='1 2 0'/><geom size='.05' mass='.1'/></body>"}) {
    const ModelPtr model = LoadModelFromString(
        std::string(
            "<mujoco><worldbody><body name='b'><joint type='ball'/><geom type='ellipsoid' size='.11 .04 .07'/>") +
        elbow + "</body></worldbody><equality><connect body1='b' anchor='-.01 -.07 .03'/></equality></mujoco>");
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->efc_R[0], mjMINVAL);
    ExpectNone(model.get(), data.get(), false);
  }
}

}  // namespace
}  // namespace costate
