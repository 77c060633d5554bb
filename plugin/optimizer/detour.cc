#include "optimizer/detour.h"

#include <costate/rollout.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/collision_filter.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/posture.h"
#include "optimizer/checked_constraint.h"
#include "optimizer/go_on.h"
#include "optimizer/task_path.h"
#include "optimizer/via_cost.h"

namespace costate {
namespace {

constexpr char kRoundObstacles[] = "led round what is in the way";
constexpr int kSides = 4, kTries = 5, kViaIterations = 25;
constexpr double kViaWeight = 1, kMoreViaWeight = 3;  // κ of (B4), and times what behind a way that did not lead round
constexpr double kClear = 0.3;                   // beyond an obstacle's edge, in terms of the radius of what passes
constexpr double kSlower = 1.4, kLatest = 0.85;  // times the knots of a way that did not lead round, at most of all
constexpr double kThereAlready = 0.99;           // of its way: a motion has arrived
constexpr double kAlong = 0.8;                   // cosine of a side that lies on the way itself
constexpr double kWellClear = 1e-3;              // [m] above what a constraint asks for
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
  UpdatePosture(m, d, PostureStage::kWhole);
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

// what a constraint keeps apart: distances alone, of lower bounds alone; else nothing
struct KeptApart {
  std::vector<int> obstacles, others;
};
KeptApart KeptApartBy(const mjModel* m, const Constraint& constraint) {
  const ConstraintInfo& info = constraint.info();
  if (!constraint.NeedsSensors() || !info.lower.allFinite() || (info.upper.array() < kInf).any()) return {};
  std::vector<char> read(static_cast<std::size_t>(m->nsensordata), 0);
  constraint.MarkSensors(&read);
  KeptApart apart;
  const auto add_geom = [&](int geom) { (MayHinder(m, geom) ? apart.obstacles : apart.others).push_back(geom); };
  const auto add = [&](int type, int id) {
    if (type == mjOBJ_GEOM) add_geom(id);
    for (int k = 0; type == mjOBJ_BODY && k < m->body_geomnum[id]; ++k) add_geom(m->body_geomadr[id] + k);
  };
  for (int i = 0; i < m->nsensor; ++i) {
    const auto first = read.begin() + m->sensor_adr[i];
    if (std::find(first, first + m->sensor_dim[i], 1) == first + m->sensor_dim[i]) continue;
    if (m->sensor_type[i] != mjSENS_GEOMDIST) return {};
    add(m->sensor_objtype[i], m->sensor_objid[i]);
    add(m->sensor_reftype[i], m->sensor_refid[i]);
  }
  return apart;
}
bool KeepsClear(const mjModel* m, const Constraint& constraint) {
  return !KeptApartBy(m, constraint).obstacles.empty();
}

// another's constraint in a set of its own
class BorrowedConstraint final : public Constraint {
 public:
  explicit BorrowedConstraint(const Constraint* constraint) : Constraint(constraint->info()), of_(*constraint) {}
  bool IsAt(int t, int N) const override { return of_.IsAt(t, N); }
  void Value(const KnotView& knot, VectorXd* c) const override { of_.Value(knot, c); }
  void Jacobian(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override {
    of_.Jacobian(knot, C, D, J, Ju);
  }
  void Curvature(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef D, ConstVectorRef g, MatrixXd* V,
                 MatrixXd* Vu) const override {
    of_.Curvature(knot, C, D, g, V, Vu);
  }
  bool ReadsStart() const override { return of_.ReadsStart(); }
  void StartJacobian(const KnotView& knot, MatrixXd* J0) const override { of_.StartJacobian(knot, J0); }
  void PullBack(const KnotView& knot, ConstVectorRef g, KnotGradient* out) const override {
    of_.PullBack(knot, g, out);
  }
  bool NeedsSensors() const override { return of_.NeedsSensors(); }
  void MarkSensors(std::vector<char>* read) const override { of_.MarkSensors(read); }

 private:
  const Constraint& of_;
};

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
    SetPosture(m, d, motion.X.col(knot));
    return Middle(m, d, geom);
  };
  const Vec3 along = place(block.knots.back().first + 1) - place(block.knots.front().first - 1);
  SetPosture(m, d, motion.X.col(t));
  JacobianRows J(3, m->nv);
  GeomJacobian(m, d, geom, &J);
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
    SetPosture(m, d, motion.X.col(t));
    const double way = WayOut(m, d, geom, block.obstacle, e);
    sum += 0.5 * way * way;
    vias.emplace(t, Via{geom, Vec3Map(d->geom_xpos + 3 * geom) + way * e, 0});
  }
  const double knot_time = problem.knot_time();
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

// what may stand in the way, as a box
Eigen::AlignedBox3d BoxOf(const mjModel* m, const mjData* d) {
  Eigen::AlignedBox3d box;
  for (int g = 0; g < m->ngeom; ++g) {
    if (!MayHinder(m, g) || !(m->geom_contype[g] || m->geom_conaffinity[g])) continue;
    const Vec3 middle = Middle(m, d, g);
    Vec3 half;
    for (int i = 0; i < 3; ++i) half[i] = HalfWidth(m, d, g, Vec3::Unit(i));
    box.extend(middle - half);
    box.extend(middle + half);
  }
  return box;
}

// postures from the start to where the motion is out of all obstacles for good, of the trees that meet some
std::vector<MatrixXd> FindPaths(const Problem& problem, const std::vector<Block>& blocks, const Trajectory& motion,
                                mjData* d) {
  const mjModel* m = problem.model;
  TreesThatGo moving;
  for (const Block& block : blocks) {
    for (const auto& [t, geom] : block.knots) {
      const int tree = m->body_treeid[m->geom_bodyid[geom]];
      moving.trees.push_back(tree);
      // what flies turns on its way
      const bool flies = m->jnt_type[m->dof_jntid[m->tree_dofadr[tree]]] == mjJNT_FREE;
      if (flies) moving.clearance = std::max(moving.clearance, m->geom_rbound[geom]);
    }
  }
  std::ranges::sort(moving.trees);
  moving.trees.erase(std::unique(moving.trees.begin(), moving.trees.end()), moving.trees.end());
  const auto is_in = [](const auto& hit) { return hit.second.distance <= 0; };
  int end = static_cast<int>(motion.N());
  while (end > 0 && std::ranges::any_of(Hits(m, problem, motion.X.col(end), d), is_in)) --end;
  if (end == 0) return {};
  SetPosture(m, d, motion.X.col(0));
  moving.beside = BoxOf(m, d);
  const Start start{motion.X.col(0), {}, problem.context};
  std::vector<MatrixXd> paths = PlanPaths(m, start, motion.X.col(end).head(m->nq), NaturalSizes(m), moving);
  for (MatrixXd& path : paths) {
    MatrixXd whole(m->nq, path.cols() + 1);
    whole << start.x.head(m->nq), path;
    path = std::move(whole);
  }
  return paths;
}

// a path at an even pace, so slow as the horizon lets it: slower than the motion, which has less far to go
class Pace {
 public:
  Pace(const Problem& problem, const MatrixXd& path, const Trajectory& motion)
      : m_(problem.model), path_(path), sizes_(NaturalSizes(m_)) {
    corners_ = VectorXd::Zero(path.cols());
    for (Eigen::Index i = 1; i < path.cols(); ++i)
      corners_[i] = corners_[i - 1] + Way(State(path.col(i - 1)), State(path.col(i)));
    const double length = corners_[path.cols() - 1];
    if (length > 0) corners_ /= length;

    const auto N = static_cast<int>(motion.N());
    VectorXd done = VectorXd::Zero(N + 1);
    for (int t = 1; t <= N; ++t) done[t] = done[t - 1] + Way(motion.X.col(t - 1), motion.X.col(t));
    const auto there = static_cast<double>((done.array() < kThereAlready * done[N]).count());
    arrival_ = std::max({1.0, there, kLatest * N});
  }

