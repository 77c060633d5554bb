// The C interface as a C program sees it.
#include <costate/costate_c.h>
#include <costate/derivative.h>
#include <costate/residual.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using support::MatricesNearRelative;

// no two of ndx, nu, ns equal, so that a transposed or swapped matrix cannot pass; friction and a limit
const char* kModel = R"(<mujoco model='arm'><worldbody><geom type='plane' size='3 3 .1'/><body pos='0 0 .5'>
  <joint name='a' axis='0 1 0' damping='.1' frictionloss='.05'/><geom type='capsule' fromto='0 0 0 .3 0 0' size='.03' mass='1'/>
  <body pos='.3 0 0'><joint name='b' type='ball' damping='.05'/><geom type='capsule' fromto='0 0 0 .2 .1 -.3' size='.03' mass='1'/>
  <site name='s' pos='.2 .1 -.3'/></body></body></worldbody>
  <actuator><motor name='m' joint='a' ctrlrange='-1 1'/><general joint='a' dyntype='filter' dynprm='.1' gainprm='2'/></actuator>
  <sensor><framepos objtype='site' objname='s'/><accelerometer site='s'/><actuatorfrc actuator='m'/></sensor></mujoco>)";

class CApiTest : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model_ = LoadModelFromString(kModel);
    data_ = MakeData(model_.get());
    const VectorXd u = support::RandomControl(model_.get(), 1);
    SetState(model_.get(), data_.get(), support::RandomState(model_.get(), 2));
    mj_setState(model_.get(), data_.get(), u.data(), mjSTATE_CTRL);
    const Dims dims(model_.get());
    A_.setConstant(dims.ndx, dims.ndx, -7);
    B_.setConstant(dims.ndx, dims.nu, -7);
    C_.setConstant(dims.ns, dims.ndx, -7);
    D_.setConstant(dims.ns, dims.nu, -7);
  }
  int Transition(int level) {
    return costate_transition(model_.get(), data_.get(), level, A_.data(), B_.data(), C_.data(), D_.data(), error_,
                              sizeof(error_));
  }

  ModelPtr model_;
  DataPtr data_;
  RowMajor A_, B_, C_, D_;
  char error_[500] = "old";
};

TEST_F(CApiTest, GivesTheMatricesOfTransitionFdRowMajorAtEveryLevel) {
  RowMajor A = A_, B = B_, C = C_, D = D_;
  const DataPtr copy = MakeData(model_.get());
  mj_copyState(model_.get(), data_.get(), copy.get(), mjSTATE_INTEGRATION);
  mjModel tight = *model_;
  tight.opt.tolerance = 0;
  mjd_transitionFD(&tight, copy.get(), 1e-6, 1, A.data(), B.data(), C.data(), D.data());
  for (int level : {0, 2, 3}) {
    ASSERT_EQ(Transition(level), 0) << error_;
    EXPECT_STREQ(error_, "");
    EXPECT_TRUE(MatricesNearRelative(A_, A, 1e-6)) << level;
    EXPECT_TRUE(MatricesNearRelative(B_, B, 1e-6)) << level;
    EXPECT_TRUE(MatricesNearRelative(C_, C, 1e-6)) << level;
    EXPECT_TRUE(MatricesNearRelative(D_, D, 1e-6)) << level;
  }
}

