#include "sim/sim_io.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/wire/pds.h"

namespace spindrift::sim {
namespace {

// While data is paused, as many may still leave: acknowledgements among them pass.
constexpr std::uint32_t kRoomWhilePaused = 8;

// Data packets that a host remembers until they are acknowledged.
constexpr std::size_t kTelemetryPlaces = 512;

// UDP payload that trimming leaves: both protocol headers.
constexpr std::uint32_t kTrimmedKept = 56;

std::uint32_t nic_of(const NetAddress& address) {
  return (std::uint32_t{address.ip[1]} << 16) | (std::uint32_t{address.ip[2]} << 8) | address.ip[3];
}

}  // namespace

NetAddress address_of_nic(std::uint32_t nic) {
  NetAddress address;
  address.ip[0] = 10;
  address.ip[1] = static_cast<std::uint8_t>(nic >> 16);
  address.ip[2] = static_cast<std::uint8_t>(nic >> 8);
  address.ip[3] = static_cast<std::uint8_t>(nic);
  address.port = kDefaultPort;
  address.family = 4;
  return address;
}

std::uint32_t tuple_hash(std::uint32_t source, std::uint32_t destination, std::uint16_t entropy) {
  std::uint64_t h = (std::uint64_t{source} << 40) ^ (std::uint64_t{destination} << 16) ^ entropy;
  h = (h ^ (h >> 31)) * 0x9E3779B97F4A7C15ULL;
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint32_t>(h >> 32);
}

std::uint32_t udp_payload_bytes(const Packet& packet) {
  return packet.is_trimmed ? std::min(packet.udp_bytes, kTrimmedKept) : packet.udp_bytes;
}

SimIo::SimIo(const Shape& shape, Network& network, const EventList& events)
    : shape_(shape),
      network_(network),
      events_(events),
      met_(shape.has_telemetry ? kTelemetryPlaces : 0),
      headers_(kHeaders * kMaxHeaderBytes) {
  caps_.name = "sim";
  caps_.max_packet_bytes = shape.max_packet_bytes;
  caps_.frame_overhead_bytes = shape.frame_overhead_bytes;
  caps_.entropies = kMaxPaths;
  caps_.link_rate = shape.link_rate;
  caps_.has_ecn = true;
  caps_.echoes_telemetry = shape.has_telemetry;
  caps_.has_rx_timestamp = true;
  caps_.copies_on_send = true;
}

void SimIo::deliver(std::uint32_t /*nic*/, PacketId packet) {
  arrived_.push_back(packet);
}

Result<std::uint16_t> SimIo::add_rail(const NetAddress& local) {
  const std::uint32_t nic = nic_of(local);
  if (nic != shape_.first_nic + rails_.size() || rails_.size() == shape_.nics)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(local.to_string(), " is not this simulated host's next NIC"));
  rails_.push_back(address_of_nic(nic));
  return static_cast<std::uint16_t>(rails_.size() - 1);
}

std::vector<NetAddress> SimIo::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> out;
  for (std::uint32_t k = 0; k < shape_.nics; ++k) {
    out.push_back(address_of_nic(shape_.first_nic + k));
    out.back().port = wildcard.port;
  }
  return out;
}

Result<NetAddress> SimIo::source_for(const NetAddress& /*remote*/) const {
  NetAddress address = address_of_nic(shape_.first_nic);
  address.port = 0;
  return address;
}

std::uint32_t SimIo::max_packet_bytes(std::uint16_t /*rail*/, const NetAddress& /*remote*/) const {
  return shape_.max_packet_bytes;
}

Status SimIo::open_entropies(std::uint16_t rail, std::uint16_t count) {
  SPINDRIFT_CHECK(rail < rails_.size() && count <= kMaxPaths);
  return ok_status();
}

std::size_t SimIo::receive(std::span<RxPacket> out) {
  std::size_t count = 0;
  for (; count < out.size() && arrived_at_ < arrived_.size(); ++count) {
    const PacketId id = arrived_[arrived_at_++];
    const Packet& packet = network_.packets()[id];
    RxPacket& to = out[count];
    to.bytes = {network_.packets().bytes(id), udp_payload_bytes(packet)};
    to.arrival = to_transport_time(packet.arrival);
    to.source = address_of_nic(packet.source);
    to.rail = static_cast<std::uint16_t>(packet.destination - shape_.first_nic);
    to.ecn = packet.ecn;
    to.dscp = packet.dscp;
    to.is_trimmed = packet.is_trimmed;
    to.is_trimmed_last_hop = packet.is_trimmed_last_hop;
    to.ends_burst = true;
    to.buffer = id;
    to.telemetry = {};
    if (shape_.has_telemetry) {
      keep_telemetry(id);
      to.telemetry = network_.packets().telemetry(id).view();
    }
    ++received_;
    received_bytes_ += packet.udp_bytes;
  }
  if (arrived_at_ == arrived_.size()) {
    arrived_.clear();
    arrived_at_ = 0;
  }
  return count;
}

void SimIo::release(std::span<const RxPacket> packets) {
  for (const RxPacket& packet : packets)
    network_.packets().give_back(packet.buffer);
}

