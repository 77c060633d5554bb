#include "derivative/fluid_damping.h"

#include <algorithm>
#include <cmath>

#include "core/joint.h"
#include "derivative/chain.h"
#include "derivative/effective_mass.h"
#include "derivative/equilibrium.h"
#include "derivative/fluid.h"
#include "derivative/jet.h"
#include "derivative/plant.h"

namespace costate {

namespace {

using FluidJet = Jet<6>;  // by the six velocities of a part

// zero at rest, where nothing quadratic is felt
FluidJet JetOver(const FluidJet& a, const FluidJet& b) { return b.x > 0 ? a / b : FluidJet(); }

using JetSlopes = FluidJet[6][6];

// B(row + i, col + j) += c [a]× for a force … = c a × x
void AddJetCross(int row, int col, const FluidJet& c, const FluidJet a[3], JetSlopes B) {
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    B[row + i][col + j] = B[row + i][col + j] - c * a[k];
    B[row + i][col + k] = B[row + i][col + k] + c * a[j];
  }
}

void AddJetProduct(int row, int col, const FluidJet& c, const FluidJet a[3], const FluidJet b[3], JetSlopes B) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) B[row + i][col + j] = B[row + i][col + j] + c * a[i] * b[j];
  }
}

FluidJet JetSquares(const Vec3& scale, const FluidJet a[3]) {
  return scale[0] * a[0] * a[0] + scale[1] * a[1] * a[1] + scale[2] * a[2] * a[2];
}

// (F4) of the box that has the body's inertia
void BoxSlopes(const mjModel* m, int body, const FluidJet l[6], JetSlopes B) {
  Vec6 linear, quadratic;
  BoxFluidCoefficients(m, body, &linear, &quadratic);
  for (int i = 0; i < 6; i++) B[i][i] = -(linear[i] + 2 * quadratic[i] * Abs(l[i]));
}

// (F5) of one geom's ellipsoid, by the engine's steps: all that does not brake it
void AddLift(const mjModel* m, int geom, const FluidJet l[6], JetSlopes B) {
  const mjtNum* fluid = m->geom_fluid + mjNFLUID * geom;
  const double kutta = fluid[4], magnus = fluid[5], density = m->opt.density;
  const Vec3 axes = FluidHalfAxes(m, geom);
  const FluidJet *w = l, *v = l + 3;

  // added mass: torque p × v + L × ω, force p × ω; p = mass ∘ v, L = inertia ∘ ω
  FluidJet p[3], L[3], minus_v[3], minus_w[3];
  for (int i = 0; i < 3; i++) {
    p[i] = density * fluid[6 + i] * v[i];
    L[i] = density * fluid[9 + i] * w[i];
    minus_v[i] = -v[i];
    minus_w[i] = -w[i];
  }
  AddJetCross(0, 0, 1, L, B);
  AddJetCross(0, 3, 1, p, B);
  AddJetCross(3, 0, 1, p, B);
  JetSlopes own;
  AddJetCross(0, 0, 1, minus_w, own);
  AddJetCross(0, 3, 1, minus_v, own);
  AddJetCross(3, 3, 1, minus_w, own);
  for (int j = 0; j < 3; j++) {
    for (int i = 0; i < 3; i++) {
      B[i][j] = B[i][j] + density * fluid[9 + j] * own[i][j];
      B[i][3 + j] = B[i][3 + j] + density * fluid[6 + j] * own[i][3 + j];
      B[3 + i][3 + j] = B[3 + i][3 + j] + density * fluid[6 + j] * own[3 + i][3 + j];
    }
  }

  // Magnus: spin ω × v
  const double spin = magnus * density * 4.0 / 3.0 * mjPI * axes.prod();
  AddJetCross(3, 3, spin, w, B);
  AddJetCross(3, 0, spin, minus_v, B);

  // Kutta: c N / √(D N |v|²) (n × v) × v
  const Vec3 product(axes[1] * axes[2], axes[2] * axes[0], axes[0] * axes[1]);
  const Vec3 a = product.cwiseProduct(product), aa = a.cwiseProduct(a);
  const FluidJet num = JetSquares(a, v), denom = JetSquares(aa, v), square = JetSquares(Vec3::Ones(), v);
  const FluidJet c = JetOver(mjPI * kutta * density, Root(denom * num * square));
  const FluidJet ratio = JetOver(num, denom), cosine = JetOver(num, square);
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    const FluidJet f = v[j] * v[j] * (a[i] - a[j]) + v[k] * v[k] * (a[i] - a[k]);
    for (int q = 0; q < 3; q++) {
      FluidJet entry = 2 * (a[q] - a[i]) * num + f * (aa[q] * ratio - a[q] + cosine);
      entry = entry * v[i] * v[q];
      if (q == i) entry = entry - f * num;
      B[3 + i][3 + q] = B[3 + i][3 + q] + c * entry;
    }
  }
}

