// Derivatives behind a caller's mj_forward are Linearize's, leave its data as they were, and are Linearize itself where
// the data cannot serve.
#include <costate/derivative.h>
#include <costate/parameter.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "derivative/after_forward.h"
#include "derivative/backend.h"
#include "derivative/equilibrium.h"
#include "derivative/joint_scene.h"
#include "derivative/noslip_scene.h"
#include "derivative/tendon_scene.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using support::BitwiseEqual;
using support::DrivenData;
using support::MatricesNear;

constexpr double kSameDerivative = 1e-9;  // of the largest entry: two accelerations, each converged
constexpr double kHardest = 1e-7;         // of what H is for the hardest rows, with columns and without
constexpr double kSums = 1e-12;           // of the largest sum of absolute values in a product

double Largest(const MatrixXd& x) { return x.size() ? x.cwiseAbs().maxCoeff() : 0; }

// are the caller's numbers taken, not those of a mj_forward of ours?
bool IsShort(const mjModel* m, mjData* d) {
  std::vector<double> work;
  std::string missing;
  StepDerivative A_B;
  const std::unique_ptr<Backend> backend = MakeAnalyticBackend(m, {}, &missing);
  return backend && IsAfterForward(m, d, &work) && backend->LinearizeAfterForward(m, d, &A_B);
}

// about the point of `d`, as it is
void ExpectLinearize(const mjModel* m, mjData* d, const LinearizeOptions& options = {},
                     double tolerance = kSameDerivative) {
  StepDerivative expected, matrices;
  StepVjp vjp;
  Linearizer linearizer(m, options), other(m, options);
  other.SetContext(GetContext(m, d));
  other.Linearize(GetState(m, d), Eigen::Map<const VectorXd>(d->ctrl, m->nu), &expected);
  linearizer.LinearizeAfterForward(d, &matrices);
  ASSERT_EQ(matrices.status, expected.status);
  if (matrices.status != StepStatus::kOk) return;
  EXPECT_TRUE(MatricesNear(matrices.A, expected.A, tolerance * Largest(expected.A), TangentNames(m), TangentNames(m)));
  EXPECT_TRUE(MatricesNear(matrices.B, expected.B, tolerance * Largest(expected.B), TangentNames(m)));
  EXPECT_EQ(matrices.C.size() + matrices.D.size() + matrices.P.size() + matrices.Ps.size(), 0);
  const VectorXd lambda = support::RandomTangent(m, 7);
  linearizer.VjpAfterForward(d, lambda, &vjp);
  ASSERT_EQ(vjp.status, StepStatus::kOk);
  const double scale = Largest(expected.A.cwiseAbs().transpose() * lambda.cwiseAbs()),
               u_scale = Largest(expected.B.cwiseAbs().transpose() * lambda.cwiseAbs());
  EXPECT_TRUE(MatricesNear(vjp.x, expected.A.transpose() * lambda, tolerance * scale, TangentNames(m)));
  EXPECT_TRUE(MatricesNear(vjp.u, expected.B.transpose() * lambda, tolerance * u_scale));
  EXPECT_EQ(vjp.qfrc.size() + vjp.xfrc.size() + vjp.theta.size(), 0);

  // which level each term came from, too, sensors apart
  const auto& terms = expected.coverage.terms;
  for (const TermCoverage& term : matrices.coverage.terms) {
    const auto same = std::find_if(terms.begin(), terms.end(), [&](const auto& t) { return t.term == term.term; });
    ASSERT_NE(same, terms.end()) << term.term;
    EXPECT_EQ(same->level, term.level) << term.term;
  }
  EXPECT_EQ(vjp.coverage.Worst(), matrices.coverage.Worst());
}

void ExpectShort(const mjModel* m, mjData* d) {
  mj_forward(m, d);
  EXPECT_TRUE(IsShort(m, d));
  ExpectLinearize(m, d, {.sensors = false});
}

using AfterForwardTest = support::EngineTest;

class AfterForwardOfEveryKind : public support::EngineTest,
                                public ::testing::WithParamInterface<std::tuple<int, int, int, int>> {};

