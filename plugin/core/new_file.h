// Single files that appear whole or not at all: written under another name, synced, then renamed.
#ifndef COSTATE_CORE_NEW_FILE_H_
#define COSTATE_CORE_NEW_FILE_H_

#include <string>
#include <string_view>

namespace costate {

/// Before work is done for a file: throws Error{kFile} if `path` exists and may not be replaced, is a folder, or its
/// folder does not exist.
void CheckWritable(const std::string& path, bool force);

/// Writes the whole file. @param force  replace an existing one; otherwise Error{kFile}, even if it appeared meanwhile.
/// @throws Error{kFile} with the path and the system's reason.
void WriteNewFile(const std::string& path, std::string_view bytes, bool force);

}  // namespace costate

#endif  // COSTATE_CORE_NEW_FILE_H_
