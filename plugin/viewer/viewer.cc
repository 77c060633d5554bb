#include "viewer/viewer.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/engine_guard.h"
#include "core/extremes.h"
#include "viewer/overlay.h"
#include "viewer/render_context.h"
#include "viewer/stage.h"
#include "viewer/switches.h"

namespace costate::viewer {
namespace {

constexpr double kMaxFrameTime = 0.25;   // [s] a slow picture never makes the motion jump further
constexpr double kIdle = 0.25;           // [s] between looks at `interrupted` while nothing happens
constexpr double kPlayWait = 1.0 / 250;  // [s] at most, between pictures of a motion
constexpr double kLook = 5e-3;           // [s] of each frame for switches that are not found yet

constexpr double kReach = 20;  // [pixels] from a goal's dot, as of the mouse that takes hold of it

const double kSpeeds[] = {1.0 / 32, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1, 2, 4, 8, 16};

const std::vector<InfoLine> kHelp = {
    {"Space", "play, pause"},
    {"Left  Right", "one knot back, on (Shift: ten)"},
    {"Home  End", "first, last knot"},
    {",  .", "switch before, next switch: contact, limit"},
    {"-  =", "slower, faster"},
    {"bar at the bottom", "click or drag: any moment"},
    {"left drag", "turn the camera; of a green dot, move the goal (mpc --view)"},
    {"right drag", "move it (Shift: horizontally)"},
    {"wheel, middle drag", "zoom"},
    {"Tab  [  ]", "next camera of the model, free camera"},
    {"A", "frame the robot again"},
    {"C  F", "contact points, contact forces"},
    {"G", "ghost of the goal"},
    {"P", "plots of cost, controls, slopes"},
    {"T J U I M H N", "transparent, joints, actuators, inertia, mass, hulls, constraints"},
    {"S W R K", "shadows, wire frame, reflection, sky"},
    {"0 ... 5", "geoms of a group"},
    {"F1  F2", "this help, numbers"},
    {"Esc", "close"},
};

std::string glfw_error;  // the last one; glfw calls back with it

// glfw as long as a window lives
class Glfw {
 public:
  Glfw() {
    glfw_error.clear();
    glfwSetErrorCallback([](int, const char* text) { glfw_error = text; });
    if (!glfwInit()) Fail("no display for a window");
  }
  ~Glfw() { glfwTerminate(); }
  Glfw(const Glfw&) = delete;
  Glfw& operator=(const Glfw&) = delete;

  [[noreturn]] static void Fail(const std::string& what) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}\nPictures need none: --png FILE, --film FILE", what,
                                                     glfw_error.empty() ? "unknown reason" : glfw_error));
  }
};

struct WindowDeleter {
  void operator()(GLFWwindow* window) const { glfwDestroyWindow(window); }
};
using WindowPtr = std::unique_ptr<GLFWwindow, WindowDeleter>;

WindowPtr OpenWindow(const ViewSource& source, const ViewerOptions& options) {
  glfwWindowHint(GLFW_SAMPLES, source.model->vis.quality.offsamples);
  const std::string title = source.title + " - costate";
  WindowPtr window(glfwCreateWindow(options.width, options.height, title.c_str(), nullptr, nullptr));
  if (!window) {
    // not every driver has multisampling
    glfwWindowHint(GLFW_SAMPLES, 0);
    window.reset(glfwCreateWindow(options.width, options.height, title.c_str(), nullptr, nullptr));
  }
  if (!window) Glfw::Fail("no window with OpenGL");
  glfwMakeContextCurrent(window.get());
  glfwSwapInterval(source.fed ? 0 : 1);
  return window;
}

int FontScale(GLFWwindow* window) {
  float x = 1, y = 1;
  glfwGetWindowContentScale(window, &x, &y);
  return std::clamp(static_cast<int>(std::lround(2 * y)) * 50, 100, 300);
}

}  // namespace

