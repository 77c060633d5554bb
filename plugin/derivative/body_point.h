// A point fixed to a body: its motion, and what one dof of the body's chain does to it. Equation (C14) of README.md.
#ifndef COSTATE_DERIVATIVE_BODY_POINT_H_
#define COSTATE_DERIVATIVE_BODY_POINT_H_

#include "derivative/chain.h"
#include "derivative/plant.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Change of everything about a point and of the body's rotation by one unit of q or v of a dof.
struct PointChange {
  Vec3 position = Vec3::Zero(), rotation = Vec3::Zero();
  Vec3 velocity = Vec3::Zero(), acceleration = Vec3::Zero();  ///< of the point, the latter classical
  Vec3 spin = Vec3::Zero(), spin_rate = Vec3::Zero();         ///< angular velocity, its rate
};

class BodyPoint {
 public:
  BodyPoint() = default;
  /// @param stretch  of Σ S a, what makes the acceleration: velocity products alone stay as they are.
  BodyPoint(const mjModel* m, const mjData* d, const TreeDerivative& tree, int body, const Vec3& point,
            double stretch = 1)
      : last_(LastDof(m, body)), r_(point - Origin(m, d, body)), more_(stretch - 1) {
    if (last_ < 0) return;
    V_ = tree.velocity(body);
    A_ = tree.acceleration(body);
    if (more_ != 0) A_ += more_ * tree.acceleration_field(body);
    velocity_ = MotionAt(V_, r_);
    acceleration_ = MotionAt(A_, r_) + V_.head<3>().cross(velocity_);
  }

  int last_dof() const { return last_; }  ///< -1: static, then it rests
  const Vec3& r() const { return r_; }    ///< from the tree's origin
  Vec3 spin() const { return V_.head<3>(); }
  Vec3 spin_rate() const { return A_.head<3>(); }
  const Vec3& velocity() const { return velocity_; }
  const Vec3& acceleration() const { return acceleration_; }  ///< gravity as the tree counts it

  /// By q of a dof that moves the body: dV = S × V + ψ̇, dA = S × A + ψ̈ − V × ψ̇, less S × Vᵃ before it of what more
  /// of Σ S a is in A.
  PointChange ByPosition(const mjData* d, const TreeDerivative& tree, int dof) const {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof), &rate = tree.axis_rate(dof);
    Vec6 dA = CrossMotion(S, A_) + tree.axis_acceleration(dof) - CrossMotion(V_, rate);
    if (more_ != 0) dA -= PLANT("connect: stretched acceleration", more_ * tree.axis_field(dof));
    PointChange out = Change(CrossMotion(S, V_) + rate, dA, MotionAt(S, r_));
    out.rotation = S.head<3>();
    return out;
  }

  /// By v of it: dV = S, dA = σ + S × V.
  PointChange ByVelocity(const mjData* d, const TreeDerivative& tree, int dof) const {
    const Vec6 S = Vec6Map(d->cdof + 6 * dof);
    return Change(S, tree.axis_sum(dof) + CrossMotion(S, V_), Vec3::Zero());
  }

 private:
  PointChange Change(const Vec6& dV, const Vec6& dA, const Vec3& dp) const {
    PointChange out;
    out.position = dp;
    out.spin = dV.head<3>();
    out.spin_rate = dA.head<3>();
    out.velocity = MotionAt(dV, r_) + V_.head<3>().cross(dp);
    out.acceleration =
        MotionAt(dA, r_) + A_.head<3>().cross(dp) + dV.head<3>().cross(velocity_) + V_.head<3>().cross(out.velocity);
    return out;
  }

  int last_ = -1;
  Vec3 r_ = Vec3::Zero();
  double more_ = 0;
  Vec6 V_ = Vec6::Zero(), A_ = Vec6::Zero();
  Vec3 velocity_ = Vec3::Zero(), acceleration_ = Vec3::Zero();
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_BODY_POINT_H_
