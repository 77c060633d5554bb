#include "optimizer/task_guess.h"

#include <costate/rollout.h>

#include <sstream>

#include "core/extremes.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

constexpr double kCheaperGuess = 0.5;  // of the cost of one that stands before it
constexpr double kGoodGuess = 0.01;    // 0.03 natural units off at the end: no search

}  // namespace

GuessSearch::GuessSearch(Task task, const VectorXd& u) : task_(std::move(task)), start_{task_.x0, u, task_.context} {}

void GuessSearch::Try(pugi::xml_node guess) {
  if (best_.guess && best_.cost < kGoodGuess) return;
  PlayedGuess played = Play(guess);
  if (!best_.guess || played.cost < kCheaperGuess * best_.cost) best_ = std::move(played);
}

PlayedGuess GuessSearch::Play(pugi::xml_node guess) try {
  std::ostringstream text;
  guess.print(text);
  const XmlFile file(text.str(), task_.model_file, task_.model_file);
  const XmlElement element = file.Root("guess");
  const MatrixXd U = ReadGuess(&element, start_, "", &task_);
  Simulator simulator(task_.model.get(), task_.context, task_.substeps, 1);
  Trajectory motion;
  if (!simulator.Rollout(task_.x0, U, &motion).ok()) return {guess, kInf, {}};
  return {guess, TotalCost(*task_.cost, motion, simulator.knot_time()), motion.X.col(task_.N)};
} catch (const Error&) {  // told when the guess that is taken is read
  return {guess, kInf, {}};
}

}  // namespace costate
