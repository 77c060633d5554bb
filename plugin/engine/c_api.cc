// The C interface. Nothing throws or prints past it.
#include <costate/certificate.h>
#include <costate/costate_c.h>
#include <costate/derivative.h>
#include <costate/residual.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/extremes.h"
#include "core/simd.h"
#include "engine/c_call.h"
#include "engine/model_key.h"
#include "engine/python_callbacks.h"
#include "engine/two_engines.h"

namespace costate {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// what is asked for of sensors
enum class Sensors { kNone, kAll, kEither };

// what a thread keeps from call to call: the linearizers of the last few combinations, those used last first
class Cache {
 public:
  VectorXd x, u, context;
  StepDerivative derivative;
  StepVjp vjp;
  bool busy = false;  // a call is at work on this thread

  Linearizer* Get(const mjModel* m, int level, Sensors sensors) {
    wanted_.Read(m);
    std::size_t n = 0;
    while (n < kept_.size() && !kept_[n].Serves(wanted_, level, sensors)) n++;
    if (n == kept_.size()) {
      if (n == kMost) kept_.pop_back();
      LinearizeOptions options;
      options.level = static_cast<Level>(level);
      options.sensors = sensors == Sensors::kAll;
      kept_.insert(kept_.begin(), {wanted_, level, options.sensors, std::make_unique<Linearizer>(m, options)});
    } else {
      std::rotate(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(n),
                  kept_.begin() + static_cast<std::ptrdiff_t>(n) + 1);
    }
    in_use_ = true;
    return kept_.front().linearizer.get();
  }

  // the call's work is done. A plugin's data may depend on attributes that the key does not see
  void Release(const mjModel* m) {
    in_use_ = false;
    if (m->nplugin > 0) kept_.erase(kept_.begin());
  }

  // a failure may have left a linearizer half way
  void DropWhatFailed() {
    if (in_use_) kept_.erase(kept_.begin());
    in_use_ = false;
  }

