/* The C interface: the caller's mjModel* and mjData* in, the caller's arrays out, an error text instead of an
   exception. Matrices are row-major, as in mjd_transitionFD. The same shared object is the C++ library and the engine
   plugin. */
#ifndef COSTATE_COSTATE_C_H_
#define COSTATE_COSTATE_C_H_

#include <mujoco/mujoco.h>

#if mjVERSION_HEADER != 4000001
#error "Costate is made for MuJoCo 4.0.1, these are the headers of another"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The engine's callbacks (mjcb_control …) are called in simulations of Costate's, too, on data and threads of its own.
   One that controls the host's robot by what stands here returns at once where the data that it is given are not the
   host's, `if (d != mine) return;`, or else does to plans what it does to the robot. What simulates (costate_certify,
   rollouts, tasks, plans) is refused in a callback that a step of Costate's has called, where it would begin again
   without end; so is a derivative within a derivative. A callback that was refused and then changes the control of that
   step ends the call that made it, of plans on a thread the host's next costate_mpc_control, with an error that says so.
 */

/* Version of Costate, "0.1.0". */
const char* costate_version(void);

/* Jacobians of one mj_step about the state, control and context in d.
     A: (2*nv+na) x (2*nv+na)   B: (2*nv+na) x nu   C: nsensordata x (2*nv+na)   D: nsensordata x nu
   Any output may be NULL. level 0: best available; 1: analytic only (the error names the first term that is not);
   2: residual difference; 3: step difference. d is only read: every bit of it stays, whatever the caller is in the
   middle of; nothing in it but state, ctrl and context needs to be up to date; data of another model is an error.
   Returns 0 on success; otherwise nonzero, the reason in error (error_sz bytes, always terminated; may be NULL) and the
   outputs untouched. Each thread keeps one private mjData from call to call, so that calls with the same m, level and
   outputs allocate nothing, but for contacts and limits that are more than ever before, for level 2 and terms that fall
   to it, which allocate in each column, and for tendons, actuators and contacts in the discrete integrator's metric; it
   keeps what four of the last such combinations need, a fifth is set up anew, at several times the cost of a call.
   Values in m may change between calls. Different threads may call at once; a callback of the engine (mjcb_control …)
   that is called within a call may not, which is an error, nor may callbacks be Python's of MuJoCo's bindings, which
   know their own data alone. The control of a delayed actuator acts in a later step: its column of B is 0. */
int costate_transition(const mjModel* m, const mjData* d, int level, mjtNum* A, mjtNum* B, mjtNum* C, mjtNum* D,
                       char* error, int error_sz);

/* One step of a costate recursion: the covector lambda (2*nv+na) on the next state pulled back through one mj_step,
   without forming A and B:
     x_bar = A' lambda (2*nv+na)   u_bar = B' lambda (nu)   qfrc_bar: of qfrc_applied (nv)
   Any output may be NULL. Level, d, the result and the private mjData are as in costate_transition, which it shares the
   latter with; at levels 2 and 3 A and B are formed inside. A chain of them is the gradient through a motion unless the
   model has delays, plastic deformation, rods with reference frames or plugins with a state, which steps hand on beside
   x: costate_rollout_backward follows delays, and refuses the others. */
int costate_vjp(const mjModel* m, const mjData* d, int level, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
                mjtNum* qfrc_bar, char* error, int error_sz);

/* A and B, and x_bar and u_bar, for a loop that has called mj_forward(m, d) anyway: its numbers are not computed again,
   which is most of the time of costate_transition and costate_vjp at level 0, whose results, errors and private mjData
   these have. d must be as mj_forward left it; much of what is not is found out, which takes longer but is as good, not
   all (costate/derivative.h, Linearizer::LinearizeAfterForward, says what). d is put back bit for bit, but for the
   unused part of its arena and maxuse_stack; nobody else may use it meanwhile. */
int costate_transition_after_forward(const mjModel* m, mjData* d, mjtNum* A, mjtNum* B, char* error, int error_sz);
int costate_vjp_after_forward(const mjModel* m, mjData* d, const mjtNum* lambda, mjtNum* x_bar, mjtNum* u_bar,
                              char* error, int error_sz);

