// Feedback policies, linear or small networks, trained by gradients through the rollout from many starts at once.
#ifndef COSTATE_POLICY_H_
#define COSTATE_POLICY_H_

#include <functional>
#include <string>
#include <vector>

#include <costate/descent.h>
#include <costate/feedback.h>
#include <costate/policy_options.h>

namespace costate {

/// π: observations o(t, x, s), layers a_l = tanh(W_l a_{l-1} + b_l), the last without tanh, z = W_L a_{L-1} + b_L, and
///
///   u_i = m_i + h_i tanh(z_i + artanh((ū_i − m_i) / h_i))   between bounds m_i ± h_i,   u_i = ū_i + z_i   without
///
/// about controls ū_t of a reference (plugin/optimizer/README.md, (17) and (18)): at first z = 0 and the law plays the
/// reference. ū within 1e-3 of a bound (of half the range) is taken as there. A bound on one side alone clamps.
class NetworkPolicy : public Feedback {
 public:
  /// @param U  nu × N of the reference; behind its last column that one is held.
  /// @throws Error{kInvalidArgument, kDimensionMismatch} naming what does not fit.
  NetworkPolicy(const mjModel* model, const PolicyOptions& options, ConstMatrixRef U, ConstVectorRef lower,
                ConstVectorRef upper);

  int weights() const override { return static_cast<int>(w_.size()); }
  const VectorXd& Get() const { return w_; }
  void Set(ConstVectorRef w);  ///< @throws Error{kDimensionMismatch, kInvalidArgument}
  int observations() const { return layers_.front(); }
  VectorXd Observe(const FeedbackInput& in) const;  ///< what it sees: the first layer's input
  const mjModel* model() const { return model_; }

  /// For how long a control is held [s]; 0: unknown.
  double knot_time() const { return knot_time_; }
  /// The knot of the reference at a time of the engine [s]; 0 where knots have no length or the time is NaN.
  int KnotAt(double time) const;

  bool NeedsSensors() const override { return sensors_; }
  std::vector<int> SensorsSeen() const;  ///< entries of FeedbackInput::s of which anything depends, in their order
  void Control(const FeedbackInput& in, VectorRef u) const override;
  void PullBack(const FeedbackInput& in, ConstVectorRef g_u, FeedbackGradient* out) const override;

  /// Everything that a controller elsewhere needs to play it, as JSON: observations by name, weights layer by layer,
  /// bounds, reference. plugin/optimizer/README.md describes it.
  std::string ToJson() const;

 private:
  void CheckInput(const FeedbackInput& in) const;  // @throws Error{kDimensionMismatch, kInvalidArgument}
  VectorXd Forward(ConstVectorRef o, std::vector<VectorXd>* activations) const;
  ConstVectorRef Reference(int t) const { return U_.col(t < U_.cols() ? t : U_.cols() - 1); }

  const mjModel* model_;
  std::vector<Observation> observe_;
  bool sensors_ = false;  // is one of them a sensor?
  VectorXd x_ref_;
  std::vector<int> layers_;  // sizes: observations, hidden …, nu
  MatrixXd U_;
  double knot_time_, begin_;
  VectorXd lower_, upper_, w_;
};

struct TrainOptions {
  DescentOptions descent{};  ///< over the weights; its iterations are those of all stages together
  /// The horizon grows, N / 2^(stages - 1), …, N / 2, N, each stage from the weights of the one before: a law that does
  /// not stabilize yet has slopes over long motions that say nothing. The iterations that are left then go to the whole
  /// horizon from the first weights, and the better law is kept. 1: the whole horizon at once.
  int stages = 4;
  int threads = 0;  ///< starts side by side; 0: all cores. The result is bitwise the same at any number
  int window = 0;   ///< truncation: AdjointOptions::window
  double clip = 0;  ///< AdjointOptions::clip, of each start's costate
};

/// The derivative of the mean cost at the first weights along its own gradient, both ways.
struct TrainCheck {
  double adjoint = 0;      ///< |g|
  double difference = 0;   ///< centred differences, at the step size with which those of both its neighbours agree best
  double error_bar = 0;    ///< what these differ by; large where the cost is not smooth
  bool shortened = false;  ///< a window or clip left something out: no gradient to compare; no other field is set
};

struct TrainResult {
  SolveStatus status = SolveStatus::kIterationLimit;
  std::string message;                    ///< one sentence with the numbers that decided
  double loss = 0, initial_loss = 0;      ///< mean over the starts
  double unseen = 0, initial_unseen = 0;  ///< mean over as many other starts, which had no part in the training
  double gradient_norm = 0;               ///< max |entry| at the end
  TrainCheck check;
  MatrixXd starts;                          ///< nx × M
  VectorXd costs, unseen_costs;             ///< of each (infinite where the motion fails)
  Trajectory motion;                        ///< from the task's own start, under the trained policy
  RolloutStatus motion_status;              ///< of that motion, which may fail where those from the starts do not
  std::vector<IterationRecord> iterations;  ///< of the last stage costs are of the whole horizon
};

/// Called after each iteration with its stage's horizon in knots; false stops with kInterrupted.
using TrainCallback = std::function<bool(const IterationRecord&, int N)>;

/// What TrainPolicy refuses of a task and of options, before it begins. @throws as TrainPolicy, but for what has no
/// adjoint.
void CheckTrain(const Task& task, const TrainOptions& options = {});

/// Minimizes the mean over starts of the task's cost under `policy` by its weights, with exact gradients: closed-loop
/// adjoints.
///
/// @param policy  begins with the weights it has and ends with the best. Where they are 0 and it is the task's own,
///                without hidden layers, the last stage may begin with a gain of the linear-quadratic problem about
///                the reference instead (plugin/optimizer/README.md, (18b)), if that costs less.
/// @throws Error{kInvalidArgument}; Error{kUnsupported} where there is no adjoint (Adjoint), for tasks with
///         constraints, <time> or <smooth>, and for kGaussNewton of a law that sees sensors or a model with delays.
/// Cost: an iteration is one gradient a start, and a rollout a start for each step length that is tried; by
/// kGaussNewton N Linearize a start more, and O(N n_w² (ndx + nu)).
/// Source: plugin/optimizer/README.md, "Policies".
TrainResult TrainPolicy(const Task& task, NetworkPolicy* policy, const TrainOptions& options = {},
                        const TrainCallback& callback = {});

/// A policy from its file, policy.json of `costate train`.
/// @param model  has the file's state and controls by name, and the sensors that it sees. Must outlive the policy.
/// @throws Error{kFile} naming the file and what is wrong, with both values.
NetworkPolicy LoadPolicy(const mjModel* model, const std::string& file);

/// A policy for the task as its <policy> says. @throws Error{kInvalidArgument}.
NetworkPolicy MakePolicy(const Task& task);

}  // namespace costate

#endif  // COSTATE_POLICY_H_
