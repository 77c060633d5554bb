#include "engine/two_engines.h"

#include <costate/error.h>
#include <dlfcn.h>
#include <link.h>
#include <mujoco/mujoco.h>

#include <string>

namespace costate {
namespace {

struct Search {
  const void* own;  // where this engine's library begins
  std::string other;
};

int Look(dl_phdr_info* info, std::size_t, void* data) {
  Search* search = static_cast<Search*>(data);
  const std::string path = info->dlpi_name;
  const std::string name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("libmujoco.so") || reinterpret_cast<const void*>(info->dlpi_addr) == search->own) return 0;
  search->other = path;
  return 1;
}

}  // namespace

void RefuseTwoEngines() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&mj_version), &own) == 0) return;
  Search search{own.dli_fbase, ""};
  dl_iterate_phdr(Look, &search);
  if (search.other.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              "two MuJoCo engines are loaded: " + search.other + " and " + own.dli_fname + ", which is " +
                  mj_versionString() +
                  " and Costate's: a model of the one is none of the other (remedy: the host's MuJoCo is " +
                  mj_versionString() + ", pip install mujoco-core==" + mj_versionString() + ")");
}

}  // namespace costate
