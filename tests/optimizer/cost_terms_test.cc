// Every kind of term: its expansion against differences of its value through the sensors of the step.
#include "optimizer/cost_terms.h"

#include <costate/adjoint.h>
#include <costate/residual.h>
#include <costate/solve_task.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <functional>

#include "optimizer/residual_map.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/task_file.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::LoadZooTask;
using support::MatricesNear;

// value at (x, u), sensors measured there
class KnotCost {
 public:
  KnotCost(const Task& task, bool last)
      : task_(task), last_(last), data_(MakeData(task.model.get())), s_(task.model->nsensordata) {}
  double Value(const VectorXd& x, const VectorXd& u) {
    SetContext(task_.model.get(), data_.get(), task_.context);
    const VectorXd zero = VectorXd::Zero(u.size());
    EXPECT_EQ(Forward(task_.model.get(), data_.get(), x, last_ ? zero : u, s_), StepStatus::kOk);
    return task_.cost->Value(Knot(x, u));
  }
  KnotView Knot(const VectorXd& x, const VectorXd& u) const {
    return {.t = last_ ? task_.N : 3,
            .N = task_.N,
            .time = 0,
            .dt = 0.004,
            .x = x,
            .u = last_ ? ConstVectorRef(none_) : ConstVectorRef(u),
            .s = s_};
  }

 private:
  const Task& task_;
  bool last_;
  DataPtr data_;
  VectorXd s_, none_;
};

// lx and lu equal the differences of l: C and D come from centred step differences with an error near 1e-9 of their
// size, and so does the difference of l; 1e-6 of the largest entry leaves room for accelerations
void CheckGradient(const Task& task, unsigned seed, bool last) {
  const mjModel* model = task.model.get();
  const Dims dims(model);
  const VectorXd x = support::RandomState(model, seed), u = support::RandomControl(model, seed);
  Linearizer linearizer(model, {.level = Level::kStep});
  linearizer.SetContext(task.context);
  StepDerivative derivative;
  if (last) {
    linearizer.LinearizeSensors(x, &derivative);
  } else {
    linearizer.Linearize(x, u, &derivative);
  }
  KnotCost cost(task, last);
  const double value = cost.Value(x, u);
  CostExpansion e;
  task.cost->Expand(cost.Knot(x, u), derivative.C, derivative.D, &e);
  EXPECT_NEAR(e.l, value, 1e-12 * (1 + std::abs(value)));

  // centred differences in the tangent space
  const double h = 6e-6;
  VectorXd lx(dims.ndx), lu(last ? 0 : dims.nu);
  for (int i = 0; i < dims.ndx; ++i) {
    const VectorXd dx = h * VectorXd::Unit(dims.ndx, i);
    lx[i] = (cost.Value(Retract(model, x, dx), u) - cost.Value(Retract(model, x, -dx), u)) / (2 * h);
  }
  for (int i = 0; i < lu.size(); ++i) {
    const VectorXd du = h * VectorXd::Unit(dims.nu, i);
    lu[i] = (cost.Value(x, u + du) - cost.Value(x, u - du)) / (2 * h);
  }
  const double scale = std::max({lx.cwiseAbs().maxCoeff(), lu.size() ? lu.cwiseAbs().maxCoeff() : 0, 1e-3});
  EXPECT_TRUE(MatricesNear(e.lx, lx, 1e-6 * scale, TangentNames(model))) << "lx, last " << last;
  EXPECT_TRUE(MatricesNear(e.lu, lu, 1e-6 * scale, ControlNames(model))) << "lu, last " << last;

  // the Gauss–Newton product with sensors apart, put together by C and D, is that of the expansion
  const MatrixXd &C = derivative.C, D = last ? MatrixXd(dims.ns, 0) : derivative.D;
  KnotGradient d{VectorXd::Random(dims.ndx), VectorXd::Random(lu.size()), VectorXd()};
  d.s = C * d.x + D * d.u;
  cost.Value(x, u);  // sensors at the point again
  KnotGradient product{VectorXd::Zero(dims.ndx), VectorXd::Zero(lu.size()), VectorXd::Zero(dims.ns)};
  task.cost->GaussNewtonProduct(model, cost.Knot(x, u), d, &product);
  VectorXd Hx = e.lxx * d.x, Hu = VectorXd::Zero(lu.size());
  if (!last) {
    Hx += e.lux.transpose() * d.u;
    Hu = e.lux * d.x + e.luu * d.u;
  }
  const double size = std::max({Hx.cwiseAbs().maxCoeff(), Hu.size() ? Hu.cwiseAbs().maxCoeff() : 0, 1e-9});
  EXPECT_LT((product.x + C.transpose() * product.s - Hx).cwiseAbs().maxCoeff(), 1e-8 * size) << "last " << last;
  EXPECT_LT((product.u + D.transpose() * product.s - Hu).lpNorm<Eigen::Infinity>(), 1e-8 * size) << "last " << last;

  // Gauss–Newton is positive semidefinite in (dx, du) together
  const int n = dims.ndx + static_cast<int>(e.lu.size());
  MatrixXd H(n, n);
  H.topLeftCorner(dims.ndx, dims.ndx) = e.lxx;
  if (!last) {
    H.bottomLeftCorner(dims.nu, dims.ndx) = e.lux;
    H.topRightCorner(dims.ndx, dims.nu) = e.lux.transpose();
    H.bottomRightCorner(dims.nu, dims.nu) = e.luu;
  }
  EXPECT_TRUE(MatricesNear(H, H.transpose(), 1e-9 * (1 + H.cwiseAbs().maxCoeff())));
  const VectorXd eigenvalues = Eigen::SelfAdjointEigenSolver<MatrixXd>(H).eigenvalues();
  EXPECT_GE(eigenvalues[0], -1e-9 * (1 + eigenvalues[n - 1]));
}

