#include "optimizer/made_servo.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimizer/control_noise.h"
#include "optimizer/control_search.h"
#include "optimizer/free_start.h"

namespace costate {
namespace {

constexpr double kAllForce = 0.5;                         // [rad] off
constexpr double kStableStiff = 0.25, kStableDamp = 0.5;  // of m/h², m/h: by half of what explicit steps allow
constexpr double kUnlimited = 20;                         // [rad/s] of a motor without limits

// of what a control's force may be, half
double HalfForce(const Problem& problem, int i, double per_control) {
  const mjModel* m = problem.model;
  const int joint = m->actuator_trnid[2 * i];
  double half = 0.5 * (problem.u_upper[m->actuator_ctrladr[i]] - problem.u_lower[m->actuator_ctrladr[i]]) * per_control;
  if (m->actuator_forcelimited[i]) {
    const double gear = std::abs(m->actuator_gear[6 * m->actuator_outadr[i]]);
    half = std::min(half, 0.5 * gear * (m->actuator_forcerange[2 * i + 1] - m->actuator_forcerange[2 * i]));
  }
  if (m->jnt_actfrclimited[joint])
    half = std::min(half, 0.5 * (m->jnt_actfrcrange[2 * joint + 1] - m->jnt_actfrcrange[2 * joint]));
  return half;
}

}  // namespace

std::vector<MadeServo> MakeServos(const Problem& problem) {
  const mjModel* m = problem.model;
  std::vector<MadeServo> servos;
  const VectorXd x = FirstStart(problem);
  const DataPtr data = MakeData(m);
  Eigen::LLT<MatrixXd> mass;
  if ((m->opt.disableflags & mjDSBL_ACTUATION) || !FactorMass(m, data.get(), x, problem.context, &mass)) return servos;
  const double h = problem.knot_time();
  for (int i = 0; i < m->nactuator; ++i) {
    const int joint = m->actuator_trnid[2 * i];
    if (!DrivesJoint(m, i) || m->actuator_biastype[i] != mjBIAS_NONE) continue;
    const bool limited = m->jnt_limited[joint] != 0, slides = m->jnt_type[joint] == mjJNT_SLIDE;
    const double per_control = m->actuator_gainprm[mjNGAIN * i] * m->actuator_gear[6 * m->actuator_outadr[i]];
    if (per_control == 0 || (slides && !limited)) continue;

    // m of one joint while all others give way
    const int dof = m->jnt_dofadr[joint];
    const double moved = 1 / mass.matrixL().solve(VectorXd::Unit(m->nv, dof)).squaredNorm();
    const double range = 0.5 * (m->jnt_range[2 * joint + 1] - m->jnt_range[2 * joint]);
    const double force = HalfForce(problem, i, std::abs(per_control)), off = slides ? range : kAllForce;
    const double wanted = std::isfinite(force) ? force / off : kUnlimited * kUnlimited * moved;
    const double stiffness = std::min(wanted, kStableStiff * moved / (h * h));
    const double damping = std::min(2 * std::sqrt(stiffness * moved), kStableDamp * moved / h);
    if (!(stiffness > 0)) continue;
    const int qpos = m->jnt_qposadr[joint];
    servos.push_back({m->actuator_ctrladr[i], qpos, dof, x[qpos], stiffness / per_control, damping / per_control,
                      std::min(limited ? range : 1, force / stiffness)});
  }
  return servos;
}

void ServoLaw::Control(const FeedbackInput& in, VectorRef u) const {
  u = U_.col(in.t) + W_.col(in.t);
  for (const MadeServo& servo : servos_) {
    const double place = servo.rest + W_(servo.control, in.t);
    u[servo.control] = U_(servo.control, in.t) + servo.stiffness * (place - in.x[servo.qpos]) -
                       servo.damping * in.x[problem_.model->nq + servo.dof];
  }
  u = u.cwiseMax(problem_.u_lower).cwiseMin(problem_.u_upper);
}

}  // namespace costate
