#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace costate::cli {

bool IsTerminal(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) && term && std::string(term) != "dumb";
}

int TerminalWidth(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);
  const long total = std::lround(std::min(seconds, 1e9));
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
}

std::string FormatBar(double fraction, int width) {
  width = std::max(width, 0);
  const double filled = fraction > 0 ? std::min(fraction, 1.0) * width : 0;
  const int cells = static_cast<int>(filled);
  return "[" + std::string(cells, '#') + std::string(width - cells, '.') + "]";
}

Progress::Progress(int total, std::FILE* stream)
    : stream_(stream), terminal_(IsTerminal(stream)), total_(total), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { Clear(); }

void Progress::Line(const std::string& text) {
  const bool redraw = drawn_;
  Clear();
  fmt::print(stream_, "{}\n", text);
  if (redraw) {
    fmt::print(stream_, "{}", bar_);
    drawn_ = true;
  }
  std::fflush(stream_);
}

void Progress::Update(int done, const std::string& text) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;

  // time left: what remains at the mean pace so far
  std::string line;
  if (total_ > 0 && done > total_) {  // what comes on top has a number, and no end that is known
    line = fmt::format("{} beyond {}", done - total_, total_);
  } else if (total_ > 0) {
    const double fraction = static_cast<double>(done) / total_;
    line = fmt::format("{} {}/{}", FormatBar(fraction, 24), done, total_);
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    if (done > 0 && done < total_) line += fmt::format("  {} left", FormatDuration(elapsed * (total_ - done) / done));
  }
  if (!text.empty()) line += (line.empty() ? "" : "  ") + text;

  // never wrap: a wrapped bar could not be removed
  const int width = TerminalWidth(stream_) - 1;
  if (static_cast<int>(line.size()) > width) line.resize(std::max(width, 0));
  Clear();
  bar_ = line;
  fmt::print(stream_, "{}", bar_);
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::Stage(int done, const std::string& text) {
  last_ = {};
  Update(done, text);
}

void Progress::Clear() {
  if (!drawn_) return;
  fmt::print(stream_, "\r\033[K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace costate::cli
