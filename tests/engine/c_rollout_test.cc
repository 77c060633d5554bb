// The C interface to rollouts: the engine's own motion forward, the gradient of a loss outside of Costate backward.
#include <costate/costate_c.h>
#include <costate/parameter.h>
#include <costate/rollout.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "support/engine_test.h"

namespace costate {
namespace {

using CRollout = support::EngineTest;

// a pendulum on a slide, with an orientation that flies beside it; %s: of its motor
std::string CartPoleAndBall(const std::string& motor = "") {
  return R"(<mujoco><option timestep='0.004'/><worldbody>
    <body name='cart'><joint name='rail' type='slide' axis='1 0 0' damping='.3'/><geom size='.1' mass='1'/>
      <body name='pole'><joint name='hinge' axis='0 1 0' damping='.02'/><geom type='capsule' size='.02'
        fromto='0 0 0 0 0 .5' mass='.3'/><site name='tip' pos='0 0 .5'/></body></body>
    <body name='ball' pos='0 2 0'><joint name='spin' type='ball' damping='.1'/><geom size='.1' pos='.2 0 0' mass='1'/></body>
    </worldbody><actuator><motor name='push' joint='rail' gear='3' )" +
         motor + R"(/></actuator>
    <sensor><framepos objtype='site' objname='tip'/><gyro site='tip'/></sensor></mujoco>)";
}

struct Loop {
  explicit Loop(const std::string& xml, const std::vector<const char*>& names = {}, int n = 25)
      : model(LoadModelFromString(xml)), data(MakeData(model.get())), N(n) {
    data->qpos[1] = 0.4;
    data->qvel[3] = 2;
    rollout =
        costate_make_rollout(model.get(), data.get(), 2, names.data(), static_cast<int>(names.size()), error, 500);
    EXPECT_NE(rollout, nullptr) << error;
    x0 = GetState(model.get(), data.get());
    U.resize(model->nu, N);
    for (int t = 0; t < N; t++) U.col(t).setConstant(std::sin(0.5 * t));
  }
  ~Loop() { costate_delete_rollout(rollout); }

  void Forward(ConstVectorRef x, ConstMatrixRef controls) {
    const Dims dims(model.get());
    X.resize(dims.nx, N + 1);
    S.resize(dims.ns, N + 1);
    const VectorXd start = x;
    const MatrixXd u = controls;
    ASSERT_EQ(costate_rollout_forward(rollout, start.data(), u.data(), N, X.data(), S.data(), error, 500), 0) << error;
  }

  // ½ Σ_t |s_t|² + ½ |x_N − 1|² of hinges and velocities, which are coordinates of their own
  double Loss() const { return 0.5 * S.squaredNorm() + 0.5 * (X.col(N).head(2).array() - 1).square().sum(); }
  void Backward() {
    const Dims dims(model.get());
    MatrixXd X_bar = MatrixXd::Zero(dims.ndx, N + 1);
    X_bar.col(N).head(2) = X.col(N).head(2).array() - 1;
    x0_bar.resize(dims.ndx);
    U_bar.resize(dims.nu, N);
    theta_bar.resize(costate_rollout_ntheta(rollout));
    ASSERT_EQ(costate_rollout_backward(rollout, X_bar.data(), S.data(), x0_bar.data(), U_bar.data(), theta_bar.data(),
                                       error, 500),
              0)
        << error;
  }
  double LossAt(ConstVectorRef x, ConstMatrixRef controls) {
    Forward(x, controls);
    return Loss();
  }

  ModelPtr model;
  DataPtr data;
  int N;
  costate_rollout* rollout;
  VectorXd x0, x0_bar, theta_bar;
  MatrixXd U, X, S, U_bar;
  char error[500] = "";
};

TEST_F(CRollout, ForwardIsTheEnginesMotion) {
  Loop loop(CartPoleAndBall());
  loop.Forward(loop.x0, loop.U);
  const mjModel* m = loop.model.get();
  DataPtr data(mj_copyData(nullptr, m, loop.data.get()));
  for (int t = 0; t < loop.N; t++) {
    data->ctrl[0] = loop.U(0, t);
    for (int k = 0; k < 2; k++) mj_step(m, data.get());
    EXPECT_EQ(loop.X.col(t + 1), GetState(m, data.get())) << t;
  }
}

// by differences of the whole forward call, and with a control that comes late, of which a chain of costate_vjp knows
// nothing
TEST_F(CRollout, BackwardIsTheGradientOfTheForwardCall) {
  for (const std::string motor : {"", "delay='0.02' nsample='10'"}) {
    SCOPED_TRACE(motor);
    Loop loop(CartPoleAndBall(motor));
    loop.Forward(loop.x0, loop.U);
    loop.Backward();
    const VectorXd x0_bar = loop.x0_bar;
    const MatrixXd U_bar = loop.U_bar;
    EXPECT_GT(U_bar.col(3).norm(), 1e-3);
    const double h = 1e-6, scale = x0_bar.lpNorm<Eigen::Infinity>();
    for (int i = 0; i < x0_bar.size(); i++) {
      const VectorXd dx = h * VectorXd::Unit(x0_bar.size(), i);
      const double difference = (loop.LossAt(Retract(loop.model.get(), loop.x0, dx), loop.U) -
                                 loop.LossAt(Retract(loop.model.get(), loop.x0, -dx), loop.U)) /
                                (2 * h);
      EXPECT_NEAR(x0_bar[i], difference, 1e-6 * scale) << i;
    }
    for (const int t : {0, 10, 24}) {
      MatrixXd plus = loop.U, minus = loop.U;
      plus(0, t) += h;
      minus(0, t) -= h;
      const double difference = (loop.LossAt(loop.x0, plus) - loop.LossAt(loop.x0, minus)) / (2 * h);
      EXPECT_NEAR(U_bar(0, t), difference, 1e-6 * scale) << t;
    }
  }
}

