// (C22), (C25) What is done to rows that are too hard for H, row by row. That derivatives keep their digits by it is tested in
// level_agreement_test.cc.
#include "derivative/hardest_rows.h"

#include <costate/derivative.h>
#include <costate/model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/engine_test.h"
#include "support/expect_reference.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

constexpr double kSharedHardness = 1e9;  // of D J M⁻¹ Jᵀ, M's diagonal for M

// Bodies that turn about their centres of mass, which have no inverse weight against a force there. Two are held by
// connects, one by the lever that is twice as long; one lies on the floor and may turn on it. Links leave all of them
// something free.
class HardestRows : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model_ = LoadModelFromString(
        R"(<mujoco><option cone="elliptic"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
      <geom type="plane" size="1 1 1" contype="1"/>
      <body name="held" pos="0 0 1"><joint type="ball"/><geom size=".1"/>
        <body pos="0 0 .2"><joint axis="1 2 0"/><geom type="capsule" size=".02 .1" mass=".1"/></body></body>
      <body name="farther" pos="0 1 1"><joint type="ball"/><geom size=".1"/>
        <body pos="0 0 .2"><joint axis="1 2 0"/><geom type="capsule" size=".02 .1" mass=".1"/></body></body>
      <body pos="1 0 .09999999999999"><joint type="ball"/><geom size=".1" friction=".0005" priority="1" conaffinity="1"/>
        <body pos="0 0 .2"><joint axis="1 2 0"/><geom type="capsule" size=".02 .1" mass=".1"/></body></body>
      </worldbody><equality><connect body1="held" anchor="0 .03 .04"/><connect body1="farther" anchor="0 .06 .08"/></equality></mujoco>)");
    data_ = MakeData(model_.get());
  }

  // forces, states and blocks of cones at the engine's acceleration, with the ball on the floor spinning or at rest
  void Forward(double spin) {
    mju_zero(data_->qvel, static_cast<int>(model_->nv));
    data_->qvel[8] = spin;
    mj_forward(model_.get(), data_.get());
    ASSERT_EQ(data_->nefc, 9);
    VectorXd y(data_->nefc);
    mj_mulJacVec(model_.get(), data_.get(), y.data(), data_->qacc);
    y -= Rows(data_->efc_aref);
    mj_constraintUpdate(model_.get(), data_.get(), y.data(), nullptr, 1);
    left_.assign(9, 0);
  }
  VectorXd Rows(const mjtNum* values) const { return Eigen::Map<const VectorXd>(values, data_->nefc); }
  VectorXd Cone() const { return Eigen::Map<const VectorXd>(data_->contact[0].H, 9); }
  double Hardness(int row) const {
    VectorXd J = VectorXd::Zero(model_->nv), unit = VectorXd::Unit(data_->nefc, row), M(model_->nv);
    mj_mulJacTVec(model_.get(), data_.get(), J.data(), unit.data());
    for (int i = 0; i < model_->nv; i++) M[i] = data_->M[model_->M_rowadr[i] + model_->M_rownnz[i] - 1];
    return data_->efc_D[row] * (J.array().square() / M.array()).sum();
  }
  double Hardest(int first) const { return std::max({Hardness(first), Hardness(first + 1), Hardness(first + 2)}); }

  ModelPtr model_;
  DataPtr data_;
  std::vector<char> left_;
  std::vector<double> work_;
  bool met_ = false;
};

TEST_F(HardestRows, ThatKeepWhatTheyAskForAreSoftenedEachToTheSameHardness) {
  // those that are left, here the contact's, keep theirs
  Forward(0);
  for (int i = 6; i < 9; i++) left_[static_cast<std::size_t>(i)] = 1;
  const VectorXd D = Rows(data_->efc_D);
  EXPECT_NEAR(Hardest(3), 4 * Hardest(0), 1e-6 * Hardest(3));
  EXPECT_FALSE(HasSoftened(data_.get()));
  ASSERT_TRUE(SoftenHardest(model_.get(), data_.get(), left_, true, &work_, &met_));
  EXPECT_TRUE(met_);
  EXPECT_TRUE(HasSoftened(data_.get()));
  for (const int first : {0, 3}) EXPECT_NEAR(Hardest(first), kSharedHardness, 1e-6 * kSharedHardness);
  EXPECT_EQ(Rows(data_->efc_D).tail(3), D.tail(3));
}

