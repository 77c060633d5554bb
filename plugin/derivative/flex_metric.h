// What elastic flexes add to the discrete integrator's M̂ and to its shift. (H4) and (I11) of README.md.
#ifndef COSTATE_DERIVATIVE_FLEX_METRIC_H_
#define COSTATE_DERIVATIVE_FLEX_METRIC_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "core/refilled.h"
#include "derivative/columns.h"
#include "derivative/contact_jacobian.h"
#include "derivative/spatial.h"
#include "derivative/tree_solver.h"

namespace costate {

/// K w, w = s a + h v with s = h² + h damping of each flex, of what stretches and bends.
class FlexMetric {
 public:
  /// Takes tensions and chains of the point. @pre FlexForces::Missing is empty; `data` holds positions.
  void Compute(const mjModel* model, const mjData* data);

  bool empty() const { return flex_.empty(); }

  /// out += s K a + h K v.
  void AddForce(const mjModel* model, const mjData* data, const double* a, double* out) const;
  /// H += s K.
  void AddHessian(TreeSolver* H) const;
  /// The sets of dofs that it couples, appended.
  void AppendCouplings(const mjModel* model, Refilled<std::vector<int>>* sets) const;
  /// R −= ∂(s K a + h K v).
  void AddColumns(const mjModel* model, const mjData* data, const AxisGroups& axes, const double* a, Columns* R) const;

 private:
  using Matrix = Eigen::Matrix<double, 12, 12>;
  // a triangle or tetrahedron that stretches, or the four vertices about an edge that bends
  struct Piece {
    int flex, vertices, edges;
    int vertex[4], end[6][2];
    double K[6][6], tension[6], pulls[6];  // clamped; how much of its slope counts
    Vec3 edge[6];                          // from its second end to its first
    const mjtNum* bending;                 // 4 × 4; null: none
    Matrix stiffness;                      // by its vertices' places
  };
  // a dof that moves a vertex
  struct Axis {
    int dof;
    Vec3 rot, lin;
  };
  struct Flex {
    int id;
    double s, kappa;
  };

  template <typename F>
  void ForVertices(const mjModel* model, F f) const {
    for (const Flex& flex : flex_) {
      const int first = model->flex_vertadr[flex.id];
      for (int v = first; v < first + model->flex_vertnum[flex.id]; v++) f(flex, v);
    }
  }
  struct Strain {
    Vec3 apart[6];
    double along[6];
  };
  void AddPieces(const mjModel* model, const mjData* data, int flex);
  void Place(const mjModel* model, const mjData* data, int vertex);
  void FindMotion(const mjModel* model, const mjData* data, const double* a) const;
  Strain FindStrain(const Piece& piece) const;
  void FindForce(const Piece& piece, const Strain& strain, Vec3* force) const;
  static void Spread(const Piece& piece, int e, int a, const Mat3& block, Matrix* out);
  static void FindStiffness(Piece* piece);
  static Matrix Slope(const Piece& piece, const Strain& strain);
  const Axis* begin(int vertex) const { return axis_.data() + start_[vertex]; }
  const Axis* end(int vertex) const { return axis_.data() + start_[vertex + 1]; }

  std::vector<Flex> flex_;
  std::vector<Piece> piece_;
  std::vector<int> start_;  // of each vertex' axes
  std::vector<Axis> axis_;
  mutable std::vector<Vec3> motion_, force_;  // of each vertex: J w, and the force there
  mutable std::vector<char> is_coupled_;      // of each dof
  mutable std::vector<Vec3> turned_;          // of each axis: ∂(J w) as it moves
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FLEX_METRIC_H_
