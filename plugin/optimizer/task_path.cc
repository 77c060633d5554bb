#include "optimizer/task_path.h"

#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/driven.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "core/posture.h"
#include "derivative/spatial.h"
#include "optimizer/added_cost.h"
#include "optimizer/control_noise.h"

namespace costate {
namespace {

constexpr double kResolution = 0.05;                       // natural units between postures that are looked at
constexpr double kGrowth = 0.3;                            // by which a tree grows
constexpr int kPlans = 5, kNearPlans = 2, kWidePlans = 2;  // searches; of whole trees, near the straight line and not
constexpr double kBeyond = 3;                              // of joints without a range, beyond the start and the goal
constexpr double kBeside = 1;                              // natural units beside a box and what turns beside it
constexpr double kClearances[] = {0.03, 0.01, 0.003};      // in terms of the model's extent, while one leads there
constexpr double kShorter = 0.8;                           // in terms of a way with more clearance: worth its own
constexpr double kDeeper = 1e-4;                           // [m] than at the start or the goal

using Polyline = std::vector<VectorXd>;

// samples and postures of a search at most, and tries to shorten what it has found
struct Effort {
  int samples, looks, shortcuts;
};
constexpr Effort kOfJoints{2000, 10000, 200}, kOfTrees{5000, 30000, 1000};  // these go farther

constexpr int kMostLooks = 250000;  // of all searches of whole trees: no other begins beyond

// geoms that touch, and flexes by negative numbers
std::pair<int, int> PairOf(const mjContact& contact) {
  const auto id = [&](int k) { return contact.geom[k] >= 0 ? contact.geom[k] : -1 - contact.flex[k]; };
  return std::minmax(id(0), id(1));
}

// Postures q + S z of some joints, and whether they are clear.
class Space {
 public:
  Space(const mjModel* model, const Start& start, ConstVectorRef goal, double clearance, const std::vector<int>& trees)
      : model_(CopyModel(model)),
        m_(model_.get()),
        data_(MakeData(m_)),
        guard_(data_.get()),
        clearance_(clearance),
        trees_(trees) {
    for (int i = 0; i < m_->ngeom; ++i) model_->geom_margin[i] += clearance;
    for (int i = 0; i < m_->nbody; ++i) model_->body_margin[i] += 2 * clearance;
    for (int i = 0; i < m_->npair; ++i) model_->pair_margin[i] += clearance;
    if (start.context.size() > 0) SetContext(m_, data_.get(), start.context);
    SetState(m_, data_.get(), start.x);
    for (const VectorXd& q : {VectorXd(start.x.head(m_->nq)), VectorXd(goal)}) {
      Look(q);
      for (int i = 0; i < data_->ncon; ++i) {
        const mjContact& contact = data_->contact[i];
        if (!Counts(contact)) continue;
        const auto [known, first] = least_.emplace(PairOf(contact), contact.dist);
        if (!first) known->second = std::min(known->second, contact.dist);
      }
    }
    looks_ = 0;
  }

  bool IsClear(ConstVectorRef q) {
    ++looks_;
    Look(q);
    for (int i = 0; i < data_->ncon; ++i) {
      const mjContact& contact = data_->contact[i];
      if (!Counts(contact)) continue;
      const auto known = least_.find(PairOf(contact));
      const double least = known == least_.end() ? clearance_ : std::min(clearance_, known->second - kDeeper);
      if (contact.dist < least) return false;
    }
    return true;
  }
  int looks() const { return looks_; }

