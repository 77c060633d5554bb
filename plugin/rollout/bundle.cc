// Samples in pairs at +w and −w: each pair gives a slope from its two gradients and one from its two values.
#include <costate/bundle.h>

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "core/check.h"
#include "core/random.h"
#include "derivative/munthe_kaas.h"
#include "rollout/bundle_statistics.h"
#include "rollout/check_trajectory.h"
#include "rollout/thread_pool.h"

namespace costate {
namespace {

using Eigen::Matrix3d;
using Eigen::Vector3d;

// normal numbers of one pair
NormalStream PairNoise(std::uint64_t seed, int pair) {
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(pair)};
  return NormalStream(std::mt19937_64(words));
}

void CheckNoise(const mjModel* m, const BundleOptions& o) {
  const Dims dims(m);
  const auto bad = [](const std::string& text) { throw Error(ErrorCode::kInvalidArgument, text); };
  if (o.pairs < 2) bad("pairs is " + std::to_string(o.pairs) + ", a bundle needs at least 2");
  if (o.state.size() > 0) CheckSize(m, "noise on the state", o.state.size(), "ndx", dims.ndx);
  if (o.control.size() > 0) CheckSize(m, "noise on the controls", o.control.size(), "nu", dims.nu);
  double largest = 0;
  for (const VectorXd* noise : {&o.state, &o.control}) {
    const std::vector<std::string> names = noise == &o.state ? TangentNames(m) : ControlNames(m);
    for (int i = 0; i < noise->size(); i++) {
      const double s = (*noise)[i];
      if (!(s >= 0) || !std::isfinite(s)) {
        bad(fmt::format("noise on {} is {:g}, expected a standard deviation", names[static_cast<std::size_t>(i)], s));
      }
      largest = std::fmax(largest, s);
    }
  }
  if (largest == 0) bad("there is no noise: a bundle needs a positive standard deviation of a state or control");
  if (o.state.size() == 0) return;
  ForRotations(m, [&](int i) {
    if (o.state[i] == o.state[i + 1] && o.state[i] == o.state[i + 2]) return;
    const std::vector<std::string> names = TangentNames(m);
    bad(fmt::format("noise on {} and on the other axes of its rotation differs ({:g}, {:g}, {:g}), expected one value",
                    names[static_cast<std::size_t>(i)], o.state[i], o.state[i + 1], o.state[i + 2]));
  });
}

// noise, drawn: σ w by state and control, N controls
struct Draw {
  VectorXd state;
  MatrixXd control;

  Draw(const mjModel* m, const BundleOptions& o, int pair, int N)
      : state(VectorXd::Zero(Dims(m).ndx)), control(MatrixXd::Zero(m->nu, N)) {
    NormalStream noise = PairNoise(o.seed, pair);
    for (int i = 0; i < o.state.size(); i++) state[i] = o.state[i] * noise.Next();
    for (int t = 0; t < N; t++) {
      for (int i = 0; i < o.control.size(); i++) control(i, t) = o.control[i] * noise.Next();
    }
  }
};

Matrix3d Rotation(const Vector3d& w) {
  const double angle = w.norm();
  return angle > 0 ? Eigen::AngleAxisd(angle, w / angle).toRotationMatrix() : Matrix3d::Identity();
}

// a slope at x ⊕ w becomes one by x: (8)
void TransportSlope(const mjModel* m, const VectorXd& w, VectorXd* slope) {
  ForRotations(m, [&](int i) { slope->segment<3>(i) = Rotation(w.segment<3>(i)) * slope->segment<3>(i).eval(); });
}

// 1 where there is noise, in the order (state; controls of each knot)
VectorXd Noisy(const BundleOptions& o, int ndx, int nu, int N) {
  VectorXd out = VectorXd::Zero(ndx + static_cast<Eigen::Index>(nu) * N);
  for (int i = 0; i < o.state.size(); i++) out[i] = o.state[i] > 0;
  for (int t = 0; t < N; t++) {
    for (int i = 0; i < o.control.size(); i++) out[ndx + static_cast<Eigen::Index>(t) * nu + i] = o.control[i] > 0;
  }
  return out;
}

// what pairs gave: a column each; the pairs that failed go out
struct Samples {
  Samples(Eigen::Index size, int pairs)
      : first(size, pairs),
        zeroth(size, pairs),
        failure(static_cast<std::size_t>(pairs)),
        coverage(static_cast<std::size_t>(pairs)) {}

  MatrixXd first, zeroth;
  std::vector<std::string> failure;  // "" where the pair succeeded
  std::vector<Coverage> coverage;

