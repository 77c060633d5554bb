// policy.json: a law as another controller reads it, and as this library does.
#include <costate/policy.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "core/extremes.h"
#include "core/read_file.h"
#include "rollout/json_member.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

using PolicyJson = nlohmann::json;

std::vector<double> ListOf(ConstVectorRef v) { return {v.data(), v.data() + v.size()}; }

class PolicyReader {
 public:
  PolicyReader(const mjModel* model, const std::string& file) : model_(model), file_(file) {}
  NetworkPolicy Read() const;

 private:
  [[noreturn]] void Fail(const std::string& text) const { throw Error(ErrorCode::kFile, file_ + ": " + text); }
  void CheckNames(const char* what, const std::vector<std::string>& in_file,
                  const std::vector<std::string>& in_model) const;
  int Find(const std::string& name, const std::vector<std::string>& names) const;
  NetworkPolicy ReadMembers(const JsonMember& json) const;
  Observation ReadObservation(const JsonMember& json) const;
  VectorXd ReadLayers(const std::vector<JsonMember>& layers, std::vector<int>* hidden) const;

  const mjModel* model_;
  const std::string& file_;
};

void PolicyReader::CheckNames(const char* what, const std::vector<std::string>& in_file,
                              const std::vector<std::string>& in_model) const {
  if (in_file.size() != in_model.size()) {
    Fail(fmt::format("{} entries of {}, model '{}' has {}", in_file.size(), what, ModelName(model_), in_model.size()));
  }
  for (std::size_t i = 0; i < in_file.size(); i++) {
    if (in_file[i] != AsWritten(in_model[i])) {
      Fail(fmt::format("entry {} of {} is {}, in model '{}' it is {}", i, what, in_file[i], ModelName(model_),
                       in_model[i]));
    }
  }
}

int PolicyReader::Find(const std::string& name, const std::vector<std::string>& names) const {
  const auto at =
      std::find_if(names.begin(), names.end(), [&](const std::string& other) { return AsWritten(other) == name; });
  if (at == names.end()) Fail(fmt::format("it sees {}, which model '{}' does not have", name, ModelName(model_)));
  return static_cast<int>(at - names.begin());
}

Observation PolicyReader::ReadObservation(const JsonMember& json) const {
  Observation o;
  o.scale = json.At("scale").Real();
  if (json.Has("difference")) {
    o.index = Find(json.At("difference").Text(), TangentNames(model_));
  } else if (json.Has("cos and sin of")) {
    o.kind = Observation::Kind::kAngle;
    o.index = Find(json.At("cos and sin of").Text(), StateNames(model_));
  } else if (json.Has("sensor")) {
    o.kind = Observation::Kind::kSensor;
    o.index = Find(json.At("sensor").Text(), SensorNames(model_));
  } else {
    o.kind = Observation::Kind::kClock;
    o.period = json.At("clock").Real();
  }
  return o;
}

// W by columns, then b, layer by layer
VectorXd PolicyReader::ReadLayers(const std::vector<JsonMember>& layers, std::vector<int>* hidden) const {
  std::vector<double> w;
  for (std::size_t l = 0; l < layers.size(); l++) {
    std::vector<VectorXd> W;
    for (const JsonMember& row : layers[l].At("W").List()) W.push_back(row.Reals());
    const VectorXd b = layers[l].At("b").Reals();
    const Eigen::Index columns = l > 0 ? hidden->back() : W.empty() ? 0 : W.front().size();
    for (const VectorXd& row : W) {
      if (row.size() != columns)
        Fail(fmt::format("layer {}: a row of W has {} numbers, expected {}", l, row.size(), columns));
    }
    if (b.size() != std::ssize(W))
      Fail(fmt::format("layer {}: b has {} numbers, W has {} rows", l, b.size(), W.size()));
    for (Eigen::Index k = 0; k < columns; k++) {
      for (const VectorXd& row : W) w.push_back(row[k]);
    }
    w.insert(w.end(), b.begin(), b.end());
    if (l + 1 < layers.size()) hidden->push_back(static_cast<int>(b.size()));
  }
  return Eigen::Map<const VectorXd>(w.data(), static_cast<Eigen::Index>(w.size()));
}