  // (*nearest) of pairs of a geom that moves and one that stands becomes the least
  void Measure(ConstVectorRef q, std::map<std::pair<int, int>, double>* nearest) {
    Look(q);
    for (int i = 0; i < data_->ncon; ++i) {
      const mjContact& contact = data_->contact[i];
      if (contact.geom[0] < 0 || contact.geom[1] < 0 || contact.dist >= clearance_) continue;
      const bool stands = IsFixed(contact.geom[0]);
      if (stands == IsFixed(contact.geom[1])) continue;
      const int standing = contact.geom[stands ? 0 : 1], type = m_->geom_type[standing];
      if (type == mjGEOM_PLANE || type == mjGEOM_HFIELD) continue;
      const auto [known, first] = nearest->try_emplace({contact.geom[stands ? 1 : 0], standing}, contact.dist);
      if (!first) known->second = std::min(known->second, contact.dist);
    }
  }
  // of a pair at the start and the goal, if that is less than the clearance
  double Room(const std::pair<int, int>& pair) const {
    const auto known = least_.find(std::minmax(pair.first, pair.second));
    return known == least_.end() ? clearance_ : std::min(clearance_, known->second);
  }

 private:
  bool IsFixed(int geom) const { return m_->body_weldid[m_->geom_bodyid[geom]] == 0; }

  // of what moves with what moves, or with what nothing moves
  bool Counts(const mjContact& contact) const {
    const auto counts = [&](int geom) {
      if (geom < 0) return false;
      const int tree = m_->body_treeid[m_->geom_bodyid[geom]];
      return tree < 0 || std::ranges::find(trees_, tree) != trees_.end();
    };
    return trees_.empty() || (counts(contact.geom[0]) && counts(contact.geom[1]));
  }

  void Look(ConstVectorRef q) { SetPosture(m_, data_.get(), q, PostureStage::kContacts); }

  ModelPtr model_;
  const mjModel* m_;
  DataPtr data_;
  EngineGuard guard_;
  double clearance_;
  std::vector<int> trees_;                       // none: all
  std::map<std::pair<int, int>, double> least_;  // of pairs near each other at the start or the goal
  int looks_ = 0;
};

// joints that go, in terms of z: hinges and slides their position, balls a rotation vector, free ones a place before it
class Coordinates {
 public:
  Coordinates(const mjModel* m, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
              const std::vector<int>& joints)
      : m_(m), start_(start.x.head(m->nq)), joints_(joints) {
    for (const int joint : joints_) {
      const int type = m->jnt_type[joint], dof = m->jnt_dofadr[joint];
      for (int k = 0; k < JointDofs(type); ++k) dofs_.push_back(dof + k);
    }
    const auto n = static_cast<Eigen::Index>(dofs_.size());
    size_.resize(n);
    for (Eigen::Index i = 0; i < n; ++i) size_[i] = sizes[dofs_[static_cast<std::size_t>(i)]];
    goal_.resize(n);
    Eigen::Index i = 0;
    for (const int joint : joints_) {
      int q = m->jnt_qposadr[joint];
      const int linear = JointLinearDofs(m->jnt_type[joint]);
      for (int k = 0; k < linear; ++k, ++q, ++i) goal_[i] = (goal[q] - start_[q]) / size_[i];
      if (linear == JointDofs(m->jnt_type[joint])) continue;
      const Eigen::Vector4d to = goal.segment<4>(q);
      Eigen::Vector3d turn;
      mju_subQuat(turn.data(), to.data(), start_.data() + q);
      goal_.segment<3>(i) = turn.cwiseQuotient(size_.segment<3>(i));
      i += 3;
    }
  }

  VectorXd Posture(const VectorXd& z) const {
    VectorXd q = start_;
    Eigen::Index i = 0;
    for (const int joint : joints_) {
      int at = m_->jnt_qposadr[joint];
      const int linear = JointLinearDofs(m_->jnt_type[joint]);
      for (int k = 0; k < linear; ++k, ++at, ++i) q[at] += size_[i] * z[i];
      if (linear == JointDofs(m_->jnt_type[joint])) continue;
      const Eigen::Vector3d turn = size_.segment<3>(i).cwiseProduct(z.segment<3>(i));
      mju_quatIntegrate(q.data() + at, turn.data(), 1);
      i += 3;
    }
    return q;
  }

