// Linear laws and small networks of what a policy observes: values and transposed products. README.md, "Policies".
#include <costate/policy.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/difference_row.h"
#include "core/interval.h"
#include "core/random.h"

namespace costate {
namespace {

constexpr double kEdge = 1e-3;  // of half a range: how close to a bound a reference may be

using MatrixMap = Eigen::Map<const MatrixXd>;

bool Between(double lower, double upper) { return std::isfinite(lower) && std::isfinite(upper); }

// a control and its slope by z: eq. (18)
struct BoundedControl {
  double u, slope;
};
BoundedControl Bound(double z, double reference, double lower, double upper) {
  if (!Between(lower, upper)) {
    const double u = reference + z;
    return u < lower ? BoundedControl{lower, 0} : u > upper ? BoundedControl{upper, 0} : BoundedControl{u, 1};
  }
  const double middle = 0.5 * (lower + upper), half = 0.5 * (upper - lower);
  if (half == 0) return {middle, 0};
  const double s = std::tanh(z + std::atanh((reference - middle) / half));
  return {middle + half * s, half * (1 - s * s)};
}

// one layer's weights within w: W (rows × columns), then b
struct LayerView {
  LayerView(const VectorXd& w, const std::vector<int>& layers, std::size_t l, Eigen::Index at)
      : W(w.data() + at, layers[l + 1], layers[l]),
        b(w.data() + at + W.size(), layers[l + 1]),
        end(at + W.size() + b.size()) {}
  MatrixMap W;
  Eigen::Map<const VectorXd> b;
  Eigen::Index end;
};

// the degree of freedom of a hinge's coordinate, −1 of others
int AngleDof(const mjModel* m, int qpos) {
  for (int j = 0; j < m->njnt; j++) {
    if (m->jnt_type[j] == mjJNT_HINGE && m->jnt_qposadr[j] == qpos) return m->jnt_dofadr[j];
  }
  return -1;
}

void CheckObservation(const mjModel* m, const Observation& o, const Dims& dims) {
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::kInvalidArgument, "policy: " + text); };
  if (!std::isfinite(o.scale) || o.scale == 0)
    fail(fmt::format("an observation's scale is {:g}, expected a number other than 0", o.scale));
  switch (o.kind) {
    case Observation::Kind::kTangent:
      if (o.index < 0 || o.index >= dims.ndx)
        fail(fmt::format("observation of entry {} of a tangent that has {}", o.index, dims.ndx));
      return;
    case Observation::Kind::kAngle:
      if (AngleDof(m, o.index) < 0) fail(fmt::format("qpos[{}] is no hinge's angle", o.index));
      return;
    case Observation::Kind::kClock:
      if (!(o.period > 0) || !std::isfinite(o.period))
        fail(fmt::format("a clock's period is {:g}, expected above 0", o.period));
      return;
    case Observation::Kind::kSensor:
      if (o.index < 0 || o.index >= dims.ns)
        fail(fmt::format("observation of entry {} of sensors that have {}", o.index, dims.ns));
  }
}

int Rows(const Observation& o) {
  return o.kind == Observation::Kind::kAngle || o.kind == Observation::Kind::kClock ? 2 : 1;
}

}  // namespace

NetworkPolicy::NetworkPolicy(const mjModel* model, const PolicyOptions& options, ConstMatrixRef U, ConstVectorRef lower,
                             ConstVectorRef upper)
    : model_(model),
      observe_(options.observations),
      x_ref_(options.x_ref),
      U_(U),
      knot_time_(options.knot_time),
      begin_(options.begin),
      lower_(lower),
      upper_(upper) {
  const Dims dims(model);
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::kInvalidArgument, "policy: " + text); };
  CheckSize(model, "the policy's x_ref", x_ref_.size(), "nx", dims.nx);
  CheckSize(model, "a column of U", U.rows(), "nu", dims.nu);
  CheckSize(model, "lower", lower.size(), "nu", dims.nu);
  CheckSize(model, "upper", upper.size(), "nu", dims.nu);
  for (int i = 0; i < dims.nu; i++) {
    if (!(lower_[i] <= upper_[i]))
      fail(fmt::format("{} has bounds {:g} and {:g}, expected the lower one first",
                       ControlNames(model)[static_cast<std::size_t>(i)], lower_[i], upper_[i]));
  }
  if (U.cols() < 1) fail("U has no columns: there are no controls to act about");
  if (observe_.empty()) {
    for (int i = 0; i < dims.ndx; i++) observe_.push_back({.index = i});
  }
  layers_ = {0};
  for (const Observation& o : observe_) {
    CheckObservation(model, o, dims);
    sensors_ = sensors_ || o.kind == Observation::Kind::kSensor;
    layers_.front() += Rows(o);
  }
  for (int size : options.hidden) {
    if (size < 1) fail(fmt::format("a hidden layer of {} units", size));
    layers_.push_back(size);
  }
  layers_.push_back(dims.nu);

  // Glorot & Bengio 2010; the last layer begins at 0, so that the law begins as the reference
  Eigen::Index size = 0;
  for (std::size_t l = 0; l + 1 < layers_.size(); l++) size += (layers_[l] + 1) * layers_[l + 1];
  w_.setZero(size);
  std::mt19937_64 engine(options.seed);
  Eigen::Index at = 0;
  for (std::size_t l = 0; l + 2 < layers_.size(); l++) {
    const double most = std::sqrt(6.0 / (layers_[l] + layers_[l + 1]));
    const Eigen::Index n = static_cast<Eigen::Index>(layers_[l]) * layers_[l + 1];
    for (Eigen::Index i = 0; i < n; i++) w_[at + i] = most * (2 * Uniform(engine()) - 1);
    at += n + layers_[l + 1];
  }

  // a reference at a bound would have no slope
  for (int i = 0; i < dims.nu; i++) {
    if (!Between(lower_[i], upper_[i])) continue;
    const double middle = 0.5 * (lower_[i] + upper_[i]), half = (1 - kEdge) * 0.5 * (upper_[i] - lower_[i]);
    U_.row(i) = U_.row(i).cwiseMax(middle - half).cwiseMin(middle + half);
  }
}

