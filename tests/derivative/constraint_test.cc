#include "derivative/constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <costate/derivative.h>
#include <costate/model.h>
#include "derivative/equilibrium.h"
#include "derivative/residual_difference.h"

namespace costate {
namespace {

// Scenes without actuators, springs and dampers: ∂r is RNE and constraints only, and H = M + Jᵀ s'' J.

constexpr char kDrops[] = R"(
<mujoco><option cone="%CONE%" impratio="3"/><worldbody>
  <geom type="plane" size="5 5 .1" euler="3 4 0" condim="%DIM%" friction="1 .1 .05"/>
  <body pos="0 0 .11"><freejoint/><geom size=".1" condim="%DIM%"/></body>
  <body pos="1 0 .11" euler="0 90 0"><freejoint/><geom type="capsule" size=".1 .2"/></body>
  <body pos="2 0 .11" euler="20 10 0"><freejoint/><geom type="box" size=".1 .2 .1"/>
    <body pos="0 .3 0"><joint type="hinge" axis="1 0 0"/><geom type="box" size=".05 .1 .1"/></body></body>
  <body pos="3 0 .11"><joint type="ball" pos="0 0 .3"/><joint type="slide" axis="0 0 1"/><geom size=".12"/></body>
  <body pos="4 0 .11" euler="80 10 0"><freejoint/><geom type="cylinder" size=".1 .2"/></body>
  <body pos="5 0 .11"><freejoint/><geom type="ellipsoid" size=".1 .15 .11"/></body>
</worldbody></mujoco>)";

constexpr char kPiles[] = R"(
<mujoco><option cone="%CONE%"/><worldbody>
  <geom type="plane" size="5 5 .1" condim="%DIM%"/>
  <body pos="0 0 .1"><freejoint/><geom size=".1" condim="%DIM%"/></body>
  <body pos=".02 .01 .29"><freejoint/><geom size=".1"/></body>
  <body pos="1 0 .1"><freejoint/><geom type="box" size=".2 .2 .1"/></body>
  <body pos="1.02 .03 .29" euler="0 0 30"><freejoint/><geom type="box" size=".1 .15 .1"/></body>
  <body pos="2 0 .1" euler="0 90 0"><freejoint/><geom type="capsule" size=".1 .3"/></body>
  <body pos="2 .02 .29" euler="90 0 0"><freejoint/><geom type="capsule" size=".1 .3"/></body>
  <body pos="3 0 .1"><geom type="box" size=".2 .2 .1"/></body>
  <body pos="3 .02 .29"><freejoint/><geom size=".1"/></body>
</worldbody></mujoco>)";

// contacts between branches of one tree, with common ancestors that move both
constexpr char kBranches[] = R"(
<mujoco><option cone="%CONE%"/><worldbody>
  <geom type="plane" size="5 5 .1" condim="%DIM%"/>
  <body pos="0 0 .3"><freejoint/><geom size=".05"/>
    <body pos=".1 0 0"><joint axis="0 1 0"/><geom type="capsule" size=".04" fromto="0 0 0 .2 0 -.1" condim="%DIM%"/>
      <body pos=".2 0 -.1"><joint type="ball"/><geom size=".11"/></body></body>
    <body pos="0 .1 0"><joint axis="1 0 0"/><joint axis="0 0 1"/><geom type="capsule" size=".04" fromto="0 0 0 0 .2 -.1"/>
      <body pos="0 .2 -.1"><joint axis="1 0 1"/><geom size=".11" pos=".1 0 0"/></body></body>
  </body>
  <body pos=".15 .1 .6"><freejoint/><geom type="box" size=".1 .1 .05"/></body>
</worldbody></mujoco>)";

// limits, friction loss, equalities and a fixed tendon across branches
constexpr char kRows[] = R"(
<mujoco><default><joint damping="0"/></default><worldbody>
  <body pos="0 0 1"><joint name="a" axis="0 1 0" range="-20 20" limited="true" frictionloss=".1"/><geom type="capsule" size=".05 .2"/>
    <body pos=".2 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size=".05 .2"/></body>
    <body pos="-.2 0 0"><joint name="c" axis="1 0 0" frictionloss="20"/><geom type="capsule" size=".05 .2"/></body>
    <body pos="0 .2 0"><joint name="e" type="slide" axis="1 0 0" range="-.01 .01" limited="true"/><geom size=".05"/></body>
  </body>
