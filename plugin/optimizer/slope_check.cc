#include <costate/model.h>
#include <costate/slope_check.h>
#include <costate/state.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "optimizer/checked_constraint.h"
#include "optimizer/cost_terms.h"
#include "optimizer/loss_check.h"
#include "optimizer/solver_checks.h"
#include "rollout/check_trajectory.h"
#include "rollout/knot_beside.h"

namespace costate {
namespace {

using Values = std::function<VectorXd(const KnotView&)>;

// how sensors depend on x and u; empty: they do not
struct SensorMap {
  MatrixXd C, D;
};

// any numbers, the same each time
MatrixXd Dense(Eigen::Index rows, Eigen::Index cols, double phase) {
  return MatrixXd::NullaryExpr(
      rows, cols, [phase](auto i, auto k) { return std::cos(phase + 1.7 * static_cast<double>(i) + 0.9 * k * k); });
}

// One knot whose inputs are nudged. `sizes`: of the values along the motion, one an entry.
class NudgedKnot {
 public:
  NudgedKnot(const mjModel* model, const KnotView& knot, const SensorMap& map, const VectorXd& sizes)
      : model_(model), knot_(knot), map_(map), sizes_(sizes) {}

  VectorXd ByState(const Values& f, Eigen::Index k, double h) const {
    const VectorXd x = Retract(model_, knot_.x, h * VectorXd::Unit(2 * model_->nv + model_->na, k));
    const VectorXd s = map_.C.size() > 0 ? VectorXd(knot_.s + h * map_.C.col(k)) : VectorXd(knot_.s);
    return At(f, x, knot_.u, s, knot_.start);
  }
  VectorXd ByControl(const Values& f, Eigen::Index k, double h) const {
    const VectorXd u = knot_.u + h * VectorXd::Unit(knot_.u.size(), k);
    const VectorXd s = map_.D.size() > 0 ? VectorXd(knot_.s + h * map_.D.col(k)) : VectorXd(knot_.s);
    return At(f, knot_.x, u, s, knot_.start);
  }
  VectorXd BySensor(const Values& f, Eigen::Index k, double h) const {
    const VectorXd s = knot_.s + h * VectorXd::Unit(knot_.s.size(), k);
    return At(f, knot_.x, knot_.u, s, knot_.start);
  }
  VectorXd ByStart(const Values& f, Eigen::Index k, double h) const {
    const Eigen::Map<const VectorXd> start(knot_.start, knot_.x.size());
    const VectorXd moved = Retract(model_, start, h * VectorXd::Unit(2 * model_->nv + model_->na, k));
    return At(f, knot_.x, knot_.u, knot_.s, moved.data());
  }
  const KnotView& knot() const { return knot_; }
  const VectorXd& sizes() const { return sizes_; }

 private:
  VectorXd At(const Values& f, ConstVectorRef x, ConstVectorRef u, ConstVectorRef s, const double* start) const {
    return f(KnotBeside(knot_, x, u, s, start));
  }

  const mjModel* model_;
  const KnotView& knot_;
  const SensorMap& map_;
  VectorXd sizes_;
};

using Nudge = VectorXd (NudgedKnot::*)(const Values&, Eigen::Index, double) const;

// What one check goes through, and what it finds.
class Comparison {
 public:
  explicit Comparison(const mjModel* model)
      : model_(model), tangents_(TangentNames(model)), controls_(ControlNames(model)), sensors_(SensorNames(model)) {
    for (const std::string& name : tangents_) starts_.push_back("start " + name);
  }

  Eigen::Index ndx() const { return static_cast<Eigen::Index>(tangents_.size()); }
  KnotGradient ZeroGradient(const KnotView& knot) const {
    return {VectorXd::Zero(ndx()), VectorXd::Zero(knot.u.size()), VectorXd::Zero(knot.s.size())};
  }
  // dense where the engine's may be: what is measured of positions knows no velocities, neither knows controls
  SensorMap MakeSensorMap(const KnotView& knot) const {
    SensorMap map{Dense(knot.s.size(), ndx(), 0.3), Dense(knot.s.size(), knot.u.size(), 1.1)};
    for (int i = 0; i < model_->nsensor; i++) {
      const int stage = model_->sensor_needstage[i];
      if (stage == mjSTAGE_ACC) continue;
      const auto rows = Eigen::seqN(model_->sensor_adr[i], model_->sensor_dim[i]);
      map.C(rows, Eigen::seq((stage == mjSTAGE_POS ? 1 : 2) * model_->nv, Eigen::last)).setZero();
      map.D(rows, Eigen::all).setZero();
    }
    return map;
  }

