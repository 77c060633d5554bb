// Tangents and Gauss–Newton products by physical parameters: against rollouts of changed models, and against the
// adjoint.
#include <costate/adjoint.h>
#include <costate/curvature.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace costate {
namespace {

constexpr int kSteps = 30;

// ½ (|s|² + |v|²) at every knot
class Square final : public Loss {
 public:
  explicit Square(const mjModel* model) : dims_(model) {}
  double Value(const KnotView& k) const override {
    return 0.5 * (k.s.squaredNorm() + k.x.segment(dims_.nq, dims_.nv).squaredNorm());
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x.segment(dims_.nv, dims_.nv) = k.x.segment(dims_.nq, dims_.nv);
    out->s = k.s;
  }
  bool NeedsSensors() const override { return true; }

 private:
  Dims dims_;
};

// the hopper in contact, swinging about its pose
struct Hopper {
  ModelPtr model = LoadModel(std::string(COSTATE_MODELS) + "/hopper/hopper.xml");
  ParameterSet set{model.get(), {"body:shank/mass", "joint:knee/damping", "geom:foot/friction[0]", "body:foot/pos[2]"}};
  VectorXd context, x0;
  MatrixXd U;

  Hopper() {
    const DataPtr data = MakeDataAtKey(model.get(), "stand");
    context = GetContext(model.get(), data.get());
    x0 = GetState(model.get(), data.get());
    x0.tail(model->nv).setConstant(0.1);
    U.resize(model->nu, kSteps);
    for (int t = 0; t < kSteps; t++) {
      for (int i = 0; i < model->nu; i++) U(i, t) = data->ctrl[i] + 0.05 * std::sin(0.3 * t + i);
    }
  }
  Trajectory Roll() const {
    Simulator simulator(set.model(), context, 1, 1);
    Trajectory trajectory;
    EXPECT_TRUE(simulator.Rollout(x0, U, &trajectory).ok());
    return trajectory;
  }
  RolloutDirection Direction(int seed) const {
    RolloutDirection d{VectorXd(Dims(model.get()).ndx), MatrixXd(U.rows(), kSteps), VectorXd(set.size())};
    for (int i = 0; i < d.x0.size(); i++) d.x0[i] = std::sin(1.7 * i + seed);
    for (int i = 0; i < d.U.size(); i++) d.U.data()[i] = std::cos(0.9 * i + seed);
    for (int i = 0; i < d.theta.size(); i++) d.theta[i] = std::cos(0.4 * i * seed);
    return d;
  }
};

TEST(TangentParameter, IsTheDifferenceOfRolloutsOfChangedModels) {
  Hopper h;
  const Trajectory trajectory = h.Roll();
  Tangent tangent(h.set.model(), h.context);
  const VectorXd values = h.set.Get();
  for (int i = 0; i < h.set.size(); i++) {
    RolloutDirection d{VectorXd::Zero(Dims(h.model.get()).ndx), MatrixXd::Zero(h.U.rows(), kSteps),
                       VectorXd::Unit(h.set.size(), i)};
    RolloutTangent plain, sensed;
    tangent.Push(trajectory, {d}, {.parameters = &h.set}, &plain);
    tangent.Push(trajectory, {d}, {.sensors = true, .parameters = &h.set}, &sensed);
    ASSERT_TRUE(plain.status.ok() && sensed.status.ok());
    EXPECT_LT((plain.dX[0] - sensed.dX[0]).norm(), 1e-9 * plain.dX[0].norm());

    Trajectory side[2];
    const double nudge = 1e-5;
    for (int k : {0, 1}) {
      h.set.Set(values + (k ? -nudge : nudge) * d.theta);
      side[k] = h.Roll();
    }
    h.set.Set(values);
    VectorXd dx(Dims(h.model.get()).ndx);
    for (int t : {1, 10, kSteps}) {
      Difference(h.model.get(), side[0].X.col(t), side[1].X.col(t), dx);
      EXPECT_LT((plain.dX[0].col(t) - dx / (2 * nudge)).norm(), 1e-4 * plain.dX[0].norm())
          << h.set[i].name << " at " << t;
      const VectorXd ds = (side[0].S.col(t) - side[1].S.col(t)) / (2 * nudge);
      EXPECT_LT((sensed.dS[0].col(t) - ds).norm(), 1e-4 * sensed.dS[0].norm()) << h.set[i].name << " at " << t;
    }
  }
}

TEST(TangentParameter, GaussNewtonIsTheSquareOfTheTangents) {
  const Hopper h;
  const Trajectory trajectory = h.Roll();
  const Square loss(h.model.get());
  const CurvatureOptions options{.parameters = &h.set};
  Curvature curvature(h.set.model(), h.context);
  ASSERT_TRUE(curvature.SetPoint(trajectory, loss, options).ok());
  RolloutGradient g;
  Adjoint(h.set.model(), h.context).Gradient(h.x0, h.U, loss, {.parameters = &h.set}, &g);
  // each by searches of its own for the acceleration, which end within 1e-12 of it
  EXPECT_LT((curvature.gradient().theta - g.theta).norm(), 1e-11 * g.theta.norm());
  EXPECT_LT((curvature.gradient().x0 - g.x0).norm(), 1e-12 * g.x0.norm());

  // d·GN e = Σ ds·ds' + dv·dv'
  const RolloutDirection d = h.Direction(1), e = h.Direction(2);
  RolloutTangent tangents;
  Tangent(h.set.model(), h.context).Push(trajectory, {d, e}, {.sensors = true, .parameters = &h.set}, &tangents);
  const int nv = static_cast<int>(h.model->nv);
  const double expected = tangents.dS[0].cwiseProduct(tangents.dS[1]).sum() +
                          tangents.dX[0].middleRows(nv, nv).cwiseProduct(tangents.dX[1].middleRows(nv, nv)).sum();
  CurvatureProduct product;
  curvature.GaussNewton(e, &product);
  ASSERT_TRUE(product.status.ok());
  const double actual =
      d.x0.dot(product.product.x0) + d.U.cwiseProduct(product.product.U).sum() + d.theta.dot(product.product.theta);
  EXPECT_NEAR(actual, expected, 1e-8 * tangents.dS[0].norm() * tangents.dS[1].norm());
  EXPECT_GT(product.product.theta.norm(), 0);

  EXPECT_THROW(curvature.GaussNewton({e.x0, e.U, VectorXd()}, &product), Error);
}

double NormWithTheta(const RolloutDirection& d) {
  return std::sqrt(d.x0.squaredNorm() + d.U.squaredNorm() + d.theta.squaredNorm());
}

// H d against centred differences of whole gradients along d: start, controls and parameters together, and each alone
TEST(TangentParameter, HessianIsTheDifferenceOfGradients) {
  struct Case {
    std::vector<std::string> names;
    double eps, tolerance;
  };
  for (const Case& c :
       {Case{{"body:shank/mass", "joint:knee/damping", "joint:knee/armature", "option/gravity[2]"}, 3e-6, 5e-6},
        Case{{"body:shank/mass", "joint:knee/damping", "geom:foot/friction[0]", "body:foot/pos[2]"}, 3e-6, 5e-5}}) {
    SCOPED_TRACE(c.names.back());
    Hopper h;
    h.model->geom_friction[0] *= 0.9;  // with the foot's there is a corner: the larger one counts
    h.set = ParameterSet(h.model.get(), c.names);
    const VectorXd values = h.set.Get();
    const Trajectory trajectory = h.Roll();
    const Square loss(h.model.get());
    Curvature curvature(h.set.model(), h.context);
    ASSERT_TRUE(curvature.SetPoint(trajectory, loss, {.parameters = &h.set}).ok());
    RolloutDirection all = h.Direction(1), only = all, others = all;
    for (int k = 0; k < h.set.size(); k++) all.theta[k] *= std::max(0.1, std::abs(values[k]));
    only.theta = all.theta;
    only.x0.setZero();
    only.U.setZero();
    others.theta.setZero();
    for (const RolloutDirection& d : {all, only, others}) {
      CurvatureProduct product, gn;
      curvature.Hessian(d, &product);
      curvature.GaussNewton(d, &gn);
      ASSERT_TRUE(product.status.ok());
      EXPECT_TRUE(product.one_sided.empty());
      EXPECT_EQ(product.theta_step > 0, !d.theta.isZero(0));
      EXPECT_LT(product.theta_error, 1e-3);

      RolloutGradient side[2];
      const VectorXd x0 = h.x0;
      const MatrixXd U = h.U;
      for (int k : {0, 1}) {
        const double step = k ? -c.eps : c.eps;
        h.set.Set(values + step * d.theta);
        Adjoint(h.set.model(), h.context)
            .Gradient(Retract(h.model.get(), x0, step * d.x0), U + step * d.U, loss, {.parameters = &h.set}, &side[k]);
        ASSERT_TRUE(side[k].status.ok());
      }
      h.set.Set(values);
      const RolloutDirection reference{(side[0].x0 - side[1].x0) / (2 * c.eps), (side[0].U - side[1].U) / (2 * c.eps),
                                       (side[0].theta - side[1].theta) / (2 * c.eps)};
      EXPECT_LT((product.product.x0 - reference.x0).norm(), c.tolerance * reference.x0.norm());
      EXPECT_LT((product.product.U - reference.U).norm(), c.tolerance * reference.U.norm());
      EXPECT_LT((product.product.theta - reference.theta).norm(), c.tolerance * reference.theta.norm());
      EXPECT_GT((gn.product.theta - reference.theta).norm(), 10 * c.tolerance * NormWithTheta(reference));
    }
  }
}

TEST(TangentParameter, HessianKeepsToTheBounds) {
  Hopper h;
  h.set = ParameterSet(h.model.get(), {"joint:knee/armature", "joint:hip/armature"});
  h.set.Set(VectorXd::Zero(2));
  Curvature curvature(h.set.model(), h.context);
  const Trajectory trajectory = h.Roll();
  const Square loss(h.model.get());
  ASSERT_TRUE(curvature.SetPoint(trajectory, loss, {.parameters = &h.set}).ok());
  RolloutDirection d = h.Direction(1);
  CurvatureProduct up, down;
  d.theta << 0.01, 0.02;
  curvature.Hessian(d, &up);
  d.theta = -d.theta;
  d.x0 = -d.x0;
  d.U = -d.U;
  curvature.Hessian(d, &down);
  EXPECT_LT((up.product.theta + down.product.theta).norm(), 1e-5 * up.product.theta.norm());
  d.theta << 0.01, -0.02;
  EXPECT_THROW(curvature.Hessian(d, &down), Error);
}

// Under the discrete integrator a quadratic damper that pushes is left out of the metric, and so slopes have a corner
// where it is none: differences at two sizes would always be extrapolated to a value a seventh from the nearer one.
TEST(TangentParameter, HessianHasNoValueByAParameterAtACorner) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><option timestep=".005" integrator="discrete"/><worldbody>
    <body pos="0 0 1"><joint name="h" axis="0 1 0" armature=".01"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
    </body></worldbody></mujoco>)");
  ParameterSet set(model.get(), {"joint:h/dampingpoly[0]", "joint:h/armature"});
  constexpr int kKnots = 5;
  const VectorXd context = GetContext(model.get(), MakeData(model.get()).get()), x0 = Eigen::Vector2d(0.1, 2);
  const MatrixXd U(0, kKnots);
  const Square loss(model.get());
  const auto hessian = [&](const Eigen::Vector2d& direction, CurvatureProduct* product) {
    Trajectory trajectory;
    Simulator simulator(set.model(), context, 1, 1);
    ASSERT_TRUE(simulator.Rollout(x0, U, &trajectory).ok());
    Curvature curvature(set.model(), context);
    ASSERT_TRUE(curvature.SetPoint(trajectory, loss, {.parameters = &set}).ok());
    curvature.Hessian({VectorXd::Zero(2), U, direction}, product);
    ASSERT_TRUE(product->status.ok());
  };
  CurvatureProduct at_corner, along_armature;
  hessian({1e-3, 0}, &at_corner);
  EXPECT_TRUE(std::isinf(at_corner.theta_error));
  EXPECT_EQ(at_corner.left_out, (std::vector<int>{0, 1, 2, 3, 4}));
  hessian({0, 1e-3}, &along_armature);
  EXPECT_LT(along_armature.theta_error, 1e-3);
  EXPECT_TRUE(along_armature.left_out.empty());

  // beside it, within the first step alone
  const VectorXd values = set.Get();
  const double beside = 0.6 * 2 * at_corner.theta_step * 1e-3;
  for (const double value : {beside, -beside}) {
    SCOPED_TRACE(value);
    set.Set(Eigen::Vector2d(value, values[1]));
    CurvatureProduct product;
    hessian({1e-3, 0}, &product);
    EXPECT_TRUE(product.left_out.empty());
    EXPECT_LT(product.theta_error, 1e-2);
    VectorXd side[2];
    for (const int k : {0, 1}) {
      set.Set(Eigen::Vector2d(value * (k ? 0.5 : 1.5), values[1]));
      RolloutGradient g;
      Adjoint(set.model(), context).Gradient(x0, U, loss, {.parameters = &set}, &g);
      side[k] = g.theta;
    }
    const VectorXd reference = (side[0] - side[1]) / value * 1e-3;
    EXPECT_LT((product.product.theta - reference).norm(), 1e-3 * reference.norm());
    set.Set(values);
  }
}

}  // namespace
}  // namespace costate