  // moves the successful columns to the front. @return how many there are
  template <typename Out>
  int Sort(MatrixXd* more, Out* out) {
    int kept = 0;
    for (int i = 0; i < first.cols(); i++) {
      const std::size_t s = static_cast<std::size_t>(i);
      if (!failure[s].empty()) {
        if (out->failed++ == 0) out->failure = failure[s];
        continue;
      }
      if (out->coverage.terms.empty() || coverage[s].Worst() > out->coverage.Worst()) out->coverage = coverage[s];
      first.col(kept) = first.col(i).eval();
      zeroth.col(kept) = zeroth.col(i).eval();
      more->col(kept) = more->col(i).eval();
      kept++;
    }
    if (kept < 2) {
      throw Error(ErrorCode::kInvalidArgument, std::to_string(out->failed) + " of " + std::to_string(first.cols()) +
                                                   " pairs failed, the first: " + out->failure);
    }
    return kept;
  }
};

std::string FailedAt(StepStatus status, int knot) {
  return std::string(ToString(status)) + " at knot " + std::to_string(knot);
}

}  // namespace

struct Bundle::Impl {
  Impl(const mjModel* m, ConstVectorRef c, int s, int threads)
      : model(m), context(c), substeps(s), adjoint(m, c, s, threads) {}

  struct Worker {
    std::unique_ptr<Linearizer> linearizer;
    Level level = Level::kBest;
    DataPtr data;
  };

  Worker& Get(int index, Level level) {
    Worker& w = workers[static_cast<std::size_t>(index)];
    if (!w.linearizer || w.level != level) {
      w.level = level;
      w.linearizer =
          std::make_unique<Linearizer>(model, LinearizeOptions{.level = level, .substeps = substeps, .sensors = false});
      w.linearizer->SetContext(context);
    }
    if (!w.data) w.data = MakeData(model);
    return w;
  }

  // f(x, u), from the context. @return empty, or why not
  std::string Advance(Worker* w, const VectorXd& x, ConstVectorRef u, VectorXd* next) const {
    costate::SetContext(model, w->data.get(), context);
    VectorXd no_sensors;
    const StepStatus status = Step(model, w->data.get(), x, u, substeps, *next, no_sensors);
    return status == StepStatus::kOk ? "" : ToString(status);
  }

  const mjModel* model;
  VectorXd context;
  int substeps;
  Adjoint adjoint;
  std::vector<Worker> workers;
};

Bundle::Bundle(const mjModel* model, ConstVectorRef context, int substeps, int threads)
    : impl_(std::make_unique<Impl>(model, context, substeps, threads)) {}
Bundle::~Bundle() = default;

void Bundle::Gradient(ConstVectorRef x0, ConstMatrixRef U, const Loss& loss, const BundleOptions& options,
                      const AdjointOptions& adjoint, BundleGradient* out) {
  const mjModel* m = impl_->model;
  const Dims dims(m);
  const int N = static_cast<int>(U.cols());
  CheckNoise(m, options);
  CheckSize(m, "x0", x0.size(), "nx", dims.nx);
  CheckSize(m, "a column of U", U.rows(), "nu", dims.nu);
  if (adjoint.forces || adjoint.parameters || adjoint.feedback) {
    throw Error(ErrorCode::kInvalidArgument,
                "a bundle averages gradients by state and controls: forces, parameters and feedback must be off");
  }
  *out = BundleGradient();
  const Eigen::Index size = dims.ndx + U.size();
  Samples samples(size, options.pairs);
  MatrixXd values(1, options.pairs);
  impl_->adjoint.ParallelFor(options.pairs, [&](int i, int worker) {
    const std::size_t s = static_cast<std::size_t>(i);
    const Draw draw(m, options, i, N);
    RolloutGradient sample[2];
    for (int side : {0, 1}) {
      const double sign = side == 0 ? 1 : -1;
      const VectorXd w = sign * draw.state;
      RolloutGradient& g = sample[side];
      impl_->adjoint.Gradient(Retract(m, x0, w), U + sign * draw.control, loss, adjoint, &g, worker);
      if (!g.status.ok()) {
        samples.failure[s] = FailedAt(g.status.status, g.status.knot);
        return;
      }
      TransportSlope(m, w, &g.x0);
    }
    values(0, i) = 0.5 * (sample[0].loss + sample[1].loss);
    samples.coverage[s] = sample[sample[1].coverage.Worst() > sample[0].coverage.Worst()].coverage;
    // (10)
    const double rise = 0.5 * (sample[0].loss - sample[1].loss);
    samples.first.col(i) << 0.5 * (sample[0].x0 + sample[1].x0), 0.5 * (sample[0].U + sample[1].U).reshaped();
    samples.zeroth.col(i) << rise * StateScore(m, options, draw.state),
        rise * ControlScore(options, draw.control).reshaped();
  });

  const int n = samples.Sort(&values, out);
  const BundleStatistics all =
      Combine(samples.first.leftCols(n), samples.zeroth.leftCols(n), Noisy(options, dims.ndx, dims.nu, N));
  const auto slope = [&](const VectorXd& z, double deviation, double noisy) {
    return BundleSlope{z.head(dims.ndx), z.tail(U.size()).reshaped(dims.nu, N), deviation, noisy};
  };
  out->first = slope(all.first, all.first_deviation, all.first_noisy);
  out->zeroth = slope(all.zeroth, all.zeroth_deviation, all.zeroth_deviation);
  out->combined = slope(all.combined, all.combined_deviation, all.combined_noisy);
  out->weight = all.weight;
  out->bias = all.bias;
  const auto v = values.row(0).head(n);
  out->loss = v.mean();
  out->loss_deviation = std::sqrt((v.array() - out->loss).square().sum() / (static_cast<double>(n) * (n - 1)));
}

