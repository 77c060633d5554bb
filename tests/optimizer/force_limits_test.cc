// Controls whose forces are at their limits. optimizer/README.md, "Forces at their limits".
#include "optimizer/force_cost.h"

#include <costate/solve.h>
#include <costate/solve_task.h>
#include <costate/state.h>
#include <costate/task.h>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using support::MatricesNear;
using ForceLimitsOf = support::EngineTest;

constexpr double kMass = 2, kStiffness = 300, kDamping = 12, kForce = 30, kStep = 0.01;

constexpr char kSlider[] = R"(<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body>
    <joint name="x" type="slide" axis="1 0 0"/>
    <geom size=".1" mass="2" contype="0" conaffinity="0"/>
  </body></worldbody>
  <actuator><position joint="x" kp="300" kv="12" forcerange="-30 30"/></actuator>
</mujoco>)";

struct Slider {
  ModelPtr model = LoadModelFromString(kSlider);
  DataPtr data = MakeData(model.get());
  Problem problem;
  Trajectory motion;
  std::vector<StepDerivative> derivatives;

  // one interval from rest under u
  explicit Slider(double u) {
    problem.model = model.get();
    problem.context = GetContext(model.get(), data.get());
    problem.N = 1;
    Simulator simulator(model.get(), problem.context, 1, 1);
    EXPECT_TRUE(simulator.Rollout(VectorXd::Zero(2), MatrixXd::Constant(1, 1, u), &motion).ok());
    simulator.Linearize(motion, {}, &derivatives);
  }

  LqKnot Knot(double slope) const {
    LqKnot knot;
    knot.A = derivatives[0].A;
    knot.B = derivatives[0].B;
    knot.lu = VectorXd::Constant(1, slope);
    knot.luu = MatrixXd::Constant(1, 1, 0);
    return knot;
  }
};

// an actuator that the model switches off by its group drives nothing
TEST_F(ForceLimitsOf, ADisabledActuatorThereAreNone) {
  Slider slider(0);
  EXPECT_EQ(ForceLimits(slider.problem, 1).drives().size(), 1);
  slider.model->actuator_group[0] = 3;
  slider.model->opt.disableactuator = 1 << 3;
  EXPECT_EQ(ForceLimits(slider.problem, 1).drives().size(), 0);
}

// v' = v + h f/m, q' = q + h v', f = clamp(k (u - q) - d v): at the limit v' = v + const, and within it ∂f/∂u = k. A
// control u = (limit + d v)/k + q holds the force: S = (1, d/k), so that A + B S is the A of a constant force.
TEST_F(ForceLimitsOf, AControlAtItsLimitHasTheSlopeFromWithin) {
  Slider slider(kForce / kStiffness * (1 + 1e-4));
  ASSERT_EQ(slider.derivatives[0].B.norm(), 0);
  const MatrixXd A = slider.derivatives[0].A;

  ForceLimits limits(slider.problem, 1);
  ASSERT_EQ(limits.drives().size(), 1);
  EXPECT_TRUE(limits.AreReached(slider.motion));
  limits.Find(slider.motion, {.sensors = false});
  limits.Reach(0, &slider.derivatives[0]);
  const double b = kStep * kStiffness / kMass;
  EXPECT_TRUE(MatricesNear(slider.derivatives[0].B, Eigen::Vector2d(kStep * b, b), 1e-12));
  const Eigen::RowVector2d S(1, kDamping / kStiffness);
  EXPECT_TRUE(MatricesNear(slider.derivatives[0].A + slider.derivatives[0].B * S, A, 1e-12));

  // it may turn back, but not go on: more control is no more force
  LqKnot knot = slider.Knot(1);
  limits.Bound(0, &knot);
  EXPECT_EQ(knot.du_upper[0], 0);
  EXPECT_LT(knot.du_lower[0], -1e300);
  EXPECT_TRUE(MatricesNear(knot.upper_slope, S, 1e-15));

  // unless the cost itself asks for more
  knot = slider.Knot(-1);
  limits.Bound(0, &knot);
  EXPECT_GT(knot.du_upper[0], 1e300);
}

// far beyond its limit a control is drawn back no further than to it
// of differences, not the closed form that there would be
TEST_F(ForceLimitsOf, SlopesFromWithinAreOfTheLevelThatIsAskedFor) {
  const auto by = [](Level level) {
    Slider slider(kForce / kStiffness * (1 + 1e-4));
    ForceLimits limits(slider.problem, 1);
    limits.Find(slider.motion, {.level = level, .sensors = false});
    limits.Reach(0, &slider.derivatives[0]);
    return slider.derivatives[0].B;
  };
  const MatrixXd closed = by(Level::kBest), differences = by(Level::kStep);
  EXPECT_TRUE(MatricesNear(differences, closed, 1e-6));
  EXPECT_NE(differences, closed);
}

