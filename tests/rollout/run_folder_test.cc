// A folder appears whole or not at all, and only a run is ever replaced.
#include "rollout/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

namespace fs = std::filesystem;
using support::ReadFile;
using support::TemporaryFolder;

// writes a run whose record.json says `text`
void WriteRun(const std::string& target, const std::string& text, bool replace = false, bool exchange = true) {
  NewFolder folder(target, replace);
  for (const char* name : {"data.csv", kRecordFile}) {
    FileWriter file(&folder, name);
    file.Write(text);
    file.Close();
  }
  folder.Publish(exchange);
}

std::size_t Entries(const fs::path& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

TEST(NewFolder, AppearsWithAllItsFilesWhenPublished) {
  TemporaryFolder folder;
  WriteRun(folder.File("run"), "one");
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "one");
  EXPECT_EQ(ReadFile(folder.path() / "run/data.csv"), "one");
  EXPECT_EQ(Entries(folder.path()), 1u);
}

TEST(NewFolder, LeavesNothingWhenItIsNotPublished) {
  TemporaryFolder folder;
  {
    NewFolder run(folder.File("run"), false);
    FileWriter file(&run, "data.csv");
    file.Write("half");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(NewFolder, ReplacesARunOnlyWhenToldTo) {
  TemporaryFolder folder;
  WriteRun(folder.File("run"), "one");
  EXPECT_ERROR(WriteRun(folder.File("run"), "two"), ErrorCode::kFile, "run exists", "--force");
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "one");
  WriteRun(folder.File("run"), "two", true);
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "two");
  EXPECT_EQ(Entries(folder.path()), 1u);
}

// NFS and others cannot exchange two folders in one call.
TEST(NewFolder, ReplacesARunWhereFoldersCannotBeExchanged) {
  TemporaryFolder folder;
  WriteRun(folder.File("run"), "one");
  WriteRun(folder.File("run"), "two", true, false);
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "two");
  EXPECT_EQ(Entries(folder.path()), 1u);
}

TEST(NewFolder, NeverReplacesWhatIsNotARun) {
  TemporaryFolder folder;
  folder.Write("home/thesis.tex", "years of work");
  EXPECT_ERROR(WriteRun(folder.File("home"), "x", true), ErrorCode::kFile, "not a run", "will not be replaced");
  EXPECT_EQ(ReadFile(folder.path() / "home/thesis.tex"), "years of work");
  folder.Write("file", "x");
  EXPECT_ERROR(WriteRun(folder.File("file"), "x", true), ErrorCode::kFile, "exists and is not a folder");
  EXPECT_ERROR(WriteRun(folder.File("file/run"), "x"), ErrorCode::kFile, "file");
  EXPECT_ERROR(WriteRun("/", "x", true), ErrorCode::kFile, "not the name of a folder");
  EXPECT_ERROR(WriteRun("", "x", true), ErrorCode::kFile, "empty");
  EXPECT_ERROR(WriteRun(folder.File("none/run"), "x"), ErrorCode::kFile, "none", "No such file or directory");
  EXPECT_EQ(Entries(folder.path()), 2u);
}

TEST(NewFolder, TakesAnEmptyFolderAndATrailingSlash) {
  TemporaryFolder folder;
  fs::create_directory(folder.path() / "run");
  WriteRun(folder.File("run/"), "one");
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "one");
  WriteRun(folder.File("run//"), "two", true);
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "two");
}

TEST(NewFolder, FollowsALinkToARun) {
  TemporaryFolder folder;
  WriteRun(folder.File("real"), "one");
  fs::create_directory_symlink(folder.path() / "real", folder.path() / "link");
  WriteRun(folder.File("link"), "two", true);
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(ReadFile(folder.path() / "real/record.json"), "two");
  EXPECT_EQ(Entries(folder.path()), 2u);
}

// What a killed program leaves has a name that no one opens by accident; the next one that writes there removes it.
TEST(NewFolder, RemovesWhatAKilledProgramLeftButNotWhatIsBeingWritten) {
  TemporaryFolder folder;
  folder.Write(".run.part-123-0/data.csv", "half");
  folder.Write(".run.part-124-0/data.csv", "being written");
  folder.Write(".run2.part-123-0/data.csv", "another target's");
  const int busy = open(folder.File(".run.part-124-0").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(busy, LOCK_EX), 0);
  WriteRun(folder.File("run"), "one");
  close(busy);
  EXPECT_FALSE(fs::exists(folder.path() / ".run.part-123-0"));
  EXPECT_TRUE(fs::exists(folder.path() / ".run.part-124-0"));
  EXPECT_TRUE(fs::exists(folder.path() / ".run2.part-123-0"));
}

TEST(NewFolder, TwoWritersOfOneTargetDoNotMix) {
  TemporaryFolder folder;
  NewFolder first(folder.File("run"), false), second(folder.File("run"), false);
  for (NewFolder* run : {&first, &second}) {
    FileWriter file(run, kRecordFile);
    file.Write(run == &first ? "first" : "second");
    file.Close();
  }
  second.Publish();
  EXPECT_ERROR(first.Publish(), ErrorCode::kFile, "appeared meanwhile");
  EXPECT_EQ(ReadFile(folder.path() / "run/record.json"), "second");
}

TEST(FileWriter, HashesWhatItWrites) {
  TemporaryFolder folder;
  NewFolder run(folder.File("run"), false);
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i);
  FileWriter file(&run, "numbers");
  for (std::size_t at = 0; at < text.size(); at += 1000) file.Write(std::string_view(text).substr(at, 1000));
  file.Close();
  ASSERT_EQ(run.files().size(), 1u);
  EXPECT_EQ(run.files()[0].bytes, text.size());
  EXPECT_EQ(run.files()[0].sha256, Sha256Of(text));
  EXPECT_EQ(ReadFile(run.path() / "numbers"), text);
}

TEST(FileWriter, NamesTheRunTheFileAndTheReason) {
  TemporaryFolder folder;
  NewFolder run(folder.File("run"), false);
  fs::remove_all(run.path());
  const std::string target = folder.File("run");
  EXPECT_ERROR(FileWriter(&run, "data.csv"), ErrorCode::kFile, target.c_str(), "data.csv", "No such file or directory");
}

}  // namespace
}  // namespace costate
