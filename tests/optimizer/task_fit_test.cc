// Tasks from a recorded motion and what shall be fitted to it.
#include <costate/descent.h>
#include <costate/parameter.h>
#include <costate/rollout.h>
#include <costate/state.h>
#include <costate/task.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <sstream>

#include "optimizer/cost_terms.h"
#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::LoadZooTask;
using support::MatricesNear;
using support::TemporaryFolder;
constexpr char kZoo[] = COSTATE_TESTDATA "/task_zoo.xml";
constexpr char kDamping[] = "joint:shoulder/damping";
constexpr double kTrueDamping = 0.35;  // the file says 0.2

// 0.2 s of the zoo with another damping, from keyframe "pose" under controls that move all
class Fit : public support::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    model_ = LoadModel(kZoo);
    ParameterSet truth(model_.get(), {kDamping});
    truth.Set(VectorXd::Constant(1, kTrueDamping));
    const DataPtr data = MakeDataAtKey(model_.get(), "pose");
    Simulator simulator(truth.model(), GetContext(model_.get(), data.get()), 1, 1);
    MatrixXd U(3, 100);
    for (int t = 0; t < 100; ++t) U.col(t) << std::sin(0.1 * t), std::cos(0.07 * t), 0.3 * std::sin(0.05 * t);
    ASSERT_TRUE(simulator.Rollout(GetState(model_.get(), data.get()), U, &motion_).ok());
  }

  // every `stride`-th row of the motion with the columns that are wanted
  std::string Film(const std::function<bool(const std::string&)>& wanted, int stride = 1) const {
    std::vector<std::string> names = StateNames(model_.get());
    for (const auto& more : {SensorNames(model_.get()), ControlNames(model_.get())})
      names.insert(names.end(), more.begin(), more.end());
    std::ostringstream text;
    text.precision(17);
    text << "time (s)";
    for (const std::string& name : names)
      if (wanted(name)) text << "," << name;
    for (int t = 0; t < motion_.X.cols(); t += stride) {
      VectorXd row(static_cast<Eigen::Index>(names.size()));
      row << motion_.X.col(t), motion_.S.col(t), motion_.U.col(std::min<Eigen::Index>(t, motion_.U.cols() - 1));
      text << "\n" << 7 + motion_.time[t];
      for (std::size_t i = 0; i < names.size(); ++i)
        if (wanted(names[i])) text << "," << row[static_cast<Eigen::Index>(i)];
    }
    return folder_.Write("film.csv", text.str());
  }

  Task MakeFit(const std::string& motion) const {
    return MakeFitTask(kZoo, {.motion = motion, .start = "pose", .parameters = {kDamping}});
  }

  static const std::vector<ResidualTerm>& Terms(const Task& task) {
    return dynamic_cast<const ResidualCost&>(*task.cost).terms();
  }

  ModelPtr model_;
  Trajectory motion_;
  TemporaryFolder folder_;
};

TEST_F(Fit, FindsTheNumberThatMadeTheMotion) {
  Task task = MakeFit(Film([](const std::string&) { return true; }));
  EXPECT_TRUE(task.warnings.empty());
  EXPECT_EQ(task.N, 100);
  EXPECT_EQ(task.substeps, 1);
  EXPECT_TRUE(MatricesNear(task.x0, motion_.X.col(0), 1e-15));
  EXPECT_TRUE(MatricesNear(task.U_guess.leftCols(99), motion_.U.leftCols(99), 1e-15));
  EXPECT_TRUE(task.inputs.controls.empty());
  EXPECT_EQ(task.inputs.start.size(), 22u);  // all: the first row has noise as all others
  const std::vector<ResidualTerm>& terms = Terms(task);
  ASSERT_EQ(terms.size(), 6u);  // positions, velocities and four sensors
  EXPECT_EQ(terms[0].size(), 11);
  EXPECT_EQ(terms[3].name, "attitude");

  // each unit in its own spread: metres of the base and the slide, radians of the joints and turns
  double metres = 0;
  for (int i : {0, 1, 2, 12}) {
    const VectorXd x = motion_.X.row(i);
    metres = std::max(metres, std::sqrt((x.array() - x.mean()).square().mean()));
  }
  EXPECT_NEAR(terms[0].weight[0] * metres * metres, 1, 1e-5);  // written with six digits
  EXPECT_EQ(terms[0].weight[0], terms[0].weight[10]);
  EXPECT_NE(terms[0].weight[0], terms[0].weight[9]);
  EXPECT_EQ(terms[0].weight[3], terms[0].weight[9]);

  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  EXPECT_NEAR(parameters->Get()[0], 0.2, 1e-15);
  const DescentResult fitted = Descend(task, parameters.get(), {.method = DescentMethod::kGaussNewton});
  EXPECT_LT(fitted.loss, 1e-18 * fitted.initial_loss);
  EXPECT_NEAR(parameters->Get()[0], kTrueDamping, 1e-9);
}

