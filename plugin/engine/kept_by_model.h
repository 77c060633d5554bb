// What attributes of plugins name when a model is compiled, for data that are made later, wherever the host works by then.
#ifndef COSTATE_ENGINE_KEPT_BY_MODEL_H_
#define COSTATE_ENGINE_KEPT_BY_MODEL_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cstddef>
#include <list>
#include <string>
#include <utility>

namespace costate {

/// The last 16, by the model and the text of its attribute; whoever uses it locks.
template <typename T>
class KeptByModel {
 public:
  void Keep(const mjModel* model, const std::string& text, T value) {
    constexpr std::size_t kMost = 16;
    kept_.remove_if([&](const Kept& kept) { return kept.model == model && kept.text == text; });
    kept_.push_front({model, text, std::move(value)});
    if (kept_.size() > kMost) kept_.pop_back();
  }

  /// The model's own, else the one asked for last of those that fit: copies of a model are at other addresses. Null where
  /// none fits.
  template <typename Fits>
  T* Find(const mjModel* model, const std::string& text, const Fits& fits) {
    const auto find = [&](bool own) {
      return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
        return kept.text == text && (kept.model == model) == own && fits(kept.value);
      });
    };
    auto found = find(true);
    if (found == kept_.end()) found = find(false);
    if (found == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, found);
    return &found->value;
  }

 private:
  struct Kept {
    const mjModel* model;  // never read: it may be gone
    std::string text;
    T value;
  };
  std::list<Kept> kept_;
};

}  // namespace costate

#endif  // COSTATE_ENGINE_KEPT_BY_MODEL_H_
