#include "derivative/check_states.h"

#include <costate/step.h>
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "core/actuator_range.h"
#include "core/collision_filter.h"
#include "core/engine_guard.h"
#include "core/joint.h"
#include "core/number.h"
#include "core/read_file.h"
#include "core/warnings.h"

namespace costate {
namespace {

constexpr double kRandomPosition = 0.05;         // [m or rad] away from the given state, for the free motion
constexpr double kMostControl = 0.1 * mjMAXVAL;  // what is larger the engine would not take
constexpr double kRandomVelocity = 0.5;          // [m/s or rad/s] of the free motion
constexpr double kSettleLimit = 5;               // [s] to wait for a contact …
constexpr int kSettleSteps = 5000;               // … and engine steps
constexpr double kSettleAfter = 0.1;             // [s] on after the first contact, past the impact

// numbers of a text file, separated by white space or commas; # starts a comment
std::vector<double> ReadNumbers(const std::string& path) {
  std::istringstream file(ReadFile(path, "state file '" + path + "'"));
  std::vector<double> numbers;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = line.substr(0, line.find('#'));
    for (char& c : line) c = c == ',' ? ' ' : c;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      double value = 0;
      if (LeadingNumber(word, &value) != word.size()) {
        throw Error(ErrorCode::kParse, fmt::format("{}:{}: '{}' is not a number", path, number, word));
      }
      numbers.push_back(value);
    }
  }
  return numbers;
}

void LoadStateFile(const mjModel* model, const std::string& path, mjData* data) {
  const Dims dims(model);
  const std::vector<double> numbers = ReadNumbers(path);
  const int n = static_cast<int>(numbers.size());
  if (n != dims.nx && n != dims.nx + dims.nu) {
    throw Error(
        ErrorCode::kDimensionMismatch,
        fmt::format("state file '{}' has {} numbers, model '{}' needs nx = {} (qpos, qvel, act), or {} with ctrl", path,
                    n, ModelName(model), dims.nx, dims.nx + dims.nu));
  }
  mj_setState(model, data, numbers.data(), kStateSignature);
  if (n > dims.nx) mj_setState(model, data, numbers.data() + dims.nx, mjSTATE_CTRL);
}

// does a contact exert force?
bool HasContacts(const mjData* data) {
  for (int i = 0; i < data->ncon; ++i) {
    if (data->contact[i].efc_address >= 0 || data->contact[i].exclude == 4) return true;
  }
  return false;
}

// passive steps with the controls that are there
bool StepOn(const mjModel* model, mjData* data, int steps, const std::function<bool(int)>& go_on) {
  for (int i = 0; i < steps; ++i) {
    if (go_on && !go_on(i)) return false;
    VectorXd nothing, sensors;
    const StepStatus status = Step(model, data, GetState(model, data),
                                   Eigen::Map<const VectorXd>(data->ctrl, model->nu), 1, nothing, sensors);
    if (status != StepStatus::kOk) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("step {} of {}: {}", i + 1, steps, ToString(status)));
    }
  }
  return true;
}

DataPtr CopyOf(const mjModel* model, const mjData* data) {
  DataPtr copy = MakeData(model);
  mj_copyState(model, data, copy.get(), mjSTATE_INTEGRATION);
  return copy;
}

// A smooth point near the given one: positions moved a little, limited joints inside their range (at its edge nothing
// is smooth), random velocities and controls; always the same numbers.
void Randomize(const mjModel* model, mjData* data) {
  std::mt19937 engine(1);
  auto uniform = [&engine](double lower, double upper) {
    return lower + (upper - lower) * (static_cast<double>(engine()) / 4294967296.0);
  };
  VectorXd dq(model->nv);
  for (int i = 0; i < model->nv; ++i) dq[i] = uniform(-kRandomPosition, kRandomPosition);
  mj_integratePos(model, data->qpos, dq.data(), 1);
  for (int i = 0; i < model->njnt; ++i) {
    const int type = model->jnt_type[i];
    if (!model->jnt_limited[i] || !IsScalarJoint(type)) continue;
    const mjtNum* range = model->jnt_range + 2 * i;
    const double margin = std::max(0.05 * (range[1] - range[0]), model->jnt_margin[i]);
    double& q = data->qpos[model->jnt_qposadr[i]];
    if (2 * margin < range[1] - range[0]) q = std::clamp(q, range[0] + margin, range[1] - margin);
  }
  for (int i = 0; i < model->nv; ++i) data->qvel[i] = uniform(-kRandomVelocity, kRandomVelocity);
  for (int i = 0; i < model->nu; ++i) {
    const mjtNum* range = ControlRange(model, i);
    data->ctrl[i] = range != nullptr ? uniform(std::max(range[0], -kMostControl), std::min(range[1], kMostControl))
                                     : uniform(-1, 1);
  }
}

