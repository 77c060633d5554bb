#include <fmt/core.h>

#include <cxxabi.h>
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/extremes.h"
#include "core/lap.h"
#include "optimizer/mpc_driver.h"

namespace costate {
namespace {

constexpr std::size_t kRecent = 32;  // plans whose latency says what the next one will take

// the planner on its thread; everything but the planner itself is behind the mutex
class PlannerThread final : public MpcSchedule {
 public:
  PlannerThread(MpcDriver* driver, const MpcMeasurement& measured)
      : driver_(*driver),
        mpc_(driver->task.mpc),
        h_(driver->control_time),
        iterations_(driver->Iterations(mpc_.rate > 0 ? 1 / mpc_.rate : 0)) {
    book_ = driver_.control.book();
    driver_.report.plan_iterations = iterations_;
    WarmUp(measured);
    thread_ = std::thread([this] { Work(); });
  }
  ~PlannerThread() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      quit_ = true;
    }
    wake_.notify_all();
    driver_.planner.Abandon();
    thread_.join();
    if (done_) driver_.Count(measured_.time, number_, recent_.back());  // too late to be followed
  }

  void Exchange(const MpcMeasurement& measured) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (exception_) std::rethrow_exception(exception_);
    measured_ = measured;
    fresh_ = true;
    if (done_) {
      driver_.control.Take(std::move(plan_), number_, measured.time, reason_);
      driver_.Count(measured.time, number_, recent_.back());
      if (done_late_ > 0.5 * h_ && !told_late_) TellLate(measured.time, fmt::format("{:.3g} ms ago", 1e3 * done_late_));
      done_ = false;
    } else if (busy_ && !told_late_ && measured.time > due_ + 0.5 * h_) {
      TellLate(measured.time, fmt::format("{:.3g} ms ago", 1e3 * (measured.time - due_)));
    }
    lock.unlock();
    wake_.notify_all();
  }

 private:
  void TellLate(double now, const std::string& how) {
    told_late_ = true;
    driver_.control.SetLate(now, fmt::format("plan {} was due {}", number_, how));
    if (!busy_) driver_.control.SetArrived();
  }

  // one plan for nothing: memory is taken, and its time is a first guess of what plans take
  void WarmUp(const MpcMeasurement& measured) {
    Clock::time_point start = Clock::now();
    driver_.planner.Next(measured, 0, book_, iterations_, Budget(0));
    recent_.push_back(Lap(&start));
  }

  double Delay() const { return mpc_.delay >= 0 ? mpc_.delay : *std::max_element(recent_.begin(), recent_.end()); }
  double Budget(double delay) const {
    if (mpc_.budget > 0) return mpc_.budget;
    if (mpc_.delay >= 0) return std::max(delay, h_);
    return mpc_.rate > 0 ? 1 / mpc_.rate : kInf;
  }

  void Work() {
    try {
      while (PlanOnce()) {
      }
    } catch (const abi::__forced_unwind&) {  // the thread is being ended, as by Python where it is left in the middle
      throw;
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      exception_ = std::current_exception();
    }
  }

  bool PlanOnce() {
    MpcMeasurement measured;
    MpcPlanBook book;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return quit_ || (fresh_ && !done_ && measured_.time >= next_ - 1e-9); });
      if (quit_) return false;
      measured = measured_;
      fresh_ = false;
      busy_ = true;
      told_late_ = false;
      due_ = measured.time + driver_.Intervals(Delay()) * h_;
      next_ = mpc_.rate > 0 ? measured.time + 1 / mpc_.rate : 0;
      ++number_;
      book = book_;
    }
    Clock::time_point start = Clock::now();
    MpcPlanPtr plan = driver_.planner.Next(measured, due_, book, iterations_, Budget(Delay()));
    const double seconds = Lap(&start);

    std::lock_guard<std::mutex> lock(mutex_);
    if (plan) book_.Add(plan);
    recent_.push_back(seconds);
    if (recent_.size() > kRecent) recent_.pop_front();
    plan_ = std::move(plan);
    reason_ = driver_.planner.reason();
    done_late_ = measured_.time - due_;
    done_ = true;
    busy_ = false;
    return true;
  }

  MpcDriver& driver_;
  const MpcOptions& mpc_;
  const double h_;
  const int iterations_;
  std::deque<double> recent_;
  MpcPlanBook book_;  // what the robot follows or is about to

  std::mutex mutex_;
  std::condition_variable wake_;
  MpcMeasurement measured_;
  bool fresh_ = false, busy_ = false, done_ = false, quit_ = false, told_late_ = false;
  double due_ = 0, next_ = 0, done_late_ = 0;
  int number_ = 0;
  MpcPlanPtr plan_;
  std::string reason_;
  std::exception_ptr exception_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<MpcSchedule> MakePlannerThread(MpcDriver* driver, const MpcMeasurement& measured) {
  return std::make_unique<PlannerThread>(driver, measured);
}

}  // namespace costate
