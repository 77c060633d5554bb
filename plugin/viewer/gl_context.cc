#include "viewer/gl_context.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include <costate/error.h>

namespace costate::viewer {
namespace {

// how each attempt failed, for the one error that names them all
using Attempts = std::vector<std::string>;

// ---- EGL
// ---------------------------------------------------------------------------------------------------------------

// the functions that are needed, from a library opened at run time
struct Egl {
  void* library = nullptr;
  decltype(&eglGetProcAddress) GetProcAddress = nullptr;
  decltype(&eglGetDisplay) GetDisplay = nullptr;
  decltype(&eglInitialize) Initialize = nullptr;
  decltype(&eglTerminate) Terminate = nullptr;
  decltype(&eglBindAPI) BindAPI = nullptr;
  decltype(&eglChooseConfig) ChooseConfig = nullptr;
  decltype(&eglCreateContext) CreateContext = nullptr;
  decltype(&eglDestroyContext) DestroyContext = nullptr;
  decltype(&eglCreatePbufferSurface) CreatePbufferSurface = nullptr;
  decltype(&eglDestroySurface) DestroySurface = nullptr;
  decltype(&eglMakeCurrent) MakeCurrent = nullptr;
  decltype(&eglGetError) GetError = nullptr;
  PFNEGLQUERYDEVICESEXTPROC QueryDevices = nullptr;              // extension; may be missing
  PFNEGLGETPLATFORMDISPLAYEXTPROC GetPlatformDisplay = nullptr;  // extension; may be missing

  template <typename Function>
  bool Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }

  // false when this is no EGL library; its error is in *attempts
  bool Open(Attempts* attempts) {
    library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      attempts->push_back(fmt::format("EGL: {}", dlerror()));
      return false;
    }
    if (!Find("eglGetProcAddress", &GetProcAddress) || !Find("eglGetDisplay", &GetDisplay) ||
        !Find("eglInitialize", &Initialize) || !Find("eglTerminate", &Terminate) || !Find("eglBindAPI", &BindAPI) ||
        !Find("eglChooseConfig", &ChooseConfig) || !Find("eglCreateContext", &CreateContext) ||
        !Find("eglDestroyContext", &DestroyContext) || !Find("eglCreatePbufferSurface", &CreatePbufferSurface) ||
        !Find("eglDestroySurface", &DestroySurface) || !Find("eglMakeCurrent", &MakeCurrent) ||
        !Find("eglGetError", &GetError)) {
      attempts->push_back("EGL: libEGL.so.1 lacks a function of EGL 1.4");
      return false;
    }
    QueryDevices = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(GetProcAddress("eglQueryDevicesEXT"));
    GetPlatformDisplay = reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(GetProcAddress("eglGetPlatformDisplayEXT"));
    return true;
  }
};

class EglContext final : public GlContext {
 public:
  EglContext(const Egl& egl, std::string name) : egl_(egl), name_(std::move(name)) {}
  ~EglContext() override {
    if (display_ == EGL_NO_DISPLAY) return;
    egl_.MakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (surface_ != EGL_NO_SURFACE) egl_.DestroySurface(display_, surface_);
    if (context_ != EGL_NO_CONTEXT) egl_.DestroyContext(display_, context_);
    egl_.Terminate(display_);
  }
  std::string name() const override { return name_; }

  // the reason of a failure, or ""
  std::string Make(EGLDisplay display) {
    if (display == EGL_NO_DISPLAY) return "no such display";
    if (!egl_.Initialize(display, nullptr, nullptr)) return Failure("eglInitialize");
    display_ = display;
    if (!egl_.BindAPI(EGL_OPENGL_API)) return Failure("eglBindAPI (no desktop OpenGL)");

    // a 1×1 buffer where there are such, else no surface at all: pictures go to a framebuffer object
    const EGLint wanted[] = {EGL_RENDERABLE_TYPE,
                             EGL_OPENGL_BIT,
                             EGL_SURFACE_TYPE,
                             EGL_PBUFFER_BIT,
                             EGL_RED_SIZE,
                             8,
                             EGL_GREEN_SIZE,
                             8,
                             EGL_BLUE_SIZE,
                             8,
                             EGL_DEPTH_SIZE,
                             24,
                             EGL_NONE};
    const EGLint any[] = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_SURFACE_TYPE, EGL_DONT_CARE, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint count = 0;
    const bool buffer = egl_.ChooseConfig(display_, wanted, &config, 1, &count) && count > 0;
    if (!buffer && (!egl_.ChooseConfig(display_, any, &config, 1, &count) || count == 0))
      return Failure("eglChooseConfig");
    if (buffer) {
      const EGLint size[] = {EGL_WIDTH, 1, EGL_HEIGHT, 1, EGL_NONE};
      surface_ = egl_.CreatePbufferSurface(display_, config, size);
    }
    context_ = egl_.CreateContext(display_, config, EGL_NO_CONTEXT, nullptr);
    if (context_ == EGL_NO_CONTEXT) return Failure("eglCreateContext");
    if (!egl_.MakeCurrent(display_, surface_, surface_, context_)) return Failure("eglMakeCurrent");
    return "";
  }

