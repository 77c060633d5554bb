#include "derivative/moment.h"

#include <costate/derivative_check.h>

#include <cmath>
#include <functional>
#include <vector>

#include "derivative/analytic.h"
#include "derivative/spatial_tendon.h"
#include "derivative/tendon_scene.h"
#include "derivative/transmission.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/step_reference.h"

namespace costate {
namespace {

using MomentTest = support::EngineTest;

constexpr double kMomentLevels = 1e-7;  // level 2 is a five-point difference of a residual stiff in q
constexpr double kDifference = 2e-8;    // five points at 1e-5: truncation and rounding

DataPtr At(const mjModel* model, unsigned seed, double position = 0.4) {
  DataPtr data = MakeData(model);
  SetState(model, data.get(), support::RandomState(model, seed, {.position = position, .velocity = 2}));
  const VectorXd u = support::RandomControl(model, seed + 20);
  mju_copy(data->ctrl, u.data(), static_cast<int>(model->nu));
  mj_forward(model, data.get());
  return data;
}

// five-point differences of `value` along each dof
template <typename F>
MatrixXd Differences(const mjModel* m, const mjData* d, int rows, F value) {
  const DataPtr probe = MakeData(m);
  const double h = 1e-5;
  MatrixXd out(rows, m->nv);
  for (int j = 0; j < m->nv; j++) {
    VectorXd f[5];
    for (int k = -2; k <= 2; k++) {
      mj_copyState(m, d, probe.get(), mjSTATE_INTEGRATION);
      VectorXd direction = VectorXd::Zero(m->nv);
      direction[j] = 1;
      mj_integratePos(m, probe->qpos, direction.data(), k * h);
      mj_forward(m, probe.get());
      f[k + 2] = value(probe.get());
    }
    out.col(j) = (8 * (f[3] - f[1]) - (f[4] - f[0])) / (12 * h);
  }
  return out;
}

MatrixXd Scattered(const Moment& moment, int nv) {
  MatrixXd G = MatrixXd::Zero(nv, nv);
  for (int i = 0; i < moment.size(); i++) {
    for (int j = 0; j < moment.size(); j++) G(moment.dof[i], moment.dof[j]) = moment.G(i, j);
  }
  return G;
}

VectorXd Scattered(const Moment& moment, const VectorXd& entries, int nv) {
  VectorXd row = VectorXd::Zero(nv);
  for (int i = 0; i < moment.size(); i++) row[moment.dof[i]] = entries[i];
  return row;
}

void ExpectMoment(const mjModel* m, const mjData* d, const Moment& moment,
                  const std::function<VectorXd(const mjData*)>& J, const std::function<double(const mjData*)>& length) {
  const int nv = static_cast<int>(m->nv);
  EXPECT_LE((Scattered(moment, moment.J, nv) - J(d)).cwiseAbs().maxCoeff(), 1e-13);
  EXPECT_TRUE(support::MatricesNearRelative(Scattered(moment, nv), Differences(m, d, nv, J), kDifference));
  const MatrixXd slope =
      Differences(m, d, 1, [&](const mjData* p) { return VectorXd(VectorXd::Constant(1, length(p))); });
  EXPECT_LE((Scattered(moment, moment.length, nv).transpose() - slope).cwiseAbs().maxCoeff(), 1e-10);
}

// (T2)–(T8): the engine's own Jacobian, differenced; wraps from outside and inside, with and without contact
TEST_F(MomentTest, OfTendonsAgreeWithDifferencesOfTheEnginesJacobian) {
  const ModelPtr model = LoadModelFromString(TendonModel("stiffness='10'"));
  const mjModel* m = model.get();
  int wrapped[std::size(kPaths)] = {0};
  for (unsigned seed = 1; seed < 6; seed++) {
    const DataPtr data = At(m, seed);
    TendonMoments tendons(m);
    ASSERT_EQ(tendons.Compute(m, data.get()), "");
    for (int t = 0; t < m->ntendon; t++) {
      SCOPED_TRACE("tendon " + std::to_string(t) + ", state " + std::to_string(seed));
      for (int k = 0; k < data->ten_wrapnum[t]; k++) wrapped[t] += data->wrap_obj[data->ten_wrapadr[t] + k] >= 0;
      const auto row = [&](const mjData* d) {
        VectorXd J = VectorXd::Zero(m->nv);
        for (int k = 0; k < m->ten_J_rownnz[t]; k++) {
          J[m->ten_J_colind[m->ten_J_rowadr[t] + k]] += d->ten_J[m->ten_J_rowadr[t] + k];
        }
        return J;
      };
      ExpectMoment(m, data.get(), tendons[t], row, [&](const mjData* d) { return d->ten_length[t]; });
    }
  }
  for (int t = 3; t < m->ntendon; t++) EXPECT_GT(wrapped[t], 0) << "tendon " << t << " never touches its geom";
}

// (T3), (T9)–(T11)
TEST_F(MomentTest, OfTransmissionsAgreeWithDifferencesOfTheEnginesJacobian) {
  const ModelPtr model = LoadModelFromString(TendonModel("", R"(
    <actuator>
      <motor joint="ball" gear="1 -2 3"/>
      <motor jointinparent="ball" gear="1 -2 3"/>
      <motor joint="root" gear="1 -2 3 0.1 0.2 -0.4"/>
      <motor jointinparent="root" gear="1 -2 3 0.1 0.2 -0.4"/>
      <motor site="c" gear="1 2 3 0.1 0.2 0.3"/>
      <motor site="c" refsite="f" gear="1 2 3 0 0 0"/>
      <motor site="c" refsite="f" gear="0 0 0 1 2 3"/>
      <motor site="a" refsite="c" gear="1 0 2 0.3 2 0"/>
      <motor site="c" refsite="ceiling" gear="1 0 2 0.3 2 0"/>
      <motor site="ceiling" refsite="c" gear="1 0 2 0.3 2 0"/>
      <motor cranksite="c" slidersite="f" cranklength="1" gear="2"/>
      <motor cranksite="a" slidersite="c" cranklength="0.05"/>
    </actuator>)"));
  const mjModel* m = model.get();
  for (unsigned seed = 1; seed < 4; seed++) {
    const DataPtr data = At(m, seed);
    MomentBuilder builder(m);
    for (int i = 0; i < m->nactuator; i++) {
      SCOPED_TRACE("actuator " + std::to_string(i) + ", state " + std::to_string(seed));
      Moment moment;
      TransmissionMoment(m, data.get(), i, &builder, &moment);
      const auto row = [&](const mjData* d) {
        VectorXd J = VectorXd::Zero(m->nv);
        for (int k = 0; k < d->moment_rownnz[i]; k++) {
          J[d->moment_colind[d->moment_rowadr[i] + k]] += d->actuator_moment[d->moment_rowadr[i] + k];
        }
        return J;
      };
      ExpectMoment(m, data.get(), moment, row, [&](const mjData* d) { return d->actuator_length[i]; });
    }
  }
}

// level 1 refuses nothing and agrees with the converged step, and with each term's own differences
void ExpectStep(const mjModel* m, const mjData* point, bool terms = true) {
  const auto linearize = [&](const TermSwitch& differenced, bool strict) {
    const DataPtr data = MakeData(m);
    mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
    StepDerivative out;
    std::string missing;
    AnalyticBackend backend(m, strict, differenced);
    EXPECT_TRUE(backend.Linearize(m, data.get(), false, &out, &missing)) << missing;
    return support::Both(out.A, out.B);
  };
  const MatrixXd value = linearize({}, true);
  const support::StepReference reference = support::MakeStepReference(m, point);
  EXPECT_TRUE(support::AgreesWithReference(value, reference.step, reference.step_error, support::kReference));

  // products contract the same entries
  const DataPtr data = MakeData(m);
  mj_copyState(m, point, data.get(), mjSTATE_INTEGRATION);
  AnalyticBackend backend(m, false);
  const VectorXd lambda = support::Random(1).Vector(static_cast<int>(value.rows()));
  StepVjp pulled;
  std::string missing;
  ASSERT_TRUE(backend.Vjp(m, data.get(), lambda, false, &pulled, &missing)) << missing;
  VectorXd both(value.cols());
  both << pulled.x, pulled.u;
  EXPECT_TRUE(support::MatricesNearRelative(both, value.transpose() * lambda, support::kReference));
  if (!terms) return;
  for (const TermSwitch& differenced :
       {TermSwitch{.rne = true}, TermSwitch{.passive = true}, TermSwitch{.actuation = true},
        TermSwitch{.constraint = true}, TermSwitch{.integrator = true}}) {
    EXPECT_TRUE(support::MatricesNearRelative(linearize(differenced, false), value, kMomentLevels));
  }
}

const std::vector<int> kIntegrators = {mjINT_EULER, mjINT_IMPLICITFAST, mjINT_IMPLICIT, mjINT_RK4};

// at so many random states, under each integrator
void ExpectSteps(mjModel* m, const std::vector<int>& integrators, unsigned states, bool terms = true) {
  for (int integrator : integrators) {
    m->opt.integrator = integrator;
    for (unsigned seed = 1; seed <= states; seed++) {
      SCOPED_TRACE(integrator * 10 + seed);
      ExpectStep(m, At(m, seed).get(), terms);
    }
  }
}

// springs with a dead band, polynomials, dampers of spatial tendons
TEST_F(MomentTest, SpringsAndDampersOfSpatialTendonsAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("stiffness='30' damping='0.4' springlength='0.1 0.3'"));
  mjModel* m = model.get();
  for (int t = 0; t < m->ntendon; t++) {
    m->tendon_stiffnesspoly[mjNPOLY * t] = 20;
    m->tendon_dampingpoly[mjNPOLY * t] = 0.3;
  }
  ExpectSteps(m, kIntegrators, 2);
}

// implicitfast keeps the diagonal alone where M of a simple body has no more: balls and slides, not free bodies
TEST_F(MomentTest, DampersOfSimpleBodiesAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="wall" pos=".1 .3 .5"/>
      <body><joint type="ball"/><geom type="box" size=".1 .05 .07" contype="0"/><site name="a" pos=".08 .05 .06"/></body>
      <body pos="1 0 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/>
        <geom size=".1" contype="0"/><site name="b" pos=".08 .05 .06"/></body>
      <body pos="2 0 0"><freejoint/><geom type="box" size=".1 .05 .07" contype="0"/><site name="c" pos=".08 .05 .06"/></body>
    </worldbody>
    <tendon><spatial damping="2 1"><site site="wall"/><site site="a"/><site site="b"/></spatial>
      <spatial damping="1"><site site="b"/><site site="c"/></spatial></tendon>
    <actuator><general site="a" refsite="wall" gear="1 .3 .2 .1 .4 .2" gainprm="1" biastype="affine" biasprm="0 -3 -.4"/></actuator></mujoco>)");
  mjModel* m = model.get();
  for (int dof = 0; dof < 6; dof++) ASSERT_EQ(m->M_rownnz[dof], 1);
  ExpectSteps(m, kIntegrators, 2);
}

// muscles, servos and affine gains on spatial tendons; some forces at their limit
TEST_F(MomentTest, ActuatorsOfSpatialTendonsAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("", kTendonActuators));
  mjModel* m = model.get();
  ExpectSteps(m, kIntegrators, 3);
}

