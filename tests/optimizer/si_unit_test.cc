// Units of columns: what is one, and what it is worth.
#include <gtest/gtest.h>

#include <numbers>
#include <string>
#include <utility>

#include "optimizer/si_unit.h"

namespace costate {
namespace {

TEST(SiUnit, BringsNumbersIntoMetresKilogramsSecondsAndRadians) {
  constexpr double pi = std::numbers::pi;
  const std::pair<const char*, double> units[] = {{"m", 1},
                                                  {"mm", 1e-3},
                                                  {"cm", 1e-2},
                                                  {"km", 1e3},
                                                  {"s", 1},
                                                  {"ms", 1e-3},
                                                  {"µs", 1e-6},
                                                  {"us", 1e-6},
                                                  {"min", 60},
                                                  {"rad", 1},
                                                  {"deg", pi / 180},
                                                  {"°", pi / 180},
                                                  {"deg/s", pi / 180},
                                                  {"Deg/s", pi / 180},
                                                  {"DEG", pi / 180},
                                                  {"deg.", pi / 180},
                                                  {"RPM", pi / 30},
                                                  {"Rad", 1},
                                                  {"°/s", pi / 180},
                                                  {"rpm", pi / 30},
                                                  {"rad/s", 1},
                                                  {"mrad/s", 1e-3},
                                                  {"m/s^2", 1},
                                                  {"mm/s²", 1e-3},
                                                  {"cm/s**2", 1e-2},
                                                  {"deg/s2", pi / 180},
                                                  {"N", 1},
                                                  {"kN", 1e3},
                                                  {"N m", 1},
                                                  {"N·m", 1},
                                                  {"N*m", 1},
                                                  {"Nm", 1},
                                                  {"mNm", 1e-3},
                                                  {"mN m", 1e-3},
                                                  {"N m/rad", 1},
                                                  {"N m/deg", 180 / pi},
                                                  {"N/mm", 1e3},
                                                  {"kg", 1},
                                                  {"kg m^2/s", 1},
                                                  {"mm^2", 1e-6},
                                                  {"inch", 0.0254},
                                                  {"1", 1},
                                                  {"/s", 1},
                                                  {"mV", 1e-3}};
  for (const auto& [unit, scale] : units) {
    ASSERT_TRUE(ScaleOfUnit(unit)) << unit;
    EXPECT_NEAR(*ScaleOfUnit(unit), scale, 1e-15 * scale) << unit;
  }
}

TEST(SiUnit, AWordOfOnesOwnIsNone) {
  for (const char* word : {"", "left", "ctrl", "m or rad", "m/s or rad/s", "user", "pixel", "mixed", "m/", "m//s", "%",
                           "g", "k", "raw 12", "KG2M", "H", "Mm m.", "turnip"})
    EXPECT_FALSE(ScaleOfUnit(word)) << word;
}

}  // namespace
}  // namespace costate
