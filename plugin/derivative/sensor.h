// Sensors of the point by (x, u), each in closed form where it has one. Section M of README.md.
#ifndef COSTATE_DERIVATIVE_SENSOR_H_
#define COSTATE_DERIVATIVE_SENSOR_H_

#include <costate/derivative.h>
#include <mujoco/mujoco.h>

#include <array>
#include <string>
#include <vector>

#include "derivative/actuation.h"
#include "derivative/chain.h"
#include "derivative/constraint.h"
#include "derivative/contact_block.h"
#include "derivative/metric.h"
#include "derivative/moment.h"
#include "derivative/noslip.h"
#include "derivative/sensor_contact.h"
#include "derivative/spatial_tendon.h"
#include "derivative/tree_derivative.h"
#include "derivative/tree_solver.h"

namespace costate {

/// All that is known at a point when its sensors are differentiated.
struct SensorPoint {
  const mjModel* m = nullptr;
  mjData* d = nullptr;
  const TreeDerivative* tree = nullptr;
  const ConstraintDerivative* constraint = nullptr;
  const Actuation* actuation = nullptr;    ///< null: actuator forces have no closed form here
  const BlockedMatrix* da = nullptr;       ///< da/d(x, u)
  const BlockedMatrix* minimum = nullptr;  ///< behind a noslip pass: da of the minimum, where the other terms are taken
  const TreeDerivative* after = nullptr;   ///< … and the tree at the acceleration behind it; null: no sensor reads it
  const NoslipPass* pass = nullptr;        ///< … and what it adds to forces; null: what reads them has no closed form
  const Metric* metric = nullptr;          ///< of the discrete integrator: forces of rows follow it, (I10)
  bool hides_forces = false;               ///< those of constraints are the engine's only in whole steps, (C22)
};

/// Rows of one sensor: their direct columns, and the factors of da that are multiplied out at the end.
class SensorRows {
 public:
  void Resize(int nv, int columns);
  void Begin(int count);
  double& at(int row, int column) { return value_[row * width_ + column]; }
  double at(int row, int column) const { return value_[row * width_ + column]; }
  double& by_a(int row, int dof) { return factor_[dof * count_ + row]; }
  /// A vector into the first rows of one column.
  template <int N>
  void Add(int column, const Eigen::Matrix<double, N, 1>& v) {
    for (int k = 0; k < N; k++) at(k, column) += v[k];
  }
  template <int N>
  void AddByA(int dof, const Eigen::Matrix<double, N, 1>& v) {
    for (int k = 0; k < N; k++) by_a(k, dof) += v[k];
  }
  /// Adds by_a · da, then copies row k to row `first` + k of (C, D).
  void Store(const BlockedMatrix& da, int first, StepDerivative* out);
  void Store(int first, StepDerivative* out) const;
  /// Adds by_a · da, and begins a new by_a.
  void MultiplyOut(const BlockedMatrix& da);
  /// Adds the rows times `weight`, of direct columns to `direct` and of by_a to `acceleration`.
  void Contract(const double* weight, double* direct, double* acceleration) const;

  static constexpr int kMost = 25;  // all fields of a contact

 private:
  int nv_ = 0, columns_ = 0, width_ = 0, count_ = 0;
  std::vector<double> value_, factor_;
};

/// Some sensors, an entry a sensor: "normal of gap, tactile of pad".
std::string NamesOfSensors(const mjModel* model, const std::vector<char>& which);

/// Does a type of sensor read accelerations, and no forces?
bool ReadsAcceleration(int type);

/// Does a type of sensor read the interaction wrench of a body, which has accelerations and forces of friction?
bool ReadsWrench(int type);

/// Does a sensor hold its numbers at a cutoff?
bool HasCutoff(const mjModel* model, int sensor);

/// Is a sensor's number in `sensordata` held by its cutoff?
bool HeldByCutoff(const mjModel* model, const mjtNum* sensordata, int sensor, int row);

/// Covector of xfrc_applied at fixed acceleration (6 nbody), added to, of one sensor's `weight`: forces and torques
/// have one.
void PullAppliedWrenches(const mjModel* model, const mjData* data, int sensor, const double* weight, double* xfrc);

class SensorDerivative {
 public:
  explicit SensorDerivative(const mjModel* model);

