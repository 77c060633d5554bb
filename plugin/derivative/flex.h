// Forces of flexes that are not interpolated: edges, elements that stretch, triangles that bend. Section P of README.md.
#ifndef COSTATE_DERIVATIVE_FLEX_H_
#define COSTATE_DERIVATIVE_FLEX_H_

#include <mujoco/mujoco.h>

#include <memory>
#include <string>
#include <vector>

#include "derivative/columns.h"
#include "derivative/moment.h"

namespace costate {

/// Does a flex exert passive forces?
bool HasElasticity(const mjModel* model, int flex);

/// Do all its edges have a moment? Those of interpolated flexes have none.
inline bool HasEdges(const mjModel* model, int flex) {
  return !model->flex_rigid[flex] && model->flex_interp[flex] == 0;
}

/// Is it a rod that bends and twists? Rows of its contacts turn it, too, by joints that none of its vertices' bodies show.
inline bool HasTwist(const mjModel* model, int flex) {
  return model->flex_dim[flex] == 1 && (model->flex_stiffnessadr[flex] >= 0 || model->flex_bendingadr[flex] >= 0);
}

/// Moments of edges, of flexes that exert forces or whose edges are held, and the forces.
class FlexForces {
 public:
  explicit FlexForces(const mjModel* model);

  /// "" if all forces of flexes have a closed form, else the first that has none, and why.
  static std::string Missing(const mjModel* model);

  /// @pre `data` holds positions and velocities.
  void Compute(const mjModel* model, const mjData* data);

  /// Of an edge of all flexes' list. Empty where it is rigid. @pre Compute.
  const Moment& edge(int edge) const { return moment_[edge]; }

  /// R += ∂(forces), q and v columns. (P6)–(P8)
  void Add(const mjModel* model, const mjData* data, Columns* R) const;

 private:
  static void FillSliding(const mjModel* model, const mjData* data, const int body[2], const Vec3 at[2],
                          Moment* moment);
  void AddEdges(const mjModel* model, const mjData* data, int flex, Columns* R) const;
  void AddElements(const mjModel* model, const mjData* data, int flex, Columns* R) const;

  std::vector<char> held_;    // flexes whose edges are, or may be
  std::vector<char> slides_;  // vertices of bodies that slides alone move in the world, or nothing does
  std::unique_ptr<MomentBuilder> builder_;
  std::vector<Moment> moment_;
  mutable std::vector<double> tension_;  // of each edge
  mutable std::vector<int> slot_, dof_;  // of an element's dofs
  // dofs × edges of an element, in memory for the largest that was met
  struct Scratch {
    Eigen::Matrix<double, Eigen::Dynamic, 6, Eigen::RowMajor> all;
    auto Rows(int n) {
      if (all.rows() < n) all.resize(n, 6);
      auto rows = all.topRows(n);
      rows.setZero();
      return rows;
    }
  };
  mutable Scratch J_, by_q_, by_v_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FLEX_H_
