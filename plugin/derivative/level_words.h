// The levels of derivatives in words, as task files, options and attributes name them.
#ifndef COSTATE_DERIVATIVE_LEVEL_WORDS_H_
#define COSTATE_DERIVATIVE_LEVEL_WORDS_H_

#include <costate/derivative.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace costate {

inline constexpr struct {
  const char* word;
  Level level;
} kLevelWords[] = {{"best", Level::kBest},
                   {"analytic", Level::kAnalytic},
                   {"residual", Level::kResidual},
                   {"step", Level::kStep},
                   {"auto", Level::kBest}};

/// Each of them, in the order of the table.
inline std::vector<std::string> LevelWords() {
  std::vector<std::string> words;
  for (const auto& known : kLevelWords) words.emplace_back(known.word);
  return words;
}

/// @pre one of LevelWords().
inline Level LevelOf(const std::string& word) {
  return std::find_if(std::begin(kLevelWords), std::end(kLevelWords),
                      [&](const auto& known) { return word == known.word; })
      ->level;
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_LEVEL_WORDS_H_
