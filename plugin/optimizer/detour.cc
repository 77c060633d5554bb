#include "optimizer/detour.h"

#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "core/collision_filter.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "optimizer/go_on.h"
#include "optimizer/via_cost.h"

namespace costate {
namespace {

constexpr int kSides = 4, kTries = 5, kViaIterations = 25;
constexpr double kViaWeight = 1, kMoreViaWeight = 3;  // κ of (B4), and times what behind a way that did not lead round
constexpr double kClear = 0.3;                   // beyond an obstacle's edge, in terms of the radius of what passes
constexpr double kSlower = 1.4, kLatest = 0.85;  // times the knots of a way that did not lead round, at most of all
constexpr double kAlong = 0.8;                   // cosine of a side that lies on the way itself
constexpr double kNoWay = 1e-3;                  // of a side that no joint leads to, in terms of the largest

bool IsFixed(const mjModel* m, int geom) { return m->body_treeid[m->geom_bodyid[geom]] < 0; }

// what may stand in the way and can be left out
bool MayHinder(const mjModel* m, int geom) {
  const int type = m->geom_type[geom];
  if (!IsFixed(m, geom) || type == mjGEOM_PLANE || type == mjGEOM_HFIELD || type == mjGEOM_SDF) return false;
  for (int i = 0; i < m->npair; ++i) {
    if (m->pair_geom1[i] == geom || m->pair_geom2[i] == geom) return false;
  }
  return true;
}

// fixed geoms in contact, and of each the geom that is deepest in it
struct Hit {
  int geom = -1;
  double distance = kInf;
};
std::map<int, Hit> Hits(const mjModel* m, const Problem& problem, ConstVectorRef x, mjData* d) {
  SetContext(m, d, problem.context);
  SetState(m, d, x);
  mj_fwdPosition(m, d);
  std::map<int, Hit> hits;
  for (int i = 0; i < d->ncon; ++i) {
    const mjContact& contact = d->contact[i];
    if (contact.exclude != 0 || contact.geom[0] < 0 || contact.geom[1] < 0) continue;
    for (const int k : {0, 1}) {
      const int fixed = contact.geom[k], other = contact.geom[1 - k];
      if (!MayHinder(m, fixed) || IsFixed(m, other)) continue;
      Hit& hit = hits[fixed];
      if (contact.dist < hit.distance) hit = {other, contact.dist};
    }
  }
  return hits;
}

// half of what the box about a geom takes up along e, and where its middle is
double HalfWidth(const mjModel* m, const mjData* d, int geom, const Vec3& e) {
  double half = 0;
  for (int i = 0; i < 3; ++i) {
    const Vec3 axis(d->geom_xmat[9 * geom + i], d->geom_xmat[9 * geom + 3 + i], d->geom_xmat[9 * geom + 6 + i]);
    half += std::abs(axis.dot(e)) * m->geom_aabb[6 * geom + 3 + i];
  }
  return half;
}
Vec3 Middle(const mjModel* m, const mjData* d, int geom) {
  mjtNum offset[3];
  mju_mulMatVec3(offset, d->geom_xmat + 9 * geom, m->geom_aabb + 6 * geom);
  return Vec3Map(d->geom_xpos + 3 * geom) + Vec3Map(offset);
}

// how far along e a geom has to go to be clear of an obstacle
double WayOut(const mjModel* m, const mjData* d, int geom, int obstacle, const Vec3& e) {
  return (Middle(m, d, obstacle) - Middle(m, d, geom)).dot(e) + HalfWidth(m, d, obstacle, e) +
         HalfWidth(m, d, geom, e) + kClear * m->geom_rbound[geom];
}

// an obstacle that a motion goes through: at which knots, and the geom that is deepest in it
struct Block {
  int obstacle = -1;
  std::vector<std::pair<int, int>> knots;  // knot, geom
};

std::vector<Block> FindBlocks(const Problem& problem, const Trajectory& motion, mjData* d) {
  std::vector<Block> blocks;
  for (int t = 1; t < motion.N(); ++t) {
    for (const auto& [obstacle, hit] : Hits(problem.model, problem, motion.X.col(t), d)) {
      if (hit.distance > 0) continue;
      auto block = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.obstacle == obstacle; });
      if (block == blocks.end()) block = blocks.insert(blocks.end(), Block{obstacle, {}});
      block->knots.emplace_back(t, hit.geom);
    }
  }
  return blocks;
}

