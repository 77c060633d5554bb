// Drops a ball through the installed library.
#include <costate/model.h>
#include <costate/step.h>

#include <cstdio>

int main() {
  const auto model = costate::LoadModelFromString(
      "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  const auto data = costate::MakeData(model.get());
  costate::VectorXd x = costate::GetState(model.get(), data.get()), none;
  const auto status = costate::Step(model.get(), data.get(), x, none, 50, x, none);
  std::printf("%s %.4f\n", costate::ToString(status), x[2]);
}
