#include "engine/playback.h"

#include <costate/model.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <pugixml.hpp>
#include <vector>

#include "core/engine_guard.h"
#include "engine/policy_run.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

// folders of assets, absolute: the written file may lie anywhere
void MakeAssetsAbsolute(mjSpec* spec, const std::string& model_file) {
  const fs::path base = fs::absolute(model_file).parent_path();
  for (mjString* folder : {spec->compiler.meshdir, spec->compiler.texturedir}) {
    mjs_setString(folder, (base / mjs_getString(folder)).lexically_normal().c_str());
  }
}

std::string SpecText(mjSpec* spec) {
  char error[1000] = "";
  std::vector<char> text(1 << 20);
  for (;;) {
    const int need = mj_saveXMLString(spec, text.data(), static_cast<int>(text.size()), error, sizeof(error));
    if (need == 0) return text.data();
    if (need < 0) throw Error(ErrorCode::kEngine, std::string("the model cannot be written as MJCF: ") + error);
    text.resize(static_cast<std::size_t>(need) + 1);
  }
}

void AddPolicy(const PolicyRun& run, const PlaybackOptions& options, bool feedback, pugi::xml_node root) {
  pugi::xml_node extension = root.child("extension");
  if (!extension) extension = root.append_child("extension");
  pugi::xml_node plugin = extension.append_child("plugin");
  plugin.append_attribute("plugin") = "costate.policy";
  pugi::xml_node instance = plugin.append_child("instance");
  instance.append_attribute("name") = "costate playback";
  const auto config = [&](const char* key, const std::string& value) {
    pugi::xml_node node = instance.append_child("config");
    node.append_attribute("key") = key;
    node.append_attribute("value") = value.c_str();
  };
  config("run", fs::absolute(run.folder).lexically_normal().string());
  config("feedback", feedback ? "on" : "off");
  config("end", options.end);
  config("start", "on");
}

void Play(const PolicyRun& run, const mjModel* model, PlaybackResult* result) {
  EngineGuard guard;
  const DataPtr data = MakeData(model);
  const MatrixXd& X = run.record.trajectory.X;
  result->identical = true;
  for (int t = 0; t <= run.N; ++t) {
    const VectorXd x = GetState(model, data.get());
    if (std::memcmp(x.data(), X.col(t).data(), sizeof(double) * static_cast<std::size_t>(x.size())) != 0)
      result->identical = false;
    for (int i = 0; i < x.size(); ++i) {
      result->largest_difference = std::max(result->largest_difference, std::abs(x[i] - X(i, t)));
    }
    for (int k = 0; k < run.record.substeps && t < run.N; ++k) mj_step(model, data.get());
  }
}

}  // namespace

PlaybackResult WritePlayback(const std::string& folder, const std::string& file, const PlaybackOptions& options) {
  const std::shared_ptr<const PolicyRun> run = ReadPolicyRun(folder);
  const std::string source = run->record.model_file;
  if (!fs::exists(source)) {
    throw Error(ErrorCode::kFile,
                fmt::format("run '{}' was made from '{}', which is not there: a playable model is written "
                            "from it",
                            folder, source));
  }
  if (fs::exists(file) && fs::equivalent(file, source)) {
    throw Error(ErrorCode::kFile, "'" + file + "' is the model that the run was made from");
  }
  const SpecPtr spec = LoadSpec(source);
  const std::string mismatch = run->Mismatch(CompileModel(spec.get(), source).get());
  if (!mismatch.empty()) {
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' has changed since run '{}': {}", source, folder, mismatch));
  }
  MakeAssetsAbsolute(spec.get(), source);
  pugi::xml_document document;
  if (!document.load_string(SpecText(spec.get()).c_str())) {
    throw Error(ErrorCode::kEngine, "the engine wrote MJCF that is no XML");
  }
  PlaybackResult result;
  result.feedback = options.feedback && run->has_gains();
  AddPolicy(*run, options, result.feedback, document.child("mujoco"));
  errno = 0;
  if (!document.save_file(file.c_str(), "  ")) {
    throw Error(ErrorCode::kFile, fmt::format("'{}' cannot be written: {}", file, std::strerror(errno ? errno : EIO)));
  }
  const ModelPtr model = LoadModel(file);
  Play(*run, model.get(), &result);
  return result;
}

}  // namespace costate
