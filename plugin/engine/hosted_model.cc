#include "engine/hosted_model.h"

#include <costate/model.h>
#include <costate/state.h>
#include <fmt/format.h>
#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <type_traits>
#include <vector>

#include "core/engine_guard.h"
#include "core/number.h"
#include "engine/model_difference.h"
#include "engine/policy_run.h"

// the engine's own, in no header: digits of the numbers that this thread writes as MJCF
extern "C" __attribute__((weak)) void _mjPRIVATE__set_xml_precision(int digits);
extern "C" __attribute__((weak)) int _mjPRIVATE__get_xml_precision();

namespace costate {
namespace {

namespace fs = std::filesystem;

constexpr double kCompiled = 1e-9;  // numbers that the compiler makes from the run's agree with them to this

constexpr int kPasses = 4;

// folders of assets, absolute: the written file may lie anywhere
void MakeAssetsAbsolute(mjSpec* spec, const std::string& model_file) {
  const fs::path base = fs::absolute(model_file).parent_path();
  for (mjString* folder : {spec->compiler.meshdir, spec->compiler.texturedir}) {
    mjs_setString(folder, (base / mjs_getString(folder)).lexically_normal().c_str());
  }
}

// six digits become all, where the engine lets them
class AllDigits {
 public:
  AllDigits() {
    if (!there_) return;
    before_ = _mjPRIVATE__get_xml_precision();
    _mjPRIVATE__set_xml_precision(std::numeric_limits<double>::max_digits10);
  }
  ~AllDigits() {
    if (there_) _mjPRIVATE__set_xml_precision(before_);
  }
  AllDigits(const AllDigits&) = delete;
  AllDigits& operator=(const AllDigits&) = delete;