 private:
  static constexpr std::size_t kMost = 4;
  struct Kept {
    ModelKey key;
    int level;
    bool sensors;
    std::unique_ptr<Linearizer> linearizer;
    bool Serves(const ModelKey& wanted, int wanted_level, Sensors of) const {
      return level == wanted_level && (of == Sensors::kEither || sensors == (of == Sensors::kAll)) && key == wanted;
    }
  };
  ModelKey wanted_;
  std::vector<Kept> kept_;
  bool in_use_ = false;
};
thread_local Cache cache;

// columns to rows by squares of four, down eight rows at a time: one cache line of each column
COSTATE_SIMD void WriteRows(std::ptrdiff_t rows, std::ptrdiff_t cols, const double* in, mjtNum* out) {
  const std::ptrdiff_t whole = rows / 4 * 4, squares = cols / 4 * 4;
  for (std::ptrdiff_t begin = 0; begin < whole; begin += 8) {
    const std::ptrdiff_t end = std::min(begin + 8, whole);
    for (std::ptrdiff_t c = 0; c < squares; c += 4) {
      for (std::ptrdiff_t r = begin; r < end; r += 4) {
        const double* from = in + c * rows + r;
        const auto column = [&](int k) __attribute__((always_inline)) {
          return Double4(*reinterpret_cast<const Loose4*>(from + k * rows));
        };
        Double4 row[4];
        Transpose4(column(0), column(1), column(2), column(3), row);
        for (int k = 0; k < 4; k++) *reinterpret_cast<Loose4*>(out + (r + k) * cols + c) = row[k];
      }
    }
  }
  for (std::ptrdiff_t c = 0; c < cols; c++) {
    for (std::ptrdiff_t r = c < squares ? whole : 0; r < rows; r++) out[r * cols + c] = in[c * rows + r];
  }
}

void Write(const MatrixXd& matrix, mjtNum* out) {
  if (out != nullptr) WriteRows(matrix.rows(), matrix.cols(), matrix.data(), out);
}

void Write(const VectorXd& vector, mjtNum* out) {
  if (out != nullptr) Eigen::Map<VectorXd>(out, vector.size()) = vector;
}

void CheckEngine() {
  static thread_local const bool one_engine = (RefuseTwoEngines(), true);  // asked again where it throws
  (void)one_engine;
}

// the linearizer for m, and data of it
Linearizer* For(const mjModel* m, const mjData* d, int level, Sensors sensors) {
  CheckEngine();
  RefuseNull(m, "m");
  RefuseNull(d, "d");
  if (level < 0 || level > 3) {
    throw Error(ErrorCode::kInvalidArgument,
                "level is " + std::to_string(level) +
                    ", it is 0 (best available), 1 (analytic), 2 (residual difference) or 3 "
                    "(step difference)");
  }
  RefusePythonCallbacks();
  CheckData(m, d);
  return cache.Get(m, level, sensors);
}

// the same with the point in cache.x and cache.u; d is only read: its stack and derived quantities may be in use
Linearizer* AtPoint(const mjModel* m, const mjData* d, int level, Sensors sensors) {
  Linearizer* linearizer = For(m, d, level, sensors);
  cache.context.resize(mj_stateSize(m, kContextSignature));
  cache.x.resize(mj_stateSize(m, kStateSignature));
  mj_getState(m, d, cache.context.data(), kContextSignature);
  mj_getState(m, d, cache.x.data(), kStateSignature);
  cache.u = Eigen::Map<const VectorXd>(d->ctrl, m->nu);
  linearizer->SetContext(cache.context);
  return linearizer;
}

void Finish(const mjModel* m, StepStatus status) {
  cache.Release(m);
  if (status != StepStatus::kOk)
    throw Error(ErrorCode::kInvalidArgument, std::string("the step fails: ") + ToString(status));
}

void Transition(const mjModel* m, const mjData* d, int level, mjtNum* A, mjtNum* B, mjtNum* C, mjtNum* D) {
  AtPoint(m, d, level, C || D ? Sensors::kAll : Sensors::kNone)->Linearize(cache.x, cache.u, &cache.derivative);
  Finish(m, cache.derivative.status);
  Write(cache.derivative.A, A);
  Write(cache.derivative.B, B);
  Write(cache.derivative.C, C);
  Write(cache.derivative.D, D);
}

void Vjp(const mjModel* m, const mjData* d, int level, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
         mjtNum* qfrc_bar) {
  RefuseNull(lambda, "lambda");
  Linearizer* linearizer = AtPoint(m, d, level, Sensors::kEither);
  const Eigen::Map<const VectorXd> covector(lambda, 2 * m->nv + m->na);
  linearizer->Vjp(cache.x, cache.u, covector, &cache.vjp, qfrc_bar != nullptr);
  Finish(m, cache.vjp.status);
  Write(cache.vjp.x, x_bar);
  Write(cache.vjp.u, u_bar);
  Write(cache.vjp.qfrc, qfrc_bar);
}

void TransitionAfterForward(const mjModel* m, mjData* d, mjtNum* A, mjtNum* B) {
  For(m, d, 0, Sensors::kEither)->LinearizeAfterForward(d, &cache.derivative);
  Finish(m, cache.derivative.status);
  Write(cache.derivative.A, A);
  Write(cache.derivative.B, B);
}

void VjpAfterForward(const mjModel* m, mjData* d, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar) {
  RefuseNull(lambda, "lambda");
  Linearizer* linearizer = For(m, d, 0, Sensors::kEither);
  linearizer->VjpAfterForward(d, Eigen::Map<const VectorXd>(lambda, 2 * m->nv + m->na), &cache.vjp);
  Finish(m, cache.vjp.status);
  Write(cache.vjp.x, x_bar);
  Write(cache.vjp.u, u_bar);
}

int CoverageOf(const mjModel* m, const mjData* d, int level, bool sensors, std::string* text) {
  AtPoint(m, d, level, sensors ? Sensors::kAll : Sensors::kNone)->Linearize(cache.x, cache.u, &cache.derivative);
  Finish(m, cache.derivative.status);
  for (const TermCoverage& term : cache.derivative.coverage.terms) {
    if (term.level == Level::kAnalytic) continue;
    *text += fmt::format("{}{}: {}{}{}", text->empty() ? "" : "\n", term.term, ToString(term.level),
                         term.reason.empty() ? "" : ", ", term.reason);
  }
  return static_cast<int>(cache.derivative.coverage.Worst());
}

int CertifyPoint(const mjModel* m, const mjData* d, std::string* text) {
  CheckEngine();
  RefuseNull(m, "m");
  RefuseNull(d, "d");
  RefusePythonCallbacks();
  CheckData(m, d);
  const CertifyOptions options;
  const Certificate certificate = Certify(m, d, options);
  if (!certificate.valid) throw Error(ErrorCode::kInvalidArgument, "the step fails");
  const auto add = [&](const std::string& line) { *text += (text->empty() ? "" : "\n") + line; };
  for (const Switch& s : certificate.switches) {
    if (s.distance > options.reach) continue;
    add(fmt::format("{}, {}: {} at {:.3g} {}", s.name, s.state, s.next, s.distance, s.unit));
  }
  for (const std::string& input : certificate.one_sided) add(input + ": on the edge of its range, the slope inside");
  return certificate.label == Smoothness::kSmooth ? COSTATE_SMOOTH : COSTATE_MODE_CROSSING;
}

// the caller's functions behind a C++ callback; matrices are row-major on their side
void RegisterResidualOf(const char* name, int size, int reads, costate_residual_value value,
                        costate_residual_jacobian jacobian, void* user) {
  RefuseNull(name, "name");
  RefuseNull(value, "value");
  if (reads & ~(COSTATE_READS_STATE | COSTATE_READS_CONTROL)) {
    throw Error(ErrorCode::kInvalidArgument,
                "reads is " + std::to_string(reads) + ", expected COSTATE_READS_STATE, COSTATE_READS_CONTROL or both");
  }
  const auto input = [](const ResidualInput& in) {
    const int measured = static_cast<int>(in.measured.size());
    const double* u = in.t < in.N ? in.u.data() : nullptr;
    return costate_residual_input{in.model, in.t, in.N, in.time, in.measured.data(), measured, in.x.data(), u};
  };
  ResidualCallback callback;
  callback.size = size;
  callback.reads_state = (reads & COSTATE_READS_STATE) != 0;
  callback.reads_control = (reads & COSTATE_READS_CONTROL) != 0;
  callback.value = [=](const ResidualInput& in, Eigen::Ref<VectorXd> r) {
    const costate_residual_input point = input(in);
    r.setConstant(kNan);  // a callback that fails, as an exception in Python does, leaves it
    value(user, &point, r.data());
  };
  if (jacobian != nullptr) {
    callback.jacobian = [=](const ResidualInput& in, ResidualJacobian* J) {
      const costate_residual_input point = input(in);
      // as for values: what a callback that fails leaves is no slope of 0
      RowMajor by_measured = RowMajor::Constant(J->measured.rows(), J->measured.cols(), kNan),
               by_x = RowMajor::Constant(J->x.rows(), J->x.cols(), kNan),
               by_u = RowMajor::Constant(J->u.rows(), J->u.cols(), kNan);
      jacobian(user, &point, by_measured.data(), by_x.size() > 0 ? by_x.data() : nullptr,
               by_u.size() > 0 ? by_u.data() : nullptr);
      J->measured = by_measured;
      J->x = by_x;
      J->u = by_u;
    };
  }
  RegisterResidual(name, std::move(callback));
}

// A callback of the engine that calls again, from a step in the midst of a call on its thread, would write over what that
// one works on.
template <typename F>
int CallWithCache(char* error, int error_sz, F call) {
  if (cache.busy) {
    return CallFromC(error, error_sz, [] {
      throw Error(ErrorCode::kInvalidArgument,
                  "a derivative is being made on this thread: a callback of the engine that is called in its steps "
                  "cannot ask for another");
    });
  }
  cache.busy = true;
  const int failed = CallFromC(error, error_sz, call);
  cache.busy = false;
  if (failed) cache.DropWhatFailed();
  return failed;
}

}  // namespace
}  // namespace costate

