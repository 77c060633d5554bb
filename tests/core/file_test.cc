// Files: read whole or refused, written whole or not at all, and nobody else's is replaced.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>

#include "core/new_file.h"
#include "core/read_file.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

using FileTest = support::EngineTest;
using support::TemporaryFolder;

TEST_F(FileTest, IsReadToItsLastByteOrRefused) {
  TemporaryFolder folder;
  std::string bytes(200000, 'x');
  bytes[100000] = '\0';
  EXPECT_EQ(costate::ReadFile(folder.Write("a", bytes), "file"), bytes);
  EXPECT_EQ(costate::ReadFile(folder.Write("a", ""), "file"), "");
  EXPECT_ERROR(costate::ReadFile(folder.File("none"), "file 'none'"), ErrorCode::kFile, "file 'none' does not exist");
  EXPECT_ERROR(costate::ReadFile(folder.path().string(), "it"), ErrorCode::kFile, "it is a folder, not a file");
  EXPECT_ERROR(costate::ReadFile("/dev/null", "it"), ErrorCode::kFile, "it is not a regular file");

  // a regular file that opens, and at whose beginning nothing can be read
  EXPECT_ERROR(costate::ReadFile("/proc/self/mem", "it"), ErrorCode::kFile, "it cannot be read: Input/output error");
}

// a device or a pipe takes the bytes and stays one; of a link, what it names is replaced
TEST_F(FileTest, IsWrittenIntoWhatIsNoFileAndThroughLinks) {
  TemporaryFolder folder;
  const std::string pipe = folder.File("pipe"), link = folder.File("link"), file = folder.Write("file", "old");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR);
  char bytes[4] = "";
  WriteNewFile(pipe, "abc", true);
  WriteNewFile(pipe, "", false);
  EXPECT_EQ(read(reader, bytes, 3), 3);
  EXPECT_STREQ(bytes, "abc");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  WriteNewFile("/dev/null", "abc", false);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_ERROR(WriteNewFile("/dev/full", "abc", true), ErrorCode::kFile,
               "'/dev/full' cannot be written: No space left");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));

  fs::create_symlink("file", link);
  EXPECT_ERROR(WriteNewFile(link, "new", false), ErrorCode::kFile, "exists already");
  WriteNewFile(link, "new", true);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(support::ReadFile(file), "new");
}

// as on each kind of file system: one call, a link, the name taken first
TEST_F(FileTest, NoOtherFileIsReplacedOnAnyFileSystem) {
  for (int skip = 0; skip < 3; skip++) {
    SCOPED_TRACE(skip);
    TemporaryFolder folder;
    const std::string mine = folder.Write("mine", "mine"), other = folder.Write("other", "other");
    EXPECT_EQ(RenameToNew(mine, other, skip), EEXIST);
    EXPECT_EQ(support::ReadFile(other), "other");
    EXPECT_EQ(support::ReadFile(mine), "mine");
    EXPECT_EQ(RenameToNew(mine, folder.File("new"), skip), 0);
    EXPECT_EQ(support::ReadFile(folder.File("new")), "mine");
    EXPECT_FALSE(fs::exists(mine));
    EXPECT_EQ(RenameToNew(folder.File("new"), folder.File("no/new"), skip), ENOENT);
    EXPECT_EQ(RenameToNew(mine, folder.File("nothing"), skip), ENOENT);
    EXPECT_FALSE(fs::exists(folder.File("nothing")));
  }
  EXPECT_TRUE(CannotRenameSo(ENOTSUP));
  EXPECT_FALSE(CannotRenameSo(EEXIST));
}

TEST_F(FileTest, IsReplacedOnlyByForce) {
  TemporaryFolder folder;
  const std::string path = folder.File("a");
  WriteNewFile(path, "one", false);
  EXPECT_ERROR(WriteNewFile(path, "two", false), ErrorCode::kFile, "exists already; --force replaces it");
  EXPECT_EQ(support::ReadFile(path), "one");
  WriteNewFile(path, "two", true);
  EXPECT_EQ(support::ReadFile(path), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
}

}  // namespace
}  // namespace costate
