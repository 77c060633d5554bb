// Constraint forces in ∂r and in H: contacts of both cones, limits, friction loss, joint and fixed-tendon equalities.
// Section C of README.md.
#ifndef COSTATE_DERIVATIVE_CONSTRAINT_H_
#define COSTATE_DERIVATIVE_CONSTRAINT_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/columns.h"
#include "derivative/contact_geometry.h"
#include "derivative/contact_product.h"
#include "derivative/element_contact.h"
#include "derivative/equality.h"
#include "derivative/flex.h"
#include "derivative/spatial_tendon.h"
#include "derivative/tree_derivative.h"
#include "derivative/tree_pull.h"

namespace costate {

struct BeltMotion;
struct ContactBlock;

/// Can rows be only those of joints, fixed tendons and contacts of geoms, whose part of H needs no more than the tree?
bool HasOwnHessian(const mjModel* model);

/// J of one of the two tendons in the row of their equality: 1; −p'(x), with its slope by that tendon's length. (C18)
struct TendonShare {
  double scale = 1, slope = 0;
};
TendonShare EqualityShare(const mjModel* model, const mjData* data, int equality, int side);

class ConstraintDerivative {
 public:
  /// @param flexes  whose edges may be rows; null: they are left.
  explicit ConstraintDerivative(const mjModel* model, const FlexForces* flexes = nullptr);

  /// Linearizes the rows of data->efc that have a closed form; remainder() marks the others. @pre efc_* hold positions,
  /// velocities, states, forces and cone Hessians at the acceleration in `input` (mj_constraintUpdate with the cone
  /// flag), tree.Forward has run.
  /// @param tendons  moments of this point; null: rows of spatial tendons have no closed form.
  /// @return false with the first row that has no closed form in `missing`.
  bool Linearize(const mjModel* model, mjData* data, const TreeDerivative& tree, std::string* missing,
                 const TendonMoments* tendons = nullptr);

  /// The rows' part of H alone, for AddDiagonal, contact_bodies, DeclareCouplings and AddPairsAndRows with H; what
  /// Linearize left is gone. @pre HasOwnHessian(model); states, forces and cone Hessians as there.
  void LinearizeHessian(const mjModel* model, const mjData* data);

  /// How the contacts that are pulled at move, before Linearize. @param pulled  one entry a contact, nonzero: it is.
  /// @return "" or why one of them has no closed motion.
  std::string MoveContacts(const mjModel* model, mjData* data, const std::vector<char>& pulled);

  /// Constant forces [N] that pull geoms together along the normal of their contact, for the next Linearize. (C21)
  /// @pre MoveContacts with them.  @param pull  one entry a contact; empty: none.
  std::vector<double>& pulls() { return pull_; }

  /// From the next Linearize on, all rows are left in remainder(), for this reason.
  void LeaveAll(const char* reason) { leave_all_ = reason; }

  /// From the next Linearize on, contacts are kept for products alone: bodies() and AddPairsAndRows then lack their
  /// part of ∂r, which PullContacts and PushContacts add instead; H is complete.
  void UseProducts(bool on) { use_products_ = on; }
  /// Products leave out contacts that carry no force, unless somebody asks how they move.
  void KeepAllContacts(bool on) { all_contacts_ = on; }
  const BodyConstraint* contact_bodies() const {
    return contact_body_.data();
  }  ///< their wrenches, and HH against the static world
  /// Is there any part of H?
  bool AnyHessian() const {
    return !product_.empty() || !row_.empty() || !single_.empty() || any_contact_ || !contact_.empty() ||
           !equality_.empty();
  }
  /// Adds the rows' part of H to its diagonal. @return false when they couple dofs otherwise than through bodies.
  bool AddDiagonal(double* diagonal) const;
  void PullContacts(TreePull* tree) const;
  void PushContacts(TreeDerivative* tree) const;

  /// Adds a wrench (torque; force) at a world point that turns with its body, for TreeDerivative::Finish. (A4)
  void AddFollower(const mjModel* model, const mjData* data, int body, const Vec3& point, const Vec6& wrench);