class TermGradient : public ::testing::TestWithParam<const char*> {};

TEST_P(TermGradient, IsTheDifferenceOfTheValue) {
  const bool of_control = std::string(GetParam()).find("ctrl=") == 0;  // no value at the last knot
  const Task task =
      LoadZooTask("<cost " + std::string(GetParam()) + " weight='3'" + (of_control ? "" : " terminal='2'") + "/>");
  for (unsigned seed : {1u, 2u}) {
    CheckGradient(task, seed, false);
    if (!of_control) CheckGradient(task, seed, true);
  }
}

// The engine counts kinetic energy among the sensors of positions; its slope is by the velocities, too.
TEST(TermGradientOf, KineticEnergyIsTheDifferenceOfTheValue) {
  const support::TemporaryFolder folder;
  folder.Write("arm.xml", R"(<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
    <geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/><body pos=".3 0 0"><joint name="b" axis="0 1 0"/>
    <geom type="capsule" size=".02" fromto="0 0 0 0 0 .3"/></body></body></worldbody>
    <actuator><motor joint="b"/></actuator><sensor><e_kinetic name="energy"/></sensor></mujoco>)");
  const Task task = LoadTask(folder.Write(
      "t.xml", "<task model='arm.xml' horizon='0.1'><cost sensor='energy' weight='3' terminal='2'/></task>"));
  for (const bool last : {false, true}) CheckGradient(task, 1, last);
}

INSTANTIATE_TEST_SUITE_P(
    Direct, TermGradient,
    ::testing::Values("qpos='all' target='key:pose'", "qpos='root shoulder' target='.1 .2 .3 .5 .5 .1 .2 .4'",
                      "qpos='neck' index='2 0'", "qpos='2 11' target='1 0.3' norm='smooth_abs' param='.1'",
                      "qpos='all' norm='l2' param='.3' target='key:home'", "qvel='all' target='key:pose'",
                      "qvel='extend root' index='1 3' norm='cosh' param='.5'", "act='all' target='0.3'",
                      "ctrl='all' target='key:pose'", "ctrl='pull 0' norm='huber' param='.2'"));

INSTANTIATE_TEST_SUITE_P(Sensors, TermGradient,
                         ::testing::Values("sensor='gyro' target='1 2 3'", "sensor='gyro' index='2'",
                                           "sensor='attitude'", "sensor='attitude' target='.6 .3 -.1 .4' index='0 2'",
                                           "sensor='attitude' target='key:pose' norm='l2' param='.1'",
                                           "sensor='tip_pos' target='site:grip'",
                                           "sensor='attitude' target='mocap:hand'"));

