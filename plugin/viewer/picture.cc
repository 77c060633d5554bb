#include "viewer/picture.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <png.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <costate/error.h>

namespace costate::viewer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailExists(const std::string& path) {
  throw Error(ErrorCode::kFile, fmt::format("'{}' exists already; --force replaces it", path));
}

fs::path FolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

std::vector<unsigned char> Encode(const std::string& path, const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<unsigned char> bytes(size);
  if (!png_image_write_to_memory(&png, bytes.data(), &size, 0, image.rgb.data(), 3 * image.width, nullptr)) {
    throw Error(ErrorCode::kFile, fmt::format("'{}' cannot be written as PNG: {}", path, png.message));
  }
  bytes.resize(size);
  return bytes;
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

  void Write(const std::vector<unsigned char>& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = write(file_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) Fail();
      done += static_cast<std::size_t>(n);
    }
  }

  void Rename(bool force) {
    // as open(2) would have made it, not mkstemp's 0600
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(file_, 0666 & ~mask) != 0 || fsync(file_) != 0) Fail();
    const int file = file_;
    file_ = -1;
    if (close(file) != 0) Fail();

    // without force an existing file wins even when it appeared meanwhile
    int failed = -1;
    if (!force) {
      failed = renameat2(AT_FDCWD, name_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
      if (failed && errno == EEXIST) FailExists(path_);
      if (failed && errno != EINVAL && errno != ENOSYS) Fail();
    }
    if (failed && std::rename(name_.c_str(), path_.c_str()) != 0) Fail();
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

Image SideBySide(const std::vector<Image>& images, int gap) {
  Image all;
  for (const Image& image : images) {
    all.width += image.width + (all.width > 0 ? gap : 0);
    all.height = image.height;
  }
  all.rgb.assign(3 * static_cast<std::size_t>(all.width) * all.height, 255);
  std::size_t left = 0;
  for (const Image& image : images) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(all.height); ++row) {
      std::memcpy(&all.rgb[3 * (row * all.width + left)], &image.rgb[3 * row * image.width], 3 * image.width);
    }
    left += image.width + gap;
  }
  return all;
}

void CheckWritable(const std::string& path, bool force) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw Error(ErrorCode::kFile, fmt::format("'{}' is a folder, not a picture", path));
  if (fs::exists(path, ignored) && !force) FailExists(path);
  if (!fs::is_directory(FolderOf(path), ignored)) {
    throw Error(ErrorCode::kFile,
                fmt::format("'{}' cannot be written: folder '{}' does not exist", path, FolderOf(path).string()));
  }
}

void WritePng(const std::string& path, const Image& image, bool force) {
  CheckWritable(path, force);
  const std::vector<unsigned char> bytes = Encode(path, image);
  TemporaryFile file(path);
  file.Write(bytes);
  file.Rename(force);
}

}  // namespace costate::viewer
