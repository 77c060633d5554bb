#include "core/engine_guard.h"

#include <costate/error.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace costate {
namespace {

// innermost guard of this thread
thread_local EngineGuard* innermost = nullptr;

// calls of this thread that were refused
thread_local int refused = 0;

// threads with a guard
std::mutex mutex;
int threads_guarded = 0;

// the host's handlers in the order in which they were found, each behind one of ours (never null once that was
// installed); which of ours was installed last
constexpr int kHandlers = 8;
std::array<std::atomic<mjfLogHandler>, kHandlers> host_handlers{};
int handlers_known = 0, installed = 0;

// of ours, those that hand on now: the last one may stand for a handler that hands down to it, and must not hand up
// again
thread_local unsigned handing_on = 0;

void HandToHost(int handler, const mjLogMessage* message) {
  struct HandingOn {
    explicit HandingOn(int handler) : outer(std::exchange(handing_on, handing_on | 1u << handler)) {}
    ~HandingOn() { handing_on = outer; }
    unsigned outer;
  } now(handler);
  const bool again = (now.outer >> handler & 1) != 0;
  host_handlers[again ? 0 : static_cast<std::size_t>(handler)].load()(message);
}

// the engine's text: "function: subject", then the detail
std::string Text(const mjLogMessage& message) {
  std::string text;
  if (message.func != nullptr && message.func[0] != '\0') text = std::string(message.func) + ": ";
  text += message.subject;
  if (message.body != nullptr && message.body[0] != '\0') text += std::string("\n") + message.body;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

// Ours, and which of them stands for what is installed. Under the mutex.
struct GuardHandlers {
  template <int handler>
  static void Handle(const mjLogMessage* message) {
    EngineGuard::Handle(handler, message);
  }
  template <int... handler>
  static constexpr std::array<mjfLogHandler, kHandlers> Make(std::integer_sequence<int, handler...>) {
    return {&Handle<handler>...};
  }
  static mjfLogHandler Ours(int handler) {
    static constexpr auto ours = Make(std::make_integer_sequence<int, kHandlers>());
    return ours[static_cast<std::size_t>(handler)];
  }
  // −1: the host's
  static int WhichOfOurs(mjfLogHandler current) {
    for (int i = 0; i < handlers_known; ++i) {
      if (Ours(i) == current) return i;
    }
    return -1;
  }
  static int StandsFor(mjfLogHandler host) {
    for (int i = 0; i < handlers_known; ++i) {
      if (host_handlers[static_cast<std::size_t>(i)].load() == host) return i;
    }
    if (handlers_known < kHandlers) ++handlers_known;
    host_handlers[static_cast<std::size_t>(handlers_known - 1)].store(host);
    return handlers_known - 1;
  }

  // on top of whatever is there, or as the host has put it
  static void Install() {
    if (handlers_known == 0) {  // known before ours is there, which another thread's message may call
      const mjfLogHandler first = mju_setLogHandler(nullptr);
      mju_setLogHandler(first);
      StandsFor(first);
    }
    const mjfLogHandler current = mju_setLogHandler(Ours(installed));
    if (current == Ours(installed)) return;
    const int ours = WhichOfOurs(current), wanted = ours >= 0 ? ours : StandsFor(current);
    if (wanted != installed) mju_setLogHandler(Ours(installed = wanted));
  }

  // the host's back, unless the host has replaced ours meanwhile
  static void Remove() {
    const mjfLogHandler current = mju_setLogHandler(host_handlers[static_cast<std::size_t>(installed)].load());
    if (current == Ours(installed)) return;
    const int ours = WhichOfOurs(current);
    mju_setLogHandler(ours >= 0 ? host_handlers[static_cast<std::size_t>(ours)].load() : current);
  }
};

void EngineGuard::Handle(int handler, const mjLogMessage* message) {
  if (innermost == nullptr || message->level < mjLOG_WARNING) {
    HandToHost(handler, message);
  } else if (message->level == mjLOG_WARNING) {
    try {
      innermost->Collect(Text(*message), 1);
    } catch (...) {
      // out of memory for the text; leaving the engine's warning by an exception would mute it for good
    }
  } else {
    throw Error(ErrorCode::kEngine, Text(*message));
  }
}

void EngineGuard::Collect(const std::string& text, int count) noexcept {
  for (Warning& warning : warnings_) {
    if (warning.text == text) {
      warning.count += count;
      return;
    }
  }
  try {
    warnings_.push_back({text, count});
  } catch (...) {
    // out of memory: this one is lost
  }
}

EngineGuard::EngineGuard(mjData* data, Around around) : outer_(innermost), data_(data), around_(around) {
  if (outer_ == nullptr) {
    // the host may have set its own handler since the last guard
    std::lock_guard<std::mutex> lock(mutex);
    GuardHandlers::Install();
    ++threads_guarded;
  }
  if (data_ != nullptr) {
    pstack_ = data_->pstack;
    pbase_ = data_->pbase;
  }
  innermost = this;
}

EngineGuard::~EngineGuard() {
  if (data_ != nullptr) {
    data_->pstack = pstack_;
    data_->pbase = pbase_;
  }
  innermost = outer_;
  if (outer_ != nullptr) {
    for (const Warning& warning : warnings_) outer_->Collect(warning.text, warning.count);
    return;
  }

  std::lock_guard<std::mutex> lock(mutex);
  if (--threads_guarded == 0) GuardHandlers::Remove();
}

std::vector<std::string> EngineGuard::TakeWarnings() {
  std::vector<std::string> texts;
  for (const Warning& warning : warnings_) {
    texts.push_back(warning.count == 1 ? warning.text
                                       : warning.text + " (" + std::to_string(warning.count) + " times)");
  }
  warnings_.clear();
  return texts;
}

bool IsInCallback() noexcept { return innermost != nullptr && innermost->around_ == EngineGuard::Around::kEngine; }

void RefuseInCallback(const char* function) {
  if (!IsInCallback()) return;
  ++refused;
  throw Error(ErrorCode::kInvalidArgument,
              std::string(function) +
                  " was called by a callback of the engine (mjcb_control …) in a step that Costate simulates on data "
                  "of its own, where it would begin again without end (remedy: the callback returns at once where the "
                  "data that it is given are not the host's: if (d != mine) return;)");
}

int RefusedInCallbacks() noexcept { return refused; }

}  // namespace costate
