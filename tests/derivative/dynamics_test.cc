// Derivatives of forward and inverse dynamics in continuous time, and the pull-back to applied forces.
#include <costate/derivative.h>

#include <cmath>
#include <functional>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using DynamicsTest = support::EngineTest;

constexpr double kSmooth = 1e-8;  // of a block's largest entry: five-point differences of a residual stiff in q

// (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h
VectorXd FivePoint(const std::function<VectorXd(double)>& f, double h) {
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

struct Point {
  VectorXd x, u, context;
  explicit Point(const mjModel* model, const mjData* data)
      : x(GetState(model, data)),
        u(Eigen::Map<const VectorXd>(data->ctrl, model->nu)),
        context(GetContext(model, data)) {}
};

// the converged acceleration at a state, a control and an applied force
VectorXd Forward(const mjModel* model, const Point& point, const VectorXd& dx, const VectorXd& du, const VectorXd& df) {
  mjModel tight = *model;
  tight.opt.tolerance = 0;
  tight.opt.iterations = 100;
  tight.opt.solver = mjSOL_NEWTON;
  const DataPtr d = MakeData(model);
  SetContext(model, d.get(), point.context);
  SetState(model, d.get(), Retract(model, point.x, dx));
  Eigen::Map<VectorXd>(d->ctrl, model->nu) = point.u + du;
  Eigen::Map<VectorXd>(d->qfrc_applied, model->nv) += df;
  mj_forward(&tight, d.get());
  return Eigen::Map<VectorXd>(d->qacc, model->nv);
}

TEST_F(DynamicsTest, AccelerationAgreesWithItsDifferencesAtEveryLevel) {
  for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.cone = cone;
    const DataPtr data = support::DrivenData(model.get(), 60);
    ASSERT_GE(data->ncon, 3);
    const Dims dims(model.get());
    const Point point(model.get(), data.get());
    MatrixXd x(dims.nv, dims.ndx), u(dims.nv, dims.nu), force(dims.nv, dims.nv);
    const auto column = [&](int kind, int i) {
      return FivePoint(
          [&](double h) {
            VectorXd d[3] = {VectorXd::Zero(dims.ndx), VectorXd::Zero(dims.nu), VectorXd::Zero(dims.nv)};
            d[kind][i] = h;
            return Forward(model.get(), point, d[0], d[1], d[2]);
          },
          kind == 0 && i < dims.nv ? 1e-6 : 1e-5);
    };
    for (int i = 0; i < dims.ndx; i++) x.col(i) = column(0, i);
    for (int i = 0; i < dims.nu; i++) u.col(i) = column(1, i);
    for (int i = 0; i < dims.nv; i++) force.col(i) = column(2, i);
    const VectorXd qacc =
        Forward(model.get(), point, VectorXd::Zero(dims.ndx), VectorXd::Zero(dims.nu), VectorXd::Zero(dims.nv));

    // the integrator and the substeps have no part in it
    for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT}) {
      model->opt.integrator = integrator;
      for (Level level : {Level::kBest, Level::kResidual, Level::kStep}) {
        if (integrator != mjINT_EULER && level != Level::kBest) continue;
        SCOPED_TRACE(std::to_string(integrator) + ToString(level));
        Linearizer linearizer(model.get(), {.level = level, .substeps = 2, .sensors = false});
        linearizer.SetContext(point.context);
        AccelerationDerivative out;
        linearizer.LinearizeAcceleration(point.x, point.u, &out);
        ASSERT_EQ(out.status, StepStatus::kOk);
        const double tolerance = level == Level::kStep ? 1e-5 : kSmooth;
        EXPECT_TRUE(support::MatricesNearRelative(out.qacc, qacc, 1e-9));
        EXPECT_TRUE(support::MatricesNearRelative(out.x.leftCols(dims.nv), x.leftCols(dims.nv), tolerance));
        EXPECT_TRUE(support::MatricesNearRelative(out.x.rightCols(dims.nv + dims.na), x.rightCols(dims.nv + dims.na),
                                                  tolerance));
        EXPECT_TRUE(support::MatricesNearRelative(out.u, u, tolerance));
        EXPECT_TRUE(support::MatricesNearRelative(out.force, force, tolerance));
        EXPECT_EQ(out.coverage.terms.empty(), false);
      }
    }
  }
}

