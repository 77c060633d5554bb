#include "derivative/noslip.h"

#include <algorithm>
#include <cmath>

#include "core/extremes.h"
#include "derivative/armature.h"
#include "derivative/plant.h"

namespace costate {

std::string NoslipMissing(const mjModel* m) {
  if (m->opt.noslip_iterations <= 0) return "";
  if (m->opt.enableflags & mjENBL_DIAGEXACT)
    return "noslip: diagexact, the forces before it move with every row's diagonal";
  if (HasMovingArmature(m)) return "noslip: armature of a spatial tendon";
  return "";
}

// blocks of one island in the engine's order
void NoslipPass::FindBlocks(const mjData* d, const int* list, int nefc) {
  block_.clear();
  for (int c = 0; c < nefc; c++) {
    const int efc = list ? list[c] : c, i = rows_.find(efc), type = d->efc_type[efc];
    if (i < 0) continue;
    if (type == mjCNSTR_CONTACT_PYRAMIDAL) {
      block_.push_back({i, 2, -1, 0});
      c++;
    } else if (type == mjCNSTR_CONTACT_ELLIPTIC) {
      // i is the normal's row
      const int dim = d->contact[d->efc_id[efc]].dim;
      block_.push_back({rows_.find(efc + 1), dim - 1, i, 0});
      c += dim - 1;
    } else {
      block_.push_back({i, 1, -1, d->efc_frictionloss[efc]});
    }
  }
}

void NoslipPass::Update(const mjData* d, const Block& block, NoslipUpdate* update) const {
  const int n = block.rows;
  double A[NoslipUpdate::kMost * NoslipUpdate::kMost], y[NoslipUpdate::kMost];
  for (int i = 0; i < n; i++) {
    // (N1) y = y* + A δ
    y[i] = rows_.y(block.first + i);
    for (int j = 0; j < rows_.moving(); j++) y[i] += rows_.A(block.first + i, j) * delta_[j];
    for (int j = 0; j < n; j++) A[n * i + j] = rows_.A(block.first + i, block.first + j);
    if (n > 1) A[n * i + i] = std::max(A[n * i + i], 1e-10);
  }
  const double* f = force_.data() + block.first;
  if (block.normal >= 0) {
    const mjContact& contact = d->contact[d->efc_id[rows_.efc(block.normal)]];
    UpdateEllipsoid(n, A, y, f, start_[rows_.efc(block.normal)], contact.friction, update);
  } else if (n == 2) {
    UpdateEdges(A, y, f, update);
  } else {
    UpdateInterval(std::max(A[0], mjMINVAL), y[0], f[0], block.bound, update);
  }
}

// what the engine measures an improvement by: the diagonal of M summed over an island's dofs, or over all
double NoslipPass::Inertia(const mjModel* m, const mjData* d, int island) {
  const int* dofs = island < 0 ? nullptr : d->map_idof2dof + d->island_idofadr[island];
  const int count = island < 0 ? static_cast<int>(m->nv) : d->island_nv[island];
  double sum = 0;
  for (int k = 0; k < count; k++) {
    const int dof = dofs ? dofs[k] : k;
    sum += d->M[m->M_rowadr[dof] + m->M_rownnz[dof] - 1];
  }
  return sum;
}

// all sweeps from start_; after(block, update) sees force_ and delta_ as they were before the update
template <typename F>
void NoslipPass::Sweeps(const mjModel* m, const mjData* d, F after) {
  const int moving = rows_.moving();
  force_.resize(moving);
  for (int i = 0; i < moving; i++) force_[i] = start_[rows_.efc(i)];
  delta_.setZero(moving);
  end_distance_ = kInf;
  const bool islands = !(m->opt.disableflags & mjDSBL_ISLAND) && m->ntree > 1 && d->nisland > 0;
  const double tolerance = m->opt.noslip_tolerance;
  NoslipUpdate update;
  for (int island = 0; island < (islands ? d->nisland : 1); island++) {
    const int* list = islands ? d->map_iefc2efc + d->island_iefcadr[island] : nullptr;
    const int nefc = islands ? d->island_nefc[island] : d->nefc;
    FindBlocks(d, list, nefc);
    const double scale = 1 / Inertia(m, d, islands ? island : -1);
    double improvement = 0;
    for (int c = 0; c < nefc; c++) {
      const int i = list ? list[c] : c;
      improvement += 0.5 * start_[i] * start_[i] * d->efc_R[i];
    }
    for (int sweep = 0; sweep < m->opt.noslip_iterations; sweep++) {
      for (const Block& block : block_) {
        Update(d, block, &update);
        after(block, update);
        improvement += update.improvement;
        for (int i = 0; i < block.rows; i++) {
          const int row = block.first + i;
          delta_[row] += update.force[i] - force_[row];
          force_[row] = update.force[i];
        }
      }
      improvement *= scale;
      if (tolerance > 0) {  // otherwise only rounding ends it early, and not at the states around
        end_distance_ = std::min(end_distance_, std::abs(improvement / tolerance - 1));
        if (improvement < tolerance) break;
      }
      improvement = 0;
    }
  }
}

void NoslipPass::Run(const mjModel* m, const mjData* d, const double* a) {
  rows_.Find(m, d, a);
  start_.assign(d->efc_force, d->efc_force + d->nefc);
  room_.clear();
  std::vector<int> slot(rows_.size(), -1);
  Sweeps(m, d, [&](const Block& block, const NoslipUpdate& update) {
    if (slot[block.first] < 0) {
      slot[block.first] = static_cast<int>(room_.size());
      room_.push_back({rows_.efc(block.first), update.room, update.bounded});
    }
    Room& room = room_[slot[block.first]];
    room.distance = std::min(room.distance, update.room);
    room.bounded = update.bounded;
  });
  a_ = Eigen::Map<const Eigen::VectorXd>(a, m->nv);
  if (rows_.moving()) a_.noalias() += rows_.C().transpose() * delta_;
  Ma_.resize(m->nv);
  mj_mulM(m, d, Ma_.data(), a_.data());
}

bool NoslipPass::Linearize(const mjModel* m, const mjData* d, const double* a, const ConstraintDerivative& constraint,
                           const TendonMoments* tendons, std::string* missing) {
  std::string why;
  if (rows_.Linearize(m, d, a, constraint, tendons, &why)) return true;
  *missing = "noslip: " + why;
  return false;
}

void NoslipPass::Apply(const mjModel* m, const mjData* d, bool direct, BlockedMatrix* X) {
  const int nv = static_cast<int>(m->nv), columns = X->cols(), moving = rows_.moving();
  if (moving == 0) return;
  RowMatrix da(nv, columns), dy, df;
  for (int i = 0; i < nv; i++) {
    for (int c = 0; c < columns; c++) da(i, c) = (*X)(i, c);
  }
  rows_.Slopes(d, da, direct, &dy, &df);

  // (N2)–(N4) along the sweeps
  RowMatrix now = df.topRows(moving), dy_now(NoslipUpdate::kMost, columns), turned(NoslipUpdate::kMost, nv);
  delta_slopes_.setZero(moving, columns);
  Sweeps(m, d, [&](const Block& block, const NoslipUpdate& update) {
    const int n = block.rows, first = block.first;
    RowMatrix next = RowMatrix::Zero(n, columns);
    for (int i = 0; i < n; i++) {
      dy_now.row(i) = dy.row(first + i);
      for (int j = 0; j < moving; j++) {
        const double A = rows_.A(first + i, j);
        if (A != 0) dy_now.row(i) += PLANT("noslip: y by forces", A) * delta_slopes_.row(j);
        if (!direct || delta_[j] == 0) continue;
        dy_now.row(i).head(nv) +=
            PLANT("noslip: y by inertia", delta_[j]) * Eigen::Map<const Eigen::RowVectorXd>(rows_.dA(first + i, j), nv);
      }
    }
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) {
        next.row(i) += update.by_y[i][j] * dy_now.row(j);
        next.row(i) += update.by_f[i][j] * now.row(first + j);
        for (int k = 0; k < n && direct; k++) {
          const double by_A = update.by_A[i][n * j + k];
          if (by_A == 0) continue;
          next.row(i).head(nv) += by_A * Eigen::Map<const Eigen::RowVectorXd>(rows_.dA(first + j, first + k), nv);
        }
      }
      if (block.normal >= 0 && update.by_normal[i] != 0) next.row(i) += update.by_normal[i] * df.row(block.normal);
    }
    now.middleRows(first, n) = next;
    delta_slopes_.middleRows(first, n) = next - df.middleRows(first, n);
  });

  // (N8) da' = da + C dδ + dC δ
  da.noalias() += PLANT("noslip: acceleration", rows_.C().transpose() * delta_slopes_);
  if (direct) {
    RowMatrix turning = RowMatrix::Zero(nv, nv);
    rows_.AddTurning(m, d, delta_.data(), &turning);
    da.leftCols(nv) += turning;
  }
  for (int i = 0; i < nv; i++) {
    for (int c = 0; c < columns; c++) (*X)(i, c) = da(i, c);
  }
}

}  // namespace costate
