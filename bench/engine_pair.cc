#include "bench/engine_pair.h"

#include <algorithm>
#include <cstring>

#include "spindrift/open.h"

#include "transport/completions.h"
#include "transport/handshake.h"
#include "transport/open_connection.h"
#include "transport/poster.h"

namespace spindrift::bench {
namespace {

// A host's turn: near the time that 64 packets of 4 KiB take at 100 Gb/s.
constexpr Duration kTurn = std::chrono::microseconds(20);

EngineIdentity identity_of(std::uint8_t number) {
  EngineIdentity identity;
  identity.host_id = number;
  identity.seed = number;
  return identity;
}

std::byte* append(std::byte* to, std::span<const std::byte> bytes) {
  std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace

DirectLink::DirectLink()
    : data_(kPackets * kPacketBytes), control_(kPackets * kControlBytes), packets_(kPackets) {}

void DirectLink::stop_carrying_payload() {
  carries_payload_ = false;
  std::fill(data_.begin(), data_.end(), std::byte{0});
}

void DirectLink::carry(std::span<const TxPacket> burst, const NetAddress& source) {
  for (const TxPacket& packet : burst) {
    const std::size_t total = packet.total_bytes();
    std::byte* const begin = packet.payload_pieces == 0 ? &control_[count_ * kControlBytes]
                                                        : &data_[count_ * kPacketBytes];
    std::byte* at = append(begin, packet.header);
    for (std::size_t i = 0; i < packet.payload_pieces; ++i)
      at = carries_payload_ ? append(at, packet.payload[i]) : at + packet.payload[i].size();
    std::memcpy(at, packet.trailer.data(), packet.trailer_bytes);
    RxPacket& out = packets_[count_++];
    out.bytes = {begin, total};
    out.source = source;
    out.ecn = packet.ecn;
    out.dscp = packet.dscp;
    out.ends_burst = &packet == &burst.back();
  }
}

DirectHost::DirectHost(std::uint8_t number, const EnginePairOptions& options)
    : options_(options), engine_(EndpointConfig{}, builtin_registry(), *this, identity_of(number)) {
  address_.ip = {10, 0, 0, number};
  address_.port = kDefaultPort;
  address_.family = 4;
  caps_.name = "direct";
  caps_.max_packet_bytes = 16384;
  caps_.entropies = kMaxPaths;
  caps_.copies_on_send = true;
}

std::uint32_t DirectHost::max_packet_bytes(std::uint16_t /*rail*/,
                                           const NetAddress& /*remote*/) const {
  return caps_.max_packet_bytes;
}

Status DirectHost::open_entropies(std::uint16_t /*rail*/, std::uint16_t /*count*/) {
  return ok_status();
}

void DirectHost::receive(DirectLink& from, Time now) {
  const std::span<const RxPacket> packets = from.packets();
  for (std::size_t i = 0; i < packets.size(); i += options_.batch_packets) {
    const std::size_t count = std::min<std::size_t>(options_.batch_packets, packets.size() - i);
    engine_.on_packets(packets.subspan(i, count), now);
  }
  from.clear();
  engine_.on_timers(now);
}

void DirectHost::transmit(DirectLink& to, Time now) {
  std::size_t sent = 0;
  while (engine_.has_something_to_send() && sent < options_.turn_packets &&
         to.has_room(options_.batch_packets)) {
    const std::span<TxPacket> out = std::span(tx_).first(options_.batch_packets);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i].header = headers_[i];
    const std::size_t count = engine_.poll_transmit(out, now);
    to.carry(out.first(count), address_);
    sent += count;
  }
  on_released(context(), context().transmissions);
}

EnginePair::EnginePair(const EnginePairOptions& options)
    : options_(options), a_(1, options), b_(2, options) {
  Listener listener;
  listener.id = ListenerId{1};
  listener.rails = {0};
  listener.is_open = true;
  b_.context().listeners.push_back(listener);
}

bool EnginePair::open() {
  ConnectTarget target;
  target.remotes = {b_.address()};
  target.rails = {0};
  const auto conn = start_connect(a_.context(), target, options_.connection, now_);
  if (!conn.ok()) return false;
  at_a_ = a_.context().find(conn.value());
  for (int i = 0; i < 1000; ++i) {
    step();
    for (auto& holder : b_.context().connections) {
      if (!holder || holder->phase != Phase::kRequested) continue;
      at_b_ = holder.get();
      if (!accept_request(b_.context(), *at_b_, options_.connection, {}, now_).ok()) return false;
    }
  }
  if (!options_.carries_payload) to_b_.stop_carrying_payload();
  return at_a_->phase == Phase::kOpen && at_b_ != nullptr && at_b_->phase == Phase::kOpen;
}

void EnginePair::step() {
  a_.receive(to_a_, now_);
  a_.transmit(to_b_, now_);
  b_.receive(to_b_, now_);
  b_.transmit(to_a_, now_);
  now_ += kTurn;
}

bool EnginePair::post(const WorkRequest& work) {
  return post_work(a_.context(), {&work, 1}, now_).accepted == 1;
}

bool EnginePair::take_completions(std::uint64_t& count) {
  Ring<Completion>& done = a_.context().completions;
  count = 0;
  for (; !done.is_empty(); ++count) {
    if (done.front().status != OpStatus::kOk) return false;
    done.pop_front();
  }
  return true;
}

}  // namespace spindrift::bench
