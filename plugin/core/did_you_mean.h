// What was meant, most likely, by a name that is none; else what there is.
#ifndef COSTATE_CORE_DID_YOU_MEAN_H_
#define COSTATE_CORE_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace costate {

/// ", did you mean 'tip'?", or "" where no candidate is near.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates);

/// The same, or the candidates, " (there is a, b and c)", of more than `most` the first ones and how many more; ""
/// without any.
std::string Suggestion(const std::string& name, const std::vector<std::string>& candidates, std::size_t most = 12);

/// "a, b and c", without a last word "a, b, c".
std::string JoinWords(const std::vector<std::string>& words, const std::string& last = "and");

/// The first of them: "a, b and 7 more", without a last word "a, b, 7 more".
std::string FirstWords(std::vector<std::string> words, std::size_t most, const std::string& last = "and");

}  // namespace costate

#endif  // COSTATE_CORE_DID_YOU_MEAN_H_
