// Random numbers alike on every machine with the same libm: the library's distributions may differ.
#ifndef COSTATE_CORE_RANDOM_H_
#define COSTATE_CORE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <utility>

namespace costate {

/// In [0, 1): the first 53 of 64 random bits.
inline double Uniform(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Two standard normal numbers from uniform ones, 0 < u <= 1 and 0 <= v < 1 (Box & Muller 1958).
inline std::pair<double, double> NormalPair(double u, double v) {
  const double r = std::sqrt(-2 * std::log(u)), a = 2 * std::numbers::pi * v;
  return {r * std::cos(a), r * std::sin(a)};
}

/// A stream of standard normal numbers.
class NormalStream {
 public:
  explicit NormalStream(const std::mt19937_64& engine) : engine_(engine) {}

  double Next() {
    spare_ = !spare_;
    if (!spare_) return pair_.second;
    const double u = Uniform(engine_()) + 0x1p-54;
    pair_ = NormalPair(u, Uniform(engine_()));
    return pair_.first;
  }

 private:
  std::mt19937_64 engine_;
  std::pair<double, double> pair_;
  bool spare_ = false;
};

}  // namespace costate

#endif  // COSTATE_CORE_RANDOM_H_