VectorXd Inverse(const mjModel* model, const Point& point, const VectorXd& dx, const VectorXd& qacc) {
  const DataPtr d = MakeData(model);
  SetContext(model, d.get(), point.context);
  SetState(model, d.get(), Retract(model, point.x, dx));
  Eigen::Map<VectorXd>(d->ctrl, model->nu) = point.u;
  Eigen::Map<VectorXd>(d->qacc, model->nv) = qacc;
  mj_fwdPosition(model, d.get());
  mj_fwdVelocity(model, d.get());
  mj_fwdActuation(model, d.get());
  Eigen::Map<VectorXd>(d->qacc, model->nv) = qacc;
  mj_inverse(model, d.get());
  return Eigen::Map<VectorXd>(d->qfrc_inverse, model->nv);
}

void ExpectInverse(const mjModel* model, const mjData* data, const VectorXd& qacc, std::initializer_list<Level> levels,
                   Level worst = Level::kAnalytic) {
  const Dims dims(model);
  const Point point(model, data);
  MatrixXd jacobian[3];
  for (int block = 0; block < 3; block++) {
    jacobian[block].resize(dims.nv, dims.nv);
    for (int i = 0; i < dims.nv; i++) {
      jacobian[block].col(i) = FivePoint(
          [&](double h) {
            VectorXd dx = VectorXd::Zero(dims.ndx), a = qacc;
            (block == 2 ? a[i] : dx[block * dims.nv + i]) += h;
            return Inverse(model, point, dx, a);
          },
          block == 0 ? 1e-6 : 1e-5);
    }
  }
  for (Level level : levels) {
    SCOPED_TRACE(ToString(level));
    Linearizer linearizer(model, {.level = level, .sensors = false});
    linearizer.SetContext(point.context);
    InverseDerivative out;
    linearizer.LinearizeInverse(point.x, point.u, qacc, &out);
    ASSERT_EQ(out.status, StepStatus::kOk);
    if (level == Level::kBest) {
      EXPECT_EQ(out.coverage.Worst(), worst);
    }
    EXPECT_TRUE(support::MatricesNearRelative(out.qfrc, Inverse(model, point, VectorXd::Zero(dims.ndx), qacc), 1e-12));
    EXPECT_TRUE(support::MatricesNearRelative(out.q, jacobian[0], kSmooth));
    EXPECT_TRUE(support::MatricesNearRelative(out.v, jacobian[1], kSmooth));
    EXPECT_TRUE(support::MatricesNearRelative(out.a, jacobian[2], kSmooth));
  }
}

TEST_F(DynamicsTest, InverseAgreesWithItsDifferencesAtEveryLevel) {
  for (int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.cone = cone;
    const DataPtr data = support::DrivenData(model.get(), 60);
    ASSERT_GE(data->ncon, 3);
    mj_forward(model.get(), data.get());

    // at the acceleration of the step, where constraints act, and applied forces are ignored
    for (int k = 6; k < 6 * model->nbody; k++) data->xfrc_applied[k] = 0.2;
    const VectorXd qacc = Eigen::Map<VectorXd>(data->qacc, model->nv);
    ExpectInverse(model.get(), data.get(), qacc, {Level::kBest, Level::kResidual, Level::kStep});
    // and away from it
    ExpectInverse(model.get(), data.get(), qacc + support::Random(5).Vector(static_cast<int>(model->nv), 0.3),
                  {Level::kBest});
  }
}

