#include "parameter/parameter_set.h"

#include <fmt/format.h>
#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/model_arrays.h"

namespace costate {
namespace {

constexpr double kOwn = 1e-8;  // derived numbers this close, of an array's largest, are the engine's own

// scalars of mjModel that mj_setConst writes, and options
void CopyScalars(const mjModel* from, mjModel* to) {
#define X(name) to->name = from->name;
  MJSETCONST_SCALARS
#undef X
  to->opt = from->opt;
}

bool MovesStaticBody(const mjModel* m, const ParameterBlock& block) {
  const std::string array = block.field->array;
  return (array == "body_pos" || array == "body_quat") && m->body_dofnum[m->body_weldid[block.id]] == 0;
}

}  // namespace

void SetConst(mjModel* model, mjData* data) {
  EngineGuard guard(data);
  mj_setConst(model, data);
}

// all numbers that one name stands for
void ParameterSet::Impl::Add(const std::string& name) {
  const ParameterName parts = SplitName(name);
  const int id = FindElement(given.get(), parts.kind, parts.element, name);
  const Field* field = FindField(given.get(), parts.kind, id, parts.field, name);
  const VectorXd values = ReadField(given.get(), *field, id);
  const int n = static_cast<int>(values.size());
  if (parts.index >= n) {
    throw Error(ErrorCode::kInvalidArgument,
                "'" + name + "': it has " + std::to_string(n) + (n == 1 ? " entry" : " entries") + ", counted from 0");
  }
  const auto same = [&](const ParameterBlock& b) { return b.field == field && b.id == id; };
  std::size_t block = static_cast<std::size_t>(std::find_if(blocks.begin(), blocks.end(), same) - blocks.begin());
  if (block == blocks.size()) blocks.push_back({field, id, values, values});
  int added = 0;
  for (int i = 0; i < n; i++) {
    if (parts.index >= 0 && i != parts.index) continue;
    const std::string fixed = WhyFixed(given.get(), *field, id, i);
    if (!fixed.empty() && parts.index < 0 && (added > 0 || i + 1 < n))
      continue;  // of a whole field, those that are free
    if (!fixed.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "'" + FullName(given.get(), *field, id, i) + "' cannot be a parameter: " + fixed);
    }
    at.emplace_back(static_cast<int>(block), i);
    parameters.push_back(Describe(given.get(), *field, id, i, values));
    added++;
  }
}

// the parameters' arrays and all that mj_setConst writes
void ParameterSet::Impl::FindArrays() {
  std::set<std::string> wanted;
  bool derived = false;
  for (const ParameterBlock& block : blocks) {
    wanted.insert(block.field->array);
    derived = derived || IsDerivedFrom(block.field->array);
    if (block.field->writer == Writer::kLogCholesky) wanted.insert({"body_ipos", "body_iquat"});
    if (block.field->writer == Writer::kLogCholesky || block.field->writer == Writer::kScale)
      wanted.insert("body_inertia");
    if (block.field->writer == Writer::kPosition || block.field->writer == Writer::kMuscle)
      wanted.insert("actuator_biasprm");
    if (block.field->writer == Writer::kVelocity) wanted.insert("actuator_gainprm");
  }
  const mjModel* m = given.get();
  ForEachArray(m, [&](const char* name, auto member, const ArrayShape& shape) {
    using Number = std::remove_reference_t<decltype(*(m->*member))>;
    const std::size_t bytes = sizeof(Number) * shape.rows * shape.columns;
    if (bytes == 0 || !(wanted.count(name) || (derived && IsDerived(name)))) return;
    const char* array = reinterpret_cast<const char*>(m->*member);
    arrays.push_back({name, static_cast<std::size_t>(array - Bytes(m)), bytes, std::is_same_v<Number, mjtNum>});
  });
}

// derived numbers that the given model has otherwise than the engine would derive them: a caller's own
void ParameterSet::Impl::FindKept() {
  if (std::none_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.derived; })) return;
  data = MakeData(model.get());
  SetConst(model.get(), data.get());
  for (const ModelArray& array : arrays) {
    if (!array.numbers) continue;
    const std::size_t n = array.bytes / sizeof(mjtNum);
    const Eigen::Map<const VectorXd> own(reinterpret_cast<const mjtNum*>(Bytes(model.get()) + array.offset), n);
    const Eigen::Map<const VectorXd> have(reinterpret_cast<const mjtNum*>(Bytes(given.get()) + array.offset), n);
    const double scale = kOwn * std::max(own.cwiseAbs().maxCoeff(), have.cwiseAbs().maxCoeff());
    bool any = false;
    for (std::size_t i = 0; i < n; i++) {
      const Eigen::Index k = static_cast<Eigen::Index>(i);
      if (std::abs(own[k] - have[k]) <= scale) continue;
      kept_words.push_back(array.offset + i * sizeof(mjtNum));
      any = true;
    }
    if (any) kept.push_back(array.name);
  }
}

VectorXd ParameterSet::Impl::Values() const {
  VectorXd values(static_cast<Eigen::Index>(at.size()));
  for (std::size_t i = 0; i < at.size(); i++)
    values[static_cast<Eigen::Index>(i)] = blocks[at[i].first].value[at[i].second];
  return values;
}

void ParameterSet::Impl::Check(ConstVectorRef values) const {
  CheckSize(model.get(), "the vector of parameters", values.size(), "the set's size",
            static_cast<int>(parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); i++) {
    const Parameter& p = parameters[i];
    const double value = values[static_cast<Eigen::Index>(i)];
    if (value >= p.lower && value <= p.upper && std::isfinite(value)) continue;
    const std::string text = fmt::format("'{}' is {:g}", p.name, value);
    if (!std::isfinite(value)) throw Error(ErrorCode::kInvalidArgument, text);
    throw Error(ErrorCode::kInvalidArgument,
                text + (value < p.lower ? fmt::format(", it cannot be below {:g}", p.lower)
                                        : fmt::format(", it cannot be above {:g}", p.upper)));
  }
}

