// The contact of a geom with an element of a flex, which several bodies move by weights. (C24), (G17) of README.md.
#ifndef COSTATE_DERIVATIVE_ELEMENT_CONTACT_H_
#define COSTATE_DERIVATIVE_ELEMENT_CONTACT_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/columns.h"
#include "derivative/contact_block.h"
#include "derivative/contact_geometry.h"
#include "derivative/contact_jacobian.h"
#include "derivative/contact_patch.h"

namespace costate {

class ElementContact {
 public:
  /// Is it one of a geom and an element whose vertices are bodies?
  static bool Is(const mjModel* model, const mjContact& contact);

  /// Takes the contact's part of −∂r. @pre The contact has rows, efc_state is that of the solution.
  /// @return false where the place of the contact has no closed form: shapes without a patch, and places that are not
  /// the nearest points of the two.
  bool Fill(const mjModel* model, const mjData* data, const mjContact& contact, const AxisGroups& axes);

  /// slope (nv) += ∂(J x)/∂q at fixed x (nv), J the row of velocities along `axis`, which turns with the frame.
  void AddTurning(const Vec3& axis, const Eigen::VectorXd& x, Eigen::VectorXd* slope) const;

  /// R += −∂r, q and v columns.
  void Add(int nv, Columns* R) const;

 private:
  // a dof of a body that the contact pulls at: its axis at the contact, and at the vertex
  struct Axis {
    int dof, slot;
    Vec3 rot, lin, at_vertex;
  };
  // a body: its axes, how much of its motion is the contact's, and how easily it moves, which rows go by
  struct Part {
    int begin, end;
    double weight, inverse_weight;
  };

  // how the contact moves with a dof: distance, point, frame, weights; the axis of it that each part has, −1: none
  struct Column {
    double dphi, rate[5];
    Vec3 dp, turn;
    int own[5];
  };
  // some of an element's vertices, and a point between them by its shares
  struct Simplex {
    int corners = 0, corner[4];
    double share[4];
    Vec3 at;
    /// From the first corner to the others.
    Eigen::Matrix<double, 3, Eigen::Dynamic, 0, 3, 3> Edges(const Vec3* vertex) const {
      Eigen::Matrix<double, 3, Eigen::Dynamic, 0, 3, 3> E(3, corners - 1);
      for (int k = 1; k < corners; k++) E.col(k - 1) = vertex[corner[k]] - vertex[corner[0]];
      return E;
    }
  };
  // forces and what moves the contact: x are a and v, motions of parts by them and their sums
  struct State {
    State(const mjModel* m, const mjData* d, const mjContact& contact)
        : stiffness(m, d, contact), dim(contact.dim), x{d->qacc, d->qvel} {}
    BasisForces force;
    ContactStiffness stiffness;
    int dim;
    Vec3 axis[6];
    Vec3 push = Vec3::Zero(), torque = Vec3::Zero();
    const double* x[2];
    Vec6 motion[2][5], all[2];
  };
  // n × n, in memory for the largest n that was met
  class Square {
   public:
    void Resize(int n) {
      n_ = n;
      at_.assign(static_cast<std::size_t>(n) * n, 0);
    }
    double& operator()(int i, int j) { return at_[static_cast<std::size_t>(j) * n_ + i]; }
    double operator()(int i, int j) const { return at_[static_cast<std::size_t>(j) * n_ + i]; }

   private:
    int n_ = 0;
    std::vector<double> at_;
  };
  static Simplex Nearest(const Vec3* vertex, int count, const Vec3& p);

  bool FindPlace(const mjModel* model, const mjData* data, const mjContact& contact);
  void AddPart(const mjModel* model, const mjData* data, const mjContact& contact, int body, double weight,
               const Vec3& at);
  void FindShareRates(const Vec3& p, const Vec3& dp, const Vec3* moved, double* rate) const;
  bool Turns(const Axis& i, const Axis& j) const;
  static Vec6 Turned(const Axis& i, const Axis& j);
  Vec6 FindMotions(const double* x, Vec6* motion) const;
  void AddColumn(const State& at, double sign, int slot);
  void FindColumn(const Vec3& p, double sign, int at, Column* out) const;
  Vec6 Change(const Column& column, const double* x, const Vec6* motion) const;
  Vec6 ElementTwist(const Vec3* moved, const Vec3& point) const;

  int side_ = 1, count_ = 0;  // of the element; its vertices
  Vec3 vertex_[4];
  Simplex touch_, pull_;  // what of it touches; what the contact pulls at
  ContactMatrix by_side_[2];
  std::vector<Part> part_;
  std::vector<Axis> axis_;
  std::vector<Column> column_;
  const AxisGroups* axes_ = nullptr;
  std::vector<int> dof_;
  double softness_ = 0;  // Σ |weight| inverse_weight
  Square by_q_, by_v_;   // −∂r on dof_
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ELEMENT_CONTACT_H_