TEST_P(AfterForwardOfEveryKind, IsThatOfLinearize) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  mjModel* m = model.get();
  m->opt.integrator = std::get<0>(GetParam());
  m->opt.cone = std::get<1>(GetParam());
  m->opt.jacobian = std::get<2>(GetParam());
  m->opt.solver = std::get<3>(GetParam());
  const DataPtr data = DrivenData(m, 60);
  ASSERT_GE(data->ncon, 3);
  for (int k = 6; k < 6 * m->nbody; k++) data->xfrc_applied[k] = 0.3 * std::sin(k);
  ExpectShort(m, data.get());
  Linearizer linearizer(m, {.level = Level::kAnalytic});
  StepDerivative matrices;
  StepVjp vjp;
  const VectorXd lambda = support::RandomTangent(m, 7);
  linearizer.LinearizeAfterForward(data.get(), &matrices);
  linearizer.VjpAfterForward(data.get(), lambda, &vjp);
  const double scale = Largest(matrices.A.cwiseAbs().transpose() * lambda.cwiseAbs());
  EXPECT_TRUE(MatricesNear(vjp.x, matrices.A.transpose() * lambda, kSums * scale, TangentNames(m)));
}

INSTANTIATE_TEST_SUITE_P(IntegratorsConesJacobiansSolvers, AfterForwardOfEveryKind,
                         ::testing::Combine(::testing::Values(mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT,
                                                              mjINT_IMPLICITFAST),
                                            ::testing::Values(mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC),
                                            ::testing::Values(mjJAC_DENSE, mjJAC_SPARSE),
                                            ::testing::Values(mjSOL_NEWTON, mjSOL_CG, mjSOL_PGS)));

// at rest, in contact, at random: often in limits and in the floor
TEST_F(AfterForwardTest, IsThatOfLinearizeOnTheModelsOfThisRepository) {
  for (const char* name : {"acrobot", "arm", "cartpole", "hopper", "humanoid", "pendulum", "quadrotor", "quadruped"}) {
    SCOPED_TRACE(name);
    const ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + name + "/" + name + ".xml");
    for (int steps : {0, 100, 1000}) ExpectShort(model.get(), DrivenData(model.get(), steps).get());
    for (unsigned seed = 5; seed < 8; seed++) {
      const DataPtr data = MakeData(model.get());
      SetState(model.get(), data.get(), support::RandomState(model.get(), seed));
      ExpectShort(model.get(), data.get());
    }
  }
}

TEST_F(AfterForwardTest, IsThatOfLinearizeWithEqualitiesAndTendons) {
  for (const char* equality : {"<connect body1='b' body2='c' anchor='0.1 0.2 0'/>",
                               "<weld body1='c' body2='e' torquescale='0.3'/>", "<weld body1='c'/>"}) {
    SCOPED_TRACE(equality);
    const ModelPtr model = LoadModelFromString(EqualityScene(equality));
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(),
             support::RandomState(model.get(), 11, {.position = 0.4, .velocity = 2, .inside_limits = false}));
    ExpectShort(model.get(), data.get());
  }
  for (const char* path : kPaths) {
    SCOPED_TRACE(path);
    const ModelPtr model = LoadModelFromString(
        "<mujoco><option timestep='.004'/>" + std::string(kBodies) +
        "<tendon><spatial name='t' stiffness='30' damping='.5' limited='true' range='0 .1' frictionloss='.2'>" + path +
        "</spatial></tendon><actuator><position tendon='t' kp='3'/><motor joint='hinge'/></actuator></mujoco>");
    const DataPtr data = MakeData(model.get());
    SetState(model.get(), data.get(), support::RandomState(model.get(), 3));
    data->ctrl[0] = 0.4;
    mj_forward(model.get(), data.get());
    ExpectLinearize(model.get(), data.get(), {.sensors = false});
  }
}

