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
   2: residual difference; 3: step difference. d keeps its state, ctrl and warm start.
   Returns 0 on success; otherwise nonzero and the reason in error (error_sz bytes, always terminated; may be NULL). */
int costate_transition(const mjModel* m, mjData* d, int level, mjtNum* A, mjtNum* B, mjtNum* C, mjtNum* D, char* error,
                       int error_sz);

#ifdef __cplusplus
}
#endif

#endif /* COSTATE_COSTATE_C_H_ */
