// What the dispatcher (linearize.cc) asks of a level: the Jacobians of one engine step about a prepared mjData.
#ifndef COSTATE_DERIVATIVE_BACKEND_H_
#define COSTATE_DERIVATIVE_BACKEND_H_

#include <costate/derivative.h>

#include <memory>
#include <string>
#include <vector>

namespace costate {

class ParameterDifference;

/// Covectors of one step's results.
struct StepCovectors {
  ConstVectorRef next;     ///< λ, of the next state (ndx); empty: there is no step, only sensors
  ConstVectorRef sensors;  ///< σ, of the sensors at the point (ns); empty: none
  bool forces = false;     ///< are they wanted for applied forces too?
  bool step() const { return next.size() > 0; }
};

/// Why sensors are left to whole steps, as the coverage has it.
std::string SensorsReason(const Coverage& coverage);

/// What a level ends with. @return `finite`; if it is not, `missing` says so.
inline bool CoversIfFinite(bool finite, std::string* missing) {
  if (!finite) *missing = "the result is not finite";
  return finite;
}

/// One level of derivatives. The dispatcher owns everything around it: checking x and u, substeps, the choice of level.
///
/// On entry `data` holds the state, ctrl and context (mjSTATE_INTEGRATION) of the point; nothing else in it is
/// meaningful, and anything may be left in it. It is private to one Linearizer.
/// `model` has the structure of the model that the backend was made for (sizes, topology, types); values (masses,
/// gains, options) may differ between calls and are read each time. Its automatic reset and sleep are disabled. Calls
/// after the first at the same sizes must not allocate.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Jacobians of one mj_step: A, B and, when `sensors`, C and D (empty otherwise), status and coverage. That A and B
  /// are finite is found out here, while they are at hand; all else is checked by the dispatcher.
  /// @return false if this level does not cover this state; `missing` then names the first term and why.
  virtual bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out,
                         std::string* missing) = 0;

  /// C of mj_forward about the same point, and perhaps D; A and B are left empty. @return as Linearize.
  virtual bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) = 0;

  /// Sensors whose rows the last Linearize with sensors, or LinearizeSensors, leaves to whole steps, an entry a sensor;
  /// null: none.
  virtual const std::vector<char>* SensorsLeft() const { return nullptr; }

  /// C and D are of these sensors alone, an entry a sensor, null: of all. Rows of the others may be anything.
  virtual void SelectSensors(const std::vector<char>* /*wanted*/) {}

  /// Aᵀ λ + Cᵀ σ and Bᵀ λ + Dᵀ σ; when `forces`, also the pull-back to applied forces. Here by way of A … D, without
  /// forces.
  virtual bool Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
                   std::string* missing);

  /// A dx + B du. Here by way of A and B.
  virtual bool Jvp(const mjModel* model, mjData* data, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
                   std::string* missing);

  /// A and B, and the pull-back to x and u, about the point of a caller's `data`, which mj_forward has left and to which
  /// all but the stack is put back. @return false if that takes more than is there: `out` may then hold anything.
  virtual bool LinearizeAfterForward(const mjModel* /*model*/, mjData* /*data*/, StepDerivative* /*out*/) {
    return false;
  }
  virtual bool VjpAfterForward(const mjModel* /*model*/, mjData* /*data*/, ConstVectorRef /*lambda*/,
                               StepVjp* /*out*/) {
    return false;
  }

  /// P and, unless Ps is null, Ps; P null: the sensors alone. Columns that differences at fixed acceleration do not
  /// give are named by `theta->failed()`. @param data  as Linearize. @return as Linearize.
  virtual bool Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                          std::string* missing) = 0;

  /// Pᵀ λ + Psᵀ σ right after Vjp, with `data` as that left it. Here by way of P and Ps.
  /// @param point  mjSTATE_INTEGRATION of the point.
  virtual bool PullParameters(const mjModel* model, mjData* data, const VectorXd& point, const StepCovectors& covectors,
                              ParameterDifference* theta, VectorXd* pulled, std::string* missing);

  /// Derivatives of qacc about the same point. @return as Linearize.
  virtual bool LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out,
                                     std::string* missing) = 0;

  /// Derivatives of qfrc_inverse about the state in `data` at acceleration qacc. @return as Linearize.
  virtual bool LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                                std::string* missing) = 0;

 private:
  StepDerivative matrices_;
  MatrixXd P_, Ps_;
};

/// Levels 1 and 2. A null result means that the level does not cover the model; `missing` names the first term and why.
/// (Level 3, step_difference.h, covers every model.)
std::unique_ptr<Backend> MakeAnalyticBackend(const mjModel* model, const LinearizeOptions& options,
                                             std::string* missing);
std::unique_ptr<Backend> MakeResidualBackend(const mjModel* model, const LinearizeOptions& options,
                                             std::string* missing);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_BACKEND_H_
