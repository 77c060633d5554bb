// Callbacks of the engine that ask Costate for what simulates: the engine calls them in Costate's simulations, too.
#include <costate/costate_c.h>
#include <costate/mpc.h>
#include <costate/rollout.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

constexpr char kMassOnRail[] = R"(<mujoco model="rail"><option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/><site name="mass"/></body>
  </worldbody><actuator><motor joint="x" ctrlrange="-100 100"/></actuator></mujoco>)";
constexpr char kInCallback[] =
    "was called by a callback of the engine (mjcb_control …) in a step that Costate simulates";

// while one lives it is mjcb_control: it asks, unless it was called six deep, which would be without end
class AskingCallback {
 public:
  using Ask = std::function<void(const mjModel*, mjData*)>;

  explicit AskingCallback(Ask ask) {
    ask_ = std::move(ask);
    deepest_ = 0;
    mjcb_control = [](const mjModel* m, mjData* d) {
      static thread_local int depth = 0;
      if (depth == 6) return;
      ++depth;
      deepest_ = std::max(deepest_, depth);
      try {
        ask_(m, d);
      } catch (...) {
        --depth;
        throw;
      }
      --depth;
    };
  }
  ~AskingCallback() { mjcb_control = nullptr; }
  int deepest() const { return deepest_; }

 private:
  static Ask ask_;
  static int deepest_;
};
AskingCallback::Ask AskingCallback::ask_;
int AskingCallback::deepest_ = 0;

class CallbackTest : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    folder_.Write("rail.xml", kMassOnRail);
    file_ = folder_.Write(
        "rail.task.xml",
        "<task model='rail.xml' horizon='0.1'><solver iterations='2' threads='1'/><mpc rate='20' iterations='1'/>"
        "<cost site='mass' quantity='pos' index='0' target='1' weight='1' terminal='100'/>"
        "<cost qvel='all' weight='0.1' terminal='1'/></task>");
    model_ = LoadModelFromString(kMassOnRail);
    data_ = MakeData(model_.get());
  }

  // from outside it works, from a callback in its own steps it does not
  void ExpectRefusedWithin(const char* name, const std::function<bool(char*, int)>& call) {
    SCOPED_TRACE(name);
    int inside = 0, refused = 0;
    const AskingCallback callback([&](const mjModel*, mjData*) {
      char why[600] = "";
      ++inside;
      const bool works = call(why, sizeof why);
      refused += !works && std::string(why).find(std::string(name) + " " + kInCallback) == 0;
    });
    char error[600] = "";
    EXPECT_TRUE(call(error, sizeof error)) << error;
    EXPECT_GT(inside, 0);
    EXPECT_EQ(refused, inside);
    EXPECT_EQ(callback.deepest(), 1);
  }

  support::TemporaryFolder folder_;
  std::string file_;
  ModelPtr model_;
  DataPtr data_;
};

TEST_F(CallbackTest, WhatSimulatesInCIsRefusedWithinItself) {
  const mjModel* m = model_.get();
  const mjData* d = data_.get();
  ExpectRefusedWithin("costate_certify", [&](char* error, int n) { return costate_certify(m, d, error, n) >= 0; });

  char error[600];
  const std::vector<mjtNum> x0(2, 0.0), U(5, 0.1), X_bar(12, 1.0);
  costate_rollout* rollout = costate_make_rollout(m, d, 1, nullptr, 0, error, sizeof error);
  ASSERT_NE(rollout, nullptr) << error;
  ExpectRefusedWithin("costate_rollout_forward", [&](char* text, int n) {
    return costate_rollout_forward(rollout, x0.data(), U.data(), 5, nullptr, nullptr, text, n) == 0;
  });
  ExpectRefusedWithin("costate_rollout_backward", [&](char* text, int n) {
    return costate_rollout_backward(rollout, X_bar.data(), nullptr, nullptr, nullptr, nullptr, text, n) == 0;
  });
  costate_delete_rollout(rollout);

  costate_task* task = costate_load_task(file_.c_str(), error, sizeof error);
  ASSERT_NE(task, nullptr) << error;
  ExpectRefusedWithin("costate_solve_task", [&](char* text, int n) {
    return costate_solve_task(task, nullptr, nullptr, nullptr, nullptr, nullptr, text, n) == 0;
  });
  ExpectRefusedWithin("costate_check_slopes",
                      [&](char* text, int n) { return costate_check_slopes(task, text, n) == 0; });
  costate_delete_task(task);

  costate_mpc* mpc = costate_make_mpc(file_.c_str(), 0, error, sizeof error);
  ASSERT_NE(mpc, nullptr) << error;
  ExpectRefusedWithin("costate_mpc_start",
                      [&](char* text, int n) { return costate_mpc_start(mpc, m, d, nullptr, nullptr, text, n) == 0; });
  const auto control = [&](char* text, int n) {
    data_->time += 0.06;  // another plan is due
    return costate_mpc_control(mpc, d, nullptr, text, n) == 0;
  };
  EXPECT_TRUE(control(error, sizeof error)) << error;
  ExpectRefusedWithin("costate_mpc_control", control);
  costate_delete_mpc(mpc);
}

