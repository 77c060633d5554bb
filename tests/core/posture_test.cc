// Postures: places, how they move, how far they are apart.
#include "core/posture.h"

#include <costate/state.h>
#include <gtest/gtest.h>

#include "core/mass.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"

namespace costate {
namespace {

using support::MatricesNear;

// a free body with an arm, and a ball that nothing touches
constexpr char kFreeArm[] = R"(<mujoco><worldbody>
    <geom name="ball" size=".1" pos="5 0 0"/>
    <body pos="0 0 2"><freejoint/><geom size=".1"/>
      <body pos=".3 0 0"><joint type="ball"/><geom type="box" size=".1 .2 .1" pos=".1 .1 0"/>
        <body name="hand" pos=".3 0 0"><joint axis="0 1 0"/><geom name="tip" size=".1" pos=".2 0 .1"/></body>
      </body></body></worldbody></mujoco>)";

class PostureTest : public support::EngineTest {
 protected:
  Eigen::Vector3d Tip(ConstVectorRef q) {
    SetPosture(m, data.get(), q);
    return Eigen::Vector3d(data->geom_xpos + 3 * tip);
  }

  const ModelPtr model = LoadModelFromString(kFreeArm);
  const mjModel* m = model.get();
  const DataPtr data = MakeData(m);
  const int tip = mj_name2id(m, mjOBJ_GEOM, "tip"), hand = mj_name2id(m, mjOBJ_BODY, "hand");
  const VectorXd x = support::RandomState(m, 1);
};

TEST_F(PostureTest, JacobiansAreDifferencesOfPlaces) {
  constexpr double kEps = 1e-6;
  const Eigen::Vector3d there = Tip(x);
  JacobianRows of_geom, of_point, turn;
  GeomJacobian(m, data.get(), tip, &of_geom);
  PointJacobian(m, data.get(), there.data(), hand, &of_point, &turn);
  EXPECT_EQ(of_geom, of_point);
  EXPECT_TRUE(MatricesNear(turn.leftCols<3>(), Eigen::Matrix3d::Zero(), 0)) << "a way turns nothing";
  for (int i = 0; i < m->nv; ++i) {
    const VectorXd dx = kEps * VectorXd::Unit(Dims(m).ndx, i);
    EXPECT_TRUE(MatricesNear((Tip(Retract(m, x, dx)) - Tip(Retract(m, x, -dx))) / (2 * kEps), of_geom.col(i), 1e-9));
  }
}

// spheres, whose distance is that of their centres but for two radii
TEST_F(PostureTest, DistancesEndAtTheNearestPoints) {
  const Eigen::Vector3d there = Tip(x), ball(5, 0, 0);
  double from_to[6];
  const double distance = GeomDistance(m, data.get(), tip, 0, 100, from_to);
  EXPECT_NEAR(distance, (there - ball).norm() - 0.2, 1e-12);
  EXPECT_NEAR((Eigen::Vector3d(from_to) - Eigen::Vector3d(from_to + 3)).norm(), distance, 1e-12);
  EXPECT_EQ(GeomDistance(m, data.get(), tip, 0, 1), 1) << "beyond what is told apart";
}

TEST_F(PostureTest, DifferenceOfPosturesIsThatOfStates) {
  const VectorXd other = support::RandomState(m, 2);
  EXPECT_EQ(PostureDifference(m, x.head(m->nq), other.head(m->nq)), Difference(m, x, other).head(m->nv));
}

TEST_F(PostureTest, QuaternionsBecomeUnitLengthAndNothingElseChanges) {
  VectorXd longer = x;
  longer.segment<4>(3) *= 3;
  longer.segment<4>(7) *= 0.5;
  NormalizeQuaternions(m, longer);
  EXPECT_TRUE(MatricesNear(longer, x, 1e-15));
}

TEST_F(PostureTest, MassMakesTheProductsOfItsMatrix) {
  SetPosture(m, data.get(), x, PostureStage::kWhole);
  const VectorXd v = x.segment(m->nq, m->nv);
  EXPECT_TRUE(MatricesNear(MassProduct(m, data.get(), v), MassMatrix(m, data.get()) * v, 1e-12));
}

}  // namespace
}  // namespace costate