// forces on one tendon that share its limit, some of them at their own; fixed and spatial
TEST_F(MomentTest, TendonForceLimitsAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("actuatorfrclimited='true' actuatorfrcrange='-1 1.5'", R"(
    <actuator>
      <position tendon="t3" kp="9" kv="2" gear="3"/><motor tendon="t3" gear="2"/><motor tendon="t3" gear="1" forcerange="-0.1 0.1"/>
      <position tendon="t5" kp="1" kv="0.1"/><motor tendon="t5" gear="0.1"/>
      <position tendon="t7" kp="90" kv="2"/>
      <general tendon="t8" biastype="affine" biasprm="-1 -5 -0.1"/>
    </actuator>)"));
  mjModel* m = model.get();
  m->tendon_actfrcrange[2 * 8] = 0;  // it only pulls
  ExpectSteps(m, {mjINT_EULER, mjINT_IMPLICITFAST}, 3);
}

// (A6) implicitfast's matrix leaves out what pulls a tendon whose forces add up to its limit behind their own limits,
// whether those before were scaled or not
TEST_F(MomentTest, TheMatrixLosesATendonByTheForcesBehindTheirOwnLimits) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option integrator="implicitfast" timestep=".01"/><worldbody>
    <body><joint name="j" type="slide" axis="1 0 0"/><geom size=".1" contype="0"/></body></worldbody>
    <tendon><fixed name="t" actuatorfrcrange="-2 3"><joint joint="j" coef="1.5"/></fixed></tendon>
    <actuator><motor tendon="t" forcerange="-.2 .2"/><general tendon="t" gainprm="1" biastype="affine" biasprm="0 -1 -4"/></actuator></mujoco>)");
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  struct {
    double u[2], force;  // behind all limits, at rest
  } cases[] = {{{-5, 4}, -.2 + 4}, {{-5, 1}, -.2 + .5}, {{-5, 2}, -.2 + 4. / 3},
               {{1, 4}, .2 + 2.4}, {{0, 4}, 3},         {{.1, 1}, 1.1}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.u[1]);
    data->ctrl[0] = c.u[0], data->ctrl[1] = c.u[1];
    mj_forward(m, data.get());
    ASSERT_NEAR(data->actuator_force[0] + data->actuator_force[1], c.force, 1e-12);
    const StepDerivative value = Linearize(m, data.get(), {.level = Level::kAnalytic});
    EXPECT_TRUE(Compare(m, value, Reference(m, data.get()), {.tolerance = 1e-8}).agrees);
  }
}