  // x at a knot
  VectorXd At(int t) const {
    const double done = std::min(1.0, t / arrival_);
    Eigen::Index i = 1;
    while (i + 1 < corners_.size() && corners_[i] < done) ++i;
    const double piece = corners_[i] - corners_[i - 1];
    const VectorXd from = State(path_.col(i - 1)), to = State(path_.col(i));
    if (!(piece > 0)) return to;
    return Retract(m_, from, std::clamp((done - corners_[i - 1]) / piece, 0.0, 1.0) * Difference(m_, to, from));
  }

  // at all knots, with its velocities
  MatrixXd States(const Problem& problem, Eigen::Index N) const {
    const double knot_time = problem.knot_time();
    MatrixXd X(problem.x0.size(), N + 1);
    X.col(0) = problem.x0;
    for (int t = 1; t <= N; ++t) {
      X.col(t) = At(t);
      X.col(t).segment(m_->nq, m_->nv) = Difference(m_, At(t + 1), At(t - 1)).head(m_->nv) / (2 * knot_time);
    }
    return X;
  }

 private:
  VectorXd State(ConstVectorRef qpos) const {
    VectorXd x = VectorXd::Zero(m_->nq + m_->nv + m_->na);
    x.head(m_->nq) = qpos;
    return x;
  }
  double Way(ConstVectorRef from, ConstVectorRef to) const {
    return Difference(m_, to, from).head(m_->nv).cwiseQuotient(sizes_).norm();
  }

