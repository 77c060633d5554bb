#include "optimizer/task_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/number.h"
#include "core/posture.h"
#include "optimizer/task_csv.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"

namespace costate {
namespace {

struct StateKey {
  VectorXd x;
  double time = 0;
};

std::vector<StateKey> ReadStateKeys(const XmlElement& element, const std::string& text, const mjModel* model) {
  std::vector<StateKey> keys;
  for (const std::string& word : SplitTimed(text)) {
    StateKey key;
    const std::size_t at = word.rfind('@');
    if (!word.starts_with("key:") || at == std::string::npos || !ParseNumber(word.substr(at + 1), &key.time)) {
      element.Fail(
          fmt::format("states: '{}' is no keyframe with a time, expected key:NAME@SECONDS, or file:PATH alone", word));
    }
    if (!keys.empty() && key.time <= keys.back().time) {
      element.Fail(fmt::format("states: times must increase, '{}' does not", word));
    }
    try {
      key.x = KnotAtKey(model, word.substr(4, at - 4)).x;
    } catch (const Error& error) {
      element.Fail(std::string("states: ") + error.what(), error.code());
    }
    keys.push_back(key);
  }
  return keys;
}

// on the shortest way from one state to the other; signs of quaternions do not matter
VectorXd Between(const mjModel* model, ConstVectorRef before, ConstVectorRef after, double share) {
  return Retract(model, before, share * Difference(model, after, before));
}

// positions and activations straight from key to key, held before the first and behind the last
MatrixXd AlongKeys(const std::vector<StateKey>& keys, const Task& task) {
  const mjModel* model = task.model.get();
  const Dims dims(model);
  const double dt = task.knot_time();
  MatrixXd X(dims.nx, task.N + 1);
  std::size_t next = 0;
  for (int t = 0; t <= task.N; ++t) {
    while (next < keys.size() && keys[next].time <= t * dt) ++next;
    const StateKey& before = keys[next > 0 ? next - 1 : 0];
    X.col(t) = before.x;
    if (next == 0 || next == keys.size()) continue;
    const StateKey& after = keys[next];
    const double share = (t * dt - before.time) / (after.time - before.time);
    X.col(t) = Between(model, before.x, after.x, share);
  }
  X.col(0) = task.x0;

  // the velocity that leads from the knot before to this one
  for (int t = 1; t <= task.N; ++t) {
    X.col(t).segment(dims.nq, dims.nv) = Difference(model, X.col(t), X.col(t - 1)).head(dims.nv) / dt;
  }
  return X;
}

}  // namespace

MatrixXd ReadStates(const XmlElement* element, const std::string& folder, const Task& task) {
  if (!element || !element->Has("states")) return {};
  const mjModel* model = task.model.get();
  const std::string text = *element->Text("states");
  if (!text.starts_with("file:")) {
    const std::vector<StateKey> keys = ReadStateKeys(*element, text, model);
    if (keys.empty()) element->Fail("states is empty, expected key:NAME@SECONDS …, or file:PATH");
    return AlongKeys(keys, task);
  }
  try {
    TimeSeries series = ReadTimeSeries(Resolve(folder, text.substr(5)), StateNames(model), false);
    for (Eigen::Index i = 0; i < series.values.cols(); ++i) NormalizeQuaternions(model, series.values.col(i));
    const auto between = [model](ConstVectorRef before, ConstVectorRef after, double share) {
      return Between(model, before, after, share);
    };
    MatrixXd X = Sample(series, task.N + 1, task.knot_time(), between);
    X.col(0) = task.x0;
    return X;
  } catch (const Error& error) {
    element->Fail(std::string("states: ") + error.what(), error.code());
  }
}

}  // namespace costate
