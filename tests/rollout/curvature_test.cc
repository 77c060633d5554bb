// Tangents and second derivatives of rollouts: closed forms, dense matrices, symmetry, differences of gradients.
#include <costate/adjoint.h>
#include <costate/curvature.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "rollout/models.h"
#include "rollout/rotation.h"
#include "rollout/square_loss.h"

namespace costate {
namespace {

// the end's ⊖ from a goal, squared: curved where there are rotations
class Distance final : public Loss {
 public:
  Distance(const mjModel* model, VectorXd goal) : model_(model), goal_(std::move(goal)) {}
  double Value(const KnotView& k) const override {
    return k.t == k.N ? 0.5 * Difference(model_, k.x, goal_).squaredNorm() : 0;
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t < k.N) return;
    const VectorXd d = Difference(model_, k.x, goal_);
    out->x = d;
    for (int j = 0; j < model_->njnt; j++) {
      if (model_->jnt_type[j] != mjJNT_BALL && model_->jnt_type[j] != mjJNT_FREE) continue;
      const int free = model_->jnt_type[j] == mjJNT_FREE, q = model_->jnt_qposadr[j] + 3 * free,
                v = model_->jnt_dofadr[j] + 3 * free;
      Eigen::Matrix<double, 3, 3, Eigen::RowMajor> Da, Db;
      mjd_subQuat(k.x.data() + q, goal_.data() + q, Da.data(), Db.data());
      out->x.segment<3>(v) = Da.transpose() * d.segment<3>(v);
    }
  }
  bool NeedsSensors() const override { return false; }

 private:
  const mjModel* model_;
  VectorXd goal_;
};

struct ShortMotion {
  ModelPtr model;
  VectorXd context, x0;
  MatrixXd U;
  Trajectory trajectory;
  int substeps;

  ShortMotion(ModelPtr m, DataPtr data, int N, double amplitude, double speed = 0, int k = 1)
      : model(std::move(m)), substeps(k) {
    context = GetContext(model.get(), data.get());
    x0 = GetState(model.get(), data.get());
    U = ControlsAbout(model.get(), data.get(), N, amplitude);
    for (int i = 0; i < model->nv; i++) x0[model->nq + i] = speed * (1 + 0.3 * std::sin(1 + i));
    Roll();
  }
  void Roll() {
    Simulator simulator(model.get(), context, substeps, 1);
    EXPECT_TRUE(simulator.Rollout(x0, U, &trajectory).ok());
  }
  static ShortMotion At(const std::string& name, const char* key, int N, double amplitude, double speed = 0,
                        int k = 1) {
    ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + name + "/" + name + ".xml");
    DataPtr data = key ? MakeDataAtKey(model.get(), key) : MakeData(model.get());
    return ShortMotion(std::move(model), std::move(data), N, amplitude, speed, k);
  }
  RolloutDirection Direction(int seed) const {
    const Dims dims(model.get());
    RolloutDirection d{VectorXd(dims.ndx), MatrixXd(dims.nu, U.cols())};
    for (int i = 0; i < dims.ndx; i++) d.x0[i] = std::sin(1.7 * i + seed);
    for (int t = 0; t < U.cols(); t++) {
      for (int i = 0; i < dims.nu; i++) d.U(i, t) = std::cos(0.9 * i + 0.37 * t * seed);
    }
    return d;
  }
};

double Dot(const RolloutDirection& a, const RolloutDirection& b) {
  return a.x0.dot(b.x0) + a.U.cwiseProduct(b.U).sum();
}
double Norm(const RolloutDirection& a) { return std::sqrt(Dot(a, a)); }
RolloutDirection Minus(const RolloutDirection& a, const RolloutDirection& b) { return {a.x0 - b.x0, a.U - b.U}; }

// (g(z + εd) − g(z − εd)) / 2ε, extrapolated from ε and ε/2; slopes at the moved starts brought to the middle
RolloutDirection DifferencedGradient(const ShortMotion& m, const Loss& loss, const RolloutDirection& d, double eps) {
  Adjoint adjoint(m.model.get(), m.context, m.substeps);
  const auto centred = [&](double h) {
    RolloutGradient g[2];
    for (int k = 0; k < 2; k++) {
      const double step = k ? -h : h;
      adjoint.Gradient(Retract(m.model.get(), m.x0, step * d.x0), m.U + step * d.U, loss, {}, &g[k]);
      EXPECT_TRUE(g[k].status.ok());
    }
    RolloutDirection out{(g[0].x0 - g[1].x0) / (2 * h), (g[0].U - g[1].U) / (2 * h)};
    AddHalfBracket(m.model.get(), -1, 0.5 * (g[0].x0 + g[1].x0), d.x0, &out.x0);
    return out;
  };
  const RolloutDirection a = centred(eps), b = centred(0.5 * eps);
  return {(4 * b.x0 - a.x0) / 3, (4 * b.U - a.U) / 3};
}

