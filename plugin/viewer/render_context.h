// The engine's renderer for one model, in the OpenGL context that is current.
#ifndef COSTATE_PLUGIN_VIEWER_RENDER_CONTEXT_H_
#define COSTATE_PLUGIN_VIEWER_RENDER_CONTEXT_H_

#include <costate/model.h>

#include "viewer/picture.h"

namespace costate::viewer {

/// An mjrContext. A model without a sky gets a quiet one: only the renderer sees it, the model stays as it is.
class RenderContext {
 public:
  /// @param font_scale  in percent, as mjtFontScale.
  /// @throws Error{kEngine} with the engine's reason when OpenGL lacks what it needs.
  RenderContext(const mjModel* model, int font_scale);
  ~RenderContext();
  RenderContext(const RenderContext&) = delete;
  RenderContext& operator=(const RenderContext&) = delete;

  mjrContext* get() { return &context_; }

 private:
  mjrContext context_;
};

/// The pixels of the context's current buffer.
Image ReadImage(mjrRect viewport, const mjrContext* context);

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_RENDER_CONTEXT_H_
