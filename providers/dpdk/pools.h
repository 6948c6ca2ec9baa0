#pragma once
// Pools of packets (mempools). They are kept for the next user instead of freed: a device, or
// another endpoint, may still have some of their packets. Internal to providers/dpdk.
#include <rte_mempool.h>

#include "providers/dpdk/device_options.h"

namespace spindrift {

struct PoolWish {
  std::uint32_t frame_bytes = 0;  // that one packet holds
  std::uint32_t packets = 0;
  int socket = 0;                   // NUMA node
  std::uint32_t private_bytes = 0;  // beside each packet, for its user
};
PoolWish pool_wish(const DeviceOptions& options, int socket);
// Null: no memory.
rte_mempool* take_pool(const PoolWish& wish);
void give_back_pool(rte_mempool* pool);

}  // namespace spindrift