// ---- tangents ------------------------------------------------------------------------------------------------------

TEST(Tangent, IsTheProductOfTheMatrices) {
  const ShortMotion m = ShortMotion::At("quadruped", "stand", 12, 0.02, 0.2, 2);
  Simulator simulator(m.model.get(), m.context, m.substeps, 1);
  std::vector<StepDerivative> steps;
  simulator.Linearize(m.trajectory, {}, &steps);
  for (bool sensors : {false, true}) {
    RolloutTangent out;
    Tangent(m.model.get(), m.context, m.substeps)
        .Push(m.trajectory, {m.Direction(1), m.Direction(2)}, {.sensors = sensors}, &out);
    ASSERT_TRUE(out.status.ok());
    ASSERT_EQ(out.dX.size(), 2u);
    ASSERT_EQ(out.dS.size(), sensors ? 2u : 0u);
    EXPECT_EQ(out.coverage.Worst(), Level::kAnalytic);
    for (int i = 0; i < 2; i++) {
      const RolloutDirection d = m.Direction(i + 1);
      VectorXd dx = d.x0;
      const std::size_t at = static_cast<std::size_t>(i);
      for (int t = 0; t <= 12; t++) {
        const StepDerivative& s = steps[static_cast<std::size_t>(t)];
        EXPECT_LT((out.dX[at].col(t) - dx).norm(), 1e-9 * dx.norm()) << t;
        if (sensors) {
          VectorXd ds = s.C * dx;
          if (t < 12) ds += s.D * d.U.col(t);
          EXPECT_LT((out.dS[at].col(t) - ds).norm(), 1e-9 * ds.norm()) << t;
        }
        if (t < 12) dx = s.A * dx + s.B * d.U.col(t);
      }
    }
  }
}

TEST(Tangent, DoesNotDependOnItsCompany) {
  const ShortMotion m = ShortMotion::At("hopper", "stand", 15, 0.05);
  Tangent tangent(m.model.get(), m.context);
  RolloutTangent alone, together;
  tangent.Push(m.trajectory, {m.Direction(2)}, {}, &alone);
  tangent.Push(m.trajectory, {m.Direction(1), m.Direction(2), m.Direction(3)}, {}, &together);
  EXPECT_EQ(alone.dX[0], together.dX[1]);
}

TEST(Tangent, IsTheTransposeOfTheAdjoint) {
  // g·d by the adjoint is the slopes' sum along the tangent
  const ShortMotion m = ShortMotion::At("humanoid", "stand", 30, 0.02, 0.1);
  const SquareLoss loss(m.model.get(), 0);
  RolloutGradient g;
  Adjoint(m.model.get(), m.context).Gradient(m.x0, m.U, loss, {}, &g);
  const RolloutDirection d = m.Direction(1);
  RolloutTangent out;
  Tangent(m.model.get(), m.context).Push(m.trajectory, {d}, {}, &out);
  const Dims dims(m.model.get());
  double sum = 0;
  for (int t = 0; t <= 30; t++) {
    KnotGradient slope{VectorXd::Zero(dims.ndx), VectorXd::Zero(t < 30 ? dims.nu : 0), VectorXd()};
    loss.Gradient(ViewKnot(m.trajectory, t, m.model->opt.timestep), &slope);
    sum += slope.x.dot(out.dX[0].col(t)) + (t < 30 ? slope.u.dot(d.U.col(t)) : 0);
  }
  EXPECT_NEAR(sum, Dot({g.x0, g.U}, d), 1e-10 * Norm({g.x0, g.U}) * Norm(d));
}

// ---- second derivatives --------------------------------------------------------------------------------------------

ShortMotion Masses(int N) {
  // two masses on springs with dampers, explicit: one linear map a step
  ModelPtr model = LoadModelFromString(
      "<mujoco><option timestep='0.01' gravity='0 0 0'><flag eulerdamp='disable'/></option><worldbody><body>"
      "<joint name='a' type='slide' axis='1 0 0' stiffness='20' damping='.5'/><geom size='.1' mass='1'/>"
      "<body pos='1 0 0'><joint name='b' type='slide' axis='1 0 0' stiffness='30' damping='.2'/><geom size='.1' "
      "mass='2'/>"
      "</body></body></worldbody><actuator><motor joint='a'/><motor joint='b' gear='3'/></actuator></mujoco>");
  DataPtr data = MakeData(model.get());
  return ShortMotion(std::move(model), std::move(data), N, 1, 0.5);
}