// … and its drag
void AddDrag(const mjModel* m, int geom, const FluidJet l[6], JetSlopes B) {
  const mjtNum* fluid = m->geom_fluid + mjNFLUID * geom;
  const double blunt = fluid[1], slender = fluid[2], angular = fluid[3];
  const double density = m->opt.density, viscosity = m->opt.viscosity;
  const Vec3 axes = FluidHalfAxes(m, geom);
  const FluidJet *w = l, *v = l + 3;
  const Vec3 product(axes[1] * axes[2], axes[2] * axes[0], axes[0] * axes[1]);
  const Vec3 a = product.cwiseProduct(product), aa = a.cwiseProduct(a);
  const FluidJet num = JetSquares(a, v), denom = JetSquares(aa, v), square = JetSquares(Vec3::Ones(), v);

  // −(linear + ρ |v| area) v
  const double d_max = axes.maxCoeff(), d_min = axes.minCoeff(), d_mid = axes.sum() - d_max - d_min;
  const double sphere = 2.0 / 3.0 * axes.sum(), largest = mjPI * d_max * d_mid;
  const FluidJet speed = Root(square), area = mjPI * Root(JetOver(denom, num));
  const FluidJet quadratic = JetOver(density * (blunt * area + slender * (largest - area)), speed);
  AddJetProduct(3, 3, -quadratic, v, v, B);
  const FluidJet narrow = JetOver(density * (blunt - slender) * mjPI * speed, Root(num * num * num * denom));
  FluidJet by_area[3];
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    by_area[i] = a[i] * v[i] * (a[j] * (a[i] - a[j]) * v[j] * v[j] + a[k] * (a[i] - a[k]) * v[k] * v[k]);
  }
  AddJetProduct(3, 3, -narrow, v, by_area, B);

  // angular drag: −(linear + ρ |moment ∘ ω|) ω
  const double I_max = 8.0 / 15.0 * mjPI * d_mid * std::pow(d_max, 4);
  Vec3 moment;
  for (int i = 0; i < 3; i++) {
    const double I = 8.0 / 15.0 * mjPI * axes[i] * std::pow(std::max(axes[(i + 1) % 3], axes[(i + 2) % 3]), 4);
    moment[i] = angular * I + slender * (I_max - I);
  }
  const Vec3 squares = moment.cwiseProduct(moment);
  const FluidJet turning = JetSquares(squares, w), brake = JetOver(density, Root(turning));
  FluidJet by_turning[3];
  for (int i = 0; i < 3; i++) by_turning[i] = squares[i] * w[i];
  AddJetProduct(0, 0, -brake, w, by_turning, B);
  for (int i = 0; i < 3; i++) {
    B[3 + i][3 + i] = B[3 + i][3 + i] - (quadratic * square + viscosity * 3 * mjPI * sphere);
    B[i][i] = B[i][i] - (brake * turning + viscosity * mjPI * sphere * sphere * sphere);
  }
}

void EllipsoidSlopes(const mjModel* m, int geom, bool drag_alone, const FluidJet l[6], JetSlopes B) {
  if (!drag_alone) AddLift(m, geom, l, B);
  AddDrag(m, geom, l, B);
  const double scale = m->geom_fluid[mjNFLUID * geom];
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 6; j++) B[i][j] = scale * B[i][j];
  }
}

