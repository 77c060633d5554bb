// What a long motion's gradient takes of the machine's memory, by the system's count; the full length is
// benchmark_gradient_memory.
#include <costate/adjoint.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/peak_memory.h"

namespace costate {
namespace {

constexpr double kMiB = 1 << 20;

class Speed final : public Loss {
 public:
  explicit Speed(const mjModel* model) : nq_(static_cast<int>(model->nq)), nv_(static_cast<int>(model->nv)) {}
  double Value(const KnotView& k) const override { return 5e-4 * k.x.segment(nq_, nv_).squaredNorm(); }
  void Gradient(const KnotView& k, KnotGradient* out) const override {
    out->x.segment(nv_, nv_) = 1e-3 * k.x.segment(nq_, nv_);
  }
  bool NeedsSensors() const override { return false; }

 private:
  int nq_, nv_;
};

TEST(GradientMemory, FewStatesCarryALongMotion) {
  // a hundred thousand steps of the humanoid within 64 MiB, to scale: controls and gradient (3.2 MiB), states, health,
  // worker
  constexpr int kSteps = 10000;
  const ModelPtr model = LoadModel(std::string(COSTATE_MODELS) + "/humanoid/humanoid.xml");
  const DataPtr data = MakeDataAtKey(model.get(), "stand");
  const VectorXd context = GetContext(model.get(), data.get()), x0 = GetState(model.get(), data.get());
  const Speed loss(model.get());

  // pages of the program that a gradient touches first are no memory of this motion's
  RolloutGradient one;
  Adjoint(model.get(), context).Gradient(x0, MatrixXd::Zero(model->nu, 1), loss, {}, &one);
  const bool reset = support::ResetPeak();
  const double before = reset ? support::ResidentBytes() : support::PeakBytes();
  MatrixXd U(model->nu, kSteps);
  for (int t = 0; t < kSteps; t++) {
    for (int i = 0; i < model->nu; i++) U(i, t) = data->ctrl[i] + 0.02 * std::sin(0.01 * t + i);
  }
  Adjoint adjoint(model.get(), context);
  RolloutGradient few;
  const std::size_t memory = static_cast<std::size_t>(0.5 * kMiB);
  adjoint.Gradient(x0, U, loss, {.memory = memory}, &few);
  const double peak = support::PeakBytes() - before;
  ASSERT_TRUE(few.status.ok());
  EXPECT_GT(peak,
            8.0 * static_cast<double>(U.size()));  // the count counts, though the system may page out what is idle
  EXPECT_LT(peak, 5 * kMiB);
  EXPECT_LE(few.kept_bytes, memory);
  EXPECT_LT(few.recomputed, kSteps);  // every knot once more at most

  // and it is the same gradient
  RolloutGradient all;
  adjoint.Gradient(x0, U, loss, {}, &all);
  EXPECT_EQ(few.U, all.U);
  EXPECT_EQ(few.x0, all.x0);
  EXPECT_GT(all.kept_bytes, 10 * few.kept_bytes);
}

}  // namespace
}  // namespace costate
