#include "providers/memory/memory_host.h"

#include <algorithm>
#include <bit>

#include "transport/base/check.h"

namespace spindrift {
namespace {

// Where a host's own port choice and its entropies' source ports begin, as on Linux.
constexpr std::uint16_t kFirstFreePort = 20000;
constexpr std::uint16_t kFirstEntropyPort = 32768;

bool has_address(const std::vector<NetAddress>& addresses, const NetAddress& address) {
  return std::any_of(addresses.begin(), addresses.end(), [&](const NetAddress& one) {
    return one.is_same_host(address) && one.scope == address.scope;
  });
}

}  // namespace

MemoryHost::MemoryHost(MemoryWire& wire, const MemoryHostConfig& config)
    : wire_(wire), config_(config), headers_(kHeaders * kMaxHeaderBytes), errors_(kErrors) {
  SPINDRIFT_CHECK(config.entropies >= 1 && config.entropies <= kMaxPaths);
  SPINDRIFT_CHECK(config.max_burst_packets >= 1);
  SPINDRIFT_CHECK(config.copies_on_send || config.transmit_slots >= 1);
  caps_.name = config.name;
  caps_.max_packet_bytes = wire.config().max_packet_bytes;
  caps_.max_burst_bytes = config.max_burst_bytes;
  caps_.max_burst_packets = config.max_burst_packets;
  caps_.batch = config.batch;
  caps_.entropies = config.entropies;
  caps_.receive_buffer_bytes = config.receive_buffer_bytes;
  caps_.link_rate = wire.config().link_rate;
  caps_.has_ecn = config.has_ecn;
  caps_.has_rx_timestamp = true;
  caps_.copies_on_send = config.copies_on_send;
  is_gone_.resize(std::bit_ceil(static_cast<std::size_t>(config.transmit_slots)));
  index_ = wire.add_host(this);
  for (const NetAddress& address : config.addresses)
    wire.add_address(address, index_);
}

MemoryHost::~MemoryHost() {
  for (std::size_t i = arrived_head_; i < arrived_.size(); ++i)
    wire_.free_slot(arrived_[i]);
  wire_.remove_host(index_);
}

Result<std::uint16_t> MemoryHost::add_rail(const NetAddress& local) {
  if (!has_address(config_.addresses, local)) {
    return Error(ErrorCode::kInvalidArgument,
                 local.to_string() + " is not an address of this host of the memory network");
  }
  NetAddress address = local;
  if (address.port == 0) {
    address.port = kFirstFreePort;
    while (wire_.has_rail(address))
      ++address.port;
  }
  const auto rail = static_cast<std::uint16_t>(rails_.size());
  if (!wire_.add_rail(address, index_, rail)) {
    return Error(ErrorCode::kUnavailable,
                 address.to_string() + " is in use; choose another port or 0");
  }
  rails_.push_back(address);
  open_entropies_.push_back(0);
  return rail;
}

std::vector<NetAddress> MemoryHost::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> result;
  for (NetAddress address : config_.addresses) {
    if (address.family != wildcard.family) continue;
    address.port = wildcard.port;
    result.push_back(address);
  }
  return result;
}

Result<NetAddress> MemoryHost::source_for(const NetAddress& remote) const {
  for (NetAddress address : config_.addresses) {
    if (address.family != remote.family) continue;
    address.port = 0;
    return address;
  }
  return Error(ErrorCode::kNotFound, "no local address to reach " + remote.to_string());
}

std::uint32_t MemoryHost::max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const {
  static_cast<void>(remote);
  SPINDRIFT_CHECK(rail < rails_.size());
  return caps_.max_packet_bytes;
}

Status MemoryHost::open_entropies(std::uint16_t rail, std::uint16_t count) {
  SPINDRIFT_CHECK(rail < rails_.size());
  if (count > config_.entropies) {
    return Error(ErrorCode::kInvalidArgument, std::to_string(count) + " entropies asked for, " +
                                                  std::to_string(config_.entropies) +
                                                  " are the limit of this host");
  }
  open_entropies_[rail] = std::max(open_entropies_[rail], count);
  return ok_status();
}

std::size_t MemoryHost::receive(std::span<RxPacket> out) {
  wire_.deliver_due();
  std::size_t count = 0;
  for (; count < out.size() && arrived_head_ < arrived_.size(); ++count) {
    const std::uint32_t index = arrived_[arrived_head_++];
    const MemorySlot& slot = wire_.slot(index);
    RxPacket& packet = out[count];
    packet = RxPacket{};
    packet.bytes = std::span<const std::byte>(slot.data.get(), slot.bytes);
    packet.arrival = slot.arrival;
    packet.source = slot.source;
    packet.rail = slot.to_rail;
    packet.ecn = config_.has_ecn ? slot.ecn : Ecn::kNotEct;
    packet.dscp = slot.dscp;
    packet.ends_burst =
        arrived_head_ == arrived_.size() || wire_.slot(arrived_[arrived_head_]).burst != slot.burst;
    packet.buffer = index;
    waiting_bytes_ -= slot.bytes;
    ++rx_packets_;
    rx_bytes_ += slot.bytes;
  }
  lent_ += count;
  if (arrived_head_ * 2 >= arrived_.size()) {
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(arrived_head_));
    arrived_head_ = 0;
  }
  return count;
}

