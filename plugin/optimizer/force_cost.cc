#include "optimizer/force_cost.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizer/cost_terms.h"
#include "optimizer/free_start.h"

namespace costate {
namespace {

constexpr double kParts[] = {
    0.99, 0.95};                // of its limit, beyond which a force costs; the next where the true model keeps none
constexpr double kWeight = 10;  // of forces as far again beyond their limits, in terms of the motion without limits, …
constexpr double kLeast = 1e-3;      // … or at least of the unit of the cost
constexpr double kHeavier = 10;      // times that while forces are beyond their limits
constexpr double kWorstFalls = 0.8;  // of the worst such force, or no weight takes it away
constexpr double kAll = 1000;        // of all forces at their limits, where no motion is found without
constexpr double kNear = 0.95;       // of its limit: a force there may be what is in the way
constexpr double kFar = 1e3;         // tolerances of a violation that no further iterations take away

double Unlimited(const ForceLimits::Drive& d, double u, double q, double v) {
  return d.gain * u + d.bias + d.stiffness * q + d.damping * v;
}

double Middle(const ForceLimits::Drive& d) { return 0.5 * (d.lower + d.upper); }
double Half(const ForceLimits::Drive& d) { return 0.5 * std::abs(d.upper - d.lower); }

struct Force {
  const ForceLimits::Drive* of = nullptr;
  double value = 0, part = 0;  // of its limit
};

Force WorstForce(const ForceLimits& forces, const Trajectory& motion) {
  Force worst;
  for (int t = 0; t < motion.U.cols(); ++t) {
    for (const ForceLimits::Drive& d : forces.drives()) {
      const double value = Unlimited(d, motion.U(d.control, t), motion.X(d.qpos, t), motion.X(d.qvel, t));
      const double part = std::abs(value - Middle(d)) / Half(d);
      if (part > worst.part) worst = {&d, value, part};
    }
  }
  return worst;
}

}  // namespace

ForceCost::ForceCost(const Cost& cost, const ForceLimits& forces, double weight, double part)
    : AddedCost(cost), forces_(forces), weight_(weight), part_(part) {}

// how far beyond its part of the limits, in the unit of the force
double ForceCost::Beyond(const ForceLimits::Drive& d, const KnotView& knot) const {
  const double force = Unlimited(d, knot.u[d.control], knot.x[d.qpos], knot.x[d.qvel]) - Middle(d);
  return std::copysign(std::max(0.0, std::abs(force) - part_ * Half(d)), force);
}

double ForceCost::Value(const KnotView& knot) const {
  double l = own().Value(knot);
  if (knot.t == knot.N) return l;
  for (const ForceLimits::Drive& d : forces_.drives()) {
    const double beyond = Beyond(d, knot) / Half(d);
    l += 0.5 * weight_ * knot.dt * beyond * beyond;
  }
  return l;
}

void ForceCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  own().Expand(knot, C, D, out);
  if (knot.t == knot.N) return;
  for (const ForceLimits::Drive& d : forces_.drives()) {
    const double force = Beyond(d, knot), w = weight_ * knot.dt / (Half(d) * Half(d));
    if (force == 0) continue;
    const int dofs[2] = {d.dof, forces_.dims().nv + d.dof};
    const double by[2] = {d.stiffness, d.damping};
    out->l += 0.5 * w * force * force;
    out->lu[d.control] += w * force * d.gain;
    out->luu(d.control, d.control) += w * d.gain * d.gain;
    for (int i = 0; i < 2; ++i) {
      out->lx[dofs[i]] += w * force * by[i];
      out->lux(d.control, dofs[i]) += w * d.gain * by[i];
      for (int k = 0; k < 2; ++k) out->lxx(dofs[i], dofs[k]) += w * by[i] * by[k];
    }
  }
}

void ForceCost::Gradient(const KnotView& knot, KnotGradient* out) const {
  own().Gradient(knot, out);
  if (knot.t == knot.N) return;
  for (const ForceLimits::Drive& d : forces_.drives()) {
    const double slope = weight_ * knot.dt * Beyond(d, knot) / (Half(d) * Half(d));
    out->u[d.control] += slope * d.gain;
    out->x[d.dof] += slope * d.stiffness;
    out->x[forces_.dims().nv + d.dof] += slope * d.damping;
  }
}

std::vector<CostTermValue> ForceCost::Terms(const Trajectory& trajectory) const {
  std::vector<CostTermValue> terms = own().Terms(trajectory);
  const double dt = ControlInterval(trajectory);
  terms.push_back({"forces", TotalCost(*this, trajectory, dt) - TotalCost(own(), trajectory, dt)});
  return terms;
}

namespace {

class AroundForceLimits {
 public:
  AroundForceLimits(const Problem& problem, const ForceLimits& forces, const IlqrOptions& options,
                    const ConstrainedOptions& constrained, const ConstrainedSolver& solve, SolveResult first)
      : problem_(problem),
        forces_(forces),
        without_(forces.Without()),
        constrained_(constrained),
        solve_(solve),
        time_(problem.N * problem.substeps * problem.model->opt.timestep),
        unit_(kLeast * (options.cost_unit > 0 ? options.cost_unit : 1)),
        each_(options.iterations),
        records_(std::move(first.iterations)),
        most_(static_cast<int>(records_.size()) + kSolves * options.iterations),
        best_(std::move(first)) {}

  SolveResult Run(const Guess& guess);

 private:
  static constexpr int kSolves = 3;  // as many iterations as one has

