// One callback, one list of records, one word to stop, of several solves one after the other.
#ifndef COSTATE_OPTIMIZER_GO_ON_H_
#define COSTATE_OPTIMIZER_GO_ON_H_

#include <costate/ilqr.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
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

/// The same options, whose `stop` stays true once it was: all copies of them stop together.
inline IlqrOptions StaysStopped(IlqrOptions options) {
  if (!options.stop) return options;
  options.stop = [asked = std::move(options.stop), over = std::make_shared<std::atomic<bool>>(false)] {
    if (!*over && asked()) *over = true;
    return over->load();
  };
  return options;
}

/// The same options for a solve that ends where it begins.
inline IlqrOptions Stopped(IlqrOptions options) {
  options.stop = [] { return true; };
  return options;
}

/// The user's word to stop several solves, by the callback or by IlqrOptions::stop: said once, it holds for all that
/// would follow, and the callback is not called again.
class UserStop {
 public:
  /// @param callback  must outlive it.
  UserStop(const IlqrOptions& options, const IterationCallback& callback)
      : options_(StaysStopped(options)), go_on_(callback), callback_(std::ref(go_on_)) {}
  UserStop(const UserStop&) = delete;
  UserStop& operator=(const UserStop&) = delete;

  const IlqrOptions& options() const { return options_; }          ///< for all of them
  const IterationCallback& callback() const { return callback_; }  ///< likewise
  IlqrOptions OptionsNow() const { return IsOver() ? Stopped(options_) : options_; }
  bool IsOver() const { return go_on_.over() || (options_.stop && options_.stop()); }

 private:
  IlqrOptions options_;
  GoOn go_on_;
  IterationCallback callback_;
};

/// A callback that hands iterations of another problem on as such (IterationRecord::beside); it must outlive it.
inline IterationCallback SayBeside(const char* what, GoOn* go_on) {
  return [what, go_on](IterationRecord record) {
    record.beside = what;
    return (*go_on)(record);
  };
}

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