 private:
  const bool there_ = _mjPRIVATE__set_xml_precision != nullptr && _mjPRIVATE__get_xml_precision != nullptr;
  int before_ = 0;
};

// 0.10000000000000001 is 0.1; a name of digits alone stays
std::string Shortened(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    double value = 0;
    const bool is_long = static_cast<int>(word.size()) > std::numeric_limits<double>::digits10;
    out +=
        is_long && word.find('.') != std::string::npos && ParseNumber(word, &value) ? fmt::format("{}", value) : word;
    if (end < text.size()) out += ' ';
    begin = end + 1;
  }
  return out;
}

void ShortenNumbers(pugi::xml_node node) {
  for (pugi::xml_attribute attribute : node.attributes()) {
    if (const std::string text = Shortened(attribute.value()); text != attribute.value()) attribute = text.c_str();
  }
  for (pugi::xml_node child : node.children()) ShortenNumbers(child);
}

std::string SpecText(mjSpec* spec) {
  const AllDigits digits;
  char error[1000] = "";
  std::vector<char> text(1 << 20);
  for (;;) {
    const int need = mj_saveXMLString(spec, text.data(), static_cast<int>(text.size()), error, sizeof(error));
    if (need == 0) return text.data();
    if (need < 0) throw Error(ErrorCode::kEngine, std::string("the model cannot be written as MJCF: ") + error);
    text.resize(static_cast<std::size_t>(need) + 1);
  }
}

// the model's options and numbers into the spec; the arrays that it had otherwise
std::set<std::string> TakeModel(const HostedModel& hosted, mjSpec* spec) {
  const mjModel* model = hosted.model;
  const std::string& source = hosted.source;
  ModelPtr here = CompileModel(spec, source);
  std::string changed = StructureMismatch(model, here.get());
  if (changed.empty()) changed = SizeDifference(model, here.get());
  if (!changed.empty()) {
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' has changed since {}: {}", source, hosted.owner, changed));
  }
  const auto check = [&](const mjModel* compiled, const std::string& reason) {
    const std::string difference = ModelDifference(model, compiled, kCompiled);
    if (difference.empty()) return;
    throw Error(ErrorCode::kUnsupported, fmt::format("{} has another model than '{}', and MJCF cannot take over "
                                                     "what differs: {}{}",
                                                     hosted.owner, source, difference, reason));
  };

  // from numbers that are taken the compiler may make others: masses from sizes, dampers from masses
  std::set<std::string> taken;
  for (int pass = 0; pass < kPasses && !ModelDifference(model, here.get(), kCompiled).empty(); ++pass) {
    const std::set<std::string> arrays = DifferentArrays(model, here.get(), kCompiled);
    if (pass > 0 && arrays.empty()) break;
    taken.insert(arrays.begin(), arrays.end());
    const ModelPtr wanted = CopyModel(here.get());
    wanted->opt = model->opt;
    TakeNumbers(model, arrays, wanted.get());
    EngineGuard guard;
    if (mj_copyBack(spec, wanted.get()) != 1) {
      std::string reason = mjs_getError(spec);  // "Error: …", its element in a second line
      reason.resize(std::min(reason.size(), reason.find('\n')));
      if (reason.starts_with("Error: ")) reason.erase(0, 7);
      here->opt = model->opt;
      check(here.get(), fmt::format(" ({})", reason));
    }
    here = CompileModel(spec, source);
  }
  check(here.get(), "");
  return taken;
}

// Mocap bodies stand where the context has them: a host puts them where the file says. `model` and `spec` are of the
// same bodies.
void PlaceMocapBodies(const HostedModel& hosted, mjModel* model, mjSpec* spec) {
  if (model->nmocap == 0) return;
  const DataPtr data = MakeData(hosted.model);
  SetContext(hosted.model, data.get(), hosted.context);
  for (mjsElement* element = mjs_firstElement(spec, mjOBJ_BODY); element; element = mjs_nextElement(spec, element)) {
    const int id = mjs_getId(element), mocap = id >= 0 ? model->body_mocapid[id] : -1;
    if (mocap < 0) continue;
    mjsBody* body = mjs_asBody(element);
    std::copy_n(data->mocap_pos + 3 * mocap, 3, body->pos);
    std::copy_n(data->mocap_quat + 4 * mocap, 4, body->quat);
    mju_normalize4(body->quat);
    mjs_defaultOrientation(&body->alt);
    std::copy_n(body->pos, 3, model->body_pos + 3 * id);
    std::copy_n(body->quat, 4, model->body_quat + 4 * id);
  }
  CompileModel(spec, hosted.source);  // what is written is what was compiled last
}

// a time step of six digits is another one
void WriteOptions(const mjOption& o, pugi::xml_node option) {
  const auto exact = [&](const char* name, const mjtNum* values, int n) {
    std::string text;
    for (int k = 0; k < n; ++k) text += fmt::format("{}{}", k > 0 ? " " : "", values[k]);
    if (pugi::xml_attribute attribute = option.attribute(name)) attribute = text.c_str();
  };
#define X(type, name, columns) \
  if constexpr (std::is_same_v<type, mjtNum>) exact(#name, reinterpret_cast<const mjtNum*>(&o.name), columns);
#define XVEC(type, name, columns) exact(#name, o.name, columns);
  MJOPTION_FIELDS
#undef XVEC
#undef X
}

}  // namespace

std::string DocumentText(const pugi::xml_document& document) {
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

void CheckHostedFile(const HostedModel& hosted, const std::string& file) {
  if (!fs::exists(hosted.source)) {
    throw Error(ErrorCode::kFile, fmt::format("{} was made from '{}', which is not there: a playable model is written "
                                              "from it",
                                              hosted.owner, hosted.source));
  }
  if (fs::exists(file) && fs::equivalent(file, hosted.source)) {
    throw Error(ErrorCode::kFile, fmt::format("'{}' is the model that {} was made from", file, hosted.owner));
  }
}

void WriteHostedModel(const HostedModel& hosted, pugi::xml_document* document) {
  const SpecPtr spec = LoadSpec(hosted.source);
  const std::set<std::string> taken = TakeModel(hosted, spec.get());
  MakeAssetsAbsolute(spec.get(), hosted.source);
  const ModelPtr expected = CopyModel(hosted.model);
  PlaceMocapBodies(hosted, expected.get(), spec.get());
  if (!document->load_string(SpecText(spec.get()).c_str())) {
    throw Error(ErrorCode::kEngine, "the engine wrote MJCF that is no XML");
  }
  ShortenNumbers(*document);
  WriteOptions(hosted.model->opt, document->child("mujoco").child("option"));
  const ModelPtr model = LoadModelFromString(DocumentText(*document));
  if (const std::string lost = ModelDifference(expected.get(), model.get(), kHostedDigits, &taken); !lost.empty()) {
    throw Error(ErrorCode::kUnsupported, fmt::format("MJCF cannot take over the model of {}: {}", hosted.owner, lost));
  }
}

void AddInstance(const char* plugin_name, const char* name,
                 const std::vector<std::pair<const char*, std::string>>& configuration, pugi::xml_document* document) {
  pugi::xml_node root = document->child("mujoco");
  pugi::xml_node extension = root.child("extension");
  if (!extension) extension = root.append_child("extension");
  pugi::xml_node plugin = extension.append_child("plugin");
  plugin.append_attribute("plugin") = plugin_name;
  pugi::xml_node instance = plugin.append_child("instance");
  instance.append_attribute("name") = name;
  for (const auto& [key, value] : configuration) {
    pugi::xml_node node = instance.append_child("config");
    node.append_attribute("key") = key;
    node.append_attribute("value") = value.c_str();
  }
}

}  // namespace costate
