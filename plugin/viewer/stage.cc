#include "viewer/stage.h"

#include <algorithm>
#include <cmath>

#include "core/engine_guard.h"

namespace costate::viewer {
namespace {

constexpr float kGhostColor[3] = {0.30f, 0.85f, 0.45f};
constexpr float kGhostTint = 0.75f;  // share of the ghost's own colour, the rest is the robot's
constexpr float kGhostAlpha = 0.35f;
constexpr double kPushLength = 0.3, kPushWidth = 0.015;  // of the model's extent
constexpr float kPlaceAlpha = 0.7f;
constexpr double kPlaceRadius = 0.012;  // of a dot, in distances of the camera

// the private copy whose clipping planes, fog and plane sizes fit a camera at this distance, and that is in perspective
mjModel LocalModel(const mjModel* model, const mjvCamera& camera) {
  mjModel local = *model;
  if (camera.type != mjCAMERA_FIXED) {
    const double distance = std::max<double>(camera.distance, 1e-6);
    local.stat.extent = std::clamp<double>(model->stat.extent, distance / 4, distance * 2);
    // marks of contacts that do not hide the robot; the engine scales them by the mean size of all bodies
    const float size = static_cast<float>(distance / std::max<double>(model->stat.meansize, 1e-9));
    local.vis.scale.contactwidth = std::min(model->vis.scale.contactwidth, 0.02f * size);
    local.vis.scale.contactheight = std::min(model->vis.scale.contactheight, 0.006f * size);
    local.vis.scale.forcewidth = std::min(model->vis.scale.forcewidth, 0.01f * size);
    if (model->vis.global.orthographic) {
      local.vis.global.orthographic = 0;
      local.vis.global.fovy = 45;
    }
  }
  return local;
}

// 0 … 1: how far the robot's part is from the ghost's, in parts of its size; the ghost fades where the goal is reached
float Distance(const mjModel* model, const mjData* ghost, const mjData* robot, const mjvGeom& geom) {
  if (geom.objtype != mjOBJ_GEOM) return 1;
  using Rotation = Eigen::Map<const Eigen::Matrix<double, 9, 1>>;
  const int i = geom.objid;
  const double size = std::max<double>(model->geom_rbound[i], mjMINVAL);
  const double turn = (Rotation(ghost->geom_xmat + 9 * i) - Rotation(robot->geom_xmat + 9 * i)).norm();
  const double shift = mju_dist3(ghost->geom_xpos + 3 * i, robot->geom_xpos + 3 * i);
  return static_cast<float>(std::clamp(3 * (shift / size + 0.5 * turn) - 0.1, 0.0, 1.0));
}

}  // namespace

Stage::Stage(const ViewSource& source)
    : option(VisibleOption(source.model)), model_(source.model), places_(source.goal_places) {
  mjv_defaultScene(&scene_);
  for (Eigen::Index i = 0; i < source.xfrc.cols(); ++i) {
    for (Eigen::Index body = 0; body < source.xfrc.rows() / 6; ++body)
      largest_push_ = std::max(largest_push_, source.xfrc.col(i).segment<3>(6 * body).norm());
  }
  if (largest_push_ > 0) option.flags[mjVIS_PERTFORCE] = 0;  // drawn here, so that they are seen whatever their size
  EngineGuard guard;
  const int elements =
      2 * model_->ngeom + model_->nsite + model_->nbody + model_->njnt + model_->nwrap + model_->nlight;
  mjv_makeScene(model_, &scene_, 5000 + 4 * elements);

  // the ghost stands still: its place is computed once
  if (source.x_goal.size() == Dims(model_).nx && source.x_goal.allFinite()) {
    ghost_ = MakeData(model_);
    SetContext(model_, ghost_.get(), source.context);
    SetState(model_, ghost_.get(), source.x_goal);
    mj_kinematics(model_, ghost_.get());
    mj_comPos(model_, ghost_.get());
    mj_camlight(model_, ghost_.get());
  }
}

Stage::~Stage() { mjv_freeScene(&scene_); }

void Stage::Update(mjData* data, const mjvCamera& camera) {
  const mjModel local = LocalModel(model_, camera);
  mjvCamera cam = camera;
  mjv_updateScene(&local, data, &option, nullptr, &cam, mjCAT_ALL, &scene_);
  if (ghost_ && show_ghost) AddGhost(&local, data);
  if (show_ghost) AddPlaces(kPlaceRadius * (camera.type == mjCAMERA_FIXED ? 2 * model_->stat.extent : camera.distance));
  if (largest_push_ > 0) AddPushes(data);
  AdjustLights(&local, camera);
}

void Stage::AddGhost(const mjModel* model, const mjData* data) {
  // its geoms only; skins and flexes have one shape a scene, the robot's
  mjvOption plain = option;
  std::fill(std::begin(plain.flags), std::end(plain.flags), 0);
  std::fill(std::begin(plain.sitegroup), std::end(plain.sitegroup), 0);
  plain.flags[mjVIS_TEXTURE] = 1;
  plain.flags[mjVIS_INERTIA] = option.flags[mjVIS_INERTIA];
  plain.label = mjLABEL_NONE;
  plain.frame = mjFRAME_NONE;
  const int first = scene_.ngeom;
  mjv_addGeoms(model, ghost_.get(), &plain, nullptr, mjCAT_DYNAMIC, &scene_);
  for (int i = first; i < scene_.ngeom; ++i) {
    mjvGeom& geom = scene_.geoms[i];
    for (int k = 0; k < 3; ++k) geom.rgba[k] += kGhostTint * (kGhostColor[k] - geom.rgba[k]);
    geom.rgba[3] *= kGhostAlpha * Distance(model, ghost_.get(), data, geom);
    geom.matid = geom.texid = -1;
    geom.emission = std::max(geom.emission, 0.3f);
    geom.reflectance = 0;
    geom.castshadow = 0;
    geom.segid = -1;
  }
}

// an arrow that ends where each push acts, of the largest as long as a third of the model
void Stage::AddPushes(const mjData* data) {
  const double length = kPushLength * model_->stat.extent / largest_push_, width = kPushWidth * model_->stat.extent;
  const float rgba[4] = {1, 0.3f, 0.2f, 1};
  for (int body = 1; body < model_->nbody; ++body) {
    const Eigen::Vector3d force(data->xfrc_applied + 6 * body), to(data->xipos + 3 * body);
    if (force.isZero(0) || scene_.ngeom >= scene_.maxgeom) continue;
    const Eigen::Vector3d from = to - length * force;
    mjvGeom& geom = scene_.geoms[scene_.ngeom++];
    mjv_initGeom(&geom, mjGEOM_ARROW, nullptr, nullptr, nullptr, rgba);
    mjv_connector(&geom, mjGEOM_ARROW, width, from.data(), to.data());
    geom.size[2] *= 2;  // the engine's arrows are drawn half as long as their connector
    geom.category = mjCAT_DECOR;
  }
}

void Stage::AddPlaces(double radius) {
  const mjtNum size[3] = {radius, radius, radius};
  const float rgba[4] = {kGhostColor[0], kGhostColor[1], kGhostColor[2], kPlaceAlpha};
  for (const Eigen::Vector3d& place : places_) {
    if (scene_.ngeom >= scene_.maxgeom) return;
    mjvGeom& geom = scene_.geoms[scene_.ngeom++];
    mjv_initGeom(&geom, mjGEOM_SPHERE, size, place.data(), nullptr, rgba);
    geom.category = mjCAT_DECOR;
    geom.transparent = 1;
    geom.emission = 0.3f;
    geom.castshadow = 0;
    geom.segid = -1;
  }
}

void Stage::AdjustLights(const mjModel* model, const mjvCamera& camera) {
  // the engine's map of a directional light's shadow is centred on the light: bring it to where the camera looks
  const double distance = camera.type == mjCAMERA_FIXED ? 2 * model->stat.extent : camera.distance;
  for (int i = 0; i < scene_.nlight; ++i) {
    mjvLight& light = scene_.lights[i];
    if (light.headlight || light.type != mjLIGHT_DIRECTIONAL || camera.type == mjCAMERA_FIXED) continue;
    for (int k = 0; k < 3; ++k) light.pos[k] = static_cast<float>(camera.lookat[k] - 2 * distance * light.dir[k]);
  }
  if (model->nlight > 0 || scene_.nlight >= mjMAXLIGHT) return;

  // no light of its own: one from above, over the viewer's left shoulder; and a headlight if that is off too
  if (scene_.nlight == 0) {
    mjvLight& head = scene_.lights[scene_.nlight++];
    head = mjvLight{};
    head.id = head.texid = -1;
    head.headlight = 1;
    head.type = mjLIGHT_DIRECTIONAL;
    const mjvGLCamera eye = mjv_averageCamera(scene_.camera, scene_.camera + 1);
    std::copy(eye.pos, eye.pos + 3, head.pos);
    std::copy(eye.forward, eye.forward + 3, head.dir);
    for (int k = 0; k < 3; ++k) head.ambient[k] = 0.15f, head.diffuse[k] = 0.35f, head.specular[k] = 0.1f;
  }
  mjvLight& sun = scene_.lights[scene_.nlight++];
  sun = mjvLight{};
  sun.id = sun.texid = -1;
  sun.type = mjLIGHT_DIRECTIONAL;
  sun.castshadow = 1;
  sun.range = 10;
  const double azimuth = (camera.azimuth - 40) * mjPI / 180;
  const double dir[3] = {0.45 * std::cos(azimuth), 0.45 * std::sin(azimuth), -0.893};
  for (int k = 0; k < 3; ++k) {
    sun.dir[k] = static_cast<float>(dir[k]);
    sun.pos[k] = static_cast<float>((camera.type == mjCAMERA_FIXED ? model->stat.center[k] : camera.lookat[k]) -
                                    2 * distance * dir[k]);
    sun.ambient[k] = 0.05f;
    sun.diffuse[k] = 0.5f;
    sun.specular[k] = 0.15f;
  }
}

}  // namespace costate::viewer
