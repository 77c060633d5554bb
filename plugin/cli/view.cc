// costate view: a window, a picture or a film strip of a run, a model or a task.
#include <costate/record.h>
#include <costate/task.h>
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/mpc_window.h"
#include "cli/run_output.h"
#include "cli/terminal.h"
#include "core/new_file.h"
#ifdef COSTATE_HAVE_VIEWER
#include "viewer/offscreen.h"
#include "viewer/viewer.h"
#endif

namespace costate::cli {
namespace {

constexpr char kViewFooter[] = R"(
A run is played as it was recorded, a task under its guess of the controls, a bare model is simulated while it is watched. In the
window F1 shows the keys: Space plays, arrows step, the bar at the bottom scrubs. A goal state is shown as a green ghost.

  costate view run --play                             watch a saved run
  costate view robot.xml --key home                   a model, as in `simulate`
  costate view run --png end.png --contacts           its last state, with contact forces
  costate view run --film strip.png --frames 8        eight moments side by side, many in rows

Pictures need no display: OpenGL comes from EGL or OSMesa, software rendering is enough; MUJOCO_GL=egl or osmesa chooses.

Exit code: 0 shown or written, 2 bad input, no display, no OpenGL, or a file in the way; 130 interrupted.)";

struct ViewArguments {
  std::string file, key, png, film, size, camera, follow = "auto";
  std::optional<double> time, from, to, azimuth, elevation, distance;
  std::optional<int> knot;
  int frames = 6;
  bool force = false, play = false, contacts = false, plain = false, no_ghost = false;
};

#ifdef COSTATE_HAVE_VIEWER

constexpr double kFilmOfModel = 2;  // [s] of a simulation that nobody gave an end

// whatever is shown, and what it borrows from
struct Shown {
  std::optional<Record> record;
  std::optional<Task> task;
  ModelPtr model;
  viewer::ViewSource source;
};

Shown Load(const ViewArguments& arguments) {
  Shown shown;
  const std::string& file = arguments.file;
  if (std::error_code none; !std::filesystem::exists(file, none))
    throw Error(ErrorCode::kFile, "there is no run, task or model '" + file + "'");
  const bool is_run = IsRun(file), is_task = !is_run && IsTaskFile(file);
  if (!arguments.key.empty() && (is_run || is_task)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--key starts a bare model; '{}' is a {}", file, is_run ? "run" : "task"));
  }
  std::vector<std::string> warnings;
  if (is_run) {
    shown.record = ReadRecord(file);
    shown.source = viewer::FromRecord(*shown.record, file);
  } else if (is_task) {
    shown.task = LoadTask(file);
    warnings = shown.task->warnings;
    shown.source = viewer::FromTask(*shown.task, file);
  } else {
    shown.model = LoadModel(file, &warnings);
    shown.source = viewer::FromModel(shown.model.get(), arguments.key, file);
  }
  PrintWarnings(warnings);
  return shown;
}

// "1280x720"
void ReadSize(const std::string& text, int* width, int* height) {
  const char *first = text.data(), *last = first + text.size();
  const auto [x, error] = std::from_chars(first, last, *width);
  if (error == std::errc() && x != last && (*x == 'x' || *x == 'X')) {
    const auto [end, error2] = std::from_chars(x + 1, last, *height);
    if (error2 == std::errc() && end == last) return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--size '{}': expected WIDTHxHEIGHT in pixels, e.g. 1280x720", text));
}

viewer::CameraOptions CameraOf(const ViewArguments& arguments) {
  const std::pair<const char*, std::optional<double>> numbers[] = {
      {"--azimuth", arguments.azimuth}, {"--elevation", arguments.elevation}, {"--distance", arguments.distance}};
  for (const auto& [name, value] : numbers) {
    if (value && !std::isfinite(*value)) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is {}, a number is needed", name, *value));
    }
  }
  if (arguments.distance && *arguments.distance <= 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--distance is {}, it must be above 0", *arguments.distance));
  }
  viewer::CameraOptions camera;
  camera.camera = arguments.camera;
  camera.azimuth = arguments.azimuth;
  camera.elevation = arguments.elevation;
  camera.distance = arguments.distance;
  camera.follow = arguments.follow;
  return camera;
}

// a moment of the motion; error when it has none such
double CheckTime(const viewer::ViewSource& source, const char* option, double time) {
  const double first = source.trajectory.time[0], last = source.trajectory.time[source.trajectory.time.size() - 1];
  if (!(time >= first - 1e-9) || !(time <= last + 1e-9)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is {:.9g} s, '{}' lasts from {:.9g} s to {:.9g} s", option,
                                                         time, source.title, first, last));
  }
  return time;
}

double MomentOf(const ViewArguments& arguments, const viewer::ViewSource& source, bool end_by_default) {
  const VectorXd& time = source.trajectory.time;
  const int last = static_cast<int>(time.size()) - 1;
  if (arguments.time) return CheckTime(source, "--time", *arguments.time);
  if (!arguments.knot) return time[end_by_default ? last : 0];
  if (*arguments.knot < 0 || *arguments.knot > last) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--knot is {}, '{}' has knots 0 … {}", *arguments.knot, source.title, last));
  }
  return time[*arguments.knot];
}

// a bare model is simulated as far as the pictures need it
void SimulateFor(const ViewArguments& arguments, viewer::ViewSource* source) {
  if (!source->live) return;
  const double start = source->trajectory.time[0], knot_time = source->knot_time();
  double duration = 0;
  if (!arguments.film.empty()) {
    duration = arguments.to ? *arguments.to - start : kFilmOfModel;
  } else if (arguments.time) {
    duration = *arguments.time - start;
  } else if (arguments.knot) {
    duration = *arguments.knot * knot_time;
  }
  if (!(duration >= 0 && duration < 1e6)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a simulation of {} s is asked for", duration));
  }
  *source = viewer::Simulate(*source, duration);
}

