// What every solver refuses before it starts.
#ifndef COSTATE_OPTIMIZER_SOLVER_CHECKS_H_
#define COSTATE_OPTIMIZER_SOLVER_CHECKS_H_

#include <costate/ilqr.h>

#include <string>

namespace costate {

/// @throws Error{kInvalidArgument} when the problem lacks a model, cost, degree of freedom, actuator or horizon, holds
///         a number that is not finite, limits that exclude each other or a free start that names no entry or leaves
///         out x0; Error{kDimensionMismatch} for a wrong size.
void CheckProblem(const Problem& problem, ConstMatrixRef U);

/// "; derivatives at every 4th knot, interpolated in between", or nothing where there is one at each.
std::string DerivativeEveryText(int every);

/// @throws Error{kUnsupported} for an actuator that acts late, and for a sensor of the past that the cost reads: what is
/// on its way is no part of x, and A … D would not know it.
void RefuseDelays(const Problem& problem, const char* solver);

/// need(o.rate > 0, "rate", o.rate, "positive"): refuses an option by its name, its value and its range.
class OptionCheck {
 public:
  explicit OptionCheck(const char* owner) : owner_(owner) {}  ///< "MPC: "

  /// @throws Error{kInvalidArgument} unless good.
  void operator()(bool good, const char* name, double value, const char* range) const;
  void ZeroOrMore(const char* name, double value) const;  ///< and finite; throws likewise

 private:
  const char* owner_;
};

/// The options that iLQR and multiple shooting share.
void CheckSolverOptions(const IlqrOptions& options, const OptionCheck& need);

/// @throws Error{kInvalidArgument} for a time limit, which iLQR alone keeps.
void RefuseTimeLimit(const IlqrOptions& options, const OptionCheck& need);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_SOLVER_CHECKS_H_