TEST_F(DynamicsTest, DiscreteInverseIsDifferencedAndRungeKuttaRefused) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  model->opt.enableflags |= mjENBL_INVDISCRETE;
  const DataPtr data = support::DrivenData(model.get(), 60);
  mj_forward(model.get(), data.get());
  const VectorXd qacc = Eigen::Map<VectorXd>(data->qacc, model->nv);
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_IMPLICIT}) {
    SCOPED_TRACE(integrator);
    model->opt.integrator = integrator;
    ExpectInverse(model.get(), data.get(), qacc, {Level::kBest}, Level::kStep);
  }
  model->opt.integrator = mjINT_EULER;
  model->opt.disableflags |= mjDSBL_EULERDAMP;
  ExpectInverse(model.get(), data.get(), qacc, {Level::kBest});

  model->opt.integrator = mjINT_RK4;
  Linearizer linearizer(model.get());
  InverseDerivative out;
  const Point point(model.get(), data.get());
  EXPECT_ERROR(linearizer.LinearizeInverse(point.x, point.u, qacc, &out), ErrorCode::kUnsupported,
               "RK4 has no inverse");
}

// The metric has stiffness and damping of servos, but of those at their force limit.
TEST_F(DynamicsTest, InverseUnderTheDiscreteIntegratorHasTheActuatorsMetric) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".01" integrator="discrete"/><worldbody><body>
    <joint name="a" axis="0 1 0" damping=".2"/><geom size=".1" pos=".2 0 0" contype="0"/><body pos=".3 0 0"><joint name="b" axis="0 1 .2" frictionloss=".1"/>
      <geom size=".08" pos=".2 0 .1" contype="0"/></body></body></worldbody>
    <actuator><position joint="a" kp="90" kv="4"/><position joint="b" kp="70" kv="3" forcerange="-5 5"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[0] = 0.3;
  for (const double target : {0.02, 2.0}) {
    SCOPED_TRACE(target);
    data->ctrl[0] = data->ctrl[1] = target;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->actuator_force[1] == 5, target == 2);
    ExpectInverse(model.get(), data.get(), Eigen::Vector2d(0.4, -0.7), {Level::kBest, Level::kResidual, Level::kStep},
                  Level::kResidual);
  }
}

// A limit ends to push where the acceleration of continuous time, (1 + h b / m) qacc, is aref: just before it pushes as
// it does far before, and just beyond it does nothing
TEST_F(DynamicsTest, DiscreteInverseIsDifferencedOnTheSideOfThePoint) {
  const ModelPtr model =
      LoadModelFromString(R"(<mujoco><option gravity="0 0 0"><flag invdiscrete="enable"/></option><worldbody><body>
    <joint type="slide" axis="1 0 0" limited="true" range="0 1" damping="3"/><geom size=".1" mass="2"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = -1e-3;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->nefc, 1);
  const double edge = data->efc_aref[0] / (1 + model->opt.timestep * 3 / 2);
  const Point point(model.get(), data.get());
  Linearizer linearizer(model.get());
  for (const int side : {-1, 1}) {
    SCOPED_TRACE(side);
    double slope[2];
    for (const bool far : {false, true}) {
      InverseDerivative out;
      linearizer.LinearizeInverse(point.x, point.u, VectorXd::Constant(1, edge + side * (far ? 1 : 1e-5)), &out);
      slope[far] = out.a(0, 0);
    }
    EXPECT_NEAR(slope[0], slope[1], 1e-7 * slope[1]);
    EXPECT_EQ(slope[1] > 10, side < 0) << slope[1];
  }
}

// the impedance of a contact bends half a millimetre deep, where no row switches: nudges go down to its side
TEST_F(DynamicsTest, InverseIsDifferencedOnTheSideOfABend) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 .1">
    <joint type="slide" axis="0 0 1" damping="1"/><geom size=".1" mass="1"/></body></worldbody></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double off : {1e-7, 3e-7, 6e-7, 1e-6, 2e-6, -3e-7}) {
    SCOPED_TRACE(off);
    data->qpos[0] = -5e-4 + off;
    const Point point(model.get(), data.get());
    InverseDerivative slope[2];
    for (const Level level : {Level::kAnalytic, Level::kStep}) {
      LinearizeOptions options;
      options.level = level;
      Linearizer linearizer(model.get(), options);
      linearizer.LinearizeInverse(point.x, point.u, VectorXd::Constant(1, -3), &slope[level == Level::kStep]);
    }
    EXPECT_NEAR(slope[1].q(0, 0), slope[0].q(0, 0), 1e-6 * std::abs(slope[0].q(0, 0)));
  }
}

