#include "optimizer/task_posture.h"

#include <costate/model.h>
#include <costate/state.h>
#include <costate/step.h>
#include <fmt/core.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/actuator_range.h"
#include "core/driven.h"
#include "core/extremes.h"
#include "core/joint.h"
#include "core/posture.h"
#include "optimizer/added_cost.h"
#include "optimizer/control_noise.h"
#include "optimizer/position_servo.h"

namespace costate {
namespace {

constexpr int kMostSteps = 100;
constexpr double kLongestStep = 0.3;  // of one joint, in natural sizes: r is far from linear beyond
constexpr double kLambda = 1e-6;      // beside the largest entry of J Jᵀ
constexpr double kReached = 1e-6;     // of r, in natural units
constexpr int kPostures = 30;         // random ones, from which it is tried again
constexpr int kMostPostures = 8;      // that are told
constexpr double kOther = 0.3;        // natural units by which they differ
constexpr double kOffLimits = 0.02;   // of a joint's range, which a posture keeps from each end of it
constexpr double kBroken = 1e-3;      // [m, rad] more than at the start no equality constraint may be missed by
constexpr double kWide = 1.5;         // random postures of joints without a range, in natural sizes around the start

class PostureSearch {
 public:
  PostureSearch(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals, ConstVectorRef sizes,
                double length, PostureJoints joints, std::vector<Foothold> feet = {});

  std::vector<VectorXd> Run();
  double Miss();
  std::vector<double> Nearest();

 private:
  struct Joint {
    int qpos, dof;
    double size, lower, upper;
  };
  void Residual();
  struct Measured {
    Eigen::Vector3d value;
    JacobianRows slope;
  };
  void Append(const PartGoal& goal);
  void AppendJoint(const PartGoal& goal);
  void AppendFoot(const Foothold& foot);
  Eigen::Index AppendRows(Eigen::Index rows);
  Measured Measure(const PartGoal& goal) const;
  bool Solve(VectorXd* q);
  bool Step(VectorXd* q) const;
  VectorXd Random(int number) const;
  double Distance(const VectorXd& q, const VectorXd& from) const;
  std::vector<VectorXd> Nearest(std::vector<VectorXd> found) const;
  bool MovesAll() const;
  void PutTied();
  bool Look(const VectorXd& q, int* contacts, double* broken);

