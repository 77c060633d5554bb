// Spatial vectors and what acts on them in vector registers, for the passes over the tree: as spatial.h, but compiled
// once more for each instruction set together with the function that uses them (core/simd.h), which Eigen's types are not.
#ifndef COSTATE_DERIVATIVE_SPATIAL_LANES_H_
#define COSTATE_DERIVATIVE_SPATIAL_LANES_H_

#include "core/simd.h"
#include "derivative/spatial.h"

#define COSTATE_LANES __attribute__((always_inline)) inline
#pragma GCC diagnostic ignored "-Wpsabi"  // all of it is inlined: no vector is passed to a function

namespace costate {

typedef double LooseDouble4 __attribute__((vector_size(32), aligned(8), may_alias));

/// Three numbers; what the fourth lane holds is nobody's business.
COSTATE_LANES Double4 LoadLanes(const double* p) { return *reinterpret_cast<const LooseDouble4*>(p); }
COSTATE_LANES Double4 LanesYzx(Double4 x) { return __builtin_shufflevector(x, x, 1, 2, 0, 3); }
COSTATE_LANES Double4 CrossLanes(Double4 x, Double4 y) { return LanesYzx(x * LanesYzx(y) - LanesYzx(x) * y); }

/// Rotation and translation.
struct Lanes6 {
  Double4 a, l;

  static COSTATE_LANES Lanes6 Zero() { return {Double4{}, Double4{}}; }
  static COSTATE_LANES Lanes6 Load(const double* p) {
    const Double4 end = LoadLanes(p + 2);
    return {LoadLanes(p), __builtin_shufflevector(end, end, 1, 2, 3, 3)};
  }
  COSTATE_LANES void Store(double* p) const {
    *reinterpret_cast<LooseDouble4*>(p) = a;
    *reinterpret_cast<LooseDouble4*>(p + 2) = __builtin_shufflevector(a, l, 2, 4, 5, 6);
  }
  COSTATE_LANES Lanes6 operator+(const Lanes6& o) const { return {a + o.a, l + o.l}; }
  COSTATE_LANES Lanes6 operator-(const Lanes6& o) const { return {a - o.a, l - o.l}; }
  COSTATE_LANES void operator+=(const Lanes6& o) { a += o.a, l += o.l; }
  COSTATE_LANES void operator-=(const Lanes6& o) { a -= o.a, l -= o.l; }
};
COSTATE_LANES Lanes6 operator*(double s, const Lanes6& x) { return {s * x.a, s * x.l}; }

/// x × y and x ×* f of spatial.h.
COSTATE_LANES Lanes6 CrossMotion(const Lanes6& x, const Lanes6& y) {
  return {CrossLanes(x.a, y.a), CrossLanes(x.a, y.l) + CrossLanes(x.l, y.a)};
}
COSTATE_LANES Lanes6 CrossForce(const Lanes6& x, const Lanes6& f) {
  return {CrossLanes(x.a, f.a) + CrossLanes(x.l, f.l), CrossLanes(x.a, f.l)};
}

/// A 3×3 matrix by its columns.
struct Lanes3x3 {
  Double4 x, y, z;
  COSTATE_LANES Double4 operator*(Double4 v) const { return x * v[0] + y * v[1] + z * v[2]; }
};

/// Inertia of spatial.h.
struct InertiaLanes {
  Lanes3x3 J;
  Double4 h;
  double m;

  explicit COSTATE_LANES InertiaLanes(const Inertia& I)
      : J{{I.j[0], I.j[3], I.j[4], 0}, {I.j[3], I.j[1], I.j[5], 0}, {I.j[4], I.j[5], I.j[2], 0}},
        h{I.h[0], I.h[1], I.h[2], 0},
        m(I.m) {}
  COSTATE_LANES Lanes6 operator*(const Lanes6& v) const {
    return {J * v.a + CrossLanes(h, v.l), m * v.l - CrossLanes(h, v.a)};
  }
};

/// A linear map of the rotation alone, α → ((tr P 1 − P) α ; −p × α), and its transpose.
struct RotationLanes {
  Lanes3x3 map, transposed;
  Double4 p;

  COSTATE_LANES RotationLanes(double factor, const double* P, const double* arm) {
    const double trace = P[0] + P[4] + P[8];
    map.x = factor * Double4{trace - P[0], -P[1], -P[2], 0};
    map.y = factor * Double4{-P[3], trace - P[4], -P[5], 0};
    map.z = factor * Double4{-P[6], -P[7], trace - P[8], 0};
    transposed.x = __builtin_shufflevector(__builtin_shufflevector(map.x, map.y, 0, 4, 3, 3), map.z, 0, 1, 4, 7);
    transposed.y = __builtin_shufflevector(__builtin_shufflevector(map.x, map.y, 1, 5, 3, 3), map.z, 0, 1, 5, 7);
    transposed.z = __builtin_shufflevector(__builtin_shufflevector(map.x, map.y, 2, 6, 3, 3), map.z, 0, 1, 6, 7);
    p = factor * Double4{arm[0], arm[1], arm[2], 0};
  }
  COSTATE_LANES Lanes6 operator*(const Lanes6& v) const { return {map * v.a, CrossLanes(v.a, p)}; }
  COSTATE_LANES Double4 Transposed(const Lanes6& s) const { return transposed * s.a + CrossLanes(p, s.l); }
};

/// A 6×6 matrix on a vector: M v by columns, Mᵀ v by their products.
COSTATE_LANES Lanes6 Times(const Mat6& M, const Lanes6& v) {
  Lanes6 sum = Lanes6::Zero();
  for (int c = 0; c < 3; c++) sum += v.a[c] * Lanes6::Load(M.data() + 6 * c);
  for (int c = 0; c < 3; c++) sum += v.l[c] * Lanes6::Load(M.data() + 6 * (3 + c));
  return sum;
}

/// The same component of four vectors in one register, for each of the six.
COSTATE_LANES void Transpose(const Lanes6& x0, const Lanes6& x1, const Lanes6& x2, const Lanes6& x3, Double4* out) {
  const auto three = [](Double4 r0, Double4 r1, Double4 r2, Double4 r3, Double4* to)
                         __attribute__((always_inline)) {
    const Double4 low = __builtin_shufflevector(r0, r1, 0, 4, 2, 6), high = __builtin_shufflevector(r2, r3, 0, 4, 2, 6);
    const Double4 odd = __builtin_shufflevector(r0, r1, 1, 5, 3, 7), odd_high = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
    to[0] = __builtin_shufflevector(low, high, 0, 1, 4, 5);
    to[1] = __builtin_shufflevector(odd, odd_high, 0, 1, 4, 5);
    to[2] = __builtin_shufflevector(low, high, 2, 3, 6, 7);
  };
  three(x0.a, x1.a, x2.a, x3.a, out);
  three(x0.l, x1.l, x2.l, x3.l, out + 3);
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SPATIAL_LANES_H_
