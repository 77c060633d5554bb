// No plugin allocates while a model steps: counted in malloc itself.
#include <costate/record.h>
#include <gtest/gtest.h>

#include "engine/plugin_config.h"
#include "support/count_allocations.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

class PluginAllocationTest : public support::EngineTest {
 protected:
  // of all but the first steps, in which memory grows with the contacts
  long AllocationsOf(const mjModel* m, int first, int steps) {
    const DataPtr d = MakeData(m);
    for (int i = 0; i < first; ++i) mj_step(m, d.get());
    const long before = support::allocations;
    for (int i = 0; i < steps; ++i) mj_step(m, d.get());
    mj_resetData(m, d.get());
    const long of_reset = support::allocations;
    mj_resetData(m, d.get());
    return support::allocations - before - 2 * (support::allocations - of_reset);  // a reset of the engine's own
  }
};

constexpr char kBodies[] = R"(<worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body pos="0 0 .099"><freejoint name="root"/><geom name="ball" size=".1" contype="CONTYPE" conaffinity="CONTYPE"/>
    <body pos=".1 0 0"><joint name="arm" axis="0 1 0" damping=".1"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 0"/></body></body>
  </worldbody><actuator><motor name="arm" joint="arm"/></actuator>)";

std::string Bodies(const char* contype) {
  std::string text = kBodies;
  for (int i = 0; i < 2; ++i) text.replace(text.find("CONTYPE"), 7, contype);
  return text;
}

TEST_F(PluginAllocationTest, LinearizationTakesNothing) {
  const ModelPtr m = LoadModelFromString(
      "<mujoco><extension><plugin plugin='costate.linearization'/></extension>" + Bodies("1") +
      "<sensor><plugin name='s' plugin='costate.linearization'>" +
      Config("output", "A B level spectral_radius largest_singular_value condition switch_distance") +
      "</plugin></sensor></mujoco>");
  EXPECT_EQ(AllocationsOf(m.get(), 300, 300), 0);
}

TEST_F(PluginAllocationTest, SmoothContactTakesNothing) {
  const ModelPtr m =
      LoadModelFromString("<mujoco><extension><plugin plugin='costate.smooth_contact'><instance name='touch'>" +
                          Config("geom1", "floor") + Config("geom2", "ball") + Config("stiffness", "1e3") +
                          "</instance></plugin></extension>" + Bodies("0") + "</mujoco>");
  EXPECT_EQ(AllocationsOf(m.get(), 0, 300), 0);
}

TEST_F(PluginAllocationTest, PolicyTakesNothing) {
  support::TemporaryFolder folder;
  Record run;
  run.command = "rollout";
  run.model = LoadModelFromString("<mujoco>" + Bodies("1") + "</mujoco>");
  run.substeps = 3;
  run.context = GetContext(run.model.get(), MakeData(run.model.get()).get());
  Simulator simulator(run.model.get(), run.context, 3, 1);
  ASSERT_TRUE(
      simulator
          .Rollout(GetState(run.model.get(), MakeData(run.model.get()).get()), MatrixXd::Random(1, 50), &run.trajectory)
          .ok());
  run.policy.k = MatrixXd::Zero(1, 50);
  run.policy.K.assign(50, MatrixXd::Constant(1, 14, 0.01));
  WriteRecord(folder.File("run"), run, {.plots = false});
  const ModelPtr m = LoadModelFromString(
      "<mujoco><extension><plugin plugin='costate.policy'><instance name='play'>" + Config("run", folder.File("run")) +
      Config("start", "on") + Config("end", "loop") + "</instance></plugin></extension>" + Bodies("1") + "</mujoco>");
  EXPECT_EQ(AllocationsOf(m.get(), 0, 400), 0);
}

}  // namespace
}  // namespace costate
