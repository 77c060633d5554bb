// Postures of servo-driven arms against their closed forms.
#include "optimizer/task_posture.h"

#include <costate/state.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

using Eigen::Vector2d;

constexpr double kUpper = 0.5, kLower = 0.4;  // [m] lengths of the links

// two links in the plane z = 0; `second` are attributes of their second joint
std::string Arm(const std::string& second = "", const std::string& world = "", const std::string& more = "") {
  return R"(<mujoco><option gravity="0 0 0"/><default><geom type="capsule" size=".01"/></default><worldbody>)" + world +
         R"(<body><joint name="a" axis="0 0 1"/><geom fromto="0 0 0 .5 0 0"/>
           <body name="forearm" pos=".5 0 0"><joint name="b" axis="0 0 1" )" +
         second + R"(/><geom name="lower" fromto=".05 0 0 .4 0 0"/><site name="tip" pos=".4 0 0"/></body></body>
         </worldbody><actuator><position joint="a" kp="9"/><position joint="b" kp="9"/></actuator>)" +
         more + "</mujoco>";
}

PartGoal Goal(const mjModel* model, mjtObj type, const std::string& name, const std::string& quantity,
              std::vector<double> values) {
  PartGoal goal{type, mj_name2id(model, type, name.c_str()), name, quantity, {}, std::move(values), 0};
  for (std::size_t i = 0; i < goal.values.size(); ++i) goal.index.push_back(static_cast<int>(i));
  goal.size = static_cast<int>(goal.values.size());
  return goal;
}

// the two postures that have the tip at p
Vector2d Closed(const Vector2d& p, int elbow) {
  const double c = (p.squaredNorm() - kUpper * kUpper - kLower * kLower) / (2 * kUpper * kLower);
  const double b = elbow * std::acos(c);
  return {std::atan2(p[1], p[0]) - std::atan2(kLower * std::sin(b), kUpper + kLower * std::cos(b)), b};
}

// the first one, empty where there is none
VectorXd ReachPosture(const mjModel* model, const VectorXd& x, const std::vector<PartGoal>& goals,
                      const VectorXd& sizes, double length, PostureJoints joints = PostureJoints::kServos) {
  const std::vector<VectorXd> all = ReachPostures(model, {x, {}, {}}, goals, sizes, length, joints);
  return all.empty() ? VectorXd() : all[0];
}

class TaskPosture : public support::EngineTest {
 protected:
  void Load(const std::string& xml) { model_ = LoadModelFromString(xml); }
  VectorXd From(const VectorXd& q, const std::vector<PartGoal>& goals, const VectorXd& sizes) {
    VectorXd x = VectorXd::Zero(model_->nq + model_->nv);
    x.head(q.size()) = q;
    return ReachPosture(model_.get(), x, goals, sizes, kUpper + kLower);
  }
  VectorXd From(const VectorXd& q, const std::vector<PartGoal>& goals) {
    return From(q, goals, VectorXd::Ones(model_->nv));
  }
  PartGoal Tip(const Vector2d& p) const { return Goal(model_.get(), mjOBJ_SITE, "tip", "pos", {p[0], p[1]}); }
  PartGoal Joint(const std::string& name, double angle) const {
    return Goal(model_.get(), mjOBJ_JOINT, name, "", {angle});
  }
  ModelPtr model_;
};

// no posture that needs a control beyond its range, though the joint goes there
TEST_F(TaskPosture, StaysWithinWhatTheServosControlsReach) {
  const Vector2d p(0.45, 0.35);
  std::string narrow = Arm();
  narrow.replace(narrow.find("joint=\"b\" kp"), 12, "joint=\"b\" ctrlrange=\"-2.5 0.1\" kp");
  Load(narrow);
  const Vector2d start(Closed(p, 1)[0], 0.05);
  EXPECT_TRUE(support::MatricesNear(From(start, {Tip(p)}), Closed(p, -1), 1e-5));

  // beside a motor on the same joint it is not the servo alone that says how far
  narrow.insert(narrow.find("</actuator>"), "<motor joint=\"b\"/>");
  Load(narrow);
  EXPECT_TRUE(support::MatricesNear(From(start, {Tip(p)}), Closed(p, 1), 1e-5));
}

