// Connect and weld equalities in ∂r and in H. Section W of README.md.
#ifndef COSTATE_DERIVATIVE_ATTACHMENT_H_
#define COSTATE_DERIVATIVE_ATTACHMENT_H_

#include <mujoco/mujoco.h>

#include <vector>

#include "derivative/tree_derivative.h"

namespace costate {

/// Two bodies held together at a point (connect: 3 rows) or in a pose (weld: 6 rows). Unlike a contact the two points
/// differ, common ancestors count, and the acceleration is the full one, velocity products included.
class AttachmentDerivative {
 public:
  void Clear();

  /// Takes the equality whose first row is `row`; its wrench is added to the two bodies for the composites.
  void Add(const mjModel* model, const mjData* data, int row, std::vector<BodyConstraint>* body);

  void DeclareCouplings(TreeSolver* H) const;

  /// Adds −∂r by q and v to R and the equality's part of H.
  void AddTo(const mjModel* model, const mjData* data, const TreeDerivative& tree, BlockedMatrix* R, TreeSolver* H) const;

 private:
  struct Item {
    int row, rows, body[2];
    int chain_start, chain_count;
  };
  struct Pose;  // both ends as the engine places them
  static Pose MakePose(const mjModel* model, const mjData* data, const Item& item);
  void AddItem(const mjModel* model, const mjData* data, const TreeDerivative& tree, const Item& item, BlockedMatrix* R,
               TreeSolver* H) const;

  std::vector<Item> item_;
  std::vector<int> chain_;             // dofs that move either body
  std::vector<unsigned char> moves_;   // bit 0: moves body[0], bit 1: body[1]
  mutable std::vector<double> work_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ATTACHMENT_H_
