// Memory that this process really holds and has held, by the system's own count.
#ifndef COSTATE_TESTS_SUPPORT_PEAK_MEMORY_H_
#define COSTATE_TESTS_SUPPORT_PEAK_MEMORY_H_

#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace costate::support {

/// A line of /proc/self/status in bytes: "VmRSS:   1234 kB".
inline double StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::strtod(line.c_str() + name.size() + 1, nullptr);
  }
  return 0;
}

inline double ResidentBytes() { return StatusBytes("VmRSS"); }

/// Since the start or the last ResetPeak.
inline double PeakBytes() { return StatusBytes("VmHWM"); }

/// What was freed goes back to the system and the peak becomes what is resident now; false where the system does not
/// allow it.
inline bool ResetPeak() {
  malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  file << 5;
  file.flush();
  return file.good();
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_PEAK_MEMORY_H_
