// Whole files; one that cannot be read is refused in one wording.
#ifndef COSTATE_CORE_READ_FILE_H_
#define COSTATE_CORE_READ_FILE_H_

#include <string>

namespace costate {

/// @throws Error{kFile} unless it is a regular file that may be read: "task file 'a.xml' does not exist".
/// @param what  the file as messages call it: "task file 'a.xml'".
void CheckReadable(const std::string& path, const std::string& what);

/// All of its bytes. @throws Error{kFile} likewise, and where reading breaks off.
std::string ReadFile(const std::string& path, const std::string& what);

}  // namespace costate

#endif  // COSTATE_CORE_READ_FILE_H_
