// Elements of a model by name; what is not there is refused in one wording.
#ifndef COSTATE_CORE_ELEMENT_H_
#define COSTATE_CORE_ELEMENT_H_

#include <costate/model.h>

#include <string>
#include <vector>

namespace costate {

/// How many of a type (mjtObj) the model has; 0 of types that nobody looks for.
int ElementCount(const mjModel* model, int type);

/// ElementName of each of a type.
std::vector<std::string> ElementNames(const mjModel* model, int type);

/// The name that an element was given; "" where it has none.
std::string GivenName(const mjModel* model, int type, int id);

/// Those of all of a type that have one; of bodies without the world.
std::vector<std::string> GivenNames(const mjModel* model, int type);

/// The element that was given this name; -1 where there is none.
int NamedId(const mjModel* model, int type, const std::string& name);

/// The element of this name, or the one without that ElementName calls so; -1 where there is none.
int ElementId(const mjModel* model, int type, const std::string& name);

/// Likewise. @throws Error{kInvalidArgument}: "model 'arm' has no keyframe 'upp', did you mean 'up'?", or the names
/// that there are.
/// @param what  the type's word: "keyframe".
/// @param on    stands in front: "smoothing: ".
int FindNamed(const mjModel* model, int type, const char* what, const std::string& name, const std::string& on = "");

/// Likewise, of a name that no element has also by number, from 0.
int FindNamedOrNumbered(const mjModel* model, int type, const char* what, const std::string& name,
                        const std::string& on = "");

/// Where in sensordata the sensor of this name begins. @throws Error{kInvalidArgument} where there is none.
int SensorAddress(const mjModel* model, const std::string& name);

}  // namespace costate

#endif  // COSTATE_CORE_ELEMENT_H_
