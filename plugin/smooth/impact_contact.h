// Contacts as events: signed distances and their gradients, and the jump of the velocities. (E2), (E3) of README.md.
#ifndef COSTATE_SMOOTH_IMPACT_CONTACT_H_
#define COSTATE_SMOOTH_IMPACT_CONTACT_H_

#include <costate/state.h>

#include <vector>

#include "derivative/contact_convex.h"

namespace costate {

/// One contact point of a pair of geoms.
struct EventContact {
  int geom[2];
  double distance;  ///< less the margin [m]
  double position[3], normal[3];
  Eigen::RowVectorXd n;  ///< its gradient by the tangent of q (nv)
  bool SamePair(const EventContact& other) const { return geom[0] == other.geom[0] && geom[1] == other.geom[1]; }
};

class ImpactContacts {
 public:
  /// @param model  with contacts, not modified. @param of  which geoms' contacts are events.
  ImpactContacts(const mjModel* model, const std::vector<bool>& of);

  void SetContext(ConstVectorRef context);

  /// Forgets what only speeds up the way to the exact contact: what follows depends on nothing before.
  void Forget() { tracked_.clear(); }

  /// All event contacts nearer than `reach` at the positions of x, with gradients.
  void Find(ConstVectorRef x, std::vector<EventContact>* out);

  /// Smallest distance of a pair, `reach()` when it is not nearer.
  double Distance(ConstVectorRef x, const EventContact& pair);
  double reach() const;

  /// v⁺ of (E3) at x by a contact found there. @param impulse  along the normal; may be null.
  VectorXd Reset(ConstVectorRef x, const EventContact& contact, double restitution, double* impulse);

  /// ∂(x⁺)/∂(x) of (E3), ndx × ndx. @param error  largest error bar relative to the largest entry or 1.
  MatrixXd ResetDerivative(ConstVectorRef x, const EventContact& contact, double restitution, double* error);

 private:
  void Positions(ConstVectorRef x);
  void Look(ConstVectorRef x, std::vector<EventContact>* out);
  void MakeExact(double distance, EventContact* contact);
  double Nearest(ConstVectorRef x, const EventContact& contact, EventContact* out);

  ModelPtr model_;
  DataPtr data_;
  Dims dims_;
  std::vector<bool> of_;
  std::vector<EventContact> found_, tracked_;
  ConvexSolver convex_;
};

}  // namespace costate

#endif  // COSTATE_SMOOTH_IMPACT_CONTACT_H_
