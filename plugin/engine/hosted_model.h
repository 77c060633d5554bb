// A compiled model as an MJCF file for other hosts, with all that tasks, fits and smoothing made of its source.
#ifndef COSTATE_ENGINE_HOSTED_MODEL_H_
#define COSTATE_ENGINE_HOSTED_MODEL_H_

#include <costate/model.h>

#include <pugixml.hpp>
#include <string>
#include <utility>
#include <vector>

namespace costate {

struct HostedModel {
  const mjModel* model;
  const VectorXd& context;  ///< by kContextSignature: places of mocap bodies
  std::string source;       ///< MJCF that it was made from
  std::string owner;        ///< "run 'runs/jump-1'": stands in messages
};

/// What numbers that MJCF has written agree to: six digits, at the worst.
inline constexpr double kHostedDigits = 1e-5;

/// @throws Error{kFile} when its source is gone, or `file` is it.
void CheckHostedFile(const HostedModel& hosted, const std::string& file);

/// As MJCF: numbers and options are those of the compiled model, with all their digits; assets stay where they are, by
/// absolute path.
/// @throws Error{kUnsupported} when its source is a compiled model, has changed since, or MJCF cannot say what the model
///         has otherwise: the message names the first number, with both values.
void WriteHostedModel(const HostedModel& hosted, pugi::xml_document* document);

/// An instance of a plugin with this configuration, key by key.
void AddInstance(const char* plugin_name, const char* name,
                 const std::vector<std::pair<const char*, std::string>>& configuration, pugi::xml_document* document);

std::string DocumentText(const pugi::xml_document& document);

}  // namespace costate

#endif  // COSTATE_ENGINE_HOSTED_MODEL_H_
