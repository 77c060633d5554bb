#include "viewer/render_context.h"

#include <algorithm>
#include <vector>

#include "core/engine_guard.h"

namespace costate::viewer {
namespace {

constexpr char kSky[] = R"(
<mujoco>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1=".62 .72 .82" rgb2=".24 .28 .34" width="128" height="768"/>
  </asset>
</mujoco>)";

// the sky's colour where a floor ends; replaces the engine's default white haze
constexpr float kHorizon[4] = {0.44f, 0.51f, 0.60f, 1};

bool HasSky(const mjModel* model) {
  for (int i = 0; i < model->ntex; ++i) {
    if (model->tex_type[i] == mjTEXTURE_SKYBOX) return true;
  }
  return false;
}

// the engine's texture arrays with one more entry
template <typename T>
std::vector<T> Append(const T* values, std::size_t n, const T* more, std::size_t n_more) {
  std::vector<T> all(values, values + n);
  all.insert(all.end(), more, more + n_more);
  return all;
}

// makes the context as if the model had the texture of `sky`
void MakeWithSky(const mjModel* model, const mjModel* sky, mjrContext* context, int font_scale) {
  mjModel local = *model;
  if (std::all_of(std::begin(local.vis.rgba.haze), std::end(local.vis.rgba.haze), [](float c) { return c == 1; })) {
    std::copy(std::begin(kHorizon), std::end(kHorizon), local.vis.rgba.haze);
  }
  const int n = model->ntex;
  auto type = Append(model->tex_type, n, sky->tex_type, 1);
  auto colorspace = Append(model->tex_colorspace, n, sky->tex_colorspace, 1);
  auto height = Append(model->tex_height, n, sky->tex_height, 1);
  auto width = Append(model->tex_width, n, sky->tex_width, 1);
  auto nchannel = Append(model->tex_nchannel, n, sky->tex_nchannel, 1);
  auto address = Append(model->tex_adr, n, sky->tex_adr, 1);
  auto path = Append(model->tex_pathadr, n, sky->tex_pathadr, 1);
  auto content = Append(model->tex_contenttypeadr, n, sky->tex_contenttypeadr, 1);
  auto data = Append(model->tex_data, static_cast<std::size_t>(model->ntexdata), sky->tex_data,
                     static_cast<std::size_t>(sky->ntexdata));
  address.back() = model->ntexdata;
  local.ntex = n + 1;
  local.ntexdata = model->ntexdata + sky->ntexdata;
  local.tex_type = type.data();
  local.tex_colorspace = colorspace.data();
  local.tex_height = height.data();
  local.tex_width = width.data();
  local.tex_nchannel = nchannel.data();
  local.tex_adr = address.data();
  local.tex_pathadr = path.data();
  local.tex_contenttypeadr = content.data();
  local.tex_data = data.data();
  mjr_makeContext(&local, context, font_scale);
}

}  // namespace

RenderContext::RenderContext(const mjModel* model, int font_scale) {
  mjr_defaultContext(&context_);
  EngineGuard guard;
  if (HasSky(model) || model->ntex + 1 >= mjMAXTEXTURE) {
    mjr_makeContext(model, &context_, font_scale);
  } else {
    MakeWithSky(model, LoadModelFromString(kSky).get(), &context_, font_scale);
  }
}

RenderContext::~RenderContext() { mjr_freeContext(&context_); }

Image ReadImage(mjrRect viewport, const mjrContext* context) {
  const std::size_t row = 3 * static_cast<std::size_t>(viewport.width);
  Image image{viewport.width, viewport.height, std::vector<unsigned char>(row * viewport.height)};
  mjr_readPixels(image.rgb.data(), nullptr, viewport, context);

  // OpenGL's first row is the lowest
  for (int i = 0; i < image.height / 2; ++i) {
    const auto upper = image.rgb.begin() + i * row, lower = image.rgb.begin() + (image.height - 1 - i) * row;
    std::swap_ranges(upper, upper + row, lower);
  }
  return image;
}

}  // namespace costate::viewer
