// Linear-quadratic problems within linear constraints: that what is found is their solution, by the conditions of Karush,
// Kuhn and Tucker, which know nothing of how it was found.
#include "optimizer/constrained_lq.h"

#include <costate/costate.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "optimizer/step_search.h"
#include "support/engine_test.h"

namespace costate {
namespace {

using ConstrainedLqTest = support::EngineTest;

// three masses with a motor each: ndx = 6, nu = 3
constexpr char kMasses[] = R"(
<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body><joint name="a" type="slide"/><geom size="0.1"/></body>
  <body><joint name="b" type="slide"/><geom size="0.1"/></body>
  <body><joint name="c" type="slide"/><geom size="0.1"/></body></worldbody>
  <actuator><motor joint="a"/><motor joint="b"/><motor joint="c"/></actuator></mujoco>)";

constexpr int kN = 20, kNdx = 6, kNu = 3;

using Random = std::mt19937;

MatrixXd Normal(Eigen::Index rows, Eigen::Index cols, Random& random) {
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, cols, [&] { return normal(random); });
}

struct Solved {
  MatrixXd X, U;
  bool exact = false;
};

// lower ≤ c_t + J_t dx + Ju_t du ≤ upper; a knot's numbers do not depend on its x and u
class LinearRows final : public Constraint {
 public:
  LinearRows(ConstraintInfo info, bool by_control, double far, Random& random) : Constraint(std::move(info)) {
    for (int t = 0; t <= kN; ++t) {
      c.push_back(far * Normal(size(), 1, random));
      J.push_back(Normal(size(), kNdx, random));
      Ju.push_back(by_control && t < kN ? Normal(size(), kNu, random) : MatrixXd(size(), 0));
    }
  }
  void Value(const KnotView& knot, VectorXd* out) const override { *out = c[static_cast<std::size_t>(knot.t)]; }
  void Jacobian(const KnotView& knot, ConstMatrixRef, ConstMatrixRef, MatrixXd* Jx, MatrixXd* Jc) const override {
    *Jx = J[static_cast<std::size_t>(knot.t)];
    *Jc = Ju[static_cast<std::size_t>(knot.t)];
  }
  bool NeedsSensors() const override { return false; }
  VectorXd At(int t, const Solved& solved) const {
    const auto at = static_cast<std::size_t>(t);
    VectorXd value = c[at] + J[at] * solved.X.col(t);
    if (Ju[at].cols() > 0) value += Ju[at] * solved.U.col(t);
    return value;
  }

  std::vector<VectorXd> c;
  std::vector<MatrixXd> J, Ju;
};

ConstraintInfo Info(const std::string& name, int rows, double lower, double upper, int first, int last) {
  ConstraintInfo info;
  info.name = name;
  for (int k = 0; k < rows; ++k) info.components.push_back(name + std::to_string(k));
  info.lower = VectorXd::Constant(rows, lower);
  info.upper = VectorXd::Constant(rows, upper);
  info.first = first;
  info.last = last;
  return info;
}

struct Drawn {
  LqProblem lq;
  ConstraintSet constraints;
  std::vector<const LinearRows*> rows;

  void Add(ConstraintInfo info, bool by_control, double far, Random& random) {
    auto added = std::make_unique<LinearRows>(std::move(info), by_control, far, random);
    rows.push_back(added.get());
    constraints.Add(std::move(added));
  }
};

// steps that hardly contract, costs that curve by 0.01 … 1, controls within ± 1 some of which are at a bound already
Drawn Draw(unsigned seed, double far) {
  Random random(seed);
  std::uniform_real_distribution<double> uniform(0.01, 1);
  Drawn drawn;
  drawn.lq.knots.resize(kN);
  for (LqKnot& knot : drawn.lq.knots) {
    knot.A = MatrixXd::Identity(kNdx, kNdx) + 0.1 * Normal(kNdx, kNdx, random);
    knot.B = 0.3 * Normal(kNdx, kNu, random);
    const MatrixXd root = Normal(kNdx + kNu, kNdx + kNu, random);
    const MatrixXd H = 0.1 * root * root.transpose();
    knot.lxx = uniform(random) * H.topLeftCorner(kNdx, kNdx);
    knot.lux = MatrixXd::Zero(kNu, kNdx);
    knot.luu = uniform(random) * H.bottomRightCorner(kNu, kNu) + 0.01 * MatrixXd::Identity(kNu, kNu);
    knot.lx = Normal(kNdx, 1, random);
    knot.lu = Normal(kNu, 1, random);
    knot.du_lower = -VectorXd::NullaryExpr(kNu, [&] { return uniform(random) < 0.2 ? 0.0 : uniform(random); });
    knot.du_upper = VectorXd::NullaryExpr(kNu, [&] { return uniform(random) < 0.2 ? 0.5 : uniform(random); });
  }
  drawn.lq.lxx = MatrixXd::Identity(kNdx, kNdx);
  drawn.lq.lx = Normal(kNdx, 1, random);
  drawn.Add(Info("states", 4, -1, 1, 1, kN), false, far, random);
  drawn.Add(Info("both", 3, -kInf, 0.7, 0, kN - 1), true, far, random);
  return drawn;
}

