// Level 2: the inverse-dynamics residual differenced at fixed acceleration, then one solve with H. No solver is
// differenced.
#ifndef COSTATE_DERIVATIVE_RESIDUAL_DIFFERENCE_H_
#define COSTATE_DERIVATIVE_RESIDUAL_DIFFERENCE_H_

#include <costate/derivative.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/extremes.h"
#include "derivative/active_set.h"
#include "derivative/contact_belt.h"
#include "derivative/contact_geometry.h"
#include "derivative/servo.h"

namespace costate {

/// Why the implicit function theorem of README.md, section 1, does not give this model's step; "" when it does.
std::string ResidualRefusal(const mjModel* model);

/// Which terms of one step are differenced; the others are known in closed form and count as zero.
struct DifferencedTerms {
  bool inertia = true;  ///< M a + bias − xfrc − applied
  bool passive = true;
  bool actuation = true;
  bool constraint = true;
  const std::vector<char>* rows = nullptr;  ///< of the constraint: only rows of the point with a nonzero entry
  bool integrator = true;                   ///< ā and act'
  bool metric = true;                       ///< what mjINT_DISCRETE adds to M a, README.md eq. (I8)
  const VectorXd* applied = nullptr;        ///< the acceleration that the integrator takes, where it is not a
  bool Any() const { return inertia || passive || actuation || constraint || integrator || metric; }
};

/// Columns of a difference: everything of one step that depends on (x, u) directly, at fixed acceleration a.
struct DirectDerivative {
  Eigen::MatrixXd residual;      ///< ∂r/∂(x, u)  (nv × (ndx+nu))
  Eigen::MatrixXd acceleration;  ///< ∂ā/∂(x, u): the acceleration that the integrator applies, README.md eq. (6)
  Eigen::MatrixXd activation;    ///< ∂act'/∂(x, u)
  Eigen::MatrixXd activation_rate;  ///< ∂act_dot/∂(x, u)
};

class NoslipPass;

/// What forces of constraints are at a nudge: those that balance, near the minimum `a` moved along its columns of `da`,
/// and what a noslip pass adds.
struct ForceChange {
  const VectorXd* a = nullptr;
  const Eigen::MatrixXd* da = nullptr;
  std::function<void(double*)> solve;  ///< H⁻¹ x in place
  const NoslipPass* pass = nullptr;
};

/// Differences of one evaluation of the engine's position, velocity and actuation stages.
class ResidualDifference {
 public:
  explicit ResidualDifference(const mjModel* model);

  /// @param data  after Equilibrium::Solve at acceleration a; only read.
  /// @return false with the reason if some column has no neighbour with the same active set.
  bool Compute(const mjModel* model, const mjData* data, const VectorXd& a, const DifferencedTerms& terms,
               DirectDerivative* out, std::string* reason);

  /// Were there contacts that no difference sees through, so that they moved as at level 1? README.md eq. (10)
  bool has_jumping() const { return !jumping_.empty(); }

  /// N = ∂ā/∂a at fixed (x, u). @pre Compute about the same point.
  void IntegratorGain(const mjModel* model, Eigen::MatrixXd* N);

  /// Takes the point of `data`, as Compute does, for the evaluations below.
  void Capture(const mjModel* model, const mjData* data);

  /// From now on contacts that no difference sees through move as at level 1, (10). @pre Capture about the same point.
  /// @param rows  null: of all contacts; else of those with a nonzero entry.
  void CaptureJumping(const mjModel* model, const mjData* data, const std::vector<char>* rows = nullptr);

  /// (r, ā, act', act_dot) at the captured point and acceleration a, under a model of the same structure whose numbers
  /// may be others. @return false if a row that carries force is missing, or a force is at a limit that is free at the
  /// point, or the other way; the first evaluation is that of the point.
  /// @param position  false: everything of the position stage is as in the evaluation before.
  bool Evaluate(const mjModel* model, const VectorXd& a, Eigen::VectorXd* value, bool position = true);

  /// The sensors (ns), likewise, beyond cutoffs that hold them: how far a model reaches says nothing of the slope.
  /// @param solve  H⁻¹ x in place: forces of constraints are those that balance near `a`, (7a); empty: those at it.
  bool EvaluateSensors(const mjModel* model, const VectorXd& a, const std::function<void(double*)>& solve,
                       Eigen::VectorXd* value);

