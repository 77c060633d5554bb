#include "viewer/offscreen.h"

#include <costate/state.h>
#include <gtest/gtest.h>

#include "support/engine_test.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "viewer/framing.h"
#include "viewer/scenes.h"

namespace costate::viewer {
namespace {

using OffscreenTest = support::EngineTest;

PictureOptions Small() {
  PictureOptions options;
  options.width = 320;
  options.height = 240;
  return options;
}

// the robot at a moment: enough of the picture, all of it inside
void ExpectWellFramed(const ViewSource& source, OffscreenRenderer* renderer, double time,
                      const PictureOptions& options) {
  renderer->Render(time);
  const Coverage robot = RobotCoverage(source.model, renderer->RenderGeoms(), options.width);
  const int width = robot.right - robot.left + 1, height = robot.bottom - robot.top + 1;
  EXPECT_GT(robot.pixels, options.width * options.height / 250) << source.title << " at " << time;
  EXPECT_TRUE(width > options.width / 5 || height > options.height / 5)
      << source.title << ": " << width << "x" << height;
  EXPECT_TRUE(robot.left > 0 && robot.top > 0 && robot.right < options.width - 1 && robot.bottom < options.height - 1)
      << source.title << " at " << time << " is cut off: x " << robot.left << " … " << robot.right << ", y "
      << robot.top << " … " << robot.bottom;
}

TEST_F(OffscreenTest, EveryModelOfOursFillsThePictureAndIsWhole) {
  for (const char* name :
       {"acrobot", "arm", "box_push", "cartpole", "hopper", "humanoid", "pendulum", "quadrotor", "quadruped"}) {
    const ModelPtr model = LoadModel(std::string(COSTATE_MODELS) + "/" + name + "/" + name + ".xml");
    const ViewSource source = Simulate(FromModel(model.get(), "", name), 0.3);
    const PictureOptions options = Small();
    OffscreenRenderer renderer(source, options);
    for (double time : {0.0, 0.15, 0.3}) ExpectWellFramed(source, &renderer, time, options);
  }
}

TEST_F(OffscreenTest, TheSizeOfARobotDoesNotMatter) {
  // lengths scaled from a millimetre to a kilometre
  for (double scale : {1e-3, 1.0, 1e3}) {
    const std::string s = std::to_string(scale), half = std::to_string(0.4 * scale),
                      thin = std::to_string(0.05 * scale);
    const ModelPtr model =
        LoadModelFromString("<mujoco><option gravity='0 0 0'/><worldbody><body><freejoint/><geom type='box' size='" +
                            s + " " + half + " " + half + "'/><geom type='capsule' size='" + thin +
                            "' fromto='0 0 0 0 0 " + s + "'/></body></worldbody></mujoco>");
    const ViewSource source = Simulate(FromModel(model.get(), "", "scaled " + s), 0);
    OffscreenRenderer renderer(source, Small());
    ExpectWellFramed(source, &renderer, 0, Small());
  }
}

TEST_F(OffscreenTest, AFloorOfAKilometreDoesNotHideASmallRobot) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><worldbody>
      <geom type="box" size="500 500 .1" pos="0 0 -.1"/>
      <body pos="100 0 .05"><freejoint/><geom type="box" size=".1 .05 .03"/></body>
    </worldbody></mujoco>)");
  const ViewSource source = Simulate(FromModel(model.get(), "", "huge floor"), 0.2);
  OffscreenRenderer renderer(source, Small());
  ExpectWellFramed(source, &renderer, 0.2, Small());
}

// start, path and goal in one picture, unless the robot would be a speck in it
TEST_F(OffscreenTest, TheCameraRestsWhereTheWayToAGoalFitsAPicture) {
  const ModelPtr model = LoadModelFromString(kCar);
  ViewSource source = Simulate(FromModel(model.get(), "go", "car"), 1);
  const mjvOption option = VisibleOption(model.get());
  ASSERT_TRUE(Framing(source, option, {}, 1).follows());
  source.x_goal = source.trajectory.X.col(source.trajectory.N());
  const Framing rests(source, option, {}, 1);
  EXPECT_FALSE(rests.follows());
  CameraOptions never;
  never.follow = "never";
  EXPECT_EQ(rests.camera().distance, Framing(source, option, never, 1).camera().distance);
  source.x_goal[0] += 30;  // too far away
  EXPECT_TRUE(Framing(source, option, {}, 1).follows());
}

