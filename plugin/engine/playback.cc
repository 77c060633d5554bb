#include "engine/playback.h"

#include <costate/model.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <pugixml.hpp>

#include "core/engine_guard.h"
#include "core/new_file.h"
#include "engine/hosted_model.h"
#include "engine/model_difference.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

// of the largest state: a difference beyond this has grown along the motion
constexpr double kSmall = 1e-3;

// share of the played difference that the run's own replay must have to be its cause
constexpr double kOwnShare = 0.1;

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

// why the file does not play the run bit for bit
std::string Cause(const PolicyRun& run, const mjModel* model, double difference) {
  const Record& record = run.record;
  if (record.xfrc.size() > 0) return "the robot was pushed in the run, and no push is part of the file";
  const double own = Replay(record).largest_difference;
  if (own >= kOwnShare * difference)
    return fmt::format("the run's own model and controls do not give its motion either, costate replay {}", run.folder);
  const std::string number = ModelDifference(record.model.get(), model, kHostedDigits, nullptr, true);
  if (!number.empty()) return number;
  const std::string digit = ModelDifference(record.model.get(), model, 0, nullptr, true);
  if (digit.empty()) return "the file's model is the run's, to the last digit";
  const bool large = difference > kSmall * std::max(1.0, record.trajectory.X.cwiseAbs().maxCoeff());
  return fmt::format("compiled from MJCF, numbers have other last digits{}: {}",
                     large ? ", which this motion magnifies" : "", digit);
}

}  // namespace

PlaybackResult WritePlayback(const std::string& folder, const std::string& file, const PlaybackOptions& options) {
  const std::shared_ptr<const PolicyRun> run = ReadPolicyRun(folder);
  const Record& record = run->record;
  const HostedModel hosted{record.model.get(), record.context, record.model_file, fmt::format("run '{}'", folder)};
  CheckHostedFile(hosted, file);
  CheckWritable(file, options.force);
  pugi::xml_document document;
  WriteHostedModel(hosted, &document);
  PlaybackResult result;
  if (options.feedback && run->law) {
    result.feedback = PolicyFeedback::kLaw;
  } else if (options.feedback && run->has_gains()) {
    result.feedback = PolicyFeedback::kOn;
  }
  AddInstance(kPolicyName, "costate playback",
              {{"run", fs::absolute(run->folder).lexically_normal().string()},
               {"feedback", kPolicyFeedbackWords[static_cast<int>(result.feedback)]},
               {"end", options.end},
               {"start", "on"}},
              &document);
  const std::string text = DocumentText(document);
  const ModelPtr model = LoadModelFromString(text);
  WriteNewFile(file, text, options.force);
  Play(*run, model.get(), &result);
  if (!result.identical) result.cause = Cause(*run, model.get(), result.largest_difference);
  return result;
}

}  // namespace costate
