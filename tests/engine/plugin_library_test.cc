// The shared object as a MuJoCo host sees it.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <string>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

TEST(PluginLibrary, LoadsInAHostWithoutAWordAndLeavesItsHandlersAlone) {
  const support::ProcessResult result = support::RunProcess({COSTATE_PLUGIN_HOST, COSTATE_LIBRARY});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "messages 0\nhandler kept\nplugin costate.linearization\nplugin costate.mpc\nplugin costate.policy\nplugin "
            "costate.smooth_contact\ntime 0.002\nlibrary resident\n");
}

TEST(PluginLibrary, ASecondCopyIsNoError) {
  support::TemporaryFolder folder;
  std::filesystem::copy_file(COSTATE_LIBRARY, folder.path() / "libcostate_copy.so");
  const support::ProcessResult result =
      support::RunProcess({COSTATE_PLUGIN_HOST, COSTATE_LIBRARY, folder.File("libcostate_copy.so")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("copy 4\ntime 0.002\n"), std::string::npos) << result.out << result.err;
}

TEST(PluginLibrary, LoadsFromAFolderAsHostsDo) {
  // hosts scan a folder for libraries
  support::TemporaryFolder folder;
  std::filesystem::create_symlink(COSTATE_LIBRARY, folder.path() / "libcostate.so");
  static std::string loaded;
  mj_loadAllPluginLibraries(folder.path().c_str(), [](const char* name, int, int) { loaded = name; });
  EXPECT_EQ(loaded, "libcostate.so");
}

TEST(PluginLibrary, BringsNoSecondEngine) {
  // one libmujoco in the process, the host's
  const support::ProcessResult result = support::RunProcess({"ldd", COSTATE_LIBRARY});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("libmujoco.so.4.0.1"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace costate