INSTANTIATE_TEST_SUITE_P(
    Elements, TermGradient,
    ::testing::Values(
        "joint='shoulder' quantity='pos'", "joint='shoulder' quantity='vel'", "joint='shoulder' quantity='force'",
        "joint='neck' quantity='quat' target='.9 .1 .2 .3'", "joint='neck' quantity='angvel'",
        "body='arm' quantity='pos' target='body:head'", "body='head' quantity='com'", "body='head' quantity='comvel'",
        "body='base' quantity='zaxis' target='0 0 1'", "body='base' quantity='quat'",
        "body='rod' quantity='quat' target='geom:skull'", "site='tip' quantity='linvel' norm='l22' param='.1 3'",
        "site='tip' quantity='angvel'", "site='imu' quantity='rangefinder'", "site='tip' quantity='linacc'",
        "site='imu' quantity='velocimeter'", "site='imu' quantity='accelerometer'",
        "site='tip' quantity='pos' reftype='body' refname='base' target='.1 .2 .3'", "geom='skull' quantity='xaxis'",
        "geom='skull' geom2='tip_geom' quantity='distance' norm='rectify' param='.1'",
        "body='rod' body2='head' quantity='distance'", "camera='eye' quantity='yaxis' target='1 0 0'",
        "subtree='base' quantity='com' target='mocap:hand'", "subtree='arm' quantity='linvel'",
        "subtree='base' quantity='momentum'", "tendon='cord' quantity='length' norm='power' param='3'",
        "tendon='cord' quantity='velocity'", "tendon='cord' quantity='force'", "actuator='extend' quantity='force'",
        "actuator='pull' quantity='length'",
        "actuator='shoulder' quantity='velocity' norm='smooth_abs2' param='.1 3'"));

// ---- functions of measures ------------------------------------------------------------------------------------------

constexpr char kMeasures[] =
    "<measure name='tip' sensor='tip_pos'/><measure name='v' subtree='base' quantity='linvel' coef='2'/>"
    "<measure name='up' body='base' quantity='zaxis'/><measure name='turn' sensor='attitude'/>"
    "<measure name='q' qpos='shoulder extend'/><measure name='u' ctrl='all'/><measure name='acc' sensor='gyro'/>"
    "<measure name='force' joint='shoulder' quantity='force'/><let name='standing' value='tip[2] / sqrt(tip[2]^2 + "
    "0.2)'/>";

// (6a): half the square of a norm costs what the sum of squares does, in its second derivative, too
TEST(FunctionCurvature, OfANormIsThatOfTheSumOfSquares) {
  const Task norm = LoadZooTask(kMeasures + std::string("<cost value='norm(tip - 3 * v)' weight='3' terminal='2'/>"));
  const Task squares = LoadZooTask(kMeasures + std::string("<cost value='tip - 3 * v' weight='3' terminal='2'/>"));
  const Dims dims(norm.model.get());
  const VectorXd x = support::RandomState(norm.model.get(), 1), u = support::RandomControl(norm.model.get(), 1);
  for (const bool last : {false, true}) {
    KnotCost cost(norm, last);
    cost.Value(x, u);
    const MatrixXd C = MatrixXd::Random(dims.ns, dims.ndx),
                   D = MatrixXd::Random(last ? 0 : dims.ns, last ? 0 : dims.nu);
    CostExpansion found, expected;
    norm.cost->Expand(cost.Knot(x, u), C, D, &found);
    squares.cost->Expand(cost.Knot(x, u), C, D, &expected);
    EXPECT_NEAR(found.l, expected.l, 1e-14 * expected.l);
    const double size = expected.lxx.cwiseAbs().maxCoeff();
    EXPECT_TRUE(MatricesNear(found.lxx, expected.lxx, 1e-13 * size, TangentNames(norm.model.get())));
    EXPECT_LT((found.lx - expected.lx).norm(), 1e-13 * expected.lx.norm());
  }
}

struct FunctionCost {
  const char* text;
  bool of_control = false;
};
void PrintTo(const FunctionCost& cost, std::ostream* out) { *out << cost.text; }
class FunctionGradient : public ::testing::TestWithParam<FunctionCost> {};

