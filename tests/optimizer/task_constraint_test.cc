// <constraint>, <limit> and <periodic> as they are understood, their Jacobians, and motions that keep them.
#include <costate/solve_task.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include "optimizer/cost_terms.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::LoadZooTask;
using support::MatricesNear;
using support::TemporaryFolder;
using TaskConstraint = support::EngineTest;

constexpr char kCheap[] = "<cost name='effort' ctrl='all'/>";
constexpr double kUnboundedTest = std::numeric_limits<double>::infinity();

const ConstraintInfo& InfoOf(const Task& task, const std::string& name) {
  for (int i = 0; i < task.constraints.size(); ++i) {
    if (task.constraints[i].info().name == name) return task.constraints[i].info();
  }
  ADD_FAILURE() << "no constraint " << name;
  static const ConstraintInfo none;
  return none;
}

// a joint without a name, as messages call it
TEST_F(TaskConstraint, BoundsWhatHasNoName) {
  TemporaryFolder folder;
  folder.Write("arm.xml",
               "<mujoco><worldbody><body><joint range='-1 1' limited='true'/><geom size='.1'/><body><joint name='j'/>"
               "<geom size='.1'/></body></body></worldbody><actuator><motor joint='j'/></actuator></mujoco>");
  const Task task =
      LoadTask(folder.Write("task.xml",
                            "<task model='arm.xml' horizon='.1'><limit joint='joint 0' lower='-.5' upper='.5'/>"
                            "<cost ctrl='all'/></task>"));
  EXPECT_EQ(InfoOf(task, "joint ranges").components, std::vector<std::string>{"qpos[joint 0]"});
}

// what is bounded from below alone is measured a little beyond its bound; elsewhere, or where it is measured anyway, far
TEST_F(TaskConstraint, MeasuresDistancesAsFarAsTheyMatter) {
  const auto cutoffs = [](const std::string& elements) {
    const Task task = LoadZooTask(kCheap + elements);
    std::vector<double> found;
    for (int i = 0; i < task.model->nsensor; ++i) {
      if (task.model->sensor_type[i] == mjSENS_GEOMDIST) found.push_back(task.model->sensor_cutoff[i]);
    }
    return found;
  };
  const std::string apart = "geom='skull' quantity='distance' geom2='upper' ";
  using Cutoffs = std::vector<double>;
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='0.02'/>"), Cutoffs{0.02 + 0.1});
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='0.25' soft='1'/>"), Cutoffs{0.5});
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='-0.02'/>"), Cutoffs{0.1});
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='0.02' cutoff='3'/>"), Cutoffs{3});
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='0.02' upper='1'/>"), Cutoffs{10});
  EXPECT_EQ(cutoffs("<constraint " + apart + "lower='0.02' target='0.5'/>"), Cutoffs{10});
  EXPECT_EQ(cutoffs("<constraint " + apart + "upper='1'/>"), Cutoffs{10});
  EXPECT_EQ(cutoffs("<cost " + apart + "target='0.5'/><constraint " + apart + "lower='0.02'/>"), Cutoffs{10});
}

// a body's distance is that of its geoms whether they collide or not: of meshes that do not it costs much and means little
TEST_F(TaskConstraint, NamesTheGeomsOfADistanceThatCollideWithNothing) {
  TemporaryFolder folder;
  folder.Write("arm.xml", R"(<mujoco><worldbody>
    <body name="arm"><joint name="j" axis="0 1 0"/><geom name="hull" size=".1"/>
      <geom type="box" size=".1 .1 .1" contype="0" conaffinity="0"/><geom size=".05" contype="0" conaffinity="0"/>
      <geom name="paired" size=".01" contype="0" conaffinity="0"/></body>
    <body name="ghost" pos="0 2 0"><geom size=".1" contype="0" conaffinity="0"/></body>
    <body name="post" pos="1 0 0"><geom name="post" size=".1"/></body></worldbody>
    <contact><pair geom1="paired" geom2="post"/></contact><actuator><motor joint="j"/></actuator></mujoco>)");
  const auto warnings = [&](const std::string& constraint) {
    return LoadTask(
               folder.Write("t.xml", "<task model='arm.xml' horizon='0.1'><cost ctrl='all'/>" + constraint + "</task>"))
        .warnings;
  };
  const auto both = warnings(
      "<constraint body='arm' quantity='distance' body2='post' lower='0.1'/>"
      "<constraint body='ghost' quantity='distance' body2='arm' lower='0.1'/>");
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0],
            "the distance of body 'arm' looks at 4 geoms, of which 2 collide with nothing: geom=\"hull\" is that "
            "of one that does");
  EXPECT_TRUE(warnings("<constraint geom='hull' quantity='distance' geom2='post' lower='0.1'/>").empty());
  EXPECT_TRUE(warnings("<constraint body='ghost' quantity='distance' body2='post' lower='0.1'/>").empty());
}

