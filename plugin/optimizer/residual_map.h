// Residuals that are a function of what is measured: an expression of the task file, or a callback.
#ifndef COSTATE_OPTIMIZER_RESIDUAL_MAP_H_
#define COSTATE_OPTIMIZER_RESIDUAL_MAP_H_

#include <costate/loss.h>
#include <costate/residual.h>

#include <memory>
#include <string>

namespace costate {

/// r = g(z, x, u, t) with z what a term measures. Immutable, for many threads.
class ResidualMap {
 public:
  virtual ~ResidualMap() = default;
  virtual int size() const = 0;
  virtual bool reads_state() const { return false; }
  virtual bool reads_control() const { return false; }
  /// Is Jacobian what a user says of a function of their own?
  virtual bool states_jacobian() const { return false; }
  virtual void Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const = 0;

  /// Sizes are set here: n × z.size(); x and u are empty unless read (u at t == N, too).
  virtual void Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const = 0;

  /// Rows V (m × z.size()) with Vᵀ V = Σ_i g_i ∂²r_i/∂z² over those components where this is convex, or over as many of
  /// them as are known: by default none, m = 0.
  virtual void Curvature(const KnotView&, const VectorXd& z, const VectorXd& /*g*/, MatrixXd* V) const {
    V->resize(0, z.size());
  }
};

/// The callback registered under a name, for a model that outlives it; null when there is none.
std::unique_ptr<ResidualMap> FindResidual(const std::string& name, const mjModel* model);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_RESIDUAL_MAP_H_