// visit(constraint, knot, row, its value along the motion)
template <typename Visit>
void ForRows(const Drawn& drawn, const Solved& solved, Visit visit) {
  for (std::size_t i = 0; i < drawn.rows.size(); ++i) {
    for (int t = drawn.rows[i]->info().first; t <= drawn.rows[i]->info().last; ++t) {
      const VectorXd c = drawn.rows[i]->At(t, solved);
      for (Eigen::Index k = 0; k < c.size(); ++k) visit(i, t, k, c[k]);
    }
  }
}

constexpr double kMu = 0.05;  // regularization
// a multiplier times the room that its bound leaves: of costs of some 30, 1e-8 of them on the way and as much by rounding
// behind weights of 1e7
constexpr double kGap = 5e-5;

// the policy's own motion
Solved Follow(const LqProblem& lq, const RiccatiResult& riccati) {
  Solved solved;
  solved.X.setZero(kNdx, kN + 1);
  solved.U.resize(kNu, kN);
  for (int t = 0; t < kN; ++t) {
    const LqKnot& knot = lq.knots[static_cast<std::size_t>(t)];
    solved.U.col(t) = riccati.k.col(t) + riccati.K[static_cast<std::size_t>(t)] * solved.X.col(t);
    solved.X.col(t + 1) = knot.A * solved.X.col(t) + knot.B * solved.U.col(t);
  }
  return solved;
}

class Solver {
 public:
  explicit Solver(const Drawn& drawn)
      : model_(LoadModelFromString(kMasses)),
        cost_(model_.get(), VectorXd::Zero(kNdx), MatrixXd::Zero(kNdx, kNdx), MatrixXd::Zero(kNu, kNu),
              MatrixXd::Zero(kNdx, kNdx)),
        drawn_(drawn),
        constrained(model_.get(), cost_, drawn.constraints, kN, 1e-9) {}

  Solved Solve() {
    const VectorXd x = VectorXd::Zero(kNdx), u = VectorXd::Zero(kNu), none;
    CostExpansion unused;
    for (int t = 0; t <= kN; ++t) {
      constrained.Expand({.t = t, .N = kN, .time = 0.01 * t, .dt = 0.01, .x = x, .u = t < kN ? u : none, .s = none},
                         MatrixXd(), MatrixXd(), &unused);
    }
    LqProblem lq = drawn_.lq;
    constrained.Solve(&lq, kMu, &riccati);
    Solved solved = Follow(drawn_.lq, riccati);
    solved.exact = constrained.exact();
    return solved;
  }

 private:
  ModelPtr model_;
  QuadraticCost cost_;
  const Drawn& drawn_;

 public:
  ConstrainedLq constrained;
  RiccatiResult riccati;
};

// of the Lagrangian by each control, multipliers as they are found: cost, regularization, rows
MatrixXd Slopes(const Drawn& drawn, const Solved& solved, const AugmentedCost& augmented) {
  MatrixXd slopes(kNu, kN);
  VectorXd p = drawn.lq.lx + drawn.lq.lxx * solved.X.col(kN);
  const auto pull = [&](int t, VectorXd* x, VectorXd* u) {
    for (std::size_t i = 0; i < drawn.rows.size(); ++i) {
      if (!drawn.rows[i]->IsAt(t, kN)) continue;
      const auto at = static_cast<std::size_t>(t);
      const VectorXd lambda = augmented.lambda[i].col(t);
      *x += drawn.rows[i]->J[at].transpose() * lambda;
      if (u && drawn.rows[i]->Ju[at].cols() > 0) *u += drawn.rows[i]->Ju[at].transpose() * lambda;
    }
  };
  pull(kN, &p, nullptr);
  for (int t = kN - 1; t >= 0; --t) {
    const LqKnot& knot = drawn.lq.knots[static_cast<std::size_t>(t)];
    VectorXd u = knot.lu + (knot.luu + kMu * MatrixXd::Identity(kNu, kNu)) * solved.U.col(t) + knot.B.transpose() * p;
    VectorXd x = knot.lx + knot.lxx * solved.X.col(t) + knot.A.transpose() * p;
    pull(t, &x, &u);
    slopes.col(t) = u;
    p = x;
  }
  return slopes;
}

