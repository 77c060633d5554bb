#include "core/model.h"

#include <fmt/format.h>
#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/plugin_library.h"
#include "core/read_file.h"

namespace costate {
namespace {

constexpr int kErrorSize = 4096;  // room for the compiler's text

// header of an .mjb: five integers, the first a fixed mark, the fourth the engine's version
constexpr int kMjbHeader = 5;
constexpr int kMjbMark = 54321;
constexpr int kMjbVersion = 3;

constexpr char kNobodyHasPlugin[] =
    "which no library that was loaded has: costate --plugin FILE loads one, in code mj_loadPluginLibrary";

// before the engine sees it; of a folder that is a run, which file is meant
void CheckModelFile(const std::string& path) {
  std::error_code code;
  const std::filesystem::path folder(path);
  if (std::filesystem::is_directory(folder, code) && std::filesystem::exists(folder / "record.json", code)) {
    const bool task = std::filesystem::exists(folder / "task.xml", code);
    throw Error(ErrorCode::kFile, "'" + path + "' is a saved run, its " +
                                      (task ? "task is '" + (folder / "task.xml").string() + "'"
                                            : "model is '" + (folder / "model.mjb").string() + "'"));
  }
  CheckReadable(path, "model file '" + path + "'");
}

std::string VersionText(int version) {
  // 4.0.1 is 4000001, before 4.0 3.10.2 was 3010002 and 3.3.7 was 337
  const int base = version >= 1000000 ? 1000 : 10;
  return std::to_string(version / (base * base)) + "." + std::to_string(version / base % base) + "." +
         std::to_string(version % base);
}

void Append(std::vector<std::string> from, std::vector<std::string>* to) {
  if (to == nullptr) return;
  for (std::string& text : from) to->push_back(std::move(text));
}

// the engine's texts run over several lines and end in blanks: one line
std::string OneLine(const std::string& text) {
  std::string line;
  for (char c : text)
    line += c == '\n' ? std::string(line.empty() || line.back() == ' ' ? "" : ", ") : std::string(1, c);
  while (!line.empty() && (line.back() == ' ' || line.back() == ',')) line.pop_back();
  return line;
}

// the compiler's text, with the file's name in front unless it is there
std::string WithName(const std::string& name, const std::string& text) {
  return text.find(name) == std::string::npos ? name + ": " + text : text;
}

// The engine believes the sizes at the beginning of an .mjb and allocates by them, whatever they are: they must account
// for the number of bytes that follow.
void CheckBinarySize(std::span<const unsigned char> bytes) {
  mjModel shell = {};
  std::size_t position = kMjbHeader * sizeof(int);
  bool complete = true;
  auto read = [&](mjtSize* size) {
    complete = complete && position + sizeof(mjtSize) <= bytes.size();
    if (complete) std::memcpy(size, bytes.data() + position, sizeof(mjtSize));
    position += sizeof(mjtSize);
  };
#define X(name) read(&shell.name);
  MJMODEL_SIZES
#undef X
  const auto have = static_cast<mjtSize>(bytes.size());
  if (!complete) throw Error(ErrorCode::kFile, "its sizes are incomplete");
  if (const mjtSize need = mj_sizeModel(&shell); need != have) {
    throw Error(ErrorCode::kFile,
                "it has " + std::to_string(have) + " bytes, its sizes ask for " + std::to_string(need));
  }
}

// The bytes hold the plugin of an instance as its number in the process that wrote them, and the engine believes it:
// a number that nobody has, or one whose plugin has another count of attributes, would be followed to nowhere.
void CheckPluginSlots(const mjModel* model, const std::string& name) {
  for (int i = 0; i < model->nplugin; i++) {
    const mjpPlugin* plugin = mjp_getPluginAtSlot(model->plugin[i]);
    const mjtSize begin = model->plugin_attradr[i];
    const mjtSize end = i + 1 < model->nplugin ? model->plugin_attradr[i + 1] : model->npluginattr;
    if (plugin && std::count(model->plugin_attr + begin, model->plugin_attr + end, '\0') == plugin->nattribute)
      continue;
    throw Error(ErrorCode::kUnsupported, name + " has an engine plugin by number " + std::to_string(model->plugin[i]) +
                                             " of the process that compiled it, which is none or another one here: "
                                             "give its MJCF file");
  }
}

void SetPluginSlots(const std::vector<std::string>& plugins, mjModel* model, const std::string& name) {
  if (static_cast<mjtSize>(plugins.size()) != model->nplugin) {
    throw Error(ErrorCode::kFile, name + " has " + std::to_string(model->nplugin) + " plugin instances, and " +
                                      std::to_string(plugins.size()) + " are named");
  }
  for (std::size_t i = 0; i < plugins.size(); i++) {
    const char* plugin = plugins[i].c_str();
    if (mjp_getPlugin(plugin, &model->plugin[i])) continue;
    LoadEnginePlugins();
    if (!mjp_getPlugin(plugin, &model->plugin[i]))
      throw Error(ErrorCode::kUnsupported, name + " needs the engine plugin '" + plugins[i] + "', " + kNobodyHasPlugin);
  }
}

// the compiler takes a time step of 0, and whoever made the bytes any number
void CheckLoadedOptions(const mjModel* model, const std::string& name) {
  try {
    CheckModelOptions(model);
  } catch (const Error& error) {
    throw Error(error.code(), WithName(name, error.what()));
  }
}

ModelPtr ParseBinary(std::span<const unsigned char> bytes, const std::string& name,
                     const std::vector<std::string>* plugins = nullptr) {
  int header[kMjbHeader] = {};
  if (bytes.size() < sizeof(header)) throw Error(ErrorCode::kFile, name + " is damaged: it has no complete header");
  std::memcpy(header, bytes.data(), sizeof(header));
  const int version = header[kMjbVersion];
  if (header[0] != kMjbMark) throw Error(ErrorCode::kFile, name + " is not a compiled MuJoCo model");
  if (version != mj_version()) {
    throw Error(ErrorCode::kUnsupported, name + " was written by MuJoCo " + VersionText(version) + "; this is " +
                                             mj_versionString() +
                                             ", which reads only its own: compile the model again");
  }
  EngineGuard guard;
  std::string reason;
  ModelPtr model;
  try {
    CheckBinarySize(bytes);
    model.reset(mj_loadModelBuffer(bytes.data(), static_cast<mjtSize>(bytes.size())));
    if (!model) reason = fmt::format("{}", fmt::join(guard.TakeWarnings(), "; "));
  } catch (const Error& error) {
    reason = error.what();
  }
  if (!model) throw Error(ErrorCode::kFile, name + " is damaged: " + reason);
  if (plugins) SetPluginSlots(*plugins, model.get(), name);
  CheckPluginSlots(model.get(), name);
  CheckLoadedOptions(model.get(), name);
  return model;
}

// parses; exactly one of path and text is given
SpecPtr Parse(const char* path, const char* text, const std::string& name, std::vector<std::string>* warnings) {
  EngineGuard guard;
  const int known = mjp_pluginCount();
  char error[kErrorSize] = "";
  SpecPtr spec(path != nullptr ? mj_parseXML(path, nullptr, error, sizeof(error))
                               : mj_parseXMLString(text, nullptr, error, sizeof(error)));
  if (!spec) {
    std::string reason = OneLine(error);
    if (reason.find("plugin") != std::string::npos && reason.find("not found") != std::string::npos) {
      LoadEnginePlugins();
      if (mjp_pluginCount() > known) return Parse(path, text, name, warnings);
      reason += std::string(", ") + kNobodyHasPlugin;
    }
    throw Error(ErrorCode::kParse, WithName(name, reason));
  }
  if (error[0] != '\0') Append({OneLine(error)}, warnings);
  Append(guard.TakeWarnings(), warnings);
  return spec;
}

}  // namespace

Dims::Dims(const mjModel* model)
    : nq(static_cast<int>(NotNull(model)->nq)),
      nv(static_cast<int>(model->nv)),
      na(static_cast<int>(model->na)),
      nu(static_cast<int>(model->nu)),
      nx(nq + nv + na),
      ndx(2 * nv + na),
      ns(static_cast<int>(model->nsensordata)) {}

bool IsCompiledModel(const std::string& path) {
  std::string end = std::filesystem::path(path).extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".mjb";
}

SpecPtr LoadSpec(const std::string& path, std::vector<std::string>* warnings) {
  CheckModelFile(path);
  if (IsCompiledModel(path)) {
    throw Error(ErrorCode::kUnsupported,
                "'" + path + "' is a compiled model: nothing can be added to it; give its MJCF file");
  }
  return Parse(path.c_str(), nullptr, path, warnings);
}

ModelPtr CompileModel(mjSpec* spec, const std::string& name, std::vector<std::string>* warnings) {
  if (spec == nullptr) throw Error(ErrorCode::kInvalidArgument, WithName(name, "the spec is NULL"));
  EngineGuard guard(nullptr, EngineGuard::Around::kEngine);  // the compiler tries a step
  ModelPtr model(mj_compile(spec, nullptr));
  if (!model) throw Error(ErrorCode::kParse, WithName(name, OneLine(mjs_getError(spec))));

  // the compiler keeps its warnings in the spec and may raise them as well: each once
  std::vector<std::string> found;
  for (int i = 0; i < mjs_numWarnings(spec); ++i) found.push_back(OneLine(mjs_getWarning(spec, i)));
  for (std::string& text : guard.TakeWarnings()) {
    if (std::find(found.begin(), found.end(), text) == found.end()) found.push_back(std::move(text));
  }
  Append(std::move(found), warnings);
  CheckLoadedOptions(model.get(), name);
  return model;
}

ModelPtr LoadModel(const std::string& path, std::vector<std::string>* warnings) {
  if (IsCompiledModel(path)) {
    CheckModelFile(path);
    const std::string bytes = ReadFile(path, "model file '" + path + "'");
    return ParseBinary({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}, "'" + path + "'");
  }
  const SpecPtr spec = LoadSpec(path, warnings);
  return CompileModel(spec.get(), path, warnings);
}

ModelPtr LoadModelFromString(const std::string& xml) {
  const SpecPtr spec = Parse(nullptr, xml.c_str(), "XML text", nullptr);
  return CompileModel(spec.get(), "XML text");
}

ModelPtr CopyModel(const mjModel* model) {
  EngineGuard guard;
  return ModelPtr(mj_copyModel(nullptr, NotNull(model)));
}

std::vector<unsigned char> SerializeModel(const mjModel* model) {
  NotNull(model);
  EngineGuard guard;

  // textures kept by reference come in, so that the bytes need no other file; one that is gone stays a reference:
  // it changes the picture only
  ModelPtr embedded;
  if (std::any_of(model->tex_adr, model->tex_adr + model->ntex, [](mjtSize address) { return address == -1; })) {
    char error[kErrorSize] = "";
    embedded.reset(mj_embedAssets(model, error, sizeof(error)));
    if (embedded) model = embedded.get();
  }
  std::vector<unsigned char> bytes(static_cast<std::size_t>(mj_sizeModel(model)));
  mj_saveModel(model, nullptr, bytes.data(), static_cast<mjtSize>(bytes.size()));
  return bytes;
}

ModelPtr DeserializeModel(const std::vector<unsigned char>& bytes) { return ParseBinary(bytes, "the compiled model"); }

ModelPtr DeserializeModel(const std::vector<unsigned char>& bytes, const std::vector<std::string>& plugins) {
  return ParseBinary(bytes, "the compiled model", &plugins);
}

DataPtr MakeData(const mjModel* model) {
  EngineGuard guard;
  DataPtr data(mj_makeData(NotNull(model)));
  if (!data)
    throw Error(ErrorCode::kEngine,
                fmt::format("the engine could not make data: {}", fmt::join(guard.TakeWarnings(), "; ")));
  return data;
}

}  // namespace costate