TEST_F(Fit, VelocitiesThatWereNotRecordedAreFoundToo) {
  const auto positions = [](const std::string& name) { return name.rfind("qpos", 0) == 0 || name[0] == 'c'; };
  const Task task = MakeFit(Film(positions, 5));
  EXPECT_EQ(task.N, 20);
  EXPECT_EQ(task.substeps, 5);
  EXPECT_EQ(task.inputs.start.size(), 22u);
  ASSERT_EQ(Terms(task).size(), 1u);

  // with those that were; positions that were not stay where the keyframe has them
  const Task some = MakeFit(Film([&](const std::string& name) {
    return name == "qpos[shoulder]" || name == "qvel[shoulder]" || name.rfind("qvel[root]", 0) == 0;
  }));
  EXPECT_EQ(some.inputs.start, (std::vector<int>{9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}));
  EXPECT_EQ(Terms(some)[1].size(), 7);
}

// Velocities that were not recorded begin near the true ones, of a free body that flies and turns, a ball joint, a
// hinge and a slide; recorded ones stay, and those of joints that are not there.
TEST_F(Fit, VelocitiesThatWereNotRecordedBeginAtTheSlopeOfTheFirstRows) {
  const auto positions = [](const std::string& name) { return name.rfind("qpos", 0) == 0; };
  const VectorXd truth = motion_.X.col(2).segment(13, 11);  // in the middle of the rows
  const VectorXd begun =
      MakeFitTask(kZoo, {.motion = Film(positions), .start = "home", .parameters = {kDamping}}).x0.segment(13, 11);
  EXPECT_TRUE(MatricesNear(begun, truth, 0.05)) << begun.transpose() << "\n" << truth.transpose();
  EXPECT_GT(truth.norm(), 1);

  const std::string text =
      WriteFitTask(kZoo, {.motion = Film([&](const std::string& name) {
                            return positions(name) || name == "qvel[shoulder]" || name.rfind("qvel[root]", 0) == 0;
                          }),
                          .start = "pose",
                          .parameters = {kDamping}});
  const VectorXd some = ParseTask(text, kZoo).x0.segment(13, 11);
  for (int i : {0, 1, 2, 3, 4, 5, 9}) EXPECT_EQ(some[i], motion_.X(13 + i, 0)) << i;
  for (int i : {6, 7, 8, 10}) EXPECT_EQ(some[i], begun[i]) << i;
  EXPECT_NE(text.find("qvel=\""), std::string::npos) << text;

  // one joint alone: the keyframe's of the others
  const Task one = MakeFit(Film([](const std::string& name) { return name == "qpos[shoulder]"; }));
  const DataPtr pose = MakeDataAtKey(model_.get(), "pose");
  for (int i = 0; i < 11; ++i) {
    if (i != 9) {
      EXPECT_EQ(one.x0[13 + i], pose->qvel[i]) << i;
    }
  }
  EXPECT_EQ(one.x0[13 + 9], begun[9]);

  // where all velocities are there none is written
  EXPECT_EQ(WriteFitTask(kZoo, {.motion = Film([](const std::string&) { return true; }), .parameters = {kDamping}})
                .find("<start file=\"" + folder_.File("film.csv") + "\" qvel"),
            std::string::npos);
}

