// Spatial vectors and what acts on them in vector registers, for the passes over the tree: as spatial.h, but compiled
// once more for each instruction set together with the function that uses them (core/simd.h), which Eigen's types are
// not.
#ifndef COSTATE_DERIVATIVE_SPATIAL_LANES_H_
#define COSTATE_DERIVATIVE_SPATIAL_LANES_H_

#include "core/simd.h"
#include "derivative/spatial.h"

#define COSTATE_LANES __attribute__((always_inline)) inline
#pragma GCC diagnostic ignored "-Wpsabi"  // all of it is inlined: no vector is passed to a function

namespace costate {

typedef double LooseDouble4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double LooseDouble2 __attribute__((vector_size(16), aligned(8), may_alias));

/// Three numbers; what the fourth lane holds is nobody's business.
COSTATE_LANES Double4 LoadLanes(const double* p) { return *reinterpret_cast<const LooseDouble4*>(p); }
COSTATE_LANES Double4 LanesYzx(Double4 x) { return __builtin_shufflevector(x, x, 1, 2, 0, 3); }
COSTATE_LANES Double4 CrossLanes(Double4 x, Double4 y) { return LanesYzx(x * LanesYzx(y) - LanesYzx(x) * y); }
COSTATE_LANES double DotLanes(Double4 x, Double4 y) {
  const Double4 all = x * y;
  return all[0] + all[1] + all[2];
}

/// Rotation and translation.
struct Lanes6 {
  Double4 a, l;

  static COSTATE_LANES Lanes6 Zero() { return {Double4{}, Double4{}}; }
  // four and two numbers: what has just been stored is loaded as it was, or the processor waits
  static COSTATE_LANES Lanes6 Load(const double* p) {
    const Double4 begin = LoadLanes(p);
    const LooseDouble2 end = *reinterpret_cast<const LooseDouble2*>(p + 4);
    return {begin, __builtin_shufflevector(begin, __builtin_shufflevector(end, end, 0, 1, 1, 1), 3, 4, 5, 5)};
  }
  COSTATE_LANES void Store(double* p) const {
    *reinterpret_cast<LooseDouble4*>(p) = __builtin_shufflevector(a, l, 0, 1, 2, 4);
    *reinterpret_cast<LooseDouble2*>(p + 4) = __builtin_shufflevector(l, l, 1, 2);
  }
  COSTATE_LANES void Spread(double* p) const {
    for (int k = 0; k < 3; k++) p[k] = a[k], p[3 + k] = l[k];
  }
  COSTATE_LANES Lanes6 operator+(const Lanes6& o) const { return {a + o.a, l + o.l}; }
  COSTATE_LANES Lanes6 operator-(const Lanes6& o) const { return {a - o.a, l - o.l}; }
  COSTATE_LANES Lanes6 operator-() const { return {-a, -l}; }
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

COSTATE_LANES double DotLanes(const Lanes6& x, const Lanes6& y) {
  const Double4 all = x.a * y.a + x.l * y.l;
  return all[0] + all[1] + all[2];
}

/// A motion or a wrench about another point, as in chain.h.
COSTATE_LANES Lanes6 MotionAbout(const Lanes6& s, Double4 shift) { return {s.a, s.l + CrossLanes(s.a, shift)}; }
COSTATE_LANES Lanes6 WrenchAbout(const Lanes6& f, Double4 shift) { return {f.a - CrossLanes(shift, f.l), f.l}; }

/// A 3×3 matrix by its columns.
struct Lanes3x3 {
  Double4 x, y, z;
  COSTATE_LANES Double4 operator*(Double4 v) const { return x * v[0] + y * v[1] + z * v[2]; }
  COSTATE_LANES Lanes3x3 Transposed() const {
    const Double4 low = __builtin_shufflevector(x, y, 0, 4, 1, 5), high = __builtin_shufflevector(x, y, 2, 6, 2, 6);
    return {__builtin_shufflevector(low, z, 0, 1, 4, 7), __builtin_shufflevector(low, z, 2, 3, 5, 7),
            __builtin_shufflevector(high, z, 0, 1, 6, 7)};
  }
};

/// Inertia of spatial.h.
struct InertiaLanes {
  Lanes3x3 J;
  Double4 h;
  double m;

  explicit COSTATE_LANES InertiaLanes(const Inertia& I) : InertiaLanes(reinterpret_cast<const double*>(&I)) {}
  // shuffled in registers: numbers put together in memory would be waited for
  explicit COSTATE_LANES InertiaLanes(const double* cinert) : h(LoadLanes(cinert + 6)), m(cinert[9]) {
    const Double4 low = LoadLanes(cinert), high = LoadLanes(cinert + 3);  // xx yy zz xy, xy xz yz
    J.x = __builtin_shufflevector(low, high, 0, 4, 5, 5);
    J.y = __builtin_shufflevector(low, high, 4, 1, 6, 6);
    J.z = __builtin_shufflevector(low, high, 5, 6, 2, 2);
  }
  COSTATE_LANES Lanes6 operator*(const Lanes6& v) const {
    return {J * v.a + CrossLanes(h, v.l), m * v.l - CrossLanes(h, v.a)};
  }
};

/// α → ((tr P 1 − P) α ; −p × α), a linear map of the rotation alone, and its transpose; reads a number past P and arm.
struct RotationLanes {
  Lanes3x3 map, transposed;
  Double4 p;

  COSTATE_LANES RotationLanes(double factor, const double* P, const double* arm) {
    const double trace = P[0] + P[4] + P[8];
    map.x = factor * (Double4{trace, 0, 0, 0} - LoadLanes(P));
    map.y = factor * (Double4{0, trace, 0, 0} - LoadLanes(P + 3));
    map.z = factor * (Double4{0, 0, trace, 0} - LoadLanes(P + 6));
    transposed = map.Transposed();
    p = factor * LoadLanes(arm);
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
  const auto three = [](Double4 r0, Double4 r1, Double4 r2, Double4 r3, Double4 * to) __attribute__((always_inline)) {
    const Double4 low = __builtin_shufflevector(r0, r1, 0, 4, 2, 6), high = __builtin_shufflevector(r2, r3, 0, 4, 2, 6);
    const Double4 odd = __builtin_shufflevector(r0, r1, 1, 5, 3, 7),
                  odd_high = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
    to[0] = __builtin_shufflevector(low, high, 0, 1, 4, 5);
    to[1] = __builtin_shufflevector(odd, odd_high, 0, 1, 4, 5);
    to[2] = __builtin_shufflevector(low, high, 2, 3, 6, 7);
  };
  three(x0.a, x1.a, x2.a, x3.a, out);
  three(x0.l, x1.l, x2.l, x3.l, out + 3);
}

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SPATIAL_LANES_H_
