// Expressions of measures: their values, their exact derivatives, their errors.
#include "optimizer/expression.h"

#include <costate/error.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>

#include <cmath>

#include "support/comma_locale.h"

namespace costate {
namespace {

const std::vector<ExpressionName> kNames{
    {"a", 0, 1}, {"v", 1, 3}, {"w", 4, 3}, {"half", 0, 0, "0.5 * a"}, {"both", 0, 0, "half * v + w"}};

VectorXd Point() { return (VectorXd(7) << 0.7, 0.3, -0.4, 1.2, -0.8, 0.5, 0.2).finished(); }

VectorXd ValueAt(const Expression& expression, const VectorXd& z, double time = 0.25) {
  const VectorXd none;
  VectorXd r;
  expression.Value({.t = 1, .N = 2, .time = 0, .dt = time, .x = none, .u = none, .s = none}, z, &r);
  return r;
}

MatrixXd SlopesAt(const Expression& expression, const VectorXd& z, double time = 0.25) {
  const VectorXd none;
  ResidualJacobian J;
  expression.Jacobian({.t = 1, .N = 2, .time = 0, .dt = time, .x = none, .u = none, .s = none}, z, &J);
  return J.measured;
}

struct Known {
  const char* text;
  std::vector<double> value;
};
void PrintTo(const Known& known, std::ostream* out) { *out << known.text; }
class ExpressionValue : public ::testing::TestWithParam<Known> {};

TEST_P(ExpressionValue, IsThatOfArithmetic) {
  const VectorXd r = ValueAt(Expression(GetParam().text, kNames), Point());
  ASSERT_EQ(r.size(), static_cast<long>(GetParam().value.size())) << GetParam().text;
  for (long i = 0; i < r.size(); i++)
    EXPECT_NEAR(r[i], GetParam().value[static_cast<std::size_t>(i)], 1e-14) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Arithmetic, ExpressionValue,
    ::testing::Values(Known{"1 + 2 * 3", {7}}, Known{"(1+2)*3", {9}}, Known{"8 / 4 / 2", {1}}, Known{"5 - 3 - 1", {1}},
                      Known{"-2^2", {-4}}, Known{"2^3^2", {512}}, Known{"2^-1", {0.5}}, Known{"1.5e-1 * 2", {0.3}},
                      Known{"v[2]", {1.2}}, Known{"v[2, 0]", {1.2, 0.3}}, Known{"v[0:2]", {0.3, -0.4}},
                      Known{"[v, a][3]", {0.7}}, Known{"v + w", {-0.5, 0.1, 1.4}},
                      Known{"2 * v - 1", {-0.4, -1.8, 1.4}},
                      Known{"both", {0.35 * 0.3 - 0.8, -0.35 * 0.4 + 0.5, 0.35 * 1.2 + 0.2}}, Known{"time", {0.25}},
                      Known{"dot(v, w)", {-0.24 - 0.2 + 0.24}}, Known{"norm(v)", {1.3}}, Known{"sum(v)", {1.1}},
                      Known{"mean(v)", {1.1 / 3}}, Known{"normalize(v)", {0.3 / 1.3, -0.4 / 1.3, 1.2 / 1.3}},
                      Known{"cross(v, w)", {-0.08 - 0.6, -0.96 - 0.06, 0.15 - 0.32}},
                      Known{"clamp(v, -0.1, 1)", {0.3, -0.1, 1}}, Known{"min(v, 0)", {0, -0.4, 0}},
                      Known{"max(a, w)", {0.7, 0.7, 0.7}}, Known{"mod(-0.5, 2)", {1.5}}, Known{"cos(2*pi*time)", {0}},
                      Known{"abs(w)", {0.8, 0.5, 0.2}}, Known{"atan2(1, -1)", {0.75 * M_PI}}));

TEST(Expression, ReadsNumbersAlikeInEveryLocale) {
  const support::CommaLocale locale;
  EXPECT_EQ(ValueAt(Expression("[0.5 * a, .25 + v[1], 1e-3 * 2]", kNames), Point()),
            Eigen::Vector3d(0.5 * 0.7, 0.25 - 0.4, 1e-3 * 2));
}

class ExpressionSlope : public ::testing::TestWithParam<const char*> {};

// centred differences: truncation and rounding leave 1e-9 of the slope; every function once, and the ways in which they
// are put together
TEST_P(ExpressionSlope, IsTheDifference) {
  const Expression expression(GetParam(), kNames);
  const VectorXd z = Point();
  const MatrixXd J = SlopesAt(expression, z);
  ASSERT_EQ(J.rows(), expression.size());
  const double h = 6e-6;
  for (long i = 0; i < z.size(); i++) {
    const VectorXd up = z + h * VectorXd::Unit(z.size(), i), down = z - h * VectorXd::Unit(z.size(), i);
    const VectorXd slope = (ValueAt(expression, up) - ValueAt(expression, down)) / (2 * h);
    EXPECT_LT((J.col(i) - slope).cwiseAbs().maxCoeff(), 1e-8 * (1 + slope.cwiseAbs().maxCoeff()))
        << GetParam() << ", entry " << i;
  }
  EXPECT_GT(J.cwiseAbs().maxCoeff(), 1e-3) << GetParam() << " has a slope";
}

INSTANTIATE_TEST_SUITE_P(EveryFunction, ExpressionSlope,
                         ::testing::Values("a + v", "a - v", "a * v * w", "a / v", "v / w", "abs(v)^a", "a^2", "a^-1.5",
                                           "min(v, w)", "max(v, w)", "atan2(v, w)", "sin(v)", "cos(3 * v)", "tan(v)",
                                           "asin(w)", "acos(w)", "atan(v)", "sinh(v)", "cosh(v)", "tanh(v)",
                                           "exp(v * a)", "log(abs(w))", "sqrt(abs(v))", "abs(w)", "mod(v, a)",
                                           "dot(v, w)", "norm(v - w)", "normalize(v + w)", "cross(v, w)", "sum(v * v)",
                                           "mean(w * a)", "clamp(v, -0.6, a)", "both * both",
                                           "norm(both) / (half + time)", "a / sqrt(a^2 + 0.45^2) - 0.4", "-v^2",
                                           "[a * v[0:2], half][1, 2]", "cos(4 * pi * time + a)"));

// where there is none, the slope is 0: a solver that starts at rest on its target gets numbers
// Vᵀ V of Curvature: the slope's centred differences, which leave 1e-9 of the largest entry, of rows that are convex
class ExpressionCurvature : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpressionCurvature, IsTheSlopesDifferenceWhereThatIsConvex) {
  const Expression expression(GetParam(), kNames);
  const VectorXd z = Point(), none;
  const long n = z.size();
  for (const double side : {1.0, -1.0}) {
    VectorXd g(expression.size());
    MatrixXd convex = MatrixXd::Zero(n, n);
    for (int row = 0; row < expression.size(); row++) {
      MatrixXd H(n, n);
      for (long i = 0; i < n; i++) {
        const VectorXd h = 6e-6 * VectorXd::Unit(n, i);
        H.col(i) = (SlopesAt(expression, z + h) - SlopesAt(expression, z - h)).row(row).transpose() / 12e-6;
      }
      g[row] = side * (row + 1);
      H = (0.5 * g[row] * (H + H.transpose())).eval();
      if (Eigen::SelfAdjointEigenSolver<MatrixXd>(H).eigenvalues()[0] > -1e-7) convex += H;
    }
    MatrixXd V;
    expression.Curvature({.t = 1, .N = 2, .time = 0, .dt = 0.25, .x = none, .u = none, .s = none}, z, g, &V);
    EXPECT_LT((V.transpose() * V - convex).cwiseAbs().maxCoeff(), 1e-8 * (1 + convex.cwiseAbs().maxCoeff()))
        << GetParam() << ", g " << side;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFunction, ExpressionCurvature,
                         ::testing::Values("a^2", "a^-1.5", "a^v[0]", "a^w[1]", "norm(v - w)", "exp(2 * v[0] + w[1])",
                                           "2^a", "a * v[2]", "v[2] * v[2]", "a / v[2]", "v[0] / 3", "1 / v",
                                           "atan2(v[1], w[2])", "v[0]^2 + w[1]^4 - v[0] * w[1]", "exp(w[0] * w[1])",
                                           "v[0]^2 / a", "a^(v[0] + w[1])", "sin(v)", "cos(v)", "tan(a)", "asin(a)",
                                           "acos(a)", "atan(w)", "sinh(v)", "cosh(a)", "tanh(w)", "exp(w)", "log(a)",
                                           "sqrt(a)", "abs(v)^3", "norm(v)", "norm([v[0], w[0]])", "normalize(v)",
                                           "dot(v[0:2], v[0:2]) * a", "dot(v[0:2], [a, 2])", "max(v, a)^2",
                                           "sin(a) + v[0]", "(sin(a) + v[0])^2", "exp(sin(a)) * cos(w[1]) - 3 * a",
                                           "cos(time * a)", "mod(v, 0.25)^2", "clamp(v, -0.3, 0.9)^2",
                                           "[a^2, v, sin(w)]", "3 * a - time"));

TEST(Expression, LeavesTheCurvatureOfManyNumbersOut) {
  // more than 64; more than three that meet in products
  const VectorXd none, z = VectorXd::LinSpaced(66, 1, 2), g = Eigen::Vector2d(1, 1);
  for (const int n : {64, 65}) {
    const Expression expression("[norm(x), 3 * a^2]", {{"x", 0, n}, {"a", 65, 1}});
    MatrixXd V;
    expression.Curvature({.t = 1, .N = 2, .time = 0, .dt = 0.25, .x = none, .u = none, .s = none}, z, g, &V);
    EXPECT_EQ(V.leftCols(65).isZero(0), n == 65);
    EXPECT_NEAR(V.col(65).norm(), std::sqrt(6.0), 1e-14);
  }
  const std::vector<std::pair<std::string, int>> sums{{"x[0] * x[1] + 9 * x[0]^2 + 9 * x[1]^2", 2},
                                                      {"x[0] * x[1] + 9 * dot(x, x)", 0}};
  for (const auto& [text, rows] : sums) {
    MatrixXd V;
    Expression(text, {{"x", 0, 66}})
        .Curvature({.t = 1, .N = 2, .time = 0, .dt = 0.25, .x = none, .u = none, .s = none}, z, g, &V);
    EXPECT_EQ(V.rows(), rows) << text;
  }
}

TEST(Expression, HasAZeroSlopeWhereANormHasNone) {
  EXPECT_TRUE(SlopesAt(Expression("norm(v)", kNames), VectorXd::Zero(7)).isZero(0));
  EXPECT_TRUE(SlopesAt(Expression("abs(a)", kNames), VectorXd::Zero(7)).isZero(0));
  EXPECT_TRUE(SlopesAt(Expression("a^0.5", kNames), VectorXd::Zero(7)).isZero(0));
  EXPECT_EQ(SlopesAt(Expression("a^1", kNames), VectorXd::Zero(7))(0, 0), 1);
}

struct Wrong {
  const char* text;
  const char* message;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.text; }
class WrongExpression : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongExpression, IsRefusedWithItsPlace) {
  try {
    Expression(GetParam().text, kNames);
    FAIL() << "is taken: " << GetParam().text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongExpression,
    ::testing::Values(Wrong{"a +", "at its end: expected a number, a name or a bracket"}, Wrong{"(a", "expected ')'"},
                      Wrong{"a b", "at 'b': expected an operator"},
                      Wrong{"hafl", "no <measure> or <let> 'hafl', did you mean 'half'?"},
                      Wrong{"v[3]", "at '3]': it has 3 entries"}, Wrong{"v[2:2]", "2:2 has no entry"},
                      Wrong{"v + w[0:2]", "a sum of 3 numbers and 2 numbers"},
                      Wrong{"dot(v, a)", "dot of 3 numbers and 1 number"},
                      Wrong{"sin(a, a)", "sin takes 1 argument, not 2"},
                      Wrong{"clmp(a)", "no function 'clmp', did you mean 'clamp'?"},
                      Wrong{"cross(a, v)", "two vectors of 3"}, Wrong{"1e999", "expected a number"},
                      Wrong{"a / (2 - 2)", "at its end: a division by 0"}, Wrong{"v * sqrt(-1)", "a value of"},
                      Wrong{"1e200 * 1e200 * a", "a value of inf"}, Wrong{"$", "expected a number, a name"}));

// too deep for the stack: an error, no crash
TEST(Expression, RefusesEndlessNesting) {
  EXPECT_THROW(Expression(std::string(100000, '(') + "a" + std::string(100000, ')'), kNames), Error);
  EXPECT_THROW(Expression(std::string(100000, '-') + "a", kNames), Error);
  try {
    Expression(std::string(100000, '(') + "ä", kNames);
    FAIL() << "is taken";
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 200u) << "a long text is quoted in part";
  }
}

// definitions of definitions: each is compiled once, however often and however indirectly it is used
TEST(Expression, CompilesLongAndBranchingDefinitionsOnce) {
  std::vector<ExpressionName> names{{"f0", 0, 1}, {"f1", 0, 1}};
  for (int i = 2; i < 3000; i++) {
    const std::string one = "f" + std::to_string(i - 1), two = "f" + std::to_string(i - 2);
    names.push_back({"f" + std::to_string(i), 0, 0, i < 60 ? one + " + " + two : "0.5 * " + one + " + 0.5 * " + two});
  }
  const VectorXd z = VectorXd::Constant(1, 0.5);
  EXPECT_EQ(ValueAt(Expression("f50", names), z)[0], 0.5 * 20365011074.0);  // Fibonacci's 51st number
  EXPECT_EQ(SlopesAt(Expression("f50", names), z)(0, 0), 20365011074.0);
  EXPECT_TRUE(ValueAt(Expression("f2999", names), z).allFinite());
}

// definitions that double each other: an error, not all of the memory
TEST(Expression, RefusesVectorsWithoutEnd) {
  std::vector<ExpressionName> names{{"d0", 0, 1}};
  for (int i = 1; i < 60; i++) {
    const std::string before = "d" + std::to_string(i - 1);
    names.push_back({"d" + std::to_string(i), 0, 0, "[" + before + ", " + before + "]"});
  }
  try {
    Expression("sum(d59)", names);
    FAIL() << "is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("<let> 'd20': '[d19, d19]'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("more than 1000000 operations or entries"), std::string::npos)
        << error.what();
  }
}

// what is no number at a point is not hidden by a bound; at its corners a clamp has the slope of what it clamps
TEST(Expression, KeepsWhatIsNoNumberAndSlopesAtCorners) {
  const VectorXd zero = VectorXd::Zero(7);
  for (const char* text : {"min(1, a / a)", "min(a / a, 1)", "max(1, a / a)", "max(a / a, 1)", "clamp(a / a, 0, 1)"}) {
    EXPECT_TRUE(std::isnan(ValueAt(Expression(text, kNames), zero)[0])) << text;
  }
  EXPECT_EQ(SlopesAt(Expression("clamp(a, 0, 1)", kNames), zero)(0, 0), 1);
  EXPECT_EQ(SlopesAt(Expression("clamp(a + 1, 0, 1)", kNames), zero)(0, 0), 1);
}

TEST(Expression, FindsTheWordsOfAText) {
  EXPECT_EQ(ExpressionWords("sin(a_1) + 2e-3*b3 - 1e5"), (std::vector<std::string>{"sin", "a_1", "b3"}));
}

}  // namespace
}  // namespace costate