  /// C and D (ns × (ndx+nu)): sensors at neighbours, with the acceleration moved along da (nv × (ndx+nu)).
  /// @param forces  null: those of constraints are at that very acceleration.
  /// @param wanted  one entry a sensor: rows of sensors with zero are left zero, what only they need is not evaluated.
  /// @return false with the reason if rows are left zero, those of `failed` sensors, since some column has no neighbour
  ///         with the same active set.
  bool Sensors(const mjModel* model, const mjData* data, const VectorXd& a, const Eigen::MatrixXd& da,
               Eigen::MatrixXd* out, std::string* reason, const std::vector<char>* wanted = nullptr,
               const ForceChange* forces = nullptr);

  const std::vector<char>& failed() const { return failed_; }  ///< of the last Sensors, an entry a sensor

  /// What the coverage says of them; takes the reason that Sensors has given.
  TermCoverage LeftToSteps(const mjModel* model, std::string* reason) const;

  /// Does a sensor read forces of constraints, so that Sensors takes those that balance?
  static bool ReadsForces(const mjModel* model, int sensor) {
    return Needs(model, model->sensor_needstage, sensor, sensor + 1).constraint;
  }

  /// ∂s/∂a (ns × nv) at fixed (x, u), likewise. Sensors that read no acceleration are not evaluated.
  bool SensorsByAcceleration(const mjModel* model, const mjData* data, const VectorXd& a, Eigen::MatrixXd* out,
                             std::string* reason, const std::vector<char>* wanted = nullptr);

 private:
  // what the model's sensors read beyond kinematics
  struct SensorNeeds {
    bool velocity = false, acceleration = false, constraint = false, kinetic = false;
    bool inputs = false;  ///< velocities, activations and controls before their stage
  };
  static SensorNeeds Needs(const mjModel* model, const int* stages, int begin, int end);  // of a range of sensors
  void LiftCutoffs(mjModel* model);
  mjModel OnlySensors(const mjModel* model, const std::vector<char>* wanted);

  enum Stage { kPosition, kVelocity, kActuation };
  using Values = std::function<void(Eigen::VectorXd* value)>;
  using Evaluation = std::function<bool(Stage stage, Eigen::VectorXd* value)>;

  void MeasureLevers(const mjModel* model, const mjData* data);
  void Restore(const mjModel* model);
  void Move(const mjModel* model, int column, double offset);
  bool Differences(const mjModel* model, const Evaluation& evaluate, int rows, Eigen::MatrixXd* out,
                   std::string* reason);
  void MeasureNoise(const mjModel* model, const Evaluation& evaluate, const Eigen::VectorXd& center);
  bool Column(const mjModel* model, const Evaluation& evaluate, int column, const Eigen::VectorXd& center,
              Eigen::Ref<Eigen::VectorXd> out);
  bool TakeSmooth(double step, Eigen::Ref<Eigen::VectorXd> out);
  bool Climb(const mjModel* model, const std::function<bool(int, double)>& at, int column,
             const Eigen::VectorXd& center, double scale, Eigen::Ref<Eigen::VectorXd> out);
  struct RowValue {
    double value = 0, error = kInf, sure = 0;  // the error that counts for none
  };
  struct ExcusedRow {
    Eigen::Index row;
    double common, error;  // its value by the choice of all rows; the error of the one that it has by its own
  };
  RowValue Alone(Eigen::Index row) const;
  void FindExcused(const Eigen::Ref<Eigen::VectorXd>& out);
  bool TakeExcused(bool late, Eigen::Ref<Eigen::VectorXd> out);
  void Ascend(const std::function<bool(int, double)>& at, Eigen::Ref<Eigen::VectorXd> out);
  double ExtrapolateSide(int side, double most, Eigen::Ref<Eigen::VectorXd> out);
  Eigen::VectorXd Quotient(const mjModel* model, int column, double h, const Values& evaluate);
  Eigen::VectorXd ByPosition(const mjModel* model, int column, const Values& evaluate);
  void EvaluateInertia(const mjModel* model, Stage stage, const Eigen::VectorXd& a, Eigen::VectorXd* value);
  void Inertia(const mjModel* model, const Eigen::VectorXd& a, Eigen::Ref<Eigen::MatrixXd> out);
  void EulerByPosition(const mjModel* model, const VectorXd& a, Eigen::Ref<Eigen::MatrixXd> out);
  void PositionStage(const mjModel* model);
  void ForwardPosition(const mjModel* model);
  void PlaceJumping();
  bool ConstraintForce(const mjModel* model, const Eigen::VectorXd& a);
  bool SensedForce(const mjModel* model, const Eigen::VectorXd& a);
  void Unbalanced(const mjModel* model, const Eigen::VectorXd& a);
  void Balance(const mjModel* model, Eigen::VectorXd* a);
  void AppliedForce(const mjModel* model);
  void AddBodyLoads(const mjModel* model);
  bool ForceLimits(const mjModel* model);
  void Integrate(const mjModel* model, const Eigen::VectorXd& a);
  void Advance(const mjModel* model, const Eigen::VectorXd& a, const Eigen::VectorXd& Ma);
  bool EvaluateDirect(const mjModel* model, Stage stage, const Eigen::VectorXd& a, Eigen::VectorXd* value);
  bool EvaluateSensors(const mjModel* model, Stage stage, const Eigen::VectorXd& a, Eigen::VectorXd* value);
  Stage StageOf(int column) const;

