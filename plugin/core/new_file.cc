#include "core/new_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <costate/error.h>

namespace costate {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailExists(const std::string& path) {
  throw Error(ErrorCode::kFile, fmt::format("'{}' exists already; --force replaces it", path));
}

fs::path FolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// what new files may not be. Setting it is the only call that tells, and for that moment files of other threads are
// made without it: where the system writes it down it is read there.
mode_t Umask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned mask = 0;
    if (std::sscanf(line.c_str(), "Umask: %o", &mask) == 1) return static_cast<mode_t>(mask);
  }
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

// a file that removes itself unless it was renamed
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path), name_((FolderOf(path) / ".costate-XXXXXX").string()) {
    file_ = mkostemp(name_.data(), O_CLOEXEC);
    if (file_ < 0) Fail();
  }
  ~TemporaryFile() {
    if (file_ >= 0) close(file_);
    if (!renamed_) unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void Write(std::string_view bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = write(file_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) Fail();
      done += static_cast<std::size_t>(n);
    }
  }

  void Rename(bool force) {
    // as open(2) would have made it, not mkstemp's 0600
    if (fchmod(file_, 0666 & ~Umask()) != 0 || fsync(file_) != 0) Fail();
    const int file = file_;
    file_ = -1;
    if (close(file) != 0) Fail();

    // without force an existing file wins even when it appeared meanwhile
    errno = force ? (std::rename(name_.c_str(), path_.c_str()) == 0 ? 0 : errno) : RenameToNew(name_, path_);
    if (!force && errno == EEXIST) FailExists(path_);
    if (errno != 0) Fail();
    renamed_ = true;
  }

 private:
  [[noreturn]] void Fail() const {
    throw Error(ErrorCode::kFile, fmt::format("'{}' cannot be written: {}", path_, std::strerror(errno)));
  }

  std::string path_, name_;
  int file_ = -1;
  bool renamed_ = false;
};

}  // namespace

bool CannotRenameSo(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

int RenameToNew(const std::string& from, const std::string& to, int skip) {
  if (skip < 1) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (!CannotRenameSo(errno)) return errno;
  }
  if (skip < 2) {
    if (link(from.c_str(), to.c_str()) == 0) {
      unlink(from.c_str());
      return 0;
    }
    if (!CannotRenameSo(errno) && errno != EPERM) return errno;  // EPERM: it has no links
  }
  const int taken = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (taken < 0) return errno;
  close(taken);
  if (std::rename(from.c_str(), to.c_str()) == 0) return 0;
  const int error = errno;
  unlink(to.c_str());
  return error;
}

void CheckWritable(const std::string& path, bool force) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw Error(ErrorCode::kFile, fmt::format("'{}' is a folder, not a file", path));
  if (fs::exists(path, ignored) && !force) FailExists(path);
  if (!fs::is_directory(FolderOf(path), ignored)) {
    throw Error(ErrorCode::kFile,
                fmt::format("'{}' cannot be written: folder '{}' does not exist", path, FolderOf(path).string()));
  }
}

void WriteNewFile(const std::string& path, std::string_view bytes, bool force) {
  CheckWritable(path, force);
  TemporaryFile file(path);
  file.Write(bytes);
  file.Rename(force);
}

}  // namespace costate