  bool Leads(const mjModel* model, double weight, double part);
  bool Keeps(double weight, double part);
  void Narrow(double weight);
  double WeightOf(double cost, double times) const { return times * std::max(std::abs(cost), unit_) / (0.5 * time_); }
  bool Kept() const { return best_.violation <= constrained_.tolerance; }
  void Tell();

  Problem problem_;
  const ForceLimits& forces_;
  const ModelPtr without_;
  ConstrainedOptions constrained_;
  const ConstrainedSolver& solve_;
  const double time_, unit_;
  const int each_;  // iterations of a solve

  Guess from_;
  SolveResult led_;
  std::vector<IterationRecord> records_;
  const int most_;
  SolveResult best_;
  Force needed_;  // by a motion without limits, whatever they cost
  bool over_ = false;
};

// does it lead to a motion that keeps the constraints? From there the next one goes on
bool AroundForceLimits::Leads(const mjModel* model, double weight, double part) {
  const int left = std::min(each_, most_ - static_cast<int>(records_.size()));
  if (over_ || left <= 0) return false;
  const ForceCost cost(*problem_.cost, forces_, weight, part);
  Problem problem = problem_;
  problem.model = model;
  if (weight > 0) problem.cost = &cost;
  led_ = solve_(problem, from_, left, constrained_);
  records_.insert(records_.end(), led_.iterations.begin(), led_.iterations.end());
  over_ = led_.status == SolveStatus::kInterrupted;
  if (led_.status == SolveStatus::kDiverged || led_.violation > constrained_.tolerance) return false;
  from_ = {{}, led_.trajectory.U};
  if (HasFreeStart(problem_)) problem_.free_start.guess = led_.trajectory.X.col(0);
  constrained_.multipliers = led_.state.multipliers;
  constrained_.penalties = led_.state.penalties;
  constrained_.residuals = led_.state.residuals;
  constrained_.tokens = led_.state.tokens;
  led_.cost = TotalCost(*problem_.cost, led_.trajectory, time_ / problem_.N);
  return true;
}

// on the true model
bool AroundForceLimits::Keeps(double weight, double part) {
  if (!Leads(problem_.model, weight, part)) return false;
  if (Kept() && led_.cost >= best_.cost) return true;
  led_.initial_cost = best_.initial_cost;
  led_.guess_scale = best_.guess_scale;
  led_.force_weight = weight;
  best_ = led_;
  return true;
}

// heavier and heavier, until forces are within their limits
void AroundForceLimits::Narrow(double weight) {
  for (const double part : kParts) {
    for (double worst = 0;; weight *= kHeavier) {
      if (!Leads(without_.get(), weight, part)) return;
      if (!forces_.AreReached(led_.trajectory)) break;
      const Force now = WorstForce(forces_, led_.trajectory);
      if (worst > 0 && now.part - part > kWorstFalls * worst) {
        needed_ = now;
        return;
      }
      worst = now.part - part;
    }
    if (Keeps(weight, part)) return;
  }
}

SolveResult AroundForceLimits::Run(const Guess& guess) {
  from_ = guess;
  const ConstrainedOptions begin = constrained_;
  const VectorXd x0 = problem_.free_start.guess;
  if (begin.force_weight > 0) {
    Narrow(begin.force_weight);
  } else if (Leads(without_.get(), 0, 0) && led_.status != SolveStatus::kIterationLimit) {
    Narrow(WeightOf(led_.cost, kWeight));
  }
  if (!Kept() && !needed_.of) {
    from_ = guess;
    constrained_ = begin;
    problem_.free_start.guess = x0;
    const double all = WeightOf(best_.cost, kAll) / static_cast<double>(forces_.drives().size());
    if (Leads(without_.get(), all, 0)) {
      if (!forces_.AreReached(led_.trajectory)) Keeps(all, 0);
      Narrow(WeightOf(led_.cost, kWeight));
    }
  }
  best_.iterations = std::move(records_);
  Tell();
  return std::move(best_);
}

void AroundForceLimits::Tell() {
  const mjModel* m = problem_.model;
  if (over_) best_.status = SolveStatus::kInterrupted;
  if (Kept()) {
    best_.message = fmt::format(
        "{} after {} iterations at cost {:.8g}, all constraints kept; led around the limits of forces by a cost of "
        "those near them",
        ToString(best_.status), best_.iterations.size(), best_.cost);
  } else if (needed_.of) {
    const double limit = needed_.value > Middle(*needed_.of) ? std::max(needed_.of->lower, needed_.of->upper)
                                                             : std::min(needed_.of->lower, needed_.of->upper);
    best_.message += fmt::format("; one that keeps them takes a force of {:.4g} from '{}', whose limit is {:.4g}",
                                 needed_.value, ElementName(m, mjOBJ_ACTUATOR, needed_.of->actuator), limit);
  }
}

}  // namespace

SolveResult SolveAroundForceLimits(const Problem& problem, const Guess& guess, const IlqrOptions& options,
                                   const ConstrainedOptions& constrained, const ConstrainedSolver& solve,
                                   SolveResult first) {
  const bool missed = first.status == SolveStatus::kInfeasible || first.status == SolveStatus::kIterationLimit;
  const bool begins = constrained.force_weight > 0;
  if (!begins && (!missed || first.violation <= kFar * constrained.tolerance)) return first;
  const ForceLimits forces(problem, options.threads);
  // where the step jumps at a limit, a motion stays below it
  if (!begins && WorstForce(forces, first.trajectory).part < kNear) return first;
  return AroundForceLimits(problem, forces, options, constrained, solve, std::move(first)).Run(guess);
}

}  // namespace costate