TEST_F(CRollout, BackwardToParametersIsTheGradientToo) {
  Loop loop(CartPoleAndBall(), {"body:pole/mass", "joint:hinge/damping", "option/gravity"});
  ASSERT_EQ(costate_rollout_ntheta(loop.rollout), 5);
  EXPECT_EQ(std::string(costate_rollout_parameter(loop.rollout, 0)), "body:pole/mass");
  EXPECT_EQ(costate_rollout_parameter(loop.rollout, 5), nullptr);
  VectorXd theta(5);
  ASSERT_EQ(costate_rollout_get_parameters(loop.rollout, theta.data(), loop.error, 500), 0);
  EXPECT_EQ(theta[0], 0.3);
  loop.Forward(loop.x0, loop.U);
  loop.Backward();
  const VectorXd theta_bar = loop.theta_bar;
  for (int i = 0; i < 5; i++) {
    double side[2];
    for (const int sign : {-1, 1}) {
      VectorXd moved = theta;
      moved[i] += sign * 1e-6;
      ASSERT_EQ(costate_rollout_set_parameters(loop.rollout, moved.data(), loop.error, 500), 0) << loop.error;
      side[sign > 0] = loop.LossAt(loop.x0, loop.U);
    }
    EXPECT_NEAR(theta_bar[i], (side[1] - side[0]) / 2e-6, 1e-6 * theta_bar.lpNorm<Eigen::Infinity>()) << i;
  }

  // another mass is another motion: the one before has no gradient any more
  ASSERT_EQ(costate_rollout_set_parameters(loop.rollout, theta.data(), loop.error, 500), 0);
  EXPECT_NE(costate_rollout_backward(loop.rollout, nullptr, nullptr, nullptr, nullptr, nullptr, loop.error, 500), 0);
  EXPECT_NE(std::string(loop.error).find("costate_rollout_forward comes first"), std::string::npos) << loop.error;
  theta[0] = -1;
  EXPECT_NE(costate_rollout_set_parameters(loop.rollout, theta.data(), loop.error, 500), 0);
  EXPECT_NE(std::string(loop.error).find("body:pole/mass"), std::string::npos) << loop.error;
}

TEST_F(CRollout, RefusesBadInputInASentence) {
  Loop loop(CartPoleAndBall());
  const auto says = [&](const std::string& text) {
    EXPECT_NE(std::string(loop.error).find(text), std::string::npos) << loop.error;
  };
  const mjModel* m = loop.model.get();
  EXPECT_EQ(costate_make_rollout(nullptr, loop.data.get(), 1, nullptr, 0, loop.error, 500), nullptr);
  says("m is NULL");
  EXPECT_EQ(costate_make_rollout(m, loop.data.get(), 0, nullptr, 0, loop.error, 500), nullptr);
  says("substeps is 0");
  const char* unknown[] = {"body:pol/mass"};
  EXPECT_EQ(costate_make_rollout(m, loop.data.get(), 1, unknown, 1, loop.error, 500), nullptr);
  says("pole");
  EXPECT_NE(costate_rollout_forward(loop.rollout, loop.x0.data(), nullptr, 3, nullptr, nullptr, loop.error, 500), 0);
  says("U is NULL");
  EXPECT_NE(costate_rollout_forward(loop.rollout, loop.x0.data(), loop.U.data(), 0, nullptr, nullptr, loop.error, 500),
            0);
  says("N is 0");
  loop.U(0, 7) = 1e20;
  EXPECT_NE(costate_rollout_forward(loop.rollout, loop.x0.data(), loop.U.data(), 25, nullptr, nullptr, loop.error, 500),
            0);
  says("fails at knot 7");
  EXPECT_NE(costate_rollout_backward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, loop.error, 500), 0);
  says("rollout is NULL");
  EXPECT_EQ(costate_rollout_ntheta(nullptr), 0);
  costate_delete_rollout(nullptr);
}

// the engine leaves sensors that are switched off as they are: not those of the motion before
TEST_F(CRollout, SensorsThatAreSwitchedOffAreZero) {
  Loop loop(CartPoleAndBall());
  loop.Forward(loop.x0, loop.U);
  EXPECT_GT(loop.S.cwiseAbs().maxCoeff(), 0.1);
  loop.model->opt.disableflags |= mjDSBL_SENSOR;
  loop.Forward(loop.x0, loop.U);
  EXPECT_TRUE(loop.S.isZero(0)) << loop.S;
  loop.model->opt.disableflags &= ~mjDSBL_SENSOR;
  loop.Forward(loop.x0, loop.U);
  EXPECT_GT(loop.S.cwiseAbs().maxCoeff(), 0.1);
}

}  // namespace
}  // namespace costate
