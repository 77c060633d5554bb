// Controls as splines: what they are, and that descents on their knots follow the slope of the loss by those knots.
#include <costate/costate.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using support::TemporaryFolder;
using Spline = support::EngineTest;

constexpr SplineOrder kOrders[] = {SplineOrder::kZero, SplineOrder::kLinear, SplineOrder::kCubic};

constexpr char kArm[] =
    "<mujoco model='arm'><option timestep='0.02'/><worldbody><body><joint name='hip' axis='0 1 0' damping='.2'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 0 0 -.4'/><body pos='0 0 -.4'><joint name='knee' axis='0 1 0' "
    "damping='.2'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 0 0 -.3'/></body></body></worldbody>"
    "<actuator><motor name='hip' joint='hip' ctrlrange='-3 3' ctrllimited='true'/><motor name='knee' "
    "joint='knee'/></actuator></mujoco>";

Task ArmTask(const std::string& elements, const std::string& guess = "0.1 -0.2") {
  const TemporaryFolder folder;
  folder.Write("arm.xml", kArm);
  return LoadTask(folder.Write("arm.task.xml", "<task model='arm.xml' horizon='0.4'><guess ctrl='" + guess +
                                                   "'/><measure name='u' ctrl='all'/>" + elements + "</task>"));
}

TEST_F(Spline, PassesThroughItsKnotsAndKeepsConstants) {
  for (const SplineOrder order : kOrders) {
    for (const int knots : {1, 2, 4, 21}) {
      const MatrixXd S = SplineBasis({knots, order}, 21);
      EXPECT_TRUE(MatricesNear(S.colwise().sum(), MatrixXd::Ones(1, 21), 1e-14)) << ToString(order) << knots;
      EXPECT_GE(S.minCoeff(), order == SplineOrder::kCubic ? -0.08 : 0);
      EXPECT_EQ(S(0, 0), 1);
      EXPECT_EQ(S(knots - 1, 20), 1);
    }
  }
  for (const SplineOrder order : kOrders)
    EXPECT_TRUE(MatricesNear(SplineBasis({21, order}, 21), MatrixXd::Identity(21, 21), 1e-14)) << ToString(order);

  // a straight line between the inner knots is one for both smooth orders
  const MatrixXd line = Eigen::RowVector4d(0, 1, 2, 3);
  EXPECT_NEAR((line * SplineBasis({4, SplineOrder::kLinear}, 22))(0, 8), 8.0 / 7, 1e-14);
  EXPECT_NEAR((line * SplineBasis({4, SplineOrder::kCubic}, 22))(0, 8), 8.0 / 7, 1e-14);
  EXPECT_ERROR(SplineBasis({5, SplineOrder::kZero}, 4), ErrorCode::kInvalidArgument, "5 knots", "4 control intervals");
}

// a cost of controls alone: the best knots are the least-squares fit
TEST_F(Spline, DescentEndsAtTheLeastSquaresFit) {
  for (const char* order : {"zero", "linear", "cubic"}) {
    Task task = ArmTask(
        "<cost name='wave' value='[u[0] - sin(9*time), u[1] - 2*cos(5*time)]'/><gradient start='none'/><spline "
        "knots='5' order='" +
        std::string(order) + "'/>");
    const DescentResult result = Descend(task, nullptr, {.iterations = 200});
    MatrixXd wave(2, task.N);
    for (int t = 0; t < task.N; ++t) wave.col(t) << std::sin(9 * 0.02 * t), 2 * std::cos(5 * 0.02 * t);
    const MatrixXd S = SplineBasis(task.spline, task.N);
    EXPECT_TRUE(MatricesNear(result.U, FitSpline(S, wave) * S, 1e-6)) << order << ": " << result.message;
  }
}