TEST_F(TaskConstraint, StatesBoundsWindowsAndNames) {
  // 50 knots of 2 ms
  const Task task = LoadZooTask(std::string(kCheap) + R"(
    <limit joint='all' margin='0.01'/>
    <limit joint='shoulder neck' quantity='velocity' upper='3'/>
    <limit actuator='shoulder extend' quantity='power' lower='-5' upper='6'/>
    <limit tendon='cord' lower='-1' upper='1'/>
    <constraint name='high' site='tip' quantity='pos' index='2' lower='0.4' when='0.02 0.041'/>
    <constraint name='long' site='tip' quantity='pos' index='2' lower='0.1' when='0.02 1e9'/>
    <constraint name='push' ctrl='pull' lower='-1' upper='2'/>
    <constraint name='ball' body='head' quantity='quat' equals='body:base' when='end'/>
    <constraint name='apart' geom='skull' quantity='distance' geom2='upper' lower='0.1'/>
    <constraint name='sum' lower='0'><term qvel='shoulder' coef='2'/><term qvel='extend'/></constraint>
    <constraint name='way' qpos='shoulder' equals='0.3' when='0.05'/>
    <solver violation='1e-4'/>)");
  EXPECT_EQ(task.constrained.tolerance, 1e-4);
  EXPECT_EQ(task.ToProblem().constraints, &task.constraints);
  const ConstraintInfo& ranges = InfoOf(task, "joint ranges");
  EXPECT_EQ(ranges.components, (std::vector<std::string>{"qpos[shoulder]", "qpos[extend]"}));
  EXPECT_TRUE(MatricesNear(ranges.lower, Eigen::Vector2d(-M_PI_2 + 0.01, -0.09), 1e-12));
  EXPECT_TRUE(MatricesNear(ranges.upper, Eigen::Vector2d(M_PI_2 - 0.01, 0.19), 1e-12));
  EXPECT_EQ(ranges.first, 1);
  EXPECT_EQ(ranges.last, 50);
  EXPECT_EQ(InfoOf(task, "joint speeds").components.size(), 4u);
  EXPECT_EQ(InfoOf(task, "joint speeds").lower[0], -kUnboundedTest);
  EXPECT_EQ(InfoOf(task, "power").unit, "W");
  EXPECT_EQ(InfoOf(task, "power").first, 0);
  EXPECT_EQ(InfoOf(task, "high").first, 10);
  EXPECT_EQ(InfoOf(task, "high").last, 20);
  EXPECT_EQ(InfoOf(task, "long").last, 50) << "longer than any motion";
  EXPECT_EQ(InfoOf(task, "push").first, 0);
  EXPECT_EQ(InfoOf(task, "push").last, 49);
  EXPECT_EQ(InfoOf(task, "ball").first, 50);
  EXPECT_EQ(InfoOf(task, "ball").lower.size(), 3);
  EXPECT_EQ(InfoOf(task, "way").first, 25);
  EXPECT_EQ(InfoOf(task, "way").last, 25);
  EXPECT_EQ(InfoOf(task, "apart").unit, "m");
  EXPECT_NE(Describe(task).find("constraint"), std::string::npos);
  EXPECT_NE(Describe(task).find("apart"), std::string::npos);
}

