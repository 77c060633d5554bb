// The exact contact of curved convex geoms, judged by closest points found another way: surfaces as
// quadrics g(x) = 0, stationary points of |x2 − x1|² on them by Newton with multipliers, and
// differences of those.
#include "derivative/contact_convex.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <costate/model.h>
#include "derivative/random_touch.h"

namespace costate {
namespace {

// g = ½ yᵀ Q y + q·y + c in the geom's frame, negative inside
struct Quadric {
  Mat3 Q = Mat3::Zero();
  Vec3 q = Vec3::Zero();
  double c = 0;
  double Value(const Vec3& y) const { return 0.5 * y.dot(Q * y) + q.dot(y) + c; }
};

Quadric PlaneAt(const Vec3& normal, double offset) { return {Mat3::Zero(), normal, -offset}; }
Quadric SphereAt(double z, double radius) {
  return {Mat3::Identity() / radius, Vec3(0, 0, -z) / radius, 0.5 * (z * z / radius - radius)};
}
Quadric Tube(double radius) { return {Mat3(Vec3(1, 1, 0).asDiagonal()) / radius, Vec3::Zero(), -0.5 * radius}; }

using Surface = std::vector<Quadric>;

std::vector<Quadric> Quadrics(const mjModel* m, int geom) {
  const Vec3 size = Vec3Map(m->geom_size + 3 * geom);
  std::vector<Quadric> all;
  switch (m->geom_type[geom]) {
    case mjGEOM_SPHERE: return {SphereAt(0, size(0))};
    case mjGEOM_ELLIPSOID: {
      const Vec3 inverse = size.cwiseProduct(size).cwiseInverse() * size.mean();
      return {{Mat3(inverse.asDiagonal()), Vec3::Zero(), -0.5 * size.mean()}};
    }
    case mjGEOM_CAPSULE: return {Tube(size(0)), SphereAt(size(1), size(0)), SphereAt(-size(1), size(0))};
    case mjGEOM_CYLINDER: return {Tube(size(0)), PlaneAt(Vec3::UnitZ(), size(1)), PlaneAt(-Vec3::UnitZ(), size(1))};
    case mjGEOM_BOX:
      for (int i = 0; i < 3; i++) {
        for (int sign : {-1, 1}) all.push_back(PlaneAt(sign * Vec3::Unit(i), size(i)));
      }
      return all;
    default: {
      const int mesh = m->geom_dataid[geom];
      for (int k = m->mesh_polyadr[mesh]; k < m->mesh_polyadr[mesh] + m->mesh_polynum[mesh]; k++) {
        const int* vertex = m->mesh_polyvert + m->mesh_polyvertadr[k];
        Vec3 corner[3];
        for (int i = 0; i < 3; i++) {
          const float* v = m->mesh_vert + 3 * (m->mesh_vertadr[mesh] + vertex[i]);
          corner[i] = Vec3(v[0], v[1], v[2]);
        }
        const Vec3 normal = (corner[1] - corner[0]).cross(corner[2] - corner[0]).normalized();
        all.push_back(PlaneAt(normal, normal.dot(corner[0])));
      }
      return all;
    }
  }
}

// is y, on the chosen quadrics, on the surface?
bool IsOnSurface(const mjModel* m, int geom, const std::vector<Quadric>& all, unsigned chosen, const Vec3& y) {
  if (m->geom_type[geom] == mjGEOM_CAPSULE) {
    const double half = m->geom_size[3 * geom + 1];
    return chosen == 1 ? std::abs(y.z()) < half : chosen == 2 ? y.z() > half : y.z() < -half;
  }
  for (const Quadric& quadric : all) {
    if (quadric.Value(y) > 1e-9) return false;
  }
  return true;
}

struct Pose {
  Vec3 c;
  Mat3 R;
};

struct Closest {
  Vec3 x[2];
  Eigen::VectorXd multiplier;
  double phi;
  Vec3 n;
};

// stationary |x2 − x1|²/2 + Σ λ g, by Newton from x
bool Newton(const Surface surface[2], const Pose pose[2], Closest* at) {
  const int count[2] = {static_cast<int>(surface[0].size()), static_cast<int>(surface[1].size())};
  const int size = 6 + count[0] + count[1];
  if (at->multiplier.size() != size - 6) {
    // least squares for Σ λ ∇g = ±(x2 − x1)
    at->multiplier.setZero(size - 6);
    for (int side = 0, row = 0; side < 2; row += count[side++]) {
      Eigen::MatrixXd gradient(3, count[side]);
      for (int k = 0; k < count[side]; k++) {
        const Quadric& g = surface[side][k];
        gradient.col(k) = pose[side].R * (g.Q * (pose[side].R.transpose() * (at->x[side] - pose[side].c)) + g.q);
      }
      const Vec3 pull = (side ? -1 : 1) * (at->x[1] - at->x[0]);
      at->multiplier.segment(row, count[side]) = gradient.colPivHouseholderQr().solve(pull);
    }
  }
  for (int iteration = 0; iteration < 40; iteration++) {
    Eigen::MatrixXd J = Eigen::MatrixXd::Zero(size, size);
    Eigen::VectorXd r = Eigen::VectorXd::Zero(size);
    J.topLeftCorner<6, 6>() << Mat3::Identity(), -Mat3::Identity(), -Mat3::Identity(), Mat3::Identity();
    r.head<3>() = at->x[0] - at->x[1];
    r.segment<3>(3) = at->x[1] - at->x[0];
    for (int side = 0, row = 6; side < 2; side++) {
      const Mat3& R = pose[side].R;
      const Vec3 y = R.transpose() * (at->x[side] - pose[side].c);
      for (const Quadric& g : surface[side]) {
        const Vec3 gradient = R * (g.Q * y + g.q);
        const double lambda = at->multiplier(row - 6);
        J.block<3, 3>(3 * side, 3 * side) += lambda * R * g.Q * R.transpose();
        J.block<3, 1>(3 * side, row) = gradient;
        J.block<1, 3>(row, 3 * side) = gradient.transpose();
        r.segment<3>(3 * side) += lambda * gradient;
        r(row++) = g.Value(y);
      }
    }
    const Eigen::VectorXd step = J.fullPivLu().solve(r);
    if (!(step.norm() < 10)) return false;
    at->x[0] -= step.head<3>();
    at->x[1] -= step.segment<3>(3);
    at->multiplier -= step.tail(size - 6);
    if (step.norm() < 1e-13) {
      // outward normals: the sign of φ is that of the multipliers
      double sum = 0;
      for (double lambda : at->multiplier) sum += lambda;
      at->phi = std::copysign((at->x[1] - at->x[0]).norm(), sum);
      at->n = (at->x[1] - at->x[0]) / at->phi;
      for (double lambda : at->multiplier) {
        if (lambda * at->phi < 0) return false;
      }
      return true;
    }
  }
  return false;
}

// the stationary point of least depth near the contact, over all choices of quadrics
bool FindClosest(const mjModel* m, const Pose pose[2], const Vec3& normal, double dist, const Vec3 x[2],
                 Surface surface[2], Closest* out) {
  const std::vector<Quadric> all[2] = {Quadrics(m, 0), Quadrics(m, 1)};
  bool found = false;
  const auto choose = [&](int side, unsigned bits) {
    Surface chosen;
    for (std::size_t k = 0; k < all[side].size(); k++) {
      if (!(bits >> k & 1)) continue;
      const Quadric& g = all[side][k];
      if (std::abs(g.Value(pose[side].R.transpose() * (x[side] - pose[side].c))) > 0.02) return Surface();
      chosen.push_back(g);
    }
    return chosen.size() <= 3 ? chosen : Surface();
  };
  for (unsigned b1 = 1; b1 < 1u << all[0].size(); b1++) {
    const Surface s1 = choose(0, b1);
    if (s1.empty()) continue;
    for (unsigned b2 = 1; b2 < 1u << all[1].size(); b2++) {
      const Surface trial[2] = {s1, choose(1, b2)};
      if (trial[1].empty()) continue;
      Closest at{{x[0], x[1]}, {}, 0, {}};
      if (!Newton(trial, pose, &at) || at.n.dot(normal) < 0.999 || std::abs(at.phi - dist) > 1e-4) continue;
      bool on = true;
      for (int side = 0; side < 2; side++) {
        const Vec3 y = pose[side].R.transpose() * (at.x[side] - pose[side].c);
        on = on && IsOnSurface(m, side, all[side], side ? b2 : b1, y);
      }
      if (!on) continue;
      found = true;
      surface[0] = trial[0];
      surface[1] = trial[1];
      *out = at;
    }
  }
  return found;
}

TEST(ConvexContact, IsTheDerivativeOfClosestPoints) {
  const char *sphere = "size='.1'", *capsule = "type='capsule' size='.06 .12'",
             *cylinder = "type='cylinder' size='.09 .12'", *box = "type='box' size='.08 .1 .12'",
             *ellipsoid = "type='ellipsoid' size='.1 .07 .12'", *mesh = "type='mesh' mesh='wedge'";
  const char* pairs[][2] = {{sphere, ellipsoid},   {capsule, ellipsoid}, {capsule, cylinder}, {ellipsoid, ellipsoid},
                            {ellipsoid, cylinder}, {ellipsoid, box},     {ellipsoid, mesh},   {cylinder, cylinder},
                            {cylinder, box},       {cylinder, mesh}};
  for (const auto& pair : pairs) {
    SCOPED_TRACE(std::string(pair[0]) + " and " + pair[1]);
    ModelPtr model = LoadModelFromString(TwoGeoms(pair[0], pair[1]));
    const mjModel* m = model.get();
    DataPtr data = MakeData(m);
    mjData* d = data.get();
    ConvexSolver solver;
    std::mt19937 rng(11);
    int smooth_contacts = 0, judged = 0;
    for (int k = 0; k < 100; k++) {
      RandomTouch(m, d, 0.004, &rng);
      const mjContact& contact = d->contact[0];
      const Vec3 n = Vec3Map(contact.frame), p = Vec3Map(contact.pos);
      const ConvexShape shape1(m, d, 0), shape2(m, d, 1);
      if (shape1.HasFace(n) || shape2.HasFace(-n)) continue;  // clipped by the engine: no closest point
      smooth_contacts++;
      ConvexContact exact;
      ASSERT_TRUE(solver.Solve(shape1, shape2, n, p, contact.dist, m->opt.ccd_tolerance, &exact)) << "pose " << k;
      EXPECT_FALSE(exact.parallel);
      Pose pose[2];
      for (int g = 0; g < 2; g++) pose[g] = {GeomPose(m, d, g).center, GeomPose(m, d, g).R};
      const Vec3 x[2] = {p - n * contact.dist / 2, p + n * contact.dist / 2};
      Surface surface[2];
      Closest base;
      if (!FindClosest(m, pose, n, contact.dist, x, surface, &base)) continue;
      EXPECT_NEAR(base.phi, exact.distance,
                  1e-8);  // normals of a mesh's faces come from vertices in single precision
      EXPECT_LE((base.n - exact.normal).norm(), 1e-7);
      EXPECT_LE((base.x[0] - exact.first.x).norm() + (base.x[1] - exact.second.x).norm(), 1e-7);

      ContactRate rate;
      ASSERT_TRUE(MovePatches(exact.first, exact.second, exact.normal, exact.distance, p, &rate));
      Eigen::Matrix<double, 7, 6> value, reference;
      value << rate.dphi, rate.dp, rate.dn;
      bool smooth = true;
      for (int column = 0; column < 6 && smooth; column++) {
        const auto at = [&](double h) {
          Pose moved[2] = {pose[0], pose[1]};
          if (column < 3) {
            const Mat3 turn = Eigen::AngleAxisd(h, Vec3::Unit(column)).toRotationMatrix();
            moved[1] = {p + turn * (pose[1].c - p), turn * pose[1].R};
          } else {
            moved[1].c += h * Vec3::Unit(column - 3);
          }
          Closest c = base;
          smooth = Newton(surface, moved, &c) && smooth;
          Eigen::Matrix<double, 7, 1> out;
          out << c.phi, (c.x[0] + c.x[1]) / 2, c.n;
          return out;
        };
        const double h = 2e-5;
        reference.col(column) = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      }
      if (!smooth) continue;
      judged++;
      const double error = (value - reference).cwiseAbs().maxCoeff() / (1 + reference.cwiseAbs().maxCoeff());
      EXPECT_LE(error, 1e-7) << "pose " << k << "\n" << value << "\n\n" << reference;
    }
    EXPECT_GE(smooth_contacts, 80);
    EXPECT_EQ(judged, smooth_contacts);
  }
}

}  // namespace
}  // namespace costate