/* How good is what costate_transition gives for the same m, d and level? Returns the worst level of any term of A and B
   and, where sensors is nonzero, of C and D: 1, 2 or 3; text then has a line for each term that is not analytic,
   "contact: residual difference, why" (text_sz bytes, always terminated; may be NULL). 0 where there is no derivative,
   and the reason in text. Costs a costate_transition. */
int costate_coverage(const mjModel* m, const mjData* d, int level, int sensors, char* text, int text_sz);

enum {
  COSTATE_SMOOTH,       /* no switch of the step within reach: the derivative is two-sided there */
  COSTATE_MODE_CROSSING /* some switch is: the derivative is that of the side that d is on */
};

/* What does it hold for (costate/certificate.h)? Returns the label, and in text a line for each switch within 1e-6 of
   its own unit, "contact of foot and floor, apart: onset at 1e-09 m", and for each input on an edge of its range. -1
   where the step fails or cannot be looked at, and the reason in text. Costs up to four steps for each entry of x and u,
   and allocates. */
int costate_certify(const mjModel* m, const mjData* d, char* text, int text_sz);

/* Motions of many steps and gradients through them: the two halves of an operation that a framework differentiates.
   One model, and what a step reads besides state and control (time, warm start, mocap poses, applied forces …) as it is
   in d at the time of this call. */
typedef struct costate_rollout costate_rollout;

/* substeps: how many mj_step hold a control. parameters: names of n numbers or rows of numbers of the model,
   "body:pole/mass", "joint:hip/damping" (costate/parameter.h), by which gradients are wanted, too; NULL and 0: none.
   With parameters it has a model of its own, else m must outlive it, and values in it may change before a
   costate_rollout_forward. NULL where it cannot be made, and the reason in error as above. */
costate_rollout* costate_make_rollout(const mjModel* m, const mjData* d, int substeps, const char* const* parameters,
                                      int n, char* error, int error_sz);
void costate_delete_rollout(costate_rollout* rollout);

/* The numbers, ntheta of them: count, name of one (NULL for another i; good until the next call), values. Setting them
   refuses what is out of bounds by its name. */
int costate_rollout_ntheta(const costate_rollout* rollout);
const char* costate_rollout_parameter(const costate_rollout* rollout, int i);
int costate_rollout_get_parameters(const costate_rollout* rollout, mjtNum* theta, char* error, int error_sz);
int costate_rollout_set_parameters(costate_rollout* rollout, const mjtNum* theta, char* error, int error_sz);

/* N control intervals from x0 (nq+nv+na) under U (N x nu).
     X: (N+1) x (nq+nv+na), states   S: (N+1) x nsensordata, those of the last state with no control; 0 where the
     model disables sensors
   Either may be NULL. Returns and error as costate_transition; a motion that fails is an error, which names the knot.
   One call at a time on one rollout; different rollouts in different threads. */
int costate_rollout_forward(costate_rollout* rollout, const mjtNum* x0, const mjtNum* U, int N, mjtNum* X, mjtNum* S,
                            char* error, int error_sz);

/* Slopes of a loss by the motion of the last forward call, pulled back to what made it:
     X_bar: (N+1) x (2*nv+na), by tangents of the states   S_bar: (N+1) x nsensordata
     x0_bar (2*nv+na)   U_bar: N x nu   theta_bar (ntheta)
   Any may be NULL. Where a state is a number of its own (hinges, slides, velocities, activations) its tangent is that
   number; the slope g by a quaternion q is 1/2 Q(q)' g by its tangent, Q(q) = [-q1 -q2 -q3; q0 -q3 q2; q3 q0 -q1;
   -q2 q1 q0]. Delayed actuators are followed to the steps in which they act. Costs a forward call and one costate_vjp a
   step. Returns and error as costate_transition. */
int costate_rollout_backward(costate_rollout* rollout, const mjtNum* X_bar, const mjtNum* S_bar, mjtNum* x0_bar,
                             mjtNum* U_bar, mjtNum* theta_bar, char* error, int error_sz);

/* A residual of one's own for task files: <cost callback="name" reads="…"/> (costate/residual.h,
   plugin/optimizer/README.md). One knot, t of N, at `time` seconds from the task's start. measured: the measures that
   `reads` names, stacked. u is NULL at t == N. The callbacks are called from many threads at once. */
typedef struct {
  const mjModel* m;
  int t, N;
  mjtNum time;
  const mjtNum* measured;
  int nmeasured;
  const mjtNum *x, *u;
} costate_residual_input;