struct Side {
  Vec3 e;
  double way = 0;
};

// is a ball about p in a plane that the geom may touch?
bool IsBelowFloor(const mjModel* m, const mjData* d, int geom, const Vec3& p) {
  for (int g = 0; g < m->ngeom; ++g) {
    if (m->geom_type[g] != mjGEOM_PLANE || !IsFixed(m, g)) continue;
    if (!MayTouch(m, g, geom) && FindPair(m, g, geom) < 0) continue;
    const Vec3 normal(d->geom_xmat[9 * g + 2], d->geom_xmat[9 * g + 5], d->geom_xmat[9 * g + 8]);
    if ((p - Vec3Map(d->geom_xpos + 3 * g)).dot(normal) < HalfWidth(m, d, geom, normal)) return true;
  }
  return false;
}

// along the axes of the obstacle, the nearest first
std::vector<Side> FindSides(const Problem& problem, const Block& block, const Trajectory& motion, mjData* d) {
  const mjModel* m = problem.model;
  const auto [t, geom] = block.knots[block.knots.size() / 2];
  const auto place = [&](int knot) -> Vec3 {
    PutThere(m, motion.X.col(knot), d);
    return Middle(m, d, geom);
  };
  const Vec3 along = place(block.knots.back().first + 1) - place(block.knots.front().first - 1);
  PutThere(m, motion.X.col(t), d);
  JacobianRows J(3, m->nv);
  mj_jacGeom(m, d, J.data(), nullptr, geom);
  std::vector<Side> sides;
  for (int i = 0; i < 6; ++i) {
    const mjtNum* R = d->geom_xmat + 9 * block.obstacle;
    const Vec3 e = (i < 3 ? 1 : -1) * Vec3(R[i % 3], R[3 + i % 3], R[6 + i % 3]);
    if (std::abs(e.dot(along)) > kAlong * along.norm()) continue;
    if ((J.transpose() * e).norm() <= kNoWay * J.norm()) continue;
    const double way = WayOut(m, d, geom, block.obstacle, e);
    if (!IsBelowFloor(m, d, geom, Middle(m, d, geom) + way * e)) sides.push_back({e, way});
  }
  std::stable_sort(sides.begin(), sides.end(), [](const Side& a, const Side& b) { return a.way < b.way; });
  return sides;
}

// (B4) of one obstacle
Vias ViasOf(const Problem& problem, const Block& block, const Trajectory& motion, const Vec3& e, double worth,
            mjData* d) {
  const mjModel* m = problem.model;
  double sum = 0;
  Vias vias;
  for (const auto& [t, geom] : block.knots) {
    PutThere(m, motion.X.col(t), d);
    const double way = WayOut(m, d, geom, block.obstacle, e);
    sum += 0.5 * way * way;
    vias.emplace(t, Via{geom, Vec3Map(d->geom_xpos + 3 * geom) + way * e, 0});
  }
  const double knot_time = problem.substeps * m->opt.timestep;
  for (auto& [t, via] : vias) via.weight = sum > 0 ? worth / (knot_time * sum) : 0;
  return vias;
}

// round one obstacle
struct Way {
  Vec3 side;
  double worth = 0;  // of its vias
  Vias vias;
};

// later: the same way, slower
void Stretch(double factor, Vias* vias) {
  Vias later;
  for (const auto& [t, via] : *vias) later.emplace(static_cast<int>(std::lround(factor * t)), via);
  *vias = std::move(later);
}

}  // namespace

std::vector<int> FindObstacles(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  const EngineGuard guard(data.get());
  std::vector<int> obstacles;
  const std::map<int, Hit> at_start = Hits(m, problem, motion.X.col(0), data.get());
  bool hinders = false;
  for (int t = 1; t <= motion.N() && !hinders; ++t) {
    for (const auto& [obstacle, hit] : Hits(m, problem, motion.X.col(t), data.get()))
      hinders = hinders || !at_start.contains(obstacle);
  }
  if (!hinders) return {};
  for (int g = 0; g < m->ngeom; ++g) {
    if ((m->geom_contype[g] || m->geom_conaffinity[g]) && MayHinder(m, g) && !at_start.contains(g))
      obstacles.push_back(g);
  }
  return obstacles;
}

