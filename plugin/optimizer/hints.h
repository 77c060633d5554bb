// What a user may want to know of a task before it is solved, and of a motion that was found.
#ifndef COSTATE_OPTIMIZER_HINTS_H_
#define COSTATE_OPTIMIZER_HINTS_H_

#include <costate/derivative.h>
#include <costate/solver.h>
#include <costate/task.h>

#include <string>
#include <vector>

namespace costate {

/// The eigenvalue, below -1, by which a step at the task's start turns a velocity over and makes it larger: a servo or
/// damping that the integrator cannot hold. 0 where there is none, or the model is too large for a quick look.
/// @param dof  which velocity, most of all.
double OvershootAtStart(const Task& task, int* dof);

/// What keeps the guess's controls from having a cost: they cannot be simulated, or a term, or what is constrained, is
/// not finite, and at which knot first; "" where nothing does, and of a guess of states.
struct GuessTrouble {
  std::string text;
  bool ends = false;  ///< scaled down they fare no better: no solve from them begins
};
GuessTrouble FindGuessTrouble(const Task& task);

/// Terms that are differenced, and why: "residual: residual difference, …; …"; "" where all have a closed form.
std::string WithoutClosedForm(const Coverage& coverage);

/// [s] that the derivatives of an iteration take, where one control interval's are those at the start; 0 where they
/// cannot be had.
/// @param why  WithoutClosedForm.
double DerivativeTime(const Task& task, std::string* why);

/// Iterations whose gain tells whether more of them would go on.
inline constexpr int kLateIterations = 10;

/// Relative: what the last kLateIterations took off the least cost so far where their limit ended the solve; 0 within
/// constraints, where a cost may rise. Records of what was no iteration of the problem itself do not count.
double LateGain(const Task& task, const SolveResult& result);

/// Is a motion where it shall be, at what its end costs (without terminal costs: the whole time as at the last knot)
/// in terms of the end of staying at the start, or of all that the guess costs and for less than that, and within
/// constraints?
bool IsThere(const Task& task, const SolveResult& result, ConstVectorRef cost_per_knot);

/// "'foot' penetrates 'world' by 0.057 m, the mean body size is …", of the deepest contact at a state, where that is
/// none any more, and whether it comes apart within 0.1 s; else "". Links of one robot that stay in each other are left
/// out: they always overlap. @param context  empty: the model's.
struct DeepContact {
  std::string text;
  bool parts = false;
};
DeepContact FindDeepContact(const mjModel* model, ConstVectorRef context, ConstVectorRef x, ConstVectorRef u);

/// "at the end 'head' touches 'floor', …" of a robot that falls freely, stood at the start on other parts alone and is
/// lower now; else "".
std::string ComeDown(const Task& task, const Trajectory& motion);

/// <exclude …/> of two links of one robot that touch at the start; else "".
std::string TouchingLinks(const Task& task);

/// At how many knots the force of each actuator stands at a limit that the model has for it.
std::vector<int> KnotsAtLimit(const Task& task, const mjModel* model, const Trajectory& motion);

/// At how many knots each joint is pressed against an end of its range; 0 of joints that begin there.
std::vector<int> KnotsAtStop(const Task& task, const mjModel* model, const Trajectory& motion);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_HINTS_H_