void Bundle::Linearize(ConstVectorRef x, ConstVectorRef u, const BundleOptions& options, BundleDerivative* out,
                       Level level) {
  const mjModel* m = impl_->model;
  const Dims dims(m);
  CheckNoise(m, options);
  CheckSize(m, "x", x.size(), "nx", dims.nx);
  CheckSize(m, "u", u.size(), "nu", dims.nu);
  *out = BundleDerivative();
  const int columns = dims.ndx + dims.nu;
  const Eigen::Index size = static_cast<Eigen::Index>(dims.ndx) * columns;
  Samples samples(size, options.pairs);
  MatrixXd moved(dims.ndx, options.pairs);
  impl_->workers.resize(static_cast<std::size_t>(impl_->adjoint.threads()));

  VectorXd centre(dims.nx);
  if (const std::string failure = impl_->Advance(&impl_->Get(0, level), x, u, &centre); !failure.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the step without noise failed: " + failure);
  }
  impl_->adjoint.ParallelFor(options.pairs, [&](int i, int index) {
    const std::size_t s = static_cast<std::size_t>(i);
    Impl::Worker& worker = impl_->Get(index, level);
    const Draw draw(m, options, i, 1);
    MatrixXd first = MatrixXd::Zero(dims.ndx, columns);
    VectorXd next(dims.nx), shift[2];
    StepDerivative d;
    for (int side : {0, 1}) {
      const double sign = side == 0 ? 1 : -1;
      const VectorXd w = sign * draw.state, at = Retract(m, x, w), control = u + sign * draw.control.col(0);
      samples.failure[s] = impl_->Advance(&worker, at, control, &next);
      if (samples.failure[s].empty()) worker.linearizer->Linearize(at, control, &d);
      if (samples.failure[s].empty() && d.status != StepStatus::kOk) samples.failure[s] = ToString(d.status);
      if (!samples.failure[s].empty()) return;
      shift[side] = Difference(m, next, centre);
      // (8) on the columns; on the rows the slope of ⊖, J_r⁻¹ of the shift
      ForRotations(m, [&](int r) {
        d.A.middleCols<3>(r) = (d.A.middleCols<3>(r) * Rotation(w.segment<3>(r)).transpose()).eval();
        const Vector3d y = shift[side].segment<3>(r);
        const InverseJacobian inverse(y);
        for (MatrixXd* J : {&d.A, &d.B}) {
          for (int c = 0; c < J->cols(); c++)
            J->col(c).segment<3>(r) = inverse.Apply(y, J->col(c).segment<3>(r).eval());
        }
      });
      first.leftCols(dims.ndx) += 0.5 * d.A;
      first.rightCols(dims.nu) += 0.5 * d.B;
      if (side == 0 || d.coverage.Worst() > samples.coverage[s].Worst()) samples.coverage[s] = d.coverage;
    }
    VectorXd score(columns);
    score << StateScore(m, options, draw.state), ControlScore(options, draw.control);
    samples.first.col(i) = first.reshaped();
    samples.zeroth.col(i) = (0.5 * (shift[0] - shift[1]) * score.transpose()).reshaped();
    moved.col(i) = 0.5 * (shift[0] + shift[1]);
  });

  const int n = samples.Sort(&moved, out);
  const VectorXd noisy = (VectorXd::Ones(dims.ndx) * Noisy(options, dims.ndx, dims.nu, 1).transpose()).reshaped();
  const BundleStatistics all = Combine(samples.first.leftCols(n), samples.zeroth.leftCols(n), noisy);
  const auto matrices = [&](const VectorXd& z, double deviation) {
    const auto both = z.reshaped(dims.ndx, columns);
    return BundleMatrices{both.leftCols(dims.ndx), both.rightCols(dims.nu), deviation};
  };
  out->mean = moved.leftCols(n).rowwise().mean();
  out->first = matrices(all.first, all.first_deviation);
  out->zeroth = matrices(all.zeroth, all.zeroth_deviation);
  out->combined = matrices(all.combined, all.combined_deviation);
  out->weight = all.weight;
  out->bias = all.bias;
}

}  // namespace costate