  void State(const NudgedKnot& at, const Values& f, const std::vector<std::string>& slopes, ConstMatrixRef stated) {
    Compare(at, &NudgedKnot::ByState, f, slopes, tangents_, 1, stated);
  }
  void Start(const NudgedKnot& at, const Values& f, const std::vector<std::string>& slopes, ConstMatrixRef stated) {
    Compare(at, &NudgedKnot::ByStart, f, slopes, starts_, 1, stated);
  }
  void Control(const NudgedKnot& at, const Values& f, const std::vector<std::string>& slopes, ConstMatrixRef stated) {
    if (at.knot().u.size() == 0) return;
    Compare(at, &NudgedKnot::ByControl, f, slopes, controls_, std::max(1.0, at.knot().u.cwiseAbs().maxCoeff()), stated);
  }
  void Sensor(const NudgedKnot& at, const Values& f, const std::vector<std::string>& slopes, ConstMatrixRef stated) {
    if (at.knot().s.size() == 0) return;
    Compare(at, &NudgedKnot::BySensor, f, slopes, sensors_, std::max(1.0, at.knot().s.cwiseAbs().maxCoeff()), stated);
  }

  SlopeCheck Finish() {
    std::stable_sort(check_.wrong.begin(), check_.wrong.end(), [](const SlopeMismatch& a, const SlopeMismatch& b) {
      return !(a.relative <= b.relative) && (a.relative > b.relative || std::isnan(a.relative));
    });
    return std::move(check_);
  }

 private:
  // `stated`, an entry of f a row, an input a column
  void Compare(const NudgedKnot& at, Nudge nudge, const Values& f, const std::vector<std::string>& slopes,
               const std::vector<std::string>& inputs, double scale, ConstMatrixRef stated) {
    const Eigen::Index rows = static_cast<Eigen::Index>(slopes.size()), cols = static_cast<Eigen::Index>(inputs.size());
    if (stated.rows() != rows || stated.cols() != cols) {
      throw Error(ErrorCode::kDimensionMismatch,
                  fmt::format("{} at knot {}: slopes are {} x {}, expected {} x {}", slopes.front(), at.knot().t,
                              stated.rows(), stated.cols(), rows, cols));
    }
    // each nudge once for all entries
    std::vector<std::map<double, VectorXd>> values(inputs.size());
    const auto value = [&](Eigen::Index k, double h) -> const VectorXd& {
      auto& known = values[static_cast<std::size_t>(k)];
      const auto found = known.find(h);
      return found != known.end() ? found->second : known.emplace(h, (at.*nudge)(f, k, h)).first->second;
    };
    const double h = kCrude * scale;
    VectorXd largest = stated.cwiseAbs().rowwise().maxCoeff();
    largest = largest.cwiseMax(at.sizes() * (kLeast / scale));
    for (Eigen::Index k = 0; k < cols; k++)
      largest = largest.cwiseMax((value(k, h) - value(k, -h)).cwiseAbs() / (2 * h));
    for (Eigen::Index i = 0; i < rows; i++) {
      for (Eigen::Index k = 0; k < cols; k++) {
        LossCheckEntry entry;
        entry.adjoint = stated(i, k);
        BestDifference([&](double step) { return value(k, step)[i]; }, scale, largest[i], {}, &entry);
        Count(entry, slopes[static_cast<std::size_t>(i)], inputs[static_cast<std::size_t>(k)], at.knot().t);
      }
    }
  }

  void Count(const LossCheckEntry& entry, const std::string& slope, const std::string& input, int t) {
    const bool wrong = entry.verdict == LossCheckEntry::Verdict::kWrong || !std::isfinite(entry.adjoint);
    (wrong || entry.verdict == LossCheckEntry::Verdict::kAgrees ? check_.judged : check_.rough)++;
    if (!wrong) return;
    check_.wrong.push_back({.slope = slope,
                            .input = input,
                            .t = t,
                            .stated = entry.adjoint,
                            .difference = entry.difference,
                            .error_bar = entry.error_bar,
                            .relative = entry.relative});
  }