std::size_t SimIo::reserve(std::span<TxPacket> out) {
  std::size_t room = 0;
  for (std::uint32_t k = 0; k < shape_.nics; ++k) {
    const std::uint32_t nic = shape_.first_nic + k;
    const std::uint32_t limit =
        shape_.nic_queue_packets + (network_.is_nic_paused(nic) ? kRoomWhilePaused : 0);
    const std::uint32_t queued = network_.queued_at_nic(nic);
    if (queued < limit) room += limit - queued;
  }
  room = std::min({room, out.size(), kHeaders});
  for (std::size_t i = 0; i < room; ++i) {
    // Payload and trailer are what their counts say: the rest need not be cleared.
    TxPacket& packet = out[i];
    packet.payload_pieces = 0;
    packet.trailer_bytes = 0;
    packet.rail = 0;
    packet.entropy = 0;
    packet.ecn = Ecn::kEct0;
    packet.dscp = 0;
    packet.header = std::span(headers_).subspan(i * kMaxHeaderBytes, kMaxHeaderBytes);
  }
  if (room == 0) wants_room_ = true;
  return room;
}

void SimIo::send(std::span<const TxPacket> packets) {
  for (const TxPacket& packet : packets)
    send_one(packet);
}

void SimIo::send_one(const TxPacket& packet) {
  ++sent_;
  const std::size_t bytes = packet.total_bytes();
  SPINDRIFT_CHECK(bytes <= shape_.max_packet_bytes);
  sent_bytes_ += bytes;
  const PacketId id = network_.packets().take();
  Packet& to = network_.packets()[id];
  to.udp_bytes = static_cast<std::uint32_t>(bytes);
  to.wire_bytes = std::max(to.udp_bytes + shape_.frame_overhead_bytes, shape_.min_frame_bytes);
  to.source = shape_.first_nic + packet.rail;
  to.destination = nic_of(*packet.to);
  to.entropy = packet.entropy;
  to.tuple_hash = tuple_hash(to.source, to.destination, packet.entropy);
  to.traffic = packet.dscp == shape_.control_dscp ? TrafficClass::kControl : TrafficClass::kData;
  to.ecn = packet.ecn;
  to.dscp = packet.dscp;
  store(id, packet);
  if (shape_.has_telemetry) echo_telemetry(id, packet);
  network_.send(id);
}

void SimIo::store(PacketId id, const TxPacket& packet) {
  if (carries_payload_) network_.packets().keep_whole(id);
  network_.packets()[id].kept_bytes =
      static_cast<std::uint16_t>(carries_payload_ ? packet.total_bytes() : packet.header.size());
  std::byte* at = network_.packets().bytes(id);
  std::memcpy(at, packet.header.data(), packet.header.size());
  if (!carries_payload_) return;
  at += packet.header.size();
  for (std::size_t i = 0; i < packet.payload_pieces; ++i) {
    std::memcpy(at, packet.payload[i].data(), packet.payload[i].size());
    at += packet.payload[i].size();
  }
  std::memcpy(at, packet.trailer.data(), packet.trailer_bytes);
}

// What a data packet brought, until its acknowledgement asks for it.
void SimIo::keep_telemetry(PacketId id) {
  const Packet& packet = network_.packets()[id];
  if (packet.traffic != TrafficClass::kData) return;
  wire::Pds pds;
  if (wire::parse_pds({network_.packets().bytes(id), packet.kept_bytes}, pds) !=
      wire::ParseError::kOk)
    return;
  const auto* request = std::get_if<wire::RudRequest>(&pds.header);
  if (request == nullptr) return;
  met_.keep({.sender_host = static_cast<std::uint16_t>(shape_.all_nics[packet.source].host),
             .sender_pdcid = request->spdcid,
             .psn = request->psn},
            network_.packets().telemetry(id));
}

void SimIo::echo_telemetry(PacketId id, const TxPacket& packet) {
  TelemetryStack& carried = network_.packets().telemetry(id);
  carried.count = 0;
  wire::Pds pds;
  if (wire::parse_pds(packet.header, pds) != wire::ParseError::kOk) return;
  const auto* ack = std::get_if<wire::Ack>(&pds.header);
  if (ack == nullptr || ack->is_probe) return;
  const std::uint32_t destination = network_.packets()[id].destination;
  const TelemetryStack* met = met_.find(
      {.sender_host = static_cast<std::uint16_t>(shape_.all_nics[destination].host),
       .sender_pdcid = ack->dpdcid,
       .psn = ack->cack_psn + static_cast<std::uint32_t>(std::int32_t{ack->ack_psn_offset})});
  if (met != nullptr) carried = *met;
}

std::size_t SimIo::poll_errors(std::span<IoError> /*out*/) {
  return 0;
}

void SimIo::append_wait_fds(std::vector<int>& /*out*/) const {}

void SimIo::counters(CounterWriter& out) const {
  out.counter("tx_packets", sent_);
  out.counter("tx_bytes", sent_bytes_);
  out.counter("rx_packets", received_);
  out.counter("rx_bytes", received_bytes_);
}

}  // namespace spindrift::sim
