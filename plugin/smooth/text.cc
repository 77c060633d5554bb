// Smoothings as words.
#include <costate/smooth_contact.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "core/number.h"

namespace costate {
namespace {

struct Strategy {
  const char *name, *unit;
  double SmoothContact::*strength;
  double standard;
};
constexpr Strategy kStrategies[] = {{"onset", "m", &SmoothContact::onset, 0.005},
                                    {"softness", "s", &SmoothContact::softness, 0.1},
                                    {"distance", "m", &SmoothContact::distance, 0.02},
                                    {"friction", "1/s", &SmoothContact::friction, 10},
                                    {"solver", "m/s^2", &SmoothContact::solver, 1}};

// of auto, in mean sizes of the model's bodies
constexpr double kAutoOnset = 0.05, kAutoDistance = 0.2;

std::vector<std::string> SplitWords(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

double ReadStrength(const std::string& word, const std::string& number) {
  double value = 0;
  if (!ParseNumber(number, &value) || !(value > 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                "smoothing '" + word + "': '" + number + "' is no strength, expected a positive number");
  }
  return value;
}

}  // namespace

std::string ToString(const SmoothContact& options) {
  std::string text;
  for (const Strategy& s : kStrategies) {
    const double strength = options.*s.strength;
    if (strength > 0) text += fmt::format("{}{} {:g} {}", text.empty() ? "" : ", ", s.name, strength, s.unit);
  }
  if (text.empty()) return "none";
  const SmoothTargets& t = options.targets;
  std::string names;
  for (const std::string& name : t.geoms) names += " geom:" + name;
  for (const SmoothTargets::GeomPair& pair : t.pairs) names += " pair:" + pair.geom1 + "/" + pair.geom2;
  for (const std::string& name : t.joints) names += " joint:" + name;
  for (const std::string& name : t.tendons) names += " tendon:" + name;
  return names.empty() ? text : text + " of" + names;
}

SmoothContact ScaleSmooth(const SmoothContact& options, double factor) {
  SmoothContact out = options;
  if (!(factor > 0)) {
    for (const Strategy& s : kStrategies) out.*s.strength = 0;
    return out;
  }
  for (const Strategy& s : kStrategies) out.*s.strength *= factor;
  out.friction = options.friction / factor;
  return out;
}

SmoothContact ParseSmooth(const mjModel* model, const std::string& text) {
  SmoothContact out;
  if (text == "none") return out;
  const auto set = [&](const std::string& word, double SmoothContact::*strength, double value) {
    if (out.*strength > 0) {
      const auto of = std::find_if(std::begin(kStrategies), std::end(kStrategies),
                                   [&](const Strategy& s) { return s.strength == strength; });
      throw Error(ErrorCode::kInvalidArgument, fmt::format("smoothing '{}': {} is given twice", word, of->name));
    }
    out.*strength = value;
  };
  for (const std::string& word : SplitWords(text)) {
    const std::size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    if (name == "auto") {
      const double factor = colon == std::string::npos ? 1 : ReadStrength(word, word.substr(colon + 1));
      set(word, &SmoothContact::onset, kAutoOnset * factor * NotNull(model)->stat.meansize);
      set(word, &SmoothContact::distance, kAutoDistance * factor * model->stat.meansize);
      continue;
    }
    bool known = false;
    for (const Strategy& s : kStrategies) {
      if (name != s.name) continue;
      set(word, s.strength, colon == std::string::npos ? s.standard : ReadStrength(word, word.substr(colon + 1)));
      known = true;
    }
    if (!known) {
      throw Error(ErrorCode::kInvalidArgument,
                  "smoothing '" + word + "' is none of auto, onset, softness, distance, friction, solver");
    }
  }
  return out;
}

SmoothTargets ParseSmoothTargets(const std::string& text) {
  SmoothTargets out;
  for (const std::string& word : SplitWords(text)) {
    const std::size_t colon = word.find(':');
    const std::string kind = word.substr(0, colon), name = colon == std::string::npos ? "" : word.substr(colon + 1);
    const std::size_t slash = name.find('/');
    if (!name.empty() && kind == "geom") out.geoms.push_back(name);
    else if (!name.empty() && kind == "joint") out.joints.push_back(name);
    else if (!name.empty() && kind == "tendon") out.tendons.push_back(name);
    else if (kind == "pair" && slash != std::string::npos)
      out.pairs.push_back({name.substr(0, slash), name.substr(slash + 1)});
    else {
      throw Error(ErrorCode::kInvalidArgument,
                  "'" + word + "' is none of geom:NAME, pair:NAME/NAME, joint:NAME, tendon:NAME");
    }
  }
  return out;
}

}  // namespace costate
