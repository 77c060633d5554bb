// The window: play, scrub and look around a motion.
#ifndef COSTATE_PLUGIN_VIEWER_VIEWER_H_
#define COSTATE_PLUGIN_VIEWER_VIEWER_H_

#include <functional>
#include <memory>

#include "viewer/framing.h"
#include "viewer/picture.h"

namespace costate::viewer {

struct ViewerOptions {
  int width = 1280, height = 720;
  CameraOptions camera;
  bool play = false;                                         ///< start playing at once
  std::function<bool()> interrupted;                         ///< asked between pictures; true closes the window
  std::function<void(int, const Eigen::Vector3d&)> moved{};  ///< a goal's dot is dragged there; without it none can be
};

/// What the window shows at this moment.
struct ViewerState {
  double time = 0;  ///< [s] of the motion
  int knot = 0;
  bool playing = false;
  double speed = 1;  ///< seconds of motion a second
  bool help = false, info = true, plots = false;
  bool ghost = false, contact_points = false, contact_forces = false;
  int dragged = -1;  ///< goal that the mouse has hold of
  int camera = -1;   ///< of the model; -1: free
};

/// A glfw window with the engine's own renderer. One at a time, on the main thread.
class Viewer {
 public:
  /// @throws Error{kUnsupported} when no window can be opened, with glfw's reason.
  Viewer(const ViewSource& source, const ViewerOptions& options);
  ~Viewer();
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  /// One round: events, time, picture. False once the window is closed or the caller has interrupted.
  bool Frame();

  /// The next state of a source that is fed; shown by Frame where the window plays.
  void Feed(const mjData* robot);

  /// Where a place of the world is in the window, in glfw's coordinates; not finite behind the camera.
  Eigen::Vector2d InWindow(const Eigen::Vector3d& place) const;

  /// Rounds until the end.
  void Run();

  const ViewerState& state() const;

  /// The pixels of the last picture.
  Image ReadPixels();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_VIEWER_H_
