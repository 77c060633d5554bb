#include "viewer/offscreen.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/engine_guard.h"
#include "viewer/gl_context.h"
#include "viewer/overlay.h"
#include "viewer/render_context.h"
#include "viewer/stage.h"

namespace costate::viewer {
namespace {

constexpr int kMinSize = 16, kMaxSize = 16384;
constexpr int kGap = 4;             // white pixels between the frames of a film
constexpr int kMostWide = 8192;     // pixels of a film: then it goes on in a row below
constexpr double kMaxPixels = 4e8;  // of all of it

// the size is checked before anything is opened
const PictureOptions& Checked(const PictureOptions& options) {
  for (int size : {options.width, options.height}) {
    if (size < kMinSize || size > kMaxSize) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("a picture of {}x{} pixels: each side must be {} … {}",
                                                           options.width, options.height, kMinSize, kMaxSize));
    }
  }
  return options;
}

int FontScale(int height) { return std::clamp((height / 720) * 50 + 50, 100, 300); }

}  // namespace

struct OffscreenRenderer::Impl {
  Impl(const ViewSource& source, const PictureOptions& picture)
      : options(Checked(picture)),
        player(source),
        stage(source),
        framing(source, stage.option, options.camera, static_cast<double>(options.width) / options.height),
        look_at(framing.LookAt(0)),
        cost_so_far(SumCost(source)),
        gl(MakeOffscreenContext()),
        render(source.model, FontScale(options.height)) {
    stage.show_ghost = options.ghost;
    stage.option.flags[mjVIS_CONTACTPOINT] = options.contact_points;
    stage.option.flags[mjVIS_CONTACTFORCE] = options.contact_forces;
    EngineGuard guard;
    mjr_resizeOffscreen(options.width, options.height, render.get());
    mjr_setBuffer(mjFB_OFFSCREEN, render.get());
    if (render.get()->currentBuffer != mjFB_OFFSCREEN) {
      throw Error(ErrorCode::kUnsupported, fmt::format("{} has no framebuffer for a picture of {}x{}", gl->name(),
                                                       options.width, options.height));
    }
  }

  mjrRect viewport() const { return {0, 0, options.width, options.height}; }

  PictureOptions options;
  Player player;
  Stage stage;
  Framing framing;
  Eigen::Vector3d look_at;
  VectorXd cost_so_far;
  std::unique_ptr<GlContext> gl;  // before and after everything that needs it
  RenderContext render;
};

OffscreenRenderer::OffscreenRenderer(const ViewSource& source, const PictureOptions& options)
    : impl_(std::make_unique<Impl>(source, options)) {}

OffscreenRenderer::~OffscreenRenderer() = default;

std::string OffscreenRenderer::backend() const { return impl_->gl->name(); }

Image OffscreenRenderer::Render(double time, const std::string& stamp) {
  Impl& impl = *impl_;
  EngineGuard guard;
  impl.player.SetTime(time);

  // a camera that follows
  mjvCamera camera = impl.framing.camera();
  if (impl.framing.follows()) {
    if (impl.player.source().live) {
      impl.framing.Follow(impl.player.data(), &impl.look_at);
    } else {
      impl.look_at = impl.framing.LookAt(impl.player.knot());
    }
    Eigen::Map<Eigen::Vector3d>(camera.lookat) = impl.look_at;
  }
  impl.stage.Update(impl.player.data(), camera);
  mjr_render(impl.viewport(), impl.stage.scene(), impl.render.get());
  if (!stamp.empty()) {
    DrawStamp(stamp, impl.viewport(), impl.render.get());
  } else if (impl.options.text) {
    DrawInfo(Describe(impl.player, impl.cost_so_far), mjGRID_TOPLEFT, impl.viewport(), impl.render.get());
  }
  return ReadImage(impl.viewport(), impl.render.get());
}

std::vector<int> OffscreenRenderer::RenderGeoms() {
  Impl& impl = *impl_;
  EngineGuard guard;
  mjvScene* scene = impl.stage.scene();
  scene->flags[mjRND_SEGMENT] = scene->flags[mjRND_IDCOLOR] = 1;
  mjr_render(impl.viewport(), scene, impl.render.get());
  scene->flags[mjRND_SEGMENT] = scene->flags[mjRND_IDCOLOR] = 0;

  // the engine writes segid + 1 as a colour, red first
  std::vector<int> geom_of_segment(scene->ngeom + 1, -1);
  for (int i = 0; i < scene->ngeom; ++i) {
    const mjvGeom& geom = scene->geoms[i];
    if (geom.segid >= 0 && geom.segid < scene->ngeom && geom.objtype == mjOBJ_GEOM)
      geom_of_segment[geom.segid + 1] = geom.objid;
  }
  const Image image = ReadImage(impl.viewport(), impl.render.get());
  std::vector<int> geoms(static_cast<std::size_t>(image.width) * image.height, -1);
  for (std::size_t i = 0; i < geoms.size(); ++i) {
    const unsigned segment = image.rgb[3 * i] | image.rgb[3 * i + 1] << 8 | image.rgb[3 * i + 2] << 16;
    if (segment < geom_of_segment.size()) geoms[i] = geom_of_segment[segment];
  }
  return geoms;
}

Image RenderFilm(const ViewSource& source, const FilmOptions& options) {
  const int n = options.frames;
  if (n < 1) throw Error(ErrorCode::kInvalidArgument, fmt::format("a film of {} frames: at least 1 is needed", n));
  const double pixels = static_cast<double>(n) * (options.frame.width + kGap) * options.frame.height;
  if (pixels > kMaxPixels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a film of {} frames of {}x{} has {:g} million pixels; the limit is {:g}", n,
                            options.frame.width, options.frame.height, 1e-6 * pixels, 1e-6 * kMaxPixels));
  }
  const Trajectory& motion = source.trajectory;
  const double from = options.from.value_or(motion.time[0]);
  const double to = options.to.value_or(motion.time[motion.time.size() - 1]);
  OffscreenRenderer renderer(source, options.frame);
  std::vector<Image> frames;
  for (int i = 0; i < n; ++i) {
    const double time = n == 1 ? from : from + (to - from) * i / (n - 1);
    frames.push_back(renderer.Render(time, options.frame.text ? fmt::format("{:.2f} s", time) : ""));
    if (options.drawn) options.drawn(i + 1);
  }
  return InRows(frames, std::max(1, kMostWide / (options.frame.width + kGap)), kGap);
}

}  // namespace costate::viewer
