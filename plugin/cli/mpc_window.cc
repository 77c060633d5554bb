#include "cli/mpc_window.h"

#ifdef COSTATE_HAVE_VIEWER

#include "cli/commands.h"
#include "core/lap.h"
#include "core/name.h"
#include "optimizer/goal_slots.h"
#include "viewer/viewer.h"

namespace costate::cli {
namespace {

constexpr double kPictures = 1.0 / 30;  // [s] between two of them

viewer::ViewerOptions Options(MpcGoals* goals) {
  viewer::ViewerOptions options;
  options.play = true;
  options.interrupted = Interrupted;
  options.moved = [goals](int i, const Eigen::Vector3d& place) { goals->Move(i, place); };
  return options;
}

}  // namespace

struct MpcWindow::Impl {
  Impl(const Task& task, const mjModel* robot, MpcGoals* goals)
      : source(viewer::FromRobot(robot, task, MovablePlaces(task), ModelName(robot))), window(source, Options(goals)) {}

  void Draw() {
    if (!open || SecondsSince(drawn) < kPictures) return;
    open = window.Frame();
    drawn = Clock::now();
  }

  viewer::ViewSource source;
  viewer::Viewer window;
  Clock::time_point drawn{};
  bool open = true;
};

MpcWindow::MpcWindow(const Task& task, const mjModel* robot, MpcGoals* goals)
    : impl_(std::make_unique<Impl>(task, robot, goals)) {
  IsOpen();
}
MpcWindow::~MpcWindow() = default;

void MpcWindow::Show(const mjData* robot) {
  impl_->window.Feed(robot);
  impl_->Draw();
}

bool MpcWindow::IsOpen() {
  impl_->Draw();
  return impl_->open;
}

}  // namespace costate::cli

#else

namespace costate::cli {

struct MpcWindow::Impl {};
MpcWindow::MpcWindow(const Task&, const mjModel*, MpcGoals*) { throw Error(ErrorCode::kUnsupported, kNoViewer); }
MpcWindow::~MpcWindow() = default;
void MpcWindow::Show(const mjData*) {}
bool MpcWindow::IsOpen() { return false; }

}  // namespace costate::cli

#endif
