// The C interface as a C program sees it.
#include <costate/costate_c.h>
#include <costate/derivative.h>
#include <costate/policy.h>
#include <costate/residual.h>
#include <costate/solve_task.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/random_state.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using PlainJson = nlohmann::json;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using support::MatricesNearRelative;

// no two of ndx, nu, ns equal, so that a transposed or swapped matrix cannot pass; friction and a limit
const char* kModel = R"(<mujoco model='arm'><worldbody><geom type='plane' size='3 3 .1'/><body pos='0 0 .5'>
  <joint name='a' axis='0 1 0' damping='.1' frictionloss='.05'/><geom type='capsule' fromto='0 0 0 .3 0 0' size='.03' mass='1'/>
  <body pos='.3 0 0'><joint name='b' type='ball' damping='.05'/><geom type='capsule' fromto='0 0 0 .2 .1 -.3' size='.03' mass='1'/>
  <site name='s' pos='.2 .1 -.3'/></body></body></worldbody>
  <actuator><motor name='m' joint='a' ctrlrange='-1 1'/><general joint='a' dyntype='filter' dynprm='.1' gainprm='2'/></actuator>
  <sensor><framepos name='s' objtype='site' objname='s'/><accelerometer site='s'/><actuatorfrc actuator='m'/></sensor></mujoco>)";

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