  const mjModel* m_;
  const MatrixXd& path_;
  VectorXd sizes_, corners_;  // of corners their share of the way
  double arrival_;            // [knots]
};

// (B4) of these geoms along a path
Vias ViasAlong(const Problem& problem, const Pace& pace, const std::set<int>& geoms, const Trajectory& motion,
               double worth, mjData* d) {
  double sum = 0;
  Vias vias;
  for (int t = 1; t < motion.N(); ++t) {
    SetPosture(problem.model, d, motion.X.col(t));
    std::map<int, Vec3> places;
    for (const int geom : geoms) places[geom] = Vec3Map(d->geom_xpos + 3 * geom);
    SetPosture(problem.model, d, pace.At(t));
    for (const int geom : geoms) {
      const Vec3 place = Vec3Map(d->geom_xpos + 3 * geom);
      sum += 0.5 * (place - places[geom]).squaredNorm();
      vias.emplace(t, Via{geom, place, 0});
    }
  }
  const double knot_time = problem.knot_time();
  for (auto& [t, via] : vias) via.weight = sum > 0 ? worth / (knot_time * sum) : 0;
  return vias;
}

// solves one after the other, each from where the last one has led
class Lead {
 public:
  Lead(const Problem& problem, const Passage& passage, const IlqrOptions& options,
       const ConstrainedOptions& constrained, const IterationCallback& callback)
      : problem_(problem),
        passage_(passage),
        options_(options),
        constrained_(constrained),
        go_on_(callback),
        left_(options.iterations),
        motion_(passage.motion) {}

  // the cost and (B4), while nothing is there or where the obstacles are; does it lead anywhere?
  bool Along(const Vias& vias, bool through) { return Along(vias, through, {{}, motion_.U}, options_.type); }

  // the same from states, by multiple shooting: what flies would fall on the way to them
  bool AlongFrom(const Vias& vias, const MatrixXd& X) {
    return Along(vias, true, {X, passage_.guess}, SolverType::kFddp);
  }

  SolveResult ByCost() {
    options_.iterations = left_;
    return Solve(problem_, {{}, motion_.U}, options_, std::ref(go_on_), constrained_);
  }

  const Trajectory& motion() const { return motion_; }
  const Problem& problem() const { return problem_; }

