// Bad input, full disks, signals: always a sentence and an exit code, never half a run.
#include <costate/record.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "cli/program.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::Process;
using support::ProcessResult;
using support::ReadFile;
using support::TemporaryFolder;

// a small file system of its own; unmounted at the end
class SmallDisk {
 public:
  SmallDisk(const fs::path& path, const std::string& options) : path_(path) {
    fs::create_directory(path);
    mounted_ = mount("none", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool MakeReadOnly() { return mount("none", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST(CliRobustness, ExplainsItselfWithoutACommand) {
  const ProcessResult alone = Costate({});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_TRUE(Has(alone.out, "The first five minutes"));
  EXPECT_EQ(Costate({"--help"}).out, alone.out);
  const ProcessResult version = Costate({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(Has(version.out, "MuJoCo 4.0.1"));
  EXPECT_TRUE(RefusedWith(Costate({"fly"}), "fly"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout"}), "MODEL|TASK is required"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", "m.xml", "--speed", "3"}), "--speed"));
}

TEST(CliRobustness, NamesTheCommandOrOptionThatWasMeant) {
  EXPECT_TRUE(RefusedWith(Costate({"optimise", "m.xml"}), "there is no command 'optimise', did you mean 'optimize'?"));
  EXPECT_TRUE(RefusedWith(Costate({"fly", "m.xml"}), "there is no command among 'fly', 'm.xml'"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", "m.xml", "--gaol", "key:a", "--time", "1"}),
                          "costate optimize: there is no option '--gaol', did you mean '--goal'?"));
  EXPECT_TRUE(
      RefusedWith(Costate({"rollout", "m.xml", "--tiem=3"}), "there is no option '--tiem', did you mean '--time'?"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", "m.xml", "n.xml"}), "costate rollout: 'n.xml' was not expected"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", "m.xml", "--real-time", "2"}),
                          "costate mpc: '2' was not expected (--real-time: without a value)"));
  EXPECT_TRUE(RefusedWith(Costate({"mpc", "m.xml", "--goal", "joint:a=1", "joint:b=2", "--no-save"}),
                          "costate mpc: 'joint:b=2' was not expected (--goal: once before each value)"));
  EXPECT_TRUE(RefusedWith(Costate({"check", "m.xml", "--level", "finest"}),
                          "--level: finest not in {best,analytic,residual,step,auto}"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", "m.xml", "--out", ""}), "--out: is empty"));
  const std::string none = Costate({"mpc", "m.xml", "--delay", "-1"}).err;
  EXPECT_TRUE(Has(none, "--delay: '-1' is no number of at least 0"));
}

TEST(CliRobustness, NamesWhatIsWrongWithAModel) {
  TemporaryFolder folder;
  EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.File("none.xml")}), "none.xml"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.path().string()}), folder.path().string()));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.Write("broken.xml", "<mujoco><worldbody>")}), "broken.xml"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.Write("empty.xml", "")}), "empty.xml"));
  EXPECT_TRUE(RefusedWith(
      Costate({"rollout", folder.Write("e.xml", "<mujoco>\n<worldbody>\n<bodi/>\n</worldbody></mujoco>")}), "bodi"));
  EXPECT_TRUE(RefusedWith(
      Costate(
          {"rollout", folder.Write("mesh.xml", "<mujoco><asset><mesh name='a' file='gone.stl'/></asset></mujoco>")}),
      "gone.stl"));
  EXPECT_TRUE(RefusedWith(
      Costate({"rollout", folder.Write("size.xml",
                                       "<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody>"
                                       "<keyframe><key qpos='1 2 3'/></keyframe></mujoco>")}),
      "size.xml"));
  EXPECT_TRUE(
      RefusedWith(Costate({"rollout", folder.Write("p.xml", kPendulum), "--key", "sid"}), "did you mean 'side'"));
  EXPECT_TRUE(RefusedWith(Costate({"rollout", folder.File("p.xml"), "--key", "7"}), "7"));
}

// Every command that takes a file answers a bad one with a sentence that names it.
TEST(CliRobustness, SaysThatARobotIsWantedNotATask) {
  const std::string robot = std::string(COSTATE_MODELS) + "/cartpole/cartpole.xml",
                    task = std::string(COSTATE_MODELS) + "/cartpole/swing_up.xml";
  for (const char* command : {"info", "check"})
    EXPECT_TRUE(RefusedWith(Costate({command, task}), "is a task file: this reads a robot"));
  EXPECT_TRUE(
      RefusedWith(Costate({"task", robot, "--goal", "joint:slider=1", "--check"}), "is a robot: --check reads"));
  EXPECT_TRUE(RefusedWith(Costate({"task", robot, "--goal", "body:world=0,0,1"}), "stands fixed in the world"));
}

