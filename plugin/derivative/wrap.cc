#include "derivative/wrap.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "derivative/plant.h"

namespace costate {

namespace {

using Mat36 = Eigen::Matrix<double, 3, 6>;
using Row6 = Eigen::Matrix<double, 1, 6>;

// the plane of the path: polar coordinates of both ends. e is counterclockwise, from end 0 to end 1 for a sphere.
struct Plane {
  double rho[2];
  Vec3 u[2], e[2];
  Row6 drho[2];
  Mat36 du[2], de[2];
  double turn = 0;  // angle between the ends, without sign
  Row6 dturn;
  int first = 0;  // the end from which the other is reached counterclockwise by `turn`
};

bool MakePlane(const Wrap& w, Plane* out) {
  Plane& p = *out;
  for (int k = 0; k < 2; k++) {
    Vec3 x = w.end[k];
    if (w.cylinder) x.z() = 0;
    p.rho[k] = x.norm();
    if (p.rho[k] < mjMINVAL) return false;
    p.u[k] = x / p.rho[k];
    p.drho[k].setZero();
    p.drho[k].segment<3>(3 * k) = p.u[k].transpose();
  }
  const double cosine = p.u[0].dot(p.u[1]);
  p.turn = std::acos(std::clamp(cosine, -1.0, 1.0));
  if (w.cylinder) {
    for (int k = 0; k < 2; k++) p.e[k] = Vec3(-p.u[k].y(), p.u[k].x(), 0);
    p.first = w.end[0].x() * w.end[1].y() - w.end[0].y() * w.end[1].x() > 0 ? 0 : 1;
  } else {
    const double sine = p.u[0].cross(p.u[1]).norm();
    if (sine < mjMINVAL) return false;
    p.e[0] = (p.u[1] - cosine * p.u[0]) / sine;
    p.e[1] = (cosine * p.u[1] - p.u[0]) / sine;
  }
  p.dturn.setZero();
  for (int k = 0; k < 2; k++) {
    p.du[k].setZero();
    const Mat3 across =
        w.cylinder ? Mat3(p.e[k] * p.e[k].transpose()) : Mat3(Mat3::Identity() - p.u[k] * p.u[k].transpose());
    p.du[k].block<3, 3>(0, 3 * k) = PLANT("wrap: plane", across / p.rho[k]);
    p.dturn += PLANT("wrap: turn", (k == p.first ? -1 : 1) * p.e[k].transpose() * p.du[k]);
  }

  // the plane itself turns about u with the ends' motion along its normal
  const double sine = std::sin(p.turn);
  for (int k = 0; k < 2; k++) {
    p.de[k] = -p.u[k] * (p.e[k].transpose() * p.du[k]);
    if (w.cylinder) continue;
    const Vec3 normal = p.u[0].cross(p.e[0]);
    const Row6 lift0 = normal.transpose() * p.du[0], lift1 = normal.transpose() * p.du[1];
    p.de[k] +=
        PLANT("wrap: lift", normal * (k == 0 ? Row6(lift1 - cosine * lift0) : Row6(cosine * lift1 - lift0)) / sine);
  }
  return true;
}

// t = r (cos α u + sin α e)
Mat36 OnCircle(const Plane& p, int k, double radius, double alpha, const Row6& dalpha) {
  const double c = radius * std::cos(alpha), s = radius * std::sin(alpha);
  return c * p.du[k] + s * p.de[k] + PLANT("wrap: circle", (c * p.e[k] - s * p.u[k]) * dalpha);
}

double SafeRoot(double x) { return std::max(mjMINVAL, std::sqrt(std::max(0.0, x))); }

// (T6) the engine's Newton search for asin(A sin φ) + asin(B sin φ) − 2φ + G = 0, step by step with its derivative
void InsideTouch(const Wrap& w, const Plane& p, Mat36* dt) {
  const double A = w.radius / p.rho[0], B = w.radius / p.rho[1];
  const Row6 dA = -A / p.rho[0] * p.drho[0], dB = -B / p.rho[1] * p.drho[1];
  const auto function = [&](double x) {
    return std::asin(A * std::sin(x)) + std::asin(B * std::sin(x)) - 2 * x + p.turn;
  };
  double phi = mjPI / 2, f = function(phi);
  Row6 dphi = Row6::Zero();
  bool found = f <= 0 && std::cos(p.turn) <= 1 - mjMINVAL;
  int iteration = 0;
  for (; found && iteration < 20 && std::abs(f) > 1e-6; iteration++) {
    const double s = std::sin(phi), c = std::cos(phi), a = SafeRoot(1 - s * s * A * A), b = SafeRoot(1 - s * s * B * B);
    const double slope = c * (A / a + B / b) - 2;
    const Row6 df = PLANT("wrap: inside", slope * dphi + s / a * dA + s / b * dB + p.dturn);
    const double bend = -s * (A / a + B / b) + c * c * s * (A * A * A / (a * a * a) + B * B * B / (b * b * b));
    const Row6 dslope = bend * dphi + c * (dA / (a * a * a) + dB / (b * b * b));
    const double next = phi - f / slope;
    if (slope > -mjMINVAL || next > phi) found = false;
    dphi += f / (slope * slope) * dslope - df / slope;
    phi = next;
    f = function(phi);
    if (f > 1e-6) found = false;
  }
  if (!found || iteration == 20) {
    // the engine falls back on the middle of both ends
    Vec3 middle = p.rho[0] * p.u[0] + p.rho[1] * p.u[1];
    const double norm = middle.norm();
    middle /= norm;
    Mat36 dmiddle = Mat36::Zero();
    for (int k = 0; k < 2; k++) dmiddle += p.u[k] * p.drho[k] + p.rho[k] * p.du[k];
    *dt = w.radius / norm * (dmiddle - middle * (middle.transpose() * dmiddle));
    return;
  }
  const int k = p.first;
  const double C = k == 0 ? A : B, s = std::sin(phi), root = SafeRoot(1 - s * s * C * C);
  const Row6 dalpha = dphi - (C * std::cos(phi) * dphi + s * (k == 0 ? dA : dB)) / root;
  *dt = OnCircle(p, k, w.radius, phi - std::asin(C * s), dalpha);
}

// cylinder: heights of the touching points divide the developed path, (T7)
void Heights(const Wrap& w, Mat36* dt) {
  double L[3];
  Row6 dL[3];
  for (int k = 0; k < 2; k++) {
    Vec3 line = w.end[k] - w.touch[k];
    line.z() = 0;
    Mat36 motion = -dt[k];
    motion.block<3, 3>(0, 3 * k) += Mat3::Identity();
    L[2 * k] = line.norm();
    dL[2 * k] = L[2 * k] > mjMINVAL ? Row6(line.transpose() / L[2 * k] * motion) : Row6(Row6::Zero());
  }
  L[1] = 0;
  dL[1].setZero();
  if (!w.inside) {
    // the arc, in the direction of travel
    Vec3 radial[2], tangent[2];
    for (int k = 0; k < 2; k++) {
      radial[k] = Vec3(w.touch[k].x(), w.touch[k].y(), 0).normalized();
      tangent[k] = Vec3(-radial[k].y(), radial[k].x(), 0);
    }
    const double direction = tangent[0].dot(w.touch[0] - w.end[0]) > 0 ? 1 : -1;
    double arc = std::acos(std::clamp(radial[0].dot(radial[1]), -1.0, 1.0));
    if (direction * tangent[0].dot(radial[1]) < 0) arc = 2 * mjPI - arc;
    L[1] = w.radius * arc;
    dL[1] = PLANT("wrap: arc", direction * (tangent[1].transpose() * dt[1] - tangent[0].transpose() * dt[0]));
  }
  const double total = L[0] + L[1] + L[2], rise = w.end[1].z() - w.end[0].z();
  const Row6 dtotal = dL[0] + dL[1] + dL[2];
  Row6 drise = Row6::Zero();
  drise[2] = -1;
  drise[5] = 1;
  double at = L[0];
  Row6 dat = dL[0];
  for (int k = 0; k < 2; k++) {
    dt[k].row(2) = PLANT("wrap: heights", at / total * drise + rise / total * (dat - at / total * dtotal));
    dt[k](2, 2) += 1;
    at += L[1];
    dat += dL[1];
  }
}

}  // namespace

bool Differentiate(const Wrap& w, WrapDerivative* out) {
  Plane plane;
  if (!MakePlane(w, &plane)) return false;
  Mat36 dt[2];
  if (w.inside) {
    InsideTouch(w, plane, &dt[0]);
    dt[1] = dt[0];
  } else {
    // (T5) each end sees its touching point under the angle acos(r/ρ)
    for (int k = 0; k < 2; k++) {
      const double rho = plane.rho[k], side = plane.e[k].dot(w.touch[k]) > 0 ? 1 : -1;
      const double alpha = side * std::acos(std::min(1.0, w.radius / rho));
      const Row6 dalpha = side * w.radius / (rho * SafeRoot(rho * rho - w.radius * w.radius)) * plane.drho[k];
      dt[k] = OnCircle(plane, k, w.radius, alpha, dalpha);
    }
  }
  if (w.cylinder) Heights(w, dt);

  // (T4) force = (end − touch) / |end − touch|
  out->slack.setZero();
  for (int k = 0; k < 2; k++) {
    const Vec3 line = w.end[k] - w.touch[k];
    const double length = line.norm();
    if (length < mjMINVAL) return false;
    out->force[k] = line / length;
    Mat36 motion = -dt[k];
    motion.block<3, 3>(0, 3 * k) += Mat3::Identity();
    out->H.middleRows<3>(3 * k) =
        PLANT("wrap: turning piece", (motion - out->force[k] * (out->force[k].transpose() * motion)) / length);
    if (w.inside) out->slack -= (out->force[k].transpose() * dt[k]).transpose();
  }
  return true;
}

}  // namespace costate
