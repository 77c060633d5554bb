#include "core/read_file.h"

#include <costate/error.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

namespace costate {
namespace {

constexpr std::size_t kPiece = 1 << 16;

[[noreturn]] void FailToRead(const std::string& what) {
  throw Error(ErrorCode::kFile, what + " cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
}

std::ifstream OpenToRead(const std::string& path, const std::string& what) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) throw Error(ErrorCode::kFile, what + " does not exist");
  if (code) throw Error(ErrorCode::kFile, what + " cannot be read: " + code.message());
  if (std::filesystem::is_directory(status)) throw Error(ErrorCode::kFile, what + " is a folder, not a file");
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorCode::kFile, what + " is not a regular file: it cannot be read from a pipe or device");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) FailToRead(what);
  return file;
}

}  // namespace

void CheckReadable(const std::string& path, const std::string& what) { OpenToRead(path, what); }

std::string ReadFile(const std::string& path, const std::string& what) {
  std::ifstream file = OpenToRead(path, what);
  std::string bytes;
  const auto piece = std::make_unique<char[]>(kPiece);
  do {
    file.read(piece.get(), kPiece);
    bytes.append(piece.get(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  if (file.bad()) FailToRead(what);
  return bytes;
}

}  // namespace costate
