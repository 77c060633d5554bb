// Numbers as text, alike in every locale: strtod takes "0.022" for 0 once a program that links Costate speaks German.
#ifndef COSTATE_CORE_NUMBER_H_
#define COSTATE_CORE_NUMBER_H_

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

namespace costate {

/// The number that `text` begins with: "1e-3", "+.5", "inf". @return its characters; 0, and value as it was, without
/// one.
inline std::size_t LeadingNumber(std::string_view text, double* value) {
  const std::size_t sign = text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0;
  const auto [end, code] = std::from_chars(text.data() + sign, text.data() + text.size(), *value);
  return code == std::errc() ? static_cast<std::size_t>(end - text.data()) : 0;
}

/// True when the whole text is one finite number.
inline bool ParseNumber(std::string_view text, double* value) {
  return !text.empty() && LeadingNumber(text, value) == text.size() && std::isfinite(*value);
}

/// With all its digits: reads as the same number.
inline std::string ExactText(double value) { return fmt::format("{:.17g}", value); }

}  // namespace costate

#endif  // COSTATE_CORE_NUMBER_H_
