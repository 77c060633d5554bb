// Actuator forces and activations as functions of length, velocity, control and activation. Section A of README.md.
#ifndef COSTATE_DERIVATIVE_ACTUATION_H_
#define COSTATE_DERIVATIVE_ACTUATION_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "core/extremes.h"
#include "derivative/columns.h"
#include "derivative/muscle.h"
#include "derivative/servo.h"
#include "derivative/spatial_tendon.h"

namespace costate {

/// Slopes of one actuator's force and of its activation, all clamps applied.
struct ActuatorSlope {
  double length = 0, velocity = 0, ctrl = 0, act = 0;  ///< of the force
  double rate_ctrl = 0, rate_act = 0;                  ///< of act_dot
  double next_ctrl = 0, next_act = 0;                  ///< of act'
  double damping = 0;                                  ///< −∂force/∂velocity as implicitfast's matrix has it …
  double damping_length = 0, damping_velocity = 0, damping_ctrl = 0, damping_act = 0;  ///< … and its slopes
  double stiffness = 0;  ///< −∂force/∂length as the discrete integrator's metric has it, and its slopes
  double stiffness_length = 0, stiffness_velocity = 0, stiffness_ctrl = 0, stiffness_act = 0;
  int ctrl_index = -1, act_index = -1;  ///< -1: none
};

/// act' = clip(act + step act_dot): what the end of a step does to an activation; not to a motor's bristle (A8). The
/// step of a disabled one is 0; without actuation it is not clipped either.
struct ActivationStep {
  double step = 0, lower = -kNoLimit, upper = kNoLimit;
  bool limited() const { return lower > -kNoLimit || upper < kNoLimit; }
  bool Inside(double next) const { return next >= lower && next <= upper; }
  /// Is there a slope? At a limit that of the inside, but where an integral is held there: it comes back from both
  /// sides.
  bool Moves(double next, bool held) const { return held ? next > lower && next < upper : Inside(next); }

  static constexpr double kNoLimit = kInf;
};
/// @param state  which of the actuator's activations.
ActivationStep ActivationStepOf(const mjModel* model, int actuator, int state);

/// Does the engine skip the stage of actuator forces: none there, or all disabled?
bool IsActuationOff(const mjModel* model);

/// The actuator that has this control.
int ActuatorOfControl(const mjModel* model, int control);

/// The actuator that has this activation; -1: none.
int ActuatorOfAct(const mjModel* model, int act);

/// Is the actuator's group switched off by opt.disableactuator?
bool IsActuatorDisabled(const mjModel* model, int actuator);

/// Has the matrix of the integrator slopes of this actuator's force, which it loses at its limit? Then v' jumps there.
bool IsInMatrix(const mjModel* model, const mjData* data, int actuator);

/// What a tendon's actuators pull together, behind all limits, and its actuatorfrcrange less what the engine grants to
/// rounding: from there on its matrices leave these actuators out.
struct ActuatorPull {
  double force = 0;
  mjtNum range[2] = {0, 0};
};
ActuatorPull ActuatorPullOf(const mjModel* model, const mjData* data, int tendon);

/// Do the moment arms stay constant: joint transmission to a hinge or slide, or a fixed tendon?
bool HasConstantMoment(const mjModel* model, int actuator);

/// Do the slopes of its force by length and velocity move, with these or with its input?
bool HasMovingGain(const mjModel* model, int actuator);

/// The moment of one actuator: `scale` times a moment that may belong to a tendon; null when constant.
struct ActuatorMoment {
  const Moment* moment = nullptr;
  double scale = 1;
};

/// Is it a thruster: a site transmission without reference site, whose force does not depend on velocity? Its wrench
/// turns with the body, (A4).
bool IsThruster(const mjModel* model, int actuator);

/// Does it pull a body along the normals of its contacts, with a force that does not depend on velocity? Then its
/// moment is that of contacts, (C21).
bool IsAdhesive(const mjModel* model, int actuator);

/// Force slopes of all actuators in closed form.
class Actuation {
 public:
  explicit Actuation(const mjModel* model);

  /// "" if force and activation of this model's actuators are known in closed form, else one that is not, and why.
  std::string Missing(const mjModel* model);

  /// Slopes and moments at the point. @pre `data` is after mj_fwdActuation. `tendons` must outlive the use of moments.
  void Compute(const mjModel* model, const mjData* data, const TendonMoments& tendons);

  /// Are the engine's forces those of the controls and activations in `data`? Not asked of actuators with several
  /// inputs, states or outputs, and where a tendon's limit decides. @pre Compute.
  bool HasForces(const mjModel* model, const mjData* data) const;

