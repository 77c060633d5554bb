// Parameters by which the residual is linear and its derivative known: contracted with the covectors of a pull-back, at
// a few products each. Section Q of README.md.
#ifndef COSTATE_DERIVATIVE_PARAMETER_CLOSED_H_
#define COSTATE_DERIVATIVE_PARAMETER_CLOSED_H_

#include <mujoco/mujoco.h>

#include <utility>
#include <vector>

#include "derivative/spatial.h"
#include "parameter/stencils.h"

namespace costate {

class ClosedParameters {
 public:
  using Vector10 = Eigen::Matrix<double, 10, 1>;

  /// The values at hand: what each parameter does to inertias and to inverse weights.
  void Refresh(ParameterStencils* stencils);

  /// One point, after Equilibrium: what a pull-back left.
  struct Point {
    const mjModel* model;
    const mjData* data;
    const double *a, *y;        ///< acceleration; covector of r
    const double *z, *applied;  ///< covector of E and ā; null where the integrator applies a itself
    bool closed_integrator;
  };

  /// Which parameters have a closed form at this point, one entry each.
  void Select(const Point& point);
  const std::vector<char>& closed() const { return closed_; }

  /// theta (nθ) += −yᵀ ∂r/∂θ + zᵀ E of those that have.
  void Pull(const Point& point, VectorXd* theta);

 private:
  enum Kind { kNone, kGravity, kDamping, kStiffness, kSpringRef, kArmature, kFrictionLoss, kInertial };
  struct Entry {
    Kind kind = kNone;
    int id = 0;  // body, joint, dof or axis of gravity
    bool moves_com = false;
    Vector10 inertia = Vector10::Zero();          // ∂(m, m c, Ī)/∂θ in the body's frame
    std::vector<std::pair<int, double>> weights;  // ∂ of inverse weights: bodies (2 each), dofs, tendons
  };
  void Classify(const mjModel* model, ParameterStencils* stencils, int k, Entry* entry) const;
  bool Covers(const Entry& entry, const Point& point) const;
  void MoveBodies(const Point& point);
  void PullWeights(const Point& point);

  std::vector<Entry> entries_;
  std::vector<char> closed_;
  bool any_weights_ = false, any_bodies_ = false, automatic_muscles_ = false;
  VectorXd weights_, Jy_;  // covector of the inverse weights
  struct BodyMotion {
    Vec6 W, We, A, Ae;
  };
  std::vector<BodyMotion> bodies_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_PARAMETER_CLOSED_H_
