// Noise on controls: its unit, and random numbers of a sample whatever other samples there are and whichever thread
// draws them.
#ifndef COSTATE_OPTIMIZER_CONTROL_NOISE_H_
#define COSTATE_OPTIMIZER_CONTROL_NOISE_H_

#include <costate/solver.h>

#include <algorithm>
#include <cstdint>

#include "core/random.h"
#include "optimizer/position_servo.h"

namespace costate {

/// Half of each control's range, 1 without one (nu).
/// @param limits  a Problem or a Task.
template <class Limits>
VectorXd HalfRanges(const Limits& limits) {
  const VectorXd half = 0.5 * (limits.u_upper - limits.u_lower);
  return half.array().isFinite().select(half, 1);
}

/// In which regularization counts controls (nu): half of each control's range where they are evidently of different
/// units, the largest range more than 30 times the least, newtons beside radians; else empty: in their own.
inline VectorXd RegularizationUnits(const Problem& problem) {
  constexpr double kMixed = 30;
  const VectorXd half = HalfRanges(problem);
  const bool mixed = half.size() > 0 && half.minCoeff() > 0 && half.maxCoeff() > kMixed * half.minCoeff();
  return mixed ? half : VectorXd();
}

/// What kicks are measured by (nu): as HalfRanges, but of a servo with a limited force half of the control's way from
/// one limit of force to the other where that is less. Farther off it only pulls harder than it can, as no motor does.
inline VectorXd KickUnits(const Problem& problem) {
  VectorXd units = HalfRanges(problem);
  for (const PositionServo& servo : PositionServos(problem.model))
    units[servo.control] = std::min(units[servo.control], 0.5 * servo.stroke);
  return units;
}

/// A stream of its own for every (seed, iteration, sample): splitmix64, Steele et al. 2014.
class SampleStream {
 public:
  SampleStream(std::uint64_t seed, int iteration, int sample) : state_(seed) {
    state_ = Next() ^ (static_cast<std::uint64_t>(iteration) << 32 | static_cast<std::uint64_t>(sample));
    Next();
  }

  /// In [0, 1).
  double Uniform() { return costate::Uniform(Next()); }

  /// Standard normal.
  double Normal() {
    const double u = Uniform() + 0x1p-53;
    return NormalPair(u, Uniform()).first;
  }

 private:
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONTROL_NOISE_H_
