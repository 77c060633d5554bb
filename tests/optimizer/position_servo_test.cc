// Which actuators pull a joint to where their control is, and with what.
#include "optimizer/position_servo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/engine_test.h"

namespace costate {
namespace {

class PositionServoTest : public support::EngineTest {
 protected:
  static ModelPtr Model(const std::string& actuators, const std::string& flag = "") {
    return LoadModelFromString("<mujoco><option>" + flag + R"(</option><worldbody>
      <body><joint name="hinge" axis="0 1 0" actuatorfrcrange="-8 4"/><geom name="link" size=".1"/>
        <body pos=".3 0 0"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1"/><site name="s"/>
          <body pos=".3 0 0"><joint name="ball" type="ball"/><geom size=".1" pos=".1 0 0"/></body></body></body>
      <site name="w"/></worldbody><tendon><fixed name="t"><joint joint="slide" coef="2"/></fixed></tendon>
      <actuator>)" + actuators +
                               "</actuator></mujoco>");
  }
  static int Servos(const std::string& actuator) {
    return static_cast<int>(PositionServos(Model(actuator).get()).size());
  }
};

// Its control is that behind actuators with several, its force is none where ControlAt says so, and a limit of it is
// passed by a stroke of the control.
TEST_F(PositionServoTest, PullsNowhereAtItsControl) {
  const ModelPtr model = Model(R"(<orientation joint="ball" kp="3"/>
    <general joint="slide" gear="3" gainprm="40" biastype="affine" biasprm="7 -20 -1" forcerange="-30 10"/>
    <position joint="hinge" kp="5" gear="-2"/><position jointinparent="slide" kp="5"/>)");
  const std::vector<PositionServo> servos = PositionServos(model.get());
  ASSERT_EQ(servos.size(), 3u);
  EXPECT_EQ(servos[0].joint, 1);
  EXPECT_EQ(servos[1].joint, 0);
  EXPECT_NEAR(servos[0].stroke, 40.0 / 40, 1e-15);
  EXPECT_NEAR(servos[1].stroke, 12.0 / 2 / 5, 1e-15) << "what the joint takes, by the gear";
  EXPECT_TRUE(std::isinf(servos[2].stroke));

  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.4;
  data->qpos[1] = -0.7;
  for (const PositionServo& servo : servos)
    data->ctrl[servo.control] = servo.ControlAt(data->qpos[model->jnt_qposadr[servo.joint]]);
  mj_forward(model.get(), data.get());
  for (int i = 1; i < 4; ++i) EXPECT_NEAR(data->actuator_force[model->actuator_outadr[i]], 0, 1e-13) << i;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(servos[i].control, model->actuator_ctrladr[i + 1]);

  // from one limit of force to the other
  for (const int side : {-1, 1}) {
    data->ctrl[servos[0].control] = servos[0].ControlAt(-0.7) + (side < 0 ? -0.75 : 0.25) * servos[0].stroke;
    mj_forward(model.get(), data.get());
    EXPECT_NEAR(data->actuator_force[model->actuator_outadr[1]], side < 0 ? -30 : 10, 1e-12);
  }
}

TEST_F(PositionServoTest, OthersAreNone) {
  EXPECT_EQ(Servos(R"(<position joint="slide" kp="5"/>)"), 1);
  for (const char* other : {
           R"(<motor joint="slide"/>)",
           R"(<velocity joint="slide" kv="5"/>)",
           R"(<position joint="slide" kp="5" timeconst=".1"/>)",
           R"(<intvelocity joint="slide" kp="5" actrange="-1 1"/>)",
           R"(<general joint="slide" gaintype="affine" gainprm="5 1" biastype="affine" biasprm="0 -5"/>)",
           R"(<general joint="slide" gainprm="5" biastype="affine" biasprm="0 5"/>)",
           R"(<general joint="slide" gainprm="0" biastype="affine" biasprm="0 -5"/>)",
           R"(<position joint="slide" kp="5" gear="0"/>)",
           R"(<position joint="ball" kp="5"/>)",
           R"(<orientation joint="ball" kp="5"/>)",
           R"(<position tendon="t" kp="5"/>)",
           R"(<position site="s" refsite="w" kp="5" gear="1 0 0 0 0 0"/>)",
       }) {
    EXPECT_EQ(Servos(other), 0) << other;
  }
  EXPECT_TRUE(
      PositionServos(Model(R"(<position joint="slide" kp="5"/>)", R"(<flag actuation="disable"/>)").get()).empty());
}

}  // namespace
}  // namespace costate
