// What a costate.linearization sensor shows: words of its attribute `output`, and where their numbers lie.
#ifndef COSTATE_ENGINE_LINEARIZATION_OUTPUT_H_
#define COSTATE_ENGINE_LINEARIZATION_OUTPUT_H_

#include <string>
#include <vector>

#include "core/plugin_attributes.h"

namespace costate {

struct LinearizationOutput {
  enum Kind { kLevel, kSpectralRadius, kLargestSingularValue, kCondition, kSwitchDistance, kBlock };
  struct Item {
    Kind kind;
    bool of_B = false;
    int row = 0, col = 0, rows = 1, cols = 1;  ///< of a block, written row by row
    int size() const { return rows * cols; }
  };
  std::vector<Item> items;
  int size = 0;

  bool Needs(Kind kind) const;

  /// @throws Error{kInvalidArgument} that names the attribute and the word.
  LinearizationOutput(const mjModel* model, const Attributes& attributes);
};

}  // namespace costate

#endif  // COSTATE_ENGINE_LINEARIZATION_OUTPUT_H_
