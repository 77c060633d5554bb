// The flow between impacts: the model's step without the contacts that are impacts, of any duration. (E1) of README.md.
#ifndef COSTATE_SMOOTH_IMPACT_FLOW_H_
#define COSTATE_SMOOTH_IMPACT_FLOW_H_

#include <costate/derivative.h>

#include <string>

namespace costate {

class ImpactFlow {
 public:
  /// @param model  a copy without the contacts; its timestep is set before each call.
  ImpactFlow(ModelPtr model, Level level);

  mjData* data() { return data_.get(); }
  double timestep() const { return timestep_; }  ///< of an engine step, h
  void SetContext(ConstVectorRef context) { context_ = context; }

  /// x' = φ_s(x, u) at `time` after the context's own; s ≥ 0.
  StepStatus Move(ConstVectorRef x, ConstVectorRef u, double time, double s, VectorXd* x_next);

  /// A, B of φ_s, and ∂φ_s/∂s in the tangent space at φ_s when `rate` is not null.
  /// @param rate_error  receives its error relative to its largest entry or 1.
  StepStatus Linearize(ConstVectorRef x, ConstVectorRef u, double time, double s, StepDerivative* out, VectorXd* rate,
                       double* rate_error);

 private:
  StepStatus Rate(ConstVectorRef x, ConstVectorRef u, double time, double s, VectorXd* rate, double* error);
  void SetTime(double time);

  ModelPtr model_;
  DataPtr data_;
  double timestep_;
  VectorXd context_, now_;
  Linearizer linearizer_;
};

}  // namespace costate

#endif  // COSTATE_SMOOTH_IMPACT_FLOW_H_
