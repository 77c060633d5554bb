// Derivatives by parameters at fixed acceleration: the residual under models whose parameters are moved. Section Q of
// README.md.
#ifndef COSTATE_DERIVATIVE_PARAMETER_DIFFERENCE_H_
#define COSTATE_DERIVATIVE_PARAMETER_DIFFERENCE_H_

#include <costate/parameter.h>

#include <functional>
#include <string>
#include <vector>

#include "derivative/parameter_closed.h"
#include "derivative/residual_difference.h"
#include "parameter/stencils.h"

namespace costate {

class ParameterDifference {
 public:
  explicit ParameterDifference(const ParameterSet& set);

  /// Follows the values of the set.
  void Refresh(const ParameterSet& set);

  int size() const { return stencils_.size(); }
  ParameterStencils* stencils() { return &stencils_; }

  /// Why a parameter's column is not given by Compute, since the last Begin: "" where it is.
  const std::vector<std::string>& failed() const { return failed_; }
  bool LeftPiece(int k) const;  ///< failed since no stencil stays on the smooth piece
  void Begin();
  void FailAll(const std::string& reason);
  void ClearFailed();

  /// Why a parameter's column is no derivative, since the last Begin; null: nothing says so.
  const std::vector<const char*>& open() const { return open_; }
  void SayOpen(int k, const char* why) { open_[static_cast<std::size_t>(k)] = why; }

  /// ∂(r, ā, act', act_dot)/∂θ at fixed state, control and acceleration.
  struct Columns {
    MatrixXd residual, acceleration, activation, activation_rate;  ///< nv, nv, na, na × nθ
  };

  /// @param data  after Equilibrium at acceleration a; only read. Columns of parameters that fail are zero.
  /// @param skip  parameters with a nonzero entry are not wanted: their columns are zero too.
  void Compute(const mjModel* model, const mjData* data, const VectorXd& a, Columns* out,
               const std::vector<char>* skip = nullptr);

  /// Those with a closed form, for pull-backs.
  ClosedParameters* closed() { return &closed_; }

  /// Ps (ns × nθ): sensors of the moved models, with the acceleration along da (nv × nθ).
  /// @param data  after Equilibrium at acceleration a; only read.
  /// @param solve  H⁻¹ x in place: with the forces of constraints that balance; empty: at that acceleration.
  void Sensors(const mjModel* model, const mjData* data, const VectorXd& a, const MatrixXd& da,
               const std::function<void(double*)>& solve, MatrixXd* out);

  /// ∂act'/∂θ (na × nθ) of RK4 at fixed weighted sum of act_dot: of time constants and of limits.
  void ActivationUpdate(const mjModel* model, const mjtNum* act, const double* sum_rate, MatrixXd* out);

 private:
  using Reach = ParameterStencils::Reach;
  using Evaluate = std::function<bool(int point, Reach reach, VectorXd* value)>;
  bool Difference(int k, const Evaluate& evaluate);
  void SumAll(const std::vector<ParameterStencils::Point>& points);
  void SumOneSide(double h, int near, int far, VectorXd* sum) const;
  bool SumAt(int k, Reach reach, const Evaluate& evaluate);
  void Widen(int k, const Evaluate& evaluate);
  struct Bend {
    bool corner = false, jump[2] = {false, false};  ///< backwards, forwards: that side does not begin at the point
  };
  Bend LookForCorners() const;
  void HoldClamped(const mjModel* model, VectorXd* value);

  ParameterStencils stencils_;
  ClosedParameters closed_;
  std::uint64_t revision_ = 0;
  ResidualDifference residual_;
  std::vector<std::string> failed_;
  std::vector<const char*> open_;
  std::vector<int> branch_;  // of each activation at the point: −1 below its limits, 1 above, 0 within
  VectorXd center_, values_[5], sum_, wide_, moved_;
  VectorXd rounding_;  // of center_; infinite where nothing is to be known
  struct Part {
    int begin = 0, size = 0;
    bool weighed = false;  // forces as accelerations
    double error = 0, rounding = 0;
    bool poor = false;
  };
  double SizeOf(const Part& part, const VectorXd& rows) const;
  std::vector<Part> parts_;  // of center_: rows that have one scale
  VectorXd weights_, inner_, fourth_, apart_;
  bool reproducible_ = true;
  bool sensors_ = false;  // center_ and values_ are those of sensors
  double known_ = 0;      // what rounding leaves of a quotient of the last SumAll, over the value
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_PARAMETER_DIFFERENCE_H_
