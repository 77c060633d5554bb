// The C interface in a program that already has its mjModel and mjData: no C++ type of Costate in sight, the same calls
// work from C, from Python's ctypes or from any language that can pass two pointers. This is the last example; the
// functions are described in include/costate/costate_c.h.
//
// Prints:
//   A is 36 x 36, B is 36 x 12
//   agrees with mjd_transitionFD: yes
//   level is 7, it is 0 (best available), 1 (analytic), 2 (residual difference) or 3 (step difference)
//   swing-up in 150 intervals, converged: yes, cost below 1 % of the guess's: yes
//   upright at the end: yes
#include <costate/costate_c.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  char error[500];
  mjModel* m = mj_loadXML(COSTATE_MODELS "/quadruped/quadruped.xml", nullptr, error, sizeof error);
  if (!m) return std::fprintf(stderr, "%s\n", error), 1;
  mjData* d = mj_makeData(m);
  mj_resetDataKeyframe(m, d, mj_name2id(m, mjOBJ_KEY, "stand"));

  // row-major, as mjd_transitionFD writes them; an output may be left out
  const int ndx = static_cast<int>(2 * m->nv + m->na);
  std::vector<mjtNum> A(ndx * ndx), A_fd(ndx * ndx), B(ndx * m->nu);
  if (costate_transition(m, d, 0, A.data(), B.data(), nullptr, nullptr, error, sizeof error) != 0) {
    return std::fprintf(stderr, "%s\n", error), 1;
  }
  mjd_transitionFD(m, d, 1e-6, 1, A_fd.data(), nullptr, nullptr, nullptr);
  double largest = 0, difference = 0;
  for (int i = 0; i < ndx * ndx; ++i) {
    largest = std::max(largest, std::abs(A[i]));
    difference = std::max(difference, std::abs(A[i] - A_fd[i]));
  }
  std::printf("A is %d x %d, B is %d x %d\n", ndx, ndx, ndx, static_cast<int>(m->nu));
  std::printf("agrees with mjd_transitionFD: %s\n", difference < 1e-4 * largest ? "yes" : "no");

  // an error is a sentence
  if (costate_transition(m, d, 7, A.data(), nullptr, nullptr, nullptr, error, sizeof error) != 0) {
    std::printf("%s\n", error);
  }
  mj_deleteData(d);
  mj_deleteModel(m);

  // a task file is solved as `costate optimize` does it
  costate_task* task = costate_load_task(COSTATE_MODELS "/pendulum/swing_up.xml", error, sizeof error);
  if (!task) return std::fprintf(stderr, "%s\n", error), 1;
  const int N = costate_task_intervals(task);
  std::vector<mjtNum> X((N + 1) * 2);
  costate_solve_result result;
  if (costate_solve_task(task, nullptr, &result, X.data(), nullptr, nullptr, error, sizeof error) != 0) {
    return std::fprintf(stderr, "%s\n", error), 1;
  }
  std::printf("swing-up in %d intervals, converged: %s, cost below 1 %% of the guess's: %s\n", N,
              result.status == COSTATE_CONVERGED ? "yes" : "no",
              result.cost < 0.01 * result.initial_cost ? "yes" : "no");
  std::printf("upright at the end: %s\n", std::abs(std::cos(X[2 * N]) + 1) < 1e-3 ? "yes" : "no");
  costate_delete_task(task);
}
