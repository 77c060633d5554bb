// Connect and weld equalities in ∂r, in closed form. Equations (C14)–(C16), (C23) and (I10) of README.md.
#ifndef COSTATE_DERIVATIVE_EQUALITY_H_
#define COSTATE_DERIVATIVE_EQUALITY_H_

#include <mujoco/mujoco.h>

#include <functional>
#include <vector>

#include "derivative/columns.h"
#include "derivative/contact_jacobian.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Is the equality a connect or a weld?
bool IsBodyEquality(const mjModel* model, int equality);

/// Body of its first or second object. @pre IsBodyEquality
int EqualityBody(const mjModel* model, int equality, int side);

class Metric;

/// All connect and weld equalities of a point.
class BodyEquality {
 public:
  /// Starts over; then Add for the first row of each equality.
  void Clear() { blocks_.clear(); }
  void Add(const mjModel* model, const mjData* data, int row);

  /// Adds the wrenches that the equalities exert, for the geometric stiffness of TreeDerivative::Finish.
  void AddWrenches(const mjModel* model, const mjData* data, std::vector<BodyConstraint>* body) const;

  /// Adds −∂r by q and v to R. H is the caller's: it is made from the engine's J.
  void AddColumns(const mjModel* model, const mjData* data, const TreeDerivative& tree, Columns* R);

  /// Derivative of the wrench (torque; force) about `origin` that the equalities exert on the bodies in [begin, end):
  /// add(dof, kind, column), kind 0 by q, 1 by v, 2 by a; of kind 0 also by those of (q, v, act, u) that Metric::Scale has.
  /// @param metric  of the discrete integrator, which forces follow, (I10); null: another.
  void AddWrenchColumns(const mjModel* model, const mjData* data, const TreeDerivative& tree, int begin, int end,
                        const Vec3& origin, const Metric* metric,
                        const std::function<void(int dof, int kind, const Vec6& column)>& add);

  /// slope (nv) += ∂(J x)/∂q of a row of an equality that Add was called for, at fixed x (nv).
  void AddTurning(const mjModel* model, const mjData* data, const AxisGroups& axes, int row, const Eigen::VectorXd& x,
                  Eigen::VectorXd* slope) const;

  bool empty() const { return blocks_.empty(); }

 private:
  struct Block {
    int row, equality, rows;  // 3: connect, 6: weld
    int body[2];
    Vec3 point[2];  // anchors, world
    Mat3 frame;     // weld: orientation of the second object
    double e0;      // weld: e = conj(q1) q0 rel, scalar and vector part
    Vec3 ev;
    double scale;        // half the torque scale
    Vec3 force, torque;  // on the first body, world; the torque beside that of the force
  };
  class Motion;
  template <typename F>
  void ForDofs(const mjModel* model, const mjData* data, const TreeDerivative& tree, const Block& block,
               const Motion& motion, F f);

  std::vector<Block> blocks_;
  std::vector<int> chain_, side_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EQUALITY_H_
