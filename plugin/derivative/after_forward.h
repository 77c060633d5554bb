// Derivatives in the middle of a caller's loop: is its mjData what mj_forward leaves, and how it stays so.
#ifndef COSTATE_DERIVATIVE_AFTER_FORWARD_H_
#define COSTATE_DERIVATIVE_AFTER_FORWARD_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// Is nothing to be seen in `data` of a mj_forward about another point or under other options, or of none? What costs
/// little is looked at: README.md, (1a). @param work  memory that the caller keeps between calls.
bool IsAfterForward(const mjModel* model, mjData* data, std::vector<double>* work);

/// What derivatives write in `data`: the acceleration, and forces, states and cone Hessians of the constraints.
class ForwardResults {
 public:
  void Save(const mjData* data, int nv);
  void Restore(mjData* data) const;

 private:
  std::vector<double> numbers_;
  std::vector<int> states_;
  int nv_ = 0;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_AFTER_FORWARD_H_
