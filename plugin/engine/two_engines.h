// Is there one MuJoCo in the process? Models of another version are garbage to this one.
#ifndef COSTATE_ENGINE_TWO_ENGINES_H_
#define COSTATE_ENGINE_TWO_ENGINES_H_

namespace costate {

/// @throws Error{kUnsupported} with the two files, where the process has loaded another libmujoco beside that which
/// Costate is linked with: a host's models and data are that one's then, as of another version of MuJoCo for Python.
void RefuseTwoEngines();

}  // namespace costate

#endif  // COSTATE_ENGINE_TWO_ENGINES_H_
