// Averaged gradients: closed forms of Gaussian averages, differences of the average with the same draws, threads, bad
// input.
#include <costate/bundle.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "rollout/bundle_statistics.h"
#include "rollout/square_loss.h"
#include "support/engine_test.h"

namespace costate {
namespace {

// 1 past a threshold of the last state's first entry: no slope anywhere
class PastThreshold final : public Loss {
 public:
  explicit PastThreshold(double threshold) : threshold_(threshold) {}
  double Value(const KnotView& k) const override { return k.t == k.N && k.x[0] > threshold_ ? 1 : 0; }
  void Gradient(const KnotView&, KnotGradient*) const override {}
  bool NeedsSensors() const override { return false; }

 private:
  double threshold_;
};

// a fixed covector on the last quaternion, and its slope by the tangent
class TurnedTo final : public Loss {
 public:
  double Value(const KnotView& k) const override { return k.t == k.N ? c_.dot(k.x.head<4>()) : 0; }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    if (k.t < k.N) return;
    const Eigen::Vector4d q = k.x.head<4>();
    for (int i = 0; i < 3; i++) {  // d/dε q exp(ε e_i) = ½ q e_i
      Eigen::Vector4d axis = Eigen::Vector4d::Zero(), turned;
      axis[i + 1] = 0.5;
      mju_mulQuat(turned.data(), q.data(), axis.data());
      out->x[i] = c_.dot(turned);
    }
  }
  bool NeedsSensors() const override { return false; }