NetworkPolicy PolicyReader::ReadMembers(const JsonMember& json) const {
  CheckNames("the state", json.At("state").Texts(), StateNames(model_));
  PolicyOptions options;
  const JsonMember observations = json.At("observations");
  if (!observations.is_list() || observations.List().empty()) Fail("observations is no list of one or more");
  for (const JsonMember& seen : observations.List()) options.observations.push_back(ReadObservation(seen));
  options.x_ref = json.At("x_ref").Reals();
  options.knot_time = json.At("knot_time").Real();
  if (!(options.knot_time > 0) || !std::isfinite(options.knot_time))
    Fail(fmt::format("knot_time is {:g} s, expected above 0", options.knot_time));
  options.begin = json.At("begin").Real();
  if (!(std::abs(options.begin) <= mjMAXVAL))
    Fail(fmt::format("begin is {:g} s, no time of the engine's is beyond {:g} s", options.begin, mjMAXVAL));
  if (const JsonMember activation = json.At("activation"); !activation.Is("tanh")) activation.Expected("\"tanh\"");
  const VectorXd w = ReadLayers(json.At("layers").List(), &options.hidden);

  const std::vector<JsonMember> controls = json.At("controls").List();
  std::vector<std::string> names;
  for (const JsonMember& control : controls) names.push_back(control.At("name").Text());
  CheckNames("the controls", names, ControlNames(model_));
  if (controls.empty()) Fail("it has no controls");
  const auto nu = static_cast<Eigen::Index>(controls.size());
  const Eigen::Index N = controls[0].At("reference").Reals().size();
  MatrixXd U(nu, N);
  VectorXd lower(nu), upper(nu);
  for (Eigen::Index i = 0; i < nu; i++) {
    const JsonMember& control = controls[static_cast<std::size_t>(i)];
    lower[i] = control.At("lower").RealOr(-kInf);
    upper[i] = control.At("upper").RealOr(kInf);
    const VectorXd reference = control.At("reference").Reals();
    if (reference.size() != N) Fail(fmt::format("references of {} and {} knots", N, reference.size()));
    U.row(i) = reference.transpose();
  }
  NetworkPolicy policy(model_, options, U, lower, upper);
  policy.Set(w);
  return policy;
}

NetworkPolicy PolicyReader::Read() const {
  const Json json = ParseJson(ReadFile(file_, "policy '" + file_ + "'"), file_ + ": it is no policy: it");
  try {
    return ReadMembers({json, ""});
  } catch (const BadJsonMember& member) {
    Fail(member.text);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kFile) throw;
    Fail(error.what());
  }
}

}  // namespace

NetworkPolicy LoadPolicy(const mjModel* model, const std::string& file) {
  return PolicyReader(NotNull(model), file).Read();
}

std::string NetworkPolicy::ToJson() const {
  const std::vector<std::string> tangents = TangentNames(model_), states = StateNames(model_),
                                 sensors = SensorNames(model_);
  PolicyJson observed = PolicyJson::array();
  for (const Observation& o : observe_) {
    const auto index = static_cast<std::size_t>(o.index);
    PolicyJson seen{{"scale", o.scale}};
    switch (o.kind) {
      case Observation::Kind::kTangent: seen["difference"] = tangents[index]; break;
      case Observation::Kind::kAngle: seen["cos and sin of"] = states[index]; break;
      case Observation::Kind::kClock: seen["clock"] = o.period; break;
      case Observation::Kind::kSensor: seen["sensor"] = sensors[index]; break;
    }
    observed.push_back(std::move(seen));
  }
  PolicyJson layers = PolicyJson::array();
  Eigen::Index at = 0;
  for (std::size_t l = 0; l + 1 < layers_.size(); l++) {
    const Eigen::Map<const MatrixXd> weight(w_.data() + at, layers_[l + 1], layers_[l]);
    PolicyJson W = PolicyJson::array();
    for (Eigen::Index i = 0; i < weight.rows(); i++) W.push_back(ListOf(weight.row(i).transpose()));
    at += weight.size();
    layers.push_back({{"W", W}, {"b", ListOf(w_.segment(at, layers_[l + 1]))}});
    at += layers_[l + 1];
  }
  const auto bound = [](double value) { return std::isfinite(value) ? PolicyJson(value) : PolicyJson(nullptr); };
  PolicyJson controls = PolicyJson::array();
  const std::vector<std::string> names = ControlNames(model_);
  for (int i = 0; i < U_.rows(); i++) {
    controls.push_back({{"name", names[static_cast<std::size_t>(i)]},
                        {"lower", bound(lower_[i])},
                        {"upper", bound(upper_[i])},
                        {"reference", ListOf(U_.row(i).transpose())}});
  }
  return PolicyJson{{"observations", observed}, {"x_ref", ListOf(x_ref_)}, {"state", states},
                    {"layers", layers},         {"activation", "tanh"},    {"controls", controls},
                    {"knot_time", knot_time_},  {"begin", begin_}}
             .dump(1, ' ', false, PolicyJson::error_handler_t::replace) +
         "\n";
}

}  // namespace costate