 private:
  std::string Failure(const char* function) const {
    return fmt::format("{} failed, error 0x{:x}", function, egl_.GetError());
  }

  Egl egl_;
  std::string name_;
  EGLDisplay display_ = EGL_NO_DISPLAY;
  EGLSurface surface_ = EGL_NO_SURFACE;
  EGLContext context_ = EGL_NO_CONTEXT;
};

std::unique_ptr<GlContext> TryEgl(Attempts* attempts) {
  // Mesa's driver prints why a device cannot be used; this list of attempts says it better
  setenv("EGL_LOG_LEVEL", "fatal", 0);
  Egl egl;
  if (!egl.Open(attempts)) return nullptr;

  // the displays that there may be, in the order in which they are tried
  std::vector<std::pair<std::string, EGLDisplay>> displays;
  EGLDeviceEXT devices[16];
  EGLint count = 0;
  if (egl.GetPlatformDisplay && egl.QueryDevices && egl.QueryDevices(16, devices, &count)) {
    for (EGLint i = 0; i < count; ++i) {
      displays.emplace_back(fmt::format("EGL, device {}", i),
                            egl.GetPlatformDisplay(EGL_PLATFORM_DEVICE_EXT, devices[i], nullptr));
    }
  }
  if (egl.GetPlatformDisplay) {
    displays.emplace_back("EGL, surfaceless",
                          egl.GetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr));
  }
  displays.emplace_back("EGL, default display", egl.GetDisplay(EGL_DEFAULT_DISPLAY));
  for (const auto& [name, display] : displays) {
    auto context = std::make_unique<EglContext>(egl, name);
    const std::string failure = context->Make(display);
    if (failure.empty()) {
      // the engine looks for OpenGL's functions where eglGetProcAddress is visible
      dlopen("libEGL.so.1", RTLD_NOW | RTLD_GLOBAL);
      return context;
    }
    attempts->push_back(fmt::format("{}: {}", name, failure));
  }
  return nullptr;
}

// ---- OSMesa
// ------------------------------------------------------------------------------------------------------------

class OsMesaContext final : public GlContext {
 public:
  ~OsMesaContext() override {
    if (context_) destroy_(context_);
  }
  std::string name() const override { return "OSMesa"; }

  // the reason of a failure, or ""
  std::string Make() {
    // global: the engine looks for OSMesaGetProcAddress among visible symbols
    void* library = nullptr;
    for (const char* name : {"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"}) {
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!library) return dlerror();
    constexpr unsigned kRgba = 0x1908, kUnsignedByte = 0x1401;  // GL_RGBA, GL_UNSIGNED_BYTE
    const auto create =
        reinterpret_cast<void* (*)(unsigned, int, int, int, void*)>(dlsym(library, "OSMesaCreateContextExt"));
    const auto make_current =
        reinterpret_cast<unsigned char (*)(void*, void*, unsigned, int, int)>(dlsym(library, "OSMesaMakeCurrent"));
    destroy_ = reinterpret_cast<void (*)(void*)>(dlsym(library, "OSMesaDestroyContext"));
    if (!create || !make_current || !destroy_)
      return "libOSMesa lacks OSMesaCreateContextExt, MakeCurrent or DestroyContext";

    // depth, stencil and accumulation bits
    context_ = create(kRgba, 24, 8, 0, nullptr);
    if (!context_) return "OSMesaCreateContextExt failed";
    if (!make_current(context_, buffer_, kUnsignedByte, kSize, kSize)) return "OSMesaMakeCurrent failed";
    return "";
  }

 private:
  static constexpr int kSize = 16;  // its own buffer is not used: pictures go to a framebuffer object
  unsigned char buffer_[4 * kSize * kSize];
  void* context_ = nullptr;
  void (*destroy_)(void*) = nullptr;
};

}  // namespace

std::unique_ptr<GlContext> MakeOffscreenContext() {
  // the engine looks OpenGL's functions up once a process: a second context must come from where the first one did
  static std::string backend = [] {
    const char* wish = std::getenv("MUJOCO_GL");
    return std::string(wish ? wish : "");
  }();
  Attempts attempts;
  if (backend != "osmesa") {
    if (auto context = TryEgl(&attempts)) {
      backend = "egl";
      return context;
    }
  }
  if (backend != "egl") {
    auto context = std::make_unique<OsMesaContext>();
    const std::string failure = context->Make();
    if (failure.empty()) {
      backend = "osmesa";
      return context;
    }
    attempts.push_back(fmt::format("OSMesa: {}", failure));
  }

  std::string message = "no OpenGL without a display:";
  for (const std::string& attempt : attempts) message += "\n  tried " + attempt;
  if (backend == "egl" || backend == "osmesa")
    message += fmt::format("\n  (MUJOCO_GL={} leaves out the other one)", backend);
  message += "\nOn Debian: apt-get install libegl1 libgl1-mesa-dri, or libosmesa6";
  throw Error(ErrorCode::kUnsupported, message);
}

}  // namespace costate::viewer
