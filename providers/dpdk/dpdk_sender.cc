#include "providers/dpdk/dpdk_sender.h"

#include <algorithm>
#include <cstring>

#include "providers/dpdk/checksum.h"
#include "providers/dpdk/eal.h"
#include "providers/dpdk/pools.h"
#include "providers/monotonic_clock.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

// Where the engine writes its headers: behind those of a usual frame, which then begins where
// drivers that copy frames do so fastest, and with room for longer ones.
constexpr std::size_t kHeaderOffset =
    RTE_PKTMBUF_HEADROOM + kEthernetBytes + kIpv4Bytes + kUdpBytes;
static_assert(RTE_PKTMBUF_HEADROOM % 64 == 0);
static_assert(kHeaderOffset >= kMaxFrameHeaders);

// A device that takes nothing for so long (its link is down, its peer stands still) loses what
// waits, as a network would: what comes behind must not wait for ever.
constexpr Duration kPatience = std::chrono::milliseconds(20);

// Packets taken from the pool at a time.
constexpr std::size_t kAhead = 32;

// Shorter payload is copied faster than packets are chained.
constexpr std::size_t kInPlaceBytes = 1024;

std::size_t slot_of(const TxPacket& packet) {
  std::uint32_t tail = 0;
  const std::size_t at = packet.to->family == 6 ? 12 : 0;
  std::memcpy(&tail, packet.to->ip.data() + at, sizeof tail);
  const std::uint64_t mixed =
      (std::uint64_t{tail} << 32U | std::uint64_t{packet.to->port} << 16U | packet.rail) *
      0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(mixed >> 56U);
}

}  // namespace

DpdkSender::DpdkSender(std::size_t ports) : ways_(kWays), queues_(ports) {}

DpdkSender::~DpdkSender() {
  if (!is_eal_usable()) return;
  for (Queue& queue : queues_)
    for (std::size_t i = queue.next; i < queue.count; ++i)
      rte_pktmbuf_free(queue.frames[i]);
  for (std::size_t i = 0; i < stashed_; ++i)
    rte_pktmbuf_free(stash_[i]);
  give_back_pool(pool_);
}

Status DpdkSender::open(std::span<const DeviceOptions> devices,
                        std::span<const std::unique_ptr<PortUse>> uses) {
  DeviceOptions largest = devices.front();
  for (const DeviceOptions& one : devices) {
    largest.mtu = std::max(largest.mtu, one.mtu);
    largest.mbufs = std::max(largest.mbufs, one.mbufs);
    largest.ring = std::max(largest.ring, one.ring);
  }
  const bool has_tails = std::any_of(uses.begin(), uses.end(), [](const auto& use) {
    return use->port->device().payload_reach() != PayloadReach::kPacket;
  });
  const PoolWish wish = pool_wish(largest, uses.front()->port->device().socket());
  pool_ = take_pool(wish);
  const bool is_complete = !has_tails || tails_.open(wish.packets, wish.socket);
  if (pool_ != nullptr && is_complete) return ok_status();
  return Error(ErrorCode::kNoMemory,
               "DPDK has no memory for packets to send: give it more, "
               "SPINDRIFT_DPDK_EAL=\"-m 1024\", or ask for less with the options mbufs and mtu");
}

bool DpdkSender::fill_stash(std::size_t wanted) {
  if (stashed_ >= wanted) return true;
  // A few more than are wanted, for calls that want one each.
  const std::size_t ahead = std::max(wanted, kAhead);
  const auto missing = static_cast<unsigned>(ahead - stashed_);
  if (rte_pktmbuf_alloc_bulk(pool_, stash_.data() + stashed_, missing) == 0) {
    stashed_ = ahead;
    return true;
  }
  ++no_mbuf_;
  while (stashed_ < wanted) {
    rte_mbuf* one = rte_pktmbuf_alloc(pool_);
    if (one == nullptr) return false;
    stash_[stashed_++] = one;
  }
  return true;
}

