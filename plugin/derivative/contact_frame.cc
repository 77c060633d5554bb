#include "derivative/contact_frame.h"

#include <cmath>

#include "derivative/plant.h"

namespace costate {
namespace {

// a collider's vector this close to the normal leaves the tangent without direction: any motion within the derivative's
// own resolution turns it by a radian, so the tangents are held
constexpr double kParallel = 1e-6;

// (G2) Ω = n × dn + n (dt1·t2)
Mat36 FrameRate(const ContactFrame& f, const Mat36& dn, const Mat36& de) {
  Mat36 rate = PLANT("contact geometry: frame", Skew(f.n) * dn);
  if (f.HasTangent()) {
    rate += PLANT("contact geometry: tangent",
                  f.n * ((f.t2.transpose() * de - f.n.dot(f.e) * (f.t2.transpose() * dn)) / f.length));
  }
  return rate;
}

}  // namespace

ContactFrame::ContactFrame(const mjtNum* axes, const Vec3& tangent)
    : n(Vec3Map(axes)), t1(Vec3Map(axes + 3)), t2(Vec3Map(axes + 6)), from_collider(tangent.squaredNorm() >= 0.25) {
  e = from_collider ? tangent : std::abs(n.y()) < 0.5 ? Vec3(0, 1, 0) : Vec3(0, 0, 1);
  length = (e - n * n.dot(e)).norm();
}

bool ContactFrame::HasTangent() const { return length > kParallel; }

ContactMatrix Assemble(const ContactFrame& f, const ContactRate& rate, const Mat36& de) {
  ContactMatrix G;
  G << rate.dphi, rate.dp, FrameRate(f, rate.dn, de);
  return G;
}

Mat36 TangentRate(const ContactFrame& f) {
  Mat36 de = Mat36::Zero();
  if (f.from_collider) de.leftCols<3>() = -Skew(f.e);
  return de;
}

// (G3) Ω = w but for the turn about n, which a tangent made from a world axis does not follow
void CommonMotion(const ContactFrame& f, ContactMatrix* G) {
  G->setZero();
  G->block<3, 3>(1, 3).setIdentity();
  G->block<3, 3>(4, 0).setIdentity();
  if (f.from_collider && f.HasTangent()) return;
  Vec3 spin = -f.n;
  if (f.HasTangent()) spin += PLANT("contact geometry: common turn", f.n.dot(f.e) / f.length * f.t1);
  G->block<3, 3>(4, 0) += f.n * spin.transpose();
}

}  // namespace costate
