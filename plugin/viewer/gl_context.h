// An OpenGL context without a display: through EGL, else through OSMesa, whichever works on this machine.
#ifndef COSTATE_PLUGIN_VIEWER_GL_CONTEXT_H_
#define COSTATE_PLUGIN_VIEWER_GL_CONTEXT_H_

#include <memory>
#include <string>

namespace costate::viewer {

/// Current on the thread that made it as long as it lives. Both libraries are opened at run time, so that the program
/// starts on machines that have neither.
class GlContext {
 public:
  virtual ~GlContext() = default;

  /// "EGL, device 0", "OSMesa" …
  virtual std::string name() const = 0;
};

/// Tries, in this order: EGL on each device, EGL without a surface's platform (Mesa), EGL's default display, OSMesa.
/// The environment variable MUJOCO_GL = egl or osmesa, which MuJoCo's own programs read, restricts the choice.
/// @throws Error{kUnsupported} that names everything tried, why it failed, and the packages that help.
std::unique_ptr<GlContext> MakeOffscreenContext();

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_GL_CONTEXT_H_
