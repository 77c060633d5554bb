// Names of entries taken apart.
#ifndef COSTATE_CORE_NAME_H_
#define COSTATE_CORE_NAME_H_

#include <string>

namespace costate {

/// What stands in a name's brackets, which may hold brackets themselves: "root" of "qpos[root].x"; the whole name where
/// it has none.
inline std::string Inside(const std::string& name) {
  const std::size_t open = name.find('['), close = name.rfind(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return name;
  return name.substr(open + 1, close - open - 1);
}

}  // namespace costate

#endif  // COSTATE_CORE_NAME_H_