 private:
  bool Along(const Vias& vias, bool through, const Guess& guess, SolverType type) {
    Problem led = problem_;
    if (through) led.model = passage_.model.get();
    ConstrainedOptions constrained = constrained_;
    if (through && passage_.constraints) {
      led.constraints = passage_.constraints.get();
      constrained = ForOthers(std::move(constrained));
    }
    const ViaCost cost(led, vias);
    led.cost = &cost;
    IlqrOptions options = options_;
    options.type = type;
    options.iterations = std::min(kViaIterations, left_ - 1);
    if (go_on_.over() || options.iterations < 1) return false;
    SolveResult there = Solve(led, guess, options, SayBeside(kRoundObstacles, &go_on_), constrained);
    left_ -= static_cast<int>(there.iterations.size());
    if (there.status == SolveStatus::kDiverged) return false;
    motion_ = std::move(there.trajectory);
    return true;
  }

  const Problem& problem_;
  const Passage& passage_;
  IlqrOptions options_;
  const ConstrainedOptions& constrained_;
  GoOn go_on_;
  int left_;  // iterations
  Trajectory motion_;
};

// on the problem's own model the same motion as without obstacles?
bool IsOwnMotion(const Problem& problem, const Trajectory& motion) {
  constexpr double kSame = 1e-6;
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory own;
  return simulator.Rollout(problem.x0, motion.U, &own).ok() && (own.X - motion.X).cwiseAbs().maxCoeff() < kSame;
}

// until it enters no obstacle, more and more by the path
void LeadAlongPath(const Problem& problem, const Passage& passage, const MatrixXd& path, Lead* lead, mjData* d) {
  std::vector<Block> blocks = FindBlocks(problem, passage.motion, d);
  std::set<int> geoms;
  Pace pace(problem, path, passage.motion);
  double worth = kViaWeight * passage.gain;
  bool clear = false;
  for (int i = 0; i < kTries && !clear; ++i, worth *= kMoreViaWeight) {
    for (const Block& block : blocks) {
      for (const auto& [t, geom] : block.knots) geoms.insert(geom);
    }
    const Vias vias = ViasAlong(problem, pace, geoms, passage.motion, worth, d);
    if (!(i == 0 ? lead->AlongFrom(vias, pace.States(problem, passage.motion.N())) : lead->Along(vias, true))) return;
    blocks = FindBlocks(problem, lead->motion(), d);
    clear = blocks.empty() && IsOwnMotion(lead->problem(), lead->motion());
  }
  lead->Along(ViasAlong(problem, pace, geoms, passage.motion, worth, d), false);
}

// to a side of the first obstacle, of the others to the nearest
void LeadBySide(const Problem& problem, const Passage& passage, int first_side, Lead* lead, mjData* d) {
  std::map<int, Way> ways;  // by obstacle
  for (int i = 0; i <= kTries; ++i) {
    const bool last = i == kTries;
    const std::vector<Block> blocks = last ? std::vector<Block>{} : FindBlocks(problem, lead->motion(), d);
    if (ways.empty() && blocks.empty()) return;
    for (const Block& block : blocks) {
      auto way = ways.find(block.obstacle);
      if (way == ways.end()) {
        const std::vector<Side> sides = FindSides(problem, block, lead->motion(), d);
        const auto side = static_cast<std::size_t>(ways.empty() ? first_side : 0);
        if (side >= sides.size()) continue;
        way = ways.emplace(block.obstacle, Way{sides[side].e, kViaWeight * passage.gain, {}}).first;
      } else {
        way->second.worth *= kMoreViaWeight;
      }
      way->second.vias = ViasOf(problem, block, lead->motion(), way->second.side, way->second.worth, d);
    }
    if (i > 1 && !blocks.empty()) {
      int latest = 1;
      for (const auto& [obstacle, way] : ways) latest = std::max(latest, way.vias.rbegin()->first);
      const double factor = std::clamp(kLatest * lead->motion().N() / latest, 1.0, kSlower);
      for (auto& [obstacle, way] : ways) Stretch(factor, &way.vias);
    }
    Vias all;
    for (const auto& [obstacle, way] : ways) all.insert(way.vias.begin(), way.vias.end());
    // round them, while nothing is there; at last where they are
    const bool through = !last && !blocks.empty();
    if (!lead->Along(all, through) || !through) return;
  }
}

}  // namespace

