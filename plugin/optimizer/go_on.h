// One callback of several solves, one after the other.
#ifndef COSTATE_OPTIMIZER_GO_ON_H_
#define COSTATE_OPTIMIZER_GO_ON_H_

#include <costate/solver.h>

namespace costate {

/// Hands iterations on; once it was told to stop, no solve goes on. Hand it over by std::ref.
class GoOn {
 public:
  /// @param callback  must outlive it.
  explicit GoOn(const IterationCallback& callback) : callback_(callback) {}

  bool operator()(const IterationRecord& record) {
    over_ = over_ || (callback_ && !callback_(record));
    return !over_;
  }

  bool over() const { return over_; }

 private:
  const IterationCallback& callback_;
  bool over_ = false;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_GO_ON_H_
