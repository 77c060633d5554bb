// Second derivatives of a rollout's loss times a direction: a tangent sweep, then an adjoint sweep. README.md,
// "Curvature".
#include <costate/curvature.h>

#include <algorithm>
#include <cmath>

#include "rollout/check_trajectory.h"
#include "rollout/direction.h"
#include "rollout/knot_products.h"
#include "rollout/rotation.h"
#include "rollout/step_curvature.h"
#include "rollout/thread_pool.h"

namespace costate {
namespace {

constexpr double kParameterNudges =
    4;  // of Parameter::nudge: differences of products that are differences by it themselves

}  // namespace

struct Curvature::Impl {
  Impl(const mjModel* m, ConstVectorRef c, int k, int threads)
      : model(m), dims(m), context(c), substeps(k), pool(threads), workers(static_cast<std::size_t>(pool.threads())) {
    CheckStart(model, context, substeps);
    CheckHandsOnNothing(model);
  }

  // made when first used; worker 0 sweeps
  KnotProducts* Get(int worker) {
    std::unique_ptr<KnotProducts>& w = workers[static_cast<std::size_t>(worker)];
    if (!w) w = std::make_unique<KnotProducts>(model, context, substeps, options.level, options.parameters);
    return w.get();
  }
  KnotGradient Zero(int t) const {
    return {VectorXd::Zero(dims.ndx), VectorXd::Zero(t < N() ? dims.nu : 0), VectorXd::Zero(sensors ? dims.ns : 0)};
  }
  int Parameters() const { return options.parameters ? options.parameters->size() : 0; }
  int N() const { return trajectory->N(); }
  KnotView View(int t) const { return ViewKnot(*trajectory, t, substeps * model->opt.timestep); }

  void CheckReady(const RolloutDirection& d) const;
  bool PushAll(const RolloutDirection& d, RolloutStatus* status);
  bool BendAll(const RolloutDirection& d, CurvatureProduct* out);
  bool BendParameters(const RolloutDirection& d, CurvatureProduct* out);
  bool PullMoved(ConstVectorRef theta, MatrixXd* pulled, CurvatureProduct* out);
  bool AnyFailed(const std::vector<StepStatus>& failed, CurvatureProduct* out) const;
  void Multiply(const RolloutDirection& d, bool bend, CurvatureProduct* out);

  const mjModel* model;
  Dims dims;
  VectorXd context;
  int substeps;
  ThreadPool pool;
  std::vector<std::unique_ptr<KnotProducts>> workers;

  // the point
  bool differenced = false, theta_differenced = false;  // was any term, or any parameter, at any knot?
  const Trajectory* trajectory = nullptr;
  const Loss* loss = nullptr;
  CurvatureOptions options;
  bool sensors = false, ready = false;
  double value = 0;
  RolloutDirection gradient;
  MatrixXd lambda, slope_x, sigma;      // λ_t, ∂l_t/∂x, ∂l_t/∂s: one knot a column
  MatrixXd pulled, pulled_theta;        // (Aᵀλ + Cᵀσ; Bᵀλ + Dᵀσ), Pᵀλ + Psᵀσ
  std::unique_ptr<ParameterSet> moved;  // the parameters elsewhere, and products of its model
  std::vector<std::unique_ptr<KnotProducts>> moved_products;