TEST_F(HardestRows, OneOfWhichCannotKeepItAreSoftenedByOneShare) {
  // the ball cannot leave the floor, which holds it so lightly that it slips
  Forward(2);
  ASSERT_EQ(data_->efc_state[6], mjCNSTRSTATE_CONE);
  const VectorXd D = Rows(data_->efc_D), force = Rows(data_->efc_force), H = Cone();
  ASSERT_GT(force.tail(3).norm(), 1);
  ASSERT_TRUE(SoftenHardest(model_.get(), data_.get(), left_, true, &work_, &met_));
  EXPECT_FALSE(met_);
  const double share = data_->efc_D[0] / D[0];
  EXPECT_LT(share, 1e-3);
  EXPECT_TRUE(support::MatricesNearRelative(Rows(data_->efc_D), share * D, 1e-12));
  EXPECT_TRUE(support::MatricesNearRelative(Rows(data_->efc_force), share * force, 1e-12));
  EXPECT_TRUE(support::MatricesNearRelative(Cone(), share * H, 1e-12));
  VectorXd pull(model_->nv);
  mj_mulJacTVec(model_.get(), data_.get(), pull.data(), data_->efc_force);
  EXPECT_TRUE(
      support::MatricesNearRelative(Eigen::Map<const VectorXd>(data_->qfrc_constraint, model_->nv), pull, 1e-12));
}

TEST_F(HardestRows, GetTheForcesThatBalanceBack) {
  Forward(2);
  ASSERT_TRUE(SoftenHardest(model_.get(), data_.get(), left_, true, &work_, &met_));
  const VectorXd force = Rows(data_->efc_force), step = VectorXd::LinSpaced(model_->nv, -1, 2);
  VectorXd y(data_->nefc);
  mj_mulJacVec(model_.get(), data_.get(), y.data(), step.data());
  VectorXd expected = Rows(data_->efc_D).cwiseProduct(y);
  expected.tail(3) = Eigen::Map<const Eigen::Matrix3d>(data_->contact[0].H) * y.tail(3);
  BalanceHardest(model_.get(), data_.get(), left_, step.data());
  EXPECT_TRUE(support::MatricesNearRelative(Rows(data_->efc_force) - force, expected, 1e-6));
}

// (C25) A hopper whose foot slides without friction, and a ball that hits the floor
TEST(SlipperyEdges, LeaveAllOtherDigits) {
  const char* kRobots[] = {
      "<body pos='0 0 .789'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><joint axis='0 1 0'/>"
      "<geom type='capsule' size='.05' fromto='0 0 0 0 0 .3'/><body><joint axis='0 1 0' ref='-20'/>"
      "<geom type='capsule' size='.04' fromto='0 0 0 .2 0 -.35'/><body pos='.2 0 -.35'><joint axis='0 1 0'/>"
      "<geom type='capsule' size='.03' fromto='0 0 0 -.2 0 -.41'/></body></body></body>",
      "<body pos='0 0 .0995'><freejoint/><geom size='.1' pos='.02 -.03 0'/></body>"};
  for (const char* robot : kRobots) {
    for (const char* integrator : {"Euler", "implicitfast", "discrete"}) {
      SCOPED_TRACE(std::string(robot) + integrator);
      const ModelPtr m = LoadModelFromString(std::string("<mujoco><option timestep='.002' integrator='") + integrator +
                                             "'/><default><geom friction='0'/></default><worldbody>"
                                             "<geom type='plane' size='1 1 1'/>" +
                                             robot + "</worldbody></mujoco>");
      const DataPtr d = MakeData(m.get());
      for (int i = 0; i < m->nv; i++) d->qvel[i] = -0.3 * std::cos(1.0 + i);
      mj_forward(m.get(), d.get());
      ASSERT_EQ(d->ncon, 1);
      const StepDerivative derivative = Linearize(m.get(), d.get(), {.level = Level::kAnalytic});
      support::ExpectReference(m.get(), d.get(), derivative);
    }
  }
}

