#include "optimizer/mpc_plan.h"

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

constexpr double kSameKnot = 1e-6;      // of a knot: what is left of it by the rounding of times
constexpr std::size_t kMostPlans = 16;  // with one plan at a time on its way there are three at most that matter

// where a time lies in a plan: between knots k and k + 1
struct PlanPlace {
  int k = 0;
  double fraction = 0;
};

PlanPlace Locate(const MpcPlan& plan, double time) {
  const double s = (time - plan.begin) / plan.knot_time;
  PlanPlace place;
  place.k = static_cast<int>(std::floor(s + kSameKnot));
  place.fraction = std::max(0.0, s - place.k);
  if (place.fraction < kSameKnot) place.fraction = 0;
  return place;
}

// x_bar between two knots: at constant velocity in the tangent space
VectorXd StateAt(const mjModel* model, const Trajectory& motion, const PlanPlace& place) {
  if (place.fraction == 0) return motion.X.col(place.k);
  return Retract(model, motion.X.col(place.k),
                 place.fraction * Difference(model, motion.X.col(place.k + 1), motion.X.col(place.k)));
}

}  // namespace

bool MpcPlan::HasControl(double time) const {
  const int k = Locate(*this, time).k;
  return k >= 0 && k < motion.N();
}

bool MpcPlan::Control(const Problem& problem, bool feedback, double time, ConstVectorRef x, VectorXd* u) const {
  if (!HasControl(time)) return false;
  const PlanPlace place = Locate(*this, time);
  VectorXd planned = motion.U.col(place.k);
  if (feedback) {
    const VectorXd x_bar = StateAt(problem.model, motion, place);
    planned.noalias() += K[place.k] * Difference(problem.model, x, x_bar);
  }
  if (!planned.allFinite()) return false;
  *u = planned.cwiseMax(problem.u_lower).cwiseMin(problem.u_upper);
  return true;
}

void MpcPlan::Shift(const mjModel* model, double time, int N, Trajectory* out, std::vector<MatrixXd>* K_out) const {
  const int last = motion.N() - 1;
  if (out->N() != N) *out = motion;  // all sizes
  K_out->resize(N);
  for (int t = 0; t <= N; ++t) {
    const PlanPlace place = Locate(*this, time + t * knot_time);
    const bool inside = place.k >= 0 && place.k <= last;
    out->X.col(t) = inside ? StateAt(model, motion, place) : motion.X.col(last + 1);
    if (t == N) break;
    const int k = inside ? place.k : last, next = std::min(k + 1, last);
    out->U.col(t) = (1 - place.fraction) * motion.U.col(k) + place.fraction * motion.U.col(next);
    if (inside) {
      (*K_out)[t] = K[k];
    } else {
      (*K_out)[t].setZero(K[last].rows(), K[last].cols());
    }
  }
}

void MpcPlan::ShiftMultipliers(double time, int N, const std::vector<bool>& stays_at_end,
                               std::vector<MatrixXd>* out) const {
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    const MatrixXd& lambda = multipliers[i];
    MatrixXd& shifted = (*out)[i];
    const int end = static_cast<int>(lambda.cols()) - 1, last = stays_at_end[i] ? std::max(0, end - 1) : end;
    for (int t = 0; t <= N; ++t) {
      const PlanPlace place = Locate(*this, time + t * knot_time);
      const int k = std::clamp(place.k, 0, last), next = std::min(k + 1, last);
      shifted.col(t) = (1 - place.fraction) * lambda.col(k) + place.fraction * lambda.col(next);
    }
    if (stays_at_end[i]) shifted.col(N) = lambda.col(end);
  }
}

void MpcPlanBook::Add(MpcPlanPtr plan) {
  plans_.push_front(std::move(plan));
  if (plans_.size() > kMostPlans) plans_.pop_back();
}

const MpcPlan& MpcPlanBook::At(double time) const {
  for (const MpcPlanPtr& plan : plans_) {
    if (time >= plan->begin - kSameKnot * plan->knot_time) return *plan;
  }
  return *plans_.back();
}

}  // namespace costate
