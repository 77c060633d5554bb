#include <costate/loss.h>

namespace costate {

KnotView ViewKnot(const Trajectory& trajectory, int t, double dt) {
  static const VectorXd kNoControl;
  const int N = trajectory.N();
  const bool last = t == N;
  return {.t = t,
          .N = N,
          .time = t < trajectory.time.size() ? trajectory.time[t] : t * dt,
          .dt = dt,
          .x = trajectory.X.col(t),
          .u = last ? ConstVectorRef(kNoControl) : ConstVectorRef(trajectory.U.col(t)),
          .s = trajectory.S.cols() > t ? ConstVectorRef(trajectory.S.col(t)) : ConstVectorRef(kNoControl)};
}

}  // namespace costate
