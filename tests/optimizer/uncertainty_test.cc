// Standard errors of fits, and what recorded motions cannot tell apart.
#include <costate/descent.h>
#include <costate/uncertainty.h>
#include <gtest/gtest.h>

#include <Eigen/QR>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>
#include <string>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

constexpr int kRows = 101;

class Uncertainty : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();

    // a mass on a spring, and another that stays at rest
    folder_.Write("spring.xml",
                  "<mujoco><option timestep='.01' gravity='0 0 0' integrator='RK4'/><worldbody>"
                  "<body name='bob'><joint name='x' type='slide' axis='1 0 0' stiffness='20' damping='.3'/>"
                  "<geom size='.1' mass='1'/></body>"
                  "<body name='idle' pos='0 2 0'><joint name='y' type='slide' damping='1'/><geom size='.1' mass='1'/>"
                  "</body></worldbody></mujoco>");
  }

  // the position's rows from a function of time
  void Film(const std::function<double(double)>& x, int rows = kRows) {
    std::ostringstream text;
    text.precision(17);
    text << "time,qpos[x]";
    for (int t = 0; t < rows; t++) text << "\n" << 0.01 * t << "," << x(0.01 * t);
    folder_.Write("film.csv", text.str());
  }

  // the oscillation of the model with this stiffness and damping, from 0.3 m at rest
  VectorXd Oscillation(double stiffness, double damping) {
    const ModelPtr model = LoadModel(folder_.File("spring.xml"));
    ParameterSet parameters(model.get(), {"joint:x/stiffness", "joint:x/damping"});
    parameters.Set((VectorXd(2) << stiffness, damping).finished());
    const DataPtr data = MakeData(model.get());
    data->qpos[0] = 0.3;
    VectorXd x(kRows);
    for (int t = 0; t < kRows; t++) {
      x[t] = data->qpos[0];
      mj_step(parameters.model(), data.get());
    }
    return x;
  }

  Task MakeTask(const std::string& inputs, int knots) {
    return LoadTask(folder_.Write("task.xml", "<task model='spring.xml' horizon='" + std::to_string(0.01 * knots) +
                                                  "' scale='mean'><start qpos='0.3 0'/><gradient controls='none' " +
                                                  inputs +
                                                  "</gradient><cost qpos='x' target='file:film.csv'/></task>"));
  }

  struct Found {
    VectorXd start, theta;
    FitUncertainty fit;
  };
  Found Fit(const std::string& inputs, int knots = kRows - 1, DescentMethod method = DescentMethod::kLbfgs) {
    return Fit(MakeTask(inputs, knots), method);
  }
  static Found Fit(const Task& task, DescentMethod method) {
    const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
    const DescentResult result = Descend(task, parameters.get(), {.method = method});
    return {result.x0, result.theta, EstimateUncertainty(task, parameters.get(), result.x0, result.U)};
  }

  support::TemporaryFolder folder_;
};

// a free mass: x = 0.3 + v t is a line through its first point, of which regression has the error of the slope; also
// where the tangents go piece by piece
TEST_F(Uncertainty, OfALineIsThatOfRegression) {
  folder_.Write("spring.xml",
                "<mujoco><option timestep='.01' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide'/>"
                "<geom size='.1'/></body><body><joint type='slide'/><geom size='.1'/></body></worldbody></mujoco>");
  const auto noise = [](double t) { return std::fmod(std::round(100 * t) * 0.618034, 1) - 0.5; };
  for (const int knots : {100, 1234}) {
    SCOPED_TRACE(knots);
    Film([&](double t) { return 0.3 + 0.7 * t + 0.01 * noise(t); }, knots + 1);
    const Found found = Fit("start='qvel[x]'>", knots);
    ASSERT_EQ(found.fit.why_not, "");
    EXPECT_EQ(found.fit.residuals, knots);  // the last knot has no weight
    double tt = 0, tr = 0, square = 0;
    for (int i = 0; i < knots; i++) {
      const double t = 0.01 * i;
      tt += t * t;
      tr += t * (0.7 * t + 0.01 * noise(t));
    }
    const double v = tr / tt;
    for (int i = 0; i < knots; i++) square += std::pow((0.7 - v) * 0.01 * i + 0.01 * noise(0.01 * i), 2);
    EXPECT_NEAR(found.start[2], v, 1e-9);
    EXPECT_NEAR(found.fit.deviation[0] / std::sqrt(square / (knots - 1) / tt), 1, 1e-6);
    EXPECT_TRUE(found.fit.undetermined.empty());
  }
}