TEST(Curvature, OfALinearQuadraticProblemIsItsClosedForm) {
  const int N = 25;
  const ShortMotion m = Masses(N);
  const SquareLoss loss(m.model.get(), 0);
  Curvature curvature(m.model.get(), m.context);
  ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());

  // H = Jᵀ diag(0 on positions, 1 on velocities) J + 0.1 on controls, with J of matrices
  Simulator simulator(m.model.get(), m.context, 1, 1);
  std::vector<StepDerivative> steps;
  simulator.Linearize(m.trajectory, {}, &steps);
  const int n = 4 + 2 * N;
  MatrixXd J = MatrixXd::Zero(4, n), H = MatrixXd::Zero(n, n);
  J.leftCols(4).setIdentity();
  for (int t = 0; t <= N; t++) {
    H += J.bottomRows(2).transpose() * J.bottomRows(2);
    if (t == N) break;
    H.block(4 + 2 * t, 4 + 2 * t, 2, 2) += 0.1 * MatrixXd::Identity(2, 2);
    J = (steps[static_cast<std::size_t>(t)].A * J).eval();
    J.middleCols(4 + 2 * t, 2) += steps[static_cast<std::size_t>(t)].B;
  }
  for (int i = 0; i < n; i++) {
    const VectorXd e = VectorXd::Unit(n, i);
    const RolloutDirection d{e.head(4), Eigen::Map<const MatrixXd>(e.data() + 4, 2, N)};
    CurvatureProduct gn, full;
    curvature.GaussNewton(d, &gn);
    curvature.Hessian(d, &full);
    VectorXd a(n), b(n);
    a << gn.product.x0, Eigen::Map<const VectorXd>(gn.product.U.data(), 2 * N);
    b << full.product.x0, Eigen::Map<const VectorXd>(full.product.U.data(), 2 * N);
    EXPECT_LT((a - H.col(i)).norm(), 1e-9 * H.norm()) << i;
    EXPECT_LT((b - H.col(i)).norm(), 1e-7 * H.norm()) << i;  // differences of what does not change
    EXPECT_TRUE(full.one_sided.empty());
  }

  // and L is that parabola far away too
  const RolloutDirection d = m.Direction(1);
  CurvatureProduct p;
  curvature.Hessian(d, &p);
  ShortMotion far = Masses(N);
  far.x0 += d.x0;
  far.U += d.U;
  far.Roll();
  double there = 0;
  for (int t = 0; t <= N; t++) there += loss.Value(ViewKnot(far.trajectory, t, 0.01));
  EXPECT_NEAR(there, curvature.loss() + Dot(curvature.gradient(), d) + 0.5 * Dot(d, p.product), 1e-8 * there);
}

// against extrapolated differences of the adjoint's gradient, and symmetric; the second derivative of the steps matters
// by `bends`
void ExpectHessian(const ShortMotion& m, const Loss& loss, double eps, double tolerance, double bends,
                   Level level = Level::kBest) {
  Curvature curvature(m.model.get(), m.context, m.substeps);
  ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss, {.level = level}).ok());
  RolloutGradient g;
  Adjoint(m.model.get(), m.context, m.substeps).Gradient(m.x0, m.U, loss, {.level = level}, &g);
  EXPECT_NEAR(curvature.loss(), g.loss, 1e-12 * std::abs(g.loss));
  EXPECT_LT(Norm(Minus(curvature.gradient(), {g.x0, g.U})), 1e-12 * Norm({g.x0, g.U}));

  const RolloutDirection d = m.Direction(1), e = m.Direction(2);
  CurvatureProduct Hd, He, gn;
  curvature.Hessian(d, &Hd);
  curvature.Hessian(e, &He);
  curvature.GaussNewton(d, &gn);
  ASSERT_TRUE(Hd.status.ok() && He.status.ok() && gn.status.ok());
  EXPECT_TRUE(Hd.one_sided.empty());
  const RolloutDirection reference = DifferencedGradient(m, loss, d, eps);
  EXPECT_LT(Norm(Minus(Hd.product, reference)), tolerance * Norm(reference));
  EXPECT_GT(Norm(Minus(gn.product, reference)), bends * Norm(reference));
  EXPECT_NEAR(Dot(Hd.product, e), Dot(He.product, d), tolerance * Norm(Hd.product) * Norm(e));
}

