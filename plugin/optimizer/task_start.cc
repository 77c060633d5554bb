#include "optimizer/task_start.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "optimizer/task_csv.h"
#include "optimizer/task_target.h"
#include "optimizer/task_term.h"

namespace costate {
namespace {

constexpr int kMaxKnots = 1000000;       // beyond it a trajectory does not fit into memory
constexpr double kDivides = 1e-6;        // relative: a horizon this near to a whole number of knots is one
constexpr double kHoldEps = 1e-6;        // difference in u, relative to the range of the control
constexpr double kHoldDamping = 1e-8;    // of the least squares, relative to its largest curvature
constexpr int kHoldIterations = 20;
constexpr double kAtRest = 1e-10;        // [sqrt(kg) m/s] what a step may change in a state that is held

// one part of a state given in numbers
void SetPart(const XmlElement& element, const char* attribute, int offset, int size, const mjModel* model, VectorXd* x) {
  const std::optional<VectorXd> numbers = element.Numbers(attribute);
  if (!numbers) return;
  if (numbers->size() != size) {
    element.Fail(fmt::format("{} has {}, model '{}' has {}", attribute, Count(numbers->size(), "number"), ModelName(model), size));
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
    if (k > 0 && series.time[k] <= series.time[k - 1]) element.Fail(fmt::format("key: times must increase, '{}' does not", word));
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

VectorXd HoldControl(const Task& task, const VectorXd& x_start, const VectorXd& context, const VectorXd& u_start) {
  const mjModel* model = task.model.get();
  const Dims dims(model);
  const DataPtr data = MakeData(model);
  VectorXd x = x_start;
  x.segment(dims.nq, dims.nv).setZero();
  const VectorXd root_mass = Eigen::Map<const VectorXd>(model->dof_M0, dims.nv).cwiseMax(mjMINVAL).cwiseSqrt();

  // what one step changes, masses as weights; empty when the step fails
  VectorXd x_next(dims.nx), none;
  auto residual = [&](const VectorXd& u) -> VectorXd {
    SetContext(model, data.get(), context);
    if (Step(model, data.get(), x, u, 1, x_next, none) != StepStatus::kOk) return VectorXd();
    VectorXd r(dims.nv + dims.na);
    r << root_mass.cwiseProduct(x_next.segment(dims.nq, dims.nv)), x_next.tail(dims.na) - x.tail(dims.na);
    return r;
  };
  VectorXd u = u_start.cwiseMax(task.u_lower).cwiseMin(task.u_upper);
  VectorXd r = residual(u);
  if (r.size() == 0) return u;

  MatrixXd J(r.size(), dims.nu);
  for (int iteration = 0; iteration < kHoldIterations && r.norm() > kAtRest; ++iteration) {
    // differences of r towards the inside of the limits
    for (int i = 0; i < dims.nu; ++i) {
      const double range = task.u_upper[i] - task.u_lower[i];
      double h = kHoldEps * (std::isfinite(range) ? range : 1 + std::abs(u[i]));
      if (u[i] + h > task.u_upper[i]) h = -h;
      VectorXd u_nudged = u;
      u_nudged[i] += h;
      const VectorXd r_nudged = residual(u_nudged);
      if (r_nudged.size() == 0 || h == 0) return u;
      J.col(i) = (r_nudged - r) / h;
    }

    // (JᵀJ + damping) du = -Jᵀ r, clamped; controls that the limits hold take no part
    const VectorXd gradient = J.transpose() * r;
    MatrixXd H = J.transpose() * J;
    const double damping = std::max(kHoldDamping * H.diagonal().maxCoeff(), mjMINVAL);
    VectorXd right = -gradient;
    for (int i = 0; i < dims.nu; ++i) {
      const bool held = (u[i] <= task.u_lower[i] && gradient[i] > 0) || (u[i] >= task.u_upper[i] && gradient[i] < 0);
      if (held) {
        H.row(i).setZero();
        H.col(i).setZero();
        right[i] = 0;
      }
      H(i, i) += damping;
    }
    const VectorXd du = H.ldlt().solve(right);

    // halve the step until r shrinks
    double alpha = 1;
    bool accepted = false;
    for (int halving = 0; halving < 10 && !accepted; ++halving, alpha *= 0.5) {
      const VectorXd u_new = (u + alpha * du).cwiseMax(task.u_lower).cwiseMin(task.u_upper);
      const VectorXd r_new = residual(u_new);
      if (r_new.size() == 0 || r_new.squaredNorm() >= r.squaredNorm() * (1 - 1e-9)) continue;
      u = u_new;
      r = r_new;
      accepted = true;
    }
    if (!accepted) break;
  }
  return u;
}

MatrixXd ReadGuess(const XmlElement* element, const Start& start, const std::string& folder, Task* task) {
  const mjModel* model = task->model.get();
  const int nu = static_cast<int>(model->nu);
  auto constant = [&](const VectorXd& u) -> MatrixXd { return u.replicate(1, task->N); };
  MatrixXd U;
  if (!element || element->Has("hold")) {
    return constant(HoldControl(*task, start.x, start.context, start.u));
  } else if (element->Has("key")) {
    try {
      U = Sample(GuessKeys(*element, model), task->N, model->opt.timestep * task->substeps);
    } catch (const Error& error) {
      element->Fail(error.what(), error.code());
    }
  } else if (element->Has("ctrl")) {
    const VectorXd u = *element->Numbers("ctrl");
    if (u.size() != nu) {
      element->Fail(fmt::format("ctrl has {}, model '{}' has nu = {}", Count(u.size(), "number"), ModelName(model), nu));
    }
    U = constant(u);
  } else {
    try {
      const TimeSeries series =
          ReadTimeSeries(Resolve(folder, *element->Text("file")), ControlNames(model), false);
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
    task->warnings.push_back(fmt::format("{} of {} controls of the guess lay beyond their range and were clamped", beyond, U.size()));
  }
  return clamped;
}

void SetHorizon(double horizon, int substeps, Task* task) {
  const double dt = task->model->opt.timestep * substeps;
  const double knots = horizon / dt;
  if (!(knots >= 0.5)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, less than one control interval of {} x {:g} s", horizon, substeps, task->model->opt.timestep));
  }
  if (knots > kMaxKnots) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("horizon is {:g} s, that is {:.0f} control intervals of {:g} s; at most {} are possible", horizon, knots, dt, kMaxKnots));
  }
  task->substeps = substeps;
  task->N = static_cast<int>(std::lround(knots));
  if (std::abs(knots - task->N) > kDivides * knots) {
    task->warnings.push_back(fmt::format("horizon {:g} s is no whole number of control intervals of {:g} s: {} of them, {:g} s, are taken",
                                         horizon, dt, task->N, task->N * dt));
  }
  ControlLimits(task->model.get(), &task->u_lower, &task->u_upper);
}

void CheckModel(const Task& task) {
  const mjModel* model = task.model.get();
  if (model->nv == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' ({}) has no degrees of freedom (nv = 0): nothing can move", ModelName(model), task.model_file));
  }
  if (model->nu == 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("model '{}' ({}) has no actuators (nu = 0): there is nothing to optimize",
                                                         ModelName(model), task.model_file));
  }
  if (model->opt.disableflags & mjDSBL_SENSOR) {
    throw Error(ErrorCode::kUnsupported, fmt::format("model '{}' ({}) disables sensors (<flag sensor=\"disable\"/>): costs are measured by them",
                                                     ModelName(model), task.model_file));
  }
}

}  // namespace costate
