// Lists that are made anew again and again.
#ifndef COSTATE_CORE_REFILLED_H_
#define COSTATE_CORE_REFILLED_H_

#include <utility>
#include <vector>

namespace costate {

/// Values whose own memory stays when they are cleared: the same ones come back in the same order.
template <typename T>
class Refilled {
 public:
  /// As the value in its place was left when it was last removed.
  T& Append() {
    if (spare_.empty()) return all_.emplace_back();
    all_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    return all_.back();
  }
  void RemoveLast() {
    spare_.push_back(std::move(all_.back()));
    all_.pop_back();
  }
  void Clear() {
    while (!all_.empty()) RemoveLast();
  }
  const std::vector<T>& all() const { return all_; }

 private:
  std::vector<T> all_, spare_;  // the next one last
};

}  // namespace costate

#endif  // COSTATE_CORE_REFILLED_H_
