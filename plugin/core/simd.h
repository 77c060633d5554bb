// Vector width is chosen at run time: a function marked COSTATE_SIMD is compiled for several instruction sets and the
// loader picks the widest that the processor has. Elsewhere than x86-64 the compiler's own target is used.
#ifndef COSTATE_CORE_SIMD_H_
#define COSTATE_CORE_SIMD_H_

// The levels are feature sets, not processors: "arch=haswell" would be refused by the loader on every AMD machine.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define COSTATE_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COSTATE_SIMD
#endif

namespace costate {

// four doubles that the compiler keeps in the widest registers it has
typedef double Double4 __attribute__((vector_size(32), aligned(32)));
// … and eight, as a spatial vector with two to spare
typedef double Double8 __attribute__((vector_size(64), aligned(64)));

}  // namespace costate

#endif  // COSTATE_CORE_SIMD_H_
