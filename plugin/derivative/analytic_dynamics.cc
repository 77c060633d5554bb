// Level 1 of forward and inverse dynamics in continuous time: the same terms as the step's, without an integrator; and
// where the inertia is differenced, without its closed form.
#include <algorithm>

#include "derivative/analytic.h"
#include "derivative/armature.h"
#include "derivative/inverse_dynamics.h"
#include "derivative/passive.h"

namespace costate {

bool AnalyticBackend::LinearizeAcceleration(const mjModel* m, mjData* d, AccelerationDerivative* out,
                                            std::string* missing) {
  if (!Acceleration(m, d, Products::kNone, false, &report_, missing)) return false;
  out->status = report_.status;
  std::swap(out->coverage, report_.coverage);
  std::erase_if(out->coverage.terms, [](const TermCoverage& term) { return term.term == "integrator"; });
  if (out->status != StepStatus::kOk) return true;
  SolveColumns();
  const int nv = static_cast<int>(m->nv), ndx = 2 * nv + static_cast<int>(m->na), nu = static_cast<int>(m->nu);
  out->qacc = acceleration(m);
  out->x.resize(nv, ndx);
  out->u.resize(nv, nu);
  out->force.resize(nv, nv);
  for (int j = 0; j < ndx + nu; j++) {
    double* column = j < ndx ? out->x.col(j).data() : out->u.col(j - ndx).data();
    for (int i = 0; i < nv; i++) column[i] = X_(i, j);
  }

  // H⁻¹
  E_.Resize(nv, nv);
  E_.SetZero();
  for (int i = 0; i < nv; i++) E_(i, i) = 1;
  SolveHessian(&E_);
  if (UsesNoslip(m)) noslip_->Apply(m, d, false, &E_);
  for (int j = 0; j < nv; j++) {
    for (int i = 0; i < nv; i++) out->force(i, j) = E_(i, j);
  }
  return true;
}

// qfrc_inverse is r without actuators and applied forces, so its Jacobians are −R and H
bool AnalyticBackend::LinearizeInverse(const mjModel* m, mjData* d, ConstVectorRef qacc, InverseDerivative* out,
                                       std::string* missing) {
  *missing = InverseRefusal(m);
  if (missing->empty()) *missing = ArmatureMissing(m);
  if (missing->empty() && IsDiscrete(m)) *missing = "integrator discrete: inverse dynamics";
  if (missing->empty() && smoothing_ > 0) *missing = "smoothing: inverse dynamics";
  if (!missing->empty()) return false;
  FollowIntegrator(m);
  out->coverage.terms.clear();
  covered_ = 0;
  out->status = RunInverse(m, d, qacc);
  if (out->status != StepStatus::kOk) return true;
  point_.Residual(m, d);

  Cover("rne", switch_.rne ? "switched to differences" : "", &out->coverage, missing);
  const std::string tendons = tendons_.Compute(m, d);
  flexes_.Compute(m, d);
  std::string passive = switch_.passive ? "switched to differences" : PassiveMissing(m);
  if (passive.empty()) passive = tendons;
  const std::string adhesion = MoveAdhesive(m, d);
  if (passive.empty() && m->flg_adhesion) passive = adhesion;
  for (int j = 0; j < m->njnt && m->flg_gravcomp && passive.empty(); j++) {
    if (m->jnt_actgravcomp[j]) passive = "gravity compensation by actuators is no part of inverse dynamics";
  }
  closed_passive_ = Cover("passive", passive, &out->coverage, missing);
  closed_actuation_ = closed_integrator_ = second_solve_ = false;
  PrepareTree(m, d, tendons.empty() ? &tendons_ : nullptr, &out->coverage, missing);
  differenced_.passive = !closed_passive_;
  differenced_.actuation = differenced_.integrator = false;
  if ((strict_ && !missing->empty()) || !Assemble(m, d, &H_, missing)) return false;

  const int nv = static_cast<int>(m->nv);
  out->qfrc = Eigen::Map<const VectorXd>(d->qfrc_inverse, nv);
  out->q.resize(nv, nv);
  out->v.resize(nv, nv);
  out->a.setZero(nv, nv);
  for (int j = 0; j < nv; j++) {
    for (int i = 0; i < nv; i++) {
      out->q(i, j) = -X_(i, j);
      out->v(i, j) = -X_(i, nv + j);
    }
    out->a(j, j) = H_.diagonal(j);
    for (int n = 0; n < H_.row_size(j); n++) {
      const int i = H_.row_columns(j)[n];
      out->a(i, j) = out->a(j, i) = H_.row(j)[n];
    }
  }
  return true;
}

// The tree's passes make RNE together with all else that lives there: where its differences are wanted, its closed form
// is taken out again.
void AnalyticBackend::SubtractRne(const mjModel* m, const mjData* d) {
  const int nv = static_cast<int>(m->nv);
  if (!rne_) rne_ = std::make_unique<TreeDerivative>(m);
  TreeInput input;
  input.a = point_.a().data();
  std::vector<double> applied;
  input.load = WorldLoads(m, d, false, &applied) ? applied.data() : nullptr;
  rne_columns_.Resize(nv, 2 * nv);
  rne_columns_.SetZero();
  Columns R(&rne_columns_);
  rne_->Forward(m, d, input);
  AddTendonArmature(m, d, *rne_, tendons_, input.a, &R);
  rne_->Finish(m, d, input, nullptr, &rne_columns_, nullptr, nullptr);
  for (int j = 0; j < 2 * nv; j++) {
    for (int i = 0; i < nv; i++) direct_.residual(i, j) += rne_columns_(i, j);
  }
}

}  // namespace costate