TEST(Curvature, AgreesWithDifferencesOfGradientsInFreeMotion) {
  const ShortMotion m = ShortMotion::At("arm", nullptr, 40, 2, 0.3);
  ExpectHessian(m, SquareLoss(m.model.get(), 0), 1e-4, 1e-8, 0.1);
  ExpectHessian(m, SquareLoss(m.model.get(), 0.5), 1e-4, 1e-8, 0.1);
}

TEST(Curvature, AgreesWithDifferencesOfGradientsInContact) {
  const ShortMotion hopper = ShortMotion::At("hopper", "stand", 20, 0.05, 0.2, 2);
  ExpectHessian(hopper, SquareLoss(hopper.model.get(), 0), 1e-6, 1e-6, 0.1);
  const ShortMotion dog = ShortMotion::At("quadruped", "stand", 10, 0.02, 0.2, 2);
  ExpectHessian(dog, SquareLoss(dog.model.get(), 0), 1e-7, 1e-6, 0.1);
  ExpectHessian(dog, SquareLoss(dog.model.get(), 0.3), 1e-7, 1e-6, 0.1);
}

TEST(Curvature, AgreesOnEveryTermUnderEveryIntegrator) {
  for (int integrator : {mjINT_EULER, mjINT_RK4, mjINT_IMPLICIT, mjINT_IMPLICITFAST, mjINT_DISCRETE}) {
    SCOPED_TRACE(integrator);
    ModelPtr model = LoadModel(std::string(COSTATE_TESTDATA) + "/many_terms.xml");
    model->opt.integrator = integrator;
    DataPtr data = MakeData(model.get());
    // no activation stays 0: a gain of the velocity by it drives above and damps below, which the discrete integrator
    // takes into its metric
    for (int i = 0; i < model->nu; i++) data->ctrl[i] = 0.1;
    for (int i = 0; i < 50; i++) mj_step(model.get(), data.get());
    const ShortMotion m(std::move(model), std::move(data), 6, 0.1, 0.3);
    // the discrete integrator is differenced at fixed acceleration: the reference needs a larger nudge for that
    const bool differenced = integrator == mjINT_DISCRETE;
    ExpectHessian(m, SquareLoss(m.model.get(), 0.2), differenced ? 1e-5 : 1e-6, differenced ? 2e-6 : 1e-7, 1e-3);
  }
}

// derivatives are those of converged steps along the motion: where cones bend and the solver ends early, differences of
// gradients along motions of that solver tend to something else
TEST(Curvature, HoldsForConvergedStepsWhereTheSolverEndsEarly) {
  ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.005" cone="elliptic" impratio=".5"/><worldbody>
    <geom type="plane" size="5 5 .1"/><body pos="0 0 .095"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/><joint type="ball"/><geom type="capsule" size=".1 .2" euler="0 90 0" condim="4"/>
      <body pos=".3 0 .1"><joint axis="0 1 .3" damping=".1"/><geom size=".12" density="300"/></body></body></worldbody></mujoco>)");
  DataPtr data = MakeData(model.get());
  model->opt.iterations = 1;
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.5 * std::sin(1 + i);
  for (int k = 0; k < 4; k++) mj_step(model.get(), data.get());
  ShortMotion m(std::move(model), std::move(data), 2, 0, 0.4);
  const SquareLoss loss(m.model.get(), 0);
  const RolloutDirection d = m.Direction(1);
  const auto product = [&](const mjModel* of) {
    Curvature curvature(of, m.context);
    EXPECT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
    CurvatureProduct out;
    curvature.Hessian(d, &out);
    EXPECT_TRUE(out.status.ok() && out.one_sided.empty() && out.left_out.empty());
    return out.product;
  };

  // the same along the same motion, whatever iterations the solver has
  const RolloutDirection early = product(m.model.get());
  EXPECT_GT(Norm(Minus(DifferencedGradient(m, loss, d, 1e-6), early)), 1e-4 * Norm(early));
  m.model->opt.iterations = 100;
  m.model->opt.tolerance = 0;
  EXPECT_LT(Norm(Minus(product(m.model.get()), early)), 1e-7 * Norm(early));

  // along a motion of converged steps differences are right
  m.Roll();
  const RolloutDirection converged = product(m.model.get());
  EXPECT_LT(Norm(Minus(DifferencedGradient(m, loss, d, 1e-6), converged)), 1e-6 * Norm(converged));
}