// (T13): inertia along tendons through sites, within a branch, between branches and by an actuator; damping makes a − ā
TEST_F(MomentTest, ArmatureOfSpatialTendonsAgreesWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("damping='0.3'", R"(
    <actuator><motor tendon="t1" gear="2"/><position joint="knee" kv="0.2"/></actuator>)"));
  mjModel* m = model.get();
  m->tendon_armature[0] = 0.4;
  m->tendon_armature[1] = 0.2;
  m->tendon_armature[2] = 0.7;
  ExpectSteps(m, kIntegrators, 3, false);
}

// limits on both sides, friction loss within and beyond its loss, equalities of one and two tendons, curved ones too
TEST_F(MomentTest, RowsOfSpatialTendonsAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("limited='true' range='0.35 0.36' frictionloss='0.3'", R"(
    <equality>
      <tendon tendon1="t0" polycoef="0.01 0 0 0 0"/>
      <tendon tendon1="t5" tendon2="t3" polycoef="0.01 0.5 0.7 -0.2 0.1"/>
    </equality>)"));
  mjModel* m = model.get();
  for (int integrator : {mjINT_EULER, mjINT_IMPLICITFAST}) {
    for (unsigned seed = 1; seed < 3; seed++) {
      SCOPED_TRACE(integrator * 10 + seed);
      m->opt.integrator = integrator;
      const DataPtr data = At(m, seed);
      ASSERT_GE(data->nl, 5);
      ExpectStep(m, data.get());
    }
  }
}