  const mjModel* m_;
  DataPtr data_;
  const std::vector<PartGoal>& goals_;
  std::vector<Foothold> feet_;
  double length_;
  VectorXd state_;
  std::vector<Joint> joints_;
  VectorXd r_;
  MatrixXd J_;  // of r by the joints in their sizes
  bool known_ = true;
  VectorXd nearest_q_;
  double nearest_ = kInf;  // |r| there
};

// the joints that actuators move directly, as all joints between them and the world; or with the free ones above them
std::vector<int> ActuatedJoints(const mjModel* m, bool free) {
  std::vector<int> joints;
  std::vector<char> driven(static_cast<std::size_t>(m->nv), 0);
  for (int i = 0; i < m->nactuator && !(m->opt.disableflags & mjDSBL_ACTUATION); ++i) {
    const int joint = m->actuator_trnid[2 * i];
    if (!ActsOnJoint(m, i) || !IsScalarJoint(m->jnt_type[joint])) continue;
    joints.push_back(joint);
    const int dof = m->jnt_dofadr[joint], tree = m->dof_treeid[dof], first = m->tree_dofadr[tree];
    driven[static_cast<std::size_t>(dof)] = 1;
    if (!free || !HasFreeRoot(m, tree) || driven[static_cast<std::size_t>(first)]) continue;
    joints.push_back(m->dof_jntid[first]);
    std::fill_n(driven.begin() + first, JointDofs(mjJNT_FREE), 1);
  }
  std::erase_if(joints, [&](int joint) {
    int dof = m->jnt_dofadr[joint];
    while (dof >= 0 && driven[static_cast<std::size_t>(dof)]) dof = m->dof_parentid[dof];
    return dof >= 0;
  });
  return joints;
}

// what else drives a joint that has no actuator of its own: a fixed tendon that an actuator pulls, or a joint that it is
// tied to
bool IsDrivenByOthers(const mjModel* m, int joint) {
  for (int i = 0; i < m->nactuator && !(m->opt.disableflags & mjDSBL_ACTUATION); ++i) {
    if (m->actuator_trntype[i] != mjTRN_TENDON) continue;
    const int tendon = m->actuator_trnid[2 * i], first = m->tendon_adr[tendon];
    for (int w = first; w < first + m->tendon_num[tendon]; ++w)
      if (m->wrap_type[w] == mjWRAP_JOINT && m->wrap_objid[w] == joint) return true;
  }
  for (int i = 0; i < m->neq; ++i) {
    const int a = m->eq_obj1id[i], b = m->eq_obj2id[i];
    if (m->eq_type[i] == mjEQ_JOINT && b >= 0 && (a == joint || b == joint)) return true;
  }
  return false;
}

int DirectActuators(const mjModel* m, int joint) {
  int count = 0;
  for (int i = 0; i < m->nactuator; ++i) count += ActsOnJoint(m, i) && m->actuator_trnid[2 * i] == joint;
  return count;
}

PostureSearch::PostureSearch(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals,
                             ConstVectorRef sizes, double length, PostureJoints joints, std::vector<Foothold> feet)
    : m_(model), data_(MakeData(model)), goals_(goals), feet_(std::move(feet)), length_(length), state_(start.x) {
  if (start.context.size() > 0) SetContext(m_, data_.get(), start.context);
  for (int id : JointsThatGo(m_, joints)) {
    const int q = m_->jnt_qposadr[id], dof = m_->jnt_dofadr[id];
    if (m_->jnt_type[id] == mjJNT_FREE) {
      for (int k = 0; k < 3; ++k) joints_.push_back({q + k, dof + k, sizes[dof + k], -kInf, kInf});
      continue;
    }
    Joint joint{q, dof, sizes[dof], -kInf, kInf};
    const auto keep = [&](double lower, double upper) {
      joint.lower = std::max(joint.lower, std::min(lower + kOffLimits * (upper - lower), state_[q]));
      joint.upper = std::min(joint.upper, std::max(upper - kOffLimits * (upper - lower), state_[q]));
    };
    if (m_->jnt_limited[id]) keep(m_->jnt_range[2 * id], m_->jnt_range[2 * id + 1]);
    // where one actuator alone moves it, a servo, no farther than that servo's controls
    for (const PositionServo& servo : PositionServos(m_)) {
      const mjtNum* range = ControlRange(m_, servo.control);
      if (servo.joint != id || !range || DirectActuators(m_, id) > 1) continue;
      const auto [lower, upper] = std::minmax({servo.PositionAt(range[0]), servo.PositionAt(range[1])});
      keep(lower, upper);
    }
    joints_.push_back(joint);
  }
}

// r and J of one goal's components, behind those that there are
void PostureSearch::Append(const PartGoal& goal) {
  if (goal.type == mjOBJ_JOINT) return AppendJoint(goal);
  const Measured now = Measure(goal);
  const bool rotation = goal.quantity == "quat";
  const double unit = goal.quantity == "pos" ? length_ : 1;
  const Eigen::Index rows = rotation ? 3 : static_cast<Eigen::Index>(goal.index.size()), first = AppendRows(rows);
  for (Eigen::Index k = 0; k < rows; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const int component = rotation ? static_cast<int>(k) : goal.index[at];
    r_[first + k] = (now.value[component] - (rotation ? 0 : goal.values[at])) / unit;
    for (std::size_t j = 0; j < joints_.size(); ++j)
      J_(first + k, static_cast<Eigen::Index>(j)) = now.slope(component, joints_[j].dof) * joints_[j].size / unit;
  }
}

void PostureSearch::AppendJoint(const PartGoal& goal) {
  known_ = known_ && IsScalarJoint(m_->jnt_type[goal.id]);
  if (!known_) return;
  const Eigen::Index first = AppendRows(1);
  r_[first] = data_->qpos[m_->jnt_qposadr[goal.id]] - goal.values[0];
  for (std::size_t j = 0; j < joints_.size(); ++j)
    J_(first, static_cast<Eigen::Index>(j)) = joints_[j].dof == m_->jnt_dofadr[goal.id] ? joints_[j].size : 0;
}

void PostureSearch::AppendFoot(const Foothold& foot) {
  using Frame = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  const Eigen::Vector3d point = Eigen::Map<const Eigen::Vector3d>(data_->xpos + 3 * foot.body) +
                                Eigen::Map<const Frame>(data_->xmat + 9 * foot.body) * foot.local;
  JacobianRows slope, turn;
  PointJacobian(m_, data_.get(), point.data(), foot.body, &slope, &turn);
  const Eigen::Index first = AppendRows(3);
  r_.segment<3>(first) = (point - foot.world) / length_;
  for (std::size_t j = 0; j < joints_.size(); ++j)
    J_.block<3, 1>(first, static_cast<Eigen::Index>(j)) = slope.col(joints_[j].dof) * joints_[j].size / length_;
}

Eigen::Index PostureSearch::AppendRows(Eigen::Index rows) {
  const Eigen::Index first = r_.size();
  r_.conservativeResize(first + rows);
  J_.conservativeResize(first + rows, static_cast<Eigen::Index>(joints_.size()));
  return first;
}

// place, axis, or the turn from its target [rad, world] of a body, site or geom, and its slopes by all dofs
PostureSearch::Measured PostureSearch::Measure(const PartGoal& goal) const {
  const mjtNum *pos = data_->xpos + 3 * goal.id, *mat = data_->xmat + 9 * goal.id;
  int body = goal.id;
  if (goal.type == mjOBJ_SITE) {
    pos = data_->site_xpos + 3 * goal.id;
    mat = data_->site_xmat + 9 * goal.id;
    body = m_->site_bodyid[goal.id];
  } else if (goal.type == mjOBJ_GEOM) {
    pos = data_->geom_xpos + 3 * goal.id;
    mat = data_->geom_xmat + 9 * goal.id;
    body = m_->geom_bodyid[goal.id];
  }
  Measured now{Eigen::Vector3d(pos), {}};
  JacobianRows turn;
  PointJacobian(m_, data_.get(), pos, body, &now.slope, &turn);
  if (goal.quantity == "pos") return now;
  const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(mat);
  if (goal.quantity == "quat") {
    mjtNum quat[4], target[4], log[3];
    std::copy(goal.values.begin(), goal.values.end(), target);
    mju_normalize4(target);
    mju_mat2Quat(quat, mat);
    mju_subQuat(log, quat, target);
    return {R * Eigen::Vector3d(log), turn};
  }
  now.value = R.col(goal.quantity[0] - 'x');
  for (Eigen::Index i = 0; i < m_->nv; ++i) now.slope.col(i) = Eigen::Vector3d(turn.col(i)).cross(now.value);
  return now;
}

void PostureSearch::Residual() {
  r_.resize(0);
  J_.resize(0, static_cast<Eigen::Index>(joints_.size()));
  for (const PartGoal& goal : goals_) Append(goal);
  for (const Foothold& foot : feet_) AppendFoot(foot);
}

// the least change that takes r away, of joints that their range does not hold
bool PostureSearch::Step(VectorXd* q) const {
  MatrixXd J = J_;
  for (std::size_t held = 0; held <= joints_.size(); ++held) {
    const double largest = J.cwiseAbs2().maxCoeff();
    if (!(largest > 0)) return false;
    MatrixXd JJ = J * J.transpose();
    JJ.diagonal().array() += kLambda * largest;
    VectorXd dz = -J.transpose() * JJ.ldlt().solve(r_);
    dz *= std::min(1.0, kLongestStep / std::max(dz.cwiseAbs().maxCoeff(), mjMINVAL));
    bool free = true;
    for (std::size_t j = 0; j < joints_.size(); ++j) {
      const Joint& joint = joints_[j];
      const auto at = static_cast<Eigen::Index>(j);
      const double next = (*q)[joint.qpos] + joint.size * dz[at];
      if (dz[at] == 0 || (next >= joint.lower && next <= joint.upper)) continue;
      const double bound = next < joint.lower ? joint.lower : joint.upper;
      if ((*q)[joint.qpos] != bound) {
        (*q)[joint.qpos] = bound;
        return true;
      }
      J.col(at).setZero();
      free = false;
    }
    if (!free) continue;
    for (std::size_t j = 0; j < joints_.size(); ++j)
      (*q)[joints_[j].qpos] += joints_[j].size * dz[static_cast<Eigen::Index>(j)];
    return true;
  }
  return false;
}

bool PostureSearch::Solve(VectorXd* q) {
  for (int step = 0; step < kMostSteps; ++step) {
    SetPosture(m_, data_.get(), *q);
    Residual();
    if (!known_ || !r_.allFinite()) return false;
    if (r_.norm() < nearest_) {
      nearest_ = r_.norm();
      nearest_q_ = *q;
    }
    if (r_.cwiseAbs().maxCoeff() <= kReached) return true;
    if (!Step(q)) return false;
  }
  return false;
}

VectorXd PostureSearch::Random(int number) const {
  SampleStream stream(1, 0, number);
  VectorXd q = state_.head(m_->nq);
  for (const Joint& joint : joints_) {
    const double at = 0.5 + 0.5 * std::tanh(stream.Normal());
    const double lower = std::max(joint.lower, state_[joint.qpos] - kWide * joint.size);
    const double upper = std::min(joint.upper, state_[joint.qpos] + kWide * joint.size);
    q[joint.qpos] = lower + at * (upper - lower);
  }
  return q;
}

// squared
double PostureSearch::Distance(const VectorXd& q, const VectorXd& from) const {
  double sum = 0;
  for (const Joint& joint : joints_) sum += std::pow((q[joint.qpos] - from[joint.qpos]) / joint.size, 2);
  return sum;
}

// some that differ, the nearest first
std::vector<VectorXd> PostureSearch::Nearest(std::vector<VectorXd> found) const {
  std::ranges::stable_sort(found, {}, [&](const VectorXd& q) { return Distance(q, state_); });
  std::vector<VectorXd> nearest;
  for (VectorXd& q : found) {
    const auto is_same = [&](const VectorXd& other) { return Distance(q, other) < kOther * kOther; };
    if (std::ssize(nearest) < kMostPostures && std::ranges::none_of(nearest, is_same)) nearest.push_back(std::move(q));
  }
  return nearest;
}

// what the engine sees there: contacts, and how far equality constraints are from kept, as of a mechanism's loop
bool PostureSearch::Look(const VectorXd& q, int* contacts, double* broken) {
  const Dims dims(m_);
  VectorXd x = state_, none;
  x.head(m_->nq) = q;
  if (Forward(m_, data_.get(), x, VectorXd::Zero(dims.nu), none) != StepStatus::kOk) return false;
  *contacts = static_cast<int>(
      std::count_if(data_->contact, data_->contact + data_->ncon, [](const mjContact& c) { return c.dist < 0; }));
  *broken = 0;
  for (int i = 0; i < data_->nefc; ++i) {
    if (data_->efc_type[i] == mjCNSTR_EQUALITY) *broken = std::max(*broken, std::abs(data_->efc_pos[i]));
  }
  return true;
}

// Joints with a goal that others drive are where they shall be, as fingers that a tendon closes; so are those tied to
// them.
void PostureSearch::PutTied() {
  const std::vector<int> searched = [&] {
    std::vector<int> all;
    for (const Joint& joint : joints_) all.push_back(joint.qpos);
    return all;
  }();
  const auto goes = [&](int joint) {
    return IsScalarJoint(m_->jnt_type[joint]) && std::ranges::find(searched, m_->jnt_qposadr[joint]) == searched.end();
  };
  for (const PartGoal& goal : goals_) {
    if (goal.type != mjOBJ_JOINT || !goes(goal.id) || !IsDrivenByOthers(m_, goal.id)) continue;
    state_[m_->jnt_qposadr[goal.id]] = goal.values[0];
    for (int i = 0; i < m_->neq; ++i) {
      const int a = m_->eq_obj1id[i], b = m_->eq_obj2id[i];
      if (m_->eq_type[i] != mjEQ_JOINT || !data_->eq_active[i] || b < 0 || (a != goal.id && b != goal.id)) continue;
      const mjtNum* c = m_->eq_data + mjNEQDATA * i;  // q_a = c0 + c1 q_b + … from where the model has them
      const int at_a = m_->jnt_qposadr[a], at_b = m_->jnt_qposadr[b];
      if (b == goal.id && goes(a)) {
        const double x = state_[at_b] - m_->qpos0[at_b];
        state_[at_a] = m_->qpos0[at_a] + c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])));
      } else if (a == goal.id && goes(b) && c[1] != 0 && c[2] == 0 && c[3] == 0 && c[4] == 0) {
        state_[at_b] = m_->qpos0[at_b] + (state_[at_a] - m_->qpos0[at_a] - c[0]) / c[1];
      }
    }
  }
}

