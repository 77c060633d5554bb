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
/// A host that changes its handler while a guard lives on some thread, and puts back what it was then given, was given
/// ours: each handler of a host's that was found is known by one of ours, which stands for it from then on, wherever it
/// is put. Of a host with more than eight handlers those beyond the eighth share one, and the last of them is meant.
///
/// Create and destroy it on one thread, in scope order. Every public function that calls the engine holds one; a loop
/// that calls many of them holds one itself, so that theirs are nested and free.
class EngineGuard {
 public:
  /// What runs while it is the innermost: also the caller's own functions; or the engine alone, and callbacks that it
  /// calls (mjcb_control …).
  enum class Around { kAll, kEngine };

  /// @param data  its stack is put back when the guard dies: an exception leaves the engine's functions before they
  ///              free what they took from it. May be null.
  explicit EngineGuard(mjData* data = nullptr, Around around = Around::kAll);
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
  friend struct GuardHandlers;
  friend bool IsInCallback() noexcept;
  static void Handle(int handler, const mjLogMessage* message);
  void Collect(const std::string& text, int count) noexcept;

  EngineGuard* outer_;
  mjData* data_;
  const Around around_;
  std::size_t pstack_ = 0, pbase_ = 0;
  std::vector<Warning> warnings_;
};

/// Is what asks a callback of the engine (mjcb_control …) that it calls in a step of Costate's own?
bool IsInCallback() noexcept;

/// Keeps what simulates from beginning within itself without end: the engine calls a host's callback in simulations of
/// Costate's, too.
/// @throws Error{kInvalidArgument} with the remedy where IsInCallback.
void RefuseInCallback(const char* function);

/// How often it has refused so far, on this thread: whoever is refused may have made something else of the control.
int RefusedInCallbacks() noexcept;

}  // namespace costate

#endif  // COSTATE_CORE_ENGINE_GUARD_H_
