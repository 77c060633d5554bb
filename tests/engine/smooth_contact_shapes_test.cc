// costate.smooth_contact between shapes whose touch point is not fixed to either: where bodies come to rest, what is
// conserved, and that nothing jumps as a touch point goes over from one part of a shape to another.
#include <costate/derivative.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "engine/plugin_config.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"

namespace costate {
namespace {

class SmoothContactShapes : public support::EngineTest {};

std::string ShapesScene(const std::string& first, const std::string& second, const std::string& config,
                        const std::string& bodies, const std::string& assets = "") {
  return "<mujoco><option timestep='1e-4' gravity='0 0 0'/><extension><plugin plugin='costate.smooth_contact'>"
         "<instance name='touch'>" +
         Config("geom1", first.c_str()) + Config("geom2", second.c_str()) + config +
         "</instance></plugin></extension>" + assets +
         "<default><geom contype='0' conaffinity='0'/></default><worldbody>" + bodies + "</worldbody></mujoco>";
}

// The height over the floor at which a body of 1 kg comes to rest is that of its shape, less what its weight presses
// in: n touch points of stiffness k give way by δ = (m g / (n k))^(1/e), with e = 1 and a small smoothing.
TEST_F(SmoothContactShapes, RestAtTheirHeight) {
  struct Case {
    const char *name, *geom, *euler;
    double height;
    int points;
  };
  const Case cases[] = {{"standing cylinder", "type='cylinder' size='.1 .15'", "0 0 0", 0.15, 1},
                        {"coin", "type='cylinder' size='.1 .002'", "0 0 0", 0.002, 2},
                        {"lying cylinder", "type='cylinder' size='.1 .15'", "90 0 0", 0.1, 2},
                        {"ellipsoid", "type='ellipsoid' size='.1 .15 .06'", "0 0 0", 0.06, 1},
                        {"lying box of a mesh", "type='mesh' mesh='slab'", "0 0 0", 0.05, 4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ModelPtr m = LoadModelFromString(ShapesScene(
        "floor", "body",
        Config("exponent", "1") + Config("stiffness", "4e4") + Config("dissipation", "3") + Config("smoothing", "1e-5"),
        "<geom name='floor' type='plane' size='1 1 1'/><body pos='0 0 " + std::to_string(c.height) + "' euler='" +
            c.euler + "'><freejoint/><geom name='body' " + c.geom + " mass='1'/></body>",
        "<asset><mesh name='slab' vertex='.1 .1 .05 .1 .1 -.05 .1 -.1 .05 .1 -.1 -.05 -.1 .1 .05 -.1 .1 -.05 -.1 -.1 "
        ".05 -.1 "
        "-.1 -.05'/></asset>"));
    m->opt.gravity[2] = -10;
    m->opt.integrator = mjINT_IMPLICIT;
    for (int i = 3; i < 6; i++) m->dof_damping[i] = 0.02;
    const DataPtr d = MakeData(m.get());
    for (int i = 0; i < 20000; i++) mj_step(m.get(), d.get());
    const double depth = 10 / (4e4 * c.points);
    EXPECT_NEAR(d->qpos[2], c.height - depth, 0.1 * depth + 2e-6);
    EXPECT_LT(mju_norm(d->qvel, 6), 1e-3);
  }
}

// Capsules, boxes, and a capsule on a box's edge, thrown at each other askew: momentum stays, and without dissipation
// and friction so does energy: of boxes while corners stay on a face, for over an edge a step meets a corner of the
// force; not of a capsule across an edge, whose share has no potential.
TEST_F(SmoothContactShapes, ConserveWhatTheyShould) {
  struct Case {
    const char *name, *first, *second;
    bool energy;
  };
  const Case cases[] = {
      {"capsules", "<geom name='a' type='capsule' size='.04 .2'/>", "<geom name='b' type='capsule' size='.05 .15'/>",
       true},
      {"boxes", "<geom name='a' type='box' size='.1 .4 .4'/>", "<geom name='b' type='box' size='.12 .08 .2'/>", true},
      {"edge", "<geom name='a' type='box' size='.1 .2 .15'/>", "<geom name='b' type='capsule' size='.05 .3'/>", false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ModelPtr m = LoadModelFromString(
        ShapesScene("a", "b", Config("dissipation", "0") + Config("friction", "0") + Config("stiffness", "1e6"),
                    std::string("<body euler='10 20 30'><freejoint/>") + c.first +
                        "</body><body pos='.5 .03 .02' euler='70 10 -50'><freejoint/>" + c.second + "</body>"));
    m->opt.enableflags |= mjENBL_ENERGY;
    m->opt.integrator = mjINT_RK4;
    const DataPtr d = MakeData(m.get());
    d->qvel[0] = 2;
    d->qvel[9] = 1;
    double before = 0, pushed = 0;
    for (int i = 0; i < 5000; i++) {
      mj_step(m.get(), d.get());
      mj_forward(m.get(), d.get());
      if (i == 0) before = d->energy[1];
      // equal and opposite at one point: no force and no torque on the whole
      Eigen::Matrix<double, 6, 1> sum = Eigen::Matrix<double, 6, 1>::Zero();
      for (int b = 1; b <= 2; b++) {
        const mjtNum *f = d->qfrc_passive + 6 * (b - 1), *x = d->xipos + 3 * b, *R = d->xmat + 9 * b;
        mjtNum torque[3], arm[3];
        mju_mulMatVec3(torque, R, f + 3);
        mju_cross(arm, x, f);
        for (int k = 0; k < 3; k++) {
          sum[k] += f[k];
          sum[3 + k] += torque[k] + arm[k];
        }
        pushed = std::max(pushed, mju_norm3(f));
      }
      ASSERT_LT(sum.lpNorm<Eigen::Infinity>(), 1e-11 * std::max(1.0, pushed)) << i;
    }
    EXPECT_GT(pushed, 10);
    if (c.energy) {
      EXPECT_NEAR(d->energy[1], before, 2e-4 * before);
    }
  }
}

// along a way on which the touch point passes from an end to a side and back, forces change by no more than their steps
TEST_F(SmoothContactShapes, NothingJumpsAlongTheWay) {
  struct Case {
    const char *name, *first, *second;
    std::function<void(double, mjtNum*)> place;
  };
  const auto turned = [](double angle, mjtNum* quat) {
    const mjtNum axis[3] = {0, 1, 0};
    mju_axisAngle2Quat(quat, axis, angle);
  };
  const Case cases[] = {// a capsule, askew, carried past another: end, side, end
                        {"capsules", "<geom name='a' type='capsule' size='.04 .1' euler='90 0 0'/>",
                         "<geom name='b' type='capsule' size='.04 .1'/>",
                         [&](double s, mjtNum* q) {
                           q[0] = -0.3 + 0.6 * s;
                           q[2] = 0.07;
                           turned(1.3, q + 3);
                         }},
                        // a capsule that tips over the edge of a box, then leaves it endways
                        {"tips over an edge", "<geom name='a' type='box' size='.1 .3 .1'/>",
                         "<geom name='b' type='capsule' size='.04 .2'/>",
                         [&](double s, mjtNum* q) {
                           q[0] = 0.1;
                           q[2] = 0.13;
                           turned(M_PI / 2 + 1.2 * s, q + 3);
                         }},
                        {"drawn over an edge", "<geom name='a' type='box' size='.1 .3 .1'/>",
                         "<geom name='b' type='capsule' size='.04 .2'/>",
                         [&](double s, mjtNum* q) {
                           q[0] = 0.1 + 0.4 * (s - 0.5);
                           q[2] = 0.12 - 0.4 * (s - 0.5) * std::tan(0.5);
                           turned(M_PI / 2 + 0.5, q + 3);
                         }},
                        {"cylinder tips over", "<geom name='a' type='plane' size='1 1 1'/>",
                         "<geom name='b' type='cylinder' size='.1 .15'/>", [&](double s, mjtNum* q) {
                           q[2] = 0.15 - 0.05 * s;
                           turned(M_PI / 2 * s, q + 3);
                         }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ModelPtr m =
        LoadModelFromString(ShapesScene("a", "b", Config("stiffness", "1e3") + Config("exponent", "1"),
                                        std::string(c.first) + "<body><freejoint/>" + c.second + "</body>"));
    const DataPtr d = MakeData(m.get());
    const auto largest = [&](int n, double* force) {
      double jump = 0;
      VectorXd last;
      for (int i = 0; i <= n; i++) {
        c.place(static_cast<double>(i) / n, d->qpos);
        mj_forward(m.get(), d.get());
        const VectorXd now = Eigen::Map<const VectorXd>(d->qfrc_passive, 6);
        if (i) jump = std::max(jump, (now - last).lpNorm<Eigen::Infinity>());
        *force = std::max(*force, now.lpNorm<Eigen::Infinity>());
        last = now;
      }
      return jump;
    };
    double force = 0;
    const double coarse = largest(2000, &force), fine = largest(20000, &force);
    EXPECT_GT(force, 1);
    EXPECT_LT(fine, 0.2 * coarse);
  }
}

TEST_F(SmoothContactShapes, OthersAreRefusedByName) {
  const char *cylinder = "<body><freejoint/><geom name='a' type='cylinder' size='.1 .1'/></body>",
             *ball = "<body><freejoint/><geom name='b' size='.1'/></body>";
  const std::string error = LoadErrorOf(ShapesScene("a", "b", "", std::string(cylinder) + ball));
  EXPECT_NE(error.find("geoms 'a' and 'b' have no closed form: a plane with spheres"), std::string::npos) << error;
}

}  // namespace
}  // namespace costate