TEST_F(TaskPosture, IsTheNearestOfThoseThatReach) {
  Load(Arm());
  const Vector2d p(0.45, 0.35);
  for (const int elbow : {1, -1}) {
    const VectorXd q = From(Closed(p, elbow) + Vector2d(0.2, -0.3 * elbow), {Tip(p)});
    EXPECT_TRUE(support::MatricesNear(q, Closed(p, elbow), 1e-5));
  }
  EXPECT_EQ(From(Vector2d::Zero(), {Tip({0.7, 0.6})}).size(), 0) << "out of reach";

  // a joint that weighs a hundredth of the other is a hundred times nearer
  const Vector2d start = Closed(p, 1) + Vector2d(0.05, -1.0), light(1, 100), heavy(1, 0.3);
  EXPECT_GT(From(start, {Tip(p)}, light)[1] * Closed(p, 1)[1], 0);
  const Vector2d between(Closed(p, -1)[0], 0.1);  // its first joint is there, its second nearly between both
  EXPECT_TRUE(support::MatricesNear(From(between, {Tip(p)}, heavy), Closed(p, 1), 1e-5));
  EXPECT_TRUE(support::MatricesNear(From(between, {Tip(p)}, Vector2d(0.1, 3)), Closed(p, -1), 1e-5));
}

// an elbow that turns less than once round has two postures, each found from many places
TEST_F(TaskPosture, OthersFollowTheNearest) {
  const std::string range = "range='-170 170'";
  const Vector2d p(0.45, 0.35);
  for (const int elbow : {1, -1}) {
    std::string arm = Arm(range);
    arm.replace(arm.find("\"a\""), 3, "\"a\" " + range);
    Load(arm);
    VectorXd x = VectorXd::Zero(4);
    x.head(2) = Closed(p, elbow) + Vector2d(0.2, -0.3 * elbow);
    const auto all = ReachPostures(model_.get(), {x, {}, {}}, {Tip(p)}, Vector2d(2, 2), kUpper + kLower);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_TRUE(support::MatricesNear(all[0], Closed(p, elbow), 1e-5));
    EXPECT_TRUE(support::MatricesNear(all[1], Closed(p, -elbow), 1e-5));
  }
}

// of all small changes that reach the least in these sizes, dq = W J' (J W J')⁻¹ dp with W = sizes²
TEST_F(TaskPosture, ChangesJointsByTheirSizes) {
  Load(Arm());
  const Vector2d start(0.4, 0.7), sizes(1, 0.2);
  const double y = kUpper * std::sin(0.4) + kLower * std::sin(1.1), dy = 1e-3;
  PartGoal height = Goal(model_.get(), mjOBJ_SITE, "tip", "pos", {y + dy});
  height.index = {1};
  const Vector2d J(kUpper * std::cos(0.4) + kLower * std::cos(1.1), kLower * std::cos(1.1));
  const Vector2d WJ = sizes.array().square() * J.array();
  const VectorXd q = From(start, {height}, sizes);
  EXPECT_TRUE(support::MatricesNear(q - start, Vector2d(WJ * (dy / J.dot(WJ))), 2e-3 * dy));
}

TEST_F(TaskPosture, StaysWithinRanges) {
  Load(Arm("range='-5.729578 143.2394'"));  // -0.1 … 2.5 rad
  const Vector2d p(0.45, 0.35);
  const VectorXd q = From(Vector2d(Closed(p, -1)[0], -0.04), {Tip(p)});
  EXPECT_TRUE(support::MatricesNear(q, Closed(p, 1), 1e-5)) << "the nearer one is beyond the range";

  // 2 % of the range are kept from its ends, unless the start is there
  EXPECT_NEAR(From(Vector2d::Zero(), {Joint("b", 2.447)})[1], 2.447, 1e-5);
  EXPECT_EQ(From(Vector2d::Zero(), {Joint("b", 2.45)}).size(), 0);
  EXPECT_NEAR(From(Vector2d(0, 2.48), {Joint("b", 2.45)})[1], 2.45, 1e-5);
  EXPECT_NEAR(From(Vector2d::Zero(), {Joint("b", -0.047)})[1], -0.047, 1e-5);
  EXPECT_EQ(From(Vector2d::Zero(), {Joint("b", -0.05)}).size(), 0);
  EXPECT_NEAR(From(Vector2d(0, -0.08), {Joint("b", -0.05)})[1], -0.05, 1e-5);
}