TEST_F(Fit, TheSlopeOfTheFirstRowsIsThatOfLeastSquares) {
  const auto start = [&](const std::string& rows) {
    return MakeFit(folder_.Write("film.csv", "time,shoulder\n" + rows)).x0[13 + 9];
  };
  EXPECT_NEAR(start("5,.1\n5.1,.3\n5.2,.2"), 0.5, 1e-12);
  EXPECT_NEAR(start("0,.1\n.1,.4\n"), 3, 1e-12);
  // times -.2 … .2 s about the mean, the sixth row counts no more
  EXPECT_NEAR(start("0,.1\n.1,.3\n.2,.2\n.3,.5\n.4,.4\n.5,9"), (-.2 * .1 - .1 * .3 + .1 * .5 + .2 * .4) / .1, 1e-12);
}

// From rest the fit of a sphere that slid off at 2 m/s ends at a loss of 0.7. It jumps wherever a step slides no longer, so
// secants lead L-BFGS astray: at a loss between 1e-3 and 3e-2, as the last bits have it.
TEST_F(Fit, FindsTheFrictionOfWhatSlidesThoughItsVelocityWasNotRecorded) {
  const std::string model = folder_.Write("puck.xml", R"(<mujoco><option timestep=".002" cone="elliptic"/><worldbody>
      <geom name="floor" type="plane" size="5 5 .1" friction=".3"/><body pos="0 0 .05"><freejoint name="f"/>
      <geom name="g" type="sphere" size=".05" mass="1" friction=".3"/></body></worldbody></mujoco>)");
  const ModelPtr truth = LoadModel(model);
  for (int i = 0; i < 2; ++i) truth->geom_friction[3 * i] = 0.5;
  const DataPtr data = MakeData(truth.get());
  data->qvel[0] = 2;
  data->qvel[5] = 1;
  std::ostringstream text;
  text.precision(17);
  text << "time,qpos[f].x,qpos[f].y,qpos[f].z,qpos[f].qw,qpos[f].qx,qpos[f].qy,qpos[f].qz";
  for (int t = 0; t < 400; ++t) {
    text << "\n" << data->time;
    for (int i = 0; i < 7; ++i) text << "," << data->qpos[i];
    mj_step(truth.get(), data.get());
  }
  const Task task = MakeFitTask(model, {.motion = folder_.Write("film.csv", text.str()),
                                        .parameters = {"geom:g/friction[0]", "geom:floor/friction[0]"}});
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  EXPECT_NEAR(task.x0[7], 2, 0.05);
  const DescentResult fitted = Descend(task, parameters.get(), {.method = DescentMethod::kGaussNewton});
  EXPECT_LT(fitted.loss, 1e-4) << fitted.message;
  EXPECT_EQ(fitted.message.find("by way of shorter motions"), std::string::npos) << fitted.message;
  EXPECT_GT(parameters->Get().maxCoeff(), 0.44);  // from 0.3 to 0.5: the greater one counts
  EXPECT_LT(parameters->Get().maxCoeff(), 0.52);
}

// a car on a rail with a pendulum, driven, from a start of its own: rows of positions and velocities
class FitCar : public support::EngineTest {
 protected:
  static constexpr char kCar[] =
      R"(<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody><body><joint name="car"
      type="slide" axis="1 0 0" damping="1" frictionloss=".02"/><geom type="box" size=".1 .08 .04" mass="2"/><body><joint name="sway" axis="0 1 0"
      damping=".005"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.5" mass=".3"/></body></body></worldbody>
      <actuator><motor name="drive" joint="car"/></actuator></mujoco>)";

  DescentResult FitTo(const VectorXd& values, double noise, const std::string& cells) {
    const std::string path = folder_.Write("car.xml", kCar);
    const ModelPtr model = LoadModel(path);
    ParameterSet truth(model.get(), names_);
    truth.Set(values);
    const DataPtr data = MakeData(truth.model());
    std::mt19937 generator(1);
    std::normal_distribution<double> normal;
    std::ostringstream text;
    text.precision(17);
    text << "time," << cells << ",ctrl[drive]";
    for (int t = 0; t < 1000; ++t) {
      if (t % 5 == 0) {
        data->ctrl[0] = 4 * std::sin(0.0034 * t) + 2 * std::sin(0.01 * t + 1);
        text << "\n" << data->time;
        for (int i = 0; i < 2; ++i) text << "," << data->qpos[i] + noise * normal(generator);
        for (int i = 0; i < 2; ++i) text << "," << data->qvel[i] + 10 * noise * normal(generator);
        text << "," << data->ctrl[0];
      }
      mj_step(truth.model(), data.get());
    }
    const Task task = MakeFitTask(path, {.motion = folder_.Write("car.csv", text.str()), .parameters = names_});
    parameters_ = MakeParameters(task);
    begun_ = task.x0;
    return Descend(task, parameters_.get(), {.method = DescentMethod::kGaussNewton});
  }

  const std::vector<std::string> names_ = {"joint:car/damping", "joint:car/frictionloss", "joint:sway/damping"};
  std::unique_ptr<ParameterSet> parameters_;
  VectorXd begun_;
  TemporaryFolder folder_;
};

