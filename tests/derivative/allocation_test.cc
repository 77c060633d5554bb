// After the first call a derivative allocates nothing: counted in malloc itself.
#include <costate/derivative.h>

#include <gtest/gtest.h>

#include <string>

#include "derivative/allocations.h"
#include "derivative/flex_scene.h"
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
  const VectorXd sigma = VectorXd::Ones(model->nsensordata);
  if (sensors) {
    EXPECT_EQ(AllocationsOf([&] { linearizer.Vjp(x, u, lambda, sigma, &vjp); }), 0);
  }

  // with what mj_forward has left, and without
  const DataPtr forward = MakeData(model);
  mj_copyState(model, data, forward.get(), mjSTATE_INTEGRATION);
  for (const int iterations : {100, 1, 0}) {
    mjModel solver = *model;
    solver.opt.iterations = iterations;
    if (iterations > 0) mj_forward(&solver, forward.get());
    else mju_zero(forward->qacc, static_cast<int>(model->nv));
    EXPECT_EQ(AllocationsOf([&] { linearizer.LinearizeAfterForward(forward.get(), &derivative); }), 0) << iterations;
    EXPECT_EQ(AllocationsOf([&] { linearizer.VjpAfterForward(forward.get(), lambda, &vjp); }), 0) << iterations;
    EXPECT_EQ(derivative.status, StepStatus::kOk);
  }
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

// dampers whose part of M' moves, the whole of an M' that is not symmetric, an actuator of a ball joint
TEST(Allocation, IsNoneWhereDampingMoves) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option integrator="implicit" density="10"/><worldbody><site name="w" pos="0 0 1"/>
    <body><joint name="ball" type="ball" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
      <body pos=".3 0 0"><joint name="j" damping=".1 .2" axis="0 1 0"/><geom type="box" size=".1 .02 .02"/><site name="s"/></body>
    </body></worldbody>
    <tendon><spatial name="t" damping=".1 .3"><site site="w"/><site site="s"/></spatial></tendon>
    <actuator><position joint="ball" gear="1 0 0" kp="2" kv=".3"/><position tendon="t" kp="3" kv=".4"/><damper joint="j" ctrlrange="0 1" kv="2"/></actuator>
    </mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.1 * (i + 1);
  data->ctrl[2] = 0.5;
  for (const int integrator : {mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_EULER}) {
    model->opt.integrator = integrator;
    ExpectNone(model.get(), data.get(), false);
  }
}

// Balls on strings that knock against each other: contacts couple trees, now these, now those. Along a motion that was
// seen before all memory is there.
TEST(Allocation, IsNoneWhereContactsOfTreesComeAndGo) {
  std::string bodies;
  for (int i = 0; i < 4; i++) {
    const std::string x = std::to_string(0.21 * i);
    bodies +=
        "<body pos='" + x +
        " 0 1'><joint axis='0 1 0' pos='0 0 0'/><joint axis='1 0 0'/><geom size='.1' mass='1' pos='0 0 -.5'/></body>";
  }
  const ModelPtr model =
      LoadModelFromString("<mujoco><option timestep='.005'/><worldbody>" + bodies +
                          "<body pos='.6 0 .2'><freejoint/><geom type='box' size='.3 .1 .05'/></body>"
                          "<geom type='plane' size='2 2 1'/></worldbody></mujoco>");
  const DataPtr data = MakeData(model.get());
  Linearizer linearizer(model.get(), {.level = Level::kAnalytic});
  StepDerivative derivative;
  StepVjp vjp;
  const VectorXd u(0), lambda = VectorXd::Ones(2 * model->nv);
  for (const bool again : {false, true}) {
    mj_resetData(model.get(), data.get());
    data->qvel[0] = -4;
    data->qvel[6] = 3;
    data->qvel[3] = 0.5;
    int changes = 0, contacts = 0;
    for (int i = 0; i < 300; i++) {
      mj_step(model.get(), data.get());
      changes += data->ncon != contacts;
      contacts = data->ncon;
      const VectorXd x = GetState(model.get(), data.get()), context = GetContext(model.get(), data.get());
      const long before = support::allocations;
      linearizer.SetContext(context);
      linearizer.Linearize(x, u, &derivative);
      linearizer.Vjp(x, u, lambda, &vjp);
      const long taken = support::allocations - before;
      ASSERT_EQ(derivative.status, StepStatus::kOk);
      if (again) {
        ASSERT_EQ(taken, 0) << "step " << i;
      }
    }
    EXPECT_GT(changes, 10);
  }
}

// elements of flexes have more dofs or fewer, contacts come and go
TEST(Allocation, IsNoneForFlexes) {
  for (const bool draped : {false, true}) {
    SCOPED_TRACE(draped);
    const ModelPtr model =
        LoadModelFromString(draped ? DrapedScene("Euler", "elliptic", 3) : FlexScene("Euler", "pyramidal", 4));
    const DataPtr data = MakeData(model.get());
    for (int i = 0; i < 60; i++) mj_step(model.get(), data.get());
    ExpectNone(model.get(), data.get(), false);
  }
}

// what stretches and bends in the discrete integrator's metric, of which each piece couples dofs
TEST(Allocation, IsNoneForFlexesInTheMetric) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/gripper/gripper.xml");
  ASSERT_EQ(model->opt.integrator, mjINT_DISCRETE);
  const DataPtr data = MakeData(model.get());
  if (model->nkey > 0) mj_resetDataKeyframe(model.get(), data.get(), 0);
  const VectorXd x = GetState(model.get(), data.get()), u = VectorXd::Zero(model->nu);
  Linearizer linearizer(model.get());
  StepDerivative derivative;
  EXPECT_EQ(AllocationsOf([&] { linearizer.Linearize(x, u, &derivative); }), 0);
  EXPECT_EQ(derivative.status, StepStatus::kOk);
}

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