  static constexpr double kCrude = 1e-4;  // one of BestDifference's steps
  static constexpr double kLeast = 1e-6;  // of a value: what all slopes are compared with where they are smaller
  const mjModel* model_;
  std::vector<std::string> tangents_, controls_, sensors_, starts_;
  SlopeCheck check_;
};

// how sensors depend on x and u, and what of that a cost or constraint is given: rows that it does not mark are not
// computed
struct Sensing {
  SensorMap whole, given;
};

template <typename Reader>
Sensing SensingOf(const Reader& reader, const KnotView& knot, const Comparison& comparison) {
  Sensing sensing;
  if (!reader.NeedsSensors()) return sensing;
  std::vector<char> read(static_cast<std::size_t>(knot.s.size()), 0);
  reader.MarkSensors(&read);
  sensing.whole = sensing.given = comparison.MakeSensorMap(knot);
  for (Eigen::Index i = 0; i < knot.s.size(); i++) {
    if (read[static_cast<std::size_t>(i)]) continue;
    sensing.given.C.row(i).setZero();
    sensing.given.D.row(i).setZero();
  }
  return sensing;
}

// Runs a gradient that a class need not have; false where it has none.
bool HasSlopes(const std::function<void()>& slopes) {
  try {
    slopes();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return false;
    throw;
  }
  return true;
}

// of a value that is not finite there is no slope to compare
void RefuseValue(const std::string& what, int t, double value) {
  if (std::isfinite(value)) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} at knot {} is {:g}: there are no slopes to compare", what, t, value));
}

// max_t |l_t|
VectorXd SizeOf(const Loss& loss, const Trajectory& motion, double dt) {
  double size = 0;
  for (int t = 0; t <= motion.N(); t++) {
    const double value = loss.Value(ViewKnot(motion, t, dt));
    RefuseValue("the value", t, value);
    size = std::max(size, std::abs(value));
  }
  return VectorXd::Constant(1, size);
}

// by the term that is to blame
void RefuseResiduals(const Cost& cost, const Trajectory& motion, double dt) {
  const auto* residuals = dynamic_cast<const ResidualCost*>(&cost);
  const int terms = residuals ? static_cast<int>(residuals->terms().size()) : 0;
  VectorXd r;
  for (int i = 0; i < terms; i++) {
    for (int t = 0; t <= motion.N(); t++) {
      const KnotView knot = ViewKnot(motion, t, dt);
      const VectorXd* weight;
      if (residuals->Weights(i, knot, &weight) == 0) continue;
      residuals->Residual(i, knot, &r);
      for (Eigen::Index k = 0; k < r.size(); k++) {
        const std::string& name = residuals->terms()[static_cast<std::size_t>(i)].name;
        RefuseValue(fmt::format("cost '{}': number {} of its residual", name, k), t, r[k]);
      }
    }
  }
}

void CompareGradient(const mjModel* model, const Loss& loss, const KnotView& knot, const VectorXd& size,
                     Comparison* comparison) {
  KnotGradient stated = comparison->ZeroGradient(knot);
  if (!HasSlopes([&] { loss.Gradient(knot, &stated); })) return;
  const SensorMap alone;
  const NudgedKnot at(model, knot, alone, size);
  const Values l = [&](const KnotView& moved) { return VectorXd::Constant(1, loss.Value(moved)); };
  comparison->State(at, l, {"Gradient by x"}, stated.x.transpose());
  comparison->Control(at, l, {"Gradient by u"}, stated.u.transpose());
  comparison->Sensor(at, l, {"Gradient by s"}, stated.s.transpose());
}

void CompareExpansion(const mjModel* model, const Cost& cost, const KnotView& knot, const VectorXd& size,
                      Comparison* comparison) {
  const bool last = knot.t == knot.N;
  const Sensing sensing = SensingOf(cost, knot, *comparison);
  CostExpansion stated;
  cost.Expand(knot, sensing.given.C, sensing.given.D, &stated);
  const NudgedKnot at(model, knot, sensing.whole, size);
  const Values l = [&](const KnotView& moved) { return VectorXd::Constant(1, cost.Value(moved)); };
  comparison->State(at, l, {"lx"}, stated.lx.transpose());
  if (!last) return comparison->Control(at, l, {"lu"}, stated.lu.transpose());
  if (stated.l0.size() == 0) stated.l0.setZero(comparison->ndx());
  comparison->Start(at, l, {"l0"}, stated.l0.transpose());
}

// columns that are left out are zero
MatrixXd AllColumns(const MatrixXd& part, Eigen::Index rows, Eigen::Index cols) {
  MatrixXd all = MatrixXd::Zero(rows, cols);
  all.leftCols(part.cols()) = part;
  return all;
}

// Jacobians that callbacks state: a cost has Jᵀr of them, which says nothing of J where r is 0. At knots where the term
// does not count no solve asks for one
void CompareCallbacks(const mjModel* model, const Cost& cost, const Trajectory& motion, double dt,
                      Comparison* comparison) {
  const auto* residuals = dynamic_cast<const ResidualCost*>(&cost);
  const int terms = residuals ? static_cast<int>(residuals->terms().size()) : 0;
  for (int i = 0; i < terms; i++) {
    const ResidualTerm& term = residuals->terms()[static_cast<std::size_t>(i)];
    if (!term.map || !term.map->states_jacobian()) continue;
    const Values r = [&](const KnotView& moved) {
      VectorXd value;
      residuals->Residual(i, moved, &value);
      return value;
    };
    const auto counts = [&](int t) {
      const VectorXd* weight;
      return residuals->Weights(i, ViewKnot(motion, t, dt), &weight) != 0;
    };
    VectorXd sizes = VectorXd::Zero(term.size());
    for (int t = 0; t <= motion.N(); t++) {
      if (counts(t)) sizes = sizes.cwiseMax(r(ViewKnot(motion, t, dt)).cwiseAbs());
    }
    const auto names = [&](const char* slopes) {
      std::vector<std::string> names;
      for (int k = 0; k < term.size(); k++)
        names.push_back(fmt::format("cost '{}': {}, of number {} of its residual", term.name, slopes, k));
      return names;
    };
    for (int t = 0; t <= motion.N(); t++) {
      if (!counts(t)) continue;
      const KnotView knot = ViewKnot(motion, t, dt);
      const Sensing sensing = SensingOf(cost, knot, *comparison);
      const NudgedKnot at(model, knot, sensing.whole, sizes);
      MatrixXd J, Ju;
      residuals->Jacobian(i, knot, sensing.given.C, sensing.given.D, &J, &Ju);
      comparison->State(at, r, names("J"), AllColumns(J, term.size(), comparison->ndx()));
      if (t < knot.N) comparison->Control(at, r, names("Ju"), AllColumns(Ju, term.size(), knot.u.size()));
    }
  }
}

void CompareConstraint(const mjModel* model, const Constraint& constraint, const KnotView& knot, const VectorXd& sizes,
                       Comparison* comparison) {
  const Sensing sensing = SensingOf(constraint, knot, *comparison);
  const auto names = [&](const char* slopes) {
    std::vector<std::string> names;
    for (const std::string& component : constraint.info().components)
      names.push_back(fmt::format("constraint '{}': {}, of '{}'", constraint.info().name, slopes, component));
    return names;
  };
  const Values c = [&](const KnotView& moved) {
    VectorXd value;
    ConstraintValue(constraint, moved, &value);
    return value;
  };

  MatrixXd J, Ju;
  const NudgedKnot carried(model, knot, sensing.whole, sizes);
  ConstraintJacobian(constraint, knot, sensing.given.C, sensing.given.D, comparison->ndx(), &J, &Ju);
  comparison->State(carried, c, names("J"), AllColumns(J, constraint.size(), comparison->ndx()));
  if (knot.t < knot.N) comparison->Control(carried, c, names("Ju"), AllColumns(Ju, constraint.size(), knot.u.size()));
  if (knot.t == knot.N) {
    MatrixXd J0 = MatrixXd::Zero(constraint.size(), comparison->ndx());
    if (constraint.ReadsStart()) ConstraintStartJacobian(constraint, knot, comparison->ndx(), &J0);
    comparison->Start(carried, c, names("J0"), J0);
  }

  const VectorXd g = Dense(constraint.size(), 1, 0.5);
  KnotGradient pulled = comparison->ZeroGradient(knot);
  if (!HasSlopes([&] { PullBackConstraint(constraint, knot, g, &pulled); })) return;
  const SensorMap alone;
  const NudgedKnot at(model, knot, alone, VectorXd::Constant(1, g.cwiseAbs().dot(sizes)));
  const Values gc = [&](const KnotView& moved) { return VectorXd::Constant(1, g.dot(c(moved))); };
  const std::string name = fmt::format("constraint '{}': PullBack by ", constraint.info().name);
  comparison->State(at, gc, {name + "x"}, pulled.x.transpose());
  if (knot.t < knot.N) comparison->Control(at, gc, {name + "u"}, pulled.u.transpose());
  comparison->Sensor(at, gc, {name + "s"}, pulled.s.transpose());
}

void CompareConstraint(const mjModel* model, const Constraint& constraint, const Trajectory& motion, double dt,
                       Comparison* comparison) {
  VectorXd sizes = VectorXd::Zero(constraint.size()), c;
  for (int t = 0; t <= motion.N(); t++) {
    if (!constraint.IsAt(t, motion.N())) continue;
    ConstraintValue(constraint, ViewKnot(motion, t, dt), &c);
    for (int k = 0; k < constraint.size(); k++) {
      const ConstraintInfo& info = constraint.info();
      RefuseValue(fmt::format("constraint '{}': '{}'", info.name, info.components[static_cast<std::size_t>(k)]), t,
                  c[k]);
    }
    sizes = sizes.cwiseMax(c.cwiseAbs());
  }
  for (int t = 0; t <= motion.N(); t++) {
    if (constraint.IsAt(t, motion.N()))
      CompareConstraint(model, constraint, ViewKnot(motion, t, dt), sizes, comparison);
  }
}

void CompareCost(const mjModel* model, const Cost& cost, const Trajectory& motion, double dt, Comparison* comparison) {
  RefuseResiduals(cost, motion, dt);
  const VectorXd size = SizeOf(cost, motion, dt);
  for (int t = 0; t <= motion.N(); t++) {
    CompareExpansion(model, cost, ViewKnot(motion, t, dt), size, comparison);
    CompareGradient(model, cost, ViewKnot(motion, t, dt), size, comparison);
  }
  CompareCallbacks(model, cost, motion, dt, comparison);
}

}  // namespace