  const std::vector<int>& dofs() const { return dofs_; }
  const VectorXd& start() const { return start_; }
  const VectorXd& size() const { return size_; }
  const VectorXd& goal() const { return goal_; }

 private:
  const mjModel* m_;
  VectorXd start_;
  std::vector<int> joints_, dofs_;
  VectorXd size_, goal_;
};

// where z is looked for
struct Region {
  VectorXd lower, upper;
};

Region RegionOf(const mjModel* m, const Coordinates& z) {
  const VectorXd& goal = z.goal();
  Region region{goal.cwiseMin(0), goal.cwiseMax(0)};
  for (Eigen::Index i = 0; i < goal.size(); ++i) {
    const int dof = z.dofs()[static_cast<std::size_t>(i)], joint = m->dof_jntid[dof], q = m->jnt_qposadr[joint];
    const bool linear = dof - m->jnt_dofadr[joint] < JointLinearDofs(m->jnt_type[joint]);
    if (!linear) continue;
    if (m->jnt_limited[joint]) {
      const mjtNum* range = m->jnt_range + 2 * joint;
      region.lower[i] = std::min(region.lower[i], (range[0] - z.start()[q]) / z.size()[i]);
      region.upper[i] = std::max(region.upper[i], (range[1] - z.start()[q]) / z.size()[i]);
    } else {
      region.lower[i] -= kBeyond;
      region.upper[i] += kBeyond;
    }
  }
  return region;
}

// … of what goes without a range: far enough to pass the box, its body's parts on any side
Region RegionBeside(const mjModel* m, const Start& start, const Coordinates& z, const Eigen::AlignedBox3d& box,
                    Region region) {
  if (box.isEmpty()) return region;
  const DataPtr data = MakeData(m);
  if (start.context.size() > 0) SetContext(m, data.get(), start.context);
  SetPosture(m, data.get(), start.x);
  for (std::size_t k = 0; k < z.dofs().size(); ++k) {
    const int dof = z.dofs()[k], joint = m->dof_jntid[dof], type = m->jnt_type[joint];
    const int axis = dof - m->jnt_dofadr[joint];
    if (type == mjJNT_SLIDE ? m->jnt_limited[joint] : type != mjJNT_FREE || axis > 2) continue;
    const Eigen::Vector3d along = type == mjJNT_SLIDE ? Eigen::Vector3d(Vec3Map(data->xaxis + 3 * joint))
                                                      : Eigen::Vector3d(Eigen::Vector3d::Unit(axis));
    double beside = 0, least = kInf, most = -kInf;
    const int tree = m->dof_treeid[dof];
    for (int g = 0; g < m->ngeom; ++g) {
      if (m->body_treeid[m->geom_bodyid[g]] != tree) continue;
      const double at = along.dot(Eigen::Vector3d(Vec3Map(data->geom_xpos + 3 * g)));
      least = std::min(least, at);
      most = std::max(most, at);
      beside = std::max(beside, m->geom_rbound[g]);
    }
    const auto i = static_cast<Eigen::Index>(k);
    beside += kBeside * z.size()[i];
    const double middle = along.dot(box.center()), half = 0.5 * along.cwiseAbs().dot(box.sizes());
    region.lower[i] = std::min(region.lower[i], (middle - half - most - beside) / z.size()[i]);
    region.upper[i] = std::max(region.upper[i], (middle + half - least + beside) / z.size()[i]);
  }
  return region;
}

class Planner {
 public:
  // all must outlive it
  Planner(const Coordinates& z, Space* space) : coordinates_(z), goal_(z.goal()), space_(*space) {}

  bool IsStraightClear() { return IsClear(VectorXd::Zero(goal_.size()), goal_); }

  // the shortest of some, in units of z from the start on; empty: none was found
  Polyline Run(const Region& region) {
    for (int i = 0; i < kPlans && Plan(i, region, kOfJoints); ++i) {
    }
    return std::move(best_);
  }