// two fingers on the forearm that one tendon closes and that are tied to each other: the goal of one puts both, and the
// arm goes as without it
TEST_F(TaskPosture, PutsFingersThatATendonDrives) {
  std::string arm =
      Arm("", "", R"(<tendon><fixed name="close"><joint joint="left" coef=".5"/><joint joint="right" coef=".5"/>
    </fixed></tendon><equality><joint joint1="left" joint2="right"/></equality>)");
  const std::string fingers =
      R"(<body pos=".4 .1 0"><joint name="left" type="slide" axis="0 1 0" range="0 .04"/><geom type="sphere" size=".01"/></body>
    <body pos=".4 -.1 0"><joint name="right" type="slide" axis="0 -1 0" range="0 .04"/><geom type="sphere" size=".01"/></body></body></body>)";
  arm.replace(arm.find("</body></body>"), 14, fingers);
  arm.replace(arm.find("</actuator>"), 0, R"(<position tendon="close" kp="9"/>)");
  Load(arm);
  const Vector2d p(0.45, 0.35);
  const VectorXd start = (VectorXd(4) << Closed(p, 1) + Vector2d(0.2, -0.3), .04, .04).finished();
  const VectorXd open = From(start, {Tip(p)}), closed = From(start, {Tip(p), Joint("left", 0.01)});
  ASSERT_EQ(open.size(), 4);
  ASSERT_EQ(closed.size(), 4);
  EXPECT_TRUE(support::MatricesNear(closed.head(2), open.head(2), 1e-12));
  EXPECT_TRUE(support::MatricesNear(closed.tail(2), Vector2d(.01, .01), 1e-12));
  EXPECT_TRUE(MoveTo(model_.get(), Joint("right", 0), PostureJoints::kServos));
  const VectorXd sizes = VectorXd::Ones(4), x = (VectorXd(8) << start, VectorXd::Zero(4)).finished();
  EXPECT_EQ(NearestMisses(model_.get(), {x, {}, {}}, {Tip(p), Joint("left", 0.01)}, sizes, 0.9).size(), 2);
}

TEST_F(TaskPosture, IsOfMotorsToo) {
  std::string arm = Arm();
  for (const char* servo : {"<position joint=\"a\" kp=\"9\"/>", "<position joint=\"b\" kp=\"9\"/>"})
    arm.replace(arm.find(servo), std::string(servo).size(), std::string("<motor joint='") + servo[17] + "'/>");
  Load(arm);
  const Vector2d p(0.45, 0.35);
  const VectorXd start = (VectorXd(4) << Closed(p, 1) + Vector2d(0.2, -0.3), 0, 0).finished(), ones = Vector2d::Ones();
  EXPECT_EQ(From(start.head(2), {Tip(p)}).size(), 0);
  const VectorXd q = ReachPosture(model_.get(), start, {Tip(p)}, ones, 0.9, PostureJoints::kActuated);
  EXPECT_TRUE(support::MatricesNear(q, Closed(p, 1), 1e-5));
  const VectorXd there = (VectorXd(4) << q, 0, 0).finished();
  EXPECT_LT(MissOfGoals(model_.get(), {there, {}, {}}, {Tip(p)}, ones, 0.9), 1e-5);
  EXPECT_NEAR(MissOfGoals(model_.get(), {there, {}, {}}, {Tip(p + Vector2d(0, 0.09))}, ones, 0.9), 0.1, 1e-5);

  // nor on a cart that nothing drives
  arm.replace(arm.find("<joint name=\"a\""), 0, "<joint type='slide' axis='1 0 0'/>");
  Load(arm);
  EXPECT_EQ(
      ReachPosture(model_.get(), VectorXd::Zero(6), {Tip(p)}, VectorXd::Ones(3), 0.9, PostureJoints::kActuated).size(),
      0);
}

