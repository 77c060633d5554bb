#include "derivative/tree_solver.h"

#include <costate/derivative.h>
#include <costate/model.h>
#include <costate/state.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "derivative/integrator.h"
#include "support/random_state.h"
#include "support/step_reference.h"

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
void ExpectSolves(const MatrixXd& H, TreeSolver* solver, int cols, std::mt19937* rng, const double* cdof = nullptr) {
  Fill(H, solver);
  ASSERT_TRUE(solver->Factor(cdof));
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

// a box, then a floating robot: two legs, a trunk of seven hinges in three bodies and two long arms at its end
std::string Torso() {
  const auto hinge = [](int n) {
    const char* axes[] = {"1 0 0", "0 1 0", "0.6 0 0.8"};
    return std::string("<joint axis='") + axes[n % 3] + "' pos='0.02 0 0.01' damping='1'/>";
  };
  const auto limb = [&](const char* pos, int links, bool ball) {
    std::string open, close;
    for (int n = 0; n < links; n++) {
      open += std::string("<body pos='") + (n ? "0 0.03 -0.2" : pos) + "'>" + hinge(n) + (n == 1 ? hinge(n + 1) : "") +
              "<geom type='capsule' fromto='0 0 0 0 0.03 -0.2' size='0.04'/>";
      close += "</body>";
    }
    if (ball) open += "<body pos='0 0 -0.2'><joint type='ball' damping='1'/><geom size='0.06'/></body>";
    return open + close;
  };
  const std::string chest = "<body pos='0 0 0.2'>" + hinge(2) + "<geom size='0.1'/>" + limb("0 0.2 0.1", 6, true) +
                            limb("0 -0.2 0.1", 5, true) + "</body>";
  const std::string trunk = "<body pos='0.03 0 0.2'>" + hinge(0) + hinge(1) + hinge(2) +
                            "<geom size='0.1'/><body pos='0 0 0.2'>" + hinge(0) + hinge(1) + hinge(2) +
                            "<geom size='0.1'/>" + chest + "</body></body>";
  return "<mujoco><default><geom conaffinity='0'/></default><worldbody><geom type='plane' size='5 5 .1' "
         "conaffinity='1'/><body pos='2 0 0.09'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"
         "<body pos='0.3 0.1 0.9'><freejoint/><geom size='0.15'/>" +
         limb("0 0.1 -0.1", 3, false) + limb("0 -0.1 -0.1", 3, false) + trunk + limb("-0.1 0 0", 2, false) +
         "</body></worldbody></mujoco>";
}

// H = M + Σ JᵀKJ of all bodies of the robot
MatrixXd InertiaOnSprings(const mjModel* m, const mjData* d, std::mt19937* rng) {
  const int nv = static_cast<int>(m->nv);
  std::normal_distribution<double> normal;
  MatrixXd H = MatrixXd::Zero(nv, nv);
  for (int i = 0; i < nv; i++) {
    for (int k = m->M_rowadr[i]; k < m->M_rowadr[i] + m->M_rownnz[i]; k++)
      H(i, m->M_colind[k]) = H(m->M_colind[k], i) = d->M[k];
  }
  for (int b = 1; b < m->nbody; b++) {
    MatrixXd J = MatrixXd::Zero(6, nv);
    for (int i = m->body_dofadr[b] + m->body_dofnum[b] - 1; i >= 0; i = m->dof_parentid[i])
      J.col(i) = Eigen::Map<const Eigen::Matrix<double, 6, 1>>(d->cdof + 6 * i);
    const Eigen::Matrix<double, 6, 3> force = Eigen::Matrix<double, 6, 3>::NullaryExpr([&] { return normal(*rng); });
    H += J.transpose() * force * force.transpose() * J;
  }
  return H;
}

// (S5) on the robot in random poses: what is behind the chest reads six numbers, everywhere else nothing changes
TEST(TreeSolver, NarrowsADeepTreeAtItsWaist) {
  const ModelPtr model = LoadModelFromString(Torso());
  const mjModel* m = model.get();
  const int nv = static_cast<int>(m->nv);
  const TreeWaist waist = FindWaist(m);
  ASSERT_EQ(waist.root, 6);
  ASSERT_EQ(waist.trunk.size(), 7u);
  EXPECT_EQ(waist.begin, waist.trunk.back() + 1);
  EXPECT_EQ(waist.end, waist.begin + 7 + 3 + 6 + 3);
  EXPECT_LT(waist.end, nv);
  TreeSolver solver(m->dof_parentid, nv, waist);
  const DataPtr data = MakeData(m);
  std::mt19937 rng(5);
  for (unsigned seed = 1; seed < 3; seed++) {
    SetState(m, data.get(), support::RandomState(m, seed));
    mj_forward(m, data.get());
    const MatrixXd H = InertiaOnSprings(m, data.get(), &rng);
    ExpectSolves(H, &solver, seed == 1 ? 17 : 5, &rng, data->cdof);
    EXPECT_TRUE(solver.narrowed());
  }

  // couplings of the legs leave it, those that reach behind the chest do not
  const std::vector<std::pair<std::vector<int>, bool>> sets = {
      {{12, 16}, true}, {{0, waist.trunk[2]}, true}, {{waist.begin + 2, nv - 1}, false}, {{waist.begin, 8}, false}};
  for (const auto& [set, narrows] : sets) {
    solver.BeginCouplings();
    solver.Couple(set.data(), static_cast<int>(set.size()));
    solver.EndCouplings();
    MatrixXd H = InertiaOnSprings(m, data.get(), &rng);
    for (int i : set) {
      for (int j : set) H(i, j) += i == j ? 3 : 1;
    }
    ExpectSolves(H, &solver, 5, &rng, data->cdof);
    EXPECT_EQ(solver.narrowed(), narrows);
  }
}

// Euler with damping solves with two such matrices
TEST(DeepTree, StepsAgreeWithTheReference) {
  const ModelPtr model = LoadModelFromString(Torso());
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  for (int k = 0; k < 200; k++) mj_step(m, data.get());
  ASSERT_GE(data->ncon, 4);
  const StepDerivative step = Linearize(m, data.get());
  const support::StepReference reference = support::MakeStepReference(m, data.get());
  EXPECT_TRUE(support::AgreesWithReference(support::Both(step.A, step.B), reference.step, reference.step_error,
                                           support::kReference));
}

TEST(TreeSolver, AcceptsNoDofsAtAll) {
  TreeSolver solver(nullptr, 0);
  EXPECT_TRUE(solver.Factor());
  BlockedMatrix B;
  B.Resize(0, 3);
  solver.Solve(&B);
}

}  // namespace
}  // namespace costate
