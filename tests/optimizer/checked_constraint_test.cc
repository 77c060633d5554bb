// A user's own constraint that says something of the wrong size, or nothing: an error by its name, never a crash nor a
// result.
#include <costate/adjoint.h>
#include <costate/constraint.h>
#include <costate/ilqr.h>
#include <costate/slope_check.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "optimizer/augmented_cost.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using CheckedConstraint = support::EngineTest;

constexpr char kSaidRail[] = R"(<mujoco><option timestep="0.05" gravity="0 0 0"/>
  <worldbody><body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="rail"/></actuator></mujoco>)";

using Says = std::function<void(MatrixXd*, MatrixXd*)>;

// q ≤ 0.2 at all knots but the first, said as a test wants it
class Said final : public Constraint {
 public:
  Said()
      : Constraint({.name = "rail",
                    .unit = "m",
                    .components = {"q"},
                    .lower = VectorXd::Constant(1, -INFINITY),
                    .upper = VectorXd::Constant(1, 0.2),
                    .first = 1}) {}
  void Value(const KnotView& knot, VectorXd* c) const override { value(knot, c); }
  void Jacobian(const KnotView&, ConstMatrixRef, ConstMatrixRef, MatrixXd* J, MatrixXd* Ju) const override {
    J->setZero(1, 2);
    (*J)(0, 0) = 1;
    Ju->resize(1, 0);
    jacobian(J, Ju);
  }
  void Curvature(const KnotView&, ConstMatrixRef, ConstMatrixRef, ConstVectorRef, MatrixXd* V,
                 MatrixXd* Vu) const override {
    V->resize(0, 0);
    Vu->resize(0, 0);
    curvature(V, Vu);
  }
  bool NeedsSensors() const override { return false; }

  std::function<void(const KnotView&, VectorXd*)> value = [](const KnotView& knot, VectorXd* c) {
    (*c)[0] = knot.x[0];
  };
  Says jacobian = [](MatrixXd*, MatrixXd*) {}, curvature = jacobian;
};

struct SaidCase {
  SaidCase() : model(LoadModelFromString(kSaidRail)), cost(MakeCost(model.get())) {
    auto own = std::make_unique<Said>();
    said = own.get();
    constraints.Add(std::move(own));
    const DataPtr data = MakeData(model.get());
    problem = {.model = model.get(),
               .cost = &cost,
               .x0 = VectorXd::Zero(2),
               .context = GetContext(model.get(), data.get()),
               .N = 10,
               .substeps = 1,
               .u_lower = VectorXd::Constant(1, -INFINITY),
               .u_upper = VectorXd::Constant(1, INFINITY)};
    problem.constraints = &constraints;
  }
  static QuadraticCost MakeCost(const mjModel* m) {
    const MatrixXd I = MatrixXd::Identity(2, 2);
    return QuadraticCost(m, Eigen::Vector2d(1, 0), I, 0.1 * MatrixXd::Identity(1, 1), 10 * I);
  }
  SolveResult Solve() { return SolveConstrained(problem, MatrixXd::Zero(1, 10)); }

  ModelPtr model;
  QuadraticCost cost;
  ConstraintSet constraints;
  Said* said;
  Problem problem;
};

// the value has its size before the call: one entry is written, none is made
TEST_F(CheckedConstraint, IsKeptWhereItIsSaidRight) {
  SaidCase rail;
  const SolveResult result = rail.Solve();
  EXPECT_LE(result.violation, 1e-6);
  EXPECT_NEAR(result.trajectory.X.row(0).maxCoeff(), 0.2, 1e-6);
}

TEST_F(CheckedConstraint, RefusesAValueOfAnotherSize) {
  for (const int size : {0, 3}) {
    SaidCase rail;
    rail.said->value = [size](const KnotView&, VectorXd* c) { c->setZero(size); };
    const std::string says = "its value has " + std::to_string(size) + " entries, it has bounds for 1";
    EXPECT_ERROR(rail.Solve(), ErrorCode::kDimensionMismatch, "constraint 'rail' at knot 1", says.c_str());
    Trajectory trajectory;
    Simulator(rail.model.get(), rail.problem.context, 1, 1)
        .Rollout(rail.problem.x0, MatrixXd::Zero(1, 10), &trajectory);
    EXPECT_ERROR(CheckConstraints(rail.constraints, trajectory, 0.05), ErrorCode::kDimensionMismatch, says.c_str());
  }
}

using M = MatrixXd;

void ExpectRefused(Says Said::*what, const Says& says, ErrorCode code, const char* why) {
  SaidCase rail;
  rail.said->*what = says;
  EXPECT_ERROR(rail.Solve(), code, "constraint 'rail' at knot", why);
}

