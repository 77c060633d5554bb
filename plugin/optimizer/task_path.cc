#include "optimizer/task_path.h"

#include <costate/model.h>
#include <costate/state.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "optimizer/control_noise.h"

namespace costate {
namespace {

constexpr double kResolution = 0.05;                        // natural units between postures that are looked at
constexpr double kGrowth = 0.3;                             // by which a tree grows
constexpr int kSamples = 2000, kLooks = 10000, kPlans = 5;  // samples and postures of a search; searches
constexpr int kShortcuts = 200;
constexpr double kBeyond = 3;                          // of joints without a range, beyond the start and the goal
constexpr double kClearances[] = {0.03, 0.01, 0.003};  // in terms of the model's extent, while one leads there
constexpr double kDeeper = 1e-4;                       // [m] than at the start or the goal

using Polyline = std::vector<VectorXd>;

// geoms that touch, and flexes by negative numbers
std::pair<int, int> PairOf(const mjContact& contact) {
  const auto id = [&](int k) { return contact.geom[k] >= 0 ? contact.geom[k] : -1 - contact.flex[k]; };
  return std::minmax(id(0), id(1));
}

// Postures q + S z of some joints, and whether they are clear.
class Space {
 public:
  Space(const mjModel* model, ConstVectorRef x, ConstVectorRef goal, double clearance)
      : model_(CopyModel(model)), m_(model_.get()), data_(MakeData(m_)), guard_(data_.get()), clearance_(clearance) {
    for (int i = 0; i < m_->ngeom; ++i) model_->geom_margin[i] += clearance;
    for (int i = 0; i < m_->nbody; ++i) model_->body_margin[i] += 2 * clearance;
    for (int i = 0; i < m_->npair; ++i) model_->pair_margin[i] += clearance;
    SetState(m_, data_.get(), x);
    for (const VectorXd& q : {VectorXd(x.head(m_->nq)), VectorXd(goal)}) {
      Look(q);
      for (int i = 0; i < data_->ncon; ++i) {
        const mjContact& contact = data_->contact[i];
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
      const auto known = least_.find(PairOf(contact));
      const double least = known == least_.end() ? clearance_ : std::min(clearance_, known->second - kDeeper);
      if (contact.dist < least) return false;
    }
    return true;
  }
  int looks() const { return looks_; }

 private:
  void Look(ConstVectorRef q) {
    Eigen::Map<VectorXd>(data_->qpos, m_->nq) = q;
    mj_kinematics(m_, data_.get());
    mj_comPos(m_, data_.get());
    mj_flex(m_, data_.get());
    mj_collision(m_, data_.get());
  }

  ModelPtr model_;
  const mjModel* m_;
  DataPtr data_;
  EngineGuard guard_;
  double clearance_;
  std::map<std::pair<int, int>, double> least_;  // of pairs near each other at the start or the goal
  int looks_ = 0;
};

class Planner {
 public:
  Planner(const mjModel* m, ConstVectorRef x, ConstVectorRef goal, ConstVectorRef sizes, const std::vector<int>& joints,
          double clearance)
      : start_(x.head(m->nq)), space_(m, x, goal, clearance) {
    const auto n = static_cast<Eigen::Index>(joints.size());
    size_.resize(n);
    lower_.resize(n);
    upper_.resize(n);
    goal_.resize(n);
    for (Eigen::Index j = 0; j < n; ++j) {
      const int joint = joints[static_cast<std::size_t>(j)], q = m->jnt_qposadr[joint];
      at_.push_back(q);
      size_[j] = sizes[m->jnt_dofadr[joint]];
      goal_[j] = (goal[q] - start_[q]) / size_[j];
      lower_[j] = std::min(0.0, goal_[j]) - kBeyond;
      upper_[j] = std::max(0.0, goal_[j]) + kBeyond;
      if (!m->jnt_limited[joint]) continue;
      lower_[j] = std::min({0.0, goal_[j], (m->jnt_range[2 * joint] - start_[q]) / size_[j]});
      upper_[j] = std::max({0.0, goal_[j], (m->jnt_range[2 * joint + 1] - start_[q]) / size_[j]});
    }
  }

  bool IsStraightClear() { return IsClear(VectorXd::Zero(goal_.size()), goal_); }

