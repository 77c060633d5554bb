// Descent on a task's inputs, and gradients by parameters and start with a closed form.
#include <costate/descent.h>
#include <fmt/format.h>

#include <cmath>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

using Descent = support::EngineTest;
using support::TemporaryFolder;

const std::string kKnown = std::string(COSTATE_MODELS) + "/../examples/known_answers";

TEST_F(Descent, GradientDescentOfTheThrowIsTheOneOfPaper) {
  // error 1.5 · 0.55^k after k steps of rate 0.05, loss half its square
  const Task task = LoadTask(kKnown + "/throw/task.xml");
  const DescentResult result =
      Descend(task, nullptr, {.method = DescentMethod::kGradient, .iterations = 40, .rate = 0.05},
              [](const IterationRecord& record, ConstVectorRef) {
                const double error = 1.5 * std::pow(0.55, record.iteration);
                EXPECT_NEAR(record.cost, 0.5 * error * error, 1e-12 * (1 + error));
                EXPECT_NEAR(record.gradient_norm, 3 * error, 1e-11);
                return true;
              });
  EXPECT_EQ(result.initial_loss, result.iterations[0].cost);
  EXPECT_NEAR(result.x0[2], 2.0, 1e-8);
  EXPECT_EQ(result.x0[3], 1.0) << "the loss does not depend on it";
  EXPECT_EQ(result.U, task.U_guess) << "controls were not named";
}

TEST_F(Descent, PendulumsPositionByItsLengthIsTheClosedForm) {
  // symplectic Euler at small angles: a_n = a_0 cos((n + ½) φ)/cos(½ φ), cos φ = 1 − ½ h² g/l; the mass is a point
  constexpr double h = 0.01, g = 9.81, l = 0.7, a0 = 1e-7;
  constexpr int N = 150;
  TemporaryFolder folder;
  folder.Write(
      "pendulum.xml",
      fmt::format(
          "<mujoco><option timestep='{}' gravity='0 0 -{}'/><worldbody><body><joint name='hinge' axis='0 -1 0'/>"
          "<body name='bob' pos='0 0 -{}'><inertial pos='0 0 0' mass='1' diaginertia='1e-14 1e-14 1e-14'/></body>"
          "</body></worldbody></mujoco>",
          h, g, l));
  const Task task = LoadTask(folder.Write(
      "task.xml",
      fmt::format("<task model='pendulum.xml' horizon='{}'><start qpos='{}'/><gradient controls='none' start='none'>"
                  "<parameter name='body:bob/pos[2]'/></gradient><cost qpos='hinge' target='1e-7' weight='0' "
                  "terminal='1'/></task>",
                  N * h, a0)));
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  RolloutGradient gradient;
  Adjoint adjoint(parameters->model(), task.context);
  adjoint.Gradient(task.x0, task.U_guess, *task.cost, {.parameters = parameters.get()}, &gradient);

  const double w2 = g / l, phi = std::acos(1 - h * h * w2 / 2);
  const double angle = a0 * std::cos((N + 0.5) * phi) / std::cos(phi / 2);
  const double by_phi = a0 * (-(N + 0.5) * std::sin((N + 0.5) * phi) / std::cos(phi / 2) +
                              0.5 * std::cos((N + 0.5) * phi) * std::sin(phi / 2) / std::pow(std::cos(phi / 2), 2));
  const double by_length = by_phi * h * h / (2 * std::sin(phi)) * (-g / (l * l));
  EXPECT_NEAR(gradient.xN[0], angle, 1e-10 * a0);
  EXPECT_NEAR(gradient.theta[0], -(angle - a0) * by_length, 1e-9 * std::abs((angle - a0) * by_length))
      << "pos[2] is minus the length";
}

