#include "providers/dpdk/pools.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include <rte_mbuf.h>

#include "providers/dpdk/eal.h"
#include "providers/dpdk/frame_layout.h"

namespace spindrift {
namespace {

// Per thread; what was used last is used first, from the processor's cache.
constexpr unsigned kCache = 256;

struct Shelf {
  std::mutex mutex;
  std::vector<rte_mempool*> idle;
  unsigned made = 0;
};

// So that no packet pays for the first use of its pages.
void touch(rte_mempool* /*pool*/, void* /*none*/, void* object, unsigned /*index*/) {
  static constexpr std::size_t kPageBytes = 4096;
  const auto* packet = static_cast<const rte_mbuf*>(object);
  for (std::size_t at = 0; at < packet->buf_len; at += kPageBytes)
    static_cast<volatile char*>(packet->buf_addr)[at] = 0;
}

// As long as DPDK runs, which is as long as the process.
Shelf& shelf() {
  static auto* const one = new Shelf;
  return *one;
}

}  // namespace

PoolWish pool_wish(const DeviceOptions& options, int socket) {
  // Drivers want room for what they put in front of a frame or behind it.
  static constexpr std::uint32_t kSpareBytes = 32;
  const std::uint32_t frame_bytes =
      options.mtu + static_cast<std::uint32_t>(kEthernetBytes + kVlanTagBytes) + kSpareBytes;
  return {.frame_bytes = (frame_bytes + 63) & ~63U,
          .packets = options.mbufs != 0 ? options.mbufs : 4 * options.ring,
          .socket = socket};
}

rte_mempool* take_pool(const PoolWish& wish) {
  const auto room = static_cast<std::uint16_t>(
      std::min<std::uint32_t>(RTE_PKTMBUF_HEADROOM + wish.frame_bytes, 65535));
  Shelf& all = shelf();
  const std::lock_guard guard(all.mutex);
  for (rte_mempool*& pool : all.idle) {
    if (pool->size != wish.packets || pool->socket_id != wish.socket ||
        rte_pktmbuf_data_room_size(pool) != room ||
        rte_pktmbuf_priv_size(pool) != wish.private_bytes)
      continue;
    rte_mempool* found = pool;
    pool = all.idle.back();
    all.idle.pop_back();
    return found;
  }
  const ControlThreadsFirst beside_control_threads;
  const std::string name = "spindrift_pool_" + std::to_string(all.made++);
  rte_mempool* made =
      rte_pktmbuf_pool_create(name.c_str(), wish.packets, std::min(kCache, wish.packets / 4),
                              static_cast<std::uint16_t>(wish.private_bytes), room, wish.socket);
  if (made != nullptr) rte_mempool_obj_iter(made, touch, nullptr);
  return made;
}

void give_back_pool(rte_mempool* pool) {
  if (pool == nullptr) return;
  Shelf& all = shelf();
  const std::lock_guard guard(all.mutex);
  all.idle.push_back(pool);
}

}  // namespace spindrift
