// Everything public but the C interface.
#ifndef COSTATE_COSTATE_H_
#define COSTATE_COSTATE_H_

#include <costate/adjoint.h>
#include <costate/basin_hopping.h>
#include <costate/bundle.h>
#include <costate/certificate.h>
#include <costate/constraint.h>
#include <costate/continuation.h>
#include <costate/cost.h>
#include <costate/curvature.h>
#include <costate/derivative.h>
#include <costate/derivative_check.h>
#include <costate/descent.h>
#include <costate/error.h>
#include <costate/exploit.h>
#include <costate/fddp.h>
#include <costate/feedback.h>
#include <costate/free_time.h>
#include <costate/ilqr.h>
#include <costate/impact.h>
#include <costate/loss.h>
#include <costate/lqr.h>
#include <costate/mjpc.h>
#include <costate/model.h>
#include <costate/mpc.h>
#include <costate/parameter.h>
#include <costate/policy.h>
#include <costate/policy_options.h>
#include <costate/record.h>
#include <costate/residual.h>
#include <costate/resume.h>
#include <costate/rollout.h>
#include <costate/sampling.h>
#include <costate/smooth_contact.h>
#include <costate/solve.h>
#include <costate/solve_task.h>
#include <costate/solver.h>
#include <costate/spline.h>
#include <costate/state.h>
#include <costate/step.h>
#include <costate/tangent.h>
#include <costate/task.h>
#include <costate/types.h>
#include <costate/uncertainty.h>

#endif  // COSTATE_COSTATE_H_