std::vector<VectorXd> PostureSearch::Run() {
  PutTied();
  int usual = 0;
  double usually_broken = 0;
  if (joints_.empty() || !Look(state_.head(m_->nq), &usual, &usually_broken)) return {};
  std::vector<VectorXd> clear, touching;
  for (int i = 0; i <= kPostures; ++i) {
    VectorXd q = i == 0 ? VectorXd(state_.head(m_->nq)) : Random(i);
    int contacts = 0;
    double broken = 0;
    if (!Solve(&q) || !Look(q, &contacts, &broken) || broken > usually_broken + kBroken) continue;
    (contacts <= usual ? clear : touching).push_back(q);
  }
  if (!clear.empty()) return Nearest(std::move(clear));
  touching = Nearest(std::move(touching));
  if (touching.size() > 1) touching.resize(1);
  return touching;
}

double PostureSearch::Miss() {
  SetPosture(m_, data_.get(), state_.head(m_->nq));
  Residual();
  return known_ && r_.allFinite() ? r_.cwiseAbs().maxCoeff() : kInf;
}

// do these joints alone move the parts?
bool PostureSearch::MovesAll() const {
  const auto searched = [&](int dof) {
    return std::any_of(joints_.begin(), joints_.end(), [&](const Joint& joint) { return joint.dof == dof; });
  };
  return std::all_of(goals_.begin(), goals_.end(), [&](const PartGoal& goal) {
    int dof = goal.LastDof(m_);
    if (goal.type == mjOBJ_JOINT) return searched(dof) || IsDrivenByOthers(m_, goal.id);
    while (dof >= 0 && searched(dof)) dof = m_->dof_parentid[dof];
    return dof < 0;
  });
}

