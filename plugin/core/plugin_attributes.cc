#include "core/plugin_attributes.h"

#include <costate/error.h>
#include <fmt/format.h>

#include <cctype>
#include <sstream>

#include "core/number.h"

namespace costate {

Attributes::Attributes(const mjModel* m, int instance) : model_(m), instance_(instance) {
  const mjpPlugin* plugin = mjp_getPluginAtSlot(m->plugin[instance]);
  const char* name = mj_id2name(m, mjOBJ_PLUGIN, instance);
  owner_ = plugin->name;
  owner_ += name && *name ? fmt::format(" '{}'", name) : fmt::format(" (instance {})", instance);
}

std::string Attributes::Text(const char* key) const {
  const char* found = mj_getPluginConfig(model_, instance_, key);
  std::string text = found ? found : "";
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  std::size_t begin = 0;
  while (begin < text.size() && std::isspace(static_cast<unsigned char>(text[begin]))) ++begin;
  return text.substr(begin);
}

std::string Attributes::Required(const char* key) const {
  std::string text = Text(key);
  if (text.empty()) Fail(key, "it is not given");
  return text;
}

std::vector<std::string> Attributes::Words(const char* key) const {
  std::istringstream stream(Text(key));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

double Attributes::Number(const char* key, double otherwise) const {
  const std::string text = Text(key);
  if (text.empty()) return otherwise;
  double value = 0;
  if (!ParseNumber(text, &value)) {
    Fail(key, fmt::format("'{}' is not a finite number", text));
  }
  return value;
}

double Attributes::Positive(const char* key, double otherwise) const {
  const double value = Number(key, otherwise);
  if (!(value > 0)) Fail(key, fmt::format("it is {:g}, expected a number above 0", value));
  return value;
}

double Attributes::NotNegative(const char* key, double otherwise) const {
  const double value = Number(key, otherwise);
  if (!(value >= 0)) Fail(key, fmt::format("it is {:g}, expected at least 0", value));
  return value;
}

int Attributes::Choice(const char* key, const std::vector<std::string>& words, int otherwise) const {
  const std::string text = Text(key);
  if (text.empty()) return otherwise;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<int>(i);
  }
  Fail(key, fmt::format("it is '{}', expected {}", text, fmt::join(words, ", ")));
}

void Attributes::Fail(const char* key, const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: attribute {}: {}", owner_, key, why));
}

void Attributes::Fail(const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", owner_, why));
}

}  // namespace costate