// limits within their margin on both sides of a tendon, as near to the one as to the other: forces against each other
TEST_F(MomentTest, LimitsOnBothSidesOfATendonAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><site name="a"/>
    <body pos="1 0 0"><site name="b"/><freejoint/><geom size=".01"/></body></worldbody>
    <tendon><spatial limited="true" range="0.99 1.01" margin="0.1"><site site="a"/><site site="b"/></spatial></tendon></mujoco>)");
  const DataPtr data = MakeData(model.get());
  for (const double along : {0.0, 1e-3}) {
    data->qpos[0] = 1 + along;
    data->qpos[1] = 0;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->nl, 2);
    ExpectStep(model.get(), data.get());
  }
}

// transmissions whose moment moves, velocity-dependent ones among them, beside a joint whose actuator force is clamped
TEST_F(MomentTest, MovingTransmissionsAgreeWithTheStep) {
  const ModelPtr model = LoadModelFromString(TendonModel("", kTransmissions));
  mjModel* m = model.get();
  const int knee = mj_name2id(m, mjOBJ_JOINT, "knee");
  for (bool clamped : {false, true}) {
    m->jnt_actfrclimited[knee] = clamped;
    m->jnt_actfrcrange[2 * knee] = -0.01;
    m->jnt_actfrcrange[2 * knee + 1] = 0.01;
    for (int integrator : kIntegrators) {
      SCOPED_TRACE(integrator * 10 + clamped);
      m->opt.integrator = integrator;
      ExpectStep(m, At(m, 3).get());
    }
  }
}

}  // namespace
}  // namespace costate
