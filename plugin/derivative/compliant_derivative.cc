// ∂ of the forces of costate.smooth_contact. Equations (Y5)–(Y7) of README.md.
#include "core/joint.h"
#include "core/plugins.h"
#include "derivative/chain.h"
#include "derivative/compliant_contact.h"
#include "derivative/plant.h"

#include <cstring>

namespace costate {
namespace {

// one feature of a pair, with what all its columns share
class TouchDerivative {
 public:
  TouchDerivative(const mjModel* m, const mjData* d, const CompliantLaw& law, const TouchPoint& touch)
      : m_(m),
        d_(d),
        touch_(touch),
        velocity_(RelativeVelocity(m, d, touch)),
        force_(ForceAt(law, touch, velocity_)),
        last_{LastDof(m, touch.body[0]), LastDof(m, touch.body[1])},
        origin_{Origin(m, d, touch.body[0]), Origin(m, d, touch.body[1])} {
    ForDofs([&](int i, int side) { spin_ += Sign(side) * d_->qvel[i] * Axis(i); });
  }

  void Add(Columns* R) const {
    const int nv = static_cast<int>(m_->nv);
    ForDofs([&](int j, int side) {
      AddPositionColumn(j, side, R);

      // (Y7)
      const Vec3 dF = ForceChange(0, Vec3::Zero(), Sign(side) * At(j, side, touch_.point));
      ForDofs([&](int i, int row) {
        (*R)(i, nv + j) += PLANT("yielding: by speed", Sign(row) * dF.dot(At(i, row, touch_.point)));
      });
    });
  }

 private:
  template <typename F>
  void ForDofs(F f) const {
    ForExclusiveDofs(m_, last_[0], last_[1], f);
  }
  static double Sign(int side) { return side ? 1 : -1; }
  Vec3 Axis(int dof) const { return Vec3Map(d_->cdof + 6 * dof); }
  Vec3 At(int dof, int side, const Vec3& point) const {
    return MotionAt(Vec6Map(d_->cdof + 6 * dof), point - origin_[side]);
  }

  // (Y6)
  Vec3 ForceChange(double distance, const Vec3& normal, const Vec3& velocity) const {
    const TouchForce& f = force_;
    const Vec3& n = touch_.normal;
    const double speed = n.dot(velocity_);
    const double dspeed = PLANT("yielding: speed along a turning normal", normal.dot(velocity_)) +
                          PLANT("yielding: speed", n.dot(velocity));
    const Vec3 tangential =
        velocity - PLANT("yielding: tangent plane turns", normal * speed) - PLANT("yielding: normal part", n * dspeed);
    const Vec3 slip = (tangential - PLANT("yielding: slip along itself", f.slip * f.slip.dot(tangential))) / f.rho;
    const double push =
        PLANT("yielding: stiffness", f.by_distance * distance) + PLANT("yielding: dissipation", f.by_speed * dspeed);
    return push * (n - PLANT("yielding: friction of the push", f.friction * f.slip)) +
           f.push * (PLANT("yielding: push turns", normal) - PLANT("yielding: slip", f.friction * slip));
  }

  void AddPositionColumn(int j, int side, Columns* R) const {
    // (Y5)
    const Vec3 axis = Axis(j), motion = At(j, side, touch_.point), seen = Sign(side) * At(j, side, touch_.center);
    const double distance = PLANT("yielding: distance", touch_.normal.dot(seen));
    const Vec3 turn = Sign(side) * axis;
    Vec3 normal =
        PLANT("yielding: turning", touch_.turning * seen) + PLANT("yielding: twisting", touch_.twisting * turn);
    if (side == 0) normal += PLANT("yielding: normal of the surface", axis.cross(touch_.normal));
    Vec3 center = touch_.sliding * seen + touch_.rolling * turn;
    if (side == 1) center += PLANT("yielding: center", seen);
    const Vec3 point = center -
                       PLANT("yielding: point along the normal", (touch_.radius + touch_.distance / 2) * normal) -
                       PLANT("yielding: half way", distance / 2 * touch_.normal);

    // what j carries along: dofs at or after its group, on its side
    const int group = GroupBegin(m_, j);
    Vec3 spin = Vec3::Zero(), speed = Vec3::Zero();
    ForDofs([&](int i, int row) {
      if (row != side || i < group) return;
      spin += Sign(row) * d_->qvel[i] * Axis(i);
      speed += Sign(row) * d_->qvel[i] * At(i, row, touch_.point);
    });
    const Vec3 velocity = PLANT("yielding: point moves", spin_.cross(point)) +
                          PLANT("yielding: velocity turns", axis.cross(speed)) -
                          PLANT("yielding: velocity is carried", spin.cross(motion));
    const Vec3 dF = ForceChange(distance, normal, velocity) +
                    (touch_.share_by_motion.dot(seen) + touch_.share_by_turn.dot(turn)) * force_.whole;
    ForDofs([&](int i, int row) {
      const Vec3 v = At(i, row, touch_.point);
      Vec3 dv = PLANT("yielding: arm", Axis(i).cross(point));
      if (row == side && i >= group) {
        dv += PLANT("yielding: row turns", axis.cross(v)) - PLANT("yielding: row is carried", Axis(i).cross(motion));
      }
      (*R)(i, j) += Sign(row) * (PLANT("yielding: force", dF.dot(v)) + PLANT("yielding: moment", force_.force.dot(dv)));
    });
  }

  const mjModel* m_;
  const mjData* d_;
  const TouchPoint& touch_;
  Vec3 velocity_;
  TouchForce force_;
  int last_[2];
  Vec3 origin_[2], spin_ = Vec3::Zero();
};

bool IsCompliant(const mjModel* m, int instance) {
  return std::strcmp(mjp_getPluginAtSlot(m->plugin[instance])->name, kSmoothContact) == 0;
}

}  // namespace

bool PassivePluginsAreCompliant(const mjModel* m) {
  for (int i = 0; i < m->nplugin; i++) {
    if (HasCapability(m, i, mjPLUGIN_PASSIVE) && !IsCompliant(m, i)) return false;
  }
  return true;
}

CompliantContacts::CompliantContacts(const mjModel* m) {
  for (int i = 0; i < m->nplugin; i++) {
    if (!IsCompliant(m, i)) continue;
    const std::vector<CompliantPair> pairs = ReadCompliantPairs(m, i);
    pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
  }
}

void CompliantContacts::AddDerivative(const mjModel* m, const mjData* d, Columns* R) const {
  if (!HasPassiveForces(m)) return;
  for (const CompliantPair& pair : pairs_) {
    TouchPoint touch;
    for (int k = 0, n = TouchPointCount(m, pair.surface, pair.feature); k < n; k++) {
      if (!FindTouchPoint(m, d, pair.surface, pair.feature, k, kReach * pair.law.smoothing, &touch)) continue;
      TouchDerivative(m, d, pair.law, touch).Add(R);
    }
  }
}

}  // namespace costate
