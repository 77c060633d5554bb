// Models with delays at levels 1 and 2: what is delayed comes from the history, which is context. (H1) of README.md.
#ifndef COSTATE_DERIVATIVE_DELAYED_H_
#define COSTATE_DERIVATIVE_DELAYED_H_

#include <memory>
#include <string>
#include <vector>

#include "derivative/backend.h"

namespace costate {

/// Why the history is not mere context of one step; "" when it is.
std::string DelayMissing(const mjModel* model);

/// A level for the same model without delays, fed with the delayed controls.
class DelayedBackend final : public Backend {
 public:
  DelayedBackend(const mjModel* model, std::unique_ptr<Backend> backend);

  bool Linearize(const mjModel* model, mjData* data, bool sensors, StepDerivative* out, std::string* missing) override;
  bool LinearizeSensors(const mjModel* model, mjData* data, StepDerivative* out, std::string* missing) override;
  bool Vjp(const mjModel* model, mjData* data, const StepCovectors& covectors, StepVjp* out, std::string* missing) override;
  bool Jvp(const mjModel* model, mjData* data, ConstMatrixRef dx, ConstMatrixRef du, StepJvp* out,
           std::string* missing) override;
  bool PullParameters(const mjModel* model, mjData* data, const VectorXd& point, const StepCovectors& covectors,
                      ParameterDifference* theta, VectorXd* pulled, std::string* missing) override;
  bool Parameters(const mjModel* model, mjData* data, ParameterDifference* theta, MatrixXd* P, MatrixXd* Ps,
                  std::string* missing) override;
  bool LinearizeAcceleration(const mjModel* model, mjData* data, AccelerationDerivative* out, std::string* missing) override;
  bool LinearizeInverse(const mjModel* model, mjData* data, ConstVectorRef qacc, InverseDerivative* out,
                        std::string* missing) override;

 private:
  bool Enter(const mjModel* model, mjData* data, std::string* missing);
  void ClearSensors(const mjModel* model, StepDerivative* out) const;

  std::unique_ptr<Backend> backend_;
  mjModel local_;
  std::vector<mjtNum> actuator_delay_, sensor_delay_;  // zeros
  MatrixXd du_;
  VectorXd sensors_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_DELAYED_H_
