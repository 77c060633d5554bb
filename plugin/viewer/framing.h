// Where the camera stands so that the robot fills the picture over its whole motion, whatever the model's own
// statistics say.
#ifndef COSTATE_PLUGIN_VIEWER_FRAMING_H_
#define COSTATE_PLUGIN_VIEWER_FRAMING_H_

#include <Eigen/Core>
#include <Eigen/Geometry>
#include <optional>
#include <string>
#include <vector>

#include "viewer/motion.h"

namespace costate::viewer {

/// What the user asked for; everything has a default.
struct CameraOptions {
  std::string camera;  ///< a camera of the model, by name or number; "": the free camera
  std::optional<double> azimuth, elevation, distance;  ///< of the free camera [deg, deg, m]
  std::string follow = "auto";                         ///< "auto", "always", "never", or a body's name
};

/// Which geoms make up the robot: visible ones of bodies that can move. Empty for a model that cannot.
std::vector<int> RobotGeoms(const mjModel* model, const mjvOption& option);

/// Options under which something of the robot can be seen: groups that the default hides are shown when nothing else is
/// there, inertia boxes when the robot has no geoms at all.
mjvOption VisibleOption(const mjModel* model);

/// The free camera of a motion and how it follows.
class Framing {
 public:
  /// @param aspect  width / height of the picture.
  /// @throws Error{kInvalidArgument} for a camera or body that does not exist, with the nearest name.
  Framing(const ViewSource& shown, const mjvOption& option, const CameraOptions& camera, double aspect);

  /// The camera at the first knot.
  const mjvCamera& camera() const { return camera_; }

  /// True when the camera moves along.
  bool follows() const { return follows_; }

  /// The point that the camera looks at when the robot is at this knot (recorded motions).
  Eigen::Vector3d LookAt(int knot) const;

  /// The same for a simulation that goes on: moves `look_at` when the robot in `data` leaves the middle of the picture.
  void Follow(const mjData* data, Eigen::Vector3d* look_at) const;

 private:
  using Box = Eigen::AlignedBox3d;
  void FindDirection(const mjData* data, const CameraOptions& camera);
  void ChooseFollowing(const std::string& follow, bool live, const std::vector<Box>& boxes);
  Box RobotBox(const mjData* data) const;

  const mjModel* model_;
  std::vector<int> geoms_;
  mjvCamera camera_;
  int body_ = -1;  // followed by name
  bool follows_ = false;
  double size_ = 0;                                   // of the robot, its largest box [m]
  double dead_zone_ = 0;                              // radius in which the robot moves without the camera [m]
  Eigen::Vector3d offset_ = Eigen::Vector3d::Zero();  // from the robot's centre to the picture's
  int stride_ = 1;                                    // knots between entries of path_
  std::vector<Eigen::Vector3d> path_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_FRAMING_H_
