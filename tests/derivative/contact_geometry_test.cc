#include "derivative/contact_geometry.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include <costate/model.h>

namespace costate {
namespace {

constexpr char kPlane[] = "type='plane' size='5 5 .1' euler='4 -3 20'";

// Two geoms on free bodies; a plane is part of the world.
std::string TwoGeoms(const std::string& first, const std::string& second) {
  const std::string geom = "<geom " + first + "/>";
  return "<mujoco><asset><mesh name='wedge' vertex='0 0 0  .2 0 0  0 .25 0  .05 .05 .2  .15 .1 "
         ".1'/></asset><worldbody>" +
         (first == kPlane ? geom : "<body><freejoint/>" + geom + "</body>") +
         "<body><freejoint/><geom " + second + "/></body></worldbody></mujoco>";
}

// Random orientations; the last body is brought nearer until the geoms touch, `depth` deep or less.
void RandomTouch(const mjModel* m, mjData* d, double depth, std::mt19937* rng) {
  std::normal_distribution<double> normal;
  for (int i = 0; i < m->nq; i++) d->qpos[i] = normal(*rng);
  mj_normalizeQuat(m, d->qpos);
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

struct Pair {
  const char *first, *second;
};

// Every closed form is the derivative of the collider it stands for: centred differences of that
// collider agree wherever its contacts move smoothly.
TEST(ContactGeometry, ClosedFormsAgreeWithDifferencesOfTheCollider) {
  const char *sphere = "size='.1'", *capsule = "type='capsule' size='.06 .12'",
             *cylinder = "type='cylinder' size='.09 .12'", *box = "type='box' size='.08 .1 .12'",
             *ellipsoid = "type='ellipsoid' size='.1 .07 .12'", *mesh = "type='mesh' mesh='wedge'";
  const Pair pairs[] = {{kPlane, sphere},   {kPlane, capsule}, {kPlane, ellipsoid},
                        {kPlane, cylinder}, {kPlane, box},     {kPlane, mesh},
                        {sphere, sphere},   {sphere, capsule}, {sphere, box},
                        {sphere, cylinder}, {capsule, capsule}};
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(std::string(pair.first) + " and " + pair.second);
    ModelPtr model = LoadModelFromString(TwoGeoms(pair.first, pair.second));
    DataPtr data = MakeData(model.get());
    mjData* d = data.get();
    ContactGeometry closed(model.get()), differenced(model.get(), true);
    std::mt19937 rng(5);
    int compared = 0;
    for (int k = 0; k < 60; k++) {
      RandomTouch(model.get(), d, 0.004, &rng);
      std::string why, missing;
      ASSERT_TRUE(closed.Compute(model.get(), d, &missing)) << missing;
      if (!differenced.Compute(model.get(), d, &why)) continue;
      for (int c = 0; c < d->ncon; c++) {
        const ContactMatrix &G = closed.motion(c).by_geom2,
                            &reference = differenced.motion(c).by_geom2;
        EXPECT_LE((G - reference).cwiseAbs().maxCoeff(),
                  1e-8 * (1 + reference.cwiseAbs().maxCoeff()))
            << "pose " << k << " contact " << c << "\n"
            << G << "\n\n"
            << reference;
        EXPECT_EQ(closed.motion(c).by_both, differenced.motion(c).by_both);
        compared++;
      }
    }
    EXPECT_GE(compared, 50);
  }
}

}  // namespace
}  // namespace costate
