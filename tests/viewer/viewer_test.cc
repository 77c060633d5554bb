// The window, as a person meets it: on an X display, by its keys and its mouse, and by what the screen shows.
#include "viewer/viewer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <memory>
#include <optional>

#include "support/engine_test.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "viewer/scenes.h"
#include "viewer/switches.h"

namespace costate::viewer {
namespace {

// prints the number of the first free display; displays that other tests have taken are named on standard error
constexpr char kXvfb[] = "exec Xvfb -displayfd 1 -screen 0 640x400x24 -nolisten tcp -noreset 2>/dev/null";

// an X server without a screen, on a display number that is free
class WindowTest : public support::EngineTest {
 protected:
  static constexpr int kWidth = 640, kHeight = 400;

  static void SetUpTestSuite() {
    const std::vector<std::string> command = {"sh", "-c", kXvfb};
    support::ProcessOptions options;
    options.timeout = 280;
    server_ = std::make_unique<support::Process>(command, options);
    ASSERT_TRUE(server_->WaitForText("\n")) << "Xvfb does not start (Debian: apt-get install xvfb)";
    const std::string display = ":" + server_->out().substr(0, server_->out().find('\n'));
    setenv("DISPLAY", display.c_str(), 1);
  }
  static void TearDownTestSuite() { server_.reset(); }

  void Open(ViewSource source, ViewerOptions options = {}) {
    source_ = std::move(source);
    options.width = kWidth;
    options.height = kHeight;
    viewer_.emplace(*source_, options);
    RunUntil([] { return false; }, 0.3);
  }
  void TearDown() override {
    viewer_.reset();
    EngineTest::TearDown();
  }

  // rounds of the window's loop until something holds; false when it does not within the time
  template <typename Predicate>
  bool RunUntil(Predicate holds, double seconds = 20) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
      if (!viewer_->Frame()) closed_ = true;
      if (holds()) return true;
      if (closed_) return false;
    }
    return false;
  }

  // real events, through the X server
  void Xdotool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "xdotool");
    const support::ProcessResult result = support::RunProcess(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err << "(Debian: apt-get install xdotool)";
  }
  void Press(const std::string& key) { Xdotool({"key", key}); }

  const ViewerState& state() const { return viewer_->state(); }

  static std::unique_ptr<support::Process> server_;
  std::optional<ViewSource> source_;
  std::optional<Viewer> viewer_;
  bool closed_ = false;
};

std::unique_ptr<support::Process> WindowTest::server_;

ViewSource Motion(const mjModel* model, double duration) {
  ViewSource source = Simulate(FromModel(model, "", "a motion"), duration);
  source.x_goal = source.trajectory.X.col(0);
  source.x_goal[0] = 1.5;
  source.cost_per_knot = source.trajectory.time;
  return source;
}

TEST_F(WindowTest, SpacePlaysAndPausesAndTheMotionBeginsAgain) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  Open(Motion(model.get(), 1.5));
  EXPECT_EQ(state().time, 0);
  EXPECT_FALSE(state().playing);
  Press("space");
  ASSERT_TRUE(RunUntil([this] { return state().time > 0.3; }));
  EXPECT_TRUE(state().playing);

  // past the end and round
  double before = 0;
  EXPECT_TRUE(RunUntil([&] { return state().time < std::exchange(before, state().time); }));
  Press("space");
  ASSERT_TRUE(RunUntil([this] { return !state().playing; }));
  const double paused = state().time;
  RunUntil([] { return false; }, 0.3);
  EXPECT_EQ(state().time, paused);
}

TEST_F(WindowTest, ArrowsHomeAndEndGoToKnots) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  Open(Motion(model.get(), 0.5));
  Press("End");
  EXPECT_TRUE(RunUntil([this] { return state().knot == 50; }));
  Press("Left");
  EXPECT_TRUE(RunUntil([this] { return state().knot == 49; }));
  Press("shift+Left");
  EXPECT_TRUE(RunUntil([this] { return state().knot == 39; }));
  Press("Right");
  EXPECT_TRUE(RunUntil([this] { return state().knot == 40; }));
  Press("Home");
  EXPECT_TRUE(RunUntil([this] { return state().knot == 0; }));
}

