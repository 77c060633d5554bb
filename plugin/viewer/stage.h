// The abstract scene of one moment: the robot, the ghost of its goal, lights. No OpenGL.
#ifndef COSTATE_PLUGIN_VIEWER_STAGE_H_
#define COSTATE_PLUGIN_VIEWER_STAGE_H_

#include "viewer/framing.h"

namespace costate::viewer {

/// An mjvScene that is rebuilt for every picture. The model is read only: what has to be different for a picture
/// (clipping planes that fit the camera's distance, lights where there are none) is changed in the scene or in a
/// shallow copy.
class Stage {
 public:
  explicit Stage(const ViewSource& source);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  mjvOption option;  ///< what the engine draws beside geoms
  bool show_ghost = true;

  bool has_ghost() const { return ghost_ != nullptr || !places_.empty(); }
  mjvScene* scene() { return &scene_; }

  /// Of the goals that are shown as dots.
  const std::vector<Eigen::Vector3d>& places() const { return places_; }
  void MovePlace(int i, const Eigen::Vector3d& place) { places_[static_cast<std::size_t>(i)] = place; }

  /// @param data  at the moment to draw, after mj_forward. Not changed but for its visualization arrays.
  void Update(mjData* data, const mjvCamera& camera);

 private:
  void AddGhost(const mjModel* model, const mjData* data);
  void AddPlaces(double radius);
  void AddPushes(const mjData* data);
  void AdjustLights(const mjModel* model, const mjvCamera& camera);

  const mjModel* model_;
  DataPtr ghost_;  // at the goal; null when there is none
  std::vector<Eigen::Vector3d> places_;
  double largest_push_ = 0;  // [N] of the motion
  mjvScene scene_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_STAGE_H_