// J by x and u, through C and D of the sensors, against centred differences of steps: whole, at two sizes of step
TEST_F(TaskConstraint, JacobiansAreThoseOfDifferences) {
  const Task task = LoadZooTask(std::string("<start key='pose'/><guess key='pose'/>") + kCheap + R"(
    <limit joint='all'/>
    <limit actuator='all' quantity='power' upper='6'/>
    <limit tendon='all' quantity='velocity' upper='1'/>
    <constraint name='tip' site='tip' quantity='pos' equals='site:grip'/>
    <constraint name='grasp' site='tip' quantity='pose' equals='0.1 0.2 0.6 0.9 0.3 -0.2 0.1'/>
    <constraint name='near' body='head' quantity='pose' target='0 0.1 0.5 0.8 0 0.6 0' lower='-1' upper='0.1 0.1 0.1 2 2 2'/>
    <constraint name='turn' body='head' quantity='quat' equals='body:base'/>
    <constraint name='apart' geom='skull' quantity='distance' geom2='upper' lower='0.1'/>
    <constraint name='under' geom='tip_geom' quantity='distance' geom2='floor' lower='0.1'/>
    <constraint name='posture' qpos='all' equals='key:home'/>
    <constraint name='acceleration' site='imu' quantity='accelerometer' upper='1'/>
    <constraint name='push' ctrl='all' upper='2'/>)");
  const mjModel* m = task.model.get();
  const Dims dims(m);
  const DataPtr data = MakeData(m);
  Linearizer linearizer(m);
  linearizer.SetContext(task.context);
  StepDerivative derivative;
  const VectorXd u = task.U_guess.col(0);
  linearizer.Linearize(task.x0, u, &derivative);
  const auto values = [&](const VectorXd& x, const VectorXd& ctrl) {
    SetContext(m, data.get(), task.context);
    VectorXd s(dims.ns), all, c;
    EXPECT_EQ(Forward(m, data.get(), x, ctrl, s), StepStatus::kOk);
    for (int i = 0; i < task.constraints.size(); ++i) {
      task.constraints[i].Value({.t = 2, .N = 5, .time = 0, .dt = 0.002, .x = x, .u = ctrl, .s = s}, &c);
      all.conservativeResize(all.size() + c.size());
      all.tail(c.size()) = c;
    }
    return all;
  };
  VectorXd s(dims.ns);
  SetContext(m, data.get(), task.context);
  ASSERT_EQ(Forward(m, data.get(), task.x0, u, s), StepStatus::kOk);
  const KnotView knot{.t = 2, .N = 5, .time = 0, .dt = 0.002, .x = task.x0, .u = u, .s = s};
  const Eigen::Index n = values(task.x0, u).size();
  MatrixXd analytic = MatrixXd::Zero(n, dims.ndx + dims.nu), J, Ju;
  std::vector<std::string> rows;
  Eigen::Index at = 0;
  for (int i = 0; i < task.constraints.size(); ++i) {
    const Constraint& constraint = task.constraints[i];
    constraint.Jacobian(knot, derivative.C, derivative.D, &J, &Ju);
    analytic.block(at, 0, J.rows(), J.cols()) = J;
    if (Ju.cols() > 0) analytic.block(at, dims.ndx, J.rows(), dims.nu) = Ju;

    // pulled back as well: Jᵀ g with sensors left to C and D
    const VectorXd g = VectorXd::LinSpaced(constraint.size(), -1, 2);
    KnotGradient pulled{VectorXd::Zero(dims.ndx), VectorXd::Zero(dims.nu), VectorXd::Zero(dims.ns)};
    constraint.PullBack(knot, g, &pulled);
    const VectorXd x_slope = pulled.x + derivative.C.transpose() * pulled.s,
                   u_slope = pulled.u + derivative.D.transpose() * pulled.s;
    EXPECT_TRUE(
        MatricesNear(x_slope, analytic.block(at, 0, J.rows(), dims.ndx).transpose() * g, 1e-9 * (1 + x_slope.norm())));
    EXPECT_TRUE(MatricesNear(u_slope, analytic.block(at, dims.ndx, J.rows(), dims.nu).transpose() * g,
                             1e-9 * (1 + u_slope.norm())));
    at += J.rows();
    for (const std::string& component : constraint.info().components)
      rows.push_back(constraint.info().name + " " + component);
  }
  for (const double h : {1e-5, 3e-6}) {
    MatrixXd differences(n, dims.ndx + dims.nu);
    for (int i = 0; i < dims.ndx + dims.nu; ++i) {
      const VectorXd dx = i < dims.ndx ? VectorXd(h * VectorXd::Unit(dims.ndx, i)) : VectorXd::Zero(dims.ndx);
      const VectorXd du = i >= dims.ndx ? VectorXd(h * VectorXd::Unit(dims.nu, i - dims.ndx)) : VectorXd::Zero(dims.nu);
      differences.col(i) =
          (values(Retract(m, task.x0, dx), u + du) - values(Retract(m, task.x0, -dx), u - du)) / (2 * h);
    }
    EXPECT_TRUE(
        MatricesNear(analytic, differences, 1e-6 * (1 + differences.cwiseAbs().maxCoeff()), rows, TangentNames(m)));
  }
}

