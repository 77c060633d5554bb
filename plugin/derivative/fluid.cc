#include "derivative/fluid.h"

#include <algorithm>
#include <cmath>

namespace costate {

namespace {

double Square(double x) { return x * x; }

Vec3 Direction(const Vec3& x) {
  const double norm = x.norm();
  return norm > 0 ? Vec3(x / norm) : Vec3(Vec3::Zero());
}

// the ellipsoid seen along a velocity: projected area and what the Kutta lift needs of it
struct Projection {
  double area, lift;  // lift: area times the cosine between velocity and the surface's normal, over norms
  Vec3 darea, dlift;
  Vec3 square;  // squares of the products of two half axes
};

Projection Project(const Vec3& axes, const Vec3& v) {
  Projection p;
  p.square = Vec3(Square(axes[1] * axes[2]), Square(axes[2] * axes[0]), Square(axes[0] * axes[1]));
  const Vec3 &a = p.square, aa = a.cwiseProduct(a);
  const double speed = v.norm(), num = a.dot(v.cwiseProduct(v)), denom = aa.dot(v.cwiseProduct(v));
  const Vec3 dnum = 2 * a.cwiseProduct(v), ddenom = 2 * aa.cwiseProduct(v);

  // at rest nothing of it is felt
  p.area = p.lift = 0;
  p.darea.setZero();
  p.dlift.setZero();
  if (!(num > 0)) return p;
  p.area = mjPI * std::sqrt(denom / num);
  p.darea = p.area / 2 * (ddenom / denom - dnum / num);
  const double norm = speed * denom, cosine = num / norm;
  const Vec3 dcosine = dnum / norm - cosine / norm * (speed * ddenom + denom * Direction(v));
  p.lift = cosine * p.area;
  p.dlift = cosine * p.darea + p.area * dcosine;
  return p;
}

double LargestMoment(const Vec3& axes, int i) {
  return 8.0 / 15.0 * mjPI * axes[i] * Square(Square(std::max(axes[(i + 1) % 3], axes[(i + 2) % 3])));
}

// of one body: wrench and slopes in a frame at a point, (F3)
void AddForce(const mjModel* m, const mjData* d, int body, const mjtNum* point, const mjtNum* frame, bool box, int geom,
              BodyConstraint* out) {
  const Mat6 Y = FluidFrame(m, d, body, point, frame);
  const Vec3 wind = Vec3Map(m->opt.wind);
  Vec6 V = Vec6Map(d->cvel + 6 * body), local = Y * V;
  local.tail<3>() -= Y.topLeftCorner<3, 3>() * wind;
  const FluidForce force = box ? BoxFluidForce(m, body, local) : EllipsoidFluidForce(m, geom, local);
  const Vec6 W = Y.transpose() * force.wrench;
  const Mat6 slope = Y.transpose() * force.slope * Y;
  Mat6 K = slope * CrossMotionMatrix(V);
  K.leftCols<3>() -= slope.rightCols<3>() * Skew(wind);
  for (int c = 0; c < 6; c++) K.col(c) += CrossForce(Vec6::Unit(c), W);
  out->K += K;
  out->Kv -= slope;
  out->F += W;
  out->active = true;
}

}  // namespace

bool HasFluid(const mjModel* m) { return m->opt.density > 0 || m->opt.viscosity > 0; }

Vec3 FluidHalfAxes(const mjModel* m, int geom) {
  const mjtNum* size = m->geom_size + 3 * geom;
  switch (m->geom_type[geom]) {
    case mjGEOM_SPHERE: return Vec3::Constant(size[0]);
    case mjGEOM_CAPSULE: return {size[0], size[0], size[0] + size[1]};
    case mjGEOM_CYLINDER: return {size[0], size[0], size[1]};
    default: return Vec3Map(size);
  }
}

Mat6 FluidFrame(const mjModel* m, const mjData* d, int body, const mjtNum* point, const mjtNum* axes) {
  const Mat3 R = Mat3Map(axes);
  const Vec3 p = Vec3Map(point) - Vec3Map(d->subtree_com + 3 * m->body_rootid[body]);
  Mat6 Y = Mat6::Zero();
  Y.topLeftCorner<3, 3>() = Y.bottomRightCorner<3, 3>() = R.transpose();
  Y.bottomLeftCorner<3, 3>() = -R.transpose() * Skew(p);
  return Y;
}

void BoxFluidCoefficients(const mjModel* m, int body, Vec6* linear, Vec6* quadratic) {
  const mjtNum* inertia = m->body_inertia + 3 * body;
  const double mass = m->body_mass[body], sum = inertia[0] + inertia[1] + inertia[2];
  Vec3 box;
  for (int i = 0; i < 3; i++) box[i] = std::sqrt(std::max(mjMINVAL, sum - 2 * inertia[i]) / mass * 6.0);
  const double diameter = box.sum() / 3;
  const double viscosity = std::max(0.0, m->opt.viscosity), density = std::max(0.0, m->opt.density);
  for (int i = 0; i < 3; i++) {
    const double b = box[(i + 1) % 3], c = box[(i + 2) % 3];
    (*linear)[i] = mjPI * diameter * diameter * diameter * viscosity;
    (*linear)[3 + i] = 3 * mjPI * diameter * viscosity;
    (*quadratic)[i] = density * box[i] * (Square(Square(b)) + Square(Square(c))) / 64.0;
    (*quadratic)[3 + i] = 0.5 * density * b * c;
  }
}

FluidForce BoxFluidForce(const mjModel* m, int body, const Vec6& v) {
  Vec6 linear, quadratic;
  BoxFluidCoefficients(m, body, &linear, &quadratic);
  FluidForce out;
  for (int i = 0; i < 6; i++) {
    out.wrench[i] = -(linear[i] + quadratic[i] * std::abs(v[i])) * v[i];
    out.slope(i, i) = -(linear[i] + 2 * quadratic[i] * std::abs(v[i]));
  }
  return out;
}

FluidForce EllipsoidFluidForce(const mjModel* m, int geom, const Vec6& velocity) {
  const mjtNum* fluid = m->geom_fluid + mjNFLUID * geom;
  const double scale = fluid[0], blunt = fluid[1], slender = fluid[2], angular = fluid[3], kutta = fluid[4],
               magnus = fluid[5];
  const double density = m->opt.density, viscosity = m->opt.viscosity;
  const Vec3 mass = density * Vec3Map(fluid + 6), inertia = density * Vec3Map(fluid + 9);
  const Vec3 w = velocity.head<3>(), v = velocity.tail<3>();
  const Vec3 axes = FluidHalfAxes(m, geom);
  FluidForce out;
  auto ww = out.slope.topLeftCorner<3, 3>(), wv = out.slope.topRightCorner<3, 3>();
  auto vw = out.slope.bottomLeftCorner<3, 3>(), vv = out.slope.bottomRightCorner<3, 3>();

  // added mass: momenta p, l; torque p × v + l × ω, force p × ω
  const Vec3 p = mass.cwiseProduct(v), l = inertia.cwiseProduct(w);
  out.wrench << p.cross(v) + l.cross(w), p.cross(w);
  const Mat3 M = mass.asDiagonal(), I = inertia.asDiagonal();
  wv += Skew(p) - Skew(v) * M;
  ww += Skew(l) - Skew(w) * I;
  vw += Skew(p);
  vv -= Skew(w) * M;

  // Magnus
  const double volume = 4.0 / 3.0 * mjPI * axes.prod(), spin = magnus * density * volume;
  out.wrench.tail<3>() += spin * w.cross(v);
  vw -= spin * Skew(v);
  vv += spin * Skew(w);

  // Kutta: (n × v) × v with n = a ∘ v
  const Projection view = Project(axes, v);
  const Vec3 n = view.square.cwiseProduct(v), circulation = n.cross(v), lift = circulation.cross(v);
  const Mat3 dcirculation = Skew(n) - Skew(v) * Mat3(view.square.asDiagonal());
  out.wrench.tail<3>() += kutta * density * view.lift * lift;
  vv += kutta * density * (view.lift * (Skew(circulation) - Skew(v) * dcirculation) + lift * view.dlift.transpose());

  // drag, linear and quadratic
  const double d_max = axes.maxCoeff(), d_min = axes.minCoeff(), d_mid = axes.sum() - d_max - d_min;
  const double sphere = 2.0 / 3.0 * axes.sum(), speed = v.norm(), largest = mjPI * d_max * d_mid;
  const double area = blunt * view.area + slender * (largest - view.area);
  const double drag = viscosity * 3 * mjPI * sphere + density * speed * area;
  out.wrench.tail<3>() -= drag * v;
  vv -= drag * Mat3::Identity() +
        density * v * (area * Direction(v) + speed * (blunt - slender) * view.darea).transpose();

  // angular drag, likewise
  const double I_max = 8.0 / 15.0 * mjPI * d_mid * Square(Square(d_max));
  Vec3 moment;
  for (int i = 0; i < 3; i++) {
    const double own = LargestMoment(axes, i);
    moment[i] = angular * own + slender * (I_max - own);
  }
  const Vec3 turning = moment.cwiseProduct(w);
  const double brake = viscosity * mjPI * sphere * sphere * sphere + density * turning.norm();
  out.wrench.head<3>() -= brake * w;
  ww -= brake * Mat3::Identity() + density * w * Direction(turning).cwiseProduct(moment).transpose();
  out.wrench *= scale;
  out.slope *= scale;
  return out;
}

bool AddFluid(const mjModel* m, const mjData* d, std::vector<BodyConstraint>* body) {
  if (!HasFluid(m)) return false;
  bool any = false;
  ForFluidParts(m, [&](int b, int g) {
    any = true;
    const mjtNum* point = g < 0 ? d->xipos + 3 * b : d->geom_xpos + 3 * g;
    const mjtNum* frame = g < 0 ? d->ximat + 9 * b : d->geom_xmat + 9 * g;
    AddForce(m, d, b, point, frame, g < 0, g, &(*body)[b]);
  });
  return any;
}

}  // namespace costate