TEST_F(ForceLimitsOf, AControlBeyondItsLimitIsDrawnBackToIt) {
  for (const double sign : {1.0, -1.0}) {
    const Slider slider(sign * 0.15);
    ForceLimits limits(slider.problem, 1);
    limits.Find(slider.motion, {.sensors = false});
    LqKnot knot = slider.Knot(sign);
    limits.Bound(0, &knot);
    const double band = 1e-3 * 2 * kForce / kStiffness;  // the middle of the controls that count as at the limit
    const double bound = sign > 0 ? knot.du_lower[0] : knot.du_upper[0];
    EXPECT_NEAR(bound, sign * (kForce / kStiffness + 0.5 * band - 0.15), 1e-12);
  }
}

TEST_F(ForceLimitsOf, NoControlIsAtItsLimitWithinIt) {
  const Slider slider(kForce / kStiffness * 0.999);
  EXPECT_FALSE(ForceLimits(slider.problem, 1).AreReached(slider.motion));
}

constexpr char kArm[] = R"(<mujoco>
  <option timestep="0.01"/>
  <default><geom type="capsule" size=".03" mass="1" contype="0" conaffinity="0"/><joint axis="0 1 0" damping=".1"/></default>
  <worldbody><body>
    <joint name="a"/><geom fromto="0 0 0 .4 0 0"/>
    <body pos=".4 0 0"><joint name="b"/><geom fromto="0 0 0 .4 0 0"/><site name="tip" pos=".4 0 0"/></body>
  </body></worldbody>
  <actuator>
    <position joint="a" kp="50" ctrlrange="-3 3" forcerange="-9 9"/>
    <position joint="b" kp="30" ctrlrange="-3 3" forcerange="-4 4"/>
  </actuator>
</mujoco>)";

// two servos too weak to lift fast: most forces of the best motion are at a limit, where a control has no slope to one
// side. A solve that knows of that side comes to a small part of what it stalls at without.
TEST_F(ForceLimitsOf, ASolveGoesOnWhereForcesAreAtTheirLimits) {
  const support::TemporaryFolder folder;
  const std::string path = folder.Write("arm.xml", kArm);
  Task task = MakeReachTask(path, {.goals = {"site:tip=0.3,_,0.5"}, .time = 0.55});
  task.solver.threads = 1;
  const Problem problem = task.ToProblem();
  Guess guess = task.ToGuess();
  guess.U = guess.U.col(0).replicate(1, task.N).eval();  // what holds the start: no way to the goal is known
  const SolveResult held = Solve(problem, guess, task.solver);
  task.solver.leave_saddles = false;
  const SolveResult stalled = Solve(problem, guess, task.solver);
  EXPECT_EQ(stalled.status, SolveStatus::kStalled);
  EXPECT_LT(held.cost, 0.2 * stalled.cost);
}

constexpr char kUnlike[] = R"(<mujoco>
  <worldbody>
    <body><joint name="a" axis="0 1 0"/><geom size=".1"/></body>
    <body pos="1 0 0"><joint name="b" type="slide" axis="0 0 1" actuatorfrcrange="-6 14"/><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <general joint="a" gear="2" gainprm="5" biastype="affine" biasprm="1 -7 -.4" forcerange="-3 8"/>
    <motor joint="b" gear="-3"/>
  </actuator>
  <sensor><jointpos joint="a"/></sensor>
</mujoco>)";

// ½ (s − 1)² of a sensor
class SensorCost final : public Cost {
 public:
  double Value(const KnotView& knot) const override { return 0.5 * (knot.s[0] - 1) * (knot.s[0] - 1); }
  void Gradient(const KnotView& knot, KnotGradient* out) const override { out->s[0] += knot.s[0] - 1; }
  void Expand(const KnotView& knot, ConstMatrixRef C, ConstMatrixRef, CostExpansion* out) const override {
    out->l = Value(knot);
    out->lx = (knot.s[0] - 1) * C.row(0).transpose();
    out->lxx = C.row(0).transpose() * C.row(0);
    out->lu.setZero(2);
    out->lux.setZero(2, 4);
    out->luu.setZero(2, 2);
  }
  bool NeedsSensors() const override { return true; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }
};

