// Where the parts of a state lie in its vector: parts are exchanged without going through an mjData.
#ifndef COSTATE_CORE_STATE_LAYOUT_H_
#define COSTATE_CORE_STATE_LAYOUT_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <vector>

namespace costate {

/// The elements of a signature that the model has: those that it lacks take the engine as long to pass by as to copy.
inline int PresentState(const mjModel* model, int signature) {
  int present = 0;
  for (int bit = 0; bit < mjNSTATE; ++bit) {
    const int element = 1 << bit;
    if ((signature & element) && mj_stateSize(model, element) > 0) present |= element;
  }
  return present;
}

/// How entries of one signature's vector go into another's: mj_getState lays elements out in the order of their bits.
class StateCopy {
 public:
  /// Elements that both signatures have.
  StateCopy(const mjModel* model, int from, int to) {
    int at_from = 0, at_to = 0;
    for (int bit = 0; bit < mjNSTATE; ++bit) {
      const int element = 1 << bit, size = mj_stateSize(model, element);
      if ((from & to & element) && size > 0) parts_.push_back({at_from, at_to, size});
      if (from & element) at_from += size;
      if (to & element) at_to += size;
    }
  }
  void operator()(const mjtNum* from, mjtNum* to) const {
    for (const Part& part : parts_) std::copy_n(from + part.from, part.size, to + part.to);
  }

 private:
  struct Part {
    int from, to, size;
  };
  std::vector<Part> parts_;
};

}  // namespace costate

#endif  // COSTATE_CORE_STATE_LAYOUT_H_
