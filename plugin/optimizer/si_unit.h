// Units behind the names of columns: what brings their numbers into those of the engine.
#ifndef COSTATE_OPTIMIZER_SI_UNIT_H_
#define COSTATE_OPTIMIZER_SI_UNIT_H_

#include <optional>
#include <string>

namespace costate {

/// What numbers in a unit are multiplied by to be in m, kg, s and rad: "mm" 1e-3, "deg/s" π/180, "kN m" 1000, "rpm"
/// π/30, "mm/s^2" 1e-3. Without a value where the text is no product or quotient of units: a word of one's own.
std::optional<double> ScaleOfUnit(const std::string& text);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SI_UNIT_H_
