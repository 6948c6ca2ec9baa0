#pragma once
// Packets that are only a view of memory elsewhere: payload is chained to its headers by them and
// sent from where it lies. Internal to providers/dpdk.
#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "spindrift/provider.h"

namespace spindrift {

class PayloadTails {
 public:
  PayloadTails() = default;
  ~PayloadTails();
  PayloadTails(const PayloadTails&) = delete;
  PayloadTails& operator=(const PayloadTails&) = delete;
  // At least once before chain(); false: no memory.
  bool open(std::uint32_t packets, int socket);

  // Payload and trailer of `packet` behind `frame`, which has the headers; false: no packets are
  // left, and nothing has been done. Devices reach the memory by its virtual address.
  bool chain(const TxPacket& packet, rte_mbuf& frame);

 private:
  rte_mempool* pool_ = nullptr;
  std::array<rte_mbuf*, 64> stash_{};
  std::size_t stashed_ = 0;
};

}  // namespace spindrift