// where it follows, a goal that is near is in the picture
TEST_F(OffscreenTest, TheCameraThatFollowsMakesRoomForANearGoal) {
  const ModelPtr model = LoadModelFromString(kCar);
  ViewSource source = Simulate(FromModel(model.get(), "go", "car"), 1);
  const mjvOption option = VisibleOption(model.get());
  CameraOptions always;
  always.follow = "always";
  source.x_goal = source.trajectory.X.col(source.trajectory.N());
  const mjvCamera alone = Framing(source, option, always, 1).camera();
  source.x_goal[2] += 0.4;
  const mjvCamera both = Framing(source, option, always, 1).camera();
  EXPECT_GT(both.lookat[2], alone.lookat[2] + 0.1) << "between the two";
  EXPECT_LT(both.lookat[2], alone.lookat[2] + 0.3);
  EXPECT_LT(both.distance, 1.6 * alone.distance);
  source.x_goal[0] += 30;  // too far away
  EXPECT_LT(Framing(source, option, always, 1).camera().lookat[2], alone.lookat[2] + 0.05);
}

// a mechanism that turns over beside its way does not take the camera up and down
TEST_F(OffscreenTest, TheCameraThatFollowsStaysLevelWhereTheMotionDoes) {
  const ModelPtr model = LoadModelFromString(R"(<mujoco><worldbody><body pos="0 0 1">
    <joint type="slide" axis="1 0 0"/><geom type="box" size=".1 .1 .05"/>
    <body><joint name="pole" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 -.5 0 0 0"/></body>
    </body></worldbody></mujoco>)");
  ViewSource source = FromModel(model.get(), "", "cart");
  source.live = false;
  const int N = 40;
  source.trajectory.X.setZero(4, N + 1);
  for (int t = 0; t <= N; ++t) source.trajectory.X.col(t).head(2) << 0.25 * t, 2 * mjPI * t / N;
  source.trajectory.U.setZero(0, N);
  source.trajectory.time = VectorXd::LinSpaced(N + 1, 0, 1);
  const Framing framing(source, VisibleOption(model.get()), {}, 1);
  ASSERT_TRUE(framing.follows());
  double low = 1e9, high = -1e9;
  for (int t = 0; t <= N; ++t) {
    low = std::min(low, framing.LookAt(t).z());
    high = std::max(high, framing.LookAt(t).z());
  }
  EXPECT_LT(high - low, 1e-12);
  EXPECT_GT(framing.LookAt(N).x() - framing.LookAt(0).x(), 5);
}

TEST_F(OffscreenTest, TheCameraFollowsARobotThatTravels) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "go", "car"), 1);
  ASSERT_GT((source.trajectory.X.col(100) - source.trajectory.X.col(0)).head(2).norm(), 3);
  OffscreenRenderer renderer(source, Small());
  for (double time : {0.0, 0.35, 0.7, 1.0}) ExpectWellFramed(source, &renderer, time, Small());
}

// a ball in a maze is seen in its maze
TEST_F(OffscreenTest, TheCameraStaysWhereJointsHaveLimits) {
  for (const bool limited : {true, false}) {
    const ModelPtr model =
        LoadModelFromString(std::string(R"(<mujoco><worldbody><body>
      <joint type="slide" axis="1 0 0" range="-.3 .3" limited=")") +
                            (limited ? "true" : "false") + R"("/><geom size=".01"/></body></worldbody></mujoco>)");
    ViewSource source = FromModel(model.get(), "", "ball");
    source.live = false;
    source.trajectory.X = MatrixXd::Zero(2, 11);
    source.trajectory.X.row(0) = VectorXd::LinSpaced(11, -0.2, 0.2);
    source.trajectory.U.setZero(0, 10);
    source.trajectory.time = VectorXd::LinSpaced(11, 0, 1);
    EXPECT_EQ(Framing(source, VisibleOption(model.get()), {}, 1).follows(), !limited);
  }
}

TEST_F(OffscreenTest, ACameraThatMayNotFollowShowsTheWholeWay) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "go", "car"), 1);
  PictureOptions options = Small();
  options.camera.follow = "never";
  OffscreenRenderer renderer(source, options);
  renderer.Render(0);
  const Coverage start = RobotCoverage(model.get(), renderer.RenderGeoms(), options.width);
  renderer.Render(1);
  const Coverage end = RobotCoverage(model.get(), renderer.RenderGeoms(), options.width);
  EXPECT_GT(start.pixels, 20);
  EXPECT_GT(end.pixels, 20);
  EXPECT_GT(std::abs(start.left - end.left), options.width / 3);
}

