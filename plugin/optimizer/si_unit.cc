#include "optimizer/si_unit.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>
#include <utility>

namespace costate {
namespace {

constexpr double kTurn = 2 * std::numbers::pi, kDegree = std::numbers::pi / 180;

struct NamedScale {
  const char* name;
  double scale;
};

// those that take a prefix
constexpr NamedScale kUnits[] = {{"m", 1}, {"s", 1}, {"rad", 1}, {"N", 1}, {"Nm", 1}, {"Ns", 1},
                                 {"J", 1}, {"W", 1}, {"V", 1},   {"A", 1}, {"Hz", 1}, {"Pa", 1}};
constexpr NamedScale kPrefixes[] = {{"n", 1e-9}, {"u", 1e-6}, {"µ", 1e-6}, {"m", 1e-3}, {"c", 1e-2},
                                    {"d", 1e-1}, {"k", 1e3},  {"M", 1e6},  {"G", 1e9}};

// and those that do not
constexpr NamedScale kWholeUnits[] = {{"kg", 1},
                                      {"sec", 1},
                                      {"second", 1},
                                      {"seconds", 1},
                                      {"msec", 1e-3},
                                      {"usec", 1e-6},
                                      {"min", 60},
                                      {"h", 3600},
                                      {"deg", kDegree},
                                      {"degree", kDegree},
                                      {"degrees", kDegree},
                                      {"°", kDegree},
                                      {"dps", kDegree},
                                      {"mrad", 1e-3},
                                      {"rev", kTurn},
                                      {"turn", kTurn},
                                      {"turns", kTurn},
                                      {"rpm", kTurn / 60},
                                      {"rps", kTurn},
                                      {"inch", 0.0254},
                                      {"ft", 0.3048},
                                      {"lbf", 4.4482216152605},
                                      {"kgf", 9.80665},
                                      {"meter", 1},
                                      {"meters", 1},
                                      {"metre", 1},
                                      {"metres", 1},
                                      {"radian", 1},
                                      {"radians", 1},
                                      {"1", 1}};

constexpr std::size_t kWord = 3;  // letters that are no symbol

std::optional<double> ScaleOfWord(const std::string& word) {
  const auto named = [](const auto& list, const std::string& name) {
    const auto at = std::find_if(std::begin(list), std::end(list), [&](const NamedScale& s) { return name == s.name; });
    return at == std::end(list) ? std::nullopt : std::optional<double>(at->scale);
  };
  if (const auto scale = named(kWholeUnits, word)) return scale;
  if (const auto scale = named(kUnits, word)) return scale;
  for (const NamedScale& prefix : kPrefixes) {
    if (!word.starts_with(prefix.name)) continue;
    if (const auto scale = named(kUnits, word.substr(std::string(prefix.name).size()))) return prefix.scale * *scale;
  }

  // "Deg", "RPM", "sec.": whole words mean the same in capitals, prefixes do not
  std::string lower = word.ends_with('.') ? word.substr(0, word.size() - 1) : word;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.size() < kWord) return std::nullopt;
  const auto whole = named(kWholeUnits, lower);
  return whole ? whole : named(kUnits, lower);
}

// "s^2", "s²", "s2": the unit and its power
std::pair<std::string, int> TakePower(std::string word) {
  constexpr NamedScale kRaised[] = {{"²", 2}, {"³", 3}, {"^2", 2}, {"^3", 3}, {"**2", 2}, {"2", 2}, {"3", 3}};
  for (const NamedScale& raised : kRaised) {
    if (word.size() <= std::string(raised.name).size() || !word.ends_with(raised.name)) continue;
    word.resize(word.size() - std::string(raised.name).size());
    return {word, static_cast<int>(raised.scale)};
  }
  return {word, 1};
}

}  // namespace

std::optional<double> ScaleOfUnit(const std::string& text) {
  double scale = 1;
  int sign = 1;
  bool any = false, operand = true;
  for (std::size_t at = 0; at < text.size();) {
    const auto is = [&](const char* word) { return text.compare(at, std::string(word).size(), word) == 0; };
    const char* product = is("·") ? "·" : is("*") ? "*" : is(" ") ? " " : nullptr;
    if (product || text[at] == '/') {
      if (!product) {
        if (operand && any) return std::nullopt;  // "m//s"
        sign = -1;                                // what follows stands below: "m/s s" would be unclear, "N m/rad" not
        operand = true;
      }
      at += product ? std::string(product).size() : 1;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && text[end] != ' ' && text[end] != '/' && text.compare(end, 2, "·") != 0 &&
           !(text[end] == '*' && text.compare(end, 3, "**2") != 0))
      end += text.compare(end, 3, "**2") == 0 ? 3 : 1;
    const auto [word, power] = TakePower(text.substr(at, end - at));
    const std::optional<double> unit = ScaleOfWord(word);
    if (!unit) return std::nullopt;
    scale *= std::pow(*unit, sign * power);
    any = true;
    operand = false;
    at = end;
  }
  return any && !operand ? std::optional<double>(scale) : std::nullopt;
}

}  // namespace costate
