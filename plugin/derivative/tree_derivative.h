// Everything in ∂r that lives on ancestor pairs of the kinematic tree, in one pass up, one down and one pair loop: RNE,
// world-fixed loads, constraint forces against the static world, and the product M(q) e. Section R of README.md.
#ifndef COSTATE_DERIVATIVE_TREE_DERIVATIVE_H_
#define COSTATE_DERIVATIVE_TREE_DERIVATIVE_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/simd.h"
#include "derivative/spatial_lanes.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Constraint forces on one body that depend on this body's own motion only (its partner is static), linearized:
///   dF = K s − HH dUᵃ − Kv dUᵛ   for a rigid motion s of the body, about the tree's subtree_com.
struct BodyConstraint {
  Mat6 K = Mat6::Zero();   ///< geometry and impedance: change of the wrench with the body's pose
  Mat6 HH = Mat6::Zero();  ///< Wᵀ H_c W: change with the acceleration
  Mat6 Kv = Mat6::Zero();  ///< Wᵀ H_c B W: change with the velocity
  Vec6 F = Vec6::Zero();   ///< the wrench itself
  bool active = false;
};

struct TreeInput {
  const double* a = nullptr;     ///< acceleration at which r is differentiated (nv)
  const double* e = nullptr;     ///< also ∂(M e)/∂q (nv); null: not wanted
  const double* load = nullptr;  ///< world-fixed (torque; force) at each xipos (nbody × 6); null: none
  const double* v = nullptr;     ///< velocity instead of data->qvel (nv); null: data's
  bool gravity = true;           ///< RNE includes gravity
  bool velocity = true;          ///< false: differentiate at v = 0
};

/// The factors of one dof in all its pairs, interleaved so that one load serves four outputs of a pair.
struct TreeLanes {
  Double4 A[6], B[6], C[6];
  bool more;  // C is needed, of right lanes
};

/// Workspace for one model; allocates nothing after construction.
class TreeDerivative {
 public:
  explicit TreeDerivative(const mjModel* model);

  /// Velocities, accelerations and axis rates from the root up: what constraints need before they can be linearized.
  /// `data` must hold cdof, cinert, xipos and subtree_com at q.
  void Forward(const mjModel* model, const mjData* data, const TreeInput& input);

  const Vec6& velocity(int body) const { return body_[body].v; }             ///< Vᵛ = Σ S v
  const Vec6& acceleration_field(int body) const { return body_[body].va; }  ///< Vᵃ = Σ S a, no velocity products

  /// The same in vector registers: velocity, acceleration, acceleration_field, and Σ S e.
  struct Field {
    Lanes6 v, a, va, ae;
  };
  const Field& field(int body) const { return field_[body]; }

  const Vec6& axis_rate(int dof) const { return dof_[dof].psid; }  ///< ψ̇ = Vᵛ before the dof's group × S
  const Vec6& axis_field(int dof) const { return dof_[dof].aS; }   ///< S × Vᵃ before the dof's group

  const Vec6& acceleration(int body) const { return body_[body].a; }        ///< spatial, gravity included
  const Vec6& axis_acceleration(int dof) const { return dof_[dof].psidd; }  ///< ψ̈
  const Vec6& axis_sum(int dof) const { return dof_[dof].sigma; }           ///< σ = ψ̇ + Ṡ

  /// Sums inertias and Coriolis operators over subtrees, as Finish does. @pre Forward, and neither since.
  void SumInertias(const mjModel* model);

  /// Of the body's subtree: inertia and Coriolis operator (R2). @pre Finish or SumInertias.
  const Inertia& composite_inertia(int body) const { return body_[body].I; }
  const RotationMap& composite_coriolis(int body) const { return body_[body].B; }

