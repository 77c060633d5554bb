#include "engine/linearization_output.h"

#include <fmt/format.h>

#include <algorithm>

namespace costate {
namespace {

constexpr char kWords[] =
    "level, spectral_radius, largest_singular_value, condition, switch_distance, A, B, or a block: "
    "A.qq, A.qv … A.aa, B.q, "
    "B.v, B.a";

}  // namespace

bool LinearizationOutput::Needs(Kind kind) const {
  return std::any_of(items.begin(), items.end(), [kind](const Item& item) { return item.kind == kind; });
}

LinearizationOutput::LinearizationOutput(const mjModel* m, const Attributes& attributes) {
  const int nv = static_cast<int>(m->nv), na = static_cast<int>(m->na), nu = static_cast<int>(m->nu), ndx = 2 * nv + na;
  const auto part = [&](char letter, int* begin, int* count) {
    const std::size_t at = std::string("qva").find(letter);
    if (at == std::string::npos) return false;
    *begin = static_cast<int>(at) * nv;
    *count = at == 2 ? na : nv;
    return true;
  };
  const auto parse = [&](const std::string& word, Item* item) {
    const std::vector<std::string> scalars = {"level", "spectral_radius", "largest_singular_value", "condition",
                                              "switch_distance"};
    const auto scalar = std::find(scalars.begin(), scalars.end(), word);
    item->kind = static_cast<Kind>(scalar - scalars.begin());
    if (scalar != scalars.end()) return true;
    item->of_B = word[0] == 'B';
    item->rows = ndx;
    item->cols = item->of_B ? nu : ndx;
    if (word == "A" || word == "B") return true;
    if (word.size() == 4 && word.starts_with("A.")) {
      return part(word[2], &item->row, &item->rows) && part(word[3], &item->col, &item->cols);
    }
    return word.size() == 3 && word.starts_with("B.") && part(word[2], &item->row, &item->rows);
  };
  std::vector<std::string> words = attributes.Words("output");
  if (words.empty()) words = {"spectral_radius", "largest_singular_value", "level"};
  for (const std::string& word : words) {
    Item item{};
    if (!parse(word, &item)) attributes.Fail("output", fmt::format("there is no '{}', expected {}", word, kWords));
    if (item.size() == 0)
      attributes.Fail("output",
                      fmt::format("'{}' is empty: the model has nv = {}, na = {}, nu = {}", word, nv, na, nu));
    items.push_back(item);
    size += item.size();
  }
}

}  // namespace costate
