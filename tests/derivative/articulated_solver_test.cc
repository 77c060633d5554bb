#include "derivative/articulated_solver.h"

#include <Eigen/Cholesky>

#include "derivative/equilibrium.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using ArticulatedSolverTest = support::EngineTest;

constexpr double kRounding = 1e-11;  // times the condition of these small matrices

// every joint type, several on a body, rotor inertia of joints and actuators, several trees, bodies without joints
const char* kModel = R"(
  <mujoco>
    <worldbody>
      <body><freejoint/><geom type="box" size="0.1 0.2 0.1" pos="0.05 0 0"/>
        <body pos="0.2 0 0"><joint name="a" axis="0 1 0" armature="0.3"/><geom size="0.1" pos="0.1 0 0"/>
          <body pos="0 0.3 0"><geom size="0.1"/><body pos="0 0.3 0"><joint name="e" axis="1 1 0"/><geom size="0.1"/></body></body>
        </body>
        <body pos="-0.2 0 0"><joint type="ball"/><geom size="0.1" pos="0.1 0 0"/>
          <body pos="0 0 0.2"><joint name="c" axis="1 0 0"/><joint type="slide"/><geom size="0.1" pos="0 0.1 0"/></body>
        </body>
      </body>
      <body pos="3 0 0"><joint type="slide"/><joint type="ball" pos="0 0 0.1"/><geom type="box" size="0.1 0.2 0.3"/></body>
      <body pos="6 0 0"><joint type="slide"/><joint type="slide" axis="1 0 0"/><joint type="ball"/><geom type="box" size="0.3 0.2 0.1" pos="0.1 0 0"/></body>
      <body><geom size="0.1"/><body pos="5 0 0"><joint axis="0 1 0"/><geom size="0.1" pos="0.1 0 0"/></body></body>
    </worldbody>
    <actuator>
      <motor joint="a" gear="3" armature="0.05"/><motor joint="c" gear="2" armature="0.1"/><motor joint="c" gear="5" armature="0.02"/>
    </actuator>
  </mujoco>)";

TEST_F(ArticulatedSolverTest, SolvesWithTheMassMatrixAndWhatIsAddedToIt) {
  const ModelPtr model = LoadModelFromString(kModel);
  const mjModel* m = model.get();
  const int nv = static_cast<int>(m->nv), nbody = static_cast<int>(m->nbody);
  ASSERT_TRUE(ArticulatedSolver::Covers(m));
  const DataPtr data = MakeData(m);
  SetState(m, data.get(), support::RandomState(m, 3));
  mj_forward(m, data.get());

  // diagonal, and stiffness of bodies about their tree's subtree_com
  const VectorXd diagonal = support::Random(1).Vector(nv).cwiseAbs();
  std::vector<BodyConstraint> first(nbody), second(nbody);
  MatrixXd H;
  FullMassMatrix(m, data.get(), &H);
  const MatrixXd M = H;
  H.diagonal() += diagonal;
  for (int b = 1; b < nbody; b += 2) {
    const MatrixXd W = Eigen::Map<MatrixXd>(support::Random(b).Vector(18).data(), 3, 6);
    BodyConstraint& body = b % 4 == 1 ? first[b] : second[b];
    body.HH = W.transpose() * W;
    body.active = true;
    MatrixXd S = MatrixXd::Zero(6, nv);
    for (int p = b; p > 0; p = m->body_parentid[p]) {
      for (int j = m->body_dofadr[p]; j >= 0 && j < m->body_dofadr[p] + m->body_dofnum[p]; j++)
        S.col(j) = Vec6Map(data->cdof + 6 * j);
    }
    H += S.transpose() * body.HH * S;
  }

  ArticulatedSolver solver(m);
  VectorXd x = support::Random(2).Vector(nv), product(nv);
  solver.Multiply(m, data.get(), x.data(), product.data());
  EXPECT_TRUE(support::MatricesNearRelative(product, M * x, kRounding));
  ASSERT_TRUE(solver.Factor(m, data.get(), diagonal.data(), first.data(), second.data()));
  const VectorXd expected = H.llt().solve(x);
  solver.Solve(x.data());
  EXPECT_TRUE(support::MatricesNearRelative(x, expected, kRounding));

  // not positive definite
  const VectorXd negative = VectorXd::Constant(nv, -1e6);
  EXPECT_FALSE(solver.Factor(m, data.get(), negative.data()));
}

TEST_F(ArticulatedSolverTest, IsNotForTendonArmatureAndPaysForLongChains) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco>
      <worldbody><body><joint name="a"/><geom size="0.1"/></body></worldbody>
      <tendon><fixed armature="0.1"><joint joint="a" coef="1"/></fixed></tendon>
    </mujoco>)");
  EXPECT_FALSE(ArticulatedSolver::Covers(model.get()));
  for (int n : {10, 40}) {
    std::string xml = "<mujoco><worldbody>";
    for (int i = 0; i < n; i++) xml += "<body pos='0.1 0 0'><joint/><geom size='0.05'/>";
    for (int i = 0; i < n; i++) xml += "</body>";
    EXPECT_EQ(ArticulatedSolver::Pays(LoadModelFromString(xml + "</worldbody></mujoco>").get()), n == 40);
  }
}

}  // namespace
}  // namespace costate