TEST_F(WindowTest, CommaAndPeriodGoToSwitches) {
  const ModelPtr model = LoadModelFromString(kCar);
  Open(Motion(model.get(), 0.3));
  SwitchFinder finder(*source_);
  finder.Advance(60);
  ASSERT_FALSE(finder.found().empty());
  const int first = finder.found()[0].knot, last = finder.Before(30)->knot;
  Press("period");
  EXPECT_TRUE(RunUntil([&] { return state().knot == first; }));
  Press("End");
  ASSERT_TRUE(RunUntil([&] { return state().knot == 30; }));
  Press("comma");
  EXPECT_TRUE(RunUntil([&] { return state().knot == last; }));
  Press("Home");
  ASSERT_TRUE(RunUntil([&] { return state().knot == 0; }));
  Press("comma");  // there is none
  EXPECT_FALSE(RunUntil([&] { return state().knot != 0; }, 0.2));
}

TEST_F(WindowTest, KeysToggleWhatIsDrawn) {
  const ModelPtr model = LoadModelFromString(kCar);
  Open(Motion(model.get(), 0.3));
  Press("End");  // in contact
  ASSERT_TRUE(RunUntil([this] { return state().knot == 30; }));
  const Image plain = viewer_->ReadPixels();
  struct Toggle {
    const char* key;
    bool ViewerState::*member;
  };
  for (const Toggle& toggle : {Toggle{"F1", &ViewerState::help}, Toggle{"F2", &ViewerState::info},
                               Toggle{"p", &ViewerState::plots}, Toggle{"g", &ViewerState::ghost},
                               Toggle{"c", &ViewerState::contact_points}, Toggle{"f", &ViewerState::contact_forces}}) {
    const bool before = state().*toggle.member;
    Press(toggle.key);
    ASSERT_TRUE(RunUntil([&] { return state().*toggle.member != before; })) << toggle.key;
    EXPECT_GT(DifferentPixels(viewer_->ReadPixels(), plain), 20) << toggle.key;
    Press(toggle.key);
    ASSERT_TRUE(RunUntil([&] { return state().*toggle.member == before; })) << toggle.key;
    EXPECT_EQ(DifferentPixels(viewer_->ReadPixels(), plain), 0) << toggle.key;
  }
  Press("minus");
  EXPECT_TRUE(RunUntil([this] { return state().speed == 0.5; }));
  Press("equal");
  EXPECT_TRUE(RunUntil([this] { return state().speed == 1; }));
}

TEST_F(WindowTest, TabGoesThroughTheModelsCameras) {
  const ModelPtr model = LoadModelFromString(kCar);
  Open(Motion(model.get(), 0.1));
  EXPECT_EQ(state().camera, -1);
  for (int camera : {0, 1, -1}) {
    Press("Tab");
    EXPECT_TRUE(RunUntil([&] { return state().camera == camera; })) << camera;
  }
  Press("bracketleft");
  EXPECT_TRUE(RunUntil([this] { return state().camera == 1; }));
}

TEST_F(WindowTest, TheMouseScrubsOnTheBarAndTurnsTheCameraElsewhere) {
  const ModelPtr model = LoadModelFromString(kCar);
  Open(Motion(model.get(), 1));
  Xdotool({"mousemove", "320", "391", "mousedown", "1"});
  EXPECT_TRUE(RunUntil([this] { return std::abs(state().time - 0.5) < 0.02; })) << state().time;
  Xdotool({"mousemove", "480", "391"});
  EXPECT_TRUE(RunUntil([this] { return state().time > 0.7 && state().time < 0.8; })) << state().time;
  Xdotool({"mouseup", "1"});
  RunUntil([] { return false; }, 0.2);

  const Image before = viewer_->ReadPixels();
  Xdotool({"mousemove", "300", "200", "mousedown", "1", "mousemove", "400", "220", "mouseup", "1"});
  EXPECT_TRUE(RunUntil([&] { return DifferentPixels(viewer_->ReadPixels(), before) > 1000; }));
  const double time = state().time;
  EXPECT_TRUE(time > 0.7 && time < 0.8) << time;
  const Image turned = viewer_->ReadPixels();
  Xdotool({"click", "4"});
  EXPECT_TRUE(RunUntil([&] { return DifferentPixels(viewer_->ReadPixels(), turned) > 300; }));
}

TEST_F(WindowTest, TheScreenShowsTheMotion) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  Open(Motion(model.get(), 0.5));
  const support::TemporaryFolder folder;
  auto grab = [&folder](const std::string& name) {
    const support::ProcessResult result =
        support::RunProcess({"import", "-window", "root", "-depth", "8", "rgb:" + folder.File(name)});
    EXPECT_EQ(result.exit_code, 0) << result.err << "(Debian: apt-get install imagemagick)";
    const std::string bytes = support::ReadFile(folder.File(name));
    return Image{kWidth, kHeight, std::vector<unsigned char>(bytes.begin(), bytes.end())};
  };
  const Image first = grab("first");
  ASSERT_EQ(first.rgb.size(), 3u * kWidth * kHeight);
  Press("End");
  ASSERT_TRUE(RunUntil([this] { return state().knot == 50; }));
  RunUntil([] { return false; }, 0.3);
  const Image last = grab("last");
  EXPECT_GT(DifferentPixels(first, last), 1000);

  // and what the screen shows is what the viewer drew
  EXPECT_LT(DifferentPixels(last, viewer_->ReadPixels()), kWidth * kHeight / 200);
}