// what level 1 does not have in closed form, or has behind the solver: the same, in more time
TEST_F(AfterForwardTest, IsLinearizeItselfWhereTheNumbersOfForwardDoNotSuffice) {
  const ModelPtr noslip = LoadModelFromString(Pushing("elliptic", 4)),
                 delayed = LoadModelFromString(R"(<mujoco><worldbody><body><joint name="a" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/></body></worldbody>
    <actuator><motor joint="a" delay="0.005" nsample="5"/></actuator></mujoco>)"),
                 discrete = LoadModel(COSTATE_MODELS "/hopper/hopper.xml"),
                 sleeping = LoadModel(COSTATE_MODELS "/quadruped/quadruped.xml");
  discrete->opt.integrator = mjINT_DISCRETE;
  discrete->dof_dampingpoly[0] = 0.1;  // its metric has no closed form
  sleeping->opt.enableflags |= mjENBL_SLEEP;
  for (const mjModel* m : {noslip.get(), delayed.get(), discrete.get(), sleeping.get()}) {
    SCOPED_TRACE(ModelName(m));
    const DataPtr data = DrivenData(m, 50);
    mj_forward(m, data.get());
    EXPECT_FALSE(IsShort(m, data.get()));
    ExpectLinearize(m, data.get(), {.sensors = false});
  }
}

TEST_F(AfterForwardTest, IsLinearizeItselfUnderOtherOptions) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/hopper/hopper.xml");
  mjModel* m = model.get();
  const DataPtr data = DrivenData(m, 150);
  mj_forward(m, data.get());
  ASSERT_GT(data->nefc, 0);
  for (const LinearizeOptions& options :
       {LinearizeOptions{.level = Level::kAnalytic}, LinearizeOptions{.level = Level::kResidual, .sensors = false},
        LinearizeOptions{.level = Level::kStep}, LinearizeOptions{.substeps = 3},
        LinearizeOptions{.sensors = false, .smoothing = 5}}) {
    SCOPED_TRACE(ToString(options.level));
    ExpectLinearize(m, data.get(), options);
  }
  ParameterSet parameters(m, {"joint:hip/damping"});
  Linearizer linearizer(parameters.model());
  linearizer.SetParameters(&parameters);
  StepDerivative derivative;
  StepVjp vjp;
  linearizer.LinearizeAfterForward(data.get(), &derivative);
  EXPECT_EQ(derivative.P.cols(), 1);
  linearizer.VjpAfterForward(data.get(), VectorXd::Ones(derivative.A.rows()), &vjp);
  EXPECT_EQ(vjp.theta.size(), 1);
  linearizer.SetParameters(nullptr);
  linearizer.LinearizeAfterForward(data.get(), &derivative);
  linearizer.VjpAfterForward(data.get(), VectorXd::Ones(derivative.A.rows()), &vjp);
  EXPECT_EQ(derivative.P.size() + vjp.theta.size(), 0);
}

// (C22)
TEST_F(AfterForwardTest, SoftensTheHardestRowsAsLinearizeDoes) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><worldbody><body name="b"><joint type="ball"/><geom type="ellipsoid" size=".11 .04 .07"/>
      <body pos="0 0 .2"><joint axis="1 2 0"/><geom size=".05" mass=".1"/></body></body></worldbody>
      <equality><connect body1="b" anchor="-.01 -.07 .03"/></equality></mujoco>)");
  const DataPtr data = MakeData(model.get());
  data->qvel[3] = 0.3;
  mj_forward(model.get(), data.get());
  ASSERT_EQ(data->efc_R[0], mjMINVAL);
  EXPECT_FALSE(IsShort(model.get(), data.get()));
  ExpectLinearize(model.get(), data.get(), {.sensors = false}, kHardest);
}

// solvers that end early, far from the minimum and near it
TEST_F(AfterForwardTest, GoesOnFromAnAccelerationThatHasNotConverged) {
  const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
  mjModel* m = model.get();
  int gone_on = 0;
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    m->opt.cone = cone;
    for (const int solver : {mjSOL_NEWTON, mjSOL_CG, mjSOL_PGS}) {
      for (const int iterations : {1, 3, 10}) {
        SCOPED_TRACE(std::to_string(solver) + " " + std::to_string(iterations));
        m->opt.solver = mjSOL_NEWTON;
        m->opt.iterations = 100;
        const DataPtr data = DrivenData(m, 60);
        data->ctrl[0] += 0.5;
        mj_forward(m, data.get());
        const VectorXd converged = Eigen::Map<const VectorXd>(data->qacc, m->nv);
        m->opt.solver = solver;
        m->opt.iterations = iterations;
        mj_forward(m, data.get());
        const double error = Largest(Eigen::Map<const VectorXd>(data->qacc, m->nv) - converged);
        gone_on += error > 1e-6 * Largest(converged);
        EXPECT_TRUE(IsShort(m, data.get())) << "error " << error;
        ExpectLinearize(m, data.get(), {.sensors = false});
      }
    }
  }
  EXPECT_GE(gone_on, 6);
}

