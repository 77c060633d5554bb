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

#ifdef __cplusplus
}
#endif

#endif /* COSTATE_COSTATE_C_H_ */
