// The C interface to rollouts and gradients through them. Nothing throws or prints past it.
#include <costate/adjoint.h>
#include <costate/costate_c.h>
#include <costate/state.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/c_call.h"
#include "engine/python_callbacks.h"
#include "engine/two_engines.h"

struct costate_rollout {
  costate_rollout(const mjModel* m, const mjData* d, int substeps, const std::vector<std::string>& names)
      : parameters(names.empty() ? nullptr : std::make_unique<costate::ParameterSet>(m, names)),
        model(parameters ? parameters->model() : m),
        context(costate::GetContext(m, d)),
        simulator(model, context, substeps, 1) {}

  std::unique_ptr<costate::ParameterSet> parameters;  // null: none
  const mjModel* model;
  costate::VectorXd context;
  costate::Simulator simulator;
  std::unique_ptr<costate::Adjoint> adjoint;  // made when first used: some models have motions, but no gradients
  costate::Trajectory motion;
  costate::RolloutGradient gradient;
  bool moved = false;  // motion is of the last forward call, and of these parameters
};

namespace costate {
namespace {

std::unique_ptr<costate_rollout> MakeRollout(const mjModel* m, const mjData* d, int substeps,
                                             const char* const* parameters, int n) {
  RefuseTwoEngines();
  RefusePythonCallbacks();
  RefuseNull(m, "m");
  RefuseNull(d, "d");
  if (n < 0) throw Error(ErrorCode::kInvalidArgument, "n is " + std::to_string(n) + ", it counts parameters");
  if (n > 0) RefuseNull(parameters, "parameters");
  std::vector<std::string> names;
  for (int i = 0; i < n; i++) {
    RefuseNull(parameters[i], "a name of parameters");
    names.emplace_back(parameters[i]);
  }
  return std::make_unique<costate_rollout>(m, d, substeps, names);
}

void RollForward(costate_rollout* r, const mjtNum* x0, const mjtNum* U, int N, mjtNum* X, mjtNum* S) {
  RefuseNull(r, "rollout");
  RefuseNull(x0, "x0");
  RefusePythonCallbacks();
  if (N < 1) throw Error(ErrorCode::kInvalidArgument, "N is " + std::to_string(N) + ", at least 1 is needed");
  const Dims& dims = r->simulator.dims();
  if (dims.nu > 0) RefuseNull(U, "U");
  r->moved = false;
  const RolloutStatus status = r->simulator.Rollout(Eigen::Map<const VectorXd>(x0, dims.nx),
                                                    Eigen::Map<const MatrixXd>(U, dims.nu, N), &r->motion);
  if (!status.ok()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the motion fails at knot " + std::to_string(status.knot) + ": " + ToString(status.status));
  }
  r->moved = true;
  if (X) Eigen::Map<MatrixXd>(X, dims.nx, N + 1) = r->motion.X;  // a knot a row on their side
  if (S) Eigen::Map<MatrixXd>(S, dims.ns, N + 1) = r->motion.S;
}

void PullBackward(costate_rollout* r, const mjtNum* X_bar, const mjtNum* S_bar, mjtNum* x0_bar, mjtNum* U_bar,
                  mjtNum* theta_bar) {
  RefuseNull(r, "rollout");
  RefusePythonCallbacks();
  if (!r->moved) throw Error(ErrorCode::kInvalidArgument, "there is no motion: costate_rollout_forward comes first");
  const Dims& dims = r->simulator.dims();
  const int N = r->motion.N();
  if (!r->adjoint) r->adjoint = std::make_unique<Adjoint>(r->model, r->context, r->simulator.substeps());
  const auto slopes = [&](const mjtNum* bar, int rows) {
    return bar ? MatrixXd(Eigen::Map<const MatrixXd>(bar, rows, N + 1)) : MatrixXd();
  };
  const KnownSlopes loss(slopes(X_bar, dims.ndx), MatrixXd(), slopes(S_bar, dims.ns));
  RolloutGradient& g = r->gradient;
  r->adjoint->Gradient(r->motion.X.col(0), r->motion.U, loss, {.parameters = theta_bar ? r->parameters.get() : nullptr},
                       &g);
  if (!g.status.ok()) {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no derivative at knot " + std::to_string(g.status.knot) + ": " + ToString(g.status.status));
  }
  if (x0_bar) Eigen::Map<VectorXd>(x0_bar, dims.ndx) = g.x0;
  if (U_bar) Eigen::Map<MatrixXd>(U_bar, dims.nu, N) = g.U;
  if (theta_bar && r->parameters) Eigen::Map<VectorXd>(theta_bar, r->parameters->size()) = g.theta;
}

}  // namespace
}  // namespace costate

costate_rollout* costate_make_rollout(const mjModel* m, const mjData* d, int substeps, const char* const* parameters,
                                      int n, char* error, int error_sz) {
  costate_rollout* rollout = nullptr;
  costate::SimulateFromC("costate_make_rollout", error, error_sz,
                         [&] { rollout = costate::MakeRollout(m, d, substeps, parameters, n).release(); });
  return rollout;
}

void costate_delete_rollout(costate_rollout* rollout) { delete rollout; }

int costate_rollout_ntheta(const costate_rollout* rollout) {
  return rollout && rollout->parameters ? rollout->parameters->size() : 0;
}

const char* costate_rollout_parameter(const costate_rollout* rollout, int i) {
  if (i < 0 || i >= costate_rollout_ntheta(rollout)) return nullptr;
  return (*rollout->parameters)[i].name.c_str();
}

int costate_rollout_get_parameters(const costate_rollout* rollout, mjtNum* theta, char* error, int error_sz) {
  return costate::CallFromC(error, error_sz, [&] {
    costate::RefuseNull(rollout, "rollout");
    costate::RefuseNull(theta, "theta");
    if (rollout->parameters)
      Eigen::Map<costate::VectorXd>(theta, rollout->parameters->size()) = rollout->parameters->Get();
  });
}

int costate_rollout_set_parameters(costate_rollout* rollout, const mjtNum* theta, char* error, int error_sz) {
  return costate::CallFromC(error, error_sz, [&] {
    costate::RefuseNull(rollout, "rollout");
    costate::RefuseNull(theta, "theta");
    if (!rollout->parameters) return;
    rollout->parameters->Set(Eigen::Map<const costate::VectorXd>(theta, rollout->parameters->size()));
    rollout->moved = false;
  });
}

int costate_rollout_forward(costate_rollout* rollout, const mjtNum* x0, const mjtNum* U, int N, mjtNum* X, mjtNum* S,
                            char* error, int error_sz) {
  return costate::SimulateFromC("costate_rollout_forward", error, error_sz,
                                [&] { costate::RollForward(rollout, x0, U, N, X, S); });
}

int costate_rollout_backward(costate_rollout* rollout, const mjtNum* X_bar, const mjtNum* S_bar, mjtNum* x0_bar,
                             mjtNum* U_bar, mjtNum* theta_bar, char* error, int error_sz) {
  return costate::SimulateFromC("costate_rollout_backward", error, error_sz,
                                [&] { costate::PullBackward(rollout, X_bar, S_bar, x0_bar, U_bar, theta_bar); });
}
