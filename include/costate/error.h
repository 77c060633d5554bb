// What Costate throws: only for a caller's error or an engine limit. Numerical failure is a status, never an exception.
#ifndef COSTATE_ERROR_H_
#define COSTATE_ERROR_H_

#include <stdexcept>
#include <string>

namespace costate {

enum class ErrorCode {
  kInvalidArgument,    ///< an option or value out of its range
  kDimensionMismatch,  ///< a vector or matrix has the wrong size for the model
  kFile,               ///< a file cannot be read, written or is damaged
  kParse,              ///< a file is readable but not understood
  kUnsupported,        ///< the engine or Costate does not do this; the message says what does
  kEngine,             ///< MuJoCo raised mju_error; the message is its own
};

/// An error that the caller can cure. what() names the element and both values:
/// "u has 3 entries, model 'hopper' has nu = 2".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace costate

#endif  // COSTATE_ERROR_H_