struct Viewer::Impl {
  Impl(const ViewSource& shown, const ViewerOptions& wishes)
      : options(wishes),
        source(shown),
        player(shown),
        stage(shown),
        framing(shown, stage.option, wishes.camera, static_cast<double>(wishes.width) / wishes.height),
        look_at(framing.LookAt(0)),
        camera(framing.camera()),
        cost_so_far(SumCost(shown)),
        window(OpenWindow(shown, wishes)),
        render(shown.model, FontScale(window.get())),
        plots(shown),
        switches(shown) {
    state.playing = wishes.play;
    state.ghost = stage.has_ghost();
    if (camera.type == mjCAMERA_FIXED) state.camera = camera.fixedcamid;
    glfwSetWindowUserPointer(window.get(), this);
    glfwSetKeyCallback(window.get(), [](GLFWwindow* w, int key, int, int action, int mods) {
      if (action != GLFW_RELEASE) Self(w)->OnKey(key, mods);
    });
    glfwSetMouseButtonCallback(window.get(), [](GLFWwindow* w, int button, int action, int) {
      Self(w)->OnButton(button, action == GLFW_PRESS);
    });
    glfwSetCursorPosCallback(window.get(), [](GLFWwindow* w, double x, double y) { Self(w)->OnMove(x, y); });
    glfwSetScrollCallback(window.get(),
                          [](GLFWwindow* w, double, double y) { Self(w)->MoveCamera(mjMOUSE_ZOOM, 0, -0.05 * y); });
    glfwSetFramebufferSizeCallback(window.get(), [](GLFWwindow* w, int, int) { Self(w)->changed = true; });
    glfwSetWindowRefreshCallback(window.get(), [](GLFWwindow* w) { Self(w)->changed = true; });
    last_round = glfwGetTime();
  }

  static Impl* Self(GLFWwindow* window) { return static_cast<Impl*>(glfwGetWindowUserPointer(window)); }

  // ---- time
  // ------------------------------------------------------------------------------------------------------------

  void Advance(double elapsed) {
    if (!state.playing || scrubbing) return;
    clock = source.fed ? player.end() : clock + elapsed * state.speed;

    // a recorded motion begins again, a simulation that cannot go on stops
    if (!source.live && clock > player.end()) {
      const double length = player.end() - player.start();
      clock = length > 0 ? player.start() + std::fmod(clock - player.start(), length) : player.start();
    }
    player.SetTime(clock);
    if (source.live && !player.failure().empty() && clock > player.end()) {
      clock = player.end();
      state.playing = false;
    }
    changed = true;
  }

  void GoToKnot(int knot) {
    state.playing = false;
    if (source.live && knot > player.last_knot()) player.SetTime(player.end() + player.knot_time());
    player.SetKnot(knot);
    clock = player.time();
    changed = true;
  }

  void GoToSwitch(const ModeSwitch* change) {
    if (change) GoToKnot(change->knot);
  }

  void GoToFraction(double fraction) {
    player.SetTime(player.start() + fraction * (player.end() - player.start()));
    clock = player.time();
    changed = true;
  }

  void ChangeSpeed(int step) {
    const int n = static_cast<int>(std::size(kSpeeds));
    const int i = static_cast<int>(std::find(kSpeeds, kSpeeds + n, state.speed) - kSpeeds);
    state.speed = kSpeeds[std::clamp(i + step, 0, n - 1)];
  }

  // ---- events
  // ----------------------------------------------------------------------------------------------------------

  void OnKey(int key, int mods) {
    changed = true;
    const int stride = mods & GLFW_MOD_SHIFT ? 10 : 1;
    switch (key) {
      case GLFW_KEY_ESCAPE: glfwSetWindowShouldClose(window.get(), GLFW_TRUE); return;
      case GLFW_KEY_SPACE: state.playing = !state.playing; return;
      case GLFW_KEY_LEFT:
        // from between two knots back to the one before
        GoToKnot(player.time() > player.Time(player.knot()) ? player.knot() : player.knot() - stride);
        return;
      case GLFW_KEY_RIGHT: GoToKnot(player.knot() + stride); return;
      case GLFW_KEY_HOME:
      case GLFW_KEY_BACKSPACE: GoToKnot(0); return;
      case GLFW_KEY_END: GoToKnot(player.last_knot()); return;
      case GLFW_KEY_COMMA: GoToSwitch(switches.Before(player.knot())); return;
      case GLFW_KEY_PERIOD: GoToSwitch(switches.After(player.knot())); return;
      case GLFW_KEY_MINUS:
      case GLFW_KEY_KP_SUBTRACT: ChangeSpeed(-1); return;
      case GLFW_KEY_EQUAL:
      case GLFW_KEY_KP_ADD: ChangeSpeed(1); return;
      case GLFW_KEY_TAB:
      case GLFW_KEY_RIGHT_BRACKET: NextCamera(1); return;
      case GLFW_KEY_LEFT_BRACKET: NextCamera(-1); return;
      case GLFW_KEY_A: FrameAgain(); return;
      case GLFW_KEY_G: state.ghost = stage.has_ghost() && !state.ghost; return;
      case GLFW_KEY_P: state.plots = !state.plots; return;
      case GLFW_KEY_F1: state.help = !state.help; return;
      case GLFW_KEY_F2: state.info = !state.info; return;
      default: break;
    }
    if (key >= GLFW_KEY_0 && key < GLFW_KEY_0 + mjNGROUP) {
      stage.option.geomgroup[key - GLFW_KEY_0] ^= 1;
      stage.option.sitegroup[key - GLFW_KEY_0] ^= 1;
      return;
    }

    // the engine's own table of letters
    for (int i = 0; i < mjNVISFLAG; ++i) {
      if (mjVISSTRING[i][2][0] == key && key) stage.option.flags[i] ^= 1;
    }
    for (int i = 0; i < mjNRNDFLAG; ++i) {
      if (mjRNDSTRING[i][2][0] == key && key) stage.scene()->flags[i] ^= 1;
    }
    state.contact_points = stage.option.flags[mjVIS_CONTACTPOINT];
    state.contact_forces = stage.option.flags[mjVIS_CONTACTFORCE];
  }

