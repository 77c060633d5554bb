// One callback, one list of records, of several solves one after the other.
#ifndef COSTATE_OPTIMIZER_GO_ON_H_
#define COSTATE_OPTIMIZER_GO_ON_H_

#include <costate/solver.h>

#include <vector>

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

/// A callback that keeps records and counts on from those that there are; both arguments must outlive it.
inline IterationCallback CountOn(std::vector<IterationRecord>* records, const IterationCallback& callback) {
  return [records, before = static_cast<int>(records->size()), &callback](const IterationRecord& record) {
    records->push_back(record);
    records->back().iteration += before;
    return !callback || callback(records->back());
  };
}

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_GO_ON_H_
