// `costate view` as its user runs it.
#include <gtest/gtest.h>
#include <png.h>

#include <cstdlib>

#include "cli/program.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

// prints the number of the first free display; displays that other tests have taken are named on standard error
constexpr char kXvfb[] = "exec Xvfb -displayfd 1 -screen 0 640x400x24 -nolisten tcp -noreset 2>/dev/null";

struct Size {
  int width = 0, height = 0;
  bool operator==(const Size&) const = default;
};

Size SizeOf(const std::string& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_file(&png, path.c_str())) << path << ": " << png.message;
  const Size size{static_cast<int>(png.width), static_cast<int>(png.height)};
  png_image_free(&png);
  return size;
}

support::ProcessOptions WithoutDisplay() {
  support::ProcessOptions options;
  options.environment = {{"DISPLAY", ""}, {"WAYLAND_DISPLAY", ""}};
  return options;
}

support::ProcessResult View(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "view");
  return Costate(arguments, WithoutDisplay());
}

TEST(ViewCommand, APictureOfAModelNeedsNoDisplay) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum), picture = folder.File("a.png");
  const support::ProcessResult result = View({model, "--png", picture, "--key", "side", "--size", "320x200"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "320x200"));
  EXPECT_EQ(SizeOf(picture), (Size{320, 200}));

  // replaced only by force
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture}), "--force"));
  EXPECT_EQ(View({model, "--png", picture, "--force", "--size", "64x64", "--time", "0.2"}).exit_code, 0);
  EXPECT_EQ(SizeOf(picture), (Size{64, 64}));
}

TEST(ViewCommand, AFilmOfARunHasItsFrames) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum), run = folder.File("run"),
                    film = folder.File("film.png");
  ASSERT_EQ(Costate({"rollout", model, "--key", "side", "--time", "0.2", "--out", run, "--no-plots"}).exit_code, 0);
  const support::ProcessResult result = View({run, "--film", film, "--frames", "3", "--size", "100x80"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(SizeOf(film), (Size{3 * 100 + 2 * 4, 80}));
  EXPECT_TRUE(RefusedWith(View({run, "--film", folder.File("b.png"), "--from", "0.1", "--to", "0.05"}),
                          "--to 0.05 comes before --from 0.1"));

  // a moment of it by time and by knot
  EXPECT_EQ(View({run, "--png", folder.File("a.png"), "--time", "0.1", "--size", "64x64"}).exit_code, 0);
  EXPECT_EQ(View({run, "--png", folder.File("b.png"), "--knot", "50", "--size", "64x64"}).exit_code, 0);
  EXPECT_EQ(support::ReadFile(folder.File("a.png")), support::ReadFile(folder.File("b.png")));
  EXPECT_TRUE(RefusedWith(View({run, "--png", folder.File("c.png"), "--time", "3"}), "--time is 3 s"));
  EXPECT_TRUE(RefusedWith(View({run, "--png", folder.File("c.png"), "--knot", "101"}), "knots 0 … 100"));
  EXPECT_TRUE(RefusedWith(View({run, "--png", folder.File("c.png"), "--key", "side"}), "--key"));
  EXPECT_FALSE(std::filesystem::exists(folder.File("c.png")));
}

TEST(ViewCommand, ATaskIsShownUnderItsGuess) {
  const support::TemporaryFolder folder;
  folder.Write("pendulum.xml", kPendulum);
  const std::string task = folder.Write("swing.task.xml", R"(<task model="pendulum.xml" horizon="0.3" controlstep="5">
      <start key="side"/><guess ctrl="0.1"/><cost name="rest" qpos="all" target="0" norm="quadratic" weight="1"/></task>)");
  const support::ProcessResult result = View({task, "--png", folder.File("a.png"), "--size", "64x64"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "at 0.300 s"));
}

TEST(ViewCommand, BadInputIsRefusedByName) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum), picture = folder.File("a.png");
  EXPECT_TRUE(RefusedWith(View({folder.File("no.xml"), "--png", picture}), "no.xml"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--size", "12"}), "WIDTHxHEIGHT"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--size", "9x9"}), "9x9"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--size", "99999x64"}), "99999x64"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--camera", "front"}), "no camera 'front'"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", folder.File("a.jpg")}),
                          "a.jpg: pictures are PNG files, the name ends in '.jpg'"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--key", "sidd"}), "side"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--distance", "-1"}), "--distance"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--azimuth", "nan"}), "--azimuth is nan"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--distance", "inf"}), "--distance is inf"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--time", "-1"}), "-1 s"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", picture, "--time", "nan"}), "nan s"));
  EXPECT_TRUE(RefusedWith(View({model, "--film", picture, "--frames", "0"}), "0 frames"));
  EXPECT_TRUE(RefusedWith(View({model, "--film", picture, "--frames", "1000000"}), "million pixels"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", folder.File("no/a.png")}), "does not exist"));
  EXPECT_TRUE(RefusedWith(View({model, "--png", "/proc/a.png"}), "/proc/a.png"));
  EXPECT_FALSE(std::filesystem::exists(picture));
}

TEST(ViewCommand, WithoutDisplayTheWindowSaysWhatWorks) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum);
  EXPECT_TRUE(RefusedWith(View({model}), "--png FILE, --film FILE"));
}

