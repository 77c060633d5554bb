// Derivatives in the middle of a caller's loop: is its mjData what mj_forward leaves, and how it stays so.
#ifndef COSTATE_DERIVATIVE_AFTER_FORWARD_H_
#define COSTATE_DERIVATIVE_AFTER_FORWARD_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// Is nothing to be seen in `data` of a mj_forward about another point or under other options, or of none? What costs
/// little is looked at: README.md, (1a). @param work  memory that the caller keeps between calls.
bool IsAfterForward(const mjModel* model, mjData* data, std::vector<double>* work);

/// What derivatives write in `data`: states of the constraints, and where the acceleration is another one this, forces
/// and cone Hessians.
class ForwardResults {
 public:
  void SaveStates(const mjData* data);
  /// The rest, unless it is saved already. @pre SaveStates
  void SaveNumbers(const mjData* data, int nv);
  /// Puts back what has been saved.
  void Restore(mjData* data) const;

 private:
  std::vector<double> numbers_;
  std::vector<int> states_;
  int nv_ = 0;
  bool has_numbers_ = false;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_AFTER_FORWARD_H_
