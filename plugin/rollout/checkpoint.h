// Which states to keep when there is not room for all: binomial checkpointing (Griewank & Walther 2000), which
// simulates the fewest knots again. README.md, "Adjoint".
#ifndef COSTATE_ROLLOUT_CHECKPOINT_H_
#define COSTATE_ROLLOUT_CHECKPOINT_H_

namespace costate {

/// β(s, r) = (s + r)! / (s! r!): knots that s kept states reverse with at most r forward sweeps over each; capped at
/// 1e15.
double Reach(int kept, int sweeps);

/// How far to go before the next state is kept, when `knots` are to be reversed with room for `kept` states, the first
/// knot's among them. @pre knots ≥ 2, kept ≥ 2. @return in [1, knots − 1].
int NextCheckpoint(int knots, int kept);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_CHECKPOINT_H_