TEST(CliRobustness, RefusesBadFilesInEveryCommand) {
  TemporaryFolder folder;
  const std::string none = folder.File("none.xml"), broken = folder.Write("broken.xml", "<mujoco><worldbody>"),
                    mesh = folder.Write("mesh.xml", "<mujoco><asset><mesh name='a' file='gone.stl'/></asset></mujoco>"),
                    task = folder.Write("bad.task.xml", "<task model='none.xml' horizon='1'><cost ctrl='all'/></task>"),
                    open_task = folder.Write("open.task.xml", "<task model='none.xml'"),
                    noise = folder.Write("noise.mjb", std::string(5000, '\xa5'));
  for (const char* command : {"rollout", "check", "info", "optimize", "task", "view"}) {
    SCOPED_TRACE(command);
    std::vector<std::string> arguments = {command, none};
    if (arguments[0] == "view") arguments.insert(arguments.end(), {"--png", folder.File("picture.png")});
    for (const std::string& file : {none, broken, mesh, task, open_task, noise}) {
      arguments[1] = file;
      const ProcessResult result = Costate(arguments);
      EXPECT_TRUE(RefusedWith(result, "")) << file;
    }
    EXPECT_TRUE(RefusedWith(Costate({command, none}), "none.xml"));
  }
  EXPECT_FALSE(fs::exists(folder.File("picture.png")));
}

// What cannot be optimized is said before any work is done, and nothing is left behind.
// to open a pipe would be to wait until somebody writes to it, deaf to signals
TEST(CliRobustness, DoesNotWaitForAPipe) {
  TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  support::ProcessOptions soon;
  soon.timeout = 20;
  for (const char* command : {"rollout", "optimize", "gradient", "mpc", "info", "check", "view", "task"})
    EXPECT_TRUE(RefusedWith(Costate({command, pipe}, soon), "is not a regular file")) << command;
}

TEST(CliRobustness, RefusesToOptimizeWhatCannotMoveOrHasNoTime) {
  TemporaryFolder folder;
  const std::string passive = folder.Write("passive.xml",
                                           "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody>"
                                           "<keyframe><key name='goal' qpos='0 0 1 1 0 0 0'/></keyframe></mujoco>");
  const std::string rigid = folder.Write("rigid.xml",
                                         "<mujoco><worldbody><geom size='.1'/></worldbody>"
                                         "<keyframe><key name='goal'/></keyframe></mujoco>");
  folder.Write("p.xml", kPendulum);
  const std::string no_time =
      folder.Write("zero.task.xml", "<task model='p.xml' horizon='0'><cost name='effort' ctrl='all'/></task>");
  const std::string out = folder.File("run");
  EXPECT_TRUE(RefusedWith(Costate({"optimize", passive, "--goal", "goal", "--out", out}), "nu = 0"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", rigid, "--goal", "goal", "--out", out}), "nv = 0"));
  EXPECT_TRUE(RefusedWith(Costate({"optimize", no_time, "--out", out}), "horizon"));
  EXPECT_TRUE(
      RefusedWith(Costate({"optimize", folder.File("p.xml"), "--goal", "side", "--time", "0", "--out", out}), "time"));
  EXPECT_FALSE(fs::exists(out));
}

// A keyframe may be loaded and still hold no number.
TEST(CliRobustness, NamesTheEntryOfAKeyframeThatIsNotANumber) {
  TemporaryFolder folder;
  const std::string file =
      folder.Write("nan.xml",
                   "<mujoco><worldbody><body><joint name='hip' type='slide'/><geom size='1'/></body></worldbody>"
                   "<keyframe><key name='home' qvel='nan'/></keyframe></mujoco>");
  const ProcessResult result = Costate({"rollout", file, "--key", "home"});
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_TRUE(Has(result.err, "nan"));
}

TEST(CliRobustness, SurvivesCutAndScrambledFiles) {
  TemporaryFolder folder;
  const std::string xml = kPendulum;
  for (std::size_t size = 0; size < xml.size(); size += xml.size() / 12) {
    const ProcessResult result = Costate({"rollout", folder.Write("m.xml", xml.substr(0, size))});
    EXPECT_EQ(result.exit_code, 2) << xml.substr(0, size);
  }
  ASSERT_EQ(Costate({"rollout", folder.Write("p.xml", xml), "--time", "0.1", "--out", folder.File("run"), "--no-plots"})
                .exit_code,
            0);
  const std::string binary = ReadFile(folder.path() / "run/model.mjb");
  std::mt19937 random(1);
  auto rollout = [&](const std::string& bytes) {
    return Costate({"rollout", folder.Write("m.mjb", bytes), "--time", "0.01"}).exit_code;
  };
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(rollout(binary.substr(0, random() % binary.size())), 2);

    // a colour more or less is a model as well; whatever it is, the program answers
    std::string bytes = binary;
    for (int k = 0; k < 4; ++k) bytes[random() % 2000] ^= 0x55;
    EXPECT_GE(rollout(bytes), 0);
  }
}

TEST(CliRobustness, SaysSoWhenItsOutputCannotBeWritten) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum);
  EXPECT_TRUE(RefusedWith(CostateInShell("\"$0\" rollout " + file + " >/dev/full"), "standard output"));
}