// cones bend the cost: H changes by more than the acceleration does
TEST_F(AfterForwardTest, IsNearerToTheMinimumWhereConesBendTheCost) {
  for (const char* file : {COSTATE_MODELS "/humanoid/humanoid.xml", COSTATE_TESTDATA "/many_terms.xml"}) {
    const ModelPtr model = LoadModel(file);
    mjModel* m = model.get();
    m->opt.cone = mjCONE_ELLIPTIC;
    const DataPtr data = MakeData(m);
    if (m->nkey > 0) mj_resetDataKeyframe(m, data.get(), 0);
    int cones = 0;
    for (int state = 0; state < 4; state++) {
      m->opt.solver = mjSOL_NEWTON;
      m->opt.iterations = 100;
      m->opt.tolerance = 1e-8;
      for (int k = 0; k < 40; k++) {
        for (int i = 0; i < m->nu; i++) data->ctrl[i] = std::sin(1.7 * i + state + 0.01 * k);
        mj_step(m, data.get());
      }
      m->opt.solver = mjSOL_CG;
      m->opt.tolerance = 0;
      for (const int iterations : {12, 18, 24, 30}) {
        SCOPED_TRACE(std::string(file) + " " + std::to_string(state) + " " + std::to_string(iterations));
        m->opt.iterations = iterations;
        mj_forward(m, data.get());
        cones += HasCones(data.get());
        ExpectLinearize(m, data.get(), {.sensors = false});
      }
    }
    EXPECT_GE(cones, 8);
  }
}

// whatever else is in the caller's data; twice the same
TEST_F(AfterForwardTest, DataStaysAsItIs) {
  for (const int cone : {mjCONE_PYRAMIDAL, mjCONE_ELLIPTIC}) {
    for (const int iterations : {100, 1}) {  // 1: it goes on
      const ModelPtr model = LoadModel(COSTATE_TESTDATA "/many_terms.xml");
      mjModel* m = model.get();
      m->opt.cone = cone;
      const DataPtr data = DrivenData(m, 60), untouched = DrivenData(m, 60);
      mjData* d = data.get();
      m->opt.iterations = iterations;
      mj_forward(m, d);
      mj_forward(m, untouched.get());
      Linearizer linearizer(m);
      StepDerivative first, second;
      StepVjp vjp, again;
      const VectorXd lambda = support::RandomTangent(m, 4);
      for (const int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICITFAST}) {
        m->opt.integrator = integrator;
        const std::string buffer(static_cast<char*>(d->buffer), d->nbuffer),
            arena(static_cast<char*>(d->arena), d->parena);
        std::vector<char> header(sizeof(mjData));
        std::memcpy(header.data(), d, sizeof(mjData));
        linearizer.LinearizeAfterForward(d, &first);
        linearizer.VjpAfterForward(d, lambda, &vjp);
        linearizer.LinearizeAfterForward(d, &second);
        linearizer.VjpAfterForward(d, lambda, &again);
        EXPECT_TRUE(BitwiseEqual(first.A, second.A));
        EXPECT_TRUE(BitwiseEqual(first.B, second.B));
        EXPECT_TRUE(BitwiseEqual(vjp.x, again.x));
        EXPECT_EQ(buffer, std::string(static_cast<char*>(d->buffer), d->nbuffer));
        EXPECT_EQ(arena, std::string(static_cast<char*>(d->arena), d->parena));
        reinterpret_cast<mjData*>(header.data())->maxuse_stack = d->maxuse_stack;
        EXPECT_EQ(std::memcmp(header.data(), d, sizeof(mjData)), 0);
      }
      m->opt.integrator = mjINT_EULER;
      for (mjData* after : {d, untouched.get()}) {
        mj_step(m, after);
        mj_step1(m, after);
        mj_step2(m, after);
      }
      EXPECT_TRUE(BitwiseEqual(GetState(m, d), GetState(m, untouched.get())));
      EXPECT_TRUE(BitwiseEqual(GetContext(m, d), GetContext(m, untouched.get())));
    }
  }
}