// a shallow copy: derivatives are of models that do not sleep, and the engine refuses to put some equalities to sleep
mjModel Awake(const mjModel* model) {
  mjModel awake = *model;
  awake.opt.enableflags &= ~mjENBL_SLEEP;
  return awake;
}

// steps until contacts carry force, then on past the impact; where the motion diverges soon after that, the first
// contact is where it was still a motion; false when none appears
bool Settle(const mjModel* model, mjData* data, double* seconds) {
  EngineGuard guard(data, EngineGuard::Around::kEngine);
  mjModel local = Awake(model);
  local.opt.disableflags |= mjDSBL_AUTORESET;
  const double start = data->time, h = model->opt.timestep;
  const int limit = std::min(kSettleSteps, static_cast<int>(kSettleLimit / h) + 1);
  const int after = static_cast<int>(kSettleAfter / h) + 1;
  VectorXd touching, last, before(mj_stateSize(model, mjSTATE_INTEGRATION));
  int first = -1;
  for (int i = 0; i < limit && (first < 0 || i <= first + 2 * after); ++i) {
    mj_getState(&local, data, before.data(), mjSTATE_INTEGRATION);
    bool stepped = true;
    try {
      mj_step(&local, data);
    } catch (const Error&) {  // what has blown up has no frames of contact, and the like
      stepped = false;
    }
    if (!stepped || StatusOfWarnings(data) == StepStatus::kBadState) {
      last = touching;
      break;
    }
    if (!HasContacts(data)) continue;
    if (first < 0) {
      first = i;
      touching = before;
    }
    if (i <= first + after) last = before;
  }
  guard.TakeWarnings();
  if (first < 0) return false;
  mj_setState(&local, data, last.data(), mjSTATE_INTEGRATION);
  *seconds = data->time - start;
  return true;
}

}  // namespace

std::vector<CheckState> MakeCheckStates(const mjModel* model, const CheckStateOptions& options,
                                        std::vector<std::string>* notes) {
  std::vector<CheckState> states;
  CheckState given{"given", "", nullptr, false};
  given.data = options.key.empty() ? MakeData(model) : MakeDataAtKey(model, options.key);
  given.description = options.key.empty() ? "default state" : "keyframe '" + options.key + "'";
  if (!options.state_file.empty()) {
    LoadStateFile(model, options.state_file, given.data.get());
    given.description = "state file '" + options.state_file + "'";
  }
  if (options.steps > 0) {
    if (!StepOn(model, given.data.get(), options.steps, options.go_on)) return {};
    given.description += fmt::format(", {} steps later", options.steps);
  }

  // a copy is looked at, so that nothing but the state is handed on
  const bool possible = CanHaveContacts(model);
  DataPtr probe = CopyOf(model, given.data.get());
  {
    EngineGuard guard(probe.get(), EngineGuard::Around::kEngine);
    const mjModel awake = Awake(model);
    mj_forward(&awake, probe.get());
  }
  const bool touching = HasContacts(probe.get());
  if (possible) given.description += touching ? ", in contact" : ", no contact";

  CheckState motion{"free motion", "near the given state, random velocities and controls", nullptr, possible};
  motion.data = CopyOf(model, given.data.get());
  Randomize(model, motion.data.get());
  if (possible) motion.description += ", contacts disabled";

  CheckState contact{"contact", "", CopyOf(model, given.data.get()), false};
  double seconds = 0;
  const bool settled = possible && !touching && Settle(model, contact.data.get(), &seconds);
  if (settled) contact.description = fmt::format("{:.4g} s after the given state, in contact", seconds);
  if (possible && !touching && !settled) {
    notes->push_back(
        fmt::format("no contact was found within {} s from the given state; start from a state that leads to "
                    "one (--key, --state)",
                    kSettleLimit));
  }
  if (!possible) notes->push_back("this model cannot have contacts");

  states.push_back(std::move(given));
  states.push_back(std::move(motion));
  if (settled) states.push_back(std::move(contact));
  return states;
}

}  // namespace costate