// a pendulum with a motor, and a ball that nothing holds: gymnasium's hand has a second cube
constexpr char kDropped[] = R"(
  <mujoco><worldbody>
    <body pos="0 0 1"><joint name="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .4 0 -.3" size=".03"/>
      <body name="end" pos=".4 0 -.3"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".03"/></body></body>
    <body name="ball" pos=".2 .4 .9"><freejoint/><geom size=".05" contype="0" conaffinity="0"/></body>
  </worldbody><actuator><motor joint="hinge"/></actuator></mujoco>)";

TEST_F(OffscreenTest, WhatFallsOutOfTheSceneDoesNotMoveTheCamera) {
  const ModelPtr model = LoadModelFromString(kDropped);
  const ViewSource source = Simulate(FromModel(model.get(), "", "dropped"), 1.5);
  ASSERT_LT(source.trajectory.X(4, 150), -9);
  OffscreenRenderer renderer(source, Small());
  for (double time : {0.9, 1.5}) ExpectWellFramed(source, &renderer, time, Small());

  // unless it shall be there
  ViewSource meant = source;
  meant.goal_places = {source.trajectory.X.col(150).segment<3>(2)};
  meant.goal_bodies = {mj_name2id(model.get(), mjOBJ_BODY, "ball")};
  const double near = Framing(source, VisibleOption(model.get()), {}, 1).camera().distance;
  EXPECT_GT(Framing(meant, VisibleOption(model.get()), {}, 1).camera().distance, 5 * near);
}

TEST_F(OffscreenTest, ABodyThatIsFollowedByNameIsInTheMiddle) {
  const ModelPtr model = LoadModelFromString(kDropped);
  const ViewSource source = Simulate(FromModel(model.get(), "", "dropped"), 1.5);
  CameraOptions camera;
  camera.follow = "end";
  const Framing framing(source, VisibleOption(model.get()), camera, 1);
  const DataPtr data = MakeData(model.get());
  for (int t : {0, 50, 150}) {
    SetState(model.get(), data.get(), source.trajectory.X.col(t));
    mj_kinematics(model.get(), data.get());
    const Eigen::Map<const Eigen::Vector3d> end(data->xpos + 3 * mj_name2id(model.get(), mjOBJ_BODY, "end"));
    EXPECT_LT((framing.LookAt(t) - end).norm(), 1e-9) << t;
  }
  PictureOptions options = Small();
  options.camera = camera;
  OffscreenRenderer renderer(source, options);
  for (double time : {0.9, 1.5}) ExpectWellFramed(source, &renderer, time, options);
}

TEST_F(OffscreenTest, ARobotInAHiddenGroupIsShown) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><worldbody><body><joint axis="0 1 0"/><geom type="box" size=".2 .1 .1" group="4"/></body></worldbody></mujoco>)");
  const ViewSource source = Simulate(FromModel(model.get(), "", "hidden"), 0);
  OffscreenRenderer renderer(source, Small());
  ExpectWellFramed(source, &renderer, 0, Small());
}

TEST_F(OffscreenTest, ARobotWithoutGeomsIsShownByItsInertia) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><worldbody><body pos="0 0 1"><joint axis="0 1 0"/>
      <inertial pos=".2 0 -.2" mass="1" diaginertia=".01 .02 .01"/></body></worldbody></mujoco>)");
  const ViewSource source = Simulate(FromModel(model.get(), "", "inertial"), 0);
  PictureOptions options = Small();
  options.text = false;
  OffscreenRenderer renderer(source, options);
  const Image with = renderer.Render(0);

  // against the same without anything
  const ModelPtr nothing = LoadModelFromString("<mujoco><worldbody/></mujoco>");
  const ViewSource empty = Simulate(FromModel(nothing.get(), "", "nothing"), 0);
  options.camera.azimuth = 90;
  options.camera.elevation = -8;
  OffscreenRenderer other(empty, options);
  EXPECT_GT(DifferentPixels(with, other.Render(0)), 320 * 240 / 50);
}

TEST_F(OffscreenTest, AModelWithoutLightOrSkyIsNotBlack) {
  const ModelPtr model = LoadModelFromString(R"(
    <mujoco><visual><headlight active="0"/></visual><worldbody><body><joint axis="0 1 0"/>
      <geom type="box" size=".2 .1 .1" rgba="1 1 1 1"/></body></worldbody></mujoco>)");
  const ViewSource source = Simulate(FromModel(model.get(), "", "dark"), 0);
  PictureOptions options = Small();
  options.text = false;
  OffscreenRenderer renderer(source, options);
  const Image image = renderer.Render(0);
  const std::vector<int> geoms = renderer.RenderGeoms();
  double box = 0, sky = 0;
  int n_box = 0, n_sky = 0;
  for (std::size_t i = 0; i < geoms.size(); ++i) {
    const double bright = (image.rgb[3 * i] + image.rgb[3 * i + 1] + image.rgb[3 * i + 2]) / 3.0;
    (geoms[i] >= 0 ? box : sky) += bright;
    ++(geoms[i] >= 0 ? n_box : n_sky);
  }
  EXPECT_GT(box / n_box, 60);
  EXPECT_GT(sky / n_sky, 60);
}