// (I6) against its formula and, beside a cost that reads a sensor, against centred differences: beyond limits that are
// not alike, on both sides and within
TEST_F(ForceLimitsOf, CostsOfForcesAreTheirFormulaAndHaveItsDerivatives) {
  const ModelPtr model = LoadModelFromString(kUnlike);
  Problem problem;
  problem.model = model.get();
  problem.N = 2;
  const ForceLimits forces(problem, 1);
  ASSERT_EQ(forces.drives().size(), 2);
  const SensorCost sensor;
  constexpr double kWeight = 0.7, kPart = 0.9, kDt = 0.02, kEps = 1e-4;
  const ForceCost cost(sensor, forces, kWeight, kPart);
  const auto at = [&](const VectorXd& z, auto&& look) {
    const VectorXd x = z.head(4), u = z.tail(2), s = z.head(1);
    return look(KnotView{.t = 1, .N = 2, .time = 0, .dt = kDt, .x = x, .u = u, .s = s});
  };
  MatrixXd C = MatrixXd::Zero(1, 4);
  C(0, 0) = 1;

  for (const double level : {-1.0, 0.1, 1.0}) {
    VectorXd z(6);
    z << 0.3, -0.2, 0.5, -0.4, 0, 0;
    const double force_a = 2.5 + 7 * level, force_b = 4 + 15 * level;  // of the actuator, of the joint
    z[4] = (force_a - 1 + 14 * z[0] + 0.8 * z[2]) / 5;
    z[5] = -force_b / 3;
    const double beyond_a = std::max(0.0, 7 * std::abs(level) / 5.5 - kPart);
    const double beyond_b = std::max(0.0, 15 * std::abs(level) / 10 - kPart);
    const auto value = [&](const VectorXd& z) { return at(z, [&](const KnotView& k) { return cost.Value(k); }); };
    EXPECT_NEAR(value(z), 0.5 * 0.7 * 0.7 + 0.5 * kWeight * kDt * (beyond_a * beyond_a + beyond_b * beyond_b), 1e-14);

    const CostExpansion e = at(z, [&](const KnotView& knot) {
      CostExpansion out;
      cost.Expand(knot, C, MatrixXd::Zero(1, 2), &out);
      return out;
    });
    const KnotGradient g = at(z, [&](const KnotView& knot) {
      KnotGradient out{VectorXd::Zero(4), VectorXd::Zero(2), VectorXd::Zero(1)};
      cost.Gradient(knot, &out);
      return out;
    });
    EXPECT_DOUBLE_EQ(e.l, value(z));
    VectorXd slope(6), slope_of_gradient(6);
    slope << e.lx, e.lu;
    slope_of_gradient << g.x + C.transpose() * g.s, g.u;
    MatrixXd bend(6, 6);
    bend << e.lxx, e.lux.transpose(), e.lux, e.luu;
    VectorXd by_value(6);
    MatrixXd by_values(6, 6);
    for (int i = 0; i < 6; ++i) {
      const VectorXd di = kEps * VectorXd::Unit(6, i);
      by_value[i] = (value(z + di) - value(z - di)) / (2 * kEps);
      for (int j = 0; j < 6; ++j) {
        const VectorXd dj = kEps * VectorXd::Unit(6, j);
        by_values(i, j) =
            (value(z + di + dj) - value(z + di - dj) - value(z - di + dj) + value(z - di - dj)) / (4 * kEps * kEps);
      }
    }
    EXPECT_TRUE(MatricesNear(slope, by_value, 1e-10));
    EXPECT_TRUE(MatricesNear(slope_of_gradient, slope, 1e-14));
    EXPECT_TRUE(MatricesNear(bend, by_values, 1e-6));
  }
}

