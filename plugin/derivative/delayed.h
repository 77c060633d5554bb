// Models with delays at levels 1 and 2: what is delayed comes from the history, which is context. (H1) of README.md.
#ifndef COSTATE_DERIVATIVE_DELAYED_H_
#define COSTATE_DERIVATIVE_DELAYED_H_

#include <memory>
#include <string>
#include <vector>

#include "derivative/backend.h"

namespace costate {

/// Why the step is not that of the same model without delays, fed with the delayed controls; "" when it is.
std::string DelayMissing(const mjModel* model);

/// Why level 2 does not cover the model's delays: its evaluations may read the history themselves. "" when it does.
std::string DelayRefusal(const mjModel* model);

/// Has this sensor values of the past: is it late, or does it keep its value for an interval?
bool HasPast(const mjModel* model, int sensor);

/// A level for the same model without delays, fed with the delayed controls; where that is not the step, level 2 itself
/// evaluates the model with its delays.
class DelayedBackend final : public Backend {
 public:
  /// @param may_read  `backend` may be given the model with its delays.
  DelayedBackend(const mjModel* model, std::unique_ptr<Backend> backend, bool may_read);

  bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string* missing) override;
  bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) override;
  const std::vector<char>* SensorsLeft() const override { return backend_->SensorsLeft(); }
  void SelectSensors(const std::vector<char>* wanted) override { backend_->SelectSensors(wanted); }
  bool Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out,
           std::string* missing) override;
  bool Jvp(const mjModel* model, mjData* data, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
           std::string* missing) override;
  bool PullParameters(const mjModel* model, mjData* data, const VectorXd& point, const StepCovectors& covectors,
                      ParameterDifference* theta, VectorXd* pulled, std::string* missing) override;
  bool Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                  std::string* missing) override;
  bool LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out,
                             std::string* missing) override;
  bool LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                        std::string* missing) override;

 private:
  bool Enter(const mjModel* model, mjData* data, bool sensors, std::string* missing);
  void FindSilent(const mjModel* model, mjData* data);
  void ClearSensors(const mjModel* model, StepDerivative* out) const;

  std::unique_ptr<Backend> backend_;
  bool may_read_, reads_ = false;  // the history
  mjModel local_;
  std::vector<mjtNum> actuator_delay_, sensor_delay_, sensor_interval_;  // zeros
  std::vector<char> silent_;                                             // sensors with a value of the past
  MatrixXd du_;
  VectorXd sensors_, history_;
  VectorXd entered_;  // mjSTATE_INTEGRATION of the last pull-back, with what the actuators get
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_DELAYED_H_