TEST_F(OffscreenTest, PicturesAtTwoKnotsDifferAndAtTheSameAreEqual) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0.4);
  OffscreenRenderer renderer(source, Small());
  const Image first = renderer.Render(0), last = renderer.Render(0.4), again = renderer.Render(0);
  EXPECT_GT(DifferentPixels(first, last), 500);
  EXPECT_EQ(first.rgb, again.rgb);
}

TEST_F(OffscreenTest, TheGhostStandsAtTheGoalAndFadesWhenItIsReached) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0);
  source.x_goal = source.trajectory.X.col(0);
  source.x_goal[0] = 1.5;
  PictureOptions options = Small();
  options.text = false;
  const Image with = OffscreenRenderer(source, options).Render(0);
  options.ghost = false;
  const Image without = OffscreenRenderer(source, options).Render(0);
  EXPECT_GT(DifferentPixels(with, without), 300);

  // at the goal there is nothing to see of it
  source.x_goal[0] = 0;
  const Image none = OffscreenRenderer(source, options).Render(0);
  options.ghost = true;
  EXPECT_LT(DifferentPixels(OffscreenRenderer(source, options).Render(0), none), 20);
}

// a dot where a part shall be; what is open is where the motion ends
TEST_F(OffscreenTest, PlacesToReachAreDots) {
  const support::TemporaryFolder folder;
  folder.Write("pendulum.xml", kPendulum);
  const Task task = MakeReachTask(folder.File("pendulum.xml"), {.goals = {"geom:rod=0.3,_,0.9"}, .time = 0.2});
  const ViewSource source = FromTask(task, "pendulum");
  ASSERT_EQ(source.goal_places.size(), 1u);
  const Eigen::Index N = source.trajectory.S.cols() - 1;
  EXPECT_EQ(source.goal_places[0], Eigen::Vector3d(0.3, source.trajectory.S(task.user_sensors + 1, N), 0.9));
  PictureOptions options = Small();
  options.text = false;
  const Image with = OffscreenRenderer(source, options).Render(0);
  options.ghost = false;
  EXPECT_GT(DifferentPixels(with, OffscreenRenderer(source, options).Render(0)), 20);
}

TEST_F(OffscreenTest, ContactForcesAreDrawnOnRequest) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "", "car"), 0.3);
  PictureOptions options = Small();
  const Image plain = OffscreenRenderer(source, options).Render(0.3);
  options.contact_points = options.contact_forces = true;
  EXPECT_GT(DifferentPixels(OffscreenRenderer(source, options).Render(0.3), plain), 100);
}

// five frames of this size
FilmOptions Film(int width, int height) {
  FilmOptions options;
  options.frame = Small();
  options.frame.width = width;
  options.frame.height = height;
  options.frames = 5;
  return options;
}

TEST_F(OffscreenTest, AFilmHasItsFramesSideBySide) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0.5);
  const Image film = RenderFilm(source, Film(100, 80));
  ASSERT_EQ(film.height, 80);
  ASSERT_EQ(film.width, 5 * 100 + 4 * 4);

  // white between them, and each unlike the one before
  for (int i = 0; i < 5; ++i) {
    const int left = i * 104;
    if (i < 4) {
      EXPECT_EQ(film.rgb[3 * (40 * film.width + left + 101)], 255);
    }
    if (i == 0) continue;
    int different = 0;
    for (int y = 0; y < 80; ++y) {
      for (int x = 0; x < 100; ++x) {
        different +=
            std::abs(film.rgb[3 * (y * film.width + left + x)] - film.rgb[3 * (y * film.width + left - 104 + x)]) > 8;
      }
    }
    EXPECT_GT(different, 50) << "frame " << i;
  }
}

TEST_F(OffscreenTest, AFilmOfManyFramesGoesOnInRows) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0.5);
  FilmOptions options = Film(3000, 80);
  int drawn = 0;
  options.drawn = [&](int frames) { EXPECT_EQ(frames, ++drawn); };
  const Image film = RenderFilm(source, options);
  EXPECT_EQ(drawn, 5);
  ASSERT_EQ(film.width, 2 * 3000 + 4);
  ASSERT_EQ(film.height, 3 * 80 + 2 * 4);
  const auto pixel = [&](int x, int y) { return film.rgb[3 * (static_cast<std::size_t>(y) * film.width + x)]; };
  EXPECT_EQ(pixel(3002, 40), 255);  // between two, between rows, and where none is left
  EXPECT_EQ(pixel(100, 82), 255);
  EXPECT_EQ(pixel(4000, 200), 255);
  EXPECT_LT(pixel(100, 200), 255);
}