TEST_P(FunctionGradient, IsTheDifferenceOfTheValue) {
  const Task task = LoadZooTask(kMeasures + std::string("<cost ") + GetParam().text + " weight='3'" +
                                (GetParam().of_control ? "" : " terminal='2'") + "/>");
  for (unsigned seed : {1u, 2u}) {
    CheckGradient(task, seed, false);
    if (!GetParam().of_control) CheckGradient(task, seed, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Values, FunctionGradient,
                         ::testing::Values(FunctionCost{"value='cos(q[0]) - 1' norm='smooth_abs' param='.01'"},
                                           FunctionCost{"value='standing * (dot(v, up) - 0.5)'"},
                                           FunctionCost{"value='standing * [v[0:2], tip[2]]' norm='l2' param='.1'"},
                                           FunctionCost{"value='norm(tip - 0.3)'"}, FunctionCost{"value='turn * acc'"},
                                           FunctionCost{"value='u * q[0]'", true},
                                           FunctionCost{"value='force * v[0]' norm='huber' param='.3'"},
                                           FunctionCost{
                                               "value='tip[2] - 0.05 * cos(4*pi*time)' norm='cosh' param='.3'"}));

// v is measured twice itself: coef counts
TEST(FunctionCost, HasTheValueOfItsExpression) {
  const Task task =
      LoadZooTask(std::string(kMeasures) + "<cost value='standing * (dot(v, up) - 0.5)' norm='power' param='1'/>");
  const VectorXd x = support::RandomState(task.model.get(), 4), u = support::RandomControl(task.model.get(), 4);
  const DataPtr data = MakeData(task.model.get());
  VectorXd s(task.model->nsensordata);
  ASSERT_EQ(Forward(task.model.get(), data.get(), x, u, s), StepStatus::kOk);
  const int base = mj_name2id(task.model.get(), mjOBJ_BODY, "base"),
            tip = mj_name2id(task.model.get(), mjOBJ_SITE, "tip");
  mj_subtreeVel(task.model.get(), data.get());
  const double z = data->site_xpos[3 * tip + 2];
  const Eigen::Vector3d up(data->xmat[9 * base + 2], data->xmat[9 * base + 5], data->xmat[9 * base + 8]);
  const double along = 2 * Eigen::Vector3d::Map(data->subtree_linvel + 3 * base).dot(up);
  const KnotView knot{.t = 3, .N = task.N, .time = 0, .dt = 1, .x = x, .u = u, .s = s};
  EXPECT_NEAR(task.cost->Value(knot), std::abs(z / std::sqrt(z * z + 0.2) * (along - 0.5)), 1e-12);
}

// a residual of one's own: with its Jacobian, without (differenced), and reading state and control itself
void RegisterTestResiduals() {
  ResidualCallback callback;
  callback.size = 2;
  callback.value = [](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    r[0] = in.measured[0] * in.measured[4] + in.time;
    r[1] = std::sin(in.measured[2]);
  };
  RegisterResidual("differenced", callback);
  callback.jacobian = [](const ResidualInput& in, ResidualJacobian* J) {
    J->measured(0, 0) = in.measured[4];
    J->measured(0, 4) = in.measured[0];
    J->measured(1, 2) = std::cos(in.measured[2]);
  };
  RegisterResidual("exact", callback);
  callback.jacobian = nullptr;
  callback.value = [](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    r[0] += in.measured[0] * in.measured[4];
    r[1] -= std::sin(in.measured[2]);
  };
  RegisterResidual("added to 0", callback);
  ResidualCallback state;
  state.size = 1;
  state.reads_state = true;
  state.value = [](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    double turn[3];
    const double identity[4] = {1, 0, 0, 0};
    mju_subQuat(turn, in.x.data() + 3, identity);
    r[0] = in.x[2] * turn[1];
  };
  RegisterResidual("state", state);
  state.reads_control = true;
  state.value = [](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    r[0] = in.x[2] * in.u[0] + in.u[1] * in.measured[0];
  };
  RegisterResidual("state and control", state);
}

INSTANTIATE_TEST_SUITE_P(Callbacks, FunctionGradient,
                         ::testing::Values(FunctionCost{"callback='exact' reads='tip v'"},
                                           FunctionCost{"callback='differenced' reads='tip v'"},
                                           FunctionCost{"callback='added to 0' reads='tip v'"},
                                           FunctionCost{"callback='state' norm='cosh' param='1'"},
                                           FunctionCost{"callback='state and control' reads='q'", true}));
const bool kRegistered = (RegisterTestResiduals(), true);

// the transpose, or what is not read: a product with it would leave its buffer
TEST(FunctionCost, RefusesAJacobianOfAnotherSize) {
  const Task task = LoadZooTask("<cost ctrl='all'/>");
  const mjModel* model = task.model.get();
  const VectorXd x = support::RandomState(model, 4), u = support::RandomControl(model, 4), z = VectorXd::Ones(3);
  const VectorXd s = VectorXd::Zero(model->nsensordata);
  const KnotView knot{.t = 3, .N = task.N, .time = 0, .dt = 1, .x = x, .u = u, .s = s};
  ResidualCallback callback;
  callback.size = 2;
  callback.reads_state = true;
  callback.value = [](const ResidualInput&, Eigen::Ref<VectorXd>) {};
  const auto jacobian = [&](const std::function<void(ResidualJacobian*)>& change) {
    callback.jacobian = [change](const ResidualInput&, ResidualJacobian* J) { change(J); };
    RegisterResidual("resized", callback);
    ResidualJacobian J;
    FindResidual("resized", model)->Jacobian(knot, z, &J);
  };
  jacobian([](ResidualJacobian* J) { J->measured(1, 2) = 1; });
  EXPECT_ERROR(jacobian([](ResidualJacobian* J) { J->measured.setZero(3, 2); }), ErrorCode::kDimensionMismatch,
               "residual 'resized': its Jacobian by measured is 3 × 2, expected 2 × 3");
  const int ndx = Dims(model).ndx;
  const std::string by_x = "residual 'resized': its Jacobian by x is 2 × " + std::to_string(ndx + 1) +
                           ", expected 2 × " + std::to_string(ndx);
  EXPECT_ERROR(jacobian([&](ResidualJacobian* J) { J->x.setZero(2, ndx + 1); }), ErrorCode::kDimensionMismatch,
               by_x.c_str());
  EXPECT_ERROR(jacobian([](ResidualJacobian* J) { J->u.setZero(2, 3); }), ErrorCode::kDimensionMismatch,
               "residual 'resized': its Jacobian by u is 2 × 3, expected 0 × 0");
}

TEST(ResidualCost, CombinesTermsLinearly) {
  const Task task = LoadZooTask(
      "<cost name='mixed' target='0.3 -0.1' weight='1 2' norm='smooth_abs' param='.2'>"
      "  <term site='tip' quantity='pos' index='0 2'/><term sensor='gyro' index='1 2' coef='-2'/>"
      "  <term qpos='shoulder extend' coef='.5'/><term ctrl='0 1' coef='.1'/><term qvel='0 1'/></cost>");
  for (unsigned seed : {3u, 4u}) CheckGradient(task, seed, false);

  // r = tip - 2 gyro + 0.5 qpos + 0.1 ctrl + qvel - target, read off the sensors themselves
  const mjModel* model = task.model.get();
  const Dims dims(model);
  const VectorXd x = support::RandomState(model, 3), u = support::RandomControl(model, 3);
  const DataPtr data = MakeData(model);
  VectorXd s(dims.ns), r;
  ASSERT_EQ(Forward(model, data.get(), x, u, s), StepStatus::kOk);
  const auto& cost = dynamic_cast<const ResidualCost&>(*task.cost);
  cost.Residual(0, {.t = 0, .N = 5, .time = 0, .dt = 1, .x = x, .u = u, .s = s}, &r);
  const double* tip = data->site_xpos + 3 * mj_name2id(model, mjOBJ_SITE, "tip");
  const double* gyro = data->sensordata + model->sensor_adr[mj_name2id(model, mjOBJ_SENSOR, "gyro")];
  ASSERT_EQ(r.size(), 2);
  EXPECT_NEAR(r[0], tip[0] - 2 * gyro[1] + 0.5 * x[11] + 0.1 * u[0] + x[dims.nq] - 0.3, 1e-14);
  EXPECT_NEAR(r[1], tip[2] - 2 * gyro[2] + 0.5 * x[12] + 0.1 * u[1] + x[dims.nq + 1] + 0.1, 1e-14);
}

// the contact sensor is the force on the named element: a resting box carries its weight
TEST(ResidualCost, MeasuresTheContactForceOnAnElement) {
  const support::TemporaryFolder folder;
  folder.Write("box.xml", R"(<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body name="box" pos="0 0 .0995"><freejoint/><geom name="cube" type="box" size=".1 .1 .1" mass="2"/></body>
    <body pos="3 0 1"><joint name="j"/><geom size=".1"/></body></worldbody>
    <actuator><motor joint="j"/></actuator></mujoco>)");
  const Task task = LoadTask(folder.Write("box.task.xml", R"(<task model="box.xml" horizon="2">
    <cost name="geom" geom="cube" quantity="contactforce"/>
    <cost name="pair" geom="cube" geom2="floor" quantity="contactforce"/>
    <cost name="body" body="box" quantity="contactforce"/>
    <cost name="subtree" subtree="box" quantity="contactforce"/></task>)"));
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &trajectory).ok());
  ASSERT_EQ(trajectory.S.rows(), 12);
  for (int term = 0; term < 4; ++term) {
    EXPECT_NEAR(trajectory.S(3 * term + 2, task.N), 2 * 9.81, 0.01) << "term " << term;
  }
}

// scratch memory is a thread's own: eight workers at once give what one gives, bit for bit
TEST(ResidualCost, GivesTheSameOnManyThreads) {
  const Task task = LoadZooTask(
      "<cost site='tip' quantity='pos' target='mocap:hand' norm='l2' param='.1'/><cost qpos='all' target='key:pose'/>"
      "<cost sensor='attitude' target='key:pose' norm='smooth_abs' param='.1'/><cost ctrl='all'/><cost qvel='all'/>");
  Simulator simulator(task.model.get(), task.context, 1, 8);
  Trajectory trajectory;
  ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &trajectory).ok());
  std::vector<StepDerivative> derivatives;
  simulator.Linearize(trajectory, {}, &derivatives);
  auto expand = [&](int t) {
    CostExpansion e;
    task.cost->Expand(ViewKnot(trajectory, t, 0.002), derivatives[t].C, derivatives[t].D, &e);
    return e;
  };
  std::vector<CostExpansion> parallel(task.N + 1);
  simulator.ParallelFor(task.N + 1, [&](int t, int) { parallel[t] = expand(t); });
  for (int t = 0; t <= task.N; ++t) {
    const CostExpansion alone = expand(t);
    EXPECT_EQ(parallel[t].l, alone.l);
    EXPECT_TRUE(support::BitwiseEqual(parallel[t].lx, alone.lx));
    EXPECT_TRUE(support::BitwiseEqual(parallel[t].lxx, alone.lxx));
    EXPECT_TRUE(support::BitwiseEqual(parallel[t].luu, alone.luu));
  }
}