// What is pulled back is 1, its curvature 1e-5 of that and less: over the usual nudge, 3e-7, rounding is a tenth of a
// thousandth of it. A point mass l below a hinge: v' = v − h g/l sin q, q' = q + h v'.
class LastState final : public Loss {
 public:
  double Value(const KnotView& k) const override { return k.t == k.N ? 3 * k.x[0] + 7 * k.x[1] : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t == k.N) out->x << 3, 7;
  }
  bool NeedsSensors() const override { return false; }
};

TEST(Curvature, IsFoundWhereItIsWeakBesideWhatIsPulledBack) {
  constexpr double kStep = 0.01, kLength = 0.5;
  for (const double gravity : {1e-3, 1e-4, 1e-5}) {
    SCOPED_TRACE(gravity);
    const ModelPtr model = LoadModelFromString("<mujoco><option timestep='0.01' gravity='0 0 -" +
                                               std::to_string(gravity) + R"('><flag eulerdamp="disable"/></option>
      <worldbody><body><joint axis="0 1 0"/><inertial pos="0 0 -.5" mass="1.7" diaginertia="1e-15 1e-15 1e-15"/></body>
      </worldbody></mujoco>)");
    const DataPtr data = MakeData(model.get());
    double worst = 0;
    for (const double q : {0.3, 0.9, 1.4, 2.1}) {
      data->qpos[0] = q;
      const ShortMotion m(CopyModel(model.get()), DataPtr(mj_copyData(nullptr, model.get(), data.get())), 1, 0, 0.4);
      const LastState loss;
      Curvature curvature(m.model.get(), m.context);
      ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
      CurvatureProduct product;
      curvature.Hessian({Eigen::Vector2d(1, -0.5), MatrixXd(0, 1)}, &product);
      const double exact = (3 * kStep + 7) * kStep * gravity / kLength * std::sin(q);
      worst = std::max(worst, std::abs(product.product.x0[0] - exact) / exact);
      EXPECT_TRUE(product.one_sided.empty() && product.left_out.empty());
    }
    EXPECT_LT(worst, 5e-10 / gravity);
  }
}

TEST(Curvature, RotationsBringTheirBracket) {
  // in motion: where the drag of |v| v starts it has two second derivatives
  const ShortMotion m = ShortMotion::At("quadrotor", "hover", 40, 0.1, 0.3);
  VectorXd goal = m.x0;
  goal.segment<4>(3) << 0.6, 0.8, 0, 0;
  ExpectHessian(m, Distance(m.model.get(), goal), 1e-4, 1e-7, 1e-4);
  ExpectHessian(m, SquareLoss(m.model.get(), 0.5), 1e-4, 1e-6, 1e-4);
}

TEST(Curvature, WorksWhereTermsAreDifferenced) {
  const ShortMotion m = ShortMotion::At("arm", nullptr, 20, 2, 0.3);
  ExpectHessian(m, SquareLoss(m.model.get(), 0), 1e-4, 1e-5, 1e-2, Level::kStep);
}