TEST_F(OffscreenTest, ACameraOfTheModelIsFoundByNameAndByNumber) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "", "car"), 0);
  PictureOptions options = Small();
  options.camera.camera = "above";
  const Image above = OffscreenRenderer(source, options).Render(0);
  options.camera.camera = "0";
  EXPECT_EQ(OffscreenRenderer(source, options).Render(0).rgb, above.rgb);
  options.camera.camera = "side";
  EXPECT_GT(DifferentPixels(OffscreenRenderer(source, options).Render(0), above), 1000);
}

TEST_F(OffscreenTest, WrongOptionsAreNamed) {
  const ModelPtr model = LoadModelFromString(kCar);
  const ViewSource source = Simulate(FromModel(model.get(), "", "car"), 0);
  PictureOptions options = Small();
  options.camera.camera = "abobe";
  EXPECT_ERROR(OffscreenRenderer(source, options), ErrorCode::kInvalidArgument, "no camera 'abobe'",
               "did you mean 'above'?");
  options = Small();
  options.camera.follow = "cab";
  EXPECT_ERROR(OffscreenRenderer(source, options), ErrorCode::kInvalidArgument, "no body 'cab'", "'car'");
  options = Small();
  options.width = 100000;
  EXPECT_ERROR(OffscreenRenderer(source, options), ErrorCode::kInvalidArgument, "100000x240");
  options.width = 0;
  EXPECT_ERROR(OffscreenRenderer(source, options), ErrorCode::kInvalidArgument, "0x240");
  FilmOptions film;
  film.frames = 0;
  EXPECT_ERROR(RenderFilm(source, film), ErrorCode::kInvalidArgument, "0 frames");
}

TEST_F(OffscreenTest, SaysWhichOpenGlItFound) {
  const ModelPtr model = LoadModelFromString(kPendulum);
  const ViewSource source = Simulate(FromModel(model.get(), "", "pendulum"), 0.2);
  OffscreenRenderer renderer(source, Small());
  printf("drawn by %s\n", renderer.backend().c_str());
  EXPECT_FALSE(renderer.backend().empty());
  ExpectWellFramed(source, &renderer, 0.2, Small());
}

// each way to OpenGL in a process of its own, because the engine chooses once a process
support::ProcessResult DrawAlone(const std::map<std::string, std::string>& environment) {
  support::ProcessOptions options;
  options.environment = environment;
  options.timeout = 200;
  return support::RunProcess({"/proc/self/exe", "--gtest_filter=OffscreenTest.SaysWhichOpenGlItFound"}, options);
}

constexpr char kNoVendor[] = "__EGL_VENDOR_LIBRARY_FILENAMES";  // libglvnd finds no driver behind EGL

TEST(OffscreenBackend, EglAndOsMesaBothWork) {
  const support::ProcessResult egl = DrawAlone({{"MUJOCO_GL", "egl"}}), osmesa = DrawAlone({{"MUJOCO_GL", "osmesa"}});
  EXPECT_EQ(egl.exit_code, 0) << egl.out << egl.err;
  EXPECT_EQ(osmesa.exit_code, 0) << osmesa.out << osmesa.err;
  EXPECT_NE(egl.out.find("drawn by EGL"), std::string::npos) << egl.out;
  EXPECT_NE(osmesa.out.find("drawn by OSMesa"), std::string::npos) << osmesa.out;
}

TEST(OffscreenBackend, OsMesaStepsInWhereEglFindsNoDriver) {
  const support::ProcessResult result = DrawAlone({{"MUJOCO_GL", ""}, {kNoVendor, "/nonexistent"}});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("drawn by OSMesa"), std::string::npos) << result.out;
}

TEST(OffscreenBackend, WithoutAnyOpenGlTheErrorNamesWhatWasTriedAndThePackages) {
  const support::ProcessResult result = DrawAlone({{"MUJOCO_GL", "egl"}, {kNoVendor, "/nonexistent"}});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  for (const char* text : {"no OpenGL without a display", "tried EGL, surfaceless", "tried EGL, default display",
                           "MUJOCO_GL=egl", "libegl1 libgl1-mesa-dri", "libosmesa6"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << " is not in " << result.out;
  }
}

}  // namespace
}  // namespace costate::viewer