// a pendulum that stands on its head for 4 s: whatever its start is changed by grows 10⁵-fold, almost all of it alike, and
// yet the first rows say where it began; against the QR decomposition of all rows
TEST_F(Uncertainty, OfAMotionThatIsUnstableIsThatOfItsFirstRows) {
  folder_.Write("spring.xml",
                "<mujoco><option timestep='.01' gravity='0 0 9.81'/><worldbody><body><joint name='x' axis='0 1 0'/>"
                "<geom type='capsule' fromto='0 0 0 0 0 -1' size='.02' mass='1'/></body></worldbody></mujoco>");
  constexpr int kKnots = 400;
  const auto noise = [](double t) { return 0.002 * (std::fmod(std::round(100 * t) * 0.618034, 1) - 0.5); };
  Film(noise, kKnots + 1);
  const Task task = LoadTask(folder_.Write(
      "task.xml",
      "<task model='spring.xml' horizon='4' scale='mean'><gradient controls='none' start='qpos[x] qvel[x]'/>"
      "<cost qpos='x' target='file:film.csv'/></task>"));
  const FitUncertainty fit = EstimateUncertainty(task, nullptr, task.x0, task.U_guess);
  ASSERT_EQ(fit.why_not, "");
  EXPECT_TRUE(fit.undetermined.empty());

  Linearizer linearizer(task.model.get());
  StepDerivative step;
  linearizer.Linearize(task.x0, VectorXd(0), &step);
  MatrixXd J(kKnots, 2), power = MatrixXd::Identity(2, 2);
  double square = 0;
  for (int t = 0; t < kKnots; t++) {
    J.row(t) = power.row(0);
    power = step.A * power;
    square += std::pow(noise(0.01 * t), 2);
  }
  EXPECT_GT(J(kKnots - 1, 0), 1e5);
  const MatrixXd R = J.householderQr().matrixQR().topRows(2).triangularView<Eigen::Upper>();
  const MatrixXd root = R.inverse();
  for (int i = 0; i < 2; i++) {
    const double expected = root.row(i).norm() * std::sqrt(square / (kKnots - 2));
    EXPECT_NEAR(fit.deviation[i] / expected, 1, 1e-2) << i;  // JᵀJ has half the digits of J
  }
}

// errors of many fits to the same motion under other noise, each in its own standard errors, are of size 1
TEST_F(Uncertainty, IsTheErrorThatNoiseMakes) {
  const VectorXd truth = Oscillation(26, 0.5);
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  constexpr int kFilms = 30;
  double stiffness = 0, damping = 0, correlation = 0;
  for (int k = 0; k < kFilms; k++) {
    Film([&](double t) { return truth[static_cast<Eigen::Index>(std::lround(100 * t))] + noise(random); });
    const Found found = Fit("start='none'><parameter name='joint:x/stiffness'/><parameter name='joint:x/damping'/>");
    ASSERT_EQ(found.fit.why_not, "");
    stiffness += std::pow((found.theta[0] - 26) / found.fit.deviation[0], 2) / kFilms;
    damping += std::pow((found.theta[1] - 0.5) / found.fit.deviation[1], 2) / kFilms;
    correlation += found.fit.correlation / kFilms;
  }
  // a mean of 30 squares: 1 ± 0.26, and three times that
  EXPECT_NEAR(stiffness, 1, 0.78);
  EXPECT_NEAR(damping, 1, 0.78);
  EXPECT_NEAR(correlation, 0, 0.06);
}