// Without noise a free start costs no digits, and friction loss that a step takes to 0 on the way comes back.
TEST_F(FitCar, WithoutNoiseAllNumbersAreFoundThoughTheStartIsFree) {
  const Eigen::Vector3d truth(2.5, 0.4, 0.012);
  const DescentResult fitted = FitTo(truth, 0, "car,sway,qvel[car],qvel[sway]");
  EXPECT_LT(fitted.loss, 1e-16) << fitted.message;
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(parameters_->Get()[i], truth[i], 1e-7 * truth[i]) << names_[i];
}

// Noise of the first row, held as the truth, would be explained by what is fitted: of 200 rows damping and friction are
// found to some percent.
TEST_F(FitCar, NoiseOfTheFirstRowIsNotTakenForTheStart) {
  const Eigen::Vector3d truth(2.5, 0.4, 0.012);
  const DescentResult fitted = FitTo(truth, 0.002, "car,sway,qvel[car],qvel[sway]");
  EXPECT_LT(fitted.x0.norm(), 0.3 * begun_.norm());  // the true start is 0
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(parameters_->Get()[i], truth[i], 0.05 * truth[i]) << names_[i];
}

// A box that slides: at friction below 1e-5 nothing changes any more, and a step that went there would stay. The start
// is free, and its place above the floor would go astray before friction is known.
TEST_F(Fit, FindsTheFrictionBeyondWhichAStepGoesToNone) {
  const std::string path = folder_.Write("box.xml", R"(<mujoco><option timestep=".002" cone="elliptic"/><worldbody>
      <geom type="plane" size="5 5 .1" friction="0"/><body pos="0 0 .0499"><joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/><geom name="g" type="box" size=".05 .05 .05" mass="1" friction=".8"/></body>
      </worldbody></mujoco>)");
  const ModelPtr truth = LoadModel(path);
  truth->geom_friction[3] = 0.05;
  const DataPtr data = MakeData(truth.get());
  data->qvel[0] = 1;
  std::ostringstream text;
  text.precision(17);
  text << "time,x,z,qvel[x],qvel[z]";
  for (int t = 0; t < 300; ++t) {
    text << "\n"
         << data->time << "," << data->qpos[0] << "," << data->qpos[1] << "," << data->qvel[0] << "," << data->qvel[1];
    mj_step(truth.get(), data.get());
  }
  const Task task =
      MakeFitTask(path, {.motion = folder_.Write("film.csv", text.str()), .parameters = {"geom:g/friction[0]"}});
  EXPECT_EQ(task.inputs.start.size(), 4u);
  const std::unique_ptr<ParameterSet> parameters = MakeParameters(task);
  const DescentResult fitted = Descend(task, parameters.get(), {.method = DescentMethod::kGaussNewton});
  EXPECT_LT(fitted.loss, 1e-18) << fitted.message;
  EXPECT_NEAR(parameters->Get()[0], 0.05, 1e-9);
}

// rows that a recorder has lost: what is compared in between is no measurement
TEST_F(Fit, NamesAGapInTheRecording) {
  std::string rows = "time,shoulder,extend", whole = rows;
  for (int i = 0; i <= 40; i++) {
    const std::string row = fmt::format("\n{:.2f},{:.4f},0.02", 0.01 * i, 0.1 + 0.001 * i);
    whole += row;
    if (i < 12 || i > 25) rows += row;
  }
  const auto says = [&](const Task& task) {
    return std::any_of(task.warnings.begin(), task.warnings.end(), [](const std::string& text) {
      return text.find("no rows between 0.11 s and 0.26 s, one each 0.01 s elsewhere") != std::string::npos;
    });
  };
  EXPECT_TRUE(says(MakeFit(folder_.Write("lost.csv", rows))));
  EXPECT_FALSE(says(MakeFit(folder_.Write("whole.csv", whole))));
}

