#include "providers/dpdk/payload_tails.h"

#include <cstring>

#include "providers/dpdk/eal.h"
#include "providers/dpdk/pools.h"

namespace spindrift {
namespace {

static_assert(std::tuple_size_v<decltype(TxPacket::payload)> == kMaxPieces);

// Whose memory it is, is not DPDK's concern.
void leave_alone(void* /*memory*/, void* /*none*/) {}

void view(rte_mbuf& tail, std::span<const std::byte> piece) {
  auto* shared = static_cast<rte_mbuf_ext_shared_info*>(rte_mbuf_to_priv(&tail));
  shared->free_cb = leave_alone;
  rte_mbuf_ext_refcnt_set(shared, 1);
  auto* data = const_cast<std::byte*>(piece.data());
  const auto bytes = static_cast<std::uint16_t>(piece.size());
  rte_pktmbuf_attach_extbuf(&tail, data, reinterpret_cast<rte_iova_t>(data), bytes, shared);
  tail.data_len = bytes;
}

}  // namespace

PayloadTails::~PayloadTails() {
  if (!is_eal_usable()) return;
  for (std::size_t i = 0; i < stashed_; ++i)
    rte_pktmbuf_free(stash_[i]);
  give_back_pool(pool_);
}

bool PayloadTails::open(std::uint32_t packets, int socket) {
  pool_ = take_pool({.frame_bytes = 64,
                     .packets = packets,
                     .socket = socket,
                     .private_bytes = RTE_ALIGN_CEIL(sizeof(rte_mbuf_ext_shared_info), 8)});
  return pool_ != nullptr;
}

bool PayloadTails::chain(const TxPacket& packet, rte_mbuf& frame) {
  if (stashed_ < kMaxPieces + 1) {
    const auto missing = static_cast<unsigned>(stash_.size() - stashed_);
    if (rte_pktmbuf_alloc_bulk(pool_, stash_.data() + stashed_, missing) != 0) return false;
    stashed_ = stash_.size();
  }
  rte_mbuf* last = &frame;
  const auto add = [&] {
    last->next = stash_[--stashed_];
    last = last->next;
    ++frame.nb_segs;
  };
  for (std::size_t i = 0; i < packet.payload_pieces; ++i) {
    if (packet.payload[i].empty()) continue;
    add();
    view(*last, packet.payload[i]);
  }
  if (packet.trailer_bytes == 0) return true;
  add();
  last->data_off = 0;
  last->data_len = packet.trailer_bytes;
  std::memcpy(last->buf_addr, packet.trailer.data(), packet.trailer_bytes);
  return true;
}

}  // namespace spindrift