// (C25) Walls without friction that push at each other through a ball, equal ones, unequal ones and one with friction,
// some grams beside a heavy one, and such a ball on the floor: how far each gives way is a question of their D
TEST(SlipperyEdges, ThatPushAgainstEachOtherAgreeWithTheStep) {
  const char* kWalls[] = {
      "<geom type='box' size='.1 1 1' pos='-.1999 0 1'/><geom type='box' size='.1 1 1' pos='.1999 0 1'/>",
      "<geom type='box' size='.1 1 1' pos='-.1999 0 1'/><geom type='box' size='.1 1 1' pos='.1997 0 1'/>",
      "<geom type='box' size='.1 1 1' pos='-.1999 0 1'/><geom type='box' size='.1 1 1' pos='.1998 0 1' "
      "friction='.01'/>",
      "<geom type='plane' size='1 1 1' pos='0 0 .9001'/>"};
  for (const char* walls : kWalls) {
    for (const char* mass : {"4", ".001"}) {
      SCOPED_TRACE(std::string(walls) + mass);
      const ModelPtr m = LoadModelFromString(
          std::string("<mujoco><option timestep='.002'/><default><geom friction='0'/></default><worldbody>") + walls +
          "<body pos='0 0 1'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><geom size='.1' "
          "mass='" +
          mass + "'/></body><body pos='0 1 3'><joint type='slide' axis='0 0 1'/><geom size='.1' mass='100'/></body>" +
          "</worldbody></mujoco>");
      const DataPtr d = MakeData(m.get());
      d->qvel[0] = .01;
      mj_forward(m.get(), d.get());
      ASSERT_GE(d->ncon, 1);
      const StepDerivative derivative = Linearize(m.get(), d.get(), {.level = Level::kAnalytic});
      const StepDerivative step = Linearize(m.get(), d.get(), {.level = Level::kStep});
      EXPECT_TRUE(support::MatricesNearRelative(derivative.A, step.A, 2e-6));
    }
  }
}

// (C25) Two feet that hold the same motion, exactly, one 25 times as hard as the other: what each carries goes as their D
TEST(SlipperyEdges, ThatShareALoadKeepTheirParts) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><option timestep='.002'/><worldbody><geom type='plane' size='1 1 1' friction='0'/>"
      "<body pos='0 0 3'><joint/><geom size='.1' pos='1 0 0'/></body><body pos='0 0 .0999'><joint type='slide' axis='0 "
      "0 1'/><geom size='.1' pos='-.2 0 0' friction='0'/>"
      "<geom name='other' size='.1' pos='.2 0 0' friction='5e-5'/><site name='one' pos='-.2 0 0' size='.11'/>"
      "<site name='two' pos='.2 0 0' size='.11'/></body></worldbody>"
      "<sensor><touch site='one'/><touch site='two'/></sensor></mujoco>");
  const DataPtr d = MakeData(m.get());
  d->qvel[1] = -.01;
  mj_forward(m.get(), d.get());
  ASSERT_EQ(d->ncon, 2);
  const StepDerivative derivative = Linearize(m.get(), d.get(), {});
  ASSERT_GT(derivative.C.row(0).norm(), 20 * derivative.C.row(1).norm());
  support::ExpectReference(m.get(), d.get(), derivative);
}

}  // namespace
}  // namespace costate
