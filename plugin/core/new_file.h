// Single files that appear whole or not at all: written under another name, synced, then renamed.
#ifndef COSTATE_CORE_NEW_FILE_H_
#define COSTATE_CORE_NEW_FILE_H_

#include <string>
#include <string_view>

namespace costate {

/// Before work is done for a file: throws Error{kFile} if `path` exists and may not be replaced, is a folder or anything
/// else but a file, a pipe or a device that takes bytes, or its folder does not exist.
void CheckWritable(const std::string& path, bool force);

/// Writes the whole file. @param force  replace an existing one; otherwise Error{kFile}, even if it appeared meanwhile.
/// A link stays one, what it names is replaced; a pipe or a device (/dev/stdout) is written to.
/// @throws Error{kFile} with the path and the system's reason.
void WriteNewFile(const std::string& path, std::string_view bytes, bool force);

/// Does rename with flags (renameat2) fail so where the file system has none of them?
bool CannotRenameSo(int error);

/// Gives a file another name unless that is taken, also where it is taken meanwhile.
/// @param skip  so many of its ways are left out, as where the file system has none of them: one call, a link; by the
///              last the name is taken by an empty file first.
/// @return 0, or errno: EEXIST where it is taken.
int RenameToNew(const std::string& from, const std::string& to, int skip = 0);

}  // namespace costate

#endif  // COSTATE_CORE_NEW_FILE_H_
