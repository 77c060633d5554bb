#include "viewer/framing.h"

#include <algorithm>
#include <cmath>

#include "core/driven.h"
#include "core/element.h"
#include "core/engine_guard.h"
#include "core/lap.h"

namespace costate::viewer {
namespace {

using Eigen::Vector3d;
using Box = Eigen::AlignedBox3d;

constexpr double kFill = 0.78;   // share of the picture that the motion may take up
constexpr double kTravel = 2.5;  // a motion larger than this many robots is followed, …
constexpr double kSmall = 12;    // … unless it and where it goes to fit one picture so many times as far away
constexpr double kTiny = 30;     // the same of a robot whose joints' limits keep it in its place
constexpr double kLevel =
    2.2;  // robots high that a motion may be for the camera to stay level: one that turns over is 2
constexpr double kNear = 0.5;          // robots from which on the goal is in the picture of one that is followed
constexpr double kDeadZone = 0.15;     // robots that it may move before the camera does
constexpr double kLeaves = 2;          // robots by which an object may leave for the picture to hold it still
constexpr double kRoomForGoals = 1.6;  // how much further away the camera may stand for a goal to be seen
constexpr int kMaxSamples = 400;       // poses looked at along a motion
constexpr double kPreview = 2;         // [s] of a live simulation that the first picture has to hold …
constexpr double kPatience = 0.5;      // … unless computing them takes longer [s]
constexpr double kDegree = mjPI / 180;

bool IsMobile(const mjModel* model, int body) {
  const int weld = model->body_weldid[body];
  return weld != 0 && model->body_mocapid[weld] < 0;
}

bool HasFreeBase(const mjModel* model) {
  return std::find(model->jnt_type, model->jnt_type + model->njnt, mjJNT_FREE) != model->jnt_type + model->njnt;
}

double GeomAlpha(const mjModel* model, int geom) {
  const int material = model->geom_matid[geom];
  return material >= 0 ? model->mat_rgba[4 * material + 3] * model->geom_rgba[4 * geom + 3]
                       : model->geom_rgba[4 * geom + 3];
}

bool HasFlexOrSkin(const mjModel* model) { return model->nflex > 0 || model->nskin > 0; }

// What has to be in the picture, seen from one direction: the nearest place from which all of it is inside. For points
// (x right, y up, z away) and a camera at (cx, cy, −D) that sees tangents ±h and ±v,
//   |x − cx| ≤ (z + D) h  ⇔  cx + D h ≥ max(x − z h) =: a  and  D h − cx ≥ max(−x − z h) =: b
//   ⇒  D ≥ (a + b) / 2h,  cx = (a − b) / 2
// and so for y: four maxima decide (README, eq. 1 and 2).
class ViewFit {
 public:
  ViewFit(const mjvCamera& camera, double fovy, double aspect)
      : v_(std::tan(0.5 * fovy * kDegree) * kFill), h_(v_ * aspect) {
    const double azimuth = camera.azimuth * kDegree, elevation = camera.elevation * kDegree;
    forward_ = {std::cos(elevation) * std::cos(azimuth), std::cos(elevation) * std::sin(azimuth), std::sin(elevation)};
    right_ = {std::sin(azimuth), -std::cos(azimuth), 0};
    up_ = right_.cross(forward_);
  }

  void Extend(const Vector3d& point) {
    const double x = point.dot(right_), y = point.dot(up_), z = point.dot(forward_);
    max_ = max_.cwiseMax(Eigen::Vector4d(x - z * h_, -x - z * h_, y - z * v_, -y - z * v_));
    z_min_ = std::min(z_min_, z);
    z_max_ = std::max(z_max_, z);
  }

  void Extend(const ViewFit& other) {
    max_ = max_.cwiseMax(other.max_);
    z_min_ = std::min(z_min_, other.z_min_);
    z_max_ = std::max(z_max_, other.z_max_);
  }

  // with the origin in the middle of the picture
  double DistanceAround() const { return std::max(std::max(max_[0], max_[1]) / h_, std::max(max_[2], max_[3]) / v_); }