TEST_F(Descent, MovesAStartThatRotates) {
  // a free body in space keeps turning: the start must be turned back by what it turns in flight, 2 rad about a skew
  // axis
  TemporaryFolder folder;
  folder.Write("body.xml",
               "<mujoco><option timestep='0.02' gravity='0 0 0'/><worldbody><body><freejoint/>"
               "<geom size='.1' mass='1'/><site name='s'/></body></worldbody></mujoco>");
  const Task task = LoadTask(
      folder.Write("task.xml",
                   "<task model='body.xml' horizon='1'><start qvel='0.1 0.2 0.3 1 1.4 -0.9'/><gradient start='qpos'/>"
                   "<cost name='place' qpos='all' target='1 2 3 1 0 0 0' weight='0' terminal='1'/></task>"));
  for (const DescentMethod method : {DescentMethod::kLbfgs, DescentMethod::kGaussNewton}) {
    const DescentResult result = Descend(task, nullptr, {.method = method, .iterations = 200});
    EXPECT_LT(result.loss, 1e-14) << result.message;
    const Eigen::Vector3d turned = Difference(task.model.get(), result.x0, task.x0).segment<3>(3);
    EXPECT_NEAR((turned + Eigen::Vector3d(1, 1.4, -0.9)).norm(), 0, 1e-6) << "the sphere turns at constant speed";
    EXPECT_NEAR((result.x0.head(3) - Eigen::Vector3d(0.9, 1.8, 2.7)).norm(), 0, 1e-6);
    if (method == DescentMethod::kGaussNewton) {
      EXPECT_LE(result.iterations.size(), 12u);
    }
  }
}

// a mass of 1 kg on a spring, and what it did under other parameters from 0.3 m, as a recorded motion
std::string SpringModel(const std::string& joint) {
  return "<mujoco><option timestep='.01' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 0' " +
         joint + "/><geom size='.1' mass='1'/></body></worldbody></mujoco>";
}

std::string SpringFilm(const std::string& model_file, const std::vector<std::string>& names, const VectorXd& values,
                       int steps) {
  const ModelPtr model = LoadModel(model_file);
  ParameterSet truth(model.get(), names);
  truth.Set(values);
  const DataPtr data = MakeData(model.get());
  data->qpos[0] = 0.3;
  std::string film = "time,qpos[x]";
  for (int t = 0; t <= steps; t++) {
    film += fmt::format("\n{:.17g},{:.17g}", 0.01 * t, data->qpos[0]);
    mj_step(truth.model(), data.get());
  }
  return film;
}

// Stiffness, damping and start of a spring from what it did: near the minimum each Gauss–Newton step squares the error.
// A bound that holds one of them holds it exactly, and the others have their minimum there.
TEST_F(Descent, GaussNewtonStepsFitASpringInAFew) {
  TemporaryFolder folder;
  const std::string spring = folder.Write("spring.xml", SpringModel("stiffness='20' damping='.3'"));
  folder.Write("film.csv", SpringFilm(spring, {"joint:x/stiffness", "joint:x/damping"}, Eigen::Vector2d(31, 0.7), 300));
  const auto fit = [&](const std::string& bounds, DescentMethod method) {
    const Task task = LoadTask(folder.Write(
        "task.xml",
        "<task model='spring.xml' horizon='3' scale='mean'><start qpos='0.2'/><gradient controls='none' "
        "start='qpos'><parameter name='joint:x/stiffness' " +
            bounds + "/><parameter name='joint:x/damping'/></gradient><cost qpos='x' target='file:film.csv'/></task>"));
    const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
    return Descend(task, parameters.get(), {.method = method, .iterations = 200});
  };
  const DescentResult found = fit("", DescentMethod::kGaussNewton);
  EXPECT_NEAR(found.theta[0], 31, 1e-8) << found.message;
  EXPECT_NEAR(found.theta[1], 0.7, 1e-9);
  EXPECT_NEAR(found.x0[0], 0.3, 1e-10);
  EXPECT_LE(found.iterations.size(), 20u);
  EXPECT_LT(found.iterations.size(), fit("", DescentMethod::kLbfgs).iterations.size());

  const DescentResult held = fit("upper='25'", DescentMethod::kGaussNewton),
                      same = fit("upper='25'", DescentMethod::kLbfgs);
  EXPECT_EQ(held.theta[0], 25);
  EXPECT_NEAR(held.loss, same.loss, 1e-9 * same.loss) << held.message;
  EXPECT_NEAR(held.theta[1], same.theta[1], 1e-4 * same.theta[1]);

  const Task controls = LoadTask(std::string(COSTATE_MODELS) + "/pendulum/swing_up.xml");
  EXPECT_ERROR(Descend(controls, nullptr, {.method = DescentMethod::kGaussNewton}), ErrorCode::kUnsupported,
               "controls are among");
}

