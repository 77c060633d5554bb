#include "engine/private_model.h"

#include <algorithm>

namespace costate {
namespace {

// entries of mjModel.names_map for each element; the plugins' come last and the others are found from the end
constexpr int kNameMapMultiple = 2;

}  // namespace

PrivateModel::PrivateModel(const mjModel* host, int plugin_slot) {
  std::vector<int> number(static_cast<std::size_t>(host->nplugin), -1);
  for (int i = 0; i < host->nplugin; ++i) {
    if (host->plugin[i] == plugin_slot) continue;
    number[static_cast<std::size_t>(i)] = static_cast<int>(plugin_.size());
    plugin_.push_back(host->plugin[i]);
    stateadr_.push_back(host->plugin_stateadr[i]);
    statenum_.push_back(host->plugin_statenum[i]);
    attradr_.push_back(host->plugin_attradr[i]);
    nameadr_.push_back(host->name_pluginadr[i]);
  }
  const auto renumber = [&](const int* owners, mjtSize n, std::vector<int>* out) {
    out->assign(owners, owners + n);
    for (int& owner : *out) {
      if (owner >= 0) owner = number[static_cast<std::size_t>(owner)];
    }
  };
  renumber(host->body_plugin, host->nbody, &body_);
  renumber(host->geom_plugin, host->ngeom, &geom_);
  renumber(host->actuator_plugin, host->nactuator, &actuator_);
  renumber(host->sensor_plugin, host->nsensor, &sensor_);
  Refresh(host);
}

void PrivateModel::Refresh(const mjModel* host) {
  view_ = *host;
  view_.nplugin = static_cast<mjtSize>(plugin_.size());
  view_.nnames_map -= kNameMapMultiple * (host->nplugin - view_.nplugin);
  view_.plugin = plugin_.data();
  view_.plugin_stateadr = stateadr_.data();
  view_.plugin_statenum = statenum_.data();
  view_.plugin_attradr = attradr_.data();
  view_.name_pluginadr = nameadr_.data();
  view_.body_plugin = body_.data();
  view_.geom_plugin = geom_.data();
  view_.actuator_plugin = actuator_.data();
  view_.sensor_plugin = sensor_.data();
}

}  // namespace costate