// robots of gymnasium have actuators without names: tasks call them as tables do
TEST_F(TaskConstraint, BoundsActuatorsWithoutNames) {
  const support::TemporaryFolder folder;
  folder.Write("m.xml", R"(<mujoco><worldbody><body><joint name="a"/><geom size=".1" pos=".3 0 0"/><body pos=".3 0 0">
    <joint name="b"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody><actuator><motor joint="a" gear="2"/>
    <motor name="actuator 2" joint="b"/><motor joint="b" gear="5"/></actuator></mujoco>)");
  const Task task = LoadTask(folder.Write("t.xml", R"(<task model="m.xml" horizon="0.1"><cost ctrl="all"/>
    <cost name="first" actuator="actuator 0" quantity="force"/><limit actuator="all" quantity="power" upper="6"/>
    <limit actuator="actuator 0" quantity="force" lower="-1" upper="1"/></task>)"));
  EXPECT_EQ(InfoOf(task, "power").components.size(), 3u);
  const mjModel* m = task.model.get();
  EXPECT_EQ(mj_name2id(m, mjOBJ_ACTUATOR, "actuator 0"), 0);
  EXPECT_EQ(mj_name2id(m, mjOBJ_ACTUATOR, "actuator 2"), 1) << "a name that is taken stays whose it is";
  EXPECT_EQ(mj_name2id(m, mjOBJ_ACTUATOR, "actuator 2 (2)"), 2);
}

TEST_F(TaskConstraint, SoftOnesAreCosts) {
  const Task task = LoadZooTask(std::string("<guess ctrl='0.5 0 0'/>") + kCheap + R"(
    <constraint name='push' ctrl='shoulder pull' lower='0.6 -1' upper='2' soft='3'/>
    <limit joint='all' soft='2'/>
    <constraint name='still' qvel='shoulder' equals='1' when='end' soft='4'/>)",
                                "horizon='0.1' scale='sum'");
  EXPECT_EQ(task.constraints.size(), 0);
  EXPECT_EQ(task.ToProblem().constraints, nullptr);
  Simulator simulator(task.model.get(), task.context, 1, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(task.x0, task.U_guess, &motion).ok());
  double lower = -1, still = -1;
  for (const CostTermValue& term : task.cost->Terms(motion)) {
    if (term.name == "push (lower)") lower = term.value;
    if (term.name == "still") still = term.value;
  }
  EXPECT_NEAR(lower, 50 * 0.5 * 3 * 0.1 * 0.1, 1e-12);
  EXPECT_NEAR(still, 0.5 * 4 * std::pow(motion.X(13 + 9, 50) - 1, 2), 1e-9);
}

// a soft bound counts at as many knots however long the motion gets: the window is not one in seconds
TEST_F(TaskConstraint, SoftOnesFollowAFreeTime) {
  const std::string soft = R"(
    <constraint name='push' ctrl='pull' equals='1' soft='2'/>
    <constraint name='place' qpos='shoulder' equals='5' soft='4'/>
    <constraint name='there' qpos='shoulder' equals='5' when='end' soft='6'/>
    <time shortest='0.01' longest='1'/>)";
  const Task task = LoadZooTask("<guess ctrl='0'/>" + std::string(kCheap) + soft, "horizon='0.1' scale='sum'");
  ASSERT_EQ(task.N, 50);
  for (const double time : {0.01, 0.1, 1.0}) {
    const VectorXd u = VectorXd::Zero(task.model->nu), s = VectorXd::Zero(task.model->nsensordata);
    Trajectory motion;
    motion.X = task.x0.replicate(1, 51);
    motion.U = u.replicate(1, 50);
    motion.S = s.replicate(1, 51);
    motion.time = VectorXd::LinSpaced(51, 0, time);
    const double miss = 0.5 * std::pow(task.x0[11] - 5, 2);
    for (const CostTermValue& term : task.cost->Terms(motion)) {
      if (term.name == "push") {
        EXPECT_NEAR(term.value, 50 * 0.5 * 2, 1e-9) << time;
      }
      if (term.name == "place") {
        EXPECT_NEAR(term.value, 50 * 4 * miss, 1e-9) << time;
      }
      if (term.name == "there") {
        EXPECT_NEAR(term.value, 6 * miss, 1e-9) << time;
      }
    }
  }
}

// the quantity that is meant without one may be named
TEST_F(TaskConstraint, NamesTheQuantityThatHasARange) {
  const Task task = LoadZooTask(std::string(kCheap) +
                                "<limit name='a' joint='all'/><limit name='b' joint='all' quantity='position'/>");
  EXPECT_EQ(InfoOf(task, "a").lower, InfoOf(task, "b").lower);
  EXPECT_EQ(InfoOf(task, "a").upper, InfoOf(task, "b").upper);
}

// At the last knot there is no control, and a servo's force under ctrl = 0 would be -300 q: within 100 N for no q
// beyond 0.33 m. It is asked for where there is a control, and at the end alone if the user says so.
TEST_F(TaskConstraint, ForcesAreBoundedWhereThereIsAControl) {
  const support::TemporaryFolder folder;
  folder.Write("slider.xml", R"(<mujoco><option gravity="0 0 0" timestep="0.01"/>
    <worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="2"/></body></worldbody>
    <actuator><position name="servo" joint="x" kp="300" kv="12" ctrlrange="-1 1"/></actuator></mujoco>)");
  const auto load = [&](const std::string& when) {
    return LoadTask(folder.Write("slide.task.xml",
                                 "<task model='slider.xml' horizon='1'><cost qpos='x' target='0.5' terminal='1000'/>"
                                 "<cost qvel='x' terminal='10'/><cost ctrl='all' target='guess' weight='0.001'/>"
                                 "<limit name='force' actuator='all' lower='-100' upper='100' " +
                                     when + "/></task>"));
  };
  const Task task = load("");
  EXPECT_EQ(InfoOf(task, "force").first, 0);
  EXPECT_EQ(InfoOf(task, "force").last, task.N - 1);
  EXPECT_EQ(InfoOf(load("when='0.5 end'"), "force").last, task.N - 1);
  EXPECT_EQ(InfoOf(load("when='end'"), "force").last, task.N);
  const TaskSolution solution = SolveTask(task);
  EXPECT_LE(solution.result.violation, 1e-6);
  EXPECT_NEAR(solution.result.trajectory.X(0, task.N), 0.5, 1e-3);
}