// running terms by dt, 1/N or 1; terminal terms as they are; windows half open; all terms add up
TEST(ResidualCost, ScalesAndWindowsAreAsDocumented) {
  const std::string costs =
      "<cost name='a' ctrl='1' target='-1' weight='2'/><cost name='b' ctrl='1' target='-1' weight='2' when='0.02 "
      "0.06'/>"
      "<cost name='c' qvel='0' target='1' weight='4' when='end'/><cost name='d' qvel='0' target='1' terminal='6'/>"
      "<cost name='e' qvel='0' target='1' when='0.06 end'/>";
  // ½ r² = ½ at every knot (ctrl 0 and qvel 0, targets ±1), 10 knots of 0.01 s; ctrl has no terminal value
  for (const auto& [scale, unit] : {std::pair{"dt", 0.01}, {"mean", 0.1}, {"sum", 1.0}}) {
    Task task = LoadZooTask("<guess ctrl='0 0 0'/>" + costs,
                            "horizon='0.1' controlstep='5' scale='" + std::string(scale) + "'");
    ASSERT_EQ(task.N, 10);
    Trajectory trajectory;
    trajectory.X = task.x0.replicate(1, 11);
    trajectory.U = MatrixXd::Zero(3, 10);
    trajectory.S = MatrixXd::Zero(task.model->nsensordata, 11);
    trajectory.time = VectorXd::LinSpaced(11, 0, 0.1);
    const std::vector<CostTermValue> terms = task.cost->Terms(trajectory);
    ASSERT_EQ(terms.size(), 5u);
    EXPECT_NEAR(terms[0].value, 2 * 0.5 * 10 * unit, 1e-12) << scale;  // a control has no value at the last knot
    EXPECT_NEAR(terms[1].value, 2 * 0.5 * 4 * unit, 1e-12) << scale;
    EXPECT_NEAR(terms[2].value, 4 * 0.5, 1e-12) << scale;
    EXPECT_NEAR(terms[3].value, 6 * 0.5, 1e-12) << scale;
    EXPECT_NEAR(terms[4].value, 0.5 * 4 * unit, 1e-12) << scale;
    double sum = 0;
    for (const CostTermValue& term : terms) sum += term.value;
    EXPECT_NEAR(TotalCost(*task.cost, trajectory, 0.01), sum, 1e-12);
  }

  // scale "knots": the last knot counts like the others
  Task task = LoadZooTask("<guess ctrl='0'/><cost qvel='0' target='1' weight='4' terminal='4'/>",
                          "horizon='0.1' controlstep='5' scale='knots'");
  Trajectory trajectory;
  trajectory.X = task.x0.replicate(1, 11);
  trajectory.U = MatrixXd::Zero(3, 10);
  trajectory.S = MatrixXd::Zero(task.model->nsensordata, 11);
  trajectory.time = VectorXd::LinSpaced(11, 0, 0.1);
  EXPECT_NEAR(TotalCost(*task.cost, trajectory, 0.01), 4 * 0.5, 1e-12);
}