// by what costs little; the derivative is that of the point that the data holds now
TEST_F(AfterForwardTest, SeesDataThatForwardHasNotLeft) {
  const ModelPtr model = LoadModelFromString(
      R"(<mujoco><option timestep=".002"/><worldbody><geom type="plane" size="3 3 1"/><body mocap="true" pos="0 1 1"/>
      <body pos="0 0 .099"><freejoint/><geom size=".1" condim="4"/></body>
      <body pos="0 2 1"><joint name="a" axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
        <body pos=".3 0 0"><joint name="b" axis="0 1 0" limited="true" range="-.1 .1"/><geom type="capsule" size=".03" fromto="0 0 0 .2 .1 -.3"/>
      </body></body></worldbody>
      <actuator><position joint="a" kp="2"/><general joint="b" dyntype="filter" dynprm=".1" gainprm="2"/></actuator></mujoco>)");
  mjModel* m = model.get();
  const mjOption options = m->opt;
  struct Change {
    const char* name;
    std::function<void(mjData*)> make;
  };
  const std::vector<Change> changes = {
      {"a step", [&](mjData* d) { mj_step(m, d); }},
      {"a step and positions", [&](mjData* d) { mj_step(m, d), mj_step1(m, d); }},
      {"a reset", [&](mjData* d) { mj_resetData(m, d), d->qvel[7] = 1; }},
      {"no forward", [&](mjData* d) { mj_resetData(m, d), d->qacc_warmstart[0] = 1; }},
      {"a velocity", [](mjData* d) { d->qvel[7] += 1e-3; }},
      {"a velocity of the ball", [](mjData* d) { d->qvel[1] += 1e-3; }},
      {"a position of the ball", [](mjData* d) { d->qpos[2] -= 1e-4; }},
      {"an orientation", [](mjData* d) { d->qpos[4] += 1e-4; }},
      {"an angle", [](mjData* d) { d->qpos[7] += 1e-4; }},
      {"a control", [](mjData* d) { d->ctrl[0] += 0.1; }},
      {"an activation", [](mjData* d) { d->act[0] += 0.1; }},
      {"a force", [](mjData* d) { d->qfrc_applied[7] = 0.1; }},
      {"a force on a body", [](mjData* d) { d->xfrc_applied[6 * 2 + 2] = 0.1; }},
      {"a mocap pose", [](mjData* d) { d->mocap_pos[1] += 0.1; }},
      {"an acceleration", [](mjData* d) { d->qacc[7] += 0.1; }},
      {"cones", [&](mjData*) { m->opt.cone = mjCONE_ELLIPTIC; }},
      {"a sparse Jacobian", [&](mjData*) { m->opt.jacobian = mjJAC_SPARSE; }},
      {"no constraints", [&](mjData*) { m->opt.disableflags |= mjDSBL_CONSTRAINT; }},
      {"gravity", [&](mjData* d) { d->qvel[7] = 0, m->opt.gravity[2] = -5; }},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    m->opt = options;
    const DataPtr data = DrivenData(m, 40);
    mj_forward(m, data.get());
    ASSERT_TRUE(IsShort(m, data.get()));
    ASSERT_GE(data->nefc, 5);
    change.make(data.get());
    const bool converges = change.name == std::string("an acceleration");
    EXPECT_EQ(IsShort(m, data.get()), converges);
    ExpectLinearize(m, data.get(), {.sensors = false});
  }
}

TEST_F(AfterForwardTest, RestIsNoSignOfData) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/pendulum/pendulum.xml");
  const DataPtr data = MakeDataAtKey(model.get(), "hang");
  mj_forward(model.get(), data.get());
  EXPECT_TRUE(IsShort(model.get(), data.get()));
}