</worldbody>
<tendon><fixed name="t" limited="true" range="-.1 .1" frictionloss=".05"><joint joint="b" coef="1"/><joint joint="c" coef="-.5"/></fixed>
        <fixed name="s"><joint joint="a" coef="1"/><joint joint="b" coef=".3"/></fixed></tendon>
<equality><joint joint1="b" joint2="a" polycoef="0 .5 .7 -.2 .1"/><tendon tendon1="s" polycoef="0.05 0 0 0 0"/></equality>
</mujoco>)";

std::string Fill(std::string xml, const std::string& cone, const std::string& dim) {
  for (const auto& [key, value] : {std::pair{std::string("%CONE%"), cone}, {std::string("%DIM%"), dim}}) {
    for (std::size_t at; (at = xml.find(key)) != std::string::npos;) xml.replace(at, key.size(), value);
  }
  return xml;
}

// compares −∂r by q and v and H with the residual's differences and the engine's own J and D
void ExpectAgrees(const std::string& xml, int steps, int min_rows) {
  ModelPtr model = LoadModelFromString(xml);
  mjModel* m = model.get();
  m->opt.tolerance = 0;
  DataPtr data = MakeData(m);
  mjData* d = data.get();
  std::mt19937 rng(7);
  std::normal_distribution<double> normal;
  for (int s = 0; s < steps; s++) mj_step(m, d);
  for (int i = 0; i < m->nv; i++) d->qvel[i] += 0.05 * normal(rng);

  Equilibrium point;
  StepStatus status;
  std::string reason;
  ASSERT_TRUE(point.Solve(m, d, &status, &reason)) << reason;
  ASSERT_GE(d->nefc, min_rows);
  ResidualDifference difference(m);
  DirectDerivative direct;
  ASSERT_TRUE(difference.Compute(m, d, point.a(), {}, &direct, &reason)) << reason;

  const int nv = static_cast<int>(m->nv);
  TreeDerivative tree(m);
  ConstraintDerivative constraint(m);
  TreeSolver H(m->dof_parentid, nv);
  BlockedMatrix R;
  R.Resize(nv, 2 * nv);
  R.SetZero();
  TreeInput input;
  input.a = d->qacc;
  tree.Forward(m, d, input);
  ASSERT_TRUE(constraint.Linearize(m, d, tree, &reason)) << reason;
  constraint.DeclareCouplings(m, d, &H);
  H.SetZero();
  for (int i = 0; i < nv; i++) {
    for (int k = m->M_rowadr[i]; k < m->M_rowadr[i] + m->M_rownnz[i]; k++) H.Add(i, m->M_colind[k], d->M[k]);
  }
  tree.Finish(m, d, input, constraint.bodies(), &R, nullptr, &H);
  Columns columns(&R);
  constraint.AddPairsAndRows(m, d, tree, &columns, &H);

  MatrixXd value(nv, 2 * nv), dense = MatrixXd::Zero(nv, nv);
  for (int i = 0; i < nv; i++) {
    for (int j = 0; j < 2 * nv; j++) value(i, j) = -R(i, j);
    dense(i, i) = H.diagonal(i);
    for (int n = 0; n < H.row_size(i); n++) dense(i, H.row_columns(i)[n]) = dense(H.row_columns(i)[n], i) = H.row(i)[n];
  }
  const MatrixXd reference = direct.residual.leftCols(2 * nv);
  for (int block = 0; block < 2; block++) {
    const MatrixXd V = value.middleCols(block * nv, nv), W = reference.middleCols(block * nv, nv);
    int i, j;
    const double worst = (V - W).cwiseAbs().maxCoeff(&i, &j);
    EXPECT_LE(worst, 2e-7 * W.cwiseAbs().maxCoeff()) << (block ? "velocity" : "position") << " block: dof " << i
                                                     << " by " << j << ": " << V(i, j) << " against " << W(i, j);
  }
  const MatrixXd& expected = point.HessianMatrix();
  EXPECT_LE((dense - expected).cwiseAbs().maxCoeff(), 1e-10 * expected.cwiseAbs().maxCoeff());
}