  // the shortest of some, in units of z from the start on; empty: none was found
  Polyline Run() {
    Polyline best;
    for (int i = 0; i < kPlans; ++i) {
      Polyline path = Search(i);
      if (path.empty()) break;
      Shorten(i, &path);
      if (best.empty() || Length(path) < Length(best)) best = std::move(path);
    }
    return best;
  }

  VectorXd Posture(const VectorXd& z) const {
    VectorXd q = start_;
    for (std::size_t j = 0; j < at_.size(); ++j) {
      const auto i = static_cast<Eigen::Index>(j);
      q[at_[j]] += size_[i] * z[i];
    }
    return q;
  }

 private:
  struct Tree {
    Polyline z;
    std::vector<std::size_t> parent;
  };

  bool IsClear(const VectorXd& a, const VectorXd& b) {
    const int pieces = std::max(1, static_cast<int>(std::ceil((b - a).norm() / kResolution)));
    for (int i = 1; i <= pieces; ++i)
      if (!space_.IsClear(Posture(a + (static_cast<double>(i) / pieces) * (b - a)))) return false;
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

  Polyline Search(int number) {
    Tree here{{VectorXd::Zero(goal_.size())}, {0}}, there{{goal_}, {0}};
    SampleStream stream(1, 1, number);
    const int before = space_.looks();
    bool forward = true;
    for (int i = 0; i < kSamples && space_.looks() - before < kLooks; ++i, forward = !forward) {
      Tree *grows = forward ? &here : &there, *follows = forward ? &there : &here;
      VectorXd z(goal_.size());
      for (Eigen::Index j = 0; j < z.size(); ++j) z[j] = lower_[j] + stream.Uniform() * (upper_[j] - lower_[j]);
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
  void Shorten(int number, Polyline* path) {
    SampleStream stream(1, 2, number);
    for (int i = 0; i < kShortcuts && path->size() > 2; ++i) {
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

  static double Length(const Polyline& path) {
    double sum = 0;
    for (std::size_t i = 1; i < path.size(); ++i) sum += (path[i] - path[i - 1]).norm();
    return sum;
  }

  VectorXd start_;
  Space space_;
  std::vector<int> at_;  // in qpos
  VectorXd size_, goal_, lower_, upper_;
};

std::vector<int> AllJoints(const mjModel* m) {
  std::vector<int> joints;
  for (int i = 0; i < m->njnt; ++i)
    if (IsScalarJoint(m->jnt_type[i])) joints.push_back(i);
  return joints;
}

// joints that these have to go along with stay out
bool MayPlan(const mjModel* m, ConstVectorRef x, ConstVectorRef goal, std::vector<int>* joints) {
  for (int i = 0; i < m->neq; ++i) {
    if (!m->eq_active0[i]) continue;
    if (m->eq_type[i] != mjEQ_JOINT) return false;
    std::erase_if(*joints, [&](int joint) { return joint == m->eq_obj1id[i] || joint == m->eq_obj2id[i]; });
  }
  VectorXd rest = goal - x.head(m->nq);
  for (const int joint : *joints) rest[m->jnt_qposadr[joint]] = 0;
  return !joints->empty() && rest.isZero(0);
}

}  // namespace

bool IsInTheWay(const mjModel* m, ConstVectorRef x, ConstVectorRef goal, ConstVectorRef sizes) {
  std::vector<int> joints = AllJoints(m);
  VectorXd rest = goal - x.head(m->nq);
  for (const int joint : joints) rest[m->jnt_qposadr[joint]] = 0;
  return rest.isZero(0) && !Planner(m, x, goal, sizes, joints, 0).IsStraightClear();
}

MatrixXd PlanPath(const mjModel* m, ConstVectorRef x, ConstVectorRef goal, ConstVectorRef sizes, PostureJoints which) {
  std::vector<int> joints = JointsThatGo(m, which);
  if (!MayPlan(m, x, goal, &joints)) return {};
  for (const double clearance : kClearances) {
    Planner planner(m, x, goal, sizes, joints, clearance * m->stat.extent);
    const Polyline path = planner.Run();
    if (path.empty()) continue;
    MatrixXd postures(m->nq, static_cast<Eigen::Index>(path.size()) - 1);
    for (std::size_t i = 1; i < path.size(); ++i)
      postures.col(static_cast<Eigen::Index>(i) - 1) = planner.Posture(path[i]);
    return postures;
  }
  return {};
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