std::size_t DpdkSender::reserve(std::span<const std::unique_ptr<PortUse>> uses,
                                std::span<TxPacket> out) {
  reserved_ = 0;
  if (has_unsent()) flush(uses);
  if (has_unsent()) return 0;
  const std::size_t wanted = std::min(out.size(), kMaxPackets);
  const std::size_t count = fill_stash(wanted) ? wanted : stashed_;
  for (std::size_t i = 0; i < count; ++i) {
    TxPacket& packet = out[i];
    packet.header = {static_cast<std::byte*>(stash_[i]->buf_addr) + kHeaderOffset, kMaxHeaderBytes};
    packet.to = nullptr;
    packet.rail = 0;
    packet.entropy = 0;
    packet.payload_pieces = 0;
    packet.trailer_bytes = 0;
    packet.ecn = Ecn::kEct0;
    packet.dscp = 0;
  }
  reserved_ = count;
  return count;
}

void DpdkSender::look_up(Way& way, const DpdkRail& rail) {
  Port& port = *rail.use->port;
  way.generation = port.generation();
  way.is_local = port.has_address(way.to);
  const auto route = port.route(way.to);
  way.has_route = route.has_value() && way.to.family == rail.address.family;
  if (!way.has_route) return;
  way.next_hop = route->next_hop;
  FrameWay frame_way{.source_mac = port.mac(),
                     .destination_mac = port.mac(),
                     .source = rail.address,
                     .destination = way.to,
                     .vlan = static_cast<std::uint16_t>(port.options().vlan)};
  way.is_known = way.is_local;
  if (!way.is_local) {
    const auto mac = port.resolve(way.next_hop, monotonic_now());
    way.is_known = mac.has_value();
    frame_way.destination_mac = mac.value_or(MacAddress{});
  }
  way.headers = FrameHeaders(frame_way);
  way.max_packet_bytes = port.path_mtu(way.to) - ip_udp_bytes(way.to.family);
  const bool needs_sum = way.to.family == 6 || port.options().checksum == ChecksumChoice::kOn;
  way.checksum = !way.is_local && port.device().computes_checksums() ? UdpChecksum::kPseudoHeader
                 : needs_sum                                         ? UdpChecksum::kFull
                                                                     : UdpChecksum::kNone;
  const bool is_read_later = way.is_local || !way.is_known;
  way.reach = is_read_later || way.checksum == UdpChecksum::kFull ? PayloadReach::kPacket
                                                                  : port.device().payload_reach();
}

DpdkSender::Way& DpdkSender::way_of(std::span<const DpdkRail> rails, const TxPacket& packet) {
  Way* way = last_way_;
  if (way == nullptr || way->rail != packet.rail || way->to != *packet.to)
    way = &ways_[slot_of(packet)];
  last_way_ = way;
  const DpdkRail& rail = rails[packet.rail];
  const bool is_same = way->rail == packet.rail && way->to == *packet.to;
  if (is_same && way->is_known && way->generation == rail.use->port->generation()) return *way;
  way->to = *packet.to;
  way->rail = packet.rail;
  look_up(*way, rail);
  return *way;
}

bool DpdkSender::may_stay_in_place(const Way& way, const TxPacket& packet) const {
  if (way.reach == PayloadReach::kPacket) return false;
  std::size_t bytes = 0;
  bool is_mapped = way.reach == PayloadReach::kAnywhere;
  for (std::size_t i = 0; i < packet.payload_pieces; ++i)
    bytes += packet.payload[i].size();
  if (bytes < kInPlaceBytes) return false;
  if (is_mapped) return true;
  is_mapped = dma_regions_ != nullptr;
  for (std::size_t i = 0; i < packet.payload_pieces && is_mapped; ++i)
    is_mapped = packet.payload[i].empty() || dma_regions_->contains(packet.payload[i]);
  return is_mapped;
}