  // quotients of the last nudges that all have the active set of the point
  struct Quotients {
    Eigen::MatrixXd table;  // one column a nudge
    int count = 0;
    double first = 0;  // the longest of them
    void Prepend(double h, const Eigen::VectorXd& above, const Eigen::VectorXd& below);
    void Add(bool good, double h, const Eigen::VectorXd& above, const Eigen::VectorXd& below, double distance);
  };
  enum Side { kBoth, kUp, kDown };
  bool RoundingRules(int count) const;
  double Rounding(const Quotients& quotients, Eigen::Index begin, int rows) const;

  // a contact that differences do not see through, and the poses of its geoms
  struct JumpingContact {
    mjContact contact;
    ContactMotion motion;
    BeltMotion belt;
    mjtNum xpos[2][3], xmat[2][9];
    bool Moved(const mjData* data) const;  ///< is either geom elsewhere?
  };

  Dims dims_;
  DataPtr probe_;
  bool sparse_;  // are its rows?
  std::unique_ptr<ContactGeometry> geometry_;
  std::vector<JumpingContact> jumping_;  // of the point of the differences
  ActiveSet active_;
  bool softened_ = false;           // by which level 1 has changed forces of its point, (C22)
  std::vector<mjtNum> state_;       // mjSTATE_INTEGRATION of the point
  std::vector<mjtByte> unlimited_;  // all 0. actlimited: the clamp is applied by us, one-sided
  bool limits_known_ = false;
  std::vector<signed char> limits_, zones_;  // of forces, at the point and now
  Eigen::VectorXd force_, y_, discrete_, direction_, velocity_, balance_, step_y_, values_[9];
  Eigen::VectorXd act_next_;  // act' of the point, not clamped
  Quotients quotients_[3];
  // of each dof: how far the rows that act go with one unit of it, times how much narrower than kWidth they bend
  std::vector<ActivationSide> sides_;  // of the point
  Eigen::VectorXd lever_;
  Eigen::VectorXd noise_;                // of each row, beyond a rounding
  Eigen::VectorXd shown_;                // … that short nudges show
  Eigen::VectorXd cancelled_;            // of each row of sensors: what accelerations add up to, signs aside
  Eigen::VectorXd largest_, candidate_;  // of all values; one side extrapolated
  std::vector<int> parts_;               // numbers of rows that err together
  std::vector<double> sizes_;            // largest entry of each, in the columns of this stage so far
  Eigen::VectorXd row_sizes_;            // the same of each row
  std::vector<ExcusedRow> excused_;      // of this column
  DifferencedTerms terms_;
  SensorNeeds needs_;
  const ForceChange* forces_ = nullptr;  // of the sensors
  std::vector<char> failed_;
  std::vector<char> rough_;         // rows of kinematics that have no value yet
  std::vector<mjtNum> cutoffs_;     // of the sensors, 0 where one would hold a value
  std::vector<int> sensor_stages_;  // needstage of the sensors that are wanted, none for the others
  int last_column_ = 0;             // columns from here on are zero
  bool smooth_ = false;             // kinematics alone
  bool stiff_ = false;              // contacts enter
  bool sensed_ = false;             // sensors
  bool bends_ = false;              // does the second derivative jump about the point
  bool euler_by_position_ = false;  // has ∂ā/∂q its own columns
  Stage group_ = kPosition;         // of the columns that are differenced
  double first_ = 0;                // the longest nudge of a ladder
  int column_ = 0;
  double offset_ = 0;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_RESIDUAL_DIFFERENCE_H_