void NetworkPolicy::Set(ConstVectorRef w) {
  CheckSize(model_, "the policy's weights", w.size(), "its number", weights());
  if (!w.allFinite()) throw Error(ErrorCode::kInvalidArgument, "policy: a weight is not finite");
  w_ = w;
}

int NetworkPolicy::KnotAt(double time) const {
  if (!(knot_time_ > 0)) return 0;
  const double knots = std::floor((time - begin_) / knot_time_ + kIntervalSlack);
  return static_cast<int>(std::fmin(std::fmax(knots, 0), static_cast<double>(U_.cols() - 1)));  // NaN: 0
}

void NetworkPolicy::CheckInput(const FeedbackInput& in) const {
  const Dims dims(model_);
  CheckSize(model_, "x", in.x.size(), "nx", dims.nx);
  if (sensors_) CheckSize(model_, "s, what a law that sees sensors is shown,", in.s.size(), "nsensordata", dims.ns);
  if (in.t < 0) throw Error(ErrorCode::kInvalidArgument, fmt::format("the knot is {}, expected 0 or more", in.t));
}

std::vector<int> NetworkPolicy::SensorsSeen() const {
  std::set<int> seen;
  for (const Observation& o : observe_) {
    if (o.kind == Observation::Kind::kSensor) seen.insert(o.index);
  }
  return {seen.begin(), seen.end()};
}

VectorXd NetworkPolicy::Observe(const FeedbackInput& in) const {
  const VectorXd dx = Difference(model_, in.x, x_ref_);
  VectorXd o(layers_.front());
  int at = 0;
  for (const Observation& seen : observe_) {
    if (seen.kind == Observation::Kind::kTangent) {
      o[at++] = seen.scale * dx[seen.index];
      continue;
    }
    if (seen.kind == Observation::Kind::kSensor) {
      o[at++] = seen.scale * in.s[seen.index];
      continue;
    }
    const double angle =
        seen.kind == Observation::Kind::kAngle ? in.x[seen.index] : 2 * std::numbers::pi * in.time / seen.period;
    o[at++] = seen.scale * std::cos(angle);
    o[at++] = seen.scale * std::sin(angle);
  }
  return o;
}

// z; activations receive what each layer is given: eq. (17)
VectorXd NetworkPolicy::Forward(ConstVectorRef o, std::vector<VectorXd>* activations) const {
  activations->assign(1, o);
  Eigen::Index at = 0;
  for (std::size_t l = 0; l + 1 < layers_.size(); l++) {
    const LayerView layer(w_, layers_, l, at);
    VectorXd z = layer.W * activations->back() + layer.b;
    at = layer.end;
    if (l + 2 == layers_.size()) return z;
    activations->push_back(z.array().tanh().matrix());
  }
  return {};
}

void NetworkPolicy::Control(const FeedbackInput& in, VectorRef u) const {
  CheckInput(in);
  std::vector<VectorXd> activations;
  const VectorXd z = Forward(Observe(in), &activations);
  const ConstVectorRef reference = Reference(in.t);
  for (int i = 0; i < u.size(); i++) u[i] = Bound(z[i], reference[i], lower_[i], upper_[i]).u;
}

void NetworkPolicy::PullBack(const FeedbackInput& in, ConstVectorRef g_u, FeedbackGradient* out) const {
  std::vector<VectorXd> activations;
  const VectorXd z = Forward(Observe(in), &activations);
  const ConstVectorRef reference = Reference(in.t);

  VectorXd g(z.size());
  for (int i = 0; i < z.size(); i++) g[i] = g_u[i] * Bound(z[i], reference[i], lower_[i], upper_[i]).slope;

  // through the layers, from the last
  Eigen::Index end = w_.size();
  for (std::size_t l = layers_.size() - 1; l-- > 0;) {
    const VectorXd& a = activations[l];
    end -= (layers_[l] + 1) * static_cast<Eigen::Index>(layers_[l + 1]);
    const LayerView layer(w_, layers_, l, end);
    Eigen::Map<MatrixXd>(out->w.data() + end, layers_[l + 1], layers_[l]).noalias() += g * a.transpose();
    out->w.segment(end + layer.W.size(), layers_[l + 1]) += g;
    g = layer.W.transpose() * g;
    if (l > 0) g.array() *= 1 - a.array().square();
  }

  // through what is observed
  int at = 0;
  for (const Observation& seen : observe_) {
    if (seen.kind == Observation::Kind::kTangent) {
      const DifferenceRow row = RowOfDifference(model_, in.x.data(), x_ref_.data(), seen.index);
      out->x.segment(row.first, row.size) += seen.scale * g[at] * row.value.head(row.size);
    } else if (seen.kind == Observation::Kind::kAngle) {
      const double angle = in.x[seen.index];
      out->x[AngleDof(model_, seen.index)] += seen.scale * (std::cos(angle) * g[at + 1] - std::sin(angle) * g[at]);
    } else if (seen.kind == Observation::Kind::kSensor) {
      out->s[seen.index] += seen.scale * g[at];
    }
    at += Rows(seen);
  }
}

}  // namespace costate
