// Forces and activations of muscles. (A3) of README.md.
#ifndef COSTATE_DERIVATIVE_MUSCLE_H_
#define COSTATE_DERIVATIVE_MUSCLE_H_

#include <mujoco/mujoco.h>

#include <Eigen/Core>
#include <string>
#include <vector>

namespace costate {

/// Of a force, with its slopes, those of by_velocity and, turn_length, that of by_length by the length.
struct ForceGain {
  double value, by_length = 0, by_velocity = 0, bend_length = 0, bend_velocity = 0, turn_length = 0;
};
ForceGain MuscleGain(const mjModel* model, const mjData* data, int actuator);

/// The force without activation, its slope by length and the slope of that.
void MusclePassive(const mjModel* model, const mjData* data, int actuator, double* force, double* by_length,
                   double* turn_length);

/// (A3) Slopes of act_dot. Where control and activation are equal, hard switching kinks: the slope of the side that the
/// edge of [0, 1] leaves, inside the mean of both. @param prm  actuator_dynprm.
void MuscleRate(double ctrl, double act, const mjtNum* prm, double* by_ctrl, double* by_act);

/// Slopes of a muscle's act_dot in the stages of RK4. Without smoothing a stage may lie on its kink, control =
/// activation: the slopes are then such that the chain through all stages is what nudges of the point to either side
/// do. (A3)
struct MuscleStages {
  double excess = 0;  ///< the least |control − activation| of any stage
  double rate_ctrl[4] = {0}, rate_act[4] = {0};
};
/// @param ctrl  within ctrlrange.
MuscleStages StagesOfMuscle(const mjModel* model, int actuator, double ctrl, double act);

/// The muscles whose stages lie on their kink, where act_dot is differenced: differences about one stage do not know
/// what the stages before make of a nudge.
class KinkedMuscles {
 public:
  /// Rows of ∂act_dot/∂(x, u) (na × (ndx + nu)) at a stage of RK4, 0 to 3, become those of (A3). A control of the past is
  /// another one at each stage, and what act' feeds is differenced with it.
  /// @return false with the reason where such a muscle is on its kink.
  bool Set(const mjModel* model, const mjData* data, int stage, Eigen::MatrixXd* rate, std::string* missing);

  bool any() const { return !kinks_.empty(); }

 private:
  struct Kink {
    int act, ctrl;
    MuscleStages stages;
  };
  std::vector<Kink> kinks_;
};

/// Muscles that rest on their kink while one control acts for several steps: the control stays on the side to which it
/// is nudged, as the activation only follows, and an activation that is nudged stays on its. The chain of single steps
/// has slopes of both. (A3)
class RestingMuscles {
 public:
  /// @param data  where the interval begins, with its controls.
  void Find(const mjModel* model, const mjData* data, int steps);

  /// Of the interval until behind a step, 1 …, A and B made of single ones.
  void Add(int step, Eigen::MatrixXd* A, Eigen::MatrixXd* B) const;

  /// The same of products: covectors behind each step, the last one first, then all of it into those of x and u.
  void Pull(int step, const Eigen::Ref<const Eigen::VectorXd>& lambda);
  void AddPulled(Eigen::VectorXd* x, Eigen::VectorXd* u) const;
  void Push(int step, const Eigen::Ref<const Eigen::MatrixXd>& dx, const Eigen::Ref<const Eigen::MatrixXd>& du,
            Eigen::MatrixXd* next) const;

 private:
  struct Kink {
    int act, ctrl;      // in dx and du
    double pulled[2];   // by control and by activation
    std::size_t first;  // in shift_: two numbers a step
  };
  std::vector<Kink> kinks_;
  std::vector<double> shift_;
};

/// How far the velocity of a muscle is from where the slope of its force by velocity bends; mjMAXVAL for what has no
/// such force.
double MuscleBendRoom(const mjModel* model, const mjData* data, int actuator);

/// How far the length of a muscle is from where the slope of its force by length bends; mjMAXVAL as there.
double MuscleTurnRoom(const mjModel* model, const mjData* data, int actuator);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_MUSCLE_H_
