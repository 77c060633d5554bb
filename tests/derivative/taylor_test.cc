// f(x ⊕ t dx, u + t du) − f(x, u) − t (A dx + B du) falls as t²: the order over three decades, judged without any
// difference quotient.
#include <costate/derivative.h>
#include <costate/model.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/random_state.h"

namespace costate {
namespace {

using TaylorTest = support::EngineTest;

constexpr double kOrder = 1.9;

struct Remainder {
  ModelPtr model;  // solver converged to rounding
  DataPtr data;
  VectorXd point, x, u, next;
  Dims dims;

  Remainder(const mjModel* m, const mjData* d) : model(CopyModel(m)), data(MakeData(m)), dims(m) {
    model->opt.tolerance = 0;
    model->opt.iterations = 200;
    model->opt.solver = mjSOL_NEWTON;
    point.resize(mj_stateSize(m, mjSTATE_INTEGRATION));
    mj_getState(m, d, point.data(), mjSTATE_INTEGRATION);
    x = GetState(m, d);
    u = Eigen::Map<const VectorXd>(d->ctrl, dims.nu);
    next = Step(VectorXd::Zero(dims.ndx), VectorXd::Zero(dims.nu));
  }

  VectorXd Step(const VectorXd& dx, const VectorXd& du) {
    mj_setState(model.get(), data.get(), point.data(), mjSTATE_INTEGRATION);
    SetState(model.get(), data.get(), Retract(model.get(), x, dx));
    const VectorXd control = u + du;
    mju_copy(data->ctrl, control.data(), dims.nu);
    mj_step(model.get(), data.get());
    return GetState(model.get(), data.get());
  }

  double At(double t, const StepDerivative& derivative, const VectorXd& dx, const VectorXd& du) {
    VectorXd change(dims.ndx);
    Difference(model.get(), Step(t * dx, t * du), next, change);
    return (change - t * (derivative.A * dx + derivative.B * du)).norm();
  }
};

// the order of each of three decades from `largest` down
void ExpectOrder(const mjModel* model, const mjData* data, double largest, unsigned seed) {
  const StepDerivative derivative = Linearize(model, data, {.sensors = false});
  ASSERT_EQ(derivative.status, StepStatus::kOk);
  Remainder remainder(model, data);
  const VectorXd dx = support::RandomTangent(model, seed),
                 du = support::Random(seed + 1).Vector(static_cast<int>(model->nu));
  double t = largest, before = remainder.At(t, derivative, dx, du);
  for (int decade = 0; decade < 3; decade++) {
    t /= 10;
    const double now = remainder.At(t, derivative, dx, du);
    EXPECT_GE(std::log10(before / now), kOrder)
        << "between " << 10 * t << " and " << t << ": " << before << ", " << now;
    before = now;
  }
}

TEST_F(TaylorTest, RemainderIsOfSecondOrderInFreeMotion) {
  for (const char* name : {"acrobot", "arm", "cartpole", "humanoid", "quadrotor", "quadruped"}) {
    const ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + name + "/" + name + ".xml");
    model->opt.disableflags |= mjDSBL_CONTACT | mjDSBL_LIMIT;
    for (unsigned seed = 1; seed < 4; seed++) {
      SCOPED_TRACE(std::string(name) + ", state " + std::to_string(seed));
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), seed, {.position = 0.4, .velocity = 2}));
      const VectorXd u = support::RandomControl(model.get(), seed);
      mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
      ExpectOrder(model.get(), data.get(), 1e-2, seed + 10);
    }
  }
}

// the impedance bends within a millimetre: smaller steps
TEST_F(TaylorTest, RemainderIsOfSecondOrderInContact) {
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_RK4}) {
    for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
      SCOPED_TRACE(integrator * 10 + cone);
      const ModelPtr model = LoadModelFromString(R"(
        <mujoco><option timestep="0.003"/><worldbody><geom type="plane" size="5 5 1" solimp=".8 .95 .02"/>
          <body pos="0 0 .097" euler="5 3 0"><freejoint/><geom type="capsule" size=".1 .2" euler="90 0 0" solimp=".8 .95 .02" condim="4"/>
            <body pos="0 .1 .25"><joint axis="1 .2 0" damping=".2"/><geom type="box" size=".05 .05 .1"/></body></body></worldbody>
        </mujoco>)");
      model->opt.integrator = integrator;
      model->opt.cone = cone;
      const DataPtr data = MakeData(model.get());
      for (int k = 0; k < 40; k++) mj_step(model.get(), data.get());
      ASSERT_GE(data->ncon, 1);
      ExpectOrder(model.get(), data.get(), 1e-4, 5);
    }
  }
}

}  // namespace
}  // namespace costate
