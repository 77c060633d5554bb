// The noslip pass behind the solver: its sweeps as the engine takes them, and their derivative. Section N of README.md.
#ifndef COSTATE_DERIVATIVE_NOSLIP_H_
#define COSTATE_DERIVATIVE_NOSLIP_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/friction_row.h"
#include "derivative/noslip_update.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Why the pass has no closed form in this model; "" when it has.
std::string NoslipMissing(const mjModel* model);

class NoslipPass {
 public:
  explicit NoslipPass(const mjModel* model) : rows_(model) {}

  /// The sweeps. @pre `data` is after mj_forward without the pass; efc_* hold forces and states at acceleration a.
  void Run(const mjModel* model, const mjData* data, const double* a);

  const Eigen::VectorXd& a() const { return a_; }    ///< behind the pass
  const Eigen::VectorXd& Ma() const { return Ma_; }  ///< M a()

  /// How the sweeps change with the point. @pre Run. @return false with the reason.
  bool Linearize(const mjModel* model, const mjData* data, const double* a, const ConstraintDerivative& constraint,
                 const TendonMoments* tendons, std::string* missing);

  /// da → da'. @param direct  the first 2 nv columns move q and v; else none does, they are those of applied forces.
  void Apply(const mjModel* model, const mjData* data, bool direct, BlockedMatrix* da);

  // what the pass adds to the forces of efc: rows, and their slopes by the columns of the last Apply
  const FrictionRows& rows() const { return rows_; }
  const Eigen::VectorXd& delta() const { return delta_; }
  const RowMatrix& delta_slopes() const { return delta_slopes_; }

  /// One switch of the pass and the least room that any sweep left it, in units of force.
  struct Room {
    int efc;
    double distance;
    bool bounded;
  };
  const std::vector<Room>& room() const { return room_; }
  double end_distance() const { return end_distance_; }  ///< of the improvement from the tolerance, as a share of it

 private:
  // rows that are updated together: the first of them, how many, the normal's row if there is one
  struct Block {
    int first, rows, normal;
    double bound;  // of dry friction
  };
  template <typename F>
  void Sweeps(const mjModel* model, const mjData* data, F after);
  static double Inertia(const mjModel* model, const mjData* data, int island);
  void FindBlocks(const mjData* data, const int* list, int nefc);
  void Update(const mjData* data, const Block& block, NoslipUpdate* update) const;

  FrictionRows rows_;
  std::vector<Block> block_;
  Eigen::VectorXd force_, delta_, a_, Ma_;  // of moving rows; f' − f; a'
  std::vector<double> start_;               // forces of all rows before the pass
  RowMatrix delta_slopes_;
  std::vector<Room> room_;
  double end_distance_ = 0;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_NOSLIP_H_