  // a product
  MatrixXd dX, dS, bent, bent_theta;  // bent: derivative of `pulled` along the direction at fixed λ and σ
};

Curvature::Curvature(const mjModel* model, ConstVectorRef context, int substeps, int threads)
    : impl_(std::make_unique<Impl>(model, context, substeps, threads)) {}
Curvature::~Curvature() = default;

double Curvature::loss() const { return impl_->value; }
const RolloutDirection& Curvature::gradient() const { return impl_->gradient; }

RolloutStatus Curvature::SetPoint(const Trajectory& trajectory, const Loss& loss, const CurvatureOptions& options) {
  Impl& c = *impl_;
  CheckTrajectory(c.model, trajectory);
  std::vector<char> read(static_cast<std::size_t>(c.dims.ns), 0);
  loss.MarkSensors(&read);
  RefusePastSensors(c.model, "the loss", [&](int i) { return read[static_cast<std::size_t>(i)] != 0; });
  if (options.level != c.options.level || options.parameters != c.options.parameters) {
    for (auto& worker : c.workers) worker.reset();
  }
  c.trajectory = &trajectory;
  c.loss = &loss;
  c.options = options;
  c.sensors = loss.NeedsSensors();
  c.ready = false;
  c.value = 0;
  const int N = c.N();
  c.gradient = {VectorXd(), MatrixXd::Zero(c.dims.nu, N), VectorXd::Zero(c.Parameters())};
  c.lambda.setZero(c.dims.ndx, N + 1);
  c.slope_x.setZero(c.dims.ndx, N + 1);
  c.sigma.setZero(c.sensors ? c.dims.ns : 0, N + 1);
  c.pulled.setZero(c.dims.ndx + c.dims.nu, N + 1);
  c.pulled_theta.setZero(c.Parameters(), N + 1);
  c.moved_products.clear();
  c.moved.reset();

  KnotProducts* products = c.Get(0);
  products->ForgetCoverage();
  const VectorXd none = VectorXd::Zero(c.dims.ndx);
  KnotCovector back;
  for (int t = N; t >= 0; --t) {
    const KnotView view = c.View(t);
    KnotGradient slope = c.Zero(t);
    c.value += loss.Value(view);
    loss.Gradient(view, &slope);
    c.slope_x.col(t) = slope.x;
    c.sigma.col(t) = slope.s;
    if (!products->Pull(PointAt(trajectory, t), t < N ? ConstVectorRef(c.lambda.col(t + 1)) : ConstVectorRef(none),
                        slope.s, &back)) {
      return {.status = products->status(), .knot = t, .warnings = {}};
    }
    c.pulled.col(t).head(c.dims.ndx) = back.x;
    c.lambda.col(t) = back.x + slope.x;
    c.gradient.theta += back.theta;
    c.pulled_theta.col(t) = back.theta;
    if (t == N) continue;
    c.pulled.col(t).tail(c.dims.nu) = back.u;
    c.gradient.U.col(t) = back.u + slope.u;
  }
  c.gradient.x0 = c.lambda.col(0);
  c.differenced = products->differenced(false);
  c.theta_differenced = products->differenced(true);
  c.ready = true;
  return {};
}

void Curvature::Impl::CheckReady(const RolloutDirection& d) const {
  if (!ready) throw Error(ErrorCode::kInvalidArgument, "a curvature has no point yet: SetPoint did not succeed");
  CheckDirection(model, N(), options.parameters, d);
}

// dX and, for sensors, dS
bool Curvature::Impl::PushAll(const RolloutDirection& d, RolloutStatus* status) {
  dX.setZero(dims.ndx, N() + 1);
  dS.setZero(sensors ? dims.ns : 0, N() + 1);
  dX.col(0) = d.x0;
  MatrixXd next, ds;
  for (int t = 0; t <= N(); t++) {
    const bool last = t == N();
    if (last && !sensors) break;
    const MatrixXd du = last ? MatrixXd(0, 1) : MatrixXd(d.U.col(t));
    if (!Get(0)->Push(PointAt(*trajectory, t), {dX.col(t), du, d.theta}, &next, sensors ? &ds : nullptr)) {
      *status = {.status = Get(0)->status(), .knot = t, .warnings = {}};
      return false;
    }
    if (sensors) dS.col(t) = ds;
    if (!last) dX.col(t + 1) = next;
  }
  return true;
}

// the second derivative of each step, knots in any order
bool Curvature::Impl::BendAll(const RolloutDirection& d, CurvatureProduct* out) {
  bent.setZero(dims.ndx + dims.nu, N() + 1);
  bent_theta.setZero(Parameters(), N() + 1);
  const VectorXd no_control, none = VectorXd::Zero(dims.ndx);
  std::vector<StepStatus> failed(static_cast<std::size_t>(N()) + 1, StepStatus::kOk);
  std::vector<BendSides> sides(failed.size());
  pool.ParallelFor(N() + (sensors ? 1 : 0), [&](int t, int worker) {
    const std::size_t at = static_cast<std::size_t>(t);
    const bool last = t == N();
    const StepBend bend{.model = model,
                        .at = PointAt(*trajectory, t),
                        .lambda = last ? ConstVectorRef(none) : ConstVectorRef(lambda.col(t + 1)),
                        .sigma = sigma.col(t),
                        .dx = dX.col(t),
                        .du = last ? ConstVectorRef(no_control) : ConstVectorRef(d.U.col(t)),
                        .pulled = pulled.col(t).head(dims.ndx + (last ? 0 : dims.nu)),
                        .differenced = differenced,
                        .theta = pulled_theta.col(t),
                        .theta_differenced = theta_differenced};
    if (!Bend(bend, Get(worker), bent.col(t).head(bend.pulled.size()), bent_theta.col(t), &sides[at]))
      failed[at] = Get(worker)->status();
  });
  for (int t = 0; t <= N(); t++) {
    const BendSides& side = sides[static_cast<std::size_t>(t)];
    if (side.left_out) out->left_out.push_back(t);
    else if (side.one_sided) out->one_sided.push_back(t);
  }
  return !AnyFailed(failed, out);
}

bool Curvature::Impl::AnyFailed(const std::vector<StepStatus>& failed, CurvatureProduct* out) const {
  for (int t = 0; t <= N(); t++) {
    const StepStatus status = failed[static_cast<std::size_t>(t)];
    if (status == StepStatus::kOk) continue;
    out->status = {.status = status, .knot = t, .warnings = {}};
    return true;
  }
  return false;
}

// what is pulled back at every knot, one below the other, with other parameters at the same states, λ and σ
bool Curvature::Impl::PullMoved(ConstVectorRef theta, MatrixXd* all, CurvatureProduct* out) {
  if (!moved) moved = std::make_unique<ParameterSet>(*options.parameters);
  moved->Set(theta);
  moved_products.resize(workers.size());
  all->setZero(dims.ndx + dims.nu + Parameters(), N() + 1);
  const VectorXd none = VectorXd::Zero(dims.ndx);
  std::vector<StepStatus> failed(static_cast<std::size_t>(N()) + 1, StepStatus::kOk);
  pool.ParallelFor(N() + (sensors ? 1 : 0), [&](int t, int worker) {
    std::unique_ptr<KnotProducts>& products = moved_products[static_cast<std::size_t>(worker)];
    if (!products)
      products = std::make_unique<KnotProducts>(moved->model(), context, substeps, options.level, moved.get());
    const bool last = t == N();
    KnotCovector back;
    if (!products->Pull(PointAt(*trajectory, t), last ? ConstVectorRef(none) : ConstVectorRef(lambda.col(t + 1)),
                        sigma.col(t), &back)) {
      failed[static_cast<std::size_t>(t)] = products->status();
      return;
    }
    all->col(t).head(dims.ndx) = back.x;
    if (!last) all->col(t).segment(dims.ndx, dims.nu) = back.u;
    all->col(t).tail(Parameters()) = back.theta;
  });
  return !AnyFailed(failed, out);
}

// (7) along dθ: differences at h and h/2, extrapolated; within the bounds, hence on one side where they are near
bool Curvature::Impl::BendParameters(const RolloutDirection& d, CurvatureProduct* out) {
  const VectorXd theta = options.parameters ? options.parameters->Get() : VectorXd();
  double largest = 0;
  for (int k = 0; k < theta.size(); k++)
    largest = std::max(largest, std::abs(d.theta[k]) / (*options.parameters)[k].nudge);
  if (largest == 0) return true;
  const double h = kParameterNudges / largest;
  const auto inside = [&](double step) {
    const VectorXd at = theta + step * d.theta;
    return options.parameters->Clamp(at) == at;
  };
  const bool up = inside(h), down = inside(-h), centred = up && down;
  if (!up && !down) throw Error(ErrorCode::kInvalidArgument, "the direction leaves the parameters' bounds both ways");
  const double side = up ? h : -h;
  MatrixXd near[2], f[2], center(pulled.rows() + pulled_theta.rows(), pulled.cols());
  center << pulled, pulled_theta;
  for (int k = 0; k < 2; k++) {
    const double step = k ? side / 2 : side;
    if (!PullMoved(theta + step * d.theta, &f[0], out)) return false;
    if (centred && !PullMoved(theta - step * d.theta, &f[1], out)) return false;
    near[k] = centred ? MatrixXd((f[0] - f[1]) / (2 * step)) : MatrixXd((f[0] - center) / step);
  }
  const MatrixXd limit = centred ? MatrixXd((4 * near[1] - near[0]) / 3) : MatrixXd(2 * near[1] - near[0]);
  out->theta_step = std::abs(side);
  out->theta_error = (limit - near[1]).norm() / std::max(limit.norm(), 1e-300);
  bent += limit.topRows(bent.rows());
  bent_theta += limit.bottomRows(bent_theta.rows());
  return true;
}

void Curvature::Impl::Multiply(const RolloutDirection& d, bool bend, CurvatureProduct* out) {
  CheckReady(d);
  *out = CurvatureProduct();
  if (!PushAll(d, &out->status)) return;
  if (bend && (!BendAll(d, out) || !BendParameters(d, out))) return;
  out->product.U.setZero(dims.nu, N());
  out->product.theta.setZero(Parameters());
  VectorXd p = VectorXd::Zero(dims.ndx);
  KnotCovector back;
  for (int t = N(); t >= 0; --t) {
    const bool last = t == N();
    const KnotGradient direction{dX.col(t), last ? VectorXd() : VectorXd(d.U.col(t)), dS.col(t)};
    KnotGradient w = Zero(t);
    if (bend) {
      loss->HessianProduct(model, View(t), direction, &w);
    } else {
      loss->GaussNewtonProduct(model, View(t), direction, &w);
    }
    if (!Get(0)->Pull(PointAt(*trajectory, t), p, w.s, &back)) {
      out->status = {.status = Get(0)->status(), .knot = t, .warnings = {}};
      return;
    }
    p = back.x + w.x;
    out->product.theta += back.theta;
    if (!last) out->product.U.col(t) = back.u + w.u;
    if (!bend) continue;
    out->product.theta += bent_theta.col(t);
    AddHalfBracket(model, 1, slope_x.col(t), dX.col(t), &p);
    p += bent.col(t).head(dims.ndx);
    if (!last) out->product.U.col(t) += bent.col(t).tail(dims.nu);
  }
  if (bend) AddHalfBracket(model, -1, lambda.col(0), d.x0, &p);
  out->product.x0 = p;
}

void Curvature::GaussNewton(const RolloutDirection& d, CurvatureProduct* out) { impl_->Multiply(d, false, out); }

void Curvature::Hessian(const RolloutDirection& d, CurvatureProduct* out) { impl_->Multiply(d, true, out); }

}  // namespace costate
