// A program that writes 0,5 for a half, as many do that ask for the user's own locale.
#ifndef COSTATE_TESTS_SUPPORT_COMMA_LOCALE_H_
#define COSTATE_TESTS_SUPPORT_COMMA_LOCALE_H_

#include <stdlib.h>

#include <clocale>
#include <locale>
#include <stdexcept>
#include <string>

#include "support/temporary_folder.h"

namespace costate::support {

/// German for C and C++ as long as the object lives. Compiled into a folder of its own: Debian's package `locales` has
/// what it takes, no locale need be installed.
/// @throws std::runtime_error that names the package.
class CommaLocale {
 public:
  CommaLocale() {
    const std::string compile = "localedef -i de_DE -f UTF-8 " + folder_.File("de_DE.UTF-8") + " >/dev/null 2>&1";
    const bool compiled = std::system(compile.c_str()) == 0;
    setenv("LOCPATH", folder_.path().c_str(), 1);
    if (!compiled || !std::setlocale(LC_ALL, "de_DE.UTF-8") || std::localeconv()->decimal_point != std::string(",")) {
      Leave();
      throw std::runtime_error("a German locale could not be compiled. On Debian: apt-get install locales");
    }
    std::locale::global(std::locale("de_DE.UTF-8"));
  }
  ~CommaLocale() { Leave(); }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

 private:
  static void Leave() {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
  }

  TemporaryFolder folder_;
};

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_COMMA_LOCALE_H_
