#include "optimizer/task_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimizer/task_csv.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"

namespace costate {
namespace {

constexpr int kMaxKnots = 1000000;  // beyond it a trajectory does not fit into memory
constexpr double kDivides = 1e-6;   // relative: a horizon this near to a whole number of knots is one

// one part of a state given in numbers
void SetPart(const XmlElement& element, const char* attribute, int offset, int size, const mjModel* model,
             VectorXd* x) {
  const std::optional<VectorXd> numbers = element.Numbers(attribute);
  if (!numbers) return;
  if (numbers->size() != size) {
    element.Fail(fmt::format("{} has {}, model '{}' has {}", attribute, Count(numbers->size(), "number"),
                             ModelName(model), size));
  }
  x->segment(offset, size) = *numbers;
}

void CheckQuaternions(const XmlElement& element, const mjModel* model, const VectorXd& x) {
  for (int j = 0; j < model->njnt; ++j) {
    const int type = model->jnt_type[j];
    if (type != mjJNT_FREE && type != mjJNT_BALL) continue;
    if (x.segment<4>(model->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0)).norm() < mjMINVAL) {
      element.Fail(fmt::format("qpos: the quaternion of joint '{}' has length 0", ElementName(model, mjOBJ_JOINT, j)));
    }
  }
}

// key="stand", or key="crouch@0 stand@0.5": the controls of keyframes at times
TimeSeries GuessKeys(const XmlElement& element, const mjModel* model) {
  const std::string text = *element.Text("key");
  if (text.find('@') == std::string::npos) return {VectorXd(), KnotAtKey(model, text).u};
  const std::vector<std::string> words = SplitBlanks(text);
  const Eigen::Index n = static_cast<Eigen::Index>(words.size());
  TimeSeries series{VectorXd(n), MatrixXd(model->nu, n)};
  for (Eigen::Index k = 0; k < n; ++k) {
    const std::string& word = words[static_cast<std::size_t>(k)];
    const std::size_t at = word.rfind('@');
    if (at == std::string::npos || !ParseNumber(word.substr(at + 1), &series.time[k])) {
      element.Fail(fmt::format("key: '{}' is no keyframe with a time, expected NAME@SECONDS", word));
    }
    if (k > 0 && series.time[k] <= series.time[k - 1]) {
      element.Fail(fmt::format("key: times must increase, '{}' does not", word));
    }
    series.values.col(k) = KnotAtKey(model, word.substr(0, at)).u;
  }
  return series;
}

}  // namespace

Start MakeStart(const mjModel* model, const std::string& key) {
  if (!key.empty()) {
    KeyKnot knot = KnotAtKey(model, key);
    return {std::move(knot.x), std::move(knot.u), std::move(knot.context)};
  }
  const DataPtr data = MakeData(model);
  return {GetState(model, data.get()), VectorXd::Zero(model->nu), GetContext(model, data.get())};
}

Start ReadStart(const XmlElement* element, const mjModel* model) {
  if (!element) return MakeStart(model, "");
  Start start;
  try {
    start = MakeStart(model, element->Text("key").value_or(""));
  } catch (const Error& error) {
    element->Fail(error.what(), error.code());
  }

  // numbers replace parts of the keyframe or of the default
  const Dims dims(model);
  SetPart(*element, "qpos", 0, dims.nq, model, &start.x);
  SetPart(*element, "qvel", dims.nq, dims.nv, model, &start.x);
  SetPart(*element, "act", dims.nq + dims.nv, dims.na, model, &start.x);
  CheckQuaternions(*element, model, start.x);
  mj_normalizeQuat(model, start.x.data());
  return start;
}

MatrixXd ReadGuess(const XmlElement* element, const Start& start, const std::string& folder, Task* task) {
  const mjModel* model = task->model.get();
  const int nu = static_cast<int>(model->nu);
  auto constant = [&](const VectorXd& u) -> MatrixXd { return u.replicate(1, task->N); };
  const bool names_controls =
      element && (element->Has("key") || element->Has("ctrl") || element->Has("file") || element->Has("hold"));
  MatrixXd U;
  if (nu == 0 && (!element || element->Has("hold") || !names_controls)) {
    return constant(VectorXd());
  } else if (!names_controls || element->Has("hold")) {
    return constant(HoldControl(*task, start.x, start.context, start.u));
  } else if (element->Has("key")) {
    try {
      U = Sample(GuessKeys(*element, model), task->N, model->opt.timestep * task->substeps);
    } catch (const Error& error) {
      element->Fail(error.what(), error.code());
    }
  } else if (element->Has("ctrl")) {
    VectorXd u = *element->Numbers("ctrl");
    if (u.size() == 1) u = VectorXd::Constant(nu, u[0]);
    if (u.size() != nu) {
      element->Fail(
          fmt::format("ctrl has {}, model '{}' has nu = {}", Count(u.size(), "number"), ModelName(model), nu));
    }
    U = constant(u);
  } else {
    try {
      const TimeSeries series = ReadTimeSeries(Resolve(folder, *element->Text("file")), ControlNames(model), false);
      U = Sample(series, task->N, model->opt.timestep * task->substeps);
    } catch (const Error& error) {
      element->Fail(error.what(), error.code());
    }
  }

  // within the limits
  MatrixXd clamped = U;
  for (int t = 0; t < task->N; ++t) clamped.col(t) = U.col(t).cwiseMax(task->u_lower).cwiseMin(task->u_upper);
  const Eigen::Index beyond = (clamped.array() != U.array()).count();
  if (beyond > 0) {
    task->warnings.push_back(
        fmt::format("{} of {} controls of the guess lay beyond their range and were clamped", beyond, U.size()));
  }
  return clamped;
}

void SetHorizon(double horizon, int substeps, Task* task) {
  const double dt = task->model->opt.timestep * substeps;
  const double knots = horizon / dt;
  if (!(knots >= 0.5)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, less than one control interval of {} x {:g} s", horizon, substeps,
                            task->model->opt.timestep));
  }
  if (knots > kMaxKnots) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, that is {:.0f} control intervals of {:g} s; at most {} are possible",
                            horizon, knots, dt, kMaxKnots));
  }
  task->substeps = substeps;
  task->N = static_cast<int>(std::lround(knots));
  if (std::abs(knots - task->N) > kDivides * knots) {
    task->warnings.push_back(
        fmt::format("horizon {:g} s is no whole number of control intervals of {:g} s: {} of them, {:g} s, are taken",
                    horizon, dt, task->N, task->N * dt));
  }
  ControlLimits(task->model.get(), &task->u_lower, &task->u_upper);
}

void CheckModel(const Task& task, bool names_inputs) {
  const mjModel* model = task.model.get();
  if (model->nv == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' ({}) has no degrees of freedom (nv = 0): nothing can move", ModelName(model),
                            task.model_file));
  }
  if (model->nu == 0 && !names_inputs) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' ({}) has no actuators (nu = 0): there is nothing to optimize", ModelName(model),
                            task.model_file));
  }
  if (model->opt.disableflags & mjDSBL_SENSOR) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("model '{}' ({}) disables sensors (<flag sensor=\"disable\"/>): costs are measured by them",
                            ModelName(model), task.model_file));
  }
}

}  // namespace costate
