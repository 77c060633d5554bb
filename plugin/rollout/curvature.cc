// Second derivatives of a rollout's loss times a direction: a tangent sweep, then an adjoint sweep. README.md,
// "Curvature".
#include <costate/curvature.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/extremes.h"
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
// of a part of what is pulled back: changes over a step that are no noise, of closed forms and of what is differenced
constexpr double kTells = 1e-8, kDifferencedTells = 1e-6;
constexpr double kApart = 0.1;  // of the quotient at half the step: by more than this a third step has to tell

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
  bool ParameterQuotient(const RolloutDirection& d, double step, bool centred, MatrixXd* quotient,
                         CurvatureProduct* out);
  template <typename F>
  void ForParts(F f) const;
  bool AnyApart(const MatrixXd* near, double step) const;
  bool IsApart(const MatrixXd* near, double step, int t, Eigen::Index first, Eigen::Index rows) const;
  std::vector<int> Corners(const MatrixXd* near, int count, double step, ConstVectorRef theta) const;
  double LargestError(const MatrixXd& apart, const MatrixXd& limit, double step) const;
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
  std::vector<std::vector<char>> open;  // of each knot, the parameters without derivative
  std::unique_ptr<ParameterSet> moved;  // the parameters elsewhere, and products of its model
  std::vector<std::unique_ptr<KnotProducts>> moved_products;

  // a product
  MatrixXd all_pulled;                // `pulled` above `pulled_theta`
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
  c.open.assign(static_cast<std::size_t>(N) + 1, {});
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
    c.open[static_cast<std::size_t>(t)] = products->open();
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

// f(first, rows) for the parts of what is pulled back at a knot: states and controls, each parameter
template <typename F>
void Curvature::Impl::ForParts(F f) const {
  const Eigen::Index rows = pulled.rows();
  f(Eigen::Index{0}, rows);
  for (int k = 0; k < Parameters(); k++) f(rows + k, Eigen::Index{1});
}

// one quotient along dθ, at (x, u, λ, σ) as they are
bool Curvature::Impl::ParameterQuotient(const RolloutDirection& d, double step, bool centred, MatrixXd* quotient,
                                        CurvatureProduct* out) {
  const VectorXd theta = options.parameters->Get();
  MatrixXd other = all_pulled;
  if (!PullMoved(theta + step * d.theta, quotient, out)) return false;
  if (centred && !PullMoved(theta - step * d.theta, &other, out)) return false;
  *quotient = (*quotient - other) / (centred ? 2 * step : step);
  return true;
}

// Where a slope jumps at θ, quotients grow with 1/step: each is twice the one before, whatever the step is. A third one
// tells them from quotients of long steps, which get nearer.
bool Curvature::Impl::AnyApart(const MatrixXd* near, double step) const {
  bool any = false;
  for (int t = 0; t <= N(); t++) {
    ForParts([&](Eigen::Index first, Eigen::Index rows) { any = any || IsApart(near, step, t, first, rows); });
  }
  return any;
}

bool Curvature::Impl::IsApart(const MatrixXd* near, double step, int t, Eigen::Index first, Eigen::Index rows) const {
  const double apart = (near[1] - near[0]).col(t).segment(first, rows).norm();
  const double tells = theta_differenced ? kDifferencedTells : kTells;
  return step * apart > tells * all_pulled.col(t).segment(first, rows).norm() &&
         apart > kApart * near[1].col(t).segment(first, rows).norm();
}

// knots at which some part of three quotients grows, or a parameter of the direction has no first derivative
std::vector<int> Curvature::Impl::Corners(const MatrixXd* near, int count, double step, ConstVectorRef theta) const {
  std::vector<int> corners;
  for (int t = 0; t <= N(); t++) {
    bool corner = false;
    ForParts([&](Eigen::Index first, Eigen::Index rows) {
      if (corner || count < 3 || !IsApart(near, step, t, first, rows)) return;
      const auto apart = [&](int k) { return (near[k] - near[k - 1]).col(t).segment(first, rows).norm(); };
      corner = apart(2) > apart(1);
    });
    const std::vector<char>& without = open[static_cast<std::size_t>(t)];
    for (std::size_t k = 0; k < without.size(); k++) {
      corner = corner || (without[k] && theta[static_cast<Eigen::Index>(k)] != 0);
    }
    if (corner) corners.push_back(t);
  }
  return corners;
}

// of the part that is furthest from its own size over all knots, where that is more than noise
double Curvature::Impl::LargestError(const MatrixXd& apart, const MatrixXd& limit, double step) const {
  const double tells = theta_differenced ? kDifferencedTells : kTells;
  double largest = 0;
  ForParts([&](Eigen::Index first, Eigen::Index rows) {
    const double error = apart.middleRows(first, rows).norm();
    const double size = limit.middleRows(first, rows).norm();
    if (step * std::max(size, error) <= tells * all_pulled.middleRows(first, rows).norm()) return;
    largest = std::max(largest, error / size);
  });
  return largest;
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
  all_pulled.resize(pulled.rows() + pulled_theta.rows(), pulled.cols());
  all_pulled << pulled, pulled_theta;
  MatrixXd near[3];
  int count = 0;
  while (count < 2 || (count < 3 && AnyApart(near, h / 2))) {
    if (!ParameterQuotient(d, std::ldexp(side, -count), centred, &near[count], out)) return false;
    count++;
  }
  const MatrixXd apart = near[count - 1] - near[count - 2];
  MatrixXd limit = near[count - 1] + apart / (centred ? 3 : 1);

  // no second derivative at a corner
  const std::vector<int> corners = Corners(near, count, h / 2, d.theta);
  for (int t : corners) limit.col(t).setZero();
  std::vector<int> left_out;
  std::set_union(out->left_out.begin(), out->left_out.end(), corners.begin(), corners.end(),
                 std::back_inserter(left_out));
  out->left_out = std::move(left_out);
  out->theta_step = std::ldexp(h, 2 - count);
  out->theta_error = corners.empty() ? LargestError(apart, limit, h / 2) : kInf;
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