// Where the model's own stop begins to push, steps have another slope: solvers aim inside it. What lies at the stop is
// kept all the same, from the start on.
TEST_F(TaskConstraint, TheModelsOwnRangesAreAimedAtFromInside) {
  const Task zoo = LoadZooTask(std::string(kCheap) + R"(<limit name='ranges' joint='all'/>
    <limit name='margin' joint='all' margin='0.01'/><limit name='given' joint='shoulder' upper='1'/>)");
  EXPECT_TRUE(MatricesNear(InfoOf(zoo, "ranges").inset, Eigen::Vector2d(0.005, 0.003), 1e-12));
  EXPECT_TRUE(MatricesNear(InfoOf(zoo, "ranges").upper, Eigen::Vector2d(M_PI_2, 0.2), 1e-12));
  EXPECT_TRUE(InfoOf(zoo, "margin").inset.isZero(0));
  EXPECT_EQ(InfoOf(zoo, "given").inset.size(), 0);

  const support::TemporaryFolder folder;
  folder.Write("stop.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0" limited="true" range="-1 0.5"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="x" ctrlrange="-50 50"/></actuator></mujoco>)");
  const auto solve = [&](const std::string& start, const std::string& limit, const std::string& target = "0.8") {
    const Task task = LoadTask(folder.Write(
        "stop.task.xml", "<task model='stop.xml' horizon='1'><start qpos='" + start + "'/><cost qpos='x' target='" +
                             target + "' weight='100'/><cost ctrl='all' weight='0.01'/>" + limit + "</task>"));
    return SolveTask(task).result;
  };
  const SolveResult result = solve("-0.5", "<limit joint='x'/>");
  EXPECT_EQ(result.violation, 0) << result.message;
  EXPECT_LT(result.trajectory.X.row(0).maxCoeff(), 0.5) << "the stop is not touched";
  EXPECT_GT(result.trajectory.X.row(0).maxCoeff(), 0.5 - 0.0051);
  const SolveResult lower = solve("0", "<limit joint='x'/>", "-1.3");
  EXPECT_EQ(lower.violation, 0) << lower.message;
  EXPECT_GT(lower.trajectory.X.row(0).minCoeff(), -1);
  EXPECT_LT(lower.trajectory.X.row(0).minCoeff(), -1 + 0.0051);
  EXPECT_GT(solve("-0.5", "<limit joint='x' margin='0'/>").trajectory.X.row(0).maxCoeff(), 0.5 - 1e-6);
  EXPECT_EQ(result.constraints[0].upper, 0.5);

  const SolveResult clear = solve("-0.5", "<limit joint='x'/>", "-0.2");
  EXPECT_EQ(clear.status, SolveStatus::kConverged) << "and is not solved again: " << clear.message;
  EXPECT_EQ(clear.message.find("then"), std::string::npos) << clear.message;

  const SolveResult held = solve("0.5", "<limit joint='x'/>");
  EXPECT_LE(held.violation, 1e-6) << held.message;
  EXPECT_NE(held.status, SolveStatus::kInfeasible) << held.message;
}

// A solve without the model's stops is the user's solve where it meets none: it is not made again, nor lost when it is
// stopped.
TEST_F(TaskConstraint, ASolveThatMeetsNoStopIsTheOnlyOne) {
  const support::TemporaryFolder folder;
  folder.Write("rail.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0" limited="true" range="-9 9"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="x" ctrlrange="-1 1"/></actuator></mujoco>)");
  const auto load = [&](const std::string& goal) {
    return LoadTask(folder.Write("rail.task.xml",
                                 "<task model='rail.xml' horizon='1'><cost ctrl='all' weight='0.01'/><limit joint='x'/>"
                                 "<constraint qpos='x' equals='" +
                                     goal +
                                     "' when='end'/><constraint qvel='x' equals='0' when='end'/>"
                                     "<hopping rounds='0'/></task>"));
  };
  const SolveResult never = SolveTask(load("2")).result;
  EXPECT_EQ(never.status, SolveStatus::kInfeasible) << never.message;
  EXPECT_EQ(never.message.find("then"), std::string::npos) << never.message;

  const Task task = load("0.2");
  std::vector<double> violations;
  std::vector<bool> without;
  const IterationCallback stop_soon = [&](const IterationRecord& record) {
    violations.push_back(record.violation);
    return violations.size() < 4;
  };
  const auto tell = [&](bool first) { without.push_back(first); };
  const SolveResult stopped = SolveTask(task, {.iteration = stop_soon, .stops = tell}).result;
  EXPECT_EQ(without, std::vector<bool>{true});
  EXPECT_EQ(stopped.status, SolveStatus::kInterrupted) << stopped.message;
  EXPECT_EQ(stopped.iterations.size(), 4U);
  EXPECT_LE(stopped.violation, *std::min_element(violations.begin(), violations.end()) + 1e-15);
  EXPECT_LT(stopped.violation, 0.1) << "of 0.2 at the guess";
}

