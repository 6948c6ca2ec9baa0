#include "providers/dpdk/dpdk_receiver.h"

#include <algorithm>

#include "providers/dpdk/eal.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

// More than an endpoint holds at a time; grown once when it holds more.
constexpr std::size_t kHeldAtFirst = 1024;

void prefetch(const void* address) {
  __builtin_prefetch(address, 0, 3);
}

}  // namespace

DpdkReceiver::DpdkReceiver(std::size_t ports) : next_queue_(ports, 0), clocks_(ports) {
  held_.resize(kHeldAtFirst);
  free_.reserve(kHeldAtFirst);
  for (std::uint32_t i = kHeldAtFirst; i > 0; --i)
    free_.push_back(i - 1);
}

DpdkReceiver::~DpdkReceiver() {
  if (!is_eal_usable()) return;
  for (rte_mbuf* frame : held_)
    rte_pktmbuf_free(frame);
}

std::size_t DpdkReceiver::receive(const Look& look, std::span<RxPacket> out) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < look.uses.size() && count < out.size(); ++i) {
    // Zero says that no packets were there: frames of others may lie in front of ours.
    std::size_t others = 0;
    for (std::size_t before = count; count == before && others < kMostOthers;) {
      const std::size_t most = std::min(out.size() - count, frames_.size());
      const std::size_t taken = take(i, *look.uses[i], std::span(frames_).first(most));
      if (taken == 0) break;
      count += take_in(
          {std::span(frames_).first(taken), look.uses[i].get(), look.rails, &clocks_[i], look.now},
          out.subspan(count));
      others += taken;
    }
  }
  packets_ += count;
  return count;
}

std::size_t DpdkReceiver::take(std::size_t index, PortUse& use, std::span<rte_mbuf*> frames) {
  PortDevice& device = use.port->device();
  std::size_t taken = device.receive(use.queue, frames);
  if (taken == 0) taken = use.mailbox.take(frames);
  // Queues whose endpoints do not look, or that no endpoint has.
  if (taken == 0 && device.queues() > 1) {
    std::uint16_t& next = next_queue_[index];
    next = static_cast<std::uint16_t>((next + 1) % device.queues());
    taken = device.receive(next, frames);
  }
  return taken;
}

const DpdkRail* DpdkReceiver::rail_of(const Burst& burst, const ParsedFrame& parsed) const {
  const std::size_t bytes = ip_address_bytes(parsed.family);
  const std::byte* destination = parsed.ip.data() + (parsed.family == 6 ? 24 : 16);
  for (const DpdkRail& rail : burst.rails) {
    const auto entropy =
        static_cast<std::uint16_t>(parsed.destination_port - rail.first_entropy_port);
    const bool is_port = parsed.destination_port == rail.address.port || entropy < rail.entropies;
    if (is_port && rail.use == burst.use && rail.address.family == parsed.family &&
        std::memcmp(rail.address.ip.data(), destination, bytes) == 0)
      return &rail;
  }
  return nullptr;
}

bool DpdkReceiver::is_damaged(const rte_mbuf& frame, const ParsedFrame& parsed) {
  const std::uint64_t verdict = frame.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_GOOD) return false;
  // What never was on a wire carries a sum of its pseudo header only, and says so.
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_NONE) return false;
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_BAD) return true;
  return !is_udp_checksum_right(parsed) && !is_udp_checksum_unfinished(parsed);
}

// A frame in several pieces does not fit our pool's packets: it is longer than the MTU.
rte_mbuf* DpdkReceiver::single(rte_mbuf* frame) {
  if (frame->nb_segs == 1) [[likely]]
    return frame;
  ++scattered_;
  if (rte_pktmbuf_linearize(frame) == 0) return frame;
  rte_pktmbuf_free(frame);
  return nullptr;
}

std::uint32_t DpdkReceiver::hold(rte_mbuf* frame) {
  if (free_.empty()) {
    const auto grown = static_cast<std::uint32_t>(held_.size());
    held_.resize(grown * std::size_t{2});
    for (std::uint32_t i = 2 * grown; i > grown; --i)
      free_.push_back(i - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  held_[slot] = frame;
  return slot;
}

std::size_t DpdkReceiver::take_in(const Burst& burst, std::span<RxPacket> out) {
  const RxTimestampField& stamps = burst.use->port->device().rx_timestamps();
  const auto vlan = static_cast<std::uint16_t>(burst.use->port->options().vlan);
  std::size_t count = 0;
  for (const rte_mbuf* frame : burst.frames)
    prefetch(rte_pktmbuf_mtod(frame, const void*));
  for (std::size_t i = 0; i < burst.frames.size(); ++i) {
    rte_mbuf* frame = single(burst.frames[i]);
    if (frame == nullptr) continue;
    ParsedFrame parsed;
    const FrameVerdict verdict = parse_frame(
        {rte_pktmbuf_mtod(frame, const std::byte*), rte_pktmbuf_data_len(frame)}, parsed);
    const DpdkRail* rail = nullptr;
    if (verdict == FrameVerdict::kUdp && parsed.vlan == vlan) rail = rail_of(burst, parsed);
    if (rail == nullptr) [[unlikely]] {
      burst.use->port->take_in(frame, verdict, parsed, burst.arrival);
      continue;
    }
    if (is_damaged(*frame, parsed)) [[unlikely]] {
      ++bad_checksums_;
      rte_pktmbuf_free(frame);
      continue;
    }
    RxPacket& packet = out[count++];
    packet = RxPacket{};
    packet.bytes = parsed.payload;
    packet.arrival = burst.arrival;
    if (const auto ticks = stamps.ticks_of(*frame); ticks && burst.clock->is_known()) {
      packet.arrival = burst.clock->arrival(*ticks, burst.arrival);
      ++stamped_;
    }
    packet.source = parsed.source();
    packet.rail = static_cast<std::uint16_t>(rail - burst.rails.data());
    packet.ecn = static_cast<Ecn>(parsed.traffic_class & 3U);
    packet.dscp = static_cast<std::uint8_t>(parsed.traffic_class >> 2U);
    packet.buffer = hold(frame);
    bytes_ += parsed.payload.size();
  }
  return count;
}

void DpdkReceiver::release(std::span<const RxPacket> packets) {
  std::size_t count = 0;
  for (const RxPacket& packet : packets) {
    SPINDRIFT_CHECK(packet.buffer < held_.size());
    rte_mbuf*& frame = held_[packet.buffer];
    SPINDRIFT_CHECK(frame != nullptr);  // else released twice
    frames_[count++] = frame;
    frame = nullptr;
    free_.push_back(packet.buffer);
    if (count < frames_.size()) continue;
    rte_pktmbuf_free_bulk(frames_.data(), static_cast<unsigned>(count));
    count = 0;
  }
  if (count != 0) rte_pktmbuf_free_bulk(frames_.data(), static_cast<unsigned>(count));
}

void DpdkReceiver::read_clocks(std::span<const std::unique_ptr<PortUse>> uses, Time now) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const PortDevice& device = uses[i]->port->device();
    if (device.rx_timestamps().exists()) clocks_[i].tell_of_port(device.id(), now);
  }
}

void DpdkReceiver::counters(CounterWriter& out) const {
  out.counter("rx_packets", packets_);
  out.counter("rx_bytes", bytes_);
  out.counter("rx_bad_checksums", bad_checksums_);
  out.counter("rx_scattered", scattered_);
  out.counter("rx_stamped", stamped_);
}

}  // namespace spindrift