// only k/m and d/m move an oscillation; the idle mass's damper moves nothing at all
TEST_F(Uncertainty, NamesWhatTheMotionCannotTellApart) {
  const VectorXd truth = Oscillation(26, 0.5);
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.001);
  Film([&](double t) { return truth[static_cast<Eigen::Index>(std::lround(100 * t))] + noise(random); });
  const Found found =
      Fit("start='none'><parameter name='body:bob/mass'/><parameter name='joint:x/stiffness'/>"
          "<parameter name='joint:x/damping'/><parameter name='joint:y/damping'/>");
  ASSERT_EQ(found.fit.why_not, "");
  ASSERT_EQ(found.fit.undetermined.size(), 2u);
  const bool idle_first = found.fit.undetermined[0].change[3] != 0;
  const UndeterminedDirection &idle = found.fit.undetermined[idle_first ? 0 : 1],
                              &scale = found.fit.undetermined[idle_first ? 1 : 0];
  EXPECT_EQ(idle.change.head(3), VectorXd::Zero(3));
  EXPECT_TRUE(std::isinf(idle.deviation));
  EXPECT_EQ(scale.change[3], 0);
  EXPECT_NEAR(scale.change[1] / scale.change[0], found.theta[1] / found.theta[0], 1e-4 * 26);
  EXPECT_NEAR(scale.change[2] / scale.change[0], found.theta[2] / found.theta[0], 1e-3);
  EXPECT_TRUE(std::isinf(scale.deviation));
  for (int i = 0; i < 4; i++) EXPECT_TRUE(std::isinf(found.fit.deviation[i])) << i;
}

TEST_F(Uncertainty, WhatTheModelDoesNotDoIsNoNoise) {
  const VectorXd truth = Oscillation(26, 2);
  Film([&](double t) { return truth[static_cast<Eigen::Index>(std::lround(100 * t))]; });
  const Found found = Fit("start='none'><parameter name='joint:x/stiffness'/>");
  EXPECT_GT(found.fit.correlation, 0.9);
}

// a fit in a poor minimum misses one entry by far: noise of others, of little weight in the loss, does not speak for it
TEST_F(Uncertainty, EntriesCountByTheirPartOfTheLoss) {
  const VectorXd truth = Oscillation(26, 2);
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 1e-4);
  std::ostringstream text;
  text << "time,qpos[x],qpos[y]";
  for (int t = 0; t < kRows; t++) text << "\n" << 0.01 * t << "," << truth[t] << "," << noise(random);
  folder_.Write("film.csv", text.str());
  const Task task = LoadTask(
      folder_.Write("task.xml",
                    "<task model='spring.xml' horizon='1' scale='mean'><start qpos='0.3 0'/><gradient controls='none' "
                    "start='none'><parameter name='joint:x/stiffness'/></gradient>"
                    "<cost qpos='x' target='file:film.csv'/><cost qpos='y' target='file:film.csv'/></task>"));
  const Found found = Fit(task, DescentMethod::kGaussNewton);
  ASSERT_EQ(found.fit.why_not, "");
  EXPECT_GT(found.fit.correlation, 0.9);
}

TEST_F(Uncertainty, WhatABoundHoldsHasNone) {
  const VectorXd truth = Oscillation(26, 0.5);
  Film([&](double t) { return truth[static_cast<Eigen::Index>(std::lround(100 * t))]; });
  const Found found =
      Fit("start='none'><parameter name='joint:x/stiffness' upper='22'/><parameter name='joint:x/damping'/>");
  EXPECT_EQ(found.theta[0], 22);
  EXPECT_TRUE(std::isnan(found.fit.deviation[0]));
  EXPECT_TRUE(std::isfinite(found.fit.deviation[1]));

  // nothing is left to have one
  EXPECT_EQ(Fit("start='none'><parameter name='joint:x/stiffness' upper='22'/>").fit.why_not,
            "all that was fitted stands at its bounds");
}