  /// Fills C and D. Rows of sensors without closed form at this point are zero, and differenced() marks them.
  /// @param wanted  an entry a sensor: rows of the others are zero; null: all.
  /// @param none  no sensor is to be in closed form: to compare the two.
  void Compute(const SensorPoint& point, const std::vector<char>* wanted, StepDerivative* out, bool none = false);

  /// What a covector of the sensors becomes.
  struct Pulled {
    double* direct;        ///< of (x, u) at fixed acceleration (ndx + nu): added to
    double* acceleration;  ///< of the acceleration (nv): added to
    double* xfrc;          ///< of xfrc_applied at fixed acceleration (6 nbody): added to; null: not wanted
  };
  /// The rows of Compute contracted with `covector` (ns) as they come, without da. Sensors whose covector is zero, or
  /// held by the cutoff, are left out; differenced() marks those of the others that have no closed form.
  void Pull(const SensorPoint& point, const double* covector, const Pulled& out, bool none = false);

  /// Which sensors have a covector that is not zero.
  void Select(const mjModel* model, const double* covector);
  bool ReadsAxes() const { return reads_axes_; }  ///< … and read more of the tree than the engine's kinematics
  bool ReadsContacts() const { return reads_contacts_; }  ///< … and read contacts that carry no force
  /// … and have a cutoff or a camera's frame: sensordata and cameras have to be there
  bool ReadsValues() const { return reads_values_; }

  /// The two geoms of a sensor of nearest points where those are the end of a search near the surfaces' own, (M19),
  /// else −1. @pre mj_kinematics
  std::array<int, 2> SearchedGeoms(const mjModel* model, mjData* data, int sensor);

  const std::vector<char>& differenced() const { return differenced_; }
  bool AnyDifferenced() const { return any_differenced_; }

 private:
  // an object with a spatial frame
  struct Frame {
    int body = 0, last = -1;                  // last dof that moves it
    Vec3 p = Vec3::Zero(), r = Vec3::Zero();  // position; from the tree's origin
    Mat3 R = Mat3::Identity();
    mjtNum quat[4] = {1, 0, 0, 0};
  };
  struct SensedContact;
  bool Sensor(int i);
  bool ClosedForm(int i);
  void Begin(const SensorPoint& point);
  void Emit(int first);

  // sensor_joint.cc: coordinates, transmissions, actuator forces, limits
  bool Scalar(int i);
  bool ActuatorPosition(int i);
  bool ActuatorVelocity(int i);
  bool ActuatorForce(int i);
  bool JointForce(int i);
  bool TendonForce(int i);
  bool AddActuatorForce(int actuator, double factor);
  bool AddForceSlopes(int actuator, double factor, double friction_factor);
  bool AddScalarForce(int row, double factor);
  const Moment* SensedTendon(int tendon);
  const Moment* FindMoment(int actuator);
  template <typename F>
  bool ForTransmission(int actuator, F f);
  bool Limit(int i);

  // sensor_frame.cc
  bool FindFrame(int objtype, int id, Frame* frame) const;
  bool FindReference(int i, Frame* frame) const;
  bool FramePosition(int i);
  bool FrameVelocity(int i);
  bool FrameAcceleration(int i);
  bool Magnetometer(int i);
  bool CameraProjection(int i);

  // sensor_subtree.cc: centre of mass, momentum, energy
  void FindMomentum();
  /// f(dof, part) for each dof that moves some of a subtree, `part` being the root of what it moves.
  template <typename F>
  void ForSubtreeDofs(int body, F f) const {
    const mjModel* m = at_.m;
    for (int dof = body ? LastDof(m, body) : -1; dof >= 0; dof = m->dof_parentid[dof]) f(dof, body);
    for (int b = body + 1; b < subtree_end_[body]; b++) {
      for (int dof = m->body_dofadr[b]; dof < m->body_dofadr[b] + m->body_dofnum[b]; dof++) f(dof, b);
    }
  }
  bool Subtree(int i);
  bool PotentialEnergy();
  bool KineticEnergy();