  /// Adds the q columns [0, nv) and v columns [nv, 2nv) of −∂r to R, where r = RNE(q,v,a) − Jᵀload − Jᵀf, and, when the
  /// inputs are there, ∂(M e)/∂q to the q columns of E and Sᵀ HH S to H. Cost: O(nv · depth).
  /// @param constraint  forces against the static world, one entry a body; null: none.
  /// @pre   Forward with the same input.
  void Finish(const mjModel* model, const mjData* data, const TreeInput& input, const BodyConstraint* constraint,
              BlockedMatrix* R, BlockedMatrix* E, TreeSolver* H);

  /// velocity and acceleration_field (of field() too), from the engine's cvel: all that contacts and TreePull need.
  void ForwardFields(const mjModel* model, const mjData* data, const TreeInput& input);

  // Products along a direction with what Finish would add, without forming it: O(nbody + nv), tree_product.cc. They
  // take the state that Forward leaves, which Finish spends.

  /// r (nv) += R x, e (nv) += E x along x (2 nv: q, v).  @param e  null unless input.e is there.
  /// @param contact  of these F alone is taken; null: none.
  void StartPush(const mjModel* model, const mjData* data, const TreeInput& input, const BodyConstraint* constraint,
                 const BodyConstraint* contact, const double* x, bool with_e);
  void FinishPush(const mjModel* model, const mjData* data, const double* x, double* r, double* e);

  /// Motion of a body along x, and the changes of its fields.
  const Vec6& pushed(int body) const { return push_[body].s; }
  Vec6 pushed_acceleration(int body) const { return CrossMotion(push_[body].s, body_[body].va) - push_[body].aS; }
  Vec6 pushed_velocity(int body) const { return CrossMotion(push_[body].s, body_[body].v) + push_[body].psid; }

  /// A change of the wrench on a body along x.
  void AddWrenchChange(int body, const Vec6& dF) { push_[body].dF -= dF; }

  /// Adds Sᵀ HH S of two lists of bodies to H, as Finish does for one; either may be null.
  void AddHessian(const mjModel* model, const mjData* data, const BodyConstraint* first, const BodyConstraint* second,
                  TreeSolver* H);

 private:
  void Backward(const mjModel* model, const TreeInput& input, const BodyConstraint* constraint);
  // compiled for each instruction set: no Eigen, all they need in one place
  struct Path;
  struct Bodies;
  static void Walk(const Path& path);
  static void Multiply(const Bodies& all);

  struct Body {
    Vec6 v, a;      // velocity, acceleration (gravity included) after all joints of the body
    Vec6 va;        // Σ S a, without velocity products and gravity
    Vec6 ae;        // Σ S e
    Inertia I;      // own, then of the subtree
    RotationMap B;  // Coriolis operator, own then of the subtree
    Mat3 Q;         // world-fixed loads: Σ G rᵀ, Σ G, Σ T
    Vec3 G, T;
    Vec6 F, Fe;          // RNE force minus load; force of M e
    BodyConstraint con;  // own, then of the subtree, K completed to P
  };
  struct Dof {
    Vec6 psid, psidd, sigma, psie, aS;
  };
  // of one product: fields from the root up, then sums over subtrees
  struct PushBody {
    Vec6 s;                // Σ S dq
    Vec6 psidd, psid, aS;  // Σ ψ̈ dq + σ dv, Σ ψ̇ dq + S dv, Σ aS dq
    Vec6 psie;             // Σ ψ_e dq
    Vec6 F, dF, Fe, dFe;   // sums over the subtree of forces and of their changes
  };
  std::vector<Body> body_;
  std::vector<Field> field_;
  std::vector<Dof> dof_;
  std::vector<TreeLanes> left_, right_;
  std::vector<int> group_;  // first dof of each dof's group: ball and free rotation are groups of three
  std::vector<int> group_end_;
  std::vector<int> place_;  // of the first entry of each column in a BlockedMatrix of nv rows
  std::vector<PushBody> push_;
  struct BodyHessian {
    Mat6 HH;
    bool active;
  };
  std::vector<BodyHessian> hessian_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_TREE_DERIVATIVE_H_
