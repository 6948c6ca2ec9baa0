#pragma once
// What a verbs:// address says where it opens an endpoint: devices, and after '?' their options.
// Variables that people set for NCCL mean the same here, where the address is silent. Internal to
// providers/verbs.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

enum class VerbsTransport : std::uint8_t {
  kRc,  // reliable queue pairs: messages, and reads over several lanes
  kUc,  // unreliable ones, below the packet engine: a packet each time, over several lanes
  kUd,  // datagrams, below the packet engine: one lane
};
std::string_view to_string(VerbsTransport transport);

// How two sides find each other.
enum class VerbsMeeting : std::uint8_t { kTcp, kRdmaCm };

enum class RelaxedOrdering : std::uint8_t { kOff, kOn, kAuto };

// "mlx5_0:1"; without a port: the first that is active.
struct DevicePort {
  std::string device;
  std::uint8_t port = 0;
  std::string to_string() const;
};

// NCCL_IB_HCA: "mlx5_0:1,mlx5_1" (names that begin so), "=mlx5_0" (exactly), "^mlx5_2" (all but).
struct HcaFilter {
  bool is_exact = false;
  bool is_exclusion = false;
  std::vector<DevicePort> names{};
  bool lets(std::string_view device, std::uint8_t port) const;
};
HcaFilter parse_hca_filter(std::string_view text);

struct VerbsOptions {
  std::vector<DevicePort> devices{};  // empty: the first that is active and that `filter` lets
  HcaFilter filter{};
  VerbsTransport transport = VerbsTransport::kRc;
  VerbsMeeting meeting = VerbsMeeting::kTcp;
  std::optional<std::uint32_t> gid_index{};
  std::optional<NetAddress> gid_address{};
  std::string gid_origin{};  // who said so
  std::uint32_t port = 0;    // of our own exchange; 0: any that is free
  // Queue pairs per connection that read; UC: per neighbor.
  std::uint32_t lanes = 8;
  std::uint32_t mtu = 4096;         // upper bound, bytes of payload
  std::uint32_t traffic_class = 0;  // of IP, or of the GRH
  std::uint32_t service_level = 0;  // InfiniBand; RoCE: the priority
  std::uint32_t pkey_index = 0;     // InfiniBand
  std::uint32_t timeout = 16;       // 4.096 us * 2^timeout until a packet is sent again
  std::uint32_t retries = 6;        // until the queue pair fails
  std::uint32_t buffers = 64;       // messages per connection and direction that may be under way
  std::uint32_t read_from = 8192;   // bytes from which on messages are read, not sent
  std::uint32_t reads = 16;         // RDMA READs under way per lane, where both devices can
  RelaxedOrdering relaxed_ordering = RelaxedOrdering::kAuto;
};

// One row per option, for messages and the documentation.
struct VerbsOptionInfo {
  std::string_view name;
  std::string_view unit;
  std::string_view default_value;
  std::uint32_t min = 0;
  std::uint32_t max = 0;      // 0: it is no number
  std::string_view variable;  // of NCCL, with the same meaning; empty: none
  std::string_view help;
};
std::span<const VerbsOptionInfo> verbs_option_infos();

// The value of a variable of the environment, or null.
using Environment = std::function<const char*(const char* name)>;

// Refuses unknown and ill-formed options, and variables, by name.
Result<VerbsOptions> parse_verbs_options(const Url& url, const Environment& environment);

}  // namespace spindrift
