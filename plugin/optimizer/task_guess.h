// Which of several guesses a task begins with best.
#ifndef COSTATE_OPTIMIZER_TASK_GUESS_H_
#define COSTATE_OPTIMIZER_TASK_GUESS_H_

#include <costate/task.h>
#include <costate/types.h>

#include <pugixml.hpp>
#include <string>

#include "optimizer/task_start.h"

namespace costate {

struct PlayedGuess {
  pugi::xml_node guess;
  double cost = 0;  ///< infinite where it cannot be simulated
  VectorXd end;     ///< x where it leads (nx); empty where it cannot be simulated
};

/// Plays <guess>es one by one and keeps the first, or a later one of less than half the cost of the one kept before: of
/// motions that are about as good the order decides, and where one costs next to nothing no others are played.
class GuessSearch {
 public:
  /// @param task  costs alone: what counts from the guess is left out; its own guess is not looked at.
  /// @param u     control that holds the start, or that a search for one begins at.
  GuessSearch(Task task, const VectorXd& u);

  void Try(pugi::xml_node guess);
  const PlayedGuess& best() const { return best_; }

 private:
  PlayedGuess Play(pugi::xml_node guess);

  Task task_;
  Start start_;
  PlayedGuess best_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_GUESS_H_
