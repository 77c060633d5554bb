// Pictures without a display: one moment, or a film strip of a whole motion.
#ifndef COSTATE_PLUGIN_VIEWER_OFFSCREEN_H_
#define COSTATE_PLUGIN_VIEWER_OFFSCREEN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/framing.h"
#include "viewer/picture.h"

namespace costate::viewer {

/// The size and content of a picture, or of one frame of a film.
struct PictureOptions {
  int width = 1280, height = 720;
  CameraOptions camera;
  bool text = true;   ///< time, cost, contacts
  bool ghost = true;  ///< of the goal
  bool contact_points = false, contact_forces = false;
};

/// Draws moments of one motion; owns an OpenGL context, which stays current on the thread that made it.
class OffscreenRenderer {
 public:
  /// @throws Error{kUnsupported} without any OpenGL, naming what was tried; Error{kInvalidArgument} for a bad size or
  /// camera.
  OffscreenRenderer(const ViewSource& source, const PictureOptions& options);
  ~OffscreenRenderer();
  OffscreenRenderer(const OffscreenRenderer&) = delete;
  OffscreenRenderer& operator=(const OffscreenRenderer&) = delete;

  /// The motion at `time`, clamped to it. @param stamp  replaces the text when not empty.
  Image Render(double time, const std::string& stamp = "");

  /// The geom that each pixel of the last picture shows, row by row from the top; -1: none (sky, ghost, decoration).
  std::vector<int> RenderGeoms();

  /// Which OpenGL it is: "EGL, device 0", "OSMesa".
  std::string backend() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct FilmOptions {
  PictureOptions frame;  ///< of one frame
  int frames = 6;
  std::optional<double> from, to;  ///< [s]; the whole motion when not given
  std::function<void(int)> drawn;  ///< told how many frames there are, after each
};

/// The motion's frames side by side, in rows where they are many, evenly spaced in time, each with its time stamp.
Image RenderFilm(const ViewSource& source, const FilmOptions& options);

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_OFFSCREEN_H_