bool Warns(const Task& task, const std::string& text) {
  return std::ranges::any_of(task.warnings, [&](const std::string& said) { return said.find(text) != said.npos; });
}

// columns in other units than the engine's are brought into them, and it is told
TEST_F(Fit, TakesUnitsOutOfTheNumbers) {
  const std::string rows = "\n0,10,20,90\n10,20,40,45\n20,30,50,0";
  const Task task =
      MakeFit(folder_.Write("film.csv", "time (ms),shoulder (deg),extend [mm],qvel[shoulder] (deg/s)" + rows));
  EXPECT_NEAR(task.x0[11], mjPI / 18, 1e-15);
  EXPECT_NEAR(task.x0[12], 0.02, 1e-15);
  EXPECT_NEAR(task.x0[13 + 9], mjPI / 2, 1e-15);
  EXPECT_NEAR(task.N * task.substeps * task.model->opt.timestep, 0.02, 1e-12);
  EXPECT_TRUE(Warns(task, "time from ms, shoulder from deg, extend from mm and qvel[shoulder] from deg/s"));
  const Task plain = MakeFit(folder_.Write("film.csv", "time (s),shoulder (left),extend (m)\n0,.1,.02\n.1,.2,.03"));
  EXPECT_EQ(plain.x0[11], 0.1);
  EXPECT_FALSE(Warns(plain, " from "));
  EXPECT_TRUE(Warns(plain, "behind shoulder (left) is no unit that is known here"));
  EXPECT_ERROR(MakeFit(folder_.Write("film.csv", "time,sensor[imu].0 (g)\n0,1\n1,2")), ErrorCode::kParse,
               "film.csv:1: column 'sensor[imu].0' is in g, which may be grams or gravity");
}

TEST_F(Fit, NamesTheEntriesThatAreMissingBesideOthers) {
  const std::string rows = "\n0,1,2,3,.1\n.1,1,2,3,.2";
  const std::string place = "qpos[root].x,qpos[root].y,qpos[root].z";
  const Task task = MakeFit(folder_.Write("film.csv", "time," + place + ",shoulder" + rows));
  EXPECT_TRUE(Warns(task, "it has qpos[root].x, qpos[root].y and qpos[root].z, but not qpos[root].qw"));
  EXPECT_ERROR(MakeFit(folder_.Write("film.csv", "time," + place + "\n0,1,2,3\n.1,1,2,3")), ErrorCode::kInvalidArgument,
               "no position, velocity or sensor of model 'zoo' to compare: it has qpos[root].x");
}

TEST_F(Fit, TellsOfAnglesThatWereBroughtBackToATurn) {
  std::string rows = "time,shoulder,extend", whole = rows;
  for (int i = 0; i <= 40; i++) {
    const double angle = 0.2 * i;
    whole += fmt::format("\n{:.2f},{:.6f},{:.6f}", 0.01 * i, angle, angle);
    rows += fmt::format("\n{:.2f},{:.6f},{:.6f}", 0.01 * i, std::remainder(angle, 2 * mjPI),
                        std::remainder(angle, 2 * mjPI));
  }
  EXPECT_TRUE(Warns(MakeFit(folder_.Write("film.csv", rows)), "shoulder jumps by 6.08 rad between 0.15 s and 0.16 s"));
  EXPECT_FALSE(Warns(MakeFit(folder_.Write("film.csv", rows)), "extend jumps"));  // it slides
  EXPECT_FALSE(Warns(MakeFit(folder_.Write("film.csv", whole)), "jumps"));
}

