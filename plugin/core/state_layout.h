// Where the parts of a state lie in its vector: parts are exchanged without going through an mjData.
#ifndef COSTATE_CORE_STATE_LAYOUT_H_
#define COSTATE_CORE_STATE_LAYOUT_H_

#include <costate/state.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <vector>

namespace costate {

/// visit(element, size) of each element (mjtState) of a signature, also of those that the model lacks, in the order in
/// which mj_getState lays them out.
template <typename F>
void ForEachStatePart(const mjModel* model, int signature, F&& visit) {
  for (int bit = 0; bit < mjNSTATE; ++bit) {
    const int element = 1 << bit;
    if (signature & element) visit(element, static_cast<int>(mj_stateSize(model, element)));
  }
}

/// The elements of a signature that the model has: those that it lacks take the engine as long to pass by as to copy.
inline int PresentState(const mjModel* model, int signature) {
  int present = 0;
  ForEachStatePart(model, signature, [&](int element, int size) {
    if (size > 0) present |= element;
  });
  return present;
}

/// How entries of one signature's vector go into another's: mj_getState lays elements out in the order of their bits.
class StateCopy {
 public:
  /// Elements that both signatures have.
  StateCopy(const mjModel* model, int from, int to) {
    int at_from = 0, at_to = 0;
    ForEachStatePart(model, from | to, [&](int element, int size) {
      if ((from & to & element) && size > 0) parts_.push_back({at_from, at_to, size});
      if (from & element) at_from += size;
      if (to & element) at_to += size;
    });
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

/// Like mj_setState and mj_getState of kStateSignature, which take a tenth of a small model's step.
inline void LoadState(const Dims& dims, mjData* data, const mjtNum* x) {
  std::copy_n(x, dims.nq, data->qpos);
  std::copy_n(x + dims.nq, dims.nv, data->qvel);
  std::copy_n(x + dims.nq + dims.nv, dims.na, data->act);
}
inline void SaveState(const Dims& dims, const mjData* data, mjtNum* x) {
  std::copy_n(data->qpos, dims.nq, x);
  std::copy_n(data->qvel, dims.nv, x + dims.nq);
  std::copy_n(data->act, dims.na, x + dims.nq + dims.nv);
}
static_assert(kStateSignature == (mjSTATE_QPOS | mjSTATE_QVEL | mjSTATE_ACT));

/// How many numbers a step hands on beside the state: rows of Trajectory::context.
inline int MovingContextSize(const mjModel* model) { return mj_stateSize(model, kMovingSignature); }

/// Some elements of a state by themselves.
inline int StatePartSize(const mjModel* model, int signature) {
  return static_cast<int>(mj_stateSize(model, signature));
}
inline VectorXd GetStatePart(const mjModel* model, const mjData* data, int signature) {
  VectorXd part(StatePartSize(model, signature));
  mj_getState(model, data, part.data(), signature);
  return part;
}
inline void SetStatePart(const mjModel* model, mjData* data, const VectorXd& part, int signature) {
  mj_setState(model, data, part.data(), signature);
}

/// The context of `model`, or some of its elements, in data of another one, but for what has another size there.
inline void SetFittingContext(const mjModel* model, ConstVectorRef context, const mjModel* other, mjData* data,
                              int elements = kContextSignature) {
  int at = 0;
  ForEachStatePart(model, kContextSignature, [&](int element, int size) {
    if ((element & elements) && mj_stateSize(other, element) == size)
      mj_setState(other, data, context.data() + at, element);
    at += size;
  });
}

/// A signature of `model` from data of another one; `state` stays as it is where an element has another size there.
inline void GetFittingState(const mjModel* other, const mjData* data, const mjModel* model, int signature,
                            VectorXd* state) {
  int at = 0;
  ForEachStatePart(model, signature, [&](int element, int size) {
    if (size > 0 && mj_stateSize(other, element) == size) mj_getState(other, data, state->data() + at, element);
    at += size;
  });
}

}  // namespace costate

#endif  // COSTATE_CORE_STATE_LAYOUT_H_
