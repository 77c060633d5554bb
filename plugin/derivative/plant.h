// Formulas that a test can make wrong by one per cent, to see that the checks notice: tests/planted.
#ifndef COSTATE_DERIVATIVE_PLANT_H_
#define COSTATE_DERIVATIVE_PLANT_H_

/// PLANT("term: what", expression) is the expression. Where COSTATE_PLANTS is defined (tests/planted compiles the files
/// that include this header once more) it is the expression times a factor that the name selects, 1 unless set.
#ifndef COSTATE_PLANTS
#define PLANT(name, ...) (__VA_ARGS__)
#else
#define PLANT(name, ...) (::costate::Plant<name>::factor * (__VA_ARGS__))

#include <algorithm>
#include <map>
#include <string>

namespace costate {

/// The factor of every plant in the program, by name, filled before main.
inline std::map<std::string, double>& Plants() {
  static std::map<std::string, double> plants;
  return plants;
}

template <std::size_t size>
struct PlantName {
  char text[size];
  constexpr PlantName(const char (&from)[size]) { std::copy_n(from, size, text); }
};

template <PlantName name>
struct Plant {
  static inline const double& factor = Plants().emplace(name.text, 1.0).first->second;
};

}  // namespace costate

#endif
#endif  // COSTATE_DERIVATIVE_PLANT_H_
