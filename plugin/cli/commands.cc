#include "cli/commands.h"

#include <costate/error.h>
#include <fmt/core.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace costate::cli {
namespace {

// timeout(1) signals the program and then its group: what comes so soon behind the first is no second one
constexpr double kSamePress = 0.2;  // [s]

volatile std::sig_atomic_t interrupted = 0;
timespec pressed = {};

// first signal: remember it; a second one ends at once
void OnInterrupt(int signal) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!interrupted) {
    pressed = now;
    interrupted = 1;
    return;
  }
  const double since =
      static_cast<double>(now.tv_sec - pressed.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - pressed.tv_nsec);
  if (since < kSamePress) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// CLI11's own ranges let NaN pass and name the largest double
CLI::Validator FiniteNumber(const char* name, bool zero) {
  const auto check = [zero](const std::string& text) -> std::string {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && (zero ? value >= 0 : value > 0);
    return good ? "" : fmt::format("'{}' is no number {}", text, zero ? "of at least 0" : "above 0");
  };
  return CLI::Validator(check, name);
}

}  // namespace

CLI::Validator Positive() { return FiniteNumber("POSITIVE", false); }

CLI::Validator Given() {
  const auto check = [](const std::string& text) { return text.empty() ? "is empty" : std::string(); };
  return CLI::Validator(check, "");
}

CLI::Validator NonNegative() { return FiniteNumber("NONNEGATIVE", true); }

void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print(stderr, "costate: warning: {}\n", warning);
}

void CatchInterrupts() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
}

bool Interrupted() { return interrupted != 0; }

bool IsTaskFile(const std::string& path) {
  // a pipe would wait for its other end; whoever reads it next says that it is no file
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;

  // the head of the file: a task's root element stands behind comments at most
  std::ifstream file(path, std::ios::binary);
  std::string head(65536, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));

  // skip <?…?>, <!--…--> and <!…>, then compare the first element's name
  std::size_t at = head.find('<');
  while (at != std::string::npos && at + 1 < head.size() && (head[at + 1] == '?' || head[at + 1] == '!')) {
    const bool comment = head.compare(at, 4, "<!--") == 0;
    const std::size_t end = head.find(comment ? "-->" : ">", at);
    at = end == std::string::npos ? end : head.find('<', end);
  }
  if (at == std::string::npos || head.compare(at, 5, "<task") != 0) return false;
  const char after = at + 5 < head.size() ? head[at + 5] : '\0';
  return after == ' ' || after == '\t' || after == '\r' || after == '\n' || after == '>' || after == '/';
}

void CheckIsRobot(const std::string& path) {
  if (!IsTaskFile(path)) return;
  throw Error(ErrorCode::kInvalidArgument,
              path + " is a task file: this reads a robot, the file that its model=\"…\" names");
}

bool IsRun(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace costate::cli