  void NextCamera(int step) {
    // −1 is the free camera
    const int count = source.model->ncam + 1;
    state.camera = (state.camera + 1 + step + count) % count - 1;
    camera.type = state.camera < 0 ? mjCAMERA_FREE : mjCAMERA_FIXED;
    camera.fixedcamid = state.camera;
    if (state.camera < 0 && framing.camera().type == mjCAMERA_FIXED && !freed) FrameAgain();
  }

  void FrameAgain() {
    CameraOptions automatic = options.camera;
    automatic.camera.clear();
    framing = Framing(source, stage.option, automatic, Aspect());
    camera = framing.camera();
    look_at = framing.LookAt(source.live ? 0 : player.knot());
    if (source.live) framing.Follow(player.data(), &look_at);
    Eigen::Map<Eigen::Vector3d>(camera.lookat) = look_at;
    state.camera = -1;
    freed = true;
  }

  // events give window coordinates from the top left, pictures have pixels from the bottom left
  void ToPixels(double* x, double* y) const {
    int width, height;
    glfwGetWindowSize(window.get(), &width, &height);
    const mjrRect picture = Viewport();
    *x *= static_cast<double>(picture.width) / std::max(width, 1);
    *y = picture.height - *y * picture.height / std::max(height, 1);
  }

  void OnButton(int button, bool pressed) {
    // where the event was; the cursor itself may be elsewhere by now
    double x = mouse_x, y = mouse_y;
    ToPixels(&x, &y);
    const TimeLine line(SceneViewport(), render.get());
    if (button == GLFW_MOUSE_BUTTON_LEFT && pressed && line.Contains(x, y)) {
      scrubbing = true;
      GoToFraction(line.Fraction(x));
    } else if (button == GLFW_MOUSE_BUTTON_LEFT && pressed) {
      state.dragged = GoalAt({mouse_x, mouse_y});
    }
    if (button == GLFW_MOUSE_BUTTON_LEFT && !pressed) {
      scrubbing = false;
      state.dragged = -1;
    }
  }

  // ---- goals
  // -----------------------------------------------------------------------------------------------------------

  // what the scene of the last picture is seen by
  struct Eye {
    Eigen::Vector3d pos, forward, up, right;
    double height;  // of what is seen at a distance of one; of an orthographic one, at any
    bool orthographic;
    Eigen::Vector2d middle, scale;  // of the scene in the window, and pixels a unit of height
  };
  Eye LastEye() {
    const mjvGLCamera &l = stage.scene()->camera[0], &r = stage.scene()->camera[1];
    Eye eye;
    for (int i = 0; i < 3; i++) {
      eye.pos[i] = 0.5 * (l.pos[i] + r.pos[i]);
      eye.forward[i] = l.forward[i];
      eye.up[i] = l.up[i];
    }
    eye.right = eye.forward.cross(eye.up);
    eye.orthographic = l.orthographic != 0;
    eye.height = (l.frustum_top - l.frustum_bottom) / (eye.orthographic ? 1 : l.frustum_near);
    int width, height;
    glfwGetWindowSize(window.get(), &width, &height);
    const double share = static_cast<double>(SceneViewport().width) / std::max(Viewport().width, 1);
    eye.middle = {0.5 * share * width, 0.5 * height};
    eye.scale = Eigen::Vector2d(1, -1) * height / eye.height;
    return eye;
  }

