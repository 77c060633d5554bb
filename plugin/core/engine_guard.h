// The engine's errors become exceptions, its warnings a list, and its host keeps its own handlers.
#ifndef COSTATE_CORE_ENGINE_GUARD_H_
#define COSTATE_CORE_ENGINE_GUARD_H_

#include <mujoco/mujoco.h>

#include <cstddef>
#include <string>
#include <vector>

namespace costate {

/// While a guard lives, on its thread: mju_error throws Error{kEngine} with the engine's text, mju_warning is
/// collected.
///
/// The engine has one log handler a process. The first guard installs ours, the last one puts the host's back; messages
/// of threads without a guard, and all information messages, go to the host's handler unchanged. Guards nest: the
/// innermost collects, and what nobody took from it passes on to the one around it. A nested guard takes no lock.
///
/// Create and destroy it on one thread, in scope order. Every public function that calls the engine holds one; a loop
/// that calls many of them holds one itself, so that theirs are nested and free.
class EngineGuard {
 public:
  /// @param data  its stack is put back when the guard dies: an exception leaves the engine's functions before they
  ///              free what they took from it. May be null.
  explicit EngineGuard(mjData* data = nullptr);
  ~EngineGuard();
  EngineGuard(const EngineGuard&) = delete;
  EngineGuard& operator=(const EngineGuard&) = delete;

  /// The warnings so far, each text once, in order of first appearance ("… (3 times)"); empties the list.
  std::vector<std::string> TakeWarnings();

 private:
  struct Warning {
    std::string text;
    int count;
  };
  static void Handle(const mjLogMessage* message);
  void Collect(const std::string& text, int count) noexcept;

  EngineGuard* outer_;
  mjData* data_;
  std::size_t pstack_ = 0, pbase_ = 0;
  std::vector<Warning> warnings_;
};

}  // namespace costate

#endif  // COSTATE_CORE_ENGINE_GUARD_H_
