#pragma once
// Providers that come as shared objects of their own, libspindrift-NAME.so, because of what they
// need installed. Loaded when an address or `spindrift info` asks for one, and kept for ever.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/provider.h"

#include "providers/module/foreign_module.h"

namespace spindrift {

// One for each module that there may be, whether it is installed or not.
std::span<const ProviderInfo> module_providers();

// Whether addresses of this scheme, where they open an endpoint, name devices, whose IP addresses
// are among the options ("dpdk://net_memif0?ip=10.0.0.1/24") or the host's ("verbs://mlx5_0:1").
// Where they listen or connect, they name IP addresses as others do.
inline bool names_devices(std::string_view scheme) {
  return scheme == "dpdk" || scheme == "verbs";
}

// Whether an address of a provider that brings both asks for packets: transport=ud, or uc.
bool asks_for_packets(const Url& url);

// What to open an endpoint with, and what to listen on, when a user says where to listen: options
// go to the endpoint, and so does the address where it names a device. `device_port` is then the
// port, unless the address says one.
struct ListenAddresses {
  std::string open;
  std::string listen;
};
ListenAddresses listen_addresses(const std::string& address, std::uint16_t device_port);

// What a provider in a module says about the devices that the address names; nothing where it is no
// module, or has nothing to say.
Result<std::vector<DeviceFact>> describe_devices(const Url& url);

// Where modules are looked for, in this order: what SPINDRIFT_MODULES names (folders, separated by
// colons), and "spindrift" beside the library and beside the library folder of an installed
// program.
std::vector<std::string> provider_module_folders();

}  // namespace spindrift
