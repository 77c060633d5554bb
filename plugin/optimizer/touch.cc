#include "optimizer/touch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/collision_filter.h"
#include "core/driven.h"
#include "core/engine_guard.h"
#include "core/posture.h"
#include "optimizer/detour.h"
#include "optimizer/go_on.h"
#include "optimizer/norm.h"
#include "optimizer/untouched.h"

namespace costate {
namespace {

constexpr double kFar = 100;       // [m] where distances are no longer told apart
constexpr double kNoSlope = 1e-9;  // of a dof, in terms of the largest
constexpr std::size_t kMostLinks = 12;

// in terms of the object's size: by how much the hand presses, where its pull begins to fall, and how far behind the
// object's centre one that pushes is led, and one that may pass through things on its way there
constexpr double kPress = 0.2, kSoft = 0.3, kBehind = 1.2, kFarBehind = 2.4;

constexpr double kReach = 0.5, kSqueeze = 1, kPush = 0.1;  // κ_r, κ_s of a hand, of one link
constexpr double kKeep = 0.1;                              // of κ_r, while a hand closes that is held there
constexpr int kIterations = 20;                            // to each place

int TreeOf(const mjModel* m, int geom) { return m->body_treeid[m->geom_bodyid[geom]]; }

// trees that actuators move
std::vector<char> DrivenTrees(const mjModel* m, mjData* d) {
  std::vector<char> trees(static_cast<std::size_t>(m->ntree));
  const std::vector<char> dofs = DrivenDofs(m, d);
  for (int i = 0; i < m->nv; ++i) {
    if (dofs[static_cast<std::size_t>(i)]) trees[static_cast<std::size_t>(m->dof_treeid[i])] = 1;
  }
  return trees;
}

std::vector<int> ObjectTrees(const mjModel* m, const VectorXd& slope) {
  const double least = kNoSlope * slope.head(2 * m->nv).cwiseAbs().maxCoeff();
  std::vector<int> trees;
  for (int i = 0; i < m->nv; ++i) {
    const int tree = m->dof_treeid[i];
    if (std::abs(slope[i]) <= least && std::abs(slope[m->nv + i]) <= least) continue;
    if (trees.empty() || trees.back() != tree) trees.push_back(tree);
  }
  return trees;
}

// the last links of driven trees that may touch the object, each by its geom that is nearest
Touch FindTouch(const mjModel* m, mjData* d, int tree, const std::vector<char>& driven) {
  struct Nearest {
    double distance = kFar;
    int link = -1, object = -1;
  };
  std::vector<Nearest> nearest(static_cast<std::size_t>(m->nbody));
  std::vector<char> may(nearest.size()), behind(nearest.size());
  for (int g = 0; g < m->ngeom; ++g) {
    const int own = TreeOf(m, g);
    if (own < 0 || own == tree || !driven[static_cast<std::size_t>(own)] || m->geom_type[g] == mjGEOM_SDF) continue;
    const auto body = static_cast<std::size_t>(m->body_weldid[m->geom_bodyid[g]]);
    for (int other = 0; other < m->ngeom; ++other) {
      if (TreeOf(m, other) != tree || m->geom_type[other] == mjGEOM_SDF) continue;  // which have no distance
      if (!MayTouch(m, g, other) && FindPair(m, g, other) < 0) continue;
      may[body] = 1;
      const double distance = GeomDistance(m, d, g, other, kFar);
      if (distance < nearest[body].distance) nearest[body] = {distance, g, other};
    }
  }
  std::vector<Nearest> links;
  for (int body = m->nbody - 1; body > 0; --body) {
    const auto at = static_cast<std::size_t>(body);
    if (may[at] && !behind[at] && nearest[at].link >= 0) links.push_back(nearest[at]);
    if (may[at] || behind[at]) behind[static_cast<std::size_t>(m->body_parentid[body])] = 1;
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const Nearest& a, const Nearest& b) { return a.distance < b.distance; });
  if (links.size() > kMostLinks) links.resize(kMostLinks);
  Touch touch;
  for (const Nearest& link : links) touch.hand.push_back(link.link);
  if (!links.empty()) touch.object = links.front().object;
  return touch;
}

// all of the links that these are of
std::vector<int> GeomsOfLinks(const mjModel* m, const std::vector<int>& some) {
  std::vector<int> all;
  for (int g = 0; g < m->ngeom; ++g) {
    const int link = m->body_weldid[m->geom_bodyid[g]];
    if (std::ranges::any_of(some, [&](int other) { return m->body_weldid[m->geom_bodyid[other]] == link; }))
      all.push_back(g);
  }
  return all;
}

Norm PullNorm(double size) { return {NormType::kSmoothAbs, kSoft * size}; }

}  // namespace

