#include "cli/run_output.h"

#include <costate/error.h>
#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace costate::cli {

std::string FreeFolder(const Task& task) {
  std::string name = task.name;
  if (name.empty()) name = std::filesystem::path(task.file.empty() ? task.model_file : task.file).stem().string();
  for (char& c : name) {
    if (c == '/' || c == ' ') c = '_';
  }
  for (int n = 1;; n++) {
    const std::string folder = fmt::format("runs/{}-{}", name, n);
    if (!std::filesystem::exists(folder)) return folder;
  }
}

void CheckRunFolder(const std::string& folder, bool own, bool force) {
  namespace fs = std::filesystem;
  if (fs::exists(folder) && !force) {
    throw Error(ErrorCode::kFile, folder + " exists; --force replaces a run, --out names another folder");
  }
  const fs::path parent = fs::absolute(fs::path(folder)).parent_path();
  std::error_code error;
  if (own) fs::create_directories(parent, error);
  std::string probe = (parent / ".costate-XXXXXX").string();
  if (!mkdtemp(probe.data())) {
    throw Error(ErrorCode::kFile,
                fmt::format("the run cannot be saved in {}: {}", parent.string(), std::strerror(errno)));
  }
  fs::remove(probe, error);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace costate::cli
