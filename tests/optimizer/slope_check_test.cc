// Costs and constraints whose slopes do not fit their values are told by name; those of the task files fit.
#include <costate/slope_check.h>
#include <costate/task.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/engine_test.h"
#include "support/task_file.h"

namespace costate {
namespace {

using SlopeCheckTest = support::EngineTest;

constexpr char kSlider[] = R"(<mujoco><option timestep="0.05" gravity="0 0 0"/>
  <worldbody><body><joint name="rail" type="slide" axis="1 0 0"/><joint name="turn" axis="0 0 1"/>
    <geom size="0.1" mass="1"/><site name="tip" pos="0.3 0 0"/></body></worldbody>
  <actuator><motor name="push" joint="rail"/></actuator>
  <sensor><framepos name="tip" objtype="site" objname="tip"/></sensor></mujoco>)";

// l = x·x/2 + u³/3 + s_0² and |x_0| where that is wanted; at the end (x_N,0 - x_0,0)² as well
class StatedCost final : public Cost {
 public:
  double Value(const KnotView& k) const override {
    double l = 0.5 * k.x.squaredNorm() + k.s[0] * k.s[0] + corner * std::abs(k.x[0]);
    if (k.t < k.N) l += k.u.array().cube().sum() / 3;
    if (k.t == k.N) l += std::pow(k.x[0] - k.start[0], 2);
    return l;
  }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x = k.x;
    out->x[0] += corner * (k.x[0] < 0 ? -1 : 1);
    if (k.t < k.N) out->u = k.u.array().square();
    if (k.t == k.N) out->x[0] += 2 * (k.x[0] - k.start[0]);
    out->s[0] = 2 * k.s[0];
    change_gradient(out);
  }
  void Expand(const KnotView& k, ConstMatrixRef C, ConstMatrixRef D, CostExpansion* out) const override {
    const bool last = k.t == k.N;
    out->l = Value(k);
    out->lx = k.x + 2 * k.s[0] * C.row(0).transpose();
    out->lx[0] += corner * (k.x[0] < 0 ? -1 : 1);
    out->lu = last ? VectorXd() : VectorXd(VectorXd(k.u.array().square()) + 2 * k.s[0] * D.row(0).transpose());
    out->l0 = VectorXd();
    if (last) {
      out->lx[0] += 2 * (k.x[0] - k.start[0]);
      out->l0 = VectorXd::Zero(k.x.size());
      out->l0[0] = -2 * (k.x[0] - k.start[0]);
    }
    change_expansion(out);
  }
  bool NeedsSensors() const override { return true; }
  void MarkSensors(std::vector<char>* read) const override { (*read)[0] = marks; }
  std::vector<CostTermValue> Terms(const Trajectory&) const override { return {}; }

  double corner = 0;
  bool marks = true;
  std::function<void(KnotGradient*)> change_gradient = [](KnotGradient*) {};
  std::function<void(CostExpansion*)> change_expansion = [](CostExpansion*) {};
};

// (x_0 u_0, s_1 + x_0²), and at the end (x_0 of the start, s_1 + x_0²)
class StatedConstraint final : public Constraint {
 public:
  StatedConstraint()
      : Constraint({.name = "pair",
                    .unit = "",
                    .components = {"product", "height"},
                    .lower = VectorXd::Zero(2),
                    .upper = VectorXd::Ones(2)}) {}
  void Value(const KnotView& k, VectorXd* c) const override {
    *c << (k.t < k.N ? k.x[0] * k.u[0] : k.start[0]), k.s[1] + k.x[0] * k.x[0];
  }
  void Jacobian(const KnotView& k, ConstMatrixRef C, ConstMatrixRef D, MatrixXd* J, MatrixXd* Ju) const override {
    J->setZero(2, C.cols());
    J->row(1) = C.row(1);
    (*J)(1, 0) += 2 * k.x[0];
    Ju->setZero(2, k.u.size());
    if (k.t < k.N) {
      (*J)(0, 0) = k.u[0];
      Ju->row(1) = D.row(1);
      (*Ju)(0, 0) += k.x[0];
    }
    change_jacobian(J, Ju);
  }
  bool ReadsStart() const override { return reads_start; }
  void StartJacobian(const KnotView& k, MatrixXd* J0) const override {
    J0->setZero(2, k.x.size());
    (*J0)(0, 0) = 1;
  }
  void PullBack(const KnotView& k, ConstVectorRef g, KnotGradient* out) const override {
    out->x[0] += 2 * k.x[0] * g[1] * pull;
    out->s[1] += g[1];
    if (k.t == k.N) return;
    out->x[0] += k.u[0] * g[0];
    out->u[0] += k.x[0] * g[0];
  }
  bool NeedsSensors() const override { return true; }

