#ifndef COSTATE_CORE_SCRATCH_H_
#define COSTATE_CORE_SCRATCH_H_

#include <cstddef>
#include <deque>

namespace costate {

/// A T that this thread uses again from call to call, so that calls take no memory; calls within calls have others.
template <typename T>
class Scratch {
 public:
  Scratch() : stack_(OfThread()) {
    if (stack_.used == stack_.values.size()) stack_.values.emplace_back();
    value_ = &stack_.values[stack_.used++];
  }
  ~Scratch() { --stack_.used; }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  struct Stack {
    std::deque<T> values;  // growing moves none
    std::size_t used = 0;
  };
  static Stack& OfThread() {
    static thread_local Stack stack;
    return stack;
  }

  Stack& stack_;
  T* value_;
};

}  // namespace costate

#endif  // COSTATE_CORE_SCRATCH_H_
