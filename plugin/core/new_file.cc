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

// what takes bytes and keeps none of them, as /dev/null, /dev/stdout and pipes with a name
bool IsStream(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::is_character_file(status) || fs::is_fifo(status);
}

[[noreturn]] void FailToWrite(const std::string& path) {
  throw Error(ErrorCode::kFile, fmt::format("'{}' cannot be written: {}", path, std::strerror(errno)));
}

// false with errno
bool WriteAll(int file, std::string_view bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

void WriteStream(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (file < 0) FailToWrite(path);
  const bool written = WriteAll(file, bytes);
  const int error = errno;
  close(file);
  errno = error;
  if (!written) FailToWrite(path);
}

// a file that removes itself unless it was renamed
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path), name_((FolderOf(path) / ".costate-XXXXXX").string()) {
    file_ = mkostemp(name_.data(), O_CLOEXEC);
    if (file_ < 0) FailToWrite(path_);
  }
  ~TemporaryFile() {
    if (file_ >= 0) close(file_);
    if (!renamed_) unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void Write(std::string_view bytes) {
    if (!WriteAll(file_, bytes)) FailToWrite(path_);
  }

  void Rename(bool force) {
    // as open(2) would have made it, not mkstemp's 0600
    if (fchmod(file_, 0666 & ~Umask()) != 0 || fsync(file_) != 0) FailToWrite(path_);
    const int file = file_;
    file_ = -1;
    if (close(file) != 0) FailToWrite(path_);

    // without force an existing file wins even when it appeared meanwhile
    errno = force ? (std::rename(name_.c_str(), path_.c_str()) == 0 ? 0 : errno) : RenameToNew(name_, path_);
    if (!force && errno == EEXIST) FailExists(path_);
    if (errno != 0) FailToWrite(path_);
    renamed_ = true;
  }

 private:
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
  if (IsStream(path)) return;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    throw Error(ErrorCode::kFile, fmt::format("'{}' is not a file", path));
  if (fs::exists(path, ignored) && !force) FailExists(path);
  if (!fs::is_directory(FolderOf(path), ignored)) {
    throw Error(ErrorCode::kFile,
                fmt::format("'{}' cannot be written: folder '{}' does not exist", path, FolderOf(path).string()));
  }
}

void WriteNewFile(const std::string& path, std::string_view bytes, bool force) {
  CheckWritable(path, force);
  if (IsStream(path)) return WriteStream(path, bytes);

  // a link stays one: what it names is replaced
  std::error_code ignored;
  TemporaryFile file(fs::is_symlink(path, ignored) && fs::exists(path, ignored) ? fs::canonical(path).string() : path);
  file.Write(bytes);
  file.Rename(force);
}

}  // namespace costate