TouchCost::TouchCost(const Problem& problem, const Touch& touch, const TouchWeights& weights, const Trajectory& motion)
    : AddedCost(*problem.cost),
      problem_(problem),
      pool_(problem),
      touch_(touch),
      place_(weights.place),
      size_(problem.model->geom_rbound[touch.object]) {
  const int N = motion.N();
  double reach = 0, squeeze = 0;
  {
    const DataPool::Lease lease(&pool_);
    const EngineGuard guard(lease.get());
    for (int t = 0; t < N; ++t) {
      SetPosture(problem.model, lease.get(), motion.X.col(t));
      reach = std::max(reach, 0.5 * Reach(lease.get()).squaredNorm());
      double all = 0;
      for (const int geom : touch_.hand)
        all += costate::Value(PullNorm(size_), Measure(lease.get(), geom).value + kPress * size_);
      squeeze = std::max(squeeze, all);
    }
  }
  const double time = N * problem.substeps * problem.model->opt.timestep;
  reach_ = weights.reach * touch.cost / (time * std::max(reach, 0.5 * size_ * size_));
  squeeze_ = weights.squeeze * touch.cost / (time * std::max(squeeze, size_));
}

Vec3 TouchCost::Reach(const mjData* d) const {
  Vec3 mean = Vec3::Zero();
  for (const int geom : touch_.hand) mean += Vec3Map(d->geom_xpos + 3 * geom);
  return mean / static_cast<double>(touch_.hand.size()) - Vec3Map(d->geom_xpos + 3 * touch_.object) - place_;
}

TouchCost::Distance TouchCost::Measure(mjData* d, int geom) const {
  mjtNum between[6] = {0};
  Distance found;
  found.value = GeomDistance(problem_.model, d, geom, touch_.object, kFar, between);
  if (found.value >= kFar || !std::isfinite(found.value)) return {.value = kFar};
  found.point[0] = Vec3Map(between);
  found.point[1] = Vec3Map(between + 3);
  const Vec3 along = found.point[1] - found.point[0];
  const double length = along.norm();
  if (length > 0) found.normal = along / std::copysign(length, found.value);
  return found;
}

double TouchCost::Value(const KnotView& knot) const {
  double l = own().Value(knot);
  if (knot.t == knot.N) return l;
  const DataPool::Lease lease(&pool_);
  const EngineGuard guard(lease.get());
  SetPosture(problem_.model, lease.get(), knot.x);
  l += knot.dt * 0.5 * reach_ * Reach(lease.get()).squaredNorm();
  if (squeeze_ == 0) return l;
  for (const int geom : touch_.hand)
    l += knot.dt * squeeze_ * costate::Value(PullNorm(size_), Measure(lease.get(), geom).value + kPress * size_);
  return l;
}