// Stop, said once by the callback or by IlqrOptions::stop, is neither asked for again nor forgotten by what would follow.
TEST_F(TaskConstraint, NoRoundsOfKicksFollowASolveThatIsStopped) {
  const support::TemporaryFolder folder;
  folder.Write("rail.xml", R"(<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0" limited="true" range="-9 9"/><geom size=".1" mass="1"/></body></worldbody>
    <actuator><motor joint="x" ctrlrange="-1 1"/></actuator></mujoco>)");
  Task task = LoadTask(folder.Write("rail.task.xml",
                                    "<task model='rail.xml' horizon='1'><cost ctrl='all' weight='0.01'/><limit "
                                    "joint='x'/><constraint qpos='x' equals='0.2' when='end'/></task>"));
  task.hopping.rounds = 2;
  task.hopping.after_solve = true;
  task.hopping.when_stuck = false;
  task.solver.threads = 1;
  int calls = 0;
  const IterationCallback at_fourth = [&](const IterationRecord&) { return ++calls != 4; };
  const TaskSolution by_callback = SolveTask(task, {.iteration = at_fourth});
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(by_callback.result.status, SolveStatus::kInterrupted) << by_callback.result.message;
  EXPECT_EQ(by_callback.result.iterations.size(), 4U);
  EXPECT_TRUE(by_callback.rounds.empty());

  int asked = 0;
  task.solver.stop = [&] { return ++asked == 30; };
  calls = 0;
  const TaskSolution by_option = SolveTask(task, {.iteration = [&](const IterationRecord&) { return ++calls > 0; }});
  EXPECT_EQ(by_option.result.status, SolveStatus::kInterrupted) << by_option.result.message;
  EXPECT_EQ(by_option.result.iterations.size(), static_cast<std::size_t>(calls));
  EXPECT_LT(calls, 30);
  EXPECT_TRUE(by_option.rounds.empty());
}

// what the solve without stops has found is kept where the one on the true model ends worse
TEST_F(TaskConstraint, TheBetterOfTheSolvesWithAndWithoutStopsIsReturned) {
  const support::TemporaryFolder folder;
  Task task = LoadTask(folder.Write(
      "short.task.xml", std::string("<task model='") + COSTATE_MODELS +
                            "/cartpole/cartpole.xml' horizon='2' controlstep='2'><start key='hang'/><guess ctrl='0'/>"
                            "<cost qpos='all' target='key:upright' weight='0.5' terminal='200 500'/>"
                            "<cost qvel='all' weight='0.01' terminal='50'/><cost ctrl='all' weight='0.005'/>"
                            "<limit joint='slider' margin='1.3'/></task>"));
  ASSERT_FALSE(task.stops.empty());
  const auto cut_off = [&](int iterations, int more) {
    task.solver.iterations = iterations;
    return SolveTask(task,
                     {.iteration = [&, n = 0](const IterationRecord&) mutable { return ++n < iterations + more; }})
        .result;
  };
  for (const int iterations : {40, 80}) {
    const SolveResult led = cut_off(iterations, 0), both = cut_off(iterations, 3);
    EXPECT_EQ(led.iterations.size(), static_cast<std::size_t>(iterations));
    EXPECT_LE(both.violation, std::max(led.violation, task.constrained.tolerance)) << both.message;
    EXPECT_LT(both.cost, 5) << both.message;
  }
}

TEST_F(TaskConstraint, WarnsOfAStartThatViolates) {
  const Task task =
      LoadZooTask(std::string("<start key='pose'/>") + kCheap + "<constraint name='low' qpos='extend' upper='0.05'/>");
  ASSERT_FALSE(task.warnings.empty());
  EXPECT_NE(task.warnings.back().find("constraint 'low': the start violates it, qpos[extend] is 0.07"),
            std::string::npos)
      << task.warnings.back();
}