  Eigen::Vector2d InWindow(const Eigen::Vector3d& place) {
    const Eye eye = LastEye();
    const Eigen::Vector3d seen = place - eye.pos;
    const double depth = Depth(eye, place);
    if (!(depth > 0)) return {kNan, kNan};
    return eye.middle + eye.scale.cwiseProduct(Eigen::Vector2d(seen.dot(eye.right), seen.dot(eye.up))) / depth;
  }

  // by which what is seen of a place shrinks
  static double Depth(const Eye& eye, const Eigen::Vector3d& place) {
    return eye.orthographic ? 1 : (place - eye.pos).dot(eye.forward);
  }

  // the goal whose dot is there, or −1
  int GoalAt(const Eigen::Vector2d& mouse) {
    if (!options.moved || !state.ghost) return -1;
    int nearest = -1;
    double distance = kReach;
    for (int i = 0; i < static_cast<int>(stage.places().size()); i++) {
      const double d = (InWindow(stage.places()[static_cast<std::size_t>(i)]) - mouse).norm();
      if (d < distance) nearest = i, distance = d;
    }
    return nearest;
  }

  // in the plane that faces the camera
  void DragGoal(const Eigen::Vector2d& pixels) {
    const Eye eye = LastEye();
    const Eigen::Vector3d from = stage.places()[static_cast<std::size_t>(state.dragged)];
    const Eigen::Vector2d by = pixels.cwiseQuotient(eye.scale) * Depth(eye, from);
    const Eigen::Vector3d to = from + by[0] * eye.right + by[1] * eye.up;
    stage.MovePlace(state.dragged, to);
    options.moved(state.dragged, to);
    changed = true;
  }

  void OnMove(double x, double y) {
    int width, height;
    glfwGetWindowSize(window.get(), &width, &height);
    const Eigen::Vector2d pixels(x - mouse_x, y - mouse_y);
    const double dx = pixels[0] / std::max(height, 1), dy = pixels[1] / std::max(height, 1);
    mouse_x = x;
    mouse_y = y;
    if (scrubbing) {
      ToPixels(&x, &y);
      GoToFraction(TimeLine(SceneViewport(), render.get()).Fraction(x));
      return;
    }
    if (state.dragged >= 0) return DragGoal(pixels);
    auto pressed = [this](int button) { return glfwGetMouseButton(window.get(), button) == GLFW_PRESS; };
    const bool shift = glfwGetKey(window.get(), GLFW_KEY_LEFT_SHIFT) == GLFW_PRESS ||
                       glfwGetKey(window.get(), GLFW_KEY_RIGHT_SHIFT) == GLFW_PRESS;
    if (pressed(GLFW_MOUSE_BUTTON_RIGHT)) {
      MoveCamera(shift ? mjMOUSE_MOVE_H : mjMOUSE_MOVE_V, dx, dy);
    } else if (pressed(GLFW_MOUSE_BUTTON_LEFT)) {
      MoveCamera(shift ? mjMOUSE_ROTATE_H : mjMOUSE_ROTATE_V, dx, dy);
    } else if (pressed(GLFW_MOUSE_BUTTON_MIDDLE)) {
      MoveCamera(mjMOUSE_ZOOM, dx, dy);
    }
  }

  void MoveCamera(mjtMouse action, double dx, double dy) {
    if (camera.type == mjCAMERA_FIXED) return;

    // the engine's steps of zoom and shift are made for a distance like the model's extent
    mjModel local = *source.model;
    local.stat.extent = std::max<double>(camera.distance, 1e-6);
    mjv_moveCamera(&local, action, dx, dy, &camera);
    changed = true;
  }

  // ---- picture
  // ---------------------------------------------------------------------------------------------------------

  mjrRect Viewport() const {
    mjrRect viewport{0, 0, 0, 0};
    glfwGetFramebufferSize(window.get(), &viewport.width, &viewport.height);
    return viewport;
  }

  // what the plots leave of it
  mjrRect SceneViewport() const {
    mjrRect viewport = Viewport();
    if (state.plots && !plots.empty()) viewport.width -= viewport.width / 3;
    return viewport;
  }

  double Aspect() const {
    const mjrRect viewport = Viewport();
    return static_cast<double>(std::max(viewport.width, 1)) / std::max(viewport.height, 1);
  }

  // the camera keeps what the user did to it and moves as the robot does
  void FollowRobot() {
    if (!framing.follows()) return;
    Eigen::Vector3d now = look_at;
    if (source.live) {
      framing.Follow(player.data(), &now);
    } else {
      now = framing.LookAt(player.knot());
    }
    Eigen::Map<Eigen::Vector3d>(camera.lookat) += now - look_at;
    look_at = now;
  }

