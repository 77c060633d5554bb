#include "rollout/json_member.h"

namespace costate {
namespace {

constexpr int kDeepest = 64;  // what is written has about eight

}  // namespace

Json ParseJson(const std::string& text, const std::string& what) {
  const auto shallow = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDeepest)
      throw Error(ErrorCode::kFile, fmt::format("{} is damaged: it is nested more than {} deep", what, kDeepest));
    return true;
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kFile, fmt::format("{} is cut off or is not JSON, at byte {}", what, error.byte));
  } catch (const Json::out_of_range&) {
    throw Error(ErrorCode::kFile, what + " is damaged: it has a number that is too large to be one");
  }
}

JsonMember JsonMember::At(const char* key) const {
  const auto found = Object().find(key);
  if (found == json_->end()) throw BadJsonMember{Path(key) + " is not there"};
  return {*found, Path(key)};
}

JsonMember JsonMember::Entry(std::size_t i) const { return {Array()[i], fmt::format("{}[{}]", where_, i)}; }

std::vector<JsonMember> JsonMember::List() const {
  std::vector<JsonMember> all;
  for (std::size_t i = 0; i < Array().size(); ++i) all.push_back(Entry(i));
  return all;
}

std::string JsonMember::Text() const {
  if (!json_->is_string()) Expected("a text");
  return json_->get<std::string>();
}

bool JsonMember::Flag() const {
  if (!json_->is_boolean()) Expected("true or false");
  return json_->get<bool>();
}

double JsonMember::Real() const {
  if (!json_->is_number()) Expected("a number");
  return json_->get<double>();
}

std::vector<std::string> JsonMember::Texts() const {
  std::vector<std::string> texts;
  for (const JsonMember& member : List()) texts.push_back(member.Text());
  return texts;
}

std::map<std::string, std::string> JsonMember::TextsByName() const {
  std::map<std::string, std::string> texts;
  for (const auto& [name, json] : Object().items()) texts[name] = JsonMember(json, Path(name)).Text();
  return texts;
}

// where an entry stands is put together only when it is refused: there are many
VectorXd JsonMember::Reals() const {
  const Json& list = Array();
  VectorXd numbers(static_cast<Eigen::Index>(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i)
    numbers[static_cast<Eigen::Index>(i)] = list[i].is_number() ? list[i].get<double>() : Entry(i).Real();
  return numbers;
}

VectorXd JsonMember::RealsOr(double null) const {
  const Json& list = Array();
  VectorXd numbers(static_cast<Eigen::Index>(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i)
    numbers[static_cast<Eigen::Index>(i)] = list[i].is_number() ? list[i].get<double>() : Entry(i).RealOr(null);
  return numbers;
}

void JsonMember::Expected(const std::string& what) const {
  constexpr std::size_t kMost = 40;
  const std::string text = ToText(*json_, -1);
  throw BadJsonMember{fmt::format("{} is {}{}, expected {}", where_.empty() ? "it" : where_, text.substr(0, kMost),
                                  text.size() > kMost ? "…" : "", what)};
}

const Json& JsonMember::Object() const {
  if (!json_->is_object()) Expected("members by name");
  return *json_;
}

const Json& JsonMember::Array() const {
  if (!json_->is_array()) Expected("a list");
  return *json_;
}

}  // namespace costate
