// The guard: engine errors are exceptions on guarded threads only, and the host's own handlers survive.
#include "core/engine_guard.h"

#include <costate/error.h>
#include <costate/model.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/engine_test.h"

namespace costate {
namespace {

std::atomic<int> host_messages{0};
std::string host_text;

void HostHandler(const mjLogMessage* message) {
  ++host_messages;
  host_text = message->subject;
}

// installs a handler as a host does, and checks at the end that it is still the one
class HostScope {
 public:
  explicit HostScope(mjfLogHandler handler) : handler_(handler), before_(mju_setLogHandler(handler)) {
    host_messages = 0;
    host_text.clear();
  }
  ~HostScope() { EXPECT_EQ(mju_setLogHandler(before_), handler_) << "the host's handler was replaced"; }

 private:
  mjfLogHandler handler_, before_;
};

constexpr char kPendulum[] = R"(<mujoco model="pendulum"><option integrator="RK4"/><worldbody><body>
    <joint name="hinge" axis="0 1 0"/><geom size=".1" pos="0 0 -1"/></body></worldbody></mujoco>)";

mjfLogHandler handler_below = nullptr;

// as a host's that tells what it wants and hands all on to the one before
void HandsOn(const mjLogMessage* message) {
  if (++host_messages < 100) handler_below(message);
}

// a host may install such a handler over ours, which hands to the host: while a thread of ours is at work for long
TEST(EngineGuard, AHandlerThatHandsOnToOursHearsAMessageOnce) {
  std::atomic<bool> guarded{false}, over{false};
  std::thread at_work([&] {
    const EngineGuard guard;
    guarded = true;
    while (!over) std::this_thread::yield();
  });
  while (!guarded) std::this_thread::yield();
  host_messages = 0;
  handler_below = mju_setLogHandler(HandsOn);
  { const EngineGuard guard; }  // ours on top again
  mju_warning("the battery is low");
  EXPECT_EQ(host_messages, 1);
  over = true;
  at_work.join();
  EXPECT_EQ(mju_setLogHandler(nullptr), &HandsOn);
}

std::atomic<int> passing_messages{0};

// Keeps another thread under guard, as a planner's is: the host is handed ours then.
class GuardedThread {
 public:
  GuardedThread()
      : thread_([this] {
          const EngineGuard guard;
          guarded_ = true;
          while (!over_) std::this_thread::yield();
        }) {
    while (!guarded_) std::this_thread::yield();
  }
  ~GuardedThread() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> guarded_{false}, over_{false};
  std::thread thread_;
};

// what the host puts back is the handler that it has had, whatever guards have come and gone
TEST(EngineGuard, AHandlerThatTheHostPutsBackIsItsOwn) {
  const auto passing = [](const mjLogMessage*) { ++passing_messages; };
  for (const int guards_of_others : {0, 1, 2}) {
    SCOPED_TRACE(guards_of_others);
    const HostScope host(HostHandler);
    passing_messages = 0;
    {
      std::unique_ptr<GuardedThread> other = std::make_unique<GuardedThread>();
      for (int i = 0; i < 3; ++i) {
        const mjfLogHandler before = mju_setLogHandler(passing);
        {
          const EngineGuard guard;
          if (guards_of_others == 0) other.reset();
        }
        mju_warning("while it is another's");
        mju_setLogHandler(before);
        if (guards_of_others == 2) other = std::make_unique<GuardedThread>();
        mju_warning("back");
        EXPECT_EQ(host_text, "back");
        if (!other) other = std::make_unique<GuardedThread>();
      }
    }
    EXPECT_EQ(passing_messages, 3);
    EXPECT_EQ(host_messages, 3);
  }
}

TEST(EngineGuard, ThrowsTheEnginesOwnText) {
  EngineGuard guard;
  EXPECT_ERROR(mju_error("value %d is wrong", 3), ErrorCode::kEngine, "value 3 is wrong");

  // a second error after the first: the handler is not left muted
  EXPECT_ERROR(mju_error("again"), ErrorCode::kEngine, "again");
}

TEST(EngineGuard, ThrowsOutOfAnEngineFunctionAndPutsTheStackBack) {
  // mjd_transitionFD refuses RK4 by mju_error
  const ModelPtr model = LoadModelFromString(kPendulum);
  const DataPtr data = MakeData(model.get());
  mj_forward(model.get(), data.get());
  const std::size_t pstack = data->pstack, pbase = data->pbase;
  std::vector<double> A(4);
  try {
    EngineGuard guard(data.get());
    mjd_transitionFD(model.get(), data.get(), 1e-6, 0, A.data(), nullptr, nullptr, nullptr);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEngine);
    EXPECT_NE(std::string(error.what()).find("RK4"), std::string::npos) << error.what();
  }

  // an error with memory taken from the stack
  EXPECT_ERROR(
      {
        EngineGuard guard(data.get());
        mj_markStack(data.get());
        mj_stackAllocNum(data.get(), 10);
        EXPECT_NE(data->pstack, pstack);
        mj_stackAllocNum(data.get(), std::size_t{1} << 40);
      },
      ErrorCode::kEngine, "stack");
  EXPECT_EQ(data->pstack, pstack);
  EXPECT_EQ(data->pbase, pbase);
  mj_step(model.get(), data.get());
  EXPECT_GT(data->time, 0);
}

