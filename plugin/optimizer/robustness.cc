#include <costate/robustness.h>
#include <costate/state.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "optimizer/control_limits.h"
#include "optimizer/gain_kept.h"
#include "optimizer/line_search.h"

namespace costate {
namespace {

constexpr double kPush = 0.1 * 9.81;             // [m/s²]
constexpr double kPushTime = 0.1, kLate = 0.01;  // [s]
constexpr double kAlong = 0.9;                   // cosine: an axis that gravity is along

// ū_t + K (x_t ⊖ x̄_t) within the bounds, played so many knots late; of one rollout, in the order of its knots
class LateLaw final : public Feedback {
 public:
  LateLaw(const Problem& problem, const Trajectory& motion, const std::vector<MatrixXd>& K, int late)
      : problem_(problem), motion_(motion), K_(K), late_(late), due_(motion.U) {}
  int weights() const override { return 0; }
  void Control(const FeedbackInput& in, VectorRef u) const override {
    if (!K_.empty()) {
      due_.col(in.t) += K_[static_cast<std::size_t>(in.t)] * Difference(problem_.model, in.x, motion_.X.col(in.t));
      due_.col(in.t) = WithinLimits(problem_, due_.col(in.t));
    }
    u = due_.col(std::max(0, in.t - late_));
  }
  void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}

 private:
  const Problem& problem_;
  const Trajectory& motion_;
  const std::vector<MatrixXd>& K_;
  int late_;
  mutable MatrixXd due_;
};

struct Disturbance {
  std::string name;
  MatrixXd xfrc;
  int late = 0;
};

int KnotsOf(double time, double knot_time) { return std::max(1, static_cast<int>(std::ceil(time / knot_time - 1e-9))); }

// beside the forces that act anyway
MatrixXd PushedForces(const Problem& problem, int axis, double sign, int begin, int end) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), problem.context);
  MatrixXd xfrc = Eigen::Map<const VectorXd>(data->xfrc_applied, 6 * m->nbody).replicate(1, problem.N);
  for (int body = 1; body < m->nbody; body++)
    xfrc.row(6 * body + axis).segment(begin, end - begin).array() += sign * kPush * m->body_mass[body];
  return xfrc;
}

std::vector<Disturbance> Pushes(const Problem& problem, double knot_time) {
  const mjModel* m = problem.model;
  const Eigen::Map<const Eigen::Vector3d> gravity(m->opt.gravity);
  const bool falls = !(m->opt.disableflags & mjDSBL_GRAVITY);
  const int begin = problem.N / 3, end = std::min(problem.N, begin + KnotsOf(kPushTime, knot_time));
  std::vector<Disturbance> pushes;
  for (int axis = 0; axis < 3; axis++) {
    if (falls && std::abs(gravity[axis]) > kAlong * gravity.norm()) continue;
    for (const double sign : {1.0, -1.0})
      pushes.push_back({fmt::format("pushed to {}{}", sign > 0 ? '+' : '-', "xyz"[axis]),
                        PushedForces(problem, axis, sign, begin, end)});
  }
  return pushes;
}

}  // namespace

RobustnessCheck CheckRobustness(const Problem& problem, const Trajectory& motion, const Policy& policy,
                                double initial_cost, int threads) {
  CheckJudged(problem, motion, policy);
  Simulator simulator(problem.model, problem.context, problem.substeps, threads);
  const double knot_time = simulator.knot_time();
  const GainKept kept(problem, motion, initial_cost);
  std::vector<Disturbance> disturbances = Pushes(problem, knot_time);
  const int late = KnotsOf(kLate, knot_time), pushes = static_cast<int>(disturbances.size());
  disturbances.push_back({fmt::format("controls {:.3g} ms late", 1e3 * late * knot_time), MatrixXd(), late});

  // open loops, then closed ones
  const int n = pushes + 1, loops = policy.K.empty() ? 1 : 2;
  VectorXd costs(2 * n);
  const std::vector<MatrixXd> none;
  simulator.ParallelFor(loops * n, [&](int i, int worker) {
    const Disturbance& disturbance = disturbances[static_cast<std::size_t>(i % n)];
    const LateLaw law(problem, motion, i < n ? none : policy.K, disturbance.late);
    Trajectory played;
    const RolloutStatus status =
        simulator.RolloutFeedback(motion.X.col(0), problem.N, law, &played, worker, disturbance.xfrc);
    costs[i] = RolloutCost(problem, played, status, knot_time);
  });
  if (loops == 1) costs.tail(n) = costs.head(n);

  RobustnessCheck check;
  check.of_cost = kept.of_cost();
  int worst = 0;
  for (int i = 1; i < pushes; i++) {
    if (costs[n + i] > costs[n + worst]) worst = i;
  }
  for (const int i : {worst, pushes}) {
    Disturbance& disturbance = disturbances[static_cast<std::size_t>(i)];
    check.motions.push_back({disturbance.name, costs[i], costs[n + i], kept.Of(costs[i]), kept.Of(costs[n + i]),
                             std::move(disturbance.xfrc)});
  }
  return check;
}

}  // namespace costate