/* r: size numbers, NaN before the call: what is left so, or set so, is an error that names the residual. */
typedef void (*costate_residual_value)(void* user, const costate_residual_input* input, mjtNum* r);

/* Row-major: size x nmeasured, size x (2*nv+na), size x nu; the last two NULL unless read. NaN before the call, as r,
   so that each entry is written, zeros too: one that is not finite is an error that names the residual. */
typedef void (*costate_residual_jacobian)(void* user, const costate_residual_input* input, mjtNum* by_measured,
                                          mjtNum* by_x, mjtNum* by_u);

enum { COSTATE_READS_STATE = 1, COSTATE_READS_CONTROL = 2 };

/* Makes the residual known to every task file that is loaded afterwards. reads: what it takes of x and u itself, added
   up. jacobian may be NULL: centred differences. user is handed through. Returns and error as costate_transition. */
int costate_register_residual(const char* name, int size, int reads, costate_residual_value value,
                              costate_residual_jacobian jacobian, void* user, char* error, int error_sz);

/* A trained feedback law: policy.json of `costate train` (plugin/optimizer/README.md, "Policies"). */
typedef struct costate_policy costate_policy;

/* Reads it for a model that has the file's state and controls by name, and the sensors that it sees; m must outlive it.
   NULL where it cannot be used, and the reason in error as above. */
costate_policy* costate_load_policy(const mjModel* m, const char* file, char* error, int error_sz);
void costate_delete_policy(costate_policy* policy);

/* Seconds for which it holds a control: ask for one in each such interval. */
mjtNum costate_policy_interval(const costate_policy* policy);

/* The law's control at the state and time in d, and its slopes by both things that it may see.
     u: nu   u_x: nu x (2*nv+na)   u_s: nu x nsensordata
   Any output may be NULL. d is only read; a law that sees sensors takes sensordata as it stands, which is that of the
   state after mj_forward, with the control of the interval before still in ctrl: what the law was trained with. Returns
   and error as costate_transition. Different threads may call at once. */
int costate_policy_control(const costate_policy* policy, const mjData* d, mjtNum* u, mjtNum* u_x, mjtNum* u_s,
                           char* error, int error_sz);

/* A task file, read and ready to be solved (plugin/optimizer/task_file.md). */
typedef struct costate_task costate_task;

/* NULL where it cannot be used, and the reason in error as above: file, line and element. */
costate_task* costate_load_task(const char* file, char* error, int error_sz);
void costate_delete_task(costate_task* task);

/* The task's own model: that of its file with the sensors that its costs need. Motions are of it. */
const mjModel* costate_task_model(const costate_task* task);

/* N, and how many mj_step hold a control. */
int costate_task_intervals(const costate_task* task);
int costate_task_substeps(const costate_task* task);

/* Do the slopes that the task's costs and constraints state fit their values? Asks what residuals of one's own say,
   costate_residual_jacobian: each slope at each knot of the guess's motion against differences (costate/slope_check.h).
   Returns 0 where all fit; 1 where some do not, and the worst of them, a line each, in error; 2 where they were not
   compared (no task, a value or a Jacobian that is not finite, a guess that cannot be simulated …), and the reason in
   error. */
int costate_check_slopes(costate_task* task, char* error, int error_sz);

/* How a task is solved; zeros leave what the task says. */
typedef struct {
  int iterations; /* at most, of a solve on the true model: smooth stages, rounds and each length that <time> tries
                     have counts of their own (costate/solve_task.h), and the result's are all of them */
  int hops;       /* rounds of kicked controls, beyond the nearest minimum (costate/basin_hopping.h); -1: none */
  int threads;
  /* After each iteration, from the calling thread; nonzero ends, and the best motion so far is the result. May be NULL.
   */
  int (*progress)(void* user, int iteration, mjtNum cost, mjtNum violation);
  void* user;
} costate_solve_options;

enum {
  COSTATE_CONVERGED,
  COSTATE_ITERATION_LIMIT,
  COSTATE_STALLED,  /* no step reduces the cost */
  COSTATE_DIVERGED, /* the guess cannot be simulated: not returned, an error */
  COSTATE_INTERRUPTED,
  COSTATE_INFEASIBLE, /* no motion was found that keeps the constraints: the one of least violation */
  COSTATE_TIME_LIMIT
};