  bool reads_start = true;
  double pull = 1;
  std::function<void(MatrixXd*, MatrixXd*)> change_jacobian = [](MatrixXd*, MatrixXd*) {};
};

struct Slider {
  Slider() : model(LoadModelFromString(kSlider)) {
    const DataPtr data = MakeData(model.get());
    auto own = std::make_unique<StatedConstraint>();
    constraint = own.get();
    constraints.Add(std::move(own));
    problem = {.model = model.get(),
               .cost = &cost,
               .x0 = VectorXd::LinSpaced(4, 0.2, 0.8),
               .context = GetContext(model.get(), data.get()),
               .N = 4,
               .substeps = 1,
               .u_lower = VectorXd::Constant(1, -INFINITY),
               .u_upper = VectorXd::Constant(1, INFINITY),
               .constraints = &constraints};
  }
  SlopeCheck Check() const { return CheckSlopes(problem, MatrixXd::Constant(1, 4, 0.7)); }

  ModelPtr model;
  StatedCost cost;
  ConstraintSet constraints;
  StatedConstraint* constraint;
  Problem problem;
};

// the worst of what does not fit
void ExpectWorst(const SlopeCheck& check, const std::string& slope, const std::string& input, std::size_t count) {
  ASSERT_EQ(check.wrong.size(), count) << check.Text();
  EXPECT_EQ(check.wrong[0].slope, slope);
  EXPECT_EQ(check.wrong[0].input, input);
}

TEST_F(SlopeCheckTest, SlopesThatFitAreCounted) {
  const SlopeCheck check = Slider().Check();
  EXPECT_TRUE(check.agrees()) << check.Text();
  EXPECT_GT(check.judged, 100);
  EXPECT_EQ(check.Text().substr(0, 4), "all ");
}

TEST_F(SlopeCheckTest, AHundredthTooMuchIsTold) {
  Slider expansion;
  expansion.cost.change_expansion = [](CostExpansion* e) { e->lx[2] *= 1.01; };
  ExpectWorst(expansion.Check(), "lx", "qvel[rail]", 5);
  Slider control;
  control.cost.change_expansion = [](CostExpansion* e) { e->lu *= 1.01; };
  ExpectWorst(control.Check(), "lu", "ctrl[push]", 4);
  Slider gradient;
  gradient.cost.change_gradient = [](KnotGradient* g) { g->s[0] *= 1.01; };
  ExpectWorst(gradient.Check(), "Gradient by s", "sensor[tip].0", 5);
  Slider jacobian;
  jacobian.constraint->change_jacobian = [](MatrixXd* J, MatrixXd*) { (*J)(1, 0) *= 1.01; };
  ExpectWorst(jacobian.Check(), "constraint 'pair': J, of 'height'", "qpos[rail]", 5);
  Slider pull;
  pull.constraint->pull = 1.01;
  ExpectWorst(pull.Check(), "constraint 'pair': PullBack by x", "qpos[rail]", 5);
}

TEST_F(SlopeCheckTest, WhatIsLeftOutIsTold) {
  Slider start;
  start.constraint->reads_start = false;
  ExpectWorst(start.Check(), "constraint 'pair': J0, of 'product'", "start qpos[rail]", 1);
  Slider tied;
  tied.cost.change_expansion = [](CostExpansion* e) { e->l0 = VectorXd(); };
  ExpectWorst(tied.Check(), "l0", "start qpos[rail]", 1);

  // a sensor that is read and not marked: all of its part is missing
  Slider unmarked;
  unmarked.cost.marks = false;
  const SlopeCheck check = unmarked.Check();
  EXPECT_EQ(check.wrong.size(), 10u) << check.Text();  // by two positions at five knots
  EXPECT_EQ(check.wrong[0].slope.substr(0, 1), "l");
}

