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

/// The contacts that match, in the order of the sensor's slots. @return false where one of them is of a flex.
bool MatchContacts(const mjModel* model, const mjData* data, int sensor, std::vector<MatchedContact>* found);

/// Is the contact one of the site's body, and does its normal meet the site, as a touch sensor asks?
bool PassesThroughSite(const mjModel* model, const mjData* data, int site, const mjContact& contact);

/// Is it a sensor of contacts at a site?
bool ReadsContactsOfSite(const mjModel* model, int sensor);

/// Which contacts are at its site: one entry a contact.
void ContactsOfSite(const mjModel* model, const mjData* data, int sensor, std::vector<char>* within);

int ContactSlots(const mjModel* model, int sensor);

/// Does the sensor choose among the contacts that match?
bool ChoosesContacts(const mjModel* model, int sensor);

/// By how much the contacts that the sensor reads, as MatchContacts found them, are apart from each other and from the
/// next one: forces [N] or distances [m]; mjMAXVAL where there is no other.
double ChoiceRoom(const mjModel* model, int sensor, const std::vector<MatchedContact>& found);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SENSOR_CONTACT_H_
