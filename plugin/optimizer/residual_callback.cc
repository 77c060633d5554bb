#include <costate/error.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>

#include "core/engine_guard.h"
#include "core/finite.h"
#include "optimizer/residual_map.h"

namespace costate {
namespace {

constexpr double kCallbackNudge = 6e-6;  // cbrt(2^-52), relative: truncation meets rounding, centred

struct ResidualRegistry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const ResidualCallback>> callbacks;
};
ResidualRegistry& Registry() {
  static ResidualRegistry registry;
  return registry;
}

class CallbackMap final : public ResidualMap {
 public:
  CallbackMap(const std::string& name, std::shared_ptr<const ResidualCallback> callback, const mjModel* model)
      : name_(name), callback_(std::move(callback)), model_(model), dims_(model) {}

  int size() const override { return callback_->size; }
  bool reads_state() const override { return callback_->reads_state; }
  bool reads_control() const override { return callback_->reads_control; }
  bool states_jacobian() const override { return callback_->jacobian != nullptr; }

  void Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const override {
    const EngineGuard guard;  // its engine errors are its caller's exceptions, whatever the thread
    r->setZero(size());
    callback_->value(Input(knot, z, knot.x, knot.u), *r);
  }

  void Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const override {
    const EngineGuard guard;
    J->measured.setZero(size(), z.size());
    J->x.setZero(reads_state() ? size() : 0, reads_state() ? dims_.ndx : 0);
    const bool control = reads_control() && knot.t < knot.N;
    J->u.setZero(control ? size() : 0, control ? dims_.nu : 0);
    if (callback_->jacobian) {
      callback_->jacobian(Input(knot, z, knot.x, knot.u), J);
      CheckPart("measured", J->measured, size(), z.size(), knot.t);
      CheckPart("x", J->x, reads_state() ? size() : 0, reads_state() ? dims_.ndx : 0, knot.t);
      CheckPart("u", J->u, control ? size() : 0, control ? dims_.nu : 0, knot.t);
      return;
    }

    // centred differences, the state's in its tangent space
    const auto at = [&](ConstVectorRef measured, ConstVectorRef x, ConstVectorRef control, VectorXd* r) {
      r->setZero(size());  // as Value hands it over: entries that are 0 need not be written
      callback_->value(Input(knot, measured, x, control), *r);
    };
    VectorXd v = z, plus, minus;
    for (int i = 0; i < z.size(); i++) {
      const double h = kCallbackNudge * (1 + std::abs(z[i]));
      v[i] = z[i] + h;
      at(v, knot.x, knot.u, &plus);
      v[i] = z[i] - h;
      at(v, knot.x, knot.u, &minus);
      v[i] = z[i];
      J->measured.col(i) = (plus - minus) / (2 * h);
    }
    for (int i = 0; i < J->x.cols(); i++) {
      const VectorXd dx = kCallbackNudge * VectorXd::Unit(dims_.ndx, i);
      at(z, Retract(model_, knot.x, dx), knot.u, &plus);
      at(z, Retract(model_, knot.x, -dx), knot.u, &minus);
      J->x.col(i) = (plus - minus) / (2 * kCallbackNudge);
    }
    VectorXd u = knot.u;
    for (int i = 0; i < J->u.cols(); i++) {
      const double h = kCallbackNudge * (1 + std::abs(u[i]));
      u[i] = knot.u[i] + h;
      at(z, knot.x, u, &plus);
      u[i] = knot.u[i] - h;
      at(z, knot.x, u, &minus);
      u[i] = knot.u[i];
      J->u.col(i) = (plus - minus) / (2 * h);
    }
  }

 private:
  // a callback may have given a matrix another size, or what is no slope: a solve that goes on without one would end
  // where it begins
  void CheckPart(const char* by, const MatrixXd& J, Eigen::Index rows, Eigen::Index cols, int t) const {
    if (J.rows() != rows || J.cols() != cols) {
      throw Error(ErrorCode::kDimensionMismatch,
                  fmt::format("residual '{}': its Jacobian by {} is {} × {}, expected {} × {}", name_, by, J.rows(),
                              J.cols(), rows, cols));
    }
    if (IsFinite(J)) return;
    Eigen::Index at = 0;
    while (std::isfinite(J.data()[at])) at++;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("residual '{}': its Jacobian by {} is not finite at knot {}: row {}, column {} is {}",
                            name_, by, t, at % rows, at / rows, J.data()[at]));
  }

  ResidualInput Input(const KnotView& knot, ConstVectorRef z, ConstVectorRef x, ConstVectorRef u) const {
    return {model_, knot.t, knot.N, knot.TaskTime(), z, x, u};
  }

  std::string name_;
  std::shared_ptr<const ResidualCallback> callback_;
  const mjModel* model_;
  Dims dims_;
};

}  // namespace

void RegisterResidual(const std::string& name, ResidualCallback callback) {
  if (name.empty()) throw Error(ErrorCode::kInvalidArgument, "a residual needs a name");
  if (callback.size < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "residual '" + name + "' has size " + std::to_string(callback.size) + ", expected at least 1");
  }
  if (!callback.value) throw Error(ErrorCode::kInvalidArgument, "residual '" + name + "' has no value function");
  ResidualRegistry& registry = Registry();
  const std::lock_guard lock(registry.mutex);
  registry.callbacks[name] = std::make_shared<const ResidualCallback>(std::move(callback));
}

std::vector<std::string> ResidualNames() {
  ResidualRegistry& registry = Registry();
  const std::lock_guard lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, callback] : registry.callbacks) names.push_back(name);
  return names;
}

std::unique_ptr<ResidualMap> FindResidual(const std::string& name, const mjModel* model) {
  ResidualRegistry& registry = Registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.callbacks.find(name);
  return found == registry.callbacks.end() ? nullptr : std::make_unique<CallbackMap>(name, found->second, model);
}

}  // namespace costate