std::vector<double> PostureSearch::Nearest() {
  if (!MovesAll()) return {};
  PutTied();
  bool reached = false;
  for (int i = 0; i <= kPostures && !reached && known_; ++i) {
    VectorXd q = i == 0 ? VectorXd(state_.head(m_->nq)) : Random(i);
    reached = Solve(&q);
  }
  if (nearest_q_.size() == 0) return {};
  SetPosture(m_, data_.get(), nearest_q_);
  std::vector<double> misses;
  for (const PartGoal& goal : goals_) {
    r_.resize(0);
    J_.resize(0, static_cast<Eigen::Index>(joints_.size()));
    Append(goal);
    misses.push_back((goal.quantity == "pos" ? length_ : 1) * r_.norm());
  }
  return misses;
}

}  // namespace

double NaturalLength(const mjModel* model) { return std::clamp(0.25 * model->stat.extent, 0.05, 0.5); }

VectorXd NaturalSizes(const mjModel* model) {
  const double length = NaturalLength(model);
  VectorXd sizes(model->nv);
  for (int j = 0; j < model->njnt; ++j) {
    const int dof = model->jnt_dofadr[j], type = model->jnt_type[j];
    const double range = model->jnt_range[2 * j + 1] - model->jnt_range[2 * j];
    if (type == mjJNT_FREE) {
      sizes.segment<3>(dof).setConstant(length);
      sizes.segment<3>(dof + 3).setOnes();
    } else if (type == mjJNT_BALL) {
      sizes.segment<3>(dof).setOnes();
    } else if (type == mjJNT_SLIDE) {
      sizes[dof] = model->jnt_limited[j] ? std::max(0.5 * range, 1e-3) : length;
    } else {
      sizes[dof] = model->jnt_limited[j] ? std::clamp(0.5 * range, 0.1, 1.0) : 1.0;
    }
  }
  return sizes;
}