  // the same of some near the straight line and some farther off; no search begins beyond so many looks
  Polyline Run(const Region& near, const Region& wide, int looks) {
    for (int i = 0; i < kNearPlans && space_.looks() < looks && Plan(i, near, kOfTrees); ++i) {
    }
    for (int i = 0; i < kWidePlans && space_.looks() < looks && Plan(kNearPlans + i, wide, kOfTrees); ++i) {
    }
    return std::move(best_);
  }

  static double Length(const Polyline& path) {
    double sum = 0;
    for (std::size_t i = 1; i < path.size(); ++i) sum += (path[i] - path[i - 1]).norm();
    return sum;
  }

 private:
  struct Tree {
    Polyline z;
    std::vector<std::size_t> parent;
  };

  bool IsClear(const VectorXd& a, const VectorXd& b) {
    const int pieces = std::max(1, static_cast<int>(std::ceil((b - a).norm() / kResolution)));
    for (int i = 1; i <= pieces; ++i)
      if (!space_.IsClear(coordinates_.Posture(a + (static_cast<double>(i) / pieces) * (b - a)))) return false;
    return true;
  }

  // by a step towards z from the nearest there is; did it grow?
  bool Grow(const VectorXd& z, Tree* tree) {
    std::size_t nearest = 0;
    double least = kInf;
    for (std::size_t i = 0; i < tree->z.size(); ++i) {
      const double distance = (tree->z[i] - z).squaredNorm();
      if (distance < least) {
        least = distance;
        nearest = i;
      }
    }
    const VectorXd from = tree->z[nearest];
    const double distance = std::sqrt(least);
    if (distance == 0) return false;
    const VectorXd to = distance <= kGrowth ? z : VectorXd(from + (kGrowth / distance) * (z - from));
    if (!IsClear(from, to)) return false;
    tree->z.push_back(to);
    tree->parent.push_back(nearest);
    return true;
  }

  // was one found?
  bool Plan(int number, const Region& region, const Effort& effort) {
    Polyline path = Search(number, region, effort);
    if (path.empty()) return false;
    Shorten(number, effort.shortcuts, &path);
    if (best_.empty() || Length(path) < Length(best_)) best_ = std::move(path);
    return true;
  }

  Polyline Search(int number, const Region& region, const Effort& effort) {
    Tree here{{VectorXd::Zero(goal_.size())}, {0}}, there{{goal_}, {0}};
    SampleStream stream(1, 1, number);
    const int before = space_.looks();
    bool forward = true;
    for (int i = 0; i < effort.samples && space_.looks() - before < effort.looks; ++i, forward = !forward) {
      Tree *grows = forward ? &here : &there, *follows = forward ? &there : &here;
      VectorXd z(goal_.size());
      for (Eigen::Index j = 0; j < z.size(); ++j)
        z[j] = region.lower[j] + stream.Uniform() * (region.upper[j] - region.lower[j]);
      if (!Grow(z, grows)) continue;
      const VectorXd reached = grows->z.back();
      while (Grow(reached, follows)) {
        if (follows->z.back() == reached) return Joined(here, there);
      }
    }
    return {};
  }

  static Polyline Joined(const Tree& here, const Tree& there) {
    Polyline path;
    for (std::size_t i = here.z.size() - 1;; i = here.parent[i]) {
      path.push_back(here.z[i]);
      if (i == 0) break;
    }
    std::ranges::reverse(path);
    for (std::size_t i = there.z.size() - 1; i != 0;) {
      i = there.parent[i];
      path.push_back(there.z[i]);
    }
    return path;
  }

