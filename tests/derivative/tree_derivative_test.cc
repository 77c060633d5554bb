#include "derivative/tree_derivative.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include <costate/model.h>

namespace costate {
namespace {

// free, ball, hinge and slide joints, several joints on one body, branches, two trees, a tilted gravity
constexpr char kJoints[] = R"(
<mujoco>
  <option gravity="1 -2 -9"/>
  <worldbody>
    <body pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".1 .2 .3" pos=".1 .05 0"/>
      <body pos=".2 0 0" quat=".9 .1 .2 .3">
        <joint type="slide" axis="1 2 3"/>
        <joint type="ball" pos=".1 0 .1"/>
        <geom type="capsule" size=".05 .2" pos="0 .1 .1"/>
        <body pos="0 .3 0">
          <joint type="hinge" axis="0 1 .3"/>
          <joint type="hinge" axis="1 0 .2" pos=".05 0 0"/>
          <geom type="ellipsoid" size=".05 .1 .2" pos=".1 0 0"/>
        </body>
      </body>
      <body pos="-.2 0 0">
        <joint type="ball"/>
        <joint type="slide" axis="0 1 1"/>
        <geom type="box" size=".1 .05 .2" pos=".1 0 0"/>
      </body>
    </body>
    <body pos="1 0 0">
      <geom size=".1"/>
      <body pos="0 0 .2">
        <joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" size=".05 .2" pos=".1 0 .1"/>
        <body pos="0 0 .3">
          <joint type="hinge" axis="1 0 0"/>
          <geom type="box" size=".1 .05 .02" pos=".1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>)";

class TreeDerivativeTest : public ::testing::Test {
 protected:
  TreeDerivativeTest() : model(LoadModelFromString(kJoints)), data(MakeData(model.get())) {
    m = model.get();
    d = data.get();
    nv = static_cast<int>(m->nv);
  }

  void RandomState(int seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<double> normal;
    VectorXd dq(nv);
    for (int i = 0; i < nv; i++) dq(i) = normal(rng);
    mj_resetData(m, d);
    mj_integratePos(m, d->qpos, dq.data(), 1);
    for (int i = 0; i < nv; i++) d->qvel[i] = 2 * normal(rng);
    a = VectorXd::NullaryExpr(nv, [&] { return 10 * normal(rng); });
    e = VectorXd::NullaryExpr(nv, [&] { return normal(rng); });
    load = VectorXd::NullaryExpr(6 * m->nbody, [&] { return 5 * normal(rng); });
    load.head<6>().setZero();
    qpos = Eigen::Map<VectorXd>(d->qpos, m->nq);
    qvel = Eigen::Map<VectorXd>(d->qvel, nv);
  }

  void Position(const VectorXd& dq, const VectorXd& dv) {
    mju_copy(d->qpos, qpos.data(), static_cast<int>(m->nq));
    mj_integratePos(m, d->qpos, dq.data(), 1);
    for (int i = 0; i < nv; i++) d->qvel[i] = qvel(i) + dv(i);
    mj_fwdPosition(m, d);
    mj_fwdVelocity(m, d);
  }

  // r = RNE(q, v, a) − Jᵀ load, without armature
  VectorXd Residual(const VectorXd& dq, const VectorXd& dv, bool with_load) {
    Position(dq, dv);
    for (int i = 0; i < nv; i++) d->qacc[i] = a(i);
    VectorXd r(nv);
    mj_rne(m, d, 1, r.data());
    if (with_load) {
      for (int b = 1; b < m->nbody; b++) {
        VectorXd f = VectorXd::Zero(nv);
        mj_applyFT(m, d, load.data() + 6 * b + 3, load.data() + 6 * b, d->xipos + 3 * b, b, f.data());
        r -= f;
      }
    }
    return r;
  }

  VectorXd InertiaTimesE(const VectorXd& dq) {
    Position(dq, VectorXd::Zero(nv));
    VectorXd r(nv);
    mj_mulM(m, d, r.data(), e.data());
    return r;
  }

  // sixth-order centred difference of f along unit vector j
  template <typename F>
  VectorXd Difference(F f, int j, double h) {
    auto at = [&](double x) {
      VectorXd v = VectorXd::Zero(nv);
      v(j) = x;
      return f(v);
    };
    return (1.5 * (at(h) - at(-h)) - 0.3 * (at(2 * h) - at(-2 * h)) + (at(3 * h) - at(-3 * h)) / 30) / (2 * h);
  }

  ModelPtr model;
  DataPtr data;
  mjModel* m;
  mjData* d;
  int nv;
  VectorXd a, e, load, qpos, qvel;
};

TEST_F(TreeDerivativeTest, EqualsDifferencesOfInverseDynamics) {
  TreeDerivative tree(m);
  for (int seed = 0; seed < 4; seed++) {
    const bool with_load = seed % 2;
    RandomState(seed);
    Position(VectorXd::Zero(nv), VectorXd::Zero(nv));
    BlockedMatrix R, E;
    R.Resize(nv, 2 * nv);
    E.Resize(nv, nv);
    R.SetZero();
    E.SetZero();
    TreeInput input;
    input.a = a.data();
    input.e = e.data();
    if (with_load) input.load = load.data();
    tree.Forward(m, d, input);
    tree.Finish(m, d, input, nullptr, &R, &E, nullptr);

    MatrixXd value(nv, 3 * nv), reference(nv, 3 * nv);
    const VectorXd zero = VectorXd::Zero(nv);
    for (int j = 0; j < nv; j++) {
      reference.col(j) = Difference([&](const VectorXd& x) { return Residual(x, zero, with_load); }, j, 3e-3);
      reference.col(nv + j) = Difference([&](const VectorXd& x) { return Residual(zero, x, with_load); }, j, 1e-1);
      reference.col(2 * nv + j) = Difference([&](const VectorXd& x) { return InertiaTimesE(x); }, j, 3e-3);
      for (int i = 0; i < nv; i++) {
        value(i, j) = -R(i, j);
        value(i, nv + j) = -R(i, nv + j);
        value(i, 2 * nv + j) = E(i, j);
      }
    }
    for (int block = 0; block < 3; block++) {
      const auto V = value.middleCols(block * nv, nv), W = reference.middleCols(block * nv, nv);
      int i, j;
      const double worst = (V - W).cwiseAbs().maxCoeff(&i, &j);
      EXPECT_LE(worst, 1e-9 * W.cwiseAbs().maxCoeff()) << "seed " << seed << " block " << block << " row " << i
                                                       << " col " << j << ": " << V(i, j) << " against " << W(i, j);
    }
  }
}

}  // namespace
}  // namespace costate