// the model from the given one and the blocks' values
void ParameterSet::Impl::Write() {
  for (const ModelArray& array : arrays) {
    std::memcpy(Bytes(model.get()) + array.offset, Bytes(given.get()) + array.offset, array.bytes);
  }
  CopyScalars(given.get(), model.get());
  bool derived = false;
  for (const ParameterBlock& block : blocks) {
    if (block.value == block.given) continue;
    WriteField(given.get(), block, model.get());
    derived = derived || IsDerivedFrom(block.field->array);
  }
  if (!derived) return;
  if (!data) data = MakeData(model.get());
  SetConst(model.get(), data.get());
  for (const std::size_t word : kept_words) {
    std::memcpy(Bytes(model.get()) + word, Bytes(given.get()) + word, sizeof(mjtNum));
  }
}

ParameterSet::ParameterSet(const mjModel* model, const std::vector<std::string>& names)
    : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  s.given = CopyModel(model);
  for (const std::string& name : names) s.Add(name);

  // no number twice
  std::map<std::string, std::size_t> writer;
  for (std::size_t i = 0; i < s.at.size(); i++) {
    const ParameterBlock& block = s.blocks[s.at[i].first];
    for (const std::string& number : Writes(s.given.get(), *block.field, block.id, s.at[i].second)) {
      const auto [it, fresh] = writer.emplace(number, i);
      const bool together = block.field->writer == Writer::kLogCholesky && s.at[it->second].first == s.at[i].first &&
                            s.parameters[it->second].name != s.parameters[i].name;
      if (fresh || together) continue;
      const std::string &a = s.parameters[it->second].name, &b = s.parameters[i].name;
      throw Error(ErrorCode::kInvalidArgument,
                  a == b ? "'" + a + "' is named twice" : "'" + a + "' and '" + b + "' write the same number");
    }
  }

  // the engine's bounding volumes of static bodies are made once: without them nothing is missed
  for (const ParameterBlock& block : s.blocks) {
    if (MovesStaticBody(s.given.get(), block)) s.given->opt.disableflags |= mjDSBL_MIDPHASE;
  }
  s.model = CopyModel(s.given.get());
  s.FindArrays();
  s.FindKept();
  s.Write();
}

namespace {

// a linearizer may still point at a set that was moved, as a vector that grows moves its own
template <typename Impl>
Impl& Alive(const std::unique_ptr<Impl>& impl) {
  if (!impl) throw Error(ErrorCode::kInvalidArgument, "the set of parameters was moved: what points at it has none");
  return *impl;
}

}  // namespace

ParameterSet::~ParameterSet() = default;
ParameterSet::ParameterSet(ParameterSet&&) noexcept = default;
ParameterSet& ParameterSet::operator=(ParameterSet&&) noexcept = default;

ParameterSet::ParameterSet(const ParameterSet& other) : impl_(std::make_unique<Impl>()) {
  const Impl& from = Alive(other.impl_);
  Impl& s = *impl_;
  s.given = from.given;
  s.model = CopyModel(from.model.get());
  s.blocks = from.blocks;
  s.at = from.at;
  s.parameters = from.parameters;
  s.arrays = from.arrays;
  s.kept_words = from.kept_words;
  s.kept = from.kept;
  s.revision = from.revision;
}

ParameterSet& ParameterSet::operator=(const ParameterSet& other) {
  if (this != &other) *this = ParameterSet(other);
  return *this;
}

int ParameterSet::size() const { return static_cast<int>(Alive(impl_).parameters.size()); }
const Parameter& ParameterSet::operator[](int i) const {
  return Alive(impl_).parameters.at(static_cast<std::size_t>(i));
}
const mjModel* ParameterSet::model() const { return Alive(impl_).model.get(); }
VectorXd ParameterSet::Get() const { return Alive(impl_).Values(); }
std::uint64_t ParameterSet::revision() const { return Alive(impl_).revision; }
const std::vector<std::string>& ParameterSet::kept() const { return Alive(impl_).kept; }

std::vector<std::string> ParameterSet::Names() const {
  std::vector<std::string> names;
  for (const Parameter& p : Alive(impl_).parameters) names.push_back(p.name);
  return names;
}

VectorXd ParameterSet::Clamp(ConstVectorRef values) const {
  VectorXd inside = values;
  for (int i = 0; i < size() && i < inside.size(); i++)
    inside[i] = std::clamp(inside[i], (*this)[i].lower, (*this)[i].upper);
  return inside;
}

void ParameterSet::Set(ConstVectorRef values) {
  Impl& s = Alive(impl_);
  s.Check(values);
  const VectorXd before = s.Values();
  const auto assign = [&](ConstVectorRef v) {
    for (std::size_t i = 0; i < s.at.size(); i++)
      s.blocks[s.at[i].first].value[s.at[i].second] = v[static_cast<Eigen::Index>(i)];
  };
  assign(values);
  try {
    s.Write();
  } catch (...) {
    assign(before);
    s.Write();
    throw;
  }

  // nudges, clamps and corners are those of where the set now is
  for (std::size_t i = 0; i < s.at.size(); i++) {
    const ParameterBlock& block = s.blocks[s.at[i].first];
    const int index = s.at[i].second;
    DescribeAt(s.model.get(), *block.field, block.id, index, block.value[index], &s.parameters[i]);
  }
  s.revision++;
}

}  // namespace costate