TEST_F(CApiTest, TakesWhatForwardHasLeft) {
  const mjModel* m = model_.get();
  mjData* d = data_.get();
  const VectorXd lambda = support::RandomTangent(m, 4);
  VectorXd x(A_.rows()), u(B_.cols());
  ASSERT_EQ(Transition(0), 0);
  const RowMajor A = A_, B = B_;
  for (const bool forward : {true, false}) {
    if (forward) mj_forward(m, d);
    else mju_zero(d->qacc, static_cast<int>(m->nv));
    A_.setConstant(-7);
    B_.setConstant(-7);
    ASSERT_EQ(costate_transition_after_forward(m, d, A_.data(), B_.data(), error_, 500), 0) << error_;
    EXPECT_TRUE(MatricesNearRelative(A_, A, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(B_, B, 1e-9));
    ASSERT_EQ(costate_vjp_after_forward(m, d, lambda.data(), x.data(), u.data(), error_, 500), 0) << error_;
    EXPECT_TRUE(MatricesNearRelative(x, A.transpose() * lambda, 1e-9));
    EXPECT_TRUE(MatricesNearRelative(u, B.transpose() * lambda, 1e-9));
  }
  EXPECT_EQ(costate_transition_after_forward(m, d, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_EQ(costate_vjp_after_forward(m, d, lambda.data(), nullptr, nullptr, nullptr, 0), 0);

  EXPECT_NE(costate_vjp_after_forward(m, d, nullptr, x.data(), u.data(), error_, 500), 0);
  EXPECT_STREQ(error_, "lambda is NULL");
  EXPECT_NE(costate_transition_after_forward(m, nullptr, A_.data(), nullptr, error_, 500), 0);
  EXPECT_STREQ(error_, "d is NULL");
  const RowMajor before = A_;
  d->ctrl[1] = std::nan("");
  EXPECT_NE(costate_transition_after_forward(m, d, A_.data(), nullptr, error_, 500), 0);
  EXPECT_NE(std::string(error_).find("u is not finite"), std::string::npos) << error_;
  EXPECT_TRUE(support::BitwiseEqual(A_, before));
}

TEST_F(CApiTest, SaysWhichLevelItsDerivativesAreOfAndWhatTheyHoldFor) {
  const mjModel* m = model_.get();
  EXPECT_EQ(costate_coverage(m, data_.get(), 0, 0, error_, 500), 1);
  EXPECT_STREQ(error_, "");
  EXPECT_EQ(costate_coverage(m, data_.get(), 3, 1, error_, 500), 3);
  EXPECT_EQ(std::string(error_).find("step: step difference"), 0u) << error_;
  EXPECT_EQ(costate_coverage(m, data_.get(), 3, 0, nullptr, 0), 3);
  EXPECT_EQ(costate_coverage(m, data_.get(), 5, 0, error_, 500), 0);
  EXPECT_EQ(std::string(error_).find("level is 5"), 0u) << error_;

  // beyond what has a closed form, a line a term
  model_->opt.integrator = mjINT_DISCRETE;
  model_->dof_dampingpoly[0] = 0.1;
  EXPECT_EQ(costate_coverage(m, data_.get(), 0, 0, error_, 500), 2);
  EXPECT_NE(std::string(error_).find("residual difference, analytic: integrator discrete: damping that grows"),
            std::string::npos)
      << error_;
  model_->dof_dampingpoly[0] = 0;
  model_->opt.integrator = mjINT_EULER;

  data_->ctrl[0] = 0.5;
  EXPECT_EQ(costate_certify(m, data_.get(), error_, 500), COSTATE_SMOOTH) << error_;
  EXPECT_STREQ(error_, "");
  data_->ctrl[0] = 1;
  EXPECT_EQ(costate_certify(m, data_.get(), error_, 500), COSTATE_MODE_CROSSING);
  EXPECT_NE(std::string(error_).find("ctrl[m]"), std::string::npos) << error_;
  EXPECT_EQ(costate_certify(m, data_.get(), nullptr, 0), COSTATE_MODE_CROSSING);
  EXPECT_EQ(costate_certify(nullptr, data_.get(), error_, 500), -1);
  EXPECT_STREQ(error_, "m is NULL");
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

// what a program writes into a compiled model is seen by nobody else before a step
// whatever room there is, what stands there is UTF-8 and the beginning of the whole
TEST_F(CApiTest, ATextIsCutBetweenCharacters) {
  model_->opt.integrator = 99;
  ASSERT_NE(Transition(0), 0);
  const std::string whole = error_;
  ASSERT_NE(whole.find_first_of("\xe2\xc3\xc2"), std::string::npos) << whole;
  for (int room = 1; room <= static_cast<int>(whole.size()) + 1; room++) {
    std::string text(static_cast<std::size_t>(room), '#');
    costate_transition(model_.get(), data_.get(), 0, nullptr, nullptr, nullptr, nullptr, text.data(), room);
    text.resize(std::strlen(text.c_str()));
    EXPECT_EQ(whole.compare(0, text.size(), text), 0);
    EXPECT_GE(static_cast<int>(text.size()), std::min(room - 1, static_cast<int>(whole.size())) - 3);
    const bool cut = text.size() < whole.size() && (static_cast<unsigned char>(whole[text.size()]) & 0xC0) == 0x80;
    EXPECT_FALSE(cut) << text;
  }
}

TEST_F(CApiTest, NumbersThatAreNoneAreNeverAResult) {
  const VectorXd lambda = support::RandomTangent(model_.get(), 4);
  const auto refused = [&](auto* option, auto value, const char* text) {
    const auto good = std::exchange(*option, value);
    for (const int level : {0, 1, 2, 3}) {
      EXPECT_NE(Transition(level), 0);
      EXPECT_NE(std::string(error_).find(text), std::string::npos) << error_;
      std::strcpy(error_, "old");
      EXPECT_NE(costate_vjp(model_.get(), data_.get(), level, lambda.data(), nullptr, nullptr, nullptr, error_,
                            sizeof error_),
                0);
      EXPECT_NE(std::string(error_).find(text), std::string::npos) << error_;
    }
    EXPECT_EQ(costate_make_rollout(model_.get(), data_.get(), 1, nullptr, 0, error_, sizeof error_), nullptr);
    EXPECT_NE(std::string(error_).find(text), std::string::npos) << error_;
    *option = good;
    EXPECT_EQ(Transition(0), 0) << error_;
  };
  refused(&model_->opt.timestep, std::nan(""), "opt.timestep is nan");
  refused(&model_->opt.timestep, 0.0, "opt.timestep is 0");
  refused(&model_->opt.integrator, 77, "opt.integrator is 77");
  refused(&model_->opt.cone, 77, "opt.cone is 77");
  refused(&model_->opt.solver, 77, "opt.solver is 77");
}

// a name in the table of its README that begins with _ has costate before it
TEST(CApi, IsDescribedWhole) {
  const std::string root = std::string(COSTATE_MODELS) + "/..";
  std::set<std::string> declared, described;
  std::string header = support::ReadFile(root + "/include/costate/costate_c.h");
  for (std::size_t at; (at = header.find("/*")) != std::string::npos;) header.erase(at, header.find("*/") + 2 - at);
  const std::regex function(R"((costate_\w+)\()");
  for (std::sregex_iterator at(header.begin(), header.end(), function), end; at != end; ++at) declared.insert((*at)[1]);
  std::istringstream readme(support::ReadFile(root + "/plugin/engine/README.md"));
  std::string line;
  while (std::getline(readme, line) && !line.starts_with("| of `costate_c.h`")) {
  }
  while (std::getline(readme, line) && line.starts_with("|")) {
    const std::string names = line.substr(0, line.find('|', 1));
    const std::regex name(R"(`(?:costate)?(_\w+)`)");
    for (std::sregex_iterator at(names.begin(), names.end(), name), end; at != end; ++at)
      described.insert("costate" + (*at)[1].str());
  }
  EXPECT_GT(declared.size(), 20u);
  EXPECT_EQ(declared, described);
}

TEST_F(CApiTest, RefusesTheDataOfAnotherModelButNotOfOneThatIsAlike) {
  // a copy and the same text compiled once more have data of the same layout; another model's ends too early
  const ModelPtr copy = CopyModel(model_.get()), twin = LoadModelFromString(kModel),
                 other = LoadModelFromString("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>");
  ASSERT_EQ(costate_transition(model_.get(), data_.get(), 1, A_.data(), nullptr, nullptr, nullptr, error_, 500), 0);
  const RowMajor A = A_;
  for (const mjModel* m : {copy.get(), twin.get()}) {
    const DataPtr data = MakeData(m);
    mj_copyState(m, data_.get(), data.get(), mjSTATE_INTEGRATION);
    A_.setZero();
    ASSERT_EQ(costate_transition(model_.get(), data.get(), 1, A_.data(), nullptr, nullptr, nullptr, error_, 500), 0)
        << error_;
    EXPECT_TRUE(support::BitwiseEqual(A_, A));
  }
  const DataPtr data = MakeData(other.get());
  EXPECT_NE(costate_transition(model_.get(), data.get(), 1, A_.data(), nullptr, nullptr, nullptr, error_, 500), 0);
  EXPECT_NE(std::string(error_).find("the data was made for another model: it has "), std::string::npos) << error_;
  EXPECT_NE(std::string(error_).find("data of model 'arm' has "), std::string::npos) << error_;
  const VectorXd lambda = VectorXd::Zero(A_.rows());
  EXPECT_NE(costate_vjp(model_.get(), data.get(), 1, lambda.data(), nullptr, nullptr, nullptr, error_, 500), 0);
  EXPECT_THROW(GetState(model_.get(), data.get()), Error);
  EXPECT_THROW(Linearize(model_.get(), data.get()), Error);
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
                                               (hinge ? "hinge" : "slide") +
                                               "'/><geom size='.1' pos='.3 0 0'/></body>" + "</worldbody></mujoco>");
    const DataPtr data = MakeData(other.get());
    RowMajor B(2, 2);
    ASSERT_EQ(costate_transition(other.get(), data.get(), 3, B.data(), nullptr, nullptr, nullptr, error_, 500), 0)
        << error_;
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

// ---- residuals ------------------------------------------------------------------------------------------------------

// r = factor [m0 x0, u0 x1]: a user's pointer, row-major matrices, all that can be read
void ResidualValue(void* user, const costate_residual_input* in, mjtNum* r) {
  const double factor = *static_cast<double*>(user);
  r[0] = factor * in->measured[0] * in->x[0];
  r[1] = factor * (in->u ? in->u[0] : 0) * in->x[1];
}
void ResidualSlopes(void* user, const costate_residual_input* in, mjtNum* by_measured, mjtNum* by_x, mjtNum* by_u) {
  const double factor = *static_cast<double*>(user);
  std::fill_n(by_measured, 2, 0);
  std::fill_n(by_x, 2 * 4, 0);
  if (by_u) std::fill_n(by_u, 2, 0);
  by_measured[0] = factor * in->x[0];
  by_x[0] = factor * in->measured[0];
  if (!in->u) return;
  by_x[4 + 1] = factor * in->u[0];  // row 1 of 2 × 4
  by_u[1 * 1 + 0] = factor * in->x[1];
}

TEST(CResidual, IsACostOfATaskWithItsJacobianOrDifferenced) {
  static double factor = 2;
  char error[200];
  const int reads = COSTATE_READS_STATE | COSTATE_READS_CONTROL;
  ASSERT_EQ(costate_register_residual("c exact", 2, reads, ResidualValue, ResidualSlopes, &factor, error, sizeof error),
            0)
      << error;
  ASSERT_EQ(costate_register_residual("c differenced", 2, reads, ResidualValue, nullptr, &factor, error, sizeof error),
            0)
      << error;
  const support::TemporaryFolder folder;
  folder.Write("two.xml",
               "<mujoco><worldbody><body><joint name='a' type='slide'/><joint name='b' type='slide' axis='1 0 "
               "0'/><geom size='.1'/></body>"
               "</worldbody><actuator><motor joint='a'/></actuator></mujoco>");
  const VectorXd x = (VectorXd(4) << 0.3, -0.7, 0.2, 0.1).finished(), u = VectorXd::Constant(1, 0.4), none;
  const KnotView knot{.t = 0, .N = 10, .time = 0, .dt = 1, .x = x, .u = u, .s = none};
  CostExpansion expansion[2];
  for (int i = 0; i < 2; i++) {
    const Task task = LoadTask(folder.Write(
        "t.xml",
        std::string("<task model='two.xml' horizon='0.1' scale='sum'><measure name='v' qvel='a'/><cost callback='c ") +
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

TEST(CResidual, AJacobianThatDoesNotFitIsTold) {
  static double factor = 2;
  const auto wrong = [](void* user, const costate_residual_input* in, mjtNum* by_measured, mjtNum* by_x, mjtNum* by_u) {
    ResidualSlopes(user, in, by_measured, by_x, by_u);
    if (in->t == 3) by_x[4 + 1] *= 1.01;
  };
  const support::TemporaryFolder folder;
  folder.Write("two.xml",
               "<mujoco><worldbody><body><joint name='a' type='slide'/><joint name='b' type='slide' axis='1 0 "
               "0'/><geom size='.1'/></body></worldbody><actuator><motor name='push' joint='a'/></actuator>"
               "<keyframe><key name='off' qpos='0.3 0.2' qvel='0.1 0.4' ctrl='0.5'/></keyframe></mujoco>");
  char error[400];
  std::string start = "<start key='off'/>";
  const auto check = [&](costate_residual_jacobian jacobian) {
    EXPECT_EQ(costate_register_residual("c pair", 2, COSTATE_READS_STATE | COSTATE_READS_CONTROL, ResidualValue,
                                        jacobian, &factor, error, sizeof error),
              0);
    costate_task* task = costate_load_task(
        folder
            .Write("t.xml", "<task model='two.xml' horizon='0.01'>" + start +
                                "<measure name='v' qvel='a'/><cost callback='c pair' reads='v'/></task>")
            .c_str(),
        error, sizeof error);
    EXPECT_NE(task, nullptr) << error;
    const int code = costate_check_slopes(task, error, sizeof error);
    costate_delete_task(task);
    return code;
  };
  EXPECT_EQ(check(ResidualSlopes), 0) << error;
  EXPECT_EQ(check(wrong), 1);
  EXPECT_NE(std::string(error).find("lx by qpos[b] at knot 3: "), std::string::npos) << error;
  EXPECT_EQ(costate_check_slopes(nullptr, error, sizeof error), 2);
  EXPECT_STREQ(error, "task is NULL");

  // at rest in 0 both numbers of the residual are 0, and so is the cost's slope whatever the Jacobian: u0 x1 by x1
  const auto silent = [](void* user, const costate_residual_input* in, mjtNum* by_measured, mjtNum* by_x,
                         mjtNum* by_u) {
    ResidualSlopes(user, in, by_measured, by_x, by_u);
    by_x[4 + 1] -= 3;
  };
  start = "";
  EXPECT_EQ(check(ResidualSlopes), 0) << error;
  EXPECT_EQ(check(silent), 1);
  EXPECT_NE(std::string(error).find("J, of number 1 of its residual by qpos[b] at knot 0: "), std::string::npos)
      << error;
}

// a slide at 0.3 whose only cost is a residual of one's own
std::string SlideTask(const std::string& callback, const support::TemporaryFolder& folder) {
  folder.Write("slide.xml",
               "<mujoco><worldbody><body><joint name='a' type='slide'/><geom size='.1'/></body></worldbody>"
               "<actuator><motor joint='a'/></actuator></mujoco>");
  return folder.Write(
      "t.xml", "<task model='slide.xml' horizon='0.1'><start qpos='0.3'/><cost callback='" + callback + "'/></task>");
}

// a value that is none has no slope to compare, stated or not
TEST(CResidual, AValueThatIsNoneIsNotCompared) {
  const support::TemporaryFolder folder;
  const std::string file = SlideTask("c value", folder);
  const auto left_out = [](void*, const costate_residual_input*, mjtNum*) {};
  const auto late = [](void*, const costate_residual_input* in, mjtNum* r) { r[0] = in->t == 5 ? NAN : in->x[0]; };
  const auto good = [](void*, const costate_residual_input* in, mjtNum* r) { r[0] = in->x[0]; };
  char error[300];
  const auto checked = [&](costate_residual_value value) {
    EXPECT_EQ(costate_register_residual("c value", 1, COSTATE_READS_STATE, value, nullptr, nullptr, error, 300), 0);
    costate_task* task = costate_load_task(file.c_str(), error, sizeof error);
    EXPECT_NE(task, nullptr) << error;
    const int code = costate_check_slopes(task, error, sizeof error);
    costate_delete_task(task);
    return code;
  };
  EXPECT_EQ(checked(left_out), 2);
  EXPECT_NE(std::string(error).find("number 0 of its residual at knot 0 is nan"), std::string::npos) << error;
  EXPECT_EQ(checked(late), 2);
  EXPECT_NE(std::string(error).find("number 0 of its residual at knot 5 is nan"), std::string::npos) << error;
  EXPECT_EQ(checked(good), 0) << error;
}

// a callback that fails, as one that raises in Python, writes nothing: that is no slope of 0
TEST(CResidual, AJacobianThatIsNoneEndsTheSolveByName) {
  const auto value = [](void*, const costate_residual_input* in, mjtNum* r) { r[0] = in->x[0]; };
  const support::TemporaryFolder folder;
  const std::string file = SlideTask("c none", folder);
  char error[500];
  const auto solved = [&](costate_residual_jacobian jacobian) {
    EXPECT_EQ(
        costate_register_residual("c none", 1, COSTATE_READS_STATE, value, jacobian, nullptr, error, sizeof error), 0);
    costate_task* task = costate_load_task(file.c_str(), error, sizeof error);
    EXPECT_NE(task, nullptr) << error;
    costate_solve_result result{};
    result.iterations = -7;
    const int failed = costate_solve_task(task, nullptr, &result, nullptr, nullptr, nullptr, error, sizeof error);
    EXPECT_EQ(result.iterations == -7, failed != 0);
    const std::string said = error;
    EXPECT_EQ(costate_check_slopes(task, error, sizeof error), failed ? 2 : 0) << error;
    if (failed) {
      EXPECT_NE(std::string(error).find("residual 'c none': its Jacobian by x"), std::string::npos) << error;
    }
    costate_delete_task(task);
    std::copy_n(said.c_str(), said.size() + 1, error);
    return failed == 0;
  };
  EXPECT_FALSE(solved([](void*, const costate_residual_input*, mjtNum*, mjtNum*, mjtNum*) {}));
  EXPECT_NE(std::string(error).find("residual 'c none': its Jacobian by x is not finite at knot "), std::string::npos)
      << error;
  EXPECT_NE(std::string(error).find("row 0, column 0 is "), std::string::npos) << error;
  EXPECT_FALSE(solved([](void*, const costate_residual_input* in, mjtNum*, mjtNum* by_x, mjtNum*) {
    by_x[0] = 1;
    by_x[1] = in->t == 4 ? 1 / (in->x[1] - in->x[1]) : 0;
  }));
  EXPECT_NE(std::string(error).find("at knot 4: row 0, column 1 is "), std::string::npos) << error;
  EXPECT_TRUE(solved([](void*, const costate_residual_input*, mjtNum*, mjtNum* by_x, mjtNum*) {
    by_x[0] = 1;
    by_x[1] = 0;
  })) << error;
}

// ---- policies and tasks ---------------------------------------------------------------------------------------------

// a law with sensors and a reference that changes, at random weights; its file, and a state to play it at
class CPolicyTest : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    folder_.Write("arm.xml", kModel);
    task_ = LoadTask(
        folder_.Write("arm.task.xml",
                      "<task model='arm.xml' horizon='0.1' controlstep='5'><start qvel='0 0 0 0'/><guess ctrl='0.2 "
                      "0.1'/><cost qvel='all'/>"
                      "<policy hidden='3'><observe qpos='all'/><observe qvel='a'/><observe sensor='all' scale='0.3'/>"
                      "<observe clock='0.5'/></policy></task>"));
    task_.U_guess = MatrixXd::Random(2, task_.N);
    law_.emplace(MakePolicy(task_));
    law_->Set(support::Random(3).Vector(law_->weights()));
    file_ = folder_.Write("policy.json", law_->ToJson());
    m_ = task_.model.get();
    data_ = MakeData(m_);
    SetState(m_, data_.get(), support::RandomState(m_, 2));
    data_->time = 0.034;  // in knot 3 of 0.01 s
    mj_forward(m_, data_.get());
  }
  support::TemporaryFolder folder_;
  Task task_;
  std::optional<NetworkPolicy> law_;
  std::string file_;
  const mjModel* m_ = nullptr;
  DataPtr data_;
  char error_[500] = "old";
};

TEST_F(CPolicyTest, PlaysTheLawOfTheFile) {
  costate_policy* policy = costate_load_policy(m_, file_.c_str(), error_, sizeof error_);
  ASSERT_NE(policy, nullptr) << error_;
  EXPECT_STREQ(error_, "");
  EXPECT_DOUBLE_EQ(costate_policy_interval(policy), 0.01);
  const Dims dims(m_);
  VectorXd u(dims.nu), expected(dims.nu);
  RowMajor u_x(dims.nu, dims.ndx), u_s(dims.nu, dims.ns);
  const VectorXd x = GetState(m_, data_.get()), s = Eigen::Map<const VectorXd>(data_->sensordata, dims.ns);
  ASSERT_EQ(costate_policy_control(policy, data_.get(), u.data(), u_x.data(), u_s.data(), error_, sizeof error_), 0)
      << error_;
  law_->Control({3, data_->time, x, s}, expected);
  EXPECT_TRUE(support::BitwiseEqual(u, expected)) << "every number of the file is exact";

  // its slopes, one entry of state and sensors after the other
  constexpr double kStep = 1e-6;
  RowMajor by_x(dims.nu, dims.ndx), by_s(dims.nu, dims.ns);
  VectorXd plus(dims.nu), minus(dims.nu);
  const auto control = [&](VectorXd* out) {
    ASSERT_EQ(costate_policy_control(policy, data_.get(), out->data(), nullptr, nullptr, nullptr, 0), 0);
  };
  for (int i = 0; i < dims.ndx; i++) {
    SetState(m_, data_.get(), Retract(m_, x, kStep * VectorXd::Unit(dims.ndx, i)));
    control(&plus);
    SetState(m_, data_.get(), Retract(m_, x, -kStep * VectorXd::Unit(dims.ndx, i)));
    control(&minus);
    by_x.col(i) = (plus - minus) / (2 * kStep);
  }
  SetState(m_, data_.get(), x);
  for (int i = 0; i < dims.ns; i++) {
    data_->sensordata[i] = s[i] + kStep;
    control(&plus);
    data_->sensordata[i] = s[i] - kStep;
    control(&minus);
    data_->sensordata[i] = s[i];
    by_s.col(i) = (plus - minus) / (2 * kStep);
  }
  EXPECT_TRUE(MatricesNearRelative(u_x, by_x, 1e-8));
  EXPECT_TRUE(MatricesNearRelative(u_s, by_s, 1e-8));

  // before the reference its first knot, behind it the last
  for (const double time : {-1.0, 0.0999, 7.0}) {
    data_->time = time;
    control(&u);
    law_->Control({time < 0 ? 0 : task_.N - 1, time, x, s}, expected);
    EXPECT_TRUE(support::BitwiseEqual(u, expected)) << time;
  }
  costate_delete_policy(policy);
  costate_delete_policy(nullptr);
}

// each number of such a file is one, what the law makes of them need not be
TEST_F(CPolicyTest, AControlThatIsNoNumberIsAnError) {
  const Dims dims(m_);
  // all numbers below these members, apart from signs
  const auto refused = [&](std::initializer_list<const char*> members, double number) {
    PlainJson flat = PlainJson::parse(law_->ToJson()).flatten();
    for (auto& [pointer, value] : flat.items()) {
      for (const char* member : members) {
        if (pointer.starts_with(member) && value.is_number()) value = std::copysign(number, value.get<double>());
      }
    }
    const std::string file = folder_.Write("huge.json", flat.unflatten().dump());
    costate_policy* policy = costate_load_policy(m_, file.c_str(), error_, sizeof error_);
    EXPECT_NE(policy, nullptr) << error_;
    VectorXd u = VectorXd::Constant(dims.nu, -7);
    RowMajor u_x = RowMajor::Constant(dims.nu, dims.ndx, -7), u_s = RowMajor::Constant(dims.nu, dims.ns, -7);
    const int failed =
        costate_policy_control(policy, data_.get(), u.data(), u_x.data(), u_s.data(), error_, sizeof error_);
    EXPECT_TRUE(u.allFinite() && u_x.allFinite() && u_s.allFinite());
    if (failed) {
      EXPECT_NE(std::string(error_).find("not finite"), std::string::npos) << error_;
      EXPECT_TRUE((u.array() == -7).all() && (u_x.array() == -7).all() && (u_s.array() == -7).all());
    }
    costate_delete_policy(policy);
    return failed != 0;
  };
  EXPECT_FALSE(refused({}, 0));
  EXPECT_TRUE(refused({"/layers"}, 1e308));
  EXPECT_TRUE(refused({"/layers/0", "/x_ref"}, 1e308));
  for (const char* member : {"/layers/0", "/layers/1", "/x_ref", "/controls", "/observations"})
    for (const double number : {1e308, 1e-320}) refused({member}, number);
}

TEST_F(CPolicyTest, SaysWhatDoesNotFit) {
  const auto complaint = [&](const mjModel* m, const std::string& file) {
    EXPECT_EQ(costate_load_policy(m, file.c_str(), error_, sizeof error_), nullptr);
    return std::string(error_);
  };
  EXPECT_NE(complaint(m_, folder_.File("gone.json")).find("gone.json' does not exist"), std::string::npos) << error_;
  EXPECT_NE(complaint(m_, folder_.path().string()).find(folder_.path().string() + "' is a folder"), std::string::npos)
      << error_;
  EXPECT_NE(complaint(m_, folder_.Write("bad.json", "{\"state\": 3")).find("it is no policy"), std::string::npos)
      << error_;
  EXPECT_NE(complaint(m_, folder_.Write("empty.json", "{}")).find("state"), std::string::npos) << error_;
  EXPECT_NE(complaint(nullptr, file_).find("m is NULL"), std::string::npos) << error_;
  std::string text = law_->ToJson();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return complaint(m_, folder_.Write("changed.json", other));
  };
  EXPECT_NE(changed("sensor[s].0", "sensor[x].0").find("sensor[x].0, which model 'arm' does not have"),
            std::string::npos)
      << error_;
  EXPECT_NE(changed("ctrl[m]", "ctrl[n]").find("ctrl[n], in model 'arm' it is ctrl[m]"), std::string::npos) << error_;
  EXPECT_NE(changed("\"knot_time\"", "\"knots\"").find("knot_time"), std::string::npos) << error_;
  PlainJson json = PlainJson::parse(text);
  for (const PlainJson& other : {PlainJson(), PlainJson::object(), PlainJson::array(), PlainJson(3)}) {
    json["observations"] = other;
    EXPECT_NE(complaint(m_, folder_.Write("changed.json", json.dump())).find("observations is no list of one or more"),
              std::string::npos)
        << error_;
  }
  EXPECT_NE(changed("\"b\": [", "\"b\": [1.0,").find("b has 4 numbers, W has 3 rows"), std::string::npos) << error_;
  std::string wide = text;
  wide.insert(wide.find('[', wide.rfind("\"W\": [") + 6) + 1, "1.0,");
  EXPECT_NE(complaint(m_, folder_.Write("wide.json", wide)).find("layer 1: a row of W has 4 numbers, expected 3"),
            std::string::npos)
      << error_;
  const ModelPtr other =
      LoadModelFromString("<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>");
  EXPECT_NE(complaint(other.get(), file_).find("10 entries of the state"), std::string::npos) << error_;

  costate_policy* policy = costate_load_policy(m_, file_.c_str(), nullptr, 0);
  ASSERT_NE(policy, nullptr);
  VectorXd u = VectorXd::Constant(2, -7);
  data_->qvel[0] = std::nan("");
  EXPECT_NE(costate_policy_control(policy, data_.get(), u.data(), nullptr, nullptr, error_, sizeof error_), 0);
  EXPECT_STREQ(error_, "the state in d is not finite");
  data_->qvel[0] = 0;
  data_->time = std::nan("");
  EXPECT_NE(costate_policy_control(policy, data_.get(), u.data(), nullptr, nullptr, error_, sizeof error_), 0);
  EXPECT_STREQ(error_, "the time in d is not finite");
  EXPECT_NE(costate_policy_control(policy, nullptr, u.data(), nullptr, nullptr, error_, sizeof error_), 0);
  EXPECT_NE(costate_policy_control(nullptr, data_.get(), u.data(), nullptr, nullptr, error_, sizeof error_), 0);
  EXPECT_EQ(u, VectorXd::Constant(2, -7));
  costate_delete_policy(policy);
}

TEST(CTask, IsSolvedAsTheCommandLineWould) {
  const std::string file = std::string(COSTATE_MODELS) + "/cartpole/swing_up.xml";
  char error[500];
  costate_task* task = costate_load_task(file.c_str(), error, sizeof error);
  ASSERT_NE(task, nullptr) << error;
  const int N = costate_task_intervals(task), nx = 4, nu = 1;
  EXPECT_EQ(costate_task_model(task)->nv, 2);
  EXPECT_EQ(costate_task_substeps(task), 2);
  Task own = LoadTask(file);
  ASSERT_EQ(N, own.N);
  RowMajor X(N + 1, nx), U(N, nu), K(N * nu, nx);
  costate_solve_result result;
  for (const int hops : {0, 1}) {
    const costate_solve_options options{20, hops, 1, nullptr, nullptr};
    ASSERT_EQ(costate_solve_task(task, &options, &result, X.data(), U.data(), K.data(), error, sizeof error), 0)
        << error;
    own.solver.iterations = 20;
    own.solver.threads = 1;
    if (hops > 0) own.hopping = {.rounds = hops, .after_solve = true};
    const SolveResult expected = SolveTask(own).result;
    EXPECT_TRUE(error[0] != 0 && expected.message.starts_with(error)) << error;  // why it ended
    EXPECT_TRUE(support::BitwiseEqual(X, expected.trajectory.X.transpose()));
    EXPECT_TRUE(support::BitwiseEqual(U, expected.trajectory.U.transpose()));
    for (int t = 0; t < N; t++)
      EXPECT_TRUE(support::BitwiseEqual(K.middleRows(t, 1), expected.policy.K[static_cast<std::size_t>(t)]));
    EXPECT_EQ(result.cost, expected.cost);
    EXPECT_EQ(result.status, COSTATE_ITERATION_LIMIT);
    EXPECT_EQ(result.iterations, static_cast<int>(expected.iterations.size()));
    if (hops == 0) EXPECT_EQ(result.iterations, 20);  // kicks that are asked for have theirs on top
    EXPECT_LT(result.cost, result.initial_cost);
    EXPECT_EQ(result.timestep, own.model->opt.timestep);
  }

  // numbers that mean nothing are no defaults
  for (const auto& [options, text] :
       {std::pair{costate_solve_options{-1, 0, 0, nullptr, nullptr}, "options.iterations is -1, expected at least 0"},
        {{0, -2, 0, nullptr, nullptr}, "options.hops is -2, expected at least -1"},
        {{0, 0, -3, nullptr, nullptr}, "options.threads is -3, expected at least 0"}}) {
    EXPECT_NE(costate_solve_task(task, &options, &result, nullptr, nullptr, nullptr, error, sizeof error), 0);
    EXPECT_NE(std::string(error).find(text), std::string::npos) << error;
  }

  // a callback of the host's ends it, and what was asked for the call before is forgotten
  int called = 0;
  const costate_solve_options stopping{0, 0, 0,
                                       [](void* user, int iteration, mjtNum, mjtNum) {
                                         return ++*static_cast<int*>(user) == 3 && iteration == 3 ? 1 : 0;
                                       },
                                       &called};
  ASSERT_EQ(costate_solve_task(task, &stopping, &result, nullptr, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_EQ(called, 3);
  EXPECT_EQ(result.status, COSTATE_INTERRUPTED);
  ASSERT_EQ(costate_solve_task(task, nullptr, &result, nullptr, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_EQ(result.status, COSTATE_CONVERGED);
  EXPECT_GT(result.iterations, 20);
  costate_delete_task(task);
  costate_delete_task(nullptr);
}

TEST(CTask, SaysWhatIsWrong) {
  char error[500];
  EXPECT_EQ(costate_load_task("gone.xml", error, sizeof error), nullptr);
  EXPECT_NE(std::string(error).find("gone.xml"), std::string::npos) << error;
  EXPECT_EQ(costate_load_task(nullptr, error, sizeof error), nullptr);
  EXPECT_STREQ(error, "file is NULL");
  EXPECT_NE(costate_solve_task(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, error, sizeof error), 0);
  EXPECT_STREQ(error, "task is NULL");
}

// solves run on threads of their own; with hops several side by side, which wait for each other
TEST(CTask, WhatACallbackThrowsIsItsError) {
  const std::string file = std::string(COSTATE_MODELS) + "/cartpole/swing_up.xml";
  char error[500];
  costate_task* task = costate_load_task(file.c_str(), error, sizeof error);
  ASSERT_NE(task, nullptr) << error;
  for (const int hops : {-1, 0, 2}) {
    const costate_solve_options options{0, hops, 2,
                                        [](void*, int iteration, mjtNum, mjtNum) {
                                          return iteration < 3 ? 0 : throw std::runtime_error("of the host");
                                        },
                                        nullptr};
    costate_solve_result result{};
    result.status = -7;
    EXPECT_NE(costate_solve_task(task, &options, &result, nullptr, nullptr, nullptr, error, sizeof error), 0);
    EXPECT_STREQ(error, "of the host") << hops;
    EXPECT_EQ(result.status, -7);
  }
  costate_delete_task(task);
}

// such a residual is called on threads that the host has never seen, where the engine would end the process
TEST(CResidual, ItsEngineErrorsAreErrorsOfTheCall) {
  char error[500];
  const auto fails = [](void*, const costate_residual_input* in, mjtNum* r) {
    r[0] = in->x[0];
    if (in->t == 5) mju_error("in the residual");
  };
  ASSERT_EQ(costate_register_residual("c fails", 1, COSTATE_READS_STATE, fails, nullptr, nullptr, error, sizeof error),
            0);
  const support::TemporaryFolder folder;
  folder.Write("slide.xml",
               "<mujoco><worldbody><body><joint name='a' type='slide'/><geom size='.1'/></body></worldbody>"
               "<actuator><motor joint='a'/></actuator></mujoco>");
  costate_task* task = costate_load_task(
      folder.Write("t.xml", "<task model='slide.xml' horizon='0.1'><cost callback='c fails'/></task>").c_str(), error,
      sizeof error);
  ASSERT_NE(task, nullptr) << error;
  for (const int threads : {1, 3}) {
    for (const int hops : {-1, 0, 2}) {
      const costate_solve_options options{0, hops, threads, nullptr, nullptr};
      EXPECT_NE(costate_solve_task(task, &options, nullptr, nullptr, nullptr, nullptr, error, sizeof error), 0);
      EXPECT_NE(std::string(error).find("in the residual"), std::string::npos) << error;
    }
  }
  costate_delete_task(task);
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

// as where Python has loaded another version: what looks like a model is not one
TEST_F(CApiTest, RefusesASecondEngine) {
  const auto refused = [this] {
    Dl_info own{};
    dladdr(dlsym(RTLD_DEFAULT, "frexp"), &own);  // any library will do: its name tells
    const support::TemporaryFolder folder;
    const std::string other = folder.File("libmujoco.so.9");
    std::filesystem::copy_file(own.dli_fname, other);
    if (!dlopen(other.c_str(), RTLD_NOW | RTLD_LOCAL)) return false;
    bool said = false;
    std::thread([&] {  // a thread looks once
      const int failed = Transition(0);
      said = failed && std::string(error_).find("two MuJoCo engines are loaded: " + other) != std::string::npos;
    })
        .join();
    char text[500];
    return said && !costate_load_task(COSTATE_MODELS "/cartpole/swing_up.xml", text, sizeof text) &&
           std::string(text).find("two MuJoCo engines are loaded") != std::string::npos;
  };
  EXPECT_EXIT(std::_Exit(refused() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// a control callback that asks for a derivative, in whose steps it is called again
TEST_F(CApiTest, RefusesACallWithinACallOnItsThread) {
  struct Inner {
    int depth = 0, refused = 0;
    char error[200] = "";
  };
  static thread_local Inner inner;
  inner = {};
  mjcb_control = [](const mjModel* m, mjData* d) {
    if (inner.depth > 0) return;
    inner.depth++;
    inner.refused += costate_transition(m, d, 3, nullptr, nullptr, nullptr, nullptr, inner.error, 200) != 0;
    inner.depth--;
  };
  EXPECT_EQ(Transition(3), 0) << error_;
  const RowMajor A = A_;
  mjcb_control = [](const mjModel*, mjData*) {};
  EXPECT_GT(inner.refused, 1);
  EXPECT_NE(std::string(inner.error).find("a derivative is being made on this thread"), std::string::npos)
      << inner.error;
  // the refused calls left no trace
  EXPECT_EQ(Transition(3), 0) << error_;
  mjcb_control = nullptr;
  EXPECT_TRUE(support::BitwiseEqual(A_, A));
}

// MuJoCo's Python bindings have their callbacks in a module of this name; it is made here of a library that has a
// function of that type
TEST_F(CApiTest, RefusesCallbacksOfMujocosPythonBindings) {
  const support::TemporaryFolder folder;
  const std::string module = folder.File("_callbacks.cpython-312-x86_64-linux-gnu.so");
  Dl_info own{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "frexp"), &own), 0);
  std::filesystem::copy_file(own.dli_fname, module);
  void* handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  costate_rollout* rollout = costate_make_rollout(model_.get(), data_.get(), 1, nullptr, 0, error_, sizeof error_);
  ASSERT_NE(rollout, nullptr) << error_;
  mjcb_control = reinterpret_cast<mjfGeneric>(dlsym(handle, "frexp"));  // never called
  const auto refused = [&](bool failed) {
    EXPECT_TRUE(failed);
    EXPECT_NE(std::string(error_).find("mjcb_control is a Python function"), std::string::npos) << error_;
    std::strcpy(error_, "old");
  };
  refused(Transition(0) != 0);
  refused(Transition(1) != 0);
  const VectorXd x = GetState(model_.get(), data_.get()), u = VectorXd::Zero(2);
  refused(costate_rollout_forward(rollout, x.data(), u.data(), 1, nullptr, nullptr, error_, sizeof error_) != 0);
  refused(costate_make_rollout(model_.get(), data_.get(), 1, nullptr, 0, error_, sizeof error_) == nullptr);
  refused(costate_load_task(COSTATE_MODELS "/cartpole/swing_up.xml", error_, sizeof error_) == nullptr);
  mjcb_control = nullptr;
  costate_delete_rollout(rollout);
  EXPECT_EQ(Transition(0), 0) << error_;
  dlclose(handle);
}

}  // namespace
}  // namespace costate
