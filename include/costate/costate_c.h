/* The C interface: the caller's mjModel* and mjData* in, the caller's arrays out, an error text instead of an exception.
   Matrices are row-major, as in mjd_transitionFD. The same shared object is the C++ library and the engine plugin. */
#ifndef COSTATE_COSTATE_C_H_
#define COSTATE_COSTATE_C_H_

#include <mujoco/mujoco.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of Costate, "0.1.0". */
const char* costate_version(void);

/* Jacobians of one mj_step about the state, control and context in d.
     A: (2*nv+na) x (2*nv+na)   B: (2*nv+na) x nu   C: nsensordata x (2*nv+na)   D: nsensordata x nu
   Any output may be NULL. level 0: best available; 1: analytic only (the error names the first term that is not);
   2: residual difference; 3: step difference. d is only read: every bit of it stays, whatever the caller is in the middle
   of; nothing in it but state, ctrl and context needs to be up to date.
   Returns 0 on success; otherwise nonzero, the reason in error (error_sz bytes, always terminated; may be NULL) and the
   outputs untouched.
   Each thread keeps one private mjData from call to call, so that calls with the same m, level and outputs allocate
   nothing; values in m may change between calls. Different threads may call at once. */
int costate_transition(const mjModel* m, mjData* d, int level, mjtNum* A, mjtNum* B, mjtNum* C, mjtNum* D, char* error,
                       int error_sz);

/* One step of a costate recursion: the covector lambda (2*nv+na) on the next state pulled back through one mj_step, without
   forming A and B.
     x_bar = A' lambda (2*nv+na)   u_bar = B' lambda (nu)   qfrc_bar: of qfrc_applied (nv)
   Any output may be NULL. Level, d, the result and the private mjData are as in costate_transition, which it shares the
   latter with; at levels 2 and 3 A and B are formed inside. */
int costate_vjp(const mjModel* m, mjData* d, int level, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
                mjtNum* qfrc_bar, char* error, int error_sz);

/* A residual of one's own for task files: <cost callback="name" reads="…"/> (costate/residual.h, plugin/optimizer/README.md).
   One knot, t of N, at `time` seconds from the task's start. measured: the measures that `reads` names, stacked. u is NULL
   at t == N. The callbacks are called from many threads at once. */
typedef struct {
  const mjModel* m;
  int t, N;
  mjtNum time;
  const mjtNum* measured;
  int nmeasured;
  const mjtNum *x, *u;
} costate_residual_input;

/* r: size numbers. */
typedef void (*costate_residual_value)(void* user, const costate_residual_input* input, mjtNum* r);

/* Row-major, zero on entry: size x nmeasured, size x (2*nv+na), size x nu; the last two NULL unless read. */
typedef void (*costate_residual_jacobian)(void* user, const costate_residual_input* input, mjtNum* by_measured, mjtNum* by_x,
                                          mjtNum* by_u);

enum { COSTATE_READS_STATE = 1, COSTATE_READS_CONTROL = 2 };

/* Makes the residual known to every task file that is loaded afterwards. reads: what it takes of x and u itself, added up.
   jacobian may be NULL: centred differences. user is handed through. Returns and error as costate_transition. */
int costate_register_residual(const char* name, int size, int reads, costate_residual_value value,
                              costate_residual_jacobian jacobian, void* user, char* error, int error_sz);

#ifdef __cplusplus
}
#endif

#endif /* COSTATE_COSTATE_C_H_ */