  /// Adds fluid forces, for TreeDerivative::Finish. (F3)
  void AddFluidForces(const mjModel* model, const mjData* data);

  /// Rows without closed form that carry force: their part of H is added here, their ∂r is the caller's.
  const std::vector<char>& remainder() const { return remainder_; }

  /// How a contact's geometry moves; null when its rows are left in remainder().
  const ContactMotion* contact_motion(int contact) const {
    return closed_contact_[contact] ? &geometry_.motion(contact) : nullptr;
  }

  /// A contact of an element of a flex that has a closed form; null: another.
  const ElementContact* element(int contact) const {
    return element_of_[contact] < 0 ? nullptr : &element_[element_of_[contact]];
  }

  /// Force of a row of joint or tendon limits: df = −Σ J (q dq + v dv + a da) + turn·dq.
  struct ScalarForce {
    int count = 0;
    const int* dof = nullptr;
    const double* J = nullptr;
    double q = 0, v = 0, a = 0;
    std::vector<int> turning;  ///< J of balls and spatial tendons turns too; a dof may come twice
    std::vector<double> turn;
  };
  /// @return false when the row is left in remainder(). @pre Linearize.
  bool FindForce(const mjModel* model, const mjData* data, int row, ScalarForce* out) const;

  /// slope (nv) += ∂(J x)/∂q of a row, not a contact's, at fixed x (nv). @pre Linearize has left it closed.
  void AddRowTurning(const mjModel* model, const mjData* data, const AxisGroups& axes, int row,
                     const Eigen::VectorXd& x, Eigen::VectorXd* slope) const;

  /// Connects and welds at the point; null when they are left in remainder().
  BodyEquality* equalities() const { return closed_equalities_ ? &equality_ : nullptr; }

  /// Axis of a ball joint's turn and its slope: d axis = G dθ, (C17). @return G.
  static Mat3 BallAxisSlope(const mjModel* model, const mjData* data, int joint, Vec3* axis);

  /// Declares which dofs the rows couple beyond the tree, before H is filled. @pre Linearize.
  /// @param more  sets that something else couples; null: none.
  void DeclareCouplings(const mjModel* model, const mjData* data, TreeSolver* H,
                        const std::vector<std::vector<int>>* more = nullptr) const;

  /// Forces against the static world, for TreeDerivative::Finish; null when there are none.
  const BodyConstraint* bodies() const { return any_body_ ? body_.data() : nullptr; }

  /// Adds everything else: −∂r by q and v to R (columns [0, nv) and [nv, 2nv)), and its part of H; either may be null.
  void AddPairsAndRows(const mjModel* model, const mjData* data, const TreeDerivative& tree, Columns* R,
                       TreeSolver* H) const;

 private:
  // contacts between two moving bodies, about the subtree_com of body 2's tree
  struct Pair {
    int body1, body2;
    Mat6 K1, K2, Krig, HH, Kv;
    int chain_start, chain_count;  // dofs that move exactly one of the two bodies
    int common;                    // last dof that moves both; -1: none
  };
  struct RowFactors {
    double q, v, D;         // of JᵀJ in ∂r/∂q, ∂r/∂v, H
    double force, damping;  // f and b
  };
  // a row whose Jacobian has few entries: r −= Jᵀ f, f = −D y
  struct Row : RowFactors {
    int start, count;  // its entries in row_dof_, row_J_
    int curved_dof;    // equality: J at this dof depends on its own q …
    double curved_dJ;  // … with this slope
    double rate;       // and then J'·(a + b v) matters too
    int efc;
  };
  // limits and dry friction of hinges and slides: J is ±1 at one dof
  struct SingleRow {
    int efc, dof;
    double q, v, D;
  };

