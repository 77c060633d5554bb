#include "optimizer/norm.h"

#include <gtest/gtest.h>

#include <cmath>

namespace costate {
namespace {

struct NormCase {
  Norm norm;
  double (*value)(double r, double p, double q);  // the formula as MuJoCo MPC documents it
};

const std::vector<NormCase>& Cases() {
  static const std::vector<NormCase> cases{
      {{NormType::kQuadratic}, [](double r, double, double) { return 0.5 * r * r; }},
      {{NormType::kL2, 0.1}, [](double r, double p, double) { return std::sqrt(r * r + p * p) - p; }},
      {{NormType::kL22, 0.1, 2.5},
       [](double r, double p, double q) { return std::pow(std::pow(r * r, q / 2) + std::pow(p, q), 1 / q) - p; }},
      {{NormType::kCosh, 0.7}, [](double r, double p, double) { return p * p * (std::cosh(r / p) - 1); }},
      {{NormType::kPower, 1.5}, [](double r, double p, double) { return std::pow(std::abs(r), p); }},
      {{NormType::kPower, 4}, [](double r, double p, double) { return std::pow(std::abs(r), p); }},
      {{NormType::kSmoothAbs, 0.3}, [](double r, double p, double) { return std::sqrt(r * r + p * p) - p; }},
      {{NormType::kSmoothAbs2, 0.3, 3},
       [](double r, double p, double q) { return std::pow(std::pow(std::abs(r), q) + std::pow(p, q), 1 / q) - p; }},
      {{NormType::kRectify, 0.2}, [](double r, double p, double) { return p * std::log(1 + std::exp(r / p)); }},
      {{NormType::kHinge}, [](double r, double, double) { return r > 0 ? 0.5 * r * r : 0; }},
      {{NormType::kHuber, 0.5},
       [](double r, double p, double) { return std::abs(r) <= p ? 0.5 * r * r : p * (std::abs(r) - p / 2); }},
  };
  return cases;
}

const double kResiduals[] = {-2.1, -0.6, -0.21, -0.03, 0.04, 0.3, 0.9, 1.7};

TEST(Norm, ValueIsTheDocumentedFormula) {
  for (const NormCase& c : Cases()) {
    for (double r : kResiduals) {
      const double expected = c.value(r, c.norm.p, c.norm.q);
      EXPECT_NEAR(Evaluate(c.norm, r).value, expected, 1e-14 * (1 + std::abs(expected)))
          << ToString(c.norm) << " at " << r;
      EXPECT_EQ(Value(c.norm, r), Evaluate(c.norm, r).value) << ToString(c.norm) << " at " << r;
    }
  }
}

// centred differences with h = 1e-6: truncation h² and rounding 1e-16/h are below 1e-9 for these curvatures
TEST(Norm, GradientIsTheDifferenceOfTheValue) {
  const double h = 1e-6;
  for (const NormCase& c : Cases()) {
    for (double r : kResiduals) {
      const double fd = (Evaluate(c.norm, r + h).value - Evaluate(c.norm, r - h).value) / (2 * h);
      EXPECT_NEAR(Evaluate(c.norm, r).gradient, fd, 1e-8 * (1 + std::abs(fd))) << ToString(c.norm) << " at " << r;
    }
  }
}

TEST(Norm, CurvatureIsTheDifferenceOfTheGradientAndNeverNegative) {
  const double h = 1e-6;
  for (const NormCase& c : Cases()) {
    for (double r : kResiduals) {
      const double curvature = Evaluate(c.norm, r).curvature;
      EXPECT_GE(curvature, 0);
      if (c.norm.type == NormType::kHuber && std::abs(r) > c.norm.p) {
        EXPECT_DOUBLE_EQ(curvature, c.norm.p / std::abs(r));  // the majorizer, not the second derivative 0
        continue;
      }
      const double fd = (Evaluate(c.norm, r + h).gradient - Evaluate(c.norm, r - h).gradient) / (2 * h);
      EXPECT_NEAR(curvature, fd, 1e-7 * (1 + std::abs(fd))) << ToString(c.norm) << " at " << r;
    }
  }
}

// slope r and slope 1 + outer r rᵀ against differences, for a residual of three components
TEST(Norm, VectorNormsHaveExactGradientAndPositiveHessian) {
  const double h = 1e-6;
  for (const Norm& norm : {Norm{NormType::kL2, 0.1}, Norm{NormType::kL22, 0.2, 2.5}, Norm{NormType::kL22, 0.2, 1.5}}) {
    const Eigen::Vector3d r(0.3, -0.7, 0.1);
    auto gradient = [&](const VectorXd& at) -> VectorXd { return EvaluateVector(norm, at).slope * at; };
    const VectorNormValue value = EvaluateVector(norm, r);
    EXPECT_NEAR(value.value, Evaluate(norm, r.norm()).value, 1e-15);
    EXPECT_EQ(ValueOfVector(norm, r), value.value);
    MatrixXd hessian = value.outer * r * r.transpose();
    hessian.diagonal().array() += value.slope;
    for (int i = 0; i < 3; ++i) {
      const VectorXd dr = h * VectorXd::Unit(3, i);
      const double fd = (EvaluateVector(norm, r + dr).value - EvaluateVector(norm, r - dr).value) / (2 * h);
      EXPECT_NEAR(gradient(r)[i], fd, 1e-8);
      const VectorXd column = (gradient(r + dr) - gradient(r - dr)) / (2 * h);
      EXPECT_LT((hessian.col(i) - column).norm(), 1e-8) << ToString(norm);
    }
    EXPECT_GE(value.slope + value.outer * r.squaredNorm(), 0);  // the smallest eigenvalue, along r
  }
}

// at zero and far away, where the textbook formulas divide by zero or overflow
TEST(Norm, IsFiniteWhereFormulasAreNot) {
  std::vector<Norm> norms{{NormType::kL2, 0},      {NormType::kL22, 0, 1.5},  {NormType::kPower, 1},
                          {NormType::kPower, 1.2}, {NormType::kSmoothAbs, 0}, {NormType::kSmoothAbs2, 0, 1.5},
                          {NormType::kRectify, 0}, {NormType::kRectify, 1e-3}};
  for (const NormCase& c : Cases()) norms.push_back(c.norm);
  for (const Norm& norm : norms) {
    for (double r : {0.0, 1e-300, -1e-12, 1e4, -1e4}) {
      if (norm.type == NormType::kCosh && std::abs(r) > 1) continue;  // grows beyond any number, as it says
      const NormValue value = Evaluate(norm, r);
      EXPECT_TRUE(std::isfinite(value.value) && std::isfinite(value.gradient) && std::isfinite(value.curvature))
          << ToString(norm) << " at " << r;
      EXPECT_GE(value.curvature, 0) << ToString(norm) << " at " << r;
      const VectorNormValue vector = EvaluateVector(norm, Eigen::Vector2d(r, 0));
      EXPECT_TRUE(std::isfinite(vector.value) && std::isfinite(vector.slope) && std::isfinite(vector.outer))
          << ToString(norm);
    }
    EXPECT_NEAR(Evaluate(norm, 0).value, norm.type == NormType::kRectify ? norm.p * std::log(2) : 0, 1e-12)
        << ToString(norm);
  }
}

TEST(Norm, KnowsItsParameters) {
  EXPECT_EQ(NormNames().size(), 10u);
  EXPECT_FALSE(HasValidParameters({NormType::kPower, 0.5}));
  EXPECT_FALSE(HasValidParameters({NormType::kCosh, 0}));
  EXPECT_FALSE(HasValidParameters({NormType::kHuber, -1}));
  EXPECT_FALSE(HasValidParameters({NormType::kSmoothAbs2, 0.1, 1}));
  EXPECT_FALSE(HasValidParameters({NormType::kRectify, -0.1}));
  for (const NormCase& c : Cases()) EXPECT_TRUE(HasValidParameters(c.norm)) << ToString(c.norm);
}

}  // namespace
}  // namespace costate