int View(const ViewArguments& arguments) {
  viewer::PictureOptions picture;
  if (!arguments.film.empty()) picture.width = 400, picture.height = 400;
  if (!arguments.size.empty()) ReadSize(arguments.size, &picture.width, &picture.height);
  picture.camera = CameraOf(arguments);
  picture.text = !arguments.plain;
  picture.ghost = !arguments.no_ghost;
  picture.contact_points = picture.contact_forces = arguments.contacts;
  for (const std::string& file : {arguments.png, arguments.film}) {
    if (file.empty()) continue;
    const std::string extension = std::filesystem::path(file).extension().string();
    if (!extension.empty() && extension != ".png" && extension != ".PNG") {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: pictures are PNG files, the name ends in '{}'", file, extension));
    }
    CheckOutputFile(file, arguments.force, {arguments.file});
  }
  Shown shown = Load(arguments);
  viewer::ViewSource& source = shown.source;
  const bool is_model = source.live;

  // pictures
  if (!arguments.png.empty() || !arguments.film.empty()) {
    SimulateFor(arguments, &source);
    if (!arguments.png.empty()) {
      const bool end = !is_model;
      const double moment = MomentOf(arguments, source, end);
      viewer::OffscreenRenderer renderer(source, picture);
      viewer::WritePng(arguments.png, renderer.Render(moment), arguments.force);
      fmt::print("{}: {} at {:.3f} s, {}x{} ({})\n", arguments.png, arguments.file, moment, picture.width,
                 picture.height, renderer.backend());
    } else {
      viewer::FilmOptions film;
      film.frame = picture;
      film.frames = arguments.frames;
      if (arguments.from) film.from = CheckTime(source, "--from", *arguments.from);
      if (arguments.to) film.to = CheckTime(source, "--to", *arguments.to);
      if (arguments.from && arguments.to && *arguments.to < *arguments.from) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("--to {:g} comes before --from {:g}", *arguments.to, *arguments.from));
      }
      std::optional<Progress> progress(film.frames);
      film.drawn = [&](int frames) { progress->Update(frames, "frames"); };
      const viewer::Image image = viewer::RenderFilm(source, film);
      progress.reset();
      viewer::WritePng(arguments.film, image, arguments.force);
      fmt::print("{}: {}, {} frames, {}x{}\n", arguments.film, arguments.file, film.frames, image.width, image.height);
    }
    return kExitOk;
  }

  // window
  viewer::ViewerOptions options;
  options.width = picture.width;
  options.height = picture.height;
  options.camera = picture.camera;
  options.play = arguments.play;
  options.interrupted = Interrupted;
  CatchInterrupts();  // which close the window
  viewer::Viewer window(source, options);
  window.Run();
  return Interrupted() ? kExitInterrupted : kExitOk;
}

#else

int View(const ViewArguments&) { throw Error(ErrorCode::kUnsupported, kNoViewer); }

#endif

}  // namespace

void AddViewCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ViewArguments>();
  ViewArguments& a = *arguments;
  CLI::App* command = app.add_subcommand("view", "Show a run, a model or a task: a window, a picture or a film strip");
  command->add_option("FILE", a.file, "run (folder), model (MJCF, URDF, MJB) or task")->required();
  command->add_option("--key", a.key, "a model starts at this keyframe, under its controls");
  command->add_flag("--play", a.play, "the window plays at once");
  command->add_option("--size", a.size, "of window or picture in pixels (1280x720), of a film each frame (400x400)")
      ->type_name("WxH");

  const char* pictures = "Pictures";
  auto* png = command->add_option("--png", a.png, "write one picture")->type_name("FILE")->group(pictures);
  auto* film =
      command->add_option("--film", a.film, "write a film strip")->type_name("FILE")->group(pictures)->excludes(png);
  auto* time = command->add_option("--time", a.time, "picture at this time [s]; default the end, of a model the start");
  time->needs(png)->group(pictures);
  command->add_option("--knot", a.knot, "picture at this knot")->excludes(time)->needs(png)->group(pictures);
  command->add_option("--frames", a.frames, "frames of the film")->capture_default_str()->needs(film)->group(pictures);
  command->add_option("--from", a.from, "time of the film's first frame [s]; default the start")
      ->needs(film)
      ->group(pictures);
  command->add_option("--to", a.to, "time of its last frame [s]; default the end, of a model 2 s")
      ->needs(film)
      ->group(pictures);
  command->add_flag("--force", a.force, "replace a picture that is there")->group(pictures);
  command->add_flag("--contacts", a.contacts, "draw contact points and forces")->group(pictures);
  command->add_flag("--plain", a.plain, "no text in the picture")->group(pictures);
  command->add_flag("--no-ghost", a.no_ghost, "no ghost of the goal")->group(pictures);

  const char* camera = "Camera";
  command->add_option("--camera", a.camera, "a camera of the model, by name or number")->group(camera);
  command->add_option("--azimuth", a.azimuth, "of the free camera [deg]")->group(camera);
  command->add_option("--elevation", a.elevation, "of the free camera [deg]; negative looks down")->group(camera);
  command->add_option("--distance", a.distance, "of the free camera [m]; default: the motion fills the picture")
      ->group(camera);
  command->add_option("--follow", a.follow, "auto (when the robot travels), always, never, or a body's name")
      ->capture_default_str()
      ->group(camera);
  command->footer(kViewFooter);
  command->callback([arguments, exit_code] { *exit_code = View(*arguments); });
}

}  // namespace costate::cli
