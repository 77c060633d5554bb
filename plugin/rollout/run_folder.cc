#include "rollout/run_folder.h"

#include <costate/error.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/new_file.h"

namespace costate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = 1 << 16;

std::string Reason(int error) { return std::generic_category().message(error); }

// the rename is on the disk when its folder is; a file system that cannot sync a folder does so by itself
void SyncFolder(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

// the record goes first: what is left of a folder half removed is not a run
void RemoveRun(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path / kRecordFile, ignored);
  fs::remove_all(path, ignored);
}

}  // namespace

void NewFolder::Fail(const std::string& what, int error) const {
  throw Error(ErrorCode::kFile, "cannot write run '" + shown_ + "': " + what + (error ? ": " + Reason(error) : ""));
}

NewFolder::NewFolder(const std::string& target, bool replace) : shown_(target), replace_(replace) {
  if (target.empty()) Fail("the name of the folder is empty", 0);

  // "run/" and a link to a run mean the folder itself
  std::error_code error;
  target_ = fs::weakly_canonical(fs::absolute(target, error), error);
  if (error) Fail("its path is not usable", error.value());
  if (!target_.has_filename()) target_ = target_.parent_path();
  const fs::path parent = target_.parent_path();
  if (target_ == parent || !target_.has_filename()) Fail("it is not the name of a folder", 0);
  if (!fs::is_directory(parent, error)) {
    Fail("'" + parent.string() + "' is not a folder", error ? error.value() : fs::exists(parent) ? 0 : ENOENT);
  }

  // an empty folder counts as none; only a run is ever replaced
  const fs::file_status status = fs::symlink_status(target_, error);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(target_, error))) {
    if (!fs::is_directory(status)) Fail("it exists and is not a folder", 0);
    if (!fs::exists(target_ / kRecordFile, error)) {
      Fail("the folder exists and is not a run (it has no record.json); it will not be replaced", 0);
    }
    if (!replace) Fail("the run exists; --force (or force = true) replaces it", 0);
    exists_ = true;
  }

  RemoveAbandoned();
  while (!CreateStaging()) {
  }
}

NewFolder::~NewFolder() {
  if (!published_) RemoveRun(staging_);
  if (lock_ >= 0) close(lock_);
}

bool NewFolder::CreateStaging() {
  static std::atomic<int> count{0};
  staging_ = target_.parent_path() /
             ("." + target_.filename().string() + ".part-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  if (mkdir(staging_.c_str(), 0777) != 0) {
    if (errno == EEXIST) return false;
    Fail("a folder cannot be created in '" + target_.parent_path().string() + "'", errno);
  }

  lock_ = open(staging_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) {
    const int error = errno;
    rmdir(staging_.c_str());
    Fail("a folder cannot be created in '" + target_.parent_path().string() + "'", error);
  }

  // the lock says that somebody is at work here; who cleans up may have been faster, then take another name.
  // a file system without locks says so by another error: nobody cleans up there
  struct stat status {};
  const bool taken = flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool removed = fstat(lock_, &status) == 0 && status.st_nlink == 0;
  if (!taken && !removed) return true;
  close(std::exchange(lock_, -1));
  return false;
}

void NewFolder::RemoveAbandoned() const {
  const std::string prefix = "." + target_.filename().string() + ".part-";
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(target_.parent_path(), ignored)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) RemoveRun(entry.path());
    close(file);
  }
}

void NewFolder::Publish(bool exchange) {
  SyncFolder(staging_);
  if (exists_ && replace_) {
    Replace(exchange);
  } else if (rename(staging_.c_str(), target_.c_str()) != 0) {
    // rename replaces an empty folder and nothing else
    Fail("it appeared meanwhile, or cannot be given its name", errno);
  }
  published_ = true;
  SyncFolder(target_.parent_path());
}

void NewFolder::Replace(bool exchange) {
  // in one call where the file system can
  if (exchange && renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    SyncFolder(target_.parent_path());
    RemoveRun(staging_);
    return;
  }
  if (exchange && !CannotRenameSo(errno)) Fail("the old run cannot be replaced", errno);

  // else by way of a third name, which keeps the old run whatever happens
  const fs::path aside = target_.string() + ".old-" + std::to_string(getpid());
  if (rename(target_.c_str(), aside.c_str()) != 0) Fail("the old run cannot be moved aside", errno);
  if (rename(staging_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    rename(aside.c_str(), target_.c_str());
    Fail("the new run cannot be given its name", error);
  }
  SyncFolder(target_.parent_path());
  RemoveRun(aside);
}

FileWriter::FileWriter(NewFolder* folder, const std::string& name) : folder_(folder), name_(name) {
  buffer_.reserve(kBuffer);
  file_ = open((folder->path() / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) folder->Fail(name, errno);
}

FileWriter::~FileWriter() {
  if (file_ >= 0) close(file_);
}

void FileWriter::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), kBuffer - buffer_.size());
    buffer_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (buffer_.size() == kBuffer) Flush();
  }
}

void FileWriter::Flush() {
  hash_.Add(buffer_.data(), buffer_.size());
  size_ += buffer_.size();
  for (std::size_t at = 0; at < buffer_.size();) {
    const ssize_t written = write(file_, buffer_.data() + at, buffer_.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) folder_->Fail(name_, written < 0 ? errno : ENOSPC);
    at += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void FileWriter::Close() {
  Flush();
  const bool synced = fsync(file_) == 0 || errno == EINVAL;  // a file system without sync says EINVAL
  const int sync_error = errno;
  const bool closed = close(std::exchange(file_, -1)) == 0;
  if (!synced || !closed) folder_->Fail(name_, synced ? errno : sync_error);
  folder_->files_.push_back({name_, size_, hash_.Finish()});
}

}  // namespace costate