TEST_F(SlopeCheckTest, ANanIsWrongAndACornerIsRough) {
  Slider nan;
  nan.cost.change_expansion = [](CostExpansion* e) { e->lx[1] = NAN; };
  const SlopeCheck check = nan.Check();
  ExpectWorst(check, "lx", "qpos[turn]", 5);
  EXPECT_TRUE(std::isnan(check.wrong[0].stated));

  Slider corner;
  corner.cost.corner = 1;
  EXPECT_TRUE(corner.Check().agrees());
  corner.problem.x0[0] = 0;
  const SlopeCheck at = corner.Check();
  EXPECT_TRUE(at.agrees()) << at.Text();
  EXPECT_GT(at.rough, Slider().Check().rough);
}

// there is no slope of a value that is none, and where nothing was compared nothing fits
TEST_F(SlopeCheckTest, WhatCannotBeComparedDoesNotFit) {
  Slider slider;
  slider.cost.corner = INFINITY;
  try {
    slider.Check();
    FAIL() << "an infinite value was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the value at knot 0 is inf"), std::string::npos) << error.what();
  }

  struct Constant final : Loss {
    double Value(const KnotView&) const override { return 3; }
    void Gradient(const KnotView&, KnotGradient*) const override {}
    bool NeedsSensors() const override { return false; }
  };
  const Slider still;
  Trajectory motion;
  ASSERT_TRUE(Simulator(still.model.get(), still.problem.context, 1, 1)
                  .Rollout(still.problem.x0, MatrixXd::Zero(1, 4), &motion)
                  .ok());
  const SlopeCheck check = CheckSlopes(still.model.get(), Constant(), motion, 0.05);
  EXPECT_EQ(check.agrees(), check.judged > 0) << check.Text();
  SlopeCheck nothing;
  nothing.rough = 12;
  EXPECT_FALSE(nothing.agrees());
  EXPECT_EQ(nothing.Text(), "no slope was compared: all 12 are rough");
}

TEST_F(SlopeCheckTest, AnotherSizeIsRefused) {
  Slider slider;
  slider.cost.change_expansion = [](CostExpansion* e) { e->lx = VectorXd::Zero(3); };
  try {
    slider.Check();
    FAIL() << "a slope too short was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDimensionMismatch);
    EXPECT_STREQ(error.what(), "lx at knot 0: slopes are 1 x 3, expected 1 x 4");
  }
}

TEST_F(SlopeCheckTest, AMotionWithoutSensorsIsRefused) {
  const Slider slider;
  Simulator simulator(slider.model.get(), slider.problem.context, 1, 1);
  Trajectory motion;
  ASSERT_TRUE(simulator.Rollout(slider.problem.x0, MatrixXd::Zero(1, 4), &motion).ok());
  EXPECT_TRUE(CheckSlopes(slider.model.get(), *slider.constraint, motion, 0.05).agrees());
  motion.S.resize(0, 0);
  EXPECT_THROW(CheckSlopes(slider.model.get(), slider.cost, motion, 0.05), Error);
  EXPECT_THROW(CheckSlopes(slider.model.get(), *slider.constraint, motion, 0.05), Error);
}

TEST_F(SlopeCheckTest, TheCostsAndConstraintsOfTaskFilesFit) {
  const std::vector<std::string> files = support::TaskFiles(COSTATE_MODELS);
  EXPECT_GT(files.size(), 20u);
  for (const std::string& file : files) {
    const Task task = LoadTask(file);
    Problem problem = task.ToProblem();
    problem.N = std::min(task.N, 8);  // a few knots of the beginning, and an end
    const SlopeCheck check = CheckSlopes(problem, task.U_guess.leftCols(problem.N));
    EXPECT_TRUE(check.agrees()) << file << ": " << check.Text();
    EXPECT_GT(check.judged, problem.N) << file;
  }
}

}  // namespace
}  // namespace costate