// Many swings of a spring that is twice too stiff: the loss over all of them has ripples, over the first ones
// none.
TEST_F(Descent, AFitThatLeavesSomethingOverBeginsWithShorterMotions) {
  TemporaryFolder folder;
  const std::string spring = folder.Write("spring.xml", SpringModel("stiffness='60'"));
  folder.Write("film.csv", SpringFilm(spring, {"joint:x/stiffness"}, VectorXd::Constant(1, 30), 1000));
  const Task task = LoadTask(folder.Write(
      "task.xml",
      "<task model='spring.xml' horizon='10' scale='mean'><start qpos='0.3'/><gradient controls='none'><parameter "
      "name='joint:x/stiffness'/></gradient><cost qpos='x' target='file:film.csv'/></task>"));
  const auto fit = [&](DescentMethod method) {
    const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
    return Descend(task, parameters.get(), {.method = method});
  };
  EXPECT_GT(fit(DescentMethod::kLbfgs).loss, 1e-4);  // the whole motion alone
  const DescentResult found = fit(DescentMethod::kGaussNewton);
  EXPECT_NEAR(found.theta[0], 30, 1e-8) << found.message;
  EXPECT_NE(found.message.find("by way of shorter motions"), std::string::npos) << found.message;
  EXPECT_EQ(static_cast<Eigen::Index>(found.iterations.size()), found.history.cols());
  for (std::size_t k = 1; k < found.iterations.size(); k++)
    EXPECT_LE(found.iterations[k].cost, found.iterations[k - 1].cost);
  EXPECT_EQ(found.U.cols(), task.N);

  // and it can be interrupted there
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  bool shorter = false;
  const DescentResult cut = Descend(task, parameters.get(), {.method = DescentMethod::kGaussNewton},
                                    [&](const IterationRecord& record, ConstVectorRef) {
                                      shorter = record.iteration > 0 && record.gradient_norm == 0 && record.step == 0;
                                      return !shorter;
                                    });
  EXPECT_TRUE(shorter);
  EXPECT_EQ(cut.status, SolveStatus::kInterrupted);
  EXPECT_EQ(cut.theta, parameters->Get());
}

TEST_F(Descent, KeepsControlsInTheirRangeAndParametersInTheirBounds) {
  // a cart that shall go farther than its motor and the least mass allow
  TemporaryFolder folder;
  folder.Write("cart.xml",
               "<mujoco><worldbody><body name='cart'><joint name='x' type='slide' axis='1 0 0'/><geom size='.1' "
               "mass='1'/></body>"
               "</worldbody><actuator><motor name='push' joint='x' ctrlrange='-1 2'/></actuator></mujoco>");
  const Task task =
      LoadTask(folder.Write("task.xml",
                            "<task model='cart.xml' horizon='0.2'><guess ctrl='0'/><gradient start='none'><parameter "
                            "name='body:cart/mass' lower='0.5' upper='4'/></gradient>"
                            "<cost name='far' qpos='x' target='9' weight='0' terminal='1'/></task>"));
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  const DescentResult result = Descend(task, parameters.get(), {.iterations = 300});
  EXPECT_EQ(result.theta[0], 0.5) << result.message;
  EXPECT_TRUE((result.U.array() == 2).all()) << result.U;
  EXPECT_EQ(parameters->Get()[0], 0.5) << "the set has the best values";
}

