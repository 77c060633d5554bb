// What the program was compiled with, as records and --version name it.
#ifndef COSTATE_CORE_COMPILER_H_
#define COSTATE_CORE_COMPILER_H_

namespace costate {

#ifdef __clang__
inline constexpr char kCompiler[] = "clang " __clang_version__;
#else
inline constexpr char kCompiler[] = "g++ " __VERSION__;
#endif

}  // namespace costate

#endif  // COSTATE_CORE_COMPILER_H_