std::vector<int> ObstaclesThatAreHit(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  const EngineGuard guard(data.get());
  const std::map<int, Hit> at_start = Hits(m, problem, motion.X.col(0), data.get());
  std::set<int> hit;
  for (int t = 1; t <= motion.N(); ++t) {
    for (const auto& [obstacle, at] : Hits(m, problem, motion.X.col(t), data.get()))
      if (!at_start.contains(obstacle)) hit.insert(obstacle);
  }
  return {hit.begin(), hit.end()};
}

std::vector<int> StoodOn(const Problem& problem, const Trajectory& motion, const std::vector<GoalPlace>& places) {
  const mjModel* m = problem.model;
  const Vec3 gravity = Vec3Map(m->opt.gravity);
  const std::vector<int> obstacles = ObstaclesThatAreHit(problem, motion);
  if (obstacles.empty() || places.empty() || gravity.isZero(0)) return {};
  const DataPtr data = MakeData(m);
  const EngineGuard guard(data.get());
  const std::map<int, Hit> at_end = Hits(m, problem, motion.X.col(motion.N()), data.get());
  const Vec3 up = -gravity.normalized(), aside = up.unitOrthogonal(), across = up.cross(aside);
  const auto is_below = [&](int geom, const GoalPlace& goal) {
    Vec3 off = Vec3Map(goal.place) - Middle(m, data.get(), geom);
    off = off.array().isNaN().select(up, off);  // open: above it
    const auto within = [&](const Vec3& e) { return std::abs(off.dot(e)) <= HalfWidth(m, data.get(), geom, e); };
    return off.dot(up) > 0 && within(aside) && within(across);
  };
  std::vector<int> stood_on;
  for (const int geom : obstacles) {
    if (at_end.contains(geom) && std::ranges::any_of(places, [&](const GoalPlace& p) { return is_below(geom, p); }))
      stood_on.push_back(geom);
  }
  return stood_on;
}

std::vector<int> ObstaclesKeptClear(const Problem& problem, const Trajectory& motion) {
  std::set<int> obstacles;
  VectorXd c;
  for (int i = 0; problem.constraints && i < problem.constraints->size(); ++i) {
    const Constraint& constraint = (*problem.constraints)[i];
    const std::vector<int> kept_clear = KeptApartBy(problem.model, constraint).obstacles;
    for (int t = 0; !kept_clear.empty() && t <= motion.N(); ++t) {
      if (!constraint.IsAt(t, motion.N())) continue;
      ConstraintValue(constraint, ViewKnot(motion, t, problem.knot_time()), &c);
      if ((c - constraint.info().lower).minCoeff() > kWellClear) continue;
      obstacles.insert(kept_clear.begin(), kept_clear.end());
      break;
    }
  }
  return {obstacles.begin(), obstacles.end()};
}

std::shared_ptr<const ConstraintSet> WithoutClearances(const Problem& problem) {
  auto without = std::make_shared<ConstraintSet>();
  const int all = problem.constraints ? problem.constraints->size() : 0;
  for (int i = 0; i < all; ++i) {
    const Constraint& constraint = (*problem.constraints)[i];
    if (!KeepsClear(problem.model, constraint)) without->Add(std::make_unique<BorrowedConstraint>(&constraint));
  }
  return without->size() == all ? nullptr : without;
}

