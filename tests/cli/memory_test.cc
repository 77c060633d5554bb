// Memory that a long motion takes, measured by the system on the whole program.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <fcntl.h>

#include "cli/program.h"

namespace costate {
namespace {

struct Usage {
  int exit_code = -1;
  double megabytes = 0;  // largest resident set
};

Usage Measure(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), COSTATE_PROGRAM);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    dup2(open("/dev/null", O_WRONLY), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(process, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, static_cast<double>(usage.ru_maxrss) / 1024};
}

// 1000 knots of 54 x 54 and 54 x 21 matrices are 32 MB, gains another 9; the rest is the program, the model with its
// texture and what the run's tables are written from.
TEST(CliMemory, OptimizesAHumanoidOverAThousandKnotsIn200Megabytes) {
  support::TemporaryFolder folder;
  const Usage optimize =
      Measure({"optimize", COSTATE_MODELS "/humanoid/humanoid.xml", "--goal", "stand", "--time", "10", "--substeps",
               "2", "--iterations", "1", "--threads", "4", "--no-plots", "--quiet", "--out", folder.File("run")});
  EXPECT_EQ(optimize.exit_code, 0);
  EXPECT_LT(optimize.megabytes, 200);
  const Usage replay = Measure({"replay", folder.File("run")});
  EXPECT_EQ(replay.exit_code, 0);
  EXPECT_LT(replay.megabytes, 200);
  RecordProperty("optimize_megabytes", static_cast<int>(optimize.megabytes));
  RecordProperty("replay_megabytes", static_cast<int>(replay.megabytes));
}

}  // namespace
}  // namespace costate