  // from the camera to the middle of what it sees
  double Distance() const {
    return std::max((max_[0] + max_[1]) / (2 * h_), (max_[2] + max_[3]) / (2 * v_)) + Middle();
  }
  Vector3d LookAt() const {
    return 0.5 * (max_[0] - max_[1]) * right_ + 0.5 * (max_[2] - max_[3]) * up_ + Middle() * forward_;
  }

 private:
  double Middle() const { return 0.5 * (z_min_ + z_max_); }

  double v_, h_;
  Vector3d forward_, right_, up_;
  Eigen::Vector4d max_ = Eigen::Vector4d::Constant(-1e300);
  double z_min_ = 1e300, z_max_ = -1e300;
};

template <typename Visit>
void VisitBox(const Vector3d& center, const Eigen::Matrix3d& axes, const Vector3d& half, Visit visit) {
  for (int i = 0; i < 8; ++i) {
    const Vector3d sign(i & 1 ? 1 : -1, i & 2 ? 1 : -1, i & 4 ? 1 : -1);
    visit(Vector3d(center + axes * sign.cwiseProduct(half)));
  }
}

template <typename Visit>
void VisitSphere(const mjtNum* center, double radius, Visit visit) {
  VisitBox(Eigen::Map<const Vector3d>(center), Eigen::Matrix3d::Identity(), Vector3d::Constant(radius), visit);
}

// the corners of a geom's own box in the world
template <typename Visit>
void VisitGeom(const mjModel* model, const mjData* data, int geom, Visit visit) {
  const mjtNum* aabb = model->geom_aabb + 6 * geom;
  const Eigen::Matrix3d R = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(data->geom_xmat + 9 * geom);
  const Vector3d center = Eigen::Map<const Vector3d>(data->geom_xpos + 3 * geom) + R * Eigen::Map<const Vector3d>(aabb);
  VisitBox(center, R, Eigen::Map<const Vector3d>(aabb + 3), visit);
}

// Points around the robot: its geoms and soft bodies, else its masses; of a model in which nothing moves everything
// there is.
template <typename Visit>
void VisitRobot(const mjModel* model, const mjData* data, const std::vector<int>& geoms, Visit visit) {
  for (int geom : geoms) VisitGeom(model, data, geom, visit);
  for (int i = 0; i < model->nflexvert; ++i) visit(Vector3d(Eigen::Map<const Vector3d>(data->flexvert_xpos + 3 * i)));
  if (!geoms.empty() || model->nflexvert > 0) return;

  // a ball of each mass and inertia
  bool any = false;
  for (int i = 1; i < model->nbody; ++i) {
    if (!IsMobile(model, i)) continue;
    const mjtNum* inertia = model->body_inertia + 3 * i;
    const double mass = std::max<double>(model->body_mass[i], mjMINVAL);
    VisitSphere(data->xipos + 3 * i, std::sqrt(2.5 * std::max({inertia[0], inertia[1], inertia[2]}) / mass), visit);
    any = true;
  }
  for (int i = 0; i < model->ngeom && !any; ++i) {
    if (model->geom_type[i] != mjGEOM_PLANE && GeomAlpha(model, i) > 0) VisitGeom(model, data, i, visit);
  }
  // at least something
  if (!any && model->ngeom == 0) VisitSphere(model->stat.center, 0.5 * model->stat.extent, visit);
}

// a visible site that does not move with the robot: a target, a mark on the floor
bool IsMarker(const mjModel* model, const mjvOption& option, int site) {
  const int material = model->site_matid[site], group = std::clamp(model->site_group[site], 0, mjNGROUP - 1);
  const float alpha = material >= 0 ? model->mat_rgba[4 * material + 3] : model->site_rgba[4 * site + 3];
  return !IsMobile(model, model->site_bodyid[site]) && option.sitegroup[group] && alpha > 0;
}

double SiteRadius(const mjModel* model, int site) {
  const mjtNum* size = model->site_size + 3 * site;
  switch (model->site_type[site]) {
    case mjGEOM_SPHERE: return size[0];
    case mjGEOM_CAPSULE:
    case mjGEOM_CYLINDER: return std::max(size[0], size[1]);
    default: return std::max({size[0], size[1], size[2]});
  }
}

// positions only: what a picture of a pose needs
void Pose(const mjModel* model, mjData* data, const VectorXd& x) {
  mju_copy(data->qpos, x.data(), model->nq);
  mj_kinematics(model, data);
  mj_comPos(model, data);
  mj_flex(model, data);
}

// the beginning of a live simulation as a recorded motion: states only
ViewSource Preview(const ViewSource& live) {
  const auto begin = Clock::now();
  Player player(live);
  while (player.end() < player.start() + kPreview && player.failure().empty() && SecondsSince(begin) < kPatience) {
    player.SetTime(player.end() + player.knot_time());
  }
  ViewSource preview = live;
  preview.trajectory.X.resize(live.trajectory.X.rows(), player.last_knot() + 1);
  for (int t = 0; t <= player.last_knot(); ++t) preview.trajectory.X.col(t) = player.State(t);
  return preview;
}

}  // namespace

std::vector<int> RobotGeoms(const mjModel* model, const mjvOption& option) {
  std::vector<int> geoms;
  for (int i = 0; i < model->ngeom; ++i) {
    const int group = std::clamp(model->geom_group[i], 0, mjNGROUP - 1);
    if (IsMobile(model, model->geom_bodyid[i]) && option.geomgroup[group] && GeomAlpha(model, i) > 0 &&
        model->geom_type[i] != mjGEOM_PLANE) {
      geoms.push_back(i);
    }
  }
  return geoms;
}

mjvOption VisibleOption(const mjModel* model) {
  mjvOption option;
  mjv_defaultOption(&option);
  if (!RobotGeoms(model, option).empty() || HasFlexOrSkin(model)) return option;

  // hidden groups, then inertia boxes
  mjvOption all = option;
  for (mjtByte& group : all.geomgroup) group = 1;
  if (!RobotGeoms(model, all).empty()) return all;
  option.flags[mjVIS_INERTIA] = 1;
  option.flags[mjVIS_JOINT] = 1;
  return option;
}

namespace {

// boxes around the geoms of each tree
std::vector<Box> TreeBoxes(const mjModel* model, const mjData* data, const std::vector<int>& geoms) {
  std::vector<Box> boxes(static_cast<std::size_t>(model->ntree));
  for (int geom : geoms) {
    Box& box = boxes[static_cast<std::size_t>(model->body_treeid[model->geom_bodyid[geom]])];
    VisitGeom(model, data, geom, [&box](const Vector3d& point) { box.extend(point); });
  }
  return boxes;
}

// Where each tree shall be at the end, by the places and the state that are goals; empty where there is none.
std::vector<Box> GoalBoxes(const ViewSource& source, const std::vector<int>& geoms, const std::vector<Box>& start,
                           mjData* data) {
  const mjModel* model = source.model;
  std::vector<Box> goals(start.size());
  for (std::size_t i = 0; i < source.goal_bodies.size(); ++i) {
    const int tree = source.goal_bodies[i] < 0 ? -1 : model->body_treeid[source.goal_bodies[i]];
    if (tree >= 0) goals[static_cast<std::size_t>(tree)].extend(source.goal_places[i]);
  }
  if (source.x_goal.size() != source.trajectory.X.rows() || !source.x_goal.allFinite()) return goals;
  Pose(model, data, source.x_goal);
  const std::vector<Box> boxes = TreeBoxes(model, data, geoms);
  for (std::size_t k = 0; k < goals.size(); ++k) {
    if (!boxes[k].isEmpty() && !boxes[k].isApprox(start[k])) goals[k].extend(boxes[k]);
  }
  return goals;
}

// The geoms without those of objects that leave the robot by some of its sizes, and do not end near a goal of their
// own: a picture that held what falls out of the scene would show little else. The robot is what actuators move, or the
// tree of the body that is followed.
std::vector<int> WithoutLeaving(const ViewSource& source, const std::vector<int>& geoms, int followed, int stride,
                                mjData* data) {
  const mjModel* model = source.model;
  std::vector<char> robot(static_cast<std::size_t>(model->ntree));
  Pose(model, data, source.trajectory.X.col(0));
  if (followed >= 0 && model->body_treeid[followed] >= 0) {
    robot[static_cast<std::size_t>(model->body_treeid[followed])] = 1;
  } else {
    const std::vector<char> driven = DrivenDofs(model, data);
    for (int i = 0; i < model->nv; ++i) {
      if (driven[static_cast<std::size_t>(i)]) robot[static_cast<std::size_t>(model->dof_treeid[i])] = 1;
    }
  }

  // how far each goes away from it
  std::vector<Box> start, boxes;
  std::vector<double> away(robot.size());
  double size = 0;
  for (int t = 0; t < source.trajectory.X.cols(); t += stride) {
    Pose(model, data, source.trajectory.X.col(t));
    boxes = TreeBoxes(model, data, geoms);
    if (t == 0) start = boxes;
    Box all, all_start;
    for (std::size_t k = 0; k < robot.size(); ++k) {
      if (!robot[k]) continue;
      all.extend(boxes[k]);
      all_start.extend(start[k]);
    }
    if (all.isEmpty()) return geoms;
    size = std::max(size, all.diagonal().norm());
    for (std::size_t k = 0; k < robot.size(); ++k) {
      if (robot[k] || boxes[k].isEmpty()) continue;
      away[k] = std::max(away[k], all.exteriorDistance(boxes[k]) - all_start.exteriorDistance(start[k]));
    }
  }
  const std::vector<Box> goals = GoalBoxes(source, geoms, start, data);
  std::vector<int> staying;
  for (int geom : geoms) {
    const auto k = static_cast<std::size_t>(model->body_treeid[model->geom_bodyid[geom]]);
    const bool arrives = !goals[k].isEmpty() && goals[k].exteriorDistance(boxes[k]) <= kLeaves * size;
    if (away[k] <= kLeaves * size || arrives) staying.push_back(geom);
  }
  return staying;
}

// marks and the goal, each if the picture need not be taken from much further away
ViewFit WithGoals(const mjModel* model, const std::vector<int>& geoms, const ViewSource& source,
                  const mjvOption& option, double goal_limit, mjData* data, ViewFit fit) {
  const double limit = kRoomForGoals * fit.Distance();
  goal_limit = std::max(goal_limit, limit);
  for (int i = 0; i < model->nsite; ++i) {
    if (!IsMarker(model, option, i)) continue;
    ViewFit more = fit;
    VisitSphere(data->site_xpos + 3 * i, SiteRadius(model, i), [&more](const Vector3d& point) { more.Extend(point); });
    if (more.Distance() < limit) fit = more;
  }
  for (const Vector3d& place : source.goal_places) {
    ViewFit more = fit;
    more.Extend(place);
    if (more.Distance() < goal_limit) fit = more;
  }
  if (source.x_goal.size() == source.trajectory.X.rows() && source.x_goal.allFinite()) {
    ViewFit more = fit;
    Pose(model, data, source.x_goal);
    VisitRobot(model, data, geoms, [&more](const Vector3d& point) { more.Extend(point); });
    if (more.Distance() < goal_limit) fit = more;
  }
  return fit;
}

// points that are goals: places, and the robot as it shall be
std::vector<Vector3d> GoalPoints(const ViewSource& source, const std::vector<int>& geoms, mjData* data) {
  std::vector<Vector3d> points = source.goal_places;
  if (source.x_goal.size() != source.trajectory.X.rows() || !source.x_goal.allFinite()) return points;
  Pose(source.model, data, source.x_goal);
  VisitRobot(source.model, data, geoms, [&points](const Vector3d& point) { points.push_back(point); });
  return points;
}

// is there a joint that takes a robot away as far as it likes?
bool CanLeave(const mjModel* m) {
  for (int i = 0; i < m->njnt; ++i) {
    if (m->jnt_type[i] == mjJNT_FREE || (m->jnt_type[i] == mjJNT_SLIDE && !m->jnt_limited[i])) return true;
  }
  return false;
}

}  // namespace

Framing::Framing(const ViewSource& shown, const mjvOption& option, const CameraOptions& camera, double aspect)
    : model_(shown.model), geoms_(RobotGeoms(shown.model, option)) {
  mjv_defaultFreeCamera(model_, &camera_);
  camera_.orthographic = 0;

  // a camera of the model knows its own place
  if (!camera.camera.empty()) {
    camera_.type = mjCAMERA_FIXED;
    camera_.fixedcamid = FindNamedOrNumbered(model_, mjOBJ_CAMERA, "camera", camera.camera);
    return;
  }

  // boxes around the robot along the motion, of a live one along its beginning
  const ViewSource source = shown.live ? Preview(shown) : shown;
  EngineGuard guard;
  const DataPtr data = MakeData(model_);
  SetContext(model_, data.get(), source.context);
  const int knots = static_cast<int>(source.trajectory.X.cols());
  stride_ = (knots + kMaxSamples - 1) / kMaxSamples;
  std::vector<Box> boxes;
  std::vector<Vector3d> body_path;
  if (camera.follow != "auto" && camera.follow != "always" && camera.follow != "never") {
    body_ = FindNamedOrNumbered(model_, mjOBJ_BODY, "body", camera.follow);
  }
  geoms_ = WithoutLeaving(source, geoms_, body_, stride_, data.get());
  for (int t = 0; t < knots; t += stride_) {
    Pose(model_, data.get(), source.trajectory.X.col(t));
    boxes.push_back(RobotBox(data.get()));
    if (t == 0) FindDirection(data.get(), camera);
    if (body_ >= 0) body_path.push_back(Eigen::Map<const Vector3d>(data->xpos + 3 * body_));
  }
  ChooseFollowing(camera.follow, shown.live, boxes);
  if (body_ >= 0) path_ = body_path;

  // what must fit: the robot at each moment, from where the camera looks at that moment
  const std::vector<Vector3d> goals = GoalPoints(source, geoms_, data.get());
  const ViewFit empty(camera_, model_->vis.global.orthographic ? 45 : model_->vis.global.fovy, aspect);
  ViewFit fit = empty, along = empty, near = empty;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    Pose(model_, data.get(), source.trajectory.X.col(static_cast<int>(i) * stride_));
    const Vector3d origin = path_[i];
    VisitRobot(model_, data.get(), geoms_, [&](const Vector3d& point) {
      fit.Extend(point);
      along.Extend(point - origin);
    });
    for (const Vector3d& point : goals) {
      if (boxes[i].exteriorDistance(point) <= kNear * size_) near.Extend(point - origin);
    }
  }
  const double most = !CanLeave(model_) ? kTiny : goals.empty() ? 0 : kSmall;
  const double small = camera.follow == "auto" ? most * along.Distance() : 0;
  if (follows_ && small > 0 && !shown.live) {
    ViewFit all = fit;
    for (const Vector3d& point : goals) all.Extend(point);
    follows_ = all.Distance() > small;
  }
  if (follows_) {
    fit = along;
    near.Extend(along);
    if (body_ < 0 && near.Distance() < kRoomForGoals * along.Distance()) fit = near;
  } else {
    fit = WithGoals(model_, geoms_, source, option, small, data.get(), fit);
  }

