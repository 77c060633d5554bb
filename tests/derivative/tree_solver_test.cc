#include "derivative/tree_solver.h"

#include <costate/model.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "derivative/integrator.h"

namespace costate {
namespace {

using Eigen::MatrixXd;

// a random positive definite matrix with entries on ancestor pairs and on the coupled sets only
MatrixXd RandomMatrix(const std::vector<int>& parent, const std::vector<std::vector<int>>& sets, std::mt19937* rng) {
  const int nv = static_cast<int>(parent.size());
  std::normal_distribution<double> normal;
  MatrixXd H = MatrixXd::Zero(nv, nv);
  auto couple = [&](const std::vector<int>& dofs) {
    Eigen::VectorXd row = Eigen::VectorXd::Zero(nv);
    for (int i : dofs) row(i) = normal(*rng);
    H += row * row.transpose();
  };
  for (int i = 0; i < nv; i++) {
    std::vector<int> chain = {i};
    for (int k = parent[i]; k >= 0; k = parent[k]) chain.push_back(k);
    couple(chain);
  }
  for (const auto& set : sets) couple(set);
  H.diagonal().array() += 0.1;
  return H;
}

void Fill(const MatrixXd& H, TreeSolver* solver) {
  solver->SetZero();
  for (int i = 0; i < H.rows(); i++) {
    for (int j = 0; j <= i; j++) {
      if (H(i, j) != 0) {
        ASSERT_TRUE(solver->Add(i, j, H(i, j))) << i << " " << j;
      }
    }
  }
}

void ExpectSolution(const MatrixXd& H, const TreeSolver* solver, const MatrixXd& B, bool sparse) {
  const int nv = static_cast<int>(H.rows()), cols = static_cast<int>(B.cols());
  const MatrixXd expected = H.llt().solve(B);
  BlockedMatrix X;
  X.Resize(nv, cols);
  X.SetZero();
  for (int i = 0; i < nv; i++) {
    for (int j = 0; j < cols; j++) X(i, j) = B(i, j);
  }
  solver->Solve(&X, sparse);
  Eigen::VectorXd x = B.col(0);
  solver->Solve(x.data());
  const double scale = expected.cwiseAbs().maxCoeff();
  for (int i = 0; i < nv; i++) {
    for (int j = 0; j < cols; j++) EXPECT_NEAR(X(i, j), expected(i, j), 1e-11 * scale) << i << " " << j;
    EXPECT_NEAR(x(i), expected(i, 0), 1e-11 * scale) << i;
  }
}

// all rows, then a single one: the solver skips what stays zero
void ExpectSolves(const MatrixXd& H, TreeSolver* solver, int cols, std::mt19937* rng) {
  Fill(H, solver);
  ASSERT_TRUE(solver->Factor());
  std::normal_distribution<double> normal;
  const MatrixXd B = MatrixXd::NullaryExpr(H.rows(), cols, [&] { return normal(*rng); });
  for (const bool sparse : {false, true}) {
    ExpectSolution(H, solver, B, sparse);
    for (Eigen::Index i = 0; i < H.rows(); i++) {
      MatrixXd one = MatrixXd::Zero(H.rows(), cols);
      one.row(i) = B.row(i);
      ExpectSolution(H, solver, one, sparse);
    }
  }
}

// two trees: a trunk 0-1 with branches 2-3 and 4-5-6, and a chain 7-8
const std::vector<int> kParent = {-1, 0, 1, 2, 1, 4, 5, -1, 7};

TEST(TreeSolver, HasNoFillOnATree) {
  TreeSolver solver(kParent.data(), 9);
  EXPECT_EQ(solver.nnz(), 0 + 1 + 2 + 3 + 2 + 3 + 4 + 0 + 1);
}

TEST(TreeSolver, SolvesLikeDenseCholesky) {
  std::mt19937 rng(1);
  TreeSolver solver(kParent.data(), 9);
  for (int cols : {1, 15, 16, 17, 40}) ExpectSolves(RandomMatrix(kParent, {}, &rng), &solver, cols, &rng);
}

// a body contact couples two whole chains, across branches and across trees; fill-in must be found
TEST(TreeSolver, SolvesWithCouplingsAcrossBranchesAndTrees) {
  std::mt19937 rng(2);
  TreeSolver solver(kParent.data(), 9);
  const std::vector<std::vector<std::vector<int>>> cases = {
      {{3, 2, 1, 0, 6, 5, 4}}, {{3, 2, 1, 0, 8, 7}}, {{3, 6}, {6, 8}, {2, 7}}, {}};
  for (const auto& sets : cases) {
    solver.BeginCouplings();
    for (const auto& set : sets) solver.Couple(set.data(), static_cast<int>(set.size()));
    solver.EndCouplings();
    ExpectSolves(RandomMatrix(kParent, sets, &rng), &solver, 20, &rng);
  }
}

TEST(TreeSolver, RefusesAnIndefiniteMatrix) {
  TreeSolver solver(kParent.data(), 9);
  solver.SetZero();
  for (int i = 0; i < 9; i++) solver.diagonal(i) = 1;
  solver.Add(1, 0, 2.0);
  EXPECT_FALSE(solver.Factor());
}

TEST(TreeSolver, RefusesAnEntryOutsideItsPattern) {
  TreeSolver solver(kParent.data(), 9);
  EXPECT_FALSE(solver.Add(3, 6, 1.0));
  EXPECT_TRUE(solver.Add(3, 0, 1.0));
}

// a root's row has no entry of L: a block that has that row alone is not zero all the same
TEST(TreeSolver, TellsABlockOfZeros) {
  std::mt19937 rng(4);
  TreeSolver solver(kParent.data(), 9);
  Fill(RandomMatrix(kParent, {}, &rng), &solver);
  ASSERT_TRUE(solver.Factor());
  BlockedMatrix B;
  B.Resize(9, 16);
  for (int i = 0; i < 9; i++) {
    B.SetZero();
    EXPECT_FALSE(solver.SolveBlock(B.block(0)));
    for (int k = 0; k < 9; k++) EXPECT_EQ(B(k, 3), 0);
    B(i, 3) = 1;
    EXPECT_TRUE(solver.SolveBlock(B.block(0))) << i;
    EXPECT_NE(B(i, 3), 1) << i;
  }
}

// wherever the number is: in a square of four rows and columns, beside or below it
TEST(StepAssembly, FindsANumberThatIsNotFinite) {
  for (const int slides : {1, 4, 6}) {
    std::string xml = "<mujoco><worldbody>";
    for (int i = 0; i < slides; i++)
      xml += "<body pos='" + std::to_string(i) + " 0 0'><joint type='slide'/><geom size='0.1'/></body>";
    const ModelPtr model = LoadModelFromString(xml + "</worldbody></mujoco>");
    const VectorXd v = VectorXd::Zero(slides);
    const int columns = 2 * slides;
    StepDerivative step;
    BlockedMatrix da;
    da.Resize(slides, columns);
    da.SetZero();
    EXPECT_TRUE(AssembleStep(model.get(), v.data(), da, &step));
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      for (int i = 0; i < slides; i++) {
        for (int j = 0; j < columns; j++) {
          da(i, j) = bad;
          EXPECT_FALSE(AssembleStep(model.get(), v.data(), da, &step)) << i << " " << j;
          da(i, j) = 1e300;
          EXPECT_TRUE(AssembleStep(model.get(), v.data(), da, &step)) << i << " " << j;
          EXPECT_EQ(step.A(slides + i, j), model->opt.timestep * 1e300) << i << " " << j;
          da(i, j) = 0;
        }
      }
    }
  }
}

TEST(TreeSolver, AcceptsNoDofsAtAll) {
  TreeSolver solver(nullptr, 0);
  EXPECT_TRUE(solver.Factor());
  BlockedMatrix B;
  B.Resize(0, 3);
  solver.Solve(&B);
  EXPECT_EQ(solver.PivotRatio(), 1);
}

}  // namespace
}  // namespace costate