// multipliers take longer to tell that there is no way, and the rounds of kicks follow only then
TEST_F(TaskConstraint, IterationsAreMoreWithinConstraints) {
  const std::string bound = std::string(kCheap) + "<constraint qpos='extend' upper='0.05'/>";
  EXPECT_EQ(LoadZooTask(kCheap).solver.iterations, 200);
  EXPECT_EQ(LoadZooTask(bound).solver.iterations, 500);
  EXPECT_EQ(LoadZooTask(bound + "<solver type='fddp'/>").solver.iterations, 500);
  EXPECT_EQ(LoadZooTask(bound + "<solver iterations='30'/>").solver.iterations, 30);
  EXPECT_EQ(LoadZooTask(bound + "<time shortest='0.05' longest='0.2'/>").solver.iterations, 200);
}

TEST_F(TaskConstraint, PeriodicAsksForTheStart) {
  const Task task = LoadZooTask(std::string("<start key='pose'/>") + kCheap +
                                "<periodic qpos='all' qvel='shoulder' except='root.x qpos[root].y'/>");
  const ConstraintInfo& info = InfoOf(task, "periodic qpos");
  EXPECT_EQ(info.lower.size(), 9);
  EXPECT_EQ(info.first, 50);
  EXPECT_EQ(InfoOf(task, "periodic qvel").lower.size(), 1);
  VectorXd c, u, s = VectorXd::Zero(task.model->nsensordata);
  const VectorXd x = Retract(task.model.get(), task.x0, 0.1 * VectorXd::Unit(Dims(task.model.get()).ndx, 7));
  task.constraints[0].Value({.t = 50, .N = 50, .time = 0, .dt = 0.002, .x = x, .u = u, .s = s}, &c);
  EXPECT_NEAR(c.cwiseAbs().sum(), 0.1, 1e-12);
}