// the film begins beyond the joint's range, where no start goes: what is held there is known as little as it is free
TEST_F(Uncertainty, AStartAtItsBoundHasNone) {
  folder_.Write("spring.xml",
                "<mujoco><option timestep='.01' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' "
                "range='-9 .32' limited='true'/><geom size='.1'/></body>"
                "<body><joint type='slide'/><geom size='.1'/></body></worldbody></mujoco>");
  Film([](double t) { return 0.35 - 0.5 * t; });
  const Found found = Fit("start='qpos[x] qvel[x]'>", kRows - 1, DescentMethod::kGaussNewton);
  ASSERT_EQ(found.fit.why_not, "");
  EXPECT_EQ(found.start[0], 0.32);
  EXPECT_TRUE(std::isnan(found.fit.deviation[0]));
  EXPECT_GT(found.fit.deviation[1], 0);
  EXPECT_TRUE(std::isfinite(found.fit.deviation[1]));
}

// gradients follow delays, tangents do not: a fit by gradients alone is found, Gauss-Newton says before its first step
// what to take instead
TEST_F(Uncertainty, OfAModelWithDelaysThereIsNone) {
  folder_.Write(
      "spring.xml",
      "<mujoco model='late'><option timestep='.01' gravity='0 0 0'/><worldbody>"
      "<body><joint name='x' type='slide' axis='1 0 0' stiffness='20' damping='.3'/><geom size='.1' mass='1'/>"
      "</body></worldbody><actuator><motor joint='x' delay='.03' nsample='5'/></actuator></mujoco>");
  Film([](double t) { return 0.3 * std::cos(5 * t); });
  const Task task = LoadTask(
      folder_.Write("task.xml",
                    "<task model='spring.xml' horizon='1' scale='mean'><start qpos='0.3'/><guess ctrl='0'/><gradient "
                    "controls='none' start='none'><parameter name='joint:x/stiffness'/></gradient><cost qpos='x' "
                    "target='file:film.csv'/></task>"));
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  EXPECT_ERROR(Descend(task, parameters.get(), {.method = DescentMethod::kGaussNewton}), ErrorCode::kUnsupported,
               "model 'late' has them", "--descend lbfgs");
  const DescentResult result = Descend(task, parameters.get());
  EXPECT_LT(result.loss, 0.1 * result.initial_loss) << result.message;
  const FitUncertainty fit = EstimateUncertainty(task, parameters.get(), result.x0, result.U);
  EXPECT_NE(fit.why_not.find("delays"), std::string::npos) << fit.why_not;
}

TEST_F(Uncertainty, SaysWhyThereIsNone) {
  Film([](double) { return 0.3; });
  const auto load = [&](const std::string& cost) {
    return LoadTask(folder_.Write(
        "task.xml", "<task model='spring.xml' horizon='1'><gradient controls='none' start='qvel[x]'/><cost qpos='x' " +
                        cost + "/></task>"));
  };
  const auto reason = [](const Task& task) {
    return EstimateUncertainty(task, nullptr, task.x0, task.U_guess).why_not;
  };
  EXPECT_EQ(reason(load("target='0.2'")), "no target is a motion");
  EXPECT_EQ(reason(load("name='far' norm='huber' param='1' target='file:film.csv'")),
            "the norm of 'far' is not quadratic");
  Task task = load("target='file:film.csv'");
  EXPECT_EQ(reason(task), "");
  task.inputs.start.clear();
  EXPECT_EQ(reason(task), "nothing was fitted");
  task.inputs.parameters.push_back({.name = "joint:x/damping"});
  EXPECT_THROW(reason(task), Error);
}

}  // namespace
}  // namespace costate