typedef struct {
  int status, iterations;
  mjtNum cost, initial_cost;
  mjtNum violation; /* of the worst constraint, relative to 1 or to its bound, whichever is larger */
  mjtNum timestep;  /* of the motion: the model's, unless the task's <time> leaves it open */
} costate_solve_result;

/* Minimizes the task's cost as `costate optimize` does: within its constraints, through smoother contact, in free time,
   beyond the nearest minimum, as the task says.
     X: (N+1) x (nq+nv+na), states   U: N x nu, controls   K: N x nu x (2*nv+na), gains: u = U + K (x - X)
   options, result and any output may be NULL. Returns 0 with the best motion, whatever the status, and why the solve
   ended in error, a sentence; otherwise nonzero, the reason in error, and the outputs untouched. One call at a time on
   one task. */
int costate_solve_task(costate_task* task, const costate_solve_options* options, costate_solve_result* result,
                       mjtNum* X, mjtNum* U, mjtNum* K, char* error, int error_sz);

/* Plans that control a robot which the host moves: a simulation of its own or a real one (costate/mpc.h, MpcController). */
typedef struct costate_mpc costate_mpc;

/* Reads a task file, <mpc> in which says how plans are made. threads: nonzero, plans are made on a thread while the robot
   moves in real time, and costate_mpc_control returns at once; 0, within it, the same bits every time. NULL where it
   cannot be used, and the reason in error as above. */
costate_mpc* costate_make_mpc(const char* file, int threads, char* error, int error_sz);
void costate_delete_mpc(costate_mpc* mpc);

/* The task's own model, whose states and controls the robot has, and the seconds for which a control is held: ask for
   one in each such interval. */
const mjModel* costate_mpc_model(const costate_mpc* mpc);
mjtNum costate_mpc_interval(const costate_mpc* mpc);

/* The first plan, from where the robot is; takes as long as costate_solve_task. Again: begins anew. m must outlive its
   use; d is only read. The second one is for a robot that is no mjData: x (nq+nv+na). progress as in
   costate_solve_options, nonzero takes the best motion so far; may be NULL. Returns 0, and how the plan's solver ended
   in error, a sentence; otherwise nonzero, and why there is no plan. */
int costate_mpc_start(costate_mpc* mpc, const mjModel* m, const mjData* d,
                      int (*progress)(void* user, int iteration, mjtNum cost, mjtNum violation), void* user,
                      char* error, int error_sz);
int costate_mpc_start_at(costate_mpc* mpc, const mjtNum* x,
                         int (*progress)(void* user, int iteration, mjtNum cost, mjtNum violation), void* user,
                         char* error, int error_sz);

/* u (nu): what acts from now on. d, or x at a time [s] of the robot's own clock, as it was started. Plans follow mocap
   poses and active equalities of d. Late plans, failed ones and states that are not finite are events, not errors: the
   task's fall-back acts. Returns and error as costate_transition. */
int costate_mpc_control(costate_mpc* mpc, const mjData* d, mjtNum* u, char* error, int error_sz);
int costate_mpc_control_at(costate_mpc* mpc, mjtNum time, const mjtNum* x, mjtNum* u, char* error, int error_sz);

/* Places that the task's cost aims at: how many, which part shall be there ("site hand"; NULL for another i), and where
   to from the next plan on (metres in the world; what the task leaves open stays so). From any thread. */
int costate_mpc_ngoal(const costate_mpc* mpc);
const char* costate_mpc_goal(const costate_mpc* mpc, int i);
int costate_mpc_move_goal(costate_mpc* mpc, int i, const mjtNum place[3], char* error, int error_sz);

typedef struct {
  int plans, plans_taken, plans_over_budget; /* made while the robot moved; taken, the first one, too */
  int fallback_intervals;                    /* in which no plan that was due could be followed */
  int events;                                /* what went wrong so often */
  mjtNum latency_median, latency_max;        /* [s] from a measurement to its plan */
} costate_mpc_report;

/* What plans have done since the start, and in text a line for each of the last events, "late at 1.25 s: plan 7 was due
   3 ms ago", newest first (text_sz bytes, always terminated; may be NULL). */
void costate_mpc_get_report(const costate_mpc* mpc, costate_mpc_report* report, char* text, int text_sz);

#ifdef __cplusplus
}
#endif

#endif /* COSTATE_COSTATE_C_H_ */
