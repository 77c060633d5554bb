// Optimizes a task file, saves the run, reads it back and replays it: what `costate optimize` and `costate replay` do.
// Next: 06_c_interface.cc; the functions are described in include/costate/task.h and include/costate/record.h.
//
// Prints:
//   converged
//   the tip is within 1 mm of its goal: yes
//   replayed bit for bit: yes
#include <costate/costate.h>

#include <cstdio>
#include <filesystem>

int main() {
  const costate::Task task = costate::LoadTask(COSTATE_MODELS "/arm/reach.xml");
  const costate::SolveResult result = costate::SolveIlqr(task.ToProblem(), task.U_guess, task.solver);
  std::printf("%s\n", ToString(result.status));

  // the site 'tip' and the goal, on the last state
  const costate::DataPtr data = costate::MakeData(task.model.get());
  costate::SetState(task.model.get(), data.get(), result.trajectory.X.rightCols(1));
  mj_forward(task.model.get(), data.get());
  const double* tip = data->site_xpos + 3 * mj_name2id(task.model.get(), mjOBJ_SITE, "tip");
  const double* goal = data->site_xpos + 3 * mj_name2id(task.model.get(), mjOBJ_SITE, "goal");
  std::printf("the tip is within 1 mm of its goal: %s\n", mju_dist3(tip, goal) < 0.001 ? "yes" : "no");

  // a run is a folder
  costate::Record record;
  record.command = "example";
  record.model = costate::CopyModel(task.model.get());
  record.context = task.context;
  record.substeps = task.substeps;
  record.trajectory = result.trajectory;
  record.policy = result.policy;
  record.iterations = result.iterations;
  const std::string folder = std::filesystem::temp_directory_path() / "costate_example_run";
  costate::WriteRecord(folder, record, {.force = true, .plots = false});
  const costate::ReplayResult replay = costate::Replay(costate::ReadRecord(folder));
  std::printf("replayed bit for bit: %s\n", replay.identical ? "yes" : "no");
  std::filesystem::remove_all(folder);
}