const char* costate_version(void) { return COSTATE_VERSION; }

int costate_transition(const mjModel* m, const mjData* d, int level, mjtNum* A, mjtNum* B, mjtNum* C, mjtNum* D,
                       char* error, int error_sz) {
  return costate::CallWithCache(error, error_sz, [&] { costate::Transition(m, d, level, A, B, C, D); });
}

int costate_vjp(const mjModel* m, const mjData* d, int level, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
                mjtNum* qfrc_bar, char* error, int error_sz) {
  return costate::CallWithCache(error, error_sz, [&] { costate::Vjp(m, d, level, lambda, x_bar, u_bar, qfrc_bar); });
}

int costate_transition_after_forward(const mjModel* m, mjData* d, mjtNum* A, mjtNum* B, char* error, int error_sz) {
  return costate::CallWithCache(error, error_sz, [&] { costate::TransitionAfterForward(m, d, A, B); });
}

int costate_vjp_after_forward(const mjModel* m, mjData* d, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
                              char* error, int error_sz) {
  return costate::CallWithCache(error, error_sz, [&] { costate::VjpAfterForward(m, d, lambda, x_bar, u_bar); });
}

int costate_coverage(const mjModel* m, const mjData* d, int level, int sensors, char* text, int text_sz) {
  std::string terms;
  int worst = 0;
  if (costate::CallWithCache(text, text_sz, [&] { worst = costate::CoverageOf(m, d, level, sensors != 0, &terms); })) {
    return 0;
  }
  costate::WriteError(terms.c_str(), text, text_sz);
  return worst;
}

int costate_certify(const mjModel* m, const mjData* d, char* text, int text_sz) {
  std::string switches;
  int label = 0;
  const int failed =
      costate::SimulateFromC("costate_certify", text, text_sz, [&] { label = costate::CertifyPoint(m, d, &switches); });
  if (failed) return -1;
  costate::WriteError(switches.c_str(), text, text_sz);
  return label;
}

int costate_register_residual(const char* name, int size, int reads, costate_residual_value value,
                              costate_residual_jacobian jacobian, void* user, char* error, int error_sz) {
  return costate::CallFromC(error, error_sz,
                            [&] { costate::RegisterResidualOf(name, size, reads, value, jacobian, user); });
}