TEST_F(WindowTest, ABareModelIsSimulatedOnWhilePlaying) {
  const ModelPtr model = LoadModelFromString(kCar);
  Open(FromModel(model.get(), "go", "car"));
  Press("space");
  ASSERT_TRUE(RunUntil([this] { return state().time > 0.5; }));
  Press("Home");
  ASSERT_TRUE(RunUntil([this] { return state().time == 0; }));
  EXPECT_FALSE(state().playing);
}

// a robot that moves elsewhere: what is fed is shown; a goal goes where its dot is dragged, in the plane of the picture
TEST_F(WindowTest, AFedRobotIsShownAndItsGoalDragged) {
  for (const int orthographic : {0, 1}) {
    const ModelPtr model = LoadModelFromString(kPendulum);
    model->vis.global.orthographic = orthographic;
    Task task;
    task.model = CopyModel(model.get());
    const DataPtr data = MakeData(model.get());
    task.x0 = GetState(model.get(), data.get());
    task.context = GetContext(model.get(), data.get());
    ViewSource source = FromRobot(model.get(), task, {}, "a robot");
    source.goal_places = {{0.1, 0, 0.2}};
    std::vector<Eigen::Vector3d> moves;
    ViewerOptions options;
    options.play = true;
    options.moved = [&](int goal, const Eigen::Vector3d& place) {
      EXPECT_EQ(goal, 0);
      moves.push_back(place);
    };
    Open(source, options);
    EXPECT_EQ(state().knot, 0);
    for (int i = 0; i < 5; i++) {
      mj_step(model.get(), data.get());
      viewer_->Feed(data.get());
    }
    EXPECT_TRUE(RunUntil([this] { return state().knot == 5; }));
    EXPECT_NEAR(state().time, data->time, 1e-12);

    const Eigen::Vector2d dot = viewer_->InWindow(source.goal_places[0]);
    ASSERT_TRUE(dot.allFinite());
    const auto at = [](const Eigen::Vector2d& p, int dx, int dy) {
      return std::vector<std::string>{"mousemove", std::to_string(static_cast<int>(std::lround(p[0])) + dx),
                                      std::to_string(static_cast<int>(std::lround(p[1])) + dy)};
    };
    Xdotool(at(dot, 3, 3));
    Xdotool({"mousedown", "1"});
    ASSERT_TRUE(RunUntil([this] { return state().dragged == 0; }));
    Xdotool(at(dot, 43, -27));
    ASSERT_TRUE(RunUntil([&] { return !moves.empty(); }));
    Xdotool({"mouseup", "1"});
    ASSERT_TRUE(RunUntil([this] { return state().dragged == -1; }));
    EXPECT_NEAR((viewer_->InWindow(moves.back()) - dot - Eigen::Vector2d(40, -30)).norm(), 0, 2);

    // beside it nothing is taken hold of
    const std::size_t count = moves.size();
    Xdotool(at(dot, -60, 60));
    Xdotool({"mousedown", "1"});
    RunUntil([] { return false; }, 0.2);
    EXPECT_EQ(state().dragged, -1);
    Xdotool({"mouseup", "1"});
    EXPECT_EQ(moves.size(), count);
    viewer_.reset();
  }
}

TEST_F(WindowTest, EscapeCloses) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  Open(Motion(model.get(), 0.1));
  Press("Escape");
  RunUntil([] { return false; }, 10);
  EXPECT_TRUE(closed_);
}

TEST_F(WindowTest, TheCallerCanInterrupt) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Motion(model.get(), 0.1);
  int asked = 0;
  ViewerOptions options;
  options.interrupted = [&asked] { return ++asked > 3; };
  Viewer viewer(source, options);
  viewer.Run();
  EXPECT_EQ(asked, 4);
}

TEST(WindowWithoutDisplay, TheErrorSaysWhatNeedsNone) {
  unsetenv("DISPLAY");
  unsetenv("WAYLAND_DISPLAY");
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Motion(model.get(), 0.1);
  EXPECT_ERROR(Viewer(source, ViewerOptions()), ErrorCode::kUnsupported, "DISPLAY", "--png", "--film");
}

}  // namespace
}  // namespace costate::viewer
