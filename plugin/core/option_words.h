// The engine's options and types of joints in MJCF's words, each at the value of its enum.
#ifndef COSTATE_CORE_OPTION_WORDS_H_
#define COSTATE_CORE_OPTION_WORDS_H_

namespace costate {

inline constexpr const char* kIntegratorWords[] = {"Euler", "RK4", "implicit", "implicitfast", "discrete"};
inline constexpr const char* kSolverWords[] = {"PGS", "CG", "Newton"};
inline constexpr const char* kConeWords[] = {"pyramidal", "elliptic"};
inline constexpr const char* kJacobianWords[] = {"dense", "sparse", "auto"};
inline constexpr const char* kJointWords[] = {"free", "ball", "slide", "hinge"};

}  // namespace costate

#endif  // COSTATE_CORE_OPTION_WORDS_H_