std::string SlopeCheck::Text(int lines) const {
  const std::string aside = rough > 0 ? fmt::format(" ({} more are rough: nothing is said of them)", rough) : "";
  if (judged == 0) return fmt::format("no slope was compared: all {} are rough", rough);
  if (wrong.empty()) return fmt::format("all {} slopes fit{}", judged, aside);
  std::string text = fmt::format("{} of {} slopes do not fit{}, worst first:", wrong.size(), judged, aside);
  for (const SlopeMismatch& entry : wrong) {
    if (lines-- <= 0) return text + "\n  …";
    text += fmt::format("\n  {} by {} at knot {}: {:.9g} is stated, differences have {:.9g} ± {:.1e}", entry.slope,
                        entry.input, entry.t, entry.stated, entry.difference, entry.error_bar);
  }
  return text;
}

SlopeCheck CheckSlopes(const mjModel* model, const Loss& loss, const Trajectory& motion, double dt) {
  CheckTrajectory(model, motion);
  Comparison comparison(model);
  const VectorXd size = SizeOf(loss, motion, dt);
  for (int t = 0; t <= motion.N(); t++) CompareGradient(model, loss, ViewKnot(motion, t, dt), size, &comparison);
  return comparison.Finish();
}

SlopeCheck CheckSlopes(const mjModel* model, const Cost& cost, const Trajectory& motion, double dt) {
  CheckTrajectory(model, motion);
  Comparison comparison(model);
  CompareCost(model, cost, motion, dt, &comparison);
  return comparison.Finish();
}

SlopeCheck CheckSlopes(const mjModel* model, const Constraint& constraint, const Trajectory& motion, double dt) {
  CheckTrajectory(model, motion);
  Comparison comparison(model);
  CompareConstraint(model, constraint, motion, dt, &comparison);
  return comparison.Finish();
}

SlopeCheck CheckSlopes(const Problem& problem, ConstMatrixRef U) {
  Problem unconstrained = problem;  // CheckProblem is that of solvers without constraints
  unconstrained.constraints = nullptr;
  CheckProblem(unconstrained, U);
  Simulator simulator(problem.model, problem.context, problem.substeps, 1);
  Trajectory motion;
  const RolloutStatus status = simulator.Rollout(problem.x0, U, &motion);
  if (!status.ok()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the motion under U fails at knot {}: {}", status.knot, ToString(status.status)));
  }
  Comparison comparison(problem.model);
  const double dt = simulator.knot_time();
  CompareCost(problem.model, *problem.cost, motion, dt, &comparison);
  for (int i = 0; problem.constraints && i < problem.constraints->size(); i++)
    CompareConstraint(problem.model, (*problem.constraints)[i], motion, dt, &comparison);
  return comparison.Finish();
}

}  // namespace costate