  // the picture's centre need not be the robot's, but for a body that is followed by name
  const Vector3d look_at = fit.LookAt();
  if (follows_ && body_ < 0) {
    offset_ = look_at;
    for (Vector3d& point : path_) point += offset_;
  }
  Eigen::Map<Vector3d>(camera_.lookat) = follows_ ? path_.front() : look_at;
  const double distance = body_ >= 0 ? fit.DistanceAround() : fit.Distance();
  camera_.distance = camera.distance.value_or(std::max(distance, 1e-6));
}

Box Framing::RobotBox(const mjData* data) const {
  Box box;
  VisitRobot(model_, data, geoms_, [&box](const Vector3d& point) { box.extend(point); });
  if (box.isEmpty()) box.extend(Vector3d(Eigen::Map<const Vector3d>(model_->stat.center)));
  return box;
}

// A planar mechanism is seen along its plane's normal, everything else from the side and a little from the front.
// Angles that the model's file sets (<global azimuth elevation>) are the user's and stay.
void Framing::FindDirection(const mjData* data, const CameraOptions& camera) {
  Vector3d normal = Vector3d::Zero();
  bool planar = model_->njnt > 0;
  std::vector<Vector3d> slides;
  for (int i = 0; i < model_->njnt && planar; ++i) {
    const Vector3d axis = Eigen::Map<const Vector3d>(data->xaxis + 3 * i);
    if (model_->jnt_type[i] == mjJNT_SLIDE) {
      slides.push_back(axis);
    } else if (model_->jnt_type[i] == mjJNT_HINGE) {
      if (normal.isZero()) normal = axis;
      planar = std::abs(normal.dot(axis)) > 0.999;
    } else {
      planar = false;
    }
  }
  for (std::size_t i = 1; i < slides.size() && normal.isZero(); ++i) {
    const Vector3d cross = slides[0].cross(slides[i]);
    if (cross.norm() > 0.01) normal = cross.normalized();
  }
  for (const Vector3d& slide : slides) planar = planar && std::abs(slide.dot(normal)) < 0.05;
  planar = planar && !normal.isZero();

  const bool is_set = camera_.azimuth != 90 || camera_.elevation != -45;
  if (!is_set && planar && std::abs(normal.z()) > 0.7) {
    camera_.elevation = -70;
  } else if (!is_set && planar && std::abs(normal.z()) < 0.3) {
    // of the two sides, the one from which +x (or +y) points to the right
    if (normal.y() < -0.01 || (std::abs(normal.y()) <= 0.01 && normal.x() > 0)) normal = -normal;
    camera_.azimuth = std::atan2(normal.y(), normal.x()) / kDegree;
    camera_.elevation = -8;
  } else if (!is_set) {
    camera_.azimuth = 125;
    camera_.elevation = -18;
  }
  if (camera.azimuth) camera_.azimuth = *camera.azimuth;
  if (camera.elevation) camera_.elevation = *camera.elevation;
}