void MemoryHost::release(std::span<const RxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= lent_);
  lent_ -= packets.size();
  for (const RxPacket& packet : packets)
    wire_.free_slot(packet.buffer);
}

std::size_t MemoryHost::reserve(std::span<TxPacket> out) {
  wire_.deliver_due();
  std::size_t count = std::min(out.size(), kHeaders);
  if (!config_.copies_on_send) {
    count = std::min<std::size_t>(count, config_.transmit_slots - (sent_ - released_));
  }
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = TxPacket{};
    out[i].header = std::span(headers_).subspan(i * kMaxHeaderBytes, kMaxHeaderBytes);
  }
  reserved_ = count;
  return count;
}

void MemoryHost::send(std::span<const TxPacket> packets) {
  SPINDRIFT_CHECK(packets.size() <= reserved_);
  reserved_ -= packets.size();
  burst_.id = 0;
  for (const TxPacket& packet : packets) {
    SPINDRIFT_CHECK(packet.rail < rails_.size());
    SPINDRIFT_CHECK(packet.entropy < open_entropies_[packet.rail]);
    const std::size_t bytes = packet.total_bytes();
    const std::uint64_t serial = sent_++;
    is_gone_[serial & (is_gone_.size() - 1)] = false;
    if (!continues_burst(packet, bytes)) {
      burst_ = Burst{*packet.to,  serial + 1,     0,           bytes,     0,
                     packet.rail, packet.entropy, packet.dscp, packet.ecn};
    }
    ++burst_.packets;
    burst_.total_bytes += bytes;
    if (bytes < burst_.packet_bytes) burst_.packets = config_.max_burst_packets;
    bool is_under_way = false;
    if (bytes > caps_.max_packet_bytes) {
      ++tx_oversized_packets_;
    } else {
      NetAddress source = rails_[packet.rail];
      source.port = static_cast<std::uint16_t>(
          kFirstEntropyPort + (packet.rail * kMaxPaths + packet.entropy) % kFirstEntropyPort);
      tx_bytes_ += bytes;
      is_under_way = wire_.transmit(
          MemorySend{&packet, index_, source, burst_.id, serial, config_.copies_on_send});
    }
    if (!is_under_way || config_.copies_on_send) on_gone(serial);
  }
}

bool MemoryHost::continues_burst(const TxPacket& packet, std::size_t bytes) const {
  return burst_.id != 0 && burst_.packets < config_.max_burst_packets && burst_.packet_bytes > 0 &&
         bytes <= burst_.packet_bytes && burst_.total_bytes + bytes <= config_.max_burst_bytes &&
         packet.rail == burst_.rail && packet.entropy == burst_.entropy &&
         packet.ecn == burst_.ecn && packet.dscp == burst_.dscp && *packet.to == burst_.to;
}

std::size_t MemoryHost::poll_errors(std::span<IoError> out) {
  wire_.deliver_due();
  std::size_t count = 0;
  for (; count < out.size() && !errors_.is_empty(); ++count) {
    out[count] = errors_.front();
    errors_.pop_front();
  }
  return count;
}

void MemoryHost::append_wait_fds(std::vector<int>& out) const {
  static_cast<void>(out);
}

void MemoryHost::counters(CounterWriter& out) const {
  out.counter("tx_packets", sent_);
  out.counter("tx_bytes", tx_bytes_);
  out.counter("tx_oversized_packets", tx_oversized_packets_);
  out.counter("rx_packets", rx_packets_);
  out.counter("rx_bytes", rx_bytes_);
  out.counter("rx_overflow_packets", rx_overflow_packets_);
  out.counter("lost_errors", lost_errors_);
}

void MemoryHost::on_delivered(std::uint32_t slot) {
  const std::uint32_t bytes = wire_.slot(slot).bytes;
  if (waiting_bytes_ + bytes > config_.receive_buffer_bytes) {
    ++rx_overflow_packets_;
    ++wire_.stats().receive_buffer_drops;
    wire_.free_slot(slot);
    return;
  }
  waiting_bytes_ += bytes;
  arrived_.push_back(slot);
}

void MemoryHost::on_error(const IoError& error) {
  if (errors_.is_full()) {
    ++lost_errors_;
    return;
  }
  errors_.push_back(error);
}

void MemoryHost::on_gone(std::uint64_t send_serial) {
  const std::size_t mask = is_gone_.size() - 1;
  is_gone_[send_serial & mask] = true;
  while (released_ < sent_ && is_gone_[released_ & mask])
    ++released_;
}

}  // namespace spindrift