Mat6 PartFrame(const mjModel* m, const mjData* d, int body, int geom) {
  const mjtNum* point = geom < 0 ? d->xipos + 3 * body : d->geom_xpos + 3 * geom;
  const mjtNum* axes = geom < 0 ? d->ximat + 9 * body : d->geom_xmat + 9 * geom;
  return FluidFrame(m, d, body, point, axes);
}

Vec6 VelocityInFluid(const mjModel* m, const mjData* d, int body, const Mat6& frame) {
  Vec6 local = frame * Vec6Map(d->cvel + 6 * body);
  local.tail<3>() -= frame.topLeftCorner<3, 3>() * Vec3Map(m->opt.wind);
  return local;
}

bool IsFluidOff(const mjModel* m) {
  return (m->opt.disableflags & mjDSBL_SPRING) && (m->opt.disableflags & mjDSBL_DAMPER);
}

}  // namespace

FluidDamping::FluidDamping(const mjModel* model) : composite_(model->nbody) {}

void FluidDamping::AddPart(const mjModel* m, const mjData* d, int body, int geom, bool symmetric, bool drag_alone) {
  Part part;
  part.body = body;
  part.wind = Vec3Map(m->opt.wind);
  part.frame = PartFrame(m, d, body, geom);
  const Vec6 local = VelocityInFluid(m, d, body, part.frame);
  FluidJet l[6];
  for (int k = 0; k < 6; k++) {
    l[k].x = local[k];
    l[k].d[k] = 1;
  }
  JetSlopes B;
  if (geom < 0) BoxSlopes(m, body, l, B);
  else EllipsoidSlopes(m, geom, drag_alone, l, B);
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 6; j++) {
      const FluidJet entry = symmetric ? 0.5 * (B[i][j] + B[j][i]) : B[i][j];
      part.slope(i, j) = PLANT("integrator: fluid", entry.x);
      for (int k = 0; k < 6; k++) part.by[k](i, j) = PLANT("integrator: slopes of fluid", entry.d[k]);
    }
  }
  composite_[body] -= m->opt.timestep * part.frame.transpose() * part.slope * part.frame;
  part_.push_back(part);
}

bool FluidDamping::Compute(const mjModel* m, const mjData* d) {
  const bool discrete = IsDiscrete(m), fast = m->opt.integrator == mjINT_IMPLICITFAST;
  part_.clear();
  if (IsFluidOff(m)) return false;
  std::fill(composite_.begin(), composite_.end(), Mat6::Zero());
  ForFluidParts(m, [&](int body, int geom) {
    AddPart(m, d, body, geom, discrete || (fast && !IsStandaloneFreeBody(m, m->body_weldid[body])), discrete);
  });
  for (int b = static_cast<int>(m->nbody) - 1; b > 0; b--) {
    if (m->body_parentid[b] > 0) composite_[m->body_parentid[b]] += composite_[b];
  }
  return !part_.empty();
}

double FluidDamping::Entry(const mjModel* m, const mjData* d, int i, int j) const {
  const Mat6& C = composite_[m->dof_bodyid[std::max(i, j)]];
  return Vec6Map(d->cdof + 6 * i).dot(C * Vec6Map(d->cdof + 6 * j));
}

void FluidDamping::AddColumns(const mjModel* m, const mjData* d, const Eigen::VectorXd& applied, Columns* E) {
  for (const Part& part : part_) {
    const int last = LastDof(m, part.body);
    if (last < 0) continue;
    if (!HasDiagonalMass(m, last)) {
      AddPartColumns(m, d, part, applied, -1, E);
      continue;
    }
    for (int dof = last; dof >= 0; dof = m->dof_parentid[dof]) AddPartColumns(m, d, part, applied, dof, E);
  }
}

void FluidDamping::AddDiagonalColumns(const mjModel* m, const mjData* d, Columns* E) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(m->nv);
  for (const Part& part : part_) {
    for (int dof = LastDof(m, part.body); dof >= 0; dof = m->dof_parentid[dof])
      AddPartColumns(m, d, part, ones, dof, E);
  }
}

