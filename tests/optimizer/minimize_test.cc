// First-order minimization between bounds: closed forms, bounds, failures.
#include "optimizer/minimize.h"

#include <costate/error.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/extremes.h"

namespace costate {
namespace {

VectorXd Vector(std::initializer_list<double> values) {
  VectorXd v(static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), v.data());
  return v;
}

MinimizeResult Unbounded(const SmoothFunction& f, const VectorXd& z, const DescentOptions& options,
                         const MinimizeCallback& callback = {}) {
  const VectorXd inf = VectorXd::Constant(z.size(), kInf);
  return Minimize(f, z, -inf, inf, VectorXd::Ones(z.size()), options, callback);
}

double Rosenbrock(const VectorXd& z, VectorXd* g) {
  const double a = 1 - z[0], b = z[1] - z[0] * z[0];
  if (g) *g = Vector({-2 * a - 400 * z[0] * b, 200 * b});
  return a * a + 100 * b * b;
}

// f = ½ Σ c_i (z_i − 1)²
SmoothFunction Bowl(const VectorXd& c) {
  return [c](const VectorXd& z, VectorXd* g) {
    const VectorXd e = z.array() - 1;
    if (g) *g = c.cwiseProduct(e);
    return 0.5 * c.dot(e.cwiseAbs2());
  };
}

TEST(Minimize, FixedRateContractsEachErrorByOneMinusRateTimesCurvature) {
  // z ← z − rate c (z − 1)
  const VectorXd c = Vector({1, 4, 9});
  int seen = 0;
  Unbounded(Bowl(c), VectorXd::Zero(3),
            {.method = DescentMethod::kGradient, .iterations = 12, .rate = 0.05, .gradient_tolerance = 0},
            [&](const IterationRecord& record, const VectorXd& z) {
              for (int i = 0; i < 3; i++) EXPECT_NEAR(z[i] - 1, -std::pow(1 - 0.05 * c[i], record.iteration), 1e-14);
              seen++;
              return true;
            });
  EXPECT_EQ(seen, 13);
}

// Kingma & Ba 2015, algorithm 1, one coordinate at a time
TEST(Minimize, AdamTakesItsAlgorithmsSteps) {
  const VectorXd c = Vector({1, 400});
  std::vector<double> z{0, 0}, m{0, 0}, v{0, 0};
  int seen = 0;
  Unbounded(Bowl(c), VectorXd::Zero(2),
            {.method = DescentMethod::kAdam, .iterations = 30, .rate = 0.1, .gradient_tolerance = 0},
            [&](const IterationRecord& record, const VectorXd& at) {
              const int k = record.iteration;
              for (std::size_t i = 0; k > 0 && i < 2; i++) {
                const double g = c[static_cast<int>(i)] * (z[i] - 1);
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                z[i] -= 0.1 * (m[i] / (1 - std::pow(0.9, k))) / std::sqrt(v[i] / (1 - std::pow(0.999, k)));
              }
              for (std::size_t i = 0; i < 2; i++) EXPECT_NEAR(at[static_cast<int>(i)], z[i], 1e-10) << k;
              seen++;
              return true;
            });
  EXPECT_EQ(seen, 31);
}

// no line search: it passes the jump of a step that a search would stop at; the best point is what is given back
TEST(Minimize, AdamPassesAJumpAndKeepsTheBest) {
  const SmoothFunction jump = [](const VectorXd& z, VectorXd* g) {
    if (g) *g = VectorXd::Constant(1, 2 * (z[0] - 1));
    return (z[0] - 1) * (z[0] - 1) + (z[0] > 0.2 && z[0] < 0.4 ? 0.5 : 0);
  };
  const VectorXd one = VectorXd::Ones(1);
  const MinimizeResult adam = Minimize(jump, VectorXd::Constant(1, 0.19), -one, 2 * one, one,
                                       {.method = DescentMethod::kAdam, .iterations = 200});
  EXPECT_NEAR(adam.z[0], 1, 0.01);
  EXPECT_LE(adam.value, 1e-4);
}

TEST(Minimize, AdamStaysWithinBounds) {
  const VectorXd one = VectorXd::Ones(1);
  const SmoothFunction f = [](const VectorXd& z, VectorXd* g) {
    EXPECT_LE(z[0], 0.5);
    if (g) *g = VectorXd::Constant(1, z[0] - 1);
    return 0.5 * (z[0] - 1) * (z[0] - 1);
  };
  const MinimizeResult result =
      Minimize(f, VectorXd::Zero(1), -one, 0.5 * one, one, {.method = DescentMethod::kAdam, .iterations = 100});
  EXPECT_EQ(result.z[0], 0.5);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
}

TEST(Minimize, LbfgsFollowsTheBananaToItsEnd) {
  const MinimizeResult result = Unbounded(Rosenbrock, Vector({-1.2, 1}), {.iterations = 200});
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_NEAR(result.z[0], 1, 1e-8);
  EXPECT_NEAR(result.z[1], 1, 1e-8);
}

TEST(Minimize, LineSearchedGradientDescentNeverRises) {
  double last = kInf;
  const MinimizeResult result =
      Unbounded(Rosenbrock, Vector({-1.2, 1}), {.method = DescentMethod::kGradient, .iterations = 300},
                [&](const IterationRecord& record, const VectorXd&) {
                  EXPECT_LT(record.cost, last);
                  last = record.cost;
                  return true;
                });
  EXPECT_LT(result.value, 0.1 * result.initial_value);
}

TEST(Minimize, StopsAtBoundsAndNeverAsksBeyond) {
  // minimum 1 of each entry, of which the first is held at 0.3 and the second at 1.7; scales whose division rounds
  const VectorXd lower = Vector({-1, 1.7, -kInf}), upper = Vector({0.3, 3, kInf}), scale = Vector({0.1, 0.7, 3});
  for (DescentMethod method : {DescentMethod::kGradient, DescentMethod::kLbfgs}) {
    const SmoothFunction bowl = Bowl(Vector({1, 2, 3}));
    const auto asked = [&](const VectorXd& z, VectorXd* g) {
      EXPECT_TRUE((z.array() >= lower.array()).all() && (z.array() <= upper.array()).all());
      return bowl(z, g);
    };
    const MinimizeResult result =
        Minimize(asked, Vector({-5, 2, 9}), lower, upper, scale, {.method = method, .iterations = 500});
    EXPECT_EQ(result.z[0], 0.3);
    EXPECT_EQ(result.z[1], 1.7);
    EXPECT_NEAR(result.z[2], 1, 1e-7);
    EXPECT_LT(result.gradient_norm, 1e-6);
  }
}

// a rotated |x| + 3 |y|, which has no slope 0 beside its valley: where the search comes to rest there is no minimum
TEST(Minimize, AKinkIsNoConvergence) {
  const SmoothFunction roof = [](const VectorXd& z, VectorXd* g) {
    const double x = 0.8 * z[0] + 0.6 * z[1], y = 0.8 * z[1] - 0.6 * z[0];
    const double sx = x < 0 ? -1 : 1, sy = y < 0 ? -3 : 3;
    if (g) *g = Vector({0.8 * sx - 0.6 * sy, 0.6 * sx + 0.8 * sy});
    return 1 + std::abs(x) + 3 * std::abs(y);
  };
  for (DescentMethod method : {DescentMethod::kLbfgs, DescentMethod::kGradient}) {
    for (double tolerance : {1e-14, 1e-6}) {
      const MinimizeResult result =
          Unbounded(roof, Vector({2, 0.7}), {.method = method, .iterations = 1000, .tolerance = tolerance});
      EXPECT_EQ(result.status, SolveStatus::kStalled) << result.message << result.z << " " << result.value;
      EXPECT_NE(result.message.find("of the first one"), std::string::npos) << result.message;
    }
  }
}

// the decreases stay below the tolerance before the gradient below its own: a minimum all the same, from afar and near
TEST(Minimize, AMinimumThatLeavesSomeGradientIsConvergence) {
  const VectorXd c = Vector({1, 40, 900});
  const SmoothFunction bowl = [&c](const VectorXd& z, VectorXd* g) { return 7 + Bowl(c)(z, g); };
  for (DescentMethod method : {DescentMethod::kLbfgs, DescentMethod::kGradient}) {
    for (double away : {3.0, 1e-3}) {
      for (double tolerance : {1e-14, 1e-10, 1e-6}) {
        const MinimizeResult result = Unbounded(bowl, VectorXd::Constant(3, 1 + away),
                                                {.method = method, .iterations = 100000, .tolerance = tolerance});
        EXPECT_EQ(result.status, SolveStatus::kConverged) << away << " " << tolerance << ": " << result.message;
      }
    }
  }
}

// a step far out to where the function is flat: no minimum, and the best place is another
TEST(Minimize, AStepOnToAPlateauIsNoConvergence) {
  const SmoothFunction valley = [](const VectorXd& z, VectorXd* g) {
    const double e = std::exp(-z[0] * z[0]);
    if (g) *g = Vector({2 * z[0] * e});
    return 1 - e;
  };
  const MinimizeResult result =
      Unbounded(valley, Vector({0.5}), {.method = DescentMethod::kGradient, .iterations = 10, .rate = 1e6});
  EXPECT_EQ(result.status, SolveStatus::kStalled) << result.message;
  EXPECT_NE(result.message.find("the rate is too large"), std::string::npos) << result.message;
  EXPECT_EQ(result.z[0], 0.5);
}

// a fit that begins at the truth: what is left is rounding, which no step reduces
TEST(Minimize, NothingLeftIsConvergence) {
  const SmoothFunction bowl = Bowl(Vector({1, 9}));
  const MinimizeResult result = Unbounded(bowl, VectorXd::Constant(2, 1 + 1e-13), {});
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_NE(result.message.find("rounding"), std::string::npos) << result.message;
  EXPECT_EQ(result.value, result.initial_value);
  EXPECT_LT(Unbounded(bowl, VectorXd::Constant(2, 1 + 1e-13), {.floor = 0}).value, result.value);
}

TEST(Minimize, TurnsBackWhereTheFunctionHasNoValue) {
  // −ln z + z has its minimum at 1 and no value left of 0
  const auto f = [](const VectorXd& z, VectorXd* g) {
    if (g) *g = Vector({1 - 1 / z[0]});
    return z[0] > 0 ? z[0] - std::log(z[0]) : std::nan("");
  };
  const MinimizeResult result = Unbounded(f, Vector({30}), {});
  EXPECT_NEAR(result.z[0], 1, 1e-8) << result.message;
  EXPECT_EQ(Unbounded(f, Vector({-1}), {}).status, SolveStatus::kDiverged);
}

TEST(Minimize, ARateTooLargeKeepsTheBestPoint) {
  const MinimizeResult result = Unbounded(Bowl(Vector({100})), Vector({0}),
                                          {.method = DescentMethod::kGradient, .iterations = 2000, .rate = 0.05});
  EXPECT_EQ(result.z[0], 0) << "each step multiplies the error by -4";
  EXPECT_EQ(result.status, SolveStatus::kStalled) << result.message;
  EXPECT_EQ(result.value, result.initial_value);
}

// 100 · 1e308 is infinite: that is a step too far, and no point of the function, which may refuse it
TEST(Minimize, AStepThatOverflowsIsOneTooFar) {
  const SmoothFunction bowl = Bowl(Vector({100}));
  const auto f = [&](const VectorXd& z, VectorXd* g) {
    if (!z.allFinite()) throw Error(ErrorCode::kInvalidArgument, "z is not finite");
    return bowl(z, g);
  };
  for (const DescentMethod method : {DescentMethod::kGradient, DescentMethod::kAdam}) {
    const MinimizeResult result = Unbounded(f, Vector({0}), {.method = method, .iterations = 20, .rate = 1e308});
    EXPECT_EQ(result.z[0], 0);
    EXPECT_EQ(result.status, SolveStatus::kStalled) << result.message;
    EXPECT_NE(result.message.find("the rate is too large"), std::string::npos) << result.message;
  }
}

TEST(Minimize, InterruptionKeepsTheBestPoint) {
  const MinimizeResult result = Unbounded(Rosenbrock, Vector({-1.2, 1}), {},
                                          [](const IterationRecord& r, const VectorXd&) { return r.iteration < 5; });
  EXPECT_EQ(result.status, SolveStatus::kInterrupted);
  EXPECT_LT(result.value, result.initial_value);
}

TEST(Minimize, RefusesOptionsThatMakeNoSense) {
  const SmoothFunction bowl = Bowl(Vector({1}));
  EXPECT_THROW(Unbounded(bowl, Vector({0}), {.rate = 0.1}), Error) << "L-BFGS searches";
  EXPECT_THROW(Unbounded(bowl, Vector({0}), {.iterations = -1}), Error);
  EXPECT_THROW(Unbounded(bowl, Vector({0}), {.method = DescentMethod::kGradient, .rate = -1}), Error);
}

}  // namespace
}  // namespace costate
