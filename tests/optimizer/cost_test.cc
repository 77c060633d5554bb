#include <costate/cost.h>
#include <costate/model.h>
#include <costate/state.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "optimizer/cost_terms.h"

namespace costate {
namespace {

// free joint, ball joint, hinge, an actuator with activation
constexpr char kModel[] = R"(
<mujoco model="mixed">
  <worldbody>
    <body name="base" pos="0 0 1"><freejoint/><geom size=".1"/>
      <body pos="0 0 .3"><joint name="ball" type="ball"/><geom size=".05"/>
        <body pos="0 0 .3"><joint name="hinge" axis="0 1 0"/><geom size=".05" pos=".1 0 0"/></body>
      </body>
    </body>
  </worldbody>
  <actuator><general joint="hinge" dyntype="filter" dynprm=".1"/><motor joint="ball" gear="1 2 3"/></actuator>
</mujoco>)";

MatrixXd RandomPositive(int n, unsigned seed) {
  std::srand(seed);
  const MatrixXd a = MatrixXd::Random(n, n);
  return a * a.transpose();
}

class Quadratic : public ::testing::Test {
 protected:
  Quadratic() : model(LoadModelFromString(kModel)), dims(model.get()) {
    std::srand(3);
    const VectorXd rest = GetState(model.get(), MakeData(model.get()).get());
    goal = Retract(model.get(), rest, VectorXd::Random(dims.ndx));
    x = Retract(model.get(), goal, 1.5 * VectorXd::Random(dims.ndx));
    u = VectorXd::Random(dims.nu);
    Q = RandomPositive(dims.ndx, 1), R = RandomPositive(dims.nu, 2), Qf = RandomPositive(dims.ndx, 4);
  }
  KnotView Knot(const VectorXd& x, const VectorXd& u, bool last) const {
    return {.t = last ? 10 : 3, .N = 10, .time = 0, .dt = 0.02, .x = x, .u = u, .s = none};
  }
  ModelPtr model;
  Dims dims;
  VectorXd goal, x, u, none;
  MatrixXd Q, R, Qf;
};

// the formula itself, with dx taken from Difference
TEST_F(Quadratic, ValueIsTheFormula) {
  const QuadraticCost cost(model.get(), goal, Q, R, Qf);
  const VectorXd dx = Difference(model.get(), x, goal);
  EXPECT_NEAR(cost.Value(Knot(x, u, false)), 0.02 * 0.5 * (dx.dot(Q * dx) + u.dot(R * u)), 1e-12);
  EXPECT_NEAR(cost.Value(Knot(x, none, true)), 0.5 * dx.dot(Qf * dx), 1e-12);
}

// centred differences in the tangent space: truncation h² and rounding 1e-16/h meet below 1e-8
TEST_F(Quadratic, GradientIsThatOfTheValueWithQuaternions) {
  const QuadraticCost cost(model.get(), goal, Q, R, Qf);
  const double h = 6e-6;
  for (bool last : {false, true}) {
    const VectorXd control = last ? none : u;
    CostExpansion e;
    cost.Expand(Knot(x, control, last), MatrixXd(), MatrixXd(), &e);
    EXPECT_DOUBLE_EQ(e.l, cost.Value(Knot(x, control, last)));
    for (int i = 0; i < dims.ndx; ++i) {
      const VectorXd dx = h * VectorXd::Unit(dims.ndx, i);
      const VectorXd plus = Retract(model.get(), x, dx), minus = Retract(model.get(), x, -dx);
      const double fd = (cost.Value(Knot(plus, control, last)) - cost.Value(Knot(minus, control, last))) / (2 * h);
      EXPECT_NEAR(e.lx[i], fd, 1e-7 * (1 + std::abs(fd))) << "entry " << i << " last " << last;
    }
    for (int i = 0; i < control.size(); ++i) {
      const VectorXd du = h * VectorXd::Unit(dims.nu, i);
      const double fd = (cost.Value(Knot(x, u + du, false)) - cost.Value(Knot(x, u - du, false))) / (2 * h);
      EXPECT_NEAR(e.lu[i], fd, 1e-8 * (1 + std::abs(fd)));
    }
  }
}

// Gauss–Newton leaves the curvature of ⊖ out, which vanishes at the goal: there lxx is exact, Q itself
TEST_F(Quadratic, HessianAtTheGoalIsQ) {
  const QuadraticCost cost(model.get(), goal, Q, R, Qf);
  CostExpansion e;
  cost.Expand(Knot(goal, u, false), MatrixXd(), MatrixXd(), &e);
  EXPECT_LT((e.lxx - 0.02 * Q).norm(), 1e-12);
  EXPECT_LT((e.luu - 0.02 * R).norm(), 1e-15);
  EXPECT_EQ(e.lux.rows(), dims.nu);
  EXPECT_EQ(e.lux.cols(), dims.ndx);
  cost.Expand(Knot(goal, none, true), MatrixXd(), MatrixXd(), &e);
  EXPECT_LT((e.lxx - Qf).norm(), 1e-12);
  EXPECT_EQ(e.lu.size() + e.luu.size() + e.lux.size(), 0);
}

TEST_F(Quadratic, TermsAndKnotsAddUpToTheTotal) {
  const QuadraticCost cost(model.get(), goal, Q, R, Qf);
  Trajectory trajectory;
  trajectory.X.resize(dims.nx, 5);
  for (int t = 0; t < 5; ++t) trajectory.X.col(t) = Retract(model.get(), x, VectorXd::Random(dims.ndx));
  trajectory.U = MatrixXd::Random(dims.nu, 4);
  trajectory.time = VectorXd::LinSpaced(5, 1, 1.08);
  std::vector<double> per_knot;
  const double total = TotalCost(cost, trajectory, 0.02, &per_knot);
  double knots = 0, terms = 0;
  for (double l : per_knot) knots += l;
  for (const CostTermValue& term : cost.Terms(trajectory)) terms += term.value;
  ASSERT_EQ(per_knot.size(), 5u);
  EXPECT_GT(total, 0);
  EXPECT_NEAR(knots, total, 1e-12 * total);
  EXPECT_NEAR(terms, total, 1e-12 * total);
}

TEST_F(Quadratic, RefusesWrongSizesAndNumbers) {
  EXPECT_THROW(QuadraticCost(model.get(), goal.head(3), Q, R, Qf), Error);
  EXPECT_THROW(QuadraticCost(model.get(), goal, Q.topRows(2), R, Qf), Error);
  EXPECT_THROW(QuadraticCost(model.get(), goal, Q, MatrixXd::Constant(dims.nu, dims.nu, NAN), Qf), Error);
  EXPECT_THROW(QuadraticCost(model.get(), VectorXd::Constant(goal.size(), NAN), Q, R, Qf), Error);
  try {
    QuadraticCost(model.get(), goal, Q, MatrixXd::Identity(5, 5), Qf);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDimensionMismatch);
    EXPECT_STREQ(error.what(), "R (rows) has 5 entries, model 'mixed' has nu = 2");
  }
}

