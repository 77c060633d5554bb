#include "optimizer/task_option.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <iterator>

#include "core/option_words.h"

namespace costate {

std::vector<std::string> TaskIntegrators() { return {std::begin(kIntegratorWords), kIntegratorWords + mjINT_DISCRETE}; }

void ApplyOption(const XmlElement& element, Task* task) {
  element.Allow({"timestep", "integrator", "solimp0"});
  mjModel* model = task->model.get();
  if (const auto timestep = element.PositiveNumber("timestep")) model->opt.timestep = *timestep;
  if (const auto word = element.Word("integrator", TaskIntegrators())) model->opt.integrator = *word;

  // impedance where limits of joints and contacts begin: 0 makes forces set in without a jump
  const auto solimp0 = element.Number("solimp0");
  if (!solimp0) return;
  if (*solimp0 < 0 || *solimp0 >= 1) element.Fail(fmt::format("solimp0 is {:g}, expected 0 ≤ solimp0 < 1", *solimp0));
  for (mjtSize i = 0; i < model->njnt; i++) model->jnt_solimp[mjNIMP * i] = *solimp0;
  for (mjtSize i = 0; i < model->ngeom; i++) model->geom_solimp[mjNIMP * i] = *solimp0;
  for (mjtSize i = 0; i < model->npair; i++) model->pair_solimp[mjNIMP * i] = *solimp0;
}

}  // namespace costate