TEST_F(Descent, KeepsTheStartInTheRangesOfJointsAndActivations) {
  // targets beyond the ranges of a and b, within that of c, without a range for d; e begins outside its soft range; f's
  // place is held and its motor's activation is to change
  TemporaryFolder folder;
  const auto slide = [](const char* name, const char* range) {
    return fmt::format(
        "<body><joint name='{}' type='slide' axis='1 0 0' {}/><geom size='.1' mass='1' contype='0'/></body>", name,
        range);
  };
  folder.Write("slides.xml",
               "<mujoco><option gravity='0 0 0'/><worldbody>" + slide("a", "range='-.5 .5'") +
                   slide("b", "range='-.5 .5'") + slide("c", "range='-2 2'") + slide("d", "") +
                   slide("e", "range='-.5 .5' solreflimit='9 1'") + slide("f", "") +
                   "</worldbody><actuator><general joint='f' dyntype='integrator' actlimited='true' actrange='-1 .4'/>"
                   "</actuator></mujoco>");
  const Task task =
      LoadTask(folder.Write("task.xml",
                            "<task model='slides.xml' horizon='0.1'><start qpos='.2 .2 .2 .2 .9 0'/><guess ctrl='0'/>"
                            "<gradient controls='none' start='qpos[a] qpos[b] qpos[c] qpos[d] qpos[e] act'/>"
                            "<cost qpos='all' target='1.4 -3 1.3 7 2 8' weight='0' terminal='1'/></task>"));
  const DescentResult result = Descend(task, nullptr, {.iterations = 300});
  EXPECT_DOUBLE_EQ(result.x0[0], 0.5) << result.message;
  EXPECT_DOUBLE_EQ(result.x0[1], -0.5);
  EXPECT_NEAR(result.x0[2], 1.3, 1e-6);
  EXPECT_GT(result.x0[3], 6);
  EXPECT_DOUBLE_EQ(result.x0[4], 0.9) << "no further out than the start, nor forced in";
  EXPECT_DOUBLE_EQ(result.x0[12], 0.4) << "pushes f as far as it may";

  // at the bounds the loss still falls outwards, by differences of rollouts
  Simulator simulator(task.model.get(), task.context, task.substeps, 1);
  const auto loss = [&](int entry, double offset) {
    VectorXd dx = VectorXd::Zero(13);
    dx[entry] = offset;
    Trajectory motion;
    EXPECT_TRUE(simulator.Rollout(Retract(task.model.get(), result.x0, dx), result.U, &motion).ok());
    return TotalCost(*task.cost, motion, simulator.knot_time());
  };
  for (const auto& [entry, outwards] : {std::pair{0, 1}, std::pair{1, -1}}) {
    EXPECT_LT(result.gradient.x0[entry] * outwards, 0);
    const double inside = (loss(entry, -1e-6 * outwards) - loss(entry, -3e-6 * outwards)) / (2e-6 * outwards);
    EXPECT_NEAR(result.gradient.x0[entry], inside, 1e-4 * std::abs(inside)) << entry;
  }
}

// inputs of a program's own, which no file has checked
TEST_F(Descent, NamesInputsThatThereAreNoneOf) {
  TemporaryFolder folder;
  folder.Write("cart.xml",
               "<mujoco><worldbody><body><joint name='x' type='slide'/><geom size='.1'/></body></worldbody>"
               "<actuator><motor joint='x'/></actuator></mujoco>");
  Task task =
      LoadTask(folder.Write("task.xml", "<task model='cart.xml' horizon='0.2'><gradient/><cost qpos='x'/></task>"));
  task.inputs.controls = {9};
  EXPECT_ERROR(Descend(task, nullptr, {}), ErrorCode::kInvalidArgument, "entry 0 of the controls is 9", "to 0");
  task.inputs.controls = {0};
  task.inputs.start = {1, 77};
  EXPECT_ERROR(Descend(task, nullptr, {}), ErrorCode::kInvalidArgument, "entry 1 of the start is 77", "to 1");
  task.inputs.start = {1, 0};
  EXPECT_ERROR(Descend(task, nullptr, {}), ErrorCode::kInvalidArgument, "entry 1 of the start is 0");
}

TEST_F(Descent, NamesWhatIsWrongInATask) {
  TemporaryFolder folder;
  folder.Write("cart.xml",
               "<mujoco><worldbody><body name='cart'><joint name='x' type='slide' damping='1'/><geom "
               "size='.1'/></body></worldbody></mujoco>");
  const auto refused = [&](const std::string& gradient, const std::string& text) {
    const std::string file =
        folder.Write("task.xml", "<task model='cart.xml' horizon='0.2'>\n" + gradient + "<cost qpos='x'/></task>");
    try {
      LoadTask(file);
      ADD_FAILURE() << gradient << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("task.xml:2: <"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused("<gradient><parameter name='joint:x/dampin'/></gradient>", "did you mean 'damping'");
  refused("<gradient><parameter/></gradient>", "name is missing");
  refused("<gradient><parametr name='joint:x/damping'/></gradient>", "did you mean 'parameter'");
  refused("<gradient><parameter name='joint:x/damping' valeu='1'/></gradient>", "did you mean 'value'");
  refused("<gradient><parameter name='joint:x/damping' value='-1'/></gradient>", "not between 0 and inf");
  refused("<gradient><parameter name='joint:x/damping' lower='-1'/></gradient>", "can be 0 at least");
  refused("<gradient><parameter name='joint:x/damping'/><parameter name='joint:x/damping'/></gradient>", "damping");
  refused("<gradient start='qvel[y]'/>", "did you mean 'qvel[x]'");
  refused("<gradient star='none'/>", "did you mean 'start'");
  refused("<gradient controls='none' start='none'/>", "nothing to differentiate by");
  refused("<gradient/><gradient/>", "a second <gradient>");
}

}  // namespace
}  // namespace costate