ModelPtr WithoutObstacles(const mjModel* model, const std::vector<int>& obstacles) {
  ModelPtr without = CopyModel(model);
  for (const int geom : obstacles) without->geom_contype[geom] = without->geom_conaffinity[geom] = 0;
  return without;
}

std::vector<Detour> PlanDetours(const Problem& problem, Passage passage) {
  const DataPtr data = MakeData(problem.model);
  const EngineGuard guard(data.get());
  const std::vector<Block> blocks = FindBlocks(problem, passage.motion, data.get());
  int sides = 1;
  if (!blocks.empty()) {
    const auto all = FindSides(problem, blocks.front(), passage.motion, data.get());
    sides = std::min(kSides, static_cast<int>(all.size()));
  }
  const auto shared = std::make_shared<const Passage>(std::move(passage));
  std::vector<Detour> detours;
  for (int i = 0; i < sides; ++i) detours.push_back({shared, i});
  return detours;
}

SolveResult SolveAround(const Problem& problem, const Detour& detour, const IlqrOptions& given,
                        const ConstrainedOptions& constrained, const IterationCallback& callback) {
  const Passage& passage = *detour.passage;
  IlqrOptions options = given;
  int iterations = 0;
  GoOn go_on(callback);
  const DataPtr data = MakeData(problem.model);
  const EngineGuard guard(data.get());
  Trajectory motion = passage.motion;
  std::map<int, Way> ways;  // by obstacle
  for (int i = 0; i <= kTries; ++i) {
    const bool last = i == kTries;
    const std::vector<Block> blocks = last ? std::vector<Block>{} : FindBlocks(problem, motion, data.get());
    if (ways.empty() && blocks.empty()) break;
    for (const Block& block : blocks) {
      auto way = ways.find(block.obstacle);
      if (way == ways.end()) {
        const std::vector<Side> sides = FindSides(problem, block, motion, data.get());
        const auto side = static_cast<std::size_t>(ways.empty() ? detour.side : 0);
        if (side >= sides.size()) continue;
        way = ways.emplace(block.obstacle, Way{sides[side].e, kViaWeight * passage.gain, {}}).first;
      } else {
        way->second.worth *= kMoreViaWeight;
      }
      way->second.vias = ViasOf(problem, block, motion, way->second.side, way->second.worth, data.get());
    }
    if (i > 1 && !blocks.empty()) {
      int latest = 1;
      for (const auto& [obstacle, way] : ways) latest = std::max(latest, way.vias.rbegin()->first);
      const double factor = std::clamp(kLatest * motion.N() / latest, 1.0, kSlower);
      for (auto& [obstacle, way] : ways) Stretch(factor, &way.vias);
    }
    Vias all;
    for (const auto& [obstacle, way] : ways) all.insert(way.vias.begin(), way.vias.end());
    // round them, while nothing is there; at last where they are
    const bool through = !last && !blocks.empty();
    Problem led = problem;
    if (through) led.model = passage.model.get();
    const ViaCost cost(led, all);
    led.cost = &cost;
    options.iterations = std::min(kViaIterations, given.iterations - iterations - 1);
    if (go_on.over() || options.iterations < 1) break;
    SolveResult there = Solve(led, {{}, motion.U}, options, std::ref(go_on), constrained);
    iterations += static_cast<int>(there.iterations.size());
    if (there.status == SolveStatus::kDiverged) break;
    motion = std::move(there.trajectory);
    if (!through) break;
  }
  options.iterations = given.iterations - iterations;
  return Solve(problem, {{}, motion.U}, options, std::ref(go_on), constrained);
}

bool Crashes(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  mjData* d = data.get();
  const EngineGuard guard(d);
  SetContext(m, d, problem.context);
  for (int t = 0; t <= motion.N(); ++t) {
    SetState(m, d, motion.X.col(t));
    mj_fwdPosition(m, d);
    if (t == 0 && d->ncon > 0) return false;
    for (int i = 0; i < d->ncon; ++i) {
      const mjContact& contact = d->contact[i];
      const auto fixed = [&](int k) { return contact.geom[k] >= 0 && IsFixed(m, contact.geom[k]); };
      if (contact.exclude == 0 && (fixed(0) || fixed(1))) return true;
    }
  }
  return false;
}

ModelPtr WithoutContacts(const mjModel* model) {
  ModelPtr without = CopyModel(model);
  without->opt.disableflags |= mjDSBL_CONTACT;
  return without;
}

}  // namespace costate
