// Which contacts a contact sensor reads. (M18) of README.md.
#ifndef COSTATE_DERIVATIVE_SENSOR_CONTACT_H_
#define COSTATE_DERIVATIVE_SENSOR_CONTACT_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// What a contact sensor does with the contacts that match: second of its integer parameters.
enum class Reduction { kNone, kNearest, kStrongest, kNet };

Reduction ReductionOf(const mjModel* model, int sensor);

struct MatchedContact {
  double criterion;  ///< the least come first: distance, or minus the squared force
  int contact;
  double sign;  ///< −1: seen the other way round
};

/// The contacts that match, in the order of the sensor's slots. @return false where one is of a flex.
bool MatchContacts(const mjModel* model, const mjData* data, int sensor, std::vector<MatchedContact>* found);

int ContactSlots(const mjModel* model, int sensor);

/// Does the sensor choose among the contacts that match?
bool ChoosesContacts(const mjModel* model, int sensor);

/// By how much the contacts that the sensor reads, as MatchContacts found them, are apart from each other and from the
/// next one: forces [N] or distances [m]; mjMAXVAL where there is no other.
double ChoiceRoom(const mjModel* model, int sensor, const std::vector<MatchedContact>& found);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SENSOR_CONTACT_H_