void DpdkSender::build(const Way& way, const DpdkRail& rail, const TxPacket& packet,
                       rte_mbuf* frame) {
  std::byte* const begin = packet.header.data();
  std::byte* end = begin + packet.header.size();
  const std::size_t headers = way.headers.bytes();
  const std::size_t bytes = packet.total_bytes();
  const bool is_in_place = may_stay_in_place(way, packet) && tails_.chain(packet, *frame);
  if (is_in_place) {
    ++in_place_;
  } else {
    for (std::size_t i = 0; i < packet.payload_pieces; ++i) {
      const auto& piece = packet.payload[i];
      if (!piece.empty()) std::memcpy(end, piece.data(), piece.size());
      end += piece.size();
    }
    std::memcpy(end, packet.trailer.data(), packet.trailer_bytes);
    end += packet.trailer_bytes;
  }
  const std::uint16_t sum =
      way.checksum == UdpChecksum::kFull ? sum_words({begin, bytes}) : std::uint16_t{0};
  way.headers.write(
      begin - headers,
      {.payload_bytes = static_cast<std::uint32_t>(bytes),
       .source_port = static_cast<std::uint16_t>(rail.first_entropy_port + packet.entropy),
       .dscp = packet.dscp,
       .ecn = packet.ecn},
      way.checksum, sum);
  std::size_t total = headers + bytes;
  // The shortest frame there is; devices in software do not lengthen it themselves.
  if (total < kMinFrameBytes) {
    std::memset(end, 0, kMinFrameBytes - total);
    end += kMinFrameBytes - total;
    total = kMinFrameBytes;
  }
  frame->data_off = static_cast<std::uint16_t>(kHeaderOffset - headers);
  frame->data_len = static_cast<std::uint16_t>(end - begin + static_cast<std::ptrdiff_t>(headers));
  frame->pkt_len = static_cast<std::uint32_t>(total);
  if (way.checksum == UdpChecksum::kPseudoHeader) {
    frame->l2_len = way.headers.ip_offset() & 0x7fU;
    frame->l3_len = way.headers.ip_bytes() & 0x1ffU;
    frame->ol_flags =
        RTE_MBUF_F_TX_UDP_CKSUM | (way.headers.is_ipv6() ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
  }
}

// What never reaches the device, without being an error of the provider's.
void DpdkSender::lose(const TxPacket& packet, IoError::Kind kind, std::uint32_t max_packet_bytes) {
  ++lost_;
  if (error_count_ == errors_.size()) return;
  errors_[error_count_++] = {.kind = kind,
                             .to = *packet.to,
                             .rail = packet.rail,
                             .entropy = packet.entropy,
                             .max_packet_bytes = max_packet_bytes};
}

// To another endpoint of this process, or to a neighbour that is still looked for.
void DpdkSender::send_apart(const Way& way, const DpdkRail& rail, rte_mbuf* frame) {
  Port& port = *rail.use->port;
  if (way.is_local) {
    ParsedFrame parsed;
    const FrameVerdict verdict = parse_frame(
        {rte_pktmbuf_mtod(frame, const std::byte*), rte_pktmbuf_data_len(frame)}, parsed);
    port.take_in(frame, verdict, parsed, monotonic_now());
    return;
  }
  if (port.hold(way.next_hop, rail.use->queue, frame)) return;
  rte_pktmbuf_free(frame);
  ++lost_;
}

void DpdkSender::send(std::span<const std::unique_ptr<PortUse>> uses,
                      std::span<const DpdkRail> rails, std::span<const TxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= reserved_);
  reserved_ = 0;
  std::size_t kept = 0;  // frames of packets that were lost: still ours
  sent_before_last_ = sent_;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const TxPacket& packet = packets[i];
    SPINDRIFT_CHECK(packet.rail < rails.size());
    const DpdkRail& rail = rails[packet.rail];
    SPINDRIFT_CHECK(packet.entropy < rail.entropies);
    const Way& way = way_of(rails, packet);
    const bool fits = way.has_route && packet.total_bytes() <= way.max_packet_bytes;
    if (!fits) [[unlikely]] {
      lose(packet, way.has_route ? IoError::Kind::kTooBig : IoError::Kind::kHostUnreachable,
           way.max_packet_bytes);
      stash_[kept++] = stash_[i];
      continue;
    }
    build(way, rail, packet, stash_[i]);
    ++packets_;
    bytes_ += packet.total_bytes();
    if (!way.is_known || way.is_local) [[unlikely]] {
      send_apart(way, rail, stash_[i]);
      continue;
    }
    for (std::size_t use = 0; use < uses.size(); ++use) {
      if (uses[use].get() != rail.use) continue;
      queues_[use].frames[queues_[use].count++] = stash_[i];
      queues_[use].has_unread |= way.reach == PayloadReach::kMapped && stash_[i]->nb_segs > 1;
      ++unsent_;
    }
  }
  sent_ += packets.size();
  std::copy(stash_.begin() + static_cast<std::ptrdiff_t>(packets.size()),
            stash_.begin() + static_cast<std::ptrdiff_t>(stashed_),
            stash_.begin() + static_cast<std::ptrdiff_t>(kept));
  stashed_ = stashed_ - packets.size() + kept;
  if (unsent_ != 0) flush(uses);
}

