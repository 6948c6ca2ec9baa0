#pragma once
// Everything the environment and the settings file say, once, when NCCL initialises the plugin.
#include <cstdint>
#include <string>
#include <vector>

#include "spindrift/open.h"
#include "spindrift/tunables.h"

#include "plugins/nccl/devices.h"

namespace spindrift::nccl {

struct PluginSettings {
  OpenOptions open{};        // of every endpoint
  ConnectOptions connect{};  // of every connection
  // Of connections over several rails: one that gives more to the faster ones, unless the user
  // chose.
  std::string merged_path_selector{};
  DeviceChoice devices{};
  bool has_shm = true;               // connections within this host take shared memory
  bool keeps_ll128 = true;           // false: the tuner takes LL128 away
  std::uint32_t threads = 0;         // of ours that poll all the time, 0..kMaxThreads
  std::vector<std::string> notes{};  // sentences for the log
};
inline constexpr std::uint32_t kMaxThreads = 64;

// process_sources(), with SPINDRIFT_CONF as another name of SPINDRIFT_CONFIG.
SettingsSources plugin_sources();
// SPINDRIFT_* first, then NCCL_IB_* where they mean the same. Errors name the variable, its value
// and its bounds.
Result<PluginSettings> load_plugin_settings(const SettingsSources& sources);

}  // namespace spindrift::nccl
