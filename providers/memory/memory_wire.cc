#include "providers/memory/memory_wire.h"

#include <algorithm>
#include <cstring>

#include "providers/memory/memory_host.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

NetAddress without_port(NetAddress address) {
  address.port = 0;
  return address;
}

void append(MemorySlot& slot, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(slot.data.get() + slot.bytes, bytes.data(), bytes.size());
  slot.bytes += static_cast<std::uint32_t>(bytes.size());
}

void gather(MemorySlot& slot) {
  for (std::size_t i = 0; i < slot.payload_pieces; ++i)
    append(slot, slot.payload[i]);
  append(slot, std::span(slot.trailer).first(slot.trailer_bytes));
  slot.is_gathered = true;
}

}  // namespace

MemoryWire::MemoryWire(const MemoryNetworkConfig& config)
    : config_(config), path_max_packet_bytes_(config.max_packet_bytes) {
  SPINDRIFT_CHECK(config.max_packet_bytes >= 1 && config.max_packet_bytes <= 65507);
  SPINDRIFT_CHECK(config.one_way_delay >= Duration::zero());
}

Time MemoryWire::next_event() const {
  return events_.empty() ? kNever : events_.front().at;
}

void MemoryWire::advance_to(Time now) {
  SPINDRIFT_CHECK(now >= now_);
  deliver_until(now);
  now_ = now;
}

std::size_t MemoryWire::add_host(MemoryHost* host) {
  hosts_.push_back(HostEntry{host, Presence::kPresent});
  return hosts_.size() - 1;
}

// Packets of a closed host that were not gathered yet die with it, as they do in a NIC whose queue
// is destroyed: their payload may be gone by the time they would be delivered.
void MemoryWire::remove_host(std::size_t host) {
  const bool is_silent = hosts_[host].presence == Presence::kSilent;
  hosts_[host] = HostEntry{nullptr, is_silent ? Presence::kSilent : Presence::kRefuses};
  std::erase_if(rails_, [host](const auto& rail) { return rail.second.host == host; });
  for (const Event& event : events_) {
    MemorySlot& slot = *slots_[event.slot];
    const bool is_its_own = slot.kind == MemorySlot::Kind::kPacket && slot.from_host == host;
    if (is_its_own && !slot.is_gathered) slot.to_host = host;
  }
}

bool MemoryWire::add_rail(const NetAddress& address, std::size_t host, std::uint16_t rail) {
  return rails_.emplace(address, Port{host, rail, Time{}}).second;
}

void MemoryWire::add_address(const NetAddress& address, std::size_t host) {
  const auto [entry, is_new] = addresses_.emplace(without_port(address), host);
  if (is_new) return;
  SPINDRIFT_CHECK(hosts_[entry->second].host == nullptr);  // else two hosts have one address
  entry->second = host;
}

bool MemoryWire::transmit(const MemorySend& send) {
  const TxPacket& packet = *send.packet;
  const std::size_t host = send.host;
  if (!may_travel(host, packet)) return false;
  const auto port = rails_.find(*packet.to);
  if (port == rails_.end()) {
    const auto known = addresses_.find(without_port(*packet.to));
    ++stats_.unknown_address_drops;
    if (known == addresses_.end()) return false;
    const Presence presence = hosts_[known->second].presence;
    if (presence != Presence::kSilent) send_error(host, packet, IoError::Kind::kPortUnreachable);
    return false;
  }
  Time arrival = now_ + config_.one_way_delay;
  Ecn ecn = packet.ecn;
  if (!pass_queue(port->second, packet.total_bytes(), arrival, ecn)) return false;
  const std::uint32_t index = take_slot();
  MemorySlot& slot = *slots_[index];
  slot.kind = MemorySlot::Kind::kPacket;
  slot.from_host = host;
  slot.to_host = port->second.host;
  slot.to_rail = port->second.rail;
  slot.send_serial = send.serial;
  slot.burst = send.burst;
  slot.source = send.source;
  slot.ecn = ecn;
  slot.dscp = packet.dscp;
  // Kept for the answer of a host that refuses.
  slot.error = IoError{IoError::Kind::kPortUnreachable, *packet.to, packet.rail, packet.entropy, 0};
  fill(slot, packet, send.is_copied);
  schedule(arrival, index);
  return true;
}

bool MemoryWire::may_travel(std::size_t host, const TxPacket& packet) {
  if (hosts_[host].presence != Presence::kPresent) {
    ++stats_.unplugged_drops;
    return false;
  }
  if (packet.rail < paths_down_.size() && paths_down_[packet.rail].test(packet.entropy)) {
    ++stats_.path_down_drops;
    return false;
  }
  if (packet.total_bytes() > path_max_packet_bytes_) {
    ++stats_.too_big_drops;
    if (config_.reports_too_big) send_error(host, packet, IoError::Kind::kTooBig);
    return false;
  }
  return true;
}