// visit(drawn, solved, augmented) of random problems that are solved, with their numbers told where an expectation fails
template <typename Visit>
void ForSolved(unsigned count, double tightness, Visit visit) {
  for (unsigned seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(seed);
    const Drawn drawn = Draw(seed, tightness);
    Solver solver(drawn);
    const Solved solved = solver.Solve();
    ASSERT_TRUE(solver.riccati.ok);
    ASSERT_TRUE(solved.exact);
    visit(drawn, solved, solver.constrained.augmented);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

// rows that other rows and the bounds of controls allow to be kept are kept, with multipliers of the right sign that are
// zero elsewhere, and no control can go downhill
TEST_F(ConstrainedLqTest, FindsWhatKarushKuhnAndTuckerAskFor) {
  int at_bounds = 0, active = 0;
  ForSolved(200, 0.02, [&](const Drawn& drawn, const Solved& solved, const AugmentedCost& augmented) {
    const MatrixXd slopes = Slopes(drawn, solved, augmented);
    for (int t = 0; t < kN; ++t) {
      const LqKnot& knot = drawn.lq.knots[static_cast<std::size_t>(t)];
      for (int j = 0; j < kNu; ++j) {
        const double u = solved.U(j, t), slope = slopes(j, t);
        ASSERT_GE(u, knot.du_lower[j] - 1e-6) << t;
        ASSERT_LE(u, knot.du_upper[j] + 1e-6) << t;
        ASSERT_LE(slope > 0 ? slope * (u - knot.du_lower[j]) : -slope * (knot.du_upper[j] - u), kGap) << t;
        at_bounds += std::abs(slope) > 1e-3;
      }
    }
    ForRows(drawn, solved, [&](std::size_t i, int t, Eigen::Index k, double c) {
      const ConstraintInfo& info = drawn.rows[i]->info();
      const double lambda = augmented.lambda[i](k, t);
      ASSERT_GE(c, info.lower[k] - 1e-6) << info.name << " " << t;
      ASSERT_LE(c, info.upper[k] + 1e-6) << info.name << " " << t;
      const double room = lambda > 0 ? info.upper[k] - c : lambda < 0 ? c - info.lower[k] : 0;
      ASSERT_LE(std::abs(lambda) * room, kGap) << info.name << " " << t;
      active += std::abs(lambda) > 1e-3;
    });
  });
  EXPECT_GT(at_bounds, 100);
  EXPECT_GT(active, 100);
}

// bounds that no controls keep: all that are missed are as dear as their constraint can be, and no other is dearer
TEST_F(ConstrainedLqTest, PaysAsMuchForEachBoundThatCannotBeKept) {
  int missed = 0, kept = 0;
  ForSolved(50, 0.8, [&](const Drawn& drawn, const Solved& solved, const AugmentedCost& augmented) {
    ForRows(drawn, solved, [&](std::size_t i, int t, Eigen::Index k, double c) {
      const ConstraintInfo& info = drawn.rows[i]->info();
      const MatrixXd& lambda = augmented.lambda[i];
      const double most = lambda.cwiseAbs().maxCoeff();
      const bool is_missed = std::max(c - info.upper[k], info.lower[k] - c) > 1e-3;
      if (is_missed) {
        ASSERT_NEAR(c > info.upper[k] ? lambda(k, t) : -lambda(k, t), most, 1e-3 * most) << info.name << " " << t;
      }
      (is_missed ? missed : kept) += 1;
    });
  });
  EXPECT_GT(missed, 100);
  EXPECT_GT(kept, 1000);
}

}  // namespace
}  // namespace costate