TEST_F(CheckedConstraint, RefusesAJacobianOfAnotherSizeOrOfNoNumbers) {
  const auto refuses = [](const Says& says, ErrorCode code, const char* why) {
    ExpectRefused(&Said::jacobian, says, code, why);
  };
  constexpr ErrorCode kSize = ErrorCode::kDimensionMismatch;
  refuses([](M* J, M*) { J->setZero(2, 2); }, kSize, "its Jacobian by x is 2 x 2, expected 1 x 2");
  refuses([](M* J, M*) { J->setZero(1, 5); }, kSize, "its Jacobian by x is 1 x 5, expected 1 x 2");
  refuses([](M* J, M*) { J->resize(0, 0); }, kSize, "its Jacobian by x is 0 x 0, expected 1 x 2");
  refuses([](M*, M* Ju) { Ju->setZero(1, 3); }, kSize, "its Jacobian by u is 1 x 3, expected 1 x 1");
  refuses([](M* J, M*) { (*J)(0, 1) = NAN; }, ErrorCode::kInvalidArgument, "its Jacobian by x is not finite");
}

TEST_F(CheckedConstraint, RefusesACurvatureOfAnotherSizeOrOfNoNumbers) {
  const auto refuses = [](const Says& says, ErrorCode code, const char* why) {
    ExpectRefused(&Said::curvature, says, code, why);
  };
  constexpr ErrorCode kSize = ErrorCode::kDimensionMismatch;
  refuses([](M* V, M*) { V->setZero(1, 7); }, kSize, "its curvature by x is 1 x 7, expected 1 x 2");
  refuses([](M* V, M* Vu) { V->setZero(2, 2), Vu->setZero(1, 1); }, kSize,
          "its curvature by u is 1 x 1, expected 2 x 1");
  refuses([](M* V, M*) { V->setConstant(1, 2, NAN); }, ErrorCode::kInvalidArgument, "its curvature by x is not finite");
}

// slopes by a control that there is none of, at the last knot, are nobody's
TEST_F(CheckedConstraint, MaySayItsSlopesByControlsAtTheLastKnotToo) {
  SaidCase rail;
  rail.said->jacobian = [](MatrixXd*, MatrixXd* Ju) { Ju->setZero(1, 1); };
  EXPECT_EQ(rail.Solve().status, SolveStatus::kConverged);
  EXPECT_TRUE(CheckSlopes(rail.problem, MatrixXd::Zero(1, 10)).agrees());
}

TEST_F(CheckedConstraint, IsOne) {
  ConstraintSet set;
  EXPECT_ERROR(set.Add(nullptr), ErrorCode::kInvalidArgument, "is null");
  const SaidCase rail;
  ConstraintInfo none;
  none.name = "none";
  EXPECT_ERROR(StateConstraint(rail.model.get(), none, VectorXd::Zero(2), {}), ErrorCode::kInvalidArgument,
               "constraint 'none' has no entries");
}

// by a gradient, too, which has no solver around it
TEST_F(CheckedConstraint, RefusesThemInAGradient) {
  SaidCase rail;
  AugmentedCost augmented(rail.model.get(), rail.cost, rail.constraints, 10);
  augmented.lambda[0].setOnes();
  rail.said->jacobian = [](MatrixXd* J, MatrixXd*) { J->setZero(1, 4); };
  Adjoint adjoint(rail.model.get(), rail.problem.context);
  RolloutGradient g;
  EXPECT_ERROR(adjoint.Gradient(rail.problem.x0, MatrixXd::Zero(1, 10), augmented, {}, &g),
               ErrorCode::kDimensionMismatch, "constraint 'rail' at knot 10", "1 x 4, expected 1 x 2");
}

// a Jacobian that asks another constraint for its pull-back has rows of its own
TEST_F(CheckedConstraint, PullsBackWithinAnothersJacobian) {
  SaidCase outer, inner;
  Trajectory trajectory;
  Simulator(outer.model.get(), outer.problem.context, 1, 1)
      .Rollout(outer.problem.x0, MatrixXd::Zero(1, 10), &trajectory);
  const KnotView knot = ViewKnot(trajectory, 1, 0.05);
  const auto zero = [] { return KnotGradient{VectorXd::Zero(2), VectorXd::Zero(1), VectorXd()}; };
  outer.said->jacobian = [&](MatrixXd* J, MatrixXd*) {
    KnotGradient other = zero();
    (*J)(0, 0) = 5;
    inner.said->PullBack(knot, VectorXd::Ones(1), &other);
    (*J)(0, 1) = other.x[0];
  };
  for (int i = 0; i < 2; ++i) {
    KnotGradient pulled = zero();
    outer.said->PullBack(knot, VectorXd::Ones(1), &pulled);
    EXPECT_EQ(pulled.x, Eigen::Vector2d(5, 1)) << i;
  }
}

}  // namespace
}  // namespace costate