bool MemoryWire::pass_queue(Port& port, std::size_t bytes, Time& arrival, Ecn& ecn) {
  if (config_.link_rate.is_unlimited()) return true;
  const Time start = std::max(arrival, port.link_free);
  const auto wait_ns = static_cast<unsigned __int128>((start - arrival).count());
  const auto queued_bytes =
      static_cast<std::uint64_t>(wait_ns * config_.link_rate.bits_per_second() / 8'000'000'000ULL);
  if (queued_bytes + bytes > config_.queue_bytes) {
    ++stats_.queue_drops;
    return false;
  }
  if (queued_bytes > config_.mark_bytes && ecn != Ecn::kNotEct) {
    ecn = Ecn::kCe;
    ++stats_.marked_packets;
  }
  // Whole nanoseconds, rounded up: a packet never leaves early.
  const std::uint64_t ns = (config_.link_rate.picoseconds_for(bytes) + 999) / 1000;
  port.link_free = start + Duration(static_cast<std::int64_t>(ns));
  arrival = port.link_free;
  return true;
}

void MemoryWire::fill(MemorySlot& slot, const TxPacket& packet, bool is_copied) const {
  SPINDRIFT_CHECK(packet.total_bytes() <= config_.max_packet_bytes);
  slot.bytes = 0;
  slot.payload_pieces = packet.payload_pieces;
  slot.payload = packet.payload;
  slot.trailer = packet.trailer;
  slot.trailer_bytes = packet.trailer_bytes;
  slot.is_gathered = false;
  append(slot, packet.header);
  if (is_copied) gather(slot);
}

void MemoryWire::send_error(std::size_t host, const TxPacket& packet, IoError::Kind kind) {
  const std::uint32_t index = take_slot();
  MemorySlot& slot = *slots_[index];
  slot.kind = MemorySlot::Kind::kError;
  slot.to_host = host;
  slot.error = IoError{kind, *packet.to, packet.rail, packet.entropy,
                       kind == IoError::Kind::kTooBig ? path_max_packet_bytes_ : 0};
  schedule(now_ + 2 * config_.one_way_delay, index);
}

std::uint32_t MemoryWire::take_slot() {
  if (free_slots_.empty()) {
    auto slot = std::make_unique<MemorySlot>();
    slot->data = std::make_unique<std::byte[]>(config_.max_packet_bytes);
    slots_.push_back(std::move(slot));
    free_slots_.reserve(slots_.size());
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  return index;
}

void MemoryWire::schedule(Time at, std::uint32_t index) {
  slots_[index]->arrival = at;
  events_.push_back(Event{at, next_serial_++, index});
  std::push_heap(events_.begin(), events_.end());
}

void MemoryWire::deliver_until(Time now) {
  while (!events_.empty() && events_.front().at <= now) {
    const std::uint32_t index = events_.front().slot;
    std::pop_heap(events_.begin(), events_.end());
    events_.pop_back();
    deliver(index);
  }
}

void MemoryWire::deliver(std::uint32_t index) {
  MemorySlot& slot = *slots_[index];
  const HostEntry& target = hosts_[slot.to_host];
  if (slot.kind == MemorySlot::Kind::kError) {
    if (target.host != nullptr) target.host->on_error(slot.error);
    free_slot(index);
    return;
  }
  const bool is_delivered = target.presence == Presence::kPresent;
  MemoryHost* sender = hosts_[slot.from_host].host;
  if (!slot.is_gathered && sender != nullptr) {
    if (is_delivered) gather(slot);
    sender->on_gone(slot.send_serial);
  }
  if (is_delivered) {
    ++stats_.delivered_packets;
    target.host->on_delivered(index);
    return;
  }
  ++stats_.unplugged_drops;
  if (target.presence == Presence::kRefuses && sender != nullptr) {
    // The slot becomes its own answer.
    slot.kind = MemorySlot::Kind::kError;
    slot.to_host = slot.from_host;
    schedule(slot.arrival + config_.one_way_delay, index);
    return;
  }
  free_slot(index);
}

void MemoryWire::set_path_down(std::uint16_t rail, std::uint16_t entropy, bool is_down) {
  SPINDRIFT_CHECK(entropy < kMaxPaths);
  if (rail >= paths_down_.size()) paths_down_.resize(rail + 1U);
  paths_down_[rail].set(entropy, is_down);
}

void MemoryWire::unplug(std::size_t host, MemoryNetwork::Unplugged how) {
  SPINDRIFT_CHECK(host < hosts_.size());
  hosts_[host].presence =
      how == MemoryNetwork::Unplugged::kSilent ? Presence::kSilent : Presence::kRefuses;
}

void MemoryWire::plug_in(std::size_t host) {
  SPINDRIFT_CHECK(host < hosts_.size() && hosts_[host].host != nullptr);
  hosts_[host].presence = Presence::kPresent;
}

void MemoryWire::say_link(std::size_t host, std::uint16_t rail, bool is_up) {
  SPINDRIFT_CHECK(host < hosts_.size() && hosts_[host].host != nullptr);
  IoError event;
  event.kind = is_up ? IoError::Kind::kLinkUp : IoError::Kind::kLinkDown;
  event.rail = rail;
  hosts_[host].host->on_error(event);
}

}  // namespace spindrift