TEST(CliRobustness, RefusesAnOutputFolderThatCannotBe) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum);
  auto rollout = [&](const std::string& out) { return Costate({"rollout", file, "--out", out, "--force"}); };
  EXPECT_TRUE(RefusedWith(rollout(folder.File("p.xml/run")), "p.xml"));
  EXPECT_TRUE(RefusedWith(rollout(folder.File("p.xml")), "exists and is not a folder"));
  EXPECT_EQ(rollout(folder.File("no/such/run")).exit_code, 0) << "folders above it are made";
  EXPECT_TRUE(fs::exists(folder.File("no/such/run/record.json")));
  EXPECT_TRUE(RefusedWith(rollout("/proc/run"), "/proc"));
  EXPECT_TRUE(RefusedWith(rollout(folder.path().string()), "is not a run"));
  EXPECT_TRUE(fs::exists(file)) << "--force removed a folder that is not a run";

  // a disk that may only be read, where this test may mount one
  SmallDisk disk(folder.path() / "disk", "size=4m");
  if (disk.mounted() && disk.MakeReadOnly()) {
    EXPECT_TRUE(RefusedWith(rollout(folder.File("disk/run")), "Read-only file system"));
  } else {
    EXPECT_TRUE(RefusedWith(rollout("/sys/run"), "/sys"));
  }
}

// Whatever file breaks off, nothing is left of the run; an old run stays as it was.
TEST(CliRobustness, LeavesNothingOnAFullDisk) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum);
  SmallDisk disk(folder.path() / "disk", "size=128k");
  if (disk.mounted()) {
    const ProcessResult result =
        Costate({"rollout", file, "--time", "4", "--out", folder.File("disk/run"), "--no-plots"});
    EXPECT_TRUE(RefusedWith(result, "No space left on device"));
    EXPECT_TRUE(Has(result.err, folder.File("disk/run")));
  } else {
    EXPECT_TRUE(RefusedWith(CostateInShell("ulimit -f 1; \"$0\" rollout " + file + " --out " + folder.File("disk/run")),
                            "File too large"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "disk"));
}

// An hour of work is not thrown away for a folder that could have been tried before.
TEST(CliRobustness, TriesTheOutputFolderBeforeOptimizing) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum);
  const ProcessResult result = Costate({"optimize", file, "--goal", "side", "--out", folder.File("p.xml/run")});
  EXPECT_TRUE(RefusedWith(result, "p.xml"));
  EXPECT_EQ(result.out.find("iter"), std::string::npos) << "it began to work: " << result.out;
}

