#pragma once
// What a dpdk:// address says: devices, and after '?' their options. Several devices are separated
// by ',', and what belongs to each of them in an option by '|'. Internal to providers/dpdk.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "providers/dpdk/mac_address.h"

namespace spindrift {

// An address of ours, and how many of its bits its neighbours share.
struct LocalNet {
  NetAddress address{};
  std::uint8_t prefix_bits = 0;
  bool contains(const NetAddress& other) const;
};

struct StaticNeighbor {
  NetAddress address{};
  MacAddress mac{};
};

enum class ChecksumChoice : std::uint8_t {
  kAuto,  // by the port; else none over IPv4, where the transport's own CRC watches
  kOn,    // by the port; else in software
  kOff,   // none over IPv4
};

enum class PayloadChoice : std::uint8_t {
  kAuto,     // where it was measured to be the faster one
  kCopy,     // always copied into packets
  kInPlace,  // sent from where it lies, if the device can
};

struct DeviceOptions {
  std::string device;       // as DPDK calls it: "0000:3b:00.0", "net_memif0"
  std::string arguments{};  // of its driver: "role=client,socket=/run/m.sock"
  std::vector<LocalNet> nets{};
  std::vector<NetAddress> gateways{};  // at most one of each family
  std::vector<StaticNeighbor> neighbors{};
  MacAddress mac{};                   // zero: the device's own
  std::uint32_t port = 0;             // of UDP, on all addresses; 0: any that is free
  std::uint32_t vlan = 0;             // 0: untagged
  std::uint32_t mtu = 1500;           // of IP
  std::uint32_t queues = 1;           // pairs; endpoints beyond share them
  std::uint32_t ring = 1024;          // descriptors per queue and direction
  std::uint32_t mbufs = 0;            // packets that a pool holds; 0: four rings
  std::uint32_t neighbor_ms = 30000;  // after which a neighbour in use is asked again
  ChecksumChoice checksum = ChecksumChoice::kAuto;
  PayloadChoice payload = PayloadChoice::kAuto;
};

// One row per option, for messages, the documentation and `help`.
struct DeviceOptionInfo {
  std::string_view name;
  std::string_view unit;
  std::string_view default_value;
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // 0: it is no number
  std::string_view help;
};
std::span<const DeviceOptionInfo> device_option_infos();

// `url.hosts` are devices; at least one. Refuses unknown and ill-formed options by name.
Result<std::vector<DeviceOptions>> parse_device_options(const Url& url);

}  // namespace spindrift
