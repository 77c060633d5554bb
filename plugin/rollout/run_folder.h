// A folder that appears whole or not at all: written under another name, synced, then renamed.
#ifndef COSTATE_ROLLOUT_RUN_FOLDER_H_
#define COSTATE_ROLLOUT_RUN_FOLDER_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rollout/sha256.h"

namespace costate {

/// The file whose presence makes a folder a run.
inline constexpr char kRecordFile[] = "record.json";

/// A file of the new folder as it was written.
struct WrittenFile {
  std::string name;
  std::size_t bytes = 0;
  std::string sha256;
};

/// The new folder while it is written, beside its target as ".NAME.part-PID-n". The destructor removes it unless it was
/// published; what a killed program left of it is removed by the next one that writes to the same target.
class NewFolder {
 public:
  /// @param replace  an existing run at `target` may be replaced; never anything that is not a run.
  /// @throws Error{kFile}: the target exists or is not a run, its parent is missing or refuses.
  NewFolder(const std::string& target, bool replace);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return staging_; }
  const std::vector<WrittenFile>& files() const { return files_; }

  /// Syncs the folder and gives it its name in one rename. With `replace` the two folders change places in one system
  /// call, so that there is a run under the name at every instant, then the old one is removed.
  /// @param exchange  false: as on a file system that cannot exchange: the old run is moved aside first.
  void Publish(bool exchange = true);

  /// "cannot write run 'run': trajectory.csv: No space left on device".
  [[noreturn]] void Fail(const std::string& what, int error) const;

 private:
  friend class FileWriter;
  bool CreateStaging();
  void RemoveAbandoned() const;
  void Replace(bool exchange);

  std::string shown_;  // the target as the caller wrote it
  std::filesystem::path target_, staging_;
  bool replace_, exists_ = false, published_ = false;
  int lock_ = -1;  // a writer at work holds it
  std::vector<WrittenFile> files_;
};

/// One file of a new folder; hashed as it is written, in memory of a fixed size.
class FileWriter {
 public:
  FileWriter(NewFolder* folder, const std::string& name);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void Write(std::string_view bytes);

  /// Everything is on the disk afterwards, and the file in folder->files().
  void Close();

 private:
  void Flush();

  NewFolder* folder_;
  std::string name_, buffer_;
  int file_ = -1;
  std::size_t size_ = 0;
  Sha256 hash_;
};

}  // namespace costate

#endif  // COSTATE_ROLLOUT_RUN_FOLDER_H_
