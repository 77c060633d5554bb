#include "rollout/thread_pool.h"

#include <costate/error.h>

#include <chrono>
#include <string>
#include <system_error>
#include <utility>

namespace costate {
namespace {

constexpr std::chrono::microseconds kSpin(50);  // how long a thread stays awake for the next loop

constexpr int kMaxThreads = 512;  // far beyond any machine that runs one simulation well

// the loop that this thread is inside of
struct Inside {
  const ThreadPool* pool = nullptr;
  int worker = 0;
};
thread_local Inside inside;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int Workers(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument,
                "threads is " + std::to_string(threads) + ", expected 0 (all cores) to " + std::to_string(kMaxThreads));
  }
  if (threads > 0) return threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores < 1 ? 1 : cores > kMaxThreads ? kMaxThreads : cores;
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : threads_(Workers(threads)), spin_(threads_ <= static_cast<int>(std::thread::hardware_concurrency())) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    quit_ = true;
  }
  begin_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Start() {
  // what the system refuses to start is done by the others
  try {
    while (static_cast<int>(workers_.size()) < threads_ - 1) {
      workers_.emplace_back(&ThreadPool::Work, this, static_cast<int>(workers_.size()) + 1, loop_.load());
    }
  } catch (const std::system_error&) {
  }
}

// a loop of short jobs follows the last within microseconds, which is less than a sleeping thread takes to wake
template <typename Condition>
void ThreadPool::Await(std::condition_variable* signal, std::unique_lock<std::mutex>* lock, Condition condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + kSpin;
  while (spin_ && !condition() && Clock::now() < end) Pause();
  lock->lock();
  signal->wait(*lock, condition);
}

void ThreadPool::Work(int worker, int seen) {
  for (;;) {
    const std::function<void(int, int)>* job;
    {
      std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
      Await(&begin_, &lock, [&] { return quit_ || loop_ != seen; });
      if (quit_) return;
      seen = loop_;
      job = job_;
      if (job == nullptr) continue;  // awake too late
      ++working_;
    }
    TakeJobs(worker, *job);
    std::lock_guard<std::mutex> lock(mutex_);
    if (--working_ == 0) end_.notify_one();
  }
}

void ThreadPool::TakeJobs(int worker, const std::function<void(int, int)>& job) {
  const Inside outer = inside;
  inside = {this, worker};
  for (int i = next_++; i < n_; i = next_++) {
    try {
      job(i, worker);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      next_ = n_;
      if (failed_ < 0 || i < failed_) {
        failed_ = i;
        exception_ = std::current_exception();
      }
    }
  }
  inside = outer;
}

void ThreadPool::RunHere(int n, int worker, const std::function<void(int, int)>& job) {
  const Inside outer = inside;
  inside = {this, worker};
  try {
    for (int i = 0; i < n; ++i) job(i, worker);
  } catch (...) {
    inside = outer;
    throw;
  }
  inside = outer;
}

void ThreadPool::ParallelFor(int n, const std::function<void(int, int)>& job) {
  if (n <= 0) return;
  if (inside.pool == this) return RunHere(n, inside.worker, job);
  if (n == 1 || threads_ == 1) return RunHere(n, 0, job);
  if (workers_.empty()) Start();

  // begin
  {
    std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    n_ = n;
    next_ = 0;
    failed_ = -1;
    exception_ = nullptr;
    ++loop_;
  }
  begin_.notify_all();
  TakeJobs(0, job);

  // end: nobody begins any more, whoever has begun is waited for
  {
    std::lock_guard<std::mutex> lock(mutex_);
    job_ = nullptr;
  }
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  Await(&end_, &lock, [&] { return working_ == 0; });
  if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
}

}  // namespace costate
