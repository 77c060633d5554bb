// Workers that share the jobs of one loop. Results do not depend on who does what: a job writes only what is its own.
#ifndef COSTATE_ROLLOUT_THREAD_POOL_H_
#define COSTATE_ROLLOUT_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace costate {

class ThreadPool {
 public:
  /// @param threads  workers, the calling thread (worker 0) among them; the others start with the first loop.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return threads_; }

  /// Runs job(i, worker) for i in [0, n), each worker taking the next i; returns when all are done. A worker that wakes
  /// up when the last i is taken is not waited for: on a busy machine that takes longer than many a loop.
  ///
  /// After an exception no further i is taken, and the exception of the smallest i is rethrown: the same one at any
  /// thread count, because every smaller i has been taken before. A loop inside a job runs on that job's worker alone.
  /// Not to be called from two threads at once.
  void ParallelFor(int n, const std::function<void(int, int)>& job);

 private:
  void Start();
  void Work(int worker, int seen);  // a thread's life: wait for a loop after those seen, take part, repeat
  void TakeJobs(int worker, const std::function<void(int, int)>& job);  // one worker's part of the current loop
  template <typename Condition>
  void Await(std::condition_variable* signal, std::unique_lock<std::mutex>* lock, Condition condition);
  void RunHere(int n, int worker, const std::function<void(int, int)>& job);

  const int threads_;
  const bool spin_;  // there is a core for each
  std::vector<std::thread> workers_;

  // the current loop; written under mutex_ while nobody works
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const std::function<void(int, int)>* job_ = nullptr;  // null: none may take part any more
  int n_ = 0;
  std::atomic<int> loop_{0};     // counts loops: a worker that has seen it waits for the next
  std::atomic<int> working_{0};  // workers (without the caller) that have begun to take part and not ended
  std::atomic<bool> quit_{false};
  std::atomic<int> next_{0};

  // the exception of the smallest i so far
  int failed_ = -1;
  std::exception_ptr exception_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_THREAD_POOL_H_
