// What every function of the C interface does around its work: no exception passes, its text does.
#ifndef COSTATE_ENGINE_C_CALL_H_
#define COSTATE_ENGINE_C_CALL_H_

#include <costate/error.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "core/engine_guard.h"

namespace costate {

/// Cut to the caller's buffer, always ended, never within a character of UTF-8.
inline void WriteError(const char* text, char* error, int error_sz) {
  if (error == nullptr || error_sz <= 0) return;
  const auto continues = [text](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  std::size_t n = std::min(std::strlen(text), static_cast<std::size_t>(error_sz) - 1);
  while (n > 0 && continues(n)) n--;
  std::memcpy(error, text, n);
  error[n] = '\0';
}

/// 0, with what `call` has to say in error, if anything; or 1 with the reason there.
template <typename F>
int CallFromC(char* error, int error_sz, F call) {
  try {
    EngineGuard guard;  // outermost: what the engine warns about our private data stays here
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      WriteError("", error, error_sz);
    } else {
      WriteError(std::string(call()).c_str(), error, error_sz);
    }
    return 0;
  } catch (const std::bad_alloc&) {
    WriteError("out of memory", error, error_sz);
  } catch (const std::exception& exception) {
    WriteError(exception.what(), error, error_sz);
  } catch (...) {
    WriteError("unknown error", error, error_sz);
  }
  return 1;
}

/// The same of a function that steps private data: refused in a callback that the engine calls in such a step.
template <typename F>
int SimulateFromC(const char* function, char* error, int error_sz, F call) {
  try {
    RefuseInCallback(function);
  } catch (const std::exception& refused) {
    WriteError(refused.what(), error, error_sz);
    return 1;
  }
  return CallFromC(error, error_sz, call);
}

/// @throws Error{kInvalidArgument} "m is NULL".
template <typename T>
void RefuseNull(T* pointer, const char* name) {
  if (pointer == nullptr) throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is NULL");
}

}  // namespace costate

#endif  // COSTATE_ENGINE_C_CALL_H_