// (F6) d(Jᵀ B J ā) = dJᵀ (B x) + Jᵀ (T dl + B dx), x = J ā, T = ∂(B x)/∂l. In the part's frame what moves together with
// it does not change: dof j turns only the axes before its group, dJ_i = Y (S_i × S_j), likewise l and x by their
// shares. Of row `alone` only what its own ā does to it; −1: all of all rows.
void FluidDamping::AddPartColumns(const mjModel* m, const mjData* d, const Part& part, const Eigen::VectorXd& applied,
                                  int alone, Columns* E) {
  const int nv = static_cast<int>(m->nv);
  const double h = m->opt.timestep;
  dof_.clear();
  for (int dof = LastDof(m, part.body); dof >= 0; dof = m->dof_parentid[dof]) dof_.push_back(dof);
  std::reverse(dof_.begin(), dof_.end());
  const int n = static_cast<int>(dof_.size());
  motion_.resize(n);
  before_.resize(n);
  applied_before_.resize(n);

  // velocities before each dof's group: a ball or free rotation is a group of three
  Vec6 V = Vec6::Zero(), A = Vec6::Zero();
  for (int k = 0; k < n; k++) {
    const int i = dof_[k];
    const bool follows = GroupBegin(m, i) != i;
    const Vec6Map S(d->cdof + 6 * i);
    motion_[k] = part.frame * S;
    before_[k] = follows ? before_[k - 1] : V;
    applied_before_[k] = follows ? applied_before_[k - 1] : A;
    V += d->qvel[i] * S;
    if (alone < 0 || alone == i) A += applied[i] * S;
  }
  const Vec6 x = part.frame * A, force = part.slope * x;
  Mat6 T;
  for (int k = 0; k < 6; k++) T.col(k) = part.by[k] * x;
  const Vec6 W = part.frame.transpose() * force;

  for (int c = 0; c < n; c++) {
    const int j = dof_[c];
    const Vec6Map S(d->cdof + 6 * j);
    Vec6 dl = part.frame * CrossMotion(before_[c], S);
    dl.tail<3>() += part.frame.topLeftCorner<3, 3>() * S.head<3>().cross(part.wind);
    const Vec6 dx = part.frame * CrossMotion(applied_before_[c], S);
    const Vec6 by_q = T * dl + part.slope * dx, by_v = T * motion_[c];

    const int group = GroupBegin(m, j);
    for (int r = 0; r < n; r++) {
      const int i = dof_[r];
      if (alone >= 0 && alone != i) continue;
      double entry = motion_[r].dot(by_q);
      if (i < group) entry += CrossMotion(Vec6Map(d->cdof + 6 * i), S).dot(W);
      (*E)(i, j) += PLANT("integrator: fluid by position", h * entry);
      (*E)(i, nv + j) += PLANT("integrator: fluid by velocity", h * motion_[r].dot(by_v));
    }
  }
}

std::vector<FluidReversal> FluidReversals(const mjModel* m, const mjData* d) {
  constexpr double kStill = 1e-12;  // of a unit of any dof: rounding of the part's axes
  std::vector<FluidReversal> found;
  if (!(m->opt.density > 0) || IsFluidOff(m)) return found;
  ForFluidParts(m, [&](int body, int geom) {
    const Mat6 frame = PartFrame(m, d, body, geom);
    const Vec6 local = VelocityInFluid(m, d, body, frame);
    Vec6 reach = Vec6::Zero();
    for (int dof = LastDof(m, body); dof >= 0; dof = m->dof_parentid[dof]) {
      reach = reach.cwiseMax((frame * Vec6Map(d->cdof + 6 * dof)).cwiseAbs());
    }
    const int size = geom < 0 ? 1 : 3;
    for (int first = 0; first < 6; first += size) {
      if (reach.segment(first, size).maxCoeff() < kStill) continue;
      found.push_back({body, geom, local.segment(first, size).norm(), first < 3});
    }
  });
  return found;
}

}  // namespace costate