std::vector<int> JointsThatGo(const mjModel* model, PostureJoints which) {
  std::vector<int> all, joints;
  if (which != PostureJoints::kServos) {
    all = ActuatedJoints(model, which == PostureJoints::kStanding);
  } else {
    for (const PositionServo& servo : PositionServos(model)) all.push_back(servo.joint);
  }
  for (const int joint : all)
    if (std::ranges::find(joints, joint) == joints.end()) joints.push_back(joint);
  return joints;
}

int PartGoal::Body(const mjModel* model) const {
  switch (type) {
    case mjOBJ_JOINT: return model->jnt_bodyid[id];
    case mjOBJ_SITE: return model->site_bodyid[id];
    case mjOBJ_GEOM: return model->geom_bodyid[id];
    default: return id;
  }
}

int PartGoal::LastDof(const mjModel* model) const {
  if (type == mjOBJ_JOINT) return model->jnt_dofadr[id];
  return costate::LastDof(model, Body(model));
}

std::string PartGoal::CostName() const {
  return fmt::format("{} {}{}", mju_type2Str(type), name, quantity.empty() || quantity == "pos" ? "" : " " + quantity);
}

bool MoveTo(const mjModel* model, const PartGoal& goal, PostureJoints joints) {
  if (goal.type == mjOBJ_JOINT && IsDrivenByOthers(model, goal.id)) return true;
  const std::vector<int> all = JointsThatGo(model, joints);
  const auto goes = [&](int dof) {
    return std::ranges::any_of(all, [&](int joint) { return model->jnt_dofadr[joint] == dof; });
  };
  int dof = goal.LastDof(model);
  if (goal.type == mjOBJ_JOINT) return goes(dof);
  while (dof >= 0 && !goes(dof)) dof = model->dof_parentid[dof];
  return dof >= 0;
}