// A rope on a floor, of differenced rows: how its motion bends is the same whether a parameter without effect there is
// in the set or not. What that adds is noise, and noise of one part says nothing of the other.
TEST(Curvature, OfStatesIsNotThatOfParameters) {
  ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep="0.002" tolerance="0" iterations="300"/><worldbody>
    <geom type="plane" size="5 5 .1" friction="0.7"/>
    <flexcomp name="r" type="grid" dim="1" count="6 1 1" spacing=".08 .1 .1" pos="0 0 .05" euler="0 17 6" radius=".015" mass=".1">
      <edge equality="true" solref="0.01 1"/><contact selfcollide="none" condim="4"/></flexcomp></worldbody></mujoco>)");
  DataPtr data = MakeData(model.get());
  for (int i = 0; i < model->nv; i++) data->qvel[i] = 0.1 * std::sin(1 + 2 * i);
  for (int k = 0; k < 150; k++) mj_step(model.get(), data.get());
  const VectorXd x0 = GetState(model.get(), data.get()), context = GetContext(model.get(), data.get());
  const int ndx = 2 * static_cast<int>(model->nv), N = 10;
  MatrixXd slopes = MatrixXd::Zero(ndx, N + 1);
  RolloutDirection direction;
  direction.x0.resize(ndx);
  direction.U = MatrixXd::Zero(0, N);
  for (int i = 0; i < ndx; i++) {
    slopes(i, N) = std::sin(2.0 + 3 * i);
    direction.x0[i] = std::cos(1.0 + 5 * i) * (i < model->nv ? 0.01 : 0.1);
  }
  const KnownSlopes loss(slopes, MatrixXd(), MatrixXd());
  Simulator simulator(model.get(), context, 1, 1);
  Trajectory trajectory;
  simulator.Rollout(x0, direction.U, &trajectory);

  CurvatureProduct alone, beside;
  Curvature without(model.get(), context);
  without.SetPoint(trajectory, loss);
  without.Hessian(direction, &alone);
  ASSERT_GT(alone.product.x0.norm(), 1);
  EXPECT_TRUE(alone.left_out.empty());
  for (const char* name : {"joint:2/dampingpoly[1]", "joint:3/dampingpoly[1]", "joint:4/dampingpoly[1]"}) {
    SCOPED_TRACE(name);
    const ParameterSet set(model.get(), {name});
    CurvatureOptions options;
    options.parameters = &set;
    Curvature with(set.model(), context);
    with.SetPoint(trajectory, loss, options);
    direction.theta = VectorXd::Zero(1);
    with.Hessian(direction, &beside);
    EXPECT_LT((beside.product.x0 - alone.product.x0).norm(), 1e-6 * alone.product.x0.norm());
  }
}

// The impedance of a ball on the floor bends within 0.2 mm: products over one nudge of 0.03 mm, differenced ones, are
// off by 3e-3, and over one of 0.3 µm, exact ones, by 1e-6
TEST(Curvature, FollowsTermsThatBend) {
  const auto ball = [](const std::string& joint, const std::string& sensor) {
    ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><geom type="plane" size="1 1 1"/>
      <body pos="0 0 .0999" gravcomp=".2">)" +
                                         joint +
                                         R"(<geom size=".1" solimp="0 .95 .0002 .5 4" friction="2 .1 .1"/></body>
      </worldbody><sensor>)" + sensor + "</sensor></mujoco>");
    DataPtr data = MakeData(model.get());
    return ShortMotion(std::move(model), std::move(data), 1, 0);
  };
  const ShortMotion free = ball("<freejoint/>", "");
  ExpectHessian(free, SquareLoss(free.model.get(), 0), 1e-7, 1e-6, 1e-3, Level::kResidual);
  ExpectHessian(free, SquareLoss(free.model.get(), 0), 1e-7, 1e-8, 1e-3);

  // a sensor alone is differenced
  const ShortMotion sensed =
      ball("<joint name='z' type='slide' axis='0 0 1' actuatorgravcomp='true'/><joint axis='1 .2 0'/>",
           "<jointactuatorfrc joint='z'/>");
  ExpectHessian(sensed, SquareLoss(sensed.model.get(), 0.1), 1e-7, 1e-6, 1e-3);
}

TEST(Curvature, GaussNewtonIsPositive) {
  const ShortMotion m = ShortMotion::At("hopper", "stand", 15, 0.05, 0.2);
  const SquareLoss loss(m.model.get(), 0.1);
  Curvature curvature(m.model.get(), m.context);
  ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
  for (int seed = 1; seed < 6; seed++) {
    CurvatureProduct out;
    curvature.GaussNewton(m.Direction(seed), &out);
    EXPECT_GT(Dot(m.Direction(seed), out.product), 0);
  }
}

CurvatureProduct HessianProduct(const ShortMotion& m, const RolloutDirection& d) {
  const SquareLoss loss(m.model.get(), 0);
  Curvature curvature(m.model.get(), m.context);
  CurvatureProduct product;
  EXPECT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
  curvature.Hessian(d, &product);
  EXPECT_TRUE(product.status.ok());
  return product;
}

TEST(Curvature, StaysOnThePointsSideOfAClamp) {
  // controls exactly at their bound: the second derivative is that of a model without the bound, not 1/h
  const std::string xml =
      "<mujoco><option timestep='0.01'/><worldbody><body><joint name='j' axis='0 1 0' damping='.1'/><geom "
      "type='capsule' "
      "size='.02' fromto='0 0 0 0 0 -.5' mass='1'/></body></worldbody><actuator><general joint='j' gainprm='1' "
      "biastype='none' ";
  const auto make = [&](const char* range) {
    ModelPtr model = LoadModelFromString(xml + range + "/></actuator></mujoco>");
    DataPtr data = MakeData(model.get());
    data->qpos[0] = 1;
    data->ctrl[0] = 0.5;
    return ShortMotion(std::move(model), std::move(data), 10, 0, 0.7);
  };
  const ShortMotion clamped = make("ctrllimited='true' ctrlrange='-.5 .5'"), open = make("");
  const CurvatureProduct products[] = {HessianProduct(clamped, clamped.Direction(1)),
                                       HessianProduct(open, open.Direction(1))};
  EXPECT_LT(Norm(Minus(products[0].product, products[1].product)), 1e-5 * Norm(products[1].product));
  EXPECT_FALSE(products[0].one_sided.empty());
  EXPECT_TRUE(products[1].one_sided.empty());
}