void TouchCost::Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const {
  own().Expand(knot, C, D, out);
  if (knot.t == knot.N) return;
  const mjModel* m = problem_.model;
  const int nv = m->nv, body = m->geom_bodyid[touch_.object];
  const DataPool::Lease lease(&pool_);
  mjData* d = lease.get();
  const EngineGuard guard(d);
  SetPosture(m, d, knot.x);
  JacobianRows J = JacobianRows::Zero(3, nv), part(3, nv);
  for (const int geom : touch_.hand) {
    GeomJacobian(m, d, geom, &part);
    J += part / static_cast<double>(touch_.hand.size());
  }
  GeomJacobian(m, d, touch_.object, &part);
  J -= part;
  AddSquare(knot.dt * reach_, Reach(d), J, out);
  if (squeeze_ == 0) return;
  for (const int geom : touch_.hand) {
    const Distance distance = Measure(d, geom);
    const NormValue pull = Evaluate(PullNorm(size_), distance.value + kPress * size_);
    PointJacobian(m, d, distance.point[1].data(), body, &J);
    PointJacobian(m, d, distance.point[0].data(), m->geom_bodyid[geom], &part);
    const VectorXd slope = (J - part).transpose() * distance.normal;
    out->l += knot.dt * squeeze_ * pull.value;
    out->lx.head(nv) += knot.dt * squeeze_ * pull.gradient * slope;
    out->lxx.topLeftCorner(nv, nv) += knot.dt * squeeze_ * pull.curvature * slope * slope.transpose();
  }
}

std::vector<TouchPlan> PlanTouches(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const Untouched untouched = FindUntouched(problem, motion);
  if (untouched.terms.empty()) return {};
  DataPool pool(problem);
  const DataPool::Lease lease(&pool);
  mjData* d = lease.get();
  const EngineGuard guard(d);
  SetPosture(m, d, motion.X.col(0));
  const std::vector<char> driven = DrivenTrees(m, d);
  for (const int tree : ObjectTrees(m, untouched.slope)) {
    if (driven[static_cast<std::size_t>(tree)]) continue;
    Touch touch = FindTouch(m, d, tree, driven);
    if (touch.object < 0) continue;
    touch.cost = untouched.cost;
    const double size = m->geom_rbound[touch.object];
    const Vec3 here = Vec3::Zero(), gravity = Vec3Map(m->opt.gravity);
    std::vector<TouchPlan> plans{{touch, {here}, kSqueeze, 0}, {touch, {here}, kSqueeze, kKeep}};
    if (!gravity.isZero(0)) {
      const Vec3 above = -(size + 2 * m->geom_rbound[touch.hand[0]]) * gravity.normalized();
      plans.push_back({touch, {above, here}, kSqueeze, kKeep});
    }
    JacobianRows J(3, m->nv);
    GeomJacobian(m, d, touch.object, &J);
    const Vec3 slope = J * untouched.slope.head(m->nv);
    const std::vector<int> links = GeomsOfLinks(m, touch.hand);
    touch.hand.resize(1);
    if (!slope.isZero(0)) {
      const Vec3 behind = size * slope.normalized();
      plans.push_back({touch, {kBehind * behind}, kPush, 0});
      plans.push_back({touch, {kFarBehind * behind}, kPush, 0, links});
    }
    return plans;
  }
  return {};
}

SolveResult SolveTouching(const Problem& problem, const TouchPlan& plan, const Trajectory& motion,
                          const IlqrOptions& given, const ConstrainedOptions& constrained,
                          const IterationCallback& callback) {
  IlqrOptions options = given;
  MatrixXd U = motion.U;
  const ModelPtr passing = plan.passing.empty() ? nullptr : WithoutObstacles(problem.model, plan.passing);
  int iterations = 0;
  GoOn go_on(callback);
  for (std::size_t i = 0; i <= plan.places.size(); ++i) {
    const bool closes = i == plan.places.size();
    const TouchWeights weights{.place = plan.places[closes ? i - 1 : i],
                               .reach = closes ? plan.keep * kReach : kReach,
                               .squeeze = closes ? plan.squeeze : 0};
    const TouchCost cost(problem, plan.touch, weights, motion);
    Problem led = problem;
    led.cost = &cost;
    if (passing && !closes) led.model = passing.get();
    options.iterations = std::min(kIterations, given.iterations - iterations - 1);
    if (go_on.over() || options.iterations < 1) break;
    const SolveResult there = Solve(led, {{}, U}, options, SayBeside("led to contact", &go_on), constrained);
    iterations += static_cast<int>(there.iterations.size());
    if (there.status == SolveStatus::kDiverged) break;
    U = there.trajectory.U;
  }
  options.iterations = given.iterations - iterations;
  return Solve(problem, {{}, U}, options, std::ref(go_on), constrained);
}

}  // namespace costate