std::vector<Foothold> FindFeet(const mjModel* m, const Start& start, const std::vector<PartGoal>& goals) {
  constexpr double kInterval = 0.02, kSettles = 0.3;  // [s]: it may begin a little above the floor …
  constexpr int kFurther = 5;                         // … and a foot come to lie on all its corners so much later
  const DataPtr data = MakeData(m);
  if (start.context.size() > 0) SetContext(m, data.get(), start.context);
  const int steps = std::max(1, static_cast<int>(std::lround(kInterval / m->opt.timestep)));
  std::vector<Foothold> feet;
  VectorXd x = start.x, next = x, none;
  int further = 0;
  for (double time = 0; time <= kSettles && further <= kFurther; time += kInterval, x = next) {
    if (Forward(m, data.get(), x, start.u, none) != StepStatus::kOk) return {};
    std::vector<Foothold> now = FindFootholds(m, data.get());
    if (now.size() > feet.size()) feet = std::move(now);
    if (time == 0 && !feet.empty()) break;
    further += !feet.empty();
    if (Step(m, data.get(), x, start.u, steps, next, none) != StepStatus::kOk) return {};
  }
  std::erase_if(feet, [&](const Foothold& foot) {
    return std::ranges::any_of(goals, [&](const PartGoal& goal) { return goal.Body(m) == foot.body; });
  });
  return feet;
}

std::vector<VectorXd> ReachPostures(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals,
                                    ConstVectorRef sizes, double length, PostureJoints joints,
                                    std::vector<Foothold> feet) {
  return PostureSearch(model, start, goals, sizes, length, joints, std::move(feet)).Run();
}

std::vector<double> NearestMisses(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals,
                                  ConstVectorRef sizes, double length) {
  return PostureSearch(model, start, goals, sizes, length, PostureJoints::kActuated).Nearest();
}

double MissOfGoals(const mjModel* model, const Start& start, const std::vector<PartGoal>& goals, ConstVectorRef sizes,
                   double length) {
  return PostureSearch(model, start, goals, sizes, length, PostureJoints::kActuated).Miss();
}

}  // namespace costate
