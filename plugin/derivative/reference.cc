// The judge of every other derivative: centred differences of a converged step at several sizes, extrapolated.
#include <costate/derivative_check.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/engine_guard.h"
#include "core/extremes.h"
#include "core/warnings.h"
#include "derivative/chain.h"
#include "derivative/check_point.h"
#include "derivative/contact_geometry.h"
#include "derivative/equilibrium.h"
#include "derivative/sensor.h"
#include "derivative/step_quotients.h"

namespace costate {
namespace {

constexpr int kNoiseSamples = 12;

// near the golden section of n, and prime to it: its multiples visit each of 0 … n-1 once, evenly all the while
int SpreadStride(int n) {
  int stride = std::max(1, static_cast<int>(0.618 * n));
  while (std::gcd(stride, n) > 1) ++stride;
  return stride;
}

class ReferenceDifferences {
 public:
  ReferenceDifferences(const mjModel* model, const mjData* data, const ReferenceOptions& options);
  ReferenceDerivative Run();

 private:
  void Fill(ReferenceDerivative* result);
  bool HasLaterPositions() const;
  void MarkStaircases(ReferenceDerivative* out);
  void MarkOnsets(ReferenceDerivative* out);
  void FindSearches();
  void LeaveSearches(int col, ReferenceDerivative* out) const;
  void Column(int col, ReferenceDerivative* out);

