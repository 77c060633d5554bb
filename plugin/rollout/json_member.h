// Files of JSON, read by hand: depth, kinds and ranges are judged, and what is refused is named by where it stands.
#ifndef COSTATE_ROLLOUT_JSON_MEMBER_H_
#define COSTATE_ROLLOUT_JSON_MEMBER_H_

#include <costate/types.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rollout/record_format.h"

namespace costate {

/// A text as JSON, no deeper than anything that is written: whatever copies, prints or compares a value calls itself
/// for each level, and a file may not decide how often.
/// @param what  stands in front of a complaint: "run 'a': record.json".
/// @throws Error{kFile}: "… is cut off or is not JSON, at byte 7", "… is damaged: it is nested too deep".
Json ParseJson(const std::string& text, const std::string& what);

/// Thrown by JsonMember, for a reader that knows the file.
struct BadJsonMember {
  std::string text;  ///< "horizon.substeps is 0, expected …"
};

/// A member and where it stands: what is of another kind is refused by that. The parser's own conversions read 2.7 as
/// 2, and their complaints name no member. Borrows the value.
class JsonMember {
 public:
  JsonMember(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  bool is_null() const { return json_->is_null(); }
  bool is_list() const { return json_->is_array(); }
  bool Is(const char* text) const { return *json_ == text; }
  bool Has(const char* key) const { return Object().contains(key); }
  JsonMember At(const char* key) const;
  std::vector<JsonMember> List() const;
  std::string Text() const;
  bool Flag() const;
  double Real() const;
  /// JSON has no NaN and no infinity: they are written as null.
  double RealOr(double null) const { return is_null() ? null : Real(); }
  template <typename T = int>
  T Whole(T least, T most = std::numeric_limits<T>::max()) const {
    const bool negative = json_->is_number_integer() && !json_->is_number_unsigned();
    const bool fits = negative                      ? std::in_range<T>(json_->get<std::int64_t>())
                      : json_->is_number_unsigned() ? std::in_range<T>(json_->get<std::uint64_t>())
                                                    : false;
    if (!fits || json_->get<T>() < least || json_->get<T>() > most)
      Expected(fmt::format("a whole number from {} to {}", least, most));
    return json_->get<T>();
  }
  std::vector<std::string> Texts() const;
  std::map<std::string, std::string> TextsByName() const;
  VectorXd Reals() const;               ///< a list of numbers …
  VectorXd RealsOr(double null) const;  ///< … some of which may be null

  [[noreturn]] void Expected(const std::string& what) const;

 private:
  const Json& Object() const;
  const Json& Array() const;
  JsonMember Entry(std::size_t i) const;
  std::string Path(const std::string& key) const { return where_.empty() ? key : where_ + "." + key; }

  const Json* json_;
  std::string where_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_JSON_MEMBER_H_