 private:
  Eigen::Vector4d c_{0.3, -0.8, 0.5, 0.4};
};

constexpr char kCart[] =
    "<mujoco><option timestep='.1'/><worldbody><body><joint name='x' type='slide' axis='1 0 0' damping='.5'/>"
    "<geom size='.1' mass='2'/></body></worldbody><actuator><motor joint='x'/></actuator></mujoco>";
constexpr char kTurning[] =
    "<mujoco><option timestep='.02' gravity='0 0 0'/><worldbody><body><joint name='socket' type='ball' damping='.01'/>"
    "<geom type='box' size='.1 .2 .3' pos='.1 0 .1' mass='1'/></body></worldbody></mujoco>";

struct Start {
  explicit Start(const char* xml) : model(LoadModelFromString(xml)), data(MakeData(model.get())) {
    context = GetContext(model.get(), data.get());
    x0 = GetState(model.get(), data.get());
  }
  ModelPtr model;
  DataPtr data;
  VectorXd context, x0;
};

TEST(Bundle, AQuadraticLossHasItsOwnSlopeWithoutScatter) {
  Start s(kCart);
  s.x0 << 0.4, -0.3;
  const MatrixXd U = MatrixXd::Constant(1, 6, 0.7);
  const SquareLoss loss(s.model.get(), 0);
  RolloutGradient exact;
  Adjoint(s.model.get(), s.context).Gradient(s.x0, U, loss, {}, &exact);
  BundleGradient out;
  const BundleOptions options{
      .pairs = 400, .seed = 3, .state = Eigen::Vector2d(0.2, 0.3), .control = VectorXd::Constant(1, 0.5)};
  Bundle(s.model.get(), s.context, 1, 1).Gradient(s.x0, U, loss, options, {}, &out);
  EXPECT_LE((out.first.U - exact.U).norm() + (out.first.x0 - exact.x0).norm(), 1e-12);
  EXPECT_LE(out.first.deviation, 1e-12);
  EXPECT_GE(out.weight, 1 - 1e-6);
  EXPECT_EQ(out.bias, 0);
  const double away = std::sqrt((out.zeroth.U - exact.U).squaredNorm() + (out.zeroth.x0 - exact.x0).squaredNorm());
  EXPECT_GT(out.zeroth.deviation, 0.01 * exact.U.norm());
  EXPECT_LE(away, 2 * out.zeroth.deviation);
  EXPECT_GT(out.loss, exact.loss + out.loss_deviation) << "an average of a convex loss lies above it";
  EXPECT_EQ(out.failed, 0);
}

TEST(Bundle, AJumpHasTheSlopeOfTheNormalDistribution) {
  Start s(kCart);
  s.x0[0] = 0.9;
  s.x0[1] = 0.5;
  const MatrixXd U = MatrixXd::Zero(1, 1);
  // x' = x + h (v + h (u − b v) / (m + h b)): the threshold's distance decides
  const double h = 0.1, c = h * h / (2 + h * 0.5), mean = 0.9 + h * 2 * 0.5 / (2 + h * 0.5), sigma = 0.2,
               threshold = 1.05;
  const double z = (threshold - mean) / sigma, density = std::exp(-0.5 * z * z) / std::sqrt(2 * mjPI) / sigma;
  BundleGradient out;
  const PastThreshold loss(threshold);
  Bundle bundle(s.model.get(), s.context, 1, 2);
  bundle.Gradient(s.x0, U, loss, {.pairs = 4000, .state = Eigen::Vector2d(sigma, 0), .control = {}}, {}, &out);
  EXPECT_EQ(out.first.x0.norm(), 0);
  EXPECT_NEAR(out.zeroth.x0[0], density, 4 * out.zeroth.deviation);
  EXPECT_LT(out.zeroth.deviation, 0.05 * density);
  EXPECT_EQ(out.zeroth.x0[1], 0) << "there is no noise on the velocity";
  EXPECT_NEAR(out.bias, density, 0.1 * density);
  EXPECT_LT(out.weight, 0.01);
  EXPECT_NEAR(out.loss, 0.5 * std::erfc(z / std::sqrt(2)), 4 * out.loss_deviation);

  bundle.Gradient(s.x0, U, loss, {.pairs = 4000, .seed = 9, .state = {}, .control = VectorXd::Constant(1, sigma / c)},
                  {}, &out);
  EXPECT_NEAR(out.zeroth.U(0, 0), density * c, 4 * out.zeroth.deviation);
  EXPECT_LT(out.zeroth.deviation, 0.05 * density * c);
}

// the mean over fixed draws is a function of x0: the first order is its slope
TEST(Bundle, TheFirstOrderIsTheSlopeOfTheMeanOfTheSameDraws) {
  Start s(kTurning);
  s.x0 << 0.8, 0.36, -0.48, 0, 0.5, -1, 2;
  const MatrixXd U(0, 3);
  const TurnedTo loss;
  Bundle bundle(s.model.get(), s.context);
  const BundleOptions options{
      .pairs = 8, .state = (VectorXd(6) << 0.9, 0.9, 0.9, 0.4, 0.4, 0.4).finished(), .control = {}};
  BundleGradient out, plus, minus;
  bundle.Gradient(s.x0, U, loss, options, {}, &out);
  for (int i = 0; i < 6; i++) {
    const double h = 1e-5;
    bundle.Gradient(Retract(s.model.get(), s.x0, h * VectorXd::Unit(6, i)), U, loss, options, {}, &plus);
    bundle.Gradient(Retract(s.model.get(), s.x0, -h * VectorXd::Unit(6, i)), U, loss, options, {}, &minus);
    EXPECT_NEAR(out.first.x0[i], (plus.loss - minus.loss) / (2 * h), 1e-8) << i;
  }
}

// (9) is the slope of −log of the density: normal by the tangent, over the volume 2 (1 − cos t)/t² of a rotation's
TEST(Bundle, ScoresAreSlopesOfTheDensity) {
  const ModelPtr model = LoadModelFromString(
      "<mujoco><worldbody><body><joint type='slide'/><geom size='.1'/></body><body pos='1 0 0'><freejoint/><geom "
      "size='.1'/></body>"
      "<body pos='2 0 0'><joint type='ball'/><geom size='.1'/></body></worldbody></mujoco>");
  BundleOptions o;
  o.state = VectorXd::Constant(2 * model->nv, 0.3);
  o.state.segment<3>(4).setConstant(0.7);
  o.state[0] = 0.05;
  o.state[11] = 0;
  o.control = Eigen::Vector2d(0.5, 2);
  const auto energy = [&](const VectorXd& w) {
    double sum = 0;
    for (int i = 0; i < w.size(); i++) sum += o.state[i] > 0 ? w[i] * w[i] / (2 * o.state[i] * o.state[i]) : 0;
    for (int at : {4, 7}) {
      const double t = w.segment<3>(at).norm();
      sum += std::log(2 * (1 - std::cos(t)) / (t * t));
    }
    return sum;
  };
  for (double size : {0.02, 0.5, 1.5}) {
    srand(4);
    const VectorXd w = size * VectorXd::Random(2 * model->nv), score = StateScore(model.get(), o, w);
    for (int i = 0; i < w.size(); i++) {
      const VectorXd h = 1e-3 * size * VectorXd::Unit(w.size(), i);
      const double slope =
          (8 * (energy(w + h) - energy(w - h)) - (energy(w + 2 * h) - energy(w - 2 * h))) / (12 * h[i]);
      EXPECT_NEAR(score[i], slope, 1e-7 * std::max(1.0, std::abs(slope))) << i << " at " << size;
    }
  }
  // near no rotation its part is −w/6, lost in what else there is: without it
  BundleOptions wide;
  wide.state = VectorXd::Constant(2 * model->nv, 1e4);
  const VectorXd w = VectorXd::Constant(2 * model->nv, 1e-3);
  for (int i = 4; i < 10; i++) EXPECT_NEAR(StateScore(model.get(), wide, w)[i], -1e-3 / 6 + 1e-11, 1e-9);
  const MatrixXd u = MatrixXd::Random(2, 3), score = ControlScore(o, u);
  EXPECT_LE((score.row(0) - u.row(0) / 0.25).norm() + (score.row(1) - u.row(1) / 4).norm(), 1e-12);
}

// (11) and (12), computed once more from sums over the samples
TEST(Bundle, CombinesTheOrdersAsWritten) {
  const int n = 5, size = 4;
  VectorXd noisy(size);
  noisy << 1, 0, 1, 1;
  for (double apart : {0.05, 1.5}) {  // means as far apart as their scatter explains, and farther
    SCOPED_TRACE(apart);
    srand(1);
    const MatrixXd g1 = 0.8 * MatrixXd::Random(size, n), g0 = (MatrixXd::Random(size, n).array() + apart).matrix();
    const BundleStatistics value = Combine(g1, g0, noisy);
    const auto mean = [&](const MatrixXd& g, int i) { return g.row(i).sum() / n; };
    const auto V = [&](const MatrixXd& a, const MatrixXd& b, double mask) {
      double sum = 0;
      for (int i = 0; i < size; i++) {
        for (int s = 0; s < n && noisy[i] == mask; s++) sum += (a(i, s) - mean(a, i)) * (b(i, s) - mean(b, i));
      }
      return sum / (n * (n - 1));
    };
    const double V11 = V(g1, g1, 1), V00 = V(g0, g0, 1), V10 = V(g1, g0, 1), between = V11 + V00 - 2 * V10;
    double distance = 0;
    for (int i = 0; i < size; i++) distance += noisy[i] * std::pow(mean(g1, i) - mean(g0, i), 2);
    const double b2 = apart > 1 ? distance - between : 0, alpha = (V00 - V10) / (b2 + between);
    ASSERT_EQ(distance > 4 * between, apart > 1);
    ASSERT_GT(alpha, 0);
    ASSERT_LT(alpha, 1);
    EXPECT_NEAR(value.bias, std::sqrt(b2), 1e-12);
    EXPECT_NEAR(value.weight, alpha, 1e-12);
    for (int i = 0; i < size; i++) {
      EXPECT_NEAR(value.combined[i], noisy[i] ? alpha * mean(g1, i) + (1 - alpha) * mean(g0, i) : mean(g1, i), 1e-12);
    }
    const double rest = V(g1, g1, 0);
    const double both = alpha * alpha * V11 + (1 - alpha) * (1 - alpha) * V00 + 2 * alpha * (1 - alpha) * V10;
    EXPECT_NEAR(value.first_noisy, std::sqrt(V11), 1e-12);
    EXPECT_NEAR(value.zeroth_deviation, std::sqrt(V00), 1e-12);
    EXPECT_NEAR(value.combined_noisy, std::sqrt(both), 1e-12);
    EXPECT_NEAR(value.first_deviation, std::sqrt(V11 + rest), 1e-12);
    EXPECT_NEAR(value.combined_deviation, std::sqrt(both + rest), 1e-12);
  }
}

// (9) with and without its second part differ by a sixteenth here
TEST(Bundle, TheScoreOfARotationHasTheGroupsVolume) {
  Start s(kTurning);
  s.x0 << 0.8, 0.36, -0.48, 0, 0, 0, 0;
  BundleGradient out;
  VectorXd noise = VectorXd::Zero(6);
  noise.head<3>().setConstant(0.6);
  Bundle(s.model.get(), s.context, 1, 2)
      .Gradient(s.x0, MatrixXd(0, 1), TurnedTo(), {.pairs = 40000, .state = noise, .control = {}}, {}, &out);
  const VectorXd difference = (out.zeroth.x0 - out.first.x0).head<3>();
  EXPECT_LE(difference.norm(), 3 * out.zeroth.deviation);
  EXPECT_LT(3 * out.zeroth.deviation, 0.04 * out.first.x0.norm());
  // the slopes by velocities have no noise, but scatter
  EXPECT_EQ(out.zeroth.noisy_deviation, out.zeroth.deviation);
  EXPECT_LT(out.first.noisy_deviation, out.first.deviation);
  EXPECT_GT(out.first.noisy_deviation, 0);
  const double squares = std::pow(out.combined.deviation, 2) - std::pow(out.combined.noisy_deviation, 2);
  EXPECT_NEAR(squares, std::pow(out.first.deviation, 2) - std::pow(out.first.noisy_deviation, 2), 1e-9 * squares);
}

// as a function of x, the mean velocity over fixed draws has the velocity's rows of the first order as its slope
TEST(Bundle, TheFirstOrderOfAStepIsTheSlopeOfTheMeanOfTheSameDraws) {
  Start s(kTurning);
  s.model->jnt_stiffness[0] = 10;
  s.x0 << 0.8, 0.36, -0.48, 0, 3, -4, 5;
  const BundleOptions options{.pairs = 4, .state = (VectorXd(6) << 0.4, 0.4, 0.4, 1, 2, 3).finished(), .control = {}};
  BundleDerivative out, moved;
  Bundle bundle(s.model.get(), s.context, 4, 1);
  bundle.Linearize(s.x0, VectorXd(), options, &out);
  const auto velocity = [&](const VectorXd& x) -> VectorXd {
    VectorXd next(7), none;
    EXPECT_EQ(Step(s.model.get(), s.data.get(), x, VectorXd(), 4, next, none), StepStatus::kOk);
    bundle.Linearize(x, VectorXd(), options, &moved);
    return next.tail(3) + moved.mean.tail(3);
  };
  const double h = 1e-5;
  for (int i = 0; i < 6; i++) {
    const VectorXd d = h * VectorXd::Unit(6, i);
    const VectorXd slope =
        (velocity(Retract(s.model.get(), s.x0, d)) - velocity(Retract(s.model.get(), s.x0, -d))) / (2 * h);
    EXPECT_LE((out.first.A.col(i).tail(3) - slope).norm(), 1e-7) << i;
  }
}

TEST(Bundle, AveragesStepsAlikeInBothOrders) {
  Start s(kTurning);
  s.x0 << 0.8, 0.36, -0.48, 0, 3, -4, 5;
  BundleDerivative out;
  Bundle bundle(s.model.get(), s.context, 4, 2);
  const VectorXd noise = (VectorXd(6) << 0.7, 0.7, 0.7, 1, 2, 3).finished();
  bundle.Linearize(s.x0, VectorXd(), {.pairs = 20000, .state = noise, .control = {}}, &out);
  const MatrixXd difference = out.first.A - out.zeroth.A;
  EXPECT_LE(difference.norm(), 2 * out.zeroth.deviation);
  EXPECT_LT(2 * out.zeroth.deviation, 0.07 * out.first.A.norm());
  EXPECT_GT((out.first.A - StepDerivative(Linearize(s.model.get(), s.data.get(), {.substeps = 4})).A).norm(), 0.1);
  EXPECT_EQ(out.coverage.Worst(), Level::kAnalytic);
}

// a ball at touch-down: onset is a jump of the force, its average has a slope
TEST(Bundle, TheOnsetOfContactIsBiasOfTheFirstOrder) {
  Start s(
      "<mujoco><option timestep='.002'/><worldbody><geom type='plane' size='1 1 .1'/><body><joint type='slide' axis='0 "
      "0 1'/>"
      "<geom size='.1' mass='1'/></body></worldbody></mujoco>");
  s.x0 << 0.1002, -1;
  BundleDerivative out;
  Bundle(s.model.get(), s.context, 1, 2)
      .Linearize(s.x0, VectorXd(), {.pairs = 2000, .state = Eigen::Vector2d(1e-3, 0), .control = {}}, &out);
  EXPECT_GT(out.bias, 5 * out.zeroth.deviation);
  EXPECT_LT(out.weight, 0.1);
  EXPECT_NEAR(out.combined.A(1, 0), out.zeroth.A(1, 0), 0.1 * std::abs(out.zeroth.A(1, 0)));
}

TEST(Bundle, IsTheSameBitForBitAtAnyNumberOfThreads) {
  Start s(kCart);
  const MatrixXd U = MatrixXd::Constant(1, 5, 0.2);
  const BundleOptions options{
      .pairs = 17, .seed = 5, .state = Eigen::Vector2d(0.2, 0.3), .control = VectorXd::Constant(1, 0.5)};
  BundleGradient one, three, other;
  const SquareLoss loss(s.model.get(), 0);
  Bundle(s.model.get(), s.context, 1, 1).Gradient(s.x0, U, loss, options, {}, &one);
  Bundle(s.model.get(), s.context, 1, 3).Gradient(s.x0, U, loss, options, {}, &three);
  EXPECT_EQ(one.zeroth.U, three.zeroth.U);
  EXPECT_EQ(one.combined.x0, three.combined.x0);
  EXPECT_EQ(one.weight, three.weight);
  BundleOptions reseeded = options;
  reseeded.seed = 6;
  Bundle(s.model.get(), s.context, 1, 3).Gradient(s.x0, U, loss, reseeded, {}, &other);
  EXPECT_NE(one.zeroth.U, other.zeroth.U);
}

// its controls are given, those of a law would be others in each sample
TEST(Bundle, RefusesFeedback) {
  class Law final : public Feedback {
   public:
    int weights() const override { return 0; }
    void Control(const FeedbackInput&, VectorRef u) const override { u.setZero(); }
    void PullBack(const FeedbackInput&, ConstVectorRef, FeedbackGradient*) const override {}
  };
  Start s(kTurning);
  Bundle bundle(s.model.get(), s.context);
  BundleGradient out;
  const Law law;
  try {
    bundle.Gradient(s.x0, MatrixXd(0, 3), SquareLoss(s.model.get(), 0),
                    {.state = VectorXd::Constant(6, 0.1), .control = {}}, {.feedback = &law}, &out);
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("feedback must be off"), std::string::npos) << e.what();
  }
}

TEST(Bundle, RefusesNoiseThatMakesNoSense) {
  Start s(kTurning);
  Bundle bundle(s.model.get(), s.context);
  BundleDerivative out;
  const auto message = [&](const BundleOptions& options) -> std::string {
    try {
      bundle.Linearize(s.x0, VectorXd(), options, &out);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  VectorXd noise = VectorXd::Constant(6, 0.1);
  EXPECT_NE(message({.state = {}, .control = {}}).find("no noise"), std::string::npos);
  EXPECT_NE(message({.pairs = 1, .state = noise, .control = {}}).find("at least 2"), std::string::npos);
  EXPECT_NE(message({.state = noise.head(5), .control = {}}).find("ndx = 6"), std::string::npos);
  noise[1] = 0.2;
  EXPECT_NE(message({.state = noise, .control = {}}).find("socket"), std::string::npos);
  noise[1] = -1;
  EXPECT_NE(message({.state = noise, .control = {}}).find("-1"), std::string::npos);
}

}  // namespace
}  // namespace costate