TEST(EngineGuard, CollectsEachWarningOnceWithItsCount) {
  const HostScope host(HostHandler);
  EngineGuard guard;
  mju_warning("first");
  for (int i = 0; i < 3; ++i) mju_warning("second %d", 2);
  EXPECT_EQ(guard.TakeWarnings(), (std::vector<std::string>{"first", "second 2 (3 times)"}));
  EXPECT_TRUE(guard.TakeWarnings().empty());
  EXPECT_EQ(host_messages, 0);
}

TEST(EngineGuard, InnermostCollectsAndWhatNobodyTookPassesOutwards) {
  EngineGuard outer;
  {
    EngineGuard taken;
    mju_warning("taken");
    EXPECT_EQ(taken.TakeWarnings().size(), 1u);
  }
  mju_warning("left");
  {
    EngineGuard left;
    mju_warning("left");
  }
  EXPECT_EQ(outer.TakeWarnings(), (std::vector<std::string>{"left (2 times)"}));
}

TEST(EngineGuard, HostHandlerIsBackAfterTheLastGuard) {
  const HostScope host(HostHandler);
  {
    EngineGuard guard;
    EngineGuard nested;
  }
  mju_warning("to the host");
  EXPECT_EQ(host_messages, 1);
  EXPECT_EQ(host_text, "to the host");
}

TEST(EngineGuard, HostHandlerIsBackAfterAnException) {
  const HostScope host(HostHandler);
  EXPECT_ERROR(
      {
        EngineGuard guard;
        mju_error("stop");
      },
      ErrorCode::kEngine, "stop");
  EXPECT_EQ(host_messages, 0);
  mju_warning("to the host");
  EXPECT_EQ(host_messages, 1);
}

TEST(EngineGuard, UnguardedThreadsKeepTheHostsHandler) {
  const HostScope host(HostHandler);
  EngineGuard guard;
  std::thread([] { mju_warning("elsewhere"); }).join();
  EXPECT_EQ(host_messages, 1);
  EXPECT_EQ(host_text, "elsewhere");
  EXPECT_TRUE(guard.TakeWarnings().empty());
}

TEST(EngineGuard, InformationGoesToTheHost) {
  const HostScope host(HostHandler);
  EngineGuard guard;
  mju_info(mjTOPIC_NONE, "by the way");
  EXPECT_EQ(host_text, "by the way");
  EXPECT_TRUE(guard.TakeWarnings().empty());
}

TEST(EngineGuard, HandlerSetByTheHostMeanwhileStays) {
  // the host replaces ours while a guard lives: its choice stands when the guard dies …
  const mjfLogHandler before = mju_setLogHandler(nullptr);
  {
    EngineGuard guard;
    mju_setLogHandler(HostHandler);
  }
  EXPECT_EQ(mju_setLogHandler(HostHandler), &HostHandler);

  // … and the next guard works on top of it
  {
    EngineGuard guard;
    EXPECT_ERROR(mju_error("caught"), ErrorCode::kEngine, "caught");
  }
  EXPECT_EQ(mju_setLogHandler(before), &HostHandler);
}

int legacy_warnings = 0;

TEST(EngineGuard, LegacyHandlersAreUntouchedAndWorkOutsideGuards) {
  // the engine asks mju_user_warning only when no log handler is installed, so ours wins while it is there
  const HostScope host(mju_setLogHandler(nullptr));
  mju_user_warning = [](const char*) { ++legacy_warnings; };
  {
    EngineGuard guard;
    mju_warning("collected");
    EXPECT_EQ(guard.TakeWarnings().size(), 1u);
    EXPECT_EQ(legacy_warnings, 0);
    std::thread([] { mju_warning("elsewhere"); }).join();
    EXPECT_EQ(legacy_warnings, 1);
  }
  mju_warning("after");
  EXPECT_EQ(legacy_warnings, 2);
  mju_user_warning = nullptr;
}

TEST(EngineGuardDeath, ErrorOfAnUnguardedThreadIsAsFatalAsTheEngineMakesIt) {
  mjLogConfig config = mju_getLogConfig();
  config.logto_file = false;
  mju_setLogConfig(config);
  EXPECT_EXIT(
      {
        std::thread other([] {
          EngineGuard guard;
          std::this_thread::sleep_for(std::chrono::seconds(10));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        mju_error("fatal by default");
      },
      ::testing::ExitedWithCode(EXIT_FAILURE), "fatal by default");
  config.logto_file = true;
  mju_setLogConfig(config);
}

TEST(EngineGuard, ManyThreadsEachGetTheirOwnMessages) {
  const HostScope host(HostHandler);
  constexpr int kThreads = 8, kRounds = 2000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &wrong] {
      const std::string mine = "thread " + std::to_string(t);
      for (int i = 0; i < kRounds; ++i) {
        EngineGuard guard;
        mju_warning("%s", mine.c_str());
        if (guard.TakeWarnings() != std::vector<std::string>{mine}) ++wrong;
        try {
          mju_error("%s", mine.c_str());
          ++wrong;
        } catch (const Error& error) {
          if (error.what() != mine) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(host_messages, 0);
}

}  // namespace
}  // namespace costate
