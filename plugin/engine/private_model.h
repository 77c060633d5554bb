// A model as a plugin may simulate it from inside its own callback: the host's values, without instances of itself.
#ifndef COSTATE_ENGINE_PRIVATE_MODEL_H_
#define COSTATE_ENGINE_PRIVATE_MODEL_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// A view of the host's model that leaves out all instances of one plugin: the engine calls none of them on data made
/// from it. It shares the host's arrays, so values changed there are seen after the next Refresh. The layout of
/// plugin_state is the host's: states of the two can be exchanged. mj_name2id finds all names but those of instances.
class PrivateModel {
 public:
  PrivateModel(const mjModel* host, int plugin_slot);
  PrivateModel(const PrivateModel&) = delete;
  PrivateModel& operator=(const PrivateModel&) = delete;

  void Refresh(const mjModel* host);
  const mjModel* get() const { return &view_; }

 private:
  std::vector<int> plugin_, stateadr_, statenum_, attradr_,
      nameadr_;                                       // of the instances that are left
  std::vector<int> body_, geom_, actuator_, sensor_;  // their numbers, −1 for one that is not
  mjModel view_;
};

}  // namespace costate

#endif  // COSTATE_ENGINE_PRIVATE_MODEL_H_
