// After the first call a derivative allocates nothing: counted in malloc itself.
#include <costate/derivative.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
}

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

extern "C" void* malloc(std::size_t size) {
  allocations += counting;
  return __libc_malloc(size);
}
extern "C" void* calloc(std::size_t count, std::size_t size) {
  allocations += counting;
  return __libc_calloc(count, size);
}
extern "C" void* realloc(void* old, std::size_t size) {
  allocations += counting;
  return __libc_realloc(old, size);
}

namespace costate {
namespace {

template <typename Call>
int Allocations(const Call& call) {
  call();
  call();
  allocations = 0;
  counting = true;
  call();
  counting = false;
  return allocations;
}

TEST(Allocation, IsCounted) {
  volatile int size = 100;
  EXPECT_EQ(Allocations([&] { VectorXd(static_cast<int>(size)).setZero(); }), 1);
}

// legs in contact, limits and friction loss, tendons, activations, sensors of all stages
class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, IsOverAfterTheFirstCall) {
  const ModelPtr model = LoadModel(std::string(COSTATE_MODELS "/") + GetParam());
  const DataPtr data = MakeData(model.get());
  if (model->nkey > 0) mj_resetDataKeyframe(model.get(), data.get(), 0);
  for (int i = 0; i < 200; i++) mj_step(model.get(), data.get());
  const VectorXd x = GetState(model.get(), data.get()), u = Eigen::Map<const VectorXd>(data->ctrl, model->nu);
  for (const bool sensors : {false, true}) {
    Linearizer linearizer(model.get(), {.level = Level::kAnalytic, .sensors = sensors});
    linearizer.SetContext(GetContext(model.get(), data.get()));
    StepDerivative derivative;
    EXPECT_EQ(Allocations([&] { linearizer.Linearize(x, u, &derivative); }), 0) << "sensors: " << sensors;
    ASSERT_EQ(derivative.status, StepStatus::kOk);
    StepVjp vjp;
    const VectorXd lambda = VectorXd::Ones(x.size() - model->nq + model->nv);
    EXPECT_EQ(Allocations([&] { linearizer.Vjp(x, u, lambda, &vjp, true); }), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest,
                         ::testing::Values("arm/arm.xml", "hopper/hopper.xml", "quadrotor/quadrotor.xml",
                                           "quadruped/quadruped.xml", "humanoid/humanoid.xml", "box_push/box_push.xml",
                                           "bouncing_ball/bouncing_ball.xml"));

}  // namespace
}  // namespace costate
#endif