  // by straight lines between any two places of it
  void Shorten(int number, int tries, Polyline* path) {
    SampleStream stream(1, 2, number);
    for (int i = 0; i < tries && path->size() > 2; ++i) {
      double a = stream.Uniform() * static_cast<double>(path->size() - 1);
      double b = stream.Uniform() * static_cast<double>(path->size() - 1);
      if (a > b) std::swap(a, b);
      const auto first = static_cast<std::size_t>(a), last = static_cast<std::size_t>(b);
      if (first == last) continue;
      const auto place = [&](double at, std::size_t piece) -> VectorXd {
        const VectorXd &from = (*path)[piece], &to = (*path)[piece + 1];
        return from + (at - static_cast<double>(piece)) * (to - from);
      };
      const VectorXd from = place(a, first), to = place(b, last);
      if (!IsClear(from, to)) continue;
      Polyline shorter(path->begin(), path->begin() + static_cast<std::ptrdiff_t>(first) + 1);
      shorter.push_back(from);
      shorter.push_back(to);
      shorter.insert(shorter.end(), path->begin() + static_cast<std::ptrdiff_t>(last) + 1, path->end());
      *path = std::move(shorter);
    }
    for (std::size_t i = 1; i + 1 < path->size();) {  // corners that are none
      if (IsClear((*path)[i - 1], (*path)[i + 1])) {
        path->erase(path->begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  const Coordinates& coordinates_;
  VectorXd goal_;
  Space& space_;
  Polyline best_;
};

std::vector<int> AllJoints(const mjModel* m) {
  std::vector<int> joints;
  for (int i = 0; i < m->njnt; ++i)
    if (IsScalarJoint(m->jnt_type[i])) joints.push_back(i);
  return joints;
}

std::vector<int> JointsOf(const mjModel* m, const std::vector<int>& trees) {
  std::vector<char> driven(static_cast<std::size_t>(m->njnt), 0);
  for (int i = 0; i < m->nactuator; ++i) {
    if (ActsOnJoint(m, i)) driven[static_cast<std::size_t>(m->actuator_trnid[2 * i])] = 1;
  }
  std::vector<int> joints;
  for (const int tree : trees) {
    std::vector<int> all, going;
    for (int i = 0; i < m->njnt; ++i) {
      if (m->dof_treeid[m->jnt_dofadr[i]] != tree) continue;
      all.push_back(i);
      if (driven[static_cast<std::size_t>(i)] || m->jnt_type[i] == mjJNT_FREE) going.push_back(i);
    }
    const std::vector<int>& those = going.empty() ? all : going;
    joints.insert(joints.end(), those.begin(), those.end());
  }
  return joints;
}

// joints that these have to go along with stay out; false where bodies are tied
bool LeaveFollowers(const mjModel* m, std::vector<int>* joints) {
  for (int i = 0; i < m->neq; ++i) {
    if (!m->eq_active0[i]) continue;
    if (m->eq_type[i] != mjEQ_JOINT) return false;
    std::erase_if(*joints, [&](int joint) { return joint == m->eq_obj1id[i] || joint == m->eq_obj2id[i]; });
  }
  return !joints->empty();
}

// are other positions than these joints' the same?
bool StaysElse(const mjModel* m, const Start& start, ConstVectorRef goal, const std::vector<int>& joints) {
  VectorXd rest = goal - start.x.head(m->nq);
  for (const int joint : joints) rest.segment(m->jnt_qposadr[joint], JointPositions(m->jnt_type[joint])).setZero();
  return rest.isZero(0);
}

MatrixXd PosturesAlong(const mjModel* m, const Coordinates& z, const Polyline& path) {
  MatrixXd postures(m->nq, static_cast<Eigen::Index>(path.size()) - 1);
  for (std::size_t i = 1; i < path.size(); ++i) postures.col(static_cast<Eigen::Index>(i) - 1) = z.Posture(path[i]);
  return postures;
}

}  // namespace

bool IsInTheWay(const mjModel* m, const Start& start, ConstVectorRef goal, ConstVectorRef sizes) {
  const std::vector<int> joints = AllJoints(m);
  if (!StaysElse(m, start, goal, joints)) return false;
  const Coordinates z(m, start, goal, sizes, joints);
  Space space(m, start, goal, 0, {});
  return !Planner(z, &space).IsStraightClear();
}

MatrixXd PlanPath(const mjModel* m, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
                  PostureJoints which) {
  std::vector<int> joints = JointsThatGo(m, which);
  if (!LeaveFollowers(m, &joints) || !StaysElse(m, start, goal, joints)) return {};
  const Coordinates z(m, start, goal, sizes, joints);
  const Region region = RegionOf(m, z);
  for (const double clearance : kClearances) {
    Space space(m, start, goal, clearance * m->stat.extent, {});
    const Polyline path = Planner(z, &space).Run(region);
    if (!path.empty()) return PosturesAlong(m, z, path);
  }
  return {};
}

std::vector<MatrixXd> PlanPaths(const mjModel* m, const Start& start, ConstVectorRef goal, ConstVectorRef sizes,
                                const TreesThatGo& moving) {
  std::vector<int> joints = JointsOf(m, moving.trees);
  if (!LeaveFollowers(m, &joints)) return {};
  const Coordinates z(m, start, goal, sizes, joints);
  const VectorXd end = z.Posture(z.goal());
  const Region near = RegionOf(m, z), wide = RegionBeside(m, start, z, moving.beside, near);
  std::vector<MatrixXd> ways;
  double least = kInf;
  int looks = kMostLooks;
  std::vector<double> clearances;
  for (const double clearance : kClearances) clearances.push_back(clearance * m->stat.extent);
  if (moving.clearance > clearances[0]) clearances.insert(clearances.begin(), moving.clearance);
  for (const double clearance : clearances) {
    Space space(m, start, end, clearance, moving.trees);
    const Polyline path = Planner(z, &space).Run(near, wide, looks);
    looks -= space.looks();
    if (path.empty() || !(Planner::Length(path) < kShorter * least)) continue;
    least = Planner::Length(path);
    ways.push_back(PosturesAlong(m, z, path));
  }
  return ways;
}

std::vector<NearPair> PairsOnTheWay(const mjModel* m, const Start& start, const MatrixXd& way, ConstVectorRef sizes,
                                    double within) {
  const VectorXd goal = way.col(way.cols() - 1);
  Space space(m, start, goal, within, {});
  std::map<std::pair<int, int>, double> nearest;
  const auto measure = [&](const VectorXd& from, ConstVectorRef q) {
    VectorXd to = from;
    to.head(m->nq) = q;
    const VectorXd step = Difference(m, to, from);
    const int pieces = static_cast<int>(std::ceil(step.head(m->nv).cwiseQuotient(sizes).norm() / kResolution));
    for (int k = 0; k <= pieces; ++k)
      space.Measure(Retract(m, from, step * (static_cast<double>(k) / std::max(pieces, 1))).head(m->nq), &nearest);
    return to;
  };
  measure(start.x, goal);
  VectorXd from = start.x;
  for (const auto& posture : way.colwise()) from = measure(from, posture);
  std::vector<NearPair> pairs;
  for (const auto& [pair, distance] : nearest) {
    if (const double room = space.Room(pair); room > 0) pairs.push_back({pair.first, pair.second, distance, room});
  }
  std::ranges::stable_sort(pairs, {}, &NearPair::nearest);
  return pairs;
}

VectorXd SharesOfPath(const mjModel* m, ConstVectorRef x, const MatrixXd& path, ConstVectorRef sizes) {
  VectorXd shares(path.cols()), from = x;
  double sum = 0;
  for (Eigen::Index i = 0; i < path.cols(); ++i) {
    VectorXd to = from;
    to.head(m->nq) = path.col(i);
    sum += Difference(m, to, from).head(m->nv).cwiseQuotient(sizes).norm();
    shares[i] = sum;
    from = to;
  }
  if (sum > 0) return shares / sum;
  return VectorXd::LinSpaced(path.cols(), 1.0 / static_cast<double>(path.cols()), 1);
}

}  // namespace costate
