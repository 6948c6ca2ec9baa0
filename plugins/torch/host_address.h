#pragma once
// Where this rank listens, so that all others can reach it.
#include <string>

#include "spindrift/collective.h"

namespace spindrift::torch_plugin {

struct HostAddress {
  std::string address;            // "udp://10.0.0.1:0"
  std::uint32_t local_ranks = 1;  // of the group, on this host
};

// SPINDRIFT_ADDRESS if it is set; else the loopback address where all ranks are on this host; else
// this host's address on the way to MASTER_ADDR, or its first. All ranks of a group call it.
Result<HostAddress> agree_on_address(Store& store, const std::string& name, std::uint32_t rank,
                                     std::uint32_t ranks, Duration timeout);

}  // namespace spindrift::torch_plugin
