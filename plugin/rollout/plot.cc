#include "rollout/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

extern char** environ;

namespace costate {
namespace {

constexpr int kMostLines = 60;                         // more than that nobody tells apart in one picture
constexpr int kColumnsAtOnce = 13;                     // beside the abscissa: gnuplot takes 14 of a table
constexpr auto kTimeLimit = std::chrono::seconds(60);  // a stuck gnuplot must not hold the run

// within single quotes gnuplot takes everything but a quote literally
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c == '\n' || c == '\r' ? ' ' : c;
  }
  return quoted + "'";
}

// waits for the end; the raw status, or -1 when the time was over
int WaitFor(pid_t process) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeLimit;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      return -1;
    }
    usleep(1000);
  }
  return status;
}

}  // namespace

std::string PlotScript(const std::vector<Plot>& plots) {
  std::string script =
      "# draws the pictures of this run again: gnuplot plots.gnuplot\n"
      "if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
      "  set terminal pngcairo noenhanced size 1000,600\n"
      "} else {\n"
      "  set terminal png noenhanced size 1000,600\n"
      "}\n"
      "set datafile separator comma\nset grid\nset autoscale xfix\nset key outside right top noenhanced font ',8'\n";
  for (const Plot& plot : plots) {
    script +=
        fmt::format("\nset output {}\nset title {}\nset xlabel {}\nset ylabel {}\n{} logscale y\n", Quoted(plot.file),
                    Quoted(plot.title), Quoted(plot.x_label), Quoted(plot.y_label), plot.logarithmic ? "set" : "unset");
    script += plot.logarithmic_x ? "set logscale x\nset format x '1e%T'\n" : "";
    // each reading of a table takes all its columns apart: once for many lines
    const int lines = std::min<int>(kMostLines, static_cast<int>(plot.columns.size()));
    for (int i = 0; i < lines; ++i) {
      const int column = plot.columns[static_cast<std::size_t>(i)] + 1;
      if (i % kColumnsAtOnce == 0) {
        script += i > 0 ? " with table\n" : "";
        script += fmt::format("set table $lines{} separator comma\nplot {} skip 1 every {} using (strcol({}))",
                              i / kColumnsAtOnce, Quoted(plot.table), plot.every, plot.x + 1);
      }
      script += fmt::format(":(strcol({}))", column);
    }
    script += lines > 0 ? " with table\nunset table\n" : "";
    for (int i = 0; i < lines; ++i) {
      const int column = i % kColumnsAtOnce + 2;
      const std::string y = plot.logarithmic ? fmt::format("(abs(column({})))", column) : std::to_string(column);
      script += fmt::format("{}$lines{} using 1:{} with linespoints pointtype 7 pointsize 0.2 title {}",
                            i == 0 ? "plot " : ", \\\n     ", i / kColumnsAtOnce, y,
                            Quoted(plot.labels[static_cast<std::size_t>(i)]));
    }
    for (const PlotMarks& marks : plot.marks) {
      const std::string y = fmt::format("{}(column({}))", plot.logarithmic ? "abs" : "", marks.column + 1);
      script +=
          fmt::format(", \\\n     {} skip 1 using {}:(column({}) != 0 ? {} : 1/0) with points pointtype 2 title {}",
                      Quoted(plot.table), plot.x + 1, marks.where + 1, y, Quoted(marks.label));
    }
    script += plot.logarithmic_x ? "\nunset logscale x\nset format x\n" : "\n";
  }
  return script + "\nunset output\n";
}

std::string RunGnuplot(const std::filesystem::path& folder, const std::string& script) {
  // in the folder, silent, in a process group of its own: Ctrl-C is the caller's
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  for (int file : {0, 1, 2})
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", file ? O_WRONLY : O_RDONLY, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);

  // -d: not the user's own settings
  std::string words[] = {"gnuplot", "-d", script};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t process = 0;
  const int error = posix_spawnp(&process, "gnuplot", &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) return "gnuplot is not installed (Debian: apt-get install gnuplot-nox)";
  if (error != 0) return "gnuplot cannot be started: " + std::generic_category().message(error);

  const int status = WaitFor(process);
  if (status == -1) return "gnuplot took longer than a minute and was ended";
  if (WIFSIGNALED(status)) return fmt::format("gnuplot was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("gnuplot ended with code {}", WEXITSTATUS(status));
  return "";
}

}  // namespace costate
