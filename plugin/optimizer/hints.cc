#include "optimizer/hints.h"

#include <costate/derivative.h>
#include <costate/rollout.h>
#include <costate/state.h>
#include <costate/step.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "core/actuator_range.h"
#include "core/element.h"
#include "core/lap.h"
#include "optimizer/basin_hopping.h"
#include "optimizer/foothold.h"
#include "optimizer/scaled_guess.h"
#include "optimizer/stuck.h"
#include "optimizer/take_knot.h"
#include "rollout/knot_health.h"
#include "rollout/penetration.h"

namespace costate {
namespace {

// visit(data) behind mj_forward at each knot but the last, up to one that has none
template <typename F>
void ForEachKnot(const Task& task, const mjModel* m, const Trajectory& motion, F&& visit) {
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  VectorXd none;
  for (int t = 0; t < motion.N(); t++) {
    SetMovingContext(m, data.get(), motion.context.col(t));
    if (Forward(m, data.get(), motion.X.col(t), motion.U.col(t), none) != StepStatus::kOk) break;
    visit(data.get());
  }
}

// beyond a quarter of the smaller geom, as far as its bounding sphere tells: beside a large floor all bodies are small
bool IsDeepFor(const mjModel* m, const mjContact& contact) {
  constexpr double kOfRadius = 0.5;
  return std::any_of(contact.geom, contact.geom + 2, [&](int geom) {
    return geom >= 0 && m->geom_rbound[geom] > 0 && -contact.dist > kOfRadius * m->geom_rbound[geom];
  });
}

// two bodies of one kinematic tree
bool AreLinksOfOne(const mjModel* m, const mjContact& contact) {
  if (contact.geom[0] < 0 || contact.geom[1] < 0) return false;
  const int tree = m->body_treeid[m->geom_bodyid[contact.geom[0]]];
  return tree >= 0 && tree == m->body_treeid[m->geom_bodyid[contact.geom[1]]];
}

// "'foot'"; of what stands in the world only the geom's own name says which
std::string TouchingName(const mjModel* m, int geom) {
  if (geom < 0) return "a flex";
  const int body = m->geom_bodyid[geom];
  const std::string own = GivenName(m, mjOBJ_GEOM, geom);
  return fmt::format("'{}'", body == 0 && !own.empty() ? own : ElementName(m, mjOBJ_BODY, body));
}

// where robots stand at a knot, and the centre of mass of each kinematic tree
struct Stand {
  std::vector<Foothold> feet;
  Eigen::Matrix3Xd mass;
};
std::optional<Stand> StandAt(const Task& task, const Trajectory& motion, int t) {
  const mjModel* m = task.model.get();
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  SetMovingContext(m, data.get(), motion.context.col(std::min<Eigen::Index>(t, motion.context.cols() - 1)));
  VectorXd none;
  if (Forward(m, data.get(), motion.X.col(t), motion.U.col(std::min(t, motion.N() - 1)), none) != StepStatus::kOk)
    return std::nullopt;
  Stand stand{FindFootholds(m, data.get()), Eigen::Matrix3Xd(3, m->ntree)};
  for (int tree = 0; tree < m->ntree; ++tree)
    stand.mass.col(tree) =
        Eigen::Map<const Eigen::Vector3d>(data->subtree_com + 3 * m->dof_bodyid[m->tree_dofadr[tree]]);
  return stand;
}

}  // namespace

double OvershootAtStart(const Task& task, int* dof) {
  constexpr int kMostTangent = 300;  // eigenvalues of more take longer than a reader would wait
  const mjModel* m = task.model.get();
  const Dims dims(m);
  if (dims.ndx > kMostTangent || task.N == 0) return 0;
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  SetState(m, data.get(), task.x0);
  mju_copy(data->ctrl, task.U_guess.data(), dims.nu);
  StepDerivative step;
  try {
    step = Linearize(m, data.get(), {.sensors = false});
  } catch (const Error&) {
    return 0;  // the solver says it
  }
  return step.status == StepStatus::kOk ? Overshoot(step.A, dims.nv, dof) : 0;
}

GuessTrouble FindGuessTrouble(const Task& task) {
  if (task.X_guess.size() > 0) return {};
  const Problem problem = task.ToProblem();
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory motion;
  const ScaledGuess guess = RolloutGuess(problem, task.U_guess, &simulator, &motion);
  if (!guess.failure.empty()) return {guess.failure, true};
  if (guess.scale < 1) return {fmt::format("{}; solvers scale it by {:g}", guess.reason, guess.scale)};
  for (const ConstraintReport& c : CheckConstraints(task.constraints, motion, simulator.knot_time())) {
    if (!std::isfinite(c.violation))
      return {fmt::format("the guess has no cost: its constraint '{}' is not finite at knot {} of {} ({:.3g} s)",
                          c.name, c.knot, task.N, c.knot * simulator.knot_time()),
              true};
  }
  return {};
}

std::string WithoutClosedForm(const Coverage& coverage) {
  std::string text;
  for (const TermCoverage& term : coverage.terms) {
    if (term.level == Level::kAnalytic) continue;
    text += fmt::format("{}{}: {}{}{}", text.empty() ? "" : "; ", term.term, ToString(term.level),
                        term.reason.empty() ? "" : ", ", term.reason);
  }
  return text;
}

double DerivativeTime(const Task& task, std::string* why) {
  const mjModel* m = task.model.get();
  Simulator simulator(m, task.context, task.substeps, 1);
  LinearizeOptions options = task.solver.derivative;
  SelectSensors(*task.cost, m, &options, &simulator);
  Trajectory motion;
  double seconds = 0;
  try {
    if (task.N == 0 || !simulator.Rollout(task.x0, task.U_guess.leftCols(1), &motion).ok()) return 0;
    constexpr int kTries = 3;
    constexpr double kSure = 3;  // [s]: what is shorter may have waited for other programs, or for memory
    for (int i = 0; i < kTries && (i == 0 || seconds < kSure); ++i) {
      const Clock::time_point begin = Clock::now();
      simulator.LinearizeEach(motion, options, [&](int t, int, StepDerivative* step) {
        if (t > 0) return;
        seconds = i == 0 ? SecondsSince(begin) : std::min(seconds, SecondsSince(begin));
        if (i == 0) *why = WithoutClosedForm(step->coverage);
      });
    }
  } catch (const Error&) {
    return 0;  // the solver says it
  }
  const int knots = (task.N - 1) / task.solver.derivative_every + 1;
  const bool races = task.free_time.longest == 0 && !task.state.U.cols() && Races(m, task.N, task.solver, task.hopping);
  const int threads = Simulator(m, task.context, 1, task.solver.threads).threads();
  return seconds * knots * (races ? kRaced : 1) / std::min(threads, knots);
}

double LateGain(const Task& task, const SolveResult& result) {
  const auto n = result.iterations.size();
  if (result.status != SolveStatus::kIterationLimit || task.constraints.size() > 0 || task.free_time.longest > 0 ||
      n <= kLateIterations)
    return 0;
  std::vector<double> best;  // so far
  for (const IterationRecord& record : result.iterations)
    if (!record.beside) best.push_back(best.empty() ? record.cost : std::min(record.cost, best.back()));
  if (std::ssize(best) <= kLateIterations) return 0;
  const double after = best.back(), before = best[best.size() - 1 - kLateIterations];
  return before > 0 ? (before - after) / before : 0;
}

bool IsThere(const Task& task, const SolveResult& result, ConstVectorRef cost_per_knot) {
  constexpr double kMissed = 1e-4;  // a hundredth of the way, squared
  const int N = static_cast<int>(cost_per_knot.size()) - 1;
  double end = cost_per_knot[N], stay = 0;  // a guess that leads there costs next to nothing, staying does not
  if (end != 0 || N == 0) {
    const double dt = task.knot_time();
    const KnotView first = ViewKnot(result.trajectory, 0, dt), last = ViewKnot(result.trajectory, N, dt);
    stay = task.cost->Value(
        {.t = N, .N = N, .time = last.time, .dt = dt, .x = first.x, .u = last.u, .s = first.s, .start = first.start});
  } else {
    end = N * cost_per_knot[N - 1];
    stay = N * cost_per_knot[0];
  }
  if (end > kMissed * std::max(result.initial_cost, stay)) return false;
  if (task.constraints.size() > 0) return result.violation <= task.constrained.tolerance;
  return end <= kMissed * stay || !HasHardlyGained(result);
}

DeepContact FindDeepContact(const mjModel* m, ConstVectorRef context, ConstVectorRef x, ConstVectorRef u) {
  constexpr double kLetGo = 0.1;  // [s]
  constexpr double kKept = 0.5;   // of how deep it was
  const DataPtr data = MakeData(m);
  if (context.size() > 0) SetContext(m, data.get(), context);
  VectorXd none;
  if (Forward(m, data.get(), x, u, none) != StepStatus::kOk) return {};
  std::vector<mjContact> deep, kept;
  std::copy_if(data->contact, data->contact + data->ncon, std::back_inserter(deep),
               [&](const mjContact& contact) { return IsDeep(m, -contact.dist) || IsDeepFor(m, contact); });
  if (deep.empty()) return {};
  const int steps = std::max(1, static_cast<int>(std::lround(kLetGo / m->opt.timestep)));
  VectorXd later(x.size());
  if (Step(m, data.get(), x, u, steps, later, none) == StepStatus::kOk &&
      Forward(m, data.get(), later, u, none) == StepStatus::kOk) {
    const auto stays = [&](const mjContact& before) {
      return std::any_of(data->contact, data->contact + data->ncon, [&](const mjContact& now) {
        return std::equal(now.geom, now.geom + 2, before.geom) && std::equal(now.flex, now.flex + 2, before.flex) &&
               now.dist < kKept * before.dist;
      });
    };
    std::copy_if(deep.begin(), deep.end(), std::back_inserter(kept), stays);
    std::erase_if(deep, stays);
    std::erase_if(kept, [&](const mjContact& contact) { return AreLinksOfOne(m, contact); });
  }
  const bool parts = !deep.empty();
  const std::vector<mjContact>& all = parts ? deep : kept;
  const auto deepest =
      std::min_element(all.begin(), all.end(), [](const mjContact& a, const mjContact& b) { return a.dist < b.dist; });
  if (deepest == all.end()) return {};
  int one = deepest->geom[1], other = deepest->geom[0];
  if (one >= 0 && m->geom_bodyid[one] == 0) std::swap(one, other);  // what stands is penetrated
  const std::string size =
      IsDeep(m, -deepest->dist) ? fmt::format(", the mean body size is {:.3g} m", m->stat.meansize) : "";
  return {
      fmt::format("{} penetrates {} by {:.3g} m{}", TouchingName(m, one), TouchingName(m, other), -deepest->dist, size),
      parts};
}

std::string ComeDown(const Task& task, const Trajectory& motion) {
  constexpr double kLower = 0.05;  // of the model's extent
  const mjModel* m = task.model.get();
  const Eigen::Map<const Eigen::Vector3d> gravity(m->opt.gravity);
  if (motion.N() == 0 || gravity.norm() == 0) return "";
  const std::optional<Stand> start = StandAt(task, motion, 0), end = StandAt(task, motion, motion.N());
  if (!start || !end) return "";
  for (const Foothold& foot : end->feet) {
    const int tree = m->body_treeid[foot.body];
    const double lower = gravity.normalized().dot(end->mass.col(tree) - start->mass.col(tree));
    const auto is_of_tree = [&](const Foothold& other) { return m->body_treeid[other.body] == tree; };
    const auto is_same = [&](const Foothold& other) { return other.body == foot.body; };
    if (lower < kLower * m->stat.extent || std::ranges::none_of(start->feet, is_of_tree) ||
        std::ranges::any_of(start->feet, is_same)) {
      continue;
    }
    return fmt::format(
        "at the end '{}' touches {}, at the start it does not, and the robot is {:.2g} m lower: if it shall stand, "
        "goals such as body:{}:zaxis=0,0,1 say so",
        ElementName(m, mjOBJ_BODY, foot.body), TouchingName(m, foot.on), lower,
        ElementName(m, mjOBJ_BODY, m->dof_bodyid[m->tree_dofadr[tree]]));
  }
  return "";
}

std::string TouchingLinks(const Task& task) {
  const mjModel* m = task.model.get();
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  VectorXd none;
  const VectorXd u = task.N > 0 ? VectorXd(task.U_guess.col(0)) : VectorXd::Zero(m->nu);
  if (Forward(m, data.get(), task.x0, u, none) != StepStatus::kOk) return "";
  const mjContact *first = data->contact, *last = first + data->ncon;
  const mjContact* links =
      std::find_if(first, last, [&](const mjContact& contact) { return AreLinksOfOne(m, contact); });
  if (links == last) return "";
  const auto name = [&](int side) { return ElementName(m, mjOBJ_BODY, m->geom_bodyid[links->geom[side]]); };
  return fmt::format("<exclude body1=\"{}\" body2=\"{}\"/>", name(0), name(1));
}

std::vector<int> KnotsAtLimit(const Task& task, const mjModel* m, const Trajectory& motion) {
  std::vector<int> knots(static_cast<std::size_t>(m->nactuator));
  ForEachKnot(task, m, motion, [&](const mjData* d) {
    for (int i = 0; i < m->nactuator; i++) knots[static_cast<std::size_t>(i)] += IsForceAtLimit(m, d, i);
  });
  return knots;
}

std::vector<int> KnotsAtStop(const Task& task, const mjModel* m, const Trajectory& motion) {
  std::vector<int> knots(static_cast<std::size_t>(m->njnt));
  const auto begins_there = [&](int joint) {
    constexpr double kThere = 1e-3;  // of the range
    const mjtNum* range = m->jnt_range + 2 * joint;
    const double q = motion.X(m->jnt_qposadr[joint], 0), near = kThere * (range[1] - range[0]);
    return m->jnt_type[joint] != mjJNT_BALL && (q <= range[0] + near || q >= range[1] - near);
  };
  ForEachKnot(task, m, motion, [&](const mjData* d) {
    for (int i = 0; i < d->nefc; i++) {
      if (d->efc_type[i] != mjCNSTR_LIMIT_JOINT || !(d->efc_force[i] > 0) || begins_there(d->efc_id[i])) continue;
      knots[static_cast<std::size_t>(d->efc_id[i])]++;
    }
  });
  return knots;
}

}  // namespace costate
