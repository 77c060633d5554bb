// Base of tests that call the engine: a test fails on any engine warning that it did not expect.
#ifndef COSTATE_TESTS_SUPPORT_ENGINE_TEST_H_
#define COSTATE_TESTS_SUPPORT_ENGINE_TEST_H_

#include <costate/error.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/engine_guard.h"

namespace costate::support {

/// Use with TEST_F, or `using RolloutTest = costate::support::EngineTest;`. Warnings that library functions did not
/// take reach this guard; a test that provokes one takes it with TakeWarnings().
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { guard_ = std::make_unique<EngineGuard>(); }
  void TearDown() override {
    for (const std::string& warning : TakeWarnings()) ADD_FAILURE() << "engine warning: " << warning;
    guard_.reset();
  }
  std::vector<std::string> TakeWarnings() { return guard_->TakeWarnings(); }

 private:
  std::unique_ptr<EngineGuard> guard_;
};

/// EXPECT_ERROR(LoadModel("x.xml"), ErrorCode::kFile, "does not exist"): the code, and each given text within what().
#define EXPECT_ERROR(statement, expected_code, ...)                                               \
  do {                                                                                            \
    try {                                                                                         \
      statement;                                                                                  \
      ADD_FAILURE() << #statement << " throws nothing";                                           \
    } catch (const ::costate::Error& error) {                                                     \
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(expected_code)) << error.what(); \
      for (const char* text : {__VA_ARGS__}) {                                                    \
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos)                        \
            << "'" << text << "' is not in: " << error.what();                                    \
      }                                                                                           \
    }                                                                                             \
  } while (false)

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_ENGINE_TEST_H_
