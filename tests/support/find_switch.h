// A switch of a certificate by its name.
#ifndef COSTATE_TESTS_SUPPORT_FIND_SWITCH_H_
#define COSTATE_TESTS_SUPPORT_FIND_SWITCH_H_

#include <costate/certificate.h>

#include <string>

namespace costate::support {

// the switch of that name and next state, or null
inline const Switch* Find(const Certificate& certificate, const std::string& name, const std::string& next) {
  for (const Switch& s : certificate.switches) {
    if (s.name == name && s.next == next) return &s;
  }
  return nullptr;
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_FIND_SWITCH_H_
