// The window in which a robot is watched while plans move it, and where its goals are dragged.
#ifndef COSTATE_PLUGIN_CLI_MPC_WINDOW_H_
#define COSTATE_PLUGIN_CLI_MPC_WINDOW_H_

#include <costate/mpc.h>

#include <memory>

namespace costate::cli {

/// Why a program that was built without the viewer has none.
inline constexpr char kNoViewer[] =
    "this program was built without the viewer: glfw or EGL's headers were missing (Debian: apt-get install "
    "libglfw3-dev libegl-dev), or it was switched off by -DCOSTATE_VIEWER=OFF";

class MpcWindow {
 public:
  /// @param robot  its model.  @param goals  moved where they are dragged to.
  /// @throws Error{kUnsupported} where no window can be opened.
  MpcWindow(const Task& task, const mjModel* robot, MpcGoals* goals);
  ~MpcWindow();

  /// What the robot does now. A picture is drawn where the last one is old enough.
  void Show(const mjData* robot);

  /// Takes events, as while the first plan is made. False once the window is closed.
  bool IsOpen();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_MPC_WINDOW_H_