TEST_F(Fit, TakesWhatIsThere) {
  // joints by their names alone; the actuator of that name is none of it
  const std::string film = folder_.Write("bare.csv", "time,shoulder,extend,mood\n0,.1,.02,1\n.1,.3,.05,2\n.2,.2,.04,3");
  const Task task = MakeFit(film);
  EXPECT_EQ(task.N, 2);
  EXPECT_EQ(task.substeps, 50);
  EXPECT_EQ(task.x0[11], 0.1);
  EXPECT_EQ(task.x0[12], 0.02);
  EXPECT_EQ(task.x0[0], 0.3);  // the keyframe's
  ASSERT_EQ(task.warnings.size(), 2u);
  EXPECT_NE(task.warnings[0].find("of its columns nothing takes mood"), std::string::npos) << task.warnings[0];
  EXPECT_NE(task.warnings[1].find("no controls (columns such as ctrl[shoulder])"), std::string::npos);
  EXPECT_NE(task.text.find("not used of the motion: mood"), std::string::npos);
  ASSERT_EQ(Terms(task).size(), 1u);
  EXPECT_EQ(Terms(task)[0].size(), 2);

  const std::string controls = folder_.Write("u.csv", "time,shoulder,extend,pull\n0,.1,.2,.3\n.1,.3,.2,.1");
  const Task driven = MakeFitTask(kZoo, {.motion = film, .controls = controls, .parameters = {kDamping}});
  EXPECT_TRUE(MatricesNear(driven.U_guess.col(1), Eigen::Vector3d(0.3, 0.2, 0.1), 1e-15));

  // the file of the task names the others from where it is
  EXPECT_NE(
      WriteFitTask(kZoo, {.motion = film, .parameters = {kDamping}}, folder_.path().string()).find("\"file:bare.csv\""),
      std::string::npos);
}

TEST_F(Fit, SaysWhatIsMissing) {
  const auto fit = [&](const std::string& motion) { return MakeFit(folder_.Write("film.csv", motion)); };
  EXPECT_ERROR(fit("shoulder,extend\n1,2\n2,3"), ErrorCode::kInvalidArgument, "film.csv has no column 'time'");
  EXPECT_ERROR(fit("0,1\n1,2"), ErrorCode::kInvalidArgument, "has no header", "qpos[root]");
  EXPECT_ERROR(fit("time;shoulder\n0;0,1\n0,1;0,2"), ErrorCode::kParse, "film.csv:1", "separated by ';'");
  EXPECT_ERROR(fit("time,mood\n0,1\n1,2"), ErrorCode::kInvalidArgument,
               "no position, velocity or sensor of model 'zoo'");
  EXPECT_ERROR(fit("time,shoulder\n0,1"), ErrorCode::kInvalidArgument, "no two rows of increasing times");
  EXPECT_ERROR(fit("time,shoulder\n0,1\n.001,1"), ErrorCode::kInvalidArgument, "lasts 0.001 s");
  EXPECT_ERROR(fit("time,shoulder,ctrl[shoulder]\n0,1,0\n.1,1,0"), ErrorCode::kInvalidArgument,
               "has no column 'ctrl[extend]', but some of the other controls");
  EXPECT_ERROR(fit("time,shoulder\n0,1\n.1,\n.2,3"), ErrorCode::kParse, "film.csv:3", "empty");
  EXPECT_ERROR(fit("time,shoulder\n0,1\n.1,2\n.2,"), ErrorCode::kParse, "film.csv:4",
               "'shoulder' is empty or nan in the last");
  EXPECT_ERROR(MakeFitTask(kZoo, {.motion = folder_.File("film.csv")}), ErrorCode::kInvalidArgument,
               "such as joint:NAME/damping", "joint:  root, neck, shoulder");
  EXPECT_ERROR(MakeFitTask(kZoo, {.motion = folder_.File("film.csv"), .parameters = {"joint:sholder/damping"}}),
               ErrorCode::kInvalidArgument, "did you mean 'shoulder'");
  EXPECT_ERROR(MakeFitTask(kZoo, {.motion = folder_.File("none.csv"), .parameters = {kDamping}}), ErrorCode::kFile,
               "none.csv");
}