TEST_F(TaskPosture, TouchesNothingThatTheStartDoesNot) {
  const Vector2d p(0.45, 0.35), wide(2, 2);
  const auto post = [&](int elbow) {  // halfway along the first link
    const double a = Closed(p, elbow)[0];
    return "<geom type='sphere' size='.03' pos='" + std::to_string(0.25 * std::cos(a)) + " " +
           std::to_string(0.25 * std::sin(a)) + " 0'/>";
  };
  const Vector2d start = Closed(p, 1) + Vector2d(0.5, 0.2);
  const std::string range = "range='-170 170'";  // nor by a whole turn
  Load(Arm(range, post(1)));
  EXPECT_TRUE(support::MatricesNear(From(start, {Tip(p)}, wide), Closed(p, -1), 1e-5)) << "round the post";
  Load(Arm(range, post(-1)));
  EXPECT_TRUE(support::MatricesNear(From(start, {Tip(p)}, wide), Closed(p, 1), 1e-5));
  Load(Arm(range, post(1) + post(-1)));
  EXPECT_TRUE(support::MatricesNear(From(start, {Tip(p)}, wide), Closed(p, 1), 1e-5)) << "no other way";
  Load(Arm(range, post(1)));
  EXPECT_TRUE(support::MatricesNear(From(Closed(p, 1) + Vector2d(0.01, 0.1), {Tip(p)}, wide), Closed(p, 1), 1e-5))
      << "the start touches it, too";
}

TEST_F(TaskPosture, KeepsLoopsClosed) {
  Load(Arm("", "", "<equality><joint joint1='b' joint2='a'/></equality>"));
  EXPECT_TRUE(
      support::MatricesNear(From(Vector2d::Zero(), {Joint("a", 0.4), Joint("b", 0.4)}), Vector2d(0.4, 0.4), 1e-5));
  EXPECT_EQ(From(Vector2d::Zero(), {Joint("a", 0.4)}).size(), 0);
  EXPECT_NEAR(From(Vector2d(0.2, 0.6), {Joint("a", 0.4)})[0], 0.4, 1e-5) << "no farther open than at the start";
}

TEST_F(TaskPosture, TurnsPartsOfEachKind) {
  Load(R"(<mujoco><worldbody><body><joint name="yaw" axis="0 0 1"/><geom size=".1"/>
    <body name="middle" pos=".1 0 .2"><joint name="pitch" axis="0 1 0"/><geom name="ear" size=".05" pos="0 .1 .1" euler="20 0 0"/>
    <body name="hand" pos="0 .1 .2"><joint name="roll" axis="1 0 0"/><geom size=".1"/><site name="palm" euler="0 30 10"/></body></body></body>
    <body pos="2 0 0"><joint name="ball" type="ball"/><geom size=".1"/></body></worldbody>
    <actuator><position joint="yaw"/><position joint="pitch"/><position joint="roll"/></actuator></mujoco>)");
  const DataPtr data = MakeData(model_.get());
  const VectorXd start = Eigen::Map<const VectorXd>(model_->qpos0, model_->nq);
  const auto goal = [&](mjtObj type, const char* name, const char* quantity, const mjtNum* values, int count) {
    return Goal(model_.get(), type, name, quantity, {values, values + count});
  };
  const auto place = [&] { return data->geom_xpos + 3 * mj_name2id(model_.get(), mjOBJ_GEOM, "ear"); };
  const auto axis = [&] {
    const mjtNum* R = data->xmat + 9 * mj_name2id(model_.get(), mjOBJ_BODY, "hand");
    return Eigen::Vector3d(R[1], R[4], R[7]);
  };

  VectorXd there = start;
  there.head(3) << 0.7, -0.5, 0.9;
  std::copy_n(there.data(), 3, data->qpos);
  mj_kinematics(model_.get(), data.get());
  mjtNum quat[4];
  mju_mat2Quat(quat, data->site_xmat + 9 * mj_name2id(model_.get(), mjOBJ_SITE, "palm"));
  for (mjtNum& number : quat) number *= 3;  // of any length
  const Eigen::Vector3d y = axis(), p(place());
  EXPECT_TRUE(support::MatricesNear(From(start, {goal(mjOBJ_SITE, "palm", "quat", quat, 4)}), there, 1e-5));

  const VectorXd moved =
      From(start, {goal(mjOBJ_GEOM, "ear", "pos", p.data(), 3), goal(mjOBJ_BODY, "hand", "yaxis", y.data(), 3)});
  ASSERT_EQ(moved.size(), model_->nq);
  std::copy_n(moved.data(), 3, data->qpos);
  mj_kinematics(model_.get(), data.get());
  EXPECT_LT((Eigen::Vector3d(place()) - p).norm(), 1e-5);
  EXPECT_LT((axis() - y).norm(), 1e-5);

  EXPECT_EQ(From(start, {goal(mjOBJ_JOINT, "ball", "", model_->qpos0 + 3, 4)}).size(), 0) << "no joint of a servo";
}

}  // namespace
}  // namespace costate