TEST(Constraint, AgreesWithDifferencesAgainstTheStaticWorld) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* dim : {"1", "3", "4", "6"}) {
      SCOPED_TRACE(std::string(cone) + " condim " + dim);
      ExpectAgrees(Fill(kDrops, cone, dim), 60, 4);
    }
  }
}

TEST(Constraint, AgreesWithDifferencesBetweenMovingBodies) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* dim : {"3", "6"}) {
      SCOPED_TRACE(std::string(cone) + " condim " + dim);
      ExpectAgrees(Fill(kPiles, cone, dim), 20, 12);
    }
  }
}

TEST(Constraint, AgreesWithDifferencesBetweenBranchesOfOneTree) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    SCOPED_TRACE(cone);
    ExpectAgrees(Fill(kBranches, cone, "3"), 150, 6);
  }
}

TEST(Constraint, AgreesWithDifferencesOnLimitsFrictionAndEqualities) { ExpectAgrees(kRows, 100, 5); }

// Surfaces that move: straight and turning, on the world, on moving bodies, and on both sides of a contact.
constexpr char kBelts[] = R"(
<mujoco><option cone="%CONE%"/><worldbody>
  <geom type="plane" size="5 5 .1" condim="%DIM%" surfacevel=".3 .1 0 0 0 .4" euler="2 3 0"/>
  <body pos="0 0 .11" euler="20 10 0"><freejoint/><geom type="box" size=".1 .2 .1"/></body>
  <body pos="1 .1 .11"><freejoint/><geom size=".1" condim="%DIM%" surfacevel="0 0 0 .2 .5 1"/></body>
  <body pos="2 0 .1"><freejoint/><geom type="box" size=".2 .2 .1" surfacevel=".2 .3 0 0 0 2"/></body>
  <body pos="2.05 .03 .29"><freejoint/><geom size=".1"/></body>
  <body pos="3 0 .1"><geom type="box" size=".2 .2 .1"/></body>
  <body pos="3.05 .03 .29"><freejoint/><geom size=".1" condim="%DIM%" surfacevel=".5 .1 0 1 2 3"/></body>
  <body pos="0 2 .3"><freejoint/><geom size=".05"/>
    <body pos=".1 0 0"><joint axis="0 1 0"/><geom type="capsule" size=".04" fromto="0 0 0 .2 0 -.1" surfacevel="0 0 .5 0 0 3"/>
      <body pos=".2 0 -.1"><joint type="ball"/><geom size=".11"/></body></body>
    <body pos="0 .1 0"><joint axis="1 0 0"/><joint axis="0 0 1"/><geom type="capsule" size=".04" fromto="0 0 0 0 .2 -.1"/>
      <body pos="0 .2 -.1"><joint axis="1 0 1"/><geom size=".11" pos=".1 0 0" surfacevel=".1 .2 .3 0 0 1"/></body></body>
  </body>
</worldbody></mujoco>)";

TEST(Constraint, AgreesWithDifferencesOnMovingSurfaces) {
  for (const char* cone : {"pyramidal", "elliptic"}) {
    for (const char* dim : {"1", "3", "4", "6"}) {
      SCOPED_TRACE(std::string(cone) + " condim " + dim);
      ExpectAgrees(Fill(kBelts, cone, dim), 150, 12);
    }
  }
}

// A capsule upright on a plane gives its contacts a tangent without direction: its derivative is held, never NaN.
// Tilting about a world axis maps the pyramid to itself, so the differences agree.
TEST(Constraint, IsFiniteWhereTheTangentHasNoDirection) {
  constexpr char kUpright[] = R"(
<mujoco><option cone="%CONE%"/><worldbody>
  <geom type="plane" size="5 5 .1" condim="%DIM%"/>
  <body pos="0 0 .295"><freejoint/><geom type="capsule" size=".1 .2"/></body>
</worldbody></mujoco>)";
  for (const char* cone : {"pyramidal", "elliptic"}) {
    SCOPED_TRACE(cone);
    ModelPtr model = LoadModelFromString(Fill(kUpright, cone, "3"));
    DataPtr data = MakeData(model.get());
    data->qvel[2] = -0.1;
    mj_forward(model.get(), data.get());
    ASSERT_EQ(data->ncon, 1);
    LinearizeOptions analytic{.level = Level::kAnalytic, .sensors = false}, residual = analytic;
    residual.level = Level::kResidual;
    const MatrixXd A = Linearize(model.get(), data.get(), analytic).A,
                   B = Linearize(model.get(), data.get(), residual).A;
    ASSERT_TRUE(A.allFinite());
    EXPECT_LE((A - B).cwiseAbs().maxCoeff(), 1e-7 * B.cwiseAbs().maxCoeff());
  }
}

