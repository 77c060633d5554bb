// M' = M + h B or M − h D: what the implicit integrators solve with. Section I of README.md.
#ifndef COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_
#define COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_

#include <mujoco/mujoco.h>

#include <memory>
#include <string>
#include <vector>

#include "derivative/actuation.h"
#include "derivative/articulated_solver.h"
#include "derivative/columns.h"
#include "derivative/coriolis.h"
#include "derivative/fluid_damping.h"
#include "derivative/free_body.h"
#include "derivative/lu.h"
#include "derivative/passive.h"
#include "derivative/spatial.h"
#include "derivative/tree_solver.h"

namespace costate {

/// Does the integrator apply another acceleration than qacc (implicit damping)?
bool HasImplicitVelocity(const mjModel* model);

/// Do implicitfast and the discrete integrator keep nothing of a fluid beside the diagonal in a dof's row? On simple
/// bodies, whose M is one; implicitfast keeps all of a free body that stands alone.
bool HasDiagonalMass(const mjModel* model, int dof);

/// ā = M'⁻¹ M a, the acceleration that Euler with damping and implicitfast apply, and its derivative.
class EffectiveMass {
 public:
  explicit EffectiveMass(const mjModel* model);

  /// "" if M' and its derivative are known in closed form, else what is not.
  /// @param actuation  what of the actuators is not.
  static std::string Missing(const mjModel* model, const std::string& actuation);

  /// Assembles and factors M', computes ā from M a.
  bool Compute(const mjModel* model, const mjData* data, const TendonMoments& tendons, const Actuation& actuation,
               const double* a, const double* Ma);

  /// From the next Compute on only single vectors are wanted: M' is solved by articulated bodies where they cover it.
  void UseProducts(bool on) { use_products_ = on; }

  const Eigen::VectorXd& applied() const { return applied_; }        ///< ā
  const Eigen::VectorXd& difference() const { return difference_; }  ///< a − ā

  /// Adds the part of E that is not dM (a − ā): −d(M' − M) ā.
  void AddColumns(const mjModel* model, const mjData* data, Columns* E) const;

  /// Does AddColumns add to other columns than the first nv, those of q?
  bool MovesWithOthers() const;

  /// A block of columns of da → dā − da = M'⁻¹ (e − (M' − M) da), e of E = dM (a − ā) − d(M' − M) ā. (I3)
  /// @param e  the same columns of E, dM (a − ā) and AddColumns; null: zero. Overwritten.
  /// @param half  for the first half of the block's columns alone.
  /// @return  `e`, or a block of this object's.
  double* Change(const double* da, double* e, bool half) const;
  /// A block of columns of M da → dā = M'⁻¹ (M da + e), in place: what Change makes of it, by one solve. Returns its
  /// argument.
  double* SolveSum(double* x, const double* e, bool half) const;
  /// The same for one vector each, x: da → dā.
  void ApplyVector(double* x, double* e) const;
  /// Its transpose. y: covector of dā → of da; z receives the covector of E.
  void ApplyTransposed(double* y, double* z) const;

 private:
  struct Entry {
    int row, col;
    double value;
  };
  // a body that implicitfast solves apart: its block of M' is not symmetric
  struct FreeBlock {
    FreeBlock(const mjModel* m, const mjData* d, int b) : body(m, d, b), damping(body.damping()) {}
    int dof() const { return body.dof(); }
    FreeBody body;
    Mat6 damping;  // M' − M
    Lu6 lu;
  };
  void SubtractDifference(const double* x, bool transposed, double* e) const;
  // h B JᵀJ of a tendon or actuator, where B or J moves
  struct Damper {
    std::vector<int> dof;
    Eigen::VectorXd J;
    const Moment* moment = nullptr;  // J = scale moment->J; null: constant
    double scale = 1, B = 0;
    double length = 0, velocity = 0, act = 0, ctrl = 0;  // slopes of B
    int act_index = -1, ctrl_index = -1;
  };
  Damper& NextDamper();
  void AddDamping(const mjModel* model, const int* dof, const mjtNum* J, int n, double B);
  void AddDamperColumns(const mjModel* model, const Damper& damper, Columns* E) const;
  void AddJointDamping(const mjModel* model, const mjData* data);
  void AddTendonDampers(const mjModel* model, const mjData* data);
  void AddActuatorDampers(const mjModel* model, const mjData* data, const Actuation& actuation);
  void AddServoDampers(const mjModel* model, const Actuation& actuation);
  bool FactorMass(const mjModel* model, const mjData* data);
  bool Factor(const mjModel* model, const mjData* data);
  void Add(int row, int col, double value);
  void SolveBlock(double* x, bool half, bool sparse) const;
  void Solve(double* x, bool transposed = false) const;
  void AddFluid(const mjModel* model, const mjData* data);
  void AddFreeBodies(const mjModel* model, const mjData* data);

  TreeSolver solver_;
  ArticulatedSolver articulated_solver_;
  bool use_products_ = false, articulated_ = false;  // which of the two holds M'
  std::vector<double> diagonal_;                     // of M' − M
  std::vector<double> slope_;                        // d(diagonal)/dv, from polynomial damping
  std::vector<Entry> entries_;                       // strictly lower part of M' − M
  bool any_standalone_;                              // free bodies, which FreeBlocks are of
  std::vector<FreeBlock> free_;
  const TendonMoments* tendons_ = nullptr;
  std::unique_ptr<FluidDamping> fluid_;
  bool fluid_present_ = false;
  std::unique_ptr<CoriolisDamping> coriolis_;  // implicit alone: M' is not symmetric
  Eigen::MatrixXd bias_;                       // its part of M' − M
  DenseLu lu_;                                 // of the whole M'
  Eigen::MatrixXd whole_;                      // M'
  std::vector<Damper> damper_;                 // those whose part of M' moves, and memory behind …
  std::size_t dampers_ = 0;                    // … so many
  mutable Eigen::MatrixXd column_;             // memory of AddDamperColumns
  mutable std::vector<double> right_side_;
  mutable BlockedMatrix zero_;  // one block, where E has none
  Eigen::VectorXd applied_, difference_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_EFFECTIVE_MASS_H_