// one step of fixed rate shows the gradient by the knots: against differences of the loss of whole motions
TEST_F(Spline, DescendsAlongTheSlopeByItsKnots) {
  for (const SplineOrder order : kOrders) {
    // a guess that the spline is: constants; the hip's is 0.1 below its bound, its clamp is not touched
    Task task = ArmTask(
        "<cost name='there' qpos='all' target='1 -0.5' weight='3' terminal='20'/><cost ctrl='all' "
        "weight='0.01'/><gradient controls='hip' start='none'/>");
    task.spline = {4, order};
    const double rate = 1e-3;
    const DescentResult result =
        Descend(task, nullptr, {.method = DescentMethod::kGradient, .iterations = 1, .rate = rate});
    const MatrixXd S = SplineBasis(task.spline, task.N);
    Simulator simulator(task.model.get(), task.context, task.substeps, 1);
    const auto loss = [&](const VectorXd& knots) {
      MatrixXd U = task.U_guess;
      U.row(0) = knots.transpose() * S;
      Trajectory motion;
      EXPECT_TRUE(simulator.Rollout(task.x0, U, &motion).ok());
      return TotalCost(*task.cost, motion, simulator.knot_time());
    };
    const VectorXd guess = VectorXd::Constant(4, 0.1);
    VectorXd slope(4);
    for (int k = 0; k < 4; ++k)
      slope[k] = (loss(guess + 1e-5 * VectorXd::Unit(4, k)) - loss(guess - 1e-5 * VectorXd::Unit(4, k))) / 2e-5;
    MatrixXd expected = task.U_guess;
    expected.row(0) += -rate * slope.transpose() * S;
    EXPECT_GT(slope.cwiseAbs().minCoeff(), 1e-2);
    EXPECT_TRUE(MatricesNear(result.U, expected, 1e-9 * slope.norm())) << ToString(order);
  }
}

// at its bound the spline of a control has no slope, and no control ever leaves its range
TEST_F(Spline, KeepsTheRangesOfControls) {
  for (const SplineOrder order : kOrders) {
    Task task = ArmTask("<cost name='wave' value='u - [8*sin(9*time), 1]'/><gradient start='none'/>");
    task.spline = {6, order};
    const DescentResult result = Descend(task, nullptr, {.iterations = 100});
    EXPECT_LE(result.U.row(0).maxCoeff(), 3.0);
    EXPECT_GE(result.U.row(0).minCoeff(), -3.0);
    EXPECT_EQ(result.U.row(0).maxCoeff(), 3.0);
    EXPECT_NEAR(result.U(1, 7), 1, 5e-3);
    EXPECT_LT(result.loss, 0.5 * result.initial_loss);
  }
}

TEST_F(Spline, KnotsAreFittedToAsManyIntervals) {
  const MatrixXd S = SplineBasis({.knots = 4}, 10);
  EXPECT_ERROR(FitSpline(S, MatrixXd::Ones(1, 7)), ErrorCode::kDimensionMismatch, "7 control intervals", "10");
}

TEST_F(Spline, SampledStartsTakeIt) {
  Task task = ArmTask(
      "<cost name='there' qpos='all' target='1 -0.5'/><spline knots='3' order='linear'/><solver start='sampling' "
      "rounds='3' samples='16'/>");
  EXPECT_EQ(task.sampling.spline.knots, 3);
  const SamplingResult found = SampleControls(task.ToProblem(), task.U_guess, task.sampling);
  EXPECT_LT(found.cost, found.initial_cost);
  const MatrixXd change = found.U.row(1) - task.U_guess.row(1), S = SplineBasis(task.spline, task.N);
  EXPECT_TRUE(MatricesNear(change, FitSpline(S, change) * S, 1e-12));
  EXPECT_NE(Describe(task).find("spline    3 knots, linear"), std::string::npos) << Describe(task);
  EXPECT_ERROR(ArmTask("<cost ctrl='all'/><spline order='linear'/>"), ErrorCode::kParse, "<spline>",
               "knots is missing");
  EXPECT_ERROR(ArmTask("<cost ctrl='all'/><spline knots='50'/>"), ErrorCode::kParse,
               "knots is 50, more than the 20 control intervals");
  EXPECT_ERROR(ArmTask("<cost ctrl='all'/><spline knots='5' order='quintic'/>"), ErrorCode::kParse, "order", "cubic");
  EXPECT_ERROR(ArmTask("<cost ctrl='all'/><spline knots='5'/><solver start='sampling' nodetime='0.1'/>"),
               ErrorCode::kParse, "nodetime and <spline>");
}

}  // namespace
}  // namespace costate