void Framing::ChooseFollowing(const std::string& follow, bool live, const std::vector<Box>& boxes) {
  const bool may_leave = live && HasFreeBase(model_);
  Box all = boxes.front();
  double size = 0, height = 0;
  for (const Box& box : boxes) {
    all.extend(box);
    size = std::max(size, box.diagonal().norm());
    height = std::max(height, box.sizes().z());
  }
  size_ = size;
  follows_ =
      body_ >= 0 || follow == "always" || (follow == "auto" && (may_leave || all.diagonal().norm() > kTravel * size));
  if (body_ >= 0) return;

  // the path of the robot's centre: the camera rests as long as the robot stays in the dead zone, and stays level where
  // the motion does
  dead_zone_ = kDeadZone * size;
  const bool level = !live && all.sizes().z() <= kLevel * height;
  Vector3d center = boxes.front().center();
  if (level) center.z() = all.center().z();
  for (const Box& box : boxes) {
    Vector3d away = box.center() - center;
    if (level) away.z() = 0;
    if (away.norm() > dead_zone_) center += away * (1 - dead_zone_ / away.norm());
    path_.push_back(center);
  }
}

Vector3d Framing::LookAt(int knot) const {
  if (!follows_ || path_.empty()) return Eigen::Map<const Vector3d>(camera_.lookat);
  // between two samples of the path
  const double at = static_cast<double>(knot) / stride_;
  const int i = std::min(static_cast<int>(at), static_cast<int>(path_.size()) - 1);
  const int next = std::min(i + 1, static_cast<int>(path_.size()) - 1);
  return path_[i] + (at - i) * (path_[next] - path_[i]) * (next > i);
}

void Framing::Follow(const mjData* data, Vector3d* look_at) const {
  if (!follows_) return;
  const Vector3d center =
      body_ >= 0 ? Vector3d(Eigen::Map<const Vector3d>(data->xpos + 3 * body_)) : RobotBox(data).center();
  const Vector3d away = center + offset_ - *look_at;
  if (away.norm() > dead_zone_) *look_at += away * (1 - dead_zone_ / away.norm());
}

}  // namespace costate::viewer
