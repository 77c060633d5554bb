// Models of two geoms and poses at which they touch.
#ifndef COSTATE_TESTS_DERIVATIVE_RANDOM_TOUCH_H_
#define COSTATE_TESTS_DERIVATIVE_RANDOM_TOUCH_H_

#include <mujoco/mujoco.h>

#include <random>
#include <string>

#include "derivative/spatial.h"

namespace costate {

inline constexpr char kPlane[] = "type='plane' size='5 5 .1' euler='4 -3 20'";

// Two geoms on free bodies; a plane is part of the world.
inline std::string TwoGeoms(const std::string& first, const std::string& second) {
  const std::string geom = "<geom " + first + "/>";
  return "<mujoco><asset><mesh name='wedge' vertex='0 0 0  .2 0 0  0 .25 0  .05 .05 .2  .15 .1 "
         ".1'/></asset><worldbody>" +
         (first == kPlane ? geom : "<body><freejoint/>" + geom + "</body>") + "<body><freejoint/><geom " + second +
         "/></body></worldbody></mujoco>";
}

// Random orientations; the last body is brought nearer until the geoms touch, `depth` deep or less.
// orient(quat1, quat2) may change both.
template <typename Orient>
void RandomTouch(const mjModel* m, mjData* d, double depth, std::mt19937* rng, Orient orient) {
  std::normal_distribution<double> normal;
  for (int i = 0; i < m->nq; i++) d->qpos[i] = normal(*rng);
  mj_normalizeQuat(m, d->qpos);
  if (m->nq > 7) orient(d->qpos + 3, d->qpos + 10);
  mjtNum* moving = d->qpos + m->nq - 7;
  Vec3 way(0, 0, -1);
  if (m->nq > 7) {
    way = Vec3Map(d->qpos) - Vec3Map(moving);
    way.normalize();
  }
  const Vec3 start = (m->nq > 7 ? Vec3(Vec3Map(d->qpos)) : Vec3(Vec3::Zero())) - way;
  const auto put = [&](double s) {
    Eigen::Map<Vec3>(moving, 3) = start + s * way;
    mj_forward(m, d);
    return d->ncon > 0;
  };
  double s = 0;
  for (double step = 0.05; step > depth / 2; step /= 2) {
    while (!put(s + step)) s += step;
  }
  put(s + depth);
}

inline void RandomTouch(const mjModel* m, mjData* d, double depth, std::mt19937* rng) {
  RandomTouch(m, d, depth, rng, [](mjtNum*, mjtNum*) {});
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_RANDOM_TOUCH_H_