// every term of our tasks: the gradient with sensors apart, put together by any C and D, is that of the expansion
TEST(ResidualCostGradient, IsThatOfTheExpansion) {
  for (const char* name :
       {"arm/reach", "humanoid/reach", "quadrotor/fly", "hopper/hop", "quadruped/jump", "box_push/push"}) {
    SCOPED_TRACE(name);
    const Task task = LoadTask(std::string(COSTATE_MODELS "/") + name + ".xml");
    const Problem problem = task.ToProblem();
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    Trajectory motion;
    ASSERT_TRUE(simulator.Rollout(task.x0, 0.9 * task.U_guess, &motion).ok());
    const Dims& dims = simulator.dims();
    for (int t : {0, task.N / 2, task.N}) {
      const int nu = t < task.N ? dims.nu : 0;
      const MatrixXd C = MatrixXd::Random(dims.ns, dims.ndx), D = MatrixXd::Random(dims.ns, nu);
      const KnotView knot = ViewKnot(motion, t, simulator.knot_time());
      CostExpansion expansion;
      problem.cost->Expand(knot, C, D, &expansion);
      KnotGradient g{VectorXd::Zero(dims.ndx), VectorXd::Zero(nu), VectorXd::Zero(dims.ns)};
      problem.cost->Gradient(knot, &g);
      // sensors of positions and velocities have no slope by what comes later: their rows of C end there
      const VectorXd x = g.x + C.transpose() * g.s;
      EXPECT_LT((x - expansion.lx).head(dims.nv).cwiseAbs().maxCoeff(),
                1e-12 * (1 + expansion.lx.cwiseAbs().maxCoeff()))
          << t;
      if (g.s.isZero(0)) {
        EXPECT_LT((x - expansion.lx).cwiseAbs().maxCoeff(), 1e-12 * (1 + expansion.lx.cwiseAbs().maxCoeff())) << t;
        EXPECT_LT((g.u - expansion.lu).lpNorm<Eigen::Infinity>(), 1e-12 * (1 + expansion.lu.lpNorm<Eigen::Infinity>()));
      }
    }
  }
}