// Where no closed form holds the term is named: libccd's contact of a curved surface, and a diagonal that moves.
TEST(Constraint, NamesWhatItDoesNotCover) {
  const struct {
    const char *geom, *flag, *text;
  } cases[] = {{"<geom type='ellipsoid' size='.1 .15 .2'/>", "nativeccd='disable'", "libccd"},
               {"<geom type='sphere' size='.1'/>", "diagexact='enable'", "diagexact"}};
  for (const auto& c : cases) {
    const std::string xml = std::string("<mujoco><option><flag ") + c.flag +
                            "/></option><worldbody><geom type='box' size='1 1 .1'/><body pos='0 0 .25'><freejoint/>" +
                            c.geom + "</body></worldbody></mujoco>";
    ModelPtr model = LoadModelFromString(xml);
    DataPtr data = MakeData(model.get());
    for (int s = 0; s < 400 && data->nefc == 0; s++) mj_step(model.get(), data.get());
    ASSERT_GT(data->nefc, 0);
    LinearizeOptions options;
    options.level = Level::kAnalytic;
    options.sensors = false;
    EXPECT_EQ(Linearize(model.get(), data.get(), {.sensors = false}).coverage.Worst(), Level::kResidual);
    try {
      Linearize(model.get(), data.get(), options);
      ADD_FAILURE() << c.text << ": not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(c.text), std::string::npos) << error.what();
    }
  }
}

// Where no row can be, the engine is not asked for rows: each kind alone in its model, to both sides of where it
// begins.
TEST(Constraint, FindsEachKindOfRowAlone) {
  const struct {
    const char *joint, *rest;
    std::vector<double> without, with;  // positions
  } cases[] = {
      {"type='slide' range='-1 2' margin='.1'", "", {-.89, 1.89}, {-.91, 1.91}},
      {"type='hinge' range='-57.29577951308232 57.29577951308232'", "", {-.99, .99}, {-1.01, 1.01}},
      {"type='ball' range='0 57.29577951308232'", "", {.99}, {1.01}},
      {"type='slide' frictionloss='.1'", "", {}, {0}},
      {"type='slide'", "<contact><pair geom1='ball' geom2='floor'/></contact>", {-.89}, {-.91}},
      {"type='slide'", "<equality><joint joint1='j'/></equality>", {}, {0}},
      {"type='slide'",
       "<tendon><fixed range='-1 2' margin='.1'><joint joint='j' coef='1'/></fixed></tendon>",
       {-.89, 1.89},
       {-.91, 1.91}},
      {"type='slide'", "<tendon><fixed frictionloss='.1'><joint joint='j' coef='1'/></fixed></tendon>", {}, {0}}};
  for (const auto& c : cases) {
    const ModelPtr model = LoadModelFromString(
        std::string("<mujoco><worldbody><geom name='floor' type='plane' size='1 1 .1' contype='0' conaffinity='0'/>"
                    "<body pos='0 0 1'><joint name='j' axis='0 0 1' ") +
        c.joint + "/><geom name='ball' size='.1' contype='0' conaffinity='0'/></body></worldbody>" + c.rest +
        "</mujoco>");
    const DataPtr data = MakeData(model.get());
    const auto rows = [&](double at) {
      data->qpos[0] = at;
      if (model->nq == 4) {
        data->qpos[0] = std::cos(at / 2);
        data->qpos[3] = std::sin(at / 2);
      }
      Equilibrium point;
      StepStatus status;
      std::string reason;
      EXPECT_TRUE(point.Start(model.get(), data.get(), false, &status, &reason)) << reason;
      const int found = data->nefc;
      mj_forward(model.get(), data.get());
      EXPECT_EQ(found, data->nefc) << c.joint << " " << c.rest << " at " << at;
      return found;
    };
    for (double at : c.without) EXPECT_EQ(rows(at), 0) << c.joint << " " << c.rest << " at " << at;
    for (double at : c.with) EXPECT_GT(rows(at), 0) << c.joint << " " << c.rest << " at " << at;
  }
}

}  // namespace
}  // namespace costate