  // sensor_force.cc
  void FindForces();
  bool FindWrench(int body);
  bool PullWrench(int body, const Vec6& weight);
  template <int N>
  bool AddWrench(int body, const Eigen::Matrix<double, N, 6>& weight);
  bool FindTension(int tendon, double* tension);
  template <int N>
  void AddWrenchColumn(int kind, int dof, const Vec6& column, const Eigen::Matrix<double, N, 6>& weight);
  template <int N>
  void AddInertia(int body, const Eigen::Matrix<double, N, 6>& weight);
  template <int N>
  bool AddTendons(int body, const Vec3& origin, const Eigen::Matrix<double, N, 6>& weight);
  template <int N>
  bool AddContacts(int body, const Vec3& origin, const Eigen::Matrix<double, N, 6>& weight);
  bool ForceTorque(int i);
  bool Touch(int i);

  // sensor_contact.cc
  bool Contact(int i);
  bool NetContact(const int* field);
  void NetFields(const int* field, const Vec3& force, const Vec3& center, double weight);
  void AddNetChange(const SensedContact& sensed, const mjContact& contact, double sign, bool force_alone);

  // sensor_distance.cc
  bool Rangefinder(int i);
  /// Two geoms, their nearest points, and the direction from the first to the second in which they are `distance`
  /// apart.
  struct NearestPoints {
    int geom[2];
    double distance;
    Vec3 point[2], normal;
  };
  /// How they change by the twist (w; v) of the second geom, v at the pivot.
  struct NearestRate {
    Vec3 pivot;
    Mat36 point[2], normal;
  };
  bool FindNearest(int i, NearestPoints* out);
  /// Are the engine's points those of the surfaces, the end of a search near them, or free to slide along flat parts?
  enum class Nearness { kExact, kRough, kUnknown };
  Nearness MoveNearest(const NearestPoints& nearest, NearestRate* rate);
  double DifferenceDistance(const NearestPoints& nearest, int dof, int side, double cutoff);
  bool GeomDistance(int i);
  bool GeomNearest(int i);

  void Cutoff(int i);

  // a contact linearized once for all sensors that measure it
  struct SensedContact {
    ContactBlock block;
    BeltMotion belt;
    RowMatrix change;  // (N10) of its force by what a noslip pass adds, dimension × columns; without rows: none
    bool filled = false, acts = false, has_belt = false;
    const BeltMotion* moving_belt() const { return has_belt ? &belt : nullptr; }
  };
  const SensedContact& FindContact(int contact);
  void AddPass(const mjContact& contact, SensedContact* sensed) const;
  void AddScale(const mjContact& contact, SensedContact* sensed) const;
  /// While it lives the data have the accelerations and forces behind a noslip pass, if there is one.
  class Behind {
   public:
    explicit Behind(const SensorPoint& at);
    ~Behind();

   private:
    const SensorPoint& at_;
    std::vector<double> force_, acceleration_;  // before it
  };
  template <typename F>
  void ForContact(const SensedContact& sensed, const ContactMotion& motion, F f);

  SensorPoint at_;
  StepDerivative* out_ = nullptr;
  int row_ = 0;                   // of the sensor's first number in out_
  const Pulled* pull_ = nullptr;  // rows are contracted with weight_ instead of kept …
  std::vector<double> weight_;    // … the sensor's own; out_ is then scratch_
  StepDerivative scratch_;
  std::vector<MatrixXd> of_dim_;  // its C, by the number of rows
  std::vector<char> selected_;
  bool reads_axes_ = false, reads_contacts_ = false, reads_values_ = false;
  int nv_, ndx_;
  SensorRows rows_, wrench_;  // of one sensor; of the interaction wrench of wrench_body_
  int wrench_body_ = -1;
  bool wrench_closed_ = false;
  std::vector<SensedContact> block_;
  std::vector<int> subtree_end_;  // bodies of the subtree of b are [b, subtree_end_[b])
  std::vector<char> differenced_;
  bool any_differenced_ = false;
  bool has_momentum_ = false, has_forces_ = false, has_tendons_ = false, tendons_missing_ = false;
  TendonMoments tendons_;  // that sensors measure
  CrossingWrench crossing_;
  MomentBuilder builder_;
  Moment moment_;
  std::vector<Vec6> momentum_, external_;  // of subtrees
  std::vector<MatchedContact> matched_;
  Eigen::VectorXd vector_;
  ConvexSolver nearest_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_SENSOR_H_
