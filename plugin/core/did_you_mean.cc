#include "core/did_you_mean.h"

#include <costate/model.h>
#include <fmt/format.h>

namespace costate {

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : ", did you mean '" + nearest + "'?";
}

std::string Suggestion(const std::string& name, const std::vector<std::string>& candidates, std::size_t most) {
  const std::string meant = DidYouMean(name, candidates);
  if (!meant.empty() || candidates.empty()) return meant;
  return " (there is " + FirstWords(candidates, most) + ")";
}

std::string JoinWords(const std::vector<std::string>& words, const std::string& last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() || last.empty() ? ", " : " " + last + " ";
    text += words[i];
  }
  return text;
}

std::string FirstWords(std::vector<std::string> words, std::size_t most, const std::string& last) {
  if (words.size() <= most) return JoinWords(words, last);
  const std::size_t more = words.size() - most;
  words.resize(most);
  words.push_back(fmt::format("{} more", more));
  return JoinWords(words, last);
}

}  // namespace costate