  void Draw() {
    const mjrRect viewport = Viewport();
    if (viewport.width < 1 || viewport.height < 1) return;
    FollowRobot();
    stage.show_ghost = state.ghost;
    mjrContext* context = render.get();
    mjr_setBuffer(mjFB_WINDOW, context);

    // plots take the right third; the camera steps back so that nothing is lost
    mjrRect scene = SceneViewport();
    mjvCamera eye = camera;
    eye.distance *= static_cast<double>(viewport.width) / scene.width;
    stage.Update(player.data(), eye);
    mjr_render(scene, stage.scene(), context);
    if (scene.width < viewport.width) {
      plots.Draw(player, {scene.width, 0, viewport.width - scene.width, viewport.height}, context);
    }

    // text stands above the time line
    const TimeLine line(scene, context);
    scene.bottom += 3 * line.bar.height;
    scene.height = std::max(1, scene.height - 3 * line.bar.height);
    if (state.help) DrawInfo(kHelp, mjGRID_BOTTOMLEFT, scene, context);
    if (state.info) DrawInfo(Info(), mjGRID_TOPLEFT, scene, context);
    line.Draw(player, switches.found());
  }

  std::vector<InfoLine> Info() {
    std::vector<InfoLine> lines = Describe(player, cost_so_far);
    const std::string speed =
        state.speed >= 1 ? fmt::format("{:.0f} x", state.speed) : fmt::format("1/{:.0f} x", 1 / state.speed);
    lines.push_back({"speed", speed + (state.playing ? "" : ", paused")});
    if (const ModeSwitch* last = switches.Last(player.knot()))
      lines.push_back({"last switch", SwitchText(*last, player.Time(last->knot))});
    if (state.camera >= 0) lines.push_back({"camera", ElementName(source.model, mjOBJ_CAMERA, state.camera)});
    if (state.ghost) lines.push_back({"green", options.moved ? "the goal: drag it" : "the goal"});
    if (!state.help) lines.push_back({"F1", "help"});
    return lines;
  }

  const ViewerOptions options;
  const ViewSource& source;
  Player player;
  Stage stage;
  Framing framing;
  Eigen::Vector3d look_at;  // where the framing would look
  mjvCamera camera;         // where the user looks
  VectorXd cost_so_far;
  Glfw glfw;
  WindowPtr window;
  RenderContext render;
  Plots plots;
  SwitchFinder switches;
  ViewerState state;
  double clock = 0, last_round = 0;
  double mouse_x = 0, mouse_y = 0;
  bool scrubbing = false, changed = true, freed = false;
};

Viewer::Viewer(const ViewSource& source, const ViewerOptions& options)
    : impl_(std::make_unique<Impl>(source, options)) {
  impl_->clock = impl_->player.time();
  impl_->state.time = impl_->clock;
}

Viewer::~Viewer() = default;

const ViewerState& Viewer::state() const { return impl_->state; }

bool Viewer::Frame() {
  Impl& impl = *impl_;
  EngineGuard guard;
  if (impl.source.fed) {
    glfwPollEvents();  // a robot does not wait
  } else {
    // at rest nothing is drawn until something happens
    glfwWaitEventsTimeout(impl.changed || impl.state.playing ? kPlayWait : kIdle);
  }
  if (impl.options.interrupted && impl.options.interrupted()) return false;
  if (glfwWindowShouldClose(impl.window.get())) return false;

  const double now = glfwGetTime();
  impl.Advance(std::min(now - impl.last_round, kMaxFrameTime));
  impl.last_round = now;
  impl.state.time = impl.player.time();
  impl.state.knot = impl.player.knot();
  if (impl.switches.Advance(kLook)) impl.changed = true;
  if (impl.changed) {
    impl.changed = false;
    impl.Draw();
    glfwSwapBuffers(impl.window.get());
  }
  return true;
}

void Viewer::Feed(const mjData* robot) { impl_->player.Append(robot); }

Eigen::Vector2d Viewer::InWindow(const Eigen::Vector3d& place) const { return impl_->InWindow(place); }

void Viewer::Run() {
  while (Frame()) {
  }
}

Image Viewer::ReadPixels() {
  Impl& impl = *impl_;
  // what was drawn last has been swapped away
  impl.Draw();
  const mjrRect viewport = impl.Viewport();
  return ReadImage(viewport, impl.render.get());
}

}  // namespace costate::viewer