  // part `scale` of a row's J that is the moment of a tendon or an edge: it turns; an equality's scale changes with the
  // tendon's length
  struct Bend {
    int row;
    const Moment* moment;
    double scale, scale_slope;
  };
  void Clear();
  bool TendonRow(const mjModel* model, const mjData* data, int row, std::string* missing);
  bool AddElement(const mjModel* model, const mjData* data, const mjContact& contact);
  bool EdgeRow(const mjModel* model, const mjData* data, int row);
  void AddBends(const mjData* data, Columns* R) const;
  Eigen::Map<Eigen::VectorXd> BendSlope(const mjData* data, const Bend& bend) const;

  // limit of a ball joint: J = −axis turns with the joint, d axis = G dθ
  struct BallLimit {
    int dof[3], efc;
    double force, D;
    Vec3 axis, rate;  // axis, a + b v
    Mat3 G;
  };
  BallLimit MakeBallLimit(const mjModel* model, const mjData* data, int row) const;

  void AddPull(const mjModel* model, const mjData* data, int c);
  void Contact(const mjModel* model, const mjData* data, int c, const TreeDerivative& tree, const BeltMotion* belt);
  void AddBlock(const mjModel* model, const ContactBlock& block, const ContactMotion& motion, const BeltMotion* belt);
  void KeepWrench(const mjModel* model);
  void KeepContact(const mjModel* model, const mjData* data, int c, const TreeDerivative& tree, const BeltMotion* belt);
  bool ScalarRow(const mjModel* model, const mjData* data, int row, std::string* missing);
  bool AddSingle(const mjModel* model, const mjData* data, int row);
  static RowFactors FactorsOf(const mjModel* model, const mjData* data, int row, bool quadratic);
  void AddPair(const mjModel* model, const mjData* data, const TreeDerivative& tree, const Pair& pair,
               Columns* R) const;
  void AddPairHessian(const mjModel* model, const mjData* data, const Pair& pair, const int* entry,
                      TreeSolver* H) const;
  Pair* FindPair(const mjModel* model, int body1, int body2);

  void Leave(const mjModel* model, const mjData* data, int row, int count);
  void KeepHessian(const mjData* data, int row, int count);

  const FlexForces* flexes_;
  ContactGeometry geometry_;
  bool moved_ = false;  // by MoveContacts
  std::string motion_missing_;
  std::vector<double> pull_;
  const char* leave_all_ = nullptr;
  bool use_products_ = false;
  std::vector<ContactProduct> contact_;  // with use_products_ alone
  std::vector<BodyConstraint> contact_body_;
  mutable BodyEquality equality_;
  bool all_contacts_ = false;
  bool closed_equalities_ = true;
  std::vector<char> remainder_, closed_contact_;
  struct Product {  // H += factor J(row)ᵀ J(col), of remaining rows
    int row, col;
    double factor;
  };
  std::vector<Product> product_;
  std::vector<ElementContact> element_;  // of which elements_ are filled
  int elements_ = 0;
  std::vector<int> element_of_;  // a contact; −1: none
  std::unique_ptr<AxisGroups> axes_of_elements_;
  std::vector<BodyConstraint> body_;
  bool any_body_ = false;
  bool any_contact_ = false;  // that carries force, in matrices
  std::vector<Pair> pair_;
  std::vector<int> chain_;
  std::vector<signed char> chain_sign_;
  std::vector<Row> row_;
  std::vector<SingleRow> single_;
  std::vector<double> single_q_, single_v_, single_h_;  // of these, summed up by dof
  std::vector<Bend> bend_, row_bend_;
  mutable std::vector<double> bend_slope_;  // memory of BendSlope's result
  const TendonMoments* tendons_ = nullptr;
  int last_edge_ = 0;  // that has had its row
  std::vector<BallLimit> ball_;
  mutable std::vector<int> coupled_;
  mutable int first_pair_ = 0;        // among the sets of dofs that DeclareCouplings has declared
  mutable std::vector<double> axes_;  // of a pair's chain, signed, and products with them
  std::vector<int> row_dof_;
  std::vector<double> row_J_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONSTRAINT_H_
