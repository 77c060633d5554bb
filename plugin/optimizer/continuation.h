// Continuation within the module: smooth stages behind a plain solve that was made elsewhere. README.md of smooth,
// "Continuation".
#ifndef COSTATE_OPTIMIZER_CONTINUATION_H_
#define COSTATE_OPTIMIZER_CONTINUATION_H_

#include <costate/continuation.h>

namespace costate {

/// SolveContinuation behind its plain solve (ContinuationOptions::plain_first), which `plain` is, made from the guess U.
/// It is neither among the stages, nor are its iterations among theirs.
///
/// @throws as SolveContinuation.
ContinuationResult ContinueBehind(const Problem& problem, const SolveResult& plain, ConstMatrixRef U,
                                  const IlqrOptions& options, const ContinuationOptions& continuation,
                                  const IterationCallback& callback = {}, const StageCallback& stage_callback = {});

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_CONTINUATION_H_