ModelPtr WithContactsKeptClear(const Problem& problem) {
  ModelPtr model = CopyModel(problem.model);
  model->opt.disableflags |= mjDSBL_MIDPHASE;  // its trees hold no geoms whose contacts are off
  if (model->opt.disableflags & mjDSBL_CONTACT) {
    // all of them are off: only what is kept clear touches
    model->opt.disableflags &= ~mjDSBL_CONTACT;
    for (int* bits : {model->geom_contype, model->geom_conaffinity}) std::fill_n(bits, model->ngeom, 0);
    for (int* bits : {model->body_contype, model->body_conaffinity}) std::fill_n(bits, model->nbody, 0);
    model->npair = 0;
  }
  int used = 0;
  for (int g = 0; g < model->ngeom; ++g) used |= model->geom_contype[g] | model->geom_conaffinity[g];
  int bit = 1 << 30;
  while (bit > 1 && (used & bit)) bit >>= 1;
  for (int i = 0; problem.constraints && i < problem.constraints->size(); ++i) {
    const KeptApart apart = KeptApartBy(model.get(), (*problem.constraints)[i]);
    if (apart.obstacles.empty()) continue;
    // bodies have what their geoms have, too
    for (const int g : apart.obstacles) model->body_contype[model->geom_bodyid[g]] |= model->geom_contype[g] |= bit;
    for (const int g : apart.others)
      model->body_conaffinity[model->geom_bodyid[g]] |= model->geom_conaffinity[g] |= bit;
  }
  return model;
}

std::vector<int> FindObstacles(const Problem& problem, const Trajectory& motion) {
  return ObstaclesThatAreHit(problem, motion).empty() ? std::vector<int>() : ObstaclesThatMayBeHit(problem, motion);
}

std::vector<int> ObstaclesThatMayBeHit(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  const EngineGuard guard(data.get());
  const std::map<int, Hit> at_start = Hits(m, problem, motion.X.col(0), data.get());
  std::vector<int> obstacles;
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

ConstrainedOptions ForOthers(ConstrainedOptions constrained) {
  constrained.multipliers.clear();
  for (VectorXd* of_each : {&constrained.penalties, &constrained.residuals, &constrained.tokens}) of_each->resize(0);
  return constrained;
}

namespace {

// the problem as obstacles are found in it
Problem Seen(const Problem& problem, const Passage& passage) {
  Problem seen = problem;
  if (passage.seen) seen.model = passage.seen.get();
  return seen;
}

}  // namespace

std::vector<Detour> PlanDetours(const Problem& own, Passage passage) {
  const Problem problem = Seen(own, passage);
  const DataPtr data = MakeData(problem.model);
  const EngineGuard guard(data.get());
  const std::vector<Block> blocks = FindBlocks(problem, passage.motion, data.get());
  int sides = 1;
  std::vector<MatrixXd> paths;
  if (!blocks.empty()) {
    const auto all = FindSides(problem, blocks.front(), passage.motion, data.get());
    sides = std::min(kSides, static_cast<int>(all.size()));
    paths = FindPaths(problem, blocks, passage.motion, data.get());
  }
  const auto shared = std::make_shared<const Passage>(std::move(passage));
  std::vector<Detour> detours;
  for (int i = 0; i < sides; ++i) detours.push_back({shared, i});
  for (MatrixXd& path : paths) detours.push_back({shared, 0, std::make_shared<const MatrixXd>(std::move(path))});
  return detours;
}

SolveResult SolveAround(const Problem& problem, const Detour& detour, const IlqrOptions& options,
                        const ConstrainedOptions& constrained, const IterationCallback& callback) {
  const Passage& passage = *detour.passage;
  const Problem seen = Seen(problem, passage);
  const DataPtr data = MakeData(seen.model);
  const EngineGuard guard(data.get());
  Lead lead(problem, passage, options, constrained, callback);
  if (detour.path) {
    LeadAlongPath(seen, passage, *detour.path, &lead, data.get());
  } else {
    LeadBySide(seen, passage, detour.side, &lead, data.get());
  }
  return lead.ByCost();
}

bool Crashes(const Problem& problem, const Trajectory& motion) {
  const mjModel* m = problem.model;
  const DataPtr data = MakeData(m);
  mjData* d = data.get();
  const EngineGuard guard(d);
  SetContext(m, d, problem.context);
  for (int t = 0; t <= motion.N(); ++t) {
    SetState(m, d, motion.X.col(t));
    UpdatePosture(m, d, PostureStage::kWhole);
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
