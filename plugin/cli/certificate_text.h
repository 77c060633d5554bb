// A certificate in words.
#ifndef COSTATE_PLUGIN_CLI_CERTIFICATE_TEXT_H_
#define COSTATE_PLUGIN_CLI_CERTIFICATE_TEXT_H_

#include <costate/certificate.h>

#include <string>
#include <vector>

namespace costate::cli {

/// The label, the active set, the nearest switch of each unit, what is one-sided, and whether the
/// engine's own solver ends early: one line each.
std::vector<std::string> CertificateLines(const Certificate& certificate);

}  // namespace costate::cli

#endif  // COSTATE_PLUGIN_CLI_CERTIFICATE_TEXT_H_