TEST_F(CApiTest, AnyOutputMayBeNullAndTheErrorToo) {
  ASSERT_EQ(Transition(3), 0);
  const RowMajor A = A_, D = D_;
  const mjModel* m = model_.get();
  A_.setZero();
  D_.setZero();
  EXPECT_EQ(costate_transition(m, data_.get(), 3, A_.data(), nullptr, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_TRUE(support::BitwiseEqual(A_, A));
  EXPECT_EQ(costate_transition(m, data_.get(), 3, nullptr, nullptr, nullptr, D_.data(), nullptr, 0), 0);
  EXPECT_TRUE(support::BitwiseEqual(D_, D));
  EXPECT_EQ(costate_transition(m, data_.get(), 3, nullptr, nullptr, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_NE(costate_transition(m, data_.get(), 9, nullptr, nullptr, nullptr, nullptr, nullptr, 0), 0);
}

TEST_F(CApiTest, PullsACovectorBackAtEveryLevel) {
  const Dims dims(model_.get());
  const VectorXd lambda = support::RandomTangent(model_.get(), 4);
  VectorXd x(dims.ndx), u(dims.nu), qfrc(dims.nv), expected_qfrc;
  const auto vjp = [&](int level, const mjtNum* covector, mjtNum* x_bar, mjtNum* u_bar, mjtNum* qfrc_bar) {
    return costate_vjp(model_.get(), data_.get(), level, covector, x_bar, u_bar, qfrc_bar, error_, sizeof(error_));
  };
  ASSERT_EQ(Transition(0), 0);
  for (int level : {0, 3}) {
    ASSERT_EQ(vjp(level, lambda.data(), x.data(), u.data(), qfrc.data()), 0) << error_;
    EXPECT_TRUE(MatricesNearRelative(x, A_.transpose() * lambda, 1e-6));
    EXPECT_TRUE(MatricesNearRelative(u, B_.transpose() * lambda, 1e-6));
    if (level == 0) expected_qfrc = qfrc;
    EXPECT_TRUE(MatricesNearRelative(qfrc, expected_qfrc, 1e-6));
  }
  // the motor drives the first dof: a force there is a control
  EXPECT_NEAR(expected_qfrc[0], u[0], 1e-6 * std::abs(u[0]));
  EXPECT_EQ(vjp(2, lambda.data(), x.data(), nullptr, nullptr), 0) << error_;
  EXPECT_TRUE(MatricesNearRelative(x, A_.transpose() * lambda, 1e-6));
  EXPECT_EQ(vjp(0, lambda.data(), nullptr, nullptr, nullptr), 0) << error_;

  const VectorXd before = u;
  EXPECT_NE(vjp(0, nullptr, x.data(), u.data(), nullptr), 0);
  EXPECT_STREQ(error_, "lambda is NULL");
  VectorXd bad = lambda;
  bad[1] = std::nan("");
  EXPECT_NE(vjp(0, bad.data(), x.data(), u.data(), nullptr), 0);
  EXPECT_STREQ(error_, "lambda is not finite");
  EXPECT_TRUE(support::BitwiseEqual(u, before));
}

TEST_F(CApiTest, AnErrorIsATextAndLeavesTheOutputs) {
  const RowMajor before = A_;
  EXPECT_NE(Transition(4), 0);
  EXPECT_NE(std::string(error_).find("level is 4"), std::string::npos) << error_;
  data_->ctrl[1] = std::nan("");
  EXPECT_NE(Transition(3), 0);
  EXPECT_NE(std::string(error_).find("u is not finite"), std::string::npos) << error_;
  data_->ctrl[1] = 0;
  data_->qvel[0] = 1e11;
  EXPECT_NE(Transition(3), 0);
  EXPECT_NE(std::string(error_).find("the step fails"), std::string::npos) << error_;
  EXPECT_TRUE(support::BitwiseEqual(A_, before));
  EXPECT_FALSE(TakeWarnings().empty()) << "they reach a guard around the call, here the test's, and nobody else";

  // cut to the buffer, always ended
  char small[8];
  std::memset(small, 'x', sizeof(small));
  EXPECT_NE(costate_transition(model_.get(), data_.get(), -1, nullptr, nullptr, nullptr, nullptr, small, 6), 0);
  EXPECT_STREQ(small, "level");
  EXPECT_EQ(small[6], 'x');
  EXPECT_NE(costate_transition(nullptr, data_.get(), 0, nullptr, nullptr, nullptr, nullptr, error_, 500), 0);
  EXPECT_STREQ(error_, "m is NULL");
  EXPECT_NE(costate_transition(model_.get(), nullptr, 0, nullptr, nullptr, nullptr, nullptr, error_, 500), 0);
  EXPECT_STREQ(error_, "d is NULL");

  // and the next call is as good as ever
  data_->qvel[0] = 0;
  EXPECT_EQ(Transition(3), 0) << error_;
}

TEST_F(CApiTest, DataIsOnlyReadWhateverItIsInTheMiddleOf) {
  mj_step1(model_.get(), data_.get());
  mj_markStack(data_.get());
  std::memset(mj_stackAllocNum(data_.get(), 10), 7, 80);
  const mjData header = *data_;
  const std::string buffer(static_cast<char*>(data_->buffer), data_->nbuffer);
  const std::string arena(static_cast<char*>(data_->arena), data_->narena);
  for (int level : {0, 2, 3}) ASSERT_EQ(Transition(level), 0) << error_;
  EXPECT_EQ(std::memcmp(&header, data_.get(), sizeof(mjData)), 0);
  EXPECT_EQ(buffer, std::string(static_cast<char*>(data_->buffer), data_->nbuffer));
  EXPECT_EQ(arena, std::string(static_cast<char*>(data_->arena), data_->narena));
  mj_freeStack(data_.get());
}

TEST_F(CApiTest, SeesWhatChangedInTheModelBetweenCalls) {
  // values and options changed in place, and another model at the same address
  ASSERT_EQ(Transition(3), 0);
  const RowMajor A = A_;
  model_->body_mass[1] *= 2;
  model_->dof_damping[0] = 0.7;
  ASSERT_EQ(Transition(3), 0);
  EXPECT_TRUE(MatricesNearRelative(A_, Linearize(model_.get(), data_.get(), {.level = Level::kStep}).A, 1e-14));
  EXPECT_FALSE(MatricesNearRelative(A_, A, 1e-6));
  model_->opt.integrator = mjINT_RK4;
  ASSERT_EQ(Transition(3), 0);
  EXPECT_TRUE(MatricesNearRelative(A_, Linearize(model_.get(), data_.get(), {.level = Level::kStep}).A, 1e-14));

  for (int i = 0; i < 10; ++i) {
    const bool hinge = i % 2 != 0;
    const ModelPtr other = LoadModelFromString(std::string("<mujoco><worldbody><body><joint axis='0 1 0' type='") +
                                               (hinge ? "hinge" : "slide") + "'/><geom size='.1' pos='.3 0 0'/></body>" +
                                               "</worldbody></mujoco>");
    const DataPtr data = MakeData(other.get());
    RowMajor B(2, 2);
    ASSERT_EQ(costate_transition(other.get(), data.get(), 3, B.data(), nullptr, nullptr, nullptr, error_, 500), 0) << error_;
    EXPECT_TRUE(MatricesNearRelative(B, Linearize(other.get(), data.get(), {.level = Level::kStep}).A, 1e-14));
  }
}

TEST_F(CApiTest, ThreadsCallAtOnce) {
  ASSERT_EQ(Transition(3), 0);
  std::vector<RowMajor> results(4, RowMajor(A_.rows(), A_.cols()));
  std::vector<std::thread> threads;
  for (RowMajor& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        costate_transition(model_.get(), data_.get(), 3, result.data(), nullptr, nullptr, nullptr, nullptr, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const RowMajor& result : results) EXPECT_TRUE(support::BitwiseEqual(result, A_));
}

// what a host's handler received
int host_messages = 0;

TEST(CApi, TheHostHearsNothingAndKeepsItsHandler) {
  const ModelPtr model = LoadModelFromString(kModel);
  const DataPtr data = MakeData(model.get());
  const mjfLogHandler original = mju_setLogHandler([](const mjLogMessage*) { ++host_messages; });
  data->qvel[0] = 1e11;
  EXPECT_NE(costate_transition(model.get(), data.get(), 3, nullptr, nullptr, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_EQ(host_messages, 0);
  mju_warning("still here");
  EXPECT_EQ(host_messages, 1);
  mju_setLogHandler(original);
}

TEST(CApi, HasAVersion) { EXPECT_STREQ(costate_version(), "0.1.0"); }

// ---- residuals ---------------------------------------------------------------------------------------------------------

// r = factor [m0 x0, u0 x1]: a user's pointer, row-major matrices, all that can be read
void ResidualValue(void* user, const costate_residual_input* in, mjtNum* r) {
  const double factor = *static_cast<double*>(user);
  r[0] = factor * in->measured[0] * in->x[0];
  r[1] = factor * (in->u ? in->u[0] : 0) * in->x[1];
}
void ResidualSlopes(void* user, const costate_residual_input* in, mjtNum* by_measured, mjtNum* by_x, mjtNum* by_u) {
  const double factor = *static_cast<double*>(user);
  by_measured[0] = factor * in->x[0];
  by_x[0] = factor * in->measured[0];
  by_x[4 + 1] = factor * in->u[0];  // row 1 of 2 × 4
  by_u[1 * 1 + 0] = factor * in->x[1];
}

TEST(CResidual, IsACostOfATaskWithItsJacobianOrDifferenced) {
  static double factor = 2;
  char error[200];
  const int reads = COSTATE_READS_STATE | COSTATE_READS_CONTROL;
  ASSERT_EQ(costate_register_residual("c exact", 2, reads, ResidualValue, ResidualSlopes, &factor, error, sizeof error), 0) << error;
  ASSERT_EQ(costate_register_residual("c differenced", 2, reads, ResidualValue, nullptr, &factor, error, sizeof error), 0) << error;
  const support::TemporaryFolder folder;
  folder.Write("two.xml", "<mujoco><worldbody><body><joint name='a' type='slide'/><joint name='b' type='slide' axis='1 0 0'/><geom size='.1'/></body>"
                          "</worldbody><actuator><motor joint='a'/></actuator></mujoco>");
  const VectorXd x = (VectorXd(4) << 0.3, -0.7, 0.2, 0.1).finished(), u = VectorXd::Constant(1, 0.4), none;
  const KnotView knot{.t = 0, .N = 10, .time = 0, .dt = 1, .x = x, .u = u, .s = none};
  CostExpansion expansion[2];
  for (int i = 0; i < 2; i++) {
    const Task task = LoadTask(folder.Write("t.xml", std::string("<task model='two.xml' horizon='0.1' scale='sum'><measure name='v' qvel='a'/><cost callback='c ") +
                                                         (i == 0 ? "exact" : "differenced") + "' reads='v'/></task>"));
    task.cost->Expand(knot, MatrixXd(0, 4), MatrixXd(0, 1), &expansion[i]);
  }
  // ½ (2 · 0.2 · 0.3)² + ½ (2 · 0.4 · -0.7)²
  EXPECT_NEAR(expansion[0].l, 0.5 * 0.12 * 0.12 + 0.5 * 0.56 * 0.56, 1e-14);
  EXPECT_NEAR(expansion[0].lx[0], 0.12 * 0.4, 1e-14);   // by x0: r0 · 2 m0
  EXPECT_NEAR(expansion[0].lx[2], 0.12 * 0.6, 1e-14);   // by the measured velocity: r0 · 2 x0
  EXPECT_NEAR(expansion[0].lx[1], -0.56 * 0.8, 1e-14);  // by x1: r1 · 2 u0
  EXPECT_NEAR(expansion[0].lu[0], -0.56 * -1.4, 1e-14);
  EXPECT_LT((expansion[0].lx - expansion[1].lx).cwiseAbs().maxCoeff(), 1e-9);
  EXPECT_LT((expansion[0].lux - expansion[1].lux).cwiseAbs().maxCoeff(), 1e-9);
}

TEST(CResidual, SaysWhatIsWrong) {
  char error[200];
  EXPECT_NE(costate_register_residual("a", 0, 0, ResidualValue, nullptr, nullptr, error, sizeof error), 0);
  EXPECT_NE(std::string(error).find("size 0"), std::string::npos) << error;
  EXPECT_NE(costate_register_residual("a", 1, 0, nullptr, nullptr, nullptr, error, sizeof error), 0);
  EXPECT_NE(costate_register_residual(nullptr, 1, 0, ResidualValue, nullptr, nullptr, error, sizeof error), 0);
  EXPECT_NE(costate_register_residual("a", 1, 8, ResidualValue, nullptr, nullptr, error, sizeof error), 0);
  EXPECT_NE(std::string(error).find("reads is 8"), std::string::npos) << error;
}

}  // namespace
}  // namespace costate