TEST(ViewCommand, WithoutOpenGlThePictureIsRefusedAndThePackagesNamed) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum);
  support::ProcessOptions options = WithoutDisplay();
  options.environment["MUJOCO_GL"] = "egl";
  options.environment["__EGL_VENDOR_LIBRARY_FILENAMES"] = "/nonexistent";
  EXPECT_TRUE(RefusedWith(Costate({"view", model, "--png", folder.File("a.png")}, options), "libegl1 libgl1-mesa-dri"));
}

// an X server for windows of other processes
class ViewCommandWindow : public ::testing::Test {
 protected:
  ViewCommandWindow() : server_({"sh", "-c", kXvfb}, {}) {
    EXPECT_TRUE(server_.WaitForText("\n")) << "Xvfb does not start (Debian: apt-get install xvfb)";
    options_.environment["DISPLAY"] = ":" + server_.out().substr(0, server_.out().find('\n'));
  }
  support::ProcessResult Xdotool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "xdotool");
    return support::RunProcess(arguments, options_);
  }
  support::Process server_;
  support::ProcessOptions options_;
};

TEST_F(ViewCommandWindow, ShowsTheFileInItsTitleAndClosesByEscape) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum);
  support::Process view({COSTATE_PROGRAM, "view", model, "--play", "--size", "320x200"}, options_);
  const support::ProcessResult found = Xdotool({"search", "--sync", "--name", "pendulum.xml - costate"});
  EXPECT_EQ(found.exit_code, 0) << found.err;
  const support::ProcessResult size = Xdotool({"search", "--name", "pendulum.xml - costate", "getwindowgeometry"});
  EXPECT_TRUE(Has(size.out, "320x200"));
  Xdotool({"search", "--sync", "--onlyvisible", "--name", "costate", "windowfocus", "--sync", "key", "Escape"});
  const support::ProcessResult result = view.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST_F(ViewCommandWindow, CtrlCClosesIt) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum);
  support::Process view({COSTATE_PROGRAM, "view", model, "--size", "320x200"}, options_);
  Xdotool({"search", "--sync", "--onlyvisible", "--name", "costate"});
  view.Signal(SIGINT);
  const support::ProcessResult result = view.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
}

// whoever closes the window of a robot that moves has seen enough: the motion up to then is saved
TEST_F(ViewCommandWindow, ARobotUnderPlansIsWatched) {
  const support::TemporaryFolder folder;
  const std::string model = folder.Write("pendulum.xml", kPendulum), run = folder.File("run");
  support::Process mpc({COSTATE_PROGRAM, "mpc", model, "--goal", "side", "--view", "--out", run, "--no-plots"},
                       options_);
  Xdotool({"search", "--sync", "--onlyvisible", "--name", "costate", "windowfocus", "--sync"});
  Xdotool({"sleep", "2", "search", "--name", "costate", "key", "Escape"});
  const support::ProcessResult result = mpc.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Has(result.out, "in real time"));
  EXPECT_TRUE(Has(result.out, "saved in"));
  EXPECT_EQ(Costate({"replay", run}).exit_code, 0);
}

}  // namespace
}  // namespace costate
