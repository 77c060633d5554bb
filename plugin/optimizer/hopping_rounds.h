// The rounds of basin hopping: what they have in common. README.md, "Basin hopping".
#ifndef COSTATE_OPTIMIZER_HOPPING_ROUNDS_H_
#define COSTATE_OPTIMIZER_HOPPING_ROUNDS_H_

#include <costate/basin_hopping.h>
#include <costate/sampling.h>

#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "optimizer/control_noise.h"
#include "optimizer/detour.h"
#include "optimizer/lockstep.h"
#include "optimizer/merit.h"
#include "optimizer/stuck.h"
#include "optimizer/touch.h"

namespace costate {

/// What a solve of a round begins from.
struct Beginning {
  Guess guess;
  RoundOrigin origin = RoundOrigin::kGuess;
  TouchPlan touch{};  // of kTouching
  Detour detour{};    // of kDetour
};

/// n of (B1): at each knot by itself, which bodies hardly follow, or slow, straight between few values.
MatrixXd Kick(Eigen::Index nu, Eigen::Index N, bool slow, SampleStream* stream);

/// Waves about these controls that travel along chains of driven joints, as bodies swim; none where there are no chains.
std::vector<MatrixXd> WavesAlongChains(const Problem& problem, const MatrixXd& about);

/// Do these controls stay, but for so much of half their ranges, over a time that periods fit in?
bool MayRepeat(const MatrixXd& U, const Problem& problem, double but_for);

/// Are linear-quadratic problems of N knots not too large for some solves side by side?
bool FitSideBySide(const mjModel* model, int N);

/// One call of SolveBasinHopping or HopBehind.
class BasinHopping {
 public:
  BasinHopping(const Problem& problem, const IlqrOptions& options, const BasinHoppingOptions& hopping,
               const ConstrainedOptions& constrained, const IterationCallback& callback,
               const BasinHoppingCallback& round_callback)
      : problem_(problem),
        options_(options),
        hopping_(hopping),
        constrained_(constrained),
        callback_(callback),
        round_callback_(round_callback),
        rounds_(hopping.rounds) {}

  BasinHoppingResult Run(const Guess& guess);
  BasinHoppingResult GoOnFrom(SolveResult led, const Guess& guess);

 private:
  void SolvePlainly(const Guess& guess);
  void SolveOnce(const Guess& guess);
  void GoOn();
  void KeepBetter(SolveResult led);
  bool MayBeThere() const;
  bool IsThere(const Trajectory& motion) const;
  bool IsThere() const { return IsThere(out_.result.trajectory); }
  bool IsThere(const Guess& guess) const;
  std::optional<Trajectory> Play(const Guess& guess) const;
  void SayThere();
  void SolveMirrored();
  void SolveUnlimited();
  bool Crept() const;
  void SolveFurther(Beginning beginning, std::string_view where);
  BasinHoppingResult Hop(double tolerance);
  void Tell(const BasinHoppingRound& done);
  int Left() const { return options_.iterations + further_ - static_cast<int>(iterations_.size()); }
  Merit MeritOf(double violation, double cost) const {
    return costate::MeritOf(violation, cost, constrained_.tolerance);
  }
  Merit MeritOf(const SolveResult& result) const { return costate::MeritOf(result, constrained_.tolerance); }
  std::vector<Beginning> Kicked(int round) const;
  IlqrOptions OptionsOf(int round, int i) const;
  using SideSolver = std::function<SolveResult(int i, int threads, const IterationCallback& meet)>;
  std::vector<SolveResult> SideBySide(int width, const SideSolver& solver);
  void Round(const std::vector<Beginning>& beginnings, int iterations, double tolerance, int round);
  IterationRecord Beside(const char* what) const;
  bool RecordBeside(const char* what, double cost = kInf);
  SamplingResult Sample(const Problem& problem, const MatrixXd& U, SamplingOptions options);
  std::optional<Guess> Sampled();
  void AddPeriodic(int round, std::vector<Beginning>* beginnings);
  void TryWaves(SamplingResult* found) const;
  std::pair<double, int> BestRollout(int count, const std::function<MatrixXd(int)>& controls) const;
  std::optional<Beginning> Leaning() const;
  std::optional<Beginning> Smoothed();
  std::vector<Beginning> Touching() const;
  std::vector<Beginning> Around(int tries);
  bool IsHindered();
  bool HasHardEnd() const;
  std::vector<Beginning> Freed();
  bool MayLead() const;
  std::optional<SolveResult> Unlimited();
  SolveResult SolveFromGuess(const mjModel* model, const IterationCallback& callback,
                             const ConstraintSet* constraints = nullptr) const;
  std::optional<Beginning> Mirrored() const;
  bool MayShoot(bool last) const;
  bool GuessTouchesNothing() const;
  bool IsConstrained() const { return problem_.constraints && problem_.constraints->size() > 0; }
  bool IsUntouched() const;
  bool IsMissed() const;
  bool LeadsOn() const;
  bool IsWorthAnother() const;
  bool IsMuchCheaper(const SolveResult& result) const;
  bool MayGoBack();
  int GoBack(const std::vector<SolveResult>& starts, const SolveResult& before, int done, int until);
  void SayBack(const SolveResult& before, int rounds);
  void Follow(Lockstep* lockstep);
  bool IsAhead(const IterationRecord& a, const IterationRecord& b) const;
  void DropSlower(const std::vector<IterationRecord>& records, std::vector<char>* go) const;
  bool Crawls() const;
  bool IsHopeless(const IterationRecord& record) const;
  void DropHopeless(const std::vector<IterationRecord>& records, std::vector<char>* go) const;
  std::size_t Best(const std::vector<SolveResult>& results) const;
  bool Take(SolveResult* best, BasinHoppingRound* round);
  void LookForCheaper(const std::vector<SolveResult>& results);
  void SayInfeasible();
  bool IsEnough() const { return costate::IsEnough(hopping_, problem_, out_.result) || settled_; }

  const Problem& problem_;
  const IlqrOptions& options_;
  const BasinHoppingOptions& hopping_;
  const ConstrainedOptions& constrained_;
  const IterationCallback& callback_;
  const BasinHoppingCallback& round_callback_;
  int rounds_;         // of kicks
  SolveState plain_;   // of the solve as it is set, where another one has led the race; else without controls
  Guess guess_;        // where the plain solve begins
  MatrixXd constant_;  // the guess that periodic controls go about; empty where they do not
  MatrixXd held_;      // the same of periodic places of servos

  std::vector<IterationRecord> iterations_;
  bool interrupted_ = false;
  std::exception_ptr thrown_;  // by the callback
  int halfway_ = 0;            // of a race; 0: there is none
  bool plainly_ = false;       // in the plain solve, which may crawl
  bool crawls_ = false;        // … and was ended for that
  bool at_limits_ = false;     // limits of force are the kink it stands at: without them it would cost hardly less
  bool settled_ = false;       // … and nothing touches, or next to nothing is left: it is enough
  std::size_t kicked_ = 0;     // solves of the round, its first, that begin at kicked controls
  bool shot_ = false;          // the best motion is one of multiple shooting
  int further_ = 0;            // iterations beside those that options_ has: of samples, of multiple shooting
  BasinHoppingRound first_;
  BasinHoppingResult out_;                        // without the iterations
  std::vector<SolveResult> cheaper_;              // of the rounds of kicks, where they miss constraints
  std::optional<std::vector<Beginning>> around_;  // what stands in the way was looked for behind the solve
  double gained_ = 0;                             // by the last round
  int enough_ = 0;                                // iterations: behind them no round follows for that
};

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_HOPPING_ROUNDS_H_
