// Solvers side by side, an iteration at a time, with no more of them at work than there are threads.
#ifndef COSTATE_OPTIMIZER_LOCKSTEP_H_
#define COSTATE_OPTIMIZER_LOCKSTEP_H_

#include <costate/solver.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace costate {

/// A solver enters, meets the others after each of its iterations, and leaves; the leader waits for them all and lets
/// them go on.
class Lockstep {
 public:
  Lockstep(int solvers, int threads) : records_(static_cast<std::size_t>(solvers)), left_(solvers), free_(threads) {}

  // of a solver
  void Enter() {
    std::unique_lock lock(mutex_);
    TakeThread(&lock);
  }
  /// false: it shall stop.
  bool Meet(int solver, const IterationRecord& record) {
    std::unique_lock lock(mutex_);
    records_[static_cast<std::size_t>(solver)] = record;
    waiting_++;
    free_++;
    const int round = round_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return round_ != round; });
    TakeThread(&lock);
    return go_on_[static_cast<std::size_t>(solver)] != 0;
  }
  void Leave() {
    const std::lock_guard lock(mutex_);
    left_--;
    free_++;
    changed_.notify_all();
  }

  // of the leader
  /// Waits until every solver that is left has met; its records, iteration 0 of those that have left. false: none is
  /// left.
  bool Await(std::vector<IterationRecord>* records) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == left_; });
    *records = records_;
    return left_ > 0;
  }
  /// @param go_on  of each solver: false: it shall stop.
  void Go(std::vector<char> go_on) {
    const std::lock_guard lock(mutex_);
    for (IterationRecord& record : records_) record = {};
    go_on_ = std::move(go_on);
    waiting_ = 0;
    round_++;
    changed_.notify_all();
  }

 private:
  void TakeThread(std::unique_lock<std::mutex>* lock) {
    changed_.wait(*lock, [&] { return free_ > 0; });
    free_--;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<IterationRecord> records_;
  std::vector<char> go_on_;
  int left_, free_;  // solvers, threads
  int waiting_ = 0, round_ = 0;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_LOCKSTEP_H_
