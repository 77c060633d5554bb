// Moment rows J(q) that move with q, of tendons and transmissions, with their derivatives. Section T of README.md.
#ifndef COSTATE_DERIVATIVE_MOMENT_H_
#define COSTATE_DERIVATIVE_MOMENT_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/columns.h"
#include "derivative/spatial.h"

namespace costate {

/// A row J on the few dofs where it is not zero: a force f along it acts as Jᵀf, the velocity along it is J v.
struct Moment {
  std::vector<int> dof;    ///< in no order; all vectors below have one entry for each
  Eigen::VectorXd J;       ///< the row
  Eigen::VectorXd length;  ///< ∂(length)/∂q: J itself, except where the engine's length or J is no gradient
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> G;  ///< G(i, j) = ∂J_i/∂q_j
  Eigen::VectorXd rate;                                                      ///< Gᵀ v = ∂(J v)/∂q

  int size() const { return static_cast<int>(dof.size()); }
  double Along(const double* v) const;                        ///< J v
  Eigen::VectorXd Turn(const double* v) const;                ///< Gᵀ v
  void AddTurn(const double* v, Eigen::VectorXd* out) const;  ///< out += Gᵀ v
  void FindRate(const double* v);
};

/// R += force ∂(Jᵀ)/∂q. @param clamped  rows that stay zero; null: none.
void AddTurning(const Moment& moment, double force, const char* clamped, Columns* R);

/// R += Jᵀ (by_length ∂length + by_velocity ∂(J v)), q and v columns. (T1)
void AddSlopes(const Moment& moment, int nv, double by_length, double by_velocity, const char* clamped, Columns* R);

/// The same where the length is that of another moment: R += Jᵀ (by_length ∂length' + by_velocity ∂(J' v)).
void AddSlopes(const Moment& moment, const Moment& other, int nv, double by_length, double by_velocity,
               const char* clamped, Columns* R);

/// Up to two points in the frame of a body, and the forces that a length exerts on them: F = −∂(−length)/∂p for unit
/// tension, turning with the frame and changing by H with the points' motion in it. The frame feels the reaction. (T2)
struct MomentElement {
  int frame = 0, points = 1, body[2] = {0, 0};
  Vec3 point[2], force[2];
  Mat6 H = Mat6::Zero();      ///< upper left 3×3 when there is one point
  Vec6 slack = Vec6::Zero();  ///< ∂length beyond force·motion
};

/// (T8) the distance of two points of bodies, over `divisor`: a straight piece of a tendon, an edge of a flex.
MomentElement StraightElement(int body, const Vec3& point, int other, const Vec3& other_point, double divisor = 1);

/// A wrench at a point of a body, with or without its opposite at a point of another; both turn with one of the two.
/// (T3)
struct MomentWrench {
  int frame = 0, body = 0, other = -1;  ///< other = −1: no opposite
  Vec3 point, other_point = Vec3::Zero(), force, torque;
};

/// Sums elements into moments.
class MomentBuilder {
 public:
  explicit MomentBuilder(const mjModel* model);

  void Begin(Moment* moment);
  void Add(const mjModel* model, const mjData* data, const MomentElement& element);
  void Add(const mjModel* model, const mjData* data, const MomentWrench& wrench);
  void End(const mjData* data);  ///< fills rate

 private:
  int Slot(int dof);
  void Collect(const mjModel* model, const int* body, int count);
  signed char Order(int i, int j) const { return order_[static_cast<std::size_t>(i) * nv_ + j]; }

  int nv_;
  std::vector<signed char> order_;  // (i, j): 1, i is at or after j's group; −1, before it; 0, on another branch
  std::vector<int> slot_;           // of a dof in the moment; −1: none
  std::vector<int> mask_, active_;  // which bodies of the element a dof moves; dofs that move some but not all
  Moment* moment_ = nullptr;
  std::vector<double> J_, length_;
  struct Entry {
    int i, j;
    double value;
  };
  std::vector<Entry> entries_;

  // how one active dof moves an element's points and frame, or a wrench's
  struct PointColumn {
    Vec6 A, HA;  // motion of the points in the frame, and its product with H
    Vec3 rot, frame, c;
  };
  struct WrenchColumn {
    Vec3 rot, lin, frame, c;
    double sign;
  };
  std::vector<PointColumn> point_columns_;
  std::vector<WrenchColumn> wrench_columns_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_MOMENT_H_