  const mjModel* model_;
  ReferenceOptions options_;
  StepQuotients quotients_;
  const Dims& dims_;
  DataPtr data_;
  int ns_;
  std::vector<std::array<int, 2>> searches_;  // sensors, with the last dof that moves both geoms
};

ReferenceDifferences::ReferenceDifferences(const mjModel* model, const mjData* data, const ReferenceOptions& options)
    : model_(model),
      options_(options),
      quotients_(model, options.substeps,
                 options.sensors ? StepQuotients::Beside::kSensors : StepQuotients::Beside::kNothing, options.sizes),
      dims_(quotients_.stencil().dims()),
      data_(MakeData(model)),
      ns_(options.sensors ? dims_.ns : 0) {
  mj_copyState(model, data, data_.get(), mjSTATE_INTEGRATION);
}

// Does the collider find the same contact when both geoms turn by one dof? It searches along axes of the world.
bool FollowsTurn(const mjData* before, const mjData* after, int c) {
  constexpr double kSameDepth = 1e-12, kSamePlace = 1e-9;  // depths are felt far more than normals and places [m, rad]
  if (before->ncon != after->ncon) return false;
  Eigen::Matrix<double, 6, 1> place[2];
  for (int k = 0; k < 2; ++k) {
    const mjData* d = k == 0 ? before : after;
    const int geom = before->contact[c].geom[0];
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> R(d->geom_xmat + 9 * geom);
    const Eigen::Map<const Eigen::Vector3d> n(d->contact[c].frame), p(d->contact[c].pos), x(d->geom_xpos + 3 * geom);
    place[k] << R.transpose() * n, R.transpose() * (p - x);
  }
  return std::abs(after->contact[c].dist - before->contact[c].dist) <= kSameDepth &&
         (place[1] - place[0]).lpNorm<Eigen::Infinity>() <= kSamePlace;
}

// A contact of curved surfaces jumps by ccd_tolerance between facets of 1e-5 to 1e-4, and is smooth but wrong by any
// factor within one: quotients that agree at all sizes say nothing about the columns that move one geom against the
// other, and those of common turns that it does not follow. (J5)
void ReferenceDifferences::MarkStaircases(ReferenceDerivative* out) {
  const mjModel* m = quotients_.model().get();
  mjData* d = data_.get();
  const auto mark = [&](int column) {
    out->nonsmooth_column[column] = true;
    out->switched[column] = "facets of the collider of curved surfaces";
  };
  if (HasLaterPositions()) {
    // all that moves a dof moves later contacts
    bool any = false;
    quotients_.stencil().Restore(m, d, -1, 0);
    for (int k = 0; k < options_.substeps && !any; ++k) {
      mj_forward(m, d);
      any = !FeltStaircases(m, d).empty() || (m->opt.integrator == mjINT_RK4 && LaterStagesHaveStaircases(m, d));
      mj_step(m, d);
      any = any || !FeltStaircases(m, d).empty();
      quotients_.stencil().midpoints().GoOn(m, k, d);
    }
    for (int column = 0; column < static_cast<int>(out->nonsmooth_column.size()) && any; ++column) mark(column);
    return;
  }

  quotients_.stencil().Restore(m, d, -1, 0);
  mj_fwdPosition(m, d);
  const std::vector<int> staircases = FeltStaircases(m, d);
  if (staircases.empty()) return;
  const DataPtr base = MakeData(m);
  mj_copyData(base.get(), m, d);
  std::vector<std::vector<int>> common(dims_.nv);  // contacts whose geoms both move by a dof
  for (int c : staircases) {
    const mjContact& contact = base->contact[c];
    if (contact.geom[0] < 0 || contact.geom[1] < 0) {
      ForJacobianRow(m, base.get(), contact.efc_address, [&](int dof, double J) {
        if (J != 0) mark(dof);
      });
      continue;
    }
    const int body1 = m->geom_bodyid[contact.geom[0]], body2 = m->geom_bodyid[contact.geom[1]];
    int dof = ForExclusiveDofs(m, LastDof(m, body1), LastDof(m, body2), [&](int exclusive, int) { mark(exclusive); });
    for (; dof >= 0; dof = m->dof_parentid[dof]) common[dof].push_back(c);
  }
  for (int dof = 0; dof < dims_.nv; ++dof) {
    for (double sign : {1.0, -1.0}) {
      if (common[dof].empty() || out->nonsmooth_column[dof]) continue;
      quotients_.stencil().Restore(m, d, dof, sign * options_.eps_max);
      mj_fwdPosition(m, d);
      const auto follows = [&](int c) { return FollowsTurn(base.get(), d, c); };
      if (!std::all_of(common[dof].begin(), common[dof].end(), follows)) mark(dof);
    }
  }
}

// do positions of the point reach the result by way of other positions?
bool ReferenceDifferences::HasLaterPositions() const {
  return model_->opt.integrator == mjINT_RK4 || options_.substeps > 1;
}

// A contact exactly at its margin (a sphere that rests at distance 0): at the point its branch is known, but in later
// stages and substeps rounding decides whether it exists, for each nudge anew, and its force jumps. (J6)
void ReferenceDifferences::MarkOnsets(ReferenceDerivative* out) {
  if (!quotients_.base().on_onset() || !HasLaterPositions()) return;
  out->nonsmooth_column.assign(out->nonsmooth_column.size(), true);
  out->switched.assign(out->switched.size(), "a contact exactly at its margin");
}

// Nearest points that a search ends near turn with both geoms, but for where it ends along axes of the world. (J5)
void ReferenceDifferences::FindSearches() {
  const mjModel* m = quotients_.model().get();
  if (ns_ == 0) return;
  quotients_.stencil().Restore(m, data_.get(), -1, 0);
  mj_fwdPosition(m, data_.get());
  SensorDerivative sensors(m);
  for (int i = 0; i < m->nsensor; ++i) {
    const std::array<int, 2> geoms = sensors.SearchedGeoms(m, data_.get(), i);
    if (geoms[0] < 0) continue;
    const int first = LastDof(m, m->geom_bodyid[geoms[0]]), second = LastDof(m, m->geom_bodyid[geoms[1]]);
    searches_.push_back({i, ForExclusiveDofs(m, first, second, [](int, int) {})});
  }
}

void ReferenceDifferences::LeaveSearches(int col, ReferenceDerivative* out) const {
  for (const auto& [sensor, common] : searches_) {
    for (int dof = common; dof >= 0; dof = model_->dof_parentid[dof]) {
      if (dof != col) continue;
      out->C_error.col(col).segment(model_->sensor_adr[sensor], model_->sensor_dim[sensor]).setConstant(kInf);
    }
  }
}

// value and error bar of a column
void ReferenceDifferences::Column(int col, ReferenceDerivative* out) {
  const StepQuotients::Column column = quotients_.Differences(col, options_.eps_max, 0);
  if (column.switched != nullptr && !out->nonsmooth_column[col]) out->switched[col] = column.switched;
  if (!column.smooth()) {
    out->nonsmooth_column[col] = true;
    return;
  }
  const bool control = col >= dims_.ndx;
  const int c = control ? col - dims_.ndx : col;
  for (int row = 0; row < dims_.ndx + ns_; ++row) {
    const Extrapolation e = quotients_.Row(column, row, true);
    const bool state = row < dims_.ndx;
    const int r = state ? row : row - dims_.ndx;
    MatrixXd& matrix = state ? (control ? out->value.B : out->value.A) : (control ? out->value.D : out->value.C);
    MatrixXd& error = state ? (control ? out->B_error : out->A_error) : (control ? out->D_error : out->C_error);
    matrix(r, c) = e.value;
    error(r, c) = e.error;
  }
  LeaveSearches(col, out);
}

ReferenceDerivative ReferenceDifferences::Run() {
  EngineGuard guard(data_.get(), EngineGuard::Around::kEngine);
  ReferenceDerivative out;
  try {
    Fill(&out);
  } catch (const Error& error) {
    // the engine drops contacts when its arena is full, unless its stack is what does not fit
    if (error.code() != ErrorCode::kEngine || std::strstr(error.what(), "stack overflow") == nullptr) throw;
    out.value.status = StepStatus::kArenaFull;
  }
  return out;
}

void ReferenceDifferences::Fill(ReferenceDerivative* result) {
  ReferenceDerivative& out = *result;
  const int columns = dims_.ndx + dims_.nu;
  auto shape = [](MatrixXd* matrix, MatrixXd* error, int rows, int cols) {
    *matrix = MatrixXd::Zero(rows, cols);
    *error = MatrixXd::Constant(rows, cols, kInf);
  };
  shape(&out.value.A, &out.A_error, dims_.ndx, dims_.ndx);
  shape(&out.value.B, &out.B_error, dims_.ndx, dims_.nu);
  shape(&out.value.C, &out.C_error, ns_, dims_.ndx);
  shape(&out.value.D, &out.D_error, ns_, dims_.nu);
  out.value.coverage.terms = {{"step", Level::kStep, "reference: extrapolated differences"}};
  out.nonsmooth_column.assign(columns, false);
  out.switched.assign(columns, "");

  // the point: its solution, its clamps, its active set, its noise
  ClearWarnings(data_.get());
  quotients_.Begin(model_, data_.get());
  quotients_.MeasureNoise(kNoiseSamples);
  MarkStaircases(&out);
  MarkOnsets(&out);
  FindSearches();

  // spread over positions, velocities, activations and controls, so that a run that is stopped early has seen some of
  // each
  const int stride = SpreadStride(columns);
  for (int done = 1, col = 0; done <= columns; ++done, col = (col + stride) % columns) {
    Column(col, &out);
    out.value.status = StatusOfWarnings(data_.get());
    if (out.value.status != StepStatus::kOk) break;
    if (options_.progress && !options_.progress(done, columns)) {
      out.complete = done == columns;
      break;
    }
  }
}

}  // namespace

ReferenceDerivative Reference(const mjModel* model, const mjData* data, const ReferenceOptions& options) {
  if (!(options.eps_max > 0) || options.sizes < 2 || options.sizes > 20 || options.substeps < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "the reference needs eps_max > 0, 2 to 20 sizes and at least 1 substep, not " +
                    fmt::format("{:g}", options.eps_max) + ", " + std::to_string(options.sizes) + " and " +
                    std::to_string(options.substeps));
  }
  CheckDifferentiable(model);
  CheckModelOptions(model);
  CheckFiniteState(model, GetState(model, data));
  CheckFiniteControl(model, Eigen::Map<const VectorXd>(data->ctrl, model->nu));
  CheckFiniteContext(model, GetContext(model, data));
  return ReferenceDifferences(model, data, options).Run();
}

}  // namespace costate