// no regularization helps where a term's slope is no number: who has written it is told which one, and where
TEST(ResidualCost, AnInfiniteSlopeIsNamedWithItsTermAndKnot) {
  const support::TemporaryFolder folder;
  folder.Write("rail.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="x" ctrlrange="-1 1"/></actuator></mujoco>)");
  for (const char* value : {"atan2(x, x)", "asin(1 + 0*x)"}) {
    Task task = LoadTask(
        folder.Write("rail.task.xml",
                     std::string("<task model='rail.xml' horizon='0.1'><measure name='x' qpos='x'/><cost name='odd' "
                                 "value='") +
                         value + "' weight='1'/><cost name='effort' ctrl='all' weight='0.01'/></task>"));
    for (const SolverType type : {SolverType::kIlqr, SolverType::kFddp}) {
      task.solver.type = type;
      for (const int rounds : {0, 2}) {
        task.hopping.rounds = rounds;
        const SolveResult result = SolveTask(task).result;
        EXPECT_EQ(result.status, SolveStatus::kStalled);
        EXPECT_NE(result.message.find("the slope of its cost of 'odd' is not finite at knot 9 of 10 (0.09 s)"),
                  std::string::npos)
            << value << ": " << result.message;
      }
    }
    Adjoint adjoint(task.model.get(), task.context, task.substeps);
    RolloutGradient gradient;
    try {
      adjoint.Gradient(task.x0, task.U_guess, *task.cost, {}, &gradient);
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("by qpos[x] at knot 9 is "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(", by its term 'odd'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace costate