// l = a·x in one coordinate, and what another such cost adds
class LinearCost final : public Cost {
 public:
  LinearCost(int entry, double slope, const Cost* other) : entry_(entry), slope_(slope), other_(other) {}
  bool NeedsSensors() const override { return false; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }
  double Value(const KnotView& k) const override { return slope_ * k.x[entry_] + (other_ ? other_->Value(k) : 0); }
  void Expand(const KnotView& k, ConstMatrixRef, ConstMatrixRef, CostExpansion* out) const override {
    ResizeExpansion(2, 1, k.t == k.N, out);
    out->lx[entry_] = slope_;
    out->lxx(entry_, entry_) = slope_;
    if (!other_) return;
    KnotGradient gradient{VectorXd::Zero(2), VectorXd::Zero(1), VectorXd()};
    other_->Gradient(k, &gradient);
    out->lx += gradient.x;
    KnotGradient product{VectorXd::Zero(2), VectorXd::Zero(1), VectorXd()};
    const KnotGradient ones{VectorXd::Ones(2), VectorXd::Ones(1), VectorXd()};
    other_->GaussNewtonProduct(nullptr, k, ones, &product);
    out->lxx.diagonal() += product.x;
  }

 private:
  int entry_;
  double slope_;
  const Cost* other_;
};

TEST(CostTest, OneMayAskAnotherForItsGradientWithinItsExpansion) {
  const LinearCost inner(0, 3, nullptr), outer(1, 5, &inner);
  Trajectory trajectory;
  trajectory.X = MatrixXd::Ones(2, 2);
  trajectory.U = MatrixXd::Zero(1, 1);
  trajectory.S.resize(0, 2);
  trajectory.time = Eigen::Vector2d(0, 0.1);
  const KnotView knot = ViewKnot(trajectory, 0, 0.1);
  KnotGradient gradient{VectorXd::Zero(2), VectorXd::Zero(1), VectorXd()}, product = gradient;
  outer.Gradient(knot, &gradient);
  EXPECT_EQ(gradient.x, Eigen::Vector2d(3, 5));
  outer.GaussNewtonProduct(nullptr, knot, {VectorXd::Ones(2), VectorXd::Ones(1), VectorXd()}, &product);
  EXPECT_EQ(product.x, Eigen::Vector2d(3, 5));
}

}  // namespace
}  // namespace costate