// … nor for one that is gone when the work is done.
TEST(CliRobustness, ARunWhoseFolderCannotBeWrittenAnyMoreGoesElsewhere) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum);
  fs::create_directory(folder.path() / "there");
  fs::create_directory(folder.path() / "temporary");
  const std::string work = "export TMPDIR=" + folder.File("temporary") + "; \"$0\" optimize " + file +
                           " --goal side --time 1 --iterations 2 --no-plots --out ";
  const ProcessResult gone =
      CostateInShell(work + folder.File("there/run") + " | (read line; rmdir " + folder.File("there") + "; cat)");
  const std::string other = folder.File("temporary/costate-1");
  EXPECT_TRUE(Has(gone.err, "the run goes to " + other));
  EXPECT_TRUE(Has(gone.out, "saved in      " + other));
  EXPECT_EQ(Costate({"replay", other}).exit_code, 0);

  // a disk that is full only when the run is written; where there is no room at all, nothing is left behind
  SmallDisk disk(folder.path() / "disk", "size=24k");
  if (disk.mounted()) {
    const ProcessResult full = CostateInShell(work + folder.File("disk/run"));
    EXPECT_TRUE(Has(full.err, "No space left on device; the run goes to " + folder.File("temporary/costate-2")));
    EXPECT_EQ(Costate({"replay", folder.File("temporary/costate-2")}).exit_code, 0);
  } else {
    EXPECT_TRUE(RefusedWith(CostateInShell("ulimit -f 1; " + work + folder.File("disk/run")), "File too large"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "disk"));
}

// A task's name is the folder's, which a file system may not take: only where there is one it matters.
TEST(CliRobustness, ATaskMayHaveALongName) {
  TemporaryFolder folder;
  folder.Write("p.xml", kPendulum);
  const std::string task =
      folder.Write("long.task.xml", "<task name='" + std::string(300, 'n') +
                                        "' model='p.xml' horizon='0.1'><cost qpos='all' target='0.1'/></task>");
  fs::create_directory(folder.path() / "runs");
  support::ProcessOptions there;
  there.folder = folder.path().string();
  EXPECT_EQ(Costate({"mpc", task, "--no-save", "--time", "0.02"}, there).exit_code, 0);
  EXPECT_FALSE(Has(Costate({"optimize", task, "--no-save", "--iterations", "2"}, there).err, "error"));
  for (const char* command : {"optimize", "mpc"}) {
    const ProcessResult result = Costate({command, task}, there);
    EXPECT_TRUE(RefusedWith(result, "File name too long"));
    EXPECT_FALSE(Has(result.err, "unexpected"));
  }
}

// A limit on the size of files breaks off each of the run's files in turn.
TEST(CliRobustness, LeavesNothingWhereverWritingBreaksOff) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum), run = folder.File("run");
  ASSERT_EQ(Costate({"rollout", file, "--time", "0.2", "--out", run, "--no-plots"}).exit_code, 0);
  int refused = 0, written = 0;
  for (int blocks = 0; blocks < 64; blocks += blocks < 16 ? 1 : 8) {  // of 512 bytes
    const ProcessResult result = CostateInShell("ulimit -f " + std::to_string(blocks) + "; \"$0\" rollout " + file +
                                                " --time 1 --no-plots --force --out " + run);
    if (result.exit_code == 0) {
      ++written;
    } else {
      EXPECT_TRUE(RefusedWith(result, "File too large"));
      ++refused;
    }
    EXPECT_EQ(ReadRecord(run).trajectory.N(), written > 0 ? 500 : 100);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2) << blocks;
  }
  EXPECT_GT(refused, 5);
}

// Killed at any instant: before the first run there is none or a whole one, afterwards there is always a whole one.
TEST(CliRobustness, LeavesAWholeRunOrNoneWhenKilled) {
  TemporaryFolder folder;
  const std::string file = folder.Write("p.xml", kPendulum), run = folder.File("run");
  const std::vector<std::string> command = {COSTATE_PROGRAM, "rollout", file,    "--time", "1",
                                            "--no-plots",    "--force", "--out", run};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(Process({COSTATE_PROGRAM, "rollout", file, "--time", "1", "--no-plots", "--out", folder.File("timing")})
                .Wait()
                .exit_code,
            0);
  double longest = 1.2 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::mt19937 random(3);
  bool was_there = false;
  for (int i = 0; i < 60; ++i) {
    Process process(command);
    std::this_thread::sleep_for(std::chrono::duration<double>(longest * static_cast<double>(random() % 1000) / 1000));
    process.Signal(SIGKILL);
    process.Wait();
    const bool there = fs::exists(run);
    EXPECT_TRUE(there || !was_there) << "the old run is gone";
    if (there) {
      EXPECT_TRUE(Replay(ReadRecord(run)).identical);
    }
    if (!there) longest *= 1.1;  // the machine is busier than when one was timed
    was_there = there;
  }
  EXPECT_TRUE(was_there) << "no run in 60 was fast enough";

  // the next whole run clears up what the killed ones left
  ASSERT_EQ(Process(command).Wait().exit_code, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 3);
}

}  // namespace
}  // namespace costate