// Joints whose names mean something else in a task file go by number.
TEST_F(Fit, NamesJointsByNumberWhereTheirNameIsNone) {
  const std::string model = folder_.Write("odd.xml", R"(<mujoco><worldbody><body><joint name="left knee"/>
      <geom size=".1" pos=".3 0 0"/><body pos=".3 0 0"><joint name="3"/><geom size=".1" pos=".3 0 0"/><body pos=".3 0 0"><joint/>
      <geom size=".1" pos=".3 0 0"/></body></body></body></worldbody></mujoco>)");
  const std::string film =
      folder_.Write("film.csv", "time,left knee,qpos[3],qvel[3],qvel[joint 2]\n0,.1,.2,.3,.4\n.1,.2,.3,.4,.5");
  const std::string text = WriteFitTask(model, {.motion = film, .parameters = {"option/gravity[2]"}});
  EXPECT_NE(text.find("qpos=\"0 1\""), std::string::npos) << text;
  EXPECT_NE(text.find("qvel=\"1 2\""), std::string::npos) << text;

  // and it can be read: of the positions that of the last is held, the velocity of the left knee begins at 0.1 in 0.1 s
  const Task task = ParseTask(text, model);
  EXPECT_EQ(task.inputs.start, (std::vector<int>{0, 1, 3, 4, 5}));
  EXPECT_TRUE(MatricesNear(task.x0.tail(3), Eigen::Vector3d(1, 0.3, 0.4), 1e-12));
}

// Floating bases have mostly a joint without name.
TEST_F(Fit, ComparesFreeJointsWithoutName) {
  const std::string model = folder_.Write("base.xml", R"(<mujoco><worldbody><body pos="0 0 1"><freejoint/>
      <geom size=".1"/><body pos=".3 0 0"><joint name="knee"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody></mujoco>)");
  std::string names = "time";
  for (const char* entry : {"x", "y", "z", "qw", "qx", "qy", "qz"}) names += std::string(",qpos[joint 0].") + entry;
  const auto text = [&](const std::string& further, const std::string& row) {
    const std::string film =
        folder_.Write("film.csv", names + further + "\n0,0,0,1,1,0,0,0" + row + "\n.1,.2,.1,.9,0,1,0,0" + row + "\n");
    return MakeFitTask(model, {.motion = film, .parameters = {"option/gravity[2]"}});
  };
  const Task alone = text("", "");
  ASSERT_EQ(Terms(alone).size(), 1u);
  EXPECT_EQ(Terms(alone)[0].size(), 6);
  EXPECT_TRUE(alone.warnings.empty()) << alone.warnings[0];

  // and its velocities are those that were recorded
  const Task moving = text(
      ",qpos[knee],qvel[joint 0].vx,qvel[joint 0].vy,qvel[joint 0].vz,qvel[joint 0].wx,qvel[joint 0].wy,qvel[joint "
      "0].wz",
      ",.1,1,2,3,4,5,6");
  ASSERT_EQ(Terms(moving).size(), 2u);
  EXPECT_EQ(Terms(moving)[0].size(), 7);
  EXPECT_EQ(Terms(moving)[1].size(), 6);
  EXPECT_EQ(moving.inputs.start.size(), 14u);
  EXPECT_EQ(moving.x0.tail(7)[3], 4);
}

TEST_F(Fit, AStartIsTheFirstRowOfAFile) {
  const auto start = [&](const std::string& csv, const std::string& attributes = "") {
    return LoadZooTask("<start " + attributes + " file='" + folder_.Write("start.csv", csv) + "'/><cost ctrl='all'/>")
        .x0;
  };
  const VectorXd x =
      start("qpos[neck].qw,qpos[neck].qx,qpos[neck].qy,qpos[neck].qz,shoulder,qvel[shoulder]\n0,2,0,0,.4,.5",
            "key='pose' qvel='0 0 0 0 0 0 0 0 0 .7 0'");
  EXPECT_TRUE(MatricesNear(x.segment<6>(7), Eigen::Matrix<double, 6, 1>(0, 1, 0, 0, 0.4, 0.07), 1e-15));
  EXPECT_EQ(x[13 + 9], 0.7);  // numbers stand above the file
  EXPECT_ERROR(start("qpos[neck].qw,qpos[neck].qx\n1,0"), ErrorCode::kParse, "has qpos[neck].qw, but not qpos[neck].qy",
               "<start>");
  EXPECT_ERROR(start("shoulder,extend\n,2"), ErrorCode::kParse, "start.csv:2", "column 1 is empty");
  EXPECT_ERROR(start("mood\n1"), ErrorCode::kParse, "no column of the state", "qpos[root].x or");
}

}  // namespace
}  // namespace costate