  /// KinkedMuscles::Set of this stage, where act_dot is differenced.
  bool SetKinks(const mjModel* model, const mjData* data, MatrixXd* rate, std::string* missing) {
    return kinks_.Set(model, data, stage_, rate, missing);
  }

  /// From now on the actuators of a later stage of RK4, 1 to 3, whose first stage was `first`; 0: of the point.
  void EnterStage(const Actuation& first, int stage);

  /// Adds momentᵀ ∂force + ∂momentᵀ force to the columns (q, v, act, u) of R (README.md, eq. (A1), (T1)); thrusters'
  /// wrenches are left out when FollowsTree.
  void Add(const mjModel* model, const mjData* data, Columns* R) const;

  /// Adds the rows of act' and of act_dot (na × (q, v, act, u)); either may be null.
  void AddActivation(const mjModel* model, Columns* next, Columns* rate) const;
  /// Are the slopes of act'?
  bool HasFiniteActivation() const;

  /// Is there any site transmission?
  bool AnySite() const { return any_site_; }

  /// Does the wrench of this thruster or adhesion belong to TreeDerivative? Not beside clamped joints, whose rows are
  /// zero.
  bool FollowsTree(const mjModel* model, int actuator) const {
    return !any_clamped_ && (IsThruster(model, actuator) || IsAdhesive(model, actuator));
  }

  /// Moments of outputs that are not constant; null otherwise.
  const ActuatorMoment& moment(int output) const { return moment_[output]; }

  /// Actuators with several inputs, states or outputs; their entries in slopes() are zero.
  const std::vector<ServoSlope>& servos() const { return servos_; }

  const std::vector<ActuatorSlope>& slopes() const { return slopes_; }
  /// What the slopes of an actuator's force are in its tendon's pull: its gear, or less where a limit shares them out.
  /// (A5)
  double row_scale(int actuator) const { return row_scale_[actuator]; }
  /// Does a tendon's limit share out this actuator's force? Then its slopes are those before all limits.
  bool IsShared(int actuator) const { return share_[actuator].limited; }
  /// ∂(force of an actuator) / ∂(force of another of the same tendon before all limits). (A5)
  double ShareSlope(int actuator, int other) const {
    const Share& mine = share_[actuator];
    return mine.slope * ((actuator == other) - mine.part);
  }
  /// Rows of joints whose total actuator force is at actuatorfrcrange: their force does not move.
  bool IsDofClamped(int dof) const { return clamped_[dof]; }
  bool AnyDofClamped() const { return any_clamped_; }

 private:
  struct Input {  // of a force: control or activation, with its slopes
    double value, by_ctrl, by_act;
  };

  void Slopes(const mjModel* model, const mjData* data, int actuator);
  Input Activate(const mjModel* model, const mjData* data, int actuator, const Input& ctrl);
  void ForceSlopes(const mjModel* model, const mjData* data, int actuator, const Input& input);
  void AddServo(const mjModel* model, const mjData* data, int actuator);
  void AddServoForce(const mjModel* model, const mjData* data, const ServoSlope& servo, Columns* R) const;
  void LimitForces(const mjModel* model, const mjData* data);
  void NoDamping(int actuator);

  struct Share {  // of an actuator in its tendon's limit
    bool limited = false;
    double slope = 0;  // limit / ΣF within its own range, 0 beyond
    double part = 0;   // F / ΣF
  };

  struct Kind {     // what the model's structure says of an actuator
    bool constant;  // its moment
    bool servo;
    bool plain;          // its gain is a constant, its bias affine or none, …
    bool affine;         // … and it has one
    bool turns;          // a setpoint may be turns away
    int out, ctrl, act;  // first output and control; activation, -1: none
  };

  void Classify(const mjModel* m);
  bool HasOtherTypes(const mjModel* m) const;  // than those that it was classified by

  MomentBuilder builder_;
  std::vector<int> gain_type_, bias_type_;
  std::string missing_;     // by types alone
  bool any_servo_ = false;  // those are known by their parameters
  bool any_site_ = false;
  std::vector<Kind> kind_;
  std::vector<ActuatorSlope> slopes_;
  std::vector<ServoSlope> servos_;
  std::vector<double> force_, row_scale_;  // force before limits; scale of its row where a tendon's limit shares it out
  std::vector<double> tendon_total_, tendon_pull_;
  std::vector<Share> share_;
  std::vector<Moment> own_;
  std::vector<ActuatorMoment> moment_;
  std::vector<MuscleStages> muscle_;  // of muscles under RK4
  int stage_ = 0;
  KinkedMuscles kinks_;
  std::vector<char> clamped_;
  bool any_clamped_ = false;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ACTUATION_H_