TEST(Curvature, StaysOnThePointsSideOfAnOnset) {
  // a nanometre above the floor a ball still falls freely: the second derivative is that of a metre above it
  CurvatureProduct products[2];
  for (int k = 0; k < 2; k++) {
    ModelPtr model = LoadModelFromString(
        "<mujoco><option timestep='.001' density='1000'/><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 "
        ".1'>"
        "<joint type='slide' axis='0 0 1'/><geom size='.1'/></body></worldbody></mujoco>");
    DataPtr data = MakeData(model.get());
    data->qpos[0] = k ? 1 : 1e-9;
    const ShortMotion m(std::move(model), std::move(data), 1, 0, -0.5);
    products[k] = HessianProduct(m, {VectorXd::Ones(2), MatrixXd(0, 1)});
  }
  EXPECT_EQ(products[0].one_sided, std::vector<int>{0});
  EXPECT_TRUE(products[1].one_sided.empty());
  EXPECT_GT(products[1].product.x0.norm(), 0.1);
  EXPECT_LT((products[0].product.x0 - products[1].product.x0).norm(), 1e-6 * products[1].product.x0.norm());
}

// Exactly on a corner whose own slope is the mean, as of quadratic damping at rest under an implicit integrator, both
// sides jump alike: the quotient is jump/nudge. The value is that beside it, but for A, which is the mean.
TEST(Curvature, OnACornerIsThatBesideIt) {
  CurvatureProduct products[2];
  for (int k = 0; k < 2; k++) {
    ModelPtr model = LoadModelFromString(
        "<mujoco><option timestep='.004'/><worldbody><body><joint name='j' axis='0 1 0' damping='0 1'/>"
        "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/></body></worldbody>"
        "<actuator><motor joint='j'/></actuator></mujoco>");
    DataPtr data = MakeData(model.get());
    const ShortMotion m(std::move(model), std::move(data), 1, 0.5, k ? 1e-4 : 0);
    products[k] = HessianProduct(m, {VectorXd::Unit(2, 1), MatrixXd::Zero(1, 1)});
  }
  EXPECT_EQ(products[0].one_sided, std::vector<int>{0});
  EXPECT_TRUE(products[1].one_sided.empty());
  EXPECT_GT(products[1].product.x0.norm(), 1e-6);
  EXPECT_LT((products[0].product.x0 - products[1].product.x0).norm(), 0.1 * products[1].product.x0.norm());
}

TEST(Curvature, GoesBetweenTwoSwitchesOrSaysThatItLeavesAStepOut) {
  // a pendulum held at 1 rad by a motor, between limits so close that every usual nudge meets one, whichever way it
  // goes: within 1e-7 rad there is room for smaller ones, and the product is that of the free pendulum; within 1e-12
  // rad there is none, and what is left has no part of the limits' jumps
  const auto make = [](const char* limits) {
    ModelPtr model = LoadModelFromString(
        std::string(
            "<mujoco><compiler angle='radian'/><option timestep='.001'/><worldbody><body><joint name='j' axis='0 "
            "1 0' ") +
        limits +
        "/><geom size='.05' pos='0 0 -.5' mass='1'/></body></worldbody><actuator><motor "
        "joint='j'/></actuator></mujoco>");
    DataPtr data = MakeData(model.get());
    data->qpos[0] = 1;
    mj_forward(model.get(), data.get());
    data->ctrl[0] = data->qfrc_bias[0];
    return ShortMotion(std::move(model), std::move(data), 1, 0);
  };
  const ShortMotion open = make(""), near = make("limited='true' range='.9999999 1.0000001'"),
                    nearest = make("limited='true' range='.999999999999 1.000000000001'");
  const RolloutDirection d{VectorXd::Ones(2), MatrixXd::Zero(1, 1)};
  for (const Level level : {Level::kAnalytic, Level::kResidual}) {
    const auto hessian = [&](const ShortMotion& m) {
      const Distance loss(m.model.get(), VectorXd::Zero(2) + 3 * VectorXd::Unit(2, 1));
      Curvature curvature(m.model.get(), m.context);
      EXPECT_TRUE(curvature.SetPoint(m.trajectory, loss, {.level = level}).ok());
      CurvatureProduct product;
      curvature.Hessian(d, &product);
      EXPECT_TRUE(product.status.ok());
      if (&m != &nearest) return product;
      CurvatureProduct linear;
      curvature.GaussNewton(d, &linear);
      EXPECT_EQ(product.product.x0, linear.product.x0);
      return product;
    };
    const CurvatureProduct full = hessian(open), product = hessian(near), without = hessian(nearest);
    const double norm = full.product.x0.norm();
    EXPECT_LT((product.product.x0 - full.product.x0).norm(), 1e-5 * norm) << ToString(level);
    EXPECT_TRUE(product.left_out.empty() && full.left_out.empty());
    EXPECT_EQ(without.left_out, std::vector<int>{0});
    EXPECT_GT((without.product.x0 - full.product.x0).norm(), 1e-4 * norm) << "gravity bends the step";
  }
}

