#include "core/engine_guard.h"

#include <costate/error.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace costate {
namespace {

// innermost guard of this thread
thread_local EngineGuard* innermost = nullptr;

// threads with a guard, and the handler that was there before the first (never null once ours was installed)
std::mutex mutex;
int threads_guarded = 0;
std::atomic<mjfLogHandler> host_handler{nullptr};

// the handler that was there when ours was first installed: a host's own that was installed on top of ours hands what it
// does not want down to ours, which must not hand it up again
std::atomic<mjfLogHandler> first_handler{nullptr};
thread_local bool handing_on = false;

void HandToHost(const mjLogMessage* message) {
  struct HandingOn {
    HandingOn() : outer(std::exchange(handing_on, true)) {}
    ~HandingOn() { handing_on = outer; }
    bool outer;
  } now;
  (now.outer ? first_handler : host_handler).load()(message);
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

void EngineGuard::Handle(const mjLogMessage* message) {
  if (innermost == nullptr || message->level < mjLOG_WARNING) {
    HandToHost(message);
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

EngineGuard::EngineGuard(mjData* data) : outer_(innermost), data_(data) {
  if (outer_ == nullptr) {
    // the host may have set its own handler since the last guard: ours goes on top of whatever is there
    std::lock_guard<std::mutex> lock(mutex);
    if (host_handler.load() == nullptr) {  // known before ours is there, which another thread's message may call
      host_handler.store(mju_setLogHandler(nullptr));
      mju_setLogHandler(host_handler.load());
      first_handler.store(host_handler.load());
    }
    mjfLogHandler previous = mju_setLogHandler(&EngineGuard::Handle);
    if (previous != &EngineGuard::Handle) host_handler.store(previous);
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

  // last one: put the host's handler back, unless the host has replaced ours meanwhile
  std::lock_guard<std::mutex> lock(mutex);
  if (--threads_guarded > 0) return;
  mjfLogHandler current = mju_setLogHandler(host_handler.load());
  if (current != &EngineGuard::Handle) mju_setLogHandler(current);
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

}  // namespace costate
