#include "optimizer/task_mpc.h"

#include <costate/mpc.h>
#include <fmt/core.h>

#include "optimizer/task_xml.h"

namespace costate {

std::vector<std::string> MpcFallbackWords() {
  std::vector<std::string> words;
  for (const MpcFallback fallback : kMpcFallbacks) words.push_back(ToString(fallback));
  return words;
}

MpcOptions ReadMpc(const XmlElement* element) {
  MpcOptions options;
  if (!element) return options;
  element->Allow({"horizon", "timestep", "rate", "delay", "budget", "iterations", "fallback", "compensate", "feedback",
                  "estimate"});
  options.horizon = element->PositiveNumber("horizon").value_or(options.horizon);
  options.timestep = element->PositiveNumber("timestep").value_or(options.timestep);
  options.rate = element->PositiveNumber("rate").value_or(options.rate);
  options.budget = element->PositiveNumber("budget").value_or(options.budget);
  options.delay = element->Number("delay").value_or(options.delay);
  if (element->Has("delay") && options.delay < 0) {
    element->Fail(fmt::format("delay is {:g}, expected at least 0 (without it, it is what plans take)", options.delay));
  }
  options.iterations = element->WholeNumber("iterations", 1).value_or(options.iterations);
  options.fallback = kMpcFallbacks[element->Word("fallback", MpcFallbackWords()).value_or(0)];
  options.compensate = element->Flag("compensate", true);
  options.feedback = element->Flag("feedback", true);
  options.estimate = element->PositiveNumber("estimate").value_or(options.estimate);
  return options;
}

}  // namespace costate