// gravity compensation that joints leave to their actuators is in the acceleration but not in the inverse
TEST_F(DynamicsTest, InverseLeavesOutGravityCompensationByActuators) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody>
        <body gravcomp="0.7"><joint axis="0 1 0" actuatorgravcomp="true" damping="0.1"/>
          <geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0.1" contype="0"/>
          <body pos="0.4 0 0" gravcomp="1"><joint axis="0 1 0" stiffness="2"/>
            <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" contype="0"/>
          </body>
        </body>
      </worldbody>
    </mujoco>)");
  const DataPtr data = MakeData(model.get());
  SetState(model.get(), data.get(), support::RandomState(model.get(), 4));
  ExpectInverse(model.get(), data.get(), VectorXd::Constant(2, 0.7), {Level::kBest, Level::kResidual, Level::kStep},
                Level::kResidual);
}

// A force is a control with a constant moment: its pull-back against differences of the step, by joint and by body.
TEST_F(DynamicsTest, CovectorsArePulledBackToAppliedForces) {
  for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT, mjINT_IMPLICITFAST}) {
    const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
    model->opt.integrator = integrator;
    const DataPtr data = support::DrivenData(model.get(), 60);
    for (int k = 6; k < 6 * model->nbody; k++) data->xfrc_applied[k] = 0.3 * std::sin(k);
    const Dims dims(model.get());
    const Point point(model.get(), data.get());
    const VectorXd lambda = support::RandomTangent(model.get(), 6);
    const int substeps = 2, nv = dims.nv, nforce = nv + 6 * static_cast<int>(model->nbody);
    mjModel tight = *model;
    tight.opt.tolerance = 0;
    tight.opt.iterations = 100;
    const auto next = [&](int i, double h) {
      const DataPtr d = MakeData(model.get());
      mj_copyState(model.get(), data.get(), d.get(), mjSTATE_INTEGRATION);
      (i < nv ? d->qfrc_applied[i] : d->xfrc_applied[i - nv]) += h;
      for (int k = 0; k < substeps; k++) mj_step(&tight, d.get());
      return GetState(model.get(), d.get());
    };
    VectorXd expected = VectorXd::Zero(nforce), dx(dims.ndx);
    for (int i = 0; i < nforce; i++) {
      if (i >= nv && i < nv + 6) continue;
      double quotient[2];
      for (int k : {1, 2}) {
        const double h = 1e-4 * k;  // a servo near its force limit
        Difference(model.get(), next(i, h), next(i, -h), dx);
        quotient[k - 1] = lambda.dot(dx) / (2 * h);
      }
      expected[i] = (4 * quotient[0] - quotient[1]) / 3;
    }
    for (Level level : {Level::kBest, Level::kStep}) {
      SCOPED_TRACE(std::to_string(integrator) + ToString(level));
      Linearizer linearizer(model.get(), {.level = level, .substeps = substeps, .sensors = false});
      linearizer.SetContext(point.context);
      StepVjp out;
      linearizer.Vjp(point.x, point.u, lambda, &out, true);
      ASSERT_EQ(out.status, StepStatus::kOk);
      const double tolerance = level == Level::kStep ? 1e-5 : 1e-7;
      EXPECT_TRUE(support::MatricesNearRelative(out.qfrc, expected.head(nv), tolerance));
      EXPECT_TRUE(support::MatricesNearRelative(out.xfrc, expected.tail(nforce - nv), tolerance));
    }
  }
}

}  // namespace
}  // namespace costate