void DpdkSender::flush(std::span<const std::unique_ptr<PortUse>> uses) {
  unsent_ = 0;
  for (std::size_t use = 0; use < uses.size(); ++use)
    if (queues_[use].count != 0) flush_queue(*uses[use], queues_[use]);
}

std::size_t DpdkSender::transmit_counted(PortUse& use, Queue& queue, std::span<rte_mbuf*> waiting) {
  // The device may have freed what it has taken.
  std::array<std::uint16_t, kMaxPackets> segments{};
  std::transform(waiting.begin(), waiting.end(), segments.begin(),
                 [](const rte_mbuf* frame) { return frame->nb_segs; });
  const std::size_t taken = use.port->device().transmit(use.queue, waiting);
  for (std::size_t i = 0; i < taken; ++i)
    queue.segments += segments[i];
  return taken;
}

void DpdkSender::flush_queue(PortUse& use, Queue& queue) {
  PortDevice& device = use.port->device();
  const std::size_t left = queue.count - queue.next;
  const auto waiting = std::span(queue.frames).subspan(queue.next, left);
  const std::size_t taken = queue.has_unread ? transmit_counted(use, queue, waiting)
                                             : device.transmit(use.queue, waiting);
  queue.next += taken;
  if (taken == left) {
    finish(queue);
    return;
  }
  ++would_block_;
  const Time now = monotonic_now();
  if (taken != 0 || queue.stuck_since == kNever) queue.stuck_since = now;
  if (now - queue.stuck_since > kPatience || !device.is_up()) {
    const std::size_t lost = queue.count - queue.next;
    rte_pktmbuf_free_bulk(queue.frames.data() + queue.next, static_cast<unsigned>(lost));
    lost_ += lost;
    finish(queue);
    return;
  }
  unsent_ += queue.count - queue.next;
}

// Nothing waits there any more; what the device reads later is remembered.
void DpdkSender::finish(Queue& queue) const {
  queue.count = 0;
  queue.next = 0;
  queue.stuck_since = kNever;
  if (!queue.has_unread) return;
  queue.has_unread = false;
  if (queue.unread.is_full())
    queue.unread[queue.unread.size() - 1].segments = queue.segments;
  else
    queue.unread.push_back({.sent_before = sent_before_last_, .segments = queue.segments});
}

std::uint64_t DpdkSender::released(std::span<const std::unique_ptr<PortUse>> uses) const {
  std::uint64_t released = has_unsent() ? sent_before_last_ : sent_;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const Queue& queue = queues_[i];
    const PortDevice& device = uses[i]->port->device();
    // What is behind them all tells most.
    if (!queue.unread.is_empty() && device.has_sent(uses[i]->queue, 0)) queue.unread.clear();
    while (!queue.unread.is_empty() &&
           device.has_sent(uses[i]->queue, queue.segments - queue.unread.front().segments))
      queue.unread.pop_front();
    if (!queue.unread.is_empty()) released = std::min(released, queue.unread.front().sent_before);
  }
  return released;
}

void DpdkSender::close(std::span<const std::unique_ptr<PortUse>> uses) {
  const Time start = monotonic_now();
  while (released(uses) < sent_ && monotonic_now() - start < kPatience)
    if (has_unsent()) flush(uses);
}

std::size_t DpdkSender::take_errors(std::span<IoError> out) {
  std::size_t taken = 0;
  while (error_count_ > 0 && taken < out.size())
    out[taken++] = errors_[--error_count_];
  return taken;
}

void DpdkSender::counters(CounterWriter& out) const {
  out.counter("tx_packets", packets_);
  out.counter("tx_bytes", bytes_);
  out.counter("tx_in_place", in_place_);
  out.counter("tx_lost_packets", lost_);
  out.counter("tx_would_block", would_block_);
  out.counter("tx_no_mbuf", no_mbuf_);
}

}  // namespace spindrift