TEST_F(AfterForwardTest, FailsAsLinearizeDoes) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/hopper/hopper.xml"),
                 other = LoadModel(COSTATE_MODELS "/quadruped/quadruped.xml");
  const mjModel* m = model.get();
  const DataPtr data = DrivenData(m, 150), others = MakeData(other.get());
  mjData* d = data.get();
  mj_forward(m, d);
  Linearizer linearizer(m);
  StepDerivative derivative;
  StepVjp vjp;
  const VectorXd lambda = VectorXd::Ones(2 * m->nv + m->na);
  EXPECT_ERROR(linearizer.LinearizeAfterForward(others.get(), &derivative), ErrorCode::kInvalidArgument,
               "made for another model");
  EXPECT_ERROR(linearizer.LinearizeAfterForward(nullptr, &derivative), ErrorCode::kInvalidArgument, "NULL");
  EXPECT_ERROR(linearizer.VjpAfterForward(d, VectorXd::Ones(3), &vjp), ErrorCode::kDimensionMismatch, "lambda has 3");
  EXPECT_ERROR(linearizer.VjpAfterForward(d, VectorXd::Constant(lambda.size(), NAN), &vjp), ErrorCode::kInvalidArgument,
               "lambda is not finite");
  const double ctrl = d->ctrl[0], q = d->qpos[1];
  d->ctrl[0] = NAN;
  EXPECT_ERROR(linearizer.LinearizeAfterForward(d, &derivative), ErrorCode::kInvalidArgument, "u is not finite");
  d->ctrl[0] = ctrl;
  d->qpos[1] = INFINITY;
  EXPECT_ERROR(linearizer.VjpAfterForward(d, lambda, &vjp), ErrorCode::kInvalidArgument, "x is not finite");
  d->qpos[1] = q;
  d->xfrc_applied[7] = NAN;
  EXPECT_ERROR(linearizer.LinearizeAfterForward(d, &derivative), ErrorCode::kInvalidArgument, "xfrc_applied");
  d->xfrc_applied[7] = 0;
  const double v = d->qvel[0];
  d->qvel[0] = 1e11;
  linearizer.LinearizeAfterForward(d, &derivative);
  EXPECT_EQ(derivative.status, StepStatus::kBadState);
  d->qvel[0] = v;

  // no room on the caller's stack
  const StepDerivative expected = Linearize(m, d);
  mj_markStack(d);
  mj_stackAllocByte(d, d->narena - d->parena - d->pstack - 1024, 8);
  const std::size_t pstack = d->pstack;
  linearizer.LinearizeAfterForward(d, &derivative);
  EXPECT_EQ(derivative.status, StepStatus::kOk);
  EXPECT_TRUE(MatricesNear(derivative.A, expected.A, kSameDerivative * Largest(expected.A)));
  EXPECT_EQ(d->pstack, pstack);
  mj_freeStack(d);
}

TEST_F(AfterForwardTest, IsAboutTheContextOfTheDataAndLeavesTheOneThatWasSet) {
  const ModelPtr model = LoadModel(COSTATE_MODELS "/hopper/hopper.xml");
  const mjModel* m = model.get();
  const DataPtr data = DrivenData(m, 150);
  mjData* d = data.get();
  const VectorXd x = GetState(m, d), u = Eigen::Map<const VectorXd>(d->ctrl, m->nu);
  Linearizer linearizer(m);
  linearizer.SetContext(GetContext(m, d));
  StepDerivative before, pushed, after;
  linearizer.Linearize(x, u, &before);
  d->qfrc_applied[2] = 30;
  for (const bool forward : {true, false}) {
    if (forward) mj_forward(m, d);
    else d->qfrc_applied[2] = 31;
    linearizer.LinearizeAfterForward(d, &pushed);
    EXPECT_GT(Largest(pushed.A - before.A), 1e-6);
    linearizer.Linearize(x, u, &after);
    EXPECT_TRUE(BitwiseEqual(after.A, before.A));
  }
}

}  // namespace
}  // namespace costate
