// Vector width is chosen at run time: a function marked COSTATE_SIMD is compiled for several instruction sets and the
// loader picks the widest that the processor has. Elsewhere than x86-64 the compiler's own target is used.
#ifndef COSTATE_CORE_SIMD_H_
#define COSTATE_CORE_SIMD_H_

// The levels are feature sets, not processors: "arch=haswell" would be refused by the loader on every AMD machine.
//
// COSTATE_SIMD_LANES defines such a function of a template <int kLanes>, for vectors of as many doubles as a register
// has: GCC moves wider ones to memory and back at each use, where several of them are summed up in a loop.
// It is not declared anywhere before, as in a header: GCC binds calls that it has read by then to the widest version.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define COSTATE_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define COSTATE_SIMD_LANES(type, name, parameters, of_lanes, arguments)                            \
  __attribute__((target("arch=x86-64-v4"))) type name parameters { return of_lanes<8> arguments; } \
  __attribute__((target("arch=x86-64-v3"))) type name parameters { return of_lanes<4> arguments; } \
  __attribute__((target("default"))) type name parameters { return of_lanes<2> arguments; }
#else
#define COSTATE_SIMD
#define COSTATE_SIMD_LANES(type, name, parameters, of_lanes, arguments) \
  type name parameters { return of_lanes<2> arguments; }
#endif

// before a loop over what registers hold: GCC keeps an array in memory whose loops it unrolls late
#define COSTATE_UNROLL _Pragma("GCC unroll 16")

namespace costate {

// what is read once stays where it is, instead of being read again at each use
template <typename Vector>
__attribute__((always_inline)) inline void KeepInRegister(Vector& x) {
#if defined(__x86_64__) && defined(__GNUC__)
  asm("" : "+v"(x));
#endif
}

// four doubles that the compiler keeps in the widest registers it has
typedef double Double4 __attribute__((vector_size(32), aligned(32)));
// … and eight, as a spatial vector with two to spare
typedef double Double8 __attribute__((vector_size(64), aligned(64)));
// of COSTATE_SIMD_LANES; loose ones lie anywhere. Numbers are compared by their bits: GCC compares vectors one number
// after the other, since what it makes of a comparison is decided before it knows for which registers
template <int kLanes>
struct Lanes {
  typedef double Vector __attribute__((vector_size(8 * kLanes), may_alias));
  typedef double Loose __attribute__((vector_size(8 * kLanes), aligned(8), may_alias));
  typedef long long Bits __attribute__((vector_size(8 * kLanes), aligned(8), may_alias));
};
constexpr long long kNumberBits = 0x7fffffffffffffff;  // all but the sign's: zero or not, and how large

// vectors of four that lie anywhere
typedef double Loose4 __attribute__((vector_size(32), aligned(8), may_alias));

// rows of a square ← its columns
__attribute__((always_inline)) inline void Transpose4(const Double4& r0, const Double4& r1, const Double4& r2,
                                                      const Double4& r3, Double4 (&out)[4]) {
  const Double4 a = __builtin_shufflevector(r0, r1, 0, 4, 2, 6), b = __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
  const Double4 c = __builtin_shufflevector(r2, r3, 0, 4, 2, 6), d = __builtin_shufflevector(r2, r3, 1, 5, 3, 7);
  out[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  out[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  out[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  out[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

}  // namespace costate

#endif  // COSTATE_CORE_SIMD_H_