TEST(Curvature, DoesNotDependOnThreads) {
  const ShortMotion m = ShortMotion::At("quadruped", "stand", 10, 0.02, 0.2);
  const SquareLoss loss(m.model.get(), 0.3);
  CurvatureProduct out[2];
  for (int k = 0; k < 2; k++) {
    Curvature curvature(m.model.get(), m.context, 1, 1 + 2 * k);
    ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
    curvature.Hessian(m.Direction(1), &out[k]);
  }
  EXPECT_EQ(out[0].product.x0, out[1].product.x0);
  EXPECT_EQ(out[0].product.U, out[1].product.U);
}

TEST(Curvature, CarriesNewtonsMethodToTheMinimum) {
  // conjugate gradients on H p = −g, full steps: each about squares the gradient's norm, which errors in H would not
  // let it
  ShortMotion m = ShortMotion::At("arm", nullptr, 15, 0, 0.5);
  const SquareLoss loss(m.model.get(), 0.1);
  Curvature curvature(m.model.get(), m.context);
  std::vector<double> norms;
  for (int i = 0; i < 4; i++) {
    m.Roll();
    ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
    const MatrixXd g = curvature.gradient().U;
    norms.push_back(g.norm());
    MatrixXd p = MatrixXd::Zero(g.rows(), g.cols()), r = -g, q = r;
    for (int k = 0; k < 200 && r.norm() > 1e-10 * g.norm(); k++) {
      CurvatureProduct Hq;
      curvature.Hessian({VectorXd::Zero(14), q}, &Hq);
      const double alpha = r.squaredNorm() / q.cwiseProduct(Hq.product.U).sum(), old = r.squaredNorm();
      ASSERT_GT(alpha, 0);
      p += alpha * q;
      r -= alpha * Hq.product.U;
      q = (r + r.squaredNorm() / old * q).eval();
    }
    m.U += p;
  }
  EXPECT_GT(norms[0], 0.1);
  EXPECT_LT(norms[1], 1e-2 * norms[0]);
  EXPECT_LT(norms[2], 1e-4 * norms[1]);
  EXPECT_LT(norms[3], 1e-6 * norms[2]);
}

TEST(Curvature, NamesWhatIsWrong) {
  const ShortMotion m = ShortMotion::At("arm", nullptr, 5, 0);
  Curvature curvature(m.model.get(), m.context);
  CurvatureProduct out;
  RolloutDirection d = m.Direction(1);
  EXPECT_THROW(curvature.Hessian(d, &out), Error);
  const SquareLoss loss(m.model.get(), 0);
  ASSERT_TRUE(curvature.SetPoint(m.trajectory, loss).ok());
  d.U(0, 0) = NAN;
  EXPECT_THROW(curvature.Hessian(d, &out), Error);
  EXPECT_THROW(curvature.GaussNewton({m.Direction(1).x0.head(3), m.Direction(1).U}, &out), Error);
  EXPECT_THROW(curvature.GaussNewton({m.Direction(1).x0, m.U.leftCols(4)}, &out), Error);
  RolloutTangent tangent;
  EXPECT_THROW(Tangent(m.model.get(), m.context).Push(m.trajectory, {d}, {}, &tangent), Error);
}

}  // namespace
}  // namespace costate