// with objects that are made anew each time, too
TEST_F(CallbackTest, WhatIsMadeInACallbackIsRefusedInIts) {
  int refused = 0;
  const AskingCallback callback([&](const mjModel* m, mjData* d) {
    char error[600] = "";
    const mjtNum x0[2] = {d->qpos[0], d->qvel[0]}, U[3] = {};
    costate_rollout* rollout = costate_make_rollout(m, d, 1, nullptr, 0, error, sizeof error);
    if (rollout) costate_rollout_forward(rollout, x0, U, 3, nullptr, nullptr, error, sizeof error);
    costate_delete_rollout(rollout);
    costate_task* task = costate_load_task(file_.c_str(), error, sizeof error);
    if (task) costate_solve_task(task, nullptr, nullptr, nullptr, nullptr, nullptr, error, sizeof error);
    costate_delete_task(task);
    refused += std::string(error).find(kInCallback) != std::string::npos;
  });
  for (int i = 0; i < 3; i++) mj_step(model_.get(), data_.get());
  EXPECT_GT(refused, 0);
  EXPECT_EQ(callback.deepest(), 2);
}

// The callback need not tell data apart: where it is refused the control of a plan stays, and so do all numbers.
TEST_F(CallbackTest, AHostsCallbackMayFollowPlansInItsOwnSteps) {
  VectorXd end[2];
  for (const bool by_callback : {false, true}) {
    MpcController mpc(LoadTask(file_), {.threads = false});
    const DataPtr d = MakeData(model_.get());
    ASSERT_TRUE(mpc.Start(model_.get(), d.get()));
    int followed = 0, refused = 0;
    const auto follow = [&](const mjModel*, mjData* data) {
      try {
        data->ctrl[0] = mpc.Control(data)[0];
        ++followed;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find(std::string("MpcController::Control ") + kInCallback), 0u)
            << error.what();
        ++refused;
      }
    };
    // a callback keeps level 1 from derivatives: so it does here
    const AskingCallback callback(by_callback ? AskingCallback::Ask(follow) : [](const mjModel*, mjData*) {});
    for (int i = 0; i < 40; i++) {
      if (!by_callback) d->ctrl[0] = mpc.Control(d.get())[0];
      mj_step(model_.get(), d.get());
    }
    EXPECT_EQ(followed, by_callback ? 40 : 0);
    EXPECT_EQ(refused > 0, by_callback);
    EXPECT_TRUE(mpc.Report().events.empty());
    end[by_callback] = GetState(model_.get(), d.get());
  }
  EXPECT_GT(end[0][0], 0.1);
  EXPECT_TRUE(support::BitwiseEqual(end[1], end[0]));
}

// a callback that does something else where it is refused would make plans of other controls: an error, not a wrong plan
TEST_F(CallbackTest, AControlThatARefusedCallbackChangesEndsTheCall) {
  for (const bool threads : {false, true}) {
    SCOPED_TRACE(threads);
    MpcController mpc(LoadTask(file_), {.threads = threads});
    ASSERT_TRUE(mpc.Start(model_.get(), data_.get()));
    const AskingCallback callback([&](const mjModel*, mjData* d) {
      try {
        d->ctrl[0] = mpc.Control(d)[0];
      } catch (const Error&) {
        d->ctrl[0] = 0.25;
      }
    });
    std::string why;
    for (int i = 0; i < 500 && why.empty(); i++) {
      try {
        mpc.Control(data_.get());
      } catch (const Error& error) {
        why = error.what();
      }
      data_->time += 0.01;
      if (threads) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_NE(why.find("was refused, and changed the control"), std::string::npos) << why;
    EXPECT_NE(why.find("if (d != mine) return;"), std::string::npos) << why;
  }
}

// plans are made on, beside a host whose callback asks whatever the data are
TEST_F(CallbackTest, APlannersThreadIsRefusedAndGoesOn) {
  char error[600];
  costate_mpc* mpc = costate_make_mpc(file_.c_str(), 1, error, sizeof error);
  ASSERT_NE(mpc, nullptr) << error;
  ASSERT_EQ(costate_mpc_start(mpc, model_.get(), data_.get(), nullptr, nullptr, error, sizeof error), 0) << error;
  std::atomic<int> refused = 0, failed = 0;
  costate_mpc_report report{};
  {
    const std::thread::id host = std::this_thread::get_id();
    const AskingCallback callback([&](const mjModel*, mjData* d) {
      char why[600];
      if (costate_mpc_control(mpc, d, d->ctrl, why, sizeof why) == 0) return;
      (std::this_thread::get_id() == host ? failed : refused)++;
    });
    for (int i = 0; i < 500 && (report.plans_taken < 4 || refused == 0); i++) {
      mj_step(model_.get(), data_.get());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      costate_mpc_get_report(mpc, &report, nullptr, 0);
    }
    costate_delete_mpc(mpc);
  }
  EXPECT_EQ(failed, 0);
  EXPECT_GT(refused, 0);
  EXPECT_GE(report.plans_taken, 4);
}

// derivatives are not refused: a sensor of the host's may be one, in Costate's rollouts too
TEST_F(CallbackTest, DerivativesMayBeAskedForInSimulations) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint type='slide'/><geom size='.1'/></body></worldbody>"
      "<sensor><user dim='1' needstage='pos'/></sensor></mujoco>");
  const DataPtr data = MakeData(model.get());
  mjcb_sensor = [](const mjModel* m, mjData* d, int stage) {
    static thread_local bool within = false;
    if (stage != mjSTAGE_POS || within) return;
    within = true;
    mjtNum A[4] = {};
    char error[300];
    EXPECT_EQ(costate_transition(m, d, 0, A, nullptr, nullptr, nullptr, error, sizeof error), 0) << error;
    d->sensordata[0] = A[1];
    within = false;
  };
  Simulator simulator(model.get(), GetContext(model.get(), data.get()), 1, 1);
  Trajectory motion;
  const bool good = simulator.Rollout(VectorXd::Zero(2), MatrixXd(0, 3), &motion).ok();
  mjcb_sensor = nullptr;
  ASSERT_TRUE(good);
  EXPECT_NEAR(motion.S(0, 2), model->opt.timestep, 1e-9);
}

}  // namespace
}  // namespace costate
