// Progress on a terminal, plain lines in a pipe.
#ifndef COSTATE_PLUGIN_CLI_TERMINAL_H_
#define COSTATE_PLUGIN_CLI_TERMINAL_H_

#include <chrono>
#include <cstdio>
#include <string>

namespace costate::cli {

/// True when the stream ends at a person: a terminal that can move its cursor (not a pipe, file or TERM=dumb).
bool IsTerminal(std::FILE* stream);

/// Width of the terminal in columns; 80 when it is not known.
int TerminalWidth(std::FILE* stream);

/// "0.4 s", "12 s", "3 min 05 s", "2 h 10 min".
std::string FormatDuration(double seconds);

/// "[#####.....]" with `width` cells, filled to `fraction` (clamped to 0 … 1; NaN is 0).
std::string FormatBar(double fraction, int width);

/// A bar at the bottom of the terminal with the time left; lines printed through it scroll above. In a pipe there is no
/// bar and only the lines appear.
class Progress {
 public:
  /// @param total  units of work; 0: unknown, no time left is shown.
  explicit Progress(int total, std::FILE* stream = stdout);
  ~Progress();  ///< clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Prints one line (a newline is added) above the bar.
  void Line(const std::string& text);

  /// Redraws the bar, at most twenty times a second.
  void Update(int done, const std::string& text = "");

  /// The same at the beginning of a stage that may take long: always drawn.
  void Stage(int done, const std::string& text);

  /// Removes the bar; the next Update draws it again.
  void Clear();

 private:
  std::FILE* stream_;
  bool terminal_;
  int total_;
  bool drawn_ = false;
  std::string bar_;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_TERMINAL_H_