// the same arm with damped servos under implicitfast, whose step jumps where a force reaches its limit
Task HardReach(const support::TemporaryFolder& folder, double time, const std::string& place) {
  std::string arm = kArm;
  arm.replace(arm.find("<option"), 7, R"(<option integrator="implicitfast")");
  arm.replace(arm.find(R"(kp="50")"), 7, R"(kp="50" kv="5")");
  arm.replace(arm.find(R"(kp="30")"), 7, R"(kp="30" kv="3")");
  folder.Write("arm.xml", arm);
  Task task = LoadTask(folder.Write("reach.task.xml", "<task name=\"reach\" model=\"arm.xml\" horizon=\"" +
                                                          std::to_string(time) + R"(">
    <cost name="effort" ctrl="all" target="guess" weight="0.02"/>
    <cost name="smooth" qvel="all" weight="0.01"/>
    <constraint name="there" site="tip" quantity="pos" equals=")" +
                                                          place + R"(" when="end"/>
    <constraint name="rest" qvel="all" equals="0" when="end"/>
  </task>)"));
  task.solver.threads = 1;
  return task;
}

// (I6) what is missed at the limits is kept within them, at little more than what it costs without any
TEST_F(ForceLimitsOf, ConstraintsThatAreMissedAtLimitsAreKeptWithinThem) {
  for (const char* place : {"0.3 0 0.5", "0.1 0 0.6"}) {
    const support::TemporaryFolder folder;
    Task task = HardReach(folder, 0.9, place);
    const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
    EXPECT_LE(result.violation, task.constrained.tolerance);
    EXPECT_GT(result.force_weight, 0);
    EXPECT_FALSE(ForceLimits(task.ToProblem(), 1).AreReached(result.trajectory));

    // from that weight on the way is shorter
    ConstrainedOptions again = task.constrained;
    again.force_weight = result.force_weight;
    again.multipliers = result.multipliers;
    const SolveResult next = Solve(task.ToProblem(), {{}, result.trajectory.U}, task.solver, {}, again);
    EXPECT_LE(next.violation, task.constrained.tolerance);
    EXPECT_LT(next.iterations.size(), result.iterations.size() / 2);
    EXPECT_NEAR(next.cost, result.cost, 1e-3 * result.cost);

    task.constrained.force_weight = -1;
    EXPECT_GT(Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained).violation, 1e-3);

    const ModelPtr without = ForceLimits(task.ToProblem(), 1).Without();
    Problem problem = task.ToProblem();
    problem.model = without.get();
    const SolveResult bound = Solve(problem, task.ToGuess(), task.solver, {}, task.constrained);
    EXPECT_GE(result.cost, bound.cost);
    EXPECT_LT(result.cost, 1.15 * bound.cost);
  }
}

TEST_F(ForceLimitsOf, AMotionBeyondAllForcesSaysWhichItWouldTake) {
  const support::TemporaryFolder folder;
  const Task task = HardReach(folder, 0.5, "-0.3 0 0.4");
  const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  EXPECT_EQ(result.status, SolveStatus::kInfeasible);
  EXPECT_NE(result.message.find("takes a force of"), std::string::npos) << result.message;
}

// the same servos, stiff: the first steps take their forces far beyond the limits, where controls have no slope, and
// rounds of kicks stay there; the controls of a solve without limits lead on, and it is enough
TEST_F(ForceLimitsOf, AStallAtLimitsIsLeftByWayOfASolveWithoutThem) {
  const support::TemporaryFolder folder;
  std::string arm = kArm;
  const auto set = [&arm](const std::string& from, const std::string& to) {
    arm.replace(arm.find(from), from.size(), to);
  };
  set("<option", R"(<option integrator="implicitfast")");
  set(R"(kp="50")", R"(kp="500" kv="20")");
  set(R"(kp="30")", R"(kp="300" kv="10")");
  set("-9 9", "-14 14");
  set("-4 4", "-6 6");
  folder.Write("arm.xml", arm);
  Task task = LoadTask(folder.Write("reach.xml", R"(<task model="arm.xml" horizon="1">
    <cost name="there" site="tip" quantity="pos" target="-0.3 0 0.4" terminal="1000"/>
    <cost name="rest" qvel="all" weight=".01" terminal="1"/>
    <cost name="effort" ctrl="all" target="guess" weight=".01"/></task>)"));
  task.solver.threads = 1;
  const TaskSolution with = SolveTask(task);
  task.hopping.forces = false;
  EXPECT_GT(SolveTask(task).result.cost, 1);
  EXPECT_LT(with.result.cost, 0.05);
  ASSERT_EQ(with.rounds.size(), 1u);
  EXPECT_EQ(with.rounds[0].origin, RoundOrigin::kUnlimited);

  // the model without limits says nothing of what this one costs
  int unlimited = 0;
  for (const IterationRecord& record : with.result.iterations) {
    EXPECT_GE(record.cost, (1 - 1e-9) * with.result.cost);
    unlimited += record.beside && record.beside == std::string("without limits of force");
  }
  EXPECT_GT(unlimited, 0);
}

// a motion that has reached none is the same without
TEST_F(ForceLimitsOf, AMotionWithinAllLimitsIsTheSameWithoutThem) {
  for (const double part : {0.999, 1.5}) {
    const Slider slider(part * kForce / kStiffness);
    const ModelPtr without = WithoutForceLimits(slider.model.get());
    ASSERT_TRUE(without);
    EXPECT_EQ(IsSameMotion(slider.problem, without.get(), slider.motion), part < 1);
    EXPECT_FALSE(WithoutForceLimits(without.get()));
  }
}

}  // namespace
}  // namespace costate