// a slide's position and velocity have one bare name: `except` leaves out the position alone, where there is one
TEST_F(TaskConstraint, PeriodicVelocityReturnsWhereThePositionMovesOn) {
  const auto components = [](const std::string& periodic) {
    const Task task = LoadZooTask(kCheap + periodic);
    std::vector<std::string> names;
    for (int i = 0; i < task.constraints.size(); ++i) {
      for (const std::string& name : task.constraints[static_cast<std::size_t>(i)].info().components)
        names.push_back(name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const std::string both = "<periodic qpos='extend shoulder' qvel='extend shoulder' except='";
  EXPECT_EQ(components(both + "extend'/>"), (Names{"qpos[shoulder]", "qvel[extend]", "qvel[shoulder]"}));
  EXPECT_EQ(components(both + "qvel[extend]'/>"), (Names{"qpos[extend]", "qpos[shoulder]", "qvel[shoulder]"}));
  EXPECT_EQ(components(both + "extend qvel[extend]'/>"), (Names{"qpos[shoulder]", "qvel[shoulder]"}));
  EXPECT_ERROR(components("<periodic qpos='shoulder' qvel='extend shoulder' except='extend'/>"), ErrorCode::kParse,
               "except: 'extend' is none of the entries that are named");
  EXPECT_EQ(components("<periodic qvel='extend shoulder' except='extend'/>"), Names{"qvel[shoulder]"});
}

// ball joints are bounded by their angle, whose slope is the axis
TEST_F(TaskConstraint, BoundsTheAngleOfBallJoints) {
  const TemporaryFolder folder;
  folder.Write(
      "ball.xml",
      R"(<mujoco><worldbody><body><joint name="neck" type="ball" range="0 40"/><geom size=".1" pos="0 0 -.3"/></body></worldbody>
    <actuator><motor joint="neck" gear="1 .5 .2"/></actuator></mujoco>)");
  const Task task = LoadTask(
      folder.Write("a.task.xml", "<task model='ball.xml' horizon='0.1'><cost ctrl='all'/><limit joint='all'/></task>"));
  ASSERT_EQ(task.constraints.size(), 1);
  EXPECT_NEAR(task.constraints[0].info().upper[0], 40 * M_PI / 180, 1e-12);
  const mjModel* m = task.model.get();
  const VectorXd x = Retract(m, task.x0, 0.4 * VectorXd::Unit(6, 0) - 0.5 * VectorXd::Unit(6, 2)), none;
  const auto angle = [&](const VectorXd& at) {
    VectorXd c;
    task.constraints[0].Value({.t = 1, .N = 5, .time = 0, .dt = 0.1, .x = at, .u = none, .s = none}, &c);
    return c[0];
  };
  EXPECT_NEAR(angle(x), std::hypot(0.4, 0.5), 1e-12);
  MatrixXd J, Ju;
  task.constraints[0].Jacobian({.t = 1, .N = 5, .time = 0, .dt = 0.1, .x = x, .u = none, .s = none}, MatrixXd(),
                               MatrixXd(), &J, &Ju);
  for (int i = 0; i < 3; ++i) {
    const double slope =
        (angle(Retract(m, x, 1e-6 * VectorXd::Unit(6, i))) - angle(Retract(m, x, -1e-6 * VectorXd::Unit(6, i)))) / 2e-6;
    EXPECT_NEAR(J(0, i), slope, 1e-8);
  }
}

// ---- motions --------------------------------------------------------------------------------------------------------

TEST_F(TaskConstraint, ReachesBetweenPostsWithEveryBoundKept) {
  const Task task = LoadTask(std::string(COSTATE_MODELS) + "/posts/reach.xml");
  const SolveResult result = SolveConstrained(task.ToProblem(), task.U_guess, task.solver, task.constrained);
  EXPECT_EQ(result.status, SolveStatus::kConverged) << result.message;
  EXPECT_LE(result.violation, 1e-6) << result.message;

  // measured anew, by the engine: posts, goal, ranges
  const mjModel* m = task.model.get();
  const DataPtr data = MakeData(m);
  const int posts = mj_name2id(m, mjOBJ_BODY, "posts");
  double nearest = 1;
  for (int t = 0; t <= task.N; ++t) {
    SetState(m, data.get(), result.trajectory.X.col(t));
    mj_kinematics(m, data.get());
    for (const char* name : {"upper2", "fore1", "fore2", "wrist1", "wrist2"}) {
      const int body = mj_name2id(m, mjOBJ_BODY, name);
      for (int a = m->body_geomadr[body]; a < m->body_geomadr[body] + m->body_geomnum[body]; ++a) {
        for (int b = m->body_geomadr[posts]; b < m->body_geomadr[posts] + m->body_geomnum[posts]; ++b) {
          nearest = std::min(nearest, mj_geomDistance(m, data.get(), a, b, 1, nullptr));
        }
      }
    }
  }
  EXPECT_GE(nearest, 0.02 - 1e-5);
  EXPECT_LE(nearest, 0.021);  // they are in the way
  const int tip = mj_name2id(m, mjOBJ_SITE, "tip"), goal = mj_name2id(m, mjOBJ_SITE, "goal");
  EXPECT_LE(mju_dist3(data->site_xpos + 3 * tip, data->site_xpos + 3 * goal), 1e-5);
  EXPECT_LE(result.trajectory.X.bottomRows(7).cwiseAbs().maxCoeff(), 2.5 + 1e-5);
}

// six motors bring a body to a pose: position and orientation by the engine's own kinematics, not by the residual
TEST_F(TaskConstraint, ReachesAPose) {
  const TemporaryFolder folder;
  std::string joints, motors;
  for (const char* type : {"slide", "hinge"}) {
    for (const char* axis : {"1 0 0", "0 1 0", "0 0 1"}) {
      const std::string name = std::string(type) + axis[0] + axis[2] + axis[4];
      joints += "<joint name='" + name + "' type='" + type + "' axis='" + axis + "' damping='.1'/>";
      motors += "<motor joint='" + name + "'/>";
    }
  }
  folder.Write("box.xml", "<mujoco><option timestep='0.02' gravity='0 0 0'/><worldbody><body name='box'>" + joints +
                              "<geom type='box' size='.1 .2 .15' mass='1'/><site name='grip' pos='.1 0 .05' euler='0 "
                              "30 0'/></body></worldbody><actuator>" +
                              motors + "</actuator></mujoco>");
  const Task task = LoadTask(folder.Write(
      "box.task.xml",
      "<task model='box.xml' horizon='0.4'><guess ctrl='0'/><cost ctrl='all' weight='1e-2'/>"
      "<constraint name='grasp' site='grip' quantity='pose' equals='.3 -.1 .2 .8 .36 -.48 0' when='end'/></task>"));
  EXPECT_EQ(InfoOf(task, "grasp").components.size(), 6u);
  EXPECT_NE(Describe(task).find("m and rad"), std::string::npos) << Describe(task);
  const SolveResult result = Solve(task.ToProblem(), task.ToGuess(), task.solver, {}, task.constrained);
  ASSERT_EQ(result.status, SolveStatus::kConverged) << result.message;
  const DataPtr data = MakeData(task.model.get());
  SetState(task.model.get(), data.get(), result.trajectory.X.col(task.N));
  mj_forward(task.model.get(), data.get());
  EXPECT_TRUE(MatricesNear(Eigen::Map<Eigen::Vector3d>(data->site_xpos), Eigen::Vector3d(.3, -.1, .2), 2e-6));
  Eigen::Vector4d q;
  mju_mat2Quat(q.data(), data->site_xmat);
  EXPECT_NEAR(std::abs(q.dot(Eigen::Vector4d(.8, .36, -.48, 0))), 1, 1e-10);
}

}  // namespace
}  // namespace costate
