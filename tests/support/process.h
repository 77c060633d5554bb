// Runs a program as its user does: arguments in; output, errors and exit code out; never longer than its time limit.
#ifndef COSTATE_TESTS_SUPPORT_PROCESS_H_
#define COSTATE_TESTS_SUPPORT_PROCESS_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace costate::support {

struct ProcessResult {
  int exit_code = -1;      ///< -1 when a signal ended it
  int signal = 0;          ///< the signal that ended it, 0 when none
  bool timed_out = false;  ///< the limit was reached and it was killed
  std::string out, err;
};

struct ProcessOptions {
  std::string folder;                              ///< working folder; "" keeps the test's
  std::map<std::string, std::string> environment;  ///< set beside the test's own
  double timeout = 60;                             ///< [s]
};

/// A running program; its standard input is empty. Killed when the object dies.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {})
      : deadline_(Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.timeout))) {
    if (pipe2(out_, O_CLOEXEC) != 0 || pipe2(err_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
    if (pid_ == 0) Execute(argv, options);
    close(out_[1]);
    close(err_[1]);
  }
  ~Process() {
    if (!waited_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_[0]);
    close(err_[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return result_.out; }  ///< what was read of its standard output so far
  void Signal(int signal) { kill(pid_, signal); }

  /// Reads until standard output or error holds `text`; false when the program ended or its time was over before.
  bool WaitForText(const std::string& text) {
    while (!Contains(text)) {
      if (!ReadSome()) return Contains(text);
    }
    return true;
  }

  /// Reads to the end and waits for the exit.
  ProcessResult Wait() {
    while (ReadSome()) {
    }
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(pid_, &status, WNOHANG)) == 0) {
      if (Clock::now() >= deadline_) {
        result_.timed_out = true;
        kill(pid_, SIGKILL);
        ended = waitpid(pid_, &status, 0);
        break;
      }
      usleep(1000);
    }
    waited_ = true;
    if (ended == pid_ && WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
    if (ended == pid_ && WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
    return result_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn]] void Execute(const std::vector<char*>& argv, const ProcessOptions& options) {
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out_[1], 1);
    dup2(err_[1], 2);
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(argv[0], argv.data());
    dprintf(2, "%s: %s\n", argv[0], std::strerror(errno));
    _exit(127);
  }

  bool Contains(const std::string& text) const {
    return result_.out.find(text) != std::string::npos || result_.err.find(text) != std::string::npos;
  }

  // one round of reading; false at the end of both streams or of the time
  bool ReadSome() {
    pollfd fds[2] = {{out_open_ ? out_[0] : -1, POLLIN, 0}, {err_open_ ? err_[0] : -1, POLLIN, 0}};
    if (!out_open_ && !err_open_) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(fds, 2, static_cast<int>(left)) < 0) return errno == EINTR;
    if (fds[0].revents != 0) out_open_ = ReadInto(out_[0], &result_.out);
    if (fds[1].revents != 0) err_open_ = ReadInto(err_[0], &result_.err);
    return true;
  }

  static bool ReadInto(int file, std::string* text) {
    char buffer[65536];
    const ssize_t n = read(file, buffer, sizeof(buffer));
    if (n > 0) text->append(buffer, static_cast<std::size_t>(n));
    return n > 0 || (n < 0 && errno == EINTR);
  }

  Clock::time_point deadline_;
  int out_[2] = {-1, -1}, err_[2] = {-1, -1};
  bool out_open_ = true, err_open_ = true, waited_ = false;
  pid_t pid_ = -1;
  ProcessResult result_;
};

/// RunProcess({COSTATE_PROGRAM, "check", "missing.xml"}).exit_code
inline ProcessResult RunProcess(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  return Process(arguments, options).Wait();
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_PROCESS_H_
